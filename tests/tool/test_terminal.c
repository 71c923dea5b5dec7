/* `tilth train` as people see it. */
#include "tool/tool_lab.h"

#include <tilth/train/writers/progress.h>

static void test_a_bar_and_what_comes_last(void **state)
{
    (void)state;
    train_local("run", NULL);
    has("backbone (cnn)"); // the table
    has("\r\033[K");       // the bar is drawn over
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
        run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run",
            "--progress=lines", "tilth.seed=1", "tilth.threads=1", "tilth.jit=false",
            "trainer.train_steps=300", "trainer.validation_interval=30",
            "tilth.early_stopping={metric: accuracy, patience: 1, min_delta: 1}");
        ended(0, "");
        has("\ndone: step 60 of 300, in ");
        has("\nstopped: accuracy has not become better in 1 evaluation (best: ");
    }
}

static void test_what_is_told_is_there_and_can_be_typed(void **state)
{
    (void)state;
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=sp ace's",
        "--progress=lines", "tilth.jit=false", "trainer.train_steps=2");
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
    run("train", "--experiment=vision/local", "--mode=train_and_eval", "--model_dir=run",
        "--progress=lines", "tilth.jit=false", "trainer.train_steps=2",
        "trainer.validation_summary_subdir=checks", "trainer.best_checkpoint_export_subdir=top");
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
        train_local(folder, NULL);
        width = 100;
        int seen = 0, widest = 0;
        for (const char *p = out, *from = out; *p; p++) {
            if (*p == '\n') from = p + 1;
            if (strncmp(p, "\033[K", 3) == 0) from = p + 3;
            if (*p != '\r') continue;
            int columns = columns_of(from, p);
            if (columns >= widths[i])
                fail_msg("%d columns of %d: %.*s", columns, widths[i], (int)(p - from), from);
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
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "0:00"},         {59.4, "0:59"},    {61, "1:01"},
                 {3599.6, "1:00:00"}, {7384, "2:03:04"}, {NAN, "0:00"}};
    static const struct {
        double count;
        const char *text;
    } counts[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {1234567, "1,234,567"}};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_a_bar_and_what_comes_last),
        TOOL_TEST(test_it_tells_where_and_why_it_stopped),
        TOOL_TEST(test_what_is_told_is_there_and_can_be_typed),
        TOOL_TEST(test_a_bar_fits_its_terminal),
        cmocka_unit_test(test_numbers_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
