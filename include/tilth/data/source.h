/* Sources: where records lie, in files or in memory, and how one of them becomes a sample.
 *
 *     tl_source *s;
 *     TL_TRY(tl_source_tfrecords(&s, paths.items, paths.count, NULL));
 *     ...                                              // handed to a pipeline, which takes it over
 *
 *     static tl_status make(void *self, int64_t index, tl_sample *out)     // on any thread
 *     {
 *         float *x = tl_sample_add(out, "x", TL_F32, TL_SHAPE(3));
 *         if (!x) return TL_ENOMEM;
 *         x[0] = (float)index;
 *         return TL_OK;
 *     }
 *     TL_TRY(tl_source_function(&s, make, self, 60000));
 *
 * A source has parts (files, mostly), a part has records. A record is found by its number, or, in
 * files whose records have different lengths, by its offset; a pipeline walks from one to the next
 * without looking at what they hold, and has several threads read them later.
 *
 * Ownership: the caller's until a pipeline takes it over. Thread word: free-threaded once made. */
#ifndef TILTH_DATA_SOURCE_H
#define TILTH_DATA_SOURCE_H

#include <tilth/data/dataset.h>
#include <tilth/data/image_folder.h>
#include <tilth/data/sample.h>

TL_BEGIN

typedef struct tl_source tl_source;

/* Where a record lies. Zeros are the beginning of the first part. */
typedef struct tl_record_at {
    int64_t part, number, offset;
} tl_record_at;

typedef struct tl_source_class {
    const char *name;
    size_t size; /* of the source's struct, which begins with a tl_source; 0: it is one */
    /* Records of a part; -1: they must be walked, by `step`. Cheap: an answer that takes a look at
     * every record is -1. */
    tl_status (*length)(tl_source *s, int64_t part, int64_t *records);
    /* (optional: records are found by their numbers) Moves `at` from one record to the next one of
     * its part; *more is true when called, false says that there was none at `at`. */
    tl_status (*step)(tl_source *s, tl_record_at *at, bool *more);
    /* Puts a record, or fields, into an empty sample. What they point to must stay as long as the
     * source, or be memory of the sample. */
    tl_status (*read)(tl_source *s, const tl_record_at *at, tl_sample *out);
    /* (optional: "NAME part N") For messages: a path. */
    const char *(*part_name)(const tl_source *s, int64_t part);
    /* (optional) Gives back what is not in the arena. */
    void (*dispose)(tl_source *s);
} tl_source_class;

/* First member of every source's struct. */
struct tl_source {
    const tl_source_class *cls;
    tl_arena *arena; /* lives as long as the source */
    int64_t parts;   /* set by who makes it */
    bool in_memory;  /* reading costs nothing, so that a cache would be of no use */
};

/* A source of the class, zeroed but for the members above. */
TL_API TL_NODISCARD tl_status tl_source_new(tl_source **out, const tl_source_class *cls);
/* NULL is fine. */
TL_API void tl_source_free(tl_source **s);
/* Records of all parts, walked where they must be. */
TL_API TL_NODISCARD tl_status tl_source_count(tl_source *s, int64_t *records);

/* --- those that there are --------------------------------------------------------------------- */

/* Files of TFRecords, plain or compressed; each is a part. Samples have a record and no fields.
 * Compressed files are kept inflated up to `keep` bytes in all; beyond that those that were not
 * used for the longest time are given back, and inflated again in the next pass. When those that
 * are read at a time, by cycle_length and by what waits to be drawn, need more than that, they are
 * kept all the same, and a warning says so: inflating a file for every record would take for ever.
 * Files must not change while they are read; replacing them is fine (io/tensorflow/tfrecord.h). A
 * file of 0 bytes has no records, as in TensorFlow, and is told; when all are such, that is
 * TL_EINVAL. */
typedef struct tl_tfrecords_args {
    size_t keep; /* (optional: 4 GiB) grows to what is in use */
} tl_tfrecords_args;
TL_API TL_NODISCARD tl_status tl_source_tfrecords(tl_source **out, const char *const *paths,
                                                  int64_t count, const tl_tfrecords_args *args);

/* idx files that belong together, as fields of these names: {{"image",
 * "train-images-idx3-ubyte.gz"}, {"label", "train-labels-idx1-ubyte.gz"}}. All must have as many
 * items, and names of their own. */
typedef struct tl_idx_field {
    const char *name, *path;
} tl_idx_field;
TL_API TL_NODISCARD tl_status tl_source_idx(tl_source **out, const tl_idx_field *fields,
                                            int64_t count);

/* A folder of images (data/image_folder.h), or the part of it that the arguments ask for. Samples
 * have the names that TFRecords of images have: "image/encoded", the bytes of the file, and
 * "image/class/label", an int64. Class names are the source's. What is passed over or missing is
 * told as warnings of the log. */
TL_API TL_NODISCARD tl_status tl_source_image_folder(tl_source **out,
                                                     const tl_image_folder_args *args);
/* Of a source made by the one above. */
TL_API const char *const *tl_source_class_names(const tl_source *s, int64_t *count);

/* Examples in memory (data/dataset.h). Unless `copy`, they must outlive the source. */
TL_API TL_NODISCARD tl_status tl_source_arrays(tl_source **out, const tl_array *arrays,
                                               int64_t count, bool copy);

/* Samples that the program makes, each a function of its index; called on any thread, several at a
 * time. */
typedef tl_status tl_sample_make_fn(void *self, int64_t index, tl_sample *out);
TL_API TL_NODISCARD tl_status tl_source_function(tl_source **out, tl_sample_make_fn *make,
                                                 void *self, int64_t length);

TL_END

#endif
