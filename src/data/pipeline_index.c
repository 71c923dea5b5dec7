/* Which record comes next: a small machine that walks through the parts of a stream, several at a
 * time, shuffles places of records, and draws among streams. All it needs to go on is in its heads,
 * open parts and buffers. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>

#include "data/pipeline_impl.h"

enum { NUMBER_BITS = 40 }; /* of a word of the buffer; the part has the rest */
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)

void tli_pipeline_draws(tl_rng *out, uint64_t seed, const char *purpose)
{
    tl_rng_init(out, seed);
    tl_rng_split(out, out, purpose);
}

/* --- what is drawn for a pass ----------------------------------------------------------------- */

static tl_status draw_sampled(const tli_stream *s, tli_cursor *c, uint64_t seed)
{
    tl_sampler sampler = *s->sampler;
    sampler.seed = seed;
    TL_TRY_NOTE(tl_sampler_order(&sampler, c->h.epoch, c->order), "sampler %s", sampler.cls->name);
    for (int64_t i = 0; i < s->share; i++)
        if (c->order[i] < 0 || c->order[i] >= s->total)
            return TL_FAIL(TL_EINVAL,
                           "sampler %s: record %" PRId64 " of epoch %" PRId64 " is number %" PRId64
                           "; there are %" PRId64,
                           sampler.cls->name, i, c->h.epoch, c->order[i], s->total);
    return TL_OK;
}

static tl_status draw_pass(const tli_stream *s, tli_cursor *c, uint64_t seed)
{
    if (c->drawn && c->drawn_seed == seed && c->drawn_epoch == c->h.epoch) return TL_OK;
    c->drawn = false;
    if (s->sampler) TL_TRY(draw_sampled(s, c, seed));
    c->drawn = true;
    c->drawn_seed = seed;
    c->drawn_epoch = c->h.epoch;
    tl_rng rng;
    if (c->order && !s->sampler) { // the same for all readers, who share it out
        tli_pipeline_draws(&rng, seed, "pipeline/order");
        tl_rng_fold(&rng, &rng, (uint64_t)s->number);
        tl_rng_fold(&rng, &rng, (uint64_t)c->h.epoch);
        tl_rng_permutation(&rng, c->order, s->whole ? s->total : s->part_count);
    }
    tli_pipeline_draws(&rng, seed, "pipeline/shuffle");
    tl_rng_fold(&rng, &rng, (uint64_t)(s->number * s->readers + s->reader));
    tl_rng_fold(&c->draws, &rng, (uint64_t)c->h.epoch);
    return TL_OK;
}

bool tli_index_fills(const tli_stream *s, int64_t sequence)
{
    return s->sampler && sequence % s->share >= s->share - tl_sampler_fill(s->sampler);
}

static void begin_pass(const tli_stream *s, tli_cursor *c, int64_t epoch)
{
    c->h = (tli_head){.epoch = epoch, .next_part = s->by_record ? 0 : s->reader};
    if (s->cycle) memset(c->open, 0, (size_t)s->cycle * sizeof *c->open);
}

/* --- parts in turn ---------------------------------------------------------------------------- */

static tl_status step(const tli_part *part, tli_open *o, bool *more)
{
    if (part->length >= 0) {
        *more = o->number < part->length;
        o->number += *more;
        return TL_OK;
    }
    tl_record_at at = {part->part, o->number, o->offset};
    *more = true;
    TL_TRY(part->source->cls->step(part->source, &at, more));
    o->number = at.number;
    o->offset = at.offset;
    return TL_OK;
}

static void next_turn(const tli_stream *s, tli_head *h)
{
    h->block = 0;
    if (++h->turn == s->cycle) h->turn = 0;
}

static void open_part(const tli_stream *s, tli_cursor *c)
{
    int64_t part = c->h.next_part;
    c->h.next_part += s->by_record ? 1 : s->readers;
    c->open[c->h.turn] = (tli_open){.part = 1 + (c->order ? c->order[part] : part)};
    c->h.opened++;
}

