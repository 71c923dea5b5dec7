#include <tilth/sys/nest/methods.h>

const tl_nest_methods *tl_engine_nests(const tl_engine *engine)
{
    const tl_backend_class *b = tl_engine_backend(engine);
    const tl_device_class *device = tl_engine_device(engine)->cls;
    for (; b; b = b->fallback)
        if (b->nests && (b->device ? b->device : &tl_device_host) == device) return b->nests;
    return NULL;
}

int64_t tl_nest_number(const tl_nest_walk *const *walks, int64_t count, int64_t *of, int64_t *first)
{
    int64_t kernels = 0;
    for (int64_t i = 0; i < count; i++) {
        of[i] = -1;
        for (int64_t k = 0; k < kernels && of[i] < 0; k++)
            if (tl_nest_equal(&walks[i]->nest, &walks[first[k]]->nest)) of[i] = k;
        if (of[i] >= 0) continue;
        first[kernels] = i;
        of[i] = kernels++;
    }
    for (int64_t i = 0; i < count; i++) TL_ASSERT(of[i] < kernels && first[of[i]] <= i);
    return kernels;
}
