/* What tasks of language still lack, and what would do: an example of a command should work with
 * the data that are named, so their first record is looked at. */
#include "zoo/language/lacks.h"

#include <string.h>

#include <tilth/data/pipeline.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/zoo/language.h>

typedef struct looking {
    tl_lacks *into;
    const char *section; /* task.train_data */
    const tl_data_config *data;
} looking;

static tl_status add(const looking *l, const char *key, const char *what, const char *value)
{
    const char *path = tl_arena_printf(l->into->arena, "%s.%s", l->section, key);
    return path ? tl_lacks_add(l->into, path, what, value) : TL_ENOMEM;
}

static tl_status add_number(const looking *l, const char *key, const char *what, int64_t value)
{
    return add(l, key, what, tl_arena_printf(l->into->arena, "%lld", (long long)value));
}

/* --- what lies there -------------------------------------------------------------------------- */

/* The first of the files. False when there is none: whoever reads them will say so. */
static bool first_file(const looking *l, const char **out)
{
    const tl_value *path = l->data->input_path;
    tl_path_list paths;
    *out = NULL;
    if (!tl_paths_given(path) || path->kind == TL_VALUE_MAP) return false;
    if (path->kind == TL_VALUE_SCALAR && strcmp(path->text, "dummy") == 0) return false;
    if (tl_paths_match(&paths, l->into->arena, path) != TL_OK) {
        tl_error_clear();
        return false;
    }
    if (paths.count) *out = paths.items[0];
    return *out != NULL;
}

/* Values of features in the first record; zeros where it is not known. Files that are compressed
 * would have to be inflated as a whole, and are not looked into. */
static void count_values(const char *file, const char *const *names, int64_t count, int64_t *out)
{
    enum { MOST = 4 };
    tl_feature found[MOST];
    tl_tfrecord_file *records = NULL;
    tl_tfrecord first;
    bool more = true;
    TL_ASSERT(count <= MOST);
    memset(out, 0, (size_t)count * sizeof *out);
    if (tl_tfrecord_open(&records, file, &(tl_tfrecord_args){TL_TFRECORD_PLAIN, 0}) == TL_OK
        && tl_tfrecord_at(records, 0, 0, &first, &more) == TL_OK && more
        && tl_example_find(found, names, count, first.data, first.size) == TL_OK)
        for (int64_t i = 0; i < count; i++) out[i] = found[i].count;
    tl_tfrecord_close(&records);
    tl_error_clear();
}

/* --- data ------------------------------------------------------------------------------------- */

static tl_status lacks_path(const looking *l, const char *what, const char *example)
{
    if (!tl_paths_given(l->data->input_path)) TL_TRY(add(l, "input_path", what, example));
    if (l->data->global_batch_size < 1)
        TL_TRY(add(l, "global_batch_size", "how many examples are taken at a time", "32"));
    return TL_OK;
}

static tl_status lacks_length(const looking *l, const char *key, int64_t here, int64_t there)
{
    if (!there || here == there) return TL_OK;
    const char *what =
        tl_arena_printf(l->into->arena, "the records have %lld values, and it is %lld",
                        (long long)there, (long long)here);
    return what ? add_number(l, key, what, there) : TL_ENOMEM;
}

static const char records_of_pieces[] = "where the records lie, which `tilth data pretraining` "
                                        "makes of texts";

/* Values of a record with hidden words. */
typedef struct hidden {
    int64_t words, guesses;
} hidden;

static tl_status look_at_hidden(hidden *out, const looking *l, bool v2)
{
    static const char *const names[] = {"input_ids", "input_word_ids", "masked_lm_positions"};
    int64_t counts[TL_COUNT(names)];
    const char *file;
    *out = (hidden){0};
    TL_TRY(lacks_path(l, records_of_pieces, "FILE.tfrecord"));
    if (!first_file(l, &file)) return TL_OK;
    count_values(file, names, TL_COUNT(names), counts);
    *out = (hidden){counts[0] ? counts[0] : counts[1], counts[2]};
    if (counts[0] && !counts[1] && v2)
        return add(l, "use_v2_feature_names", "false: the records have input_ids", "false");
    if (counts[1] && !counts[0] && !v2)
        return add(l, "use_v2_feature_names", "the records have input_word_ids", "true");
    return TL_OK;
}

static tl_status lacks_of_pretrain(const looking *l)
{
    const tl_pretrain_data_config *d = (const tl_pretrain_data_config *)l->data;
    hidden there;
    TL_TRY(look_at_hidden(&there, l, d->use_v2_feature_names));
    TL_TRY(lacks_length(l, "seq_length", d->seq_length, there.words));
    return lacks_length(l, "max_predictions_per_seq", d->max_predictions_per_seq, there.guesses);
}

/* Here records may be of any length. */
static tl_status lacks_of_dynamic(const looking *l)
{
    hidden there;
    return look_at_hidden(&there, l,
                          ((const tl_pretrain_dynamic_data_config *)l->data)->use_v2_feature_names);
}

