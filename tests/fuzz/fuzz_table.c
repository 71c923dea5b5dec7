/* Tables: every cell can be read and is UTF-8, a second pass reads the same; what is found out
 * about a table is accepted, written and read again as the same, and every row becomes finite
 * numbers by it. The first byte chooses how it is read. */
#include "fuzz.h"

#include "memory_files.h"

#include <math.h>

#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/data/table.h>
#include <tilth/desc/config.h>
#include <tilth/desc/yaml.h>

static const char path[] = "memory.csv";

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    return 0;
}

/* A number that all cells have a part in; 0 when the table is damaged. */
static uint64_t pass(tl_table *t)
{
    uint64_t hash = TL_HASH_SEED;
    for (;;) {
        const tl_cell *cells;
        bool more = true;
        double value;
        tl_status st = tl_table_next(t, &cells, &more);
        must(st == TL_OK || (st != TL_EINTERNAL && strstr(tl_error_message(), "fuzz")),
             "a failure without a good message");
        if (st != TL_OK) return 0;
        if (!more) return hash;
        for (int64_t i = 0; i < t->columns; i++) {
            const tl_cell *c = &cells[i];
            must_be_utf8(c->text, c->length, false);
            bool number = tl_cell_number(&value, t, c);
            must(!number || isfinite(value), "a number that is none");
            must(!number || !tl_cell_is_missing(c), "a number that is missing");
            if (tl_cell_days(&value, c)) must(isfinite(value), "a date that is none");
            hash = tl_hash_bytes(hash, c->text, c->length);
            hash = tl_hash_bytes(hash, &c->number, sizeof c->number);
        }
    }
}

static void check_reading(const uint8_t *data, size_t size, const tl_table_args *args)
{
    tl_table *t;
    tl_status st = tl_table_from_memory(&t, "fuzz", data, size, args);
    if (st != TL_OK) {
        must(!t && st != TL_EINTERNAL && strstr(tl_error_message(), "fuzz"),
             "a failure without a good message");
        return;
    }
    must(t->columns > 0, "a table without columns");
    uint64_t first = pass(t);
    tl_table_rewind(t);
    must(pass(t) == first, "another pass reads something else");
    tl_table_free(&t);
}

static void check_written(const tl_table_schema *s)
{
    tl_str text = TL_STR_INIT;
    tl_config *c;
    must(tl_desc_check(&tl_table_schema_desc, s) == TL_OK, "a schema that is not acceptable");
    must(tl_yaml_write(&text, &tl_table_schema_desc, s) == TL_OK,
         "a schema that cannot be written");
    must(tl_config_new(&c, NULL, &tl_table_schema_desc) == TL_OK, "no memory");
    must(tl_config_yaml(c, tl_str_text(&text), "again") == TL_OK, "a schema that cannot be read");
    must(tl_desc_equal(&tl_table_schema_desc, s, tl_config_value(c)),
         "a schema that reads as another");
    tl_config_free(&c);
    tl_str_deinit(&text);
}

static void check_rows(const tl_table_schema *s, const tl_table_load_args *args, int64_t expected)
{
    tl_table_rows r;
    must(tl_table_rows_load(&r, s, args) == TL_OK, "a table that does not fit its own schema");
    must(r.count == expected, "rows that were lost");
    for (int64_t i = 0; i < r.count * r.widths.numbers; i++)
        must(isfinite(r.numbers[i]), "a number that is not finite");
    for (int64_t i = 0; i < r.count * r.widths.categories; i++)
        must(r.categories[i] >= 0 && r.categories[i] < r.widths.entries, "a category that is none");
    for (int64_t i = 0; i < r.count; i++) {
        if (r.classes)
            must(r.classes[i] >= 0 && r.classes[i] < s->class_names.count, "a class that is none");
        else must(isfinite(r.targets[i]), "a target that is not finite");
    }
    tl_table_rows_deinit(&r);
}

static void check_schema(const uint8_t *data, size_t size, const tl_table_args *args,
                         double held_out)
{
    const char *const paths[] = {path};
    tl_table_schema s;
    tl_table_findings found;
    tl_arena *arena;
    memory_file(0, path, data, size);
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    tl_status st = tl_table_schema_find(
        &s, &found,
        &(tl_table_find_args){
            .paths = paths, .path_count = 1, .table = *args, .held_out = held_out, .arena = arena});
    must(st == TL_OK || (st != TL_EINTERNAL && *tl_error_message()),
         "a failure without a good message");
    if (st == TL_OK) {
        must(strstr(found.report, path) != NULL, "a report without the file's name");
        bool whole = is_chosen(data, size, 32);
        if (whole) check_written(&s);
        check_rows(&s, &(tl_table_load_args){.paths = paths, .path_count = 1, .table = *args},
                   found.rows);
        if (held_out > 0 || whole)
            check_rows(&s,
                       &(tl_table_load_args){.paths = paths,
                                             .path_count = 1,
                                             .table = *args,
                                             .part = TL_PART_HELD_OUT,
                                             .held_out = held_out},
                       found.held_out);
    }
    tl_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char delimiters[] = {0, 0, ',', ';', '\t', '|', ':', 'x'};
    if (!size) return 0;
    const tl_table_args args = {
        .header = (tl_table_header)(data[0] % 3),
        .delimiter = delimiters[data[0] / 3 % 8],
        .no_quotes = data[0] / 24 & 1,
        .skip_short = data[0] / 24 & 2,
    };
    if (is_chosen(data, size, 2)) check_reading(data + 1, size - 1, &args);
    check_schema(data + 1, size - 1, &args, data[0] & 1 ? 0.3 : 0);
    return 0;
}
