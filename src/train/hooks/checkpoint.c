#include <tilth/train/hooks/hooks.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "base/inner/file_io.h"
#include "base/inner/folder.h"
#include "train/controller/controller.h"
#include "train/run/metric_name.h"

/* --- second names ----------------------------------------------------------------------------- */

/* Checkpoints at the end of a loop are made when the loop has told its numbers: what it has summed
 * up is not told again after a resume. */
static bool ends_loop(const tl_controller *c)
{
    return c->trainer->global_step == c->loop_end;
}

static bool is_finished(const tl_controller *c)
{
    return c->trainer->global_step >= c->last_step;
}

static const char *file_in(tl_arena *arena, const tl_controller *c, const char *name,
                           const char *suffix)
{
    const char *file = tl_arena_printf(arena, "%s%s", name, suffix);
    return file ? tl_path_join(arena, tl_checkpoint_manager_directory(c->manager), file) : NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_of_step(const char *path, int64_t step)
{
    char end[64], index[64];
    snprintf(end, sizeof end, "-%" PRId64 TL_CHECKPOINT_SUFFIX, step);
    snprintf(index, sizeof index, "-%" PRId64 TL_SAFETENSORS_INDEX, step);
    return ends_with(path, end) || ends_with(path, index);
}

/* Processes save where all come by, behind the hooks of a step. */
static bool saves_with_all(const tl_controller *c)
{
    return tli_controller_is_together(c) || (c->in_step && tli_controller_is_apart(c));
}

/* The complete checkpoint of this step, made when it is not there. NULL: all are to make it, and
 * on_save tells of it. */
static tl_status save_now(const char **path, tl_controller *c)
{
    TL_TRY(tl_controller_save_checkpoint(c, NULL));
    if (!saves_with_all(c)) TL_TRY(tl_checkpoint_manager_sync(c->manager));
    tl_error_clear();
    const char *latest = tl_checkpoint_manager_latest(c->manager);
    // its name did not fit, it is there
    if (!latest && tl_error_code() == TL_ENOMEM) return TL_ENOMEM;
    *path = latest && is_of_step(latest, c->trainer->global_step) ? latest : NULL;
    if (*path || saves_with_all(c)) return TL_OK;
    return TL_FAIL(TL_ESTATE,
                   "step %" PRId64 " is not saved: the checkpoint manager has no interval",
                   c->trainer->global_step);
}

// For file systems without hard links.
static tl_status copy_file(const char *to, const char *from)
{
    tl_file_mapping mapping = TL_FILE_MAPPING_INIT;
    TL_TRY(tl_file_map(&mapping, from));
    tl_status st = tl_file_write_atomic(to, mapping.data, mapping.size);
    tl_file_unmap(&mapping);
    return st;
}

/* A file has a second name in its folder, which takes the place of what had it before in one
 * step. */
static tl_status name_file(const char *name, const char *file)
{
    const char *first, *second = tl_path_basename(name);
    char passing[300]; // is swept away with those of checkpoints
    int folder;
    TL_TRY(tli_folder_open_of(&folder, &first, file));
    snprintf(passing, sizeof passing, ".%.255s.%016" PRIx64 ".tmp", first, tli_random_bits());
    bool linked = linkat(folder, first, folder, passing, 0) == 0;
    int why = linked && renameat(folder, passing, folder, second) != 0 ? errno : 0;
    // still there when both were names of one file already
    if (linked) unlinkat(folder, passing, 0);
    close(folder);
    if (!linked) return copy_file(name, file);
    return why ? TL_FAIL(TL_EIO, "'%s' cannot be named '%s': %s", file, name, strerror(why))
               : TL_OK;
}

static tl_status name_as(const tl_controller *c, const char *name, const char *file)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *second = file_in(arena, c, name, TL_CHECKPOINT_SUFFIX);
    tl_status st = !second                                 ? TL_ENOMEM
                   : ends_with(file, TL_SAFETENSORS_INDEX) ? tl_checkpoint_merge(second, file)
                                                           : name_file(second, file);
    tl_arena_free(&arena);
    return st;
}

