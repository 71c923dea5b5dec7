/* The model of SimCLR: a backbone, a projection head on top of it, and a supervised head on one of
 * the layers of that. */
#include <tilth/ops/activation.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "zoo/vision/simclr.h"

/* --- one layer of the projection head --------------------------------------------------------- */

/* A product as wide as what comes in, unless `units` is above 0. */
typedef struct product_config {
    int64_t units;
    const tl_oneof *penalty; /* NULL: none */
} product_config;
typedef struct product {
    tl_layer base;
    tl_tensor *kernel;
} product;

static tl_status product_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const product_config *k = l->config;
    const tl_oneof first = TL_INITIALIZER("variance_scaling");
    const int64_t inputs = x->shape.dims[x->shape.rank - 1];
    ((product *)l)->kernel =
        tl_scope_param(s, "kernel",
                       &(tl_param_args){.shape = TL_SHAPE(inputs, k->units ? k->units : inputs),
                                        .initializer = &first,
                                        .regularizer = k->penalty});
    return tl_scope_status(s);
}

static tl_tensor *product_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return tl_matmul(c, x, tl_layer_value(c, l, ((product *)l)->kernel));
}
static const tl_layer_class product_class = {
    .cls = TL_CLASS(tl_layer_class, "product", NULL, product, NULL),
    .parameters = product_parameters,
    .forward = product_forward,
};

typedef struct step_config {
    product_config dense;
    const tl_norm_activation *norm;
    bool last; /* neither a shift nor an activation */
} step_config;
typedef struct step {
    tl_layer base;
    tl_layer *dense, *norm;
} step;

static tl_status step_build(tl_layer *l, tl_scope *s, const void *config)
{
    step *p = (step *)l;
    const step_config *k = config;
    p->dense = tl_scope_layer(s, "dense", &product_class, &k->dense);
    p->norm = tl_batch_norm(s, "norm", .epsilon = TL_SET(k->norm->norm_epsilon),
                            .momentum = TL_SET(k->norm->norm_momentum),
                            .synchronized = k->norm->use_sync_bn, .without_shift = k->last);
    return tl_scope_status(s);
}

static tl_tensor *step_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const step *p = (const step *)l;
    const step_config *k = l->config;
    x = tl_call(c, p->norm, tl_call(c, p->dense, x));
    return k->last ? x : tl_relu(c, x);
}
static const tl_layer_class step_class = {
    .cls = TL_CLASS(tl_layer_class, "projection_layer", NULL, step, NULL),
    .build = step_build,
    .forward = step_forward,
};

/* --- the projection head ---------------------------------------------------------------------- */

typedef struct head_config {
    const tl_simclr_model_config *model;
    const tl_oneof *penalty;
} head_config;
typedef struct projection {
    tl_layer base;
    tl_layer **steps;
} projection;

/* From 0; -1 is the last one. */
static int64_t tuned_from(const tl_simclr_model_config *m)
{
    const tl_projection_head *p = &m->projection_head;
    return p->ft_proj_idx < 0 ? p->num_proj_layers + 1 + p->ft_proj_idx : p->ft_proj_idx;
}

/* Layers behind what is tuned are there in pre-training alone. */
int64_t tli_simclr_projections(const tl_simclr_model_config *m)
{
    return m->mode == TL_SIMCLR_PRETRAIN ? m->projection_head.num_proj_layers : tuned_from(m);
}

static tl_status projection_build(tl_layer *l, tl_scope *s, const void *config)
{
    projection *p = (projection *)l;
    const head_config *h = config;
    const tl_projection_head *k = &h->model->projection_head;
    tl_arena *arena = tl_scope_arena(s);
    const int64_t count = tli_simclr_projections(h->model);
    p->steps = tl_arena_array(arena, count, sizeof *p->steps);
    if (!p->steps) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        bool last = i == k->num_proj_layers - 1;
        const step_config of = {
            {last ? k->proj_output_dim : 0, h->penalty}, &h->model->norm_activation, last};
        const step_config *kept = tl_arena_copy(arena, &of, sizeof of);
        const char *name = tl_arena_printf(arena, "nl_%lld", (long long)i);
        if (!kept || !name) return TL_ENOMEM;
        p->steps[i] = tl_scope_layer(s, name, &step_class, kept);
    }
    return tl_scope_status(s);
}

