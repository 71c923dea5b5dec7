/* `tilth data pretraining` and `tilth data finetuning`: what they write and say, and what they
 * refuse with which words. What is in the records is compared with the original's in tests/text. */
#include "text/text_lab.h"

#include "tool/tool_run.h"

static int teardown(void **state)
{
    (void)state;
    char command[128];
    tool_forget();
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* --flag=FOLDER/name */
static const char *flag(const char *name, const char *file)
{
    static char flags[16][600];
    static int next;
    char *to = flags[next++ % 16];
    snprintf(to, sizeof flags[0], "--%s=%s", name, in_folder(file));
    return to;
}

static void put(const char *name, const char *text)
{
    put_bytes(in_folder(name), text, strlen(text));
}

#define VOCAB "--vocab_file=" GOLDEN "toy_vocab.txt"
#define TOY "--input_file=" GOLDEN "toy.txt"
#define pretraining(...) run("data", "pretraining", __VA_ARGS__)
#define finetuning(...) run("data", "finetuning", __VA_ARGS__)

/* --- pretraining ------------------------------------------------------------------------------ */

static void examples_are_written(void **state)
{
    (void)state;
    pretraining(VOCAB, TOY, flag("output_file", "made/toy"), "--max_seq_length=16",
                "--dupe_factor=2", "--max_predictions_per_seq=3");
    went_well();
    has("read 1 file: 2 documents, 6 sentences, ");
    has("wrote 6 examples to ");
    assert_int_equal(same_records(GOLDEN "toy.tfrecord.gz", in_folder("made/toy")), 6);
    pretraining(VOCAB, TOY, flag("output_file", "made/words"), "--max_seq_length=16",
                "--dupe_factor=2", "--max_predictions_per_seq=3", "--do_whole_word_mask",
                "--gzip_compress");
    went_well();
    assert_int_equal(same_records(GOLDEN "toy_words.tfrecord.gz", in_folder("made/words")), 8);
    run("data", "show", in_folder("made/toy"));
    went_well();
    has("masked_lm_positions   int64  3 values");
}

static void several_files_are_dealt(void **state)
{
    (void)state;
    char outputs[2000];
    snprintf(outputs, sizeof outputs, "--output_file=%s,%s,%s", in_folder("0"), in_folder("1"),
             in_folder("2"));
    pretraining(VOCAB, TOY, outputs, "--max_seq_length=12", "--dupe_factor=2");
    went_well();
    has("wrote 8 examples to ");
    has("/0 and 2 more files\n");
    same_records(GOLDEN "three.tfrecord.gz", in_folder("0"));
    same_records(GOLDEN "three1.tfrecord.gz", in_folder("1"));
    same_records(GOLDEN "three2.tfrecord.gz", in_folder("2"));
}

/* Files of a pattern come in the order of their names, and lists in their own. */
static void patterns_are_expanded(void **state)
{
    (void)state;
    char list[2000], pattern[600];
    put("part_b.txt", "the dog sat\n\n");
    put("part_a.txt", "the cat sat on the mat\nthe cats ran\n\n");
    put("part[1].txt", "a bird sang\n");
    snprintf(list, sizeof list, "--input_file=%s,%s,%s", in_folder("part_a.txt"),
             in_folder("part_b.txt"), in_folder("part[1].txt"));
    snprintf(pattern, sizeof pattern, "--input_file=%s,%s", in_folder("part_*.txt"),
             in_folder("part[1].txt"));
    pretraining(VOCAB, list, flag("output_file", "list"));
    went_well();
    has("read 3 files: 3 documents, 4 sentences, ");
    pretraining(VOCAB, pattern, flag("output_file", "pattern"));
    went_well();
    assert_true(same_records(in_folder("list"), in_folder("pattern")) > 0);
}

static void pretraining_is_refused(void **state)
{
    (void)state;
    put("there", "x");
    pretraining(VOCAB, TOY);
    failed(2, "`pretraining` needs --output_file");
    pretraining(VOCAB, flag("output_file", "x"));
    failed(2, "`pretraining` needs --input_file");
    pretraining(TOY, flag("output_file", "x"));
    failed(2, "`pretraining` needs --vocab_file");
    pretraining(VOCAB, TOY, flag("output_file", "x"), "corpus.txt");
    failed(2, "'corpus.txt': `pretraining` takes its files by flags");
    pretraining(VOCAB, TOY, flag("output_file", "there"));
    failed(2, "there' exists; --overwrite replaces it");
    pretraining(VOCAB, TOY, flag("output_file", "x,"));
    failed(2, "has an empty part");
    pretraining(VOCAB, TOY, "--output_file=x,x");
    failed(2, "--output_file: 'x' is there twice");
    pretraining(VOCAB, flag("input_file", "none*"), flag("output_file", "x"));
    failed(2, "--input_file: no file matches '");
    put("blank", "\n \n\t\r\n");
    pretraining(VOCAB, flag("input_file", "blank"), flag("output_file", "x"));
    failed(1, "there is no text in it");
    pretraining(VOCAB, TOY, flag("output_file", "x"), "--max_seq_length=4");
    failed(2, "max_seq_length");
    pretraining(VOCAB, TOY, flag("output_file", "x"), "--max_ngram_size=2");
    failed(2, "runs of words need do_whole_word_mask");
    pretraining(VOCAB, TOY, flag("output_file", "x"), "--rules=sentencepiece");
    failed(2, "model_garden");
    pretraining(TOY, flag("output_file", "x"), flag("vocab_file", "none"));
    failed(2, "none");
    assert_false(tl_file_exists(in_folder("x")));
    pretraining(VOCAB, TOY, flag("output_file", "there"), "--overwrite");
    went_well();
    run("data", "pretrainin");
    ended(2, "did you mean 'pretraining'?");
}

/* --- finetuning ------------------------------------------------------------------------------- */

#define REVIEWS "text,label\nthe cat sat,good\n\"a dog, a bird\",bad\nthe mat,good\n"

static char *text_in(const char *name)
{
    static char *text;
    size_t size;
    tl_free(text);
    text = bytes_of(in_folder(name), &size);
    text = tl_realloc(text, size + 1);
    assert_non_null(text);
    text[size] = '\0';
    return text;
}

static void tables_are_turned(void **state)
{
    (void)state;
    put("train.csv", REVIEWS);
    put("eval.jsonl", "{\"text\": \"a cat\", \"label\": \"bad\"}\n");
    put("new.csv", "text\na dog\n");
    finetuning(VOCAB, flag("train_file", "train.csv"), flag("eval_file", "eval.jsonl"),
               flag("test_file", "new.csv"), flag("train_data_output_path", "t/train"),
               flag("eval_data_output_path", "t/eval"), flag("test_data_output_path", "t/test"),
               flag("meta_data_file_path", "t/meta"), "--max_seq_length=8");
    went_well();
    has("wrote 3 examples to ");
    has("t/train\n");
    has("wrote 1 examples to ");
    has("2 classes: bad, good\n");
    assert_string_equal(text_in("t/train.classes.txt"), "bad\ngood\n");
    assert_string_equal(text_in("t/eval.classes.txt"), "bad\ngood\n");
    assert_string_equal(text_in("t/meta"),
                        "{\n    \"processor_type\": \"FILES\",\n    \"train_data_size\": 3,\n"
                        "    \"max_seq_length\": 8,\n    \"test_data_size\": 1,\n"
                        "    \"task_type\": \"bert_classification\",\n    \"num_labels\": 2,\n"
                        "    \"eval_data_size\": 1\n}\n");
    run("data", "show", in_folder("t/eval"));
    went_well();
    has("label_ids: int64 0\n");
    run("data", "show", in_folder("t/train"));
    has("input_ids: int64 2, 5, 6, 7, 3, 0, 0, 0\n");
    has("label_ids: int64 1\n");
}

static void classes_may_be_given(void **state)
{
    (void)state;
    put("train.csv", REVIEWS);
    put("classes", "good\nbad\n");
    finetuning(VOCAB, flag("train_file", "train.csv"), flag("train_data_output_path", "given1"),
               "--labels=good,bad");
    went_well();
    has("2 classes: good, bad\n");
    finetuning(VOCAB, flag("eval_file", "train.csv"), flag("eval_data_output_path", "given2"),
               flag("classes", "classes"));
    went_well();
    same_records(in_folder("given1"), in_folder("given2"));
    finetuning(VOCAB, flag("train_file", "train.csv"), flag("train_data_output_path", "given3"),
               "--labels=good,worse");
    failed(1, "train.csv:3: column 'label': 'bad' is none of the 2 classes: good, worse");
    assert_false(tl_file_exists(in_folder("given3")));
}

static void numbers_are_learned(void **state)
{
    (void)state;
    put("pairs.tsv", "a\tb\tscore\nthe \"cat\ta dog\t2.5\na\tbird\t-1\n");
    finetuning(VOCAB, flag("train_file", "pairs.tsv"), flag("train_data_output_path", "score"),
               "--text_columns=a,1", "--label_column=score", "--fine_tuning_task_type=regression",
               "--max_seq_length=7", flag("meta_data_file_path", "score.json"));
    went_well();
    has("; 1 were longer than 7 pieces and are cut\n");
    assert_null(strstr(out, "classes"));
    assert_false(tl_file_exists(in_folder("score.classes.txt")));
    text_has(text_in("score.json"),
             "\"task_type\": \"bert_regression\",\n    \"label_type\": \"float\"\n}\n");
    run("data", "show", in_folder("score"));
    has("label_ids: float 2.5\n");
}

/* A folder as GLUE has it: the columns of each task. */
static void glue_folders_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *task, *train, *dev, *test; // two rows each
        const char *ids;                       // of the first of training
        const char *label;
    } tasks[] = {
        {"CoLA", "x\t1\t\tthe \"cat\nx\t0\t*\ta dog\n", "x\t1\t\tthe mat\nx\t0\t\ta\n",
         "index\tsentence\n0\tthe cat\n1\ta\n", "2, 5, 1, 6, 3", "label_ids: int64 1\n"},
        {"SST-2", "sentence\tlabel\nthe cat\t0\na dog\t1\n", "sentence\tlabel\na\t1\nthe\t0\n",
         "index\tsentence\n0\tthe cat\n1\ta\n", "2, 5, 6, 3", "label_ids: int64 0\n"},
        {"MRPC", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tthe\tcat\n0\t7\t8\ta\ta\n",
         "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tthe\tcat\n0\t7\t8\ta\ta\n",
         "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tthe\tcat\n0\t7\t8\ta\ta\n",
         "2, 5, 3, 6, 3", "label_ids: int64 1\n"},
        {"QQP",
         "id\tqid1\tqid2\tquestion1\tquestion2\tis_"
         "duplicate\n1\t2\t3\tthe\tcat\t0\n1\t2\t3\ta\ta\t1\n",
         "id\tqid1\tqid2\tquestion1\tquestion2\tis_"
         "duplicate\n1\t2\t3\tthe\tcat\t0\n1\t2\t3\ta\ta\t1\n",
         "id\tquestion1\tquestion2\n1\tthe\tcat\n2\ta\tdog\n", "2, 5, 3, 6, 3",
         "label_ids: int64 0\n"},
        {"STS-B",
         "index\tgenre\tfile\tyear\told\ts1\ts2\tsentence1\tsentence2\tscore\n"
         "0\tg\tf\ty\to\t1\t2\tthe\tcat\t4.25\n1\tg\tf\ty\to\t1\t2\tthe\tcat\t0\n",
         "index\tgenre\tfile\tyear\told\ts1\ts2\tsentence1\tsentence2\tscore\n"
         "0\tg\tf\ty\to\t1\t2\tthe\tcat\t4.25\n1\tg\tf\ty\to\t1\t2\tthe\tcat\t0\n",
         "index\tgenre\tfile\tyear\told\ts1\ts2\tsentence1\tsentence2\n"
         "0\tg\tf\ty\to\t1\t2\tthe\tcat\n1\tg\tf\ty\to\t1\t2\tthe\tcat\n",
         "2, 5, 3, 6, 3", "label_ids: float 4.25\n"},
        {"QNLI",
         "index\tquestion\tsentence\tlabel\n0\tthe\tcat\tnot_entailment\n1\ta\ta\tentailment\n",
         "index\tquestion\tsentence\tlabel\n0\tthe\tcat\tnot_entailment\n1\ta\ta\tentailment\n",
         "index\tquestion\tsentence\n0\tthe\tcat\n1\ta\ta\n", "2, 5, 3, 6, 3",
         "label_ids: int64 1\n"},
        {"RTE",
         "index\tsentence1\tsentence2\tlabel\n0\tthe \"cat\ta\tentailment\n"
         "1\ta\ta\tnot_entailment\n",
         "index\tsentence1\tsentence2\tlabel\n0\tthe\tcat\tnot_entailment\n"
         "1\ta\ta\tentailment\n",
         "index\tsentence1\tsentence2\n0\tthe\tcat\n1\ta\ta\n", "2, 5, 1, 6, 3, 10, 3",
         "label_ids: int64 0\n"},
        {"WNLI", "index\tsentence1\tsentence2\tlabel\n0\tthe\tcat\t1\n1\ta\ta\t0\n",
         "index\tsentence1\tsentence2\tlabel\n0\tthe\tcat\t0\n1\ta\ta\t1\n",
         "index\tsentence1\tsentence2\n0\tthe\tcat\n1\ta\ta\n", "2, 5, 3, 6, 3",
         "label_ids: int64 1\n"},
    };
    for (int64_t i = 0; i < TL_COUNT(tasks); i++) {
        char name[64];
        assert_ok(tl_mkdirs(in_folder("glue")));
        put("glue/train.tsv", tasks[i].train);
        put("glue/dev.tsv", tasks[i].dev);
        put("glue/test.tsv", tasks[i].test);
        snprintf(name, sizeof name, "--classification_task_name=%s", tasks[i].task);
        finetuning(VOCAB, flag("input_data_dir", "glue"), name, "--overwrite",
                   flag("train_data_output_path", "g/train"),
                   flag("eval_data_output_path", "g/dev"), flag("test_data_output_path", "g/test"),
                   flag("meta_data_file_path", "g/meta"));
        went_well();
        run("data", "show", in_folder("g/train"));
        has(tasks[i].ids);
        has(tasks[i].label);
        has("2 records");
        run("data", "show", in_folder("g/test"));
        has("2 records");
        text_has(text_in("g/meta"), "\"eval_data_size\": 2\n}");
    }
}

