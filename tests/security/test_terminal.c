/* Attempts to reach the terminal of whoever looks at a stranger's files: names that hold ESC ] 0 ;
 * (it sets the title), U+009B (it begins what ESC [ begins) and a byte 9B that is no UTF-8. */
#include "tool/past_runs.h"

#include <fcntl.h>
#include <math.h>

#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "base/inner/clean.h"

#define EVIL                                                                                       \
    "e\x1b]0;owned\x07\xc2\x9b"                                                                    \
    "2J\x7f"
#define EVIL_SHOWN "e\\x1b]0;owned\\x07\\u009b2J\\x7f"
#define RAW                                                                                        \
    "r\x9b"                                                                                        \
    "2J"
#define RAW_SHOWN "r\\x9b2J"

static void is_clean(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool control = (*p < 0x20 && *p != '\t' && *p != '\n') || *p == 0x7f
                       || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0);
        bool alone = *p >= 0x80 && *p < 0xa0 && (p == (const unsigned char *)text || p[-1] < 0x80);
        if (control || alone) fail_msg("byte %02x of: %s", *p, text);
    }
}

/* What the command wrote, and what was logged meanwhile. */
static void all_is_clean(void)
{
    is_clean(out);
    is_clean(err);
    is_clean(tl_str_text(&tool_log));
}

/* --- the cleaner ------------------------------------------------------------------------------ */

static void test_what_is_cleaned(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"plain\tand\nlines", "plain\tand\nlines"},
        {"\x1b[31m", "\\x1b[31m"},
        {"\r\b\f\v\x01\x1f", "\\x0d\\x08\\x0c\\x0b\\x01\\x1f"},
        {"\x7f", "\\x7f"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"},
        {"\x9b\x80\xa0\xff", "\\x9b\\x80\xa0\xff"},
        // 9b is part of them
        {"\xe2\x94\x81 \xc3\xa9 \xf0\x9f\x8c\xb1", "\xe2\x94\x81 \xc3\xa9 \xf0\x9f\x8c\xb1"},
        {"\xe2\x9b", "\xe2\\x9b"}, // cut
        {"\xc2", "\xc2"},
        // no line
        {"a\nI1116 12:00:00.000000 1 run.c:1] all is well",
         "a\\x0aI1116 12:00:00.000000 1 run.c:1] all is well"},
        {"a\nI11 6\nI1116", "a\nI11 6\nI1116"},
        // read from the right
        {"\xe2\x80\xaetxt\xe2\x81\xa9\xe2\x80\xa9", "\\u202etxt\\u2069\xe2\x80\xa9"},
        {"\xc0\x9b", "\xc0\\x9b"}, // over-long
        {"", ""},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_str clean = TL_STR_INIT;
        char *printed, place[96];
        size_t size;
        FILE *to = open_memstream(&printed, &size);
        tli_add_clean(&clean, cases[i].text, strlen(cases[i].text));
        tli_print_clean(to, cases[i].text, strlen(cases[i].text));
        fclose(to);
        assert_string_equal(tl_str_text(&clean), cases[i].shown);
        assert_string_equal(printed, cases[i].shown);
        snprintf(place, sizeof place, "%s", cases[i].text);
        tli_clean_in_place(place, strlen(place));
        is_clean(place);
        assert_int_equal(strlen(place), strlen(cases[i].text));
        free(printed);
        tl_str_deinit(&clean);
    }
    tl_str word = TL_STR_INIT;
    tli_add_clean_word(&word, "a\nb\tc");
    assert_string_equal(tl_str_text(&word), "a\\x0ab\\x09c");
    tl_str_deinit(&word);
}

/* --- the log ---------------------------------------------------------------------------------- */

