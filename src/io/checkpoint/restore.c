#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "core/inner/state.h"
#include "core/inner/tensor.h"
#include "io/inner/checkpoint.h"

enum { SHOWN = 10 /* findings of a kind in a message */ };

/* What goes where. */
typedef struct restoring {
    const tl_checkpoint *c;
    const tl_state *there; /* the part of the file that is wanted */
    const char *part;      /* its path; NULL: all */
    bool cast;
    tli_state_leaves leaves; /* of what is restored */
    tl_map misfits;          /* paths that are left as they are */
    bool *done;              /* by leaf: the tensor that the leaf shows first has its elements */
    tl_str path;             /* scratch */
} restoring;

static void restoring_deinit(restoring *r)
{
    tli_state_leaves_deinit(&r->leaves);
    tl_map_deinit(&r->misfits);
    tl_free(r->done);
    tl_str_deinit(&r->path);
}

static tl_status restoring_init(restoring *r, const tl_state *into, const tl_state_report *report)
{
    TL_TRY(tli_state_collect(&r->leaves, into));
    for (int64_t i = 0; i < report->count; i++)
        if (report->items[i].verdict != TL_STATE_UNEXPECTED)
            TL_TRY(tl_map_set(&r->misfits, report->items[i].path, NULL));
    r->done = tl_alloc_zero((size_t)r->leaves.count * sizeof *r->done);
    return r->done ? TL_OK : TL_FAIL_NOMEM((size_t)r->leaves.count * sizeof *r->done);
}

static tl_status find_elements(const tl_safetensors_entry **out, restoring *r, const char *path)
{
    tl_str_cut(&r->path, 0);
    if (r->part) tl_str_addf(&r->path, "%s/", r->part);
    tl_str_add(&r->path, path);
    TL_TRY(tl_str_status(&r->path));
    *out = tl_checkpoint_find(r->c, tl_str_text(&r->path));
    return TL_OK;
}

// Elements come from the first path of a tensor that is in the file; the others show them too.
static tl_status restore_tensor(restoring *r, int64_t i, bool write)
{
    tli_state_leaf *leaf = &r->leaves.items[i];
    const tl_safetensors_entry *e;
    if (r->done[leaf->first]) return TL_OK;
    TL_TRY(find_elements(&e, r, leaf->path));
    if (!e) return TL_OK;
    tl_tensor *to = leaf->entry->at.tensor;
    if (!to->storage)
        return TL_FAIL(TL_ESTATE, "'%s' is only described and cannot be restored", leaf->path);
    if (!write) {
        TL_TRY(tli_safetensors_check(to, tl_checkpoint_file(r->c), e, r->cast));
        return tli_lease_reserve(to);
    }
    r->done[leaf->first] = leaf->written = true;
    return tli_safetensors_copy(to, tl_checkpoint_file(r->c), e, r->cast);
}

// What could go wrong with a value is asked before the first one is written.
static tl_status restore_leaves(restoring *r, bool write)
{
    for (int64_t i = 0; i < r->leaves.count; i++) {
        tli_state_leaf *leaf = &r->leaves.items[i];
        tl_state_entry value;
        if (tl_map_has(&r->misfits, leaf->path)) continue;
        if (leaf->entry->kind == TL_STATE_TENSOR) {
            TL_TRY(restore_tensor(r, i, write));
        } else if (tl_state_find(&value, r->there, leaf->path)) {
            tl_status st = write ? tli_state_write(leaf->entry, &value)
                                 : tli_state_accepts(leaf->entry, &value);
            if (st != TL_OK) return tl_error_note(st, "'%s'", leaf->path);
            leaf->written = write;
        }
    }
    return TL_OK;
}

static void drop_unexpected(tl_state_report *report)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < report->count; i++)
        if (report->items[i].verdict != TL_STATE_UNEXPECTED)
            report->items[kept++] = report->items[i];
    report->count = kept;
    report->counts[TL_STATE_UNEXPECTED] = 0;
}

static bool is_below(const char *path, const char *part)
{
    size_t length = part ? strlen(part) : 0;
    return part && strncmp(path, part, length) == 0 && path[length] == '/';
}

