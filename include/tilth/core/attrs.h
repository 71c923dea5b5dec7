/* Attributes of ops: described structs, read by shape rules, gradients and kernels alike. Their
 * descriptions stand beside the op's class in src/ops.
 *
 * Members are numbers, enums, bools and lists of numbers; lists are borrowed until the call is
 * recorded, which copies them.
 *
 * Thread word: immutable. */
#ifndef TILTH_CORE_ATTRS_H
#define TILTH_CORE_ATTRS_H

#include <tilth/core/dtype.h>
#include <tilth/desc/desc.h>

TL_BEGIN

/* --- elementwise, create ---------------------------------------------------------------------- */
typedef struct tl_cast_attr {
    tl_dtype dtype;
} tl_cast_attr;

typedef struct tl_affine_attr {
    double scale, shift;
} tl_affine_attr;

typedef struct tl_clip_attr {
    double low, high;
} tl_clip_attr;

typedef struct tl_alpha_attr { /* leaky_relu, elu */
    double alpha;
} tl_alpha_attr;

typedef struct tl_gelu_attr {
    bool approximate;
} tl_gelu_attr;

typedef struct tl_full_attr {
    double value;
    tl_ints shape;
    tl_dtype dtype;
} tl_full_attr;

typedef struct tl_arange_attr {
    double start, stop, step;
    tl_dtype dtype;
} tl_arange_attr;

typedef struct tl_one_hot_attr {
    int64_t depth;
    tl_dtype dtype;
} tl_one_hot_attr;

/* --- random ----------------------------------------------------------------------------------- */
typedef struct tl_random_attr {
    int64_t key; /* tl_ctx_draw_key */
    double a, b; /* low and high; mean and deviation; probability and nothing */
    tl_ints shape;
    tl_dtype dtype;
} tl_random_attr;

typedef struct tl_random_integers_attr {
    int64_t key, low, high;
    tl_ints shape;
    tl_dtype dtype;
} tl_random_integers_attr;

typedef struct tl_permutation_attr {
    int64_t key, count;
} tl_permutation_attr;

/* --- reduce ----------------------------------------------------------------------------------- */
typedef struct tl_reduce_attr {
    tl_ints axes; /* from 0, increasing; never empty unless the input is a scalar */
    bool keep_dims;
} tl_reduce_attr;

typedef struct tl_variance_attr {
    tl_ints axes; /* as above */
    bool keep_dims;
    int64_t correction; /* 0 or 1 */
} tl_variance_attr;

typedef struct tl_arg_attr {
    int64_t axis; /* from 0 */
    bool keep_dims;
} tl_arg_attr;

typedef struct tl_cumsum_attr {
    int64_t axis; /* from 0 */
    bool exclusive, reverse;
} tl_cumsum_attr;

/* --- sort ------------------------------------------------------------------------------------- */
typedef struct tl_sort_attr {
    int64_t axis; /* from 0 */
    bool descending;
} tl_sort_attr;

typedef struct tl_top_k_attr {
    int64_t k;
} tl_top_k_attr;

/* --- view ------------------------------------------------------------------------------------- */
typedef struct tl_shape_attr {
    tl_ints shape;
} tl_shape_attr;

typedef struct tl_transpose_attr {
    tl_ints perm;
} tl_transpose_attr;

typedef struct tl_pack_attr {
    tl_ints offsets; /* where each input begins */
    int64_t count;   /* elements of the result */
    /* both are bytes, the result is uint8, and tensors may be of any types. Compiled programs set
     * it */
    bool bytes;
} tl_pack_attr;

/* Of collectives. */
typedef struct tl_comm_attr {
    int64_t lanes; /* that take part */
} tl_comm_attr;

typedef struct tl_axis_attr {
    int64_t axis; /* from 0 */
} tl_axis_attr;

/* One number an axis each. A start is a place, never negative; a step may be. */
typedef struct tl_slice_attr {
    tl_ints starts, sizes, steps;
} tl_slice_attr;

typedef struct tl_unslice_attr {
    tl_ints shape, starts, steps;
} tl_unslice_attr;

typedef enum tl_pad_mode { TL_PAD_CONSTANT, TL_PAD_REFLECT } tl_pad_mode;

typedef struct tl_pad_attr {
    tl_ints before, after; /* one number an axis */
    double value;
    tl_pad_mode mode;
} tl_pad_attr;

/* --- index ------------------------------------------------------------------------------------ */
typedef struct tl_scatter_attr {
    int64_t axis, size; /* from 0; of the axis of the result */
} tl_scatter_attr;

/* --- norm ------------------------------------------------------------------------------------- */
/* Functions between layers, by their rows in core/elementwise.def. Those before TL_ACT_FUSED_COUNT
 * may follow a linear map in one op. */
typedef enum tl_activation {
    TL_ACT_NONE,
#define TL_ACTIVATION(id, name, keras, call) TL_ACT_##id,
#include <tilth/core/elementwise.def>
    TL_ACT_COUNT,
    TL_ACT_FUSED_COUNT = TL_ACT_SIGMOID + 1
} tl_activation;

