/* A training as the library's trainer makes it, for measuring its steps.
 *
 *     training t = {.steps = 1};
 *     st = training_make(&t, &(training_args){.experiment = "retinanet", .data = data, ...});
 *     if (st == TL_OK) st = bench_run(b, &(bench_case){.ours = training_run, .payload = &t, ...});
 *     training_deinit(&t);
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_TRAINING_H
#define TILTH_BENCH_TRAINING_H

#include <tilth/tilth.h>

typedef struct training {
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    tl_logs *logs;
    int64_t steps; /* of one call of training_run */
} training;

/* An experiment on one device, fed with batches of the caller's. */
typedef struct training_args {
    const char *experiment;
    const char *changes; /* YAML */
    int64_t batch_size;  /* as the data have it */
    bool half;           /* computes in bfloat16, else in float32 */
    tl_dataset *data;    /* taken over, also when this fails; or NULL, and */
    /* what lies on the device; or NULL: the experiment's own data */
    tl_status (*make)(tl_dataset **out, tl_engine *engine);
} training_args;
/* A `make` of pictures of 224 by 224: one batch on the device, over and over, as peers have it. */
enum { TRAINING_IMAGES = 256, TRAINING_CLASSES = 1001 };
TL_NODISCARD tl_status training_make_images(tl_dataset **out, tl_engine *engine);

/* To be undone by training_deinit in any case. */
TL_NODISCARD tl_status training_make(training *t, const training_args *args);
/* A ResNet-50 of those pictures in half precision, by SGD. */
TL_NODISCARD tl_status training_make_resnet50(training *t);

/* Of a `training`. Times of one that fails would mean nothing: it ends the process. */
void training_run(void *payload);
/* TILTH_STEP=report shows a table of the step's kernels, =graph its calls as well. */
void training_show(training *t);
/* One that was made in part is fine. */
void training_deinit(training *t);

#endif
