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

/* One of the characters that are there in the end, with its flags. */
static tli_char split(const tli_char_rules *r, uint32_t c, int flags, bool alone)
{
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
        // Most characters become themselves, and searching for flags is what takes time.
        int known = all[i] == c ? flags : tli_unicode_flags(r->library, all[i]), lowered = 1;
        if (strips(r) && known & TLI_NONSPACING) {
            if (!(known & TLI_MOVES)) out[count++] = made(TLI_CHAR_STOP, all[i]);
            continue;
        }
        lower[0] = all[i];
        if (r->library == TLI_UNICODE_TOKENIZERS && r->lower)
            lowered = tli_unicode_lower(lower, r->library, all[i]);
        for (int k = 0; k < lowered && count < TLI_MOST_MAPPED; k++) {
            int last = lower[k] == all[i] ? known : tli_unicode_flags(r->library, lower[k]);
            out[count++] = split(r, lower[k], last, alone);
        }
    }
    return count;
}

static tli_char get_one(const tli_char_rules *r, uint32_t c)
{
    tli_char all[TLI_MOST_MAPPED];
    int count = tli_chars_all(all, r, c);
    return count == 0 ? made(TLI_CHAR_NOTHING, c) : count == 1 ? all[0] : made(TLI_CHAR_MANY, c);
}

/* Where the page of a character is, or would be; NULL without memory for its plane. */
static tli_chars_page *place_of(tli_chars *chars, uint32_t c)
{
    if (c < TLI_CHARS_PLANE) return &chars->pages[c / TLI_CHARS_PAGE];
    TL_ASSERT(c < TLI_CODE_POINTS);
    _Atomic(tli_chars_page *) *place = &chars->planes[c / TLI_CHARS_PLANE - 1];
    tli_chars_page *plane = atomic_load_explicit(place, memory_order_acquire), *other = NULL;
    if (!plane) {
        plane = tl_alloc_zero(TLI_CHARS_PLANE_PAGES * sizeof *plane);
        if (!plane) return NULL;
        if (!atomic_compare_exchange_strong_explicit(place, &other, plane, memory_order_acq_rel,
                                                     memory_order_acquire)) {
            tl_free(plane); // another thread was first
            plane = other;
        }
    }
    return &plane[c % TLI_CHARS_PLANE / TLI_CHARS_PAGE];
}

/* Without memory for a page there is none: it is made when it is asked for again. */
tli_char tli_chars_find(const tli_chars *chars, uint32_t c)
{
    tli_chars_page *place = place_of((tli_chars *)chars, c);
    tli_char *page = place ? atomic_load_explicit(place, memory_order_acquire) : NULL;
    tli_char *other = NULL;
    uint32_t first = c - c % TLI_CHARS_PAGE;
    if (page) return page[c % TLI_CHARS_PAGE];
    page = place ? tl_alloc(TLI_CHARS_PAGE * sizeof *page) : NULL;
    if (!page) return get_one(&chars->rules, c);
    for (uint32_t i = 0; i < TLI_CHARS_PAGE; i++) page[i] = get_one(&chars->rules, first + i);
    if (!atomic_compare_exchange_strong_explicit(place, &other, page, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        tl_free(page); // another thread was first
        page = other;
    }
    return page[c % TLI_CHARS_PAGE];
}

static void free_pages(tli_chars_page *pages)
{
    for (int i = 0; i < TLI_CHARS_PLANE_PAGES; i++)
        tl_free(atomic_load_explicit(&pages[i], memory_order_relaxed));
}

void tli_chars_deinit(tli_chars *chars)
{
    free_pages(chars->pages);
    for (int i = 0; i < TL_COUNT(chars->planes); i++) {
        tli_chars_page *plane = atomic_load_explicit(&chars->planes[i], memory_order_relaxed);
        if (plane) free_pages(plane);
        tl_free(plane);
    }
}
