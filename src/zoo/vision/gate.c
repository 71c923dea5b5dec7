#include "zoo/vision/gate.h"

#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "zoo/vision/conv_norm.h"

typedef struct gate {
    tl_layer base;
    const tli_gate_config *config;
    tl_layer *reduce, *expand;
} gate;

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    gate *g = (gate *)l;
    const tli_gate_config *c = g->config = config;
    g->reduce = tl_conv2d(s, "reduce", .filters = c->reduced, .kernel = 1,
                          .activation = TL_ACT_RELU, // whatever the blocks have
                          .kernel_initializer = TL_INITIALIZER("variance_scaling"),
                          .kernel_regularizer = tli_penalty(&c->parts));
    g->expand = tl_conv2d(s, "expand", .filters = c->filters, .kernel = 1,
                          .activation = c->hard ? TL_ACT_NONE : TL_ACT_SIGMOID,
                          .kernel_initializer = TL_INITIALIZER("variance_scaling"),
                          .kernel_regularizer = tli_penalty(&c->parts));
    return tl_scope_status(s);
}

/* Model Garden's sixth has five digits. */
static tl_tensor *hard_sigmoid(tl_ctx *c, tl_tensor *x)
{
    return tl_scale(c, tl_relu6(c, tl_shift(c, x, 3)), 0.16667);
}

static tl_tensor *forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    gate *g = (gate *)l;
    tl_tensor *mean = tl_mean(c, x, TL_AXES(1, 2), true);
    tl_tensor *factor = tl_call(c, g->expand, tl_call(c, g->reduce, mean));
    return tl_mul(c, x, g->config->hard ? hard_sigmoid(c, factor) : factor);
}

static const tl_layer_class gate_class = {
    .cls = TL_CLASS(tl_layer_class, "squeeze_excitation", NULL, gate, NULL),
    .build = build,
    .forward = forward,
};

tl_layer *tli_gate(tl_scope *s, const char *name, const tli_gate_config *config)
{
    const tli_gate_config *kept = tl_arena_copy(tl_scope_arena(s), config, sizeof *config);
    return kept ? tl_scope_layer(s, name, &gate_class, kept) : tl_scope_fail(s, name);
}
