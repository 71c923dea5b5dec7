#include "photos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tilth/base/file.h>
#include <tilth/base/pool.h>
#include <tilth/data/image.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "bench.h"

enum { FILES = 4, PATH = BENCH_FOLDER + 64 };

typedef struct album {
    const char *folder;
    int64_t count, classes;
} album;

/* Noise of several sizes, as a photo has large shapes, small ones and grain. */
static tl_status make_photo(tl_image *photo, tl_rng *rng, int64_t height, int64_t width)
{
    enum { OCTAVES = 4, MOST = 375 * 500 * 3 };
    static const struct {
        int64_t pixel;
        float strength;
    } octaves[OCTAVES] = {{125, 90}, {25, 45}, {5, 20}, {1, 4}};
    int64_t count = height * width * 3;
    float *sum = malloc(MOST * sizeof *sum), *small = malloc(MOST * sizeof *small),
          *large = malloc(MOST * sizeof *large);
    tl_status st = sum && small && large ? TL_OK : TL_FAIL_NOMEM(MOST * sizeof *sum);
    for (int64_t i = 0; st == TL_OK && i < count; i++) sum[i] = 128;
    for (int o = 0; st == TL_OK && o < OCTAVES; o++) {
        int64_t h = height / octaves[o].pixel, w = width / octaves[o].pixel;
        tl_rng_fill_uniform_f32(rng, o * (int64_t)MOST, small, h * w * 3);
        tl_pixels from = tl_pixels_new(TL_F32, h, w, 3, small),
                  to = tl_pixels_new(TL_F32, height, width, 3, large);
        st = tl_pixels_resize(&to, &from, NULL, NULL);
        for (int64_t i = 0; i < count; i++) sum[i] += (large[i] - 0.5f) * 2 * octaves[o].strength;
    }
    if (st == TL_OK) st = tl_image_resize_memory(photo, height, width, 3);
    if (st == TL_OK) {
        tl_pixels from = tl_pixels_new(TL_F32, height, width, 3, sum), to = tl_pixels_of(photo);
        tl_pixels_copy(&to, &from, false); // cut to 0..255
    }
    free(sum);
    free(small);
    free(large);
    return st;
}

static tl_status add_photo(tl_tfrecord_writer *out, const album *a, int64_t index)
{
    tl_image photo = TL_IMAGE_INIT;
    tl_str file = TL_STR_INIT, text = TL_STR_INIT;
    char path[PATH];
    tl_rng rng;
    tl_rng_init(&rng, (uint64_t)index);
    bool upright = index % 4 == 3;
    int64_t height = upright ? 500 : 375, width = upright ? 375 : 500, label = index % a->classes;
    tl_status st;
    TL_TRY_DONE(st, make_photo(&photo, &rng, height, width));
    TL_TRY_DONE(st, tl_jpeg_encode(&file, &photo, &(tl_jpeg_encode_args){.quality = 92}));
    snprintf(path, sizeof path, "%s/photo-%04" PRId64 ".jpg", a->folder, index);
    TL_TRY_DONE(st, tl_file_write_atomic(path, file.data, file.length));
    tl_example_writer w = tl_example_begin(&text);
    tl_example_add_ints(&w, "image/height", &height, 1);
    tl_example_add_ints(&w, "image/width", &width, 1);
    tl_example_add_text(&w, "image/colorspace", "RGB");
    tl_example_add_ints(&w, "image/channels", &(int64_t){3}, 1);
    tl_example_add_ints(&w, "image/class/label", &label, 1);
    tl_example_add_text(&w, "image/format", "JPEG");
    tl_example_add_text(&w, "image/filename", tl_path_basename(path));
    tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){file.data, file.length}, 1);
    TL_TRY_DONE(st, tl_example_end(&w));
    st = tl_tfrecord_write(out, text.data, text.length);
done:
    tl_image_deinit(&photo);
    tl_str_deinit(&file);
    tl_str_deinit(&text);
    return st;
}

static tl_status write_photos(int64_t begin, int64_t end, void *payload)
{
    const album *a = payload;
    for (int64_t f = begin; f < end; f++) {
        char path[PATH];
        tl_tfrecord_writer *out;
        tl_status st = TL_OK;
        snprintf(path, sizeof path, "%s/photos-%05" PRId64 "-of-%05d", a->folder, f, FILES);
        TL_TRY(tl_tfrecord_writer_begin(&out, path, NULL));
        for (int64_t i = f; st == TL_OK && i < a->count; i += FILES) st = add_photo(out, a, i);
        if (st == TL_OK) st = tl_tfrecord_writer_commit(&out);
        tl_tfrecord_writer_abort(&out);
        TL_TRY(st);
    }
    return TL_OK;
}

tl_status photos_write(const char *folder, int64_t count, int64_t classes)
{
    album a = {folder, count, classes};
    tl_pool *pool;
    TL_TRY(tl_pool_new(&pool, 0));
    tl_status st = tl_parallel_for(pool, FILES, 1, write_photos, &a);
    tl_pool_free(&pool);
    return st;
}
