/* Checkpoints of Model Garden: what is written is read again under our names, another model is told
 * from the right one, a model begins with the weights of one, and a run goes on from one.
 *
 * runs: fake device */
#include "train/toy.h"

#include <tilth/io/tensorflow/tensorbundle.h>
#include <tilth/nn/layers.h>
#include <tilth/train/run/initialize.h>

#include "io/alloc_failures.h"

#define VALUE TL_TENSORBUNDLE_VALUE

enum { WIDTH = 3 };

/* --- a model of two layers -------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *trunk, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->trunk = tl_dense(s, "trunk", .units = 4);
    n->head = tl_dense(s, "head", .units = 2);
    tl_scope_item(s, "backbone", n->trunk);
    tl_scope_item(s, "head", n->head);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    return tl_call(c, n->head, tl_call(c, n->trunk, x));
}
static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static tl_status net_names(tl_task *t, tl_original_names *into)
{
    (void)t;
    TL_TRY(tl_original_names_add(into, "trunk", "backbone/layer_with_weights-0"));
    TL_TRY(tl_original_names_same(into, "model/layer_with_weights-0", "backbone"));
    return tl_original_names_add(into, "head", "model/layer_with_weights-1");
}
static const tl_task_class net_task = {
    .cls = TL_CLASS(tl_task_class, "net", &tl_base_task.cls, tl_task, NULL),
    .original_names = net_names,
};

static tl_engine *engine;
static tl_original_names names;

static int setup(void **state)
{
    int code = toy_setup(state);
    engine = tl_strategy_engine(((toy *)*state)->strategy);
    assert_ok(tl_original_names_init(&names));
    assert_ok(net_names(NULL, &names));
    return code;
}

static int teardown(void **state)
{
    tl_original_names_deinit(&names);
    return toy_teardown(state);
}

static tl_model *model_of(uint64_t seed)
{
    tl_model *m;
    tl_spec x = {"x", TL_F32, TL_SHAPE(2, WIDTH)};
    assert_ok(tl_model_new(
        &m,
        &(tl_model_args){
            .engine = engine, .cls = &net_class, .inputs = &x, .input_count = 1, .seed = seed}));
    return m;
}

static void put(tl_state *s, const char *path, tl_dtype dtype, tl_shape shape, double value)
{
    tl_tensor *t;
    double values[16];
    for (int i = 0; i < 16; i++) values[i] = value;
    assert_ok(tl_tensor_new(&t, engine, dtype, shape));
    assert_ok(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    assert_ok(tl_state_put(s, path, t));
    tl_tensor_free(&t);
}

/* As a trainer has it. */
static tl_state *state_of(tl_model *m, bool averages)
{
    tl_state *s, *sub;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_sub(&sub, s, "model"));
    assert_ok(tl_model_state(m, sub));
    put(s, "optimizer/momentum/trunk/kernel", TL_F32, TL_SHAPE(WIDTH, 4), 5);
    put(s, "optimizer/momentum/head/bias", TL_F32, TL_SHAPE(2), 6);
    if (averages) put(s, "optimizer/average/trunk/kernel", TL_F32, TL_SHAPE(WIDTH, 4), 7);
    put(s, "optimizer/iterations", TL_I64, TL_SCALAR, 9);
    put(s, "optimizer/loss_scale/scale", TL_F32, TL_SCALAR, 1024);
    put(s, "optimizer/loss_scale/good_steps", TL_I64, TL_SCALAR, 11);
    assert_ok(tl_state_put_double(s, "optimizer/rate_multiplier", 1));
    // no double is that number
    assert_ok(tl_state_put_int(s, "global_step", (INT64_C(1) << 53) + 1));
    assert_ok(tl_state_put_int(s, "train_data/position", 3));
    return s;
}

static double first_of(const tl_state *s, const char *path)
{
    tl_state_entry e;
    double v[16];
    assert_ok(tl_state_get(&e, s, path, TL_STATE_TENSOR));
    assert_ok(tl_tensor_get_doubles(e.tensor, v, tl_tensor_count(e.tensor)));
    return v[0];
}

static void has_entry(const tl_tensorbundle *b, const char *name)
{
    if (!tl_tensorbundle_find(b, name)) fail_msg("there is no entry '%s'", name);
}

/* --- there and back --------------------------------------------------------------------------- */

