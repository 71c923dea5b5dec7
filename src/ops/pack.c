#include <inttypes.h>
#include <tilth/ops/pack.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "ops/ops.h"

static const tl_field pack_fields[] = {
    TL_F(tl_pack_attr, offsets, .help = "where each input begins"),
    TL_F(tl_pack_attr, count, .help = "elements of the result"),
    TL_F(tl_pack_attr, bytes, .flags = TL_FIELD_QUIET,
         .help = "these are bytes, and tensors are of any types"),
    TL_F_END,
};
static const tl_desc pack_desc = {
    .name = "pack",
    .help = "attributes of pack",
    .size = sizeof(tl_pack_attr),
    .fields = pack_fields,
};

static tl_status pack_infer(const tl_node *call)
{
    const tl_pack_attr *a = call->attr;
    int64_t at = 0;
    if (a->offsets.count != call->inputs)
        return TL_FAIL(TL_EINVAL, "%" PRId64 " offsets for %d tensors", a->offsets.count,
                       call->inputs);
    for (int i = 0; i < call->inputs; i++) {
        const tl_tensor *t = call->in[i];
        char spec[TL_TENSOR_TEXT];
        const int64_t size = a->bytes ? (int64_t)tl_tensor_bytes(t) : tl_tensor_count(t);
        if (t->dtype != call->in[0]->dtype && !a->bytes)
            return TL_FAIL(TL_EINVAL, "tensor %d is %s and must be of the type of the first, %s", i,
                           tl_tensor_spec(spec, t), tl_dtype_name(call->in[0]->dtype));
        if (a->offsets.items[i] < at || size > a->count - a->offsets.items[i])
            return TL_FAIL(TL_EINVAL,
                           "tensor %d, %s, does not fit at %" PRId64 ": it must begin at %" PRId64
                           " or later and end within %" PRId64,
                           i, tl_tensor_spec(spec, t), a->offsets.items[i], at, a->count);
        at = a->offsets.items[i] + size;
    }
    call->out[0]->dtype = a->bytes ? TL_U8 : call->in[0]->dtype;
    call->out[0]->shape = TL_SHAPE(a->count);
    return TL_OK;
}

static void pack_gradient(tl_ctx *c, const tl_node *n, tl_tensor *const *gy, tl_tensor **gx,
                          const bool *wanted)
{
    const tl_pack_attr *a = n->attr;
    for (int i = 0; i < n->inputs; i++) {
        if (!wanted[i]) continue;
        int64_t at = a->offsets.items[i], count = tl_tensor_count(n->in[i]);
        gx[i] = tl_reshape(c, tl_slice(c, gy[0], 0, at, at + count, 1), n->in[i]->shape);
    }
}

const tl_op_class tl_op_pack = {
    .op = TL_OP_pack,
    .name = "pack",
    .help = "tensors laid flat into one",
    .attr = &pack_desc,
    .inputs_min = 1,
    .inputs_max = -1,
    .outputs = 1,
    .infer = pack_infer,
    .gradient = pack_gradient,
};

tl_tensor *tl_pack(tl_ctx *c, int count, tl_tensor *const *tensors, const int64_t *offsets,
                   int64_t elements)
{
    tl_pack_attr attr = {.offsets = {offsets, count}, .count = elements};
    return tl_apply(c, TL_OP_pack, &attr, count, tensors);
}
