/* Files: whole reads of every kind of file, atomic replacement and what is left after each way it
 * can fail, mappings, directories, paths, patterns. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "base/inner/file_io.h"

enum { LIMIT = 1 << 24 };

/* Stands in for the C library's, to see what is synced and to fail in its place. */
static struct {
    int files, folders; /* synced so far */
    int fail_at;        /* this call from now on, counted from 1 */
    int error;
} syncs;

int fsync(int fd)
{
    struct stat info;
    if (syncs.fail_at > 0 && --syncs.fail_at == 0) {
        errno = syncs.error;
        return -1;
    }
    if (fstat(fd, &info) != 0) return -1;
    *(S_ISDIR(info.st_mode) ? &syncs.folders : &syncs.files) += 1;
    return 0;
}

static char home[TEMPORARY_PATH];

/* Each test stands in an empty directory of its own. */
static int enter_folder(void **state)
{
    (void)state;
    temporary(home, "tilth-test-file");
    return mkdtemp(home) && chdir(home) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    tl_alloc_fail_at(0, 0);
    return chdir("/") == 0 && remove_tree(home) == 0 ? 0 : -1;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char *data;
    size_t size;
    assert_ok(tl_file_read(&data, &size, path, LIMIT));
    assert_string_equal(data, text);
    assert_int_equal(size, strlen(text));
    tl_free(data);
}

static int64_t count_matches(const char *pattern)
{
    tl_arena *arena;
    tl_path_list list;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&list, arena, pattern));
    tl_arena_free(&arena);
    return list.count;
}

static void assert_no_temporary(void)
{
    assert_int_equal(count_matches(".*.tmp"), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void test_read_gives_all_bytes_and_a_nul(void **state)
{
    (void)state;
    char *data;
    size_t size = 99;
    put("a.txt", "some text\n");
    assert_holds("a.txt", "some text\n");
    put("empty", "");
    assert_ok(tl_file_read(&data, NULL, "empty", 0));
    assert_string_equal(data, "");
    tl_free(data);
    assert_ok(tl_file_write_atomic("nul", "a\0b", 3));
    assert_ok(tl_file_read(&data, &size, "nul", LIMIT));
    assert_int_equal(size, 3);
    assert_memory_equal(data, "a\0b", 4);
    tl_free(data);
}

static void test_read_keeps_its_limit(void **state)
{
    (void)state;
    char *data;
    size_t size;
    put("ten", "0123456789");
    assert_ok(tl_file_read(&data, &size, "ten", 10));
    tl_free(data);
    assert_fails(tl_file_read(&data, &size, "ten", 9), TL_ELIMIT,
                 "'ten' is larger than the 9 bytes");
    assert_null(data);
    assert_int_equal(size, 0);
    // One that no memory could hold is refused before any is asked for.
    put("huge", "");
    assert_int_equal(truncate("huge", INT64_C(1) << 40), 0);
    int64_t calls = tl_alloc_calls();
    assert_fails(tl_file_read(&data, &size, "huge", LIMIT), TL_ELIMIT, "'huge'");
    assert_int_equal(tl_alloc_calls(), calls);
    // A size that only shows while reading.
    assert_fails(tl_file_read(&data, &size, "/proc/self/status", 9), TL_ELIMIT,
                 "/proc/self/status");
    assert_null(data);
}

static void test_read_names_what_it_cannot_read(void **state)
{
    (void)state;
    char *data;
    assert_fails(tl_file_read(&data, NULL, "gone.yaml", LIMIT), TL_ENOTFOUND,
                 "cannot open 'gone.yaml': No such file or directory");
    assert_null(data);
    assert_fails(tl_file_read(&data, NULL, home, LIMIT), TL_EINVAL, "Is a directory");
    assert_fails(tl_file_read(&data, NULL, home, LIMIT), TL_EINVAL, home);
    put("plain", "");
    assert_fails(tl_file_read(&data, NULL, "plain/below", LIMIT), TL_ENOTFOUND, "plain/below");
}

static void test_read_of_a_file_of_the_kernel(void **state)
{
    (void)state;
    char *data;
    size_t size;
    // Some files of the kernel answer one read only.
    assert_ok(tl_file_read(&data, &size, "/proc/sys/kernel/pid_max", LIMIT));
    assert_true(size > 3 && data[size - 1] == '\n');
    tl_free(data);
    assert_ok(tl_file_read(&data, &size, "/proc/self/status", LIMIT));
    assert_non_null(strstr(data, "Threads:"));
    assert_int_equal(size, strlen(data));
    tl_free(data);
}

static void ignore_alarm(int signal)
{
    (void)signal;
}

/* A signal every few milliseconds, without SA_RESTART, so that system calls are interrupted. */
static void set_alarms(bool on)
{
    struct sigaction action = {.sa_handler = on ? ignore_alarm : SIG_DFL};
    struct itimerval every = {{0, on ? 3000 : 0}, {0, on ? 3000 : 0}};
    if (on) sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    if (!on) sigaction(SIGALRM, &action, NULL);
}

static char pattern_at(size_t i)
{
    return (char)('a' + i * 7 % 26);
}

enum { PIPED = 300000 };

/* In a child: opens the pipe late and feeds it slowly. */
static void feed_pipe(const char *path)
{
    static char bytes[PIPED];
    for (size_t i = 0; i < PIPED; i++) bytes[i] = pattern_at(i);
    usleep(30000);
    int fd = open(path, O_WRONLY);
    for (size_t at = 0; at < PIPED;) {
        size_t piece = PIPED - at < 40000 ? PIPED - at : 40000;
        ssize_t written = write(fd, bytes + at, piece);
        if (written <= 0) _exit(1);
        at += (size_t)written;
        usleep(5000);
    }
    _exit(0);
}

static void wait_for(pid_t child, int expected)
{
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), expected);
}

