/* Drawing: which pixels boxes, labels, masks and classes change, and which they do not; batches,
 * and their way into logs. */
#include "core/lab.h"

#include <stdlib.h>

#include <tilth/data/draw.h>

enum { HEIGHT = 90, WIDTH = 120 };

static uint8_t memory[HEIGHT][WIDTH][3];

static tl_pixels blank(uint8_t value)
{
    memset(memory, value, sizeof memory);
    return tl_pixels_new(TL_U8, HEIGHT, WIDTH, 3, memory);
}

static bool has_color(int64_t y, int64_t x, tl_color c)
{
    const uint8_t *p = memory[y][x];
    return p[0] == c.red && p[1] == c.green && p[2] == c.blue;
}

static bool is_frame(int64_t y, int64_t x, int64_t top, int64_t left, int64_t bottom, int64_t right)
{
    bool outer = y >= top - 2 && y < bottom + 2 && x >= left - 2 && x < right + 2;
    bool inner = y >= top + 2 && y < bottom - 2 && x >= left + 2 && x < right - 2;
    return outer && !inner;
}

static void frames(void **state)
{
    (void)state;
    static const struct {
        double box[4];
        int64_t top, left, bottom, right;
    } cases[] = {
        {{20, 30, 60, 100}, 20, 30, 60, 100},
        {{20.4, 29.6, 59.6, 100.4}, 20, 30, 60, 100}, // to the nearest edge
        {{-1, -5, 200, 119}, -1, -4, 94, 119},        // beyond the picture
        {{-1e300, -INFINITY, 1e300, INFINITY}, -4, -4, 94, 124},
        {{10, 10, 10, 10}, 10, 10, 10, 10}, // of no size: a dot of 4 x 4
        {{NAN, 40, 50, NAN}, -4, 40, 50, -4},
    };
    const tl_color red = {200, 10, 20}, grey = {7, 7, 7};
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tl_pixels p = blank(7);
        tl_draw_box(&p, cases[i].box, red, NULL);
        bool upside = cases[i].right < cases[i].left; // nothing is promised but that memory is kept
        for (int64_t y = 0; !upside && y < HEIGHT; y++)
            for (int64_t x = 0; x < WIDTH; x++) {
                bool frame =
                    is_frame(y, x, cases[i].top, cases[i].left, cases[i].bottom, cases[i].right);
                if (!has_color(y, x, frame ? red : grey))
                    fail_msg("case %zu: pixel %d, %d", i, (int)y, (int)x);
            }
    }
}

// A window of a larger picture: what is around it stays.
static void windows(void **state)
{
    (void)state;
    tl_pixels all = blank(7), part = tl_pixels_crop(&all, (tl_window){40, 30, 20, 10});
    tl_draw_box(&part, (double[]){-3, -3, 12, 30}, (tl_color){1, 2, 3}, "a long text: 99%");
    tl_draw_text(&part, -4, -9, "text", (tl_color){1, 2, 3}, 3);
    for (int64_t y = 0; y < HEIGHT; y++)
        for (int64_t x = 0; x < WIDTH; x++)
            if (y < 30 || y >= 40 || x < 40 || x >= 60)
                assert_true(has_color(y, x, (tl_color){7, 7, 7}));
}

static void assert_dots(int64_t y, int64_t x, int64_t scale, const char *const *rows, int64_t count)
{
    for (int64_t r = 0; r < count * scale; r++)
        for (int64_t c = 0; c < (int64_t)strlen(rows[0]) * scale; c++)
            if ((memory[y + r][x + c][0] == 255) != (rows[r / scale][c / scale] == '#'))
                fail_msg("dot %d, %d", (int)(r / scale), (int)(c / scale));
}

static void texts(void **state)
{
    (void)state;
    static const char *const letters[] = {
        "##....#####.......", "##..#.....#.......", "...#.....#...####.",
        "..#.....#...#...#.", ".#......#...#...#.", "#..##..#....#...#.",
        "...##..#.....####.", "................#.", ".............###..",
    };
    int64_t height, width;
    tl_draw_text_size(&height, &width, "%7g", 2);
    assert_true(height == 18 && width == 34);
    tl_draw_text_size(&height, &width, "\xc3\xa4\xff", 1); // a letter, and a byte that is none
    assert_true(height == 9 && width == 11);
    tl_draw_text_size(&height, &width, "", 1);
    assert_int_equal(width, 0);
    for (int64_t scale = 1; scale <= 2; scale++) {
        tl_pixels p = blank(0);
        tl_draw_text(&p, 5, 7, "%7g", (tl_color){255, 255, 255}, scale);
        assert_dots(5, 7, scale, letters, 9);
        int64_t lit = 0, drawn = 0;
        for (int64_t i = 0; i < HEIGHT * WIDTH; i++) lit += memory[i / WIDTH][i % WIDTH][0] != 0;
        for (int i = 0; i < 9; i++)
            for (const char *c = letters[i]; *c; c++) drawn += *c == '#';
        assert_int_equal(lit, drawn * scale * scale); // and nothing beside them
    }
    // All letters differ, and all but the blank have dots.
    uint8_t seen[96][9 * 5];
    for (int c = 32; c < 128; c++) {
        tl_pixels p = blank(0);
        tl_draw_text(&p, 0, 0, (char[]){(char)c, 0}, (tl_color){255, 255, 255}, 1);
        for (int i = 0; i < 45; i++) seen[c - 32][i] = memory[i / 5][i % 5][0];
        for (int other = 0; other < c - 32; other++)
            assert_memory_not_equal(seen[other], seen[c - 32], 45);
    }
}

