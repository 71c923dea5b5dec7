/* Private to tool: the objects of an image, as the records of detection have them.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_DATA_OBJECTS_H
#define TILTH_SRC_TOOL_DATA_OBJECTS_H

#include <tilth/io/coco/rle.h>
#include <tilth/io/tensorflow/example.h>

typedef struct tli_object {
    double box[4]; /* xmin, ymin, xmax, ymax, in pixels */
    int64_t label;
    const char *name; /* of its class; outlives the list */
    int64_t crowd;    /* 0 or 1 */
    double area;      /* in pixels */
    size_t mask_end;  /* where its mask ends in `masks`; they stand one after the other */
} tli_object;

typedef struct tli_objects {
    tli_object *items;
    int64_t count, capacity;
    tl_str masks; /* PNG files */
} tli_objects;

void tli_objects_deinit(tli_objects *o);
/* `mask` (or NULL) becomes a PNG of zeros and ones. */
TL_NODISCARD tl_status tli_objects_add(tli_objects *o, const tli_object *object,
                                       const tl_rle *mask);
/* The features image/object/...; nothing when there are no objects. */
TL_NODISCARD tl_status tli_objects_write(tl_example_writer *w, const tli_objects *o, int64_t height,
                                         int64_t width, bool masks);

#endif
