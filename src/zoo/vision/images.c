/* The experiment `images`: own images in one command. What is not said is found in the data. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>

#include "zoo/vision/foreign.h"
#include "zoo/vision/image_survey.h"
#include "zoo/vision/image_tuning.h"
#include "zoo/inner/zoo.h"

static const double usual_holdout = 0.2;
enum {
    SMALL_SIDE = 40, /* images up to this one keep their size */
    PHOTO_SIDE = 56, /* what larger ones are brought to */
    MANY_SIDE = 32,  /* ... when there are very many of them */
    MANY = 20000,
    MOST_FILTERS = 128,
    TUNED_BATCH = 32, /* of a model that begins with other weights */
    CACHE_BYTES = 1 << 30
};

/* --- setting what nobody has set -------------------------------------------------------------- */

typedef struct filling {
    tl_config *config;
    tl_arena *arena;
} filling;

static const tl_experiment_config *experiment_of(const filling *f)
{
    return tl_config_value(f->config);
}

/* For train_data and validation_data; the latter may be null. */
static tl_status set_data(filling *f, const char *key, const char *value)
{
    const tl_task_config *task = experiment_of(f)->task.value;
    const char *train = tl_arena_printf(f->arena, "task.train_data.%s", key);
    const char *validation = tl_arena_printf(f->arena, "task.validation_data.%s", key);
    if (!train || !validation) return TL_ENOMEM;
    TL_TRY(tli_choose(f->config, train, "%s", value));
    return task->validation_data ? tli_choose(f->config, validation, "%s", value) : TL_OK;
}

/* Texts as they are, whatever characters they have: a value at task.KEY, or task.SECTION.KEY. */
static tl_status put(filling *f, const char *section, const char *key, const tl_value *value)
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

static tl_status put_path(filling *f, const char *section, const tl_value *path)
{
    const tl_place place = {.source = TLI_THE_DATA};
    bool one = path->kind == TL_VALUE_SCALAR;
    return put(f, section, "input_path",
               one ? tl_value_new_scalar(f->arena, place, path->text, true) : path);
}

static tl_status put_names(filling *f, tl_strings names)
{
    const tl_place place = {.source = TLI_THE_DATA};
    const tl_value **items = tl_arena_array(f->arena, names.count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < names.count; i++)
        if (!(items[i] = tl_value_new_scalar(f->arena, place, names.items[i], true)))
            return TL_ENOMEM;
    return put(f, NULL, "class_names", tl_value_new_list(f->arena, place, items, names.count));
}

/* --- where it lies ---------------------------------------------------------------------------- */

static bool is_path(const tl_value *value, const char *path)
{
    return value && value->kind == TL_VALUE_SCALAR && strcmp(value->text, path) == 0;
}

/* Whether a folder has others in it. */
static bool has_folders(tl_arena *arena, const char *path)
{
    tl_image_folder list;
    bool has = tl_image_folder_list(&list, arena, &(tl_image_folder_args){.path = path}) == TL_OK;
    tl_error_clear();
    return has;
}

/* A folder that is divided already, into `train` and one for validation: each has folders of
 * classes. */
static tl_status find_parts(filling *f)
{
    static const char *const names[] = {"validation", "val", "valid", "test"};
    const tl_task_config *task = experiment_of(f)->task.value;
    const tl_value *path = task->train_data->input_path;
    if (path->kind != TL_VALUE_SCALAR || !task->validation_data) return TL_OK;
    const char *train = tl_path_join(f->arena, path->text, "train");
    if (!train) return TL_ENOMEM;
    if (!tl_dir_exists(train) || !has_folders(f->arena, train)) return TL_OK;
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        const char *other = tl_path_join(f->arena, path->text, names[i]);
        if (!other) return TL_ENOMEM;
        bool free = !tl_config_is_given(f->config, "task.validation_data.input_path")
                    || is_path(task->validation_data->input_path, other);
        if (!free || !tl_dir_exists(other) || !has_folders(f->arena, other)) continue;
        TL_LOG_INFO("'%s' is divided: training uses '%s', validation uses '%s'", path->text, train,
                    other);
        const tl_place place = {.source = TLI_THE_DATA};
        TL_TRY(
            put(f, "train_data", "input_path", tl_value_new_scalar(f->arena, place, train, true)));
        return put(f, "validation_data", "input_path",
                   tl_value_new_scalar(f->arena, place, other, true));
    }
    return TL_OK;
}

