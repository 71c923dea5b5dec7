/* The dataset around a pipeline: what was asked for, and the position.
 *
 * Two indices walk over the same records. `front` runs ahead with who makes batches; `shadow`
 * follows when a batch is taken, and is what states hold. Restoring a state writes into `shadow`
 * and `waiting`, and tells us (on_restore); when the next batch is asked for, the front one starts
 * over from there. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>

#include "data/dataset_impl.h"
#include "data/pipeline_impl.h"

/* --- the position ----------------------------------------------------------------------------- */

static void on_restore(void *self)
{
    ((tli_pipeline *)self)->moved = true;
    ((tli_pipeline *)self)->shared.taken = 0;
}

static int64_t count_waiting(const tli_pipeline *p)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->bucket_count; i++) count += p->waiting_counts[i];
    return count;
}

// Makes batches from the position on, whatever was made before.
static void start_over(tli_pipeline *p)
{
    tli_ahead_stop(p);
    tli_batch_reset(p);
    tli_index_copy(p, &p->front, &p->shadow);
    p->passed = p->shadow.top.sequence;
    p->again = count_waiting(p) > 0;
    tli_pipeline_draws(&p->map_draws, p->shadow.top.seed, "pipeline/map");
    tl_rng_fold(&p->map_draws, &p->map_draws, (uint64_t)p->streams[0].reader);
    tl_rng_fold(&p->map_draws, &p->map_draws, (uint64_t)p->shadow.top.pass);
    p->moved = false;
    tli_shared *s = &p->shared;
    s->origin = p->shadow.top.sequence;
    s->had = s->taken;
    s->passed = s->taken ? s->share.first + s->taken : 0;
    s->made = 0;
}

static bool waiting_makes_sense(const tli_pipeline *p)
{
    const tli_place *at = p->waiting;
    for (int64_t i = 0; i < p->bucket_count; i++) {
        int64_t count = p->waiting_counts[i];
        if (count < 0 || (count > 0 && count >= p->buckets[i].size)) return false;
        for (int64_t k = 0; k < count; k++, at++) {
            bool good = at->stream >= 0 && at->stream < p->stream_count && at->part >= 0
                        && at->part < p->streams[at->stream].part_count
                        && tli_part_may_have(&p->streams[at->stream].parts[at->part], at->number)
                        && at->offset >= 0 && at->epoch >= 0 && at->sequence >= 0
                        && at->sequence < p->shadow.top.sequence;
            if (!good) return false;
        }
    }
    return true;
}

static tl_status check_restored(const tli_pipeline *p)
{
    if (p->bound_arrangement != p->arrangement)
        return TL_FAIL(TL_EINVAL, "%s", TL_DATASET_OF_OTHER_DATA);
    TL_TRY(tli_index_check(p, &p->shadow));
    if (waiting_makes_sense(p)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "what waits in buckets at the restored position makes no sense here: "
                              "the state is of other data");
}

// After a restore, and at first.
static tl_status follow_position(tli_pipeline *p)
{
    if (!p->moved) return TL_OK;
    TL_TRY(check_restored(p));
    start_over(p);
    return TL_OK;
}

// The position after a batch. It goes on from where it is, should it have failed half-way.
static tl_status advance(tli_pipeline *p, const tli_ready *r)
{
    tl_status st = TL_OK;
    while (st == TL_OK && p->shadow.top.sequence < r->sequence) {
        tli_place at;
        bool more;
        st = tli_index_next(p, &p->shadow, &at, &more);
        if (st == TL_OK && !more && p->shared.share.of) break; // others' batches, or none
        if (st == TL_OK && !more) st = TL_FAIL(TL_EINTERNAL, "the records became fewer");
    }
    if (st == TL_OK && p->shared.share.of)
        p->shared.taken = (p->shared.taken + 1) % p->shared.share.count;
    if (st == TL_OK && p->waiting_capacity) {
        memcpy(p->waiting_counts, r->waiting_counts, (size_t)p->bucket_count * sizeof(int64_t));
        memcpy(p->waiting, r->waiting, (size_t)count_waiting(p) * sizeof *p->waiting);
    }
    return st;
}

