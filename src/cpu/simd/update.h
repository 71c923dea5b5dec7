/* What updates of float32 parameters share: a block, the numbers of a step, and sweeps over both.
 *
 *     TLI_INLINE void my_step(const block *b, const my_attr *a, float decay, int64_t i, int64_t n);
 *     static void my_sweep(const block *shared, int64_t begin, int64_t end, float decay)
 *     {
 *         const block copy = *shared, *b = &copy;
 *         SWEEP(my_step, b, b->attr, decay);
 *     }
 *     ...
 *     block b = {.sweep = my_sweep};
 *     return run_block(run, n, &b);
 *
 * Thread word: free-threaded. */
#ifndef TLI_CPU_SIMD_UPDATE_H
#define TLI_CPU_SIMD_UPDATE_H

#include "core/inner/gradient_run.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"

enum { PARAM, GRAD, HYPER, SLOTS };        /* inputs */
enum { RATE, STEP, SCALE, APPLY, HYPERS }; /* elements of the third */
/* Elements a task: 64 KiB of each operand, microseconds */
enum { GRAIN = 16384 };
_Static_assert(GRAIN % (4 * VF) == 0, "only the last task has a rest");

/* Whole loops over vectors side by side: only then can they stay in registers. */
#if defined(__clang__)
#define UNROLLED(...) _Pragma("clang loop unroll(full)") for (__VA_ARGS__)
#else
#define UNROLLED(...) _Pragma("GCC unroll 16") for (__VA_ARGS__)
#endif

/* One update: a block and the numbers of this step. */
typedef struct block block;
typedef void sweep_fn(const block *b, int64_t begin, int64_t end, float decay);
struct block {
    float *w, *slot[3];
    void *copy; /* of w in another type, or NULL */
    const void *grad;
    tl_dtype grad_type, copy_type;
    tl_ints runs; /* of the gradient, whose types then are theirs; or empty */
    int64_t count;
    const void *attr;
    sweep_fn *sweep;
    double rate, step;
    float scale, decay;
    tl_ints offsets, decayed;
};

TLI_INLINE vf load_grad(const block *b, int64_t i, int64_t n)
{
    return vf_mul(any_load(b->grad_type, b->grad, i, n), vf_set1(b->scale));
}

TLI_INLINE vf get(const float *p, int64_t i, int64_t n)
{
    return n == VF ? vf_load(p + i) : vf_load_n(p + i, n);
}

TLI_INLINE void put(float *p, int64_t i, vf x, int64_t n)
{
    if (n == VF) vf_store(p + i, x);
    else vf_store_n(p + i, x, n);
}

// A weight that was moved, and its copy.
TLI_INLINE void put_weight(const block *b, int64_t i, vf w, int64_t n)
{
    put(b->w, i, w, n);
    if (b->copy) any_store(b->copy_type, b->copy, i, w, n);
}

// Where element 0 of the block would lie if all were of this run; only elements of it are read.
static inline const void *run_data(const tli_gradient_run *r)
{
    return (const void *)((uintptr_t)r->data
                          - (uintptr_t)(r->begin * (int64_t)tl_dtype_size(r->type)));
}

// The tensor of the block that holds element `at`.
static inline int64_t part_at(const block *b, int64_t at)
{
    int64_t low = 0, high = b->offsets.count - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (b->offsets.items[middle] <= at) low = middle;
        else high = middle - 1;
    }
    TL_ASSERT(b->offsets.items[low] <= at
              && (low + 1 == b->offsets.count || at < b->offsets.items[low + 1]));
    return low;
}

// All of whose gradients are of one type.
static inline void sweep_alike(const block *b, int64_t begin, int64_t end)
{
    if (!b->decayed.count || !b->offsets.count) {
        b->sweep(b, begin, end, b->decay);
        return;
    }
    for (int64_t k = part_at(b, begin); begin < end; k++) {
        const int64_t next = k + 1 < b->offsets.count ? b->offsets.items[k + 1] : end;
        const int64_t stop = next < end ? next : end;
        TL_ASSERT(begin < stop && k < b->decayed.count);
        b->sweep(b, begin, stop, b->decayed.items[k] ? b->decay : 0);
        begin = stop;
    }
}

