#include <tilth/ops/attention.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>
#include <math.h>

#include "ops/ops.h"
#include "ops/wide.h"

static const tl_field attend_fields[] = {
    TL_F(tl_attend_attr, scale, .help = "of the scores"),
    TL_F(tl_attend_attr, rate, .help = "share of the weights that is dropped"),
    TL_F(tl_attend_attr, key, .help = "of the draws"),
    TL_F(tl_attend_attr, causal, .help = "no key behind the query"),
    TL_F(tl_attend_attr, masked, .help = "there is a mask"),
    TL_F(tl_attend_attr, biased, .help = "there is a bias"),
    TL_F(tl_attend_attr, bias_grad, .help = "its gradient is wanted"),
    TL_F(tl_attend_attr, dropped, .help = "an input says which weights are dropped"),
    TL_F(tl_attend_attr, joined, .help = "gradients of q, k and v are one result"),
    TL_F_END,
};
static const tl_desc attend_desc = {
    .name = "attend",
    .help = "attributes of attention",
    .size = sizeof(tl_attend_attr),
    .fields = attend_fields,
};

/* --- shape rules ----------------------------------------------------------------------------- */

static tl_status fail_unlike(const tl_tensor *const all[3])
{
    char text[3][TL_TENSOR_TEXT];
    for (int i = 0; i < 3; i++) tl_tensor_spec(text[i], all[i]);
    return TL_FAIL(TL_EINVAL,
                   "q is %s, k %s and v %s; they must be of one type and [B, T, H, D], "
                   "[B, S, G, D] and [B, S, G, E]",
                   text[0], text[1], text[2]);
}

static tl_status fail_heads(const tl_tensor *q, const tl_tensor *k)
{
    char q_text[TL_TENSOR_TEXT], k_text[TL_TENSOR_TEXT];
    return TL_FAIL(
        TL_EINVAL,
        "q, %s, has %" PRId64 " heads, which is not a multiple of the %" PRId64 " of k, %s",
        tl_tensor_spec(q_text, q), q->shape.dims[2], k->shape.dims[2], tl_tensor_spec(k_text, k));
}

static tl_status check_heads(const tl_tensor *q, const tl_tensor *k, const tl_tensor *v)
{
    const char *const names[] = {"q", "k", "v"};
    const tl_tensor *const all[] = {q, k, v};
    for (int i = 0; i < 3; i++) {
        TL_TRY(tli_want_float(all[i], names[i]));
        TL_TRY(tli_want_rank(all[i], 4, names[i]));
    }
    const int64_t *dq = q->shape.dims, *dk = k->shape.dims, *dv = v->shape.dims;
    bool alike = q->dtype == k->dtype && q->dtype == v->dtype && dq[0] == dk[0] && dq[0] == dv[0]
                 && dk[1] == dv[1] && dq[3] == dk[3] && dk[2] == dv[2];
    if (!alike) return fail_unlike(all);
    if (dk[2] < 1 || dq[2] % dk[2]) return fail_heads(q, k);
    char text[TL_TENSOR_TEXT];
    if (dq[3] < 1)
        return TL_FAIL(TL_EINVAL, "q is %s: its heads have no width", tl_tensor_spec(text, q));
    return TL_OK;
}

static tl_shape score_shape(const tl_tensor *q, const tl_tensor *k)
{
    return TL_SHAPE(q->shape.dims[0], q->shape.dims[2], q->shape.dims[1], k->shape.dims[1]);
}

static tl_status check_mask(const tl_tensor *mask, const tl_tensor *k)
{
    tl_shape wanted = TL_SHAPE(k->shape.dims[0], k->shape.dims[1]);
    if (mask->dtype == TL_BOOL && tl_shape_equal(&mask->shape, &wanted)) return TL_OK;
    char spec[TL_TENSOR_TEXT], text[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL, "the mask is %s and must be bool%s", tl_tensor_spec(spec, mask),
                   tl_shape_text(text, &wanted));
}

