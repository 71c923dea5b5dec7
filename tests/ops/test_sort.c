#include "ops/lab.h"

#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/sort.h>

#include "op_cases.h"

static void sort(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_sort(c, in[0], k->p[0], k->p[1] != 0, &out[0], &out[1]);
}

static void top_k(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_top_k(c, in[0], k->p[0], &out[0], &out[1]);
}

static void squares_of_sort(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    sort(c, k, in, out);
    out[0] = tl_square(c, out[0]);
}

static void squares_of_top_k(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    top_k(c, k, in, out);
    out[0] = tl_square(c, out[0]);
}

// Where things were, put to use: the gradient does not pass through indices.
static void others_by_order(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *where;
    tl_sort(c, in[0], k->p[0], k->p[1] != 0, NULL, &where);
    out[0] = tl_take_along_axis(c, tl_square(c, in[1]), where, k->p[0]);
}

#define EXACT .flags = CASE_EXACT
#define CONSTANT .flags = CASE_EXACT | CASE_NO_GRADIENT
#define KINK .flags = CASE_EXACT | CASE_NO_DIFFERENCES

// clang-format off
static const op_case cases[] = {
    {"sort", {"7:distinct"}, sort, 2, {0}, EXACT, .torch = "torch.sort(a, stable=True)"},
    {"sort down", {"7:distinct"}, sort, 2, {0, 1}, EXACT,
     .torch = "torch.sort(a, descending=True, stable=True)"},
    {"sort rows", {"3x5:distinct"}, sort, 2, {-1}, EXACT, .torch = "torch.sort(a, 1)"},
    {"sort columns", {"5x3:distinct"}, sort, 2, {0}, EXACT, .torch = "torch.sort(a, 0)"},
    {"sort columns down", {"5x3:distinct"}, sort, 2, {0, 1}, EXACT,
     .torch = "torch.sort(a, 0, descending=True)"},
    {"sort middle", {"2x5x3:distinct"}, sort, 2, {1}, EXACT, .torch = "torch.sort(a, 1)"},
    {"sort one", {"1:distinct"}, sort, 2, {0}, EXACT},
    {"sort ones", {"4x1:distinct"}, sort, 2, {1}, EXACT},
    {"sort two", {"2:distinct"}, sort, 2, {0}, EXACT},
    {"sort nothing", {"3x0"}, sort, 2, {1}, EXACT},
    {"sort none", {"0x3"}, sort, 2, {1}, EXACT},
    {"sort T", {"4x5:distinct:T"}, sort, 2, {1}, EXACT},
    {"sort T columns", {"4x5:distinct:T"}, sort, 2, {0, 1}, EXACT},
    {"sort S", {"3x6:distinct:S"}, sort, 2, {-1}, EXACT},
    {"sort B rows", {"3x6:distinct:B"}, sort, 2, {1}, EXACT},
    {"sort B columns", {"3x4:distinct:B"}, sort, 2, {0}, KINK},
    {"sort 8", {"1x2x1x2x3x1x2x1:distinct"}, sort, 2, {4}, EXACT},
    {"sort long", {"2x130:distinct"}, sort, 2, {1}, KINK},
    {"sort ties", {"8:=1 3 1 2 3 2 1 3"}, sort, 2, {0}, KINK,
     .torch = "torch.sort(a, stable=True)"},
    {"sort ties down", {"8:=1 3 1 2 3 2 1 3"}, sort, 2, {0, 1}, KINK,
     .torch = "torch.sort(a, descending=True, stable=True)"},
    {"sort infinities", {"6:=inf 0 -inf 1 inf -inf"}, sort, 2, {0}, CONSTANT},
    {"sort nan", {"6:=nan 0 inf 1 nan -inf"}, sort, 2, {0}, CONSTANT,
     .torch = "torch.sort(a, stable=True)"},
    {"sort nan down", {"6:=nan 0 inf 1 nan -inf"}, sort, 2, {0, 1}, CONSTANT,
     .torch = "torch.sort(a, descending=True, stable=True)"},
    {"sort zeros", {"4:=0 -0 0 -0"}, sort, 2, {0}, CONSTANT},
    {"sort i8", {"3x5:i8"}, sort, 2, {1}, CONSTANT, .torch = "torch.sort(a, dim=1, stable=True)"},
    {"sort u8 down", {"3x5:u8"}, sort, 2, {0, 1}, CONSTANT,
     .torch = "torch.sort(a, dim=0, descending=True, stable=True)"},
    {"sort i64", {"9:i64"}, sort, 2, {0, 1}, CONSTANT},
    {"sort bools", {"7:bool"}, sort, 2, {0}, CONSTANT},
    {"sort squares", {"3x5:distinct"}, squares_of_sort, 2, {1},
     .torch = "torch.sort(a, 1)[0] ** 2"},
    {"sort squares down", {"5x3:distinct:T"}, squares_of_sort, 2, {0, 1},
     .torch = "torch.sort(a, 0, descending=True)[0] ** 2"},
    {"sort others", {"3x5:distinct:const", "3x5"}, others_by_order, 1, {1, 1},
     .torch = "torch.take_along_dim(b ** 2, torch.argsort(a, 1, descending=True), 1)"},
    {"sort axis", {"3x5"}, sort, 2, {2}, .fails = "sort: axis 2"},
    {"sort scalar", {"-"}, sort, 2, {0}, .fails = "sort: axis 0"},

    {"top_k", {"7:distinct"}, top_k, 2, {3}, EXACT, .torch = "torch.topk(a, 3)"},
    {"top_k rows", {"3x5:distinct"}, top_k, 2, {2}, EXACT, .torch = "torch.topk(a, 2)"},
    {"top_k one", {"3x5:distinct"}, top_k, 2, {1}, EXACT, .torch = "torch.topk(a, 1)"},
    {"top_k all", {"3x5:distinct"}, top_k, 2, {5}, EXACT, .torch = "torch.topk(a, 5)"},
    {"top_k none", {"3x5:distinct"}, top_k, 2, {0}, EXACT},
    {"top_k three", {"2x3x4:distinct"}, top_k, 2, {2}, EXACT, .torch = "torch.topk(a, 2)"},
    {"top_k T", {"4x5:distinct:T"}, top_k, 2, {2}, EXACT},
    {"top_k S", {"4x5:distinct:S"}, top_k, 2, {2}, EXACT},
    {"top_k B", {"4x5:distinct:B"}, top_k, 2, {2}, EXACT},
    {"top_k 8", {"1x2x1x2x1x1x2x3:distinct"}, top_k, 2, {2}, EXACT},
    {"top_k of nothing", {"0x5"}, top_k, 2, {2}, EXACT},
    {"top_k none of none", {"3x0"}, top_k, 2, {0}, EXACT},
    {"top_k ties", {"8:=1 3 1 2 3 2 1 3"}, top_k, 2, {4}, KINK},
    {"top_k the same", {"5:=2"}, top_k, 2, {3}, KINK},
    {"top_k nan", {"6:=nan 0 inf 1 nan -inf"}, top_k, 2, {4}, CONSTANT},
    {"top_k ints", {"3x5:i32"}, top_k, 2, {2}, CONSTANT},
    {"top_k u8", {"3x5:u8"}, top_k, 2, {4}, CONSTANT},
    {"top_k squares", {"3x5:distinct"}, squares_of_top_k, 2, {3},
     .torch = "torch.topk(a, 3)[0] ** 2"},
    {"top_k long", {"2x120:distinct"}, squares_of_top_k, 2, {7}, .flags = CASE_NO_DIFFERENCES,
     .torch = "torch.topk(a, 7)[0] ** 2"},
    {"top_k many", {"3x5"}, top_k, 2, {6}, .fails = "top_k: the 6 largest of the last axis of"},
    {"top_k negative", {"3x5"}, top_k, 2, {-1}, .fails = "top_k: the -1 largest"},
    {"top_k scalar", {"-"}, top_k, 2, {1}, .fails = "top_k: the input is a scalar"},

    /* --- large enough for several tasks, blocks and tails ------------------------------------- */
    {"sort many", {"5x3001"}, sort, 2, {1}, CONSTANT},
    {"sort many down", {"5x3001"}, sort, 2, {1, 1}, CONSTANT},
    {"sort many columns", {"301x40"}, sort, 2, {0}, CONSTANT},
    {"sort many i32", {"9x1001:i32:in(-30000,30000)"}, sort, 2, {1}, CONSTANT},
    {"sort many nan", {"9x601:=3 nan -0 0 inf -2 -inf"}, sort, 2, {1, 1}, CONSTANT},
};
// clang-format on

