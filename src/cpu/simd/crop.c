/* Crops of feature maps [n, h, w, channels]: vectors of channels. What flows to a map is added up
 * in the order of the windows, by one task for each image and slice of its channels. */
#include <string.h>

#include "cpu/crop.h"
#include "cpu/scratch.h"
#include "cpu/simd/any_float.h"
#include "cpu/simd/kernels.h"

/* GRAIN elements a task: 64 KiB, microseconds. A SLICE of channels is four vectors of 16: the sums
 * of a map of 160x160 are 6 MiB then, and there are tasks for several threads in an image. */
enum { GRAIN = 16384, SLICE = 64 };
enum { Y, X, HEIGHT, WIDTH, SIDES };

typedef struct job {
    const tl_node *call;
    const tl_crop_attr *a;
    const float *windows;
    const int32_t *levels;
    int64_t per_image, channels, slices;
    tl_dtype type;
} job;

/* A sample: where its four pixels begin, in the image's map, and their weights. */
typedef struct sample {
    int64_t at[4];
    float weight[4];
} sample;

static void places_of(tli_crop_place *down, tli_crop_place *across, const job *j, int64_t window,
                      int64_t level, const int64_t *map)
{
    const float *w = j->windows + window * SIDES;
    for (int64_t i = 0; i < j->a->size; i++) {
        down[i] = tli_crop_place_of(j->a, i, w[Y], w[HEIGHT], level, j->a->height, map[1]);
        across[i] = tli_crop_place_of(j->a, i, w[X], w[WIDTH], level, j->a->width, map[2]);
    }
}

TLI_INLINE sample sample_of(const tli_crop_place *down, const tli_crop_place *across,
                            const int64_t *map)
{
    const int64_t top = down->first * map[2], bottom = down->second * map[2];
    const float y = down->part, x = across->part;
    return (sample){{(top + across->first) * map[3], (top + across->second) * map[3],
                     (bottom + across->first) * map[3], (bottom + across->second) * map[3]},
                    {(1 - y) * (1 - x), (1 - y) * x, y * (1 - x), y * x}};
}

// A pixel without weight has no say, even when it is infinite.
TLI_INLINE void crop_sample(tl_dtype t, void *y, const void *map, const sample *s, int64_t n)
{
    TLI_VECTORS(i, m, n)
    {
        vf sum = vf_zero();
        for (int k = 0; k < 4; k++)
            if (s->weight[k] != 0)
                sum =
                    vf_fma(vf_set1(s->weight[k]), any_load(t, any_at(t, map, s->at[k]), i, m), sum);
        any_store(t, y, i, sum, m);
    }
}

static tl_status crop_windows(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const int64_t size = j->a->size;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK, 2 * (size_t)size * sizeof(tli_crop_place)));
    tli_crop_place *down = room, *across = down + size;
    for (int64_t window = begin; window < end; window++) {
        const int64_t level = j->levels[window] - j->a->first;
        char *y =
            (char *)any_at(j->type, tli_data(j->call->out[0]), window * size * size * j->channels);
        const size_t step = (size_t)j->channels * tl_dtype_size(j->type);
        if (level < 0 || level >= j->call->inputs - 2) {
            memset(y, 0, (size_t)(size * size) * step);
            continue;
        }
        const tl_tensor *maps = j->call->in[2 + level];
        const int64_t *d = maps->shape.dims, image = window / j->per_image;
        const void *map = any_at(j->type, tli_data(maps), image * d[1] * d[2] * d[3]);
        places_of(down, across, j, window, j->levels[window], d);
        for (int64_t i = 0; i < size * size; i++, y += step) {
            const sample s = sample_of(&down[i / size], &across[i % size], d);
            TLI_FLOAT_SWITCH(j->type, crop_sample(T, y, map, &s, j->channels));
        }
    }
    return TL_OK;
}

