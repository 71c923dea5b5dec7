/* Which samples make a batch. Samples arrive one after the other and wait in a bucket until it is
 * full; without lengths to tell apart there is one bucket. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/vec.h>

#include "data/pipeline_impl.h"

/* --- arriving --------------------------------------------------------------------------------- */

static tl_status length_of(const tli_pipeline *p, const tl_sample *s, int64_t *length)
{
    const tl_sample_field *f;
    tl_status st = tl_sample_get(s, p->args.bucket_by, &f);
    if (st == TL_OK && f->shape.rank < 1)
        st = TL_FAIL(TL_EINVAL, "field '%s' is a scalar and has no length", f->name);
    if (st != TL_OK)
        return tl_error_note(st, "buckets, record %" PRId64 " of '%s'", s->at.number, s->at.file);
    *length = f->shape.dims[0];
    return TL_OK;
}

static tl_status choose_bucket(const tli_pipeline *p, const tl_sample *s, int64_t *out)
{
    *out = 0;
    if (!p->args.bucket_by) return TL_OK;
    int64_t length = 0, last = p->bucket_count - 1;
    TL_TRY(length_of(p, s, &length));
    while (*out < last && length >= p->buckets[*out].end) ++*out;
    if (*out < last || !p->args.pad_to_end) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "record %" PRId64 " of '%s' has length %" PRId64
                   ", but the last bucket ends before %" PRId64
                   ", to which it would be filled up: cut it, or filter it out",
                   s->at.number, s->at.file, length, p->args.bucket_ends[last - 1]);
}

static tl_status arrive(tli_pipeline *p, tli_slot *slot, int64_t *bucket)
{
    tl_status st = choose_bucket(p, &slot->s, bucket);
    if (st == TL_OK && !TL_VEC_PUSH(&p->buckets[*bucket].members, slot)) st = TL_ENOMEM;
    if (st != TL_OK) tli_work_back(p, slot);
    return st;
}

// What waited when the position was saved comes back to where it was.
static tl_status fetch_waiting(tli_pipeline *p)
{
    const tli_place *places = p->waiting;
    for (int64_t i = 0; i < p->bucket_count; i++) {
        TL_TRY(tli_work_again(p, places, p->waiting_counts[i], &p->buckets[i].members));
        places += p->waiting_counts[i];
    }
    p->again = false;
    return TL_OK;
}

/* --- sharing out ------------------------------------------------------------------------------ */

/* Without filters and buckets the batches of a pass are runs of samples. */
bool tli_shared_has(const tli_pipeline *p, int64_t sequence)
{
    const tli_shared *s = &p->shared;
    if (!s->share.of) return true;
    const int64_t number = s->passed + (sequence - s->origin) / p->args.batch_size;
    const int64_t at = number % s->share.of;
    return at >= s->share.first && at < s->share.first + s->share.count;
}

/* The sequence number at which a batch of this row begins; rows are counted from the origin's. */
static int64_t begin_of(const tli_pipeline *p, int64_t row, int64_t at)
{
    const tli_shared *s = &p->shared;
    return s->origin + (row * s->share.of + at - s->passed) * p->args.batch_size;
}

void tli_shared_place(const tli_pipeline *p, tli_ready *out)
{
    const tl_batch_share *share = &p->shared.share;
    const int64_t own = p->shared.had + p->shared.made;
    const int64_t row = own / share->count, at = own % share->count;
    out->begin = begin_of(p, row, share->first + at);
    out->sequence =
        at + 1 == share->count ? begin_of(p, row + 1, 0) : begin_of(p, row, share->first + at + 1);
}

bool tli_shared_lacks(const tli_pipeline *p)
{
    const tli_shared *s = &p->shared;
    if (!s->share.of) return false;
    int64_t end = p->front.top.sequence;
    if (p->args.drop_remainder) end -= (end - s->origin) % p->args.batch_size;
    return end > begin_of(p, (s->had + s->made) / s->share.count, 0);
}

/* --- leaving ---------------------------------------------------------------------------------- */

static void note_waiting(const tli_pipeline *p, tli_ready *out)
{
    out->sequence = p->passed;
    if (!p->waiting_capacity) return;
    tli_place *to = out->waiting;
    for (int64_t i = 0; i < p->bucket_count; i++) {
        const tli_slots *members = &p->buckets[i].members;
        out->waiting_counts[i] = members->count;
        for (int64_t k = 0; k < members->count; k++) tli_place_of(to++, members->items[k]);
    }
}

static tl_status leave(tli_pipeline *p, int64_t bucket, tli_ready *out)
{
    tli_bucket *b = &p->buckets[bucket];
    TL_TRY(tli_collate(p, &b->members, p->args.pad_to_end ? b->end - 1 : 0, out));
    for (int64_t i = 0; i < b->members.count; i++) tli_work_back(p, b->members.items[i]);
    b->members.count = 0;
    note_waiting(p, out);
    if (p->shared.share.of) {
        tli_shared_place(p, out);
        p->shared.made++;
    }
    return TL_OK;
}

// The pass is over: what is left comes in short batches.
static tl_status flush(tli_pipeline *p, tli_ready *out)
{
    for (int64_t i = 0; !p->args.drop_remainder && i < p->bucket_count; i++)
        if (p->buckets[i].members.count) return leave(p, i, out);
    out->ended = !tli_shared_lacks(p);
    if (out->ended) return TL_OK;
    tli_shared_place(p, out);
    p->shared.made++;
    return TL_OK;
}

static tl_status make(tli_pipeline *p, tli_ready *out)
{
    if (p->again) TL_TRY(fetch_waiting(p));
    for (;;) {
        tli_slot *slot;
        int64_t bucket = 0;
        TL_TRY(tli_work_next(p, &slot, &p->passed));
        if (!slot) return flush(p, out);
        TL_TRY(arrive(p, slot, &bucket));
        if (p->buckets[bucket].members.count >= p->buckets[bucket].size)
            return leave(p, bucket, out);
    }
}

void tli_batch_make(tli_pipeline *p, tli_ready *out)
{
    tli_ready_clear(out);
    out->failed = make(p, out);
    if (out->failed != TL_OK) tl_error_save(&out->error);
}

void tli_batch_reset(tli_pipeline *p)
{
    for (int64_t i = 0; i < p->bucket_count; i++) {
        tli_slots *members = &p->buckets[i].members;
        for (int64_t k = 0; k < members->count; k++) tli_work_back(p, members->items[k]);
        members->count = 0;
    }
    tli_work_reset(p);
}
