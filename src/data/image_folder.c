#include <tilth/data/image_folder.h>

#include <string.h>
#include <strings.h>

#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

typedef struct file_list {
    tl_image_file *items;
    int64_t count, capacity;
} file_list;
typedef struct name_list {
    const char **items;
    int64_t count, capacity;
} name_list;

static bool is_image(const char *path)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t length = strlen(path);
    for (int64_t i = 0; i < TL_COUNT(endings); i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(path + length - n, endings[i]) == 0) return true;
    }
    return false;
}

// Everything in a folder, whose name may hold what is special in a pattern; `what` is "*", or "*/" for folders.
static tl_status list(tl_path_list *out, tl_arena *arena, const char *folder, const char *what)
{
    tl_str pattern = TL_STR_INIT;
    for (const char *p = folder; *p; p++) {
        if (strchr("*?[]\\", *p)) tl_str_addc(&pattern, '\\');
        tl_str_addc(&pattern, *p);
    }
    size_t length = strlen(folder);
    if (!length || folder[length - 1] != '/') tl_str_addc(&pattern, '/');
    tl_str_add(&pattern, what);
    tl_status st = tl_str_status(&pattern);
    if (st == TL_OK) st = tl_glob(out, arena, tl_str_text(&pattern));
    tl_str_deinit(&pattern);
    return st;
}

// Folders have a slash at the end, and are few among images.
static bool is_folder(const tl_path_list *folders, const char *path)
{
    size_t length = strlen(path);
    for (int64_t i = 0; i < folders->count; i++)
        if (strncmp(folders->items[i], path, length) == 0 && strcmp(folders->items[i] + length, "/") == 0)
            return true;
    return false;
}

static tl_status add_class(file_list *files, name_list *classes, tl_arena *arena, const char *path)
{
    tl_path_list all, folders;
    int64_t before = files->count;
    TL_TRY(list(&all, arena, path, "*"));
    TL_TRY(list(&folders, arena, path, "*/"));
    for (int64_t i = 0; i < all.count; i++)
        if (is_image(all.items[i]) && !is_folder(&folders, all.items[i])
            && !TL_VEC_PUSH(files, (tl_image_file){all.items[i], classes->count}))
            return TL_ENOMEM;
    if (files->count == before)
        return TL_FAIL(
            TL_EINVAL,
            "the class folder '%s' holds no image: no file there ends in .jpg, .jpeg or .png",
            path);
    return TL_VEC_PUSH(classes, tl_path_basename(path)) ? TL_OK : TL_ENOMEM;
}

static tl_status add_classes(file_list *files, name_list *classes, tl_arena *arena,
                             const char *path)
{
    tl_path_list all;
    TL_TRY(list(&all, arena, path, "*"));
    for (int64_t i = 0; i < all.count; i++)
        if (tl_dir_exists(all.items[i])) TL_TRY(add_class(files, classes, arena, all.items[i]));
    if (classes->count) return TL_OK;
    return TL_FAIL(
        TL_EINVAL,
        "'%s' holds no folder: a folder of images has one for each class, named after it", path);
}

tl_status tl_image_folder_list(tl_image_folder *out, tl_arena *arena, const char *path)
{
    file_list files = {0};
    name_list classes = {0};
    tl_status st;
    tl_file_info info;
    *out = (tl_image_folder){0};
    TL_TRY(tl_file_stat(&info, path));
    if (!info.exists)
        return TL_FAIL(TL_ENOTFOUND, "the folder of images '%s' does not exist", path);
    if (!info.is_dir)
        return TL_FAIL(TL_EINVAL, "'%s' is no folder; a folder of images is wanted", path);
    TL_TRY_DONE(st, add_classes(&files, &classes, arena, path));
    out->files = tl_arena_copy(arena, files.items, (size_t)files.count * sizeof *files.items);
    out->classes =
        tl_arena_copy(arena, classes.items, (size_t)classes.count * sizeof *classes.items);
    out->count = files.count;
    out->class_count = classes.count;
    if (!out->files || !out->classes) st = TL_ENOMEM;
done:
    if (st != TL_OK) *out = (tl_image_folder){0};
    TL_VEC_FREE(&files);
    TL_VEC_FREE(&classes);
    return st;
}
