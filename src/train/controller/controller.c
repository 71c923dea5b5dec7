#include "train/controller/controller.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>

#include "base/inner/clean.h"
#include "io/inner/checkpoint_manager.h"
#include "train/writers/pretty.h"
#include "train/controller/signals.h"

/* --- small things ----------------------------------------------------------------------------- */

void tli_controller_say(const tl_controller *c, const char *format, ...)
{
    tl_str line = TL_STR_INIT;
    va_list args;
    va_start(args, format);
    tl_str_addv(&line, format, args);
    va_end(args);
    if (!c->given.quiet) {
        tli_print_clean(stdout, tl_str_text(&line), strlen(tl_str_text(&line)));
        fputc('\n', stdout);
        fflush(stdout);
    }
    // Where both streams are one, it stands there once.
    if (!c->given.quiet && tl_log_shares_stdout())
        TL_LOG_TOLD(TL_LEVEL_INFO, "%s", tl_str_text(&line));
    else TL_LOG_INFO("%s", tl_str_text(&line));
    tl_str_deinit(&line);
}

tl_status tli_controller_require(const void *what, const char *name, const char *method)
{
    if (what) return TL_OK;
    return TL_FAIL(TL_ESTATE, "%s needs a %s, and the controller has none", method, name);
}

bool tli_controller_stopping(const tl_controller *c)
{
    if (c->peers) return c->peers->stops || tli_controller_signal(c);
    return __atomic_load_n(&c->stop, __ATOMIC_ACQUIRE) || tli_controller_signal(c);
}

int tli_controller_signal(const tl_controller *c)
{
    if (!c->given.heed_signals) return 0;
    return c->peers ? c->peers->signal : tli_signal;
}

bool tli_controller_follows(const tl_controller *c)
{
    return c->peers && c->peers->rank > 0;
}

tl_status tli_controller_forgive(const tl_controller *c, tl_status st)
{
    if (st != TL_EIO || !c->given.survive_write_failures) return st;
    TL_LOG_ERROR("%s. The training goes on (survive_write_failures)", tl_error_message());
    tl_error_clear();
    return TL_OK;
}

void tli_controller_heed(const tl_controller *c, const char *answer)
{
    if (c->peers) c->peers->heeds_signals = true;
    tli_signals_begin(tli_controller_follows(c) ? NULL : answer);
}

/* --- hooks ------------------------------------------------------------------------------------ */

static tl_hook_files files_of(const tl_hook *h)
{
    const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, files);
    return with ? with->files : TL_HOOK_NO_FILES;
}

bool tli_hook_writes(const tl_hook *h)
{
    return files_of(h) != TL_HOOK_NO_FILES;
}

tl_status tli_hook_settle(const tl_hook *h, tl_status st)
{
    if (st == TL_OK) return TL_OK;
    tl_error_note(st, "hook '%s'", h->name);
    return h->controller && tli_hook_writes(h) ? tli_controller_forgive(h->controller, st) : st;
}

#define EACH_HOOK(c, method, ...)                                                                  \
    for (int64_t i = 0; i < (c)->hook_count; i++) {                                                \
        tl_hook *h = (c)->hooks[i];                                                                \
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, method);                \
        if (with) TL_TRY(tli_hook_settle(h, with->method(__VA_ARGS__)));                           \
    }

/* Nothing is forgiven here: what goes wrong at the beginning is seen by who begins it. */
tl_status tli_hooks_before_train(tl_controller *c)
{
    for (int64_t i = 0; i < c->hook_count; i++) {
        tl_hook *h = c->hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, before_train);
        if (with) TL_TRY_NOTE(with->before_train(h), "hook '%s'", h->name);
    }
    return TL_OK;
}

tl_status tli_hooks_after_train(tl_controller *c, tl_status so_far)
{
    // All are called; the first failure counts, and that of the training before any of theirs.
    tl_error first = {.code = TL_OK};
    if (so_far != TL_OK) tl_error_save(&first);
    first.code = so_far;
    for (int64_t i = 0; i < c->hook_count; i++) {
        tl_hook *h = c->hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, after_train);
        tl_status st = with ? with->after_train(h) : TL_OK;
        if (st != TL_OK && files_of(h) == TL_HOOK_CHECKPOINTS)
            tl_error_note(st, "hook '%s'", h->name);
        else st = tli_hook_settle(h, st);
        if (st == TL_OK || first.code != TL_OK) continue;
        tl_error_save(&first);
        first.code = st;
    }
    if (first.code != TL_OK) tl_error_restore(&first);
    return first.code;
}

