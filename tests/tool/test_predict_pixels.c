/* `tilth predict` of a model of segmentation: the class of each pixel, told and drawn; and what
 * drawn pictures are called. */
#include "tool/tool_lab.h"

#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <tilth/base/alloc.h>
#include <tilth/builtin/predictor.h>
#include <tilth/data/draw.h>
#include <tilth/io/image/png.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>
#include <tilth/ops/create.h>
#include <tilth/ops/pool.h>
#include <tilth/zoo/segmentation.h>
#include <tilth/zoo/segmentation_inputs.h>

enum { HEIGHT = 60, WIDTH = 130, CLASSES = 6 };

static void make_picture(tl_str *png)
{
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    for (int i = 0; i < HEIGHT * WIDTH * 3; i++)
        pixels[i] = (uint8_t)(i / 3 % WIDTH / 13 * 25 * (i % 3) + i / WIDTH / 30 * 20);
    assert_ok(tl_png_encode(png, &(tl_png_image){WIDTH, HEIGHT, 3, pixels}));
}

static void write_picture(const char *path)
{
    tl_str png = TL_STR_INIT;
    make_picture(&png);
    assert_ok(tl_file_write_atomic(path, tl_str_text(&png), png.length));
    tl_str_deinit(&png);
}

/* Parts of pictures are trained on, and evaluations see all of them. It learns nothing: what it
 * began with takes pixels for several classes. */
static void train(void)
{
    run("train", "--experiment=segmentation/local", "--mode=train", "--model_dir=run",
        "--progress=lines", "tilth.seed=3", "tilth.threads=1", "tilth.jit=false",
        "trainer.train_steps=2", "trainer.steps_per_loop=2", "task.train_data.synthetic_examples=4",
        "task.train_data.global_batch_size=2", "task.train_data.crop_size=[16,16]",
        "task.train_data.output_size=[32,48]", "task.validation_data.output_size=[32,48]",
        "task.model.input_size=[null,null,3]",
        "trainer.optimizer_config.warmup.linear.warmup_steps=1",
        "trainer.optimizer_config.learning_rate.cosine.initial_learning_rate=0.000001");
    ended(0, "");
}

static tl_png_image read_png(const char *path, int64_t channels)
{
    char *file;
    size_t size;
    tl_png_image image;
    assert_ok(tl_file_read(&file, &size, path, 1 << 20));
    assert_ok(tl_png_decode(&image, file, size, channels, 1 << 20));
    assert_int_equal(image.height, HEIGHT);
    assert_int_equal(image.width, WIDTH);
    tl_free(file);
    return image;
}

/* --- what is told ----------------------------------------------------------------------------- */

/* Classes come by their shares, and the map has as many pixels of each. */
static void check_told(const json_t *told, const tl_png_image *map)
{
    int64_t all = 0, last = HEIGHT * WIDTH;
    const json_t *classes = json_object_get(told, "classes");
    assert_int_equal(json_integer_value(json_object_get(told, "height")), HEIGHT);
    assert_int_equal(json_integer_value(json_object_get(told, "width")), WIDTH);
    assert_true(json_array_size(classes) > 1); // or nothing below is tested
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const json_t *c = json_array_get(classes, i);
        const int64_t id = json_integer_value(json_object_get(c, "class_id"));
        const int64_t pixels = json_integer_value(json_object_get(c, "pixels"));
        int64_t count = 0;
        for (int k = 0; k < HEIGHT * WIDTH; k++) count += map->pixels[k] == id;
        assert_in_range(id, 0, CLASSES - 1);
        assert_int_equal(pixels, count);
        assert_in_range(pixels, 1, last);
        assert_near(json_number_value(json_object_get(c, "share")),
                    (double)pixels / (HEIGHT * WIDTH), 1e-6);
        assert_non_null(strstr("background circle square triangle cross ring",
                               json_string_value(json_object_get(c, "class"))));
        last = pixels;
        all += pixels;
    }
    assert_int_equal(all, HEIGHT * WIDTH);
}

/* Each pixel has the colour of its class upon it. */
static void check_drawn(const tl_png_image *drawn, const tl_png_image *map)
{
    tl_png_image plain = read_png("one.png", 3);
    for (int i = 0; i < HEIGHT * WIDTH; i++) {
        const tl_color c = tl_draw_color(map->pixels[i]);
        const uint8_t over[3] = {c.red, c.green, c.blue};
        for (int k = 0; k < 3; k++)
            assert_near(drawn->pixels[3 * i + k],
                        plain.pixels[3 * i + k] * (1 - TL_DRAW_ALPHA) + over[k] * TL_DRAW_ALPHA, 1);
    }
    tl_free(plain.pixels);
}

