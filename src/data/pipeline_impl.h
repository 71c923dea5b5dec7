/* Pipelines from inside. In the order in which a sample passes them:
 *
 *     pipeline_args.c     what was asked for, laid out
 *     pipeline_index.c    which record comes next
 *     pipeline_work.c     records become samples: read, decoded, mapped, filtered, side by side
 *     pipeline_cache.c    decoded samples that are kept
 *     pipeline_collate.c  samples become tensors
 *     pipeline_batch.c    which samples make a batch; buckets
 *     pipeline_ahead.c    the thread that makes batches ahead
 *     pipeline.c          the dataset around it all, and its position
 *
 * Thread word: the index `front`, samples and buckets belong to the thread that makes batches;
 * `shadow` and all that is bound in states to the one that asks for them. */
#ifndef TLI_DATA_PIPELINE_IMPL_H
#define TLI_DATA_PIPELINE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <tilth/data/pipeline.h>

#include "data/sample_impl.h"
#include "data/source_impl.h"

/* --- which record comes next ------------------------------------------------------------------ */

/* A record on its way. Written into states: eight-byte members only. */
typedef struct tli_place {
    int64_t stream, part; /* of the stream */
    int64_t number, offset, epoch, sequence;
} tli_place;
enum { TLI_PLACE_WORDS = sizeof(tli_place) / sizeof(uint64_t) };

/* A part of a source in the list of a stream. */
typedef struct tli_part {
    tl_source *source;
    int64_t source_number, part;
    int64_t length; /* -1: records are walked */
    int64_t before; /* records of the parts before it, when all have lengths */
    /* of each record, where a sampler reads what must be walked; else NULL */
    const int64_t *offsets;
} tli_part;

/* What samples are drawn from: a source, or all of them when they are not mixed. Does not
 * change. */
typedef struct tli_stream {
    int64_t number;
    double weight;
    tli_part *parts;
    int64_t part_count;
    int64_t cycle, block;
    bool shuffle_parts;
    int64_t readers, reader; /* this is one of as many */
    bool by_record;          /* records are shared out, not parts */
    int64_t capacity;        /* of the buffer in which places are shuffled; 0: none */
    bool whole;              /* instead, the order of all `total` records is drawn */
    int64_t total;           /* -1: not known */
    /* says the order instead: `whole`, and those of this reader alone; or NULL */
    const tl_sampler *sampler;
    int64_t share; /* records that it says for a pass */
    bool lacks;    /* some of them, on any rank, only fill up */
} tli_stream;

/* A part that is being read. */
typedef struct tli_open {
    int64_t part; /* of the stream, from 1; 0: none */
    int64_t number, offset;
} tli_open;

/* Where a stream stands. Eight-byte members only. */
typedef struct tli_head {
    int64_t epoch;
    int64_t given;     /* records that came out in this pass */
    int64_t walked;    /* records that were passed, those of other readers included */
    int64_t next_part; /* of the order of this pass */
    int64_t opened;    /* parts that are open */
    int64_t turn;      /* which of them is read */
    int64_t block;     /* records that it has given in this turn */
    int64_t held;      /* places in the buffer */
    int64_t dry;       /* there is nothing left to be walked */
    int64_t over;      /* the stream has left the draw, in this pass of the pipeline */
} tli_head;
typedef struct tli_cursor {
    tli_head h;
    tli_open *open;
    uint64_t *buffer; /* two words a place: part and number, offset */
    // What follows from seed and epoch, and of which these are.
    int64_t *order; /* of parts, or of records; NULL: as they come */
    bool drawn;
    uint64_t drawn_seed;
    int64_t drawn_epoch;
    tl_rng draws; /* of the buffer */
} tli_cursor;

/* Eight-byte members only. */
typedef struct tli_top {
    uint64_t seed;
    int64_t pass;     /* of the pipeline: how often it was rewound */
    int64_t sequence; /* records that came out in it */
} tli_top;
typedef struct tli_index {
    tli_top top;
    tli_cursor *streams;
    tl_rng mix; /* of the pass that `mix_pass` and `mix_seed` say */
    bool mix_drawn;
    uint64_t mix_seed;
    int64_t mix_pass;
} tli_index;

