/* Counterpart of "Logging of Metrics" (LiBai, Training): the model itself says something about what
 * it computes, and so does a hook; all of it comes together in the event storage, and writers bring
 * it to metrics.json, the console and TensorBoard.
 *
 *     $ example_event_storage digits.yaml run && tail -1 run/metrics.json */
#include "digits.h"

/* --- inside the model ------------------------------------------------------------------------- */

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
    tl_tensor *hidden = tl_call(c, n->hidden, x);
    if (tl_ctx_training(c)) {
        // get_event_storage().put_scalar("active_units", value): of a tensor, which is read when a
        // writer fires; in a compiled step it is one more output of the program.
        tl_tensor *active = tl_greater(c, hidden, tl_number(c, hidden->dtype, 0));
        tl_ctx_log(c, "active_units", tl_mean(c, tl_cast(c, active, TL_F32), TL_ALL, false));
    }
    return tl_call(c, n->head, hidden);
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "my_net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

/* --- outside of it: whatever runs during training --------------------------------------------- */

static tl_status after_step(tl_hook *h)
{
    tl_event_storage *storage = tl_event_storage_current(); // get_event_storage()
    const tl_optimizer *o = tl_controller_trainer(h->controller)->optimizer;
    return tl_event_storage_put_plain(storage, "rate_multiplier", tl_optimizer_multiplier(o));
}

static const tl_hook_class my_hook = {
    .cls = TL_CLASS(tl_hook_class, "my_hook", NULL, tl_hook, NULL),
    .after_step = after_step,
};

/* Before the others: writers come last, and write what was put until then. */
static tl_status build_hooks(tl_default_trainer *t)
{
    TL_TRY(tl_hooks_add(&t->hooks, NULL, &my_hook,
                        &(tl_hook_args){.period = t->config->train.log_period}));
    return tl_base_default_trainer.build_hooks(t);
}

static const tl_default_trainer_class my_trainer = {
    .cls = TL_CLASS(tl_default_trainer_class, "MyTrainer", &tl_base_default_trainer.cls,
                    tl_default_trainer, NULL),
    .build_hooks = build_hooks,
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

static const tl_field fields[] = {TL_F_END};
static const tl_desc desc = {
    .name = "my_digits",
    .help = "digits, and a model that tells of itself",
    .size = sizeof(digits_config),
    .base = &digits_desc,
    .fields = fields,
};
static const tl_task_class task = {
    .cls = TL_CLASS(tl_task_class, "my_digits", &digits_task.cls, digits, &desc,
                    .help = "digits, and a model that tells of itself"),
    .build_model = build_model,
};

int main(int argc, char **argv)
{
    static const tl_entry entries[] = {{&tl_kind_task, &task.cls}};
    static const tl_module module = {TL_MODULE_HEAD("my_digits"), entries, TL_COUNT(entries)};
    const char *file = argc > 1 ? argv[1] : "digits.yaml";
    tl_registry *registry = NULL;
    tl_config *config = NULL;
    tl_default_trainer *t = NULL;
    tl_str output = TL_STR_INIT;
    tl_event_latest active;
    tl_status st;
    tl_str_addf(&output, "train.output_dir=%s", argc > 2 ? argv[2] : "output");
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &digits_module));
    TL_TRY_DONE(st, tl_registry_add(registry, &module));
    TL_TRY_DONE(st, tl_libai_begin(&config, registry, file));
    const tl_word words[] = {{"model._target_=my_digits", "main"},
                             {tl_str_text(&output), "command line"}};
    TL_TRY_DONE(st, tl_libai_words(config, words, TL_COUNT(words)));
    TL_TRY_DONE(st, tl_config_finish(config));
    TL_TRY_DONE(st, tl_default_trainer_new(
                        &t, &(tl_default_trainer_args){.cls = &my_trainer,
                                                       .registry = registry,
                                                       .config = tl_config_value(config)}));
    TL_TRY_DONE(st, tl_default_trainer_train(t));
    tl_event_storage *storage = tl_controller_storage(t->controller);
    TL_TRY_DONE(st, tl_event_storage_latest(&active, storage, "active_units"));
    printf("%.0f%% of the units are active\n", 100 * active.value);
done:
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    tl_default_trainer_free(&t);
    tl_config_free(&config);
    tl_registry_free(&registry);
    tl_str_deinit(&output);
    return tl_exit_code(st);
}
