/* Private to zoo: what readers of images share.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_IMAGE_INPUTS_H
#define TILTH_SRC_ZOO_IMAGE_INPUTS_H

#include <tilth/data/augment.h>
#include <tilth/data/pipeline.h>
#include <tilth/train/task.h>

/* The feature of records that says how their images are encoded, bytes [-1]; it may be empty. */
#define TLI_IMAGE_FORMAT "image/format"
/* Gives the field `image` its shape when the format of the record is "raw": bytes that are pixels
 * already. */
TL_NODISCARD tl_status tli_image_shape_raw(const char *image, tl_sample *s);

/* The feature of records that says which file the picture was; it may be missing. */
#define TLI_IMAGE_FILENAME "image/filename"

typedef enum tli_image_place { TLI_IN_RECORD, TLI_IN_FOLDER, TLI_MADE_UP } tli_image_place;
/* Adds the field TL_BATCH_NAME: the end of its path, where people begin to look, and which record
 * it is where the file has many. */
TL_NODISCARD tl_status tli_image_add_name(tl_sample *s, tli_image_place place);

/* What a policy has that is chosen by its name alone. */
extern const tl_autoaug tli_usual_autoaug;
extern const tl_randaug tli_usual_randaug;

/* Fills in what tl_pipeline_args_read would, for `examples` that `make` makes up. */
TL_NODISCARD tl_status tli_image_read_made_up(tl_pipeline_args *a, const tl_data_config *d,
                                              const tl_input_context *input,
                                              tl_sample_make_fn *make, void *self, int64_t examples,
                                              tl_arena *arena);

#endif
