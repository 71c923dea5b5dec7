/* Where numbers that are not finite came from. */
#include "train/trainer/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/str.h>
#include <tilth/check/check.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

enum { NAMED = 8 /* examples */ };

/* A batch of the step, and what was found out about it. */
typedef struct suspect {
    const tl_tensors *in;
    int64_t batch;   /* the n-th of the step */
    tl_str position; /* of the data before it; "": is not known */
    tl_str examples; /* whose losses are not finite */
    tl_str where;    /* the first op that made such numbers; "": none did */
} suspect;

static void suspect_deinit(suspect *s)
{
    tl_str_deinit(&s->position);
    tl_str_deinit(&s->examples);
    tl_str_deinit(&s->where);
}

/* --- running it again ------------------------------------------------------------------------- */

/* The batch goes through the task's step once more, one op after the other, and nothing is updated.
 * `see`, which may be NULL, is shown the step while its tensors are there. */
static tl_status replay(tl_trainer *t, tl_engine *engine, suspect *batch_of,
                        void (*see)(suspect *of, tl_step *s))
{
    tl_ctx *c;
    TL_TRY(tl_ctx_new(&c, engine));
    tl_tensors out = {0};
    tl_batch batch = {.ctx = c, .tensors = *batch_of->in};
    tl_step s = {.ctx = c,
                 .task = t->task,
                 .model = t->model,
                 .optimizer = t->optimizer,
                 .batch = &batch,
                 .logs = &out,
                 .replicas = tl_strategy_replicas(t->strategy)};
    bool holding = tl_model_hold_updates(t->model, true);
    bool inert = tl_optimizer_set_inert(t->optimizer, true);
    tl_ctx_set_draws(c, tli_trainer_draws(t, batch_of->batch));
    tl_ctx_set_training(c, true);
    tl_ctx_set_taping(c, true);
    tl_status st = tli_trainer_run_step(t, &s);
    tl_ctx_set_taping(c, false);
    if (see && st == TL_OK) see(batch_of, &s);
    tl_optimizer_set_inert(t->optimizer, inert);
    tl_model_hold_updates(t->model, holding);
    tl_ctx_free(&c);
    return st;
}

/* The batch itself may hold what is not finite. */
static bool blame_batch(tl_trainer *t, suspect *s)
{
    for (int64_t i = 0; i < s->in->count; i++) {
        const tl_named *f = &s->in->items[i];
        double all = 1;
        if (!tl_dtype_is_float(f->tensor->dtype)) continue;
        tl_tensor *finite = tl_all(t->ctx, tl_isfinite(t->ctx, f->tensor), TL_ALL, false);
        if (!finite || tl_tensor_item(finite, &all) != TL_OK || all != 0) continue;
        tl_str_addf(&s->where, "the batch: '%s' holds such numbers", f->name);
        t->parts->bad_batch = true;
        return true;
    }
    return false;
}

/* Under the eyes of the checking backend, which stops at the first op that makes something that is
 * not finite out of finite numbers. */
static void find_op(tl_trainer *t, suspect *s)
{
    tl_check_options options = {.finite = TL_CHECK_FAIL};
    tl_check *check = NULL;
    tl_engine *engine = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_check_new(&check, tl_engine_backend(t->engine), &options));
    TL_TRY_DONE(st, tl_engine_new(&engine, &(tl_engine_args){.backend = tl_check_backend(check),
                                                             .beside = t->engine}));
    st = replay(t, engine, s, NULL);
done:
    if (check && *tl_check_first(check)) tl_str_addf(&s->where, "%s", tl_check_first(check));
    else if (st != TL_OK) tl_str_addf(&s->where, "%s", tl_error_message());
    else (void)blame_batch(t, s);
    tl_engine_free(&engine);
    tl_check_free(&check);
}

/* --- examples --------------------------------------------------------------------------------- */

