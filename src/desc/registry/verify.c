/* Tables checked against the structs they describe. */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/desc/class.h>
#include <tilth/desc/yaml.h>

#include "desc/config/apply.h"

/* Descriptions under verification, innermost first, so that one that holds itself ends. */
typedef struct open_desc {
    const tl_desc *desc;
    const struct open_desc *outer;
} open_desc;

static size_t member_size(const tl_field *f)
{
    if (f->arity == TL_LIST) return sizeof(tl_structs);
    bool optional = f->arity == TL_OPTIONAL;
    switch (f->type) {
    case TL_TYPE_BOOL: return optional ? sizeof(tl_opt_bool) : sizeof(bool);
    case TL_TYPE_INT: return optional ? sizeof(tl_opt_int) : sizeof(int64_t);
    case TL_TYPE_DOUBLE: return optional ? sizeof(tl_opt_double) : sizeof(double);
    case TL_TYPE_STRING: return sizeof(char *);
    case TL_TYPE_ENUM: return sizeof(int);
    case TL_TYPE_STRUCT: return optional ? sizeof(void *) : f->desc->size;
    case TL_TYPE_OBJECT: return sizeof(tl_object);
    case TL_TYPE_ONEOF: return sizeof(tl_oneof);
    case TL_TYPE_VALUE: return sizeof(tl_value *);
    case TL_TYPE_REF: return sizeof(tl_ref);
    case TL_TYPE_NONE: break;
    }
    return 0;
}

static size_t member_alignment(const tl_field *f)
{
    if (f->arity == TL_ONE && f->type == TL_TYPE_BOOL) return _Alignof(bool);
    if (f->arity == TL_OPTIONAL && f->type == TL_TYPE_BOOL) return _Alignof(tl_opt_bool);
    if (f->arity == TL_ONE && f->type == TL_TYPE_ENUM) return _Alignof(int);
    return _Alignof(void *);
}

static tl_status verify_enum_default(const tl_field *f, int64_t number)
{
    int64_t count = 0;
    while (f->names[count]) count++;
    return number >= 0 && number < count ? TL_OK
                                         : TL_FAIL(TL_EINVAL, "its default is none of its names");
}

static tl_status verify_range(const tl_field *f, double number)
{
    if (!f->ranged || (number >= f->min && number <= f->max)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "its default is outside its own range");
}

/* A value's default is YAML text. */
static tl_status verify_value_default(const tl_field *f)
{
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    const tl_value *v = NULL;
    tl_status st = tl_yaml_parse(&v, scratch, f->s, strlen(f->s), TLI_DEFAULT);
    bool accepted = st == TL_OK && (v ? tli_accepts(f, v) : !!(f->accept & TL_ACCEPT_STRING));
    tl_arena_free(&scratch);
    TL_TRY_NOTE(st, "its default is not YAML");
    return accepted ? TL_OK : TL_FAIL(TL_EINVAL, "it does not accept its own default");
}

static tl_status verify_oneof_default(const tl_field *f)
{
    if (f->kind)
        return TL_FAIL(TL_EINVAL,
                       "an open one-of has no default type, as its types come with modules");
    for (const tl_branch *b = f->branches; b->name; b++)
        if (strcmp(b->name, f->s) == 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "its default is none of its branches");
}

static tl_status verify_list_default(const tl_field *f)
{
    if (f->count < 0 || (f->count > 0 && !f->items))
        return TL_FAIL(TL_EINVAL, "its default has a count but no items");
    for (int64_t i = 0; i < f->count; i++) {
        if (f->type == TL_TYPE_INT) TL_TRY(verify_range(f, (double)((const int64_t *)f->items)[i]));
        if (f->type == TL_TYPE_DOUBLE) TL_TRY(verify_range(f, ((const double *)f->items)[i]));
        if (f->type == TL_TYPE_ENUM) TL_TRY(verify_enum_default(f, ((const int *)f->items)[i]));
    }
    return TL_OK;
}

