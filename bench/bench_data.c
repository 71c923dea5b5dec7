/* Input: records that are read and parsed, and photos that are decoded, cut, flipped, resized and
 * normalised, in batches.
 *
 * The data is made up when the program starts: photos are smooth noise in JPEG files of about 500 x
 * 375 pixels, in TFRecords as ImageNet has them and beside them as files. The peers are tf.data
 * (bench/peers/data_tf.py) and a DataLoader of PyTorch with PIL (bench/peers/data.py), on as many
 * threads or workers, on the same bytes. A sample is a whole pass. */
#include "bench.h"
#include "photos.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/pool.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/data/image.h>
#include <tilth/data/pipeline.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/zoo/vision.h>

enum {
    CLICKS = 131072,
    SENTENCES = 32768,
    TOKENS = 128,
    VOCABULARY = 30522,
    RECORD_BATCH = 256,
    PHOTOS = 1024,
    PHOTO_BATCH = 64,
    PHOTO_SIZE = 224,
    CLASSES = 1000,
    PATH = BENCH_FOLDER + 64
};

/* --- files ------------------------------------------------------------------------------------ */

typedef void make_example_fn(tl_example_writer *w, tl_rng *rng, int64_t index);

/* What a shop knows of a click. */
static void make_click(tl_example_writer *w, tl_rng *rng, int64_t index)
{
    int64_t ids[3] = {index, tl_rng_below(rng, 1000000), tl_rng_below(rng, 50000)},
            label = tl_rng_below(rng, 2);
    float scores[8], price = 100 * tl_rng_uniform_f32(rng);
    for (int i = 0; i < 8; i++) scores[i] = tl_rng_normal_f32(rng);
    tl_example_add_ints(w, "user", &ids[1], 1);
    tl_example_add_ints(w, "item", &ids[2], 1);
    tl_example_add_ints(w, "time", &ids[0], 1);
    tl_example_add_floats(w, "price", &price, 1);
    tl_example_add_floats(w, "scores", scores, 8);
    tl_example_add_ints(w, "label", &label, 1);
}

/* A sentence as Model Garden's tasks of language have it. */
static void make_sentence(tl_example_writer *w, tl_rng *rng, int64_t index)
{
    int64_t ids[TOKENS] = {0}, mask[TOKENS] = {0}, segments[TOKENS] = {0};
    int64_t length = 16 + tl_rng_below(rng, TOKENS - 16), second = length / 2;
    for (int64_t i = 0; i < length; i++) {
        ids[i] = tl_rng_below(rng, VOCABULARY);
        mask[i] = 1;
        segments[i] = i >= second;
    }
    tl_example_add_ints(w, "input_ids", ids, TOKENS);
    tl_example_add_ints(w, "input_mask", mask, TOKENS);
    tl_example_add_ints(w, "segment_ids", segments, TOKENS);
    tl_example_add_ints(w, "label_ids", &(int64_t){index % 3}, 1);
}

static tl_status write_examples(const char *path, make_example_fn *make, int64_t count)
{
    tl_str text = TL_STR_INIT;
    tl_tfrecord_writer *out = NULL;
    tl_rng rng;
    tl_status st;
    tl_rng_init(&rng, 1);
    TL_TRY(tl_tfrecord_writer_begin(&out, path, NULL));
    for (int64_t i = 0; i < count; i++) {
        tl_str_cut(&text, 0);
        tl_example_writer w = tl_example_begin(&text);
        make(&w, &rng, i);
        TL_TRY_DONE(st, tl_example_end(&w));
        TL_TRY_DONE(st, tl_tfrecord_write(out, text.data, text.length));
    }
    st = tl_tfrecord_writer_commit(&out);
done:
    tl_tfrecord_writer_abort(&out);
    tl_str_deinit(&text);
    return st;
}

/* --- passes ----------------------------------------------------------------------------------- */

typedef struct work {
    tl_engine *engine;
    tl_ctx *c;
    tl_arena *arena; /* of the data's configuration */
    tl_dataset *data;
    int64_t batches, examples; /* of a pass, of a batch */
    char folder[BENCH_FOLDER];
} work;

