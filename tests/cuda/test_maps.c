/* Maps that one kernel normalises, whose groups wait for each other (cuda/channels.c): they give
 * what the CPU gives, and the same bits again and again. On a GPU with TILTH_DEVICE=cuda, else by
 * the text as C. */
#include "test.h"

#include <math.h>

#include <tilth/core/attrs.h>
#include <tilth/sys/cuda/cuda.h>
#include <tilth/sys/ops/apply.h>
#include <tilth/tilth.h>

#include "shim.h"

enum { MOST = 8, MOST_ELEMENTS = 1 << 22, AGAIN = 20 };

typedef struct map {
    tl_dtype dtype;
    int64_t rows, width;
    bool scaled, shifted, added;
    tl_activation activation;
} map;

/* Whole vectors and single numbers, strips and pieces that are whole and that are not; the last
 * one is as much as registers hold, which are a GPU's. */
static const map maps[] = {
    {TL_BF16, 4096, 64, true, true, true, TL_ACT_RELU},
    {TL_BF16, 8200, 32, true, true, false, TL_ACT_RELU},
    {TL_F32, 2000, 132, true, true, false, TL_ACT_RELU6},
    {TL_F16, 5243, 50, false, true, false, TL_ACT_NONE},
    {TL_BF16, 300, 1024, true, false, false, TL_ACT_NONE},
    {TL_BF16, 65536, 64, true, true, true, TL_ACT_NONE},
};

static int64_t map_count(bool gpu)
{
    return TL_COUNT(maps) - !gpu;
}

/* The CPU's engine, and the one that is tested. */
typedef struct sides {
    tl_engine *engines[2];
    tl_ctx *c[2];
    bool gpu;
} sides;

static int setup(void **state)
{
    static sides s;
    const tl_backend_class *cpu;
    const char *device = getenv("TILTH_DEVICE");
    s.gpu = device && strcmp(device, "cuda") == 0;
    shim.for_gpu = true;
    assert_ok(tl_cpu_backend(&cpu));
    assert_ok(tl_engine_new(&s.engines[0], &(tl_engine_args){.backend = cpu}));
    assert_ok(tl_engine_new(
        &s.engines[1], &(tl_engine_args){.backend = s.gpu ? &tl_backend_cuda : shim_backend()}));
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_ctx_new(&s.c[i], s.engines[i]));
        tl_ctx_set_draws(s.c[i], (tl_draws){.seed = 7});
    }
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    sides *s = *state;
    for (int i = 0; i < 2; i++) {
        tl_ctx_free(&s->c[i]);
        tl_engine_free(&s->engines[i]);
    }
    return 0;
}

static void get(tl_ctx *c, const tl_tensor *t, double *out)
{
    assert_ok(tl_ctx_status(c));
    assert_true(tl_tensor_count(t) > 0 && tl_tensor_count(t) <= MOST_ELEMENTS);
    assert_ok(tl_tensor_get_doubles(t, out, tl_tensor_count(t)));
}

static void compare(const double *a, const double *b, int64_t count, double most)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(a[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(a[i] - b[i]) <= most * largest))
            fail_msg("element %lld: %.9g and %.9g", (long long)i, a[i], b[i]);
}

typedef void make_fn(const map *m, tl_ctx *c, tl_tensor **in);

static tl_tensor *drawn(const map *m, tl_ctx *c)
{
    return tl_random_normal(c, m->dtype, TL_SHAPE(m->rows, m->width), 3, 2);
}

static tl_tensor *drawn_channels(const map *m, tl_ctx *c)
{
    return tl_random_uniform(c, TL_F32, TL_SHAPE(m->width), 0.5, 2);
}

static void make(const map *m, tl_ctx *c, tl_tensor **in)
{
    in[0] = drawn(m, c);
    for (int i = 1; i <= m->scaled + m->shifted; i++) in[i] = drawn_channels(m, c);
    if (m->added) in[1 + m->scaled + m->shifted] = drawn(m, c);
}

static void make_grad(const map *m, tl_ctx *c, tl_tensor **in)
{
    for (int i = 0; i < 2; i++) in[i] = drawn(m, c);
    for (int i = 2; i < 4 + m->scaled + (m->activation && m->shifted); i++)
        in[i] = drawn_channels(m, c);
}

