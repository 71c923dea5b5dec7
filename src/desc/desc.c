#include <tilth/desc/desc.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/map.h>
#include <tilth/desc/class.h>
#include <tilth/desc/config.h>

#include "desc/config/apply.h"

/* --- rows ------------------------------------------------------------------------------------- */

tli_rows tli_rows_of(const tl_desc *desc)
{
    return (tli_rows){.top = desc, .desc = desc, .next = desc->fields};
}

bool tli_rows_next(tli_rows *r)
{
    for (;;) {
        if (!r->next || !r->next->name) {
            r->desc = r->desc->base;
            if (!r->desc) return false;
            r->next = r->desc->fields;
            continue;
        }
        r->field = r->next++;
        // An inherited row is passed over when a row nearer to the top has its name.
        if (r->desc == r->top || tl_desc_field(r->top, r->field->name) == r->field) return true;
    }
}

const tl_field *tl_desc_field(const tl_desc *desc, const char *name)
{
    for (; desc; desc = desc->base)
        for (const tl_field *f = desc->fields; f && f->name; f++)
            if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const tl_field *const *f = a, *const *g = b;
    return strcmp((*f)->name, (*g)->name);
}

const tl_field **tl_desc_sorted(tl_arena *arena, const tl_desc *desc, int64_t *count)
{
    int64_t n = 0;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) n++;
    const tl_field **fields = tl_arena_array(arena, n, sizeof *fields);
    if (!fields) return NULL;
    n = 0;
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) fields[n++] = r.field;
    qsort(fields, (size_t)n, sizeof *fields, by_name);
    *count = n;
    return fields;
}

const char **tli_field_names(tl_arena *arena, const tl_desc *desc, int64_t *count)
{
    const tl_field **fields = tl_desc_sorted(arena, desc, count);
    const char **names = fields ? tl_arena_array(arena, *count, sizeof *names) : NULL;
    for (int64_t i = 0; names && i < *count; i++) names[i] = fields[i]->name;
    return names;
}

bool tl_desc_is(const tl_desc *desc, const tl_desc *base)
{
    while (desc && desc != base) desc = desc->base;
    return desc != NULL;
}

const tl_desc *tli_field_desc(const tl_field *field, const void *value)
{
    const void *member = tl_field_at(field, value);
    if (field->type == TL_TYPE_STRUCT) return field->desc;
    if (field->type == TL_TYPE_OBJECT) {
        const tl_object *o = member;
        return o->desc ? o->desc : field->desc;
    }
    return field->type == TL_TYPE_ONEOF ? ((const tl_oneof *)member)->desc : NULL;
}

size_t tli_element_size(const tl_field *field)
{
    switch (field->type) {
    case TL_TYPE_BOOL: return sizeof(bool);
    case TL_TYPE_INT: return sizeof(int64_t);
    case TL_TYPE_DOUBLE: return sizeof(double);
    case TL_TYPE_STRING: return sizeof(const char *);
    case TL_TYPE_ENUM: return sizeof(int);
    case TL_TYPE_STRUCT: return field->desc->size;
    default: return 0;
    }
}

tl_field tli_element_field(const tl_field *field)
{
    tl_field element = *field;
    element.arity = TL_ONE;
    element.offset = 0;
    element.size = tli_element_size(field);
    element.flags &= ~TL_FIELD_NULLABLE;
    element.init = NULL; // belongs to the list as a whole
    return element;
}

/* All list members have this layout; their item types differ. */
typedef struct any_list {
    void *items;
    int64_t count;
} any_list;

static void *item_at(const any_list *list, const tl_field *element, int64_t i)
{
    return (char *)list->items + (size_t)i * element->size;
}

/* --- defaults --------------------------------------------------------------------------------- */

static tl_status default_struct(tl_arena *arena, const tl_field *f, void *value)
{
    TL_TRY(tl_desc_defaults(arena, f->desc, value));
    if (f->init) f->init(value);
    return TL_OK;
}

static tl_status new_default_struct(void **out, tl_arena *arena, const tl_field *f)
{
    *out = tl_arena_alloc(arena, f->desc->size);
    return *out ? default_struct(arena, f, *out) : TL_ENOMEM;
}

