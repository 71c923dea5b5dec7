/* Logging: layout of a line, levels, sinks and what they may do, rate limits, log folders.
 * needs: threads */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

enum { THREADS = 8, MESSAGES = 300, LIMIT = 1 << 24 };

/* --- a sink that remembers -------------------------------------------------------------------- */

typedef struct memory {
    int64_t handle;
    int64_t count;
    char texts[32][64]; /* the first ones */
    int released;
} memory;

static void remember(const tl_log_record *record, void *payload)
{
    memory *m = payload;
    if (m->count < TL_COUNT(m->texts))
        snprintf(m->texts[m->count], sizeof m->texts[0], "%s: %.40s", tl_level_name(record->level),
                 record->text);
    m->count++;
}

static void count_release(void *payload)
{
    ((memory *)payload)->released++;
}

/* On the heap, so that what a failed test leaves behind does no harm to the next. */
static memory *start_memory(tl_level min_level)
{
    memory *m = tl_alloc_zero(sizeof *m);
    assert_non_null(m);
    tl_log_sink sink = {min_level, remember, count_release, m};
    assert_ok(tl_log_sink_add(&m->handle, &sink));
    return m;
}

static void stop_memory(memory *m)
{
    assert_true(tl_log_sink_remove(m->handle));
    assert_int_equal(m->released, 1);
    tl_free(m);
}

/* No sink at all: standard error has tests of its own, and the last test may have failed. */
static int no_sinks(void **state)
{
    (void)state;
    static int64_t handle; // they only ever grow
    int64_t last = handle;
    tl_log_sink sink = {TL_LEVEL_NONE, remember, NULL, NULL};
    if (tl_log_sink_add(&handle, &sink) != TL_OK) return -1;
    for (int64_t h = last; h <= handle; h++) (void)tl_log_sink_remove(h);
    tl_log_set_level(TL_LEVEL_INFO);
    return 0;
}

static bool matches(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    if (!found) print_error("'%s' does not match '%s'\n", text, pattern);
    return found;
}

/* --- standard error --------------------------------------------------------------------------- */

/* Standard error becomes one end of a socket that keeps system calls apart. This goes first, while
 * the sink is still there. */
static void test_stderr_line_is_one_write(void **state)
{
    (void)state;
    int ends[2], kept = dup(STDERR_FILENO);
    char got[2][4096] = {"", ""}, pattern[256];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    dup2(ends[1], STDERR_FILENO);
    TL_LOG_WARNING("two\nlines: %d", 7);
    TL_LOG_DEBUG("not wanted");
    TL_LOG_TOLD(TL_LEVEL_ERROR, "told another way");
    TL_LOG_INFO("%s", "");
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_true(recv(ends[0], got[0], sizeof got[0] - 1, MSG_DONTWAIT) > 0);
    assert_true(recv(ends[0], got[1], sizeof got[1] - 1, MSG_DONTWAIT) > 0);
    assert_true(recv(ends[0], got[1] + 2048, 1, MSG_DONTWAIT) < 0);
    close(ends[0]);
    close(ends[1]);
    snprintf(
        pattern, sizeof pattern,
        "^W[01][0-9][0-3][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} +%d test_log\\.c:[0-9]+\\] "
        "two\nlines: 7\n$",
        (int)getpid());
    assert_true(matches(got[0], pattern));
    assert_true(matches(got[1], "^I[^]]*\\] \n$"));
}

/* Where both streams end up decides, not how they got there. */
static void test_streams_that_are_one(void **state)
{
    (void)state;
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), pipes[2][2];
    assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
    dup2(pipes[0][1], STDOUT_FILENO);
    dup2(pipes[0][1], STDERR_FILENO);
    bool one = tl_log_shares_stdout();
    dup2(pipes[1][1], STDERR_FILENO);
    bool two = tl_log_shares_stdout();
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (int i = 0; i < 4; i++) close(pipes[i / 2][i % 2]);
    close(out);
    close(err);
    assert_true(one);
    assert_false(two);
}

