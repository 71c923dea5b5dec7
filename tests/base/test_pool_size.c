#include "test.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/base/machine.h>
#include <tilth/base/pool.h>

#include "base/cgroup.h"
#include "base/pool_impl.h"

/* --- the environment -------------------------------------------------------------------------- */

static void set_env(const char *tilth, const char *omp)
{
    if (tilth) setenv("TILTH_NUM_THREADS", tilth, 1);
    else unsetenv("TILTH_NUM_THREADS");
    if (omp) setenv("OMP_NUM_THREADS", omp, 1);
    else unsetenv("OMP_NUM_THREADS");
}

static void test_environment(void **state)
{
    (void)state;
    static const struct {
        const char *tilth, *omp;
        int threads; /* -1: not acceptable */
    } rows[] = {
        {NULL, NULL, 0},
        {"", "", 0},
        {"3", NULL, 3},
        {NULL, "5", 5},
        {"3", "5", 3},
        {"", "5", 5},
        {NULL, "4,3,2", 4},
        {NULL, " 6 , 2", 6},
        {" 7\n", NULL, 7},
        {"1024", NULL, 1024},
        {"1", "junk", 1},
        {"4,3", NULL, -1},
        {"0", "5", -1},
        {"-2", NULL, -1},
        {"+2", NULL, -1},
        {"2.5", NULL, -1},
        {"two", NULL, -1},
        {"1025", NULL, -1},
        {"99999999999999999999", NULL, -1},
        {NULL, "0", -1},
        {NULL, ",4", -1},
        {NULL, "x,4", -1},
        {NULL, "4;3", -1},
        {" ", NULL, -1},
    };
    set_env(NULL, NULL);
    int machine = tl_pool_default_threads();
    assert_in_range(machine, 1, TL_POOL_MAX_THREADS);
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        set_env(rows[i].tilth, rows[i].omp);
        int threads = -7;
        if (rows[i].threads >= 0) {
            assert_ok(tl_pool_size_from_env(&threads));
            assert_int_equal(threads, rows[i].threads);
        } else {
            const char *name =
                rows[i].tilth && *rows[i].tilth ? "TILTH_NUM_THREADS" : "OMP_NUM_THREADS";
            assert_fails(tl_pool_size_from_env(&threads), TL_EINVAL, name);
            assert_non_null(strstr(tl_error_message(), "from 1 to 1024"));
            assert_int_equal(threads, 0);
        }
        tl_error_clear();
        assert_int_equal(tl_pool_default_threads(), threads ? threads : machine);
        assert_int_equal(tl_error_code(), TL_OK); // the default reports nothing
    }
    set_env("3", NULL);
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 0));
    assert_int_equal(tl_pool_threads(pool), 3);
    tl_pool_free(&pool);
    set_env(NULL, NULL);
}

/* --- what is told ----------------------------------------------------------------------------- */

static char heard[1024];

static void hear(const tl_log_record *record, void *payload)
{
    (void)payload;
    snprintf(heard, sizeof heard, "%s", record->text);
}

static void test_values_that_cannot_be_meant_are_told(void **state)
{
    (void)state;
    static const char *const bad[] = {"abc", "0", "-3", "1025"};
    int64_t sink;
    char wanted[256];
    set_env(NULL, NULL);
    int cpus = tl_pool_default_threads();
    assert_ok(tl_log_sink_add(&sink, &(tl_log_sink){TL_LEVEL_WARNING, hear, NULL, NULL}));
    for (int i = 0; i < TL_COUNT(bad); i++) {
        set_env(bad[i], NULL);
        heard[0] = '\0';
        assert_int_equal(tl_pool_default_threads(), cpus);
        snprintf(wanted, sizeof wanted,
                 "TILTH_NUM_THREADS is '%s'; it takes a whole number of threads from 1 to 1024. "
                 "Using %d, as many as there are CPUs for this process",
                 bad[i], cpus);
        assert_string_equal(heard, wanted);
        heard[0] = '\0';
        assert_int_equal(tl_pool_default_threads(), cpus);
        assert_string_equal(heard, ""); // once
    }
    set_env(NULL, "1000");
    assert_int_equal(tl_pool_default_threads(), 1000);
    snprintf(wanted, sizeof wanted, "OMP_NUM_THREADS is '1000', and there are %d CPUs", cpus);
    assert_non_null(strstr(heard, wanted));
    heard[0] = '\0';
    set_env("1", NULL);
    assert_int_equal(tl_pool_default_threads(), 1);
    assert_string_equal(heard, "");
    tl_log_sink_remove(sink);
    set_env(NULL, NULL);
}