/* --- what rows cannot say --------------------------------------------------------------------- */

static void ties_keep_their_order(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const double values[] = {1, 3, 1, 2, 3, 2, 1, 3};
    int64_t got[8];
    tl_tensor *x = tl_from_doubles(c, TL_F32, TL_SHAPE(8), values), *where;
    tl_sort(c, x, 0, false, NULL, &where);
    assert_ok(tl_tensor_get(where, got, sizeof got));
    assert_memory_equal(got, ((const int64_t[]){0, 2, 6, 3, 5, 1, 4, 7}), sizeof got);
    tl_sort(c, x, 0, true, NULL, &where);
    assert_ok(tl_tensor_get(where, got, sizeof got));
    assert_memory_equal(got, ((const int64_t[]){1, 4, 7, 3, 5, 0, 2, 6}), sizeof got);
    tl_top_k(c, x, 4, NULL, &where);
    assert_ok(tl_tensor_get(where, got, 4 * sizeof *got));
    assert_memory_equal(got, ((const int64_t[]){1, 4, 7, 3}), 4 * sizeof *got);
}

static void nan_is_above_everything(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const double values[] = {NAN, 0, INFINITY, 1, NAN, -INFINITY};
    int64_t got[6];
    tl_tensor *x = tl_from_doubles(c, TL_F32, TL_SHAPE(6), values), *where;
    tl_sort(c, x, 0, false, NULL, &where);
    assert_ok(tl_tensor_get(where, got, sizeof got));
    assert_memory_equal(got, ((const int64_t[]){5, 1, 3, 2, 0, 4}), sizeof got);
    tl_top_k(c, x, 6, NULL, &where);
    assert_ok(tl_tensor_get(where, got, sizeof got));
    assert_memory_equal(got, ((const int64_t[]){0, 4, 2, 3, 1, 5}), sizeof got);
}