static void both_ways(bool averages)
{
    tl_model *m = model_of(1);
    tl_state *s = state_of(m, averages), *read;
    tl_state_entry e;
    tl_tensorbundle *b;
    tl_str left_out = TL_STR_INIT;
    assert_ok(tl_original_write("x", s, &names, &left_out));
    assert_string_equal(tl_str_text(&left_out), "optimizer/rate_multiplier\ntrain_data/position\n");
    tl_str_cut(&left_out, 0);
    assert_ok(tl_tensorbundle_open(&b, "x"));
    has_entry(b, "backbone/layer_with_weights-0/kernel" VALUE);
    has_entry(b, "model/layer_with_weights-1/bias" VALUE);
    has_entry(b, "save_counter" VALUE);
    has_entry(b, "optimizer/loss_scale/current_loss_scale" VALUE);
    has_entry(b, "optimizer/loss_scale/good_steps" VALUE);
    if (averages) {
        has_entry(b, "optimizer/ema_base_optimizer/iter" VALUE);
        has_entry(b,
                  "backbone/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/average" VALUE);
        has_entry(b, "backbone/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/"
                     "ema_base_optimizer/momentum" VALUE);
    } else {
        has_entry(b, "optimizer/iter" VALUE);
        has_entry(b,
                  "backbone/layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/momentum" VALUE);
    }
    tl_tensorbundle_free(&b);
    assert_ok(tl_original_check("x", &names));
    assert_ok(tl_original_read(&read, "x", &names, engine, &left_out));
    assert_string_equal(tl_str_text(&left_out), "");
    static const char *const weights[] = {"model/trunk/kernel", "model/trunk/bias",
                                          "model/head/kernel", "model/head/bias"};
    for (int i = 0; i < TL_COUNT(weights); i++)
        assert_true(first_of(s, weights[i]) == first_of(read, weights[i]));
    assert_true(first_of(read, "optimizer/momentum/trunk/kernel") == 5);
    assert_true(first_of(read, "optimizer/momentum/head/bias") == 6);
    assert_true(first_of(read, "optimizer/iterations") == 9);
    assert_true(first_of(read, "optimizer/loss_scale/scale") == 1024);
    assert_true(first_of(read, "optimizer/loss_scale/good_steps") == 11);
    if (averages) assert_true(first_of(read, "optimizer/average/trunk/kernel") == 7);
    assert_ok(tl_state_get(&e, read, "global_step", TL_STATE_INT));
    assert_true(e.i == (INT64_C(1) << 53) + 1);
    assert_ok(tl_state_get(&e, read, "seed", TL_STATE_WORDS));
    tl_str_deinit(&left_out);
    tl_state_free(&read);
    tl_state_free(&s);
    tl_model_free(&m);
}

static void there_and_back(void **state)
{
    (void)state;
    both_ways(false);
    both_ways(true);
}

/* A weight that has another name there has it in slots too; one of the same name in another layer
 * has not. */
static void renamed_weights(void **state)
{
    (void)state;
    tl_model *m = model_of(1);
    tl_state *s = state_of(m, false), *read;
    tl_tensorbundle *b;
    assert_ok(tl_original_names_rename(&names, "trunk/kernel", "depthwise_kernel"));
    assert_ok(tl_original_write("x", s, &names, NULL));
    assert_ok(tl_tensorbundle_open(&b, "x"));
    has_entry(b, "backbone/layer_with_weights-0/depthwise_kernel" VALUE);
    has_entry(b, "backbone/layer_with_weights-0/depthwise_kernel/.OPTIMIZER_SLOT/optimizer/"
                 "momentum" VALUE);
    has_entry(b, "model/layer_with_weights-1/kernel" VALUE);
    assert_null(tl_tensorbundle_find(b, "backbone/layer_with_weights-0/kernel" VALUE));
    tl_tensorbundle_free(&b);
    assert_ok(tl_original_check("x", &names));
    assert_ok(tl_original_read(&read, "x", &names, engine, NULL));
    assert_true(first_of(s, "model/trunk/kernel") == first_of(read, "model/trunk/kernel"));
    assert_true(first_of(s, "model/head/kernel") == first_of(read, "model/head/kernel"));
    assert_true(first_of(read, "optimizer/momentum/trunk/kernel") == 5);
    tl_state_free(&read);
    tl_state_free(&s);
    tl_model_free(&m);
}

