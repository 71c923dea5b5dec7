/* What tests of pipelines share: files of numbered records, and batches that are read as their
 * numbers or as their bytes. */
#ifndef TILTH_TESTS_DATA_PIPELINE_LAB_H
#define TILTH_TESTS_DATA_PIPELINE_LAB_H

#include "test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tilth/base/alloc.h>
#include <tilth/base/arena.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/data/pipeline.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <unistd.h>

#include "data/carry_over.h"
#include "engine.h"

static tl_engine *engine;
static tl_ctx *c;
static tl_arena *arena;
static char home[TEMPORARY_PATH];

static inline int open_lab(void **state)
{
    (void)state;
    temporary(home, "tilth-pipeline");
    assert_non_null(mkdtemp(home));
    assert_ok(test_engine_new(&engine, NULL, 1));
    return 0;
}

static inline int close_lab(void **state)
{
    (void)state;
    tl_engine_free(&engine);
    return remove_tree(home);
}

static inline int fresh(void **state)
{
    (void)state;
    assert_ok(tl_ctx_new(&c, engine));
    assert_ok(tl_arena_new(&arena));
    return 0;
}

static inline int stale(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    tl_arena_free(&arena);
    return 0;
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, fresh, stale)

static inline const char *in_home(const char *name)
{
    const char *path = tl_arena_printf(arena, "%s/%s", home, name);
    assert_non_null(path);
    return path;
}

/* --- files ------------------------------------------------------------------------------------ */

// An example with its id, and as many numbers as `words` says.
static inline void add_example(tl_str *out, int64_t id, int64_t words)
{
    float x[64];
    for (int64_t i = 0; i < words; i++) x[i] = (float)(id + i);
    tl_example_writer w = tl_example_begin(out);
    tl_example_add_ints(&w, "id", &id, 1);
    tl_example_add_floats(&w, "x", x, words);
    tl_example_add_text(&w, "name", "abc");
    assert_ok(tl_example_end(&w));
}

// Records first .. first + count - 1; lengths from 1 to 7.
static inline const char *write_file(const char *name, int64_t first, int64_t count, bool gzip)
{
    const char *path = in_home(name);
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, path, &(tl_tfrecord_writer_args){.gzip = gzip}));
    for (int64_t i = first; i < first + count; i++) {
        tl_str example = TL_STR_INIT;
        add_example(&example, i, 1 + i * 5 % 7);
        assert_ok(tl_tfrecord_write(w, example.data, example.length));
        tl_str_deinit(&example);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    return path;
}

static const tl_feature_spec features[] = {
    {.spec = {"id", TL_I64, {.rank = 0}}},
    {.spec = {"x", TL_F32, {.rank = 1, .dims = {-1}}}},
};
// The first ones of them.
static inline void *take_features(int64_t count)
{
    static tl_example_features lists[] = {{features, 0}, {features, 1}, {features, 2}};
    return &lists[count]; // not written here: a pipeline that runs ahead may be reading it
}

static inline tl_source *open_files(const char *const *paths, int64_t count)
{
    tl_source *s;
    assert_ok(tl_source_tfrecords(&s, paths, count, NULL));
    return s;
}

/* --- samples without files -------------------------------------------------------------------- */

static inline tl_status make_id(void *self, int64_t index, tl_sample *out)
{
    const int64_t *first = self;
    int64_t *id = tl_sample_add(out, "id", TL_I64, TL_SCALAR);
    if (!id) return TL_ENOMEM;
    *id = index + (first ? *first : 0);
    return TL_OK;
}

static inline tl_source *numbers(int64_t count)
{
    tl_source *s;
    assert_ok(tl_source_function(&s, make_id, NULL, count));
    return s;
}

static inline tl_source *numbers_from(int64_t *first, int64_t count)
{
    tl_source *s;
    assert_ok(tl_source_function(&s, make_id, first, count));
    return s;
}

/* Parts of these lengths; record r of part p has the id 100 p + r. */
typedef struct parted {
    tl_source base;
    int64_t lengths[16];
} parted;

static inline tl_status parted_length(tl_source *s, int64_t part, int64_t *records)
{
    *records = ((parted *)s)->lengths[part];
    return TL_OK;
}

static inline tl_status parted_read(tl_source *s, const tl_record_at *at, tl_sample *out)
{
    (void)s;
    int64_t first = 100 * at->part;
    return make_id(&first, at->number, out);
}