/* YAML text; "" is the empty string rather than nothing. */
static tl_status default_value(tl_arena *arena, const tl_field *f, const tl_value **out)
{
    *out = NULL;
    if (!f->s) return TL_OK;
    if (*f->s) return tl_yaml_parse(out, arena, f->s, strlen(f->s), TLI_DEFAULT);
    *out = tl_value_new_scalar(arena, (tl_place){TLI_DEFAULT, 0, 0}, "", true);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status default_field(tl_arena *arena, const tl_field *f, void *member)
{
    if (f->arity == TL_LIST) {
        const void *items = f->set && !f->items ? "" : f->items; // an empty list that is not null
        *(any_list *)member = (any_list){(void *)(uintptr_t)items, f->count};
        return TL_OK;
    }
    bool optional = f->arity == TL_OPTIONAL;
    switch (f->type) {
    case TL_TYPE_BOOL:
        if (optional) *(tl_opt_bool *)member = (tl_opt_bool){f->set, f->b};
        else *(bool *)member = f->b;
        return TL_OK;
    case TL_TYPE_INT:
        if (optional) *(tl_opt_int *)member = (tl_opt_int){f->set, f->i};
        else *(int64_t *)member = f->i;
        return TL_OK;
    case TL_TYPE_DOUBLE:
        if (optional) *(tl_opt_double *)member = (tl_opt_double){f->set, f->d};
        else *(double *)member = f->d;
        return TL_OK;
    case TL_TYPE_STRING:
        *(const char **)member = f->s || f->flags & TL_FIELD_NULLABLE ? f->s : "";
        return TL_OK;
    case TL_TYPE_ENUM: *(int *)member = (int)f->i; return TL_OK;
    case TL_TYPE_STRUCT:
        if (!optional) return default_struct(arena, f, member);
        *(void **)member = NULL;
        return f->set ? new_default_struct(member, arena, f) : TL_OK;
    case TL_TYPE_OBJECT: {
        tl_object *o = member;
        *o = (tl_object){f->desc, NULL};
        return f->set ? new_default_struct(&o->value, arena, f) : TL_OK;
    }
    case TL_TYPE_ONEOF:
        *(tl_oneof *)member = (tl_oneof){0};
        return f->s ? tl_oneof_select(NULL, member, f, f->s, arena, NULL) : TL_OK;
    case TL_TYPE_VALUE: return default_value(arena, f, member);
    case TL_TYPE_REF: *(tl_ref *)member = (tl_ref){.scope = ""}; return TL_OK;
    case TL_TYPE_NONE: break;
    }
    return TL_FAIL(TL_EINTERNAL, "field '%s' has a type that no row can have", f->name);
}

static void run_inits(const tl_desc *desc, void *value)
{
    if (desc->base) run_inits(desc->base, value);
    if (desc->init) desc->init(value);
}

tl_status tl_desc_defaults(tl_arena *arena, const tl_desc *desc, void *value)
{
    memset(value, 0, desc->size);
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);)
        TL_TRY(default_field(arena, r.field, tl_field_at(r.field, value)));
    run_inits(desc, value);
    return TL_OK;
}

tl_status tl_desc_new(void **out, tl_arena *arena, const tl_desc *desc)
{
    *out = tl_arena_alloc(arena, desc->size);
    return *out ? tl_desc_defaults(arena, desc, *out) : TL_ENOMEM;
}

tl_status tl_field_is_default(bool *out, const tl_desc *desc, const tl_field *field,
                              const void *value)
{
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    void *fresh;
    tl_status st = tl_desc_new(&fresh, scratch, desc);
    if (st == TL_OK) *out = tli_field_equal(field, value, fresh);
    tl_arena_free(&scratch);
    return st;
}

/* --- copy ------------------------------------------------------------------------------------- */

static tl_status copy_string(tl_arena *arena, const char **text)
{
    if (*text && !(*text = tl_arena_strdup(arena, *text))) return TL_ENOMEM;
    return TL_OK;
}

static tl_status copy_struct(tl_arena *arena, const tl_desc *desc, void **value)
{
    if (!*value) return TL_OK;
    void *copy = tl_arena_alloc(arena, desc->size);
    if (!copy) return TL_ENOMEM;
    TL_TRY(tl_desc_copy(arena, desc, copy, *value));
    *value = copy;
    return TL_OK;
}

static tl_status copy_oneof(tl_arena *arena, tl_oneof *o)
{
    TL_TRY(copy_string(arena, &o->type));
    o->value = NULL;
    for (tl_oneof_part **link = &o->parts; *link; link = &(*link)->next) {
        tl_oneof_part *part = tl_arena_copy(arena, *link, sizeof *part);
        if (!part) return TL_ENOMEM;
        TL_TRY(copy_string(arena, &part->name));
        TL_TRY(copy_struct(arena, part->desc, &part->value));
        if (o->type && strcmp(o->type, part->name) == 0) o->value = part->value;
        *link = part;
    }
    return TL_OK;
}

