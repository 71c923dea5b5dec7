/* softmax and its logarithm along any axis. The last axis is taken row by row, from the first cache
 * after its first sweep; any other one in columns, as many at once as a few vectors hold. */
#include <math.h>

#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/math.h"

enum {
    GRAIN = 8192, /* elements a task: microseconds, as each takes an exponential */
    /* Elements that are added up in float32: 4 sums of VF lanes add up 64 to 256 each */
    BLOCK = 4096,
    /* Vectors of columns at once: 4 largest and 4 sums are 8 of 16 registers, the others are the
     * exponential's */
    STRIP = 4
};
_Static_assert(BLOCK % (4 * VF) == 0, "blocks are whole rounds of the loops");

typedef struct rows {
    tl_dtype type;
    bool logarithm;
    const void *x, *gy; /* x: for gradients the result of softmax */
    void *out;
    int64_t count, length, stride;
    int64_t strips; /* of columns in what lies behind the axis */
} rows;

static rows rows_of(const tl_node *n, bool logarithm)
{
    const tl_softmax_attr *a = n->attr;
    const tl_tensor *x = n->in[0];
    rows r = {.type = x->dtype,
              .logarithm = logarithm,
              .length = x->shape.dims[a->axis],
              .stride = 1,
              .out = tli_data(n->out[0])};
    for (int i = (int)a->axis + 1; i < x->shape.rank; i++) r.stride *= x->shape.dims[i];
    const int64_t count = tl_tensor_count(x);
    r.count = count ? count / r.length : 0;
    r.strips = (r.stride + STRIP * VF - 1) / (STRIP * VF);
    TL_ASSERT(a->axis >= 0 && a->axis < x->shape.rank
              && tl_shape_equal(&x->shape, &n->out[0]->shape));
    TL_ASSERT(!count || r.count % r.stride == 0);
    return r;
}

/* --- the last axis ---------------------------------------------------------------------------- */

TLI_INLINE float greatest(tl_dtype t, const void *x, int64_t n)
{
    vf m[4];
    for (int k = 0; k < 4; k++) m[k] = vf_set1(-INFINITY);
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF)
        for (int k = 0; k < 4; k++) m[k] = vf_max(m[k], any_load(t, x, i + k * VF, VF));
    for (; i + VF <= n; i += VF) m[0] = vf_max(m[0], any_load(t, x, i, VF));
    if (i < n)
        m[1] =
            vf_max(m[1], vf_select(vm_first(n - i), any_load(t, x, i, n - i), vf_set1(-INFINITY)));
    return vf_hmax(vf_max(vf_max(m[0], m[1]), vf_max(m[2], m[3])));
}

/* Sum of exp(x - most); the powers themselves go to `powers` where it is not NULL. */
TLI_INLINE double sum_powers(tl_dtype t, float *powers, const void *x, int64_t n, vf most)
{
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        const int64_t end = n - b < BLOCK ? n : b + BLOCK;
        vf s[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
        int64_t i = b;
        for (; i + 4 * VF <= end; i += 4 * VF)
            for (int k = 0; k < 4; k++) {
                const vf e = vf_exp_low(vf_sub(any_load(t, x, i + k * VF, VF), most));
                if (powers) vf_store(powers + i + k * VF, e);
                s[k] = vf_add(s[k], e);
            }
        for (; i < end; i += VF) {
            const vf e = vf_exp_low(vf_sub(any_load(t, x, i, end - i), most));
            if (powers) any_store(TL_F32, powers, i, e, end - i);
            s[0] = vf_add(s[0], vf_keep(vm_first(end - i), e));
        }
        sum += vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
    }
    return sum;
}

/* `room` holds a row of powers; for float32 the result does. */
TLI_INLINE void softmax_row(tl_dtype t, void *y, const void *x, int64_t n, float *room)
{
    float *powers = t == TL_F32 ? y : room;
    const double sum = sum_powers(t, powers, x, n, vf_set1(greatest(t, x, n)));
    const vf scale = vf_set1((float)(1 / sum));
    int64_t i = 0;
    for (; i + VF <= n; i += VF) any_store(t, y, i, vf_mul(vf_load(powers + i), scale), VF);
    if (i < n) any_store(t, y, i, vf_mul(vf_load_n(powers + i, n - i), scale), n - i);
}

TLI_INLINE void log_softmax_row(tl_dtype t, void *y, const void *x, int64_t n)
{
    const vf most = vf_set1(greatest(t, x, n));
    const vf lost = vf_set1((float)log(sum_powers(t, NULL, x, n, most)));
    TLI_VECTORS(i, m, n) any_store(t, y, i, vf_sub(vf_sub(any_load(t, x, i, m), most), lost), m);
}

