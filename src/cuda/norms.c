/* Normalisation of rows: layer and rms (text/norm.cu). */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum {
    BLOCK = 256,
    KEPT = 32,
    PIECES = 640,    /* of rows whose sums are added up apart: enough to keep any GPU busy */
    MOST_ROWS = 128, /* of one of them */
    MOST_THREADS = 512,
    TOGETHER = 3 /* rows that are in registers at a time */
};

tl_status tli_cuda_add_pieces(const tl_run *run, tli_pieces_args *a, tl_dtype first,
                              tl_dtype second)
{
    tli_cuda_work w = {.text = {tli_text_of_norm}, .name = "add_pieces", .threads = 1024};
    a->groups = tl_div_up(a->columns, 32);
    tli_cuda_define(&w.defines, "PIECES", 1);
    tli_cuda_define_type(&w.defines, "F", first);
    tli_cuda_define_type(&w.defines, "S", second);
    return tli_cuda_put(run, &w, a, sizeof *a);
}

static int64_t width_of(const tl_tensor *x, const tl_norm_attr *attr)
{
    int64_t width = 1;
    for (int i = x->shape.rank - (int)attr->axes; i < x->shape.rank; i++) width *= x->shape.dims[i];
    return width;
}

/* Threads of a group that has a row of a gradient: each keeps sums of its columns in registers.
 * Where groups have many rows of whole vectors of 16 bytes, some of them are worked on at a time,
 * a vector a thread. */
static void define_spread_row(tli_cuda_work *w, int64_t width, int vector, bool together)
{
    const int64_t vectors = tl_div_up(width, vector);
    together = together && vectors <= MOST_THREADS;
    w->threads = 32;
    if (together) w->threads = (int)tl_round_up(vectors, 32);
    while (!together && w->threads < MOST_THREADS && vectors > w->threads)
        w->threads *= w->threads == 32 ? 4 : 2;
    const int64_t each = tl_max_i64(tl_div_up(vectors, w->threads), 1);
    tli_cuda_define(&w->defines, "WIDTH", width);
    tli_cuda_define(&w->defines, "THREADS", w->threads);
    tli_cuda_define(&w->defines, "EACH", each);
    tli_cuda_define(&w->defines, "KEPT", each * vector <= KEPT);
    tli_cuda_define(&w->defines, "TOGETHER", together ? TOGETHER : 0);
}

static void define(tli_cuda_work *w, const tl_norm_attr *attr, bool centered, const tl_tensor *x,
                   const tl_tensor *gamma, const tl_tensor *beta, const tl_tensor *gy,
                   const tl_tensor *y, bool many)
{
    const int64_t width = width_of(x, attr);
    const void *at = tli_data(x);
    tl_str *to = &w->defines;
    tli_cuda_define(to, "NORM", 1);
    tli_cuda_define(to, "CENTERED", centered);
    tli_cuda_define(to, "SCALED", gamma != NULL);
    tli_cuda_define(to, "SHIFTED", beta != NULL);
    tli_cuda_define(to, "HALF", x->dtype == TL_BF16 || x->dtype == TL_F16);
    tli_cuda_define_type(to, "X", x->dtype);
    tli_cuda_define_type(to, "Y", y->dtype);
    tli_cuda_define_type(to, "P", gamma ? gamma->dtype : TL_F32);
    tli_cuda_define_type(to, "B", beta ? beta->dtype : TL_F32);
    tli_cuda_define_type(to, "G", gy ? gy->dtype : TL_F32);
    const int vector = tli_cuda_define_vector(
        to, tl_dtype_size(x->dtype), width, at, tli_data(y), gamma ? tli_data(gamma) : at,
        beta ? tli_data(beta) : at, gy ? tli_data(gy) : at, NULL);
    if (!gy) w->threads = tli_cuda_define_row(to, width, vector, KEPT);
    else
        define_spread_row(w, width, vector,
                          many && vector * tl_dtype_size(x->dtype) == 16 && gy->dtype == x->dtype
                              && (!beta || beta->dtype == x->dtype));
}

