/* The model of image classification: a backbone and a head. */
#include <tilth/ops/reduce.h>
#include <tilth/zoo/vision.h>

typedef struct classifier_config {
    const tl_image_model_config *model;
    tl_l2_regularizer l2;
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

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    classifier *n = (classifier *)m;
    const classifier_config *c = config;
    const tl_image_model_config *model = c->model;
    const tl_norm_activation *norm = &model->norm_activation;
    if (c->l2.l2.value > 0)
        n->penalty = (tl_oneof){.type = "l2", .value = (void *)(uintptr_t)&c->l2};
    TL_TRY(tl_backbone_make(&n->backbone, s, &model->backbone,
                            &(tl_backbone_parts){norm, c->l2.l2.value > 0 ? &n->penalty : NULL}));
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
    *c = (classifier_config){args->config, {TL_SET(args->l2_weight_decay / 2)}};
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &classifier_class,
                                              .config = c,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}
