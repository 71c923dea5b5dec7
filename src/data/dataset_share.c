/* A process's share of batches that all processes walk over. */
#include <inttypes.h>

#include "data/dataset_impl.h"

typedef struct shared {
    tl_dataset base;
    tl_dataset *inner;
    tl_batch_share share;
    int64_t at; /* batches of the row that were passed; every position lies between two rows */
} shared;

/* --- datasets that make all batches ----------------------------------------------------------- */

/* Passes others' batches over, up to that number of the row; *more is false when there are none. */
static tl_status pass_to(shared *s, tl_ctx *c, int64_t to, bool *more)
{
    while (*more && s->at < to) {
        tl_tensors batch = {0};
        tl_mark mark = tl_ctx_begin(c);
        tl_status st = tli_dataset_make(s->inner, c, &batch, more);
        tl_ctx_end(c, mark);
        TL_TRY(st);
        s->at += *more;
    }
    return TL_OK;
}

static tl_status shared_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    shared *s = (shared *)d;
    const int64_t end = s->share.first + s->share.count;
    bool there = true;
    if (s->at >= end) { // the last time it failed behind a batch
        TL_TRY(pass_to(s, c, s->share.of, &there));
        s->at = 0;
    }
    if (there) TL_TRY(pass_to(s, c, s->share.first, &there));
    if (there) TL_TRY(tli_dataset_make(s->inner, c, out, &there));
    *more = there || s->at > 0; // others have batches of this row
    if (!*more) return TL_OK;
    s->at = there || s->at >= s->share.first ? s->at + 1 : s->share.first + 1;
    if (s->at < end) return TL_OK;
    TL_TRY(pass_to(s, c, s->share.of, &there));
    s->at = 0;
    return TL_OK;
}

static tl_status shared_rewind(tl_dataset *d)
{
    ((shared *)d)->at = 0;
    return tl_dataset_rewind(((shared *)d)->inner);
}

static void on_restore(void *self)
{
    ((shared *)self)->at = 0;
}

/* As if it were not there: a checkpoint knows no processes. */
static tl_status shared_state(tl_dataset *d, tl_state *into)
{
    TL_TRY(tl_state_on_restore(into, on_restore, d));
    return tl_dataset_state(((shared *)d)->inner, into);
}

static tl_status shared_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    return tl_dataset_describe(((shared *)d)->inner, specs, count);
}

static tl_status shared_tell(tl_dataset *d, tl_str *out)
{
    return tl_dataset_tell(((shared *)d)->inner, out);
}

static void shared_dispose(tl_dataset *d)
{
    tl_dataset_free(&((shared *)d)->inner);
}

static const tl_dataset_class shared_class = {
    .cls = TL_CLASS(tl_dataset_class, "share", NULL, shared, NULL,
                    .help = "some of the batches of another dataset"),
    .next = shared_next,
    .rewind = shared_rewind,
    .state = shared_state,
    .describe = shared_describe,
    .tell = shared_tell,
    .dispose = shared_dispose,
};

/* --- making ----------------------------------------------------------------------------------- */

static tl_status check(const tl_batch_share *s)
{
    if (s->of >= 1 && s->first >= 0 && s->count >= 1 && s->count <= s->of - s->first) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "batches %" PRId64 " to %" PRId64 " of each %" PRId64 " cannot be taken",
                   s->first, s->first + s->count - 1, s->of);
}

tl_status tl_dataset_share(tl_dataset **out, tl_dataset **inner, tl_batch_share share)
{
    tl_dataset *taken = *inner, *made;
    bool able = true;
    *inner = *out = NULL;
    const tl_dataset_class *own = TL_CLASS_METHOD(tl_dataset_class, taken->cls, share);
    tl_status st = check(&share);
    if (st == TL_OK && share.count == share.of) {
        *out = taken;
        return TL_OK;
    }
    if (st == TL_OK && own) st = own->share(taken, share, &able);
    if (st == TL_OK && own && able) {
        *out = taken;
        return TL_OK;
    }
    if (st == TL_OK) st = tl_dataset_new(&made, &shared_class, NULL);
    if (st != TL_OK) {
        tl_dataset_free(&taken);
        return st;
    }
    ((shared *)made)->inner = taken;
    ((shared *)made)->share = share;
    *out = made;
    return TL_OK;
}
