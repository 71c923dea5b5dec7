/* Losses: how far predictions are from targets, one value an example.
 *
 *     static tl_tensor *my_call(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred)
 *     {
 *         const my_config *m = l->config;
 *         tl_tensor *e = tl_square(c, tl_sub(c, y_pred, y_true));
 *         return tl_mean(c, tl_scale(c, e, m->factor), TL_AXES(-1), false);
 *     }
 *     static const tl_loss_class my_loss = {
 *         .cls = TL_CLASS(tl_loss_class, "mine", NULL, tl_loss, &my_desc), .call = my_call};
 *
 *     tl_loss *l;
 *     TL_TRY(tl_loss_new(&l, &my_loss, &(my_config){.factor = 2}, NULL));
 *     tl_tensor *each = tl_loss_values(l, c, labels, outputs);           // what a step minimises
 *     tl_tensor *one = tl_loss_call(l, c, labels, outputs, weight);      // weighted and reduced
 *     tl_loss_free(&l);
 *
 * A loss may also be one function: tl_loss_from_function.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_NN_LOSS_H
#define TILTH_NN_LOSS_H

#include <tilth/core/ctx.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_loss tl_loss;

typedef struct tl_loss_class {
    tl_class cls; /* its config, when it has one, derives from tl_loss_config */
    /* Required: one value an example, not weighted. Only calls ops; failures stick in the
     * context. */
    tl_tensor *(*call)(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
    /* (optional) Prepares what `call` needs. */
    tl_status (*build)(tl_loss *l);
    /* (optional) Gives back what is not in the loss's arena, also when building failed. */
    void (*dispose)(tl_loss *l);
} tl_loss_class;
TL_API extern const tl_kind tl_kind_loss;

/* What becomes of the values, v, of examples with weights, w (1 without weights). */
typedef enum tl_reduction {
    TL_REDUCTION_SUM_OVER_BATCH_SIZE,     /* sum(w v) / number of values */
    TL_REDUCTION_SUM,                     /* sum(w v) */
    TL_REDUCTION_NONE,                    /* w v */
    TL_REDUCTION_MEAN,                    /* as sum_over_batch_size */
    TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT, /* sum(w v) / sum(w), 0 when all weigh nothing */
    TL_REDUCTION_AUTO                     /* as sum_over_batch_size */
} tl_reduction;
/* By number, then NULL: "sum_over_batch_size", "sum", "none", "mean", "mean_with_sample_weight",
 * "auto". */
TL_API extern const char *const tl_reduction_names[];

/* First member of every loss's struct. Members are for reading. */
struct tl_loss {
    const tl_loss_class *cls;
    const char *name;
    const void *config; /* a copy, completed with defaults; of a class that describes none it is the
                         * pointer that was given, which must stay valid as long as the loss */
    tl_reduction reduction;
    tl_arena *arena; /* lives as long as the loss */
};

/* First member of every loss's configuration. */
typedef struct tl_loss_config {
    tl_reduction reduction; /* sum_over_batch_size */
    bool complete;          /* set by defaults, parsing and copying: a zero is meant. In C literals
                             * it is left out, and members that are zero get their defaults */
    const char *name;       /* "": that of the class */
} tl_loss_config;
TL_API extern const tl_desc tl_loss_config_desc;

/* A literal `config` is completed, NULL is the defaults. `name` NULL: the one in the configuration,
 * else that of the class. */
TL_API TL_NODISCARD tl_status tl_loss_new(tl_loss **out, const tl_loss_class *cls,
                                          const void *config, const char *name);
/* The same from a one-of, as YAML gives it: `type: huber`. */
TL_API TL_NODISCARD tl_status tl_loss_new_of(tl_loss **out, const tl_oneof *loss,
                                             const tl_registry *registry, const char *name);
/* A loss that is one function: one value an example. */
typedef tl_tensor *tl_loss_fn(void *payload, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
TL_API TL_NODISCARD tl_status tl_loss_from_function(tl_loss **out, tl_loss_fn *fn, void *payload,
                                                    const char *name, tl_reduction reduction);
/* NULL is fine. */
TL_API void tl_loss_free(tl_loss **l);

/* One value an example, not weighted: for tl_step_minimize, which weights and averages itself. */
TL_API tl_tensor *tl_loss_values(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred);
/* The same weighted (`weight` may be NULL) and reduced as the loss says. */
TL_API tl_tensor *tl_loss_call(tl_loss *l, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                               tl_tensor *weight);
/* Weights and reduces values of any origin. Weights have the first axes of the values, or theirs
 * with some of 1; a weight of 0 gives 0, and no gradient, whatever the value. */
TL_API tl_tensor *tl_loss_reduce(tl_ctx *c, tl_tensor *values, tl_tensor *weight,
                                 tl_reduction reduction);

TL_END

#endif
