/* Steps in several lanes: whose sums are added in which order, what each draws, what they leave
 * behind, and the same numbers by PyTorch (tests/golden/lanes.py). runs: fake device */
#include "train/two.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/rng.h>
#include <tilth/ops/create.h>

#include "train/trainer/trainer.h"

#define SGD                                                                                        \
    ",trainer.optimizer_config.optimizer.type=sgd,"                                                \
    "trainer.optimizer_config.optimizer.sgd.momentum=0.9"

/* --- the tree --------------------------------------------------------------------------------- */

enum { COUNT = 37 };

static float numbers[16][COUNT];

/* Lanes [first, first + 2^order), as the rule says it. */
static bool tree(float *out, int64_t lanes, int64_t first, int order)
{
    float right[COUNT];
    if (first >= lanes) return false;
    if (!order) {
        memcpy(out, numbers[first], sizeof right);
        return true;
    }
    tree(out, lanes, first, order - 1);
    if (!tree(right, lanes, first + (INT64_C(1) << (order - 1)), order - 1)) return true;
    for (int i = 0; i < COUNT; i++) out[i] += right[i];
    return true;
}

static void assert_bits(const tl_tensor *t, const float *wanted)
{
    float found[COUNT];
    assert_ok(tl_tensor_get(t, found, sizeof found));
    assert_memory_equal(found, wanted, sizeof found);
}

/* What one process of several brings: the blocks of its run, in order. */
static void check_tree(tl_strategy *s, tl_ctx *c, int64_t ranks, int64_t rank,
                       const tl_function_args *args)
{
    tl_engine *e = tl_strategy_engine(s);
    tl_tensor *live;
    tli_guard guard = {0};
    tli_lanes l = {0};
    tl_lane_block blocks[TL_LANE_BLOCKS];
    assert_ok(tl_tensor_new(&live, e, TL_F32, TL_SHAPE(COUNT)));
    assert_ok(tl_tensor_clear(live));
    assert_ok(tli_guard_add(&guard, e, live, false));
    assert_ok(tli_lanes_init(&l, s, &guard, NULL, e, args));
    l.of.ranks = ranks;
    l.rank = rank;
    l.run = tl_lanes_of(&l.of, rank);
    assert_ok(tli_lanes_begin(&l, c));
    for (int64_t lane = l.run.first; lane < l.run.first + l.run.count; lane++) {
        static const float zeros[COUNT];
        assert_bits(live, zeros);
        assert_ok(tl_tensor_set(live, numbers[lane], sizeof numbers[lane]));
        assert_ok(tli_lanes_end_lane(&l, c, lane, 1, false));
    }
    for (int64_t i = 0; i < l.ends.count; i++) { // the host adds so few numbers itself
        const tl_function *f = l.ends.items[i]->program;
        if (f) assert_int_equal(tl_function_program(f) == NULL, tli_lanes_on_host(&l));
    }
    const int64_t count = tl_lanes_blocks(&l.of, rank, blocks);
    assert_int_equal(l.height + 1, count);
    for (int64_t i = 0; i < count; i++) {
        float wanted[COUNT];
        tree(wanted, l.of.lanes, blocks[i].first, blocks[i].order);
        assert_bits(i + 1 < count ? l.sums.items[0].stack[i] : live, wanted);
    }
    tli_lanes_deinit(&l);
    tli_guard_deinit(&guard);
    tl_tensor_free(&live);
}