TLI_INLINE void forward_rows(tl_dtype t, const rows *r, int64_t begin, int64_t end, float *room)
{
    const int64_t n = r->length;
    for (int64_t row = begin; row < end; row++) {
        const void *x = any_at(t, r->x, row * n);
        void *y = (char *)r->out + row * n * (t == TL_F32 ? 4 : 2);
        if (r->logarithm) log_softmax_row(t, y, x, n);
        else softmax_row(t, y, x, n, room);
    }
}

static tl_status forward_piece(int64_t begin, int64_t end, void *payload)
{
    const rows copy = *(const rows *)payload, *r = &copy;
    void *room = NULL;
    if (r->type != TL_F32 && !r->logarithm)
        TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK, (size_t)r->length * sizeof(float)));
    TLI_FLOAT_SWITCH(r->type, forward_rows(T, r, begin, end, room));
    return TL_OK;
}

/* Sum of g * y, or of g. */
TLI_INLINE double sum_along(tl_dtype t, bool logarithm, const void *g, const void *y, int64_t n)
{
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        const int64_t end = n - b < BLOCK ? n : b + BLOCK;
        vf s[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
        int64_t i = b;
        for (; i + 4 * VF <= end; i += 4 * VF)
            for (int k = 0; k < 4; k++) {
                const vf v = any_load(t, g, i + k * VF, VF);
                s[k] =
                    logarithm ? vf_add(s[k], v) : vf_fma(v, any_load(t, y, i + k * VF, VF), s[k]);
            }
        for (; i < end; i += VF) {
            const vf v = any_load(t, g, i, end - i);
            s[0] = logarithm ? vf_add(s[0], v) : vf_fma(v, any_load(t, y, i, end - i), s[0]);
        }
        sum += vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
    }
    return sum;
}

TLI_INLINE vf slope(bool logarithm, vf g, vf y, vf sum)
{
    return logarithm ? vf_fnma(vf_exp_low(y), sum, g) : vf_mul(y, vf_sub(g, sum));
}

TLI_INLINE void backward_rows(tl_dtype t, bool logarithm, const rows *r, int64_t begin, int64_t end)
{
    const int64_t n = r->length;
    for (int64_t row = begin; row < end; row++) {
        const void *g = any_at(t, r->gy, row * n), *y = any_at(t, r->x, row * n);
        const vf sum = vf_set1((float)sum_along(t, logarithm, g, y, n));
        const int64_t at = row * n;
        int64_t i = 0;
        for (; i + VF <= n; i += VF) {
            const vf d = slope(logarithm, any_load(t, g, i, VF), any_load(t, y, i, VF), sum);
            any_store(t, r->out, at + i, d, VF);
        }
        if (i == n) continue;
        const vf d = slope(logarithm, any_load(t, g, i, n - i), any_load(t, y, i, n - i), sum);
        any_store(t, r->out, at + i, d, n - i);
    }
}

static tl_status backward_piece(int64_t begin, int64_t end, void *payload)
{
    const rows copy = *(const rows *)payload, *r = &copy;
    if (r->logarithm) {
        TLI_FLOAT_SWITCH(r->type, backward_rows(T, true, r, begin, end));
    } else {
        TLI_FLOAT_SWITCH(r->type, backward_rows(T, false, r, begin, end));
    }
    return TL_OK;
}

/* --- other axes: strips of columns ------------------------------------------------------------ */

/* A strip: its first element, how many columns it has, and how many of them vector k has. */
typedef struct strip {
    int64_t at, columns;
} strip;

static strip strip_of(const rows *r, int64_t index)
{
    const int64_t column = index % r->strips * (STRIP * VF), left = r->stride - column;
    TL_ASSERT(column >= 0 && left > 0);
    return (strip){index / r->strips * r->length * r->stride + column,
                   left < STRIP * VF ? left : STRIP * VF};
}

/* Where the last strip ends, the tensor does. */
static bool strips_end_well(const rows *r)
{
    const strip last = strip_of(r, r->count / r->stride * r->strips - 1);
    return last.at + (r->length - 1) * r->stride + last.columns == r->count * r->length;
}

#define EACH_VECTOR(k, m, s)                                                                       \
    for (int64_t k = 0, m; k < STRIP && (m = (s).columns - k * VF) > 0; k++)

