/* Private to vision: the experiment `images` that begins with weights of another run of ours.
 *
 *     tli_earlier_run run;
 *     TL_TRY(tli_earlier_run_find(&run, arena, "runs/shapes"));
 *     if (run.task) TL_TRY(tli_earlier_run_choose(config, &run));
 *
 * Thread word: one thread at a time. */
#ifndef TLI_ZOO_VISION_IMAGE_TUNING_H
#define TLI_ZOO_VISION_IMAGE_TUNING_H

#include <tilth/desc/config.h>
#include <tilth/train/experiment.h>

typedef struct tli_earlier_run {
    const tl_value *task; /* that of its file; NULL: it is no run with a backbone */
    const tl_value *data; /* how it knows images: a map with mean and stddev; NULL: as ImageNet's */
    bool plain;           /* it knows them from 0 to 1 */
    const char *file;
} tli_earlier_run;

/* Looks for params.yaml, or config.yaml of an exported model, beside the weights that `path` means
 * (a folder, or a checkpoint in one), and above them. */
TL_NODISCARD tl_status tli_earlier_run_find(tli_earlier_run *out, tl_arena *arena,
                                            const char *path);
/* Model and images become as that run has them, where nobody has said another thing; the head is
 * taken if it knows the same `classes`. */
TL_NODISCARD tl_status tli_earlier_run_choose(tl_config *config, const tli_earlier_run *run,
                                              tl_strings classes);

#endif
