/* What is bound, put into configurations that were not made by a call. */
#include <string.h>

#include "desc/config/check.h"
#include "desc/config/impl.h"
#include "desc/gin/impl.h"

static _Thread_local tl_gin *current;

tl_gin *tl_gin_current(void)
{
    return current;
}

tl_gin *tl_gin_set_current(tl_gin *gin)
{
    tl_gin *before = current;
    current = gin;
    return before;
}

bool tl_gin_is_empty(const tl_gin *gin)
{
    return gin->bindings.count == 0 && gin->imports.count == 0;
}

/* --- the bindings of one class ---------------------------------------------------------------- */

/* What is bound for a class where we are. */
typedef struct overlay {
    const tli_gin_info *info;
    tli_gin_binding **bound; /* by field */
    int64_t *order, count;
} overlay;

static tl_status look_up(overlay *out, tl_gin *gin, const tl_class *cls, tl_arena *arena)
{
    tli_gin_info *info;
    TL_TRY(tli_gin_settle(gin));
    TL_TRY(tli_gin_info_get(&info, gin, cls));
    info->made = true;
    out->info = info;
    out->bound = tl_arena_array(arena, info->count, sizeof *out->bound);
    out->order = tl_arena_array(arena, info->count, sizeof *out->order);
    if (!out->bound || !out->order) return TL_ENOMEM;
    tli_gin_overlay(gin, info, out->bound, out->order, &out->count);
    return TL_OK;
}

/* Sets the member from its binding. What does not fit goes to the diags. */
static tl_status put_here(tli_apply *a, tl_gin *gin, const tl_class *cls, const tl_field *f,
                          void *config, tli_gin_binding *b)
{
    tli_gin_expansion e = {.gin = gin, .arena = a->arena, .live = true};
    const tl_value *v;
    a->reference = tli_gin_reference;
    a->payload = &e;
    int64_t wrong = a->diags->count;
    tl_status st = tli_gin_expand(&e, &v, b->value, b->home);
    if (st == TL_OK) tli_gin_set_member(a, f, config, v);
    // A choice lies with gin until it is copied.
    if (st == TL_OK && a->diags->count == wrong)
        st = tli_copy_field(a->arena, f, tl_field_at(f, config));
    tli_gin_expansion_deinit(&e);
    a->reference = NULL;
    return st == TL_OK ? tli_gin_record(gin, cls, b) : tli_gin_at(st, b->place);
}

/* Where a binding was found is where its references are called, and where it is told of: the
 * hundred layers that share it are one section. */
static tl_status put(tli_apply *a, tl_gin *gin, const tl_class *cls, const tl_field *f,
                     void *config, tli_gin_binding *b)
{
    TL_TRY(tli_gin_scope_push(gin, b->scope));
    tl_status st = put_here(a, gin, cls, f, config, b);
    tl_gin_scope_end(gin);
    return st;
}

/* --- what a program gives --------------------------------------------------------------------- */

static bool gives(const tl_field *f, const void *given)
{
    const char *member = given ? tl_field_at(f, given) : NULL;
    for (size_t i = 0; member && i < f->size; i++)
        if (member[i]) return true;
    return false;
}

static tl_status fill(tl_gin *gin, const tl_class *cls, void *config, const void *given,
                      tl_arena *arena)
{
    tli_diags diags = TLI_DIAGS_INIT;
    tli_apply a = {.arena = arena,
                   .registry = gin->registry,
                   .strict = true,
                   .diags = &diags,
                   .path = TL_STR_INIT};
    overlay o;
    tl_status st = look_up(&o, gin, cls, arena);
    for (int64_t i = 0; st == TL_OK && i < o.count; i++) {
        const tl_field *f = o.info->fields[o.order[i]];
        if (gives(f, given)) continue;
        tl_str_cut(&a.path, 0);
        tl_str_addf(&a.path, "%s.%s", tli_gin_minimal(gin, cls), f->name);
        tli_gin_binding *b = o.bound[o.order[i]];
        st = put(&a, gin, cls, f, config, b);
        if (st == TL_OK)
            tli_check_feature(&diags, cls->config, f, config, b->place, tl_str_text(&a.path));
    }
    if (st == TL_OK) st = tl_str_status(&a.path);
    if (st == TL_OK) st = tli_diags_status(&diags);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}