static void test_affinity(void **state)
{
    (void)state;
    int before = tli_cpus_affinity();
    assert_true(before >= 1);
    assert_true(tli_cpus_available() <= before && tli_cpus_available() >= 1);
    cpu_set_t saved, one;
    assert_int_equal(sched_getaffinity(0, sizeof saved, &saved), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &saved)) {
            CPU_SET(cpu, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(tli_cpus_affinity(), 1);
    assert_int_equal(tl_pool_default_threads(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof saved, &saved), 0);
    assert_int_equal(tli_cpus_affinity(), before);
}

/* --- cgroups, in trees of files made for the purpose ------------------------------------------ */

static char root[TEMPORARY_PATH];

static int setup_tree(void **state)
{
    (void)state;
    temporary(root, "tilth-cgroup");
    return mkdtemp(root) ? 0 : -1;
}

static int leave_tree(void **state)
{
    (void)state;
    return remove_tree(root);
}

/* Writes a file, making the directories above it. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

#define OTHER_MOUNTS                                                                               \
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n"                                    \
    "23 22 0:21 / /proc rw - proc proc rw\n"
#define V2_MOUNT "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT                                                                                   \
    "31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                            \
    "32 22 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"

static void test_nothing_there(void **state)
{
    (void)state;
    assert_int_equal(tli_cpus_cgroup(root), 0);
    put("/proc/self/cgroup", "");
    put("/proc/self/mountinfo", "");
    assert_int_equal(tli_cpus_cgroup(root), 0);
    put("/proc/self/cgroup", "nonsense\n:\n::\n0\n0:\n\n");
    put("/proc/self/mountinfo", "nonsense\n - \n1 2 3 - cgroup2\n - cgroup2 a b\n");
    assert_int_equal(tli_cpus_cgroup(root), 0);
}

static void test_v2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
    put("/proc/self/mountinfo", OTHER_MOUNTS V2_MOUNT);
    assert_int_equal(tli_cpus_cgroup(root), 0); // no cpu controller
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 0);
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "400000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 4);
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "250000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 3);
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "1000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 1);
    put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "9223372036854775807 1\n");
    assert_int_equal(tli_cpus_cgroup(root), INT32_MAX);
    static const char *const junk[] = {"",           "x\n",        "100000\n",
                                       "0 100000\n", "100000 0\n", "-5 100000\n"};
    for (int64_t i = 0; i < TL_COUNT(junk); i++) {
        put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", junk[i]);
        assert_int_equal(tli_cpus_cgroup(root), 0);
    }
}

static void test_v2_ancestors(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
    put("/sys/fs/cgroup/a/cpu.max", "150000 50000\n");
    put("/sys/fs/cgroup/a/other/cpu.max", "10000 100000\n");
    put("/sys/cpu.max", "10000 100000\n"); // above the mount
    assert_int_equal(tli_cpus_cgroup(root), 3);
    put("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 1);
}

/* In a container the mount shows the container's cgroup as its root. */
static void test_shown_parts(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/pod/container/inner\n");
    put("/proc/self/mountinfo", "30 22 0:26 /pod/container /cg\\040roup rw - cgroup2 cgroup2 rw\n");
    put("/cg roup/inner/cpu.max", "500000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 5);
    put("/cg roup/cpu.max", "400000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 4);
    // Names that merely start alike, and paths that lead outside: the mount itself is what is left.
    put("/proc/self/cgroup", "0::/pod/container2/inner\n");
    assert_int_equal(tli_cpus_cgroup(root), 4);
    put("/proc/self/cgroup", "0::/../outside\n");
    assert_int_equal(tli_cpus_cgroup(root), 4);
    put("/proc/self/cgroup", "0::/pod/container\n");
    assert_int_equal(tli_cpus_cgroup(root), 4);
}

static void test_v1(void **state)
{
    (void)state;
    put("/proc/self/cgroup",
        "5:cpuset:/x\n4:memory:/y\n3:cpu,cpuacct:/job/step\n1:name=systemd:/\n");
    put("/proc/self/mountinfo", OTHER_MOUNTS V1_MOUNT);
    put("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "650000\n");
    assert_int_equal(tli_cpus_cgroup(root), 7);
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
    assert_int_equal(tli_cpus_cgroup(root), 2);
}

static void test_both_versions(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "3:cpuacct:/\n2:cpu:/job\n0::/job\n");
    put("/proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 22 0:27 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
        "32 22 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 3);
    put("/sys/fs/cgroup/unified/job/cpu.max", "200000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 2);
}

/* Without a table of mounts, the usual places are tried. */
static void test_usual_places(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "2:cpu:/job\n0::/job\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 3);
    put("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    assert_int_equal(tli_cpus_cgroup(root), 2);
}

static void test_memory(void **state)
{
    (void)state;
    assert_true(tl_machine_memory() > 1e6);
    assert_true(tli_memory_cgroup(root) == 0);
    put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
    put("/proc/self/mountinfo", OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
    assert_true(tli_memory_cgroup(root) == 0);
    put("/sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
    assert_true(tli_memory_cgroup(root) == 1073741824);
    put("/proc/self/cgroup", "3:memory:/job\n2:cpu,cpuacct:/job\n");
    put("/proc/self/mountinfo", OTHER_MOUNTS V1_MOUNT);
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    assert_true(tli_memory_cgroup(root) == 536870912);
}

int main(void)
{
#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, setup_tree, leave_tree)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_values_that_cannot_be_meant_are_told),
        cmocka_unit_test(test_affinity),
        IN_TREE(test_nothing_there),
        IN_TREE(test_v2),
        IN_TREE(test_v2_ancestors),
        IN_TREE(test_shown_parts),
        IN_TREE(test_v1),
        IN_TREE(test_both_versions),
        IN_TREE(test_usual_places),
        IN_TREE(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