/* --- the dataset ------------------------------------------------------------------------------ */

static tl_status postprocess(const tli_pipeline *p, tl_ctx *c, const tli_ready *r,
                             tl_tensors *batch)
{
    const int64_t begin = p->shared.share.of ? r->begin : p->shadow.top.sequence;
    tl_rng draws;
    tli_pipeline_draws(&draws, p->shadow.top.seed, "pipeline/batch");
    tl_rng_fold(&draws, &draws, (uint64_t)p->streams[0].reader);
    tl_rng_fold(&draws, &draws, (uint64_t)p->shadow.top.pass);
    tl_rng_fold(&draws, &draws, (uint64_t)begin);
    // At the end of a pass several batches come after the same sample, each leaving less to wait.
    tl_rng_fold(&draws, &draws, (uint64_t)count_waiting(p));
    TL_TRY_NOTE(p->args.postprocess(p->args.postprocess_self, c, &draws, batch), "postprocess");
    return tl_ctx_status(c);
}

static tl_status hand_over(const tli_pipeline *p, tl_ctx *c, const tli_ready *r, tl_tensors *out)
{
    tl_tensors batch = {0};
    for (int64_t i = 0; i < r->count; i++) {
        tl_tensor *t = tli_dataset_show(c, r->tensors[i].tensor);
        if (t) tl_tensors_put(c, &batch, r->tensors[i].name, t);
        TL_TRY(tl_ctx_status(c));
    }
    if (p->args.postprocess && batch.count) TL_TRY(postprocess(p, c, r, &batch));
    for (int64_t i = 0; i < batch.count; i++)
        tl_tensors_put(c, out, batch.items[i].name, batch.items[i].tensor);
    return tl_ctx_status(c);
}

static tl_status get_ready(tli_pipeline *p, tl_ctx *c)
{
    TL_TRY(follow_position(p));
    if (p->engine != tl_ctx_engine(c)) {
        start_over(p); // what was made is of another engine
        p->engine = tl_ctx_engine(c);
    }
    if (p->pool || p->args.threads == 1) return TL_OK;
    return tl_pool_new(&p->pool, p->args.threads);
}

static tl_status pipeline_next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    tli_pipeline *p = (tli_pipeline *)d;
    tli_ready *r;
    TL_TRY(get_ready(p, c));
    TL_TRY(tli_ahead_peek(p, &r));
    if (r->failed != TL_OK) {
        tl_status st = r->failed;
        start_over(p); // asking again tries again
        tl_error_restore(&r->error);
        return st;
    }
    if (r->ended) {
        *more = false;
        return TL_OK;
    }
    TL_TRY(hand_over(p, c, r, out));
    TL_TRY(advance(p, r));
    tli_ahead_pop(p);
    return TL_OK;
}

static tl_status pipeline_rewind(tl_dataset *d)
{
    tli_pipeline *p = (tli_pipeline *)d;
    TL_TRY(follow_position(p));
    // The first pass may begin in the middle, where an earlier run has stopped.
    int64_t first = p->shadow.top.pass ? 0 : p->args.consumed_samples / p->streams[0].readers;
    if (p->shadow.top.sequence == first) return TL_OK;
    tli_ahead_stop(p);
    tli_index_rewind(p, &p->shadow);
    p->shared.taken = 0;
    memset(p->waiting_counts, 0, (size_t)p->bucket_count * sizeof *p->waiting_counts);
    start_over(p);
    return TL_OK;
}

static tl_status bind_all(tl_state *into, const char *path, void *at, size_t bytes)
{
    return bytes ? tl_state_bind_words(into, path, at, (int64_t)(bytes / sizeof(uint64_t))) : TL_OK;
}

static tl_status bind_stream(const tli_stream *s, tli_cursor *c, tl_state *into)
{
    TL_TRY(bind_all(into, "head", &c->h, sizeof c->h));
    if (s->whole) return TL_OK;
    TL_TRY(bind_all(into, "open", c->open, (size_t)s->cycle * sizeof *c->open));
    return bind_all(into, "buffer", c->buffer, (size_t)s->capacity * 2 * sizeof *c->buffer);
}

