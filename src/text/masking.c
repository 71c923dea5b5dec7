#include <tilth/text/masking.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>

#include "desc/inner/ranges.h"
#include "text/python_random.h"

static tl_status check_config(const void *value)
{
    const tl_masking_config *c = value;
    if (c->max_ngram_size > 1 && !c->do_whole_word_mask)
        return TL_FAIL(TL_EINVAL, "max_ngram_size: runs of words need do_whole_word_mask, which "
                                  "says that words are masked and not pieces");
    return TL_OK;
}

static const tl_field masking_fields[] = {
    TL_F(tl_masking_config, masked_lm_prob, TL_FILLED, .d = 0.15, TL_RANGE(0, 1),
         .help = "share of the pieces of a sequence that are masked"),
    TL_F(tl_masking_config, max_predictions_per_seq, .i = 20, TL_RANGE(1, 65536),
         .help = "masked pieces of a sequence, at most"),
    TL_F(tl_masking_config, do_whole_word_mask,
         .help = "words are masked with all their pieces, not single pieces"),
    TL_F(tl_masking_config, max_ngram_size, .i = 1, TL_RANGE(1, TL_MASKING_NGRAM),
         .help = "with do_whole_word_mask: runs of up to so many words are masked together"),
    TL_F_END,
};
const tl_desc tl_masking_config_desc = {
    .name = "masking",
    .help = "which pieces of a sequence are masked",
    .size = sizeof(tl_masking_config),
    .fields = masking_fields,
    .check = check_config,
};

struct tl_masker {
    double rate;
    int64_t most; /* predictions of a sequence */
    int ngrams;   /* words of the longest unit */
    bool whole_words;
    double weights[TL_MASKING_NGRAM]; /* of lengths up to this one */
    int32_t cls, sep, mask;
    /* Every piece once, in the order of the file: a replacement is drawn among them. Of a piece
     * that is there twice, the last id counts. */
    int32_t *words;
    int64_t word_count;
    bool *joins; /* by id: the piece goes on the word before it */
    int64_t ids;
};

/* --- making one ------------------------------------------------------------------------------- */

static tl_status add_word(tl_masker *m, tl_map *seen, const char *piece, int64_t id)
{
    uintptr_t place = (uintptr_t)tl_map_get(seen, piece); // one more than the place; 0: none
    m->joins[id] = strncmp(piece, "##", 2) == 0;
    if (!place) {
        place = (uintptr_t)++m->word_count;
        TL_TRY(tl_map_set(seen, piece, (void *)place));
    }
    m->words[place - 1] = (int32_t)id;
    return TL_OK;
}

static tl_status take_vocabulary(tl_masker *m, const tl_tokenizer *tokenizer)
{
    tl_map seen = TL_MAP_INIT;
    tl_status st = TL_OK;
    m->ids = tl_tokenizer_count(tokenizer);
    m->words = tl_alloc((size_t)m->ids * sizeof *m->words);
    m->joins = tl_alloc_zero((size_t)m->ids * sizeof *m->joins);
    if (!m->words || !m->joins) return TL_FAIL_NOMEM((size_t)m->ids * sizeof *m->words);
    for (int64_t id = 0; id < m->ids && st == TL_OK; id++) {
        const char *piece = tl_tokenizer_piece(tokenizer, id);
        if (piece) st = add_word(m, &seen, piece, id);
    }
    tl_map_deinit(&seen);
    return st;
}

static void take_config(tl_masker *m, const tl_masking_config *c)
{
    double sum = 0;
    m->rate = c->masked_lm_prob.value;
    m->most = c->max_predictions_per_seq;
    m->whole_words = c->do_whole_word_mask;
    m->ngrams = (int)c->max_ngram_size;
    for (int n = 0; n < m->ngrams; n++) m->weights[n] = sum += 1.0 / (n + 1);
}

