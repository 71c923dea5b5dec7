/* Losses by cross-entropy. A row of logits is read from memory once. */
#include <math.h>

#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"

enum {
    GRAIN = 8192, /* elements a task: microseconds, as each takes an exponential */
    /* Elements that are added up in float32: 4 sums of VF lanes add up 64 to 256 each */
    BLOCK = 4096
};
_Static_assert(BLOCK % (4 * VF) == 0, "blocks are whole rounds of the loops");

typedef struct entropy {
    tl_dtype type, label_type;
    const void *labels; /* or targets, of the type of the logits */
    const void *logits;
    const float *g, *lse; /* gradients */
    float *loss, *lse_out;
    void *out;
    int64_t classes;
    double smoothing;
    tl_opt_int ignored;
} entropy;

static int64_t label_at(const entropy *e, int64_t i)
{
    switch (e->label_type) {
    case TL_I64: return ((const int64_t *)e->labels)[i];
    case TL_I32: return ((const int32_t *)e->labels)[i];
    case TL_I16: return ((const int16_t *)e->labels)[i];
    case TL_I8: return ((const int8_t *)e->labels)[i];
    default: return ((const uint8_t *)e->labels)[i];
    }
}

static bool ignores(const entropy *e, int64_t label)
{
    return e->ignored.set && label == e->ignored.value;
}

static entropy entropy_of(const tl_node *n, int first)
{
    const tl_entropy_attr *a = n->attr;
    const tl_tensor *z = n->in[first + 1];
    TL_ASSERT(z->shape.rank > 0);
    return (entropy){.type = z->dtype,
                     .label_type = n->in[first]->dtype,
                     .labels = tli_data(n->in[first]),
                     .logits = tli_data(z),
                     .classes = z->shape.dims[z->shape.rank - 1],
                     .smoothing = a->smoothing,
                     .ignored = a->ignored};
}

static tl_status run_rows(const tl_run *run, entropy *e, int64_t rows, tl_parallel_fn *fn)
{
    return tl_parallel_for(run->threads, rows, e->classes < GRAIN ? GRAIN / e->classes : 1, fn, e);
}

/* --- rows ------------------------------------------------------------------------------------- */

TLI_INLINE void load_four(tl_dtype t, const void *z, int64_t i, vf *x)
{
    any_load_pair(t, z, i, x);
    any_load_pair(t, z, i + 2 * VF, x + 2);
}

/* The sum of exp(z - top), where `top` is the largest of them; 1 where that is not finite. */
TLI_INLINE double sum_of_exp(float *top_out, tl_dtype t, const void *z, int64_t n)
{
    vf m[4];
    int64_t i = 0;
    for (int k = 0; k < 4; k++) m[k] = vf_set1(-INFINITY);
    for (; i + 4 * VF <= n; i += 4 * VF) {
        vf x[4];
        load_four(t, z, i, x);
        for (int k = 0; k < 4; k++) m[k] = vf_max(m[k], x[k]);
    }
    for (; i < n; i += VF)
        m[0] =
            vf_max(m[0], vf_select(vm_first(n - i), any_load(t, z, i, n - i), vf_set1(-INFINITY)));
    const float top = vf_hmax(vf_max(vf_max(m[0], m[1]), vf_max(m[2], m[3])));
    *top_out = top;
    if (!isfinite(top)) return 1;
    const vf most = vf_set1(top);
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        const int64_t end = n - b < BLOCK ? n : b + BLOCK;
        vf s[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
        for (i = b; i + 4 * VF <= end; i += 4 * VF) {
            vf x[4];
            load_four(t, z, i, x);
            for (int k = 0; k < 4; k++) s[k] = vf_add(s[k], tli_exp_2_64(vf_sub(x[k], most)));
        }
        for (; i < end; i += VF)
            s[0] = vf_add(s[0], vf_keep(vm_first(end - i),
                                        tli_exp_2_64(vf_sub(any_load(t, z, i, end - i), most))));
        sum += vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
    }
    return sum * 0x1p-64;
}

