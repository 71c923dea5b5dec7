/* Private to train: the controller's inside.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_CONTROLLER_H
#define TLI_TRAIN_CONTROLLER_H

#include <tilth/train/controller/controller.h>

#include "train/peers.h"

enum { TLI_REASON = 200 };

/* A name under which steps log a number, and where it goes. */
typedef struct tli_told {
    const char *name;
    tl_event_scalar *scalar;
} tli_told;

struct tl_controller {
    tl_controller_args given;
    tl_trainer *trainer, *evaluator;
    tli_peers *peers; /* borrowed: of a run of several processes; NULL: there are none */
    tl_checkpoint_manager *manager;
    tl_summary_manager *summaries, *eval_summaries; /* NULL: none */
    tl_summary_manager *own_summaries, *own_eval_summaries;
    tl_arena *arena;
    tl_hook **hooks;
    int64_t hook_count;
    /* those that save at steps, also where the chief alone has them: all come by there */
    tl_hook **savers;
    int64_t saver_count;
    tl_event_storage *storage;
    int64_t evaluated;       /* the last step that was; in checkpoints */
    bool evaluation_unsaved; /* no checkpoint knows of it yet */
    int64_t told_saved;      /* the step whose checkpoint was told last */
    tl_str restored;         /* the file that was, to evaluate it */
    /* the one that was there then, which could not be used when it is another; "": unknown */
    tl_str newest;
    /* While it trains: */
    tl_trainer_watch watch;
    int64_t last_step;            /* where the training ends */
    int64_t loop_begin, loop_end; /* where this loop began, and ends */
    /* where a loop that was begun ends, 0: none was; in checkpoints with steps_of_loop */
    int64_t open_end;
    bool left; /* the loop was left before its end */
    bool summaries_open;
    bool saving; /* a checkpoint is being written in the background, and not told yet */
    /* the step at which something is due, but for looking whether it is there */
    int64_t due;
    /* the step at which saving is tried again after a failure; 0: there was none */
    int64_t again_at;
    bool bound;             /* the trainer's state holds what is ours */
    bool in_step;           /* hooks are being called after a step */
    bool save_at_end;       /* one of them wants a checkpoint when the loop is told */
    bool steps_watched;     /* some hook is called at steps */
    bool summaries_watched; /* some hook is called with summaries */
    struct {
        tli_told *items;
        int64_t count, capacity;
    } told;        /* what steps log, by its place */
    double away_s; /* spent in saving and hooks since the loop began */
    double steps_per_second;
    char reason[TLI_REASON];
    int stop; /* someone asked; atomic */
};

/* Prints a line and logs it. */
void tli_controller_say(const tl_controller *c, const char *format, ...) TL_PRINTF(2, 3);
/* What one of its methods came back with: a failure to write that the run shall survive is TL_OK
 * then, if the class of the hook says that it writes; others are handed on with its name. */
TL_NODISCARD tl_status tli_hook_settle(const tl_hook *h, tl_status st);
/* One phase of all hooks. */
TL_NODISCARD tl_status tli_hooks_before_train(tl_controller *c);
TL_NODISCARD tl_status tli_hooks_after_train(tl_controller *c, tl_status so_far);
TL_NODISCARD tl_status tli_hooks_after_loop(tl_controller *c, tl_logs *logs);
TL_NODISCARD tl_status tli_hooks_before_eval(tl_controller *c);
TL_NODISCARD tl_status tli_hooks_after_eval(tl_controller *c, tl_logs *logs);
TL_NODISCARD tl_status tli_hooks_on_summary(tl_controller *c, const tl_logs *logs);
TL_NODISCARD tl_status tli_hooks_on_error(tl_controller *c, tl_status status, bool *handled);
/* Saves when it is due, or whenever it is not saved. When an earlier checkpoint has failed in the
 * background and that is not forgiven, the failure is handed on after the state was saved, due or
 * not: the training ends with it. */
TL_NODISCARD tl_status tli_controller_save(tl_controller *c, bool check_interval, bool *saved);
/* Says which checkpoint is there now, and tells hooks. `wait`: for one that is being written. */
TL_NODISCARD tl_status tli_controller_tell_saved(tl_controller *c, bool wait);
/* Opens the files of summaries, before the first of them is written. */
TL_NODISCARD tl_status tli_controller_open_summaries(tl_controller *c);
/* Whether the step that was not finite is the first one after a checkpoint of ours, and cannot
 * blame its batch. */
bool tli_controller_leads_nowhere(const tl_controller *c);
/* Sets the latest checkpoint aside; the one before it is the latest then. Both names are added. */
TL_NODISCARD tl_status tli_controller_give_up_latest(tl_str *given_up, tl_str *aside,
                                                     tl_controller *c);
/* The training has blown up (TL_ENAN, which it hands on): a checkpoint of ours that led straight to
 * it is set aside, and the message says how to go on. */
TL_NODISCARD tl_status tli_controller_blown_up(tl_controller *c);
/* A failure to write that the run shall survive is told as an error, and TL_OK; others are handed
 * on. */
TL_NODISCARD tl_status tli_controller_forgive(const tl_controller *c, tl_status st);
/* Whether the run is to end: a signal, or someone asked. Of several processes, all know it. */
bool tli_controller_stopping(const tl_controller *c);
/* The signal that ends it, 0: none does. */
int tli_controller_signal(const tl_controller *c);
/* tli_signals_begin; the chief answers for all. */
void tli_controller_heed(const tl_controller *c, const char *answer);
/* Whether this process leaves the writing to the chief. */
bool tli_controller_follows(const tl_controller *c);
/* Whether a hook writes, which only the chief lets it. */
bool tli_hook_writes(const tl_hook *h);
/* Where a checkpoint is due by its interval: processes that hold the same compare what they hold,
 * before it is kept. */
TL_NODISCARD tl_status tli_controller_compare(const tl_controller *c);
/* The same, whether or not one is due. */
TL_NODISCARD tl_status tli_controller_compare_now(const tl_controller *c);
/* Whether one may be due at this step: by its interval, by time, or for a hook that saves. */
bool tli_controller_may_save(const tl_controller *c);
/* Whether processes have the optimizer's state in parts; then within a loop the chief says whether
 * a checkpoint is due, or was asked for, all bring their parts, and it is saved. At the end of a
 * loop they are there anyway. */
bool tli_controller_is_apart(const tl_controller *c);
TL_NODISCARD tl_status tli_controller_save_apart(tl_controller *c);
/* Whether all processes write checkpoints, each some of the files. They save where all come by:
 * here, where the chief says whether one is due, or was asked for since. */
bool tli_controller_is_together(const tl_controller *c);
TL_NODISCARD tl_status tli_controller_save_together(tl_controller *c, bool check_interval);
/* All finish what was begun: at once, or when all have written, as far as they have heard. */
TL_NODISCARD tl_status tli_controller_finish_save(tl_controller *c, bool wait);
TL_NODISCARD tl_status tli_controller_require(const void *what, const char *name,
                                              const char *method);

#endif
