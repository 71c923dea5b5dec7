/* Ops that move elements, and those that make them from one number. */
#include <math.h>
#include <string.h>

#include "core/inner/element.h"
#include "cpu/move.h"
#include "cpu/simd/index_read.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/vec.h"

/* Elements, or half the bytes, of a task: some microseconds of copying */
enum { PACK_GRAIN = 65536 };

static tl_status move_to(const tl_run *run, void *to, const int64_t *strides, const tl_tensor *from)
{
    tli_move m;
    tli_move_init(&m, &from->shape, tl_dtype_size(from->dtype), to, strides, tli_data(from),
                  from->strides);
    return tli_move_run(run->threads, &m);
}

static tl_status copy_kernel(const tl_run *run, const tl_node *n)
{
    TL_ASSERT(tl_shape_equal(&n->in[0]->shape, &n->out[0]->shape)
              && n->in[0]->dtype == n->out[0]->dtype);
    return move_to(run, tli_data(n->out[0]), n->out[0]->strides, n->in[0]);
}

/* --- into a part of the result ---------------------------------------------------------------- */

static tl_status unslice_kernel(const tl_run *run, const tl_node *n)
{
    const tl_unslice_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    int64_t strides[TL_MAX_RANK], offset = 0;
    TL_TRY(tli_fill(run->threads, tli_data(y), &(char){0}, 1, (int64_t)tl_tensor_bytes(y)));
    if (!tl_tensor_count(x)) return TL_OK;
    for (int i = 0; i < y->shape.rank; i++) {
        offset += a->starts.items[i] * y->strides[i];
        strides[i] = y->strides[i] * (x->shape.dims[i] > 1 ? a->steps.items[i] : 1);
        TL_ASSERT(a->starts.items[i] >= 0 && a->starts.items[i] < y->shape.dims[i]);
    }
    offset *= (int64_t)tl_dtype_size(y->dtype);
    return move_to(run, (char *)tli_data(y) + offset, strides, x);
}

// Rows of the result, one piece from each input, when none of them has gaps.
static tl_status concat_rows(int64_t begin, int64_t end, void *payload)
{
    const tl_node *n = payload;
    const tl_axis_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    const int64_t behind = y->strides[a->axis] * (int64_t)tl_dtype_size(y->dtype);
    char *to = (char *)tli_data(y) + begin * y->shape.dims[a->axis] * behind;
    for (int64_t row = begin; row < end; row++) {
        for (int i = 0; i < n->inputs; i++) {
            const int64_t bytes = n->in[i]->shape.dims[a->axis] * behind;
            memcpy(to, (const char *)tli_data(n->in[i]) + row * bytes, (size_t)bytes);
            to += bytes;
        }
    }
    // Inputs fill the rows.
    TL_ASSERT(to == (char *)tli_data(y) + end * y->shape.dims[a->axis] * behind);
    return TL_OK;
}

static tl_status concat_kernel(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    const int64_t step = y->strides[a->axis] * (int64_t)tl_dtype_size(y->dtype);
    const int64_t bytes = step * y->shape.dims[a->axis];
    char *to = tli_data(y);
    bool flat = true;
    int64_t rows = 1;
    for (int i = 0; i < n->inputs; i++) flat = flat && n->in[i]->contiguous;
    for (int d = 0; d < a->axis; d++) rows *= y->shape.dims[d];
    if (!tl_tensor_count(y)) return TL_OK;
    if (flat && rows > 1)
        return tl_parallel_for(run->threads, rows, 2 * PACK_GRAIN / bytes, concat_rows, (void *)n);
    for (int i = 0; i < n->inputs; i++) {
        TL_TRY(move_to(run, to, y->strides, n->in[i]));
        to += n->in[i]->shape.dims[a->axis] * step;
    }
    TL_ASSERT(to == (char *)tli_data(y) + bytes); // inputs fill the axis
    return TL_OK;
}

/* --- pack ------------------------------------------------------------------------------------- */

// Elements begin .. end - 1 of the result, from inputs without gaps and the zeros between them.
static tl_status pack_part(int64_t begin, int64_t end, void *payload)
{
    const tl_node *n = payload;
    const tl_pack_attr *a = n->attr;
    const size_t size = tl_dtype_size(n->out[0]->dtype);
    char *to = tli_data(n->out[0]);
    // The first input that begins behind `begin`; the one before it may reach into this part.
    int first = 0, beyond = n->inputs;
    while (first < beyond) {
        const int middle = first + (beyond - first) / 2;
        if (a->offsets.items[middle] <= begin) first = middle + 1;
        else beyond = middle;
    }
    int64_t at = begin;
    for (int i = first > 0 ? first - 1 : 0; i < n->inputs && at < end; i++) {
        const int64_t start = a->offsets.items[i],
                      stop = start + (int64_t)(tl_tensor_bytes(n->in[i]) / size);
        const int64_t gap = start < end ? start : end, last = stop < end ? stop : end;
        if (gap > at) {
            memset(to + (size_t)at * size, 0, (size_t)(gap - at) * size);
            at = gap;
        }
        if (last <= at) continue;
        TL_ASSERT(at >= start && last <= stop);
        memcpy(to + (size_t)at * size,
               (const char *)tli_data(n->in[i]) + (size_t)(at - start) * size,
               (size_t)(last - at) * size);
        at = last;
    }
    TL_ASSERT(at >= begin && at <= end);
    memset(to + (size_t)at * size, 0, (size_t)(end - at) * size);
    return TL_OK;
}

