#include <tilth/train/writers/metrics_file.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/log.h>

#include "base/inner/file_io.h"
#include "base/inner/folder.h"
#include "io/inner/append.h"
#include "io/inner/json_lines.h"
#include "io/inner/json_text.h"
#include "train/controller/controller.h"
#include "train/run/notify.h"

typedef struct metrics_file {
    tl_hook base;
    const char *path, *dir, *experiment, *mode;
    tli_notify *notify; /* NULL: nobody is told */
    tli_append *file;   /* of a run that trains; NULL: not open */
    tl_str line;
    const char *event; /* of the line */
    tl_str restored;   /* the checkpoint that was; "": none */
    tl_str saved;      /* one that is being written; "": none */
    int64_t begun;     /* when, on the clock of tl_clock_ns */
    bool started;
    int64_t from; /* the step that was begun or gone back to */
    int64_t told; /* the step of the last line `train`; -1: none */
    /* the last step that was evaluated, of lines that trainings have left; -1: none */
    int64_t evaluated;
} metrics_file;

static tl_status start(tl_hook *h, const void *config)
{
    metrics_file *m = (metrics_file *)h;
    const tl_metrics_file_config *given = config;
    if (!given || !given->dir || !*given->dir)
        return TL_FAIL(TL_EINVAL,
                       "the hook '%s' needs a folder for " TL_METRICS_FILE ", and none is given",
                       h->name);
    m->dir = tl_arena_strdup(h->arena, given->dir);
    m->path = tl_path_join(h->arena, given->dir, TL_METRICS_FILE);
    m->mode = tl_arena_strdup(h->arena, given->mode ? given->mode : "train");
    if (given->experiment) m->experiment = tl_arena_strdup(h->arena, given->experiment);
    m->told = m->evaluated = -1;
    if (given->notify && *given->notify)
        TL_TRY(tli_notify_new(&m->notify, given->notify, given->dir));
    return m->dir && m->path && m->mode && (m->experiment || !given->experiment) ? TL_OK
                                                                                 : TL_ENOMEM;
}

static void dispose(tl_hook *h)
{
    metrics_file *m = (metrics_file *)h;
    tli_notify_free(&m->notify);
    if (tli_append_close(&m->file) != TL_OK) TL_LOG_WARNING("%s", tl_error_message());
    tl_str_deinit(&m->line);
    tl_str_deinit(&m->restored);
    tl_str_deinit(&m->saved);
}

/* --- taking back ------------------------------------------------------------------------------ */

typedef struct rewinding {
    metrics_file *m;
    int64_t keep_to; /* later lines go */
    bool evaluation; /* or the evaluation of exactly this step does */
} rewinding;

static bool stays(const char *line, const char *end, void *payload)
{
    static const char *const events[] = {"train", "summary", "checkpoint", "evaluation"};
    const rewinding *r = payload;
    int64_t step;
    int kind = 0;
    if (!tli_json_line_int(&step, line, end, "step")) return true;
    while (kind < TL_COUNT(events) && !tli_json_line_is(line, end, "event", events[kind])) kind++;
    bool evaluation = kind == TL_COUNT(events) - 1;
    bool keep = r->evaluation ? !evaluation || step != r->keep_to
                              : kind == TL_COUNT(events) || step <= r->keep_to;
    if (keep && evaluation && step > r->m->evaluated) r->m->evaluated = step;
    return keep;
}

static tl_status take_back(metrics_file *m, int64_t keep_to, bool evaluation)
{
    rewinding r = {m, keep_to, evaluation};
    m->evaluated = -1;
    TL_TRY(tli_append_close(&m->file));
    TL_TRY(tli_make_folder_of(m->path));
    return tli_json_lines_mend(m->path, stays, &r);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_time(tli_json *j)
{
    struct timespec now;
    struct tm utc;
    char text[40] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + strlen(text), sizeof text - strlen(text), ".%03ldZ", now.tv_nsec / 1000000);
    tli_json_text(j, "time", text);
}

static tli_json open_line(tl_str *line, const char *event, int64_t step)
{
    tli_json j = {.out = line};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "event", event);
    tli_json_int(&j, "step", step);
    add_time(&j);
    return j;
}