/* Numbers of a tensor with `count` of them; NULL when it has not, or there is no memory. */
static double *numbers_of(const tl_tensor *t, int64_t count)
{
    double *values =
        t && tl_tensor_count(t) == count ? tl_alloc((size_t)count * sizeof *values) : NULL;
    if (values && tl_tensor_get_doubles(t, values, count) == TL_OK) return values;
    tl_free(values);
    return NULL;
}

static void name_example(suspect *s, int64_t index, int64_t found, const double *ids)
{
    if (found > NAMED) return;
    if (found == NAMED) {
        tl_str_addf(&s->examples, ", ...");
        return;
    }
    tl_str_addf(&s->examples, "%s%" PRId64, found ? ", " : "", index);
    if (ids) tl_str_addf(&s->examples, " (id %.0f)", ids[index]);
}

/* One line for those whose loss is not finite; those of no weight do not matter. */
static void see_examples(suspect *s, tl_step *step)
{
    const tl_tensor *losses = step->losses;
    int64_t examples = losses && losses->shape.rank ? losses->shape.dims[0] : 0;
    if (examples < 1) return;
    int64_t found = 0, each = tl_tensor_count(losses) / examples;
    const tl_tensor *id = tl_tensors_peek(s->in, "id");
    double *values = numbers_of(losses, examples * each);
    double *weights = numbers_of(tl_step_parts(step)->weight, examples);
    double *ids = id && !tl_dtype_is_float(id->dtype) ? numbers_of(id, examples) : NULL;
    for (int64_t i = 0; values && i < examples; i++) {
        bool finite = true;
        for (int64_t k = 0; k < each; k++) finite &= isfinite(values[i * each + k]) != 0;
        if (!finite && !(weights && weights[i] == 0)) name_example(s, i, found++, ids);
    }
    if (found && found < examples) tl_str_addf(&s->examples, " of %" PRId64, examples);
    if (found == examples) {
        tl_str_cut(&s->examples, 0);
        tl_str_addf(&s->examples, "all %" PRId64, examples);
    }
    tl_free(values);
    tl_free(weights);
    tl_free(ids);
}

static void examine(tl_trainer *t, suspect *s)
{
    find_op(t, s);
    if (!s->where.length) return;
    // what was found is told all the same
    if (replay(t, t->engine, s, see_examples) != TL_OK) tl_error_clear();
}

/* --- the data --------------------------------------------------------------------------------- */

static tl_status skip_batch(tl_trainer *t)
{
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_tensors batch = {0};
    bool more = true;
    tl_status st = TLI_TRAINER_CALL(t, next_train_inputs)(t, t->ctx, &batch, &more);
    tl_ctx_end(t->ctx, mark);
    return st;
}

tl_status tli_trainer_return_data(tl_trainer *t, int64_t taken)
{
    tl_trainer_parts *p = t->parts;
    if (!p->position_then) return TL_OK;
    TL_TRY(tl_state_copy(p->position, p->position_then, NULL, NULL));
    for (int64_t i = 0; i < taken; i++) TL_TRY(skip_batch(t));
    return TL_OK;
}

/* To where the data stood before the last step. */
static tl_status take_back_data(tl_trainer *t)
{
    return tli_trainer_return_data(t, t->parts->taken - t->parts->batches);
}

/* The last batch, which is still at hand. */
static tl_status examine_last(tl_trainer *t, suspect *s, bool known)
{
    if (known) TL_TRY(tl_dataset_tell(t->train_dataset, &s->position));
    s->in = &t->parts->in;
    s->batch = t->parts->accumulation - 1;
    examine(t, s);
    return TL_OK;
}

/* The next batch of the step once more; its tensors belong to a scope of its own. */
static tl_status examine_next(tl_trainer *t, suspect *s)
{
    tl_tensors in = {0};
    bool more = true;
    TL_TRY(tl_dataset_tell(t->train_dataset, &s->position));
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = TLI_TRAINER_CALL(t, next_train_inputs)(t, t->ctx, &in, &more);
    if (st == TL_OK && more && in.count) {
        s->in = &in;
        examine(t, s);
        s->in = NULL;
    }
    tl_ctx_end(t->ctx, mark);
    return st;
}

