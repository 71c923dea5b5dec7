#include "cuda/convs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/engine.h"
#include "cuda/dnn_plans.h"
#include "cuda/kernels.h"
#include "cuda/lanes.h"
#include "cuda/products.h"

enum { KEY = 256, ROOM = 256 };
/* Plans that want more are passed over: it lies beside the tensors of a whole program. */
static const int64_t most_workspace = INT64_C(1) << 30;
/* Sums of products from which on it pays to measure plans: below, any takes a few microseconds. */
static const double least_measured = 5e7;

/* --- what a call computes --------------------------------------------------------------------- */

typedef struct operands {
    tl_tensor *image, *filter, *result;
} operands;

static operands operands_of(const tl_node *call)
{
    switch (call->op->op) {
    case TL_OP_convolve2d_input_grad: return (operands){call->out[0], call->in[1], call->in[0]};
    case TL_OP_convolve2d_filter_grad: return (operands){call->in[0], call->out[0], call->in[1]};
    default: return (operands){call->in[0], call->in[1], call->out[0]};
    }
}

static tli_dnn_way way_of(const tl_node *call)
{
    return call->op->op == TL_OP_convolve2d_input_grad    ? TLI_DNN_INPUT_GRAD
           : call->op->op == TL_OP_convolve2d_filter_grad ? TLI_DNN_FILTER_GRAD
                                                          : TLI_DNN_FORWARD;
}

tli_conv tli_conv_of(const tl_node *call)
{
    const tl_conv_attr *a = call->attr;
    const operands o = operands_of(call);
    const int64_t *x = o.image->shape.dims, *w = o.filter->shape.dims, *y = o.result->shape.dims;
    return (tli_conv){
        .way = way_of(call),
        .dtype = o.image->dtype,
        .n = x[0],
        .rows = x[1],
        .columns = x[2],
        .in = x[3],
        .filter_rows = w[0],
        .filter_columns = w[1],
        .groups = a->groups,
        .result_rows = y[1],
        .result_columns = y[2],
        .out = y[3],
        .window = {.strides = {a->stride_y, a->stride_x},
                   .dilations = {a->dilation_y, a->dilation_x},
                   .before = {a->top, a->left},
                   .after = {a->bottom, a->right}},
    };
}

static bool is_empty(const tli_conv *c)
{
    return !c->n || !c->rows || !c->columns || !c->in || !c->out;
}

// Each pixel on its own, without anything around the image.
static bool is_product(const tli_conv *c)
{
    const tli_dnn_window *w = &c->window;
    return c->filter_rows == 1 && c->filter_columns == 1 && c->groups == 1 && w->strides[0] == 1
           && w->strides[1] == 1 && !(w->before[0] | w->before[1] | w->after[0] | w->after[1]);
}

/* The same on an image that has its frame of zeros already. */
static tli_conv framed(const tli_conv *c)
{
    tli_conv f = *c;
    f.rows += c->window.before[0] + c->window.after[0];
    f.columns += c->window.before[1] + c->window.after[1];
    for (int i = 0; i < 2; i++) f.window.before[i] = f.window.after[i] = 0;
    return f;
}

/* --- plans ------------------------------------------------------------------------------------ */

// [n, rows, columns, channels] as cuDNN counts: n, channels, rows, columns.
static tli_dnn_shape shape_of(tl_dtype dtype, int64_t n, int64_t rows, int64_t columns,
                              int64_t channels)
{
    return (tli_dnn_shape){dtype,
                           {n, channels, rows, columns},
                           {rows * columns * channels, 1, columns * channels, channels}};
}

void tli_conv_draw(tli_dnn_graph *g, const void *conv)
{
    const tli_conv *c = conv;
    const tli_dnn_shape x = shape_of(c->dtype, c->n, c->rows, c->columns, c->in);
    const tli_dnn_shape w =
        shape_of(c->dtype, c->out, c->filter_rows, c->filter_columns, c->in / c->groups);
    const tli_dnn_shape y = shape_of(c->dtype, c->n, c->result_rows, c->result_columns, c->out);
    tli_dnn_node image = tli_dnn_tensor(g, TLI_CONV_IMAGE, &x);
    tli_dnn_node filter = tli_dnn_tensor(g, TLI_CONV_FILTER, &w);
    tli_dnn_node result = tli_dnn_tensor(g, TLI_CONV_RESULT, &y);
    tli_dnn_convolve(g, c->way, &c->window, image, filter, result);
}