static void test_prefix(void **state)
{
    (void)state;
    char zone[64] = "", out[TL_LOG_PREFIX], name[200];
    if (getenv("TZ")) snprintf(zone, sizeof zone, "%s", getenv("TZ"));
    setenv("TZ", "UTC-2", 1);
    tzset();
    tl_log_record r = {TL_LEVEL_INFO, "trainer.c", 120, 4242, INT64_C(1700014502000456), "", 0,
                       false};
    size_t length = tl_log_prefix(out, &r);
    assert_string_equal(out, "I1115 04:15:02.000456    4242 trainer.c:120] ");
    assert_int_equal(length, strlen(out));
    static const char letters[] = "IIWEF";
    for (int level = TL_LEVEL_DEBUG; level < TL_LEVEL_NONE; level++) {
        r.level = (tl_level)level;
        tl_log_prefix(out, &r);
        assert_int_equal(out[0], letters[level]);
    }
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    r = (tl_log_record){TL_LEVEL_FATAL, name, -2147483647 - 1, 2147483647, 0, "", 0, false};
    length = tl_log_prefix(out, &r);
    assert_int_equal(length, strlen(out));
    assert_true(matches(out, "2147483647 n+:-2147483648\\] $"));
    if (zone[0]) setenv("TZ", zone, 1);
    else unsetenv("TZ");
    tzset();
}

/* In a child: a message on a terminal, with these two in the environment (NULL: unset). */
static void log_on_terminal(const char *terminal, const char *no_color, const char *term)
{
    tl_log_record r = {TL_LEVEL_ERROR, "a.c", 1, 1, 0, "text", 4, false};
    int fd = open(terminal, O_RDWR | O_NOCTTY);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(1);
    unsetenv("NO_COLOR");
    unsetenv("TERM");
    if (no_color) setenv("NO_COLOR", no_color, 1);
    if (term) setenv("TERM", term, 1);
    tl_log_write_stderr(&r, NULL);
    _exit(0);
}

