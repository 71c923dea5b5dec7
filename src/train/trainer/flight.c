#include "train/trainer/trainer.h"

#include <string.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/update.h>

#include "core/inner/engine.h"

/* Neither 0 nor 1: the device has not written the line yet. */
static const double under_way = -1;

/* --- making ----------------------------------------------------------------------------------- */

void tli_flight_deinit(tli_flight *f)
{
    for (int i = 0; i < TLI_MOST_IN_FLIGHT; i++) tl_tensor_free(&f->steps[i].line);
    tl_tensor_free(&f->halted);
    tl_tensor_free(&f->loss);
    tl_tensor_free(&f->line);
    *f = (tli_flight){0};
}

static tl_status make(tli_flight *f, tl_engine *e)
{
    const tl_shape line = TL_SHAPE(TLI_LINE_COUNT);
    TL_TRY(tl_tensor_new(&f->halted, e, TL_BOOL, TL_SCALAR));
    TL_TRY(tl_tensor_new(&f->loss, e, TL_F64, TL_SCALAR));
    TL_TRY(tl_tensor_new(&f->line, e, TL_F64, line));
    for (int i = 0; i < TLI_MOST_IN_FLIGHT; i++)
        TL_TRY(tl_tensor_new_at(&f->steps[i].line, e, TL_AT_HOST, TL_F64, line));
    TL_TRY(tl_tensor_clear(f->halted));
    TL_TRY(tl_tensor_clear(f->loss));
    return tl_tensor_clear(f->line);
}

tl_status tli_flight_init(tl_trainer *t)
{
    tli_flight *f = &t->parts->flight;
    if (t->optimizer) tl_optimizer_set_halted(t->optimizer, NULL);
    tli_flight_deinit(f);
    if (t->engine->device->cls->host || !t->optimizer || !t->parts->trains) return TL_OK;
    if (tli_strategy_peers(t->strategy)) return TL_OK; // sums of several processes are waited for
    TL_TRY(make(f, t->engine));
    f->flies = true;
    tl_optimizer_set_halted(t->optimizer, f->halted);
    return TL_OK;
}

/* --- in the program --------------------------------------------------------------------------- */

tl_tensor *tli_flight_begin(tl_trainer *t, tl_ctx *c)
{
    return t->parts->flight.flies ? tl_optimizer_lowers_scale(t->optimizer, c) : NULL;
}

void tli_flight_note(tl_trainer *t, tl_ctx *c, tl_tensor *loss)
{
    if (t->parts->flight.flies) tl_assign(c, t->parts->flight.loss, tl_cast(c, loss, TL_F64));
}

/* Numbers that are not finite halt the run, unless the loss scale has them to be lowered, or the
 * run shall go on without such steps. */
static tl_tensor *halts(tl_trainer *t, tl_ctx *c, tl_tensor *lowers)
{
    tl_tensor *bad = tl_logical_not(c, tl_optimizer_finite(t->optimizer));
    return lowers ? tl_logical_and(c, bad, tl_logical_not(c, lowers)) : bad;
}

void tli_flight_end(tl_trainer *t, tl_ctx *c, tl_tensor *lowers)
{
    static const int64_t places[] = {TLI_LINE_HALTED, TLI_LINE_LOSS, TLI_LINE_NORM};
    tli_flight *f = &t->parts->flight;
    if (!f->flies) return;
    bool taping = tl_ctx_set_taping(c, false);
    tl_tensor *halted = f->halted;
    if (t->params->recovery_max_trials >= 0) halted = tl_logical_or(c, halted, halts(t, c, lowers));
    tl_tensor *numbers[] = {tl_cast(c, halted, TL_F64), f->loss,
                            tl_cast(c, tl_optimizer_norm(t->optimizer), TL_F64)};
    tl_tensor *line = tl_pack(c, TLI_LINE_COUNT, numbers, places, TLI_LINE_COUNT);
    tl_assign(c, f->line, tl_where(c, f->halted, f->line, line)); // as it was before this step
    if (halted != f->halted) tl_assign(c, f->halted, halted);
    tl_ctx_set_taping(c, taping);
}

/* --- what became of them ---------------------------------------------------------------------- */

static tli_in_flight *oldest_of(tli_flight *f)
{
    return &f->steps[f->first];
}

static void pop(tli_flight *f)
{
    f->first = (f->first + 1) % TLI_MOST_IN_FLIGHT;
    f->count--;
}

/* The run goes back to before the step: what was put behind it changed nothing. */
static void return_to(tl_trainer *t, const tli_in_flight *step)
{
    bool newest = t->parts->flight.count == 1; // its batch is still at hand
    t->parts->flight.count = 0;
    t->global_step = step->step;
    t->parts->taken = step->taken;
    if (!newest) tli_trainer_close_step(t);
}

static tl_status accept(const tl_state_entry *e, void *payload)
{
    (void)payload;
    if (e->tensor && e->tensor->storage) tli_storage_accept(e->tensor->storage);
    return TL_OK;
}