/* All batches of the step, until one is found that is at fault. Leaves the data before the step. */
static tl_status examine_all(tl_trainer *t, suspect *s)
{
    tl_trainer_parts *p = t->parts;
    bool known = p->position_then && p->taken >= p->batches;
    if (!known) return examine_last(t, s, false);
    TL_TRY(take_back_data(t));
    if (p->batches == 1 && p->open) {
        TL_TRY(examine_last(t, s, true));
    } else {
        for (int64_t i = 0; i < p->batches && !s->where.length; i++) {
            suspect_deinit(s);
            *s = (suspect){.batch = i};
            TL_TRY(examine_next(t, s));
        }
        TL_TRY(take_back_data(t));
    }
    p->taken -= p->batches;
    return TL_OK;
}

/* --- what is told ----------------------------------------------------------------------------- */

static void tell_batch(tl_str *out, const tl_trainer *t, const suspect *s)
{
    const int64_t of = t->parts->accumulation, lanes = tl_strategy_replicas(t->strategy);
    const tl_draws at = tli_trainer_draws(t, s->batch);
    if (!s->where.length) return;
    if (lanes > 1) tl_str_addf(out, ", lane %" PRId64 " of %" PRId64, at.replica + 1, lanes);
    if (of > 1) tl_str_addf(out, ", microbatch %" PRId64 " of %" PRId64, at.microbatch + 1, of);
    if (s->position.length) tl_str_addf(out, ", batch at %s", tl_str_text(&s->position));
    if (s->examples.length) tl_str_addf(out, ", examples %s", tl_str_text(&s->examples));
}

/* The sign of what is no number says nothing. */
static double plain(double value)
{
    return isnan(value) ? NAN : value;
}

/* Each process has replayed its own lanes: what was found in the first of all is told by all. */
static tl_status agree_on_suspect(tl_trainer *t, tl_str *batch, suspect *s)
{
    tli_peers *p = tli_strategy_peers(t->strategy);
    tl_str own = TL_STR_INIT;
    int32_t from;
    if (!p) return TL_OK;
    if (s->where.length) // 'b': it is the batch
        tl_str_addf(&own, "%c%s\n%s", t->parts->bad_batch ? 'b' : '-', tl_str_text(batch),
                    tl_str_text(&s->where));
    tl_status st = tl_str_status(&own);
    if (st == TL_OK) st = tli_peers_first_text(p, tl_str_text(&own), &own, &from);
    if (st == TL_OK && from >= 0) {
        const char *text = tl_str_text(&own), *line = strchr(text, '\n');
        t->parts->bad_batch = *text == 'b';
        tl_str_cut(batch, 0);
        tl_str_cut(&s->where, 0);
        tl_str_addn(batch, text + 1, (size_t)(line - text - 1));
        tl_str_add(&s->where, line + 1);
    }
    tl_str_deinit(&own);
    return st;
}

tl_status tli_trainer_diagnose(tl_trainer *t, double loss, double norm)
{
    suspect s = {0};
    tl_str batch = TL_STR_INIT;
    t->parts->bad_batch = false;
    tl_status st =
        tl_optimizer_need(t->optimizer) ? tl_optimizer_bring(t->optimizer, false) : TL_OK;
    if (st == TL_OK) st = examine_all(t, &s);
    tell_batch(&batch, t, &s);
    if (st == TL_OK) st = agree_on_suspect(t, &batch, &s);
    if (st == TL_OK)
        st = TL_FAIL(TL_ENAN,
                     "step %" PRId64 ": numbers are not finite, and the update was left out. Loss "
                     "%g, gradient norm %g, learning rate %g%s. First seen in %s",
                     t->global_step + 1, plain(loss), plain(norm),
                     tl_optimizer_learning_rate(t->optimizer), tl_str_text(&batch),
                     s.where.length
                         ? tl_str_text(&s.where)
                         : "no operation of one batch; the gradients together are too large");
    tl_str_deinit(&batch);
    suspect_deinit(&s);
    return st;
}
