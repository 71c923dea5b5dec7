/* Tables as text: rows of cells. What separates them is known here (table_look.c). */
#include <inttypes.h>
#include <string.h>

#include "io/table/impl.h"
#include "base/inner/utf8.h"

/* --- one cell --------------------------------------------------------------------------------- */

static bool is_blank(const tli_table *t, char c)
{
    return c == ' ' || (c == '\t' && t->base.delimiter != '\t');
}

static tl_status fail_at(const tli_table *t, int64_t line, const char *why)
{
    return TL_FAIL(TL_EDATA, "%s:%" PRId64 ": column %" PRId64 ": %s", t->base.name, line,
                   t->found + 1, why);
}

static tl_status check_size(const tli_table *t, int64_t line, const char *from, const char *to)
{
    if (to - from <= TL_TABLE_CELL_BYTES) return TL_OK;
    return TL_FAIL(TL_ELIMIT,
                   "%s:%" PRId64 ": column %" PRId64
                   ": the cell has more than %d bytes; is a quote missing?",
                   t->base.name, line, t->found + 1, TL_TABLE_CELL_BYTES);
}

static bool is_utf8(const char *text, size_t length)
{
    char tail[8] = {0};
    for (size_t i = 0; i < length;) {
        size_t left = length - i;
        const char *p = text + i;
        if (left < 4) { // behind the cell there is something else
            memcpy(tail, p, left);
            memset(tail + left, 0, sizeof tail - left);
            p = tail;
        }
        int bytes = tli_utf8_length(p);
        if (!bytes) return false;
        i += (size_t)bytes;
    }
    return true;
}

/* Texts of the file are taken as they are; others are written anew, into memory that lasts for the
 * row. */
static char *row_text(tli_table *t, size_t bytes)
{
    if (!t->marked) t->row = tl_arena_begin(t->texts);
    t->marked = true;
    return tl_arena_alloc(t->texts, bytes);
}

void tli_table_forget(tli_table *t)
{
    if (t->marked) tl_arena_end(t->texts, t->row);
    t->marked = false;
}

static tl_status make_utf8(tli_table *t, tl_cell *c)
{
    char *out = row_text(t, c->length * 2 + 1), *p = out;
    if (!out) return TL_ENOMEM;
    for (size_t i = 0; i < c->length; i++) {
        uint8_t byte = (uint8_t)c->text[i];
        if (byte < 0x80) {
            *p++ = (char)byte;
        } else {
            *p++ = (char)(0xc0 | byte >> 6);
            *p++ = (char)(0x80 | (byte & 0x3f));
        }
    }
    c->text = out;
    c->length = (size_t)(p - out);
    c->was_not_utf8 = true;
    t->base.not_utf8++;
    return TL_OK;
}

static tl_status put_cell(tli_table *t, const char *from, const char *to, bool plain)
{
    tl_cell c = {.text = from, .length = (size_t)(to - from)};
    if (!plain && !is_utf8(from, c.length)) TL_TRY(make_utf8(t, &c));
    if (t->found >= TL_TABLE_COLUMNS)
        return TL_FAIL(TL_ELIMIT, "%s:%" PRId64 ": the row has more than %d cells", t->base.name,
                       t->line, TL_TABLE_COLUMNS);
    if (t->found >= t->room) TL_TRY(tli_table_make_room(t, t->found < 32 ? 64 : 2 * t->found));
    t->cells[t->found++] = c;
    return TL_OK;
}

/* Doubled quotes become one. */
static tl_status put_quoted(tli_table *t, const char *from, const char *to, bool doubled,
                            bool plain)
{
    if (!doubled) return put_cell(t, from, to, plain);
    char *text = row_text(t, (size_t)(to - from)), *p = text;
    if (!text) return TL_ENOMEM;
    for (; from < to; from++) {
        *p++ = *from;
        from += *from == '"';
    }
    return put_cell(t, text, p, plain);
}

