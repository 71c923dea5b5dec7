/* The experiment `texts`: what it finds in tables, lines of JSON and folders, what becomes of the
 * texts, and what is refused where. */
#include "zoo/zoo_lab.h"

#include <tilth/data/batch.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/text/learn.h>
#include <tilth/zoo/language.h>

/* --- data ------------------------------------------------------------------------------------- */

static void put(const char *path, const char *text)
{
    assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

/* The i-th text of class 0 or 1. */
static const char *text_of(int i, int label)
{
    static const char *const words[2][4] = {{"bad", "awful", "broken", "poor"},
                                            {"good", "great", "lovely", "fine"}};
    return tl_arena_printf(lab_arena, "this %s thing number %d is %s", i % 3 ? "little" : "big", i,
                           words[label][i % 4]);
}

enum { TEXTS = 60 };

static void put_table(const char *path, const char *head, char between)
{
    tl_str s = TL_STR_INIT;
    tl_str_addf(&s, "%s\n", head);
    for (int i = 0; i < TEXTS; i++)
        tl_str_addf(&s, "%s%c%s\n", text_of(i, i % 2), between, i % 2 ? "yes" : "no");
    put(path, tl_str_text(&s));
    tl_str_deinit(&s);
}

static void put_folder(const char *path)
{
    for (int i = 0; i < TEXTS; i++)
        put(tl_arena_printf(lab_arena, "%s/%s/%02d.txt", path, i % 2 ? "yes" : "no", i),
            text_of(i, i % 2));
}

/* --- what is found ---------------------------------------------------------------------------- */

static tl_config *config;
static const tl_text_task_config *task;
static const tl_text_data_config *train, *validation;
static const tl_sentence_model_config *model;
static const tl_trainer_config *trainer;

static tl_status try_texts(const char *words)
{
    tl_config_free(&config);
    TL_TRY(tl_experiment_parse(&config, lab_registry,
                               &(tl_parse_options){.experiment = "texts",
                                                   .strict_override = true,
                                                   .params_override = words}));
    const tl_experiment_config *e = tl_config_value(config);
    task = e->task.value;
    trainer = e->trainer.value;
    model = task->base.base.model.value;
    train = (const tl_text_data_config *)task->base.base.train_data;
    validation = (const tl_text_data_config *)task->base.base.validation_data;
    return TL_OK;
}

static int close_texts(void **state)
{
    tl_config_free(&config);
    return lab_close(state);
}

static void found_all(void)
{
    const tl_bert_config *bert = model->encoder.value;
    assert_int_equal(task->class_names.count, 2);
    assert_string_equal(task->class_names.items[0], "no");
    assert_string_equal(task->class_names.items[1], "yes");
    assert_int_equal(model->num_classes, 2);
    assert_true(train->holdout == 0.2 && validation->holdout == 0.2);
    // 7 words, one of which may be cut in two, and two ends
    assert_int_equal(task->seq_length, 16);
    assert_true(bert->vocab_size > 40 && bert->vocab_size < 200);
    assert_true(trainer->train_steps >= 100);
    assert_int_equal(trainer->train_steps % trainer->validation_interval, 0);
    assert_string_equal(tl_config_source(config, "task.class_names"), "the data");
}

static void test_a_table_is_enough(void **state)
{
    (void)state;
    put_table("a.csv", "text,label", ',');
    assert_ok(try_texts("task.train_data.input_path=a.csv"));
    found_all();
    assert_string_equal(train->text_column, "text");
    assert_string_equal(validation->label_column, "label");
    assert_string_equal(validation->base.input_path->text, "a.csv");
    // names that say nothing: the longer one is the text
    put_table("b.tsv", "one\ttwo", '\t');
    assert_ok(try_texts("task.train_data.input_path=b.tsv"));
    found_all();
    assert_string_equal(train->text_column, "one");
    assert_string_equal(train->label_column, "two");
}

static void test_lines_of_json_are_enough(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT;
    for (int i = 0; i < TEXTS; i++)
        tl_str_addf(&s, "{\"id\": %d, \"class\": \"%s\", \"review\": \"%s\"}\n", i,
                    i % 2 ? "yes" : "no", text_of(i, i % 2));
    put("a.jsonl", tl_str_text(&s));
    tl_str_deinit(&s);
    assert_ok(try_texts("task.train_data.input_path=a.jsonl"));
    found_all();
    assert_string_equal(train->text_column, "review");
    assert_string_equal(train->label_column, "class");
}

static void test_a_folder_is_enough(void **state)
{
    (void)state;
    put_folder("pages");
    put("pages/readme.md", "no text of a class");
    assert_ok(try_texts("task.train_data.input_path=pages"));
    found_all();
    assert_string_equal(train->text_column, "");
    // one that is divided
    put_folder("all/train");
    put_folder("all/test");
    assert_ok(try_texts("task.train_data.input_path=all"));
    assert_string_equal(train->base.input_path->text, "all/train");
    assert_string_equal(validation->base.input_path->text, "all/test");
    assert_true(train->holdout == 0);
}

static void test_what_is_given_stays(void **state)
{
    (void)state;
    put_table("a.csv", "text,label", ',');
    assert_ok(try_texts("task.train_data.input_path=a.csv,task.seq_length=9,trainer.train_steps=7,"
                        "task.train_data.global_batch_size=3,task.vocab_size=60,task.class_names="
                        "[yes,no],task.train_data.holdout=0.5,task.model.encoder.bert.hidden_size="
                        "8,task.model.encoder.bert.num_attention_heads=2"));
    const tl_bert_config *bert = model->encoder.value;
    assert_int_equal(task->seq_length, 9);
    assert_int_equal(trainer->train_steps, 7);
    assert_int_equal(train->base.global_batch_size, 3);
    assert_int_equal(bert->vocab_size, 60);
    assert_int_equal(bert->hidden_size, 8);
    assert_string_equal(task->class_names.items[0], "yes");
    assert_true(validation->holdout == 0.5);
}

static void test_a_run_does_not_look_again(void **state)
{
    (void)state;
    put_table("a.csv", "text,label", ',');
    assert_ok(try_texts("task.train_data.input_path=a.csv"));
    assert_ok(tl_serialize_config(config, "run"));
    assert_int_equal(rename("a.csv", "gone"), 0);
    const char *file = "run/params.yaml";
    tl_config *again;
    assert_ok(tl_experiment_parse(&again, lab_registry,
                                  &(tl_parse_options){.experiment = "texts",
                                                      .strict_override = true,
                                                      .config_file = {&file, 1}}));
    assert_true(
        tl_desc_equal(&tl_experiment_config_desc, tl_config_value(again), tl_config_value(config)));
    tl_config_free(&again);
}

/* --- batches ---------------------------------------------------------------------------------- */

static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthis\nlittle\nbig\nthing\nnumber\n"
                            "is\nbad\ngood\n##s\n!\n";

#define SMALL                                                                                      \
    "  model: {num_classes: 2, encoder: {type: bert, bert: {vocab_size: 15, hidden_size: 8, "      \
    "num_layers: 1, num_attention_heads: 2, intermediate_size: 8}}}\n"

/* The next batch's rows, as texts: "2 5 3 | 1 1 1 | 0 0 0 | 1;". */
static const char *rows_of(tl_dataset *d, tl_ctx *c)
{
    static const char *const names[] = {"input_word_ids", "input_mask", "input_type_ids"};
    static tl_str s;
    tl_batch b = {.ctx = c};
    bool more = true;
    tl_str_cut(&s, 0);
    tl_mark mark = tl_ctx_begin(c);
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    if (more) {
        int32_t all[3][256], labels[32];
        const tl_tensor *label = tl_batch_get(&b, "label_ids");
        int64_t count = tl_tensor_count(label),
                length = tl_tensor_count(tl_batch_get(&b, names[0])) / count;
        assert_ok(tl_tensor_get(label, labels, (size_t)count * 4));
        for (int k = 0; k < 3; k++)
            assert_ok(
                tl_tensor_get(tl_batch_get(&b, names[k]), all[k], (size_t)(count * length) * 4));
        for (int64_t i = 0; i < count; i++) {
            for (int k = 0; k < 3; k++) {
                for (int64_t j = 0; j < length; j++) tl_str_addf(&s, "%d ", all[k][i * length + j]);
                tl_str_add(&s, "| ");
            }
            tl_str_addf(&s, "%d;", labels[i]);
        }
    }
    tl_ctx_end(c, mark);
    assert_ok(tl_str_status(&s));
    return tl_str_text(&s);
}

static tl_dataset *open_data(lab_run *r, bool trains)
{
    tl_dataset *d;
    const tl_task_config *t = r->task->config;
    assert_ok(tl_task_build_inputs(r->task, trains ? t->train_data : t->validation_data,
                                   &(tl_input_context){1, 0, 1, 7}, &d));
    return d;
}

static void test_texts_become_pieces(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    put("vocab.txt", vocab);
    put("a.csv", "text,other,label\nThis is BAD!,things,b\nzebra things,\"is, good\",a\n"
                 "this this this this,little big thing,b\n,,a\n");
    lab_begin(&r, "texts",
              "task:\n" SMALL "  vocab_file: vocab.txt\n"
              "  seq_length: 8\n"
              "  train_data: {input_path: a.csv, second_text_column: other, global_batch_size: 4, "
              "is_training: false, holdout: 0}\n"
              "  validation_data: {input_path: a.csv}\n");
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r, true);
    // a is 0; the longer text of a pair is cut first; an empty second one counts as none
    assert_string_equal(rows_of(d, c), "2 5 10 11 3 8 13 3 | 1 1 1 1 1 1 1 1 | 0 0 0 0 0 1 1 1 | 1;"
                                       "2 1 8 13 3 10 1 3 | 1 1 1 1 1 1 1 1 | 0 0 0 0 0 1 1 1 | 0;"
                                       "2 5 5 5 3 6 7 3 | 1 1 1 1 1 1 1 1 | 0 0 0 0 0 1 1 1 | 1;"
                                       "2 3 0 0 0 0 0 0 | 1 1 0 0 0 0 0 0 | 0 0 0 0 0 0 0 0 | 0;");
    tl_dataset_free(&d);
    tl_ctx_free(&c);
    lab_end(&r);
}