static void test_pixels_are_told_and_drawn(void **state)
{
    (void)state;
    train();
    write_picture("one.png");
    put_text("two.png", "no picture");
    run("predict", "--model_dir=run", "--json", "--pictures=drawn", "one.png", "two.png");
    ended(1, "two.png");
    json_t *told = json_loads(out, 0, NULL);
    assert_non_null(told);
    assert_string_equal(json_string_value(json_object_get(told, "file")), "one.png");
    assert_string_equal(json_string_value(json_object_get(told, "picture")), "drawn/one.png.png");
    assert_string_equal(json_string_value(json_object_get(told, "labels")),
                        "drawn/one.png.labels.png");
    tl_png_image map = read_png("drawn/one.png.labels.png", 0);
    assert_int_equal(map.channels, 1);
    tl_png_image drawn = read_png("drawn/one.png.png", 0);
    check_told(told, &map);
    check_drawn(&drawn, &map);
    assert_false(tl_file_exists("drawn/two.png.png"));
    json_decref(told);
    tl_free(map.pixels);
    tl_free(drawn.pixels);

    run("predict", "--model_dir=run", "--csv", "one.png");
    went_well();
    has("file,class,class_id,share,pixels\none.png,");
    run("predict", "--model_dir=run", "one.png");
    went_well();
    has("one.png: ");
}

/* --- as the model says it --------------------------------------------------------------------- */

/* The model's logits, enlarged by the op that losses use, and cut. */
static int64_t differing(const tl_predictor *p, const char *file, const uint8_t *pixels)
{
    const tl_finished *f = tl_predictor_finished(p);
    const tl_task_config *task = f->params->task.value;
    const tl_segmentation_data_config *data = (const void *)task->validation_data;
    float image[32 * 48 * 3], info[8];
    char *bytes;
    size_t size;
    tl_ctx *c;
    assert_ok(tl_file_read(&bytes, &size, file, 1 << 20));
    assert_ok(tl_segmentation_prepare(image, info, data, bytes, size, false));
    assert_ok(tl_ctx_new(&c, tl_strategy_engine(f->strategy)));
    tl_tensor *x = tl_from(c, TL_F32, TL_SHAPE(1, 32, 48, 3), image);
    const int64_t rows = (int64_t)ceilf(info[2] / info[4]),
                  columns = (int64_t)ceilf(info[3] / info[5]);
    tl_tensor *y =
        tl_resize(c, tl_call(c, f->trainer->model, x), rows, columns, .method = TL_BILINEAR);
    assert_ok(tl_ctx_status(c));
    double *logits = tl_arena_array(lab_arena, rows * columns * CLASSES, sizeof *logits);
    assert_non_null(logits);
    assert_ok(tl_tensor_get_doubles(y, logits, rows * columns * CLASSES));
    int64_t wrong = 0;
    for (int64_t i = 0; i < HEIGHT * WIDTH; i++) {
        const double *at = logits + (i / WIDTH * columns + i % WIDTH) * CLASSES;
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            if (at[k] > at[best]) best = k;
        wrong += best != pixels[i];
    }
    tl_ctx_free(&c);
    tl_free(bytes);
    return wrong;
}

static void test_the_model_says_so(void **state)
{
    (void)state;
    tl_predictor *p;
    tl_predictions *answers;
    train();
    write_picture("one.png");
    assert_ok(tl_predictor_open(&p, NULL, "run", NULL));
    assert_int_equal(tl_predictor_form(p).pixels, CLASSES);
    const tl_query queries[] = {{.file = "one.png"}, {.file = "none.png"}};
    assert_ok(tl_predictor_run(&answers, p, queries, 2));
    const tl_prediction *a = &answers->items[0];
    assert_int_equal(a->status, TL_OK);
    assert_int_equal(a->count, CLASSES);
    assert_int_equal(a->height, HEIGHT);
    assert_int_equal(a->width, WIDTH);
    assert_true(a->top_count > 1 && a->top[0].probability >= a->top[1].probability);
    assert_near(a->top[0].probability, (double)a->values[a->top[0].class_id], 0);
    // Two ways to add numbers differ where two classes are as likely.
    assert_true(differing(p, "one.png", a->pixels) <= HEIGHT * WIDTH / 1000);
    assert_true(answers->items[1].status != TL_OK);
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
}

/* --- names ------------------------------------------------------------------------------------ */

static void drawn_as(const char *path)
{
    if (!tl_file_exists(path)) fail_msg("there is no '%s'", path);
}

