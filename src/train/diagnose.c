/* Where numbers that are not finite came from. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>

#include <tilth/base/str.h>
#include <tilth/check/check.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

/* Runs the step once more, one op after the other, under the eyes of the checking backend: it stops at the
 * first op that makes something that is not finite out of finite numbers. */
static tl_status replay(tl_trainer *t, tl_engine *engine)
{
    tl_ctx *c;
    TL_TRY(tl_ctx_new(&c, engine));
    tl_tensors out = {0};
    tl_batch batch = {.ctx = c, .tensors = t->parts->in};
    tl_step s = {.ctx = c, .task = t->task, .model = t->model, .optimizer = t->optimizer,
                 .batch = &batch, .logs = &out, .replicas = tl_strategy_replicas(t->strategy)};
    bool holding = tl_model_hold_updates(t->model, true);
    bool inert = tl_optimizer_set_inert(t->optimizer, true);
    tl_ctx_set_draws(c, tl_ctx_draws(t->ctx));
    tl_ctx_set_training(c, true);
    tl_ctx_set_taping(c, true);
    tl_status st = tl_task_train_step(t->task, &s);
    tl_optimizer_set_inert(t->optimizer, inert);
    tl_model_hold_updates(t->model, holding);
    tl_ctx_free(&c);
    return st;
}

/* The batch itself may hold what is not finite. */
static bool blame_batch(tl_trainer *t, tl_str *where)
{
    for (int64_t i = 0; i < t->parts->in.count; i++) {
        const tl_named *f = &t->parts->in.items[i];
        double all = 1;
        if (!tl_dtype_is_float(f->tensor->dtype)) continue;
        tl_tensor *finite = tl_all(t->ctx, tl_isfinite(t->ctx, f->tensor), TL_ALL, false);
        if (!finite || tl_tensor_item(finite, &all) != TL_OK || all != 0) continue;
        tl_str_addf(where, "the batch: '%s' holds such numbers", f->name);
        return true;
    }
    return false;
}

static void find_first(tl_trainer *t, tl_str *where)
{
    tl_check_options options = {.finite = TL_CHECK_FAIL};
    tl_check *check = NULL;
    tl_engine *engine = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_check_new(&check, tl_engine_backend(t->engine), &options));
    TL_TRY_DONE(st, tl_engine_new(&engine, &(tl_engine_args){.backend = tl_check_backend(check)}));
    st = replay(t, engine);
done:
    if (check && *tl_check_first(check)) tl_str_addf(where, "%s", tl_check_first(check));
    else if (st != TL_OK) tl_str_addf(where, "%s", tl_error_message());
    else if (!blame_batch(t, where))
        tl_str_addf(where, "no operation of this batch alone; the gradients together are too large");
    tl_engine_free(&engine);
    tl_check_free(&check);
}

/* To where the data stood before the last step. */
static tl_status take_back_data(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    if (!p->position_then) return TL_OK;
    TL_TRY(tl_state_copy(p->position, p->position_then, NULL, NULL));
    for (int64_t i = p->taken - p->accumulation; i > 0; i--) {
        tl_mark mark = tl_ctx_begin(t->ctx);
        tl_tensors batch = {0};
        bool more = true;
        tl_status st = TLI_TRAINER_CALL(t, next_train_inputs)(t, t->ctx, &batch, &more);
        tl_ctx_end(t->ctx, mark);
        TL_TRY(st);
    }
    p->taken -= p->accumulation;
    return TL_OK;
}

static double number_of(const tl_tensor *t)
{
    double value = NAN;
    if (!t || tl_tensor_count(t) != 1 || tl_tensor_item(t, &value) != TL_OK) return NAN;
    return value;
}

tl_status tli_trainer_diagnose(tl_trainer *t)
{
    tl_str where = TL_STR_INIT;
    double loss = number_of(tl_tensors_peek(&t->parts->out, TL_LOSS));
    double norm = number_of(tl_optimizer_norm(t->optimizer));
    find_first(t, &where);
    tl_status st = take_back_data(t);
    if (st == TL_OK)
        st = TL_FAIL(TL_ENAN,
                     "step %" PRId64 ": numbers are not finite, and the update was left out. First "
                     "seen in %s. Loss %g, gradient norm %g, learning rate %g",
                     t->global_step + 1, tl_str_text(&where), loss, norm,
                     tl_optimizer_learning_rate(t->optimizer));
    tl_str_deinit(&where);
    return st;
}
