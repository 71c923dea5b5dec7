/* Samples: one example on the host, on its way through a pipeline. Named fields of a type, a shape
 * and bytes.
 *
 *     static tl_status to_float(void *self, tl_sample *s) // a map; runs on any thread
 *     {
 *         const tl_sample_field *image;
 *         TL_TRY(tl_sample_get(s, "image", &image));
 *         const uint8_t *from = image->data;
 *         float *to = tl_sample_add(s, "image", TL_F32, image->shape); // in the old one's place
 *         if (!to) return TL_ENOMEM;
 *         tl_rng rng;
 *         tl_sample_rng(s, &rng);                         // a function of seed and sequence number
 *         float gain = 0.5f + tl_rng_uniform_f32(&rng);
 *         for (int64_t i = 0; i < tl_shape_count(&image->shape); i++) to[i] = gain * from[i];
 *         return TL_OK;
 *     }
 *
 * Data of fields is read-only, since it may lie in a file, in a cache or in somebody's array; what
 * is to be changed is added anew or asked for with tl_sample_write. Memory comes from the sample
 * and is used again for the next one: nothing is freed, and in steady state nothing is allocated.
 *
 * Ownership: the pipeline's, or the caller's. Names are borrowed and must outlive the pipeline.
 * Data is valid until the sample is done, also that of fields that were replaced or taken out. A
 * pointer to a field is one to its place among the sample's fields: it stays good while fields are
 * added and replaced, but tl_sample_remove and tl_sample_keep move those that are left, so that it
 * must be asked for again. Thread word: one thread at a time. */
#ifndef TILTH_DATA_SAMPLE_H
#define TILTH_DATA_SAMPLE_H

#include <tilth/base/rng.h>
#include <tilth/core/dtype.h>
#include <tilth/core/shape.h>

TL_BEGIN

enum { TL_SAMPLE_FIELDS = 32 };

/* Texts and encoded images are uint8 [length]. */
typedef struct tl_sample_field {
    const char *name;
    tl_dtype dtype;
    tl_shape shape; /* of one example */
    const void *data;
} tl_sample_field;

/* Where a sample comes from. */
typedef struct tl_sample_place {
    const char *file; /* a path, or what the source calls its part */
    int64_t source, part;
    int64_t number, offset; /* of the record in its part */
    int64_t epoch;          /* pass over its source */
    /* samples that came before it in this pass of the pipeline, those that were filtered out
     * included */
    int64_t sequence;
} tl_sample_place;

/* Members are for reading. Made by tl_sample_new or a pipeline: there is more behind what is seen
 * here. */
typedef struct tl_sample {
    /* the bytes of the record, of sources of such, until it is decoded; else NULL */
    const char *record;
    size_t record_size;
    int64_t count; /* of fields */
    tl_sample_field fields[TL_SAMPLE_FIELDS];
    tl_sample_place at;
} tl_sample;

/* One outside of a pipeline, for what is done to a single example; emptied for the next one. */
TL_API TL_NODISCARD tl_status tl_sample_new(tl_sample **out);
TL_API void tl_sample_reset(tl_sample *s);
/* NULL is fine. Not for samples of a pipeline. */
TL_API void tl_sample_free(tl_sample **s);

/* NULL when it is not there. */
TL_API const tl_sample_field *tl_sample_peek(const tl_sample *s, const char *name);
/* A name that is not there is TL_ENOTFOUND with a list of those that are. */
TL_API TL_NODISCARD tl_status tl_sample_get(const tl_sample *s, const char *name,
                                            const tl_sample_field **out);
/* The value of a field with one element, of an integer type. */
TL_API TL_NODISCARD tl_status tl_sample_int(const tl_sample *s, const char *name, int64_t *out);

/* A new field, or one in the place of the old one of that name; its data is uninitialised, and
 * aligned to 64 bytes. NULL, with the error set, when there is no memory or the shape is not
 * acceptable. A pointer to an old field of that name shows the new one from then on; old data
 * stays. */
TL_API void *tl_sample_add(tl_sample *s, const char *name, tl_dtype dtype, tl_shape shape);
/* The same with data of somebody else's, which must stay until the batch is made: static, of the
 * source, or of the sample. */
TL_API TL_NODISCARD tl_status tl_sample_show(tl_sample *s, const char *name, tl_dtype dtype,
                                             tl_shape shape, const void *data);
/* The data of a field, copied unless it was made by tl_sample_add, to be changed in place. NULL
 * with the error set. */
TL_API void *tl_sample_write(tl_sample *s, const char *name);
/* False when there is none. Pointers to fields are not good any more, here and below. */
TL_API bool tl_sample_remove(tl_sample *s, const char *name);
/* Takes out all fields but these. */
TL_API void tl_sample_keep(tl_sample *s, const char *const *names, int64_t count);
TL_API TL_NODISCARD tl_status tl_sample_rename(tl_sample *s, const char *name, const char *as);

/* Memory for a moment, uninitialised, aligned to 64 bytes. NULL with the error set. */
TL_API void *tl_sample_scratch(tl_sample *s, size_t bytes);

/* From the decode or a map of a pipeline that `leaves_out`: this sample is left out, as a filter
 * would do it, and nothing further runs on it. A cache remembers it where decode said it. */
TL_API void tl_sample_leave_out(tl_sample *s);

/* The stream of this sample and this function, at its beginning: a function of the pipeline's seed,
 * its number, the pass, the sample's sequence number and what runs: source and decode, which of the
 * maps, or the filter. */
TL_API void tl_sample_rng(const tl_sample *s, tl_rng *out);

TL_END

#endif
