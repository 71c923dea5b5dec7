/* Own texts, from a table to answers: `train --experiment=texts`, `predict`, `eval`, `export`;
 * and answers to texts of runs that were trained with records. */
#include "tool/tool_lab.h"

#include <tilth/builtin/predictor.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

static const char *const words[2][4] = {{"bad", "awful", "broken", "poor"},
                                        {"good", "great", "lovely", "fine"}};

static const char *text_of(int i, int label)
{
    return tl_arena_printf(lab_arena, "This %s thing, number %d, is %s.", i % 3 ? "little" : "big",
                           i, words[label][i / 4 % 4]);
}

static void put_reviews(const char *path)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "review,stars\n");
    for (int i = 0; i < 200; i++)
        tl_str_addf(&s, "\"%s\",%s\n", text_of(i, i / 2 % 2), i / 2 % 2 ? "yes" : "no");
    put_text(path, tl_str_text(&s));
    tl_str_deinit(&s);
}

#define TRAIN(folder, ...)                                                                         \
    run("train", "--experiment=texts", "--mode=train_and_eval", "--model_dir=" folder,             \
        "--progress=lines", "task.train_data.input_path=reviews.csv", "tilth.seed=1",              \
        "tilth.threads=1", "tilth.jit=false", "task.train_data.word_dropout=0",                    \
        "task.model.encoder.bert.hidden_size=16", "task.model.encoder.bert.num_layers=1",          \
        "task.model.encoder.bert.num_attention_heads=2",                                           \
        "task.model.encoder.bert.intermediate_size=16", "task.model.encoder.bert.dropout_rate=0",  \
        "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.01",            \
        __VA_ARGS__)

static void learn_reviews(void)
{
    put_reviews("reviews.csv");
    TRAIN("run", "trainer.train_steps=90", "trainer.checkpoint_interval=90",
          "trainer.validation_interval=30", "trainer.steps_per_loop=30");
    ended(0, "");
}

/* --- own texts -------------------------------------------------------------------------------- */

static void test_texts_are_learned_and_asked(void **state)
{
    (void)state;
    learn_reviews();
    assert_true(number_behind("  cls_accuracy") >= 0.95);
    logged("200 texts of 2 classes (columns 'review' and 'stars')");
    assert_true(tl_file_exists("run/vocab.txt") && tl_file_exists("run/classes.txt"));
    // the run is moved, and its data is gone
    assert_int_equal(rename("run", "moved"), 0);
    assert_int_equal(rename("reviews.csv", "gone.csv"), 0);
    put_text("new.csv", "id,review\n1,\"This BIG thing, number 7, is AWFUL.\"\n"
                        "2,\"this little thing, number 9, is lovely.\"\n");
    run("predict", "--model_dir=moved", "new.csv");
    ended(0, "");
    has("new.csv:2: no 0.");
    has("new.csv:3: yes 0.");
    put_text("new.txt",
             "this big thing, number 3, is poor.\n\nthis big thing, number 8, is fine.\n");
    run("predict", "--model_dir=moved", "--csv", "--top=1", "new.txt");
    ended(0, "");
    has("file,class,probability\nnew.txt:1,no,0.");
    has("new.txt:3,yes,0.");
    put_text("new.jsonl", "{\"comment\": \"This big thing, number 5, is lovely.\"}\n");
    run("predict", "--model_dir=moved", "--json", "--text_columns=comment", "new.jsonl");
    ended(0, "");
    has("{\"file\": \"new.jsonl:1\", \"class\": \"yes\", \"probability\": 0.");
    run("predict", "--model_dir=moved", "--count=1", "--top=1", "new.csv", "new.txt");
    ended(0, "");
    assert_null(strstr(out, "new.csv:3"));
    has("new.txt:1: no");
}

