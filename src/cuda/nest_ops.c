/* Single calls of elementwise ops and reductions: each is a loop nest of its own, whose kernels are
 * kept by what it computes. */
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/arena.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/nest/gpu.h>

#include "core/inner/ctx.h"
#include "core/inner/storage.h"
#include "cuda/compile.h"
#include "cuda/kernels.h"
#include "cuda/nests.h"

enum { MOST_TERMS = 6 };

/* A nest, and what it points to. */
typedef struct single {
    tl_nest nest;
    tl_term terms[MOST_TERMS];
    tl_nest_store store;
    tl_cast_attr widen, round;
} single;

typedef struct kept {
    tl_arena *arena;
    tl_gpu_walk *walk;
    CUfunction phases[TL_NEST_PHASES];
} kept;

static bool is_reduction(tl_op op)
{
    return op == TL_OP_sum || op == TL_OP_mean || op == TL_OP_max || op == TL_OP_min
           || op == TL_OP_prod || op == TL_OP_any || op == TL_OP_all;
}

static tl_op reduction_of(tl_op op)
{
    return op == TL_OP_mean ? TL_OP_sum : op;
}

/* Whether elements of the result differ along all its axes, as far as they are looked for: a nest
 * stores what is the same for several once. */
static bool varies(const tl_node *call)
{
    const tl_tensor *out = call->out[0];
    if (is_reduction(call->op->op)) {
        const tl_tensor *in = call->in[0];
        for (int i = 0; i < in->shape.rank; i++)
            if (in->shape.dims[i] > 1 && in->strides[i] == 0) return false;
        return true;
    }
    for (int i = 0; i < out->shape.rank; i++) {
        bool moves = out->shape.dims[i] <= 1;
        for (int k = 0; k < call->inputs; k++) {
            const tl_tensor *in = call->in[k];
            const int at = i - (out->shape.rank - in->shape.rank);
            moves |= at >= 0 && in->shape.dims[at] > 1 && in->strides[at] != 0;
        }
        if (!moves) return false;
    }
    return true;
}

bool tli_cuda_nest_takes(const tl_engine *engine, const tl_node *call)
{
    const tl_op op = call->op->op;
    const tl_dtype out = call->out[0]->dtype;
    (void)engine;
    if (op == TL_OP_sort || op == TL_OP_top_k) return tli_cuda_sorts(call);
    if (!varies(call)) return false;
    if (is_reduction(op)) {
        const tl_reduce_attr *a = call->attr;
        // the mean of a number is that number, divided by 1
        return (a->axes.count > 0 || op == TL_OP_mean) && tl_tensor_count(call->in[0]) > 0
               && tl_nest_has_op(reduction_of(op), out, call->in[0]->dtype);
    }
    const int by = call->op->by < 0 ? 0 : call->op->by;
    return call->inputs <= TL_TERM_INPUTS && tl_nest_has_op(op, out, call->in[by]->dtype);
}

/* --- the nest --------------------------------------------------------------------------------- */

static int add(single *s, tl_term t)
{
    TL_ASSERT(s->nest.term_count < MOST_TERMS);
    s->terms[s->nest.term_count] = t;
    return (int)s->nest.term_count++;
}

/* Dim i of `t` stands under dim i + extra of the space. */
static int add_load(single *s, const tl_tensor *t, int buffer)
{
    tl_term term = {.kind = TL_TERM_LOAD, .dtype = t->dtype};
    const int extra = s->nest.rank - t->shape.rank;
    term.from = (tl_access){.buffer = buffer, .dtype = t->dtype};
    for (int i = 0; i < t->shape.rank; i++)
        if (t->shape.dims[i] != 1) term.from.strides[i + extra] = t->strides[i];
    return add(s, term);
}

