#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "base/inner/folder.h"
#include "io/inner/checkpoint_manager.h"

enum { MOST_TOLD = 10 };

struct tl_checkpoint_manager {
    tl_checkpoint_manager_args args; /* its strings are in the arena */
    tl_arena *arena;
    tli_checkpoint_list list; /* the saver's while it works */
    tli_checkpoint_saver *saver;
    bool swept; /* what killed processes left is gone */
    /* Where the next boundary is counted from. `before` is brought back when a save fails. */
    struct place {
        int64_t base;  /* a multiple of the interval beyond this step is due */
        bool is_saved; /* step `saved` has a file */
        int64_t saved;
    } at, before;
    double since;      /* when the last one was saved, or tried, or restored */
    int64_t timed;     /* the step that has a file by time; -1: none has */
    int64_t first_own; /* the lowest step that this manager has saved */
    tl_str path;       /* handed out */
};

/* --- making ----------------------------------------------------------------------------------- */

static tl_status check_args(const tl_checkpoint_manager_args *a)
{
    TL_ASSERT(a->state && a->step);
    if (!a->directory || !*a->directory)
        return TL_FAIL(TL_EINVAL, "checkpoints need a directory, and none is given");
    if (a->name && (!*a->name || strchr(a->name, '/')))
        return TL_FAIL(TL_EINVAL, "'%s' is no name of checkpoints: it is empty or has a '/'",
                       a->name);
    if (a->interval < 0)
        return TL_FAIL(TL_EINVAL,
                       "the interval of checkpoints is %" PRId64 " and must not be negative",
                       a->interval);
    if (a->max_to_keep.set && a->max_to_keep.value < 1)
        return TL_FAIL(TL_EINVAL,
                       "max_to_keep is %" PRId64 "; at least 1 checkpoint is kept (not set: all)",
                       a->max_to_keep.value);
    if (a->files < 0 || a->files > TLI_CHECKPOINT_MOST_FILES)
        return TL_FAIL(TL_EINVAL, "a checkpoint has from 1 to %d files, not %" PRId64,
                       TLI_CHECKPOINT_MOST_FILES, a->files);
    if (!(a->minutes >= 0) || isinf(a->minutes))
        return TL_FAIL(TL_EINVAL,
                       "the minutes between checkpoints are %g and must be a number from 0 on",
                       a->minutes);
    if (!(a->keep_every_n_hours >= 0) || isinf(a->keep_every_n_hours))
        return TL_FAIL(TL_EINVAL, "keep_every_n_hours is %g and must be a number from 0 on",
                       a->keep_every_n_hours);
    return TL_OK;
}

static tl_status copy_string(const char **text, tl_arena *arena)
{
    if (!*text) return TL_OK;
    *text = tl_arena_strdup(arena, *text);
    return *text ? TL_OK : TL_ENOMEM;
}

static tl_status copy_args(tl_checkpoint_manager *m, const tl_checkpoint_manager_args *args)
{
    m->args = *args;
    if (!m->args.name) m->args.name = TLI_CHECKPOINT_USUAL_NAME;
    TL_TRY(copy_string(&m->args.directory, m->arena));
    TL_TRY(copy_string(&m->args.name, m->arena));
    TL_TRY(copy_string(&m->args.optional, m->arena));
    TL_TRY(copy_string(&m->args.explained, m->arena));
    TL_TRY(copy_string(&m->args.explanation, m->arena));
    return copy_string(&m->args.numerics, m->arena);
}

tl_status tl_checkpoint_manager_new(tl_checkpoint_manager **out,
                                    const tl_checkpoint_manager_args *args)
{
    tl_status st;
    *out = NULL;
    TL_TRY(check_args(args));
    tl_checkpoint_manager *m = tl_alloc_zero(sizeof *m);
    if (!m) return TL_FAIL_NOMEM(sizeof *m);
    TL_TRY_DONE(st, tl_arena_new(&m->arena));
    TL_TRY_DONE(st, copy_args(m, args));
    const tl_checkpoint_manager_args *a = &m->args;
    m->since = tli_checkpoint_clock();
    m->timed = -1;
    m->first_own = INT64_MAX;
    if (a->anew) m->list.preserved = m->since - 1;
    else TL_TRY_DONE(st, tli_checkpoint_folder_list(&m->list, a->directory, a->name));
    const tli_checkpoint_saver_args saving = {
        .directory = a->directory,
        .name = a->name,
        .max_to_keep = a->max_to_keep,
        .keep_every_n_hours = a->keep_every_n_hours,
        .background = a->background,
        .files = a->files,
        .list = &m->list,
        .group = a->group,
        .part = a->part,
        .payload = a->payload,
        .optional = a->optional,
        .explained = a->explained,
    };
    TL_TRY_DONE(st, tli_checkpoint_saver_new(&m->saver, &saving));
    *out = m;
    m = NULL;
done:
    tl_checkpoint_manager_free(&m);
    return st;
}

