/* Sorting of lines along an axis. Elements become 32-bit keys that have their order; keys are
 * sorted digit by digit, which keeps equal ones in order. A few of the largest are found without
 * sorting. */
#include <string.h>

#include "cpu/scratch.h"
#include "cpu/simd/kernels.h"
#include "cpu/simd/sort_parts.h"
#include "cpu/simd/vec.h"

/* FEW numbers are kept in order by moving them; beyond, sorting all is no slower. GRAIN elements a
 * task. */
enum { FEW = 64, GRAIN = 4096 };

/* x as [before, length, behind], without gaps; the results keep the first `keep` of each line. */
typedef struct job {
    const tl_tensor *x, *values, *indices;
    int64_t length, behind, keep;
    bool descending;
} job;

static job job_of(const tl_node *n, int64_t axis, int64_t keep, bool descending)
{
    const tl_shape *s = &n->in[0]->shape;
    job j = {.x = n->in[0],
             .values = n->out[0],
             .indices = n->out[1],
             .length = s->dims[axis],
             .behind = 1,
             .keep = keep,
             .descending = descending};
    for (int i = (int)axis + 1; i < s->rank; i++) j.behind *= s->dims[i];
    TL_ASSERT(keep <= j.length && tl_tensor_count(j.values) == tl_tensor_count(j.indices));
    return j;
}

static float float_at(const tl_tensor *t, int64_t at)
{
    const void *data = tli_data(t);
    switch (t->dtype) {
    case TL_F32: return ((const float *)data)[at];
    case TL_BF16: return tli_from_bf16(((const uint16_t *)data)[at]);
    default: return tli_from_f16(((const uint16_t *)data)[at]);
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

static void make_keys(const job *j, tli_entry *to, int64_t first)
{
    const uint32_t flip = j->descending ? UINT32_MAX : 0;
    for (int64_t i = 0, at = first; i < j->length; i++, at += j->behind) {
        uint32_t key;
        if (j->x->dtype == TL_I32)
            key = (uint32_t)((const int32_t *)tli_data(j->x))[at] ^ UINT32_C(0x80000000);
        else key = tli_float_key(float_at(j->x, at));
        to[i] = (tli_entry){key ^ flip, (uint32_t)i};
    }
}

/* --- lines ------------------------------------------------------------------------------------ */

// Place i of a line of the results shows element `from` of the line of x that begins at `first`.
static void put(const job *j, int64_t line, int64_t first, int64_t i, int64_t from)
{
    const int64_t at = (line / j->behind * j->keep + i) * j->behind + line % j->behind;
    TL_ASSERT(at < tl_tensor_count(j->values) && from >= 0 && from < j->length);
    const size_t size = tl_dtype_size(j->x->dtype);
    memcpy((char *)tli_data(j->values) + (size_t)at * size,
           (const char *)tli_data(j->x) + (size_t)(first + from * j->behind) * size, size);
    ((int64_t *)tli_data(j->indices))[at] = from;
}

static int64_t first_of(const job *j, int64_t line)
{
    return line / j->behind * j->length * j->behind + line % j->behind;
}

static tl_status sort_lines(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    void *room;
    TL_TRY(tli_scratch(&room, TLI_SCRATCH_KERNEL, 2 * (size_t)j->length * sizeof(tli_entry)));
    tli_entry *entries = room;
    TL_ASSERT(tli_scratch_holds(entries + j->length, (size_t)j->length * sizeof *entries));
    for (int64_t line = begin; line < end; line++) {
        const int64_t first = first_of(j, line);
        make_keys(j, entries, first);
        const tli_entry *sorted = tli_sort_entries(entries, entries + j->length, j->length);
        for (int64_t i = 0; i < j->keep; i++) put(j, line, first, i, sorted[i].from);
    }
    return TL_OK;
}

TLI_INLINE bool above(float a, float b)
{
    return a != a ? b == b : a > b;
}

// The largest so far, in order; the last of them is what others must be above.
typedef struct best {
    float values[FEW];
    int64_t from[FEW];
    int64_t count;
} best;

static void offer(best *b, int64_t keep, float x, int64_t from)
{
    TL_ASSERT(keep > 0 && keep <= FEW && b->count <= keep);
    if (b->count == keep && !above(x, b->values[keep - 1])) return;
    int64_t i = b->count < keep ? b->count++ : keep - 1;
    for (; i > 0 && above(x, b->values[i - 1]); i--) {
        b->values[i] = b->values[i - 1];
        b->from[i] = b->from[i - 1];
    }
    b->values[i] = x;
    b->from[i] = from;
}

// Elements i .. i + 4 * VF - 1 of a row of float32: whether one of them may be among the largest.
TLI_INLINE bool may_enter(const float *x, float least)
{
    const vf bar = vf_set1(least);
    vm out = vf_le(vf_load(x), bar); // NaN is not below anything
    for (int k = 1; k < 4; k++) out = vm_and(out, vf_le(vf_load(x + k * VF), bar));
    return !vm_all(out);
}

static tl_status find_few(int64_t begin, int64_t end, void *payload)
{
    const job *j = payload;
    for (int64_t line = begin; line < end; line++) {
        const int64_t first = line * j->length;
        best b = {.count = 0};
        for (int64_t i = 0; i < j->length;) {
            const bool full = b.count == j->keep && i + 4 * VF <= j->length;
            const int64_t stop = full ? i + 4 * VF : i + 1;
            const float *row = (const float *)tli_data(j->x) + first + i;
            if (full && j->x->dtype == TL_F32 && !may_enter(row, b.values[j->keep - 1])) {
                i = stop;
                continue;
            }
            for (; i < stop; i++) offer(&b, j->keep, float_at(j->x, first + i), i);
        }
        for (int64_t i = 0; i < j->keep; i++) put(j, line, first, i, b.from[i]);
        TL_ASSERT(b.count == j->keep);
    }
    return TL_OK;
}

/* --- kernels ---------------------------------------------------------------------------------- */

static tl_status run_lines(const tl_run *run, const tl_node *n, job *j, tl_parallel_fn *fn)
{
    if (!tl_tensor_count(j->values)) return TL_OK;
    if (j->length > INT32_MAX) return tli_run_reference(run, n);
    return tl_parallel_for(run->threads, tl_tensor_count(j->x) / j->length, GRAIN / j->length, fn,
                           j);
}

static tl_status sort_kernel(const tl_run *run, const tl_node *n)
{
    const tl_sort_attr *a = n->attr;
    job j = job_of(n, a->axis, n->in[0]->shape.dims[a->axis], a->descending);
    return run_lines(run, n, &j, sort_lines);
}

static tl_status top_k_kernel(const tl_run *run, const tl_node *n)
{
    const tl_top_k_attr *a = n->attr;
    job j = job_of(n, n->in[0]->shape.rank - 1, a->k, true);
    const bool few = a->k <= FEW && a->k <= j.length / 4 && j.x->dtype != TL_I32;
    return run_lines(run, n, &j, few ? find_few : sort_lines);
}

#define ROWS(name)                                                                                 \
    TL_INIT(TL_OP_##name, TL_F32, name##_kernel, 0),                                               \
        TL_INIT(TL_OP_##name, TL_BF16, name##_kernel, 0),                                          \
        TL_INIT(TL_OP_##name, TL_F16, name##_kernel, 0),                                           \
        TL_INIT(TL_OP_##name, TL_I32, name##_kernel, 0)
static const tl_kernel rows[] = {ROWS(sort), ROWS(top_k)};
TLI_SIMD_KERNELS(sort, rows);
