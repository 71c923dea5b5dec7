#include "desc/config/check.h"

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "desc/config/restrict.h"

typedef struct checker {
    tli_diags *diags;
    const tli_sources *sources;
    bool notices;
    tl_str path;
} checker;

static void add_failure(checker *c, tl_status st, tl_place place, const char *message)
{
    tli_diag(c->diags, st, place, tl_str_text(&c->path), "%s", message);
    if (st == TL_ENOMEM) c->diags->code = st;
}

/* A failure of a struct as a whole: where it was written or, for a branch of a one-of, at the type
 * that chose it. */
static void add_struct_failure(checker *c, tl_status st, const char *message)
{
    tl_place place = tli_source_of(c->sources, tl_str_text(&c->path));
    tl_str type = TL_STR_INIT;
    const char *path = tl_str_text(&c->path), *dot = strrchr(path, '.');
    if (!place.source && dot) {
        tl_str_addn(&type, path, (size_t)(dot - path));
        tl_str_add(&type, ".type");
        place = tli_source_of(c->sources, tl_str_text(&type));
    }
    if (place.source && type.length) {
        tli_diag(c->diags, st, place, tl_str_text(&type), "%s", message);
        if (st == TL_ENOMEM) c->diags->code = st;
    } else {
        add_failure(c, st, place, message);
    }
    tl_str_deinit(&type);
}

/* A message that begins with a field's name and a colon belongs to that field. */
static void add_check_failure(checker *c, tl_status st, const tl_desc *desc)
{
    tl_error error;
    tl_error_save(&error);
    size_t length =
        strspn(error.text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    char name[128];
    const char *colon = strchr(error.text, ':');
    bool named = length > 0 && length < sizeof name && colon
                 && (error.text[length] == ':' || error.text[length] == '[') && colon[1] == ' ';
    if (named) {
        memcpy(name, error.text, length);
        name[length] = '\0';
        named = tl_desc_field(desc, name) != NULL;
    }
    if (!named) {
        add_struct_failure(c, st, error.text);
        return;
    }
    size_t before = c->path.length;
    if (before) tl_str_addc(&c->path, '.');
    // with its index, if it has one
    tl_str_addn(&c->path, error.text, (size_t)(colon - error.text));
    add_failure(c, st, tli_source_of(c->sources, tl_str_text(&c->path)), colon + 2);
    tl_str_cut(&c->path, before);
}

static void add_failed(tli_diags *diags, tl_status st, tl_place place, const char *path)
{
    tli_diag(diags, st, place, path, "%s", tl_error_message());
    if (st == TL_ENOMEM) diags->code = st;
}

/* A row whose feature is not there yet, and that somebody changed. */
static void refuse_changed(tli_diags *diags, const tl_desc *desc, const tl_field *f, tl_place place,
                           const char *path)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tl_field_default_text(&text, desc, f);
    if (st != TL_OK) add_failed(diags, st, place, path);
    else
        tli_diag(diags, TL_EUNSUPPORTED, place, path,
                 "not available yet; leave it at its default%s%s (%s)", text.length ? ", " : "",
                 tl_str_text(&text), f->help);
    tl_str_deinit(&text);
}

void tli_check_feature(tli_diags *diags, const tl_desc *desc, const tl_field *f, const void *value,
                       tl_place place, const char *path)
{
    tl_arena *scratch = NULL;
    void *fresh;
    if (!(f->flags & TL_FIELD_LATER)) return;
    tl_status st = tl_arena_new(&scratch);
    if (st == TL_OK) st = tl_desc_new(&fresh, scratch, desc);
    if (st != TL_OK) add_failed(diags, st, place, path);
    else if (!tli_field_equal(f, value, fresh)) refuse_changed(diags, desc, f, place, path);
    tl_arena_free(&scratch);
}

/* A row that nothing reads, and that somebody changed. What an experiment says for the sake of the
 * original's params.yaml is no news to its user. */
static void tell_unread(checker *c, const tl_field *f)
{
    tl_place place = tli_source_of(c->sources, tl_str_text(&c->path));
    tl_str text = TL_STR_INIT;
    if (tli_source_is_experiment(place)) return;
    if (place.source) tl_place_write(&text, place);
    TL_LOG_WARNING("%s%s%s: this has no effect (%s)", tl_str_text(&text), text.length ? ": " : "",
                   tl_str_text(&c->path), f->help);
    if (text.failed) add_failure(c, tl_str_status(&text), (tl_place){0}, "out of memory");
    tl_str_deinit(&text);
}

