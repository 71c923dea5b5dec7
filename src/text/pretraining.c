/* Examples of masked pieces and next sentences. They are made one after the other, since each draw
 * follows the one before, and kept as a few bytes: where their pieces stand, and what was
 * changed. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/vec.h>

#include "desc/inner/ranges.h"
#include "text/documents.h"
#include "text/python_random.h"

static const tl_field pretraining_fields[] = {
    TL_F(tl_pretraining_config, max_seq_length, .i = 128, TL_RANGE(5, 65536),
         .help = "pieces of a sequence, with [CLS] and [SEP]"),
    TL_F(tl_pretraining_config, random_seed, TL_FILLED, .i = 12345,
         .help = "seed of the random numbers"),
    TL_F(tl_pretraining_config, dupe_factor, .i = 10, TL_RANGE(1, 1000000),
         .help = "how many times each document is used, each time with other masks"),
    TL_F(tl_pretraining_config, short_seq_prob, TL_FILLED, .d = 0.1, TL_RANGE(0, 1),
         .help = "chance of a document to be cut into shorter sequences"),
    TL_F_END,
};
const tl_desc tl_pretraining_config_desc = {
    .name = "pretraining",
    .help = "how examples of masked pieces and next sentences are made of documents",
    .size = sizeof(tl_pretraining_config),
    .base = &tl_masking_config_desc,
    .fields = pretraining_fields,
};

struct tl_pretraining {
    const tl_documents *documents;
    tl_pretraining_config config;
    int32_t cls, sep, mask;
    struct {
        uint8_t *items;
        int64_t count, capacity;
    } bytes;             /* of all examples: put_example tells what they say */
    tli_offsets offsets; /* of each example in them */
    double next_random;
};

/* --- a few bytes for each --------------------------------------------------------------------- */

enum {
    BYTES_OF_NUMBER = 10, // at most
    // what became of a masked piece
    BECAME_MASK = 0,
    STAYED = 1,
    BECAME_OTHER = 2,
    BECAME_BITS = 2
};

static uint8_t *put_number(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static const uint8_t *get_number(const uint8_t *at, uint64_t *out)
{
    *out = 0;
    for (int shift = 0;; shift += 7) {
        *out |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at++ & 0x80)) return at;
    }
}

static tl_status make_bytes(tl_pretraining *p, int64_t more)
{
    int64_t capacity = p->bytes.capacity ? p->bytes.capacity : 1 << 12;
    while (capacity - p->bytes.count < more) capacity *= 2;
    if (capacity == p->bytes.capacity) return TL_OK;
    uint8_t *grown = tl_realloc(p->bytes.items, (size_t)capacity);
    if (!grown) return TL_FAIL_NOMEM((size_t)capacity);
    p->bytes.items = grown;
    p->bytes.capacity = capacity;
    return TL_OK;
}

typedef tli_piece_range range;

typedef struct making {
    tl_pretraining *p;
    tl_masker *masker;
    tl_masked masked;
    tli_python_random random;
    tl_bits bits;
    int64_t *order; /* of the documents */
    int64_t count;  /* of them */
    int32_t *ids;   /* of one example */
} making;

static uint8_t *put_change(const tl_pretraining *p, uint8_t *at, int64_t gap, int32_t was,
                           int32_t is)
{
    unsigned became = is == p->mask ? BECAME_MASK : is == was ? STAYED : BECAME_OTHER;
    at = put_number(at, (uint64_t)gap << BECAME_BITS | became);
    return became == BECAME_OTHER ? put_number(at, (uint64_t)is) : at;
}

/* Where a and b stand, whether b is random, how many pieces are masked; for each of them the way
 * from the one before, and what it became. */
static tl_status put_example(making *m, range a, range b, bool is_random)
{
    tl_pretraining *p = m->p;
    const tl_masked *masked = &m->masked;
    TL_TRY(make_bytes(p, (5 + 2 * masked->count) * BYTES_OF_NUMBER));
    if (!TL_VEC_PUSH(&p->offsets, p->bytes.count)) return TL_ENOMEM;
    uint8_t *at = p->bytes.items + p->bytes.count;
    at = put_number(at, (uint64_t)a.at);
    at = put_number(at, (uint64_t)a.count);
    at = put_number(at, (uint64_t)b.at);
    at = put_number(at, (uint64_t)b.count << 1 | is_random);
    at = put_number(at, (uint64_t)masked->count);
    for (int64_t i = 0, before = 0; i < masked->count; i++) {
        int32_t position = masked->positions[i];
        at = put_change(p, at, position - before, masked->labels[i], m->ids[position]);
        before = position;
    }
    p->bytes.count = at - p->bytes.items;
    return TL_OK;
}

/* --- making them ------------------------------------------------------------------------------ */

