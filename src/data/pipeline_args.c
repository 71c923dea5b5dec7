/* What a pipeline is asked for: checked, copied, and laid out as streams, buckets and indices. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>

#include "data/pipeline_impl.h"

enum { MOST_AHEAD = 1 << 16 };

/* --- checking --------------------------------------------------------------------------------- */

static tl_status at_least(const char *name, int64_t value, int64_t least)
{
    if (value >= least) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s is %" PRId64 " and must be at least %" PRId64, name, value,
                   least);
}

static tl_status check_sources(const tl_pipeline_args *args)
{
    double sum = 0;
    if (!args->sources || args->source_count < 1) return TL_FAIL(TL_EINVAL, "there are no sources");
    for (int64_t i = 0; i < args->source_count; i++) {
        const tl_source *s = args->sources[i];
        if (!s) return TL_FAIL(TL_EINVAL, "source %" PRId64 " is NULL", i);
        if (s->parts < 1 || s->parts >= 1 << 24)
            return TL_FAIL(TL_EINVAL, "source %" PRId64 " (%s) has %" PRId64 " parts", i,
                           s->cls->name, s->parts);
        if (!args->weights) continue;
        double w = args->weights[i];
        if (!(w >= 0) || !isfinite(w))
            return TL_FAIL(TL_EINVAL, "weight %" PRId64 " is %g; weights are numbers from 0 on", i,
                           w);
        sum += w;
    }
    if (args->weights && !(sum > 0 && isfinite(sum)))
        return TL_FAIL(TL_EINVAL, "all weights are 0, or their sum is not finite");
    return TL_OK;
}

static tl_status check_buckets(const tl_pipeline_args *args)
{
    if (!args->bucket_by) return at_least("batch_size", args->batch_size, 1);
    TL_TRY(at_least("bucket_count", args->bucket_count, 1));
    for (int64_t i = 0; i < args->bucket_count; i++)
        if (args->bucket_ends[i] < 1 || (i && args->bucket_ends[i] <= args->bucket_ends[i - 1]))
            return TL_FAIL(TL_EINVAL,
                           "bucket end %" PRId64 " is %" PRId64 "; ends are at least 1 and grow", i,
                           args->bucket_ends[i]);
    for (int64_t i = 0; i <= args->bucket_count; i++)
        TL_TRY(at_least("a bucket's batch size", args->bucket_sizes[i], 1));
    for (int64_t i = 0, all = 0; i <= args->bucket_count; all += args->bucket_sizes[i++])
        if (args->bucket_sizes[i] > INT64_MAX / 64 - all)
            return TL_FAIL(TL_ELIMIT,
                           "bucket_sizes: that of bucket %" PRId64 " is %" PRId64
                           ", and all of them together are too many",
                           i, args->bucket_sizes[i]);
    return TL_OK;
}

// What says the order, or which samples a batch has, cannot stand beside a sampler, which says
// both.
static tl_status check_sampler(const tl_pipeline_args *args)
{
    const char *beside = args->weights && args->source_count > 1 ? "weights"
                         : args->cycle_length > 1 || args->block_length > 1
                             ? "cycle_length and block_length"
                         : args->shuffle_parts                  ? "shuffle_parts"
                         : args->shuffle                        ? "shuffle"
                         : args->filter                         ? "filter"
                         : args->leaves_out                     ? "leaves_out"
                         : args->repeat || args->drop_remainder ? "repeat and drop_remainder"
                         : args->bucket_by                      ? "bucket_by"
                                                                : NULL;
    if (!args->sampler && args->consumed_samples)
        return TL_FAIL(TL_EINVAL,
                       "consumed_samples is %" PRId64
                       ", but there is no sampler that it would lead on",
                       args->consumed_samples);
    if (args->consumed_samples > INT64_MAX / 8)
        return TL_FAIL(TL_ELIMIT, "consumed_samples is %" PRId64 ", more than will ever be read",
                       args->consumed_samples);
    if (!args->sampler || !beside) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s cannot be given beside a sampler, which says what is read, and when",
                   beside);
}