void tl_checkpoint_manager_free(tl_checkpoint_manager **manager)
{
    tl_checkpoint_manager *m = *manager;
    if (!m) return;
    if (m->saver && tli_checkpoint_saver_outcome(m->saver, true) != TL_OK)
        TL_LOG_ERROR("%s", tl_error_message());
    tli_checkpoint_saver_free(&m->saver);
    tli_checkpoint_list_deinit(&m->list);
    tl_str_deinit(&m->path);
    tl_arena_free(&m->arena);
    tl_free(m);
    *manager = NULL;
}

const char *tl_checkpoint_manager_directory(const tl_checkpoint_manager *m)
{
    return m->args.directory;
}

int64_t tl_checkpoint_manager_interval(const tl_checkpoint_manager *m)
{
    return m->args.interval;
}

bool tl_checkpoint_manager_keeps_time(const tl_checkpoint_manager *m)
{
    return m->args.interval > 0 && m->args.minutes > 0;
}

/* --- saving ----------------------------------------------------------------------------------- */

// The file of an item of the list, in m->path.
static const char *hand_out(tl_checkpoint_manager *m, const char *item)
{
    tl_arena *arena = NULL;
    tli_checkpoint_place place;
    tl_status st = tl_arena_new(&arena);
    if (st == TL_OK) st = tli_checkpoint_find_item(&place, arena, m->args.directory, item);
    tl_str_cut(&m->path, 0);
    if (st == TL_OK) tl_str_add(&m->path, place.path);
    if (st == TL_OK) st = tl_str_status(&m->path);
    tl_arena_free(&arena);
    return st == TL_OK ? tl_str_text(&m->path) : NULL;
}

tl_status tli_checkpoint_manager_outcome(tl_checkpoint_manager *m, bool wait)
{
    tl_status st = tli_checkpoint_saver_outcome(m->saver, wait);
    if (st != TL_OK) m->at = m->before;
    return st;
}

void tli_checkpoint_manager_outdate(tl_checkpoint_manager *m)
{
    m->at.is_saved = false;
}

// Steps that went back without a restore count from here: what lies behind is not due again.
static bool is_due(tl_checkpoint_manager *m, bool check_interval)
{
    const int64_t step = *m->args.step, interval = m->args.interval;
    if (interval == 0 || (m->at.is_saved && m->at.saved == step)) return false;
    if (!check_interval) return true;
    if (step < m->at.base) m->at.base = step > 0 ? step - 1 : 0;
    return step / interval > m->at.base / interval;
}

static bool is_due_by_time(tl_checkpoint_manager *m)
{
    const int64_t step = *m->args.step;
    if (!tl_checkpoint_manager_keeps_time(m) || m->timed == step
        || (m->at.is_saved && m->at.saved == step))
        return false;
    double now = tli_checkpoint_clock();
    if (now < m->since) m->since = now; // the clock was set
    return now - m->since >= m->args.minutes * 60;
}

bool tl_checkpoint_manager_due(tl_checkpoint_manager *m, bool check_interval)
{
    return is_due(m, check_interval) || (check_interval && is_due_by_time(m));
}

#define CHOICES_NOTE "choices"

