/* `tilth plot`: curves as text and as SVG. */
#include "tool/past_runs.h"

#include "tool/plot.h"

static void use_locale(const char *locale)
{
    setenv("LC_ALL", locale, 1);
}

static void test_signs(void **state)
{
    (void)state;
    past_run("runs/a", 0.1, 32, 0.5);
    past_run("runs/b", 0.1, 32, 0.75);
    use_locale("C");
    width = 40;
    run("plot", "runs/a", "runs/b", "--metric=accuracy", "--height=8");
    ended(0, "");
    assert_string_equal(out, "     accuracy\n"
                             "    |ooooooooo\n"
                             "    |         ooooooooooooooooo\n"
                             "    |                          ooooooooo\n"
                             "0.6 +\n"
                             "    |\n"
                             "    |*********\n"
                             "0.4 +         *****************\n"
                             "    |                          *********\n"
                             "    ++----------------+----------------+\n"
                             "     10              20               30\n"
                             "     * a\n"
                             "     o b\n");
}

static void fits(void)
{
    for (const char *line = out, *end; *line; line = end + 1) {
        int wide = 0;
        end = strchr(line, '\n');
        assert_non_null(end);
        for (const char *p = line; p < end; p++) wide += (*p & 0xc0) != 0x80;
        if (wide > width) fail_msg("%d columns: %.*s", wide, (int)(end - line), line);
    }
}

static void test_dots_where_they_can_be_shown(void **state)
{
    (void)state;
    past_run("runs/a", 0.1, 32, 0.5);
    past_run("runs/b", 0.1, 32, 0.75);
    use_locale("C.UTF-8");
    width = 60;
    run("plot", "runs/a", "--metric=training_loss");
    ended(0, "");
    has("a\n");
    has("┤");
    has("\xe2\xa0"); // Braille
    has("━━ train/training_loss\n");
    fits();
    // without colours nobody could tell them apart
    run("plot", "runs/a", "runs/b", "--metric=training_loss");
    has("* a\n");
    has_not("\033");
    fits();
}

static void test_without_a_metric_it_is_the_losses(void **state)
{
    (void)state;
    past_run("runs/a", 0.1, 32, 0.5);
    use_locale("C");
    run("plot", "runs/a");
    ended(0, "");
    has("* train/training_loss\n");
    has("o validation_loss\n");
    has("\nother metrics: accuracy\n");
    run("plot", "runs/a", "--metric=acc");
    ended(2, "--metric: no run has a metric 'acc'");
    run("plot");
    ended(2, "no run is named");
    run("plot", "runs/none");
    ended(1, "there is no such folder");
    assert_ok(tl_mkdirs("early"));
    put_text("early/params.yaml", "a: 1\n");
    run("plot", "early");
    ended(2, "there is nothing to draw");
    run("plot", "runs/a", "runs/none");
    ended(1, "there is no such folder");
    has("validation_loss\n");
}

static void test_svg(void **state)
{
    (void)state;
    past_run("runs/a", 0.1, 32, 0.5);
    past_run("runs/b<&>\"\xff", 0.1, 32, 0.75);
    add_text("runs/a/metrics.jsonl",
             "{\"event\": \"evaluation\", \"step\": 40, \"metrics\": {\"accuracy\": null}}\n"
             "{\"event\": \"evaluation\", \"step\": 50, \"metrics\": {\"accuracy\": 0.25}}\n");
    run("plot", "runs/a", "runs/b<&>\"\xff", "--metric=accuracy", "--svg=curves.svg");
    ended(0, "");
    assert_string_equal(out, "curves.svg: 2 curves\n");
    char *text;
    assert_ok(tl_file_read(&text, NULL, "curves.svg", 1 << 20));
    assert_int_equal(strncmp(text, "<svg xmlns=", 11), 0);
    assert_non_null(strstr(text, "</svg>\n"));
    assert_non_null(strstr(text, ">accuracy</text>"));
    assert_non_null(strstr(text, ">step</text>"));
    assert_non_null(strstr(text, ">b&lt;&amp;&gt;&quot;\xef\xbf\xbd</text>"));
    assert_non_null(strstr(text, "#0072b2"));
    assert_non_null(strstr(text, "#d55e00"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "http://www.w3.org/1999")); // nothing is loaded
    tl_free(text);
    run("plot", "runs/a", "--svg=no/such/folder/a.svg");
    ended(1, "no/such/folder/a.svg");
    assert_ok(tl_mkdirs("folder"));
    run("plot", "runs/a", "--svg=folder");
    ended(1, "folder");
    setenv("HOME", ".", 1);
    run("plot", "runs/a", "--svg=~/home.svg");
    ended(0, "");
    assert_true(tl_file_exists("home.svg"));
    run("plot", "runs/a", "--svg=");
    ended(2, "--svg: the name of a file is missing");
}