static int add_cast(single *s, int in, tl_cast_attr *attr, tl_dtype dtype)
{
    attr->dtype = dtype;
    return add(s, (tl_term){.kind = TL_TERM_OP,
                            .op = TL_OP_cast,
                            .dtype = dtype,
                            .attr = attr,
                            .inputs = 1,
                            .in = {in}});
}

static int add_reduction(single *s, const tl_node *call, int in, uint32_t *reduced)
{
    const tl_reduce_attr *a = call->attr;
    const tl_dtype dtype = call->out[0]->dtype;
    const bool mean = call->op->op == TL_OP_mean;
    double count = 1;
    for (int64_t i = 0; i < a->axes.count; i++) {
        *reduced |= 1u << a->axes.items[i];
        count *= (double)call->in[0]->shape.dims[a->axes.items[i]];
    }
    // a mean is rounded once, when it is divided
    const tl_dtype wide = mean && dtype != TL_F64 ? TL_F32 : dtype;
    if (wide != dtype) in = add_cast(s, in, &s->widen, wide);
    const tl_term term = {.kind = TL_TERM_REDUCE,
                          .op = reduction_of(call->op->op),
                          .inputs = 1,
                          .in = {in},
                          .axes = *reduced,
                          .dtype = wide};
    const int sum = *reduced ? add(s, term) : in;
    if (!mean) return sum;
    const int by = add(s, (tl_term){.kind = TL_TERM_NUMBER, .dtype = wide, .number = count});
    const int quotient = add(
        s, (tl_term){
               .kind = TL_TERM_OP, .op = TL_OP_div, .dtype = wide, .inputs = 2, .in = {sum, by}});
    return wide == dtype ? quotient : add_cast(s, quotient, &s->round, dtype);
}

static void describe(single *s, const tl_node *call)
{
    const bool reduces = is_reduction(call->op->op);
    const tl_shape *space = reduces ? &call->in[0]->shape : &call->out[0]->shape;
    uint32_t reduced = 0;
    int last, in[TL_TERM_INPUTS] = {0};
    int64_t stride = 1;
    *s = (single){.nest = {.rank = space->rank, .buffer_count = call->inputs + 1}};
    memcpy(s->nest.dims, space->dims, sizeof s->nest.dims);
    for (int i = 0; i < call->inputs; i++) in[i] = add_load(s, call->in[i], i);
    if (reduces) {
        last = add_reduction(s, call, in[0], &reduced);
    } else {
        tl_term t = {.kind = TL_TERM_OP,
                     .op = call->op->op,
                     .dtype = call->out[0]->dtype,
                     .attr = call->attr,
                     .inputs = call->inputs};
        memcpy(t.in, in, sizeof t.in);
        last = add(s, t);
    }
    s->store = (tl_nest_store){last, {.buffer = call->inputs, .dtype = call->out[0]->dtype}};
    for (int i = space->rank - 1; i >= 0; i--) {
        if (reduced >> i & 1 || space->dims[i] == 1) continue;
        s->store.to.strides[i] = stride;
        stride *= space->dims[i];
    }
    s->nest.terms = s->terms;
    s->nest.stores = &s->store;
    s->nest.store_count = 1;
}

/* --- its kernels ------------------------------------------------------------------------------ */

static void forget(kept *k)
{
    tl_arena_free(&k->arena);
    tl_free(k);
}

void tli_cuda_singles_deinit(tli_cuda *d)
{
    for (int64_t i = 0; i < tl_map_count(&d->singles); i++) forget(tl_map_at(&d->singles, i));
    tl_map_deinit(&d->singles);
}

/* The nest is printed again when its call becomes part of a larger kernel, and the call's
 * attributes may be gone by then. */
static tl_status keep_attrs(tl_arena *arena, single *s)
{
    for (int i = 0; i < s->nest.term_count; i++) {
        tl_term *t = &s->terms[i];
        if (!t->attr) continue;
        t->attr = tli_attr_copy(arena, tl_op_class_of(t->op)->attr, t->attr);
        if (!t->attr) return TL_ENOMEM;
    }
    return TL_OK;
}