static tl_status lacks_of_wiki(const looking *l)
{
    const tl_pretrain_text_data_config *d = (const tl_pretrain_text_data_config *)l->data;
    TL_TRY(lacks_path(l,
                      "where the texts lie: .txt files with a sentence on each line and an empty "
                      "line between documents, or TFRecords",
                      "FILE.txt"));
    if (tl_paths_given(d->base.tfds_name))
        TL_TRY(add(l, "tfds_name",
                   "'': nothing is fetched from TensorFlow Datasets, input_path names texts",
                   "\"\""));
    if (*d->vocab_file_path && strcmp(d->vocab_file_path, TLI_NO_VOCABULARY) != 0) return TL_OK;
    return add(l, "vocab_file_path", "the vocabulary, a vocab.txt", "vocab.txt");
}

static tl_status lacks_of_sentences(const looking *l)
{
    const tl_sentence_data_config *d = (const tl_sentence_data_config *)l->data;
    static const char *const names[] = {"input_ids"};
    int64_t counts[TL_COUNT(names)];
    const char *file;
    TL_TRY(lacks_path(l, "where the records lie, which `tilth data finetuning` makes of tables",
                      "FILE.tfrecord"));
    if (!first_file(l, &file)) return TL_OK;
    count_values(file, names, TL_COUNT(names), counts);
    return lacks_length(l, "seq_length", d->seq_length, counts[0]);
}

static tl_status lacks_of_sentence_texts(const looking *l)
{
    const tl_sentence_text_data_config *d = (const tl_sentence_text_data_config *)l->data;
    TL_TRY(lacks_path(l, "where the records of texts lie", "FILE.tfrecord"));
    if (!d->text_fields.count)
        TL_TRY(
            add(l, "text_fields", "the features that hold texts: one, or two for pairs", "[text]"));
    return *d->vocab_file ? TL_OK
                          : add(l, "vocab_file", "the vocabulary, a vocab.txt", "vocab.txt");
}

/* --- tasks ------------------------------------------------------------------------------------ */

typedef tl_status lacks_fn(const looking *l);

static tl_status look(const tl_task_config *t, bool trains, bool evaluates, lacks_fn *train,
                      lacks_fn *validation, tl_lacks *into)
{
    if (trains && t->train_data) TL_TRY(train(&(looking){into, "task.train_data", t->train_data}));
    if (evaluates && t->validation_data)
        TL_TRY(validation(&(looking){into, "task.validation_data", t->validation_data}));
    return TL_OK;
}

static tl_status of_masked_lm(const tl_task_config *t, bool trains, bool evaluates, lacks_fn *train,
                              lacks_fn *validation, tl_lacks *into)
{
    into->hint = "--experiment=bert/local is a tiny BERT that needs no files.";
    return look(t, trains, evaluates, train, validation, into);
}

tl_status tli_pretrain_lacks(const tl_task_config *t, bool trains, bool evaluates, tl_lacks *into)
{
    return of_masked_lm(t, trains, evaluates, lacks_of_pretrain, lacks_of_pretrain, into);
}

tl_status tli_pretrain_dynamic_lacks(const tl_task_config *t, bool trains, bool evaluates,
                                     tl_lacks *into)
{
    return of_masked_lm(t, trains, evaluates, lacks_of_dynamic, lacks_of_pretrain, into);
}

tl_status tli_pretrain_text_lacks(const tl_task_config *t, bool trains, bool evaluates,
                                  tl_lacks *into)
{
    return of_masked_lm(t, trains, evaluates, lacks_of_wiki, lacks_of_wiki, into);
}

/* As many as the list beside the records has. */
static tl_status lacks_classes(const tl_task_config *t, const char *label_type, tl_lacks *into)
{
    const tl_sentence_model_config *m = t->model.value;
    const looking l = {into, "task.train_data", t->train_data};
    const char *file;
    tl_strings classes = {0};
    if (!m || m->num_classes > 0) return TL_OK;
    if (l.data && first_file(&l, &file)
        && tl_class_list_beside(&classes, into->arena, &file, 1) != TL_OK)
        tl_error_clear(); // whoever reads it will say so
    int64_t count = strcmp(label_type, "float") == 0 ? 1 : classes.count > 1 ? classes.count : 2;
    return tl_lacks_add(into, "task.model.num_classes", "how many classes there are; 1 for numbers",
                        tl_arena_printf(into->arena, "%lld", (long long)count));
}

static const char texts_hint[] = "--experiment=texts needs task.train_data.input_path alone: a "
                                 "CSV, TSV or JSONL file, or a folder of texts.";

tl_status tli_sentence_lacks(const tl_task_config *t, bool trains, bool evaluates, tl_lacks *into)
{
    const tl_sentence_data_config *d = (const tl_sentence_data_config *)t->train_data;
    into->hint = texts_hint;
    TL_TRY(lacks_classes(t, d ? d->label_type : "int", into));
    return look(t, trains, evaluates, lacks_of_sentences, lacks_of_sentences, into);
}

tl_status tli_sentence_text_lacks(const tl_task_config *t, bool trains, bool evaluates,
                                  tl_lacks *into)
{
    const tl_sentence_text_data_config *d = (const tl_sentence_text_data_config *)t->train_data;
    into->hint = texts_hint;
    TL_TRY(lacks_classes(t, d ? d->label_type : "int", into));
    return look(t, trains, evaluates, lacks_of_sentence_texts, lacks_of_sentence_texts, into);
}
