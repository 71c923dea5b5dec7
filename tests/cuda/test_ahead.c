/* Code that will be asked for is made by threads meanwhile, and is what it would be without them.
 * needs: threads */
#include "test.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/pool.h>

#include "cuda/ahead.h"
#include "cuda/code.h"

enum { TEXTS = 40 };

/* --- by a maker of our own -------------------------------------------------------------------- */

typedef struct maker {
    pthread_mutex_t lock;
    pthread_cond_t met;
    int made, inside, most;
    int wait_for; /* so many are made at once before the first one is ready */
} maker;

static tl_status make(void *self, const char *text, char **code, size_t *bytes)
{
    maker *m = self;
    pthread_mutex_lock(&m->lock);
    m->made++;
    m->inside++;
    if (m->inside > m->most) m->most = m->inside;
    pthread_cond_broadcast(&m->met);
    while (m->most < m->wait_for) pthread_cond_wait(&m->met, &m->lock);
    m->inside--;
    pthread_mutex_unlock(&m->lock);
    if (strstr(text, "bad")) return TL_FAIL(TL_EINTERNAL, "'%s' is bad", text);
    *code = tl_strdup(text);
    *bytes = strlen(text);
    return *code ? TL_OK : TL_ENOMEM;
}

#define MAKER                                                                                      \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .met = PTHREAD_COND_INITIALIZER                         \
    }

static void name(char out[32], int number)
{
    snprintf(out, 32, "%s %d", number % 5 == 3 ? "bad" : "good", number);
}

/* Whether or not a thread has come to it. */
static void ask(tli_cuda_ahead *a, maker *m, int number)
{
    char text[32], *code;
    size_t bytes;
    name(text, number);
    tl_status st = TL_OK;
    if (!tli_cuda_ahead_take(a, text, &code, &bytes)) st = make(m, text, &code, &bytes);
    if (number % 5 == 3) {
        assert_int_equal(st, TL_EINTERNAL);
        assert_non_null(strstr(tl_error_message(), "is bad"));
        tl_error_clear();
        return;
    }
    assert_int_equal(st, TL_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(code, text, bytes);
    tl_free(code);
}

static void all_come_as_they_are_made(void **state)
{
    maker m = MAKER;
    tli_cuda_ahead a;
    char text[32];
    (void)state;
    tli_cuda_ahead_init(&a, make, &m);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < TEXTS; i++) {
            name(text, i);
            assert_ok(tli_cuda_ahead_add(&a, text));
            assert_ok(tli_cuda_ahead_add(&a, text)); // which is the same
        }
        for (int i = 0; i < TEXTS; i++) ask(&a, &m, round == 1 ? TEXTS - 1 - i : i);
    }
    char *code;
    size_t bytes;
    assert_false(tli_cuda_ahead_take(&a, "good 0", &code, &bytes)); // once
    tli_cuda_ahead_deinit(&a);
    assert_string_equal(tl_error_message(), "no error");
}

static void they_are_made_side_by_side(void **state)
{
    maker m = MAKER;
    tli_cuda_ahead a;
    (void)state;
    if (tl_pool_default_threads() < 2) skip();
    m.wait_for = 2;
    tli_cuda_ahead_init(&a, make, &m);
    assert_ok(tli_cuda_ahead_add(&a, "good 0"));
    assert_ok(tli_cuda_ahead_add(&a, "good 1"));
    pthread_mutex_lock(&m.lock);
    while (m.most < 2) pthread_cond_wait(&m.met, &m.lock);
    pthread_mutex_unlock(&m.lock);
    tli_cuda_ahead_deinit(&a);
    assert_int_equal(m.made, 2);
}

static void what_nobody_takes_goes_with_it(void **state)
{
    maker m = MAKER;
    tli_cuda_ahead a;
    char text[32];
    (void)state;
    for (int round = 0; round < 20; round++) {
        tli_cuda_ahead_init(&a, make, &m);
        for (int i = 0; i < TEXTS; i++) {
            name(text, i);
            assert_ok(tli_cuda_ahead_add(&a, text));
        }
        tli_cuda_ahead_deinit(&a);
    }
}

typedef struct asker {
    tli_cuda_ahead *a;
    maker *m;
} asker;

static void *ask_all(void *with)
{
    const asker *k = with;
    for (int i = 0; i < TEXTS; i++) ask(k->a, k->m, i);
    return NULL;
}

static void several_may_ask(void **state)
{
    maker m = MAKER;
    tli_cuda_ahead a;
    asker k = {&a, &m};
    pthread_t threads[3];
    char text[32];
    (void)state;
    tli_cuda_ahead_init(&a, make, &m);
    for (int i = 0; i < TEXTS; i++) {
        name(text, i);
        assert_ok(tli_cuda_ahead_add(&a, text));
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_all, &k), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    tli_cuda_ahead_deinit(&a);
}