tl_status tli_hooks_after_loop(tl_controller *c, tl_logs *logs)
{
    EACH_HOOK(c, after_loop, h, logs)
    return TL_OK;
}

tl_status tli_hooks_before_eval(tl_controller *c)
{
    EACH_HOOK(c, before_eval, h)
    return TL_OK;
}

tl_status tli_hooks_after_eval(tl_controller *c, tl_logs *logs)
{
    EACH_HOOK(c, after_eval, h, logs)
    return TL_OK;
}

tl_status tli_hooks_on_error(tl_controller *c, tl_status status, bool *handled)
{
    *handled = false;
    for (int64_t i = 0; i < c->hook_count && !*handled; i++) {
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, c->hooks[i]->cls, on_error);
        if (with) TL_TRY(with->on_error(c->hooks[i], status, handled));
    }
    return TL_OK;
}

static tl_status hooks_on_save(tl_controller *c, const char *path)
{
    EACH_HOOK(c, on_save, h, path)
    return TL_OK;
}

static tl_status hooks_on_restore(tl_controller *c, const char *path)
{
    EACH_HOOK(c, on_restore, h, path)
    return TL_OK;
}

tl_status tli_hooks_on_summary(tl_controller *c, const tl_logs *logs)
{
    EACH_HOOK(c, on_summary, h, logs)
    return TL_OK;
}

/* --- making ----------------------------------------------------------------------------------- */

static tl_status check_args(const tl_controller_args *a)
{
    if (!a->trainer && !a->evaluator)
        return TL_FAIL(TL_EINVAL, "a controller needs a trainer or an evaluator");
    if (!a->trainer) return TL_OK;
    if (!a->steps_of_loop && a->steps_per_loop < 1)
        return TL_FAIL(TL_EINVAL, "steps_per_loop is %" PRId64 " and must be 1 or more",
                       a->steps_per_loop);
    if (a->summary_interval < 0)
        return TL_FAIL(TL_EINVAL, "summary_interval is %" PRId64 " and must be 1 or more",
                       a->summary_interval);
    if (!a->steps_of_loop && a->summary_interval % a->steps_per_loop != 0)
        return TL_FAIL(TL_EINVAL,
                       "summary_interval is %" PRId64
                       " and must be a multiple of steps_per_loop, %" PRId64,
                       a->summary_interval, a->steps_per_loop);
    return TL_OK;
}

/* What hooks and the controller itself keep is part of the trainer's checkpoint. */
static tl_status bind_state(tl_controller *c)
{
    if (!c->manager || !c->trainer) return TL_OK;
    tl_state *state = tl_trainer_checkpoint(c->trainer), *sub;
    if (!state) return tl_error_code();
    TL_TRY(tl_state_bind_int(state, "controller/evaluated", &c->evaluated));
    if (c->given.steps_of_loop)
        TL_TRY(tl_state_bind_int(state, "controller/loop_end", &c->open_end));
    c->bound = true;
    for (int64_t i = 0; i < c->hook_count; i++) {
        tl_hook *h = c->hooks[i];
        const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, state);
        const char *path = with ? tl_path_join(c->arena, "hooks", h->name) : NULL;
        if (!with) continue;
        if (!path) return TL_ENOMEM;
        TL_TRY(tl_state_sub(&sub, state, path));
        TL_TRY_NOTE(with->state(h, sub), "hook '%s'", h->name);
    }
    return TL_OK;
}

static tl_status take_hooks(tl_controller *c, const tl_controller_args *args)
{
    const int64_t most = args->hook_count ? args->hook_count : 1;
    c->hooks = tl_arena_array(c->arena, most, sizeof *c->hooks);
    c->savers = tl_arena_array(c->arena, most, sizeof *c->savers);
    if (!c->hooks || !c->savers) return TL_ENOMEM;
    for (int64_t i = 0; i < args->hook_count; i++) {
        if (!args->hooks[i]) continue;
        if (files_of(args->hooks[i]) == TL_HOOK_CHECKPOINTS
            && TL_CLASS_METHOD(tl_hook_class, args->hooks[i]->cls, after_step))
            c->savers[c->saver_count++] = args->hooks[i];
        if (tli_controller_follows(c) && tli_hook_writes(args->hooks[i])) continue;
        args->hooks[i]->controller = c;
        c->hooks[c->hook_count++] = args->hooks[i];
        const tl_hook_class *cls = args->hooks[i]->cls;
        c->steps_watched |= TL_CLASS_METHOD(tl_hook_class, cls, before_step)
                            || TL_CLASS_METHOD(tl_hook_class, cls, after_step);
        c->summaries_watched |= TL_CLASS_METHOD(tl_hook_class, cls, on_summary) != NULL;
    }
    return TL_OK;
}