TLI_INLINE double logsumexp(tl_dtype t, const void *z, int64_t n)
{
    float top;
    const double sum = sum_of_exp(&top, t, z, n);
    return top + log(sum);
}

/* Sum of lse - z: what smoothing spreads over the classes. */
TLI_INLINE double surprises(tl_dtype t, const void *z, int64_t n, float lse)
{
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        vf s = vf_zero();
        for (int64_t i = b, end = n - b < BLOCK ? n : b + BLOCK; i < end; i += VF)
            s = vf_add(
                s, vf_keep(vm_first(end - i), vf_sub(vf_set1(lse), any_load(t, z, i, end - i))));
        sum += vf_sum(s);
    }
    return sum;
}

/* --- labels ----------------------------------------------------------------------------------- */

TLI_INLINE void sparse_row(tl_dtype t, const entropy *e, int64_t row, double lse)
{
    const int64_t n = e->classes, label = label_at(e, row);
    const void *z = any_at(t, e->logits, row * n);
    double loss = 0;
    if (!ignores(e, label)) {
        TL_ASSERT(label >= 0 && label < n); // the kernel has looked at all of them
        loss = (1 - e->smoothing) * (lse - any_get(t, z, label));
        if (e->smoothing > 0) loss += e->smoothing / (double)n * surprises(t, z, n, (float)lse);
    }
    e->loss[row] = (float)loss;
    e->lse_out[row] = (float)lse;
}

/* Rows so short that a logarithm of each takes as long as all the rest: they are taken together, as
 * many as have their numbers on the stack in two lines of the cache each. */
enum { SHORT = 64, TOGETHER = 64 };
_Static_assert(TOGETHER % VF == 0, "whole vectors");

TLI_INLINE void short_rows(tl_dtype t, const entropy *e, int64_t begin, int64_t end)
{
    float top[TOGETHER], sum[TOGETHER];
    for (int64_t first = begin; first < end; first += TOGETHER) {
        const int64_t count = end - first < TOGETHER ? end - first : TOGETHER, n = e->classes;
        TL_ASSERT(count > 0 && n <= SHORT);
        for (int64_t i = 0; i < count; i++)
            sum[i] = (float)sum_of_exp(&top[i], t, any_at(t, e->logits, (first + i) * n), n);
        for (int64_t i = count; i % VF; i++) sum[i] = 1;
        for (int64_t i = 0; i < count; i += VF) vf_store(sum + i, vf_log(vf_load(sum + i)));
        for (int64_t i = 0; i < count; i++) sparse_row(t, e, first + i, (double)top[i] + sum[i]);
    }
}

TLI_INLINE void long_rows(tl_dtype t, const entropy *e, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++)
        sparse_row(t, e, row, logsumexp(t, any_at(t, e->logits, row * e->classes), e->classes));
}

static tl_status sparse_rows(int64_t begin, int64_t end, void *payload)
{
    const entropy copy = *(const entropy *)payload, *e = &copy;
    if (e->classes <= SHORT) {
        TLI_FLOAT_SWITCH(e->type, short_rows(T, e, begin, end));
    } else {
        TLI_FLOAT_SWITCH(e->type, long_rows(T, e, begin, end));
    }
    return TL_OK;
}

static tl_status sparse_cross_entropy_kernel(const tl_run *run, const tl_node *n)
{
    entropy e = entropy_of(n, 0);
    const int64_t rows = tl_tensor_count(n->in[0]);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t label = label_at(&e, i);
        // The reference says which label is wrong.
        if (!ignores(&e, label) && (label < 0 || label >= e.classes))
            return tli_run_reference(run, n);
    }
    e.loss = tli_data(n->out[0]);
    e.lse_out = tli_data(n->out[1]);
    TL_ASSERT(rows * e.classes == tl_tensor_count(n->in[1]) && tl_tensor_count(n->out[0]) == rows);
    return run_rows(run, &e, rows, sparse_rows);
}