static void test_no_picture_takes_anothers_place(void **state)
{
    (void)state;
    train();
    assert_ok(tl_mkdirs("x/deep"));
    write_picture("x/a.png");
    write_picture("x/deep/a.png");
    write_picture("x_a.png");
    write_picture("x_a.png.labels");
    run("predict", "--model_dir=run", "--pictures=drawn", "x", "x_a.png", "x_a.png.labels",
        "./x//a.png", "x/deep/../a.png");
    went_well();
    drawn_as("drawn/x/a.png.png");
    drawn_as("drawn/x/a.png.labels.png");
    drawn_as("drawn/x/deep/a.png.png");
    drawn_as("drawn/x_a.png.png");
    drawn_as("drawn/x_a.png.labels.png");
    drawn_as("drawn/x_a.png.labels-2.png"); // the first is a map of the other
    drawn_as("drawn/x/a.png-2.png");
    drawn_as("drawn/x/a.png-2.labels.png");
    drawn_as("drawn/x/deep/a.png-2.png");
    logged("several pictures are called 'x/a.png'");

    // The same call again writes the same files.
    run("predict", "--model_dir=run", "--pictures=drawn", "x", "x_a.png");
    went_well();
    assert_false(tl_file_exists("drawn/x/a.png-3.png"));
}

static void test_what_is_read_is_not_replaced(void **state)
{
    (void)state;
    train();
    assert_ok(tl_mkdirs("x"));
    write_picture("x/a.png");
    write_picture("x/a.png.png");
    run("predict", "--model_dir=run", "--pictures=x", "x/a.png", "x/a.png.png");
    ended(1, "'x/a.png' lies in --pictures=x");
    run("predict", "--model_dir=run", "--pictures=.", "x");
    ended(1, "'x' lies in --pictures=.");
    run("predict", "--model_dir=run", "--pictures=x/drawn", "x");
    went_well();
    run("predict", "--model_dir=run", "--pictures=x/drawn", "x");
    went_well();
    logged("'x/drawn' is skipped: --pictures draws into it");
    has_not("drawn");
    assert_false(tl_dir_exists("x/drawn/x/drawn"));
    tl_png_image plain = read_png("x/a.png.png", 3);
    tl_free(plain.pixels);
}

static void write_named(const char *path, const char *const *names, int64_t count)
{
    tl_tfrecord_writer *w;
    tl_str png = TL_STR_INIT;
    make_picture(&png);
    const tl_bytes image = {png.data, png.length};
    assert_ok(tl_tfrecord_writer_begin(&w, path, NULL));
    for (int64_t i = 0; i < count; i++) {
        tl_str example = TL_STR_INIT;
        tl_example_writer e = tl_example_begin(&example);
        tl_example_add_bytes(&e, "image/encoded", &image, 1);
        tl_example_add_text(&e, "image/filename", names[i]);
        assert_ok(tl_example_end(&e));
        assert_ok(tl_tfrecord_write(w, example.data, example.length));
        tl_str_deinit(&example);
    }
    assert_ok(tl_tfrecord_writer_commit(&w));
    tl_str_deinit(&png);
}

/* Records may call their pictures anything. */
static void test_names_of_strangers(void **state)
{
    (void)state;
    char longest[700], deep[300] = "", wanted[300];
    struct stat info;
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (int i = 0; i < 70; i++) strcat(deep, "d/");
    const char *const names[] = {"../../out",    "/etc/passwd", "..",    "link/a", "lead",
                                 "a\x1b[31mb\n", longest,       longest, deep,     "plain"};
    train();
    assert_ok(tl_mkdirs("drawn"));
    assert_ok(tl_mkdirs("elsewhere"));
    put_text("mine.txt", "mine");
    assert_int_equal(symlink("../elsewhere", "drawn/link"), 0);
    assert_int_equal(symlink("../mine.txt", "drawn/lead.png"), 0);
    write_named("all.tfrecord", names, TL_COUNT(names));
    run("predict", "--model_dir=run", "--pictures=drawn", "all.tfrecord");
    ended(1, "link"); // refused, with its name
    text_has(err, "more than 64 folders");
    text_has(err, "2 could not be read (see above); 10 could");
    drawn_as("drawn/out.png");
    drawn_as("drawn/etc/passwd.png");
    drawn_as("drawn/picture.png");
    drawn_as("drawn/a_[31mb_.png");
    drawn_as("drawn/plain.labels.png");
    snprintf(wanted, sizeof wanted, "drawn/%.200s.labels.png", longest);
    drawn_as(wanted);
    snprintf(wanted, sizeof wanted, "drawn/%.200s-2.png", longest);
    drawn_as(wanted);
    assert_false(tl_file_exists("elsewhere/a.png"));
    assert_false(tl_file_exists("../out.png"));
    assert_int_equal(lstat("drawn/lead.png", &info), 0); // the link is replaced
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(stat("mine.txt", &info), 0);
    assert_int_equal(info.st_size, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_pixels_are_told_and_drawn),
        TOOL_TEST(test_the_model_says_so),
        TOOL_TEST(test_no_picture_takes_anothers_place),
        TOOL_TEST(test_what_is_read_is_not_replaced),
        TOOL_TEST(test_names_of_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
