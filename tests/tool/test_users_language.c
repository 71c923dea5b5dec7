/* Who trains with texts makes mistakes, too: what is said names the setting or the record, what was
 * expected, and what to do. */
#include "tool/tool_lab.h"

#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

/* --- records ---------------------------------------------------------------------------------- */

enum { LENGTH = 8, GUESSES = 2, COUNT = 8 };

/* What is wrong with the last record. */
typedef struct faults {
    int64_t word, guess, position, next, label;
    bool filler; // there is nothing in it
} faults;

static void add_record(tl_tfrecord_writer *to, const faults *f)
{
    tl_str record = TL_STR_INIT;
    int64_t words[LENGTH] = {2, 5, f->word ? f->word : 6, 3}, mask[LENGTH] = {1, 1, 1, 1};
    int64_t types[LENGTH] = {0}, positions[GUESSES] = {1, f->position};
    int64_t guesses[GUESSES] = {f->guess ? f->guess : 5};
    float weights[GUESSES] = {1};
    if (f->filler) {
        memset(words, 0, sizeof words);
        memset(positions, 0, sizeof positions);
        memset(weights, 0, sizeof weights);
    }
    tl_example_writer w = tl_example_begin(&record);
    tl_example_add_ints(&w, "input_ids", words, LENGTH);
    tl_example_add_ints(&w, "input_mask", mask, LENGTH);
    tl_example_add_ints(&w, "segment_ids", types, LENGTH);
    tl_example_add_ints(&w, "masked_lm_positions", positions, GUESSES);
    tl_example_add_ints(&w, "masked_lm_ids", guesses, GUESSES);
    tl_example_add_floats(&w, "masked_lm_weights", weights, GUESSES);
    tl_example_add_ints(&w, "next_sentence_labels", &f->next, 1);
    tl_example_add_ints(&w, "label_ids", &f->label, 1);
    tl_example_add_text(&w, "text", "a b");
    assert_ok(tl_example_end(&w));
    assert_ok(tl_tfrecord_write(to, record.data, record.length));
    tl_str_deinit(&record);
}

static bool packed; // files that are compressed are not looked into before they are read

static void write_records(const faults *last)
{
    static const faults none;
    tl_tfrecord_writer *to;
    assert_ok(tl_tfrecord_writer_begin(&to, "records", &(tl_tfrecord_writer_args){.gzip = packed}));
    for (int i = 0; i < COUNT; i++) add_record(to, i == COUNT - 1 ? last : &none);
    assert_ok(tl_tfrecord_writer_commit(&to));
}
#define WRITE(...) write_records(&(faults){__VA_ARGS__})

/* --- runs ------------------------------------------------------------------------------------- */

#define OPTIMIZATION "trainer.optimizer_config."
#define SMALL(experiment)                                                                          \
    "train", "--experiment=" experiment, "--mode=train", "--model_dir=run", "--progress=lines",    \
        "tilth.jit=false", "tilth.threads=1", "trainer.train_steps=2",                             \
        OPTIMIZATION "learning_rate.polynomial.decay_steps=2",                                     \
        OPTIMIZATION "warmup.polynomial.warmup_steps=0", "task.model.encoder.bert.hidden_size=8",  \
        "task.model.encoder.bert.num_layers=1", "task.model.encoder.bert.num_attention_heads=2",   \
        "task.model.encoder.bert.intermediate_size=8", "task.model.encoder.bert.vocab_size=9",     \
        "task.train_data.global_batch_size=8", "task.train_data.input_path=records"

#define SIZED(experiment) SMALL(experiment), "task.train_data.seq_length=8"
#define GUESSING SIZED("bert/pretraining"), "task.train_data.max_predictions_per_seq=2"
#define JUDGING SIZED("bert/sentence_prediction"), "task.model.num_classes=2"

static void anew(void)
{
    remove_tree("run");
}
#define refused(message, ...)                                                                      \
    do {                                                                                           \
        anew();                                                                                    \
        run(__VA_ARGS__);                                                                          \
        ended(code == 1 ? 1 : 2, message);                                                         \
    } while (0)
#define works(...)                                                                                 \
    do {                                                                                           \
        anew();                                                                                    \
        run(__VA_ARGS__);                                                                          \
        ended(0, "");                                                                              \
    } while (0)

