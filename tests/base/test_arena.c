/* Arenas: memory, scopes, deferred calls, failures. The sanitizer build runs the same tests on the
 * debug twin, where each object is an allocation of its own. */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/arena.h>

static void test_zeroed_and_aligned(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    assert_int_equal(tl_arena_bytes(a), 0);
    for (size_t bytes = 0; bytes < 300; bytes++) {
        unsigned char *p = tl_arena_alloc(a, bytes);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
        if (bytes) memset(p, 0xee, bytes); // to be seen if the next one lay over it
    }
    assert_true(tl_arena_bytes(a) >= 300 * 299 / 2);
    tl_arena_free(&a);
    assert_null(a);
    tl_arena_free(&a); // NULL is fine
}

static void test_objects_do_not_overlap(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    static unsigned char *p[COUNT];
    for (int i = 0; i < COUNT; i++) { // 1 to 257 bytes: many chunks
        assert_non_null(p[i] = tl_arena_alloc(a, (size_t)i % 257 + 1));
        memset(p[i], i & 0xff, (size_t)i % 257 + 1);
    }
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i % 257 + 1; j++) assert_int_equal(p[i][j], i & 0xff);
    tl_arena_free(&a);
}

static void test_large(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    char *small = tl_arena_strdup(a, "before");
    char *large = tl_arena_alloc(a, 5 << 20); // larger than any chunk
    assert_non_null(large);
    large[0] = large[(5 << 20) - 1] = 1;
    char *after = tl_arena_strdup(a, "after");
    assert_string_equal(small, "before");
    assert_string_equal(after, "after");
    assert_true(tl_arena_bytes(a) >= 5 << 20);
    tl_arena_free(&a);
}

