#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>

#include "cpu/ref/number.h"

// A tensor seen as [before, axis, behind].
typedef struct three {
    int64_t before, axis, behind;
} three;

static three three_of(const tl_shape *s, int64_t axis)
{
    three t = {.before = 1, .axis = s->dims[axis], .behind = 1};
    TL_ASSERT(axis >= 0 && axis < s->rank);
    for (int i = 0; i < s->rank; i++) {
        if (i < axis) t.before *= s->dims[i];
        if (i > axis) t.behind *= s->dims[i];
    }
    return t;
}

// Indices are tensors without gaps; `position` is row-major.
static tl_status check_index(const tl_tensor *indices, int64_t position, int64_t size, int64_t axis)
{
    int64_t index = tli_ref_get_int(indices, position);
    if (index >= 0 && index < size) return TL_OK;
    tl_shape at = {.rank = indices->shape.rank};
    for (int d = at.rank - 1; d >= 0; d--) {
        at.dims[d] = position % indices->shape.dims[d];
        position /= indices->shape.dims[d];
    }
    char text[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL,
                   "index %" PRId64 " (at %s of the indices) is not below %" PRId64
                   ", the size of axis %" PRId64 "%s",
                   index, tl_shape_text(text, &at), size, axis,
                   index < 0 ? "; it must not be negative either" : "");
}

static tl_status check_indices(const tl_tensor *indices, int64_t size, int64_t axis)
{
    for (int64_t i = 0, count = tl_tensor_count(indices); i < count; i++)
        TL_TRY(check_index(indices, i, size, axis));
    return TL_OK;
}

/* --- whole places ----------------------------------------------------------------------------- */

static tl_status gather_kernel(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *indices = n->in[1];
    three t = three_of(&x->shape, a->axis);
    size_t bytes = (size_t)t.behind * tl_dtype_size(x->dtype);
    char *to = tli_data(n->out[0]);
    (void)run;
    TL_TRY(check_indices(indices, t.axis, a->axis));
    for (int64_t b = 0; b < t.before; b++) {
        const char *from = (const char *)tli_data(x) + (size_t)(b * t.axis) * bytes;
        for (int64_t i = 0, count = tl_tensor_count(indices); i < count; i++, to += bytes)
            memcpy(to, from + (size_t)tli_ref_get_int(indices, i) * bytes, bytes);
    }
    return TL_OK;
}

// Positions of the indices sorted by what they name, in order among equals; those of place p are
// order[first[p]] .. order[first[p + 1] - 1].
static tl_status sort_positions(int64_t **out_first, int64_t **out_order, const tl_tensor *indices,
                                int64_t size)
{
    int64_t count = tl_tensor_count(indices);
    int64_t *first = tl_alloc_zero((size_t)(size + 2) * sizeof *first);
    int64_t *order = tl_alloc((size_t)count * sizeof *order);
    if (!first || !order) {
        tl_free(first);
        tl_free(order);
        return TL_FAIL_NOMEM((size_t)(size + 2 + count) * sizeof *first);
    }
    for (int64_t i = 0; i < count; i++) first[tli_ref_get_int(indices, i) + 2]++;
    for (int64_t p = 2; p < size + 2; p++) first[p] += first[p - 1];
    // first[p + 1] is where place p begins; filling moves it to where it ends.
    for (int64_t i = 0; i < count; i++) order[first[tli_ref_get_int(indices, i) + 1]++] = i;
    TL_ASSERT(first[0] == 0 && first[size] == count); // each has its place
    *out_first = first;
    *out_order = order;
    return TL_OK;
}

static tl_status gather_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_scatter_attr *a = n->attr;
    const tl_tensor *updates = n->in[0], *indices = n->in[1], *y = n->out[0];
    three t = three_of(&y->shape, a->axis);
    int64_t count = tl_tensor_count(indices), *first = NULL, *order = NULL;
    (void)run;
    TL_TRY(check_indices(indices, a->size, a->axis));
    TL_TRY(sort_positions(&first, &order, indices, a->size));
    for (int64_t i = 0, total = tl_tensor_count(y); i < total; i++) {
        int64_t column = i % t.behind, place = i / t.behind % t.axis, b = i / t.behind / t.axis;
        tli_number sum = tli_number_of(y, 0);
        for (int64_t k = first[place]; k < first[place + 1]; k++)
            sum = tli_number_add(
                y, sum, tli_number_get(updates, (b * count + order[k]) * t.behind + column));
        tli_number_set(y, i, sum);
    }
    tl_free(first);
    tl_free(order);
    return TL_OK;
}

/* --- a place for each element ----------------------------------------------------------------- */

static tl_status take_along_axis_kernel(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *indices = n->in[1];
    three t = three_of(&indices->shape, a->axis);
    int64_t size = x->shape.dims[a->axis];
    size_t bytes = tl_dtype_size(x->dtype);
    char *to = tli_data(n->out[0]);
    (void)run;
    TL_TRY(check_indices(indices, size, a->axis));
    for (int64_t i = 0, count = tl_tensor_count(indices); i < count; i++, to += bytes) {
        int64_t column = i % t.behind, b = i / t.behind / t.axis;
        int64_t from = (b * size + tli_ref_get_int(indices, i)) * t.behind + column;
        memcpy(to, (const char *)tli_data(x) + (size_t)from * bytes, bytes);
    }
    return TL_OK;
}

static tl_status take_along_axis_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_scatter_attr *a = n->attr;
    const tl_tensor *updates = n->in[0], *indices = n->in[1], *y = n->out[0];
    three t = three_of(&updates->shape, a->axis);
    (void)run;
    TL_TRY(check_indices(indices, a->size, a->axis));
    tli_number *sums = tl_alloc((size_t)a->size * sizeof *sums);
    if (!sums) return TL_FAIL_NOMEM((size_t)a->size * sizeof *sums);
    for (int64_t line = 0; line < t.before * t.behind; line++) {
        int64_t column = line % t.behind, b = line / t.behind;
        for (int64_t p = 0; p < a->size; p++) sums[p] = tli_number_of(y, 0);
        for (int64_t i = 0; i < t.axis; i++) {
            int64_t at = (b * t.axis + i) * t.behind + column;
            tli_number *sum = &sums[tli_ref_get_int(indices, at)];
            *sum = tli_number_add(y, *sum, tli_number_get(updates, at));
        }
        for (int64_t p = 0; p < a->size; p++)
            tli_number_set(y, (b * a->size + p) * t.behind + column, sums[p]);
    }
    tl_free(sums);
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, 0)
static const tl_kernel rows[] = {ROW(gather), ROW(gather_grad), ROW(take_along_axis),
                                 ROW(take_along_axis_grad)};
const tl_kernels tli_ref_index = {rows, TL_COUNT(rows)};
