#include <tilth/ops/conv.h>

#include <inttypes.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"
#include "ops/wide.h"
#include "ops/window.h"

/* The three products of image x [n, h, w, in], filter k [kh, kw, in / groups, out] and result
 * y [n, oh, ow, out] make a closed family: <convolve2d(x, k), y> = <x, convolve2d_input_grad(y, k)>
 * = <k, convolve2d_filter_grad(x, y)>, so each one's gradients are the two others. */

static const tl_field conv_fields[] = {
    TL_F(tl_conv_attr, stride_y, .i = 1, .help = "rows from one place to the next"),
    TL_F(tl_conv_attr, stride_x, .i = 1, .help = "columns from one place to the next"),
    TL_F(tl_conv_attr, dilation_y, .i = 1, .help = "rows between elements of the filter"),
    TL_F(tl_conv_attr, dilation_x, .i = 1, .help = "columns between elements of the filter"),
    TL_F(tl_conv_attr, top, .help = "rows of zeros above the image"),
    TL_F(tl_conv_attr, bottom, .help = "rows of zeros below the image"),
    TL_F(tl_conv_attr, left, .help = "columns of zeros before the image"),
    TL_F(tl_conv_attr, right, .help = "columns of zeros behind the image"),
    TL_F(tl_conv_attr, groups, .i = 1, .help = "groups of channels that do not mix"),
    TL_F(tl_conv_attr, height, .help = "rows of what a gradient gives"),
    TL_F(tl_conv_attr, width, .help = "columns of what a gradient gives"),
    TL_F(tl_conv_attr, wide, .help = "a filter's gradient of half precision is float32"),
    TL_F_END,
};
static const tl_desc conv_desc = {
    .name = "conv",
    .help = "attributes of convolutions",
    .size = sizeof(tl_conv_attr),
    .fields = conv_fields,
};

/* --- shapes ----------------------------------------------------------------------------------- */

static tli_window window_of(const tl_conv_attr *a, int axis, int64_t size)
{
    return axis == 0 ? (tli_window){size, a->stride_y, a->dilation_y, a->top, a->bottom}
                     : (tli_window){size, a->stride_x, a->dilation_x, a->left, a->right};
}

// Places of a filter, rows and columns of `filter`, on an image, rows and columns of `image`.
static tl_status count_places(int64_t places[2], const tl_conv_attr *a, const int64_t *image,
                              const int64_t *filter)
{
    static const char *const axes[] = {"vertical", "horizontal"};
    for (int i = 0; i < 2; i++) {
        tli_window w = window_of(a, i, filter[i]);
        TL_TRY(tli_window_check(&w, image[i], axes[i]));
        places[i] = tli_window_places(&w, image[i]);
        if (places[i] > 0) continue;
        return TL_FAIL(TL_EINVAL,
                       "the filter covers %" PRId64 " elements on the %s axis, where the "
                       "image has %" PRId64 " and padding %" PRId64,
                       tli_window_reach(&w), axes[i], image[i], w.before + w.after);
    }
    return TL_OK;
}

static tl_status want_places(const int64_t places[2], const tl_tensor *y)
{
    char spec[TL_TENSOR_TEXT];
    if (places[0] == y->shape.dims[1] && places[1] == y->shape.dims[2]) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the filter has %" PRId64 "x%" PRId64 " places on the image, but the "
                   "result of the convolution is %s",
                   places[0], places[1], tl_tensor_spec(spec, y));
}

static tl_status want_inputs(const tl_node *call, const char *first, const char *second)
{
    const tl_tensor *a = call->in[0], *b = call->in[1];
    TL_TRY(tli_want_float(a, first));
    TL_TRY(tli_want_rank(a, 4, first));
    TL_TRY(tli_want_rank(b, 4, second));
    if (a->dtype != b->dtype)
        return TL_FAIL(TL_EINVAL, "%s and %s are of different types; cast one",
                       tl_dtype_name(a->dtype), tl_dtype_name(b->dtype));
    call->out[0]->dtype = a->dtype;
    return TL_OK;
}

static tl_status want_groups(const tl_conv_attr *a, int64_t channels, const char *what)
{
    if (a->groups < 1)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " groups; there must be at least one", a->groups);
    if (channels % a->groups)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " %s channels cannot be shared by %" PRId64 " groups",
                       channels, what, a->groups);
    return TL_OK;
}

