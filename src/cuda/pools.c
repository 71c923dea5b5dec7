/* Pooling and resizing: a thread for some neighbouring channels of a pixel that is written, which
 * gathers what it is made of. So sums have one order, and nothing is added to what others write. */
#include "cuda/pools.h"

#include <inttypes.h>
#include <string.h>

#include "core/inner/pool.h"
#include "core/inner/storage.h"
#include "cuda/kernels.h"
#include "nest/inner/words.h"

enum { VECTOR = 16 /* bytes that a thread reads at once */, LARGE = 1 << 20 };

/* What a text is compiled for. */
typedef struct form {
    const char *name, *text;
    tl_dtype dtype;
    int lanes;                  /* channels of a thread */
    bool small;                 /* pixels are counted in 32 bits */
    bool wide;                  /* a window has more places than a byte can count */
    const tl_pool_attr *window; /* NULL: none */
    int64_t sizes[5];           /* of images and pooled images; 0: told when it is run */
} form;

/* Sizes of windows are known when kernels are compiled: all that a pixel is made of is begun to be
 * read at once. */
static void print_window(tl_str *body, const form *f)
{
    static const char *const names[] = {"H", "W", "C", "OH", "OW"};
    const tl_pool_attr *w = f->window;
    for (int i = 0; i < TL_COUNT(names); i++)
        if (f->sizes[0]) tl_str_addf(body, "#define %s_ %" PRId64 "\n", names[i], f->sizes[i]);
        else tl_str_addf(body, "#define %s_ p.sizes[%d]\n", names[i], i);
    tli_cuda_define(body, "SIZE_Y", w->size_y);
    tli_cuda_define(body, "SIZE_X", w->size_x);
    tli_cuda_define(body, "STRIDE_Y", w->stride_y);
    tli_cuda_define(body, "STRIDE_X", w->stride_x);
    tli_cuda_define(body, "TOP", w->top);
    tli_cuda_define(body, "LEFT", w->left);
    tl_str_addf(body, "#define EACH_TAP _Pragma(\"unroll%s\") for\n",
                w->size_y <= 16 && w->size_x <= 16 && w->size_y * w->size_x <= 16 ? "" : " 4");
}

static void print(tl_str *body, const form *f)
{
    const bool is_double = f->dtype == TL_F64;
    const char *load = "", *store = "", *type = "double";
    if (!is_double) type = tli_kernel_words(f->dtype, &load, &store);
    tl_str_addf(body,
                "typedef %s T;\ntypedef %s A;\ntypedef %s I;\ntypedef %s C;\ntypedef %s W;\n"
                "#define LOAD(x) %s(x)\n#define STORE(x) %s(x)\n#define V %d\n",
                type, is_double ? "double" : "float", f->small ? "u32" : "i64",
                f->small ? "i32" : "i64", f->wide ? "i32" : "u8", load, store, f->lanes);
    if (f->window) print_window(body, f);
    tl_str_add(body, "struct alignas(V * sizeof(T)) vec { T v[V]; };\n"
                     "#define EACH(i, count)                                                  \\\n"
                     "    for (I i = (I)blockIdx.x * blockDim.x + threadIdx.x; i < (count);   \\\n"
                     "         i += (I)gridDim.x * blockDim.x)\n"
                     "#define AT(x, i) (*(const vec *)((x) + (i)))\n");
    tl_str_add(body, f->text);
}

static tl_status kernel_of(const tl_run *run, CUfunction *out, const form *f)
{
    const tl_pool_attr none = {0}, *w = f->window ? f->window : &none;
    const int64_t numbers[] = {f->dtype,    f->lanes,    f->small,    f->wide,     w->size_y,
                               w->size_x,   w->stride_y, w->stride_x, w->top,      w->left,
                               f->sizes[0], f->sizes[1], f->sizes[2], f->sizes[3], f->sizes[4]};
    tl_str key = TL_STR_INIT, body = TL_STR_INIT;
    tl_str_add(&key, f->name);
    for (int i = 0; i < TL_COUNT(numbers); i++) tl_str_addf(&key, " %" PRId64, numbers[i]);
    print(&body, f);
    tl_status st = tl_str_status(&key);
    if (st == TL_OK) st = tl_str_status(&body);
    if (st == TL_OK) st = tli_cuda_kernel(run, out, tl_str_text(&key), tl_str_text(&body));
    tl_str_deinit(&key);
    tl_str_deinit(&body);
    return st;
}

