/* Random numbers as CPython 3.11 draws them; the numbers here were written down there. */
#include "test.h"

#include "text/python_random.h"

static tli_python_random generator;

static tl_bits seeded(int64_t seed)
{
    tli_python_random_seed(&generator, seed);
    return (tl_bits){tli_python_random_bits, &generator};
}

static void bits_are_pythons(void **state)
{
    (void)state;
    static const uint32_t expected[] = {0x6aa79987, 0xbb91433a, 0x029a7245, 0xd1f6f86c};
    tl_bits bits = seeded(12345);
    for (int i = 0; i < 4; i++) assert_int_equal(bits.next(bits.payload), expected[i]);
}

static void reals_are_pythons(void **state)
{
    (void)state;
    static const double expected[] = {0.41661987254534116, 0.010169169457068361,
                                      0.8252065092537432};
    tl_bits bits = seeded(12345);
    for (int i = 0; i < 3; i++) assert_true(tli_bits_real(bits) == expected[i]);
}

static void seeds_are_pythons(void **state)
{
    (void)state;
    static const struct {
        int64_t seed;
        double first, later; // random() at once, and after 1000 more
    } seeds[] = {
        {0, 0.8444218515250481, 0.9466893945947962},
        {1, 0.13436424411240122, 0.4116430517162146},
        {-1, 0.13436424411240122, 0.4116430517162146},
        {7, 0.32383276483316237, 0.950867979111096},
        {INT64_C(4294967295), 0.6353574441341173, 0.44832732332135994},
        {INT64_C(4294967296), 0.11299430095636409, 0.9409760305987137},
        {INT64_C(1099511627776), 0.1036394562812375, 0.6034274173555959},
        {INT64_MIN, 0.5534639983914199, 0.3780094153276805},
    };
    for (int64_t i = 0; i < TL_COUNT(seeds); i++) {
        tl_bits bits = seeded(seeds[i].seed);
        assert_true(tli_bits_real(bits) == seeds[i].first);
        for (int k = 0; k < 999; k++) (void)tli_bits_real(bits);
        assert_true(tli_bits_real(bits) == seeds[i].later);
    }
}

static void numbers_below_are_pythons(void **state)
{
    (void)state;
    static const int64_t expected[] = {6, 0, 4, 5, 3, 4, 9, 6};
    tl_bits bits = seeded(12345);
    for (int i = 0; i < 8; i++) assert_int_equal(tli_bits_between(bits, 0, 9), expected[i]);
    bits = seeded(1);
    assert_int_equal(tli_bits_below(bits, INT64_C(1)), INT64_C(0));
    assert_int_equal(tli_bits_below(bits, INT64_C(1)), INT64_C(0));
    assert_int_equal(tli_bits_below(bits, INT64_C(2)), INT64_C(1));
    assert_int_equal(tli_bits_below(bits, INT64_C(3)), INT64_C(0));
    assert_int_equal(tli_bits_below(bits, INT64_C(2147483648)), INT64_C(2127877499));
    assert_int_equal(tli_bits_below(bits, INT64_C(4294967296)), INT64_C(3268308804));
    assert_int_equal(tli_bits_below(bits, INT64_C(4294967297)), INT64_C(901749037));
    assert_int_equal(tli_bits_below(bits, INT64_C(1099511627776)), INT64_C(62224870530));
    assert_int_equal(tli_bits_below(bits, INT64_C(1000000000000000)), INT64_C(940988221648102));
    assert_int_equal(tli_bits_below(bits, INT64_C(4611686018427387904)),
                     INT64_C(3991571645403398797));
}

static void shuffles_are_pythons(void **state)
{
    (void)state;
    static const int64_t expected[] = {8, 7, 3, 5, 1, 2, 9, 4, 0, 6};
    int64_t items[10];
    for (int i = 0; i < 10; i++) items[i] = i;
    tli_bits_shuffle(seeded(12345), items, 10);
    for (int i = 0; i < 10; i++) assert_int_equal(items[i], expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_pythons),     cmocka_unit_test(reals_are_pythons),
        cmocka_unit_test(seeds_are_pythons),    cmocka_unit_test(numbers_below_are_pythons),
        cmocka_unit_test(shuffles_are_pythons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
