#include "zoo/vision/vit_parts.h"

#include <math.h>

#include <tilth/nn/transformer.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/view.h>

/* --- the token -------------------------------------------------------------------------------- */

typedef struct class_token {
    tl_layer base;
    tl_tensor *cls;
} class_token;

static tl_status token_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    ((class_token *)l)->cls = tl_scope_param(
        s, "cls",
        &(tl_param_args){.shape = TL_SHAPE(1, 1, x->shape.dims[2]), .initializer = l->config});
    return tl_scope_status(s);
}

static tl_tensor *token_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    tl_tensor *cls = tl_layer_value(c, l, ((class_token *)l)->cls);
    cls = tl_broadcast_to(c, cls, TL_SHAPE(x->shape.dims[0], 1, x->shape.dims[2]));
    return tl_concat(c, (tl_tensor *[]){cls, x}, 2, 1);
}

static const tl_layer_class token_class = {
    .cls = TL_CLASS(tl_layer_class, "class_token", NULL, class_token, NULL),
    .parameters = token_parameters,
    .forward = token_forward,
};

tl_layer *tli_vit_token(tl_scope *s, const char *name, const tl_oneof *initializer)
{
    const void *kept = NULL;
    if (initializer && initializer->type) {
        kept = tl_arena_copy(tl_scope_arena(s), initializer, sizeof *initializer);
        if (!kept) return tl_scope_fail(s, name);
    }
    return tl_scope_layer(s, name, &token_class, kept);
}

/* --- positions -------------------------------------------------------------------------------- */

typedef struct position {
    tl_layer base;
    tl_tensor *table;
    bool token;
    int64_t rows, cols;
} position;

static tl_status position_parameters(tl_layer *l, tl_scope *s, const tl_tensors *in)
{
    position *p = (position *)l;
    const tli_vit_position_config *k = l->config;
    const tl_tensor *map = tl_tensors_peek(in, "map");
    p->token = k->token;
    p->rows = k->rows ? k->rows : map->shape.dims[1];
    p->cols = k->rows ? k->cols : map->shape.dims[2];
    tl_shape shape = TL_SHAPE(1, p->rows * p->cols + k->token, map->shape.dims[3]);
    p->table = tl_scope_param(s, "pos_embedding",
                              &(tl_param_args){.shape = shape, .initializer = &k->initializer});
    return tl_scope_status(s);
}

/* Of a table [1, places, size], whose grid becomes another. The place of a token stays. */
static tl_tensor *resize_table(tl_ctx *c, tl_tensor *table, bool token, const int64_t *from,
                               const int64_t *to)
{
    int64_t size = table->shape.dims[2], places = table->shape.dims[1];
    tl_tensor *grid = token ? tl_slice(c, table, 1, 1, places, 1) : table;
    grid = tl_reshape(c, grid, TL_SHAPE(1, from[0], from[1], size));
    grid = tl_resize(c, grid, to[0], to[1], .method = TL_BILINEAR);
    grid = tl_reshape(c, grid, TL_SHAPE(1, to[0] * to[1], size));
    if (!token) return grid;
    return tl_concat(c, (tl_tensor *[]){tl_slice(c, table, 1, 0, 1, 1), grid}, 2, 1);
}

static void position_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    position *p = (position *)l;
    tl_tensor *x = tl_tensors_get(c, in, "x"), *map = tl_tensors_get(c, in, "map");
    tl_tensor *table = tl_layer_value(c, l, p->table);
    if (!x || !map || !table) return;
    const int64_t from[] = {p->rows, p->cols}, to[] = {map->shape.dims[1], map->shape.dims[2]};
    if (from[0] != to[0] || from[1] != to[1]) table = resize_table(c, table, p->token, from, to);
    tl_tensors_put(c, out, "y", tl_add(c, x, table));
}

/* Which grid a table had is not written anywhere: it was a square. */
static tl_tensor *position_fit(tl_layer *l, tl_ctx *c, const char *name, tl_tensor *found)
{
    position *p = (position *)l;
    const int64_t size = p->table->shape.dims[2], *dims = found->shape.dims;
    int64_t places = found->shape.rank == 3 && dims[0] == 1 && dims[2] == size ? dims[1] : 0;
    int64_t grid = places - p->token, side = grid > 0 ? llround(sqrt((double)grid)) : 0;
    (void)name;
    if (side < 1 || side * side != grid) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(
            TL_EINVAL, "it is %s, which is no table of a square grid%s with rows of %lld numbers",
            tl_tensor_spec(spec, found), p->token ? " and a class token" : "", (long long)size);
        return NULL;
    }
    return resize_table(c, found, p->token, (const int64_t[]){side, side},
                        (const int64_t[]){p->rows, p->cols});
}

static const tl_layer_class position_class = {
    .cls = TL_CLASS(tl_layer_class, "grid_position", NULL, position, NULL),
    .parameters_all = position_parameters,
    .forward_all = position_forward,
    .fit = position_fit,
};

