/* Text that other programs must be able to read: what is no UTF-8 is replaced.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BASE_UTF8_H
#define TLI_BASE_UTF8_H

#include <stdint.h>

#define TLI_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the character at `p`, or 0 when what stands there is none (cut, over-long, a surrogate,
 * beyond U+10FFFF). Reads no further than a NUL. */
static inline int tli_utf8_length(const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    if (p[0] < 0x80) return 1;
    int length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t c = p[0] & (0x7fu >> length);
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    for (int i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : length;
}

#endif
