/* 100 steps of the network of fashion_mnist/cnn, trained by the task image_classification, against
 * PyTorch's (tests/golden/images.py): in float64 a whole run from the same weights; in float32
 * single steps from PyTorch's weights and averages. */
#include "zoo/zoo_lab.h"

#include "nn/golden_file.h"

enum {
    STEPS = 100,
    BATCH = 16,
    SIZE = 12,
    CLASSES = 10,
    BATCHES = 5,
    PIXELS = BATCH * SIZE * SIZE
};

static const char *const settings =
    "runtime: {distribution_strategy: one_device}\n"
    "task:\n"
    "  model:\n"
    "    num_classes: 10\n"
    "    input_size: [12, 12, 1]\n"
    "    backbone: {type: cnn, cnn: {filters: [4, 8], units: [16]}}\n"
    "  losses: {label_smoothing: 0.1, l2_weight_decay: 0.001}\n"
    "  train_data: {global_batch_size: 16}\n"
    "trainer:\n"
    "  train_steps: 100\n"
    "  steps_per_loop: 1\n"
    "  summary_interval: 1\n"
    "  optimizer_config:\n"
    "    optimizer: {type: torch_adamw, torch_adamw: {epsilon: 1.0e-8, weight_decay: 0}}\n"
    "    learning_rate: {type: cosine, cosine: {initial_learning_rate: 0.004, decay_steps: 100}}\n";

/* The formula of images.py. */
static tl_dataset *make_data(tl_dtype dtype)
{
    static double numbers[BATCHES * PIXELS];
    static float floats[BATCHES * PIXELS];
    static int32_t labels[BATCHES * BATCH];
    for (int64_t b = 0; b < BATCHES; b++) {
        for (int64_t i = 0; i < PIXELS; i++) {
            double v = (double)((i * 7919 + b * 104729 + i * i % 1013) % 1021 - 510) / 512;
            numbers[b * PIXELS + i] = v;
            floats[b * PIXELS + i] = (float)v;
        }
        for (int64_t j = 0; j < BATCH; j++)
            labels[b * BATCH + j] = (int32_t)((j * 7 + b * 3) % CLASSES);
    }
    const tl_array arrays[] = {{"image", dtype, TL_SHAPE(BATCHES * BATCH, SIZE, SIZE, 1),
                                dtype == TL_F64 ? (const void *)numbers : floats},
                               {"label", TL_I32, TL_SHAPE(BATCHES * BATCH), labels}};
    tl_dataset *d;
    assert_ok(tl_dataset_from_arrays(
        &d, &(tl_arrays_args){
                .arrays = arrays, .count = 2, .copy = true, .repeat = true, .batch_size = BATCH}));
    return d;
}

static double golden_at(const golden *g, int64_t i)
{
    float f;
    if (g->kind != 0) return golden_number(g, i);
    memcpy(&f, g->values + i * 4, 4);
    return f;
}

static void put_golden(tl_tensor *to, const char *format, const char *a, const char *b)
{
    double values[4096];
    const golden *g = golden_peek(format, a, b);
    if (!g) fail_msg("images.bin lacks what the test reads: run tests/golden/images.py");
    assert_true(tl_shape_equal(&g->shape, &to->shape));
    for (int64_t i = 0; i < tl_tensor_count(to); i++) values[i] = golden_at(g, i);
    assert_ok(tl_tensor_set_doubles(to, values, tl_tensor_count(to)));
}

/* How far the tensor is from what the file has. */
static double distance(const tl_tensor *t, const char *format, const char *a, const char *b)
{
    double values[4096], most = 0;
    const golden *g = golden_peek(format, a, b);
    assert_non_null(g);
    assert_ok(tl_tensor_get_doubles(t, values, tl_tensor_count(t)));
    for (int64_t i = 0; i < tl_tensor_count(t); i++)
        most = fmax(most, fabs(values[i] - golden_at(g, i)));
    return most;
}

/* A trainer of a model of that type, with data of its own. */
static void begin(lab_run *r, tl_dtype dtype)
{
    tl_model *m;
    lab_begin(r, "image_classification", settings);
    assert_ok(tl_image_classifier_new(
        &m, &(tl_image_classifier_args){.engine = r->task->engine,
                                        .config = r->task->config->model.value,
                                        .l2_weight_decay = 1e-3,
                                        .batch_size = BATCH,
                                        .dtype = dtype,
                                        .registry = lab_registry,
                                        .arena = r->task->arena}));
    assert_ok(tl_trainer_new(&r->trainer, &(tl_trainer_args){.config = r->params,
                                                             .strategy = r->strategy,
                                                             .task = r->task,
                                                             .model = m,
                                                             .train = true,
                                                             .train_dataset = make_data(dtype)}));
}

static double train_one(lab_run *r)
{
    double loss;
    tl_logs_clear(r->logs);
    assert_ok(tl_trainer_train(r->trainer, 1, r->logs));
    assert_ok(tl_logs_number(&loss, r->logs, "training_loss"));
    return loss;
}

static void test_a_run_in_float64(void **state)
{
    (void)state;
    lab_run r;
    begin(&r, TL_F64);
    const golden *losses = golden_peek("losses");
    tl_model *m = r.trainer->model;
    for (int64_t i = 0; i < tl_model_param_count(m); i++)
        put_golden(tl_model_param(m, i)->tensor, "start/%s%s", tl_model_param(m, i)->path, "");
    for (int step = 0; step < STEPS; step++) {
        double loss = train_one(&r);
        assert_near(loss, golden_number(losses, step), 1e-8);
    }
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        assert_near(distance(p->tensor, "end/%s%s", p->path, ""), 0, 1e-8);
    }
    lab_end(&r);
}

/* Weights, both averages, the number of updates and the place in the data are put to what they were
 * before a step of PyTorch's. */
static void test_steps_in_float32(void **state)
{
    (void)state;
    static const int told[] = {0, 1, 40, 99};
    lab_run r;
    begin(&r, TL_F32);
    const golden *losses = golden_peek("f32 losses");
    tl_model *m = r.trainer->model;
    tl_state *slots;
    assert_ok(tl_state_new(&slots));
    assert_ok(tl_optimizer_state(r.trainer->optimizer, slots));
    for (int k = 0; k < (int)TL_COUNT(told); k++) {
        char before[16], after[16];
        snprintf(before, sizeof before, "%d before", told[k]);
        snprintf(after, sizeof after, "%d after", told[k]);
        while (r.trainer->global_step < told[k]) (void)train_one(&r);
        for (int64_t i = 0; i < tl_model_param_count(m); i++) {
            const tl_param *p = tl_model_param(m, i);
            tl_state_entry e;
            put_golden(p->tensor, "%s/w/%s", before, p->path);
            for (int slot = 0; slot < 2; slot++) {
                char path[128];
                snprintf(path, sizeof path, "%s/%s", slot ? "v" : "m", p->path);
                assert_true(tl_state_find(&e, slots, path));
                put_golden(e.tensor, slot ? "%s/v/%s" : "%s/m/%s", before, p->path);
            }
        }
        assert_near(train_one(&r), golden_number(losses, told[k]), 1e-5);
        for (int64_t i = 0; i < tl_model_param_count(m); i++) {
            const tl_param *p = tl_model_param(m, i);
            assert_near(distance(p->tensor, "%s/w/%s", after, p->path), 0, 1e-5);
        }
    }
    tl_state_free(&slots);
    lab_end(&r);
}

static int open_golden(void **state)
{
    (void)state;
    golden_open(TEST_DATA "/golden/images.bin");
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    golden_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_a_run_in_float64),
        LAB_TEST(test_steps_in_float32),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
