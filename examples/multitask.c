/* Two tasks on one model: both look at the same curve, one learns its height, the other whether it
 * rises. They share an encoder, and each has a head of its own.
 *
 *     $ example_multitask train --experiment=curves --mode=train_and_eval --model_dir=run \
 *           --config_file=multitask.yaml */
#include <string.h>

#include <tilth/tilth.h>

/* --- the tasks -------------------------------------------------------------------------------- */

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    float x[512], height[512], rises[512];
    for (int i = 0; i < 512; i++) {
        x[i] = (float)i / 256 - 1;
        height[i] = x[i] * x[i] * x[i] - x[i];
        rises[i] = 3 * x[i] * x[i] > 1;
    }
    bool first = strcmp(t->name, "height") == 0, training = data->is_training.value;
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(512, 1), x},
                               {"y", TL_F32, TL_SHAPE(512, 1), first ? height : rises}};
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = 2,
                                                         .copy = true,
                                                         .batch_size = data->global_batch_size,
                                                         .shuffle = training,
                                                         .repeat = training,
                                                         .seed = input->seed});
}

static tl_tensor *squares(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                          const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t, (void)aux;
    return tl_mean_squared_error(c, labels->items[0].tensor, outputs->items[0].tensor);
}

static tl_tensor *yes_or_no(tl_task *t, tl_ctx *c, const tl_tensors *labels,
                            const tl_tensors *outputs, tl_tensor *aux)
{
    (void)t, (void)aux;
    return tl_sigmoid_cross_entropy(c, labels->items[0].tensor, outputs->items[0].tensor);
}

static tl_status build_accuracy(tl_task *t, bool training, tl_metrics *into)
{
    (void)t, (void)training;
    tl_binary_accuracy_config logits = {.threshold = TL_SET(0)};
    return tl_metrics_add(NULL, into, &tl_metric_binary_accuracy, &logits, "accuracy");
}

static const tl_desc height_desc = {.name = "height",
                                    .help = "the height of a curve",
                                    .size = sizeof(tl_task_config),
                                    .base = &tl_task_config_desc};
static const tl_task_class height_task = {
    .cls = TL_CLASS(tl_task_class, "height", &tl_base_task.cls, tl_task, &height_desc),
    .build_inputs = build_inputs,
    .build_losses = squares,
};
static const tl_desc rises_desc = {.name = "rises",
                                   .help = "whether a curve rises",
                                   .size = sizeof(tl_task_config),
                                   .base = &tl_task_config_desc};
static const tl_task_class rises_task = {
    .cls = TL_CLASS(tl_task_class, "rises", &tl_base_task.cls, tl_task, &rises_desc),
    .build_inputs = build_inputs,
    .build_losses = yes_or_no,
    .build_metrics = build_accuracy,
};

/* --- the model of both ------------------------------------------------------------------------ */

/* A part of the model: the encoder, which is its config, and a layer of its own. */
typedef struct head {
    tl_layer base;
    tl_layer *last;
} head;

static tl_status head_build(tl_layer *l, tl_scope *s, const void *encoder)
{
    (void)encoder;
    ((head *)l)->last = tl_dense(s, "last", .units = 1);
    return tl_scope_status(s);
}

static tl_tensor *head_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    tl_layer *encoder = (tl_layer *)(uintptr_t)l->config;
    return tl_call(c, ((head *)l)->last, tl_call(c, encoder, x));
}
static const tl_layer_class head_class = {
    .cls = TL_CLASS(tl_layer_class, "curve_head", NULL, head, NULL),
    .build = head_build,
    .forward = head_forward,
};

typedef struct curves {
    tl_model base;
    tl_layer *height, *rises;
} curves;

static tl_status curves_build(tl_model *m, tl_scope *s, const void *config)
{
    curves *n = (curves *)m;
    (void)config;
    tl_layer *encoder = tl_dense(s, "encoder", .units = 32, .activation = TL_ACT_TANH);
    n->height = tl_scope_layer(s, "height", &head_class, encoder);
    n->rises = tl_scope_layer(s, "rises", &head_class, encoder);
    tl_scope_part(s, n->height);
    tl_scope_part(s, n->rises);
    return tl_scope_status(s);
}

/* Of the whole, for the rehearsal: steps call the parts. */
static void curves_forward(tl_model *m, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    curves *n = (curves *)m;
    tl_tensors_put(c, out, "height", tl_call(c, n->height, tl_tensors_get(c, in, "x")));
    tl_tensors_put(c, out, "rises", tl_call(c, n->rises, tl_tensors_get(c, in, "x")));
}
static const tl_layer_class curves_class = {
    .cls = TL_CLASS(tl_layer_class, "curves", NULL, curves, NULL),
    .build = curves_build,
    .forward_all = curves_forward,
};

static tl_status build_model(tl_task *t, tl_model **out)
{
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &curves_class,
                                              .seed = t->seed,
                                              .inputs = &(tl_spec){"x", TL_F32, TL_SHAPE(1, 1)},
                                              .input_count = 1,
                                              .dtype = t->dtype});
}

/* --- all of it -------------------------------------------------------------------------------- */

static const tl_desc curves_desc = {.name = "curves",
                                    .help = "height and slope of a curve",
                                    .size = sizeof(tl_multi_task_config),
                                    .base = &tl_multi_task_config_desc};
static const tl_task_class curves_task = {
    .cls = TL_CLASS(tl_task_class, "curves", &tl_multi_task_class.cls, tl_multi_task, &curves_desc),
    .build_model = build_model,
};

static tl_status fill(tl_experiment_config *e, tl_arena *arena)
{
    tl_structs *list = &((tl_multi_task_config *)e->task.value)->task_routines;
    tl_task_routine *r;
    TL_TRY(tl_task_routines_add(&r, list, arena, "height", &height_desc));
    return tl_task_routines_add(&r, list, arena, "rises", &rises_desc);
}
static const tl_experiment_class experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "curves", .help = "two tasks"},
    .task = &curves_desc,
    .trainer = &tl_multi_task_trainer_config_desc,
    .fill = fill,
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &height_task.cls},
                                       {&tl_kind_task, &rises_task.cls},
                                       {&tl_kind_task, &curves_task.cls},
                                       {&tl_kind_experiment, &experiment.cls}};
    static const tl_module module = {TL_MODULE_HEAD("curves"), entries, TL_COUNT(entries)};
    return tl_main(argc, argv, &module);
}
