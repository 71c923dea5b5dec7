/* What an experiment of language lacks is told with a command, and the command runs: a shell reads
 * it as it was printed. needs: no sanitizer */
#include "tool/shell_lab.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#define TRAIN "tilth train --config_file=small.yaml --model_dir=run --mode="

static void put(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

/* Texts, their records, and a network that is small enough to be trained twice. */
static void prepare(void)
{
    put("small.yaml", "task:\n"
                      "  model:\n"
                      "    encoder: {bert: {hidden_size: 8, num_layers: 1, num_attention_heads: 2, "
                      "intermediate_size: 8}}\n"
                      "  train_data: {global_batch_size: 4}\n"
                      "  validation_data: {global_batch_size: 4}\n"
                      "trainer: {train_steps: 2, steps_per_loop: 2, validation_interval: 2, "
                      "validation_steps: 1}\n"
                      "tilth: {jit: false}\n");
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n");
    put("wiki.txt", "a b c d\nb c d\nc d a\n\nd a b\na a b\nb b\n\n");
    put("rows.csv", "text,label\na b,x\nc d,y\na a,z\nb c,x\nd d,y\na c,z\n");
    ends(0,
         "tilth data pretraining --vocab_file=vocab.txt --input_file=wiki.txt "
         "--output_file=wiki.tfrecord --max_seq_length=16 --max_predictions_per_seq=3",
         "wrote");
    ends(0,
         "tilth data finetuning --vocab_file=vocab.txt --train_file=rows.csv "
         "--train_data_output_path=rows.tfrecord --max_seq_length=16",
         "3 classes: x, y, z");
}

/* Reads like one who fills in names of files, and runs the command. */
static void runs_as_printed(const char *file)
{
    static const char begin[] = "  With these it runs:\n";
    char line[200];
    char *command = strstr(said, begin);
    assert_non_null(command);
    command += sizeof begin - 1;
    char *stop = strstr(command, "\n  --experiment="); // the hint
    assert_non_null(stop);
    stop[1] = '\0';
    put("command.txt", command);
    snprintf(line, sizeof line, "sed 's/FILE[.a-z]*/%s/' command.txt >command.sh; . ./command.sh",
             file);
    ends(0, line, "done: step 2");
}

/* The message has these lines, and the command that it ends with runs. */
static void is_told(const char *line, const char *const *keys, const char *file)
{
    ends(2, line, "lacks ");
    for (; *keys; keys++) has(*keys);
    runs_as_printed(file);
}

static void pretraining_of_records(void **state)
{
    (void)state;
    static const char *const keys[] = {"task.train_data.input_path ",
                                       "task.validation_data.input_path ",
                                       "polynomial.warmup_steps ",
                                       "polynomial.decay_steps ",
                                       "bert/local is a tiny BERT that needs no files",
                                       NULL};
    static const char *const lengths[] = {
        "task.train_data.seq_length                   the records have 16 values, and it is 512",
        "task.train_data.max_predictions_per_seq      the records have 3 values, and it is 76",
        NULL};
    prepare();
    ends(2, TRAIN "train_and_eval --experiment=bert/pretraining", "lacks 4 settings:");
    for (int i = 0; keys[i]; i++) has(keys[i]);
    is_told(TRAIN "train --experiment=bert/pretraining task.train_data.input_path=wiki.tfrecord",
            lengths, "");
}

static void pretraining_by_length(void **state)
{
    (void)state;
    static const char *const keys[] = {"task.train_data.input_path ", NULL};
    static const char *const names[] = {
        "task.train_data.use_v2_feature_names         false: the records have input_ids", NULL};
    prepare();
    is_told(TRAIN "train --experiment=bert/pretraining_dynamic "
                  "task.train_data.seq_bucket_lengths=[16]",
            keys, "wiki.tfrecord");
    is_told(TRAIN
            "train --experiment=bert/pretraining_dynamic "
            "task.train_data.seq_bucket_lengths=[16] task.train_data.use_v2_feature_names=true "
            "task.train_data.input_path=wiki.tfrecord",
            names, "");
}

static void pretraining_of_texts(void **state)
{
    (void)state;
    static const char *const keys[] = {"task.train_data.input_path ",
                                       "task.train_data.tfds_name ",
                                       "task.train_data.vocab_file_path ",
                                       "task.validation_data.vocab_file_path ",
                                       "nothing is fetched",
                                       NULL};
    prepare();
    ends(2,
         TRAIN "train --experiment=bert/text_wiki_pretraining task.train_data.input_path=wiki.txt "
               "'task.train_data.tfds_name=\"\"' task.train_data.vocab_file_path=vocabs.txt",
         "lacks 2 settings:"); // a name that is mistyped is for the one who opens it
    is_told(TRAIN "train_and_eval --experiment=bert/text_wiki_pretraining "
                  "task.train_data.seq_length=16 task.validation_data.seq_length=16",
            keys, "wiki.txt");
}

static void sentences(void **state)
{
    (void)state;
    static const char *const keys[] = {"task.model.num_classes ",
                                       "task.train_data.seq_length ",
                                       "task.validation_data.seq_length ",
                                       "task.model.num_classes=3",
                                       "--experiment=texts needs task.train_data.input_path alone",
                                       NULL};
    prepare();
    is_told(TRAIN "train_and_eval --experiment=bert/sentence_prediction "
                  "task.train_data.input_path=rows.tfrecord "
                  "'task.validation_data.input_path=rows.tfrec*'",
            keys, "");
}

/* Records of texts, which no command of ours makes. */
static void write_texts(const char *path)
{
    static const char *const texts[] = {"a b", "c d", "b b", "d c"};
    tl_tfrecord_writer *to;
    assert_ok(tl_tfrecord_writer_begin(&to, path, NULL));
    for (int64_t i = 0; i < TL_COUNT(texts); i++) {
        tl_str record = TL_STR_INIT;
        const int64_t label = i % 2;
        tl_example_writer w = tl_example_begin(&record);
        tl_example_add_text(&w, "text", texts[i]);
        tl_example_add_ints(&w, "label", &label, 1);
        assert_ok(tl_example_end(&w));
        assert_ok(tl_tfrecord_write(to, record.data, record.length));
        tl_str_deinit(&record);
    }
    assert_ok(tl_tfrecord_writer_commit(&to));
}

static void sentences_of_texts(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "task.train_data.input_path ", "task.train_data.text_fields ",
        "task.validation_data.text_fields ", "task.train_data.vocab_file ", NULL};
    prepare();
    write_texts("texts.tfrecord");
    is_told(TRAIN "train_and_eval --experiment=bert/sentence_prediction_text", keys,
            "texts.tfrecord");
}

/* What a mode has no use for is not asked for. */
static void evaluations_need_less(void **state)
{
    (void)state;
    prepare();
    ends(2, TRAIN "eval --experiment=bert/sentence_prediction", "lacks 2 settings:");
    has("task.validation_data.input_path ");
    if (strstr(said, "warmup_steps")) fail_msg("an evaluation is asked for what trains:\n%s", said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(pretraining_of_records), SHELL_TEST(pretraining_by_length),
        SHELL_TEST(pretraining_of_texts),   SHELL_TEST(sentences),
        SHELL_TEST(sentences_of_texts),     SHELL_TEST(evaluations_need_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
