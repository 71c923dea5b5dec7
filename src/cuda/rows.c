/* softmax, its logarithm, losses by cross-entropy (text/rows.cu). */
#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/storage.h"
#include "cuda/kernels.h"

enum {
    BLOCK = 256,
    KEPT = 32,
    LEAST_SHARED = 32 << 10, /* bytes of a row that is shared from then on */
    SHARERS = 512,           /* its threads */
    FOLLOWERS = 16,          /* rows that a group has at most, one after the other */
    LEAST_GROUPS = 1024      /* where they have several: enough to keep any GPU busy */
};

/* Results of half precision need no more than the unit's estimate of a power. */
static void define_rough(tl_str *to, tl_dtype dtype)
{
    if (dtype == TL_BF16 || dtype == TL_F16) tli_cuda_define(to, "ROUGH", 1);
}

/* --- softmax ---------------------------------------------------------------------------------- */

static tl_status softmax(const tl_run *run, const tl_node *n, bool logarithm, bool gradient)
{
    const tl_softmax_attr *attr = n->attr;
    const tl_tensor *x = n->in[gradient], *y = n->out[0];
    const int64_t count = tl_tensor_count(x), width = x->shape.dims[attr->axis];
    tli_rows_args a = {.x = tli_data(x), .y = tli_data(y), .columns = 1};
    tli_cuda_work w = {.text = {tli_text_of_rows}};
    if (!count) return TL_OK;
    for (int i = (int)attr->axis + 1; i < x->shape.rank; i++) a.columns *= x->shape.dims[i];
    a.count = count / width;
    if (gradient) a.g = tli_data(n->in[0]);
    tli_cuda_define(&w.defines, "SOFTMAX", 1);
    tli_cuda_define(&w.defines, "LOGARITHM", logarithm);
    define_rough(&w.defines, y->dtype);
    tli_cuda_define_type(&w.defines, "X", x->dtype);
    tli_cuda_define_type(&w.defines, "G", n->in[0]->dtype);
    tli_cuda_define_type(&w.defines, "Y", y->dtype);
    const bool rows = a.columns == 1;
    const int vector = tli_cuda_define_vector(&w.defines, tl_dtype_size(x->dtype), rows ? width : 1,
                                              a.x, a.y, a.g, NULL);
    w.threads = tli_cuda_define_row(&w.defines, width, vector, KEPT);
    w.name = rows ? (gradient ? "softmax_grad_rows" : "softmax_rows")
                  : (gradient ? "softmax_grad_columns" : "softmax_columns");
    if (!rows) w.threads = BLOCK;
    a.groups = rows ? a.count : tl_div_up(a.count, BLOCK);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

/* --- losses ----------------------------------------------------------------------------------- */

/* A long row that comes into memory of its group: two of them find room at once, so that one is on
 * its way while the other is worked on. */
static bool define_shared_row(const tl_run *run, tli_cuda_work *w, size_t bytes, int64_t pitch,
                              int64_t width, int vector)
{
    const int64_t row = pitch * (int64_t)bytes;
    if (row < LEAST_SHARED || 2 * row > tli_cuda_group_room(run) || vector * bytes != 16)
        return false;
    w->threads = SHARERS;
    w->shared = (size_t)row;
    tli_cuda_define(&w->defines, "WIDTH", width);
    tli_cuda_define(&w->defines, "THREADS", SHARERS);
    tli_cuda_define(&w->defines, "EACH", tl_div_up(width, (int64_t)SHARERS * vector));
    tli_cuda_define(&w->defines, "KEPT", 0);
    tli_cuda_define(&w->defines, "SHARED_ROW", 1);
    return true;
}

/* A row that stays in registers as it is in memory, if it finds room there. */
static int define_kept_row(tl_str *to, int64_t width, int vector)
{
    enum { FEW = 32, MANY = 1024, MOST = 8 }; // threads; vectors of one
    int threads = FEW;
    while (threads < MANY && width > (int64_t)threads * MOST * vector / 2)
        threads *= threads == FEW ? 4 : 2;
    const int64_t each = tl_max_i64(tl_div_up(width, (int64_t)threads * vector), 1);
    tli_cuda_define(to, "WIDTH", width);
    tli_cuda_define(to, "THREADS", threads);
    tli_cuda_define(to, "EACH", each);
    tli_cuda_define(to, "KEPT", each <= MOST);
    return threads;
}

static tl_status entropy(const tl_run *run, const tl_node *n, bool sparse, bool gradient)
{
    const tl_entropy_attr *attr = n->attr;
    const tl_tensor *labels = n->in[gradient], *z = n->in[gradient + 1];
    const int64_t pitch = z->shape.dims[z->shape.rank - 1];
    const int64_t width = attr->classes ? attr->classes : pitch;
    const bool both = sparse && !gradient && n->inputs > 2;
    tli_entropy_args a = {.groups = width ? tl_tensor_count(z) / pitch : 0,
                          .ignored = attr->ignored.value,
                          .ignores = attr->ignored.set,
                          .labels = tli_data(labels),
                          .logits = tli_data(z),
                          .smoothing = attr->smoothing};
    tli_cuda_work w = {.text = {tli_text_of_rows}};
    if (gradient) {
        a.g = tli_data(n->in[0]);
        a.given = tli_data(n->in[3]);
        a.y = tli_data(n->out[0]);
    } else {
        a.loss = tli_data(n->out[0]);
        a.lse = tli_data(n->out[1]);
        if (both) {
            a.g = tli_data(n->in[2]);
            a.y = tli_data(n->out[2]);
        }
        TL_TRY(tli_cuda_faults(run, n, labels, &a.fault, &a.place));
    }
    tli_cuda_define(&w.defines, "ENTROPY", 1);
    tli_cuda_define(&w.defines, "SPARSE", sparse);
    tli_cuda_define(&w.defines, "SMOOTH", attr->smoothing > 0);
    tli_cuda_define(&w.defines, "PITCH", pitch);
    define_rough(&w.defines, z->dtype);
    tli_cuda_define_type(&w.defines, "X", z->dtype);
    tli_cuda_define_type(&w.defines, "Y", z->dtype);
    tli_cuda_define_type(&w.defines, "L", labels->dtype);
    const void *also = sparse ? a.logits : a.labels;
    const int vector = tli_cuda_define_vector(&w.defines, tl_dtype_size(z->dtype), pitch, a.logits,
                                              also, a.y ? a.y : a.logits, NULL);
    TL_ASSERT(pitch - width < vector); // all columns get a gradient
    if (!both) w.threads = tli_cuda_define_row(&w.defines, width, vector, 0);
    else if (define_shared_row(run, &w, tl_dtype_size(z->dtype), pitch, width, vector)) {
        a.rows = a.groups;
        a.each = tl_max_i64(tl_min_i64(a.rows / LEAST_GROUPS, FOLLOWERS), 1);
        a.groups = tl_div_up(a.rows, a.each);
    } else w.threads = define_kept_row(&w.defines, width, vector);
    if (!a.each)
        w.rows = (tli_cuda_rows){
            .count = a.groups, .each = 1, .across = 1, .of = a.logits, .bytes = tl_tensor_bytes(z)};
    w.name = both     ? "sparse_both_rows"
             : sparse ? (gradient ? "sparse_grad_rows" : "sparse_rows")
                      : (gradient ? "dense_grad_rows" : "dense_rows");
    return tli_cuda_put(run, &w, &a, sizeof a);
}

static tl_status sigmoid_cross_entropy(const tl_run *run, const tl_node *n)
{
    const tl_tensor *z = n->in[1];
    tli_flat_args a = {.count = tl_tensor_count(z),
                       .x = tli_data(z),
                       .g = tli_data(n->in[0]),
                       .y = tli_data(n->out[0])};
    tli_cuda_work w = {.text = {tli_text_of_rows}, .name = "sigmoid_entropy", .threads = BLOCK};
    if (!a.count) return TL_OK;
    tli_cuda_define(&w.defines, "QUESTIONS", 1);
    tli_cuda_define_type(&w.defines, "X", z->dtype);
    tli_cuda_define_type(&w.defines, "L", n->in[0]->dtype);
    tli_cuda_define_type(&w.defines, "Y", n->out[0]->dtype);
    const int vector =
        tli_cuda_define_vector(&w.defines, tl_dtype_size(z->dtype), a.count, a.x, a.g, a.y, NULL);
    a.groups = tl_div_up(a.count, BLOCK * vector);
    return tli_cuda_put(run, &w, &a, sizeof a);
}

#define KERNEL(op, call, second, third)                                                            \
    static tl_status op(const tl_run *run, const tl_node *n)                                       \
    {                                                                                              \
        return call(run, n, second, third);                                                        \
    }
KERNEL(softmax_kernel, softmax, false, false)
KERNEL(softmax_grad_kernel, softmax, false, true)
KERNEL(log_softmax_kernel, softmax, true, false)
KERNEL(log_softmax_grad_kernel, softmax, true, true)
KERNEL(sparse_cross_entropy_kernel, entropy, true, false)
KERNEL(sparse_cross_entropy_grad_kernel, entropy, true, true)
KERNEL(cross_entropy_kernel, entropy, false, false)
KERNEL(cross_entropy_grad_kernel, entropy, false, true)

#define ROWS_WITH(op, fn, flags)                                                                   \
    {TL_OP_##op, TL_F32, fn, flags}, {TL_OP_##op, TL_BF16, fn, flags},                             \
    {                                                                                              \
        TL_OP_##op, TL_F16, fn, flags                                                              \
    }
#define ROWS(op, fn) ROWS_WITH(op, fn, 0)
static const tl_kernel rows[] = {
    ROWS(softmax, softmax_kernel),
    ROWS(softmax_grad, softmax_grad_kernel),
    ROWS(log_softmax, log_softmax_kernel),
    ROWS(log_softmax_grad, log_softmax_grad_kernel),
    ROWS_WITH(sparse_cross_entropy, sparse_cross_entropy_kernel, TL_KERNEL_JOINED | TL_KERNEL_OVER),
    ROWS_WITH(sparse_cross_entropy_grad, sparse_cross_entropy_grad_kernel, TL_KERNEL_OVER),
    ROWS(cross_entropy, cross_entropy_kernel),
    ROWS(cross_entropy_grad, cross_entropy_grad_kernel),
    ROWS(sigmoid_cross_entropy, sigmoid_cross_entropy),
};
const tl_kernels tli_cuda_row_kernels = {rows, TL_COUNT(rows)};