/* A file of weights alone, or of a part of them. */
static void weights_alone(void **state)
{
    (void)state;
    tl_model *m = model_of(1);
    tl_state *s, *read;
    tl_state_entry e;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_model_state(m, s));
    assert_ok(tl_original_write("x", s, &names, NULL));
    assert_ok(tl_original_check("x", &names));
    tl_state_free(&s);
    assert_ok(tl_state_new(&s));
    put(s, "head/kernel", TL_F32, TL_SHAPE(4, 2), 1);
    assert_ok(tl_original_write("x", s, &names, NULL)); // no backbone, and so none by another name
    assert_ok(tl_original_read(&read, "x", &names, engine, NULL));
    assert_true(first_of(read, "model/head/kernel") == 1);
    assert_false(tl_state_find(&e, read, "model/trunk"));
    assert_fails(tl_original_check("x", &names), TL_EINVAL,
                 "it lacks 1 of the 2 layers of this one: 'backbone/layer_with_weights-0', and 0 "
                 "of its weights");
    tl_state_free(&read);
    tl_state_free(&s);
    assert_ok(tl_state_new(&s));
    put(s, "neck/kernel", TL_F32, TL_SHAPE(4, 2), 1);
    assert_fails(tl_original_write("y", s, &names, NULL), TL_EINVAL,
                 "no weight of the model is in it");
    put(s, "model/neck/kernel", TL_F32, TL_SHAPE(4, 2), 1);
    assert_fails(tl_original_write("y", s, &names, NULL), TL_EINVAL,
                 "the weight 'neck/kernel' has no name");
    assert_files("y*", "");
    tl_state_free(&s);
    tl_model_free(&m);
}

/* --- what is not as it should be -------------------------------------------------------------- */

/* A bundle with one variable at each path. */
static void write_objects(const char *const *paths, int64_t count)
{
    tl_tensorbundle_writer *w;
    float value = 1;
    assert_ok(tl_tensorbundle_writer_new(&w));
    for (int64_t i = 0; i < count; i++)
        assert_ok(tl_tensorbundle_writer_put_bytes(w, paths[i], "float32", 0, NULL, &value, 4));
    assert_ok(tl_tensorbundle_writer_write(w, "x"));
    tl_tensorbundle_writer_free(&w);
}

static void another_model(void **state)
{
    (void)state;
    static const char *const paths[] = {"model/layer_with_weights-0/layer_with_weights-0/kernel",
                                        "model/layer_with_weights-1/kernel",
                                        "model/layer_with_weights-2/kernel",
                                        "optimizer/_iterations", "optimizer/_variables/1"};
    tl_state *s;
    tl_str left_out = TL_STR_INIT;
    write_objects(paths, TL_COUNT(paths));
    assert_fails(tl_original_check("x", &names), TL_EINVAL,
                 "'x' is a checkpoint of another model: it lacks 0 of the 2 layers of this one, "
                 "and 1 of its weights belong to no layer: 'model/layer_with_weights-2/kernel" VALUE
                 "'");
    // Read it can be all the same: some part of it may be of use.
    assert_ok(tl_original_read(&s, "x", &names, engine, &left_out));
    assert_true(first_of(s, "model/trunk/kernel") == 1); // by the other path of the backbone
    assert_true(first_of(s, "model/layer_with_weights-2/kernel") == 1);
    // An optimizer that does not say of which variables its own are.
    assert_string_equal(tl_str_text(&left_out), "optimizer/_iterations" VALUE ": float32[]\n"
                                                "optimizer/_variables/1" VALUE ": float32[]\n");
    tl_state_free(&s);
    write_objects(paths + 2, 1);
    assert_fails(
        tl_original_check("x", &names), TL_EINVAL,
        "it lacks 2 of the 2 layers of this one: 'backbone/layer_with_weights-0', 'model/");
    tl_str_deinit(&left_out);
}

static void no_graph(void **state)
{
    (void)state;
    tl_tensorbundle_writer *w;
    tl_tensor *t;
    tl_state *s;
    assert_ok(tl_tensor_new(&t, engine, TL_F32, TL_SHAPE(1)));
    assert_ok(tl_tensorbundle_writer_new(&w));
    assert_ok(tl_tensorbundle_writer_put_named(w, "dense/kernel", t));
    assert_ok(tl_tensorbundle_writer_write(w, "x"));
    assert_fails(tl_original_read(&s, "x", &names, engine, NULL), TL_ENOTFOUND,
                 "'x.index' has no object graph");
    assert_null(s);
    assert_fails(tl_original_check("x", &names), TL_ENOTFOUND, "has no object graph");
    assert_fails(tl_original_read(&s, "y", &names, engine, NULL), TL_ENOTFOUND, "y.index");
    tl_tensorbundle_writer_free(&w);
    tl_tensor_free(&t);
}

