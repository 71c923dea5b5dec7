/* Private to text: characters in UTF-8.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TEXT_UTF8_H
#define TLI_TEXT_UTF8_H

#include <stdint.h>

/* Bytes of the character at `p`, which is before `end`; 0 when what stands there is none (cut,
 * over-long, a surrogate, beyond U+10FFFF). */
static inline int tli_utf8_decode(uint32_t *out, const char *p, const char *end)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = (uint8_t)p[0];
    *out = first;
    if (first < 0x80) return 1;
    int length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || end - p < length) return 0;
    uint32_t c = first & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if (((uint8_t)p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | ((uint8_t)p[i] & 0x3f);
    }
    *out = c;
    return c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : length;
}

/* Writes 1 to 4 bytes and tells how many. */
static inline int tli_utf8_encode(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

#endif