static tl_status pipeline_state(tl_dataset *d, tl_state *into)
{
    tli_pipeline *p = (tli_pipeline *)d;
    TL_TRY(follow_position(p));
    TL_TRY(tl_state_on_restore(into, on_restore, p));
    TL_TRY(tl_state_bind_words(into, "arrangement", &p->bound_arrangement, 1));
    TL_TRY(bind_all(into, "top", &p->shadow.top, sizeof p->shadow.top));
    for (int64_t i = 0; i < p->stream_count; i++) {
        char name[32];
        tl_state *sub;
        snprintf(name, sizeof name, "stream_%" PRId64, i);
        TL_TRY(tl_state_sub(&sub, into, name));
        TL_TRY(bind_stream(&p->streams[i], &p->shadow.streams[i], sub));
    }
    if (!p->waiting_capacity) return TL_OK;
    TL_TRY(bind_all(into, "waiting_counts", p->waiting_counts,
                    (size_t)p->bucket_count * sizeof *p->waiting_counts));
    return bind_all(into, "waiting", p->waiting, (size_t)p->waiting_capacity * sizeof *p->waiting);
}

// Each of several streams, which are drawn from, has an epoch of its own.
static tl_status pipeline_tell(tl_dataset *d, tl_str *out)
{
    const tli_index *at = &((const tli_pipeline *)d)->shadow;
    const tli_stream *s = &((const tli_pipeline *)d)->streams[0];
    if (((const tli_pipeline *)d)->stream_count == 1) {
        const tli_head *h = &at->streams[0].h;
        tl_str_addf(out, "epoch %" PRId64 ", record %" PRId64, h->epoch, h->given);
        if (s->sampler)
            tl_str_addf(out, ", consumed_samples %" PRId64,
                        tl_sampler_consumed(s->sampler, (tl_sampler_place){h->epoch, h->given}));
    } else tl_str_addf(out, "pass %" PRId64 ", record %" PRId64, at->top.pass, at->top.sequence);
    return tl_str_status(out);
}

/* --- what it holds ---------------------------------------------------------------------------- */

static tl_status specs_of(tli_pipeline *p, const tl_sample *s)
{
    tl_spec *specs = tl_arena_array(p->base.arena, s->count, sizeof *specs);
    if (!specs) return TL_ENOMEM;
    for (int64_t i = 0; i < s->count; i++) {
        const tl_sample_field *f = &s->fields[i];
        tl_shape shape = {.rank = f->shape.rank + 1, .dims = {p->args.batch_size}};
        TL_TRY(tl_shape_check(&shape, f->name));
        memcpy(shape.dims + 1, f->shape.dims, (size_t)f->shape.rank * sizeof shape.dims[0]);
        specs[i] = (tl_spec){f->name, f->dtype, shape};
    }
    p->specs = specs;
    p->spec_count = s->count;
    return TL_OK;
}

// By the next sample, after which everything starts over.
static tl_status learn_specs(tli_pipeline *p)
{
    tli_slot *slot;
    int64_t passed;
    if (p->args.padded || p->args.postprocess)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "what the batches hold is not known before they come: they are %s",
                       p->args.padded ? "padded" : "changed by 'postprocess'");
    TL_TRY(follow_position(p));
    start_over(p);
    tl_status st = tli_work_next(p, &slot, &passed);
    if (st == TL_OK && !slot)
        st = TL_FAIL(TL_EUNSUPPORTED,
                     "what the batches hold is not known: there is no sample to look at");
    if (st == TL_OK) st = specs_of(p, &slot->s);
    if (slot) tli_work_back(p, slot);
    start_over(p);
    return st;
}

static tl_status pipeline_describe(tl_dataset *d, const tl_spec **specs, int64_t *count)
{
    tli_pipeline *p = (tli_pipeline *)d;
    if (!p->specs) TL_TRY(learn_specs(p));
    *specs = p->specs;
    *count = p->spec_count;
    return TL_OK;
}

