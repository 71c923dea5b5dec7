/* Convolutions of few input channels. The rows of the image that one row of the result needs are
 * laid out as band[column][filter row][channel], in float, with the padding. A patch is then
 * filter columns * filter rows * channels numbers side by side, and the patches of a row of the
 * result are the rows of a matrix in memory that overlap each other: the tiles of products read it
 * where it is. An element of the image is copied once for each row of the filter, not for each of
 * its elements. */
#include <string.h>

#include "cpu/scratch.h"
#include "cpu/simd/conv_parts.h"
#include "cpu/simd/gemm_parts.h"
#include "cpu/simd/vec.h"

typedef struct bands {
    const tli_conv *c;
    const tli_gemm_kernels *k;
    int64_t columns; /* of a band */
    int64_t step;    /* floats of one of them */
    int64_t patch;   /* numbers of a patch */
    int64_t lead;    /* distance of rows of filters in float, and of rows of the result */
    float *filter;   /* see the users */
    /* (optional) Kernels that multiply bfloat16 as it is; bands are then in that type. */
    const tli_gemm_kernels *half;
    char *half_filter; /* panels of all groups */
    size_t half_group; /* bytes of a group's */
    int64_t part;      /* rows of the result for a task */
    int64_t height;    /* rows of the image for a task */
    int64_t tasks;     /* for an image */
} bands;

