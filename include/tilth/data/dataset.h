/* Datasets: where batches come from, one after the other, with a position that can be saved.
 *
 *     tl_array arrays[] = {{"image", TL_U8, TL_SHAPE(60000, 28, 28), pixels},
 *                          {"label", TL_I32, TL_SHAPE(60000), labels}};
 *     tl_dataset *d;
 *     TL_TRY(tl_dataset_from_arrays(&d, &(tl_arrays_args){.arrays = arrays, .count = 2,
 *                                                         .batch_size = 128, .shuffle = true,
 *                                                         .seed = 1, .repeat = true}));
 *     TL_TRY(tl_dataset_state(d, state));                       // position and all, in checkpoints
 *     for (bool more = true; more;) {
 *         tl_mark step = tl_ctx_begin(c);
 *         tl_batch b = {.ctx = c};
 *         TL_TRY(tl_dataset_next(d, c, &b.tensors, &more));
 *         ...
 *         tl_ctx_end(c, step);
 *     }
 *     tl_dataset_free(&d);
 *
 * A dataset whose state was restored goes on with the very batch that would have come next.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_DATA_DATASET_H
#define TILTH_DATA_DATASET_H

#include <tilth/core/state.h>
#include <tilth/data/batch.h>
#include <tilth/desc/registry.h>
#include <tilth/core/spec.h>

TL_BEGIN

typedef struct tl_dataset tl_dataset;

/* Batches [first, first + count) of each `of`: those of one of several processes that all walk over
 * the same ones. */
typedef struct tl_batch_share {
    int64_t of, first, count;
} tl_batch_share;

typedef struct tl_dataset_class {
    tl_class cls;
    /* (optional) Prepares a new instance, whose config is set. */
    tl_status (*build)(tl_dataset *d);
    /* Required. One batch, put into `out`; its tensors belong to `c`. Those that the host fills are
     * best made at the host (TL_AT_HOST), from where they are brought. *more is true when called;
     * false says that there was none: the pass is over, and `out` is left alone. Ending does not
     * move the position: asking again ends again. */
    tl_status (*next)(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more);
    /* Required. To the first batch of a fresh pass. */
    tl_status (*rewind)(tl_dataset *d);
    /* Required. Binds all that the position is. Restoring writes into it, whenever it likes. */
    tl_status (*state)(tl_dataset *d, tl_state *into);
    /* (optional: unknown) Names, types and shapes of a full batch. Borrowed from the dataset. */
    tl_status (*describe)(tl_dataset *d, const tl_spec **specs, int64_t *count);
    /* (optional) Gives back what is not in the dataset's arena, also when building failed. */
    void (*dispose)(tl_dataset *d);
    /* (optional: unknown) Batches of a pass from its beginning; -1: without end. */
    tl_status (*length)(tl_dataset *d, int64_t *batches);
    /* (optional: the integers that `state` binds, by their names) Adds where the next batch lies,
     * in words. */
    tl_status (*tell)(tl_dataset *d, tl_str *out);
    /* (optional: others' batches are made and dropped) Passes others' batches over, as
     * tl_dataset_share says, without making them; *able, true when called, false says that this
     * cannot be. Called once, before the first batch. */
    tl_status (*share)(tl_dataset *d, tl_batch_share share, bool *able);
} tl_dataset_class;
TL_API extern const tl_kind tl_kind_dataset;

/* First member of every dataset's struct. Members are for reading. */
struct tl_dataset {
    const tl_dataset_class *cls;
    const void *config; /* a copy, completed with defaults; of a class that describes none it is the
                         * pointer that was given */
    tl_arena *arena;    /* lives as long as the dataset */
};

/* A literal `config` is completed, NULL is the defaults. */
TL_API TL_NODISCARD tl_status tl_dataset_new(tl_dataset **out, const tl_dataset_class *cls,
                                             const void *config);
/* NULL is fine. */
TL_API void tl_dataset_free(tl_dataset **d);

/* Puts one batch into `out`, or sets *more to false. Names of fields are the dataset's. After a
 * failure the same batch comes again, unless it was made and could not be brought to the device. */
TL_API TL_NODISCARD tl_status tl_dataset_next(tl_dataset *d, tl_ctx *c, tl_tensors *out,
                                              bool *more);
TL_API TL_NODISCARD tl_status tl_dataset_rewind(tl_dataset *d);
/* What is told of a state that is of other data. */
#define TL_DATASET_OF_OTHER_DATA                                                                   \
    "the restored position is of other data, or of another arrangement of it (files, readers, "    \
    "cycle_length, "                                                                               \
    "block_length, shuffle, sampler, buckets): it cannot be gone on from. Put the data back as "   \
    "it was, or begin in "                                                                         \
    "another folder"