static void wide_integers_are_told_apart(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const int64_t values[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1};
    int64_t got[4];
    tl_tensor *x = tl_from(c, TL_I64, TL_SHAPE(4), values), *sorted;
    tl_sort(c, x, 0, false, &sorted, NULL);
    assert_ok(tl_tensor_get(sorted, got, sizeof got));
    assert_memory_equal(
        got, ((const int64_t[]){INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX}), sizeof got);
}

static void failures_leave_nothing(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = tl_ones(c, TL_F32, TL_SHAPE(3)), *values = x, *where = x;
    tl_top_k(c, x, 4, &values, &where);
    assert_null(values);
    assert_null(where);
    values = x;
    tl_sort(c, x, 0, false, &values, NULL);
    assert_null(values);
    assert_fails(tl_ctx_status(c), TL_EINVAL,
                 "top_k: the 4 largest of the last axis of float32[3]");
    tl_ctx_clear(c);
    tl_sort(c, NULL, 0, false, &values, NULL);
    assert_fails(tl_ctx_status(c), TL_EINVAL, "sort: an input is NULL");
    tl_ctx_clear(c);
}

int main(int argc, char **argv)
{
    int failed = op_cases_main(argc, argv, "sort", cases, TL_COUNT(cases));
    if (argc > 2) return failed; // some rows only, or their inputs
    const struct CMUnitTest tests[] = {
        LAB_TEST(ties_keep_their_order),
        LAB_TEST(nan_is_above_everything),
        LAB_TEST(wide_integers_are_told_apart),
        LAB_TEST(failures_leave_nothing),
    };
    int broken = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : broken;
}
