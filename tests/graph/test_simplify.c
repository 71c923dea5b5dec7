/* Rules of the pass "simplify" that leave calls out, one by one: what they change, what they must
 * not change, and that all bits stay. */
#include "graph/graph_test.h"

#include <math.h>
#include <tilth/sys/graph/graph.h>

/* One rule on one type: `x` and `y` of float32[4, 6] come cast to it. */
typedef struct rule_case {
    const char *name;
    tl_tensor *(*make)(tl_ctx *c, tl_tensor *x, tl_tensor *y);
    int64_t left; /* calls that are neither views nor copies */
} rule_case;

static tl_tensor *number(tl_ctx *c, const tl_tensor *like, double value)
{
    return tl_full(c, like->dtype, like->shape, value);
}

static tl_tensor *cast(tl_ctx *c, tl_tensor *x, tl_dtype dtype)
{
    return TL_APPLY(c, cast, &(tl_cast_attr){dtype}, x); // tl_cast leaves it out where it can
}

static tl_tensor *reshape(tl_ctx *c, tl_tensor *x, tl_shape shape)
{
    tl_shape_attr attr = {.shape = {shape.dims, shape.rank}};
    return TL_APPLY(c, reshape, &attr, x);
}

#define RULE(name, expression)                                                                     \
    static tl_tensor *name(tl_ctx *c, tl_tensor *x, tl_tensor *y)                                  \
    {                                                                                              \
        (void)y;                                                                                   \
        return expression;                                                                         \
    }

/* --- what goes, of float types ---------------------------------------------------------------- */

RULE(times_1, tl_mul(c, x, number(c, x, 1)))
RULE(one_times, tl_mul(c, tl_full(c, x->dtype, TL_SCALAR, 1), x))
RULE(by_1, tl_div(c, x, number(c, x, 1)))
RULE(minus_0, tl_sub(c, x, number(c, x, 0)))
RULE(plus_negative_0, tl_add(c, x, number(c, x, -0.0)))
RULE(negative_0_plus, tl_add(c, number(c, x, -0.0), x))
RULE(shift_negative_0, tl_affine(c, x, 1, -0.0))
RULE(neg_neg, tl_neg(c, tl_neg(c, x)))
RULE(abs_abs, tl_abs(c, tl_abs(c, x)))
RULE(relu_relu, tl_relu(c, tl_relu(c, x)))
RULE(relu6_relu6, tl_relu6(c, tl_relu6(c, x)))
RULE(floor_floor, tl_floor(c, tl_floor(c, x)))
RULE(ceil_ceil, tl_ceil(c, tl_ceil(c, x)))
RULE(round_round, tl_round(c, tl_round(c, x)))
RULE(sign_sign, tl_sign(c, tl_sign(c, x)))
RULE(max_same, tl_maximum(c, x, x))
RULE(min_same, tl_minimum(c, x, x))
RULE(where_same, tl_where(c, tl_less(c, x, y), x, x))
RULE(where_true, tl_where(c, tl_full(c, TL_BOOL, TL_SHAPE(4, 6), 1), x, y))
RULE(where_false, tl_where(c, tl_full(c, TL_BOOL, TL_SHAPE(6), 0), x, y))
RULE(by_power, tl_div(c, x, number(c, x, 8)))
RULE(by_negative_power, tl_div(c, x, tl_full(c, x->dtype, TL_SCALAR, -0.25)))
RULE(max_of_one, tl_max(c, tl_reshape(c, x, TL_SHAPE(4, 1, 6)), TL_AXES(1), false))
RULE(min_of_one, tl_min(c, tl_reshape(c, x, TL_SHAPE(4, 1, 6, 1)), TL_AXES(1, 3), true))
RULE(prod_of_one, tl_prod(c, tl_reshape(c, x, TL_SHAPE(24, 1)), TL_AXES(1), true))
RULE(wide_and_back, cast(c, cast(c, x, TL_F64), x->dtype))
RULE(transposed_back, tl_swap_axes(c, tl_swap_axes(c, x, 0, 1), 0, 1))
RULE(reshaped_back, reshape(c, reshape(c, x, TL_SHAPE(24)), TL_SHAPE(4, 6)))

