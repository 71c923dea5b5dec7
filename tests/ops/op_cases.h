/* Tables of cases for ops: a row names inputs and a call, and gets every check there is.
 *
 *     OP_CALL(softmax, tl_softmax(c, in[0], k->p[0]))
 *     static const op_case cases[] = {
 *         {"softmax rows", {"3x5"}, softmax, .p = {1}, .torch = "F.softmax(a, 1)"},
 *         {"softmax of a view", {"3x5:T"}, softmax, .p = {-1}},
 *         {"softmax axis", {"3x5"}, softmax, .p = {2}, .fails = "axis 2"},
 *     };
 *     int main(int argc, char **argv)
 *     {
 *         return op_cases_main(argc, argv, "softmax", cases, TL_COUNT(cases));
 *     }
 *
 * What a row is checked for:
 *  - gradients and second derivatives in float64 on the reference backend, against differences;
 *    and the second ones of the best backend, or of a device, against those;
 *  - the same bits when it is captured and replayed, and with any number of threads;
 *  - every backend of this machine and every float type against the reference in float64;
 *  - the checking backend's complaints; memory given back; failing allocations (some rows);
 *  - as a function of graph mode, with its gradient, against the calls one by one;
 *  - PyTorch's values, for rows with an expression (made by tests/golden/ops.py).
 *
 * Programs take `--only TEXT` (rows whose name contains it), `--no-golden`, `--verbose`,
 * `--golden-inputs FILE` (writes what ops.py reads, and exits), `--coverage` (tells what ops the
 * rows run, and exits; test_coverage.c asks for it) and `--compiled` (one row of each call, all in
 * one compiled function, and exits; test_compiled.c asks for it). */
#ifndef TILTH_TESTS_OP_CASES_H
#define TILTH_TESTS_OP_CASES_H

#include <tilth/core/ctx.h>

// Rows say what differs and leave the rest out.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum { OP_CASE_MAX = 8 }; /* inputs, outputs */

/* Inputs: dimensions ("2x3", "-" is a scalar, "0x4"), then words, each behind a colon.
 *   values   default: normal numbers, none closer to 0 than 1/32, rounded to bfloat16 so that all
 *            float types see the same; `positive`, `unit` (in (0, 1)), `distinct` (no ties, well
 *            apart, none 0), `in(-3,3)`, `=1 -0 nan inf` (these, again and again)
 *   types    `int<N` (int32 in [0, N)), `int64<N`, `bool`; a fixed type: `f32` `bf16` `f16` `f64`
 *            `i8` `i16` `i32` `i64` `u8` (integers are small numbers, or as `in` or `int<N` says).
 *            Floats without one are of the type that is being checked
 *   `const`  a float without a gradient
 *   layout   `T` transposed (all axes reversed in memory), `S` every second element of the last
 *            axis, `B` stride 0 along axis 0, `O` row-major. Such views start inside their storage,
 *            at an odd element; gaps hold NaN */
typedef struct op_case op_case;
struct op_case {
    const char *name; /* unique in its file */
    const char *in[OP_CASE_MAX];
    void (*call)(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out);
    int outputs;   /* 0 means 1 */
    int64_t p[12]; /* numbers for call */
    double q[6];
    unsigned flags;
    /* Python: a, b, c, ... are the inputs (float64 leaves, int64 or bool), p and q the numbers, F
     * is torch.nn.functional, torch and math are there; gives a tensor or a tuple of them. Outputs
     * that are None or missing at the end are not compared, and no gradient is taken of them. */
    const char *torch;
    const char *fails; /* the call must fail with a message that contains this (in float32) */
    double scale;      /* multiplies tolerances; 0 means 1 */
};

/* flags of a case */
enum {
    CASE_NO_GRADIENT = 1,    /* integer or constant results: nothing is watched */
    CASE_NO_SECOND = 2,      /* first order only: the refusal is checked */
    CASE_EXACT = 4,          /* outputs equal bit for bit on every backend */
    CASE_RANDOM = 8,         /* draws: types are compared with the reference in their own type */
    CASE_F32_UP = 16,        /* not for bfloat16 and float16 */
    CASE_NO_F64 = 32,        /* the reference is computed in float32: no differences */
    CASE_NO_DIFFERENCES = 64 /* at a kink: gradients between backends and with PyTorch */
};

/* OP_CALL(softmax, tl_softmax(c, in[0], k->p[0])) defines a call with one output. */
#define OP_CALL(name, expression)                                                                  \
    static void name(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)           \
    {                                                                                              \
        (void)c, (void)k, (void)in;                                                                \
        out[0] = (expression);                                                                     \
    }

/* The whole of a test's main, or its first part: gives 0 when every row passed. */
int op_cases_main(int argc, char **argv, const char *family, const op_case *cases, int64_t count);

#endif
