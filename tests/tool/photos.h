/* A folder of small pictures in two classes. */
#ifndef TILTH_TESTS_TOOL_PHOTOS_H
#define TILTH_TESTS_TOOL_PHOTOS_H

#include "zoo/zoo_lab.h"

#include <tilth/base/alloc.h>
#include <tilth/io/image/png.h>

/* Stripes that lie or stand, of any colour. */
static inline void put_photo_of(const char *path, int side, bool standing, int number)
{
    uint8_t *pixels = tl_alloc((size_t)(side * side * 3));
    assert_non_null(pixels);
    tl_str png = TL_STR_INIT;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            for (int k = 0; k < 3; k++)
                pixels[(y * side + x) * 3 + k] =
                    (uint8_t)(40 * (number * (k + 1) % 4)
                              + (((standing ? x : y) + number) / 2 % 2 ? 130 : 0));
    assert_ok(tl_png_encode(&png, &(tl_png_image){side, side, 3, pixels}));
    assert_ok(tl_mkdirs(tl_path_dirname(lab_arena, path)));
    assert_ok(tl_file_write_atomic(path, png.data, png.length));
    tl_str_deinit(&png);
    tl_free(pixels);
}

static inline void put_photo(const char *path, bool standing, int number)
{
    put_photo_of(path, 12, standing, number);
}

static inline void put_photos_of(const char *folder, int count, int side)
{
    for (int i = 0; i < count; i++)
        put_photo_of(
            tl_arena_printf(lab_arena, "%s/%s/%d.png", folder, i % 2 ? "lying" : "standing", i),
            side, i % 2 == 0, i);
}

static inline void put_photos(const char *folder, int count)
{
    put_photos_of(folder, count, 12);
}

#endif