static const tl_source_class parted_class = {
    .name = "parted",
    .size = sizeof(parted),
    .length = parted_length,
    .read = parted_read,
};

static inline tl_source *parts(int64_t count, const int64_t *lengths)
{
    tl_source *s;
    assert_ok(tl_source_new(&s, &parted_class));
    s->parts = count;
    for (int64_t i = 0; i < count; i++) ((parted *)s)->lengths[i] = lengths[i];
    return s;
}
#define PARTS(...) parts(TL_COUNT(((const int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__})

/* --- reading ---------------------------------------------------------------------------------- */

static inline tl_dataset *make(tl_source *source, tl_pipeline_args args)
{
    tl_dataset *d = NULL;
    if (!args.sources) {
        args.sources = &source;
        args.source_count = 1;
    }
    if (!args.batch_size) args.batch_size = 4;
    assert_ok(tl_pipeline_new(&d, &args));
    return d;
}
#define PIPELINE(source, ...) make(source, (tl_pipeline_args){__VA_ARGS__})

enum { MOST = 4096 };
typedef struct stream {
    int64_t ids[MOST], count, sizes[MOST], batches;
} stream;

// The ids of the next batch; -1: the pass is over.
static inline int64_t take(tl_dataset *d, int64_t *out)
{
    tl_batch b = {.ctx = c};
    bool more;
    tl_mark mark = tl_ctx_begin(c);
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    int64_t n = -1;
    if (more) {
        n = tl_batch_size(&b);
        const tl_tensor *id = tl_batch_get(&b, "id");
        assert_true(id && id->contiguous && id->dtype == TL_I64 && id->shape.rank == 1);
        assert_ok(tl_tensor_get(id, out, (size_t)n * sizeof *out));
    } else {
        assert_int_equal(b.tensors.count, 0);
    }
    tl_ctx_end(c, mark);
    return n;
}

static inline void read_stream(stream *s, tl_dataset *d, int64_t most)
{
    memset(s, 0, sizeof *s);
    for (int64_t n; s->batches < most && (n = take(d, s->ids + s->count)) >= 0;) {
        s->sizes[s->batches++] = n;
        s->count += n;
    }
}

// Everything that a batch holds, as text of a kind: names, types, shapes and bytes.
static inline bool read_bytes(tl_str *out, tl_dataset *d)
{
    tl_tensors batch = {0};
    bool more;
    tl_mark mark = tl_ctx_begin(c);
    assert_ok(tl_dataset_next(d, c, &batch, &more));
    for (int64_t i = 0; i < batch.count; i++) {
        char spec[TL_TENSOR_TEXT];
        tl_lease l;
        tl_str_addf(out, "%s %s ", batch.items[i].name,
                    tl_tensor_spec(spec, batch.items[i].tensor));
        assert_ok(tl_lease_read(&l, batch.items[i].tensor));
        if (tl_tensor_bytes(batch.items[i].tensor))
            tl_str_addn(out, l.data, tl_tensor_bytes(batch.items[i].tensor));
        assert_ok(tl_lease_end(&l));
    }
    tl_ctx_end(c, mark);
    assert_ok(tl_str_status(out));
    return more;
}

static inline int64_t read_many(tl_str *out, tl_dataset *d, int64_t most)
{
    int64_t n = 0;
    while (n < most && read_bytes(out, d)) n++;
    return n;
}

static inline void assert_same(const tl_str *a, const tl_str *b)
{
    assert_int_equal(a->length, b->length);
    if (a->length) assert_memory_equal(a->data, b->data, a->length);
}

static inline void assert_ids(tl_dataset *d, const int64_t *ids, int64_t count)
{
    static stream s;
    read_stream(&s, d, MOST);
    assert_int_equal(s.count, count);
    for (int64_t i = 0; i < count; i++) assert_int_equal(s.ids[i], ids[i]);
    tl_dataset_free(&d);
}
#define ASSERT_IDS(d, ...)                                                                         \
    assert_ids(d, (const int64_t[]){__VA_ARGS__}, TL_COUNT(((const int64_t[]){__VA_ARGS__})))

static inline int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Every number from 0 to count - 1 once.
static inline void assert_each_once(int64_t *ids, int64_t found, int64_t count)
{
    assert_int_equal(found, count);
    qsort(ids, (size_t)found, sizeof *ids, compare_ids);
    for (int64_t i = 0; i < count; i++) assert_int_equal(ids[i], i);
}

#endif
