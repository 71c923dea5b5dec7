/* Private to text: what all tokenizers have. */
#ifndef TLI_TEXT_TOKENIZER_H
#define TLI_TEXT_TOKENIZER_H

#include <tilth/text/tokenizer.h>

#include "text/vocabulary.h"

/* One way to cut text into pieces. */
typedef struct tli_tokenizer_class {
    /* Appends; what was appended before a failure is taken back by the caller. */
    tl_status (*tokenize)(const tl_tokenizer *t, tl_ids *out, const char *text, size_t size);
    void (*deinit)(tl_tokenizer *t);
} tli_tokenizer_class;

/* The structs of tokenizers begin with it. */
struct tl_tokenizer {
    const tli_tokenizer_class *cls;
    char *name; /* of the file, for messages */
    tli_vocabulary vocabulary;
    bool lowers;
};

/* Zeroed, with its class and name; `size` is that of the whole struct. */
TL_NODISCARD tl_status tli_tokenizer_alloc(tl_tokenizer **out, const tli_tokenizer_class *cls,
                                           size_t size, const char *name);

#endif
