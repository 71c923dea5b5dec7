/* Each pass alone, on small graphs: what it changes, and what it leaves. */
#include "graph/graph_test.h"
#include <tilth/sys/graph/program.h>

static void before_and_after(void **state, tl_graph_fn *body, void *self, const char *pass,
                             int64_t changes, const char *before, const char *after)
{
    tl_graph *g = captured(*state, body, self);
    expect_text(g, before);
    assert_int_equal(run_pass(g, pass), changes);
    expect_text(g, after);
    tl_graph_free(&g);
}

/* --- dead ------------------------------------------------------------------------------------- */

BODY(with_dead)
{
    UNUSED_BODY_ARGS;
    tl_exp(c, tl_neg(c, x));
    tl_update_ema(c, self, tl_sum(c, y, TL_ALL, false), 0.5);
    tl_tensors_put(c, out, "z", tl_abs(c, x));
}

static void calls_that_nobody_needs_go(void **state)
{
    fixture *f = *state;
    before_and_after(state, with_dead, tl_full(f->c, TL_F32, TL_SCALAR, 1), "dead", 2,
                     "$0  float32[]\n"
                     "%0    float32[4, 6] = neg @x\n"
                     "%1    float32[4, 6] = exp %0\n"
                     "%2    float32[] = sum @y {axes: [0, 1], keep_dims: false}\n"
                     "%3    update_ema $0 %2 {momentum: 0.5}\n"
                     "%4    float32[4, 6] = abs @x\n"
                     "%5    float32[4, 6] = copy %4\n"
                     "z = %5\n",
                     "$0  float32[]\n"
                     "%0    float32[] = sum @y {axes: [0, 1], keep_dims: false}\n"
                     "%1    update_ema $0 %0 {momentum: 0.5}\n"
                     "%2    float32[4, 6] = abs @x\n"
                     "%3    float32[4, 6] = copy %2\n"
                     "z = %3\n");
}

/* --- simplify: copies ------------------------------------------------------------------------- */

BODY(with_copies)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x), *n = tl_neg(c, x);
    tl_tensors_put(c, out, "itself", e);
    tl_tensors_put(c, out, "again", e);
    tl_tensors_put(c, out, "view", tl_reshape(c, n, TL_SHAPE(24)));
    tl_tensors_put(c, out, "input", x);
    tl_tensors_put(c, out, "outside", self);
}

static void outputs_are_copied_where_they_must_be(void **state)
{
    fixture *f = *state;
    // The first of an output's copies goes; the others have memory of their own.
    before_and_after(state, with_copies, tl_full(f->c, TL_F32, TL_SHAPE(2), 1), "simplify", 1,
                     "$0  float32[2]\n"
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[4, 6] = neg @x\n"
                     "%2    float32[24] = reshape %1 {shape: [24]}\n"
                     "%3    float32[4, 6] = copy %0\n"
                     "%4    float32[4, 6] = copy %0\n"
                     "%5    float32[24] = copy %2\n"
                     "%6    float32[4, 6] = copy @x\n"
                     "%7    float32[2] = copy $0\n"
                     "itself = %3\n"
                     "again = %4\n"
                     "view = %5\n"
                     "input = %6\n"
                     "outside = %7\n",
                     "$0  float32[2]\n"
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[4, 6] = neg @x\n"
                     "%2    float32[24] = reshape %1 {shape: [24]}\n"
                     "%3    float32[4, 6] = copy %0\n"
                     "%4    float32[24] = copy %2\n"
                     "%5    float32[4, 6] = copy @x\n"
                     "%6    float32[2] = copy $0\n"
                     "itself = %0\n"
                     "again = %3\n"
                     "view = %4\n"
                     "input = %5\n"
                     "outside = %6\n");
}

BODY(with_inner_copies)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x), *flat = tl_reshape(c, e, TL_SHAPE(24));
    tl_tensor *straight = TL_APPLY(c, copy, NULL, flat);
    tl_tensor *turned = TL_APPLY(c, copy, NULL, tl_swap_axes(c, e, 0, 1));
    tl_tensor *same = TL_APPLY(c, cast, &(tl_cast_attr){TL_F32}, straight);
    tl_tensors_put(c, out, "a", tl_abs(c, same));
    tl_tensors_put(c, out, "b", tl_abs(c, turned));
}

static void copies_of_what_lies_straight_go(void **state)
{
    before_and_after(state, with_inner_copies, NULL, "simplify", 4,
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[24] = reshape %0 {shape: [24]}\n"
                     "%2    float32[24] = copy %1\n"
                     "%3    float32[6, 4] = transpose %0 {perm: [1, 0]}\n"
                     "%4    float32[6, 4] = copy %3\n"
                     "%5    float32[24] = cast %2 {dtype: float32}\n"
                     "%6    float32[24] = abs %5\n"
                     "%7    float32[6, 4] = abs %4\n"
                     "%8    float32[24] = copy %6\n"
                     "%9    float32[6, 4] = copy %7\n"
                     "a = %8\n"
                     "b = %9\n",
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[24] = reshape %0 {shape: [24]}\n"
                     "%2    float32[6, 4] = transpose %0 {perm: [1, 0]}\n"
                     "%3    float32[6, 4] = copy %2\n"
                     "%4    float32[24] = abs %1\n"
                     "%5    float32[6, 4] = abs %3\n"
                     "a = %4\n"
                     "b = %5\n");
}

