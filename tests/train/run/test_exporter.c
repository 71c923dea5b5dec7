/* The best checkpoint: when there is a new one, what is told of it, what a restart and a failure
 * leave. runs: fake device */
#include "train/toy.h"

#include <tilth/train/run/exporter.h>

/* A state with one number, and logs. */
typedef struct fixture {
    tl_state *state;
    tl_logs *logs, *inner;
    int64_t number;
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){0};
    assert_ok(tl_state_new(&f->state));
    assert_ok(tl_state_bind_int(f->state, "number", &f->number));
    assert_ok(tl_logs_new(&f->logs));
    assert_ok(tl_logs_sub(&f->inner, f->logs, "test_metric"));
}

static void close_fixture(fixture *f)
{
    tl_state_free(&f->state);
    tl_logs_free(&f->logs);
}

static tl_exporter *exporter_of(const char *metric, tl_metric_comp comp)
{
    tl_exporter *e;
    assert_ok(tl_exporter_new(
        &e, &(tl_exporter_args){.dir = "best_ckpt", .metric = metric, .comp = comp}));
    return e;
}

static bool try_export(tl_exporter *e, fixture *f, double value, int64_t step)
{
    bool exported;
    f->number = step;
    assert_ok(tl_logs_put(f->inner, "metric_1", value));
    assert_ok(tl_exporter_maybe_export(e, f->state, f->logs, step, &exported));
    return exported;
}

static int64_t number_in(const char *path)
{
    fixture f;
    tl_arena *arena;
    const char *file;
    open_fixture(&f);
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_checkpoint_resolve(&file, arena, path));
    assert_ok(tl_checkpoint_restore(f.state, file, NULL, NULL));
    tl_arena_free(&arena);
    int64_t number = f.number;
    close_fixture(&f);
    return number;
}

static void better_ones_are_exported(void **state)
{
    toy *y = *state;
    fixture f;
    tl_tensor *image;
    open_fixture(&f);
    tl_exporter *e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_null(tl_exporter_best_logs(e));
    assert_null(tl_exporter_best_path(e));
    assert_files("best_ckpt", ""); // who only looks makes no folder
    assert_ok(tl_tensor_new(&image, tl_strategy_engine(y->strategy), TL_U8, TL_SHAPE(2, 2, 3)));
    assert_ok(tl_tensor_set_doubles(image, (double[12]){0}, 12));
    assert_ok(tl_logs_put_image(f.logs, "image", image));
    assert_true(try_export(e, &f, 5, 100));
    assert_file("best_ckpt/info.json", "{\n"
                                       "    \"test_metric\": {\n"
                                       "        \"metric_1\": 5.0\n"
                                       "    },\n"
                                       "    \"best_ckpt_global_step\": 100.0\n"
                                       "}\n");
    assert_string_equal(tl_exporter_best_path(e), "best_ckpt/best_ckpt-100.safetensors");
    assert_near(tl_logs_number_or(f.logs, "best_test_metric|metric_1", 0), 5, 0);
    assert_false(try_export(e, &f, 5, 150)); // equal is not better
    assert_true(try_export(e, &f, 6, 200));
    assert_files("best_ckpt/*.safetensors", "best_ckpt/best_ckpt-200.safetensors");
    assert_false(try_export(e, &f, 1, 300));
    assert_near(tl_logs_number_or(f.logs, "best_test_metric|metric_1", 0), 6, 0);
    assert_near(tl_logs_number_or(f.logs, "test_metric/metric_1", 0), 1, 0);
    assert_near(tl_logs_number_or(tl_exporter_best_logs(e), "best_ckpt_global_step", 0), 200, 0);
    assert_int_equal(number_in("best_ckpt"), 200); // through the state file
    assert_int_equal(number_in(tl_exporter_best_path(e)), 200);
    tl_exporter_free(&e);
    tl_tensor_free(&image);
    close_fixture(&f);
}

static void lower_can_be_better(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    tl_exporter *e = exporter_of("test_metric|metric_1", TL_METRIC_LOWER);
    assert_true(try_export(e, &f, -1, 1));
    assert_false(try_export(e, &f, 0, 2));
    assert_false(try_export(e, &f, -1, 3));
    assert_true(try_export(e, &f, -1.5, 4));
    tl_exporter_free(&e);
    close_fixture(&f);
}

static void nan_never_wins(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    tl_exporter *e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    tl_logs_entry entry;
    assert_false(try_export(e, &f, NAN, 1));
    assert_false(tl_file_exists("best_ckpt/info.json"));
    assert_files("best_ckpt/*", "");
    assert_false(tl_logs_find(&entry, f.logs, "best_test_metric|metric_1"));
    assert_false(try_export(e, &f, HUGE_VAL, 2));
    assert_true(try_export(e, &f, -5, 3));
    assert_false(try_export(e, &f, NAN, 4));
    assert_false(try_export(e, &f, HUGE_VAL, 5));
    assert_near(tl_logs_number_or(f.logs, "best_test_metric|metric_1", 0), -5, 0);
    assert_true(try_export(e, &f, -4, 6));
    tl_exporter_free(&e);
    close_fixture(&f);
}

