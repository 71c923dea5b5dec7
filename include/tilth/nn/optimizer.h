/* Optimizers: what gradients do to the weights of a model, and all that is kept for it: slots, the
 * number of updates, averages of the weights, the scale of the loss.
 *
 *     tl_optimizer *o;
 *     TL_TRY(tl_optimizer_new(&o, &(tl_optimizer_args){.engine = e, .model = m,
 *                                                      .config = &config}));
 *
 *     ...                                            // in a step, eager or captured: the loss
 *     TL_TRY(tl_model_gradients(c, m, tl_optimizer_scaled_loss(o, c, loss), grads));
 *     tl_optimizer_apply(o, c, grads, NULL);
 *     TL_TRY(tl_ctx_status(c));
 *
 *     TL_TRY(tl_optimizer_swap(o));                             // weights <-> averages
 *     tl_optimizer_free(&o);
 *
 * An update is ops on tensors that the optimizer keeps, so a captured step holds all of it: norm
 * and finite flag, unscaling, clipping, the learning rate, the update of each block, the averages
 * and the loss scale. Gradients that are not finite leave everything as it was but the loss scale,
 * the norm and the flag.
 *
 * Ownership: the caller's. The model must outlive the optimizer, and its blocks must not be laid
 * out anew meanwhile (tl_model_set_trainable, tl_model_set_group). Thread word: one thread at a
 * time. */
#ifndef TILTH_NN_OPTIMIZER_H
#define TILTH_NN_OPTIMIZER_H

#include <tilth/core/comm.h>
#include <tilth/nn/model.h>
#include <tilth/nn/optimization.h>

TL_BEGIN

typedef struct tl_optimizer_args {
    tl_engine *engine;
    tl_model *model;
    const tl_optimization_config *config; /* copied; its one-ofs may be C literals, as
                                           * tl_desc_complete takes them */
    const tl_registry *registry;          /* (optional: what ships) must outlive the optimizer */
    const tl_group_config *groups; /* (optional: none) copied; groups that are not named are updated
                                    * as the optimizer's configuration says */
    int64_t group_count;
    bool scaled;             /* gradients are those of a scaled loss, as float16 needs it */
    double loss_scale;       /* a fixed scale; 0: a dynamic one, by what follows */
    double initial_scale;    /* (optional: 32768) */
    int64_t growth_interval; /* (optional: 2000) updates in a row after which it is doubled; it is
                               * halved, but not below 1, when gradients are not finite */
} tl_optimizer_args;

TL_API TL_NODISCARD tl_status tl_optimizer_new(tl_optimizer **out, const tl_optimizer_args *args);
/* NULL is fine. Programs that were captured with it must be gone. */
TL_API void tl_optimizer_free(tl_optimizer **o);

/* Puts the parameters of a model into groups by their patterns, one group after the other: a later
 * pattern takes a parameter from an earlier group. Before the optimizer is made. */
TL_API TL_NODISCARD tl_status tl_model_group(tl_model *m, const tl_group_config *groups,
                                             int64_t count);

/* --- in a step -------------------------------------------------------------------------------- */

/* Each gives false (or NULL) when the context failed, like any op. None is taped but the scaled
 * loss. */

/* One update from the gradients of all blocks (tl_model_gradients). Blocks that the part which was
 * called does not use have none, and are left as they are, slots included. The others are divided
 * by `weight`, a float32 scalar, and by the loss scale; NULL: the weight is 1. A weight of 0 leaves
 * everything as it is. Clipping follows in the order: the optimizer's own (adamw), by value, by the
 * norm of each parameter, by the norm of all, by the norm of each group. Running statistics that
 * the model holds back (tl_model_hold_updates) are moved before the averages are. */
TL_API bool tl_optimizer_apply(tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads,
                               tl_tensor *weight);

/* Gradients and weights are summed up over several steps (in float32, or float64); the flush
 * applies what came together, divided by the sum of the weights, and begins again from zero. The
 * sums take memory from the first use on, and are no part of the state: a checkpoint lies between
 * two updates. */
TL_API bool tl_optimizer_accumulate(tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads,
                                    tl_tensor *weight);
TL_API bool tl_optimizer_flush(tl_optimizer *o, tl_ctx *c);
/* The same of batches that were all of this part of the model: what it does not use is left as it
 * is, slots included. */
TL_API bool tl_optimizer_flush_part(tl_optimizer *o, tl_ctx *c, const tl_model *part);
/* Makes tl_optimizer_apply accumulate, for steps that know nothing of it. A captured step keeps
 * what was set when it was captured. Gives what was set before. */
