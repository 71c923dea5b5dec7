#include <tilth/train/run/initialize.h>

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "train/run/fit.h"

/* --- where weights come from ------------------------------------------------------------------ */

typedef struct source {
    const char *file;
    tl_state *loaded;         /* what is in it, when it is no file of ours */
    const tl_own_config *own; /* NULL: nothing is said of single weights */
} source;

static tl_status find_part_of(const tl_state **out, const source *from, const char *part)
{
    tl_state_entry e;
    *out = from->loaded;
    if (!part) return TL_OK;
    TL_TRY_NOTE(tl_state_get(&e, from->loaded, part, TL_STATE_STATE), "'%s'", from->file);
    *out = e.state;
    return TL_OK;
}

/* As tl_checkpoint_restore does it. */
static tl_status restore_loaded(tl_state *into, const source *from,
                                const tl_checkpoint_restore_args *args, tl_state_report *report)
{
    const tl_state *there;
    tl_state_copy_args how = {.partial = args->partial, .cast = args->cast};
    TL_TRY(find_part_of(&there, from, args->part));
    if (!args->rehearse) return tl_state_copy(into, there, &how, report);
    TL_TRY(tl_state_compare(report, into, there, &(tl_state_compare_args){.cast = args->cast}));
    if (args->partial || tl_state_report_clean(report)) return TL_OK;
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, report, 10);
    tl_status st =
        TL_FAIL(TL_EINVAL, "'%s' does not fit the model: %s", from->file, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

static tl_status restore(tl_state *into, const source *from, const tl_checkpoint_restore_args *args,
                         tl_state_report *report)
{
    return from->loaded ? restore_loaded(into, from, args, report)
                        : tl_checkpoint_restore(into, from->file, args, report);
}

/* --- one part --------------------------------------------------------------------------------- */

typedef struct part {
    const char *name;
    tl_state *into;
    const char *path;   /* in the model */
    const char *place;  /* where it lies in the file; NULL: everything */
    const char *report; /* what was found there */
    int64_t go;         /* in which it is read, from 1; -1: in that of another, 0: not yet */
} part;

static bool fits(const tl_state_report *r)
{
    return r->counts[TL_STATE_MISSING] == 0 && r->counts[TL_STATE_DIFFERENT] == 0;
}

/* Strict about what lacks, lenient about what the file has beside it. */
static tl_status try_place(tl_state *into, const source *from, const char *place,
                           tl_state_report *report)
{
    tl_checkpoint_restore_args args = {
        .part = place,
        .cast = true,
        .weights = true,
        .rehearse = true,
    };
    tl_status st = restore(into, from, &args, report);
    if (st != TL_EINVAL || !report->matched || !fits(report)) return st;
    tl_state_report_deinit(report);
    *report = (tl_state_report){0};
    args.partial = true;
    return restore(into, from, &args, report);
}

static tl_status keep_report(part *p, tl_arena *arena, const tl_state_report *report)
{
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, report, 10);
    p->report = tl_str_status(&text) == TL_OK ? tl_arena_strdup(arena, tl_str_text(&text)) : NULL;
    tl_str_deinit(&text);
    return p->report ? TL_OK : TL_ENOMEM;
}

/* Tries the places where the part may lie in the file, likeliest first; the failure is that of the
 * place where most was found. Nothing is written. */
static tl_status find_place(part *p, tl_arena *arena, const source *from, const char *const *places,
                            int64_t count)
{
    tl_state_report report = {0};
    tl_error worst = {.code = TL_OK};
    int64_t matched = -1;
    bool differs = false;
    for (int64_t i = 0; i < count; i++) {
        tl_status st = try_place(p->into, from, places[i], &report);
        if (st == TL_OK) {
            p->place = places[i];
            st = keep_report(p, arena, &report);
        } else if (report.matched > matched) {
            matched = report.matched;
            differs = matched && !fits(&report);
            tl_error_save(&worst);
        }
        tl_state_report_deinit(&report);
        report = (tl_state_report){0};
        if (st == TL_OK || (st != TL_EINVAL && st != TL_ENOTFOUND)) return st;
    }
    tl_error_restore(&worst);
    return tl_error_note(worst.code, "%s of %s%s", p->name, from->file,
                         differs
                             ? " (tilth.init_resize takes what fits of weights of another size, "
                               "tilth.init_leave leaves weights out)"
                             : "");
}

/* --- all parts -------------------------------------------------------------------------------- */

static bool lies_in(const char *place, const char *outer)
{
    size_t length = strlen(outer);
    return strncmp(place, outer, length) == 0 && (place[length] == '/' || !place[length]);
}

/* Another part of the model brings it along; of two that are the same, the first. */
static bool is_within(const part *parts, int64_t count, int64_t i)
{
    for (int64_t k = 0; k < count; k++) {
        bool same = strcmp(parts[i].path, parts[k].path) == 0;
        if (k != i && lies_in(parts[i].path, parts[k].path) && (!same || k < i)) return true;
    }
    return false;
}

