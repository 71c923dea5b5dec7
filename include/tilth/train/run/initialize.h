/* Starting from weights that another run has left.
 *
 *     TL_TRY(tl_model_initialize_from(m, "pretrained/", (tl_strings){NULL, 0})); // all of it
 *
 *     static const char *const parts[] = {"backbone"};
 *     TL_TRY(tl_model_initialize_from(m, "pretrained/ckpt-1000", (tl_strings){parts, 1}));
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_INITIALIZE_H
#define TILTH_TRAIN_INITIALIZE_H

#include <tilth/train/task.h>

TL_BEGIN

/* Reads weights into a model: from a checkpoint of a run, a file of weights, or the latest
 * checkpoint of a folder. `parts` are parts that the model has named (tl_scope_item), or paths of
 * layers; none: everything. Weights are matched by their paths. Every weight of the model, or of
 * its parts, must be in the file with its shape: otherwise it is TL_EINVAL with a list of what is
 * missing, unexpected and mis-shaped, and the model is as it was. What the file has beside that is
 * told and left alone. A weight of another shape is taken where its layer can (tl_layer_class.fit):
 * the positions of vision transformers are resized. */
TL_API TL_NODISCARD tl_status tl_model_initialize_from(tl_model *m, const char *path,
                                                       tl_strings parts);

/* The same for the model of a task, whose path is task.init_checkpoint. It may also be the prefix
 * of a checkpoint of Model Garden, one of its files, or a folder with some; the task knows the
 * names (original_names). Weights that match tilth.init_resize may have another size along one
 * axis: what both have is taken. Those that match tilth.init_leave are left as they are. */
TL_API TL_NODISCARD tl_status tl_task_initialize_from(tl_task *t, tl_model *m, const char *path,
                                                      tl_strings parts);

/* A part that may begin as another part of what was trained before. */
typedef struct tl_initial_part {
    const char *name;   /* in the model: as in `parts` above */
    const char *from;   /* (optional: the same) its path in the model that was trained */
    const char *object; /* (optional) which object that is in checkpoints of Model Garden */
    /* (optional: false) a checkpoint of Model Garden is of this part alone, which is its root:
     * those in SavedModels are */
    bool is_root;
} tl_initial_part;
TL_API TL_NODISCARD tl_status tl_task_initialize_parts(tl_task *t, tl_model *m, const char *path,
                                                       const tl_initial_part *parts, int64_t count);

TL_END

#endif
