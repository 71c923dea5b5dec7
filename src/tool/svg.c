#include "tool/svg.h"

#include "base/inner/utf8.h"

int64_t tli_svg_letters(const char *text)
{
    int64_t count = 0;
    for (; *text; count++) {
        int length = tli_utf8_length(text);
        text += length ? length : 1;
    }
    return count;
}

static void add_letter(tl_str *out, const char *text, int length)
{
    switch (length > 1 ? 0 : length ? *text : -1) {
    case 0: tl_str_addn(out, text, (size_t)length); break;
    case -1: tl_str_add(out, TLI_UTF8_REPLACEMENT); break;
    case '&': tl_str_add(out, "&amp;"); break;
    case '<': tl_str_add(out, "&lt;"); break;
    case '>': tl_str_add(out, "&gt;"); break;
    case '"': tl_str_add(out, "&quot;"); break;
    default: tl_str_addc(out, (unsigned char)*text < 0x20 ? ' ' : *text);
    }
}

void tli_svg_text(tl_str *out, const char *text, int64_t most)
{
    bool cut = most > 0 && tli_svg_letters(text) > most;
    for (int64_t count = 0; *text && (!cut || count < most - 1); count++) {
        int length = tli_utf8_length(text);
        add_letter(out, text, length);
        text += length ? length : 1;
    }
    if (cut) tl_str_add(out, "\xe2\x80\xa6"); // an ellipsis
}
