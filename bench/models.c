#include "models.h"

#include <tilth/nn/layers.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

/* --- layers of units -------------------------------------------------------------------------- */

enum { MOST_WIDTHS = 4 };
typedef struct mlp_config {
    int64_t units[MOST_WIDTHS];
    int count;
} mlp_config;
typedef struct mlp {
    tl_model base;
    int count;
    tl_layer *dense[MOST_WIDTHS];
} mlp;

static tl_status mlp_build(tl_model *m, tl_scope *s, const void *config)
{
    static const char *const names[MOST_WIDTHS] = {"dense_0", "dense_1", "dense_2", "dense_3"};
    mlp *n = (mlp *)m;
    const mlp_config *c = config;
    n->count = c->count;
    for (int i = 0; i < c->count; i++)
        n->dense[i] = tl_dense(s, names[i], .units = c->units[i],
                               .activation = i + 1 < c->count ? TL_ACT_RELU : TL_ACT_NONE);
    return tl_scope_status(s);
}

static tl_tensor *mlp_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    mlp *n = (mlp *)m;
    for (int i = 0; i < n->count; i++) x = tl_call(c, n->dense[i], x);
    return x;
}

static const tl_layer_class mlp_class = {
    .cls = TL_CLASS(tl_layer_class, "mlp", NULL, mlp, NULL),
    .build = mlp_build,
    .forward = mlp_forward,
};

/* --- LeNet ------------------------------------------------------------------------------------ */

typedef struct lenet {
    tl_model base;
    tl_layer *conv_1, *conv_2, *hidden, *head;
} lenet;

static tl_status lenet_build(tl_model *m, tl_scope *s, const void *config)
{
    lenet *n = (lenet *)m;
    (void)config;
    n->conv_1 = tl_conv2d(s, "conv_1", .filters = 32, .kernel = 3, .padding = TL_SAME,
                          .activation = TL_ACT_RELU);
    n->conv_2 = tl_conv2d(s, "conv_2", .filters = 64, .kernel = 3, .padding = TL_SAME,
                          .activation = TL_ACT_RELU);
    n->hidden = tl_dense(s, "hidden", .units = 128, .activation = TL_ACT_RELU);
    n->head = tl_dense(s, "head", .units = 10);
    return tl_scope_status(s);
}

static tl_tensor *lenet_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    lenet *n = (lenet *)m;
    x = tl_max_pool2d(c, tl_call(c, n->conv_1, x), .size = {2});
    x = tl_max_pool2d(c, tl_call(c, n->conv_2, x), .size = {2});
    x = x ? tl_reshape(c, x, TL_SHAPE(x->shape.dims[0], -1)) : NULL;
    return tl_call(c, n->head, tl_call(c, n->hidden, x));
}

static const tl_layer_class lenet_class = {
    .cls = TL_CLASS(tl_layer_class, "lenet", NULL, lenet, NULL),
    .build = lenet_build,
    .forward = lenet_forward,
};

/* --- ResNet-18 for small images --------------------------------------------------------------- */

typedef struct block_config {
    int64_t inputs, filters, stride;
} block_config;
typedef struct block {
    tl_layer base;
    tl_layer *conv_1, *norm_1, *conv_2, *norm_2, *conv_3, *norm_3;
} block;

static tl_layer *conv(tl_scope *s, const char *name, int64_t filters, int64_t kernel,
                      int64_t stride)
{
    return tl_conv2d(s, name, .filters = filters, .kernel = kernel, .stride = stride,
                     .padding = TL_EXPLICIT, .pad = kernel / 2, .without_bias = true);
}

static tl_status block_build(tl_layer *l, tl_scope *s, const void *config)
{
    block *b = (block *)l;
    const block_config *c = config;
    b->conv_1 = conv(s, "conv_1", c->filters, 3, c->stride);
    b->norm_1 = tl_batch_norm(s, "norm_1", .epsilon = TL_SET(1e-5), .momentum = TL_SET(0.9));
    b->conv_2 = conv(s, "conv_2", c->filters, 3, 1);
    b->norm_2 = tl_batch_norm(s, "norm_2", .epsilon = TL_SET(1e-5), .momentum = TL_SET(0.9));
    if (c->stride != 1 || c->inputs != c->filters) {
        b->conv_3 = conv(s, "conv_3", c->filters, 1, c->stride);
        b->norm_3 = tl_batch_norm(s, "norm_3", .epsilon = TL_SET(1e-5), .momentum = TL_SET(0.9));
    }
    return tl_scope_status(s);
}

