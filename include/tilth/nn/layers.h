/* The layers that ship. Each is a registered class with a described configuration, so YAML and gin
 * can name it (`type: dense`, `@Dense()`), and a constructor that reads like a sentence:
 *
 *     l->up = tl_dense(s, "up", .units = 4 * c->size, .activation = TL_ACT_GELU);
 *     l->norm = tl_layer_norm(s, "norm");
 *     l->down = tl_dense(s, "down", .units = c->size, .layer.frozen = true);
 *
 * In these literals a member that is left out has the default that stands behind it. Numbers whose
 * default is not zero, and that may be zero, are optionals: .momentum = TL_SET(0.9), .epsilon =
 * TL_SET(0). What YAML says is taken as it stands. Images are NHWC, sequences [batch, time,
 * channels].
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_NN_LAYERS_H
#define TILTH_NN_LAYERS_H

#include <tilth/nn/layer.h>
#include <tilth/nn/regularizer.h>
#include <tilth/ops/conv.h>
#include <tilth/ops/matmul.h>

TL_BEGIN

TL_API extern const tl_module tl_layers_module;

/* The first of what follows is the name, the others are members of the configuration. */
#if !defined __cplusplus || __cplusplus < 202002L
#define TL_LAYER_(scope, kind, ...)                                                                \
    tl_scope_layer((scope), NULL, &tl_layer_##kind,                                                \
                   TL_LITERAL(tl_##kind##_config, .layer.name = __VA_ARGS__))
#else
#define TL_LAYER_(scope, kind, ...) TL_NAMED_LAYER_(scope, kind, __VA_ARGS__)
#define TL_NAMED_LAYER_(scope, kind, label, ...)                                                   \
    tl_scope_layer((scope), NULL, &tl_layer_##kind,                                                \
                   TL_LITERAL(tl_##kind##_config,                                                  \
                              .layer = TL_INIT(.name = (label)) __VA_OPT__(, ) __VA_ARGS__))
#endif

/* --- dense, embedding ------------------------------------------------------------------------- */

/* y = activation(x w + b) over the last axis. Parameters kernel [inputs, units], bias [units]. */
typedef struct tl_dense_config {
    tl_layer_config layer;
    int64_t units;            /* required */
    tl_activation activation; /* none */
    bool without_bias;
    tl_oneof kernel_initializer;                   /* glorot_uniform */
    tl_oneof bias_initializer;                     /* zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
} tl_dense_config;
TL_API extern const tl_layer_class tl_layer_dense;
#define tl_dense(scope, ...) TL_LAYER_(scope, dense, __VA_ARGS__)

/* Rows of a table by integer. Parameter table [entries, size]. */
typedef struct tl_embedding_config {
    tl_layer_config layer;
    int64_t entries, size; /* required */
    tl_opt_double scale;   /* 1: what looked-up rows are multiplied by */
    tl_oneof initializer;  /* random_uniform */
    tl_oneof regularizer;  /* none */
} tl_embedding_config;
TL_API extern const tl_layer_class tl_layer_embedding;
#define tl_embedding(scope, ...) TL_LAYER_(scope, embedding, __VA_ARGS__)
/* Scores of each entry for x [..., size]: x times the table, transposed. What ties input and output
 * embeddings. The layer need not have been called before. */
TL_API tl_tensor *tl_embedding_scores(tl_ctx *c, tl_layer *embedding, tl_tensor *x);

/* --- convolution ------------------------------------------------------------------------------ */

/* Parameters kernel [height, width, inputs / groups, filters], bias [filters]. */
typedef struct tl_conv2d_config {
    tl_layer_config layer;
    int64_t filters;                  /* required */
    int64_t kernel, kernel_width;     /* required; width: as the height */
    int64_t stride, stride_width;     /* 1; as the height */
    int64_t dilation, dilation_width; /* 1; as the height */
    int64_t groups;                   /* 1 */
    tl_padding padding;               /* valid */
    int64_t pad;                      /* 0; TL_EXPLICIT: zeros on each side */
    tl_activation activation;         /* none */
    bool without_bias;
    tl_oneof kernel_initializer;                   /* glorot_uniform */
    tl_oneof bias_initializer;                     /* zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
} tl_conv2d_config;
TL_API extern const tl_layer_class tl_layer_conv2d;
#define tl_conv2d(scope, ...) TL_LAYER_(scope, conv2d, __VA_ARGS__)

/* The other way round: what conv2d's gradient does. Kernel [height, width, filters / groups,
 * inputs]. */
typedef tl_conv2d_config tl_conv2d_transpose_config;
TL_API extern const tl_layer_class tl_layer_conv2d_transpose;
#define tl_conv2d_transpose(scope, ...) TL_LAYER_(scope, conv2d_transpose, __VA_ARGS__)

/* One set of filters for each channel. Parameters kernel [height, width, inputs, multiplier], bias
 * [inputs * multiplier]. */
typedef struct tl_depthwise_conv2d_config {
    tl_layer_config layer;
    int64_t multiplier;               /* 1: filters of each channel */
    int64_t kernel, kernel_width;     /* required; width: as the height */
    int64_t stride, stride_width;     /* 1; as the height */
    int64_t dilation, dilation_width; /* 1; as the height */
    tl_padding padding;               /* valid */
    int64_t pad;                      /* 0; TL_EXPLICIT: zeros on each side */
    tl_activation activation;         /* none */
    bool without_bias;
    tl_oneof kernel_initializer;                   /* glorot_uniform */
    tl_oneof bias_initializer;                     /* zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
} tl_depthwise_conv2d_config;
TL_API extern const tl_layer_class tl_layer_depthwise_conv2d;
#define tl_depthwise_conv2d(scope, ...) TL_LAYER_(scope, depthwise_conv2d, __VA_ARGS__)

/* Along time. Parameters kernel [width, inputs / groups, filters], bias [filters]. */
typedef struct tl_conv1d_config {
    tl_layer_config layer;
    int64_t filters;                  /* required */
    int64_t kernel;                   /* required */
    int64_t stride, dilation, groups; /* 1 */
    tl_padding padding;               /* valid */
    int64_t pad;                      /* 0; TL_EXPLICIT: zeros on each side */
    tl_activation activation;         /* none */
    bool without_bias;
    tl_oneof kernel_initializer;                   /* glorot_uniform */
    tl_oneof bias_initializer;                     /* zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
} tl_conv1d_config;
TL_API extern const tl_layer_class tl_layer_conv1d;
#define tl_conv1d(scope, ...) TL_LAYER_(scope, conv1d, __VA_ARGS__)

/* --- normalisation ---------------------------------------------------------------------------- */

/* Mean 0 and deviation 1 over the last axis. Parameters gamma and beta, [channels] each. */
typedef struct tl_layer_norm_config {
    tl_layer_config layer;
    tl_opt_double epsilon;             /* 1e-5: added to the variance */
    bool without_scale, without_shift; /* no gamma, no beta */
} tl_layer_norm_config;
TL_API extern const tl_layer_class tl_layer_layer_norm;
#define tl_layer_norm(scope, ...) TL_LAYER_(scope, layer_norm, __VA_ARGS__)

/* Mean square 1 over the last axis. Parameter gamma. */
typedef struct tl_rms_norm_config {
    tl_layer_config layer;
    tl_opt_double epsilon; /* 1e-6 */
    bool without_scale;
} tl_rms_norm_config;
TL_API extern const tl_layer_class tl_layer_rms_norm;
#define tl_rms_norm(scope, ...) TL_LAYER_(scope, rms_norm, __VA_ARGS__)

/* Mean 0 and deviation 1 over each example's groups of neighbouring channels. */
typedef struct tl_group_norm_config {
    tl_layer_config layer;
    tl_opt_double epsilon; /* 1e-3 */
    bool without_scale, without_shift;
    int64_t groups; /* 32 */
} tl_group_norm_config;
TL_API extern const tl_layer_class tl_layer_group_norm;
#define tl_group_norm(scope, ...) TL_LAYER_(scope, group_norm, __VA_ARGS__)

/* In training by the statistics of the batch, over all axes but the last; these also move the
 * states moving_mean and moving_variance. Otherwise, and for a frozen layer, by the states.
 *
 * As in Keras, moving_variance takes in the variance of the batch, but for images (rank 4, not
 * float64) that of the population as it is estimated from them, n / (n - 1) times as much; with
 * `synchronized` that of the batch too. */
typedef struct tl_batch_norm_config {
    tl_layer_config layer;
    tl_opt_double epsilon; /* 1e-3 */
    bool without_scale, without_shift;
    tl_opt_double momentum; /* 0.99: how much of the running statistics stays */
    bool synchronized;      /* over all lanes together, as Keras's over several replicas */
} tl_batch_norm_config;
TL_API extern const tl_layer_class tl_layer_batch_norm;
#define tl_batch_norm(scope, ...) TL_LAYER_(scope, batch_norm, __VA_ARGS__)

/* --- attention -------------------------------------------------------------------------------- */

/* Multi-head attention of x [batch, time, size] to itself, or, by tl_call_all, of "query" to
 * "value" (and "key", if it differs), with an optional "mask" (bool) [batch, time of value] of what
 * may be seen. Layers query, key, value, output. */
typedef struct tl_attention_config {
    tl_layer_config layer;
    int64_t heads;     /* required */
    int64_t kv_heads;  /* as heads: fewer share keys and values */
    int64_t head_size; /* size / heads */
    bool causal;
    bool without_bias;
    double dropout;              /* 0 */
    tl_oneof kernel_initializer; /* glorot_uniform */
} tl_attention_config;
TL_API extern const tl_layer_class tl_layer_attention;
#define tl_attention(scope, ...) TL_LAYER_(scope, attention, __VA_ARGS__)

/* --- without parameters: named _layer, since their ops have the short names ------------------- */

typedef struct tl_activation_config {
    tl_layer_config layer;
    tl_activation function; /* none */
} tl_activation_config;
TL_API extern const tl_layer_class tl_layer_activation;
#define tl_activation_layer(scope, ...) TL_LAYER_(scope, activation, __VA_ARGS__)

typedef struct tl_dropout_config {
    tl_layer_config layer;
    double rate; /* 0: share that is dropped in training, in [0, 1] */
} tl_dropout_config;
typedef tl_dropout_config tl_stochastic_depth_config;
/* Each element, or each example as a whole. */
TL_API extern const tl_layer_class tl_layer_dropout, tl_layer_stochastic_depth;
#define tl_dropout_layer(scope, ...) TL_LAYER_(scope, dropout, __VA_ARGS__)
#define tl_stochastic_depth_layer(scope, ...) TL_LAYER_(scope, stochastic_depth, __VA_ARGS__)

typedef struct tl_pool_config {
    tl_layer_config layer;
    int64_t size, size_width;     /* 2; as the height */
    int64_t stride, stride_width; /* as the size */
    tl_padding padding;           /* valid */
    int64_t pad;                  /* 0; TL_EXPLICIT: places on each side, less than the size */
} tl_pool_config;
typedef tl_pool_config tl_max_pool_config, tl_avg_pool_config;
TL_API extern const tl_layer_class tl_layer_max_pool, tl_layer_avg_pool;
#define tl_max_pool_layer(scope, ...) TL_LAYER_(scope, max_pool, __VA_ARGS__)
#define tl_avg_pool_layer(scope, ...) TL_LAYER_(scope, avg_pool, __VA_ARGS__)

typedef struct tl_plain_config {
    tl_layer_config layer;
} tl_plain_config;
typedef tl_plain_config tl_global_avg_pool_config, tl_global_max_pool_config, tl_flatten_config;
/* [batch, ..., channels] to [batch, channels]; to [batch, everything else]. */
TL_API extern const tl_layer_class tl_layer_global_avg_pool, tl_layer_global_max_pool,
    tl_layer_flatten;
#define tl_global_avg_pool_layer(scope, ...) TL_LAYER_(scope, global_avg_pool, __VA_ARGS__)
#define tl_global_max_pool_layer(scope, ...) TL_LAYER_(scope, global_max_pool, __VA_ARGS__)
#define tl_flatten_layer(scope, ...) TL_LAYER_(scope, flatten, __VA_ARGS__)

/* --- made of others --------------------------------------------------------------------------- */

/* One layer of a list: `{name: up, layer: {type: dense, dense: {units: 8}}}`. */
typedef struct tl_layer_choice {
    const char *name; /* that of its configuration, else its type and place in the list: dense_0 */
    tl_oneof layer;
} tl_layer_choice;
/* One after the other. */
typedef struct tl_sequential_config {
    tl_layer_config layer;
    tl_structs layers; /* of tl_layer_choice */
} tl_sequential_config;
/* x + what the layers make of it; with a `shortcut`, what that makes of x + what the layers make of
 * it. Both must have one shape. */
typedef struct tl_residual_config {
    tl_layer_config layer;
    tl_structs layers;
    tl_oneof shortcut; /* none */
} tl_residual_config;
TL_API extern const tl_layer_class tl_layer_sequential, tl_layer_residual;
#define TL_LAYERS(...)                                                                             \
    TL_INIT(TL_ITEMS_(tl_layer_choice, __VA_ARGS__), TL_COUNT_OF_(tl_layer_choice, __VA_ARGS__))
#define tl_sequential(scope, ...) TL_LAYER_(scope, sequential, __VA_ARGS__)
#define tl_residual(scope, ...) TL_LAYER_(scope, residual, __VA_ARGS__)

TL_END

#endif
