/* The op-case harness finds what is wrong: each row here has one mistake. */
#include "op_cases.h"
#include "test.h"

#include <stdlib.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/sys/core/backend.h>
#include <unistd.h>

static char told[16384];

/* Runs the rows and keeps what they print. */
static int run_rows(const op_case *cases, int64_t count, int argc, char **argv)
{
    fflush(stdout);
    FILE *to = tmpfile();
    int before = dup(STDOUT_FILENO);
    assert_true(to && before >= 0 && dup2(fileno(to), STDOUT_FILENO) >= 0);
    int code = op_cases_main(argc, argv, "selftest", cases, count);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(to);
    told[fread(told, 1, sizeof told - 1, to)] = 0;
    fclose(to);
    return code;
}

static void expect_complaint(const op_case *k, const char *text)
{
    int code = run_rows(k, 1, 2, (char *[]){"test", "--no-golden", NULL});
    if (code != 1 || !strstr(told, text))
        fail_msg("'%s' gave %d and told:\n%s\nwhich lacks: %s", k->name, code, told, text);
}

static void expect_no_complaint(const op_case *k)
{
    int code = run_rows(k, 1, 2, (char *[]){"test", "--no-golden", NULL});
    if (code != 0) fail_msg("'%s' told:\n%s", k->name, told);
}

static tl_tensor *times(tl_ctx *c, tl_tensor *x, double factor)
{
    return x ? tl_mul(c, x, tl_number(c, x->dtype, factor)) : NULL;
}

/* A tensor of the same numbers through which no gradient flows. */
static tl_tensor *detached(tl_ctx *c, const tl_tensor *x)
{
    double v[64];
    if (!x) return NULL;
    assert_true(tl_tensor_count(x) <= 64);
    if (tl_tensor_get_doubles(x, v, tl_tensor_count(x)) != TL_OK) return tl_ctx_fail(c);
    return tl_from_doubles(c, x->dtype, x->shape, v);
}

static const char *backend_of(const tl_ctx *c)
{
    return tl_engine_backend(tl_ctx_engine(c))->cls.name;
}

OP_CALL(square, tl_mul(c, in[0], in[0]))
OP_CALL(half_a_gradient, tl_mul(c, in[0], detached(c, in[0])))
OP_CALL(product, tl_mul(c, in[0], in[1]))
OP_CALL(by_backend, times(c, in[0], strcmp(backend_of(c), "reference") ? 1 + 1e-4 : 1))
OP_CALL(by_type, times(c, in[0], in[0]->dtype == TL_BF16 ? 1.03125 : 1))
OP_CALL(by_capture, times(c, in[0], tl_ctx_capturing(c) ? 1 + 0x1p-23 : 1))
OP_CALL(by_function, times(c, in[0], in[0]->storage ? 1 : 1 + 1e-4)) // which has inputs of its own
OP_CALL(by_threads,
        times(c, in[0],
              tl_pool_threads(tl_engine_threads(tl_ctx_engine(c))) == 7 ? 1 + 0x1p-23 : 1))
OP_CALL(reads_elements, detached(c, tl_mul(c, in[0], in[0])))
OP_CALL(nothing, NULL)
OP_CALL(exponential, tl_exp(c, in[0]))
OP_CALL(nan_in_float16, times(c, in[0], in[0]->dtype == TL_F16 ? NAN : 1))
OP_CALL(shape_by_type, in[0]->dtype == TL_F32 ? tl_reshape(c, in[0], TL_SHAPE(4))
                                              : tl_reshape(c, in[0], TL_SHAPE(2, 2)))

/* x^3 as 3 x d^2 - 2 d^3 with d = x: the gradient is right, what it depends on is lost. */
static void cube_without_second(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *d = detached(c, in[0]), *d2 = tl_mul(c, d, d);
    (void)k;
    out[0] = tl_add(c, times(c, tl_mul(c, in[0], d2), 3), times(c, tl_mul(c, d2, d), -2));
}

/* x + 0 * (numbers that nobody has written): right by luck. */
static void reads_unwritten(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *garbage = tl_ctx_header(c);
    (void)k;
    if (!garbage) return;
    garbage->dtype = TL_I64;
    garbage->shape = in[0]->shape;
    tl_shape_strides(garbage->strides, &garbage->shape);
    garbage->contiguous = true;
    if (!tl_ctx_storage(c, garbage)) return;
    out[0] = tl_add(c, in[0], times(c, tl_cast(c, garbage, in[0]->dtype), 0));
}

static tl_tensor *kept;
static void keep_one(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    (void)k;
    out[0] = tl_mul(c, in[0], in[0]);
    if (!kept && out[0] && out[0]->storage && strcmp(backend_of(c), "reference") == 0)
        assert_ok(tl_tensor_keep(&kept, out[0]));
}

static void right_rows_pass(void **state)
{
    (void)state;
    expect_no_complaint(&(op_case){"square", {"2x3:S"}, square});
    expect_no_complaint(&(op_case){"square of many", {"7x5x11:T"}, square});
    expect_no_complaint(&(op_case){"square of the same", {"3x4:B"}, square});
    expect_no_complaint(
        &(op_case){"not finite", {"4:=0 nan inf -inf"}, exponential, .flags = CASE_NO_DIFFERENCES});
    expect_no_complaint(&(op_case){"refused", {"3", "4"}, product, .fails = "do not broadcast"});
}