static tl_status set_file_type(filling *f, const char *section, const tl_data_config *data)
{
    static const char *const names[] = {
        [TL_IMAGES_TFRECORD] = "tfrecord",
        [TL_IMAGES_IDX] = "idx",
        [TL_IMAGES_FOLDER] = "image_folder",
    };
    tl_image_files type;
    const char *key = tl_arena_printf(f->arena, "task.%s.file_type", section);
    if (!key) return TL_ENOMEM;
    if (tl_config_is_given(f->config, key)) return TL_OK;
    TL_TRY_NOTE(tli_survey_file_type(&type, f->arena, data->input_path), "task.%s.input_path",
                section);
    return tli_choose(f->config, key, "%s", names[type]);
}

/* Where nothing is said of validation, a part of the data is held out for it. */
static tl_status set_paths(filling *f)
{
    const tl_task_config *task = experiment_of(f)->task.value;
    const tl_image_data_config *train = (const tl_image_data_config *)task->train_data;
    const char *share = "task.train_data.holdout";
    TL_TRY(set_file_type(f, "train_data", task->train_data));
    if (!task->validation_data) return TL_OK;
    if (tl_paths_given(task->validation_data->input_path))
        return set_file_type(f, "validation_data", task->validation_data);
    TL_TRY(put_path(f, "validation_data", train->base.input_path));
    TL_TRY(set_file_type(f, "validation_data", task->validation_data));
    if (train->file_type == TL_IMAGES_SYNTHETIC) return TL_OK;
    TL_TRY(tli_choose(f->config, share, "%g", usual_holdout));
    return tli_choose(f->config, "task.validation_data.holdout", "%.17g", train->holdout);
}

/* --- what suits it ---------------------------------------------------------------------------- */

/* Height and width that images are brought to. */
static void choose_size(int64_t size[2], const tli_survey *s)
{
    int64_t most = s->count > MANY ? MANY_SIDE : PHOTO_SIDE;
    if (s->one_size && s->height <= SMALL_SIDE && s->width <= SMALL_SIDE) {
        size[0] = s->height;
        size[1] = s->width;
        return;
    }
    // The smallest tenth may grow; all others shrink or stay.
    int64_t side = s->small < most ? s->small : most;
    size[0] = size[1] = side < 8 ? 8 : side;
}

