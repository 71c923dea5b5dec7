#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/pool.h>
#include <tilth/comm/shm.h>
#include <tilth/comm/world.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cuda/cuda.h>

#include "tool/launch.h"

enum { MOST_BYTES = 16 << 20 };

/* What a rank says of itself. */
typedef struct about {
    char host[64], processors[64], nodes[32]; /* those that it may use */
    char instructions[32], device[96];
    int64_t process, threads, count, online; /* processors that it may use, and that are there */
} about;

/* Between rank 0 and another. */
typedef struct distance {
    double seconds; /* a small message takes */
    double rate;    /* bytes a second of a large one */
} distance;

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

/* "0,1": nodes of memory whose processors this process may use. */
static void add_nodes(about *a)
{
    cpu_set_t set;
    size_t at = 0;
    snprintf(a->nodes, sizeof a->nodes, "-");
    if (sched_getaffinity(0, sizeof set, &set) < 0) return;
    a->count = CPU_COUNT(&set);
    for (int node = 0; node < 1024 && at < sizeof a->nodes - 6; node++) {
        char path[64];
        bool ours = false;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d", node);
        if (access(path, F_OK) < 0) {
            if (node) break; // they are numbered from 0
            continue;
        }
        for (int i = 0; i < CPU_SETSIZE && !ours; i++) {
            if (!CPU_ISSET(i, &set)) continue;
            snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpu%d", node, i);
            ours = access(path, F_OK) == 0;
        }
        if (ours)
            at += (size_t)snprintf(a->nodes + at, sizeof a->nodes - at, at ? ",%d" : "%d", node);
    }
}

/* What it computes on, and what it could. */
static tl_status add_device(about *a)
{
    const tl_backend_class *backend;
    int64_t gpus = 0;
    tl_gpu gpu;
    TL_TRY(tl_cpu_backend(&backend));
    snprintf(a->instructions, sizeof a->instructions, "%s", backend->cls.name);
    snprintf(a->device, sizeof a->device, "%s", backend->cls.name);
    if (tl_gpu_count(&gpus) != TL_OK || gpus == 0 || tl_gpu_at(&gpu, 0) != TL_OK) tl_error_clear();
    else
        snprintf(a->device, sizeof a->device, "%s, %" PRId64 " x %.40s", backend->cls.name, gpus,
                 gpu.name);
    return TL_OK;
}

