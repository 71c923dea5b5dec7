#include "train/trainer/trainer.h"

#include <inttypes.h>
#include <math.h>

#include <tilth/base/clock.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/sys/graph/early.h>

#include "train/tuning.h"

/* --- the program of a step -------------------------------------------------------------------- */

/* The mean loss of the loop. A loss that is not finite does not count: the update is left out
 * too. */
static void update_loss(tl_trainer *t, tl_ctx *c, tl_tensor *loss, tl_tensor *weight)
{
    tl_tensor *finite = tl_cast(c, tl_isfinite(c, loss), TL_F32);
    if (weight) finite = tl_mul(c, finite, tl_cast(c, weight, TL_F32));
    tl_metric_update_value(t->train_loss, c, loss, finite);
}

tl_status tli_trainer_run_step(tl_trainer *t, tl_step *s)
{
    if (t->parts->subjects.trained) return tli_subjects_train_step(t, s);
    return tl_task_train_step(t->task, s);
}

tl_status tli_train_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_trainer *t = self;
    tli_lanes *lanes = &t->parts->lanes;
    tl_batch batch = {.ctx = c, .tensors = *in};
    tl_step s = {.ctx = c,
                 .task = t->task,
                 .model = t->model,
                 .optimizer = t->optimizer,
                 .batch = &batch,
                 .metrics = t->train_metrics,
                 .logs = out,
                 .replicas = tl_strategy_replicas(t->strategy)};
    const bool here = tli_lanes_several(lanes) && tli_lanes_on_host(lanes);
    bool whole = !tl_optimizer_accumulating(t->optimizer); // the step is this batch
    const bool told = here && lanes->args.engine;          // eager lanes may take turns in one
    if (told) tl_optimizer_begin_batch(t->optimizer);
    int64_t added = tl_optimizer_additions(t->optimizer);
    tl_tensor *lowers = whole ? tli_flight_begin(t, c) : NULL;
    if (whole) tli_guard_keep(&t->parts->guard, c);
    bool taping = tl_ctx_set_taping(c, true), holding = tl_model_hold_updates(t->model, true);
    tl_tensors *log = tl_ctx_set_log(c, out);
    tl_status st = tli_trainer_run_step(t, &s);
    tl_ctx_set_log(c, log);
    tl_ctx_set_taping(c, false);
    tl_tensor *loss = tl_tensors_peek(out, TL_LOSS);
    if (st == TL_OK && !loss)
        st = TL_FAIL(TL_EINVAL,
                     "train_step of the task '%s' logged no loss: call tl_step_minimize, or "
                     "tl_step_log with the name \"loss\"",
                     t->task->name);
    if (st == TL_OK) {
        loss = tl_mean(c, loss, TL_ALL, false);
        // Whether gradients that are summed up are finite is known when they are applied.
        tl_tensor *finite = tl_optimizer_finite(t->optimizer);
        tl_model_apply_updates(c, t->model, whole ? finite : tl_isfinite(c, loss));
        update_loss(t, c, loss, s.weight);
        tli_flight_note(t, c, loss);
        if (whole) tli_guard_settle(&t->parts->guard, c, finite);
        if (whole) tli_flight_end(t, c, lowers);
        if (tli_lanes_several(lanes) && !here) tli_lanes_tell(lanes, c, out);
        st = tl_ctx_status(c);
    }
    if (tl_optimizer_additions(t->optimizer) > added + 1) lanes->adds_once = false;
    if (told) tl_optimizer_end_batch(t->optimizer);
    tl_model_hold_updates(t->model, holding);
    tl_ctx_set_taping(c, taping);
    return st;
}

/* Of all processes, in a step. */
static int64_t told_batches(const tl_trainer *t)
{
    return t->parts->lanes.of.lanes * t->parts->accumulation;
}

tl_status tli_apply_body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_trainer *t = self;
    const tli_subject *one = tli_subjects_of_batch(t, in);
    tli_lanes *lanes = &t->parts->lanes;
    tl_tensor *lowers = tli_flight_begin(t, c);
    tl_optimizer_flush_part(t->optimizer, c, one ? one->model : t->model);
    tl_tensor *finite = tl_optimizer_finite(t->optimizer);
    if (tli_lanes_several(lanes)) {
        tli_guard_settle_lanes(&t->parts->guard, c, lanes->of.lanes, finite);
        if (!tli_lanes_on_host(lanes))
            tli_lanes_means(lanes, c, &t->parts->out, told_batches(t), out);
    } else {
        tli_guard_settle(&t->parts->guard, c, finite);
    }
    tli_flight_end(t, c, lowers);
    return tl_ctx_status(c);
}