tl_status tl_gin_fill(tl_gin *gin, const char *scope, const tl_class *cls, void *config,
                      const void *given, tl_arena *arena)
{
    if (!gin || !cls->config || gin->bindings.count == 0) return TL_OK;
    // its zeros are meant: nothing is left open
    if (given && tli_is_complete(cls->config, given)) return TL_OK;
    bool scoped = *scope && tli_gin_is_scope(scope, false);
    if (scoped) TL_TRY(tl_gin_scope_begin(gin, scope));
    tl_status st = fill(gin, cls, config, given, arena);
    if (scoped) tl_gin_scope_end(gin);
    return st;
}

/* --- what was made by a reference ------------------------------------------------------------- */

static bool is_among(const char *name, const char *const *names)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

/* Of the library's own making: nobody who reads gin's text knows it. */
static bool is_of_kind(const tl_gin *gin, const tl_class *cls, const tl_field *f)
{
    const tli_gin_name *name = tli_gin_name_of(gin, cls);
    const tl_desc *base = name && name->choice ? name->choice->config_base : NULL;
    return base && tl_desc_field(base, f->name) == f;
}

static tl_status note_made(tl_gin *gin, const tl_class *cls, const char *const *given,
                           tl_arena *arena)
{
    overlay o;
    tli_gin_section *s; // also when there is nothing to say
    TL_TRY(look_up(&o, gin, cls, arena));
    TL_TRY(tli_gin_section_get(&s, gin, &gin->operative, tl_gin_scope(gin), cls));
    for (int64_t i = 0; i < o.info->count; i++) {
        const tl_field *f = o.info->fields[i];
        tli_gin_binding *b = o.info->defaults[i];
        if (!b || o.bound[i] || is_among(f->name, given) || is_of_kind(gin, cls, f)) continue;
        if (!(f->flags & TL_FIELD_QUIET)) TL_TRY(tli_gin_record(gin, cls, b));
    }
    return TL_OK;
}

tl_status tl_gin_note_made(tl_gin *gin, const tl_class *cls, const char *const *given)
{
    tl_arena *arena;
    if (!gin || !cls->config || gin->bindings.count == 0) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = note_made(gin, cls, given, arena);
    tl_arena_free(&arena);
    return st;
}

/* --- the choices of a configuration ----------------------------------------------------------- */

typedef struct walk {
    tl_gin *gin;
    tl_config *config;
    tli_apply *apply; /* with the path of where we are */
} walk;

static bool is_command_line(tl_place place)
{
    return place.source
           && (strcmp(place.source, "command line") == 0 || strncmp(place.source, "--", 2) == 0);
}

/* Who says two things on one command line should hear of it. The binding is tried on a copy: what
 * was said stays. */
static tl_status refuse_another(walk *w, const tl_class *cls, const tl_field *f, const void *value,
                                tl_place said, tli_gin_binding *b)
{
    tli_apply a = *w->apply;
    void *other = tl_arena_copy(a.arena, value, cls->config->size);
    if (!other) return TL_ENOMEM;
    a.sources = NULL;
    TL_TRY(put(&a, w->gin, cls, f, other, b));
    if (tli_field_equal(f, value, other)) return TL_OK;
    tl_str place = TL_STR_INIT;
    tl_place_write(&place, b->place);
    tli_diag(a.diags, TL_EINVAL, said, tl_str_text(&a.path),
             "gin binds another value to it (%s); set it in one place only", tl_str_text(&place));
    tl_str_deinit(&place);
    return TL_OK;
}

static tl_status put_choice(walk *w, const overlay *o, const tl_class *cls, void *value)
{
    tl_str *path = &w->apply->path;
    size_t length = path->length;
    for (int64_t i = 0; i < o->count; i++) {
        const tl_field *f = o->info->fields[o->order[i]];
        tli_gin_binding *b = o->bound[o->order[i]];
        tli_path_name(path, f->name);
        tl_place said = tli_source_of(&w->config->sources, tl_str_text(path));
        TL_TRY(is_command_line(said) ? refuse_another(w, cls, f, value, said, b)
                                     : put(w->apply, w->gin, cls, f, value, b));
        tl_str_cut(path, length);
    }
    return TL_OK;
}

