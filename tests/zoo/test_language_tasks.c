/* Tasks of language: losses, steps and scores against numbers that Model Garden's gave. */
#include "zoo/language_lab.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/nn/schedule.h>
#include <tilth/ops/create.h>

#include "zoo/language/data.h"
#include "zoo/language/scores.h"

/* --- records ---------------------------------------------------------------------------------- */

static void add_ints(tl_example_writer *w, const char *name, const int32_t *from, int count)
{
    int64_t wide[16];
    for (int i = 0; i < count; i++) wide[i] = from[i];
    tl_example_add_ints(w, name, wide, count);
}

typedef struct names {
    const char *words, *types;
} names;

/* The two examples of the numbers below, `times` times. */
static void write_records(const char *path, names n, int times)
{
    static const int32_t hidden[] = {6, 0, 10, 6}, next[] = {0, 1}, labels[] = {1, 2};
    static const float weights[] = {1, 0, 1, 1};
    tl_tfrecord_writer *out;
    assert_ok(tl_tfrecord_writer_begin(&out, path, NULL));
    for (int k = 0; k < 2 * times; k++) {
        const int i = k % 2;
        tl_str text = TL_STR_INIT;
        tl_example_writer w = tl_example_begin(&text);
        add_ints(&w, n.words, ids + 6 * i, 6);
        add_ints(&w, "input_mask", mask + 6 * i, 6);
        add_ints(&w, n.types, types + 6 * i, 6);
        add_ints(&w, "masked_lm_positions", positions + 2 * i, 2);
        add_ints(&w, "masked_lm_ids", hidden + 2 * i, 2);
        tl_example_add_floats(&w, "masked_lm_weights", weights + 2 * i, 2);
        add_ints(&w, "next_sentence_labels", next + i, 1);
        add_ints(&w, "label_ids", labels + i, 1);
        assert_ok(tl_example_end(&w));
        assert_ok(tl_tfrecord_write(out, tl_str_text(&text), text.length));
        tl_str_deinit(&text);
    }
    assert_ok(tl_tfrecord_writer_commit(&out));
}

static const names first_names = {"input_ids", "segment_ids"},
                   second_names = {"input_word_ids", "input_type_ids"};

