/* Gathering, scattering and sorting by indices, wrong ones too. runs: fake device */
#include "ops/lab.h"

#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/sys/ops/apply.h>

#include "op_cases.h"

OP_CALL(gather, tl_gather(c, in[0], in[1], k->p[0]))
OP_CALL(lookup, tl_lookup(c, in[0], in[1]))
OP_CALL(gather_grad, tl_gather_grad(c, in[0], in[1], k->p[0], k->p[1]))
OP_CALL(scatter_add, tl_scatter_add(c, in[0], in[1], in[2], k->p[0]))
OP_CALL(take_along, tl_take_along_axis(c, in[0], in[1], k->p[0]))
OP_CALL(take_along_grad, tl_take_along_axis_grad(c, in[0], in[1], k->p[0], k->p[1]))

/* Functions of what was found, so that second derivatives have something to find. */
OP_CALL(square_of_gather, tl_square(c, tl_gather(c, in[0], in[1], k->p[0])))
OP_CALL(square_of_lookup, tl_square(c, tl_lookup(c, in[0], in[1])))
OP_CALL(square_of_gather_grad, tl_square(c, tl_gather_grad(c, in[0], in[1], k->p[0], k->p[1])))
OP_CALL(square_of_scatter, tl_square(c, tl_scatter_add(c, in[0], in[1], in[2], k->p[0])))
OP_CALL(square_of_take_along, tl_square(c, tl_take_along_axis(c, in[0], in[1], k->p[0])))
OP_CALL(square_of_take_along_grad,
        tl_square(c, tl_take_along_axis_grad(c, in[0], in[1], k->p[0], k->p[1])))

#define EXACT .flags = CASE_EXACT
#define CONSTANT .flags = CASE_EXACT | CASE_NO_GRADIENT

