/* Pipelines: from records in files to batches of tensors, described in one struct.
 *
 *     tl_source *files;
 *     TL_TRY(tl_source_tfrecords(&files, paths, count, NULL));
 *     tl_dataset *d;
 *     TL_TRY(tl_pipeline_new(&d, &(tl_pipeline_args){
 *         .sources = &files, .source_count = 1,
 *         .cycle_length = 16, .shuffle_parts = true, .shuffle = 10000,
 *         .decode = {tl_example_decode, &features},
 *         .maps = (tl_sample_map[]){{crop, &size}, {flip, NULL}}, .map_count = 2,
 *         .repeat = true, .batch_size = 128, .seed = 1}));
 *
 * Stages, always in this order:
 *
 *     sources ─► shard ─► interleave ─► shuffle ─► repeat ─► mix       places: one thread, cheap
 *        ─► read, decode, cache ─► maps ─► filter ─► batch ─► prefetch  bytes: several threads
 *
 * The upper line is a small machine that says which record comes next; what it shuffles are places
 * of records and not their bytes. The lower line is a function of a record's place, the seed and
 * the sequence number. So the order, and every random choice, depend on seed and pass alone, with
 * any number of threads; and a position is what the small machine holds. Restoring it at any batch
 * reads nothing again but the heads of open files and what waits in buckets.
 *
 * A batch that could not be made (a damaged file, a map that failed) is not lost: the position
 * stays before it, and asking again tries again.
 *
 * Ownership: the dataset is the caller's, and goes before the engine whose contexts it made batches
 * for; sources are taken over; functions, their `self` and names must outlive it. Thread word: one
 * thread at a time for the dataset; functions are called on several. */
#ifndef TILTH_DATA_PIPELINE_H
#define TILTH_DATA_PIPELINE_H

#include <tilth/base/file.h>
#include <tilth/data/config.h>
#include <tilth/data/dataset.h>
#include <tilth/data/sample.h>
#include <tilth/data/sampler.h>
#include <tilth/data/source.h>

TL_BEGIN

/* Changes a sample. Runs on any thread, beside itself for other samples: what it changes must be
 * the sample's alone. A failure fails the batch, with the record's place before the message. */
typedef tl_status tl_sample_fn(void *self, tl_sample *s);
typedef struct tl_sample_map {
    tl_sample_fn *fn;
    void *self;
} tl_sample_map;
/* Sets *keep, true when called, to false for what is left out. As a map otherwise. */
typedef tl_status tl_filter_fn(void *self, const tl_sample *s, bool *keep);
/* Changes a batch with ops, on the thread that asks for it. `draws` is the batch's own stream. */
typedef tl_status tl_batch_fn(void *self, tl_ctx *c, const tl_rng *draws, tl_tensors *batch);

/* What a field is filled up with where it is shorter than the longest of its batch. */
typedef struct tl_pad_value {
    const char *name;
    double value; /* (fields that are not named: 0) a name that no field has is an error */
} tl_pad_value;

/* All records of a pass in random order; sources must know how many they have. */
#define TL_SHUFFLE_ALL ((int64_t)-1)

typedef struct tl_pipeline_args {
    /* Taken over: each becomes NULL, also after a failure. */
    tl_source **sources;
    int64_t source_count;
    /* (optional: the parts of all sources are read as if they were of one, several at a time where
     * cycle_length says so) Each sample comes from a source drawn with these weights. Without
     * `repeat` the pass ends when a source that was drawn has ended, or with `until_all` when all
     * have: those that end leave the draw. */
    const double *weights;
    bool until_all;

    /* (optional: all of it) This is one of `pipelines` readers, number `pipeline` from 0; together
     * they see every record once a pass. Parts are shared out when there are as many as readers,
     * else records. */
    int64_t pipelines, pipeline;
    /* (optional: one part after the other) Parts that are read at a time, `block_length` records
     * (optional: 1) of each in turn, as tf.data's interleave does it. */
    int64_t cycle_length, block_length;
    bool shuffle_parts; /* in another order each pass */
    /* (optional: the order is that of what stands above and of `shuffle`) A sampler says which
     * records are read, and when; copied. Its class, shuffle, drop_last and self are given, all
     * else follows: records and ranks from the sources and `pipelines`, batches and seed from those
     * below. It has the sources to itself: with weights, cycle_length, shuffle, repeat,
     * drop_remainder, a filter or buckets there is no sampler. Records that only fill up weigh 0:
     * where there are such on any rank, samples get a field "weight". Files of TFRecords are walked
     * once when the pipeline is made. */
    const tl_sampler *sampler;
    /* by all ranks: where the sampler begins, as if the pipeline had come there itself */
    int64_t consumed_samples;

    /* (optional: samples stay as the source gives them) what is the same in each pass */
    tl_sample_map decode;
    /* Decoded samples are kept in memory. What maps do to them is done anew each time. */
    bool cache;

    /* (optional: 0, not at all) Records among which the next one is drawn; TL_SHUFFLE_ALL, and as
     * many as there are when sources know it, is an order that is drawn as a whole. */
    int64_t shuffle;

    const tl_sample_map *maps; /* one after the other; copied */
    int64_t map_count;
    tl_filter_fn *filter; /* (optional: all pass) */
    void *filter_self;
    /* decode or maps may leave samples out, as a filter does: tl_sample_leave_out */
    bool leaves_out;

    /* passes follow each other without end, and a batch goes on where the last one ended */
    bool repeat;

    int64_t batch_size;  /* required, unless there are buckets */
    bool drop_remainder; /* what is less than a batch at the end is left out */
    /* Fields of one batch that differ in shape, in axes of the same number, are filled up to the
     * longest. Otherwise that is an error. */
    bool padded;
    const tl_pad_value *pads; /* copied */
    int64_t pad_count;
    /* (optional) Batches by length, the first dimension of this field: bucket i takes those below
     * bucket_ends[i], the last one the rest; there is one more batch size than ends. Implies
     * `padded`; with `pad_to_end` that field, and those that are as long as it, are filled up to
     * the bucket's end less one, and nothing may reach the last end. A batch comes when its bucket
     * is full; at the end of the pass come those that are left, shortest first. */
    const char *bucket_by;
    const int64_t *bucket_ends, *bucket_sizes; /* copied */
    int64_t bucket_count;                      /* of ends */
    bool pad_to_end;
    /* (optional) mixup and such; the batch lies at the host (TL_AT_HOST) */
    tl_batch_fn *postprocess;
    void *postprocess_self;

    /* batches made ahead; 0: 2. -1: none, everything happens when it is asked for */
    int64_t prefetch;
    uint64_t seed;
    /* that prepare samples, the one that runs ahead included; 0: as many as the machine has */
    int threads;
} tl_pipeline_args;