/* --- a step ----------------------------------------------------------------------------------- */

void tli_trainer_close_step(tl_trainer *t)
{
    if (t->parts->open) tl_ctx_end(t->ctx, t->parts->mark);
    t->parts->open = false;
    t->parts->in = t->parts->out = (tl_tensors){0};
    t->outputs = NULL;
}

static void open_step(tl_trainer *t)
{
    tli_trainer_close_step(t);
    t->parts->mark = tl_ctx_begin(t->ctx);
    t->parts->open = true;
}

tl_status tli_next_train_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch, bool *more)
{
    return tli_data_failed(tl_dataset_next(t->train_dataset, c, batch, more), "training");
}

static tl_status next_batch(tl_trainer *t, tl_ctx *c, tl_tensors *in)
{
    int64_t begin = tl_clock_ns();
    bool more = true;
    TL_TRY(TLI_TRAINER_CALL(t, next_train_inputs)(t, c, in, &more));
    t->data_wait_s += (double)(tl_clock_ns() - begin) * 1e-9;
    t->parts->taken++;
    if (more) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the training data ended at step %" PRId64
                   "; it must repeat, or trainer.train_steps be less",
                   t->global_step);
}

tl_draws tli_trainer_draws(const tl_trainer *t, int64_t batch)
{
    const tl_trainer_parts *p = t->parts;
    return (tl_draws){.seed = t->seed,
                      .step = t->global_step,
                      .microbatch = batch % p->accumulation,
                      .replica = p->lanes.run.first + batch / p->accumulation};
}

/* The data has ended for this lane, and not for others. If the lane has no batch at all, and does
 * not go on with the sums of the one before it, its own are 0. */
static tl_status leave_out_batch(tl_trainer *t, int64_t batch)
{
    const bool first = batch % t->parts->accumulation == 0;
    TL_TRY(tli_weights_pass(t));
    return first && !t->parts->lanes.stayed ? tl_optimizer_discard(t->optimizer) : TL_OK;
}

/* The lane that a batch of the step is of, as others meet it; NULL: there is one. */
static tl_strand *strand_of(const tl_trainer *t, int64_t batch)
{
    tl_strands *all = t->parts->lanes.strands;
    return all ? tl_strands_at(all, tli_trainer_draws(t, batch).replica) : NULL;
}

/* Other processes wait for the sums behind the last batch, unless lanes take turns in it. */
static const tl_early *early_of(tl_trainer *t, const tl_ctx *c, int64_t batch)
{
    const tl_strand *strand = tl_ctx_strand(c);
    if (batch + 1 < t->parts->batches || (strand && tl_strand_alternates(strand))) return NULL;
    return tli_exchange_early(&t->parts->lanes);
}

static tl_status call_early(tl_trainer *t, tl_ctx *c, const tl_early *early, const tl_tensors *in,
                            tl_tensors *out)
{
    tl_program *p;
    TL_TRY(tl_function_find(t->parts->train, c, in, &p));
    TL_TRY(tl_program_set_early(p, early));
    tl_status st = tl_function_call(t->parts->train, c, in, out);
    if (st == TL_OK) tli_exchange_ran(&t->parts->lanes);
    return tl_program_set_early(p, NULL) == TL_OK ? st : tl_error_code();
}

/* The n-th batch of the step. */
static tl_status compute_batch(tl_trainer *t, tl_ctx *c, int64_t batch, const tl_tensors *in,
                               tl_tensors *out)
{
    tl_function *f = t->parts->train;
    tli_lanes *lanes = &t->parts->lanes;
    const bool here = tli_lanes_several(lanes) && tli_lanes_on_host(lanes);
    tl_ctx_set_draws(c, tli_trainer_draws(t, batch));
    tl_ctx_set_training(c, true);
    tl_ctx_set_strand(c, strand_of(t, batch));
    const tl_early *early = f ? early_of(t, c, batch) : NULL;
    tl_program *reads;
    tl_status st = tli_weights_take(t, c, in, &reads);
    if (here) tli_lanes_begin_batch_here(lanes);
    if (st == TL_OK)
        st = early ? call_early(t, c, early, in, out)
             : f   ? tl_function_call(f, c, in, out)
                   : tli_train_body(t, c, in, out);
    tli_weights_leave(t, reads);
    if (st == TL_OK && here) tli_lanes_end_batch_here(lanes, out);
    tl_ctx_set_strand(c, NULL);
    tl_ctx_set_training(c, false);
    return tli_step_status(t, st);
}

