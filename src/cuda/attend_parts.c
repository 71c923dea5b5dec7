/* Attention in parts: products, and kernels between them. Scores lie in memory, those of some
 * examples at a time. It is for what cuDNN's pattern has no place for. */
#include <math.h>
#include <stdio.h>

#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/attend.h"
#include "cuda/kernels.h"
#include "cuda/products.h"
#include "nest/inner/words.h"

enum { KEY = 64, ROOM = 256, ROW_THREADS = 128, MOST_KEPT = 16 /* scores of a thread */ };
static const size_t most_scratch = (size_t)512 << 20; /* that a group of examples aims at */

/* What the kernels are told: of [examples, heads, queries, keys] a row has `keys` scores. */
typedef struct rows_args {
    int64_t heads, queries, keys;
    int64_t causal; /* 1: query t looks at keys up to t + keys - queries */
    double scale;
    const void *mask; /* a byte for each key of an example, or NULL */
    int64_t mask_example, mask_key;
    const void *bias; /* or NULL */
    int64_t bias_strides[4];
    int64_t keep; /* 1: scores become the gradient by what the bias was added to */
    /* Dropout: whether a weight stays, by the draw of its number; what it is divided by then */
    const void *step;
    uint64_t key;
    int64_t first; /* row */
    int64_t least; /* 24 bits of a draw, from which on it stays */
    double stays;
} rows_args;

#define ROWS_TEXT                                                                                  \
    "struct rows {\n    i64 heads, queries, keys, causal;\n    double scale;\n"                    \
    "    const u8 *mask;\n    i64 mask_example, mask_key;\n"                                       \
    "    const T *bias;\n    i64 bs[4], keep;\n"                                                   \
    "    const tli_step_args *step;\n    u64 key;\n    i64 first, least;\n    double stays;\n};\n" \
    "struct place { i64 b, h, t, last; };\n"                                                       \
    "FN place place_of(const rows &r, i64 row)\n{\n"                                               \
    "    const i64 t = row % r.queries, q = row / r.queries;\n"                                    \
    "    return {q / r.heads, q % r.heads, t, r.causal ? t + r.keys - r.queries : r.keys};\n}\n"   \
    "FN A score(const rows &r, const place &p, const A *x, i64 s)\n{\n"                            \
    "    if (s > p.last || (r.mask && !r.mask[p.b * r.mask_example + s * r.mask_key]))\n"          \
    "        return -INFINITE;\n"                                                                  \
    "    const A v = x[s] * (A)r.scale;\n    if (!r.bias) return v;\n"                             \
    "    return v + LOAD(r.bias[p.b * r.bs[0] + p.h * r.bs[1] + p.t * r.bs[2] + s * r.bs[3]]);"    \
    "\n}\n"                                                                                        \
    "#ifdef DROPS\n"                                                                               \
    "#define STREAM                                                                         \\\n"  \
    "    __shared__ stream own;                                                             \\\n"  \
    "    if (threadIdx.x == 0) own = stream_of(r.step, r.key);                              \\\n"  \
    "    __syncthreads();                                                                   \\\n"  \
    "    const stream drawn = own;\n"                                                              \
    "#define KEPT(v, s)                                                                     \\\n"  \
    "    ((word_of(drawn, (u64)((r.first + row) * r.keys + (s))) >> 8) >= r.least           \\\n"  \
    "         ? (v) * (A)r.stays : (A)0)\n"                                                        \
    "#else\n#define STREAM\n#define KEPT(v, s) (v)\n#endif\n"                                      \
    "#if E\n" /* a row of scores is in registers */                                                \
    "#define ROW A row_[E];\n#define X(s) row_[j]\n"                                               \
    "#define EACH_KEY                                                                       \\\n"  \
    "    UNROLL for (int j = 0; j < E; j++)                                                 \\\n"  \
    "        if (const i64 s = threadIdx.x + (i64)j * N; s < r.keys)\n"                            \
    "#else\n#define ROW\n#define X(s) x[s]\n"                                                      \
    "#define EACH_KEY for (i64 s = threadIdx.x; s < r.keys; s += N)\n#endif\n"                     \
    "FN A larger(A a, A b) { return a > b ? a : b; }\n"                                            \
    "FN A sum_of(A a, A b) { return a + b; }\n"

