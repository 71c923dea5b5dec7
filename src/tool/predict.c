#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/io/idx.h>
#include <tilth/io/png.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/softmax.h>
#include <tilth/zoo/vision.h>

#include "tool/finished.h"

typedef struct predict_flags {
    int64_t top, count;
} predict_flags;
static const tl_field predict_fields[] = {
    TL_F(predict_flags, top, .i = 3, TL_AT_LEAST(1), .help = "classes that are told of each image"),
    TL_F(predict_flags, count, .i = 8, TL_AT_LEAST(1), .help = "images that are taken from an idx file"),
    TL_F_END,
};
static const tl_desc predict_flags_desc = {.name = "predict", .help = "flags of `predict`",
                                           .size = sizeof(predict_flags), .fields = predict_fields};

enum { OUTPUT, RUN }; /* structs of flags, by their place in the command's table */

static bool is_image_task(const tl_experiment_config *params)
{
    return params->task.desc && tl_desc_is(params->task.desc, &tl_image_task_config_desc);
}

const char *tli_predict_example(const tl_experiment_config *params, tl_arena *arena)
{
    if (!is_image_task(params)) return NULL;
    const tl_task_config *task = params->task.value;
    const tl_image_data_config *data = (const tl_image_data_config *)task->validation_data;
    const tl_value *path = data && data->file_type == TL_IMAGES_IDX ? data->base.input_path : NULL;
    if (!path || path->kind != TL_VALUE_SCALAR) return TLI_ANY_IMAGE;
    const char *first = tl_arena_strndup(arena, path->text, strcspn(path->text, ","));
    return first ? first : TLI_ANY_IMAGE;
}

/* What all images share. */
typedef struct teller {
    tli_run *run;
    const tli_finished *f;
    const tl_image_task_config *task;
    const tl_image_model_config *model;
    tl_ctx *ctx;
    float *pixels, *shares;
} teller;

/* --- answers ---------------------------------------------------------------------------------- */

static void add_class(tl_str *out, const teller *t, int64_t class_id)
{
    if (class_id < t->task->class_names.count) tl_str_add(out, t->task->class_names.items[class_id]);
    else tl_str_addf(out, "%" PRId64, class_id);
}

/* The greatest ones first; those that were told become negative. */
static void tell(teller *t, const char *name)
{
    tl_str *out = &t->run->text;
    int64_t top = ((const predict_flags *)t->run->given[OUTPUT])->top, classes = t->model->num_classes;
    tl_str_addf(out, "%s:", name);
    for (int64_t i = 0; i < top && i < classes; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++)
            if (t->shares[k] > t->shares[best]) best = k;
        tl_str_addf(out, "%s ", i ? "," : "");
        add_class(out, t, best);
        tl_str_addf(out, " %.3f", t->shares[best]);
        t->shares[best] = -1;
    }
    tl_str_addc(out, '\n');
}

/* Probabilities: of one class among all, or of each class by itself where examples may have several. */
static tl_tensor *shares_of(const teller *t, tl_tensor *logits)
{
    const tl_image_data_config *data = (const tl_image_data_config *)t->task->base.train_data;
    logits = tl_cast(t->ctx, logits, TL_F32);
    return data && data->is_multilabel ? tl_sigmoid(t->ctx, logits) : tl_softmax(t->ctx, logits, -1);
}

static tl_status answer(teller *t, const char *name)
{
    const int64_t *size = t->model->input_size.items;
    tl_mark mark = tl_ctx_begin(t->ctx);
    tl_tensor *x = tl_from(t->ctx, TL_F32, TL_SHAPE(1, size[0], size[1], size[2]), t->pixels);
    tl_tensor *y = shares_of(t, tl_call(t->ctx, t->f->trainer->model, x));
    tl_status st = tl_ctx_status(t->ctx);
    if (st == TL_OK) st = tl_tensor_get(y, t->shares, (size_t)t->model->num_classes * sizeof *t->shares);
    tl_ctx_end(t->ctx, mark);
    if (st == TL_OK) tell(t, name);
    return st;
}

/* --- images ----------------------------------------------------------------------------------- */

static const tl_image_data_config *data_of(const teller *t)
{
    const tl_task_config *task = &t->task->base;
    return (const tl_image_data_config *)(task->validation_data ? task->validation_data : task->train_data);
}