static void test_copies(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    int64_t numbers[] = {1, 2, 3};
    int64_t *copy = tl_arena_copy(a, numbers, sizeof numbers);
    assert_memory_equal(copy, numbers, sizeof numbers);
    assert_non_null(tl_arena_copy(a, NULL, 0));
    assert_string_equal(tl_arena_strdup(a, ""), "");
    assert_string_equal(tl_arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(tl_arena_strndup(a, "ab", 0), "");
    assert_string_equal(tl_arena_printf(a, "%s-%d", "x", 42), "x-42");
    assert_string_equal(tl_arena_printf(a, "%s", ""), "");
    char text[10000];
    memset(text, 'z', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_string_equal(tl_arena_printf(a, "%s", text), text);
    tl_arena_free(&a);
}

static void test_arrays(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    int64_t *p = tl_arena_array(a, 100, sizeof *p);
    for (int i = 0; i < 100; i++) assert_int_equal(p[i], 0);
    assert_non_null(tl_arena_array(a, 0, 8));
    assert_non_null(tl_arena_array(a, 8, 0));
    static const struct {
        int64_t count;
        size_t size;
    } impossible[] = {
        {-1, 1}, {INT64_MAX, 3}, {INT64_MAX, SIZE_MAX}, {3, SIZE_MAX / 2}, {1, SIZE_MAX},
    };
    for (int64_t i = 0; i < TL_COUNT(impossible); i++) {
        tl_error_clear();
        assert_null(tl_arena_array(a, impossible[i].count, impossible[i].size));
        assert_int_equal(tl_error_code(), TL_ENOMEM);
    }
    tl_error_clear();
    assert_null(tl_arena_alloc(a, SIZE_MAX));
    assert_int_equal(tl_error_code(), TL_ENOMEM);
    p = tl_arena_alloc(a, 8); // still usable
    assert_non_null(p);
    tl_arena_free(&a);
}

/* --- scopes ----------------------------------------------------------------------------------- */

static void test_scopes(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    // A scope opened before anything was allocated.
    tl_arena_mark first = tl_arena_begin(a);
    assert_non_null(tl_arena_alloc(a, 100));
    tl_arena_end(a, first);
    assert_int_equal(tl_arena_bytes(a), 0);

    char *kept = tl_arena_strdup(a, "kept");
    size_t before = tl_arena_bytes(a);
    for (int turn = 0; turn < 3; turn++) {
        tl_arena_mark outer = tl_arena_begin(a);
        for (int i = 0; i < 200; i++) assert_non_null(tl_arena_alloc(a, 1000)); // several chunks
        char *middle = tl_arena_strdup(a, "middle");
        size_t in_between = tl_arena_bytes(a);
        tl_arena_mark inner = tl_arena_begin(a);
        unsigned char *p = tl_arena_alloc(a, 3 << 20);
        memset(p, 0xff, 3 << 20);
        tl_arena_end(a, inner);
        assert_int_equal(tl_arena_bytes(a), in_between);
        assert_string_equal(middle, "middle");
        tl_arena_end(a, outer);
        assert_int_equal(tl_arena_bytes(a), before);
        assert_string_equal(kept, "kept");
        // What comes after a scope is zeroed, although its memory was used in it.
        tl_arena_mark again = tl_arena_begin(a);
        p = tl_arena_alloc(a, 2000);
        for (int i = 0; i < 2000; i++) assert_int_equal(p[i], 0);
        tl_arena_end(a, again);
    }
    tl_arena_free(&a);
}

/* --- deferred calls --------------------------------------------------------------------------- */

static char order[32];

static void note(void *payload)
{
    size_t length = strlen(order);
    if (length + 1 < sizeof order) order[length] = *(const char *)payload;
}

static void test_deferred_order(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    memset(order, 0, sizeof order);
    assert_ok(tl_arena_defer(a, note, "1"));
    assert_ok(tl_arena_defer(a, note, "2"));
    tl_arena_mark outer = tl_arena_begin(a);
    assert_ok(tl_arena_defer(a, note, "3"));
    tl_arena_mark inner = tl_arena_begin(a);
    assert_ok(tl_arena_defer(a, note, "4"));
    assert_ok(tl_arena_defer(a, note, "5"));
    assert_string_equal(order, "");
    tl_arena_end(a, inner);
    assert_string_equal(order, "54");
    assert_ok(tl_arena_defer(a, note, "6"));
    tl_arena_end(a, outer);
    assert_string_equal(order, "5463");
    tl_arena_free(&a);
    assert_string_equal(order, "546321");
}

static tl_arena *current;

/* A handler that uses the arena while it goes. */
static void note_and_defer(void *payload)
{
    note(payload);
    assert_non_null(tl_arena_alloc(current, 5000));
    assert_ok(tl_arena_defer(current, note, "n"));
}

static void test_handlers_may_defer(void **state)
{
    (void)state;
    memset(order, 0, sizeof order);
    assert_ok(tl_arena_new(&current));
    assert_ok(tl_arena_defer(current, note, "1"));
    tl_arena_mark scope = tl_arena_begin(current);
    assert_ok(tl_arena_defer(current, note_and_defer, "2"));
    tl_arena_end(current, scope);
    assert_string_equal(order, "2n");
    assert_ok(tl_arena_defer(current, note_and_defer, "3"));
    tl_arena_free(&current);
    assert_string_equal(order, "2n3n1");
}

static void test_arena_freed_with_open_scopes(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    memset(order, 0, sizeof order);
    assert_ok(tl_arena_defer(a, note, "1"));
    (void)tl_arena_begin(a);
    assert_ok(tl_arena_defer(a, note, "2"));
    (void)tl_arena_begin(a);
    assert_non_null(tl_arena_alloc(a, 10000));
    tl_arena_free(&a);
    assert_string_equal(order, "21");
}

/* --- failures --------------------------------------------------------------------------------- */

static void test_no_memory(void **state)
{
    (void)state;
    tl_arena *a;
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_arena_new(&a), TL_ENOMEM, "out of memory");
    assert_null(a);
    assert_ok(tl_arena_new(&a));
    memset(order, 0, sizeof order);

    tl_alloc_fail_at(1, 1);
    tl_error_clear();
    assert_null(tl_arena_alloc(a, 1 << 21));
    assert_int_equal(tl_error_code(), TL_ENOMEM);
    tl_alloc_fail_at(1, 1);
    tl_error_clear();
    assert_null(tl_arena_printf(a, "%2000000d", 1));
    assert_int_equal(tl_error_code(), TL_ENOMEM);

    // The handler has run when deferring fails.
    tl_arena *fresh;
    assert_ok(tl_arena_new(&fresh));
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_arena_defer(fresh, note, "1"), TL_ENOMEM, "out of memory");
    assert_string_equal(order, "1");
    tl_arena_free(&fresh);
    assert_string_equal(order, "1");

    assert_string_equal(tl_arena_strdup(a, "works again"), "works again");
    tl_arena_free(&a);
}

static void test_few_allocations(void **state)
{
    (void)state;
    tl_arena *a;
    assert_ok(tl_arena_new(&a));
    int64_t before = tl_alloc_calls();
    for (int i = 0; i < 10000; i++) assert_non_null(tl_arena_alloc(a, 16));
    int64_t calls = tl_alloc_calls() - before;
#ifdef TL_ARENA_DEBUG
    assert_int_equal(calls, 10000); // one each, so that every end is guarded
#else
    assert_in_range(calls, 1, 12);
#endif
    tl_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_and_aligned),
        cmocka_unit_test(test_objects_do_not_overlap),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_deferred_order),
        cmocka_unit_test(test_handlers_may_defer),
        cmocka_unit_test(test_arena_freed_with_open_scopes),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_few_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