static tl_status count_parts(const tli_stream *s, int64_t *records)
{
    int64_t every = s->by_record || s->whole ? 1 : s->readers;
    *records = 0;
    for (int64_t i = every == 1 ? 0 : s->reader; i < s->part_count; i += every) {
        int64_t here = s->parts[i].length;
        tl_source *source = s->parts[i].source;
        if (here < 0) {
            tl_record_at at = {.part = s->parts[i].part};
            bool more = true;
            while (more) TL_TRY(source->cls->step(source, &at, &more));
            here = at.number;
        }
        *records += here;
    }
    if (every == 1) *records = tl_div_up(*records - s->reader, s->readers);
    return TL_OK;
}

static tl_status pipeline_length(tl_dataset *d, int64_t *batches)
{
    tli_pipeline *p = (tli_pipeline *)d;
    const tli_stream *s = &p->streams[0];
    bool by_part = s->readers > 1 && !s->by_record && !s->whole;
    const char *why = p->args.filter || p->args.leaves_out
                          ? "a filter decides how many samples there are"
                      : p->args.bucket_by           ? "buckets decide how many batches there are"
                      : p->stream_count > 1         ? "draws decide when a source ends"
                      : by_part && s->shuffle_parts ? "readers share out other files in each pass"
                                                    : NULL;
    *batches = -1;
    if (p->args.repeat) return TL_OK;
    if (why) return TL_FAIL(TL_EUNSUPPORTED, "the number of batches is not known: %s", why);
    if (s->sampler) {
        *batches = tl_sampler_batches(s->sampler);
        return TL_OK;
    }
    int64_t records, rest = p->args.drop_remainder ? 0 : p->args.batch_size - 1;
    TL_TRY(count_parts(s, &records));
    *batches = (records + rest) / p->args.batch_size;
    return TL_OK;
}

/* What is in a batch must not depend on what is in its samples. */
static tl_status pipeline_share(tl_dataset *d, tl_batch_share share, bool *able)
{
    tli_pipeline *p = (tli_pipeline *)d;
    *able = !p->args.filter && !p->args.leaves_out && !p->args.bucket_by;
    if (!*able) return TL_OK;
    TL_TRY(follow_position(p));
    p->shared.share = share;
    start_over(p);
    return TL_OK;
}

static void pipeline_dispose(tl_dataset *d)
{
    tli_pipeline *p = (tli_pipeline *)d;
    tli_ahead_deinit(p);
    for (int64_t i = 0; p->buckets && i < p->bucket_count; i++) {
        tli_slots *members = &p->buckets[i].members;
        for (int64_t k = 0; k < members->count; k++) tli_slot_free(members->items[k]);
        TL_VEC_FREE(members);
    }
    tli_work_deinit(p);
    tli_cache_free(&p->cache);
    tl_pool_free(&p->pool);
    tli_index_deinit(p, &p->front);
    tli_index_deinit(p, &p->shadow);
    for (int64_t i = 0; i < p->source_count; i++) tl_source_free(&p->sources[i]);
}

static const tl_dataset_class pipeline_class = {
    .cls = TL_CLASS(tl_dataset_class, "pipeline", NULL, tli_pipeline, NULL,
                    .help = "records of files, read, shuffled, mapped and batched"),
    .next = pipeline_next,
    .rewind = pipeline_rewind,
    .state = pipeline_state,
    .describe = pipeline_describe,
    .dispose = pipeline_dispose,
    .length = pipeline_length,
    .tell = pipeline_tell,
    .share = pipeline_share,
};

/* --- making ----------------------------------------------------------------------------------- */

tl_status tl_pipeline_new(tl_dataset **out, const tl_pipeline_args *args)
{
    *out = NULL;
    tl_status st = tli_pipeline_check(args);
    if (st == TL_OK) st = tl_dataset_new(out, &pipeline_class, NULL);
    if (st == TL_OK) st = tli_pipeline_fill((tli_pipeline *)*out, args);
    if (st == TL_OK) start_over((tli_pipeline *)*out);
    else tl_dataset_free(out);
    for (int64_t i = 0; args->sources && i < args->source_count; i++) {
        if (st == TL_OK) args->sources[i] = NULL; // taken over
        else tl_source_free(&args->sources[i]);
    }
    return st == TL_OK ? TL_OK : tl_error_note(st, "pipeline");
}