#define HELD                                                                                       \
    "task:\n"                                                                                      \
    "  seq_length: 12\n"                                                                           \
    "  train_data: {input_path: a.csv, global_batch_size: 4, word_dropout: 0}\n"                   \
    "  validation_data: {global_batch_size: 1}\n"

static int64_t count_rows(const char *text)
{
    int64_t count = 0;
    for (const char *p = text; (p = strchr(p, ';')); p++) count++;
    return count;
}

/* What is held out of training is what validation sees, and all of it is seen. */
static void test_part_is_held_out(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    put_table("a.csv", "text,label", ',');
    lab_begin(&r, "texts", HELD);
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *held = open_data(&r, false), *left = open_data(&r, true);
    tl_str all = TL_STR_INIT, out = TL_STR_INIT;
    int64_t batches;
    assert_ok(tl_dataset_length(held, &batches));
    assert_true(batches >= 5 && batches <= 20);
    for (int64_t i = 0; i < batches; i++) {
        tl_str_add(&out, rows_of(held, c));
        assert_int_equal(count_rows(tl_str_text(&out)), i + 1);
    }
    assert_string_equal(rows_of(held, c), "");
    // many passes of training meet none of them
    for (int64_t i = 0; i < 60; i++) tl_str_add(&all, rows_of(left, c));
    for (const char *p = tl_str_text(&out); *p; p = strchr(p, ';') + 1) {
        char row[256];
        snprintf(row, sizeof row, "%.*s", (int)(strchr(p, ';') - p), p);
        assert_null(strstr(tl_str_text(&all), row));
    }
    tl_str_deinit(&all);
    tl_str_deinit(&out);
    tl_dataset_free(&held);
    tl_dataset_free(&left);
    tl_ctx_free(&c);
    lab_end(&r);
}

