/* Rows that are looked up in tables, and how long their gradients are. TensorFlow hands the
 * gradient of a table on as a list of rows, one for each look-up, and takes norms of that list:
 * a row that was looked up twice counts twice, before the two are added up. Where something else
 * is made of the table too (a product with all its rows, a regulariser) its gradient is whole, and
 * so is its norm. */
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/update.h>
#include <tilth/sys/core/op.h>

#include "nn/net.h"

void tl_layer_looked_up(tl_ctx *c, tl_layer *l, const tl_tensor *table, tl_tensor *rows)
{
    tl_net *net = l->net;
    int64_t param = 0;
    while (param < net->params.count && net->params.items[param]->tensor != table) param++;
    if (!rows || !rows->node || param == net->params.count) return;
    tli_net_call *call = tli_net_call_of(net, c);
    if (!call || !TL_VEC_PUSH(&call->lookups, ((tli_lookup){param, rows}))) tl_ctx_fail(c);
}

/* --- look-ups alone --------------------------------------------------------------------------- */

// A table, or a copy of it in the type that is computed with.
static bool is_of(const tl_tensor *t, const tl_tensor *table)
{
    return t == table || (t->node && t->node->op == &tl_op_cast && t->node->in[0] == table);
}

static bool is_noted(const tli_net_call *call, const tl_node *n)
{
    for (int64_t i = 0; i < call->lookups.count; i++)
        if (call->lookups.items[i].rows->node == n) return true;
    return false;
}

static bool uses(const tl_node *n, const tl_tensor *table)
{
    for (int i = 0; i < n->inputs; i++)
        if (is_of(n->in[i], table)) return true;
    return false;
}

// Whether what was computed up to `of` takes rows of the table, and does nothing else with it.
static bool is_alone(const tl_ctx *c, const tli_net_call *call, const tl_tensor *of,
                     const tl_tensor *table)
{
    for (const tl_node *n = tl_ctx_first_node(c); n; n = n == of->node ? NULL : n->after)
        if (uses(n, table) && !is_noted(call, n) && !(n->op == &tl_op_cast && n->in[0] == table))
            return false;
    return true;
}

int64_t tli_lookups_alone(tl_ctx *c, const tl_net *net, tli_net_call *call, const tl_tensor *of)
{
    int64_t count = 0;
    for (int64_t i = 0; of && call && i < call->lookups.count; i++) {
        const tl_param *p = net->params.items[call->lookups.items[i].param];
        if (tli_param_is_awake(net, p) && is_alone(c, call, of, p->tensor)) {
            // kept notes move to the front; the others stay, for those that are still asked about
            const tli_lookup kept = call->lookups.items[i];
            call->lookups.items[i] = call->lookups.items[count];
            call->lookups.items[count++] = kept;
        }
    }
    return count;
}

/* --- norms ------------------------------------------------------------------------------------ */

static tl_tensor *squares_of(tl_ctx *c, tl_tensor *gradient)
{
    tl_tensor *norm, *finite;
    if (!tl_finite_and_norm(c, &gradient, 1, &norm, &finite)) return NULL;
    return tl_square(c, tl_cast(c, norm, TL_F64));
}

static tli_row_squares *find_squares(tli_net_call *call, int64_t param)
{
    for (int64_t i = 0; i < call->squares.count; i++)
        if (call->squares.items[i].param == param) return &call->squares.items[i];
    return NULL;
}

void tli_lookups_measure(tl_ctx *c, tli_net_call *call, tl_tensor *const *gradients, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t param = call->lookups.items[i].param;
        tli_row_squares *before = find_squares(call, param);
        tl_tensor *sum = squares_of(c, gradients[i]);
        if (before) before->sum = tl_add(c, before->sum, sum);
        else if (!TL_VEC_PUSH(&call->squares, ((tli_row_squares){param, sum}))) tl_ctx_fail(c);
    }
}

void tl_model_scale_gradients(tl_ctx *c, const tl_model *m, tl_tensor **blocks, double factor)
{
    const tl_net *net = m->net;
    tli_net_call *call = tli_net_call_find(m->net, c);
    bool taping = tl_ctx_set_taping(c, false);
    for (int64_t i = 0; i < net->blocks.count; i++) {
        if (!blocks[i]) continue;
        blocks[i] = tl_scale(c, tl_cast(c, blocks[i], net->blocks.items[i].dtype), factor);
    }
    for (int64_t i = 0; call && i < call->squares.count; i++)
        call->squares.items[i].sum = tl_scale(c, call->squares.items[i].sum, factor * factor);
    tl_ctx_set_taping(c, taping);
}