/* Weights of a row, and the logarithm of their sum. */
static const char weights_text[] =
    ROWS_TEXT "extern \"C\" __global__ void __launch_bounds__(N)\n"
              "kernel(const A *scores, T *weights, A *sums, rows r)\n{\n    STREAM\n    ROW\n"
              "    const i64 row = blockIdx.x;\n    const place p = place_of(r, row);\n"
              "    A *x = (A *)scores + row * r.keys;\n    T *w = weights + row * r.keys;\n"
              "    A mine = -INFINITE;\n"
              "    EACH_KEY {\n"
              "        X(s) = score(r, p, x, s);\n        mine = larger(mine, X(s));\n    }\n"
              "    REDUCE(N, A, most, larger, mine)\n"
              "    mine = 0;\n"
              "    EACH_KEY {\n"
              "        X(s) = most == -INFINITE && X(s) == X(s) ? 0 : EXP(X(s) - most);\n"
              "        mine += X(s);\n    }\n"
              "    REDUCE(N, A, sum, sum_of, mine)\n"
              "    const A part = sum == 0 ? 0 : 1 / sum;\n" // nothing to look at
              "    EACH_KEY w[s] = STORE(KEPT(X(s) * part, s));\n"
              "    if (threadIdx.x == 0) sums[row] = sum == 0 ? -INFINITE : most + LOG(sum);\n}\n";

/* The weights again; the gradient by scores, times the scale. */
static const char weights_grad_text[] = ROWS_TEXT
    "extern \"C\" __global__ void __launch_bounds__(N)\n"
    "kernel(A *scores, const A *by, T *weights, T *grads, const A *sums, rows r)\n{\n"
    "    STREAM\n    ROW\n"
    "    const i64 row = blockIdx.x;\n    const place p = place_of(r, row);\n"
    "    A *x = scores + row * r.keys;\n    const A *g = by + row * r.keys, top = sums[row];\n"
    "    T *w = weights + row * r.keys, *y = grads + row * r.keys;\n"
    "    A mine = 0;\n"
    "    EACH_KEY {\n"
    "        const A v = score(r, p, x, s);\n"
    "        X(s) = v == -INFINITE ? 0 : EXP(v - top);\n"
    "        if (v != -INFINITE) mine += X(s) * KEPT(g[s], s);\n"
    "        w[s] = STORE(KEPT(X(s), s));\n    }\n"
    "    REDUCE(N, A, dot, sum_of, mine)\n"
    "    EACH_KEY {\n"
    "        const A v = X(s) == 0 ? 0 : X(s) * (KEPT(g[s], s) - dot);\n"
    "        y[s] = STORE(v * (A)r.scale);\n"
    "        if (r.keep) x[s] = v;\n    }\n}\n";

/* Each element of a bias has its part of a group's gradient added: of all that it was added to. */
typedef struct bias_args {
    int64_t dims[4], extents[4]; /* of the bias, of the group's scores */
    int64_t first;               /* example of the group */
} bias_args;
static const char bias_text[] =
    "struct bias { i64 d[4], n[4], first; };\n"
    "FN void range(const bias &b, int k, i64 at, i64 *from, i64 *to)\n{\n"
    "    const i64 own = k == 0 ? at - b.first : at;\n"
    "    *from = b.d[k] == 1 ? 0 : own;\n    *to = b.d[k] == 1 ? b.n[k] : own + 1;\n}\n"
    "extern \"C\" __global__ void kernel(const A *x, A *sum, bias b)\n{\n"
    "    const i64 count = b.d[0] * b.d[1] * b.d[2] * b.d[3];\n"
    "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count;\n"
    "         i += (i64)gridDim.x * blockDim.x) {\n"
    "        i64 b0, b1, h0, h1, t0, t1, s0, s1, left = i;\n"
    "        range(b, 3, left % b.d[3], &s0, &s1);\n        left /= b.d[3];\n"
    "        range(b, 2, left % b.d[2], &t0, &t1);\n        left /= b.d[2];\n"
    "        range(b, 1, left % b.d[1], &h0, &h1);\n        left /= b.d[1];\n"
    "        range(b, 0, left, &b0, &b1);\n"
    "        if (b0 < 0 || b0 >= b.n[0]) continue;\n" // of another group
    "        A all = 0;\n"
    "        for (i64 e = b0; e < b1; e++)\n"
    "            for (i64 h = h0; h < h1; h++)\n"
    "                for (i64 t = t0; t < t1; t++)\n"
    "                    for (i64 s = s0; s < s1; s++)\n"
    "                        all += x[((e * b.n[1] + h) * b.n[2] + t) * b.n[3] + s];\n"
    "        sum[i] += all;\n    }\n}\n";