static void sums_follow_the_tree(void **state)
{
    (void)state;
    tl_rng rng;
    tl_rng_init(&rng, 5);
    for (int i = 0; i < 16 * COUNT; i++)
        numbers[i / COUNT][i % COUNT] = tl_rng_uniform_f32(&rng) - 0.5f;
    for (int64_t lanes = 2; lanes <= 13; lanes++) {
        tl_strategy *s;
        tl_ctx *c;
        assert_ok(tl_get_distribution_strategy(
            &s, &(tl_strategy_args){.registry = test_registry(), .threads = 1, .lanes = lanes}));
        assert_int_equal(tl_strategy_replicas(s), lanes);
        assert_int_equal(tl_strategy_run(s).count, lanes);
        assert_ok(tl_ctx_new(&c, tl_strategy_engine(s)));
        const tl_function_args args = {.engine = tl_strategy_engine(s), .interpret = true};
        for (int64_t ranks = 1; ranks <= lanes; ranks++)
            for (int64_t rank = 0; rank < ranks; rank++)
                check_tree(s, c, ranks, rank, lanes < 6 ? &args : NULL);
        tl_ctx_free(&c);
        tl_strategy_free(&s);
    }
}

/* --- trainers --------------------------------------------------------------------------------- */

static void assert_same_state(two *a, two *b)
{
    tl_state_report report = {0};
    assert_ok(tl_state_compare(&report, tl_trainer_checkpoint(a->t), tl_trainer_checkpoint(b->t),
                               &(tl_state_compare_args){.values = true}));
    for (int64_t i = 0; i < report.count; i++) fail_msg("'%s' differs", report.items[i].path);
    tl_state_report_deinit(&report);
}

static double told(two *w, const char *name)
{
    double value;
    assert_ok(tl_logs_number(&value, w->logs, name));
    return value;
}

static void numbers_of(const tl_model *m, const char *path, double *out, int64_t *count)
{
    const tl_tensor *t = tl_model_find(m, path)->tensor;
    *count = tl_tensor_count(t);
    assert_true(*count <= 256);
    assert_ok(tl_tensor_get_doubles(t, out, *count));
}

static void assert_near_models(const two *a, const two *b, double tolerance)
{
    for (int64_t i = 0; i < tl_model_param_count(a->t->model); i++) {
        const char *path = tl_model_param(a->t->model, i)->path;
        double x[256], y[256];
        int64_t n;
        numbers_of(a->t->model, path, x, &n);
        numbers_of(b->t->model, path, y, &n);
        for (int64_t k = 0; k < n; k++)
            if (!(fabs(x[k] - y[k]) <= tolerance))
                fail_msg("%s[%d] is %.9g and not %.9g", path, (int)k, x[k], y[k]);
    }
}

static void one_lane_is_as_none(void **state)
{
    (void)state;
    two a, b;
    weighted = true;
    open_two(&a, NULL, NULL);
    open_two(&b, "tilth.lanes=1", NULL);
    assert_ok(tl_trainer_train(a.t, 5, a.logs));
    assert_ok(tl_trainer_train(b.t, 5, b.logs));
    assert_same_state(&a, &b);
    close_two(&a);
    close_two(&b);
}

/* A model without dropout and batch norm: lanes are accumulated batches then. */
static tl_tensor *bare_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    return tl_call(c, n->head, tl_relu(c, tl_call(c, n->hidden, x)));
}
static tl_status bare_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->hidden = tl_dense(s, "hidden", .units = 16);
    n->head = tl_dense(s, "head", .units = 2);
    return tl_scope_status(s);
}
static const tl_layer_class bare_class = {
    .cls = TL_CLASS(tl_layer_class, "bare", NULL, net, NULL),
    .build = bare_build,
    .forward = bare_forward,
};

static tl_tensor *normed_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = tl_relu(c, tl_call(c, n->norm, tl_call(c, n->hidden, x)));
    return tl_call(c, n->head, x);
}
static tl_status normed_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->hidden =
        tl_dense(s, "hidden", .units = 5, .without_bias = true); // it would have no gradient
    n->norm = tl_batch_norm(s, "norm", .momentum = TL_SET(0.9));
    n->head = tl_dense(s, "head", .units = 2);
    return tl_scope_status(s);
}
static const tl_layer_class normed_class = {
    .cls = TL_CLASS(tl_layer_class, "normed", NULL, net, NULL),
    .build = normed_build,
    .forward = normed_forward,
};

