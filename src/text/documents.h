/* Private to text: what documents are made of.
 *
 * Pieces of all documents stand in one row, and so do the sentences, which are ranges of it.
 *
 * Thread word: as tl_documents. */
#ifndef TLI_TEXT_DOCUMENTS_H
#define TLI_TEXT_DOCUMENTS_H

#include <tilth/text/pretraining.h>

#include "text/python_random.h"

typedef struct tli_offsets {
    int64_t *items;
    int64_t count, capacity;
} tli_offsets;

struct tl_documents {
    const tl_tokenizer *tokenizer;
    tl_pool *pool;
    uint16_t *narrow; /* ids: one of the two */
    int32_t *wide;
    int64_t pieces, room;
    bool is_wide;
    tli_offsets sentences; /* where each begins; the next one, or the end, is where it ends */
    tli_offsets documents; /* the sentence that each begins with */
    bool open;             /* the next sentence goes on the last document */
};

/* Pieces of the documents. */
typedef struct tli_piece_range {
    int64_t at, count;
} tli_piece_range;
/* Pieces are taken off the longer one, its beginning or its end, until both fit. */
void tli_truncate_pair(tli_piece_range *a, tli_piece_range *b, int64_t most, tl_bits bits);
/* What random() would give after all examples were made: the original's, if as many numbers were
 * drawn as there. */
double tli_pretraining_next_random(const tl_pretraining *p);
/* The pool of the documents that examples are made of. */
tl_pool *tli_pretraining_pool(const tl_pretraining *p);
/* Copies pieces out. */
void tli_documents_copy(const tl_documents *d, int64_t from, int64_t count, int32_t *out);

/* Where a sentence begins; of the one behind the last, where the pieces end. */
static inline int64_t tli_sentence_at(const tl_documents *d, int64_t sentence)
{
    return sentence < d->sentences.count ? d->sentences.items[sentence] : d->pieces;
}
/* The first sentence of a document; of the one behind the last, how many there are. */
static inline int64_t tli_document_at(const tl_documents *d, int64_t document)
{
    return document < d->documents.count ? d->documents.items[document] : d->sentences.count;
}

#endif
