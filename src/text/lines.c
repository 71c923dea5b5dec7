#include "text/lines.h"

#include <string.h>

#include "base/inner/utf8.h"

/* Bytes of the character that the text begins with; 0: it is no UTF-8. Reads no further than
 * `size`. */
static size_t character(const char *text, size_t size)
{
    char tail[8] = {0};
    if ((unsigned char)*text < 0x80) return 1;
    if (size < 4) text = memcpy(tail, text, size);
    return (size_t)tli_utf8_length(text);
}

static size_t good_bytes(const char *line, size_t size)
{
    size_t i = 0;
    for (size_t n; i < size && (n = character(line + i, size - i)) > 0;) i += n;
    return i;
}

tl_status tli_line_clean(tl_str *room, const char **line, size_t *size)
{
    size_t good = good_bytes(*line, *size);
    if (good == *size) return TL_OK;
    tl_str_cut(room, 0);
    for (size_t i = 0; i < *size; i += good + 1) {
        good = good_bytes(*line + i, *size - i);
        tl_str_addn(room, *line + i, good);
    }
    TL_TRY(tl_str_status(room));
    *line = tl_str_text(room);
    *size = room->length;
    return TL_OK;
}

static bool is_white(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0
           || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029
           || c == 0x202f || c == 0x205f || c == 0x3000;
}

static uint32_t decode(const char *text, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)text;
    uint32_t c = bytes == 1 ? p[0] : p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

bool tli_line_is_blank(const char *line, size_t size)
{
    for (size_t i = 0, n; i < size; i += n) {
        n = character(line + i, size - i);
        if (!n || !is_white(decode(line + i, n))) return false;
    }
    return true;
}
