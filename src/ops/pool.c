#include <tilth/ops/pool.h>

#include <inttypes.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "core/inner/pool.h"
#include "ops/ops.h"
#include "ops/window.h"

static const tl_field pool_fields[] = {
    TL_F(tl_pool_attr, size_y, .i = 1, .help = "rows of the window"),
    TL_F(tl_pool_attr, size_x, .i = 1, .help = "columns of the window"),
    TL_F(tl_pool_attr, stride_y, .i = 1, .help = "rows from one place to the next"),
    TL_F(tl_pool_attr, stride_x, .i = 1, .help = "columns from one place to the next"),
    TL_F(tl_pool_attr, top, .help = "rows above the image that a window may cover"),
    TL_F(tl_pool_attr, bottom, .help = "rows below the image that a window may cover"),
    TL_F(tl_pool_attr, left, .help = "columns before the image that a window may cover"),
    TL_F(tl_pool_attr, right, .help = "columns behind the image that a window may cover"),
    TL_F(tl_pool_attr, height, .help = "rows of the image that a gradient gives"),
    TL_F(tl_pool_attr, width, .help = "columns of the image that a gradient gives"),
    TL_F_END,
};
static const tl_desc pool_desc = {
    .name = "pool",
    .help = "attributes of pooling",
    .size = sizeof(tl_pool_attr),
    .fields = pool_fields,
};

/* --- shapes ----------------------------------------------------------------------------------- */

static tli_window window_of(const tl_pool_attr *a, int axis)
{
    return axis == 0 ? (tli_window){a->size_y, a->stride_y, 1, a->top, a->bottom}
                     : (tli_window){a->size_x, a->stride_x, 1, a->left, a->right};
}

// Places of the window on an image of these rows and columns. Each covers at least one element: an
// axis that is empty, or padding as wide as the window, is refused.
static tl_status count_places(int64_t places[2], const tl_pool_attr *a, const int64_t *image)
{
    static const char *const axes[] = {"vertical", "horizontal"};
    for (int i = 0; i < 2; i++) {
        tli_window w = window_of(a, i);
        TL_TRY(tli_window_check(&w, image[i], axes[i]));
        if (w.before >= w.size || w.after >= w.size)
            return TL_FAIL(TL_EINVAL,
                           "%s padding of %" PRId64 " and %" PRId64 " for a window of %" PRId64
                           "; it must be less than the window",
                           axes[i], w.before, w.after, w.size);
        places[i] = image[i] ? tli_window_places(&w, image[i]) : 0;
        if (places[i] > 0) continue;
        return TL_FAIL(TL_EINVAL,
                       "the window covers %" PRId64 " elements on the %s axis, where the "
                       "image has %" PRId64 " and padding %" PRId64,
                       w.size, axes[i], image[i], w.before + w.after);
    }
    return TL_OK;
}

static tl_status want_image(const tl_tensor *t, const char *what)
{
    TL_TRY(tli_want_float(t, what));
    return tli_want_rank(t, 4, what);
}

static tl_status pool_infer(const tl_node *call)
{
    const tl_tensor *x = call->in[0];
    const int64_t *d = x->shape.dims;
    int64_t places[2];
    TL_TRY(want_image(x, "the image"));
    TL_TRY(count_places(places, call->attr, d + 1));
    call->out[0]->dtype = x->dtype;
    call->out[0]->shape = TL_SHAPE(d[0], places[0], places[1], d[3]);
    return TL_OK;
}

// That `y` is what pooling makes of an image of this shape.
static tl_status want_pooled(const tl_tensor *y, const tl_pool_attr *a, const tl_shape *image)
{
    int64_t places[2];
    TL_TRY(count_places(places, a, image->dims + 1));
    tl_shape wanted = TL_SHAPE(image->dims[0], places[0], places[1], image->dims[3]);
    if (tl_shape_equal(&wanted, &y->shape)) return TL_OK;
    char spec[TL_TENSOR_TEXT], text[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINVAL, "the pooled image is %s and must be %s", tl_tensor_spec(spec, y),
                   tl_shape_text(text, &wanted));
}

/* --- the largest ------------------------------------------------------------------------------ */

/* Which elements are the largest is a matter of x alone; given x, max_pool2d_pick (an image to its
 * elements at those places) and max_pool2d_grad (back, into zeros) are linear and each other's
 * gradients. */

static void max_pool2d_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                const bool *wanted)
{
    (void)wanted;
    gx[0] = TL_APPLY(c, max_pool2d_grad, n->attr, gy[0], n->in[0]);
}

const tl_op_class tl_op_max_pool2d = {
    .op = TL_OP_max_pool2d,
    .name = "max_pool2d",
    .help = "the largest element of each window",
    .attr = &pool_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = pool_infer,
    .gradient = max_pool2d_gradient,
};

/* What pooling makes a gradient of, where its attributes say it. */
static tl_shape shape_of_image(const tl_pool_attr *a, const tl_tensor *g)
{
    return TL_SHAPE(g->shape.dims[0], a->height, a->width, g->shape.dims[3]);
}

