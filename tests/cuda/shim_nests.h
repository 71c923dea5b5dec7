/* Part of shim.h, which includes it: loop nests of programs as a GPU walks them, their kernels
 * compiled as plain C. Groups run from the last one to the first, as they may in any order. */
#ifndef TILTH_TESTS_SHIM_NESTS_H
#define TILTH_TESTS_SHIM_NESTS_H

#include <tilth/sys/nest/methods.h>

#include "core/inner/storage.h"
#include "cuda/nests.h"

/* How many, for tests that want to know whether there were any. */
static int shim_nests_compiled;

typedef struct shim_code {
    tl_nest_fn *fn;
} shim_code;

typedef struct shim_library {
    struct shim_library *before;
    void *handle;
    shim_code codes[];
} shim_library;

typedef struct shim_compiler {
    shim_library *last;
} shim_compiler;

static inline tl_status shim_nest_open(tl_nest_compiler **out, tl_engine *engine)
{
    (void)engine;
    shim_compiler *c = tl_alloc_zero(sizeof *c);
    *out = (tl_nest_compiler *)c;
    return c ? TL_OK : TL_FAIL_NOMEM(sizeof *c);
}

static inline void shim_nest_close(tl_nest_compiler **with)
{
    shim_compiler *c = (shim_compiler *)*with;
    while (c && c->last) {
        shim_library *l = c->last;
        c->last = l->before;
        if (l->handle) dlclose(l->handle);
        tl_free(l);
    }
    tl_free(c);
    *with = NULL;
}

static inline void shim_nest_name(char out[32], int64_t number)
{
    snprintf(out, 32, "nest_%" PRId64, number);
}

static inline tl_status shim_nest_load(shim_library *l, const tl_str *text, int64_t count)
{
    l->handle = shim_library_of(tl_str_text(text));
    if (!l->handle) return TL_FAIL(TL_EINTERNAL, "nests do not compile as C");
    for (int64_t k = 0; k < count; k++) {
        char name[32];
        shim_nest_name(name, k);
        void *symbol = dlsym(l->handle, name);
        if (!symbol) return TL_FAIL(TL_EINTERNAL, "%s is not there", name);
        memcpy(&l->codes[k].fn, &symbol, sizeof symbol);
    }
    return TL_OK;
}

static inline tl_status shim_nest_compile(tl_nest_compiler *with, const char *program,
                                          const tl_nest_walk *const *walks, int64_t count,
                                          const tl_nest_code **out, double *seconds)
{
    shim_compiler *c = (shim_compiler *)with;
    tl_str text = TL_STR_INIT;
    const size_t bytes = (size_t)(2 * count + 1) * sizeof(int64_t);
    (void)program, (void)seconds;
    int64_t *of = tl_alloc(bytes), *first = of + count;
    if (!of) return TL_FAIL_NOMEM(bytes);
    const int64_t kernels = tl_nest_number(walks, count, of, first);
    shim_library *l = tl_alloc_zero(sizeof *l + (size_t)kernels * sizeof *l->codes);
    tl_status st = l ? TL_OK : TL_FAIL_NOMEM(sizeof *l);
    if (l) {
        l->before = c->last;
        c->last = l;
        tl_gpu_print_head(&text);
        for (int64_t k = 0; k < kernels; k++) {
            char name[32];
            shim_nest_name(name, k);
            tl_gpu_print(&text, (const tl_gpu_walk *)walks[first[k]], name, true);
        }
        st = tl_str_status(&text);
    }
    if (st == TL_OK && kernels) st = shim_nest_load(l, &text, kernels);
    for (int64_t i = 0; st == TL_OK && i < count; i++)
        out[i] = (const tl_nest_code *)&l->codes[of[i]];
    shim_nests_compiled += (int)kernels;
    tl_str_deinit(&text);
    tl_free(of);
    return st;
}

static inline tl_status shim_nest_run(const tl_run *run, const tl_node *call,
                                      const tl_nest_walk *walk, const tl_nest_code *code,
                                      const tl_tensor *scratch)
{
    enum { MOST = 512 };
    const tl_gpu_walk *w = (const tl_gpu_walk *)walk; // which it begins with
    void *buffers[MOST];
    const int count = call->inputs + call->outputs;
    (void)run;
    if (count > MOST) return TL_FAIL(TL_ELIMIT, "a nest of %d buffers", count);
    for (int i = 0; i < count; i++)
        buffers[i] = tli_data(i < call->inputs ? call->in[i] : call->out[i - call->inputs]);
    for (int phase = 0; phase < w->phase_count; phase++)
        for (int64_t g = w->phases[phase].groups - 1; g >= 0; g--)
            ((const shim_code *)code)
                ->fn(buffers, scratch ? tli_data(scratch) : NULL, phase, g, g + 1);
    return TL_OK;
}

/* What a GPU joins, and how it walks that. */
static inline const tl_nest_methods *shim_nests(void)
{
    static tl_nest_methods m;
    m = tli_cuda_nests;
    m.open = shim_nest_open;
    m.close = shim_nest_close;
    m.compile = shim_nest_compile;
    m.run = shim_nest_run;
    return &m;
}

#endif