static tl_status normalize(const tl_run *run, const tl_node *n, bool centered)
{
    const tl_norm_attr *attr = n->attr;
    const tl_tensor *x = n->in[0];
    const tl_tensor *gamma = attr->scaled ? n->in[1] : NULL;
    const tl_tensor *beta = attr->shifted ? n->in[1 + attr->scaled] : NULL;
    tli_norm_args a = {.groups = tl_tensor_count(n->out[n->outputs - 1]),
                       .x = tli_data(x),
                       .gamma = gamma ? tli_data(gamma) : NULL,
                       .beta = beta ? tli_data(beta) : NULL,
                       .y = tli_data(n->out[0]),
                       .mean = centered ? tli_data(n->out[1]) : NULL,
                       .rstd = tli_data(n->out[n->outputs - 1]),
                       .epsilon = attr->epsilon};
    tli_cuda_work w = {.text = {tli_text_of_norm}, .name = "normalize"};
    define(&w, attr, centered, x, gamma, beta, NULL, n->out[0], false);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* Sums of columns by a kernel of their own. */
static tl_status put_sums(const tl_run *run, tli_norm_args *a, const char *name, int64_t pieces,
                          const tl_str *defines, int64_t width)
{
    tli_cuda_work w = {.text = {tli_text_of_norm}, .name = name, .threads = BLOCK};
    tl_str_add(&w.defines, tl_str_text(defines));
    a->groups = pieces * tl_div_up(width, BLOCK);
    return tli_cuda_put(run, &w, a, sizeof *a);
}

/* A thread's columns must fit its registers, or their sums are made apart. */
static tl_status normalize_grad(const tl_run *run, const tl_node *n, bool centered)
{
    const tl_norm_attr *attr = n->attr;
    const tl_tensor *gy = n->in[0], *x = n->in[1];
    const tl_tensor *gamma = attr->scaled ? n->in[3 + centered] : NULL;
    const int own = 3 + centered + attr->scaled;
    const tl_tensor *added = n->inputs > own ? n->in[own] : NULL;
    const int64_t width = width_of(x, attr);
    tli_norm_args a = {.rows = width ? tl_tensor_count(x) / width : 0,
                       .x = tli_data(x),
                       .g = tli_data(gy),
                       .gamma = gamma ? tli_data(gamma) : NULL,
                       .added = added ? tli_data(added) : NULL,
                       .y = tli_data(n->out[0]),
                       .mean = centered ? tli_data(n->in[2]) : NULL,
                       .rstd = tli_data(n->in[2 + centered])};
    const bool summed = attr->summed, params = attr->scaled || attr->shifted || summed;
    const int64_t sums = 2 + summed;
    void *room = NULL;
    a.each = tl_min_i64(tl_max_i64(tl_div_up(a.rows, PIECES), 1), MOST_ROWS);
    if (a.each > 1) a.each = tl_round_up(a.each, TOGETHER);
    const int64_t pieces = tl_div_up(a.rows, a.each);
    if (params)
        TL_TRY(tli_cuda_scratch(run, &room, (size_t)(sums * pieces * width) * sizeof(float)));
    a.sums = room;
    tli_cuda_work w = {.text = {tli_text_of_norm}, .name = "normalize_grad"};
    define(&w, attr, centered, x, gamma, added, gy, n->out[0], a.each > 1);
    tli_cuda_define(&w.defines, "ADDED", added != NULL);
    const bool together = params && width <= (int64_t)w.threads * KEPT;
    tli_cuda_define(&w.defines, "GRADIENT", 1);
    tli_cuda_define(&w.defines, "SUMS", together);
    tli_cuda_define(&w.defines, "SUMMED", summed);
    tl_str apart = TL_STR_INIT; // what kernels of their own are told
    if (params && !together) tl_str_add(&apart, tl_str_text(&w.defines));
    tl_status st = tl_str_status(&apart);
    // before the gradient, which may be written over what they read
    if (st == TL_OK && params && !together)
        st = put_sums(run, &a, "normalize_sums", pieces, &apart, width);
    a.groups = pieces;
    if (st == TL_OK) st = tli_cuda_put(run, &w, &a, sizeof a);
    else tl_str_deinit(&w.defines);
    if (st == TL_OK && summed && !together)
        st = put_sums(run, &a, "result_sums", pieces, &apart, width);
    tl_str_deinit(&apart);
    if (st != TL_OK || !params) return st;
    tli_pieces_args p = {.pieces = pieces,
                         .columns = sums * width,
                         .split = width,
                         .sums = a.sums,
                         .first = attr->scaled ? tli_data(n->out[1]) : NULL,
                         .second = attr->shifted ? tli_data(n->out[2]) : NULL,
                         .third = summed ? tli_data(n->out[3]) : NULL};
    return tli_cuda_add_pieces(run, &p, attr->scaled ? n->out[1]->dtype : TL_F32,
                               attr->shifted ? n->out[2]->dtype : TL_F32);
}

#define KERNEL(op, call, centered)                                                                 \
    static tl_status op##_kernel(const tl_run *run, const tl_node *n)                              \
    {                                                                                              \
        return call(run, n, centered);                                                             \
    }
KERNEL(layer_normalize, normalize, true)
KERNEL(layer_normalize_grad, normalize_grad, true)
KERNEL(rms_normalize, normalize, false)
KERNEL(rms_normalize_grad, normalize_grad, false)

#define ROWS(op, flags)                                                                            \
    {TL_OP_##op, TL_F32, op##_kernel, flags}, {TL_OP_##op, TL_BF16, op##_kernel, flags},           \
    {                                                                                              \
        TL_OP_##op, TL_F16, op##_kernel, flags                                                     \
    }
static const tl_kernel rows[] = {ROWS(layer_normalize, 0),
                                 ROWS(layer_normalize_grad, TL_KERNEL_JOINED),
                                 ROWS(rms_normalize, 0), ROWS(rms_normalize_grad, 0)};
const tl_kernels tli_cuda_norm_kernels = {rows, TL_COUNT(rows)};
