/* The scale of the loss: how it moves, and that scaled gradients train as plain ones do. */
#include "test.h"

#include <float.h>

#include <tilth/nn/layers.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>

#include "weights.h"

#define ADAM                                                                                       \
    "optimizer: {type: adam}\n"                                                                    \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"

static int64_t good_steps(const lab *l)
{
    tl_state *s;
    tl_state_entry e;
    int64_t count;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_optimizer_state(l->o, s));
    assert_ok(tl_state_get(&e, s, "loss_scale/good_steps", TL_STATE_TENSOR));
    assert_ok(tl_tensor_get(e.tensor, &count, sizeof count));
    tl_state_free(&s);
    return count;
}

static void set_all(lab *l, double value)
{
    for (int i = 0; i < PARAMS; i++) {
        double values[MOST];
        for (int k = 0; k < MOST; k++) values[k] = value;
        assert_ok(
            tl_tensor_set_doubles(l->grad_parts[i], values, tl_tensor_count(l->grad_parts[i])));
    }
}

static void open_scaled(lab *l, tl_optimizer_args args, int mode)
{
    args.scaled = true;
    lab_open_model(l, TL_F32);
    lab_open_optimizer(l, ADAM, &args, mode);
}

/* --- how it moves ----------------------------------------------------------------------------- */

// 65536, doubled after 2000 finite steps, halved at once when they are not.
static void test_vector(void **state)
{
    (void)state;
    lab l;
    open_scaled(&l, (tl_optimizer_args){.initial_scale = 65536}, INTERPRETED);
    set_all(&l, 1);
    for (int i = 0; i < 1999; i++) lab_run(&l);
    assert_near(tl_optimizer_loss_scale(l.o), 65536, 0);
    assert_int_equal(good_steps(&l), 1999);
    lab_run(&l);
    assert_near(tl_optimizer_loss_scale(l.o), 131072, 0);
    assert_int_equal(good_steps(&l), 0);
    lab_run(&l);
    assert_int_equal(good_steps(&l), 1);
    set_all(&l, INFINITY);
    lab_run(&l);
    assert_near(tl_optimizer_loss_scale(l.o), 65536, 0);
    assert_int_equal(good_steps(&l), 0);
    assert_int_equal(tl_optimizer_iterations(l.o), 2001);
    lab_close(&l);
}

static void check_ends(int mode)
{
    lab l;
    open_scaled(&l, (tl_optimizer_args){.growth_interval = 1}, mode);
    assert_near(tl_optimizer_loss_scale(l.o), 32768, 0);
    set_all(&l, NAN);
    for (int i = 0; i < 20; i++) lab_run(&l);
    assert_near(tl_optimizer_loss_scale(l.o), 1, 0);
    assert_int_equal(tl_optimizer_iterations(l.o), 0);
    set_all(&l, 0.5);
    for (int i = 0; i < 140; i++) lab_run(&l);
    assert_near(tl_optimizer_loss_scale(l.o), FLT_MAX, 0);
    lab_close(&l);
}

static void test_ends(void **state)
{
    (void)state;
    for (int mode = 0; mode < MODES; mode++) check_ends(mode);
}

#define WITH(optimizer_)                                                                           \
    "optimizer: {" optimizer_ "}\n"                                                                \
    "learning_rate: {type: constant, constant: {learning_rate: 0.125}}\n"
static const char *const clipped[] = {
    ADAM,
    WITH("type: adamw, adamw: {weight_decay_rate: 0.1}"),
    WITH("type: sgd, sgd: {clipvalue: 0.25}"),
    WITH("type: sgd, sgd: {clipnorm: 0.25}"),
    WITH("type: sgd, sgd: {global_clipnorm: 0.25, clipvalue: 0.5}"),
    WITH("type: adafactor_keras, adafactor_keras: {global_clipnorm: 0.25}"),
};