static tl_status convolve2d_infer(const tl_node *call)
{
    const tl_conv_attr *a = call->attr;
    const tl_tensor *x = call->in[0], *k = call->in[1];
    const int64_t *xd = x->shape.dims, *kd = k->shape.dims;
    int64_t places[2];
    TL_TRY(want_inputs(call, "the image", "the filter"));
    TL_TRY(want_groups(a, xd[3], "input"));
    TL_TRY(want_groups(a, kd[3], "output"));
    if (kd[2] != xd[3] / a->groups) {
        char image[TL_TENSOR_TEXT], filter[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "the image is %s, in %" PRId64 " group%s of %" PRId64 " channels; the "
                       "filter is %s and takes %" PRId64
                       " (rows, columns, input channels of a group, "
                       "output channels)",
                       tl_tensor_spec(image, x), a->groups, a->groups == 1 ? "" : "s",
                       xd[3] / a->groups, tl_tensor_spec(filter, k), kd[2]);
    }
    TL_TRY(count_places(places, a, xd + 1, kd));
    call->out[0]->shape = TL_SHAPE(xd[0], places[0], places[1], kd[3]);
    return TL_OK;
}

static tl_status convolve2d_input_grad_infer(const tl_node *call)
{
    const tl_conv_attr *a = call->attr;
    const tl_tensor *y = call->in[0], *k = call->in[1];
    const int64_t *kd = k->shape.dims, size[] = {a->height, a->width};
    int64_t places[2];
    TL_TRY(want_inputs(call, "the result of the convolution", "the filter"));
    TL_TRY(want_groups(a, kd[3], "output"));
    if (y->shape.dims[3] != kd[3]) {
        char result[TL_TENSOR_TEXT], filter[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "the result of the convolution is %s and the filter %s; their last "
                       "dims must agree",
                       tl_tensor_spec(result, y), tl_tensor_spec(filter, k));
    }
    TL_TRY(count_places(places, a, size, kd));
    TL_TRY(want_places(places, y));
    call->out[0]->shape = TL_SHAPE(y->shape.dims[0], a->height, a->width, kd[2] * a->groups);
    return TL_OK;
}

static tl_status convolve2d_filter_grad_infer(const tl_node *call)
{
    const tl_conv_attr *a = call->attr;
    const tl_tensor *x = call->in[0], *y = call->in[1];
    const int64_t *xd = x->shape.dims, *yd = y->shape.dims, size[] = {a->height, a->width};
    int64_t places[2];
    TL_TRY(want_inputs(call, "the image", "the result of the convolution"));
    TL_TRY(want_groups(a, xd[3], "input"));
    TL_TRY(want_groups(a, yd[3], "output"));
    if (xd[0] != yd[0])
        return TL_FAIL(TL_EINVAL, "%" PRId64 " images and %" PRId64 " results", xd[0], yd[0]);
    TL_TRY(count_places(places, a, xd + 1, size));
    TL_TRY(want_places(places, y));
    call->out[0]->shape = TL_SHAPE(a->height, a->width, xd[3] / a->groups, yd[3]);
    if (a->wide) call->out[0]->dtype = tli_wide(x->dtype);
    return TL_OK;
}

/* --- gradients -------------------------------------------------------------------------------- */

static tl_tensor *product(tl_ctx *c, const tl_conv_attr *a, tl_tensor *x, tl_tensor *k)
{
    tl_conv_attr attr = *a;
    attr.height = attr.width = 0;
    return TL_APPLY(c, convolve2d, &attr, x, k);
}

// `x` is the image whose size the result has.
static tl_tensor *input_grad(tl_ctx *c, const tl_conv_attr *a, tl_tensor *y, tl_tensor *k,
                             const tl_tensor *x)
{
    tl_conv_attr attr = *a;
    attr.height = x->shape.dims[1];
    attr.width = x->shape.dims[2];
    return TL_APPLY(c, convolve2d_input_grad, &attr, y, k);
}

// `k` is the filter whose size the result has.
static tl_tensor *filter_grad(tl_ctx *c, const tl_conv_attr *a, tl_tensor *x, tl_tensor *y,
                              const tl_tensor *k)
{
    tl_conv_attr attr = *a;
    attr.height = k->shape.dims[0];
    attr.width = k->shape.dims[1];
    return TL_APPLY(c, convolve2d_filter_grad, &attr, x, y);
}

static void convolve2d_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                const bool *wanted)
{
    tl_tensor *x = n->in[0], *k = n->in[1];
    if (wanted[0]) gx[0] = input_grad(c, n->attr, gy[0], k, x);
    if (wanted[1]) gx[1] = filter_grad(c, n->attr, x, gy[0], k);
}

static void convolve2d_input_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                           tl_tensor **gx, const bool *wanted)
{
    tl_tensor *y = n->in[0], *k = n->in[1];
    if (wanted[0]) gx[0] = product(c, n->attr, gy[0], k);
    if (wanted[1]) gx[1] = filter_grad(c, n->attr, gy[0], y, k);
}