/* Numbers that the model has no room for were errors of an op, or of nobody. */
static void numbers_of_records_fit(void **state)
{
    (void)state;
    WRITE(0);
    works(GUESSING);
    works(JUDGING);
    WRITE(.word = 9);
    refused("record 7 (byte ", GUESSING);
    text_has(err, "of 'records': feature 'input_ids' has 9 at [2]; 0 to 8 are expected: set "
                  "task.model.encoder.bert.vocab_size to the size of the vocabulary");
    refused("feature 'input_ids' has 9 at [2]; 0 to 8 are expected", JUDGING);
    WRITE(.word = -1);
    refused("feature 'input_ids' has -1 at [2]; 0 to 8 are expected: make the records anew, with "
            "numbers from 0",
            GUESSING);
    WRITE(.guess = 10);
    refused("feature 'masked_lm_ids' has 10 at [0]; 0 to 8 are expected", GUESSING);
    WRITE(.position = LENGTH);
    refused("feature 'masked_lm_positions' has 8 at [1]; 0 to 7 are expected: they are places of "
            "the sequence",
            GUESSING);
    WRITE(.position = -1);
    refused("feature 'masked_lm_positions' has -1 at [1]", GUESSING);
    WRITE(.next = 2);
    refused("feature 'next_sentence_labels' has 2 at [0]; 0 to 1 are expected: set "
            "task.model.cls_heads[0].num_classes to the number of classes",
            GUESSING);
    works(GUESSING, "task.train_data.use_next_sentence_label=false");
    WRITE(.label = 2);
    refused("feature 'label_ids' has 2 at [0]; 0 to 1 are expected: set task.model.num_classes to "
            "the number of classes, which count from 0",
            JUDGING);
    works(JUDGING, "task.model.num_classes=3");
    works(JUDGING, "task.model.num_classes=1"); // a number may be any
}

/* In batches by length a sequence ends behind its last word. */
static void places_end_with_the_words(void **state)
{
    (void)state;
    WRITE(.position = 4);
    refused("feature 'masked_lm_positions' has 4 at [1]; 0 to 3 are expected",
            SMALL("bert/pretraining_dynamic"), "task.train_data.seq_bucket_lengths=[4]");
    WRITE(.filler = true);
    works(SMALL("bert/pretraining_dynamic"), "task.train_data.seq_bucket_lengths=[4]");
    WRITE(.position = 3);
    works(SMALL("bert/pretraining_dynamic"), "task.train_data.seq_bucket_lengths=[4]");
    refused("the example has 4 words, and task.train_data.seq_bucket_lengths ends with 3: add a "
            "length",
            SMALL("bert/pretraining_dynamic"), "task.train_data.seq_bucket_lengths=[2,3]");
}

static void texts_fit_the_model(void **state)
{
    (void)state;
#define OF_TEXTS                                                                                   \
    SIZED("bert/sentence_prediction_text"), "task.train_data.text_fields=[text]",                  \
        "task.train_data.vocab_file=vocab.txt", "task.model.num_classes=2",                        \
        "task.train_data.label_field=label_ids"
    put_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    WRITE(0);
    works(OF_TEXTS);
    refused("of 'records': the piece 'b' has the number 6 in 'vocab.txt', and "
            "task.model.encoder.bert.vocab_size is 6: set it to 7, or name the vocabulary that "
            "task.init_checkpoint was made with",
            OF_TEXTS, "task.model.encoder.bert.vocab_size=6");
    put_text("surplus.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n\n");
    works(OF_TEXTS, "task.train_data.vocab_file=surplus.txt",
          "task.model.encoder.bert.vocab_size=7"); // no text has what is too much
    put_text("asked.txt", "a\nb c\n");
    run("predict", "--model_dir=run", "asked.txt");
    ended(1, "asked.txt:2: the piece 'c' has the number 7");
    put_text("headless.txt", "[PAD]\n[UNK]\n[SEP]\na\nb\n");
    refused("task.train_data.vocab_file: 'headless.txt' has no piece '[CLS]'", OF_TEXTS,
            "task.train_data.vocab_file=headless.txt");
    refused("the example has no feature 'texts', which is named by task.train_data.text_fields; it "
            "has input_ids, input_mask",
            OF_TEXTS, "task.train_data.text_fields=[texts]");
    refused("task.train_data.label_type: float is of numbers, and task.model.num_classes is 2",
            OF_TEXTS, "task.train_data.label_type=float");
    WRITE(.label = 2);
    refused("feature 'label_ids' has 2 at [0]; 0 to 1 are expected: set task.model.num_classes",
            OF_TEXTS);
    put_text("wiki.txt", "a b\nb a\n\na a\nb b\n");
    refused("task.train_data.vocab_file_path has 7 pieces: set it to 7",
            SIZED("bert/text_wiki_pretraining"), "task.train_data.input_path=wiki.txt",
            "task.train_data.tfds_name=\"\"", "task.train_data.vocab_file_path=vocab.txt",
            "task.model.encoder.bert.vocab_size=6");
}

