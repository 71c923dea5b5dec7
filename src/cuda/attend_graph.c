/* Attention as cuDNN knows it: not one operation, but a pattern of small ones. */
#include "cuda/attend.h"

/* A graph on its way. */
typedef struct drawing {
    tli_dnn_graph *g;
    const tli_attend *a;
    tli_dnn_shape scores, columns; /* [batch, heads, queries, keys], and one number for each row */
    tli_dnn_node q, k, v, gy;      /* of k and v the transposed matrices, as the pattern wants */
    tli_dnn_node scale;
} drawing;

// [batch, positions, heads, width] as the pattern counts: batch, heads, positions, width.
static tli_dnn_shape by_heads(tl_dtype dtype, int64_t batch, int64_t positions, int64_t heads,
                              int64_t width, const int64_t *strides)
{
    return (tli_dnn_shape){
        dtype, {batch, heads, positions, width}, {strides[0], strides[2], strides[1], strides[3]}};
}

static tli_dnn_shape transposed(tli_dnn_shape s)
{
    const int64_t dim = s.dims[2], stride = s.strides[2];
    s.dims[2] = s.dims[3];
    s.dims[3] = dim;
    s.strides[2] = s.strides[3];
    s.strides[3] = stride;
    return s;
}

static tli_dnn_shape row_major(tl_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (tli_dnn_shape){dtype, {a, b, c, d}, {b * c * d, c * d, d, 1}};
}

// Of a result: [batch, positions, heads, width].
static tli_dnn_node result(const drawing *w, int64_t number, int64_t positions, int64_t heads,
                           int64_t width)
{
    const int64_t step = tli_attend_step(w->a, heads, width);
    const int64_t strides[] = {positions * step, step, width, 1};
    const tli_dnn_shape s = by_heads(w->a->dtype, w->a->batch, positions, heads, width, strides);
    return tli_dnn_tensor(w->g, number, &s);
}

static tli_dnn_node pointwise(const drawing *w, int mode, tli_dnn_node x, tli_dnn_node b,
                              const tli_dnn_shape *shape)
{
    tli_dnn_node y = tli_dnn_between(w->g, shape);
    tli_dnn_pointwise(w->g, mode, x, b, NULL, y);
    return y;
}

static tli_dnn_node product(const drawing *w, tli_dnn_node a, tli_dnn_node b,
                            const tli_dnn_shape *shape)
{
    tli_dnn_node y = tli_dnn_between(w->g, shape);
    tli_dnn_multiply(w->g, a, b, y);
    return y;
}

static tli_dnn_node reduced(const drawing *w, int mode, tli_dnn_node x)
{
    tli_dnn_node y = tli_dnn_between(w->g, &w->columns);
    tli_dnn_reduce(w->g, mode, x, y);
    return y;
}

// The past alone.
static tli_dnn_node masked(const drawing *w, tli_dnn_node scores)
{
    tli_dnn_shape numbers = w->scores, truths = w->scores;
    if (!w->a->causal) return scores;
    numbers.dtype = TL_I32;
    truths.dtype = TL_BOOL;
    tli_dnn_node row = tli_dnn_between(w->g, &numbers), column = tli_dnn_between(w->g, &numbers);
    tli_dnn_index(w->g, scores, 2, row);
    tli_dnn_index(w->g, scores, 3, column);
    tli_dnn_node past = pointwise(w, CUDNN_POINTWISE_CMP_GE, row, column, &truths);
    tli_dnn_node least = tli_dnn_number(w->g, TLI_ATTEND_LEAST);
    tli_dnn_node y = tli_dnn_between(w->g, &w->scores);
    tli_dnn_pointwise(w->g, CUDNN_POINTWISE_BINARY_SELECT, scores, least, past, y);
    return y;
}

static void draw_forward(drawing *w)
{
    const tli_attend *a = w->a;
    const tli_dnn_shape v =
        by_heads(a->dtype, a->batch, a->keys, a->key_heads, a->value_width, a->v);
    tli_dnn_shape weights = w->scores;
    w->v = tli_dnn_tensor(w->g, TLI_ATTEND_V, &v);
    tli_dnn_node s = product(w, w->q, w->k, &w->scores);
    s = masked(w, pointwise(w, CUDNN_POINTWISE_MUL, s, w->scale, &w->scores));
    tli_dnn_node most = reduced(w, CUDNN_REDUCE_TENSOR_MAX, s);
    s = pointwise(w, CUDNN_POINTWISE_SUB, s, most, &w->scores);
    s = pointwise(w, CUDNN_POINTWISE_EXP, s, NULL, &w->scores);
    tli_dnn_node sum = reduced(w, CUDNN_REDUCE_TENSOR_ADD, s);
    tli_dnn_node logarithm = pointwise(w, CUDNN_POINTWISE_LOG, sum, NULL, &w->columns);
    tli_dnn_pointwise(w->g, CUDNN_POINTWISE_ADD, most, logarithm, NULL,
                      tli_dnn_tensor(w->g, TLI_ATTEND_SUMS, &w->columns));
    weights.dtype = a->dtype;
    s = pointwise(w, CUDNN_POINTWISE_DIV, s, sum, &weights);
    tli_dnn_multiply(w->g, s, w->v, result(w, TLI_ATTEND_Y, a->queries, a->heads, a->value_width));
}

