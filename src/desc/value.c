#include <tilth/desc/value.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/map.h>

#include "desc/config/apply.h"

void tli_add_visible(tl_str *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f) tl_str_addf(out, "\\x%02x", c);
        else tl_str_addc(out, *p);
    }
}

void tl_place_write(tl_str *out, tl_place place)
{
    tli_add_visible(out, place.source ? place.source : "");
    if (place.line > 0) tl_str_addf(out, ":%d:%d", place.line, place.column);
}

/* --- reading scalars -------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0) return true;
    return false;
}

bool tl_value_is_null(const tl_value *v)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", "None", NULL};
    return v->kind == TL_VALUE_SCALAR && !v->quoted && is_one_of(v->text, nulls);
}

bool tl_value_bool(const tl_value *v, bool *out)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    if (v->kind != TL_VALUE_SCALAR || v->quoted) return false;
    *out = is_one_of(v->text, yes);
    return *out || is_one_of(v->text, no);
}

enum { NUMBER_ROOM = 80 };

/* A number without the underscores that may group its digits: the text itself, or a copy in `room`.
 * NULL when it is too long to be a number, or an underscore does not stand behind a digit. */
static const char *strip_underscores(char room[NUMBER_ROOM], const char *text)
{
    if (!strchr(text, '_')) return text;
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '_') {
            if (p == text || strchr("+-._", p[-1])) return NULL;
            continue;
        }
        if (n + 1 >= NUMBER_ROOM) return NULL;
        room[n++] = *p;
    }
    room[n] = '\0';
    return room;
}