static tl_status take_batch(tl_trainer *t, int64_t batch, tl_tensors *in, tl_tensors *out)
{
    TL_TRY(next_batch(t, t->ctx, in));
    return in->count ? compute_batch(t, t->ctx, batch, in, out) : leave_out_batch(t, batch);
}

static tl_status run_batch(tl_trainer *t, int64_t batch)
{
    open_step(t);
    return take_batch(t, batch, &t->parts->in, &t->parts->out);
}

/* What the step tells is what its first lane tells, with means of numbers. */
static tl_status run_beside(tl_trainer *t, int64_t batch)
{
    tl_tensors in = {0}, out = {0};
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st = take_batch(t, batch, &in, &out);
    tl_ctx_end(t->ctx, mark);
    return st;
}

/* Before the first of several batches. */
static tl_status begin_sum(tl_trainer *t)
{
    if (tli_lanes_several(&t->parts->lanes)) return tli_lanes_begin(&t->parts->lanes, t->ctx);
    tl_mark mark = tl_ctx_begin(t->ctx);
    tli_guard_keep(&t->parts->guard, t->ctx);
    tl_status st = tl_ctx_status(t->ctx);
    tl_ctx_end(t->ctx, mark);
    return st;
}

/* Behind what applies, which has told the means unless the host computes. */
static tl_status end_lanes(tl_trainer *t, const tl_tensors *means)
{
    tli_lanes *lanes = &t->parts->lanes;
    double finite;
    if (!tli_lanes_several(lanes)) return TL_OK;
    if (!tli_lanes_on_host(lanes)) {
        tli_lanes_put_means(&t->parts->out, means);
        return TL_OK;
    }
    TL_TRY(tl_tensor_item(tl_optimizer_finite(t->optimizer), &finite));
    TL_TRY(tli_guard_settle_here(&t->parts->guard, finite != 0));
    tli_lanes_put_means_here(lanes, &t->parts->out, told_batches(t));
    return TL_OK;
}

/* What a task has not used stays as it is: a program for each. */
static tl_status apply_sum(tl_trainer *t)
{
    tl_tensors in = {0}, out = {0};
    const tli_subject *one = tli_subjects_of_batch(t, &t->parts->in);
    if (one) tl_tensors_put(t->ctx, &in, one->sub.name, tl_zeros(t->ctx, TL_F32, TL_SCALAR));
    TL_TRY(tl_ctx_status(t->ctx));
    if (tli_lanes_several(&t->parts->lanes) && tli_lanes_on_host(&t->parts->lanes))
        TL_TRY(tli_lanes_make_means(&t->parts->lanes, &t->parts->out));
    if (!t->parts->apply) TL_TRY(tli_apply_body(t, t->ctx, &in, &out));
    else TL_TRY(tl_function_call(t->parts->apply, t->ctx, &in, &out));
    return end_lanes(t, &out);
}

static double number_of(const tl_tensor *t)
{
    double value = NAN;
    return t && tl_tensor_count(t) == 1 && tl_tensor_item(t, &value) == TL_OK ? value : NAN;
}

/* Numbers that are not finite are a mistake, unless the step had a loss scale that they have
 * lowered. The device is the host, and has computed them by now; else this is looked at later
 * (flight.h). */
static tl_status check_finite(tl_trainer *t, bool lowered)
{
    double finite;
    TL_TRY(tl_tensor_item(tl_optimizer_finite(t->optimizer), &finite));
    if (finite == 0 && !lowered && t->params->recovery_max_trials >= 0)
        return tli_trainer_diagnose(t, number_of(tl_tensors_peek(&t->parts->out, TL_LOSS)),
                                    number_of(tl_optimizer_norm(t->optimizer)));
    t->global_step++;
    return TL_OK;
}

/* What the batches of a step that was left have added is taken back: gradients, metrics, running
 * statistics. */
