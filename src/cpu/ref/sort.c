#include <tilth/base/alloc.h>

#include "cpu/ref/number.h"

typedef struct entry {
    tli_number key;
    int64_t from;
} entry;

// Order of two numbers: NaN is above everything.
static bool above(const tl_tensor *t, tli_number a, tli_number b)
{
    if (!tl_dtype_is_float(t->dtype)) return a.i > b.i;
    return isnan(a.f) ? !isnan(b.f) : a.f > b.f;
}

// Merges runs of doubling length; of equal entries the one that came first stays first.
static entry *sort_entries(const tl_tensor *t, entry *from, entry *to, int64_t count,
                           bool descending)
{
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t start = 0; start < count; start += 2 * run) {
            int64_t middle = start + run < count ? start + run : count;
            int64_t end = middle + run < count ? middle + run : count;
            for (int64_t a = start, b = middle, i = start; i < end; i++) {
                bool second = a == middle
                              || (b < end
                                  && (descending ? above(t, from[b].key, from[a].key)
                                                 : above(t, from[a].key, from[b].key)));
                to[i] = from[second ? b++ : a++];
            }
        }
        entry *swapped = from;
        from = to;
        to = swapped;
    }
    return from;
}

// The first `keep` places of each sorted row along an axis.
static tl_status sort_axis(const tl_node *n, int64_t axis, bool descending, int64_t keep)
{
    const tl_tensor *x = n->in[0], *values = n->out[0], *indices = n->out[1];
    tl_ints axes = {&axis, 1};
    tli_cursor from = tli_cursor_over(x, axes, false), to = tli_cursor_over(values, axes, false);
    int64_t length = x->shape.dims[axis];
    TL_ASSERT(keep <= length && tl_shape_equal(&values->shape, &indices->shape));
    entry *entries = tl_alloc(2 * (size_t)length * sizeof *entries);
    if (!entries) return TL_FAIL_NOMEM(2 * (size_t)length * sizeof *entries);
    for (int64_t line = 0, lines = tl_shape_count(&from.shape); line < lines; line++) {
        for (int64_t i = 0; i < length; i++)
            entries[i] = (entry){tli_number_get(x, from.at + i * x->strides[axis]), i};
        const entry *sorted = sort_entries(x, entries, entries + length, length, descending);
        for (int64_t i = 0; i < keep; i++) {
            int64_t at = to.at + i * values->strides[axis];
            tli_number_set(values, at, sorted[i].key);
            tli_ref_set_int(indices, at, sorted[i].from);
        }
        tli_cursor_next(&from);
        tli_cursor_next(&to);
    }
    tl_free(entries);
    return TL_OK;
}

static tl_status sort_kernel(const tl_run *run, const tl_node *n)
{
    const tl_sort_attr *a = n->attr;
    (void)run;
    return sort_axis(n, a->axis, a->descending, n->in[0]->shape.dims[a->axis]);
}

static tl_status top_k_kernel(const tl_run *run, const tl_node *n)
{
    const tl_top_k_attr *a = n->attr;
    (void)run;
    return sort_axis(n, n->in[0]->shape.rank - 1, true, a->k);
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {ROW(sort), ROW(top_k)};
const tl_kernels tli_ref_sort = {rows, TL_COUNT(rows)};
