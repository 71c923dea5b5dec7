/* Products, convolutions, norms, sums and attention as nodes of ONNX. */
#include "io/onnx/impl.h"

static const char *two(tli_onnx *x, const char *op, const char *a, const char *b)
{
    return TLI_EMIT(x, .op = op, .in = {a, b});
}

/* --- products --------------------------------------------------------------------------------- */

/* With its last two axes exchanged. */
static const char *exchanged(tli_onnx *x, const tl_tensor *t)
{
    int rank = t->shape.rank;
    int64_t order[TL_MAX_RANK];
    if (rank < 2) return tli_onnx_get(x, t);
    for (int i = 0; i < rank; i++) order[i] = i;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    return TLI_EMIT(x, .op = "Transpose", .in = {tli_onnx_get(x, t)},
                    .attrs = {TLI_INTS("perm", rank, order)});
}

static void matmul(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_matmul_attr *k = n->attr;
    const char *a = k->transpose_a ? exchanged(x, n->in[0]) : tli_onnx_get(x, n->in[0]);
    const char *b = k->transpose_b ? exchanged(x, n->in[1]) : tli_onnx_get(x, n->in[1]);
    (void)more;
    tli_onnx_set(x, n->out[0], two(x, "MatMul", a, b));
}

static void linear(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_linear_attr *k = n->attr;
    const char *in = tli_onnx_get(x, n->in[0]), *w = tli_onnx_get(x, n->in[1]);
    const char *bias = n->inputs > 2 ? tli_onnx_get(x, n->in[2]) : NULL, *out;
    (void)more;
    if (n->in[0]->shape.rank == 2) {
        out = TLI_EMIT(x, .op = "Gemm", .in = {in, w, bias});
    } else {
        out = two(x, "MatMul", in, w);
        if (bias) out = two(x, "Add", out, bias);
    }
    tli_onnx_set(x, n->out[0], tli_onnx_activation(x, k->activation, n->out[0]->dtype, out));
}

/* --- images ----------------------------------------------------------------------------------- */

/* Filters [height, width, in, out] lie as [out, in, height, width] there. */
static const char *filters(tli_onnx *x, const tl_tensor *t)
{
    static const int perm[] = {3, 2, 0, 1};
    static const int64_t order[] = {3, 2, 0, 1};
    const tl_tensor *weight = tli_onnx_weight(t);
    if (weight) return tli_onnx_turned(x, weight, t->shape, perm);
    return TLI_EMIT(x, .op = "Transpose", .in = {tli_onnx_get(x, t)},
                    .attrs = {TLI_INTS("perm", 4, order)});
}

static void convolve(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_conv_attr *k = n->attr;
    const int64_t *window = n->in[1]->shape.dims, size[] = {window[0], window[1]},
                  pads[] = {k->top, k->left, k->bottom, k->right},
                  strides[] = {k->stride_y, k->stride_x},
                  dilations[] = {k->dilation_y, k->dilation_x};
    (void)more;
    tli_onnx_set_first(
        x, n->out[0],
        TLI_EMIT(x, .op = "Conv", .in = {tli_onnx_get_first(x, n->in[0]), filters(x, n->in[1])},
                 .attrs = {TLI_INTS("kernel_shape", 2, size), TLI_INTS("pads", 4, pads),
                           TLI_INTS("strides", 2, strides), TLI_INTS("dilations", 2, dilations),
                           TLI_INT("group", k->groups)}));
}

static void pool(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_pool_attr *k = n->attr;
    const int64_t size[] = {k->size_y, k->size_x}, strides[] = {k->stride_y, k->stride_x},
                  pads[] = {k->top, k->left, k->bottom, k->right};
    (void)more;
    tli_onnx_set_first(
        x, n->out[0],
        TLI_EMIT(x, .op = n->op->op == TL_OP_max_pool2d ? "MaxPool" : "AveragePool",
                 .in = {tli_onnx_get_first(x, n->in[0])},
                 .attrs = {TLI_INTS("kernel_shape", 2, size), TLI_INTS("pads", 4, pads),
                           TLI_INTS("strides", 2, strides)}));
}

