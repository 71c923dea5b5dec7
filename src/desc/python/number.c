/* Arithmetic of Python: integers that fit into 64 bits, floats, strings and lists that are joined
 * and repeated. */
#include <math.h>
#include <string.h>

#include "desc/python/impl.h"

static bool is_integer(const tli_py *v)
{
    return v->kind == TLI_PY_INT || v->kind == TLI_PY_BOOL;
}

static bool is_number(const tli_py *v)
{
    return is_integer(v) || v->kind == TLI_PY_FLOAT;
}

static double number(const tli_py *v)
{
    return v->kind == TLI_PY_FLOAT ? v->d : (double)v->i;
}

static tl_status given(const tli_py *v)
{
    return v ? TL_OK : tl_error_code();
}

/* --- integers --------------------------------------------------------------------------------- */

static tl_status too_large(tl_place place)
{
    return TLI_PY_FAIL(place, TL_ELIMIT, "this integer needs more than 64 bits");
}

static tl_status by_zero(tl_place place)
{
    return TLI_PY_FAIL(place, TL_EINVAL, "a division by zero");
}

static bool power_overflows(int64_t *out, int64_t base, int64_t exponent)
{
    *out = 1;
    if (base == 0 || base == 1 || base == -1) { // else 63 rounds are enough
        if (exponent) *out = base == -1 && exponent % 2 == 0 ? 1 : base;
        return false;
    }
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*out, base, out)) return true;
    return false;
}

/* Towards minus infinity, with the remainder's sign that of `b`. */
static tl_status divide_integers(int64_t *quotient, int64_t *rest, int64_t a, int64_t b,
                                 tl_place place)
{
    if (b == 0) return by_zero(place);
    if (b == -1) { // INT64_MIN has no negative
        *rest = 0;
        return __builtin_sub_overflow(0, a, quotient) ? too_large(place) : TL_OK;
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) *quotient -= 1, *rest += b;
    return TL_OK;
}

static tl_status integers(tli_py **out, tli_py_reader *r, int64_t a, const char *operator,
                          int64_t b, tl_place place)
{
    int64_t result = 0, rest = 0;
    bool over = false;
    switch (*operator) {
    case '+': over = __builtin_add_overflow(a, b, &result); break;
    case '-': over = __builtin_sub_overflow(a, b, &result); break;
    case '*':
        over = operator[1] ? power_overflows(&result, a, b) : __builtin_mul_overflow(a, b, &result);
        break;
    case '/': TL_TRY(divide_integers(&result, &rest, a, b, place)); break;
    default: // %
        if (b != -1) TL_TRY(divide_integers(&rest, &result, a, b, place));
    }
    if (over) return too_large(place);
    *out = tli_py_new_int(r, result, place);
    return given(*out);
}

/* --- floats ----------------------------------------------------------------------------------- */

/* Python rounds the exact quotient of two integers, which those above 2^53 would need. */
static tl_status check_exact(const tli_py *v, tl_place place)
{
    const int64_t most = INT64_C(1) << 53;
    if (!is_integer(v) || (v->i >= -most && v->i <= most)) return TL_OK;
    return TLI_PY_FAIL(place, TL_ELIMIT, "integers above 2**53 are not divided");
}