static void steps_that_are_none(void **state)
{
    (void)state;
    static const int64_t two = 2, numbers[] = {1, -1};
    static const double nan = NAN;
    const struct row {
        const char *type;
        int rank;
        const void *data;
        size_t bytes;
        const char *message;
    } rows[] = {
        {"float64", 0, &nan, 8,
         "'x': 'global_step': it is float64[], not one number of type int64 or int32"},
        {"int64", 1, numbers, 16, "it is int64[2], not one number"},
        {"int64", 0, numbers + 1, 8, "it is -1, not a number from 0 on"},
    };
    for (int i = 0; i < TL_COUNT(rows); i++) {
        tl_tensorbundle_writer *w;
        tl_state *s;
        assert_ok(tl_tensorbundle_writer_new(&w));
        assert_ok(tl_tensorbundle_writer_put_bytes(w, "global_step", rows[i].type, rows[i].rank,
                                                   &two, rows[i].data, rows[i].bytes));
        assert_ok(tl_tensorbundle_writer_write(w, "x"));
        tl_tensorbundle_writer_free(&w);
        assert_fails(tl_original_read(&s, "x", &names, engine, NULL), TL_EINVAL, rows[i].message);
        assert_null(s);
    }
}

/* --- a model that begins with one ------------------------------------------------------------- */

static double weight_of(const tl_model *m, const char *path)
{
    double v[16];
    const tl_tensor *t = tl_model_find(m, path)->tensor;
    assert_ok(tl_tensor_get_doubles(t, v, tl_tensor_count(t)));
    return v[0];
}

static void initializing(void **state)
{
    (void)state;
    static const char *const backbone[] = {"backbone"};
    tl_task task = {.cls = &net_task, .name = "net", .engine = engine},
            plain = {.cls = &tl_base_task, .name = "plain", .engine = engine};
    tl_model *from = model_of(1), *part = model_of(2), *whole = model_of(3);
    double head = weight_of(part, "head/kernel");
    tl_state *s = state_of(from, false);
    assert_ok(tl_original_write("x", s, &names, NULL));
    tl_state_free(&s);
    assert_ok(tl_task_initialize_from(&task, part, "x", (tl_strings){backbone, 1}));
    assert_true(weight_of(part, "trunk/kernel") == weight_of(from, "trunk/kernel"));
    assert_true(weight_of(part, "head/kernel") == head);
    assert_ok(tl_task_initialize_from(&task, whole, "x.index", (tl_strings){NULL, 0}));
    assert_true(weight_of(whole, "trunk/kernel") == weight_of(from, "trunk/kernel"));
    assert_true(weight_of(whole, "head/kernel") == weight_of(from, "head/kernel"));
    assert_fails(tl_task_initialize_from(&plain, whole, "x", (tl_strings){NULL, 0}),
                 TL_EUNSUPPORTED, "task.init_checkpoint: the task 'plain' does not know the names");
    assert_fails(tl_task_initialize_from(&task, whole, "y", (tl_strings){NULL, 0}), TL_ENOTFOUND,
                 "y");
    // Of the backbone alone: no head.
    static const char *const paths[] = {"backbone/layer_with_weights-0/gamma"};
    write_objects(paths, 1);
    double trunk = weight_of(whole, "trunk/kernel");
    assert_fails(tl_task_initialize_from(&task, whole, "x", (tl_strings){NULL, 0}), TL_EINVAL,
                 "task.init_checkpoint");
    assert_true(weight_of(whole, "trunk/kernel") == trunk);
    tl_model_free(&from);
    tl_model_free(&part);
    tl_model_free(&whole);
}

/* --- a run that goes on ----------------------------------------------------------------------- */

#define MOMENTUM                                                                                   \
    "optimizer: {type: sgd, sgd: {momentum: 0.9}}\n"                                               \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"
#define PLAIN                                                                                      \
    "optimizer: {type: sgd, sgd: {momentum: 0.0}}\n"                                               \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"

static tl_task net_at_work;

static tl_status restore_bundle(void *payload, const char *prefix)
{
    return tl_trainer_restore_original(payload, prefix);
}