/* The queue is empty. Nothing behind a failure was computed, so all that steps change in place is
 * as the last good one has left it. */
static void keep_state(tl_trainer *t)
{
    tli_flight *f = &t->parts->flight;
    tl_state *state = tl_trainer_checkpoint(t);
    if (state && tl_state_walk(state, accept, NULL) != TL_OK) tl_error_clear();
    tli_guard_accept(&t->parts->guard);
    tli_lanes_accept(&t->parts->lanes);
    tli_storage_accept(tl_optimizer_norm(t->optimizer)->storage);
    tli_storage_accept(tl_optimizer_finite(t->optimizer)->storage);
    for (tl_tensor **own = (tl_tensor *[]){f->halted, f->loss, f->line, NULL}; *own; own++)
        if (tl_tensor_clear(*own) != TL_OK) tl_error_clear();
}

static tl_status halted_at(tl_trainer *t, const tli_in_flight *step, const double *line)
{
    return_to(t, step);
    // Those behind it may have failed, which nobody needs to know.
    if (tl_engine_wait(t->engine) != TL_OK) tl_error_clear();
    keep_state(t);
    return tli_trainer_diagnose(t, line[TLI_LINE_LOSS], line[TLI_LINE_NORM]);
}

/* The oldest step that is not over, or was halted: the one that is at fault. */
static tl_status look(tl_trainer *t, bool *at_fault)
{
    tli_flight *f = &t->parts->flight;
    double line[TLI_LINE_COUNT] = {under_way};
    *at_fault = true;
    TL_TRY(tl_queue_wait(t->engine->in, oldest_of(f)->arrived));
    TL_TRY(tl_tensor_get_doubles(oldest_of(f)->line, line, TLI_LINE_COUNT));
    if (line[TLI_LINE_HALTED] == 1) return halted_at(t, oldest_of(f), line);
    *at_fault = line[TLI_LINE_HALTED] == under_way;
    if (!*at_fault) pop(f);
    return TL_OK;
}

/* Something in the queue has failed. Steps whose lines have come were over by then; the one behind
 * them is the one. */
static tl_status failed(tl_trainer *t, tl_status st)
{
    tli_flight *f = &t->parts->flight;
    tl_error error;
    bool at_fault = false;
    tl_error_save(&error);
    st = tl_engine_recover(t->engine, st);
    while (f->count && !at_fault) {
        tl_status found = look(t, &at_fault);
        if (found == TL_ENAN && !f->count) return found; // one before it was not finite
        if (found != TL_OK) tl_error_clear();
    }
    if (f->count) {
        int64_t taken = t->parts->taken;
        return_to(t, oldest_of(f));
        keep_state(t);
        if (taken != t->parts->taken && tli_trainer_return_data(t, t->parts->taken) != TL_OK)
            tl_error_clear();
        tli_trainer_leave_step(t);
    }
    tl_error_restore(&error);
    // as the program says when it fails at once
    return t->parts->train ? tl_error_note(st, "train_step") : st;
}

static tl_status look_at_oldest(tl_trainer *t)
{
    bool at_fault;
    tl_status st = look(t, &at_fault);
    return st != TL_OK && t->parts->flight.count ? failed(t, st) : st;
}

tl_status tli_flight_land(tl_trainer *t)
{
    while (t->parts->flight.count) TL_TRY(look_at_oldest(t));
    return TL_OK;
}

int64_t tli_flight_over(const tl_trainer *t)
{
    const tli_flight *f = &t->parts->flight;
    int over = 0;
    while (over < f->count
           && tli_storage_is_there(f->steps[(f->first + over) % TLI_MOST_IN_FLIGHT].line->storage))
        over++;
    return t->global_step - (f->count - over);
}

/* Steps can only be taken back where the batches can, and all else that the class does in them. */
static bool can_return(const tl_trainer *t)
{
    const tl_trainer_class *with = TL_CLASS_METHOD(tl_trainer_class, t->cls, train_step);
    return t->parts->position_then && with && with->in_flight
           && TLI_TRAINER_CALL(t, next_train_inputs) == tli_next_train_inputs;
}

tl_status tli_flight_add(tl_trainer *t)
{
    tli_flight *f = &t->parts->flight;
    tli_in_flight *step = &f->steps[(f->first + f->count) % TLI_MOST_IN_FLIGHT];
    const double line[TLI_LINE_COUNT] = {under_way};
    TL_TRY(tl_tensor_set_doubles(step->line, line, TLI_LINE_COUNT));
    TL_TRY(tl_tensor_copy(step->line, f->line));
    step->step = t->global_step++;
    step->taken = t->parts->taken;
    step->arrived = tl_queue_ticket(t->engine->in);
    f->count++;
    if (!can_return(t)) return tli_flight_land(t);
    return f->count == TLI_MOST_IN_FLIGHT ? look_at_oldest(t) : TL_OK;
}