BODY(with_written_copies)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x), *before = TL_APPLY(c, copy, NULL, e);
    tl_tensor *n = tl_neg(c, x), *changed = TL_APPLY(c, copy, NULL, n);
    tl_update_ema(c, e, y, 0.5);
    tl_update_ema(c, changed, y, 0.5);
    tl_tensors_put(c, out, "a", tl_sub(c, e, before));
    tl_tensors_put(c, out, "b", tl_sub(c, n, changed));
}

static void copies_of_what_is_written_stay(void **state)
{
    tl_graph *g = captured(*state, with_written_copies, NULL);
    assert_int_equal(run_pass(g, "simplify"), 2); // those of the outputs
    assert_int_equal(count_ops(g, "copy"), 2);
    tl_graph_free(&g);
}

/* --- simplify: numbers ------------------------------------------------------------------------ */

BODY(with_numbers)
{
    UNUSED_BODY_ARGS;
    tl_tensor *two = tl_full(c, TL_F32, TL_SHAPE(6), 2), *three = tl_full(c, TL_F32, TL_SCALAR, 3);
    tl_tensor *five = tl_add(c, two, tl_broadcast_to(c, three, TL_SHAPE(6)));
    tl_tensors_put(c, out, "z", tl_mul(c, x, tl_sqrt(c, tl_shift(c, five, 4))));
}

static void numbers_are_computed_once(void **state)
{
    before_and_after(state, with_numbers, NULL, "simplify", 4,
                     "%0    float32[6] = full {dtype: float32, shape: [6], value: 2.0}\n"
                     "%1    float32[] = full {dtype: float32, shape: [], value: 3.0}\n"
                     "%2    float32[6] = broadcast_to %1 {shape: [6]}\n"
                     "%3    float32[6] = add %0 %2\n"
                     "%4    float32[6] = affine %3 {scale: 1.0, shift: 4.0}\n"
                     "%5    float32[6] = sqrt %4\n"
                     "%6    float32[4, 6] = mul @x %5\n"
                     "%7    float32[4, 6] = copy %6\n"
                     "z = %7\n",
                     "%0    float32[6] = full {dtype: float32, shape: [6], value: 2.0}\n"
                     "%1    float32[] = full {dtype: float32, shape: [], value: 3.0}\n"
                     "%2    float32[6] = broadcast_to %1 {shape: [6]}\n"
                     "%3    float32[6] = full {dtype: float32, shape: [6], value: 5.0}\n"
                     "%4    float32[6] = full {dtype: float32, shape: [6], value: 9.0}\n"
                     "%5    float32[6] = full {dtype: float32, shape: [6], value: 3.0}\n"
                     "%6    float32[4, 6] = mul @x %5\n"
                     "z = %6\n");
}

BODY(with_stubborn_numbers)
{
    UNUSED_BODY_ARGS;
    tl_tensor *slot = tl_full(c, TL_F32, TL_SHAPE(4, 6), 1);
    tl_update_ema(c, slot, x, 0.5);
    tl_tensor *large = tl_full(c, TL_I64, TL_SHAPE(2), 0x1p52 + 1);
    tl_tensors_put(c, out, "written", tl_exp(c, slot));
    tl_tensors_put(c, out, "large",
                   tl_neg(c, tl_mul(c, large, tl_full(c, TL_I64, TL_SHAPE(2), 3))));
}

static void numbers_that_change_or_do_not_fit_stay(void **state)
{
    tl_graph *g = captured(*state, with_stubborn_numbers, NULL);
    run_pass(g, "simplify");
    assert_int_equal(count_ops(g, "exp"), 1); // of the slot
    assert_int_equal(count_ops(g, "mul"), 1);
    tl_graph_free(&g);
}

/* --- common ----------------------------------------------------------------------------------- */

BODY(with_common)
{
    UNUSED_BODY_ARGS;
    // One call a statement wherever the text is compared: compilers choose the order of arguments.
    tl_tensor *e = tl_exp(c, x), *s = tl_scale(c, y, 2), *a = tl_mul(c, e, s);
    e = tl_exp(c, x);
    s = tl_scale(c, y, 2);
    tl_tensor *b = tl_mul(c, e, s), *sum = tl_add(c, a, b);
    tl_tensors_put(c, out, "z", tl_add(c, sum, tl_scale(c, y, 3)));
}

static void equal_calls_are_computed_once(void **state)
{
    before_and_after(state, with_common, NULL, "common", 3,
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[4, 6] = affine @y {scale: 2.0, shift: 0.0}\n"
                     "%2    float32[4, 6] = mul %0 %1\n"
                     "%3    float32[4, 6] = exp @x\n"
                     "%4    float32[4, 6] = affine @y {scale: 2.0, shift: 0.0}\n"
                     "%5    float32[4, 6] = mul %3 %4\n"
                     "%6    float32[4, 6] = add %2 %5\n"
                     "%7    float32[4, 6] = affine @y {scale: 3.0, shift: 0.0}\n"
                     "%8    float32[4, 6] = add %6 %7\n"
                     "%9    float32[4, 6] = copy %8\n"
                     "z = %9\n",
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[4, 6] = affine @y {scale: 2.0, shift: 0.0}\n"
                     "%2    float32[4, 6] = mul %0 %1\n"
                     "%3    float32[4, 6] = add %2 %2\n"
                     "%4    float32[4, 6] = affine @y {scale: 3.0, shift: 0.0}\n"
                     "%5    float32[4, 6] = add %3 %4\n"
                     "%6    float32[4, 6] = copy %5\n"
                     "z = %6\n");
}

