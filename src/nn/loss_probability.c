#include <math.h>

#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/view.h>

#include "nn/loss_impl.h"
#include "nn/weight.h"

static tl_tensor *clip_share(tl_ctx *c, tl_tensor *p)
{
    return tl_clip(c, p, TLI_EPSILON, 1 - TLI_EPSILON);
}

static tl_tensor *one_less(tl_ctx *c, tl_tensor *x)
{
    return tl_affine(c, x, -1, 1);
}

// Shares that add up to 1 along the last axis, none of them 0 or 1.
static tl_tensor *clean_shares(tl_ctx *c, tl_tensor *p)
{
    return clip_share(c, tl_div(c, p, tl_sum(c, p, TL_AXES(-1), true)));
}

static bool check_classes(tl_ctx *c, const tl_tensor *p)
{
    if (tl_ctx_failed(c)) return false;
    if (p->shape.rank) return true;
    (void)TL_FAIL(TL_EINVAL, "the predictions are a scalar and have no axis of classes");
    tl_ctx_fail(c);
    return false;
}

/* --- yes or no -------------------------------------------------------------------------------- */

static tl_tensor *smooth_binary(tl_ctx *c, tl_tensor *y, double smoothing)
{
    return smoothing != 0 ? tl_affine(c, y, 1 - smoothing, 0.5 * smoothing) : y;
}

// Of each element.
static tl_tensor *binary_values(tl_ctx *c, tl_tensor *y, tl_tensor *p, bool from_logits)
{
    if (from_logits) return tl_sigmoid_cross_entropy(c, y, p);
    // Each is clipped by itself: float32 has nothing between 1 - 1.2e-7 and 1.
    tl_tensor *yes = tl_mul(c, y, tl_log(c, clip_share(c, p)));
    tl_tensor *no = tl_mul(c, one_less(c, y), tl_log(c, clip_share(c, one_less(c, p))));
    return tl_neg(c, tl_add(c, yes, no));
}

tl_tensor *tl_binary_crossentropy(tl_ctx *c, tl_tensor *y, tl_tensor *p,
                                  const tl_crossentropy_config *how)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    y = smooth_binary(c, y, how->label_smoothing);
    return tli_loss_mean(c, binary_values(c, y, p, how->from_logits));
}

// x^gamma for x from 0 to 1, with a finite slope everywhere. Small multiples of a half, such as the
// 1.5 of detectors, are products and a root: powers take many times as long.
static tl_tensor *modulator(tl_ctx *c, tl_tensor *x, double gamma)
{
    enum { MOST = 4 };
    if (gamma == 2) return tl_square(c, x);
    x = tl_clip(c, x, TLI_EPSILON, 1);
    if (gamma > 0 && gamma <= MOST && 2 * gamma == floor(2 * gamma)) {
        tl_tensor *y = gamma > floor(gamma) ? tl_sqrt(c, x) : NULL;
        for (double left = floor(gamma); left > 0; left--) y = y ? tl_mul(c, y, x) : x;
        return y;
    }
    return x ? tl_pow(c, x, tl_number(c, x->dtype, gamma)) : NULL;
}

static tl_tensor *focal_values(tl_ctx *c, tl_tensor *y, tl_tensor *p, const tl_focal_config *how)
{
    y = smooth_binary(c, y, how->label_smoothing);
    tl_tensor *values = binary_values(c, y, p, how->from_logits);
    if (how->from_logits) p = tl_sigmoid(c, p);
    // How far the answer is from the target: 1 - (y p + (1 - y) (1 - p)).
    tl_tensor *right = tl_add(c, tl_mul(c, y, p), tl_mul(c, one_less(c, y), one_less(c, p)));
    values = tl_mul(c, modulator(c, one_less(c, right), how->gamma.value), values);
    if (!how->apply_class_balancing) return values;
    return tl_mul(c, tl_affine(c, y, 2 * how->alpha.value - 1, 1 - how->alpha.value), values);
}

tl_tensor *tl_binary_focal_crossentropy(tl_ctx *c, tl_tensor *y, tl_tensor *p,
                                        const tl_focal_config *how)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    return tli_loss_mean(c, focal_values(c, y, p, how));
}

