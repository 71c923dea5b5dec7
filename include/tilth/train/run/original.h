/* Checkpoints of Model Garden, under the names that a model of ours has.
 *
 *     static tl_status my_original_names(tl_task *t, tl_original_names *into) // a method of a task
 *     {
 *         TL_TRY(tl_original_names_add(into, "backbone/stem/conv",
 *                                      "backbone/layer_with_weights-0"));
 *         return tl_original_names_same(into, "model/layer_with_weights-0", "backbone");
 *     }
 *
 *     tl_state *state;
 *     // "model/backbone/stem/conv/kernel"
 *     TL_TRY(tl_original_read(&state, "resnet/ckpt-120", &names, engine, NULL));
 *     // tf.train.Checkpoint restores it
 *     TL_TRY(tl_original_write("out/ckpt-120", state, &names, NULL));
 *
 * Model Garden keeps its weights under the paths of Python objects, which count the layers of a
 * model ("layer_with_weights-7"); a table says which of our layers each of them is. Weights are
 * looked up in the object graph, so any path that leads to an object will do, whatever the entry in
 * the file is called. Inside a layer the names are the same on both sides: kernel, bias, gamma,
 * beta, moving_mean, moving_variance; those that are not are in the table too.
 *
 * Ownership: states are the caller's; a table is its owner's, its strings live in its arena. Thread
 * word: one thread at a time. */
#ifndef TILTH_TRAIN_ORIGINAL_H
#define TILTH_TRAIN_ORIGINAL_H

#include <tilth/base/arena.h>
#include <tilth/core/state.h>

TL_BEGIN

/* A layer by its path in our model, and the object that it is there. */
typedef struct tl_original_name {
    const char *ours, *theirs;
} tl_original_name;

typedef struct tl_original_list {
    tl_original_name *items;
    int64_t count, capacity;
} tl_original_list;

typedef struct tl_original_names {
    tl_original_list layers;
    tl_original_list same;    /* two paths of one object: `ours` is another name of `theirs` */
    tl_original_list renamed; /* a weight, and what its layer calls it there */
    tl_arena *arena;
} tl_original_names;
TL_API TL_NODISCARD tl_status tl_original_names_init(tl_original_names *n);
TL_API void tl_original_names_deinit(tl_original_names *n);

/* The weights of the layer `ours` are those of the object `theirs`. */
TL_API TL_NODISCARD tl_status tl_original_names_add(tl_original_names *n, const char *ours,
                                                    const char *theirs);
/* The weight `ours`, of a layer that is in the table, has another name in its object there:
 * "stem/conv/kernel" is "depthwise_kernel". */
TL_API TL_NODISCARD tl_status tl_original_names_rename(tl_original_names *n, const char *ours,
                                                       const char *theirs);
/* The object at `path` is that at `other`: which of them a checkpoint has depends on who wrote
 * it. */
TL_API TL_NODISCARD tl_status tl_original_names_same(tl_original_names *n, const char *path,
                                                     const char *other);

/* Whether a checkpoint is one of the table's model: it has all layers, and no weights of others.
 * TL_EINVAL names some of them. */
TL_API TL_NODISCARD tl_status tl_original_check(const char *prefix, const tl_original_names *names);
/* What a checkpoint holds: model/..., optimizer/SLOT/..., optimizer/iterations, global_step; and a
 * seed of 0, since it holds none. Layers may lack; a weight for which the table has no layer keeps
 * its path there, below model/. `left_out`, which may be NULL, gets a line for each entry that has
 * no place in a state of ours: numbers of the optimizer, slots of an optimizer that does not say
 * which variables they are of, types that tensors do not have. */
TL_API TL_NODISCARD tl_status tl_original_read(tl_state **out, const char *prefix,
                                               const tl_original_names *names, tl_engine *engine,
                                               tl_str *left_out);
/* Writes what Model Garden can use of a state of the trainer. `left_out` gets a line for each entry
 * that has no place there: positions in the data, metrics, hooks. A weight without a name is
 * TL_EINVAL, and so is a state without weights; they may stand without model/ before them, as in a
 * file of weights alone. Where there are slots `average`, the others are those of the optimizer
 * inside the one that averages, as Model Garden has it. */
TL_API TL_NODISCARD tl_status tl_original_write(const char *prefix, const tl_state *s,
                                                const tl_original_names *names, tl_str *left_out);

TL_END

#endif
