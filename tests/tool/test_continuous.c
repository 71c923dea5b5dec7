/* continuous_train_and_eval: each checkpoint of a pre-training is fine-tuned once, whatever ends
 * the process in between. */
#include "tool/tool_lab.h"

#include <sys/stat.h>

#include <tilth/io/tensorflow/event_file.h>

/* --- a hook that ends the run ----------------------------------------------------------------- */

static int64_t calls, last_call; /* 0: never */

static tl_status count(tl_hook *h)
{
    (void)h;
    return ++calls == last_call ? TL_FAIL(TL_EDATA, "the lights went out") : TL_OK;
}

static tl_status count_eval(tl_hook *h, tl_logs *logs)
{
    (void)logs;
    return count(h);
}

static const tl_hook_class ending = {
    .cls = TL_CLASS(tl_hook_class, "lights", NULL, tl_hook, NULL),
    .before_train = count,
    .after_step = count,
    .after_eval = count_eval,
};

static tl_status add_hooks(tl_hooks *hooks, const tl_main_run *run, void *payload)
{
    (void)run, (void)payload;
    return tl_hooks_add(hooks, NULL, &ending, &(tl_hook_args){0});
}

static int setup(void **state)
{
    tool_options.add_hooks = add_hooks;
    calls = last_call = 0;
    return tool_open(state);
}

/* --- runs ------------------------------------------------------------------------------------- */

static const char *network = "task.model.backbone.type=cnn";

static void pretrain(const char *steps)
{
    calls = last_call = 0;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=pre", "tilth.seed=1",
        "tilth.jit=false", "trainer.checkpoint_interval=2", "trainer.steps_per_loop=2", network,
        steps);
    ended(0, "");
}

static void finetune(const char *folder, const char *more)
{
    char dir[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    run("train", "--experiment=vision/local", "--mode=continuous_train_and_eval", dir,
        "tilth.seed=5", "tilth.jit=false", "task.init_checkpoint=pre", "trainer.train_steps=4",
        "trainer.checkpoint_interval=2", "trainer.steps_per_loop=2",
        "trainer.validation_interval=2", "trainer.continuous_eval_timeout=0",
        "trainer.best_checkpoint_eval_metric=accuracy",
        "trainer.best_checkpoint_export_subdir=best",
        "trainer.optimizer_config.optimizer.type=adam", network, more ? more : "tilth.threads=1");
}

static bool there(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return tl_file_exists(path);
}

static void assert_same(const char *a, const char *b, const char *name)
{
    char path[2][128], *text[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", i ? b : a, name);
        assert_ok(tl_file_read(&text[i], &size[i], path[i], 1 << 24));
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(text[0], text[1], size[0]);
    tl_free(text[0]);
    tl_free(text[1]);
}

/* "TAG@STEP " for each number in the folder. */
static void tags_of(tl_str *into, const char *folder)
{
    tl_arena *arena;
    tl_path_list files;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&files, arena, tl_arena_printf(arena, "%s/eval/events*", folder)));
    for (int64_t i = 0; i < files.count; i++) {
        tl_event_reader *r;
        tl_event e;
        bool more = true;
        assert_ok(tl_event_reader_open(&r, files.items[i]));
        while (tl_event_reader_next(r, &e, &more) == TL_OK && more)
            for (int64_t k = 0; k < e.count; k++)
                tl_str_addf(into, "%s@%lld ", e.values[k].tag, (long long)e.step);
        tl_event_reader_close(&r);
    }
    tl_arena_free(&arena);
}

static void each_checkpoint_is_fine_tuned_once(void **state)
{
    (void)state;
    tl_str tags = TL_STR_INIT;
    pretrain("trainer.train_steps=2");
    finetune("ft", NULL);
    ended(0, "");
    has("done: 1 checkpoint of the pre-training fine-tuned");
    has("accuracy");
    assert_true(there("ft", "metrics-2.json"));
    assert_true(there("ft/best_2", "info.json"));
    assert_false(there("ft", "ckpt-4.safetensors"));
    assert_false(there("ft", "checkpoint"));
    assert_false(there("ft", "train"));
    logged("initialized the model from pre/ckpt-2.safetensors");

    pretrain("trainer.train_steps=6"); // only the newest is looked at
    int64_t before = calls;
    finetune("ft", NULL);
    ended(0, "");
    has("done: 2 checkpoints");
    assert_false(there("ft", "metrics-4.json"));
    assert_true(there("ft", "metrics-6.json"));
    assert_true(there("ft/best_6", "info.json"));
    assert_true(calls > before);

    before = calls;
    finetune("ft", NULL); // nothing is left to do
    ended(0, "");
    has("done: 2 checkpoints");
    assert_int_equal(calls, before);

    tags_of(&tags, "ft");
    assert_string_equal(
        tl_str_text(&tags),
        "ft_image_classification/accuracy@2 ft_image_classification/top_2_accuracy@2 "
        "ft_image_classification/validation_loss@2 ft_image_classification/best_accuracy@2 "
        "ft_image_classification/accuracy@6 ft_image_classification/top_2_accuracy@6 "
        "ft_image_classification/validation_loss@6 ft_image_classification/best_accuracy@6 ");
    tl_str_deinit(&tags);
}