tl_tensor *tl_focal(tl_ctx *c, tl_tensor *y, tl_tensor *logits, double alpha, double gamma)
{
    if (!tli_loss_pair(c, &y, &logits)) return NULL;
    tl_focal_config how = {.from_logits = true,
                           .alpha = TL_SET(alpha),
                           .gamma = TL_SET(gamma),
                           .apply_class_balancing = true};
    return focal_values(c, y, logits, &how);
}

/* --- classes ---------------------------------------------------------------------------------- */

tl_tensor *tl_categorical_crossentropy(tl_ctx *c, tl_tensor *y, tl_tensor *p,
                                       const tl_crossentropy_config *how)
{
    if (!tli_loss_pair(c, &y, &p) || !check_classes(c, p)) return NULL;
    if (how->from_logits) return tl_cross_entropy(c, y, p, how->label_smoothing);
    double classes = (double)p->shape.dims[p->shape.rank - 1], smoothing = how->label_smoothing;
    if (smoothing != 0) y = tl_affine(c, y, 1 - smoothing, smoothing / classes);
    return tl_neg(c, tli_loss_sum(c, tl_mul(c, y, tl_log(c, clean_shares(c, p)))));
}

tl_tensor *tl_categorical_focal_crossentropy(tl_ctx *c, tl_tensor *y, tl_tensor *p,
                                             const tl_focal_config *how)
{
    if (!tli_loss_pair(c, &y, &p) || !check_classes(c, p)) return NULL;
    double classes = (double)p->shape.dims[p->shape.rank - 1], smoothing = how->label_smoothing;
    if (smoothing != 0) y = tl_affine(c, y, 1 - smoothing, smoothing / classes);
    tl_tensor *logs;
    if (how->from_logits) {
        logs = tl_log_softmax(c, p, -1);
        p = tl_exp(c, logs);
    } else {
        p = clean_shares(c, p);
        logs = tl_log(c, p);
    }
    tl_tensor *factor = modulator(c, one_less(c, p), how->gamma.value);
    tl_tensor *sum = tli_loss_sum(c, tl_mul(c, factor, tl_mul(c, y, logs)));
    return tl_scale(c, sum, -how->alpha.value);
}

// Minus the logarithm of the share of each label; labels are classes.
static tl_tensor *label_values(tl_ctx *c, tl_tensor *labels, tl_tensor *p)
{
    tl_tensor *places = tl_expand_dims(c, labels, -1);
    tl_tensor *logs = tl_log(c, tl_take_along_axis(c, clean_shares(c, p), places, -1));
    return tl_neg(c, tl_squeeze(c, logs, TL_AXES(-1)));
}

tl_tensor *tl_sparse_categorical_crossentropy(tl_ctx *c, tl_tensor *y, tl_tensor *p,
                                              const tl_sparse_crossentropy_config *how)
{
    if (tl_ctx_failed(c) || !check_classes(c, p)) return NULL;
    p = tli_loss_float(c, p);
    y = tli_labels(c, y, p);
    if (tl_ctx_failed(c)) return NULL;
    if (how->from_logits) return tl_sparse_cross_entropy(c, y, p, .ignored = how->ignore_class);
    if (!how->ignore_class.set) return label_values(c, y, p);
    tl_tensor *ignored = tl_equal(c, y, tl_number(c, TL_I64, (double)how->ignore_class.value));
    tl_tensor *values = label_values(c, tl_where(c, ignored, tl_number(c, TL_I64, 0), y), p);
    return values ? tl_where(c, ignored, tl_number(c, values->dtype, 0), values) : NULL;
}

/* --- distributions and counts ----------------------------------------------------------------- */

tl_tensor *tl_kl_divergence(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p) || !check_classes(c, p)) return NULL;
    y = tl_clip(c, y, TLI_EPSILON, 1);
    p = tl_clip(c, p, TLI_EPSILON, 1);
    return tli_loss_sum(c, tl_mul(c, y, tl_log(c, tl_div(c, y, p))));
}

