/* `tilth train` as people see it, and what can be done with a run afterwards: `eval`, `predict`, `export`. */
#include "zoo/zoo_lab.h"

#include <tilth/io/idx.h>
#include <tilth/io/png.h>
#include <tilth/io/safetensors.h>
#include <tilth/train/progress.h>

#include "tool/tool.h"

static char *out, *err;
static int code, width = 100;

static void forget(void)
{
    free(out);
    free(err);
    out = err = NULL;
}

static int open_test(void **state)
{
    return lab_open(state);
}

static int close_test(void **state)
{
    forget();
    return lab_close(state);
}

/* Runs `tilth WORDS` and keeps what it wrote. */
static void run_list(const char *const *words)
{
    static const tl_main_options options;
    char *argv[24] = {"tilth"};
    int argc = 1;
    size_t out_size, err_size;
    forget();
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    tli_tool tool = {.program = "tilth", .options = &options, .out = open_memstream(&out, &out_size),
                     .err = open_memstream(&err, &err_size), .width = width};
    assert_non_null(tool.out);
    assert_non_null(tool.err);
    code = tli_tool_main(&tool, argc, argv);
    fclose(tool.out);
    fclose(tool.err);
}
#define run(...) run_list((const char *const[]){__VA_ARGS__, NULL})

static void ended(int expected, const char *message)
{
    if (code != expected) fail_msg("exit code %d, not %d: %s", code, expected, err);
    if (!strstr(err, message)) fail_msg("this is missing:\n%s\nin:\n%s", message, err);
}

static void has(const char *part)
{
    if (!strstr(out, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, out);
}

static void train(const char *folder, const char *more)
{
    char dir[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    run("train", "--experiment=vision/local", "--mode=train_and_eval", dir, "--progress=bar", "tilth.seed=1",
        "tilth.threads=1", "trainer.train_steps=60", "trainer.validation_interval=30",
        "trainer.checkpoint_interval=30", more ? more : "tilth.jit=false");
    ended(0, "");
}

/* --- what people see -------------------------------------------------------------------------- */

static void test_a_bar_and_what_comes_last(void **state)
{
    (void)state;
    train("run", NULL);
    has("backbone (cnn)");                 // the table
    has("\r\033[K");                       // the bar is drawn over
    has("/60 ");
    has("step 30: evaluating");
    has("step 30:  accuracy ");
    has("step 60:  accuracy ");
    has("\ndone: step 60, in ");
    has("\nfiles in run:\n  params.yaml");
    has("\n  best ");
    has("\nnext:\n  tilth eval --model_dir=run\n  tilth predict --model_dir=run IMAGE...\n"
        "  tilth export --model_dir=run --to=run/exported\n");
    char *text;
    assert_ok(tl_file_read(&text, NULL, "run/experiment.txt", 100));
    assert_string_equal(text, "vision/local\n");
    tl_free(text);
}

static void test_it_tells_where_and_why_it_stopped(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) { // the same when the same command is given again
        run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run", "--progress=lines",
            "tilth.seed=1", "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=300",
            "trainer.validation_interval=30", "tilth.early_stopping={metric: accuracy, patience: 1, min_delta: 1}");
        ended(0, "");
        has("\ndone: step 60 of 300, in ");
        has("\nstopped: accuracy has not become better in 1 evaluation (best: ");
    }
}

static void test_what_is_told_is_there_and_can_be_typed(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=sp ace's", "--progress=lines",
        "tilth.jit=false", "trainer.train_steps=2");
    ended(0, "");
    has("\nfiles in sp ace's:\n  params.yaml");
    has("\n  ckpt-*.safetensors ");
    has("\n  train ");
    assert_null(strstr(out, "\n  best "));
    assert_null(strstr(out, "summaries of the evaluations"));
    has("\n  tilth eval --model_dir='sp ace'\\''s'\n");
    has("\n  tilth export --model_dir='sp ace'\\''s' --to='sp ace'\\''s/exported'\n");
    run("eval", "--model_dir=sp ace's");
    ended(0, "");
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run", "--progress=lines",
        "tilth.jit=false", "trainer.train_steps=2", "trainer.validation_summary_subdir=checks",
        "trainer.best_checkpoint_export_subdir=top");
    ended(0, "");
    has("\n  top ");
    has("\n  checks                   summaries of the evaluations\n");
}

static int columns_of(const char *from, const char *to)
{
    int count = 0;
    for (; from < to; from++) count += (*from & 0xC0) != 0x80;
    return count;
}

