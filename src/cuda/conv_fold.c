/* Convolutions of pictures, which have few channels, with a stride: the pixels that a place of the
 * filter moves by become channels, so that the stride is gone and the kernels of cuDNN have whole
 * vectors to read. For a network's first layer this takes a third of the time. */
#include <stdio.h>

#include <tilth/base/integer.h>

#include "cuda/convs.h"
#include "cuda/kernels.h"

enum { FEW = 4, UNIT = 8 /* channels that cuDNN reads at once */, VECTOR = 16 /* bytes */ };

bool tli_conv_folds(const tli_conv *c)
{
    const tli_dnn_window *w = &c->window;
    return c->way != TLI_DNN_INPUT_GRAD && (c->dtype == TL_BF16 || c->dtype == TL_F16)
           && c->in <= FEW && c->groups == 1 && w->strides[0] > 1 && w->strides[1] > 1
           && w->dilations[0] == 1 && w->dilations[1] == 1 && c->filter_rows >= w->strides[0]
           && c->filter_columns >= w->strides[1];
}

tli_conv tli_conv_fold(const tli_conv *c)
{
    const int64_t *strides = c->window.strides;
    tli_conv f = *c;
    f.in = tl_round_up(strides[0] * strides[1] * c->in, UNIT);
    f.filter_rows = tl_div_up(c->filter_rows, strides[0]);
    f.filter_columns = tl_div_up(c->filter_columns, strides[1]);
    f.rows = c->result_rows + f.filter_rows - 1;
    f.columns = c->result_columns + f.filter_columns - 1;
    f.window = (tli_dnn_window){.strides = {1, 1}, .dilations = {1, 1}};
    return f;
}

/* What the kernels are told of both. */
typedef struct folding {
    int64_t n, rows, columns, in, stride_y, stride_x, top, left; /* of the picture */
    int64_t filter_rows, filter_columns, out;
    int64_t to_rows, to_columns, to_in, to_filter_rows, to_filter_columns; /* folded */
} folding;

static folding folding_of(const tli_conv *c, const tli_conv *f)
{
    return (folding){c->n,
                     c->rows,
                     c->columns,
                     c->in,
                     c->window.strides[0],
                     c->window.strides[1],
                     c->window.before[0],
                     c->window.before[1],
                     c->filter_rows,
                     c->filter_columns,
                     c->out,
                     f->rows,
                     f->columns,
                     f->in,
                     f->filter_rows,
                     f->filter_columns};
}

#define FOLDING_TEXT                                                                               \
    "struct folding { i64 n, h, w, c, sy, sx, top, left, kh, kw, k, th, tw, tc, tkh, tkw; };\n"    \
    "#define V %d\n"                                                                               \
    "struct alignas(16) vec { %s v[V]; };\n"

/* A thread writes one vector of channels of a folded pixel. */
static const char image_text[] = FOLDING_TEXT
    "extern \"C\" __global__ void kernel(const %s *x, %s *y, folding f)\n{\n"
    "    const i64 groups = f.tc / V, count = f.n * f.th * f.tw * groups;\n"
    "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count;\n"
    "         i += (i64)gridDim.x * blockDim.x) {\n"
    "        const u32 first = (u32)(i %% groups) * V, c = (u32)f.c, across = (u32)f.sx * c;\n"
    "        const i64 p = i / groups, q = p / f.tw;\n"
    "        const i64 left = p %% f.tw * f.sx - f.left, top = q %% f.th * f.sy - f.top;\n"
    "        const i64 n = q / f.th;\n"
    "        vec all;\n"
    "        UNROLL for (u32 k = 0; k < V; k++) {\n"
    "            const u32 at = first + k, dy = at / across, rest = at %% across;\n"
    "            const i64 row = top + dy, column = left + rest / c;\n"
    "            const bool in = dy < f.sy && row >= 0 && row < f.h && column >= 0\n"
    "                            && column < f.w;\n"
    "            all.v[k] = in ? x[((n * f.h + row) * f.w + column) * c + rest %% c] : 0;\n"
    "        }\n"
    "        *(vec *)(y + i * V) = all;\n    }\n}\n";

/* A thread has an element of the folded filter, which may be one of the filter. */
static const char filter_text[] = FOLDING_TEXT
    "extern \"C\" __global__ void kernel(OWN *w, %s *y, folding f, i64 back)\n{\n"
    "    const i64 count = f.k * f.tkh * f.tkw * f.tc;\n"
    "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count;\n"
    "         i += (i64)gridDim.x * blockDim.x) {\n"
    "        const i64 at = i %% f.tc, p = i / f.tc, q = p / f.tkw, across = f.sx * f.c;\n"
    "        const i64 row = q %% f.tkh * f.sy + at / across;\n"
    "        const i64 column = p %% f.tkw * f.sx + at %% across / f.c;\n"
    "        const i64 k = q / f.tkh, c = at %% f.c;\n"
    "        const bool in = at < f.sy * across && row < f.kh && column < f.kw;\n"
    "        const i64 own = ((row * f.kw + column) * f.c + c) * f.k + k;\n"
    "        if (!back) y[i] = in ? w[own] : 0;\n"
    "        else if (in) w[own] = LOAD(y[i]);\n    }\n}\n";

static tl_status kernel_of(const tl_run *run, CUfunction *out, const char *name, const char *text,
                           size_t size, const char *load)
{
    char key[48], body[2000];
    const char *unit = size == 2 ? "u16" : "u32";
    snprintf(key, sizeof key, "fold %s %zu %s", name, size, load);
    int used = snprintf(body, sizeof body, "#define OWN %s\n#define LOAD(x) %s(x)\n",
                        *load ? "float" : unit, load);
    // texts of this file
    used += snprintf(body + used, sizeof body - (size_t)used, text, (int)(VECTOR / size), unit,
                     unit, unit);
    TL_ASSERT(used < (int)sizeof body);
    (void)used;
    return tli_cuda_kernel(run, out, key, body);
}

tl_status tli_conv_fold_image(const tl_run *run, const tli_conv *c, const tli_conv *f,
                              const void *from, void *to)
{
    const size_t size = tl_dtype_size(c->dtype);
    folding args = folding_of(c, f);
    CUfunction kernel;
    void *parameters[] = {&from, &to, &args};
    TL_TRY(kernel_of(run, &kernel, "image", image_text, size, ""));
    return tli_cuda_start(
        run, kernel, f->n * f->rows * f->columns * f->in / (int64_t)(VECTOR / size), parameters);
}

tl_status tli_conv_fold_filter(const tl_run *run, const tli_conv *c, const tli_conv *f, void *own,
                               void *folded, bool back, const char *load)
{
    folding args = folding_of(c, f);
    int64_t goes_back = back;
    CUfunction kernel;
    void *parameters[] = {&own, &folded, &args, &goes_back};
    TL_TRY(kernel_of(run, &kernel, "filter", filter_text, tl_dtype_size(c->dtype), load));
    return tli_cuda_start(run, kernel, f->out * f->filter_rows * f->filter_columns * f->in,
                          parameters);
}