static void check_weights(tl_model *m, const char *path, int64_t from, const double *want,
                          int count)
{
    double have[256];
    const tl_param *p = tl_model_find(m, path);
    assert_non_null(p);
    const int64_t all = tl_tensor_count(p->tensor);
    assert_true(all <= 256);
    assert_ok(tl_tensor_get_doubles(p->tensor, have, all));
    for (int i = 0; i < count; i++)
        if (!(fabs(have[from + i] - want[i]) < 3e-6))
            fail_msg("%s[%lld] is %.7g and should be %.7g", path, (long long)from + i,
                     have[from + i], want[i]);
}
#define CHECK_WEIGHTS(m, path, from, ...)                                                          \
    check_weights(m, path, from, (const double[]){__VA_ARGS__},                                    \
                  (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* --- masked_lm -------------------------------------------------------------------------------- */

#define PRETRAINING_TASK(encoder, data)                                                            \
    "task:\n"                                                                                      \
    "  model:\n"                                                                                   \
    "    encoder: {type: " encoder ", " encoder ": {" SIZES "}}\n"                                 \
    "    cls_heads: [{inner_dim: 4, dropout_rate: 0}]\n"                                           \
    "  train_data: {input_path: two.tfrecord, global_batch_size: 2, " data "}\n"                   \
    "  validation_data: {input_path: dummy}\n"
#define PRETRAINING(encoder, data)                                                                 \
    PRETRAINING_TASK(encoder, data)                                                                \
    "trainer:\n"                                                                                   \
    "  optimizer_config:\n"                                                                        \
    "    learning_rate: {polynomial: {initial_learning_rate: 0.01, decay_steps: 10}}\n"            \
    "    warmup: {polynomial: {warmup_steps: 2}}\n"

/* Pairs: a step, and the rate that it has. */
static void check_rates(const lab_run *r, const double (*pairs)[2], int count)
{
    const tl_trainer_config *k = r->params->trainer.value;
    for (int i = 0; i < count; i++) {
        double rate;
        assert_ok(
            tl_schedule_rate(&rate, r->task->engine, &k->optimizer_config, (int64_t)pairs[i][0]));
        if (!(fabs(rate - pairs[i][1]) <= 1e-6 * pairs[i][1]))
            fail_msg("step %g: rate %.9g and not %.9g", pairs[i][0], rate, pairs[i][1]);
    }
}

/* Three steps of two examples, with the encoder's pooler left alone. */
static void check_three_steps(const char *experiment, const char *yaml)
{
    static const double losses[] = {2.8410592, 2.8037224, 2.770202},
                        next_rates[] = {.004, .008, .007};
    lab_run r;
    lab_train(&r, experiment, yaml);
    put_pretrainer_rules(r.trainer->model);
    for (int i = 0; i < 3; i++) {
        double loss, accuracy, rate;
        assert_ok(tl_trainer_train(r.trainer, 1, r.logs));
        assert_ok(tl_logs_number(&loss, r.logs, "training_loss"));
        assert_ok(tl_logs_number(&accuracy, r.logs, "masked_lm_accuracy"));
        if (!(fabs(loss - losses[i]) < 3e-6)) fail_msg("step %d: loss %.7f", i, loss);
        assert_ok(tl_logs_number(&rate, r.logs, "learning_rate"));
        assert_true(fabs(rate - next_rates[i]) < 1e-8);
        if (i == 0) assert_true(fabs(accuracy - 1. / 3) < 1e-6);
        if (i == 0) {
            double words, next, right;
            assert_ok(tl_logs_number(&words, r.logs, "lm_example_loss"));
            assert_ok(tl_logs_number(&next, r.logs, "next_sentence_loss"));
            assert_ok(tl_logs_number(&right, r.logs, "next_sentence_accuracy"));
            assert_true(fabs(words - 2.1449237) < 3e-6 && fabs(next - .6961356) < 3e-6);
            assert_true(right == 0.5);
        }
        tl_logs_clear(r.logs);
    }
    check_rates(&r, (const double[][2]){{0, .004}, {1, .004}, {2, .008}, {3, .007}}, 4);
    tl_model *m = r.trainer->model;
    CHECK_WEIGHTS(m, "encoder/word_embeddings/embeddings", 24, .073018, -.148364, -.296544,
                  -.29886);
    CHECK_WEIGHTS(m, "encoder/embeddings_layer_norm/gamma", 0, 1.282284, 1.214165, 1.022778,
                  .797096);
    CHECK_WEIGHTS(m, "encoder/layer_0/self_attention/query/kernel", 0, -.178499, -.273336, -.290394,
                  -.149734);
    CHECK_WEIGHTS(m, "masked_lm/bias", 0, -.010686, .181305, .280484);
    CHECK_WEIGHTS(m, "encoder/pooler_transform/kernel", 0, 0.3 * sin(42), 0.3 * sin(42.7));
    lab_end(&r);
}

/* How far a step moves the weights, all together. */
static double step_of(lab_run *r, double *loss)
{
    double sum = 0, *from[64], to[256];
    tl_model *m = r->trainer->model;
    const int64_t count = tl_model_param_count(m);
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++) {
        const tl_tensor *t = tl_model_param(m, i)->tensor;
        from[i] = calloc((size_t)tl_tensor_count(t), sizeof **from);
        assert_ok(tl_tensor_get_doubles(t, from[i], tl_tensor_count(t)));
    }
    assert_ok(tl_trainer_train(r->trainer, 1, r->logs));
    assert_ok(tl_logs_number(loss, r->logs, "training_loss"));
    for (int64_t i = 0; i < count; i++) {
        const tl_tensor *t = tl_model_param(m, i)->tensor;
        assert_true(tl_tensor_count(t) <= TL_COUNT(to));
        assert_ok(tl_tensor_get_doubles(t, to, tl_tensor_count(t)));
        for (int64_t k = 0; k < tl_tensor_count(t); k++)
            sum += (to[k] - from[i][k]) * (to[k] - from[i][k]);
        free(from[i]);
    }
    return sqrt(sum);
}

#define PLAIN_SGD(more)                                                                            \
    "trainer:\n"                                                                                   \
    "  optimizer_config:\n"                                                                        \
    "    optimizer: {type: sgd, sgd: {" more "}}\n"                                                \
    "    learning_rate: {type: constant, constant: {learning_rate: 1}}\n"                          \
    "    warmup: {type: null}\n"

/* With a rate of 1 a step is as long as the gradient. */
static void test_the_gradient_is_as_long_as_the_originals(void **state)
{
    (void)state;
    lab_run r;
    double loss;
    write_records("two.tfrecord", first_names, 1);
    lab_train(&r, "bert/pretraining",
              PRETRAINING_TASK("bert", "seq_length: 6, max_predictions_per_seq: 2") PLAIN_SGD(""));
    put_pretrainer_rules(r.trainer->model);
    const double norm = step_of(&r, &loss);
    if (!(fabs(norm - 1.3612304) < 3e-6)) fail_msg("norm %.7f", norm);
    lab_end(&r);
}

/* The rates of the configuration that ships. */
static void test_wiki_books_has_the_originals_rates(void **state)
{
    (void)state;
    static const double rates[][2] = {{0, 9.9e-9},        {1, 9.9e-9},     {5000, 4.95e-5},
                                      {9999, 9.89901e-5}, {10000, 9.9e-5}, {500000, 5e-5}};
    lab_run r;
    char *yaml;
    assert_ok(tl_file_read(&yaml, NULL,
                           TEST_DATA "/../configs/nlp/bert/experiments/wiki_books_pretrain.yaml",
                           1 << 16));
    lab_begin(&r, "bert/pretraining", yaml);
    check_rates(&r, rates, TL_COUNT(rates));
    lab_end(&r);
    tl_free(yaml);
}

static void test_three_steps_of_pretraining_are_the_originals(void **state)
{
    (void)state;
    write_records("two.tfrecord", first_names, 1);
    check_three_steps("bert/pretraining", PRETRAINING("bert", "seq_length: 6, "
                                                              "max_predictions_per_seq: 2"));
    write_records("two.tfrecord", second_names, 1);
    check_three_steps("bert/pretraining",
                      PRETRAINING("bert_v2", "seq_length: 6, max_predictions_per_seq: 2, "
                                             "use_v2_feature_names: true"));
}

/* Both sequences are of the same bucket, which fills them up: what is masked changes nothing. */
static void test_batches_by_length_compute_the_same(void **state)
{
    (void)state;
    write_records("two.tfrecord", first_names, 1);
    check_three_steps("bert/pretraining_dynamic",
                      PRETRAINING("bert", "seq_bucket_lengths: [4, 7, 8]"));
}

static void test_a_sequence_that_is_too_long_is_named(void **state)
{
    (void)state;
    lab_run r;
    write_records("two.tfrecord", first_names, 1);
    lab_train(&r, "bert/pretraining",
              PRETRAINING("bert", "seq_length: 5, "
                                  "max_predictions_per_seq: 2"));
    assert_int_not_equal(tl_trainer_train(r.trainer, 1, r.logs), TL_OK);
    assert_non_null(strstr(tl_error_message(), "input_ids"));
    assert_non_null(strstr(tl_error_message(), "two.tfrecord"));
    lab_end(&r);
    lab_train(&r, "bert/pretraining_dynamic", PRETRAINING("bert", "seq_bucket_lengths: [4, 5]"));
    assert_int_not_equal(tl_trainer_train(r.trainer, 1, r.logs), TL_OK);
    lab_end(&r);
}

/* Zeros in all, and so no hidden word: the loss is that of next sentences, and attention is even
 * where all is masked. */
static void test_dummy_data_train(void **state)
{
    (void)state;
    lab_run r;
    double loss, words, next;
    lab_train(&r, "bert/local", NULL);
    assert_ok(tl_trainer_train(r.trainer, 2, r.logs));
    assert_ok(tl_logs_number(&loss, r.logs, "training_loss"));
    assert_ok(tl_logs_number(&words, r.logs, "lm_example_loss"));
    assert_ok(tl_logs_number(&next, r.logs, "next_sentence_loss"));
    assert_true(words == 0 && fabs(loss - next) < 1e-6 && loss > 0);
    lab_end(&r);
}

/* --- sentence_prediction ---------------------------------------------------------------------- */

static const char *const head[] = {"pooler_dense/kernel", "pooler_dense/bias", "logits/kernel",
                                   "logits/bias", NULL};

#define SENTENCES                                                                                  \
    "task:\n"                                                                                      \
    "  model: {num_classes: 3, encoder: {type: bert, bert: {" SIZES "}}}\n"                        \
    "  train_data: {input_path: two.tfrecord, global_batch_size: 2, seq_length: 6}\n"              \
    "  validation_data: {input_path: two.tfrecord, global_batch_size: 2, seq_length: 6}\n"

static void put_sentence_rules(tl_model *m)
{
    int i = put_rules(m, 0, "encoder/", tables);
    i = put_rules(m, i, "encoder/layer_0/", block);
    i = put_rules(m, i, "encoder/layer_1/", block);
    i = put_rules(m, i, "encoder/", pooler);
    assert_int_equal(put_rules(m, i, "sentence_prediction/", head), 43);
}

static void check_logits(const lab_run *r)
{
    static const double want[] = {-.275531, -.064966, .176154, -.275437, -.065039, .175948};
    static const char *const inputs[] = {"input_word_ids", "input_mask", "input_type_ids"};
    const int32_t *const values[] = {ids, mask, types};
    double have[6];
    tl_ctx *c;
    tl_tensors in = {0}, out = {0};
    assert_ok(tl_ctx_new(&c, r->task->engine));
    tl_mark begin = tl_ctx_begin(c);
    for (int i = 0; i < 3; i++)
        tl_tensors_put(c, &in, inputs[i], tl_from(c, TL_I32, TL_SHAPE(2, 6), values[i]));
    tl_call_all(c, r->trainer->model, &in, &out);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(tl_tensors_get(c, &out, "sentence_prediction"), have, 6));
    for (int i = 0; i < 6; i++)
        if (!(fabs(have[i] - want[i]) < 2e-6)) fail_msg("logits[%d] is %.7g", i, have[i]);
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
}