/* The gradient by k or v: heads that one of theirs serves are added up. */
static void draw_key_gradient(const drawing *w, tli_dnn_node scores, tli_dnn_node rows,
                              int64_t number, int64_t width)
{
    const tli_attend *a = w->a;
    tli_dnn_shape turned = transposed(w->scores);
    turned.dtype = a->dtype;
    tli_dnn_node columns = tli_dnn_between(w->g, &turned);
    tli_dnn_reshape(w->g, scores, columns);
    tli_dnn_node y = result(w, number, a->keys, a->key_heads, width);
    if (a->heads == a->key_heads) {
        tli_dnn_multiply(w->g, columns, rows, y);
        return;
    }
    const tli_dnn_shape each = row_major(a->dtype, a->batch, a->heads, a->keys, width);
    tli_dnn_reduce(w->g, CUDNN_REDUCE_TENSOR_ADD, product(w, columns, rows, &each), y);
}

static tli_dnn_node draw_dots(const drawing *w)
{
    const tli_attend *a = w->a;
    const tli_dnn_shape y =
        by_heads(a->dtype, a->batch, a->queries, a->heads, a->value_width, a->y);
    const tli_dnn_shape each = row_major(TL_F32, a->batch, a->heads, a->queries, a->value_width);
    tli_dnn_node dots =
        pointwise(w, CUDNN_POINTWISE_MUL, w->gy, tli_dnn_tensor(w->g, TLI_ATTEND_Y, &y), &each);
    dots = reduced(w, CUDNN_REDUCE_TENSOR_ADD, dots);
    tli_dnn_node kept = tli_dnn_tensor(w->g, TLI_ATTEND_DOTS, &w->columns);
    tli_dnn_pointwise(w->g, CUDNN_POINTWISE_MUL, dots, tli_dnn_number(w->g, TLI_ATTEND_ONE), NULL,
                      kept);
    return kept;
}

static void draw_gradient(drawing *w)
{
    const tli_attend *a = w->a;
    const tli_dnn_shape v =
        transposed(by_heads(a->dtype, a->batch, a->keys, a->key_heads, a->value_width, a->v));
    const tli_dnn_shape k = by_heads(a->dtype, a->batch, a->keys, a->key_heads, a->width, a->k);
    const tli_dnn_shape gy =
        by_heads(a->dtype, a->batch, a->queries, a->heads, a->value_width, a->gy);
    w->v = tli_dnn_tensor(w->g, TLI_ATTEND_V, &v);
    w->gy = tli_dnn_tensor(w->g, TLI_ATTEND_GY, &gy);
    tli_dnn_node dots = draw_dots(w);
    tli_dnn_node s = product(w, w->q, w->k, &w->scores);
    s = pointwise(w, CUDNN_POINTWISE_MUL, s, w->scale, &w->scores);
    s = pointwise(w, CUDNN_POINTWISE_SUB, s, tli_dnn_tensor(w->g, TLI_ATTEND_SUMS, &w->columns),
                  &w->scores);
    tli_dnn_node weights = pointwise(w, CUDNN_POINTWISE_EXP, masked(w, s), NULL, &w->scores);
    draw_key_gradient(w, weights, w->gy, TLI_ATTEND_GV, a->value_width);
    s = product(w, w->gy, w->v, &w->scores);
    s = pointwise(w, CUDNN_POINTWISE_SUB, s, dots, &w->scores);
    s = pointwise(w, CUDNN_POINTWISE_MUL, s, weights, &w->scores);
    s = pointwise(w, CUDNN_POINTWISE_MUL, s, w->scale, &w->scores);
    draw_key_gradient(w, s, w->q, TLI_ATTEND_GK, a->width);
    tli_dnn_node keys = tli_dnn_between(w->g, &k);
    tli_dnn_reshape(w->g, w->k, keys);
    tli_dnn_multiply(w->g, s, keys, result(w, TLI_ATTEND_GQ, a->queries, a->heads, a->width));
}

void tli_attend_draw(tli_dnn_graph *g, const void *attend)
{
    const tli_attend *a = attend;
    const tli_dnn_shape q = by_heads(a->dtype, a->batch, a->queries, a->heads, a->width, a->q);
    const tli_dnn_shape k =
        transposed(by_heads(a->dtype, a->batch, a->keys, a->key_heads, a->width, a->k));
    drawing w = {.g = g,
                 .a = a,
                 .scores = row_major(TL_F32, a->batch, a->heads, a->queries, a->keys),
                 .columns = row_major(TL_F32, a->batch, a->heads, a->queries, 1)};
    w.q = tli_dnn_tensor(g, TLI_ATTEND_Q, &q);
    w.k = tli_dnn_tensor(g, TLI_ATTEND_K, &k);
    w.scale = tli_dnn_number(g, TLI_ATTEND_SCALE);
    if (a->gradient) draw_gradient(&w);
    else draw_forward(&w);
}
