/* What the checks beside Model Garden and Hugging Face ask of the library: a model that starts from
 * weights, put to work.
 *
 *     original answers EXPERIMENT CONFIG PREFIX IN OUT # what the model gives for the batch IN
 *     original detect EXPERIMENT CONFIG PREFIX IN OUT  # what a detector finds in the batch IN
 *     original step EXPERIMENT CONFIG PREFIX IN OUT    # one step of training with IN, then a
 *                                                      # checkpoint for Model Garden at the prefix
 *                                                      # OUT; prints the loss
 *     original still EXPERIMENT CONFIG PREFIX IN OUT   # the same, and heads drop nothing
 *
 * PREFIX is that of a checkpoint of Model Garden, a checkpoint of ours, or "-": the model starts as
 * its configuration says. CONFIG is a file for the experiment, or CONFIG,GIN with a gin file; IN,
 * and OUT of answers and detect, are safetensors. */
#include <stdio.h>
#include <string.h>

#include <tilth/tilth.h>

enum { MOST = 16 };

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
    tl_gin *gin;
    struct {
        char name[64];
        tl_tensor *tensor;
    } fields[MOST]; /* of the batch */
    int64_t count;
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
    tl_gin_free(&w->gin);
    tl_registry_free(&w->registry);
}

static tl_status note_field(const tl_state_entry *e, void *payload)
{
    work *w = payload;
    if (e->kind != TL_STATE_TENSOR) return TL_OK;
    if (w->count == MOST) return TL_FAIL(TL_ELIMIT, "a batch has at most %d fields", MOST);
    snprintf(w->fields[w->count].name, sizeof w->fields[0].name, "%s", e->path);
    w->fields[w->count++].tensor = e->tensor;
    return TL_OK;
}

/* All examples are one batch. */
static tl_status make_data(tl_dataset **out, const work *w)
{
    tl_array arrays[MOST];
    tl_lease leases[MOST] = {{0}};
    const int64_t count = w->count;
    tl_status st = TL_OK;
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        const tl_tensor *t = w->fields[i].tensor;
        st = tl_lease_read(&leases[i], t);
        arrays[i] = (tl_array){w->fields[i].name, t->dtype, t->shape, leases[i].data};
    }
    if (st == TL_OK)
        st = tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                           .count = count,
                                                           .copy = true,
                                                           .repeat = true,
                                                           .batch_size = arrays[0].shape.dims[0]});
    for (int64_t i = 0; i < count; i++) tl_lease_drop(&leases[i]);
    return st;
}

static tl_status bind(work *w, const char *path)
{
    if (!path) return TL_OK;
    TL_TRY(tl_gin_new(&w->gin, w->registry));
    TL_TRY(tl_gin_parse_file(w->gin, path));
    TL_TRY(tl_gin_finalize(w->gin));
    tl_gin_set_current(w->gin);
    return TL_OK;
}

