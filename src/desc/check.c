#include "desc/check.h"

#include <string.h>

#include <tilth/base/log.h>

#include "desc/restrict.h"

typedef struct checker {
    tli_diags *diags;
    const tli_sources *sources;
    bool features;
    tl_str path;
} checker;

tl_place tli_source_of(const tli_sources *sources, const char *path)
{
    if (!sources) return (tl_place){0};
    // The newest of all that was said about the path and about what it lies in. A list speaks for
    // its items; a struct is remembered only when it was made null, so that what is in it now was
    // made anew from its defaults.
    const tli_source *best = NULL;
    char behind = '\0';
    for (int64_t i = 0; i < tl_map_count(&sources->map); i++) {
        const char *key = tl_map_key(&sources->map, i);
        const tli_source *source = tl_map_at(&sources->map, i);
        size_t length = strlen(key);
        bool about = strncmp(path, key, length) == 0
                     && (!path[length] || path[length] == '.' || path[length] == '[');
        if (!about) continue;
        if (best && best->order > source->order) continue;
        best = source;
        behind = path[length];
    }
    return best && behind != '.' ? best->place : (tl_place){0};
}

static void add_failure(checker *c, tl_status st, tl_place place)
{
    if (st == TL_OK) return;
    if (st == TL_ENOMEM) c->diags->code = st;
    tli_diag(c->diags, st, place, tl_str_text(&c->path), "%s", tl_error_message());
    if (st == TL_ENOMEM) c->diags->code = st;
}

/* A row that is not there yet, or that nothing reads, and that somebody changed. */
static void check_feature(checker *c, const tl_desc *desc, const tl_field *f, const void *value)
{
    bool is_default = true;
    tl_status st = tl_field_is_default(&is_default, desc, f, value);
    tl_place place = tli_source_of(c->sources, tl_str_text(&c->path));
    if (st != TL_OK) {
        add_failure(c, st, place);
    } else if (!is_default && f->flags & TL_FIELD_LATER) {
        tl_str text = TL_STR_INIT;
        st = tl_field_default_text(&text, desc, f);
        if (st != TL_OK) add_failure(c, st, place);
        else
            tli_diag(c->diags, TL_EUNSUPPORTED, place, tl_str_text(&c->path),
                     "not available yet; leave it at its default%s%s (%s)", text.length ? ", " : "",
                     tl_str_text(&text), f->help);
        tl_str_deinit(&text);
    } else if (!is_default && f->flags & TL_FIELD_UNREAD) {
        TL_LOG_WARNING("%s: this has no effect (%s)", tl_str_text(&c->path), f->help);
    }
}

static void check_struct(checker *c, const tl_desc *desc, const void *value);

static void check_field(checker *c, const tl_field *f, const void *value)
{
    const void *member = tl_field_at(f, value);
    size_t length = c->path.length;
    if (f->type == TL_TYPE_STRUCT && f->shape == TL_LIST) {
        const tl_structs *list = member;
        for (int64_t i = 0; i < list->count; i++) {
            tli_path_index(&c->path, i);
            check_struct(c, f->desc, (const char *)list->items + (size_t)i * f->desc->size);
            tl_str_cut(&c->path, length);
        }
        return;
    }
    const void *inner = NULL;
    if (f->type == TL_TYPE_STRUCT) inner = f->shape == TL_ONE ? member : *(void *const *)member;
    else if (f->type == TL_TYPE_OBJECT) inner = ((const tl_object *)member)->value;
    else if (f->type == TL_TYPE_ONEOF) {
        inner = ((const tl_oneof *)member)->value;
        if (inner) tli_path_name(&c->path, ((const tl_oneof *)member)->type);
    }
    if (inner) check_struct(c, tli_field_desc(f, value), inner);
}

static void run_checks(checker *c, const tl_desc *desc, const void *value)
{
    if (desc->base) run_checks(c, desc->base, value);
    tl_place place = {0};
    if (desc->check) add_failure(c, desc->check(value), place);
    for (const char *const *r = desc->restrictions; r && *r; r++)
        add_failure(c, tli_restrict(*r, desc, value), place);
}

static void check_struct(checker *c, const tl_desc *desc, const void *value)
{
    size_t length = c->path.length;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) {
        tli_path_name(&c->path, r.field->name);
        if (c->features && r.field->flags & (TL_FIELD_LATER | TL_FIELD_UNREAD))
            check_feature(c, desc, r.field, value);
        check_field(c, r.field, value);
        tl_str_cut(&c->path, length);
    }
    run_checks(c, desc, value);
}

void tli_check(tli_diags *diags, const tl_desc *desc, const void *value, const tli_sources *sources,
               bool features)
{
    checker c = {.diags = diags, .sources = sources, .features = features};
    check_struct(&c, desc, value);
    if (c.path.failed) diags->code = TL_ENOMEM, diags->count++;
    tl_str_deinit(&c.path);
}

tl_status tl_desc_check(const tl_desc *desc, const void *value)
{
    tli_diags diags = TLI_DIAGS_INIT;
    tli_check(&diags, desc, value, NULL, false);
    tl_status st = tli_diags_status(&diags);
    tli_diags_deinit(&diags);
    return st;
}