void tli_truncate_pair(range *a, range *b, int64_t most, tl_bits bits)
{
    while (a->count + b->count > most) {
        range *longer = a->count > b->count ? a : b;
        longer->at += tli_bits_real(bits) < 0.5;
        longer->count--;
    }
}

static int64_t lay_out(const tl_pretraining *p, range a, range b, int32_t *ids)
{
    int64_t n = 0;
    ids[n++] = p->cls;
    tli_documents_copy(p->documents, a.at, a.count, ids + n);
    n += a.count;
    ids[n++] = p->sep;
    tli_documents_copy(p->documents, b.at, b.count, ids + n);
    n += b.count;
    ids[n++] = p->sep;
    return n;
}

static tl_status make_example(making *m, range a, range b, bool is_random)
{
    tli_truncate_pair(&a, &b, m->p->config.max_seq_length - 3, m->bits);
    int64_t count = lay_out(m->p, a, b, m->ids);
    TL_TRY(tl_mask(m->masker, &m->masked, m->ids, count, m->bits));
    return put_example(m, a, b, is_random);
}

/* Sentences of another document, if one is found, from a random one on. */
static range random_next(const making *m, int64_t place, int64_t wanted)
{
    const tl_documents *d = m->p->documents;
    int64_t other = place;
    for (int i = 0; i < 10 && other == place; i++)
        other = tli_bits_between(m->bits, 0, m->count - 1);
    int64_t first = tli_document_at(d, m->order[other]);
    int64_t end = tli_document_at(d, m->order[other] + 1);
    int64_t sentence = first + tli_bits_between(m->bits, 0, end - first - 1);
    range b = {tli_sentence_at(d, sentence), 0};
    do {
        b.count = tli_sentence_at(d, ++sentence) - b.at;
    } while (sentence < end && b.count < wanted);
    return b;
}

static tl_status make_of_document(making *m, int64_t place)
{
    const tl_pretraining_config *c = &m->p->config;
    const tl_documents *d = m->p->documents;
    int64_t from = tli_document_at(d, m->order[place]);
    int64_t end = tli_document_at(d, m->order[place] + 1), target = c->max_seq_length - 3;
    if (tli_bits_real(m->bits) < c->short_seq_prob.value)
        target = tli_bits_between(m->bits, 2, target);
    for (int64_t i = from; i < end; i++) {
        int64_t next = tli_sentence_at(d, i + 1), sentences = i - from + 1, in_a = 1;
        range a = {tli_sentence_at(d, from), 0};
        if (i < end - 1 && next - a.at < target) continue;
        if (sentences >= 2) in_a = tli_bits_between(m->bits, 1, sentences - 1);
        a.count = tli_sentence_at(d, from + in_a) - a.at;
        range b = {a.at + a.count, next - a.at - a.count};
        bool is_random = sentences == 1 || tli_bits_real(m->bits) < 0.5;
        if (is_random) {
            b = random_next(m, place, target - a.count);
            i -= sentences - in_a; // those that were not used come again
        }
        TL_TRY(make_example(m, a, b, is_random));
        from = i + 1;
    }
    return TL_OK;
}

static tl_status make_all(making *m)
{
    tl_pretraining *p = m->p;
    for (int64_t i = 0; i < m->count; i++) m->order[i] = i;
    tli_bits_shuffle(m->bits, m->order, m->count);
    for (int64_t pass = 0; pass < p->config.dupe_factor; pass++)
        for (int64_t place = 0; place < m->count; place++) TL_TRY(make_of_document(m, place));
    tli_bits_shuffle(m->bits, p->offsets.items, p->offsets.count);
    return TL_OK;
}

static tl_status make(tl_pretraining *p)
{
    making m = {.p = p, .masked = TL_MASKED_INIT, .count = p->documents->documents.count};
    tl_status st;
    m.bits = (tl_bits){tli_python_random_bits, &m.random};
    tli_python_random_seed(&m.random, p->config.random_seed.value);
    m.order = tl_alloc((size_t)m.count * sizeof *m.order);
    m.ids = tl_alloc((size_t)p->config.max_seq_length * sizeof *m.ids);
    if (!m.order || !m.ids) TL_TRY_DONE(st, TL_FAIL_NOMEM((size_t)m.count * sizeof *m.order));
    TL_TRY_DONE(st, tl_masker_new(&m.masker, p->documents->tokenizer, &p->config.base));
    st = make_all(&m);
    p->next_random = tli_bits_real(m.bits);
done:
    tl_masker_free(&m.masker);
    tl_masked_deinit(&m.masked);
    tl_free(m.order);
    tl_free(m.ids);
    return st;
}

double tli_pretraining_next_random(const tl_pretraining *p)
{
    return p->next_random;
}