/* [examples, heads, positions, width] to [examples, positions, heads / each, width], where the
 * numbers of neighbouring heads are added up. */
static const char fold_text[] =
    "extern \"C\" __global__ void kernel(const A *x, T *y, i64 n, i64 positions, i64 heads,\n"
    "                                    i64 each, i64 width)\n{\n"
    "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n;\n"
    "         i += (i64)gridDim.x * blockDim.x) {\n"
    "        const i64 e = i % width, q = i / width, folded = heads / each;\n"
    "        const i64 h = q % folded, p = q / folded % positions, b = q / folded / positions;\n"
    "        A sum = 0;\n"
    "        for (i64 k = 0; k < each; k++)\n"
    "            sum += x[((b * heads + h * each + k) * positions + p) * width + e];\n"
    "        y[i] = STORE(sum);\n    }\n}\n";

/* How many scores of a row a thread keeps; 0: it reads them again. */
static int kept_of(int64_t keys)
{
    const int64_t each = tl_div_up(keys, ROW_THREADS);
    return each <= MOST_KEPT ? (int)each : 0;
}

static void print(tl_str *out, const char *text, tl_dtype dtype, int kept, bool drops)
{
    const bool is_double = dtype == TL_F64;
    const char *load = "", *store = "", *type = "double";
    if (!is_double) type = tli_kernel_words(dtype, &load, &store);
    tl_str_add(out, tli_text_of_args);
    if (drops) {
        tl_str_add(out, "#define DROPS\n");
        tl_str_add(out, tli_text_of_draw);
    }
    tl_str_addf(out,
                "typedef %s T;\ntypedef %s A;\n#define N %d\n#define E %d\n#define LOAD(x) %s(x)\n"
                "#define STORE(x) %s(x)\n#define EXP(x) %s(x)\n#define LOG(x) %s(x)\n"
                "#define INFINITE %s\n",
                type, is_double ? "double" : "float", ROW_THREADS, kept, load, store,
                is_double ? "exp" : "expf", is_double ? "log" : "logf",
                is_double ? "__builtin_inf()" : "__builtin_inff()");
    tl_str_add(out, text);
}

bool tli_attend_text(tl_str *out, int number, tl_dtype dtype)
{
    static const char *const texts[] = {weights_text, weights_grad_text, bias_text, fold_text};
    if (number >= TL_COUNT(texts)) return false;
    print(out, texts[number], dtype, kept_of(1000), true);
    return true;
}

static tl_status kernel_of(const tl_run *run, CUfunction *out, const char *name, const char *text,
                           tl_dtype dtype, int kept, bool drops)
{
    char key[KEY];
    tl_str body = TL_STR_INIT;
    snprintf(key, sizeof key, "attend %s %d %d %d", name, (int)dtype, kept, drops);
    print(&body, text, dtype, kept, drops);
    tl_status st = tl_str_status(&body);
    if (st == TL_OK) st = tli_cuda_kernel(run, out, key, tl_str_text(&body));
    tl_str_deinit(&body);
    return st;
}

/* --- a group of examples ---------------------------------------------------------------------- */

typedef struct parts {
    const tl_run *run;
    const tl_node *call;
    tli_attend a;
    tl_tensor *const *in; /* q, k, v */
    int64_t first, count; /* examples */
    rows_args rows;
    size_t size, wide;                   /* bytes of an element, and of one that is summed up */
    char *q, *k, *v, *gy;                /* [examples, heads, positions, width], of each head one */
    char *scores, *by, *weights, *grads; /* [examples, heads, queries, keys] */
    char *sums;                          /* the gradient's: logarithms of all examples */
    char *bias;                          /* and what its bias gets, of all of them */
    char *turn;                          /* a gradient that goes beside others */
    char *sum;                           /* of a product, before it is folded */
} parts;

