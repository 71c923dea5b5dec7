/* Lookups and what comes back of them (text/index.cu). */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum { BLOCK = 256, KEYS_A_GROUP = 1024, DIGITS = 256, DIGIT_BITS = 8 };

static tli_index_args args_of(const tl_node *n, const tl_shape *whole, int64_t axis)
{
    tli_index_args a = {.before = 1,
                        .axis = whole->dims[axis],
                        .behind = 1,
                        .count = tl_tensor_count(n->in[1]),
                        .number = axis,
                        .x = tli_data(n->in[0]),
                        .indices = tli_data(n->in[1]),
                        .y = tli_data(n->out[0])};
    for (int i = 0; i < (int)axis; i++) a.before *= whole->dims[i];
    for (int i = (int)axis + 1; i < whole->rank; i++) a.behind *= whole->dims[i];
    return a;
}

static tl_status lookup(const tl_run *run, const tl_node *n, tli_index_args *a, const char *name,
                        size_t unit)
{
    tli_cuda_work w = {.text = {tli_text_of_index}, .name = name, .threads = BLOCK};
    tli_cuda_define(&w.defines, "LOOKUP", 1);
    tli_cuda_define_type(&w.defines, "I", n->in[1]->dtype);
    tli_cuda_define_unit(&w.defines, unit);
    a->groups = tl_div_up(a->before * a->count * a->behind, BLOCK);
    return tli_cuda_put(run, &w, a, sizeof *a);
}

static tl_status gather(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *attr = n->attr;
    tli_index_args a = args_of(n, &n->in[0]->shape, attr->axis);
    size_t unit = tl_dtype_size(n->in[0]->dtype), row = (size_t)a.behind * unit;
    TL_TRY(tli_cuda_faults(run, n, n->in[1], &a.fault, &a.place));
    while (unit < 16 && row % (2 * unit) == 0 && (uintptr_t)a.x % (2 * unit) == 0
           && (uintptr_t)a.y % (2 * unit) == 0)
        unit *= 2;
    a.behind = (long long)(row / unit);
    return lookup(run, n, &a, "gather_rows", unit);
}

static tl_status take_along_axis(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *attr = n->attr;
    tli_index_args a = args_of(n, &n->in[0]->shape, attr->axis);
    TL_TRY(tli_cuda_faults(run, n, n->in[1], &a.fault, &a.place));
    a.count = n->in[1]->shape.dims[attr->axis];
    return lookup(run, n, &a, "take_along", tl_dtype_size(n->in[0]->dtype));
}

