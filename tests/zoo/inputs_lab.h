/* What tests of detection's and segmentation's inputs share: configurations from text, records,
 * batches as numbers. */
#ifndef TILTH_TESTS_ZOO_INPUTS_LAB_H
#define TILTH_TESTS_ZOO_INPUTS_LAB_H

#include "zoo/zoo_lab.h"

#include <tilth/data/batch.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "same_data.h"

/* --- configurations --------------------------------------------------------------------------- */

static tl_config *data_config;

/* A configuration of data with this on top; it lives until the next one, or the end of the test. */
static inline tl_status data_parse(const void **out, const tl_desc *desc, const char *yaml)
{
    tl_config_free(&data_config);
    TL_TRY(tl_config_new(&data_config, lab_registry, desc));
    if (yaml) TL_TRY(tl_config_yaml(data_config, yaml, "test.yaml"));
    TL_TRY(tl_config_finish(data_config));
    *out = tl_config_value(data_config);
    return TL_OK;
}

/* The same, which must be fine. */
static inline const void *data_made(const tl_desc *desc, const char *yaml)
{
    const void *config;
    assert_ok(data_parse(&config, desc, yaml));
    return config;
}

static inline const tl_value *data_written(const tl_desc *desc, const void *config)
{
    const tl_value *v;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write(&text, desc, config));
    assert_ok(tl_yaml_parse(&v, lab_arena, tl_str_text(&text), text.length, "written"));
    tl_str_deinit(&text);
    return v;
}

static inline const tl_value *data_of_file(const char *file, const char *section)
{
    const tl_value *all;
    assert_ok(tl_yaml_read(&all, lab_arena, file));
    return tl_value_get(tl_value_get(all, "task"), section);
}

/* What is written of the defaults is what Model Garden's file has. */
static inline void data_is_as_in_file(const tl_desc *desc, const char *file, const char *section)
{
    const void *config;
    bool training = strcmp(section, "train_data") == 0;
    assert_ok(tl_desc_verify(desc));
    assert_ok(data_parse(&config, desc, training ? "is_training: true" : "is_training: false"));
    assert_same_data(file, data_written(desc, config), data_of_file(file, section));
}

/* Files of Model Garden are read, and written as they are. */
static inline void data_reads_files(const tl_desc *desc, const char *pattern, int64_t count)
{
    static const char *const sections[] = {"train_data", "validation_data"};
    tl_path_list files;
    assert_ok(tl_glob(&files, lab_arena, pattern));
    assert_int_equal(files.count, count);
    for (int64_t i = 0; i < 2 * count; i++) {
        const tl_value *theirs = data_of_file(files.items[i / 2], sections[i % 2]);
        tl_config_free(&data_config);
        assert_ok(tl_config_new(&data_config, lab_registry, desc));
        assert_ok(tl_config_apply(data_config, theirs));
        assert_ok(tl_config_finish(data_config));
        assert_same_data(files.items[i / 2], data_written(desc, tl_config_value(data_config)),
                         theirs);
    }
}

/* --- batches ---------------------------------------------------------------------------------- */

static tl_engine *data_engine;
static tl_ctx *data_ctx;

static inline int data_open(void **state)
{
    if (lab_open(state) != 0) return -1;
    assert_ok(test_engine_new(&data_engine, NULL, 1));
    assert_ok(tl_ctx_new(&data_ctx, data_engine));
    return 0;
}

static inline int data_close(void **state)
{
    tl_config_free(&data_config);
    tl_ctx_free(&data_ctx);
    tl_engine_free(&data_engine);
    return lab_close(state);
}
#define DATA_TEST(f) cmocka_unit_test_setup_teardown(f, data_open, data_close)

/* The next batch; its tensors live until the test's end. */
static inline tl_batch data_next(tl_dataset *d)
{
    tl_batch b = {.ctx = data_ctx};
    bool more = true;
    assert_ok(tl_dataset_next(d, data_ctx, &b.tensors, &more));
    assert_true(more);
    return b;
}

