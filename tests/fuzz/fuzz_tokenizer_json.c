/* tokenizer.json, and behind a byte of zero text that is tokenized with it. */
#include "fuzz.h"

#include <tilth/text/tokenizer.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello [MASK], \u00c9t\u00e9 \u535a wanted #a##b\n\u03a3";
    tl_tokenizer *t;
    tl_ids ids = {0};
    const uint8_t *end = memchr(data, 0, size);
    size_t json_size = end ? (size_t)(end - data) : size;
    if (tl_wordpiece_from_memory(&t, "fuzz.json", (const char *)data, json_size,
                                 &(tl_wordpiece_args){0})
        != TL_OK) {
        must(!t && (strstr(tl_error_message(), "fuzz.json") || tl_error_code() == TL_ENOMEM),
             "a failure without a good message");
        return 0;
    }
    must(tl_tokenize(t, &ids, text, sizeof text - 1) == TL_OK, "good text fails");
    if (end && tl_tokenize(t, &ids, (const char *)end + 1, size - json_size - 1) != TL_OK)
        must(strstr(tl_error_message(), "is no UTF-8"), "a refusal");
    for (int64_t i = 0; i < ids.count; i++)
        must(tl_tokenizer_piece(t, ids.items[i]), "an id without a piece");
    tl_ids_deinit(&ids);
    tl_tokenizer_free(&t);
    return 0;
}
