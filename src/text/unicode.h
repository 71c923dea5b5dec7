/* Private to text: what three libraries know of Unicode. They have different versions of it, so
 * that each rule asks the one whose numbers it gives.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TEXT_UNICODE_H
#define TLI_TEXT_UNICODE_H

#include <tilth/base/api.h>

/* As they are numbered in unicode_tables.c. */
typedef enum tli_unicode {
    TLI_UNICODE_PYTHON,     /* unicodedata and str */
    TLI_UNICODE_TOKENIZERS, /* Hugging Face's tokenizers, with the crates that it uses */
    TLI_UNICODE_TF_TEXT,    /* ICU and RE2, as tensorflow-text has them */
    TLI_UNICODE_COUNT,
} tli_unicode;

/* What a character is. */
enum {
    TLI_CONTROL = 1,     /* left out, or turned into a space (TF_TEXT) */
    TLI_SPACE = 2,       /* ends a word */
    TLI_PUNCTUATION = 4, /* a word of its own; ASCII's symbols belong to it */
    TLI_NONSPACING = 8,  /* category Mn: the accents that are dropped */
    TLI_MOVES = 16,      /* has a combining class other than 0: sorted by it when decomposed */
    TLI_CASED = 32,      /* these two decide how a capital sigma is lowered (PYTHON) */
    TLI_CASE_IGNORED = 64,
    TLI_IDEOGRAPH = 128, /* a word of its own */
};

enum {
    TLI_CODE_POINTS = 0x110000,
    TLI_MOST_MAPPED = 18, /* characters that one becomes: U+FDFA, folded */
    TLI_CAPITAL_SIGMA = 0x3a3,
    TLI_FINAL_SIGMA = 0x3c2,
    TLI_SMALL_SIGMA = 0x3c3,
};

/* The flags above. */
int tli_unicode_flags(tli_unicode library, uint32_t c);
/* The combining class of a character that is not TLI_NONSPACING: few have one. */
int tli_unicode_class(uint32_t c);
/* How many characters `c` becomes, at most TLI_MOST_MAPPED, which are written to `out`: in lower
 * case, */
int tli_unicode_lower(uint32_t *out, tli_unicode library, uint32_t c);
/* decomposed as NFD is, without sorting, */
int tli_unicode_decompose(uint32_t *out, tli_unicode library, uint32_t c);
/* or folded as NFKC_Casefold, then decomposed (TF_TEXT). */
int tli_unicode_fold(uint32_t *out, uint32_t c);

/* --- tables, made by tables.py ---------------------------------------------------------------- */

/* Characters from `first` on, `step` apart, that are mapped alike. */
typedef struct tli_unicode_run {
    uint32_t first;
    uint16_t count;
    uint8_t step;   /* 1 or 2 */
    uint8_t length; /* characters that each becomes; 0: none; TLI_SHIFTED: one, `value` further */
    int32_t value;  /* else: where those of the first are in tli_unicode_pool; the others follow */
} tli_unicode_run;
enum { TLI_SHIFTED = 255 };

typedef struct tli_unicode_map {
    const tli_unicode_run *runs; /* sorted; characters between them stay as they are */
    int count;
} tli_unicode_map;

typedef struct tli_unicode_library {
    const uint32_t *ranges; /* sorted: the first of each << 8, and the flags of all in it */
    int range_count;
    tli_unicode_map lower, decompose; /* what differs from the maps that all share */
} tli_unicode_library;

extern const tli_unicode_library tli_unicode_libraries[TLI_UNICODE_COUNT];
extern const tli_unicode_map tli_unicode_lower_map, tli_unicode_decompose_map, tli_unicode_fold_map;
extern const uint32_t tli_unicode_pool[];
/* A character << 8, and its class. */
extern const uint32_t tli_unicode_classes[];
extern const int tli_unicode_class_count;

#endif