static inline void data_ends(tl_dataset *d)
{
    tl_tensors t = {0};
    bool more = true;
    assert_ok(tl_dataset_next(d, data_ctx, &t, &more));
    assert_false(more);
}

/* Its field as doubles, in the test's arena; its shape is as expected. */
static inline const double *data_numbers(const tl_batch *b, const char *name, tl_shape shape)
{
    char found[TL_SHAPE_TEXT], wanted[TL_SHAPE_TEXT];
    const tl_tensor *t = tl_batch_get(b, name);
    if (!t) fail_msg("%s", tl_error_message());
    if (!tl_shape_equal(&t->shape, &shape))
        fail_msg("'%s' is %s, not %s", name, tl_shape_text(found, &t->shape),
                 tl_shape_text(wanted, &shape));
    int64_t count = tl_shape_count(&shape);
    double *out = tl_arena_array(lab_arena, count > 0 ? count : 1, sizeof *out);
    assert_non_null(out);
    assert_ok(tl_tensor_get_doubles(t, out, count));
    return out;
}

static inline void near_all(const double *found, const double *wanted, int64_t count, double most)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found[i] - wanted[i]) <= most))
            fail_msg("number %lld is %.9g, not %.9g", (long long)i, found[i], wanted[i]);
}
#define NEAR_ALL(found, most, ...)                                                                 \
    near_all((found), (const double[]){__VA_ARGS__},                                               \
             sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (most))

static inline bool same_batches(const tl_batch *a, const tl_batch *b)
{
    if (a->tensors.count != b->tensors.count) return false;
    for (int64_t i = 0; i < a->tensors.count; i++) {
        const tl_tensor *x = a->tensors.items[i].tensor;
        const tl_tensor *y = tl_batch_get(b, a->tensors.items[i].name);
        size_t bytes = tl_tensor_bytes(x);
        if (!tl_shape_equal(&x->shape, &y->shape)) return false;
        char *p = tl_arena_alloc(lab_arena, bytes + 1), *q = tl_arena_alloc(lab_arena, bytes + 1);
        assert_non_null(p);
        assert_non_null(q);
        assert_ok(tl_tensor_get(x, p, bytes));
        assert_ok(tl_tensor_get(y, q, bytes));
        if (memcmp(p, q, bytes) != 0) return false;
    }
    return true;
}

/* After `before` batches the position is put into another dataset, which then goes on as the first
 * one does, for `after` batches. */
static inline void resumes_exactly(tl_dataset *first, tl_dataset *second, int before, int after)
{
    tl_state *at, *to;
    for (int i = 0; i < before; i++) (void)data_next(first);
    assert_ok(tl_state_new(&at));
    assert_ok(tl_state_new(&to));
    assert_ok(tl_dataset_state(first, at));
    assert_ok(tl_dataset_state(second, to));
    assert_ok(tl_state_copy(to, at, NULL, NULL));
    for (int i = 0; i < after; i++) {
        tl_batch a = data_next(first), b = data_next(second);
        assert_true(same_batches(&a, &b));
    }
    tl_state_free(&at);
    tl_state_free(&to);
}

/* --- records ---------------------------------------------------------------------------------- */

static inline tl_bytes png_bytes(int64_t height, int64_t width, int64_t channels,
                                 const uint8_t *pixels)
{
    tl_str file = TL_STR_INIT;
    assert_ok(tl_png_encode(
        &file, &(tl_png_image){width, height, channels, (uint8_t *)(uintptr_t)pixels}));
    char *kept = tl_arena_alloc(lab_arena, file.length);
    assert_non_null(kept);
    memcpy(kept, file.data, file.length);
    tl_bytes out = {kept, file.length};
    tl_str_deinit(&file);
    return out;
}

static inline void write_records(const char *path, const tl_str *examples, int count)
{
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < count; i++)
        assert_ok(tl_tfrecord_write(w, examples[i].data, examples[i].length));
    assert_ok(tl_tfrecord_writer_commit(&w));
}

#endif