static tl_status want_places(const tl_tensor *places, const tl_tensor *g)
{
    char spec[TL_TENSOR_TEXT], text[TL_SHAPE_TEXT];
    if (tl_shape_equal(&places->shape, &g->shape)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the places are %s and must be %s", tl_tensor_spec(spec, places),
                   tl_shape_text(text, &g->shape));
}

static tl_status max_pool2d_grad_infer(const tl_node *call)
{
    const tl_tensor *g = call->in[0], *x = call->in[1];
    const bool places = x->dtype == TL_U8;
    TL_TRY(want_image(g, "the pooled image"));
    if (!places) TL_TRY(want_image(x, "the image"));
    else TL_TRY(want_places(x, g));
    const tl_shape image = places ? shape_of_image(call->attr, g) : x->shape;
    TL_TRY(want_pooled(g, call->attr, &image));
    call->out[0]->dtype = g->dtype;
    call->out[0]->shape = image;
    return TL_OK;
}

static void max_pool2d_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                     tl_tensor **gx, const bool *wanted)
{
    // Compiled programs, which tell places in place of the image, are not differentiated.
    if (wanted[0]) gx[0] = TL_APPLY(c, max_pool2d_pick, n->attr, gy[0], n->in[1]);
}

const tl_op_class tl_op_max_pool2d_grad = {
    .op = TL_OP_max_pool2d_grad,
    .name = "max_pool2d_grad",
    .help = "each number added where the image is largest in its window",
    .attr = &pool_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .infer = max_pool2d_grad_infer,
    .gradient = max_pool2d_grad_gradient,
};

static tl_status max_pool2d_pick_infer(const tl_node *call)
{
    const tl_tensor *v = call->in[0], *x = call->in[1];
    TL_TRY(want_image(x, "the image"));
    if (!tl_shape_equal(&v->shape, &x->shape)) {
        char spec[TL_TENSOR_TEXT], image[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL, "%s is picked from by %s; they must have one shape",
                       tl_tensor_spec(spec, v), tl_tensor_spec(image, x));
    }
    return pool_infer(call);
}

static void max_pool2d_pick_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                     tl_tensor **gx, const bool *wanted)
{
    if (wanted[0]) gx[0] = TL_APPLY(c, max_pool2d_grad, n->attr, gy[0], n->in[1]);
}

const tl_op_class tl_op_max_pool2d_pick = {
    .op = TL_OP_max_pool2d_pick,
    .name = "max_pool2d_pick",
    .help = "elements where another image is largest in its window",
    .attr = &pool_desc,
    .inputs_min = 2,
    .inputs_max = 2,
    .outputs = 1,
    .infer = max_pool2d_pick_infer,
    .gradient = max_pool2d_pick_gradient,
};

static tl_status max_pool2d_places_infer(const tl_node *call)
{
    const tl_pool_attr *a = call->attr;
    TL_TRY(pool_infer(call));
    if (!tli_pool_counts_in_bytes(a))
        return TL_FAIL(TL_EINVAL,
                       "a window of %" PRId64 " by %" PRId64
                       " has more elements than a byte can count, which are 256",
                       a->size_y, a->size_x);
    call->out[0]->dtype = TL_U8;
    return TL_OK;
}

/* With these the gradient needs no image. */
const tl_op_class tl_op_max_pool2d_places = {
    .op = TL_OP_max_pool2d_places,
    .name = "max_pool2d_places",
    .help = "which element of each window is the largest, counted along its rows",
    .flags = TL_OP_CONSTANT,
    .attr = &pool_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = max_pool2d_places_infer,
};

/* --- the mean --------------------------------------------------------------------------------- */

static void avg_pool2d_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                const bool *wanted)
{
    tl_pool_attr attr = *(const tl_pool_attr *)n->attr;
    (void)wanted;
    attr.height = n->in[0]->shape.dims[1];
    attr.width = n->in[0]->shape.dims[2];
    gx[0] = TL_APPLY(c, avg_pool2d_grad, &attr, gy[0]);
}

const tl_op_class tl_op_avg_pool2d = {
    .op = TL_OP_avg_pool2d,
    .name = "avg_pool2d",
    .help = "the mean of each window",
    .attr = &pool_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = pool_infer,
    .gradient = avg_pool2d_gradient,
};

static tl_status avg_pool2d_grad_infer(const tl_node *call)
{
    const tl_pool_attr *a = call->attr;
    const tl_tensor *g = call->in[0];
    TL_TRY(want_image(g, "the pooled image"));
    const tl_shape image = shape_of_image(a, g);
    TL_TRY(want_pooled(g, a, &image));
    call->out[0]->dtype = g->dtype;
    call->out[0]->shape = image;
    return TL_OK;
}

static void avg_pool2d_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                     tl_tensor **gx, const bool *wanted)
{
    tl_pool_attr attr = *(const tl_pool_attr *)n->attr;
    (void)wanted;
    attr.height = attr.width = 0;
    gx[0] = TL_APPLY(c, avg_pool2d, &attr, gy[0]);
}