/* The checkpoint of this step; `*named`: it is there already. */
static tl_status save_as(tl_controller *c, const char *name, bool *named)
{
    const char *file;
    TL_TRY(save_now(&file, c));
    *named = file != NULL;
    return file ? name_as(c, name, file) : TL_OK;
}

static tl_status check_name(const tl_hook *h, const char *name)
{
    if (!strchr(name, '/')) return TL_OK;
    return TL_FAIL(
        TL_EINVAL,
        "the hook '%s' names a file in the folder of the checkpoints, and '%s' has a '/'", h->name,
        name);
}

static tl_status require_manager(const tl_hook *h)
{
    const tl_checkpoint_manager *m = tl_controller_manager(h->controller);
    if (m && tl_checkpoint_manager_interval(m) > 0) return TL_OK;
    return TL_FAIL(
        TL_ESTATE,
        "the hook '%s' needs a checkpoint manager with an interval, and the controller has none",
        h->name);
}

/* --- at a period ------------------------------------------------------------------------------ */

typedef tl_periodic_checkpointer_instance periodic;

static tl_status periodic_start(tl_hook *h, const void *config)
{
    const tl_periodic_checkpointer_config *given = config;
    periodic *p = (periodic *)h;
    h->started = true;
    if (given && given->final) TL_TRY(check_name(h, given->final));
    p->final = tl_arena_strdup(h->arena, given && given->final ? given->final : "model_final");
    return p->final ? TL_OK : TL_ENOMEM;
}

static void periodic_dispose(tl_hook *h)
{
    tl_str_deinit(&((periodic *)h)->saved);
}

static tl_status periodic_before_train(tl_hook *h)
{
    ((periodic *)h)->due = ((periodic *)h)->ends = false;
    return require_manager(h);
}

// Files are written in the background: the text must not name one that is not there yet.
static tl_status write_last(periodic *p)
{
    const char *file = tl_str_text(&p->saved), *name = tl_path_basename(file);
    if (!*file || !tl_file_exists(file)) return TL_OK;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *path = file_in(arena, p->base.controller, "last_checkpoint", "");
    size_t length = strlen(name);
    if (ends_with(name, TL_CHECKPOINT_SUFFIX)) length -= strlen(TL_CHECKPOINT_SUFFIX);
    else if (ends_with(name, TL_SAFETENSORS_INDEX)) length -= strlen(TL_SAFETENSORS_INDEX);
    tl_status st = path ? tl_file_write_atomic(path, name, length) : TL_ENOMEM;
    tl_arena_free(&arena);
    if (st == TL_OK) tl_str_cut(&p->saved, 0);
    return st;
}

static tl_status periodic_on_save(tl_hook *h, const char *path)
{
    periodic *p = (periodic *)h;
    TL_TRY(write_last(p));
    tl_str_cut(&p->saved, 0);
    tl_str_add(&p->saved, path);
    TL_TRY(tl_str_status(&p->saved));
    const bool final = p->ends && is_of_step(path, h->controller->last_step);
    if (final) TL_TRY(name_as(h->controller, p->final, path));
    p->ends &= !final;
    return write_last(p);
}

static tl_status periodic_after_step(tl_hook *h)
{
    periodic *p = (periodic *)h;
    TL_TRY(write_last(p));
    p->due = ends_loop(h->controller);
    return p->due ? TL_OK : tl_controller_save_checkpoint(h->controller, NULL);
}

static tl_status periodic_after_loop(tl_hook *h, tl_logs *logs)
{
    periodic *p = (periodic *)h;
    (void)logs;
    if (!p->due) return TL_OK;
    p->due = false;
    return tl_controller_save_checkpoint(h->controller, NULL);
}