static void convolve2d_filter_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy,
                                            tl_tensor **gx, const bool *wanted)
{
    tl_tensor *x = n->in[0], *y = n->in[1];
    if (wanted[0]) gx[0] = input_grad(c, n->attr, y, gy[0], x);
    if (wanted[1]) gx[1] = product(c, n->attr, x, gy[0]);
}

static double flops(const tl_tensor *result, const tl_tensor *filter)
{
    const int64_t *kd = filter->shape.dims;
    return 2.0 * (double)tl_tensor_count(result) * (double)kd[0] * (double)kd[1] * (double)kd[2];
}

static double convolve2d_flops(const tl_node *n)
{
    return flops(n->out[0], n->in[1]);
}

static double convolve2d_input_grad_flops(const tl_node *n)
{
    return flops(n->in[0], n->in[1]);
}

static double convolve2d_filter_grad_flops(const tl_node *n)
{
    return flops(n->in[1], n->out[0]);
}

#define CONVOLUTION(name_, help_)                                                                  \
    const tl_op_class tl_op_##name_ = {                                                            \
        .op = TL_OP_##name_,                                                                       \
        .name = #name_,                                                                            \
        .help = help_,                                                                             \
        .attr = &conv_desc,                                                                        \
        .inputs_min = 2,                                                                           \
        .inputs_max = 2,                                                                           \
        .outputs = 1,                                                                              \
        .infer = name_##_infer,                                                                    \
        .gradient = name_##_gradient,                                                              \
        .flops = name_##_flops,                                                                    \
    };
CONVOLUTION(convolve2d, "image and filter to their convolution")
CONVOLUTION(convolve2d_input_grad, "convolution and filter to the image's gradient")
CONVOLUTION(convolve2d_filter_grad, "image and convolution to the filter's gradient")

/* --- from outside ----------------------------------------------------------------------------- */

// Image and filters as the rules below need them: there, of one type, with four dims.
static bool prepare(tl_ctx *c, const char *name, tl_tensor **x, tl_tensor **filters)
{
    if (!*x || !*filters || tl_ctx_failed(c)) {
        (void)TL_APPLY(c, convolve2d, NULL, *x, *filters);
        return false;
    }
    if (tli_want_rank(*x, 4, "the image") != TL_OK
        || tli_want_rank(*filters, 4, "the filter") != TL_OK) {
        tli_refuse(c, name);
        return false;
    }
    return tli_meet(c, x, filters);
}

static tl_status pad_axes(tl_conv_attr *attr, const int64_t *image, const int64_t *filter,
                          tl_padding padding, const int64_t pads[4])
{
    tli_window down = window_of(attr, 0, filter[0]), across = window_of(attr, 1, filter[1]);
    TL_TRY(tli_window_pad(&down, image[0], padding, pads));
    TL_TRY(tli_window_pad(&across, image[1], padding, pads + 2));
    attr->top = down.before;
    attr->bottom = down.after;
    attr->left = across.before;
    attr->right = across.after;
    return TL_OK;
}

static tl_conv_attr attr_of(const int64_t stride[2], const int64_t dilation[2], int64_t groups)
{
    return (tl_conv_attr){
        .stride_y = tli_pair(stride, 0),
        .stride_x = tli_pair(stride, 1),
        .dilation_y = tli_pair(dilation, 0),
        .dilation_x = tli_pair(dilation, 1),
        .groups = groups ? groups : 1,
    };
}

static tl_tensor *convolve(tl_ctx *c, const char *name, tl_tensor *x, tl_tensor *filters,
                           const tl_convolve2d_args *args, int64_t groups)
{
    tl_conv_attr attr = attr_of(args->stride, args->dilation, groups);
    if (pad_axes(&attr, x->shape.dims + 1, filters->shape.dims, args->padding, args->pads) != TL_OK)
        return tli_refuse(c, name);
    return TL_APPLY(c, convolve2d, &attr, x, filters);
}

tl_tensor *tl_convolve2d_with(tl_ctx *c, tl_tensor *x, const tl_convolve2d_args *args)
{
    tl_tensor *filters = args->filters;
    if (!prepare(c, "convolve2d", &x, &filters)) return NULL;
    return convolve(c, "convolve2d", x, filters, args, args->groups);
}