static void test_a_training_goes_on_with_its_vocabulary(void **state)
{
    (void)state;
    char *first, *last;
    learn_reviews();
    assert_ok(tl_file_read(&first, NULL, "run/vocab.txt", 1 << 20));
    // other texts, the same run: its words stay what they were
    put_text("reviews.csv", "review,stars\nquite other words,yes\nand others still,no\n"
                            "zebra crossing,yes\nzebra stripes,no\nhorses run,yes\na b c,no\n");
    run("train", "--experiment=texts", "--mode=train", "--model_dir=run", "--progress=lines",
        "--config_file=run/params.yaml", "trainer.train_steps=120");
    ended(1, "the restored position is of other data");
    learn_reviews();
    TRAIN("run", "trainer.train_steps=120", "--config_file=run/params.yaml");
    ended(0, "");
    assert_ok(tl_file_read(&last, NULL, "run/vocab.txt", 1 << 20));
    assert_string_equal(first, last);
    tl_free(first);
    tl_free(last);
}

static void test_files_of_a_folder_are_texts(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        const char *path =
            tl_arena_printf(lab_arena, "pages/%s/%02d.txt", i / 2 % 2 ? "yes" : "no", i);
        assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
        put_text(path, text_of(i, i / 2 % 2));
    }
    run("train", "--experiment=texts", "--mode=train_and_eval", "--model_dir=run",
        "--progress=lines", "task.train_data.input_path=pages", "tilth.seed=1", "tilth.threads=1",
        "tilth.jit=false", "trainer.train_steps=2", "task.model.encoder.bert.hidden_size=16");
    ended(0, "");
    put_text("two.txt", "this is\n\ngood\n");
    run("predict", "--model_dir=run", "two.txt", "pages/no");
    ended(0, "");
    has("two.txt: ");
    has("pages/no/00.txt: ");
    assert_ok(tl_mkdirs("empty"));
    put_text("broken.txt", "a\xff");
    run("predict", "--model_dir=run", "empty", "broken.txt", "two.txt");
    ended(1, "'empty' holds no text");
    ended(1, "broken.txt: byte 2 of the text (0xff) is no UTF-8");
    has("two.txt: ");
}

static void test_what_cannot_be_asked_is_named(void **state)
{
    (void)state;
    learn_reviews();
    put_text("a.csv", "text,n\nfine,1\n");
    run("predict", "--model_dir=run", "a.csv");
    ended(1, "'a.csv' has no column 'review'");
    put_text("b.jsonl", "{\"review\": \"This big thing, number 2, is fine.\"}\n"
                        "{\"review\": 1}\n");
    run("predict", "--model_dir=run", "b.jsonl");
    ended(1, "b.jsonl:2: column 'review': a text is expected");
    has("b.jsonl:1: yes");
    put_text("c.csv", "review,n\nbad Stra\xdf"
                      "e,1\nThis is fine.,2\n");
    run("predict", "--model_dir=run", "c.csv");
    ended(1, "c.csv:2: column 'review': the text is no UTF-8");
    ended(1, "1 could not be read (see above); 1 could");
    has("c.csv:3: yes");
    run("predict", "--model_dir=run", "--text_columns=n,text", "a.csv");
    ended(1, "a.csv:2: there are two texts, and the run judges one at a time");
    assert_ok(tl_file_remove("run/vocab.txt"));
    run("predict", "--model_dir=run", "a.csv", "--text_columns=text");
    ended(1, "'run' has no vocabulary: put the vocab.txt that the run was trained with there");
    run("train", "--experiment=texts", "--mode=train", "--model_dir=nothing");
    ended(2, "task.train_data.input_path");
}

