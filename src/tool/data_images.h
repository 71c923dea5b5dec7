/* Private to tool: what many images have in common, told by `tilth data`. Thread word: one thread
 * at a time. */
#ifndef TILTH_SRC_TOOL_DATA_IMAGES_H
#define TILTH_SRC_TOOL_DATA_IMAGES_H

#include <tilth/base/pool.h>
#include <tilth/data/image_folder.h>
#include <tilth/io/image/image.h>

#include "io/inner/json_text.h"

typedef struct tli_sides {
    int64_t *items, count, capacity;
} tli_sides;

typedef struct tli_image_facts {
    tli_sides heights, widths; /* upright */
    int64_t channels[5];       /* images that have so many */
    int64_t turned;            /* by their EXIF orientation */
    struct {
        tl_bad_image *items;
        int64_t count, capacity;
    } bad;
} tli_image_facts;

void tli_image_facts_deinit(tli_image_facts *f);
TL_NODISCARD tl_status tli_image_facts_add(tli_image_facts *f, const tl_image_head *head);
/* All images of a folder that was listed with `check`. */
TL_NODISCARD tl_status tli_image_facts_of(tli_image_facts *f, const tl_image_folder *folder);
/* Lines for people; nothing without images. */
void tli_image_facts_tell(tl_str *out, tli_image_facts *f);
/* Members "height", "width", "channels", "turned" and "corrupt" of an object. */
void tli_image_facts_json(tli_json *j, tli_image_facts *f);
/* TL_EIO with those that cannot be read, the first of them by name. */
TL_NODISCARD tl_status tli_image_facts_fail(const tli_image_facts *f, const char *path);

/* Encoded images that are decoded side by side. */
typedef struct tli_encoded {
    const void *data;
    size_t size;
    const char *name; /* for those that cannot be decoded */
    tl_image_head head;
    char *why; /* NULL: all is well */
} tli_encoded;
/* Decodes them, and adds them to what is known. Names must outlive it. */
TL_NODISCARD tl_status tli_image_facts_decode(tli_image_facts *f, tli_encoded *images,
                                              int64_t count, tl_pool *pool, tl_arena *arena);

#endif