static void test_sentences_are_judged_as_the_original_does(void **state)
{
    (void)state;
    lab_run r;
    double loss;
    write_records("two.tfrecord", first_names, 1);
    lab_train(&r, "bert/sentence_prediction",
              SENTENCES "trainer:\n"
                        "  optimizer_config:\n"
                        "    learning_rate: {polynomial: {decay_steps: 10}}\n"
                        "    warmup: {polynomial: {warmup_steps: 2}}\n");
    put_sentence_rules(r.trainer->model);
    check_logits(&r);
    assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
    assert_ok(tl_logs_number(&loss, r.logs, "validation_loss"));
    if (!(fabs(loss - 1.005339) < 3e-6)) fail_msg("loss %.7f", loss);
    lab_end(&r);
}

/* The head drops a tenth. With this seed it drops what TensorFlow dropped when it gave the numbers
 * here: one of the eight values, the last one. */
static double sentence_step(const char *yaml)
{
    enum { SEED = 47 };
    lab_run r;
    double loss;
    lab_begin(&r, "bert/sentence_prediction", yaml);
    assert_ok(
        tl_create_trainer(&r.trainer, r.params, r.task, r.strategy, true, true, NULL, NULL, SEED));
    put_sentence_rules(r.trainer->model);
    const double moved = step_of(&r, &loss);
    if (!(fabs(loss - .9901267) < 3e-6)) fail_msg("loss %.7f", loss);
    lab_end(&r);
    return moved;
}

