/* What tests of datasets share: eleven examples in memory, and batches that are read as their
 * numbers. */
#ifndef TILTH_TESTS_DATA_DATASET_LAB_H
#define TILTH_TESTS_DATA_DATASET_LAB_H

#include "test.h"

#include <tilth/data/dataset.h>
#include <tilth/ops/create.h>
#include <tilth/ops/view.h>

#include "engine.h"

enum { EXAMPLES = 11, BATCH = 4 };
static tl_engine *engine;
static tl_ctx *c;
static int64_t ids[EXAMPLES];
static float images[EXAMPLES][2][3];
static float weights[EXAMPLES];

static inline int open_lab(void **state)
{
    (void)state;
    for (int i = 0; i < EXAMPLES; i++) {
        ids[i] = i;
        weights[i] = 0.5f + (float)i;
        for (int k = 0; k < 6; k++) images[i][k / 3][k % 3] = (float)(10 * i + k);
    }
    assert_ok(test_engine_new(&engine, NULL, 1));
    return 0;
}

static inline int close_lab(void **state)
{
    (void)state;
    tl_engine_free(&engine);
    return 0;
}

static inline int fresh(void **state)
{
    (void)state;
    assert_ok(tl_ctx_new(&c, engine));
    return 0;
}

static inline int stale(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    return 0;
}

static inline bool has_shape(const tl_spec *spec, tl_shape shape)
{
    return tl_shape_equal(&spec->shape, &shape);
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, fresh, stale)

/* --- sources ---------------------------------------------------------------------------------- */

static const tl_array fields[] = {
    {"image", TL_F32, {.rank = 3, .dims = {EXAMPLES, 2, 3}}, images},
    {"id", TL_I64, {.rank = 1, .dims = {EXAMPLES}}, ids},
};

static inline tl_dataset *make(tl_arrays_args args)
{
    tl_dataset *d = NULL;
    args.arrays = fields;
    args.count = TL_COUNT(fields);
    if (!args.batch_size) args.batch_size = BATCH;
    assert_ok(tl_dataset_from_arrays(&d, &args));
    return d;
}
#define ARRAYS(...) make((tl_arrays_args){__VA_ARGS__})

// The ids of the next batch, whose images must be theirs; -1: the pass is over.
static inline int64_t take(tl_dataset *d, int64_t *out)
{
    tl_batch b = {.ctx = c};
    bool more;
    tl_mark mark = tl_ctx_begin(c);
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    int64_t n = -1;
    if (more) {
        n = tl_batch_size(&b);
        const tl_tensor *id = tl_batch_get(&b, "id"), *image = tl_batch_peek(&b, "image");
        assert_true(id->contiguous && id->dtype == TL_I64 && id->shape.rank == 1);
        assert_ok(tl_tensor_get(id, out, (size_t)n * sizeof *out));
        if (image) {
            float pixels[64][2][3];
            assert_true(image->shape.rank == 3 && image->shape.dims[0] == n);
            assert_ok(tl_tensor_get(image, pixels, (size_t)n * sizeof pixels[0]));
            for (int64_t i = 0; i < n; i++)
                assert_memory_equal(pixels[i], images[out[i]], sizeof pixels[0]);
        }
    } else {
        assert_int_equal(b.tensors.count, 0);
    }
    tl_ctx_end(c, mark);
    return n;
}

// All ids until the pass ends, or `most` batches came.
typedef struct stream {
    int64_t ids[256], count, sizes[64], batches;
} stream;

static inline void read_stream(stream *s, tl_dataset *d, int64_t most)
{
    memset(s, 0, sizeof *s);
    for (int64_t n; s->batches < most && (n = take(d, s->ids + s->count)) >= 0;) {
        s->sizes[s->batches++] = n;
        s->count += n;
    }
}

/* Two numbers a batch, until there are as many batches as `self` says. Batch 99 cannot be made. */
static inline tl_status fill(void *self, tl_ctx *ctx, int64_t index, tl_tensors *out, bool *more)
{
    int64_t batches = *(const int64_t *)self;
    if (index == 99) return TL_FAIL(TL_EIO, "there is no such file");
    if (index == batches) {
        *more = false;
        return TL_OK;
    }
    tl_tensors_put(ctx, out, "id",
                   tl_arange(ctx, TL_I64, (double)(2 * index), (double)(2 * index + 2), 1));
    return TL_OK;
}

static inline tl_dataset *three_batches(bool repeat)
{
    tl_tensors batches[3] = {{0}};
    tl_dataset *d = NULL;
    for (int i = 0; i < 3; i++)
        tl_tensors_put(c, &batches[i], "id", tl_arange(c, TL_I64, 5 * i, 5 * i + i + 1, 1));
    assert_ok(tl_dataset_from_batches(&d, batches, 3, repeat));
    return d;
}

#endif