/* Seen by the parent of a process that ends while something is made. */
typedef struct seen {
    _Atomic int begun, made;
} seen;

static tl_status make_slowly(void *self, const char *text, char **code, size_t *bytes)
{
    seen *s = self;
    (void)text;
    *code = NULL;
    *bytes = 0;
    s->begun = 1;
    usleep(200000);
    s->made = 1;
    return TL_FAIL(TL_EINTERNAL, "nobody asks for it");
}

/* A child that has it from its parent does not have the threads, and does not wait for them. */
static bool child_ends(void)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        exit(3);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static void end_without_freeing(seen *s, bool forked)
{
    static tli_cuda_ahead a;
    tli_cuda_ahead_init(&a, make_slowly, s);
    if (tli_cuda_ahead_add(&a, "slow") != TL_OK) _exit(2);
    while (!s->begun) usleep(1000);
    if (forked && !child_ends()) _exit(5);
    exit(4);
}

static void a_process_ends_behind_its_threads(void **state)
{
    (void)state;
    for (int forked = 0; forked < 2; forked++) {
        int status;
        seen *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(s, MAP_FAILED);
        const pid_t child = fork();
        if (child == 0) end_without_freeing(s, forked);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 4);
        assert_true(s->made);
        munmap(s, sizeof *s);
    }
}

/* --- by the fake compiler (fake/cuda) --------------------------------------------------------- */

static char folder[TEMPORARY_PATH];

static void print(char out[64], int number)
{
    snprintf(out, 64, "kernel %0*d%s", number + 1, 0, number == 7 ? " of seven" : "");
}

/* Asks for all of them, ahead or not, with a new cache; gives its entries. */
static int make_all(char names[TEXTS][32], bool ahead, int bad)
{
    tli_cuda_codes *codes;
    char text[64], *code;
    size_t bytes;
    int count = 0;
    assert_non_null(mkdtemp(temporary(folder, "tilth-ahead")));
    setenv("TILTH_CACHE_DIR", folder, 1);
    assert_ok(tli_cuda_codes_open(&codes, 9, 0));
    for (int i = 0; i < TEXTS && ahead; i++) {
        print(text, i);
        assert_ok(tli_cuda_code_ahead(codes, text));
    }
    for (int i = 0; i < TEXTS; i++) {
        print(text, i);
        tl_status st = tli_cuda_code(&code, &bytes, codes, text);
        if (i == bad) {
            assert_int_equal(st, TL_EINTERNAL);
            assert_string_equal(tl_error_message(),
                                "the compiler for GPUs does not take a kernel: "
                                "NVRTC_ERROR_COMPILATION: kernels.cu(1): error: the fake takes "
                                "nothing");
            tl_error_clear();
            continue;
        }
        size_t made;
        assert_int_equal(st, TL_OK);
        assert_int_equal(bytes, sizeof made);
        memcpy(&made, code, sizeof made);
        assert_int_equal(made, strlen(text));
        tl_free(code);
    }
    tli_cuda_codes_close(&codes);
    struct dirent **found;
    const int all = scandir(folder, &found, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        if (found[i]->d_name[0] != '.') snprintf(names[count++], 32, "%.31s", found[i]->d_name);
        free(found[i]);
    }
    free(found);
    assert_int_equal(remove_tree(folder), 0);
    return count;
}

static void the_cache_is_the_same(void **state)
{
    char plain[TEXTS][32], ahead[TEXTS][32];
    (void)state;
    assert_int_equal(make_all(plain, false, -1), TEXTS);
    assert_int_equal(make_all(ahead, true, -1), TEXTS);
    for (int i = 0; i < TEXTS; i++) assert_string_equal(plain[i], ahead[i]);
}

static void one_that_fails_is_told_where_it_is_asked_for(void **state)
{
    char plain[TEXTS][32], ahead[TEXTS][32];
    (void)state;
    setenv("FAKE_NVRTC", "fails:of seven", 1);
    assert_int_equal(make_all(plain, false, 7), TEXTS - 1);
    assert_int_equal(make_all(ahead, true, 7), TEXTS - 1);
    for (int i = 0; i < TEXTS - 1; i++) assert_string_equal(plain[i], ahead[i]);
    unsetenv("FAKE_NVRTC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_as_they_are_made),
        cmocka_unit_test(they_are_made_side_by_side),
        cmocka_unit_test(what_nobody_takes_goes_with_it),
        cmocka_unit_test(several_may_ask),
        cmocka_unit_test(a_process_ends_behind_its_threads),
        cmocka_unit_test(the_cache_is_the_same),
        cmocka_unit_test(one_that_fails_is_told_where_it_is_asked_for),
    };
    setenv("TILTH_CUDA_PATH", FAKE_CUDA_FOLDER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
