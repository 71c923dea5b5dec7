/* Pipelines over files: what is read, what is damaged, what a configuration says. needs: threads */
#include "data/pipeline_lab.h"

#include <tilth/base/log.h>
#include <tilth/desc/config.h>
#include <tilth/io/idx.h>

static stream one;

static tl_dataset *of_files(const char *const *paths, int64_t count, tl_pipeline_args args)
{
    tl_source *s = open_files(paths, count);
    args.decode = (tl_sample_map){tl_example_decode, take_features(1)};
    return make(s, args);
}
#define FILES(paths, ...) of_files(paths, TL_COUNT(paths), (tl_pipeline_args){__VA_ARGS__})

/* --- TFRecords -------------------------------------------------------------------------------- */

static void records_are_read_plain_or_compressed(void **state)
{
    (void)state;
    const char *paths[] = {write_file("p", 0, 50, false), write_file("q", 50, 60, true),
                           write_file("r", 110, 0, false), write_file("s", 110, 7, true)};
    tl_dataset *d = FILES(paths, .seed = 0);
    int64_t n;
    assert_ok(tl_dataset_length(d, &n));
    assert_int_equal(n, 30);
    read_stream(&one, d, MOST);
    assert_int_equal(one.count, 117);
    for (int64_t i = 0; i < 117; i++) assert_int_equal(one.ids[i], i);
    tl_dataset_free(&d);
    for (int64_t readers = 1; readers < 8; readers += 3) {
        int64_t count = 0;
        for (int64_t reader = 0; reader < readers; reader++) {
            static stream s;
            d = FILES(paths, .shuffle = 20, .cycle_length = 3, .shuffle_parts = true,
                      .pipelines = readers, .pipeline = reader);
            read_stream(&s, d, MOST);
            memcpy(one.ids + count, s.ids, (size_t)s.count * sizeof *s.ids);
            count += s.count;
            tl_dataset_free(&d);
        }
        assert_each_once(one.ids, count, 117);
    }
}

// With room for one inflated file at most they come and go, and nobody notices.
static void inflated_files_make_room_for_others(void **state)
{
    (void)state;
    const char *paths[6];
    for (int i = 0; i < 6; i++) {
        char name[8] = {(char)('a' + i)};
        paths[i] = write_file(name, 40 * i, 40, true);
    }
    tl_source *s;
    assert_ok(tl_source_tfrecords(&s, paths, 6, &(tl_tfrecords_args){.keep = 1}));
    tl_dataset *d = make(s, (tl_pipeline_args){.decode = {tl_example_decode, take_features(2)},
                                               .padded = true,
                                               .shuffle = 50,
                                               .cycle_length = 4,
                                               .threads = 3,
                                               .batch_size = 32});
    read_stream(&one, d, MOST);
    assert_each_once(one.ids, one.count, 240);
    tl_dataset_free(&d);
}

static int64_t warnings;

static void count_warnings(const tl_log_record *record, void *payload)
{
    (void)payload;
    warnings += record->level == TL_LEVEL_WARNING;
}

// What is read at a time stays, though it is more than was to be kept: no file is inflated twice
// for it.
static void inflated_files_that_are_in_use_stay(void **state)
{
    (void)state;
    enum { FILES_READ = 4 };
    const char *paths[FILES_READ];
    int64_t before = 0, sink;
    for (int i = 0; i < FILES_READ; i++) {
        char name[32];
        snprintf(name, sizeof name, "stay-%d", i);
        paths[i] = write_file(name, 40 * i, 40, true);
    }
    warnings = 0;
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, count_warnings, NULL, NULL}));
    tl_source *s;
    assert_ok(tl_source_tfrecords(&s, paths, FILES_READ, &(tl_tfrecords_args){.keep = 1}));
    tl_dataset *d = make(s, (tl_pipeline_args){.decode = {tl_example_decode, take_features(2)},
                                               .padded = true,
                                               .cycle_length = FILES_READ,
                                               .repeat = true,
                                               .batch_size = 10,
                                               .prefetch = -1,
                                               .threads = 1});
    for (int64_t i = 0; i < 60; i++) {
        if (i == 30) before = tl_alloc_calls();
        assert_int_equal(take(d, one.ids), 10);
    }
