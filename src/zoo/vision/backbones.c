/* What backbones have in common, and the two smallest. */
#include <tilth/ops/view.h>
#include <tilth/zoo/backbone.h>

static const tl_method methods[] = {TL_METHOD(tl_backbone_class, make, false), {NULL, 0, false}};
const tl_kind tl_kind_backbone = {
    .name = "backbone",
    .plural = "backbones",
    .help = "what turns images into features",
    .class_size = sizeof(tl_backbone_class),
    .methods = methods,
    .config_required = true,
    .names_are_keys = true,
};

tl_status tl_backbone_find(const tl_backbone_class **cls, const void **config, tl_arena *arena,
                           const tl_registry *registry, const tl_oneof *choice, const char *key)
{
    const tl_class *found;
    void *made = choice->value;
    if (!choice->type)
        return TL_FAIL(TL_EINVAL, "%s: no backbone is chosen; set %s.type", key, key);
    TL_TRY(tl_registry_find(&found, registry, &tl_kind_backbone, choice->type));
    if (!TL_CLASS_HAS(tl_backbone_class, found, make))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s: '%s' is not here yet; resnet, dilated_resnet, mobilenet and vit are",
                       key, choice->type);
    if (!made) TL_TRY(tl_desc_new(&made, arena, found->config));
    *cls = (const tl_backbone_class *)found;
    *config = made;
    return TL_OK;
}

tl_status tl_backbone_make(tl_layer **out, tl_scope *s, const tl_oneof *choice,
                           const tl_backbone_parts *parts)
{
    const tl_backbone_class *cls;
    const void *config;
    *out = NULL;
    TL_TRY(tl_backbone_find(&cls, &config, tl_scope_arena(s), tl_scope_registry(s), choice,
                            "model.backbone"));
    *out = cls->make(s, "backbone", config, parts);
    if (!*out) return tl_scope_status(s) == TL_OK ? TL_ENOMEM : tl_scope_status(s);
    tl_scope_item(s, "backbone", *out);
    return TL_OK;
}

/* A layer of the class, with the configuration of the backbone and what the model adds to it. */
typedef struct given {
    const void *config;
    tl_backbone_parts parts;
} given;

static tl_layer *make(tl_scope *s, const char *name, const tl_layer_class *cls, const void *config,
                      const tl_backbone_parts *parts)
{
    given *g = tl_arena_copy(tl_scope_arena(s), &(given){config, *parts}, sizeof *g);
    return g ? tl_scope_layer(s, name, cls, g) : NULL;
}

static tl_oneof penalty_of(const given *g)
{
    return g->parts.kernel_regularizer ? *g->parts.kernel_regularizer : (tl_oneof){0};
}

static tl_tensor *flatten(tl_ctx *c, tl_tensor *x)
{
    return x && x->shape.rank > 2 ? tl_reshape(c, x, TL_SHAPE(x->shape.dims[0], -1)) : x;
}

/* Children one after the other. */
static tl_tensor *call_all(tl_layer *first, tl_ctx *c, tl_tensor *x)
{
    for (tl_layer *child = first; child; child = child->next) x = tl_call(c, child, x);
    return x;
}

static tl_status add_dense(tl_scope *s, const given *g, tl_ints units, double dropout_rate)
{
    for (int64_t i = 0; i < units.count; i++) {
        char *name = tl_arena_printf(tl_scope_arena(s), "dense_%lld", (long long)i + 1);
        char *drop = tl_arena_printf(tl_scope_arena(s), "dropout_%lld", (long long)i + 1);
        if (!name || !drop) return TL_ENOMEM;
        (void)tl_dense(s, name, .units = units.items[i],
                       .activation = g->parts.norm_activation->activation,
                       .kernel_regularizer = penalty_of(g));
        if (dropout_rate > 0) (void)tl_dropout_layer(s, drop, .rate = dropout_rate);
    }
    return tl_scope_status(s);
}

/* --- mlp -------------------------------------------------------------------------------------- */

static tl_status mlp_build(tl_layer *l, tl_scope *s, const void *config)
{
    const given *g = config;
    const tl_mlp_config *m = g->config;
    (void)l;
    return add_dense(s, g, m->units, m->dropout_rate);
}

static tl_tensor *mlp_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    return call_all(l->first, c, flatten(c, x));
}

static const tl_layer_class mlp_class = {
    .cls = TL_CLASS(tl_layer_class, "mlp", NULL, tl_layer, NULL),
    .build = mlp_build,
    .forward = mlp_forward,
};

static tl_layer *make_mlp(tl_scope *s, const char *name, const void *config,
                          const tl_backbone_parts *parts)
{
    return make(s, name, &mlp_class, config, parts);
}

static const tl_field mlp_fields[] = {
    TL_F(tl_mlp_config, units, TL_DEFAULT_LIST(int64_t, 256, 256), TL_AT_LEAST(1),
         .help = "of each layer"),
    TL_F(tl_mlp_config, dropout_rate, TL_RANGE(0, 1), .help = "share of units dropped behind each"),
    TL_F_END,
};
static const tl_desc mlp_desc = {
    .name = "mlp",
    .help = "dense layers over all pixels",
    .size = sizeof(tl_mlp_config),
    .fields = mlp_fields,
};
const tl_backbone_class tl_backbone_mlp = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "mlp",
            .help = "dense layers over all pixels",
            .config = &mlp_desc},
    .make = make_mlp,
};

