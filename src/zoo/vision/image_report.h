/* Private to zoo: images that were misclassified in an evaluation, for summaries.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_ZOO_IMAGE_REPORT_H
#define TILTH_SRC_ZOO_IMAGE_REPORT_H

#include <tilth/train/task.h>

/* In the step: logs what tli_report_keep reads. */
TL_NODISCARD tl_status tli_report_step(tl_step *s, tl_tensor *labels, tl_tensor *logits);
/* Takes out the first images that were given a wrong class, up to a few. Examples of weight 0 fill
 * up a batch, and are none. */
TL_NODISCARD tl_status tli_report_keep(void **state, const tl_logs *step);
/* "image/misclassified": a batch of them; "misclassified": what each is, and what it was taken for.
 * `names` of the classes, or none. */
TL_NODISCARD tl_status tli_report_tell(tl_engine *engine, void *state, tl_strings names,
                                       tl_logs *into);
void tli_report_free(void *state);

#endif