BODY(with_writes_between)
{
    UNUSED_BODY_ARGS;
    tl_tensor *made = tl_abs(c, y);
    tl_tensor *of[] = {self, x, made}, *seen[3];
    for (int i = 0; i < 3; i++) seen[i] = tl_exp(c, of[i]);
    for (int i = 0; i < 3; i++) tl_update_ema(c, of[i], y, 0.5);
    tl_tensors_put(c, out, "outside", tl_add(c, seen[0], tl_exp(c, of[0])));
    tl_tensors_put(c, out, "input", tl_add(c, seen[1], tl_exp(c, of[1])));
    tl_tensors_put(c, out, "made", tl_add(c, seen[2], tl_exp(c, of[2])));
    tl_tensors_put(c, out, "else", tl_add(c, tl_cos(c, y), tl_cos(c, y))); // nobody writes that
}

static void calls_before_and_after_a_write_differ(void **state)
{
    fixture *f = *state;
    tl_graph *g = captured(f, with_writes_between, tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1));
    assert_int_equal(run_pass(g, "common"), 1);
    assert_int_equal(count_ops(g, "exp"), 6);
    assert_int_equal(count_ops(g, "cos"), 1);
    tl_graph_free(&g);
}

BODY(with_unequal)
{
    UNUSED_BODY_ARGS;
    tl_tensor *slots[2];
    tl_tensors_put(c, out, "dropped", tl_add(c, tl_dropout(c, x, 0.5), tl_dropout(c, x, 0.5)));
    tl_tensors_put(c, out, "drawn",
                   tl_add(c, tl_random_normal(c, TL_F32, TL_SHAPE(3), 0, 1),
                          tl_random_normal(c, TL_F32, TL_SHAPE(3), 0, 1)));
    for (int i = 0; i < 2; i++) {
        slots[i] = tl_full(c, TL_F32, TL_SHAPE(4, 6), 0);
        tl_update_ema(c, slots[i], i ? x : y, 0.5);
    }
    tl_tensors_put(c, out, "slots", tl_add(c, slots[0], slots[1]));
}

static void draws_and_slots_are_not_shared(void **state)
{
    tl_graph *g = captured(*state, with_unequal, NULL);
    assert_int_equal(run_pass(g, "common"), 0);
    assert_int_equal(count_ops(g, "dropout"), 2);
    assert_int_equal(count_ops(g, "random_normal"), 2);
    tl_graph_free(&g);
}

/* --- fuse ------------------------------------------------------------------------------------- */

BODY(chain)
{
    UNUSED_BODY_ARGS;
    tl_tensor *bias = self, *sum = tl_add(c, x, bias), *two = tl_full(c, TL_F32, TL_SCALAR, 2);
    tl_tensors_put(c, out, "z", tl_tanh(c, tl_mul(c, sum, two)));
}

static void chains_are_one_nest(void **state)
{
    fixture *f = *state;
    before_and_after(state, chain, tl_full(f->c, TL_F32, TL_SHAPE(6), 1), "fuse", 4,
                     "$0  float32[6]\n"
                     "%0    float32[4, 6] = add @x $0\n"
                     "%1    float32[] = full {dtype: float32, shape: [], value: 2.0}\n"
                     "%2    float32[4, 6] = mul %0 %1\n"
                     "%3    float32[4, 6] = tanh %2\n"
                     "%4    float32[4, 6] = copy %3\n"
                     "z = %4\n",
                     "$0  float32[6]\n"
                     "%0    float32[4, 6] = nest @x $0\n"
                     "        axes     a0: 4, a1: 6\n"
                     "        t0       load buffer 0 [a0 * 6 + a1]          float32\n"
                     "        t1       load buffer 1 [a1]                   float32\n"
                     "        t2       add t0 t1                            float32\n"
                     "        t3       number 2.0                           float32\n"
                     "        t4       mul t2 t3                            float32\n"
                     "        t5       tanh t4                              float32\n"
                     "        store    t5 -> buffer 2 [a0 * 6 + a1]         float32\n"
                     "z = %0\n");
}

BODY(softmax_by_hand)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, tl_sub(c, x, tl_max(c, x, TL_AXES(1), true)));
    tl_tensors_put(c, out, "z", tl_div(c, e, tl_sum(c, e, TL_AXES(1), true)));
}

static void reductions_join_what_makes_and_what_uses_them(void **state)
{
    before_and_after(state, softmax_by_hand, NULL, "fuse", 6,
                     "%0    float32[4, 1] = max @x {axes: [1], keep_dims: true}\n"
                     "%1    float32[4, 6] = sub @x %0\n"
                     "%2    float32[4, 6] = exp %1\n"
                     "%3    float32[4, 1] = sum %2 {axes: [1], keep_dims: true}\n"
                     "%4    float32[4, 6] = div %2 %3\n"
                     "%5    float32[4, 6] = copy %4\n"
                     "z = %5\n",
                     "%0    float32[4, 6] = nest @x\n"
                     "        axes     a0: 4, a1: 6\n"
                     "        t0       load buffer 0 [a0 * 6 + a1]          float32\n"
                     "        t1       max t0 over a1                       float32\n"
                     "        t2       sub t0 t1                            float32\n"
                     "        t3       exp t2                               float32\n"
                     "        t4       sum t3 over a1                       float32\n"
                     "        t5       div t3 t4                            float32\n"
                     "        store    t5 -> buffer 1 [a0 * 6 + a1]         float32\n"
                     "z = %0\n");
}