/* The gradient of the table of words is clipped before those of equal words are added up: what
 * clipping measures is longer than what the step then takes. */
static void test_words_that_come_twice_are_clipped_apart(void **state)
{
    (void)state;
    write_records("two.tfrecord", first_names, 1);
    const double all = sentence_step(SENTENCES PLAIN_SGD(""));
    if (!(fabs(all - .473446) < 3e-6)) fail_msg("norm %.7f", all);
    const double clipped = sentence_step(SENTENCES PLAIN_SGD("global_clipnorm: 0.1"));
    const double measured = 0.1 * all / clipped;
    if (!(fabs(measured - .475615) < 3e-6)) fail_msg("clipped by %.7f", measured);
}

static void test_scores_are_those_of_scikit_learn_and_scipy(void **state)
{
    (void)state;
    static const double labels[] = {1, 0, 1, 1, 0}, answers[] = {1, 1, 1, 0, 0},
                        a[] = {.1, .4, .35, .8}, b[] = {0, 1, 1, 3}, same[] = {1, 1, 1, 1, 1};
    double score;
    assert_true(fabs(tli_f1_score(labels, answers, 5) - 2. / 3) < 1e-12);
    assert_true(tli_f1_score(b, b, 1) == 0);
    assert_ok(tli_matthews_corrcoef(&score, labels, answers, 5));
    assert_true(fabs(score - 1. / 6) < 1e-12);
    assert_ok(tli_matthews_corrcoef(&score, labels, same, 5));
    assert_true(score == 0);
    assert_int_equal(tli_matthews_corrcoef(&score, (const double[]){-1}, b, 1), TL_EINVAL);
    assert_int_equal(tli_matthews_corrcoef(&score, b, (const double[]){1e18}, 1), TL_EINVAL);
    assert_int_equal(tli_matthews_corrcoef(&score, b, (const double[]){NAN}, 1), TL_EINVAL);
    assert_true(fabs(tli_pearson(a, b, 4) - .994237) < 1e-6);
    assert_true(isnan(tli_pearson(labels, same, 5)));
    assert_ok(tli_spearman(&score, a, b, 4));
    assert_true(fabs(score - .948683) < 1e-6);
}