static void test_read_of_a_slow_pipe_between_signals(void **state)
{
    (void)state;
    char *data;
    size_t size;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) feed_pipe("pipe");
    int fd = open("pipe", O_RDONLY); // as a shell does it
    assert_true(fd >= 0);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    set_alarms(true);
    tl_status status = tl_file_read(&data, &size, path, LIMIT);
    set_alarms(false);
    close(fd);
    assert_ok(status);
    wait_for(child, 0);
    assert_int_equal(size, PIPED);
    for (size_t i = 0; i < PIPED; i++) assert_int_equal(data[i], pattern_at(i));
    tl_free(data);
}

static void test_read_waits_for_no_pipe(void **state)
{
    (void)state;
    char *data;
    tl_file_mapping map;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_fails(tl_file_read(&data, NULL, "pipe", LIMIT), TL_EINVAL,
                 "'pipe': it is a pipe, and only regular files");
    assert_fails(tl_file_map(&map, "pipe"), TL_EINVAL, "'pipe': it is a pipe");
    assert_int_equal(symlink("/dev/zero", "link"), 0);
    assert_fails(tl_file_read(&data, NULL, "link", LIMIT), TL_EINVAL, "'link': it is a device");
    assert_fails(tl_file_read(&data, NULL, "/proc/self/fd/../../../dev/zero", LIMIT), TL_EINVAL,
                 "it is a device");
    assert_ok(tl_file_read(&data, NULL, "/dev/null", LIMIT)); // for who wants no file
    assert_string_equal(data, "");
    tl_free(data);
}

static void test_read_without_memory(void **state)
{
    (void)state;
    char *data;
    put("a", "text");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_file_read(&data, NULL, "a", LIMIT), TL_ENOMEM, "out of memory");
    assert_null(data);
    tl_alloc_fail_at(2, 1); // while growing
    assert_fails(tl_file_read(&data, NULL, "/proc/self/smaps", LIMIT), TL_ENOMEM, "out of memory");
    assert_null(data);
}

/* --- mappings --------------------------------------------------------------------------------- */

