#include "base/inner/clean.h"

#include <string.h>

#include "base/inner/utf8.h"

/* What stands at a place of a text: how many bytes, and whether a terminal would obey them. */
typedef struct piece {
    size_t length;
    bool obeyed;
} piece;

/* Does a text of several lines go on as a line of the log begins ("I1116 ")? What is quoted could
 * forge one so. */
static bool begins_as_record(const char *text, size_t left)
{
    if (left < 6 || !strchr("IWEF", text[0]) || text[5] != ' ') return false;
    for (int i = 1; i < 5; i++)
        if (text[i] < '0' || text[i] > '9') return false;
    return true;
}

/* Which way a line is read can be turned round: U+202A to U+202E, U+2066 to U+2069. */
static bool turns_line(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    return c[0] == 0xe2
           && ((c[1] == 0x80 && c[2] >= 0xaa && c[2] <= 0xae)
               || (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
}

static bool is_obeyed(const char *text, size_t left, bool line)
{
    unsigned char c = (unsigned char)*text;
    if (line && c == '\t') return false;
    if (line && c == '\n') return begins_as_record(text + 1, left - 1);
    return c < 0x20 || c == 0x7f;
}

static piece look(const char *text, size_t left, bool line)
{
    unsigned char c = (unsigned char)*text;
    if (c < 0x80) return (piece){1, is_obeyed(text, left, line)};
    int length = tli_utf8_length(text);
    if (length == 0) return (piece){1, c < 0xa0};
    return (piece){(size_t)length, (c == 0xc2 && (unsigned char)text[1] < 0xa0)
                                       || (length == 3 && turns_line(text))};
}

static size_t clean_length(const char *text, size_t length, bool line)
{
    size_t at = 0;
    while (at < length) {
        piece p = look(text + at, length - at, line);
        if (p.obeyed) return at;
        at += p.length;
    }
    return at < length ? at : length;
}

/* The control character at the beginning of the text; how many bytes it has. */
enum { SHOWN = 8 };
static size_t show(char out[SHOWN], const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    int length = tli_utf8_length(text);
    if (length == 2) snprintf(out, SHOWN, "\\u%04x", c[1]);
    else if (length == 3)
        snprintf(out, SHOWN, "\\u%04x", 0x2000u | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu));
    else snprintf(out, SHOWN, "\\x%02x", *c);
    return length > 1 ? (size_t)length : 1;
}

static void add_clean(tl_str *out, const char *text, size_t length, bool line)
{
    for (size_t at = 0; at < length;) {
        char shown[SHOWN];
        size_t clean = clean_length(text + at, length - at, line);
        tl_str_addn(out, text + at, clean);
        at += clean;
        if (at >= length) return;
        at += show(shown, text + at);
        tl_str_add(out, shown);
    }
}

size_t tli_clean_length(const char *text, size_t length)
{
    return clean_length(text, length, true);
}

void tli_add_clean(tl_str *out, const char *text, size_t length)
{
    add_clean(out, text, length, true);
}

void tli_add_clean_word(tl_str *out, const char *text)
{
    add_clean(out, text, strlen(text), false);
}

const char *tli_clean_word(tl_arena *arena, const char *text)
{
    size_t length = strlen(text);
    if (clean_length(text, length, false) == length) return text;
    tl_str clean = TL_STR_INIT;
    add_clean(&clean, text, length, false);
    const char *copy = tl_str_copy(&clean, arena);
    tl_str_deinit(&clean);
    return copy;
}

void tli_clean_in_place(char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        piece p = look(text + at, length - at, true);
        if (p.obeyed) memset(text + at, '?', p.length);
        at += p.length;
    }
}

void tli_print_clean(FILE *to, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        char shown[SHOWN];
        size_t clean = tli_clean_length(text + at, length - at);
        fwrite(text + at, 1, clean, to);
        at += clean;
        if (at >= length) return;
        at += show(shown, text + at);
        fputs(shown, to);
    }
}
