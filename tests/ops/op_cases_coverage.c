/* Which ops the rows of a table run: seen in what a capture of each row holds. */
#include <inttypes.h>
#include <tilth/sys/core/op.h>

#include "op_cases_impl.h"

static bool gives_float(const tl_node *n)
{
    for (int i = 0; i < n->outputs; i++)
        if (tl_dtype_is_float(n->out[i]->dtype)) return true;
    return false;
}

static bool is_tracked(const tl_node *n)
{
    for (int i = 0; i < n->outputs; i++)
        if (n->out[i]->tracked) return true;
    return false;
}

// The nodes from `n` up to and including `last`.
static void note_nodes(unsigned seen[TL_OP_COUNT], const tl_node *n, const tl_node *last,
                       unsigned what, bool differentiated)
{
    for (; n; n = n->after) {
        unsigned more = gives_float(n) ? OC_GIVES_FLOAT : 0;
        if (differentiated && is_tracked(n)) more |= OC_DIFFERENTIATED;
        seen[n->op->op] |= what | more;
        if (n == last) return;
    }
}

// Differences are taken in float64 alone; elsewhere a gradient is only compared with itself.
static bool has_differences(const oc_plan *p)
{
    if (p->base != TL_F64 || p->k->flags & CASE_NO_DIFFERENCES) return false;
    for (int i = 0; i < p->inputs; i++)
        if (oc_differentiates(p, i) && p->in[i].dtype != TL_DTYPE_COUNT && p->in[i].dtype != TL_F64)
            return false;
    return p->gradients;
}

// A gradient that is to be differentiated again takes another way than one that is not.
static tl_status note_row(oc_run *r, unsigned seen[TL_OP_COUNT])
{
    const oc_plan *p = r->plan;
    tl_ctx *c = r->place->c;
    unsigned golden = p->k->torch ? OC_PYTORCH : 0;
    bool checked = has_differences(p), compared = p->gradients && (checked || golden);
    TL_TRY(oc_begin(r));
    TL_TRY(oc_call(r));
    const tl_node *last = tl_ctx_last_node(c);
    if (last) note_nodes(seen, tl_ctx_first_node(c), last, OC_CALLED | golden, compared);
    if (!p->gradients) return TL_OK;
    TL_TRY(oc_differentiate(r));
    if (r->loss)
        note_nodes(seen, r->loss->after, NULL, golden | (checked ? OC_IN_GRADIENT : 0),
                   checked && r->differentiable);
    return TL_OK;
}

void oc_note_coverage(oc_plan *p, const oc_place *reference, unsigned seen[TL_OP_COUNT])
{
    oc_run r = {.plan = p,
                .place = reference,
                .dtype = p->base,
                .capturing = true,
                .in_loss = OC_ALL_OUTPUTS};
    tl_status st = note_row(&r, seen);
    oc_end(&r);
    if (st == TL_OK && p->gradients && !(p->k->flags & CASE_NO_SECOND)) {
        r.differentiable = true;
        st = note_row(&r, seen);
        oc_end(&r);
    }
    oc_expect_ok(p, st, "coverage");
}

void oc_print_coverage(const unsigned seen[TL_OP_COUNT])
{
    for (int op = 0; op < TL_OP_COUNT; op++)
        if (seen[op]) printf("%s %u\n", tl_op_class_of(op)->name, seen[op]);
}
