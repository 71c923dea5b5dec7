#include "test.h"

#include <tilth/core/shape.h>

static void shapes_count_their_elements(void **state)
{
    (void)state;
    tl_shape a = TL_SHAPE(2, 3, 4), none = TL_SHAPE(2, 0, 4), one = TL_SCALAR;
    assert_int_equal(a.rank, 3);
    assert_int_equal(tl_shape_count(&a), 24);
    assert_int_equal(tl_shape_count(&none), 0);
    assert_int_equal(one.rank, 0);
    assert_int_equal(tl_shape_count(&one), 1);
    tl_shape b = TL_SHAPE(2, 3, 4), c = TL_SHAPE(2, 3, 5), d = TL_SHAPE(2, 3);
    assert_true(tl_shape_equal(&a, &b));
    assert_false(tl_shape_equal(&a, &c));
    assert_false(tl_shape_equal(&a, &d));
    assert_true(tl_shape_equal(&one, &one));
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    tl_shape s = TL_SHAPE(3, -1), large = TL_SHAPE(INT64_MAX / 8, 2),
             hidden = TL_SHAPE(INT64_MAX, 0, 3);
    assert_fails(tl_shape_check(&s, "here"), TL_EINVAL,
                 "here: shape [3, -1] has a negative dimension");
    assert_fails(tl_shape_check(&large, "here"), TL_ELIMIT, "has too many elements");
    assert_fails(tl_shape_check(&hidden, "here"), TL_ELIMIT,
                 "has too many elements"); // its strides would not fit
    s.rank = 9;
    assert_fails(tl_shape_check(&s, "here"), TL_EINVAL,
                 "here: 9 dimensions; at most 8 are possible");
    s.rank = -1;
    assert_fails(tl_shape_check(&s, "here"), TL_EINVAL, "-1 dimensions");
    tl_shape most = TL_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), just = TL_SHAPE(INT64_MAX / 8),
             none = TL_SHAPE(0, 5);
    assert_ok(tl_shape_check(&most, "here"));
    assert_ok(tl_shape_check(&just, "here"));
    assert_ok(tl_shape_check(&none, "here"));
}

static void shapes_broadcast(void **state)
{
    (void)state;
    const struct {
        tl_shape a, b, both;
    } good[] = {
        {TL_SHAPE(32, 1, 128), TL_SHAPE(10, 1), TL_SHAPE(32, 10, 128)},
        {TL_SCALAR, TL_SHAPE(2, 3), TL_SHAPE(2, 3)},
        {TL_SCALAR, TL_SCALAR, TL_SCALAR},
        {TL_SHAPE(0), TL_SHAPE(1), TL_SHAPE(0)},
        {TL_SHAPE(3, 0), TL_SHAPE(1, 1), TL_SHAPE(3, 0)},
        {TL_SHAPE(5), TL_SHAPE(2, 5), TL_SHAPE(2, 5)},
    };
    for (int i = 0; i < TL_COUNT(good); i++) {
        tl_shape out, back;
        assert_ok(tl_shape_broadcast(&out, &good[i].a, &good[i].b));
        assert_true(tl_shape_equal(&out, &good[i].both));
        assert_ok(tl_shape_broadcast(&back, &good[i].b, &good[i].a));
        assert_true(tl_shape_equal(&back, &good[i].both));
    }
    tl_shape a = TL_SHAPE(2, 3), b = TL_SHAPE(4), none = TL_SHAPE(0), before = a;
    assert_fails(tl_shape_broadcast(&a, &a, &b), TL_EINVAL,
                 "shapes [2, 3] and [4] do not broadcast: 3 meets 4");
    assert_true(tl_shape_equal(&a, &before));
    assert_fails(tl_shape_broadcast(&b, &none, &b), TL_EINVAL, "0 meets 4");
    tl_shape wide = TL_SHAPE(4, 1, 1);
    assert_ok(tl_shape_broadcast(&wide, &wide, &a)); // into one of them
    before = TL_SHAPE(4, 2, 3);
    assert_true(tl_shape_equal(&wide, &before));
}

static void shapes_have_a_text(void **state)
{
    (void)state;
    char text[TL_SHAPE_TEXT];
    tl_shape a = TL_SHAPE(2, 3), one = TL_SHAPE(7), scalar = TL_SCALAR;
    assert_string_equal(tl_shape_text(text, &a), "[2, 3]");
    assert_string_equal(tl_shape_text(text, &one), "[7]");
    assert_string_equal(tl_shape_text(text, &scalar), "[]");
    tl_shape longest = {.rank = TL_MAX_RANK};
    for (int i = 0; i < TL_MAX_RANK; i++) longest.dims[i] = INT64_MIN;
    tl_shape_text(text, &longest);
    assert_int_equal(strlen(text), 8 * 20 + 7 * 2 + 2);
    assert_int_equal(text[strlen(text) - 1], ']');
    longest.rank = 100; // what tl_shape_check is about to refuse is shown without harm
    assert_int_equal(strlen(tl_shape_text(text, &longest)), 8 * 20 + 7 * 2 + 2);
}

static void strides_are_row_major(void **state)
{
    (void)state;
    int64_t strides[TL_MAX_RANK];
    tl_shape a = TL_SHAPE(2, 3, 4);
    tl_shape_strides(strides, &a);
    assert_true(strides[0] == 12 && strides[1] == 4 && strides[2] == 1);
}

static void axes_count_from_both_ends(void **state)
{
    (void)state;
    int axis = 99;
    assert_ok(tl_axis_check(&axis, -1, 3, "sum"));
    assert_int_equal(axis, 2);
    assert_ok(tl_axis_check(&axis, -3, 3, "sum"));
    assert_int_equal(axis, 0);
    assert_ok(tl_axis_check(&axis, 2, 3, "sum"));
    assert_int_equal(axis, 2);
    assert_fails(tl_axis_check(&axis, 3, 3, "sum"), TL_EINVAL,
                 "sum: axis 3 of a tensor with 3 dimensions");
    assert_fails(tl_axis_check(&axis, -4, 3, "sum"), TL_EINVAL, "sum: axis -4");
    assert_fails(tl_axis_check(&axis, 0, 0, "sum"), TL_EINVAL, "0 dimensions");
    assert_fails(tl_axis_check(&axis, -1, 0, "sum"), TL_EINVAL, "0 dimensions");
    assert_fails(tl_axis_check(&axis, INT64_MIN, 3, "sum"), TL_EINVAL, "axis");
    assert_int_equal(axis, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_count_their_elements),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(shapes_broadcast),
        cmocka_unit_test(shapes_have_a_text),
        cmocka_unit_test(strides_are_row_major),
        cmocka_unit_test(axes_count_from_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