/* Slices that are put back: what gradients of three parts of one tensor are. */
static tl_tensor *put(tl_ctx *c, tl_tensor *x, int64_t start)
{
    return tl_unslice(c, x, TL_SHAPE(4, 18, 2), (int64_t[]){0, start, 0}, (int64_t[]){1, 1, 1}, 3);
}

static tl_tensor *joined_parts(tl_ctx *c, tl_tensor *x, tl_tensor *y)
{
    tl_tensor *a = tl_broadcast_to(c, tl_reshape(c, x, TL_SHAPE(4, 6, 1)), TL_SHAPE(4, 6, 2));
    tl_tensor *b = tl_broadcast_to(c, tl_reshape(c, y, TL_SHAPE(4, 6, 1)), TL_SHAPE(4, 6, 2));
    tl_tensor *d = tl_slice(c, a, 0, TL_OPEN, TL_OPEN, -1);
    return tl_add(c, tl_add(c, put(c, a, 12), put(c, d, 0)), put(c, b, 6));
}

static const rule_case float_rules[] = {
    {"x * 1", times_1, 0},
    {"1 * x", one_times, 0},
    {"x / 1", by_1, 0},
    {"x - 0", minus_0, 0},
    {"x + -0.0", plus_negative_0, 0},
    {"-0.0 + x", negative_0_plus, 0},
    {"affine 1, -0.0", shift_negative_0, 0},
    {"neg neg", neg_neg, 0},
    {"abs abs", abs_abs, 1},
    {"relu relu", relu_relu, 1},
    {"relu6 relu6", relu6_relu6, 1},
    {"floor floor", floor_floor, 1},
    {"ceil ceil", ceil_ceil, 1},
    {"round round", round_round, 1},
    {"sign sign", sign_sign, 1},
    {"maximum x, x", max_same, 0},
    {"minimum x, x", min_same, 0},
    {"where c, x, x", where_same, 0},
    {"where true", where_true, 0},
    {"where false", where_false, 0},
    {"x / 8", by_power, 2}, // a product, and the number
    {"x / -0.25", by_negative_power, 2},
    {"max of one", max_of_one, 0},
    {"min of one", min_of_one, 0},
    {"product of one", prod_of_one, 0},
    {"to float64 and back", wide_and_back, 0},
    {"transposed twice", transposed_back, 0},
    {"reshaped twice", reshaped_back, 0},
    {"three parts", joined_parts, 2}, // concat and affine
};

/* --- and stays -------------------------------------------------------------------------------- */

RULE(plus_0, tl_add(c, x, number(c, x, 0)))
RULE(minus_negative_0, tl_sub(c, x, number(c, x, -0.0)))
RULE(number_minus, tl_sub(c, number(c, x, 0), x))
RULE(scale_1, tl_scale(c, x, 1))
RULE(number_by, tl_div(c, number(c, x, 1), x))
RULE(by_3, tl_div(c, x, number(c, x, 3)))
RULE(sum_of_one, tl_sum(c, tl_reshape(c, x, TL_SHAPE(4, 6, 1)), TL_AXES(2), false))
RULE(mean_of_one, tl_mean(c, tl_reshape(c, x, TL_SHAPE(4, 6, 1)), TL_AXES(2), false))
RULE(narrow_and_back, cast(c, cast(c, x, TL_BF16), TL_F32))
RULE(power_1, tl_pow(c, x, number(c, x, 1)))
RULE(larger_by_1, tl_mul(c, tl_slice(c, x, 0, 0, 1, 1), number(c, x, 1)))
RULE(parts_apart, tl_add(c, put(c, tl_reshape(c, x, TL_SHAPE(4, 3, 2)), 0),
                         put(c, tl_reshape(c, y, TL_SHAPE(4, 3, 2)), 15)))