typedef struct tl_norm_attr {
    double epsilon;       /* added to the variance */
    int64_t axes;         /* layer and rms: how many of the last axes are normalised together */
    int64_t groups;       /* group: of channels */
    bool scaled, shifted; /* whether there are inputs gamma and beta */
    /* batch: RELU or RELU6 may follow; the gradient is then told beta too, and sees itself which
     * elements passed */
    tl_activation activation;
    /* batch: the last input, of the shape of x, is added to what comes out, before the
     * activation */
    bool added;
    /* the gradient of layer: output 3 is the sum of output 0 over all rows. Compiled programs set
     * it where a kernel says TL_KERNEL_JOINED */
    bool summed;
} tl_norm_attr;

/* --- softmax and losses ----------------------------------------------------------------------- */
typedef struct tl_softmax_attr {
    int64_t axis; /* from 0 */
} tl_softmax_attr;

typedef struct tl_entropy_attr {
    double smoothing;   /* share of the target that is spread evenly over the classes */
    tl_opt_int ignored; /* the label whose loss is 0 */
    int64_t classes;    /* those behind them are left out, and have no gradient; 0: all count */
} tl_entropy_attr;

/* --- attention, dropout ----------------------------------------------------------------------- */
typedef struct tl_attend_attr {
    double scale, rate; /* of the scores; of the dropout of weights */
    int64_t key;        /* of the dropout's draws */
    bool causal;
    bool masked, biased; /* whether there are inputs mask and bias */
    bool bias_grad;      /* the gradient's: whether it gives that of the bias */
    /* the last input, bool [B, H, T, S], is true where a weight is dropped, and nothing is drawn.
     * Compiled programs set it where a kernel says TL_KERNEL_DRAWS */
    bool dropped;
    /* the gradient's: those of q, k and v, which are alike, are one result [B, T, 3, H, D].
     * Compiled programs set it where a kernel says TL_KERNEL_JOINED */
    bool joined;
} tl_attend_attr;

typedef struct tl_dropout_attr {
    double rate;
    int64_t key;
    bool per_example; /* one draw for each index of the first axis */
} tl_dropout_attr;

/* --- update ----------------------------------------------------------------------------------- */
/* Where two libraries write the same rule differently, whose way is followed. */
typedef enum tl_update_form { TL_FORM_KERAS, TL_FORM_PYTORCH } tl_update_form;

/* What the attributes of all updates begin with. */
typedef struct tl_update_attr {
    /* the last input, behind the slots, is a copy of the parameters in half precision, which is
     * written as well. Compiled programs set it */
    bool copy;
    /* empty, or the gradient is bytes (uint8), in which runs of elements lie in types of their own:
     * three numbers for each run, its first element, its first byte and its tl_dtype. Compiled
     * programs set it where a kernel says TL_KERNEL_JOINED */
    tl_ints runs;
} tl_update_attr;

/* finite_and_norm: the same for its only block, which has `count` elements. */
typedef struct tl_finite_attr {
    tl_ints runs;
    int64_t count;
} tl_finite_attr;

/* Members that several updates share. The tensors of a block: tensor i begins at element offsets[i]
 * and ends where the next one begins; no offsets: the block is one tensor. `decayed` and `adapted`
 * say for each tensor, by 0 or 1, whether its weights decay and whether its rate follows its norm;
 * empty: all. */
typedef struct tl_sgd_attr {
    tl_update_attr update;
    double momentum, weight_decay; /* the decay is added to the gradient */
    tl_update_form form;
    bool nesterov;
    tl_ints offsets, decayed;
} tl_sgd_attr;

typedef struct tl_adam_attr {
    tl_update_attr update;
    double beta_1, beta_2, epsilon;
    double weight_decay; /* beside the gradient: AdamW */
    tl_update_form form;
    bool amsgrad;
    tl_ints offsets, decayed;
} tl_adam_attr;

typedef struct tl_rmsprop_attr {
    tl_update_attr update;
    double rho, momentum, epsilon;
    tl_update_form form;
    bool centered;
} tl_rmsprop_attr;

typedef struct tl_adagrad_attr {
    tl_update_attr update;
    double epsilon;
} tl_adagrad_attr;

typedef struct tl_lamb_attr {
    tl_update_attr update;
    double beta_1, beta_2, epsilon, weight_decay;
    tl_ints offsets, decayed, adapted;
} tl_lamb_attr;

typedef struct tl_lars_attr {
    tl_update_attr update;
    double momentum, eeta, weight_decay;
    bool nesterov, classic_momentum;
    tl_ints offsets, decayed, adapted;
} tl_lars_attr;

/* The decay of the five that follow is beside the gradient, as Keras has it. */
typedef struct tl_adadelta_attr {
    tl_update_attr update;
    double rho, epsilon, weight_decay;
    tl_ints offsets, decayed;
} tl_adadelta_attr;

typedef struct tl_adamax_attr {
    tl_update_attr update;
    double beta_1, beta_2, epsilon, weight_decay;
    tl_ints offsets, decayed;
} tl_adamax_attr;

