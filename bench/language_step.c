/* Steps of BERT's pre-training (bert/pretraining: hidden words and next sentences, dropout,
 * gradients cut to a norm, AdamW) as the trainer makes them, on one batch over and over, against
 * the best of PyTorch's ways (bench/peers/language_torch.py) and Model Garden itself
 * (bench/peers/language_tf.py), and against the time that their multiply-adds alone would take. */
#include "language.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/pool.h>

#include "limits.h"
#include "memory.h"
#include "training.h"

enum { NAME = 64, COMMAND = 512, MEMORY_STEPS = 3 };

typedef struct bert_size {
    int64_t layers, size, heads, words, length, batch, predictions;
} bert_size;

/* The small ones are where the calls around the arithmetic show; the last is BERT-base. */
static const bert_size sizes[] = {
    {2, 32, 2, 100, 32, 1, 5},
    {2, 128, 2, 1000, 32, 8, 5},
    {2, 128, 2, 30522, 128, 8, 20},
    {12, 768, 12, 30522, 128, 8, 20},
};

static const char *name_of(char out[NAME], const bert_size *z, bool half)
{
    snprintf(out, NAME,
             "bert L%" PRId64 " C%" PRId64 " H%" PRId64 " V%" PRId64 " T%" PRId64 " B%" PRId64
             " P%" PRId64 " %s",
             z->layers, z->size, z->heads, z->words, z->length, z->batch, z->predictions,
             half ? "bf16" : "f32");
    return out;
}

/* Of the products, both ways: each multiplies and adds once ahead and twice back. */
static double flops_of(const bert_size *z)
{
    const double tokens = (double)(z->batch * z->length), size = (double)z->size,
                 guesses = (double)(z->batch * z->predictions);
    const double layer = 12 * size * size + 2 * (double)z->length * size;
    const double head = size * size + size * (double)z->words;
    return 6 * (tokens * (double)z->layers * layer + guesses * head);
}

/* --- a batch ---------------------------------------------------------------------------------- */

static void fill(int32_t *to, int64_t count, tl_rng *rng, int64_t from, int64_t below)
{
    for (int64_t i = 0; i < count; i++) to[i] = (int32_t)(from + tl_rng_below(rng, below - from));
}

static tl_status make_batch(tl_dataset **out, const bert_size *z)
{
    const int64_t words = z->batch * z->length, guesses = z->batch * z->predictions;
    const tl_shape whole = TL_SHAPE(z->batch, z->length), few = TL_SHAPE(z->batch, z->predictions);
    int32_t *ids = calloc((size_t)words, sizeof *ids), *mask = calloc((size_t)words, sizeof *mask),
            *types = calloc((size_t)words, sizeof *types),
            *places = calloc((size_t)guesses, sizeof *places),
            *labels = calloc((size_t)guesses, sizeof *labels),
            *next = calloc((size_t)z->batch, sizeof *next);
    float *weights = calloc((size_t)guesses, sizeof *weights);
    tl_status st = TL_ENOMEM;
    tl_rng rng;
    tl_rng_init(&rng, 1);
    if (ids && mask && types && places && labels && next && weights) {
        fill(ids, words, &rng, 5, z->words);
        fill(places, guesses, &rng, 1, z->length);
        fill(labels, guesses, &rng, 5, z->words);
        fill(next, z->batch, &rng, 0, 2);
        for (int64_t i = 0; i < words; i++) {
            mask[i] = 1;
            types[i] = i % z->length >= z->length / 2;
        }
        for (int64_t i = 0; i < guesses; i++) weights[i] = 1;
        const tl_array arrays[] = {
            {"input_word_ids", TL_I32, whole, ids},
            {"input_mask", TL_I32, whole, mask},
            {"input_type_ids", TL_I32, whole, types},
            {"masked_lm_positions", TL_I32, few, places},
            {"masked_lm_ids", TL_I32, few, labels},
            {"masked_lm_weights", TL_F32, few, weights},
            {"next_sentence_labels", TL_I32, TL_SHAPE(z->batch, 1), next},
        };
        st = tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                           .count = TL_COUNT(arrays),
                                                           .copy = true,
                                                           .repeat = true,
                                                           .batch_size = z->batch});
    }
    free(ids);
    free(mask);
    free(types);
    free(places);
    free(labels);
    free(next);
    free(weights);
    return st;
}

/* --- training --------------------------------------------------------------------------------- */