/* With the notes of the caller, and what was chosen by now. */
static tl_status save(tl_checkpoint_manager *m, int64_t step, bool timed)
{
    const int64_t given = m->args.note_count;
    tl_str chosen = TL_STR_INIT;
    tl_safetensors_note *notes = tl_alloc((size_t)(given + 1) * sizeof *notes);
    if (!notes) return TL_FAIL_NOMEM((size_t)(given + 1) * sizeof *notes);
    tl_checkpoint_info info = {.numerics = m->args.numerics, .notes = notes, .note_count = given};
    if (given) memcpy(notes, m->args.notes, (size_t)given * sizeof *notes);
    tl_status st = m->args.choices ? m->args.choices(m->args.payload, &chosen) : TL_OK;
    if (st == TL_OK) st = tl_str_status(&chosen);
    if (chosen.length)
        notes[info.note_count++] = (tl_safetensors_note){CHOICES_NOTE, tl_str_text(&chosen)};
    if (st == TL_OK) st = tli_checkpoint_saver_save(m->saver, m->args.state, step, timed, &info);
    else if (tli_checkpoint_manager_is_together(m)) st = tli_checkpoint_saver_lead(m->saver, st);
    tl_str_deinit(&chosen);
    tl_free(notes);
    return st;
}

tl_status tl_checkpoint_manager_save(tl_checkpoint_manager *m, bool check_interval,
                                     const char **path)
{
    const int64_t step = *m->args.step;
    if (path) *path = NULL;
    TL_TRY(tli_checkpoint_manager_outcome(m, false));
    bool timed = !is_due(m, check_interval);
    if (timed && !(check_interval && is_due_by_time(m))) return TL_OK;
    TL_TRY(tli_checkpoint_manager_outcome(m, true));
    if (!m->swept) tli_checkpoint_folder_sweep(m->args.directory, m->args.name);
    m->swept = true;
    m->since = tli_checkpoint_clock();
    m->before = m->at;
    TL_TRY(save(m, step, timed));
    m->timed = timed ? step : -1;
    if (step < m->first_own) m->first_own = step;
    if (!timed) m->at = (struct place){.base = step, .is_saved = true, .saved = step};
    if (path) *path = tli_checkpoint_saver_path(m->saver);
    return TL_OK;
}

tl_status tl_checkpoint_manager_sync(tl_checkpoint_manager *m)
{
    return tli_checkpoint_manager_outcome(m, true);
}

const char *tl_checkpoint_manager_saved(tl_checkpoint_manager *m, bool wait)
{
    if (wait) tli_checkpoint_saver_wait(m->saver);
    return tli_checkpoint_saver_is_done(m->saver) ? tli_checkpoint_saver_path(m->saver) : NULL;
}

/* --- together --------------------------------------------------------------------------------- */

bool tli_checkpoint_manager_is_together(const tl_checkpoint_manager *m)
{
    return m->args.group && m->args.files > 1;
}

tl_status tli_checkpoint_manager_follow(tl_checkpoint_manager *m)
{
    return tli_checkpoint_saver_follow(m->saver, m->args.state);
}

bool tli_checkpoint_manager_in_background(const tl_checkpoint_manager *m)
{
    return m->args.background;
}

bool tli_checkpoint_manager_pending(const tl_checkpoint_manager *m)
{
    return tli_checkpoint_saver_pending(m->saver);
}

bool tli_checkpoint_manager_wrote(tl_checkpoint_manager *m)
{
    return tli_checkpoint_saver_wrote(m->saver);
}

tl_status tli_checkpoint_manager_finish(tl_checkpoint_manager *m)
{
    tl_status st = tli_checkpoint_saver_finish(m->saver);
    if (st != TL_OK) m->at = m->before;
    return st;
}

/* --- what leads nowhere ----------------------------------------------------------------------- */

int64_t tli_checkpoint_manager_own_latest(tl_checkpoint_manager *m)
{
    tli_checkpoint_saver_wait(m->saver);
    const char *dash = m->list.latest ? strrchr(m->list.latest, '-') : NULL;
    if (!dash || dash[1] < '0' || dash[1] > '9') return -1;
    char *end;
    long long step = strtoll(dash + 1, &end, 10);
    return *end || step < m->first_own ? -1 : step;
}

bool tli_checkpoint_manager_has_earlier(tl_checkpoint_manager *m)
{
    tli_checkpoint_saver_wait(m->saver);
    return m->list.count > 1;
}

// Without any the state file goes too.
static tl_status write_list(const tl_checkpoint_manager *m, const tli_checkpoint_list *list)
{
    tl_arena *arena;
    if (list->latest) return tli_checkpoint_list_write(list, m->args.directory);
    TL_TRY(tl_arena_new(&arena));
    const char *file = tl_path_join(arena, m->args.directory, TLI_CHECKPOINT_LIST_NAME);
    tl_status st = file ? tl_file_remove(file) : TL_ENOMEM;
    tl_arena_free(&arena);
    return st;
}