static void resize(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_resize_attr *k = n->attr;
    const int64_t *d = n->out[0]->shape.dims, *e = more->out[0]->shape.dims;
    const int64_t few[] = {d[0], d[3], d[1], d[2]}, many[] = {e[0], e[3], e[1], e[2]};
    bool nearest = k->method == TL_NEAREST;
    tli_onnx_set_first(
        x, n->out[0],
        TLI_EMIT(x, .op = "Resize",
                 .in = {tli_onnx_get_first(x, n->in[0]), "", "", tli_onnx_dims(x, 4, few, many)},
                 .attrs = {TLI_TEXT("coordinate_transformation_mode",
                                    k->align_corners ? "align_corners" : "half_pixel"),
                           TLI_TEXT("mode", nearest ? "nearest" : "linear"),
                           TLI_TEXT("nearest_mode", "round_prefer_ceil")}));
}

/* --- norms ------------------------------------------------------------------------------------ */

/* A vector of one number for each channel, which is `value` where there is no input `i`. */
static const char *channels(tli_onnx *x, const tl_node *n, int i, int64_t count, double value)
{
    return i ? tli_onnx_get(x, n->in[i]) : tli_onnx_floats(x, count, value);
}

/* (x - mean) / sqrt(variance + epsilon) * gamma + beta, with statistics that are given. */
static void batch_norm(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_norm_attr *k = n->attr;
    const tl_shape *shape = &n->in[0]->shape;
    int64_t count = shape->dims[shape->rank - 1];
    const char *gamma = channels(x, n, k->scaled ? 3 : 0, count, 1);
    const char *beta = channels(x, n, k->shifted ? 3 + k->scaled : 0, count, 0);
    const char *mean = tli_onnx_get(x, n->in[1]), *variance = tli_onnx_get(x, n->in[2]);
    (void)more;
    if (shape->rank == 4 || shape->rank == 2) {
        bool first = shape->rank == 4;
        const char *in = first ? tli_onnx_get_first(x, n->in[0]) : tli_onnx_get(x, n->in[0]);
        const char *out =
            TLI_EMIT(x, .op = "BatchNormalization", .in = {in, gamma, beta, mean, variance},
                     .attrs = {TLI_FLOAT("epsilon", k->epsilon)});
        if (first) tli_onnx_set_first(x, n->out[0], out);
        else tli_onnx_set(x, n->out[0], out);
        return;
    }
    const char *epsilon = tli_onnx_number(x, n->in[2]->dtype, k->epsilon);
    const char *deviation = TLI_EMIT(x, .op = "Sqrt", .in = {two(x, "Add", variance, epsilon)});
    const char *out = two(x, "Sub", tli_onnx_get(x, n->in[0]), mean);
    out = two(x, "Mul", two(x, "Div", out, deviation), gamma);
    tli_onnx_set(x, n->out[0], two(x, "Add", out, beta));
}

static const char *ones_like(tli_onnx *x, const tl_node *n, const tl_norm_attr *k)
{
    const tl_shape *shape = &n->in[0]->shape;
    int64_t dims[TL_MAX_RANK];
    int axes = (int)k->axes, outer = shape->rank - axes;
    for (int i = 0; i < axes; i++) dims[i] = shape->dims[outer + i];
    return two(x, "Expand", tli_onnx_number(x, TL_F32, 1), tli_onnx_ints(x, axes, dims));
}

static void layer_norm(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_norm_attr *k = n->attr;
    const char *gamma = k->scaled ? tli_onnx_get(x, n->in[1]) : ones_like(x, n, k);
    const char *beta = k->shifted ? tli_onnx_get(x, n->in[1 + k->scaled]) : NULL;
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "LayerNormalization",
                          .in = {tli_onnx_get(x, n->in[0]), gamma, beta},
                          .attrs = {TLI_INT("axis", -k->axes), TLI_FLOAT("epsilon", k->epsilon)}));
}