/* The powers are made again for the result: there is no place to keep them in float32. */
TLI_INLINE void forward_strip(tl_dtype t, bool logarithm, const rows *r, strip s)
{
    vf most[STRIP], sum[STRIP];
    for (int k = 0; k < STRIP; k++) most[k] = vf_set1(-INFINITY), sum[k] = vf_zero();
    for (int64_t i = 0; i < r->length; i++) EACH_VECTOR(k, m, s)
    most[k] = vf_max(most[k], any_load(t, r->x, s.at + i * r->stride + k * VF, m));
    const bool kept = t == TL_F32 && !logarithm;
    for (int64_t i = 0; i < r->length; i++) EACH_VECTOR(k, m, s)
        {
            const int64_t at = s.at + i * r->stride + k * VF;
            const vf e = vf_exp_low(vf_sub(any_load(t, r->x, at, m), most[k]));
            sum[k] = vf_add(sum[k], e);
            if (kept) any_store(t, r->out, at, e, m);
        }
    for (int k = 0; k < STRIP; k++)
        sum[k] = logarithm ? vf_log(sum[k]) : vf_div(vf_set1(1), sum[k]);
    for (int64_t i = 0; i < r->length; i++) EACH_VECTOR(k, m, s)
        {
            const int64_t at = s.at + i * r->stride + k * VF;
            const vf v = vf_sub(any_load(t, r->x, at, m), most[k]);
            vf y;
            if (logarithm) y = vf_sub(v, sum[k]);
            else y = vf_mul(kept ? any_load(t, r->out, at, m) : vf_exp_low(v), sum[k]);
            any_store(t, r->out, at, y, m);
        }
}

TLI_INLINE void backward_strip(tl_dtype t, bool logarithm, const rows *r, strip s)
{
    vf sum[STRIP];
    for (int k = 0; k < STRIP; k++) sum[k] = vf_zero();
    for (int64_t i = 0; i < r->length; i++) EACH_VECTOR(k, m, s)
        {
            const int64_t at = s.at + i * r->stride + k * VF;
            const vf g = any_load(t, r->gy, at, m);
            sum[k] = logarithm ? vf_add(sum[k], g) : vf_fma(g, any_load(t, r->x, at, m), sum[k]);
        }
    for (int64_t i = 0; i < r->length; i++) EACH_VECTOR(k, m, s)
        {
            const int64_t at = s.at + i * r->stride + k * VF;
            const vf g = any_load(t, r->gy, at, m), y = any_load(t, r->x, at, m);
            any_store(t, r->out, at, slope(logarithm, g, y, sum[k]), m);
        }
}

#define STRIPS(direction)                                                                          \
    static tl_status direction##_strips(int64_t begin, int64_t end, void *payload)                 \
    {                                                                                              \
        const rows copy = *(const rows *)payload, *r = &copy;                                      \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const strip s = strip_of(r, i);                                                        \
            if (r->logarithm) {                                                                    \
                TLI_FLOAT_SWITCH(r->type, direction##_strip(T, true, r, s));                       \
            } else {                                                                               \
                TLI_FLOAT_SWITCH(r->type, direction##_strip(T, false, r, s));                      \
            }                                                                                      \
        }                                                                                          \
        return TL_OK;                                                                              \
    }
STRIPS(forward)
STRIPS(backward)

/* --- kernels ---------------------------------------------------------------------------------- */

static tl_status run_rows(const tl_run *run, rows *r, tl_parallel_fn *by_row,
                          tl_parallel_fn *by_strip)
{
    if (r->count == 0) return TL_OK;
    const bool last = r->stride == 1;
    const int64_t each =
        last ? r->length : r->length * (r->stride < STRIP * VF ? r->stride : STRIP * VF);
    const int64_t grain = each < GRAIN ? GRAIN / each : 1;
    TL_ASSERT(last || strips_end_well(r));
    if (last) return tl_parallel_for(run->threads, r->count, grain, by_row, r);
    return tl_parallel_for(run->threads, r->count / r->stride * r->strips, grain, by_strip, r);
}

static tl_status forward(const tl_run *run, const tl_node *n, bool logarithm)
{
    rows r = rows_of(n, logarithm);
    r.x = tli_data(n->in[0]);
    return run_rows(run, &r, forward_piece, forward_strips);
}

static tl_status backward(const tl_run *run, const tl_node *n, bool logarithm)
{
    rows r = rows_of(n, logarithm);
    r.gy = tli_data(n->in[0]);
    TL_ASSERT(tl_shape_equal(&n->in[0]->shape, &n->in[1]->shape)
              && n->in[0]->dtype == n->in[1]->dtype);
    r.x = tli_data(n->in[1]);
    return run_rows(run, &r, backward_piece, backward_strips);
}

#define KERNEL(name, direction, logarithm)                                                         \
    static tl_status name##_kernel(const tl_run *run, const tl_node *n)                            \
    {                                                                                              \
        return direction(run, n, logarithm);                                                       \
    }
KERNEL(softmax, forward, false)
KERNEL(softmax_grad, backward, false)
KERNEL(log_softmax, forward, true)
KERNEL(log_softmax_grad, backward, true)

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
static const tl_kernel table[] = {ROWS(softmax), ROWS(softmax_grad), ROWS(log_softmax),
                                  ROWS(log_softmax_grad)};
TLI_SIMD_KERNELS(softmax, table);
