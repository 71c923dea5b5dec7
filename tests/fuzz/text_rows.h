/* Rows of texts with labels: they are UTF-8 with a label and a line that grows, a second pass reads
 * the same, and failures name the file. */
#ifndef TILTH_TESTS_FUZZ_TEXT_ROWS_H
#define TILTH_TESTS_FUZZ_TEXT_ROWS_H

#include "fuzz.h"

#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/text/rows.h>

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    return 0;
}

/* A number that all rows have a part in; 0 when the file is refused. */
static inline uint64_t read_rows(const char *name, const uint8_t *data, size_t size,
                                 const tl_text_rows_args *args)
{
    uint64_t hash = TL_HASH_SEED;
    int64_t line = 0;
    bool zeros = strstr(name, ".json");
    tl_text_rows *rows;
    tl_status st = tl_text_rows_from_memory(&rows, name, data, size, args);
    must((st == TL_OK) == (rows != NULL), "neither rows nor a failure");
    while (st == TL_OK) {
        tl_text_row row;
        bool more = true;
        st = tl_text_rows_next(rows, &row, &more);
        if (st != TL_OK || !more) break;
        must_be_utf8(row.first.data, row.first.size, zeros);
        must_be_utf8(row.second.data, row.second.size, zeros);
        must(row.line > line, "lines that do not grow");
        must(!args->label == !row.label, "a row without a label");
        must(!row.label || *row.label, "an empty label");
        line = row.line;
        hash = tl_hash_bytes(hash, row.first.data, row.first.size);
        if (row.second.size) hash = tl_hash_bytes(hash, row.second.data, row.second.size);
        if (row.label) hash = tl_hash_string(hash, row.label);
    }
    must(st == TL_OK || (st != TL_EINTERNAL && strstr(tl_error_message(), name)),
         "a failure without a good message");
    tl_text_rows_free(&rows);
    return st == TL_OK ? hash : 0;
}

/* The file's name says what it is. */
static inline void check_rows(const char *name, const uint8_t *data, size_t size,
                              const tl_text_rows_args *args)
{
    uint64_t first = read_rows(name, data, size, args);
    if (is_chosen(data, size, 4))
        must(read_rows(name, data, size, args) == first, "another pass reads something else");
}

#endif
