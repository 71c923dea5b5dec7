#include "text/chars.h"

#include <tilth/base/alloc.h>
#include <tilth/base/status.h>

static tli_char made(int kind, uint32_t c)
{
    return c << 3 | (tli_char)kind;
}

/* The character in lower case and without accents, as far as that comes before accents are
 * dropped. tokenizers decomposes first and lowers then, Python the other way round. */
static int prepare(uint32_t *out, const tli_char_rules *r, uint32_t c)
{
    uint32_t lower[TLI_MOST_MAPPED];
    int lowered, count = 0;
    out[0] = c;
    switch (r->library) {
    case TLI_UNICODE_TF_TEXT: return r->lower ? tli_unicode_fold(out, c) : 1;
    case TLI_UNICODE_TOKENIZERS: return r->strip ? tli_unicode_decompose(out, r->library, c) : 1;
    default: break;
    }
    if (!r->lower) return 1;
    lowered = tli_unicode_lower(lower, r->library, c);
    for (int i = 0; i < lowered; i++)
        count += tli_unicode_decompose(out + count, r->library, lower[i]);
    TL_ASSERT(count <= TLI_MOST_MAPPED);
    return count;
}

static bool strips(const tli_char_rules *r)
{
    return r->library == TLI_UNICODE_TOKENIZERS ? r->strip : r->lower;
}

/* One of the characters that are there in the end. */
static tli_char split(const tli_char_rules *r, uint32_t c, bool alone)
{
    int flags = tli_unicode_flags(r->library, c);
    if (r->library == TLI_UNICODE_TF_TEXT) {
        if (flags & (TLI_CONTROL | TLI_SPACE)) return made(TLI_CHAR_SPACE, c);
        alone = flags & TLI_IDEOGRAPH;
    }
    if (flags & TLI_SPACE) return made(TLI_CHAR_SPACE, c);
    if (alone || flags & TLI_PUNCTUATION) return made(TLI_CHAR_ALONE, c);
    return made(flags & TLI_MOVES && strips(r) ? TLI_CHAR_MOVES : TLI_CHAR_LETTER, c);
}

int tli_chars_all(tli_char *out, const tli_char_rules *r, uint32_t c)
{
    uint32_t all[TLI_MOST_MAPPED], lower[TLI_MOST_MAPPED];
    int flags = tli_unicode_flags(r->library, c), count = 0;
    bool cleans = r->library == TLI_UNICODE_PYTHON || r->clean, alone = false;
    if (r->library != TLI_UNICODE_TF_TEXT) {
        if (cleans && flags & TLI_CONTROL) return 0;
        if (cleans && flags & TLI_SPACE) return out[0] = made(TLI_CHAR_SPACE, c), 1;
        alone = flags & TLI_IDEOGRAPH && (r->library == TLI_UNICODE_PYTHON || r->ideographs);
        if (c == TLI_CAPITAL_SIGMA && r->lower && r->library == TLI_UNICODE_PYTHON)
            return out[0] = made(TLI_CHAR_SIGMA, TLI_SMALL_SIGMA), 1;
    }
    int prepared = prepare(all, r, c);
    for (int i = 0; i < prepared; i++) {
        int known = strips(r) ? tli_unicode_flags(r->library, all[i]) : 0, lowered = 1;
        if (known & TLI_NONSPACING) {
            if (!(known & TLI_MOVES)) out[count++] = made(TLI_CHAR_STOP, all[i]);
            continue;
        }
        lower[0] = all[i];
        if (r->library == TLI_UNICODE_TOKENIZERS && r->lower)
            lowered = tli_unicode_lower(lower, r->library, all[i]);
        for (int k = 0; k < lowered && count < TLI_MOST_MAPPED; k++)
            out[count++] = split(r, lower[k], alone);
    }
    return count;
}

static tli_char get_one(const tli_char_rules *r, uint32_t c)
{
    tli_char all[TLI_MOST_MAPPED];
    int count = tli_chars_all(all, r, c);
    return count == 0 ? made(TLI_CHAR_NOTHING, c) : count == 1 ? all[0] : made(TLI_CHAR_MANY, c);
}

/* Without memory for a page there is none: it is made when it is asked for again. */
tli_char tli_chars_make(const tli_chars *chars, uint32_t c)
{
    _Atomic(tli_char *) *place = (_Atomic(tli_char *) *)&chars->pages[c / TLI_CHARS_PAGE];
    tli_char *page = tl_alloc(TLI_CHARS_PAGE * sizeof *page), *other = NULL;
    uint32_t first = c - c % TLI_CHARS_PAGE;
    if (!page) return get_one(&chars->rules, c);
    for (uint32_t i = 0; i < TLI_CHARS_PAGE; i++) page[i] = get_one(&chars->rules, first + i);
    if (!atomic_compare_exchange_strong_explicit(place, &other, page, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        tl_free(page); // another thread was first
        page = other;
    }
    return page[c % TLI_CHARS_PAGE];
}

void tli_chars_deinit(tli_chars *chars)
{
    for (int64_t i = 0; i < TL_COUNT(chars->pages); i++)
        tl_free(atomic_load_explicit(&chars->pages[i], memory_order_relaxed));
}
