/* Records become samples: read, decoded or taken from the cache, mapped, filtered. A row of them is
 * prepared at a time, side by side; each is a function of its place, so nobody sees in which
 * order. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/clock.h>
#include <tilth/base/vec.h>

#include "data/pipeline_impl.h"

/* A row grows until it is worth handing out to several threads, unless that takes too much memory:
 * what each of them prepares should still be in its cache when a batch is made of it. */
enum { ROW_NANOSECONDS = 500000, ROW_BYTES = 4 << 20, THREAD_BYTES = 256 << 10, ROW_MOST = 4096 };

/* --- one sample ------------------------------------------------------------------------------- */

void tli_work_point(const tli_pipeline *p, tli_slot *slot, const tli_place *at)
{
    const tli_part *part = &p->streams[at->stream].parts[at->part];
    slot->ready = false; // tli_work_prepare empties it, beside others
    slot->stream = (int)at->stream;
    slot->draws = &p->map_draws;
    slot->s.at = (tl_sample_place){.file = tli_source_part_name(part->source, part->part),
                                   .source = part->source_number,
                                   .part = part->part,
                                   .number = at->number,
                                   .offset = at->offset,
                                   .epoch = at->epoch,
                                   .sequence = at->sequence};
    slot->part = at->part;
}

void tli_place_of(tli_place *out, const tli_slot *slot)
{
    const tl_sample_place *at = &slot->s.at;
    *out = (tli_place){slot->stream, slot->part, at->number, at->offset, at->epoch, at->sequence};
}

// What failed, and where.
static tl_status note(const tl_sample *s, tl_status st, const char *what)
{
    if (s->at.offset)
        return tl_error_note(st, "%s, record %" PRId64 " (byte %" PRId64 ") of '%s'", what,
                             s->at.number, s->at.offset, s->at.file);
    return tl_error_note(st, "%s, record %" PRId64 " of '%s'", what, s->at.number, s->at.file);
}

static tl_status read_and_decode(const tli_pipeline *p, tl_source *source, tli_slot *slot)
{
    tl_sample *s = &slot->s;
    const tl_record_at at = {s->at.part, s->at.number, s->at.offset};
    slot->map = TLI_DECODING;
    tl_status st = source->cls->read(source, &at, s);
    if (st != TL_OK) return source->cls->step ? st : note(s, st, "read");
    if (!p->args.decode.fn) return TL_OK;
    st = p->args.decode.fn(p->args.decode.self, s);
    if (st != TL_OK) return note(s, st, "decode");
    s->record = NULL;
    s->record_size = 0;
    return TL_OK;
}

static tl_status load(const tli_pipeline *p, tli_slot *slot)
{
    const tli_part *part = &p->streams[slot->stream].parts[slot->part];
    if (part->length >= 0 && slot->s.at.number >= part->length)
        return TL_FAIL(TL_EINVAL,
                       "there is no record %" PRId64 " in '%s', which has %" PRId64
                       ": the restored position is of other data",
                       slot->s.at.number, slot->s.at.file, part->length);
    bool cached = p->cache && !(part->source->in_memory && !p->args.decode.fn);
    if (!cached) return read_and_decode(p, part->source, slot);
    tli_place at;
    tli_place_of(&at, slot);
    if (tli_cache_get(p->cache, &at, &slot->s)) return TL_OK;
    TL_TRY(read_and_decode(p, part->source, slot));
    return tli_cache_put(p->cache, &at, &slot->s);
}

// Where a sampler fills up batches, on this rank or another, what fills them up must not count.
static tl_status weigh(const tli_pipeline *p, tli_slot *slot)
{
    const tli_stream *s = &p->streams[slot->stream];
    if (!s->lacks) return TL_OK;
    bool fills = tli_index_fills(s, slot->s.at.sequence);
    const tl_sample_field *given = tl_sample_peek(&slot->s, TL_BATCH_WEIGHT);
    if (given && !fills) return TL_OK;
    if (given && (given->dtype != TL_F32 || given->shape.rank != 0))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s' must be one float32 for a sample that fills up a batch",
                       TL_BATCH_WEIGHT);
    float *weight = tl_sample_add(&slot->s, TL_BATCH_WEIGHT, TL_F32, TL_SCALAR);
    if (!weight) return tl_error_code();
    *weight = fills ? 0 : 1;
    return TL_OK;
}