tl_layer *tli_vit_position(tl_scope *s, const char *name, const tli_vit_position_config *config)
{
    const void *kept = tl_arena_copy(tl_scope_arena(s), config, sizeof *config);
    return kept ? tl_scope_layer(s, name, &position_class, kept) : tl_scope_fail(s, name);
}

/* --- scales ----------------------------------------------------------------------------------- */

typedef struct scale {
    tl_layer base;
    tl_tensor *gamma;
} scale;

static tl_status scale_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_oneof constant = {.type = "constant", .value = (void *)(uintptr_t)l->config};
    ((scale *)l)->gamma = tl_scope_param(
        s, "layerscale_gamma",
        &(tl_param_args){.shape = TL_SHAPE(1, 1, x->shape.dims[2]), .initializer = &constant});
    return tl_scope_status(s);
}

static tl_tensor *scale_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return tl_mul(c, tl_layer_value(c, l, ((scale *)l)->gamma), x);
}

static const tl_layer_class scale_class = {
    .cls = TL_CLASS(tl_layer_class, "layer_scale", NULL, scale, NULL),
    .parameters = scale_parameters,
    .forward = scale_forward,
};

/* --- blocks ----------------------------------------------------------------------------------- */

typedef struct block {
    tl_layer base;
    const tli_vit_block_config *config;
    tl_constant_initializer scale;
    tl_layer *attention, *attention_norm, *attention_scale, *attention_depth;
    tl_layer *in, *out, *out_norm, *out_scale, *out_depth;
} block;

static tl_status block_build(tl_layer *l, tl_scope *s, const void *config)
{
    block *b = (block *)l;
    const tli_vit_block_config *k = b->config = config;
    b->attention = tl_multi_head_attention(
        s, "self_attention", .num_heads = k->heads, .key_dim = k->hidden_size / k->heads,
        .dropout = TL_SET(k->attention_dropout_rate), .return_attention_scores = k->gives_scores,
        .kernel_initializer = k->kernel_initializer);
    b->attention_norm =
        tl_layer_norm(s, "self_attention_layer_norm", .epsilon = TL_SET(k->norm_epsilon));
    b->in = tl_dense(s, "intermediate", .units = k->mlp_dim, .activation = k->activation,
                     .kernel_initializer = k->kernel_initializer);
    b->out =
        tl_dense(s, "output", .units = k->hidden_size, .kernel_initializer = k->kernel_initializer);
    b->out_norm = tl_layer_norm(s, "output_layer_norm", .epsilon = TL_SET(k->norm_epsilon));
    if (k->layer_scale != 0) {
        b->scale.value = k->layer_scale;
        b->attention_scale = tl_scope_layer(s, "layer_scale_attn", &scale_class, &b->scale);
        b->out_scale = tl_scope_layer(s, "layer_scale_mlp", &scale_class, &b->scale);
    }
    if (k->drop_rate > 0) {
        b->attention_depth = tl_stochastic_depth_layer(s, "depth_attn", .rate = k->drop_rate);
        b->out_depth = tl_stochastic_depth_layer(s, "depth_mlp", .rate = k->drop_rate);
    }
    return tl_scope_status(s);
}

/* Behind each part. */
static tl_tensor *add_part(tl_ctx *c, tl_tensor *to, tl_tensor *x, double rate, tl_layer *scaled,
                           tl_layer *depth)
{
    x = tl_dropout(c, x, rate);
    if (scaled) x = tl_call(c, scaled, x);
    if (depth) x = tl_call(c, depth, x);
    return tl_add(c, to, x);
}

static void block_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    block *b = (block *)l;
    const tli_vit_block_config *k = b->config;
    tl_tensor *x = in->items[0].tensor;
    tl_tensors seen = {0}, looked = {0};
    tl_tensors_put(c, &seen, "query", tl_call(c, b->attention_norm, x));
    tl_call_all(c, b->attention, &seen, &looked);
    if (tl_ctx_failed(c)) return;
    x = add_part(c, x, looked.items[0].tensor, k->attention_output_rate, b->attention_scale,
                 b->attention_depth);
    tl_tensor *y = tl_call(c, b->in, tl_call(c, b->out_norm, x));
    y = add_part(c, x, tl_call(c, b->out, y), k->dropout_rate, b->out_scale, b->out_depth);
    tl_tensors_put(c, out, "y", y);
    if (k->gives_scores) tl_tensors_put(c, out, "scores", tl_tensors_get(c, &looked, "scores"));
}

static const tl_layer_class block_class = {
    .cls = TL_CLASS(tl_layer_class, "vit_block", NULL, block, NULL),
    .build = block_build,
    .forward_all = block_forward,
};

tl_layer *tli_vit_block(tl_scope *s, const char *name, const tli_vit_block_config *config)
{
    const void *kept = tl_arena_copy(tl_scope_arena(s), config, sizeof *config);
    return kept ? tl_scope_layer(s, name, &block_class, kept) : tl_scope_fail(s, name);
}