/* Its walk, and the text of its kernels. */
static tl_status print(tl_str *text, kept *k, single *s)
{
    TL_TRY(tl_arena_new(&k->arena));
    TL_TRY(keep_attrs(k->arena, s));
    TL_TRY(tl_gpu_walk_new(&k->walk, k->arena, &s->nest));
    tl_gpu_print_head(text);
    tl_gpu_print(text, k->walk, "nest", false);
    return tl_str_status(text);
}

static tl_status compile(tli_cuda *d, kept *k, single *s)
{
    tl_str text = TL_STR_INIT;
    tl_status st = print(&text, k, s);
    if (st == TL_OK) st = tli_cuda_load(d, &k->phases[0], tl_str_text(&text), "nest_0");
    if (st == TL_OK && k->walk->phase_count > 1)
        st = tli_cuda_check(d->api->cuModuleGetFunction(
                                &k->phases[1], d->modules.items[d->modules.count - 1], "nest_1"),
                            "cuModuleGetFunction");
    tl_str_deinit(&text);
    return st;
}

static tl_status compile_ahead(const tli_cuda *d, single *s)
{
    tl_str text = TL_STR_INIT;
    kept k = {0};
    tl_status st = print(&text, &k, s);
    if (st == TL_OK) st = tli_cuda_code_ahead(d->codes, tl_str_text(&text));
    tl_arena_free(&k.arena);
    tl_str_deinit(&text);
    return st;
}

/* NULL where the queue only foresees. */
static tl_status find(tl_queue *queue, const kept **out, single *s)
{
    tli_cuda *d = tli_cuda_of(queue->device);
    tl_str key = TL_STR_INIT;
    tl_nest_text(&s->nest, &key);
    tl_status st = tl_str_status(&key);
    if (st == TL_OK) *out = tl_map_get(&d->singles, tl_str_text(&key));
    if (st == TL_OK && !*out && tli_cuda_foresees(queue)) {
        if (tli_cuda_asks(queue, tl_str_text(&key))) st = compile_ahead(d, s);
    } else if (st == TL_OK && !*out) {
        kept *k = tl_alloc_zero(sizeof *k);
        st = k ? compile(d, k, s) : TL_FAIL_NOMEM(sizeof *k);
        if (st == TL_OK) st = tl_map_set(&d->singles, tl_str_text(&key), k);
        if (st != TL_OK && k) forget(k);
        else *out = k;
    }
    tl_str_deinit(&key);
    return st;
}

static tl_status run_single(const tl_run *run, const tl_node *call)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    const kept *k = NULL;
    single s;
    void *scratch = NULL;
    if (!tl_tensor_count(call->out[0])) return TL_OK;
    describe(&s, call);
    TL_TRY(tli_cuda_enter(d));
    pthread_mutex_lock(&d->lock);
    tl_status st = find(run->queue, &k, &s);
    pthread_mutex_unlock(&d->lock);
    if (st != TL_OK || tli_cuda_foresees(run->queue)) return st;
    if (k->walk->walk.scratch_bytes)
        TL_TRY(tli_cuda_scratch(run, &scratch, k->walk->walk.scratch_bytes));
    return tli_cuda_nest_put(run, call, k->walk, k->phases, scratch);
}

#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    {TL_OP_##op, TL_DTYPE_COUNT, run_single, TL_KERNEL_STRIDED},
#define REDUCTION(op) TL_INIT(TL_OP_##op, TL_DTYPE_COUNT, run_single, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {
#include <tilth/core/elementwise.def>
    REDUCTION(sum),  REDUCTION(mean), REDUCTION(max), REDUCTION(min),
    REDUCTION(prod), REDUCTION(any),  REDUCTION(all),
};
const tl_kernels tli_cuda_nest_kernels = {rows, TL_COUNT(rows)};