#ifndef TL_ARENA_DEBUG // where every object of an arena is an allocation
    assert_true(tl_alloc_calls() - before <= 2 * 30);
#endif
    (void)before;
    tl_log_sink_remove(sink);
    assert_int_equal(warnings, 1);
    tl_dataset_free(&d);
}

// A file that is cut while it is mapped: a failure, and not the end of the process.
static void files_that_become_shorter_are_noticed(void **state)
{
    (void)state;
    tl_tensors out = {0};
    bool more;
    const char *paths[] = {write_file("cut", 0, 2000, false)};
    tl_dataset *d = FILES(paths, .prefetch = -1, .threads = 1);
    assert_int_equal(take(d, one.ids), 4);
    assert_int_equal(truncate(paths[0], 100), 0);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EIO, "became shorter while it was in use");
    assert_non_null(strstr(tl_error_message(), paths[0]));
    tl_dataset_free(&d);
    // One that was replaced is another file.
    write_file("cut", 0, 2000, false);
    d = FILES(paths, .prefetch = -1, .threads = 1);
    assert_int_equal(take(d, one.ids), 4);
    write_file("cut", 0, 1, false);
    for (int i = 1; i < 500; i++) assert_int_equal(take(d, one.ids), 4);
    tl_dataset_free(&d);
    // And of the other kind.
    static uint8_t rows[20000];
    const tl_shape shape = TL_SHAPE(20000);
    const tl_idx_field field = {"id", in_home("cut.idx")};
    tl_source *s;
    assert_ok(tl_idx_write(field.path, TL_U8, &shape, rows));
    assert_ok(tl_source_idx(&s, &field, 1));
    d = make(s, (tl_pipeline_args){.prefetch = -1, .threads = 1});
    assert_ok(tl_dataset_next(d, c, &out, &more));
    assert_int_equal(truncate(field.path, 10), 0);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EIO, "became shorter while it was in use");
    tl_dataset_free(&d);
}

static void flip_byte(const char *path, int64_t at)
{
    char *data;
    size_t size;
    assert_ok(tl_file_read(&data, &size, path, 1 << 20));
    if (at < 0) size = (size_t)((int64_t)size + at); // cut
    else data[at] ^= 1;
    assert_ok(tl_file_write_atomic(path, data, size));
    tl_free(data);
}

// Batches before the damage come; the one that holds it fails, again and again, and names the
// place.
static void damage_is_found_where_it_is(void **state)
{
    (void)state;
    tl_tensors out = {0};
    bool more;
    for (int64_t ahead = -1; ahead < 6; ahead++) {
        const char *paths[] = {write_file("x", 0, 10, false), write_file("y", 10, 10, false)};
        tl_source *s = open_files(paths + 1, 1);
        tl_record_at at = {0};
        for (int i = 0; i < 3; i++) {
            bool there = true;
            assert_ok(s->cls->step(s, &at, &there));
        }
        tl_source_free(&s);
        flip_byte(paths[1], at.offset + 20); // in the data of record 3
        tl_dataset *d = FILES(paths, .prefetch = ahead, .threads = 3);
        for (int64_t b = 0; b < 3; b++) {
            assert_int_equal(take(d, one.ids), 4);
            assert_int_equal(one.ids[0], 4 * b);
        }
        char where[32];
        snprintf(where, sizeof where, "%" PRId64, at.offset);
        for (int again = 0; again < 2; again++) {
            assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "record 3");
            assert_non_null(strstr(tl_error_message(), where));
            assert_non_null(strstr(tl_error_message(), paths[1]));
        }
        // it was repaired, in a file of its own: the old one is mapped
        flip_byte(paths[1], at.offset + 20);
        tl_dataset *whole = FILES(paths, .seed = 0);
        carry_over(d, whole);
        assert_int_equal(take(whole, one.ids), 4);
        assert_int_equal(one.ids[0], 12);
        tl_dataset_free(&whole);
        tl_dataset_free(&d);
    }
}