static void exchange(two *w, const tl_layer_class *cls)
{
    tl_spec x = {"x", TL_F32, TL_SHAPE(8, WIDTH)};
    tl_model *m;
    tl_optimizer *o;
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = w->t->engine,
                                                .cls = cls,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .seed = 3,
                                                .dtype = w->task->dtype}));
    assert_ok(tl_task_create_optimizer(w->task, m, &w->t->params->optimizer_config, NULL, &o));
    assert_ok(tl_trainer_set_model(w->t, &m, &o));
}

static void lanes_are_accumulated_batches(void **state)
{
    static const char *const words[][2] = {
        {"tilth.lanes=4" SGD, "tilth.gradient_accumulation=4" SGD},
        {"tilth.lanes=3" SGD, "tilth.gradient_accumulation=3" SGD},
        {"tilth.lanes=2,tilth.gradient_accumulation=3" SGD, "tilth.gradient_accumulation=6" SGD},
        {"tilth.lanes=5,runtime.run_eagerly=true" SGD, "tilth.gradient_accumulation=5" SGD},
        {"tilth.lanes=4,tilth.gradient_noise_scale=true" SGD,
         "tilth.gradient_accumulation=4,tilth.gradient_noise_scale=true" SGD}};
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        two a, b;
        weighted = true;
        batch_size = 4;
        open_two(&a, words[i][0], NULL);
        open_two(&b, words[i][1], NULL);
        exchange(&a, &bare_class);
        exchange(&b, &bare_class);
        assert_ok(tl_trainer_train(a.t, 6, a.logs));
        assert_ok(tl_trainer_train(b.t, 6, b.logs));
        assert_int_equal(tl_optimizer_iterations(a.t->optimizer), 6);
        assert_near_models(&a, &b, 2e-6);
        assert_near(told(&a, "training_loss"), told(&b, "training_loss"), 1e-6);
        assert_near(told(&a, "accuracy"), told(&b, "accuracy"), 1e-6);
        close_two(&a);
        close_two(&b);
    }
}

/* A step that adds to its sums more than once: only the first begins them. */
static tl_status train_twice(tl_task *t, tl_step *s)
{
    const tl_batch_parts *p = tl_step_parts(s);
    (void)t;
    for (int i = 0; i < 2; i++) {
        tl_tensor *y = tl_step_forward(s, p->features.items[0].tensor);
        tl_step_minimize(s, tl_sparse_cross_entropy(s->ctx, p->labels.items[0].tensor, y),
                         p->weight);
    }
    return tl_ctx_status(s->ctx);
}
static const tl_task_class twice_task = {
    .cls = TL_CLASS(tl_task_class, "twice", &two_task.cls, tl_task, &task_desc),
    .train_step = train_twice,
};

static void batches_may_add_twice(void **state)
{
    static const char *const words[][2] = {
        {"tilth.lanes=4" SGD, "tilth.gradient_accumulation=4" SGD},
        {"tilth.lanes=4,runtime.run_eagerly=true" SGD, "tilth.gradient_accumulation=4" SGD},
        {"tilth.lanes=2,tilth.gradient_accumulation=2" SGD, "tilth.gradient_accumulation=4" SGD}};
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        two a, b;
        batch_size = 4;
        open_two(&a, words[i][0], NULL);
        open_two(&b, words[i][1], NULL);
        a.task->cls = b.task->cls = &twice_task;
        exchange(&a, &bare_class);
        exchange(&b, &bare_class);
        assert_ok(tl_trainer_train(a.t, 6, a.logs));
        assert_ok(tl_trainer_train(b.t, 6, b.logs));
        assert_near_models(&a, &b, 2e-6);
        close_two(&a);
        close_two(&b);
    }
}

