/* The experiment `texts`: own texts in one command. What is not said is found in the data. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/text/classification.h>

#include "zoo/inner/zoo.h"
#include "zoo/language/foreign.h"
#include "zoo/language/texts.h"

static const double usual_holdout = 0.2;
enum { LONGEST = 128 }; /* pieces of a sequence, unless somebody sets more */

typedef struct filling {
    tl_config *config;
    tl_arena *arena;
    tl_path_list paths; /* of train_data */
    tl_map classes;     /* to how many texts they have */
    int64_t count, held_out;
    struct {
        int32_t *items;
        int64_t count, capacity;
    } lengths; /* of texts to train with, in pieces */
    tl_packer packer;
    bool begins_with_weights; /* which know the language */
} filling;

static const tl_text_task_config *task_of(const filling *f)
{
    return ((const tl_experiment_config *)tl_config_value(f->config))->task.value;
}

static const tl_text_data_config *train_of(const filling *f)
{
    return (const tl_text_data_config *)task_of(f)->base.base.train_data;
}

static const tl_text_data_config *validation_of(const filling *f)
{
    return (const tl_text_data_config *)task_of(f)->base.base.validation_data;
}

/* --- where it lies ---------------------------------------------------------------------------- */

/* Texts as they are, whatever characters they have: a value at task.KEY, or task.SECTION.KEY. */
static tl_status put(const filling *f, const char *section, const char *key, const tl_value *value)
{
    const tl_place place = {.source = TLI_THE_DATA};
    const tl_value_pair last = {.key = key, .place = place, .value = value};
    const tl_value *map = value ? tl_value_new_map(f->arena, place, &last, 1) : NULL;
    const tl_value_pair middle = {.key = section, .place = place, .value = map};
    if (section && map) map = tl_value_new_map(f->arena, place, &middle, 1);
    const tl_value_pair first = {.key = "task", .place = place, .value = map};
    if (map) map = tl_value_new_map(f->arena, place, &first, 1);
    return map ? tl_config_apply(f->config, map) : TL_ENOMEM;
}

static tl_status put_text(const filling *f, const char *section, const char *key, const char *text)
{
    const tl_place place = {.source = TLI_THE_DATA};
    char full[128];
    snprintf(full, sizeof full, "task.%s.%s", section, key);
    if (tl_config_is_given(f->config, full)) return TL_OK;
    return put(f, section, key, tl_value_new_scalar(f->arena, place, text, true));
}

/* Columns that were found are those of both sections. */
static tl_status put_column(const filling *f, const char *key, const char *name)
{
    if (!name) return TL_OK;
    TL_TRY(put_text(f, "train_data", key, name));
    return validation_of(f) ? put_text(f, "validation_data", key, name) : TL_OK;
}

/* A folder that is divided already, into `train` and one for validation. */
static tl_status find_parts(const filling *f)
{
    static const char *const names[] = {"validation", "val", "valid", "test"};
    const tl_value *path = train_of(f)->base.input_path;
    if (path->kind != TL_VALUE_SCALAR || !validation_of(f)) return TL_OK;
    if (tl_config_is_given(f->config, "task.validation_data.input_path")) return TL_OK;
    const char *train = tl_path_join(f->arena, path->text, "train");
    if (!train) return TL_ENOMEM;
    if (!tl_dir_exists(train)) return TL_OK;
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        const tl_place place = {.source = TLI_THE_DATA};
        const char *other = tl_path_join(f->arena, path->text, names[i]);
        if (!other) return TL_ENOMEM;
        if (!tl_dir_exists(other)) continue;
        TL_LOG_INFO("'%s' is divided: training uses '%s', validation uses '%s'", path->text, train,
                    other);
        TL_TRY(put(f, "validation_data", "input_path",
                   tl_value_new_scalar(f->arena, place, other, true)));
        return put(f, "train_data", "input_path",
                   tl_value_new_scalar(f->arena, place, train, true));
    }
    return TL_OK;
}

