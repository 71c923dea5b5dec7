/* Which of a batch's tensors are labels: by their names, by the task's class, and what is said when
 * there are too many for the model. */
#include "train/mock.h"

#include <tilth/train/run/run.h>

enum { EXAMPLES = 20 };

/* what the tensors are called; NULL: there is no third */
static const char *first, *second, *third;

static bool trusted; /* the first is 2x where the second is 1, and nonsense where it is 0 */

static tl_status build_inputs(tl_task *t, const tl_data_config *data, const tl_input_context *input,
                              tl_dataset **out)
{
    float x[EXAMPLES], y[EXAMPLES], told[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        x[i] = (float)i / EXAMPLES;
        y[i] = 2 * x[i];
    }
    for (int i = 0; trusted && i < EXAMPLES; i++) {
        bool trust = i % 4 != 3;
        y[i] = trust;
        told[i] = trust ? 2 * x[i] : 1e3f;
    }
    const tl_array arrays[] = {
        {first, TL_F32, TL_SHAPE(EXAMPLES, 1), trusted ? told : x},
        {second, TL_F32, trusted ? TL_SHAPE(EXAMPLES) : TL_SHAPE(EXAMPLES, 1), y},
        {third, TL_F32, TL_SHAPE(EXAMPLES, 1), x}};
    return tl_dataset_from_arrays(out, &(tl_arrays_args){.arrays = arrays,
                                                         .count = third ? 3 : 2,
                                                         .copy = true,
                                                         .seed = input->seed,
                                                         .batch_size = 10,
                                                         .repeat = data == t->config->train_data});
}

static const char *const price[] = {"price", NULL};