static tl_status run_maps(const tli_pipeline *p, tli_slot *slot)
{
    for (int64_t i = 0; i < p->args.map_count && !slot->left_out; i++) {
        slot->map = (int)i;
        tl_status st = p->args.maps[i].fn(p->args.maps[i].self, &slot->s);
        if (st == TL_OK) continue;
        char what[32];
        snprintf(what, sizeof what, "map %" PRId64, i);
        return note(&slot->s, st, what);
    }
    return TL_OK;
}

static tl_status leave_out(const tli_pipeline *p, tli_slot *slot)
{
    if (!p->args.leaves_out)
        return note(
            &slot->s,
            TL_FAIL(TL_EINVAL, "the pipeline does not expect that: its leaves_out is false"),
            "left out");
    slot->keep = false;
    slot->ready = true;
    return TL_OK;
}

tl_status tli_work_prepare(const tli_pipeline *p, tli_slot *slot)
{
    tli_slot_reset(slot);
    TL_TRY(load(p, slot));
    TL_TRY(run_maps(p, slot));
    if (slot->left_out) return leave_out(p, slot);
    slot->keep = true;
    TL_TRY(weigh(p, slot));
    if (p->args.filter) {
        slot->map = (int)p->args.map_count;
        tl_status st = p->args.filter(p->args.filter_self, &slot->s, &slot->keep);
        if (st != TL_OK) return note(&slot->s, st, "filter");
    }
    slot->ready = true;
    return TL_OK;
}

/* --- a row of them ---------------------------------------------------------------------------- */

typedef struct row_job {
    const tli_pipeline *p;
    tli_slot **slots;
} row_job;

static tl_status prepare_some(int64_t begin, int64_t end, void *payload)
{
    const row_job *job = payload;
    for (int64_t i = begin; i < end; i++) TL_TRY(tli_work_prepare(job->p, job->slots[i]));
    return TL_OK;
}

// Several pieces for each thread, so that none waits long for the last one.
static int64_t grain_of(const tli_pipeline *p, int64_t count)
{
    int64_t grain = count / (8 * tl_pool_threads(p->pool));
    return grain < 1 ? 1 : grain;
}

static tl_status prepare_row(tli_pipeline *p, tli_slot **slots, int64_t count)
{
    row_job job = {p, slots};
    if (p->cache)
        for (int64_t i = 0; i < count; i++) {
            tli_place at;
            tli_place_of(&at, slots[i]);
            TL_TRY(tli_cache_reserve(p->cache, &at));
        }
    return tl_parallel_for(p->pool, count, grain_of(p, count), prepare_some, &job);
}

// A slot that nobody uses.
static tl_status idle_slot(tli_work *w, tli_slot **out)
{
    if (w->idle.count) {
        *out = w->idle.items[--w->idle.count];
        return TL_OK;
    }
    return tli_slot_new(out);
}

void tli_work_back(tli_pipeline *p, tli_slot *slot)
{
    if (!TL_VEC_PUSH(&p->work.idle, slot)) tli_slot_free(slot);
}

static tl_status add_to_row(tli_pipeline *p, tli_slots *row, const tli_place *at)
{
    tli_slot *slot;
    TL_TRY(idle_slot(&p->work, &slot));
    tli_work_point(p, slot, at);
    if (TL_VEC_PUSH(row, slot)) return TL_OK;
    tli_slot_free(slot);
    return TL_ENOMEM;
}

// Places for the next row; less than a whole one at the end of the pass, or before what cannot be
// walked.
static tl_status plan_row(tli_pipeline *p)
{
    tli_work *w = &p->work;
    w->row.count = w->at = 0;
    while (w->row.count < w->block) {
        tli_place at;
        bool more;
        TL_TRY(tli_index_next(p, &p->front, &at, &more));
        if (!more) {
            w->ended = true;
            break;
        }
        if (tli_shared_has(p, at.sequence)) TL_TRY(add_to_row(p, &w->row, &at));
    }
    return TL_OK;
}

static size_t row_bytes(const tli_pipeline *p)
{
    size_t bytes = THREAD_BYTES * (size_t)tl_pool_threads(p->pool);
    return bytes < ROW_BYTES ? bytes : ROW_BYTES;
}