/* Gradients of nothing move nothing, whatever the sums hold since the last step. */
static void who_accumulates_between_steps_begins_anew(void **state)
{
    (void)state;
    static const char words[] = "tilth.lanes=4,trainer.optimizer_config.optimizer.type=sgd,"
                                "trainer.optimizer_config.optimizer.sgd.momentum=0";
    two a, b;
    open_two(&a, words, NULL);
    open_two(&b, words, NULL);
    assert_ok(tl_trainer_train(a.t, 1, a.logs));
    assert_ok(tl_trainer_train(b.t, 1, b.logs));
    for (int i = 0; i < 2; i++) {
        const tl_mark mark = tl_ctx_begin(a.t->ctx);
        tl_tensor *none[16];
        const int64_t blocks = tl_model_block_count(a.t->model);
        assert_true(blocks <= TL_COUNT(none));
        for (int64_t k = 0; k < blocks; k++) {
            const tl_block *block = tl_model_block(a.t->model, k);
            none[k] = block->trainable
                          ? tl_zeros(a.t->ctx, block->values->dtype, block->values->shape)
                          : NULL;
        }
        assert_true(tl_optimizer_accumulate(a.t->optimizer, a.t->ctx, none, NULL));
        assert_true(tl_optimizer_flush(a.t->optimizer, a.t->ctx));
        tl_ctx_end(a.t->ctx, mark);
    }
    assert_near_models(&a, &b, 0);
    close_two(&a);
    close_two(&b);
}

static void programs_and_eager_lanes_agree(void **state)
{
    (void)state;
    two a, b;
    open_two(&a, "tilth.lanes=3,tilth.gradient_accumulation=2" SGD, NULL);
    open_two(&b, "tilth.lanes=3,tilth.gradient_accumulation=2,runtime.run_eagerly=true" SGD, NULL);
    assert_ok(tl_trainer_train(a.t, 4, a.logs));
    assert_ok(tl_trainer_train(b.t, 4, b.logs));
    assert_near_models(&a, &b, 1e-5);
    close_two(&a);
    close_two(&b);
}

/* Dropout, batch norm, adamw's clipping, halves, short batches. */
static void a_restored_run_goes_on_exactly(void **state)
{
    static const char *const words[] = {
        "tilth.lanes=4", "tilth.lanes=3,tilth.gradient_accumulation=2",
        "tilth.lanes=4,runtime.mixed_precision_dtype=mixed_bfloat16"};
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        two a, b;
        tl_state *saved;
        batch_size = 5;
        open_two(&a, words[i], NULL);
        open_two(&b, words[i], NULL);
        assert_ok(tl_trainer_train(a.t, 3, a.logs));
        assert_ok(tl_state_clone(&saved, tl_trainer_checkpoint(a.t)));
        assert_ok(tl_trainer_train(a.t, 4, a.logs));
        assert_ok(tl_trainer_train(b.t, 2, b.logs)); // somewhere else
        assert_ok(tl_state_copy(tl_trainer_checkpoint(b.t), saved, NULL, NULL));
        assert_ok(tl_trainer_train(b.t, 4, b.logs));
        assert_same_state(&a, &b);
        tl_state_free(&saved);
        close_two(&a);
        close_two(&b);
    }
}

static void each_lane_draws_for_itself(void **state)
{
    (void)state;
    two w;
    open_two(&w, "tilth.lanes=3,tilth.gradient_accumulation=2", NULL);
    w.t->global_step = 7;
    for (int64_t i = 0; i < 6; i++) {
        const tl_draws d = tli_trainer_draws(w.t, i);
        assert_int_equal(d.replica, i / 2);
        assert_int_equal(d.microbatch, i % 2);
        assert_int_equal(d.step, 7);
    }
    close_two(&w);
    // lanes that see the same rows have other dropout: their losses differ, and so does the mean
    two a, b;
    batch_size = EXAMPLES;
    open_two(&a, "tilth.lanes=2" SGD, NULL);
    open_two(&b, "tilth.gradient_accumulation=1" SGD, NULL);
    assert_ok(tl_trainer_train(a.t, 1, a.logs));
    assert_ok(tl_trainer_train(b.t, 1, b.logs));
    assert_true(fabs(told(&a, "training_loss") - told(&b, "training_loss")) > 1e-5);
    close_two(&a);
    close_two(&b);
}