static void test_map(void **state)
{
    (void)state;
    tl_file_mapping map = TL_FILE_MAPPING_INIT;
    tl_file_unmap(&map);
    put("a", "mapped bytes");
    assert_ok(tl_file_map(&map, "a"));
    assert_int_equal(map.size, 12);
    assert_memory_equal(map.data, "mapped bytes", 12);
    assert_ok(tl_file_write_atomic("a", "other", 5)); // replaced, so the mapping still sees the old
    assert_memory_equal(map.data, "mapped bytes", 12);
    tl_file_unmap(&map);
    assert_null(map.data);
    tl_file_unmap(&map);

    put("empty", "");
    assert_ok(tl_file_map(&map, "empty"));
    assert_non_null(map.data);
    assert_int_equal(map.size, 0);
    tl_file_unmap(&map);
}

static void test_map_refuses_what_is_no_file(void **state)
{
    (void)state;
    tl_file_mapping map;
    assert_fails(tl_file_map(&map, "gone"), TL_ENOTFOUND, "'gone'");
    assert_null(map.data);
    assert_fails(tl_file_map(&map, home), TL_EINVAL, "Is a directory");
    assert_fails(tl_file_map(&map, "/dev/null"), TL_EINVAL,
                 "'/dev/null': it is a device, and only regular files");
}

/* --- writing ---------------------------------------------------------------------------------- */

static void test_write_makes_and_replaces(void **state)
{
    (void)state;
    mode_t before = umask(027);
    assert_ok(tl_file_write_atomic("new", "one", 3));
    umask(before);
    assert_holds("new", "one");
    assert_int_equal(mode_of("new"), 0640);

    assert_int_equal(chmod("new", 0604), 0);
    assert_ok(tl_file_write_atomic("new", "second", 6));
    assert_holds("new", "second");
    assert_int_equal(mode_of("new"), 0604);
    assert_ok(tl_file_write_atomic("new", NULL, 0));
    assert_holds("new", "");
    assert_no_temporary();
}

static void test_write_takes_any_path(void **state)
{
    (void)state;
    char longest[256], absolute[512];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    assert_ok(tl_file_write_atomic(longest, "x", 1));
    assert_holds(longest, "x");
    assert_ok(tl_mkdirs("sub"));
    assert_ok(tl_file_write_atomic("sub/a", "relative", 8));
    assert_holds("sub/a", "relative");
    snprintf(absolute, sizeof absolute, "%s/sub/b", home);
    assert_ok(tl_file_write_atomic(absolute, "absolute", 8));
    assert_holds("sub/b", "absolute");
    assert_no_temporary();
    assert_int_equal(count_matches("sub/.*.tmp"), 0);
}