/* Whether its place in the file is taken by another part of this go. */
static bool meets(const part *parts, int64_t count, const part *p, int64_t go)
{
    for (int64_t k = 0; k < count; k++)
        if (parts[k].go == go
            && (lies_in(p->place, parts[k].place) || lies_in(parts[k].place, p->place)))
            return true;
    return false;
}

/* What does not meet, in one go, which writes nothing unless it can write everything. *left are
 * those that remain. */
static tl_status read_some(part *parts, int64_t count, const source *from, int64_t go,
                           int64_t *left)
{
    tl_checkpoint_restore_args args = {.cast = true, .weights = true, .partial = true};
    tl_state *all;
    tl_status st = TL_OK;
    *left = 0;
    TL_TRY(tl_state_new(&all));
    for (int64_t i = 0; i < count && st == TL_OK; i++) {
        part *p = &parts[i];
        if (p->go) continue;
        if (meets(parts, count, p, go)) {
            ++*left;
        } else {
            st = tl_state_mount(all, p->place, p->into);
            p->go = go;
        }
    }
    if (st == TL_OK) st = restore(all, from, &args, NULL);
    tl_state_free(&all);
    return st;
}

/* One go is enough, unless parts of the model begin as the same part of the file. That they can has
 * been rehearsed. */
static tl_status read_all(part *parts, int64_t count, const source *from)
{
    int64_t left = count;
    if (count == 1) {
        tl_checkpoint_restore_args args = {
            .cast = true,
            .weights = true,
            .partial = true,
            .part = parts[0].place,
        };
        return restore(parts[0].into, from, &args, NULL);
    }
    for (int64_t i = 0; i < count; i++) parts[i].go = is_within(parts, count, i) ? -1 : 0;
    for (int64_t go = 1; left > 0; go++) TL_TRY(read_some(parts, count, from, go, &left));
    return TL_OK;
}

/* --- parts of a model ------------------------------------------------------------------------- */

/* The path of what the model calls by this name. */
static const char *path_of_part(const tl_model *m, const char *name)
{
    for (int64_t i = 0; i < tl_model_item_count(m); i++) {
        tl_layer *item;
        if (strcmp(tl_model_item(m, i, &item), name) == 0) return item->path;
    }
    return name;
}

static tl_status unknown_part(const tl_model *m, const char *name)
{
    tl_str names = TL_STR_INIT;
    tl_layer *item;
    for (int64_t i = 0; i < tl_model_item_count(m); i++)
        tl_str_addf(&names, "%s%s", i ? ", " : "", tl_model_item(m, i, &item));
    tl_status st = TL_FAIL(TL_ENOTFOUND, "the model has no part '%.80s'; it has %s", name,
                           names.length ? tl_str_text(&names) : "none that are named");
    tl_str_deinit(&names);
    return st;
}

static tl_status find_part(part *out, tl_arena *arena, const tl_model *m, const tl_state *state,
                           const tl_initial_part *wanted, const source *from)
{
    const char *name = wanted->name, *path = path_of_part(m, name);
    tl_state_entry entry;
    if (!tl_state_find(&entry, state, path) || entry.kind != TL_STATE_STATE)
        return unknown_part(m, name);
    if (wanted->from) name = wanted->from;
    const char *const places[] = {tl_path_join(arena, "model", wanted->from ? name : path),
                                  tl_path_join(arena, "model", name), wanted->from ? name : path,
                                  name};
    for (int i = 0; i < 2; i++)
        if (!places[i]) return TL_ENOMEM;
    *out = (part){.name = wanted->name, .path = path, .into = entry.state};
    return find_place(out, arena, from, places, TL_COUNT(places));
}

/* Those that belong to what was read. */
static tl_status write_fits(const tli_fits *fits, const part *parts, int64_t count, bool all)
{
    for (int64_t i = 0; i < fits->count; i++) {
        bool wanted = all;
        for (int64_t k = 0; k < count && !wanted; k++)
            wanted = lies_in(fits->items[i].param->path, parts[k].path);
        if (wanted) TL_TRY(tli_fits_write(fits, i));
    }
    return TL_OK;
}