/* What is drawn over must be one line. */
static void test_a_bar_fits_its_terminal(void **state)
{
    (void)state;
    static const int widths[] = {4, 30, 60, 100};
    for (int64_t i = 0; i < TL_COUNT(widths); i++) {
        char folder[16];
        snprintf(folder, sizeof folder, "run%d", widths[i]);
        width = widths[i];
        train(folder, NULL);
        width = 100;
        int seen = 0, widest = 0;
        for (const char *p = out, *from = out; *p; p++) {
            if (*p == '\n') from = p + 1;
            if (strncmp(p, "\033[K", 3) == 0) from = p + 3;
            if (*p != '\r') continue;
            int columns = columns_of(from, p);
            if (columns >= widths[i]) fail_msg("%d columns of %d: %.*s", columns, widths[i], (int)(p - from), from);
            if (columns > widest) widest = columns;
            seen++;
        }
        assert_true(seen >= 3);
        assert_true(widest >= 3);
        if (widths[i] == 30) has("/60   loss "); // what fits is there
    }
}

static void test_numbers_for_people(void **state)
{
    (void)state;
    static const struct { double seconds; const char *text; } times[] = {
        {0, "0:00"}, {59.4, "0:59"}, {61, "1:01"}, {3599.6, "1:00:00"}, {7384, "2:03:04"}, {NAN, "0:00"}};
    static const struct { double count; const char *text; } counts[] = {
        {0, "0"}, {999, "999"}, {1000, "1,000"}, {1234567, "1,234,567"}};
    for (int64_t i = 0; i < TL_COUNT(times); i++) {
        tl_str s = TL_STR_INIT;
        tl_progress_time(&s, times[i].seconds);
        assert_string_equal(tl_str_text(&s), times[i].text);
        tl_str_deinit(&s);
    }
    for (int64_t i = 0; i < TL_COUNT(counts); i++) {
        tl_str s = TL_STR_INIT;
        tl_progress_count(&s, counts[i].count);
        assert_string_equal(tl_str_text(&s), counts[i].text);
        tl_str_deinit(&s);
    }
}

/* --- afterwards ------------------------------------------------------------------------------- */

/* The number behind a word at the beginning of a line. */
static double number_behind(const char *word)
{
    for (const char *line = out; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, strlen(word)) == 0 && line[strlen(word)] == ' ')
            return atof(line + strlen(word));
    }
    fail_msg("no '%s' in:\n%s", word, out);
    return 0;
}

static void test_eval(void **state)
{
    (void)state;
    train("run", NULL);
    const char *last = strstr(out, "step 60:  accuracy ");
    double told = atof(last + strlen("step 60:  accuracy "));
    run("eval", "--model_dir=run");
    ended(0, "");
    has("run/ckpt-60.safetensors, step 60, in ");
    assert_near(number_behind("accuracy"), told, 6e-5);
    has("\nmistakes, most frequent first:\n  ");
    has(" of class '");
    has("' taken for '");
    // All kinds of them together are the examples that are not accurate.
    double wrong = 0, accuracy = number_behind("accuracy");
    run("eval", "--model_dir=run", "--mistakes=12");
    ended(0, "");
    for (const char *p = strstr(out, "first:\n"); p && *p; p = strchr(p + 1, '\n')) wrong += atof(p + 1);
    assert_near(wrong, 512 * (1 - accuracy), 0.01);
    run("eval", "--model_dir=run", "--checkpoint=best");
    ended(0, "");
    has("run/best/best_ckpt-");
    run("eval", "--model_dir=run", "--checkpoint=run/ckpt-30", "task.validation_data.synthetic_examples=64");
    ended(0, "");
    has("run/ckpt-30.safetensors, step 30, in ");
    assert_near(fmod(number_behind("accuracy") * 64, 1), 0, 1e-3);
}

static void test_eval_refuses(void **state)
{
    (void)state;
    run("eval");
    ended(2, "no run is named: say --model_dir=FOLDER");
    run("eval", "--model_dir=nowhere");
    ended(2, "'nowhere' is no folder of a run: it has no params.yaml");
    train("run", NULL);
    run("eval", "--model_dir=run", "--checkpoint=ckpt-30", "--params_override=task.validation_data.synthetic_examples=64");
    ended(0, "");
    run("eval", "--model_dir=run", "--params_override=task.validation_data.synthetic_exmples=64");
    ended(2, "synthetic_examples");
    run("eval", "--model_dir=run", "--config_file=none.yaml");
    ended(2, "none.yaml");
    run("eval", "--model_dir=run", "--checkpoint=nothing");
    ended(2, "nothing");
    assert_int_equal(remove("run/experiment.txt"), 0);
    run("eval", "--model_dir=run");
    ended(2, "--experiment=NAME must say what was trained");
    run("eval", "--model_dir=run", "--experiment=vision/local");
    ended(0, "");
}

