/* needs: threads; takes: long. A trained model that is asked from C: `tl_predictor`. */
#include "zoo/zoo_lab.h"

#include <pthread.h>

#include <tilth/builtin/predictor.h>
#include <tilth/io/image/png.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/train/run/launch.h>

enum { SIDE = 16, PICTURES = 13 };

static uint8_t pictures[PICTURES][SIDE * SIDE];
static tl_query queries[PICTURES];

static void make_pictures(void)
{
    for (int p = 0; p < PICTURES; p++) {
        for (int i = 0; i < SIDE * SIDE; i++)
            pictures[p][i] =
                (uint8_t)(128 + 100 * sin((i / SIDE) * (p % 4 - 1.5) + (i % SIDE) * (p % 3) + p));
        queries[p] =
            (tl_query){.data = pictures[p], .size = SIDE * SIDE, .shape = TL_SHAPE(SIDE, SIDE)};
    }
}

static void train(const char *folder, bool named)
{
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    tl_train_flags flags = {.mode = "train", .model_dir = folder};
    tl_config *config;
    parse.experiment = "vision/local";
    assert_ok(tl_experiment_begin(&config, lab_registry, &parse));
    assert_ok(tl_config_override(
        config, "tilth.seed=1,tilth.threads=1,tilth.jit=false,trainer.train_steps=4", "test"));
    if (!named) assert_ok(tl_config_word(config, "task.class_names=[]", "test"));
    assert_ok(tl_experiment_finish(config, lab_registry, parse.experiment));
    assert_ok(tl_launch(NULL, &(tl_launch_args){.registry = lab_registry,
                                                .config = config,
                                                .flags = &flags,
                                                .run = &(tl_run_args){.quiet = true}}));
    tl_config_free(&config);
    char name[64];
    snprintf(name, sizeof name, "%s/experiment.txt", folder);
    assert_ok(tl_file_write_atomic(name, "vision/local\n", 13));
    make_pictures();
}

static tl_predictor *open_run(const char *folder, const tl_predictor_args *args)
{
    tl_predictor *p;
    assert_ok(tl_predictor_open(&p, NULL, folder, args));
    return p;
}

static tl_predictions *ask(tl_predictor *p, const tl_query *q, int64_t count)
{
    tl_predictions *answers;
    assert_ok(tl_predictor_run(&answers, p, q, count));
    assert_int_equal(answers->count, count);
    return answers;
}

/* --- answers ---------------------------------------------------------------------------------- */