TL_API bool tl_optimizer_set_accumulating(tl_optimizer *o, bool on);
TL_API bool tl_optimizer_accumulating(const tl_optimizer *o);
/* Forgets what was summed up and not applied: a step that failed half-way. */
TL_API TL_NODISCARD tl_status tl_optimizer_discard(tl_optimizer *o);
/* --- several lanes: sums that are added up by somebody else before they are flushed --- */

/* What accumulating adds to, in an order that stays: the gradients of trained blocks first, of
 * which there are tl_optimizer_gradient_sums, then weights and whatever else is summed. NULL behind
 * the last one. Those of gradients and weights are there when something was accumulated, and there
 * may be more later. */
TL_API tl_tensor *tl_optimizer_sum(const tl_optimizer *o, int64_t index);
TL_API int64_t tl_optimizer_sum_count(const tl_optimizer *o);
TL_API int64_t tl_optimizer_gradient_sums(const tl_optimizer *o);
/* Where parameters begin in a sum of gradients, ascending, and the number of each in the model,
 * which counts them in the order of its layers. None of other sums. */
TL_API tl_ints tl_optimizer_sum_params(const tl_optimizer *o, const tl_tensor *sum,
                                       const int64_t **numbers);
/* Of such a number. */
TL_API const char *tl_optimizer_param_path(const tl_optimizer *o, int64_t number);
/* How often gradients were accumulated, in captures and eager steps: does a step do it once? */
TL_API int64_t tl_optimizer_additions(const tl_optimizer *o);
/* Sums are those of so many lanes, each of which is clipped by the optimizer's own clipping (adamw)
 * before it is added to the others, as a gradient that is divided by their number: as Model Garden
 * clips in its replicas. The flush then leaves that out. 1, as at first: nothing is clipped
 * before. */
TL_API TL_NODISCARD tl_status tl_optimizer_set_lanes(tl_optimizer *o, int64_t lanes);
/* Of sums of lanes: gradients that are accumulated next take the place of those that are there,
 * which need not be cleared for it. After a flush they do so anyhow. */
TL_API void tl_optimizer_begin_lane(tl_optimizer *o, tl_ctx *c);
/* What it is known by: a bool scalar; NULL with one lane. */
TL_API tl_tensor *tl_optimizer_fresh(const tl_optimizer *o);
/* Around a batch, as it is computed or captured: whoever calls them clears that behind each batch
 * that has accumulated something. Else accumulating does, which is one more op. */
TL_API void tl_optimizer_begin_batch(tl_optimizer *o);
TL_API void tl_optimizer_end_batch(tl_optimizer *o);
/* Whether lanes are clipped; and clips what was accumulated for one. */
TL_API bool tl_optimizer_clips_lanes(const tl_optimizer *o);
TL_API bool tl_optimizer_clip_lane(tl_optimizer *o, tl_ctx *c);

/* Shares weights, slots and averages with the processes of a group, all of which call it with
 * optimizers of the same kind and model. Each flush moves a process's own part, of whole parameters
 * where the rule needs them (`by_element`), and behind each flush all call tl_optimizer_meet; then
 * all see what all have moved. Gradients must be the same in all, and so must what is written
 * otherwise, as when a state is restored. Small blocks are moved by all.
 *
 * Where the processes have memory in common, all of it lies there, once. Else (tl_comm_shares) each
 * has all weights, and slots and averages of its own part alone: see tl_optimizer_bring.
 *
 * `level` 1 is that; with 2 and more, sums of gradients may be divided too
 * (tl_optimizer_decide_division). With 3, processes without memory in common have weights of their
 * own part alone, too, behind each meeting: see tl_optimizer_need. `g` must outlive optimizer and
 * model. TL_EUNSUPPORTED on devices that are not the host. */
TL_API TL_NODISCARD tl_status tl_optimizer_share(tl_optimizer *o, tl_comm_group *g, int64_t level);
/* What a process needs when so many share, whether they do now or not: bytes of the model's blocks,
 * of slots and averages, and of sums of gradients, between two steps; of memory in common its part.
 * Also what `o` itself has is asked so: with one process. */
typedef struct tl_optimizer_sharing {
    int32_t rank, ranks;
    int64_t level; /* 0: nothing is shared */
    bool common;   /* they have memory in common */
} tl_optimizer_sharing;
typedef struct tl_optimizer_memory {
    double weights, slots, sums;
} tl_optimizer_memory;
/* Bytes of this process's parts, where they lie apart; 0 where they do not. */
TL_API double tl_optimizer_kept_apart(const tl_optimizer *o);
TL_API void tl_optimizer_plan_memory(const tl_optimizer *o, const tl_optimizer_sharing *how,
                                     tl_optimizer_memory *out);