static void open_run(toy *y, uint64_t seed, const char *rates)
{
    tl_trainer_args args = {.cls = &toy_trainer,
                            .strategy = y->strategy,
                            .train = true,
                            .evaluate = true,
                            .model = model_of(seed),
                            .seed = seed};
    tl_config *s = settings_of(rates);
    assert_ok(tl_optimizer_new(&args.optimizer, &(tl_optimizer_args){.engine = engine,
                                                                     .model = args.model,
                                                                     .config = tl_config_value(s),
                                                                     .registry = registry}));
    tl_config_free(&s);
    assert_ok(tl_trainer_new(&y->t, &args));
    net_at_work = (tl_task){.cls = &net_task, .name = "net", .engine = engine};
    y->t->task = &net_at_work;
    assert_ok(tl_checkpoint_manager_new(
        &y->manager, &(tl_checkpoint_manager_args){.directory = "run",
                                                   .state = tl_trainer_checkpoint(y->t),
                                                   .step = &y->t->global_step,
                                                   .interval = 2,
                                                   .max_to_keep = {true, 1},
                                                   .restore_bundle = restore_bundle,
                                                   .payload = y->t}));
}

/* The folder that Model Garden would have left after `steps`; gives the weight and the slot in its
 * last checkpoint. */
static void leave_run(toy *y, int64_t steps, const char *rates, double *weight, double *slot)
{
    char prefix[32];
    tl_logs *logs;
    tl_str list = TL_STR_INIT;
    assert_ok(tl_mkdirs("run"));
    open_run(y, 1, rates);
    assert_ok(tl_logs_new(&logs));
    for (int64_t i = 1; i <= steps; i++) {
        assert_ok(tl_trainer_train(y->t, 1, logs));
        snprintf(prefix, sizeof prefix, "run/ckpt-%d", (int)i);
        assert_ok(tl_original_write(prefix, tl_trainer_checkpoint(y->t), &names, NULL));
        tl_str_addf(&list, "all_model_checkpoint_paths: \"%s\"\n", prefix + strlen("run/"));
    }
    tl_str_addf(&list, "model_checkpoint_path: \"%s\"\n", prefix + strlen("run/"));
    toy_put("run/checkpoint", tl_str_text(&list));
    *weight = weight_of(y->t->model, "trunk/kernel");
    *slot = first_of(tl_trainer_checkpoint(y->t), "optimizer/momentum/trunk/kernel");
    tl_str_deinit(&list);
    tl_logs_free(&logs);
    toy_close(y);
}

static void going_on(void **state)
{
    toy *y = *state;
    const char *path;
    double weight, slot;
    tl_logs *logs;
    leave_run(y, 3, MOMENTUM, &weight, &slot);
    open_run(y, 2, MOMENTUM);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(y->manager, &path));
    assert_string_equal(path, "run/ckpt-3");
    assert_int_equal(y->t->global_step, 3);
    assert_int_equal(tl_optimizer_iterations(y->t->optimizer), 3);
    assert_true(y->t->seed == 2); // Model Garden has none
    assert_true(weight_of(y->t->model, "trunk/kernel") == weight);
    assert_true(first_of(tl_trainer_checkpoint(y->t), "optimizer/momentum/trunk/kernel") == slot);
    assert_true(tl_checkpoint_manager_due(y->manager, false)); // ours has no file of step 3
    assert_false(tl_checkpoint_manager_due(y->manager, true));
    // What is saved from now on is ours, and nothing of theirs is touched.
    assert_ok(tl_logs_new(&logs));
    for (int i = 0; i < 3; i++) {
        assert_ok(tl_trainer_train(y->t, 1, logs));
        assert_ok(tl_checkpoint_manager_save(y->manager, true, NULL));
    }
    assert_files("run/*.index", "run/ckpt-1.index run/ckpt-2.index run/ckpt-3.index");
    assert_files("run/*.safetensors", "run/ckpt-6.safetensors");
    weight = weight_of(y->t->model, "trunk/kernel");
    toy_close(y);
    open_run(y, 4, MOMENTUM);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(y->manager, &path));
    assert_string_equal(path, "run/ckpt-6.safetensors");
    assert_true(weight_of(y->t->model, "trunk/kernel") == weight);
    // One of theirs can be named, to train or to evaluate; where both forms are there it is ours.
    assert_ok(tl_checkpoint_manager_restore(y->manager, "run/ckpt-2"));
    assert_int_equal(y->t->global_step, 2);
    assert_ok(tl_trainer_restore_to_evaluate(y->t, "run/ckpt-3.index"));
    assert_int_equal(y->t->global_step, 3);
    // with step 3 in it
    assert_ok(tl_original_write("run/ckpt-6", tl_trainer_checkpoint(y->t), &names, NULL));
    assert_ok(tl_checkpoint_manager_restore(y->manager, "run/ckpt-6"));
    assert_int_equal(y->t->global_step, 6);
    y->t->global_step = 0;
    assert_ok(tl_trainer_restore_to_evaluate(y->t, "run/ckpt-6"));
    assert_int_equal(y->t->global_step, 6);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(y->manager, &path));
    assert_string_equal(path, "run/ckpt-6.safetensors");
    tl_logs_free(&logs);
}