const tl_op_class tl_op_avg_pool2d_grad = {
    .op = TL_OP_avg_pool2d_grad,
    .name = "avg_pool2d_grad",
    .help = "each number shared out over its window",
    .attr = &pool_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = avg_pool2d_grad_infer,
    .gradient = avg_pool2d_grad_gradient,
};

/* --- from outside ----------------------------------------------------------------------------- */

static tl_status pool_attr(tl_pool_attr *attr, const tl_tensor *x, const tl_pool2d_args *args)
{
    tli_window windows[2];
    TL_TRY(tli_want_rank(x, 4, "the image"));
    for (int i = 0; i < 2; i++) {
        tli_window *w = &windows[i];
        *w = (tli_window){.size = args->size[i] || !i ? args->size[i] : args->size[0],
                          .dilation = 1};
        w->stride = args->stride[0] ? tli_pair(args->stride, i) : w->size;
        TL_TRY(tli_window_pad(w, x->shape.dims[1 + i], args->padding, args->pads + 2 * i));
    }
    *attr = (tl_pool_attr){
        .size_y = windows[0].size,
        .size_x = windows[1].size,
        .stride_y = windows[0].stride,
        .stride_x = windows[1].stride,
        .top = windows[0].before,
        .bottom = windows[0].after,
        .left = windows[1].before,
        .right = windows[1].after,
    };
    return TL_OK;
}

static tl_tensor *pool2d(tl_ctx *c, tl_op op, tl_tensor *x, const tl_pool2d_args *args)
{
    tl_pool_attr attr;
    if (!x || tl_ctx_failed(c)) return tl_apply(c, op, NULL, 1, &x);
    if (pool_attr(&attr, x, args) != TL_OK) return tli_refuse(c, tl_op_class_of(op)->name);
    return tl_apply(c, op, &attr, 1, &x);
}

tl_tensor *tl_max_pool2d_with(tl_ctx *c, tl_tensor *x, const tl_pool2d_args *args)
{
    return pool2d(c, TL_OP_max_pool2d, x, args);
}

tl_tensor *tl_avg_pool2d_with(tl_ctx *c, tl_tensor *x, const tl_pool2d_args *args)
{
    return pool2d(c, TL_OP_avg_pool2d, x, args);
}

// As an image of one row.
static tl_tensor *pool1d(tl_ctx *c, tl_op op, tl_tensor *x, const tl_pool1d_args *args,
                         const char *name)
{
    if (!x || tl_ctx_failed(c)) return tl_apply(c, op, NULL, 1, &x);
    if (tli_want_rank(x, 3, "the input") != TL_OK) return tli_refuse(c, name);
    const int64_t *d = x->shape.dims;
    tl_pool2d_args flat = {
        .size = {1, args->size},
        .stride = {1, args->stride ? args->stride : args->size},
        .padding = args->padding,
        .pads = {0, 0, args->pads[0], args->pads[1]},
    };
    tl_tensor *y = pool2d(c, op, tl_reshape(c, x, TL_SHAPE(d[0], 1, d[1], d[2])), &flat);
    return y ? tl_reshape(c, y, TL_SHAPE(d[0], y->shape.dims[2], d[2])) : NULL;
}

tl_tensor *tl_max_pool1d_with(tl_ctx *c, tl_tensor *x, const tl_pool1d_args *args)
{
    return pool1d(c, TL_OP_max_pool2d, x, args, "max_pool1d");
}

tl_tensor *tl_avg_pool1d_with(tl_ctx *c, tl_tensor *x, const tl_pool1d_args *args)
{
    return pool1d(c, TL_OP_avg_pool2d, x, args, "avg_pool1d");
}

/* --- over the whole image --------------------------------------------------------------------- */

typedef tl_tensor *reduce_fn(tl_ctx *c, tl_tensor *x, tl_axes axes, bool keep_dims);

static tl_tensor *reduce_image(tl_ctx *c, tl_tensor *x, bool keep_dims, reduce_fn *reduce,
                               const char *name)
{
    int64_t axes[TL_MAX_RANK];
    if (!x || tl_ctx_failed(c)) return reduce(c, x, TL_ALL, keep_dims);
    if (x->shape.rank < 3) {
        char spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL, "the input is %s and must have an axis between batch and channels",
                      tl_tensor_spec(spec, x));
        return tli_refuse(c, name);
    }
    for (int i = 0; i < x->shape.rank - 2; i++) axes[i] = i + 1;
    return reduce(c, x, (tl_axes){axes, x->shape.rank - 2}, keep_dims);
}

tl_tensor *tl_global_avg_pool(tl_ctx *c, tl_tensor *x, bool keep_dims)
{
    return reduce_image(c, x, keep_dims, tl_mean, "global_avg_pool");
}

tl_tensor *tl_global_max_pool(tl_ctx *c, tl_tensor *x, bool keep_dims)
{
    return reduce_image(c, x, keep_dims, tl_max, "global_max_pool");
}
