#include <tilth/sys/nest/methods.h>

const tl_nest_methods *tl_engine_nests(const tl_engine *engine)
{
    const tl_backend_class *b = tl_engine_backend(engine);
    const tl_device_class *device = tl_engine_device(engine)->cls;
    for (; b; b = b->fallback)
        if (b->nests && (b->device ? b->device : &tl_device_host) == device) return b->nests;
    return NULL;
}