static tl_status make_summaries(tl_summary_manager **own, const tl_summary_manager_class *cls,
                                const char *dir, const int64_t *step, int64_t keep_to)
{
    return tl_summary_manager_new(
        own, cls ? cls : &tl_summary_manager_scalars,
        &(tl_summary_manager_args){.dir = dir, .step = step, .keep_to = {keep_to >= 0, keep_to}});
}

/* Not before the run begins: what an interrupted one told beyond the checkpoint is dropped, since
 * it will be told again. Who only evaluates writes beside a run that goes on, and takes nothing
 * from it. */
tl_status tli_controller_open_summaries(tl_controller *c)
{
    const tl_controller_args *a = &c->given;
    if (c->summaries_open) return TL_OK;
    const char *eval_dir = a->eval_summary_dir ? a->eval_summary_dir : a->summary_dir;
    int64_t keep_to = c->manager && c->trainer ? c->trainer->global_step : -1;
    bool shared = c->trainer && a->summary_dir && eval_dir && !a->eval_summary_manager
                  && strcmp(a->summary_dir, eval_dir) == 0;
    if (c->trainer) {
        if (!a->summary_manager && a->summary_dir)
            TL_TRY(make_summaries(&c->own_summaries, NULL, a->summary_dir, &c->trainer->global_step,
                                  keep_to));
        c->summaries = a->summary_manager ? a->summary_manager : c->own_summaries;
    }
    c->summaries_open = true;
    if (!c->evaluator) return TL_OK;
    if (a->eval_summary_manager) c->eval_summaries = a->eval_summary_manager;
    else if (shared) c->eval_summaries = c->summaries;
    else if (eval_dir) {
        TL_TRY(make_summaries(&c->own_eval_summaries, a->eval_summary_cls, eval_dir,
                              &c->evaluator->global_step, keep_to));
        c->eval_summaries = c->own_eval_summaries;
    }
    return TL_OK;
}

tl_status tl_controller_new(tl_controller **out, const tl_controller_args *args)
{
    tl_controller *c = NULL;
    tl_status st;
    *out = NULL;
    TL_TRY(check_args(args));
    c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    c->given = *args;
    c->trainer = args->trainer;
    c->evaluator = args->evaluator;
    c->manager = args->checkpoint_manager;
    c->peers = tli_strategy_peers((c->trainer ? c->trainer : c->evaluator)->strategy);
    TL_TRY_DONE(st, tl_arena_new(&c->arena));
    TL_TRY_DONE(st, take_hooks(c, args));
    TL_TRY_DONE(st, tl_event_storage_new(&c->storage, NULL));
    TL_TRY_DONE(st, bind_state(c));
    const char *restored;
    if (c->manager) TL_TRY_DONE(st, tl_controller_restore_checkpoint(c, NULL, &restored));
    *out = c;
    c = NULL;
done:
    tl_controller_free(&c);
    return st;
}

