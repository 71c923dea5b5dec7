/* `tilth find_lr`, and the noise of gradients that `train` tells, on the experiment `mock`: a line
 * y = w x + b that is to become y = x. With e = w - 1 the losses hang on e and b alone, so that the
 * test can compute all of it once more; tests/interop/check_find_lr.py does so with NumPy. */
#include "tool/tool_lab.h"

#include <jansson.h>
#include <tilth/train/run/find_rate.h>

#define MOCK                                                                                       \
    "--experiment=mock", "tilth.jit=false", "tilth.seed=3", "tilth.threads=1",                     \
        "task.train_data.is_training=false", "trainer.optimizer_config.optimizer.type=sgd"

static json_t *told_json(void)
{
    json_error_t why;
    json_t *j = json_loads(out, 0, &why);
    if (!j) fail_msg("%s in:\n%s", why.text, out);
    return j;
}

static double number_in(const json_t *object, const char *key)
{
    const json_t *j = json_object_get(object, key);
    if (!json_is_number(j)) fail_msg("'%s' is no number", key);
    return json_number_value(j);
}

/* --- points as the search should have found them ---------------------------------------------- */

enum { EXAMPLES = 100, MOST = 64 };

typedef struct line {
    double e, b;
} line;

// One step down the gradient of the examples from `first` on; gives the loss before it.
static double descend(line *l, int first, int count, double rate)
{
    double loss = 0, by_e = 0, by_b = 0;
    for (int i = first; i < first + count; i++) {
        double x = (float)i / EXAMPLES, error = l->e * x + l->b;
        loss += error * error / count;
        by_e += 2 * error * x / count;
        by_b += 2 * error / count;
    }
    l->e -= rate * by_e;
    l->b -= rate * by_b;
    return loss;
}

// From the first loss on, at which b is 0; the sign of e does not matter.
static line line_of(double loss)
{
    double squares = 0;
    for (int i = 0; i < EXAMPLES; i++) squares += (double)i * i / EXAMPLES / EXAMPLES / EXAMPLES;
    return (line){sqrt(loss / squares), 0};
}

static void test_points_are_those_of_the_formulas(void **state)
{
    (void)state;
    run("find_lr", MOCK, "task.train_data.global_batch_size=100", "--min=0.001", "--max=50",
        "--steps=40", "--smoothing=0.9", "--json");
    ended(0, "");
    json_t *all = told_json(), *points = json_object_get(all, "points");
    size_t count = json_array_size(points);
    assert_string_equal(json_string_value(json_object_get(all, "experiment")), "mock");
    assert_true(json_is_true(json_object_get(all, "diverged")));
    assert_true(count > 20 && count < 40);
    line l = line_of(number_in(json_array_get(points, 0), "loss"));
    double mean = 0, weight = 0, first = number_in(json_array_get(points, 0), "loss");
    tl_rate_point found[MOST];
    for (size_t i = 0; i < count; i++) {
        const json_t *p = json_array_get(points, i);
        double rate = 0.001 * pow(50000, (double)i / 39), loss = descend(&l, 0, EXAMPLES, rate);
        mean = 0.9 * mean + loss;
        weight = 0.9 * weight + 1;
        assert_near(number_in(p, "learning_rate") / rate, 1, 1e-12);
        assert_near(number_in(p, "loss"), loss, 1e-3 * loss + 1e-5 * first);
        assert_near(number_in(p, "smoothed_loss"), mean / weight,
                    1e-3 * mean / weight + 1e-5 * first);
        found[i] = (tl_rate_point){.rate = rate, .smoothed = number_in(p, "smoothed_loss")};
    }
    int64_t at = tl_rate_suggest(found, (int64_t)count);
    assert_true(at > 0);
    assert_near(number_in(all, "suggestion") / found[at].rate, 1, 1e-12);
    json_decref(all);
}

static int64_t suggest(int64_t count, const double *smoothed)
{
    tl_rate_point points[MOST] = {{0}};
    for (int64_t i = 0; i < count; i++) points[i].smoothed = smoothed[i];
    return tl_rate_suggest(points, count);
}
#define SUGGEST(...)                                                                               \
    suggest((int64_t)TL_COUNT(((const double[]){__VA_ARGS__})), (const double[]){__VA_ARGS__})