static void test_what_is_exported_is_asked(void **state)
{
    (void)state;
    learn_reviews();
    put_text("new.txt", "this big thing, number 3, is poor.\nthis big thing, number 8, is fine.\n");
    run("predict", "--model_dir=run", "new.txt");
    ended(0, "");
    char *answers = tl_arena_strdup(lab_arena, out);
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    run("predict", "--model_dir=out", "new.txt");
    ended(0, "");
    assert_string_equal(out, answers);
    run("export", "--model_dir=run", "--to=hf", "--format=hf");
    ended(0, "");
    assert_true(tl_file_exists("hf/vocab.txt") && tl_file_exists("hf/tokenizer_config.json"));
    // and from there into another run: its words, its sizes
    TRAIN("next", "task.init_checkpoint=hf", "trainer.train_steps=2");
    ended(0, "");
    char *first, *last;
    assert_ok(tl_file_read(&first, NULL, "run/vocab.txt", 1 << 20));
    assert_ok(tl_file_read(&last, NULL, "next/vocab.txt", 1 << 20));
    assert_string_equal(first, last);
    tl_free(first);
    tl_free(last);
    run("eval", "--model_dir=run", "--confusion=csv");
    ended(0, "");
    has("class,no,yes\nno,");
    run("eval", "--model_dir=run", "--page");
    ended(0, "");
    has("cls_accuracy");
    char *mistakes;
    assert_ok(tl_file_read(&mistakes, NULL, "run/mistakes.json", 1 << 20));
    assert_non_null(strstr(mistakes, "\"examples\": ["));
    tl_free(mistakes);
    // After two steps nearly all is wrong: texts are put together from their pieces.
    run("eval", "--model_dir=next", "--page");
    ended(0, "");
    assert_ok(tl_file_read(&mistakes, NULL, "next/mistakes.json", 1 << 20));
    if (!strstr(mistakes, "\"wrong\": 0,")) assert_non_null(strstr(mistakes, " thing , number "));
    tl_free(mistakes);
}

/* --- from C ----------------------------------------------------------------------------------- */

static void test_a_predictor_takes_texts(void **state)
{
    (void)state;
    tl_predictor *p;
    tl_predictions *answers;
    const char *awful = "this big thing, number 4, is awful.",
               *great = "this big thing, number 4, is great.";
    learn_reviews();
    const tl_query queries[] = {{.data = awful, .size = strlen(awful)},
                                {.data = "\xff", .size = 1},
                                {.data = great, .size = strlen(great)},
                                {.data = "a", .size = 1, .second = "b", .second_size = 1}};
    assert_ok(tl_predictor_open(&p, NULL, "run", NULL));
    assert_ok(tl_predictor_run(&answers, p, queries, TL_COUNT(queries)));
    assert_string_equal(answers->items[0].top[0].name, "no");
    assert_int_equal(answers->items[1].status, TL_EDATA);
    assert_string_equal(answers->items[2].top[0].name, "yes");
    assert_true(answers->items[2].top[0].probability > 0.8);
    assert_int_equal(answers->items[3].status, TL_EINVAL);
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

/* --- records ---------------------------------------------------------------------------------- */

#define TINY                                                                                       \
    "task.model.encoder.bert.vocab_size=100", "task.model.encoder.bert.hidden_size=16",            \
        "task.model.encoder.bert.num_layers=1", "task.model.encoder.bert.num_attention_heads=2",   \
        "task.model.encoder.bert.intermediate_size=16", "task.model.num_classes=2",                \
        "task.model.encoder.bert.dropout_rate=0", "tilth.seed=1", "tilth.threads=1",               \
        "tilth.jit=false", "trainer.train_steps=90", "trainer.checkpoint_interval=90",             \
        "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.01",            \
        "trainer.optimizer_config.learning_rate.polynomial.decay_steps=90",                        \
        "trainer.optimizer_config.warmup.polynomial.warmup_steps=9",                               \
        "task.train_data.global_batch_size=16"

static void put_vocab(void)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s,
               "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthis\nlittle\nbig\nthing\nnumber\nis\n.\n,\n");
    for (int i = 0; i < 8; i++) tl_str_addf(&s, "%s\n", words[i / 4][i % 4]);
    for (int i = 0; i < 10; i++) tl_str_addf(&s, "%d\n##%d\n", i, i);
    put_text("vocab.txt", tl_str_text(&s));
    tl_str_deinit(&s);
}