static void rms_norm(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_norm_attr *k = n->attr;
    const char *in = tli_onnx_get(x, n->in[0]);
    int64_t axes[TL_MAX_RANK];
    (void)more;
    for (int i = 0; i < k->axes; i++) axes[i] = i - k->axes;
    const char *mean = TLI_EMIT(x, .op = "ReduceMean", .in = {two(x, "Mul", in, in)},
                                .attrs = {TLI_INTS("axes", k->axes, axes)});
    mean = two(x, "Add", mean, tli_onnx_number(x, n->in[0]->dtype, k->epsilon));
    const char *out = two(x, "Div", in, TLI_EMIT(x, .op = "Sqrt", .in = {mean}));
    if (k->scaled) out = two(x, "Mul", out, tli_onnx_get(x, n->in[1]));
    tli_onnx_set(x, n->out[0], out);
}

/* Groups are instances of one channel each. */
static void group_norm(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_norm_attr *k = n->attr;
    const tl_shape *shape = &n->in[0]->shape, *wide = &more->in[0]->shape;
    if (shape->rank != 4) {
        tli_onnx_refuse(x, "its input is no image");
        return;
    }
    int64_t count = shape->dims[3], grouped[] = {0, k->groups, -1};
    const int64_t few[] = {shape->dims[0], count, shape->dims[1], shape->dims[2]},
                  many[] = {wide->dims[0], count, wide->dims[1], wide->dims[2]};
    const char *in = two(x, "Reshape", tli_onnx_get_first(x, n->in[0]),
                         tli_onnx_ints(x, TL_COUNT(grouped), grouped));
    in = TLI_EMIT(x, .op = "InstanceNormalization",
                  .in = {in, tli_onnx_floats(x, k->groups, 1), tli_onnx_floats(x, k->groups, 0)},
                  .attrs = {TLI_FLOAT("epsilon", k->epsilon)});
    in = two(x, "Reshape", in, tli_onnx_dims(x, 4, few, many));
    const int64_t column[] = {count, 1, 1};
    for (int i = 1; i < n->inputs; i++) {
        const char *vector = two(x, "Reshape", tli_onnx_get(x, n->in[i]),
                                 tli_onnx_ints(x, TL_COUNT(column), column));
        in = two(x, i == 1 && k->scaled ? "Mul" : "Add", in, vector);
    }
    tli_onnx_set_first(x, n->out[0], in);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Whether nothing is left whose place would differ when channels come first. */
static bool keeps_order(const tl_reduce_attr *k)
{
    bool rows = false, columns = false;
    for (int64_t i = 0; i < k->axes.count; i++) {
        rows = rows || k->axes.items[i] == 1;
        columns = columns || k->axes.items[i] == 2;
    }
    return k->keep_dims || (rows && columns);
}

static void reduce(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    static const struct {
        tl_op op;
        const char *theirs;
    } ops[] = {{TL_OP_sum, "ReduceSum"},   {TL_OP_prod, "ReduceProd"},
               {TL_OP_max, "ReduceMax"},   {TL_OP_min, "ReduceMin"},
               {TL_OP_mean, "ReduceMean"}, {TL_OP_logsumexp, "ReduceLogSumExp"}};
    const tl_reduce_attr *k = n->attr;
    bool first = n->in[0]->shape.rank == 4 && tli_onnx_is_first(x, n->in[0]) && keeps_order(k);
    const char *in = first ? tli_onnx_get_first(x, n->in[0]) : tli_onnx_get(x, n->in[0]);
    const char *op = ops[0].theirs, *out;
    int64_t axes[TL_MAX_RANK];
    (void)more;
    for (int64_t i = 0; i < TL_COUNT(ops); i++)
        if (ops[i].op == n->op->op) op = ops[i].theirs;
    for (int64_t i = 0; i < k->axes.count; i++)
        axes[i] = first ? tli_onnx_axis_first[k->axes.items[i]] : k->axes.items[i];
    if (k->axes.count == 0) {
        out = in;                        // of one number
    } else if (n->op->op == TL_OP_sum) { // its axes became an input before those of the others
        out = TLI_EMIT(x, .op = op, .in = {in, tli_onnx_ints(x, k->axes.count, axes)},
                       .attrs = {TLI_INT("keepdims", k->keep_dims)});
    } else {
        out = TLI_EMIT(
            x, .op = op, .in = {in},
            .attrs = {TLI_INTS("axes", k->axes.count, axes), TLI_INT("keepdims", k->keep_dims)});
    }
    if (first && k->keep_dims) tli_onnx_set_first(x, n->out[0], out);
    else tli_onnx_set(x, n->out[0], out);
}

/* The mean of the squares of what the mean leaves. */
static void variance(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_variance_attr *k = n->attr;
    const char *in = tli_onnx_get(x, n->in[0]);
    (void)more;
    if (k->correction) {
        tli_onnx_refuse(x, "its correction is not 0");
        return;
    }
    const char *mean = TLI_EMIT(x, .op = "ReduceMean", .in = {in},
                                .attrs = {TLI_INTS("axes", k->axes.count, k->axes.items)});
    const char *left = two(x, "Sub", in, mean);
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = "ReduceMean", .in = {two(x, "Mul", left, left)},
                          .attrs = {TLI_INTS("axes", k->axes.count, k->axes.items),
                                    TLI_INT("keepdims", k->keep_dims)}));
}