// The next record of the parts that are open, `block` of each in turn; one that ends makes room for
// the next.
static tl_status walk(const tli_stream *s, tli_cursor *c, tl_record_at *out, bool *more)
{
    tli_head *h = &c->h;
    while (h->opened || h->next_part < s->part_count) {
        tli_open *o = &c->open[h->turn];
        if (!o->part) {
            if (h->next_part < s->part_count) open_part(s, c);
            else next_turn(s, h);
            continue;
        }
        *out = (tl_record_at){o->part - 1, o->number, o->offset};
        TL_TRY(step(&s->parts[o->part - 1], o, more));
        if (*more) {
            if (++h->block == s->block) next_turn(s, h);
            return TL_OK;
        }
        o->part = 0;
        h->opened--;
        next_turn(s, h);
    }
    *more = false;
    return TL_OK;
}

// The same of this reader's records.
static tl_status walk_ours(const tli_stream *s, tli_cursor *c, tl_record_at *out, bool *more)
{
    for (;;) {
        TL_TRY(walk(s, c, out, more));
        if (!*more || !s->by_record || c->h.walked++ % s->readers == s->reader) return TL_OK;
    }
}

/* --- shuffled --------------------------------------------------------------------------------- */

// Which part the record `index` of all lies in.
static void locate(const tli_stream *s, int64_t index, tl_record_at *out)
{
    int64_t low = 0, high = s->part_count; // before[low] <= index < before[high]
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (s->parts[middle].before <= index) low = middle;
        else high = middle;
    }
    *out = (tl_record_at){.part = low, .number = index - s->parts[low].before};
    if (s->parts[low].offsets) out->offset = s->parts[low].offsets[out->number];
}

static void next_of_whole(const tli_stream *s, tli_cursor *c, tl_record_at *out, bool *more)
{
    int64_t index = s->sampler ? c->h.given : s->reader + c->h.given * s->readers;
    *more = index < (s->sampler ? s->share : s->total);
    if (*more) locate(s, c->order[index], out);
}

static tl_status fill_buffer(const tli_stream *s, tli_cursor *c)
{
    tli_head *h = &c->h;
    while (h->held < s->capacity && !h->dry) {
        tl_record_at at;
        bool more;
        TL_TRY(walk_ours(s, c, &at, &more));
        h->dry = !more;
        if (!more) break;
        if (at.number >> NUMBER_BITS)
            return TL_FAIL(TL_ELIMIT, "'%s' has more than 2^%d records",
                           tli_source_part_name(s->parts[at.part].source, s->parts[at.part].part),
                           NUMBER_BITS);
        uint64_t *place = &c->buffer[2 * h->held++];
        place[0] = (uint64_t)at.part << NUMBER_BITS | (uint64_t)at.number;
        place[1] = (uint64_t)at.offset;
    }
    return TL_OK;
}

static tl_status next_of_buffer(const tli_stream *s, tli_cursor *c, tl_record_at *out, bool *more)
{
    tli_head *h = &c->h;
    TL_TRY(fill_buffer(s, c));
    *more = h->held > 0;
    if (!*more) return TL_OK;
    // A draw takes two words of the stream; the n-th one begins at word 2n, wherever the cursor
    // came from.
    if (tl_rng_position(&c->draws) != 2 * h->given) tl_rng_seek(&c->draws, 2 * h->given);
    uint64_t *picked = &c->buffer[2 * tl_rng_below(&c->draws, h->held)];
    const uint64_t *last = &c->buffer[2 * --h->held];
    *out = (tl_record_at){(int64_t)(picked[0] >> NUMBER_BITS), (int64_t)(picked[0] & NUMBER_MASK),
                          (int64_t)picked[1]};
    picked[0] = last[0];
    picked[1] = last[1];
    return TL_OK;
}

static tl_status next_of_pass(const tli_stream *s, tli_cursor *c, tl_record_at *out, bool *more)
{
    if (s->whole) next_of_whole(s, c, out, more);
    else if (s->capacity) TL_TRY(next_of_buffer(s, c, out, more));
    else TL_TRY(walk_ours(s, c, out, more));
    if (*more) c->h.given++;
    return TL_OK;
}

static tl_status empty_pass(const tli_stream *s)
{
    if (s->readers == 1)
        return TL_FAIL(TL_EINVAL, "'%s' has no records, so repeating them would never end",
                       tli_source_part_name(s->parts[0].source, s->parts[0].part));
    return TL_FAIL(
        TL_EINVAL,
        "reader %" PRId64 " of %" PRId64
        " has no records, so repeating them would never end: there are too few for as many readers",
        s->reader, s->readers);
}