static tl_status close_line(tli_json *j)
{
    tli_json_end(j, '}');
    tl_str_addc(j->out, '\n');
    return tl_str_status(j->out);
}

static tli_json begin_line(metrics_file *m, const char *event, int64_t step)
{
    m->event = event;
    m->line.failed = false;
    tl_str_cut(&m->line, 0);
    return open_line(&m->line, event, step);
}

static bool trains(const metrics_file *m)
{
    return m->base.controller->trainer != NULL;
}

/* Who trains keeps the file open. Who evaluates does not: the run that it belongs to may exchange
 * the file. */
static tl_status end_line(metrics_file *m, tli_json *j)
{
    TL_TRY(close_line(j));
    if (m->notify) tli_notify_send(m->notify, m->event, m->line.data, m->line.length);
    if (!m->file) TL_TRY(tli_append_open(&m->file, m->path, false, false));
    tl_status st = tli_append_record(m->file, m->line.data, m->line.length);
    if (st == TL_OK) st = tli_append_sync(m->file, true);
    if (trains(m)) return st;
    tl_status closed = tli_append_close(&m->file);
    return st == TL_OK ? closed : st;
}

static tl_status add_metric(const tl_logs_entry *e, void *payload)
{
    double value;
    if (e->kind != TL_LOGS_NUMBER) return TL_OK;
    TL_TRY(tl_logs_entry_number(&value, e));
    tli_json_number(payload, e->name, value);
    return TL_OK;
}

static tl_status add_metrics(tli_json *j, const tl_logs *logs)
{
    tli_json_begin(j, "metrics", '{');
    TL_TRY(tl_logs_walk(logs, add_metric, j));
    tli_json_end(j, '}');
    return TL_OK;
}

static tl_status write_metrics(metrics_file *m, const char *event, const tl_logs *logs)
{
    tli_json j = begin_line(m, event, tl_controller_step(m->base.controller));
    TL_TRY(add_metrics(&j, logs));
    return end_line(m, &j);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* The number in ".../ckpt-STEP.safetensors". */
static int64_t step_of(const metrics_file *m, const char *path)
{
    const char *dash = strrchr(path, '-');
    char *end = NULL;
    long long step = dash ? strtoll(dash + 1, &end, 10) : -1;
    bool is_step = dash && end != dash + 1 && (*end == '.' || !*end) && step >= 0;
    return is_step ? step : tl_controller_step(m->base.controller);
}

/* Files may be written in the background: what is told is there. */
static tl_status tell_saved(metrics_file *m)
{
    const char *path = tl_str_text(&m->saved);
    if (!*path || !tl_file_exists(path)) return TL_OK;
    tli_json j = begin_line(m, "checkpoint", step_of(m, path));
    tli_json_text(&j, "path", path);
    tl_str_cut(&m->saved, 0);
    return end_line(m, &j);
}

static tl_status on_save(tl_hook *h, const char *path)
{
    metrics_file *m = (metrics_file *)h;
    if (!m->started) return TL_OK;
    TL_TRY(tell_saved(m));
    tl_str_cut(&m->saved, 0);
    tl_str_add(&m->saved, path);
    TL_TRY(tl_str_status(&m->saved));
    return tell_saved(m);
}

static tl_status on_restore(tl_hook *h, const char *path)
{
    metrics_file *m = (metrics_file *)h;
    int64_t step = tl_controller_step(h->controller);
    tl_str_cut(&m->restored, 0);
    tl_str_add(&m->restored, path ? path : "");
    TL_TRY(tl_str_status(&m->restored));
    if (!m->started || !trains(m)) return TL_OK;
    m->from = step;
    if (m->told > step) m->told = step;
    return take_back(m, step, false);
}

/* --- the run ---------------------------------------------------------------------------------- */

static tl_status write_start(metrics_file *m)
{
    const tl_controller *c = m->base.controller;
    const char *from = tl_str_text(&m->restored);
    if (m->started) return TL_OK;
    m->begun = tl_clock_ns();
    m->from = tl_controller_step(c);
    m->told = -1;
    m->started = true;
    if (trains(m)) TL_TRY(take_back(m, m->from, false));
    else TL_TRY(tli_make_folder_of(m->path));
    tli_json j = begin_line(m, "start", m->from);
    tli_json_text(&j, "experiment", m->experiment);
    tli_json_text(&j, "mode", m->mode);
    if (c->trainer) tli_json_int(&j, "seed", (int64_t)c->trainer->seed);
    tli_json_text(&j, "resumed_from", c->trainer && *from ? from : NULL);
    return end_line(m, &j);
}

static tl_status before_train(tl_hook *h)
{
    return write_start((metrics_file *)h);
}

static tl_status before_eval(tl_hook *h)
{
    return write_start((metrics_file *)h);
}

static tl_status on_summary(tl_hook *h, const tl_logs *logs)
{
    return write_metrics((metrics_file *)h, "summary", logs);
}

static tl_status after_loop(tl_hook *h, tl_logs *logs)
{
    metrics_file *m = (metrics_file *)h;
    int64_t step = tl_controller_step(h->controller);
    if (step <= m->from) return TL_OK; // another hook went back: this loop was not
    TL_TRY(tell_saved(m));
    tli_json j = begin_line(m, "train", step);
    TL_TRY(add_metrics(&j, logs));
    tli_json_number(&j, "steps_per_second", tl_controller_steps_per_second(h->controller));
    m->told = step;
    return end_line(m, &j);
}

/* A checkpoint lies before the evaluation of its step, so a run that goes on from it may evaluate
 * that once more. */
static tl_status after_eval(tl_hook *h, tl_logs *logs)
{
    metrics_file *m = (metrics_file *)h;
    int64_t step = tl_controller_step(h->controller);
    TL_TRY(tell_saved(m));
    if (trains(m) && step == m->evaluated) TL_TRY(take_back(m, step, true));
    m->evaluated = step;
    return write_metrics(m, "evaluation", logs);
}

const tl_hook_class tl_metrics_file_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "metrics_file",
            .size = sizeof(metrics_file),
            .help = "writes " TL_METRICS_FILE ", a JSON object an event"},
    .start = start,
    .before_train = before_train,
    .after_loop = after_loop,
    .before_eval = before_eval,
    .after_eval = after_eval,
    .on_save = on_save,
    .dispose = dispose,
    .files = TL_HOOK_FILES,
    .on_summary = on_summary,
    .on_restore = on_restore,
};