typedef struct tli_pipeline tli_pipeline;

TL_NODISCARD tl_status tli_index_init(tli_pipeline *p, tli_index *x);
void tli_index_deinit(const tli_pipeline *p, tli_index *x);
/* *more is false at the end of the pass. */
TL_NODISCARD tl_status tli_index_next(const tli_pipeline *p, tli_index *x, tli_place *out,
                                      bool *more);
/* To the beginning of the next pass. */
void tli_index_rewind(const tli_pipeline *p, tli_index *x);
void tli_index_copy(const tli_pipeline *p, tli_index *to, const tli_index *from);
/* Whether a part can have a record of this number, as far as that is known without a look. */
bool tli_part_may_have(const tli_part *part, int64_t number);
/* What a restored state holds must make sense. */
TL_NODISCARD tl_status tli_index_check(const tli_pipeline *p, const tli_index *x);
/* Whether the sample of this sequence number only fills up a sampler's last batch. */
bool tli_index_fills(const tli_stream *s, int64_t sequence);
/* The stream of random numbers of a purpose, under a seed. */
void tli_pipeline_draws(tl_rng *out, uint64_t seed, const char *purpose);

/* --- samples ---------------------------------------------------------------------------------- */

typedef struct tli_slots {
    tli_slot **items;
    int64_t count, capacity;
} tli_slots;

typedef struct tli_cache tli_cache;
TL_NODISCARD tl_status tli_cache_new(tli_cache **out, const tli_pipeline *p);
void tli_cache_free(tli_cache **cache);
/* Makes room for a record's entry. Not while others look. */
TL_NODISCARD tl_status tli_cache_reserve(tli_cache *cache, const tli_place *at);
/* Fills the sample with what is kept; false when there is nothing. */
bool tli_cache_get(const tli_cache *cache, const tli_place *at, tl_sample *out);
TL_NODISCARD tl_status tli_cache_put(tli_cache *cache, const tli_place *at, const tl_sample *s);

/* Samples that were prepared, in order, and the error that ended their row. */
typedef struct tli_work {
    tli_slots row; /* prepared: [at, row.count) are still to be taken */
    int64_t at;
    bool ended;      /* the pass has no more */
    tl_error *error; /* what comes behind the row; its code is TL_OK when nothing failed */
    tli_slots idle;  /* to be used again */
    int64_t block;   /* samples that are prepared at a time */
} tli_work;

/* The next sample that the filter lets through, which is the caller's then until tli_work_back;
 * NULL at the end of the pass. `passed` becomes the sequence number after it, or after the last one
 * that was left out. */
TL_NODISCARD tl_status tli_work_next(tli_pipeline *p, tli_slot **out, int64_t *passed);
void tli_work_back(tli_pipeline *p, tli_slot *slot);
/* Prepares samples of these places, in order, all kept: what waited in buckets. */
TL_NODISCARD tl_status tli_work_again(tli_pipeline *p, const tli_place *places, int64_t count,
                                      tli_slots *out);
/* One sample from a place, in a slot of its own. */
TL_NODISCARD tl_status tli_work_prepare(const tli_pipeline *p, tli_slot *slot);
void tli_work_point(const tli_pipeline *p, tli_slot *slot, const tli_place *at);
void tli_place_of(tli_place *out, const tli_slot *slot);
/* Gives everything back to be used again. */
void tli_work_reset(tli_pipeline *p);
void tli_work_deinit(tli_pipeline *p);

/* --- batches ---------------------------------------------------------------------------------- */

/* A batch that is ready, or what came in its place. */
typedef struct tli_ready {
    tl_named tensors[TL_SAMPLE_FIELDS]; /* headers of ours */
    int64_t count;
    bool ended;       /* there is none: the pass is over */
    tl_status failed; /* or it could not be made: `error` */
    tl_error error;
    int64_t begin;      /* where it begins, if batches are shared out */
    int64_t sequence;   /* the position after it */
    tli_place *waiting; /* and what waits in buckets then */
    int64_t *waiting_counts;
} tli_ready;