static bool is_coloured(const char *no_color, const char *term)
{
    char got[512] = "";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), ended;
    if (terminal < 0) skip(); // no /dev/pts here
    assert_true(grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    pid_t child = fork();
    if (child == 0) log_on_terminal(ptsname(terminal), no_color, term);
    assert_true(read(terminal, got, sizeof got - 1) > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    close(terminal);
    if (!strchr(got, '\033')) assert_true(matches(got, "^E[^]]*a\\.c:1\\] text"));
    else assert_true(matches(got, "^\033\\[31mE[^]]*a\\.c:1\\]\033\\[0m text"));
    return strchr(got, '\033') != NULL;
}

static void test_colour_only_where_it_is_welcome(void **state)
{
    (void)state;
    assert_true(is_coloured(NULL, "xterm"));
    assert_true(is_coloured("", "xterm"));
    assert_true(is_coloured(NULL, NULL));
    assert_false(is_coloured("1", "xterm"));
    assert_false(is_coloured(NULL, "dumb"));
}

/* --- levels ----------------------------------------------------------------------------------- */

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

static void test_levels(void **state)
{
    (void)state;
    memory *m = start_memory(TL_LEVEL_DEBUG);
    evaluated = 0;
    TL_LOG_DEBUG("%d", evaluate());
    assert_int_equal(evaluated, 0);
    tl_log_set_level(TL_LEVEL_DEBUG);
    TL_LOG_DEBUG("%d", evaluate());
    TL_LOG_INFO("i");
    TL_LOG_WARNING("w");
    TL_LOG_ERROR("e");
    TL_LOG_FATAL("f");
    assert_int_equal(evaluated, 1);
    assert_int_equal(m->count, 5);
    assert_string_equal(m->texts[0], "debug: 1");
    assert_string_equal(m->texts[1], "info: i");
    assert_string_equal(m->texts[2], "warning: w");
    assert_string_equal(m->texts[3], "error: e");
    assert_string_equal(m->texts[4], "fatal: f");
    tl_log_set_level(TL_LEVEL_NONE);
    TL_LOG_FATAL("f");
    assert_int_equal(m->count, 5);
    stop_memory(m);
    assert_string_equal(tl_level_name((tl_level)77), "unknown level");
}

static void test_verbosity_is_that_of_absl(void **state)
{
    (void)state;
    static const struct {
        int verbosity;
        tl_level level;
    } cases[] = {
        {99, TL_LEVEL_DEBUG}, {1, TL_LEVEL_DEBUG},  {0, TL_LEVEL_INFO},   {-1, TL_LEVEL_WARNING},
        {-2, TL_LEVEL_ERROR}, {-3, TL_LEVEL_FATAL}, {-9, TL_LEVEL_FATAL},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_log_set_verbosity(cases[i].verbosity);
        assert_int_equal(tl_log_level(), cases[i].level);
    }
}

/* --- sinks ------------------------------------------------------------------------------------ */

static void test_sinks_have_levels_of_their_own(void **state)
{
    (void)state;
    assert_false(tl_log_wants(TL_LEVEL_FATAL)); // nobody is there
    memory *bad = start_memory(TL_LEVEL_ERROR);
    assert_false(tl_log_wants(TL_LEVEL_WARNING));
    assert_true(tl_log_wants(TL_LEVEL_ERROR));
    memory *all = start_memory(TL_LEVEL_DEBUG);
    assert_true(tl_log_wants(TL_LEVEL_INFO));
    assert_false(tl_log_wants(TL_LEVEL_DEBUG)); // the common level
    TL_LOG_WARNING("w");
    TL_LOG_ERROR("e");
    assert_int_equal(all->count, 2);
    assert_int_equal(bad->count, 1);
    stop_memory(all);
    assert_false(tl_log_wants(TL_LEVEL_WARNING));
    int64_t handle = bad->handle;
    stop_memory(bad);
    assert_false(tl_log_sink_remove(handle));
    assert_false(tl_log_sink_remove(-5));
}

static void test_many_sinks_and_no_memory_for_more(void **state)
{
    (void)state;
    memory *m[20];
    tl_log_sink sink = {TL_LEVEL_INFO, remember, NULL, NULL};
    int64_t handle, refused = 0;
    for (int64_t i = 0; i < TL_COUNT(m); i++) {
        int64_t before = tl_alloc_calls();
        tl_alloc_fail_at(1, 1);
        tl_status status = tl_log_sink_add(&handle, &sink);
        tl_alloc_fail_at(0, 0);
        if (tl_alloc_calls() != before) { // needed memory
            assert_int_equal(status, TL_ENOMEM);
            assert_memory_equal(tl_error_message(), "cannot add a log sink: out of memory", 36);
            refused++;
        } else {
            assert_true(tl_log_sink_remove(handle));
        }
        m[i] = start_memory(TL_LEVEL_INFO);
    }
    assert_true(refused >= 2);
    TL_LOG_INFO("to all");
    for (int64_t i = 0; i < TL_COUNT(m); i++) {
        assert_int_equal(m[i]->count, 1);
        stop_memory(m[i]);
    }
}

static void log_again(const tl_log_record *record, void *payload)
{
    ++*(int *)payload;
    errno = ERANGE;
    (void)TL_FAIL(TL_EIO, "the sink's own trouble");
    TL_LOG_WARNING("about '%s'", record->text);
}

static void test_sink_that_logs(void **state)
{
    (void)state;
    static int calls;
    int64_t handle;
    tl_log_sink sink = {TL_LEVEL_INFO, log_again, NULL, &calls};
    memory *before = start_memory(TL_LEVEL_INFO);
    assert_ok(tl_log_sink_add(&handle, &sink));
    memory *after = start_memory(TL_LEVEL_INFO);
    errno = ENOENT;
    (void)TL_FAIL(TL_EINVAL, "kept");
    TL_LOG_INFO("this");
    assert_int_equal(errno, ENOENT);
    assert_string_equal(tl_error_message(), "kept");
    assert_int_equal(calls, 1);
    assert_string_equal(before->texts[0], "info: this");
    assert_string_equal(before->texts[1], "warning: about 'this'");
    assert_string_equal(after->texts[0], "warning: about 'this'");
    assert_string_equal(after->texts[1], "info: this");
    assert_int_equal(before->count, 2);
    assert_int_equal(after->count, 2);
    assert_true(tl_log_sink_remove(handle));
    stop_memory(before);
    stop_memory(after);
}

typedef struct changer {
    int64_t handle;
    memory *added[8];
    int calls, released;
} changer;

/* Adds more sinks than the list has room for, and takes itself out. */
static void change_sinks(const tl_log_record *record, void *payload)
{
    changer *c = payload;
    (void)record;
    c->calls++;
    for (int64_t i = 0; i < TL_COUNT(c->added); i++) c->added[i] = start_memory(TL_LEVEL_INFO);
    assert_true(tl_log_sink_remove(c->handle));
    assert_false(tl_log_sink_remove(c->handle));
    assert_int_equal(c->released, 0); // it still runs
    TL_LOG_INFO("inner");
}

static void release_changer(void *payload)
{
    ((changer *)payload)->released++;
    TL_LOG_INFO("released");
}

static void test_sink_that_changes_the_sinks(void **state)
{
    (void)state;
    static changer c;
    tl_log_sink sink = {TL_LEVEL_INFO, change_sinks, release_changer, &c};
    assert_ok(tl_log_sink_add(&c.handle, &sink));
    memory *last = start_memory(TL_LEVEL_INFO);
    TL_LOG_INFO("outer");
    TL_LOG_INFO("next");
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.released, 1);
    assert_int_equal(last->count, 4);
    assert_string_equal(last->texts[0], "info: inner");
    assert_string_equal(last->texts[1], "info: outer");
    assert_string_equal(last->texts[2], "info: released");
    assert_string_equal(last->texts[3], "info: next");
    stop_memory(last);
    for (int64_t i = 0; i < TL_COUNT(c.added); i++) {
        assert_int_equal(c.added[i]->count, 3); // not "outer", which was under way
        assert_string_equal(c.added[i]->texts[0], "info: inner");
        stop_memory(c.added[i]);
    }
}

