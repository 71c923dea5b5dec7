/* Private to zoo: a look at images before they are trained with: how many, of which classes, how
 * large, in colour or not.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_ZOO_IMAGE_SURVEY_H
#define TILTH_SRC_ZOO_IMAGE_SURVEY_H

#include <tilth/zoo/vision.h>

enum { TLI_SURVEY_LOOKS = 256 /* images that are decoded, from all over the data */ };

typedef struct tli_survey {
    tl_strings classes; /* their names; empty: they have numbers alone */
    int64_t class_count;
    const int64_t *counts; /* examples of each class */
    int64_t count, looked; /* of examples, and of those that were decoded */
    int64_t bad;           /* of those that should have been */
    bool one_size;
    /* of pixels in files that are no images; else 1 when all images are grey, 3 otherwise */
    int64_t channels;
    int64_t height, width;     /* of all, when one_size */
    int64_t small, middle;     /* shorter sides: a tenth of the images are smaller, a half */
    double mean[3], stddev[3]; /* of bytes; unless there are 3 channels they are the same */
} tli_survey;

/* What kind of data a path is: a folder with one for each class, a pair of idx files, else
 * TFRecords. */
TL_NODISCARD tl_status tli_survey_file_type(tl_image_files *out, tl_arena *arena,
                                            const tl_value *path);

/* Looks at the data of a configuration whose file_type is set. `names` of the classes, where they
 * are given; otherwise the data says them. Names and counts lie in the arena. */
TL_NODISCARD tl_status tli_survey_take(tli_survey *out, tl_arena *arena,
                                       const tl_image_data_config *data, tl_image_files file_type,
                                       const tl_value *path, tl_strings names);

#endif