/* Standard error itself, with memory and without. */
static void test_log_lines(void **state)
{
    (void)state;
    char *text;
    int kept = dup(2), file = open("stderr", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(kept >= 0 && file >= 0);
    dup2(file, 2);
    int64_t sink;
    assert_ok(
        tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, tl_log_write_stderr, NULL, NULL}));
    TL_LOG_WARNING("class '%s'", EVIL);
    TL_LOG_WARNING("%01500d '%s'", 0, EVIL);
    TL_LOG_WARNING("class '%s'", RAW);
    tl_alloc_fail_at(1, 1000);
    TL_LOG_WARNING("no memory for '%s'", EVIL);
    tl_alloc_fail_at(0, 0);
    tl_log_sink_remove(sink);
    dup2(kept, 2);
    close(kept);
    close(file);
    assert_ok(tl_file_read(&text, NULL, "stderr", 1 << 20));
    is_clean(text);
    assert_non_null(strstr(text, "class '" EVIL_SHOWN "'\n"));
    assert_non_null(strstr(text, "000 '" EVIL_SHOWN "'\n"));
    assert_non_null(strstr(text, "class '" RAW_SHOWN "'\n"));
    assert_non_null(strstr(text, "no memory for 'e?]0;owned???2J?'\n"));
    tl_free(text);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void write_png(const char *path)
{
    enum { SIDE = 16 };
    uint8_t pixels[SIDE * SIDE];
    tl_str png = TL_STR_INIT;
    for (int i = 0; i < SIDE * SIDE; i++) pixels[i] = (uint8_t)(128 + 90 * sin(i));
    assert_ok(tl_png_encode(&png, &(tl_png_image){SIDE, SIDE, 1, pixels}));
    assert_ok(tl_file_write_atomic(path, tl_str_text(&png), png.length));
    tl_str_deinit(&png);
}

static void train(void)
{
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=run", "--progress=lines",
        "tilth.seed=1", "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=4",
        "task.class_names=[]", "task.validation_data.synthetic_examples=64");
    ended(0, "");
    put_text("run/classes.txt", EVIL "\n" RAW "\nbird\nfish\n");
}

static void test_class_names(void **state)
{
    (void)state;
    train();
    write_png("one.png");
    write_png(EVIL ".png");
    put_text(RAW ".png", "no image");
    run("predict", "--model_dir=run", "--top=4", "one.png", EVIL ".png", RAW ".png");
    ended(1, RAW_SHOWN ".png");
    all_is_clean();
    has(EVIL_SHOWN " 0.");
    has(EVIL_SHOWN ".png: ");
    run("predict", "--model_dir=run", "--json", EVIL ".png");
    ended(0, "");
    all_is_clean();
    has("e\\u001b]0;owned\\u0007\\u009b2J\\u007f");
    run("predict", "--model_dir=run", "--csv", "--top=4", "one.png"); // for programs: what it is
    ended(0, "");
    has(EVIL);
    run("eval", "--model_dir=run");
    ended(0, "");
    all_is_clean();
    run("eval", "--model_dir=run", "--json", "--confusion=json");
    ended(0, "");
    all_is_clean();
}

/* The folder's state file, and the folder's own name. */
static void test_state_file(void **state)
{
    (void)state;
    train();
    put_text("run/checkpoint",
             "model_checkpoint_path: \"" EVIL "\"\nall_model_checkpoint_paths: \"" EVIL "\"\n");
    run("ckpt", "show", "run");
    all_is_clean();
    run("eval", "--model_dir=run");
    all_is_clean();
    assert_int_equal(rename("run", EVIL), 0);
    run("ckpt", "verify", EVIL);
    all_is_clean();
    run("compare", EVIL);
    all_is_clean();
    run("plot", EVIL);
    all_is_clean();
    put_text(EVIL "/params.yaml", "task: {" RAW ": \x1b]0;x\x07}\n");
    run("eval", "--model_dir=" EVIL);
    all_is_clean();
}

static void test_tensor_names(void **state)
{
    (void)state;
    tl_state *s;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put_int(s, "global_step", 1));
    assert_ok(tl_state_put_int(s, "model/" EVIL, 1));
    assert_ok(tl_state_put_text(s, "note", EVIL));
    assert_ok(tl_checkpoint_save("a.safetensors", s, &(tl_checkpoint_info){.numerics = EVIL}));
    tl_state_free(&s);
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put_int(s, "global_step", 2));
    assert_ok(tl_checkpoint_save("b.safetensors", s, NULL));
    tl_state_free(&s);
    run("ckpt", "show", "a.safetensors");
    ended(0, "");
    all_is_clean();
    has("model/" EVIL_SHOWN);
    has("computed with '" EVIL_SHOWN "'");
    run("ckpt", "show", "--json", "a.safetensors");
    ended(0, "");
    all_is_clean();
    run("ckpt", "diff", "a.safetensors", "b.safetensors");
    all_is_clean();
    has("model/" EVIL_SHOWN);
    run("ckpt", "verify", "a.safetensors");
    ended(0, "");
    all_is_clean();
}