/* From any batch on the rest is the same, and another pass has another order. */
static void test_training_goes_on_where_it_was(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    tl_state *at;
    put_table("a.csv", "text,label", ',');
    lab_begin(&r, "texts", HELD);
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r, true), *again = open_data(&r, true);
    char *expected[12];
    for (int i = 0; i < 17; i++) (void)rows_of(d, c);
    assert_ok(tl_state_new(&at));
    assert_ok(tl_dataset_state(d, at));
    assert_ok(tl_checkpoint_save("position", at, &(tl_checkpoint_info){0}));
    for (int i = 0; i < 12; i++) expected[i] = tl_arena_strdup(lab_arena, rows_of(d, c));
    assert_string_not_equal(expected[0], expected[1]);
    tl_state_free(&at);
    assert_ok(tl_state_new(&at));
    assert_ok(tl_dataset_state(again, at));
    assert_ok(tl_checkpoint_restore(at, "position", NULL, NULL));
    for (int i = 0; i < 12; i++) assert_string_equal(rows_of(again, c), expected[i]);
    tl_state_free(&at);
    tl_dataset_free(&d);
    tl_dataset_free(&again);
    tl_ctx_free(&c);
    lab_end(&r);
}

/* In training alone, others in each pass, never the ends. */
static void test_words_are_hidden(void **state)
{
    (void)state;
    lab_run r;
    tl_ctx *c;
    put("vocab.txt", vocab);
    put("a.csv", "text,label\nthis is bad,b\nthis is good,a\n");
    lab_begin(&r, "texts",
              "task:\n" SMALL "  vocab_file: vocab.txt\n"
              "  seq_length: 6\n"
              "  train_data: {input_path: a.csv, global_batch_size: 2, word_dropout: 0.5, holdout: "
              "0}\n"
              "  validation_data: {input_path: a.csv, global_batch_size: 2, word_dropout: 0.5}\n");
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(r.strategy)));
    tl_dataset *d = open_data(&r, true), *whole = open_data(&r, false);
    int hidden = 0;
    for (int i = 0; i < 200; i++) {
        const char *rows = rows_of(d, c);
        for (const char *row = rows; *row; row = strchr(row, ';') + 1) {
            int w[6];
            assert_int_equal(
                sscanf(row, "%d %d %d %d %d %d", &w[0], &w[1], &w[2], &w[3], &w[4], &w[5]), 6);
            assert_true(w[0] == 2 && w[4] == 3 && w[5] == 0);
            assert_true((w[1] == 5 || w[1] == 4) && (w[2] == 10 || w[2] == 4));
            for (int k = 1; k < 4; k++) hidden += w[k] == 4;
        }
    }
    assert_true(hidden > 500 && hidden < 700); // of 1200
    assert_null(strstr(rows_of(whole, c), " 4 "));
    tl_dataset_free(&d);
    tl_dataset_free(&whole);
    tl_ctx_free(&c);
    lab_end(&r);
}

