/* Tokenizers: text becomes the numbers of the pieces of a vocabulary.
 *
 *     tl_tokenizer *t;
 *     tl_ids ids = {0};
 *     TL_TRY(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = "uncased/vocab.txt"}));
 *     tl_status st = tl_tokenize(t, &ids, "unwanted running", 16);
 *     for (int64_t i = 0; st == TL_OK && i < ids.count; i++)
 *         puts(tl_tokenizer_piece(t, ids.items[i])); // "unwanted", "run", "##ning"
 *     tl_ids_deinit(&ids);
 *     tl_tokenizer_free(&t);
 *
 * WordPiece is BERT's: text is cleaned, lowered and split into words, and each word is cut into the
 * longest pieces from the left. Programs differ in what they clean, lower and split; each of the
 * rules below gives the numbers of one of them, to the last character of Unicode.
 *
 * A tokenizer owns its vocabulary; the pieces it shows live as long as it does. Lists of ids belong
 * to the caller.
 *
 * Thread word: immutable; a tl_ids one thread at a time. */
#ifndef TILTH_TEXT_TOKENIZER_H
#define TILTH_TEXT_TOKENIZER_H

#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_tokenizer tl_tokenizer;

/* --- makers ----------------------------------------------------------------------------------- */

/* Whose rules. Each has that program's tables of Unicode; docs/language.md tells how they differ.
 * Bytes that are no UTF-8 are refused by HF, whose peer takes texts only; the Python programs leave
 * them out, and tensorflow-text does not know the words that have some. */
typedef enum tl_wordpiece_rules {
    TL_WORDPIECE_HF,           /* Hugging Face's tokenizers; words up to 100 characters */
    TL_WORDPIECE_MODEL_GARDEN, /* the tools of Model Garden; 400 characters */
    TL_WORDPIECE_TF_TEXT,      /* tensorflow-text's BertTokenizer; 100 bytes */
    TL_WORDPIECE_BERT,         /* google-research/bert; 200 characters */
} tl_wordpiece_rules;

typedef struct tl_wordpiece_args {
    /* vocab.txt (a piece a line, the line is its number), or a tokenizer.json of Hugging Face, or a
     * folder with one of them. With both, HF reads tokenizer.json, the others vocab.txt. */
    const char *vocab;
    tl_wordpiece_rules rules; /* TL_WORDPIECE_HF */
    bool cased;               /* text is not lowered; a tokenizer.json says so itself */
} tl_wordpiece_args;

/* A vocabulary without "[UNK]" is refused: words need not be made of its pieces. */
TL_API TL_NODISCARD tl_status tl_wordpiece_new(tl_tokenizer **out, const tl_wordpiece_args *args);
/* The same from memory; `name` stands in messages, and ends in ".json" for a tokenizer.json. */
TL_API TL_NODISCARD tl_status tl_wordpiece_from_memory(tl_tokenizer **out, const char *name,
                                                       const char *data, size_t size,
                                                       const tl_wordpiece_args *args);
/* NULL is fine. */
TL_API void tl_tokenizer_free(tl_tokenizer **t);

/* "hf", "model_garden", "tf_text", "bert"; TL_ENOTFOUND, with the list, for other names. */
TL_API TL_NODISCARD tl_status tl_wordpiece_rules_find(tl_wordpiece_rules *out, const char *name);
TL_API const char *tl_wordpiece_rules_name(tl_wordpiece_rules rules);

/* --- use -------------------------------------------------------------------------------------- */

/* Numbers of pieces, as TL_VEC_PUSH (base/vec.h) appends them. */
typedef struct tl_ids {
    int32_t *items;
    int64_t count, capacity;
} tl_ids;
TL_API void tl_ids_deinit(tl_ids *ids);

/* Appends the ids of the pieces of a text: UTF-8, `size` bytes, which may contain NUL. No special
 * pieces are added. After a failure the list is as it was. */
TL_API TL_NODISCARD tl_status tl_tokenize(const tl_tokenizer *t, tl_ids *out, const char *text,
                                          size_t size);

/* Size of the vocabulary: ids are below it. */
TL_API int64_t tl_tokenizer_count(const tl_tokenizer *t);
/* "##ing"; NULL outside, and for numbers that a tokenizer.json leaves out. */
TL_API const char *tl_tokenizer_piece(const tl_tokenizer *t, int64_t id);
/* -1: there is none. */
TL_API int64_t tl_tokenizer_find(const tl_tokenizer *t, const char *piece);
/* A piece that the caller cannot do without ("[CLS]"): where there is none, the error names the
 * file of the vocabulary. */
TL_API TL_NODISCARD tl_status tl_tokenizer_need(const tl_tokenizer *t, const char *piece,
                                                int32_t *id);
/* The file of the vocabulary, or the name that it was given. */
TL_API const char *tl_tokenizer_file(const tl_tokenizer *t);
/* Whether text is lowered. */
TL_API bool tl_tokenizer_lowers(const tl_tokenizer *t);

TL_END

#endif
