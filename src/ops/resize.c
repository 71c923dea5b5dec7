#include <tilth/ops/pool.h>
#include <tilth/sys/ops/apply.h>

#include <inttypes.h>

#include "ops/ops.h"
#include "ops/window.h"

static const char *const method_names[] = {"nearest", "bilinear", NULL};

static const tl_field resize_fields[] = {
    TL_F(tl_resize_attr, height, .help = "rows of the result"),
    TL_F(tl_resize_attr, width, .help = "columns of the result"),
    TL_F(tl_resize_attr, method, .names = method_names, .help = "which pixels a result is made of"),
    TL_F(tl_resize_attr, align_corners, .help = "corner pixels lie on each other"),
    TL_F_END,
};
static const tl_desc resize_desc = {
    .name = "resize",
    .help = "attributes of resize",
    .size = sizeof(tl_resize_attr),
    .fields = resize_fields,
};

/* resize_grad takes what a resized image would be to an image of the attributes' size: the two are
 * linear and each other's transpose. */

static tl_status resize_infer(const tl_node *call)
{
    const tl_resize_attr *a = call->attr;
    const tl_tensor *x = call->in[0];
    const int64_t *d = x->shape.dims;
    TL_TRY(tli_want_float(x, "the image"));
    TL_TRY(tli_want_rank(x, 4, "the image"));
    if (a->method < 0 || a->method >= TL_RESIZE_METHOD_COUNT)
        return TL_FAIL(TL_EINVAL, "%d is no method", (int)a->method);
    // Coordinates are computed from products of two sizes.
    for (int i = 0; i < 2; i++) {
        int64_t to = i ? a->width : a->height;
        if (to < 1 || to > INT32_MAX || d[1 + i] < 1 || d[1 + i] > INT32_MAX)
            return TL_FAIL(TL_EINVAL,
                           "%" PRId64 "x%" PRId64 " pixels cannot become %" PRId64 "x%" PRId64
                           "; sizes must be at least 1",
                           d[1], d[2], a->height, a->width);
    }
    call->out[0]->dtype = x->dtype;
    call->out[0]->shape = TL_SHAPE(d[0], a->height, a->width, d[3]);
    return TL_OK;
}

static tl_tensor *other_way(tl_ctx *c, const tl_node *n, tl_op op, tl_tensor *g)
{
    tl_resize_attr attr = *(const tl_resize_attr *)n->attr;
    attr.height = n->in[0]->shape.dims[1];
    attr.width = n->in[0]->shape.dims[2];
    return tl_apply(c, op, &attr, 1, &g);
}

static void resize_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                            const bool *wanted)
{
    (void)wanted;
    gx[0] = other_way(c, n, TL_OP_resize_grad, gy[0]);
}

static void resize_grad_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                                 const bool *wanted)
{
    (void)wanted;
    gx[0] = other_way(c, n, TL_OP_resize, gy[0]);
}

const tl_op_class tl_op_resize = {
    .op = TL_OP_resize,
    .name = "resize",
    .help = "an image with other numbers of rows and columns",
    .attr = &resize_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = resize_infer,
    .gradient = resize_gradient,
};

const tl_op_class tl_op_resize_grad = {
    .op = TL_OP_resize_grad,
    .name = "resize_grad",
    .help = "each pixel shared out where it came from",
    .attr = &resize_desc,
    .inputs_min = 1,
    .inputs_max = 1,
    .outputs = 1,
    .infer = resize_infer,
    .gradient = resize_grad_gradient,
};

tl_tensor *tl_resize_with(tl_ctx *c, tl_tensor *x, const tl_resize_args *args)
{
    tl_resize_attr attr = {.height = args->height,
                           .width = args->width,
                           .method = args->method,
                           .align_corners = args->align_corners};
    return TL_APPLY(c, resize, &attr, x);
}
