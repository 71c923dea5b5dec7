/* From logits to the class of each pixel of a picture as it was: against Model Garden's exported
 * models (tests/golden/pixel_classes.py). */
#include "zoo/inputs_lab.h"

#include <tilth/zoo/segmentation_inputs.h>

#include "nn/golden_file.h"
#include "zoo/vision/pixel_view.h"

static const tl_segmentation_data_config *parse(const char *yaml)
{
    const void *config;
    assert_ok(data_parse(&config, &tl_segmentation_data_config_desc, yaml));
    return config;
}

/* What `logits` say of a picture of this size. */
static uint8_t *classes_of(const tl_segmentation_data_config *data, const golden *logits,
                           int64_t height, int64_t width)
{
    tl_segmentation_way_back back;
    assert_ok(tl_segmentation_look_back(&back, data, height, width));
    const int64_t *d = logits->shape.dims;
    float *numbers = tl_arena_array(lab_arena, d[0] * d[1] * d[2], sizeof *numbers);
    float *line = tl_arena_array(lab_arena, d[1] * d[2], sizeof *line);
    uint8_t *out = tl_arena_alloc(lab_arena, (size_t)(height * width));
    assert_true(numbers && line && out);
    memcpy(numbers, logits->values, (size_t)(d[0] * d[1] * d[2]) * sizeof *numbers);
    const tli_pixel_view v = {.logits = numbers,
                              .rows = d[0],
                              .columns = d[1],
                              .classes = d[2],
                              .height = back.height,
                              .width = back.width,
                              .top = back.top,
                              .left = back.left};
    for (int64_t y = 0; y < height; y++) {
        tli_pixel_line(line, &v, y);
        for (int64_t x = 0; x < width; x++)
            out[y * width + x] = (uint8_t)tli_pixel_class(&v, line, x);
    }
    return out;
}

static void check(const golden *g, const char *how, const tl_segmentation_data_config *data)
{
    long number, height, width;
    char word[16];
    if (sscanf(g->name, "%ld/%ldx%ld/%15s", &number, &height, &width, word) != 4) return;
    if (strcmp(word, how) != 0) return;
    const uint8_t *found = classes_of(data, golden_peek("logits/%ld", number), height, width);
    for (long i = 0; i < height * width; i++)
        if (found[i] != (uint8_t)g->values[i])
            fail_msg("%s: pixel %ld, %ld is %d, not %d", g->name, i / width, i % width, found[i],
                     g->values[i]);
}

static void test_classes_are_model_gardens(void **state)
{
    (void)state;
    const tl_segmentation_data_config *data = parse("output_size: [24, 32]");
    for (int64_t i = 0; i < golden_count; i++) check(&goldens[i], "kept", data);
    data = parse("output_size: [24, 32]\npreserve_aspect_ratio: false");
    for (int64_t i = 0; i < golden_count; i++) check(&goldens[i], "stretched", data);
}

/* What was put into the middle is found there: the original leaves that out. */
static void test_centered_pictures(void **state)
{
    (void)state;
    const tl_segmentation_data_config *data = parse("output_size: [24, 32]\ncentered_crop: true");
    const golden *logits = golden_peek("logits/1"); // 24 x 32
    const uint8_t *whole = classes_of(data, logits, 24, 32);
    const uint8_t *low = classes_of(data, logits, 12, 32), *thin = classes_of(data, logits, 24, 8);
    for (int64_t i = 0; i < 12 * 32; i++) assert_int_equal(low[i], whole[6 * 32 + i]);
    for (int64_t i = 0; i < 24 * 8; i++) assert_int_equal(thin[i], whole[i / 8 * 32 + 12 + i % 8]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_classes_are_model_gardens),
        DATA_TEST(test_centered_pictures),
    };
    golden_open(TEST_DATA "/golden/pixel_classes.bin");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    golden_close();
    return failed;
}