TL_API TL_NODISCARD tl_status tl_pipeline_new(tl_dataset **out, const tl_pipeline_args *args);

/* --- tf.train.Example ------------------------------------------------------------------------- */

/* A feature that becomes a field. Lists of bytes are uint8, of floats float32, of integers int64;
 * with another type numbers are converted, when they are in its range. */
typedef struct tl_feature_spec {
    /* the shape is TL_SCALAR, or how the values are laid out; a first dimension of -1 is as many as
     * there are. uint8 takes one text, of any length when the shape is [-1]; or integers. */
    tl_spec spec;
    const char *as; /* (optional: the same name) name of the field */
    /* a feature that is not there is `missing` in every element, or nothing when the shape begins
     * with -1; otherwise that is an error */
    bool optional;
    double missing;
    /* (optional) settings that name it and that say how many values it has, for messages; they must
     * outlive the pipeline */
    const char *name_key, *shape_key;
} tl_feature_spec;
typedef struct tl_example_features {
    const tl_feature_spec *items;
    int64_t count; /* at most TL_SAMPLE_FIELDS */
} tl_example_features;
/* A tl_sample_fn whose `self` is tl_example_features: reads the sample's record. */
TL_API TL_NODISCARD tl_status tl_example_decode(void *features, tl_sample *s);

/* --- from a configuration --------------------------------------------------------------------- */

/* What Model Garden's input reader calls dataset_fn is `open` below; decoder_fn is `decode`,
 * parser_fn a map, filter_fn the filter, combine_fn and sample_fn are weights,
 * transform_and_batch_fn padding and buckets, postprocess_fn is `postprocess`. */

/* Paths of a pattern, of several separated by commas, or of a list of patterns, in which commas are
 * part of the names. A text that is the name of something is that, whatever commas it has. `*` and
 * `?` match, sorted, and must match something; lists of classes (data/image_folder.h) are passed
 * over; `[` is an ordinary character; a path without them must be there. */
TL_API TL_NODISCARD tl_status tl_paths_match(tl_path_list *out, tl_arena *arena,
                                             const tl_value *patterns);

/* Opens the files of an input_path, or of one name of it. */
typedef tl_status tl_source_open_fn(void *self, const char *name, const char *const *paths,
                                    int64_t count, tl_source **out);

typedef struct tl_pipeline_reader {
    int64_t pipelines, pipeline, replicas; /* (optional: 1, 0, 1) */
    uint64_t seed; /* where the configuration has none; the same for all readers */
    /* (optional) of the names of an input_path that is a map: names to numbers, the same names.
     * Needed for such in training. */
    const tl_value *weights;
    const char
        *section; /* (optional: none) of the configuration, for messages: "task.train_data" */
    tl_source_open_fn *open; /* (optional: a folder is one of images, all else are TFRecords) */
    void *open_self;
} tl_pipeline_reader;
/* Fills in what the configuration says: sources, weights, shard, cycle_length, sampler, cache,
 * shuffle, repeat, batch, prefetch and seed; decode, maps and the rest stay as they are. Only a
 * configuration with is_training shuffles, repeats and drops a remainder: evaluation keeps its last
 * short batch. What is made lies in the arena, but for the sources, which tl_pipeline_new takes
 * over, or tl_pipeline_args_drop gives back. `reader` NULL: the defaults. */
TL_API TL_NODISCARD tl_status tl_pipeline_args_read(tl_pipeline_args *into, tl_arena *arena,
                                                    const tl_data_config *config,
                                                    const tl_pipeline_reader *reader);
TL_API void tl_pipeline_args_drop(tl_pipeline_args *args);
/* The part of it that concerns the size of batches: those of one of `replicas`, 0 for 1. */
TL_API TL_NODISCARD tl_status tl_pipeline_args_batch(tl_pipeline_args *into,
                                                     const tl_data_config *config,
                                                     int64_t replicas);
/* The part of it that concerns the order of a `sampler`; nothing where the configuration has
 * none. */
TL_API TL_NODISCARD tl_status tl_pipeline_args_sampler(tl_pipeline_args *into, tl_arena *arena,
                                                       const tl_data_config *config);

TL_END

#endif
