/* Batches of own texts: they are read and cut into pieces once, and lie in memory as numbers. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/text/classification.h>
#include <tilth/text/learn.h>

#include "zoo/language/texts.h"

/* --- vocabularies ----------------------------------------------------------------------------- */

static tl_status learn_from(void *self, const tli_text *t)
{
    if (t->held_out) return TL_OK;
    TL_TRY(tl_wordpiece_learner_add(self, t->first.data, t->first.size));
    return t->second.size ? tl_wordpiece_learner_add(self, t->second.data, t->second.size) : TL_OK;
}

static tl_status learn(tl_str *vocab, const tl_text_data_config *data, const tl_path_list *paths,
                       const tl_wordpiece_learn_args *how)
{
    tl_wordpiece_learner *learner;
    TL_TRY(tl_wordpiece_learner_new(&learner, how));
    tl_status st = tli_texts_each(data, paths->items, paths->count, learn_from, learner);
    if (st == TL_OK) st = tl_wordpiece_learner_finish(learner, vocab);
    tl_wordpiece_learner_free(&learner);
    return st;
}

/* Validation that is held out of the same files is not learned from. */
static tl_status learn_vocabulary(tli_pieces *out, tl_arena *arena, const tl_text_task_config *task,
                                  const tli_pieces_how *how)
{
    const tl_text_data_config *data = (const tl_text_data_config *)task->base.base.train_data;
    tl_str vocab = TL_STR_INIT;
    tl_path_list paths;
    if (!data || !tl_paths_given(data->base.input_path))
        return TL_FAIL(TL_EINVAL,
                       "there is no vocabulary: name one by task.vocab_file, or texts to "
                       "learn one from by task.train_data.input_path");
    TL_TRY_NOTE(tl_paths_match(&paths, arena, data->base.input_path), "task.train_data.input_path");
    const tl_wordpiece_learn_args args = {.size = task->vocab_size,
                                          .rules = how->rules,
                                          .cased = how->lower.set && !how->lower.value};
    tl_status st = learn(&vocab, data, &paths, &args);
    if (st == TL_OK) st = tli_pieces_take(out, arena, tl_str_text(&vocab), how);
    tl_str_deinit(&vocab);
    return st == TL_OK ? TL_OK : tl_error_note(st, "task.train_data");
}

tl_status tli_texts_vocabulary(tli_pieces *out, tl_arena *arena, const tl_text_task_config *task)
{
    const tli_pieces_how how = {.rules = TL_WORDPIECE_HF, .lower = task->lower_case};
    if (*task->vocab_file) {
        TL_TRY_NOTE(tli_pieces_open(out, arena, task->vocab_file, &how), "task.vocab_file");
        return TL_OK;
    }
    TL_TRY_NOTE(tli_pieces_of_weights(out, arena, task->base.base.init_checkpoint, &how),
                "task.init_checkpoint");
    if (!out->tokenizer)
        TL_TRY_NOTE(tli_pieces_of_weights(out, arena, task->base.hub_module_url, &how),
                    "task.hub_module_url");
    return out->tokenizer ? TL_OK : learn_vocabulary(out, arena, task, &how);
}

tl_status tli_texts_check_vocabulary(const tli_pieces *p, const tl_text_task_config *task)
{
    const tl_sentence_model_config *m = task->base.base.model.value;
    const tl_field *f = m && m->encoder.desc ? tl_desc_field(m->encoder.desc, "vocab_size") : NULL;
    if (!f || f->type != TL_TYPE_INT || !m->encoder.value) return TL_OK;
    int64_t known = *(const int64_t *)tl_field_at(f, m->encoder.value),
            pieces = tl_tokenizer_count(p->tokenizer);
    if (pieces <= known) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' has %" PRId64 " pieces, and the encoder knows %" PRId64
                   ": set task.model.encoder.%s.vocab_size=%" PRId64
                   ", or name the vocabulary of these weights (task.vocab_file)",
                   tl_tokenizer_file(p->tokenizer), pieces, known, m->encoder.type, pieces);
}