tl_status tli_pipeline_check(const tl_pipeline_args *args)
{
    TL_TRY(check_sources(args));
    TL_TRY(check_sampler(args));
    TL_TRY(check_buckets(args));
    TL_TRY(at_least("pipelines", args->pipelines, 0));
    int64_t pipelines = args->pipelines ? args->pipelines : 1;
    if (args->pipeline < 0 || args->pipeline >= pipelines)
        return TL_FAIL(TL_EINVAL, "pipeline is %" PRId64 "; it must be from 0 to %" PRId64,
                       args->pipeline, pipelines - 1);
    TL_TRY(at_least("cycle_length", args->cycle_length, 0));
    TL_TRY(at_least("block_length", args->block_length, 0));
    TL_TRY(at_least("shuffle", args->shuffle, -1));
    TL_TRY(at_least("prefetch", args->prefetch, -1));
    if (args->prefetch > MOST_AHEAD)
        return TL_FAIL(TL_ELIMIT,
                       "prefetch (prefetch_buffer_size) is %" PRId64
                       "; at most %d batches are made ahead",
                       args->prefetch, MOST_AHEAD);
    for (int64_t i = 0; i < args->map_count; i++)
        if (!args->maps[i].fn) return TL_FAIL(TL_EINVAL, "map %" PRId64 " has no function", i);
    for (int64_t i = 0; i < args->pad_count; i++)
        if (!args->pads[i].name) return TL_FAIL(TL_EINVAL, "pad %" PRId64 " has no name", i);
    if (args->threads < 0 || args->threads > TL_POOL_MAX_THREADS)
        return TL_FAIL(TL_EINVAL, "threads is %d; it must be from 0 to %d", args->threads,
                       TL_POOL_MAX_THREADS);
    return TL_OK;
}

/* --- streams ---------------------------------------------------------------------------------- */

static tl_status add_parts(tli_stream *s, tl_source *source, int64_t number)
{
    for (int64_t i = 0; i < source->parts; i++) {
        tli_part *part = &s->parts[s->part_count++];
        *part =
            (tli_part){.source = source, .source_number = number, .part = i, .before = s->total};
        TL_TRY(tli_source_length(source, i, &part->length));
        if (part->length < 0 || s->total < 0) s->total = -1;
        else s->total += part->length;
        if (part->length < 0 && !source->cls->step)
            return TL_FAIL(TL_EINVAL,
                           "source %" PRId64
                           " (%s) knows no length and cannot be walked: its class has no 'step'",
                           number, source->cls->name);
    }
    return TL_OK;
}

// Where each record of a part lies that has to be walked: a sampler jumps from one to any other.
static tl_status walk_offsets(tli_part *part, tl_arena *arena)
{
    struct {
        int64_t *items, count, capacity;
    } found = {0};
    tl_record_at at = {.part = part->part};
    tl_status st = TL_OK;
    for (bool more = true; st == TL_OK;) {
        int64_t here = at.offset;
        st = part->source->cls->step(part->source, &at, &more);
        if (st != TL_OK || !more) break;
        if (!TL_VEC_PUSH(&found, here)) st = TL_ENOMEM;
    }
    part->length = found.count;
    if (st == TL_OK && found.count) {
        part->offsets =
            tl_arena_copy(arena, found.items, (size_t)found.count * sizeof *found.items);
        if (!part->offsets) st = TL_ENOMEM;
    }
    TL_VEC_FREE(&found);
    return st;
}

static tl_status arrange_sampler(const tli_pipeline *p, tli_stream *s, const tl_pipeline_args *args)
{
    tl_sampler *sampler = tl_arena_copy(p->base.arena, args->sampler, sizeof *sampler);
    if (!sampler) return TL_ENOMEM;
    s->total = 0;
    for (int64_t i = 0; i < s->part_count; i++) {
        tli_part *part = &s->parts[i];
        part->before = s->total;
        if (part->length < 0) TL_TRY(walk_offsets(part, p->base.arena));
        s->total += part->length;
    }
    sampler->records = s->total;
    sampler->batch_size = args->batch_size;
    sampler->ranks = s->readers;
    sampler->rank = s->reader;
    sampler->seed = args->seed;
    TL_TRY_NOTE(tl_sampler_check(sampler), "sampler");
    s->sampler = sampler;
    s->share = tl_sampler_share(sampler);
    s->lacks = tl_sampler_lack(sampler) > 0;
    s->whole = true;
    return TL_OK;
}

