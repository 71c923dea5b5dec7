/* `tilth data finetuning`: texts with labels become records. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/data/image_folder.h>

#include "base/inner/clean.h"
#include "tool/data_text.h"

static const char *const type_names[] = {"classification", "regression", NULL};
static const char *const mnli_names[] = {"matched", "mismatched", NULL};
static const char *const header_names[] = {
    [TL_HEADER_AUTO] = "auto",
    [TL_HEADER_YES] = "first_line",
    [TL_HEADER_NO] = "none",
    NULL,
};

static tl_status check_flags(const void *value)
{
    const tli_finetuning_flags *f = value;
    const char *d = f->delimiter;
    if (!*d || strcmp(d, "tab") == 0
        || (strlen(d) == 1 && !strchr("\"\r\n ", *d) && (unsigned char)*d < 0x80))
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "delimiter: expected one character, or tab; found '%s'", d);
}

static const tl_field finetuning_fields[] = {
    TL_F(tli_finetuning_flags, fine_tuning_task_type, .names = type_names,
         .help = "what labels are: names of classes, or numbers"),
    TL_F(tli_finetuning_flags, input_data_dir, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder of a task of GLUE, with train.tsv, dev.tsv and test.tsv"),
    TL_F(tli_finetuning_flags, classification_task_name, .flags = TL_FIELD_NULLABLE,
         .help = "which task of GLUE: CoLA, MNLI, MRPC, QNLI, QQP, RTE, SST-2, STS-B or WNLI"),
    TL_F(tli_finetuning_flags, mnli_type, .names = mnli_names,
         .help = "MNLI: which files validate and test"),
    TL_F(tli_finetuning_flags, train_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "table (CSV, TSV), or JSON objects, one a line (.jsonl), to train with"),
    TL_F(tli_finetuning_flags, eval_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "table or JSON objects to validate with"),
    TL_F(tli_finetuning_flags, test_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "table or JSON objects to predict; labels are not read"),
    TL_F(tli_finetuning_flags, text_columns, .s = "text",
         .help = "column of the text, or two columns of a pair of texts with a comma: names, or "
                 "numbers from 0 on"),
    TL_F(tli_finetuning_flags, label_column, .s = "label", .help = "column of the label"),
    TL_F(tli_finetuning_flags, labels, .flags = TL_FIELD_NULLABLE,
         .help = "names of the classes in the order of their numbers, separated by commas; null: "
                 "those of the training file, sorted"),
    TL_F(tli_finetuning_flags, header, .names = header_names,
         .help = "where columns of a table are named: in the first line, nowhere (they are col_0, "
                 "col_1, ...), or as it looks"),
    TL_F(tli_finetuning_flags, delimiter, .s = "",
         .help = "what separates cells, or tab; empty: it is found out"),
    TL_F(tli_finetuning_flags, quoting,
         .help = "cells may stand in quotes; null: not where tabs separate cells"),
    TL_F(tli_finetuning_flags, train_data_output_path, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "TFRecord file to write for training"),
    TL_F(tli_finetuning_flags, eval_data_output_path, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "TFRecord file to write for validation"),
    TL_F(tli_finetuning_flags, test_data_output_path, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "TFRecord file to write for prediction"),
    TL_F(tli_finetuning_flags, meta_data_file_path, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "JSON file to write with the sizes, the length and the number of classes"),
    TL_F_END,
};
const tl_desc tli_finetuning_flags_desc = {
    .name = "data_finetuning",
    .help = "flags of `data finetuning`",
    .size = sizeof(tli_finetuning_flags),
    .fields = finetuning_fields,
    .check = check_flags,
};

#define NO_ANSWERS                                                                                 \
    "answers within texts (SQuAD) are not here yet; classification and regression are"
#define NO_TAGS "labels of words (tagging) are not here yet; classification and regression are"
#define NO_LANGUAGES                                                                               \
    "data sets of several languages are read as tables: --train_file, --text_columns"
const tli_absent_flag tli_absent_text_flags[] = {
    {"sp_model_file", "SentencePiece is not here yet; --vocab_file names a WordPiece vocabulary"},
    {"tfds_params", "nothing is fetched from TensorFlow Datasets: save its texts as CSV, TSV or "
                    "JSONL, and name them by --train_file, --text_columns and --label_column"},
    {"squad_data_file", NO_ANSWERS},
    {"translated_squad_data_folder", NO_ANSWERS},
    {"doc_stride", NO_ANSWERS},
    {"max_query_length", NO_ANSWERS},
    {"version_2_with_negative", NO_ANSWERS},
    {"xlnet_format", NO_ANSWERS},
    {"tagging_task_name", NO_TAGS},
    {"tagging_only_use_en_train", NO_TAGS},
    {"retrieval_task_name", "retrieval is not here yet; classification and regression are"},
    {"xnli_language", NO_LANGUAGES},
    {"pawsx_language", NO_LANGUAGES},
    {"translated_input_data_dir", NO_LANGUAGES},
    {"only_use_en_dev", NO_LANGUAGES},
    {0},
};

/* --- GLUE ------------------------------------------------------------------------------------- */