/* --- vocabularies ----------------------------------------------------------------------------- */

/* Held out texts teach no pieces; the same texts teach the same ones again. */
static void test_the_vocabulary_is_that_of_training(void **state)
{
    (void)state;
    tl_wordpiece_learner *learner;
    tl_str expected = TL_STR_INIT;
    tl_notes notes = {0};
    lab_run r;
    put_table("a.csv", "text,label", ',');
    assert_ok(tl_wordpiece_learner_new(&learner, NULL));
    for (int i = 0; i < TEXTS; i++) {
        const char *text = text_of(i, i % 2);
        if (!tl_content_held_out(tl_content_hash(text, strlen(text)), 0.2))
            assert_ok(tl_wordpiece_learner_add(learner, text, strlen(text)));
    }
    assert_ok(tl_wordpiece_learner_finish(learner, &expected));
    lab_begin(&r, "texts", HELD);
    assert_ok(tl_task_notes(r.task, &notes));
    assert_string_equal(tl_notes_get(&notes, "vocabulary"), tl_str_text(&expected));
    assert_string_equal(tl_notes_get(&notes, "classes"), "no\nyes\n");
    assert_non_null(strstr(tl_notes_get(&notes, "tokenizer"), "\"do_lower_case\": true"));
    tl_notes_deinit(&notes);
    tl_wordpiece_learner_free(&learner);
    tl_str_deinit(&expected);
    lab_end(&r);
}

