/* Private to text: the tokenizer of BERT and its relatives.
 *
 * wordpiece.c makes it, wordpiece_words.c cuts text into words and words into pieces,
 * tokenizer_json.c reads Hugging Face's file. */
#ifndef TLI_TEXT_WORDPIECE_H
#define TLI_TEXT_WORDPIECE_H

#include "text/chars.h"
#include "text/tokenizer.h"
#include "text/trie.h"

enum {
    TLI_MOST_WORD_CHARS = 1000, /* that a tokenizer.json may ask for */
    TLI_MOST_SPECIALS = 4096,   /* all are tried where one may begin */
    TLI_WHOLE_BYTES = 16,       /* of words that are looked up at once */
};

/* A word that is a piece: most words are. Bytes are those of the text in the order of a
 * little-endian machine, with zeros behind them. */
typedef struct tli_whole {
    uint64_t bytes[2];
    int32_t id;    /* -1: the place is free */
    uint32_t size; /* of the text */
} tli_whole;

/* A piece that is found in the text as it is, before anything else is done to it. */
typedef struct tli_special {
    const char *text; /* of the vocabulary */
    size_t size;
    int32_t id;
} tli_special;

typedef struct tli_wordpiece {
    tl_tokenizer base;
    tl_wordpiece_rules rules;
    char *prefix;    /* of pieces that go on with a word: "##" */
    int32_t unknown; /* stands for words that cannot be cut */
    int64_t most;    /* characters of a word, or its bytes; longer ones are unknown */
    bool counts_bytes;
    struct {
        tli_special *items;
        int64_t count, capacity;
    } specials;
    bool special_begins[256]; /* the bytes they begin with, */
    int special_first;        /* or the only one; -1: there are several */
    tli_trie trie;
    uint32_t begin, go_on; /* roots */
    tli_whole *wholes;
    int whole_bits; /* there are 2^whole_bits of them */
    tli_chars chars;
    struct {
        uint8_t kind, letter; /* of tli_char, and what a letter becomes */
        int32_t id;           /* of what is alone */
    } ascii[128];
    bool ends[256]; /* bytes that end a word: ASCII's spaces, and what is alone */
    bool quick;     /* ASCII's letters and digits go the short way */
} tli_wordpiece;

tl_status tli_wordpiece_tokenize(const tl_tokenizer *t, tl_ids *out, const char *text, size_t size);
/* Words as they are before they are cut: cleaned, lowered, split; without those that are longer
 * than the rules allow, and without special pieces. With broken text of TF_TEXT, which is gone
 * through anew, words before the break are told twice. */
typedef tl_status tli_word_fn(void *payload, const char *word, size_t size);
TL_NODISCARD tl_status tli_wordpiece_each_word(const tl_tokenizer *t, tli_word_fn *tell,
                                               void *payload, const char *text, size_t size);
/* Where a whole word is, or would be. */
tli_whole *tli_wordpiece_whole(const tli_wordpiece *w, uint64_t low, uint64_t high, uint32_t size);

/* Reads a tokenizer.json: vocabulary, rules of characters, prefix, limit, specials. `unknown` is
 * the piece for unknown words, which the caller frees. */
TL_NODISCARD tl_status tli_tokenizer_json_read(tli_wordpiece *w, char **unknown, const char *data,
                                               size_t size);
TL_NODISCARD tl_status tli_wordpiece_add_special(tli_wordpiece *w, const tli_piece *piece);

/* The first 8 bytes of a text that may be shorter; zeros behind it. */
static inline uint64_t tli_load_bytes(const char *p, size_t size)
{
    uint64_t v = 0;
    const uint8_t *u = (const uint8_t *)p;
    for (size_t i = size < 8 ? size : 8; i-- > 0;) v = v << 8 | u[i];
    return v;
}

#endif
