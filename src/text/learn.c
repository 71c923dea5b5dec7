/* Words are counted, then neighbours within them become pieces, the most frequent first. */
#include <tilth/text/learn.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/map.h>
#include <tilth/base/vec.h>

#include "text/utf8.h"
#include "text/wordpiece.h"

static const char specials[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
enum {
    SPECIALS = 5,
    USUAL_SIZE = 8000,
    USUAL_LEAST = 2,
    LONGEST_WORD = 64,      /* in characters: longer ones teach nothing about language */
    MOST_COUNTED = 1 << 19, /* different words that are counted at a time */
    MOST_WORDS = 1 << 18,   /* that pieces are learned from */
    MOST_CHARACTERS = 1000, /* of the alphabet: words with rarer ones are left to [UNK] */
};

struct tl_wordpiece_learner {
    tl_wordpiece_learn_args args;
    tl_tokenizer *splitter;
    tl_map words;  /* to how often they occur */
    int64_t floor; /* words that were forgotten have occurred so often, at most */
};

/* --- counting --------------------------------------------------------------------------------- */

tl_status tl_wordpiece_learner_new(tl_wordpiece_learner **out, const tl_wordpiece_learn_args *args)
{
    tl_wordpiece_learn_args given = args ? *args : (tl_wordpiece_learn_args){0};
    *out = NULL;
    if (!given.size) given.size = USUAL_SIZE;
    if (!given.least) given.least = USUAL_LEAST;
    if (given.size < SPECIALS + 2 || given.size > TLI_MOST_PIECES || given.least < 1)
        return TL_FAIL(TL_EINVAL,
                       "a vocabulary is learned with %d to %" PRId64 " pieces, not %" PRId64
                       ", of neighbours that meet once or more",
                       SPECIALS + 2, TLI_MOST_PIECES, given.size);
    tl_wordpiece_learner *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    l->args = given;
    tl_status st =
        tl_wordpiece_from_memory(&l->splitter, "vocab.txt", specials, sizeof specials - 1,
                                 &(tl_wordpiece_args){.rules = given.rules, .cased = given.cased});
    if (st == TL_OK) *out = l;
    else tl_wordpiece_learner_free(&l);
    return st;
}

void tl_wordpiece_learner_free(tl_wordpiece_learner **learner)
{
    tl_wordpiece_learner *l = *learner;
    *learner = NULL;
    if (!l) return;
    tl_tokenizer_free(&l->splitter);
    tl_map_deinit(&l->words);
    tl_free(l);
}

int64_t tl_wordpiece_learner_words(const tl_wordpiece_learner *l)
{
    return tl_map_count(&l->words);
}

static int64_t count_at(const tl_map *words, int64_t i)
{
    return (int64_t)(intptr_t)tl_map_at(words, i);
}

/* Words that occur least go, until at least half of the room is free. */
static tl_status forget_rare(tl_wordpiece_learner *l)
{
    while (tl_map_count(&l->words) > MOST_COUNTED / 2) {
        tl_map kept = TL_MAP_INIT;
        tl_status st = TL_OK;
        l->floor++;
        for (int64_t i = 0; i < tl_map_count(&l->words) && st == TL_OK; i++)
            if (count_at(&l->words, i) > l->floor)
                st = tl_map_set(&kept, tl_map_key(&l->words, i), tl_map_at(&l->words, i));
        tl_map_deinit(st == TL_OK ? &l->words : &kept);
        TL_TRY(st);
        l->words = kept;
    }
    return TL_OK;
}

static tl_status count_word(void *payload, const char *word, size_t size)
{
    tl_wordpiece_learner *l = payload;
    char key[LONGEST_WORD * 4 + 1];
    int64_t characters = 0;
    if (size >= sizeof key) return TL_OK;
    for (size_t i = 0; i < size; i++) characters += ((uint8_t)word[i] & 0xc0) != 0x80;
    if (characters > LONGEST_WORD || memchr(word, 0, size)) return TL_OK;
    memcpy(key, word, size);
    key[size] = '\0';
    int64_t count = (int64_t)(intptr_t)tl_map_get(&l->words, key);
    TL_TRY(tl_map_set(&l->words, key, (void *)(intptr_t)(count + 1)));
    return tl_map_count(&l->words) < MOST_COUNTED ? TL_OK : forget_rare(l);
}

tl_status tl_wordpiece_learner_add(tl_wordpiece_learner *l, const char *text, size_t size)
{
    return tli_wordpiece_each_word(l->splitter, count_word, l, text, size);
}

/* --- words as rows of pieces ------------------------------------------------------------------ */

typedef struct word {
    const char *text;
    int64_t count;
    int64_t from; /* of its pieces in the row of all */
    int32_t length;
} word;

typedef struct places {
    int32_t *items; /* words; some may not have the pair any more */
    int64_t count, capacity;
} places;

/* Two pieces that stand beside each other. */
typedef struct pair {
    int32_t left, right;
    int64_t count;
    int64_t touched; /* the merge that changed it last */
    places where;
} pair;

typedef struct chance {
    int64_t count; /* of the pair when it was put here; it may have changed since */
    int32_t pair;
} chance;

typedef struct learning {
    const tl_wordpiece_learner *learner;
    word *words;
    int64_t word_count;
    int32_t *row; /* the pieces of all words */
    tl_map ids;   /* pieces by text, to one more than their number; the specials are not among
                     them */
    int64_t merges;
    struct {
        pair *items;
        int64_t count, capacity;
    } pairs;
    int32_t *slots; /* of pairs by their pieces; -1: free; a power of two of them */
    int64_t slot_count;
    struct {
        chance *items;
        int64_t count, capacity;
    } heap;
    struct {
        int32_t *items;
        int64_t count, capacity;
    } touched; /* pairs that the last merge made, or made more frequent */
} learning;

static int by_count(const void *a, const void *b)
{
    const word *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->text, y->text);
}