static tl_status read_config(tl_masker *m, const tl_masking_config *config)
{
    tl_masking_config complete;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_desc_complete(arena, &tl_masking_config_desc, &complete,
                                    config ? config : &(tl_masking_config){0}, NULL);
    if (st == TL_OK) st = tli_check_ranges(&tl_masking_config_desc, &complete);
    if (st == TL_OK) st = tl_desc_check(&tl_masking_config_desc, &complete);
    if (st == TL_OK) take_config(m, &complete);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_masker_new(tl_masker **out, const tl_tokenizer *tokenizer,
                        const tl_masking_config *config)
{
    tl_masker *m = *out = tl_alloc_zero(sizeof *m);
    tl_status st;
    if (!m) return TL_FAIL_NOMEM(sizeof *m);
    TL_TRY_DONE(st, read_config(m, config));
    TL_TRY_DONE(st, tl_tokenizer_need(tokenizer, "[CLS]", &m->cls));
    TL_TRY_DONE(st, tl_tokenizer_need(tokenizer, "[SEP]", &m->sep));
    TL_TRY_DONE(st, tl_tokenizer_need(tokenizer, "[MASK]", &m->mask));
    st = take_vocabulary(m, tokenizer);
done:
    if (st != TL_OK) tl_masker_free(out);
    return st;
}

void tl_masker_free(tl_masker **masker)
{
    tl_masker *m = *masker;
    *masker = NULL;
    if (!m) return;
    tl_free(m->words);
    tl_free(m->joins);
    tl_free(m);
}

uint32_t tl_rng_bits(void *payload)
{
    return tl_rng_u32(payload);
}

/* --- choosing --------------------------------------------------------------------------------- */

/* Pieces begin .. end - 1 of a sequence. */
typedef struct gram {
    int32_t begin, end;
} gram;

/* Parts of the memory of a tl_masked. */
typedef struct choosing {
    gram *words;
    int64_t word_count;
    gram *lists[TL_MASKING_NGRAM]; /* by the number of their words, less one */
    int64_t counts[TL_MASKING_NGRAM];
    gram *chosen;
    int64_t chosen_count;
    int64_t left;      /* pieces that may be chosen still */
    bool *taken;       /* by piece */
    int64_t remaining; /* units in all lists */
} choosing;

static tl_status make_room(tl_masked *out, choosing *c, int64_t count, int ngrams)
{
    size_t n = (size_t)(count ? count : 1);
    size_t size = n * ((2 + (size_t)ngrams) * sizeof(gram) + 2 * sizeof(int32_t) + sizeof(bool));
    if (size > out->room.size) {
        void *data = tl_realloc(out->room.data, size);
        if (!data) return TL_FAIL_NOMEM(size);
        out->room.data = data;
        out->room.size = size;
    }
    *c = (choosing){.words = out->room.data};
    c->chosen = c->words + n;
    for (int i = 0; i < ngrams; i++) c->lists[i] = c->chosen + n * (size_t)(1 + i);
    out->positions = (int32_t *)(c->chosen + n * (size_t)(1 + ngrams));
    out->labels = out->positions + n;
    c->taken = memset(out->labels + n, 0, n * sizeof *c->taken);
    out->count = 0;
    return TL_OK;
}

void tl_masked_deinit(tl_masked *masked)
{
    tl_free(masked->room.data);
    *masked = (tl_masked)TL_MASKED_INIT;
}

static void find_words(const tl_masker *m, choosing *c, const int32_t *ids, int64_t count)
{
    bool open = false; // the last word may go on
    for (int64_t i = 0; i < count; i++) {
        bool special = ids[i] == m->cls || ids[i] == m->sep;
        if (open && m->whole_words && m->joins[ids[i]] && !special) {
            c->words[c->word_count - 1].end = (int32_t)i + 1;
            continue;
        }
        open = !special;
        if (open) c->words[c->word_count++] = (gram){(int32_t)i, (int32_t)i + 1};
    }
}

/* Words that stand side by side, `size` at a time. */
static void list_grams(choosing *c, int size)
{
    gram *list = c->lists[size - 1];
    int64_t found = 0, run = 0; // words side by side that end with this one
    for (int64_t i = 0; i < c->word_count; i++) {
        run = i && c->words[i - 1].end == c->words[i].begin ? run + 1 : 1;
        if (run >= size) list[found++] = (gram){c->words[i - size + 1].begin, c->words[i].end};
    }
    c->counts[size - 1] = found;
    c->remaining += found;
}

static void shuffle_grams(gram *items, int64_t count, tl_bits bits)
{
    for (int64_t i = count - 1; i >= 1; i--) {
        int64_t j = tli_bits_below(bits, i + 1);
        gram item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

/* How many words the next unit has. Nothing is drawn when there is no choice. */
static int draw_size(const tl_masker *m, tl_bits bits)
{
    int size = 1;
    if (m->ngrams == 1) return size;
    double at = tli_bits_real(bits) * m->weights[m->ngrams - 1];
    while (size < m->ngrams && at >= m->weights[size - 1]) size++;
    return size;
}

static bool is_free(const choosing *c, gram g)
{
    for (int32_t i = g.begin; i < g.end; i++)
        if (c->taken[i]) return false;
    return true;
}

/* Each turn takes something off a list, or finds one that is empty. */
static void choose(const tl_masker *m, choosing *c, tl_bits bits)
{
    while (c->left > 0 && c->remaining > 0) {
        int size = draw_size(m, bits);
        int64_t *count = &c->counts[size - 1];
        if (size > c->left) { // none of them fits
            c->remaining -= *count;
            *count = 0;
        }
        if (!*count) continue;
        gram g = c->lists[size - 1][--*count];
        c->remaining--;
        if (g.end - g.begin > c->left || !is_free(c, g)) continue;
        memset(c->taken + g.begin, true, (size_t)(g.end - g.begin) * sizeof *c->taken);
        c->left -= g.end - g.begin;
        c->chosen[c->chosen_count++] = g;
    }
}

static void replace(const tl_masker *m, gram g, int32_t *ids, tl_bits bits)
{
    if (tli_bits_real(bits) < 0.8) {
        for (int32_t i = g.begin; i < g.end; i++) ids[i] = m->mask;
    } else if (tli_bits_real(bits) >= 0.5) {
        for (int32_t i = g.begin; i < g.end; i++)
            ids[i] = m->words[tli_bits_below(bits, m->word_count)];
    }
}

static tl_status check_ids(const tl_masker *m, const int32_t *ids, int64_t count)
{
    if (count > INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "a sequence of %" PRId64 " pieces is too long", count);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= m->ids)
            return TL_FAIL(TL_EINVAL,
                           "piece %" PRId64 " of the sequence has the id %" PRId32
                           "; the vocabulary has %" PRId64,
                           i, ids[i], m->ids);
    return TL_OK;
}

tl_status tl_mask(const tl_masker *m, tl_masked *out, int32_t *ids, int64_t count, tl_bits bits)
{
    choosing c = {0};
    TL_TRY(check_ids(m, ids, count));
    TL_TRY(make_room(out, &c, count, m->ngrams));
    find_words(m, &c, ids, count);
    for (int size = 1; size <= m->ngrams; size++) list_grams(&c, size);
    for (int i = 0; i < m->ngrams; i++) shuffle_grams(c.lists[i], c.counts[i], bits);
    double wanted = rint((double)count * m->rate);
    c.left = wanted < 1 ? 1 : (int64_t)wanted;
    if (c.left > m->most) c.left = m->most;
    choose(m, &c, bits);
    for (int64_t i = 0; i < count; i++) {
        if (!c.taken[i]) continue;
        out->positions[out->count] = (int32_t)i;
        out->labels[out->count++] = ids[i];
    }
    for (int64_t i = 0; i < c.chosen_count; i++) replace(m, c.chosen[i], ids, bits);
    return TL_OK;
}