BODY(around_a_product)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x);
    tl_tensors_put(c, out, "z",
                   tl_add(c, e, tl_matmul(c, e, tl_full(c, TL_F32, TL_SHAPE(6, 6), 1))));
}

static void nothing_is_fused_around_a_product(void **state)
{
    tl_graph *g = captured(*state, around_a_product, NULL);
    run_pass(g, "simplify");
    assert_int_equal(run_pass(g, "fuse"), 0);
    assert_int_equal(count_ops(g, "nest"), 0);
    tl_graph_free(&g);
}

BODY(around_a_write)
{
    UNUSED_BODY_ARGS;
    tl_tensor *slot = self, *before = tl_exp(c, slot);
    tl_update_ema(c, slot, x, 0.5);
    tl_tensors_put(c, out, "z", tl_add(c, before, tl_sin(c, slot)));
}

static void nothing_is_fused_around_a_write(void **state)
{
    fixture *f = *state;
    before_and_after(state, around_a_write, tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1), "fuse", 3,
                     "$0  float32[4, 6]\n"
                     "%0    float32[4, 6] = exp $0\n"
                     "%1    update_ema $0 @x {momentum: 0.5}\n"
                     "%2    float32[4, 6] = sin $0\n"
                     "%3    float32[4, 6] = add %0 %2\n"
                     "%4    float32[4, 6] = copy %3\n"
                     "z = %4\n",
                     "$0  float32[4, 6]\n"
                     "%0    float32[4, 6] = exp $0\n"
                     "%1    update_ema $0 @x {momentum: 0.5}\n"
                     "%2    float32[4, 6] = nest $0 %0\n"
                     "        axes     a0: 4, a1: 6\n"
                     "        t0       load buffer 0 [a0 * 6 + a1]          float32\n"
                     "        t1       sin t0                               float32\n"
                     "        t2       load buffer 1 [a0 * 6 + a1]          float32\n"
                     "        t3       add t2 t1                            float32\n"
                     "        store    t3 -> buffer 2 [a0 * 6 + a1]         float32\n"
                     "z = %2\n");
}

BODY(unlike_shapes)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x);
    tl_tensor *other = tl_reshape(c, e, TL_SHAPE(3, 8)); // rows of other lengths
    tl_tensors_put(c, out, "z", tl_mul(c, other, tl_full(c, TL_F32, TL_SHAPE(8), 2)));
    tl_tensors_put(c, out, "part", tl_abs(c, tl_slice(c, e, 1, 0, 3, 1)));
}

static void what_walks_otherwise_is_not_fused(void **state)
{
    tl_graph *g = captured(*state, unlike_shapes, NULL);
    run_pass(g, "simplify");
    assert_int_equal(run_pass(g, "fuse"), 0);
    tl_graph_free(&g);
}

BODY(turned)
{
    UNUSED_BODY_ARGS;
    tl_tensor *e = tl_exp(c, x);
    tl_tensor *t = tl_swap_axes(c, e, 0, 1);
    tl_tensors_put(c, out, "z", tl_abs(c, tl_add(c, t, tl_swap_axes(c, y, 0, 1))));
}

static void nests_see_through_transposes(void **state)
{
    before_and_after(state, turned, NULL, "fuse", 4,
                     "%0    float32[4, 6] = exp @x\n"
                     "%1    float32[6, 4] = transpose %0 {perm: [1, 0]}\n"
                     "%2    float32[6, 4] = transpose @y {perm: [1, 0]}\n"
                     "%3    float32[6, 4] = add %1 %2\n"
                     "%4    float32[6, 4] = abs %3\n"
                     "%5    float32[6, 4] = copy %4\n"
                     "z = %5\n",
                     "%0    float32[6, 4] = transpose @y {perm: [1, 0]}\n"
                     "%1    float32[6, 4] = nest @x %0\n"
                     "        axes     a0: 4, a1: 6\n"
                     "        t0       load buffer 0 [a0 * 6 + a1]          float32\n"
                     "        t1       exp t0                               float32\n"
                     "        t2       load buffer 1 [a0 * 6 + a1]          float32\n"
                     "        t3       add t1 t2                            float32\n"
                     "        t4       abs t3                               float32\n"
                     "        store    t4 -> buffer 2 [a0 + a1 * 4]         float32\n"
                     "z = %1\n");
}

/* --- straighten, order ------------------------------------------------------------------------ */

BODY(strided)
{
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "z", tl_cumsum(c, tl_swap_axes(c, x, 0, 1), 0, false, false));
}

static void views_are_copied_for_kernels_that_want_it(void **state)
{
    before_and_after(state, strided, NULL, "straighten", 1,
                     "%0    float32[6, 4] = transpose @x {perm: [1, 0]}\n"
                     "%1    float32[6, 4] = cumsum %0 {axis: 0, exclusive: false, reverse: false}\n"
                     "%2    float32[6, 4] = copy %1\n"
                     "z = %2\n",
                     "%0    float32[6, 4] = transpose @x {perm: [1, 0]}\n"
                     "%1    float32[6, 4] = copy %0\n"
                     "%2    float32[6, 4] = cumsum %1 {axis: 0, exclusive: false, reverse: false}\n"
                     "%3    float32[6, 4] = copy %2\n"
                     "z = %3\n");
    tl_graph *g = captured(*state, strided, NULL);
    tl_program *p;
    assert_fails(tl_program_new(&p, &g, &(tl_program_args){0}), TL_EINVAL,
                 "run the pass 'straighten'");
    assert_null(p);
    assert_null(g);
}

