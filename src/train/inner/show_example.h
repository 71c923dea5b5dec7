/* What is shown of an example where its task says nothing else.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_SHOW_EXAMPLE_H
#define TLI_TRAIN_SHOW_EXAMPLE_H

#include <tilth/train/task.h>

TL_NODISCARD tl_status tli_show_example(const tl_task *t, const tl_batch *batch, int64_t row,
                                        tl_example_view *out);
/* A picture, whatever its normalisation was: the darkest becomes 0, the brightest 255. What is no
 * number is black. */
void tli_pixels_of_floats(uint8_t *out, const float *in, int64_t count);

#endif
