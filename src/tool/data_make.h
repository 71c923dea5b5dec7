/* Private to tool: records made of many images, each by itself, side by side and a few at a time,
 * so that memory holds no more than these few.
 *
 *     static tl_status make(tl_str *example, int64_t index, void *payload) ...
 *
 *     tli_making m = {.run = run, .given = given, .count = images, .make = make, .payload = &mine};
 *     TL_TRY(tli_make_records(&m));
 *
 * Images of which no record can be made are named. Then nothing is written, unless --skip_bad
 * leaves them out.
 *
 * Thread word: one thread at a time; `make` runs on several. */
#ifndef TILTH_SRC_TOOL_DATA_MAKE_H
#define TILTH_SRC_TOOL_DATA_MAKE_H

#include <tilth/io/tensorflow/example.h>

#include "tool/data.h"

/* Appends the example of image `index`. A failure of any kind but TL_ENOMEM is a bad image; the
 * message names it. */
typedef tl_status tli_make_fn(tl_str *example, int64_t index, void *payload);

typedef struct tli_making {
    tli_run *run;
    const tli_data_flags *given;
    int64_t count;
    tli_make_fn *make;
    void *payload;
} tli_making;

/* Refuses what would replace files without --overwrite, before anything is read. */
TL_NODISCARD tl_status tli_make_check(const tli_making *m);
TL_NODISCARD tl_status tli_make_records(const tli_making *m);

/* An image in a file, decoded once to know that it can be. */
typedef struct tli_picture_file {
    tl_file_mapping file;
    tl_image_head head; /* of the file, not turned */
} tli_picture_file;
/* Maps and decodes the file; messages name it. To be given back also after a failure. */
TL_NODISCARD tl_status tli_picture_file_open(tli_picture_file *out, const char *path);
void tli_picture_file_close(tli_picture_file *p);
/* The features that all records of images have: image/encoded, image/height, image/width,
 * image/format, image/filename, image/source_id and image/key/sha256. */
void tli_picture_file_add(tl_example_writer *w, const tli_picture_file *p, const char *name,
                          const char *source_id);

#endif