static void test_classes_by_name_best_first(void **state)
{
    (void)state;
    train("run", true);
    tl_predictor *p = open_run("run", &(tl_predictor_args){.top = 3});
    tl_predictions *answers = ask(p, queries, PICTURES);
    for (int i = 0; i < PICTURES; i++) {
        const tl_prediction *a = &answers->items[i];
        assert_int_equal(a->status, TL_OK);
        assert_null(a->message);
        assert_int_equal(a->top_count, 3);
        assert_int_equal(a->count, 4);
        double sum = 0;
        for (int k = 0; k < 4; k++) sum += (double)a->values[k];
        assert_near(sum, 1, 1e-5);
        for (int k = 0; k < 3; k++) {
            assert_true(k == 0 || a->top[k - 1].probability >= a->top[k].probability);
            assert_true(a->top[k].probability == (double)a->values[a->top[k].class_id]);
        }
        assert_string_equal(a->top[0].name,
                            ((const char *const[]){"horizontal", "falling", "vertical",
                                                   "rising"})[a->top[0].class_id]);
    }
    tl_predictions_free(&answers);
    answers = ask(p, queries, 0);
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

/* What the run has noted goes before what the task has, and a checkpoint has it too. */
static void test_names_that_the_run_has_noted(void **state)
{
    (void)state;
    train("run", false);
    assert_ok(tl_file_write_atomic("run/classes.txt", "one\r\ntwo words\nthree\nfour\n", 26));
    tl_predictor *p = open_run("run", &(tl_predictor_args){.top = -1});
    assert_int_equal(tl_predictor_finished(p)->classes.count, 4);
    assert_string_equal(tl_predictor_finished(p)->classes.items[0], "one");
    assert_string_equal(tl_predictor_finished(p)->classes.items[1], "two words");
    tl_predictions *answers = ask(p, queries, 1);
    assert_int_equal(answers->items[0].top_count, 4);
    for (int k = 0; k < 4; k++)
        assert_string_equal(answers->items[0].top[k].name,
                            ((const char *const[]){"one", "two words", "three",
                                                   "four"})[answers->items[0].top[k].class_id]);
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
    train("named", true);
    assert_ok(tl_file_write_atomic("named/classes.txt", "one\ntwo\nthree\nfour\n", 19));
    assert_fails(tl_predictor_open(&p, NULL, "named", NULL), TL_EINVAL,
                 "named/classes.txt: class 0 is 'one', and task.class_names calls it 'horizontal'");
}

static void test_without_names_there_are_numbers(void **state)
{
    (void)state;
    train("run", false);
    assert_ok(tl_file_write_atomic("run/classes.txt", "a\nb\n", 4));
    tl_predictor *p = open_run("run", &(tl_predictor_args){.top = -1});
    tl_predictions *answers = ask(p, queries, 1);
    for (int k = 0; k < 4; k++) {
        char number[8];
        int64_t id = answers->items[0].top[k].class_id;
        snprintf(number, sizeof number, "%d", (int)id);
        if (id > 1) assert_string_equal(answers->items[0].top[k].name, number);
    }
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

/* --- batches and threads ---------------------------------------------------------------------- */

static void same(const tl_prediction *a, const tl_prediction *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->values, b->values, (size_t)a->count * sizeof *a->values);
}

static void test_the_same_on_any_number_of_threads_that_compute(void **state)
{
    (void)state;
    train("run", true);
    tl_predictor *one = open_run("run", &(tl_predictor_args){.threads = 1});
    tl_predictor *three = open_run("run", &(tl_predictor_args){.threads = 3});
    tl_predictions *a = ask(one, queries, PICTURES), *b = ask(three, queries, PICTURES);
    for (int i = 0; i < PICTURES; i++) same(&a->items[i], &b->items[i]);
    tl_predictions_free(&a);
    tl_predictions_free(&b);
    tl_predictor_free(&one);
    tl_predictor_free(&three);
}

static void test_batches_of_any_size(void **state)
{
    (void)state;
    train("run", true);
    tl_predictor *p = open_run("run", NULL);
    tl_predictions *all = ask(p, queries, PICTURES);
    for (int size = 1; size <= 7; size += 3) {
        tl_predictor *q = open_run("run", &(tl_predictor_args){.batch_size = size});
        tl_predictions *some = ask(q, queries, PICTURES);
        for (int i = 0; i < PICTURES; i++)
            for (int k = 0; k < 4; k++)
                assert_near(some->items[i].values[k], all->items[i].values[k], 1e-6);
        tl_predictions_free(&some);
        tl_predictor_free(&q);
    }
    tl_predictions_free(&all);
    tl_predictor_free(&p);
}

typedef struct asker {
    tl_predictor *p;
    const tl_predictions *expected;
    int64_t from;
    bool same;
} asker;

/* Many calls, of one picture and of several; nothing of cmocka's, which knows one thread. */
static void *keep_asking(void *payload)
{
    asker *a = payload;
    for (int round = 0; round < 6; round++) {
        int64_t from = (a->from + round) % (PICTURES - 4), count = round % 2 ? 1 : 4;
        tl_predictions *answers;
        if (tl_predictor_run(&answers, a->p, queries + from, count) != TL_OK) return NULL;
        for (int64_t i = 0; i < count; i++)
            for (int k = 0; k < 4; k++)
                if (fabsf(answers->items[i].values[k] - a->expected->items[from + i].values[k])
                    > 1e-6f)
                    return NULL;
        tl_predictions_free(&answers);
    }
    a->same = true;
    return NULL;
}

static void test_many_threads_ask_one_predictor(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    train("run", true);
    tl_predictor *p = open_run("run", &(tl_predictor_args){.threads = 2});
    tl_predictions *expected = ask(p, queries, PICTURES);
    pthread_t threads[THREADS];
    asker askers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){p, expected, i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(askers[i].same);
    }
    tl_predictions_free(&expected);
    tl_predictor_free(&p);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

static void test_a_bad_query_is_alone_in_its_failure(void **state)
{
    (void)state;
    train("run", true);
    tl_str png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){SIDE, SIDE, 1, pictures[3]}));
    assert_ok(tl_file_write_atomic("three.png", tl_str_text(&png), png.length));
    assert_ok(tl_file_write_atomic("text.png", "no image", 8));
    const tl_query mixed[] = {{.file = "nowhere.png"},
                              {.file = "three.png"},
                              {.file = "text.png"},
                              {0},
                              {.data = tl_str_text(&png), .size = png.length / 2, .file = "cut"},
                              queries[3],
                              {.data = tl_str_text(&png), .size = png.length}};
    tl_predictor *p = open_run("run", NULL);
    tl_predictions *answers = ask(p, mixed, TL_COUNT(mixed)), *plain = ask(p, queries, PICTURES);
    assert_int_equal(answers->items[0].status, TL_ENOTFOUND);
    assert_non_null(strstr(answers->items[0].message, "nowhere.png"));
    assert_non_null(strstr(answers->items[2].message, "text.png"));
    assert_non_null(strstr(answers->items[3].message, "neither a file nor data"));
    assert_non_null(strstr(answers->items[4].message, "cut"));
    assert_null(answers->items[4].values);
    static const int good[] = {1, 5, 6};
    for (int i = 0; i < TL_COUNT(good); i++)
        for (int k = 0; k < 4; k++)
            assert_near(answers->items[good[i]].values[k], plain->items[3].values[k], 1e-6);
    tl_predictions_free(&answers);
    tl_predictions_free(&plain);
    tl_predictor_free(&p);
    tl_str_deinit(&png);
}

