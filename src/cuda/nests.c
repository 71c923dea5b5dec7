#include "cuda/nests.h"

#include <inttypes.h>
#include <stdio.h>

#include <tilth/base/alloc.h>
#include <tilth/base/arena.h>
#include <tilth/base/clock.h>
#include <tilth/base/integer.h>
#include <tilth/base/pool.h>
#include <tilth/base/vec.h>
#include <tilth/sys/nest/gpu.h>

#include "core/inner/storage.h"
#include "cuda/device.h"
#include "cuda/lanes.h"
#include "cuda/whole.h"

enum {
    /* A unit is one call of the compiler, which takes as long to begin as for a small kernel: more
     * of them than threads gain nothing, and fewer leave threads idle */
    MOST_IN_UNIT = 32,
    NAME_ROOM = 40,
    MOST_BUFFERS = 500, /* a kernel takes 4 KB of parameters */
    WARPS_IN_BLOCK = 4  /* as in nest/kernel.h */
};

typedef struct compiler {
    tl_engine *engine;
    const tli_cuda *device;
    tl_arena *code; /* what was compiled */
    struct {
        CUmodule *items;
        int64_t count, capacity;
    } modules;
} compiler;

typedef struct code {
    CUfunction phases[TL_NEST_PHASES];
} code;

static const tl_gpu_walk *walk_of(const tl_nest_walk *walk)
{
    return (const tl_gpu_walk *)walk; // which it begins with
}

/* --- legality and cost ------------------------------------------------------------------------ */

static tl_status plan(const tl_nest_walk **out, tl_arena *arena, const tl_nest *nest)
{
    tl_gpu_walk *made;
    *out = NULL;
    TL_TRY(tl_gpu_walk_new(&made, arena, nest));
    *out = &made->walk;
    return TL_OK;
}

static bool as_good(const tl_nest_walk *both, const tl_nest_walk *a, const tl_nest_walk *b)
{
    return tl_gpu_walk_as_good(walk_of(both), walk_of(a), walk_of(b));
}

/* --- compiling -------------------------------------------------------------------------------- */

/* Units of kernels, compiled side by side. */
typedef struct job {
    const tli_cuda *device;
    const tl_nest_walk *const *walks;
    const int64_t *first;  /* a nest of each kernel */
    int64_t kernels, each; /* in all, and in a unit */
    char **images;
} job;