/* Columns of the files of a task: of training and validation, and of the test, which has no labels.
 * Classes are numbered as in TensorFlow Datasets, whose numbers the original takes. */
typedef struct glue_task {
    const char *name;
    const char *first, *second, *label;
    const char *test_first, *test_second;
    const char *classes[4]; // none: a regression
    bool no_header;         // but for the test
    bool two_domains;       // files are matched, or mismatched
} glue_task;

#define CLASSES(...) .classes = {__VA_ARGS__}
static const glue_task glue_tasks[] = {
    {"CoLA", "3", NULL, "1", "1", NULL, CLASSES("0", "1"), .no_header = true},
    // The original has the hypothesis first.
    {"MNLI", "9", "8", "-1", "9", "8", CLASSES("entailment", "neutral", "contradiction"),
     .two_domains = true},
    {"MRPC", "3", "4", "0", "3", "4", CLASSES("0", "1")},
    {"QNLI", "1", "2", "-1", "1", "2", CLASSES("entailment", "not_entailment")},
    {"QQP", "3", "4", "5", "1", "2", CLASSES("0", "1")},
    {"RTE", "1", "2", "-1", "1", "2", CLASSES("entailment", "not_entailment")},
    {"SST-2", "0", NULL, "1", "1", NULL, CLASSES("0", "1")},
    {"STS-B", "7", "8", "-1", "7", "8", CLASSES(NULL)},
    {"WNLI", "1", "2", "-1", "1", "2", CLASSES("0", "1")},
};
#undef CLASSES

