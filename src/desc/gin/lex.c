/* gin's text cut into tokens by the rules of Python: brackets join lines, `\` joins lines, comments
 * vanish, and indentation makes tokens of its own. */
#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "desc/gin/impl.h"

tl_status tli_gin_at(tl_status failed, tl_place place)
{
    if (place.line > 0)
        return tl_error_note(failed, "%s:%d:%d", place.source, place.line, place.column);
    return place.source && *place.source ? tl_error_note(failed, "%s", place.source) : failed;
}

/* Length of the UTF-8 sequence at `p`, 0 when it is none (overlong, surrogate, cut short). */
static size_t sequence_length(const unsigned char *p, size_t room)
{
    if (p[0] < 0x80) return 1;
    size_t length = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                    : (p[0] & 0xf0) == 0xe0        ? 3
                    : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || length > room) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool outside = (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf4 && p[1] >= 0x90);
    return overlong || outside ? 0 : length;
}

/* Moves over one character that is not the end of a line. */
static void step(tli_gin_lexer *x)
{
    x->at++;
    // The bytes of one character are one column.
    while (x->at < x->end && ((unsigned char)*x->at & 0xc0) == 0x80) x->at++;
    if (x->place.column < INT_MAX) x->place.column++;
}

static bool at_newline(const tli_gin_lexer *x)
{
    return x->at < x->end && (*x->at == '\n' || *x->at == '\r');
}

/* Moves over "\n", "\r\n" or "\r". */
static void step_newline(tli_gin_lexer *x)
{
    if (*x->at == '\r' && x->end - x->at > 1 && x->at[1] == '\n') x->at++;
    x->at++;
    x->place.column = 1;
    if (x->place.line > 0 && x->place.line < INT_MAX) x->place.line++;
}

tl_status tli_gin_lexer_init(tli_gin_lexer *x, const char *text, size_t length, tl_place start)
{
    *x = (tli_gin_lexer){.at = text,
                         .end = text + length,
                         .place = start,
                         .line_start = true,
                         .indent_count = 1,
                         .wanted_indents = 1};
    const tli_gin_lexer begin = *x;
    while (x->at < x->end) {
        size_t n = sequence_length((const unsigned char *)x->at, (size_t)(x->end - x->at));
        if (n == 0)
            return tli_gin_at(TL_FAIL(TL_EINVAL, "byte 0x%02x is not UTF-8; save the file as UTF-8",
                                      (unsigned char)*x->at),
                              x->place);
        if (*x->at == '\0')
            return tli_gin_at(TL_FAIL(TL_EINVAL, "a NUL byte cannot stand in a text"), x->place);
        if (at_newline(x)) {
            step_newline(x);
        } else { // not step(): stray continuation bytes must not pass unseen
            x->at += n;
            x->place.column++;
        }
    }
    *x = begin;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) x->at += 3; // byte order mark
    return TL_OK;
}

static void skip_comment(tli_gin_lexer *x)
{
    while (x->at < x->end && !at_newline(x)) step(x);
}

/* Moves over `\` and the end of its line. */
static tl_status join_lines(tli_gin_lexer *x)
{
    tl_place place = x->place;
    step(x);
    if (!at_newline(x))
        return tli_gin_at(TL_FAIL(TL_EINVAL,
                                  "'\\' joins two lines and must be the last character of "
                                  "the first"),
                          place);
    step_newline(x);
    return TL_OK;
}

static tl_status skip_blanks(tli_gin_lexer *x, bool *spaced)
{
    while (x->at < x->end) {
        char c = *x->at;
        if (c == ' ' || c == '\t' || c == '\f') step(x);
        else if (c == '\\') TL_TRY(join_lines(x));
        else if (c == '#') skip_comment(x);
        else if (x->bracket_count && at_newline(x)) step_newline(x);
        else break;
        *spaced = true;
    }
    return TL_OK;
}

/* At the start of a line: passes over empty ones and measures the indentation of the next. */
static tl_status measure_indent(tli_gin_lexer *x)
{
    int column;
    for (;;) {
        for (column = 0; x->at < x->end; step(x)) {
            if (*x->at == ' ') column++;
            else if (*x->at == '\t') column = (column / 8 + 1) * 8;
            else if (*x->at == '\f') column = 0;
            else break;
            if (column > 1 << 20) column = 1 << 20;
        }
        if (x->at < x->end && *x->at == '#') skip_comment(x);
        if (!at_newline(x)) break;
        step_newline(x);
    }
    x->line_start = x->at == x->end;
    if (x->line_start) column = 0; // all blocks end with the text
    x->wanted_indents = x->indent_count;
    while (x->indents[x->wanted_indents - 1] > column) x->wanted_indents--;
    if (column == x->indents[x->wanted_indents - 1]) return TL_OK;
    if (x->wanted_indents < x->indent_count)
        return tli_gin_at(TL_FAIL(TL_EINVAL,
                                  "this line is indented less than the block above it, but "
                                  "not as any block around it"),
                          x->place);
    if (x->indent_count == TLI_GIN_MAX_INDENTS)
        return tli_gin_at(
            TL_FAIL(TL_ELIMIT, "more than %d levels of indentation", TLI_GIN_MAX_INDENTS),
            x->place);
    x->indents[x->wanted_indents++] = column;
    return TL_OK;
}

