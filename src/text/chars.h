/* Private to text: what the rules of a tokenizer make of each character.
 *
 *     tli_char c = tli_chars_get(chars, 0xc4);         // with TLI_LOWER and TLI_STRIP
 *     ... tli_char_kind(c) is TLI_CHAR_LETTER, tli_char_code(c) is 'a' ...
 *
 * The steps of a rule (cleaning, folding, decomposing, dropping accents, splitting) are taken once
 * for each character, page by page as texts bring them up, and remembered. Nearly all texts stay in
 * one plane of Unicode: the others have tables of pages only where a text needs them.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TEXT_CHARS_H
#define TLI_TEXT_CHARS_H

#include <stdatomic.h>

#include "text/unicode.h"

typedef struct tli_char_rules {
    tli_unicode library; /* whose steps, and whose Unicode */
    /* These are TOKENIZERS' to choose; the others clean and split always, and strip when they
     * lower. */
    bool clean, ideographs, strip;
    bool lower;
} tli_char_rules;

/* What a character becomes: its kind, and the character in the bits above. */
typedef uint32_t tli_char;
enum {
    TLI_CHAR_LETTER,  /* goes into the word */
    TLI_CHAR_ALONE,   /* is a word */
    TLI_CHAR_SPACE,   /* ends the word */
    TLI_CHAR_NOTHING, /* left out */
    TLI_CHAR_STOP,    /* left out; what moves stays before or behind it */
    TLI_CHAR_MOVES,   /* a letter that is sorted by its class among those beside it */
    TLI_CHAR_SIGMA,   /* a capital one that Python lowers: the neighbours decide */
    TLI_CHAR_MANY,    /* several, or one that several become: tli_chars_all tells */
};

enum {
    TLI_CHARS_PAGE = 64,
    TLI_CHARS_PLANE = 0x10000,
    TLI_CHARS_PLANE_PAGES = TLI_CHARS_PLANE / TLI_CHARS_PAGE,
    TLI_CHARS_PLANES = TLI_CODE_POINTS / TLI_CHARS_PLANE,
};

typedef _Atomic(tli_char *) tli_chars_page;

typedef struct tli_chars {
    tli_char_rules rules;
    tli_chars_page pages[TLI_CHARS_PLANE_PAGES];            /* of plane 0 */
    _Atomic(tli_chars_page *) planes[TLI_CHARS_PLANES - 1]; /* pages of the others */
} tli_chars;

static inline int tli_char_kind(tli_char c)
{
    return c & 7;
}

static inline uint32_t tli_char_code(tli_char c)
{
    return c >> 3;
}

/* Pages and planes are zero before the first use. */
void tli_chars_deinit(tli_chars *chars);
/* All that `c` becomes, at most TLI_MOST_MAPPED of them, each of a kind but MANY. */
int tli_chars_all(tli_char *out, const tli_char_rules *rules, uint32_t c);
/* Looks up a character of any plane, and makes its page where it is not there yet. */
tli_char tli_chars_find(const tli_chars *chars, uint32_t c);

static inline tli_char tli_chars_get(const tli_chars *chars, uint32_t c)
{
    if (c >= TLI_CHARS_PLANE) return tli_chars_find(chars, c);
    const tli_char *page =
        atomic_load_explicit(&chars->pages[c / TLI_CHARS_PAGE], memory_order_acquire);
    return page ? page[c % TLI_CHARS_PAGE] : tli_chars_find(chars, c);
}

#endif
