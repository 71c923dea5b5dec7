/* Parts of a model that are models by themselves. */
#include <string.h>

#include "nn/net.h"

void tl_scope_part(tl_scope *s, tl_layer *part)
{
    tl_net *net = s->net;
    if (s->status != TL_OK || !part) return;
    if (s->layer != net->root)
        (void)TL_FAIL(TL_EINVAL, "only the model itself has parts: '%s' is a layer inside it",
                      s->layer->path);
    else if (part->parent != net->root)
        (void)TL_FAIL(TL_EINVAL, "a part is a layer of the model itself, not of '%s'",
                      part->parent ? part->parent->path : "");
    else if (net->parts.count == TLI_MOST_PARTS)
        (void)TL_FAIL(TL_ELIMIT, "a model has at most %d parts", (int)TLI_MOST_PARTS);
    else if (TL_VEC_PUSH(&net->parts, part)) return;
    tl_scope_fail(s, part->name);
}

uint64_t tli_net_part_bit(const tl_net *net, const tl_layer *l)
{
    for (int64_t i = 0; i < net->parts.count; i++)
        if (net->parts.items[i] == l) return (uint64_t)1 << i;
    return 0;
}

int64_t tl_model_part_count(const tl_model *m)
{
    return m->net->parts.count;
}

tl_model *tl_model_part(const tl_model *m, const char *name)
{
    const tl_net *net = m->net;
    for (int64_t i = 0; i < net->parts.count; i++)
        if (strcmp(net->parts.items[i]->name, name) == 0) return net->parts.items[i];
    return NULL;
}

bool tli_part_uses(const tl_model *m, uint64_t users)
{
    return !m->parent || !users || (users & tli_net_part_bit(m->net, m));
}

bool tl_model_uses(const tl_model *m, const tl_param *p)
{
    return tli_part_uses(m, p->layer->users);
}

void tl_model_begin_calls(tl_ctx *c, tl_model *m)
{
    tli_net_call *call = tli_net_call_of(m->net, c);
    if (call) tli_net_call_begin(call);
    else tl_ctx_fail(c);
}
