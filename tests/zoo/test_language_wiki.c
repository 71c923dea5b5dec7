/* bert/text_wiki_pretraining: texts become pairs of sentences with hidden words, as Model Garden's
 * loader makes them (tests/golden/text_wiki.py); positions are exact; what is wrong is named. And
 * the lengths of bert/pretraining_dynamic: batches of one bucket, gone on from anywhere. */
#include "zoo/zoo_lab.h"

#include <math.h>

#include <tilth/base/map.h>
#include <tilth/data/batch.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/zoo/language.h>

static const char vocab[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\nh\n##x\n##y\n.\n";
static const char *const documents[] = {"a b c .\n\nd e\r\nf g h a b c d e f g h a b c d e\n",
                                        "ax bxy c\nxx dy\n", "h"};

static void put(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

static void put_records(const char *path, const char *name)
{
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int i = 0; i < 3; i++) {
        tl_str record = TL_STR_INIT;
        tl_example_writer e = tl_example_begin(&record);
        tl_example_add_bytes(&e, name, &(tl_bytes){documents[i], strlen(documents[i])}, 1);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, record.data, record.length));
        tl_str_deinit(&record);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    put("vocab.txt", vocab);
}

/* --- batches as texts ------------------------------------------------------------------------- */

typedef struct columns {
    int32_t words[256], mask[256], types[256], positions[64], ids[64], next[32];
    float weights[64];
    int64_t count, length, most;
    bool has_next;
} columns;

static void take(const tl_batch *b, const char *name, void *out, size_t room)
{
    tl_tensor *t = tl_batch_get(b, name);
    assert_non_null(t);
    assert_true((size_t)tl_tensor_count(t) * 4 <= room);
    assert_ok(tl_tensor_get(t, out, (size_t)tl_tensor_count(t) * 4));
}

static bool next_batch(columns *out, tl_dataset *d, tl_ctx *c)
{
    tl_batch b = {.ctx = c};
    bool more = true;
    tl_mark mark = tl_ctx_begin(c);
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    if (more) {
        const tl_tensor *words = tl_batch_get(&b, "input_word_ids");
        out->count = words->shape.dims[0];
        out->length = words->shape.dims[1];
        out->most = tl_batch_get(&b, "masked_lm_ids")->shape.dims[1];
        take(&b, "input_word_ids", out->words, sizeof out->words);
        take(&b, "input_mask", out->mask, sizeof out->mask);
        take(&b, "input_type_ids", out->types, sizeof out->types);
        take(&b, "masked_lm_positions", out->positions, sizeof out->positions);
        take(&b, "masked_lm_ids", out->ids, sizeof out->ids);
        take(&b, "masked_lm_weights", out->weights, sizeof out->weights);
        out->has_next = tl_batch_peek(&b, "next_sentence_labels") != NULL;
        if (out->has_next) take(&b, "next_sentence_labels", out->next, sizeof out->next);
    }
    tl_ctx_end(c, mark);
    return more;
}

static void add_numbers(tl_str *s, const int32_t *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++) tl_str_addf(s, "%s%d", i ? " " : "", numbers[i]);
}

/* A line of the golden file of one example, with what was hidden put back. */
static const char *line_of(const columns *c, int64_t row, bool nsp, bool whole)
{
    static tl_str s;
    int32_t words[64];
    int64_t hidden = 0;
    tl_str_cut(&s, 0);
    memcpy(words, c->words + row * c->length, (size_t)c->length * sizeof *words);
    for (int64_t k = 0; k < c->most && c->weights[row * c->most + k] > 0; k++, hidden++)
        words[c->positions[row * c->most + k]] = c->ids[row * c->most + k];
    tl_str_addf(&s, "%d %d: ", nsp, whole);
    add_numbers(&s, words, whole && hidden == c->most ? 1 : c->length);
    tl_str_add(&s, " | ");
    add_numbers(&s, c->mask + row * c->length, c->length);
    tl_str_add(&s, " | ");
    add_numbers(&s, c->types + row * c->length, c->length);
    tl_str_add(&s, " | ");
    add_numbers(&s, c->positions + row * c->most, c->most);
    tl_str_add(&s, " | ");
    add_numbers(&s, c->ids + row * c->most, c->most);
    tl_str_addf(&s, " | %lld\n", (long long)hidden);
    assert_ok(tl_str_status(&s));
    return tl_str_text(&s);
}