static void test_a_vocabulary_lies_beside_weights(void **state)
{
    (void)state;
    put_table("a.csv", "text,label", ',');
    put("begin/vocab.txt", vocab);
    put("begin/tokenizer_config.json", "{\"do_lower_case\": false}");
    put("begin/ckpt-1.safetensors", "");
    lab_run r;
    tl_notes notes = {0};
    lab_begin(&r, "texts",
              "task:\n" SMALL "  init_checkpoint: begin/ckpt-1\n"
              "  train_data: {input_path: a.csv}\n");
    assert_ok(tl_task_notes(r.task, &notes));
    assert_string_equal(tl_notes_get(&notes, "vocabulary"), vocab);
    assert_string_equal(tl_notes_get(&notes, "tokenizer"), "{\"do_lower_case\": false}");
    tl_notes_deinit(&notes);
    lab_end(&r);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text, *words, *message;
    } rows[] = {
        {"a.csv", "text,stuff,more\nx,1,2\ny,2,2\n", "",
         "a.csv' has the columns text, stuff, more"},
        {"b.csv", "text,label\nx,1\ny,2\n", ",task.train_data.label_column=lable",
         "task.train_data: 'b.csv' has no column 'lable'"},
        {"c.csv", "", "", "c.csv"},
        {"d.csv", "text,label\n", "", "d.csv"},
        {"e.csv", "text,label\nx,1\ny,1\n", "", "all texts are of one class, '1'"},
        {"f.csv", "text,label\nx,1\ny,\n", "", "f.csv:3: column 'label': the label is missing"},
        {"g.csv", "text\nx\ny\n", "", "g.csv' has one column"},
        {"h.jsonl", "[1]\n", "", "h.jsonl:1: a JSON object is expected"},
        {"i.jsonl", "{\"text\": \"x\", \"label\": 1}\n{\"text\": \"y\"}\n", "",
         "i.jsonl:2: there is no 'label'"},
        {"j.jsonl", "{\"text\": \"x\", \"label\": 1}\n{\"text\": \"\xff\", \"label\": 2}\n", "",
         "j.jsonl:2"},
        {"k/a/1.txt", "x", "", "all texts are of one class, 'a'"},
        {"l/a/1.md", "x", "", "'l' holds no texts"},
        {"m/a/1.txt", "\xff\xfe", ",task.train_data.holdout=0", "m/a/1.txt"},
        {"n.csv", "text,label\nx,1\ny,2\n", ",task.train_data.tfds_name=imdb", "tfds_name"},
        {"o.csv", "text,label\nx,1\ny,2\n", ",task.vocab_file=nowhere.txt",
         "task.vocab_file: cannot"},
    };
    put("m/b/1.txt", "y");
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        char words[256];
        put(rows[i].path, rows[i].text);
        snprintf(words, sizeof words, "task.train_data.input_path=%.*s%s",
                 (int)strcspn(rows[i].path, "/"), rows[i].path, rows[i].words);
        if (try_texts(words) == TL_OK) fail_msg("%s is taken", rows[i].path);
        if (!strstr(tl_error_message(), rows[i].message))
            fail_msg("'%s'\n  lacks '%s'", tl_error_message(), rows[i].message);
    }
    assert_fails(try_texts("task.train_data.input_path=nowhere.csv"), TL_ENOTFOUND, "nowhere.csv");
}

static void refuses_data(const char *yaml, bool trains, const char *message)
{
    lab_run r;
    tl_dataset *d;
    lab_begin(&r, "texts", yaml);
    const tl_task_config *t = r.task->config;
    assert_int_not_equal(tl_task_build_inputs(r.task, trains ? t->train_data : t->validation_data,
                                              &(tl_input_context){1, 0, 1, 7}, &d),
                         TL_OK);
    if (!strstr(tl_error_message(), message))
        fail_msg("'%s'\n  lacks '%s'", tl_error_message(), message);
    lab_end(&r);
}

static void test_data_that_does_not_fit_is_named(void **state)
{
    (void)state;
    put("a.csv", "text,label\nx,1\ny,2\n");
    put("b.csv", "text,label\nx,1\ny,3\n");
    put("vocab.txt", vocab);
    refuses_data("task:\n" SMALL "  train_data: {input_path: a.csv}\n"
                 "  validation_data: {input_path: b.csv}\n  vocab_file: vocab.txt\n",
                 false, "b.csv:3: the class '3' is none of the 2");
    refuses_data("task:\n  model: {encoder: {bert: {vocab_size: 9}}}\n"
                 "  train_data: {input_path: a.csv}\n  vocab_file: vocab.txt\n",
                 true,
                 "'vocab.txt' has 15 pieces, and the encoder knows 9: set "
                 "task.model.encoder.bert.vocab_size=15");
    refuses_data("task:\n" SMALL "  train_data: {input_path: a.csv, holdout: 0.999}\n"
                 "  vocab_file: vocab.txt\n",
                 true, "no text that is left to train with");
    put("short.txt", "[UNK]\nx\n");
    assert_fails(try_texts("task.train_data.input_path=a.csv,task.vocab_file=short.txt"),
                 TL_ENOTFOUND, "'short.txt' has no piece '[CLS]'");
}

#define TEXTS_TEST(f) cmocka_unit_test_setup_teardown(f, lab_open, close_texts)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEXTS_TEST(test_a_table_is_enough),
        TEXTS_TEST(test_lines_of_json_are_enough),
        TEXTS_TEST(test_a_folder_is_enough),
        TEXTS_TEST(test_what_is_given_stays),
        TEXTS_TEST(test_a_run_does_not_look_again),
        TEXTS_TEST(test_texts_become_pieces),
        TEXTS_TEST(test_words_are_hidden),
        TEXTS_TEST(test_part_is_held_out),
        TEXTS_TEST(test_training_goes_on_where_it_was),
        TEXTS_TEST(test_the_vocabulary_is_that_of_training),
        TEXTS_TEST(test_a_vocabulary_lies_beside_weights),
        TEXTS_TEST(test_what_is_wrong_is_named),
        TEXTS_TEST(test_data_that_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
