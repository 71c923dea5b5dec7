#include <tilth/nn/regularizer.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

static const tl_method methods[] = {TL_METHOD(tl_regularizer_class, loss, true), {NULL, 0, false}};
const tl_kind tl_kind_regularizer = {
    .name = "regularizer",
    .plural = "regularizers",
    .help = "terms of the loss for parameters",
    .class_size = sizeof(tl_regularizer_class),
    .methods = methods,
    .names_are_keys = true,
};

static tl_tensor *l1_term(tl_ctx *c, tl_tensor *w, double factor)
{
    return tl_scale(c, tl_sum(c, tl_abs(c, w), TL_ALL, false), factor);
}

static tl_tensor *l2_term(tl_ctx *c, tl_tensor *w, double factor)
{
    return tl_scale(c, tl_sum(c, tl_square(c, w), TL_ALL, false), factor);
}

static tl_tensor *l1_loss(tl_ctx *c, const void *config, tl_tensor *w)
{
    return l1_term(c, w, ((const tl_l1_regularizer *)config)->l1.value);
}

static tl_tensor *l2_loss(tl_ctx *c, const void *config, tl_tensor *w)
{
    return l2_term(c, w, ((const tl_l2_regularizer *)config)->l2.value);
}

static tl_tensor *l1_l2_loss(tl_ctx *c, const void *config, tl_tensor *w)
{
    const tl_l1_l2_regularizer *r = config;
    return tl_add(c, l1_term(c, w, r->l1), l2_term(c, w, r->l2));
}

#define FACTOR(T, member, what, ...)                                                               \
    TL_F(T, member, __VA_ARGS__, TL_AT_LEAST(0), .help = "factor of the " what)
static const tl_field l1_fields[] = {
    FACTOR(tl_l1_regularizer, l1, "magnitudes", TL_FILLED, .d = 0.01), TL_F_END};
static const tl_field l2_fields[] = {FACTOR(tl_l2_regularizer, l2, "squares", TL_FILLED, .d = 0.01),
                                     TL_F_END};
static const tl_field l1_l2_fields[] = {
    FACTOR(tl_l1_l2_regularizer, l1, "magnitudes", .d = 0),
    FACTOR(tl_l1_l2_regularizer, l2, "squares", .d = 0),
    TL_F_END,
};

#define REGULARIZER(id, help_)                                                                     \
    static const tl_desc id##_desc = {                                                             \
        .name = #id, .help = help_, .size = sizeof(tl_##id##_regularizer), .fields = id##_fields}; \
    static const tl_regularizer_class id##_regularizer = {                                         \
        .cls = {.class_size = sizeof(tl_regularizer_class),                                        \
                .name = #id,                                                                       \
                .help = help_,                                                                     \
                .config = &id##_desc},                                                             \
        .loss = id##_loss,                                                                         \
    };
REGULARIZER(l1, "sum of magnitudes")
REGULARIZER(l2, "sum of squares")
REGULARIZER(l1_l2, "sum of magnitudes and of squares")

static const tl_entry entries[] = {
    {&tl_kind_regularizer, &l1_regularizer.cls},
    {&tl_kind_regularizer, &l2_regularizer.cls},
    {&tl_kind_regularizer, &l1_l2_regularizer.cls},
};
const tl_module tl_regularizers_module = {TL_MODULE_HEAD("nn_regularizers"), entries,
                                          TL_COUNT(entries)};