static void going_on_without_the_latest(void **state)
{
    toy *y = *state;
    const char *path;
    double weight, slot;
    leave_run(y, 3, MOMENTUM, &weight, &slot);
    toy_put("run/ckpt-3.data-00000-of-00001", "nonsense");
    remove("run/ckpt-2.index");
    assert_false(tl_checkpoint_is_usable("run/ckpt-3"));
    assert_true(tl_checkpoint_is_usable("run/ckpt-1"));
    open_run(y, 2, MOMENTUM);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(y->manager, &path));
    assert_string_equal(path, "run/ckpt-1");
    assert_int_equal(y->t->global_step, 1);
    assert_files("run/ckpt-3*", "run/ckpt-3.data-00000-of-00001 run/ckpt-3.index"); // as it was
    toy_close(y);
    toy_put("run/ckpt-1.index", "nonsense");
    open_run(y, 2, MOMENTUM);
    assert_fails(tl_checkpoint_manager_restore_or_initialize(y->manager, &path), TL_EINVAL,
                 "no checkpoint in 'run' can be used");
}

static void going_on_as_something_else(void **state)
{
    toy *y = *state;
    const char *path;
    double weight, slot;
    leave_run(y, 1, MOMENTUM, &weight, &slot);
    open_run(y, 2, PLAIN);
    assert_fails(tl_checkpoint_manager_restore_or_initialize(y->manager, &path), TL_EINVAL,
                 "'run/ckpt-1' does not fit the optimizer, which keeps none of these slots: "
                 "momentum; task.init_checkpoint takes weights alone");
    assert_ok(tl_original_write("run/ckpt-1", tl_trainer_checkpoint(y->t), &names, NULL));
    toy_close(y);
    open_run(y, 3, MOMENTUM);
    weight = weight_of(y->t->model, "trunk/kernel");
    assert_fails(tl_checkpoint_manager_restore_or_initialize(y->manager, &path), TL_EINVAL,
                 "'run/ckpt-1' does not fit the optimizer, which keeps slots that are not in it: "
                 "momentum; task.init_checkpoint takes weights alone");
    assert_true(weight_of(y->t->model, "trunk/kernel") == weight);
    assert_int_equal(y->t->global_step, 0);
    net_at_work.cls = &tl_base_task;
    assert_fails(tl_trainer_restore_original(y->t, "run/ckpt-1"), TL_EUNSUPPORTED,
                 "does not know the names");
    y->t->task = NULL;
    assert_fails(tl_trainer_restore_original(y->t, "run/ckpt-1"), TL_ESTATE,
                 "only a task knows the names in it");
}

/* Model Garden had averages: they may be given up, with a word. */
static void going_on_without_averages(void **state)
{
    toy *y = *state;
    const char *path;
    double weight, slot;
    leave_run(y, 1, MOMENTUM "ema: {average_decay: 0.5}\n", &weight, &slot);
    open_run(y, 2, MOMENTUM);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(y->manager, &path));
    assert_int_equal(
        toy_count("holds averaged weights, and trainer.optimizer_config.ema is not set"), 1);
    assert_true(weight_of(y->t->model, "trunk/kernel") == weight);
    assert_true(first_of(tl_trainer_checkpoint(y->t), "optimizer/momentum/trunk/kernel") == slot);
}

/* A state file that nobody understands: the checkpoints that lie there are taken, of both forms. */
static void going_on_without_a_list(void **state)
{
    toy *y = *state;
    const char *path;
    double weight, slot;
    leave_run(y, 3, MOMENTUM, &weight, &slot);
    toy_put("run/checkpoint", "nonsense");
    open_run(y, 2, MOMENTUM);
    assert_ok(tl_checkpoint_manager_restore_or_initialize(y->manager, &path));
    assert_string_equal(path, "run/ckpt-3");
    assert_true(weight_of(y->t->model, "trunk/kernel") == weight);
}

