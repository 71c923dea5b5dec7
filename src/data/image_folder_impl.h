/* Folders of images from inside. Thread word: one thread at a time. */
#ifndef TLI_DATA_IMAGE_FOLDER_IMPL_H
#define TLI_DATA_IMAGE_FOLDER_IMPL_H

#include <tilth/data/image_folder.h>

typedef struct tli_image_files {
    tl_image_file *items; /* sorted by class */
    int64_t count, capacity;
} tli_image_files;

/* Reads all files: hashes, and with `check` sizes. Those that cannot be read leave the list for
 * out->bad, or are the failure. */
TL_NODISCARD tl_status tli_image_files_read(tli_image_files *files, tl_image_folder *out,
                                            tl_arena *arena, const tl_image_folder_args *args);
/* Leaves the files of one part. */
void tli_image_files_split(tli_image_files *files, const tl_image_folder_args *args);

#endif