static int64_t min_of(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t max_of(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static int64_t round_up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static const char *at(const tli_conv *c, const void *base, int64_t index)
{
    return (const char *)base + index * (int64_t)tl_dtype_size(c->type);
}

static bool band_suits(const tli_conv *c, tli_conv_want what)
{
    (void)what;
    // A vector of channels or less: with more, panels of patches are long rows anyway. A patch is
    // at most two blocks of depth, a band 4 MiB, so that it stays in the caches while its row of
    // the result is made.
    enum { CHANNELS = 8, PATCH = 1024, FLOATS = 1 << 20 };
    return c->group_in <= CHANNELS && c->dilation_x == 1 && c->kh * c->kw * c->group_in <= PATCH
           && ((c->ow - 1) * c->stride_x + c->kw) * c->kh * c->in <= FLOATS;
}

static bands bands_of(const tli_conv *c, tli_isa isa)
{
    const tli_gemm_kernels *k = tli_gemm_kernels_of(isa, TLI_GEMM_F32);
    return (bands){.c = c,
                   .k = k,
                   .columns = (c->ow - 1) * c->stride_x + c->kw,
                   .step = c->kh * c->group_in,
                   .patch = c->kh * c->kw * c->group_in,
                   .lead = round_up(c->group_out, k->nr)};
}

/* Rows of the result that are work enough for a task. */
static int64_t rows_of_task(const bands *b)
{
    // Multiply-adds: tens of microseconds, since each task also lays out a band.
    const double work = 1.0e6, row = (double)b->c->ow * (double)b->c->out * (double)b->patch;
    return row >= work ? 1 : (int64_t)(work / row) + 1;
}

/* `count` elements from `from` on as floats: where they are, or in `room`. */
static const float *floats_of(const bands *b, const void *from, int64_t count, float *room)
{
    if (b->c->type == TL_F32) return from;
    b->k->convert(room, TL_F32, from, b->c->type, count);
    return room;
}

/* --- bands ------------------------------------------------------------------------------------ */

TLI_INLINE void lay_columns(char *to, size_t to_step, const char *from, size_t from_step,
                            const size_t bytes, int64_t count)
{
    for (int64_t x = 0; x < count; x++, to += to_step, from += from_step) memcpy(to, from, bytes);
}

/* `bytes` of each column; sizes that are known are no calls. */
static void lay_row(char *to, size_t to_step, const char *from, size_t from_step, size_t bytes,
                    int64_t count)
{
    switch (bytes) {
    case 2: lay_columns(to, to_step, from, from_step, 2, count); break;
    case 4: lay_columns(to, to_step, from, from_step, 4, count); break;
    case 6: lay_columns(to, to_step, from, from_step, 6, count); break;
    case 12: lay_columns(to, to_step, from, from_step, 12, count); break;
    case 16: lay_columns(to, to_step, from, from_step, 16, count); break;
    default: lay_columns(to, to_step, from, from_step, bytes, count); break;
    }
}

static void clear_row(char *to, size_t step, size_t bytes, int64_t count)
{
    for (int64_t x = 0; x < count; x++, to += step) memset(to, 0, bytes);
}

/* The band of one row of the result, of all groups: one behind the other. `line` has room for a row
 * of the image. */
static void lay_band(void *band, float *line, const bands *b, int64_t image, int64_t oy)
{
    const tli_conv *c = b->c;
    const size_t element = b->half ? sizeof(tli_bf16) : sizeof(float);
    const size_t pixel = (size_t)c->group_in * element, step = (size_t)b->step * element;
    for (int64_t ky = 0; ky < c->kh; ky++) {
        const int64_t y = oy * c->stride_y + ky * c->dilation_y - c->top;
        const bool inside = y >= 0 && y < c->h;
        // Columns of the band that are pixels.
        const int64_t first = min_of(c->left, b->columns);
        const int64_t end = inside ? max_of(first, min_of(c->left + c->w, b->columns)) : first;
        TL_ASSERT(first >= 0 && first <= end && end <= b->columns && end - first <= c->w);
        const char *from = at(c, c->x, inside ? (image * c->h + y) * c->w * c->in : 0);
        if (end > first && !b->half) from = (const char *)floats_of(b, from, c->w * c->in, line);
        for (int64_t g = 0; g < c->groups; g++) {
            char *to = (char *)band + (size_t)(g * b->columns) * step + (size_t)ky * pixel;
            clear_row(to, step, pixel, first);
            lay_row(to + (size_t)first * step, step, from + (size_t)g * pixel,
                    (size_t)c->in * element, pixel, end - first);
            clear_row(to + (size_t)end * step, step, pixel, b->columns - end);
        }
    }
}

static size_t band_floats(const bands *b)
{
    return (size_t)round_up(b->c->groups * b->columns * b->step, 16);
}

static size_t line_floats(const bands *b)
{
    return b->c->type == TL_F32 ? 0 : (size_t)round_up(b->c->w * b->c->in, 16);
}

/* --- the result ------------------------------------------------------------------------------- */

/* filter[group][panel][filter column][filter row][channel][nr] */
static void turn_filter(const bands *b, float *row)
{
    const tli_conv *c = b->c;
    const int nr = b->k->in_rows->nr;
    TL_ASSERT(b->lead % nr == 0 && b->lead >= c->group_out); // whole panels of each group
    memset(row, 0, (size_t)(c->out + nr) * sizeof *row);
    for (int64_t ky = 0; ky < c->kh; ky++)
        for (int64_t kx = 0; kx < c->kw; kx++)
            for (int64_t i = 0; i < c->group_in; i++) {
                const int64_t from = (ky * c->kw + kx) * c->group_in + i;
                const int64_t to = (kx * c->kh + ky) * c->group_in + i;
                b->k->convert(row, TL_F32, at(c, c->k, from * c->out), c->type, c->out);
                for (int64_t g = 0; g < c->groups; g++)
                    for (int64_t j = 0; j < c->group_out; j += nr)
                        memcpy(b->filter + (g * b->lead + j) * b->patch + to * nr,
                               row + g * c->group_out + j, (size_t)nr * sizeof *row);
            }
}

enum { ROWS_MOST = 16 }; /* of a tile, with room to spare */
_Static_assert((int)GEMM_ROWS_MR <= (int)ROWS_MOST, "a pointer for each row");

static void multiply_row(const bands *b, const float *band, float *to)
{
    const tli_conv *c = b->c;
    const tli_gemm_kernels *k = b->k->in_rows;
    const int64_t place = c->stride_x * b->step;
    // The last patch ends with the band.
    TL_ASSERT((c->ow - 1) * place + b->patch <= b->columns * b->step);
    for (int64_t g = 0; g < c->groups; g++, band += b->columns * b->step)
        for (int64_t i = 0; i < c->ow; i += k->mr) {
            const int rows = (int)min_of(k->mr, c->ow - i);
            const void *patches[ROWS_MOST];
            for (int l = 0; l < k->mr; l++) patches[l] = band + (i + (l < rows ? l : 0)) * place;
            for (int64_t j = 0; j < c->group_out; j += k->nr)
                k->rows(rows, (int)min_of(k->nr, c->group_out - j), 1, b->patch, patches,
                        b->filter + (g * b->lead + j) * b->patch, k->nr,
                        to + i * c->out + g * c->group_out + j, c->out, 1, false);
        }
}

/* The same with bfloat16: `panel` has room for one of patches. */
static void multiply_row_half(const bands *b, const tli_bf16 *band, char *panel, float *to)
{
    const tli_conv *c = b->c;
    const tli_gemm_kernels *k = b->half;
    const int64_t place = c->stride_x * b->step;
    const size_t columns = tli_gemm_panel_bytes(k, k->nr, b->patch);
    TL_ASSERT((c->ow - 1) * place + b->patch <= b->columns * b->step);
    for (int64_t g = 0; g < c->groups; g++, band += b->columns * b->step)
        for (int64_t i = 0; i < c->ow; i += k->mr) {
            const int rows = (int)min_of(k->mr, c->ow - i);
            const char *filter = b->half_filter + (size_t)g * b->half_group;
            k->pack_a(panel, band + i * place, TL_BF16, place, 1, rows, b->patch);
            for (int64_t j = 0; j < c->group_out; j += k->nr, filter += columns)
                k->tile(rows, (int)min_of(k->nr, c->group_out - j), b->patch, panel, filter,
                        to + i * c->out + g * c->group_out + j, c->out, 1, false);
        }
}

static tl_status result_rows(int64_t begin, int64_t end, void *payload)
{
    const bands *b = payload;
    const tli_conv *c = b->c;
    const size_t sums = c->type == TL_F32 ? 0 : (size_t)round_up(c->ow * c->out, 16);
    const size_t panel = b->half ? tli_gemm_panel_bytes(b->half, b->half->mr, b->patch) : 0;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                       (band_floats(b) + line_floats(b) + sums) * sizeof(float) + panel));
    float *band = room, *line = band + band_floats(b), *own = line + line_floats(b);
    TL_ASSERT(tli_scratch_holds(own, sums * sizeof(float) + panel) && begin >= 0
              && end <= c->images * c->oh);
    if (b->half && b->half->begin) b->half->begin();
    for (int64_t row = begin; row < end; row++) {
        char *to = (char *)(uintptr_t)at(c, c->y, row * c->ow * c->out);
        lay_band(band, line, b, row / c->oh, row % c->oh);
        if (b->half) multiply_row_half(b, room, (char *)(own + sums), own);
        else multiply_row(b, band, sums ? own : (float *)(void *)to);
        if (sums) b->k->convert(to, c->type, own, TL_F32, c->ow * c->out);
    }
    if (b->half && b->half->end) b->half->end();
    return TL_OK;
}