/* `at` is behind the opening quote; it becomes what is behind the closing one. */
static tl_status read_quoted(tli_table *t)
{
    tli_csv *v = &t->csv;
    const char *from = v->at, *p = from;
    int64_t line = v->at_line;
    unsigned char any = 0;
    bool doubled = false;
    for (;; p++) {
        if (p == t->end) return fail_at(t, line, "the quote that begins here has no end");
        if (*p == '"') {
            if (p + 1 == t->end || p[1] != '"') break;
            doubled = true;
            p++;
        } else if (*p == '\n') {
            v->at_line++;
        } else if (*p == '\r' && (p + 1 == t->end || p[1] != '\n')) {
            v->at_line++;
        } else if (*p == '\0') {
            return fail_at(t, v->at_line, "a zero byte; a table is text");
        }
        any |= (unsigned char)*p;
    }
    TL_TRY(check_size(t, line, from, p));
    TL_TRY(put_quoted(t, from, p, doubled, any < 0x80));
    for (v->at = p + 1; v->at < t->end && is_blank(t, *v->at); v->at++) {}
    if (v->at == t->end || *v->at == t->base.delimiter || *v->at == '\n' || *v->at == '\r')
        return TL_OK;
    t->found--;
    return fail_at(t, v->at_line,
                   "something stands behind the closing quote; quotes within a cell are doubled");
}

static tl_status read_cell(tli_table *t)
{
    tli_csv *v = &t->csv;
    const char *p = v->at;
    unsigned char any = 0;
    while (p < t->end && is_blank(t, *p)) p++;
    v->at = p;
    if (p < t->end && *p == '"' && !v->no_quotes) {
        v->at++;
        return read_quoted(t);
    }
    const char *from = p;
    for (; p < t->end && !v->special[(unsigned char)*p]; p++) any |= (unsigned char)*p;
    if (p < t->end && *p == '\0') return fail_at(t, v->at_line, "a zero byte; a table is text");
    TL_TRY(check_size(t, v->at_line, from, p));
    v->at = p;
    while (p > from && is_blank(t, p[-1])) p--;
    return put_cell(t, from, p, any < 0x80);
}

/* --- one row ---------------------------------------------------------------------------------- */

static void skip_line_end(tli_table *t)
{
    tli_csv *v = &t->csv;
    if (v->at == t->end) return;
    v->at += *v->at == '\r' && v->at + 1 < t->end && v->at[1] == '\n' ? 2 : 1;
    v->at_line++;
}

static void skip_empty_lines(tli_table *t)
{
    tli_csv *v = &t->csv;
    for (;;) {
        const char *p = v->at;
        while (p < t->end && is_blank(t, *p)) p++;
        if (p < t->end && *p != '\n' && *p != '\r') return;
        v->at = p;
        if (p == t->end) return;
        skip_line_end(t);
    }
}

tl_status tli_csv_row(tli_table *t, bool *more)
{
    tli_csv *v = &t->csv;
    tli_table_forget(t);
    skip_empty_lines(t);
    t->found = 0;
    t->line = v->at_line;
    if (v->at == t->end) {
        *more = false;
        return TL_OK;
    }
    for (;;) {
        TL_TRY(read_cell(t));
        if (v->at == t->end || *v->at != t->base.delimiter) break;
        v->at++;
    }
    skip_line_end(t);
    return TL_OK;
}

static tl_status csv_next(tli_table *t, bool *more)
{
    TL_TRY(tli_csv_row(t, more));
    for (; *more && t->csv.skip_short && t->found < t->base.columns; t->base.skipped++)
        TL_TRY(tli_csv_row(t, more));
    if (!*more || t->found == t->base.columns) return TL_OK;
    return TL_FAIL(TL_EDATA,
                   "%s:%" PRId64 ": the row has %" PRId64 " cell%s, and the first line has %" PRId64
                   " (separated by '%s')",
                   t->base.name, t->line, t->found, t->found == 1 ? "" : "s", t->base.columns,
                   t->base.delimiter == '\t' ? "tab" : (char[]){t->base.delimiter, 0});
}

static void csv_rewind(tli_table *t)
{
    t->csv.at = t->csv.first;
    t->csv.at_line = t->csv.first_line;
    t->line = 0;
    t->base.skipped = 0;
}

const tli_table_format tli_csv_format = {csv_next, csv_rewind};