static void test_write_replaces_links(void **state)
{
    (void)state;
    struct stat info;
    assert_ok(tl_mkdirs("data"));
    put("data/real", "old");
    assert_int_equal(symlink("data/real", "link"), 0);
    assert_ok(tl_file_write_atomic("link", "new", 3));
    assert_holds("data/real", "old");
    assert_holds("link", "new");
    assert_int_equal(lstat("link", &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    assert_ok(tl_file_write_atomic("dangling", "x", 1));
    assert_holds("dangling", "x");
    assert_false(tl_file_exists("nowhere"));
    assert_int_equal(symlink("/dev/stdout", "stream"), 0); // as root one would lose it
    assert_fails(tl_file_write_atomic("stream", "x", 1), TL_EINVAL,
                 "'stream': it is not a regular file");
    assert_no_temporary();
}

static void test_write_refuses_what_is_no_file(void **state)
{
    (void)state;
    assert_ok(tl_mkdirs("folder"));
    assert_fails(tl_file_write_atomic("folder", "x", 1), TL_EINVAL, "'folder': Is a directory");
    assert_fails(tl_file_write_atomic("new/", "x", 1), TL_ENOTFOUND, "'new/'");
    assert_fails(tl_file_write_atomic("", "x", 1), TL_EINVAL, "''");
    assert_fails(tl_file_write_atomic("no/where", "x", 1), TL_ENOTFOUND,
                 "'no/where': No such file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_fails(tl_file_write_atomic("pipe", "x", 1), TL_EINVAL,
                 "'pipe': it is not a regular file");
    assert_no_temporary();
}

static void test_writer_gathers_pieces_of_every_size(void **state)
{
    (void)state;
    enum { TOTAL = 1 << 20 };
    char *bytes = tl_alloc(TOTAL), *data;
    size_t size;
    assert_non_null(bytes);
    for (size_t i = 0; i < TOTAL; i++) bytes[i] = pattern_at(i);
    tl_file_writer *w;
    assert_ok(tl_file_writer_begin(&w, "pieces"));
    for (size_t at = 0, piece = 0; at < TOTAL; at += piece) {
        piece = (piece * 3 + 1) % 150001;
        if (piece > TOTAL - at) piece = TOTAL - at;
        assert_ok(tl_file_writer_write(w, bytes + at, piece));
    }
    assert_false(tl_file_exists("pieces")); // not before the commit
    assert_int_equal(count_matches(".pieces.*.tmp"), 1);
    assert_int_equal(chdir("/"), 0); // a relative path means where it was begun
    assert_ok(tl_file_writer_commit(&w));
    assert_int_equal(chdir(home), 0);
    assert_null(w);
    assert_ok(tl_file_read(&data, &size, "pieces", LIMIT));
    assert_int_equal(size, TOTAL);
    assert_memory_equal(data, bytes, TOTAL);
    assert_no_temporary();
    tl_free(data);
    tl_free(bytes);
}

static void test_writer_abort_leaves_nothing(void **state)
{
    (void)state;
    tl_file_writer *w;
    put("a", "old");
    assert_ok(tl_file_writer_begin(&w, "a"));
    assert_ok(tl_file_writer_write(w, "new", 3));
    tl_file_writer_abort(&w);
    assert_null(w);
    tl_file_writer_abort(&w);
    assert_holds("a", "old");
    assert_no_temporary();
}

/* A disk that is full after `bytes`, as far as the system lets a test make one. */
static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
    signal(SIGXFSZ, bytes == RLIM_INFINITY ? SIG_DFL : SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_write_that_fails_keeps_the_old_file(void **state)
{
    (void)state;
    char *bytes = tl_alloc_zero(1 << 20);
    assert_non_null(bytes);
    put("a", "old");
    tl_file_writer *w;
    assert_ok(tl_file_writer_begin(&w, "a"));
    limit_file_size(100000);
    tl_status whole = tl_file_write_atomic("a", bytes, 1 << 20);
    char message[256];
    snprintf(message, sizeof message, "%s", tl_error_message());
    tl_status first = tl_file_writer_write(w, bytes, 1 << 20);
    tl_status second = tl_file_writer_write(w, bytes, 1);
    tl_status commit = tl_file_writer_commit(&w);
    // What fits in the buffer fails as late as in the commit.
    limit_file_size(10);
    tl_status late = tl_file_write_atomic("b", bytes, 100);
    limit_file_size(RLIM_INFINITY);
    tl_free(bytes);

    assert_int_equal(whole, TL_EIO);
    assert_string_equal(message, "cannot write 'a': File too large");
    assert_int_equal(first, TL_EIO);
    assert_int_equal(second, TL_ESTATE);
    assert_int_equal(commit, TL_ESTATE);
    assert_null(w);
    assert_int_equal(late, TL_EIO);
    assert_holds("a", "old");
    assert_false(tl_file_exists("b"));
    assert_no_temporary();
}

static void test_write_syncs_the_file_and_its_folder(void **state)
{
    (void)state;
    syncs.files = syncs.folders = 0;
    assert_ok(tl_file_write_atomic("a", "old", 3));
    assert_int_equal(syncs.files, 1);
    assert_int_equal(syncs.folders, 1);

    syncs.error = EIO;
    syncs.fail_at = 1;
    assert_fails(tl_file_write_atomic("a", "new", 3), TL_EIO,
                 "cannot write 'a': Input/output error");
    assert_holds("a", "old");
    syncs.fail_at = 2; // the file is in place, but a crash could still undo that
    assert_fails(tl_file_write_atomic("a", "new", 3), TL_EIO, "cannot sync the directory of 'a'");
    assert_holds("a", "new");
    assert_no_temporary();

    for (int call = 1; call <= 2; call++) { // tried again, or nothing to wait for
        syncs.fail_at = call;
        syncs.error = EINTR;
        assert_ok(tl_file_write_atomic("a", "third", 5));
        syncs.fail_at = call;
        syncs.error = EINVAL;
        assert_ok(tl_file_write_atomic("a", "third", 5));
    }
    assert_holds("a", "third");
}

static void test_write_without_memory(void **state)
{
    (void)state;
    put("a", "old");
    int64_t failures = 0;
    for (;; failures++) {
        tl_alloc_fail_at(failures + 1, 1);
        tl_status status = tl_file_write_atomic("a", "new", 3);
        tl_alloc_fail_at(0, 0);
        if (status == TL_OK) break;
        assert_int_equal(status, TL_ENOMEM);
        assert_holds("a", "old");
        assert_no_temporary();
    }
    assert_true(failures >= 2);
    assert_holds("a", "new");
}

/* In a child: replaces the file with all 'a' and all 'b' in turn, of different sizes, until killed.
 */
static void replace_for_ever(void)
{
    static char bytes[100000];
    for (int round = 0;; round++) {
        size_t size = round % 2 ? 100000 : 70000;
        memset(bytes, round % 2 ? 'b' : 'a', sizeof bytes);
        if (tl_file_write_atomic("contested", bytes, size) != TL_OK) _exit(1);
    }
}

static void test_readers_and_kills_never_see_a_half(void **state)
{
    (void)state;
    put("contested", "");
    const char *wanted = getenv("TILTH_KILLS"); // tests/soak/kills.sh asks for hundreds
    int kills = wanted ? atoi(wanted) : 5;
    for (int kill_round = 0; kill_round < kills; kill_round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) replace_for_ever();
        for (int i = 0; i < 40; i++) {
            char *data;
            size_t size;
            assert_ok(tl_file_read(&data, &size, "contested", LIMIT));
            assert_int_equal(size, data[0] == 'b' ? 100000 : data[0] == 'a' ? 70000 : 0);
            assert_int_equal(strspn(data, data[0] == 'b' ? "b" : "a"), size);
            tl_free(data);
            usleep(300);
        }
        int ended;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFSIGNALED(ended)); // its writes all went well
    }
}

/* In a child: takes from the pipe slowly and checks what comes. */
static void check_pipe(int fd)
{
    char bytes[4096];
    ssize_t got;
    size_t at = 0;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++, at++)
            if (bytes[i] != pattern_at(at)) _exit(1);
        if (at % 65536 < 4096) usleep(4000);
    }
    _exit(at == PIPED ? 0 : 2);
}

