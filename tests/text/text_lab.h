/* What tests of text data share: records that are compared feature by feature, and files of
 * tests/golden/pretraining. */
#ifndef TILTH_TESTS_TEXT_LAB_H
#define TILTH_TESTS_TEXT_LAB_H

#include "io/folder.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/text/tokenizer.h>

#define GOLDEN TEST_DATA "/golden/pretraining/"

static inline tl_tokenizer *open_vocab(const char *path, bool cased)
{
    tl_tokenizer *t;
    assert_ok(tl_wordpiece_new(
        &t,
        &(tl_wordpiece_args){.vocab = path, .rules = TL_WORDPIECE_MODEL_GARDEN, .cased = cased}));
    return t;
}

static inline void same_ints(const char *where, int64_t number, const char *name,
                             const tl_feature *a, const tl_feature *b)
{
    int64_t x[512], y[512];
    assert_true(a->count <= TL_COUNT(x));
    assert_ok(tl_feature_ints(a, name, x, a->count));
    assert_ok(tl_feature_ints(b, name, y, b->count));
    for (int64_t i = 0; i < a->count; i++)
        if (x[i] != y[i])
            fail_msg("%s, record %lld: %s[%lld] is %lld, not %lld", where, (long long)number, name,
                     (long long)i, (long long)y[i], (long long)x[i]);
}

static inline void same_floats(const char *where, int64_t number, const char *name,
                               const tl_feature *a, const tl_feature *b)
{
    float x[512], y[512];
    assert_true(a->count <= TL_COUNT(x));
    assert_ok(tl_feature_floats(a, name, x, a->count));
    assert_ok(tl_feature_floats(b, name, y, b->count));
    for (int64_t i = 0; i < a->count; i++)
        if (x[i] != y[i])
            fail_msg("%s, record %lld: %s[%lld] is %.9g, not %.9g", where, (long long)number, name,
                     (long long)i, (double)y[i], (double)x[i]);
}

static inline int64_t count_features(const tl_tfrecord *r)
{
    tl_example_reader reader = tl_example_read(r->data, r->size);
    tl_feature f;
    int64_t count = 0;
    for (bool more = true;; count++) {
        assert_ok(tl_example_next(&reader, &f, &more));
        if (!more) return count;
    }
}

/* Every feature of `expected` is in `found`, which has no others. */
static inline void same_record(const char *where, const tl_tfrecord *expected,
                               const tl_tfrecord *found)
{
    tl_example_reader reader = tl_example_read(expected->data, expected->size);
    tl_feature a, b;
    char name[64];
    for (bool more = true;;) {
        assert_ok(tl_example_next(&reader, &a, &more));
        if (!more) break;
        snprintf(name, sizeof name, "%.*s", (int)a.name.size, a.name.data);
        assert_ok(tl_example_find(&b, &(const char *){name}, 1, found->data, found->size));
        if (a.kind != b.kind || a.count != b.count)
            fail_msg("%s, record %lld: %s has %lld values of %s, not %lld of %s", where,
                     (long long)expected->number, name, (long long)b.count,
                     tl_feature_kind_name(b.kind), (long long)a.count,
                     tl_feature_kind_name(a.kind));
        if (a.kind == TL_FEATURE_INTS) same_ints(where, expected->number, name, &a, &b);
        else same_floats(where, expected->number, name, &a, &b);
    }
    assert_int_equal(count_features(expected), count_features(found));
}

/* How many records both files have. */
static inline int64_t same_records(const char *expected, const char *found)
{
    tl_tfrecord_file *a, *b;
    assert_ok(tl_tfrecord_open(&a, expected, NULL));
    assert_ok(tl_tfrecord_open(&b, found, NULL));
    tl_tfrecord_cursor at = {.file = a}, beside = {.file = b};
    int64_t count = 0;
    for (bool more = true, others = true;; count++) {
        tl_tfrecord x, y;
        assert_ok(tl_tfrecord_next(&at, &x, &more));
        assert_ok(tl_tfrecord_next(&beside, &y, &others));
        if (more != others) fail_msg("%s: %lld records are not all", found, (long long)count);
        if (!more) break;
        same_record(expected, &x, &y);
    }
    tl_tfrecord_close(&a);
    tl_tfrecord_close(&b);
    return count;
}

#endif
