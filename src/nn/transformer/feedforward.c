#include <tilth/ops/attention.h>
#include <tilth/ops/elementwise.h>

#include "nn/transformer/parts.h"

typedef struct gated_block {
    tl_layer *in, *gate, *out, *norm; /* gate and norm: NULL when left out */
} gated_block;

typedef struct gated {
    tl_layer base;
    gated_block *blocks;
    int64_t width; /* of what comes out: the input's */
} gated;

static int64_t inner_of(const tl_gated_feedforward_config *k)
{
    return k->intermediate_size.set ? k->intermediate_size.value : k->inner_dim;
}

static tl_layer *add_dense(tl_scope *s, const tl_gated_feedforward_config *k, const char *stem,
                           int64_t block, int64_t units, tl_activation activation)
{
    char *name = tl_arena_printf(tl_scope_arena(s), "%s_%lld", stem, (long long)block);
    return name ? tl_dense(
               s, name, .units = units, .activation = activation,
               .kernel_initializer = k->kernel_initializer, .bias_initializer = k->bias_initializer,
               .kernel_regularizer = k->kernel_regularizer, .bias_regularizer = k->bias_regularizer)
                : NULL;
}

static tl_status gated_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    gated *g = (gated *)l;
    const tl_gated_feedforward_config *k = l->config;
    tl_activation activation;
    TL_TRY(tli_channels(&g->width, x, 3));
    TL_TRY(tl_transformer_activation(&activation, *k->intermediate_activation
                                                      ? k->intermediate_activation
                                                      : k->inner_activation));
    g->blocks = tl_arena_array(tl_scope_arena(s), k->num_blocks, sizeof *g->blocks);
    if (!g->blocks) return TL_ENOMEM;
    for (int64_t i = 0; i < k->num_blocks; i++) {
        gated_block *b = &g->blocks[i];
        b->in = add_dense(s, k, "intermediate", i, inner_of(k), activation);
        if (k->use_gate.value) b->gate = add_dense(s, k, "gate", i, inner_of(k), TL_ACT_NONE);
        b->out = add_dense(s, k, "output", i, g->width, TL_ACT_NONE);
        if (!k->apply_output_layer_norm.value) continue;
        char *name = tl_arena_printf(tl_scope_arena(s), "output_layer_norm_%lld", (long long)i);
        if (!name) return TL_ENOMEM;
        b->norm = tl_layer_norm(s, name, .epsilon = TL_SET(1e-12));
    }
    return tl_scope_status(s);
}

static tl_tensor *gated_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const gated *g = (const gated *)l;
    const tl_gated_feedforward_config *k = l->config;
    const bool after = k->dropout_position == TL_DROP_AFTER_RESIDUAL;
    for (int64_t i = 0; i < k->num_blocks; i++) {
        const gated_block *b = &g->blocks[i];
        tl_tensor *inner = tl_call(c, b->in, x);
        if (b->gate) inner = tl_mul(c, inner, tl_call(c, b->gate, x));
        tl_tensor *y = tl_call(c, b->out, inner);
        if (!after) y = tl_dropout(c, y, k->dropout.value);
        if (b->norm) y = tl_call(c, b->norm, tl_add(c, y, x)); // the residual comes with the norm
        if (after) y = tl_dropout(c, y, k->dropout.value);
        x = y;
    }
    return x;
}

static const char *const position_names[] = {"before_residual", "after_residual", NULL};
static const tl_field gated_feedforward_fields[] = {
    TL_F(tl_gated_feedforward_config, inner_dim, .i = 768, TL_AT_LEAST(1), .help = "units inside"),
    TL_F(tl_gated_feedforward_config, inner_activation, .s = "gelu", .flags = TL_FIELD_QUIET,
         .help = "function of the units inside"),
    TLI_RATE_ROW(tl_gated_feedforward_config, dropout, "share dropped of what comes out"),
    TL_F(tl_gated_feedforward_config, use_gate, TL_FILLED, .b = true,
         .help = "multiply the units inside by those of a second dense layer"),
    TL_F(tl_gated_feedforward_config, apply_output_layer_norm, TL_FILLED, .b = true,
         .help = "add the input, and norm the sum"),
    TL_F(tl_gated_feedforward_config, num_blocks, .i = 1, TL_AT_LEAST(1),
         .help = "one after the other"),
    TL_F(tl_gated_feedforward_config, dropout_position, .names = position_names,
         .help = "before or behind the addition of the input"),
    TL_F(tl_gated_feedforward_config, intermediate_size, TL_AT_LEAST(1), .flags = TL_FIELD_QUIET,
         .help = "another name of inner_dim"),
    TL_F(tl_gated_feedforward_config, intermediate_activation, .s = "", .flags = TL_FIELD_QUIET,
         .help = "another name of inner_activation"),
    TLI_KERNEL_ROWS(tl_gated_feedforward_config),
    TLI_REGULARIZER_ROWS(tl_gated_feedforward_config),
    TL_F_END,
};
TLI_LAYER_CLASS(gated_feedforward, gated, "dense layers whose inner units are opened by a gate",
                .parameters = gated_parameters, .forward = gated_forward)