BODY(early)
{
    UNUSED_BODY_ARGS;
    tl_tensor *slot = self, *number = tl_full(c, TL_F32, TL_SHAPE(4, 6), 3);
    tl_tensor *cast = tl_cast(c, y, TL_F64), *before = tl_cast(c, slot, TL_F64);
    tl_update_ema(c, slot, x, 0.5);
    tl_tensor *e = tl_exp(c, x);
    tl_tensors_put(c, out, "z", tl_matmul(c, tl_swap_axes(c, e, 0, 1), number));
    tl_tensors_put(c, out, "cast", tl_abs(c, cast));
    tl_tensors_put(c, out, "before", tl_abs(c, before));
}

/* Attributes of a product without any. */
#define AS_USUAL                                                                                   \
    "{added: false, gelu_grad: false, transpose_a: false, transpose_b: false, wide: false}\n"

static void calls_wait_for_their_users(void **state)
{
    fixture *f = *state;
    // What reads the slot must not wait: it is written in between.
    before_and_after(state, early, tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1), "order", 2,
                     "$0  float32[4, 6]\n"
                     "%0    float32[4, 6] = full {dtype: float32, shape: [4, 6], value: 3.0}\n"
                     "%1    float64[4, 6] = cast @y {dtype: float64}\n"
                     "%2    float64[4, 6] = cast $0 {dtype: float64}\n"
                     "%3    update_ema $0 @x {momentum: 0.5}\n"
                     "%4    float32[4, 6] = exp @x\n"
                     "%5    float32[6, 4] = transpose %4 {perm: [1, 0]}\n"
                     "%6    float32[6, 6] = matmul %5 %0 " AS_USUAL "%7    float64[4, 6] = abs %1\n"
                     "%8    float64[4, 6] = abs %2\n"
                     "%9    float32[6, 6] = copy %6\n"
                     "%10   float64[4, 6] = copy %7\n"
                     "%11   float64[4, 6] = copy %8\n"
                     "z = %9\n"
                     "cast = %10\n"
                     "before = %11\n",
                     "$0  float32[4, 6]\n"
                     "%0    float64[4, 6] = cast $0 {dtype: float64}\n"
                     "%1    update_ema $0 @x {momentum: 0.5}\n"
                     "%2    float32[4, 6] = exp @x\n"
                     "%3    float32[6, 4] = transpose %2 {perm: [1, 0]}\n"
                     "%4    float32[4, 6] = full {dtype: float32, shape: [4, 6], value: 3.0}\n"
                     "%5    float32[6, 6] = matmul %3 %4 " AS_USUAL
                     "%6    float64[4, 6] = cast @y {dtype: float64}\n"
                     "%7    float64[4, 6] = abs %6\n"
                     "%8    float64[4, 6] = abs %0\n"
                     "%9    float32[6, 6] = copy %5\n"
                     "%10   float64[4, 6] = copy %7\n"
                     "%11   float64[4, 6] = copy %8\n"
                     "z = %9\n"
                     "cast = %10\n"
                     "before = %11\n");
}

/* --- epilogue --------------------------------------------------------------------------------- */

BODY(dense)
{
    UNUSED_BODY_ARGS;
    tl_tensor *w = tl_full(c, TL_F32, TL_SHAPE(6, 3), 0.5), *b = tl_full(c, TL_F32, TL_SHAPE(3), 1);
    tl_tensors_put(c, out, "z", tl_relu(c, tl_add(c, tl_matmul(c, x, w), b)));
}

BODY(dense_with_sum)
{
    UNUSED_BODY_ARGS;
    tl_tensor *w = tl_full(c, TL_F32, TL_SHAPE(6, 3), 0.5), *b = tl_full(c, TL_F32, TL_SHAPE(3), 1);
    tl_tensor *sum = tl_add(c, b, tl_matmul(c, x, w));
    tl_tensor *bent = tl_gelu(c, sum, true), *turned = tl_cos(c, sum);
    tl_tensors_put(c, out, "z", tl_mul(c, bent, turned));
}

