/* Ops: what can be computed. Elementwise ones have a row each in core/elementwise.def. Each of the
 * others is listed once below; its class (shape rule, gradient) stands in a file of its family in
 * src/ops, its kernels in the tables of backends.
 *
 * A call of an op is a node: the op, its attributes, its inputs and outputs. Eager execution makes
 * one on the stack and runs it; a tape or a capture keeps it. Attributes are described structs, so
 * that nodes can be printed, compared and hashed.
 *
 * To add an elementwise op: docs/adding.md. To add another one: a line here, its class in
 * src/ops/<family>.c, its reference kernel in src/cpu/ref/<family>.c, its cases in tests/ops. What
 * is forgotten fails to link or fails a test.
 *
 * Thread word: immutable. */
#ifndef TILTH_CORE_OP_H
#define TILTH_CORE_OP_H

#include <tilth/core/tensor.h>
#include <tilth/desc/desc.h>

TL_BEGIN

/* All but the elementwise ones, which have rows of their own (core/elementwise.def). */
#define TL_OP_LIST(X)                                                                              \
    TL_CREATE_OPS(X)                                                                               \
    TL_RANDOM_OPS(X)                                                                               \
    TL_REDUCE_OPS(X)                                                                               \
    TL_SORT_OPS(X)                                                                                 \
    TL_VIEW_OPS(X)                                                                                 \
    TL_INDEX_OPS(X)                                                                                \
    TL_MATMUL_OPS(X)                                                                               \
    TL_CONV_OPS(X)                                                                                 \
    TL_POOL_OPS(X)                                                                                 \
    TL_BOX_OPS(X)                                                                                  \
    TL_NORM_OPS(X)                                                                                 \
    TL_SOFTMAX_OPS(X)                                                                              \
    TL_ATTENTION_OPS(X)                                                                            \
    TL_UPDATE_OPS(X)                                                                               \
    TL_COMM_OPS(X)

// clang-format off
#define TL_CREATE_OPS(X) X(full) X(arange) X(one_hot)
#define TL_RANDOM_OPS(X)                                                                           \
    X(random_uniform) X(random_normal) X(random_truncated_normal) X(random_bernoulli)              \
    X(random_integers) X(random_permutation)
#define TL_REDUCE_OPS(X)                                                                           \
    X(sum) X(prod) X(max) X(min) X(mean) X(variance) X(logsumexp) X(any) X(all) X(argmax)          \
    X(argmin) X(cumsum)
#define TL_SORT_OPS(X) X(sort) X(top_k)
#define TL_VIEW_OPS(X)                                                                             \
    X(pack) X(copy) X(reshape) X(transpose) X(broadcast_to) X(slice) X(unslice) X(concat) X(pad)
#define TL_INDEX_OPS(X) X(gather) X(gather_grad) X(take_along_axis) X(take_along_axis_grad)
#define TL_MATMUL_OPS(X) X(matmul) X(linear)
#define TL_CONV_OPS(X) X(convolve2d) X(convolve2d_input_grad) X(convolve2d_filter_grad)
#define TL_POOL_OPS(X)                                                                             \
    X(max_pool2d) X(max_pool2d_grad) X(max_pool2d_pick) X(max_pool2d_places) X(avg_pool2d)         \
    X(avg_pool2d_grad) X(resize) X(resize_grad)
#define TL_BOX_OPS(X) X(match_boxes) X(suppress_boxes) X(crop_windows) X(crop_windows_grad)
#define TL_NORM_OPS(X)                                                                             \
    X(layer_normalize) X(layer_normalize_grad) X(rms_normalize) X(rms_normalize_grad)              \
    X(group_normalize) X(group_normalize_grad) X(batch_normalize) X(batch_normalize_grad)          \
    X(batch_norm_stats) X(batch_norm_apply) X(batch_norm_apply_grad)
#define TL_SOFTMAX_OPS(X)                                                                          \
    X(softmax) X(softmax_grad) X(log_softmax) X(log_softmax_grad) X(sparse_cross_entropy)          \
    X(sparse_cross_entropy_grad) X(cross_entropy) X(cross_entropy_grad) X(sigmoid_cross_entropy)