/* Nothing is done for one that is not shared. */
TL_API TL_NODISCARD tl_status tl_optimizer_meet(tl_optimizer *o);
TL_API bool tl_optimizer_is_shared(const tl_optimizer *o);
/* Whether slots and averages lie apart, each part with the process that moves it. */
TL_API bool tl_optimizer_is_apart(const tl_optimizer *o);
/* Then: which elements of a tensor of the state a process has, `from` to `end` - 1; false: all have
 * all of it. */
TL_API bool tl_optimizer_part(const tl_optimizer *o, const tl_tensor *t, int32_t rank,
                              int64_t *from, int64_t *end);
/* Where they do: brings all parts of weights and averages to all processes, and those of slots to
 * the first, until the next tl_optimizer_meet. All call it before averages are exchanged
 * (tl_optimizer_swap) or the state is looked at. Else nothing is done. */
TL_API TL_NODISCARD tl_status tl_optimizer_bring(tl_optimizer *o, bool slots);
/* What runs that read weights need to have brought to them, all processes the same in the same
 * order (sys/graph/need.h); NULL: all weights are there. Where that cannot be, all are held for a
 * while, and dropped: calls of all processes. */
TL_API const struct tl_need *tl_optimizer_need(const tl_optimizer *o);
TL_API TL_NODISCARD tl_status tl_optimizer_hold_weights(tl_optimizer *o);
TL_API void tl_optimizer_drop_weights(tl_optimizer *o);
/* All of the state was written: what of it is not this process's own goes at the next meeting. */
TL_API void tl_optimizer_restored(tl_optimizer *o);

/* Behind what was accumulated, and before sums are added up: all decide, once, whether each needs
 * its part of them alone. Not where norms are taken of anything but whole blocks; the log says so
 * then. */
TL_API TL_NODISCARD tl_status tl_optimizer_decide_division(tl_optimizer *o);
/* Where the part of a rank begins in a sum of gradients that is divided, and behind the last rank
 * how many elements it has; -1: all need all of it. */
TL_API int64_t tl_optimizer_sum_cut(const tl_optimizer *o, const tl_tensor *sum, int32_t rank);
/* When each has its part of the sums: the norms of all, for the flush of a part of the model. All
 * call it. Nothing is done where sums are not divided. */
TL_API TL_NODISCARD tl_status tl_optimizer_measure_divided(tl_optimizer *o, tl_ctx *c,
                                                           const tl_model *part);

/* From the next capture on, each flush also measures how much the gradients of its batches differ:
 * of batches of weight w, the expected squared norm of a mean gradient is signal + noise / w. Their
 * quotient is the "simple noise scale" of McCandlish et al. (2018), in units of the weights. */
TL_API TL_NODISCARD tl_status tl_optimizer_measure_noise(tl_optimizer *o);
typedef struct tl_gradient_noise {
    bool known;           /* false: of one batch, of weights of 0, or of what is not finite */
    double noise, signal; /* estimates by one flush; they may be negative */
} tl_gradient_noise;
/* By the last flush; read now. */
TL_API TL_NODISCARD tl_status tl_optimizer_noise(tl_gradient_noise *out, const tl_optimizer *o);
/* Makes tl_optimizer_apply and tl_optimizer_accumulate do nothing, for steps that are only looked
 * at. Gives what was set before. */
TL_API bool tl_optimizer_set_inert(tl_optimizer *o, bool on);
/* While this bool scalar holds true, gradients count as not finite: updates leave everything as it
 * was. For steps that were put behind one that must end the training. Borrowed; steps that were
 * captured before do not heed it. */
TL_API void tl_optimizer_set_halted(tl_optimizer *o, tl_tensor *halted);

/* The loss, times the scale; itself when nothing is scaled. */
TL_API tl_tensor *tl_optimizer_scaled_loss(tl_optimizer *o, tl_ctx *c, tl_tensor *loss);
/* Learning rate of the next update, float64 scalar. */
TL_API tl_tensor *tl_optimizer_rate(tl_optimizer *o, tl_ctx *c);

/* --- what it has ------------------------------------------------------------------------------ */

/* Tensors of the optimizer, read and written in place by programs: updates done so far (int64),
 * norm of the last gradients, unscaled and not yet clipped (float32), and whether they were finite
 * (bool). All are scalars. */
TL_API tl_tensor *tl_optimizer_counter(const tl_optimizer *o);
TL_API tl_tensor *tl_optimizer_norm(const tl_optimizer *o);
TL_API tl_tensor *tl_optimizer_finite(const tl_optimizer *o);

/* The same as numbers, read now. NaN, or -1, when there is no memory to compute it. */
TL_API double tl_optimizer_learning_rate(tl_optimizer *o); /* of the next update */
TL_API int64_t tl_optimizer_iterations(const tl_optimizer *o);
TL_API double tl_optimizer_loss_scale(const tl_optimizer *o); /* 1 when nothing is scaled */
/* Whether gradients that are not finite lower the scale: it is dynamic, and above 1. */
TL_API bool tl_optimizer_can_lower_scale(const tl_optimizer *o);
/* The same as a bool scalar, computed; NULL where it is never so. */
TL_API tl_tensor *tl_optimizer_lowers_scale(tl_optimizer *o, tl_ctx *c);