static tl_status check_bias(const tl_tensor *bias, const tl_tensor *q, const tl_tensor *k)
{
    tl_shape scores = score_shape(q, k), both;
    bool fits = bias->dtype == q->dtype && tl_shape_broadcast(&both, &bias->shape, &scores) == TL_OK
                && tl_shape_equal(&both, &scores);
    if (fits) return TL_OK;
    char spec[TL_TENSOR_TEXT], text[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL, "the bias is %s and must be %s and broadcast to [B, H, T, S] = %s",
                   tl_tensor_spec(spec, bias), tl_dtype_name(q->dtype),
                   tl_shape_text(text, &scores));
}

static tl_status check_dropped(const tl_tensor *dropped, const tl_tensor *q, const tl_tensor *k)
{
    tl_shape scores = score_shape(q, k);
    if (dropped->dtype == TL_BOOL && tl_shape_equal(&dropped->shape, &scores)
        && dropped->contiguous)
        return TL_OK;
    char spec[TL_TENSOR_TEXT], text[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL, "what is dropped is %s and must be bool%s without gaps",
                   tl_tensor_spec(spec, dropped), tl_shape_text(text, &scores));
}

// Everything that a call may get wrong; mask, bias and what is dropped begin at input `extra`.
static tl_status check_call(const tl_node *call, int first, int extra)
{
    const tl_attend_attr *a = call->attr;
    const tl_tensor *q = call->in[first], *k = call->in[first + 1], *v = call->in[first + 2];
    if (!(a->rate >= 0 && a->rate <= 1))
        return TL_FAIL(TL_EINVAL, "the rate of dropout is %g and must be from 0 to 1", a->rate);
    if (!isfinite(a->scale))
        return TL_FAIL(TL_EINVAL, "the scale is %g and must be finite", a->scale);
    const int named = extra + a->masked + a->biased + a->dropped;
    if (call->inputs != named || (a->bias_grad && !a->biased))
        return TL_FAIL(TL_EINVAL, "%d inputs; the attributes name %d", call->inputs, named);
    TL_TRY(check_heads(q, k, v));
    if (a->masked) TL_TRY(check_mask(call->in[extra], k));
    if (a->biased) TL_TRY(check_bias(call->in[extra + a->masked], q, k));
    return a->dropped ? check_dropped(call->in[named - 1], q, k) : TL_OK;
}

static tl_status attend_infer(const tl_node *call)
{
    const tl_tensor *q = call->in[0], *v = call->in[2];
    TL_TRY(check_call(call, 0, 3));
    const int64_t *d = q->shape.dims;
    call->out[0]->dtype = q->dtype;
    call->out[0]->shape = TL_SHAPE(d[0], d[1], d[2], v->shape.dims[3]);
    call->out[1]->dtype = tli_wide(q->dtype);
    call->out[1]->shape = TL_SHAPE(d[0], d[2], d[1]);
    return TL_OK;
}

/* The gradients of q, k and v side by side. */
static tl_status join_results(const tl_node *call)
{
    const tl_shape *q = &call->in[1]->shape;
    for (int i = 2; i < 4; i++)
        if (!tl_shape_equal(q, &call->in[i]->shape))
            return fail_unlike((const tl_tensor *const[]){call->in[1], call->in[2], call->in[3]});
    call->out[0]->shape = TL_SHAPE(q->dims[0], q->dims[1], 3, q->dims[2], q->dims[3]);
    call->out[1]->shape = call->out[2]->shape = TL_SHAPE(0);
    return TL_OK;
}

// Inputs gy, q, k, v, y, logsumexp, mask, bias, what is dropped; outputs like q, k, v and, if it is
// wanted, the bias.
static tl_status attend_grad_infer(const tl_node *call)
{
    const tl_attend_attr *a = call->attr;
    TL_TRY(check_call(call, 1, 6));
    for (int i = 0; i < 4; i++) {
        call->out[i]->dtype = call->in[1]->dtype;
        call->out[i]->shape = i < 3          ? call->in[1 + i]->shape
                              : a->bias_grad ? call->in[6 + a->masked]->shape
                                             : TL_SHAPE(0);
    }
    return a->joined ? join_results(call) : TL_OK;
}

