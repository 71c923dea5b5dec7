#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/pool.h>

#include "base/cgroup.h"
#include "base/pool_impl.h"

/* --- the environment -------------------------------------------------------------------------- */

/* The variables that are asked, the first one that is set decides. */
static const struct {
    const char *name;
    bool list; /* numbers for several levels of nesting, of which the first one counts */
} variables[] = {{"TILTH_NUM_THREADS", false}, {"OMP_NUM_THREADS", true}};

/* 0 when the text is not acceptable. */
static int parse_threads(const char *text, bool list)
{
    char *end;
    errno = 0;
    while (isspace((unsigned char)*text)) text++;
    if (!isdigit((unsigned char)*text)) return 0; // strtol takes signs
    long number = strtol(text, &end, 10);
    while (isspace((unsigned char)*end)) end++;
    bool ended = *end == '\0' || (list && *end == ',');
    return ended && !errno && number <= TL_POOL_MAX_THREADS ? (int)number : 0;
}

/* The value of the first variable that is set and not empty, NULL when there is none. */
static const char *environment(const char **name, bool *list)
{
    for (int64_t i = 0; i < TL_COUNT(variables); i++) {
        const char *value = getenv(variables[i].name);
        *name = variables[i].name;
        *list = variables[i].list;
        if (value && *value) return value;
    }
    return NULL;
}

tl_status tl_pool_size_from_env(int *out)
{
    const char *name;
    bool list;
    const char *value = environment(&name, &list);
    *out = value ? parse_threads(value, list) : 0;
    if (value && !*out)
        return TL_FAIL(TL_EINVAL, "%s is '%s'; it takes a whole number of threads from 1 to %d",
                       name, value, TL_POOL_MAX_THREADS);
    return TL_OK;
}

/* Once for each value: everybody who makes threads asks. */
static bool is_told_already(const char *value)
{
    static uint64_t told;
    uint64_t hash = tl_hash_string(1, value);
    return __atomic_exchange_n(&told, hash, __ATOMIC_ACQ_REL) == hash;
}

/* Values that cannot be meant, or do harm. */
static void tell(const char *name, const char *value, int threads, int cpus)
{
    if ((threads && threads <= cpus) || is_told_already(value)) return;
    if (!threads)
        TL_LOG_WARNING("%s is '%s'; it takes a whole number of threads from 1 to %d. Using %d, as "
                       "many as there are CPUs for this process",
                       name, value, TL_POOL_MAX_THREADS, cpus);
    else
        TL_LOG_WARNING("%s is '%s', and there are %d CPUs for this process: using %d threads, of "
                       "which some will wait for others",
                       name, value, cpus, threads);
}

int tl_pool_default_threads(void)
{
    const char *name;
    bool list;
    const char *value = environment(&name, &list);
    int threads = value ? parse_threads(value, list) : 0, cpus = tli_cpus_available();
    if (value) tell(name, value, threads, cpus);
    if (!threads) threads = cpus;
    return threads < TL_POOL_MAX_THREADS ? threads : TL_POOL_MAX_THREADS;
}

/* --- affinity --------------------------------------------------------------------------------- */

int tli_cpus_affinity(void)
{
    cpu_set_t sets[16]; // 16384 CPUs; the kernel refuses a mask that is too short for the machine
    if (sched_getaffinity(0, sizeof sets, sets) != 0) return 1;
    int cpus = CPU_COUNT_S(sizeof sets, sets);
    return cpus > 0 ? cpus : 1;
}

int tli_cpus_available(void)
{
    int cpus = tli_cpus_affinity(), quota = tli_cpus_cgroup("");
    return quota && quota < cpus ? quota : cpus;
}

/* --- cgroups ---------------------------------------------------------------------------------- */

/* CPUs that one cgroup's own quota allows, 0 when it has none. */
static double quota_of(const char *directory, bool v2)
{
    long long numbers[2] = {0}, period[2] = {0};
    if (v2) {
        if (tli_cgroup_numbers(directory, "/cpu.max", numbers) < 2) return 0;
        period[0] = numbers[1];
    } else if (tli_cgroup_numbers(directory, "/cpu.cfs_quota_us", numbers) < 1
               || tli_cgroup_numbers(directory, "/cpu.cfs_period_us", period) < 1) {
        return 0;
    }
    if (numbers[0] <= 0 || period[0] <= 0) return 0; // -1 is "no limit" in version 1
    return (double)((numbers[0] - 1) / period[0] + 1);
}

int tli_cpus_cgroup(const char *root)
{
    double limit = tli_cgroup_limit(root, "cpu", quota_of);
    return limit < INT_MAX ? (int)limit : INT_MAX;
}
