/* What the records of detection say is in their images, as a COCO set: the ground truth of an
 * evaluation, and Model Garden's annotation.json.
 *
 *     tl_coco_set *truths;
 *     tl_coco_records_args args = {.paths = paths, .masks = true};
 *     TL_TRY(tl_coco_from_records(&truths, &args));
 *     st = tl_coco_write("annotation.json", truths);
 *     tl_coco_set_free(&truths);
 *
 * Records are tf.train.Example with image/encoded, image/source_id, image/object/bbox/ymin and so
 * on, image/object/class/label and, where they have them, image/height, image/width,
 * image/object/area, image/object/is_crowd, image/object/class/text and image/object/mask.
 * Categories are those that occur, in the order of their ids.
 *
 * Ownership: the set is the caller's. Thread word: free-threaded. */
#ifndef TILTH_IO_COCO_RECORDS_H
#define TILTH_IO_COCO_RECORDS_H

#include <tilth/desc/desc.h>
#include <tilth/io/coco/annotations.h>

TL_BEGIN

typedef struct tl_coco_records_args {
    tl_strings paths;   /* TFRecord files */
    int64_t examples;   /* (optional: all) the first so many */
    bool masks;         /* all objects have one then */
    bool regenerate_id; /* ids are those that `make_id` gives, whatever image/source_id says */
    /* (optional) The id of an image whose image/source_id is empty, from its encoded bytes; without
     * it such an image is an error. */
    int64_t (*make_id)(const void *data, size_t size);
} tl_coco_records_args;

/* TL_EDATA, with the file and the record's number, for what is no such record. */
TL_API TL_NODISCARD tl_status tl_coco_from_records(tl_coco_set **out,
                                                   const tl_coco_records_args *args);
/* Adds one record's image and objects, and categories that are new, to a set whose categories are
 * in the order of their ids. */
TL_API TL_NODISCARD tl_status tl_coco_add_example(tl_coco_set *set, const void *data, size_t size,
                                                  const tl_coco_records_args *args);

TL_END

#endif