static void files_that_end_too_early_are_errors(void **state)
{
    (void)state;
    tl_tensors out = {0};
    bool more;
    const char *paths[] = {write_file("t", 0, 6, false)};
    flip_byte(paths[0], -5);
    tl_dataset *d = FILES(paths, .seed = 0);
    assert_int_equal(take(d, one.ids), 4);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "record 5");
    tl_dataset_free(&d);
    tl_source *s;
    const char *missing[] = {paths[0], in_home("nowhere")};
    assert_fails(tl_source_tfrecords(&s, missing, 2, NULL), TL_ENOTFOUND,
                 "nowhere' does not exist");
    assert_fails(tl_source_tfrecords(&s, missing, 0, NULL), TL_EINVAL, "no files");
    const char *dir[] = {home};
    assert_fails(tl_source_tfrecords(&s, dir, 1, NULL), TL_EINVAL, "is a folder");
    // A file that goes away before it is read.
    const char *two[] = {write_file("u", 0, 4, false), write_file("v", 4, 4, false)};
    d = FILES(two, .prefetch = -1);
    assert_ok(tl_file_remove(two[1]));
    assert_int_equal(take(d, one.ids), 4);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_ENOTFOUND, "/v");
    write_file("v", 4, 4, false);
    assert_int_equal(take(d, one.ids), 4);
    tl_dataset_free(&d);
}

static void not_all_of_a_walked_source_can_be_shuffled(void **state)
{
    (void)state;
    const char *path = write_file("w", 0, 6, false);
    tl_source *s = open_files(&path, 1);
    tl_dataset *d;
    assert_fails(tl_pipeline_new(&d, &(tl_pipeline_args){.sources = &s,
                                                         .source_count = 1,
                                                         .batch_size = 1,
                                                         .shuffle = TL_SHUFFLE_ALL}),
                 TL_EINVAL, "does not say how many records");
    assert_null(s);
}

static tl_status copy_and_scale(void *self, tl_sample *s)
{
    (void)self;
    float *x = tl_sample_write(s, "x");
    void *scratch = tl_sample_scratch(s, 20000);
    if (!x || !scratch) return TL_ENOMEM;
    x[0] *= 2;
    return TL_OK;
}

// In steady state memory is used again: what is allocated are two headers of tensors.
static void samples_use_their_memory_again(void **state)
{
    (void)state;
    const char *paths[] = {write_file("k", 0, 50, false), write_file("l", 50, 50, true)};
    tl_source *s = open_files(paths, 2);
    tl_dataset *d = make(s, (tl_pipeline_args){.decode = {tl_example_decode, take_features(2)},
                                               .maps = (tl_sample_map[]){{copy_and_scale, NULL}},
                                               .map_count = 1,
                                               .padded = true,
                                               .shuffle = 10,
                                               .repeat = true,
                                               .batch_size = 10,
                                               .prefetch = -1,
                                               .threads = 1});
    int64_t before = 0;
    for (int64_t i = 0; i < 60; i++) {
        if (i == 30) before = tl_alloc_calls();
        assert_int_equal(take(d, one.ids), 10);
    }
#ifndef TL_ARENA_DEBUG // where every object of an arena is an allocation
    assert_true(tl_alloc_calls() - before <= 2 * 30);
#endif
    (void)before;
    tl_dataset_free(&d);
}

/* --- functions that fail ---------------------------------------------------------------------- */

static tl_status fail_at_nine(void *self, tl_sample *s)
{
    int64_t id;
    (void)self;
    TL_TRY(tl_sample_int(s, "id", &id));
    return id == 9 ? TL_FAIL(TL_EUNSUPPORTED, "nine is no number") : TL_OK;
}

static tl_status fail_at_nine_too(void *self, const tl_sample *s, bool *keep)
{
    (void)keep;
    return fail_at_nine(self, (tl_sample *)(uintptr_t)s);
}