/* --- gradient -------------------------------------------------------------------------------- */

static void attend_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    tl_attend_attr a = *(const tl_attend_attr *)n->attr;
    tl_tensor *in[9] = {gy[0], n->in[0], n->in[1], n->in[2], n->out[0], n->out[1]}, *out[4];
    a.bias_grad = a.biased && wanted[3 + a.masked];
    if (gy[1]) {
        (void)TL_FAIL(TL_EUNSUPPORTED, "no gradient flows through the logarithms of its sums");
        tl_ctx_fail(c);
        return;
    }
    for (int i = 3; i < n->inputs; i++) in[3 + i] = n->in[i];
    if (!tl_apply_all(c, TL_OP_attend_grad, &a, 3 + n->inputs, in, out)) return;
    for (int i = 0; i < 3; i++) gx[i] = out[i];
    if (a.bias_grad) gx[3 + a.masked] = out[3];
}

// Both products, for every query and key.
static double attend_flops(const tl_node *n)
{
    tl_shape scores = score_shape(n->in[0], n->in[1]);
    double width = (double)(n->in[0]->shape.dims[3] + n->in[2]->shape.dims[3]);
    const tl_attend_attr *a = n->attr;
    return 2 * width * (double)tl_shape_count(&scores) * (a->causal ? 0.5 : 1);
}

// Five products: the scores again, then one each for q, k, v and the weights.
static double attend_grad_flops(const tl_node *n)
{
    tl_shape scores = score_shape(n->in[1], n->in[2]);
    double width = (double)(3 * n->in[1]->shape.dims[3] + 2 * n->in[3]->shape.dims[3]);
    const tl_attend_attr *a = n->attr;
    return 2 * width * (double)tl_shape_count(&scores) * (a->causal ? 0.5 : 1);
}

const tl_op_class tl_op_attend = {
    .op = TL_OP_attend,
    .name = "attend",
    .help = "attention of queries to keys and their values",
    .attr = &attend_desc,
    .inputs_min = 3,
    .inputs_max = 6,
    .outputs = 2,
    .flags = TL_OP_FIRST_ORDER | TL_OP_RANDOM,
    .infer = attend_infer,
    .gradient = attend_gradient,
    .flops = attend_flops,
};

const tl_op_class tl_op_attend_grad = {
    .op = TL_OP_attend_grad,
    .name = "attend_grad",
    .help = "gradient of attend",
    .attr = &attend_desc,
    .inputs_min = 6,
    .inputs_max = 9,
    .outputs = 4,
    .flags = TL_OP_FIRST_ORDER | TL_OP_RANDOM,
    .infer = attend_grad_infer,
    .flops = attend_grad_flops,
};

tl_tensor *tl_attend_with(tl_ctx *c, tl_tensor *q, tl_tensor *k, const tl_attend_args *args)
{
    tl_attend_attr a = {.scale = args->scale,
                        .causal = args->causal,
                        .masked = args->mask != NULL,
                        .biased = args->bias != NULL};
    if (a.scale == 0 && q && q->shape.rank == 4) a.scale = 1 / sqrt((double)q->shape.dims[3]);
    if (!isfinite(a.scale) && args->scale == 0)
        a.scale = 1; // heads without width: refused for that
    // As for dropout: a bad rate is refused in evaluation too.
    if (tl_ctx_training(c) || !(args->dropout >= 0 && args->dropout <= 1)) {
        a.rate = args->dropout;
        a.key = tl_ctx_draw_key(c);
    }
    tl_tensor *in[5] = {q, k, args->v};
    int inputs = 3;
    if (args->mask) in[inputs++] = args->mask;
    if (args->bias) in[inputs++] = args->bias;
    return tl_apply(c, TL_OP_attend, &a, inputs, in);
}