void tl_controller_free(tl_controller **controller)
{
    tl_controller *c = *controller;
    if (!c) return;
    tl_error kept;
    tl_error_save(&kept);
    if (c->manager && tl_checkpoint_manager_sync(c->manager) != TL_OK)
        TL_LOG_ERROR("%s", tl_error_message());
    const char *saved = c->saving ? tl_checkpoint_manager_saved(c->manager, false) : NULL;
    if (saved) tli_controller_say(c, "saved checkpoint to %s.", saved);
    tl_state *state = c->bound ? tl_trainer_checkpoint(c->trainer) : NULL;
    if (state) { // what it holds of ours ends with us
        tl_state_remove(state, "controller");
        tl_state_remove(state, "hooks");
    }
    tl_error_restore(&kept);
    for (int64_t i = 0; i < c->hook_count; i++) c->hooks[i]->controller = NULL;
    tl_summary_manager_free(&c->own_summaries);
    tl_summary_manager_free(&c->own_eval_summaries);
    TL_VEC_FREE(&c->told);
    tl_str_deinit(&c->restored);
    tl_str_deinit(&c->newest);
    tl_event_storage_free(&c->storage);
    tl_arena_free(&c->arena);
    tl_free(c);
    *controller = NULL;
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static tl_status restore_this(tl_controller *c, const char *path)
{
    return c->trainer ? tl_checkpoint_manager_restore(c->manager, path)
                      : tl_trainer_restore_to_evaluate(c->evaluator, path);
}

/* The newest checkpoint that can be read; *restored is NULL when there is none at all, and it is
 * TL_ENOTFOUND when none of those that there are can be. They are left where they are: the folder
 * is that of the run which trains. */
static tl_status restore_usable(tl_controller *c, const char **restored)
{
    tl_arena *arena;
    tl_path_list all;
    int64_t i = 0;
    *restored = NULL;
    tl_str_cut(&c->newest, 0);
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_checkpoint_manager_candidates(&all, c->manager, arena);
    for (; st == TL_OK && i < all.count; i++) {
        st = restore_this(c, all.items[i]);
        if (st == TL_OK || tl_checkpoint_is_usable(all.items[i])) break;
        TL_LOG_ERROR("the checkpoint '%s' cannot be used: %s", all.items[i], tl_error_message());
        st = TL_OK;
    }
    if (st == TL_OK && i == all.count && i > 0)
        st = TL_FAIL(TL_ENOTFOUND, "no checkpoint in '%s' can be used; the log says why",
                     tl_checkpoint_manager_directory(c->manager));
    if (st == TL_OK && i < all.count) {
        if (i > 0) TL_LOG_ERROR("taking '%s' instead", all.items[i]);
        tl_str_cut(&c->restored, 0);
        tl_str_add(&c->restored, all.items[i]);
        tl_str_add(&c->newest, all.items[0]);
        st = tl_str_status(&c->restored);
        *restored = tl_str_text(&c->restored);
    }
    tl_arena_free(&arena);
    return st;
}

static tl_status restore_latest_to_evaluate(tl_controller *c, const char **restored)
{
    TL_TRY(restore_usable(c, restored));
    return *restored ? TL_OK : tl_trainer_initialize(c->evaluator);
}

static tl_status restore_latest(tl_controller *c, const char **restored)
{
    return c->trainer ? tl_checkpoint_manager_restore_or_initialize(c->manager, restored)
                      : restore_latest_to_evaluate(c, restored);
}

/* The chief looks for a checkpoint that can be used, and all take that one. */
static tl_status restore_chiefs(tl_controller *c, const char **restored)
{
    tl_str chosen = TL_STR_INIT;
    tl_status st = TL_OK;
    if (!c->peers) return restore_latest(c, restored);
    if (!tli_controller_follows(c)) st = restore_latest(c, restored);
    if (st == TL_OK && *restored) tl_str_add(&chosen, *restored);
    if (st == TL_OK) st = tli_peers_share(c->peers, &chosen);
    if (st == TL_OK && tli_controller_follows(c)) {
        if (!chosen.length) st = tl_trainer_initialize(c->trainer ? c->trainer : c->evaluator);
        else st = restore_this(c, tl_str_text(&chosen));
        tl_str_cut(&c->restored, 0);
        tl_str_add(&c->restored, tl_str_text(&chosen));
        if (st == TL_OK) st = tl_str_status(&c->restored);
        if (chosen.length) *restored = tl_str_text(&c->restored);
    }
    tl_str_deinit(&chosen);
    return st;
}

/* What Model Garden would have evaluated, it has. */
static tl_status note_bundle(tl_controller *c, const char *path)
{
    tl_arena *arena;
    bool bundle;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_checkpoint_locate(&path, &bundle, arena, path);
    if (st == TL_OK && bundle) c->evaluated = c->trainer->global_step;
    tl_arena_free(&arena);
    return st;
}

tl_status tl_controller_restore_checkpoint(tl_controller *c, const char *path,
                                           const char **restored)
{
    const char *from = NULL;
    TL_TRY(tli_controller_require(c->manager, "checkpoint manager", "restoring"));
    if (path) tli_controller_say(c, "restoring model from %s...", path);
    else tli_controller_say(c, "restoring or initializing model...");
    c->again_at = 0;
    tli_peers_tell(c->peers, TL_WORLD_READS, 0, "a checkpoint");
    tl_str_cut(&c->newest, 0);
    TL_TRY(tli_controller_finish_save(c, true));
    // Weights may lie in memory that all have: nobody still looks at it, nobody goes on too soon.
    if (c->peers) TL_TRY(tl_comm_barrier(c->peers->all));
    TL_TRY(path ? restore_this(c, path) : restore_chiefs(c, &from));
    if (c->peers) TL_TRY(tl_comm_barrier(c->peers->all));
    if (c->trainer && c->trainer->optimizer) tl_optimizer_restored(c->trainer->optimizer);
    if (path) from = path;
    if (c->last_step) { // a run that goes back will tell again what it told since
        TL_TRY(tl_summary_manager_rewind(c->summaries, c->trainer->global_step));
        TL_TRY(tl_summary_manager_rewind(c->eval_summaries, c->trainer->global_step));
        tl_event_storage_rewind(c->storage, c->trainer->global_step - 1);
    }
    if (c->trainer && from) TL_TRY(note_bundle(c, from));
    if (from) tli_controller_say(c, "restored model from %s.", from);
    if (restored) *restored = from;
    return hooks_on_restore(c, from);
}

/* What could not be written is tried again at the next interval, and not at each step. */
static void try_later(tl_controller *c)
{
    int64_t interval = tl_checkpoint_manager_interval(c->manager);
    c->again_at = (c->trainer->global_step / interval + 1) * interval;
}

tl_status tli_controller_tell_saved(tl_controller *c, bool wait)
{
    if (!c->manager || !c->saving) return TL_OK;
    const char *path = tl_checkpoint_manager_saved(c->manager, wait);
    if (!path) return TL_OK;
    c->saving = false;
    tli_controller_say(c, "saved checkpoint to %s.", path);
    return hooks_on_save(c, path);
}

bool tli_controller_may_save(const tl_controller *c)
{
    const int64_t interval = c->manager ? tl_checkpoint_manager_interval(c->manager) : 0;
    const int64_t step = c->trainer->global_step;
    bool may = interval && (step % interval == 0 || tl_checkpoint_manager_keeps_time(c->manager));
    for (int64_t i = 0; interval && i < c->saver_count; i++)
        may |= step % c->savers[i]->period == 0;
    return may;
}

bool tli_controller_is_apart(const tl_controller *c)
{
    return c->trainer && c->trainer->optimizer && tl_optimizer_is_apart(c->trainer->optimizer);
}

tl_status tli_controller_save_apart(tl_controller *c)
{
    const bool asked = c->save_at_end;
    if (!tli_controller_is_apart(c) || tli_controller_is_together(c)) return TL_OK;
    c->save_at_end = false;
    uint64_t due = !tli_controller_follows(c) && (asked || c->trainer->global_step >= c->again_at)
                   && tl_checkpoint_manager_due(c->manager, !asked);
    TL_TRY(tli_peers_share_word(c->peers, &due));
    if (!due) return TL_OK;
    TL_TRY(tl_optimizer_bring(c->trainer->optimizer, true));
    return tli_controller_forgive(c, tli_controller_save(c, !asked, NULL));
}

bool tli_controller_is_together(const tl_controller *c)
{
    return c->peers && c->trainer && c->manager && tl_checkpoint_manager_interval(c->manager)
           && tli_checkpoint_manager_is_together(c->manager);
}

static tl_status save(tl_controller *c, bool check_interval, bool *saved)
{
    const char *path;
    if (tl_checkpoint_manager_due(c->manager, check_interval)) {
        TL_TRY(tli_controller_tell_saved(c, true)); // the one before
        TL_TRY(tli_controller_forgive(c, tl_summary_manager_flush(c->summaries)));
    }
    tl_status st = tl_checkpoint_manager_save(c->manager, check_interval, &path);
    c->again_at = 0;
    if (st != TL_OK) {
        try_later(c);
        return check_interval ? tli_controller_forgive(c, st) : st; // the last one must be written
    }
    if (!path) return TL_OK;
    if (saved) *saved = true;
    bool again = c->evaluation_unsaved && c->told_saved == c->trainer->global_step;
    c->evaluation_unsaved = false;
    if (again) return TL_OK; // the same step, which now knows that it was evaluated
    c->told_saved = c->trainer->global_step;
    c->saving = true;
    return tli_controller_tell_saved(c, false);
}

tl_status tli_controller_save(tl_controller *c, bool check_interval, bool *saved)
{
    if (saved) *saved = false;
    if (!c->manager || !c->trainer || !tl_checkpoint_manager_interval(c->manager)) return TL_OK;
    if (tli_controller_is_together(c)) { // where all come by
        c->save_at_end |= !check_interval;
        return TL_OK;
    }
    if (tli_controller_follows(c)) return TL_OK;
    if (c->in_step && (c->trainer->global_step == c->loop_end || tli_controller_is_apart(c))) {
        c->save_at_end = true; // the metrics of the loop are told and reset first, or all bring
        return TL_OK;
    }
    if (check_interval && c->trainer->global_step < c->again_at) return TL_OK;
    bool due = tl_checkpoint_manager_due(c->manager, check_interval) || !check_interval;
    if (due) TL_TRY(tl_trainer_join(c->trainer));
    int64_t begin = tl_clock_ns();
    tli_peers_tell(c->peers, TL_WORLD_WRITES, c->trainer->global_step, "a checkpoint");
    tl_status found = tli_checkpoint_manager_outcome(c->manager, due); // of the one before
    tl_status before = tli_controller_forgive(c, found);
    if (found != TL_OK) c->saving = false; // there is nothing to be told
    if (found != TL_OK && before == TL_OK && !due) {
        try_later(c);
        return TL_OK;
    }
    tl_error error;
    if (before != TL_OK) tl_error_save(&error);
    tl_status st = save(c, check_interval && before == TL_OK, saved);
    c->away_s += (double)(tl_clock_ns() - begin) * 1e-9;
    if (before == TL_OK) return st;
    if (st != TL_OK) TL_LOG_ERROR("%s", tl_error_message());
    tl_error_restore(&error);
    return before;
}

static tl_status finish_save(tl_controller *c)
{
    if (!tli_checkpoint_manager_pending(c->manager)) return TL_OK;
    tli_peers_tell(c->peers, TL_WORLD_WRITES, c->trainer->global_step, "a checkpoint");
    tl_status st = tli_checkpoint_manager_finish(c->manager);
    c->peers->wrote = c->peers->all_wrote = false;
    if (tli_controller_follows(c)) return st;
    if (st == TL_OK) return tli_controller_tell_saved(c, false);
    c->saving = false; // there is nothing to be told
    try_later(c);
    return tli_controller_forgive(c, st);
}

tl_status tli_controller_finish_save(tl_controller *c, bool wait)
{
    if (!tli_controller_is_together(c)) return TL_OK;
    c->peers->wrote = tli_checkpoint_manager_wrote(c->manager);
    return wait || c->peers->all_wrote ? finish_save(c) : TL_OK;
}

tl_status tli_controller_save_together(tl_controller *c, bool check_interval)
{
    const int64_t step = c->trainer->global_step;
    const bool asked = c->save_at_end;
    uint64_t due = 0;
    if (!tli_controller_is_together(c)) return TL_OK;
    check_interval &= !asked;
    c->save_at_end = false;
    if (!tli_controller_follows(c) && (!check_interval || step >= c->again_at))
        due = tl_checkpoint_manager_due(c->manager, check_interval);
    TL_TRY(tli_peers_share_word(c->peers, &due));
    if (!due) return TL_OK;
    TL_TRY(finish_save(c)); // of the one before
    TL_TRY(tl_trainer_join(c->trainer));
    const int64_t begin = tl_clock_ns();
    tli_peers_tell(c->peers, TL_WORLD_WRITES, step, "a checkpoint");
    tl_status st = tli_controller_follows(c) ? tli_checkpoint_manager_follow(c->manager)
                                             : save(c, check_interval, NULL);
    if (st == TL_OK && !tli_checkpoint_manager_in_background(c->manager)) st = finish_save(c);
    if (asked) st = tli_controller_forgive(c, st);
    c->away_s += (double)(tl_clock_ns() - begin) * 1e-9;
    return st;
}

tl_status tl_controller_save_checkpoint(tl_controller *c, bool *saved)
{
    TL_TRY(tli_controller_require(c->manager, "checkpoint manager", "saving"));
    return tli_controller_save(c, false, saved);
}

/* --- evaluating ------------------------------------------------------------------------------- */

static tl_status tell_evaluation(tl_controller *c, int64_t steps, double seconds, tl_logs *logs)
{
    tl_str text = TL_STR_INIT;
    double rate = steps > 0 && seconds > 0 ? (double)steps / seconds : 0;
    char speed[48] = "";
    tl_status st = TL_OK;
    if (steps > 0) {
        snprintf(speed, sizeof speed, "steps/sec: % 6.1f | ", rate);
        st = tl_logs_put(logs, "steps_per_second", rate);
    }
    if (st == TL_OK) st = tli_logs_pretty(&text, logs);
    if (st == TL_OK)
        tli_controller_say(c, " eval | step: % 6" PRId64 " | %seval time: % 6.1f sec | output: %s",
                           c->evaluator->global_step, speed, seconds, tl_str_text(&text));
    tl_str_deinit(&text);
    if (st == TL_OK) st = tl_summary_manager_write(c->eval_summaries, logs);
    if (st == TL_OK) st = tl_summary_manager_flush(c->eval_summaries);
    return tli_controller_forgive(c, st);
}

static tl_status evaluate(tl_controller *c, int64_t steps, tl_logs *logs)
{
    int64_t step = c->evaluator->global_step;
    if (steps > 0)
        tli_controller_say(
            c, " eval | step: % 6" PRId64 " | running %" PRId64 " steps of evaluation...", step,
            steps);
    else
        tli_controller_say(c, " eval | step: % 6" PRId64 " | running complete evaluation...", step);
    TL_TRY(tli_hooks_before_eval(c));
    int64_t begin = tl_clock_ns();
    TL_TRY(tl_trainer_evaluate(c->evaluator, steps, logs));
    TL_TRY(tli_peers_share_logs(c->peers, logs));
    double seconds = (double)(tl_clock_ns() - begin) * 1e-9;
    TL_TRY(tli_hooks_after_eval(c, logs));
    TL_TRY(tli_peers_agree(c->peers));
    c->evaluated = step;
    c->evaluation_unsaved = true;
    return tell_evaluation(c, steps, seconds, logs);
}

static bool leave_evaluation(void *self, tl_trainer *t)
{
    (void)t;
    return !tli_controller_stopping(self);
}

tl_status tl_controller_evaluate(tl_controller *c, int64_t steps, tl_logs *logs)
{
    tl_logs *own = NULL;
    TL_TRY(tli_controller_require(c->evaluator, "evaluator", "evaluate"));
    if (steps < -1 || steps == 0)
        return TL_FAIL(TL_EINVAL,
                       "steps of the evaluation are %" PRId64
                       " and must be 1 or more, or -1 for all examples",
                       steps);
    TL_TRY(tli_controller_open_summaries(c));
    if (!logs) TL_TRY(tl_logs_new(&own));
    tl_trainer_watch watch = {.batch = leave_evaluation,
                              .self = c,
                              .due = INT64_MAX,
                              .wake = !c->given.heed_signals ? NULL
                                      : c->peers             ? &c->peers->signal
                                                             : &tli_signal};
    if (c->given.heed_signals) tli_controller_heed(c, "the evaluation is abandoned");
    tl_trainer_set_watch(c->evaluator, &watch);
    tl_status st = evaluate(c, steps, logs ? logs : own);
    tl_trainer_set_watch(c->evaluator,
                         c->last_step && c->evaluator == c->trainer ? &c->watch : NULL);
    if (c->given.heed_signals) tli_signals_end();
    tl_logs_free(&own);
    return st;
}

/* --- evaluating what appears ------------------------------------------------------------------ */

enum { POLL_MS = 250 };

static void rest(void)
{
    struct timespec t = {.tv_nsec = POLL_MS * 1000000L};
    nanosleep(&t, NULL);
}

/* The next checkpoint that is not `seen`; NULL when the time was up, or somebody asked to stop. */
static tl_status wait_for_checkpoint(const char **path, tl_controller *c, tl_arena *arena,
                                     const char *seen, double timeout_s)
{
    const char *dir = tl_checkpoint_manager_directory(c->manager);
    int64_t begin = tl_clock_ns();
    for (*path = NULL; !tli_controller_stopping(c); rest()) {
        TL_TRY(tl_checkpoint_latest_of_any(path, arena, dir));
        if (*path && strcmp(*path, seen) != 0) return TL_OK;
        *path = NULL;
        if (timeout_s < 0 || (double)(tl_clock_ns() - begin) * 1e-9 < timeout_s) continue;
        TL_LOG_INFO("no new checkpoint has appeared in '%s' for %g s: the evaluation ends", dir,
                    timeout_s);
        return TL_OK;
    }
    return TL_OK;
}

/* What is restored already, when the controller was made, is not restored again. */
static tl_status restore_newest(tl_controller *c, const char *newest, const char **path)
{
    bool there = c->newest.length && strcmp(tl_str_text(&c->newest), newest) == 0;
    *path = tl_str_text(&c->restored);
    tl_status st = there ? TL_OK : restore_usable(c, path);
    tl_str_cut(&c->newest, 0); // somebody may ask for it again, to see what has become of the file
    return st;
}

/* Evaluates what can be restored, unless that was evaluated already. What cannot is waited out: who
 * trains will save again, and keeps only the newest. */
static tl_status evaluate_newest(tl_controller *c, const char *newest, int64_t steps,
                                 tl_str *evaluated, tl_logs *logs)
{
    const char *path;
    tl_status st = restore_newest(c, newest, &path);
    if (st == TL_ENOTFOUND) {
        tl_error_clear();
        return TL_OK;
    }
    TL_TRY(st);
    if (!path || strcmp(path, tl_str_text(evaluated)) == 0) return TL_OK;
    tl_str_cut(evaluated, 0);
    tl_str_add(evaluated, path);
    TL_TRY(tl_str_status(evaluated));
    tli_controller_say(c, "restored model from %s.", path);
    if (logs) tl_logs_clear(logs);
    return tl_controller_evaluate(c, steps, logs);
}

static tl_status evaluate_all(tl_controller *c, int64_t steps, double timeout_s,
                              bool (*done)(void *payload), void *payload, tl_logs *logs)
{
    tl_str seen = TL_STR_INIT, evaluated = TL_STR_INIT;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = TL_OK;
    while (st == TL_OK && !tli_controller_stopping(c)) {
        const char *path;
        tl_arena_mark mark = tl_arena_begin(arena);
        st = wait_for_checkpoint(&path, c, arena, tl_str_text(&seen), timeout_s);
        if (st == TL_OK && path) {
            tl_str_cut(&seen, 0);
            tl_str_add(&seen, path);
            tli_controller_say(c, "restoring model from %s...", path);
            st = evaluate_newest(c, path, steps, &evaluated, logs);
        }
        tl_arena_end(arena, mark);
        if (st != TL_OK || !path || (done && done(payload))) break;
    }
    tl_str_deinit(&seen);
    tl_str_deinit(&evaluated);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_controller_evaluate_continuously(tl_controller *c, int64_t steps, double timeout_s,
                                              bool (*done)(void *payload), void *payload,
                                              tl_logs *logs)
{
    TL_TRY(tli_controller_require(c->evaluator, "evaluator", "evaluate_continuously"));
    TL_TRY(tli_controller_require(c->manager, "checkpoint manager", "evaluate_continuously"));
    if (c->given.heed_signals) tli_signals_begin("the evaluation is abandoned");
    tl_status st = evaluate_all(c, steps, timeout_s, done, payload, logs);
    if (st == TL_OK && c->given.heed_signals && tli_signal)
        st = TL_FAIL(TL_ESTOPPED, "%s ended the evaluation", tli_signal_name(tli_signal));
    if (c->given.heed_signals) tli_signals_end();
    return st;
}

/* --- asking ----------------------------------------------------------------------------------- */

void tl_controller_request_stop(tl_controller *c, const char *reason)
{
    if (__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) return;
    snprintf(c->reason, sizeof c->reason, "%s", reason ? reason : "someone asked");
    __atomic_store_n(&c->stop, 1, __ATOMIC_RELEASE);
    if (c->peers) __atomic_store_n(&c->peers->wants_stop, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&c->watch.due, 0, __ATOMIC_RELEASE);
}

const char *tl_controller_stop_reason(const tl_controller *c)
{
    if (__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) return c->reason;
    return c->peers && c->peers->stops ? "another process asked" : NULL;
}

tl_trainer *tl_controller_trainer(const tl_controller *c)
{
    return c->trainer;
}

tl_trainer *tl_controller_evaluator(const tl_controller *c)
{
    return c->evaluator;
}

int64_t tl_controller_step(const tl_controller *c)
{
    return (c->trainer ? c->trainer : c->evaluator)->global_step;
}

int64_t tl_controller_last_step(const tl_controller *c)
{
    return c->last_step;
}

tl_checkpoint_manager *tl_controller_manager(const tl_controller *c)
{
    return c->manager;
}

tl_event_storage *tl_controller_storage(const tl_controller *c)
{
    return c->storage;
}

double tl_controller_steps_per_second(const tl_controller *c)
{
    return c->steps_per_second;
}