/* --- texts as numbers ------------------------------------------------------------------------- */

typedef struct example {
    int64_t from; /* of its pieces */
    int32_t count, first, label;
} example;

/* Lives as long as the dataset. */
typedef struct loaded {
    const tl_text_data_config *data;
    const tl_text_task_config *task;
    tl_holdout_part part;
    bool evaluates;
    const char *section;
    tl_map classes; /* to one more than their number */
    tl_packer packer;
    bool packs;
    int32_t mask; /* stands for pieces that are hidden */
    tl_ids ids;
    struct {
        example *items;
        int64_t count, capacity;
    } examples;
    int64_t cut, empty;
} loaded;

static void free_loaded(void *payload)
{
    loaded *l = payload;
    if (l->packs) tl_packer_deinit(&l->packer);
    tl_map_deinit(&l->classes);
    tl_ids_deinit(&l->ids);
    TL_VEC_FREE(&l->examples);
    tl_free(l);
}

static tl_status refuse_class(const loaded *l, const char *label)
{
    const tl_strings *c = &l->task->class_names;
    const char *near = tl_nearest(label, c->items, c->count);
    return TL_FAIL(
        TL_EDATA, "the class '%.80s' is none of the %" PRId64 " that task.class_names has%s%.80s%s",
        label, c->count, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static tl_status load_text(void *self, const tli_text *t)
{
    loaded *l = self;
    example e = {.from = l->ids.count};
    bool wanted = !(l->data->holdout > 0) || t->held_out == (l->part == TL_HOLDOUT_VALIDATION);
    uintptr_t found = (uintptr_t)tl_map_get(&l->classes, t->label ? t->label : "");
    if (!wanted) return TL_OK;
    if (!found) return refuse_class(l, t->label ? t->label : "");
    TL_TRY(tl_packer_pack(&l->packer, t->first, t->second));
    e.count = (int32_t)l->packer.ids.count;
    e.first = (int32_t)l->packer.first;
    e.label = (int32_t)(found - 1);
    l->cut += l->packer.was_cut;
    l->empty += e.count <= 2;
    for (int64_t i = 0; i < l->packer.ids.count; i++)
        if (!TL_VEC_PUSH(&l->ids, l->packer.ids.items[i])) return TL_ENOMEM;
    return TL_VEC_PUSH(&l->examples, e) ? TL_OK : TL_ENOMEM;
}

static tl_status make_sample(void *self, int64_t index, tl_sample *s)
{
    const loaded *l = self;
    const example *e = &l->examples.items[index];
    const int64_t length = l->packer.length;
    int32_t *words = tl_sample_add(s, "input_word_ids", TL_I32, TL_SHAPE(length));
    int32_t *mask = tl_sample_add(s, "input_mask", TL_I32, TL_SHAPE(length));
    int32_t *types = tl_sample_add(s, "input_type_ids", TL_I32, TL_SHAPE(length));
    int32_t *label = tl_sample_add(s, "label_ids", TL_I32, TL_SCALAR);
    if (!words || !mask || !types || !label) return TL_ENOMEM;
    for (int64_t i = 0; i < length; i++) {
        words[i] = i < e->count ? l->ids.items[e->from + i] : 0;
        mask[i] = i < e->count;
        types[i] = i >= e->first && i < e->count;
    }
    *label = e->label;
    return TL_OK;
}

/* A model that cannot count on any one word learns from all of them. */
static tl_status hide_words(void *self, tl_sample *s)
{
    const loaded *l = self;
    int32_t *words = tl_sample_write(s, "input_word_ids");
    tl_rng rng;
    if (!words) return TL_ENOMEM;
    tl_sample_rng(s, &rng);
    for (int64_t i = 1; i < l->packer.length && words[i]; i++) {
        bool hides = (double)tl_rng_uniform_f32(&rng) < l->data->word_dropout;
        if (hides && words[i] != l->packer.sep) words[i] = l->mask;
    }
    return TL_OK;
}

static void tell_loaded(const loaded *l)
{
    if (l->cut)
        TL_LOG_INFO("%s: %" PRId64 " of %" PRId64 " texts are longer than task.seq_length (%" PRId64
                    " pieces) and are cut",
                    l->section, l->cut, l->examples.count, l->packer.length);
    if (l->empty) TL_LOG_WARNING("%s: %" PRId64 " texts are empty", l->section, l->empty);
}

static tl_status open_texts(void *self, const char *name, const char *const *paths, int64_t count,
                            tl_source **out)
{
    loaded *l = self;
    (void)name;
    if (l->examples.count)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "input_path is a map; texts are named by a path, or a list");
    TL_TRY(tli_texts_each(l->data, paths, count, load_text, l));
    if (!l->examples.count)
        return TL_FAIL(TL_EINVAL,
                       "'%s' has no text that is %s: set holdout in train_data and "
                       "validation_data (%g now), or name texts to validate with by "
                       "task.validation_data.input_path",
                       paths[0],
                       l->part == TL_HOLDOUT_VALIDATION ? "held out" : "left to train with",
                       l->data->holdout);
    tell_loaded(l);
    return tl_source_function(out, make_sample, l, l->examples.count);
}

static tl_status check_classes(const tl_text_task_config *task)
{
    const tl_sentence_model_config *m = task->base.base.model.value;
    const int64_t names = task->class_names.count, classes = m ? m->num_classes : 0;
    if (!names)
        return TL_FAIL(TL_EINVAL, "task.class_names is empty: the experiment 'texts' finds them "
                                  "when its configuration is finished (tl_experiment_parse)");
    if (names == classes) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "task.class_names has %" PRId64
                   " classes, and task.model.num_classes is %" PRId64,
                   names, classes);
}