#define SCORED(metric, classes) "task: {metric_type: " metric ", model: {num_classes: " classes "}}"

static void test_scores_fit_the_answers(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(lab_parse(&c, "sentence/local", SCORED("f1", "2")));
    tl_config_free(&c);
    assert_ok(lab_parse(&c, "sentence/local", SCORED("pearson_spearman_corr", "1")));
    tl_config_free(&c);
    assert_int_equal(lab_parse(&c, "sentence/local", SCORED("matthews_corrcoef", "1")), TL_EINVAL);
    assert_non_null(strstr(tl_error_message(), "metric_type"));
    assert_int_equal(lab_parse(&c, "sentence/local", SCORED("pearson_spearman_corr", "3")),
                     TL_EINVAL);
}

static void put_values(tl_model *m, const char *path, const double *values, int64_t count)
{
    const tl_param *p = tl_model_find(m, path);
    assert_non_null(p);
    assert_ok(tl_tensor_set_doubles(p->tensor, values, count));
}

/* All six answers are 1, and every second label is: three are right. Examples that only fill up the
 * last batch do not count. */
static void test_an_evaluation_has_its_score(void **state)
{
    (void)state;
    static const char *const metrics[] = {"f1", "matthews_corrcoef"};
    write_records("two.tfrecord", first_names, 3);
    for (int i = 0; i < 2; i++) {
        lab_run r;
        double score;
        char yaml[512];
        snprintf(yaml, sizeof yaml,
                 "task:\n"
                 "  metric_type: %s\n"
                 "  model: {num_classes: 3, encoder: {type: bert, bert: {" SIZES "}}}\n"
                 "  train_data: {seq_length: 6}\n"
                 "  validation_data: {input_path: two.tfrecord, global_batch_size: 4, seq_length: "
                 "6}\n",
                 metrics[i]);
        lab_train(&r, "sentence/local", yaml);
        put_values(r.trainer->model, "sentence_prediction/logits/kernel", (const double[12]){0},
                   12);
        put_values(r.trainer->model, "sentence_prediction/logits/bias", (const double[]){0, 5, 0},
                   3);
        assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
        assert_ok(tl_logs_number(&score, r.logs, metrics[i]));
        if (!(fabs(score - (i ? 0 : 2. / 3)) < 1e-12)) fail_msg("%s is %g", metrics[i], score);
        lab_end(&r);
    }
}

/* --- scores of chosen answers ----------------------------------------------------------------- */

enum { MOST_SCORED = 5 };