/* As many channels as a thread can take at once. */
static int lanes_of(const tl_node *call, tl_dtype dtype)
{
    const tl_tensor *y = call->out[0];
    const int lanes = (int)(VECTOR / tl_dtype_size(dtype));
    bool aligned = y->shape.dims[3] % lanes == 0 && (uintptr_t)tli_data(y) % VECTOR == 0;
    for (int i = 0; i < call->inputs; i++)
        aligned = aligned && (uintptr_t)tli_data(call->in[i]) % VECTOR == 0;
    return aligned ? lanes : 1;
}

/* Of the numbers of its first input. */
static form form_of(const tl_node *call, const char *name, const char *text)
{
    const tl_dtype dtype = call->in[0]->dtype;
    int64_t most = tl_tensor_count(call->out[0]);
    for (int i = 0; i < call->inputs; i++)
        if (tl_tensor_count(call->in[i]) > most) most = tl_tensor_count(call->in[i]);
    return (form){name, text, dtype, lanes_of(call, dtype), most < INT32_MAX, false, NULL, {0}};
}

/* --- windows ---------------------------------------------------------------------------------- */

/* Image and pooled image: how many, then rows, columns and channels, and rows and columns. */
enum { ROWS_, COLUMNS_, CHANNELS_, POOLED_ROWS_, POOLED_COLUMNS_, SIZES_ };
typedef struct pool {
    int64_t n, sizes[SIZES_];
} pool;

static pool pool_of(const tl_tensor *image, const tl_tensor *pooled)
{
    const int64_t *x = image->shape.dims, *y = pooled->shape.dims;
    return (pool){x[0], {x[1], x[2], x[3], y[1], y[2]}};
}

/* Kernels for large images know their sizes too: they divide by them. */
static form window_of(const tl_node *call, const char *name, const char *text, const pool *p)
{
    form f = form_of(call, name, text);
    f.window = call->attr;
    if (p->n * p->sizes[ROWS_] * p->sizes[COLUMNS_] * p->sizes[CHANNELS_] >= LARGE)
        memcpy(f.sizes, p->sizes, sizeof f.sizes);
    return f;
}

/* What lies outside is read at the edge, and not used. The windows that cover a pixel have their
 * numbers, the first ones first. */
#define POOL_TEXT                                                                                  \
    "struct pool { i64 n, sizes[5]; };\n"                                                          \
    "struct spot { C n, y, x, c; };\n"                                                             \
    "FN spot spot_of(I i, i64 h, i64 w, i64 c)\n{\n"                                               \
    "    const I groups = (I)(c / V), q = i / groups, r = q / (I)w;\n"                             \
    "    return {(C)(r / (I)h), (C)(r % (I)h), (C)(q % (I)w), (C)(i % groups) * V};\n}\n"          \
    "FN bool is_in(C at, i64 count) { return at >= 0 && at < (C)count; }\n"                        \
    "FN C edge(C at, i64 count) { return at < 0 ? 0 : at < (C)count ? at : (C)count - 1; }\n"      \
    "FN I pixel(const pool &p, const spot &s, i64 h, i64 w, C y, C x)\n{\n"                        \
    "    return (I)(((s.n * (C)h + edge(y, h)) * (C)w + edge(x, w)) * (C)C_ + s.c);\n}\n"          \
    "#define DOWN ((SIZE_Y + STRIDE_Y - 1) / STRIDE_Y)\n"                                          \
    "#define ACROSS ((SIZE_X + STRIDE_X - 1) / STRIDE_X)\n"                                        \
    "struct window { C oy, ox, dy, dx; bool in; };\n"                                              \
    "FN window window_of(const pool &p, const spot &s, int k)\n{\n"                                \
    "    window a;\n"                                                                              \
    "    a.oy = (s.y + TOP) / STRIDE_Y - (DOWN - 1) + k / ACROSS;\n"                               \
    "    a.ox = (s.x + LEFT) / STRIDE_X - (ACROSS - 1) + k % ACROSS;\n"                            \
    "    a.dy = s.y + TOP - a.oy * STRIDE_Y;\n    a.dx = s.x + LEFT - a.ox * STRIDE_X;\n"          \
    "    a.in = is_in(a.oy, OH_) && is_in(a.ox, OW_) && a.dy < SIZE_Y && a.dx < SIZE_X;\n"         \
    "    return a;\n}\n"

