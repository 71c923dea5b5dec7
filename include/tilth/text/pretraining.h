/* Data for pre-training: documents, and the examples of masked pieces and next sentences that are
 * made of them, as Model Garden's create_pretraining_data makes them.
 *
 *     tl_documents *documents;
 *     tl_pretraining *examples = NULL;
 *     TL_TRY(tl_documents_new(&documents, tokenizer, NULL));
 *     TL_TRY_DONE(st, tl_documents_add_file(documents, "wiki.txt")); // a sentence a line
 *     TL_TRY_DONE(st, tl_pretraining_new(&examples, documents, NULL));
 *     const char *const to[] = {"train.tfrecord"};
 *     TL_TRY_DONE(st, tl_pretraining_write(examples, to, 1, NULL));
 * done:
 *     tl_pretraining_free(&examples);
 *     tl_documents_free(&documents);
 *
 * Text has a sentence on each line; an empty line begins a new document. A file that does not end
 * in one goes on in the next file. Bytes that are no UTF-8 are left out.
 *
 * The same text, vocabulary and configuration give the examples of the original, with its random
 * numbers and in its order, on any number of threads. Only runs of words (max_ngram_size) are
 * drawn differently: the original takes their lengths from a generator that has no seed.
 *
 * Memory: two bytes for each piece of the text (four where the vocabulary has more than 65536),
 * eight for each sentence, and some 45 for each example of 128 pieces: an example remembers where
 * its pieces stand, and what was changed.
 *
 * Ownership: the caller's; examples borrow documents, which borrow the tokenizer. Thread word:
 * immutable once they are made; adding to documents one thread at a time. */
#ifndef TILTH_TEXT_PRETRAINING_H
#define TILTH_TEXT_PRETRAINING_H

#include <tilth/base/pool.h>
#include <tilth/text/masking.h>

TL_BEGIN

/* --- documents -------------------------------------------------------------------------------- */

typedef struct tl_documents tl_documents;

/* The pool, which may be NULL, serves this and all that is made of the documents. */
TL_API TL_NODISCARD tl_status tl_documents_new(tl_documents **out, const tl_tokenizer *tokenizer,
                                               tl_pool *pool);
/* NULL is fine. */
TL_API void tl_documents_free(tl_documents **documents);
/* Adds the lines of a text, or of a file. */
TL_API TL_NODISCARD tl_status tl_documents_add_text(tl_documents *d, const char *text, size_t size);
TL_API TL_NODISCARD tl_status tl_documents_add_file(tl_documents *d, const char *path);

typedef struct tl_documents_size {
    int64_t documents, sentences, pieces;
} tl_documents_size;
/* Documents without a piece do not count. */
TL_API tl_documents_size tl_documents_measure(const tl_documents *d);

/* --- examples --------------------------------------------------------------------------------- */

typedef struct tl_pretraining_config {
    tl_masking_config base;
    int64_t max_seq_length;       /* 128 */
    tl_opt_int random_seed;       /* 12345 */
    int64_t dupe_factor;          /* 10 */
    tl_opt_double short_seq_prob; /* 0.1 */
} tl_pretraining_config;
TL_API extern const tl_desc tl_pretraining_config_desc;

typedef struct tl_pretraining tl_pretraining;
/* NULL is the default configuration. No document at all is TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_pretraining_new(tl_pretraining **out,
                                                 const tl_documents *documents,
                                                 const tl_pretraining_config *config);
/* NULL is fine. */
TL_API void tl_pretraining_free(tl_pretraining **examples);
TL_API int64_t tl_pretraining_count(const tl_pretraining *p);
TL_API const tl_pretraining_config *tl_pretraining_config_of(const tl_pretraining *p);

/* One example: [CLS] a [SEP] b [SEP] without padding. Its memory is used again. */
typedef struct tl_pretraining_example {
    int32_t *ids; /* with what stands in place of masked pieces */
    int64_t count;
    int64_t first;  /* pieces of the first segment: [CLS] a [SEP] */
    bool is_random; /* b does not follow a */
    int32_t *positions, *labels;
    int64_t masked;
    int64_t room; /* private */
} tl_pretraining_example;
#define TL_PRETRAINING_EXAMPLE_INIT TL_INIT(NULL, 0, 0, false, NULL, NULL, 0, 0)
TL_API void tl_pretraining_example_deinit(tl_pretraining_example *e);
/* The example of that number, in the order of the original's files. */
TL_API TL_NODISCARD tl_status tl_pretraining_get(const tl_pretraining *p, int64_t number,
                                                 tl_pretraining_example *out);

/* --- files ------------------------------------------------------------------------------------ */

typedef struct tl_pretraining_files {
    bool gzip;
    bool v2_names; /* input_word_ids and input_type_ids, not input_ids and segment_ids */
} tl_pretraining_files;
/* Appends an example of TensorFlow (tf.train.Example), padded to the configured lengths. */
TL_API TL_NODISCARD tl_status tl_pretraining_encode(tl_str *out, const tl_pretraining_config *c,
                                                    const tl_pretraining_example *e, bool v2_names);
/* Writes all examples to TFRecord files, one to each in turn. All files appear when all of them
 * are written. `how` may be NULL. */
TL_API TL_NODISCARD tl_status tl_pretraining_write(const tl_pretraining *p,
                                                   const char *const *paths, int64_t path_count,
                                                   const tl_pretraining_files *how);

TL_END

#endif
