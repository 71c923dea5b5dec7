/* Random numbers and dropout (text/draw.cu): the CPU's bits. */
#include <math.h>

#include <tilth/base/integer.h>
#include <tilth/base/pool.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cpu/inner/random.h"
#include "cuda/kernels.h"

enum { BLOCK = 256, VECTORS_EACH = 4 };

static tl_status dropout(const tl_run *run, const tl_node *n)
{
    const tl_dropout_attr *attr = n->attr;
    const tl_tensor *x = n->in[0];
    tli_draw_args a = {.count = tl_tensor_count(x),
                       .each = 1,
                       .x = tli_data(x),
                       .y = tli_data(n->out[0]),
                       .key = (uint64_t)attr->key,
                       .least = (int)ceil(attr->rate * 0x1p24),
                       .scale = (float)(1 / (1 - attr->rate))};
    tli_cuda_work w = {.text = {tli_text_of_draw}, .threads = BLOCK};
    if (!a.count) return TL_OK;
    TL_TRY(tli_cuda_draws(run, &a.step));
    for (int i = 1; i < x->shape.rank && attr->per_example; i++) a.each *= x->shape.dims[i];
    tli_cuda_define(&w.defines, "DROPOUT", 1);
    tli_cuda_define_type(&w.defines, "X", x->dtype);
    const int vector =
        tli_cuda_define_vector(&w.defines, tl_dtype_size(x->dtype), a.count, a.x, a.y, NULL);
    w.name = a.each == 1 ? "drop_elements" : "drop_examples";
    a.groups = tl_div_up(a.count, BLOCK * vector * (a.each == 1 ? VECTORS_EACH : 1));
    return tli_cuda_put(run, &w, &a, sizeof a);
}

typedef enum kind { UNIFORM, NORMAL, TRUNCATED, BERNOULLI, INTEGERS } kind;

static tli_cuda_work work_of(kind what, tl_dtype dtype)
{
    tli_cuda_work w = {.text = {tli_text_of_draw}, .name = "draw", .threads = BLOCK};
    tli_cuda_define(&w.defines, "RANDOM", (int64_t)what);
    tli_cuda_define_type(&w.defines, "Y", dtype);
    return w;
}

/* Weights are made call by call, so that nobody sees what comes next. */
void tli_cuda_draws_ahead(tli_cuda *d)
{
    enum { IDLE = 4 }; // threads: with fewer, what nobody needs would be in the way
    if (tl_pool_default_threads() < IDLE) return;
    for (kind what = UNIFORM; what <= TRUNCATED; what++) {
        tli_cuda_work w = work_of(what, TL_F32);
        tli_cuda_work_ahead(d, &w);
    }
    tli_cuda_fill_ahead(d, tl_dtype_size(TL_F32));
}

static tl_status draw(const tl_run *run, const tl_node *n, kind what, tli_draw_args *a)
{
    const tl_tensor *y = n->out[0];
    TL_TRY(tli_cuda_draws(run, &a->step));
    a->count = tl_tensor_count(y);
    a->groups = tl_div_up(a->count, BLOCK);
    a->y = tli_data(y);
    tli_cuda_work w = work_of(what, y->dtype);
    return tli_cuda_put(run, &w, a, sizeof *a);
}

static tl_status numbers(const tl_run *run, const tl_node *n, kind what)
{
    const tl_random_attr *attr = n->attr;
    tli_draw_args a = {.key = (uint64_t)attr->key, .a = attr->a, .b = attr->b, .top = attr->b};
    if (what == UNIFORM && attr->a < attr->b)
        a.top = tli_ref_largest_below(n->out[0]->dtype, attr->b);
    if (what == BERNOULLI) a.ones = (uint64_t)rint(attr->a * 0x1p32);
    return draw(run, n, what, &a);
}

static tl_status integers(const tl_run *run, const tl_node *n)
{
    const tl_random_integers_attr *attr = n->attr;
    const uint64_t range = (uint64_t)attr->high - (uint64_t)attr->low;
    tli_draw_args a = {.key = (uint64_t)attr->key,
                       .low = attr->low,
                       .range = range,
                       .uneven = range ? -range % range : 0};
    return draw(run, n, INTEGERS, &a);
}

#define KERNEL(op, what)                                                                           \
    static tl_status op(const tl_run *run, const tl_node *n)                                       \
    {                                                                                              \
        return numbers(run, n, what);                                                              \
    }
KERNEL(uniform, UNIFORM)
KERNEL(normal, NORMAL)
KERNEL(truncated_normal, TRUNCATED)
KERNEL(bernoulli, BERNOULLI)

static const tl_kernel rows[] = {
    {TL_OP_dropout, TL_F32, dropout, 0},
    {TL_OP_dropout, TL_BF16, dropout, 0},
    {TL_OP_dropout, TL_F16, dropout, 0},
    {TL_OP_random_uniform, TL_DTYPE_COUNT, uniform, 0},
    {TL_OP_random_normal, TL_DTYPE_COUNT, normal, 0},
    {TL_OP_random_truncated_normal, TL_DTYPE_COUNT, truncated_normal, 0},
    {TL_OP_random_bernoulli, TL_DTYPE_COUNT, bernoulli, 0},
    {TL_OP_random_integers, TL_DTYPE_COUNT, integers, 0},
};
const tl_kernels tli_cuda_draw_kernels = {rows, TL_COUNT(rows)};
