/* What the files of the optimizer share. */
#ifndef TILTH_SRC_NN_OPTIMIZER_H
#define TILTH_SRC_NN_OPTIMIZER_H

#include <tilth/base/arena.h>
#include <tilth/base/vec.h>
#include <tilth/desc/gin.h>
#include <tilth/nn/optimizer.h>
#include <tilth/nn/schedule.h>
#include <tilth/sys/graph/need.h>

#include "nn/net.h"

/* A slot of a block, or of one of its parameters. */
typedef struct tli_slot {
    const char *name;
    int64_t param; /* which one; -1: laid out like the block */
    tl_tensor *tensor;
} tli_slot;

/* A trained block. */
typedef struct tli_part {
    tl_optimizer_block base;      /* first: what classes see */
    const tl_group_config *group; /* NULL: none */
    struct {
        tli_slot *items;
        int64_t count, capacity;
    } slots;
    tl_tensor *sum;        /* of gradients; NULL until something was accumulated */
    struct tli_share *own; /* what of it this process moves (optimizer_share.c); NULL: all */
} tli_part;

/* A run of a block's elements, with the parameters that lie in it. */
typedef struct tli_share {
    int64_t from, count;
    tl_block block;
    tli_part part;      /* of views */
    tl_tensor *average; /* likewise; NULL where none is kept */
} tli_share;

enum { TLI_SMALL_SLOT = 65536 }; /* bytes that each may have, though it does not move them */

/* Addresses that slots lie at (base/inner/reserve.h). */
typedef struct tli_reserved {
    void *memory;
    size_t bytes;
} tli_reserved;

struct tl_optimizer {
    tl_arena *arena;
    tl_engine *engine;
    tl_model *model;
    tl_registry *own_registry; /* when none was given */
    tl_optimization_config config;
    const tl_class *cls;
    tl_schedule *schedule;
    tl_ctx *c; /* in which the host asks for rates */
    const tl_group_config *groups;
    int64_t group_count;

    int64_t count;       /* of the model's blocks; the lists have an item for each */
    tl_tensor **values;  /* headers of its own: the blocks as they were when it was made */
    tli_part *parts;     /* of blocks that are not trained, all zero */
    tl_tensor **average; /* NULL where none is kept */

    tl_tensor *iterations, *multiplier, *norm, *finite;
    tl_tensor *weight_sum; /* float64; NULL until something was accumulated */
    struct {
        tli_row_squares *items; /* accumulated as well */
        int64_t count, capacity;
    } row_sums;
    tl_tensor *scale, *good; /* of the loss: float32 and int64; NULL when nothing is scaled */
    bool dynamic;            /* the scale moves */
    int64_t growth_interval;
    struct {
        tl_tensor *sums, *last; /* float64; NULL until somebody wants to know */
    } noise;
    bool accumulating, swapped, inert;
    int64_t lanes;     /* whose sums are flushed */
    tl_tensor *fresh;  /* bool: sums of gradients are to be begun; NULL: they hold zeros then */
    tl_tensor *begun;  /* bool, false: what `fresh` is behind that; NULL with it */
    int64_t additions; /* calls of tl_optimizer_accumulate */
    int64_t batch;     /* of them, those before the batch; -1: nobody has told of one */
    tl_tensor *halted; /* borrowed; NULL: never */
    tl_comm_group *sharers; /* borrowed; NULL: nothing is shared */
    bool apart;             /* they have no memory in common: slots lie with who moves them */
    bool whole;             /* there may be more of them here, which is not needed in steps */
    struct {
        tli_reserved *items;
        int64_t count, capacity;
    } reserved;
    /* weights, of which each process has its part (optimizer_weights.c) */
    struct {
        bool wanted;
        struct {
            tl_early_part *items;
            int64_t count, capacity;
        } parts;
        struct {
            int64_t *items;
            int64_t count, capacity;
        } blocks;       /* of the parts */
        tl_part *ranks; /* room */
        tl_need need;
    } weights;
    /* sums of gradients, of which each process has its part (optimizer_divide.c) */
    struct {
        bool wanted, decided, on;
        tl_tensor *norms;  /* float32: of all blocks, then of those of each group */
        tl_tensor *finite; /* all of them: bool */
    } divided;
};

/* A tensor of the optimizer's, filled. */
tl_status tli_optimizer_tensor(tl_tensor **out, const tl_optimizer *o, tl_dtype dtype,
                               tl_shape shape, double value);
/* Puts the part of a parameter in a tensor that is laid out like its block: "<name>/<path>". */
tl_status tli_state_put_part(tl_state *into, const char *name, const tl_param *p,
                             const tl_tensor *block);

/* Slots, sum, and what else it holds. */
void tli_part_deinit(tli_part *p);
/* shares (optimizer_share.c). NULL is fine. */
void tli_share_deinit(tli_share *s);
void tli_reserved_free(tl_optimizer *o);
/* The element of a block at which the part of a rank begins; behind the last rank, how many there
 * are. */
int64_t tli_share_begin(const tl_optimizer *o, const tli_part *p, int32_t rank);
/* Whether it is shared out where blocks are: smaller ones are moved by all. */
bool tli_is_shared(const tli_part *p);
/* Whether the weights of a block lie apart; makes the parts that are brought; and drops all that
 * is not this process's own. */
