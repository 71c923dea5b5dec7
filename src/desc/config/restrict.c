/* Restrictions: "task.train_data.is_training != None", "a.low <= a.high". */
#include "desc/config/restrict.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "desc/config/path.h"

typedef enum operand_kind {
    OPERAND_NULL,
    OPERAND_NUMBER,
    OPERAND_STRING,
    OPERAND_OTHER
} operand_kind;

typedef struct operand {
    operand_kind kind;
    double number;
    const char *text;
} operand;

static operand of_number(double number)
{
    return (operand){OPERAND_NUMBER, number, NULL};
}

static operand of_string(const char *text)
{
    return (operand){text ? OPERAND_STRING : OPERAND_NULL, 0, text};
}

static operand of_optional(const tl_field *f, const void *m)
{
    const operand null = {OPERAND_NULL, 0, NULL};
    const tl_opt_bool *b = m;
    const tl_opt_int *i = m;
    const tl_opt_double *d = m;
    switch (f->type) {
    case TL_TYPE_BOOL: return b->set ? of_number(b->value) : null;
    case TL_TYPE_INT: return i->set ? of_number((double)i->value) : null;
    case TL_TYPE_DOUBLE: return d->set ? of_number(d->value) : null;
    default: return *(void *const *)m ? (operand){OPERAND_OTHER, 0, NULL} : null;
    }
}

static operand of_value(const tl_value *v)
{
    double number;
    bool flag;
    if (!v || tl_value_is_null(v)) return of_string(NULL);
    if (v->kind != TL_VALUE_SCALAR) return (operand){OPERAND_OTHER, 0, NULL};
    if (tl_value_bool(v, &flag)) return of_number(flag);
    return tl_value_double(v, &number) ? of_number(number) : of_string(v->text);
}

static operand of_spot(const tli_spot *s)
{
    const tl_field *f = &s->field;
    const void *m = tl_field_at(f, s->value);
    if (s->free) return of_value(s->free);
    if (s->oneof) return of_string(((const tl_oneof *)m)->type);
    if (f->arity == TL_OPTIONAL) return of_optional(f, m);
    if (f->arity == TL_LIST)
        return (operand){tli_list_is_null(f, m) ? OPERAND_NULL : OPERAND_OTHER, 0, NULL};
    switch (f->type) {
    case TL_TYPE_BOOL: return of_number(*(const bool *)m);
    case TL_TYPE_INT: return of_number((double)*(const int64_t *)m);
    case TL_TYPE_DOUBLE: return of_number(*(const double *)m);
    case TL_TYPE_STRING: return of_string(*(const char *const *)m);
    case TL_TYPE_ENUM: {
        const char *name = f->names[*(const int *)m];
        return of_string(strcmp(name, "null") == 0 ? NULL : name);
    }
    case TL_TYPE_VALUE: return of_value(*(const tl_value *const *)m);
    case TL_TYPE_OBJECT:
        return (operand){((const tl_object *)m)->value ? OPERAND_OTHER : OPERAND_NULL, 0, NULL};
    default: return (operand){OPERAND_OTHER, 0, NULL};
    }
}

/* A number, None, or a path from `value`. */
static tl_status read_operand(operand *out, tl_arena *arena, const char *text, const tl_desc *desc,
                              const void *value)
{
    if (isdigit((unsigned char)text[0]) || (text[0] == '-' && isdigit((unsigned char)text[1]))) {
        char *end;
        *out = of_number(tl_strtod(text, &end));
        return *end ? TL_FAIL(TL_EINVAL, "'%s' is not a number", text) : TL_OK;
    }
    if (strcmp(text, "None") == 0 || strcmp(text, "null") == 0) {
        *out = of_string(NULL);
        return TL_OK;
    }
    tli_path path;
    tli_spot spot;
    TL_TRY(tli_path_parse(&path, arena, text));
    TL_TRY(tli_path_find(&spot, NULL, desc, (void *)(uintptr_t)value, &path));
    *out = of_spot(&spot);
    return TL_OK;
}

static bool equal(operand a, operand b)
{
    if (a.kind != b.kind) return false;
    if (a.kind == OPERAND_NUMBER) return a.number == b.number;
    return a.kind == OPERAND_NULL || (a.kind == OPERAND_STRING && strcmp(a.text, b.text) == 0);
}

static tl_status holds(bool *out, const char *operator, operand a, operand b)
{
    bool same = equal(a, b);
    if (operator[0] == '=' || operator[0] == '!') {
        *out = same == (operator[0] == '=');
        return TL_OK;
    }
    if (a.kind != OPERAND_NUMBER || b.kind != OPERAND_NUMBER)
        return TL_FAIL(TL_EINVAL, "only numbers can be compared with %s", operator);
    bool less = a.number < b.number;
    if (operator[0] == '<') *out = less || (operator[1] == '=' && same);
    else *out = operator[1] == '=' ? a.number >= b.number : a.number> b.number;
    return TL_OK;
}

static char *trimmed(tl_arena *arena, const char *start, const char *end)
{
    while (start < end && isspace((unsigned char)*start)) start++;
    while (end > start && isspace((unsigned char)end[-1])) end--;
    return tl_arena_strndup(arena, start, (size_t)(end - start));
}

static tl_status evaluate(bool *out, tl_arena *arena, const char *text, const tl_desc *desc,
                          const void *value)
{
    // In this order, so that <= is not taken for <.
    static const char *const operators[] = {"==", "!=", "<=", "<", ">=", ">"};
    for (int64_t i = 0; i < TL_COUNT(operators); i++) {
        const char *at = strstr(text, operators[i]);
        if (!at) continue;
        const char *behind = at + strlen(operators[i]);
        char *left = trimmed(arena, text, at), *right = trimmed(arena, behind, text + strlen(text));
        if (!left || !right) return TL_ENOMEM;
        if (strstr(behind, operators[i]) || !*left || !*right)
            return TL_FAIL(TL_EINVAL, "expected two operands, as in 'a.b %s 3'", operators[i]);
        operand a, b;
        TL_TRY(read_operand(&a, arena, left, desc, value));
        TL_TRY(read_operand(&b, arena, right, desc, value));
        return holds(out, operators[i], a, b);
    }
    return TL_FAIL(TL_EINVAL, "expected one of == != <= < >= >");
}

tl_status tli_restrict(const char *text, const tl_desc *desc, const void *value)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    bool fulfilled = false;
    tl_status st = evaluate(&fulfilled, arena, text, desc, value);
    tl_arena_free(&arena);
    if (st == TL_ENOMEM) return st;
    if (st != TL_OK) return tl_error_note(st, "restriction '%s'", text);
    return fulfilled ? TL_OK : TL_FAIL(TL_EINVAL, "the restriction '%s' does not hold", text);
}
