/* Private to zoo: what the files of SimCLR share.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_SIMCLR_H
#define TILTH_SRC_ZOO_SIMCLR_H

#include <tilth/zoo/simclr.h>

/* How evaluations see images, in the words of image classification. */
TL_NODISCARD tl_status tli_simclr_image_data(tl_image_data_config *out, tl_arena *arena,
                                             const tl_simclr_data_config *data, tl_ints size);
/* How many layers the projection head has. */
int64_t tli_simclr_projections(const tl_simclr_model_config *m);
/* Who evaluates a pre-training needs its supervised head. */
TL_NODISCARD tl_status tli_simclr_require_head(const tl_task *t);
/* tl_task_class.build_inputs and .lacks of both tasks. */
TL_NODISCARD tl_status tli_simclr_inputs(tl_task *t, const tl_data_config *data,
                                         const tl_input_context *input, tl_dataset **out);
TL_NODISCARD tl_status tli_simclr_lacks(const tl_task_config *config, bool trains, bool evaluates,
                                        tl_lacks *into);

#endif