bool tli_weights_are_apart(const tl_optimizer *o, int64_t block);
TL_NODISCARD tl_status tli_weights_part(tl_optimizer *o);
void tli_weights_drop(tl_optimizer *o);
void tli_weights_free(tl_optimizer *o);
/* Where a process's part of the sums begins, by that of what it moves, or, behind the last of them,
 * ends: whole pieces, so that their squares are added up as in one process. */
int64_t tli_sum_cut(int64_t begin, bool end);
/* Whether each process may have its part of the sums of gradients alone. */
bool tli_optimizer_can_divide(const tl_optimizer *o);
/* Whether the sums of a block count for the steps of a part of the model. */
bool tli_is_summed(const tl_block *b, const tl_model *part);

/* averages (ema.c) */
tl_status tli_averages_new(tl_optimizer *o);
tl_status tli_averages_state(const tl_optimizer *o, tl_state *into);
/* `step` is how many updates were done with this one, `apply` whether it was. */
void tli_averages_update(tl_optimizer *o, tl_ctx *c, tl_tensor *step, tl_tensor *apply);

/* scale of the loss (loss_scale.c) */
tl_status tli_loss_scale_new(tl_optimizer *o, const tl_optimizer_args *args);
tl_status tli_loss_scale_state(const tl_optimizer *o, tl_state *into);
void tli_loss_scale_update(tl_optimizer *o, tl_ctx *c, tl_tensor *finite);

/* noise of gradients (optimizer_noise.c): squared norms of single batches (their mean) and of their
 * sum, and one over the weights of both */
enum {
    TLI_NOISE_SMALL,
    TLI_NOISE_SMALL_INVERSE,
    TLI_NOISE_LARGE,
    TLI_NOISE_LARGE_INVERSE,
    TLI_NOISES
};
/* What is accumulated, and before the sums are applied. */
void tli_noise_add(tl_optimizer *o, tl_ctx *c, tl_tensor *const *grads, tl_tensor *weight);
void tli_noise_flush(tl_optimizer *o, tl_ctx *c, tl_tensor *const *sums);

/* Gradients on their way into an update (clip.c): what is still to be multiplied to each. */
typedef struct tli_gradients {
    tl_optimizer *o;
    tl_ctx *c;
    tl_tensor **grads;   /* by block; NULL where nothing is trained */
    tl_tensor **factors; /* float64 scalars; NULL: 1 */
    tl_tensor *norm;     /* of all, factors included: float64 scalar; NULL: to be computed again */
    const tli_row_squares *rows; /* of tables of which only rows were looked up, without factors */
    int64_t row_count;
    bool divided; /* they are sums, and other processes have the rest of them */
} tli_gradients;
void tli_gradients_clip(tli_gradients *g);
/* The largest norm that the optimizer's own clipping leaves; 0: it has none. */
double tli_own_clip_norm(const tl_optimizer *o);
/* The factor by which it clips. */
tl_tensor *tli_gradients_own_factor(tli_gradients *g);
/* The norm of all, and whether they are finite, without factors. */
void tli_gradients_measure(tli_gradients *g, tl_tensor **norm, tl_tensor **finite);
/* Multiplies a factor (float64 scalar) to all that is there. */
void tli_gradients_scale(tli_gradients *g, tl_tensor *factor);
/* Carries out what is still to be multiplied to the gradient of a block. */
void tli_gradients_settle(tli_gradients *g, int64_t block);

/* rules (optimizer_rules.c, adafactor.c), for the table of optimizers */
typedef bool tli_rule_fn(tl_ctx *c, const tl_update *u);
typedef tl_status tli_prepare_fn(tl_optimizer_block *b, const void *config);
tli_rule_fn tli_sgd_update, tli_sgd_experimental_update, tli_torch_sgd_update, tli_adam_update,
    tli_adam_experimental_update, tli_adamw_update, tli_adamw_experimental_update,
    tli_torch_adamw_update, tli_lamb_update, tli_lars_update, tli_rmsprop_update,
    tli_adagrad_update, tli_adafactor_keras_update, tli_adadelta_update, tli_adamax_update,
    tli_nadam_update, tli_ftrl_update, tli_lion_update;
tli_prepare_fn tli_sgd_prepare, tli_sgd_experimental_prepare, tli_torch_sgd_prepare,
    tli_adam_prepare, tli_adam_experimental_prepare, tli_adamw_prepare,
    tli_adamw_experimental_prepare, tli_torch_adamw_prepare, tli_lamb_prepare, tli_lars_prepare,
    tli_rmsprop_prepare, tli_adagrad_prepare, tli_adafactor_keras_prepare, tli_adadelta_prepare,
    tli_adamax_prepare, tli_nadam_prepare, tli_ftrl_prepare, tli_lion_prepare;
tl_tensor *tli_sgd_rate(tl_ctx *c, const tl_optimizer *o, tl_tensor *step, tl_tensor *rate);
double tli_adamw_clip_norm(const void *config);

/* for gin (create_optimizer.c) */
extern const tl_configurable_class tli_create_optimizer;

#endif