static tl_status set_model(filling *f, const tli_survey *s)
{
    int64_t size[2];
    choose_size(size, s);
    TL_TRY(tli_choose(f->config, "task.model.num_classes", "%" PRId64, s->class_count));
    TL_TRY(tli_choose(f->config, "task.model.input_size", "[%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                      size[0], size[1], s->channels));
    const tl_image_model_config *m =
        ((const tl_task_config *)experiment_of(f)->task.value)->model.value;
    if (!m || !m->backbone.type || strcmp(m->backbone.type, "cnn") != 0 || m->input_size.count != 3)
        return TL_OK;
    // Poolings until the map is about 4 x 4.
    int64_t side = m->input_size.items[0] < m->input_size.items[1] ? m->input_size.items[0]
                                                                   : m->input_size.items[1];
    tl_str filters = TL_STR_INIT;
    bool small = side <= SMALL_SIDE;
    int64_t count = !small || s->count > MANY ? 24 : 32;
    for (; side >= 6 && filters.length < 100;
         side /= 2, count = count < MOST_FILTERS / 2 ? 2 * count : MOST_FILTERS)
        tl_str_addf(&filters, "%s%" PRId64, filters.length ? "," : "", count);
    if (!filters.length) tl_str_addf(&filters, "%" PRId64, count);
    tl_status st = tl_str_status(&filters);
    if (st == TL_OK)
        st =
            tli_choose(f->config, "task.model.backbone.cnn.filters", "[%s]", tl_str_text(&filters));
    tl_str_deinit(&filters);
    // What small images show is in the middle, and where its parts lie matters; in photos it may be
    // anywhere.
    if (st == TL_OK && small) st = tli_choose(f->config, "task.model.backbone.cnn.units", "[128]");
    return st;
}

static tl_status set_numbers(filling *f, const tli_survey *s)
{
    const tl_task_config *task = experiment_of(f)->task.value;
    const tl_image_data_config *d = (const tl_image_data_config *)task->train_data;
    char mean[64], stddev[64];
    if (d->mean.count || d->stddev.count) return TL_OK;
    if (s->channels == 3) {
        snprintf(mean, sizeof mean, "[%.1f,%.1f,%.1f]", s->mean[0], s->mean[1], s->mean[2]);
        snprintf(stddev, sizeof stddev, "[%.1f,%.1f,%.1f]", s->stddev[0], s->stddev[1],
                 s->stddev[2]);
    } else {
        snprintf(mean, sizeof mean, "[%.1f]", s->mean[0]);
        snprintf(stddev, sizeof stddev, "[%.1f]", s->stddev[0]);
    }
    TL_TRY(set_data(f, "mean", mean));
    return set_data(f, "stddev", stddev);
}

/* Images of the model's size are moved a little, others are cut; those in colour may be mirrored
 * and tinted. Grey ones are often signs, which a mirror spoils. */
static tl_status set_changes(filling *f, const tli_survey *s)
{
    const tl_task_config *task = experiment_of(f)->task.value;
    const tl_image_model_config *m = task->model.value;
    if (!m || m->input_size.count != 3) return TL_OK;
    int64_t height = m->input_size.items[0], width = m->input_size.items[1],
            side = height < width ? height : width;
    bool fits = s->one_size && s->height == height && s->width == width, colored = s->channels == 3;
    char number[32];
    if (fits) {
        TL_TRY(tli_choose(f->config, "task.train_data.aug_crop", "false"));
        TL_TRY(tli_choose(f->config, "task.train_data.aug_pad", "%" PRId64,
                          side / 14 > 0 ? side / 14 : 1));
    } else {
        TL_TRY(tli_choose(f->config, "task.train_data.crop_area_range", "%s",
                          colored ? "[0.65,1]" : "[0.85,1]"));
        snprintf(number, sizeof number, "%" PRId64, side + side / 4);
        TL_TRY(set_data(f, "shorter_side", number));
    }
    TL_TRY(
        tli_choose(f->config, "task.train_data.aug_rand_hflip", "%s", colored ? "true" : "false"));
    if (colored) TL_TRY(tli_choose(f->config, "task.train_data.color_jitter", "0.3"));
    // Decoded once and kept, where there is room.
    double kept = (double)(side + side / 4) * (double)(side + side / 4) * 1.5 * (double)s->channels
                  * (double)s->count;
    return set_data(f, "cache", kept < CACHE_BYTES ? "true" : "false");
}

/* --- how long --------------------------------------------------------------------------------- */

/* Few images are seen often, many a few times. */
static int64_t epochs_for(int64_t examples)
{
    double epochs = 80 * pow(500 / (double)tl_max_i64(examples, 1), 0.55);
    return (int64_t)fmin(fmax(ceil(epochs), 3), 200);
}

/* Large models that know much already see few images at a time. */
static tl_status set_batches(filling *f, int64_t examples, bool tunes)
{
    int64_t batch = tunes && examples >= TUNED_BATCH ? TUNED_BATCH
                    : examples >= MANY               ? 128
                    : examples >= 2000               ? 64
                    : examples >= 128                ? 32
                                                     : tl_max_i64(examples / 4, 2);
    const tl_task_config *task = experiment_of(f)->task.value;
    TL_TRY(tli_choose_batch(f->config, "task.train_data.global_batch_size", batch));
    TL_TRY(tli_choose(f->config, "task.train_data.shuffle_buffer_size", "%" PRId64,
                      tl_max_i64(tl_min_i64(examples, 100000), 1)));
    if (!task->validation_data) return TL_OK;
    return tli_choose_batch(f->config, "task.validation_data.global_batch_size", 2 * batch);
}

static tl_status set_steps(filling *f, int64_t examples, bool tunes)
{
    int64_t epochs = epochs_for(examples);
    const tl_task_config *task = experiment_of(f)->task.value;
    int64_t batch = tl_max_i64(task->train_data->global_batch_size, 1);
    int64_t epoch = tl_max_i64(tl_div_up(examples, batch), 1);
    return tli_choose_steps(f->config, epoch, tunes ? tl_max_i64(epochs / 4, 3) : epochs);
}

static tl_status set_schedule(filling *f)
{
    const tl_trainer_config *t = experiment_of(f)->trainer.value;
    const tl_optimization_config *o = &t->optimizer_config;
    if (o->learning_rate.type && strcmp(o->learning_rate.type, "cosine") == 0)
        TL_TRY(tli_choose(f->config, "trainer.optimizer_config.learning_rate.cosine.decay_steps",
                          "%" PRId64, tl_max_i64(t->train_steps, 1)));
    if (o->warmup.type && strcmp(o->warmup.type, "linear") == 0)
        TL_TRY(tli_choose(f->config, "trainer.optimizer_config.warmup.linear.warmup_steps",
                          "%" PRId64, t->train_steps / 20));
    return TL_OK;
}

/* What has been learned is not thrown away at first: the head is trained alone until it fits, and
 * the rate is that of small changes. */
static tl_status set_tuning(filling *f)
{
    const tl_trainer_config *t = experiment_of(f)->trainer.value;
    TL_TRY(tli_choose(f->config,
                      "trainer.optimizer_config.learning_rate.cosine.initial_learning_rate",
                      "0.0005"));
    return tli_choose(f->config, "task.freeze_backbone_steps", "%" PRId64, t->train_steps / 10);
}

/* Where the weights to begin with come from says what the model is, and how it knows images.
 * `*normalised`: mean and stddev are right as they are. */
static tl_status set_beginning(filling *f, const tli_survey *s, bool *tunes, bool *normalised)
{
    const char *from = ((const tl_task_config *)experiment_of(f)->task.value)->init_checkpoint;
    tli_earlier_run run;
    *tunes = *normalised = false;
    if (!from || !*from) return TL_OK;
    TL_TRY(tli_vision_is_foreign(tunes, from));
    if (*tunes) return tli_vision_choose(f->config, from);
    TL_TRY_NOTE(tli_earlier_run_find(&run, f->arena, from), "task.init_checkpoint");
    if (!run.task) return TL_OK;
    *tunes = *normalised = true;
    TL_TRY_NOTE(tli_earlier_run_choose(f->config, &run, s->classes), "task.init_checkpoint");
    return TL_OK;
}

/* --- what was found --------------------------------------------------------------------------- */

static const char *name_of(const tli_survey *s, int64_t class_id, char room[32])
{
    if (class_id < s->classes.count) return s->classes.items[class_id];
    snprintf(room, 32, "%" PRId64, class_id);
    return room;
}

static void warn_of_imbalance(const tli_survey *s)
{
    enum { TIMES = 5 };
    char room[32], other[32];
    int64_t least = 0, most = 0;
    for (int64_t i = 1; i < s->class_count; i++) {
        if (s->counts[i] < s->counts[least]) least = i;
        if (s->counts[i] > s->counts[most]) most = i;
    }
    if (s->class_count < 2 || s->counts[most] < TIMES * s->counts[least]) return;
    TL_LOG_WARNING(
        "classes are of different sizes: '%s' has %" PRId64 " images and '%s' %" PRId64
        ". The accuracy says little about the small ones; look at them in the table of mistakes",
        name_of(s, most, room), s->counts[most], name_of(s, least, other), s->counts[least]);
}

static void tell(const tli_survey *s)
{
    enum { SHOWN = 20 };
    tl_str text = TL_STR_INIT;
    char room[32];
    tl_str_addf(&text, "%" PRId64 " images of %" PRId64 " classes, %s, ", s->count, s->class_count,
                s->channels == 3   ? "in colour"
                : s->channels == 1 ? "grey"
                                   : "of several channels");
    if (s->one_size) tl_str_addf(&text, "%" PRId64 " x %" PRId64 ":", s->height, s->width);
    else
        tl_str_addf(&text,
                    "of several sizes (half of them have a side below %" PRId64 "):", s->middle);
    for (int64_t i = 0; i < s->class_count && i < SHOWN; i++)
        tl_str_addf(&text, "\n  %8" PRId64 "  %s", s->counts[i], name_of(s, i, room));
    if (s->class_count > SHOWN)
        tl_str_addf(&text, "\n  and %" PRId64 " more", s->class_count - SHOWN);
    if (tl_str_status(&text) == TL_OK) TL_LOG_INFO("%s", tl_str_text(&text));
    tl_str_deinit(&text);
    warn_of_imbalance(s);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* What params.yaml of a run says; the data need not be there then. */
static bool is_complete(const filling *f)
{
    static const char *const keys[] = {
        "task.model.num_classes",    "task.model.input_size", "task.train_data.global_batch_size",
        "task.train_data.file_type", "task.train_data.mean",  "trainer.train_steps"};
    for (int64_t i = 0; i < TL_COUNT(keys); i++)
        if (!tl_config_is_given(f->config, keys[i])) return false;
    return true;
}

static tl_status complete(tl_config *config)
{
    filling f = {config, tl_config_arena(config)};
    const tl_image_task_config *task = experiment_of(&f)->task.value;
    tli_survey survey;
    if (!task || !task->base.train_data || !tl_paths_given(task->base.train_data->input_path))
        return TL_OK;
    TL_TRY(find_parts(&f));
    if (is_complete(&f)) return TL_OK;
    TL_TRY(set_paths(&f));
    const tl_image_data_config *train = (const tl_image_data_config *)task->base.train_data;
    if (train->file_type == TL_IMAGES_SYNTHETIC) return TL_OK;
    TL_TRY_NOTE(tli_survey_take(&survey, f.arena, train, train->file_type, train->base.input_path,
                                task->class_names),
                "task.train_data");
    if (survey.class_count < 2)
        return TL_FAIL(TL_EINVAL, "task.train_data: all images are of one class; there must be two "
                                  "or more to be told apart");
    if (!task->class_names.count && survey.classes.count) TL_TRY(put_names(&f, survey.classes));
    tell(&survey);
    int64_t examples = (int64_t)ceil((double)survey.count * (1 - train->holdout));
    bool tunes, normalised;
    TL_TRY(set_beginning(&f, &survey, &tunes, &normalised));
    TL_TRY(set_model(&f, &survey));
    if (!normalised) TL_TRY(set_numbers(&f, &survey));
    TL_TRY(set_changes(&f, &survey));
    TL_TRY(set_batches(&f, examples, tunes));
    TL_TRY(set_steps(&f, examples, tunes));
    if (tunes) TL_TRY(set_tuning(&f));
    return set_schedule(&f);
}

static const char *const restrictions[] = {"task.train_data.is_training != None", NULL};

const tl_experiment_class tli_images_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "images",
            .help = "own images: task.train_data.input_path names a folder with one for each "
                    "class, TFRecords or a pair of idx files, and the rest is found in them"},
    .task = &tl_image_task_config_desc,
    .restrictions = restrictions,
    .complete = complete,
    .defaults =
        "runtime: {distribution_strategy: one_device}\n"
        "task:\n"
        "  model:\n"
        "    backbone: {type: cnn, cnn: {batch_norm: true, units: []}}\n"
        "    norm_activation: {norm_momentum: 0.9, norm_epsilon: 1.0e-05}\n"
        "    kernel_initializer: glorot_uniform\n"
        "  losses: {label_smoothing: 0.1}\n"
        "  evaluation: {top_k: 2, report_mistakes: 10}\n"
        "  train_data: {skip_bad: true, tf_resize_method: area}\n"
        "  validation_data: {skip_bad: true, tf_resize_method: area, center_crop_fraction: 0.0}\n"
        "trainer:\n"
        "  best_checkpoint_export_subdir: best\n"
        "  best_checkpoint_eval_metric: accuracy\n"
        "  optimizer_config:\n"
        "    optimizer: {type: adam}\n"
        "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.006}}\n"
        "    warmup: {type: linear}\n"
        "    ema: {average_decay: 0.99}\n"
        "tilth: {early_stopping: {metric: accuracy, comp: higher, patience: 10}}\n",
};