static tl_status start(const tl_run *run, const form *f, const pool *p, int64_t pixels,
                       const void *x, const void *from, void *y)
{
    CUfunction kernel;
    pool by_value = *p;
    void *parameters[] = {&x, &from, &y, &by_value};
    const int64_t count = pixels * (p->sizes[CHANNELS_] / f->lanes);
    if (!count) return TL_OK;
    TL_TRY(kernel_of(run, &kernel, f));
    return tli_cuda_start(run, kernel, count, parameters);
}

/* --- the largest ------------------------------------------------------------------------------ */

/* The first of equals, a NaN before everything. WRITE says what becomes of the place. */
#define LARGEST_TEXT                                                                               \
    POOL_TEXT                                                                                      \
    "extern \"C\" __global__ void kernel(const T *x, const T *from, void *to, pool p)\n{\n"        \
    "    EACH(i, (I)(p.n * OH_ * OW_ * (C_ / V))) {\n"                                             \
    "        const spot s = spot_of(i, OH_, OW_, C_);\n"                                           \
    "        const C top = s.y * STRIDE_Y - TOP, left = s.x * STRIDE_X - LEFT;\n"                  \
    "        vec raw;\n        A best[V];\n        int at[V];\n"                                   \
    "        UNROLL for (int k = 0; k < V; k++) at[k] = -1;\n"                                     \
    "        EACH_TAP (int tap = 0; tap < SIZE_Y * SIZE_X; tap++) {\n"                             \
    "            const C y = top + tap / SIZE_X, x0 = left + tap % SIZE_X;\n"                      \
    "            const bool in = is_in(y, H_) && is_in(x0, W_);\n"                                 \
    "            const vec b = AT(x, pixel(p, s, H_, W_, y, x0));\n"                               \
    "            UNROLL for (int k = 0; k < V; k++) {\n"                                           \
    "                const A v = LOAD(b.v[k]);\n"                                                  \
    "                const bool more = in && (at[k] < 0\n"                                         \
    "                    || (best[k] == best[k] && (v > best[k] || v != v)));\n"                   \
    "                if (more) { best[k] = v; raw.v[k] = b.v[k]; at[k] = tap; }\n"                 \
    "            }\n        }\n"                                                                   \
    "        WRITE\n    }\n}\n"

static const char max_text[] =
    "#define WRITE (*(vec *)((T *)to + (i64)i * V)) = raw;\n" LARGEST_TEXT;
static const char pick_text[] =
    "#define WRITE                                                                             \\\n"
    "    UNROLL for (int k = 0; k < V; k++) {                                                  \\\n"
    "        const C y = top + at[k] / SIZE_X, x0 = left + at[k] % SIZE_X;                     \\\n"
    "        raw.v[k] = from[pixel(p, s, H_, W_, y, x0) + k];                                \\\n"
    "    }                                                                                     \\\n"
    "    (*(vec *)((T *)to + (i64)i * V)) = raw;\n" LARGEST_TEXT;
static const char place_text[] =
    "struct alignas(V * sizeof(W)) places { W v[V]; };\n"
    "#define WRITE                                                                             \\\n"
    "    places all;                                                                           \\\n"
    "    UNROLL for (int k = 0; k < V; k++) all.v[k] = (W)at[k];                               \\\n"
    "    (*(places *)((W *)to + (i64)i * V)) = all;\n" LARGEST_TEXT;
