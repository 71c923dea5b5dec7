/* What a table of text looks like: what separates cells, how numbers are written, whether the first
 * line names columns. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/map.h>

#include "io/table/impl.h"

/* that tell what separates cells, and how numbers are written */
enum { FEW_ROWS = 32, MANY_ROWS = 10000 };

static void set_delimiter(tli_table *t, char delimiter)
{
    t->base.delimiter = delimiter;
    memset(t->csv.special, 0, sizeof t->csv.special);
    t->csv.special[(unsigned char)delimiter] = t->csv.special['\n'] = t->csv.special['\r'] =
        t->csv.special[0] = 1;
}

/* --- what separates cells --------------------------------------------------------------------- */

/* How the first rows come out with a delimiter. */
typedef struct look {
    int64_t rows, cells;    /* of all of them */
    int64_t width;          /* cells of the first row */
    int64_t alike;          /* rows that are as wide */
    int64_t numbers;        /* cells that hold one */
    int64_t commas, points; /* among them */
} look;

static void look_at_cells(look *l, tli_table *t)
{
    double value;
    for (int64_t i = 0; i < t->found; i++) {
        const tl_cell *c = &t->cells[i];
        bool comma = c->length && memchr(c->text, ',', c->length);
        t->base.decimal_comma = t->base.delimiter != ',' && comma;
        if (!tl_cell_number(&value, &t->base, c)) continue;
        l->numbers++;
        l->commas += comma;
        l->points += memchr(c->text, '.', c->length) != NULL;
    }
    t->base.decimal_comma = false;
}

/* A row that cannot be read ends the look. */
static tl_status look_at(look *l, tli_table *t, char delimiter, int64_t rows)
{
    *l = (look){0};
    set_delimiter(t, delimiter);
    t->format->rewind(t);
    for (; l->rows < rows; l->rows++) {
        bool more = true;
        tl_status st = tli_csv_row(t, &more);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK || !more) break;
        if (!l->rows) l->width = t->found;
        l->alike += t->found == l->width;
        l->cells += t->found;
        look_at_cells(l, t);
    }
    t->format->rewind(t);
    t->base.not_utf8 = 0;
    return TL_OK;
}

/* More rows of one width, then more numbers among the cells, then more cells. */
static bool is_better(const look *a, const look *b)
{
    if ((a->width > 1) != (b->width > 1)) return a->width > 1;
    if (a->alike * b->rows != b->alike * a->rows) return a->alike * b->rows > b->alike * a->rows;
    if (a->numbers * b->cells != b->numbers * a->cells)
        return a->numbers * b->cells > b->numbers * a->cells;
    return a->width > b->width;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), n = strlen(ending);
    return length > n && strcmp(text + length - n, ending) == 0;
}

static tl_status find_delimiter(tli_table *t, const tl_table_args *args)
{
    static const char candidates[] = {',', ';', '\t', '|'};
    const bool tabs = ends_with(t->base.name, ".tsv") || ends_with(t->base.name, ".tsv.gz");
    char chosen = args->delimiter ? args->delimiter : tabs ? '\t' : 0;
    look best = {0}, l;
    for (int64_t i = 0; !args->delimiter && !tabs && i < TL_COUNT(candidates); i++) {
        TL_TRY(look_at(&l, t, candidates[i], FEW_ROWS));
        if (i && !is_better(&l, &best)) continue;
        best = l;
        chosen = candidates[i];
    }
    set_delimiter(t, chosen);
    if (chosen == ',') return TL_OK;
    TL_TRY(look_at(&l, t, chosen, MANY_ROWS));
    t->base.decimal_comma = l.commas > 0 && l.points == 0;
    return TL_OK;
}

/* --- names of columns ------------------------------------------------------------------------- */

/* The first line, kept while those below it are looked at. */
typedef struct first_line {
    const char **texts; /* NULL: there is nothing, a number or a date */
    int64_t count;
    bool any, numbers, twice; /* it has a text; a number or a date; a text twice */
} first_line;

static tl_status take_first_line(first_line *out, const tli_table *t)
{
    tl_map seen = TL_MAP_INIT;
    tl_status st = TL_OK;
    double value;
    *out = (first_line){.texts = tl_arena_array(t->arena, t->found, sizeof *out->texts),
                        .count = t->found};
    if (!out->texts) return TL_ENOMEM;
    for (int64_t i = 0; i < t->found && st == TL_OK; i++) {
        const tl_cell *c = &t->cells[i];
        bool number = tl_cell_number(&value, &t->base, c) || tl_cell_days(&value, c);
        out->numbers |= number;
        if (number || !c->length) continue;
        const char *text = out->texts[i] = tl_arena_strndup(t->arena, c->text, c->length);
        out->twice |= text && tl_map_has(&seen, text);
        out->any = true;
        st = text ? tl_map_set(&seen, text, NULL) : TL_ENOMEM;
        if (tl_cell_is_missing(c)) out->texts[i] = NULL; // it stands in rows, too
    }
    tl_map_deinit(&seen);
    return st;
}