/* The block as it is from element `begin` on, up to `*end`: with gradients of one type, element i
 * of which lies at i. */
static inline block block_from(const block *b, int64_t begin, int64_t *end)
{
    block own = *b;
    if (!b->runs.count) return own;
    const tli_gradient_run r = tli_gradient_run_at(b->runs, b->grad, b->count, begin);
    if (r.end < *end) *end = r.end;
    own.grad = run_data(&r);
    own.grad_type = r.type;
    return own;
}

static inline tl_status sweep_piece(int64_t begin, int64_t end, void *payload)
{
    for (int64_t stop; begin < end; begin = stop) {
        stop = end;
        const block own = block_from(payload, begin, &stop);
        sweep_alike(&own, begin, stop);
    }
    return TL_OK;
}

static inline void fill_block(const tl_node *n, block *b)
{
    const float *hyper = tli_data(n->in[HYPER]);
    b->w = tli_data(n->in[PARAM]);
    b->grad = tli_data(n->in[GRAD]);
    b->grad_type = n->in[GRAD]->dtype;
    const tl_update_attr *attr = n->attr;
    const int slots = n->inputs - SLOTS - attr->copy;
    b->runs = attr->runs;
    b->count = tl_tensor_count(n->in[PARAM]);
    TL_ASSERT(slots >= 0 && slots <= 3 && n->in[PARAM]->dtype == TL_F32
              && tl_tensor_count(n->in[HYPER]) >= HYPERS);
    for (int i = 0; i < slots; i++) b->slot[i] = tli_data(n->in[SLOTS + i]);
    for (int i = GRAD; i < n->inputs; i++) // all are as long as the weights
        TL_ASSERT(i == HYPER || (i == GRAD && attr->runs.count)
                  || tl_tensor_count(n->in[i]) == b->count);
    if (SLOTS + slots < n->inputs) {
        b->copy = tli_data(n->in[SLOTS + slots]);
        b->copy_type = n->in[SLOTS + slots]->dtype;
    }
    b->attr = n->attr;
    b->rate = hyper[RATE];
    b->step = hyper[STEP];
    b->scale = hyper[SCALE];
}

static inline bool is_skipped(const tl_node *n)
{
    return ((const float *)tli_data(n->in[HYPER]))[APPLY] == 0;
}

static inline tl_status run_block(const tl_run *run, const tl_node *n, block *b)
{
    if (is_skipped(n)) return TL_OK;
    if (n->in[GRAD]->dtype == TL_F64) return tli_run_reference(run, n);
    fill_block(n, b);
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[PARAM]), GRAIN, sweep_piece, b);
}

/* Loops are written once for n lanes; most rounds have all of them, and know it. */
/* `b` is a copy: what is stored through its pointers cannot change it, and it stays in registers.
 */
#define SWEEP(step, ...)                                                                           \
    do {                                                                                           \
        int64_t i = begin;                                                                         \
        for (; i + VF <= end; i += VF) step(__VA_ARGS__, i, VF);                                   \
        if (i < end) step(__VA_ARGS__, i, end - i);                                                \
    } while (0)

/* Vectors that are done beside each other: the units for roots and quotients are what some rules
 * take longest in, and one vector alone would leave them idle between its root and its quotient.
 * With the numbers of a rule they fill 16 registers, or 32. */
#if defined(TLI_ISA_neon) || defined(TLI_ISA_neon_bf16)
enum { WAYS = 8 };
#else
enum { WAYS = 4 };
#endif
_Static_assert(GRAIN % (WAYS * VF) == 0, "tasks are whole rounds");
#define SWEEP_BESIDE(steps, ...)                                                                   \
    do {                                                                                           \
        int64_t i = begin;                                                                         \
        for (; i + WAYS * VF <= end; i += WAYS * VF) steps(__VA_ARGS__, WAYS, i, VF);              \
        for (; i + VF <= end; i += VF) steps(__VA_ARGS__, 1, i, VF);                               \
        if (i < end) steps(__VA_ARGS__, 1, i, end - i);                                            \
    } while (0)

typedef int64_t i64;
#include "cpu/inner/nadam.h"
TLI_INLINE double power_of_step(double x, double step)
{
    return __builtin_pow(x, step);
}

#include "cpu/inner/update_rules.h"

#endif