static tl_status arrange_shuffle(tli_stream *s, const tl_pipeline_args *args)
{
    if (args->shuffle == TL_SHUFFLE_ALL && s->total < 0)
        return TL_FAIL(TL_EINVAL,
                       "shuffle: '%s' does not say how many records it has, so not all of them can "
                       "be shuffled at once; give the number of records to draw from",
                       tli_source_part_name(s->parts[0].source, s->parts[0].part));
    s->whole = s->total >= 0 && (args->shuffle == TL_SHUFFLE_ALL || args->shuffle >= s->total)
               && args->shuffle != 0;
    if (s->whole || args->shuffle <= 1) return TL_OK; // of one there is nothing to draw
    if (args->shuffle > INT64_MAX / 64)
        return TL_FAIL(TL_ELIMIT,
                       "shuffle (shuffle_buffer_size) is %" PRId64
                       ", more records than any memory has room for",
                       args->shuffle);
    s->capacity = args->shuffle;
    return TL_OK;
}

static tl_status fill_stream(const tli_pipeline *p, tli_stream *s, int64_t from, int64_t to)
{
    const tl_pipeline_args *args = &p->args;
    int64_t parts = 0;
    for (int64_t i = from; i < to; i++) parts += p->sources[i]->parts;
    s->parts = tl_arena_array(p->base.arena, parts, sizeof *s->parts);
    if (!s->parts) return TL_ENOMEM;
    for (int64_t i = from; i < to; i++) TL_TRY(add_parts(s, p->sources[i], i));
    s->readers = args->pipelines ? args->pipelines : 1;
    s->reader = args->pipeline;
    s->by_record = parts < s->readers;
    s->cycle = args->cycle_length ? args->cycle_length : 1;
    if (s->cycle > parts) s->cycle = parts;
    s->block = args->block_length ? args->block_length : 1;
    s->shuffle_parts = args->shuffle_parts && parts > 1;
    return args->sampler ? arrange_sampler(p, s, args) : arrange_shuffle(s, args);
}

static tl_status fill_streams(tli_pipeline *p, const double *weights)
{
    bool mixed = weights && p->source_count > 1;
    p->stream_count = mixed ? p->source_count : 1;
    p->streams = tl_arena_array(p->base.arena, p->stream_count, sizeof *p->streams);
    if (!p->streams) return TL_ENOMEM;
    for (int64_t i = 0; i < p->stream_count; i++) {
        p->streams[i].number = i;
        p->streams[i].weight = mixed ? weights[i] : 1;
        TL_TRY(fill_stream(p, &p->streams[i], mixed ? i : 0, mixed ? i + 1 : p->source_count));
    }
    return TL_OK;
}

/* --- the rest --------------------------------------------------------------------------------- */

static tl_status fill_buckets(tli_pipeline *p)
{
    const tl_pipeline_args *args = &p->args;
    tl_arena *arena = p->base.arena;
    int64_t count = args->bucket_by ? args->bucket_count + 1 : 1, most = 0;
    p->buckets = tl_arena_array(arena, count, sizeof *p->buckets);
    p->waiting_counts = tl_arena_array(arena, count, sizeof *p->waiting_counts);
    if (!p->buckets || !p->waiting_counts) return TL_ENOMEM;
    p->bucket_count = count;
    for (int64_t i = 0; i < count; i++) {
        tli_bucket *b = &p->buckets[i];
        b->size = args->bucket_by ? args->bucket_sizes[i] : args->batch_size;
        b->end = args->bucket_by && i < args->bucket_count ? args->bucket_ends[i] : 0;
        if (args->bucket_by) p->waiting_capacity += b->size - 1;
        if (b->size > most) most = b->size;
    }
    p->work.block = args->bucket_by ? 1 : most;
    if (args->bucket_by && args->prefetch >= 0) p->work.block = most;
    p->waiting = tl_arena_array(arena, p->waiting_capacity, sizeof *p->waiting);
    if (p->waiting) return TL_OK;
    return tl_error_note(TL_ENOMEM, "bucket_sizes: up to %" PRId64 " samples wait",
                         p->waiting_capacity);
}

