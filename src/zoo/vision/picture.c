#include "zoo/vision/picture.h"

#include <string.h>

tl_status tli_picture_open(tli_picture *out, const tl_sample_field *f, int64_t channels,
                           bool orient)
{
    char text[TL_SHAPE_TEXT];
    *out = (tli_picture){.own = TL_IMAGE_INIT};
    if (f->dtype == TL_U8 && f->shape.rank == 3 && f->shape.dims[2] == channels) {
        out->pixels = tl_pixels_new(TL_U8, f->shape.dims[0], f->shape.dims[1], channels,
                                    (void *)(uintptr_t)f->data);
        return TL_OK;
    }
    if (f->dtype != TL_U8 || f->shape.rank != 1)
        return TL_FAIL(TL_EINVAL, "'%s' is %s%s; expected a file, or pixels of %lld channels",
                       f->name, tl_dtype_name(f->dtype), tl_shape_text(text, &f->shape),
                       (long long)channels);
    tl_status st = tl_image_decode(
        &out->own, f->data, (size_t)f->shape.dims[0],
        &(tl_image_args){.channels = channels, .dct = TL_JPEG_FAST, .orient = orient});
    out->pixels = tl_pixels_of(&out->own);
    if (st != TL_OK) tl_image_deinit(&out->own);
    return st;
}

tl_status tli_picture_open_pixels(tli_picture *out, tl_shape shape, const void *pixels,
                                  int64_t channels)
{
    char text[TL_SHAPE_TEXT];
    const int64_t has = shape.rank == 2 ? 1 : shape.rank == 3 ? shape.dims[2] : 0;
    *out = (tli_picture){.own = TL_IMAGE_INIT};
    if (!has || (has != channels && !(has == 1 && channels == 3)))
        return TL_FAIL(TL_EINVAL, "the picture has the shape %s; expected [height, width, %lld]%s",
                       tl_shape_text(text, &shape), (long long)channels,
                       channels == 3 ? " or [height, width]" : "");
    out->pixels =
        tl_pixels_new(TL_U8, shape.dims[0], shape.dims[1], has, (void *)(uintptr_t)pixels);
    if (has == channels) return TL_OK;
    const uint8_t *grey = pixels;
    TL_TRY(tl_image_resize_memory(&out->own, shape.dims[0], shape.dims[1], channels));
    for (int64_t i = 0; i < shape.dims[0] * shape.dims[1] * channels; i++)
        out->own.pixels[i] = grey[i / channels];
    out->pixels = tl_pixels_of(&out->own);
    return TL_OK;
}

tl_status tli_picture_own(tli_picture *p)
{
    const tl_pixels *from = &p->pixels;
    tl_image copy = TL_IMAGE_INIT;
    if (p->own.pixels && p->own.pixels == from->data && p->own.height == from->height
        && p->own.width == from->width)
        return TL_OK;
    // Of a part of its own pixels, too.
    TL_TRY(tl_image_resize_memory(&copy, from->height, from->width, from->channels));
    tl_pixels to = tl_pixels_of(&copy);
    tl_pixels_copy(&to, from, false);
    tl_image_deinit(&p->own);
    p->own = copy;
    p->pixels = to;
    return TL_OK;
}

void tli_picture_close(tli_picture *p)
{
    tl_image_deinit(&p->own);
}

tl_status tli_picture_decode(tl_sample *s, const char *name, int64_t channels)
{
    const tl_sample_field *f;
    tli_picture p;
    TL_TRY(tl_sample_get(s, name, &f));
    if (f->shape.rank != 1) return TL_OK;
    TL_TRY(tli_picture_open(&p, f, channels, false));
    tl_shape shape = TL_SHAPE(p.pixels.height, p.pixels.width, channels);
    void *to = tl_sample_add(s, name, TL_U8, shape);
    tl_status st = to ? TL_OK : tl_error_code();
    if (to) memcpy(to, p.own.pixels, (size_t)tl_shape_count(&shape));
    tli_picture_close(&p);
    return st;
}
