#include <tilth/data/sampler.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/base/str.h>

/* --- what both have --------------------------------------------------------------------------- */

static int64_t ranks_of(const tl_sampler *s)
{
    return s->ranks ? s->ranks : 1;
}

// As long as the product may be, which tl_sampler_check has seen to.
static int64_t global_batch(const tl_sampler *s)
{
    return s->batch_size * ranks_of(s);
}

// `count` records from `first` on, as they lie or in the order that this seed gives.
static void fill_order(const tl_sampler *s, uint64_t seed, int64_t first, int64_t *out,
                       int64_t count)
{
    if (!s->shuffle) {
        for (int64_t i = 0; i < count; i++) out[i] = first + i;
        return;
    }
    tl_rng rng;
    tl_rng_init(&rng, seed);
    tl_rng_split(&rng, &rng, "sampler");
    tl_rng_permutation(&rng, out, count);
    for (int64_t i = 0; i < count; i++) out[i] += first;
}

/* --- cyclic ----------------------------------------------------------------------------------- */

static int64_t cyclic_share(const tl_sampler *s)
{
    return s->records / global_batch(s) * s->batch_size;
}

static tl_status cyclic_order(const tl_sampler *s, int64_t epoch, int64_t *out)
{
    int64_t share = cyclic_share(s);
    fill_order(s, s->seed + (uint64_t)epoch, s->rank * share, out, share);
    return TL_OK;
}

const tl_sampler_class tl_cyclic_sampler = {
    .name = "CyclicSampler",
    .endless = true,
    .share = cyclic_share,
    .order = cyclic_order,
};

/* --- a single round --------------------------------------------------------------------------- */

static bool is_short(const tl_sampler *s)
{
    int64_t longer = s->records % ranks_of(s);
    return longer && s->rank >= longer;
}

static int64_t single_share(const tl_sampler *s)
{
    if (s->drop_last) return s->records / global_batch(s) * s->batch_size;
    return s->records / ranks_of(s) + (s->records % ranks_of(s) != 0);
}

static int64_t single_fill(const tl_sampler *s)
{
    return !s->drop_last && is_short(s);
}

// All that the rank owns takes part in the order, also what is left out at its end.
static tl_status first_of_order(const tl_sampler *s, int64_t first, int64_t owned, int64_t *out,
                                int64_t share)
{
    size_t bytes = (size_t)owned * sizeof *out;
    int64_t *all = tl_alloc(bytes ? bytes : 1);
    if (!all) return TL_FAIL_NOMEM(bytes);
    fill_order(s, s->seed, first, all, owned);
    if (share) memcpy(out, all, (size_t)share * sizeof *out);
    tl_free(all);
    return TL_OK;
}

static tl_status single_order(const tl_sampler *s, int64_t epoch, int64_t *out)
{
    int64_t longer = s->records % ranks_of(s), each = s->records / ranks_of(s);
    int64_t share = single_share(s), fill = single_fill(s);
    int64_t first = s->rank * each + (s->rank < longer ? s->rank : longer);
    (void)epoch; // evaluations see the same each time
    if (s->drop_last && s->shuffle)
        return first_of_order(s, first, each + (s->rank < longer), out, share);
    fill_order(s, s->seed, first, out, share - fill);
    if (fill) out[share - 1] = 0;
    return TL_OK;
}

const tl_sampler_class tl_single_round_sampler = {
    .name = "SingleRoundSampler",
    .share = single_share,
    .order = single_order,
    .fill = single_fill,
};

/* --- any -------------------------------------------------------------------------------------- */

static tl_status check_drop_last(const tl_sampler *s)
{
    if (!s->drop_last || !s->cls->endless) return TL_OK;
    return TL_FAIL(TL_EINVAL, "drop_last: %s has no such setting, its batches are always full",
                   s->cls->name);
}

// What a class of one's own says is what memory is made for.
static tl_status check_share(const tl_sampler *s)
{
    int64_t share = s->cls->share(s), fill = tl_sampler_fill(s), ranks = ranks_of(s);
    if (share < 0)
        return TL_FAIL(TL_EINVAL, "%s: 'share' gives %" PRId64 "; it must be at least 0",
                       s->cls->name, share);
    if (s->cls->endless && share < 1)
        return TL_FAIL(TL_EINVAL,
                       "%s: there are %" PRId64 " records, too few for a batch of %" PRId64
                       " on each of %" PRId64 " rank%s",
                       s->cls->name, s->records, s->batch_size, ranks, ranks == 1 ? "" : "s");
    if (fill < 0 || fill > share)
        return TL_FAIL(TL_EINVAL,
                       "%s: 'fill' gives %" PRId64
                       "; it must be from 0 to what 'share' gives, %" PRId64,
                       s->cls->name, fill, share);
    return TL_OK;
}