static double norm_of(const lab *l)
{
    double norm;
    assert_ok(tl_tensor_item(tl_optimizer_norm(l->o), &norm));
    return norm;
}

// Weights after five steps with gradients that are `factor` times what they are.
static double train_scaled(double *weights, const char *yaml, tl_dtype dtype, double factor)
{
    lab l;
    tl_optimizer_args args = {.scaled = factor != 1, .loss_scale = factor != 1 ? factor : 0};
    lab_open_model(&l, dtype);
    lab_open_optimizer(&l, yaml, &args, EAGER);
    for (int step = 1; step <= 5; step++) {
        lab_set_gradients(&l, step);
        for (int i = 0; i < PARAMS; i++) {
            double values[MOST];
            int64_t count = tl_tensor_count(l.grad_parts[i]);
            assert_ok(tl_tensor_get_doubles(l.grad_parts[i], values, count));
            for (int64_t k = 0; k < count; k++) values[k] *= factor;
            assert_ok(tl_tensor_set_doubles(l.grad_parts[i], values, count));
        }
        lab_run(&l);
    }
    double norm = norm_of(&l);
    get_all(weights, l.params);
    set_all(&l, NAN);
    lab_run(&l);
    assert_near(tl_optimizer_loss_scale(l.o), factor, 0);
    assert_int_equal(tl_optimizer_iterations(l.o), 5);
    lab_close(&l);
    return norm;
}

// Also where gradients are clipped, which has to see them as they are without the scale.
static void test_fixed(void **state)
{
    (void)state;
    double plain[ELEMENTS], scaled[ELEMENTS];
    for (size_t i = 0; i < sizeof clipped / sizeof *clipped; i++)
        for (int k = 0; k < 2; k++) {
            tl_dtype dtype = k ? TL_F64 : TL_F32;
            double a = train_scaled(plain, clipped[i], dtype, 1);
            double b = train_scaled(scaled, clipped[i], dtype, 1024);
            assert_near(a, b, 0);
            assert_memory_equal(plain, scaled, sizeof plain); // powers of two cost nothing
        }
}

static void test_refused(void **state)
{
    (void)state;
    lab l;
    tl_optimizer *o;
    tl_config *s = settings_of(ADAM);
    lab_open_model(&l, TL_F32);
    tl_optimizer_args args = {.engine = l.engine,
                              .model = l.model,
                              .config = tl_config_value(s),
                              .scaled = true,
                              .loss_scale = -2};
    assert_fails(tl_optimizer_new(&o, &args), TL_EINVAL, "loss_scale is -2");
    args.loss_scale = NAN;
    assert_fails(tl_optimizer_new(&o, &args), TL_EINVAL, "loss_scale");
    args.loss_scale = 0;
    args.initial_scale = INFINITY;
    assert_fails(tl_optimizer_new(&o, &args), TL_EINVAL, "initial_scale");
    args.initial_scale = 0;
    args.growth_interval = -1;
    assert_fails(tl_optimizer_new(&o, &args), TL_EINVAL, "growth_interval is -1");
    args.growth_interval = 0;
    args.scaled = false;
    args.loss_scale = 8;
    assert_fails(tl_optimizer_new(&o, &args), TL_EINVAL, "`scaled` is not set");
    tl_config_free(&s);
    lab_close(&l);
}

/* --- a model in float16 ----------------------------------------------------------------------- */

typedef struct line {
    tl_model base;
    tl_layer *dense;
} line;

static tl_status line_build(tl_model *m, tl_scope *s, const void *config)
{
    (void)config;
    ((line *)m)->dense = tl_dense(s, "dense", .units = 2);
    return tl_scope_status(s);
}

static tl_tensor *line_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    return tl_call(c, ((line *)m)->dense, x);
}
static const tl_layer_class line_class = {
    .cls = TL_CLASS(tl_layer_class, "line", NULL, line, NULL),
    .build = line_build,
    .forward = line_forward,
};