static void test_data(void **state)
{
    (void)state;
    assert_ok(tl_mkdirs("images/" EVIL));
    assert_ok(tl_mkdirs("images/two"));
    write_png("images/" EVIL "/one.png");
    write_png("images/two/" RAW ".png");
    run("data", "show", "images");
    ended(0, "");
    all_is_clean();
    has(EVIL_SHOWN);
    assert_ok(tl_mkdirs("unreadable/" RAW)); // no name of a class
    write_png("unreadable/" RAW "/two.png");
    run("data", "show", "unreadable");
    ended(2, RAW_SHOWN);
    all_is_clean();
    run("data", "show", "--json", "images");
    ended(0, "");
    all_is_clean();
    put_text("table.csv", EVIL ",b\n" RAW ",1\n" EVIL ",2\n");
    run("data", "show", "table.csv");
    all_is_clean();
}

/* What was told while a run trained, by whoever wrote the file. */
static void test_curves(void **state)
{
    (void)state;
    past_run("past", 0.1, 8, 0.75);
    past_run("other", 0.2, 8, 0.5);
    add_text("past/metrics.jsonl", "{\"event\": \"train\", \"step\": 40, \"metrics\": "
                                   "{\"e\\u001b]0;x\\u0007\\u009b2J\": 1.5}}\n"
                                   "{\"event\": \"train\", \"step\": 50, \"metrics\": "
                                   "{\"e\\u001b]0;x\\u0007\\u009b2J\": 1.0}}\n");
    run("compare", "past", "other");
    all_is_clean();
    run("compare", "--json", "past", "other");
    all_is_clean();
    run("plot", "past");
    all_is_clean();
    run("plot", "past",
        "--metric=e\x1b]0;x\x07\xc2\x9b"
        "2J");
    all_is_clean();
    has("e\\x1b]0;x\\x07\\u009b2J");
}

/* --- a terminal itself ------------------------------------------------------------------------ */

/* Runs the command with standard output on a terminal; what arrives there. */
static void run_on_terminal(char *text, size_t room, int argc, char *const *argv)
{
    static const tl_main_options options;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    FILE *to = fopen(ptsname(master), "w");
    assert_non_null(to);
    tli_tool tool = {
        .program = "tilth", .options = &options, .out = to, .err = stderr, .width = 60};
    assert_int_equal(tli_tool_main(&tool, argc, argv), 0);
    fflush(to);
    size_t length = 0;
    for (ssize_t got;
         length + 1 < room && (got = read(master, text + length, room - length - 1)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    fclose(to);
    close(master);
}

/* A drawing has colours of its own there; a table with commas is for people there. */
static void test_on_a_terminal(void **state)
{
    (void)state;
    static char text[1 << 16];
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
    past_run("past", 0.1, 8, 0.75);
    past_run(EVIL, 0.2, 8, 0.5);
    char *plot[] = {"tilth", "plot", "--height=6", "--metric=training_loss", "past", EVIL};
    run_on_terminal(text, sizeof text, 6, plot);
    assert_non_null(strstr(text, "\033[34m"));
    assert_non_null(strstr(text, EVIL_SHOWN));
    assert_null(strstr(text, "\x1b]"));
    assert_null(strstr(text, "\xc2\x9b"));
    char *compare[] = {"tilth", "compare", "--csv", "past", EVIL};
    run_on_terminal(text, sizeof text, 5, compare);
    assert_non_null(strstr(text, EVIL_SHOWN));
    assert_null(strstr(text, "\x1b"));
    assert_null(strstr(text, "\xc2\x9b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_cleaned),
        TOOL_TEST(test_log_lines),
        TOOL_TEST(test_class_names),
        TOOL_TEST(test_state_file),
        TOOL_TEST(test_tensor_names),
        TOOL_TEST(test_data),
        TOOL_TEST(test_curves),
        TOOL_TEST(test_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
