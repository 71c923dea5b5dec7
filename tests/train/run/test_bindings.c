/* What gin binds reaches everything that a run makes of a class and a configuration; what nothing
 * uses is told. */
#include "zoo/zoo_lab.h"

#include <tilth/desc/gin.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/metrics.h>
#include <tilth/train/run/launch.h>

static tl_gin *gin;

static int open_test(void **state)
{
    return lab_open(state);
}

static int close_test(void **state)
{
    tl_gin_set_current(NULL);
    tl_gin_free(&gin);
    return lab_close(state);
}

/* In force from here on. */
static void bind(const char *text)
{
    assert_ok(tl_gin_new(&gin, lab_registry));
    assert_ok(tl_gin_parse(gin, text, "t.gin"));
    assert_ok(tl_gin_finalize(gin));
    tl_gin_set_current(gin);
}

static tl_config *config_of(const char *experiment, const char *override)
{
    tl_config *c;
    assert_ok(tl_experiment_parse(
        &c, lab_registry,
        &(tl_parse_options){.experiment = experiment, .params_override = override}));
    return c;
}

static void comes_from(tl_config *c, const char *path, const char *expected)
{
    const char *source = tl_config_source(c, path);
    if (strcmp(source, expected) != 0) fail_msg("%s comes from %s, not %s", path, source, expected);
}

/* --- choices of a configuration --------------------------------------------------------------- */

static void test_choices_take_what_is_bound(void **state)
{
    (void)state;
    bind("Cnn.filters = [4]\nAdam.beta_1 = 0.5\nCosine.initial_learning_rate = %rate\nrate = "
         "0.25\n");
    tl_config *c = config_of("vision/local", NULL);
    const tl_experiment_config *e = tl_config_value(c);
    const tl_image_model_config *m = ((const tl_task_config *)e->task.value)->model.value;
    const tl_cnn_config *cnn = m->backbone.value;
    const tl_optimization_config *o =
        &((const tl_trainer_config *)e->trainer.value)->optimizer_config;
    assert_int_equal(cnn->filters.count, 1);
    assert_int_equal(cnn->filters.items[0], 4);
    assert_near(((const tl_adam_config *)o->optimizer.value)->beta_1.value, 0.5, 0);
    comes_from(c, "task.model.backbone.cnn.filters", "t.gin:1:15");
    comes_from(c, "trainer.optimizer_config.optimizer.adam.beta_1", "t.gin:2:15");
    comes_from(c, "task.model.backbone.cnn.kernel", "default");
    assert_ok(tl_gin_check_used(gin, true)); // the macro too
    tl_config_free(&c);
}

static void test_one_command_line_says_one_thing(void **state)
{
    (void)state;
    tl_config *c;
    bind("Adam.beta_1 = 0.5\n");
    const tl_parse_options other = {
        .experiment = "vision/local",
        .params_override = "trainer.optimizer_config.optimizer.adam.beta_1=0.75",
    };
    assert_fails(tl_experiment_parse(&c, lab_registry, &other), TL_EINVAL,
                 "--params_override: trainer.optimizer_config.optimizer.adam.beta_1: gin binds "
                 "another value to it (t.gin:1:1); set it in one place only");
    c = config_of("vision/local", "trainer.optimizer_config.optimizer.adam.beta_1=0.5");
    tl_config_free(&c);
}

/* A reference makes its choice under its own scope; what is bound at the root does not reach into
 * it again. */
static void test_what_references_make_is_left_alone(void **state)
{
    (void)state;
    bind("Sequential.layers = [@one/Dense(), @Dense()]\nDense.units = 3\none/Dense.units = 7\n");
    tl_config *c;
    static const tl_field fields[] = {
        {.name = "layer",
         .help = "a choice",
         .size = sizeof(tl_oneof),
         .type = TL_TYPE_ONEOF,
         .arity = TL_ONE,
         .kind = &tl_kind_layer},
        TL_F_END,
    };
    static const tl_desc desc = {
        .name = "holder",
        .help = "holds a layer",
        .size = sizeof(tl_oneof),
        .fields = fields,
    };
    assert_ok(tl_config_new(&c, lab_registry, &desc));
    assert_ok(tl_config_yaml(c, "layer: {type: sequential}", "a.yaml"));
    assert_ok(tl_gin_configure(gin, c));
    const tl_sequential_config *s = ((const tl_oneof *)tl_config_value(c))->value;
    const tl_layer_choice *items = s->layers.items;
    assert_int_equal(s->layers.count, 2);
    assert_int_equal(((const tl_dense_config *)items[0].layer.value)->units, 7);
    assert_int_equal(((const tl_dense_config *)items[1].layer.value)->units, 3);
    tl_config_free(&c);
}