static tl_status take_back_sum(tl_trainer *t)
{
    TL_TRY(tl_optimizer_discard(t->optimizer));
    tli_lanes_forget(&t->parts->lanes);
    tl_mark mark = tl_ctx_begin(t->ctx);
    tli_guard_restore(&t->parts->guard, t->ctx);
    tl_status st = tl_ctx_status(t->ctx);
    tl_ctx_end(t->ctx, mark);
    if (st == TL_OK) t->parts->unfinished = false;
    return st;
}

static tl_status ask_eager(tl_trainer *t)
{
    tli_lanes *l = &t->parts->lanes;
    const tl_tensors *in = &t->parts->in;
    tl_spec *specs = tl_arena_array(tl_ctx_arena(t->ctx), in->count, sizeof *specs);
    tl_graph *g;
    if (!specs) return TL_ENOMEM;
    for (int64_t i = 0; i < in->count; i++)
        specs[i] =
            (tl_spec){in->items[i].name, in->items[i].tensor->dtype, in->items[i].tensor->shape};
    l->asked = true;
    if (tl_graph_capture(&g, &(tl_capture){.engine = t->engine,
                                           .body = tli_train_body,
                                           .self = t,
                                           .inputs = specs,
                                           .input_count = in->count,
                                           .training = true,
                                           .path = tl_ctx_path(t->ctx),
                                           .strand = tl_ctx_strand(t->ctx)})
        != TL_OK) {
        tl_error_clear();
        return TL_OK;
    }
    for (const tl_node *n = tl_graph_first(g); n; n = n->after)
        l->meet |= (n->op->flags & TL_OP_COMM) != 0;
    tl_graph_free(&g);
    return TL_OK;
}

/* Whether a batch's program has collectives. Steps that are not captured are, once, to know it; one
 * that cannot be has lanes one after the other. */
static tl_status lanes_meet(tl_trainer *t, bool *out)
{
    tl_trainer_parts *p = t->parts;
    tl_program *program;
    if (!p->in.count) return TL_OK;
    tl_ctx_set_training(t->ctx, true);
    tl_ctx_set_strand(t->ctx, strand_of(t, 0));
    tl_status st = TL_OK;
    if (p->train) {
        st = tl_function_find(p->train, t->ctx, &p->in, &program);
        *out = st == TL_OK && tl_program_collectives(program) > 0;
    } else if (!p->lanes.asked) {
        st = ask_eager(t);
    }
    tl_ctx_set_strand(t->ctx, NULL);
    tl_ctx_set_training(t->ctx, false);
    if (!p->train) *out = p->lanes.meet;
    return tli_step_status(t, st);
}

/* --- lanes of a step -------------------------------------------------------------------------- */

static tl_status end_lane(tl_trainer *t, int64_t lane, bool beside)
{
    tl_trainer_parts *p = t->parts;
    return tli_lanes_end_lane(&p->lanes, t->ctx, lane, p->accumulation, beside);
}

/* One after the other; the first batch is there. */
static tl_status run_in_turn(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    TL_TRY(p->in.count ? compute_batch(t, t->ctx, 0, &p->in, &p->out) : leave_out_batch(t, 0));
    for (int64_t i = 0; i < p->batches; i++) {
        if (i) TL_TRY(i < p->accumulation ? run_batch(t, i) : run_beside(t, i));
        if ((i + 1) % p->accumulation == 0)
            TL_TRY(end_lane(t, tli_trainer_draws(t, i).replica, false));
    }
    return TL_OK;
}

/* Side by side: all batches of the step, in the order of the data. */
typedef struct beside {
    tl_trainer *t;
    tl_tensors *in; /* the first is that of the step */
} beside;

static tl_ctx *ctx_of(const tl_trainer *t, int64_t batch)
{
    const int64_t lane = batch / t->parts->accumulation;
    return lane ? t->parts->lanes.beside[lane] : t->ctx;
}

static tl_status take_batches(const beside *b)
{
    tl_trainer *t = b->t;
    for (int64_t i = 0; i < t->parts->batches; i++) {
        if (i) TL_TRY(next_batch(t, ctx_of(t, i), &b->in[i]));
        if (b->in[i].count) continue;
        return TL_FAIL(TL_EINVAL,
                       "the training data ended for lane %" PRId64 " at step %" PRId64
                       ", and not for others, which it meets in the middle of a step: let the "
                       "data repeat, or leave out the remainder (drop_remainder)",
                       tli_trainer_draws(t, i).replica, t->global_step);
    }
    return TL_OK;
}