static void write_all_to_pipe(bool blocking)
{
    static char bytes[PIPED];
    int ends[2];
    for (size_t i = 0; i < PIPED; i++) bytes[i] = pattern_at(i);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[1]);
        check_pipe(ends[0]);
    }
    close(ends[0]);
    if (!blocking) assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    struct iovec pieces[] = {
        {bytes, 7}, {bytes + 7, 0}, {bytes + 7, 200000}, {bytes + 200007, PIPED - 200007}};
    set_alarms(true);
    int error = tli_write_all(ends[1], pieces, 4);
    set_alarms(false);
    close(ends[1]);
    assert_int_equal(error, 0);
    wait_for(child, 0);
}

static void test_write_all_goes_on(void **state)
{
    (void)state;
    write_all_to_pipe(true);
    write_all_to_pipe(false);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    struct iovec piece = {home, 5};
    assert_int_equal(tli_write_all(fd, &piece, 1), ENOSPC);
    close(fd);
}

/* --- directories, questions, paths ------------------------------------------------------------ */

static void test_mkdirs(void **state)
{
    (void)state;
    char absolute[512];
    assert_ok(tl_mkdirs("a/b/c"));
    assert_true(tl_dir_exists("a/b/c"));
    assert_ok(tl_mkdirs("a/b/c"));
    assert_ok(tl_mkdirs("a//d///e/"));
    assert_true(tl_dir_exists("a/d/e"));
    snprintf(absolute, sizeof absolute, "%s/x/../y", home);
    assert_ok(tl_mkdirs(absolute));
    assert_true(tl_dir_exists("y"));
    assert_ok(tl_mkdirs("/"));
    put("a/file", "");
    assert_fails(tl_mkdirs("a/file"), TL_EEXISTS, "'a/file': a file of that name is there");
    assert_fails(tl_mkdirs("a/file/below"), TL_EEXISTS, "'a/file'");
    assert_fails(tl_mkdirs(""), TL_ENOTFOUND, "''");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_mkdirs("n/m"), TL_ENOMEM, "out of memory");
    assert_false(tl_file_exists("n"));
}

