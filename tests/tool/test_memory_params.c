/* `tilth params` when memory is exhausted, wherever that happens. */
#include "tool/failing_memory.h"

static void test_params(void **state)
{
    (void)state;
    every_allocation_of("params", "--experiment=mock", "--explain", "--trainer.train_steps=5");
}

static void test_params_helpfull(void **state)
{
    (void)state;
    every_allocation_of("params", "--experiment=mock", "--helpfull");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_params_helpfull),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