static void what_follows_a_product_becomes_part_of_it(void **state)
{
    before_and_after(
        state, dense, NULL, "epilogue", 2,
        "%0    float32[6, 3] = full {dtype: float32, shape: [6, 3], value: 0.5}\n"
        "%1    float32[3] = full {dtype: float32, shape: [3], value: 1.0}\n"
        "%2    float32[4, 3] = matmul @x %0 " AS_USUAL "%3    float32[4, 3] = add %2 %1\n"
        "%4    float32[4, 3] = relu %3\n"
        "%5    float32[4, 3] = copy %4\n"
        "z = %5\n",
        "%0    float32[6, 3] = full {dtype: float32, shape: [6, 3], value: 0.5}\n"
        "%1    float32[3] = full {dtype: float32, shape: [3], value: 1.0}\n"
        "%2    float32[4, 3] = matmul @x %0 " AS_USUAL
        "%3    float32[4, 3], float32[0] = linear @x %0 %1 {activation: none, keep_slope: "
        "false, keep_sum: false}\n"
        "%4    float32[4, 3], float32[0] = linear @x %0 %1 {activation: relu, keep_slope: "
        "false, keep_sum: false}\n"
        "%5    float32[4, 3] = copy %4.0\n"
        "z = %5\n");
    before_and_after(
        state, dense_with_sum, NULL, "epilogue", 2,
        "%0    float32[6, 3] = full {dtype: float32, shape: [6, 3], value: 0.5}\n"
        "%1    float32[3] = full {dtype: float32, shape: [3], value: 1.0}\n"
        "%2    float32[4, 3] = matmul @x %0 " AS_USUAL "%3    float32[4, 3] = add %1 %2\n"
        "%4    float32[4, 3] = gelu %3 {approximate: true}\n"
        "%5    float32[4, 3] = cos %3\n"
        "%6    float32[4, 3] = mul %4 %5\n"
        "%7    float32[4, 3] = copy %6\n"
        "z = %7\n",
        "%0    float32[6, 3] = full {dtype: float32, shape: [6, 3], value: 0.5}\n"
        "%1    float32[3] = full {dtype: float32, shape: [3], value: 1.0}\n"
        "%2    float32[4, 3] = matmul @x %0 " AS_USUAL
        "%3    float32[4, 3], float32[0] = linear @x %0 %1 {activation: none, keep_slope: "
        "false, keep_sum: false}\n"
        "%4    float32[4, 3], float32[4, 3] = linear @x %0 %1 {activation: gelu_tanh, keep_slope: "
        "false, keep_sum: true}\n"
        "%5    float32[4, 3] = cos %4.1\n"
        "%6    float32[4, 3] = mul %4.0 %5\n"
        "%7    float32[4, 3] = copy %6\n"
        "z = %7\n");
}

BODY(not_dense)
{
    UNUSED_BODY_ARGS;
    tl_tensor *w = self, *row = tl_full(c, TL_F32, TL_SHAPE(6), 1), *sum;
    tl_tensor *twice = tl_matmul(c, x, w), *late = tl_matmul(c, y, w), *seen = tl_matmul(c, y, w);
    tl_tensors_put(c, out, "column",
                   tl_add(c, tl_matmul(c, x, w), tl_full(c, TL_F32, TL_SHAPE(4, 1), 1)));
    tl_tensors_put(c, out, "twice", tl_mul(c, twice, tl_add(c, twice, row)));
    tl_tensors_put(c, out, "sum",
                   sum = tl_add(c, seen, row)); // what is handed out is computed as it is
    tl_update_ema(c, w, tl_full(c, TL_F32, TL_SHAPE(6, 6), 1), 0.5);
    tl_tensors_put(c, out, "late", tl_add(c, late, row));
    tl_tensors_put(c, out, "activated", tl_abs(c, tl_tanh(c, sum)));
}

static void what_others_see_stays_a_call(void **state)
{
    fixture *f = *state;
    tl_graph *g = captured(f, not_dense, tl_full(f->c, TL_F32, TL_SHAPE(6, 6), 0.25));
    assert_int_equal(run_pass(g, "epilogue"), 1);
    assert_int_equal(count_ops(g, "linear"), 1); // of the sum, before the write
    assert_int_equal(count_ops(g, "tanh"), 1);
    tl_graph_free(&g);
}

/* --- reuse ------------------------------------------------------------------------------------ */

static tl_tensor *running(tl_ctx *c, tl_tensor *x)
{
    return tl_cumsum(c, x, 1, false, false);
}

BODY(used_up)
{
    UNUSED_BODY_ARGS;
    tl_tensors_put(c, out, "z", running(c, tl_neg(c, tl_exp(c, running(c, x)))));
}

/* The nest stores what it made of a row before it has read the row for the last time. */
BODY(used_up_in_two_stages)
{
    UNUSED_BODY_ARGS;
    tl_tensor *r = running(c, x), *e = tl_exp(c, r),
              *rest = tl_sub(c, r, tl_sum(c, e, TL_AXES(1), true));
    tl_tensors_put(c, out, "e", running(c, e));
    tl_tensors_put(c, out, "rest", running(c, rest));
}

static void nests_write_over_what_they_used_up(void **state)
{
    tl_graph *g = captured(*state, used_up, NULL);
    run_pass(g, "simplify");
    run_pass(g, "fuse");
    assert_int_equal(run_pass(g, "reuse"), 1);
    expect_text(g, "%0    float32[4, 6] = cumsum @x {axis: 1, exclusive: false, reverse: false}\n"
                   "%1    float32[4, 6] = nest %0\n"
                   "        axes     a0: 4, a1: 6\n"
                   "        t0       load buffer 0 [a0 * 6 + a1]          float32\n"
                   "        t1       exp t0                               float32\n"
                   "        t2       neg t1                               float32\n"
                   "        store    t2 -> buffer 0 [a0 * 6 + a1]         float32\n"
                   "%2    float32[4, 6] = cumsum %1 {axis: 1, exclusive: false, reverse: false}\n"
                   "z = %2\n");
    tl_graph_free(&g);
    g = captured(*state, used_up_in_two_stages, NULL);
    run_pass(g, "simplify");
    run_pass(g, "fuse");
    assert_true(run_pass(g, "reuse") <= 1); // it has one input, which is gone with one output
    tl_graph_free(&g);
}

// So many points that nests are not put beside each other.
static tl_tensor *many(tl_ctx *c, tl_tensor *x)
{
    return tl_broadcast_to(c, x, TL_SHAPE(200, 4, 6));
}

