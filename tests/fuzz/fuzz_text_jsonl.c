/* Texts with labels in lines of JSON. The first byte chooses what is read. */
#include "text_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    const tl_text_rows_args args = {
        .first = data[0] & 1 ? "text" : "a",
        .second = data[0] & 2 ? "b" : NULL,
        .label = data[0] & 4 ? "label" : NULL,
    };
    check_rows("fuzz.jsonl", data + 1, size - 1, &args);
    return 0;
}
