/* Leaks are found: processes that lose memory, or do not, end as they should.
 * needs: address sanitizer */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char *volatile global; /* volatile: stores that nobody reads would be left out */
static _Thread_local char *volatile local;

/* Overwrites the stack that plants have used, as deep as finders of leaks go; registers are theirs
 * to restore. */
__attribute__((noinline)) static void wipe(void)
{
    volatile char stack[1 << 18];
    for (size_t i = 0; i < sizeof stack; i++) stack[i] = 0;
}

/* Ends a process after `plant`; its exit code, and what it says. */
static int run(void (*plant)(void), char *said, size_t bytes)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        plant();
        wipe();
        exit(0);
    }
    close(ends[1]);
    size_t had = 0;
    for (ssize_t got; (got = read(ends[0], said + had, bytes - 1 - had)) > 0;) had += (size_t)got;
    said[had] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_leak(void (*plant)(void), const char *first, const char *second)
{
    char said[1 << 14];
    int code = run(plant, said, sizeof said);
    if (code == 0 || !strstr(said, first) || !strstr(said, second))
        fail_msg("exit code %d, '%s' and '%s' are not both in:\n%s", code, first, second, said);
}

static void expect_none(void (*plant)(void))
{
    char said[1 << 14];
    int code = run(plant, said, sizeof said);
    if (code != 0 || said[0]) fail_msg("exit code %d:\n%s", code, said);
}

/* --- lost ------------------------------------------------------------------------------------- */

static void *volatile last; /* allocations that go through it are made */

__attribute__((noinline)) static void lose_block(void)
{
    last = malloc(77);
    last = NULL;
}

__attribute__((noinline)) static void lose_list(void)
{
    void **head = malloc(40);
    head[1] = malloc(123);
    last = head;
    last = NULL;
}

__attribute__((noinline)) static void lose_circle(void)
{
    void **a = malloc(48), **b = malloc(211);
    *a = b;
    *b = a;
    last = a;
    last = NULL;
}

__attribute__((noinline)) static void lose_after_growth(void)
{
    global = realloc(malloc(10), 333);
    last = global;
    global = NULL;
    last = NULL;
}

static void *lose_in_thread(void *unused)
{
    lose_block();
    return unused;
}

static void run_thread(void *(*work)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
}

static void start_losing_thread(void)
{
    run_thread(lose_in_thread);
}

static void test_lost(void **state)
{
    (void)state;
    expect_leak(lose_block, "77 byte", "lose_block");
    expect_leak(lose_list, "40 byte", "123 byte");
    expect_leak(lose_circle, "48 byte", "211 byte");
    expect_leak(lose_after_growth, "333 byte", "lose_after_growth");
    expect_leak(start_losing_thread, "77 byte", "lose_in_thread");
}

/* --- kept ------------------------------------------------------------------------------------- */

static void keep_nothing(void)
{
    free(malloc(20));
}

static void keep_in_global(void)
{
    global = malloc(20);
}

static void keep_inside(void)
{
    global = (char *)malloc(20) + 13;
}

static void keep_in_thread_local(void)
{
    local = malloc(20);
}

static void keep_for_key(void)
{
    static pthread_key_t key;
    if (pthread_key_create(&key, NULL) == 0) pthread_setspecific(key, malloc(20));
}

static void keep_list(void)
{
    void **head = malloc(40);
    head[4] = malloc(123);
    *(void **)head[4] = malloc(9);
    global = (char *)head;
}

static void *keep_from_thread(void *unused)
{
    keep_in_thread_local();
    global = local;
    return unused;
}

static void start_keeping_thread(void)
{
    run_thread(keep_from_thread);
}

static void free_late(void)
{
    free(local);
}

static void free_at_exit(void)
{
    local = malloc(20);
    atexit(free_late);
}

static void test_kept(void **state)
{
    (void)state;
    expect_none(keep_nothing);
    expect_none(keep_in_global);
    expect_none(keep_inside);
    expect_none(keep_in_thread_local);
    expect_none(keep_for_key);
    expect_none(keep_list);
    expect_none(start_keeping_thread);
    expect_none(free_at_exit);
}

/* Many blocks that come and go in another order: the table neither forgets nor invents one. */
__attribute__((noinline)) static void shuffle(bool lose)
{
    enum { COUNT = 20000 };
    static void *held[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) held[i] = malloc((size_t)(i % 50 + 1));
        for (int i = 0; i < COUNT; i++) {
            int at = (int)(i * 7919LL % COUNT);
            if (!(lose && round == 1 && at == 12345)) free(held[at]);
            held[at] = NULL;
        }
    }
}

static void shuffle_and_keep(void)
{
    shuffle(false);
}

static void shuffle_and_lose(void)
{
    shuffle(true);
}

static void test_many(void **state)
{
    (void)state;
    expect_none(shuffle_and_keep);
    expect_leak(shuffle_and_lose, "46 byte", "shuffle");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
