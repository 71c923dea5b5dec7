/* Objects in images, as COCO's JSON files list them: what is really there, and what was found.
 *
 *     tl_coco_set *truths, *found = NULL;
 *     TL_TRY(tl_coco_read(&truths, "instances_val2017.json", false));
 *     TL_TRY_DONE(st, tl_coco_read_results(&found, "detections.json", truths, false));
 *     printf("%" PRId64 " objects, %" PRId64 " found\n", truths->objects.count,
 *            found->objects.count);
 * done:
 *     tl_coco_set_free(&found);
 *     tl_coco_set_free(&truths);
 *
 * A set can be filled without a file:
 *
 *     TL_TRY(tl_coco_set_new(&truths));
 *     TL_TRY_DONE(st, tl_coco_add_image(truths, &(tl_coco_image){.id = 1}));
 *     TL_TRY_DONE(st, tl_coco_add_category(truths, 3, "car"));
 *     tl_coco_object car = {.image = 1, .category = 3, .box = {10, 10, 40, 40}, .area = 1600};
 *     TL_TRY_DONE(st, tl_coco_add_object(truths, &car));
 *
 * Every file is a stranger's: a value that is missing or of the wrong type, an id that is not
 * there, and a mask that does not fit its image are TL_EDATA with a message that names the file,
 * the entry and the key. What the keys beside those that are read hold does not matter.
 *
 * Ownership: the caller's. Thread word: one thread at a time while it is filled, then immutable. */
#ifndef TILTH_IO_COCO_ANNOTATIONS_H
#define TILTH_IO_COCO_ANNOTATIONS_H

#include <tilth/io/coco/rle.h>

TL_BEGIN

typedef struct tl_coco_image {
    int64_t id;
    int64_t height, width; /* (optional) 0: not known; polygons need them */
    const char *file_name; /* (optional) NULL: not known */
} tl_coco_image;

typedef struct tl_coco_category {
    int64_t id;
    const char *name; /* the id's digits when there was none */
} tl_coco_category;

typedef struct tl_coco_object {
    int64_t image, category; /* ids */
    double box[4];           /* x, y, width, height, in pixels */
    double area;             /* which sizes it counts for */
    double score;            /* of what was found */
    bool crowd;              /* many at once: of what is there */
    tl_rle mask;             /* (optional) */
} tl_coco_object;

/* Lists are in the order of the file. Members are for reading. */
typedef struct tl_coco_set {
    struct {
        tl_coco_image *items;
        int64_t count, capacity;
    } images;
    struct {
        tl_coco_category *items;
        int64_t count, capacity;
    } categories;
    struct {
        tl_coco_object *items;
        int64_t count, capacity;
    } objects;
    tl_arena *arena; /* of names */
    tl_arena_mark empty;
} tl_coco_set;

/* --- filling ---------------------------------------------------------------------------------- */

TL_API TL_NODISCARD tl_status tl_coco_set_new(tl_coco_set **out);
/* NULL is fine. */
TL_API void tl_coco_set_free(tl_coco_set **set);
/* The name is copied. */
TL_API TL_NODISCARD tl_status tl_coco_add_image(tl_coco_set *set, const tl_coco_image *image);
/* `name` NULL: the id's digits. */
TL_API TL_NODISCARD tl_status tl_coco_add_category(tl_coco_set *set, int64_t id, const char *name);
/* The mask becomes the set's, also when this fails. Numbers that are not finite, or so large that
 * areas are not, are TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_coco_add_object(tl_coco_set *set, tl_coco_object *object);
/* Everything out. */
TL_API void tl_coco_clear(tl_coco_set *set);

/* --- files ------------------------------------------------------------------------------------ */

/* A few corners in a wide image make a mask of many runs, and so a small file could take all
 * memory, and hours. So the polygons of a file may cross columns of pixels this often, and so much
 * more often for each byte that the file has; more is TL_ELIMIT, with a message that names the
 * annotation. An object 100 pixels wide takes some 500 bytes, and crosses some 200 times. */