static bool is_explained(const tl_state_report *report, const tl_checkpoint_restore_args *args)
{
    for (int64_t i = 0; i < report->count; i++)
        if (!is_below(report->items[i].path, args->explained)
            && !is_below(report->items[i].path, args->optional))
            return false;
    return args->explanation != NULL;
}

static tl_status fail_misfit(const char *path, const tl_state_report *report,
                             const tl_checkpoint_restore_args *args)
{
    tl_str text = TL_STR_INIT;
    if (is_explained(report, args)) return TL_FAIL(TL_EDATA, "'%s': %s", path, args->explanation);
    tl_state_report_text(&text, report, SHOWN);
    tl_status st = TL_FAIL(TL_EINVAL, "'%s' does not fit what it shall be restored into: %s", path,
                           tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

// Whether something does not fit that must. The rest is told.
static bool is_misfit(const tl_state_report *report, const char *optional, const char *file)
{
    for (int64_t i = 0; i < report->count; i++)
        if (!is_below(report->items[i].path, optional)) return true;
    for (int64_t i = 0; i < report->count; i++)
        TL_LOG_WARNING(
            "'%s': '%s' %s", file, report->items[i].path,
            report->items[i].verdict == TL_STATE_MISSING      ? "is not in it, and starts anew"
            : report->items[i].verdict == TL_STATE_UNEXPECTED ? "is no longer wanted"
                                                              : "does not fit, and starts anew");
    return false;
}

static void warn_of_numerics(const tl_checkpoint *c, const char *now)
{
    const char *then = tl_checkpoint_numerics(c);
    if (now && then && strcmp(now, then) != 0)
        TL_LOG_WARNING("'%s' was computed with '%s', and goes on with '%s': it will not be the "
                       "same bit for bit",
                       tl_safetensors_path(tl_checkpoint_file(c)), then, now);
}

static tl_status find_part(const tl_state **out, const tl_checkpoint *c, const char *part)
{
    tl_state_entry e;
    *out = tl_checkpoint_state(c);
    if (!part) return TL_OK;
    TL_TRY_NOTE(tl_state_get(&e, *out, part, TL_STATE_STATE), "'%s'",
                tl_safetensors_path(tl_checkpoint_file(c)));
    *out = e.state;
    return TL_OK;
}

tl_status tli_checkpoint_restore(tl_state *into, const tl_checkpoint *c,
                                 const tl_checkpoint_restore_args *args, tl_state_report *report)
{
    const char *path = tl_safetensors_path(tl_checkpoint_file(c));
    restoring r = {.c = c, .part = args->part, .cast = args->cast};
    tl_status st;
    TL_TRY_DONE(st, find_part(&r.there, c, args->part));
    TL_TRY_DONE(
        st, tl_state_compare(report, into, r.there, &(tl_state_compare_args){.cast = args->cast}));
    if (args->beside) drop_unexpected(report);
    if (!args->partial && is_misfit(report, args->optional, path)) {
        st = fail_misfit(path, report, args);
        goto done;
    }
    TL_TRY_DONE(st, restoring_init(&r, into, report));
    TL_TRY_DONE(st, restore_leaves(&r, false));
    if (args->rehearse) goto done;
    st = restore_leaves(&r, true);
    tli_state_tell_restored(into, &r.leaves);
    if (st != TL_OK) goto done;
    warn_of_numerics(c, args->numerics);
done:
    restoring_deinit(&r);
    return st;
}

tl_status tl_checkpoint_restore(tl_state *into, const char *path,
                                const tl_checkpoint_restore_args *args, tl_state_report *report)
{
    static const tl_checkpoint_restore_args plain;
    tl_checkpoint *c;
    tl_state_report own = {0};
    bool damaged;
    if (!args) args = &plain;
    if (report) *report = own;
    TL_TRY(tli_checkpoint_open(&c, path, args->weights, &damaged));
    tl_status st = tli_checkpoint_restore(into, c, args, &own);
    tl_checkpoint_free(&c);
    if (report) *report = own;
    else tl_state_report_deinit(&own);
    return st;
}
