/* Who a process is, by what launchers say; and processes that find each other without one. */
#include "test.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <tilth/comm/world.h>

#include "ranks.h"

/* "NAME=value" and so on, then NULL. */
static const char *get(const char *name, void *payload)
{
    const char *const *list = payload;
    size_t length = strlen(name);
    for (; *list; list++)
        if (strncmp(*list, name, length) == 0 && (*list)[length] == '=') return *list + length + 1;
    return NULL;
}

static tl_status find(tl_who *out, const char *const *list)
{
    return tl_who_find(out, &(tl_who_environment){get, (void *)(uintptr_t)list});
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

#define TF(task)                                                                                   \
    "TF_CONFIG={\"cluster\": {\"worker\": [\"localhost:2001\", \"127.0.0.1:2002\", "               \
    "\"localhost:2003\"]}, \"task\": " task "}"

static void launchers_are_understood(void **state)
{
    (void)state;
    tl_who w;
    assert_ok(find(&w, LIST("HOME=/")));
    assert_true(w.from == TL_WHO_ALONE && w.size == 1 && w.rank == 0 && w.local_size == 1);
    assert_ok(find(&w, LIST("TILTH_RANK=2", "TILTH_SIZE=4", "RANK=7")));
    assert_true(w.from == TL_WHO_TILTH && w.rank == 2 && w.size == 4 && !*w.hosts);
    assert_ok(find(&w, LIST("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                            "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                            "PMIX_NAMESPACE=job1", "PMIX_RANK=3")));
    assert_true(w.from == TL_WHO_MPI && w.rank == 3 && w.local_rank == 1 && w.local_size == 2);
    assert_non_null(strstr(w.hosts, ":2,OTHER_HOST:2"));
    assert_ok(find(&w, LIST("PMI_RANK=1", "PMI_SIZE=2", "HYDRA_JOBID=5")));
    assert_true(w.from == TL_WHO_MPI && w.rank == 1 && w.size == 2 && *w.key);
    assert_ok(find(&w, LIST("RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                            "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500")));
    assert_true(w.from == TL_WHO_TORCHRUN && w.rank == 1 && w.size == 2 && !*w.hosts);
    assert_non_null(strstr(w.key, "29500"));
    assert_ok(find(&w, LIST("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                            "MASTER_ADDR=node1", "MASTER_PORT=29500")));
    assert_string_equal(w.hosts, "node1:4,OTHER_HOST:4");
    // By hand, with no word of how many are here: another machine's address is one.
    assert_ok(find(&w, LIST("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=node1", "MASTER_PORT=29500")));
    assert_string_equal(w.hosts, "node1:1,OTHER_HOST:1");
    static const char *const own[] = {
        "127.0.0.1", "127.0.1.1",         "localhost", "LocalHost.localdomain",
        "::1",       "[0:0:0:0:0:0:0:1]", NULL,        NULL, // its name, with a domain too
    };
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < TL_COUNT(own); i++) {
        char by[320];
        snprintf(by, sizeof by, "MASTER_ADDR=%s%s", own[i] ? own[i] : host,
                 i == TL_COUNT(own) - 1 ? ".some.where" : "");
        assert_ok(find(&w, LIST("RANK=1", "WORLD_SIZE=2", by, "MASTER_PORT=29500")));
        assert_true(!*w.hosts && w.local_size == 2);
    }
    static const char *const others[] = {"localhosts", "126.0.0.1", "[::1", "::2"};
    for (int i = 0; i < TL_COUNT(others); i++) {
        char by[320];
        snprintf(by, sizeof by, "MASTER_ADDR=%s", others[i]);
        assert_ok(find(&w, LIST("RANK=1", "WORLD_SIZE=2", by, "MASTER_PORT=29500")));
        assert_int_equal(w.local_size, 1);
    }
    // An salloc shell has numbers of Slurm's as well, and is no step.
    assert_ok(find(&w, LIST("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=3")));
    assert_true(w.size == 1);
    assert_ok(find(&w, LIST("SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "SLURM_JOB_ID=3",
                            "SLURM_STEP_NUM_NODES=2")));
    assert_true(w.from == TL_WHO_SLURM && w.rank == 5 && w.local_size == 4 && *w.hosts);
    assert_ok(find(&w, LIST(TF("{\"type\": \"worker\", \"index\": 2}"))));
    assert_true(w.from == TL_WHO_TF_CONFIG && w.rank == 2 && w.size == 3 && w.local_size == 3);
    assert_true(!*w.hosts && strstr(w.key, "localhost:2001"));
    assert_ok(find(&w, LIST("TF_CONFIG={\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\", "
                            "\"c:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}")));
    assert_true(w.rank == 1 && w.size == 3 && w.local_size == 1);
    assert_string_equal(w.hosts, "a:1,b:1,c:1");
    assert_ok(find(&w, LIST("TF_CONFIG={}")));
    assert_true(w.size == 1);
}

/* Only whole ones are named, and how many are left out. */
static void many_hosts_are_counted(void **state)
{
    enum { HOSTS = 200, LENGTH = 120 };
    static char text[HOSTS * (LENGTH + 32)];
    tl_who w;
    (void)state;
    size_t at = (size_t)sprintf(text, "TF_CONFIG={\"cluster\": {\"worker\": [");
    for (int i = 0; i < HOSTS; i++)
        at += (size_t)sprintf(text + at, "%s\"h%0*d:1\"", i ? "," : "", LENGTH, i);
    sprintf(text + at, "]}, \"task\": {\"type\": \"worker\", \"index\": 1}}");
    assert_ok(find(&w, LIST(text)));
    const char *rest = strstr(w.hosts, ",AND_");
    assert_non_null(rest);
    int named = 1, more = 0;
    for (const char *comma = w.hosts; (comma = strchr(comma, ',')) && comma < rest; comma++)
        named++;
    assert_int_equal(sscanf(rest, ",AND_%d_MORE_HOSTS", &more), 1);
    assert_int_equal(named + more, HOSTS);
    tl_world *world;
    setenv("TF_CONFIG", text + strlen("TF_CONFIG="), 1);
    assert_fails(tl_world_open(&world, NULL), TL_EUNSUPPORTED, rest);
    assert_non_null(strstr(tl_error_message(), "_MORE_HOSTS --bind-to none /"));
    unsetenv("TF_CONFIG");
}

static void mistakes_are_told(void **state)
{
    (void)state;
    tl_who w;
    assert_fails(find(&w, LIST("TILTH_RANK=4", "TILTH_SIZE=4")), TL_EINVAL,
                 "TILTH_RANK: expected a whole number from 0 to 3, found '4'");
    assert_fails(find(&w, LIST("TILTH_RANK=1")), TL_EINVAL, "TILTH_SIZE is not set");
    assert_fails(find(&w, LIST("RANK=x", "WORLD_SIZE=2")), TL_EINVAL, "RANK: expected");
    assert_fails(find(&w, LIST("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "RANK=2",
                               "WORLD_SIZE=4")),
                 TL_EINVAL, "says rank 1 of 4, torchrun (RANK, WORLD_SIZE) says rank 2 of 4");
    assert_ok(find(&w, LIST("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "RANK=0",
                            "WORLD_SIZE=1", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2")));
    assert_fails(find(&w, LIST("TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"], \"ps\": "
                               "[\"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}")),
                 TL_EUNSUPPORTED, "parameter servers are not supported");
    assert_fails(find(&w, LIST("TF_CONFIG=[]")), TL_EINVAL, "TF_CONFIG: expected {");
    assert_fails(find(&w, LIST("TF_CONFIG={\"cluster\": 5}")), TL_EINVAL, "TF_CONFIG: expected {");
    assert_fails(find(&w, LIST("TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\", \"a:1\"]}}")),
                 TL_EINVAL, "'a:1' is there twice");
    assert_fails(find(&w, LIST(TF("{\"type\": \"worker\", \"index\": \"1x\"}"))), TL_EINVAL,
                 "TF_CONFIG: task.index: expected 0 to");
    assert_fails(find(&w, LIST(TF("{\"type\": \"ps\", \"index\": 0}"))), TL_EUNSUPPORTED,
                 "parameter servers");
    assert_fails(find(&w, LIST(TF("{\"type\": \"worker\", \"index\": 3}"))), TL_EINVAL,
                 "task.index: expected 0 to 2");
    assert_fails(find(&w, LIST(TF("{}"))), TL_EINVAL, "task.type");
    assert_fails(find(&w, LIST("TF_CONFIG={")), TL_EINVAL, "TF_CONFIG: not JSON");
    assert_fails(find(&w, LIST("TF_CONFIG={\"cluster\": {\"worker\": 3}}")), TL_EINVAL,
                 "cluster.worker: expected a list");
}

/* --- processes that nobody launched ----------------------------------------------------------- */

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* In a folder of the test's own: where the chief meets the others, once it does. */
static void find_meeting(struct sockaddr_un *out)
{
    char pattern[128];
    glob_t found;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(pattern, sizeof pattern, "%s/tilth-%ld/join-*", getenv("XDG_RUNTIME_DIR"),
             (long)geteuid());
    while (glob(pattern, 0, NULL, &found) != 0) tl_sleep_ns(1000000);
    snprintf(out->sun_path, sizeof out->sun_path, "%s", found.gl_pathv[0]);
    globfree(&found);
}

/* Processes of the same user that say nothing, or not enough, and do not leave. */
static void come_silently(void)
{
    struct sockaddr_un at;
    find_meeting(&at);
    for (int i = 0; i < 80; i++) { // more than are let wait
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        while (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) tl_sleep_ns(1000000);
        if (i % 2) (void)!send(fd, "\x3c", 1, MSG_NOSIGNAL);
    }
}

/* As torchrun would start them, and a user by hand. */
static int join(const tl_comm_args *args, void *payload)
{
    const char *kind = payload;
    tl_world *world;
    const bool silent = strcmp(kind, "silent") == 0;
    if (silent || strcmp(kind, "torchrun") == 0) {
        set_number("RANK", args->rank);
        set_number("WORLD_SIZE", args->size);
        set_number("MASTER_PORT", 20000 + (int)getppid() % 10000);
    } else {
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"cluster\": {\"worker\": [\"localhost:%d\", \"localhost:2\", \"localhost:3\"]}, "
            "\"task\": {\"type\": \"worker\", \"index\": %d}}",
            20000 + (int)getppid() % 10000, (int)args->rank);
        setenv("TF_CONFIG", text, 1);
    }
    if (args->rank == 0) tl_sleep_ns(30000000); // the others are first
    if (silent && args->rank == 1) come_silently();
    RANK_CHECK(tl_world_open(&world, NULL) == TL_OK);
    tl_comm *c = tl_world_comm(world);
    int32_t value = args->rank + 1, sum = 0;
    RANK_CHECK(c->size == args->size && c->rank == args->rank);
    RANK_CHECK(
        tl_comm_all_reduce(c->world, &(tl_comm_sum){.dtype = TL_I32,
                                                    .count = 1,
                                                    .lanes = args->size,
                                                    .partials = (const void *const[]){&value},
                                                    .out = &sum})
        == TL_OK);
    RANK_CHECK(sum == args->size * (args->size + 1) / 2);
    tl_world_tell(world, TL_WORLD_COMPUTES, 1, "a test");
    if (strcmp(kind, "fails") == 0) {
        if (args->rank == 1) {
            tl_status st = TL_FAIL(TL_EIO, "the disk is full");
            tl_world_close(&world, st);
            return 0;
        }
        RANK_CHECK(tl_comm_barrier(c->world) == TL_EPEER);
        RANK_CHECK(strstr(tl_error_message(), "rank 1")
                   && strstr(tl_error_message(), "disk is full"));
        tl_world_close(&world, TL_EPEER);
        return 0;
    }
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    tl_world_close(&world, TL_OK);
    return 0;
}

/* A folder of the test's own, so that nobody is met by chance. */
static int meet_here(void **state)
{
    static char folder[TEMPORARY_PATH];
    (void)state;
    if (!mkdtemp(temporary(folder, "tilth-who"))) return -1;
    return setenv("XDG_RUNTIME_DIR", folder, 1);
}

static int leave_here(void **state)
{
    char path[TEMPORARY_PATH + 64];
    (void)state;
    const char *folder = getenv("XDG_RUNTIME_DIR");
    snprintf(path, sizeof path, "%s/tilth-%ld", folder, (long)geteuid());
    rmdir(path);
    return rmdir(folder); // fails where a socket was left
}

static void processes_find_each_other(void **state)
{
    (void)state;
    static const char *const kinds[] = {"torchrun", "TF_CONFIG", "fails", "silent"};
    for (int64_t i = 0; i < TL_COUNT(kinds); i++)
        assert_int_equal(ranks_fork(3, join, (void *)(uintptr_t)kinds[i]), 0);
}

static void others_folders_are_not_entered(void **state)
{
    (void)state;
    char path[TEMPORARY_PATH + 64];
    tl_world *world;
    snprintf(path, sizeof path, "%s/tilth-%ld", getenv("XDG_RUNTIME_DIR"), (long)geteuid());
    mkdir(path, 0700);
    assert_int_equal(chmod(path, 0755), 0);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_PORT", "29500", 1);
    assert_fails(tl_world_open(&world, NULL), TL_EIO, "nobody else can enter");
    assert_int_equal(chmod(path, 0700), 0);
    assert_fails(tl_world_open(&world, &(tl_world_args){.join_timeout_s = 0.05}), TL_EPEER,
                 "rank 0 of 2 processes has not come");
    setenv("RANK", "0", 1);
    assert_fails(tl_world_open(&world, &(tl_world_args){.join_timeout_s = 0.05}), TL_EPEER,
                 "those of rank 1 lack");
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("MASTER_ADDR", "node7", 1);
    assert_fails(tl_world_open(&world, NULL), TL_EUNSUPPORTED,
                 "mpirun -H node7:1,OTHER_HOST:1 --bind-to none /");
    assert_null(strstr(tl_error_message(), "set it to localhost")); // it would not help
    unsetenv("LOCAL_WORLD_SIZE");
    assert_fails(tl_world_open(&world, NULL), TL_EUNSUPPORTED,
                 "(MASTER_ADDR is 'node7', which is no name or address of this machine. If all "
                 "processes are on it, set it to localhost)");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("MASTER_ADDR");
    setenv("TILTH_RANK", "0", 1);
    setenv("TILTH_SIZE", "2", 1);
    assert_fails(tl_world_open(&world, NULL), TL_EINVAL, "TILTH_FILES: expected 3 open");
    unsetenv("TILTH_RANK");
    unsetenv("TILTH_SIZE");
}

/* The two calls between which the place where processes meet is there, with a signal behind one of
 * them. */
static enum { NOWHERE, BEHIND_LISTEN, BEHIND_UNLINK } interrupted;

int listen(int fd, int most)
{
    const int result = (int)syscall(SYS_listen, fd, most);
    if (interrupted == BEHIND_LISTEN) kill(getpid(), SIGTERM);
    return result;
}

int unlink(const char *path)
{
    const int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (interrupted != BEHIND_UNLINK) return result;
    interrupted = NOWHERE;
    close(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)); // another run begins
    kill(getpid(), SIGTERM);
    return result;
}

/* How many places there are when a chief that waits in vain has been ended by the signal. */
static size_t places_left_by_one_interrupted(int where)
{
    char pattern[128];
    int status;
    glob_t found = {0};
    pid_t chief = fork();
    assert_true(chief >= 0);
    if (chief == 0) {
        tl_world *world;
        set_number("RANK", 0);
        set_number("WORLD_SIZE", 2);
        set_number("MASTER_PORT", 29500);
        interrupted = where;
        _exit(tl_world_open(&world, &(tl_world_args){.join_timeout_s = 0.05}) == TL_OK);
    }
    assert_int_equal(waitpid(chief, &status, 0), chief);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    snprintf(pattern, sizeof pattern, "%s/tilth-%ld/join-*", getenv("XDG_RUNTIME_DIR"),
             (long)geteuid());
    const bool none = glob(pattern, 0, NULL, &found) == GLOB_NOMATCH;
    const size_t left = none ? 0 : found.gl_pathc;
    for (size_t i = 0; i < left; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
    return left;
}

static void the_interrupted_take_their_own_place_away(void **state)
{
    (void)state;
    assert_int_equal(places_left_by_one_interrupted(BEHIND_LISTEN), 0);
    assert_int_equal(places_left_by_one_interrupted(BEHIND_UNLINK), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_understood),
        cmocka_unit_test(many_hosts_are_counted),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test_setup_teardown(processes_find_each_other, meet_here, leave_here),
        cmocka_unit_test_setup_teardown(others_folders_are_not_entered, meet_here, leave_here),
        cmocka_unit_test_setup_teardown(the_interrupted_take_their_own_place_away, meet_here,
                                        leave_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
