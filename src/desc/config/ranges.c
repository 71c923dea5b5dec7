#include "desc/inner/ranges.h"

#include <math.h>

static tl_status check_number(const tl_field *f, double number)
{
    if (!f->ranged || (number >= f->min && number <= f->max)) return TL_OK;
    if (f->flags & TL_FIELD_REQUIRED && number == 0) return TL_OK; // tl_desc_check tells
    if (isinf(f->max))
        return TL_FAIL(TL_EINVAL, "%s is %g and must be at least %g", f->name, number, f->min);
    return TL_FAIL(TL_EINVAL, "%s is %g and must lie between %g and %g", f->name, number, f->min,
                   f->max);
}

static tl_status check_enum(const tl_field *f, int number)
{
    int count = 0;
    while (f->names[count]) count++;
    if (number >= 0 && number < count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s is %d, which is none of its %d values", f->name, number, count);
}

static tl_status check_list(const tl_field *f, const void *member)
{
    const tl_ints *whole = member;
    const tl_doubles *list = member;
    for (int64_t i = 0; f->type == TL_TYPE_INT && i < whole->count; i++)
        TL_TRY(check_number(f, (double)whole->items[i]));
    for (int64_t i = 0; f->type == TL_TYPE_DOUBLE && i < list->count; i++)
        TL_TRY(check_number(f, list->items[i]));
    return TL_OK;
}

static tl_status check_optional(const tl_field *f, const void *member)
{
    const tl_opt_int *i = member;
    const tl_opt_double *d = member;
    if (f->type == TL_TYPE_INT && i->set) return check_number(f, (double)i->value);
    return f->type == TL_TYPE_DOUBLE && d->set ? check_number(f, d->value) : TL_OK;
}

static tl_status check_row(const tl_field *f, const void *member)
{
    if (f->arity == TL_LIST) return check_list(f, member);
    if (f->arity == TL_OPTIONAL) return check_optional(f, member);
    if (f->type == TL_TYPE_INT) return check_number(f, (double)*(const int64_t *)member);
    if (f->type == TL_TYPE_DOUBLE) return check_number(f, *(const double *)member);
    if (f->type == TL_TYPE_ENUM) return check_enum(f, *(const int *)member);
    if (f->type == TL_TYPE_ONEOF) {
        const tl_oneof *o = member;
        if (o->value && o->desc) TL_TRY_NOTE(tli_check_ranges(o->desc, o->value), "%s", f->name);
    }
    return TL_OK;
}

tl_status tli_check_ranges(const tl_desc *desc, const void *value)
{
    if (desc->base) TL_TRY(tli_check_ranges(desc->base, value));
    for (const tl_field *f = desc->fields; f->name; f++)
        TL_TRY(check_row(f, tl_field_at(f, value)));
    return TL_OK;
}