static const char max_grad_text[] =
    "struct alignas(V * sizeof(W)) places { W v[V]; };\n" POOL_TEXT
    "extern \"C\" __global__ void kernel(const T *g, const W *at, T *to, pool p)\n{\n"
    "    EACH(i, (I)(p.n * H_ * W_ * (C_ / V))) {\n"
    "        const spot s = spot_of(i, H_, W_, C_);\n"
    "        A sum[V];\n        vec y;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        EACH_TAP (int j = 0; j < DOWN * ACROSS; j++) {\n"
    "            const window a = window_of(p, s, j);\n"
    "            const I o = pixel(p, s, OH_, OW_, a.oy, a.ox);\n"
    "            const places all = *(const places *)(at + o);\n"
    "            const vec b = AT(g, o);\n"
    "            UNROLL for (int k = 0; k < V; k++)\n"
    "                if (a.in && all.v[k] == (W)(a.dy * SIZE_X + a.dx)) sum[k] += LOAD(b.v[k]);\n"
    "        }\n"
    "        UNROLL for (int k = 0; k < V; k++) y.v[k] = STORE(sum[k]);\n"
    "        (*(vec *)(to + (i64)i * V)) = y;\n    }\n}\n";

static int64_t pooled_pixels(const pool *p)
{
    return p->n * p->sizes[POOLED_ROWS_] * p->sizes[POOLED_COLUMNS_];
}

static tl_status max_pool2d(const tl_run *run, const tl_node *call)
{
    const pool p = pool_of(call->in[0], call->out[0]);
    const form f = window_of(call, "max_pool", max_text, &p);
    return start(run, &f, &p, pooled_pixels(&p), tli_data(call->in[0]), NULL,
                 tli_data(call->out[0]));
}

static tl_status max_pool2d_pick(const tl_run *run, const tl_node *call)
{
    const pool p = pool_of(call->in[1], call->out[0]);
    const form f = window_of(call, "max_pool_pick", pick_text, &p);
    return start(run, &f, &p, pooled_pixels(&p), tli_data(call->in[1]), tli_data(call->in[0]),
                 tli_data(call->out[0]));
}

/* Which element of each window is the largest. */
static tl_status find_places(const tl_run *run, const tl_node *call, const pool *p,
                             const tl_tensor *x, void *to)
{
    form f = window_of(call, "max_pool_place", place_text, p);
    f.wide = !tli_pool_counts_in_bytes(call->attr);
    return start(run, &f, p, pooled_pixels(p), tli_data(x), NULL, to);
}

static tl_status max_pool2d_places(const tl_run *run, const tl_node *call)
{
    const pool p = pool_of(call->in[0], call->out[0]);
    return find_places(run, call, &p, call->in[0], tli_data(call->out[0]));
}

/* What comes from these, which are looked for first unless they are told. */
static tl_status max_pool2d_grad(const tl_run *run, const tl_node *call)
{
    const tl_tensor *g = call->in[0], *by = call->in[1];
    tl_tensor *y = call->out[0];
    const pool p = pool_of(y, g);
    form f = window_of(call, "max_pool_grad", max_grad_text, &p);
    f.wide = !tli_pool_counts_in_bytes(call->attr);
    void *places = tli_data(by);
    if (by->dtype != TL_U8) {
        TL_TRY(tli_cuda_scratch(run, &places,
                                (size_t)tl_tensor_count(g) * (f.wide ? sizeof(int32_t) : 1)));
        TL_TRY(find_places(run, call, &p, by, places));
    }
    return start(run, &f, &p, p.n * p.sizes[ROWS_] * p.sizes[COLUMNS_], tli_data(g), places,
                 tli_data(y));
}

/* --- the mean --------------------------------------------------------------------------------- */

