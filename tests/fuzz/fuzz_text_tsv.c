/* Texts with labels in tables. The first byte chooses how it is read. */
#include "text_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char delimiters[] = {0, ',', '\t', ';'};
    if (!size) return 0;
    const tl_text_rows_args args = {
        .first = data[0] & 1 ? "text" : "0",
        .second = data[0] & 2 ? "1" : NULL,
        .label = data[0] & 4 ? "-1" : NULL,
        .header = (tl_table_header)(data[0] / 8 % 3),
        .delimiter = delimiters[data[0] / 24 % 4],
        .quoting = {data[0] >= 128, data[0] & 64},
    };
    check_rows("fuzz.tsv", data + 1, size - 1, &args);
    return 0;
}