/* Examples that differ in their first word, so that a model can tell them apart. */
static void write_scored(const char *path, const double *labels, int count, bool numbers)
{
    tl_tfrecord_writer *out;
    assert_ok(tl_tfrecord_writer_begin(&out, path, NULL));
    for (int i = 0; i < count; i++) {
        const float number = (float)labels[i];
        const int32_t label = (int32_t)labels[i];
        int32_t words[6];
        tl_str text = TL_STR_INIT;
        tl_example_writer w = tl_example_begin(&text);
        memcpy(words, ids, sizeof words);
        words[0] = 2 + i;
        add_ints(&w, "input_ids", words, 6);
        add_ints(&w, "input_mask", mask + 6, 6);
        add_ints(&w, "segment_ids", types, 6);
        if (numbers) tl_example_add_floats(&w, "label_ids", &number, 1);
        else add_ints(&w, "label_ids", &label, 1);
        assert_ok(tl_example_end(&w));
        assert_ok(tl_tfrecord_write(out, tl_str_text(&text), text.length));
        tl_str_deinit(&text);
    }
    assert_ok(tl_tfrecord_writer_commit(&out));
}

/* What the last class gets for each of the examples. */
static void ask_scored(const lab_run *r, int classes, int count, double *out)
{
    int32_t words[6 * MOST_SCORED], all[6 * MOST_SCORED], kinds[6 * MOST_SCORED];
    double have[2 * MOST_SCORED];
    const tl_shape shape = TL_SHAPE(count, 6);
    tl_ctx *c;
    tl_tensors in = {0}, from = {0};
    for (int i = 0; i < 6 * count; i++) {
        words[i] = i % 6 ? ids[i % 6] : 2 + i / 6;
        all[i] = 1;
        kinds[i] = types[i % 6];
    }
    assert_ok(tl_ctx_new(&c, r->task->engine));
    tl_mark begin = tl_ctx_begin(c);
    tl_tensors_put(c, &in, "input_word_ids", tl_from(c, TL_I32, shape, words));
    tl_tensors_put(c, &in, "input_mask", tl_from(c, TL_I32, shape, all));
    tl_tensors_put(c, &in, "input_type_ids", tl_from(c, TL_I32, shape, kinds));
    tl_call_all(c, r->trainer->model, &in, &from);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(tl_tensors_get(c, &from, "sentence_prediction"), have,
                                    (int64_t)count * classes));
    for (int i = 0; i < count; i++) out[i] = have[(i + 1) * classes - 1];
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
}

static void put_logits(const lab_run *r, int classes, const double *weights)
{
    double kernel[8] = {0}, bias[2] = {0};
    for (int i = 0; i < 4; i++) kernel[(i + 1) * classes - 1] = weights[i];
    bias[classes - 1] = weights[4];
    put_values(r->trainer->model, "sentence_prediction/logits/kernel", kernel, 4 * classes);
    put_values(r->trainer->model, "sentence_prediction/logits/bias", bias, classes);
}

/* First words, and what is made of the first place, that are far from each other. */
static void tell_apart(const lab_run *r)
{
    double words[44] = {0}, same[16] = {0};
    for (int i = 0; i < MOST_SCORED; i++) {
        words[4 * (2 + i) + i % 4] = 3;
        if (i == 4) words[4 * (2 + i) + 1] = 3;
    }
    for (int i = 0; i < 4; i++) same[5 * i] = 1;
    put_values(r->trainer->model, "encoder/word_embeddings/embeddings", words, 44);
    put_values(r->trainer->model, "sentence_prediction/pooler_dense/kernel", same, 16);
}

/* Solves a x = b; x takes the place of b. */
static void solve(double a[MOST_SCORED][MOST_SCORED], double *b, int n)
{
    for (int i = 0; i < n; i++) {
        int best = i;
        for (int k = i; k < n; k++)
            if (fabs(a[k][i]) > fabs(a[best][i])) best = k;
        for (int k = 0; k < n; k++) {
            const double kept = a[i][k];
            a[i][k] = a[best][k];
            a[best][k] = kept;
        }
        const double kept = b[i];
        b[i] = b[best];
        b[best] = kept;
        assert_true(fabs(a[i][i]) > 1e-6);
        for (int k = 0; k < n; k++) {
            const double share = k == i ? 0 : a[k][i] / a[i][i];
            for (int m = i; m < n; m++) a[k][m] -= share * a[i][m];
            b[k] -= share * b[i];
        }
    }
    for (int i = 0; i < n; i++) b[i] /= a[i][i];
}