#define TL_ATTENTION_OPS(X) X(attend) X(attend_grad) X(dropout)
#define TL_UPDATE_OPS(X)                                                                           \
    X(update_sgd) X(update_adam) X(update_rmsprop) X(update_adagrad) X(update_lamb) X(update_lars) \
    X(update_adadelta) X(update_adamax) X(update_nadam) X(update_ftrl) X(update_lion)              \
    X(update_ema) X(assign) X(finite_and_norm) X(square_sums)
#define TL_COMM_OPS(X) X(all_gather) X(all_reduce) X(reduce_scatter) X(lane)
// clang-format on

typedef enum tl_op {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient) TL_OP_##op,
#include <tilth/core/elementwise.def>
#define TL_OP_ENUM(name) TL_OP_##name,
    TL_OP_LIST(TL_OP_ENUM)
#undef TL_OP_ENUM
        TL_OP_COUNT
} tl_op;

typedef struct tl_ctx tl_ctx;
typedef struct tl_op_class tl_op_class;

/* One call of an op. */
struct tl_node {
    const tl_op_class *op;
    const void *attr; /* described by op->attr; NULL when it has none */
    tl_tensor *const *in;
    tl_tensor *const *out;
    int inputs, outputs;
    const char *path;         /* the module that called, "" outside of any */
    struct tl_graph **bodies; /* reserved for ops that hold sub-graphs (scan, while) */
    int body_count;
    int64_t index;           /* in its list, when that was numbered last */
    int64_t id;              /* in the graph that it belongs to: stays where it moves */
    tl_node *before, *after; /* its list */
};

/* flags of an op */
enum {
    TL_OP_VIEW = 1,         /* its output shares the storage of input 0; no kernel runs */
    TL_OP_CONSTANT = 2,     /* its outputs do not depend on its inputs in a differentiable way */
    TL_OP_FIRST_ORDER = 4,  /* fused: has a gradient, which has none itself */
    TL_OP_RANDOM = 8,       /* draws: equal nodes give different results */
    TL_OP_ELEMENTWISE = 16, /* one element of each input, as they stand under each other, gives one
                             * of the output */
    TL_OP_TRUTH = 32,       /* gives bool, whatever it is given */
    TL_OP_IDEMPOTENT = 64,  /* f(f(x)) is f(x) */
    TL_OP_INVOLUTION = 128, /* f(f(x)) is x */
    /* of numbers that a type can hold it gives such numbers: it chooses among them, or changes a
     * sign */
    TL_OP_CHOOSES = 256,
    TL_OP_UPDATE = 512, /* a rule of an optimizer: input 0 are the weights, 1 their gradient, of
                         * any float type, or bytes in runs; may write a copy of the weights too */
    TL_OP_COMM = 1024   /* a collective: all lanes call it, in the same order, and wait for each
                         * other. It is not computed again, and passes no other one */
};

struct tl_op_class {
    tl_op op;
    const char *name, *help;
    const tl_desc *attr;        /* NULL: no attributes */
    int inputs_min, inputs_max; /* inputs_max of -1: any number */
    int outputs;
    int by; /* the input whose type chooses the kernel; -1: output 0 */
    unsigned flags;
    uint32_t writes; /* inputs that it changes in place, one bit each */
    /* Required. The inputs are there; checks types and shapes and fills in type and shape of each
     * output (for a view strides and offset too). Failures name what was given and what is wanted;
     * the op's name is put before them. */
    tl_status (*infer)(const tl_node *call);
    /* Optional. Sets gx[i] for each input where wanted[i] is true and there is a gradient; leaving
     * it NULL says there is none. gy[i] is NULL where an output has no gradient. Only calls ops.
     * Errors stick in the context. NULL: asking for a gradient is an error, unless
     * TL_OP_CONSTANT. */
    void (*gradient)(tl_ctx *c, const tl_node *call, tl_tensor *const *gy, tl_tensor **gx,
                     const bool *wanted);
    /* Optional: multiplications and additions of the call. NULL: one for each output element. */
    double (*flops)(const tl_node *call);
};

/* By number; the table is in src/ops. */
TL_API const tl_op_class *tl_op_class_of(tl_op op);

#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    extern const tl_op_class tl_op_##op;
#include <tilth/core/elementwise.def>
#define TL_OP_EXTERN(name) extern const tl_op_class tl_op_##name;
TL_OP_LIST(TL_OP_EXTERN)
#undef TL_OP_EXTERN

TL_END

#endif