static bool enough(void *payload)
{
    (void)payload;
    return plan.evaluated >= 2;
}

/* What Model Garden saves is evaluated as it appears. */
static void evaluating_what_appears(void **state)
{
    toy *y = *state;
    double weight, slot;
    leave_run(y, 2, MOMENTUM, &weight, &slot);
    open_run(y, 2, MOMENTUM);
    assert_ok(tl_controller_new(
        &y->c,
        &(tl_controller_args){.evaluator = y->t, .checkpoint_manager = y->manager, .quiet = true}));
    assert_int_equal(y->t->global_step, 2);
    assert_ok(tl_controller_evaluate_continuously(y->c, -1, 0, NULL, NULL, NULL));
    assert_int_equal(plan.evaluated, 1);
    toy_put("run/checkpoint", "model_checkpoint_path: \"ckpt-1\"\n");
    assert_ok(tl_controller_evaluate_continuously(y->c, -1, 5, enough, NULL, NULL));
    assert_int_equal(plan.evaluated, 2);
    assert_int_equal(y->t->global_step, 1);
}

/* Going on in mid-interval, the step that Model Garden has evaluated is not evaluated again. */
static void not_evaluated_twice(void **state)
{
    toy *y = *state;
    double weight, slot;
    leave_run(y, 2, MOMENTUM, &weight, &slot);
    open_run(y, 2, MOMENTUM);
    assert_ok(tl_controller_new(&y->c, &(tl_controller_args){.trainer = y->t,
                                                             .evaluator = y->t,
                                                             .steps_per_loop = 1,
                                                             .checkpoint_manager = y->manager,
                                                             .quiet = true}));
    plan.evaluated = 0;
    assert_ok(tl_controller_train_and_evaluate(y->c, 4, -1, 2, NULL));
    assert_int_equal(plan.evaluated, 1);
    assert_int_equal(y->t->global_step, 4);
}

/* --- memory that runs out --------------------------------------------------------------------- */

static tl_state *kept;
static tl_model *begun;
static toy *resumed;

static tl_status everything(void)
{
    tl_task task = {.cls = &net_task, .name = "net", .engine = engine};
    tl_original_names own;
    tl_state *read = NULL;
    tl_str left_out = TL_STR_INIT;
    tl_status st;
    TL_TRY(tl_original_names_init(&own));
    TL_TRY_DONE(st, net_names(NULL, &own));
    TL_TRY_DONE(st, tl_original_write("x", kept, &own, &left_out));
    TL_TRY_DONE(st, tl_original_check("x", &own));
    TL_TRY_DONE(st, tl_original_read(&read, "x", &own, engine, &left_out));
    TL_TRY_DONE(st, tl_task_initialize_from(&task, begun, "x", (tl_strings){NULL, 0}));
    if (resumed) st = tl_checkpoint_manager_restore_or_initialize(resumed->manager, NULL);
done:
    tl_str_deinit(&left_out);
    tl_state_free(&read);
    tl_original_names_deinit(&own);
    return st;
}

static void allocation_failures(void **state)
{
    tl_model *m = model_of(1);
    double weight, slot;
    resumed = *state;
    leave_run(resumed, 1, MOMENTUM, &weight, &slot);
    open_run(resumed, 3, MOMENTUM);
    begun = model_of(2);
    kept = state_of(m, true);
    assert_ok(everything());
    assert_survives_failures(everything, 100);
    assert_files("x*", "x.data-00000-of-00001 x.index");
    tl_state_free(&kept);
    tl_model_free(&begun);
    tl_model_free(&m);
}

#define NET_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NET_TEST(there_and_back),
        NET_TEST(renamed_weights),
        NET_TEST(weights_alone),
        NET_TEST(another_model),
        NET_TEST(no_graph),
        NET_TEST(steps_that_are_none),
        NET_TEST(initializing),
        NET_TEST(going_on),
        NET_TEST(going_on_without_the_latest),
        NET_TEST(going_on_as_something_else),
        NET_TEST(going_on_without_averages),
        NET_TEST(going_on_without_a_list),
        NET_TEST(evaluating_what_appears),
        NET_TEST(not_evaluated_twice),
        NET_TEST(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
