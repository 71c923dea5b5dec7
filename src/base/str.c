#include <tilth/base/str.h>

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

void tl_str_deinit(tl_str *s)
{
    tl_free(s->data);
    *s = (tl_str)TL_STR_INIT;
}

static bool reserve(tl_str *s, size_t more)
{
    if (s->failed) return false;
    if (more < s->capacity - s->length) return true;
    size_t wanted = s->length + more + 1;
    size_t capacity = s->capacity ? s->capacity : 64;
    while (capacity < wanted) capacity *= 2;
    char *data = tl_realloc(s->data, capacity);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->capacity = capacity;
    return true;
}

void tl_str_addn(tl_str *s, const char *bytes, size_t length)
{
    if (!reserve(s, length)) return;
    if (length) memcpy(s->data + s->length, bytes, length);
    s->length += length;
    s->data[s->length] = '\0';
}

void tl_str_add(tl_str *s, const char *text)
{
    tl_str_addn(s, text, strlen(text));
}

void tl_str_addc(tl_str *s, char c)
{
    tl_str_addn(s, &c, 1);
}

void tl_str_addv(tl_str *s, const char *format, va_list args)
{
    va_list again;
    size_t room = s->failed ? 0 : s->capacity - s->length;
    va_copy(again, args);
    int length = vsnprintf(room ? s->data + s->length : NULL, room, format, args);
    if (length < 0) s->failed = true;
    if (length >= 0 && reserve(s, (size_t)length)) {
        // Most texts fit into what is there already, and are printed once.
        if ((size_t)length >= room)
            vsnprintf(s->data + s->length, (size_t)length + 1, format, again);
        s->length += (size_t)length;
    }
    va_end(again);
}

void tl_str_addf(tl_str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tl_str_addv(s, format, args);
    va_end(args);
}

void tl_str_pad(tl_str *s, char c, int64_t count)
{
    if (count <= 0 || !reserve(s, (size_t)count)) return;
    memset(s->data + s->length, c, (size_t)count);
    s->length += (size_t)count;
    s->data[s->length] = '\0';
}

void tl_str_cut(tl_str *s, size_t length)
{
    if (length >= s->length) return;
    s->length = length;
    s->data[length] = '\0';
}

const char *tl_str_text(const tl_str *s)
{
    return s->data && !s->failed ? s->data : "";
}

tl_status tl_str_status(const tl_str *s)
{
    return s->failed
               ? TL_FAIL(TL_ENOMEM, "out of memory for a text of more than %zu bytes", s->length)
               : TL_OK;
}

char *tl_str_copy(const tl_str *s, tl_arena *arena)
{
    if (tl_str_status(s) != TL_OK) return NULL;
    return tl_arena_strndup(arena, tl_str_text(s), s->length);
}

/* The C library has this locale built in: nothing is allocated, nothing can fail. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double tl_strtod(const char *text, char **end)
{
    return strtod_l(text, end, c_locale());
}

enum { DOUBLE_ROOM = 32 };

/* Moves a decimal text one unit of its last digit away from 0; false when that carries out of
 * it. */
static bool next_decimal(char *text)
{
    char *p = strchr(text, 'e');
    while (p-- > text) {
        if (*p == '.') continue;
        if (*p < '0' || *p > '9') return false;
        if (*p != '9') {
            ++*p;
            return true;
        }
        *p = '0';
    }
    return false;
}

/* The fewest digits that read back as the value, as "d.ddde+xx". With n digits that is the nearest
 * decimal or, just above a power of two, where doubles lie closer below than above, the next
 * one. */
static void shortest_scientific(char out[DOUBLE_ROOM], double value)
{
    for (int digits = 0; digits < 17; digits++) {
        snprintf(out, DOUBLE_ROOM, "%.*e", digits, value);
        if (strtod(out, NULL) == value) return;
        if (next_decimal(out) && strtod(out, NULL) == value) return;
    }
    snprintf(out, DOUBLE_ROOM, "%.16e", value);
}

static void finite_text(char *out, double value)
{
    char scientific[DOUBLE_ROOM];
    shortest_scientific(scientific, value);
    char *e = strchr(scientific, 'e');
    int exponent = atoi(e + 1);
    int digits = 0; // significant digits after the first
    for (char *p = scientific; p < e; p++) digits += *p >= '0' && *p <= '9';
    digits--;
    if (exponent < -4 || exponent >= 16) {
        snprintf(out, DOUBLE_ROOM, "%.*se%c%02d", (int)(e - scientific), scientific,
                 exponent < 0 ? '-' : '+', abs(exponent));
    } else {
        int decimals = digits - exponent;
        snprintf(out, DOUBLE_ROOM, "%.*f", decimals > 1 ? decimals : 1, strtod(scientific, NULL));
    }
}

void tl_double_text(char *out, double value)
{
    if (isnan(value) || isinf(value)) {
        snprintf(out, DOUBLE_ROOM, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    locale_t before = uselocale(c_locale()); // a point, whatever the program's language writes
    finite_text(out, value);
    uselocale(before);
}

/* Edit distance with transpositions, or `limit + 1` when it is more than `limit`. */
static int distance(const char *a, const char *b, int limit)
{
    enum { LONGEST = 64 };
    size_t na = strlen(a), nb = strlen(b);
    if (na >= LONGEST || nb >= LONGEST || (na > nb ? na - nb : nb - na) > (size_t)limit)
        return limit + 1;
    int rows[3][LONGEST];
    for (size_t j = 0; j <= nb; j++) rows[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            bool differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            int best = up[j - 1] + differ;
            if (up[j] + 1 < best) best = up[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && up2[j - 2] + 1 < best) best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

const char *tl_nearest(const char *word, const char *const *candidates, int64_t count)
{
    size_t length = strlen(word);
    int limit = length <= 3 ? 1 : length <= 8 ? 2 : 3;
    const char *nearest = NULL;
    size_t shared = 0; // first characters that word and nearest share
    for (int64_t i = 0; i < count; i++) {
        int d = distance(word, candidates[i], limit);
        if (d > limit || (size_t)d >= length) continue;
        // Of those that are equally near, the one that starts most like it: people mistype ends.
        size_t common = 0;
        while (word[common] && word[common] == candidates[i][common]) common++;
        if (nearest && d == limit && common <= shared) continue;
        nearest = candidates[i];
        limit = d;
        shared = common;
    }
    return nearest;
}