typedef struct rival {
    int64_t victim;
    memory *added[80];
    int calls;
} rival;

/* On its first call: removes the sink after it, and makes the list move. */
static void remove_rival(const tl_log_record *record, void *payload)
{
    rival *r = payload;
    (void)record;
    if (r->calls++ > 0) return;
    assert_true(tl_log_sink_remove(r->victim));
    for (int64_t i = 0; i < TL_COUNT(r->added); i++) r->added[i] = start_memory(TL_LEVEL_INFO);
}

static void test_sink_that_removes_another(void **state)
{
    (void)state;
    static rival r;
    int64_t handle;
    tl_log_sink sink = {TL_LEVEL_INFO, remove_rival, NULL, &r};
    assert_ok(tl_log_sink_add(&handle, &sink));
    memory *victim = start_memory(TL_LEVEL_INFO);
    r.victim = victim->handle;
    TL_LOG_INFO("first");
    TL_LOG_INFO("second");
    assert_int_equal(r.calls, 2); // still called where the list is now
    assert_int_equal(victim->count, 0);
    assert_int_equal(victim->released, 1);
    for (int64_t i = 0; i < TL_COUNT(r.added); i++) {
        assert_int_equal(r.added[i]->count, 1);
        stop_memory(r.added[i]);
    }
    assert_true(tl_log_sink_remove(handle));
    tl_free(victim);
}

/* --- texts ------------------------------------------------------------------------------------ */

static void keep_text(const tl_log_record *record, void *payload)
{
    char **text = payload;
    tl_free(*text);
    *text = tl_strdup(record->text);
    assert_int_equal(record->length, strlen(record->text));
}