/* How many pixels a window has. */
#define COUNT_TEXT                                                                                 \
    "FN C lesser(C a, C b) { return a < b ? a : b; }\n"                                            \
    "FN A count_of(const pool &p, C oy, C ox)\n{\n"                                                \
    "    const C y = oy * STRIDE_Y - TOP, x = ox * STRIDE_X - LEFT;\n"                             \
    "    return (A)((lesser(y + SIZE_Y, (C)H_) - (y > 0 ? y : 0))\n"                               \
    "               * (lesser(x + SIZE_X, (C)W_) - (x > 0 ? x : 0)));\n}\n"
static const char avg_text[] = POOL_TEXT COUNT_TEXT
    "extern \"C\" __global__ void kernel(const T *x, const T *from, T *to, pool p)\n{\n"
    "    EACH(i, (I)(p.n * OH_ * OW_ * (C_ / V))) {\n"
    "        const spot s = spot_of(i, OH_, OW_, C_);\n"
    "        A sum[V];\n        vec r;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        EACH_TAP (int tap = 0; tap < SIZE_Y * SIZE_X; tap++) {\n"
    "            const C y = s.y * STRIDE_Y - TOP + tap / SIZE_X;\n"
    "            const C x0 = s.x * STRIDE_X - LEFT + tap % SIZE_X;\n"
    "            const bool in = is_in(y, H_) && is_in(x0, W_);\n"
    "            const vec b = AT(x, pixel(p, s, H_, W_, y, x0));\n"
    "            UNROLL for (int k = 0; k < V; k++) if (in) sum[k] += LOAD(b.v[k]);\n"
    "        }\n"
    "        const A count = count_of(p, s.y, s.x);\n"
    "        UNROLL for (int k = 0; k < V; k++) r.v[k] = STORE(sum[k] / count);\n"
    "        (*(vec *)(to + (i64)i * V)) = r;\n    }\n}\n";
static const char avg_grad_text[] = POOL_TEXT COUNT_TEXT
    "extern \"C\" __global__ void kernel(const T *g, const T *from, T *to, pool p)\n{\n"
    "    EACH(i, (I)(p.n * H_ * W_ * (C_ / V))) {\n"
    "        const spot s = spot_of(i, H_, W_, C_);\n"
    "        A sum[V];\n        vec r;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        EACH_TAP (int j = 0; j < DOWN * ACROSS; j++) {\n"
    "            const window a = window_of(p, s, j);\n"
    "            const vec b = AT(g, pixel(p, s, OH_, OW_, a.oy, a.ox));\n"
    "            const A count = count_of(p, a.oy, a.ox);\n"
    "            UNROLL for (int k = 0; k < V; k++) if (a.in) sum[k] += LOAD(b.v[k]) / count;\n"
    "        }\n"
    "        UNROLL for (int k = 0; k < V; k++) r.v[k] = STORE(sum[k]);\n"
    "        (*(vec *)(to + (i64)i * V)) = r;\n    }\n}\n";

static tl_status avg_pool2d(const tl_run *run, const tl_node *call)
{
    const pool p = pool_of(call->in[0], call->out[0]);
    const form f = window_of(call, "avg_pool", avg_text, &p);
    return start(run, &f, &p, pooled_pixels(&p), tli_data(call->in[0]), NULL,
                 tli_data(call->out[0]));
}

static tl_status avg_pool2d_grad(const tl_run *run, const tl_node *call)
{
    const pool p = pool_of(call->out[0], call->in[0]);
    const form f = window_of(call, "avg_pool_grad", avg_grad_text, &p);
    return start(run, &f, &p, p.n * p.sizes[ROWS_] * p.sizes[COLUMNS_], tli_data(call->in[0]), NULL,
                 tli_data(call->out[0]));
}

/* --- resizing --------------------------------------------------------------------------------- */

/* From [n, h, w, c] to [n, oh, ow, c]; the numbers are those of the CPU (cpu/resize.h). */
typedef struct resizing {
    int64_t n, rows, columns, channels, to_rows, to_columns, nearest, align_corners;
} resizing;