/* Every example counts once, though the last lanes have none left. */
static void evaluations_count_each_example_once(void **state)
{
    (void)state;
    for (batch_size = 5; batch_size < 20; batch_size += 3) {
        two a, b;
        open_two(&a, "tilth.lanes=4,task.validation_data.is_training=false", NULL);
        open_two(&b, "task.validation_data.is_training=false", NULL);
        assert_ok(tl_trainer_evaluate(a.t, -1, a.logs));
        assert_ok(tl_trainer_evaluate(b.t, -1, b.logs));
        assert_near(told(&a, "validation_loss"), told(&b, "validation_loss"), 1e-6);
        assert_near(told(&a, "accuracy"), told(&b, "accuracy"), 1e-6);
        double examples;
        const tl_metric *m = tl_metrics_find(a.t->validation_metrics, "accuracy");
        assert_ok(tl_tensor_item(tl_tensors_peek(&m->states, "count"), &examples));
        assert_true(examples == EXAMPLES);
        // a step takes a batch of each lane
        assert_ok(tl_trainer_evaluate(a.t, 1, a.logs));
        assert_ok(tl_tensor_item(tl_tensors_peek(&m->states, "count"), &examples));
        assert_true(examples == (4 * batch_size < EXAMPLES ? 4 * batch_size : EXAMPLES));
        close_two(&a);
        close_two(&b);
    }
}

/* What steps tell is the mean over the lanes. */
static void numbers_are_told_as_means(void **state)
{
    (void)state;
    two w;
    double loss, active;
    open_two(&w, "tilth.lanes=3,tilth.gradient_accumulation=2", NULL);
    assert_ok(tl_trainer_train(w.t, 1, w.logs));
    assert_ok(tl_tensor_item(tl_tensors_peek(w.t->outputs, TL_LOSS), &loss));
    assert_near(loss, told(&w, "training_loss"), 1e-6); // batches are equally large
    assert_ok(tl_tensor_item(tl_tensors_peek(w.t->outputs, "active"), &active));
    assert_true(active > 0 && active < 10);
    close_two(&w);
}

static void the_lane_at_fault_is_named(void **state)
{
    (void)state;
    two w;
    tl_state *before = NULL;
    tl_state_report report = {0};
    tl_status st = TL_OK;
    spoiled = true;
    batch_size = 4;
    open_two(&w, "tilth.lanes=4,tilth.gradient_accumulation=2", NULL);
    for (int i = 0; i < 4 && st == TL_OK; i++) {
        tl_state_free(&before);
        assert_ok(tl_state_clone(&before, tl_trainer_checkpoint(w.t)));
        st = tl_trainer_train(w.t, 1, w.logs);
    }
    assert_int_equal(st, TL_ENAN);
    static const char *const said[] = {"fragile: ", " of 4, microbatch ", " of 2, batch at "};
    for (int i = 0; i < 3; i++)
        if (!strstr(tl_error_message(), said[i]))
            fail_msg("'%s' lacks '%s'", tl_error_message(), said[i]);
    assert_ok(tl_state_compare(&report, before, tl_trainer_checkpoint(w.t),
                               &(tl_state_compare_args){.values = true}));
    for (int64_t i = 0; i < report.count; i++) fail_msg("'%s' has changed", report.items[i].path);
    tl_state_report_deinit(&report);
    tl_state_free(&before);
    close_two(&w);
}

/* --- against PyTorch -------------------------------------------------------------------------- */

static double formula(int64_t i, int64_t a, int64_t b)
{
    return (double)((a * i + b) % 23) / 23 - 0.5;
}

static void put_formula(tl_model *m, const char *path, int64_t a, int64_t b, double more)
{
    double v[256];
    tl_tensor *t = tl_model_find(m, path)->tensor;
    for (int64_t i = 0; i < tl_tensor_count(t); i++) v[i] = more + formula(i, a, b);
    assert_ok(tl_tensor_set_doubles(t, v, tl_tensor_count(t)));
}