static tl_status find(tli_cuda *d, const tli_dnn_plan **out, const tli_conv *c)
{
    char key[KEY];
    const tli_dnn_window *w = &c->window;
    const int64_t size = (int64_t)tl_dtype_size(c->dtype);
    const double work = (double)(c->n * c->result_rows * c->result_columns * c->out)
                        * (double)(c->filter_rows * c->filter_columns * (c->in / c->groups));
    const tli_dnn_wanted wanted = {
        .key = key,
        .draw = tli_conv_draw,
        .what = c,
        .refused = c->dtype == TL_F32 ? TLI_DNN_REFUSED_EXACTLY : TLI_DNN_REFUSED,
        .most = most_workspace,
        .bytes = {c->n * c->rows * c->columns * c->in * size,
                  c->filter_rows * c->filter_columns * (c->in / c->groups) * c->out * size,
                  c->n * c->result_rows * c->result_columns * c->out * size},
        .count = work >= least_measured ? 3 : 0,
    };
#define P " %" PRId64
    snprintf(key, sizeof key, "conv %d %s" P P P P P P P P P P P P P P P P P P, (int)c->way,
             tl_dtype_name(c->dtype), c->n, c->rows, c->columns, c->in, c->filter_rows,
             c->filter_columns, c->groups, c->result_rows, c->result_columns, c->out, w->strides[0],
             w->strides[1], w->dilations[0], w->dilations[1], w->before[0], w->before[1],
             w->after[0], w->after[1]);
#undef P
    return tli_dnn_find(d, out, &wanted);
}

/* How an image reaches cuDNN. */
typedef enum shaping { AS_IT_IS, FRAMED, FOLDED } shaping;

/* NULL: there is none. `c` becomes the convolution that the plan is for. Where there are more zeros
 * on one side of the image than on the other, cuDNN has plans that give wrong numbers (9.19, the
 * filter's gradient in float32): such images get their frame before. */
static tl_status find_any(tli_cuda *d, const tli_dnn_plan **out, tli_conv *c, shaping *how)
{
    const tli_dnn_window *w = &c->window;
    const bool even = w->before[0] == w->after[0] && w->before[1] == w->after[1];
    const tli_conv asked = *c;
    *out = NULL;
    if (tli_conv_folds(&asked)) {
        *how = FOLDED;
        *c = tli_conv_fold(&asked);
        TL_TRY(find(d, out, c));
    }
    if (!*out && even) {
        *how = AS_IT_IS;
        *c = asked;
        TL_TRY(find(d, out, c));
    }
    if (!*out) {
        *how = FRAMED;
        *c = framed(&asked);
        TL_TRY(find(d, out, c));
    }
    return TL_OK;
}

static tl_status has_plan(const tl_engine *engine, tli_conv *c, bool *yes)
{
    tli_cuda *d = tli_cuda_of(engine->device);
    const tli_dnn_plan *plan;
    shaping how;
    TL_TRY(tli_cuda_enter(d));
    pthread_mutex_lock(&d->calls);
    tl_status st = find_any(d, &plan, c, &how);
    pthread_mutex_unlock(&d->calls);
    *yes = st == TL_OK && plan;
    return st;
}

bool tli_cuda_conv_takes(const tl_engine *engine, const tl_node *call)
{
    tli_conv c = tli_conv_of(call);
    bool yes =
        is_empty(&c) || is_product(&c) || tli_conv_is_depthwise(&c) || tli_conv_has_patches(&c);
    if (yes || has_plan(engine, &c, &yes) == TL_OK) return yes;
    tl_error_clear(); // the kernel will tell it
    return true;
}

/* --- what lies otherwise for cuDNN ------------------------------------------------------------ */

static const char *unit_of(size_t size)
{
    return size == 2 ? "u16" : size == 4 ? "u32" : "u64";
}