static void failing_functions_name_the_record(void **state)
{
    (void)state;
    const char *paths[] = {write_file("f", 0, 20, false)};
    tl_tensors out = {0};
    bool more;
    for (int threads = 1; threads < 8; threads += 2)
        for (int which = 0; which < 2; which++) {
            tl_dataset *d = FILES(paths, .threads = threads, .map_count = !which,
                                  .maps = (tl_sample_map[]){{fail_at_nine, NULL}},
                                  .filter = which ? fail_at_nine_too : NULL);
            assert_int_equal(take(d, one.ids), 4);
            assert_int_equal(take(d, one.ids), 4);
            assert_fails(tl_dataset_next(d, c, &out, &more), TL_EUNSUPPORTED, "nine is no number");
            assert_non_null(strstr(tl_error_message(),
                                   which ? "filter, record 9 (byte" : "map 0, record 9 (byte"));
            tl_dataset_free(&d);
        }
    tl_source *s = open_files(paths, 1);
    tl_dataset *d = make(s, (tl_pipeline_args){0});
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "has no fields");
    tl_dataset_free(&d);
}

/* --- tf.train.Example ------------------------------------------------------------------------- */

static void decode(const tl_feature_spec *specs, int64_t count, tl_sample *s, tl_status want,
                   const char *text)
{
    tl_str record = TL_STR_INIT;
    add_example(&record, 300, 4);
    tl_sample_reset(s);
    s->record = record.data;
    s->record_size = record.length;
    tl_example_features all = {specs, count};
    if (want == TL_OK) assert_ok(tl_example_decode(&all, s));
    else assert_fails(tl_example_decode(&all, s), want, text);
    if (want != TL_OK) tl_str_deinit(&record);
}

static void features_become_fields(void **state)
{
    (void)state;
    tl_sample *s;
    assert_ok(tl_sample_new(&s));
    const tl_feature_spec good[] = {
        {.spec = {"x", TL_F32, TL_SHAPE(2, 2)}, .as = "matrix"},
        {.spec = {"id", TL_I32, TL_SHAPE(1)}},
        {.spec = {"name", TL_U8, TL_SHAPE(-1)}},
        {.spec = {"none", TL_I64, TL_SHAPE(3)}, .optional = true, .missing = -1},
        {.spec = {"gone", TL_F32, TL_SHAPE(-1, 4)}, .optional = true},
    };
    const tl_sample_field *f;
    decode(good, TL_COUNT(good), s, TL_OK, NULL);
    assert_int_equal(s->count, 5);
    assert_ok(tl_sample_get(s, "matrix", &f));
    assert_true(f->shape.rank == 2 && ((const float *)f->data)[3] == 303);
    assert_ok(tl_sample_get(s, "name", &f));
    assert_int_equal(f->shape.dims[0], 3);
    assert_memory_equal(f->data, "abc", 3);
    int64_t id;
    assert_ok(tl_sample_int(s, "id", &id));
    assert_int_equal(id, 300);
    assert_int_equal(((const int64_t *)tl_sample_peek(s, "none")->data)[2], -1);
    assert_int_equal(tl_sample_peek(s, "gone")->shape.dims[0], 0);
    assert_fails(tl_sample_int(s, "none", &id), TL_EINVAL, "int64[3]");
    assert_fails(tl_sample_get(s, "nine", &f), TL_ENOTFOUND, "there is no field 'nine'");
    tl_free((void *)(uintptr_t)s->record);

    const struct {
        tl_feature_spec spec;
        tl_status code;
        const char *text;
    } bad[] = {
        {{.spec = {"x", TL_F32, TL_SHAPE(3)}}, TL_EINVAL, "'x' has 4 values"},
        {{.spec = {"x", TL_F32, TL_SHAPE(-1, 3)}}, TL_EINVAL, "'x' has 4 values"},
        {{.spec = {"x", TL_I64, TL_SHAPE(4)}}, TL_EINVAL, "cannot become int64"},
        {{.spec = {"id", TL_U8, TL_SCALAR}}, TL_EINVAL, "300, which uint8"},
        {{.spec = {"name", TL_F32, TL_SHAPE(3)}}, TL_EINVAL, "cannot become float32"},
        {{.spec = {"name", TL_U8, TL_SHAPE(4)}}, TL_EINVAL, "'name' has 3 values"},
        {{.spec = {"none", TL_F32, TL_SHAPE(4)}}, TL_ENOTFOUND, "no feature 'none'"},
    };
    for (int64_t i = 0; i < TL_COUNT(bad); i++)
        decode(&bad[i].spec, 1, s, bad[i].code, bad[i].text);
    const tl_feature_spec others[] = {{.spec = {"x", TL_BF16, TL_SHAPE(4)}},
                                      {.spec = {"id", TL_F64, TL_SCALAR}}};
    decode(others, 2, s, TL_OK, NULL);
    assert_true(*(const double *)tl_sample_peek(s, "id")->data == 300);
    tl_free((void *)(uintptr_t)s->record);
    tl_sample_free(&s);
}