/* Of the texts those remain below which nothing but numbers or dates stands, in the next rows. */
static tl_status keep_above_numbers(first_line *f, tli_table *t)
{
    int64_t *numbers = tl_arena_array(t->arena, f->count, sizeof *numbers);
    double value;
    if (!numbers) return TL_ENOMEM;
    for (int64_t row = 0; row < FEW_ROWS; row++) {
        bool more = true;
        tl_status st = tli_csv_row(t, &more);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK || !more || t->found != f->count) break;
        for (int64_t i = 0; i < f->count; i++) {
            const tl_cell *c = &t->cells[i];
            if (tl_cell_is_missing(c)) continue;
            if (tl_cell_number(&value, &t->base, c) || tl_cell_days(&value, c)) numbers[i]++;
            else f->texts[i] = NULL;
        }
    }
    tl_error_clear(); // a row that cannot be read is told when it is read
    for (int64_t i = 0; i < f->count; i++)
        if (!numbers[i]) f->texts[i] = NULL;
    return TL_OK;
}

/* Whether the row at hand, the first, names the columns: no numbers, no dates, and no text twice.
 * One that is not taken for names, and yet has a text above numbers, is noted; or, when it has
 * nothing but texts, taken for names that will not do. */
static tl_status looks_like_names(bool *out, tli_table *t)
{
    first_line f;
    TL_TRY(take_first_line(&f, t));
    *out = f.any && !f.numbers && !f.twice;
    if (*out || !f.any) return TL_OK;
    TL_TRY(keep_above_numbers(&f, t));
    for (int64_t i = f.count - 1; i >= 0; i--)
        if (f.texts[i]) t->base.likely_name = f.texts[i];
    *out = t->base.likely_name && !f.numbers;
    t->format->rewind(t);
    bool more = true;
    return tli_csv_row(t, &more);
}

static tl_status take_names(tli_table *t)
{
    const char **names = tl_arena_array(t->arena, t->found, sizeof *names);
    tl_map seen = TL_MAP_INIT;
    tl_status st = names ? TL_OK : TL_ENOMEM;
    for (int64_t i = 0; i < t->found && st == TL_OK; i++) {
        const tl_cell *c = &t->cells[i];
        names[i] = c->length ? tl_arena_strndup(t->arena, c->text, c->length)
                             : tl_arena_printf(t->arena, "col_%" PRId64, i);
        if (!names[i]) st = TL_ENOMEM;
        else if (tl_map_has(&seen, names[i]))
            st = TL_FAIL(TL_EDATA,
                         "%s:%" PRId64 ": column %" PRId64 ": a second column is called '%.80s'%s",
                         t->base.name, t->line, i + 1, names[i],
                         t->base.likely_name ? "; header=none says that the line is a row" : "");
        else st = tl_map_set(&seen, names[i], NULL);
    }
    tl_map_deinit(&seen);
    t->base.names = names;
    t->base.columns = t->found;
    return st;
}

tl_status tli_csv_begin(tli_table *t, const tl_table_args *args)
{
    tli_csv *v = &t->csv;
    const bool mark = t->end - t->data >= 3 && memcmp(t->data, "\xef\xbb\xbf", 3) == 0;
    bool names = args->header == TL_HEADER_YES, more = true;
    v->first = t->data + (mark ? 3 : 0);
    v->first_line = 1;
    v->no_quotes = args->no_quotes;
    v->skip_short = args->skip_short;
    TL_TRY(find_delimiter(t, args));
    t->format->rewind(t);
    TL_TRY(tli_csv_row(t, &more));
    if (!more) return TL_FAIL(TL_EDATA, "'%s' is empty: it has no table in it", t->base.name);
    if (args->header == TL_HEADER_AUTO) TL_TRY(looks_like_names(&names, t));
    if (!names) {
        TL_TRY(tli_table_number_columns(t, t->found));
        t->format->rewind(t);
        t->base.not_utf8 = 0;
        return TL_OK;
    }
    TL_TRY(take_names(t));
    t->base.has_header = true;
    v->first = v->at;
    v->first_line = v->at_line;
    return TL_OK;
}