static char *reserve(char *base, size_t *used, size_t bytes)
{
    char *at = base ? base + *used : NULL;
    *used += tl_round_up_size(bytes, ROOM);
    return at;
}

/* Where everything lies behind `base`, for so many examples; gives the bytes of all. */
static size_t lay_out(parts *p, char *base, int64_t count)
{
    const tli_attend *a = &p->a;
    const size_t heads = (size_t)(count * a->heads);
    const size_t of_q = heads * (size_t)(a->queries * a->width);
    const size_t of_k = heads * (size_t)(a->keys * a->width);
    const size_t of_v = heads * (size_t)(a->keys * a->value_width);
    const size_t of_y = heads * (size_t)(a->queries * a->value_width);
    const size_t all = heads * (size_t)(a->queries * a->keys);
    const size_t of_keys = of_k > of_v ? of_k : of_v, of_queries = of_q > of_y ? of_q : of_y;
    size_t used = 0;
    p->q = reserve(base, &used, of_q * p->size);
    p->k = reserve(base, &used, of_k * p->size);
    p->v = reserve(base, &used, of_v * p->size);
    p->scores = reserve(base, &used, all * p->wide);
    p->weights = reserve(base, &used, all * p->size);
    p->sum = reserve(base, &used, (of_keys > of_queries ? of_keys : of_queries) * p->wide);
    if (!a->gradient) return used;
    p->gy = reserve(base, &used, of_y * p->size);
    p->by = reserve(base, &used, all * p->wide);
    p->grads = reserve(base, &used, all * p->size);
    p->sums = reserve(base, &used, (size_t)(a->batch * a->heads * a->queries) * p->wide);
    p->bias = reserve(base, &used, (size_t)tl_tensor_count(p->call->out[3]) * p->wide);
    p->turn = reserve(base, &used, a->joined ? of_q * p->size : 0);
    return used;
}

// Heads before positions; those of k and v as often as they serve.
static tl_status bring(const parts *p, const tl_tensor *t, char *to)
{
    const int64_t *d = t->shape.dims, *s = t->strides, serves = p->a.heads / d[2];
    const int64_t dims[] = {p->count, d[2], serves, d[1], d[3]};
    const int64_t strides[] = {s[0], s[2], 0, s[1], s[3]};
    const char *from = (const char *)tli_data(t) + (size_t)p->first * (size_t)s[0] * p->size;
    return tli_cuda_gather_at(p->run, p->size, TL_COUNT(dims), dims, strides, from, to);
}

static tl_status multiply(const parts *p, const char *a, const char *b, char *y, int64_t m,
                          int64_t n, int64_t k, bool transpose_a, bool transpose_b)
{
    const tli_cuda_product what = {.dtype = p->a.dtype,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .batch = p->count * p->a.heads,
                                   .a_step = m * k,
                                   .b_step = k * n,
                                   .wide = true};
    return tli_cuda_multiply(p->run, &what, a, b, NULL, y);
}

static tl_status start_fold(const parts *p, const char *x, char *y, int64_t count,
                            int64_t positions, int64_t heads, int64_t each, int64_t width)
{
    void *parameters[] = {&x, &y, &count, &positions, &heads, &each, &width};
    CUfunction kernel;
    if (!count) return TL_OK;
    TL_TRY(kernel_of(p->run, &kernel, "fold", fold_text, p->a.dtype, 0, false));
    return tli_cuda_start(p->run, kernel, count, parameters);
}

// What a product has left in `sum`, to its place in a result.
static tl_status fold(const parts *p, tl_tensor *to)
{
    const int64_t *d = to->shape.dims, each = d[1] * d[2] * d[3];
    char *y = (char *)tli_data(to) + (size_t)(p->first * each) * p->size;
    return start_fold(p, p->sum, y, p->count * each, d[1], p->a.heads, p->a.heads / d[2], d[3]);
}

