/* Images as TensorFlow decodes, resizes and cuts them (tests/golden/image_ops.py). */
#include <stdlib.h>

#include <tilth/data/image.h>

#include "golden_cases.h"

#define CASES TEST_DATA "/golden/image_ops.tfrecord"

/* --- decoding --------------------------------------------------------------------------------- */

static void check_decoded(const golden_case *c)
{
    tl_bytes file = bytes_of(c, "file"), want = bytes_of(c, "want");
    int64_t shape[3];
    ints_of(c, "shape", shape, 3);
    tl_image_args args = {.channels = int_of(c, "channels"),
                          .shrink = (int)int_of(c, "shrink"),
                          .dct = int_of(c, "fast") ? TL_JPEG_FAST : TL_JPEG_ACCURATE,
                          .plain_upsampling = int_of(c, "plain") != 0};
    tl_image image = TL_IMAGE_INIT;
    assert_ok(tl_image_decode(&image, file.data, file.size, &args));
    assert_true(image.height == shape[0] && image.width == shape[1] && image.channels == shape[2]);
    // Both are libjpeg-turbo; only of the fast transform do machines make different things.
    int most = args.dct == TL_JPEG_FAST ? 4 : 0;
    for (size_t i = 0; i < want.size; i++)
        if (abs(image.pixels[i] - (uint8_t)want.data[i]) > most)
            fail_msg("value %zu of %d x %d x %d is %d, not %d (channels %d, shrink %d, fast %d, "
                     "plain %d)",
                     i, (int)shape[0], (int)shape[1], (int)shape[2], image.pixels[i],
                     (uint8_t)want.data[i], (int)args.channels, args.shrink,
                     args.dct == TL_JPEG_FAST, args.plain_upsampling);
    tl_image_deinit(&image);
}

static void decoded_as_by_tensorflow(void **state)
{
    (void)state;
    each_case(CASES, "decode", 43, check_decoded);
}

/* --- resizing --------------------------------------------------------------------------------- */

static void check_resized(const golden_case *c)
{
    static const struct {
        const char *name;
        tl_pixels_method method;
        double most; // TensorFlow takes the weights of bicubic from a table of 1024 entries
    } methods[] = {{"bilinear", TL_PIXELS_BILINEAR, 2e-4},
                   {"nearest", TL_PIXELS_NEAREST, 0},
                   {"area", TL_PIXELS_AREA, 1e-3},
                   {"bicubic", TL_PIXELS_BICUBIC, 0.25}};
    const char *name = text_of(c, "method");
    tl_bytes pixels = bytes_of(c, "pixels"), want = bytes_of(c, "want");
    int64_t shape[3], size[2];
    int m = 0;
    while (strcmp(name, methods[m].name) != 0) m++;
    ints_of(c, "shape", shape, 3);
    ints_of(c, "size", size, 2);
    tl_pixels_resize_args args = {
        .method = methods[m].method,
        .antialias = int_of(c, "antialias") != 0,
    };
    double most = methods[m].method == TL_PIXELS_BICUBIC && args.antialias ? 2e-4 : methods[m].most;
    int64_t n = size[0] * size[1] * shape[2];
    assert_int_equal(want.size, (size_t)n * sizeof(float));
    float *out = malloc(want.size), *mirrored = malloc(want.size);
    tl_pixels from =
        tl_pixels_new(TL_U8, shape[0], shape[1], shape[2], (void *)(uintptr_t)pixels.data);
    tl_pixels to = tl_pixels_new(TL_F32, size[0], size[1], shape[2], out);
    tl_pixels other = tl_pixels_new(TL_F32, size[0], size[1], shape[2], mirrored);
    assert_ok(tl_pixels_resize(&to, &from, &args, NULL));
    for (int64_t i = 0; i < n; i++) {
        float w;
        memcpy(&w, want.data + 4 * i, 4);
        if (!(fabs((double)out[i] - w) <= most))
            fail_msg("%s%s to %d x %d: value %d is %.6f, not %.6f", methods[m].name,
                     args.antialias ? " (antialias)" : "", (int)size[0], (int)size[1], (int)i,
                     (double)out[i], (double)w);
    }
    args.mirror = true;
    assert_ok(tl_pixels_resize(&other, &from, &args, NULL));
    tl_pixels_mirror(&other);
    assert_memory_equal(out, mirrored, want.size);
    free(out);
    free(mirrored);
}

static void resized_as_by_tensorflow(void **state)
{
    (void)state;
    each_case(CASES, "resize", 90, check_resized);
}

/* --- cutting ---------------------------------------------------------------------------------- */

static void check_center(const golden_case *c)
{
    int64_t size[2], want[3];
    float fraction;
    ints_of(c, "size", size, 2);
    ints_of(c, "window", want, 3);
    floats_of(c, "fraction", &fraction, 1);
    tl_window w = tl_window_center(size[0], size[1], (double)fraction);
    assert_true(w.x == want[0] && w.y == want[1] && w.width == want[2] && w.height == want[2]);
}

static void centers_as_in_model_garden(void **state)
{
    (void)state;
    each_case(CASES, "center", 15, check_center);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoded_as_by_tensorflow),
        cmocka_unit_test(resized_as_by_tensorflow),
        cmocka_unit_test(centers_as_in_model_garden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
