#include "text/broken.h"

#include <string.h>

#include "text/unicode.h"
#include "text/utf8.h"

static void add_char(tl_str *out, uint32_t c)
{
    char bytes[4];
    tl_str_addn(out, bytes, (size_t)tli_utf8_encode(bytes, c));
}

static void fold(tl_str *out, const char *text, const char *end)
{
    uint32_t c, all[TLI_MOST_MAPPED];
    for (const char *p = text; p < end;) {
        int length = tli_utf8_decode(&c, p, end);
        int count = length ? tli_unicode_fold(all, c) : 0;
        for (int i = 0; i < count; i++) add_char(out, all[i]);
        if (!length) tl_str_addc(out, *p);
        p += length ? length : 1;
    }
}

/* Appends a character with a class behind those from `from` on whose class is not higher. */
static void add_moving(tl_str *out, size_t from, uint32_t c)
{
    char bytes[4];
    uint32_t other;
    size_t length = (size_t)tli_utf8_encode(bytes, c), end = out->length;
    tl_str_addn(out, bytes, length);
    if (out->failed) return;
    while (from < end) {
        int step = tli_utf8_decode(&other, out->data + from, out->data + end);
        if (tli_unicode_class(other) > tli_unicode_class(c)) break;
        from += (size_t)step;
    }
    memmove(out->data + from + length, out->data + from, end - from);
    memcpy(out->data + from, bytes, length);
}

static void strip(tl_str *out, const char *text, const char *end)
{
    uint32_t c, all[TLI_MOST_MAPPED];
    size_t moving = 0; // where those begin that are sorted
    for (const char *p = text; p < end;) {
        int length = tli_utf8_decode(&c, p, end);
        int count = length ? tli_unicode_decompose(all, TLI_UNICODE_TF_TEXT, c) : 0;
        for (int i = 0; i < count; i++) {
            int flags = tli_unicode_flags(TLI_UNICODE_TF_TEXT, all[i]);
            bool dropped = flags & TLI_NONSPACING, moves = flags & TLI_MOVES;
            if (!dropped && moves) add_moving(out, moving, all[i]);
            if (!dropped && !moves) add_char(out, all[i]);
            if (!moves) moving = out->length;
        }
        if (!length) {
            tl_str_addc(out, *p);
            moving = out->length;
        }
        p += length ? length : 1;
    }
}

tl_status tli_broken_lower(tl_str *out, const char *text, size_t size)
{
    tl_str folded = TL_STR_INIT;
    fold(&folded, text, text + size);
    tl_status st = tl_str_status(&folded);
    if (st == TL_OK) strip(out, folded.data, folded.data + folded.length);
    tl_str_deinit(&folded);
    return st == TL_OK ? tl_str_status(out) : st;
}