typedef struct training {
    tl_engine *engine;
    tl_ctx *c;
    tl_model *model;
    tl_optimizer *o;
    tl_function *step;
} training;

// The loss is so small that its gradients would vanish in float16.
static tl_status train(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    training *t = self;
    tl_tensor *grads[MOST_BLOCKS];
    bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *y = tl_cast(c, tl_call(c, t->model, tl_tensors_get(c, in, "x")), TL_F32);
    tl_tensor *loss = tl_scale(c, tl_mean(c, tl_square(c, y), TL_ALL, false), 1e-7);
    TL_TRY(tl_model_gradients(c, t->model, tl_optimizer_scaled_loss(t->o, c, loss), grads));
    tl_ctx_set_taping(c, taping);
    tl_optimizer_apply(t->o, c, grads, NULL);
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

static double train_line(tl_dtype dtype, bool scaled, int mode, double *scale)
{
    training t = {.engine = lab_engine};
    tl_spec input = {"x", TL_F32, TL_SHAPE(8, 4)};
    tl_config *s = settings_of("optimizer: {type: sgd}\n"
                               "learning_rate: {type: constant, constant: {learning_rate: 5.0e6}}\n"
                               "ema: {}");
    assert_ok(tl_ctx_new(&t.c, t.engine));
    assert_ok(tl_model_new(&t.model, &(tl_model_args){.engine = t.engine,
                                                      .cls = &line_class,
                                                      .inputs = &input,
                                                      .input_count = 1,
                                                      .seed = 3,
                                                      .dtype = dtype}));
    assert_ok(tl_optimizer_new(&t.o, &(tl_optimizer_args){.engine = t.engine,
                                                          .model = t.model,
                                                          .config = tl_config_value(s),
                                                          .scaled = scaled,
                                                          .initial_scale = scaled ? 0x1p45 : 0}));
    if (mode != EAGER)
        assert_ok(tl_function_new(&t.step, &(tl_function_args){.engine = t.engine,
                                                               .body = train,
                                                               .self = &t,
                                                               .interpret = mode == INTERPRETED}));
    double values[32], loss = NAN;
    pseudo_values(values, 5, 32);
    for (int i = 0; i < 60; i++) {
        tl_mark mark = tl_ctx_begin(t.c);
        tl_tensors in = {0}, out = {0};
        tl_tensors_put(t.c, &in, "x", tl_from_doubles(t.c, TL_F32, TL_SHAPE(8, 4), values));
        assert_ok(t.step ? tl_function_call(t.step, t.c, &in, &out) : train(&t, t.c, &in, &out));
        assert_ok(tl_tensor_item(tl_tensors_get(t.c, &out, "loss"), &loss));
        tl_ctx_end(t.c, mark);
    }
    assert_true(tl_optimizer_averages(t.o)); // also beside a scaled loss
    assert_ok(tl_optimizer_swap(t.o));
    assert_ok(tl_optimizer_swap(t.o));
    *scale = tl_optimizer_loss_scale(t.o);
    tl_function_free(&t.step);
    tl_optimizer_free(&t.o);
    tl_model_free(&t.model);
    tl_ctx_free(&t.c);
    tl_config_free(&s);
    return loss;
}

static void test_float16(void **state)
{
    (void)state;
    double scale, whole = train_line(TL_F32, false, EAGER, &scale);
    assert_near(scale, 1, 0);
    assert_true(whole < 1e-9);
    for (int mode = 0; mode < MODES; mode++) {
        double half = train_line(TL_F16, true, mode, &scale);
        assert_true(half < 2e-9);
        assert_true(scale < 0x1p45 && scale > 1024); // it came down until nothing overflowed
    }
    assert_true(train_line(TL_F16, false, EAGER, &scale) > 1e-8); // nothing was learned
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector),  cmocka_unit_test(test_ends),
        cmocka_unit_test(test_fixed),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_float16),
    };
    return cmocka_run_group_tests(tests, open_labs, close_labs);
}
