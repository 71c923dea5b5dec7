/* Layers of transformers, as Model Garden has them: its names, its defaults, its arithmetic. Each
 * is a registered class (`type: transformer_encoder_block`, `@TransformerEncoderBlock()`):
 *
 *     l->block = tl_transformer_encoder_block(s, "layer_0", .num_attention_heads = 12,
 *                                             .inner_dim = 3072, .inner_activation = "gelu");
 *     tl_tensors in = {0}, out = {0};
 *     tl_tensors_put(c, &in, "x", x);       // [batch, time, size]
 *     tl_tensors_put(c, &in, "mask", mask); // 1 where a key counts, [batch, time]
 *     tl_call_all(c, l->block, &in, &out);  // "y", and "scores" when they are asked for
 *
 * Activations are named as Model Garden names them: there `gelu` is the approximation by tanh, and
 * `gelu_erf` the exact one. A mask holds 1 and 0, in any type, [batch, keys] or [batch, queries,
 * keys]; what it leaves out gets -1e9 added to its score, so that a query that may look at nothing
 * looks at all keys alike.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_NN_TRANSFORMER_H
#define TILTH_NN_TRANSFORMER_H

#include <tilth/nn/layers.h>

TL_BEGIN

TL_API extern const tl_module tl_transformer_module;

/* The function that Model Garden means by a name, in any case: gelu, gelu_erf, relu, tanh, swish,
 * linear, ... TL_EINVAL names those that there are. */
TL_API TL_NODISCARD tl_status tl_transformer_activation(tl_activation *out, const char *name);

/* --- attention -------------------------------------------------------------------------------- */

/* "query" looks at "value" (and "key", if it differs) under an optional "mask"; one tensor alone
 * looks at itself. Layers query, key, value, attention_output. talking_heads_attention mixes the
 * heads' scores before the softmax, and their weights behind it: pre_softmax_weight and
 * post_softmax_weight, [heads, heads]. */
