/* Products for which cuBLASLt's kernels are too long on their way (text/product.cu). */
#include <tilth/base/integer.h>

#include "cuda/kernels.h"
#include "cuda/products.h"

enum {
    THREADS = 256,
    WARP_TILE = 16,
    MOST = 1 << 25,        /* multiply-adds */
    MOST_TERMS = 2048,     /* of a sum */
    MOST_TILES = 104,      /* groups: an A100 has 108 processors; with fewer they take turns */
    MOST_SHARED = 96 << 10 /* bytes */
};

bool tli_cuda_is_small(const tli_cuda_product *w)
{
    return (w->dtype == TL_BF16 || w->dtype == TL_F16) && !w->keep_sum && !w->gelu_grad
           && w->k <= MOST_TERMS && (w->activation == TL_ACT_NONE || w->activation == TL_ACT_RELU)
           && (double)w->batch * (double)w->m * (double)w->n * (double)w->k <= MOST;
}

/* How a group's eight warps are spread over rows, columns and terms. */
typedef struct form {
    int rows, columns, terms;
} form;

static int64_t tiles_of(const tli_cuda_product *w, const form *f)
{
    return tl_div_up(w->m, WARP_TILE * f->rows) * tl_div_up(w->n, WARP_TILE * f->columns);
}

static form choose(const tli_cuda_product *w)
{
    static const form forms[] = {{1, 1, 8}, {1, 2, 4}, {2, 2, 2}, {2, 4, 1}};
    int at = 0;
    while (at + 1 < (int)TL_COUNT(forms) && w->batch * tiles_of(w, &forms[at]) > MOST_TILES) at++;
    return forms[at];
}

/* Terms that come into a group's memory at once, and the bytes that they take. */
static int64_t chunk_of(const tli_cuda_product *w, const form *f, size_t *bytes)
{
    enum { PAD = 8, HALF = 2 };
    const int64_t rows = WARP_TILE * f->rows, columns = WARP_TILE * f->columns;
    int64_t chunk = tl_div_up(w->k, WARP_TILE) * WARP_TILE;
    for (;; chunk = tl_div_up(chunk / 2, WARP_TILE) * WARP_TILE) {
        const int64_t a = w->transpose_a ? chunk * (rows + PAD) : rows * (chunk + PAD);
        const int64_t b = w->transpose_b ? columns * (chunk + PAD) : chunk * (columns + PAD);
        const int64_t sums = f->terms * rows * (columns + 1);
        *bytes = (size_t)(a + b) * HALF + (size_t)sums * sizeof(float);
        if (*bytes <= MOST_SHARED) return chunk;
    }
}

/* Whether rows of `width` elements can be read in vectors. */
static bool is_wide(const void *at, int64_t width, int64_t step)
{
    return width % 8 == 0 && step % 8 == 0 && (uintptr_t)at % 16 == 0;
}

tl_status tli_cuda_multiply_small(const tl_run *run, const tli_cuda_product *w,
                                  const tli_cuda_operands *o)
{
    const form f = choose(w);
    tli_cuda_work work = {
        .text = {tli_text_of_product}, .name = "multiply_small", .threads = THREADS};
    const int64_t chunk = chunk_of(w, &f, &work.shared);
    const tli_product_args a = {.groups = w->batch * tiles_of(w, &f),
                                .a = o->a,
                                .b = o->b,
                                .bias = o->bias,
                                .added = o->added,
                                .mask = o->mask,
                                .c = o->c};
    if (w->batch == 1 && !w->transpose_a)
        work.rows = (tli_cuda_rows){.count = w->m,
                                    .each = WARP_TILE * f.rows,
                                    .across = tl_div_up(w->n, WARP_TILE * f.columns),
                                    .of = o->a,
                                    .bytes = (size_t)(w->m * w->k) * tl_dtype_size(w->dtype)};
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"M", w->m},
        {"N", w->n},
        {"K", w->k},
        {"A_STEP", w->a_step},
        {"B_STEP", w->b_step},
        {"WM", f.rows},
        {"WN", f.columns},
        {"WK", f.terms},
        {"CHUNK", chunk},
        {"TRANSPOSE_A", w->transpose_a},
        {"TRANSPOSE_B", w->transpose_b},
        {"WIDE_A", is_wide(o->a, w->transpose_a ? w->m : w->k, w->a_step)},
        {"WIDE_B", is_wide(o->b, w->transpose_b ? w->k : w->n, w->b_step)},
        {"BIAS", w->bias},
        {"ADDED", w->added},
        {"MASKED", w->masked},
        {"RELU", w->activation == TL_ACT_RELU},
    };
    tli_cuda_define_type(&work.defines, "X", w->dtype);
    tli_cuda_define_type(&work.defines, "Y", w->wide ? TL_F32 : w->dtype);
    for (int i = 0; i < (int)TL_COUNT(numbers); i++)
        tli_cuda_define(&work.defines, numbers[i].name, numbers[i].value);
    tl_str_addf(&work.defines, "#define HALF \"%s\"\n", w->dtype == TL_BF16 ? "bf16" : "f16");
    return tli_cuda_put(run, &work, &a, sizeof a);
}