static tl_status prepare(work *w, const char *experiment, char *config, const char *in, bool train)
{
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    char *gin = strchr(config, ',');
    if (gin) *gin++ = '\0';
    const char *const files[] = {config};
    parse.experiment = experiment;
    parse.config_file = (tl_strings){files, 1};
    TL_TRY(tl_registry_new_builtin(&w->registry));
    TL_TRY(bind(w, gin));
    TL_TRY(tl_experiment_parse(&w->config, w->registry, &parse));
    w->params = tl_config_value(w->config);
    TL_TRY(tl_experiment_open(&w->strategy, &w->task, w->registry, w->params, NULL, 1));
    TL_TRY(tl_original_names_init(&w->names));
    if (train) TL_TRY(tl_task_original_names(w->task, &w->names)); // what is written needs them
    TL_TRY(tl_safetensors_read(&w->in, in, tl_strategy_engine(w->strategy)));
    TL_TRY(tl_state_walk(w->in, note_field, w));
    TL_TRY(make_data(&w->data, w));
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

static tl_status begin(work *w, const char *prefix)
{
    tl_arena *arena;
    const char *found;
    bool bundle = false;
    if (strcmp(prefix, "-") == 0) return tl_task_initialize(w->task, w->trainer->model);
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_checkpoint_locate(&found, &bundle, arena, prefix);
    tl_arena_free(&arena);
    if (st != TL_OK) return st;
    return bundle ? tl_trainer_restore_original(w->trainer, prefix)
                  : tl_model_initialize_from(w->trainer->model, prefix, (tl_strings){NULL, 0});
}

/* What heads of sentences drop is no field of a configuration, so it is written into theirs. */
static void hold_still(tl_layer *l)
{
    if (tl_class_is(&l->cls->cls, &tl_layer_classification_head.cls))
        ((tl_classification_head_config *)l->config)->dropout_rate.value = 0;
    if (tl_class_is(&l->cls->cls, &tl_layer_dropout.cls))
        ((tl_dropout_config *)l->config)->rate = 0;
    for (tl_layer *child = l->first; child; child = child->next) hold_still(child);
}

/* Of the outputs of RetinaNet, what is found. */
static void detect(const work *w, tl_ctx *c, const tl_tensors *labels, tl_tensors *outputs)
{
    const tl_retinanet_config *m = w->task->config->model.value;
    tl_tensor *info = tl_tensors_get(c, labels, "image_info");
    tl_tensor *shape = info ? tl_take(c, info, 1, 1) : NULL;
    const tl_detections d = tl_retinanet_detect(c, m, outputs, shape, NULL);
    *outputs = (tl_tensors){0};
    tl_tensors_put(c, outputs, "detection_boxes", d.detection_boxes);
    tl_tensors_put(c, outputs, "detection_scores", d.detection_scores);
    tl_tensors_put(c, outputs, "detection_classes", d.detection_classes);
    tl_tensors_put(c, outputs, "num_detections", d.num_detections);
}

static tl_status answer(work *w, const char *out, bool detects)
{
    tl_state *s = NULL;
    tl_ctx *c = w->trainer->ctx;
    tl_mark mark = tl_ctx_begin(c);
    tl_batch batch = {.ctx = c};
    tl_batch_parts parts = {0};
    tl_tensors answers = {0};
    for (int64_t i = 0; i < w->count; i++)
        tl_tensors_put(c, &batch.tensors, w->fields[i].name, w->fields[i].tensor);
    tl_task_split_batch(w->task, &batch, &parts);
    tl_call_all(c, w->trainer->model, &parts.features, &answers);
    if (detects && !tl_ctx_failed(c)) detect(w, c, &parts.labels, &answers);
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK) st = tl_state_new(&s);
    for (int64_t i = 0; st == TL_OK && i < answers.count; i++)
        st = tl_state_put(s, answers.items[i].name, answers.items[i].tensor);
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
    bool still = argc > 1 && strcmp(argv[1], "still") == 0;
    bool train = still || (argc > 1 && strcmp(argv[1], "step") == 0);
    bool detects = argc > 1 && strcmp(argv[1], "detect") == 0;
    if (argc != 7 || (strcmp(argv[1], "answers") != 0 && !train && !detects))
        st = TL_FAIL(TL_EINVAL,
                     "usage: original answers|detect|step|still EXPERIMENT CONFIG PREFIX IN OUT");
    if (st == TL_OK) st = prepare(&w, argv[2], argv[3], argv[5], train);
    if (st == TL_OK && still) hold_still(w.trainer->model);
    if (st == TL_OK) st = begin(&w, argv[4]);
    if (st == TL_OK) st = train ? learn(&w, argv[6]) : answer(&w, argv[6], detects);
    if (st != TL_OK) fprintf(stderr, "original: %s\n", tl_error_message());
    give_back(&w);
    return tl_exit_code(st);
}
