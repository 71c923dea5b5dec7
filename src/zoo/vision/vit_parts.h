/* Private to vision: what vision transformers are made of. Layers and arithmetic are Model
 * Garden's: norms before each part, gelu by tanh. */
#ifndef TILTH_SRC_ZOO_VISION_VIT_PARTS_H
#define TILTH_SRC_ZOO_VISION_VIT_PARTS_H

#include <tilth/zoo/backbone.h>

/* A token before all others, of which a classifier is told: parameter cls [1, 1, size]. Takes and
 * gives [batch, tokens, size]. */
tl_layer *tli_vit_token(tl_scope *s, const char *name);

typedef struct tli_vit_position_config {
    bool token;         /* the first place is that of the token */
    int64_t rows, cols; /* grid of the table; 0: that of the first input */
} tli_vit_position_config;
/* Adds a row of the table pos_embedding [1, places, size] to each token. Takes tokens "x" and their
 * "map" [batch, rows, columns, size]; for another grid than its own the table is resized. A table
 * that was trained for another grid fits (tl_layer_class): it is resized once. */
tl_layer *tli_vit_position(tl_scope *s, const char *name, const tli_vit_position_config *config);

typedef struct tli_vit_block_config {
    int64_t hidden_size, heads, mlp_dim;
    double dropout_rate, attention_dropout_rate, drop_rate; /* drop_rate: of examples */
    double norm_epsilon;
    double layer_scale; /* first values of the scales behind each part; 0: no scales */
    bool gives_scores;  /* "scores" too: [batch, heads, tokens, tokens] */
    tl_oneof kernel_initializer;
} tli_vit_block_config;
/* Attention and two dense layers, each with a norm before it and a residual. */
tl_layer *tli_vit_block(tl_scope *s, const char *name, const tli_vit_block_config *config);

#endif