static void labels(void **state)
{
    (void)state;
    tl_color dark = {0, 0, 120}, bright = {255, 220, 0};
    tl_pixels p = blank(7);
    // Above the frame: 9 rows of letters and 2 + 2 around them.
    tl_draw_box(&p, (double[]){40, 30, 80, 100}, dark, "x");
    assert_true(has_color(40 - 2 - 13, 28, dark)
                && has_color(40 - 2 - 14, 28, (tl_color){7, 7, 7}));
    assert_true(has_color(30, 28 + 8, dark) && has_color(30, 28 + 9, (tl_color){7, 7, 7}));
    int64_t white = 0, black = 0;
    for (int64_t i = 0; i < HEIGHT * WIDTH; i++)
        white += has_color(i / WIDTH, i % WIDTH, (tl_color){255, 255, 255});
    assert_int_equal(white, 9); // the dots of an x
    p = blank(7);
    tl_draw_box(&p, (double[]){4, 100, 80, 119}, bright, "xx"); // no room above, nor to the right
    assert_true(has_color(2, WIDTH - 15, bright) && has_color(14, WIDTH - 15, bright));
    for (int64_t i = 0; i < HEIGHT * WIDTH; i++)
        black += has_color(i / WIDTH, i % WIDTH, (tl_color){0, 0, 0});
    assert_int_equal(black, 18);
}

static void areas(void **state)
{
    (void)state;
    static uint8_t mask[HEIGHT * WIDTH];
    tl_pixels p = blank(100);
    mask[WIDTH + 3] = 1;
    mask[WIDTH + 4] = 255;
    tl_draw_mask(&p, mask, (tl_color){200, 0, 101}, 0.4);
    assert_true(has_color(1, 3, (tl_color){140, 60, 100}));
    assert_true(has_color(1, 4, (tl_color){140, 60, 100}));
    assert_true(has_color(1, 5, (tl_color){100, 100, 100}));
    p = blank(100);
    mask[0] = 3;
    tl_draw_classes(&p, mask, 255, 1);
    assert_true(has_color(0, 0, tl_draw_color(3)) && has_color(1, 3, tl_draw_color(1)));
    assert_true(has_color(0, 1, (tl_color){128, 128, 128}));
    assert_true(has_color(1, 4, (tl_color){100, 100, 100})); // not known
}

// Any two of the first 24 classes differ by far more than an eye needs.
static void colors(void **state)
{
    (void)state;
    for (int a = 0; a < 24; a++)
        for (int b = 0; b < a; b++) {
            tl_color x = tl_draw_color(a), y = tl_draw_color(b);
            int off = abs(x.red - y.red) + abs(x.green - y.green) + abs(x.blue - y.blue);
            if (off < 50) fail_msg("classes %d and %d differ by %d", a, b, off);
        }
    tl_color negative = tl_draw_color(-5), many = tl_draw_color(INT64_MAX);
    assert_true(negative.red == 128 && (many.red | many.green | many.blue));
}

/* --- batches ---------------------------------------------------------------------------------- */

