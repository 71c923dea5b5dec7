#include <string.h>

#include <tilth/base/vec.h>

#include "text/broken.h"
#include "text/utf8.h"
#include "text/wordpiece.h"

/* One text on its way. */
typedef struct work {
    const tli_wordpiece *t;
    tl_ids *out;
    const char *text, *end;
    size_t size;                 /* bytes of the word so far */
    int64_t count;               /* what its limit counts; beyond it nothing is kept */
    size_t moved_from, moved_to; /* of the letters at its end that are sorted by their class */
    const char *sigma_at;        /* how far was looked for what is before a sigma, */
    bool sigma_cased;            /* and whether a letter with a case was last there */
    bool broken;                 /* TensorFlow would go another way with this text */
    tli_word_fn *tell;           /* instead of cutting words; NULL: they are cut */
    void *payload;               /* of it */
    char word[TLI_MOST_WORD_CHARS * 4 + TLI_WHOLE_BYTES];
} work;

/* 8 bytes in the order of a little-endian machine. */
static inline uint64_t load(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* As tli_load_bytes, where more may be read. */
static inline uint64_t load_some(const char *p, size_t size)
{
    return size < 8 ? load(p) & ((UINT64_C(1) << 8 * size) - 1) : load(p);
}

/* --- words to pieces -------------------------------------------------------------------------- */

enum { MOST_PROBES = 16 };

tli_whole *tli_wordpiece_whole(const tli_wordpiece *w, uint64_t low, uint64_t high, uint32_t size)
{
    uint64_t mixed = (low ^ high * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
    size_t at = mixed >> (64 - w->whole_bits), mask = ((size_t)1 << w->whole_bits) - 1;
    for (int i = 0; i < MOST_PROBES; i++, at = (at + 1) & mask) {
        tli_whole *p = &w->wholes[at];
        if (p->id < 0 || (p->bytes[0] == low && p->bytes[1] == high && p->size == size)) return p;
    }
    return NULL; // so crowded a place is left to the trie
}

static inline bool push(work *w, int32_t id)
{
    return TL_VEC_PUSH(w->out, id);
}

/* The longest piece from the left, then the longest that goes on, and so on. */
static tl_status cut(work *w, const char *word, size_t size)
{
    const tli_wordpiece *t = w->t;
    const tli_trie_unit *units = t->trie.units;
    int64_t before = w->out->count;
    uint32_t base = t->begin;
    for (size_t at = 0; at < size; base = t->go_on) {
        int32_t found = -1;
        size_t found_at = at;
        for (size_t i = at; i < size;) {
            uint8_t c = (uint8_t)word[i++];
            tli_trie_unit u = units[base ^ c];
            if (tli_trie_byte(u) != c) break;
            base = tli_trie_base(u);
            if (u.id < 0) continue;
            found = u.id;
            found_at = i;
        }
        if (found < 0) {
            w->out->count = before;
            return push(w, t->unknown) ? TL_OK : TL_ENOMEM;
        }
        if (!push(w, found)) return TL_ENOMEM;
        at = found_at;
    }
    return TL_OK;
}

/* Ends the word, if there is one. */
static tl_status end_word(work *w)
{
    const tli_wordpiece *t = w->t;
    size_t size = w->size;
    if (!w->count) return TL_OK;
    bool known = w->count <= t->most;
    w->size = 0;
    w->count = 0;
    w->moved_to = SIZE_MAX;
    if (w->tell) return known ? w->tell(w->payload, w->word, size) : TL_OK;
    if (!known) return push(w, t->unknown) ? TL_OK : TL_ENOMEM;
    if (size <= TLI_WHOLE_BYTES) {
        uint64_t low = load_some(w->word, size),
                 high = size > 8 ? load_some(w->word + 8, size - 8) : 0;
        const tli_whole *p = tli_wordpiece_whole(t, low, high, (uint32_t)size);
        if (p && p->id >= 0) return push(w, p->id) ? TL_OK : TL_ENOMEM;
    }
    return cut(w, w->word, size);
}

/* --- characters to words ---------------------------------------------------------------------- */

static inline void add_letter(work *w, uint32_t c)
{
    if (w->count >= w->t->most) { // the word will be unknown
        w->count = w->t->most + 1;
        return;
    }
    int length = tli_utf8_encode(w->word + w->size, c);
    w->size += (size_t)length;
    w->count += w->t->counts_bytes ? length : 1;
}

/* A letter with a combining class goes before those behind the last other letter that have a
 * higher one, as canonical ordering has it. */
static void add_moving(work *w, uint32_t c)
{
    int class = tli_unicode_class(c);
    size_t end = w->size, at;
    if (w->moved_to != end) w->moved_from = end;
    add_letter(w, c);
    for (at = w->moved_from; at < end;) {
        uint32_t other;
        int length = tli_utf8_decode(&other, w->word + at, w->word + end);
        if (tli_unicode_class(other) > class) break;
        at += (size_t)length;
    }
    if (w->size > end) {
        char bytes[4];
        size_t length = w->size - end;
        memcpy(bytes, w->word + end, length);
        memmove(w->word + at + length, w->word + at, end - at);
        memcpy(w->word + at, bytes, length);
    }
    w->moved_to = w->size;
}

/* What cleaning leaves of the text, character by character: 0 at the end. `flags` are Python's. */
static const char *next_kept(const char *p, const char *end, int *flags)
{
    while (p < end) {
        uint32_t c;
        int length = tli_utf8_decode(&c, p, end);
        p += length ? length : 1;
        *flags = length ? tli_unicode_flags(TLI_UNICODE_PYTHON, c) : TLI_CONTROL;
        if (!(*flags & TLI_CONTROL)) return p;
    }
    *flags = TLI_SPACE;
    return NULL;
}

/* Python's word: a sigma is final behind a letter with a case, and not before one; characters that
 * say nothing about case are skipped. The text is walked once, however many there are. */
static bool sigma_is_final(work *w, const char *at, int length)
{
    const int ends = TLI_SPACE | TLI_IDEOGRAPH;
    int flags;
    for (const char *p = w->sigma_at; p && p < at;) {
        p = next_kept(p, at, &flags);
        if (!p) break;
        if (flags & ends) w->sigma_cased = false;
        else if (!(flags & TLI_CASE_IGNORED)) w->sigma_cased = flags & TLI_CASED;
    }
    bool before = w->sigma_cased;
    w->sigma_at = at + length;
    w->sigma_cased = true;
    if (!before) return false;
    for (const char *p = at + length; (p = next_kept(p, w->end, &flags));)
        if (flags & ends || !(flags & TLI_CASE_IGNORED)) break;
    return flags & ends || !(flags & TLI_CASED);
}

/* One of the characters that there are in the end. */
static tl_status take(work *w, tli_char c)
{
    switch (tli_char_kind(c)) {
    case TLI_CHAR_LETTER: add_letter(w, tli_char_code(c)); return TL_OK;
    case TLI_CHAR_SPACE: return end_word(w);
    case TLI_CHAR_ALONE:
        TL_TRY(end_word(w));
        add_letter(w, tli_char_code(c));
        return end_word(w);
    case TLI_CHAR_STOP: w->moved_to = SIZE_MAX; return TL_OK;
    case TLI_CHAR_MOVES: add_moving(w, tli_char_code(c)); return TL_OK;
    default: return TL_OK;
    }
}

/* The character at `p`, `length` bytes long. */
static tl_status take_char(work *w, const char *p, uint32_t code, int length)
{
    tli_char c = tli_chars_get(&w->t->chars, code);
    if (tli_char_kind(c) == TLI_CHAR_SIGMA) {
        add_letter(w, sigma_is_final(w, p, length) ? TLI_FINAL_SIGMA : TLI_SMALL_SIGMA);
        return TL_OK;
    }
    if (tli_char_kind(c) != TLI_CHAR_MANY) return take(w, c);
    tli_char all[TLI_MOST_MAPPED];
    int count = tli_chars_all(all, &w->t->chars.rules, code);
    for (int i = 0; i < count; i++) TL_TRY(take(w, all[i]));
    return TL_OK;
}

/* What is no UTF-8: tokenizers takes texts only, the programs in Python leave it out, and
 * TensorFlow keeps it in the word, which no piece is made for; when it lowers text, more may
 * come of it (take_broken). */
static tl_status take_bad_byte(work *w, const char *p)
{
    switch (w->t->rules) {
    case TL_WORDPIECE_HF:
        return TL_FAIL(TL_EDATA, "byte %zu of the text (%#04x) is no UTF-8",
                       (size_t)(p - w->text) + 1, (uint8_t)*p);
    case TL_WORDPIECE_TF_TEXT:
        w->broken = w->t->base.lowers;
        w->count = w->t->most + 1;
        return TL_OK;
    default: return TL_OK;
    }
}

/* --- ASCII ------------------------------------------------------------------------------------ */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The high bit of each byte that is at least `least`; all are below 128. */
static inline uint64_t at_least(uint64_t v, int least)
{
    return (v + EACH(0x80 - least)) & EACH(0x80);
}

/* How many of the next 8 bytes are letters or digits up to the first that is not. They are put into
 * `out`, in lower case when asked, with zeros behind them. */
static inline int letters(uint64_t *out, const char *p, const char *end, bool lower)
{
    uint64_t v = end - p >= 8 ? load(p) : tli_load_bytes(p, (size_t)(end - p));
    uint64_t low = v & EACH(0x7f);
    uint64_t upper = at_least(low, 'A') & ~at_least(low, 'Z' + 1);
    uint64_t small = at_least(low, 'a') & ~at_least(low, 'z' + 1);
    uint64_t digit = at_least(low, '0') & ~at_least(low, '9' + 1);
    uint64_t other = ~(upper | small | digit) | v;
    other &= EACH(0x80);
    if (lower) v |= upper >> 2; // 'a' - 'A' is 0x20
    if (!other) {
        *out = v;
        return 8;
    }
    int count = __builtin_ctzll(other) / 8;
    *out = v & ((UINT64_C(1) << 8 * count) - 1);
    return count;
}

/* A word of ASCII with an end that is ASCII too: its bytes, or 0 when it is not that simple. */
static inline tl_status take_quickly(work *w, const char *p, size_t *taken)
{
    const tli_wordpiece *t = w->t;
    uint64_t low, high = 0;
    int count = letters(&low, p, w->end, t->base.lowers);
    *taken = 0;
    if (count == 8) count += letters(&high, p + 8, w->end, t->base.lowers);
    if (!count || count == TLI_WHOLE_BYTES) return TL_OK;
    if (w->end - p > count && !t->ends[(uint8_t)p[count]]) return TL_OK;
    *taken = (size_t)count;
    const tli_whole *whole = tli_wordpiece_whole(t, low, high, (uint32_t)count);
    if (whole && whole->id >= 0) return push(w, whole->id) ? TL_OK : TL_ENOMEM;
    for (int i = 0; i < 8; i++) {
        w->word[i] = (char)(low >> 8 * i);
        w->word[8 + i] = (char)(high >> 8 * i);
    }
    return cut(w, w->word, (size_t)count);
}

/* --- texts ------------------------------------------------------------------------------------ */

/* A character of ASCII, or a word of it; `taken` is how many bytes that is. */
static inline tl_status take_ascii(work *w, const char *p, size_t *taken)
{
    const tli_wordpiece *t = w->t;
    uint8_t c = (uint8_t)*p;
    *taken = 1;
    switch (t->ascii[c].kind) {
    case TLI_CHAR_LETTER:
        if (!w->count && t->quick && !w->tell) {
            TL_TRY(take_quickly(w, p, taken));
            if (*taken) return TL_OK;
            *taken = 1;
        }
        add_letter(w, t->ascii[c].letter);
        return TL_OK;
    case TLI_CHAR_SPACE: return end_word(w);
    case TLI_CHAR_ALONE:
        if (w->tell) return take_char(w, p, c, 1);
        TL_TRY(end_word(w));
        return push(w, t->ascii[c].id) ? TL_OK : TL_ENOMEM;
    default: return take_char(w, p, c, 1);
    }
}

/* A stretch without special pieces. */
static tl_status take_plain(work *w, const char *p, const char *end)
{
    w->end = end;
    w->sigma_at = p;
    w->sigma_cased = false;
    while (p < end && !w->broken) {
        if ((uint8_t)*p < 128) {
            size_t taken;
            TL_TRY(take_ascii(w, p, &taken));
            p += taken;
            continue;
        }
        uint32_t c;
        int length = tli_utf8_decode(&c, p, end);
        if (!length) {
            TL_TRY(take_bad_byte(w, p++));
            continue;
        }
        tli_char known = tli_chars_get(&w->t->chars, c);
        if (tli_char_kind(known) == TLI_CHAR_LETTER) add_letter(w, tli_char_code(known));
        else TL_TRY(take_char(w, p, c, length));
        p += length;
    }
    return end_word(w);
}

/* The whole text, which tensorflow-text lowers, and which is no UTF-8. */
static tl_status take_broken(work *w, const char *text, size_t size)
{
    static const tli_char_rules split = {.library = TLI_UNICODE_TF_TEXT};
    tl_str lower = TL_STR_INIT;
    tl_status st = tli_broken_lower(&lower, text, size);
    const char *p = lower.data, *end = p ? p + lower.length : p;
    w->size = 0;
    w->count = 0;
    w->moved_to = SIZE_MAX;
    while (st == TL_OK && p < end) {
        uint32_t code;
        tli_char c;
        int length = tli_utf8_decode(&code, p, end);
        if (!length) w->count = w->t->most + 1;
        else if (tli_chars_all(&c, &split, code)) st = take(w, c);
        p += length ? length : 1;
    }
    tl_str_deinit(&lower);
    return st == TL_OK ? end_word(w) : st;
}

/* Where a special piece may begin, from `p` on. */
static const char *next_special(const tli_wordpiece *t, const char *p, const char *end)
{
    if (!t->specials.count) return end;
    if (t->special_first >= 0) {
        const char *found = memchr(p, t->special_first, (size_t)(end - p));
        return found ? found : end;
    }
    while (p < end && !t->special_begins[(uint8_t)*p]) p++;
    return p;
}

/* The longest special piece that begins at `p`. */
static const tli_special *find_special(const tli_wordpiece *t, const char *p, const char *end)
{
    const tli_special *found = NULL;
    for (int64_t i = 0; i < t->specials.count; i++) {
        const tli_special *s = &t->specials.items[i];
        if (s->size <= (size_t)(end - p) && memcmp(s->text, p, s->size) == 0
            && (!found || s->size > found->size))
            found = s;
    }
    return found;
}

static tl_status take_text(const tl_tokenizer *t, tl_ids *out, tli_word_fn *tell, void *payload,
                           const char *text, size_t size)
{
    const tli_wordpiece *wordpiece = (const tli_wordpiece *)t;
    const char *from = text, *end = text + size;
    int64_t before = out->count;
    work w;
    w.t = wordpiece;
    w.out = out;
    w.text = text;
    w.size = 0;
    w.count = 0;
    w.moved_to = SIZE_MAX;
    w.broken = false;
    w.tell = tell;
    w.payload = payload;
    for (const char *p = text; (p = next_special(wordpiece, p, end)) < end;) {
        const tli_special *s = find_special(wordpiece, p, end);
        if (!s) {
            p++;
            continue;
        }
        TL_TRY(take_plain(&w, from, p));
        if (!push(&w, s->id)) return TL_ENOMEM;
        from = p += s->size;
    }
    TL_TRY(take_plain(&w, from, end));
    if (!w.broken) return TL_OK;
    out->count = before;
    return take_broken(&w, text, size);
}

tl_status tli_wordpiece_tokenize(const tl_tokenizer *t, tl_ids *out, const char *text, size_t size)
{
    return take_text(t, out, NULL, NULL, text, size);
}

tl_status tli_wordpiece_each_word(const tl_tokenizer *t, tli_word_fn *tell, void *payload,
                                  const char *text, size_t size)
{
    tl_ids specials = {0};
    tl_status st = take_text(t, &specials, tell, payload, size ? text : "", size);
    tl_ids_deinit(&specials);
    return st;
}
