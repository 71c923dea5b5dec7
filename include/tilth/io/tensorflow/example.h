/* tf.train.Example: named lists of bytes, floats or integers, read where they lie and written.
 *
 *     static const char *const names[] = {"image/encoded", "image/class/label"};
 *     tl_feature f[2];
 *     TL_TRY(tl_example_find(f, names, 2, record.data, record.size));  // one pass
 *     tl_bytes image;
 *     int64_t label = -1;
 *     TL_TRY(tl_feature_bytes(&f[0], names[0], &image, 1));               // exactly one
 *     if (f[1].count) TL_TRY(tl_feature_ints(&f[1], names[1], &label, 1));
 *
 *     tl_str out = TL_STR_INIT;
 *     tl_example_writer w = tl_example_begin(&out);
 *     tl_example_add_bytes(&w, "image/encoded", &image, 1);
 *     tl_example_add_ints(&w, "image/class/label", &label, 1);
 *     TL_TRY_DONE(st, tl_example_end(&w));
 *
 * Lists may be packed or not, or both. Fields that are not known are passed over; of two features
 * with one name the last one counts, as in protobuf's maps.
 *
 * Ownership: features and bytes point into what was given. Thread word: free-threaded; a writer one
 * thread at a time. */
#ifndef TILTH_IO_EXAMPLE_H
#define TILTH_IO_EXAMPLE_H

#include <tilth/base/str.h>

TL_BEGIN

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct tl_bytes {
    const char *data; /* not NUL-terminated */
    size_t size;
} tl_bytes;

typedef enum tl_feature_kind {
    TL_FEATURE_NONE, /* the example has none of that name, or one that says nothing */
    TL_FEATURE_BYTES,
    TL_FEATURE_FLOATS,
    TL_FEATURE_INTS
} tl_feature_kind;

/* "bytes", "float", "int64", as TensorFlow names the lists; "none". */
TL_API const char *tl_feature_kind_name(tl_feature_kind kind);

typedef struct tl_feature {
    tl_bytes name;
    tl_feature_kind kind;
    int64_t count;   /* values */
    tl_bytes values; /* on the wire; read by the functions below */
} tl_feature;

/* The features of these names, in one pass; one that is not there has the kind TL_FEATURE_NONE.
 * TL_EINVAL when the bytes are no example. */
TL_API TL_NODISCARD tl_status tl_example_find(tl_feature *out, const char *const *names,
                                              int64_t count, const void *data, size_t size);

/* All features, in the order of the bytes, equal names included:
 *
 *     tl_example_reader r = tl_example_read(data, size);
 *     for (bool more = true;;) {
 *         TL_TRY(tl_example_next(&r, &feature, &more));
 *         if (!more) break;
 *         ...
 *     }
 */
typedef struct tl_example_reader {
    tl_bytes whole, outer,
        inner; /* the message, what is left of it, what is left of its features */
    int field;
} tl_example_reader;
TL_API tl_example_reader tl_example_read(const void *data, size_t size);
TL_API TL_NODISCARD tl_status tl_example_next(tl_example_reader *r, tl_feature *out, bool *more);

/* The values of a feature that must have this kind and exactly `count` values; `name` stands in
 * messages. With a count of feature->count only the kind is checked. Kind and count are looked at
 * first: after a failure nothing was written. */
TL_API TL_NODISCARD tl_status tl_feature_bytes(const tl_feature *f, const char *name, tl_bytes *out,
                                               int64_t count);
TL_API TL_NODISCARD tl_status tl_feature_floats(const tl_feature *f, const char *name, float *out,
                                                int64_t count);
TL_API TL_NODISCARD tl_status tl_feature_ints(const tl_feature *f, const char *name, int64_t *out,
                                              int64_t count);
/* The lower half of each; `fits` says whether that is all of it. */
TL_API TL_NODISCARD tl_status tl_feature_int32s(const tl_feature *f, const char *name, int32_t *out,
                                                int64_t count, bool *fits);

/* --- tf.train.SequenceExample ----------------------------------------------------------------- */

/* A list of features, one for each step of a sequence. */
typedef struct tl_feature_list {
    tl_bytes name;
    int64_t count;  /* steps */
    tl_bytes steps; /* on the wire */
    bool there;     /* false: the example has none of that name */
} tl_feature_list;

/* Features of the context are found with tl_example_find, for an Example is a SequenceExample with
 * nothing but a context. Lists of these names: */
TL_API TL_NODISCARD tl_status tl_sequence_example_find(tl_feature_list *out,
                                                       const char *const *names, int64_t count,
                                                       const void *data, size_t size);
/* The first step of what is left of the list, which moves behind it. Its name is the list's. */
TL_API TL_NODISCARD tl_status tl_feature_list_next(tl_feature_list *list, tl_feature *out,
                                                   bool *more);

/* --- writing ---------------------------------------------------------------------------------- */

/* Appends to a string, whose errors stick. Names must be UTF-8. */
typedef struct tl_example_writer {
    tl_str *out;
    size_t mark;
} tl_example_writer;

TL_API tl_example_writer tl_example_begin(tl_str *out);
TL_API void tl_example_add_bytes(tl_example_writer *w, const char *name, const tl_bytes *values,
                                 int64_t count);
TL_API void tl_example_add_floats(tl_example_writer *w, const char *name, const float *values,
                                  int64_t count);
TL_API void tl_example_add_ints(tl_example_writer *w, const char *name, const int64_t *values,
                                int64_t count);
/* The same for one text. */
TL_API void tl_example_add_text(tl_example_writer *w, const char *name, const char *text);
TL_API TL_NODISCARD tl_status tl_example_end(tl_example_writer *w);

TL_END

#endif
