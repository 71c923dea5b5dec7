#include "cuda/reach.h"

#include <tilth/base/vec.h>

#include "core/inner/engine.h"
#include "core/inner/storage.h"
#include "core/inner/tensor.h"

void tli_reach_add(tli_reaches *to, int call, const void *at, size_t bytes, bool written)
{
    const tli_reach r = {(uintptr_t)at, (uintptr_t)at + bytes, call, written};
    if (bytes && !TL_VEC_PUSH(to, r)) to->failed = true;
}

static void add_tensor(tli_reaches *to, int call, const tl_tensor *t, bool written)
{
    const tli_extent e = tli_extent_of(t);
    if (e.to <= e.from) return;
    const char *first = (const char *)tli_data(t) - t->offset * (int64_t)tl_dtype_size(t->dtype);
    tli_reach_add(to, call, first + e.from, (size_t)(e.to - e.from), written);
}

void tli_reach_call(tli_reaches *to, int number, const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++)
        add_tensor(to, number, call->in[i], tli_call_writes(call, i));
    for (int i = 0; i < call->outputs; i++)
        if (call->out[i] && call->out[i]->storage) add_tensor(to, number, call->out[i], true);
}