/* The dataset must outlive the state. */
TL_API TL_NODISCARD tl_status tl_dataset_state(tl_dataset *d, tl_state *into);
/* Of a full batch, the batch size first. TL_EUNSUPPORTED when the dataset does not know. */
TL_API TL_NODISCARD tl_status tl_dataset_describe(tl_dataset *d, const tl_spec **specs,
                                                  int64_t *count);
/* Batches of a pass from its beginning, or -1 when it has no end. TL_EUNSUPPORTED when the dataset
 * does not know. */
TL_API TL_NODISCARD tl_status tl_dataset_length(tl_dataset *d, int64_t *batches);
/* Adds where the next batch lies, for people: "epoch 2, position 640". Nothing where that is not
 * known. */
TL_API TL_NODISCARD tl_status tl_dataset_tell(tl_dataset *d, tl_str *out);

/* --- sources ---------------------------------------------------------------------------------- */

/* Examples in memory, row-major: shape[0] of them. */
typedef struct tl_array {
    const char *name;
    tl_dtype dtype;
    tl_shape shape;
    const void *data;
} tl_array;
typedef struct tl_arrays_args {
    const tl_array *arrays; /* all with as many examples; one may be "weight" */
    int64_t count;
    int64_t batch_size;
    bool shuffle; /* the order of a pass is drawn from (seed, number of the pass) alone */
    uint64_t seed;
    bool repeat;         /* passes follow each other without end. A batch that reaches the end of a
                          * pass goes on in the next, so all are full, unless drop_remainder */
    bool drop_remainder; /* what is less than a batch at the end of a pass is left out */
    bool copy;           /* of the data; otherwise it is borrowed, and must outlive the dataset */
} tl_arrays_args;
/* The state also holds the seed: a restored dataset continues the restored order. */
TL_API TL_NODISCARD tl_status tl_dataset_from_arrays(tl_dataset **out, const tl_arrays_args *args);

/* Batch `index` of a pass, made by the program; *more is true when called, false ends the pass.
 * Resuming asks for any index. */
typedef tl_status tl_fill_fn(void *self, tl_ctx *c, int64_t index, tl_tensors *out, bool *more);
typedef struct tl_dataset_function {
    tl_fill_fn *fill;
    void *self;
    const tl_spec *specs; /* (optional: unknown) of a full batch; copied */
    int64_t spec_count;
    int64_t length; /* (optional: unknown) batches of a pass; -1: without end */
} tl_dataset_function;
TL_API TL_NODISCARD tl_status tl_dataset_from_function(tl_dataset **out,
                                                       const tl_dataset_function *args);

/* The batches themselves, in this order, over and over with `repeat`. Tensors are kept by
 * reference, and given out so: nothing is copied, so nobody may write them. */
TL_API TL_NODISCARD tl_status tl_dataset_from_batches(tl_dataset **out, const tl_tensors *batches,
                                                      int64_t count, bool repeat);

/* --- around another dataset, which is taken over: *inner becomes NULL, also after a failure --- */

/* At most `count` batches of each pass. */
TL_API TL_NODISCARD tl_status tl_dataset_take(tl_dataset **out, tl_dataset **inner, int64_t count);
/* Batches all of one size: short ones are filled up with copies of their first example, of weight
 * 0. Every batch has a field "weight" (float32) then: ones, or what was there, and zeros. */
TL_API TL_NODISCARD tl_status tl_dataset_pad(tl_dataset **out, tl_dataset **inner,
                                             int64_t batch_size);
/* A process's share of the batches. All processes walk over all of them, so what is in a batch, and
 * the position, do not depend on how they are shared out; a position is that behind a whole row of
 * `share.of` batches once the process has taken its own of them. Where the pass ends within such a
 * row, the batches that lack are empty: there are no fields in them. A share of everything is
 * `inner` itself, and has no empty batches. */
TL_API TL_NODISCARD tl_status tl_dataset_share(tl_dataset **out, tl_dataset **inner,
                                               tl_batch_share share);
/* Batches that are brought to the engine's device while it computes with those before them, without
 * anybody waiting. They must be used by contexts of this engine. Position and state are those of
 * `inner`; on an engine of the host it is `inner` itself. Trainers put it around what they are
 * given. */
TL_API TL_NODISCARD tl_status tl_dataset_to_device(tl_dataset **out, tl_dataset **inner,
                                                   tl_engine *engine);

TL_END

#endif
