#include "cpu/loop.h"

#include <string.h>

#include "core/inner/storage.h"

static bool all_flat(const tl_shape *shape, int operands, const tl_tensor *const *t)
{
    for (int i = 0; i < operands; i++)
        if (!t[i]->contiguous || !tl_shape_equal(&t[i]->shape, shape)) return false;
    return true;
}

// Stride of operand t along axis d of the shape it broadcasts to.
static int64_t stride_along(const tl_tensor *t, const tl_shape *shape, int d)
{
    int own = d - (shape->rank - t->shape.rank);
    // It broadcasts.
    TL_ASSERT(own < 0 || t->shape.dims[own] == 1 || t->shape.dims[own] == shape->dims[d]);
    return own < 0 || t->shape.dims[own] == 1 ? 0 : t->strides[own];
}

// Axes of length 1 are left out; an axis joins the one before it where all operands allow it.
static void join_axes(tli_loop *l, const tl_shape *shape, const tl_tensor *const *t)
{
    int rank = 0;
    for (int d = 0; d < shape->rank; d++) {
        int64_t dim = shape->dims[d], strides[TLI_LOOP_MOST];
        if (dim == 1) continue;
        bool joins = rank > 0;
        for (int i = 0; i < l->operands; i++) {
            strides[i] = stride_along(t[i], shape, d);
            joins = joins && l->strides[i][rank - 1] == strides[i] * dim;
        }
        if (!joins) l->dims[rank++] = 1;
        l->dims[rank - 1] *= dim;
        for (int i = 0; i < l->operands; i++) l->strides[i][rank - 1] = strides[i];
    }
    l->rank = rank;
    TL_ASSERT(rank <= TL_MAX_RANK);
}

// The last element of each operand, counted from its first one, is the same whichever axes were
// joined.
static bool reaches_the_same(const tli_loop *l, const tl_shape *shape, const tl_tensor *const *t)
{
    for (int i = 0; i < l->operands; i++) {
        int64_t reach = (l->n - 1) * l->step[i];
        for (int d = 0; d < l->rank; d++) reach += (l->dims[d] - 1) * l->strides[i][d];
        for (int d = 0; d < shape->rank; d++)
            reach -= (shape->dims[d] - 1) * stride_along(t[i], shape, d);
        if (reach) return false;
    }
    return l->n * l->rows == tl_shape_count(shape);
}

// No two axes that follow each other, the row's among them, could be one in all operands.
static bool is_joined(const tli_loop *l)
{
    for (int d = 0; d < l->rank; d++) {
        bool one = true;
        for (int i = 0; i < l->operands; i++) {
            const bool row = d + 1 == l->rank;
            const int64_t inner = row ? l->step[i] : l->strides[i][d + 1],
                          dim = row ? l->n : l->dims[d + 1];
            one = one && l->strides[i][d] == inner * dim;
        }
        if (one) return false;
    }
    return true;
}

void tli_loop_init(tli_loop *l, const tl_shape *shape, int operands, const tl_tensor *const *t)
{
    TL_ASSERT(operands > 0 && operands <= TLI_LOOP_MOST && tl_shape_equal(&t[0]->shape, shape));
    l->operands = operands;
    for (int i = 0; i < operands; i++) {
        l->data[i] = tli_data(t[i]);
        l->size[i] = tl_dtype_size(t[i]->dtype);
        l->step[i] = 1;
    }
    l->rank = 0;
    l->rows = 1;
    l->n = tl_shape_count(shape);
    if (l->n == 0 || all_flat(shape, operands, t)) return;
    join_axes(l, shape, t);
    if (!l->rank) return; // one element
    l->rank--;            // the last axis is the row
    l->n = l->dims[l->rank];
    for (int i = 0; i < operands; i++) l->step[i] = l->strides[i][l->rank];
    for (int d = 0; d < l->rank; d++) l->rows *= l->dims[d];
    TL_ASSERT(reaches_the_same(l, shape, t) && is_joined(l));
}

/* --- running ---------------------------------------------------------------------------------- */

typedef struct job {
    const tli_loop *l;
    tli_loop_fn *fn;
    void *payload;
} job;

static tl_status run_piece(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const tli_loop *l = j->l;
    char *data[TLI_LOOP_MOST];
    TL_ASSERT(l->rows == 1 && begin >= 0 && end <= l->n);
    for (int i = 0; i < l->operands; i++)
        data[i] = l->data[i] + begin * l->step[i] * (int64_t)l->size[i];
    return j->fn(j->payload, data, l->step, end - begin);
}

static tl_status run_rows(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const tli_loop *l = j->l;
    int64_t index[TL_MAX_RANK], rest = begin;
    char *data[TLI_LOOP_MOST];
    for (int i = 0; i < l->operands; i++) data[i] = l->data[i];
    for (int d = l->rank - 1; d >= 0; d--) {
        index[d] = rest % l->dims[d];
        rest /= l->dims[d];
        for (int i = 0; i < l->operands; i++)
            data[i] += index[d] * l->strides[i][d] * (int64_t)l->size[i];
    }
    TL_ASSERT(rest == 0 && end <= l->rows);
    for (int64_t row = begin; row < end; row++) {
        TL_TRY(j->fn(j->payload, data, l->step, l->n));
        for (int d = l->rank - 1; d >= 0; d--) {
            bool carry = ++index[d] == l->dims[d];
            int64_t steps = carry ? 1 - l->dims[d] : 1;
            for (int i = 0; i < l->operands; i++)
                data[i] += steps * l->strides[i][d] * (int64_t)l->size[i];
            if (!carry) break;
            index[d] = 0;
        }
    }
    return TL_OK;
}

tl_status tli_loop_run(tl_pool *threads, const tli_loop *l, tli_loop_fn *fn, void *payload)
{
    job j = {l, fn, payload};
    if (l->n == 0) return TL_OK;
    if (l->rows == 1) return tl_parallel_for(threads, l->n, tli_loop_grain(l->n), run_piece, &j);
    int64_t grain = tli_loop_grain(l->n * l->rows) / l->n;
    return tl_parallel_for(threads, l->rows, grain > 0 ? grain : 1, run_rows, &j);
}
