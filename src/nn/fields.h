/* Rows that many layers have. Thread word: immutable. */
#ifndef TLI_NN_FIELDS_H
#define TLI_NN_FIELDS_H

#include <tilth/nn/layers.h>

extern const char *const tli_padding_names[];
extern const tl_desc tli_layer_choice_desc;

#define TLI_INITIALIZER_ROW(T, member, help_)                                                      \
    TL_F(T, member, .kind = &tl_kind_initializer, .help = help_)
#define TLI_REGULARIZER_ROW(T, member, help_)                                                      \
    TL_F(T, member, .kind = &tl_kind_regularizer, .help = help_)
#define TLI_ACTIVATION_ROW(T, member)                                                              \
    TL_F(T, member, .names = tl_activation_names, .help = "function that follows")

/* A number that has no default: zero until somebody gives it, which is refused. */
#define TLI_REQUIRED_ROW(T, member, help_)                                                         \
    TL_F(T, member, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED, .help = help_)

/* A class whose configuration derives from tl_layer_config; `check_` (or NULL) runs over it. */
#define TLI_LAYER_CLASS(id, instance_, help_, ...)                                                 \
    TLI_CHECKED_LAYER_CLASS(id, instance_, NULL, help_, __VA_ARGS__)
#define TLI_CHECKED_LAYER_CLASS(id, instance_, check_, help_, ...)                                 \
    static const tl_desc id##_desc = {.name = #id,                                                 \
                                      .help = help_,                                               \
                                      .size = sizeof(tl_##id##_config),                            \
                                      .fields = id##_fields,                                       \
                                      .base = &tl_layer_config_desc,                               \
                                      .check = check_};                                            \
    const tl_layer_class tl_layer_##id = {.cls = {.class_size = sizeof(tl_layer_class),            \
                                                  .name = #id,                                     \
                                                  .help = help_,                                   \
                                                  .size = sizeof(instance_),                       \
                                                  .config = &id##_desc},                           \
                                          __VA_ARGS__};

/* What `chosen` names, or else the initialiser of that name. */
static inline tl_oneof tli_initializer_or(const tl_oneof *chosen, const char *otherwise)
{
    return chosen->type ? *chosen : (tl_oneof){.type = otherwise};
}

/* A parameter with an initialiser (its name when none was chosen) and a regulariser (or NULL). */
tl_tensor *tli_param(tl_scope *s, const char *name, tl_shape shape, const tl_oneof *initializer,
                     const char *otherwise, const tl_oneof *regularizer);
/* The last dimension of what a layer is given; an input that lacks `rank` dimensions is an error
 * (rank -1: at least one). */
TL_NODISCARD tl_status tli_channels(int64_t *out, const tl_tensor *x, int rank);

#endif
