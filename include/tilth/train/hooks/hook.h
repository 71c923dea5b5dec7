/* Hooks: what else happens during training. Model Garden's actions and LiBai's hooks are one thing
 * here: an action is a hook with after_loop or after_eval.
 *
 *     typedef struct info { tl_hook base; } info;
 *     static tl_status after_step(tl_hook *h)
 *     {
 *         TL_LOG_INFO("iteration %" PRId64 "!", tl_controller_step(h->controller));
 *         return TL_OK;
 *     }
 *     static const tl_hook_class info_class = {
 *         .cls = TL_CLASS(tl_hook_class, "info", NULL, info, NULL), .after_step = after_step};
 *
 *     tl_hook *h;
 *     TL_TRY(tl_hook_new(&h, &info_class, &(tl_hook_args){.period = 100}));
 *
 * Hooks run in the order in which they are given, in every phase. `before_step` and `after_step`
 * are called when the step is a multiple of the hook's period, the others always; the loop comes
 * back to the host only where something is due. A hook that fails ends the training (but see
 * tl_hook_files); one that has seen enough asks for it with tl_controller_request_stop, which is
 * honoured after the step.
 *
 * A hook that derives from one that is here begins with its struct (tl_best_checkpointer_hook makes
 * objects of tl_best_checkpointer_instance), and takes its config; with a `start` of its own, it
 * calls that of the base:
 *
 *     typedef struct my_best { tl_best_checkpointer_instance base; int64_t mine; } my_best;
 *     static tl_status my_start(tl_hook *h, const void *config)
 *     {
 *         ((my_best *)h)->mine = 3;
 *         return tl_best_checkpointer_hook.start(h, config);
 *     }
 *     static const tl_hook_class my_class = {
 *         .cls = TL_CLASS(tl_hook_class, "my_best", &tl_best_checkpointer_hook.cls, my_best, NULL),
 *         .start = my_start};
 *
 * What a hook has bound in `state` is in checkpoints, below hooks/NAME, and is there again after a
 * resume.
 *
 * Ownership: the caller's, as long as the controller lives. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_HOOK_H
#define TILTH_TRAIN_HOOK_H

#include <tilth/core/logs.h>
#include <tilth/core/state.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_hook tl_hook;
typedef struct tl_controller tl_controller;

/* What a hook writes. A failure to write (TL_EIO) ends the training, as any other, unless the
 * controller is to survive such (survive_write_failures) and the hook is of the second or third
 * kind. */
typedef enum tl_hook_files {
    TL_HOOK_NO_FILES,    /* nothing: its TL_EIO is one of reading */
    TL_HOOK_FILES,       /* what a training can do without */
    TL_HOOK_CHECKPOINTS, /* the same, but in after_train: the last one must be written */
} tl_hook_files;

typedef struct tl_hook_class {
    tl_class cls;
    /* Each is optional. */
    tl_status (*start)(tl_hook *h, const void *config);
    tl_status (*before_train)(tl_hook *h);
    /* Also after a failure, with what was done so far. */
    tl_status (*after_train)(tl_hook *h);
    tl_status (*before_step)(tl_hook *h); /* should be quick: it is counted with the step */
    tl_status (*after_step)(tl_hook *h);
    /* With what the loop told, before it is written; may change it, and may go back to a
     * checkpoint. */
    tl_status (*after_loop)(tl_hook *h, tl_logs *logs);
    tl_status (*before_eval)(tl_hook *h);
    tl_status (*after_eval)(tl_hook *h, tl_logs *logs);
    /* A checkpoint was saved: the file is there. */
    tl_status (*on_save)(tl_hook *h, const char *path);
    /* The training failed, or its numbers are not finite (TL_ENAN). Setting *handled goes on. */
    tl_status (*on_error)(tl_hook *h, tl_status status, bool *handled);
    tl_status (*state)(tl_hook *h, tl_state *into);
    void (*dispose)(tl_hook *h);
    tl_hook_files files; /* (optional: that of the class that it derives from) */
    /* (optional: false) No method works before `start`, which sets `started`: a class that derives
     * from it and forgets to call that makes no hooks. */
    bool needs_start;
    /* What the step tells beside its loss, at each summary_interval of the controller. */
    tl_status (*on_summary)(tl_hook *h, const tl_logs *logs);
    /* The model has the weights of this checkpoint now, or (NULL) those of a beginning: when the
     * controller is made, before before_train, and when the training goes back. */
    tl_status (*on_restore)(tl_hook *h, const char *path);
    /* (optional: false) before_step and after_step may be called while the device still computes
     * the steps, and for steps that are taken back then: they look at the clock, or put tensors
     * into the event storage. For others the steps are waited for. */
    bool in_flight;
    /* (optional) With in_flight: the steps behind `step` have come to nothing. What was counted of
     * them is taken back, before on_error; what is in the event storage has been already. */
    void (*take_back)(tl_hook *h, int64_t step);
} tl_hook_class;
TL_API extern const tl_kind tl_kind_hook;

/* First member of every hook's struct. Members are for reading. */
struct tl_hook {
    const tl_hook_class *cls;
    const char *name;
    int64_t period;            /* of before_step and after_step */
    tl_controller *controller; /* NULL before it is given to one */
    tl_arena *arena;           /* lives as long as the hook */
    bool started;              /* set by the `start` of a class with needs_start */
};

typedef struct tl_hook_args {
    const char *name;   /* (optional: that of the class) unique in a controller that saves */
    int64_t period;     /* (optional: 1) */
    const void *config; /* (optional) for `start` */
} tl_hook_args;
TL_API TL_NODISCARD tl_status tl_hook_new(tl_hook **out, const tl_hook_class *cls,
                                          const tl_hook_args *args);
/* NULL is fine. */
TL_API void tl_hook_free(tl_hook **h);

/* Functions as a hook, for programs that need no more. Each may be NULL. */
typedef struct tl_callbacks {
    tl_status (*before_train)(tl_controller *c, void *self);
    tl_status (*after_train)(tl_controller *c, void *self);
    tl_status (*before_step)(tl_controller *c, void *self);
    tl_status (*after_step)(tl_controller *c, void *self);
    tl_status (*after_loop)(tl_controller *c, tl_logs *logs, void *self);
    tl_status (*after_eval)(tl_controller *c, tl_logs *logs, void *self);
    void *self;
} tl_callbacks;
/* The functions are copied. */
TL_API TL_NODISCARD tl_status tl_hook_from_callbacks(tl_hook **out, const tl_callbacks *callbacks,
                                                     const tl_hook_args *args);

TL_END

#endif