/* Gives the head the weights with which the examples get these answers. */
static void answer_with(const lab_run *r, int classes, const double *answers, int count)
{
    double a[MOST_SCORED][MOST_SCORED], weights[5] = {0}, column[MOST_SCORED];
    for (int j = 0; j < count; j++) {
        double one[5] = {0};
        one[j] = 1;
        put_logits(r, classes, one);
        ask_scored(r, classes, count, column);
        for (int i = 0; i < count; i++) a[i][j] = column[i];
    }
    memcpy(weights, answers, (size_t)count * sizeof *answers);
    solve(a, weights, count);
    put_logits(r, classes, weights);
}

static const struct {
    const char *metric, *score; /* metric_type, and what the logs call it */
    int classes, count;
    double labels[MOST_SCORED], answers[MOST_SCORED], want;
} scored[] = {
    {"pearson_spearman_corr",
     "pearson_spearman_corr",
     1,
     4,
     {0, 1, 1, 3},
     {.1, .4, .35, .8},
     .971460},
    {"accuracy", "validation_loss", 1, 4, {1, 3, 1, 3}, {2, 5, 2, 5}, 2.5},
    {"accuracy", "mean_squared_error", 1, 4, {1, 3, 1, 3}, {2, 5, 2, 5}, 2.5},
    {"matthews_corrcoef", "matthews_corrcoef", 2, 5, {1, 0, 1, 1, 0}, {1, 1, 1, -1, -1}, 1. / 6},
    {"f1", "f1", 2, 5, {1, 0, 1, 1, 0}, {1, 1, 1, -1, -1}, 2. / 3},
    // Of two classes the second has these shares: log(s / (1 - s)).
    {"accuracy",
     "auc",
     2,
     4,
     {0, 0, 1, 1},
     {-2.1972246, -.4054651, -.6190392, 1.3862944},
     .7972674},
};

/* Whole evaluations, whose last batch is filled up where there are five examples. */
static void test_evaluations_have_the_originals_scores(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(scored); i++) {
        lab_run r;
        double have;
        char yaml[512];
        snprintf(yaml, sizeof yaml,
                 "task:\n"
                 "  metric_type: %s\n"
                 "  model: {num_classes: %d, encoder: {type: bert, bert: {" SIZES "}}}\n"
                 "  train_data: {seq_length: 6}\n"
                 "  validation_data: {input_path: scored.tfrecord, global_batch_size: 4, "
                 "seq_length: 6, label_type: %s}\n",
                 scored[i].metric, scored[i].classes, scored[i].classes == 1 ? "float" : "int");
        write_scored("scored.tfrecord", scored[i].labels, scored[i].count, scored[i].classes == 1);
        lab_train(&r, "sentence/local", yaml);
        put_sentence_rules(r.trainer->model);
        tell_apart(&r);
        answer_with(&r, scored[i].classes, scored[i].answers, scored[i].count);
        assert_ok(tl_trainer_evaluate(r.trainer, -1, r.logs));
        assert_ok(tl_logs_number(&have, r.logs, scored[i].score));
        if (!(fabs(have - scored[i].want) < 1e-5 * scored[i].want))
            fail_msg("%s is %.7f and should be %.7f", scored[i].score, have, scored[i].want);
        lab_end(&r);
    }
}

/* --- texts ------------------------------------------------------------------------------------ */

static void write_texts(const char *path)
{
    static const char *const pairs[][2] = {{"The cat sat", "a dog ran on"}, {"dogs", "sat"}};
    tl_tfrecord_writer *out;
    assert_ok(tl_file_write_atomic(
        "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncat\nsat\na\ndog\nran\n##s\n", 50));
    assert_ok(tl_tfrecord_writer_begin(&out, path, NULL));
    for (int64_t i = 0; i < 2; i++) {
        tl_str text = TL_STR_INIT;
        tl_example_writer w = tl_example_begin(&text);
        for (int k = 0; k < 2; k++) {
            const tl_bytes bytes = {pairs[i][k], strlen(pairs[i][k])};
            tl_example_add_bytes(&w, k ? "second" : "first", &bytes, 1);
        }
        tl_example_add_ints(&w, "label", &i, 1);
        assert_ok(tl_example_end(&w));
        assert_ok(tl_tfrecord_write(out, tl_str_text(&text), text.length));
        tl_str_deinit(&text);
    }
    assert_ok(tl_tfrecord_writer_commit(&out));
}

