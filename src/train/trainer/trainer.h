/* Private to train: what a trainer has beside its public members.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_TRAINER_H
#define TLI_TRAIN_TRAINER_H

#include <tilth/train/trainer/trainer.h>
#include <tilth/sys/graph/graph.h>

#include "train/multitask/multitask.h"
#include "train/progressive/progressive.h"
#include "train/trainer/flight.h"
#include "train/trainer/guard.h"
#include "train/trainer/lanes.h"

/* What people call the size of a batch, the number of batches that make a step, and recomputing. */
typedef struct tli_batch_keys {
    const char *size, *accumulation, *recompute;
} tli_batch_keys;
extern const tli_batch_keys tli_own_keys, tli_libai_keys;

/* Of a step for which weights are brought (weights.c). */
typedef struct tli_weights {
    int64_t rounds; /* that are left */
    bool held;      /* all of them */
} tli_weights;

struct tl_trainer_parts {
    tl_function *train, *apply, *eval; /* NULL: eager */
    tl_optimize optimize;              /* how they are optimised */
    int64_t accumulation;              /* batches of a lane's step */
    int64_t batches;                   /* of a step, those of all lanes of this process */
    bool sums;                         /* a step is the sum of batches, applied by a program */
    tli_batch_keys keys;
    tli_lanes lanes;      /* of training */
    tli_lanes eval_lanes; /* and of evaluations, with what they keep */
    tli_guard eval_guard;
    bool trains, evaluates;
    /* a step was left, and what its batches have added is not taken back yet */
    bool unfinished;
    bool bad_batch;  /* the last step was not finite because its batch is not */
    bool told_loss;  /* validation steps did, in this evaluation */
    int64_t lane;    /* whose batch is evaluated */
    bool no_rows;    /* and that it has no examples left, while others have */
    tl_state *state; /* NULL: to be made anew */
    tl_trainer_watch *watch;
    tl_status watched; /* what the watch has found */
    /* The scope of the last training step, which stays open until the next one, so that what it
     * logged can be read. */
    bool open;
    tl_mark mark;
    tl_tensors in, out;
    /* Where the training data stood when the loop began, and how many batches were taken since. */
    tl_state *position, *position_then;
    int64_t taken;
    tli_flight flight;     /* steps that nobody has looked at yet */
    tli_guard guard;       /* of what a step that comes to nothing leaves as it was */
    tli_subjects subjects; /* tasks that are trained or evaluated one by one; mostly none */
    tli_stages stages;     /* mostly none */
    tli_weights weights;
};

/* The nearest class up the chain that fills a method, the base at last. */
#define TLI_TRAINER_CALL(t, method)                                                                \
    TL_CLASS_METHOD_OR(tl_trainer_class, (t)->cls, method, tl_base_trainer)

/* The task's train_step, or that of one of several tasks. */
TL_NODISCARD tl_status tli_trainer_run_step(tl_trainer *t, tl_step *s);
/* Puts averaged weights in for an evaluation, where there are some that mean something. */
TL_NODISCARD tl_status tli_trainer_take_averages(tl_trainer *t);
/* The best checkpoint, when these are the best results. */
TL_NODISCARD tl_status tli_trainer_export_best(tl_trainer *t, tl_logs *logs);
/* What the device of the trainer has chosen, for checkpoints; and what was chosen in one. */
TL_NODISCARD tl_status tli_trainer_choices(void *trainer, tl_str *out);
TL_NODISCARD tl_status tli_trainer_choose(void *trainer, const char *text);
/* Of a checkpoint's tensor: what a process has of it; false: all of it. */
bool tli_trainer_part(void *trainer, const tl_tensor *t, int32_t rank, int64_t *from, int64_t *end);
/* A checkpoint with this in it is going to be restored. */
TL_NODISCARD tl_status tli_trainer_before_restore(tl_trainer *t, const tl_state *found);
/* What an evaluation in several lanes keeps for its metrics, unless it has that already; nothing
 * for one lane. */
TL_NODISCARD tl_status tli_trainer_lanes_of_metrics(tl_trainer *t, tli_lanes *lanes,
                                                    tli_guard *guard, const tl_metrics *metrics,
                                                    const tl_metric *loss);