static tl_status next_of_stream(const tli_pipeline *p, const tli_stream *s, tli_cursor *c,
                                uint64_t seed, tl_record_at *out, bool *more)
{
    TL_TRY(draw_pass(s, c, seed));
    TL_TRY(next_of_pass(s, c, out, more));
    if (*more || !p->args.repeat) return TL_OK;
    if (!c->h.given) return empty_pass(s);
    begin_pass(s, c, c->h.epoch + 1);
    TL_TRY(draw_pass(s, c, seed));
    TL_TRY(next_of_pass(s, c, out, more));
    return *more ? TL_OK : empty_pass(s);
}

/* --- mixed ------------------------------------------------------------------------------------ */

// A number from 0 to 1 that depends on seed, pass and sequence number.
static double draw_mix(const tli_pipeline *p, tli_index *x)
{
    if (!x->mix_drawn || x->mix_seed != x->top.seed || x->mix_pass != x->top.pass) {
        x->mix_drawn = true;
        x->mix_seed = x->top.seed;
        x->mix_pass = x->top.pass;
        tli_pipeline_draws(&x->mix, x->top.seed, "pipeline/mix");
        tl_rng_fold(&x->mix, &x->mix, (uint64_t)p->streams[0].reader);
        tl_rng_fold(&x->mix, &x->mix, (uint64_t)x->top.pass);
    }
    if (tl_rng_position(&x->mix) != 2 * x->top.sequence) tl_rng_seek(&x->mix, 2 * x->top.sequence);
    return tl_rng_uniform_f64(&x->mix);
}

// Which stream the draw falls on, among those that are not over; -1: there is none.
static int64_t choose(const tli_pipeline *p, const tli_index *x, double draw)
{
    double all = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < p->stream_count; i++) {
        if (x->streams[i].h.over || p->streams[i].weight == 0) continue;
        all += p->streams[i].weight;
        last = i;
    }
    double left = draw * all;
    for (int64_t i = 0; i < last; i++) {
        if (x->streams[i].h.over) continue;
        left -= p->streams[i].weight;
        if (left < 0) return i;
    }
    return last;
}

tl_status tli_index_next(const tli_pipeline *p, tli_index *x, tli_place *out, bool *more)
{
    double draw = p->stream_count > 1 ? draw_mix(p, x) : 0;
    for (;;) {
        int64_t which = choose(p, x, draw);
        *more = which >= 0;
        if (!*more) return TL_OK;
        tli_cursor *c = &x->streams[which];
        tl_record_at at;
        TL_TRY(next_of_stream(p, &p->streams[which], c, x->top.seed, &at, more));
        if (*more) {
            *out = (tli_place){which, at.part, at.number, at.offset, c->h.epoch, x->top.sequence++};
            return TL_OK;
        }
        if (!p->args.until_all) return TL_OK;
        c->h.over = 1;
    }
}

/* --- as a whole ------------------------------------------------------------------------------- */

static void *zeroed(int64_t count, size_t size, tl_status *st)
{
    if (*st != TL_OK) return NULL;
    size_t bytes = (size_t)(count > 0 ? count : 1) * size;
    void *memory = (uint64_t)count > SIZE_MAX / 4 / size ? NULL : tl_alloc_zero(bytes);
    if (!memory) *st = TL_FAIL_NOMEM(bytes);
    return memory;
}

// The sequence goes on too: what is drawn for a sample is what it would have been.
static tl_status begin_sampled(const tli_pipeline *p, tli_index *x, const tli_stream *s,
                               tli_cursor *c)
{
    tl_sampler_place at;
    TL_TRY(tl_sampler_seek(&at, s->sampler, p->args.consumed_samples));
    c->h.epoch = at.epoch;
    c->h.given = at.offset;
    x->top.sequence = p->args.consumed_samples / s->readers;
    return TL_OK;
}