/* x^3 by which the gradient of a gradient goes wrong on other backends alone. */
static void cube_by_backend(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    if (strcmp(backend_of(c), "reference")) cube_without_second(c, k, in, out);
    else out[0] = tl_mul(c, tl_mul(c, in[0], in[0]), in[0]);
}

static void derivatives(void **state)
{
    (void)state;
    expect_complaint(&(op_case){"wrong", {"2x3"}, half_a_gradient},
                     "FAIL wrong | reference float64 | gradient of input 0 | element 0 of 6");
    expect_complaint(&(op_case){"wrong", {"8x3"}, half_a_gradient},
                     "gradient of input 0 | element 0 of 24");
    expect_complaint(&(op_case){"wrong", {"2x3"}, cube_without_second},
                     "| second derivative of input 0 | element 0 of 6");
    expect_no_complaint(
        &(op_case){"not asked", {"2x3:T"}, cube_without_second, .flags = CASE_NO_DIFFERENCES});
    expect_complaint(&(op_case){"first order", {"2x3"}, square, .flags = CASE_NO_SECOND},
                     "second derivative | must be refused");
    expect_complaint(&(op_case){"elsewhere", {"2x3:T"}, cube_by_backend},
                     "float32, second derivative | of input 0 | element");
    expect_complaint(&(op_case){"constant", {"2x3:int<4"}, square}, "no float input");
}

static void backends_and_types(void **state)
{
    (void)state;
    expect_complaint(&(op_case){"b", {"2x3"}, by_backend},
                     "float32 | output 0 | element [0, 1]: expected");
    expect_complaint(&(op_case){"t", {"2x3"}, by_type}, "reference bfloat16 | output 0");
    expect_complaint(&(op_case){"n", {"2x2"}, nan_in_float16},
                     "reference float16 | output 0 | element [0, 0]");
    expect_complaint(&(op_case){"s", {"2x2"}, shape_by_type},
                     "is float32[4], expected float64[2, 2]");
    expect_complaint(&(op_case){"e", {"2x3"}, by_backend, .flags = CASE_EXACT, .scale = 100},
                     "bit for bit");
}

static void bits(void **state)
{
    (void)state;
    expect_complaint(&(op_case){"c", {"2x3"}, by_capture},
                     "float32, captured and replayed | output 0");
    expect_complaint(&(op_case){"r", {"2x3"}, reads_elements, .flags = CASE_NO_GRADIENT},
                     "captured and replayed | failed (state)");
    expect_complaint(&(op_case){"f", {"2x3"}, by_function}, "float32, as a function | output 0");
    expect_complaint(&(op_case){"p", {"2x3"}, by_threads}, "7 threads against one | output 0");
}

static void failures(void **state)
{
    (void)state;
    expect_complaint(&(op_case){"null", {"2"}, nothing},
                     "output 0 is NULL, and no message says why");
    expect_complaint(&(op_case){"fine", {"2"}, square, .fails = "shape"},
                     "must fail with \"shape\", and succeeded");
    expect_complaint(&(op_case){"other", {"2:bool"}, exponential, .fails = "no such text"},
                     "and failed (invalid) with: exp");
    expect_complaint(&(op_case){"word", {"2:odd"}, square}, "'odd' is no word of an input");
    expect_complaint(&(op_case){"shape", {"2y3"}, square}, "'2y3' is no shape");
}

static void the_checking_backend(void **state)
{
    (void)state;
    expect_complaint(&(op_case){"luck", {"2x3"}, reads_unwritten, .flags = CASE_F32_UP},
                     "FAIL luck | check(");
}

static void leaks(void **state)
{
    (void)state;
    expect_complaint(&(op_case){"leak", {"2x3"}, keep_one}, "bytes are still used");
    tl_engine *e = tl_tensor_engine(kept); // was left alone, because of the tensor
    tl_tensor_free(&kept);
    tl_engine_free(&e);
}

static void missing_golden_values(void **state)
{
    (void)state;
    op_case k = {"square", {"2"}, square, .torch = "a * a"};
    assert_int_equal(run_rows(&k, 1, 1, (char *[]){"test", NULL}), 1);
    assert_non_null(strstr(told, "PyTorch's values are missing; run tests/golden/ops.py"));
    op_case twice[] = {{"square", {"2"}, square}, {"square", {"3"}, square}};
    assert_int_equal(run_rows(twice, 2, 1, (char *[]){"test", NULL}), 1);
    assert_non_null(strstr(told, "two rows have this name"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_rows_pass),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(backends_and_types),
        cmocka_unit_test(bits),
        cmocka_unit_test(failures),
        cmocka_unit_test(leaks),
        cmocka_unit_test(the_checking_backend),
        cmocka_unit_test(missing_golden_values),
    };
    setenv("TILTH_ALL_CASES", "1", 1); // a row must not be left out here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
