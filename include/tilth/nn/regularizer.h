/* Regularisers: a term of the loss for a parameter. Each is a described class.
 *
 *     tl_dense(s, "up", .units = 64,
 *              .kernel_regularizer =
 *                  TL_REGULARIZER_OF("l2", tl_l2_regularizer, .l2 = TL_SET(1e-4)));
 *
 * Thread word: immutable. */
#ifndef TILTH_NN_REGULARIZER_H
#define TILTH_NN_REGULARIZER_H

#include <tilth/core/ctx.h>
#include <tilth/desc/registry.h>

TL_BEGIN

typedef struct tl_regularizer_class {
    tl_class cls;
    /* Required: a scalar. Only calls ops. */
    tl_tensor *(*loss)(tl_ctx *c, const void *config, tl_tensor *parameter);
} tl_regularizer_class;
TL_API extern const tl_kind tl_kind_regularizer;
TL_API extern const tl_module tl_regularizers_module;

#define TL_REGULARIZER(name_) TL_INIT(.type = (name_))
#define TL_REGULARIZER_OF(name_, config_type, ...)                                                 \
    TL_INIT(.type = (name_), .value = TL_LITERAL(config_type, __VA_ARGS__))

/* 0.01: l1 * sum |w| */
typedef struct tl_l1_regularizer {
    tl_opt_double l1;
} tl_l1_regularizer;
/* 0.01: l2 * sum w^2 */
typedef struct tl_l2_regularizer {
    tl_opt_double l2;
} tl_l2_regularizer;
typedef struct tl_l1_l2_regularizer {
    double l1, l2;
} tl_l1_l2_regularizer; /* 0, 0: both terms */

TL_END

#endif
