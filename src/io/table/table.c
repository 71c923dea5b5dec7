#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/str.h>

#include "io/inflate.h"
#include "io/table/impl.h"

/* --- opening ---------------------------------------------------------------------------------- */

static bool begins(const tli_table *t, const char *bytes, size_t count)
{
    return (size_t)(t->end - t->data) >= count && memcmp(t->data, bytes, count) == 0;
}

/* Files that people take for tables, and that are none that can be read here. */
static tl_status refuse_others(const tli_table *t)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *what;
    } others[] = {
        {"PK\3\4", 4, "a zip archive, as Excel's .xlsx and numpy's .npz are"},
        {"\xd0\xcf\x11\xe0", 4, "a document of Excel or the like"},
        {"PAR1", 4, "a Parquet file"},
        {"\x89HDF", 4, "an HDF5 file"},
        {"\xff\xfe", 2, "text in UTF-16"},
        {"\xfe\xff", 2, "text in UTF-16"},
        {"BZh", 3, "compressed by bzip2"},
        {"\xfd"
         "7zXZ",
         5, "compressed by xz"},
        {"\x28\xb5\x2f\xfd", 4, "compressed by zstd"},
    };
    for (int64_t i = 0; i < TL_COUNT(others); i++)
        if (begins(t, others[i].bytes, others[i].count))
            return TL_FAIL(TL_EUNSUPPORTED, "'%s' is %s; save the table as CSV in UTF-8, or as npy",
                           t->base.name, others[i].what);
    return TL_OK;
}

static tl_status begin(tli_table *t, const tl_table_args *args)
{
    if (begins(t, "\x93NUMPY", 6)) {
        t->base.is_npy = true;
        t->format = &tli_npy_format;
        return tli_npy_begin(t);
    }
    TL_TRY(refuse_others(t));
    t->format = &tli_csv_format;
    return tli_csv_begin(t, args);
}

static tl_status take(tli_table *t, const void *data, size_t size, const tl_table_args *args)
{
    static const tl_table_args usual;
    if (tli_is_gzip(data, size)) {
        TL_TRY(tli_inflate(&t->owned, &size, t->base.name, data, size, 0));
        tl_file_unmap(&t->mapped);
        data = t->owned;
    }
    t->data = data;
    t->end = t->data + size;
    return begin(t, args ? args : &usual);
}

static tl_status make(tli_table **out, const char *name)
{
    tl_arena *arena;
    *out = NULL;
    TL_TRY(tl_arena_new(&arena));
    tli_table *t = tl_arena_alloc(arena, sizeof *t);
    tl_status st = t ? tl_arena_new(&t->texts) : TL_ENOMEM;
    if (st == TL_OK && !(t->base.name = tl_arena_strdup(arena, name))) st = TL_ENOMEM;
    if (st != TL_OK) {
        if (t) tl_arena_free(&t->texts);
        tl_arena_free(&arena);
        return st;
    }
    t->arena = arena;
    *out = t;
    return TL_OK;
}

tl_status tl_table_open(tl_table **out, const char *path, const tl_table_args *args)
{
    tli_table *t;
    *out = NULL;
    TL_TRY(make(&t, path));
    *out = &t->base;
    tl_status st = tl_file_map(&t->mapped, path);
    if (st == TL_OK) st = take(t, t->mapped.data, t->mapped.size, args);
    if (st != TL_OK) tl_table_free(out);
    return st;
}

tl_status tl_table_from_memory(tl_table **out, const char *name, const void *data, size_t size,
                               const tl_table_args *args)
{
    tli_table *t;
    *out = NULL;
    TL_TRY(make(&t, name));
    *out = &t->base;
    tl_status st = take(t, size ? data : "", size, args);
    if (st != TL_OK) tl_table_free(out);
    return st;
}

void tl_table_free(tl_table **out)
{
    tli_table *t = (tli_table *)*out;
    *out = NULL;
    if (!t) return;
    tl_file_unmap(&t->mapped);
    tl_free(t->owned);
    tl_free(t->cells);
    tli_table_forget(t);
    tl_arena_free(&t->texts);
    tl_arena *arena = t->arena;
    tl_arena_free(&arena);
}

/* --- columns ---------------------------------------------------------------------------------- */

tl_status tli_table_number_columns(tli_table *t, int64_t columns)
{
    const char **names = tl_arena_array(t->arena, columns, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < columns; i++)
        if (!(names[i] = tl_arena_printf(t->arena, "col_%" PRId64, i))) return TL_ENOMEM;
    t->base.names = names;
    t->base.columns = columns;
    return tli_table_make_room(t, columns);
}

tl_status tli_table_make_room(tli_table *t, int64_t cells)
{
    if (cells <= t->room) return TL_OK;
    tl_cell *more = tl_realloc(t->cells, (size_t)cells * sizeof *more);
    if (!more) return TL_FAIL_NOMEM((size_t)cells * sizeof *more);
    t->cells = more;
    t->room = cells;
    return TL_OK;
}

static bool find_number(int64_t *out, const tl_table *t, const char *name)
{
    char *end;
    if (!*name || strlen(name) > 9) return false;
    long number = strtol(name, &end, 10);
    if (*end || number >= t->columns || number < -t->columns) return false;
    *out = number < 0 ? number + t->columns : number;
    return true;
}

tl_status tl_table_find(int64_t *out, const tl_table *t, const char *name)
{
    enum { MOST = 30 };
    for (*out = 0; *out < t->columns; ++*out)
        if (strcmp(t->names[*out], name) == 0) return TL_OK;
    if (find_number(out, t, name)) return TL_OK;
    const char *near = tl_nearest(name, t->names, t->columns);
    tl_str list = TL_STR_INIT;
    for (int64_t i = 0; i < t->columns && i < MOST; i++)
        tl_str_addf(&list, "%s%.60s", i ? ", " : "", t->names[i]);
    if (t->columns > MOST) tl_str_addf(&list, " and %" PRId64 " more", t->columns - MOST);
    tl_status st = TL_FAIL(
        TL_ENOTFOUND, "'%s' has no column '%.80s'%s%s%s; it has %s%s", t->name, name,
        near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", tl_str_text(&list),
        t->has_header || t->is_npy ? ""
                                   : ". Its first line was not taken for names of columns; "
                                     "header=first_line says that it is");
    tl_str_deinit(&list);
    return st;
}

/* --- rows ------------------------------------------------------------------------------------- */

tl_status tl_table_next(tl_table *table, const tl_cell **cells, bool *more)
{
    tli_table *t = (tli_table *)table;
    *cells = NULL;
    tl_status st = t->format->next(t, more);
    // zeros are no rows
    if (st != TL_OK || !*more) TL_TRY(tl_file_mapping_check(&t->mapped, t->base.name));
    TL_TRY(st);
    if (*more) *cells = t->cells;
    return TL_OK;
}

int64_t tl_table_line(const tl_table *t)
{
    return ((const tli_table *)t)->line;
}

void tl_table_rewind(tl_table *t)
{
    ((tli_table *)t)->format->rewind((tli_table *)t);
}