/* Compares all rows of those sorts with their defaults. */
static void check_features(checker *c, const tl_desc *desc, const void *value)
{
    const int sorts = TL_FIELD_LATER | (c->notices ? TL_FIELD_UNREAD : 0);
    bool any = false;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) any |= (r.field->flags & sorts) != 0;
    if (!any) return;
    tl_arena *scratch = NULL;
    void *fresh;
    tl_status st = tl_arena_new(&scratch);
    if (st == TL_OK) st = tl_desc_new(&fresh, scratch, desc);
    if (st != TL_OK) add_failure(c, st, (tl_place){0}, tl_error_message());
    size_t length = c->path.length;
    for (tli_rows r = tli_rows_of(desc); st == TL_OK && tli_rows_next(&r);) {
        if (!(r.field->flags & sorts) || tli_field_equal(r.field, value, fresh)) continue;
        tli_path_name(&c->path, r.field->name);
        const char *path = tl_str_text(&c->path);
        if (r.field->flags & TL_FIELD_LATER)
            refuse_changed(c->diags, desc, r.field, tli_source_of(c->sources, path), path);
        else tell_unread(c, r.field);
        tl_str_cut(&c->path, length);
    }
    tl_arena_free(&scratch);
}

/* What is given to a branch that is not chosen is lost on the way; that is worth a word. */
static void tell_unchosen(checker *c, const tl_oneof *o)
{
    size_t length = c->path.length;
    for (const tl_oneof_part *p = o->parts; c->notices && p; p = p->next) {
        if (o->type && strcmp(o->type, p->name) == 0) continue;
        tli_path_name(&c->path, p->name);
        const tli_source *said = tli_source_inside(c->sources, tl_str_text(&c->path));
        tl_str place = TL_STR_INIT;
        if (said) tl_place_write(&place, said->place);
        if (said)
            TL_LOG_WARNING("%s: %s: this has no effect while the type is %s", tl_str_text(&place),
                           tl_str_text(&c->path), o->type ? o->type : "null");
        if (place.failed) add_failure(c, tl_str_status(&place), (tl_place){0}, "out of memory");
        tl_str_deinit(&place);
        tl_str_cut(&c->path, length);
    }
}

static void check_struct(checker *c, const tl_desc *desc, const void *value);

static void check_field(checker *c, const tl_field *f, const void *value)
{
    const void *member = tl_field_at(f, value);
    size_t length = c->path.length;
    if (f->type == TL_TYPE_STRUCT && f->arity == TL_LIST) {
        const tl_structs *list = member;
        for (int64_t i = 0; i < list->count; i++) {
            tli_path_index(&c->path, i);
            check_struct(c, f->desc, (const char *)list->items + (size_t)i * f->desc->size);
            tl_str_cut(&c->path, length);
        }
        return;
    }
    const void *inner = NULL;
    if (f->type == TL_TYPE_STRUCT) inner = f->arity == TL_ONE ? member : *(void *const *)member;
    else if (f->type == TL_TYPE_OBJECT) inner = ((const tl_object *)member)->value;
    else if (f->type == TL_TYPE_ONEOF) {
        inner = ((const tl_oneof *)member)->value;
        tell_unchosen(c, member);
        if (inner) tli_path_name(&c->path, ((const tl_oneof *)member)->type);
    }
    if (inner) check_struct(c, tli_field_desc(f, value), inner);
}

/* A number that must be given lies outside its range until it is. */
static bool is_missing(const tl_field *f, const void *value)
{
    bool number = f->arity == TL_ONE && (f->type == TL_TYPE_INT || f->type == TL_TYPE_DOUBLE);
    if (!number || !f->ranged || !(f->flags & TL_FIELD_REQUIRED)) return false;
    const void *member = tl_field_at(f, value);
    double d = f->type == TL_TYPE_INT ? (double)*(const int64_t *)member : *(const double *)member;
    return !(d >= f->min && d <= f->max);
}

/* The struct may come from anybody: such a row must not lead out of the folder that it is joined
 * to. */
static bool leads_out(const tl_field *f, const void *value)
{
    const char *text =
        f->flags & TL_FIELD_INSIDE ? *(const char *const *)tl_field_at(f, value) : NULL;
    return text && !tl_path_stays_inside(text);
}

static void run_checks(checker *c, const tl_desc *desc, const void *value)
{
    if (desc->base) run_checks(c, desc->base, value);
    tl_status st = desc->check ? desc->check(value) : TL_OK;
    if (st != TL_OK) add_check_failure(c, st, desc);
    for (const char *const *r = desc->restrictions; r && *r; r++)
        if ((st = tli_restrict(*r, desc, value)) != TL_OK)
            add_failure(c, st, (tl_place){0}, tl_error_message());
}

static void check_struct(checker *c, const tl_desc *desc, const void *value)
{
    size_t length = c->path.length;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) {
        tli_path_name(&c->path, r.field->name);
        if (is_missing(r.field, value))
            add_failure(c, TL_EINVAL, tli_source_of(c->sources, tl_str_text(&c->path)),
                        "it has no default and must be given");
        if (leads_out(r.field, value))
            add_failure(c, TL_EINVAL, tli_source_of(c->sources, tl_str_text(&c->path)),
                        "must name something in the model's folder: not an absolute path, and "
                        "without '..'");
        check_field(c, r.field, value);
        tl_str_cut(&c->path, length);
    }
    check_features(c, desc, value);
    run_checks(c, desc, value);
}

void tli_check(tli_diags *diags, const tl_desc *desc, const void *value, const tli_sources *sources,
               bool notices)
{
    checker c = {.diags = diags, .sources = sources, .notices = notices};
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
