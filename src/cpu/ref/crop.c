#include <string.h>
#include <tilth/base/alloc.h>

#include "cpu/crop.h"
#include "cpu/ref/ref.h"

enum { Y, X, HEIGHT, WIDTH, SIDES };

/* One sample of one window. */
typedef struct sample {
    tli_crop_place down, across;
} sample;

static sample sample_of(const tl_node *call, int64_t window, int64_t row, int64_t column,
                        int64_t level, const int64_t *map)
{
    const tl_crop_attr *a = call->attr;
    const float *w = (const float *)tli_data(call->in[0]) + window * SIDES;
    return (sample){
        tli_crop_place_of(a, row, w[Y], w[HEIGHT], level, a->height, map[1]),
        tli_crop_place_of(a, column, w[X], w[WIDTH], level, a->width, map[2]),
    };
}

static int64_t level_of(const tl_node *call, int64_t window)
{
    return ((const int32_t *)tli_data(call->in[1]))[window];
}

// Corner k of four: its pixel in the map of an image, and its weight.
static int64_t corner(const sample *s, int k, const int64_t *map, int64_t image, double *weight)
{
    const int64_t row = k & 2 ? s->down.second : s->down.first;
    const int64_t column = k & 1 ? s->across.second : s->across.first;
    const double y = s->down.part, x = s->across.part;
    *weight = (k & 2 ? y : 1 - y) * (k & 1 ? x : 1 - x);
    return ((image * map[1] + row) * map[2] + column) * map[3];
}

static tl_status crop_windows_kernel(const tl_run *run, const tl_node *call)
{
    const tl_crop_attr *a = call->attr;
    const tl_tensor *y = call->out[0];
    const int64_t *d = y->shape.dims, channels = d[4];
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(y) / (channels ? channels : 1); i < count; i++) {
        const int64_t window = i / d[3] / d[2], level = level_of(call, window);
        const bool given = level >= a->first && level < a->first + call->inputs - 2;
        const tl_tensor *map = call->in[given ? 2 + level - a->first : 2];
        const sample s =
            sample_of(call, window, i / d[3] % d[2], i % d[3], given ? level : 0, map->shape.dims);
        for (int64_t channel = 0; channel < channels; channel++) {
            double sum = 0, weight;
            for (int k = 0; given && k < 4; k++) {
                const int64_t at = corner(&s, k, map->shape.dims, window / d[1], &weight);
                if (weight != 0) sum += weight * tli_ref_get(map, at + channel);
            }
            tli_ref_set(y, i * channels + channel, sum);
        }
    }
    return TL_OK;
}

static tl_status crop_windows_grad_kernel(const tl_run *run, const tl_node *call)
{
    const tl_crop_attr *a = call->attr;
    const tl_tensor *g = call->in[2], *y = call->out[0];
    const int64_t *d = g->shape.dims, *map = y->shape.dims, channels = d[4];
    (void)run;
    const size_t bytes = (size_t)tl_tensor_count(y) * sizeof(double);
    double *sums = tl_alloc(bytes ? bytes : 1);
    if (!sums) return TL_FAIL_NOMEM(bytes);
    memset(sums, 0, bytes);
    for (int64_t i = 0, count = tl_tensor_count(g) / (channels ? channels : 1); i < count; i++) {
        const int64_t window = i / d[3] / d[2];
        if (level_of(call, window) != a->first) continue;
        const sample s = sample_of(call, window, i / d[3] % d[2], i % d[3], a->first, map);
        for (int k = 0; k < 4; k++) {
            double weight;
            const int64_t at = corner(&s, k, map, window / d[1], &weight);
            for (int64_t channel = 0; weight != 0 && channel < channels; channel++)
                sums[at + channel] += weight * tli_ref_get(g, i * channels + channel);
        }
    }
    for (int64_t i = 0, count = tl_tensor_count(y); i < count; i++) tli_ref_set(y, i, sums[i]);
    tl_free(sums);
    return TL_OK;
}

static const tl_kernel rows[] = {
    {TL_OP_crop_windows, TL_DTYPE_COUNT, crop_windows_kernel, 0},
    {TL_OP_crop_windows_grad, TL_DTYPE_COUNT, crop_windows_grad_kernel, 0},
};
const tl_kernels tli_ref_crop = {rows, TL_COUNT(rows)};
