/* A step: one batch on one replica, while a task computes it.
 *
 *     static tl_status my_train_step(tl_task *t, tl_step *s)
 *     {
 *         tl_tensor *y = tl_batch_get(s->batch, "label"), *w = tl_batch_weight(s->batch);
 *         tl_tensor *o = tl_step_forward(s, tl_batch_get(s->batch, "image"));
 *         tl_tensor *l = tl_sparse_cross_entropy(s->ctx, y, o);      // one value an example
 *         tl_step_log(s, "worst", tl_max(s->ctx, l, TL_ALL, false)); // read when a writer fires
 *         tl_step_minimize(s, l, w);
 *         return tl_step_metrics(s, y, o, w);
 *     }
 *
 * or written out, as whoever needs the pieces does it:
 *
 *         tl_tensor *loss = tl_task_build_losses(t, s->ctx, &labels, &outputs,
 *                                                tl_step_aux_losses(s));
 *         tl_tensor *scaled = tl_optimizer_scaled_loss(s->optimizer, s->ctx, loss);
 *         tl_tensor *grads[TL_STEP_BLOCKS];
 *         TL_TRY(tl_step_gradients(s, scaled, grads));
 *         tl_optimizer_apply(s->optimizer, s->ctx, grads, NULL);     // unscales, clips, updates
 *         tl_step_log(s, TL_LOSS, loss);
 *
 * The same code runs eagerly and is captured into a program: it only calls ops. What is logged
 * becomes an output of the program, and nobody waits for it.
 *
 * Ownership: the trainer's; a step lasts as long as the call. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_STEP_H
#define TILTH_TRAIN_STEP_H

#include <tilth/data/batch.h>
#include <tilth/nn/metric.h>
#include <tilth/nn/optimizer.h>

TL_BEGIN

typedef struct tl_task tl_task;

/* The name under which a step tells its loss. */
#define TL_LOSS "loss"

enum { TL_STEP_BLOCKS = 64 }; /* blocks of parameters that a model may have in a written-out step */

/* One of the tasks of a step that has several (multitask.h). */
typedef struct tl_step_task {
    const char *name;
    tl_task *task;
    tl_model *model;     /* a part of the step's, or all of it */
    tl_metrics *metrics; /* NULL where nothing is measured */
    tl_metric *loss;     /* as well */
    double weight;
} tl_step_task;

typedef struct tl_step {
    tl_ctx *ctx;
    tl_task *task;
    tl_model *model;
    tl_optimizer *optimizer; /* NULL in validation */
    const tl_batch *batch;
    tl_batch_parts parts; /* tl_step_parts, once it was asked */
    tl_metrics *metrics;
    int64_t replica, replicas;
    tl_tensors *logs;  /* what was told so far */
    tl_tensor *weight; /* of the loss that was told: a float32 scalar; NULL: 1 */
    /* what was minimized, as it was given; NULL: nothing yet. For who looks for examples */
    tl_tensor *losses;
    bool is_split; /* the parts are known */
    bool has_aux;  /* the model's own losses have been asked for */
    const tl_step_task *tasks; /* where it has several; fields of the batch begin with their names */
    int64_t task_count;
} tl_step;

/* The batch as its task splits it (tl_task_class.split_batch), once in a step; by the names of its
 * fields where there is no task. A failure is the context's. */
TL_API const tl_batch_parts *tl_step_parts(tl_step *s);

/* The model's answer, in training mode when the step trains. */
TL_API tl_tensor *tl_step_forward(tl_step *s, tl_tensor *x);
TL_API void tl_step_forward_all(tl_step *s, const tl_tensors *in, tl_tensors *out);

/* Tells a tensor of any shape under a name. */
TL_API void tl_step_log(tl_step *s, const char *name, tl_tensor *t);

/* The model's own losses (regularisers, what layers added) since the last forward pass, as one
 * scalar; NULL when there are none. Who asks adds them; otherwise tl_step_minimize does. */
TL_API tl_tensor *tl_step_aux_losses(tl_step *s);

/* One update that lowers the weighted mean of the losses: one value an example (or token) and
 * weights like them, NULL for all alike; or a scalar that is a mean already. Adds the model's own
 * losses, scales, accumulates, clips and updates, and tells the loss. Sums and weights go
 * separately, so short batches and accumulated ones are exact. */
TL_API void tl_step_minimize(tl_step *s, tl_tensor *losses, tl_tensor *weights);
/* The same without an update: tells the loss alone. For validation. */
TL_API void tl_step_report(tl_step *s, tl_tensor *losses, tl_tensor *weights);

/* The weighted mean of losses, as it is minimized, for steps that do more with it. */
TL_API tl_tensor *tl_step_mean(tl_step *s, tl_tensor *losses, tl_tensor *weights);

/* The step as one of its tasks sees it: its part of the batch, its model and metrics. False when
 * the batch has nothing of it. `batch` must live as long as `out`. */
TL_API bool tl_step_enter(tl_step *out, tl_batch *batch, tl_step *s, int64_t index);
/* Adds to the mean loss of a task, with the weight that the step as it sees it has. */
TL_API void tl_step_tell_loss(const tl_step *s, const tl_step_task *k, tl_tensor *loss);

/* Gradients of a scalar by the blocks of the model, for tl_optimizer_apply. */
TL_API TL_NODISCARD tl_status tl_step_gradients(tl_step *s, tl_tensor *loss,
                                                tl_tensor *grads[TL_STEP_BLOCKS]);

/* Updates the metrics of the step; gives the status of all that the step has computed. */
TL_API TL_NODISCARD tl_status tl_step_metrics(tl_step *s, tl_tensor *y_true, tl_tensor *y_pred,
                                              tl_tensor *weights);

TL_END

#endif
