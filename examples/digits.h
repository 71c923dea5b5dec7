/* What most examples of this folder train: a task that reads digits in small noisy pictures, and an
 * experiment with it. Nothing is downloaded; the pictures are drawn when the data is asked for.
 *
 *     tl_registry_add(registry, &digits_module);             // then: --experiment=example/digits
 *
 * A batch has "image" [n, 8, 8, 1], from 0 to 1, and "label" [n]. With
 * task.allow_image_summary=true, evaluations also tell which picture was read worst:
 * "image/hardest", and "hardest/loss". */
#ifndef TILTH_EXAMPLES_DIGITS_H
#define TILTH_EXAMPLES_DIGITS_H

#include <tilth/tilth.h>

enum { DIGIT_SIDE = 8, DIGIT_PIXELS = DIGIT_SIDE * DIGIT_SIDE };

typedef struct digits_config {
    tl_task_config base;
    int64_t num_classes;
} digits_config;

/* What tasks that derive from digits_task begin with. */
typedef struct digits {
    tl_task base;
    tl_tensor *hardest; /* the picture that was read worst in this evaluation, [8, 8, 1] */
    double hardest_loss;
} digits;

extern const tl_desc digits_desc;
extern const tl_task_class digits_task;
extern const tl_experiment_class digits_experiment;
extern const tl_module digits_module;

#endif
