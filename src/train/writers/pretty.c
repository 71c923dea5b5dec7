#include "train/writers/pretty.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, INDENT = 4, LONGEST_TEXT = 120 /* bytes */ };

/* As short as it can be told in six digits, with a point in it. */
static void add_number(tl_str *out, double value)
{
    char text[40];
    if (isnan(value) || isinf(value)) {
        tl_str_addf(out, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    snprintf(text, sizeof text, "%.6g", value);
    tl_str_addf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

/* Where a long text is cut: never within a character of UTF-8. */
static const char *end_of(const char *text)
{
    size_t length = strnlen(text, LONGEST_TEXT);
    const char *end = text + length;
    if (!*end) return end;
    for (int i = 0; i < 3 && end > text && (*end & 0xC0) == 0x80; i++) end--;
    return end;
}

/* Several lines would not be one any more. */
static bool is_long(const char *text)
{
    return strlen(text) > LONGEST_TEXT && strchr(text, '\n');
}

static void add_lines(tl_str *out, const char *text)
{
    int64_t lines = 1;
    for (; *text; text++) lines += *text == '\n';
    tl_str_addf(out, "<text of %lld lines>", (long long)lines);
}

static void add_quoted(tl_str *out, const char *text)
{
    const char *end = end_of(text);
    tl_str_addf(out, "'");
    for (; text < end; text++) {
        if (*text == '\n') tl_str_addf(out, "\\n");
        else if (*text == '\'' || *text == '\\') tl_str_addf(out, "\\%c", *text);
        else tl_str_addf(out, "%c", *text);
    }
    tl_str_addf(out, "%s'", *text ? "..." : "");
}

typedef struct sorted {
    tl_logs_entry *items;
    int64_t count;
} sorted;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tl_logs_entry *)a)->name, ((const tl_logs_entry *)b)->name);
}

static tl_status sort(sorted *out, tl_arena *arena, const tl_logs *logs)
{
    out->count = tl_logs_count(logs);
    out->items = tl_arena_array(arena, out->count ? out->count : 1, sizeof *out->items);
    if (!out->items) return TL_ENOMEM;
    for (int64_t i = 0; i < out->count; i++) tl_logs_at(&out->items[i], logs, i);
    qsort(out->items, (size_t)out->count, sizeof *out->items, by_name);
    return TL_OK;
}

static tl_status add_logs(tl_str *out, tl_arena *arena, const tl_logs *logs, const char *between);

static tl_status add_value(tl_str *out, tl_arena *arena, const tl_logs_entry *e)
{
    char spec[TL_TENSOR_TEXT];
    double number;
    switch (e->kind) {
    case TL_LOGS_NUMBER:
        TL_TRY(tl_logs_entry_number(&number, e));
        add_number(out, number);
        break;
    case TL_LOGS_TEXT:
        if (is_long(e->text)) add_lines(out, e->text);
        else add_quoted(out, e->text);
        break;
    case TL_LOGS_LOGS: return add_logs(out, arena, e->logs, ", ");
    default:
        tl_str_addf(out, "<%s %s>", tl_logs_kind_name(e->kind), tl_tensor_spec(spec, e->tensor));
    }
    return TL_OK;
}

static tl_status add_logs(tl_str *out, tl_arena *arena, const tl_logs *logs, const char *between)
{
    sorted s;
    TL_TRY(sort(&s, arena, logs));
    tl_str_addf(out, "{");
    for (int64_t i = 0; i < s.count; i++) {
        if (i) tl_str_addf(out, "%s", between);
        add_quoted(out, s.items[i].name);
        tl_str_addf(out, ": ");
        TL_TRY(add_value(out, arena, &s.items[i]));
    }
    tl_str_addf(out, "}");
    return TL_OK;
}

tl_status tli_logs_pretty(tl_str *out, const tl_logs *logs)
{
    tl_str line = TL_STR_INIT;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = add_logs(&line, arena, logs, ", ");
    if (st == TL_OK && line.length > WIDTH) {
        tl_str_deinit(&line);
        line = (tl_str)TL_STR_INIT;
        tl_str_addf(&line, "\n%*s", INDENT, "");
        st = add_logs(&line, arena, logs, ",\n     ");
    }
    tl_str_addf(out, "%s", tl_str_text(&line));
    tl_str_deinit(&line);
    tl_arena_free(&arena);
    return st == TL_OK ? tl_str_status(out) : st;
}
