/* A folder of images: its subfolders are classes, what lies in them are the images of that class.
 *
 *     tl_image_folder f;
 *     TL_TRY(tl_image_folder_list(&f, arena, &(tl_image_folder_args){.path = "flowers/train"}));
 *     for (int64_t i = 0; i < f.count; i++)
 *         printf("%s %s\n", f.files[i].path, f.classes[f.files[i].label]);
 *
 * Classes are numbered by their names, sorted by bytes whatever the locale, or as a given list
 * says; the files of each class are sorted as well, and stand one class after the other. Names that
 * begin with a dot are passed over. So is everything whose name does not end in .jpg, .jpeg or
 * .png, in small or capital letters, but it is counted. Folders within a class are not searched,
 * and are no images whatever their names. A class folder without an image is told, and has no
 * number unless the list gives it one.
 *
 * Part of a folder can be held out of training, for validation. Which part an image belongs to
 * follows from its bytes: the same picture is always on the same side, on every machine, and
 * pictures that come later move no other.
 *
 * Ownership: the arena's. Thread word: immutable once listed. */
#ifndef TILTH_DATA_IMAGE_FOLDER_H
#define TILTH_DATA_IMAGE_FOLDER_H

#include <tilth/base/arena.h>
#include <tilth/base/str.h>
#include <tilth/desc/desc.h>
#include <tilth/io/image/image.h>

TL_BEGIN

/* --- what is held out ------------------------------------------------------------------------- */

typedef enum tl_holdout_part {
    TL_HOLDOUT_AUTO,      /* the one below, or validation where examples are evaluated */
    TL_HOLDOUT_TRAIN,     /* what is left */
    TL_HOLDOUT_VALIDATION /* what is held out */
} tl_holdout_part;

/* A number that follows from the bytes, on every machine the same one, spread evenly over 64 bits.
 * Of more than 64 KiB the beginning, the middle, the end and the length count. */
TL_API uint64_t tl_content_hash(const void *data, size_t size);
/* Whether content of this hash belongs to a share that is held out: 0 for nothing, 1 for all. */
TL_API bool tl_content_held_out(uint64_t hash, double share);

/* --- folders ---------------------------------------------------------------------------------- */

typedef struct tl_image_file {
    const char *path; /* the folder's, a slash, the class, a slash, the name */
    int64_t label;    /* which class */
    uint64_t hash;    /* with `holdout` or `check`, else 0: tl_content_hash of its bytes */
    // With `check`, else 0.
    size_t bytes;
    tl_image_format format;
    int64_t height, width, channels; /* when it is turned upright, as EXIF says */
    bool turned;                     /* there is something to turn */
} tl_image_file;

typedef struct tl_bad_image {
    const char *path, *why;
} tl_bad_image;

/* Files that are no images by their names: ".gif", "" for those without an ending. */
typedef struct tl_passed_files {
    const char *ending;
    int64_t count;
} tl_passed_files;

typedef struct tl_image_folder {
    const char *path;
    const char *const *classes;
    int64_t class_count;
    const int64_t *counts; /* images of each class */
    const tl_image_file *files;
    int64_t count;
    // What is to be told; tl_image_folder_notes does.
    tl_strings empty;   /* class folders without an image */
    tl_strings missing; /* classes of the given list that have no folder */
    const tl_passed_files *passed;
    int64_t passed_count;
    const tl_bad_image *bad;
    int64_t bad_count;
} tl_image_folder;

typedef struct tl_image_folder_args {
    const char *path;
    /* (optional: sorted by name) Names of the classes in the order of their numbers. A folder of
     * images whose name is not among them is an error; a name without a folder is told. */
    tl_strings classes;
    double holdout; /* (optional: 0, nothing is held out) a share: 0 <= holdout < 1 */
    /* (optional: what is left) A class of two different images or more has one in each part, that
     * with the lowest hash in validation. A class of one is trained with. */
    tl_holdout_part part;
    /* every image is read and decoded once, side by side, so that those that cannot be are known */
    bool check;
    /* images that cannot be read are left out and stand in `bad`; otherwise they are TL_EIO, all in
     * one message. Only `check` and `holdout` read images. */
    bool skip_bad;
    int threads; /* (optional: as many as the machine has) */
} tl_image_folder_args;

/* A folder without a class, or without any image at all, is TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_image_folder_list(tl_image_folder *out, tl_arena *arena,
                                                   const tl_image_folder_args *args);
/* A line for each thing that should be told of the folder, each with a newline; nothing when all is
 * well. */
TL_API void tl_image_folder_notes(tl_str *out, const tl_image_folder *f);

/* --- lists of classes ------------------------------------------------------------------------- */

/* Names of classes, one a line in the order of their numbers, as `PREFIX.classes.txt` beside
 * records has them. Empty lines, and a name that comes twice, are TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_class_list_read(tl_strings *out, tl_arena *arena,
                                                 const char *path);
TL_API TL_NODISCARD tl_status tl_class_list_write(const char *path, tl_strings names);
/* Whether a path is that of such a list, or of a vocabulary that lies beside records in the same
 * way: patterns for records pass it over. */
TL_API bool tl_class_list_is(const char *path);
/* Where the list beside a file of records lies. NULL: no memory. */
TL_API char *tl_class_list_path(tl_arena *arena, const char *records);
/* The same of another file: PREFIX.vocab.txt for "vocab.txt". */
TL_API char *tl_record_companion(tl_arena *arena, const char *records, const char *name);
/* The list beside files of records: PREFIX.classes.txt for PREFIX-00000-of-00004, and for a file by
 * itself its name with .classes.txt behind it. Empty when there is none; two lists that differ are
 * TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_class_list_beside(tl_strings *out, tl_arena *arena,
                                                   const char *const *paths, int64_t count);

TL_END

#endif