/* The filter's rows in the order of patches, [filter column][filter row][channel][out], then in
 * panels. */
static tl_status pack_half_filter(bands *b)
{
    const tli_conv *c = b->c;
    const tli_gemm_kernels *k = b->half;
    const size_t row = (size_t)c->out * sizeof(tli_bf16);
    b->half_group =
        (size_t)((c->group_out + k->nr - 1) / k->nr) * tli_gemm_panel_bytes(k, k->nr, b->patch);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL,
                       (size_t)c->groups * b->half_group + (size_t)b->patch * row));
    b->half_filter = room;
    char *turned = b->half_filter + (size_t)c->groups * b->half_group;
    for (int64_t i = 0; i < b->patch; i++) {
        const int64_t channel = i % c->group_in, tap = i / c->group_in;
        const int64_t to = (tap % c->kw * c->kh + tap / c->kw) * c->group_in + channel;
        TL_ASSERT(to < b->patch);
        memcpy(turned + (size_t)to * row, at(c, c->k, i * c->out), row);
    }
    for (int64_t g = 0; g < c->groups; g++)
        k->pack_b(b->half_filter + (size_t)g * b->half_group,
                  turned + (size_t)(g * c->group_out) * sizeof(tli_bf16), TL_BF16, 1, c->out,
                  c->group_out, b->patch);
    return TL_OK;
}

