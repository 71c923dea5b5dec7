/* What check_original.py asks of the library: a model that starts from a checkpoint of Model
 * Garden, put to work.
 *
 *     original logits CONFIG PREFIX IN OUT   # answers to IN's "image", as OUT's "logits"
 *     original step CONFIG PREFIX IN OUT     # one step of training with IN's "image" and "label",
 *                                            # then a checkpoint for Model Garden at the prefix
 *                                            # OUT; prints the loss
 *
 * CONFIG is a file for the experiment image_classification; IN, and OUT of logits, are
 * safetensors. */
#include <stdio.h>
#include <string.h>

#include <tilth/tilth.h>

typedef struct work {
    tl_registry *registry;
    tl_config *config;
    const tl_experiment_config *params;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    tl_original_names names;
    tl_state *in;
    tl_dataset *data;
} work;

static void give_back(work *w)
{
    tl_trainer_free(&w->trainer);
    tl_dataset_free(&w->data);
    tl_state_free(&w->in);
    tl_original_names_deinit(&w->names);
    tl_task_free(&w->task);
    tl_strategy_free(&w->strategy);
    tl_config_free(&w->config);
    tl_registry_free(&w->registry);
}

static tl_status find(tl_tensor **out, const tl_state *s, const char *name)
{
    tl_state_entry e;
    TL_TRY(tl_state_get(&e, s, name, TL_STATE_TENSOR));
    *out = e.tensor;
    return TL_OK;
}

static tl_status lend(tl_array *out, tl_lease *lease, const tl_state *s, const char *name)
{
    tl_tensor *t = NULL;
    TL_TRY(find(&t, s, name));
    TL_TRY(tl_lease_read(lease, t));
    *out = (tl_array){name, t->dtype, t->shape, lease->data};
    return TL_OK;
}

/* All examples are one batch. */
static tl_status make_data(tl_dataset **out, const tl_state *in)
{
    tl_array arrays[2];
    tl_lease leases[2] = {{0}};
    tl_status st = lend(&arrays[0], &leases[0], in, "image");
    if (st == TL_OK) st = lend(&arrays[1], &leases[1], in, "label");
    if (st == TL_OK)
        st = tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                           .count = 2,
                                                           .copy = true,
                                                           .repeat = true,
                                                           .batch_size = arrays[0].shape.dims[0]});
    for (int i = 0; i < 2; i++) tl_lease_drop(&leases[i]);
    return st;
}

static tl_status prepare(work *w, const char *const *files, const char *in, bool train)
{
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    parse.experiment = "image_classification";
    parse.config_file = (tl_strings){files, 1};
    TL_TRY(tl_registry_new_builtin(&w->registry));
    TL_TRY(tl_experiment_parse(&w->config, w->registry, &parse));
    w->params = tl_config_value(w->config);
    TL_TRY(tl_experiment_open(&w->strategy, &w->task, w->registry, w->params, NULL, 1));
    TL_TRY(tl_original_names_init(&w->names));
    TL_TRY(tl_task_original_names(w->task, &w->names));
    TL_TRY(tl_safetensors_read(&w->in, in, tl_strategy_engine(w->strategy)));
    TL_TRY(make_data(&w->data, w->in));
    tl_trainer_args args = {.config = w->params,
                            .strategy = w->strategy,
                            .task = w->task,
                            .train = train,
                            .evaluate = !train,
                            .seed = 1};
    *(train ? &args.train_dataset : &args.validation_dataset) = w->data;
    w->data = NULL;
    return tl_trainer_new(&w->trainer, &args);
}

static tl_status answer(work *w, const char *out)
{
    tl_tensor *image = NULL;
    tl_state *s = NULL;
    tl_ctx *c = w->trainer->ctx;
    tl_mark mark = tl_ctx_begin(c);
    tl_status st = find(&image, w->in, "image");
    tl_tensor *logits = st == TL_OK ? tl_call(c, w->trainer->model, image) : NULL;
    if (st == TL_OK) st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_state_new(&s);
    if (st == TL_OK) st = tl_state_put(s, "logits", logits);
    if (st == TL_OK) st = tl_safetensors_write(out, s, NULL, 0);
    tl_state_free(&s);
    tl_ctx_end(c, mark);
    return st;
}

static tl_status learn(work *w, const char *out)
{
    tl_logs *logs;
    TL_TRY(tl_logs_new(&logs));
    tl_status st = tl_trainer_train(w->trainer, 1, logs);
    if (st == TL_OK)
        st = tl_original_write(out, tl_trainer_checkpoint(w->trainer), &w->names, NULL);
    if (st == TL_OK) printf("%.9g\n", tl_logs_number_or(logs, "training_loss", -1));
    tl_logs_free(&logs);
    return st;
}

int main(int argc, char **argv)
{
    work w = {0};
    tl_status st = TL_OK;
    if (argc != 6 || (strcmp(argv[1], "logits") != 0 && strcmp(argv[1], "step") != 0))
        st = TL_FAIL(TL_EINVAL, "usage: original logits|step CONFIG PREFIX IN OUT");
    bool train = argc > 1 && strcmp(argv[1], "step") == 0;
    const char *const files[] = {argc > 2 ? argv[2] : NULL};
    if (st == TL_OK) st = prepare(&w, files, argv[4], train);
    if (st == TL_OK) st = tl_trainer_restore_original(w.trainer, argv[3]);
    if (st == TL_OK) st = train ? learn(&w, argv[5]) : answer(&w, argv[5]);
    if (st != TL_OK) fprintf(stderr, "original: %s\n", tl_error_message());
    give_back(&w);
    return tl_exit_code(st);
}