static tl_status configure(walk *w, const tl_desc *desc, void *value, const overlay *set);

/* The class that a one-of has chosen, if gin can name it. */
static const tl_class *chosen(const walk *w, const tl_field *f, const tl_oneof *o)
{
    if (!o->type || !f->kind || !f->kind->names_are_keys) return NULL;
    const tl_class *cls = tl_registry_peek(w->gin->registry, f->kind, o->type);
    return cls && cls->config ? cls : NULL;
}

static tl_status configure_choice(walk *w, const tl_field *f, tl_oneof *o)
{
    const tl_class *cls = chosen(w, f, o);
    overlay over = {0};
    void *value = o->value;
    if (!cls && !value) return TL_OK;
    if (!value) TL_TRY(tl_oneof_select(&value, o, f, o->type, w->apply->arena, w->gin->registry));
    tli_path_name(&w->apply->path, o->type);
    if (cls) {
        TL_TRY(look_up(&over, w->gin, cls, w->apply->arena));
        TL_TRY(put_choice(w, &over, cls, value));
    }
    return configure(w, o->desc, value, &over);
}

/* A section that is no choice has a class all the same when its row names a kind: that whose config
 * it is. */
static const tl_class *class_of_section(const walk *w, const tl_field *f, const tl_desc *desc)
{
    if (!f->kind || !f->kind->names_are_keys) return NULL;
    for (int64_t i = 0; i < tl_registry_count(w->gin->registry, f->kind); i++) {
        const tl_class *cls = tl_registry_at(w->gin->registry, f->kind, i);
        if (cls->config == desc) return cls;
    }
    return NULL;
}

static tl_status configure_section(walk *w, const tl_field *f, const tl_desc *desc, void *value)
{
    const tl_class *cls = class_of_section(w, f, desc);
    overlay over = {0};
    if (cls) {
        TL_TRY(look_up(&over, w->gin, cls, w->apply->arena));
        TL_TRY(put_choice(w, &over, cls, value));
    }
    return configure(w, desc, value, &over);
}

static tl_status configure_field(walk *w, const tl_field *f, void *value)
{
    void *member = tl_field_at(f, value), *inner = NULL;
    size_t length = w->apply->path.length;
    if (f->type == TL_TYPE_ONEOF && f->arity == TL_ONE) return configure_choice(w, f, member);
    if (f->type == TL_TYPE_STRUCT && f->arity == TL_LIST) {
        const tl_structs *list = member;
        for (int64_t i = 0; i < list->count; i++) {
            tli_path_index(&w->apply->path, i);
            TL_TRY(configure(w, f->desc, (char *)list->items + (size_t)i * f->desc->size, NULL));
            tl_str_cut(&w->apply->path, length);
        }
        return TL_OK;
    }
    if (f->type == TL_TYPE_STRUCT) inner = f->arity == TL_ONE ? member : *(void **)member;
    else if (f->type == TL_TYPE_OBJECT) inner = ((tl_object *)member)->value;
    return inner ? configure_section(w, f, tli_field_desc(f, value), inner) : TL_OK;
}

/* What gin has `set` was made by its calls already. */
static tl_status configure(walk *w, const tl_desc *desc, void *value, const overlay *set)
{
    size_t length = w->apply->path.length;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) {
        int64_t place = set && set->info ? tli_gin_info_index(set->info, r.field->name) : -1;
        if (place >= 0 && set->bound[place]) continue;
        tli_path_name(&w->apply->path, r.field->name);
        TL_TRY(configure_field(w, r.field, value));
        tl_str_cut(&w->apply->path, length);
    }
    return TL_OK;
}

tl_status tl_gin_configure(tl_gin *gin, tl_config *config)
{
    TL_TRY(tli_config_open(config));
    if (gin->bindings.count == 0) return TL_OK;
    tli_diags diags = TLI_DIAGS_INIT;
    tli_apply a = tli_config_apply(config, &diags);
    walk w = {gin, config, &a};
    tl_status st = configure(&w, config->desc, config->value, NULL);
    if (st == TL_OK) st = tl_str_status(&a.path);
    if (st == TL_OK) st = tli_diags_status(&diags);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}