/* Ended at every call of a hook in turn, and gone on with. */
static void rounds_that_are_ended_go_on(void **state)
{
    (void)state;
    tl_str tags = TL_STR_INIT, again = TL_STR_INIT;
    pretrain("trainer.train_steps=2");
    finetune("whole", NULL);
    ended(0, "");
    const int64_t all = calls;
    assert_true(all >= 6);
    int64_t ends = 0;
    for (int64_t at = 1; at <= all; at++) {
        calls = 0;
        last_call = at;
        finetune("ended", NULL);
        if (code == 0) break; // it has gone on, and had less to do
        ended(1, "the lights went out");
        assert_false(there("ended", "metrics-2.json"));
        ends++;
    }
    calls = last_call = 0;
    finetune("ended", NULL);
    ended(0, "");
    assert_true(ends >= 4);
    assert_same("whole", "ended", "metrics-2.json");
    assert_same("whole", "ended", "best_2/info.json");
    tags_of(&tags, "whole");
    tags_of(&again, "ended");
    for (char *at = again.data; (at = strstr(at, "ended_"));) memcpy(at, "whole_", 6);
    assert_string_equal(tl_str_text(&tags), tl_str_text(&again));

    // What was written before the process ended is not there twice.
    assert_ok(tl_file_remove("ended/metrics-2.json"));
    tl_str_cut(&again, 0);
    finetune("ended", NULL);
    ended(0, "");
    assert_same("whole", "ended", "metrics-2.json");
    tags_of(&again, "ended");
    for (char *at = again.data; (at = strstr(at, "ended_"));) memcpy(at, "whole_", 6);
    assert_string_equal(tl_str_text(&tags), tl_str_text(&again));
    tl_str_deinit(&tags);
    tl_str_deinit(&again);
}

static void what_cannot_be_done_is_refused(void **state)
{
    (void)state;
    finetune("ft", NULL);
    ended(2, "there was nothing to fine-tune: no checkpoint has appeared in 'pre'");
    assert_false(there(".", "ft"));
    finetune("ft", "task.init_checkpoint=''");
    ended(2, "task.init_checkpoint is not set: for continuous_train_and_eval it is the folder");
    put_text("weights", "x");
    finetune("ft", "task.init_checkpoint=weights");
    ended(2, "'weights' is a file");
    pretrain("trainer.train_steps=2");
    finetune("pre", NULL);
    ended(2, "'pre' holds the checkpoints of another run");
    assert_true(there("pre", "ckpt-2.safetensors"));
    finetune("ft", "--dry_run");
    ended(0, "");
    has("dry run: everything works");
    assert_false(there(".", "ft"));

    finetune("ft", NULL);
    ended(0, "");
    put_text("ft/pretraining.json", "{\"checkpoint\": 3}");
    finetune("ft", NULL);
    ended(2, "ft/pretraining.json: not understood; remove it");
}

/* A pre-training of TensorFlow's gives the same as ours. */
static void bundles_are_fine_tuned_too(void **state)
{
    (void)state;
    network = "task.model.backbone={type: resnet, resnet: {model_id: 10}}";
    pretrain("trainer.train_steps=2");
    finetune("ft", NULL);
    ended(0, "");
    assert_ok(tl_mkdirs("original"));
    run("ckpt", "convert", "pre", "original/ckpt-2");
    ended(0, "");
    put_text("original/checkpoint", "model_checkpoint_path: \"ckpt-2\"\n"
                                    "all_model_checkpoint_paths: \"ckpt-2\"\n");
    finetune("bundled", "task.init_checkpoint=original");
    ended(0, "");
    logged("beginning with pre-training step 2, original/ckpt-2");
    assert_same("ft", "bundled", "metrics-2.json");
    network = "task.model.backbone.type=cnn";
}

/* What vanishes, or is damaged, is waited out. */
static void lost_checkpoints_are_passed_over(void **state)
{
    (void)state;
    pretrain("trainer.train_steps=2");
    last_call = 1; // before anything is saved
    calls = 0;
    finetune("ft", NULL);
    ended(1, "the lights went out");
    assert_true(there("ft", "pretraining.json"));
    assert_ok(tl_file_remove("pre/ckpt-2.safetensors"));
    put_text("pre/ckpt-4.safetensors", "none");
    put_text("pre/checkpoint", "model_checkpoint_path: \"ckpt-4\"\n"
                               "all_model_checkpoint_paths: \"ckpt-4\"\n");
    last_call = 0;
    finetune("ft", NULL);
    ended(2, "there was nothing to fine-tune");
    logged("pre-training step 2 is passed over, its checkpoint is gone: pre/ckpt-2.safetensors");
    logged("the next checkpoint is waited for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_checkpoint_is_fine_tuned_once, setup, tool_close),
        cmocka_unit_test_setup_teardown(rounds_that_are_ended_go_on, setup, tool_close),
        cmocka_unit_test_setup_teardown(what_cannot_be_done_is_refused, setup, tool_close),
        cmocka_unit_test_setup_teardown(bundles_are_fine_tuned_too, setup, tool_close),
        cmocka_unit_test_setup_teardown(lost_checkpoints_are_passed_over, setup, tool_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