RULE(parts_over,
     tl_add(c,
            put(c, tl_broadcast_to(c, tl_reshape(c, x, TL_SHAPE(4, 6, 1)), TL_SHAPE(4, 6, 2)), 0),
            put(c,
                tl_broadcast_to(c, tl_slice(c, tl_reshape(c, y, TL_SHAPE(4, 6, 1)), 1, 0, 1, 1),
                                TL_SHAPE(4, 1, 2)),
                5)))

static const rule_case kept[] = {
    {"x + 0", plus_0, 2},
    {"x - -0.0", minus_negative_0, 2},
    {"0 - x", number_minus, 2},
    {"affine 1, 0", scale_1, 1},
    {"1 / x", number_by, 2},
    {"x / 3", by_3, 2},
    {"sum of one", sum_of_one, 1},
    {"mean of one", mean_of_one, 1},
    {"to bfloat16 and back", narrow_and_back, 2},
    {"x to the 1", power_1, 2},
    {"a row times 1", larger_by_1, 2},
    {"parts with a gap", parts_apart, 3},
    {"parts that overlap", parts_over, 3},
};

/* --- whole numbers and truth values ----------------------------------------------------------- */

static tl_tensor *whole(tl_ctx *c, tl_tensor *x)
{
    return cast(c, tl_clip(c, x, -100, 100), TL_I32);
}

RULE(int_plus_0, tl_add(c, whole(c, x), tl_full(c, TL_I32, TL_SCALAR, 0)))
RULE(int_by_1, tl_floor_divide(c, whole(c, x), tl_full(c, TL_I32, TL_SCALAR, 1)))
RULE(int_affine, tl_affine(c, whole(c, x), 1, 0))
RULE(int_sum_of_one, tl_sum(c, tl_reshape(c, whole(c, x), TL_SHAPE(24, 1)), TL_AXES(1), false))
RULE(int_wide_and_back, cast(c, cast(c, whole(c, x), TL_I64), TL_I32))
RULE(int_through_float, cast(c, cast(c, whole(c, x), TL_F32), TL_I32)) // which cannot hold all
RULE(widened_twice, cast(c, cast(c, cast(c, x, TL_BF16), TL_F32), TL_F64))
RULE(not_not, tl_logical_not(c, tl_logical_not(c, tl_less(c, x, y))))
RULE(and_true, tl_logical_and(c, tl_less(c, x, y), tl_full(c, TL_BOOL, TL_SCALAR, 1)))
RULE(or_false, tl_logical_or(c, tl_full(c, TL_BOOL, TL_SCALAR, 0), tl_less(c, x, y)))
RULE(xor_false, tl_logical_xor(c, tl_less(c, x, y), tl_full(c, TL_BOOL, TL_SCALAR, 0)))
RULE(any_of_one, tl_any(c, tl_reshape(c, tl_less(c, x, y), TL_SHAPE(24, 1)), TL_AXES(1), false))
RULE(truth_through_float, cast(c, cast(c, tl_less(c, x, y), TL_F16), TL_BOOL))

static const rule_case others[] = {
    {"i + 0", int_plus_0, 2},
    {"i / 1", int_by_1, 2},
    {"i * 1 + 0", int_affine, 2},
    {"sum of one i", int_sum_of_one, 2},
    {"i to int64 and back", int_wide_and_back, 2},
    {"i to float32 and back", int_through_float, 4},
    {"bfloat16 to float32 to float64", widened_twice, 2},
    {"not not", not_not, 1},
    {"and true", and_true, 1},
    {"false or", or_false, 1},
    {"xor false", xor_false, 1},
    {"any of one", any_of_one, 1},
    {"truth to float16 and back", truth_through_float, 1},
};