typedef struct tl_nadam_attr {
    tl_update_attr update;
    double beta_1, beta_2, epsilon, weight_decay;
    tl_ints offsets, decayed;
} tl_nadam_attr;

typedef struct tl_ftrl_attr {
    tl_update_attr update;
    double learning_rate_power; /* at most 0 */
    double l1, l2, l2_shrinkage, beta, weight_decay;
    tl_ints offsets, decayed;
} tl_ftrl_attr;

typedef struct tl_lion_attr {
    tl_update_attr update;
    double beta_1, beta_2, weight_decay;
    tl_ints offsets, decayed;
} tl_lion_attr;

typedef struct tl_ema_attr {
    double momentum;
} tl_ema_attr;

typedef struct tl_assign_attr {
    bool add;     /* to what is there; else in its place */
    double scale; /* of what is added: kernels that have TL_KERNEL_JOINED multiply by it; 0: none */
} tl_assign_attr;

/* Elements of a block whose squares square_sums adds up. */
enum { TL_SQUARES = 16384 };

/* --- matmul ----------------------------------------------------------------------------------- */
typedef struct tl_matmul_attr {
    bool transpose_a, transpose_b;
    /* of half precision: the result is float32. Compiled programs set it where a kernel says
     * TL_KERNEL_JOINED */
    bool wide;
    /* input 2 is added, or was given to gelu_tanh, whose gradient the result is; neither: the
     * result is 0 where input 2 is not positive */
    bool added, gelu_grad;
} tl_matmul_attr;

typedef struct tl_linear_attr {
    tl_activation activation;
    bool keep_sum; /* output 1 is what the activation was given; otherwise it is empty */
    /* with gelu_tanh, in place of the sum: output 1 is the slope there. Compiled programs set it
     * where a kernel says TL_KERNEL_SLOPES */
    bool keep_slope;
} tl_linear_attr;

/* --- conv ------------------------------------------------------------------------------------- */
/* Shared by the three products of an image [n, h, w, in], a filter [kh, kw, in / groups, out] and
 * the result [n, oh, ow, out] of their convolution. */
typedef struct tl_conv_attr {
    int64_t stride_y, stride_x, dilation_y, dilation_x;
    int64_t top, bottom, left, right; /* zeros around the image */
    int64_t groups;
    int64_t height, width; /* gradients: of the image or filter that they give; else 0 */
    bool wide;             /* a filter's gradient, of half precision: the result is float32 */
} tl_conv_attr;

/* --- pool ------------------------------------------------------------------------------------- */
typedef struct tl_pool_attr {
    int64_t size_y, size_x, stride_y, stride_x;
    int64_t top, bottom, left, right; /* places around the image that windows may cover */
    /* Of the image that avg_pool2d_grad gives, and max_pool2d_grad where it is told places in place
     * of the image, as compiled programs do where a kernel of max_pool2d_places says
     * TL_KERNEL_JOINED; else 0 */
    int64_t height, width;
} tl_pool_attr;

typedef enum tl_resize_method { TL_NEAREST, TL_BILINEAR, TL_RESIZE_METHOD_COUNT } tl_resize_method;

typedef struct tl_resize_attr {
    int64_t height, width; /* of the result */
    tl_resize_method method;
    bool align_corners; /* corner pixels lie on each other; else corners of the images do */
} tl_resize_attr;

/* --- boxes ------------------------------------------------------------------------------------ */
typedef struct tl_match_attr {
    double padding;            /* an overlap below this is padding's */
    double unmatched, matched; /* below the first: background; from the second on: a match */
    bool force;                /* each box takes the one that overlaps it most */
} tl_match_attr;

/* Whom a box that is kept takes out. */
typedef enum tl_suppression {
    TL_SUPPRESS_TILED,   /* overlaps of at least the threshold, 512 boxes at a time */
    TL_SUPPRESS_GREEDY,  /* overlaps of at least the threshold */
    TL_SUPPRESS_ABOVE,   /* overlaps above the threshold */
    TL_SUPPRESS_SOFT,    /* none: it lowers their scores */
    TL_SUPPRESS_REFINED, /* as above, found by a few rounds for all boxes at once */
    TL_SUPPRESSION_COUNT
} tl_suppression;

typedef struct tl_suppress_attr {
    double overlap, score;    /* thresholds: of overlaps; scores must be above this one */
    double sigma;             /* soft: of the bell that scores are lowered by */
    int64_t candidates, keep; /* at most, in each class */
    int64_t rounds;           /* refined */
    tl_suppression rule;
} tl_suppress_attr;

typedef struct tl_crop_attr {
    int64_t size;          /* rows and columns of a crop */
    double offset;         /* of a sample in its cell, of its size */
    int64_t first;         /* number of the first level that is given */
    int64_t height, width; /* of level 0 */
    int64_t rows, columns; /* the gradient's: of the level that it gives; else 0 */
} tl_crop_attr;

TL_END

#endif