/* Pieces, with the vocabulary and the classes that lie beside them. */
static void test_runs_of_records_are_asked(void **state)
{
    (void)state;
    put_vocab();
    put_reviews("reviews.csv");
    run("data", "finetuning", "--vocab_file=vocab.txt", "--train_file=reviews.csv",
        "--text_columns=review", "--label_column=stars", "--max_seq_length=16",
        "--train_data_output_path=records/train.tfrecord");
    ended(0, "");
    assert_true(tl_file_exists("records/train.tfrecord.vocab.txt"));
    run("train", "--experiment=bert/sentence_prediction", "--mode=train", "--model_dir=run",
        "--progress=lines", "task.train_data.input_path=records/*", "task.train_data.seq_length=16",
        TINY);
    ended(0, "");
    assert_int_equal(rename("records", "gone"), 0);
    assert_ok(tl_file_remove("vocab.txt"));
    put_text("new.txt",
             "this big thing, number 3, is Awful.\nthis big thing, number 8, is fine.\n");
    run("predict", "--model_dir=run", "--top=1", "new.txt");
    ended(0, "");
    has("new.txt:1: no 0.");
    has("new.txt:2: yes 0.");
    put_text("new.csv", "say,n\n\"this big thing, number 3, is great.\",1\n");
    run("predict", "--model_dir=run", "new.csv");
    ended(1, "new.csv: which column holds the texts is not known: say --text_columns=NAME");
    run("predict", "--model_dir=run", "--top=1", "--text_columns=say", "new.csv");
    ended(0, "");
    has("new.csv:2: yes 0.");
}

static void test_runs_of_records_of_texts_are_asked(void **state)
{
    (void)state;
    tl_tfrecord_writer *w;
    put_vocab();
    assert_ok(tl_tfrecord_writer_begin(&w, "texts.tfrecord", NULL));
    for (int i = 0; i < 200; i++) {
        tl_str record = TL_STR_INIT;
        const char *text = text_of(i, i / 2 % 2);
        const int64_t label = i / 2 % 2;
        tl_example_writer e = tl_example_begin(&record);
        tl_example_add_bytes(&e, "say", &(tl_bytes){text, strlen(text)}, 1);
        tl_example_add_ints(&e, "label", &label, 1);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, record.data, record.length));
        tl_str_deinit(&record);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    put_text("texts.tfrecord.classes.txt", "no\nyes\n");
    run("train", "--experiment=bert/sentence_prediction_text", "--mode=train", "--model_dir=run",
        "--progress=lines", "task.train_data.input_path=texts.tfrecord",
        "task.train_data.seq_length=16", "task.train_data.text_fields=[say]",
        "task.train_data.vocab_file=vocab.txt", TINY);
    ended(0, "");
    assert_ok(tl_file_remove("vocab.txt"));
    put_text("new.jsonl", "{\"say\": \"this big thing, number 1, is awful.\"}\n"
                          "{\"say\": \"this big thing, number 2, is great.\"}\n");
    run("predict", "--model_dir=run", "--top=1", "new.jsonl");
    ended(0, "");
    has("new.jsonl:1: no 0.");
    has("new.jsonl:2: yes 0.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_texts_are_learned_and_asked),
        TOOL_TEST(test_a_training_goes_on_with_its_vocabulary),
        TOOL_TEST(test_files_of_a_folder_are_texts),
        TOOL_TEST(test_what_cannot_be_asked_is_named),
        TOOL_TEST(test_what_is_exported_is_asked),
        TOOL_TEST(test_a_predictor_takes_texts),
        TOOL_TEST(test_runs_of_records_are_asked),
        TOOL_TEST(test_runs_of_records_of_texts_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