/* --- examples --------------------------------------------------------------------------------- */

static tl_status read_config(tl_pretraining *p, const tl_pretraining_config *config)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_desc_complete(arena, &tl_pretraining_config_desc, &p->config,
                                    config ? config : &(tl_pretraining_config){0}, NULL);
    if (st == TL_OK) st = tli_check_ranges(&tl_pretraining_config_desc, &p->config);
    if (st == TL_OK) st = tl_desc_check(&tl_pretraining_config_desc, &p->config);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_pretraining_new(tl_pretraining **out, const tl_documents *documents,
                             const tl_pretraining_config *config)
{
    tl_pretraining *p = *out = tl_alloc_zero(sizeof *p);
    const tl_tokenizer *t = documents->tokenizer;
    tl_status st;
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->documents = documents;
    TL_TRY_DONE(st, read_config(p, config));
    if (!documents->documents.count)
        TL_TRY_DONE(st, TL_FAIL(TL_EINVAL, "there is no text to make examples of"));
    TL_TRY_DONE(st, tl_tokenizer_need(t, "[CLS]", &p->cls));
    TL_TRY_DONE(st, tl_tokenizer_need(t, "[SEP]", &p->sep));
    TL_TRY_DONE(st, tl_tokenizer_need(t, "[MASK]", &p->mask));
    st = make(p);
done:
    if (st != TL_OK) tl_pretraining_free(out);
    return st;
}

void tl_pretraining_free(tl_pretraining **examples)
{
    tl_pretraining *p = *examples;
    *examples = NULL;
    if (!p) return;
    TL_VEC_FREE(&p->bytes);
    TL_VEC_FREE(&p->offsets);
    tl_free(p);
}

int64_t tl_pretraining_count(const tl_pretraining *p)
{
    return p->offsets.count;
}

const tl_pretraining_config *tl_pretraining_config_of(const tl_pretraining *p)
{
    return &p->config;
}

tl_pool *tli_pretraining_pool(const tl_pretraining *p)
{
    return p->documents->pool;
}

void tl_pretraining_example_deinit(tl_pretraining_example *e)
{
    tl_free(e->ids);
    *e = (tl_pretraining_example)TL_PRETRAINING_EXAMPLE_INIT;
}

/* Ids, positions and labels in one piece of memory. */
static tl_status make_room(tl_pretraining_example *e, const tl_pretraining_config *c)
{
    int64_t wanted = c->max_seq_length + 2 * c->base.max_predictions_per_seq;
    if (e->room < wanted) {
        int32_t *ids = tl_realloc(e->ids, (size_t)wanted * sizeof *ids);
        if (!ids) return TL_FAIL_NOMEM((size_t)wanted * sizeof *ids);
        e->ids = ids;
        e->room = wanted;
    }
    e->positions = e->ids + c->max_seq_length;
    e->labels = e->positions + c->base.max_predictions_per_seq;
    return TL_OK;
}

static const uint8_t *get_range(const uint8_t *at, range *out)
{
    uint64_t place, count;
    at = get_number(at, &place);
    at = get_number(at, &count);
    *out = (range){(int64_t)place, (int64_t)count};
    return at;
}

static const uint8_t *get_change(const tl_pretraining *p, const uint8_t *at, int32_t *position,
                                 tl_pretraining_example *e)
{
    uint64_t change, other;
    at = get_number(at, &change);
    *position += (int32_t)(change >> BECAME_BITS);
    e->positions[e->masked] = *position;
    e->labels[e->masked++] = e->ids[*position];
    switch (change & ((1 << BECAME_BITS) - 1)) {
    case BECAME_MASK: e->ids[*position] = p->mask; break;
    case BECAME_OTHER:
        at = get_number(at, &other);
        e->ids[*position] = (int32_t)other;
        break;
    default: break;
    }
    return at;
}

tl_status tl_pretraining_get(const tl_pretraining *p, int64_t number, tl_pretraining_example *out)
{
    uint64_t masked;
    range a, b;
    int32_t position = 0;
    if (number < 0 || number >= p->offsets.count)
        return TL_FAIL(TL_EINVAL, "there is no example %" PRId64 "; there are %" PRId64, number,
                       p->offsets.count);
    TL_TRY(make_room(out, &p->config));
    const uint8_t *at = p->bytes.items + p->offsets.items[number];
    at = get_range(at, &a);
    at = get_range(at, &b);
    out->is_random = b.count & 1;
    b.count >>= 1;
    out->count = lay_out(p, a, b, out->ids);
    out->first = a.count + 2;
    out->masked = 0;
    at = get_number(at, &masked);
    while (out->masked < (int64_t)masked) at = get_change(p, at, &position, out);
    return TL_OK;
}