static tl_status take_words(learning *g)
{
    const tl_map *from = &g->learner->words;
    int64_t count = tl_map_count(from);
    if (!count) return TL_FAIL(TL_EINVAL, "there is no word to learn a vocabulary from");
    g->words = tl_alloc((size_t)count * sizeof *g->words);
    if (!g->words) return TL_FAIL_NOMEM((size_t)count * sizeof *g->words);
    for (int64_t i = 0; i < count; i++)
        g->words[i] = (word){.text = tl_map_key(from, i), .count = count_at(from, i)};
    qsort(g->words, (size_t)count, sizeof *g->words, by_count);
    g->word_count = count < MOST_WORDS ? count : MOST_WORDS;
    return TL_OK;
}

/* --- the alphabet ----------------------------------------------------------------------------- */

typedef struct letter {
    const char *text; /* a character, or "##" and one */
    int64_t count;
} letter;

static int letters_by_count(const void *a, const void *b)
{
    const letter *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->text, y->text);
}

static int letters_by_text(const void *a, const void *b)
{
    return strcmp(((const letter *)a)->text, ((const letter *)b)->text);
}

/* The character at `p` as a piece; returns its bytes. */
static size_t letter_at(char out[8], const char *p, bool begins)
{
    size_t n = 1, at = begins ? 0 : 2;
    while (((uint8_t)p[n] & 0xc0) == 0x80 && n < 4) n++;
    memcpy(out, "##", at);
    memcpy(out + at, p, n);
    out[at + n] = '\0';
    return n;
}

static tl_status count_letters(tl_map *seen, const learning *g)
{
    char piece[8];
    for (int64_t i = 0; i < g->word_count; i++) {
        const word *w = &g->words[i];
        for (const char *p = w->text; *p;) {
            p += letter_at(piece, p, p == w->text);
            int64_t count = (int64_t)(intptr_t)tl_map_get(seen, piece) + w->count;
            TL_TRY(tl_map_set(seen, piece, (void *)(intptr_t)count));
        }
    }
    return TL_OK;
}

static tl_status add_piece(learning *g, const char *piece)
{
    return tl_map_set(&g->ids, piece, (void *)(intptr_t)(tl_map_count(&g->ids) + 1));
}

static int32_t find_piece(const learning *g, const char *piece)
{
    return (int32_t)((intptr_t)tl_map_get(&g->ids, piece) - 1);
}

/* The most frequent ones, in the order of their bytes. */
static tl_status choose_letters(learning *g, const tl_map *seen)
{
    int64_t count = tl_map_count(seen), most = g->learner->args.size - SPECIALS;
    letter *letters = tl_alloc((size_t)count * sizeof *letters);
    if (!letters) return TL_FAIL_NOMEM((size_t)count * sizeof *letters);
    for (int64_t i = 0; i < count; i++)
        letters[i] = (letter){tl_map_key(seen, i), count_at(seen, i)};
    qsort(letters, (size_t)count, sizeof *letters, letters_by_count);
    if (most > 2 * MOST_CHARACTERS) most = 2 * MOST_CHARACTERS;
    if (count > most) count = most;
    qsort(letters, (size_t)count, sizeof *letters, letters_by_text);
    tl_status st = TL_OK;
    for (int64_t i = 0; i < count && st == TL_OK; i++) st = add_piece(g, letters[i].text);
    tl_free(letters);
    return st;
}

