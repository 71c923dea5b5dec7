/* Normalisation of rows: layer and rms (text/norm.cu). */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum {
    BLOCK = 256,
    KEPT = 32,
    PIECES = 2048, /* of rows whose sums are added up apart: enough to keep any GPU busy */
    MOST_ROWS = 64 /* of one of them */
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

/* Threads of a group that has a row, each of them one vector if they are enough: gradients keep
 * sums of their columns, and the next row, in registers. */
static int define_spread_row(tl_str *to, int64_t width, int vector)
{
    enum { MOST = 512 };
    int threads = 32;
    while (threads < MOST && width > (int64_t)threads * vector) threads *= threads == 32 ? 4 : 2;
    const int64_t each = tl_max_i64(tl_div_up(width, (int64_t)threads * vector), 1);
    tli_cuda_define(to, "WIDTH", width);
    tli_cuda_define(to, "THREADS", threads);
    tli_cuda_define(to, "EACH", each);
    tli_cuda_define(to, "KEPT", each * vector <= KEPT);
    return threads;
}

static int define(tl_str *to, const tl_norm_attr *attr, bool centered, const tl_tensor *x,
                  const tl_tensor *gamma, const tl_tensor *beta, const tl_tensor *gy,
                  const tl_tensor *y, int *threads)
{
    const int64_t width = width_of(x, attr);
    const void *at = tli_data(x);
    tli_cuda_define(to, "NORM", 1);
    tli_cuda_define(to, "CENTERED", centered);
    tli_cuda_define(to, "SCALED", gamma != NULL);
    tli_cuda_define(to, "SHIFTED", beta != NULL);
    tli_cuda_define_type(to, "X", x->dtype);
    tli_cuda_define_type(to, "Y", y->dtype);
    tli_cuda_define_type(to, "P", gamma ? gamma->dtype : TL_F32);
    tli_cuda_define_type(to, "B", beta ? beta->dtype : TL_F32);
    tli_cuda_define_type(to, "G", gy ? gy->dtype : TL_F32);
    const int vector = tli_cuda_define_vector(
        to, tl_dtype_size(x->dtype), width, at, tli_data(y), gamma ? tli_data(gamma) : at,
        beta ? tli_data(beta) : at, gy ? tli_data(gy) : at, NULL);
    *threads =
        gy ? define_spread_row(to, width, vector) : tli_cuda_define_row(to, width, vector, KEPT);
    return vector;
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
    define(&w.defines, attr, centered, x, gamma, beta, NULL, n->out[0], &w.threads);
    return tli_cuda_put(run, &w, &a, sizeof a);
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
    const bool params = attr->scaled || attr->shifted;
    int threads;
    void *room = NULL;
    a.each = tl_min_i64(tl_max_i64(tl_div_up(a.rows, PIECES), 1), MOST_ROWS);
    const int64_t pieces = tl_div_up(a.rows, a.each);
    if (params) TL_TRY(tli_cuda_scratch(run, &room, (size_t)(2 * pieces * width) * sizeof(float)));
    a.sums = room;
    tli_cuda_work w = {.text = {tli_text_of_norm}, .name = "normalize_grad"};
    define(&w.defines, attr, centered, x, gamma, added, gy, n->out[0], &threads);
    tli_cuda_define(&w.defines, "ADDED", added != NULL);
    const bool together = params && width <= (int64_t)threads * KEPT;
    tli_cuda_define(&w.defines, "GRADIENT", 1);
    tli_cuda_define(&w.defines, "SUMS", together);
    w.threads = threads;
    if (params && !together) { // first: the gradient may be written over what they read
        tli_cuda_work sums = {
            .text = {tli_text_of_norm}, .name = "normalize_sums", .threads = BLOCK};
        tl_str_add(&sums.defines, tl_str_text(&w.defines));
        a.groups = pieces * tl_div_up(width, BLOCK);
        tl_status st = tli_cuda_put(run, &sums, &a, sizeof a);
        if (st != TL_OK) tl_str_deinit(&w.defines);
        TL_TRY(st);
    }
    a.groups = pieces;
    TL_TRY(tli_cuda_put(run, &w, &a, sizeof a));
    if (!params) return TL_OK;
    tli_pieces_args p = {.pieces = pieces,
                         .columns = 2 * width,
                         .split = width,
                         .sums = a.sums,
                         .first = attr->scaled ? tli_data(n->out[1]) : NULL,
                         .second = attr->shifted ? tli_data(n->out[2]) : NULL};
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
