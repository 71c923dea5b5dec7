/* Masked pieces: which pieces of a sequence a model has to guess, and what stands in their place.
 *
 *     tl_masker *masker;
 *     TL_TRY(tl_masker_new(&masker, tokenizer, &(tl_masking_config){.do_whole_word_mask = true}));
 *     tl_masked masked = TL_MASKED_INIT;
 *     tl_bits bits = {tl_rng_bits, &rng};
 *     TL_TRY_DONE(st, tl_mask(masker, &masked, ids, count, bits)); // ids: [CLS] ... [SEP]
 *     for (int64_t i = 0; i < masked.count; i++)
 *         printf("at %d there was %d\n", (int)masked.positions[i], (int)masked.labels[i]);
 * done:
 *     tl_masked_deinit(&masked);
 *     tl_masker_free(&masker);
 *
 * The rule is that of Model Garden's create_pretraining_data. A unit is a piece or, with whole
 * words, a word with all its pieces (those that begin with "##" belong to the one before); [CLS]
 * and [SEP] are never chosen. Of a sequence of n pieces round(n * masked_lm_prob) are chosen, half
 * to even, at least one and at most max_predictions_per_seq. The units are shuffled and taken as
 * long as they fit. For each unit: with a chance of 0.8 all its pieces become [MASK], with 0.1 they
 * stay, else each becomes a random piece of the vocabulary. With max_ngram_size above 1, runs of so
 * many words are units too; the length of the next one is drawn with weights 1, 1/2, 1/3 and so on.
 *
 * Draws are made of 32 bits at a time in the way of Python's `random`, so the same bits choose the
 * same pieces there and here.
 *
 * Ownership: the caller's; a masker keeps nothing of the tokenizer. Thread word: a masker is
 * immutable; a tl_masked and its bits one thread at a time. */
#ifndef TILTH_TEXT_MASKING_H
#define TILTH_TEXT_MASKING_H

#include <tilth/base/rng.h>
#include <tilth/desc/desc.h>
#include <tilth/text/tokenizer.h>

TL_BEGIN

enum { TL_MASKING_NGRAM = 64 /* words of a unit, at most */ };

typedef struct tl_masking_config {
    tl_opt_double masked_lm_prob;    /* 0.15 */
    int64_t max_predictions_per_seq; /* 20 */
    bool do_whole_word_mask;
    int64_t max_ngram_size; /* (optional: 1) more needs do_whole_word_mask */
} tl_masking_config;
TL_API extern const tl_desc tl_masking_config_desc;

/* Where random numbers come from: 32 bits a call. */
typedef uint32_t tl_bits_fn(void *payload);
typedef struct tl_bits {
    tl_bits_fn *next;
    void *payload;
} tl_bits;
/* Draws from a tl_rng, which is the payload. */
TL_API uint32_t tl_rng_bits(void *payload);

typedef struct tl_masker tl_masker;
/* NULL is the default configuration. A vocabulary without [CLS], [SEP] or [MASK] is an error that
 * names its file. */
TL_API TL_NODISCARD tl_status tl_masker_new(tl_masker **out, const tl_tokenizer *tokenizer,
                                            const tl_masking_config *config);
/* NULL is fine. */
TL_API void tl_masker_free(tl_masker **masker);

/* Chosen positions, ascending, and the ids that stood there. Its memory is used again. */
typedef struct tl_masked {
    int32_t *positions, *labels;
    int64_t count;
    struct {
        void *data;
        size_t size;
    } room; /* private */
} tl_masked;
#define TL_MASKED_INIT TL_INIT(NULL, NULL, 0, {NULL, 0})
TL_API void tl_masked_deinit(tl_masked *masked);

/* Chooses positions of `ids` and replaces what stands there. Ids must be the tokenizer's. */
TL_API TL_NODISCARD tl_status tl_mask(const tl_masker *masker, tl_masked *out, int32_t *ids,
                                      int64_t count, tl_bits bits);

TL_END

#endif
