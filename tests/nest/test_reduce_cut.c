/* needs: threads; takes: long
 * Reductions of nests at the sizes where work is cut. */
#include "nest/nest_cases.h"

// Sizes at which rows, columns and tasks are cut.
static void test_cut_reductions(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 70001}, {1, 3, 50000}, {2, 4099, 17},  {1, 20000, 3},
                                        {70, 40, 64},  {3, 5, 9000},  {1, 100, 2500}, {1, 9, 4096}};
    cases c;
    cases_init(&c);
    for (int i = 0; i < TL_COUNT(shapes); i++)
        for (uint32_t axes = 1; axes < 8; axes++) {
            char name[64];
            if (!test_takes(i + axes, 4)) continue;
            snprintf(name, sizeof name, "shape %d, axes 0x%x", i, (unsigned)axes);
            build *b = cases_add(&c, name, 3, shapes[i]);
            int x = load_all(b, TL_F32, 7), y = load_all(b, TL_F32, 6);
            int z = op(b, TL_OP_mul, TL_F32, NULL, 2, x, y);
            int s = reduce(b, TL_OP_sum, z, axes), m = reduce(b, TL_OP_max, z, axes);
            store_all(b, s);
            store_all(b, op(b, TL_OP_sub, TL_F32, NULL, 2, m, s));
            b->tolerance = 5e-7;
        }
    cases_check(&c);
    cases_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut_reductions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