/* The latest may be another one than was saved last: a training that blows up gives that up. */
static tl_status write_latest(periodic *p)
{
    tl_controller *c = p->base.controller;
    const char *latest = tl_checkpoint_manager_latest(c->manager);
    tl_str_cut(&p->saved, 0);
    if (latest) {
        tl_str_add(&p->saved, latest);
        TL_TRY(tl_str_status(&p->saved));
        return write_last(p);
    }
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *path = file_in(arena, c, "last_checkpoint", "");
    tl_status st = !path ? TL_ENOMEM : tl_file_exists(path) ? tl_file_remove(path) : TL_OK;
    tl_arena_free(&arena);
    return st;
}

static tl_status periodic_after_train(tl_hook *h)
{
    periodic *p = (periodic *)h;
    tl_controller *c = h->controller;
    if (!c->manager) return TL_OK;
    bool named = true;
    if (is_finished(c) && *p->final) TL_TRY(save_as(c, p->final, &named));
    p->ends = !named;
    TL_TRY(tl_checkpoint_manager_sync(c->manager));
    return write_latest(p);
}

const tl_hook_class tl_periodic_checkpointer_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "periodic_checkpointer",
            .size = sizeof(tl_periodic_checkpointer_instance),
            .help = "saves checkpoints at a period"},
    .start = periodic_start,
    .needs_start = true,
    .before_train = periodic_before_train,
    .after_train = periodic_after_train,
    .after_step = periodic_after_step,
    .after_loop = periodic_after_loop,
    .on_save = periodic_on_save,
    .dispose = periodic_dispose,
    .files = TL_HOOK_CHECKPOINTS,
};

/* --- the best --------------------------------------------------------------------------------- */

enum { LONGEST_JSON = 1 << 16 };

typedef tl_best_checkpointer_instance best;

static tl_status best_start(tl_hook *h, const void *config)
{
    const tl_best_checkpointer_config *given = config;
    best *b = (best *)h;
    h->started = true;
    if (!given || !given->metric || !*given->metric)
        return TL_FAIL(TL_EINVAL, "the hook '%s' needs a metric, and none is given", h->name);
    if (given->name) TL_TRY(check_name(h, given->name));
    b->metric = tl_arena_strdup(h->arena, given->metric);
    b->name = tl_arena_strdup(h->arena, given->name ? given->name : "model_best");
    b->comp = given->comp;
    return b->metric && b->name ? TL_OK : TL_ENOMEM;
}

/* Takes what an earlier process found, if it was the same metric and its checkpoint is there. */
static tl_status read_best(best *b, const char *path)
{
    char *text;
    size_t size;
    const char *metric;
    json_int_t iteration;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_JSON));
    json_error_t error;
    json_t *json = json_loadb(text, size, 0, &error);
    double value;
    if (json
        && json_unpack(json, "{s:s, s:F, s:I}", "metric", &metric, "value", &value, "iteration",
                       &iteration)
               == 0
        && strcmp(metric, b->metric) == 0) {
        b->known = true;
        b->value = value;
        b->iteration = iteration;
    } else {
        TL_LOG_WARNING("%s has no '%s': the search for the best checkpoint starts anew", path,
                       b->metric);
    }
    json_decref(json);
    tl_free(text);
    return TL_OK;
}

static tl_status best_before_train(tl_hook *h)
{
    best *b = (best *)h;
    tl_arena *arena;
    b->due = b->known = b->awaits = false;
    TL_TRY(require_manager(h));
    TL_TRY(tl_arena_new(&arena));
    const char *json = file_in(arena, h->controller, b->name, ".json");
    const char *file = file_in(arena, h->controller, b->name, TL_CHECKPOINT_SUFFIX);
    tl_status st = !json || !file ? TL_ENOMEM : TL_OK;
    if (st == TL_OK && tl_file_exists(json) && tl_file_exists(file)) st = read_best(b, json);
    tl_arena_free(&arena);
    return st;
}

