/* What reference kernels of updates share: a block, its tensors, and the numbers of a step. Thread
 * word: free-threaded. */
#ifndef TLI_CPU_REF_UPDATE_H
#define TLI_CPU_REF_UPDATE_H

#include <tilth/core/attrs.h>

#include "core/inner/element.h"
#include "core/inner/gradient_run.h"
#include "cpu/ref/number.h"

enum { PARAM, GRAD, HYPER, SLOTS };        /* inputs */
enum { RATE, STEP, SCALE, APPLY, HYPERS }; /* elements of the third */

/* One update: a block and the numbers of this step. */
typedef struct block {
    const tl_tensor *w, *grad, *copy; /* the copy of w is in another type, or NULL */
    tl_tensor *const *slots;
    tl_ints runs; /* of the gradient, or empty */
    double rate, step, scale;
    int64_t count;
} block;

// False when everything is to be left as it is.
static inline bool block_of(block *b, const tl_node *n)
{
    const tl_tensor *h = n->in[HYPER];
    const tl_update_attr *attr = n->attr;
    TL_ASSERT(
        tl_tensor_count(h) >= HYPERS
        && (attr->runs.count || tl_tensor_count(n->in[GRAD]) == tl_tensor_count(n->in[PARAM])));
    *b = (block){.w = n->in[PARAM],
                 .grad = n->in[GRAD],
                 .slots = n->in + SLOTS,
                 .runs = attr->runs,
                 .rate = tli_ref_get(h, RATE),
                 .step = tli_ref_get(h, STEP),
                 .scale = tli_ref_get(h, SCALE),
                 .count = tl_tensor_count(n->in[PARAM])};
    if (attr->copy) b->copy = n->in[n->inputs - 1];
    return tli_ref_get(h, APPLY) != 0;
}

static inline double gradient(const block *b, int64_t i)
{
    if (!b->runs.count) return tli_ref_get(b->grad, i) * b->scale;
    const tli_gradient_run r = tli_gradient_run_at(b->runs, tli_data(b->grad), b->count, i);
    return tli_element_get(r.type, r.data, i - r.begin) * b->scale;
}

static inline double get(const block *b, int slot, int64_t i)
{
    return tli_ref_get(b->slots[slot], i);
}

// Moves a weight and its copy, and keeps a slot.
static inline void move(const block *b, int64_t i, double by)
{
    tli_ref_set(b->w, i, tli_ref_get(b->w, i) + by);
    if (b->copy) tli_ref_set(b->copy, i, tli_ref_get(b->w, i));
}

static inline double keep(const block *b, int slot, int64_t i, double value)
{
    tli_ref_set(b->slots[slot], i, value);
    return value;
}

/* One tensor of a block: its elements, and what the lists say of it. */
typedef struct part {
    int64_t begin, end;
    double decay;
    bool adapted;
} part;

static inline int64_t part_count(tl_ints offsets)
{
    return offsets.count ? offsets.count : 1;
}

static inline part part_of(const block *b, int64_t i, tl_ints offsets, tl_ints decayed,
                           tl_ints adapted, double decay)
{
    part p = {.begin = offsets.count ? offsets.items[i] : 0,
              .end = i + 1 < offsets.count ? offsets.items[i + 1] : b->count};
    p.decay = decayed.count && !decayed.items[i] ? 0 : decay;
    TL_ASSERT(p.begin <= p.end && p.end <= b->count && (!decayed.count || i < decayed.count));
    p.adapted = !adapted.count || adapted.items[i];
    return p;
}

#endif