static tl_tensor *block_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    block *b = (block *)l;
    tl_tensor *y = tl_relu(c, tl_call(c, b->norm_1, tl_call(c, b->conv_1, x)));
    y = tl_call(c, b->norm_2, tl_call(c, b->conv_2, y));
    if (b->conv_3) x = tl_call(c, b->norm_3, tl_call(c, b->conv_3, x));
    return tl_relu(c, tl_add(c, y, x));
}

static const tl_layer_class block_class = {
    .cls = TL_CLASS(tl_layer_class, "residual_block", NULL, block, NULL),
    .build = block_build,
    .forward = block_forward,
};

enum { BLOCKS = 8 };
static const block_config blocks[BLOCKS] = {{64, 64, 1},   {64, 64, 1},   {64, 128, 2},
                                            {128, 128, 1}, {128, 256, 2}, {256, 256, 1},
                                            {256, 512, 2}, {512, 512, 1}};
typedef struct resnet {
    tl_model base;
    tl_layer *stem, *norm, *block[BLOCKS], *head;
} resnet;

static tl_status resnet_build(tl_model *m, tl_scope *s, const void *config)
{
    static const char *const names[BLOCKS] = {"block_0", "block_1", "block_2", "block_3",
                                              "block_4", "block_5", "block_6", "block_7"};
    resnet *n = (resnet *)m;
    (void)config;
    n->stem = conv(s, "stem", 64, 3, 1);
    n->norm = tl_batch_norm(s, "norm", .epsilon = TL_SET(1e-5), .momentum = TL_SET(0.9));
    for (int i = 0; i < BLOCKS; i++)
        n->block[i] = tl_scope_layer(s, names[i], &block_class, &blocks[i]);
    n->head = tl_dense(s, "head", .units = 10);
    return tl_scope_status(s);
}

static tl_tensor *resnet_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    resnet *n = (resnet *)m;
    x = tl_relu(c, tl_call(c, n->norm, tl_call(c, n->stem, x)));
    for (int i = 0; i < BLOCKS; i++) x = tl_call(c, n->block[i], x);
    return tl_call(c, n->head, tl_mean(c, x, TL_AXES(1, 2), false));
}

static const tl_layer_class resnet_class = {
    .cls = TL_CLASS(tl_layer_class, "resnet_18", NULL, resnet, NULL),
    .build = resnet_build,
    .forward = resnet_forward,
};

/* --- transformers ----------------------------------------------------------------------------- */

enum { MOST_LAYERS = 96, LAYER_NAME = 16 };
typedef struct lm_config {
    int64_t vocabulary, time, size, layers, heads;
    bool causal;
    bool after;          /* norms follow what is added, as in BERT */
    int64_t predictions; /* of a sequence, at places that lie apart; 0: all */
} lm_config;

typedef struct transformer_block {
    tl_layer base;
    const lm_config *config;
    tl_layer *norm_1, *qkv, *out, *norm_2, *up, *down;
} transformer_block;

static tl_status transformer_build(tl_layer *l, tl_scope *s, const void *config)
{
    transformer_block *b = (transformer_block *)l;
    const lm_config *c = b->config = config;
    b->norm_1 = tl_layer_norm(s, "norm_1");
    b->qkv = tl_dense(s, "qkv", .units = 3 * c->size);
    b->out = tl_dense(s, "out", .units = c->size);
    b->norm_2 = tl_layer_norm(s, "norm_2");
    b->up = tl_dense(s, "up", .units = 4 * c->size, .activation = TL_ACT_GELU_TANH);
    b->down = tl_dense(s, "down", .units = c->size);
    return tl_scope_status(s);
}