static void a_missing_metric_is_told(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    assert_ok(tl_logs_put(f.inner, "metric_1", 1));
    assert_ok(tl_logs_put(f.logs, "validation_loss", 1));
    tl_exporter *e = exporter_of("acuracy", TL_METRIC_HIGHER);
    assert_fails(tl_exporter_maybe_export(e, f.state, f.logs, 1, NULL), TL_ENOTFOUND,
                 "no metric 'acuracy'; there is test_metric|metric_1, validation_loss");
    assert_files("best_ckpt/*", ""); // nothing was exported unseen
    tl_exporter_free(&e);
    e = exporter_of("test_metric", TL_METRIC_HIGHER);
    assert_fails(tl_exporter_maybe_export(e, f.state, f.logs, 1, NULL), TL_EINVAL,
                 "names several metrics");
    tl_exporter_free(&e);
    e = exporter_of("validation_loss|x", TL_METRIC_HIGHER);
    assert_fails(tl_exporter_maybe_export(e, f.state, f.logs, 1, NULL), TL_ENOTFOUND,
                 "validation_loss|x");
    tl_exporter_free(&e);
    tl_logs_clear(f.logs);
    e = exporter_of("x", TL_METRIC_HIGHER);
    assert_fails(tl_exporter_maybe_export(e, f.state, f.logs, 1, NULL), TL_ENOTFOUND,
                 "none at all");
    tl_exporter_free(&e);
    assert_fails(tl_exporter_new(&e, &(tl_exporter_args){.dir = "x"}), TL_EINVAL, "metric");
    assert_fails(tl_exporter_new(&e, &(tl_exporter_args){.metric = "x"}), TL_EINVAL, "folder");
    close_fixture(&f);
}

static void a_restart_goes_on(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    tl_exporter *e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_true(try_export(e, &f, 6.125, 200));
    tl_exporter_free(&e);
    e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_string_equal(tl_exporter_best_path(e), "best_ckpt/best_ckpt-200.safetensors");
    assert_near(tl_logs_number_or(tl_exporter_best_logs(e), "test_metric/metric_1", 0), 6.125, 0);
    assert_false(try_export(e, &f, 5.5, 300));
    assert_near(tl_logs_number_or(f.logs, "best_test_metric|metric_1", 0), 6.125, 0);
    assert_true(try_export(e, &f, 7, 400));
    tl_exporter_free(&e);
    // Ended between the new checkpoint and info.json: what info.json tells of is there.
    assert_ok(tl_checkpoint_save("best_ckpt/best_ckpt-500.safetensors", f.state, NULL));
    e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_string_equal(tl_exporter_best_path(e), "best_ckpt/best_ckpt-400.safetensors");
    assert_true(try_export(e, &f, 8, 600));
    assert_files("best_ckpt/*",
                 "best_ckpt/best_ckpt-600.safetensors best_ckpt/checkpoint best_ckpt/info.json");
    tl_exporter_free(&e);
    // One of Model Garden's counts as well; its number is another.
    assert_ok(tl_file_remove("best_ckpt/best_ckpt-600.safetensors"));
    toy_put("best_ckpt/best_ckpt-3.index", "");
    toy_put("best_ckpt/checkpoint", "model_checkpoint_path: \"best_ckpt-3\"\n");
    e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_string_equal(tl_exporter_best_path(e), "best_ckpt/best_ckpt-3");
    assert_false(try_export(e, &f, 5.5, 650));
    tl_exporter_free(&e);
    assert_ok(tl_file_remove("best_ckpt/best_ckpt-3.index"));
    // Metrics without weights are forgotten.
    e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_int_equal(toy_count("whose checkpoint is missing"), 1);
    assert_null(tl_exporter_best_path(e));
    assert_true(try_export(e, &f, 2, 700));
    tl_exporter_free(&e);
    e = exporter_of("another", TL_METRIC_HIGHER); // the metric was changed
    assert_null(tl_exporter_best_logs(e));
    tl_exporter_free(&e);
    toy_put("best_ckpt/info.json", "{\"a\": ");
    assert_fails(tl_exporter_new(&e, &(tl_exporter_args){.dir = "best_ckpt", .metric = "a"}),
                 TL_EINVAL, "best_ckpt/info.json: not understood");
    assert_null(e);
    close_fixture(&f);
}