TLI_INLINE void sparse_grad_row(tl_dtype t, const entropy *e, int64_t row)
{
    const int64_t n = e->classes, label = label_at(e, row), at = row * n;
    if (ignores(e, label)) {
        memset((char *)e->out + at * (int64_t)tl_dtype_size(t), 0, (size_t)n * tl_dtype_size(t));
        return;
    }
    // Before the gradients, which may lie there.
    const bool known = label >= 0 && label < n;
    const float z = known ? any_get(t, e->logits, at + label) : 0;
    const float spread = (float)(e->smoothing / (double)n);
    const vf g = vf_set1(e->g[row]), lse = vf_set1(e->lse[row]), even = vf_set1(spread);
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF) { // chains side by side: each waits for itself
        vf x[4];
        load_four(t, e->logits, at + i, x);
        for (int k = 0; k < 4; k++) x[k] = vf_exp_low(vf_sub(x[k], lse));
        for (int k = 0; k < 4; k++) x[k] = vf_mul(g, vf_sub(x[k], even));
        any_store_pair(t, e->out, at + i, x);
        any_store_pair(t, e->out, at + i + 2 * VF, x + 2);
    }
    for (; i < n; i += VF) {
        const vf share = vf_exp_low(vf_sub(any_load(t, e->logits, at + i, n - i), lse));
        any_store(t, e->out, at + i, vf_mul(g, vf_sub(share, even)), n - i);
    }
    if (!known) return;
    const double share = exp((double)z - e->lse[row]), target = 1 - e->smoothing + spread;
    any_put(t, e->out, at + label, (float)(e->g[row] * (share - target)));
}

static tl_status sparse_grad_rows(int64_t begin, int64_t end, void *payload)
{
    const entropy copy = *(const entropy *)payload, *e = &copy;
    TLI_FLOAT_SWITCH(e->type,
                     for (int64_t row = begin; row < end; row++) sparse_grad_row(T, e, row));
    return TL_OK;
}

static void set_grads(entropy *e, const tl_node *n)
{
    // A gradient for each row.
    TL_ASSERT(tl_tensor_count(n->in[0]) * e->classes == tl_tensor_count(n->in[2]));
    TL_ASSERT(tl_tensor_count(n->in[3]) == tl_tensor_count(n->in[0])
              && tl_shape_equal(&n->out[0]->shape, &n->in[2]->shape));
    e->g = tli_data(n->in[0]);
    e->lse = tli_data(n->in[3]);
    e->out = tli_data(n->out[0]);
}

static tl_status sparse_cross_entropy_grad_kernel(const tl_run *run, const tl_node *n)
{
    entropy e = entropy_of(n, 1);
    set_grads(&e, n);
    return run_rows(run, &e, tl_tensor_count(n->in[1]), sparse_grad_rows);
}

/* --- shares of all classes -------------------------------------------------------------------- */

TLI_INLINE vf target_at(tl_dtype t, const entropy *e, int64_t at, int64_t m)
{
    const vf kept = vf_set1((float)(1 - e->smoothing));
    const vf even = vf_set1((float)(e->smoothing / (double)e->classes));
    return vf_fma(any_load(t, e->labels, at, m), kept, even);
}

TLI_INLINE void dense_row(tl_dtype t, const entropy *e, int64_t row)
{
    const int64_t n = e->classes, at = row * n;
    const double lse = logsumexp(t, any_at(t, e->logits, at), n);
    const vf whole = vf_set1((float)lse);
    double loss = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        vf s = vf_zero();
        for (int64_t i = b, end = n - b < BLOCK ? n : b + BLOCK; i < end; i += VF) {
            const vf target = target_at(t, e, at + i, end - i);
            const vf d = vf_sub(whole, any_load(t, e->logits, at + i, end - i));
            // 0 times infinity is 0 here.
            const vm counts = vm_and(vf_ne(target, vf_zero()), vm_first(end - i));
            s = vf_add(s, vf_keep(counts, vf_mul(target, d)));
        }
        loss += vf_sum(s);
    }
    e->loss[row] = (float)loss;
    e->lse_out[row] = (float)lse;
}