static tl_status verify_default(const tl_field *f)
{
    bool filled = f->flags & TL_FIELD_FILLED;
    if (filled && (f->arity != TL_OPTIONAL || f->type == TL_TYPE_STRUCT || !f->set))
        return TL_FAIL(TL_EINVAL, "TL_FIELD_FILLED is for optional numbers and flags that are set "
                                  "by default (TL_FILLED)");
    if (f->arity == TL_LIST) return verify_list_default(f);
    bool there = f->arity == TL_OPTIONAL ? f->set : !(f->flags & TL_FIELD_REQUIRED);
    if (f->type == TL_TYPE_ENUM) return verify_enum_default(f, f->i);
    if (f->type == TL_TYPE_INT && there) return verify_range(f, (double)f->i);
    if (f->type == TL_TYPE_DOUBLE && there) return verify_range(f, f->d);
    if ((f->type == TL_TYPE_VALUE && !f->s) || (f->type == TL_TYPE_OBJECT && !f->set))
        if (!(f->flags & TL_FIELD_NULLABLE))
            return TL_FAIL(TL_EINVAL, "it is null by default, but may not be null");
    if (f->type == TL_TYPE_VALUE && f->s) return verify_value_default(f);
    if (f->type == TL_TYPE_ONEOF && f->s) return verify_oneof_default(f);
    return TL_OK;
}

static tl_status verify_desc(const tl_desc *desc, const open_desc *outer);

static tl_status verify_row(const tl_desc *desc, const tl_field *f, const open_desc *outer)
{
    if (!f->help || !*f->help) return TL_FAIL(TL_EINVAL, "it has no help");
    if (f->type == TL_TYPE_NONE)
        return TL_FAIL(TL_EINVAL, "no row can have the type of this member "
                                  "(int64_t, double, bool, const char *, ...: see desc.h)");
    bool lists = f->type >= TL_TYPE_BOOL && f->type <= TL_TYPE_STRUCT;
    if (f->arity == TL_LIST && !lists) return TL_FAIL(TL_EINVAL, "there are no lists of this type");
    if (f->type == TL_TYPE_STRUCT && !f->desc) return TL_FAIL(TL_EINVAL, "it has no description");
    if (f->flags & TL_FIELD_INSIDE && (f->type != TL_TYPE_STRING || f->arity != TL_ONE))
        return TL_FAIL(TL_EINVAL, "only a string names something in a folder (TL_FIELD_INSIDE)");
    if (f->type == TL_TYPE_ENUM && !f->names)
        return TL_FAIL(TL_EINVAL, "an int is an enum and needs names (a number is an int64_t)");
    if (f->type == TL_TYPE_ONEOF && !f->branches == !f->kind)
        return TL_FAIL(TL_EINVAL, "it needs either branches or a kind");
    if (f->type == TL_TYPE_VALUE && !f->accept) return TL_FAIL(TL_EINVAL, "it accepts nothing");
    if (f->size > desc->size || f->offset > desc->size - f->size)
        return TL_FAIL(TL_EINVAL, "it lies outside the struct");
    if (f->size != member_size(f))
        return TL_FAIL(TL_EINVAL, "the member has %zu bytes, its type %zu", f->size,
                       member_size(f));
    if (f->pattern) {
        regex_t expression;
        int code = regcomp(&expression, f->pattern, REG_EXTENDED | REG_NOSUB);
        if (code == REG_ESPACE) return TL_FAIL(TL_ENOMEM, "out of memory");
        if (code != 0)
            return TL_FAIL(TL_EINVAL, "the pattern '%s' is not an extended regular expression",
                           f->pattern);
        regfree(&expression);
    }
    TL_TRY(verify_default(f));
    if (f->desc) TL_TRY(verify_desc(f->desc, outer));
    for (const tl_branch *b = f->branches; b && b->name; b++)
        if (b->desc) TL_TRY_NOTE(verify_desc(b->desc, outer), "branch '%s'", b->name);
    return TL_OK;
}

static int by_offset(const void *a, const void *b)
{
    const tl_field *const *f = a, *const *g = b;
    return (*f)->offset < (*g)->offset ? -1 : (*f)->offset > (*g)->offset;
}

/* Where padding may end before `start`: at the end of a base, too, whose size is a multiple of its
 * alignment. */
static bool ends_a_base(const tl_desc *desc, size_t start)
{
    for (const tl_desc *base = desc->base; base; base = base->base)
        if (base->size == start) return true;
    return false;
}

/* Every byte belongs to one row, but for the padding that the alignment of the next one explains.
 * (A lone bool hidden in padding is not seen.) */