#define SMALL                                                                                      \
    "  model: {encoder: {bert: {vocab_size: 16, hidden_size: 8, num_layers: 1, "                   \
    "num_attention_heads: 2, intermediate_size: 8}}, cls_heads: [{inner_dim: 8, num_classes: 2, "  \
    "name: next_sentence}]}\n"
#define DATA(more)                                                                                 \
    "{input_path: records, tfds_name: '', vocab_file_path: vocab.txt, seq_length: 14, "            \
    "max_predictions_per_seq: 4, masking_rate: 0.3, global_batch_size: 4" more "}\n"
#define YAML(more) "task:\n" SMALL "  train_data: " DATA(more) "  validation_data: " DATA(more)

static tl_dataset *open_data(lab_run *r)
{
    tl_dataset *d;
    assert_ok(tl_task_build_inputs(r->task, r->task->config->train_data,
                                   &(tl_input_context){1, 0, 1, 7}, &d));
    return d;
}

/* --- as the original -------------------------------------------------------------------------- */

static void compare(const char *golden, const char *yaml, bool nsp, bool whole, int expected)
{
    lab_run r;
    tl_ctx *c;
    columns b;
    tl_map seen = TL_MAP_INIT;
    lab_begin(&r, "bert/text_wiki_pretraining", yaml);
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r);
    for (int i = 0; i < 300; i++) {
        assert_true(next_batch(&b, d, c));
        assert_int_equal(b.has_next, nsp);
        for (int64_t row = 0; row < b.count; row++) {
            const char *line = line_of(&b, row, nsp, whole);
            if (!strstr(golden, line)) fail_msg("the original has no\n%s", line);
            assert_ok(tl_map_set(&seen, line, NULL));
        }
    }
    if (expected) assert_int_equal(tl_map_count(&seen), expected);
    tl_map_deinit(&seen);
    tl_dataset_free(&d);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_examples_are_the_originals(void **state)
{
    (void)state;
    char *golden;
    assert_ok(tl_file_read(&golden, NULL, TEST_DATA "/golden/text_wiki.txt", 1 << 20));
    put_records("records", "text");
    // 2 sentences with 3 others each, 2 with 4, 1 with 5, the 3 that are next, and one that leaves
    // no room for any other
    compare(golden, YAML(", deterministic: true"), true, false, 23);
    compare(golden, YAML(", deterministic: true, use_next_sentence_label: false"), false, false, 3);
    compare(golden,
            YAML(", deterministic: true, use_next_sentence_label: false, "
                 "use_whole_word_masking: true"),
            false, true, 3);
    compare(golden, YAML(", deterministic: true, use_whole_word_masking: true"), true, true, 0);
    tl_free(golden);
}

/* --- draws ------------------------------------------------------------------------------------ */

/* Of 3000 examples: words are hidden at random places, in the shares of the rule; labels are those
 * that the task expects. */
static void test_draws_are_fair(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    columns b;
    int64_t hidden = 0, masked = 0, same = 0, random = 0, examples = 0, first = 0, inner = 0;
    put_records("records", "text");
    lab_begin(&r, "bert/text_wiki_pretraining", YAML(""));
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r);
    for (int i = 0; i < 1000; i++) {
        assert_true(next_batch(&b, d, c));
        for (int64_t row = 0; row < b.count; row++, examples++) {
            random += b.next[row];
            int32_t before = 0;
            for (int64_t k = 0; k < b.most && b.weights[row * b.most + k] > 0; k++, hidden++) {
                int32_t at = b.positions[row * b.most + k], word = b.words[row * b.length + at];
                assert_true(at > before); // ascending, never [CLS]
                before = at;
                masked += word == 4;
                same += word == b.ids[row * b.most + k];
                first += at == 1;
                inner += at > 4;
            }
        }
    }
    // 3 of 6 sentences always have a random one behind them, the others half of the time
    assert_true(fabs((double)random / (double)examples - 0.75) < 0.03);
    assert_true(fabs((double)masked / (double)hidden - 0.80625) < 0.02);
    assert_true(fabs((double)same / (double)hidden - 0.10625) < 0.02);
    assert_true(first > 0 && first < examples / 2 && inner > hidden / 4);
    tl_dataset_free(&d);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void goes_on(const char *experiment, const char *yaml)
{
    lab_run r;
    tl_ctx *c;
    tl_state *at;
    columns b;
    lab_begin(&r, experiment, yaml);
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r), *again = open_data(&r);
    for (int i = 0; i < 11; i++) assert_true(next_batch(&b, d, c));
    assert_ok(tl_state_new(&at));
    assert_ok(tl_dataset_state(d, at));
    assert_ok(tl_checkpoint_save("position", at, NULL));
    tl_state_free(&at);
    assert_ok(tl_state_new(&at));
    assert_ok(tl_dataset_state(again, at));
    assert_ok(tl_checkpoint_restore(at, "position", NULL, NULL));
    for (int i = 0; i < 9; i++) {
        columns x = {0}, y = {0};
        assert_true(next_batch(&x, d, c));
        assert_true(next_batch(&y, again, c));
        assert_memory_equal(&x, &y, sizeof x);
    }
    tl_state_free(&at);
    tl_dataset_free(&d);
    tl_dataset_free(&again);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_hidden_words_are_gone_on_from(void **state)
{
    (void)state;
    put_records("records", "text");
    goes_on("bert/text_wiki_pretraining", YAML(""));
}

