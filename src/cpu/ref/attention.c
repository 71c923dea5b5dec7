#include "cpu/ref/ref.h"

#include <math.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/core/ctx.h>

/* One call: its inputs, and the row of scores of one query. */
typedef struct attention {
    const tl_attend_attr *a;
    const tl_tensor *q, *k, *v, *mask, *bias, *dropped;
    int64_t batches, queries, keys, heads, width, value_width;
    int64_t serves; /* heads of q for each head of k */
    tl_shape scores;
    tl_rng stream;
    double *weights;  /* after the softmax, before dropout */
    double *gweights; /* gradient's: by the weights */
    float *draws;
} attention;

static tl_status attention_init(attention *t, const tl_run *run, const tl_node *n, int first,
                                int extra)
{
    const tl_attend_attr *a = n->attr;
    *t = (attention){.a = a, .q = n->in[first], .k = n->in[first + 1], .v = n->in[first + 2]};
    if (a->masked) t->mask = n->in[extra];
    if (a->biased) t->bias = n->in[extra + a->masked];
    if (a->dropped) t->dropped = n->in[extra + a->masked + a->biased];
    t->batches = t->q->shape.dims[0];
    t->queries = t->q->shape.dims[1];
    t->keys = t->k->shape.dims[1];
    t->heads = t->q->shape.dims[2];
    t->width = t->q->shape.dims[3];
    t->value_width = t->v->shape.dims[3];
    t->serves = t->heads / t->k->shape.dims[2];
    TL_ASSERT(t->k->shape.dims[0] == t->batches && t->k->shape.dims[3] == t->width
              && t->v->shape.dims[1] == t->keys);
    TL_ASSERT(t->serves * t->k->shape.dims[2] == t->heads
              && t->v->shape.dims[2] == t->k->shape.dims[2]);
    t->scores = TL_SHAPE(t->batches, t->heads, t->queries, t->keys);
    tl_draw_stream(&t->stream, &run->draws, a->key);
    size_t bytes = (size_t)t->keys * (2 * sizeof(double) + sizeof(float));
    if (!(t->weights = tl_alloc(bytes))) return TL_FAIL_NOMEM(bytes);
    t->gweights = t->weights + t->keys;
    t->draws = (float *)(t->gweights + t->keys);
    return TL_OK;
}

static void attention_deinit(attention *t)
{
    tl_free(t->weights);
}

static int64_t at4(const tl_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
}

static int64_t row_of(const attention *t, int64_t b, int64_t h, int64_t query)
{
    return (b * t->heads + h) * t->queries + query;
}

static bool may_look(const attention *t, int64_t b, int64_t query, int64_t key)
{
    if (t->a->causal && key > query + t->keys - t->queries) return false;
    return !t->mask
           || tli_ref_get(t->mask, b * t->mask->strides[0] + key * t->mask->strides[1]) != 0;
}

static double score(const attention *t, int64_t b, int64_t h, int64_t query, int64_t key)
{
    double sum = 0;
    for (int64_t d = 0; d < t->width; d++)
        sum += tli_ref_get(t->q, at4(t->q, b, query, h, d))
               * tli_ref_get(t->k, at4(t->k, b, key, h / t->serves, d));
    sum *= t->a->scale;
    if (!t->bias) return sum;
    int64_t index = row_of(t, b, h, query) * t->keys + key;
    return sum + tli_ref_get(t->bias, tli_ref_offset(t->bias, &t->scores, index));
}

// The weights of one query; gives the logarithm of the sum they were divided by.
static double weigh(attention *t, int64_t b, int64_t h, int64_t query)
{
    double most = -INFINITY, sum = 0;
    for (int64_t s = 0; s < t->keys; s++) {
        t->weights[s] = may_look(t, b, query, s) ? score(t, b, h, query, s) : -INFINITY;
        if (t->weights[s] > most || isnan(t->weights[s])) most = t->weights[s];
        if (isnan(most)) break;
    }
    if (most == -INFINITY) { // nothing to look at
        memset(t->weights, 0, (size_t)t->keys * sizeof *t->weights);
        return most;
    }
    if (isnan(most)) {
        for (int64_t s = 0; s < t->keys; s++) t->weights[s] = most;
        return most;
    }
    for (int64_t s = 0; s < t->keys; s++) sum += t->weights[s] = exp(t->weights[s] - most);
    for (int64_t s = 0; s < t->keys; s++) t->weights[s] /= sum;
    return most + log(sum);
}

// Turns the draws of one query into the factors that dropout multiplies its weights by.
static void draw(attention *t, int64_t row)
{
    if (t->a->rate > 0 && !t->dropped)
        tl_rng_fill_uniform_f32(&t->stream, row * t->keys, t->draws, t->keys);
    for (int64_t s = 0; s < t->keys; s++) {
        bool kept = t->a->rate == 0;
        if (t->dropped)
            kept |=
                tli_ref_get(t->dropped, tli_ref_offset(t->dropped, &t->scores, row * t->keys + s))
                == 0;
        else kept |= t->draws[s] >= t->a->rate;
        t->draws[s] = kept ? 1.0f : 0.0f;
    }
}

static double kept(const attention *t, int64_t key)
{
    return t->draws[key] != 0 ? 1 / (1 - t->a->rate) : 0;
}

/* --- forward --------------------------------------------------------------------------------- */