/* Where nothing is said of validation, a part of the data is held out for it. */
static tl_status set_paths(const filling *f)
{
    const tl_text_data_config *train = train_of(f), *validation = validation_of(f);
    if (!validation || tl_paths_given(validation->base.input_path)) return TL_OK;
    TL_TRY(put(f, "validation_data", "input_path", train->base.input_path));
    TL_TRY(tli_choose(f->config, "task.train_data.holdout", "%g", usual_holdout));
    return tli_choose(f->config, "task.validation_data.holdout", "%.17g", train_of(f)->holdout);
}

static tl_status set_columns(filling *f)
{
    static const char *const headers[] = {"auto", "first_line", "none"};
    const tl_text_data_config *train = train_of(f);
    tli_text_columns found = {0};
    if (train->base.input_path->kind == TL_VALUE_MAP)
        return TL_FAIL(TL_EUNSUPPORTED, "task.train_data.input_path is a map; texts are named by a "
                                        "path, or a list");
    TL_TRY_NOTE(tl_desc_check(&tl_text_data_config_desc, train), "task.train_data");
    TL_TRY_NOTE(tl_paths_match(&f->paths, f->arena, train->base.input_path),
                "task.train_data.input_path");
    for (int64_t i = 0; i < f->paths.count && !found.text; i++)
        if (!tl_dir_exists(f->paths.items[i]))
            TL_TRY_NOTE(tli_text_columns_find(&found, f->arena, train, f->paths.items[i]),
                        "task.train_data");
    TL_TRY(put_column(f, "text_column", found.text));
    TL_TRY(put_column(f, "label_column", found.label));
    if (*train->second_text_column)
        TL_TRY(put_column(f, "second_text_column", train->second_text_column));
    if (!validation_of(f)) return TL_OK;
    if (*train->delimiter) TL_TRY(put_text(f, "validation_data", "delimiter", train->delimiter));
    return tli_choose(f->config, "task.validation_data.header", "%s", headers[train->header]);
}

/* --- what is in it ---------------------------------------------------------------------------- */

static tl_status count_class(void *self, const tli_text *t)
{
    filling *f = self;
    if (!t->label || !*t->label) return TL_FAIL(TL_EDATA, "the class is missing");
    int64_t count = (int64_t)(intptr_t)tl_map_get(&f->classes, t->label);
    TL_TRY(tl_map_set(&f->classes, t->label, (void *)(intptr_t)(count + 1)));
    f->count++;
    f->held_out += t->held_out;
    if (tl_map_count(&f->classes) <= TL_TEXT_CLASSES) return TL_OK;
    return TL_FAIL(TL_EDATA,
                   "there are more than %d different classes; is label_column the right column?",
                   TL_TEXT_CLASSES);
}

static tl_status put_names(const filling *f)
{
    const tl_place place = {.source = TLI_THE_DATA};
    tl_strings names;
    if (task_of(f)->class_names.count) return TL_OK;
    TL_TRY(tl_text_classes_sort(&names, f->arena, &f->classes));
    const tl_value **items = tl_arena_array(f->arena, names.count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < names.count; i++)
        if (!(items[i] = tl_value_new_scalar(f->arena, place, names.items[i], true)))
            return TL_ENOMEM;
    return put(f, NULL, "class_names", tl_value_new_list(f->arena, place, items, names.count));
}

static void warn_of_imbalance(const filling *f)
{
    enum { TIMES = 5 };
    int64_t least = 0, most = 0, n = tl_map_count(&f->classes);
    for (int64_t i = 1; i < n; i++) {
        if ((intptr_t)tl_map_at(&f->classes, i) < (intptr_t)tl_map_at(&f->classes, least))
            least = i;
        if ((intptr_t)tl_map_at(&f->classes, i) > (intptr_t)tl_map_at(&f->classes, most)) most = i;
    }
    int64_t few = (int64_t)(intptr_t)tl_map_at(&f->classes, least),
            many = (int64_t)(intptr_t)tl_map_at(&f->classes, most);
    if (many < TIMES * few) return;
    TL_LOG_WARNING("classes are of different sizes: '%s' has %" PRId64 " texts and '%s' %" PRId64
                   ". The accuracy says little about the small ones; task.metric_type=f1 or "
                   "matthews_corrcoef tells more",
                   tl_map_key(&f->classes, most), many, tl_map_key(&f->classes, least), few);
}