tl_status tli_copy_field(tl_arena *arena, const tl_field *f, void *member)
{
    if (f->arity == TL_LIST) {
        any_list *list = member;
        if (!list->items) return TL_OK;
        tl_field element = tli_element_field(f);
        list->items = tl_arena_copy(arena, list->items, (size_t)list->count * element.size);
        if (!list->items) return TL_ENOMEM;
        for (int64_t i = 0; i < list->count; i++)
            TL_TRY(tli_copy_field(arena, &element, item_at(list, &element, i)));
        return TL_OK;
    }
    switch (f->type) {
    case TL_TYPE_STRING: return copy_string(arena, member);
    case TL_TYPE_STRUCT:
        if (f->arity == TL_OPTIONAL) return copy_struct(arena, f->desc, member);
        for (tli_rows r = tli_rows_of(f->desc); tli_rows_next(&r);)
            TL_TRY(tli_copy_field(arena, r.field, tl_field_at(r.field, member)));
        return TL_OK;
    case TL_TYPE_OBJECT: {
        tl_object *o = member;
        return o->desc ? copy_struct(arena, o->desc, &o->value) : TL_OK;
    }
    case TL_TYPE_ONEOF: return copy_oneof(arena, member);
    case TL_TYPE_VALUE: {
        const tl_value **v = member;
        if (*v && !(*v = tl_value_copy(arena, *v))) return TL_ENOMEM;
        return TL_OK;
    }
    case TL_TYPE_REF: return copy_string(arena, &((tl_ref *)member)->scope);
    default: return TL_OK;
    }
}

tl_status tl_desc_copy(tl_arena *arena, const tl_desc *desc, void *to, const void *from)
{
    memmove(to, from, desc->size);
    const tl_field whole = {.type = TL_TYPE_STRUCT, .arity = TL_ONE, .desc = desc};
    return tli_copy_field(arena, &whole, to);
}

/* --- equality --------------------------------------------------------------------------------- */

static bool strings_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool doubles_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool structs_equal(const tl_desc *desc, const void *a, const void *b)
{
    return a == b || (a && b && tl_desc_equal(desc, a, b));
}

static bool field_equal(const tl_field *f, const void *a, const void *b);

static bool lists_equal(const tl_field *f, const any_list *a, const any_list *b)
{
    if (a->count != b->count || tli_list_is_null(f, a) != tli_list_is_null(f, b)) return false;
    tl_field element = tli_element_field(f);
    for (int64_t i = 0; i < a->count; i++)
        if (!field_equal(&element, item_at(a, &element, i), item_at(b, &element, i))) return false;
    return true;
}

static bool optionals_equal(const tl_field *f, const void *a, const void *b)
{
    if (f->type == TL_TYPE_BOOL) {
        const tl_opt_bool *p = a, *q = b;
        return p->set == q->set && (!p->set || p->value == q->value);
    }
    if (f->type == TL_TYPE_INT) {
        const tl_opt_int *p = a, *q = b;
        return p->set == q->set && (!p->set || p->value == q->value);
    }
    if (f->type == TL_TYPE_DOUBLE) {
        const tl_opt_double *p = a, *q = b;
        return p->set == q->set && (!p->set || doubles_equal(p->value, q->value));
    }
    return structs_equal(f->desc, *(void *const *)a, *(void *const *)b);
}

static bool field_equal(const tl_field *f, const void *a, const void *b)
{
    if (f->arity == TL_LIST) return lists_equal(f, a, b);
    if (f->arity == TL_OPTIONAL) return optionals_equal(f, a, b);
    switch (f->type) {
    case TL_TYPE_BOOL: return *(const bool *)a == *(const bool *)b;
    case TL_TYPE_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case TL_TYPE_DOUBLE: return doubles_equal(*(const double *)a, *(const double *)b);
    case TL_TYPE_STRING: return strings_equal(*(const char *const *)a, *(const char *const *)b);
    case TL_TYPE_ENUM: return *(const int *)a == *(const int *)b;
    case TL_TYPE_STRUCT: return tl_desc_equal(f->desc, a, b);
    case TL_TYPE_OBJECT: {
        const tl_object *p = a, *q = b;
        return p->desc == q->desc && structs_equal(p->desc, p->value, q->value);
    }
    case TL_TYPE_ONEOF: {
        const tl_oneof *p = a, *q = b;
        return strings_equal(p->type, q->type) && p->desc == q->desc
               && structs_equal(p->desc, p->value, q->value);
    }
    case TL_TYPE_VALUE:
        return tl_value_equal(*(const tl_value *const *)a, *(const tl_value *const *)b);
    case TL_TYPE_REF: {
        const tl_ref *p = a, *q = b;
        return p->target == q->target && strings_equal(p->scope, q->scope)
               && p->object == q->object;
    }
    case TL_TYPE_NONE: break;
    }
    return false;
}