static void json_holds_what_python_would(void **state)
{
    toy *y = *state;
    fixture f;
    tl_tensor *t;
    open_fixture(&f);
    tl_exporter *e = exporter_of("loss", TL_METRIC_LOWER);
    assert_true(tl_logs_remove(f.logs, "test_metric"));
    assert_ok(tl_tensor_new(&t, tl_strategy_engine(y->strategy), TL_F32, TL_SHAPE(2)));
    assert_ok(tl_tensor_set_doubles(t, (double[]){0.5, 1e-5}, 2));
    assert_ok(tl_logs_put(f.logs, "loss", 0.1));
    assert_ok(tl_logs_put(f.logs, "bad \"\303\244\"", NAN));
    assert_ok(tl_logs_put_any(f.logs, "vector", t));
    assert_ok(tl_logs_put_text(f.logs, "text", "left out"));
    assert_ok(tl_logs_sub(&f.inner, f.logs, "empty"));
    assert_ok(tl_exporter_maybe_export(e, f.state, f.logs, 1000000, NULL));
    assert_file("best_ckpt/info.json", "{\n"
                                       "    \"loss\": 0.1,\n"
                                       "    \"bad \\\"\\u00e4\\\"\": null,\n"
                                       "    \"vector\": [\n"
                                       "        0.5,\n"
                                       "        9.999999747378752e-06\n"
                                       "    ],\n"
                                       "    \"empty\": {},\n"
                                       "    \"best_ckpt_global_step\": 1000000.0\n"
                                       "}\n");
    tl_exporter_free(&e);
    e = exporter_of("loss", TL_METRIC_LOWER);
    assert_near(tl_logs_number_or(tl_exporter_best_logs(e), "loss", 0), 0.1, 0);
    assert_true(isnan(tl_logs_number_or(tl_exporter_best_logs(e), "bad \"\303\244\"", 0)));
    tl_exporter_free(&e);
    tl_tensor_free(&t);
    close_fixture(&f);
}

static void a_failure_leaves_the_old_one(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    tl_exporter *e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    assert_true(try_export(e, &f, 5, 100));
    assert_ok(tl_mkdirs("best_ckpt/best_ckpt-200.safetensors/x")); // in the way
    assert_ok(tl_logs_put(f.inner, "metric_1", 6));
    assert_int_not_equal(tl_exporter_maybe_export(e, f.state, f.logs, 200, NULL), TL_OK);
    assert_non_null(strstr(tl_error_message(), "exporting the best checkpoint of step 200"));
    assert_string_equal(tl_exporter_best_path(e), "best_ckpt/best_ckpt-100.safetensors");
    char *info = toy_read("best_ckpt/info.json");
    assert_non_null(strstr(info, "100.0"));
    tl_free(info);
    assert_true(try_export(e, &f, 6, 300));
    assert_ok(tl_logs_put(f.inner, "metric_1", 9));
    assert_fails(tl_exporter_maybe_export(e, NULL, f.logs, 400, NULL), TL_ESTATE, "no state");
    tl_exporter_free(&e);
    close_fixture(&f);
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    fixture f;
    tl_exporter *e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
    open_fixture(&f);
    assert_true(try_export(e, &f, 5, 100));
    tl_exporter_free(&e);
    assert_ok(tl_logs_put(f.inner, "metric_1", 6));
    for (int64_t nth = 1;; nth++) {
        tl_exporter *one = NULL;
        bool exported = false;
        f.number = 200;
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_exporter_new(
            &one, &(tl_exporter_args){.dir = "best_ckpt", .metric = "test_metric|metric_1"});
        if (st == TL_OK) st = tl_exporter_maybe_export(one, f.state, f.logs, 200, &exported);
        tl_alloc_fail_at(0, 0);
        tl_exporter_free(&one);
        assert_true(st == TL_OK || st == TL_ENOMEM);
        // Whatever failed, info.json tells of a checkpoint that is there.
        e = exporter_of("test_metric|metric_1", TL_METRIC_HIGHER);
        assert_non_null(tl_exporter_best_path(e));
        assert_int_equal(number_in(tl_exporter_best_path(e)), exported ? 200 : 100);
        tl_exporter_free(&e);
        if (exported) break;
        assert_true(nth < 2000);
    }
    close_fixture(&f);
}

static void the_experiment_says_whether(void **state)
{
    (void)state;
    tl_exporter *e;
    tl_trainer_config p = {.best_checkpoint_export_subdir = "best",
                           .best_checkpoint_eval_metric = "loss",
                           .best_checkpoint_metric_comp = TL_METRIC_LOWER};
    assert_ok(tl_maybe_create_best_ckpt_exporter(&e, &p, "model"));
    assert_non_null(e);
    assert_false(tl_dir_exists("model")); // there is nothing to be put into it yet
    tl_exporter_free(&e);
    assert_ok(tl_maybe_create_best_ckpt_exporter(&e, &p, ""));
    assert_null(e);
    assert_ok(tl_maybe_create_best_ckpt_exporter(&e, &p, NULL));
    assert_null(e);
    p.best_checkpoint_eval_metric = "";
    assert_ok(tl_maybe_create_best_ckpt_exporter(&e, &p, "model"));
    assert_null(e);
    p.best_checkpoint_eval_metric = "loss";
    p.best_checkpoint_export_subdir = "";
    assert_ok(tl_maybe_create_best_ckpt_exporter(&e, &p, "model"));
    assert_null(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOY_TEST(better_ones_are_exported),
        TOY_TEST(lower_can_be_better),
        TOY_TEST(nan_never_wins),
        TOY_TEST(a_missing_metric_is_told),
        TOY_TEST(a_restart_goes_on),
        TOY_TEST(json_holds_what_python_would),
        TOY_TEST(a_failure_leaves_the_old_one),
        TOY_TEST(without_memory_nothing_is_lost),
        TOY_TEST(the_experiment_says_whether),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
