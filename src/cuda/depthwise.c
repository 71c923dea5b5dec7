/* Convolutions of each channel on its own: little to compute and much to read, so that kernels of
 * our own, which read channels that lie side by side at once, do it best. Sums have one order. */
#include <stdio.h>

#include <tilth/base/integer.h>

#include "core/inner/storage.h"
#include "cuda/convs.h"
#include "cuda/kernels.h"
#include "nest/inner/words.h"

enum {
    VECTOR = 16,     /* bytes that a thread reads at once */
    MOST_TAPS = 49,  /* of a filter: */
    MOST_SUMS = 100, /* a thread of the filter's gradient has them all in registers */
    LANES = 1 << 16, /* threads that share the pixels of the filter's gradient, at most */
    JOINED = 64      /* sums that a thread adds up afterwards */
};

bool tli_conv_is_depthwise(const tli_conv *c)
{
    return c->groups == c->in && c->out == c->in && c->groups > 1
           && c->filter_rows * c->filter_columns <= MOST_TAPS;
}

typedef struct depth_args {
    int64_t n, rows, columns, channels, result_rows, result_columns;
    int64_t stride_y, stride_x, dilation_y, dilation_x, top, left;
    int64_t lanes; /* the filter's gradient */
} depth_args;

#define DEPTH_TEXT                                                                                 \
    "struct depth { i64 n, h, w, c, oh, ow, sy, sx, dy, dx, top, left, lanes; };\n"                \
    "struct alignas(V * sizeof(T)) vec { T v[V]; };\n"                                             \
    "#define AT(x, i) (*(const vec *)((x) + (i)))\n"                                               \
    "#define EACH(i, count)                                                                 \\\n"  \
    "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (count);              \\\n"  \
    "         i += (i64)gridDim.x * blockDim.x)\n"                                                 \
    "struct spot { i64 n, y, x, c; };\n"                                                           \
    "FN spot spot_of(i64 i, i64 h, i64 w, i64 c)\n{\n"                                             \
    "    const u32 groups = (u32)(c / V);\n"                                                       \
    "    const i64 q = i / groups, r = q / w;\n"                                                   \
    "    return {r / h, r % h, q % w, (i - q * groups) * V};\n}\n"

static const char forward_text[] = DEPTH_TEXT
    "extern \"C\" __global__ void kernel(const T *x, const T *f, T *y, depth d)\n{\n"
    "    EACH(i, d.n * d.oh * d.ow * (d.c / V)) {\n"
    "        const spot s = spot_of(i, d.oh, d.ow, d.c);\n"
    "        float sum[V];\n        vec to;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        UNROLL for (int r = 0; r < KH; r++) {\n"
    "            const i64 row = s.y * d.sy + r * d.dy - d.top;\n"
    "            if (row < 0 || row >= d.h) continue;\n"
    "            UNROLL for (int q = 0; q < KW; q++) {\n"
    "                const i64 column = s.x * d.sx + q * d.dx - d.left;\n"
    "                if (column < 0 || column >= d.w) continue;\n"
    "                const vec a = AT(x, ((s.n * d.h + row) * d.w + column) * d.c + s.c);\n"
    "                const vec b = AT(f, (r * KW + q) * d.c + s.c);\n"
    "                UNROLL for (int k = 0; k < V; k++)\n"
    "                    sum[k] = __fmaf_rn(LOAD(a.v[k]), LOAD(b.v[k]), sum[k]);\n"
    "            }\n        }\n"
    "        UNROLL for (int k = 0; k < V; k++) to.v[k] = STORE(sum[k]);\n"
    "        *(vec *)(y + i * V) = to;\n    }\n}\n";

static const char input_grad_text[] = DEPTH_TEXT
    "extern \"C\" __global__ void kernel(const T *g, const T *f, T *y, depth d)\n{\n"
    "    EACH(i, d.n * d.h * d.w * (d.c / V)) {\n"
    "        const spot s = spot_of(i, d.h, d.w, d.c);\n"
    "        float sum[V];\n        vec to;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        UNROLL for (int r = 0; r < KH; r++) {\n"
    "            const i64 down = s.y + d.top - r * d.dy;\n"
    "            const i64 row = down / d.sy;\n"
    "            if (down < 0 || row * d.sy != down || row >= d.oh) continue;\n"
    "            UNROLL for (int q = 0; q < KW; q++) {\n"
    "                const i64 across = s.x + d.left - q * d.dx;\n"
    "                const i64 column = across / d.sx;\n"
    "                if (across < 0 || column * d.sx != across || column >= d.ow) continue;\n"
    "                const vec a = AT(g, ((s.n * d.oh + row) * d.ow + column) * d.c + s.c);\n"
    "                const vec b = AT(f, (r * KW + q) * d.c + s.c);\n"
    "                UNROLL for (int k = 0; k < V; k++)\n"
    "                    sum[k] = __fmaf_rn(LOAD(a.v[k]), LOAD(b.v[k]), sum[k]);\n"
    "            }\n        }\n"
    "        UNROLL for (int k = 0; k < V; k++) to.v[k] = STORE(sum[k]);\n"
    "        *(vec *)(y + i * V) = to;\n    }\n}\n";