static tl_status take_along_axis_grad(const tl_run *run, const tl_node *n)
{
    const tl_scatter_attr *attr = n->attr;
    const tl_dtype dtype = n->out[0]->dtype;
    tli_index_args a = args_of(n, &n->out[0]->shape, attr->axis);
    tli_cuda_work w = {.text = {tli_text_of_index}, .name = "put_along", .threads = BLOCK};
    TL_TRY(tli_cuda_faults(run, n, n->in[1], &a.fault, &a.place));
    a.count = n->in[1]->shape.dims[attr->axis];
    tli_cuda_define(&w.defines, "PUT", 1);
    tli_cuda_define_type(&w.defines, "I", n->in[1]->dtype);
    tli_cuda_define_type(&w.defines, "Y", dtype);
    tl_str_add(&w.defines, dtype == TL_I64   ? "#define ADD(a, b) add_l(a, b)\n"
                           : dtype == TL_I32 ? "#define ADD(a, b) add_i(a, b)\n"
                                             : "#define ADD(a, b) ((a) + (b))\n");
    a.groups = tl_div_up(a.before * a.behind, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* --- sums of places --------------------------------------------------------------------------- */

static tl_status put_sort(const tl_run *run, const tl_node *n, const char *name, int threads,
                          tli_sort_args *a, int64_t groups)
{
    tli_cuda_work w = {.text = {tli_text_of_index}, .name = name, .threads = threads};
    tli_cuda_define(&w.defines, "SORT", 1);
    tli_cuda_define_type(&w.defines, "I", n->in[1]->dtype);
    a->groups = groups;
    return tli_cuda_put(run, &w, a, sizeof *a);
}

/* Room for a sort: keys and positions twice, counts, where each place begins and ends. */
static tl_status sort_positions(const tl_run *run, const tl_node *n, const tli_index_args *of,
                                tli_sort_args *out)
{
    const int64_t count = of->count, groups = tl_div_up(count, KEYS_A_GROUP);
    const int64_t counts = groups * DIGITS;
    void *at;
    TL_TRY(
        tli_cuda_scratch(run, &at, (size_t)(4 * count + counts + 2 * of->axis) * sizeof(unsigned)));
    unsigned *room = at, *keys[2] = {room, room + count};
    unsigned *order[2] = {room + 2 * count, room + 3 * count};
    tli_sort_args a = {.count = count,
                       .axis = of->axis,
                       .number = of->number,
                       .indices = of->indices,
                       .keys_out = keys[0],
                       .order_out = order[0],
                       .counts = room + 4 * count,
                       .begin = room + 4 * count + counts,
                       .end = room + 4 * count + counts + of->axis,
                       .fault = of->fault,
                       .place = of->place};
    TL_TRY(
        put_sort(run, n, "sort_begin", BLOCK, &a, tl_div_up(tl_max_i64(count, of->axis), BLOCK)));
    int now = 0;
    for (a.shift = 0; (of->axis - 1) >> a.shift > 0; a.shift += DIGIT_BITS, now = !now) {
        a.keys = keys[now];
        a.order = order[now];
        a.keys_out = keys[!now];
        a.order_out = order[!now];
        TL_TRY(put_sort(run, n, "sort_count", 64, &a, groups));
        a.count = counts;
        TL_TRY(put_sort(run, n, "sort_sums", 1024, &a, 1));
        a.count = count;
        TL_TRY(put_sort(run, n, "sort_move", 64, &a, groups));
    }
    a.keys = keys[now];
    a.order = order[now];
    *out = a;
    return put_sort(run, n, "sort_end", BLOCK, &a, tl_div_up(count, BLOCK));
}

static tl_status gather_grad(const tl_run *run, const tl_node *n)
{
    const tl_scatter_attr *attr = n->attr;
    const tl_tensor *y = n->out[0];
    tli_index_args a = args_of(n, &y->shape, attr->axis);
    tli_sort_args sorted;
    if (!tl_tensor_count(y)) return TL_OK;
    if (a.count > INT32_MAX || a.axis > INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "so many indices are too many for a GPU");
    TL_TRY(tli_cuda_faults(run, n, n->in[1], &a.fault, &a.place));
    TL_TRY(sort_positions(run, n, &a, &sorted));
    tli_sums_args s = {.before = a.before,
                       .axis = a.axis,
                       .behind = a.behind,
                       .count = a.count,
                       .order = sorted.order,
                       .begin = sorted.begin,
                       .end = sorted.end,
                       .x = a.x,
                       .y = a.y};
    tli_cuda_work w = {.text = {tli_text_of_index}, .name = "add_updates", .threads = BLOCK};
    tli_cuda_define(&w.defines, "SUMS_OF_PLACES", 1);
    tli_cuda_define_type(&w.defines, "Y", y->dtype);
    const int vector =
        tli_cuda_define_vector(&w.defines, tl_dtype_size(y->dtype), a.behind, a.x, a.y, NULL);
    s.groups = tl_div_up(a.before * a.axis * (a.behind / vector), BLOCK);
    return tli_cuda_put(run, &w, &s, sizeof s);
}

static const tl_kernel rows[] = {
    {TL_OP_gather, TL_DTYPE_COUNT, gather, 0},
    {TL_OP_take_along_axis, TL_DTYPE_COUNT, take_along_axis, 0},
    {TL_OP_take_along_axis_grad, TL_F32, take_along_axis_grad, 0},
    {TL_OP_take_along_axis_grad, TL_F64, take_along_axis_grad, 0},
    {TL_OP_take_along_axis_grad, TL_I32, take_along_axis_grad, 0},
    {TL_OP_take_along_axis_grad, TL_I64, take_along_axis_grad, 0},
    {TL_OP_gather_grad, TL_F32, gather_grad, 0},
    {TL_OP_gather_grad, TL_BF16, gather_grad, 0},
    {TL_OP_gather_grad, TL_F16, gather_grad, 0},
};
const tl_kernels tli_cuda_index_kernels = {rows, TL_COUNT(rows)};
