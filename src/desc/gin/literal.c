/* Python's literals: what the text of a number or a string stands for. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "desc/gin/impl.h"

/* --- numbers --------------------------------------------------------------------------------- */

/* Python's own limit for reading an integer. */
enum { MAX_DIGITS = 4300 };

#define BAD_NUMBER(token, why)                                                                     \
    tli_gin_at(TL_FAIL(TL_EINVAL, "'%.*s' is not a number: %s", shown(token), (token)->text, why), \
               (token)->place)

static int shown(const tli_gin_token *token)
{
    return token->length < 40 ? (int)token->length : 40;
}

/* Copies without underscores, each of which must stand between two digits (or behind "0x"). */
static tl_status strip(tl_str *out, const tli_gin_token *token)
{
    const char *text = token->text;
    bool hex = token->length > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
    for (size_t i = 0; i < token->length; i++) {
        if (text[i] != '_') {
            tl_str_addc(out, text[i]);
            continue;
        }
        bool prefix = i == 2 && text[0] == '0' && strchr("xXoObB", text[1]);
        bool behind = i > 0 && (strchr(digits, text[i - 1]) || prefix);
        if (!behind || i + 1 == token->length || !strchr(digits, text[i + 1]))
            return BAD_NUMBER(token, "'_' may stand between two digits only");
    }
    return tl_str_status(out);
}

/* 0x1f, 0o17, 0b11 as decimal digits. */
static tl_status based(tl_str *out, const tli_gin_token *token, const char *digits, int base,
                       bool negative)
{
    const char *known = base == 16 ? "0123456789abcdefABCDEF" : base == 8 ? "01234567" : "01";
    if (!*digits || strspn(digits, known) != strlen(digits))
        return BAD_NUMBER(token, "a digit after its prefix is wrong or missing");
    errno = 0;
    unsigned long long magnitude = strtoull(digits, NULL, base);
    if (errno) return BAD_NUMBER(token, "it needs more than 64 bits");
    tl_str_addf(out, "%s%llu", negative && magnitude ? "-" : "", magnitude);
    return tl_str_status(out);
}

static bool is_float(const char *p)
{
    size_t whole = strspn(p, "0123456789"), fraction = 0;
    p += whole;
    if (*p == '.') fraction = strspn(++p, "0123456789");
    p += fraction;
    if (whole + fraction == 0) return false;
    if (*p != 'e' && *p != 'E') return *p == '\0';
    p++;
    if (*p == '+' || *p == '-') p++;
    size_t exponent = strspn(p, "0123456789");
    return exponent > 0 && p[exponent] == '\0';
}

static tl_status decimal(tl_str *out, const tli_gin_token *token, const char *digits, bool negative)
{
    if (strspn(digits, "0123456789") != strlen(digits)) {
        if (!is_float(digits)) return BAD_NUMBER(token, "it is neither an integer nor a float");
        char text[32];
        double value = tl_strtod(digits, NULL);
        tl_double_text(text, negative ? -value : value);
        tl_str_add(out, isinf(value) ? (negative ? "-.inf" : ".inf") : text);
        return tl_str_status(out);
    }
    if (strlen(digits) > MAX_DIGITS) return BAD_NUMBER(token, "it has more than 4300 digits");
    const char *significant = digits + strspn(digits, "0");
    if (*digits == '0' && *significant) return BAD_NUMBER(token, "it starts with a 0");
    if (!*significant) negative = false;
    tl_str_addf(out, "%s%s", negative ? "-" : "", *significant ? significant : "0");
    return tl_str_status(out);
}

tl_status tli_gin_number(tl_str *out, const tli_gin_token *token, bool negative)
{
    tl_str digits = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, strip(&digits, token));
    const char *text = tl_str_text(&digits);
    int base = text[0] != '0'                     ? 10
               : strchr("xX", text[1]) && text[1] ? 16
               : strchr("oO", text[1]) && text[1] ? 8
               : strchr("bB", text[1]) && text[1] ? 2
                                                  : 10;
    if (base != 10) st = based(out, token, text + 2, base, negative);
    else if (strchr("jJ", text[digits.length - 1]))
        st = BAD_NUMBER(token, "there are no complex numbers here");
    else st = decimal(out, token, text, negative);
done:
    tl_str_deinit(&digits);
    return st;
}