#define TEXTS(data)                                                                                \
    "task:\n"                                                                                      \
    "  model: {num_classes: 2, encoder: {type: bert, bert: {" SIZES "}}}\n"                        \
    "  train_data: {input_path: texts.tfrecord, " data "}\n"                                       \
    "  validation_data: {input_path: texts.tfrecord, global_batch_size: 2, seq_length: 8, "        \
    "vocab_file: vocab.txt, text_fields: [first, second]}\n"

/* Both have five places for pieces: three of the first text and two of the second, in turn. */
static void test_texts_are_cut_and_packed(void **state)
{
    (void)state;
    static const double words[] = {2, 4, 5, 6, 3, 7, 8, 3, 2, 8, 10, 3, 6, 3, 0, 0},
                        kinds[] = {0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0};
    double have[16];
    lab_run r;
    tl_dataset *d;
    tl_ctx *c;
    tl_batch b = {0};
    bool more;
    write_texts("texts.tfrecord");
    lab_begin(&r, "bert/sentence_prediction_text", TEXTS("text_fields: [first]"));
    assert_ok(tl_task_build_inputs(r.task, r.task->config->validation_data,
                                   &(tl_input_context){.pipelines = 1, .replicas = 1}, &d));
    assert_ok(tl_ctx_new(&c, r.task->engine));
    tl_mark mark = tl_ctx_begin(c);
    b.ctx = c;
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    assert_true(more);
    assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, "input_word_ids"), have, 16));
    assert_memory_equal(have, words, sizeof have);
    assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, "input_type_ids"), have, 16));
    assert_memory_equal(have, kinds, sizeof have);
    assert_ok(tl_tensor_get_doubles(tl_batch_get(&b, "input_mask"), have, 16));
    for (int i = 0; i < 16; i++) assert_true(have[i] == (i < 14));
    tl_ctx_end(c, mark);
    tl_dataset_free(&d);
    tl_ctx_free(&c);
    lab_end(&r);
    int64_t lengths[] = {3, 4, 2};
    tli_round_robin(lengths, 3, 5);
    assert_true(lengths[0] == 2 && lengths[1] == 2 && lengths[2] == 1);
}

static void test_texts_say_what_they_lack(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *says;
    } all[] = {
        {TEXTS("vocab_file: vocab.txt"), "task.train_data.text_fields is empty"},
        {TEXTS("text_fields: [first]"), "task.train_data.vocab_file is empty"},
        {TEXTS("text_fields: [first], vocab_file: lost.txt"), "lost.txt"},
        {TEXTS("text_fields: [first], vocab_file: vocab.txt, seq_length: 2"), "no room"},
    };
    write_texts("texts.tfrecord");
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        lab_run r;
        tl_dataset *d;
        lab_begin(&r, "bert/sentence_prediction_text", all[i].yaml);
        assert_int_not_equal(
            tl_task_build_inputs(r.task, r.task->config->train_data,
                                 &(tl_input_context){.pipelines = 1, .replicas = 1}, &d),
            TL_OK);
        if (!strstr(tl_error_message(), all[i].says)) fail_msg("%s", tl_error_message());
        lab_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_three_steps_of_pretraining_are_the_originals),
        LAB_TEST(test_the_gradient_is_as_long_as_the_originals),
        LAB_TEST(test_wiki_books_has_the_originals_rates),
        LAB_TEST(test_batches_by_length_compute_the_same),
        LAB_TEST(test_a_sequence_that_is_too_long_is_named),
        LAB_TEST(test_dummy_data_train),
        LAB_TEST(test_sentences_are_judged_as_the_original_does),
        LAB_TEST(test_words_that_come_twice_are_clipped_apart),
        LAB_TEST(test_scores_are_those_of_scikit_learn_and_scipy),
        LAB_TEST(test_scores_fit_the_answers),
        LAB_TEST(test_an_evaluation_has_its_score),
        LAB_TEST(test_evaluations_have_the_originals_scores),
        LAB_TEST(test_texts_are_cut_and_packed),
        LAB_TEST(test_texts_say_what_they_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