static void check(const sides *s, const map *m, tl_op op, const tl_norm_attr *attr, make_fn *how,
                  int inputs)
{
    static double numbers[2][MOST_ELEMENTS];
    const double most = m->dtype == TL_F32 ? 1e-5 : m->dtype == TL_F16 ? 2e-3 : 1e-2;
    tl_tensor *in[2][MOST], *out[2][MOST], *again[MOST];
    for (int i = 0; i < 2; i++) {
        how(m, s->c[i], in[i]);
        assert_true(tl_apply_all(s->c[i], op, attr, inputs, in[i], out[i]));
    }
    for (int k = 0; k < tl_op_class_of(op)->outputs; k++) {
        const int64_t count = tl_tensor_count(out[0][k]);
        if (!count) continue;
        for (int i = 0; i < 2; i++) get(s->c[i], out[i][k], numbers[i]);
        compare(numbers[0], numbers[1], count, most);
        for (int n = 0; n < (s->gpu ? AGAIN : 1); n++) {
            const tl_mark mark = tl_ctx_begin(s->c[1]);
            assert_true(tl_apply_all(s->c[1], op, attr, inputs, in[1], again));
            get(s->c[1], again[k], numbers[0]);
            assert_memory_equal(numbers[0], numbers[1], (size_t)count * sizeof **numbers);
            tl_ctx_end(s->c[1], mark);
        }
    }
}

static tl_norm_attr attr_of(const map *m)
{
    return (tl_norm_attr){
        .epsilon = 1e-5, .scaled = m->scaled, .shifted = m->shifted, .activation = m->activation};
}

static void normalised(void **state)
{
    const sides *s = *state;
    for (int64_t i = 0; i < map_count(s->gpu); i++) {
        const map *m = &maps[i];
        tl_norm_attr attr = attr_of(m);
        attr.added = m->added;
        check(s, m, TL_OP_batch_normalize, &attr, make, 1 + m->scaled + m->shifted + m->added);
    }
}

static void gradients(void **state)
{
    const sides *s = *state;
    for (int64_t i = 0; i < map_count(s->gpu); i++) {
        const map *m = &maps[i];
        const tl_norm_attr attr = attr_of(m);
        check(s, m, TL_OP_batch_normalize_grad, &attr, make_grad,
              4 + m->scaled + (m->activation && m->shifted));
    }
}

static void assert_same(tl_ctx *c, const tl_tensor *a, const tl_tensor *b)
{
    static double numbers[2][MOST_ELEMENTS];
    get(c, a, numbers[0]);
    get(c, b, numbers[1]);
    assert_memory_equal(numbers[0], numbers[1], (size_t)tl_tensor_count(a) * sizeof **numbers);
}

/* What is added to a gradient, and the relu behind that, come in the same kernel. */
static void sums_in_gradients(void **state)
{
    const sides *s = *state;
    const map some[] = {{TL_BF16, s->gpu ? 65536 : 4096, 64, true, true, false, TL_ACT_NONE},
                        {TL_F32, 2000, 132, false, true, false, TL_ACT_NONE},
                        {TL_BF16, 100, 24, true, true, false, TL_ACT_NONE}};
    tl_ctx *c = s->c[1];
    for (int i = 0; i < (int)TL_COUNT(some); i++) {
        const map *m = &some[i];
        const int inputs = 4 + m->scaled;
        tl_norm_attr attr = attr_of(m);
        tl_tensor *in[MOST], *apart[MOST], *joined[MOST];
        make_grad(m, c, in);
        in[inputs] = drawn(m, c);
        in[inputs + 1] = tl_shift(c, drawn(m, c), -3);
        tl_tensor *gy = in[0], *sum = tl_relu_grad(c, tl_add(c, gy, in[inputs]), in[inputs + 1]);
        in[0] = sum;
        assert_true(tl_apply_all(c, TL_OP_batch_normalize_grad, &attr, inputs, in, apart));
        in[0] = gy;
        attr.added = true;
        assert_true(tl_apply_all(c, TL_OP_batch_normalize_grad, &attr, inputs + 2, in, joined));
        for (int k = 0; k < 3; k++)
            if (tl_tensor_count(apart[k])) assert_same(c, apart[k], joined[k]);
        assert_same(c, sum, joined[3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(normalised, setup, teardown),
        cmocka_unit_test_setup_teardown(gradients, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_in_gradients, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