static void arg(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_arg_attr *k = n->attr;
    const char *out = TLI_EMIT(
        x, .op = n->op->op == TL_OP_argmax ? "ArgMax" : "ArgMin", .in = {tli_onnx_get(x, n->in[0])},
        .attrs = {TLI_INT("axis", k->axis), TLI_INT("keepdims", k->keep_dims)});
    (void)more;
    if (n->out[0]->dtype != TL_I64)
        out = TLI_EMIT(x, .op = "Cast", .in = {out},
                       .attrs = {TLI_INT("to", tli_onnx_type(n->out[0]->dtype))});
    tli_onnx_set(x, n->out[0], out);
}

static void softmax(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    const tl_softmax_attr *k = n->attr;
    (void)more;
    tli_onnx_set(x, n->out[0],
                 TLI_EMIT(x, .op = n->op->op == TL_OP_softmax ? "Softmax" : "LogSoftmax",
                          .in = {tli_onnx_get(x, n->in[0])}, .attrs = {TLI_INT("axis", k->axis)}));
}

/* --- attention -------------------------------------------------------------------------------- */

/* [B, heads, ...]: each head serves `times` neighbouring ones. */
static const char *heads(tli_onnx *x, const tl_tensor *t, int64_t times, const int64_t order[4])
{
    const char *in = tli_onnx_get(x, t);
    int64_t count = t->shape.dims[2] * times;
    if (times > 1) {
        int64_t *which = tl_arena_array(x->file.arena, count, sizeof *which);
        if (!which) tli_onnx_fail(x, TL_ENOMEM);
        for (int64_t i = 0; which && i < count; i++) which[i] = i / times;
        if (which)
            in = TLI_EMIT(x, .op = "Gather", .in = {in, tli_onnx_ints(x, count, which)},
                          .attrs = {TLI_INT("axis", 2)});
    }
    return TLI_EMIT(x, .op = "Transpose", .in = {in}, .attrs = {TLI_INTS("perm", 4, order)});
}

