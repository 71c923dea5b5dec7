/* Cases that TensorFlow wrote (tests/golden/cases.py): a file of records, each an example whose
 * features are what goes in and what must come out. Read by our own readers of records and
 * examples. */
#ifndef TILTH_TESTS_DATA_GOLDEN_CASES_H
#define TILTH_TESTS_DATA_GOLDEN_CASES_H

#include "test.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

/* One case: its features by name. */
typedef struct golden_case {
    const char *data;
    size_t size;
} golden_case;

static inline tl_feature feature(const golden_case *c, const char *name)
{
    tl_feature f;
    assert_ok(tl_example_find(&f, &name, 1, c->data, c->size));
    return f;
}

static inline void ints_of(const golden_case *c, const char *name, int64_t *out, int64_t count)
{
    tl_feature f = feature(c, name);
    assert_ok(tl_feature_ints(&f, name, out, count));
}

static inline int64_t int_of(const golden_case *c, const char *name)
{
    int64_t value;
    ints_of(c, name, &value, 1);
    return value;
}

/* As many as there are. */
static inline int64_t floats_of(const golden_case *c, const char *name, float *out, int64_t room)
{
    tl_feature f = feature(c, name);
    assert_true(f.count <= room);
    assert_ok(tl_feature_floats(&f, name, out, f.count));
    return f.count;
}

static inline tl_bytes bytes_of(const golden_case *c, const char *name)
{
    tl_feature f = feature(c, name);
    tl_bytes bytes;
    assert_ok(tl_feature_bytes(&f, name, &bytes, 1));
    return bytes;
}

/* Until it is called again. */
static inline const char *text_of(const golden_case *c, const char *name)
{
    static char text[4096];
    tl_bytes bytes = bytes_of(c, name);
    assert_true(bytes.size < sizeof text);
    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = '\0';
    return text;
}

/* Calls `check` with every case of the kind; there must be that many. */
static inline void each_case(const char *file, const char *kind, int64_t count,
                             void (*check)(const golden_case *c))
{
    tl_tfrecord_file *f;
    tl_tfrecord r;
    bool more;
    assert_ok(tl_tfrecord_open(&f, file, NULL));
    tl_tfrecord_cursor at = {.file = f};
    for (;;) {
        assert_ok(tl_tfrecord_next(&at, &r, &more));
        if (!more) break;
        golden_case c = {r.data, r.size};
        if (strcmp(text_of(&c, "kind"), kind) != 0) continue;
        check(&c);
        count--;
    }
    assert_int_equal(count, 0);
    tl_tfrecord_close(&f);
}

#endif