static void test_suggestions(void **state)
{
    (void)state;
    assert_int_equal(SUGGEST(5, 5, 4, 2, 0.5, 0.5), 3);              // (0.5 - 4) / 2
    assert_int_equal(SUGGEST(5, 1, 1, 1, 1), 0);                     // at the first, one-sided
    assert_int_equal(SUGGEST(1, 1, 1, 1), -1);                       // nothing falls
    assert_int_equal(SUGGEST(1, 2, 3, 4, 9), -1);                    // it only rises
    assert_int_equal(SUGGEST(5, 1), -1);                             // too few
    assert_int_equal(SUGGEST(4, 3.9, 3, 3, 9, 3.5, 8), 1);           // the fall from 9 is none
    assert_int_equal(SUGGEST(3, 3, 2.9, 2.8, 0), 2);                 // the last one does not count
    assert_int_equal(SUGGEST(9, 1, 1, 1, 1, 1, 0.9, 1, 1, 1, 1), 5); // nor the first tenth
}

static void test_what_it_says(void **state)
{
    (void)state;
    run("find_lr", MOCK, "task.train_data.global_batch_size=100", "--min=0.001", "--max=50",
        "--steps=40");
    ended(0, "");
    has("smoothed loss by learning rate\n");
    has("0.001 ");
    has(" of 40 steps, learning rates from 0.001 to ");
    has(": the next one diverged\nsuggestion: ");
    run("find_lr", MOCK, "task.train_data.global_batch_size=100", "--min=0.001", "--max=0.01",
        "--steps=12", "--svg=curve.svg", "--json");
    ended(0, "");
    json_t *all = told_json();
    assert_true(json_is_false(json_object_get(all, "diverged")));
    assert_int_equal(json_array_size(json_object_get(all, "points")), 12);
    json_decref(all);
    char *svg;
    assert_ok(tl_file_read(&svg, NULL, "curve.svg", 1 << 20));
    text_has(svg, ">learning rate</text>");
    text_has(svg, ">0.001</text>");
    tl_free(svg);
    // Nothing else was written.
    tl_arena *arena;
    tl_path_list files;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&files, arena, "*"));
    assert_int_equal(files.count, 1);
    tl_arena_free(&arena);
}

/* A schedule with a warm-up, and losses that are not finite, which end a training. */
static void test_any_schedule(void **state)
{
    (void)state;
    run("find_lr", MOCK, "--min=1", "--max=1e30", "--steps=20", "--divergence=0", "--json",
        "trainer.optimizer_config.learning_rate.type=cosine",
        "trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=0",
        "trainer.optimizer_config.learning_rate.cosine.decay_steps=1",
        "trainer.optimizer_config.warmup.type=linear",
        "trainer.optimizer_config.warmup.linear.warmup_steps=5");
    ended(0, "");
    json_t *all = told_json(), *points = json_object_get(all, "points");
    assert_true(json_is_true(json_object_get(all, "diverged")));
    assert_true(json_array_size(points) > 3 && json_array_size(points) < 20);
    for (size_t i = 0; i < json_array_size(points); i++)
        assert_near(number_in(json_array_get(points, i), "learning_rate")
                        / pow(1e30, (double)i / 19),
                    1, 1e-12);
    json_decref(all);
}

static double last_loss(json_t *all, size_t count)
{
    json_t *points = json_object_get(all, "points");
    assert_int_equal(json_array_size(points), count);
    double loss = number_in(json_array_get(points, count - 1), "loss");
    json_decref(all);
    return loss;
}

/* Rates are those of the first stage, however short it is. */
static void test_stages(void **state)
{
    (void)state;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        run("find_lr", "--experiment=progressive/local", "tilth.jit=false", "tilth.seed=3",
            "--min=1e-5", "--max=1e-3", "--steps=4", "--json",
            i ? "trainer.progressive.stages=[{num_steps: 9}]"
              : "trainer.progressive.stages=[{num_steps: 2}, {num_steps: 9, task: {model: "
                "{input_size: [12, 12, 1], backbone: {resnet: {model_id: 10}}}}}]");
        ended(0, "");
        loss[i] = last_loss(told_json(), 4);
    }
    assert_near(loss[0], loss[1], 1e-12);
}

static void test_several_tasks(void **state)
{
    (void)state;
    run("find_lr", "--experiment=multitask/local", "tilth.jit=false");
    failed(2, "losses of different tasks cannot be compared: set trainer.trainer_type to joint");
    run("find_lr", "--experiment=multitask/local", "tilth.jit=false", "trainer.trainer_type=joint",
        "--steps=3", "--json");
    ended(0, "");
    assert_true(last_loss(told_json(), 3) > 0);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    run("find_lr", MOCK, "--min=0");
    failed(2, "--min=0: it must be above 0");
    run("find_lr", MOCK, "--min=0.1", "--max=0.1");
    failed(2, "--max=0.1: it must be above --min, 0.1");
    run("find_lr", MOCK, "--steps=1");
    failed(2, "--steps");
    run("find_lr", MOCK, "--smoothing=1");
    failed(2, "--smoothing=1: it must be below 1");
    run("find_lr", MOCK, "--divergence=0.5");
    failed(2, "--divergence=0.5: it must be above 1, or 0");
    run("find_lr", "--experiment=nothing");
    failed(2, "nothing");
    run("find_lr", "--experiment=images", "--steps=7", "tilth.seed=1");
    failed(2, "lacks 1 setting:\n    task.train_data.input_path ");
    text_has(err,
             "tilth find_lr --experiment=images \\\n      --steps=7 \\\n      tilth.seed=1 \\\n"
             "      task.train_data.input_path=");
}