static tl_status list_without_latest(tli_checkpoint_list *out, const tli_checkpoint_list *l)
{
    TL_TRY(tli_checkpoint_list_copy(out, l));
    tli_checkpoint_list_remove(out, l->latest);
    tl_status st =
        tli_checkpoint_list_set_latest(out, out->count ? out->items[out->count - 1].path : NULL);
    if (st != TL_OK) tli_checkpoint_list_deinit(out);
    return st;
}

tl_status tli_checkpoint_manager_give_up(tl_checkpoint_manager *m, const char *suffix,
                                         const char **aside, tl_arena *arena)
{
    tli_checkpoint_list next;
    tli_checkpoint_place place;
    tli_checkpoint_saver_wait(m->saver);
    TL_TRY(tli_checkpoint_find_item(&place, arena, m->args.directory, m->list.latest));
    if (!(*aside = tl_arena_printf(arena, "%s.%s", place.path, suffix))) return TL_ENOMEM;
    if (!tli_checkpoint_is_own(m->list.latest, m->args.name))
        return TL_FAIL(TL_ESTATE,
                       "'%s' is not renamed: it is no checkpoint that this run has saved",
                       place.path);
    TL_TRY(list_without_latest(&next, &m->list));
    tl_status st = write_list(m, &next);
    if (st == TL_OK) st = tli_rename_beside(place.path, tl_path_basename(*aside));
    if (st != TL_OK) {
        tli_checkpoint_list_deinit(&next);
        return st;
    }
    if (tli_safetensors_is_index(place.path))
        tli_checkpoint_rename_pieces(m->args.directory, m->list.latest, suffix);
    tli_checkpoint_list_deinit(&m->list);
    m->list = next;
    m->at.is_saved = false;
    m->timed = -1;
    return TL_OK;
}

/* --- restoring -------------------------------------------------------------------------------- */

// The step that was restored is where things go on, whatever becomes of an older save.
static void arrive(tl_checkpoint_manager *m, bool is_saved)
{
    m->at = (struct place){.base = *m->args.step, .is_saved = is_saved, .saved = *m->args.step};
    m->before = m->at;
    m->since = tli_checkpoint_clock();
    m->timed = -1;
}

static tl_status restore_from(tl_checkpoint_manager *m, const tl_checkpoint *c)
{
    tl_state_report report = {0};
    const char *chosen = tl_checkpoint_note(c, CHOICES_NOTE);
    if (m->args.choose && chosen)
        TL_TRY_NOTE(m->args.choose(m->args.payload, chosen), "'%s'",
                    tl_safetensors_path(tl_checkpoint_file(c)));
    if (m->args.before_restore)
        TL_TRY_NOTE(m->args.before_restore(m->args.payload, tl_checkpoint_state(c)), "'%s'",
                    tl_safetensors_path(tl_checkpoint_file(c)));
    tl_status st =
        tli_checkpoint_restore(m->args.state, c,
                               &(tl_checkpoint_restore_args){.optional = m->args.optional,
                                                             .explained = m->args.explained,
                                                             .explanation = m->args.explanation,
                                                             .numerics = m->args.numerics},
                               &report);
    tl_state_report_deinit(&report);
    return st;
}

// A checkpoint that was given up, kept under another name.
static void put_aside(const tl_checkpoint_manager *m, const char *file, tl_arena *arena)
{
    static const char suffix[] = "damaged";
    const char *aside = tl_arena_printf(arena, "%s.%s", file, suffix);
    const char *name = tl_path_basename(file), *item = NULL;
    if (tli_safetensors_is_index(file))
        item = tl_arena_strndup(arena, name, strlen(name) - strlen(TL_SAFETENSORS_INDEX));
    if (item) tli_checkpoint_rename_pieces(m->args.directory, item, suffix);
    if (!aside || tli_rename_beside(file, tl_path_basename(aside)) != TL_OK)
        TL_LOG_WARNING("the damaged checkpoint stays where it is: %s", tl_error_message());
    else TL_LOG_ERROR("the damaged checkpoint is kept as '%s'", aside);
}