/* 12, -0x1f, 0b101, 0o17 and, as YAML 1.1 has it, 017. */
static bool read_whole(const char *text, int64_t *out)
{
    char room[NUMBER_ROOM];
    const char *p = strip_underscores(room, text);
    if (!p) return false;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    int base = 10;
    if (p[0] == '0' && p[1]) {
        base = p[1] == 'x' || p[1] == 'X' ? 16 : p[1] == 'b' || p[1] == 'B' ? 2 : 8;
        p += base != 8 || p[1] == 'o' || p[1] == 'O' ? 2 : 1;
    }
    // strtoull itself would accept blanks, a second sign and a second prefix.
    if (!*p || p[strspn(p, base == 16 ? "0123456789abcdefABCDEF" : "0123456789")]) return false;
    char *end;
    errno = 0;
    unsigned long long magnitude = strtoull(p, &end, base);
    unsigned long long limit = (unsigned long long)INT64_MAX + negative;
    if (*end || errno || magnitude > limit) return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* Decimal notation alone: 1.5, 1e-4, 1.0e6, .5, 5. */
static bool read_decimal(const char *text, double *out)
{
    char room[NUMBER_ROOM];
    const char *digits = strip_underscores(room, text);
    if (!digits) return false;
    if (strspn(digits, "+-0123456789.eE") != strlen(digits)) return false;
    if (!strpbrk(digits, "0123456789")) return false;
    char *end;
    *out = tl_strtod(digits, &end);
    return *end == '\0';
}

static bool read_special(const char *text, bool bare, double *out)
{
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (*p == '.') p++;
    else if (!bare) return false;
    static const char *const infinities[] = {"inf", "Inf", "INF", "infinity", "Infinity", NULL};
    static const char *const nans[] = {"nan", "NaN", "NAN", NULL};
    if (is_one_of(p, infinities)) *out = negative ? -INFINITY : INFINITY;
    else if (is_one_of(p, nans)) *out = NAN;
    else return false;
    return true;
}

bool tl_value_double(const tl_value *v, double *out)
{
    if (v->kind != TL_VALUE_SCALAR || v->quoted) return false;
    int64_t whole;
    if (read_whole(v->text, &whole)) {
        *out = (double)whole;
        return true;
    }
    return read_decimal(v->text, out) || read_special(v->text, true, out);
}

bool tl_value_int(const tl_value *v, int64_t *out)
{
    if (v->kind != TL_VALUE_SCALAR || v->quoted) return false;
    if (read_whole(v->text, out)) return true;
    double d;
    // From 2^53 on the text may have been another number than the double it was rounded to.
    if (!read_decimal(v->text, &d) || d != floor(d) || fabs(d) >= 9007199254740992.0) return false;
    *out = (int64_t)d;
    return true;
}

/* 08: neither octal nor, in YAML 1.1, decimal. */
static bool is_padded(const char *text)
{
    if (*text == '-' || *text == '+') text++;
    return *text == '0' && !text[strspn(text, "0123456789_")];
}

tl_scalar tl_value_scalar(const tl_value *v)
{
    bool b;
    int64_t i;
    double d;
    if (v->quoted) return TL_SCALAR_STRING;
    if (tl_value_is_null(v)) return TL_SCALAR_NULL;
    if (tl_value_bool(v, &b)) return TL_SCALAR_BOOL;
    if (read_whole(v->text, &i)) return TL_SCALAR_INT;
    if (is_padded(v->text)) return TL_SCALAR_STRING;
    if (read_decimal(v->text, &d) || read_special(v->text, false, &d)) return TL_SCALAR_DOUBLE;
    return TL_SCALAR_STRING;
}

/* --- building --------------------------------------------------------------------------------- */

static tl_value *new_value(tl_arena *arena, tl_value_kind kind, tl_place place)
{
    tl_value *v = tl_arena_alloc(arena, sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    v->place = place;
    v->weight = 1;
    return v;
}

/* A long text weighs more than a short one, or an alias of it could be used too often. */
static int64_t text_weight(const char *text)
{
    enum { BYTES = 64 };
    return 1 + (int64_t)(strlen(text) / BYTES);
}

tl_value *tl_value_new_scalar(tl_arena *arena, tl_place place, const char *text, bool quoted)
{
    tl_value *v = new_value(arena, TL_VALUE_SCALAR, place);
    if (!v || !(v->text = tl_arena_strdup(arena, text))) return NULL;
    v->quoted = quoted;
    v->weight = text_weight(text);
    return v;
}

tl_value *tl_value_new_list(tl_arena *arena, tl_place place, const tl_value *const *items,
                            int64_t count)
{
    tl_value *v = new_value(arena, TL_VALUE_LIST, place);
    if (!v) return NULL;
    v->items = tl_arena_copy(arena, items, (size_t)count * sizeof *items);
    if (!v->items) return NULL;
    v->count = count;
    for (int64_t i = 0; i < count; i++) v->weight += items[i]->weight;
    return v;
}

tl_value *tl_value_new_map(tl_arena *arena, tl_place place, const tl_value_pair *pairs,
                           int64_t count)
{
    tl_value *v = new_value(arena, TL_VALUE_MAP, place);
    if (!v) return NULL;
    v->pairs = tl_arena_copy(arena, pairs, (size_t)count * sizeof *pairs);
    if (!v->pairs) return NULL;
    v->count = count;
    for (int64_t i = 0; i < count; i++)
        v->weight += text_weight(pairs[i].key) + pairs[i].value->weight;
    return v;
}

/* --- using ------------------------------------------------------------------------------------ */

const tl_value *tl_value_get(const tl_value *v, const char *key)
{
    if (!v || v->kind != TL_VALUE_MAP) return NULL;
    for (int64_t i = 0; i < v->count; i++)
        if (strcmp(v->pairs[i].key, key) == 0) return v->pairs[i].value;
    return NULL;
}

static bool scalars_equal(const tl_value *a, const tl_value *b)
{
    tl_scalar type = tl_value_scalar(a);
    if (type != tl_value_scalar(b)) return false;
    bool p, q;
    int64_t i, j;
    double x, y;
    switch (type) {
    case TL_SCALAR_NULL: return true;
    case TL_SCALAR_BOOL: return tl_value_bool(a, &p) && tl_value_bool(b, &q) && p == q;
    case TL_SCALAR_INT: return read_whole(a->text, &i) && read_whole(b->text, &j) && i == j;
    case TL_SCALAR_DOUBLE:
        return tl_value_double(a, &x) && tl_value_double(b, &y)
               && (x == y || (isnan(x) && isnan(y)));
    case TL_SCALAR_STRING: break;
    }
    return strcmp(a->text, b->text) == 0;
}

bool tl_value_equal(const tl_value *a, const tl_value *b)
{
    if (!a || !b) return a == b;
    if (a->kind != b->kind || a->count != b->count) return false;
    switch (a->kind) {
    case TL_VALUE_SCALAR: return scalars_equal(a, b);
    case TL_VALUE_MACRO: return strcmp(a->text, b->text) == 0;
    case TL_VALUE_REFERENCE: return a->called == b->called && strcmp(a->text, b->text) == 0;
    case TL_VALUE_LIST:
        for (int64_t i = 0; i < a->count; i++)
            if (!tl_value_equal(a->items[i], b->items[i])) return false;
        return true;
    case TL_VALUE_MAP:
        for (int64_t i = 0; i < a->count; i++) {
            const tl_value *other = tl_value_get(b, a->pairs[i].key);
            if (!other || !tl_value_equal(a->pairs[i].value, other)) return false;
        }
        return true;
    }
    return false;
}

static uint64_t hash_scalar(uint64_t h, const tl_value *v)
{
    tl_scalar type = tl_value_scalar(v);
    h = tl_hash_bytes(h, &(char){(char)type}, 1);
    bool b = false;
    int64_t i = 0;
    double d = 0;
    switch (type) {
    case TL_SCALAR_NULL: return h;
    case TL_SCALAR_BOOL: (void)tl_value_bool(v, &b); return tl_hash_bytes(h, &(char){b}, 1);
    case TL_SCALAR_INT: (void)read_whole(v->text, &i); return tl_hash_bytes(h, &i, sizeof i);
    case TL_SCALAR_DOUBLE:
        (void)tl_value_double(v, &d);
        if (isnan(d)) d = NAN;
        d += 0.0; // -0.0 equals 0.0
        return tl_hash_bytes(h, &d, sizeof d);
    case TL_SCALAR_STRING: break;
    }
    return tl_hash_string(h, v->text);
}

uint64_t tl_value_hash(uint64_t seed, const tl_value *v)
{
    if (!v) return tl_hash_bytes(seed, "\xff", 1);
    uint64_t h = tl_hash_bytes(seed, &(char){(char)v->kind}, 1);
    switch (v->kind) {
    case TL_VALUE_SCALAR: return hash_scalar(h, v);
    case TL_VALUE_REFERENCE:
        h = tl_hash_bytes(h, &(char){v->called}, 1); // and its text
    /* fall through */
    case TL_VALUE_MACRO: return tl_hash_string(h, v->text);
    case TL_VALUE_LIST:
        for (int64_t i = 0; i < v->count; i++) h = tl_value_hash(h, v->items[i]);
        return h;
    case TL_VALUE_MAP: {
        uint64_t sum = 0; // equal maps may be in any order
        for (int64_t i = 0; i < v->count; i++)
            sum += tl_value_hash(tl_hash_string(TL_HASH_SEED, v->pairs[i].key), v->pairs[i].value);
        return tl_hash_bytes(h, &sum, sizeof sum);
    }
    }
    return h;
}

static bool copy_place(tl_arena *arena, tl_place *place)
{
    return !place->source || (place->source = tl_arena_strdup(arena, place->source));
}

const tl_value *tl_value_copy(tl_arena *arena, const tl_value *v)
{
    if (!v) return NULL;
    tl_value *copy = tl_arena_copy(arena, v, sizeof *v);
    if (!copy || !copy_place(arena, &copy->place)) return NULL;
    if (v->text && !(copy->text = tl_arena_strdup(arena, v->text))) return NULL;
    if (v->kind == TL_VALUE_LIST) {
        const tl_value **items = tl_arena_array(arena, v->count, sizeof *items);
        if (!items) return NULL;
        for (int64_t i = 0; i < v->count; i++)
            if (!(items[i] = tl_value_copy(arena, v->items[i]))) return NULL;
        copy->items = items;
    } else if (v->kind == TL_VALUE_MAP) {
        tl_value_pair *pairs = tl_arena_array(arena, v->count, sizeof *pairs);
        if (!pairs) return NULL;
        for (int64_t i = 0; i < v->count; i++) {
            pairs[i] = v->pairs[i];
            pairs[i].key = tl_arena_strdup(arena, v->pairs[i].key);
            pairs[i].value = tl_value_copy(arena, v->pairs[i].value);
            if (!pairs[i].key || !pairs[i].value || !copy_place(arena, &pairs[i].place))
                return NULL;
        }
        copy->pairs = pairs;
    }
    return copy;
}

enum { SHOWN = 32 }; /* bytes of a text in a message */

/* The beginning of a text, cut between two characters, on one line. */
static void add_beginning(tl_str *out, const char *text)
{
    size_t length = strlen(text), shown = length;
    if (length > SHOWN)
        for (shown = SHOWN; shown && ((unsigned char)text[shown] & 0xc0) == 0x80;) shown--;
    for (size_t i = 0; i < shown; i++) {
        if (text[i] == '\n') tl_str_add(out, "\\n");
        else if (text[i] == '\t') tl_str_add(out, "\\t");
        else tl_str_addc(out, (unsigned char)text[i] < ' ' ? '?' : text[i]);
    }
    if (shown < length) tl_str_add(out, "...");
}

static void place_all(tl_value *v, tl_place place)
{
    v->place = place;
    for (int64_t i = 0; i < v->count; i++) {
        const tl_value *child = v->kind == TL_VALUE_LIST ? v->items[i] : v->pairs[i].value;
        place_all((tl_value *)(uintptr_t)child, place); // our own copy
        if (v->kind == TL_VALUE_MAP) ((tl_value_pair *)(uintptr_t)&v->pairs[i])->place = place;
    }
}

const tl_value *tli_value_at(tl_arena *arena, const tl_value *v, tl_place place)
{
    const tl_value *copy = tl_value_copy(arena, v);
    if (copy) place_all((tl_value *)(uintptr_t)copy, place);
    return copy;
}

void tl_value_name(tl_str *out, const tl_value *v)
{
    switch (v->kind) {
    case TL_VALUE_LIST: tl_str_addf(out, "a list of %lld", (long long)v->count); return;
    case TL_VALUE_MAP: tl_str_addf(out, "a map of %lld", (long long)v->count); return;
    case TL_VALUE_REFERENCE:
        tl_str_addf(out, "the reference @%.*s%s", SHOWN, v->text, v->called ? "()" : "");
        return;
    case TL_VALUE_MACRO: tl_str_addf(out, "the macro %%%.*s", SHOWN, v->text); return;
    case TL_VALUE_SCALAR: break;
    }
    static const char *const names[] = {
        [TL_SCALAR_NULL] = "null",          [TL_SCALAR_BOOL] = "the bool ",
        [TL_SCALAR_INT] = "the integer ",   [TL_SCALAR_DOUBLE] = "the number ",
        [TL_SCALAR_STRING] = "the string ",
    };
    tl_scalar type = tl_value_scalar(v);
    tl_str_add(out, names[type]);
    if (type == TL_SCALAR_NULL) return;
    const char *quote = type == TL_SCALAR_STRING ? "\"" : "";
    tl_str_add(out, quote);
    add_beginning(out, v->text);
    tl_str_add(out, quote);
}