/* A text with a line break in it, which GLUE does not quote. */
static void broken_rows_are_left_out(void **state)
{
    (void)state;
    static const char text[] = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                               "1\t2\t3\tthe\tcat\t0\n1\t2\t3\t\"a\nb\t1\n1\t2\t3\ta\ta\t1\n";
    assert_ok(tl_mkdirs(in_folder("qqp")));
    put("qqp/train.tsv", text);
    finetuning(VOCAB, flag("input_data_dir", "qqp"), "--classification_task_name=QQP",
               flag("train_data_output_path", "q"));
    went_well();
    has("wrote 2 examples to ");
    has("; 2 rows with too few cells are left out\n");
    finetuning(VOCAB, flag("train_file", "qqp/train.tsv"), flag("train_data_output_path", "q2"),
               "--text_columns=question1,question2", "--label_column=-1");
    failed(1, "qqp/train.tsv:3: the row has 4 cells, and the first line has 6");
    finetuning(VOCAB, flag("train_file", "qqp/train.tsv"), flag("train_data_output_path", "q2"),
               "--text_columns=question1,question2", "--label_column=-1", "--skip_bad");
    went_well();
    same_records(in_folder("q"), in_folder("q2"));
}

/* MNLI has the hypothesis first, and numbers as TensorFlow Datasets has them. */
static void mnli_is_read(void **state)
{
    (void)state;
    static const char head[] = "index\tpromptID\tpairID\tgenre\ts1b\ts2b\ts1p\ts2p\tsentence1\t"
                               "sentence2\tlabel1\tgold_label\n";
    char text[1000];
    assert_ok(tl_mkdirs(in_folder("mnli")));
    snprintf(text, sizeof text, "%s0\t1\t2\tg\tb\tb\tp\tp\tthe\tcat\tx\tneutral\n", head);
    put("mnli/train.tsv", text);
    snprintf(text, sizeof text, "%s0\t1\t2\tg\tb\tb\tp\tp\tthe\tcat\tx\tcontradiction\n", head);
    put("mnli/dev_mismatched.tsv", text);
    finetuning(VOCAB, flag("input_data_dir", "mnli"), "--classification_task_name=mnli",
               flag("train_data_output_path", "m/train"), flag("eval_data_output_path", "m/dev"),
               "--mnli_type=mismatched");
    went_well();
    run("data", "show", in_folder("m/train"));
    has("input_ids: int64 2, 6, 3, 5, 3, ");
    has("label_ids: int64 1\n");
    run("data", "show", in_folder("m/dev"));
    has("label_ids: int64 2\n");
}

