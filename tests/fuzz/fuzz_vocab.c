/* vocab.txt, and text tokenized with it. The first byte chooses the rules, lower case, and whether
 * the unknown piece is put before the rest; the text follows behind a line "=". */
#include "fuzz.h"

#include <tilth/base/alloc.h>
#include <tilth/text/tokenizer.h>

static void check_ids(const tl_tokenizer *t, const tl_ids *ids)
{
    for (int64_t i = 0; i < ids->count; i++) {
        const char *piece = tl_tokenizer_piece(t, ids->items[i]);
        must(piece && *piece, "an id without a piece");
        must(tl_tokenizer_find(t, piece) == ids->items[i], "an id that its piece does not have");
    }
}

/* Words are what they are wherever they stand: a text and itself behind a line's end give the same
 * twice. */
static void check_twice(const tl_tokenizer *t, const tl_ids *once, const char *text, size_t size)
{
    tl_ids twice = {0};
    char *both = malloc(2 * size + 1);
    must(both, "no memory");
    memcpy(both, text, size);
    both[size] = '\n';
    memcpy(both + size + 1, text, size);
    must(tl_tokenize(t, &twice, both, 2 * size + 1) == TL_OK, "twice the text fails");
    must(twice.count == 2 * once->count, "twice the text gives other ids");
    for (int64_t i = 0; i < twice.count; i++)
        must(twice.items[i] == once->items[i % once->count], "twice the text gives other ids");
    tl_ids_deinit(&twice);
    free(both);
}

static void check_text(const tl_tokenizer *t, bool refuses, const char *text, size_t size)
{
    tl_ids once = {0};
    if (tl_tokenize(t, &once, text, size) != TL_OK) {
        must(refuses && once.count == 0 && strstr(tl_error_message(), "is no UTF-8"), "a refusal");
    } else {
        check_ids(t, &once);
        if (is_chosen(text, size, 8)) check_twice(t, &once, text, size);
    }
    tl_ids_deinit(&once);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char unknown[] = "[UNK]\n";
    tl_tokenizer *t;
    if (!size) return 0;
    tl_wordpiece_args args = {.rules = (tl_wordpiece_rules)(data[0] & 3), .cased = data[0] & 4};
    size_t head = data[0] & 8 ? sizeof unknown - 1 : 0;
    char *file = malloc(head + size);
    must(file, "no memory");
    memcpy(file, unknown, head);
    memcpy(file + head, data + 1, size - 1);
    const char *mark = memmem(file, head + size - 1, "\n=\n", 3);
    size_t vocab_size = mark ? (size_t)(mark - file) + 1 : head + size - 1;
    const char *text = mark ? mark + 3 : file + vocab_size;
    if (tl_wordpiece_from_memory(&t, "fuzz", file, vocab_size, &args) != TL_OK) {
        must(!t && strstr(tl_error_message(), "fuzz"), "a failure without a good message");
    } else {
        // Exactly the text's bytes, so that reading beyond them is noticed.
        size_t text_size = head + size - 1 - (size_t)(text - file);
        char *copy = malloc(text_size + !text_size);
        must(copy, "no memory");
        memcpy(copy, text, text_size);
        check_text(t, args.rules == TL_WORDPIECE_HF, copy, text_size);
        free(copy);
        tl_tokenizer_free(&t);
    }
    free(file);
    return 0;
}
