/* Rows of a table, to be looked at. */
#include <inttypes.h>

#include "zoo/table/table_zoo.h"

/* Goes to the row that begins in that line; false: it is not there any more. */
static tl_status find_row(tl_table *t, int64_t line, const tl_cell **cells, bool *found)
{
    bool more = true;
    *found = false;
    while (more && !*found) {
        TL_TRY(tl_table_next(t, cells, &more));
        *found = more && tl_table_line(t) == line;
    }
    return TL_OK;
}

static tl_status copy_row(const tl_table *t, const tl_cell *cells, tl_example_view *out)
{
    const char **names = tl_arena_array(out->arena, t->columns + 1, sizeof *names);
    const char **texts = tl_arena_array(out->arena, t->columns + 1, sizeof *texts);
    if (!names || !texts) return TL_ENOMEM;
    for (int64_t i = 0; i < t->columns; i++) {
        names[i] = tl_arena_strdup(out->arena, t->names[i]);
        texts[i] = cells[i].text ? tl_arena_strndup(out->arena, cells[i].text, cells[i].length)
                                 : tl_arena_printf(out->arena, "%.9g", cells[i].number);
        if (!names[i] || !texts[i]) return TL_ENOMEM;
    }
    out->columns = (tl_strings){names, t->columns};
    out->cells = (tl_strings){texts, t->columns};
    return TL_OK;
}

tl_status tli_table_show(const tli_table_report_of *of, const tl_table_args *args,
                         const tl_batch *batch, int64_t row, tl_example_view *out)
{
    const tl_tensor *places = tl_batch_peek(batch, "place");
    tl_table *table;
    tl_lease lease;
    const tl_cell *cells;
    bool found;
    if (!places || row >= tl_tensor_count(places)) return TL_OK;
    TL_TRY(tl_lease_read(&lease, places));
    int64_t place = ((const int64_t *)lease.data)[row], file = place >> TL_TABLE_LINE_BITS,
            line = place & (((int64_t)1 << TL_TABLE_LINE_BITS) - 1);
    tl_lease_drop(&lease);
    if (file >= of->files.count) return TL_OK;
    out->name = tl_arena_printf(out->arena, "%s:%" PRId64, of->files.items[file], line);
    if (!out->name) return TL_ENOMEM;
    TL_TRY(tl_table_open(&table, of->files.items[file], args));
    tl_status st = find_row(table, line, &cells, &found);
    if (st == TL_OK && found) st = copy_row(table, cells, out);
    tl_table_free(&table);
    return st;
}