static uint64_t hash_sampler(uint64_t hash, const tl_sampler *s)
{
    const int64_t words[] = {s->batch_size, s->shuffle, s->drop_last};
    hash = tl_hash_bytes(hash, s->cls->name, strlen(s->cls->name));
    return tl_hash_bytes(hash, words, sizeof words);
}

// Everything that the meaning of a position depends on.
static uint64_t arrangement_of(const tli_pipeline *p)
{
    uint64_t hash = tl_hash_bytes(TL_HASH_SEED, &p->stream_count, sizeof p->stream_count);
    for (int64_t i = 0; i < p->stream_count; i++) {
        const tli_stream *s = &p->streams[i];
        const int64_t words[] = {s->part_count, s->cycle,  s->block,     s->shuffle_parts,
                                 s->readers,    s->reader, s->by_record, s->capacity,
                                 s->whole,      s->total};
        hash = tl_hash_bytes(hash, words, sizeof words);
        for (int64_t k = 0; k < s->part_count; k++)
            hash = tl_hash_bytes(hash, &s->parts[k].length, sizeof s->parts[k].length);
        if (s->sampler) hash = hash_sampler(hash, s->sampler);
    }
    for (int64_t i = 0; p->args.bucket_by && i < p->bucket_count; i++) {
        const int64_t words[] = {p->buckets[i].end, p->buckets[i].size};
        hash = tl_hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

static void *copied(tl_arena *arena, const void *from, int64_t count, size_t size, tl_status *st)
{
    if (*st != TL_OK || !from || count < 1) return NULL;
    void *copy = tl_arena_copy(arena, from, (size_t)count * size);
    if (!copy) *st = TL_ENOMEM;
    return copy;
}

static tl_status copy_args(tli_pipeline *p, const tl_pipeline_args *args)
{
    tl_arena *arena = p->base.arena;
    tl_status st = TL_OK;
    tl_pipeline_args *a = &p->args;
    int64_t ends = args->bucket_by ? args->bucket_count : 0;
    *a = *args;
    a->sources = NULL;
    a->weights = NULL;
    a->repeat |= args->sampler && args->sampler->cls && args->sampler->cls->endless;
    a->maps = copied(arena, args->maps, args->map_count, sizeof *args->maps, &st);
    a->pads = copied(arena, args->pads, args->pad_count, sizeof *args->pads, &st);
    a->bucket_ends = copied(arena, args->bucket_ends, ends, sizeof *a->bucket_ends, &st);
    a->bucket_sizes =
        copied(arena, args->bucket_sizes, ends ? ends + 1 : 0, sizeof *a->bucket_sizes, &st);
    a->padded |= a->bucket_by != NULL;
    a->pad_to_end &= a->bucket_by != NULL;
    if (!a->prefetch) a->prefetch = 2;
    if (!a->threads) a->threads = tl_pool_default_threads();
    p->sources = copied(arena, args->sources, args->source_count, sizeof *args->sources, &st);
    return st;
}

tl_status tli_pipeline_fill(tli_pipeline *p, const tl_pipeline_args *args)
{
    tl_arena *arena = p->base.arena;
    TL_TRY(copy_args(p, args));
    int64_t count = args->source_count;
    p->source_count = count;
    tl_status st = TL_OK;
    TL_TRY_DONE(st, fill_streams(p, args->weights));
    p->args.sampler = NULL; // was the caller's; the stream has it
    TL_TRY_DONE(st, fill_buckets(p));
    p->arrangement = p->bound_arrangement = arrangement_of(p);
    p->moved = true;
    p->epochs = tl_arena_array(arena, 2 * p->stream_count, sizeof *p->epochs);
    p->work.error = tl_arena_alloc(arena, sizeof *p->work.error);
    st = p->epochs && p->work.error ? TL_OK : TL_ENOMEM;
    if (st != TL_OK) goto done;
    TL_TRY_DONE(st, tli_index_init(p, &p->front));
    TL_TRY_DONE(st, tli_index_init(p, &p->shadow));
    if (args->cache) TL_TRY_DONE(st, tli_cache_new(&p->cache, p));
    st = tli_ahead_init(p);
done:
    if (st != TL_OK) p->source_count = 0; // they stay the caller's
    return st;
}
