/* Convolutions of pictures, which have few channels, by products: the pixels under a place of the
 * filter become a row, and the rows times the filter are the result. cuDNN has nothing for so few
 * channels that keeps the GPU busy: for a network's first layer of 3 x 3 this takes a third of the
 * time. */
#include <tilth/base/integer.h>

#include "core/inner/storage.h"
#include "cuda/convs.h"
#include "cuda/kernels.h"
#include "cuda/products.h"

enum {
    FEW = 4,        /* channels */
    MOST_TAPS = 64, /* elements of a row */
    BLOCK = 256,
    UNIT = 8,   /* elements that are written at once */
    TERM = 16,  /* terms that products take at a time */
    PARTS = 64, /* of the rows, whose sums are added up: enough to keep a GPU busy */
    ROOM = 256
};

static int64_t taps_of(const tli_conv *c)
{
    return c->filter_rows * c->filter_columns * c->in;
}

static int64_t rows_of(const tli_conv *c)
{
    return c->n * c->result_rows * c->result_columns;
}

bool tli_conv_has_patches(const tli_conv *c)
{
    return c->way != TLI_DNN_INPUT_GRAD && (c->dtype == TL_BF16 || c->dtype == TL_F16)
           && c->in <= FEW && c->groups == 1 && taps_of(c) <= MOST_TAPS && c->out % UNIT == 0
           && rows_of(c) * MOST_TAPS <= INT32_MAX && !tli_conv_folds(c);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void define(tl_str *to, const tli_conv *c)
{
    const tli_dnn_window *w = &c->window;
    const struct {
        const char *name;
        int64_t value;
    } all[] = {{"ROWS", rows_of(c)},
               {"WIDTH", tli_conv_patch(c)},
               {"TAPS", taps_of(c)},
               {"OUT", c->out},
               {"IN", c->in},
               {"H", c->rows},
               {"W", c->columns},
               {"TO_H", c->result_rows},
               {"TO_W", c->result_columns},
               {"KW", c->filter_columns},
               {"SY", w->strides[0]},
               {"SX", w->strides[1]},
               {"DY", w->dilations[0]},
               {"DX", w->dilations[1]},
               {"TOP", w->before[0]},
               {"LEFT", w->before[1]}};
    for (int i = 0; i < (int)TL_COUNT(all); i++) tli_cuda_define(to, all[i].name, all[i].value);
}

int64_t tli_conv_patch(const tli_conv *c)
{
    return tl_round_up(taps_of(c), TERM);
}

tl_status tli_conv_put_patches(const tl_run *run, const tli_conv *c, const void *x, void *rows,
                               const void *filter, void *filter_out)
{
    tli_cuda_work w = {.text = {tli_text_of_patches}, .name = "put_rows", .threads = BLOCK};
    const int64_t vectors = (rows_of(c) + (filter ? c->out : 0)) * tli_conv_patch(c) / UNIT;
    const tli_patches_args a = {.groups = tl_div_up(vectors, BLOCK),
                                .x = x,
                                .filter = filter,
                                .rows = rows,
                                .filter_out = filter_out};
    define(&w.defines, c);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* --- products --------------------------------------------------------------------------------- */

static tl_status forward(const tl_run *run, const tl_node *call, const tli_conv *c)
{
    const int64_t rows = rows_of(c), width = tli_conv_patch(c);
    const size_t size = tl_dtype_size(c->dtype), first = (size_t)(rows * width) * size;
    const tli_cuda_product p = {.dtype = c->dtype, .m = rows, .n = c->out, .k = width, .batch = 1};
    void *at;
    TL_TRY(tli_cuda_scratch(run, &at, first + ROOM + (size_t)(width * c->out) * size));
    char *filter = (char *)at + tl_round_up_size(first, ROOM);
    TL_TRY(tli_conv_put_patches(run, c, tli_data(call->in[0]), at, tli_data(call->in[1]), filter));
    return tli_cuda_multiply(run, &p, at, filter, NULL, tli_data(call->out[0]));
}

/* In parts of the rows, whose sums are added up in their order. */
static tl_status filter_grad(const tl_run *run, const tl_node *call, const tli_conv *c)
{
    const int64_t rows = rows_of(c), width = tli_conv_patch(c);
    const size_t first = (size_t)(rows * width) * tl_dtype_size(c->dtype);
    int64_t parts = PARTS;
    while (parts > 1 && (rows % parts || rows / parts % TERM)) parts /= 2;
    const tli_cuda_product p = {.dtype = c->dtype,
                                .m = width,
                                .n = c->out,
                                .k = rows / parts,
                                .transpose_a = true,
                                .batch = parts,
                                .a_step = rows / parts * width,
                                .b_step = rows / parts * c->out,
                                .wide = true};
    const size_t sums = (size_t)(parts * width * c->out) * sizeof(float);
    tl_tensor *to = call->out[0];
    void *at;
    TL_TRY(tli_cuda_scratch(run, &at, first + ROOM + sums));
    char *each = (char *)at + tl_round_up_size(first, ROOM);
    TL_TRY(tli_conv_put_patches(run, c, tli_data(call->in[0]), at, NULL, NULL));
    TL_TRY(tli_cuda_multiply(run, &p, at, tli_data(call->in[1]), NULL, each));
    tli_pieces_args a = {.pieces = parts,
                         .columns = width * c->out,
                         .split = taps_of(c) * c->out,
                         .sums = (const float *)each,
                         .first = tli_data(to)}; // and nothing of the zeros
    return tli_cuda_add_pieces(run, &a, to->dtype, TL_F32);
}

tl_status tli_conv_by_patches(const tl_run *run, const tl_node *call, const tli_conv *c)
{
    return c->way == TLI_DNN_FORWARD ? forward(run, call, c) : filter_grad(run, call, c);
}