static tl_status tell_of_us(about *a)
{
    *a = (about){.process = getpid(), .threads = tl_pool_default_threads()};
    a->online = sysconf(_SC_NPROCESSORS_ONLN);
    gethostname(a->host, sizeof a->host - 1);
    add_processors(a->processors);
    add_nodes(a);
    return add_device(a);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Seconds for a message there and back: the best of a few. */
static tl_status pass(double *out, tl_comm *c, int32_t peer, char *block, size_t bytes, int calls)
{
    const int32_t other = c->rank == 0 ? peer : 0;
    *out = 1e9;
    for (int round = 0; round < 4; round++) {
        int64_t begin = tl_clock_ns();
        for (int i = 0; i < calls; i++) {
            if (c->rank > 0) TL_TRY(tl_comm_recv(c->world, block, bytes, other));
            TL_TRY(tl_comm_send(c->world, block, bytes, other));
            if (c->rank == 0) TL_TRY(tl_comm_recv(c->world, block, bytes, other));
        }
        double seconds = (double)(tl_clock_ns() - begin) * 1e-9 / calls;
        if (seconds < *out) *out = seconds;
    }
    return TL_OK;
}

/* From rank 0 to each of the others, which wait for their turn. */
static tl_status measure_distances(distance *out, tl_comm *c, char *block)
{
    enum { SMALL = 8, LARGE = 1 << 20 };
    for (int32_t r = 1; r < c->size; r++) {
        double small, large;
        TL_TRY(tl_comm_barrier(c->world));
        if (c->rank != 0 && c->rank != r) continue;
        TL_TRY(pass(&small, c, r, block, SMALL, 50));
        TL_TRY(pass(&large, c, r, block, LARGE, 2));
        out[r] = (distance){.seconds = small / 2, .rate = 2.0 * LARGE / large};
    }
    return tl_comm_barrier(c->world);
}

/* --- sums ------------------------------------------------------------------------------------- */

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

/* --- what is told ----------------------------------------------------------------------------- */

static void tell_ranks(tl_str *s, const about *all, const distance *far, int32_t size)
{
    tl_str_addf(s, "%-5s %-20s %8s  %-14s %-5s %7s %11s %9s  %s\n", "rank", "host", "process",
                "processors", "nodes", "threads", "us from 0", "GB/s", "computes with");
    for (int32_t r = 0; r < size; r++) {
        tl_str_addf(s, "%-5" PRId32 " %-20.63s %8" PRId64 "  %-14.63s %-5s %7" PRId64, r,
                    all[r].host, all[r].process, all[r].processors, all[r].nodes, all[r].threads);
        if (r) tl_str_addf(s, " %11.1f %9.2f", far[r].seconds * 1e6, far[r].rate * 1e-9);
        else tl_str_addf(s, " %11s %9s", "-", "-");
        tl_str_addf(s, "  %s\n", all[r].device);
    }
}

/* What would slow a run down, or change its bits. Of each kind the first. */
static void tell_doubts(tl_str *s, const about *all, int32_t size, const tl_who *who)
{
    bool bound = false, crowded = false, differ = false;
    for (int32_t r = 0; r < size; r++) {
        int64_t threads = 0;
        for (int32_t k = 0; k < size; k++)
            if (strcmp(all[k].host, all[r].host) == 0) threads += all[k].threads;
        if (!bound && all[r].count == 1 && all[r].online > 1) {
            bound = true;
            tl_str_addf(s, "\nrank %" PRId32 " may use one of the %" PRId64 " processors of %s%s\n",
                        r, all[r].online, all[r].host,
                        who->from == TL_WHO_MPI ? ": say `mpirun --bind-to none`" : "");
        }
        if (!crowded && threads > all[r].online) {
            crowded = true;
            tl_str_addf(s, "\n%" PRId64 " threads share the %" PRId64 " processors of %s\n",
                        threads, all[r].online, all[r].host);
        }
        if (!differ && strcmp(all[r].instructions, all[0].instructions) != 0) {
            differ = true;
            tl_str_addf(s,
                        "\nrank %" PRId32 " (%s) computes with %s, and rank 0 (%s) with %s: bits "
                        "will depend on who carries which lane; TILTH_ISA can make them the same\n",
                        r, all[r].host, all[r].instructions, all[0].host, all[0].instructions);
        }
    }
}

static tl_status tell(tli_run *run, tl_world *world, const about *all, distance *far)
{
    static const int64_t sizes[] = {8, 4096, 65536, 1 << 20, MOST_BYTES};
    tl_comm *c = tl_world_comm(world);
    tl_str *s = &run->text;
    float *block = tl_comm_alloc(c, MOST_BYTES);
    if (!block) return tl_error_code();
    TL_TRY(measure_distances(far, c, (char *)block));
    tl_str_addf(s, "%" PRId32 " processes, by %s, over %s\n\n", c->size,
                tl_world_who(world)->source, c->cls->cls.name);
    tell_ranks(s, all, far, c->size);
    tell_doubts(s, all, c->size, tl_world_who(world));
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
    about own;
    about *all = tl_arena_array(run->arena, c->size, sizeof *all);
    tl_part *parts = tl_arena_array(run->arena, c->size, sizeof *parts);
    distance *far = tl_arena_array(run->arena, c->size, sizeof *far);
    if (!all || !parts || !far) return TL_ENOMEM;
    TL_TRY(tell_of_us(&own));
    for (int32_t r = 0; r < c->size; r++) parts[r] = (tl_part){&all[r], sizeof all[r]};
    TL_TRY(tl_comm_all_gather(c->world, &(tl_part){&own, sizeof own}, parts));
    TL_TRY(tell(run, world, all, far));
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
