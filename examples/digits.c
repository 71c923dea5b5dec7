/* A whole task: its configuration, model, data, loss and metrics; the experiment; the module. */
#include "digits.h"

/* --- the configuration: the base first, then what is new -------------------------------------- */

static const tl_field fields[] = {
    TL_F(digits_config, num_classes, .i = 10, TL_RANGE(2, 10), .help = "digits, from 0 on"),
    TL_F_END,
};
const tl_desc digits_desc = {
    .name = "digits",
    .help = "classification of small images",
    .size = sizeof(digits_config),
    .base = &tl_task_config_desc,
    .fields = fields,
};

/* --- the model -------------------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *hidden, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    n->hidden = tl_dense(s, "hidden", .units = 32, .activation = TL_ACT_RELU);
    n->head = tl_dense(s, "head", .units = ((const digits_config *)config)->num_classes);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *image)
{
    net *n = (net *)m;
    tl_tensor *x = tl_reshape(c, image, TL_SHAPE(image->shape.dims[0], DIGIT_PIXELS));
    return tl_call(c, n->head, tl_call(c, n->hidden, x));
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "digits_net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static tl_status build_model(tl_task *t, tl_model **out)
{
    tl_spec image = {"image", TL_F32, TL_SHAPE(1, DIGIT_SIDE, DIGIT_SIDE, 1)};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &net_class,
                                              .config = t->config,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = t->seed,
                                              .dtype = t->dtype,
                                              .registry = t->registry});
}

/* --- the data --------------------------------------------------------------------------------- */

enum { EXAMPLES = 640, GLYPH_ROWS = 5, GLYPH_COLUMNS = 3 };

// clang-format off
static const char *const glyphs[10] = {
    "###" "#.#" "#.#" "#.#" "###",  ".#." "##." ".#." ".#." "###",  "###" "..#" "###" "#.." "###",
    "###" "..#" ".##" "..#" "###",  "#.#" "#.#" "###" "..#" "..#",  "###" "#.." "###" "..#" "###",
    "###" "#.." "###" "#.#" "###",  "###" "..#" ".#." ".#." ".#.",  "###" "#.#" "###" "#.#" "###",
    "###" "#.#" "###" "..#" "###",
};
// clang-format on

/* One picture: the digit somewhere, under noise. */
static void draw(float image[DIGIT_PIXELS], const char *glyph, tl_rng *rng)
{
    int64_t top = tl_rng_below(rng, 2) + 1, left = tl_rng_below(rng, 3) + 1;
    for (int i = 0; i < DIGIT_PIXELS; i++) image[i] = 0.3F * tl_rng_uniform_f32(rng);
    for (int row = 0; row < GLYPH_ROWS; row++)
        for (int column = 0; column < GLYPH_COLUMNS; column++)
            if (glyph[row * GLYPH_COLUMNS + column] == '#')
                image[(top + row) * DIGIT_SIDE + left + column] += 0.7F;
}

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    const digits_config *config = (const digits_config *)t->config;
    bool training = data->is_training.set && data->is_training.value;
    static float images[EXAMPLES][DIGIT_PIXELS];
    int32_t labels[EXAMPLES];
    tl_rng rng;
    tl_rng_init(&rng, training ? 1 : 2); // other pictures to learn from than to be asked about
    for (int i = 0; i < EXAMPLES; i++) {
        labels[i] = (int32_t)(i % config->num_classes);
        draw(images[i], glyphs[labels[i]], &rng);
    }
    tl_shape pictures = TL_SHAPE(EXAMPLES, DIGIT_SIDE, DIGIT_SIDE, 1);
    const tl_array arrays[] = {{"image", TL_F32, pictures, images},
                               {"label", TL_I32, TL_SHAPE(EXAMPLES), labels}};
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .batch_size = data->global_batch_size,
                                                         .shuffle = training,
                                                         .repeat = training,
                                                         .seed = input->seed});
}