BODY(not_used_up)
{
    UNUSED_BODY_ARGS;
    tl_tensor *of[6], *result[6];
    for (int i = 0; i < 6; i++) of[i] = tl_cumsum(c, many(c, i % 2 ? x : y), 2, i > 3, i > 1);
    result[0] = tl_neg(c, tl_exp(c, of[0])); // and needed again
    result[1] =
        tl_contiguous(c, tl_swap_axes(c, tl_neg(c, tl_exp(c, of[1])), 1, 2)); // stored otherwise
    result[2] = tl_cast(c, tl_neg(c, tl_exp(c, of[2])), TL_F64);              // of another type
    result[3] = tl_sum(c, tl_exp(c, of[3]), TL_AXES(2), false);               // smaller
    result[4] =
        tl_add(c, tl_exp(c, of[4]), tl_reshape(c, tl_slice(c, of[4], 0, 0, 1, 1), TL_SHAPE(4, 6)));
    result[5] = tl_neg(c, tl_exp(c, of[5])); // handed out
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < 6; i++) {
        tl_tensor *t = result[i];
        tl_tensors_put(c, out, names[i], tl_cumsum(c, t, -1, false, false));
    }
    tl_tensors_put(c, out, "again", running(c, of[0]));
    tl_tensors_put(c, out, "own", of[5]);
}

static void what_is_needed_is_not_written_over(void **state)
{
    tl_graph *g = captured(*state, not_used_up, NULL);
    run_pass(g, "simplify");
    run_pass(g, "fuse");
    assert_int_equal(count_ops(g, "nest"), 6);
    assert_int_equal(run_pass(g, "reuse"), 0);
    tl_graph_free(&g);
}

/* --- recompute -------------------------------------------------------------------------------- */

// 4096 bytes, so that it is worth a second kernel.
static tl_tensor *large(tl_ctx *c, tl_tensor *x)
{
    return tl_cumsum(c, tl_broadcast_to(c, tl_reshape(c, x, TL_SHAPE(1, 24)), TL_SHAPE(48, 24)), 1,
                     false, false);
}

static tl_tensor *far_away(tl_ctx *c, tl_tensor *t)
{
    for (int i = 0; i < 40; i++) t = tl_softmax(c, t, i % 2);
    return t;
}

/* Each is used at once and, much later, again; what it was made of is there by then. */
BODY(needed_late)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = large(c, x), *e = tl_exp(c, a);
    tl_tensor *end = far_away(c, tl_cumsum(c, e, 1, false, false));
    tl_tensors_put(c, out, "z", tl_add(c, tl_cumsum(c, tl_mul(c, e, a), 0, false, false), end));
}

BODY(changed_until_needed)
{
    UNUSED_BODY_ARGS;
    tl_tensor *a = large(c, x), *e = tl_exp(c, a), *f = tl_neg(c, a);
    tl_update_ema(c, f, e, 0.5); // what was computed
    tl_tensor *end = far_away(c, tl_cumsum(c, tl_sub(c, e, f), 1, false, false));
    tl_tensors_put(c, out, "f", tl_add(c, tl_cumsum(c, tl_mul(c, f, a), 0, false, false), end));
    tl_update_ema(c, a, f, 0.5); // what it was computed from
    tl_tensors_put(c, out, "e", tl_add(c, tl_cumsum(c, tl_mul(c, e, a), 0, false, false), end));
}

static void cheap_results_are_computed_again(void **state)
{
    tl_graph *g = captured(*state, needed_late, NULL);
    tl_optimize how = {.skip = (const char *const[]){"fuse", NULL}, .recompute = true};
    assert_ok(tl_graph_optimize(g, &how));
    assert_int_equal(count_ops(g, "exp"), 2);
    tl_graph_free(&g);
    g = captured(*state, changed_until_needed, NULL);
    assert_ok(tl_graph_optimize(g, &how));
    assert_int_equal(count_ops(g, "exp"), 1);
    assert_int_equal(count_ops(g, "neg"), 1);
    tl_graph_free(&g);
}

/* --- all of them ------------------------------------------------------------------------------ */

typedef struct watcher {
    const tl_pass *next;
    bool begun;
} watcher;

static void watch(const tl_graph *g, const tl_pass *pass, int64_t changes, void *payload)
{
    watcher *w = payload;
    assert_non_null(g);
    assert_true(changes >= 0);
    if (!w->begun) {
        assert_null(pass);
        w->begun = true;
        return;
    }
    assert_ptr_equal(pass, w->next++);
}

static void passes_are_watched_in_order(void **state)
{
    watcher w = {.next = tl_graph_passes};
    tl_graph *g = captured(*state, softmax_by_hand, NULL);
    assert_ok(tl_graph_optimize(g, &(tl_optimize){.watch = watch, .payload = &w}));
    assert_null(w.next->name);
    tl_graph_free(&g);
    g = captured(*state, softmax_by_hand, NULL);
    assert_ok(tl_graph_optimize(g, NULL));
    // A second time finds nothing to do.
    static const char *const settled[] = {"dead", "simplify", "common", "fuse"};
    for (size_t i = 0; i < TL_COUNT(settled); i++) assert_int_equal(run_pass(g, settled[i]), 0);
    tl_graph_free(&g);
}

BODY(writes_a_view)
{
    UNUSED_BODY_ARGS;
    tl_update_ema(c, tl_swap_axes(c, self, 0, 1), tl_swap_axes(c, x, 0, 1), 0.5);
}