/* Thread (lane, channels) has every so manieth pixel of the result: [lanes, taps, channels]. */
static const char filter_grad_text[] = DEPTH_TEXT
    "extern \"C\" __global__ void kernel(const T *x, const T *g, float *y, depth d)\n{\n"
    "    const i64 groups = d.c / V, pixels = d.n * d.oh * d.ow;\n"
    "    EACH(i, d.lanes * groups) {\n"
    "        const i64 lane = i / groups, c = i % groups * V;\n"
    "        float sum[KH * KW][V];\n"
    "        UNROLL for (int t = 0; t < KH * KW; t++)\n"
    "            UNROLL for (int k = 0; k < V; k++) sum[t][k] = 0;\n"
    "        for (i64 p = lane; p < pixels; p += d.lanes) {\n"
    "            const i64 ox = p % d.ow, z = p / d.ow, oy = z % d.oh, n = z / d.oh;\n"
    "            const vec b = AT(g, p * d.c + c);\n"
    "            UNROLL for (int r = 0; r < KH; r++) {\n"
    "                const i64 row = oy * d.sy + r * d.dy - d.top;\n"
    "                if (row < 0 || row >= d.h) continue;\n"
    "                UNROLL for (int q = 0; q < KW; q++) {\n"
    "                    const i64 column = ox * d.sx + q * d.dx - d.left;\n"
    "                    if (column < 0 || column >= d.w) continue;\n"
    "                    const vec a = AT(x, ((n * d.h + row) * d.w + column) * d.c + c);\n"
    "                    UNROLL for (int k = 0; k < V; k++)\n"
    "                        sum[r * KW + q][k] = __fmaf_rn(LOAD(a.v[k]), LOAD(b.v[k]),\n"
    "                                                       sum[r * KW + q][k]);\n"
    "                }\n            }\n        }\n"
    "        UNROLL for (int t = 0; t < KH * KW; t++)\n"
    "            UNROLL for (int k = 0; k < V; k++)\n"
    "                y[(lane * (KH * KW) + t) * d.c + c + k] = sum[t][k];\n    }\n}\n";

/* Rows of [rows, width] are added up, some neighbours at a time; the last sums are the result. */
static const char join_text[] =
    "extern \"C\" __global__ void kernel(const float *x, float *y, T *last, i64 rows, i64 width)\n"
    "{\n"
    "    const i64 left = (rows + J - 1) / J, count = left * width;\n"
    "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count;\n"
    "         i += (i64)gridDim.x * blockDim.x) {\n"
    "        const i64 from = i / width * J, to = from + J < rows ? from + J : rows;\n"
    "        float sum = 0;\n"
    "        for (i64 r = from; r < to; r++) sum += x[r * width + i % width];\n"
    "        if (left == 1) last[i] = STORE(sum);\n        else y[i] = sum;\n    }\n}\n";

static void print(tl_str *out, const char *text, tl_dtype dtype, int64_t rows, int64_t columns,
                  int lanes)
{
    const char *load, *store, *type = tli_kernel_words(dtype, &load, &store);
    tl_str_addf(out,
                "typedef %s T;\n#define LOAD(x) %s(x)\n#define STORE(x) %s(x)\n#define KH %d\n"
                "#define KW %d\n#define V %d\n#define J %d\n",
                type, load, store, (int)rows, (int)columns, lanes, JOINED);
    tl_str_add(out, text);
}

bool tli_depthwise_text(tl_str *out, int number, tl_dtype dtype)
{
    static const char *const texts[] = {forward_text, input_grad_text, filter_grad_text, join_text};
    if (number >= TL_COUNT(texts)) return false;
    print(out, texts[number], dtype, 3, 3, (int)(VECTOR / tl_dtype_size(dtype)));
    return true;
}