static tl_status run_lane(void *self, tl_strand *strand)
{
    const beside *b = self;
    tl_trainer_parts *p = b->t->parts;
    const int64_t lane = tl_strand_lane(strand) - p->lanes.run.first;
    for (int64_t i = lane * p->accumulation; i < (lane + 1) * p->accumulation; i++) {
        tl_tensors out = {0};
        TL_TRY(compute_batch(b->t, ctx_of(b->t, i), i, &b->in[i], &out));
        if (!lane) p->in = b->in[i], p->out = out; // what the step tells
    }
    return TL_OK;
}

static tl_status run_lanes(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    beside b = {t, tl_arena_array(tl_ctx_arena(t->ctx), p->batches, sizeof *b.in)};
    if (!b.in) return TL_ENOMEM;
    b.in[0] = p->in;
    TL_TRY(take_batches(&b));
    // an eager lane must not end what others still need
    const bool holding = tl_model_hold_updates(t->model, true);
    tl_status st = tl_strands_run(p->lanes.strands, run_lane, &b);
    tl_model_hold_updates(t->model, holding);
    for (int64_t i = 0; st == TL_OK && i < p->lanes.run.count; i++) {
        tli_lanes_bring(&p->lanes, i);
        st = end_lane(t, p->lanes.run.first + i, true);
    }
    tli_lanes_bring(&p->lanes, p->lanes.run.count - 1);
    return st;
}

static tl_status run_side_by_side(tl_trainer *t)
{
    tli_lanes *l = &t->parts->lanes;
    tl_mark marks[TLI_MOST_BESIDE];
    if (l->run.count > TLI_MOST_BESIDE)
        return TL_FAIL(TL_ELIMIT,
                       "%" PRId64 " lanes of one process meet in the middle of a step, and may be "
                       "%d; start more processes",
                       l->run.count, TLI_MOST_BESIDE);
    TL_TRY(tli_lanes_part(l, t->ctx));
    for (int64_t i = 1; i < l->run.count; i++) marks[i] = tl_ctx_begin(l->beside[i]);
    tl_status st = run_lanes(t);
    for (int64_t i = 1; i < l->run.count; i++) tl_ctx_end(l->beside[i], marks[i]);
    return st;
}

/* Several batches that make one step. Lanes go one after the other where they can. */
static tl_status run_sum(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    bool meet = false;
    TL_TRY(tli_trainer_share_out(t));
    tli_lanes_tell_step(&p->lanes, t->global_step + 1, "gradients");
    TL_TRY(begin_sum(t));
    p->unfinished = true;
    open_step(t);
    TL_TRY(next_batch(t, t->ctx, &p->in));
    if (p->lanes.run.count > 1 || tl_optimizer_need(t->optimizer)) TL_TRY(lanes_meet(t, &meet));
    TL_TRY(tli_weights_begin(t, meet || !p->train));
    TL_TRY(meet && p->lanes.run.count > 1 ? run_side_by_side(t) : run_in_turn(t));
    TL_TRY(tli_weights_end(t));
    TL_TRY(tl_optimizer_decide_division(t->optimizer));
    TL_TRY(tli_lanes_join(&p->lanes));
    const tli_subject *one = tli_subjects_of_batch(t, &p->in);
    TL_TRY(tl_optimizer_measure_divided(t->optimizer, t->ctx, one ? one->model : t->model));
    TL_TRY(apply_sum(t));
    p->unfinished = false;
    return tl_optimizer_meet(t->optimizer);
}

void tli_trainer_leave_step(tl_trainer *t)
{
    tl_error error;
    if (!t->parts->sums) return;
    tl_error_save(&error);
    tli_trainer_close_step(t);
    t->parts->unfinished = true;
    if (take_back_sum(t) != TL_OK) tl_error_clear(); // the next step tries it again
    tl_error_restore(&error);
}

/* The base's steps are those of a task. */
static tl_status require_task(const tl_trainer *t)
{
    if (t->task && t->optimizer) return TL_OK;
    if (t->task) return TL_FAIL(TL_ESTATE, "the trainer was made without training");
    return TL_FAIL(TL_ESTATE,
                   "the trainer '%s' has no task to train: make it with a task and its config, or "
                   "let its class override train_step",
                   t->cls->cls.name);
}