/* "tuned": what the supervised head stands on. */
static void projection_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const projection *p = (const projection *)l;
    const tl_simclr_model_config *m = ((const head_config *)l->config)->model;
    int64_t tuned = tuned_from(m), count = tli_simclr_projections(m);
    tl_tensor *x = in->items[0].tensor, *seen = x;
    for (int64_t i = 0; i < count; i++) {
        x = tl_call(c, p->steps[i], x);
        if (i + 1 == tuned) seen = x;
    }
    tl_tensors_put(c, out, "tuned", seen);
    if (m->mode == TL_SIMCLR_PRETRAIN) tl_tensors_put(c, out, TL_SIMCLR_PROJECTION, x);
}
static const tl_layer_class projection_class = {
    .cls = TL_CLASS(tl_layer_class, "projection_head", NULL, projection, NULL),
    .build = projection_build,
    .forward_all = projection_forward,
};

/* --- the model -------------------------------------------------------------------------------- */

typedef struct model_config {
    const tl_simclr_model_config *model;
    tl_l2_regularizer l2;
} model_config;
typedef struct simclr {
    tl_model base;
    tl_oneof penalty;
    head_config head;
    tl_layer *backbone, *projection, *supervised;
} simclr;

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    simclr *n = (simclr *)m;
    const model_config *c = config;
    const tl_simclr_model_config *k = c->model;
    const bool decays = c->l2.l2.value > 0;
    if (decays) n->penalty = (tl_oneof){.type = "l2", .value = (void *)(uintptr_t)&c->l2};
    n->head = (head_config){k, decays ? &n->penalty : NULL};
    TL_TRY(tl_backbone_make(&n->backbone, s, &k->backbone,
                            &(tl_backbone_parts){&k->norm_activation, n->head.penalty}));
    n->projection = tl_scope_layer(s, "projection_head", &projection_class, &n->head);
    tl_scope_item(s, "projection_head", n->projection);
    if (!k->supervised_head) return tl_scope_status(s);
    n->supervised = tl_dense(
        s, "supervised_head", .units = k->supervised_head->num_classes,
        .kernel_initializer = {.type = k->supervised_head->zero_init ? "zeros" : "random_uniform"},
        .kernel_regularizer = n->penalty);
    tl_scope_item(s, "supervised_head", n->supervised);
    return tl_scope_status(s);
}

/* [batch, height, width, 2 channels] to [2 batch, height, width, channels]. */
static tl_tensor *part_views(tl_ctx *c, tl_tensor *x, int64_t channels)
{
    tl_tensor *views[2];
    if (!x || x->shape.rank != 4 || x->shape.dims[3] != 2 * channels) return x;
    tl_split_even(c, x, 3, 2, views);
    return tl_concat(c, views, 2, 0);
}

static void forward(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    simclr *n = (simclr *)m;
    const tl_simclr_model_config *k = ((const model_config *)m->config)->model;
    tl_tensors heads = {0};
    tl_tensor *x = part_views(c, in->items[0].tensor, k->input_size.items[2]);
    x = tl_call(c, n->backbone, x);
    if (x && x->shape.rank == 4) x = tl_mean(c, x, TL_AXES(1, 2), false);
    if (!x) return;
    tl_named features = {"features", x};
    tl_call_all(c, n->projection, &(tl_tensors){&features, 1, 1}, &heads);
    if (!heads.count) return;
    tl_tensor *seen = heads.items[0].tensor;
    if (k->mode == TL_SIMCLR_PRETRAIN) seen = tl_stop_gradient(c, seen); // it looks on
    if (n->supervised) tl_tensors_put(c, out, TL_SIMCLR_CLASSES, tl_call(c, n->supervised, seen));
    if (heads.count > 1) tl_tensors_put(c, out, TL_SIMCLR_PROJECTION, heads.items[1].tensor);
}
static const tl_layer_class simclr_class = {
    .cls = TL_CLASS(tl_layer_class, "simclr", NULL, simclr, NULL),
    .build = build,
    .forward_all = forward,
};

tl_status tl_simclr_model_new(tl_model **out, const tl_simclr_model_args *args)
{
    const tl_simclr_model_config *k = args->config;
    *out = NULL;
    if (k->input_size.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "model.input_size has %lld numbers: set it to [height, width, channels]",
                       (long long)k->input_size.count);
    const int64_t *size = k->input_size.items;
    int64_t batch = args->batch_size > 0 ? args->batch_size : 1;
    tl_spec image = {"image", TL_F32, TL_SHAPE(batch, size[0], size[1], size[2])};
    model_config *c = tl_arena_alloc(args->arena, sizeof *c);
    if (!c) return TL_ENOMEM;
    *c = (model_config){k, {TL_SET(args->l2_weight_decay / 2)}};
    TL_TRY(tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &simclr_class,
                                              .config = c,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry}));
    tl_status st = k->backbone_trainable ? TL_OK : tl_model_set_trainable(*out, "backbone", false);
    if (st != TL_OK) tl_model_free(out);
    return st;
}
