#include "train/run/continuous.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/io/tensorflow/tensorbundle.h>
#include <tilth/train/run/finished.h>

#include "io/inner/json_text.h"
#include "train/controller/signals.h"

#define MARKER "pretraining.json"
#define STEP "global_step"
#define SPEED "steps_per_second" /* of the machine, not of the model */

enum { POLL_MS = 250, LONGEST_MARKER = 1 << 16, INDENT = 4 };

/* A checkpoint of the pre-training. */
typedef struct source {
    char *path; /* NULL: none */
    int64_t step;
} source;

typedef struct rounds {
    tl_logs *logs;
    const tl_registry *registry;
    const tl_run_args *run;
    const char *watched, *folder;
    double timeout_s; /* below 0: none */
    int64_t until;    /* step of the pre-training; 0: not known */
    tli_run_folder held;
    source begun; /* what the marker says */
    int64_t count, reached;
} rounds;

static void source_deinit(source *s)
{
    tl_free(s->path);
    *s = (source){0};
}

static tl_status source_set(source *s, const char *path, int64_t step)
{
    source_deinit(s);
    s->step = step;
    s->path = tl_strdup(path);
    return s->path ? TL_OK : TL_FAIL_NOMEM(strlen(path) + 1);
}

/* --- the step of a checkpoint ----------------------------------------------------------------- */

static tl_status bundle_step(int64_t *out, const char *prefix)
{
    static const char name[] = STEP TL_TENSORBUNDLE_VALUE;
    tl_tensorbundle *b;
    const void *at;
    TL_TRY(tl_tensorbundle_open(&b, prefix));
    const tl_tensorbundle_entry *e = tl_tensorbundle_find(b, name);
    tl_status st = TL_OK;
    if (!e || e->rank != 0 || (e->dtype != TL_I64 && e->dtype != TL_I32) || !e->readable)
        st = TL_FAIL(TL_EINVAL, "'%s' holds no number '" STEP "'", prefix);
    if (st == TL_OK) st = tl_tensorbundle_borrow(&at, b, e);
    if (st == TL_OK && e->dtype == TL_I64) {
        memcpy(out, at, sizeof *out);
    } else if (st == TL_OK) {
        int32_t small;
        memcpy(&small, at, sizeof small);
        *out = small;
    }
    tl_tensorbundle_free(&b);
    return st;
}

static tl_status file_step(int64_t *out, const char *path)
{
    tl_checkpoint *c;
    tl_state_entry e;
    TL_TRY(tl_checkpoint_open(&c, path));
    tl_status st = TL_OK;
    if (tl_state_find(&e, tl_checkpoint_state(c), STEP) && e.kind == TL_STATE_INT) *out = e.i;
    else st = TL_FAIL(TL_EINVAL, "'%s' holds no number '" STEP "'", path);
    tl_checkpoint_free(&c);
    return st;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_bundle(const char *path)
{
    return !ends_with(path, TL_CHECKPOINT_SUFFIX) && !ends_with(path, TL_SAFETENSORS_INDEX);
}

static tl_status read_step(int64_t *out, const char *path)
{
    TL_TRY(is_bundle(path) ? bundle_step(out, path) : file_step(out, path));
    if (*out >= 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s': '" STEP "' is %" PRId64, path, *out);
}

/* --- files of the folder ---------------------------------------------------------------------- */

static bool is_done(const rounds *r, int64_t step)
{
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/metrics-%" PRId64 ".json", r->folder, step);
    bool done = tl_str_status(&path) == TL_OK && tl_file_exists(tl_str_text(&path));
    tl_str_deinit(&path);
    return done;
}

/* Those of a round: ckpt-* and the text that lists them. */
static tl_status remove_checkpoints(const rounds *r)
{
    tl_path_list files;
    tl_arena *arena;
    if (!tl_dir_exists(r->folder)) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_dir_list(&files, arena, r->folder);
    for (int64_t i = 0; st == TL_OK && i < files.count; i++) {
        const char *name = tl_path_basename(files.items[i]);
        if (strncmp(name, "ckpt-", 5) == 0 || strcmp(name, "checkpoint") == 0)
            st = tl_file_remove(files.items[i]);
    }
    tl_arena_free(&arena);
    return st;
}

static tl_status has_checkpoint(bool *out, const char *folder)
{
    const char *latest = NULL;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st =
        tl_dir_exists(folder) ? tl_checkpoint_latest_of_any(&latest, arena, folder) : TL_OK;
    *out = latest != NULL;
    tl_arena_free(&arena);
    return st;
}

static tl_status parse_marker(source *out, const char *path, const char *text, size_t size)
{
    json_error_t error;
    const char *checkpoint = NULL;
    json_int_t step = -1;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    tl_status st = TL_OK;
    if (!json || json_unpack(json, "{s:s, s:I}", "checkpoint", &checkpoint, "step", &step) != 0
        || step < 0)
        st = TL_FAIL(TL_EINVAL,
                     "%s: not understood; remove it, and the checkpoints beside it, to have the "
                     "fine-tuning begin again",
                     path);
    if (st == TL_OK) st = source_set(out, checkpoint, step);
    json_decref(json);
    return st;
}

static tl_status read_marker(rounds *r)
{
    char *text;
    size_t size;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *path = tl_path_join(arena, r->folder, MARKER);
    tl_status st = path ? TL_OK : TL_ENOMEM;
    if (path && tl_file_exists(path)) {
        st = tl_file_read(&text, &size, path, LONGEST_MARKER);
        if (st == TL_OK) {
            st = parse_marker(&r->begun, path, text, size);
            tl_free(text);
        }
    }
    tl_arena_free(&arena);
    return st;
}

static tl_status write_text(const char *folder, const char *name, const tl_str *text)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *path = tl_path_join(arena, folder, name);
    tl_status st = path ? tl_str_status(text) : TL_ENOMEM;
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(text), text->length);
    tl_arena_free(&arena);
    return st;
}