#define RESIZE_TEXT                                                                                \
    "struct resizing { i64 n, h, w, c, oh, ow, nearest, corners; };\n"                             \
    "struct blend { i64 first, second; double part; };\n"                                          \
    "FN blend blend_of(const resizing &r, i64 i, i64 from, i64 to)\n{\n"                           \
    "    if (r.nearest) {\n"                                                                       \
    "        const i64 at = !r.corners ? (2 * i + 1) * from / (2 * to)\n"                          \
    "                       : to > 1 ? (2 * i * (from - 1) + to - 1) / (2 * (to - 1)) : 0;\n"      \
    "        return {at, at, 0};\n    }\n"                                                         \
    "    double at = r.corners\n"                                                                  \
    "        ? (to > 1 ? (double)i * (double)(from - 1) / (double)(to - 1) : 0)\n"                 \
    "        : fmax(((double)i + 0.5) * (double)from / (double)to - 0.5, 0.0);\n"                  \
    "    const i64 first = (i64)at < from - 1 ? (i64)at : from - 1;\n"                             \
    "    return {first, first + 1 < from - 1 ? first + 1 : from - 1, at - (double)first};\n}\n"    \
    "FN double share(const blend &b, i64 p)\n{\n"                                                  \
    "    return (b.first == p ? 1 - b.part : 0) + (b.second == p ? b.part : 0);\n}\n"              \
    "FN void made_of(i64 *first, i64 *last, const resizing &r, i64 p, i64 from, i64 to)\n{\n"      \
    "    const double shift = r.corners ? 0 : 0.5;\n"                                              \
    "    const double scale = r.corners ? (double)(to - 1) / (double)(from > 1 ? from - 1 : 1)\n"  \
    "                                   : (double)to / (double)from;\n"                            \
    "    const i64 end = (i64)(((double)p + 1 + shift) * scale - shift + 2);\n"                    \
    "    *first = (i64)fmax(((double)p - 1 + shift) * scale - shift - 1, 0.0);\n"                  \
    "    *last = from > 1 && end < to - 1 ? end : to - 1;\n}\n"

static const char resize_text[] = RESIZE_TEXT
    "extern \"C\" __global__ void kernel(const T *x, T *y, resizing r)\n{\n"
    "    EACH(i, (I)(r.n * r.oh * r.ow * (r.c / V))) {\n"
    "        const I groups = (I)(r.c / V), q = i / groups, p = q / (I)r.ow;\n"
    "        const blend across = blend_of(r, (i64)(q % (I)r.ow), r.w, r.ow);\n"
    "        const blend down = blend_of(r, (i64)(p % (I)r.oh), r.h, r.oh);\n"
    "        const i64 n = (i64)(p / (I)r.oh), c = (i64)(i % groups) * V;\n"
    "        A sum[V];\n        vec to;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        for (int t = 0; t < 4; t++) {\n"
    "            const double weight = (t & 2 ? down.part : 1 - down.part)\n"
    "                                  * (t & 1 ? across.part : 1 - across.part);\n"
    "            if (weight == 0) continue;\n"
    "            const i64 row = t & 2 ? down.second : down.first;\n"
    "            const i64 column = t & 1 ? across.second : across.first;\n"
    "            const vec b = AT(x, ((n * r.h + row) * r.w + column) * r.c + c);\n"
    "            UNROLL for (int k = 0; k < V; k++) sum[k] += (A)weight * LOAD(b.v[k]);\n"
    "        }\n"
    "        UNROLL for (int k = 0; k < V; k++) to.v[k] = STORE(sum[k]);\n"
    "        (*(vec *)(y + (i64)i * V)) = to;\n    }\n}\n";