/* --- at steps --------------------------------------------------------------------------------- */

/* What was put at this step; what evaluations have put lies at another, or has its own line. */
static tl_status add_storage(tli_json *j, tl_event_storage *s, int64_t iteration, double *seconds)
{
    tli_json_begin(j, "metrics", '{');
    for (int64_t i = 0; i < tl_event_storage_count(s); i++) {
        tl_event_latest latest;
        TL_TRY(tl_event_storage_smoothed_at(&latest, s, i, TL_EVENT_WINDOW));
        if (latest.iteration != iteration) continue;
        tli_json_number(j, latest.name, latest.value);
        if (strcmp(latest.name, "time") == 0) *seconds = latest.value;
    }
    tli_json_end(j, '}');
    return TL_OK;
}

static tl_status tell_step(tl_hook *h)
{
    metrics_file *m = (metrics_file *)h;
    int64_t step = tl_controller_step(h->controller);
    double seconds = 0;
    if (step <= m->from || step == m->told) return TL_OK;
    TL_TRY(tell_saved(m));
    tli_json j = begin_line(m, "train", step);
    TL_TRY(add_storage(&j, tl_controller_storage(h->controller), step - 1, &seconds));
    // null while nothing was timed
    tli_json_number(&j, "steps_per_second", seconds > 0 ? 1 / seconds : NAN);
    m->told = step;
    return end_line(m, &j);
}

/* The last steps may be less than a period. */
static tl_status tell_last_step(tl_hook *h)
{
    const tl_controller *c = h->controller;
    return c->trainer->global_step == c->last_step ? tell_step(h) : TL_OK;
}

static tl_status tell_no_loop(tl_hook *h, tl_logs *logs)
{
    (void)logs;
    return tell_last_step(h);
}

const tl_hook_class tl_metrics_file_steps_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "metrics_file",
            .base = &tl_metrics_file_hook.cls,
            .size = sizeof(metrics_file),
            .help = "writes " TL_METRICS_FILE ", with a line every few steps"},
    .after_step = tell_step,
    .after_loop = tell_no_loop,
};

