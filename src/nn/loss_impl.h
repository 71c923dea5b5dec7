/* What the files of losses share. Thread word: one thread at a time for a context. */
#ifndef TLI_NN_LOSS_IMPL_H
#define TLI_NN_LOSS_IMPL_H

#include <tilth/nn/losses.h>

#define TLI_EPSILON 1e-7 /* Keras's, below which no probability goes */

/* Targets and predictions of one shape and float type, at least float32. False: the context
 * failed. */
bool tli_loss_pair(tl_ctx *c, tl_tensor **y_true, tl_tensor **y_pred);
/* The mean over the last axis; a vector is one value an example already. */
tl_tensor *tli_loss_mean(tl_ctx *c, tl_tensor *x);
/* The sum over the last axis. */
tl_tensor *tli_loss_sum(tl_ctx *c, tl_tensor *x);
/* A float tensor of at least 32 bits. */
tl_tensor *tli_loss_float(tl_ctx *c, tl_tensor *x);

/* A class whose configuration is `config_`, and whose values `call_` gives. */
#define TLI_LOSS_CLASS(id, config_, call_, help_)                                                  \
    const tl_loss_class tl_loss_##id = {.cls = {.class_size = sizeof(tl_loss_class),               \
                                                .name = #id,                                       \
                                                .help = help_,                                     \
                                                .size = sizeof(tl_loss),                           \
                                                .config = (config_)},                              \
                                        .call = (call_)};
#define TLI_LOSS_DESC(id, T, help_)                                                                \
    static const tl_desc id##_desc = {.name = #id,                                                 \
                                      .help = help_,                                               \
                                      .size = sizeof(T),                                           \
                                      .fields = id##_fields,                                       \
                                      .base = &tl_loss_config_desc};

#endif