static const char resize_grad_text[] = RESIZE_TEXT
    "extern \"C\" __global__ void kernel(const T *g, T *y, resizing r)\n{\n"
    "    EACH(i, (I)(r.n * r.h * r.w * (r.c / V))) {\n"
    "        const I groups = (I)(r.c / V), q = i / groups, p = q / (I)r.w;\n"
    "        const i64 column = (i64)(q % (I)r.w), row = (i64)(p % (I)r.h);\n"
    "        const i64 n = (i64)(p / (I)r.h), c = (i64)(i % groups) * V;\n"
    "        i64 top, bottom, left, right;\n        A sum[V];\n        vec to;\n"
    "        UNROLL for (int k = 0; k < V; k++) sum[k] = 0;\n"
    "        made_of(&top, &bottom, r, row, r.h, r.oh);\n"
    "        made_of(&left, &right, r, column, r.w, r.ow);\n"
    "        for (i64 gy = top; gy <= bottom; gy++) {\n"
    "            const double height = share(blend_of(r, gy, r.h, r.oh), row);\n"
    "            for (i64 gx = left; height != 0 && gx <= right; gx++) {\n"
    "                const double weight = height * share(blend_of(r, gx, r.w, r.ow), column);\n"
    "                if (weight == 0) continue;\n"
    "                const vec b = AT(g, ((n * r.oh + gy) * r.ow + gx) * r.c + c);\n"
    "                UNROLL for (int k = 0; k < V; k++) sum[k] += (A)weight * LOAD(b.v[k]);\n"
    "            }\n        }\n"
    "        UNROLL for (int k = 0; k < V; k++) to.v[k] = STORE(sum[k]);\n"
    "        (*(vec *)(y + (i64)i * V)) = to;\n    }\n}\n";

static tl_status start_resize(const tl_run *run, const tl_node *call, const tl_tensor *from,
                              const tl_tensor *to, const form *f)
{
    const tl_resize_attr *a = call->attr;
    const int64_t *x = from->shape.dims, *y = to->shape.dims;
    resizing r = {x[0], x[1], x[2], x[3], y[1], y[2], a->method == TL_NEAREST, a->align_corners};
    CUfunction kernel;
    void *in = tli_data(call->in[0]), *out = tli_data(call->out[0]),
         *parameters[] = {&in, &out, &r};
    const int64_t count = tl_tensor_count(call->out[0]);
    if (!count) return TL_OK;
    TL_TRY(kernel_of(run, &kernel, f));
    return tli_cuda_start(run, kernel, count / f->lanes, parameters);
}

static tl_status resize(const tl_run *run, const tl_node *call)
{
    const form f = form_of(call, "resize", resize_text);
    return start_resize(run, call, call->in[0], call->out[0], &f);
}

static tl_status resize_grad(const tl_run *run, const tl_node *call)
{
    const form f = form_of(call, "resize_grad", resize_grad_text);
    return start_resize(run, call, call->out[0], call->in[0], &f);
}

bool tli_cuda_pool_text(tl_str *out, int number, tl_dtype dtype, bool vectors)
{
    static const char *const texts[] = {max_text, pick_text,     place_text,  max_grad_text,
                                        avg_text, avg_grad_text, resize_text, resize_grad_text};
    static const tl_pool_attr window = {
        .size_y = 3, .size_x = 5, .stride_y = 2, .stride_x = 3, .top = 1, .left = 2};
    const form f = {"",      number < TL_COUNT(texts) ? texts[number] : NULL,
                    dtype,   vectors ? (int)(VECTOR / tl_dtype_size(dtype)) : 1,
                    vectors, !vectors,
                    &window, {0}};
    if (f.text) print(out, &f);
    return f.text != NULL;
}

#define ROWS_WITH(op, flags)                                                                       \
    {TL_OP_##op, TL_F32, op, flags}, {TL_OP_##op, TL_BF16, op, flags},                             \
        {TL_OP_##op, TL_F16, op, flags},                                                           \
    {                                                                                              \
        TL_OP_##op, TL_F64, op, flags                                                              \
    }
#define ROWS(op) ROWS_WITH(op, 0)
static const tl_kernel rows[] = {
    ROWS(max_pool2d),      ROWS(max_pool2d_grad),
    ROWS(max_pool2d_pick), ROWS_WITH(max_pool2d_places, TL_KERNEL_JOINED),
    ROWS(avg_pool2d),      ROWS(avg_pool2d_grad),
    ROWS(resize),          ROWS(resize_grad),
};
const tl_kernels tli_cuda_pool_kernels = {rows, TL_COUNT(rows)};