/* --- the loss and the metrics ----------------------------------------------------------------- */

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t;
    tl_tensor *each = tl_sparse_cross_entropy(c, labels->items[0].tensor, outputs->items[0].tensor);
    return aux ? tl_add(c, each, aux) : each;
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)t;
    (void)training;
    return tl_metrics_add(NULL, into, &tl_metric_sparse_categorical_accuracy, NULL, "accuracy");
}

/* --- something to look at: computed on the host from what validation steps log ---------------- */

static tl_status start(tl_task *t)
{
    tl_shape picture = TL_SHAPE(DIGIT_SIDE, DIGIT_SIDE, 1);
    return tl_tensor_new(&((digits *)t)->hardest, t->engine, TL_F32, picture);
}

static void dispose(tl_task *t)
{
    tl_tensor_free(&((digits *)t)->hardest);
}

static tl_status validation_step(tl_task *t, tl_step *s)
{
    TL_TRY(tl_base_task.validation_step(t, s));
    if (!t->config->allow_image_summary) return TL_OK;
    tl_tensor *image = tl_batch_get(s->batch, "image"), *label = tl_batch_get(s->batch, "label");
    tl_tensor *losses = tl_sparse_cross_entropy(s->ctx, label, tl_step_forward(s, image));
    tl_tensor *worst = tl_argmax(s->ctx, losses, 0, true);
    tl_step_log(s, "hardest", tl_gather(s->ctx, image, worst, 0));
    tl_step_log(s, "hardest_loss", tl_gather(s->ctx, losses, worst, 0));
    return tl_ctx_status(s->ctx);
}

static tl_status aggregate_logs(tl_task *t, void **state, const tl_logs *step)
{
    digits *d = (digits *)t;
    float pixels[DIGIT_PIXELS];
    tl_logs_entry image;
    if (!tl_logs_find(&image, step, "hardest")) return TL_OK;
    double loss = tl_logs_number_or(step, "hardest_loss", 0);
    if (*state && loss <= d->hardest_loss) return TL_OK;
    *state = d; // NULL at the first batch of an evaluation
    d->hardest_loss = loss;
    TL_TRY(tl_tensor_get(image.tensor, pixels, sizeof pixels));
    return tl_tensor_set(d->hardest, pixels, sizeof pixels);
}

static tl_status reduce_aggregated_logs(tl_task *t, void *state, int64_t global_step, tl_logs *into)
{
    const digits *d = state;
    tl_logs *more;
    (void)t;
    (void)global_step;
    TL_TRY(tl_logs_put_image(into, "image/hardest", d->hardest));
    TL_TRY(tl_logs_sub(&more, into, "hardest"));
    return tl_logs_put(more, "loss", d->hardest_loss);
}

const tl_task_class digits_task = {
    .cls = TL_CLASS(tl_task_class, "digits", &tl_base_task.cls, digits, &digits_desc,
                    .help = "tells digits apart"),
    .start = start,
    .dispose = dispose,
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .validation_step = validation_step,
    .aggregate_logs = aggregate_logs,
    .reduce_aggregated_logs = reduce_aggregated_logs,
};

/* --- the experiment: which task, and what differs from the defaults --------------------------- */

const tl_experiment_class digits_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class),
            .name = "example/digits",
            .help = "digits in small pictures"},
    .task = &digits_desc,
    .defaults = "task:\n"
                "  train_data: {is_training: true, global_batch_size: 32}\n"
                "  validation_data: {is_training: false, global_batch_size: 64}\n"
                "trainer:\n"
                "  train_steps: 1000\n"
                "  steps_per_loop: 250\n"
                "  summary_interval: 250\n"
                "  checkpoint_interval: 500\n"
                "  validation_interval: 500\n"
                "  optimizer_config:\n"
                "    optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"
                "    learning_rate: {type: constant, constant: {learning_rate: 0.1}}\n"
                "tilth: {seed: 1}\n",
};

static const tl_entry entries[] = {
    {&tl_kind_task, &digits_task.cls},
    {&tl_kind_experiment, &digits_experiment.cls},
};
const tl_module digits_module = {TL_MODULE_HEAD("digits"), entries, TL_COUNT(entries)};