static double floor_quotient(double a, double b, double *rest)
{
    double left = fmod(a, b), quotient = (a - left) / b;
    if (left == 0) {
        left = copysign(0, b);
    } else if ((b < 0) != (left < 0)) {
        left += b;
        quotient -= 1;
    }
    *rest = left;
    if (quotient == 0) return copysign(0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static tl_status power(double *out, double a, double b, tl_place place)
{
    if (a == 0 && b < 0) return by_zero(place);
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return TLI_PY_FAIL(place, TL_EUNSUPPORTED, "a root of a negative number is no float");
    *out = pow(a, b);
    if (isinf(*out) && isfinite(a) && isfinite(b))
        return TLI_PY_FAIL(place, TL_ELIMIT, "this power is too large for a float");
    return TL_OK;
}

static tl_status floats(tli_py **out, tli_py_reader *r, const tli_py *left, const char *operator,
                        const tli_py * right, tl_place place)
{
    double a = number(left), b = number(right), result = 0, rest;
    switch (*operator) {
    case '+': result = a + b; break;
    case '-': result = a - b; break;
    case '*':
        if (operator[1]) TL_TRY(power(&result, a, b, place));
        else result = a * b;
        break;
    case '/':
        if (b == 0) return by_zero(place);
        if (is_integer(left) && is_integer(right)) {
            TL_TRY(check_exact(left, place));
            TL_TRY(check_exact(right, place));
        }
        result = operator[1] ? floor_quotient(a, b, &rest) : a / b;
        break;
    default: // %
        if (b == 0) return by_zero(place);
        (void)floor_quotient(a, b, &result);
    }
    *out = tli_py_new_float(r, result, place);
    return given(*out);
}

/* --- strings and lists ------------------------------------------------------------------------ */

static tl_status join_texts(tli_py **out, tli_py_reader *r, const tli_py *a, const tli_py *b,
                            tl_place place)
{
    size_t length = strlen(a->text) + strlen(b->text);
    if (length > TL_PYTHON_MAX_BYTES)
        return TLI_PY_FAIL(place, TL_ELIMIT, "this string has more than %d bytes",
                           (int)TL_PYTHON_MAX_BYTES);
    r->nodes += (int64_t)(length / 64); // bytes count as a value's weight does
    *out =
        tli_py_new_text(r, TLI_PY_TEXT, tl_arena_printf(r->arena, "%s%s", a->text, b->text), place);
    return given(*out);
}

static tl_status repeat_text(tli_py **out, tli_py_reader *r, const tli_py *v, int64_t times,
                             tl_place place)
{
    size_t length = strlen(v->text);
    if (times < 0 || length == 0) times = 0;
    if (times > TL_PYTHON_MAX_BYTES || length * (size_t)times > TL_PYTHON_MAX_BYTES)
        return TLI_PY_FAIL(place, TL_ELIMIT, "this string has more than %d bytes",
                           (int)TL_PYTHON_MAX_BYTES);
    r->nodes += (int64_t)(length * (size_t)times / 64);
    char *text = tl_arena_alloc(r->arena, length * (size_t)times + 1);
    for (int64_t i = 0; text && i < times; i++) memcpy(text + (size_t)i * length, v->text, length);
    *out = tli_py_new_text(r, TLI_PY_TEXT, text, place);
    return given(*out);
}

static tl_status add_items(tli_py *to, tli_py_reader *r, const tli_py *from)
{
    for (int64_t i = 0; i < from->count; i++) {
        tli_py *value = from->pairs[i].value;
        if (to->config) TL_TRY(tli_py_copy(&value, r, value, true));
        TL_TRY(tli_py_append(r, to, value));
    }
    return TL_OK;
}

static tl_status join_lists(tli_py **out, tli_py_reader *r, const tli_py *a, const tli_py *b,
                            tl_place place)
{
    tli_py *list = *out = tli_py_new(r, TLI_PY_LIST, place);
    if (!list) return tl_error_code();
    list->config = a->config || b->config;
    list->tuple = a->tuple && !list->config;
    TL_TRY(add_items(list, r, a));
    return add_items(list, r, b);
}

static tl_status repeat_list(tli_py **out, tli_py_reader *r, const tli_py *v, int64_t times,
                             tl_place place)
{
    tli_py *list = *out = tli_py_new(r, TLI_PY_LIST, place);
    if (!list) return tl_error_code();
    list->tuple = v->tuple;
    if (times < 0 || v->count == 0) times = 0;
    if (times > TL_PYTHON_MAX_NODES || v->count > TL_PYTHON_MAX_NODES / (times ? times : 1))
        return TLI_PY_FAIL(place, TL_ELIMIT, "this list has more than %d items",
                           (int)TL_PYTHON_MAX_NODES);
    for (int64_t i = 0; i < times; i++) TL_TRY(add_items(list, r, v));
    return TL_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool joins(const tli_py *a, const tli_py *b)
{
    bool lists = a->kind == TLI_PY_LIST && b->kind == TLI_PY_LIST && a->tuple == b->tuple;
    return lists || (a->kind == TLI_PY_TEXT && b->kind == TLI_PY_TEXT);
}

static bool repeats(const tli_py *a, const tli_py *b)
{
    return is_integer(b) && (a->kind == TLI_PY_TEXT || (a->kind == TLI_PY_LIST && !a->config));
}

tl_status tli_py_operate(tli_py **out, tli_py_reader *r, const tli_py *a, const char *operator,
                         const tli_py * b, tl_place place)
{
    if (is_number(a) && is_number(b)) {
        bool quotient = strcmp(operator, "/") == 0;
        bool negative_power = strcmp(operator, "**") == 0 && b->i < 0;
        if (is_integer(a) && is_integer(b) && !quotient && !negative_power)
            return integers(out, r, a->i, operator, b->i, place);
        return floats(out, r, a, operator, b, place);
    }
    if (strcmp(operator, "+") == 0 && joins(a, b))
        return a->kind == TLI_PY_TEXT ? join_texts(out, r, a, b, place)
                                      : join_lists(out, r, a, b, place);
    if (strcmp(operator, "*") == 0 && (repeats(a, b) || repeats(b, a))) {
        const tli_py *what = repeats(a, b) ? a : b;
        int64_t times = (what == a ? b : a)->i;
        return what->kind == TLI_PY_TEXT ? repeat_text(out, r, what, times, place)
                                         : repeat_list(out, r, what, times, place);
    }
    return TLI_PY_REFUSE(place, "'%s' between %s and %s", operator, tli_py_noun(a), tli_py_noun(b));
}

tl_status tli_py_negate(tli_py **out, tli_py_reader *r, const tli_py *v, tl_place place)
{
    if (v->kind == TLI_PY_FLOAT) {
        *out = tli_py_new_float(r, -v->d, place);
        return given(*out);
    }
    if (!is_integer(v)) return TLI_PY_REFUSE(place, "'-' before %s", tli_py_noun(v));
    if (v->i == INT64_MIN) return too_large(place);
    *out = tli_py_new_int(r, -v->i, place);
    return given(*out);
}
