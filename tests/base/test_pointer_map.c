#include "test.h"

#include "base/inner/pointer_map.h"

static void finds_what_was_put(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static char objects[COUNT][24];
    tli_pointer_map m = {0};
    assert_int_equal(tli_pointer_map_get(&m, objects[0]), -1);
    for (int i = 0; i < COUNT; i += 2) assert_true(tli_pointer_map_put(&m, objects[i], i));
    assert_true(tli_pointer_map_put(&m, objects[4], 5000)); // replaced
    assert_int_equal(m.count, COUNT / 2);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(tli_pointer_map_get(&m, objects[i]), i == 4 ? 5000 : i % 2 ? -1 : i);
    tli_pointer_map_free(&m);
    assert_int_equal(tli_pointer_map_get(&m, objects[0]), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_was_put)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