static tl_status find_task(const glue_task **out, const char *name)
{
    const char *names[TL_COUNT(glue_tasks)];
    for (int64_t i = 0; i < TL_COUNT(glue_tasks); i++) {
        names[i] = glue_tasks[i].name;
        *out = &glue_tasks[i];
        if (strcasecmp(name, names[i]) == 0) return TL_OK;
    }
    const char *near = tl_nearest(name, names, TL_COUNT(names));
    return TL_FAIL(TL_EINVAL,
                   "--classification_task_name: '%.80s' is no task that is known here%s%s%s; CoLA, "
                   "MNLI, MRPC, QNLI, QQP, RTE, SST-2, STS-B and WNLI are",
                   name, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* --- what is made of what --------------------------------------------------------------------- */

enum { TRAIN, EVAL, TEST, PARTS };
enum { LARGEST_VOCABULARY = 256 << 20 };
static const char *const part_names[PARTS] = {"train", "eval", "test"};

typedef struct part {
    const char *from, *to; // NULL: it is not made
    tl_text_rows_args columns;
    tl_classification_result written;
} part;

typedef struct making {
    tli_run *run;
    const tli_text_flags *text;
    const tli_finetuning_flags *given;
    const glue_task *task; // NULL: files of one's own
    part parts[PARTS];
    tl_tokenizer *tokenizer;
    tl_pool *pool;
    bool is_regression;
    tl_strings classes;
} making;

static const char *glue_file(const making *m, int i)
{
    static const char *const files[PARTS] = {"train", "dev", "test"};
    const char *domain = m->task->two_domains && i != TRAIN
                             ? m->given->mnli_type == TLI_MNLI_MATCHED ? "_matched" : "_mismatched"
                             : "";
    const char *name = tl_arena_printf(m->run->arena, "%s%s.tsv", files[i], domain);
    return name ? tl_path_join(m->run->arena, m->given->input_data_dir, name) : NULL;
}

static tl_status take_glue(making *m)
{
    TL_TRY(find_task(&m->task, m->given->classification_task_name));
    const glue_task *t = m->task;
    int64_t classes = 0;
    while (t->classes[classes]) classes++;
    m->is_regression = !classes;
    m->classes = (tl_strings){t->classes, classes};
    for (int i = 0; i < PARTS; i++) {
        part *p = &m->parts[i];
        bool test = i == TEST;
        if (p->to && !(p->from = glue_file(m, i))) return TL_ENOMEM;
        p->columns = (tl_text_rows_args){
            .first = test ? t->test_first : t->first,
            .second = test ? t->test_second : t->second,
            .label = test ? NULL : t->label,
            .header = t->no_header && !test ? TL_HEADER_NO : TL_HEADER_YES,
            .delimiter = '\t',
            .quoting = TL_SET(false),
            .skip_short = true, // lines of QQP that are broken, as everybody does
        };
    }
    return TL_OK;
}

static tl_status take_files(making *m)
{
    const tli_finetuning_flags *f = m->given;
    const char *const files[PARTS] = {f->train_file, f->eval_file, f->test_file};
    tl_strings texts;
    TL_TRY(tli_split_commas(&texts, m->run->arena, "text_columns", f->text_columns));
    if (texts.count > 2)
        return TL_FAIL(TL_EINVAL, "--text_columns: one text, or a pair; found %" PRId64 " columns",
                       texts.count);
    m->is_regression = f->fine_tuning_task_type == TLI_FINETUNING_NUMBERS;
    for (int i = 0; i < PARTS; i++) {
        part *p = &m->parts[i];
        p->from = files[i];
        if (!p->from != !p->to)
            return TL_FAIL(TL_EINVAL, "--%s_file and --%s_data_output_path are given together",
                           part_names[i], part_names[i]);
        p->columns = (tl_text_rows_args){
            .first = texts.items[0],
            .second = texts.count > 1 ? texts.items[1] : NULL,
            .label = i == TEST ? NULL : f->label_column,
            .header = f->header,
            .delimiter = strcmp(f->delimiter, "tab") == 0 ? '\t' : *f->delimiter,
            .quoting = f->quoting,
            .skip_short = ((const tli_data_flags *)m->run->given[TLI_DATA_FLAGS])->skip_bad,
        };
    }
    return TL_OK;
}

static tl_status collect_classes(making *m, const part *train)
{
    TL_TRY(tl_text_classes_find(&m->classes, m->run->arena, train->from, &train->columns));
    if (m->classes.count) return TL_OK;
    return TL_FAIL(TL_EDATA, "--train_file: '%s' has no rows; texts with labels are expected%s",
                   train->from, train->columns.header == TL_HEADER_NO ? "" : " below its header");
}

static tl_status find_classes(making *m)
{
    const tli_finetuning_flags *f = m->given;
    const char *list = ((const tli_data_flags *)m->run->given[TLI_DATA_FLAGS])->classes;
    const part *train = &m->parts[TRAIN];
    if (m->is_regression || m->task) {
        if (list || f->labels)
            return TL_FAIL(TL_EINVAL, "--%s: %s", list ? "classes" : "labels",
                           m->task ? "the classes of a task of GLUE are known"
                                   : "a regression has no classes");
        return TL_OK;
    }
    if (list && f->labels)
        return TL_FAIL(TL_EINVAL, "--labels and --classes both number the classes; give one");
    if (list) TL_TRY_NOTE(tl_class_list_read(&m->classes, m->run->arena, list), "--classes");
    else if (f->labels) TL_TRY(tli_split_commas(&m->classes, m->run->arena, "labels", f->labels));
    else if (!train->from)
        return TL_FAIL(TL_EINVAL, "without --train_file, --labels or --classes says which classes "
                                  "there are");
    else TL_TRY(collect_classes(m, train));
    for (int64_t i = 0; i < m->classes.count; i++)
        for (int64_t k = 0; f->labels && k < i; k++)
            if (strcmp(m->classes.items[i], m->classes.items[k]) == 0)
                return TL_FAIL(TL_EINVAL, "--labels: '%.80s' is there twice", m->classes.items[i]);
    return TL_OK;
}

/* --- the vocabulary --------------------------------------------------------------------------- */

#define CONFIG_FILE "tokenizer_config.json"

static const char *vocabulary_name(const making *m)
{
    const char *file = tl_tokenizer_file(m->tokenizer);
    size_t length = strlen(file);
    return length > 5 && strcmp(file + length - 5, ".json") == 0 ? "tokenizer.json" : "vocab.txt";
}

/* It lies beside the records, so that a run that is trained with them can be asked about texts. */
static tl_status write_vocabulary(const making *m, const part *p)
{
    const char *to = tl_record_companion(m->run->arena, p->to, vocabulary_name(m)),
               *config = tl_record_companion(m->run->arena, p->to, CONFIG_FILE);
    tl_str text = TL_STR_INIT;
    char *data;
    size_t size;
    if (!to || !config) return TL_ENOMEM;
    TL_TRY(tl_file_read(&data, &size, tl_tokenizer_file(m->tokenizer), LARGEST_VOCABULARY));
    tl_status st = tl_file_write_atomic(to, data, size);
    tl_free(data);
    TL_TRY(st);
    tli_json j = {.out = &text, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "tokenizer_class", "BertTokenizer");
    tli_json_raw(&j, "do_lower_case", tl_tokenizer_lowers(m->tokenizer) ? "true" : "false");
    tli_json_text(&j, "tilth_rules", tl_wordpiece_rules_name(m->text->rules));
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    st = tl_str_status(&text);
    if (st == TL_OK) st = tli_write_file(config, &text);
    tl_str_deinit(&text);
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

static const char *list_path(const making *m, const part *p)
{
    return tl_class_list_path(m->run->arena, p->to);
}

static tl_status check_outputs(making *m)
{
    const char *meta = m->given->meta_data_file_path;
    for (int i = 0; i < PARTS; i++) {
        const part *p = &m->parts[i];
        if (!p->to) continue;
        for (int k = 0; k < i; k++)
            if (m->parts[k].to && strcmp(m->parts[k].to, p->to) == 0)
                return TL_FAIL(TL_EINVAL, "--%s_data_output_path: '%s' is written for %s already",
                               part_names[i], p->to, part_names[k]);
        TL_TRY(tli_text_output(m->run, p->to));
        const char *list = list_path(m, p);
        if (!list) return TL_ENOMEM;
        if (!m->is_regression) TL_TRY(tli_text_output(m->run, list));
        const char *vocabulary = tl_record_companion(m->run->arena, p->to, vocabulary_name(m)),
                   *config = tl_record_companion(m->run->arena, p->to, CONFIG_FILE);
        if (!vocabulary || !config) return TL_ENOMEM;
        TL_TRY(tli_text_output(m->run, vocabulary));
        TL_TRY(tli_text_output(m->run, config));
    }
    return meta ? tli_text_output(m->run, meta) : TL_OK;
}

static tl_status write_part(making *m, int i)
{
    part *p = &m->parts[i];
    tl_str *out = &m->run->text;
    const tl_classification_args args = {
        .tokenizer = m->tokenizer,
        .max_seq_length = m->text->base.max_seq_length,
        .columns = p->columns,
        .classes = m->classes,
        .is_regression = m->is_regression,
        .gzip = m->text->gzip_compress,
        .pool = m->pool,
    };
    TL_TRY(tl_classification_write(p->to, p->from, &args, &p->written));
    tl_str_addf(out, "wrote %" PRId64 " examples to %s", p->written.rows, p->to);
    if (p->written.cut)
        tl_str_addf(out, "; %" PRId64 " were longer than %" PRId64 " pieces and are cut",
                    p->written.cut, args.max_seq_length);
    if (p->written.skipped)
        tl_str_addf(out, "; %" PRId64 " rows with too few cells are left out", p->written.skipped);
    tl_str_addc(out, '\n');
    TL_TRY(write_vocabulary(m, p));
    return m->is_regression ? TL_OK : tl_class_list_write(list_path(m, p), m->classes);
}

/* As the original writes it. */
static tl_status write_meta(const making *m)
{
    tl_str text = TL_STR_INIT;
    tli_json j = {.out = &text, .indent = 4, .ascii = true};
    const char *name = m->task ? m->task->name : "FILES";
    char upper[16] = "";
    for (int i = 0; name[i] && i < 15; i++)
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "processor_type", upper);
    tli_json_int(&j, "train_data_size", m->parts[TRAIN].written.rows);
    tli_json_int(&j, "max_seq_length", m->text->base.max_seq_length);
    if (m->parts[TEST].to) tli_json_int(&j, "test_data_size", m->parts[TEST].written.rows);
    tli_json_text(&j, "task_type", m->is_regression ? "bert_regression" : "bert_classification");
    if (m->is_regression) tli_json_text(&j, "label_type", "float");
    else tli_json_int(&j, "num_labels", m->classes.count);
    if (m->parts[EVAL].to) tli_json_int(&j, "eval_data_size", m->parts[EVAL].written.rows);
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tli_write_file(m->given->meta_data_file_path, &text);
    tl_str_deinit(&text);
    return st;
}

static void tell_classes(making *m)
{
    enum { MOST = 10 };
    const tl_strings *c = &m->classes;
    if (m->is_regression) return;
    tl_str_addf(&m->run->text, "%" PRId64 " classes: ", c->count);
    for (int64_t i = 0; i < c->count && i < MOST; i++) {
        if (i) tl_str_add(&m->run->text, ", ");
        tli_add_clean_word(&m->run->text, c->items[i]);
    }
    tl_str_add(&m->run->text, c->count > MOST ? ", ...\n" : "\n");
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status take_given(making *m)
{
    const tli_finetuning_flags *f = m->given;
    const bool glue = f->classification_task_name || f->input_data_dir;
    m->parts[TRAIN].to = f->train_data_output_path;
    m->parts[EVAL].to = f->eval_data_output_path;
    m->parts[TEST].to = f->test_data_output_path;
    if (!m->parts[TRAIN].to && !m->parts[EVAL].to && !m->parts[TEST].to)
        return TL_FAIL(TL_EINVAL, "`finetuning` needs --train_data_output_path, "
                                  "--eval_data_output_path or --test_data_output_path");
    if (!glue) return take_files(m);
    if (!f->classification_task_name || !f->input_data_dir)
        return TL_FAIL(TL_EINVAL, "--classification_task_name and --input_data_dir, the folder of "
                                  "the task, are given together");
    if (f->train_file || f->eval_file || f->test_file)
        return TL_FAIL(TL_EINVAL, "--input_data_dir has the files of a task; --train_file, "
                                  "--eval_file and --test_file are for your own");
    return take_glue(m);
}

static tl_status make(making *m)
{
    TL_TRY(find_classes(m));
    TL_TRY(check_outputs(m));
    TL_TRY(tl_pool_new(&m->pool, 0));
    for (int i = 0; i < PARTS; i++)
        if (m->parts[i].to) TL_TRY(write_part(m, i));
    tell_classes(m);
    if (m->given->meta_data_file_path) TL_TRY(write_meta(m));
    return tl_str_status(&m->run->text);
}

tl_status tli_data_finetuning(tli_run *run, const void *flags)
{
    making m = {.run = run,
                .text = run->given[TLI_DATA_TEXT_FLAGS],
                .given = run->given[TLI_DATA_FINETUNING_FLAGS]};
    (void)flags;
    TL_TRY(take_given(&m));
    TL_TRY(tli_text_tokenizer(&m.tokenizer, run));
    tl_status st = make(&m);
    tl_pool_free(&m.pool);
    tl_tokenizer_free(&m.tokenizer);
    return st;
}