static tl_status write_best(const best *b)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *path = file_in(arena, b->base.controller, b->name, ".json");
    json_t *json = json_pack("{s:s, s:f, s:I}", "metric", b->metric, "value", b->value, "iteration",
                             (json_int_t)b->iteration);
    char *text = json ? json_dumps(json, JSON_INDENT(4) | JSON_REAL_PRECISION(17)) : NULL;
    tl_status st = !path ? TL_ENOMEM : TL_OK;
    if (st == TL_OK && !text)
        st = TL_FAIL(TL_EINVAL,
                     "'%s' cannot be written as JSON: it is no UTF-8, or there is no memory",
                     b->metric);
    if (st == TL_OK) st = tl_file_write_atomic(path, text, strlen(text));
    free(text);
    json_decref(json);
    tl_arena_free(&arena);
    return st;
}

/* The checkpoint of what was found has the name. */
static tl_status take(best *b)
{
    if (b->known)
        TL_LOG_INFO("Saved best model as latest eval score for %s is %.5f, better than last best "
                    "score %.5f @ iteration %" PRId64 ".",
                    b->metric, b->found.value, b->value, b->iteration);
    else
        TL_LOG_INFO("Saved first model at %.5f @ %" PRId64 " steps", b->found.value,
                    b->found.iteration);
    b->known = true;
    b->awaits = false;
    b->value = b->found.value;
    b->iteration = b->found.iteration;
    return write_best(b);
}

static tl_status best_on_save(tl_hook *h, const char *path)
{
    best *b = (best *)h;
    if (!b->awaits || !is_of_step(path, b->found.step)) return TL_OK;
    TL_TRY(name_as(h->controller, b->name, path));
    return take(b);
}

static tl_status look(best *b)
{
    tl_controller *c = b->base.controller;
    tl_event_storage *s = tl_controller_storage(c);
    tl_event_latest now;
    const tl_history *history;
    bool named;
    TL_TRY(tl_event_storage_history(&history, s, b->metric));
    if (!history || !tl_history_count(history)) {
        TL_LOG_WARNING("there is no metric '%s' yet: no checkpoint is the best", b->metric);
        return TL_OK;
    }
    TL_TRY(tl_event_storage_latest(&now, s, b->metric));
    if (!c->saving) b->awaits = false; // it could not be written
    const bool known = b->awaits || b->known;
    const double value = b->awaits ? b->found.value : b->value;
    if (known ? !tli_metric_is_better(b->comp, now.value, value) : !isfinite(now.value)) {
        if (known)
            TL_LOG_INFO("Not saving as latest eval score for %s is %.5f, not better than best "
                        "score %.5f @ iteration %" PRId64 ".",
                        b->metric, now.value, value, b->awaits ? b->found.iteration : b->iteration);
        else TL_LOG_WARNING("%s is %g: no checkpoint is the best", b->metric, now.value);
        return TL_OK;
    }
    TL_TRY(save_as(c, b->name, &named));
    b->awaits = !named;
    b->found.step = c->trainer->global_step;
    b->found.value = now.value;
    b->found.iteration = now.iteration;
    return named ? take(b) : TL_OK;
}

static tl_status best_after_step(tl_hook *h)
{
    best *b = (best *)h;
    if (is_finished(h->controller)) return TL_OK;
    b->due = ends_loop(h->controller);
    return b->due ? TL_OK : look(b);
}

static tl_status best_after_loop(tl_hook *h, tl_logs *logs)
{
    best *b = (best *)h;
    (void)logs;
    if (!b->due) return TL_OK;
    b->due = false;
    return look(b);
}

static tl_status best_after_train(tl_hook *h)
{
    return is_finished(h->controller) ? look((best *)h) : TL_OK;
}

const tl_hook_class tl_best_checkpointer_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "best_checkpointer",
            .size = sizeof(tl_best_checkpointer_instance),
            .help = "keeps the checkpoint with the best metric"},
    .start = best_start,
    .needs_start = true,
    .before_train = best_before_train,
    .after_train = best_after_train,
    .after_step = best_after_step,
    .after_loop = best_after_loop,
    .on_save = best_on_save,
    .files = TL_HOOK_CHECKPOINTS,
};
