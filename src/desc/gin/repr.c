/* Values as Python prints them: repr, and pprint's way of breaking long ones into lines. What is
 * written can be read back, and agrees byte for byte with what gin-config writes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "desc/gin/impl.h"

/* --- characters ------------------------------------------------------------------------------ */

/* The code point at `*p`, which moves behind it. Text inside gin is valid UTF-8; a stray byte
 * counts as a character of its own. */
static unsigned long next_char(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    int more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    unsigned long c = more ? s[0] & (0x3fu >> more) : s[0];
    int i = 1;
    for (; i <= more && (s[i] & 0xc0) == 0x80; i++) c = c << 6 | (s[i] & 0x3f);
    *p += i;
    return c;
}

typedef struct range {
    unsigned long first, last;
} range;

static bool in_ranges(const range *ranges, int64_t count, unsigned long c)
{
    for (int64_t i = 0; i < count; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

/* What Python escapes: controls, formats, separators, private and surrogate characters. */
static bool is_printable(unsigned long c)
{
    static const range hidden[] = {
        {0x0000, 0x001f},   {0x007f, 0x00a0},   {0x00ad, 0x00ad},    {0x0600, 0x0605},
        {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},    {0x0890, 0x0891},
        {0x08e2, 0x08e2},   {0x1680, 0x1680},   {0x180e, 0x180e},    {0x2000, 0x200f},
        {0x2028, 0x202f},   {0x205f, 0x206f},   {0x3000, 0x3000},    {0xd800, 0xf8ff},
        {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},    {0xfffe, 0xffff},
        {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},  {0x1bca0, 0x1bca3},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xe01f0, 0x10ffff},
    };
    return !in_ranges(hidden, TL_COUNT(hidden), c);
}

static bool is_space(unsigned long c)
{
    static const range spaces[] = {
        {0x0009, 0x000d}, {0x001c, 0x0020}, {0x0085, 0x0085}, {0x00a0, 0x00a0}, {0x1680, 0x1680},
        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
    };
    return in_ranges(spaces, TL_COUNT(spaces), c);
}

/* Where Python's splitlines splits. */
static bool ends_line(unsigned long c)
{
    static const range ends[] = {
        {0x000a, 0x000d},
        {0x001c, 0x001e},
        {0x0085, 0x0085},
        {0x2028, 0x2029},
    };
    return in_ranges(ends, TL_COUNT(ends), c);
}

int64_t tli_gin_width(const char *text)
{
    int64_t width = 0;
    while (*text) {
        next_char(&text);
        width++;
    }
    return width;
}

static void repr_char(tl_str *out, unsigned long c, char quote, const char *bytes, size_t length)
{
    if (c == (unsigned char)quote || c == '\\') tl_str_addf(out, "\\%c", (int)c);
    else if (c == '\n') tl_str_add(out, "\\n");
    else if (c == '\r') tl_str_add(out, "\\r");
    else if (c == '\t') tl_str_add(out, "\\t");
    else if (is_printable(c)) tl_str_addn(out, bytes, length);
    else if (c < 0x100) tl_str_addf(out, "\\x%02lx", c);
    else if (c < 0x10000) tl_str_addf(out, "\\u%04lx", c);
    else tl_str_addf(out, "\\U%08lx", c);
}

/* The string from `text` to `end`, in the quotes that need fewer escapes. */
static void repr_string(tl_str *out, const char *text, const char *end)
{
    size_t length = (size_t)(end - text);
    char quote = memchr(text, '\'', length) && !memchr(text, '"', length) ? '"' : '\'';
    tl_str_addc(out, quote);
    while (text < end) {
        const char *start = text;
        unsigned long c = next_char(&text);
        repr_char(out, c, quote, start, (size_t)(text - start));
    }
    tl_str_addc(out, quote);
}

/* --- scalars --------------------------------------------------------------------------------- */

/* Integers of any length, as they are written. */
static bool is_integer(const char *text)
{
    if (*text == '-') text++;
    if (*text == '0') return text[1] == '\0';
    return *text && strspn(text, "0123456789") == strlen(text);
}

static void repr_scalar(tl_str *out, const tl_value *v)
{
    bool b;
    int64_t i;
    double d;
    char text[32];
    if (v == &tli_gin_required || (!v->quoted && is_integer(v->text))) {
        tl_str_add(out, v->text);
        return;
    }
    switch (tl_value_scalar(v)) {
    case TL_SCALAR_NULL: tl_str_add(out, "None"); return;
    case TL_SCALAR_BOOL: tl_str_add(out, tl_value_bool(v, &b) && b ? "True" : "False"); return;
    case TL_SCALAR_INT:
        if (tl_value_int(v, &i)) tl_str_addf(out, "%lld", (long long)i);
        return;
    case TL_SCALAR_DOUBLE:
        if (!tl_value_double(v, &d)) return;
        // Python prints "inf", which neither it nor gin reads back.
        tl_double_text(text, d);
        tl_str_add(out, !isinf(d) ? text : d < 0 ? "-1e999" : "1e999");
        return;
    case TL_SCALAR_STRING: repr_string(out, v->text, v->text + strlen(v->text)); return;
    }
}

bool tli_gin_is_literal(const tl_value *v)
{
    double d;
    if (v->kind == TL_VALUE_SCALAR)
        return v->quoted || !tl_value_double(v, &d) || isfinite(d) || is_integer(v->text);
    for (int64_t i = 0; i < v->count; i++)
        if (!tli_gin_is_literal(tli_gin_child(v, i))) return false;
    return true;
}

/* --- dicts ----------------------------------------------------------------------------------- */

static tl_value key_value(const tl_value_pair *pair)
{
    return (tl_value){.kind = TL_VALUE_SCALAR, .text = pair->key, .quoted = pair->key_quoted};
}

static int compare_integers(const char *a, const char *b)
{
    bool p = *a == '-', q = *b == '-';
    if (p != q) return p ? -1 : 1;
    size_t n = strlen(a), m = strlen(b);
    int order = n != m ? (n < m ? -1 : 1) : strcmp(a, b);
    return p ? -order : order;
}

/* Python's order of keys; those that it cannot compare are ordered by the names of their types. */
static int compare_pairs(const void *x, const void *y)
{
    const tl_value a = key_value(*(const tl_value_pair *const *)x);
    const tl_value b = key_value(*(const tl_value_pair *const *)y);
    static const int ranks[] = {
        [TL_SCALAR_NULL] = 0,   [TL_SCALAR_BOOL] = 1,   [TL_SCALAR_INT] = 1,
        [TL_SCALAR_DOUBLE] = 1, [TL_SCALAR_STRING] = 2,
    };
    bool whole = !a.quoted && !b.quoted && is_integer(a.text) && is_integer(b.text);
    if (whole) return compare_integers(a.text, b.text);
    int r = ranks[tl_value_scalar(&a)], s = ranks[tl_value_scalar(&b)];
    if (r != s || r == 0) return (r > s) - (r < s);
    if (r == 2) return strcmp(a.text, b.text);
    bool truth;
    double d = 0, e = 0;
    if (tl_value_bool(&a, &truth)) d = truth;
    else (void)tl_value_double(&a, &d);
    if (tl_value_bool(&b, &truth)) e = truth;
    else (void)tl_value_double(&b, &e);
    return (d > e) - (d < e);
}

/* The pairs of a dict in the order in which they are printed; freed with tl_free. */
static const tl_value_pair **sort_pairs(const tl_value *map)
{
    const tl_value_pair **pairs = tl_alloc((size_t)map->count * sizeof *pairs);
    if (!pairs) return NULL;
    for (int64_t i = 0; i < map->count; i++) pairs[i] = &map->pairs[i];
    qsort(pairs, (size_t)map->count, sizeof *pairs, compare_pairs);
    return pairs;
}

/* --- repr ------------------------------------------------------------------------------------ */

/* A macro by the name it has outside of the file, a constant by its whole name. */
static void repr_name(tl_str *out, tl_gin *gin, const tl_value *v, const char *home)
{
    tli_gin_binding *macro;
    const tl_value *constant;
    const char *full = NULL;
    tl_status st = tli_gin_meaning(&macro, &constant, &full, gin, v, home);
    if (st == TL_OK && constant) tl_str_addf(out, "%%%s", full);
    else if (st == TL_OK && macro) tl_str_addf(out, "%%%s", macro->scope);
    else if (v->kind == TL_VALUE_MACRO) tl_str_addf(out, "%%%s", v->text);
    else tl_str_addf(out, "@%s%s", v->text, v->called ? "()" : "");
}

void tli_gin_repr(tl_str *out, tl_gin *gin, const tl_value *v, const char *home)
{
    switch (v->kind) {
    case TL_VALUE_SCALAR: repr_scalar(out, v); return;
    case TL_VALUE_REFERENCE:
    case TL_VALUE_MACRO: repr_name(out, gin, v, home); return;
    case TL_VALUE_LIST:
        tl_str_addc(out, v->tuple ? '(' : '[');
        for (int64_t i = 0; i < v->count; i++) {
            if (i) tl_str_add(out, ", ");
            tli_gin_repr(out, gin, v->items[i], home);
        }
        tl_str_add(out, v->tuple ? (v->count == 1 ? ",)" : ")") : "]");
        return;
    case TL_VALUE_MAP: {
        const tl_value_pair **pairs = sort_pairs(v);
        if (!pairs) out->failed = true;
        tl_str_addc(out, '{');
        for (int64_t i = 0; pairs && i < v->count; i++) {
            const tl_value key = key_value(pairs[i]);
            if (i) tl_str_add(out, ", ");
            repr_scalar(out, &key);
            tl_str_add(out, ": ");
            tli_gin_repr(out, gin, pairs[i]->value, home);
        }
        tl_str_addc(out, '}');
        tl_free(pairs);
        return;
    }
    }
}

/* --- pprint ---------------------------------------------------------------------------------- */

typedef struct printer {
    tl_str *out;
    tl_gin *gin;
    const char *home;
    int64_t width;
} printer;

static void format(printer *p, const tl_value *v, int64_t indent, int64_t allowance, int level);

static void new_line(printer *p, int64_t indent)
{
    tl_str_addc(p->out, '\n');
    tl_str_pad(p->out, ' ', indent);
}

/* Pieces of a string, each of which becomes a line. */
typedef struct pieces {
    tl_str text; /* their reprs with '\n' between them, which no repr has inside */
    int64_t count;
} pieces;

static void add_piece(pieces *all, const char *start, const char *end)
{
    if (all->count++) tl_str_addc(&all->text, '\n');
    repr_string(&all->text, start, end);
}

static int64_t repr_width(const char *start, const char *end)
{
    tl_str text = TL_STR_INIT;
    repr_string(&text, start, end);
    int64_t width = tli_gin_width(tl_str_text(&text));
    tl_str_deinit(&text);
    return width;
}

/* End of the word at `p` and of the blanks behind it. */
static const char *word_end(const char *p, const char *end)
{
    const char *at = p;
    bool blanks = false;
    while (at < end) {
        const char *next = at;
        bool space = is_space(next_char(&next));
        if (blanks && !space) break;
        blanks = space;
        at = next;
    }
    return at;
}

/* A line that is too long, broken between words. */
static void split_line(pieces *all, const char *line, const char *end, int64_t width,
                       int64_t last_width)
{
    const char *current = line, *at = line;
    while (at < end) {
        const char *next = word_end(at, end);
        int64_t room = next == end ? last_width : width;
        if (repr_width(current, next) > room) {
            if (at > current) add_piece(all, current, at);
            current = at;
        }
        at = next;
    }
    if (at > current) add_piece(all, current, at);
}

static const char *line_end(const char *p, const char *end)
{
    while (p < end) {
        unsigned long c = next_char(&p);
        if (!ends_line(c)) continue;
        if (c == '\r' && p < end && *p == '\n') p++;
        break;
    }
    return p;
}

static void format_string(printer *p, const tl_value *v, int64_t indent, int64_t allowance,
                          int level)
{
    if (level == 1) { // parentheses will stand around it
        indent++;
        allowance++;
    }
    pieces all = {.text = TL_STR_INIT};
    int64_t width = p->width - indent;
    const char *end = v->text + strlen(v->text);
    for (const char *line = v->text; line < end;) {
        const char *next = line_end(line, end);
        int64_t last_width = next == end ? width - allowance : width;
        if (repr_width(line, next) <= last_width) add_piece(&all, line, next);
        else split_line(&all, line, next, width, last_width);
        line = next;
    }
    bool parentheses = level == 1 && all.count > 1;
    if (parentheses) tl_str_addc(p->out, '(');
    for (const char *at = tl_str_text(&all.text); *at;) {
        size_t length = strcspn(at, "\n");
        tl_str_addn(p->out, at, length);
        at += length;
        if (!*at) break;
        at++;
        new_line(p, indent);
    }
    if (parentheses) tl_str_addc(p->out, ')');
    if (all.text.failed) p->out->failed = true;
    tl_str_deinit(&all.text);
}

static void format_list(printer *p, const tl_value *v, int64_t indent, int64_t allowance, int level)
{
    const char *close = v->tuple ? (v->count == 1 ? ",)" : ")") : "]";
    allowance += (int64_t)strlen(close);
    tl_str_addc(p->out, v->tuple ? '(' : '[');
    for (int64_t i = 0; i < v->count; i++) {
        if (i) {
            tl_str_addc(p->out, ',');
            new_line(p, indent + 1);
        }
        format(p, v->items[i], indent + 1, i + 1 == v->count ? allowance : 1, level);
    }
    tl_str_add(p->out, close);
}

static void format_map(printer *p, const tl_value *v, int64_t indent, int64_t allowance, int level)
{
    const tl_value_pair **pairs = sort_pairs(v);
    if (!pairs) p->out->failed = true;
    tl_str_addc(p->out, '{');
    for (int64_t i = 0; pairs && i < v->count; i++) {
        if (i) {
            tl_str_addc(p->out, ',');
            new_line(p, indent + 1);
        }
        tl_str key = TL_STR_INIT;
        const tl_value name = key_value(pairs[i]);
        repr_scalar(&key, &name);
        tl_str_addf(p->out, "%s: ", tl_str_text(&key));
        int64_t column = indent + 1 + tli_gin_width(tl_str_text(&key)) + 2;
        tl_str_deinit(&key);
        format(p, pairs[i]->value, column, i + 1 == v->count ? allowance + 1 : 1, level);
    }
    tl_str_addc(p->out, '}');
    tl_free(pairs);
}

static void format(printer *p, const tl_value *v, int64_t indent, int64_t allowance, int level)
{
    tl_str repr = TL_STR_INIT;
    tli_gin_repr(&repr, p->gin, v, p->home);
    if (repr.failed) p->out->failed = true;
    bool fits = tli_gin_width(tl_str_text(&repr)) <= p->width - indent - allowance;
    bool text = v->kind == TL_VALUE_SCALAR && tl_value_scalar(v) == TL_SCALAR_STRING && *v->text;
    if (!fits && v->kind == TL_VALUE_LIST) format_list(p, v, indent, allowance, level + 1);
    else if (!fits && v->kind == TL_VALUE_MAP) format_map(p, v, indent, allowance, level + 1);
    else if (!fits && text && !is_integer(v->text))
        format_string(p, v, indent, allowance, level + 1);
    else tl_str_add(p->out, tl_str_text(&repr));
    tl_str_deinit(&repr);
}

tl_status tli_gin_pretty(tl_str *out, tl_gin *gin, const tl_value *v, const char *home,
                         int64_t width)
{
    printer p = {out, gin, home, width};
    format(&p, v, 0, 0, 0);
    return tl_str_status(out);
}
