/* Rows that indices name, and the sums of what comes back to them: positions are sorted by what
 * they name, in order among equals, and added up in that order.
 *
 * Thread word: free-threaded. */

#if defined(LOOKUP)
/* [before, count, behind] of [before, axis, behind]; behind is counted in units. */
KERNEL(256) gather_rows(const tli_index_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 i = group * 256 + t;
        if (i < a.before * a.count * a.behind) {
            const i64 unit = i % a.behind, row = i / a.behind, at = row % a.count;
            const i64 index = (i64)((const I_T *)a.indices)[at];
            U_T v = {0};
            if (index < 0 || index >= a.axis)
                note_fault(a.fault, &a.place, index, at, a.axis, a.number);
            else v = ((const U_T *)a.x)[(row / a.count * a.axis + index) * a.behind + unit];
            ((U_T *)a.y)[i] = v;
        }
    }
}

/* Element [b, i, k] of [before, axis, behind] is that at index [b, i, k]. */
KERNEL(256) take_along(const tli_index_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 i = group * 256 + t;
        if (i < a.before * a.count * a.behind) {
            const i64 b = i / (a.count * a.behind), k = i % a.behind;
            const i64 index = (i64)((const I_T *)a.indices)[i];
            U_T v = {0};
            if (index < 0 || index >= a.axis)
                note_fault(a.fault, &a.place, index, i, a.axis, a.number);
            else v = ((const U_T *)a.x)[(b * a.axis + index) * a.behind + k];
            ((U_T *)a.y)[i] = v;
        }
    }
}
#endif

#if defined(PUT)
/* The gradient of take_along: a thread has a line, and adds up in order. */
KERNEL(256) put_along(const tli_index_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 line = group * 256 + t;
        if (line < a.before * a.behind) {
            const i64 b = line / a.behind, k = line % a.behind;
            Y_T *y = (Y_T *)a.y + b * a.axis * a.behind + k;
            for (i64 p = 0; p < a.axis; p++) y[p * a.behind] = 0;
            for (i64 i = 0; i < a.count; i++) {
                const i64 from = (b * a.count + i) * a.behind + k;
                const i64 index = (i64)((const I_T *)a.indices)[from];
                if (index < 0 || index >= a.axis)
                    note_fault(a.fault, &a.place, index, from, a.axis, a.number);
                else y[index * a.behind] = (Y_T)ADD(y[index * a.behind], ((const Y_T *)a.x)[from]);
            }
        }
    }
}
#endif

/* --- sorting ---------------------------------------------------------------------------------- */

#if defined(SORT)
/* 8 bits at a time: a group counts what its threads have, 16 keys each, one after the other. */
enum { KEYS = 16, SORTERS = 64, DIGITS = 256 };

KERNEL(256) sort_begin(const tli_sort_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 i = group * 256 + t;
        if (i < a.count) {
            const i64 index = (i64)((const I_T *)a.indices)[i];
            const int good = index >= 0 && index < a.axis;
            if (!good) note_fault(a.fault, &a.place, index, i, a.axis, a.number);
            a.keys_out[i] = good ? (u32)index : 0;
            a.order_out[i] = (u32)i;
        }
        if (i < a.axis) a.begin[i] = a.end[i] = 0;
    }
}

/* counts[digit][t], of the keys that the thread has. */
FN void count_mine(u16 (*counts)[SORTERS], const tli_sort_args *a, i64 group, int t)
{
    for (int d = 0; d < DIGITS; d++) counts[d][t] = 0;
    for (int k = 0; k < KEYS; k++) {
        const i64 i = (group * SORTERS + t) * KEYS + k;
        if (i < a->count) counts[a->keys[i] >> a->shift & (DIGITS - 1)][t]++;
    }
}