static tl_status kernel_of(const tl_run *run, CUfunction *out, const char *text, const tli_conv *c,
                           int lanes)
{
    char key[64];
    tl_str body = TL_STR_INIT;
    const bool joins = text == join_text;
    snprintf(key, sizeof key, "depthwise %d %d %d %d %d", joins ? 3 : (int)c->way, (int)c->dtype,
             joins ? 0 : (int)c->filter_rows, joins ? 0 : (int)c->filter_columns, lanes);
    print(&body, text, c->dtype, c->filter_rows, c->filter_columns, lanes);
    tl_status st = tl_str_status(&body);
    if (st == TL_OK) st = tli_cuda_kernel(run, out, key, tl_str_text(&body));
    tl_str_deinit(&body);
    return st;
}

static depth_args args_of(const tli_conv *c)
{
    const tli_dnn_window *w = &c->window;
    return (depth_args){c->n,
                        c->rows,
                        c->columns,
                        c->in,
                        c->result_rows,
                        c->result_columns,
                        w->strides[0],
                        w->strides[1],
                        w->dilations[0],
                        w->dilations[1],
                        w->before[0],
                        w->before[1],
                        0};
}

/* Channels of a thread: so many as its reads and, of the filter's gradient, its sums allow. */
static int lanes_of(const tli_conv *c, const void *a, const void *b, const void *y)
{
    const size_t size = tl_dtype_size(c->dtype);
    const uintptr_t places = (uintptr_t)a | (uintptr_t)b | (uintptr_t)y;
    const int64_t taps = c->filter_rows * c->filter_columns;
    int lanes = (int)(VECTOR / size);
    while (lanes > 1
           && (c->in % lanes || places % ((size_t)lanes * size)
               || (c->way == TLI_DNN_FILTER_GRAD && taps * lanes > MOST_SUMS)))
        lanes /= 2;
    return lanes;
}

/* Sums of the lanes, then sums of sums. */
static tl_status filter_grad(const tl_run *run, const tli_conv *c, const void *x, const void *g,
                             void *y)
{
    const int lanes = lanes_of(c, x, g, NULL);
    const int64_t groups = c->in / lanes, pixels = c->n * c->result_rows * c->result_columns;
    int64_t width = c->filter_rows * c->filter_columns * c->in;
    depth_args args = args_of(c);
    CUfunction kernel, join;
    void *memory;
    args.lanes = tl_clamp_i64(LANES / groups, 1, pixels);
    int64_t rows = args.lanes;
    const size_t first = (size_t)(rows * width) * sizeof(float);
    TL_TRY(kernel_of(run, &kernel, filter_grad_text, c, lanes));
    TL_TRY(kernel_of(run, &join, join_text, c, 1));
    TL_TRY(tli_cuda_scratch(run, &memory, first + first / JOINED + (size_t)width * sizeof(float)));
    char *from = memory, *to = from + first;
    void *parameters[] = {&x, &g, &from, &args};
    TL_TRY(tli_cuda_start(run, kernel, rows * groups, parameters));
    for (bool over = false; !over;) {
        const int64_t left = tl_div_up(rows, JOINED);
        void *of_join[] = {&from, &to, &y, &rows, &width};
        TL_TRY(tli_cuda_start(run, join, left * width, of_join));
        over = left == 1;
        rows = left;
        char *swapped = from;
        from = to;
        to = swapped;
    }
    return TL_OK;
}

static tl_status gather(const tl_run *run, const tli_conv *c, const void *x, const void *f, void *y)
{
    const bool forward = c->way == TLI_DNN_FORWARD;
    const int lanes = lanes_of(c, x, f, y);
    depth_args args = args_of(c);
    CUfunction kernel;
    void *parameters[] = {&x, &f, &y, &args};
    const int64_t pixels =
        c->n * (forward ? c->result_rows * c->result_columns : c->rows * c->columns);
    TL_TRY(kernel_of(run, &kernel, forward ? forward_text : input_grad_text, c, lanes));
    return tli_cuda_start(run, kernel, pixels * (c->in / lanes), parameters);
}

tl_status tli_conv_depthwise(const tl_run *run, const tl_node *call, const tli_conv *c)
{
    const void *a = tli_data(call->in[0]), *b = tli_data(call->in[1]);
    void *y = tli_data(call->out[0]);
    return c->way == TLI_DNN_FILTER_GRAD ? filter_grad(run, c, a, b, y) : gather(run, c, a, b, y);
}