/* [rows, columns] to [columns, rows]; `load` makes floats of what is read. */
static tl_status transpose_kernel(const tl_run *run, CUfunction *out, size_t size, const char *load)
{
    char key[32], body[1000];
    const char *unit = unit_of(size);
    snprintf(key, sizeof key, "transpose %zu %s", size, load);
    snprintf(body, sizeof body,
             "extern \"C\" __global__ void kernel(const %s *x, %s *y, i64 rows, i64 columns)\n{\n"
             "    __shared__ %s tile[32][33];\n"
             "    const i64 across = (columns + 31) / 32;\n"
             "    const i64 r0 = blockIdx.x / across * 32, c0 = blockIdx.x %% across * 32;\n"
             "    const int a = threadIdx.x %% 32, b = threadIdx.x / 32;\n"
             "    for (int i = b; i < 32; i += 8)\n"
             "        if (r0 + i < rows && c0 + a < columns)\n"
             "            tile[i][a] = x[(r0 + i) * columns + c0 + a];\n"
             "    __syncthreads();\n"
             "    for (int i = b; i < 32; i += 8)\n"
             "        if (c0 + i < columns && r0 + a < rows)\n"
             "            y[(c0 + i) * rows + r0 + a] = %s(tile[a][i]);\n}\n",
             unit, *load ? "float" : unit, unit, load);
    return tli_cuda_kernel(run, out, key, body);
}

static tl_status transpose(const tl_run *run, size_t size, const void *from, void *to, int64_t rows,
                           int64_t columns, const char *load)
{
    const int64_t tiles = tl_div_up(rows, 32) * tl_div_up(columns, 32);
    CUfunction kernel;
    void *parameters[] = {&from, &to, &rows, &columns};
    TL_TRY(transpose_kernel(run, &kernel, size, load));
    return tli_cuda_start(run, kernel, tiles * 256, parameters); // blocks of 256 threads
}

/* An image at an offset in another one: with zeros around it, or with less of it. */
typedef struct frame {
    int64_t n, from_rows, from_columns, to_rows, to_columns, top, left, channels;
} frame;

/* A group of threads has a row: a part of one of x, and zeros on both sides of it. */
static tl_status frame_kernel(const tl_run *run, CUfunction *out, size_t unit)
{
    char key[32];
    tl_str body = TL_STR_INIT;
    snprintf(key, sizeof key, "frame %zu", unit);
    tli_cuda_define_unit(&body, unit);
    tl_str_add(
        &body,
        "struct frame { i64 n, fr, fc, tr, tc, top, left, channels; };\n"
        "extern \"C\" __global__ void kernel(const U_T *RESTRICT x, U_T *RESTRICT y, frame f)\n{\n"
        "    const i64 row = (i64)blockIdx.x % f.tr - f.top, n = (i64)blockIdx.x / f.tr;\n"
        "    const i32 width = (i32)(f.tc * f.channels), left = (i32)(f.left * f.channels);\n"
        "    const i32 own = row >= 0 && row < f.fr ? (i32)(f.fc * f.channels) : 0;\n"
        "    const U_T *from = x + (n * f.fr + row) * f.fc * f.channels;\n"
        "    U_T *to = y + (i64)blockIdx.x * width;\n"
        "    _Pragma(\"unroll 4\") for (i32 i = (i32)threadIdx.x; i < width; i += 256) {\n"
        "        const i32 at = i - left;\n"
        "        U_T v = {0};\n"
        "        if (at >= 0 && at < own) v = from[at];\n"
        "        to[i] = v;\n"
        "    }\n}\n");
    tl_status st = tl_str_status(&body);
    if (st == TL_OK) st = tli_cuda_kernel(run, out, key, tl_str_text(&body));
    tl_str_deinit(&body);
    return st;
}

/* Channels are moved in as large units as they have. */
static tl_status put_frame(const tl_run *run, size_t size, const void *from, void *to, frame f)
{
    CUfunction kernel;
    void *parameters[] = {&from, &to, &f};
    size_t unit = TLI_DNN_ALIGNMENT;
    while ((size_t)f.channels * size % unit || (uintptr_t)from % unit || (uintptr_t)to % unit)
        unit /= 2;
    f.channels = f.channels * (int64_t)size / (int64_t)unit;
    if (f.to_columns * f.channels > INT32_MAX || f.from_columns * f.channels > INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "a row of the image is too long for a GPU");
    TL_TRY(frame_kernel(run, &kernel, unit));
    return tli_cuda_start(run, kernel, f.n * f.to_rows * 256, parameters); // a block for each row
}

/* --- running ---------------------------------------------------------------------------------- */

/* A convolution on its way through cuDNN. */
typedef struct passage {
    const tl_run *run;
    operands o;
    tli_conv asked, done; /* what the call wants, what the plan is for */
    shaping how;
    const tli_dnn_plan *plan;
    char *scratch;
    char *image, *filter, *result; /* where cuDNN finds them */
} passage;

