#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/pool.h>
#include <tilth/comm/shm.h>
#include <tilth/comm/world.h>
#include <tilth/sys/cuda/cuda.h>

#include "tool/launch.h"

enum { MOST_BYTES = 16 << 20 };

/* What a rank says of itself. */
typedef struct about {
    char host[64], processors[64];
    int64_t process, threads, gpus;
} about;

/* "0-3,8": those that this process may use. */
static void add_processors(char out[64])
{
    cpu_set_t set;
    size_t at = 0;
    snprintf(out, 64, "unknown");
    if (sched_getaffinity(0, sizeof set, &set) < 0) return;
    for (int i = 0; i < CPU_SETSIZE && at < 48; i++) {
        int end = i;
        if (!CPU_ISSET(i, &set)) continue;
        while (end + 1 < CPU_SETSIZE && CPU_ISSET(end + 1, &set)) end++;
        at += (size_t)snprintf(out + at, 64 - at, end > i ? "%s%d-%d" : "%s%d", at ? "," : "", i,
                               end);
        i = end;
    }
}

static about about_us(void)
{
    about a = {.process = getpid(), .threads = tl_pool_default_threads()};
    gethostname(a.host, sizeof a.host - 1);
    add_processors(a.processors);
    if (tl_gpu_count(&a.gpus) != TL_OK) tl_error_clear();
    return a;
}

/* Seconds of a sum of so many bytes: the best of a few. */
static tl_status measure(double *out, tl_comm *c, float *block, int64_t bytes)
{
    const int calls = bytes < 65536 ? 100 : 2;
    *out = 1e9;
    for (int round = 0; round < 8; round++) {
        TL_TRY(tl_comm_barrier(c->world));
        int64_t begin = tl_clock_ns();
        for (int i = 0; i < calls; i++)
            TL_TRY(tl_comm_all_reduce(c->world,
                                      &(tl_comm_sum){.dtype = TL_F32,
                                                     .count = bytes / 4,
                                                     .lanes = c->size,
                                                     .partials = (const void *const[]){block},
                                                     .out = block}));
        double seconds = (double)(tl_clock_ns() - begin) * 1e-9 / calls;
        if (seconds < *out) *out = seconds;
    }
    return TL_OK;
}

static tl_status tell(tli_run *run, tl_world *world, const about *all)
{
    static const int64_t sizes[] = {8, 4096, 65536, 1 << 20, MOST_BYTES};
    tl_comm *c = tl_world_comm(world);
    tl_str *s = &run->text;
    float *block = tl_comm_alloc(c, MOST_BYTES);
    if (!block) return tl_error_code();
    tl_str_addf(s, "%" PRId32 " processes, by %s, over %s\n\n", c->size,
                tl_world_who(world)->source, c->cls->cls.name);
    tl_str_addf(s, "%-5s %-24s %8s  %-20s %7s %5s\n", "rank", "host", "process", "processors",
                "threads", "GPUs");
    for (int32_t r = 0; r < c->size; r++)
        tl_str_addf(s, "%-5" PRId32 " %-24.63s %8" PRId64 "  %-20.63s %7" PRId64 " %5" PRId64 "\n",
                    r, all[r].host, all[r].process, all[r].processors, all[r].threads, all[r].gpus);
    tl_str_addf(s, "\n%-12s %12s %12s\n", "sum of bytes", "microseconds", "GB/s");
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) {
        double seconds;
        TL_TRY(measure(&seconds, c, block, sizes[i]));
        tl_str_addf(s, "%-12" PRId64 " %12.1f %12.2f\n", sizes[i], seconds * 1e6,
                    (double)sizes[i] / seconds * 1e-9);
    }
    return TL_OK;
}

/* Sums whose every element is known, until the chief has had enough. */
static tl_status go_on(tli_run *run, tl_world *world, double seconds)
{
    enum { COUNT = 1 << 18 };
    tl_comm *c = tl_world_comm(world);
    int64_t end = tl_clock_ns() + (int64_t)(seconds * 1e9), rounds = 0, more = 1;
    int32_t *block = tl_comm_alloc(c, COUNT * sizeof *block);
    if (!block) return tl_error_code();
    for (; more; rounds++) {
        tl_world_tell(world, TL_WORLD_COMPUTES, rounds, "what is summed");
        for (int64_t i = 0; i < COUNT; i++) block[i] = (int32_t)(c->rank + i + rounds);
        TL_TRY(tl_comm_all_reduce(c->world, &(tl_comm_sum){.dtype = TL_I32,
                                                           .count = COUNT,
                                                           .lanes = c->size,
                                                           .partials = (const void *const[]){block},
                                                           .out = block}));
        for (int64_t i = 0; i < COUNT; i++)
            if (block[i] != (int32_t)(c->size * (c->size - 1) / 2 + c->size * (i + rounds)))
                return TL_FAIL(TL_EDATA,
                               "rank %" PRId32 ": element %" PRId64 " of sum %" PRId64
                               " is wrong: memory or network are damaged",
                               c->rank, i, rounds);
        more = tl_clock_ns() < end;
        TL_TRY(tl_comm_broadcast(c->world, &more, sizeof more, 0));
    }
    tl_str_addf(&run->text, "\n%" PRId64 " sums of 1 MB, all of them right\n", rounds);
    return TL_OK;
}

static tl_status check(tli_run *run, tl_world *world, double seconds)
{
    tl_comm *c = tl_world_comm(world);
    about own = about_us();
    about *all = tl_arena_array(run->arena, c->size, sizeof *all);
    tl_part *parts = tl_arena_array(run->arena, c->size, sizeof *parts);
    if (!all || !parts) return TL_ENOMEM;
    for (int32_t r = 0; r < c->size; r++) parts[r] = (tl_part){&all[r], sizeof all[r]};
    TL_TRY(tl_comm_all_gather(c->world, &(tl_part){&own, sizeof own}, parts));
    TL_TRY(tell(run, world, all));
    if (c->rank > 0) tl_str_cut(&run->text, 0);
    TL_TRY(tli_tell_now(run));
    if (seconds > 0) TL_TRY(go_on(run, world, seconds));
    if (c->rank > 0) tl_str_cut(&run->text, 0);
    return tl_comm_barrier(c->world);
}

tl_status tli_launch_check(tli_run *run, double seconds)
{
    tl_world *world;
    TL_TRY(tl_world_open(&world, NULL));
    tl_status st = check(run, world, seconds);
    tl_world_close(&world, st);
    return st;
}