/* --- the noise of gradients ------------------------------------------------------------------- */

/* At a rate of 0 the gradients of a batch are e (2 mean(x^2), 2 mean(x)), whatever e is: their
 * quotients are those of the data. */
static double noise_scale_of(int steps, int batches, int size, double decay)
{
    double noise = 0, signal = 0;
    for (int s = 0, at = 0; s < steps; s++) {
        double small = 0, mean_e = 0, mean_b = 0;
        for (int k = 0; k < batches; k++, at = (at + size) % EXAMPLES) {
            line l = {1, 0};
            (void)descend(&l, at, size, 1);
            double by_e = 1 - l.e, by_b = -l.b;
            small += (by_e * by_e + by_b * by_b) / batches;
            mean_e += by_e / batches;
            mean_b += by_b / batches;
        }
        double large = mean_e * mean_e + mean_b * mean_b;
        double own = (small - large) / (1 - 1.0 / batches) * size; // by examples
        noise = decay * noise + own;
        signal = decay * signal + (large - own / (batches * size));
    }
    return noise / signal;
}

static double told_noise_scale(const char *path, int step)
{
    char *text, wanted[64];
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    snprintf(wanted, sizeof wanted, "\"step\": %d,", step);
    const char *row = strstr(text, wanted);
    const char *at = row ? strstr(row, "\"gradient_noise_scale\": ") : NULL;
    if (!at) fail_msg("no noise scale of step %d in:\n%s", step, text);
    double value = atof(at + strlen("\"gradient_noise_scale\": "));
    tl_free(text);
    return value;
}

#define NOISY                                                                                      \
    "train", MOCK, "--mode=train", "task.train_data.global_batch_size=20",                         \
        "tilth.gradient_noise_scale=true", "trainer.steps_per_loop=4",                             \
        "trainer.summary_interval=4", "trainer.checkpoint_interval=4",                             \
        "trainer.optimizer_config.learning_rate.type=constant",                                    \
        "trainer.optimizer_config.learning_rate.constant.learning_rate=0"

static void test_the_noise_of_gradients(void **state)
{
    (void)state;
    run(NOISY, "--model_dir=run", "tilth.gradient_accumulation=3", "trainer.train_steps=4");
    ended(0, "");
    assert_near(told_noise_scale("run/metrics.jsonl", 4) / noise_scale_of(4, 3, 20, 0.99), 1, 1e-4);
    // Averages go on where they were.
    run(NOISY, "--model_dir=run", "tilth.gradient_accumulation=3", "trainer.train_steps=12");
    ended(0, "");
    assert_near(told_noise_scale("run/metrics.jsonl", 12) / noise_scale_of(12, 3, 20, 0.99), 1,
                1e-4);
    run(NOISY, "--model_dir=other", "trainer.train_steps=4");
    failed(2, "tilth.gradient_noise_scale: it compares the gradients of the batches of a step");
}

/* Each stage has an optimizer of its own. */
static void test_the_noise_of_stages(void **state)
{
    (void)state;
    run("train", "--experiment=progressive/local", "--mode=train", "--model_dir=run",
        "tilth.seed=6", "tilth.jit=false", "tilth.gradient_accumulation=2",
        "tilth.gradient_noise_scale=true",
        "trainer.progressive.stages=[{num_steps: 2}, {num_steps: 2}]", "trainer.train_steps=4",
        "trainer.steps_per_loop=2", "trainer.summary_interval=2", "trainer.checkpoint_interval=2");
    ended(0, "");
    (void)told_noise_scale("run/metrics.jsonl", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_points_are_those_of_the_formulas),
        TOOL_TEST(test_suggestions),
        TOOL_TEST(test_what_it_says),
        TOOL_TEST(test_any_schedule),
        TOOL_TEST(test_stages),
        TOOL_TEST(test_several_tasks),
        TOOL_TEST(test_what_is_refused),
        TOOL_TEST(test_the_noise_of_gradients),
        TOOL_TEST(test_the_noise_of_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