static tl_status verify_layout(const tl_desc *desc)
{
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    tl_status st = TL_OK;
    int64_t count;
    const tl_field **fields = tl_desc_sorted(scratch, desc, &count);
    size_t end = 0;
    if (!fields) st = TL_ENOMEM;
    if (fields) qsort(fields, (size_t)count, sizeof *fields, by_offset);
    for (int64_t i = 0; st == TL_OK && i <= count; i++) {
        const tl_field *f = i < count ? fields[i] : NULL;
        size_t start = f ? f->offset : desc->size;
        size_t alignment = f && !ends_a_base(desc, start) ? member_alignment(f) : _Alignof(void *);
        if (start < end)
            st = TL_FAIL(TL_EINVAL, "field '%s' overlaps field '%s'", f->name, fields[i - 1]->name);
        else if (start - end >= alignment)
            st = TL_FAIL(TL_EINVAL, "%zu bytes at offset %zu have no row", start - end, end);
        end = f ? f->offset + f->size : end;
    }
    tl_arena_free(&scratch);
    return st;
}

static tl_status verify_desc(const tl_desc *desc, const open_desc *outer)
{
    for (const open_desc *o = outer; o; o = o->outer)
        if (o->desc == desc) return TL_OK;
    open_desc here = {desc, outer};
    if (!desc->name || !*desc->name) return TL_FAIL(TL_EINVAL, "a description has no name");
    if (desc->size == 0) return TL_FAIL(TL_EINVAL, "description '%s' has no size", desc->name);
    if (desc->base) {
        enum { LONGEST = 32 };
        int length = 0;
        for (const tl_desc *b = desc->base; b; b = b->base)
            if (b == desc || ++length > LONGEST)
                return TL_FAIL(TL_EINVAL, "the base chain of description '%s' does not end",
                               desc->name);
        TL_TRY(verify_desc(desc->base, &here));
        if (desc->base->size > desc->size)
            return TL_FAIL(TL_EINVAL, "description '%s' is smaller than its base '%s'", desc->name,
                           desc->base->name);
    }
    for (const tl_field *f = desc->fields; f && f->name; f++) {
        TL_TRY_NOTE(verify_row(desc, f, &here), "field '%s' of '%s'", f->name, desc->name);
        if (tl_desc_field(desc, f->name) != f)
            return TL_FAIL(TL_EINVAL, "description '%s' has two fields '%s'", desc->name, f->name);
        const tl_field *inherited = desc->base ? tl_desc_field(desc->base, f->name) : NULL;
        if (inherited && inherited->offset != f->offset)
            return TL_FAIL(TL_EINVAL,
                           "field '%s' of '%s' refines a field of its base but is another member",
                           f->name, desc->name);
        bool alike = !inherited || (inherited->type == f->type && inherited->arity == f->arity);
        if (!alike || (inherited && inherited->desc && !tl_desc_is(f->desc, inherited->desc)))
            return TL_FAIL(TL_EINVAL, "field '%s' of '%s' refines a field of its base but %s",
                           f->name, desc->name,
                           alike ? "is not described by what derives from its description"
                                 : "has another type");
    }
    TL_TRY_NOTE(verify_layout(desc), "description '%s'", desc->name);
    return TL_OK;
}

tl_status tl_desc_verify(const tl_desc *desc)
{
    return verify_desc(desc, NULL);
}

void tl_field_type_text(tl_str *out, const tl_field *f)
{
    static const char *const names[] = {
        [TL_TYPE_BOOL] = "bool",     [TL_TYPE_INT] = "int",       [TL_TYPE_DOUBLE] = "float",
        [TL_TYPE_STRING] = "string", [TL_TYPE_STRUCT] = "struct", [TL_TYPE_OBJECT] = "struct",
        [TL_TYPE_ONEOF] = "one of",  [TL_TYPE_REF] = "reference",
    };
    if (f->arity == TL_LIST) tl_str_add(out, "list of ");
    if (f->type == TL_TYPE_ENUM) {
        for (const char *const *n = f->names; *n; n++)
            tl_str_addf(out, "%s%s", n == f->names ? "" : " | ", *n);
    } else if (f->type == TL_TYPE_VALUE) {
        static const char *const accepted[] = {"bool", "number", "string", "list", "map"};
        const char *separator = "";
        for (int i = 0; i < 5; i++) {
            if (!(f->accept & 1 << i)) continue;
            tl_str_addf(out, "%s%s", separator, accepted[i]);
            separator = " or ";
        }
    } else if (f->type == TL_TYPE_ONEOF) {
        tl_str_add(out, f->kind ? "one of the " : "one of ");
        if (f->kind) tl_str_add(out, f->kind->plural);
        for (const tl_branch *b = f->branches; b && b->name; b++)
            tl_str_addf(out, "%s%s", b == f->branches ? "" : ", ", b->name);
    } else {
        tl_str_add(out, names[f->type] ? names[f->type] : "?");
    }
    if (tli_is_nullable(f)) tl_str_add(out, " or null");
}