/* counts[digit][group], of the keys of each group. */
KERNEL(64) sort_count(const tli_sort_args a GROUP_PARAM)
{
    GROUP_BEGIN(64, a.groups)
    SHARED(u16, counts, [DIGITS][SORTERS]);
    EACH_THREAD(64) { count_mine(counts, &a, group, t); }
    BARRIER(64)
    EACH_THREAD(64)
    {
        for (int d = t; d < DIGITS; d += SORTERS) {
            u32 sum = 0;
            for (int k = 0; k < SORTERS; k++) sum += counts[d][(k + t) % SORTERS];
            a.counts[d * a.groups + group] = sum;
        }
    }
}

/* Each count becomes the sum of those before it; one group has all. */
KERNEL(1024) sort_sums(const tli_sort_args a GROUP_PARAM)
{
    GROUP_BEGIN(1024, a.groups)
    SHARED(u32, sums, [1024]);
    const i64 each = (a.count + 1023) / 1024;
    EACH_THREAD(1024)
    {
        u32 sum = 0;
        for (i64 i = t * each; i < LEAST((t + 1) * each, a.count); i++) sum += a.counts[i];
        sums[t] = sum;
    }
    BARRIER(1024)
    ONE_THREAD(1024)
    {
        u32 sum = 0;
        for (int k = 0; k < 1024; k++) {
            const u32 next = sum + sums[k];
            sums[k] = sum;
            sum = next;
        }
    }
    BARRIER(1024)
    EACH_THREAD(1024)
    {
        u32 sum = sums[t];
        for (i64 i = t * each; i < LEAST((t + 1) * each, a.count); i++) {
            const u32 next = sum + a.counts[i];
            a.counts[i] = sum;
            sum = next;
        }
    }
}

KERNEL(64) sort_move(const tli_sort_args a GROUP_PARAM)
{
    GROUP_BEGIN(64, a.groups)
    SHARED(u16, counts, [DIGITS][SORTERS]);
    EACH_THREAD(64) { count_mine(counts, &a, group, t); }
    BARRIER(64)
    EACH_THREAD(64)
    {
        for (int d = t; d < DIGITS; d += SORTERS) {
            u16 sum = 0;
            for (int k = 0; k < SORTERS; k++) {
                const u16 next = (u16)(sum + counts[d][k]);
                counts[d][k] = sum;
                sum = next;
            }
        }
    }
    BARRIER(64)
    EACH_THREAD(64)
    {
        for (int k = 0; k < KEYS; k++) {
            const i64 i = (group * SORTERS + t) * KEYS + k;
            if (i < a.count) {
                const u32 key = a.keys[i], d = key >> a.shift & (DIGITS - 1);
                const u32 to = a.counts[d * a.groups + group] + counts[d][t]++;
                a.keys_out[to] = key;
                a.order_out[to] = a.order[i];
            }
        }
    }
}

/* Where the positions of each place begin and end. */
KERNEL(256) sort_end(const tli_sort_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 i = group * 256 + t;
        if (i < a.count) {
            const u32 key = a.keys[i];
            if (i == 0 || a.keys[i - 1] != key) a.begin[key] = (u32)i;
            if (i == a.count - 1 || a.keys[i + 1] != key) a.end[key] = (u32)i + 1;
        }
    }
}
#endif

#if defined(SUMS_OF_PLACES)
/* Sums of updates, in order; a thread has VEC elements of a place. */
VECTORS(Y)
KERNEL(256) add_updates(const tli_sums_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    EACH_THREAD(256)
    {
        const i64 units = a.behind / VEC, i = group * 256 + t;
        if (i < a.before * a.axis * units) {
            const i64 unit = i % units * VEC, row = i / units, p = row % a.axis, b = row / a.axis;
            float sum[VEC];
            UNROLL for (int e = 0; e < VEC; e++) sum[e] = 0;
            const u32 first = a.begin[p], last = a.end[p];
            for (u32 k = first; k < last; k++) {
                float v[VEC];
                Y_read(v, a.x, (b * a.count + a.order[k]) * a.behind + unit);
                UNROLL for (int e = 0; e < VEC; e++) sum[e] = k == first ? v[e] : sum[e] + v[e];
            }
            Y_write(a.y, row * a.behind + unit, sum);
        }
    }
}
#endif