static void damage(const char *path)
{
    char *bytes;
    size_t size;
    assert_ok(tl_file_read(&bytes, &size, path, 1 << 26));
    bytes[size / 2] ^= 1;
    assert_ok(tl_file_write_atomic(path, bytes, size));
    tl_free(bytes);
}

static void test_a_damaged_checkpoint(void **state)
{
    (void)state;
    train("run", NULL);
    damage("run/ckpt-60.safetensors");
    run("eval", "--model_dir=run");
    ended(0, "");
    has("run/ckpt-30.safetensors, step 30, in ");
    run("eval", "--model_dir=run", "--checkpoint=run");
    ended(0, "");
    has("run/ckpt-30.safetensors, step 30, in ");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    has("parameters of step 30\n");
    assert_true(tl_file_exists("run/ckpt-60.safetensors")); // whoever looks changes nothing
    run("eval", "--model_dir=run", "--checkpoint=run/ckpt-60"); // nothing else is meant
    ended(2, "run/ckpt-60.safetensors");
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=next", "task.init_checkpoint=run",
        "trainer.train_steps=1", "tilth.jit=false");
    ended(2, "the latest checkpoint of the folder 'run' (an older one can be named instead)");
    damage("run/ckpt-30.safetensors");
    run("eval", "--model_dir=run");
    ended(2, "no checkpoint in 'run' can be used; the latest: 'run/ckpt-60.safetensors'");
}

/* The cause is told, and not what the training keeps beside the model. */
static void test_a_model_that_does_not_fit(void **state)
{
    (void)state;
    train("run", NULL);
    run("eval", "--model_dir=run", "task.model.backbone.cnn.units=[16]");
    ended(2, " 0 missing, 0 unexpected, ");
    ended(2, "model/head/kernel");
    assert_null(strstr(err, "optimizer"));
}

static void test_predict(void **state)
{
    (void)state;
    train("run", NULL);
    uint8_t pixels[3 * 16 * 16];
    for (int i = 0; i < 3 * 256; i++) pixels[i] = (uint8_t)(128 + 60 * sin(i / 16 + i / 256));
    tl_str png = TL_STR_INIT;
    assert_ok(tl_png_encode(&png, &(tl_png_image){16, 16, 1, pixels}));
    assert_ok(tl_file_write_atomic("one.png", tl_str_text(&png), png.length));
    tl_str_deinit(&png);
    const tl_shape shape = TL_SHAPE(3, 16, 16);
    assert_ok(tl_idx_write("three.idx", TL_U8, &shape, pixels));
    run("predict", "--model_dir=run", "--top=4", "--count=2", "one.png", "three.idx");
    ended(0, "");
    has("one.png: ");
    has("horizontal 0.");
    has("\nthree.idx[0]: ");
    has("\nthree.idx[1]: ");
    assert_null(strstr(out, "three.idx[2]"));
    // The same pixels in both files.
    const char *a = strstr(out, "one.png: ") + 9, *b = strstr(out, "three.idx[0]: ") + 14;
    assert_memory_equal(a, b, strcspn(a, "\n"));
    // Probabilities add up to 1.
    double sum = 0;
    for (const char *p = a; p < a + strcspn(a, "\n"); p++)
        if (p[0] == ' ' && (p[1] == '0' || p[1] == '1') && p[2] == '.') sum += atof(p + 1);
    assert_near(sum, 1, 0.003);
}

/* Where examples may have several classes, none is taken for another, and each has a probability of its own. */
static void test_several_classes(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run", "--progress=lines",
        "tilth.seed=1", "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=4", "trainer.validation_interval=4",
        "trainer.best_checkpoint_eval_metric=globalPR-AUC", "task.train_data.is_multilabel=true");
    ended(0, "");
    run("eval", "--model_dir=run");
    ended(0, "");
    assert_true(number_behind("globalPR-AUC") > 0);
    assert_null(strstr(out, "mistakes"));
    uint8_t pixels[16 * 16] = {0};
    const tl_shape shape = TL_SHAPE(1, 16, 16);
    assert_ok(tl_idx_write("one.idx", TL_U8, &shape, pixels));
    run("predict", "--model_dir=run", "--top=4", "one.idx");
    ended(0, "");
    // After few steps all of them are about as likely as not.
    double sum = 0;
    for (const char *p = strchr(out, ':'); p && *p; p++)
        if (p[0] == ' ' && (p[1] == '0' || p[1] == '1') && p[2] == '.') sum += atof(p + 1);
    assert_true(sum > 1.2 && sum < 3.5);
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=other", "--progress=lines",
        "tilth.seed=1", "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=4", "trainer.validation_interval=4",
        "task.train_data.is_multilabel=true");
    ended(2, "trainer.best_checkpoint_eval_metric must be one of the metrics that evaluations tell");
    ended(2, "globalPR-AUC");
}