// Only how many are prepared at a time depends on how long it took; what they are does not.
static void choose_block(tli_pipeline *p, int64_t began)
{
    tli_work *w = &p->work;
    if (p->args.prefetch < 0 || w->row.count < w->block || 2 * w->block > ROW_MOST) return;
    const tli_slot *slot = w->row.items[0];
    size_t bytes = tli_slot_bytes(slot) + slot->s.record_size;
    if (tl_clock_ns() - began < ROW_NANOSECONDS && bytes < row_bytes(p) / 2 / (size_t)w->block)
        w->block *= 2;
}

// What was prepared before something failed is still good.
static void cut_row(tli_pipeline *p, tl_status planned)
{
    tli_work *w = &p->work;
    int64_t good = 0;
    tl_error *failure = w->error;
    failure->code = TL_OK;
    if (planned != TL_OK) tl_error_save(failure); // comes behind the row
    if (w->row.count && prepare_row(p, w->row.items, w->row.count) != TL_OK) {
        tl_error_save(failure);
        while (good < w->row.count && w->row.items[good]->ready) good++;
        for (int64_t i = good; i < w->row.count; i++) tli_work_back(p, w->row.items[i]);
        w->row.count = good;
    }
}

static void fill_row(tli_pipeline *p)
{
    int64_t began = tl_clock_ns();
    cut_row(p, plan_row(p));
    choose_block(p, began);
}

/* --- one after the other ---------------------------------------------------------------------- */

// A row of samples that were all left out must not go on for ever: two passes of every stream are
// enough.
static tl_status count_rejected(tli_pipeline *p, const tli_slot *slot)
{
    int64_t *first = p->epochs, *last = first + p->stream_count, epoch = slot->s.at.epoch;
    if (!p->rejected++)
        for (int64_t i = 0; i < p->stream_count; i++) first[i] = -1;
    if (first[slot->stream] < 0) first[slot->stream] = epoch;
    last[slot->stream] = epoch;
    if (!p->args.repeat || epoch < first[slot->stream] + 2) return TL_OK;
    for (int64_t i = 0; i < p->stream_count; i++) {
        bool seen = first[i] >= 0 && last[i] >= first[i] + 2;
        if (p->streams[i].weight > 0 && !seen) return TL_OK;
    }
    return TL_FAIL(TL_EINVAL,
                   "%s let none of the last %" PRId64
                   " samples through, a whole pass and more, so repeating them would never end",
                   p->args.filter ? "the filter" : "decoding", p->rejected);
}

tl_status tli_work_next(tli_pipeline *p, tli_slot **out, int64_t *passed)
{
    tli_work *w = &p->work;
    *out = NULL;
    for (;;) {
        while (w->at < w->row.count) {
            tli_slot *slot = w->row.items[w->at++];
            *passed = slot->s.at.sequence + 1;
            if (slot->keep) {
                p->rejected = 0;
                *out = slot;
                return TL_OK;
            }
            tl_status st = count_rejected(p, slot);
            tli_work_back(p, slot);
            TL_TRY(st);
        }
        if (w->error->code != TL_OK) {
            tl_error_restore(w->error);
            return w->error->code;
        }
        if (w->ended) return TL_OK;
        fill_row(p);
    }
}

tl_status tli_work_again(tli_pipeline *p, const tli_place *places, int64_t count, tli_slots *out)
{
    for (int64_t i = 0; i < count; i++) TL_TRY(add_to_row(p, out, &places[i]));
    return count ? prepare_row(p, out->items + out->count - count, count) : TL_OK;
}

void tli_work_reset(tli_pipeline *p)
{
    tli_work *w = &p->work;
    while (w->at < w->row.count) tli_work_back(p, w->row.items[w->at++]);
    w->row.count = w->at = 0;
    w->ended = false;
    w->error->code = TL_OK;
    p->rejected = 0;
}

void tli_work_deinit(tli_pipeline *p)
{
    tli_work *w = &p->work;
    for (; w->at < w->row.count; w->at++) tli_slot_free(w->row.items[w->at]);
    for (int64_t i = 0; i < w->idle.count; i++) tli_slot_free(w->idle.items[i]);
    TL_VEC_FREE(&w->row);
    TL_VEC_FREE(&w->idle);
}
