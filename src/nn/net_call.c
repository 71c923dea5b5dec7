#include <tilth/base/alloc.h>

#include "nn/net.h"

tli_net_call *tli_net_call_find(tl_net *net, const tl_ctx *c)
{
    tli_net_call *call = atomic_load_explicit(&net->calls, memory_order_acquire);
    while (call && call->ctx != c) call = call->next;
    return call;
}

void tli_net_call_begin(tli_net_call *call)
{
    call->losses.count = call->updates.count = call->lookups.count = call->squares.count = 0;
}

tli_net_call *tli_net_call_of(tl_net *net, const tl_ctx *c)
{
    tli_net_call *call = tli_net_call_find(net, c);
    if (call) return call;
    if (!(call = tl_alloc_zero(sizeof *call))) {
        (void)TL_FAIL_NOMEM(sizeof *call);
        return NULL;
    }
    call->ctx = c;
    call->next = atomic_load_explicit(&net->calls, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&net->calls, &call->next, call,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return call;
}

void tli_net_calls_drop_updates(tl_net *net)
{
    for (tli_net_call *call = atomic_load(&net->calls); call; call = call->next)
        call->updates.count = 0;
}

void tli_net_calls_free(tl_net *net)
{
    for (tli_net_call *call = atomic_load(&net->calls), *next; call; call = next) {
        next = call->next;
        TL_VEC_FREE(&call->losses);
        TL_VEC_FREE(&call->updates);
        TL_VEC_FREE(&call->lookups);
        TL_VEC_FREE(&call->squares);
        tl_free(call);
    }
    atomic_store(&net->calls, NULL);
}