// A feature is there, and has no list.
static void features_without_values_are_told_from_others(void **state)
{
    (void)state;
    static const char record[] = "\x0a\x09\x0a\x07\x0a\x03"
                                 "one\x12\x00";
    const tl_feature_spec want[] = {{.spec = {"one", TL_I32, TL_SCALAR}},
                                    {.spec = {"two", TL_I32, TL_SCALAR}}};
    tl_sample *s;
    assert_ok(tl_sample_new(&s));
    s->record = record;
    s->record_size = sizeof record - 1;
    assert_fails(tl_example_decode(&(tl_example_features){want, 1}, s), TL_EINVAL,
                 "feature 'one' has no values");
    assert_fails(tl_example_decode(&(tl_example_features){want + 1, 1}, s), TL_ENOTFOUND,
                 "the example has no feature 'two'; it has one");
    tl_sample_free(&s);
}

// What int32 holds comes whole, at its ends too; what it does not hold is refused by its value.
static void integers_become_shorter_where_they_fit(void **state)
{
    (void)state;
    tl_sample *s;
    assert_ok(tl_sample_new(&s));
    const tl_feature_spec want = {.spec = {"n", TL_I32, TL_SHAPE(3)}};
    tl_example_features all = {&want, 1};
    int64_t values[3] = {INT32_MIN, INT32_MAX, -1};
    for (int k = 0; k < 3; k++) {
        tl_str record = TL_STR_INIT;
        values[1] = k == 0 ? INT32_MAX : k == 1 ? INT64_C(1) << 31 : -(INT64_C(1) << 40);
        tl_example_writer w = tl_example_begin(&record);
        tl_example_add_ints(&w, "n", values, 3);
        assert_ok(tl_example_end(&w));
        tl_sample_reset(s);
        s->record = record.data;
        s->record_size = record.length;
        if (k == 0) {
            assert_ok(tl_example_decode(&all, s));
            const int32_t *found = tl_sample_peek(s, "n")->data;
            for (int i = 0; i < 3; i++) assert_int_equal(found[i], values[i]);
        } else {
            assert_fails(tl_example_decode(&all, s), TL_EINVAL,
                         k == 1 ? "has the value 2147483648, which int32"
                                : "has the value -1099511627776, which int32");
        }
        tl_str_deinit(&record);
    }
    tl_sample_free(&s);
}

/* --- idx and folders -------------------------------------------------------------------------- */

static void idx_files_go_together(void **state)
{
    (void)state;
    uint8_t pixels[5][2][2];
    uint8_t labels[5] = {4, 3, 2, 1, 0};
    for (int i = 0; i < 20; i++) pixels[i / 4][i / 2 % 2][i % 2] = (uint8_t)i;
    const tl_shape image = TL_SHAPE(5, 2, 2), label = TL_SHAPE(5), few = TL_SHAPE(4);
    const tl_idx_field fields[] = {{"image", in_home("images.gz")}, {"label", in_home("labels")}};
    assert_ok(tl_idx_write(fields[0].path, TL_U8, &image, pixels));
    assert_ok(tl_idx_write(fields[1].path, TL_U8, &label, labels));
    tl_source *s;
    assert_ok(tl_source_idx(&s, fields, 2));
    tl_dataset *d = make(s, (tl_pipeline_args){.batch_size = 3});
    tl_batch b = {.ctx = c};
    bool more;
    uint8_t found[12];
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    assert_int_equal(tl_batch_size(&b), 2);
    assert_ok(tl_tensor_get(tl_batch_get(&b, "image"), found, 8));
    assert_memory_equal(found, pixels[3], 8);
    assert_ok(tl_tensor_get(tl_batch_get(&b, "label"), found, 2));
    assert_memory_equal(found, labels + 3, 2);
    tl_dataset_free(&d);
    assert_ok(tl_idx_write(fields[1].path, TL_U8, &few, labels));
    assert_fails(tl_source_idx(&s, fields, 2), TL_EINVAL, "do not belong together");
    assert_null(s);
    const tl_idx_field twice[] = {{"image", fields[0].path}, {"image", fields[0].path}};
    assert_fails(tl_source_idx(&s, twice, 2), TL_EEXISTS, "are both to be the field 'image'");
    assert_null(s);
}

