#include "train/inner/show_example.h"

#include <math.h>
#include <string.h>

#include <tilth/ops/elementwise.h>

static bool is_picture(const tl_tensor *t)
{
    const int64_t *d = t->shape.dims;
    return t->shape.rank == 4 && (d[3] == 1 || d[3] == 3) && d[1] > 1 && d[2] > 1;
}

void tli_pixels_of_floats(uint8_t *out, const float *in, int64_t count)
{
    float low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(in[i])) continue;
        low = fminf(low, in[i]);
        high = fmaxf(high, in[i]);
    }
    float scale = high > low ? 255 / (high - low) : 0;
    for (int64_t i = 0; i < count; i++) {
        float value = (in[i] - low) * scale;
        out[i] = (uint8_t)(value >= 255 ? 255 : value > 0 ? lrintf(value) : 0);
    }
}

static tl_status show_picture(tl_ctx *c, tl_tensor *images, int64_t row, tl_example_view *out)
{
    const int64_t *d = images->shape.dims, count = d[1] * d[2] * d[3];
    uint8_t *pixels = tl_arena_alloc(out->arena, (size_t)count);
    tl_tensor *floats = tl_cast(c, images, TL_F32);
    tl_lease lease;
    if (!pixels) return TL_ENOMEM;
    if (!floats) return tl_ctx_status(c);
    TL_TRY(tl_lease_read(&lease, floats));
    tli_pixels_of_floats(pixels, (const float *)lease.data + row * count, count);
    tl_lease_drop(&lease);
    out->pixels = pixels;
    out->height = d[1];
    out->width = d[2];
    out->channels = d[3];
    return TL_OK;
}

static tl_status show_name(const tl_tensor *names, int64_t row, tl_example_view *out)
{
    tl_lease lease;
    if (!names || names->shape.rank != 2 || names->dtype != TL_U8) return TL_OK;
    size_t length = (size_t)names->shape.dims[1];
    TL_TRY(tl_lease_read(&lease, names));
    const char *name = (const char *)lease.data + (size_t)row * length;
    out->name = tl_arena_strndup(out->arena, name, strnlen(name, length));
    tl_lease_drop(&lease);
    return out->name ? TL_OK : TL_ENOMEM;
}

tl_status tli_show_example(const tl_task *t, const tl_batch *batch, int64_t row,
                           tl_example_view *out)
{
    tl_batch_parts parts = {0};
    tl_task_split_batch(t, batch, &parts);
    TL_TRY(tl_ctx_status(batch->ctx));
    TL_TRY(show_name(tl_batch_peek(batch, TL_BATCH_NAME), row, out));
    for (int64_t i = 0; i < parts.features.count; i++)
        if (is_picture(parts.features.items[i].tensor))
            return show_picture(batch->ctx, parts.features.items[i].tensor, row, out);
    return TL_OK;
}
