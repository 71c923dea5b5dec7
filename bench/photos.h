/* Photos that are made up: smooth noise in JPEG files of about 500 x 375 pixels.
 *
 *     TL_TRY(photos_write(folder, 1024, 1000));    // input_path: FOLDER/photos-*
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_PHOTOS_H
#define TILTH_BENCH_PHOTOS_H

#include <tilth/base/status.h>

/* FOLDER/photos-0000?-of-00004, TFRecords as ImageNet has them, and each photo as a file beside
 * them. */
TL_NODISCARD tl_status photos_write(const char *folder, int64_t count, int64_t classes);

#endif
