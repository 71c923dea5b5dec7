/* The allocator: what it promises about sizes, replacing it, and faults on demand.
 * needs: threads */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>

#include <tilth/base/alloc.h>

static void test_sizes_of_zero(void **state)
{
    (void)state;
    void *a = tl_alloc(0), *b = tl_alloc_zero(0), *c = tl_realloc(NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    c = tl_realloc(c, 0);
    assert_non_null(c);
    tl_free(a);
    tl_free(b);
    tl_free(c);
    tl_free(NULL);
}

static void test_zeroed(void **state)
{
    (void)state;
    // Memory that was used before, so that zeros do not come from the system.
    for (int turn = 0; turn < 4; turn++) {
        unsigned char *dirty = tl_alloc(1000);
        assert_non_null(dirty);
        memset(dirty, 0xee, 1000);
        tl_free(dirty);
        unsigned char *p = tl_alloc_zero(1000);
        assert_non_null(p);
        for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
        tl_free(p);
    }
}

static void test_realloc_keeps(void **state)
{
    (void)state;
    char *p = tl_realloc(NULL, 4);
    assert_non_null(p);
    memcpy(p, "abc", 4);
    p = tl_realloc(p, 100000);
    assert_non_null(p);
    assert_string_equal(p, "abc");
    p = tl_realloc(p, 2);
    assert_non_null(p);
    assert_memory_equal(p, "ab", 2);
    tl_free(p);
}

static void test_alignment(void **state)
{
    (void)state;
    for (size_t alignment = sizeof(void *); alignment <= 1 << 16; alignment *= 2) {
        for (size_t bytes = 0; bytes < 40; bytes += 13) {
            char *p = tl_alloc_aligned(alignment, bytes);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % alignment, 0);
            memset(p, 1, bytes);
            tl_free(p);
        }
    }
    void *p = tl_alloc(1);
    assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
    tl_free(p);
}

static void test_too_much(void **state)
{
    (void)state;
    // volatile: the compiler knows that nobody has that much and says so.
    volatile size_t much = SIZE_MAX / 2;
    assert_null(tl_alloc(much));
    assert_null(tl_alloc_zero(much));
    assert_null(tl_alloc_aligned(64, much));
    char *p = tl_alloc(4);
    assert_non_null(p);
    memcpy(p, "abc", 4);
    assert_null(tl_realloc(p, much));
    assert_string_equal(p, "abc"); // what could not grow is as it was
    tl_free(p);
}

static void test_strdup(void **state)
{
    (void)state;
    const char *text = "some text";
    char *copy = tl_strdup(text);
    assert_string_equal(copy, text);
    assert_ptr_not_equal(copy, text);
    tl_free(copy);
    copy = tl_strdup("");
    assert_string_equal(copy, "");
    tl_free(copy);
    assert_null(tl_strdup(NULL));
}

/* --- faults ----------------------------------------------------------------------------------- */

static void test_fail_at(void **state)
{
    (void)state;
    int64_t before = tl_alloc_calls();
    tl_alloc_fail_at(2, 2); // the second and third from now on
    void *a = tl_alloc(1), *b = tl_alloc(1), *c = tl_alloc_zero(1), *d = tl_alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_null(c);
    assert_non_null(d);
    assert_int_equal(tl_alloc_calls() - before, 4); // failed ones included
    tl_free(a);
    tl_free(d);

    // Every function asks.
    char *p = tl_alloc(4);
    memcpy(p, "abc", 4);
    tl_alloc_fail_at(1, 5);
    assert_null(tl_alloc(1));
    assert_null(tl_alloc_zero(1));
    assert_null(tl_alloc_aligned(64, 1));
    assert_null(tl_strdup("x"));
    assert_null(tl_realloc(p, 100));
    assert_string_equal(p, "abc");
    p = tl_realloc(p, 100); // the sixth
    assert_non_null(p);
    assert_string_equal(p, "abc");
    tl_free(p);

    tl_alloc_fail_at(1, INT64_MAX); // all from now on
    assert_null(tl_alloc(1));
    assert_null(tl_alloc(1));
    tl_alloc_fail_at(0, 0); // off again
    p = tl_alloc(1);
    assert_non_null(p);
    tl_free(p);
}

static void *alloc_in_a_thread(void *out)
{
    void *p = tl_alloc(1);
    *(bool *)out = p != NULL && tl_alloc_calls() == 1;
    tl_free(p);
    return NULL;
}

static void test_faults_belong_to_a_thread(void **state)
{
    (void)state;
    bool fine = false;
    pthread_t thread;
    tl_alloc_fail_at(1, 1);
    assert_int_equal(pthread_create(&thread, NULL, alloc_in_a_thread, &fine), 0);
    pthread_join(thread, NULL);
    assert_true(fine);
    assert_null(tl_alloc(1));
}

/* --- another allocator ------------------------------------------------------------------------ */

typedef struct counts {
    int allocs, reallocs, frees;
    size_t alignment, bytes;
} counts;

static void *count_alloc(size_t alignment, size_t bytes, void *payload)
{
    counts *c = payload;
    c->allocs++;
    c->alignment = alignment;
    c->bytes = bytes;
    return malloc(bytes);
}

static void *count_realloc(void *memory, size_t bytes, void *payload)
{
    counts *c = payload;
    c->reallocs++;
    c->bytes = bytes;
    return realloc(memory, bytes);
}

static void count_free(void *memory, void *payload)
{
    counts *c = payload;
    c->frees++;
    free(memory);
}

static void test_another_allocator(void **state)
{
    (void)state;
    counts c = {0};
    const tl_allocator mine = {count_alloc, count_realloc, count_free, &c};
    tl_allocator_set(&mine);
    char *p = tl_alloc_zero(10);
    assert_non_null(p);
    assert_int_equal(c.bytes, 10);
    assert_int_equal(c.alignment, _Alignof(max_align_t));
    for (int i = 0; i < 10; i++) assert_int_equal(p[i], 0);
    p = tl_realloc(p, 20);
    assert_int_equal(c.bytes, 20);
    char *q = tl_strdup("abc");
    assert_int_equal(c.bytes, 4);
    tl_free(p);
    tl_free(q);
    tl_free(NULL); // not worth a call
    assert_int_equal(c.allocs, 2);
    assert_int_equal(c.reallocs, 1);
    assert_int_equal(c.frees, 2);
    // A call that is made to fail does not reach it.
    tl_alloc_fail_at(1, 1);
    assert_null(tl_alloc(1));
    assert_int_equal(c.allocs, 2);
    tl_allocator_set(NULL);
    tl_free(tl_alloc(1));
    assert_int_equal(c.allocs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_zero),     cmocka_unit_test(test_zeroed),
        cmocka_unit_test(test_realloc_keeps),     cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_too_much),          cmocka_unit_test(test_strdup),
        cmocka_unit_test(test_fail_at),           cmocka_unit_test(test_faults_belong_to_a_thread),
        cmocka_unit_test(test_another_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