static tl_status new_loaded(loaded **out, const tl_text_task_config *task,
                            const tl_text_data_config *data, const tli_pieces *pieces,
                            const tli_language_inputs *args)
{
    loaded *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    TL_TRY(tl_arena_defer(args->arena, free_loaded, l));
    l->data = data;
    l->task = task;
    l->section = args->section;
    l->part = data->holdout_part;
    if (l->part == TL_HOLDOUT_AUTO)
        l->part = args->trains ? TL_HOLDOUT_TRAIN : TL_HOLDOUT_VALIDATION;
    for (int64_t i = 0; i < task->class_names.count; i++)
        TL_TRY(tl_map_set(&l->classes, task->class_names.items[i], (void *)(uintptr_t)(i + 1)));
    TL_TRY_NOTE(tl_packer_init(&l->packer, pieces->tokenizer, task->seq_length), "task");
    l->packs = true;
    if (data->word_dropout > 0)
        TL_TRY_NOTE(tl_tokenizer_need(pieces->tokenizer, "[MASK]", &l->mask), "%s.word_dropout",
                    args->section);
    *out = l;
    return TL_OK;
}

tl_status tli_texts_inputs(tl_dataset **out, const tl_text_task_config *task,
                           const tl_text_data_config *data, const tli_pieces *pieces,
                           const tli_language_inputs *args)
{
    loaded *l = NULL;
    tl_pipeline_args a = {0};
    *out = NULL;
    TL_TRY(check_classes(task));
    TL_TRY(tli_texts_check_vocabulary(pieces, task));
    if (data->base.global_batch_size < 1)
        return TL_FAIL(TL_EINVAL, "global_batch_size is 0: set it in %s", args->section);
    TL_TRY(new_loaded(&l, task, data, pieces, args));
    const tl_pipeline_reader reader = {.pipelines = args->input->pipelines,
                                       .pipeline = args->input->pipeline,
                                       .replicas = args->input->replicas,
                                       .seed = args->input->seed,
                                       .section = args->section,
                                       .open = open_texts,
                                       .open_self = l};
    const tl_sample_map hide = {hide_words, l};
    a.maps = &hide;
    a.map_count =
        data->base.is_training.set && data->base.is_training.value && data->word_dropout > 0;
    TL_TRY(tl_pipeline_args_read(&a, args->arena, &data->base, &reader));
    return tl_pipeline_new(out, &a);
}

