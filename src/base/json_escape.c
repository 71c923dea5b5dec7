#include "base/inner/json_escape.h"

#include "base/inner/utf8.h"

/* A character below 0x80, with a backslash where one is needed. */
static void add_plain(tl_str *out, unsigned char c)
{
    static const char shorts[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
    };
    if (c == '"' || c == '\\') tl_str_addf(out, "\\%c", c);
    else if (c < sizeof shorts && shorts[c]) tl_str_addf(out, "\\%c", shorts[c]);
    else if (c < 0x20 || c == 0x7f) tl_str_addf(out, "\\u%04x", c);
    else tl_str_addc(out, (char)c);
}

/* A character of several bytes as \uXXXX, or, beyond U+FFFF, as two of them. */
static void add_code(tl_str *out, const char *text, int length)
{
    uint32_t code = (unsigned char)*text & (0x7fu >> length);
    for (int i = 1; i < length; i++) code = code << 6 | ((unsigned char)text[i] & 0x3f);
    if (code > 0xffff)
        tl_str_addf(out, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    else tl_str_addf(out, "\\u%04x", code);
}

/* U+0080 to U+009F are control characters, as those below U+0020. */
static void add_wide(tl_str *out, const char *text, int length, bool ascii)
{
    bool control = (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0;
    if (ascii || control) add_code(out, text, length);
    else tl_str_addn(out, text, (size_t)length);
}

void tli_json_add_text(tl_str *out, const char *text, bool ascii)
{
    static const char replacement[] = TLI_UTF8_REPLACEMENT;
    if (!text) {
        tl_str_add(out, "null");
        return;
    }
    tl_str_addc(out, '"');
    for (int length; *text; text += length) {
        length = tli_utf8_length(text);
        if (length == 1) add_plain(out, (unsigned char)*text);
        else if (length) add_wide(out, text, length, ascii);
        else add_wide(out, replacement, (int)sizeof replacement - 1, ascii);
        if (!length) length = 1;
    }
    tl_str_addc(out, '"');
}
