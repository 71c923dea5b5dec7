/* Private to io/coco: COCO's JSON files while they are read. */
#ifndef TLI_IO_COCO_READER_H
#define TLI_IO_COCO_READER_H

#include <tilth/io/coco/annotations.h>

#include "io/json/members.h"

typedef struct tli_coco_reader {
    const char *name; /* of the file */
    bool masks, results;
    tl_coco_set *set;
    tl_coco_image *by_id; /* the images that objects may be in, sorted */
    int64_t image_count;
    /* times that polygons to come may cross columns; runs that are written out are as many as their
     * text is long */
    int64_t runs;
    struct { /* of polygons and runs, used again and again */
        double *items;
        int64_t count, capacity;
    } corners;
    struct {
        int64_t *items;
        int64_t count, capacity;
    } counts;
    struct {
        tl_rle *items;
        int64_t count, capacity;
    } parts;
} tli_coco_reader;

/* The runs that the masks of a text of this size may have. */
int64_t tli_coco_runs(int64_t unconditional, size_t size);
/* Gives back all but the set. */
void tli_coco_reader_deinit(tli_coco_reader *r);

/* A list in a text, of which messages count the characters. */
typedef struct tli_coco_place {
    const char *text;
    size_t begin, end;
} tli_coco_place;

enum { TLI_COCO_IMAGES, TLI_COCO_CATEGORIES, TLI_COCO_ANNOTATIONS, TLI_COCO_LISTS };

/* Images and categories of an annotation file, and where its lists are. */
TL_NODISCARD tl_status tli_coco_read_head(tli_coco_reader *r, tli_coco_place lists[TLI_COCO_LISTS],
                                          const char *text, size_t size);

/* What is done with entry `index` of a list, whose text nobody has looked into. */
typedef tl_status tli_coco_entry_fn(tli_coco_reader *r, const tli_json_members *m, int64_t index);
TL_NODISCARD tl_status tli_coco_each(tli_coco_reader *r, const char *list,
                                     const tli_coco_place *where, tli_coco_entry_fn *read);

/* A whole number, or a real one that is whole. */
TL_NODISCARD tl_status tli_coco_read_id(int64_t *out, const json_t *value, const char *key);
/* The object that an entry describes; without its mask after a failure. */
TL_NODISCARD tl_status tli_coco_read_object(tl_coco_object *out, tli_coco_reader *r,
                                            const json_t *entry);
/* Refuses numbers that are not finite, or so large that areas are not. */
TL_NODISCARD tl_status tli_coco_check_object(const tl_coco_object *o);
/* What is wrong with a mask or with JSON is wrong with the file, whose name is put before it. */
tl_status tli_coco_note(tl_status st, const char *name);

#endif