static void folders_are_classes(void **state)
{
    (void)state;
    static const char *const files[] = {"zoo/b.png", "zoo/a.jpg", "ant/z.JPEG"};
    for (int i = 0; i < 3; i++) {
        const char *path = tl_arena_printf(arena, "%s/images/%s", home, files[i]);
        assert_ok(tl_mkdirs(tl_path_dirname(arena, path)));
        assert_ok(tl_file_write_atomic(path, files[i], strlen(files[i])));
    }
    tl_source *s;
    int64_t count;
    assert_ok(tl_source_image_folder(&s, &(tl_image_folder_args){.path = in_home("images")}));
    const char *const *names = tl_source_class_names(s, &count);
    assert_int_equal(count, 2);
    assert_string_equal(names[1], "zoo");
    tl_dataset *d = make(s, (tl_pipeline_args){.batch_size = 1, .cache = true, .repeat = true});
    static const int order[] = {2, 1, 0};
    for (int i = 0; i < 6; i++) {
        tl_batch b = {.ctx = c};
        bool more;
        char bytes[32] = {0};
        int64_t label;
        assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
        const tl_tensor *t = tl_batch_get(&b, "image/encoded");
        assert_ok(tl_tensor_get(t, bytes, tl_tensor_bytes(t)));
        assert_string_equal(bytes, files[order[i % 3]]);
        assert_ok(tl_tensor_get(tl_batch_get(&b, "image/class/label"), &label, sizeof label));
        assert_int_equal(label, i % 3 > 0);
    }
    tl_dataset_free(&d);
}

static void arrays_are_sources_too(void **state)
{
    (void)state;
    int64_t ids[6] = {5, 6, 7, 8, 9, 10};
    const tl_array arrays[] = {{"id", TL_I64, TL_SHAPE(6), ids}};
    tl_source *s;
    assert_ok(tl_source_arrays(&s, arrays, 1, true));
    memset(ids, 0, sizeof ids);
    ASSERT_IDS(make(s, (tl_pipeline_args){.cache = true}), 5, 6, 7, 8, 9, 10);
    const tl_array unequal[] = {{"id", TL_I64, TL_SHAPE(6), ids}, {"x", TL_I64, TL_SHAPE(2), ids}};
    assert_fails(tl_source_arrays(&s, unequal, 2, false), TL_EINVAL, "'x' is [2]");
    const tl_array twice[] = {{"id", TL_I64, TL_SHAPE(6), ids}, {"id", TL_I64, TL_SHAPE(6), ids}};
    assert_fails(tl_source_arrays(&s, twice, 2, false), TL_EEXISTS, "two arrays 'id'");
}

/* --- configurations --------------------------------------------------------------------------- */

static const tl_value *parse(const char *text)
{
    const tl_value *v = NULL;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "test"));
    return v;
}

static void free_config(void *config)
{
    tl_config *it = config;
    tl_config_free(&it);
}

static const tl_data_config *configure(const char *text)
{
    tl_config *config;
    assert_ok(tl_config_new(&config, NULL, &tl_data_config_desc));
    assert_ok(tl_arena_defer(arena, free_config, config));
    assert_ok(tl_config_yaml(config, text, "test"));
    return tl_config_value(config);
}