// Inputs that were computed at their places stay there.
static bool any_in_place(const tl_node *n)
{
    const tl_pack_attr *a = n->attr;
    const size_t size = tl_dtype_size(n->out[0]->dtype);
    const char *to = tli_data(n->out[0]);
    for (int i = 0; i < n->inputs; i++)
        if (tli_data(n->in[i]) == to + (size_t)a->offsets.items[i] * size) return true;
    return false;
}

static tl_status pack_kernel(const tl_run *run, const tl_node *n)
{
    const tl_pack_attr *a = n->attr;
    if (any_in_place(n)) return tli_run_reference(run, n);
    return tl_parallel_for(run->threads, a->count, PACK_GRAIN, pack_part, (void *)n);
}

/* --- pad -------------------------------------------------------------------------------------- */

typedef struct padding {
    const tl_pad_attr *a;
    const tl_tensor *x, *y;
    int axis;                   /* the last one that grows */
    int64_t before, row, after; /* bytes */
    char element[8];
    size_t size;
} padding;

// Rows of the result, each the axis `axis` and all behind it.
static tl_status pad_rows(int64_t begin, int64_t end, void *payload)
{
    const padding *p = payload;
    const int64_t whole = p->before + p->row + p->after;
    char *to = (char *)tli_data(p->y) + begin * whole;
    for (int64_t i = begin; i < end; i++, to += whole) {
        int64_t rest = i, from = 0, rows = 1;
        bool inside = true;
        for (int d = p->axis - 1; d >= 0; d--) {
            const int64_t place = rest % p->y->shape.dims[d] - p->a->before.items[d];
            rest /= p->y->shape.dims[d];
            inside = inside && place >= 0 && place < p->x->shape.dims[d];
            from += place * rows;
            rows *= p->x->shape.dims[d];
        }
        const int64_t size = (int64_t)p->size, lead = inside ? p->before : whole;
        TL_ASSERT(rest == 0 && lead % size == 0 && (!inside || (from >= 0 && from < rows)));
        TL_TRY(tli_fill(NULL, to, p->element, p->size, lead / size));
        if (!inside) continue;
        memcpy(to + lead, (const char *)tli_data(p->x) + from * p->row, (size_t)p->row);
        TL_TRY(tli_fill(NULL, to + lead + p->row, p->element, p->size, p->after / size));
    }
    return TL_OK;
}

static tl_status pad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_pad_attr *a = n->attr;
    padding p = {.a = a, .x = n->in[0], .y = n->out[0], .size = tl_dtype_size(n->out[0]->dtype)};
    if (a->mode != TL_PAD_CONSTANT) return tli_run_reference(run, n);
    if (!tl_tensor_count(p.y)) return TL_OK;
    tli_element_set(p.y->dtype, p.element, 0, a->value);
    if (!tl_tensor_count(p.x))
        return tli_fill(run->threads, tli_data(p.y), p.element, p.size, tl_tensor_count(p.y));
    int64_t behind = (int64_t)p.size, rows = 1;
    p.axis = p.y->shape.rank - 1;
    for (; p.axis > 0 && !a->before.items[p.axis] && !a->after.items[p.axis]; p.axis--)
        behind *= p.y->shape.dims[p.axis];
    p.row = behind;
    if (p.axis >= 0) {
        p.before = behind * a->before.items[p.axis];
        p.after = behind * a->after.items[p.axis];
        p.row = behind * p.x->shape.dims[p.axis];
    }
    for (int d = 0; d < p.axis; d++) rows *= p.y->shape.dims[d];
    const int64_t whole = p.before + p.row + p.after;
    TL_ASSERT(rows * whole == (int64_t)tl_tensor_bytes(p.y));
    return tl_parallel_for(run->threads, rows, PACK_GRAIN * 2 / whole, pad_rows, &p);
}

/* --- from numbers ----------------------------------------------------------------------------- */

static tl_status full_kernel(const tl_run *run, const tl_node *n)
{
    const tl_full_attr *a = n->attr;
    const tl_tensor *y = n->out[0];
    char element[8];
    tli_element_set(y->dtype, element, 0, a->value);
    return tli_fill(run->threads, tli_data(y), element, tl_dtype_size(y->dtype),
                    tl_tensor_count(y));
}

// Whole numbers that int32 holds: converting them rounds once, as from float64.
static bool is_whole(double start, double step, int64_t count)
{
    const double last = start + (double)count * step, most = INT32_MAX;
    return start == (double)(int32_t)start && step == (double)(int32_t)step && fabs(last) < most;
}

