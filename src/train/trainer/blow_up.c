/* What becomes of the checkpoints of a training that has blown up. */
#include "train/controller/controller.h"

#include <tilth/base/log.h>

#include "io/inner/checkpoint_manager.h"
#include "train/trainer/trainer.h"

/* The first step after a checkpoint depends on nothing but it and the batch, whatever the learning
 * rate is: where that is not finite, nobody can go on from there. One that was there before this
 * training is another matter: it may be the settings that are wrong. */
bool tli_controller_leads_nowhere(const tl_controller *c)
{
    return tli_checkpoint_manager_own_latest(c->manager) == c->trainer->global_step
           && !(c->trainer->parts && c->trainer->parts->bad_batch);
}

static void tell_how_to_go_on(tl_str *out, tl_controller *c, const char *given_up,
                              const char *aside)
{
    const char *latest = tl_checkpoint_manager_latest(c->manager);
    if (given_up)
        tl_str_addf(out, ". '%s' led straight to it, and is kept as '%s'", given_up, aside);
    if (latest)
        tl_str_addf(out, ". Lower the learning rate and resume: the run goes on from '%s'", latest);
    else
        tl_str_add(out,
                   ". Lower the learning rate and start again: there is no checkpoint from before");
}

tl_status tli_controller_give_up_latest(tl_str *given_up, tl_str *aside, tl_controller *c)
{
    tl_arena *arena;
    const char *kept, *latest = tl_checkpoint_manager_latest(c->manager);
    if (!latest) return TL_ENOMEM;
    tl_str_add(given_up, latest);
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tli_checkpoint_manager_give_up(c->manager, "poisoned", &kept, arena);
    if (st == TL_OK) tl_str_add(aside, kept);
    tl_arena_free(&arena);
    return st;
}

tl_status tli_controller_blown_up(tl_controller *c)
{
    tl_error error;
    tl_str given_up = TL_STR_INIT, aside = TL_STR_INIT, how = TL_STR_INIT;
    if (!c->manager || !tl_checkpoint_manager_interval(c->manager)) return TL_ENAN;
    tl_error_save(&error);
    if (tli_controller_tell_saved(c, true) != TL_OK) TL_LOG_ERROR("%s", tl_error_message());
    bool lost = tli_controller_leads_nowhere(c);
    if (lost && tli_controller_give_up_latest(&given_up, &aside, c) != TL_OK) {
        TL_LOG_ERROR("%s", tl_error_message());
        lost = false;
    }
    tell_how_to_go_on(&how, c, lost ? tl_str_text(&given_up) : NULL, tl_str_text(&aside));
    tl_status st = TL_FAIL(TL_ENAN, "%s%s", error.text, tl_str_text(&how));
    tl_str_deinit(&given_up);
    tl_str_deinit(&aside);
    tl_str_deinit(&how);
    return st;
}