static void attend_row(attention *t, const tl_node *n, int64_t b, int64_t h, int64_t query)
{
    int64_t row = row_of(t, b, h, query);
    tli_ref_set(n->out[1], row, weigh(t, b, h, query));
    draw(t, row);
    for (int64_t e = 0; e < t->value_width; e++) {
        double sum = 0;
        for (int64_t s = 0; s < t->keys; s++)
            if (t->weights[s] != 0 && t->draws[s] != 0)
                sum += t->weights[s] * kept(t, s)
                       * tli_ref_get(t->v, at4(t->v, b, s, h / t->serves, e));
        tli_ref_set(n->out[0], at4(n->out[0], b, query, h, e), sum);
    }
}

static tl_status attend_kernel(const tl_run *run, const tl_node *n)
{
    attention t;
    TL_TRY(attention_init(&t, run, n, 0, 3));
    for (int64_t b = 0; b < t.batches; b++)
        for (int64_t h = 0; h < t.heads; h++)
            for (int64_t query = 0; query < t.queries; query++) attend_row(&t, n, b, h, query);
    attention_deinit(&t);
    return TL_OK;
}

/* --- gradient -------------------------------------------------------------------------------- */

/* Sums over queries come together in double before they are rounded. */
typedef struct sums {
    double *gk, *gv, *gbias;
} sums;

static tl_status sums_init(sums *s, const attention *t)
{
    size_t k = (size_t)tl_tensor_count(t->k), v = (size_t)tl_tensor_count(t->v);
    size_t bytes =
        (k + v + (size_t)(t->a->bias_grad ? tl_tensor_count(t->bias) : 0)) * sizeof(double);
    if (!(s->gk = tl_alloc_zero(bytes))) return TL_FAIL_NOMEM(bytes);
    s->gv = s->gk + k;
    s->gbias = s->gv + v;
    return TL_OK;
}

// Row-major index of [b, s, head, d] in k or v.
static int64_t flat4(const tl_tensor *t, int64_t b, int64_t s, int64_t head, int64_t d)
{
    const int64_t *dims = t->shape.dims;
    return ((b * dims[1] + s) * dims[2] + head) * dims[3] + d;
}

// By the weights, and through dropout and the values; gives their mean under the weights.
static double value_grads(attention *t, const tl_tensor *gy, sums *sum, int64_t b, int64_t h,
                          int64_t query)
{
    int64_t head = h / t->serves;
    double mean = 0;
    for (int64_t s = 0; s < t->keys; s++) {
        double g = 0;
        for (int64_t e = 0; e < t->value_width && t->weights[s] != 0 && t->draws[s] != 0; e++) {
            double y = tli_ref_get(gy, at4(gy, b, query, h, e));
            g += y * tli_ref_get(t->v, at4(t->v, b, s, head, e));
            sum->gv[flat4(t->v, b, s, head, e)] += y * t->weights[s] * kept(t, s);
        }
        t->gweights[s] = g * kept(t, s);
        mean += t->weights[s] * t->gweights[s];
    }
    return mean;
}

// Where the score of a query and a key is in the bias, row-major.
static int64_t bias_at(const attention *t, int64_t index)
{
    tl_tensor flat = *t->bias;
    tl_shape_strides(flat.strides, &flat.shape);
    return tli_ref_offset(&flat, &t->scores, index);
}

static void grad_row(attention *t, const tl_node *n, sums *sum, int64_t b, int64_t h, int64_t query)
{
    int64_t row = row_of(t, b, h, query), head = h / t->serves;
    weigh(t, b, h, query);
    draw(t, row);
    double mean = value_grads(t, n->in[0], sum, b, h, query);
    for (int64_t s = 0; s < t->keys; s++) // by the scores from here on
        t->gweights[s] = t->weights[s] != 0 ? t->weights[s] * (t->gweights[s] - mean) : 0;
    for (int64_t d = 0; d < t->width; d++) {
        double q = tli_ref_get(t->q, at4(t->q, b, query, h, d)), gq = 0;
        for (int64_t s = 0; s < t->keys; s++) {
            if (t->gweights[s] == 0) continue;
            gq += t->gweights[s] * tli_ref_get(t->k, at4(t->k, b, s, head, d));
            sum->gk[flat4(t->k, b, s, head, d)] += t->a->scale * t->gweights[s] * q;
        }
        tli_ref_set(n->out[0], at4(n->out[0], b, query, h, d), t->a->scale * gq);
    }
    for (int64_t s = 0; s < t->keys && t->a->bias_grad; s++)
        sum->gbias[bias_at(t, row * t->keys + s)] += t->gweights[s];
}

static void store(const tl_tensor *out, const double *from)
{
    for (int64_t i = 0, count = tl_tensor_count(out); i < count; i++) tli_ref_set(out, i, from[i]);
}

static tl_status attend_grad_kernel(const tl_run *run, const tl_node *n)
{
    attention t;
    sums sum = {NULL, NULL, NULL};
    tl_status st = attention_init(&t, run, n, 1, 6);
    if (st != TL_OK) return st;
    TL_TRY_DONE(st, sums_init(&sum, &t));
    for (int64_t b = 0; b < t.batches; b++)
        for (int64_t h = 0; h < t.heads; h++)
            for (int64_t query = 0; query < t.queries; query++) grad_row(&t, n, &sum, b, h, query);
    store(n->out[1], sum.gk);
    store(n->out[2], sum.gv);
    if (t.a->bias_grad) store(n->out[3], sum.gbias);
done:
    tl_free(sum.gk);
    attention_deinit(&t);
    return st;
}

static const tl_kernel table[] = {
    {TL_OP_attend, TL_DTYPE_COUNT, attend_kernel, TL_KERNEL_STRIDED},
    {TL_OP_attend_grad, TL_DTYPE_COUNT, attend_grad_kernel, TL_KERNEL_STRIDED},
};
const tl_kernels tli_ref_attention = {table, TL_COUNT(table)};
