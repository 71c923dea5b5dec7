/* Texts with labels in lines of JSON: rows are texts in UTF-8 with a label and a line that grows, a
 * second pass reads the same, and failures name the file. The first byte chooses what is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/text/rows.h>

#include "base/inner/utf8.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "%s (%s)\n", what, tl_error_message());
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    return 0;
}

static void check_text(tl_bytes text)
{
    for (size_t i = 0; i < text.size;) {
        char tail[8] = {0};
        memcpy(tail, text.data + i, text.size - i < 7 ? text.size - i : 7);
        int bytes = tli_utf8_length(tail); // a NUL is a character of JSON
        must(bytes > 0, "a text that is no UTF-8");
        i += (size_t)bytes;
    }
}

/* A number that all rows have a part in; 0 when the file is refused. */
static uint64_t read_all(const uint8_t *data, size_t size, const tl_text_rows_args *args)
{
    uint64_t hash = TL_HASH_SEED;
    int64_t line = 0;
    tl_text_rows *rows;
    tl_status st = tl_text_rows_from_memory(&rows, "fuzz.jsonl", data, size, args);
    must((st == TL_OK) == (rows != NULL), "neither rows nor a failure");
    while (st == TL_OK) {
        tl_text_row row;
        bool more = true;
        st = tl_text_rows_next(rows, &row, &more);
        if (st != TL_OK || !more) break;
        check_text(row.first);
        check_text(row.second);
        must(row.line > line, "lines that do not grow");
        must(!args->label == !row.label, "a row without a label");
        must(!row.label || *row.label, "an empty label");
        line = row.line;
        hash = tl_hash_bytes(hash, row.first.data, row.first.size);
        if (row.second.size) hash = tl_hash_bytes(hash, row.second.data, row.second.size);
        if (row.label) hash = tl_hash_string(hash, row.label);
    }
    must(st == TL_OK || (st != TL_EINTERNAL && strstr(tl_error_message(), "fuzz")),
         "a failure without a good message");
    tl_text_rows_free(&rows);
    return st == TL_OK ? hash : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    const tl_text_rows_args args = {
        .first = data[0] & 1 ? "text" : "a",
        .second = data[0] & 2 ? "b" : NULL,
        .label = data[0] & 4 ? "label" : NULL,
    };
    must(read_all(data + 1, size - 1, &args) == read_all(data + 1, size - 1, &args),
         "another pass reads something else");
    return 0;
}