enum {
    TL_COCO_FREE_RUNS = 1 << 22,
    TL_COCO_RUNS_PER_BYTE = 64,
    TL_COCO_MOST_RUNS = 1 << 29, /* however large the file is */
};

/* An annotation file: {"images": [{"id", "height", "width", "file_name"}], "categories": [{"id",
 * "name"}], "annotations": [{"image_id", "category_id", "bbox", "area", "iscrowd",
 * "segmentation"}]}. Names, heights, widths and iscrowd may be missing; an area that is missing is
 * that of the mask, or of the box. With `masks` segmentations are read (polygons, runs as numbers
 * or as text) and must be there; otherwise nobody looks at them. */
TL_API TL_NODISCARD tl_status tl_coco_read(tl_coco_set **out, const char *path, bool masks);
/* A file of results: [{"image_id", "category_id", "score", "bbox", "segmentation"}], for images of
 * `truths`. One of the last two may be missing; a box that is missing is that around the mask, and
 * a mask that is missing is the box. As COCO has it, the area is that of the box where there is
 * one. */
TL_API TL_NODISCARD tl_status tl_coco_read_results(tl_coco_set **out, const char *path,
                                                   const tl_coco_set *truths, bool masks);
/* The same of a text; `name` stands for the file in messages. */
TL_API TL_NODISCARD tl_status tl_coco_parse(tl_coco_set **out, const char *name, const char *text,
                                            size_t size, bool masks);
TL_API TL_NODISCARD tl_status tl_coco_parse_results(tl_coco_set **out, const char *name,
                                                    const char *text, size_t size,
                                                    const tl_coco_set *truths, bool masks);

/* Writes an annotation file, in one step: whoever looks sees the old or the new one. Annotations
 * are numbered from 1 on; masks are texts of runs. Heights, widths and names that are not known are
 * left out. */
TL_API TL_NODISCARD tl_status tl_coco_write(const char *path, const tl_coco_set *set);
/* Writes a file of results, for pycocotools' loadRes or `tilth eval_coco`: boxes, or with `masks`
 * masks, which all objects then have. Not both, because sizes would be those of the boxes then. */
TL_API TL_NODISCARD tl_status tl_coco_write_results(const char *path, const tl_coco_set *found,
                                                    bool masks);

/* --- image by image --------------------------------------------------------------------------- */

/* An annotation file whose objects are read when they are asked for: of a large file, memory holds
 * where each of them stands.
 *
 *     TL_TRY(tl_coco_open(&f, "instances_train2017.json"));
 *     const tl_coco_set *set = tl_coco_file_set(f);
 *     for (int64_t i = 0; i < set->images.count; i++)
 *         for (int64_t k = 0; k < tl_coco_file_count(f, i); k++) {
 *             TL_TRY_DONE(st, tl_coco_file_object(&o, f, i, k, true));
 *             ...
 *             tl_rle_deinit(&o.mask);
 *         }
 * done:
 *     tl_coco_close(&f);
 *
 * Thread word: immutable. */
typedef struct tl_coco_file tl_coco_file;

TL_API TL_NODISCARD tl_status tl_coco_open(tl_coco_file **out, const char *path);
/* NULL is fine. */
TL_API void tl_coco_close(tl_coco_file **f);
/* Images and categories; no objects. */
TL_API const tl_coco_set *tl_coco_file_set(const tl_coco_file *f);
/* Objects of image `image` of the set's list; of -1, those of images that are not in the list. */
TL_API int64_t tl_coco_file_count(const tl_coco_file *f, int64_t image);
/* Object `index` of that image, in the order of the file. The mask is the caller's, to be given
 * back; after a failure there is none. */
TL_API TL_NODISCARD tl_status tl_coco_file_object(tl_coco_object *out, const tl_coco_file *f,
                                                  int64_t image, int64_t index, bool masks);

TL_END

#endif