/* True for the words that may stand before the quotes of a string. */
static bool is_string_prefix(const char *text, size_t length)
{
    static const char *const prefixes[] = {"r", "u", "b", "f", "br", "rb", "fr", "rf"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strlen(prefixes[i]) == length && strncasecmp(prefixes[i], text, length) == 0)
            return true;
    return false;
}

/* Moves to behind the closing quotes; `at` is at the opening ones. */
static tl_status skip_string(tli_gin_lexer *x, tl_place start)
{
    char quote = *x->at;
    size_t room = (size_t)(x->end - x->at);
    int wanted = room >= 3 && x->at[1] == quote && x->at[2] == quote ? 3 : 1;
    for (int i = 0; i < wanted; i++) step(x);
    for (int closed = 0; closed < wanted;) {
        if (x->at == x->end || (wanted == 1 && at_newline(x)))
            return tli_gin_at(TL_FAIL(TL_EINVAL, "the string that starts here is never closed"),
                              start);
        closed = *x->at == quote ? closed + 1 : 0;
        if (*x->at == '\\' && x->at + 1 < x->end) {
            step(x); // what follows, also a quote or the end of the line, belongs to the string
            if (at_newline(x)) step_newline(x);
            else step(x);
        } else if (at_newline(x)) {
            step_newline(x);
        } else {
            step(x);
        }
    }
    return TL_OK;
}

static void skip_number(tli_gin_lexer *x)
{
    bool hex = x->end - x->at > 1 && x->at[0] == '0' && (x->at[1] == 'x' || x->at[1] == 'X');
    while (x->at < x->end && (tli_gin_is_word(*x->at) || *x->at == '.')) {
        char c = *x->at;
        step(x);
        bool exponent = !hex && (c == 'e' || c == 'E');
        if (exponent && x->at < x->end && (*x->at == '+' || *x->at == '-')) step(x);
    }
}

static tl_status skip_mark(tli_gin_lexer *x)
{
    char c = *x->at;
    if ((unsigned char)c < ' ' || (unsigned char)c >= 0x7f)
        return tli_gin_at(TL_FAIL(TL_EINVAL,
                                  "a character that is not ASCII, or a control character, "
                                  "can stand in strings and comments alone"),
                          x->place);
    if (strchr("([{", c)) {
        if (x->bracket_count == TL_GIN_MAX_DEPTH)
            return tli_gin_at(
                TL_FAIL(TL_ELIMIT, "brackets are nested more than %d deep", TL_GIN_MAX_DEPTH),
                x->place);
        x->brackets[x->bracket_count++] = x->place;
    } else if (strchr(")]}", c) && x->bracket_count) {
        x->bracket_count--;
    }
    step(x);
    return TL_OK;
}

static tl_status next_word(tli_gin_lexer *x, tli_gin_token *t)
{
    char c = *x->at;
    bool point = c == '.' && x->end - x->at > 1 && isdigit((unsigned char)x->at[1]);
    if (isdigit((unsigned char)c) || point) {
        t->kind = TLI_GIN_NUMBER;
        skip_number(x);
    } else if (tli_gin_is_word(c)) {
        t->kind = TLI_GIN_NAME;
        while (x->at < x->end && tli_gin_is_word(*x->at)) step(x);
        bool quoted = x->at < x->end && (*x->at == '\'' || *x->at == '"');
        if (quoted && is_string_prefix(t->text, (size_t)(x->at - t->text))) {
            t->kind = TLI_GIN_STRING;
            TL_TRY(skip_string(x, t->place));
        }
    } else if (c == '\'' || c == '"') {
        t->kind = TLI_GIN_STRING;
        TL_TRY(skip_string(x, t->place));
    } else {
        t->kind = TLI_GIN_MARK;
        TL_TRY(skip_mark(x));
    }
    t->length = (size_t)(x->at - t->text);
    return TL_OK;
}

tl_status tli_gin_lexer_next(tli_gin_lexer *x, tli_gin_token *t)
{
    *t = (tli_gin_token){.kind = TLI_GIN_END, .text = "", .place = x->place};
    if (x->line_start && !x->bracket_count) TL_TRY(measure_indent(x));
    if (x->wanted_indents != x->indent_count) {
        bool deeper = x->wanted_indents > x->indent_count;
        t->kind = deeper ? TLI_GIN_INDENT : TLI_GIN_DEDENT;
        t->place = x->place;
        x->indent_count += deeper ? 1 : -1;
        return TL_OK;
    }
    TL_TRY(skip_blanks(x, &t->spaced));
    t->place = x->place;
    t->text = x->at;
    if (x->at == x->end) {
        if (x->bracket_count)
            return tli_gin_at(TL_FAIL(TL_EINVAL, "the bracket that opens here is never closed"),
                              x->brackets[x->bracket_count - 1]);
        // The last line need not end with a newline.
        if (!x->line_start) t->kind = TLI_GIN_NEWLINE;
        x->line_start = true;
        t->text = "";
        return TL_OK;
    }
    if (at_newline(x)) {
        step_newline(x);
        x->line_start = true;
        t->kind = TLI_GIN_NEWLINE;
        return TL_OK;
    }
    return next_word(x, t);
}