/* The lines of a case, each a path and values. */
static void compare_with_golden(const tl_model *m, const char *name)
{
    char *text;
    int compared = 0;
    assert_ok(tl_file_read(&text, NULL, TEST_DATA "/golden/lanes.txt", 1 << 16));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char of[16], path[64];
        int used;
        double v[256];
        int64_t n;
        assert_int_equal(sscanf(line, "%15s %63s%n", of, path, &used), 2);
        if (strcmp(of, name) != 0) continue;
        numbers_of(m, path, v, &n);
        char *at = line + used;
        for (int64_t i = 0; i < n; i++) {
            const double wanted = strtod(at, &at);
            if (!(fabs(v[i] - wanted) < 2e-5))
                fail_msg("%s: %s[%d] is %.9g and not %.9g", name, path, (int)i, v[i], wanted);
        }
        compared++;
    }
    assert_int_equal(compared, 7);
    tl_free(text);
}

static void train_as_pytorch(const char *name, const char *words)
{
    enum { ROWS = 24 };
    static float x[ROWS * WIDTH], w[ROWS];
    static int32_t y[ROWS];
    two t;
    tl_dataset *data;
    for (int64_t i = 0; i < ROWS * WIDTH; i++) x[i] = (float)formula(i, 9, 2);
    for (int i = 0; i < ROWS; i++) y[i] = i % 2, w[i] = (float)(1 + i % 3);
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(ROWS, WIDTH), x},
                               {"y", TL_I32, TL_SHAPE(ROWS), y},
                               {"weight", TL_F32, TL_SHAPE(ROWS), w}};
    batch_size = 4;
    open_two(&t, words, NULL);
    exchange(&t, &normed_class);
    tl_model *m = t.t->model;
    put_formula(m, "hidden/kernel", 7, 3, 0);
    put_formula(m, "norm/gamma", 3, 2, 1);
    put_formula(m, "norm/beta", 11, 4, 0);
    put_formula(m, "head/kernel", 13, 6, 0);
    put_formula(m, "head/bias", 17, 5, 0);
    assert_ok(tl_dataset_from_arrays(
        &data, &(tl_arrays_args){.arrays = arrays, .count = 3, .batch_size = 4, .repeat = true}));
    assert_ok(tl_trainer_set_train_dataset(t.t, &data));
    assert_ok(tl_trainer_train(t.t, 5, t.logs));
    compare_with_golden(m, name);
    close_two(&t);
}

static void two_lanes_are_pytorchs(void **state)
{
    (void)state;
    train_as_pytorch("sgd",
                     "tilth.lanes=2" SGD ",trainer.optimizer_config.learning_rate.type=constant,"
                     "trainer.optimizer_config.learning_rate.constant.learning_rate=0.1");
    train_as_pytorch("adamw",
                     "tilth.lanes=2,trainer.optimizer_config.optimizer.adamw.gradient_clip_norm="
                     "0.05,trainer.optimizer_config.optimizer.adamw.weight_decay_rate=0.05,"
                     "trainer.optimizer_config.learning_rate.type=constant,"
                     "trainer.optimizer_config.learning_rate.constant.learning_rate=0.02");
}

/* --- lanes that meet -------------------------------------------------------------------------- */

static tl_status synchronized_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->hidden = tl_dense(s, "hidden", .units = 5);
    n->norm = tl_batch_norm(s, "norm", .synchronized = true);
    n->head = tl_dense(s, "head", .units = 2);
    return tl_scope_status(s);
}
static const tl_layer_class synchronized_class = {
    .cls = TL_CLASS(tl_layer_class, "synchronized", NULL, net, NULL),
    .build = synchronized_build,
    .forward = normed_forward,
};