static void tell(const filling *f)
{
    enum { SHOWN = 20 };
    const tl_strings *names = &task_of(f)->class_names;
    const tl_text_data_config *train = train_of(f);
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "%" PRId64 " texts of %" PRId64 " classes", f->count, names->count);
    if (*train->text_column)
        tl_str_addf(&text, " (columns '%s' and '%s')", train->text_column, train->label_column);
    tl_str_addc(&text, ':');
    for (int64_t i = 0; i < names->count && i < SHOWN; i++)
        tl_str_addf(&text, "\n  %8" PRId64 "  %s",
                    (int64_t)(intptr_t)tl_map_get(&f->classes, names->items[i]), names->items[i]);
    if (names->count > SHOWN) tl_str_addf(&text, "\n  and %" PRId64 " more", names->count - SHOWN);
    if (tl_str_status(&text) == TL_OK) TL_LOG_INFO("%s", tl_str_text(&text));
    tl_str_deinit(&text);
    warn_of_imbalance(f);
}

static tl_status set_classes(filling *f)
{
    const tl_text_data_config *train = train_of(f);
    TL_TRY_NOTE(tli_texts_each(train, f->paths.items, f->paths.count, count_class, f),
                "task.train_data");
    if (tl_map_count(&f->classes) < 2)
        return TL_FAIL(TL_EINVAL,
                       "task.train_data: all texts are of one class, '%.80s'; there must be two or "
                       "more to be told apart",
                       tl_map_key(&f->classes, 0));
    TL_TRY(put_names(f));
    TL_TRY(
        tli_choose(f->config, "task.model.num_classes", "%" PRId64, task_of(f)->class_names.count));
    tell(f);
    return TL_OK;
}

/* --- what suits it ---------------------------------------------------------------------------- */

static bool has_bert(const filling *f)
{
    const tl_sentence_model_config *m = task_of(f)->base.base.model.value;
    return m && m->encoder.type && strcmp(m->encoder.type, "bert") == 0;
}

#define BERT "task.model.encoder.bert."

/* Weights of Hugging Face say how large the encoder is. */
static tl_status set_sizes_of(const filling *f, const char *from)
{
    tli_foreign_files files;
    tli_foreign_config c;
    tl_status st;
    TL_TRY_DONE(st, tli_foreign_open(&files, from));
    if (!files.config) goto done;
    TL_TRY_DONE(st, tli_foreign_config_read(&c, f->arena, files.config));
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{BERT "vocab_size", c.bert.vocab_size},
                 {BERT "hidden_size", c.bert.hidden_size},
                 {BERT "num_layers", c.bert.num_layers},
                 {BERT "num_attention_heads", c.bert.num_attention_heads},
                 {BERT "intermediate_size", c.bert.intermediate_size},
                 {BERT "max_position_embeddings", c.bert.max_position_embeddings},
                 {BERT "type_vocab_size", c.bert.type_vocab_size}};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++)
        TL_TRY_DONE(st, tli_choose(f->config, sizes[i].key, "%" PRId64, sizes[i].value));
    if (c.hidden_act && strcmp(c.hidden_act, "gelu") == 0)
        st = tli_choose(f->config, BERT "hidden_activation", "gelu_erf");
done:
    tli_foreign_close(&files);
    return st == TL_OK ? TL_OK : tl_error_note(st, "task.init_checkpoint");
}

/* Few texts are learned by heart by a large model: with one layer and much dropout more is
 * understood of texts that are new. */