static void test_predict_refuses(void **state)
{
    (void)state;
    run("predict", "--model_dir=run");
    ended(2, "no image is named");
    train("run", NULL);
    assert_ok(tl_file_write_atomic("text.png", "no image", 8));
    run("predict", "--model_dir=run", "text.png");
    ended(1, "text.png");
    run("predict", "--model_dir=run", "nowhere.png");
    ended(1, "nowhere.png");
    run("train", "--experiment=mock", "--mode=train", "--model_dir=mock", "trainer.train_steps=2",
        "trainer.optimizer_config.optimizer.type=sgd", "trainer.optimizer_config.learning_rate.type=constant",
        "trainer.optimizer_config.learning_rate.constant.learning_rate=0.1", "trainer.steps_per_loop=2",
        "trainer.summary_interval=2", "tilth.jit=false");
    ended(0, "");
    assert_null(strstr(out, "predict"));
    run("predict", "--model_dir=mock", "text.png");
    ended(2, "this run is of the task 'mock'");
}

static float first_of(const char *file, const char *name)
{
    tl_safetensors *f;
    float v;
    assert_ok(tl_safetensors_open(&f, file));
    const tl_safetensors_entry *e = tl_safetensors_find(f, name);
    if (!e) fail_msg("%s has no '%s'", file, name);
    memcpy(&v, e->data, 4);
    tl_safetensors_free(&f);
    return v;
}

static void test_export(void **state)
{
    (void)state;
    train("run", NULL);
    run("export", "--model_dir=run");
    ended(2, "say --to=FOLDER");
    run("export", "--model_dir=run", "--to=out/model");
    ended(0, "");
    has("out/model/model.safetensors: 9604 parameters of step 60\n");
    assert_true(tl_file_exists("out/model/config.yaml"));
    assert_true(first_of("out/model/model.safetensors", "backbone/conv_1/kernel")
                == first_of("run/ckpt-60.safetensors", "model/backbone/conv_1/kernel"));
    // What was exported can be what another run starts from.
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=again", "--progress=lines",
        "task.init_checkpoint=out/model/model.safetensors", "trainer.train_steps=1", "tilth.jit=false");
    ended(0, "");
}

static void test_averages_are_exported(void **state)
{
    (void)state;
    train("run", "trainer.optimizer_config.ema={average_decay: 0.9}");
    run("export", "--model_dir=run", "--to=out");
    ended(0, "");
    has("9604 averaged parameters of step 60\n");
    float exported = first_of("out/model.safetensors", "head/kernel");
    assert_true(exported == first_of("run/ckpt-60.safetensors", "optimizer/average/head/kernel"));
    assert_true(exported != first_of("run/ckpt-60.safetensors", "model/head/kernel"));
    // And evaluated.
    run("eval", "--model_dir=run");
    ended(0, "");
}

static double number_in(const char *file, const char *key)
{
    char *text, quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    assert_ok(tl_file_read(&text, NULL, file, 1 << 16));
    const char *at = strstr(text, quoted);
    if (!at) fail_msg("%s has no %s: %s", file, key, text);
    double value = atof(at + strlen(quoted));
    tl_free(text);
    return value;
}

/* With averages, the best checkpoint is used as it was when it was the best. */
static void test_the_best_with_averages(void **state)
{
    (void)state;
    char file[64];
    train("run", "trainer.optimizer_config.ema={average_decay: 0.9}");
    run("eval", "--model_dir=run", "--checkpoint=best");
    ended(0, "");
    assert_near(number_behind("accuracy"), number_in("run/best/info.json", "accuracy"), 2e-6);
    assert_near(number_behind("validation_loss"), number_in("run/best/info.json", "validation_loss"), 2e-6);
    const char *told = strstr(out, "run/best/best_ckpt-");
    assert_non_null(told);
    snprintf(file, sizeof file, "%.*s", (int)strcspn(told, ","), told);
    run("export", "--model_dir=run", "--to=out", "--checkpoint=best");
    ended(0, "");
    float exported = first_of("out/model.safetensors", "head/kernel");
    assert_true(exported == first_of(file, "optimizer/average/head/kernel"));
    assert_true(exported != first_of(file, "model/head/kernel"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_for_people),
        cmocka_unit_test_setup_teardown(test_a_bar_and_what_comes_last, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_it_tells_where_and_why_it_stopped, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_what_is_told_is_there_and_can_be_typed, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_a_bar_fits_its_terminal, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_eval, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_eval_refuses, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_a_damaged_checkpoint, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_a_model_that_does_not_fit, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_predict, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_several_classes, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_predict_refuses, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_export, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_averages_are_exported, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_the_best_with_averages, open_test, close_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