/* Flags of the original's scripts: some are here alike, the others say what is here instead. */
static void flags_of_the_original(void **state)
{
    (void)state;
    put("train.csv", REVIEWS);
    const char *train = flag("train_file", "train.csv");
    finetuning(VOCAB, train, flag("train_data_output_path", "wordpiece"),
               "--tokenization=WordPiece", "--fine_tuning_task_type=classification");
    went_well();
    pretraining(VOCAB, TOY, flag("output_file", "x"), "--tokenization=SentencePiece");
    failed(2, "tokenization: SentencePiece is not here yet; WordPiece is, with a --vocab_file");
    pretraining(VOCAB, TOY, flag("output_file", "x"), "--sp_model_file=m");
    failed(2, "--sp_model_file: SentencePiece is not here yet");
    finetuning(VOCAB, train, flag("train_data_output_path", "x"), "--tfds_params", "a=b");
    failed(2, "--tfds_params: nothing is fetched from TensorFlow Datasets: save its texts as CSV");
    finetuning(VOCAB, train, flag("train_data_output_path", "x"), "--doc_stride=64");
    failed(2, "--doc_stride: answers within texts (SQuAD) are not here yet");
    finetuning(VOCAB, train, flag("train_data_output_path", "x"), "--noonly_use_en_dev");
    failed(2, "--noonly_use_en_dev: data sets of several languages are read as tables");
    put("flags", "--noxlnet_format\n--nope\n");
    finetuning(VOCAB, train, flag("flagfile", "flags"), "--doc_stride");
    failed(2, "flags:1: --noxlnet_format: answers within texts (SQuAD) are not here yet");
    failed(2, "flags:2: --nope: unknown flag");
    failed(2, "--doc_stride: answers within texts (SQuAD) are not here yet");
}