static tl_status band_result(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    // Patches for which packing is not worth while: half a step of AMX, four of BFMMLA.
    enum { SHORT = 16 };
    bands b = bands_of(c, isa);
    const tli_gemm_kernels *half = tli_gemm_kernels_of(isa, TLI_GEMM_BF16);
    if (c->type == TL_BF16 && half->kind == TLI_GEMM_BF16 && b.patch >= SHORT) {
        b.half = half;
        TL_TRY(pack_half_filter(&b));
        return tl_parallel_for(pool, c->images * c->oh, rows_of_task(&b), result_rows, &b);
    }
    b.lead = round_up(c->group_out, b.k->in_rows->nr);
    const size_t floats = (size_t)(c->groups * b.lead * b.patch);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL,
                       (floats + (size_t)(c->out + b.k->in_rows->nr)) * sizeof(float)));
    b.filter = room;
    turn_filter(&b, b.filter + floats);
    return tl_parallel_for(pool, c->images * c->oh, rows_of_task(&b), result_rows, &b);
}

/* --- the image's gradient --------------------------------------------------------------------- */

/* filter[group][output channel][filter row][filter column][channel]; rows are `lead` long. */
static void transpose_filter(const bands *b, float *row)
{
    const tli_conv *c = b->c;
    for (int64_t i = 0; i < b->patch; i++) {
        b->k->convert(row, TL_F32, at(c, c->k, i * c->out), c->type, c->out);
        for (int64_t o = 0; o < c->out; o++) b->filter[o * b->lead + i] = row[o];
    }
    for (int64_t o = 0; o < c->out; o++)
        memset(b->filter + o * b->lead + b->patch, 0, (size_t)(b->lead - b->patch) * sizeof *row);
}

static void add_run(float *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + VF <= n; i += VF) vf_store(to + i, vf_add(vf_load(to + i), vf_load(from + i)));
    for (; i < n; i++) to[i] += from[i];
}

/* Adds what places [i, i + count) of one row of the result give to a group's rows of the image,
 * [image row][column][channel] with the padding on both sides. Filter rows are ky .. ky_end - 1. */
static void add_places(const bands *b, float *sums, int64_t y, int64_t ky, int64_t ky_end,
                       const float *from, const float *filter, int64_t i, int count,
                       float *products)
{
    const tli_conv *c = b->c;
    const tli_gemm_kernels *k = b->k;
    const int64_t run = c->kw * c->group_in, cols = (ky_end - ky) * run;
    TL_ASSERT(ky >= 0 && ky < ky_end && ky_end <= c->kh && count > 0 && count <= k->mr
              && i + count <= c->ow);
    for (int64_t j = 0; j < cols; j += k->nr)
        k->strided(count, (int)min_of(k->nr, cols - j), c->group_out, from + i * c->out, c->out, 1,
                   filter + ky * run + j, b->lead, products + j, cols, 1, false);
    for (int64_t p = 0; p < count; p++)
        for (int64_t t = ky; t < ky_end; t++)
            add_run(
                sums + ((y + t * c->dilation_y) * b->columns + (i + p) * c->stride_x) * c->group_in,
                products + p * cols + (t - ky) * run, run);
}

/* Rows y .. end - 1 of a group's image from its sums. */
static void store_rows(const bands *b, const float *sums, int64_t image, int64_t y, int64_t end,
                       int64_t group, float *line)
{
    const tli_conv *c = b->c;
    const int channels = (int)c->group_in;
    const int64_t seen = max_of(0, min_of(c->w, b->columns - c->left));
    TL_ASSERT(y >= 0 && y < end && end <= c->h && seen <= c->w);
    for (int64_t row = y; row < end; row++, sums += b->columns * channels) {
        char *to = (char *)(uintptr_t)at(c, c->x, ((image * c->h + row) * c->w) * c->in);
        const float *from = sums + c->left * channels;
        if (c->groups == 1) {
            b->k->convert(to, c->type, from, TL_F32, seen * channels);
            memset(to + (size_t)(seen * channels) * tl_dtype_size(c->type), 0,
                   (size_t)((c->w - seen) * channels) * tl_dtype_size(c->type));
            continue;
        }
        for (int64_t x = 0; x < c->w; x++) {
            for (int i = 0; i < channels; i++) line[i] = x < seen ? from[x * channels + i] : 0;
            b->k->convert(to + (size_t)(x * c->in + group * channels) * tl_dtype_size(c->type),
                          c->type, line, TL_F32, channels);
        }
    }
}

