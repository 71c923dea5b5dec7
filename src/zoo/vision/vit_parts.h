/* Private to vision: what vision transformers are made of. Layers and arithmetic are Model
 * Garden's, with norms before each part; what others do in another way is in `tli_vit_ways`. */
#ifndef TILTH_SRC_ZOO_VISION_VIT_PARTS_H
#define TILTH_SRC_ZOO_VISION_VIT_PARTS_H

#include <tilth/zoo/backbone.h>

/* A token before all others, of which a classifier is told: parameter cls [1, 1, size]. Takes and
 * gives [batch, tokens, size]. `initializer` NULL: zeros. */
tl_layer *tli_vit_token(tl_scope *s, const char *name, const tl_oneof *initializer);

typedef struct tli_vit_position_config {
    bool token;         /* the first place is that of the token */
    int64_t rows, cols; /* grid of the table; 0: that of the first input */
    tl_oneof initializer;
} tli_vit_position_config;
/* Adds a row of the table pos_embedding [1, places, size] to each token. Takes tokens "x" and their
 * "map" [batch, rows, columns, size]; for another grid than its own the table is resized. A table
 * that was trained for another grid fits (tl_layer_class): it is resized once. */
tl_layer *tli_vit_position(tl_scope *s, const char *name, const tli_vit_position_config *config);

typedef struct tli_vit_block_config {
    int64_t hidden_size, heads, mlp_dim;
    double dropout_rate, attention_dropout_rate, drop_rate; /* drop_rate: of examples */
    double attention_output_rate;                           /* dropped of what attention gives */
    tl_activation activation;
    double norm_epsilon;
    double layer_scale; /* first values of the scales behind each part; 0: no scales */
    bool gives_scores;  /* "scores" too: [batch, heads, tokens, tokens] */
    tl_oneof kernel_initializer;
} tli_vit_block_config;
/* Attention and two dense layers, each with a norm before it and a residual. */
tl_layer *tli_vit_block(tl_scope *s, const char *name, const tli_vit_block_config *config);

/* --- the whole -------------------------------------------------------------------------------- */

typedef struct tli_vit_sizes {
    const char *name; /* vit-b16; NULL: it has none */
    int64_t patch, hidden, mlp, heads, layers;
} tli_vit_sizes;
/* Those of a name, or where there is none those of the configuration. */
tli_vit_sizes tli_vit_sizes_of(const tl_vit_config *c);
/* Those that have a name; the last one's is NULL. */
extern const tli_vit_sizes tli_vit_models[];

/* How a transformer that is not Model Garden's begins, and where it drops. */
typedef struct tli_vit_ways {
    double attention_output_rate;
    tl_oneof kernel, patch, token, position; /* initializers; what they point at is static */
} tli_vit_ways;
/* `ways` NULL: Model Garden's. */
tl_layer *tli_vit_make(tl_scope *s, const char *name, const tl_vit_config *config,
                       const tl_backbone_parts *parts, const tli_vit_ways *ways);
/* Of LiBai's. */
#define TLI_LIBAI_EPSILON 1e-5
tli_vit_sizes tli_vision_transformer_sizes(const tl_vision_transformer_config *c);

#endif
