/* A folder of images: its subfolders are classes, what lies in them are the images of that class.
 *
 *     tl_image_folder f;
 *     TL_TRY(tl_image_folder_list(&f, arena, "flowers/train"));
 *     for (int64_t i = 0; i < f.count; i++)
 *         printf("%s %s\n", f.files[i].path, f.classes[f.files[i].label]);
 *
 * Classes are numbered by their names, sorted by bytes whatever the locale; so are the files of
 * each class, which stand one class after the other. Names that begin with a dot are passed over,
 * as is everything whose name does not end in .jpg, .jpeg or .png, in small or capital letters.
 * Folders within a class are not searched, and are no images whatever their names.
 *
 * Ownership: the arena's. Thread word: immutable once listed. */
#ifndef TILTH_DATA_IMAGE_FOLDER_H
#define TILTH_DATA_IMAGE_FOLDER_H

#include <tilth/base/arena.h>

TL_BEGIN

typedef struct tl_image_file {
    const char *path; /* the folder's, a slash, the class, a slash, the name */
    int64_t label;    /* which class */
} tl_image_file;

typedef struct tl_image_folder {
    const char *const *classes;
    int64_t class_count;
    const tl_image_file *files;
    int64_t count;
} tl_image_folder;

/* A folder without classes, and a class without images, are TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_image_folder_list(tl_image_folder *out, tl_arena *arena,
                                                   const char *path);

TL_END

#endif
