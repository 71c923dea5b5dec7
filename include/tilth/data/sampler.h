/* Samplers: which records each of several ranks reads, and in which order. LiBai's two, and those
 * of one's own.
 *
 *     const tl_sampler s = {.cls = &tl_cyclic_sampler, .records = 10, .batch_size = 2,
 *                           .ranks = 2, .rank = 0};
 *     TL_TRY(tl_sampler_check(&s));
 *     int64_t records[4];                                      // tl_sampler_share(&s) of them
 *     TL_TRY(tl_sampler_order(&s, 0, records));                // 0 1 2 3: the first pass of rank 0
 *
 *     dataloader:                                               # the same from a configuration
 *       train: {input_path: images/train, sampler: {_target_: CyclicSampler, shuffle: true}}
 *       test: [{input_path: images/test, sampler: {_target_: SingleRoundSampler}}]
 *
 * A sampler is a function: of a pass it says the rank's records, batch after batch. Nothing in it
 * moves, so a position is a pass and a place in it, or the records that all ranks have consumed
 * together.
 *
 *     tl_cyclic_sampler        CyclicSampler. Of N records each rank owns
 *                              E = N / (batch_size * ranks) * batch_size in a row, rounded down:
 *                              what is left over is never read. Pass e has them in the order of
 *                              seed + e when it shuffles, which is the same within the share of
 *                              every rank. Passes follow each other without end.
 *     tl_single_round_sampler  SingleRoundSampler. Each rank owns N / ranks records in a row, the
 *                              first N % ranks of them one more. Those that are one short read
 *                              record 0 at the end, so that all have as many batches. One pass,
 *                              shuffled in the same order each time. With drop_last only
 *                              batches that are full on every rank are read, the first of that
 *                              order.
 *
 * A pipeline without a sampler has an order of its own (data/pipeline.h), in which nothing is left
 * out.
 *
 * Ownership: plain data; `self` is borrowed. Thread word: immutable. */
#ifndef TILTH_DATA_SAMPLER_H
#define TILTH_DATA_SAMPLER_H

#include <tilth/desc/desc.h>

TL_BEGIN

typedef struct tl_sampler tl_sampler;

/* Methods are called with samplers that were checked. */
typedef struct tl_sampler_class {
    const char *name; /* LiBai's */
    bool endless;     /* passes follow each other */
    /* Records that the rank reads in a pass, those that fill up included: as many on every rank. */
    int64_t (*share)(const tl_sampler *s);
    /* Which they are, in pass `epoch` from 0. */
    tl_status (*order)(const tl_sampler *s, int64_t epoch, int64_t *out);
    /* (optional: none) How many at the end of a pass only fill up, and do not count. */
    int64_t (*fill)(const tl_sampler *s);
} tl_sampler_class;
TL_API extern const tl_sampler_class tl_cyclic_sampler, tl_single_round_sampler;

struct tl_sampler {
    const tl_sampler_class *cls;
    int64_t records;     /* of the data */
    int64_t batch_size;  /* records of a rank's batch: LiBai's micro_batch_size */
    int64_t ranks, rank; /* data_parallel_size (optional: 1) and data_parallel_rank */
    bool shuffle;
    bool drop_last; /* of tl_single_round_sampler */
    uint64_t seed;
    void *self; /* for classes of one's own */
};

/* TL_EINVAL when numbers make no sense, or data that is read without end has less than a batch for
 * each rank. */
TL_API TL_NODISCARD tl_status tl_sampler_check(const tl_sampler *s);
/* Records of the rank in a pass, those that fill up included. */
TL_API int64_t tl_sampler_share(const tl_sampler *s);
/* Batches of a pass, on each rank; the last one may be short. */
TL_API int64_t tl_sampler_batches(const tl_sampler *s);
TL_API TL_NODISCARD tl_status tl_sampler_order(const tl_sampler *s, int64_t epoch, int64_t *out);
/* Of this rank: how many records at the end of a pass do not count. */
TL_API int64_t tl_sampler_fill(const tl_sampler *s);
/* Of all ranks: what LiBai calls last_batch_lack. */
TL_API int64_t tl_sampler_lack(const tl_sampler *s);

/* Where a rank goes on after the ranks have consumed so many records together. A number that is not
 * one of whole batches is TL_EINVAL. */
typedef struct tl_sampler_place {
    int64_t epoch, offset; /* in the order of the pass */
} tl_sampler_place;
TL_API TL_NODISCARD tl_status tl_sampler_seek(tl_sampler_place *out, const tl_sampler *s,
                                              int64_t consumed);
/* The number that leads there. */
TL_API int64_t tl_sampler_consumed(const tl_sampler *s, tl_sampler_place at);

/* --- from a configuration --------------------------------------------------------------------- */

/* `sampler` of a data configuration. */
typedef struct tl_sampler_config {
    /* `_target_`: CyclicSampler or SingleRoundSampler; of a dotted name the last part counts */
    const char *target;
    bool shuffle;
    bool drop_last;
    int64_t consumed_samples; /* records of all ranks that an earlier run has read */
} tl_sampler_config;
TL_API extern const tl_desc tl_sampler_config_desc;

/* The class of that name, and what else the configuration says; numbers of data and ranks stay as
 * they are. */
TL_API TL_NODISCARD tl_status tl_sampler_read(tl_sampler *into, const tl_sampler_config *config);

TL_END

#endif
