/* Which classes there are: what data says of it. */
#include "zoo/vision/image_classes.h"

#include <inttypes.h>

#include <tilth/data/pipeline.h>
#include <tilth/zoo/vision.h>

tl_status tli_image_check_classes(tl_strings names, int64_t num_classes)
{
    enum { MOST = 5 };
    tl_str some = TL_STR_INIT;
    if (!names.count || names.count == num_classes) return TL_OK;
    for (int64_t i = 0; i < names.count && i < MOST; i++)
        tl_str_addf(&some, "%s%s", i ? ", " : "", names.items[i]);
    if (names.count > MOST) tl_str_add(&some, ", ...");
    tl_status st =
        TL_FAIL(TL_EINVAL,
                "the data has %" PRId64 " classes (%s), and task.model.num_classes is %" PRId64
                ": set task.model.num_classes=%" PRId64,
                names.count, tl_str_text(&some), num_classes, names.count);
    tl_str_deinit(&some);
    return st;
}

static tl_status classes_of(tl_strings *out, tl_arena *arena, const tl_image_data_config *data,
                            const tl_value *path)
{
    tl_path_list paths;
    tl_image_folder folder;
    tl_status st = tl_paths_match(&paths, arena, path);
    if (st == TL_ENOTFOUND && data->file_type != TL_IMAGES_FOLDER) {
        tl_error_clear();
        return TL_OK;
    }
    TL_TRY(st);
    if (data->file_type != TL_IMAGES_FOLDER)
        return tl_class_list_beside(out, arena, paths.items, paths.count);
    TL_TRY(tl_image_folder_list(&folder, arena, &(tl_image_folder_args){.path = paths.items[0]}));
    *out = (tl_strings){folder.classes, folder.class_count};
    return TL_OK;
}

tl_status tl_image_classes(tl_strings *out, tl_arena *arena, const tl_image_data_config *data,
                           const char *section)
{
    const tl_value *path = data->base.input_path;
    *out = (tl_strings){0};
    bool named = data->file_type == TL_IMAGES_FOLDER || data->file_type == TL_IMAGES_TFRECORD;
    if (!named || !tl_paths_given(path)) return TL_OK;
    if (path->kind != TL_VALUE_MAP) {
        TL_TRY_NOTE(classes_of(out, arena, data, path), "%s.input_path", section);
        return TL_OK;
    }
    // The first of a mixture that has names; the others must agree, which is seen when they are
    // opened.
    for (int64_t i = 0; i < path->count && !out->count; i++)
        TL_TRY_NOTE(classes_of(out, arena, data, path->pairs[i].value), "%s.input_path.%s", section,
                    path->pairs[i].key);
    return TL_OK;
}