/* However low the drawing and however close the values: ticks are told apart. */
static void test_labels(void **state)
{
    (void)state;
    static const struct {
        double least, greatest;
        int ticks;
        bool whole;
    } cases[] = {
        {-5.0000001, -5, 6, false},
        {-5.0000001, -5, 1, false},
        {0.31, 0.79, 1, false},
        {1e9, 1e9 + 1, 6, false},
        {0, 1, 1, true},
        {99999990, 100000000, 9, true},
        {0.001, 0.002, 200, false},
        {1e-7, 2e-7, 3, false},
    };
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tli_axis a = tli_axis_of(cases[i].least, cases[i].greatest, cases[i].ticks, cases[i].whole);
        char before[32] = "", label[32];
        if (a.count < 2) fail_msg("case %d: %d ticks", (int)i, a.count);
        for (int k = 0; k < a.count; k++) {
            tli_axis_label(label, sizeof label, &a, tli_axis_tick(&a, k));
            assert_string_not_equal(label, before);
            strcpy(before, label);
        }
    }
    past_run("runs/a", 0.1, 32, 0.5);
    use_locale("C");
    run("plot", "runs/a", "--metric=accuracy", "--height=5");
    ended(0, "");
    has("\n0.4 +");
    has("\n0.5 +");
}

/* One point, one value, no step, the greatest numbers there are, and more points than there are
 * dots. */
static void test_strange_curves(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"event\": \"train\", \"step\": 0, \"metrics\": {\"x\": 0}}\n",
        "{\"event\": \"train\", \"step\": 7, \"metrics\": {\"x\": -3.5}}\n",
        "{\"event\": \"train\", \"step\": 1, \"metrics\": {\"x\": 5}}\n{\"event\": \"train\", "
        "\"step\": 9, \"metrics\": {\"x\": 5}}\n",
        "{\"event\": \"train\", \"step\": 1, \"metrics\": {\"x\": 1.7e308}}\n{\"event\": "
        "\"train\", \"step\": 9223372036854775807, \"metrics\": {\"x\": -1.7e308}}\n",
        "{\"event\": \"train\", \"step\": 1, \"metrics\": {\"x\": 5e-324}}\n{\"event\": \"train\", "
        "\"step\": 2, \"metrics\": {\"x\": 1e-323}}\n",
        "{\"event\": \"train\", \"step\": 1, \"metrics\": {\"x\": 1e9}}\n{\"event\": \"train\", "
        "\"step\": 2, \"metrics\": {\"x\": 1000000001}}\n",
    };
    static const char *const locales[] = {"C", "C.UTF-8"};
    assert_ok(tl_mkdirs("run"));
    for (size_t i = 0; i < TL_COUNT(texts); i++) {
        put_text("run/metrics.jsonl", texts[i]);
        run("plot", "run", "--svg=x.svg");
        ended(0, "");
        for (int k = 0; k < 2; k++) {
            use_locale(locales[k]);
            for (width = 40; width <= 120; width += 40) {
                run("plot", "run");
                ended(0, "");
                fits();
            }
        }
    }
    tl_str many = TL_STR_INIT;
    for (int i = 0; i < 5000; i++)
        tl_str_addf(&many, "{\"event\": \"train\", \"step\": %d, \"metrics\": {\"x\": %d}}\n", i,
                    i * 37 % 101);
    put_text("run/metrics.jsonl", tl_str_text(&many));
    tl_str_deinit(&many);
    width = 80;
    run("plot", "run", "--height=200");
    ended(0, "");
    fits();
    run("plot", "run", "--svg=x.svg");
    ended(0, "");
    tl_file_info info;
    assert_ok(tl_file_stat(&info, "x.svg"));
    assert_true(info.size < 100000); // not a line for each
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_signs),
        TOOL_TEST(test_dots_where_they_can_be_shown),
        TOOL_TEST(test_without_a_metric_it_is_the_losses),
        TOOL_TEST(test_svg),
        TOOL_TEST(test_labels),
        TOOL_TEST(test_strange_curves),
    };
    return cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