/* A factor of the learning rate (1 in a new optimizer), for hooks that lower it. Captured steps
 * heed it; it is part of the state. */
TL_API TL_NODISCARD tl_status tl_optimizer_set_multiplier(tl_optimizer *o, double multiplier);
TL_API double tl_optimizer_multiplier(const tl_optimizer *o);

TL_API const tl_optimizer_class *tl_optimizer_kind(const tl_optimizer *o);
TL_API const tl_optimization_config *tl_optimizer_settings(const tl_optimizer *o);
TL_API tl_model *tl_optimizer_model(const tl_optimizer *o);

/* Groups with a from_step that lies behind `step` are left alone from now on, the others trained: a
 * new optimizer is at step 0. What is left alone has no gradient and counts for no norm; its slots
 * stay as they are, its averages go on, and batch norms keep their statistics and compute with
 * them. True when this changes something: steps that were captured before must be captured anew.
 * `look`: it is only asked, and nothing is changed. */
TL_API bool tl_optimizer_wake(tl_optimizer *o, int64_t step, bool look);

/* --- averages --------------------------------------------------------------------------------- */

/* True when averages of the weights are kept. They begin at 0, as Model Garden's do, and mean
 * nothing before the first update. */
TL_API bool tl_optimizer_averages(const tl_optimizer *o);
/* Exchanges weights and averages, bit for bit; a second time takes it back. Nothing may be updated
 * while they are exchanged: tl_optimizer_apply fails, and steps that were captured before must not
 * be called. */
TL_API TL_NODISCARD tl_status tl_optimizer_swap(tl_optimizer *o);
TL_API bool tl_optimizer_swapped(const tl_optimizer *o);

/* --- state ------------------------------------------------------------------------------------ */

/* "iterations", "rate_multiplier", "<slot>/<parameter>" ("m/dense/kernel"), "average/<parameter>",
 * "loss_scale/scale", "loss_scale/good_steps". Entries are parts of the blocks: what is restored is
 * what the next update sees. Fails while averages are exchanged. */
TL_API TL_NODISCARD tl_status tl_optimizer_state(tl_optimizer *o, tl_state *into);

/* --- for classes ------------------------------------------------------------------------------ */

/* A trained block with what is kept for it. */
struct tl_optimizer_block {
    tl_optimizer *optimizer;
    const tl_block *block;
    tl_ints offsets;     /* where its parameters begin, for attributes of updates */
    int64_t *decayed;    /* of each parameter: 1 (at first) when it decays, 0 when not */
    int64_t *adapted;    /* of each parameter: 1 (at first) when its rate follows its norm */
    double weight_decay; /* 0 at first; the group's takes the place of what `prepare` sets */
};
TL_API const tl_param *tl_optimizer_block_param(const tl_optimizer_block *b, int64_t index);

/* For `prepare`. A slot is a tensor laid out like the block, filled with a number. */
TL_API TL_NODISCARD tl_status tl_optimizer_add_slot(tl_optimizer_block *b, const char *name,
                                                    double value);
/* A slot of one parameter, of a shape of its own. */
TL_API TL_NODISCARD tl_status tl_optimizer_add_param_slot(tl_optimizer_block *b, const char *name,
                                                          int64_t param, tl_shape shape,
                                                          double value);
/* Sets `flags` of the parameters in whose path one of the patterns (POSIX extended regular
 * expressions) is found; one that is written for names ending in ":0", as TensorFlow's do, finds
 * them too. `key` names the list in messages. */
TL_API TL_NODISCARD tl_status tl_optimizer_mark(const tl_optimizer_block *b, int64_t *flags,
                                                tl_strings patterns, int64_t flag, const char *key);

/* For `update`. */
struct tl_update {
    const tl_optimizer_block *block;
    const void *config;               /* of the optimizer */
    tl_tensor *values, *grad, *hyper; /* as the ops of ops/update.h take them */
    /* Elements of hyper, for updates that are made of ops; float64 scalars. */
    tl_tensor *rate, *step;
    tl_tensor *scale; /* the gradient is still to be multiplied by it */
    tl_tensor *apply; /* bool scalar; false: leave everything as it is */
};
/* NULL when there is none of that name. */
TL_API tl_tensor *tl_optimizer_slot(const tl_optimizer_block *b, const char *name);
TL_API tl_tensor *tl_optimizer_param_slot(const tl_optimizer_block *b, const char *name,
                                          int64_t param);

TL_END

#endif
