#include "cuda/race.h"

#include <math.h>

/* What is proposed is sorted by how long somebody thinks that it takes: the best is among the first
 * two or three for most shapes, and trying one takes as long as loading its code. */
enum { IN_VAIN = 6 };

bool tli_race_is_in_vain(int in_a_row)
{
    return in_a_row >= IN_VAIN;
}

static float time_of(const tli_race *r, int way)
{
    float ms;
    if (r->time(r->self, way, &ms) == TL_OK) return ms;
    tl_error_clear();
    return INFINITY;
}

/* Those that were not tried are infinitely slow. Gives the best. */
static int try_each(const tli_race *r, float *ms)
{
    int best = 0, vain = 0;
    for (int i = 0; i < r->count; i++) {
        ms[i] = tli_race_is_in_vain(vain) ? INFINITY : time_of(r, i);
        vain = i == 0 || ms[i] < ms[best] ? 0 : vain + (isfinite(ms[best]) != 0);
        if (ms[i] < ms[best]) best = i;
    }
    return best;
}

/* What is further behind the best than that is infinitely slow from now on. Gives how many are
 * left. */
static int leave_out(const tli_race *r, float *ms, int best, float behind)
{
    int left = 0;
    for (int i = 0; i < r->count; i++) {
        if (ms[i] > behind * ms[best]) ms[i] = INFINITY;
        left += isfinite(ms[i]) != 0;
    }
    return left;
}

int tli_race_run(const tli_race *r)
{
    float first[TLI_RACE_MOST], sums[TLI_RACE_MOST];
    TL_ASSERT(r->count > 0 && r->count <= TLI_RACE_MOST);
    int best = try_each(r, first);
    int left = leave_out(r, first, best, TLI_FAR_BEHIND);
    // The first runs do not count: the GPU was not warm for all of them.
    for (int i = 0; i < r->count; i++) sums[i] = isfinite(first[i]) ? 0 : INFINITY;
    for (int round = 0; round < r->rounds && left > 1; round++) {
        for (int i = 0; i < r->count; i++)
            if (isfinite(sums[i])) sums[i] += time_of(r, i);
        for (int i = 0; i < r->count; i++)
            if (sums[i] < sums[best]) best = i;
        left = leave_out(r, sums, best, TLI_BEHIND);
    }
    return best;
}