static void image_rows(const bands *b, int64_t image, int64_t y, int64_t end, int64_t group,
                       float *sums, float *products, float *line)
{
    const tli_conv *c = b->c;
    const int64_t first = y + c->top - (c->kh - 1) * c->dilation_y;
    const int64_t oy_first = first > 0 ? (first + c->stride_y - 1) / c->stride_y : 0;
    const int64_t oy_end = min_of(c->oh, (end - 1 + c->top) / c->stride_y + 1);
    memset(sums, 0, (size_t)((end - y) * b->columns * c->group_in) * sizeof *sums);
    for (int64_t oy = oy_first; oy < oy_end; oy++) {
        const int64_t row = oy * c->stride_y - c->top - y; // where the first row of the filter lies
        int64_t ky, ky_end;
        tli_conv_inside(&ky, &ky_end, c->kh, row, c->dilation_y, end - y);
        if (ky == ky_end) continue;
        const float *from =
            floats_of(b, at(c, c->y, (image * c->oh + oy) * c->ow * c->out), c->ow * c->out, line);
        for (int64_t i = 0; i < c->ow; i += b->k->mr)
            add_places(b, sums, row, ky, ky_end, from + group * c->group_out,
                       b->filter + group * c->group_out * b->lead, i,
                       (int)min_of(b->k->mr, c->ow - i), products);
    }
    store_rows(b, sums, image, y, end, group, line);
}

static tl_status image_tasks(int64_t begin, int64_t end, void *payload)
{
    const bands *b = payload;
    const tli_conv *c = b->c;
    const size_t sums = (size_t)round_up(b->height * b->columns * c->group_in, 16);
    const size_t products = (size_t)round_up(b->k->mr * (b->patch + b->k->nr), 16);
    const size_t line = (size_t)max_of(c->type == TL_F32 ? 0 : c->ow * c->out, c->group_in);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK, (sums + products + line) * sizeof(float)));
    float *own = room;
    for (int64_t t = begin; t < end; t++) {
        const int64_t y = t % b->tasks * b->height;
        TL_ASSERT(y < c->h && t / b->tasks < c->images
                  && tli_scratch_holds(own, (sums + products + line) * sizeof(float)));
        for (int64_t g = 0; g < c->groups; g++)
            image_rows(b, t / b->tasks, y, min_of(y + b->height, c->h), g, own, own + sums,
                       own + sums + products);
    }
    return TL_OK;
}

static tl_status band_image(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    bands b = bands_of(c, isa);
    // Rows where two tasks meet are multiplied in narrower tiles, so that tasks should be high.
    b.lead = round_up(b.patch, b.k->vector);
    b.height = min_of(c->h, max_of(rows_of_task(&b) * c->stride_y, 4 * c->kh * c->dilation_y));
    b.tasks = (c->h + b.height - 1) / b.height;
    TL_ASSERT(b.lead >= b.patch && b.lead % b.k->vector == 0 && b.height > 0
              && b.tasks * b.height >= c->h);
    const size_t floats = (size_t)(c->out * b.lead + b.k->nr);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (floats + (size_t)c->out) * sizeof(float)));
    b.filter = room;
    transpose_filter(&b, b.filter + floats);
    return tl_parallel_for(pool, c->images * b.tasks, 1, image_tasks, &b);
}

/* --- the filter's gradient -------------------------------------------------------------------- */

