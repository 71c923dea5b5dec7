/* Elements that are moved or made: boxes of them, padding, assignments, scans, choices along an
 * axis (text/make.cu). */
#include <string.h>

#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/element.h"
#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum { BLOCK = 256, LINE = 128 };
_Static_assert(TL_MAX_RANK == 8, "as text/args.h says");

static tli_cuda_work work_of(const char *name, const char *what, int64_t value)
{
    tli_cuda_work w = {.text = {tli_text_of_make}, .name = name, .threads = BLOCK};
    tli_cuda_define(&w.defines, what, value);
    return w;
}

/* --- boxes ------------------------------------------------------------------------------------ */

/* Without axes of 1, and with those in one that are walked as one. */
static void merge_axes(tli_box_args *a, const tl_shape *box, const int64_t *from, const int64_t *to)
{
    for (int i = 0; i < box->rank; i++) {
        if (box->dims[i] == 1) continue;
        const long long k = a->rank - 1;
        if (k >= 0 && a->from[k] == from[i] * box->dims[i] && a->to[k] == to[i] * box->dims[i]) {
            a->dims[k] *= box->dims[i];
            a->from[k] = from[i];
            a->to[k] = to[i];
            continue;
        }
        a->dims[a->rank] = box->dims[i];
        a->from[a->rank] = from[i];
        a->to[a->rank++] = to[i];
    }
    if (a->rank) return;
    a->dims[0] = a->from[0] = a->to[0] = a->rank = 1;
}

/* Elements that lie side by side on both sides are moved two by two, again and again. */
static size_t widen(tli_box_args *a, size_t size)
{
    const long long last = a->rank - 1;
    while (size < 16 && a->from[last] == 1 && a->to[last] == 1 && a->dims[last] % 2 == 0) {
        if ((uintptr_t)a->x % (2 * size) || (uintptr_t)a->y % (2 * size)) break;
        for (long long k = 0; k < last; k++)
            if (a->from[k] % 2 || a->to[k] % 2) return size;
        for (long long k = 0; k < last; k++) {
            a->from[k] /= 2;
            a->to[k] /= 2;
        }
        a->dims[last] /= 2;
        a->count /= 2;
        size *= 2;
    }
    return size;
}