static tl_status make(training *t, const bert_size *z, bool half)
{
    char changes[1024];
    tl_dataset *data;
    snprintf(
        changes, sizeof changes,
        "task:\n"
        "  model:\n"
        "    encoder: {bert: {num_layers: %" PRId64 ", hidden_size: %" PRId64
        ", intermediate_size: %" PRId64 ", num_attention_heads: %" PRId64 ", vocab_size: %" PRId64
        "}}\n"
        "    cls_heads:\n"
        "    - {inner_dim: %" PRId64 ", num_classes: 2, dropout_rate: 0.1, name: next_sentence}\n"
        "  train_data: {seq_length: %" PRId64 ", max_predictions_per_seq: %" PRId64 "}\n"
        "trainer:\n"
        "  optimizer_config:\n"
        "    learning_rate: {polynomial: {decay_steps: 1000000}}\n"
        "    warmup: {polynomial: {warmup_steps: 10000}}\n",
        z->layers, z->size, 4 * z->size, z->heads, z->words, z->size, z->length, z->predictions);
    TL_TRY(make_batch(&data, z));
    return training_make(t, &(training_args){.experiment = "bert/pretraining",
                                             .changes = changes,
                                             .batch_size = z->batch,
                                             .half = half,
                                             .data = data});
}

static tl_status run_case(bench *b, const bert_size *z, bool half, const bench_case *cases,
                          int64_t count)
{
    training t = {.steps = 1};
    tl_status st = make(&t, z, half);
    for (int i = 0; st == TL_OK && i < 3; i++) training_run(&t); // captured, compiled, warm
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        bench_case c = cases[i];
        c.unit = "ms";
        c.ours = training_run;
        c.payload = &t;
        c.rest_s = 0.01;
        c.sample_s = 0.1;
        c.rounds = 5;
        st = bench_run(b, &c);
    }
    if (st == TL_OK) training_show(&t);
    training_deinit(&t);
    return st;
}

tl_status language_step_rows(bench *b)
{
    bench_peer torch = BENCH_PEER_INIT, original = BENCH_PEER_INIT;
    bench_limits most = {0};
    char threads[16], name[NAME], beside[NAME + 32];
    tl_pool *pool = NULL;
    tl_status st = TL_OK;
    bool begun = false;
    snprintf(threads, sizeof threads, "%d", tl_pool_default_threads());
    const char *const with_torch[] = {".venv-torch/bin/python", "bench/peers/language_torch.py",
                                      threads, NULL};
    const char *const with_tf[] = {".venv-tf/bin/python", "bench/peers/language_tf.py", threads,
                                   NULL};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) {
        for (int half = 0; half < 2; half++) {
            name_of(name, &sizes[i], half);
            snprintf(beside, sizeof beside, "%s, beside Model Garden", name);
            if (!bench_wants(b, name) && !bench_wants(b, beside)) continue;
            if (!begun) {
                TL_TRY_DONE(st, tl_pool_new(&pool, 0));
                TL_TRY_DONE(st, bench_limits_measure(&most, pool));
                TL_TRY_DONE(st, bench_peer_start(&torch, with_torch));
                TL_TRY_DONE(st, bench_peer_start(&original, with_tf));
                begun = true;
            }
            const double limit = flops_of(&sizes[i]) / (half ? most.half_flops : most.flops) * 1e-6;
            const bench_case cases[] = {
                {.name = name, .program = &torch, .peer_name = "best of PyTorch", .limit = limit},
                {.name = beside, .program = &original, .peer_name = "Model Garden"},
            };
            TL_TRY_DONE(st, run_case(b, &sizes[i], half, cases, half ? 1 : TL_COUNT(cases)));
        }
    }
done:
    bench_peer_stop(&torch);
    bench_peer_stop(&original);
    tl_pool_free(&pool);
    return st;
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status train(const bert_size *z, bool half, double *peak_mb)
{
    training t = {.steps = 1};
    tl_status st = make(&t, z, half);
    for (int i = 0; i < MEMORY_STEPS && st == TL_OK; i++) training_run(&t);
    *peak_mb = memory_peak_mb();
    training_deinit(&t);
    return st;
}

/* After all is loaded that is loaded once: the smallest model has been trained. */
tl_status language_step_memory(const char *wanted)
{
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) {
        for (int half = 0; half < 2; half++) {
            char name[NAME];
            double peak;
            if (strcmp(name_of(name, &sizes[i], half), wanted) != 0) continue;
            TL_TRY(train(&sizes[0], half, &peak));
            memory_peak_begin();
            double before = memory_now_mb();
            TL_TRY(train(&sizes[i], half, &peak));
            printf("%.1f\n", peak - before);
            return TL_OK;
        }
    }
    return TL_FAIL(TL_ENOTFOUND, "there is no step '%s'", wanted);
}

tl_status language_memory_rows(const bench *b, const char *program)
{
    for (int64_t i = 1; i < TL_COUNT(sizes); i++) {
        for (int half = 0; half < 2; half++) {
            char name[NAME], title[NAME + 16], ours[COMMAND], peer[COMMAND];
            name_of(name, &sizes[i], half);
            snprintf(title, sizeof title, "memory of %s", name);
            if (!bench_wants(b, title)) continue;
            snprintf(ours, sizeof ours, "'%s' --memory '%s'", program, name);
            snprintf(peer, sizeof peer,
                     ".venv-torch/bin/python bench/peers/language_torch.py --memory '%s' 2>"
                     "/dev/null",
                     name);
            memory_compare(name, ours, peer);
        }
    }
    return TL_OK;
}