static void test_long_texts(void **state)
{
    (void)state;
    static char *kept;
    char *text = tl_alloc_zero(100001);
    int64_t handle;
    tl_log_sink sink = {TL_LEVEL_INFO, keep_text, NULL, &kept};
    assert_non_null(text);
    assert_ok(tl_log_sink_add(&handle, &sink));
    memset(text, 'x', 100000);
    for (size_t length = 1000; length <= 1050; length++) { // around where the text leaves the stack
        TL_LOG_INFO("%.*s", (int)length, text);
        assert_int_equal(strlen(kept), length);
    }
    TL_LOG_INFO("%s|", text);
    assert_int_equal(strlen(kept), 100001);
    assert_int_equal(kept[100000], '|');
    tl_alloc_fail_at(1, 1);
    TL_LOG_INFO("%s|", text);
    tl_alloc_fail_at(0, 0);
    assert_true(matches(kept, "^x+\\.\\.\\.$"));
    assert_true(tl_log_sink_remove(handle));
    tl_free(kept);
    tl_free(text);
}

/* --- rate limits ------------------------------------------------------------------------------ */

static void log_limited(int i)
{
    TL_LOG_EVERY_N(TL_LEVEL_INFO, 4, "n %d", i);
    TL_LOG_EVERY_N(TL_LEVEL_DEBUG, 1, "off %d", i);
    TL_LOG_ONCE(TL_LEVEL_WARNING, "once %d", i);
    TL_LOG_EVERY_S(TL_LEVEL_ERROR, 3600, "s %d", i);
}

static void test_rate_limits(void **state)
{
    (void)state;
    memory *m = start_memory(TL_LEVEL_DEBUG);
    for (int i = 0; i < 10; i++) log_limited(i);
    static const char *const expected[] = {"info: n 0", "warning: once 0", "error: s 0",
                                           "info: n 4", "info: n 8"};
    assert_int_equal(m->count, TL_COUNT(expected));
    for (int64_t i = 0; i < TL_COUNT(expected); i++) assert_string_equal(m->texts[i], expected[i]);
    stop_memory(m);

    int64_t site = 0;
    assert_true(tl_log_every_n(&site, 0) && tl_log_every_n(&site, -3) && tl_log_every_n(&site, 1));
    site = 0;
    for (int i = 0; i < 3; i++) { // slower than the limit: each one
        assert_true(tl_log_every_s(&site, 0.01));
        usleep(12000);
    }
    assert_true(tl_log_every_s(&site, 1e300)); // saturates
    assert_false(tl_log_every_s(&site, 0));
}

/* --- threads ---------------------------------------------------------------------------------- */