/* Files of text are documents too, and an uncased vocabulary lowers them. */
static void test_files_of_text_are_read(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    columns b;
    put_records("records", "text");
    put("a.txt", "A B\nc d\n\nE F\nG H\n");
    lab_begin(&r, "bert/text_wiki_pretraining",
              "task:\n" SMALL "  train_data: {input_path: a.txt, tfds_name: '', vocab_file_path: "
              "vocab.txt, seq_length: 8, max_predictions_per_seq: 1, global_batch_size: 4, "
              "is_training: false, drop_remainder: false, masking_rate: 0}\n");
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r);
    assert_true(next_batch(&b, d, c));
    assert_int_equal(b.count, 4);
    assert_int_equal(b.words[1], 5);                // a, of the first sentence
    assert_int_equal(b.words[2 * b.length + 1], 9); // e, of the third
    assert_int_equal(b.weights[0], 0);
    assert_false(next_batch(&b, d, c));
    // a vocabulary with capitals keeps them
    put("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n");
    tl_dataset_free(&d);
    d = open_data(&r);
    assert_true(next_batch(&b, d, c));
    assert_int_equal(b.words[1], 5);
    tl_dataset_free(&d);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_a_training_runs(void **state)
{
    (void)state;
    lab_run r;
    double loss;
    put_records("records", "text");
    lab_train(&r, "bert/text_wiki_pretraining",
              YAML("") "trainer: {train_steps: 4, optimizer_config: {learning_rate: {polynomial: "
                       "{decay_steps: 4}}, warmup: {polynomial: {warmup_steps: 1}}}}\n");
    assert_ok(tl_trainer_train(r.trainer, 3, r.logs));
    assert_ok(tl_logs_number(&loss, r.logs, "training_loss"));
    assert_true(loss > 0.5 && loss < 10);
    lab_end(&r);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *message;
    } rows[] = {
        {"task: {train_data: {vocab_file_path: vocab.txt}}\n",
         "task.train_data.tfds_name: nothing is fetched from TensorFlow Datasets. Name texts by "
         "task.train_data.input_path, and set tfds_name to ''"},
        {"task: {train_data: {input_path: records, tfds_name: ''}}\n",
         "task.train_data.vocab_file_path"},
        {YAML(", text_field_names: [body]"), "record 0 of 'records'"},
        {YAML(", text_field_names: [text, title]"), "next sentences are those of one text"},
        {"task: {train_data: {input_path: records, tfds_name: '', vocab_file_path: vocab.txt, "
         "seq_length: 3}}\n",
         "task.train_data.seq_length is 3"},
        {"task: {train_data: {input_path: one.txt, tfds_name: '', vocab_file_path: vocab.txt}}\n",
         "'one.txt' has one document"},
        {"task: {train_data: {input_path: none.txt, tfds_name: '', vocab_file_path: vocab.txt}}\n",
         "'none.txt' has no text"},
        {"task: {train_data: {input_path: one.txt, tfds_name: '', vocab_file_path: short.txt}}\n",
         "'short.txt' has no piece '[CLS]'"},
    };
    put_records("records", "text");
    put("one.txt", "a b\nc\n");
    put("none.txt", "\n \n");
    put("short.txt", "[UNK]\na\n");
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        lab_run r;
        tl_dataset *d;
        lab_begin(&r, "bert/text_wiki_pretraining", rows[i].yaml);
        assert_int_not_equal(tl_task_build_inputs(r.task, r.task->config->train_data,
                                                  &(tl_input_context){1, 0, 1, 7}, &d),
                             TL_OK);
        if (!strstr(tl_error_message(), rows[i].message))
            fail_msg("'%s'\n  lacks '%s'", tl_error_message(), rows[i].message);
        lab_end(&r);
    }
    tl_config *config;
    assert_fails(lab_parse(&config, "bert/text_wiki_pretraining",
                           "task: {train_data: {input_path: records}}\n"),
                 TL_EINVAL, "input_path: it and tfds_name exclude each other");
}