/* What tilth.zero says, before steps: nothing more is done when it was. */
TL_NODISCARD tl_status tli_trainer_share_out(const tl_trainer *t);
/* Where weights lie apart, else nothing: around the batches of a step, the first of which is there
 * (`at_once`: all weights are needed for all of them); around the program of one of them (`reads`,
 * NULL: nothing is brought for it); and for a batch that is not there. Calls of all processes. */
TL_NODISCARD tl_status tli_weights_begin(tl_trainer *t, bool at_once);
TL_NODISCARD tl_status tli_weights_take(tl_trainer *t, tl_ctx *c, const tl_tensors *in,
                                        tl_program **reads);
void tli_weights_leave(tl_trainer *t, tl_program *reads);
TL_NODISCARD tl_status tli_weights_pass(tl_trainer *t);
TL_NODISCARD tl_status tli_weights_end(tl_trainer *t);
/* A dataset as the trainer takes batches from it: this process's, on the device. Each lane has
 * `batches` of a step. It is gone after a failure. */
TL_NODISCARD tl_status tli_trainer_feed(tl_trainer *t, tl_dataset **dataset, int64_t batches);
/* Where a batch of a step is: the n-th that this process takes. */
tl_draws tli_trainer_draws(const tl_trainer *t, int64_t batch);
/* Drops what the last training step logged. */
void tli_trainer_close_step(tl_trainer *t);

/* Bytes of memory that batches and what becomes of them lie in: the device's, or the host's. */
double tli_batch_memory(const tl_engine *engine);
/* Refuses a batch of which the inputs and the greatest result of a layer are more than the `there`
 * bytes of memory: it certainly cannot be trained with. */
TL_NODISCARD tl_status tli_check_batch_memory(const tl_model *m, tli_batch_keys keys, int64_t batch,
                                              double there);
/* The status of a step; where memory lacks, the message says what needs less. */
tl_status tli_step_status(const tl_trainer *t, tl_status st);
/* What reading data came back with: that a file is damaged, or holds something else, is no mistake
 * in the configuration, and TL_EDATA. `which`: "training", "validation". */
TL_NODISCARD tl_status tli_data_failed(tl_status st, const char *which);
/* Makes the first batch of each dataset, to see whether it can be; they are left as they were. */
TL_NODISCARD tl_status tli_trainer_try_data(tl_trainer *t);
/* The same at the place from which a restored training goes on to step `end`: other files may lie
 * there by now. */
TL_NODISCARD tl_status tli_trainer_try_place(tl_trainer *t, int64_t end);

/* Says where the numbers of the step behind global_step, which were not finite, came from: TL_ENAN.
 * Puts the training data back to where the step began. */
TL_NODISCARD tl_status tli_trainer_diagnose(tl_trainer *t, double loss, double norm);
/* Puts the training data to where the loop has taken so many batches. */
TL_NODISCARD tl_status tli_trainer_return_data(tl_trainer *t, int64_t taken);
/* After a step that failed: whoever saves or restores then finds the state of the last good one.
 * The error stays. */
void tli_trainer_leave_step(tl_trainer *t);

/* The base's methods, by file. */
TL_NODISCARD tl_status tli_train(tl_trainer *t, int64_t steps, tl_logs *logs);
TL_NODISCARD tl_status tli_train_loop_begin(tl_trainer *t);
TL_NODISCARD tl_status tli_next_train_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch,
                                             bool *more);
TL_NODISCARD tl_status tli_train_step(tl_trainer *t);
TL_NODISCARD tl_status tli_train_loop_end(tl_trainer *t, tl_logs *logs);
TL_NODISCARD tl_status tli_evaluate(tl_trainer *t, int64_t steps, tl_logs *logs);
TL_NODISCARD tl_status tli_eval_begin(tl_trainer *t, void **state);
TL_NODISCARD tl_status tli_next_eval_inputs(tl_trainer *t, tl_ctx *c, tl_tensors *batch,
                                            tl_logs *passthrough, bool *more);
TL_NODISCARD tl_status tli_eval_step(tl_trainer *t, tl_logs *logs, bool *more);
TL_NODISCARD tl_status tli_eval_reduce(tl_trainer *t, void **state, const tl_logs *step);
TL_NODISCARD tl_status tli_eval_end(tl_trainer *t, void *state, tl_logs *logs);
void tli_eval_leave(tl_trainer *t, void *state);

/* The bodies of the programs. */
tl_graph_fn tli_train_body, tli_apply_body, tli_eval_body;

#endif