typedef struct tl_multi_head_attention_config {
    tl_layer_config layer;
    int64_t num_heads;                             /* required */
    int64_t key_dim;                               /* required: of each head */
    tl_opt_int value_dim;                          /* as key_dim */
    tl_opt_double dropout;                         /* 0: share of weights */
    tl_opt_bool use_bias;                          /* true */
    tl_opt_int output_shape;                       /* size of the result; as the query's */
    tl_ints attention_axes;                        /* (later) */
    tl_opt_int num_kv_heads;                       /* as num_heads: fewer share keys and values */
    bool return_attention_scores;                  /* gives "scores" too: [batch, heads, T, S] */
    tl_oneof kernel_initializer, bias_initializer; /* glorot_uniform, zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
} tl_multi_head_attention_config;
typedef tl_multi_head_attention_config tl_talking_heads_attention_config;
TL_API extern const tl_layer_class tl_layer_multi_head_attention, tl_layer_talking_heads_attention;
#define tl_multi_head_attention(scope, ...) TL_LAYER_(scope, multi_head_attention, __VA_ARGS__)
#define tl_talking_heads_attention(scope, ...)                                                     \
    TL_LAYER_(scope, talking_heads_attention, __VA_ARGS__)

/* --- feed-forward ----------------------------------------------------------------------------- */

typedef enum tl_dropout_position {
    TL_DROP_BEFORE_RESIDUAL,
    TL_DROP_AFTER_RESIDUAL
} tl_dropout_position;

/* num_blocks times: activation(x a) (x gate) b, with residual and norm unless
 * apply_output_layer_norm is off. Layers intermediate_0, gate_0, output_0, output_layer_norm_0. */
typedef struct tl_gated_feedforward_config {
    tl_layer_config layer;
    int64_t inner_dim;                             /* 768 */
    const char *inner_activation;                  /* gelu */
    tl_opt_double dropout;                         /* 0 */
    tl_opt_bool use_gate;                          /* true */
    tl_opt_bool apply_output_layer_norm;           /* true */
    int64_t num_blocks;                            /* 1 */
    tl_dropout_position dropout_position;          /* before_residual */
    tl_opt_int intermediate_size;                  /* another name of inner_dim */
    const char *intermediate_activation;           /* and of inner_activation */
    tl_oneof kernel_initializer, bias_initializer; /* glorot_uniform, zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
} tl_gated_feedforward_config;
TL_API extern const tl_layer_class tl_layer_gated_feedforward;
#define tl_gated_feedforward(scope, ...) TL_LAYER_(scope, gated_feedforward, __VA_ARGS__)

/* --- blocks ----------------------------------------------------------------------------------- */

/* Attention and two dense layers, each with a residual and a norm. Takes "x", or "x" and "mask", or
 * "x", "key_value" and "mask". Layers self_attention, self_attention_layer_norm, intermediate,
 * output, output_layer_norm. */
typedef struct tl_transformer_encoder_block_config {
    tl_layer_config layer;
    int64_t num_attention_heads, inner_dim; /* required */
    const char *inner_activation;           /* gelu */
    tl_opt_int output_range;                /* null: all; only so many queries are computed */
    tl_oneof kernel_initializer, bias_initializer, attention_initializer;
    tl_opt_bool use_bias; /* true: of the attention */
    bool norm_first;
    tl_opt_double norm_epsilon;   /* 1e-12 */
    tl_opt_double output_dropout; /* 0 */
    /* 0: of the weights, and, as in Model Garden, of what the attention gives */
    tl_opt_double attention_dropout;
    tl_opt_double inner_dropout;    /* 0: behind the activation */
    tl_opt_bool use_query_residual; /* true */
    tl_opt_int key_dim, value_dim, output_last_dim, num_kv_heads;
    bool diff_q_kv_att_layer_norm;             /* with norm_first: another norm for key_value */
    bool return_attention_scores;              /* gives "scores" too */
    bool use_rms_norm, use_sigmoid_attn;       /* (later) */
    tl_ints attention_axes;                    /* (later) */
    tl_opt_int src_block_size, tgt_block_size; /* (later) */
    tl_opt_int linformer_dim;                  /* (later) */
    tl_opt_double sigmoid_attn_bias;           /* (later) */
} tl_transformer_encoder_block_config;
TL_API extern const tl_layer_class tl_layer_transformer_encoder_block;
#define tl_transformer_encoder_block(scope, ...)                                                   \
    TL_LAYER_(scope, transformer_encoder_block, __VA_ARGS__)

/* The same with an attention and a feed-forward layer of one's choice: classes, which are given
 * sizes and initialisers, or what `@Name()` made in gin, which is taken as it is. Takes "x", or "x"
 * and "mask". As in Model Garden the inner activation is gelu whatever is asked for by the name
 * intermediate_activation, and norm_first leaves the values of the attention without a norm. */
typedef struct tl_transformer_scaffold_config {
    tl_layer_config layer;
    int64_t num_attention_heads;                        /* required */
    int64_t inner_dim;                                  /* 768 */
    const char *inner_activation;                       /* gelu */
    tl_opt_int intermediate_size;                       /* another name of inner_dim */
    const char *intermediate_activation;                /* without effect */
    tl_ref attention_cls;                               /* multi_head_attention */
    tl_ref feedforward_cls;                             /* two dense layers */
    const tl_value *attention_cfg, *feedforward_cfg;    /* (later) */
    tl_opt_double dropout_rate, attention_dropout_rate; /* 0 */
    bool norm_first;
    tl_opt_double norm_epsilon;                    /* 1e-12 */
    tl_oneof kernel_initializer, bias_initializer; /* glorot_uniform, zeros */
    tl_oneof kernel_regularizer, bias_regularizer; /* none */
    const tl_value *activity_regularizer, *kernel_constraint, *bias_constraint; /* (later) */
} tl_transformer_scaffold_config;
TL_API extern const tl_layer_class tl_layer_transformer_scaffold;
#define tl_transformer_scaffold(scope, ...) TL_LAYER_(scope, transformer_scaffold, __VA_ARGS__)

/* --- embeddings and masks --------------------------------------------------------------------- */

/* Rows of a table by integer. Parameter embeddings [vocab_size, embedding_width]. As in Model
 * Garden, clipping takes each row that was looked up by itself (tl_layer_looked_up); with
 * use_one_hot it takes the table. */
typedef struct tl_on_device_embedding_config {
    tl_layer_config layer;
    int64_t vocab_size, embedding_width; /* required */
    tl_oneof initializer;                /* glorot_uniform */
    bool use_one_hot;                    /* numbers outside of the table give zeros */
    tl_opt_double scale_factor;          /* null: none */
} tl_on_device_embedding_config;
TL_API extern const tl_layer_class tl_layer_on_device_embedding;
#define tl_on_device_embedding(scope, ...) TL_LAYER_(scope, on_device_embedding, __VA_ARGS__)

/* A row for each place along the axis `seq_axis` of the input "x", to be added to it: the first of
 * max_length, or those of "position_ids", if they are given. Parameter embeddings [max_length, size
 * of the input's last axis]. */
typedef struct tl_position_embedding_config {
    tl_layer_config layer;
    int64_t max_length;   /* required */
    tl_oneof initializer; /* glorot_uniform */
    int64_t seq_axis;     /* 1 */
} tl_position_embedding_config;
TL_API extern const tl_layer_class tl_layer_position_embedding;
#define tl_position_embedding(scope, ...) TL_LAYER_(scope, position_embedding, __VA_ARGS__)

/* "inputs" [batch, T, ...] and "to_mask" [batch, S]: a mask [batch, T, S]. */
typedef tl_plain_config tl_self_attention_mask_config;
TL_API extern const tl_layer_class tl_layer_self_attention_mask;
#define tl_self_attention_mask(scope, ...) TL_LAYER_(scope, self_attention_mask, __VA_ARGS__)

/* Words, places and types of "word_ids", "mask" and "type_ids" [batch, time], added, normed,
 * dropped out and brought to hidden_size: "embeddings" and "attention_mask". With
 * pack_multiple_sequences a row holds several sequences, each of which begins with the word that
 * the row begins with: places count from 0 in each, and none sees another (the mask is then [batch,
 * time, time]). With use_position_id places are an input, "position_ids" [batch, time]. Layers
 * word_embeddings, position_embedding, type_embeddings, layer_norm, embedding_projection. */
typedef struct tl_packed_sequence_embedding_config {
    tl_layer_config layer;
    int64_t vocab_size, type_vocab_size, hidden_size, max_seq_length; /* required */
    tl_opt_int embedding_width;                                       /* as hidden_size */
    tl_oneof initializer;                                             /* glorot_uniform */
    tl_opt_double dropout_rate;                                       /* 0 */
    bool use_position_id, pack_multiple_sequences;
} tl_packed_sequence_embedding_config;
TL_API extern const tl_layer_class tl_layer_packed_sequence_embedding;
#define tl_packed_sequence_embedding(scope, ...)                                                   \
    TL_LAYER_(scope, packed_sequence_embedding, __VA_ARGS__)

/* --- heads ------------------------------------------------------------------------------------ */

/* Scores of each word for the places that were hidden: "sequence_data" [batch, time, size],
 * "masked_positions" [batch, P] and "embedding_table" [words, width] give [batch, P, words]. A
 * position is one of its own sequence; others are TL_EINVAL. Layers
 * transform/dense, transform/LayerNorm, parameter output_bias/bias. */
typedef enum tl_masked_lm_output {
    TL_MASKED_LM_LOGITS,
    TL_MASKED_LM_PREDICTIONS
} tl_masked_lm_output;
typedef struct tl_masked_lm_config {
    tl_layer_config layer;
    const char *activation;     /* linear */
    tl_oneof initializer;       /* glorot_uniform */
    tl_masked_lm_output output; /* logits; predictions are their log-softmax */
} tl_masked_lm_config;
TL_API extern const tl_layer_class tl_layer_masked_lm;
#define tl_masked_lm(scope, ...) TL_LAYER_(scope, masked_lm, __VA_ARGS__)

/* Scores of classes from one place of a sequence [batch, time, size], through a dense layer of
 * inner_dim units, or, with inner_dim 0, from features [batch, size] as they are. Layers
 * pooler_dense, logits. */
typedef struct tl_classification_head_config {
    tl_layer_config layer;
    int64_t inner_dim;          /* 0 */
    int64_t num_classes;        /* required */
    int64_t cls_token_idx;      /* 0 */
    const char *activation;     /* tanh */
    tl_opt_double dropout_rate; /* 0 */
    tl_oneof initializer;       /* glorot_uniform */
} tl_classification_head_config;
TL_API extern const tl_layer_class tl_layer_classification_head;
#define tl_classification_head(scope, ...) TL_LAYER_(scope, classification_head, __VA_ARGS__)

TL_END

#endif