static tl_tensor *transformer_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    transformer_block *b = (transformer_block *)l;
    const lm_config *o = b->config;
    if (!x) return NULL;
    int64_t batch = x->shape.dims[0], time = x->shape.dims[1];
    tl_tensor *qkv = tl_call(c, b->qkv, o->after ? x : tl_call(c, b->norm_1, x)), *part[3];
    qkv = tl_reshape(c, qkv, TL_SHAPE(batch, time, 3, o->heads, o->size / o->heads));
    for (int i = 0; i < 3; i++) part[i] = tl_take(c, qkv, 2, i);
    tl_tensor *seen = tl_attend(c, part[0], part[1], part[2], .causal = o->causal);
    seen = tl_reshape(c, seen, TL_SHAPE(batch, time, o->size));
    x = tl_add(c, x, tl_call(c, b->out, seen));
    if (o->after) {
        x = tl_call(c, b->norm_1, x);
        return tl_call(c, b->norm_2, tl_add(c, x, tl_call(c, b->down, tl_call(c, b->up, x))));
    }
    return tl_add(c, x, tl_call(c, b->down, tl_call(c, b->up, tl_call(c, b->norm_2, x))));
}

static const tl_layer_class transformer_class = {
    .cls = TL_CLASS(tl_layer_class, "transformer_block", NULL, transformer_block, NULL),
    .build = transformer_build,
    .forward = transformer_forward,
};

typedef struct lm {
    tl_model base;
    const lm_config *config;
    tl_layer *tokens, *places, *block[MOST_LAYERS], *norm;
    tl_layer *turn, *norm_2; /* of predictions */
} lm;

static tl_status lm_build(tl_model *m, tl_scope *s, const void *config)
{
    lm *n = (lm *)m;
    const lm_config *c = n->config = config;
    n->tokens = tl_embedding(s, "tokens", .entries = c->vocabulary, .size = c->size);
    n->places = tl_embedding(s, "places", .entries = c->time, .size = c->size);
    for (int64_t i = 0; i < c->layers; i++) {
        char name[LAYER_NAME];
        snprintf(name, sizeof name, "block_%d", (int)i);
        n->block[i] = tl_scope_layer(s, name, &transformer_class, config);
    }
    n->norm = tl_layer_norm(s, "norm");
    if (c->predictions) {
        n->turn = tl_dense(s, "turn", .units = c->size, .activation = TL_ACT_GELU_TANH);
        n->norm_2 = tl_layer_norm(s, "norm_2");
    }
    return tl_scope_status(s);
}

/* What predictions are made of, at every so manieth place. */
static tl_tensor *lm_chosen(const lm *n, tl_ctx *c, tl_tensor *x)
{
    const int64_t count = n->config->predictions, apart = n->config->time / count;
    tl_tensor *where = tl_arange(c, TL_I64, 0, (double)(count * apart), (double)apart);
    return tl_call(c, n->norm_2, tl_call(c, n->turn, tl_gather(c, x, where, 1)));
}

static tl_tensor *lm_forward(tl_model *m, tl_ctx *c, tl_tensor *ids)
{
    lm *n = (lm *)m;
    if (!ids) return NULL;
    tl_tensor *where = tl_arange(c, TL_I64, 0, (double)ids->shape.dims[1], 1);
    tl_tensor *x = tl_add(c, tl_call(c, n->tokens, ids), tl_call(c, n->places, where));
    if (n->config->after) x = tl_call(c, n->norm, x);
    for (int64_t i = 0; i < n->config->layers; i++) x = tl_call(c, n->block[i], x);
    if (!n->config->after) x = tl_call(c, n->norm, x);
    if (n->config->predictions) x = lm_chosen(n, c, x);
    x = tl_embedding_scores(c, n->tokens, x);
    return x ? tl_reshape(c, x, TL_SHAPE(-1, n->config->vocabulary)) : NULL;
}

static const tl_layer_class lm_class = {
    .cls = TL_CLASS(tl_layer_class, "lm", NULL, lm, NULL),
    .build = lm_build,
    .forward = lm_forward,
};

/* --- the table -------------------------------------------------------------------------------- */

static const mlp_config tiny = {{32, 32, 2}, 3}, small = {{128, 10}, 2}, wide = {{256, 256, 10}, 3};
static const mlp_config wider = {{2048, 2048, 10}, 3};
static const lm_config encoder = {8192, 128, 256, 4, 4, false, false, 0};
static const lm_config gpt2 = {50304, 256, 768, 12, 12, true, false, 0};
static const lm_config long_gpt2 = {50304, 1024, 768, 12, 12, true, false, 0};
static const lm_config bert = {30522, 512, 768, 12, 12, false, true, 76};
static const lm_config deep[] = {{256, 16, 64, 4, 4, false, false, 0},
                                 {256, 16, 64, 12, 4, false, false, 0},
                                 {256, 16, 64, 48, 4, false, false, 0},
                                 {256, 16, 64, 96, 4, false, false, 0}};