static void fail_hard(void)
{
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

/* A whole pass from its beginning, so that nothing was prepared before the clock ran. */
static void run_pass(void *payload)
{
    work *w = payload;
    if (tl_dataset_rewind(w->data) != TL_OK) fail_hard();
    for (int64_t i = 0; i < w->batches; i++) {
        tl_mark mark = tl_ctx_begin(w->c);
        tl_tensors batch = {0};
        bool more = true;
        if (tl_dataset_next(w->data, w->c, &batch, &more) != TL_OK) fail_hard();
        if (!more || batch.items[0].tensor->shape.dims[0] != w->examples)
            abort(); // nothing is left out
        tl_ctx_end(w->c, mark);
    }
}

static tl_status open_examples(work *w, const char *path, const tl_example_features *features,
                               int64_t count)
{
    tl_source *files;
    TL_TRY(tl_source_tfrecords(&files, &path, 1, NULL));
    w->batches = count / RECORD_BATCH;
    w->examples = RECORD_BATCH;
    return tl_pipeline_new(
        &w->data, &(tl_pipeline_args){.sources = &files,
                                      .source_count = 1,
                                      .decode = {tl_example_decode, (void *)(uintptr_t)features},
                                      .batch_size = RECORD_BATCH});
}

/* What the task of image classification trains on: Model Garden's augmentation. */
static tl_status open_photos(work *w)
{
    static const int64_t size[] = {PHOTO_SIZE, PHOTO_SIZE, 3};
    tl_image_data_config *d = tl_arena_alloc(w->arena, sizeof *d);
    char *paths = tl_arena_printf(w->arena, "%s/photos-*", w->folder);
    if (!d || !paths) return TL_ENOMEM;
    TL_TRY(tl_desc_defaults(w->arena, &tl_image_data_config_desc, d));
    d->base.input_path = tl_value_new_scalar(w->arena, (tl_place){0}, paths, true);
    if (!d->base.input_path) return TL_ENOMEM;
    d->base.is_training = (tl_opt_bool){true, true};
    d->base.global_batch_size = PHOTO_BATCH;
    d->base.shuffle_buffer_size = PHOTOS;
    w->batches = PHOTOS / PHOTO_BATCH;
    w->examples = PHOTO_BATCH;
    return tl_image_inputs(&w->data, &(tl_image_inputs_args){.data = d,
                                                             .size = {size, 3},
                                                             .num_classes = CLASSES,
                                                             .input = {1, 0, 1, 1},
                                                             .arena = w->arena});
}

/* --- cases ------------------------------------------------------------------------------------ */

static const tl_feature_spec click_features[] = {
    {.spec = {"user", TL_I64, {0}}},        {.spec = {"item", TL_I64, {0}}},
    {.spec = {"time", TL_I64, {0}}},        {.spec = {"price", TL_F32, {0}}},
    {.spec = {"scores", TL_F32, {1, {8}}}}, {.spec = {"label", TL_I64, {0}}},
};
static const tl_feature_spec sentence_features[] = {
    {.spec = {"input_ids", TL_I64, {1, {TOKENS}}}},
    {.spec = {"input_mask", TL_I64, {1, {TOKENS}}}},
    {.spec = {"segment_ids", TL_I64, {1, {TOKENS}}}},
    {.spec = {"label_ids", TL_I64, {0}}},
};

/* Closes the data. */
static tl_status run_case(bench *b, work *w, const bench_case *from)
{
    bench_case c = *from;
    c.ours = run_pass;
    c.payload = w;
    c.amount = (double)(w->batches * w->examples);
    c.rest_s = 0.3; // what a peer had in preparation ends
    c.sample_s = 0.2;
    c.rounds = 5;
    tl_status st = bench_run(b, &c);
    tl_dataset_free(&w->data);
    return st;
}

static tl_status run_records(bench *b, work *w, bench_peer *tensorflow)
{
    static const struct {
        const char *name, *file;
        make_example_fn *make;
        int64_t count;
        tl_example_features features;
    } cases[] = {
        {"records of 13 numbers",
         "clicks",
         make_click,
         CLICKS,
         {click_features, TL_COUNT(click_features)}},
        {"records of 3 x 128 tokens",
         "sentences",
         make_sentence,
         SENTENCES,
         {sentence_features, TL_COUNT(sentence_features)}},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        char path[PATH];
        if (!bench_wants(b, cases[i].name)) continue;
        snprintf(path, sizeof path, "%s/%s", w->folder, cases[i].file);
        TL_TRY(write_examples(path, cases[i].make, cases[i].count));
        TL_TRY(open_examples(w, path, &cases[i].features, cases[i].count));
        TL_TRY(run_case(b, w,
                        &(bench_case){.name = cases[i].name,
                                      .unit = "M/s",
                                      .program = tensorflow,
                                      .peer_name = "tf.data"}));
    }
    return TL_OK;
}

static tl_status run_photos(bench *b, work *w, bench_peer *tensorflow, bench_peer *torch)
{
    const bench_case cases[] = {
        {.name = "photos to 224", .unit = "/s", .program = tensorflow, .peer_name = "tf.data"},
        {.name = "photos to 224, beside PIL",
         .unit = "/s",
         .program = torch,
         .peer_name = "DataLoader, PIL"},
    };
    if (!bench_wants(b, cases[0].name) && !bench_wants(b, cases[1].name)) return TL_OK;
    tl_status st = photos_write(w->folder, PHOTOS, CLASSES);
    for (int64_t i = 0; st == TL_OK && i < TL_COUNT(cases); i++) {
        st = open_photos(w);
        if (st == TL_OK) st = run_case(b, w, &cases[i]);
    }
    return st;
}

int main(int argc, char **argv)
{
    bench b;
    work w = {0};
    bench_peer tensorflow = BENCH_PEER_INIT, torch = BENCH_PEER_INIT;
    char threads[16];
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_engine_new(&w.engine, &(tl_engine_args){.backend = &tl_backend_cpu}));
    TL_TRY_DONE(st, tl_ctx_new(&w.c, w.engine));
    TL_TRY_DONE(st, tl_arena_new(&w.arena));
    TL_TRY_DONE(st, bench_folder_make(w.folder));
    snprintf(threads, sizeof threads, "%d", tl_pool_default_threads());
    const char *const tf[] = {".venv-tf/bin/python", "bench/peers/data_tf.py", w.folder, threads,
                              NULL};
    const char *const pil[] = {".venv-torch/bin/python", "bench/peers/data.py", w.folder, threads,
                               NULL};
    TL_TRY_DONE(st, bench_peer_start(&tensorflow, tf));
    TL_TRY_DONE(st, bench_peer_start(&torch, pil));
    TL_TRY_DONE(st, run_records(&b, &w, &tensorflow));
    st = run_photos(&b, &w, &tensorflow, &torch);
done:
    tl_dataset_free(&w.data);
    bench_peer_stop(&tensorflow);
    bench_peer_stop(&torch);
    tl_arena_free(&w.arena);
    tl_ctx_free(&w.c);
    tl_engine_free(&w.engine);
    bench_folder_remove(w.folder);
    return bench_end(&b, st);
}