TL_NODISCARD tl_status tli_collate(tli_pipeline *p, const tli_slots *members, int64_t pad_to,
                                   tli_ready *out);
void tli_ready_clear(tli_ready *r);

/* What a process makes of batches that several share out, in rows. A position lies behind a row, or
 * behind one of its own batches. */
typedef struct tli_shared {
    tl_batch_share share; /* of 0: everything */
    int64_t taken;        /* own batches of the row that were taken */
    /* Where the front has started: sequence number, and batches of the row before it; how many of
     * the own were taken then; and own batches that were made since. */
    int64_t origin, passed, had, made;
} tli_shared;
/* Whether a sample of this sequence number is in a batch of our own. */
bool tli_shared_has(const tli_pipeline *p, int64_t sequence);
/* The next own batch: where it lies, and where the position is after it. */
void tli_shared_place(const tli_pipeline *p, tli_ready *out);
/* Whether it is empty: the pass ends before it, but not before its row. */
bool tli_shared_lacks(const tli_pipeline *p);

/* Makes the next batch; failures end up in it. */
void tli_batch_make(tli_pipeline *p, tli_ready *out);
/* Forgets samples that wait; `waiting` are those that wait now. */
void tli_batch_reset(tli_pipeline *p);

/* The thread that makes batches ahead, and its queue. */
typedef struct tli_ahead {
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool made; /* lock and condition */
    tli_ready *ring;
    int64_t capacity, first, count;
    bool run, busy, quit; /* wanted; in the middle of a batch; the end */
} tli_ahead;
TL_NODISCARD tl_status tli_ahead_init(tli_pipeline *p);
/* The oldest batch, made or waited for; stays until tli_ahead_pop. */
TL_NODISCARD tl_status tli_ahead_peek(tli_pipeline *p, tli_ready **out);
void tli_ahead_pop(tli_pipeline *p);
/* Stops, and drops what was made. */
void tli_ahead_stop(tli_pipeline *p);
void tli_ahead_deinit(tli_pipeline *p);

/* --- all of it -------------------------------------------------------------------------------- */

typedef struct tli_bucket {
    int64_t end, size; /* lengths below, samples of a batch */
    tli_slots members;
} tli_bucket;

struct tli_pipeline {
    tl_dataset base;
    tl_pipeline_args args; /* arrays copied; sources stand below */
    tl_source **sources;
    int64_t source_count;
    tli_stream *streams;
    int64_t stream_count;

    tli_index front, shadow;
    uint64_t arrangement; /* what a position depends on, in a number */
    // The position, with `shadow`. Restoring a state writes here.
    uint64_t bound_arrangement;
    tli_place *waiting; /* what waits in buckets, one bucket after the other */
    int64_t *waiting_counts;
    int64_t waiting_capacity;
    /* a restore has written here, or nothing was made yet: the front one must start over */
    bool moved;

    // Who makes batches.
    tl_engine *engine;
    tl_pool *pool;
    tli_cache *cache; /* NULL: none */
    tl_rng map_draws; /* of the pass */
    tli_work work;
    tli_bucket *buckets; /* one when there is nothing to tell apart */
    int64_t bucket_count;
    int64_t passed; /* sequence number after the last sample that arrived */
    bool again;     /* what waits must be prepared again */
    /* a row of samples that were left out: where it began in each stream, and is */
    int64_t *epochs, rejected;
    tli_ahead ahead;
    tli_shared shared;

    tl_spec *specs;
    int64_t spec_count;
};

TL_NODISCARD tl_status tli_pipeline_check(const tl_pipeline_args *args);
/* Takes the sources over when it succeeds. */
TL_NODISCARD tl_status tli_pipeline_fill(tli_pipeline *p, const tl_pipeline_args *args);

#endif
