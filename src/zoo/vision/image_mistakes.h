/* Private to zoo: which classes were taken for which in an evaluation, and the worst mistakes with
 * their names.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_ZOO_IMAGE_MISTAKES_H
#define TILTH_SRC_ZOO_IMAGE_MISTAKES_H

#include <tilth/train/task.h>

/* In the step: logs what tli_mistakes_keep reads. */
TL_NODISCARD tl_status tli_mistakes_step(tl_step *s, tl_tensor *labels, tl_tensor *logits);
/* Counts the answers of a step, and keeps the `most` wrong ones with the highest probabilities.
 * Examples of weight 0 fill up a batch, and are none. */
TL_NODISCARD tl_status tli_mistakes_keep(void **state, const tl_logs *step, int64_t num_classes,
                                         int64_t most);
/* Texts for people: "confusion_table" and, when there were any, "worst_mistakes". `names` of the
 * classes, or none. */
TL_NODISCARD tl_status tli_mistakes_tell(const void *state, tl_strings names, tl_logs *into);
void tli_mistakes_free(void *state);

#endif