/* --- cnn -------------------------------------------------------------------------------------- */

typedef struct cnn {
    tl_layer base;
    tl_layer *dense; /* the first of those behind the convolutions; NULL: none */
} cnn;

/* Convolutions of one number of filters, and what follows them. */
static tl_status add_stage(tl_scope *s, const given *g, int64_t stage)
{
    const tl_cnn_config *k = g->config;
    const tl_norm_activation *n = g->parts.norm_activation;
    tl_arena *arena = tl_scope_arena(s);
    long long number = (long long)stage + 1;
    for (int64_t i = 0; i < k->repeats; i++) {
        const char *tail = k->repeats > 1
                               ? tl_arena_printf(arena, "%lld_%lld", number, (long long)i + 1)
                               : tl_arena_printf(arena, "%lld", number);
        char *conv = tail ? tl_arena_printf(arena, "conv_%s", tail) : NULL;
        char *norm = tail ? tl_arena_printf(arena, "norm_%s", tail) : NULL;
        char *active = tail ? tl_arena_printf(arena, "activation_%s", tail) : NULL;
        if (!conv || !norm || !active) return TL_ENOMEM;
        (void)tl_conv2d(s, conv, .filters = k->filters.items[stage], .kernel = k->kernel,
                        .padding = TL_SAME, .without_bias = k->batch_norm,
                        .activation = k->batch_norm ? TL_ACT_NONE : n->activation,
                        .kernel_regularizer = penalty_of(g));
        if (!k->batch_norm) continue;
        (void)tl_batch_norm(s, norm, .epsilon = TL_SET(n->norm_epsilon),
                            .momentum = TL_SET(n->norm_momentum), .synchronized = n->use_sync_bn);
        (void)tl_activation_layer(s, active, .function = n->activation);
    }
    char *pool = tl_arena_printf(arena, "pool_%lld", number);
    char *drop = tl_arena_printf(arena, "pool_%lld_dropout", number);
    if (!pool || !drop) return TL_ENOMEM;
    (void)tl_max_pool_layer(s, pool, .size = 2);
    if (k->dropout_rate > 0) (void)tl_dropout_layer(s, drop, .rate = k->dropout_rate);
    return tl_scope_status(s);
}

static tl_status cnn_build(tl_layer *l, tl_scope *s, const void *config)
{
    cnn *n = (cnn *)l;
    const given *g = config;
    const tl_cnn_config *k = g->config;
    for (int64_t i = 0; i < k->filters.count; i++) TL_TRY(add_stage(s, g, i));
    tl_layer *before = l->last;
    TL_TRY(add_dense(s, g, k->units, k->dropout_rate));
    n->dense = before ? before->next : l->first;
    return TL_OK;
}

static tl_tensor *cnn_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    cnn *n = (cnn *)l;
    for (tl_layer *child = l->first; child && child != n->dense; child = child->next)
        x = tl_call(c, child, x);
    return n->dense ? call_all(n->dense, c, flatten(c, x)) : x;
}

static const tl_layer_class cnn_class = {
    .cls = TL_CLASS(tl_layer_class, "cnn", NULL, cnn, NULL),
    .build = cnn_build,
    .forward = cnn_forward,
};

static tl_layer *make_cnn(tl_scope *s, const char *name, const void *config,
                          const tl_backbone_parts *parts)
{
    return make(s, name, &cnn_class, config, parts);
}

static const tl_field cnn_fields[] = {
    TL_F(tl_cnn_config, filters, TL_DEFAULT_LIST(int64_t, 32, 64), TL_AT_LEAST(1),
         .help = "of the convolutions before each 2x2 pooling"),
    TL_F(tl_cnn_config, kernel, .i = 3, TL_AT_LEAST(1),
         .help = "height and width of their windows"),
    TL_F(tl_cnn_config, repeats, .i = 1, TL_AT_LEAST(1),
         .help = "convolutions before each pooling"),
    TL_F(tl_cnn_config, units, TL_DEFAULT_LIST(int64_t, 128), TL_AT_LEAST(1),
         .help = "of the dense layers that follow; with none the map is averaged"),
    TL_F(tl_cnn_config, batch_norm, .help = "normalise behind each convolution"),
    TL_F(tl_cnn_config, dropout_rate, TL_RANGE(0, 1),
         .help = "share dropped behind each pooling and each dense layer"),
    TL_F_END,
};
static const tl_desc cnn_desc = {
    .name = "cnn",
    .help = "a few convolutions, for small images",
    .size = sizeof(tl_cnn_config),
    .fields = cnn_fields,
};
const tl_backbone_class tl_backbone_cnn = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "cnn",
            .help = "a few convolutions, for small images",
            .config = &cnn_desc},
    .make = make_cnn,
};