static void test_stat_and_remove(void **state)
{
    (void)state;
    tl_file_info info;
    put("seven", "1234567");
    assert_ok(tl_file_stat(&info, "seven"));
    assert_true(info.exists && info.is_regular && !info.is_dir);
    assert_int_equal(info.size, 7);
    assert_ok(tl_file_stat(&info, home));
    assert_true(info.exists && info.is_dir && !info.is_regular);
    assert_ok(tl_file_stat(&info, "gone"));
    assert_false(info.exists || info.is_dir || info.is_regular);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_fails(tl_file_stat(&info, "loop"), TL_EINVAL, "cannot look at 'loop'");
    assert_true(tl_file_exists("seven") && tl_file_exists(home) && !tl_file_exists("gone"));
    assert_true(!tl_dir_exists("seven") && tl_dir_exists(home) && !tl_dir_exists("gone"));

    assert_ok(tl_file_remove("seven"));
    assert_false(tl_file_exists("seven"));
    assert_fails(tl_file_remove("seven"), TL_ENOTFOUND, "cannot remove 'seven'");
    assert_fails(tl_file_remove(home), TL_EINVAL, "Is a directory");
    assert_ok(tl_file_remove("loop"));
}

static void test_paths(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    assert_string_equal(tl_path_join(a, "dir", "file"), "dir/file");
    assert_string_equal(tl_path_join(a, "dir/", "file"), "dir/file");
    assert_string_equal(tl_path_join(a, "/", "file"), "/file");
    assert_string_equal(tl_path_join(a, "", "file"), "file");
    assert_string_equal(tl_path_join(a, "dir", "/file"), "/file");
    assert_string_equal(tl_path_dirname(a, "a/b.c"), "a");
    assert_string_equal(tl_path_dirname(a, "a//b.c"), "a");
    assert_string_equal(tl_path_dirname(a, "/a/b/c"), "/a/b");
    assert_string_equal(tl_path_dirname(a, "b.c"), ".");
    assert_string_equal(tl_path_dirname(a, "/b.c"), "/");
    assert_string_equal(tl_path_dirname(a, "//b.c"), "/");
    assert_string_equal(tl_path_dirname(a, ""), ".");
    assert_string_equal(tl_path_basename("a/b.c"), "b.c");
    assert_string_equal(tl_path_basename("b.c"), "b.c");
    assert_string_equal(tl_path_basename("a/"), "");
    tl_arena_free(&a);
}

static void assert_glob(const char *pattern, const char *expected)
{
    tl_arena *arena;
    tl_path_list list;
    char joined[512] = "";
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_glob(&list, arena, pattern));
    for (int64_t i = 0; i < list.count; i++) {
        strcat(joined, i ? " " : "");
        strcat(joined, list.items[i]);
    }
    assert_string_equal(joined, expected);
    tl_arena_free(&arena);
}

