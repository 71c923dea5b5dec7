/* Hooks of a program that is made with tl_main: made anew for each run, of `train` and of
 * `train_net`. */
#include "train/mock.h"

#include "tool/tool.h"

/* --- a hook that counts ----------------------------------------------------------------------- */

typedef struct counting {
    tl_hook base;
    int64_t steps;
} counting;

static struct {
    int64_t asked, made, freed, steps, trainings;
    char command[16], folder[16];
} told;

static tl_status count_start(tl_hook *h, const void *config)
{
    (void)h, (void)config;
    told.made++;
    return TL_OK;
}

static tl_status count_step(tl_hook *h)
{
    ((counting *)h)->steps++;
    return TL_OK;
}

static tl_status count_training(tl_hook *h)
{
    told.trainings++;
    told.steps = ((counting *)h)->steps; // of this hook: a new one has none
    return TL_OK;
}

static void count_dispose(tl_hook *h)
{
    (void)h;
    told.freed++;
}

static const tl_hook_class counting_class = {
    .cls = TL_CLASS(tl_hook_class, "counting", NULL, counting, NULL),
    .start = count_start,
    .after_step = count_step,
    .after_train = count_training,
    .dispose = count_dispose,
};

static tl_status add_hooks(tl_hooks *into, const tl_main_run *run, void *payload)
{
    told.asked++;
    snprintf(told.command, sizeof told.command, "%s", run->command);
    snprintf(told.folder, sizeof told.folder, "%s", run->folder);
    assert_non_null(run->registry);
    TL_TRY(tl_hooks_add(into, NULL, &counting_class, NULL));
    return *(const bool *)payload ? TL_FAIL(TL_EINVAL, "there is no hook today") : TL_OK;
}

/* --- runs ------------------------------------------------------------------------------------- */

static bool refuses;
static char *said;

static int run_list(const char *const *words)
{
    const tl_main_options options = {.add_hooks = add_hooks, .hooks_payload = &refuses};
    char *argv[24] = {"mine"};
    int argc = 1;
    size_t size;
    free(said);
    said = NULL;
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    FILE *to = open_memstream(&said, &size);
    assert_non_null(to);
    tli_tool tool = {.program = "mine", .options = &options, .out = to, .err = to, .width = 80};
    int code = tli_tool_main(&tool, argc, argv);
    fclose(to);
    return code;
}
#define run(...) run_list((const char *const[]){__VA_ARGS__, NULL})

static void assert_counted(int64_t runs, const char *command, const char *folder, int64_t steps)
{
    assert_int_equal(told.asked, runs);
    assert_int_equal(told.made, runs);
    assert_int_equal(told.freed, runs);
    assert_int_equal(told.trainings, runs);
    assert_int_equal(told.steps, steps);
    assert_string_equal(told.command, command);
    assert_string_equal(told.folder, folder);
}

static int begin(void **state)
{
    memset(&told, 0, sizeof told);
    refuses = false;
    return setup(state);
}

static int end(void **state)
{
    free(said);
    said = NULL;
    return teardown(state);
}

#define TRAIN(folder, steps)                                                                       \
    run("train", "--experiment=mock", "--mode=train", "--model_dir=" folder, "tilth.jit=false",    \
        "runtime.run_eagerly=true", "trainer.train_steps=" steps,                                  \
        "trainer.optimizer_config.optimizer.type=sgd",                                             \
        "trainer.optimizer_config.learning_rate.type=constant")

static void each_run_of_train_has_its_own(void **state)
{
    (void)state;
    assert_int_equal(TRAIN("one", "3"), 0);
    assert_counted(1, "train", "one", 3);
    assert_int_equal(TRAIN("two", "2"), 0);
    assert_counted(2, "train", "two", 2);
    refuses = true;
    assert_int_equal(TRAIN("three", "2"), TL_EXIT_USAGE);
    assert_non_null(strstr(said, "there is no hook today"));
    assert_int_equal(told.freed, 3);
}

static void each_run_of_train_net_has_its_own(void **state)
{
    (void)state;
    toy_put("mock.yaml", mock);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(run("train_net", "--config-file=mock.yaml", "train.train_iter=4",
                             "graph.enabled=false"),
                         0);
        assert_counted(i, "train_net", "out", 4);
    }
    refuses = true;
    assert_int_equal(run("train_net", "--config-file=mock.yaml"), TL_EXIT_USAGE);
    assert_non_null(strstr(said, "there is no hook today"));
    assert_int_equal(told.freed, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_run_of_train_has_its_own, begin, end),
        cmocka_unit_test_setup_teardown(each_run_of_train_net_has_its_own, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
