/* `tilth list` and `describe` when memory is exhausted, wherever that happens. */
#include "tool/failing_memory.h"

static void test_list(void **state)
{
    (void)state;
    every_allocation_of("list");
}

static void test_describe(void **state)
{
    (void)state;
    every_allocation_of("describe", "mock", "trainer.optimizer_config");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