/* Words of characters that are not in the alphabet have no pieces. */
static void spell(learning *g, word *w, int64_t from)
{
    char piece[8];
    w->from = from;
    w->length = 0;
    for (const char *p = w->text; *p;) {
        p += letter_at(piece, p, p == w->text);
        int32_t id = find_piece(g, piece);
        if (id < 0) {
            w->length = 0;
            return;
        }
        g->row[from + w->length++] = id;
    }
}

static tl_status spell_words(learning *g)
{
    tl_map seen = TL_MAP_INIT;
    size_t bytes = 0;
    int64_t from = 0;
    tl_status st = count_letters(&seen, g);
    if (st == TL_OK) st = choose_letters(g, &seen);
    tl_map_deinit(&seen);
    TL_TRY(st);
    for (int64_t i = 0; i < g->word_count; i++) bytes += strlen(g->words[i].text);
    g->row = tl_alloc(bytes * sizeof *g->row);
    if (!g->row) return TL_FAIL_NOMEM(bytes * sizeof *g->row);
    for (int64_t i = 0; i < g->word_count; i++) {
        spell(g, &g->words[i], from);
        from += g->words[i].length;
    }
    return TL_OK;
}

/* --- pairs ------------------------------------------------------------------------------------ */

static uint64_t mix(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return key ^ key >> 29;
}

static int64_t slot_of(const learning *g, int32_t left, int32_t right)
{
    int64_t at = (int64_t)(mix(left, right) & (uint64_t)(g->slot_count - 1));
    for (;; at = (at + 1) & (g->slot_count - 1)) {
        int32_t i = g->slots[at];
        if (i < 0 || (g->pairs.items[i].left == left && g->pairs.items[i].right == right))
            return at;
    }
}

static tl_status grow_slots(learning *g)
{
    int64_t count = g->slot_count ? 2 * g->slot_count : 1 << 12;
    int32_t *slots = tl_alloc((size_t)count * sizeof *slots);
    if (!slots) return TL_FAIL_NOMEM((size_t)count * sizeof *slots);
    memset(slots, 0xff, (size_t)count * sizeof *slots);
    tl_free(g->slots);
    g->slots = slots;
    g->slot_count = count;
    for (int64_t i = 0; i < g->pairs.count; i++) {
        const pair *p = &g->pairs.items[i];
        g->slots[slot_of(g, p->left, p->right)] = (int32_t)i;
    }
    return TL_OK;
}

static tl_status find_pair(pair **out, learning *g, int32_t left, int32_t right)
{
    if (2 * g->pairs.count >= g->slot_count) TL_TRY(grow_slots(g));
    int64_t at = slot_of(g, left, right);
    if (g->slots[at] < 0) {
        pair fresh = {.left = left, .right = right};
        if (!TL_VEC_PUSH(&g->pairs, fresh)) return TL_ENOMEM;
        g->slots[at] = (int32_t)(g->pairs.count - 1);
    }
    *out = &g->pairs.items[g->slots[at]];
    return TL_OK;
}