static bool is_aligned(const tl_tensor *t)
{
    return (uintptr_t)tli_data(t) % TLI_DNN_ALIGNMENT == 0;
}

// Of the scratch: what comes after `bytes` more.
static size_t reserve(size_t *used, size_t bytes)
{
    const size_t at = *used;
    *used += tl_round_up_size(bytes, ROOM);
    return at;
}

static tl_status lay_out(passage *p)
{
    const tli_conv *c = &p->done;
    const size_t size = tl_dtype_size(c->dtype);
    const bool copies_image =
        c->rows != p->asked.rows || c->columns != p->asked.columns || !is_aligned(p->o.image);
    const bool copies_result = !is_aligned(p->o.result);
    size_t used = 0;
    void *at;
    const size_t work = reserve(&used, (size_t)p->plan->workspace);
    const int64_t taps = c->filter_rows * c->filter_columns * (c->in / c->groups);
    const size_t filter = reserve(&used, (size_t)(c->out * taps) * size);
    const size_t image =
        reserve(&used, copies_image ? (size_t)(c->n * c->rows * c->columns * c->in) * size : 0);
    const size_t result = reserve(&used, copies_result ? tl_tensor_bytes(p->o.result) : 0);
    TL_TRY(tli_cuda_scratch(p->run, &at, used));
    p->scratch = at;
    p->filter = p->scratch + filter;
    p->image = copies_image ? p->scratch + image : tli_data(p->o.image);
    p->result = copies_result ? p->scratch + result : tli_data(p->o.result);
    p->scratch += work;
    return TL_OK;
}

static tl_status bring_image(const passage *p, bool back)
{
    const tli_conv *a = &p->asked, *d = &p->done;
    char *own = tli_data(p->o.image);
    if (p->image == own) return TL_OK;
    if (p->how == FOLDED) return tli_conv_fold_image(p->run, a, d, own, p->image); // never back
    frame f = {
        a->n, a->rows, a->columns, d->rows, d->columns, a->window.before[0], a->window.before[1],
        a->in};
    if (p->how == AS_IT_IS) f.top = f.left = 0;
    if (!back) return put_frame(p->run, tl_dtype_size(a->dtype), own, p->image, f);
    f = (frame){a->n, d->rows, d->columns, a->rows, a->columns, -f.top, -f.left, a->in};
    return put_frame(p->run, tl_dtype_size(a->dtype), p->image, own, f);
}

static tl_status bring_result(const passage *p, bool back)
{
    char *own = tli_data(p->o.result);
    if (p->result == own) return TL_OK;
    return p->run->queue->device->cls->copy(p->run->queue, back ? own : p->result,
                                            back ? p->result : own, tl_tensor_bytes(p->o.result));
}

/* Before it is needed, where that can be. */
static tl_status turn_early(passage *p, size_t size, int64_t rows, int64_t columns, bool *done)
{
    tli_cuda_queue *q = tli_cuda_queue_of(p->run->queue);
    const char *own = tli_data(p->o.filter);
    char *place;
    tli_early how;
    TL_TRY(tli_cuda_turn(q, own, tl_tensor_bytes(p->o.filter), rows, columns, &place, &how));
    *done = how != TLI_NOT_EARLY;
    if (*done) p->filter = place;
    if (how != TLI_TURN_NOW) return TL_OK;
    TL_TRY(transpose(p->run, size, own, place, rows, columns, ""));
    return tli_cuda_turned(q);
}

/* What makes a float of an element of cuDNN's filter, where the call's is float32; else "". */
static const char *load_of(const passage *p)
{
    const tl_dtype dtype = p->asked.dtype;
    if (p->o.filter->dtype == dtype) return "";
    return dtype == TL_BF16 ? "from_bf16" : "from_f16";
}

static tl_status bring_filter(passage *p, bool back)
{
    const int64_t columns = p->asked.out, rows = tl_tensor_count(p->o.filter) / columns;
    const size_t size = tl_dtype_size(p->asked.dtype);
    char *own = tli_data(p->o.filter);
    if (p->how == FOLDED)
        return tli_conv_fold_filter(p->run, &p->asked, &p->done, own, p->filter, back, load_of(p));
    if (back) return transpose(p->run, size, p->filter, own, columns, rows, load_of(p));
    bool done;
    TL_TRY(turn_early(p, size, rows, columns, &done));
    return done ? TL_OK : transpose(p->run, size, own, p->filter, rows, columns, "");
}