static tl_status dense_rows(int64_t begin, int64_t end, void *payload)
{
    const entropy copy = *(const entropy *)payload, *e = &copy;
    TLI_FLOAT_SWITCH(e->type, for (int64_t row = begin; row < end; row++) dense_row(T, e, row));
    return TL_OK;
}

static tl_status cross_entropy_kernel(const tl_run *run, const tl_node *n)
{
    entropy e = entropy_of(n, 0);
    e.loss = tli_data(n->out[0]);
    e.lse_out = tli_data(n->out[1]);
    return run_rows(run, &e, tl_tensor_count(n->out[0]), dense_rows);
}

TLI_INLINE void dense_grad_row(tl_dtype t, const entropy *e, int64_t row)
{
    const int64_t n = e->classes, at = row * n;
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        vf s = vf_zero();
        for (int64_t i = b, end = n - b < BLOCK ? n : b + BLOCK; i < end; i += VF)
            s = vf_add(s, vf_keep(vm_first(end - i), target_at(t, e, at + i, end - i)));
        sum += vf_sum(s);
    }
    const vf total = vf_set1((float)sum), g = vf_set1(e->g[row]), lse = vf_set1(e->lse[row]);
    TLI_VECTORS(i, m, n)
    {
        const vf share = vf_exp_low(vf_sub(any_load(t, e->logits, at + i, m), lse));
        any_store(t, e->out, at + i,
                  vf_mul(g, vf_sub(vf_mul(share, total), target_at(t, e, at + i, m))), m);
    }
}

static tl_status dense_grad_rows(int64_t begin, int64_t end, void *payload)
{
    const entropy copy = *(const entropy *)payload, *e = &copy;
    TLI_FLOAT_SWITCH(e->type,
                     for (int64_t row = begin; row < end; row++) dense_grad_row(T, e, row));
    return TL_OK;
}

static tl_status cross_entropy_grad_kernel(const tl_run *run, const tl_node *n)
{
    entropy e = entropy_of(n, 1);
    set_grads(&e, n);
    return run_rows(run, &e, tl_tensor_count(n->in[3]), dense_grad_rows);
}

/* --- yes or no -------------------------------------------------------------------------------- */

typedef struct questions {
    tl_dtype type;
    const void *targets, *logits;
    float *loss;
} questions;

TLI_INLINE void answer(tl_dtype t, const questions *q, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += VF) {
        const vf z = any_load(t, q->logits, i, end - i),
                 target = any_load(t, q->targets, i, end - i);
        const vf above = vf_fnma(z, target, vf_max_c(z, vf_zero()));
        const vf loss = vf_add(above, tli_softplus_tail(z)); // last, as it may be small
        any_store(TL_F32, q->loss, i, loss, end - i);
    }
}

static tl_status answer_piece(int64_t begin, int64_t end, void *payload)
{
    const questions copy = *(const questions *)payload, *q = &copy;
    TLI_FLOAT_SWITCH(q->type, answer(T, q, begin, end));
    return TL_OK;
}

static tl_status sigmoid_cross_entropy_kernel(const tl_run *run, const tl_node *n)
{
    TL_ASSERT(tl_shape_equal(&n->in[0]->shape, &n->in[1]->shape)
              && n->in[0]->dtype == n->in[1]->dtype);
    questions q = {.type = n->in[1]->dtype,
                   .targets = tli_data(n->in[0]),
                   .logits = tli_data(n->in[1]),
                   .loss = tli_data(n->out[0])};
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[1]), GRAIN, answer_piece, &q);
}

#define ROWS(name, flags)                                                                          \
    {TL_OP_##name, TL_F32, name##_kernel, flags}, {TL_OP_##name, TL_BF16, name##_kernel, flags},   \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, flags                                                 \
    }
static const tl_kernel table[] = {
    ROWS(sparse_cross_entropy, 0),  ROWS(sparse_cross_entropy_grad, TL_KERNEL_OVER),
    ROWS(cross_entropy, 0),         ROWS(cross_entropy_grad, 0),
    ROWS(sigmoid_cross_entropy, 0),
};
TLI_SIMD_KERNELS(loss, table);