static tl_status compile_unit(const job *j, int64_t unit)
{
    tl_str text = TL_STR_INIT;
    size_t bytes;
    tl_gpu_print_head(&text);
    for (int64_t k = unit * j->each; k < tl_min_i64((unit + 1) * j->each, j->kernels); k++) {
        char name[NAME_ROOM];
        snprintf(name, sizeof name, "nest_%" PRId64, k);
        tl_gpu_print(&text, walk_of(j->walks[j->first[k]]), name, false);
    }
    tl_status st = tl_str_status(&text);
    if (st == TL_OK)
        st = tli_cuda_code(&j->images[unit], &bytes, j->device->codes, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

static tl_status compile_units(int64_t begin, int64_t end, void *payload)
{
    for (int64_t unit = begin; unit < end; unit++) TL_TRY(compile_unit(payload, unit));
    return TL_OK;
}

static tl_status load(compiler *c, const job *j, code *kernels)
{
    const tli_cuda_api *api = c->device->api;
    for (int64_t k = 0; k < j->kernels; k++) {
        if (k % j->each == 0) {
            CUmodule module;
            TLI_CUDA_TRY(api, cuModuleLoadData, &module, j->images[k / j->each]);
            if (!TL_VEC_PUSH(&c->modules, module)) {
                (void)api->cuModuleUnload(module);
                return TL_ENOMEM;
            }
        }
        for (int i = 0; i < walk_of(j->walks[j->first[k]])->phase_count; i++) {
            char name[NAME_ROOM];
            snprintf(name, sizeof name, "nest_%" PRId64 "_%d", k, i);
            TLI_CUDA_TRY(api, cuModuleGetFunction, &kernels[k].phases[i],
                         c->modules.items[c->modules.count - 1], name);
        }
    }
    return TL_OK;
}

static tl_status compile_kernels(compiler *c, job *j, code *kernels)
{
    const int threads = tl_pool_default_threads();
    j->each = tl_clamp_i64(tl_div_up(j->kernels, threads), 1, MOST_IN_UNIT);
    const int64_t units = tl_div_up(j->kernels, j->each);
    j->images = tl_alloc_zero((size_t)(units + 1) * sizeof *j->images);
    if (!j->images) return TL_FAIL_NOMEM((size_t)(units + 1) * sizeof *j->images);
    tl_pool *pool = NULL;
    tl_status st = tl_pool_new(&pool, threads);
    if (st == TL_OK) st = tl_parallel_for(pool, units, 1, compile_units, j);
    if (st == TL_OK) st = tli_cuda_enter(c->device);
    if (st == TL_OK) st = load(c, j, kernels);
    tl_pool_free(&pool);
    for (int64_t i = 0; i < units; i++) tl_free(j->images[i]);
    tl_free(j->images);
    return st;
}

static tl_status compile(tl_nest_compiler *with, const char *program,
                         const tl_nest_walk *const *walks, int64_t count, const tl_nest_code **out,
                         double *seconds)
{
    compiler *c = (compiler *)with;
    const int64_t begun = tl_clock_ns();
    int64_t *of = tl_alloc((size_t)(2 * count + 1) * sizeof *of), *first = of + count;
    if (!of) return TL_FAIL_NOMEM((size_t)(2 * count + 1) * sizeof *of);
    job j = {.device = c->device, .walks = walks, .first = first};
    j.kernels = tl_nest_number(walks, count, of, first);
    code *kernels = tl_arena_array(c->code, j.kernels, sizeof *kernels);
    tl_status st = kernels ? compile_kernels(c, &j, kernels) : TL_ENOMEM;
    if (st != TL_OK) st = tl_error_note(st, "%s", program);
    for (int64_t i = 0; st == TL_OK && i < count; i++)
        out[i] = (const tl_nest_code *)&kernels[of[i]];
    tl_free(of);
    *seconds += (double)(tl_clock_ns() - begun) * 1e-9;
    return st;
}

/* --- the compiler ----------------------------------------------------------------------------- */

static void close_compiler(tl_nest_compiler **with)
{
    compiler *c = (compiler *)*with;
    if (!c) return;
    // code must not go while it runs
    (void)!tl_engine_wait(c->engine);
    if (tli_cuda_enter(c->device) == TL_OK)
        for (int64_t i = 0; i < c->modules.count; i++)
            (void)c->device->api->cuModuleUnload(c->modules.items[i]);
    TL_VEC_FREE(&c->modules);
    tl_arena_free(&c->code);
    tl_free(c);
    *with = NULL;
}

static tl_status open_compiler(tl_nest_compiler **out, tl_engine *engine)
{
    const tli_cuda_api *api;
    *out = NULL;
    TL_TRY(tli_cuda_compiler(&api));
    compiler *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    c->engine = engine;
    c->device = tli_cuda_of(tl_engine_device(engine));
    *out = (tl_nest_compiler *)c;
    tl_status st = tl_arena_new(&c->code);
    if (st != TL_OK) close_compiler(out);
    return st;
}

/* --- running ---------------------------------------------------------------------------------- */

static tl_status launch(const tl_run *with, CUfunction kernel, const tl_gpu_phase *phase,
                        void **parameters)
{
    const int64_t blocks =
        phase->threads == 32 ? tl_div_up(phase->groups, WARPS_IN_BLOCK) : phase->groups;
    const int threads = phase->threads == 32 ? 32 * WARPS_IN_BLOCK : phase->threads;
    if (blocks == 0) return TL_OK;
    return tli_cuda_launch(with->queue, kernel, blocks, threads, 0, parameters, false);
}

tl_status tli_cuda_nest_put(const tl_run *with, const tl_node *call, const tl_gpu_walk *w,
                            const CUfunction *phases, void *scratch)
{
    const int count = call->inputs + call->outputs;
    void *addresses[MOST_BUFFERS + 1], *parameters[MOST_BUFFERS + 1];
    int used = 0;
    if (count > MOST_BUFFERS)
        return TL_FAIL(TL_ELIMIT, "a nest of %d buffers has too many for a GPU", count);
    for (int i = 0; i < count; i++) {
        if (!tl_gpu_uses(w, i)) continue;
        addresses[used++] = tli_data(i < call->inputs ? call->in[i] : call->out[i - call->inputs]);
    }
    addresses[used++] = scratch;
    for (int i = 0; i < used; i++) parameters[i] = &addresses[i];
    TL_TRY(tli_cuda_enter(tli_cuda_of(with->queue->device)));
    for (int i = 0; i < w->phase_count; i++)
        TL_TRY(launch(with, phases[i], &w->phases[i], parameters));
    if (tli_cuda_listed(with->queue))
        tli_whole_nest(tli_cuda_listed(with->queue), w, addresses, used);
    (void)tli_cuda_issue(with->queue);
    return TL_OK;
}

static tl_status run(const tl_run *with, const tl_node *call, const tl_nest_walk *walk,
                     const tl_nest_code *compiled, const tl_tensor *scratch)
{
    const code *kernels = (const code *)compiled;
    tli_cuda_queue *q = tli_cuda_queue_of(with->queue);
    void *room = scratch ? tli_data(scratch) : NULL;
    if (!kernels)
        return TL_FAIL(TL_EINTERNAL,
                       "a nest comes without code to a device that cannot interpret it");
    if (q->whole) tli_whole_call(q->whole, call);
    if (q->whole && room) tli_whole_writes(q->whole, room, walk->scratch_bytes);
    if (q->lanes) TL_TRY(tli_cuda_lanes_call(q, call, room, room ? walk->scratch_bytes : 0));
    TL_TRY(tli_cuda_nest_put(with, call, walk_of(walk), kernels->phases, room));
    return q->lanes ? tli_cuda_lanes_called(q) : TL_OK;
}

const tl_nest_methods tli_cuda_nests = {
    // Starting a kernel takes a GPU as long as a million points: what is smaller is better joined.
    .limits = {.members = 96, .tiny = 1 << 16, .small = 1 << 20},
    .compile_first = true,
    .singles = true,
    .plan = plan,
    .as_good = as_good,
    .open = open_compiler,
    .close = close_compiler,
    .compile = compile,
    .run = run,
};