static tl_status set_small_sizes(const filling *f, int64_t pieces)
{
    TL_TRY(tli_choose(f->config, BERT "vocab_size", "%" PRId64, pieces));
    TL_TRY(tli_choose(f->config, BERT "hidden_size", "128"));
    TL_TRY(tli_choose(f->config, BERT "num_layers", "1"));
    TL_TRY(tli_choose(f->config, BERT "num_attention_heads", "4"));
    TL_TRY(tli_choose(f->config, BERT "intermediate_size", "256"));
    TL_TRY(tli_choose(f->config, BERT "dropout_rate", "0.5"));
    TL_TRY(tli_choose(f->config, BERT "attention_dropout_rate", "0.1"));
    return tli_choose(f->config, "task.train_data.word_dropout", "0.4");
}

static tl_status measure(void *self, const tli_text *t)
{
    filling *f = self;
    if (t->held_out) return TL_OK;
    TL_TRY(tl_packer_pack(&f->packer, t->first, t->second));
    int32_t length = (int32_t)f->packer.ids.count;
    return TL_VEC_PUSH(&f->lengths, length) ? TL_OK : TL_ENOMEM;
}

static int by_size(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* So long that one text of fifty is cut. */
static tl_status set_length(filling *f, const tli_pieces *pieces)
{
    enum { STEP = 8, SHORTEST = 16 };
    if (tl_config_is_given(f->config, "task.seq_length")) return TL_OK;
    TL_TRY(tl_packer_init(&f->packer, pieces->tokenizer, LONGEST));
    tl_status st = tli_texts_each(train_of(f), f->paths.items, f->paths.count, measure, f);
    tl_packer_deinit(&f->packer);
    if (st != TL_OK) return tl_error_note(st, "task.train_data");
    if (!f->lengths.count) return TL_OK; // who reads them says so
    qsort(f->lengths.items, (size_t)f->lengths.count, sizeof *f->lengths.items, by_size);
    int64_t length = f->lengths.items[(f->lengths.count - 1) * 49 / 50];
    return tli_choose(f->config, "task.seq_length", "%" PRId64,
                      tl_max_i64(tl_round_up(length, STEP), SHORTEST));
}

static tl_status set_model(filling *f)
{
    const char *from = task_of(f)->base.base.init_checkpoint;
    tli_pieces pieces = {0};
    if (!from || !*from) from = task_of(f)->base.hub_module_url;
    f->begins_with_weights = from && *from;
    if (f->begins_with_weights && has_bert(f) && tli_foreign_is(from))
        TL_TRY(set_sizes_of(f, from));
    TL_TRY(tli_texts_vocabulary(&pieces, f->arena, task_of(f)));
    int64_t count = tl_tokenizer_count(pieces.tokenizer);
    TL_LOG_INFO("the vocabulary has %" PRId64 " pieces (%s)", count,
                tl_tokenizer_file(pieces.tokenizer));
    tl_status st = f->begins_with_weights || !has_bert(f) ? TL_OK : set_small_sizes(f, count);
    if (st == TL_OK) st = set_length(f, &pieces);
    tli_pieces_deinit(&pieces);
    return st;
}

/* --- how long --------------------------------------------------------------------------------- */

/* Few texts are seen often, many a few times; what knows the language needs three passes. */
static int64_t epochs_for(const filling *f, int64_t examples)
{
    if (f->begins_with_weights) return 3;
    double epochs = 10 * pow(8000 / (double)tl_max_i64(examples, 1), 0.5);
    return (int64_t)fmin(fmax(ceil(epochs), 3), 60);
}

static tl_status set_steps(filling *f)
{
    const int64_t examples = tl_max_i64(f->count - f->held_out, 1);
    int64_t batch = examples >= 1000 ? 32 : tl_max_i64(tl_min_i64(examples / 8, 16), 2);
    TL_TRY(tli_choose_batch(f->config, "task.train_data.global_batch_size", batch));
    if (validation_of(f))
        TL_TRY(tli_choose_batch(f->config, "task.validation_data.global_batch_size", 2 * batch));
    batch = tl_max_i64(train_of(f)->base.global_batch_size, 1);
    int64_t epoch = tl_max_i64(tl_div_up(examples, batch), 1);
    return tli_choose_steps(f->config, epoch, epochs_for(f, examples));
}

static tl_status set_schedule(const filling *f)
{
#define OPTIMIZATION "trainer.optimizer_config."
    const tl_trainer_config *t =
        ((const tl_experiment_config *)tl_config_value(f->config))->trainer.value;
    const tl_optimization_config *o = &t->optimizer_config;
    const int64_t steps = tl_max_i64(t->train_steps, 1);
    if (o->learning_rate.type && strcmp(o->learning_rate.type, "polynomial") == 0) {
        TL_TRY(tli_choose(f->config, OPTIMIZATION "learning_rate.polynomial.initial_learning_rate",
                          "%s", f->begins_with_weights ? "5.0e-05" : "0.002"));
        TL_TRY(tli_choose(f->config, OPTIMIZATION "learning_rate.polynomial.decay_steps",
                          "%" PRId64, steps));
    }
    if (!o->warmup.type || strcmp(o->warmup.type, "polynomial") != 0) return TL_OK;
    return tli_choose(f->config, OPTIMIZATION "warmup.polynomial.warmup_steps", "%" PRId64,
                      tl_max_i64(steps / 10, 1));
}

/* --- all of it -------------------------------------------------------------------------------- */

/* What params.yaml of a run says; the data need not be there then. */
static bool is_complete(const filling *f)
{
    static const char *const keys[] = {"task.model.num_classes", "task.class_names",
                                       "task.seq_length", "task.train_data.global_batch_size",
                                       "trainer.train_steps"};
    for (int64_t i = 0; i < TL_COUNT(keys); i++)
        if (!tl_config_is_given(f->config, keys[i])) return false;
    return true;
}

static tl_status fill(filling *f)
{
    TL_TRY(find_parts(f));
    if (is_complete(f)) return TL_OK;
    TL_TRY(set_paths(f));
    TL_TRY(set_columns(f));
    TL_TRY(set_classes(f));
    TL_TRY(set_model(f));
    TL_TRY(set_steps(f));
    return set_schedule(f);
}

static tl_status complete(tl_config *config)
{
    filling f = {.config = config, .arena = tl_config_arena(config)};
    const tl_task_config *task =
        ((const tl_experiment_config *)tl_config_value(config))->task.value;
    if (!task || !task->train_data || !tl_paths_given(task->train_data->input_path)) return TL_OK;
    tl_status st = fill(&f);
    tl_map_deinit(&f.classes);
    TL_VEC_FREE(&f.lengths);
    return st;
}

static const char *const restrictions[] = {"task.train_data.is_training != None", NULL};

const tl_experiment_class tli_texts_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "texts",
            .help = "own texts: task.train_data.input_path names a CSV, TSV or JSONL file, or a "
                    "folder with one for each class, and the rest is found in them"},
    .task = &tl_text_task_config_desc,
    .restrictions = restrictions,
    .complete = complete,
    .defaults = "runtime: {distribution_strategy: one_device}\n"
                "task:\n"
                "  model: {encoder: {type: bert}}\n"
                "  validation_data: {is_training: false, drop_remainder: false}\n"
                "trainer:\n"
                "  best_checkpoint_export_subdir: best\n"
                "  best_checkpoint_eval_metric: cls_accuracy\n"
                "  optimizer_config:\n"
                "    optimizer:\n"
                "      type: adamw\n"
                "      adamw:\n"
                "        weight_decay_rate: 0.01\n"
                "        exclude_from_weight_decay: [LayerNorm, layer_norm, bias]\n"
                "    learning_rate: {type: polynomial, polynomial: {end_learning_rate: 0.0}}\n"
                "    warmup: {type: polynomial}\n"
                "tilth: {early_stopping: {metric: cls_accuracy, comp: higher, patience: 6}}\n",
};
