/* The model of image classification: a backbone and a head. */
#include <tilth/ops/reduce.h>
#include <tilth/zoo/vision.h>

typedef struct classifier_config {
    const tl_image_model_config *model;
    tl_l2_regularizer l2;
    tl_layer *backbone; /* one that is there already; NULL: it makes its own */
} classifier_config;
typedef struct classifier {
    tl_model base;
    tl_oneof penalty;
    tl_layer *backbone, *norm, *dropout, *head;
} classifier;

static tl_oneof head_initializer(const tl_image_model_config *m)
{
    return (tl_oneof){.type = *m->kernel_initializer ? m->kernel_initializer : "random_uniform"};
}

static tl_oneof penalty_of(const tl_l2_regularizer *l2)
{
    return l2->l2.value > 0 ? (tl_oneof){.type = "l2", .value = (void *)(uintptr_t)l2}
                            : (tl_oneof){0};
}

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    classifier *n = (classifier *)m;
    const classifier_config *c = config;
    const tl_image_model_config *model = c->model;
    const tl_norm_activation *norm = &model->norm_activation;
    n->penalty = penalty_of(&c->l2);
    n->backbone = c->backbone;
    if (!n->backbone)
        TL_TRY(tl_backbone_make(&n->backbone, s, &model->backbone,
                                &(tl_backbone_parts){norm, n->penalty.type ? &n->penalty : NULL}));
    if (model->add_head_batch_norm)
        n->norm = tl_batch_norm(s, "norm", .epsilon = TL_SET(norm->norm_epsilon),
                                .momentum = TL_SET(norm->norm_momentum),
                                .synchronized = norm->use_sync_bn);
    if (model->dropout_rate > 0)
        n->dropout = tl_dropout_layer(s, "dropout", .rate = model->dropout_rate);
    n->head =
        tl_dense(s, "head", .units = model->num_classes,
                 .kernel_initializer = head_initializer(model), .kernel_regularizer = n->penalty);
    return tl_scope_status(s);
}

static tl_tensor *forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    classifier *n = (classifier *)m;
    x = tl_call(c, n->backbone, x);
    if (n->norm) x = tl_call(c, n->norm, x);
    if (x && x->shape.rank == 4) x = tl_mean(c, x, TL_AXES(1, 2), false);
    if (n->dropout) x = tl_call(c, n->dropout, x);
    return tl_call(c, n->head, x);
}

static const tl_layer_class classifier_class = {
    .cls = TL_CLASS(tl_layer_class, "image_classifier", NULL, classifier, NULL),
    .build = build,
    .forward = forward,
};

static tl_status check_model(const tl_image_model_config *m)
{
    if (m->num_classes < 1)
        return TL_FAIL(TL_EINVAL, "model.num_classes is %lld: set it to the number of classes",
                       (long long)m->num_classes);
    if (m->input_size.count == 3) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "model.input_size has %lld numbers: set it to [height, width, channels]",
                   (long long)m->input_size.count);
}

tl_status tl_image_classifier_new(tl_model **out, const tl_image_classifier_args *args)
{
    *out = NULL;
    TL_TRY(check_model(args->config));
    const int64_t *size = args->config->input_size.items;
    int64_t batch = args->batch_size > 0 ? args->batch_size : 1;
    tl_spec image = {"image", TL_F32, TL_SHAPE(batch, size[0], size[1], size[2])};
    classifier_config *c = tl_arena_alloc(args->arena, sizeof *c);
    if (!c) return TL_ENOMEM;
    *c = (classifier_config){args->config, {TL_SET(args->l2_weight_decay / 2)}, NULL};
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &classifier_class,
                                              .config = c,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}

/* --- several classifiers on one backbone ------------------------------------------------------ */

typedef struct shared {
    tl_model base;
    tl_l2_regularizer l2;
    tl_oneof penalty;
    tl_layer *backbone, **heads;
    const char **inputs, **outputs; /* "kind/image", "kind/y" */
} shared;