/* More frequent comes first; of equal ones the one whose pieces are older. */
static bool is_before(const learning *g, const chance *a, const chance *b)
{
    const pair *p = &g->pairs.items[a->pair], *q = &g->pairs.items[b->pair];
    if (a->count != b->count) return a->count > b->count;
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static tl_status push_chance(learning *g, int32_t which)
{
    chance c = {g->pairs.items[which].count, which};
    if (c.count < g->learner->args.least) return TL_OK;
    if (!TL_VEC_PUSH(&g->heap, c)) return TL_ENOMEM;
    chance *h = g->heap.items;
    int64_t at = g->heap.count - 1;
    for (int64_t up = (at - 1) / 2; at > 0 && is_before(g, &c, &h[up]); up = (at - 1) / 2) {
        h[at] = h[up];
        at = up;
    }
    h[at] = c;
    return TL_OK;
}

static chance pop_chance(learning *g)
{
    chance *h = g->heap.items, best = h[0], last = h[--g->heap.count];
    int64_t at = 0, n = g->heap.count;
    for (int64_t down = 1; down < n; down = 2 * at + 1) {
        if (down + 1 < n && is_before(g, &h[down + 1], &h[down])) down++;
        if (!is_before(g, &h[down], &last)) break;
        h[at] = h[down];
        at = down;
    }
    h[at] = last;
    return best;
}

/* The pairs of a word become `times` its count more frequent. Those with the piece `fresh` in them
 * are noted as the word's; -1 is any. */
static tl_status count_pairs(learning *g, int64_t which, int64_t times, int32_t fresh)
{
    const word *w = &g->words[which];
    const int32_t *row = g->row + w->from;
    for (int32_t i = 0; i + 1 < w->length; i++) {
        pair *p;
        TL_TRY(find_pair(&p, g, row[i], row[i + 1]));
        p->count += times * w->count;
        if (times < 0 || (fresh >= 0 && row[i] != fresh && row[i + 1] != fresh)) continue;
        int32_t at = (int32_t)which;
        if (!TL_VEC_PUSH(&p->where, at)) return TL_ENOMEM;
        if (p->touched == g->merges) continue;
        p->touched = g->merges;
        int32_t number = (int32_t)(p - g->pairs.items);
        if (!TL_VEC_PUSH(&g->touched, number)) return TL_ENOMEM;
    }
    return TL_OK;
}

static tl_status push_touched(learning *g)
{
    for (int64_t i = 0; i < g->touched.count; i++) TL_TRY(push_chance(g, g->touched.items[i]));
    g->touched.count = 0;
    return TL_OK;
}

/* --- merging ---------------------------------------------------------------------------------- */

/* The two as one piece; "##" of the right one goes. */
static tl_status join(learning *g, int32_t left, int32_t right, int32_t *out)
{
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, tl_map_key(&g->ids, left));
    tl_str_add(&text, tl_map_key(&g->ids, right) + 2);
    tl_status st = tl_str_status(&text);
    // other parts may have made it before
    if (st == TL_OK && find_piece(g, tl_str_text(&text)) < 0) st = add_piece(g, tl_str_text(&text));
    if (st == TL_OK) *out = find_piece(g, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

static bool has_pair(const learning *g, const word *w, int32_t left, int32_t right)
{
    const int32_t *row = g->row + w->from;
    for (int32_t i = 0; i + 1 < w->length; i++)
        if (row[i] == left && row[i + 1] == right) return true;
    return false;
}

static tl_status merge_in_word(learning *g, int64_t which, int32_t left, int32_t right,
                               int32_t joined)
{
    word *w = &g->words[which];
    int32_t *row = g->row + w->from, kept = 0;
    if (!has_pair(g, w, left, right)) return TL_OK;
    TL_TRY(count_pairs(g, which, -1, -1));
    for (int32_t i = 0; i < w->length; i++, kept++) {
        bool both = i + 1 < w->length && row[i] == left && row[i + 1] == right;
        row[kept] = both ? joined : row[i];
        i += both;
    }
    w->length = kept;
    return count_pairs(g, which, 1, joined);
}

static tl_status merge(learning *g, int32_t which)
{
    const int32_t left = g->pairs.items[which].left, right = g->pairs.items[which].right;
    places where = g->pairs.items[which].where; // the list of pairs may move
    int32_t joined = -1;
    g->pairs.items[which].where = (places){0};
    g->merges++;
    tl_status st = join(g, left, right, &joined);
    for (int64_t i = 0; i < where.count && st == TL_OK; i++)
        st = merge_in_word(g, where.items[i], left, right, joined);
    TL_VEC_FREE(&where);
    return st == TL_OK ? push_touched(g) : st;
}

static tl_status learn(learning *g)
{
    const int64_t most = g->learner->args.size - SPECIALS;
    g->merges = 1;
    for (int64_t i = 0; i < g->word_count; i++) TL_TRY(count_pairs(g, i, 1, -1));
    TL_TRY(push_touched(g));
    while (g->heap.count && tl_map_count(&g->ids) < most) {
        chance c = pop_chance(g);
        if (g->pairs.items[c.pair].count == c.count) TL_TRY(merge(g, c.pair));
        else TL_TRY(push_chance(g, c.pair));
    }
    return TL_OK;
}

static void end_learning(learning *g)
{
    for (int64_t i = 0; i < g->pairs.count; i++) TL_VEC_FREE(&g->pairs.items[i].where);
    TL_VEC_FREE(&g->pairs);
    TL_VEC_FREE(&g->heap);
    TL_VEC_FREE(&g->touched);
    tl_free(g->slots);
    tl_free(g->row);
    tl_free(g->words);
    tl_map_deinit(&g->ids);
}

tl_status tl_wordpiece_learner_finish(tl_wordpiece_learner *l, tl_str *vocab)
{
    learning g = {.learner = l};
    tl_status st;
    TL_TRY_DONE(st, take_words(&g));
    TL_TRY_DONE(st, spell_words(&g));
    TL_TRY_DONE(st, learn(&g));
    tl_str_add(vocab, specials);
    for (int64_t i = 0; i < tl_map_count(&g.ids); i++)
        tl_str_addf(vocab, "%s\n", tl_map_key(&g.ids, i));
    st = tl_str_status(vocab);
done:
    end_learning(&g);
    return st;
}