/* "here" is what the model sees, "there" what it should say; what "trust" is 0 does not count. */
static void split_by_place(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
{
    (void)t;
    tl_tensors_put(b->ctx, &out->features, "x", tl_batch_get(b, "here"));
    tl_tensors_put(b->ctx, &out->labels, "answer", tl_batch_get(b, "there"));
    out->weight = tl_batch_get(b, "trust");
}

static void split_nothing(const tl_task *t, const tl_batch *b, tl_batch_parts *out)
{
    (void)t, (void)b, (void)out;
}

/* NULL: the base's */
static void (*split_batch)(const tl_task *t, const tl_batch *b, tl_batch_parts *out);

/* Trains the task `mock` on data with those names, as a class that may name its labels; the last
 * loss. */
static tl_status train(double *loss, const char *const *labels)
{
    tl_config *config;
    tl_strategy *strategy = NULL;
    tl_task *task = NULL;
    tl_trainer *t = NULL;
    tl_logs *logs = NULL;
    const tl_task_class *base;
    tl_status st;
    TL_TRY(tl_experiment_begin(&config, all,
                               &(tl_parse_options){.experiment = "mock", .strict_override = true}));
    TL_TRY_DONE(
        st, tl_config_yaml(config,
                           "tilth: {jit: false, threads: 1}\nruntime: {run_eagerly: true}\n"
                           "trainer: {optimizer_config: {optimizer: {type: sgd}, learning_rate: "
                           "{type: constant, constant: {learning_rate: 0.5}}}}\n",
                           "test.yaml"));
    TL_TRY_DONE(st, tl_config_finish(config));
    const tl_experiment_config *params = tl_config_value(config);
    TL_TRY_DONE(st, tl_get_distribution_strategy(
                        &strategy, &(tl_strategy_args){.registry = all,
                                                       .distribution_strategy = "one_device",
                                                       .threads = 1}));
    TL_TRY_DONE(st, tl_get_task_class(&base, all, &params->task));
    const tl_task_class cls = {
        .cls = {.class_size = sizeof cls, .name = "prices", .base = &base->cls},
        .build_inputs = build_inputs,
        .labels = labels,
        .split_batch = split_batch};
    TL_TRY_DONE(st, tl_task_new(&task, &cls,
                                &(tl_task_args){.registry = all,
                                                .config = &params->task,
                                                .engine = tl_strategy_engine(strategy),
                                                .seed = 1}));
    TL_TRY_DONE(st, tl_create_trainer(&t, params, task, strategy, true, true, NULL, NULL, 1));
    TL_TRY_DONE(st, tl_logs_new(&logs));
    TL_TRY_DONE(st, tl_trainer_train(t, 50, logs));
    tl_logs_clear(logs);
    TL_TRY_DONE(st, tl_trainer_evaluate(t, -1, logs));
    st = tl_logs_number(loss, logs, "validation_loss");
done:
    tl_logs_free(&logs);
    tl_trainer_free(&t);
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    tl_config_free(&config);
    return st;
}

static void a_label_by_its_name(void **state)
{
    double loss = 1;
    (void)state;
    first = "x", second = "label_price", third = NULL;
    assert_ok(train(&loss, NULL));
    assert_true(loss < 0.1);
}

static void a_label_by_the_class(void **state)
{
    double loss = 1;
    (void)state;
    first = "x", second = "price", third = NULL;
    assert_ok(train(&loss, price));
    assert_true(loss < 0.1);
    first = "price", second = "x"; // in any order
    assert_ok(train(&loss, price));
}

static void too_many_features(void **state)
{
    double loss;
    (void)state;
    first = "x", second = "price", third = NULL;
    assert_fails(train(&loss, NULL), TL_EINVAL,
                 "task 'prices': the model takes one tensor, and 2 of the batch are features: 'x', "
                 "'price' (labels: none)");
    assert_non_null(
        strstr(tl_error_message(), "Labels are called y, label, labels, target or targets"));
    assert_non_null(strstr(tl_error_message(), "name others in `labels` of the task's class"));
    assert_non_null(strstr(tl_error_message(), "tl_batch_split"));
    third = "y";
    assert_fails(train(&loss, NULL), TL_EINVAL,
                 "2 of the batch are features: 'x', 'price' (labels: 'y')");
    // What the class names is all that there is.
    assert_fails(train(&loss, price), TL_EINVAL,
                 "2 of the batch are features: 'x', 'y' (labels: 'price')");
}

static void a_label_that_is_not_there(void **state)
{
    double loss;
    (void)state;
    first = "x", second = "cost", third = NULL;
    assert_fails(train(&loss, price), TL_EINVAL,
                 "task 'prices': its class calls 'price' a label, and the batch has none; it has "
                 "'x', 'cost'");
}

/* Examples that are not trusted say something else: nobody learns it, or is told about it. */
static void parts_by_a_method(void **state)
{
    double loss = 1, all_alike;
    (void)state;
    first = "there", second = "trust", third = "here";
    split_batch = split_by_place;
    trusted = true;
    assert_ok(train(&loss, NULL));
    split_batch = NULL;
    trusted = false;
    assert_true(loss < 0.1);
    first = "y", second = "other", third = "here"; // by names alone
    assert_fails(train(&all_alike, NULL), TL_EINVAL, "2 of the batch are features");
}

static void mistakes_of_a_method(void **state)
{
    double loss;
    (void)state;
    first = "here", second = "there", third = NULL;
    split_batch = split_by_place;
    assert_fails(train(&loss, NULL), TL_ENOTFOUND, "there is no tensor 'trust'");
    split_batch = split_nothing;
    assert_fails(
        train(&loss, NULL), TL_EINVAL,
        "task 'prices': nothing of the batch is a feature or a label; it has 'here', 'there'");
    split_batch = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBAI_TEST(a_label_by_its_name), LIBAI_TEST(a_label_by_the_class),
        LIBAI_TEST(too_many_features),   LIBAI_TEST(a_label_that_is_not_there),
        LIBAI_TEST(parts_by_a_method),   LIBAI_TEST(mistakes_of_a_method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
