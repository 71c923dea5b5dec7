/* Runs that were trained before, opened again to be used.
 *
 *     tl_finished f;
 *     tl_status st;
 *     TL_TRY_DONE(st, tl_finished_open(&f, &(tl_finished_args){.registry = r, .folder = "runs/one",
 *                                                              .checkpoint = "best"}));
 *     tl_tensor *y = tl_call(c, f.trainer->model, x);
 * done:
 *     tl_finished_close(&f);
 *
 * A folder is that of a run of an experiment (`tilth train`: params.yaml), of a run in LiBai's
 * words (`tilth train_net`: config.yaml), or one that `tilth export` has written (model.json). It
 * says itself which.
 *
 * Ownership: the caller's; closing is due also after a failure. Thread word: one thread at a
 * time. */
#ifndef TILTH_TRAIN_FINISHED_H
#define TILTH_TRAIN_FINISHED_H

#include <tilth/train/trainer/trainer.h>

TL_BEGIN

/* Files of such folders. */
#define TL_EXPERIMENT_FILE "experiment.txt" /* which experiment it was */
#define TL_CLASSES_FILE "classes.txt"       /* names of classes, one a line: the note "classes" */
#define TL_EXPORTED_FILE "model.json"       /* what was exported, and how to build it */
#define TL_WEIGHTS_FILE "model.safetensors"

typedef enum tl_folder_kind {
    TL_FOLDER_EXPERIMENT,
    TL_FOLDER_LIBAI,
    TL_FOLDER_EXPORTED
} tl_folder_kind;
/* TL_ENOTFOUND, naming what was looked for, when it is none of them. */
TL_API TL_NODISCARD tl_status tl_folder_kind_of(tl_folder_kind *out, const char *folder);
/* TL_EINVAL when a run of another experiment has begun in the folder, as its experiment.txt says. A
 * folder that does not say, or is not there, is good for all; so is no folder, and no experiment
 * (NULL). */
TL_API TL_NODISCARD tl_status tl_folder_check_experiment(const char *folder,
                                                         const char *experiment);

typedef struct tl_finished_args {
    tl_registry *registry; /* knows the task; must outlive what is opened */
    const char *folder;
    /* (optional: "latest") latest: the newest that can be read, what cannot is logged and left
     * where it is; best; the path of one, or of a folder of them; or its name in the folder */
    const char *checkpoint;
    const char *experiment; /* (optional: as the folder says) */
    bool evaluates;         /* it can be evaluated; averages are then put in by the evaluation */
    bool any_machine;       /* the run's own machine (section `runtime`) does not matter */
    int threads;            /* (optional: as the run has it) to compute with */
    /* (optional: one process) Whose processes evaluate together; a run of fewer lanes is evaluated
     * in as many. It must outlive what is opened. */
    tl_world *world;
    /* (optional) What changes the run's configuration, later ones winning. */
    tl_strings config_file;
    const char *params_override;
    const tl_word *words;
    int64_t word_count;
} tl_finished_args;

/* A model with the weights of a checkpoint: the averaged ones, when the run has kept averages. */
typedef struct tl_finished {
    tl_folder_kind kind;
    tl_config *config;                  /* as the folder has it, in the words of its kind */
    const tl_experiment_config *params; /* the same in those of experiments */
    const char *experiment;             /* its name; NULL: it is not known */
    tl_gin *gin;                        /* what the run has bound */
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    const char *file;   /* the checkpoint, or the weights */
    bool averaged;      /* whose weights are averages */
    tl_strings classes; /* names, as the run has noted them or the task has them; none: numbers */
    tl_arena *arena;    /* lives until it is closed */
} tl_finished;
TL_API TL_NODISCARD tl_status tl_finished_open(tl_finished *out, const tl_finished_args *args);
/* The configuration alone: nothing is built. */
TL_API TL_NODISCARD tl_status tl_finished_read(tl_finished *out, const tl_finished_args *args);
TL_API void tl_finished_close(tl_finished *f);
/* The name of a class, or its number; in the arena. NULL: no memory. */
TL_API const char *tl_finished_class(const tl_finished *f, int64_t class_id);

TL_END

#endif