/* --- the end ---------------------------------------------------------------------------------- */

static tl_status write_end(metrics_file *m, tl_status status, const char *message)
{
    const tl_controller *c = m->base.controller;
    const char *why = tl_controller_stop_reason(c);
    tl_str reason = TL_STR_INIT;
    TL_TRY(tell_saved(m));
    if (status == TL_OK && why) tl_str_addf(&reason, "stopped: %s", why);
    else tl_str_add(&reason, status == TL_OK ? "done" : status == TL_ESTOPPED ? "signal" : "error");
    tli_json j = begin_line(m, "end", tl_controller_step(c));
    tli_json_text(&j, "mode", m->mode);
    tli_json_text(&j, "reason", tl_str_text(&reason));
    if (status != TL_OK) tli_json_text(&j, "message", message);
    tli_json_number(&j, "seconds", (double)(tl_clock_ns() - m->begun) * 1e-9);
    tl_str_deinit(&reason);
    TL_TRY(end_line(m, &j));
    m->started = false;
    return tli_append_close(&m->file);
}

void tl_metrics_file_end(tl_hook *h, tl_status status)
{
    metrics_file *m = (metrics_file *)h;
    tl_error error;
    if (!h->controller || !m->started) return;
    tl_error_save(&error);
    if (write_end(m, status, error.text) != TL_OK)
        TL_LOG_WARNING("the end of the run could not be written: %s", tl_error_message());
    tl_error_restore(&error);
}

/* --- evaluations that are no run's ------------------------------------------------------------ */

/* A process that was killed may have left half a line. */
static bool ends_amid_a_line(int fd, off_t size)
{
    char last;
    return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

/* In one write: who trains there adds lines too. Of one that was cut, as the disk is full, nothing
 * stays, unless somebody came behind it. */
static tl_status write_whole(int fd, const char *path, const char *text, size_t size)
{
    struct stat info;
    if (fstat(fd, &info) == 0 && ends_amid_a_line(fd, info.st_size) && write(fd, "\n", 1) != 1)
        return TLI_FAIL_SYSTEM(errno, "write", path);
    ssize_t written = write(fd, text, size);
    if (written == (ssize_t)size) return TL_OK;
    int why = written < 0 ? errno : ENOSPC;
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (written > 0 && end >= written && fstat(fd, &info) == 0 && info.st_size == end)
        (void)!ftruncate(fd, end - written);
    return TLI_FAIL_SYSTEM(why, "write", path);
}

/* Runs of others, and what is kept for good, may be looked at: there is nothing to add to. */
static tl_status add_text(const char *path, const tl_str *text)
{
    struct stat info;
    int fd;
    bool denied;
    tl_status st = tli_open_own(
        &fd, &info, path, &(tli_open_args){.read_back = true, .append = true, .denied = &denied});
    if (st != TL_OK && denied) {
        tl_error_clear();
        return TL_OK;
    }
    TL_TRY(st);
    st = write_whole(fd, path, text->data, text->length);
    if (close(fd) != 0 && st == TL_OK) st = TLI_FAIL_SYSTEM(errno, "close", path);
    return st;
}

static tl_status add_evaluation(const char *dir, int64_t step, const tl_logs *logs)
{
    tl_arena *arena;
    tl_str line = TL_STR_INIT;
    TL_TRY(tl_arena_new(&arena));
    const char *path = tl_path_join(arena, dir, TL_METRICS_FILE);
    tli_json j = open_line(&line, "evaluation", step);
    tl_status st = path ? add_metrics(&j, logs) : TL_ENOMEM;
    if (st == TL_OK) st = close_line(&j);
    if (st == TL_OK) st = add_text(path, &line);
    tl_str_deinit(&line);
    tl_arena_free(&arena);
    return st;
}

void tl_metrics_file_evaluated(const char *dir, int64_t step, const tl_logs *logs)
{
    tl_error error;
    tl_error_save(&error);
    if (add_evaluation(dir, step, logs) != TL_OK)
        TL_LOG_WARNING("the evaluation could not be noted: %s", tl_error_message());
    tl_error_restore(&error);
}