static void run_threads(void *(*body)(void *), int64_t count)
{
    pthread_t threads[THREADS];
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)(intptr_t)i), 0);
    for (int64_t i = 0; i < count; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void *log_many(void *thread)
{
    for (int i = 0; i < MESSAGES; i++) {
        log_limited(i);
        TL_LOG_INFO("thread %d message %d\n  its second line", (int)(intptr_t)thread, i);
    }
    return NULL;
}

/* Each message is there once, whole, and in the order of its thread. */
static void check_lines(char *log)
{
    int next[THREADS] = {0}, limited = 0;
    char *rest = log, *line;
    for (int i = 0; (line = strsep(&rest, "\n")) && *line; i++) {
        char *text = strstr(line, "] ");
        assert_non_null(text);
        int thread, message;
        if (sscanf(text, "] thread %d message %d", &thread, &message) == 2) {
            assert_int_equal(message, next[thread]++);
            assert_string_equal(strsep(&rest, "\n"), "  its second line");
        } else {
            assert_memory_equal(text, "] n ", 4);
            limited++;
        }
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(next[i], MESSAGES);
    // This line has run 10 times before, of which 0, 4 and 8 were told, and goes on from there.
    assert_int_equal(limited, (10 + THREADS * MESSAGES + 3) / 4 - 3);
}

static void test_threads_keep_lines_whole(void **state)
{
    (void)state;
    char path[TEMPORARY_PATH], *log;
    int file = mkstemp(temporary(path, "tilth-test-log")), kept = dup(STDERR_FILENO);
    int64_t handle;
    tl_log_sink sink = {TL_LEVEL_INFO, tl_log_write_stderr, NULL, NULL};
    assert_true(file >= 0);
    assert_ok(tl_log_sink_add(&handle, &sink));
    dup2(file, STDERR_FILENO);
    run_threads(log_many, THREADS);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(file);
    assert_true(tl_log_sink_remove(handle));
    assert_ok(tl_file_read(&log, NULL, path, LIMIT));
    assert_ok(tl_file_remove(path));
    check_lines(log);
    tl_free(log);
}

static int trouble; // cmocka's checks belong to the main thread

static void *come_and_go(void *thread)
{
    for (int i = 0; i < MESSAGES; i++) {
        memory *m = tl_alloc_zero(sizeof *m); // freed at once: no sink runs after its removal
        tl_log_sink sink = {TL_LEVEL_INFO, remember, count_release, m};
        bool fine = m && tl_log_sink_add(&m->handle, &sink) == TL_OK;
        TL_LOG_INFO("from %d", (int)(intptr_t)thread);
        tl_log_set_level(i % 2 ? TL_LEVEL_INFO : TL_LEVEL_DEBUG);
        fine = fine && tl_log_sink_remove(m->handle) && m->count > 0 && m->released == 1;
        if (!fine) __atomic_add_fetch(&trouble, 1, __ATOMIC_RELAXED);
        tl_free(m);
    }
    return NULL;
}

static void test_threads_add_and_remove_sinks(void **state)
{
    (void)state;
    run_threads(come_and_go, THREADS);
    assert_int_equal(trouble, 0);
    assert_false(tl_log_wants(TL_LEVEL_FATAL));
}

/* --- log folders ------------------------------------------------------------------------------ */

static char home[TEMPORARY_PATH];

static int enter_folder(void **state)
{
    (void)state;
    temporary(home, "tilth-test-log");
    return mkdtemp(home) && chdir(home) == 0 ? no_sinks(state) : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    return chdir("/") == 0 && remove_tree(home) == 0 ? 0 : -1;
}

static void test_folder_has_the_names_of_absl(void **state)
{
    (void)state;
    int64_t handle, second;
    char name[512], host[256], pattern[512], *log;
    setenv("LOGNAME", "some/one", 1); // no way out of the folder
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_ok(tl_log_folder_add(&handle, "logs/today", "prog", TL_LEVEL_WARNING));
    TL_LOG_INFO("too low");
    TL_LOG_WARNING("first");
    ssize_t length = readlink("logs/today/prog.INFO", name, sizeof name - 1);
    assert_true(length > 0);
    name[length] = '\0';
    snprintf(pattern, sizeof pattern,
             "^prog\\.%s\\.some_one\\.log\\.INFO\\.20[0-9]{6}-[0-9]{6}\\.%d$", host, (int)getpid());
    assert_true(matches(name, pattern));

    assert_ok(tl_file_read(&log, NULL, "logs/today/prog.INFO", LIMIT)); // there before it is closed
    snprintf(pattern, sizeof pattern,
             "^Log file made at: 20[^\n]* on machine %s by tilth [^\n]*\nW[^\n]*\\] first\n$",
             host);
    assert_true(matches(log, pattern));
    tl_free(log);

    // Another program beside it, named by the program itself.
    assert_ok(tl_log_folder_add(&second, "logs/today", NULL, TL_LEVEL_INFO));
    snprintf(name, sizeof name, "logs/today/%s.INFO", program_invocation_short_name);
    assert_true(tl_file_exists(name));
    assert_true(tl_log_sink_remove(second));
    assert_true(tl_log_sink_remove(handle));
    unsetenv("LOGNAME");
}

static void test_folder_link_leads_to_the_newest(void **state)
{
    (void)state;
    int64_t handle;
    char name[512] = "";
    assert_int_equal(symlink("older", "prog.INFO"), 0);
    assert_ok(tl_log_folder_add(&handle, ".", "prog", TL_LEVEL_INFO));
    assert_true(readlink("prog.INFO", name, sizeof name - 1) > 0);
    assert_memory_equal(name, "prog.", 5);
    assert_true(tl_log_sink_remove(handle));
    // Somebody's file of that name stays, and that is said.
    memory *m = start_memory(TL_LEVEL_INFO);
    assert_ok(tl_file_write_atomic("mine.INFO", "x", 1));
    assert_ok(tl_log_folder_add(&handle, ".", "mine", TL_LEVEL_INFO));
    assert_int_equal(m->count, 1);
    assert_string_equal(m->texts[0], "warning: './mine.INFO' is not a symbolic link, so");
    assert_true(tl_log_sink_remove(handle));
    stop_memory(m);
}

static void test_folder_failures(void **state)
{
    (void)state;
    int64_t handle;
    assert_ok(tl_file_write_atomic("file", "", 0));
    assert_fails(tl_log_folder_add(&handle, "file", "prog", TL_LEVEL_INFO), TL_EEXISTS, "'file'");
    assert_fails(tl_log_folder_add(&handle, ".", "a/b", TL_LEVEL_INFO), TL_EINVAL, "'a/b'");
    assert_fails(tl_log_folder_add(&handle, "/proc", "prog", TL_LEVEL_INFO), TL_ENOTFOUND,
                 "cannot write the log '/proc/prog.");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_log_folder_add(&handle, "logs", "prog", TL_LEVEL_INFO), TL_ENOMEM, "memory");
    int refused = 0;
    for (int n = 1; n <= 5; n++) { // only the link is done without
        tl_alloc_fail_at(n, 1);
        tl_status status = tl_log_folder_add(&handle, ".", "prog", TL_LEVEL_INFO);
        tl_alloc_fail_at(0, 0);
        if (status == TL_OK) {
            assert_true(tl_log_sink_remove(handle));
        } else {
            assert_int_equal(status, TL_ENOMEM);
            refused++;
        }
        assert_false(tl_log_wants(TL_LEVEL_FATAL));
    }
    assert_int_equal(refused, 2);
}

#define TEST(name) cmocka_unit_test_setup(name, no_sinks)
#define TEST_IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, enter_folder, leave_folder)

static void *log_on_and_on(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) TL_LOG_INFO("busy");
    return NULL;
}