// The gradient of q, k or v: from where they are folded, to their places side by side.
static tl_status fold_grad(const parts *p, int number)
{
    const tli_attend *a = &p->a;
    const int64_t row = a->heads * a->width, each = a->queries * row;
    if (!a->joined) return fold(p, p->call->out[number]);
    TL_TRY(start_fold(p, p->sum, p->turn, p->count * each, a->queries, a->heads, 1, a->width));
    const tl_shape box = TL_SHAPE(p->count * a->queries, row);
    char *to = tli_attend_grad_at(p->call, a, number) + (size_t)(3 * p->first * each) * p->size;
    return tli_cuda_move_box(p->run, &box, p->size, p->turn, (const int64_t[]){row, 1}, to,
                             (const int64_t[]){3 * row, 1});
}

static tl_status start_rows(const parts *p, CUfunction kernel, void **parameters)
{
    const tli_cuda *d = tli_cuda_of(p->run->queue->device);
    const int64_t count = p->count * p->a.heads * p->a.queries;
    TL_ASSERT(count <= INT32_MAX);
    if (tli_cuda_foresees(p->run->queue)) return TL_OK;
    TLI_CUDA_TRY(d->api, cuLaunchKernel, kernel, (unsigned)count, 1, 1, ROW_THREADS, 1, 1, 0,
                 tli_cuda_queue_of(p->run->queue)->stream, parameters, NULL);
    return TL_OK;
}

// Logarithms of sums, [batch, heads, queries] without gaps: those of the group.
static char *sums_of(const parts *p, void *all)
{
    return (char *)all + (size_t)(p->first * p->a.heads * p->a.queries) * p->wide;
}

static tl_status forward(parts *p)
{
    const tli_attend *a = &p->a;
    char *sums = sums_of(p, tli_data(p->call->out[1]));
    void *parameters[] = {&p->scores, &p->weights, &sums, &p->rows};
    CUfunction kernel;
    TL_TRY(kernel_of(p->run, &kernel, "weights", weights_text, a->dtype, kept_of(a->keys),
                     p->rows.step != NULL));
    TL_TRY(multiply(p, p->q, p->k, p->scores, a->queries, a->keys, a->width, false, true));
    TL_TRY(start_rows(p, kernel, parameters));
    TL_TRY(
        multiply(p, p->weights, p->v, p->sum, a->queries, a->value_width, a->keys, false, false));
    return fold(p, p->call->out[0]);
}

static tl_status add_bias_grad(const parts *p)
{
    const tl_tensor *bias = p->call->out[3];
    bias_args args = {.dims = {1, 1, 1, 1},
                      .extents = {p->count, p->a.heads, p->a.queries, p->a.keys},
                      .first = p->first};
    void *parameters[] = {(void *)&p->scores, (void *)&p->bias, &args};
    CUfunction kernel;
    for (int i = 0; i < bias->shape.rank; i++)
        args.dims[4 - bias->shape.rank + i] = bias->shape.dims[i];
    TL_TRY(kernel_of(p->run, &kernel, "bias", bias_text, p->a.dtype, 0, false));
    return tli_cuda_start(p->run, kernel, tl_tensor_count(bias), parameters);
}

static tl_status backward(parts *p)
{
    const tli_attend *a = &p->a;
    char *sums = sums_of(p, p->sums);
    void *parameters[] = {&p->scores, &p->by, &p->weights, &p->grads, &sums, &p->rows};
    CUfunction kernel;
    TL_TRY(kernel_of(p->run, &kernel, "weights_grad", weights_grad_text, a->dtype, kept_of(a->keys),
                     p->rows.step != NULL));
    TL_TRY(bring(p, p->call->in[0], p->gy));
    TL_TRY(multiply(p, p->q, p->k, p->scores, a->queries, a->keys, a->width, false, true));
    TL_TRY(multiply(p, p->gy, p->v, p->by, a->queries, a->keys, a->value_width, false, true));
    TL_TRY(start_rows(p, kernel, parameters));
    if (p->rows.keep) TL_TRY(add_bias_grad(p));
    TL_TRY(multiply(p, p->grads, p->k, p->sum, a->queries, a->width, a->keys, false, false));
    TL_TRY(fold_grad(p, 0));
    TL_TRY(multiply(p, p->grads, p->q, p->sum, a->keys, a->width, a->queries, true, false));
    TL_TRY(fold_grad(p, 1));
    TL_TRY(
        multiply(p, p->weights, p->gy, p->sum, a->keys, a->value_width, a->queries, true, false));
    return fold_grad(p, 2);
}