static tl_status write_marker(const rounds *r)
{
    tl_str text = TL_STR_INIT;
    tli_json j = {.out = &text, .indent = INDENT};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "checkpoint", r->begun.path);
    tli_json_int(&j, "step", r->begun.step);
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    tl_status st = write_text(r->folder, MARKER, &text);
    tl_str_deinit(&text);
    return st;
}

/* --- what a round has come to ----------------------------------------------------------------- */

/* "task-accuracy" for task/accuracy. */
static void add_path(tl_str *out, const char *path)
{
    for (; *path; path++) tl_str_addc(out, *path == '/' ? '-' : *path);
}

static bool is_told(const tl_logs_entry *e)
{
    return e->kind == TL_LOGS_NUMBER && strcmp(e->name, SPEED) != 0;
}

static tl_status add_metric(const tl_logs_entry *e, void *payload)
{
    tli_json *j = payload;
    tl_str name = TL_STR_INIT;
    double number;
    char value[32];
    if (!is_told(e)) return TL_OK;
    TL_TRY(tl_logs_entry_number(&number, e));
    add_path(&name, e->name);
    tl_double_text(value, number);
    tl_status st = tl_str_status(&name);
    if (st == TL_OK) tli_json_text(j, tl_str_text(&name), value); // a text, as in the original
    tl_str_deinit(&name);
    return st;
}

static tl_status write_metrics(const rounds *r, const tl_logs *logs)
{
    tl_str text = TL_STR_INIT;
    char name[64];
    tli_json j = {.out = &text, .indent = INDENT};
    snprintf(name, sizeof name, "metrics-%" PRId64 ".json", r->begun.step);
    tli_json_begin(&j, NULL, '{');
    tl_status st = tl_logs_walk(logs, add_metric, &j);
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    if (st == TL_OK) st = write_text(r->folder, name, &text);
    tl_str_deinit(&text);
    return st;
}

typedef struct summaries {
    tl_logs *into;
    const char *group;
} summaries;

static tl_status add_summary(const tl_logs_entry *e, void *payload)
{
    summaries *s = payload;
    tl_str tag = TL_STR_INIT;
    double number;
    if (!is_told(e)) return TL_OK;
    TL_TRY(tl_logs_entry_number(&number, e));
    tl_str_addf(&tag, "%s/", s->group);
    add_path(&tag, e->name);
    tl_status st = tl_str_status(&tag);
    if (st == TL_OK) st = tl_logs_put(s->into, tl_str_text(&tag), number);
    tl_str_deinit(&tag);
    return st;
}

/* "run_sentence_prediction" of runs/run/. */
static tl_status name_group(tl_str *out, const rounds *r)
{
    const tl_task_config *config = r->run->params->task.value;
    const tl_task_class *cls;
    TL_TRY(tl_get_task_class(&cls, r->registry, &r->run->params->task));
    size_t length = strlen(r->folder);
    while (length > 1 && r->folder[length - 1] == '/') length--;
    size_t from = length;
    while (from > 0 && r->folder[from - 1] != '/') from--;
    tl_str_addf(out, "%.*s_%s", (int)(length - from), r->folder + from,
                config->name && *config->name ? config->name : cls->cls.name);
    return tl_str_status(out);
}