/* A child finds the lock free, whoever logged when it was made. */
static void test_fork_while_another_thread_logs(void **state)
{
    (void)state;
    bool stop = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, log_on_and_on, &stop), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            TL_LOG_INFO("child");
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stderr_line_is_one_write),
        cmocka_unit_test(test_streams_that_are_one),
        TEST(test_prefix),
        TEST(test_levels),
        TEST(test_verbosity_is_that_of_absl),
        TEST(test_sinks_have_levels_of_their_own),
        TEST(test_many_sinks_and_no_memory_for_more),
        TEST(test_sink_that_logs),
        TEST(test_sink_that_changes_the_sinks),
        TEST(test_sink_that_removes_another),
        TEST(test_long_texts),
        TEST(test_rate_limits),
        TEST(test_fork_while_another_thread_logs),
        TEST(test_threads_keep_lines_whole),
        TEST(test_threads_add_and_remove_sinks),
        TEST_IN_FOLDER(test_folder_has_the_names_of_absl),
        TEST_IN_FOLDER(test_folder_link_leads_to_the_newest),
        TEST_IN_FOLDER(test_folder_failures),
    };
    const struct CMUnitTest colours[] = {
        cmocka_unit_test(test_colour_only_where_it_is_welcome),
    };
    // First, since a process looks at its standard error once.
    int failed = cmocka_run_group_tests(colours, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