/* The search for a checkpoint that can be used, from the latest to the oldest. */
typedef struct search {
    tl_checkpoint *c;        /* NULL: none yet, or `file` is the prefix of a bundle */
    const char *item, *file; /* what was found */
    bool *bad;               /* items of the list that were given up, by their index */
    const char **damaged;    /* files of ours among them */
    int64_t bad_count, damaged_count;
    tl_arena *arena;
} search;

/* Where many are gone, each is not worth a line. */
static void tell_bad(search *s, const char *item)
{
    if (++s->bad_count <= MOST_TOLD)
        TL_LOG_ERROR("the checkpoint '%s' cannot be used: %s", item, tl_error_message());
    if (s->bad_count == MOST_TOLD) TL_LOG_ERROR("more that cannot be used are not told of");
}

// Bundles are somebody else's, and so is what the list names but we did not write: such a one is
// left alone.
static tl_status try_item(search *s, const tl_checkpoint_manager *m, const char *item, bool *bad)
{
    *bad = false;
    bool damaged = false;
    tli_checkpoint_place p;
    TL_TRY(tli_checkpoint_find_item(&p, s->arena, m->args.directory, item));
    if (p.bundle && !m->args.restore_bundle)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s' is a TensorBundle, and this run cannot go on from one", p.path);
    tl_status st =
        !p.there
            ? TL_FAIL(TL_ENOTFOUND, "there is neither '%s' nor a TensorBundle of that name", p.path)
        : p.bundle ? tli_checkpoint_verify_bundle(p.path)
                   : tli_checkpoint_open(&s->c, p.path, false, &damaged);
    if (st == TL_OK) {
        s->item = item;
        s->file = p.path;
        return TL_OK;
    }
    if (st != TL_ENOTFOUND && !damaged && !(p.bundle && st == TL_EINVAL)) return st;
    tell_bad(s, item);
    *bad = true;
    if (damaged && tli_checkpoint_is_own(item, m->args.name))
        s->damaged[s->damaged_count++] = p.path;
    return TL_OK;
}

static tl_status find_usable(search *s, const tl_checkpoint_manager *m)
{
    const tli_checkpoint_list *l = &m->list;
    s->bad = tl_arena_array(s->arena, l->count + 1, sizeof *s->bad);
    s->damaged = tl_arena_array(s->arena, l->count + 1, sizeof *s->damaged);
    if (!s->bad || !s->damaged) return TL_ENOMEM;
    bool latest_is_bad;
    TL_TRY(try_item(s, m, l->latest, &latest_is_bad));
    for (int64_t i = l->count - 1; i >= 0; i--) {
        bool same = strcmp(l->items[i].path, l->latest) == 0;
        s->bad[i] = same && latest_is_bad;
        if (!same && !s->file) TL_TRY(try_item(s, m, l->items[i].path, &s->bad[i]));
    }
    if (s->file) return TL_OK;
    tl_error_note(TL_EINVAL,
                  "no checkpoint in '%s' can be used (remove '%s/" TLI_CHECKPOINT_LIST_NAME
                  "' to start from the beginning); the last one tried",
                  m->args.directory, m->args.directory);
    return TL_EINVAL;
}

// What could not be used is taken out of the list; the state file then names what was restored.
static tl_status forget_bad(tl_checkpoint_manager *m, const search *s)
{
    tli_checkpoint_list next;
    if (!s->bad_count) return TL_OK;
    for (int64_t i = 0; i < s->damaged_count && !m->args.read_only; i++)
        put_aside(m, s->damaged[i], s->arena);
    TL_LOG_ERROR("going on from '%s' instead", s->file);
    TL_TRY(tli_checkpoint_list_copy(&next, &m->list));
    for (int64_t i = 0; i < next.count; i++)
        if (s->bad[i]) tli_checkpoint_list_drop(&next, i);
    tli_checkpoint_list_pack(&next);
    tl_status st = tli_checkpoint_list_set_latest(&next, s->item);
    if (st != TL_OK) {
        tli_checkpoint_list_deinit(&next);
        return st;
    }
    tli_checkpoint_list before = m->list;
    m->list = next;
    // A reader of somebody else's directory may not be allowed to write, and need not.
    if (!m->args.read_only && tli_checkpoint_list_write(&m->list, m->args.directory) != TL_OK)
        TL_LOG_WARNING("the state file stays as it is: %s", tl_error_message());
    tli_checkpoint_list_deinit(&before);
    return TL_OK;
}

