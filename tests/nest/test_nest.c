/* The description of nests: their text, over what terms vary, and what is refused. */
#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/nest/nest.h>

static const tl_gelu_attr rough = {.approximate = true};

/* The example of nest.h. */
typedef struct example {
    tl_term terms[8];
    tl_nest_store stores[3];
    tl_nest nest;
} example;

static void make(example *e)
{
    static const tl_access x = {0, TL_F32, 0, {64, 1}}, bias = {1, TL_F32, 0, {0, 1}};
    static const tl_access y = {2, TL_F32, 0, {64, 1}}, sum = {3, TL_F32, 0, {0, 1}};
    *e = (example){
        .terms = {{.kind = TL_TERM_LOAD, .dtype = TL_F32, .from = x},
                  {.kind = TL_TERM_LOAD, .dtype = TL_F32, .from = bias},
                  {.kind = TL_TERM_OP, .dtype = TL_F32, .op = TL_OP_add, .in = {0, 1}, .inputs = 2},
                  {.kind = TL_TERM_OP,
                   .dtype = TL_F32,
                   .op = TL_OP_gelu,
                   .in = {2},
                   .inputs = 1,
                   .attr = &rough},
                  {.kind = TL_TERM_REDUCE,
                   .dtype = TL_F32,
                   .op = TL_OP_sum,
                   .in = {3},
                   .inputs = 1,
                   .axes = 1}},
        .stores = {{3, y}, {4, sum}},
        .nest =
            {.rank = 2, .dims = {128, 64}, .term_count = 5, .store_count = 2, .buffer_count = 4},
    };
    e->nest.terms = e->terms;
    e->nest.stores = e->stores;
}

static void assert_text(const tl_nest *n, const char *wanted)
{
    tl_str text = TL_STR_INIT;
    tl_nest_text(n, &text);
    assert_string_equal(tl_str_text(&text), wanted);
    tl_str_deinit(&text);
}

static void test_text(void **state)
{
    (void)state;
    example e;
    make(&e);
    assert_text(&e.nest, "axes     a0: 128, a1: 64\n"
                         "t0       load buffer 0 [a0 * 64 + a1]         float32\n"
                         "t1       load buffer 1 [a1]                   float32\n"
                         "t2       add t0 t1                            float32\n"
                         "t3       gelu t2 {approximate: true}          float32\n"
                         "t4       sum t3 over a0                       float32\n"
                         "store    t3 -> buffer 2 [a0 * 64 + a1]        float32\n"
                         "store    t4 -> buffer 3 [a1]                  float32\n");
    static const tl_affine_attr affine = {.scale = 2, .shift = -0.5};
    const tl_term terms[] = {
        {.kind = TL_TERM_LOAD,
         .dtype = TL_BF16,
         .from = {0, TL_BF16, 63, {-1}},
         .note = "dense/bias"},
        {.kind = TL_TERM_NUMBER, .dtype = TL_BF16, .number = 0.1},
        {.kind = TL_TERM_INDEX, .dtype = TL_I64, .axis = 0, .scale = 3, .shift = 7},
        {.kind = TL_TERM_OP,
         .dtype = TL_BF16,
         .op = TL_OP_affine,
         .in = {0},
         .inputs = 1,
         .attr = &affine},
        {.kind = TL_TERM_LOAD, .dtype = TL_F32, .from = {1, TL_F32, 5, {0}}},
    };
    const tl_nest n = {.rank = 1, .dims = {64}, .terms = terms, .term_count = 5, .buffer_count = 2};
    assert_ok(tl_nest_verify(&n));
    assert_text(&n, "axes     a0: 64\n"
                    "t0       load buffer 0 [a0 * -1 + 63]         bfloat16  # dense/bias\n"
                    "t1       number 0.1                           bfloat16\n"
                    "t2       index a0 * 3 + 7                     int64\n"
                    "t3       affine t0 {scale: 2.0, shift: -0.5}  bfloat16\n"
                    "t4       load buffer 1 [5]                    float32\n");
    assert_text(&(tl_nest){.rank = 0}, "axes     none\n");
}

static void test_variance(void **state)
{
    (void)state;
    example e;
    uint32_t varies[5];
    make(&e);
    assert_ok(tl_nest_verify(&e.nest));
    tl_nest_variance(&e.nest, varies);
    const uint32_t wanted[] = {3, 2, 3, 3, 2};
    assert_memory_equal(varies, wanted, sizeof wanted);
}

