#include "base/clean.h"

#include <string.h>

#include "base/utf8.h"

/* What stands at a place of a text: how many bytes, and whether a terminal would obey them. */
typedef struct piece {
    size_t length;
    bool obeyed;
} piece;

static piece look(const char *text, bool line)
{
    unsigned char c = (unsigned char)*text;
    if (c < 0x80) return (piece){1, (c < 0x20 && !(line && (c == '\t' || c == '\n'))) || c == 0x7f};
    int length = tli_utf8_length(text);
    if (length == 0) return (piece){1, c < 0xa0};
    return (piece){(size_t)length, c == 0xc2 && (unsigned char)text[1] < 0xa0};
}

static size_t clean_length(const char *text, size_t length, bool line)
{
    size_t at = 0;
    while (at < length) {
        piece p = look(text + at, line);
        if (p.obeyed) return at;
        at += p.length;
    }
    return at < length ? at : length;
}

/* The control character at the beginning of the text; how many bytes it has. */
enum { SHOWN = 8 };
static size_t show(char out[SHOWN], const char *text)
{
    bool wide = (unsigned char)*text == 0xc2 && tli_utf8_length(text);
    snprintf(out, SHOWN, wide ? "\\u%04x" : "\\x%02x", (unsigned char)text[wide]);
    return wide ? 2 : 1;
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
        piece p = look(text + at, true);
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