/* --- running them ----------------------------------------------------------------------------- */

typedef struct run {
    const rule_case *rule;
    tl_dtype dtype;
} run;

BODY(around_rule)
{
    const run *r = self;
    tl_tensors_put(c, out, "z", r->rule->make(c, tl_cast(c, x, r->dtype), tl_cast(c, y, r->dtype)));
}

static int64_t calls_left(fixture *f, const run *r)
{
    tl_graph *g = captured(f, around_rule, (void *)r);
    run_pass(g, "simplify");
    run_pass(g, "dead");
    int64_t count = tl_graph_count(g) - count_ops(g, "copy");
    tl_graph_free(&g);
    return count;
}

static void expect_left(fixture *f, const rule_case *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t left = calls_left(f, &(run){&rules[i], TL_F32});
        if (left != rules[i].left)
            fail_msg("%s: %lld calls are left, not %lld", rules[i].name, (long long)left,
                     (long long)rules[i].left);
    }
}

static void calls_that_change_nothing_go(void **state)
{
    expect_left(*state, float_rules, TL_COUNT(float_rules));
    expect_left(*state, others, TL_COUNT(others));
}

static void calls_that_change_a_bit_stay(void **state)
{
    expect_left(*state, kept, TL_COUNT(kept));
}

static void parts_are_put_together(void **state)
{
    tl_graph *g =
        captured(*state, around_rule, &(run){&float_rules[TL_COUNT(float_rules) - 1], TL_F32});
    run_pass(g, "simplify");
    run_pass(g, "dead");
    assert_int_equal(count_ops(g, "unslice"), 0);
    assert_int_equal(count_ops(g, "add"), 0);
    assert_int_equal(count_ops(g, "concat"), 1);
    assert_int_equal(count_ops(g, "affine"), 1);
    tl_graph_free(&g);
}

/* --- bits ------------------------------------------------------------------------------------- */

// All that could be lost: signs of zeros, infinities, what a NaN carries, numbers without a
// leading 1.
static void fill(tl_ctx *c, tl_tensors *in)
{
    static const uint32_t bits[24] = {
        0x80000000, 0x00000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
        0x7fd50000, 0xffe10000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
        0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000, 0x3effffff, 0xbf000001,
        0x40490fdb, 0x47000000, 0xc7000100, 0x33800000, 0xb3800001, 0x42f60000,
    };
    uint32_t other[24];
    for (int i = 0; i < 24; i++) other[i] = bits[(i * 7 + 3) % 24];
    tl_tensor *x = tl_full(c, TL_F32, TL_SHAPE(4, 6), 0),
              *y = tl_full(c, TL_F32, TL_SHAPE(4, 6), 0);
    assert_ok(tl_tensor_set(x, bits, sizeof bits));
    assert_ok(tl_tensor_set(y, other, sizeof other));
    tl_tensors_put(c, in, "x", x);
    tl_tensors_put(c, in, "y", y);
}

/* A GPU has one NaN, and gives that for all. */
static bool are_nan(const tl_tensor *t, const tl_tensor *other, int64_t element)
{
    double a[256], b[256];
    const int64_t count = tl_tensor_count(t);
    if (!test_wants_gpu() || !tl_dtype_is_float(t->dtype)) return false;
    assert_true(count <= TL_COUNT(a));
    assert_ok(tl_tensor_get_doubles(t, a, count));
    assert_ok(tl_tensor_get_doubles(other, b, count));
    return isnan(a[element]) && isnan(b[element]);
}

