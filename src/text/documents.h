/* Private to text: what documents are made of.
 *
 * Pieces of all documents stand in one row, and so do the sentences, which are ranges of it.
 *
 * Thread word: as tl_documents. */
#ifndef TLI_TEXT_DOCUMENTS_H
#define TLI_TEXT_DOCUMENTS_H

#include <tilth/text/pretraining.h>

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
