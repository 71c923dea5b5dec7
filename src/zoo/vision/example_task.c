/* The starter example: a whole task in one file, to be copied. What it needs of images comes from
 * tl_image_inputs; model, losses and metrics are its own. */
#include <tilth/nn/metrics.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/pool.h>
#include <tilth/zoo/vision.h>

/* --- what is configured ----------------------------------------------------------------------- */

static const tl_field model_fields[] = {
    TL_F(tl_example_model_config, num_classes, TL_AT_LEAST(0), .help = "number of classes"),
    TL_F(tl_example_model_config, input_size, TL_AT_LEAST(1),
         .help = "height, width and channels of images"),
    TL_F_END,
};
static const tl_desc model_desc = {
    .name = "example_model",
    .help = "a small convolutional network",
    .size = sizeof(tl_example_model_config),
    .fields = model_fields,
};

typedef struct example_losses {
    double l2_weight_decay;
} example_losses;
static const tl_field losses_fields[] = {
    TL_F(example_losses, l2_weight_decay, TL_AT_LEAST(0), .flags = TL_FIELD_UNREAD,
         .help = "read by nothing, as in Model Garden"),
    TL_F_END,
};
static const tl_desc losses_desc = {
    .name = "example_losses",
    .help = "how answers are judged",
    .size = sizeof(example_losses),
    .fields = losses_fields,
};

typedef struct example_evaluation {
    int64_t top_k;
} example_evaluation;
static const tl_field evaluation_fields[] = {
    TL_F(example_evaluation, top_k, .i = 5, TL_AT_LEAST(1),
         .help = "the metric top_K_accuracy: the label is among the K greatest answers"),
    TL_F_END,
};
static const tl_desc evaluation_desc = {
    .name = "example_evaluation",
    .help = "what is told of an evaluation",
    .size = sizeof(example_evaluation),
    .fields = evaluation_fields,
};

typedef struct example_config {
    tl_task_config base;
    example_losses losses;
    example_evaluation evaluation;
    const char *init_checkpoint_modules;
} example_config;

static void init_validation(void *value)
{
    ((tl_image_data_config *)value)->base.is_training.value = false;
}

static const tl_field task_fields[] = {
    TL_F_AS(example_config, base.model, "model", .set = true, .desc = &model_desc,
            .help = "a small convolutional network"),
    TL_F_OPTIONAL_AS(example_config, base.train_data, "train_data", &tl_image_data_config_desc,
                     .set = true, .help = "examples to train with"),
    TL_F_OPTIONAL_AS(example_config, base.validation_data, "validation_data",
                     &tl_image_data_config_desc, .set = true, .init = init_validation,
                     .help = "examples to evaluate with"),
    TL_F_STRUCT(example_config, losses, &losses_desc, .help = "how answers are judged"),
    TL_F_STRUCT(example_config, evaluation, &evaluation_desc,
                .help = "what is told of an evaluation"),
    TL_F(example_config, init_checkpoint_modules, .s = "all", .pattern = "^all$",
         .help = "what init_checkpoint gives: all"),
    TL_F_END,
};
const tl_desc tl_example_task_config_desc = {
    .name = "example_task",
    .help = "the starter example",
    .size = sizeof(example_config),
    .fields = task_fields,
    .base = &tl_task_config_desc,
};

/* --- the model -------------------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *conv[3], *hidden, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    n->conv[0] = tl_conv2d(s, "conv_1", .filters = 16, .kernel = 3, .stride = 2, .padding = TL_SAME,
                           .without_bias = true);
    n->conv[1] = tl_conv2d(s, "conv_2", .filters = 32, .kernel = 3, .stride = 2, .padding = TL_SAME,
                           .without_bias = true);
    n->conv[2] = tl_conv2d(s, "conv_3", .filters = 64, .kernel = 3, .stride = 2, .padding = TL_SAME,
                           .without_bias = true);
    n->hidden = tl_dense(s, "hidden", .units = 1024, .activation = TL_ACT_RELU);
    n->head = tl_dense(s, "head", .units = ((const tl_example_model_config *)config)->num_classes);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    for (int i = 0; i < 3; i++) x = tl_call(c, n->conv[i], x);
    x = tl_global_avg_pool(c, x, false);
    return tl_call(c, n->head, tl_call(c, n->hidden, x));
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "example", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

/* --- the task --------------------------------------------------------------------------------- */

static const example_config *config_of(const tl_task *t)
{
    return (const example_config *)t->config;
}

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_example_model_config *m = t->config->model.value;
    if (!m || m->num_classes < 1 || m->input_size.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "task.model: set num_classes, and input_size to [height, width, channels]");
    const int64_t *size = m->input_size.items;
    tl_spec image = {"image", TL_F32, TL_SHAPE(1, size[0], size[1], size[2])};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &net_class,
                                              .config = m,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = t->seed,
                                              .dtype = t->dtype,
                                              .registry = t->registry});
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const tl_example_model_config *m = t->config->model.value;
    const tl_image_data_config *train = (const tl_image_data_config *)t->config->train_data;
    tl_strings classes = {0}; // folders of validation are numbered as those of training
    if (train) TL_TRY(tl_image_classes(&classes, t->arena, train, "task.train_data"));
    return tl_image_inputs(out, &(tl_image_inputs_args){.data = (const tl_image_data_config *)data,
                                                        .size = m->input_size,
                                                        .num_classes = m->num_classes,
                                                        .input = *input,
                                                        .evaluation = data != t->config->train_data,
                                                        .class_names = classes,
                                                        .arena = t->arena});
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t;
    tl_tensor *logits = outputs->items[0].tensor;
    if (logits && logits->dtype != TL_F64) logits = tl_cast(c, logits, TL_F32);
    tl_tensor *losses = tl_sparse_cross_entropy(c, labels->items[0].tensor, logits);
    return aux && losses ? tl_add(c, losses, tl_cast(c, aux, losses->dtype)) : losses;
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    int64_t k = config_of(t)->evaluation.top_k;
    char *top = tl_arena_printf(t->arena, "top_%lld_accuracy", (long long)k);
    (void)training;
    if (!top) return TL_ENOMEM;
    TL_TRY(tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy"));
    return tl_metrics_add(NULL, into, &tl_metric_sparse_top_k_categorical_accuracy,
                          &(tl_top_k_config){.k = k}, top);
}

/* Steps, and starting from other weights, are the base's. */
const tl_task_class tl_example_task = {
    .cls = {.class_size = sizeof(tl_task_class),
            .name = "example_task",
            .base = &tl_base_task.cls,
            .size = sizeof(tl_task),
            .config = &tl_example_task_config_desc,
            .help = "the starter example: a small network for images"},
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
};
