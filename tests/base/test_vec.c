/* Growable arrays. */
#include "test.h"

#include <tilth/base/vec.h>

typedef struct pair {
    int64_t key;
    const char *text;
} pair;
typedef struct pair_list {
    pair *items;
    int64_t count, capacity;
} pair_list;
typedef struct byte_list {
    char *items;
    int64_t count, capacity;
} byte_list;

static void test_push(void **state)
{
    (void)state;
    pair_list list = {0};
    int64_t before = tl_alloc_calls();
    for (int64_t i = 0; i < 1000; i++) {
        assert_true(TL_VEC_PUSH(&list, (pair){i, "x"})); // commas inside the item are fine
        assert_int_equal(list.count, i + 1);
        assert_true(list.capacity >= list.count);
    }
    assert_in_range(tl_alloc_calls() - before, 1, 12); // it doubles
    for (int64_t i = 0; i < 1000; i++) assert_int_equal(list.items[i].key, i);
    TL_VEC_FREE(&list);
    assert_null(list.items);
    assert_int_equal(list.count, 0);
    assert_int_equal(list.capacity, 0);
    assert_true(TL_VEC_PUSH(&list, (pair){7, "again"}));
    assert_int_equal(list.items[0].key, 7);
    TL_VEC_FREE(&list);
    TL_VEC_FREE(&list);
}

static void test_small_items(void **state)
{
    (void)state;
    byte_list list = {0};
    for (int i = 0; i < 300; i++) assert_true(TL_VEC_PUSH(&list, (char)i));
    for (int i = 0; i < 300; i++) assert_int_equal(list.items[i], (char)i);
    TL_VEC_FREE(&list);
}

/* The item is taken once, also when the array moves. */
static void test_item_is_evaluated_once(void **state)
{
    (void)state;
    byte_list list = {0};
    int next = 0;
    for (int i = 0; i < 100; i++) assert_true(TL_VEC_PUSH(&list, (char)next++));
    assert_int_equal(next, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(list.items[i], i);
    TL_VEC_FREE(&list);
}

static void test_no_memory(void **state)
{
    (void)state;
    byte_list list = {0};
    tl_alloc_fail_at(1, 1);
    tl_error_clear();
    assert_false(TL_VEC_PUSH(&list, 'a'));
    assert_int_equal(tl_error_code(), TL_ENOMEM);
    assert_int_equal(list.count, 0);
    while (list.count == 0 || list.count < list.capacity) assert_true(TL_VEC_PUSH(&list, 'a'));
    int64_t full = list.count;
    tl_alloc_fail_at(1, 1);
    assert_false(TL_VEC_PUSH(&list, 'b'));
    assert_int_equal(list.count, full); // what is there stays
    for (int64_t i = 0; i < full; i++) assert_int_equal(list.items[i], 'a');
    assert_true(TL_VEC_PUSH(&list, 'b'));
    assert_int_equal(list.items[full], 'b');
    TL_VEC_FREE(&list);
}

static void test_grow(void **state)
{
    (void)state;
    void *items = NULL;
    int64_t capacity = 0;
    assert_true(tl_vec_grow(&items, 0, &capacity, 8));
    int64_t first = capacity;
    assert_true(first > 0);
    void *was = items;
    assert_true(tl_vec_grow(&items, first - 1, &capacity, 8)); // there is room
    assert_ptr_equal(items, was);
    assert_int_equal(capacity, first);
    assert_true(tl_vec_grow(&items, first, &capacity, 8));
    assert_true(capacity > first);
    tl_free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push),
        cmocka_unit_test(test_small_items),
        cmocka_unit_test(test_item_is_evaluated_once),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
