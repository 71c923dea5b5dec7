/* Private to train: the stages of a progressive training.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_PROGRESSIVE_H
#define TLI_TRAIN_PROGRESSIVE_H

#include <tilth/train/progressive/progressive.h>
#include <tilth/io/checkpoint/manager.h>

/* A stage that a configuration describes. */
typedef struct tli_stage {
    tl_config *config; /* of the experiment as it is in this stage */
    const tl_experiment_config *params;
    tl_task *task;
} tli_stage;

typedef struct tli_stages {
    const tl_progressive_policy *policy; /* NULL: the training has no stages */
    tli_stage *items;                    /* NULL: the task's policy says what they are */
    int64_t count;
    int64_t stage;
    /* plain checkpoints of this stage; NULL: none yet */
    tl_checkpoint_manager *exports;
    tl_state *exported;
    tl_str folder; /* of the run; "": nothing is exported */
} tli_stages;

void tli_stages_deinit(tli_stages *s);
/* The policy of a configuration (staged.c). */
extern const tl_progressive_policy tli_staged_policy;
/* The experiment as it is in each of its stages, with a task for each. */
TL_NODISCARD tl_status tli_stages_open(tl_trainer *t, const tl_progressive_config *config);
void tli_stages_close(tli_stages *s);

#endif