/* bool [queries, keys]: the last query looks at all keys. */
static const char *looks_back(tli_onnx *x, int64_t queries, int64_t keys)
{
    const char *from = tli_onnx_number(x, TL_I64, 0), *step = tli_onnx_number(x, TL_I64, 1);
    const char *key =
        TLI_EMIT(x, .op = "Range", .in = {from, tli_onnx_number(x, TL_I64, (double)keys), step});
    const char *query = TLI_EMIT(x, .op = "Range",
                                 .in = {tli_onnx_number(x, TL_I64, (double)(keys - queries)),
                                        tli_onnx_number(x, TL_I64, (double)keys), step});
    const int64_t column[] = {queries, 1};
    query = two(x, "Reshape", query, tli_onnx_ints(x, 2, column));
    return two(x, "LessOrEqual", key, query);
}

/* What may be looked at, so that it broadcasts to the scores; NULL: all. */
static const char *allowed(tli_onnx *x, const tl_node *n)
{
    const tl_attend_attr *k = n->attr;
    int64_t queries = n->in[0]->shape.dims[1], keys = n->in[1]->shape.dims[1];
    const char *mask = NULL;
    if (k->masked) {
        const int64_t shape[] = {-1, 1, 1, keys};
        mask = two(x, "Reshape", tli_onnx_get(x, n->in[3]), tli_onnx_ints(x, 4, shape));
    }
    if (!k->causal) return mask;
    const char *back = looks_back(x, queries, keys);
    return mask ? two(x, "And", mask, back) : back;
}

/* Scores that do not count become so low that their weights are 0; those of a query that may look
 * at nothing are 0 as well. */
static void attend(tli_onnx *x, const tl_node *n, const tl_node *more)
{
    static const int64_t by_head[] = {0, 2, 1, 3}, keys_last[] = {0, 2, 3, 1};
    const tl_attend_attr *k = n->attr;
    tl_dtype dtype = n->in[0]->dtype;
    int64_t times = n->in[0]->shape.dims[2] / n->in[1]->shape.dims[2];
    (void)more;
    if (k->rate > 0) {
        tli_onnx_refuse(x, "it drops weights at random");
        return;
    }
    const char *scores =
        two(x, "MatMul", heads(x, n->in[0], 1, by_head), heads(x, n->in[1], times, keys_last));
    scores = two(x, "Mul", scores, tli_onnx_number(x, dtype, k->scale));
    if (k->biased) scores = two(x, "Add", scores, tli_onnx_get(x, n->in[3 + k->masked]));
    const char *mask = allowed(x, n);
    if (mask)
        scores = TLI_EMIT(x, .op = "Where", .in = {mask, scores, tli_onnx_number(x, dtype, -1e30)});
    const char *weights =
        TLI_EMIT(x, .op = "Softmax", .in = {scores}, .attrs = {TLI_INT("axis", -1)});
    if (mask)
        weights = TLI_EMIT(x, .op = "Where", .in = {mask, weights, tli_onnx_number(x, dtype, 0)});
    const char *out = two(x, "MatMul", weights, heads(x, n->in[2], times, by_head));
    tli_onnx_set(
        x, n->out[0],
        TLI_EMIT(x, .op = "Transpose", .in = {out}, .attrs = {TLI_INTS("perm", 4, by_head)}));
}

tli_onnx_fn *tli_onnx_layers(tl_op op)
{
    switch (op) {
    case TL_OP_matmul: return matmul;
    case TL_OP_linear: return linear;
    case TL_OP_convolve2d: return convolve;
    case TL_OP_max_pool2d:
    case TL_OP_avg_pool2d: return pool;
    case TL_OP_resize: return resize;
    case TL_OP_batch_norm_apply: return batch_norm;
    case TL_OP_layer_normalize: return layer_norm;
    case TL_OP_rms_normalize: return rms_norm;
    case TL_OP_group_normalize: return group_norm;
    case TL_OP_sum:
    case TL_OP_prod:
    case TL_OP_max:
    case TL_OP_min:
    case TL_OP_mean:
    case TL_OP_logsumexp: return reduce;
    case TL_OP_variance: return variance;
    case TL_OP_argmax:
    case TL_OP_argmin: return arg;
    case TL_OP_softmax:
    case TL_OP_log_softmax: return softmax;
    case TL_OP_attend: return attend;
    default: return NULL;
    }
}