/* Below eval/, by the step of the pre-training. A round that was resumed may have written them
 * before it was killed. */
static tl_status write_summaries(const rounds *r, const tl_logs *logs, bool again)
{
    tl_str group = TL_STR_INIT;
    tl_summary_manager *m = NULL;
    summaries s = {0};
    tl_arena *arena;
    tl_status st;
    TL_TRY(tl_arena_new(&arena));
    const char *dir = tl_path_join(arena, r->folder, "eval");
    tl_summary_manager_args args = {
        .dir = dir, .step = &r->begun.step, .keep_to = {again, r->begun.step - 1}};
    if (!dir) st = TL_ENOMEM;
    else st = name_group(&group, r);
    s.group = tl_str_text(&group);
    if (st == TL_OK) st = tl_logs_new(&s.into);
    if (st == TL_OK) st = tl_logs_walk(logs, add_summary, &s);
    if (st == TL_OK) st = tl_summary_manager_new(&m, &tl_summary_manager_scalars, &args);
    if (st == TL_OK) st = tl_summary_manager_write(m, s.into);
    if (st == TL_OK) st = tl_summary_manager_sync(m);
    tl_summary_manager_free(&m);
    tl_logs_free(&s.into);
    tl_str_deinit(&group);
    tl_arena_free(&arena);
    return st;
}

/* --- a round ---------------------------------------------------------------------------------- */

/* All is accepted, and nothing is saved yet. */
static tl_status note_round(tl_controller *c, void *self)
{
    (void)c;
    return write_marker(self);
}

/* The experiment that begins from this checkpoint. */
static tl_status change(tl_config *c, const rounds *r)
{
    tl_arena *arena = tl_config_arena(c);
    tl_experiment_config *e = tl_config_edit(c);
    tl_task_config *task = e->task.value;
    tl_trainer_config *trainer = e->trainer.value;
    const char *best = trainer->best_checkpoint_export_subdir;
    task->init_checkpoint = tl_arena_strdup(arena, r->begun.path);
    if (!task->init_checkpoint) return TL_ENOMEM;
    if (!best || !*best) return TL_OK;
    trainer->best_checkpoint_export_subdir =
        tl_arena_printf(arena, "%s_%" PRId64, best, r->begun.step);
    return trainer->best_checkpoint_export_subdir ? TL_OK : TL_ENOMEM;
}

static tl_status make_params(tl_config **out, const rounds *r)
{
    TL_TRY(tl_config_new(out, r->registry, &tl_experiment_config_desc));
    TL_TRY(tl_desc_copy(tl_config_arena(*out), &tl_experiment_config_desc, tl_config_edit(*out),
                        r->run->params));
    TL_TRY(change(*out, r));
    return tl_config_finish(*out);
}

static tl_status train_round(rounds *r)
{
    tl_run_args run = *r->run;
    tl_config *config = NULL;
    tl_hooks hooks = {0};
    tl_hook *marking = NULL;
    tl_status st;
    TL_TRY_DONE(st, make_params(&config, r));
    TL_TRY_DONE(st, tl_hook_from_callbacks(&marking,
                                           &(tl_callbacks){.before_train = note_round, .self = r},
                                           &(tl_hook_args){.name = "continuous"}));
    const int64_t count = run.hook_count + 1;
    if (!(hooks.items = tl_alloc((size_t)count * sizeof *hooks.items))) {
        st = TL_FAIL_NOMEM(count * 8);
        goto done;
    }
    hooks.items[0] = marking;
    for (int64_t i = 1; i < count; i++) hooks.items[i] = run.hooks[i - 1];
    run.params = tl_config_value(config);
    run.hooks = hooks.items;
    run.hook_count = count;
    run.mode = "train_and_eval";
    run.run_post_eval = true;
    run.without_summaries = true;
    if (run.keep_nothing) run.hooks++, run.hook_count--;
    st = tli_launch_run(r->logs, &run, r->registry, &r->held, NULL);
done:
    tl_free(hooks.items);
    tl_hook_free(&marking);
    tl_config_free(&config);
    return st;
}

static tl_status finish_round(rounds *r, bool resumed)
{
    TL_TRY(write_summaries(r, r->logs, resumed));
    TL_TRY(write_metrics(r, r->logs));
    TL_LOG_INFO("pre-training step %" PRId64 ": fine-tuned, see %s/metrics-%" PRId64 ".json",
                r->begun.step, r->folder, r->begun.step);
    r->count++;
    return remove_checkpoints(r);
}