static void expect_same_bits(fixture *f, const run *r)
{
    static const char *const skip[] = {"fuse", NULL};
    static const tl_optimize how = {.skip = skip};
    char is[4096], should[4096];
    tl_tensors in = {0}, wanted = {0}, got = {0};
    tl_function *fn;
    fill(f->c, &in);
    assert_ok(around_rule((void *)r, f->c, &in, &wanted));
    assert_ok(tl_function_new(
        &fn, &(tl_function_args){
                 .engine = f->engine, .body = around_rule, .self = (void *)r, .optimize = &how}));
    assert_ok(tl_function_call(fn, f->c, &in, &got));
    size_t bytes = tl_tensor_bytes(wanted.items[0].tensor);
    assert_true(bytes <= sizeof is && bytes == tl_tensor_bytes(got.items[0].tensor));
    assert_ok(tl_tensor_get(got.items[0].tensor, is, bytes));
    assert_ok(tl_tensor_get(wanted.items[0].tensor, should, bytes));
    const size_t each = tl_dtype_size(got.items[0].tensor->dtype);
    for (size_t i = 0; i < bytes; i++)
        if (is[i] != should[i]
            && !are_nan(got.items[0].tensor, wanted.items[0].tensor, (int64_t)(i / each)))
            fail_msg("%s of %s: byte %zu differs", r->rule->name, tl_dtype_name(r->dtype), i);
    tl_function_free(&fn);
}

static void zeros_infinities_and_nan_keep_their_bits(void **state)
{
    static const tl_dtype types[] = {TL_F32, TL_F64, TL_BF16, TL_F16};
    for (size_t t = 0; t < TL_COUNT(types); t++) {
        for (size_t i = 0; i < TL_COUNT(float_rules); i++)
            expect_same_bits(*state, &(run){&float_rules[i], types[t]});
        for (size_t i = 0; i < TL_COUNT(kept); i++)
            expect_same_bits(*state, &(run){&kept[i], types[t]});
    }
    for (size_t i = 0; i < TL_COUNT(others); i++)
        expect_same_bits(*state, &(run){&others[i], TL_F32});
}

/* --- what is written -------------------------------------------------------------------------- */

BODY(written_between)
{
    UNUSED_BODY_ARGS;
    tl_tensor *n = tl_neg(c, x), *twice = NULL, *e = tl_exp(c, x), *same, *d = cast(c, y, TL_F64);
    same = tl_mul(c, e, number(c, e, 1));
    tl_update_ema(c, n, y, 0.5); // no longer what was negated
    twice = tl_neg(c, n);
    tl_update_ema(c, e, y, 0.5);
    tl_update_ema(c, d, tl_exp(c, cast(c, x, TL_F64)), 0.5);
    tl_tensors_put(c, out, "a", twice);
    tl_tensors_put(c, out, "b", tl_sub(c, same, e));
    tl_tensors_put(c, out, "d", cast(c, d, TL_F32));
}

static void what_is_written_in_between_stays(void **state)
{
    fixture *f = *state;
    double values[24], is[24], should[24];
    tl_tensors in = {0}, wanted = {0}, got = {0};
    tl_function *fn;
    for (int i = 0; i < 24; i++) values[i] = 0.125 * i - 1;
    tl_tensors_put(f->c, &in, "x", tl_from_doubles(f->c, TL_F32, TL_SHAPE(4, 6), values));
    tl_tensors_put(f->c, &in, "y", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 3));
    assert_ok(written_between(NULL, f->c, &in, &wanted));
    assert_ok(
        tl_function_new(&fn, &(tl_function_args){.engine = f->engine, .body = written_between}));
    assert_ok(tl_function_call(fn, f->c, &in, &got));
    for (int64_t k = 0; k < wanted.count; k++) {
        assert_ok(tl_tensor_get_doubles(wanted.items[k].tensor, should, 24));
        assert_ok(tl_tensor_get_doubles(got.items[k].tensor, is, 24));
        for (int i = 0; i < 24; i++) assert_true(fabs(is[i] - should[i]) < 1e-5);
    }
    tl_function_free(&fn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_that_change_nothing_go, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_that_change_a_bit_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_are_put_together, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros_infinities_and_nan_keep_their_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_written_in_between_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