tl_tensor *tl_poisson(tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    if (!tli_loss_pair(c, &y, &p)) return NULL;
    return tli_loss_mean(c, tl_sub(c, p, tl_mul(c, y, tl_log(c, tl_shift(c, p, TLI_EPSILON)))));
}

/* --- the classes of losses -------------------------------------------------------------------- */

#define FROM_LOGITS(T)                                                                             \
    TL_F(T, from_logits, .help = "predictions are given before the softmax or sigmoid")
#define SMOOTHING(T)                                                                               \
    TL_F(T, label_smoothing, TL_RANGE(0, 1), .help = "share of the targets that is spread evenly")

#define CONFIGURED(id, T, help_)                                                                   \
    static tl_tensor *id##_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)                 \
    {                                                                                              \
        return tl_##id(c, y, p, (const T *)l->config);                                             \
    }                                                                                              \
    TLI_LOSS_DESC(id, T, help_)                                                                    \
    TLI_LOSS_CLASS(id, &id##_desc, id##_call, help_)

static const tl_field binary_crossentropy_fields[] = {
    FROM_LOGITS(tl_crossentropy_config),
    SMOOTHING(tl_crossentropy_config),
    TL_F_END,
};
CONFIGURED(binary_crossentropy, tl_crossentropy_config, "cross-entropy of yes and no")

#define categorical_crossentropy_fields binary_crossentropy_fields
CONFIGURED(categorical_crossentropy, tl_crossentropy_config,
           "cross-entropy of shares of the classes")

static const tl_field sparse_categorical_crossentropy_fields[] = {
    FROM_LOGITS(tl_sparse_crossentropy_config),
    TL_F(tl_sparse_crossentropy_config, ignore_class, .help = "label whose loss is 0"),
    TL_F_END,
};
CONFIGURED(sparse_categorical_crossentropy, tl_sparse_crossentropy_config,
           "cross-entropy of class numbers")

static const tl_field binary_focal_crossentropy_fields[] = {
    FROM_LOGITS(tl_focal_config),
    SMOOTHING(tl_focal_config),
    TL_F(tl_focal_config, alpha, TL_FILLED, .d = 0.25, TL_RANGE(0, 1),
         .help = "weight of targets that are 1"),
    TL_F(tl_focal_config, gamma, TL_FILLED, .d = 2, TL_AT_LEAST(0),
         .help = "how much less good answers count"),
    TL_F(tl_focal_config, apply_class_balancing, .help = "alpha is used (binary alone)"),
    TL_F_END,
};
CONFIGURED(binary_focal_crossentropy, tl_focal_config,
           "cross-entropy of yes and no where good answers count less")

#define categorical_focal_crossentropy_fields binary_focal_crossentropy_fields
CONFIGURED(categorical_focal_crossentropy, tl_focal_config,
           "cross-entropy of shares where good answers count less")

static tl_tensor *focal_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)
{
    const tl_focal_loss_config *f = l->config;
    return tl_focal(c, y, p, f->alpha.value, f->gamma.value);
}
static const tl_field focal_fields[] = {
    TL_F(tl_focal_loss_config, alpha, TL_FILLED, .d = 0.25, TL_RANGE(0, 1),
         .help = "weight of targets that are 1"),
    TL_F(tl_focal_loss_config, gamma, TL_FILLED, .d = 2, TL_AT_LEAST(0),
         .help = "how much less good answers count"),
    TL_F_END,
};
TLI_LOSS_DESC(focal, tl_focal_loss_config, "that of detectors: of each logit, balanced")
TLI_LOSS_CLASS(focal, &focal_desc, focal_call, "that of detectors: of each logit, balanced")

#define PLAIN(id, help_)                                                                           \
    static tl_tensor *id##_call(tl_loss *l, tl_ctx *c, tl_tensor *y, tl_tensor *p)                 \
    {                                                                                              \
        (void)l;                                                                                   \
        return tl_##id(c, y, p);                                                                   \
    }                                                                                              \
    TLI_LOSS_CLASS(id, &tl_loss_config_desc, id##_call, help_)
PLAIN(kl_divergence, "how far a distribution is from the target's")
PLAIN(poisson, "prediction - target * log(prediction)")
