#include <tilth/train/initialize.h>

#include <string.h>

#include <tilth/base/log.h>
#include <tilth/io/checkpoint_manager.h>

/* --- one part --------------------------------------------------------------------------------- */

static bool fits(const tl_state_report *r)
{
    return r->counts[TL_STATE_MISSING] == 0 && r->counts[TL_STATE_DIFFERENT] == 0;
}

/* Strict about what lacks, lenient about what the file has beside it. */
static tl_status restore_from(tl_state *into, const char *file, const char *place,
                              tl_state_report *report)
{
    tl_checkpoint_restore_args args = {.part = place, .cast = true, .weights = true};
    tl_status st = tl_checkpoint_restore(into, file, &args, report);
    if (st != TL_EINVAL || !report->matched || !fits(report)) return st;
    tl_state_report_deinit(report);
    *report = (tl_state_report){0};
    args.partial = true;
    return tl_checkpoint_restore(into, file, &args, report);
}

static void tell(const char *what, const char *file, const tl_state_report *report)
{
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, report, 10);
    TL_LOG_INFO("initialized %s from %s: %s", what, file, tl_str_text(&text));
    tl_str_deinit(&text);
}

/* Tries the places where the part may lie in the file, likeliest first; the failure is that of the place
 * where most was found. */
static tl_status restore_part(tl_state *into, const char *what, const char *file,
                              const char *const *places, int64_t count)
{
    tl_state_report report = {0};
    tl_error worst = {.code = TL_OK};
    int64_t matched = -1;
    for (int64_t i = 0; i < count; i++) {
        tl_status st = restore_from(into, file, places[i], &report);
        if (st == TL_OK) tell(what, file, &report);
        if (st != TL_OK && report.matched > matched) {
            matched = report.matched;
            tl_error_save(&worst);
        }
        tl_state_report_deinit(&report);
        report = (tl_state_report){0};
        if (st == TL_OK || (st != TL_EINVAL && st != TL_ENOTFOUND)) return st;
    }
    tl_error_restore(&worst);
    return tl_error_note(worst.code, "%s of %s", what, file);
}

/* --- parts of a model ------------------------------------------------------------------------- */

/* The path of what the model calls by this name. */
static const char *path_of_part(const tl_model *m, const char *name)
{
    for (int64_t i = 0; i < tl_model_item_count(m); i++) {
        tl_layer *part;
        if (strcmp(tl_model_item(m, i, &part), name) == 0) return part->path;
    }
    return name;
}

static tl_status unknown_part(const tl_model *m, const char *name)
{
    tl_str names = TL_STR_INIT;
    tl_layer *part;
    for (int64_t i = 0; i < tl_model_item_count(m); i++)
        tl_str_addf(&names, "%s%s", i ? ", " : "", tl_model_item(m, i, &part));
    tl_status st = TL_FAIL(TL_ENOTFOUND, "the model has no part '%.80s'; it has %s", name,
                           names.length ? tl_str_text(&names) : "none that are named");
    tl_str_deinit(&names);
    return st;
}

static tl_status initialize_part(tl_arena *arena, const tl_model *m, const tl_state *state,
                                 const char *name, const char *file)
{
    const char *path = path_of_part(m, name);
    tl_state_entry entry;
    if (!tl_state_find(&entry, state, path) || entry.kind != TL_STATE_STATE)
        return unknown_part(m, name);
    const char *const places[] = {tl_path_join(arena, "model", path),
                                  tl_path_join(arena, "model", name), path, name};
    for (int i = 0; i < 2; i++)
        if (!places[i]) return TL_ENOMEM;
    return restore_part(entry.state, name, file, places, TL_COUNT(places));
}

tl_status tl_model_initialize_from(tl_model *m, const char *path, tl_strings parts)
{
    static const char *const places[] = {"model", NULL};
    tl_state *state = NULL;
    tl_arena *arena = NULL;
    const char *file;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_checkpoint_resolve(&file, arena, path));
    TL_TRY_DONE(st, tl_state_new(&state));
    TL_TRY_DONE(st, tl_model_state(m, state));
    if (!parts.count) st = restore_part(state, "the model", file, places, TL_COUNT(places));
    for (int64_t i = 0; i < parts.count && st == TL_OK; i++)
        st = initialize_part(arena, m, state, parts.items[i], file);
done:
    tl_state_free(&state);
    tl_arena_free(&arena);
    return st;
}