tl_status tli_cuda_move_box(const tl_run *run, const tl_shape *box, size_t size, const void *x,
                            const int64_t *from, void *y, const int64_t *to)
{
    tli_box_args a = {.count = tl_shape_count(box), .x = x, .y = y};
    if (!a.count) return TL_OK;
    merge_axes(&a, box, from, to);
    tli_cuda_work w = work_of("move_box", "BOX", 1);
    tli_cuda_define_unit(&w.defines, widen(&a, size));
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status fill(const tl_run *run, const tl_tensor *y, double value)
{
    const size_t size = tl_dtype_size(y->dtype);
    tli_make_args a = {.count = tl_tensor_count(y), .y = tli_data(y)};
    if (!a.count) return TL_OK;
    tli_element_set(y->dtype, &a.bits, 0, value);
    tli_cuda_work w = work_of("fill", "FILL", 1);
    tli_cuda_define_unit(&w.defines, size);
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

void tli_cuda_fill_ahead(tli_cuda *d, size_t size)
{
    tli_cuda_work w = work_of("fill", "FILL", 1);
    tli_cuda_define_unit(&w.defines, size);
    tli_cuda_work_ahead(d, &w);
}

static tl_status full(const tl_run *run, const tl_node *n)
{
    return fill(run, n->out[0], ((const tl_full_attr *)n->attr)->value);
}

static tl_status concat(const tl_run *run, const tl_node *n)
{
    const tl_axis_attr *attr = n->attr;
    const tl_tensor *y = n->out[0];
    const size_t size = tl_dtype_size(y->dtype);
    char *to = tli_data(y);
    for (int i = 0; i < n->inputs; i++) {
        const tl_tensor *x = n->in[i];
        TL_TRY(tli_cuda_move_box(run, &x->shape, size, tli_data(x), x->strides, to, y->strides));
        to += (size_t)(x->shape.dims[attr->axis] * y->strides[attr->axis]) * size;
    }
    return TL_OK;
}

static tl_status unslice(const tl_run *run, const tl_node *n)
{
    const tl_unslice_attr *attr = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const size_t size = tl_dtype_size(y->dtype);
    int64_t strides[TL_MAX_RANK], at = 0;
    TL_TRY(fill(run, y, 0));
    if (!tl_tensor_count(x)) return TL_OK;
    for (int i = 0; i < x->shape.rank; i++) {
        at += attr->starts.items[i] * y->strides[i];
        strides[i] = y->strides[i] * (x->shape.dims[i] > 1 ? attr->steps.items[i] : 1);
    }
    return tli_cuda_move_box(run, &x->shape, size, tli_data(x), x->strides,
                             (char *)tli_data(y) + at * (int64_t)size, strides);
}

static tl_status pad_reflect(const tl_run *run, const tl_node *n)
{
    const tl_pad_attr *attr = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    tli_make_args a = {
        .count = tl_tensor_count(y), .rank = x->shape.rank, .x = tli_data(x), .y = tli_data(y)};
    for (int i = 0; i < x->shape.rank; i++) {
        a.dims[i] = x->shape.dims[i];
        a.before[i] = attr->before.items[i];
        a.after[i] = attr->after.items[i];
        a.from[i] = x->strides[i];
    }
    tli_cuda_work w = work_of("pad_reflect", "REFLECT", 1);
    tli_cuda_define_unit(&w.defines, tl_dtype_size(y->dtype));
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status pad(const tl_run *run, const tl_node *n)
{
    const tl_pad_attr *attr = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const size_t size = tl_dtype_size(y->dtype);
    int64_t at = 0;
    if (attr->mode != TL_PAD_CONSTANT) return pad_reflect(run, n);
    TL_TRY(fill(run, y, attr->value));
    if (!tl_tensor_count(x)) return TL_OK;
    for (int i = 0; i < x->shape.rank; i++) at += attr->before.items[i] * y->strides[i];
    return tli_cuda_move_box(run, &x->shape, size, tli_data(x), x->strides,
                             (char *)tli_data(y) + at * (int64_t)size, y->strides);
}

/* --- assignments ------------------------------------------------------------------------------ */

/* Sums of each type as nests have them: of what is there and what is added. */
static const char *sum_of(tl_dtype dtype)
{
    switch (dtype) {
    case TL_BF16: return "bf16_bits_of_f(from_bf16(there) + from_bf16(more))";
    case TL_F16: return "f16_bits_of_f(from_f16(there) + from_f16(more))";
    case TL_I64: return "(i64)((u64)there + (u64)more)";
    case TL_I32: return "(i32)((u32)there + (u32)more)";
    case TL_BOOL: return "(u8)(there | more)";
    default: return "there + more";
    }
}

/* What is added is rounded behind its factor, as the op that multiplies does it. */
static const char *scaled(tl_dtype dtype)
{
    switch (dtype) {
    case TL_F32: return "x * (float)a.by";
    case TL_BF16: return "bf16_bits_of_f(from_bf16(x) * (float)a.by)";
    case TL_F16: return "f16_bits_of_f(from_f16(x) * (float)a.by)";
    default: return "x * a.by";
    }
}

static tl_status assign(const tl_run *run, const tl_node *n)
{
    const tl_assign_attr *attr = n->attr;
    const tl_tensor *y = n->in[0], *x = n->in[1];
    tli_add_args a = {.count = tl_tensor_count(y),
                      .x = tli_data(x),
                      .y = tli_data(y),
                      .begins = n->inputs > 2 ? tli_data(n->in[2]) : NULL,
                      .by = attr->scale};
    if (!a.count) return TL_OK;
    if (!attr->add) return run->queue->device->cls->copy(run->queue, a.y, a.x, tl_tensor_bytes(y));
    tli_cuda_work w = work_of("add_to", "ADD", 1);
    tli_cuda_define_type(&w.defines, "Y", y->dtype);
    tl_str_addf(&w.defines, "#define MORE %s\n#define SUM %s\n",
                attr->scale != 0 ? scaled(y->dtype) : "x", sum_of(y->dtype));
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static tl_status arange(const tl_run *run, const tl_node *n)
{
    const tl_arange_attr *attr = n->attr;
    const tl_tensor *y = n->out[0];
    tli_make_args a = {
        .count = tl_tensor_count(y), .start = attr->start, .step = attr->step, .y = tli_data(y)};
    if (!a.count) return TL_OK;
    tli_cuda_work w = work_of("arange", "ARANGE", 1);
    tli_cuda_define_type(&w.defines, "Y", y->dtype);
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status one_hot(const tl_run *run, const tl_node *n)
{
    const tl_one_hot_attr *attr = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    tli_make_args a = {
        .count = tl_tensor_count(y), .depth = attr->depth, .x = tli_data(x), .y = tli_data(y)};
    if (!a.count) return TL_OK;
    tli_element_set(y->dtype, &a.bits, 0, 1);
    tli_cuda_work w = work_of("one_hot", "ONE_HOT", 1);
    tli_cuda_define_type(&w.defines, "I", x->dtype);
    tli_cuda_define_unit(&w.defines, tl_dtype_size(y->dtype));
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* --- along an axis ---------------------------------------------------------------------------- */

static tli_axis_args axis_of(const tl_tensor *x, int64_t axis, const tl_tensor *y)
{
    tli_axis_args a = {
        .axis = x->shape.dims[axis], .behind = 1, .x = tli_data(x), .y = tli_data(y)};
    for (int i = (int)axis + 1; i < x->shape.rank; i++) a.behind *= x->shape.dims[i];
    a.groups = a.axis ? tl_tensor_count(x) / a.axis : 0;
    return a;
}

/* As what elements are compared. */
static void define_kind(tl_str *to, tl_dtype dtype)
{
    const bool halves = dtype == TL_BF16 || dtype == TL_F16;
    tli_cuda_define_type(to, "X", dtype);
    tl_str_addf(to, "#define KIND %s\n#define X_VALUE(x) %s\n", halves ? "float" : "X_T",
                halves ? "X_LOAD(x)" : "(x)");
}

static tl_status choose(const tl_run *run, const tl_node *n, bool largest)
{
    const tl_arg_attr *attr = n->attr;
    const tl_tensor *x = n->in[0];
    tli_axis_args a = axis_of(x, attr->axis, n->out[0]);
    tli_cuda_work w = work_of("choose", "CHOOSE", largest);
    w.threads = LINE;
    define_kind(&w.defines, x->dtype);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status argmax(const tl_run *run, const tl_node *n)
{
    return choose(run, n, true);
}

static tl_status argmin(const tl_run *run, const tl_node *n)
{
    return choose(run, n, false);
}

static tl_status rank(const tl_run *run, const tl_node *n, int64_t axis, bool descending,
                      int64_t keep)
{
    const tl_tensor *x = n->in[0];
    tli_axis_args a = axis_of(x, axis, n->out[0]);
    tli_cuda_work w = work_of("rank", "RANK", descending);
    a.count = tl_tensor_count(x);
    a.keep = keep;
    a.places = tli_data(n->out[1]);
    a.groups = tl_div_up(a.count, BLOCK);
    define_kind(&w.defines, x->dtype);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status sort(const tl_run *run, const tl_node *n)
{
    const tl_sort_attr *attr = n->attr;
    return rank(run, n, attr->axis, attr->descending, n->in[0]->shape.dims[attr->axis]);
}

static tl_status top_k(const tl_run *run, const tl_node *n)
{
    return rank(run, n, n->in[0]->shape.rank - 1, true, ((const tl_top_k_attr *)n->attr)->k);
}

bool tli_cuda_sorts(const tl_node *call)
{
    enum { MOST = 1 << 16 }; // each element is compared with all of its line
    const tl_shape *s = &call->in[0]->shape;
    return s->dims[call->op->op == TL_OP_sort ? ((const tl_sort_attr *)call->attr)->axis
                                              : s->rank - 1]
           <= MOST;
}

static const tl_kernel sorting[] = {
    {TL_OP_sort, TL_DTYPE_COUNT, sort, 0},
    {TL_OP_top_k, TL_DTYPE_COUNT, top_k, 0},
};
const tl_kernels tli_cuda_sort_kernels = {sorting, TL_COUNT(sorting)};

static tl_status cumsum(const tl_run *run, const tl_node *n)
{
    const tl_cumsum_attr *attr = n->attr;
    const tl_tensor *x = n->in[0];
    tli_axis_args a = axis_of(x, attr->axis, n->out[0]);
    tli_cuda_work w = work_of("scan", "SCAN", 1);
    w.threads = LINE;
    a.exclusive = attr->exclusive;
    a.reverse = attr->reverse;
    tli_cuda_define_type(&w.defines, "X", x->dtype);
    switch (x->dtype) {
    case TL_I64:
        tl_str_add(&w.defines, "#define SUM_T i64\n#define SUM_ADD(a, b) add_l(a, b)\n"
                               "#define SUM_OF(x) (x)\n#define OF_SUM(x) (x)\n");
        break;
    case TL_I32:
        tl_str_add(&w.defines, "#define SUM_T i32\n#define SUM_ADD(a, b) add_i(a, b)\n"
                               "#define SUM_OF(x) (x)\n#define OF_SUM(x) (x)\n");
        break;
    case TL_F64:
        tl_str_add(&w.defines, "#define SUM_T double\n#define SUM_ADD(a, b) ((a) + (b))\n"
                               "#define SUM_OF(x) (x)\n#define OF_SUM(x) (x)\n");
        break;
    default: // sums of many floats in double, as the host has them
        tl_str_add(&w.defines, "#define SUM_T double\n#define SUM_ADD(a, b) ((a) + (b))\n"
                               "#define SUM_OF(x) ((double)X_LOAD(x))\n"
                               "#define OF_SUM(x) X_OF_D(x)\n");
        break;
    }
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* Rows of what is reduced: as they lie, or moved so that they do. */
static tl_status rows_of(const tl_run *run, const tl_tensor *x, tl_ints axes, tli_axis_args *a)
{
    bool reduced[TL_MAX_RANK] = {false};
    int64_t to[TL_MAX_RANK], stride = 1;
    const int rank = x->shape.rank;
    bool lies = true;
    a->axis = 1;
    for (int64_t i = 0; i < axes.count; i++) {
        reduced[axes.items[i]] = true;
        lies &= axes.items[i] == rank - axes.count + i;
        a->axis *= x->shape.dims[axes.items[i]];
    }
    a->x = tli_data(x);
    a->groups = a->axis ? tl_tensor_count(x) / a->axis : 0;
    if (lies || !a->groups) return TL_OK;
    for (int pass = 0; pass < 2; pass++) // the last axes are those that are reduced
        for (int i = rank - 1; i >= 0; i--)
            if (reduced[i] == (pass == 0)) {
                to[i] = stride;
                stride *= x->shape.dims[i];
            }
    void *room;
    TL_TRY(tli_cuda_scratch(run, &room, tl_tensor_bytes(x)));
    a->x = room;
    return tli_cuda_move_box(run, &x->shape, tl_dtype_size(x->dtype), tli_data(x), x->strides, room,
                             to);
}

static tl_status spread(const tl_run *run, const tl_node *n, tl_ints axes, int what, int correction)
{
    const tl_tensor *x = n->in[0], *y = n->out[0];
    tli_axis_args a = {.correction = correction, .y = tli_data(y)};
    TL_TRY(rows_of(run, x, axes, &a));
    tli_cuda_work w = work_of("spread_rows", "SPREAD_OF", what);
    tli_cuda_define_type(&w.defines, "X", x->dtype);
    tli_cuda_define_type(&w.defines, "Y", y->dtype);
    if (!a.groups) a.groups = tl_tensor_count(y); // of nothing
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status variance(const tl_run *run, const tl_node *n)
{
    const tl_variance_attr *attr = n->attr;
    return spread(run, n, attr->axes, 0, (int)attr->correction);
}

static tl_status logsumexp(const tl_run *run, const tl_node *n)
{
    return spread(run, n, ((const tl_reduce_attr *)n->attr)->axes, 1, 0);
}

/* --- functions of doubles, which schedules are made of ---------------------------------------- */

/* Where an input has an element for each of the result: in `room`, if some of its own stand for
 * several. */
static tl_status repeat(const tl_run *run, const tl_tensor *in, const tl_tensor *out, double *room,
                        const void **at)
{
    int64_t from[TL_MAX_RANK] = {0}, to[TL_MAX_RANK], stride = 1;
    const int extra = out->shape.rank - in->shape.rank;
    *at = tli_data(in);
    if (tl_tensor_count(in) == tl_tensor_count(out)) return TL_OK;
    for (int i = out->shape.rank - 1; i >= 0; stride *= out->shape.dims[i--]) to[i] = stride;
    for (int i = 0; i < in->shape.rank; i++)
        if (in->shape.dims[i] != 1) from[i + extra] = in->strides[i];
    *at = room;
    return tli_cuda_move_box(run, &out->shape, sizeof *room, tli_data(in), from, room, to);
}

static tl_status each_double(const tl_run *run, const tl_node *n, const char *formula)
{
    tli_flat_args a = {.count = tl_tensor_count(n->out[0]), .y = tli_data(n->out[0])};
    void *room = NULL;
    if (n->inputs > 1) {
        TL_TRY(tli_cuda_scratch(run, &room, 2 * (size_t)a.count * sizeof(double)));
        TL_TRY(repeat(run, n->in[1], n->out[0], (double *)room + a.count, &a.g));
    }
    TL_TRY(repeat(run, n->in[0], n->out[0], room, &a.x));
    tli_cuda_work w = {.text = {tli_text_of_make}, .name = "each_double", .threads = BLOCK};
    tl_str_addf(&w.defines, "#define EACH_D %s\n", formula);
    a.groups = tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

#define DOUBLE(op, formula)                                                                        \
    static tl_status op##_double(const tl_run *run, const tl_node *n)                              \
    {                                                                                              \
        return each_double(run, n, formula);                                                       \
    }
DOUBLE(exp, "__builtin_exp(x)")
DOUBLE(log, "__builtin_log(x)")
DOUBLE(sin, "__builtin_sin(x)")
DOUBLE(cos, "__builtin_cos(x)")
DOUBLE(pow, "__builtin_pow(x, y)")

#define FLOATS(op)                                                                                 \
    {TL_OP_##op, TL_F32, op, 0}, {TL_OP_##op, TL_BF16, op, 0},                                     \
    {                                                                                              \
        TL_OP_##op, TL_F16, op, 0                                                                  \
    }
static const tl_kernel rows[] = {
    {TL_OP_full, TL_DTYPE_COUNT, full, 0},
    {TL_OP_concat, TL_DTYPE_COUNT, concat, TL_KERNEL_STRIDED},
    {TL_OP_unslice, TL_DTYPE_COUNT, unslice, TL_KERNEL_STRIDED},
    {TL_OP_pad, TL_DTYPE_COUNT, pad, TL_KERNEL_STRIDED},
    {TL_OP_assign, TL_DTYPE_COUNT, assign, 0},
    {TL_OP_arange, TL_DTYPE_COUNT, arange, 0},
    {TL_OP_one_hot, TL_DTYPE_COUNT, one_hot, 0},
    {TL_OP_argmax, TL_DTYPE_COUNT, argmax, 0},
    {TL_OP_argmin, TL_DTYPE_COUNT, argmin, 0},
    FLOATS(cumsum),
    {TL_OP_cumsum, TL_F64, cumsum, 0},
    {TL_OP_cumsum, TL_I32, cumsum, 0},
    {TL_OP_cumsum, TL_I64, cumsum, 0},
    FLOATS(variance),
    FLOATS(logsumexp),
    {TL_OP_exp, TL_F64, exp_double, 0},
    {TL_OP_log, TL_F64, log_double, 0},
    {TL_OP_sin, TL_F64, sin_double, 0},
    {TL_OP_cos, TL_F64, cos_double, 0},
    {TL_OP_pow, TL_F64, pow_double, 0},
};
const tl_kernels tli_cuda_make_kernels = {rows, TL_COUNT(rows)};