#define SHAPE(...) TL_INIT(TL_COUNT(((const int64_t[]){__VA_ARGS__})), {__VA_ARGS__})
const step_model step_models[] = {
    {.name = "tiny mlp 16-32-32-2 B32",
     .cls = &mlp_class,
     .config = &tiny,
     .input = SHAPE(32, 16),
     .labels = SHAPE(32),
     .classes = 2,
     .flops = 0.275e6},
    {.name = "mlp784-128-10 B32",
     .cls = &mlp_class,
     .config = &small,
     .input = SHAPE(32, 784),
     .labels = SHAPE(32),
     .classes = 10,
     .flops = 13.1e6},
    {.name = "mlp784-256-256-10 B128",
     .cls = &mlp_class,
     .config = &wide,
     .input = SHAPE(128, 784),
     .labels = SHAPE(128),
     .classes = 10,
     .flops = 155e6,
     .half = true},
    {.name = "lenet28 B128",
     .cls = &lenet_class,
     .input = SHAPE(128, 28, 28, 1),
     .labels = SHAPE(128),
     .classes = 10,
     .flops = 3.2e9,
     .half = true},
    {.name = "resnet18-cifar B64",
     .cls = &resnet_class,
     .input = SHAPE(64, 32, 32, 3),
     .labels = SHAPE(64),
     .classes = 10,
     .flops = 213e9,
     .half = true},
    {.name = "encoder L4 C256 T128 B16 V8192",
     .cls = &lm_class,
     .config = &encoder,
     .input = SHAPE(16, 128),
     .labels = SHAPE(16 * 128),
     .ids = true,
     .classes = 8192,
     .flops = 67.5e9,
     .half = true},
    {.name = "gpt2-124M B1 T256",
     .cls = &lm_class,
     .config = &gpt2,
     .input = SHAPE(1, 256),
     .labels = SHAPE(256),
     .ids = true,
     .classes = 50304,
     .flops = 192e9,
     .half = true},
};
const int64_t step_model_count = TL_COUNT(step_models);

const step_model large_mlp = {.name = "mlp784-2048-2048-10 B128",
                              .cls = &mlp_class,
                              .config = &wider,
                              .input = SHAPE(128, 784),
                              .labels = SHAPE(128),
                              .classes = 10,
                              .flops = 4.5e9};

#define DEEP(layers, index)                                                                        \
    TL_INIT(.name = "encoder L" #layers, .cls = &lm_class, .config = &deep[index],                 \
            .input = SHAPE(4, 16), .labels = SHAPE(4 * 16), .ids = true, .classes = 256)
const step_model deep_models[] = {DEEP(4, 0), DEEP(12, 1), DEEP(48, 2), DEEP(96, 3)};
const int64_t deep_model_count = TL_COUNT(deep_models);

const step_model gpu_models[] = {
    {.name = "mlp784-256-256-10 B128",
     .cls = &mlp_class,
     .config = &wide,
     .input = SHAPE(128, 784),
     .labels = SHAPE(128),
     .classes = 10,
     .flops = 155e6},
    {.name = "resnet18-cifar B64",
     .cls = &resnet_class,
     .input = SHAPE(64, 32, 32, 3),
     .labels = SHAPE(64),
     .classes = 10,
     .flops = 213e9},
    {.name = "gpt2-124M B64 T1024",
     .cls = &lm_class,
     .config = &long_gpt2,
     .input = SHAPE(64, 1024),
     .labels = SHAPE(64 * 1024),
     .ids = true,
     .classes = 50304,
     .flops = 52.9e12,
     .clip = true},
    {.name = "bert-base mlm B64 T512 P76",
     .cls = &lm_class,
     .config = &bert,
     .input = SHAPE(64, 512),
     .labels = SHAPE(64 * 76),
     .ids = true,
     .classes = 30522,
     .flops = 19.6e12,
     .clip = true},
};
const int64_t gpu_model_count = TL_COUNT(gpu_models);