static void paths_are_matched(void **state)
{
    (void)state;
    tl_path_list found;
    const char *a = write_file("m-1", 0, 1, false), *b = write_file("m-2", 1, 1, false);
    const char *odd = write_file("m[1]", 2, 1, false);
    assert_ok(
        tl_paths_match(&found, arena, parse(tl_arena_printf(arena, "'%s/m-?, %s,,'", home, a))));
    assert_int_equal(found.count, 3);
    assert_string_equal(found.items[0], a);
    assert_string_equal(found.items[1], b);
    assert_string_equal(found.items[2], a);
    assert_ok(tl_paths_match(&found, arena,
                             parse(tl_arena_printf(arena, "['%s', '%s/m[*']", odd, home))));
    assert_int_equal(found.count, 2);
    assert_string_equal(found.items[1], odd);
    assert_fails(tl_paths_match(&found, arena, parse(tl_arena_printf(arena, "'%s/n*'", home))),
                 TL_ENOTFOUND, "no file matches");
    assert_fails(tl_paths_match(&found, arena, parse("/nowhere/at/all")), TL_ENOTFOUND,
                 "'/nowhere/at/all' does not exist");
    assert_fails(tl_paths_match(&found, arena, parse("' , '")), TL_EINVAL, "there are no files");
    assert_fails(tl_paths_match(&found, arena, parse("nowhere/at/*.all")), TL_ENOTFOUND,
                 "no file matches 'nowhere/at/*.all'; it is looked for from '/");
    assert_fails(tl_paths_match(&found, arena, parse("../nowhere")), TL_ENOTFOUND,
                 "'../nowhere' does not exist; it is looked for from '/");
}

/* What is there is meant as it is; where both may be meant, a list says so. */
static void names_may_have_commas(void **state)
{
    (void)state;
    tl_path_list found;
    const char *both = write_file("p,q", 0, 1, false), *other = write_file("p,r", 1, 1, false);
    assert_ok(tl_paths_match(&found, arena, parse(tl_arena_printf(arena, "'%s'", both))));
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0], both);
    assert_ok(tl_paths_match(&found, arena,
                             parse(tl_arena_printf(arena, "['%s', '', '%s/p,?']", other, home))));
    assert_int_equal(found.count, 3);
    assert_string_equal(found.items[0], other);
    assert_string_equal(found.items[1], both);
    assert_fails(
        tl_paths_match(&found, arena, parse(tl_arena_printf(arena, "['%s,%s']", both, other))),
        TL_ENOTFOUND, "p,r' does not exist");
}

static tl_dataset *from_config(const char *text, const tl_pipeline_reader *reader)
{
    tl_pipeline_args args = {.decode = {tl_example_decode, take_features(1)}};
    tl_dataset *d = NULL;
    assert_ok(tl_pipeline_args_read(&args, arena, configure(text), reader));
    assert_ok(tl_pipeline_new(&d, &args));
    return d;
}

static void configurations_mean_what_they_say(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "cfg-%d", i);
        write_file(name, 10 * i, 10, false);
    }
    const char *text =
        tl_arena_printf(arena, "{input_path: '%s/cfg-*', global_batch_size: 8}", home);
    // Evaluation keeps its tail, whatever drop_remainder is by default; nothing is shuffled.
    tl_dataset *d = from_config(text, NULL);
    read_stream(&one, d, MOST);
    assert_int_equal(one.count, 30);
    assert_int_equal(one.sizes[3], 6);
    assert_int_equal(one.ids[1], 10); // files take turns
    tl_dataset_free(&d);
    text = tl_arena_printf(arena,
                           "{input_path: '%s/cfg-*', global_batch_size: 8, is_training: true, "
                           "shuffle_buffer_size: 5, seed: 3}",
                           home);
    d = from_config(text, &(tl_pipeline_reader){.replicas = 2});
    read_stream(&one, d, 15); // batches of 4, two passes
    assert_int_equal(one.count, 60);
    assert_each_once(one.ids, 30, 30);
    assert_each_once(one.ids + 30, 30, 30);
    tl_dataset_free(&d);
    // Two readers, who share the files out.
    int64_t count = 0;
    static stream s;
    text = tl_arena_printf(arena, "{input_path: '%s/cfg-*', global_batch_size: 8}", home);
    for (int64_t reader = 0; reader < 2; reader++) {
        d = from_config(text, &(tl_pipeline_reader){.pipelines = 2, .pipeline = reader});
        read_stream(&s, d, MOST);
        memcpy(one.ids + count, s.ids, (size_t)s.count * sizeof *s.ids);
        count += s.count;
        tl_dataset_free(&d);
    }
    assert_each_once(one.ids, count, 30);
    // Or do not.
    text = tl_arena_printf(arena, "{input_path: '%s/cfg-*', global_batch_size: 8, sharding: false}",
                           home);
    d = from_config(text, &(tl_pipeline_reader){.pipelines = 2, .pipeline = 1});
    read_stream(&s, d, MOST);
    assert_each_once(s.ids, s.count, 30);
    tl_dataset_free(&d);
}