// *ours: it was no bundle.
static tl_status restore_latest(tl_checkpoint_manager *m, bool *ours)
{
    search s = {0};
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&s.arena));
    TL_TRY_DONE(st, find_usable(&s, m));
    TL_TRY_DONE(st, s.c ? restore_from(m, s.c) : m->args.restore_bundle(m->args.payload, s.file));
    *ours = s.c != NULL;
    st = forget_bad(m, &s);
done:
    tl_checkpoint_free(&s.c);
    tl_arena_free(&s.arena);
    return st;
}

tl_status tl_checkpoint_manager_restore_or_initialize(tl_checkpoint_manager *m, const char **path)
{
    if (path) *path = NULL;
    tli_checkpoint_saver_wait(m->saver);
    if (!m->list.latest) return m->args.init ? m->args.init(m->args.payload) : TL_OK;
    bool ours;
    TL_TRY(restore_latest(m, &ours));
    arrive(m, ours && !tli_checkpoint_is_timed(m->list.latest, m->args.name));
    if (path && !(*path = hand_out(m, m->list.latest))) return TL_ENOMEM;
    return TL_OK;
}

tl_status tl_checkpoint_manager_restore(tl_checkpoint_manager *m, const char *path)
{
    tl_arena *arena = NULL;
    tl_checkpoint *c = NULL;
    const char *file = NULL, *latest = NULL;
    bool bundle = false;
    tl_status st;
    tli_checkpoint_saver_wait(m->saver);
    if (m->list.latest && !(latest = hand_out(m, m->list.latest))) return TL_ENOMEM;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, m->args.restore_bundle ? tl_checkpoint_locate(&file, &bundle, arena, path)
                                           : tl_checkpoint_resolve(&file, arena, path));
    if (!bundle) TL_TRY_DONE(st, tl_checkpoint_open(&c, file));
    TL_TRY_DONE(st, bundle ? m->args.restore_bundle(m->args.payload, file) : restore_from(m, c));
    arrive(m, !bundle && latest && strcmp(latest, file) == 0
                  && !tli_checkpoint_is_timed(m->list.latest, m->args.name));
done:
    tl_checkpoint_free(&c);
    tl_arena_free(&arena);
    return st;
}

/* --- asking ----------------------------------------------------------------------------------- */

const char *tl_checkpoint_manager_latest(tl_checkpoint_manager *m)
{
    tli_checkpoint_saver_wait(m->saver);
    return m->list.latest ? hand_out(m, m->list.latest) : NULL;
}

tl_status tl_checkpoint_manager_list(tl_path_list *out, tl_checkpoint_manager *m, tl_arena *arena)
{
    tli_checkpoint_saver_wait(m->saver);
    const char **files = tl_arena_array(arena, m->list.count, sizeof *files);
    *out = (tl_path_list){files, 0};
    if (!files) return TL_ENOMEM;
    for (int64_t i = 0; i < m->list.count; i++) {
        tli_checkpoint_place p;
        TL_TRY(tli_checkpoint_find_item(&p, arena, m->args.directory, m->list.items[i].path));
        files[i] = p.path;
    }
    out->count = m->list.count;
    return TL_OK;
}

static tl_status add_candidate(tl_path_list *out, tl_arena *arena, const char *directory,
                               const char *item)
{
    tli_checkpoint_place p;
    TL_TRY(tli_checkpoint_find_item(&p, arena, directory, item));
    out->items[out->count++] = p.path;
    return TL_OK;
}

tl_status tl_checkpoint_manager_candidates(tl_path_list *out, const tl_checkpoint_manager *m,
                                           tl_arena *arena)
{
    const char *directory = m->args.directory;
    tli_checkpoint_list l;
    tl_status st = TL_OK;
    *out = (tl_path_list){NULL, 0};
    TL_TRY(tli_checkpoint_folder_list(&l, directory, m->args.name));
    out->items = tl_arena_array(arena, l.count + 1, sizeof *out->items);
    if (!out->items) st = TL_ENOMEM;
    if (st == TL_OK && l.latest) st = add_candidate(out, arena, directory, l.latest);
    for (int64_t i = l.count - 1; i >= 0 && st == TL_OK; i--)
        if (!l.latest || strcmp(l.items[i].path, l.latest) != 0)
            st = add_candidate(out, arena, directory, l.items[i].path);
    tli_checkpoint_list_deinit(&l);
    return st;
}