static tl_status predict_image(teller *t, const char *path, const tl_file_mapping *file)
{
    TL_TRY_NOTE(tl_image_prepare(t->pixels, data_of(t), t->model->input_size, file->data, file->size), "%s",
                path);
    return answer(t, path);
}

/* An idx file begins with two zeros, its type and its rank; no image does. */
static bool is_idx(const char *path, const tl_file_mapping *file)
{
    const char *b = file->data;
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0) return true;
    return file->size > 4 && b[0] == 0 && b[1] == 0 && b[2] == 8 && (b[3] == 3 || b[3] == 4);
}

static tl_status predict_idx(teller *t, const char *path)
{
    int64_t count = ((const predict_flags *)t->run->given[OUTPUT])->count;
    tl_idx idx;
    TL_TRY(tl_idx_open(&idx, path));
    tl_status st = TL_OK;
    if (idx.dtype != TL_U8 || idx.shape.rank < 3)
        st = TL_FAIL(TL_EINVAL, "%s: holds no images: expected bytes [count, height, width]", path);
    for (int64_t i = 0; st == TL_OK && i < count && i < idx.shape.dims[0]; i++) {
        const tl_shape image = idx.shape.rank > 3
                                   ? TL_SHAPE(idx.shape.dims[1], idx.shape.dims[2], idx.shape.dims[3])
                                   : TL_SHAPE(idx.shape.dims[1], idx.shape.dims[2]);
        char *name = tl_arena_printf(t->run->arena, "%s[%" PRId64 "]", path, i);
        if (!name) st = TL_ENOMEM;
        if (st == TL_OK)
            st = tl_image_prepare_pixels(t->pixels, data_of(t), t->model->input_size, image,
                                         tl_idx_item(&idx, i));
        if (st == TL_OK) st = answer(t, name);
    }
    tl_idx_close(&idx);
    return st;
}

static tl_status predict_file(teller *t, const char *path)
{
    tl_file_mapping file;
    TL_TRY(tl_file_map(&file, path));
    tl_status st = is_idx(path, &file) ? predict_idx(t, path) : predict_image(t, path, &file);
    tl_file_unmap(&file);
    return st;
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status predict(tli_run *run, const tli_finished *f)
{
    if (!is_image_task(f->params))
        return TL_FAIL(TL_EUNSUPPORTED, "predict knows image classification alone, and this run is of the "
                                        "task '%s'", f->task->cls->cls.name);
    teller t = {.run = run, .f = f, .task = f->params->task.value};
    t.model = t.task->base.model.value;
    const int64_t *size = t.model->input_size.items;
    t.pixels = tl_arena_array(run->arena, size[0] * size[1] * size[2], sizeof *t.pixels);
    t.shares = tl_arena_array(run->arena, t.model->num_classes, sizeof *t.shares);
    if (!t.pixels || !t.shares) return TL_ENOMEM;
    if (!data_of(&t)) return TL_FAIL(TL_EINVAL, "the run has neither train_data nor validation_data");
    TL_TRY(tl_ctx_new(&t.ctx, tl_strategy_engine(f->strategy)));
    tl_status st = TL_OK;
    for (int64_t i = 0; st == TL_OK && i < run->words.count; i++) st = predict_file(&t, run->words.items[i]);
    tl_ctx_free(&t.ctx);
    return st == TL_OK ? tl_str_status(&run->text) : st;
}

static tl_status run_predict(tli_run *run)
{
    tli_finished f;
    if (!run->words.count)
        return TL_FAIL(TL_EINVAL, "no image is named: say one or more files, PNG, JPEG or idx");
    tl_status st = tli_finished_open(&f, run, run->given[RUN], false, NULL);
    if (st == TL_OK) st = predict(run, &f);
    tli_finished_close(&f);
    return st;
}

const tli_command tli_command_predict = {
    .name = "predict",
    .brief = "tells to which classes images belong",
    .usage = "--model_dir=FOLDER [--checkpoint=latest|best|PATH] FILE...\n\n"
             "Gives images to the model of a run of image classification, and tells the likeliest classes "
             "of each with their probabilities. Files are PNG, JPEG, or idx files with several images.",
    .flags = {{"Output", &predict_flags_desc}, {"Run", &tli_finished_flags_desc}},
    .run = run_predict,
};