/* Sums of one part: [group][filter column][filter row][channel][lead]. */
static tl_status filter_parts(int64_t begin, int64_t end, void *payload)
{
    const bands *b = payload;
    const tli_conv *c = b->c;
    const tli_gemm_kernels *k = b->k;
    // Tiles read whole vectors of the result, which only a copy has behind its last column.
    const bool copies = c->type != TL_F32 || c->group_out % k->vector != 0;
    const size_t own = copies ? (size_t)(c->ow * c->out + k->nr) : 0;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_TASK,
                       (band_floats(b) + line_floats(b) + own) * sizeof(float)));
    float *band = room, *line = band + band_floats(b), *copy = line + line_floats(b);
    for (int64_t part = begin; part < end; part++) {
        float *sums = b->filter + part * c->groups * b->patch * b->lead;
        const int64_t first = part * b->part, last = min_of(first + b->part, c->images * c->oh);
        TL_ASSERT(first < last && last <= (part + 1) * b->part); // each row is one part's
        TL_ASSERT(last == (part + 1) * b->part || last == c->images * c->oh);
        for (int64_t row = first; row < last; row++) {
            lay_band(band, line, b, row / c->oh, row % c->oh);
            const char *results = at(c, c->y, row * c->ow * c->out);
            if (copies) k->convert(copy, TL_F32, results, c->type, c->ow * c->out);
            const float *y = copies ? copy : (const float *)(const void *)results;
            for (int64_t g = 0; g < c->groups; g++)
                for (int64_t j = 0; j < c->group_out; j += k->nr)
                    for (int64_t i = 0; i < b->patch; i += k->mr)
                        k->strided(
                            (int)min_of(k->mr, b->patch - i), (int)min_of(k->nr, c->group_out - j),
                            c->ow, band + g * b->columns * b->step + i, 1, c->stride_x * b->step,
                            y + g * c->group_out + j, c->out,
                            sums + (g * b->patch + i) * b->lead + j, b->lead, 1, row > first);
        }
    }
    return TL_OK;
}

/* Rows of the filter: the parts' sums, added in order. */
static tl_status join_parts(int64_t begin, int64_t end, void *payload)
{
    const bands *b = payload;
    const tli_conv *c = b->c;
    const int64_t all = c->groups * b->patch * b->lead;
    for (int64_t row = begin; row < end; row++) {
        const int64_t i = row % c->group_in, kx = row / c->group_in % c->kw;
        const int64_t own = (kx * c->kh + row / c->group_in / c->kw) * c->group_in + i;
        TL_ASSERT(own < b->patch);
        for (int64_t g = 0; g < c->groups; g++) {
            float *sums = b->filter + (g * b->patch + own) * b->lead;
            for (int64_t part = 1; part < b->tasks; part++)
                add_run(sums, sums + part * all, c->group_out);
            b->k->convert((char *)(uintptr_t)at(c, c->k, row * c->out + g * c->group_out), c->type,
                          sums, TL_F32, c->group_out);
        }
    }
    return TL_OK;
}

static tl_status band_filter(tl_pool *pool, tli_isa isa, const tli_conv *c)
{
    // Parts for 32 threads, whose sums together are 8 MiB; sums that make a chunk of the last loop
    // worth while.
    enum { PARTS = 32, FLOATS = 2 << 20, JOINED = 1 << 14 };
    bands b = bands_of(c, isa);
    const int64_t rows = c->images * c->oh, all = c->groups * b.patch * b.lead;
    const int64_t parts = max_of(1, min_of(min_of(PARTS, FLOATS / all), rows / rows_of_task(&b)));
    b.part = (rows + parts - 1) / parts;
    b.tasks = (rows + b.part - 1) / b.part;
    TL_ASSERT(parts >= 1 && b.tasks <= parts && b.tasks * b.part >= rows
              && (b.tasks - 1) * b.part < rows);
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, (size_t)(b.tasks * all) * sizeof(float)));
    b.filter = room;
    TL_TRY(tl_parallel_for(pool, b.tasks, 1, filter_parts, &b));
    return tl_parallel_for(pool, b.patch, JOINED / (c->out * b.tasks) + 1, join_parts, &b);
}

const tli_conv_method TLI_ISA_NAME(tli_conv_band) = {band_suits, band_result, band_image,
                                                     band_filter};