/* --- what programs leave open ----------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *body, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->body = tl_dense(s, "body", .activation = TL_ACT_RELU);
    n->head = tl_dense(s, "head", .units = 2);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    return tl_call(c, ((net *)m)->head, tl_call(c, ((net *)m)->body, x));
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

static tl_status net_new(tl_model **out, tl_engine *engine)
{
    return tl_model_new(out, &(tl_model_args){.engine = engine,
                                              .cls = &net_class,
                                              .seed = 1,
                                              .inputs = &(tl_spec){"x", TL_F32, TL_SHAPE(1, 4)},
                                              .input_count = 1});
}

static void test_layers_take_what_their_program_leaves_open(void **state)
{
    (void)state;
    tl_engine *engine;
    assert_ok(test_engine_new(&engine, NULL, 1));
    tl_model *m, *copy;
    assert_fails(net_new(&m, engine), TL_EINVAL, "units");
    bind("Dense.units = 5\nhead/Dense.without_bias = True\n");
    assert_ok(net_new(&m, engine));
    assert_int_equal(tl_model_find(m, "body/kernel")->tensor->shape.dims[1], 5);
    assert_int_equal(tl_model_find(m, "head/kernel")->tensor->shape.dims[1], 2); // the program's
    assert_non_null(tl_model_find(m, "body/bias"));
    assert_null(tl_model_find(m, "head/bias"));
    assert_ok(tl_gin_check_used(gin, true));
    tl_gin_set_current(NULL);
    assert_ok(tl_model_copy(&copy, m)); // as the model is
    assert_int_equal(tl_model_param_count(copy), tl_model_param_count(m));
    tl_model_free(&copy);
    tl_model_free(&m);
    tl_engine_free(&engine);
}

static void test_a_value_that_does_not_fit_says_where_it_is_bound(void **state)
{
    (void)state;
    tl_engine *engine;
    assert_ok(test_engine_new(&engine, NULL, 1));
    tl_model *m;
    assert_ok(tl_gin_new(&gin, lab_registry));
    assert_ok(tl_gin_parse(gin, "Dense.units = -3\n", "t.gin"));
    tl_gin_set_current(gin);
    assert_fails(net_new(&m, engine), TL_EINVAL, "t.gin:1:");
    tl_engine_free(&engine);
}

/* --- what nothing uses ------------------------------------------------------------------------ */

static void test_what_nothing_uses_is_told_with_the_reason(void **state)
{
    (void)state;
    tl_engine *engine;
    assert_ok(test_engine_new(&engine, NULL, 1));
    tl_model *m;
    bind("Dense.units = 5\nother/Dense.without_bias = True\nSgd.momentum = 0.5\nx = "
         "3\nConv2D.filters = 2\n");
    tl_config *c = config_of("vision/local", NULL);
    assert_ok(net_new(&m, engine));
    assert_fails(tl_gin_check_used(gin, true), TL_EINVAL,
                 "t.gin:2:1: other/Dense.without_bias: the binding has no effect: nothing in the "
                 "scope 'other' uses it");
    assert_non_null(strstr(tl_error_message(), "t.gin:3:1: Sgd.momentum: the binding has no "
                                               "effect: this run makes no Sgd; it makes Adam"));
    assert_non_null(strstr(tl_error_message(), "nothing uses the macro '%x'"));
    assert_non_null(strstr(tl_error_message(), "this run makes no Conv2d; it makes Dense"));
    assert_null(strstr(tl_error_message(), "Dense.units"));
    assert_ok(tl_gin_check_used(gin, false)); // of a file: warned of
    tl_model_free(&m);
    tl_config_free(&c);
    tl_engine_free(&engine);
}

static void test_one_of_the_command_line_is_refused(void **state)
{
    (void)state;
    const char *const params[] = {"Sgd.momentum = 0.5"};
    assert_ok(
        tl_run_bindings(&gin, lab_registry, NULL, (tl_strings){NULL, 0}, (tl_strings){params, 1}));
    tl_gin_set_current(gin);
    tl_config *c = config_of("vision/local", NULL);
    assert_fails(tl_gin_check_used(gin, false), TL_EINVAL, "--gin_params 'Sgd.momentum = 0.5'");
    tl_config_free(&c);
}

/* --- a run ------------------------------------------------------------------------------------ */

static void test_bindings_of_a_folder_are_read_untold(void **state)
{
    (void)state;
    const tl_strings none = {NULL, 0};
    assert_ok(tl_run_bindings(&gin, lab_registry, "nowhere", none, none));
    assert_true(tl_gin_is_empty(gin));
    tl_gin_free(&gin);
    assert_ok(tl_mkdirs("run"));
    assert_ok(tl_file_write_atomic("run/bindings.gin", "Adam.beta_1 = 0.5\n", 18));
    assert_ok(tl_run_bindings(&gin, lab_registry, "run", none, none));
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "Adam.beta_1"));
    assert_string_equal(v->text, "0.5");
    tl_gin_free(&gin);
    assert_ok(tl_file_write_atomic("run/bindings.gin", "Adam.beta_7 = 0.5\n", 18));
    assert_fails(tl_run_bindings(&gin, lab_registry, "run", none, none), TL_ENOTFOUND,
                 "run/bindings.gin:1:1");
}

/* Which files are read is not for the folder of a run to say. */
static void test_bindings_of_a_folder_include_nothing(void **state)
{
    (void)state;
    static const char text[] = "include '/dev/stdin'\n", other[] = "Adam.beta_1 = 0.5\n";
    const tl_strings none = {NULL, 0};
    const char *files[] = {"own.gin"};
    assert_ok(tl_mkdirs("run"));
    assert_ok(tl_file_write_atomic("run/bindings.gin", text, strlen(text)));
    assert_fails(tl_run_bindings(&gin, lab_registry, "run", none, none), TL_EINVAL,
                 "run/bindings.gin:1:1: '/dev/stdin' is not included");
    assert_ok(tl_file_write_atomic("other.gin", other, strlen(other)));
    assert_ok(tl_file_write_atomic("own.gin", "include 'other.gin'\n", 20)); // the user's may
    assert_ok(tl_run_bindings(&gin, lab_registry, "run", (tl_strings){files, 1}, none));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_test, close_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_choices_take_what_is_bound),
        TEST(test_one_command_line_says_one_thing),
        TEST(test_what_references_make_is_left_alone),
        TEST(test_layers_take_what_their_program_leaves_open),
        TEST(test_a_value_that_does_not_fit_says_where_it_is_bound),
        TEST(test_what_nothing_uses_is_told_with_the_reason),
        TEST(test_one_of_the_command_line_is_refused),
        TEST(test_bindings_of_a_folder_are_read_untold),
        TEST(test_bindings_of_a_folder_include_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