static void test_what_cannot_be_opened(void **state)
{
    (void)state;
    tl_predictor *p;
    assert_fails(
        tl_predictor_open(&p, NULL, "nowhere", NULL), TL_ENOTFOUND,
        "'nowhere' is no folder of a run: it has no params.yaml (of `train`), no config.yaml (of "
        "`train_net`) and no model.json (of `export`); there is no such folder");
    assert_null(p);
    train("run", true);
    assert_fails(tl_predictor_open(&p, NULL, "run", &(tl_predictor_args){.checkpoint = "nothing"}),
                 TL_ENOTFOUND, "nothing");
    assert_null(p);
}

/* --- a task of one's own ---------------------------------------------------------------------- */

/* Twice the number that the bytes of a query say. */
static tl_tensor *double_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    (void)m;
    return tl_scale(c, x, 2);
}
static tl_status no_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    (void)l, (void)s, (void)x;
    return TL_OK;
}
static const tl_layer_class double_class = {
    .cls = TL_CLASS(tl_layer_class, "double", NULL, tl_layer, NULL),
    .forward = double_forward,
    .parameters = no_parameters,
};

static tl_status build_model(tl_task *t, tl_model **out)
{
    tl_spec x = {"x", TL_F32, TL_SHAPE(1, 1)};
    return tl_model_new(out, &(tl_model_args){.engine = t->engine,
                                              .cls = &double_class,
                                              .inputs = &x,
                                              .input_count = 1,
                                              .registry = t->registry});
}
static tl_status prepare_number(const tl_task *t, const tl_query *q, void *const *inputs)
{
    char *end, text[16] = "";
    (void)t;
    memcpy(text, q->data, q->size < 15 ? q->size : 15);
    *(float *)inputs[0] = (float)tl_strtod(text, &end);
    return end == text ? TL_FAIL(TL_EINVAL, "'%s' is no number", text) : TL_OK;
}
static const tl_desc number_desc = {
    .name = "number",
    .help = "a number",
    .size = sizeof(tl_task_config),
    .base = &tl_task_config_desc,
};
static const tl_task_class number_task = {
    .cls = TL_CLASS(tl_task_class, "number", &tl_base_task.cls, tl_task, &number_desc,
                    .help = "doubles"),
    .build_model = build_model,
    .prepare_query = prepare_number,
};
static const tl_experiment_class number_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "number", .help = "a number"},
    .task = &number_desc,
};

static tl_tensor *say_nothing(const tl_task *t, tl_ctx *c, const tl_tensors *outputs)
{
    (void)t, (void)c, (void)outputs;
    return NULL;
}
static const tl_desc silent_desc = {
    .name = "silent",
    .help = "nothing",
    .size = sizeof(tl_task_config),
    .base = &tl_task_config_desc,
};
static const tl_task_class silent_task = {
    .cls = TL_CLASS(tl_task_class, "silent", &number_task.cls, tl_task, &silent_desc,
                    .help = "says nothing"),
    .build_answers = say_nothing,
};
static const tl_experiment_class silent_experiment = {
    .cls = {.class_size = sizeof(tl_experiment_class), .name = "silent", .help = "nothing"},
    .task = &silent_desc,
};
static const tl_entry entries[] = {{&tl_kind_task, &number_task.cls},
                                   {&tl_kind_experiment, &number_experiment.cls},
                                   {&tl_kind_task, &silent_task.cls},
                                   {&tl_kind_experiment, &silent_experiment.cls}};