/* --- what lacks ------------------------------------------------------------------------------- */

/* All else is found in the texts. */
tl_status tli_texts_lacks(const tl_task_config *config, bool trains, bool evaluates, tl_lacks *into)
{
    const tl_text_task_config *task = (const tl_text_task_config *)config;
    bool named = config->train_data && tl_paths_given(config->train_data->input_path);
    (void)evaluates;
    if (named || (!trains && task->class_names.count)) return TL_OK;
    return tl_lacks_add(into, "task.train_data.input_path",
                        "where the texts lie: a CSV, TSV or JSONL file, or a folder with one for "
                        "each class",
                        "FILE.csv");
}

/* --- what is configured ----------------------------------------------------------------------- */

#define TEXTS_F(member, ...) TL_F(tl_text_data_config, member, __VA_ARGS__)
static const char *const header_names[] = {
    [TL_HEADER_AUTO] = "auto",
    [TL_HEADER_YES] = "first_line",
    [TL_HEADER_NO] = "none",
    NULL,
};
static const char *const holdout_parts[] = {"auto", "train", "validation", NULL};
static const tl_field fields[] = {
    TL_F_AS(tl_text_data_config, base.global_batch_size, "global_batch_size", .i = 32,
            TL_AT_LEAST(0), .help = "texts of one step, over all replicas"),
    TL_F_AS(tl_text_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat and shuffle the texts; null is as false"),
    TL_F_AS(tl_text_data_config, base.shuffle_buffer_size, "shuffle_buffer_size", .i = 10000000,
            TL_AT_LEAST(0), .help = "texts among which the next one is drawn in training"),
    TEXTS_F(text_column, .s = "",
            .help = "column of the texts: its name, or its number from 0 on; empty for folders"),
    TEXTS_F(second_text_column, .s = "", .help = "column of a second text, for pairs"),
    TEXTS_F(label_column, .s = "", .help = "column of the classes; empty for folders"),
    TEXTS_F(header, .names = header_names,
            .help = "where columns are named: in the first line, nowhere (they are col_0, col_1, "
                    "...), or as it looks"),
    TEXTS_F(delimiter, .s = "", .help = "what separates cells, or tab; empty: it is found out"),
    TEXTS_F(word_dropout, TL_RANGE(0, 1),
            .help = "share of the pieces that training hides behind [MASK], others in each pass"),
    TEXTS_F(holdout, TL_RANGE(0, 0.999),
            .help = "share of the texts that is held out of training, for validation; they are "
                    "chosen by what they are"),
    TEXTS_F(holdout_part, .names = holdout_parts,
            .help = "which part is read: train (what is left), validation (what is held out); auto "
                    "is train for train_data and validation for validation_data"),
    TL_F_END,
};

static tl_status check(const void *value)
{
    const tl_text_data_config *data = value;
    const char *d = data->delimiter;
    if (tl_paths_given(data->base.tfds_name))
        return TL_FAIL(TL_EUNSUPPORTED, "tfds_name: nothing is fetched from elsewhere; name files "
                                        "by input_path");
    if (!*d || strcmp(d, "tab") == 0
        || (strlen(d) == 1 && !strchr("\"\r\n ", *d) && (unsigned char)*d < 0x80))
        return TL_OK;
    return TL_FAIL(TL_EINVAL, "delimiter: expected one character, or tab; found '%s'", d);
}

const tl_desc tl_text_data_config_desc = {
    .name = "text_data",
    .help = "own texts with a class each",
    .size = sizeof(tl_text_data_config),
    .fields = fields,
    .base = &tl_data_config_desc,
    .check = check,
};
