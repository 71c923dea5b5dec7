#include <string.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/sys/ops/apply.h>

#include "op_cases_impl.h"

bool oc_differentiates(const oc_plan *p, int input)
{
    const oc_input *in = &p->in[input];
    return p->gradients && in->is_float && !in->is_const;
}

const tl_draws oc_draws = {.seed = 11, .step = 3, .microbatch = 1, .replica = 2};

tl_status oc_watch_inputs(oc_run *r)
{
    r->by_count = 0;
    for (int i = 0; i < r->plan->inputs; i++) {
        if (!oc_differentiates(r->plan, i)) continue;
        TL_TRY(tl_watch(r->in[i]));
        r->by[r->by_count] = r->in[i];
        r->by_input[r->by_count++] = i;
    }
    return TL_OK;
}

tl_status oc_begin(oc_run *r)
{
    const oc_plan *p = r->plan;
    tl_ctx *c = r->place->c;
    r->mark = tl_ctx_begin(c);
    tl_ctx_set_draws(c, oc_draws);
    tl_ctx_set_training(c, false);
    tl_ctx_set_taping(c, false);
    for (int i = 0; i < p->inputs; i++) {
        const double *elements = r->elements ? r->elements[i] : NULL;
        r->in[i] = oc_input_tensor(c, &p->in[i], r->dtype, elements, r->plain);
        if (!r->in[i]) {
            TL_TRY(tl_ctx_status(c));
            return TL_FAIL_NOMEM((size_t)p->in[i].count * sizeof(double));
        }
    }
    TL_TRY(oc_watch_inputs(r));
    tl_ctx_set_taping(c, p->gradients);
    tl_ctx_set_capturing(c, r->capturing);
    return TL_OK;
}

tl_status oc_call(oc_run *r)
{
    const op_case *k = r->plan->k;
    memset(r->out, 0, sizeof r->out);
    k->call(r->place->c, k, r->in, r->out);
    TL_TRY(tl_ctx_status(r->place->c));
    for (int i = 0; i < r->plan->outputs; i++)
        if (!r->out[i])
            return TL_FAIL(TL_EINTERNAL, "output %d is NULL, and no message says why", i);
    return TL_OK;
}

// The sum over all outputs of output * weight, in float64: its gradient by an output is the weight.
static tl_tensor *weighted_sum(const oc_run *r)
{
    tl_ctx *c = r->place->c;
    tl_tensor *sum = NULL;
    for (int i = 0; i < r->plan->outputs; i++) {
        tl_tensor *out = r->out[i];
        const double *weights = r->plan->weights[i];
        if (!weights || !out->tracked || !(r->in_loss >> i & 1)) continue;
        tl_tensor *w = tl_from_doubles(c, out->dtype, out->shape, weights);
        tl_tensor *part = tl_cast(c, tl_sum(c, tl_mul(c, out, w), TL_ALL, false), TL_F64);
        sum = sum ? tl_add(c, sum, part) : part;
    }
    return sum;
}

static tl_status check_gradient(const tl_tensor *g, const tl_tensor *in, int input)
{
    char got[TL_TENSOR_TEXT], want[TL_TENSOR_TEXT];
    if (g->dtype == in->dtype && tl_shape_equal(&g->shape, &in->shape)) return TL_OK;
    return TL_FAIL(TL_EINTERNAL, "the gradient of input %d is %s, the input is %s", input,
                   tl_tensor_spec(got, g), tl_tensor_spec(want, in));
}

tl_status oc_differentiate(oc_run *r)
{
    tl_ctx *c = r->place->c;
    tl_tensor *loss = weighted_sum(r);
    TL_TRY(tl_ctx_status(c));
    r->loss = tl_ctx_last_node(c);
    if (!loss)
        return TL_FAIL(TL_EINTERNAL,
                       "no output depends on the inputs in a differentiable way; a row that "
                       "means it says CASE_NO_GRADIENT");
    tl_gradient_args args = {
        .of = loss, .by = r->by, .count = r->by_count, .differentiable = r->differentiable};
    TL_TRY(tl_gradient_of(c, &args, r->gradient));
    for (int i = 0; i < r->by_count; i++)
        TL_TRY(check_gradient(r->gradient[i], r->by[i], r->by_input[i]));
    return TL_OK;
}

void oc_end(oc_run *r)
{
    tl_ctx *c = r->place->c;
    tl_ctx_set_capturing(c, false);
    tl_ctx_set_taping(c, false);
    tl_ctx_end(c, r->mark);
}

tl_status oc_read(oc_value *out, const tl_tensor *t, oc_memory *memory)
{
    *out = (oc_value){.dtype = t->dtype,
                      .shape = t->shape,
                      .count = tl_tensor_count(t),
                      .bytes = tl_tensor_bytes(t)};
    out->v = oc_doubles(memory, out->count);
    out->bits = oc_take(memory, out->bytes);
    TL_TRY(tl_tensor_get(t, out->bits, out->bytes));
    return tl_tensor_get_doubles(t, out->v, out->count);
}

static bool writes_inputs(const tl_ctx *c)
{
    for (const tl_node *n = tl_ctx_first_node(c); n; n = n->after)
        if (n->op->writes) return true;
    return false;
}

// Once more for programs that change nothing: a second time computes in place.
static tl_status replay(oc_run *r)
{
    tl_ctx *c = r->place->c;
    tl_ctx_set_capturing(c, false);
    TL_TRY(tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c)));
    if (writes_inputs(c)) return TL_OK;
    return tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c));
}

static tl_status run(oc_run *r, oc_memory *memory, oc_results *out)
{
    TL_TRY(oc_begin(r));
    TL_TRY(oc_call(r));
    if (r->plan->gradients) TL_TRY(oc_differentiate(r));
    if (r->capturing) TL_TRY(replay(r));
    for (int i = 0; i < r->plan->outputs; i++) TL_TRY(oc_read(&out->out[i], r->out[i], memory));
    for (int i = 0; i < OP_CASE_MAX; i++) out->gradient[i] = (oc_value){.count = -1};
    for (int i = 0; r->plan->gradients && i < r->by_count; i++)
        TL_TRY(oc_read(&out->gradient[r->by_input[i]], r->gradient[i], memory));
    return TL_OK;
}

tl_status oc_run_all(oc_run *r, oc_memory *memory, oc_results *out)
{
    tl_status st = run(r, memory, out);
    oc_end(r);
    return st;
}