static void finetuning_is_refused(void **state)
{
    (void)state;
    put("train.csv", REVIEWS);
    const char *train = flag("train_file", "train.csv"), *to = flag("train_data_output_path", "no");
    finetuning(VOCAB, train);
    failed(2, "`finetuning` needs --train_data_output_path");
    finetuning(VOCAB, to);
    failed(2, "--train_file and --train_data_output_path are given together");
    finetuning(train, to);
    failed(2, "`finetuning` needs --vocab_file");
    finetuning(VOCAB, train, to, "--text_columns=a,b,c");
    failed(2, "--text_columns: one text, or a pair; found 3 columns");
    finetuning(VOCAB, train, to, "--text_columns=txt");
    failed(2, "has no column 'txt', did you mean 'text'?");
    put("header.csv", "text,label\n");
    finetuning(VOCAB, flag("train_file", "header.csv"), flag("train_data_output_path", "x"));
    failed(1, "header.csv' has no rows; texts with labels are expected below its header");
    put("latin.csv", "text,label\nStra\xdf"
                     "e,1\n");
    finetuning(VOCAB, flag("train_file", "latin.csv"), flag("train_data_output_path", "x"));
    failed(1, "latin.csv:2: column 'text': the text is no UTF-8");
    finetuning(VOCAB, train, to, "--fine_tuning_task_type=squad");
    failed(2, "--fine_tuning_task_type: expected classification or regression, found the string");
    finetuning(VOCAB, train, to, "--labels=good,bad,good");
    failed(2, "--labels: 'good' is there twice");
    finetuning(VOCAB, train, to, "--labels=a", "--classes=x");
    failed(2, "--labels and --classes both number the classes");
    finetuning(VOCAB, train, to, "--labels=a", "--fine_tuning_task_type=regression");
    failed(2, "a regression has no classes");
    finetuning(VOCAB, train, to, "--fine_tuning_task_type=regression");
    failed(1, "train.csv:2: column 'label': the label of a regression is a number");
    finetuning(VOCAB, train, to, flag("eval_file", "train.csv"),
               flag("eval_data_output_path", "no"));
    failed(2, "is written for train already");
    finetuning(VOCAB, flag("eval_file", "train.csv"), flag("eval_data_output_path", "no"));
    failed(2, "without --train_file, --labels or --classes says which classes there are");
    finetuning(VOCAB, to, "--classification_task_name=CoLA");
    failed(2, "--classification_task_name and --input_data_dir");
    finetuning(VOCAB, to, "--classification_task_name=SST2", "--input_data_dir=glue");
    failed(2, "'SST2' is no task that is known here, did you mean 'SST-2'?");
    finetuning(VOCAB, to, train, "--classification_task_name=CoLA", "--input_data_dir=glue");
    failed(2, "--input_data_dir has the files of a task");
    finetuning(VOCAB, to, "--classification_task_name=CoLA", flag("input_data_dir", "empty"));
    failed(2, "empty/train.tsv");
    finetuning(VOCAB, train, to, "--delimiter=ab");
    failed(2, "delimiter");
    assert_false(tl_file_exists(in_folder("no")));
    put("no.classes.txt", "x\n");
    finetuning(VOCAB, train, to);
    failed(2, "no.classes.txt' exists; --overwrite replaces it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_written),  cmocka_unit_test(several_files_are_dealt),
        cmocka_unit_test(patterns_are_expanded), cmocka_unit_test(pretraining_is_refused),
        cmocka_unit_test(tables_are_turned),     cmocka_unit_test(classes_may_be_given),
        cmocka_unit_test(numbers_are_learned),   cmocka_unit_test(glue_folders_are_read),
        cmocka_unit_test(mnli_is_read),          cmocka_unit_test(broken_rows_are_left_out),
        cmocka_unit_test(finetuning_is_refused), cmocka_unit_test(flags_of_the_original),
    };
    return cmocka_run_group_tests(tests, make_folder, teardown);
}