static tl_status pass(passage *p)
{
    tli_cuda *d = tli_cuda_of(p->run->queue->device);
    const tli_dnn_way way = p->asked.way;
    cudnnHandle_t handle;
    TL_TRY(find_any(d, &p->plan, &p->done, &p->how));
    if (!p->plan) return TL_FAIL(TL_EUNSUPPORTED, "cuDNN has no plan for this convolution");
    TL_TRY(lay_out(p));
    if (way != TLI_DNN_INPUT_GRAD) TL_TRY(bring_image(p, false));
    if (way != TLI_DNN_FILTER_GRAD) TL_TRY(bring_filter(p, false));
    if (way != TLI_DNN_FORWARD) TL_TRY(bring_result(p, false));
    const tli_dnn_place places[] = {
        {TLI_CONV_IMAGE, p->image}, {TLI_CONV_FILTER, p->filter}, {TLI_CONV_RESULT, p->result}};
    if (!tli_cuda_foresees(p->run->queue)) {
        TL_TRY(tli_dnn_handle(d, &handle, tli_cuda_queue_of(p->run->queue)->stream));
        TL_TRY(tli_dnn_run(p->plan, handle, TL_COUNT(places), places, p->scratch));
    }
    if (way == TLI_DNN_INPUT_GRAD) return bring_image(p, true);
    return way == TLI_DNN_FORWARD ? bring_result(p, true) : bring_filter(p, true);
}

static tl_status by_plan(const tl_run *run, const tl_node *call, const tli_conv *c)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    passage p = {.run = run, .o = operands_of(call), .asked = *c, .done = *c};
    TL_TRY(tli_cuda_enter(d));
    tl_status st = pass(&p);
    if (st == TL_OK) (void)tli_cuda_issue(run->queue);
    return st;
}

static tl_status by_product(const tl_run *run, const tl_node *call, const tli_conv *c)
{
    const operands o = operands_of(call);
    const int64_t pixels = c->n * c->rows * c->columns;
    const void *x = tli_data(o.image), *w = tli_data(o.filter), *y = tli_data(o.result);
    tli_cuda_product p = {.dtype = c->dtype, .m = pixels, .n = c->out, .k = c->in, .batch = 1};
    switch (c->way) {
    case TLI_DNN_INPUT_GRAD:
        p.n = c->in;
        p.k = c->out;
        p.transpose_b = true;
        return tli_cuda_multiply(run, &p, y, w, NULL, tli_data(o.image));
    case TLI_DNN_FILTER_GRAD:
        p.m = c->in;
        p.k = pixels;
        p.transpose_a = true;
        p.wide = o.filter->dtype != c->dtype;
        return tli_cuda_multiply(run, &p, x, y, NULL, tli_data(o.filter));
    default: return tli_cuda_multiply(run, &p, x, w, NULL, tli_data(o.result));
    }
}

static tl_status convolve(const tl_run *run, const tl_node *call)
{
    const tli_conv c = tli_conv_of(call);
    const tl_tensor *out = call->out[0];
    if (!tl_tensor_count(out)) return TL_OK;
    if (is_empty(&c))
        return run->queue->device->cls->fill(run->queue, tli_data(out), 0, tl_tensor_bytes(out));
    if (tli_conv_is_depthwise(&c)) return tli_conv_depthwise(run, call, &c);
    if (is_product(&c)) return by_product(run, call, &c);
    if (tli_conv_has_patches(&c)) return tli_conv_by_patches(run, call, &c);
    return by_plan(run, call, &c);
}

#define ROWS(op, flags)                                                                            \
    {op, TL_F32, convolve, flags}, {op, TL_BF16, convolve, flags},                                 \
    {                                                                                              \
        op, TL_F16, convolve, flags                                                                \
    }
static const tl_kernel rows[] = {ROWS(TL_OP_convolve2d, 0), ROWS(TL_OP_convolve2d_input_grad, 0),
                                 ROWS(TL_OP_convolve2d_filter_grad, TL_KERNEL_JOINED)};
const tl_kernels tli_cuda_conv_kernels = {rows, TL_COUNT(rows)};
