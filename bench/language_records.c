/* Records of pre-training that become batches, as the task masked_lm reads them for an evaluation:
 * in order, parsed, as int32. A sample is a whole pass. The peers are Model Garden's loader and
 * plain tf.data (bench/peers/language_tf.py), the faster of them, on as many threads and the same
 * file. */
#include "language.h"

#include <stdlib.h>
#include <tilth/base/pool.h>
#include <tilth/tilth.h>

enum {
    RECORDS = 32768,
    BATCH = 256,
    TOKENS = 128,
    GUESSES = 20,
    WORDS = 30522,
    PATH = BENCH_FOLDER + 64
};

/* --- the file --------------------------------------------------------------------------------- */

static void draw(tl_rng *rng, tl_pretraining_example *e)
{
    e->count = 16 + tl_rng_below(rng, TOKENS - 16 + 1);
    e->first = e->count / 2;
    e->is_random = tl_rng_below(rng, 2);
    for (int64_t i = 0; i < e->count; i++) e->ids[i] = (int32_t)tl_rng_below(rng, WORDS);
    e->masked = e->count * 15 / 100;
    for (int64_t i = 0; i < e->masked; i++) {
        e->positions[i] = (int32_t)(i * e->count / e->masked);
        e->labels[i] = (int32_t)tl_rng_below(rng, WORDS);
    }
}

static tl_status write_records(const char *path)
{
    int32_t ids[TOKENS], positions[GUESSES], labels[GUESSES];
    tl_pretraining_example e = {.ids = ids, .positions = positions, .labels = labels};
    tl_pretraining_config k = {0};
    tl_arena *arena = NULL;
    tl_tfrecord_writer *out = NULL;
    tl_str text = TL_STR_INIT;
    tl_rng rng;
    tl_status st;
    tl_rng_init(&rng, 1);
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_desc_defaults(arena, &tl_pretraining_config_desc, &k));
    TL_TRY_DONE(st, tl_tfrecord_writer_begin(&out, path, NULL));
    for (int64_t i = 0; i < RECORDS; i++) {
        tl_str_cut(&text, 0);
        draw(&rng, &e);
        TL_TRY_DONE(st, tl_pretraining_encode(&text, &k, &e, false));
        TL_TRY_DONE(st, tl_tfrecord_write(out, text.data, text.length));
    }
    st = tl_tfrecord_writer_commit(&out);
done:
    tl_tfrecord_writer_abort(&out);
    tl_str_deinit(&text);
    tl_arena_free(&arena);
    return st;
}

/* --- passes ----------------------------------------------------------------------------------- */

typedef struct work {
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_ctx *c;
    tl_dataset *data;
} work;

static tl_status make(work *w, const char *path)
{
    char changes[4 * PATH];
    snprintf(changes, sizeof changes,
             "runtime.distribution_strategy=one_device,task.validation_data.input_path=%s,"
             "task.validation_data.seq_length=%d,task.validation_data.max_predictions_per_seq=%d,"
             "task.validation_data.global_batch_size=%d,task.model.encoder.bert.vocab_size=%d",
             path, TOKENS, GUESSES, BATCH, WORDS);
    tl_parse_options options = {
        .experiment = "bert/local", .strict_override = true, .params_override = changes};
    TL_TRY(tl_registry_new_builtin(&w->registry));
    TL_TRY(tl_experiment_parse(&w->config, w->registry, &options));
    const tl_experiment_config *e = tl_config_value(w->config);
    TL_TRY(tl_experiment_open(&w->strategy, &w->task, w->registry, e, NULL, 1));
    TL_TRY(tl_ctx_new(&w->c, tl_strategy_engine(w->strategy)));
    return tl_task_build_inputs(w->task, w->task->config->validation_data,
                                &(tl_input_context){1, 0, 1, 1}, &w->data);
}

static void unmake(work *w)
{
    tl_dataset_free(&w->data);
    tl_ctx_free(&w->c);
    tl_task_free(&w->task);
    tl_strategy_free(&w->strategy);
    tl_config_free(&w->config);
    tl_registry_free(&w->registry);
}

/* A whole pass from its beginning, so that nothing was prepared before the clock ran. */
static void run_pass(void *payload)
{
    work *w = payload;
    tl_status st = tl_dataset_rewind(w->data);
    for (int i = 0; i < RECORDS / BATCH && st == TL_OK; i++) {
        tl_mark mark = tl_ctx_begin(w->c);
        tl_tensors batch = {0};
        bool more = true;
        st = tl_dataset_next(w->data, w->c, &batch, &more);
        if (st == TL_OK && (!more || batch.items[0].tensor->shape.dims[0] != BATCH)) abort();
        tl_ctx_end(w->c, mark);
    }
    if (st == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

tl_status language_record_rows(bench *b, const char *folder)
{
    static const char name[] = "records of pre-training";
    bench_peer original = BENCH_PEER_INIT;
    char path[PATH], threads[16];
    work w = {0};
    tl_status st;
    if (!bench_wants(b, name)) return TL_OK;
    snprintf(path, sizeof path, "%s/records.tfrecord", folder);
    snprintf(threads, sizeof threads, "%d", tl_pool_default_threads());
    const char *const peer[] = {".venv-tf/bin/python", "bench/peers/language_tf.py", threads,
                                folder, NULL};
    TL_TRY_DONE(st, write_records(path));
    TL_TRY_DONE(st, make(&w, path));
    TL_TRY_DONE(st, bench_peer_start(&original, peer));
    st = bench_run(b, &(bench_case){.name = name,
                                    .unit = "/s",
                                    .amount = RECORDS,
                                    .ours = run_pass,
                                    .payload = &w,
                                    .program = &original,
                                    .peer_name = "best of tf.data",
                                    .rest_s = 0.3, // what a peer had in preparation ends
                                    .sample_s = 0.2,
                                    .rounds = 5});
done:
    bench_peer_stop(&original);
    unmake(&w);
    return st;
}