static void test_ops(void **state)
{
    (void)state;
    assert_true(tl_nest_has_op(TL_OP_gelu, TL_F32, TL_F32));
    assert_true(tl_nest_has_op(TL_OP_less, TL_BOOL, TL_I8));
    assert_true(tl_nest_has_op(TL_OP_cast, TL_F16, TL_I64));
    assert_true(tl_nest_has_op(TL_OP_any, TL_BOOL, TL_F32));
    assert_true(tl_nest_has_op(TL_OP_where, TL_BOOL, TL_BOOL));
    assert_false(tl_nest_has_op(TL_OP_less, TL_F32, TL_F32));
    assert_false(tl_nest_has_op(TL_OP_add, TL_F32, TL_F64));
    assert_false(tl_nest_has_op(TL_OP_add, TL_BOOL, TL_BOOL));
    assert_false(tl_nest_has_op(TL_OP_exp, TL_F64, TL_F64));
    assert_false(tl_nest_has_op(TL_OP_exp, TL_I32, TL_I32));
    assert_false(tl_nest_has_op(TL_OP_matmul, TL_F32, TL_F32));
}

#define REFUSES(code, text, ...)                                                                   \
    do {                                                                                           \
        example e;                                                                                 \
        make(&e);                                                                                  \
        __VA_ARGS__;                                                                               \
        assert_fails(tl_nest_verify(&e.nest), code, text);                                         \
    } while (0)

static void test_refused(void **state)
{
    (void)state;
    static const tl_cast_attr to_f16 = {TL_F16};
    REFUSES(TL_EINVAL, "nest: 9 axes", e.nest.rank = 9);
    REFUSES(TL_EINVAL, "a1: -3 is negative", e.nest.dims[1] = -3);
    REFUSES(TL_ELIMIT, "more points", e.nest.dims[0] = e.nest.dims[1] = INT64_C(1) << 40);
    REFUSES(TL_EINVAL, "t1: buffer 7; there are 4", e.terms[1].from.buffer = 7);
    REFUSES(TL_EINVAL, "t0: the value is bfloat16 and buffer 0 holds float32",
            e.terms[0].dtype = TL_BF16);
    REFUSES(TL_EINVAL, "t2: made of t2, which does not stand before it", e.terms[2].in[1] = 2);
    REFUSES(TL_EINVAL, "t2: add of 1 terms; it takes 2", e.terms[2].inputs = 1);
    REFUSES(TL_EINVAL, "t2: 4 inputs", e.terms[2].inputs = 4);
    REFUSES(TL_EINVAL, "t3: gelu without its attributes", e.terms[3].attr = NULL);
    REFUSES(TL_EUNSUPPORTED, "t2: the op matmul is not", e.terms[2].op = TL_OP_matmul);
    REFUSES(TL_EUNSUPPORTED, "t2: the op sum is not", e.terms[2].op = TL_OP_sum);
    REFUSES(TL_EUNSUPPORTED, "t2: add cannot make float64 of float32", e.terms[2].dtype = TL_F64);
    REFUSES(TL_EINVAL, "t2: input 1 of add is bfloat16 and must be float32",
            e.terms[1].dtype = e.terms[1].from.dtype = TL_BF16);
    REFUSES(TL_EINVAL, "t3: a cast to float16 that gives float32", e.terms[3].op = TL_OP_cast,
            e.terms[3].attr = &to_f16);
    REFUSES(TL_EUNSUPPORTED, "t4: a reduction by mean", e.terms[4].op = TL_OP_mean);
    REFUSES(TL_EINVAL, "t4: sum over the axes 0x4", e.terms[4].axes = 4);
    REFUSES(TL_EINVAL, "t4: sum over the axes 0x0", e.terms[4].axes = 0);
    REFUSES(TL_EINVAL, "t4: max over a0, which holds nothing", e.terms[4].op = TL_OP_max,
            e.nest.dims[0] = 0);
    REFUSES(TL_EINVAL, "the index of a2; there are 2 axes", e.terms[0].kind = TL_TERM_INDEX,
            e.terms[0].axis = 2);
    REFUSES(TL_EINVAL, "store 1: stores t5; there are 5 terms", e.stores[1].term = 5);
    REFUSES(TL_EINVAL, "store 1: t4 does not vary over a0, and where it is stored moves",
            e.stores[1].to.strides[0] = 64);
    REFUSES(TL_EINVAL, "store 0: t3 varies over a1, and where it is stored does not",
            e.stores[0].to.strides[1] = 0);
    REFUSES(TL_EINVAL, "store 0: t0 loads buffer 0 elsewhere", e.stores[0].to.buffer = 0,
            e.stores[0].to.strides[0] = 128);
    REFUSES(TL_EINVAL, "t1: buffer 0 is loaded as float32 and as float16",
            e.terms[1].from.buffer = 0, e.terms[1].dtype = e.terms[1].from.dtype = TL_F16);
}

static void test_memory(void **state)
{
    (void)state;
    example e;
    make(&e);
    for (int64_t nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        const tl_status st = tl_nest_verify(&e.nest);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_true(nth < 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),    cmocka_unit_test(test_variance), cmocka_unit_test(test_ops),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
