/* What image classification still lacks, and what would do. */
#include <string.h>

#include <tilth/base/file.h>

#include "zoo/vision/image_lacks.h"

/* Data as far as it is known: an example of a command should work with it. */
typedef struct known {
    const char *path; /* of one place, or NULL */
    bool is_folder;   /* with one for each class */
    int64_t classes;  /* 0: not known */
} known;

static known look(tl_arena *arena, const tl_image_data_config *d)
{
    known k = {0};
    tl_image_folder folder;
    if (!d || !tl_paths_given(d->base.input_path) || d->base.input_path->kind != TL_VALUE_SCALAR)
        return k;
    k.path = d->base.input_path->text;
    if (!tl_dir_exists(k.path)) return k;
    if (tl_image_folder_list(&folder, arena, &(tl_image_folder_args){.path = k.path}) == TL_OK) {
        k.is_folder = true;
        k.classes = folder.class_count;
    } else {
        tl_error_clear(); // whoever reads it will say so
    }
    return k;
}

static bool has_path(const tl_image_data_config *d)
{
    return d->file_type == TL_IMAGES_SYNTHETIC || tl_paths_given(d->base.input_path)
           || tl_paths_given(d->base.tfds_name);
}

static tl_status lacks_of_data(tl_lacks *into, const tl_image_data_config *d, const char *section,
                               const known *k, const char *batch)
{
    const char *path = tl_arena_printf(into->arena, "%s.input_path", section);
    const char *type = tl_arena_printf(into->arena, "%s.file_type", section);
    const char *size = tl_arena_printf(into->arena, "%s.global_batch_size", section);
    bool folder = k->is_folder || !k->path;
    if (!path || !type || !size) return TL_ENOMEM;
    if (!has_path(d))
        TL_TRY(tl_lacks_add(into, path,
                            "where the images lie: a folder with one for each class, or files",
                            k->path ? k->path : "FOLDER"));
    if (folder && d->file_type == TL_IMAGES_TFRECORD)
        TL_TRY(tl_lacks_add(into, type,
                            has_path(d)
                                ? "image_folder: it is a folder of images, and not of TFRecords"
                                : "tfrecord, or image_folder for a folder of images",
                            "image_folder"));
    if (d->base.global_batch_size < 1)
        TL_TRY(tl_lacks_add(into, size, "how many images are taken at a time", batch));
    return TL_OK;
}

static tl_status lacks_of_model(tl_lacks *into, const tl_image_model_config *m, const known *k)
{
    if (m->num_classes < 1)
        TL_TRY(tl_lacks_add(
            into, "task.model.num_classes", "how many classes there are",
            tl_arena_printf(into->arena, "%lld", (long long)(k->classes ? k->classes : 10))));
    if (m->input_size.count != 3)
        TL_TRY(tl_lacks_add(into, "task.model.input_size",
                            "height, width and channels that images are brought to", "[64,64,3]"));
    if (m->backbone.type) return TL_OK;
    return tl_lacks_add(into, "task.model.backbone.type", "what turns images into features",
                        "resnet");
}

/* One folder for both, where there is no other: part of it is held out. */
static tl_status lacks_of_validation(tl_lacks *into, const tl_image_task_config *t,
                                     const known *train)
{
    const tl_image_data_config *d = (const tl_image_data_config *)t->base.validation_data;
    tl_arena *arena = into->arena;
    bool shared = !has_path(d) && d->holdout == 0;
    known k = has_path(d) ? look(arena, d) : *train;
    TL_TRY(lacks_of_data(into, d, "task.validation_data", &k, "32"));
    if (!shared) return TL_OK;
    TL_TRY(tl_lacks_add(into, "task.train_data.holdout", NULL, "0.2"));
    return tl_lacks_add(into, "task.validation_data.holdout", NULL, "0.2");
}

tl_status tli_image_lacks(const tl_task_config *config, bool trains, bool evaluates, tl_lacks *into)
{
    const tl_image_task_config *t = (const tl_image_task_config *)config;
    const tl_image_data_config *train = (const tl_image_data_config *)config->train_data;
    known k = look(into->arena, train);
    if (!config->model.value) return TL_OK;
    into->hint = "--experiment=images needs task.train_data.input_path alone, and finds the rest "
                 "in the data.";
    TL_TRY(lacks_of_model(into, config->model.value, &k));
    if (trains && train) TL_TRY(lacks_of_data(into, train, "task.train_data", &k, "32"));
    return evaluates && config->validation_data ? lacks_of_validation(into, t, &k) : TL_OK;
}