static void train_synchronized(two *t, int64_t rows, const char *words)
{
    enum { ROWS = 24 };
    static float x[ROWS * WIDTH], w[ROWS];
    static int32_t y[ROWS];
    tl_dataset *data;
    for (int64_t i = 0; i < ROWS * WIDTH; i++) x[i] = (float)formula(i, 9, 2);
    for (int i = 0; i < ROWS; i++) y[i] = i % 2, w[i] = (float)(1 + i % 3);
    const tl_array arrays[] = {{"x", TL_F32, TL_SHAPE(ROWS, WIDTH), x},
                               {"y", TL_I32, TL_SHAPE(ROWS), y},
                               {"weight", TL_F32, TL_SHAPE(ROWS), w}};
    batch_size = rows;
    open_two(t, words, NULL);
    exchange(t, &synchronized_class);
    assert_ok(tl_dataset_from_arrays(
        &data,
        &(tl_arrays_args){.arrays = arrays, .count = 3, .batch_size = rows, .repeat = true}));
    assert_ok(tl_trainer_set_train_dataset(t->t, &data));
    if (tl_engine_device(t->t->engine)->cls->host || tl_strategy_replicas(t->strategy) == 1)
        assert_ok(tl_trainer_train(t->t, 6, t->logs));
    else
        assert_fails(tl_trainer_train(t->t, 6, t->logs), TL_EUNSUPPORTED,
                     "start a process for each");
}

#define STEADY                                                                                     \
    SGD ",trainer.optimizer_config.learning_rate.type=constant,"                                   \
        "trainer.optimizer_config.learning_rate.constant.learning_rate=0.1"

/* Statistics of all lanes together are those of the whole batch, gradients included. */
static void synchronized_lanes_are_one_batch(void **state)
{
    (void)state;
    two one, three, eager, more;
    train_synchronized(&one, 12, "tilth.lanes=1" STEADY);
    train_synchronized(&three, 4, "tilth.lanes=3" STEADY);
    if (tl_engine_device(one.t->engine)->cls->host) {
        train_synchronized(&eager, 4, "runtime.run_eagerly=true,tilth.lanes=3" STEADY);
        train_synchronized(&more, 4, "tilth.lanes=2,tilth.gradient_accumulation=3" STEADY);
        assert_near_models(&one, &three, 1e-5);
        assert_near_models(&eager, &three, 1e-5);
        // the means of lanes are those of what they have seen
        assert_true(fabs(told(&one, "training_loss") - told(&three, "training_loss")) < 1e-5);
        assert_true(isfinite(told(&more, "training_loss")));
        close_two(&eager);
        close_two(&more);
    }
    close_two(&one);
    close_two(&three);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void what_lanes_cannot_do_is_said(void **state)
{
    (void)state;
    two w;
    tl_trainer *t;
    tl_strategy *s;
    open_two(&w, "tilth.lanes=2", NULL);
    const tl_experiment_config *e = tl_config_value(w.config);
    assert_ok(tl_get_distribution_strategy(
        &s, &(tl_strategy_args){.registry = w.registry, .threads = 1, .lanes = 3}));
    assert_fails(tl_trainer_new(&t, &(tl_trainer_args){.config = e, .strategy = s, .task = w.task}),
                 TL_EINVAL, "tilth.lanes is 2, but the strategy of the trainer has 3");
    tl_strategy_free(&s);
    assert_fails(tl_get_distribution_strategy(
                     &s, &(tl_strategy_args){.registry = w.registry, .lanes = 1 << 20}),
                 TL_EINVAL, "lanes");
    close_two(&w);
}

#define LANES_TEST(f) cmocka_unit_test_setup(f, setup_two)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANES_TEST(sums_follow_the_tree),
        LANES_TEST(one_lane_is_as_none),
        LANES_TEST(lanes_are_accumulated_batches),
        LANES_TEST(batches_may_add_twice),
        LANES_TEST(programs_and_eager_lanes_agree),
        LANES_TEST(a_restored_run_goes_on_exactly),
        LANES_TEST(each_lane_draws_for_itself),
        LANES_TEST(evaluations_count_each_example_once),
        LANES_TEST(numbers_are_told_as_means),
        LANES_TEST(the_lane_at_fault_is_named),
        LANES_TEST(two_lanes_are_pytorchs),
        LANES_TEST(synchronized_lanes_are_one_batch),
        LANES_TEST(what_lanes_cannot_do_is_said),
        LANES_TEST(who_accumulates_between_steps_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