tl_status tl_sampler_check(const tl_sampler *s)
{
    int64_t all, ranks = ranks_of(s);
    if (!s->cls || !s->cls->name || !s->cls->share || !s->cls->order)
        return TL_FAIL(TL_EINVAL, "a sampler needs a class with 'name', 'share' and 'order'");
    if (s->records < 0)
        return TL_FAIL(TL_EINVAL, "records is %" PRId64 " and must be at least 0", s->records);
    if (s->batch_size < 1)
        return TL_FAIL(TL_EINVAL, "batch_size is %" PRId64 " and must be at least 1",
                       s->batch_size);
    if (ranks < 1 || s->rank < 0 || s->rank >= ranks)
        return TL_FAIL(TL_EINVAL, "rank is %" PRId64 " of %" PRId64 "; ranks are counted from 0",
                       s->rank, ranks);
    if (__builtin_mul_overflow(s->batch_size, ranks, &all))
        return TL_FAIL(TL_EINVAL,
                       "batches of %" PRId64 " records on %" PRId64 " ranks do not fit 64 bits",
                       s->batch_size, ranks);
    TL_TRY(check_drop_last(s));
    return check_share(s);
}

int64_t tl_sampler_share(const tl_sampler *s)
{
    return s->cls->share(s);
}

int64_t tl_sampler_batches(const tl_sampler *s)
{
    int64_t share = s->cls->share(s);
    return share / s->batch_size + (share % s->batch_size != 0);
}

tl_status tl_sampler_order(const tl_sampler *s, int64_t epoch, int64_t *out)
{
    return s->cls->order(s, epoch, out);
}

int64_t tl_sampler_fill(const tl_sampler *s)
{
    return s->cls->fill ? s->cls->fill(s) : 0;
}

int64_t tl_sampler_lack(const tl_sampler *s)
{
    tl_sampler other = *s;
    int64_t lack = 0;
    for (other.rank = 0; other.rank < ranks_of(s); other.rank++) lack += tl_sampler_fill(&other);
    return lack;
}

tl_status tl_sampler_seek(tl_sampler_place *out, const tl_sampler *s, int64_t consumed)
{
    int64_t share = s->cls->share(s), each = consumed / ranks_of(s);
    *out = (tl_sampler_place){0};
    if (consumed < 0)
        return TL_FAIL(TL_EINVAL, "consumed_samples is %" PRId64 " and must be at least 0",
                       consumed);
    if (consumed % global_batch(s))
        return TL_FAIL(TL_EINVAL,
                       "consumed_samples is %" PRId64
                       ", which is no number of whole batches: %" PRId64 " rank%s %" PRId64
                       " records each at a time, %" PRId64 " together",
                       consumed, ranks_of(s), ranks_of(s) == 1 ? " reads" : "s read", s->batch_size,
                       global_batch(s));
    if (share) *out = (tl_sampler_place){each / share, each % share};
    if (s->cls->endless || each < share || !each) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "consumed_samples is %" PRId64 ", but %s makes one pass, of %" PRId64 " records",
                   consumed, s->cls->name, s->records);
}

int64_t tl_sampler_consumed(const tl_sampler *s, tl_sampler_place at)
{
    return (at.epoch * s->cls->share(s) + at.offset) * ranks_of(s);
}

/* --- from a configuration --------------------------------------------------------------------- */

static const tl_field sampler_fields[] = {
    TL_F_AS(tl_sampler_config, target, "_target_", .help = "CyclicSampler or SingleRoundSampler"),
    TL_F(tl_sampler_config, shuffle,
         .help =
             "read the share of a rank in random order, another one in each pass of CyclicSampler"),
    TL_F(tl_sampler_config, drop_last,
         .help = "leave out what does not fill a batch on every rank (SingleRoundSampler; the "
                 "other one always does)"),
    TL_F(tl_sampler_config, consumed_samples, TL_AT_LEAST(0),
         .help = "in training, examples of all ranks that were read before; what a checkpoint says "
                 "comes first"),
    TL_F_END,
};

static tl_status check_config(const void *value)
{
    tl_sampler s = {0};
    return tl_sampler_read(&s, value);
}

const tl_desc tl_sampler_config_desc = {
    .name = "sampler",
    .help = "LiBai's order of examples: which each rank reads, and when",
    .size = sizeof(tl_sampler_config),
    .fields = sampler_fields,
    .check = check_config,
};

static const char *last_part(const char *dotted)
{
    const char *dot = strrchr(dotted, '.');
    return dot ? dot + 1 : dotted;
}

tl_status tl_sampler_read(tl_sampler *into, const tl_sampler_config *config)
{
    static const tl_sampler_class *const known[] = {&tl_cyclic_sampler, &tl_single_round_sampler};
    const char *names[TL_COUNT(known)], *name = last_part(config->target);
    into->cls = NULL;
    for (int64_t i = 0; i < TL_COUNT(known); i++) {
        names[i] = known[i]->name;
        if (strcmp(name, names[i]) == 0) into->cls = known[i];
    }
    const char *near = tl_nearest(name, names, TL_COUNT(names));
    if (!into->cls)
        return TL_FAIL(
            TL_EINVAL,
            "_target_: expected CyclicSampler or SingleRoundSampler, found '%.80s'%s%s%s",
            config->target, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    into->shuffle = config->shuffle;
    into->drop_last = config->drop_last;
    return check_drop_last(into);
}