static tl_status initialize_from(tl_model *m, tl_arena *arena, const source *from,
                                 const tl_initial_part *wanted, int64_t wanted_count)
{
    static const char *const places[] = {"model", NULL};
    int64_t count = wanted_count ? wanted_count : 1;
    tl_state *state = NULL;
    tli_fits fits = {0};
    part *parts = tl_arena_array(arena, count, sizeof *parts);
    tl_status st;
    if (!parts) return TL_ENOMEM;
    TL_TRY_DONE(st, tl_state_new(&state));
    TL_TRY_DONE(st, tl_model_state(m, state));
    TL_TRY_DONE(st, tli_fits_find(&fits, m, from->own, from->file, from->loaded));
    tli_fits_leave(&fits, state);
    if (!wanted_count) {
        parts[0] = (part){.name = "the model", .into = state};
        st = find_place(&parts[0], arena, from, places, TL_COUNT(places));
    }
    for (int64_t i = 0; i < wanted_count && st == TL_OK; i++)
        st = find_part(&parts[i], arena, m, state, &wanted[i], from);
    if (st == TL_OK) st = read_all(parts, count, from);
    if (st == TL_OK) st = write_fits(&fits, parts, count, !wanted_count);
    for (int64_t i = 0; i < count && st == TL_OK; i++)
        TL_LOG_INFO("initialized %s from %s: %s", parts[i].name, from->file, parts[i].report);
done:
    tli_fits_deinit(&fits);
    tl_state_free(&state);
    return st;
}

static tl_status initialize_from_file(tl_model *m, tl_arena *arena, const char *path,
                                      const tl_own_config *own, const tl_initial_part *parts,
                                      int64_t count)
{
    source from = {.own = own};
    TL_TRY(tl_checkpoint_resolve(&from.file, arena, path));
    tl_status st = initialize_from(m, arena, &from, parts, count);
    if (st != TL_OK && tl_dir_exists(path))
        tl_error_note(
            st, "the latest checkpoint of the folder '%s' (an older one can be named instead)",
            path);
    return st;
}

static tl_initial_part *parts_of(tl_arena *arena, tl_strings names)
{
    tl_initial_part *parts = tl_arena_array(arena, names.count, sizeof *parts);
    for (int64_t i = 0; parts && i < names.count; i++)
        parts[i] = (tl_initial_part){.name = names.items[i]};
    return parts;
}

tl_status tl_model_initialize_from(tl_model *m, const char *path, tl_strings names)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const tl_initial_part *parts = parts_of(arena, names);
    tl_status st =
        parts ? initialize_from_file(m, arena, path, NULL, parts, names.count) : TL_ENOMEM;
    tl_arena_free(&arena);
    return st;
}

/* --- checkpoints of Model Garden -------------------------------------------------------------- */

/* Names as they are where this part is all that there is; those of other parts go. */
static void make_root(tl_original_list *list, const char *name)
{
    const size_t length = strlen(name);
    int64_t kept = 0;
    for (int64_t i = 0; i < list->count; i++) {
        tl_original_name n = list->items[i];
        if (strncmp(n.theirs, name, length) != 0 || n.theirs[length] != '/') continue;
        n.theirs += length + 1;
        list->items[kept++] = n;
    }
    list->count = kept;
}

/* Those that the model has, and what its parts are called elsewhere. */
static tl_status ask_names(tl_task *t, tl_original_names *into, const tl_initial_part *parts,
                           int64_t count)
{
    TL_TRY(tl_task_original_names(t, into));
    for (int64_t i = 0; i < count; i++)
        if (parts[i].from && parts[i].object)
            TL_TRY(tl_original_names_add(into, parts[i].from, parts[i].object));
    for (int64_t i = 0; i < count; i++) {
        if (!parts[i].is_root) continue;
        make_root(&into->layers, parts[i].name);
        into->same.count = 0; // they are of the whole model's paths
    }
    return TL_OK;
}

static tl_status initialize_from_original(tl_task *t, tl_model *m, tl_arena *arena,
                                          const char *prefix, const tl_initial_part *parts,
                                          int64_t count)
{
    tl_original_names names;
    source from = {.file = prefix, .own = t->own};
    TL_TRY(tl_original_names_init(&names));
    tl_status st = ask_names(t, &names, parts, count);
    if (st == TL_OK) st = tl_original_read(&from.loaded, prefix, &names, t->engine, NULL);
    if (st == TL_OK) st = initialize_from(m, arena, &from, parts, count);
    tl_state_free(&from.loaded);
    tl_original_names_deinit(&names);
    return st;
}

tl_status tl_task_initialize_parts(tl_task *t, tl_model *m, const char *path,
                                   const tl_initial_part *parts, int64_t count)
{
    tl_arena *arena;
    const char *found;
    bool bundle;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_checkpoint_locate(&found, &bundle, arena, path);
    if (st == TL_OK)
        st = bundle ? initialize_from_original(t, m, arena, found, parts, count)
                    : initialize_from_file(m, arena, path, t->own, parts, count);
    t->read_own = true;
    tl_arena_free(&arena);
    const bool root =
        count && parts[0].is_root; // its path is another key's, which the caller notes
    return st == TL_OK || root ? st : tl_error_note(st, "task.init_checkpoint");
}

tl_status tl_task_initialize_from(tl_task *t, tl_model *m, const char *path, tl_strings names)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const tl_initial_part *parts = parts_of(arena, names);
    tl_status st = parts ? tl_task_initialize_parts(t, m, path, parts, names.count) : TL_ENOMEM;
    tl_arena_free(&arena);
    return st;
}
