#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/pool.h>

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
        TL_LOG_WARNING("%s is '%s'; it takes a whole number of threads from 1 to %d. Using %d, as many as there are "
                       "CPUs for this process", name, value, TL_POOL_MAX_THREADS, cpus);
    else
        TL_LOG_WARNING("%s is '%s', and there are %d CPUs for this process: using %d threads, of which some will wait "
                       "for others", name, value, cpus, threads);
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

/* One hierarchy of cgroups: version 2, or the one of version 1 that has the cpu controller. */
typedef struct hierarchy {
    bool v2;
    char path[PATH_MAX];  /* of this process's cgroup, from the hierarchy's own root */
    char mount[PATH_MAX]; /* where the file system shows it */
    char shown[PATH_MAX]; /* which path of the hierarchy is shown there */
} hierarchy;

static bool join_path(char out[PATH_MAX], const char *a, const char *b, const char *c)
{
    int length = snprintf(out, PATH_MAX, "%s%s%s", a, b, c);
    return length >= 0 && length < PATH_MAX;
}

/* Whether `item` is one of the words between commas. */
static bool list_has(const char *list, const char *item)
{
    size_t length = strlen(item);
    for (; list; list = strchr(list, ',')) {
        if (*list == ',') list++;
        if (strncmp(list, item, length) == 0 && (!list[length] || list[length] == ',')) return true;
    }
    return false;
}

/* Calls fn for each line of a file, its newline cut off, until fn returns true. */
static bool for_lines(const char *root, const char *file, bool (*fn)(char *line, hierarchy *h),
                      hierarchy *h)
{
    char path[PATH_MAX];
    FILE *f = join_path(path, root, file, "") ? fopen(path, "re") : NULL;
    if (!f) return false;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    while (!found && getline(&line, &capacity, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        found = fn(line, h);
    }
    free(line);
    fclose(f);
    return found;
}

/* "4:cpu,cpuacct:/docker/12ab" in version 1, "0::/user.slice" in version 2. */
static bool take_own_path(char *line, hierarchy *h)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return false;
    *controllers++ = '\0';
    *path++ = '\0';
    bool matches = h->v2 ? strcmp(line, "0") == 0 && !*controllers : list_has(controllers, "cpu");
    // A path that leads out of what this process may see cannot be followed; its visible end can.
    if (matches) snprintf(h->path, sizeof h->path, "%s", strstr(path, "/..") ? "/" : path);
    return matches;
}

/* Spaces and the like are written as \040 in the table of mounts. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; to++) {
        bool octal = p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7'
                     && p[3] >= '0' && p[3] <= '7';
        *to = octal ? (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0')) : *p;
        p += octal ? 4 : 1;
    }
    *to = '\0';
}

/* "31 23 0:26 /shown /mount rw,nosuid shared:9 - cgroup2 source options" */
static bool take_mount(char *line, hierarchy *h)
{
    char *fields[5], *save, *tail = strstr(line, " - ");
    if (!tail) return false;
    *tail = '\0';
    for (int i = 0; i < 5; i++)
        if (!(fields[i] = strtok_r(i ? NULL : line, " ", &save))) return false;
    char *type = strtok_r(tail + 3, " ", &save), *source = strtok_r(NULL, " ", &save);
    char *options = strtok_r(NULL, " ", &save);
    if (!type || !source || !options) return false;
    bool matches = h->v2 ? strcmp(type, "cgroup2") == 0
                         : strcmp(type, "cgroup") == 0 && list_has(options, "cpu");
    if (!matches) return false;
    unescape(fields[3]);
    unescape(fields[4]);
    snprintf(h->shown, sizeof h->shown, "%s", fields[3]);
    snprintf(h->mount, sizeof h->mount, "%s", fields[4]);
    return true;
}

/* The number or the pair of numbers in a file; how many were there. "max" is none. */
static int read_numbers(const char *directory, const char *file, long long out[2])
{
    char path[PATH_MAX];
    FILE *f = join_path(path, directory, file, "") ? fopen(path, "re") : NULL;
    if (!f) return 0;
    int count = fscanf(f, "%lld %lld", &out[0], &out[1]);
    fclose(f);
    return count;
}

/* CPUs that one cgroup's own quota allows, 0 when it has none. */
static int quota_of(const char *directory, bool v2)
{
    long long numbers[2] = {0}, period[2] = {0};
    if (v2) {
        if (read_numbers(directory, "/cpu.max", numbers) < 2) return 0;
        period[0] = numbers[1];
    } else if (read_numbers(directory, "/cpu.cfs_quota_us", numbers) < 1
               || read_numbers(directory, "/cpu.cfs_period_us", period) < 1) {
        return 0;
    }
    if (numbers[0] <= 0 || period[0] <= 0) return 0; // -1 is "no limit" in version 1
    long long cpus = (numbers[0] - 1) / period[0] + 1;
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

static void take_smaller(int *limit, int other)
{
    if (other && (!*limit || other < *limit)) *limit = other;
}

/* The smallest quota from this process's cgroup up to the highest one that is shown. */
static int hierarchy_limit(const char *root, hierarchy *h)
{
    if (!for_lines(root, "/proc/self/cgroup", take_own_path, h)) return 0;
    if (!for_lines(root, "/proc/self/mountinfo", take_mount, h)) {
        snprintf(h->mount, sizeof h->mount, "/sys/fs/cgroup%s", h->v2 ? "" : "/cpu");
        snprintf(h->shown, sizeof h->shown, "/");
    }
    // Inside a container the mount often shows only the part from the container's cgroup on.
    size_t hidden = strcmp(h->shown, "/") == 0 ? 0 : strlen(h->shown);
    bool below = strncmp(h->path, h->shown, hidden) == 0
                 && (!hidden || !h->path[hidden] || h->path[hidden] == '/');
    char directory[PATH_MAX];
    if (!join_path(directory, root, h->mount, "")) return 0;
    size_t top = strlen(directory);
    if (!join_path(directory, root, h->mount, below ? h->path + hidden : "")) return 0;
    int limit = 0;
    for (;;) {
        take_smaller(&limit, quota_of(directory, h->v2));
        char *slash = strrchr(directory, '/');
        if (!slash || strlen(directory) <= top) break;
        *slash = '\0';
        if (strlen(directory) < top) break;
    }
    return limit;
}

int tli_cpus_cgroup(const char *root)
{
    int limit = 0;
    for (int v2 = 0; v2 < 2; v2++) {
        hierarchy h = {.v2 = v2};
        take_smaller(&limit, hierarchy_limit(root, &h));
    }
    return limit;
}
