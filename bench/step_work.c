#include "step_work.h"

#include <stdlib.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>

const char *step_work_name(char out[STEP_NAME], const step_model *s, tl_dtype dtype)
{
    snprintf(out, STEP_NAME, "%s %s", s->name, dtype == TL_F32 ? "f32" : "bf16");
    return out;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* `hyper` with a scale that brings the norm of all gradients to 1 at most. */
static tl_tensor *clipped(step_work *w, tl_ctx *c, tl_tensor *const *grads, int64_t count)
{
    static const double others[TL_HYPER_COUNT] = {1, 1, 0, 1}, only[TL_HYPER_COUNT] = {0, 0, 1, 0};
    tl_tensor *norm, *finite;
    tl_finite_and_norm(c, grads, (int)count, &norm, &finite);
    tl_tensor *scale = tl_minimum(c, tl_reciprocal(c, norm), tl_number(c, TL_F32, 1));
    return tl_add(c,
                  tl_mul(c, w->hyper, tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), others)),
                  tl_mul(c, scale, tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), only)));
}

tl_status step_work_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    step_work *w = self;
    tl_tensor *grads[MOST_BLOCKS], *hyper = w->hyper;
    bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *scores = tl_call(c, w->model, tl_tensors_get(c, in, "x"));
    tl_tensor *losses = tl_sparse_cross_entropy(c, tl_tensors_get(c, in, "y"), scores);
    tl_tensor *loss = tl_mean(c, losses, TL_ALL, false);
    TL_TRY(tl_model_gradients(c, w->model, loss, grads));
    tl_ctx_set_taping(c, taping);
    if (w->clip) hyper = clipped(w, c, grads, tl_model_block_count(w->model));
    for (int64_t b = 0; b < tl_model_block_count(w->model); b++)
        if (grads[b])
            tl_update_adam(c, tl_model_block(w->model, b)->values, grads[b], hyper, w->m[b],
                           w->v[b], NULL,
                           &(tl_adam_attr){.beta_1 = 0.9,
                                           .beta_2 = 0.999,
                                           .epsilon = 1e-8,
                                           .weight_decay = 0.01,
                                           .form = TL_FORM_PYTORCH});
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

void step_work_run(void *payload)
{
    step_work *w = payload;
    tl_mark mark = tl_ctx_begin(w->c);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(w->c, &in, "x", w->x);
    tl_tensors_put(w->c, &in, "y", w->y);
    tl_status st =
        w->step ? tl_function_call(w->step, w->c, &in, &out) : step_work_body(w, w->c, &in, &out);
    if (st != TL_OK) {
        fprintf(stderr, "%s\n", tl_error_message());
        abort();
    }
    tl_ctx_end(w->c, mark);
}

/* --- a case ----------------------------------------------------------------------------------- */

static tl_status keep(tl_tensor **out, tl_ctx *c, tl_tensor *t)
{
    TL_TRY(tl_ctx_status(c));
    return tl_tensor_keep(out, t);
}

static tl_status make_slots(step_work *w, tl_ctx *c)
{
    for (int64_t b = 0; b < tl_model_block_count(w->model); b++) {
        const tl_tensor *values = tl_model_block(w->model, b)->values;
        TL_TRY(keep(&w->m[b], c, tl_zeros(c, values->dtype, values->shape)));
        TL_TRY(keep(&w->v[b], c, tl_zeros(c, values->dtype, values->shape)));
    }
    return TL_OK;
}

static tl_status make_data(step_work *w, tl_ctx *c, const step_model *s)
{
    static const double hyper[TL_HYPER_COUNT] = {1e-3, 10, 1, 1};
    TL_TRY(keep(&w->x, c,
                s->ids ? tl_random_integers(c, TL_I64, s->input, 0, s->classes)
                       : tl_random_normal(c, TL_F32, s->input, 0, 1)));
    TL_TRY(keep(&w->y, c, tl_random_integers(c, TL_I64, s->labels, 0, s->classes)));
    return keep(&w->hyper, c, tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), hyper));
}

tl_status step_work_make(step_work *w, const step_model *s, tl_dtype dtype, bool eager)
{
    tl_spec input = {"x", s->ids ? TL_I64 : TL_F32, s->input};
    w->clip = s->clip;
    const tl_backend_class *backend = w->backend ? w->backend : &tl_backend_cpu;
    TL_TRY(tl_engine_new(&w->engine, &(tl_engine_args){.backend = backend}));
    TL_TRY(tl_ctx_new(&w->c, w->engine));
    TL_TRY(tl_model_new(&w->model, &(tl_model_args){.engine = w->engine,
                                                    .cls = s->cls,
                                                    .config = s->config,
                                                    .inputs = &input,
                                                    .input_count = 1,
                                                    .seed = 1,
                                                    .dtype = dtype}));
    tl_mark mark = tl_ctx_begin(w->c);
    tl_status st = make_data(w, w->c, s);
    if (st == TL_OK) st = make_slots(w, w->c);
    tl_ctx_end(w->c, mark);
    TL_TRY(st);
    tl_ctx_set_training(w->c, true);
    if (eager) return TL_OK;
    return tl_function_new(
        &w->step, &(tl_function_args){
                      .engine = w->engine, .name = s->name, .body = step_work_body, .self = w});
}

void step_work_unmake(step_work *w)
{
    tl_function_free(&w->step);
    tl_tensor_free(&w->x);
    tl_tensor_free(&w->y);
    tl_tensor_free(&w->hyper);
    for (int b = 0; b < MOST_BLOCKS; b++) {
        tl_tensor_free(&w->m[b]);
        tl_tensor_free(&w->v[b]);
    }
    tl_model_free(&w->model);
    tl_ctx_free(&w->c);
    tl_engine_free(&w->engine);
}