/* --- strings --------------------------------------------------------------------------------- */

static void add_code_point(tl_str *out, unsigned long c)
{
    if (c < 0x80) {
        tl_str_addc(out, (char)c);
    } else if (c < 0x800) {
        tl_str_addc(out, (char)(0xc0 | c >> 6));
        tl_str_addc(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        tl_str_addc(out, (char)(0xe0 | c >> 12));
        tl_str_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
        tl_str_addc(out, (char)(0x80 | (c & 0x3f)));
    } else {
        tl_str_addc(out, (char)(0xf0 | c >> 18));
        tl_str_addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
        tl_str_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
        tl_str_addc(out, (char)(0x80 | (c & 0x3f)));
    }
}

#define BAD_STRING(token, ...) tli_gin_at(TL_FAIL(TL_EINVAL, __VA_ARGS__), (token)->place)

/* Adds the character with this number, unless a string cannot hold it. */
static tl_status add_escaped(tl_str *out, const tli_gin_token *token, unsigned long c)
{
    if (c == 0)
        return BAD_STRING(token, "this string holds a NUL character, which no value can have");
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return BAD_STRING(token, "the escape for U+%04lX in this string is no character", c);
    add_code_point(out, c);
    return TL_OK;
}

/* \xhh, \uhhhh, \Uhhhhhhhh: `*at` is behind the letter. */
static tl_status hex_escape(tl_str *out, const tli_gin_token *token, const char **at,
                            const char *end, char letter)
{
    int wanted = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    unsigned long c = 0;
    for (int i = 0; i < wanted; i++, (*at)++) {
        if (*at == end || !isxdigit((unsigned char)**at))
            return BAD_STRING(token, "the escape \\%c in this string needs %d hexadecimal digits",
                              letter, wanted);
        char digit[2] = {**at, '\0'};
        c = c << 4 | strtoul(digit, NULL, 16);
    }
    return add_escaped(out, token, c);
}

/* What stands behind a backslash; `*at` is at the first character of it. */
static tl_status escape(tl_str *out, const tli_gin_token *token, const char **at, const char *end)
{
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    char c = *(*at)++;
    const char *found = strchr(letters, c);
    if (found) {
        tl_str_addc(out, meanings[found - letters]);
    } else if (c >= '0' && c <= '7') {
        unsigned long value = (unsigned long)(c - '0');
        for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
            value = value << 3 | (unsigned long)(*(*at)++ - '0');
        return add_escaped(out, token, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        return hex_escape(out, token, at, end, c);
    } else if (c == 'N') {
        return BAD_STRING(token,
                          "characters by name (\\N{...}) are not known; write \\u and its number");
    } else if (c == '\r' || c == '\n') {
        if (c == '\r' && *at < end && **at == '\n') (*at)++;
    } else {
        tl_str_addc(out, '\\'); // Python keeps what it does not know
        tl_str_addc(out, c);
    }
    return TL_OK;
}

static tl_status prefix(const tli_gin_token *token, size_t length, bool *raw)
{
    for (size_t i = 0; i < length; i++) {
        switch (tolower((unsigned char)token->text[i])) {
        case 'b':
            return BAD_STRING(token, "bytes (b'...') cannot be bound; write a string without b");
        case 'f': return BAD_STRING(token, "f'...' strings cannot be bound; write the text itself");
        case 'r': *raw = true; break;
        default: break;
        }
    }
    return TL_OK;
}

tl_status tli_gin_string(tl_str *out, const tli_gin_token *token)
{
    size_t before = strcspn(token->text, "'\"");
    bool raw = false;
    TL_TRY(prefix(token, before, &raw));
    const char *at = token->text + before, *end = token->text + token->length;
    size_t quotes = end - at >= 6 && at[1] == at[0] && at[2] == at[0] ? 3 : 1;
    at += quotes;
    end -= quotes;
    while (at < end) {
        char c = *at++;
        if (c == '\r') { // as Python reads files: every end of a line is one character
            if (at < end && *at == '\n') at++;
            tl_str_addc(out, '\n');
        } else if (c == '\\' && !raw && at < end) {
            TL_TRY(escape(out, token, &at, end));
        } else {
            tl_str_addc(out, c);
        }
    }
    return tl_str_status(out);
}