/* What begins to be trained with this step makes another program of it. */
static tl_status wake(tl_trainer *t)
{
    if (!tl_optimizer_wake(t->optimizer, t->global_step, true)) return TL_OK;
    TL_TRY(tl_trainer_join(t));
    tli_trainer_close_step(t);
    tl_optimizer_wake(t->optimizer, t->global_step, false);
    if (t->parts->train) tl_function_reset(t->parts->train);
    if (t->parts->apply) tl_function_reset(t->parts->apply);
    tli_lanes_reset(&t->parts->lanes);
    tli_tuning_tell(t->model, t->global_step);
    return TL_OK;
}

tl_status tli_train_step(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    TL_TRY(require_task(t));
    TL_TRY(wake(t));
    bool lowers = !p->flight.flies && tl_optimizer_can_lower_scale(t->optimizer);
    if (p->unfinished) TL_TRY(take_back_sum(t));
    tl_status st = p->sums ? run_sum(t) : run_batch(t, 0);
    if (st != TL_OK) {
        if (p->unfinished) tli_trainer_leave_step(t);
        if (p->flight.count) tli_trainer_close_step(t); // it is not the last one that counts
        return st;
    }
    t->outputs = &t->parts->out;
    return p->flight.flies ? tli_flight_add(t) : check_finite(t, lowers);
}

/* --- a loop ----------------------------------------------------------------------------------- */

/* Remembers where the data stands, for steps that must be taken back. */
static tl_status mark_position(tl_trainer *t)
{
    tl_trainer_parts *p = t->parts;
    if (!t->train_dataset) return TL_OK;
    if (!p->position) {
        TL_TRY(tl_state_new(&p->position));
        TL_TRY(tl_dataset_state(t->train_dataset, p->position));
    }
    tl_state_free(&p->position_then);
    p->taken = 0;
    return tl_state_clone(&p->position_then, p->position);
}

tl_status tli_train_loop_begin(tl_trainer *t)
{
    (void)t;
    return TL_OK;
}

tl_status tli_train(tl_trainer *t, int64_t steps, tl_logs *logs)
{
    tl_trainer_parts *p = t->parts;
    t->data_wait_s = 0;
    TL_TRY(mark_position(t));
    TL_TRY(TLI_TRAINER_CALL(t, train_loop_begin)(t));
    for (int64_t i = 0; i < steps; i++) {
        if (p->watch && p->watch->before) TL_TRY(p->watch->before(p->watch->self, t));
        TL_TRY(TLI_TRAINER_CALL(t, train_step)(t));
        if (!tl_trainer_between(t)) return TL_OK;
    }
    TL_TRY(tl_trainer_join(t));
    return TLI_TRAINER_CALL(t, train_loop_end)(t, logs);
}

/* A loop without a single finite loss has no mean, and must not look like a perfect one. */
static tl_status tell_nothing_finite(tl_trainer *t, tl_logs *logs)
{
    const tl_tensor *count = tl_tensors_peek(&t->train_loss->states, "count");
    double finite = 1, counted = 1;
    if (t->optimizer) TL_TRY(tl_tensor_item(tl_optimizer_finite(t->optimizer), &finite));
    if (count) TL_TRY(tl_tensor_item(count, &counted));
    return finite == 0 && counted == 0 ? tl_logs_put(logs, t->train_loss->name, NAN) : TL_OK;
}

tl_status tli_train_loop_end(tl_trainer *t, tl_logs *logs)
{
    TL_TRY(tl_trainer_join(t));
    // Who writes checkpoints, exports or evaluates averages finds all of them until the next step.
    if (t->optimizer) TL_TRY(tl_optimizer_bring(t->optimizer, true));
    if (!t->train_loss) return TL_OK;
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_status st;
    TL_TRY_DONE(st, tl_metrics_tell(t->train_metrics, t->ctx, logs));
    TL_TRY_DONE(st, tl_metric_tell(t->train_loss, t->ctx, logs));
    TL_TRY_DONE(st, tell_nothing_finite(t, logs));
    TL_TRY_DONE(st, tl_metrics_reset(t->train_metrics, t->ctx));
    TL_TRY_DONE(st, tl_metric_reset(t->train_loss, t->ctx));
    if (t->optimizer)
        st = tl_logs_put(logs, "learning_rate", tl_optimizer_learning_rate(t->optimizer));
done:
    tl_ctx_end(t->ctx, mark);
    return st;
}