static void arange_whole(float *y, int32_t start, int32_t step, int64_t begin, int64_t end)
{
    int32_t lanes[VF];
    for (int k = 0; k < VF; k++) lanes[k] = (int32_t)(start + (begin + k) * step);
    vi v = vi_load(lanes);
    const vi on = vi_set1(VF * step);
    int64_t i = begin;
    for (; i + VF <= end; i += VF, v = vi_add(v, on)) vf_store(y + i, vi_to_vf(v));
    for (; i < end; i++) y[i] = (float)(start + i * step);
    TL_ASSERT(i == end);
}

// start + i * step in float64; i is counted there, too.
static void arange_floats(float *y, double start, double step, int64_t begin, int64_t end)
{
    double lanes[VF];
    for (int k = 0; k < VF; k++) lanes[k] = (double)(begin + k);
    vd low = vd_load(lanes), high = vd_load(lanes + VD);
    const vd a = vd_set1(start), b = vd_set1(step), on = vd_set1(VF);
    int64_t i = begin;
    for (; i + VF <= end; i += VF) {
        vf_store(y + i, vd_to_vf(vd_add(a, vd_mul(low, b)), vd_add(a, vd_mul(high, b))));
        low = vd_add(low, on);
        high = vd_add(high, on);
    }
    for (; i < end; i++) y[i] = (float)(start + (double)i * step);
    TL_ASSERT(i == end);
}

static tl_status arange_part(int64_t begin, int64_t end, void *payload)
{
    const tl_node *n = payload;
    const tl_arange_attr *a = n->attr;
    void *y = tli_data(n->out[0]);
    const int64_t start = (int64_t)a->start, step = (int64_t)a->step;
    switch (n->out[0]->dtype) {
    case TL_F32:
        if (fabs(a->start) < INT32_MAX && fabs(a->step) < INT32_MAX / VF
            && is_whole(a->start, a->step, tl_tensor_count(n->out[0]) + VF))
            arange_whole(y, (int32_t)start, (int32_t)step, begin, end);
        else arange_floats(y, a->start, a->step, begin, end);
        break;
    case TL_I32:
        for (int64_t i = begin; i < end; i++) ((int32_t *)y)[i] = (int32_t)(start + i * step);
        break;
    default:
        for (int64_t i = begin; i < end; i++) ((int64_t *)y)[i] = start + i * step;
        break;
    }
    return TL_OK;
}

static tl_status arange_kernel(const tl_run *run, const tl_node *n)
{
    return tl_parallel_for(run->threads, tl_tensor_count(n->out[0]), 16384, arange_part, (void *)n);
}

static tl_status one_hot_rows(int64_t begin, int64_t end, void *payload)
{
    const tl_node *n = payload;
    const tl_one_hot_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const size_t size = tl_dtype_size(y->dtype), row = (size_t)a->depth * size;
    char *to = (char *)tli_data(y) + (size_t)begin * row, one[8];
    tli_element_set(y->dtype, one, 0, 1);
    memset(to, 0, (size_t)(end - begin) * row);
    for (int64_t i = begin; i < end; i++, to += row) {
        const int64_t index = tli_index_read(x->dtype, tli_data(x), i);
        if (index >= 0 && index < a->depth) memcpy(to + (size_t)index * size, one, size);
    }
    return TL_OK;
}

static tl_status one_hot_kernel(const tl_run *run, const tl_node *n)
{
    const tl_one_hot_attr *a = n->attr;
    const int64_t grain = a->depth > 0 ? 32768 / a->depth : 32768;
    TL_ASSERT(tl_tensor_count(n->in[0]) * a->depth == tl_tensor_count(n->out[0]));
    if (!tl_tensor_count(n->out[0])) return TL_OK;
    return tl_parallel_for(run->threads, tl_tensor_count(n->in[0]), grain, one_hot_rows, (void *)n);
}

static const tl_kernel rows[] = {
    {TL_OP_copy, TL_DTYPE_COUNT, copy_kernel, TL_KERNEL_STRIDED},
    {TL_OP_unslice, TL_DTYPE_COUNT, unslice_kernel, TL_KERNEL_STRIDED},
    {TL_OP_concat, TL_DTYPE_COUNT, concat_kernel, TL_KERNEL_STRIDED},
    {TL_OP_pack, TL_DTYPE_COUNT, pack_kernel, 0},
    {TL_OP_pad, TL_DTYPE_COUNT, pad_kernel, 0},
    {TL_OP_full, TL_DTYPE_COUNT, full_kernel, 0},
    {TL_OP_arange, TL_F32, arange_kernel, 0},
    {TL_OP_arange, TL_I32, arange_kernel, 0},
    {TL_OP_arange, TL_I64, arange_kernel, 0},
    {TL_OP_one_hot, TL_DTYPE_COUNT, one_hot_kernel, 0},
};
TLI_SIMD_KERNELS(copy, rows);