static void detections(void **state)
{
    (void)state;
    tl_engine *e = open_engine();
    static double grey[2 * 40 * 50];
    for (size_t i = 0; i < TL_COUNT(grey); i++) grey[i] = 0.5;
    tl_tensor *images = tensor_of(e, TL_F32, TL_SHAPE(2, 40, 50, 1), grey), *pictures, *wrong;
    tl_tensor *boxes =
        tensor_of(e, TL_F32, TL_SHAPE(2, 2, 4),
                  (const double[]){20, 10, 35, 45, 25, 5, 30, 30, 20, 10, 35, 45, 0, 0, 10, 10});
    tl_tensor *classes = tensor_of(e, TL_I32, TL_SHAPE(2, 2), (const double[]){1, 2, 3, 4});
    tl_tensor *scores = tensor_of(e, TL_F32, TL_SHAPE(2, 2), (const double[]){.9, .21, .2, .1});
    const float mean[3] = {10, 20, 300}, deviation[3] = {100, 20, 10};
    tl_draw_batch_args args = {.mean = mean, .deviation = deviation};
    assert_ok(tl_draw_detections(&pictures, images, boxes, classes, scores, &args));
    assert_true(pictures->shape.dims[0] == 2 && pictures->shape.dims[3] == 3);
    tl_lease l;
    assert_ok(tl_lease_read(&l, pictures));
    const uint8_t(*at)[50][3] = l.data;
    tl_color one = tl_draw_color(1), two = tl_draw_color(2);
    assert_true(at[39][0][0] == 60 && at[39][0][1] == 30 && at[39][0][2] == 255); // cut to a byte
    assert_memory_equal(at[20][44], &one, 3);
    assert_memory_equal(at[30][20], &two, 3);
    assert_memory_equal(at[27][10], &one, 3); // the better one is above
    // In the second image nothing is above 0.2.
    for (int i = 0; i < 40 * 50; i++) assert_memory_equal(at[40][i], at[39][0], 3);
    tl_lease_drop(&l);
    tl_tensor_free(&pictures);
    args = (tl_draw_batch_args){.boxes = 1, .pictures = 1, .score = TL_SET(0.95)};
    assert_ok(tl_draw_detections(&pictures, images, boxes, classes, scores, &args));
    assert_int_equal(pictures->shape.dims[0], 1);
    assert_ok(tl_lease_read(&l, pictures));
    at = l.data;
    for (int i = 1; i < 40 * 50; i++) assert_memory_equal(at[0][i], at[0][0], 3);
    assert_int_equal(at[0][0][0], (int)(0.5 * 0.229 * 255 + 0.485 * 255));
    tl_lease_drop(&l);
    tl_logs *logs;
    tl_logs_entry entry;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_draw_log(logs, "image/validation_outputs", pictures));
    assert_true(tl_logs_find(&entry, logs, "image/validation_outputs/0"));
    assert_true(entry.kind == TL_LOGS_TENSOR && entry.tensor->shape.rank == 4);
    assert_int_equal(tl_logs_count(logs), 1);
    tl_logs_free(&logs);
    tl_tensor_free(&pictures);
    assert_fails(tl_draw_detections(&wrong, images, classes, boxes, scores, &args), TL_EINVAL,
                 "detections to be drawn are boxes [batch, places, 4]");
    assert_fails(
        tl_draw_detections(&wrong, boxes, boxes, classes, scores, &args), TL_EINVAL,
        "images must be [batch, height, width, 1 or 3] to be drawn on, not float32[2, 2, ");
    args.mean = mean;
    assert_fails(tl_draw_detections(&wrong, images, boxes, classes, scores, &args), TL_EINVAL,
                 "a mean and a deviation, or neither");
    assert_null(wrong);
    tl_tensor_free(&images);
    tl_tensor_free(&boxes);
    tl_tensor_free(&classes);
    tl_tensor_free(&scores);
    close_engine(&e);
}

static void segmentations(void **state)
{
    (void)state;
    tl_engine *e = open_engine();
    static const double white[4 * 6 * 3] = {0};
    tl_tensor *images = tensor_of(e, TL_U8, TL_SHAPE(1, 4, 6, 3), white), *pictures;
    // Classes 1 0 2, and 0 2 2 below them.
    tl_tensor *logits = tensor_of(e, TL_F32, TL_SHAPE(1, 2, 3, 3),
                                  (const double[]){0, 1, 0, 5, 1, 2, -3, -2, -1, //
                                                   9, 9, 9, 0, 0, 1, 0, 0, 7});
    static const int wanted[4][6] = {
        {1, 1, 0, 0, 2, 2}, {1, 1, 0, 0, 2, 2}, {0, 0, 2, 2, 2, 2}, {0, 0, 2, 2, 2, 2}};
    assert_ok(tl_draw_segmentation(&pictures, images, logits, &(tl_draw_batch_args){0}));
    tl_lease l;
    assert_ok(tl_lease_read(&l, pictures));
    const uint8_t *at = l.data;
    for (int i = 0; i < 24; i++)
        assert_int_equal(at[3 * i], (int)(0.4 * tl_draw_color(wanted[i / 6][i % 6]).red + 0.5));
    tl_lease_drop(&l);
    tl_tensor_free(&pictures);
    tl_tensor *two = tensor_of(e, TL_F32, TL_SHAPE(2, 1, 1, 3), NULL);
    assert_fails(tl_draw_segmentation(&pictures, images, two, &(tl_draw_batch_args){0}), TL_EINVAL,
                 "of 1 images and at most 256 classes, not float32[2, 1, 1, 3]");
    tl_tensor_free(&two);
    tl_tensor_free(&images);
    tl_tensor_free(&logits);
    close_engine(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames),     cmocka_unit_test(windows),       cmocka_unit_test(texts),
        cmocka_unit_test(labels),     cmocka_unit_test(areas),         cmocka_unit_test(colors),
        cmocka_unit_test(detections), cmocka_unit_test(segmentations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