/* Mask and bias as the group sees them. */
static tl_status look_at_rows(parts *p)
{
    const tl_attend_attr *attr = p->call->attr;
    const int extra = p->a.gradient ? 6 : 3;
    p->rows = (rows_args){.heads = p->a.heads,
                          .queries = p->a.queries,
                          .keys = p->a.keys,
                          .causal = attr->causal,
                          .scale = attr->scale,
                          .keep = attr->bias_grad,
                          .first = p->first * p->a.heads * p->a.queries};
    if (attr->rate > 0) {
        const tli_step_args *step;
        TL_TRY(tli_cuda_draws(p->run, &step));
        p->rows.step = step;
        p->rows.key = (uint64_t)attr->key;
        p->rows.least = (int64_t)ceil(attr->rate * 0x1p24);
        p->rows.stays = 1 / (1 - attr->rate);
    }
    if (attr->masked) {
        const tl_tensor *mask = p->call->in[extra];
        p->rows.mask_example = mask->strides[0];
        p->rows.mask_key = mask->strides[1];
        p->rows.mask = (const char *)tli_data(mask) + p->first * mask->strides[0];
    }
    if (!attr->biased) return TL_OK;
    const tl_tensor *bias = p->call->in[extra + attr->masked];
    const int missing = 4 - bias->shape.rank;
    for (int i = missing; i < 4; i++)
        p->rows.bias_strides[i] =
            bias->shape.dims[i - missing] == 1 ? 0 : bias->strides[i - missing];
    p->rows.bias =
        (const char *)tli_data(bias) + (size_t)(p->first * p->rows.bias_strides[0]) * p->size;
    return TL_OK;
}

static tl_status run_group(parts *p)
{
    TL_TRY(bring(p, p->in[0], p->q));
    TL_TRY(bring(p, p->in[1], p->k));
    TL_TRY(bring(p, p->in[2], p->v));
    TL_TRY(look_at_rows(p));
    return p->a.gradient ? backward(p) : forward(p);
}

// What was summed up over all groups becomes the gradient of the bias.
static tl_status finish_bias(const parts *p)
{
    tl_tensor *bias = p->call->out[3];
    const int64_t count = tl_tensor_count(bias);
    return start_fold(p, p->bias, tli_data(bias), count, count, 1, 1, 1);
}

tl_status tli_attend_in_parts(const tl_run *run, const tl_node *call)
{
    const tl_device_class *device = run->queue->device->cls;
    parts p = {.run = run, .call = call, .a = tli_attend_of(call)};
    const bool biases = ((const tl_attend_attr *)call->attr)->bias_grad;
    void *base;
    p.in = call->in + (p.a.gradient ? 1 : 0);
    p.size = tl_dtype_size(p.a.dtype);
    p.wide = p.a.dtype == TL_F64 ? sizeof(double) : sizeof(float);
    const size_t each = lay_out(&p, NULL, 1);
    const int64_t group = tl_clamp_i64((int64_t)(most_scratch / (each ? each : 1)), 1, p.a.batch);
    TL_TRY(tli_cuda_scratch(run, &base, lay_out(&p, NULL, group)));
    (void)lay_out(&p, base, group);
    if (p.a.gradient) TL_TRY(tli_cuda_gather(run, call->in[5], p.sums));
    if (biases)
        TL_TRY(device->fill(run->queue, p.bias, 0, (size_t)tl_tensor_count(call->out[3]) * p.wide));
    for (p.first = 0; p.first < p.a.batch; p.first += group) {
        p.count = tl_min_i64(group, p.a.batch - p.first);
        TL_TRY(run_group(&p));
    }
    return biases ? finish_bias(&p) : TL_OK;
}