static tl_status add_head(shared *n, tl_scope *s, const tl_image_heads_args *args, int64_t index)
{
    tl_arena *arena = tl_scope_arena(s);
    const tl_shared_head *h = &args->heads[index];
    classifier_config *c = tl_arena_alloc(arena, sizeof *c);
    n->inputs[index] = tl_arena_printf(arena, "%s/image", h->name);
    n->outputs[index] = tl_arena_printf(arena, "%s/y", h->name);
    if (!c || !n->inputs[index] || !n->outputs[index]) return TL_ENOMEM;
    *c = (classifier_config){h->config, {TL_SET(h->l2_weight_decay / 2)}, n->backbone};
    n->heads[index] = tl_scope_layer(s, h->name, &classifier_class, c);
    tl_scope_part(s, n->heads[index]);
    return tl_scope_status(s);
}

static tl_status build_shared(tl_model *m, tl_scope *s, const void *config)
{
    shared *n = (shared *)m;
    const tl_image_heads_args *args = config;
    const tl_shared_image_model_config *model = args->config;
    tl_arena *arena = tl_scope_arena(s);
    n->l2 = (tl_l2_regularizer){TL_SET(model->l2_weight_decay / 2)};
    n->penalty = penalty_of(&n->l2);
    n->heads = tl_arena_array(arena, args->head_count, sizeof *n->heads);
    n->inputs = tl_arena_array(arena, args->head_count, sizeof *n->inputs);
    n->outputs = tl_arena_array(arena, args->head_count, sizeof *n->outputs);
    if (!n->heads || !n->inputs || !n->outputs) return TL_ENOMEM;
    TL_TRY(tl_backbone_make(&n->backbone, s, &model->backbone,
                            &(tl_backbone_parts){&model->norm_activation,
                                                 n->penalty.type ? &n->penalty : NULL}));
    for (int64_t i = 0; i < args->head_count; i++) TL_TRY(add_head(n, s, args, i));
    return TL_OK;
}

static void forward_shared(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const shared *n = (const shared *)m;
    const tl_image_heads_args *args = m->config;
    for (int64_t i = 0; i < args->head_count; i++) {
        tl_tensor *x = tl_tensors_peek(in, n->inputs[i]);
        tl_tensor *y = x ? tl_call(c, n->heads[i], x) : NULL;
        if (y) tl_tensors_put(c, out, n->outputs[i], y);
    }
}

static const tl_layer_class shared_class = {
    .cls = TL_CLASS(tl_layer_class, "image_heads", NULL, shared, NULL),
    .build = build_shared,
    .forward_all = forward_shared,
};

static tl_status check_head(const tl_shared_head *h, const tl_shared_image_model_config *model)
{
    tl_ints own = h->config->input_size, common = model->input_size;
    TL_TRY(check_model(h->config));
    for (int64_t i = 0; i < 3; i++)
        if (common.count != 3 || own.items[i] != common.items[i])
            return TL_FAIL(TL_EINVAL,
                           "model.input_size must be that of the backbone, which all tasks share "
                           "(task.model.input_size, [height, width, channels])");
    return TL_OK;
}

static tl_status list_inputs(tl_spec **out, const tl_image_heads_args *args)
{
    const int64_t *size = args->config->input_size.items;
    int64_t batch = args->batch_size > 0 ? args->batch_size : 1;
    tl_spec *inputs = tl_arena_array(args->arena, args->head_count, sizeof *inputs);
    if (!inputs) return TL_ENOMEM;
    for (int64_t i = 0; i < args->head_count; i++) {
        const char *name = tl_arena_printf(args->arena, "%s/image", args->heads[i].name);
        if (!name) return TL_ENOMEM;
        inputs[i] = (tl_spec){name, TL_F32, TL_SHAPE(batch, size[0], size[1], size[2])};
    }
    *out = inputs;
    return TL_OK;
}

tl_status tl_image_heads_new(tl_model **out, const tl_image_heads_args *args)
{
    tl_spec *inputs;
    *out = NULL;
    for (int64_t i = 0; i < args->head_count; i++)
        TL_TRY_NOTE(check_head(&args->heads[i], args->config), "%s", args->heads[i].name);
    TL_TRY(list_inputs(&inputs, args));
    tl_image_heads_args *kept = tl_arena_copy(args->arena, args, sizeof *args);
    tl_shared_head *heads =
        tl_arena_copy(args->arena, args->heads, (size_t)args->head_count * sizeof *heads);
    if (!kept || !heads) return TL_ENOMEM;
    kept->heads = heads;
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &shared_class,
                                              .config = kept,
                                              .inputs = inputs,
                                              .input_count = args->head_count,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}