static job job_of(const tl_node *call)
{
    const tl_tensor *crops = call->op->op == TL_OP_crop_windows ? call->out[0] : call->in[2];
    const int64_t *d = crops->shape.dims;
    return (job){.call = call,
                 .a = call->attr,
                 .windows = tli_data(call->in[0]),
                 .levels = tli_data(call->in[1]),
                 .per_image = d[1],
                 .channels = d[4],
                 .slices = (d[4] + SLICE - 1) / SLICE,
                 .type = crops->dtype};
}

static tl_status crop_windows_kernel(const tl_run *run, const tl_node *call)
{
    job j = job_of(call);
    const int64_t *d = call->out[0]->shape.dims;
    if (!tl_tensor_count(call->out[0])) return TL_OK;
    return tl_parallel_for(run->threads, d[0] * d[1], GRAIN / (d[2] * d[3] * d[4]), crop_windows,
                           &j);
}

/* --- back ------------------------------------------------------------------------------------- */

// sums: [rows, columns, n] of the map; s->at counts in elements of it.
TLI_INLINE void share_sample(tl_dtype t, float *sums, const void *g, const sample *s, int64_t n)
{
    for (int k = 0; k < 4; k++) {
        float *to = sums + s->at[k];
        if (s->weight[k] == 0) continue;
        TLI_VECTORS(i, m, n)
        {
            const vf had = any_load(TL_F32, to, i, m);
            any_store(TL_F32, to, i, vf_fma(vf_set1(s->weight[k]), any_load(t, g, i, m), had), m);
        }
    }
}

static tl_status share_slices(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    const tl_tensor *y = j->call->out[0];
    const int64_t *d = y->shape.dims, size = j->a->size, pixels = d[1] * d[2];
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                       2 * (size_t)size * sizeof(tli_crop_place)
                           + (size_t)(pixels * SLICE) * sizeof(float)));
    tli_crop_place *down = room, *across = down + size;
    float *sums = (float *)(across + size);
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / j->slices, first = task % j->slices * SLICE;
        const int64_t n = j->channels - first < SLICE ? j->channels - first : SLICE;
        const int64_t slice[4] = {d[0], d[1], d[2], n};
        memset(sums, 0, (size_t)(pixels * n) * sizeof *sums);
        for (int64_t window = image * j->per_image; window < (image + 1) * j->per_image; window++) {
            if (j->levels[window] != j->a->first) continue;
            places_of(down, across, j, window, j->a->first, d);
            for (int64_t i = 0; i < size * size; i++) {
                const sample s = sample_of(&down[i / size], &across[i % size], slice);
                const void *g = any_at(j->type, tli_data(j->call->in[2]),
                                       (window * size * size + i) * j->channels + first);
                TLI_FLOAT_SWITCH(j->type, share_sample(T, sums, g, &s, n));
            }
        }
        for (int64_t i = 0; i < pixels; i++) {
            void *to =
                (char *)any_at(j->type, tli_data(y), (image * pixels + i) * j->channels + first);
            TLI_FLOAT_SWITCH(j->type, TLI_VECTORS(k, m, n) any_store(
                                          T, to, k, any_load(TL_F32, sums + i * n, k, m), m));
        }
    }
    return TL_OK;
}

static tl_status crop_windows_grad_kernel(const tl_run *run, const tl_node *call)
{
    job j = job_of(call);
    if (!tl_tensor_count(call->out[0])) return TL_OK;
    return tl_parallel_for(run->threads, call->out[0]->shape.dims[0] * j.slices, 1, share_slices,
                           &j);
}

#define ROWS(name)                                                                                 \
    {TL_OP_##name, TL_F32, name##_kernel, 0}, {TL_OP_##name, TL_BF16, name##_kernel, 0},           \
    {                                                                                              \
        TL_OP_##name, TL_F16, name##_kernel, 0                                                     \
    }
static const tl_kernel rows[] = {ROWS(crop_windows), ROWS(crop_windows_grad)};
TLI_SIMD_KERNELS(crop, rows);