static void writes_to_views_with_gaps_are_refused(void **state)
{
    fixture *f = *state;
    tl_function *fn;
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1));
    tl_tensors_put(f->c, &in, "y", tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1));
    assert_ok(tl_function_new(
        &fn, &(tl_function_args){.engine = f->engine,
                                 .body = writes_a_view,
                                 .self = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1)}));
    assert_fails(tl_function_call(fn, f->c, &in, &out), TL_EINVAL,
                 "update_ema: input 0 is written and must have no gaps");
    tl_function_free(&fn);
}

/* --- results ---------------------------------------------------------------------------------- */

enum { CALLS = 3, MOST_ELEMENTS = 200 * 24 }; // eager, interpreted, compiled

static void call_body(fixture *f, tl_graph_fn *body, tl_function *fn, tl_tensor *slot,
                      tl_tensors *out)
{
    tl_tensors in = {0};
    double fresh[24];
    for (int i = 0; i < 24; i++) fresh[i] = 0.125 * i - 1;
    tl_ctx_set_draws(f->c, (tl_draws){.seed = 5});
    tl_tensors_put(f->c, &in, "x", tl_from_doubles(f->c, TL_F32, TL_SHAPE(4, 6), fresh));
    tl_tensors_put(f->c, &in, "y", tl_scale(f->c, in.items[0].tensor, -0.5));
    assert_ok(tl_tensor_set_doubles(slot, fresh, 24));
    assert_ok(fn ? tl_function_call(fn, f->c, &in, out) : body(slot, f->c, &in, out));
}

static void expect_close(const tl_tensor *got, const tl_tensor *wanted, size_t body,
                         const char *name)
{
    static double is[MOST_ELEMENTS], should[MOST_ELEMENTS];
    int64_t count = tl_tensor_count(wanted);
    assert_true(count <= MOST_ELEMENTS && tl_shape_equal(&got->shape, &wanted->shape));
    assert_ok(tl_tensor_get_doubles(got, is, count));
    assert_ok(tl_tensor_get_doubles(wanted, should, count));
    for (int64_t k = 0; k < count; k++)
        if (!(fabs(is[k] - should[k]) <= 4e-6 * (1 + fabs(should[k]))))
            fail_msg("body %zu, '%s': element %lld is %.9g and should be %.9g", body, name,
                     (long long)k, is[k], should[k]);
}

/* What writes in the middle of a function mean, whatever was optimised: as they stand there. */
static void functions_write_as_they_are_written(void **state)
{
    static tl_graph_fn *const bodies[] = {with_written_copies,
                                          with_stubborn_numbers,
                                          with_writes_between,
                                          with_unequal,
                                          around_a_write,
                                          early,
                                          used_up,
                                          used_up_in_two_stages,
                                          not_used_up,
                                          dense,
                                          dense_with_sum,
                                          needed_late,
                                          changed_until_needed};
    static const tl_optimize ways[] = {{.recompute = false}, {.recompute = true}};
    fixture *f = *state;
    tl_ctx_set_training(f->c, true);
    for (size_t b = 0; b < TL_COUNT(ways) * TL_COUNT(bodies); b++) {
        tl_function *fn;
        tl_tensors out[CALLS] = {{0}};
        tl_graph_fn *body = bodies[b / 2];
        tl_tensor *slot = tl_full(f->c, TL_F32, TL_SHAPE(4, 6), 1);
        assert_ok(tl_function_new(
            &fn, &(tl_function_args){
                     .engine = f->engine, .body = body, .self = slot, .optimize = &ways[b % 2]}));
        for (int i = 0; i < CALLS; i++) call_body(f, body, i ? fn : NULL, slot, &out[i]);
        for (int64_t i = 0; i < CALLS * out[0].count; i++) {
            const tl_named *wanted = &out[0].items[i / CALLS],
                           *got = &out[i % CALLS].items[i / CALLS];
            expect_close(got->tensor, wanted->tensor, b / 2, wanted->name);
        }
        tl_function_free(&fn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_that_nobody_needs_go, setup, teardown),
        cmocka_unit_test_setup_teardown(outputs_are_copied_where_they_must_be, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_of_what_lies_straight_go, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_of_what_is_written_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_are_computed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_that_change_or_do_not_fit_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_calls_are_computed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_before_and_after_a_write_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_and_slots_are_not_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(chains_are_one_nest, setup, teardown),
        cmocka_unit_test_setup_teardown(reductions_join_what_makes_and_what_uses_them, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_is_fused_around_a_product, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_fused_around_a_write, setup, teardown),
        cmocka_unit_test_setup_teardown(what_walks_otherwise_is_not_fused, setup, teardown),
        cmocka_unit_test_setup_teardown(nests_see_through_transposes, setup, teardown),
        cmocka_unit_test_setup_teardown(views_are_copied_for_kernels_that_want_it, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_wait_for_their_users, setup, teardown),
        cmocka_unit_test_setup_teardown(what_follows_a_product_becomes_part_of_it, setup, teardown),
        cmocka_unit_test_setup_teardown(what_others_see_stays_a_call, setup, teardown),
        cmocka_unit_test_setup_teardown(nests_write_over_what_they_used_up, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_needed_is_not_written_over, setup, teardown),
        cmocka_unit_test_setup_teardown(cheap_results_are_computed_again, setup, teardown),
        cmocka_unit_test_setup_teardown(passes_are_watched_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_to_views_with_gaps_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(functions_write_as_they_are_written, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