/* --- batches by length ------------------------------------------------------------------------ */

/* The i-th has 3 + i % 9 words. */
static void put_lengths(const char *path)
{
    tl_tfrecord_writer *w;
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int64_t i = 0; i < 40; i++) {
        int64_t words[16] = {0}, mask[16] = {0}, types[16] = {0}, positions[2] = {1}, ids[2] = {i},
                next = i % 2;
        float weights[2] = {1};
        for (int64_t k = 0; k < 3 + i % 9; k++) words[k] = 5 + i, mask[k] = 1;
        tl_str record = TL_STR_INIT;
        tl_example_writer e = tl_example_begin(&record);
        tl_example_add_ints(&e, "input_ids", words, 16);
        tl_example_add_ints(&e, "input_mask", mask, 16);
        tl_example_add_ints(&e, "segment_ids", types, 16);
        tl_example_add_ints(&e, "masked_lm_positions", positions, 2);
        tl_example_add_ints(&e, "masked_lm_ids", ids, 2);
        tl_example_add_floats(&e, "masked_lm_weights", weights, 2);
        tl_example_add_ints(&e, "next_sentence_labels", &next, 1);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, record.data, record.length));
        tl_str_deinit(&record);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
}

#define BUCKETS                                                                                    \
    "task:\n"                                                                                      \
    "  train_data: {input_path: lengths, global_batch_size: 4, seq_bucket_lengths: [4, 8, 12]}\n"

/* Every batch is of one bucket and as long as it; each example is whole, and comes once a pass. */
static void test_batches_are_of_one_bucket(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    columns b;
    int times[40] = {0}, sizes[3] = {0};
    put_lengths("lengths");
    lab_begin(&r, "bert/pretraining_dynamic", BUCKETS);
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r);
    for (int i = 0; i < 100; i++) { // ten passes
        assert_true(next_batch(&b, d, c));
        assert_int_equal(b.count, 4);
        assert_true(b.length == 4 || b.length == 8 || b.length == 12);
        sizes[b.length / 4 - 1]++;
        for (int64_t row = 0; row < b.count; row++) {
            int32_t id = b.ids[row * b.most];
            int64_t words = 3 + id % 9;
            assert_true(words <= b.length && words > b.length - 4 - (b.length == 4));
            for (int64_t k = 0; k < b.length; k++) {
                assert_int_equal(b.words[row * b.length + k], k < words ? 5 + id : 0);
                assert_int_equal(b.mask[row * b.length + k], k < words);
            }
            assert_int_equal(b.next[row], id % 2);
            times[id]++;
        }
    }
    for (int i = 0; i < 40; i++) assert_true(times[i] >= 9 && times[i] <= 11);
    assert_true(sizes[0] > 15 && sizes[1] > 35 && sizes[2] > 25);
    tl_dataset_free(&d);
    tl_ctx_free(&c);
    lab_end(&r);
}

static void test_buckets_are_gone_on_from(void **state)
{
    (void)state;
    put_lengths("lengths");
    goes_on("bert/pretraining_dynamic", BUCKETS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_examples_are_the_originals),
        LAB_TEST(test_draws_are_fair),
        LAB_TEST(test_hidden_words_are_gone_on_from),
        LAB_TEST(test_files_of_text_are_read),
        LAB_TEST(test_a_training_runs),
        LAB_TEST(test_what_is_wrong_is_named),
        LAB_TEST(test_batches_are_of_one_bucket),
        LAB_TEST(test_buckets_are_gone_on_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