bool tli_field_equal(const tl_field *field, const void *a, const void *b)
{
    return field_equal(field, tl_field_at(field, a), tl_field_at(field, b));
}

bool tl_desc_equal(const tl_desc *desc, const void *a, const void *b)
{
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);)
        if (!(r.field->flags & TL_FIELD_UNSAVED) && !tli_field_equal(r.field, a, b)) return false;
    return true;
}

/* --- hash ------------------------------------------------------------------------------------- */

static uint64_t hash_int(uint64_t h, int64_t value)
{
    return tl_hash_bytes(h, &value, sizeof value);
}

static uint64_t hash_double(uint64_t h, double value)
{
    double canonical = isnan(value) ? NAN : value + 0.0; // one NaN, and -0.0 equals 0.0
    return tl_hash_bytes(h, &canonical, sizeof canonical);
}

static uint64_t hash_string(uint64_t h, const char *text)
{
    return text ? tl_hash_string(hash_int(h, 1), text) : hash_int(h, 0);
}

static uint64_t hash_struct(uint64_t h, const tl_desc *desc, const void *value)
{
    return value ? tl_desc_hash(hash_int(h, 1), desc, value) : hash_int(h, 0);
}

static uint64_t hash_field(uint64_t h, const tl_field *f, const void *m)
{
    if (f->arity == TL_LIST) {
        const any_list *list = m;
        tl_field element = tli_element_field(f);
        h = hash_int(h, tli_list_is_null(f, list) ? -1 : list->count);
        for (int64_t i = 0; i < list->count; i++)
            h = hash_field(h, &element, item_at(list, &element, i));
        return h;
    }
    bool optional = f->arity == TL_OPTIONAL;
    switch (f->type) {
    case TL_TYPE_BOOL:
        if (!optional) return hash_int(h, *(const bool *)m);
        return hash_int(h, ((const tl_opt_bool *)m)->set ? ((const tl_opt_bool *)m)->value : 2);
    case TL_TYPE_INT:
        if (!optional) return hash_int(h, *(const int64_t *)m);
        h = hash_int(h, ((const tl_opt_int *)m)->set);
        return hash_int(h, ((const tl_opt_int *)m)->set ? ((const tl_opt_int *)m)->value : 0);
    case TL_TYPE_DOUBLE:
        if (!optional) return hash_double(h, *(const double *)m);
        h = hash_int(h, ((const tl_opt_double *)m)->set);
        return hash_double(h,
                           ((const tl_opt_double *)m)->set ? ((const tl_opt_double *)m)->value : 0);
    case TL_TYPE_STRING: return hash_string(h, *(const char *const *)m);
    case TL_TYPE_ENUM: return hash_int(h, *(const int *)m);
    case TL_TYPE_STRUCT: return hash_struct(h, f->desc, optional ? *(void *const *)m : m);
    case TL_TYPE_OBJECT:
        return hash_struct(h, ((const tl_object *)m)->desc, ((const tl_object *)m)->value);
    case TL_TYPE_ONEOF: {
        const tl_oneof *o = m;
        return hash_struct(hash_string(h, o->type), o->desc, o->value);
    }
    case TL_TYPE_VALUE: return tl_value_hash(h, *(const tl_value *const *)m);
    case TL_TYPE_REF: {
        const tl_ref *ref = m;
        return hash_string(hash_string(h, ref->target ? ref->target->name : NULL), ref->scope);
    }
    case TL_TYPE_NONE: break;
    }
    return h;
}

uint64_t tl_desc_hash(uint64_t seed, const tl_desc *desc, const void *value)
{
    uint64_t h = hash_string(seed, desc->name);
    for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);)
        if (!(r.field->flags & TL_FIELD_UNSAVED))
            h = hash_field(h, r.field, tl_field_at(r.field, value));
    return h;
}