tl_tensor *tl_convolve2d_depthwise_with(tl_ctx *c, tl_tensor *x, const tl_convolve2d_args *args)
{
    static const char name[] = "convolve2d_depthwise";
    tl_tensor *filters = args->filters;
    if (!prepare(c, name, &x, &filters)) return NULL;
    const int64_t *kd = filters->shape.dims, channels = x->shape.dims[3];
    if (args->groups || kd[2] != channels) {
        char image[TL_TENSOR_TEXT], spec[TL_TENSOR_TEXT];
        (void)(args->groups
                   ? TL_FAIL(TL_EINVAL, "groups is set; there is one for each channel")
                   : TL_FAIL(TL_EINVAL,
                             "the image is %s and the filter %s: its third dim must be the "
                             "image's channels, %" PRId64,
                             tl_tensor_spec(image, x), tl_tensor_spec(spec, filters), channels));
        return tli_refuse(c, name);
    }
    filters = tl_reshape(c, filters, TL_SHAPE(kd[0], kd[1], 1, kd[2] * kd[3]));
    return filters ? convolve(c, name, x, filters, args, channels) : NULL;
}

tl_tensor *tl_convolve1d_with(tl_ctx *c, tl_tensor *x, const tl_convolve1d_args *args)
{
    tl_tensor *filters = args->filters;
    if (!x || !filters || tl_ctx_failed(c)) return TL_APPLY(c, convolve2d, NULL, x, filters);
    if (tli_want_rank(x, 3, "the image") != TL_OK
        || tli_want_rank(filters, 3, "the filter") != TL_OK)
        return tli_refuse(c, "convolve1d");
    const int64_t *xd = x->shape.dims, *kd = filters->shape.dims;
    // One row: only the horizontal axis is the caller's.
    tl_convolve2d_args flat = {
        .filters = tl_reshape(c, filters, TL_SHAPE(1, kd[0], kd[1], kd[2])),
        .stride = {1, args->stride ? args->stride : 1},
        .dilation = {1, args->dilation ? args->dilation : 1},
        .padding = args->padding,
        .pads = {0, 0, args->pads[0], args->pads[1]},
        .groups = args->groups,
    };
    tl_tensor *y = tl_convolve2d_with(c, tl_reshape(c, x, TL_SHAPE(xd[0], 1, xd[1], xd[2])), &flat);
    return y ? tl_reshape(c, y, TL_SHAPE(xd[0], y->shape.dims[2], kd[2])) : NULL;
}

/* --- transposed ------------------------------------------------------------------------------- */

// The size of the image from which the window makes `places`, by the rule of the padding.
static int64_t transposed_size(const tli_window *w, int64_t places, tl_padding padding,
                               const int64_t pads[2])
{
    int64_t reach = tli_window_reach(w);
    switch (padding) {
    case TL_SAME: return places * w->stride;
    case TL_EXPLICIT: return (places - 1) * w->stride + reach - pads[0] - pads[1];
    case TL_VALID: break;
    }
    return places * w->stride + (reach > w->stride ? reach - w->stride : 0);
}

static tl_status transpose_attr(tl_conv_attr *attr, const tl_tensor *x, const tl_tensor *filters,
                                const tl_convolve2d_transpose_args *args)
{
    static const char *const axes[] = {"vertical", "horizontal"};
    int64_t size[2];
    *attr = attr_of(args->stride, args->dilation, args->groups);
    for (int i = 0; i < 2; i++) {
        tli_window w = window_of(attr, i, filters->shape.dims[i]);
        TL_TRY(tli_window_check(&w, x->shape.dims[1 + i], axes[i]));
        size[i] = args->size[i] ? args->size[i]
                                : transposed_size(&w, x->shape.dims[1 + i], args->padding,
                                                  args->pads + 2 * i);
        TL_TRY(tli_window_check(&w, size[i], axes[i]));
    }
    attr->height = size[0];
    attr->width = size[1];
    return pad_axes(attr, size, filters->shape.dims, args->padding, args->pads);
}

tl_tensor *tl_convolve2d_transpose_with(tl_ctx *c, tl_tensor *x,
                                        const tl_convolve2d_transpose_args *args)
{
    static const char name[] = "convolve2d_transpose";
    tl_tensor *filters = args->filters;
    tl_conv_attr attr;
    if (!prepare(c, name, &x, &filters)) return NULL;
    if (x->shape.dims[3] != filters->shape.dims[3]) {
        char image[TL_TENSOR_TEXT], spec[TL_TENSOR_TEXT];
        (void)TL_FAIL(TL_EINVAL,
                      "the image is %s and the filter %s: their last dims must agree (rows, "
                      "columns, output channels of a group, input channels)",
                      tl_tensor_spec(image, x), tl_tensor_spec(spec, filters));
        return tli_refuse(c, name);
    }
    if (transpose_attr(&attr, x, filters, args) != TL_OK) return tli_refuse(c, name);
    return TL_APPLY(c, convolve2d_input_grad, &attr, x, filters);
}