static bool is_there(const char *path)
{
    tl_arena *arena;
    const char *found;
    bool bundle;
    tl_error before;
    tl_error_save(&before);
    if (tl_arena_new(&arena) != TL_OK) return true;
    bool there = tl_checkpoint_locate(&found, &bundle, arena, path) != TL_ENOTFOUND;
    tl_arena_free(&arena);
    tl_error_restore(&before);
    return there;
}

/* One that is gone, and not needed by anything that could go on, is passed over. */
static tl_status do_round(rounds *r, bool resumed)
{
    bool goes_on = false;
    TL_LOG_INFO("%s with pre-training step %" PRId64 ", %s", resumed ? "going on" : "beginning",
                r->begun.step, r->begun.path);
    tl_logs_clear(r->logs);
    tl_status st = train_round(r);
    if (st == TL_OK) {
        r->reached = r->begun.step;
        return r->run->keep_nothing ? TL_OK : finish_round(r, resumed);
    }
    if (st != TL_ENOTFOUND || is_there(r->begun.path)) return st;
    tl_error why;
    tl_error_save(&why);
    TL_TRY(has_checkpoint(&goes_on, r->folder));
    tl_error_restore(&why);
    if (goes_on) return st;
    TL_LOG_WARNING("pre-training step %" PRId64 " is passed over, its checkpoint is gone: %s",
                   r->begun.step, r->begun.path);
    tl_error_clear();
    return TL_OK;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* The latest checkpoint when it is another one than `seen` and can be read; NULL otherwise. */
static tl_status look(const char **path, int64_t *step, const rounds *r, tl_arena *arena,
                      const char *seen)
{
    *path = NULL;
    if (!tl_dir_exists(r->watched)) return TL_OK;
    TL_TRY(tl_checkpoint_latest_of_any(path, arena, r->watched));
    if (*path && seen && strcmp(*path, seen) == 0) *path = NULL;
    return *path ? read_step(step, *path) : TL_OK;
}

static void rest(void)
{
    struct timespec t = {.tv_nsec = POLL_MS * 1000000L};
    nanosleep(&t, NULL);
}

/* Whether to give up after the timeout; below the last step of the pre-training the original waits
 * on. */
static bool gives_up(const rounds *r, int64_t *begin)
{
    if (r->timeout_s < 0 || (double)(tl_clock_ns() - *begin) * 1e-9 < r->timeout_s) return false;
    TL_LOG_INFO("no new checkpoint has appeared in '%s' for %g s%s", r->watched, r->timeout_s,
                r->reached < r->until ? "; the pre-training has not reached pretrain_steps" : "");
    *begin = tl_clock_ns();
    return r->reached >= r->until;
}

/* The next one that is not done; its path is NULL when the time is up, or a signal came. */
static tl_status wait_for_source(source *next, const rounds *r, char **seen)
{
    int64_t begin = tl_clock_ns(), step = -1;
    tl_arena *arena;
    tl_status st = TL_OK;
    TL_TRY(tl_arena_new(&arena));
    for (source_deinit(next); st == TL_OK && !tli_signal; rest()) {
        const char *path;
        tl_arena_mark mark = tl_arena_begin(arena);
        st = look(&path, &step, r, arena, *seen);
        if (path && (st == TL_EINVAL || st == TL_ENOTFOUND)) {
            TL_LOG_WARNING("%s; the next checkpoint is waited for", tl_error_message());
            tl_error_clear();
            st = TL_OK;
            step = -1;
        }
        if (st == TL_OK && path) {
            tl_free(*seen);
            if (!(*seen = tl_strdup(path))) st = TL_FAIL_NOMEM(strlen(path) + 1);
            if (st == TL_OK && step >= 0 && !is_done(r, step)) st = source_set(next, path, step);
            else if (st == TL_OK && step >= 0)
                TL_LOG_INFO("pre-training step %" PRId64 " has been fine-tuned already", step);
        }
        tl_arena_end(arena, mark);
        if (next->path || r->run->keep_nothing || (!path && gives_up(r, &begin))) break;
    }
    tl_arena_free(&arena);
    return st;
}

/* --- all of them ------------------------------------------------------------------------------ */

static tl_status any_done(bool *out, const rounds *r)
{
    tl_path_list files = {0};
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_dir_exists(r->folder) ? tl_dir_list(&files, arena, r->folder) : TL_OK;
    *out = false;
    for (int64_t i = 0; st == TL_OK && i < files.count; i++)
        *out |= strncmp(tl_path_basename(files.items[i]), "metrics-", 8) == 0;
    tl_arena_free(&arena);
    return st;
}

static tl_status check_something(const rounds *r)
{
    bool done = false;
    TL_TRY(any_done(&done, r));
    if (r->count || (done && !r->run->keep_nothing)) return TL_OK;
    return TL_FAIL(TL_ENOTFOUND,
                   "there was nothing to fine-tune: no checkpoint %s in '%s' (task.init_checkpoint"
                   "; trainer.continuous_eval_timeout says how long to wait)",
                   r->run->keep_nothing ? "is" : "has appeared", r->watched);
}

static tl_status run_rounds(rounds *r)
{
    source next = {0};
    char *seen = NULL;
    tl_status st = TL_OK;
    while (st == TL_OK) {
        if (r->run->heed_signals) tli_signals_begin("the waiting ends");
        st = wait_for_source(&next, r, &seen);
        const int signal = tli_signal;
        if (r->run->heed_signals) tli_signals_end();
        if (st == TL_OK && signal)
            st = TL_FAIL(TL_ESTOPPED, "%s ended the waiting", tli_signal_name(signal));
        if (st != TL_OK || !next.path) break;
        source_deinit(&r->begun);
        r->begun = next;
        next = (source){0};
        if (!r->run->keep_nothing) st = remove_checkpoints(r);
        if (st == TL_OK) st = do_round(r, false);
        if (st != TL_OK || r->run->keep_nothing || (r->until && r->reached >= r->until)) break;
    }
    source_deinit(&next);
    tl_free(seen);
    return st == TL_OK && !(r->run->keep_nothing && r->reached) ? check_something(r) : st;
}

/* What is left of a process that was ended: a round that is not done, or files of one that is. */
static tl_status go_on(rounds *r)
{
    bool trained;
    TL_TRY(read_marker(r));
    TL_TRY(has_checkpoint(&trained, r->folder));
    if (!r->begun.path && trained)
        return TL_FAIL(TL_EEXISTS,
                       "'%s' holds the checkpoints of another run, which " TLI_CONTINUOUS_MODE
                       " would delete: name another folder",
                       r->folder);
    if (!r->begun.path) return TL_OK;
    r->reached = is_done(r, r->begun.step) ? r->begun.step : 0;
    if (is_done(r, r->begun.step)) return remove_checkpoints(r);
    return do_round(r, true);
}

static tl_status check_watched(const char *path)
{
    tl_file_info info;
    if (!path || !*path)
        return TL_FAIL(TL_EINVAL,
                       "task.init_checkpoint is not set: for " TLI_CONTINUOUS_MODE
                       " it is the folder in which a pre-training saves its checkpoints");
    TL_TRY(tl_file_stat(&info, path));
    if (!info.exists || info.is_dir) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "task.init_checkpoint: '%s' is a file; " TLI_CONTINUOUS_MODE
                   " watches the folder in which a pre-training saves its checkpoints",
                   path);
}