// clang-format off
static const op_case cases[] = {
    /* --- gather ------------------------------------------------------------------------------- */
    {"gather rows", {"4x3", "5:int64<4"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather columns", {"3x4", "5:int64<4"}, gather, .p = {1}, EXACT, .torch = "a[:, b]"},
    {"gather last", {"2x3x4", "5:int<4"}, gather, .p = {-1}, EXACT, .torch = "a[:, :, b]"},
    {"gather middle", {"2x3x4", "5:int<3"}, gather, .p = {1}, EXACT, .torch = "a[:, b]"},
    {"gather first of three", {"2x3x4", "3:int<2"}, gather, .p = {-3}, EXACT},
    {"gather one index", {"4x3", "-:int<4"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather matrix of indices", {"4x3", "2x3:int<4"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather matrix in the middle", {"2x4x3", "2x2:int<4"}, gather, .p = {1}, EXACT,
     .torch = "a[:, b]"},
    {"gather vector", {"6", "4:int<6"}, gather, .p = {0}, EXACT},
    {"gather to scalar", {"6", "-:int<6"}, gather, .p = {0}, EXACT},
    {"gather the same", {"4x3", "6:int<1"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather repeated", {"3x2", "7:i64:=2 0 2 2 1 0 2"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather nothing", {"4x3", "0:int<4"}, gather, .p = {0}, EXACT},
    {"gather nothing in the middle", {"2x4x3", "0x2:int<4"}, gather, .p = {1}, EXACT},
    {"gather nothing of nothing", {"0x3", "0:int<4"}, gather, .p = {0}, EXACT},
    {"gather of empty rows", {"4x0", "3:int<4"}, gather, .p = {0}, EXACT},
    {"gather of empty batch", {"0x4", "3:int<4"}, gather, .p = {1}, EXACT},
    {"gather T", {"4x3:T", "5:int<4"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather S", {"4x3:S", "5:int<3:S"}, gather, .p = {1}, EXACT, .torch = "a[:, b]"},
    {"gather B", {"4x3:B", "5:int<4"}, gather, .p = {0}, EXACT},
    {"gather transposed indices", {"4x3", "2x3:int<4:T"}, gather, .p = {0}, EXACT, .torch = "a[b]"},
    {"gather repeated indices", {"4x3", "2x3:int<4:B"}, gather, .p = {0}, EXACT},
    {"gather 8", {"1x2x1x2x3x1x2x1", "4:int<3"}, gather, .p = {4}, EXACT},
    {"gather to 8", {"2x2x3x1x2x1", "2x1x2:int<3"}, gather, .p = {2}, EXACT},
    {"gather by i8", {"4x3", "5:i8:int<4"}, gather, .p = {0}, EXACT},
    {"gather by i16", {"4x3", "5:i16:int<4"}, gather, .p = {0}, EXACT},
    {"gather by u8", {"4x3", "5:u8:int<4"}, gather, .p = {0}, EXACT},
    {"gather ints", {"4x3:i64", "5:int<4"}, gather, .p = {0}, CONSTANT},
    {"gather small ints", {"4x3:i8", "5:int<3"}, gather, .p = {1}, CONSTANT},
    {"gather bools", {"4x3:bool", "5:int<4"}, gather, .p = {0}, CONSTANT},
    {"gather squares", {"4x3", "6:int<4"}, square_of_gather, .p = {0}, .torch = "a[b] ** 2"},
    {"gather squares of columns", {"3x4:T", "2x3:int<4"}, square_of_gather, .p = {1},
     .torch = "a[:, b] ** 2"},
    {"gather many", {"37x5", "101:int<37"}, square_of_gather, .p = {0}},
    {"gather outside", {"4x3", "3:i64:=1 4 2"}, gather, .p = {0},
     .fails = "gather: index 4 (at [1] of the indices) is not below 4, the size of axis 0"},
    {"gather below", {"3x4", "2x2:i64:=1 0 3 -1"}, gather, .p = {1},
     .fails = "index -1 (at [1, 1] of the indices) is not below 4"},
    {"gather of empty axis", {"0x3", "1:i64:=0"}, gather, .p = {0}, .fails = "index 0 (at [0]"},
    {"gather by floats", {"4x3", "3"}, gather, .p = {0}, .fails = "must be of an integer type"},
    {"gather by bools", {"4x3", "4:bool"}, gather, .p = {0}, .fails = "must be of an integer type"},
    {"gather axis", {"4x3", "3:int<3"}, gather, .p = {2}, .fails = "gather: axis 2"},
    {"gather of scalar", {"-", "3:int<3"}, gather, .p = {0}, .fails = "gather: axis 0"},
    {"gather too many", {"2x2x2x2x2", "1x1x1x1x1:int<2"}, gather, .p = {0},
     .fails = "give 9; at most 8"},

    /* --- lookup ------------------------------------------------------------------------------- */
    {"lookup", {"5x4", "2x3:int<5"}, lookup, EXACT, .torch = "F.embedding(b, a)"},
    {"lookup one", {"5x4", "-:int<5"}, lookup, EXACT, .torch = "F.embedding(b, a)"},
    {"lookup nothing", {"5x4", "2x0:int<5"}, lookup, EXACT},
    {"lookup the same", {"5x4", "3x3:int<1"}, square_of_lookup, .torch = "F.embedding(b, a) ** 2"},
    {"lookup squares", {"7x3", "4x5:int64<7"}, square_of_lookup, .torch = "F.embedding(b, a) ** 2"},
    {"lookup long", {"100x8", "16x16:int<100"}, square_of_lookup},
    {"lookup T", {"5x4:T", "2x3:int<5:T"}, lookup, EXACT},
    {"lookup rank", {"5x4x2", "2:int<5"}, lookup, .fails = "the table is"},
    {"lookup outside", {"5x4", "2:i32:=2 7"}, lookup, .fails = "index 7 (at [1]"},

    /* --- gather_grad, scatter_add ------------------------------------------------------------- */
    {"gather_grad", {"5x3", "5:int<4"}, gather_grad, .p = {0, 4},
     .torch = "torch.zeros(4, 3, dtype=torch.float64).index_add(0, b, a)"},
    {"gather_grad columns", {"3x5", "5:int<4"}, gather_grad, .p = {1, 4},
     .torch = "torch.zeros(3, 4, dtype=torch.float64).index_add(1, b, a)"},
    {"gather_grad last", {"2x3x5", "5:int<4"}, gather_grad, .p = {-1, 4}},
    {"gather_grad of matrices", {"2x3x4", "2x3:int<5"}, gather_grad, .p = {0, 5},
     .torch = "torch.zeros(5, 4, dtype=torch.float64).index_add(0, b.reshape(6), a.reshape(6, 4))"},
    {"gather_grad of one", {"3", "-:int<5"}, gather_grad, .p = {0, 5}},
    {"gather_grad nothing", {"0x3", "0:int<5"}, gather_grad, .p = {0, 5}},
    {"gather_grad to nothing", {"0x3", "0:int<5"}, gather_grad, .p = {0, 0}},
    {"gather_grad empty rows", {"2x0", "2:int<5"}, gather_grad, .p = {0, 5}},
    {"gather_grad all in one", {"9x2", "9:int<1"}, gather_grad, .p = {0, 3}},
    {"gather_grad T", {"5x3:T", "5:int<4"}, gather_grad, .p = {0, 4}},
    {"gather_grad B", {"5x3:B", "5:int<4:S"}, gather_grad, .p = {0, 4}},
    {"gather_grad ints", {"5x3:i32", "5:int<4"}, gather_grad, .p = {0, 4}, CONSTANT},
    {"gather_grad squares", {"6x3", "6:int<4"}, square_of_gather_grad, .p = {0, 4}},
    {"gather_grad 8", {"1x2x1x4x1x2x1x2", "4:int<3"}, square_of_gather_grad, .p = {3, 3}},
    {"gather_grad many", {"300x3", "300:int<11"}, square_of_gather_grad, .p = {0, 11}, .scale = 4},
    {"gather_grad outside", {"2x3", "2:i64:=1 5"}, gather_grad, .p = {0, 5},
     .fails = "index 5 (at [1]"},
    {"gather_grad size", {"2x3", "2:int<2"}, gather_grad, .p = {0, -1}, .fails = "a size of -1"},
    {"gather_grad shape", {"4x3", "2:int<2"}, gather_grad, .p = {0, 5},
     .fails = "must stand at axis 0"},
    {"gather_grad few", {"3", "2x2:int<2"}, gather_grad, .p = {0, 5}, .fails = "fewer dimensions"},
    {"gather_grad axis", {"2x3", "2:int<2"}, gather_grad, .p = {2, 5}, .fails = "axis 2"},
    {"gather_grad bools", {"2x3:bool", "2:int<2"}, gather_grad, .p = {0, 5},
     .fails = "of a number type"},
    {"scatter_add", {"4x3", "5:int<4", "5x3"}, scatter_add, .p = {0},
     .torch = "a.index_add(0, b, c)"},
    {"scatter_add columns", {"3x4", "2:int<4", "3x2"}, scatter_add, .p = {1},
     .torch = "a.index_add(1, b, c)"},
    {"scatter_add last", {"2x3x4", "2:int<4", "2x3x2"}, scatter_add, .p = {-1}},
    {"scatter_add repeated", {"3x2", "6:int<2", "6x2"}, scatter_add, .p = {0},
     .torch = "a.index_add(0, b, c)"},
    {"scatter_add one", {"4x3", "-:int<4", "3"}, scatter_add, .p = {0}},
    {"scatter_add nothing", {"4x3", "0:int<4", "0x3"}, scatter_add, .p = {0}},
    {"scatter_add matrix", {"4x3", "2x2:int<4", "2x2x3"}, scatter_add, .p = {0}},
    {"scatter_add views", {"4x3:T", "5:int<4:S", "5x3:B"}, scatter_add, .p = {0}},
    {"scatter_add const", {"4x3:const", "5:int<4", "5x3"}, scatter_add, .p = {0}},
    {"scatter_add ints", {"4x3:i64", "5:int<4", "5x3:i64"}, scatter_add, .p = {0}, CONSTANT},
    {"scatter_add squares", {"4x3", "5:int<4", "5x3"}, square_of_scatter, .p = {0},
     .torch = "a.index_add(0, b, c) ** 2"},
    {"scatter_add 8", {"1x2x1x3x1x2x1x2", "4:int<3", "1x2x1x4x1x2x1x2"},
     square_of_scatter, .p = {3}},
    {"scatter_add shape", {"4x3", "5:int<4", "5x2"}, scatter_add, .p = {0},
     .fails = "must be [5, 3]"},
    {"scatter_add stretched", {"4x1", "5:int<4", "5x3"}, scatter_add, .p = {0},
     .fails = "must be [5, 1]"},
    {"scatter_add outside", {"4x3", "2:i64:=0 4", "2x3"}, scatter_add, .p = {0},
     .fails = "index 4 (at [1]"},
    {"scatter_add axis", {"4x3", "2:int<4", "2x3"}, scatter_add, .p = {-3},
     .fails = "scatter_add: axis -3"},

    /* --- take_along_axis ---------------------------------------------------------------------- */
    {"take_along rows", {"4x3", "2x3:int<4"}, take_along, .p = {0}, EXACT,
     .torch = "torch.take_along_dim(a, b, 0)"},
    {"take_along columns", {"3x4", "3x6:int<4"}, take_along, .p = {1}, EXACT,
     .torch = "torch.take_along_dim(a, b, 1)"},
    {"take_along middle", {"2x4x3", "2x5x3:int<4"}, take_along, .p = {-2}, EXACT,
     .torch = "torch.take_along_dim(a, b, 1)"},
    {"take_along vector", {"6", "4:int<6"}, take_along, .p = {0}, EXACT},
    {"take_along one", {"3x4", "3x1:int<4"}, take_along, .p = {-1}, EXACT},
    {"take_along repeated", {"3x4", "3x7:int<1"}, take_along, .p = {1}, EXACT},
    {"take_along nothing", {"3x4", "3x0:int<4"}, take_along, .p = {1}, EXACT},
    {"take_along of nothing", {"0x4", "0x2:int<4"}, take_along, .p = {1}, EXACT},
    {"take_along T", {"3x4:T", "3x2:int<4:T"}, take_along, .p = {1}, EXACT},
    {"take_along S", {"3x4:S", "3x2:int<4:S"}, take_along, .p = {1}, EXACT},
    {"take_along B", {"3x4:B", "3x2:int<4:B"}, take_along, .p = {1}, EXACT},
    {"take_along 8", {"1x2x1x3x1x2x1x2", "1x2x1x4x1x2x1x2:int<3"}, take_along, .p = {3}, EXACT},
    {"take_along ints", {"3x4:i16", "3x2:int<4"}, take_along, .p = {1}, CONSTANT},
    {"take_along squares", {"3x4", "3x6:int<4"}, square_of_take_along, .p = {1},
     .torch = "torch.take_along_dim(a, b, 1) ** 2"},
    {"take_along outside", {"3x4", "3x1:i64:=0 4 1"}, take_along, .p = {1},
     .fails = "index 4 (at [1, 0]"},
    {"take_along rank", {"3x4", "3:int<3"}, take_along, .p = {0},
     .fails = "may differ along axis 0 alone"},
    {"take_along shape", {"3x4", "2x4:int<3"}, take_along, .p = {1},
     .fails = "may differ along axis 1 alone"},
    {"take_along floats", {"3x4", "3x4"}, take_along, .p = {1},
     .fails = "must be of an integer type"},
    {"take_along_grad", {"3x6", "3x6:int<4"}, take_along_grad, .p = {1, 4},
     .torch = "torch.zeros(3, 4, dtype=torch.float64).scatter_add(1, b, a)"},
    {"take_along_grad rows", {"6x2", "6x2:int<3"}, take_along_grad, .p = {0, 3},
     .torch = "torch.zeros(3, 2, dtype=torch.float64).scatter_add(0, b, a)"},
    {"take_along_grad nothing", {"3x0", "3x0:int<4"}, take_along_grad, .p = {1, 4}},
    {"take_along_grad views", {"3x6:T", "3x6:int<4:B"}, take_along_grad, .p = {-1, 4}},
    {"take_along_grad squares", {"2x5x3", "2x5x3:int<4"}, square_of_take_along_grad, .p = {1, 4}},
    {"take_along_grad ints", {"3x6:i8", "3x6:int<4"}, take_along_grad, .p = {1, 4}, CONSTANT},
    {"take_along_grad shape", {"3x6", "3x5:int<4"}, take_along_grad, .p = {1, 4},
     .fails = "must have the same shape"},
    {"take_along_grad outside", {"1x2", "1x2:i64:=0 4"}, take_along_grad, .p = {1, 4},
     .fails = "index 4"},
    {"take_along_grad size", {"1x2", "1x2:int<1"}, take_along_grad, .p = {1, -2},
     .fails = "a size of -2"},

    /* --- large enough for several tasks, blocks and tails ------------------------------------- */
    {"gather many rows", {"50x601", "700:int<50"}, gather, .p = {0}, CONSTANT},
    {"gather many columns", {"301x40", "901:int64<40"}, gather, .p = {1}, CONSTANT},
    {"gather many in the middle", {"30x40x3", "1203:int<40"}, gather, .p = {1}, CONSTANT},
    {"gather_grad many rows", {"1001x601", "1001:int<37"}, gather_grad, .p = {0, 37},
     .flags = CASE_NO_GRADIENT, .scale = 4},
    {"gather_grad many columns", {"301x900", "900:int<370"}, gather_grad, .p = {1, 370},
     .flags = CASE_NO_GRADIENT, .scale = 4},
    {"gather_grad many ints", {"1001x7:i32", "1001:int<37"}, gather_grad, .p = {0, 37}, CONSTANT},
    {"take_along many", {"301x50", "301x701:int<50"}, take_along, .p = {1}, CONSTANT},
    {"take_along many rows", {"50x701", "60x701:int64<50"}, take_along, .p = {0}, CONSTANT},
    {"take_along_grad many", {"60x701", "60x701:int<50"}, take_along_grad, .p = {1, 50},
     .flags = CASE_NO_GRADIENT | CASE_F32_UP, .scale = 4},
    {"take_along_grad many rows", {"3x60x701", "3x60x701:int<50"}, take_along_grad, .p = {1, 50},
     .flags = CASE_NO_GRADIENT | CASE_F32_UP, .scale = 4},
};
// clang-format on

/* --- what rows cannot say --------------------------------------------------------------------- */

static void true_elements_are_listed(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const double values[] = {0, 1, 0, -2, 0, 0.5};
    tl_tensor *x = tl_from_doubles(c, TL_F32, TL_SHAPE(2, 3), values);
    tl_tensor *where = tl_where_indices(c, x);
    int64_t got[6];
    assert_non_null(where);
    assert_int_equal(where->dtype, TL_I64);
    assert_ok(tl_tensor_get(where, got, sizeof got));
    assert_memory_equal(got, ((const int64_t[]){0, 1, 1, 0, 1, 2}), sizeof got);
    // Views too, in their own order.
    where = tl_where_indices(c, tl_swap_axes(c, x, 0, 1));
    assert_ok(tl_tensor_get(where, got, sizeof got));
    assert_memory_equal(got, ((const int64_t[]){0, 1, 1, 0, 2, 1}), sizeof got);
    // None, and a scalar, which has no coordinates.
    where = tl_where_indices(c, tl_zeros(c, TL_BOOL, TL_SHAPE(4)));
    assert_true(tl_shape_equal(&where->shape, &(tl_shape){.rank = 2, .dims = {0, 1}}));
    where = tl_where_indices(c, tl_ones(c, TL_BOOL, TL_SCALAR));
    assert_true(tl_shape_equal(&where->shape, &(tl_shape){.rank = 2, .dims = {1, 0}}));
    where = tl_where_indices(c, tl_ones(c, TL_BOOL, TL_SHAPE(0, 3)));
    assert_true(tl_shape_equal(&where->shape, &(tl_shape){.rank = 2, .dims = {0, 2}}));
    assert_ok(tl_ctx_status(c));
}

static void counting_the_true_is_refused_while_capturing(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    tl_tensor *x = tl_ones(c, TL_BOOL, TL_SHAPE(4));
    tl_ctx_set_capturing(c, true);
    assert_null(tl_where_indices(c, x));
    assert_fails(tl_ctx_status(c), TL_ESTATE,
                 "where_indices: how many elements are true is not known");
    tl_ctx_clear(c);
    tl_ctx_set_capturing(c, false);
    assert_null(tl_where_indices(c, NULL));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "where_indices: an input is NULL");
    tl_ctx_clear(c);
}

static void captured_indices_are_checked_when_they_run(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const int64_t two[] = {0, 9};
    tl_tensor *x = tl_ones(c, TL_F32, TL_SHAPE(4, 2)), *ids = tl_from(c, TL_I64, TL_SHAPE(2), two);
    tl_ctx_set_capturing(c, true);
    tl_ctx_enter(c, "net");
    tl_tensor *y = tl_lookup(c, x, ids);
    tl_ctx_leave(c);
    tl_ctx_set_capturing(c, false);
    assert_non_null(y);
    tl_status st = tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c));
    if (st == TL_OK) st = tl_engine_wait(tl_ctx_engine(c)); // a device tells when it has run
    assert_int_equal(st, TL_EINVAL);
    assert_non_null(
        strstr(tl_error_message(), "net: gather: index 9 (at [1] of the indices) is not below 4"));
    const int64_t good[] = {0, 3};
    assert_ok(tl_tensor_set(ids, good, sizeof good));
    assert_ok(tl_replay(c, tl_ctx_first_node(c), tl_ctx_last_node(c)));
}

static void sums_of_integers_are_exact(void **state)
{
    tl_ctx *c = ((fixture *)*state)->c;
    const int64_t updates[] = {INT64_MAX - 5, 3, 1}, places[] = {1, 1, 0};
    int64_t got[2];
    tl_tensor *u = tl_from(c, TL_I64, TL_SHAPE(3), updates),
              *i = tl_from(c, TL_I64, TL_SHAPE(3), places);
    assert_ok(tl_tensor_get(tl_gather_grad(c, u, i, 0, 2), got, sizeof got));
    assert_true(got[0] == 1 && got[1] == INT64_MAX - 2);
    assert_ok(tl_tensor_get(tl_take_along_axis_grad(c, u, i, 0, 2), got, sizeof got));
    assert_true(got[0] == 1 && got[1] == INT64_MAX - 2);
}

static void repeated_updates_are_rounded_once(void **state)
{
    // In bfloat16 256 + 1 is 256 again; sums must not be.
    tl_ctx *c = ((fixture *)*state)->c;
    double got[2];
    tl_tensor *u = tl_ones(c, TL_BF16, TL_SHAPE(600, 2)), *i = tl_zeros(c, TL_I32, TL_SHAPE(600));
    tl_tensor *x = tl_full(c, TL_BF16, TL_SHAPE(1, 2), 256);
    assert_ok(tl_tensor_get_doubles(tl_gather_grad(c, u, i, 0, 1), got, 2));
    assert_near(got[0], 600, 0);
    assert_ok(tl_tensor_get_doubles(tl_scatter_add(c, x, i, u, 0), got, 2));
    assert_near(got[1], 856, 0);
    assert_int_equal(tl_scatter_add(c, x, i, u, 0)->dtype, TL_BF16);
}

int main(int argc, char **argv)
{
    int failed = op_cases_main(argc, argv, "index", cases, TL_COUNT(cases));
    if (argc > 2) return failed; // some rows only, or their inputs
    const struct CMUnitTest tests[] = {
        LAB_TEST(true_elements_are_listed),
        cmocka_unit_test_setup_teardown(counting_the_true_is_refused_while_capturing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(captured_indices_are_checked_when_they_run, setup,
                                        teardown),
        LAB_TEST(sums_of_integers_are_exact),
        LAB_TEST(repeated_updates_are_rounded_once),
    };
    int broken = cmocka_run_group_tests(tests, NULL, NULL);
    return failed ? failed : broken;
}