tl_status tli_index_init(tli_pipeline *p, tli_index *x)
{
    tl_status st = TL_OK;
    x->top.seed = p->args.seed;
    x->streams = zeroed(p->stream_count, sizeof *x->streams, &st);
    for (int64_t i = 0; st == TL_OK && i < p->stream_count; i++) {
        const tli_stream *s = &p->streams[i];
        tli_cursor *c = &x->streams[i];
        c->open = zeroed(s->cycle, sizeof *c->open, &st);
        if (st != TL_OK) break;
        c->buffer = zeroed(2 * s->capacity, sizeof *c->buffer, &st);
        if (st != TL_OK)
            return tl_error_note(st, "shuffle (shuffle_buffer_size) is %" PRId64, s->capacity);
        if (s->whole) c->order = zeroed(s->sampler ? s->share : s->total, sizeof *c->order, &st);
        else if (s->shuffle_parts) c->order = zeroed(s->part_count, sizeof *c->order, &st);
        if (st == TL_OK) begin_pass(s, c, 0);
        if (st == TL_OK && s->sampler) st = begin_sampled(p, x, s, c);
    }
    return st;
}

void tli_index_deinit(const tli_pipeline *p, tli_index *x)
{
    for (int64_t i = 0; x->streams && i < p->stream_count; i++) {
        tl_free(x->streams[i].open);
        tl_free(x->streams[i].buffer);
        tl_free(x->streams[i].order);
    }
    tl_free(x->streams);
    *x = (tli_index){0};
}

void tli_index_rewind(const tli_pipeline *p, tli_index *x)
{
    x->top.pass++;
    x->top.sequence = 0;
    for (int64_t i = 0; i < p->stream_count; i++)
        begin_pass(&p->streams[i], &x->streams[i], x->streams[i].h.epoch + 1);
}

void tli_index_copy(const tli_pipeline *p, tli_index *to, const tli_index *from)
{
    to->top = from->top;
    for (int64_t i = 0; i < p->stream_count; i++) {
        const tli_stream *s = &p->streams[i];
        tli_cursor *a = &to->streams[i];
        const tli_cursor *b = &from->streams[i];
        a->h = b->h;
        memcpy(a->open, b->open, (size_t)s->cycle * sizeof *a->open);
        memcpy(a->buffer, b->buffer, (size_t)b->h.held * 2 * sizeof *a->buffer);
    }
}

static bool within(int64_t value, int64_t from, int64_t to)
{
    return value >= from && value <= to;
}

bool tli_part_may_have(const tli_part *part, int64_t number)
{
    return number >= 0 && number >> NUMBER_BITS == 0 && (part->length < 0 || number < part->length);
}

// The place after a part's last record is one where it may stand.
static bool open_makes_sense(const tli_stream *s, const tli_open *o)
{
    if (!within(o->part, 0, s->part_count) || o->number < 0 || o->offset < 0) return false;
    if (!o->part) return true;
    const tli_part *part = &s->parts[o->part - 1];
    return tli_part_may_have(part, o->number) || o->number == part->length;
}

static bool place_makes_sense(const tli_stream *s, const uint64_t place[2])
{
    int64_t part = (int64_t)(place[0] >> NUMBER_BITS);
    return part < s->part_count && place[1] <= INT64_MAX
           && tli_part_may_have(&s->parts[part], (int64_t)(place[0] & NUMBER_MASK));
}

static bool makes_sense(const tli_stream *s, const tli_cursor *c)
{
    const tli_head *h = &c->h;
    int64_t opened = 0;
    bool good = h->epoch >= 0 && h->given >= 0 && h->walked >= 0 && within(h->dry, 0, 1)
                && within(h->over, 0, 1) && within(h->next_part, 0, s->part_count + s->readers)
                && within(h->turn, 0, s->cycle - 1) && within(h->block, 0, s->block - 1)
                && within(h->held, 0, s->capacity)
                && within(h->given, 0, INT64_MAX / (4 * s->readers));
    for (int64_t i = 0; good && i < s->cycle; i++) {
        good = open_makes_sense(s, &c->open[i]);
        opened += c->open[i].part != 0;
    }
    for (int64_t i = 0; good && i < h->held; i++) good = place_makes_sense(s, &c->buffer[2 * i]);
    return good && opened == h->opened;
}

tl_status tli_index_check(const tli_pipeline *p, const tli_index *x)
{
    bool good = x->top.pass >= 0 && within(x->top.sequence, 0, INT64_MAX / 4);
    for (int64_t i = 0; good && i < p->stream_count; i++)
        good = makes_sense(&p->streams[i], &x->streams[i]);
    if (good) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the restored position (sample %" PRId64 " of pass %" PRId64
                   ") makes no sense here: the state is of other data",
                   x->top.sequence, x->top.pass);
}