static void settings_fit_each_other(void **state)
{
    (void)state;
    WRITE(0);
    refused("task.model.cls_heads: no head is called 'next_sentence', and "
            "task.train_data.use_next_sentence_label is true: add {name: next_sentence, "
            "inner_dim: SIZE, num_classes: 2}, SIZE as the encoder's hidden_size",
            GUESSING, "task.model.cls_heads=[]");
    works(GUESSING, "task.model.cls_heads=[]", "task.train_data.use_next_sentence_label=false");
    refused("task.train_data.label_type: float is of numbers, and task.model.num_classes is 2: set "
            "label_type=int for classes, or task.model.num_classes=1 for a number",
            JUDGING, "task.train_data.label_type=float");
    refused("task.metric_type: expected accuracy, f1, matthews_corrcoef or pearson_spearman_corr, "
            "found 'f2'",
            JUDGING, "task.metric_type=f2");
    refused("model.encoder.type: 'xlnet' cannot be built yet; bert, bert_v2, albert and any can",
            JUDGING, "task.model.encoder.type=xlnet");
    works(JUDGING, "task.init_cls_pooler=true"); // it speaks of a checkpoint that is not there
    refused("the example has no feature 'label', which is named by task.train_data.label_field; it "
            "has input_ids, ",
            JUDGING, "task.train_data.label_field=label");
}

static void lengths_are_those_of_the_records(void **state)
{
    (void)state;
    WRITE(0);
    refused("task.train_data.seq_length                   the records have 8 values, and it is 128",
            SMALL("bert/sentence_prediction"), "task.model.num_classes=2");
    packed = true;
    WRITE(0);
    packed = false;
    refused("feature 'input_ids' has 8 values; [128] is expected, as says "
            "task.train_data.seq_length",
            SMALL("bert/sentence_prediction"), "task.model.num_classes=2");
    works(JUDGING);
}

static void words_are_looked_up_as_wide_as_the_rest(void **state)
{
    (void)state;
#define LOOKING_UP                                                                                 \
    GUESSING, "--gin_params=build_encoder.embedding_layer = @OnDeviceEmbedding()",                 \
        "--gin_params=OnDeviceEmbedding.vocab_size = 20",                                          \
        "--gin_params=OnDeviceEmbedding.embedding_width = 6"
    WRITE(.word = 19); // gin's layer has room for it
    refused("build_encoder.embedding_layer gives vectors of 6, and 8 are expected: set its "
            "embedding_width=8, or embedding_size=6 of the encoder",
            LOOKING_UP);
    works(LOOKING_UP, "task.model.encoder.bert.embedding_size=6",
          "task.validation_data.global_batch_size=8", "task.validation_data.input_path=records",
          "task.validation_data.seq_length=8", "task.validation_data.max_predictions_per_seq=2");
    run("eval", "--model_dir=run");
    ended(0, "");
}

/* The section says how many words there are as long as its table is the one. */
static void words_of_scaffolds_are_counted(void **state)
{
    (void)state;
#define SCAFFOLD                                                                                   \
    GUESSING, "--gin_params=build_encoder.encoder_cls = @EncoderScaffold",                         \
        "--gin_params=EncoderScaffold.hidden_cls = @TransformerScaffold"
    WRITE(.word = 9);
    refused("feature 'input_ids' has 9 at [2]; 0 to 8 are expected: set "
            "task.model.encoder.bert.vocab_size",
            SCAFFOLD);
    works(SCAFFOLD, "--gin_params=EncoderScaffold.embedding_cls = @PackedSequenceEmbedding()",
          "--gin_params=PackedSequenceEmbedding.vocab_size = 20",
          "--gin_params=PackedSequenceEmbedding.type_vocab_size = 2",
          "--gin_params=PackedSequenceEmbedding.embedding_width = 8",
          "--gin_params=PackedSequenceEmbedding.hidden_size = 8",
          "--gin_params=PackedSequenceEmbedding.max_seq_length = 8");
}

static void what_answers_no_questions_says_so(void **state)
{
    (void)state;
    WRITE(0);
    works(GUESSING);
    put_text("some.txt", "a b\n");
    run("predict", "--model_dir=run", "some.txt");
    ended(2, "this run is of the task 'masked_lm', which answers no questions");
    text_has(err, "task.init_checkpoint=run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(numbers_of_records_fit),
        TOOL_TEST(places_end_with_the_words),
        TOOL_TEST(texts_fit_the_model),
        TOOL_TEST(settings_fit_each_other),
        TOOL_TEST(lengths_are_those_of_the_records),
        TOOL_TEST(words_are_looked_up_as_wide_as_the_rest),
        TOOL_TEST(words_of_scaffolds_are_counted),
        TOOL_TEST(what_answers_no_questions_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