static void mixtures_are_maps(void **state)
{
    (void)state;
    write_file("mix-a", 0, 10, false);
    write_file("mix-b", 10, 10, false);
    const char *text = tl_arena_printf(
        arena,
        "{input_path: {a: '%s/mix-a', b: '%s/mix-b'}, global_batch_size: 4, is_training: ", home,
        home);
    const char *training = tl_arena_printf(arena, "%strue}", text);
    const char *evaluating = tl_arena_printf(arena, "%sfalse}", text);
    tl_pipeline_args args = {0};
    tl_dataset *d = from_config(training, &(tl_pipeline_reader){.weights = parse("{b: 0, a: 2}")});
    read_stream(&one, d, 10);
    for (int64_t i = 0; i < 40; i++) assert_true(one.ids[i] < 10);
    tl_dataset_free(&d);
    d = from_config(evaluating, NULL);
    read_stream(&one, d, MOST);
    assert_each_once(one.ids, one.count, 20);
    tl_dataset_free(&d);
    assert_fails(tl_pipeline_args_read(&args, arena, configure(training), NULL), TL_EINVAL,
                 "no weights");
    assert_fails(tl_pipeline_args_read(&args, arena, configure(training),
                                       &(tl_pipeline_reader){.weights = parse("{a: 1, c: 2}")}),
                 TL_EINVAL, "none for 'b'");
    assert_fails(tl_pipeline_args_read(&args, arena, configure(training),
                                       &(tl_pipeline_reader){.weights = parse("{a: 1, b: x}")}),
                 TL_EINVAL, "that of 'b' is no number");
    assert_int_equal(args.source_count, 0);
}

static void configurations_that_cannot_be_are_refused(void **state)
{
    (void)state;
    tl_pipeline_args args = {0};
    assert_fails(tl_pipeline_args_read(&args, arena, configure("{global_batch_size: 4}"), NULL),
                 TL_EINVAL, "input_path is empty");
    assert_fails(tl_pipeline_args_read(&args, arena, configure("{input_path: x}"), NULL), TL_EINVAL,
                 "global_batch_size is 0");
    assert_fails(tl_pipeline_args_read(&args, arena,
                                       configure("{input_path: x, global_batch_size: 9}"),
                                       &(tl_pipeline_reader){.replicas = 2}),
                 TL_EINVAL, "must be a multiple of 2, the number of replicas");
    assert_fails(
        tl_pipeline_args_read(&args, arena,
                              configure("{input_path: '/no/where*', global_batch_size: 9}"), NULL),
        TL_ENOTFOUND, "input_path: no file matches '/no/where*'");
    assert_fails(
        tl_pipeline_args_read(
            &args, arena, configure("{input_path: {a: /no/where}, global_batch_size: 9}"), NULL),
        TL_ENOTFOUND, "input_path.a: '/no/where' does not exist");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(records_are_read_plain_or_compressed),
        LAB_TEST(inflated_files_make_room_for_others),
        LAB_TEST(inflated_files_that_are_in_use_stay),
        LAB_TEST(files_that_become_shorter_are_noticed),
        LAB_TEST(damage_is_found_where_it_is),
        LAB_TEST(files_that_end_too_early_are_errors),
        LAB_TEST(not_all_of_a_walked_source_can_be_shuffled),
        LAB_TEST(samples_use_their_memory_again),
        LAB_TEST(failing_functions_name_the_record),
        LAB_TEST(features_become_fields),
        LAB_TEST(features_without_values_are_told_from_others),
        LAB_TEST(integers_become_shorter_where_they_fit),
        LAB_TEST(idx_files_go_together),
        LAB_TEST(folders_are_classes),
        LAB_TEST(arrays_are_sources_too),
        LAB_TEST(paths_are_matched),
        LAB_TEST(names_may_have_commas),
        LAB_TEST(configurations_mean_what_they_say),
        LAB_TEST(mixtures_are_maps),
        LAB_TEST(configurations_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