tl_status tli_launch_rounds(tl_logs *logs, const tl_run_args *run, const tl_launch_args *args)
{
    const tl_task_config *task = run->params->task.value;
    const tl_trainer_config *trainer = run->params->trainer.value;
    const tl_opt_int timeout = trainer->continuous_eval_timeout;
    rounds r = {.registry = args->registry,
                .run = run,
                .watched = task->init_checkpoint,
                .folder = run->model_dir,
                .timeout_s = timeout.set ? (double)timeout.value : -1,
                .until = args->flags->pretrain_steps};
    tl_status st;
    TL_TRY(check_watched(r.watched));
    TL_TRY(tl_logs_new(&r.logs));
    if (!run->keep_nothing) TL_TRY_DONE(st, tli_run_folder_claim(&r.held, r.folder));
    TL_TRY_DONE(st, tl_folder_check_experiment(r.folder, run->experiment));
    if (!run->keep_nothing) TL_TRY_DONE(st, go_on(&r));
    if (!r.until || r.reached < r.until || !r.reached) TL_TRY_DONE(st, run_rounds(&r));
    st = logs ? tl_logs_merge(logs, r.logs) : TL_OK;
done:
    source_deinit(&r.begun);
    tli_run_folder_leave(&r.held);
    tl_logs_free(&r.logs);
    return st;
}