static void test_glob(void **state)
{
    (void)state;
    static const char *const files[] = {"b-2.rec",   "b-10.rec", "B-1.rec", "a.txt", ".hidden.rec",
                                        "[odd].rec", "sub1/x",   "sub2/x",  "sub2/y"};
    assert_ok(tl_mkdirs("sub1"));
    assert_ok(tl_mkdirs("sub2"));
    for (int64_t i = 0; i < TL_COUNT(files); i++) put(files[i], "");
    assert_glob("*.rec", "B-1.rec [odd].rec b-10.rec b-2.rec");
    assert_glob("b-?.rec", "b-2.rec");
    assert_glob("[ab]*", "a.txt b-10.rec b-2.rec");
    assert_glob("[!ab]-*", "B-1.rec");
    assert_glob("sub*/x", "sub1/x sub2/x");
    assert_glob("sub[1-9]/[xy]", "sub1/x sub2/x sub2/y");
    assert_glob("\\[odd\\].rec", "[odd].rec");
    assert_glob(".*.rec", ".hidden.rec");
    assert_glob("a.txt", "a.txt");
    assert_glob("no*", "");
    assert_glob("no/*", "");
    assert_glob("a.txt/*", "");
    assert_glob("", "");
}

static void test_list(void **state)
{
    (void)state;
    static const char *const files[] = {"f/b", "f/a.txt", "f/.hidden", "f/B"};
    tl_arena *arena;
    tl_path_list list;
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_mkdirs("f/below"));
    for (int64_t i = 0; i < TL_COUNT(files); i++) put(files[i], "");
    static const char *const wanted[] = {"f/B", "f/a.txt", "f/b", "f/below"};
    assert_ok(tl_dir_list(&list, arena, "f"));
    assert_int_equal(list.count, TL_COUNT(wanted));
    for (int64_t i = 0; i < list.count; i++) assert_string_equal(list.items[i], wanted[i]);
    assert_ok(tl_dir_list(&list, arena, "f/below"));
    assert_int_equal(list.count, 0);
    assert_fails(tl_dir_list(&list, arena, "f/b"), TL_ENOTFOUND,
                 "cannot search the directory 'f/b'");
    assert_fails(tl_dir_list(&list, arena, "none"), TL_ENOTFOUND, "'none'");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_dir_list(&list, arena, "f"), TL_ENOMEM, "out of memory");
    assert_int_equal(list.count, 0);
    tl_arena_free(&arena);
}

static void test_glob_failures(void **state)
{
    (void)state;
    tl_arena *arena;
    tl_path_list list;
    assert_ok(tl_arena_new(&arena));
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_fails(tl_glob(&list, arena, "loop/*"), TL_EINVAL, "cannot search the directory 'loop'");
    assert_int_equal(list.count, 0);
    put("a", "");
    put("b", "");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_glob(&list, arena, "[ab]"), TL_ENOMEM, "out of memory");
    assert_int_equal(list.count, 0);
    tl_arena_free(&arena);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_read_gives_all_bytes_and_a_nul),
        TEST(test_read_keeps_its_limit),
        TEST(test_read_names_what_it_cannot_read),
        TEST(test_read_of_a_file_of_the_kernel),
        TEST(test_read_of_a_slow_pipe_between_signals),
        TEST(test_read_waits_for_no_pipe),
        TEST(test_read_without_memory),
        TEST(test_map),
        TEST(test_map_refuses_what_is_no_file),
        TEST(test_write_makes_and_replaces),
        TEST(test_write_takes_any_path),
        TEST(test_write_replaces_links),
        TEST(test_write_refuses_what_is_no_file),
        TEST(test_writer_gathers_pieces_of_every_size),
        TEST(test_writer_abort_leaves_nothing),
        TEST(test_write_that_fails_keeps_the_old_file),
        TEST(test_write_syncs_the_file_and_its_folder),
        TEST(test_write_without_memory),
        TEST(test_readers_and_kills_never_see_a_half),
        TEST(test_write_all_goes_on),
        TEST(test_mkdirs),
        TEST(test_stat_and_remove),
        TEST(test_paths),
        TEST(test_glob),
        TEST(test_list),
        TEST(test_glob_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