static const tl_module module = {TL_MODULE_HEAD("number"), entries, TL_COUNT(entries)};

/* A run in the folder 'numbers', of one of these. */
static tl_predictor *open_numbers(const char *experiment)
{
    tl_predictor *p;
    tl_state *empty;
    int64_t step = 3;
    uint64_t seed = 1;
    assert_ok(tl_registry_add(lab_registry, &module));
    assert_ok(tl_mkdirs("numbers"));
    assert_ok(tl_file_write_atomic(
        "numbers/params.yaml", "tilth: {threads: 1}\nruntime: {distribution_strategy: off}\n", 58));
    assert_ok(tl_file_write_atomic("numbers/experiment.txt", experiment, strlen(experiment)));
    assert_ok(tl_state_new(&empty));
    assert_ok(tl_state_bind_int(empty, "global_step", &step));
    assert_ok(tl_state_bind_words(empty, "seed", &seed, 1));
    assert_ok(tl_checkpoint_save("numbers/ckpt-3.safetensors", empty, NULL));
    tl_state_free(&empty);
    assert_ok(tl_predictor_open(&p, lab_registry, "numbers",
                                &(tl_predictor_args){.checkpoint = "ckpt-3"}));
    return p;
}

static void test_a_task_that_answers_with_numbers(void **state)
{
    (void)state;
    const tl_query q[] = {
        {.data = "21", .size = 2}, {.data = "x", .size = 1}, {.data = "-1.5", .size = 4}};
    tl_predictor *p = open_numbers("number");
    assert_false(tl_predictor_form(p).classes);
    tl_predictions *answers = ask(p, q, 3);
    assert_int_equal(answers->items[0].count, 1);
    assert_int_equal(answers->items[0].top_count, 0);
    assert_near(answers->items[0].values[0], 42, 0);
    assert_string_equal(answers->items[1].message, "'x' is no number");
    assert_near(answers->items[2].values[0], -3, 0);
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

static void test_a_task_that_says_nothing(void **state)
{
    (void)state;
    tl_predictions *answers;
    tl_predictor *p = open_numbers("silent");
    assert_fails(tl_predictor_run(&answers, p, &(tl_query){.data = "21", .size = 2}, 1), TL_EINVAL,
                 "must answer with float32[1, count]");
    tl_predictor_free(&p);
}

/* On a device a failure makes its queue fail: later calls have nothing to do with it. */
static void test_a_failure_is_over_when_it_was_told(void **state)
{
    (void)state;
    tl_predictor *p;
    tl_predictions *before, *after, *none;
    char kept[64];
    const char *device = getenv("TILTH_DEVICE");
    snprintf(kept, sizeof kept, "%s", device ? device : "");
    train("run", true);
    setenv("TILTH_DEVICE", "fake", 1);
    assert_ok(tl_predictor_open(&p, lab_registry, "run", NULL));
    if (*kept) setenv("TILTH_DEVICE", kept, 1);
    else unsetenv("TILTH_DEVICE");
    before = ask(p, queries, 3);
    for (int at = 1; at < 8; at++) {
        fake_fail_at(at);
        assert_fails(tl_predictor_run(&none, p, queries, 3), TL_EIO,
                     "the fake device fails, as it was told");
        fake_fail_at(0);
        after = ask(p, queries, 3);
        for (int i = 0; i < 3; i++)
            assert_memory_equal(after->items[i].values, before->items[i].values, 4 * sizeof(float));
        tl_predictions_free(&after);
    }
    tl_predictions_free(&before);
    tl_predictor_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_classes_by_name_best_first),
        LAB_TEST(test_names_that_the_run_has_noted),
        LAB_TEST(test_without_names_there_are_numbers),
        LAB_TEST(test_the_same_on_any_number_of_threads_that_compute),
        LAB_TEST(test_batches_of_any_size),
        LAB_TEST(test_many_threads_ask_one_predictor),
        LAB_TEST(test_a_bad_query_is_alone_in_its_failure),
        LAB_TEST(test_what_cannot_be_opened),
        LAB_TEST(test_a_task_that_answers_with_numbers),
        LAB_TEST(test_a_task_that_says_nothing),
        LAB_TEST(test_a_failure_is_over_when_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
