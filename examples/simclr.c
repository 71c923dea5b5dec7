/* Contrastive learning on data of one's own: waves, of which each example has two noisy views. The
 * model learns which views belong together, without labels.
 *
 *     $ example_simclr train --experiment=waves --mode=train_and_eval --model_dir=run
 *
 * For images there are tasks already: simclr.yaml. */
#include <math.h>

#include <tilth/tilth.h>

enum { WAVES = 512, SAMPLES = 24 };

/* --- data: two views of each wave ------------------------------------------------------------- */

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    static float views[2][WAVES][SAMPLES];
    bool training = data->is_training.value;
    tl_rng rng;
    (void)t;
    tl_rng_init(&rng, training ? 1 : 2);
    for (int i = 0; i < WAVES; i++) {
        double length = 4 + 12 * tl_rng_uniform_f64(&rng), start = 6.28 * tl_rng_uniform_f64(&rng);
        for (int v = 0; v < 2; v++)
            for (int k = 0; k < SAMPLES; k++)
                views[v][i][k] =
                    (float)sin(start + 6.28 * k / length) + 0.1f * tl_rng_normal_f32(&rng);
    }
    const tl_array arrays[] = {{"first", TL_F32, TL_SHAPE(WAVES, SAMPLES), views[0]},
                               {"second", TL_F32, TL_SHAPE(WAVES, SAMPLES), views[1]}};
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .batch_size = data->global_batch_size,
                                                         .shuffle = training,
                                                         .repeat = training,
                                                         .seed = input->seed});
}

/* --- the model: one encoder for both ---------------------------------------------------------- */

typedef struct encoder {
    tl_model base;
    tl_layer *hidden, *last;
} encoder;

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    encoder *n = (encoder *)m;
    (void)config;
    n->hidden = tl_dense(s, "hidden", .units = 64, .activation = TL_ACT_RELU);
    n->last = tl_dense(s, "last", .units = 8);
    return tl_scope_status(s);
}

static void forward(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    encoder *n = (encoder *)m;
    for (int64_t i = 0; i < in->count; i++)
        tl_tensors_put(c, out, in->items[i].name,
                       tl_call(c, n->last, tl_call(c, n->hidden, in->items[i].tensor)));
}
static const tl_layer_class encoder_class = {
    .cls = TL_CLASS(tl_layer_class, "wave_encoder", NULL, encoder, NULL),
    .build = build,
    .forward_all = forward,
};

static tl_status build_model(tl_task *t, tl_model **out)
{
    const tl_spec inputs[] = {{"first", TL_F32, TL_SHAPE(1, SAMPLES)},
                              {"second", TL_F32, TL_SHAPE(1, SAMPLES)}};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &encoder_class,
                                              .seed = t->seed,
                                              .inputs = inputs,
                                              .input_count = 2,
                                              .dtype = t->dtype});
}

/* --- the loss, and how many views are found --------------------------------------------------- */

static void compare(tl_contrast *out, tl_ctx *c, const tl_tensors *outputs)
{
    tl_contrastive_loss(out, c, tl_tensors_get(c, outputs, "first"),
                        tl_tensors_get(c, outputs, "second"),
                        &(tl_contrastive_args){.temperature = 0.2});
}

static tl_tensor *build_losses(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                               const tl_tensors *outputs, tl_tensor *aux)
{
    tl_contrast found;
    (void)t, (void)labels, (void)aux;
    compare(&found, c, outputs);
    return found.losses;
}

static tl_status build_metrics(tl_task *t, bool training, tl_metrics *into)
{
    (void)t, (void)training;
    return tl_metrics_add(NULL, into, &tl_metric_mean, NULL, "found");
}

static void process_metrics(tl_task *t, tl_step *s, const tl_tensors *labels,
                            const tl_tensors *outputs)
{
    tl_contrast found;
    (void)t, (void)labels;
    bool taping = tl_ctx_set_taping(s->ctx, false);
    compare(&found, s->ctx, outputs);
    tl_metric_update_value(tl_metrics_find(s->metrics, "found"), s->ctx,
                           tl_contrast_accuracy(s->ctx, &found), tl_step_parts(s)->weight);
    tl_ctx_set_taping(s->ctx, taping);
}

static const tl_desc desc = {.name = "waves",
                             .help = "which views are of the same wave",
                             .size = sizeof(tl_task_config),
                             .base = &tl_task_config_desc};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "waves", &tl_base_task.cls, tl_task, &desc),
    .build_model = build_model,
    .build_inputs = build_inputs,
    .build_losses = build_losses,
    .build_metrics = build_metrics,
    .process_metrics = process_metrics,
};
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "waves", .help = "views of waves"},
    .task = &desc,
    .defaults = "task: {train_data: {is_training: true, global_batch_size: 64},\n"
                "       validation_data: {is_training: false, global_batch_size: 64}}\n"
                "trainer:\n"
                "  train_steps: 500\n"
                "  steps_per_loop: 100\n"
                "  summary_interval: 100\n"
                "  validation_interval: 500\n"
                "  optimizer_config:\n"
                "    optimizer: {type: adam}\n"
                "    learning_rate: {type: constant, constant: {learning_rate: 0.005}}\n",
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("waves"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
