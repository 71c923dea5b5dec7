/* needs: threads
 * Plans that are run: interpreted, compiled and in the plainest way. */
#include "nest/nest_cases.h"

/* --- accesses --------------------------------------------------------------------------------- */

static void test_accesses(void **state)
{
    (void)state;
    static const int64_t dims[] = {6, 5, 7};
    cases c;
    cases_init(&c);
    build *b = cases_add(&c, "transposed, reversed, repeated, apart", 3, dims);
    int x = load(b, TL_F32, (const int64_t[]){1, 6, 30}, 0);
    int y = load(b, TL_BF16, (const int64_t[]){-35, 7, -1}, 5 * 35 + 6);
    int z = load(b, TL_I8, (const int64_t[]){0, 3, 0}, 2);
    int w = load(b, TL_BOOL, (const int64_t[]){70, 14, 2}, 1);
    static const tl_cast_attr f32 = {TL_F32};
    y = op(b, TL_OP_cast, TL_F32, &f32, 1, y);
    z = op(b, TL_OP_cast, TL_F32, &f32, 1, z);
    int r = op(b, TL_OP_where, TL_F32, NULL, 3, w, op(b, TL_OP_add, TL_F32, NULL, 2, x, y), z);
    store(b, r, (const int64_t[]){70, 14, 2}, 1);
    store(b, r, (const int64_t[]){-35, -7, -1}, 5 * 35 + 4 * 7 + 6);
    store(b, r, (const int64_t[]){1, 6, 30}, 3);
    store_all(b, reduce(b, TL_OP_sum, z, 7)); // it varies over one axis; all points count

    b = cases_add(&c, "one element", 0, NULL);
    store_all(b, op(b, TL_OP_exp, TL_F32, NULL, 1, load_all(b, TL_F32, 0)));
    b = cases_add(&c, "axes of size one", 3, (const int64_t[]){1, 1, 1});
    x = load(b, TL_F32, (const int64_t[]){5, 3, 1}, 4);
    store(b, op(b, TL_OP_neg, TL_F32, NULL, 1, x), (const int64_t[]){1, 0, 9}, 2);
    b = cases_add(&c, "nothing", 2, (const int64_t[]){0, 3});
    store_all(b, op(b, TL_OP_neg, TL_F32, NULL, 1, load_all(b, TL_F32, 3)));

    b = cases_add(&c, "indices and numbers", 2, (const int64_t[]){11, 13});
    int i = index_term(b, TL_F32, 0, 3, -7), j = index_term(b, TL_I64, 1, -2, 5);
    int k = index_term(b, TL_BF16, 1, 100, 1), h = index_term(b, TL_I8, 0, 50, 0);
    int huge = index_term(b, TL_F32, 0, INT64_C(1) << 40, 12345);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, i, number(b, TL_F32, 0.1)));
    store_all(b, op(b, TL_OP_add, TL_I64, NULL, 2, j, number(b, TL_I64, -9e18)));
    store_all(b, op(b, TL_OP_add, TL_BF16, NULL, 2, k, number(b, TL_BF16, 1e-3)));
    store_all(b, op(b, TL_OP_less, TL_BOOL, NULL, 2, h, number(b, TL_I8, 300)));
    store_all(b, huge);
    store_all(b, op(b, TL_OP_maximum, TL_F32, NULL, 2, i, number(b, TL_F32, -INFINITY)));

    // Long enough for several tasks; terms that vary over fewer axes are stored once.
    b = cases_add(&c, "long rows", 2, (const int64_t[]){3, 70000});
    x = load_all(b, TL_F32, 3);
    y = load_all(b, TL_F32, 1);
    z = load_all(b, TL_F32, 2);
    int e = op(b, TL_OP_exp, TL_F32, NULL, 1, y), v = op(b, TL_OP_tanh, TL_F32, NULL, 1, z);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, op(b, TL_OP_add, TL_F32, NULL, 2, x, e), v));
    store_all(b, e);
    store_all(b, v);
    b = cases_add(&c, "many short rows", 3, (const int64_t[]){90, 70, 5});
    x = load_all(b, TL_F32, 7);
    y = load_all(b, TL_F32, 2);
    z = load_all(b, TL_F32, 4);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, op(b, TL_OP_add, TL_F32, NULL, 2, x, y), z));

    // Large enough for vectors on a GPU; one of the inputs has none, a sum of rows has them apart.
    b = cases_add(&c, "vectors", 2, (const int64_t[]){256, 1024});
    x = load_all(b, TL_BF16, 3);
    y = op(b, TL_OP_cast, TL_BF16, &(const tl_cast_attr){TL_BF16}, 1, load_all(b, TL_F32, 2));
    z = load(b, TL_BF16, (const int64_t[]){1025, 1}, 0);
    w = op(b, TL_OP_add, TL_BF16, NULL, 2, op(b, TL_OP_mul, TL_BF16, NULL, 2, x, y), z);
    store_all(b, w);
    store(b, w, (const int64_t[]){1032, 1}, 8);
    store(b, w, (const int64_t[]){1, 256}, 0);
    cases_check(&c);
    cases_deinit(&c);
}

/* --- several stages --------------------------------------------------------------------------- */

static void add_softmax(cases *c, tl_dtype dtype, int64_t rows, int64_t columns)
{
    char name[64];
    snprintf(name, sizeof name, "softmax %s of %d", tl_dtype_name(dtype), (int)columns);
    build *b = cases_add(c, name, 2, (const int64_t[]){rows, columns});
    int x = load_all(b, dtype, 3), most = reduce(b, TL_OP_max, x, 2);
    int e = op(b, TL_OP_exp, dtype, NULL, 1, op(b, TL_OP_sub, dtype, NULL, 2, x, most));
    store_all(b, op(b, TL_OP_div, dtype, NULL, 2, e, reduce(b, TL_OP_sum, e, 2)));
    b->tolerance = dtype == TL_F32 ? 2e-6 : 3e-2;
}

static void add_layer_norm(cases *c, int64_t rows, int64_t columns)
{
    static tl_affine_attr mean, epsilon = {1, 1e-3};
    mean = (tl_affine_attr){1.0 / (double)columns, 0};
    build *b = cases_add(c, "layer norm", 2, (const int64_t[]){rows, columns});
    int x = load_all(b, TL_F32, 3), gamma = load_all(b, TL_F32, 2), beta = load_all(b, TL_F32, 2);
    int m = op(b, TL_OP_affine, TL_F32, &mean, 1, reduce(b, TL_OP_sum, x, 2));
    int d = op(b, TL_OP_sub, TL_F32, NULL, 2, x, m);
    int var = op(b, TL_OP_affine, TL_F32, &mean, 1,
                 reduce(b, TL_OP_sum, op(b, TL_OP_square, TL_F32, NULL, 1, d), 2));
    int s = op(b, TL_OP_rsqrt, TL_F32, NULL, 1, op(b, TL_OP_affine, TL_F32, &epsilon, 1, var));
    int h = op(b, TL_OP_mul, TL_F32, NULL, 2, d, s);
    store_all(b,
              op(b, TL_OP_add, TL_F32, NULL, 2, op(b, TL_OP_mul, TL_F32, NULL, 2, h, gamma), beta));
    store_all(b, m);
    store_all(b, s);
    b->tolerance = 1e-5;
}

// Gradients of its input and parameters: sums along rows and along columns.
static void add_layer_norm_grad(cases *c, int64_t rows, int64_t columns)
{
    static tl_affine_attr mean;
    mean = (tl_affine_attr){1.0 / (double)columns, 0};
    build *b = cases_add(c, "layer norm gradients", 2, (const int64_t[]){rows, columns});
    int g = load_all(b, TL_F32, 3), x = load_all(b, TL_F32, 3), gamma = load_all(b, TL_F32, 2);
    int m = load_all(b, TL_F32, 1), s = load_all(b, TL_F32, 1);
    int h = op(b, TL_OP_mul, TL_F32, NULL, 2, op(b, TL_OP_sub, TL_F32, NULL, 2, x, m), s);
    int gg = op(b, TL_OP_mul, TL_F32, NULL, 2, g, gamma);
    int a = op(b, TL_OP_affine, TL_F32, &mean, 1, reduce(b, TL_OP_sum, gg, 2));
    int d = op(b, TL_OP_affine, TL_F32, &mean, 1,
               reduce(b, TL_OP_sum, op(b, TL_OP_mul, TL_F32, NULL, 2, gg, h), 2));
    int rest = op(b, TL_OP_sub, TL_F32, NULL, 2, op(b, TL_OP_sub, TL_F32, NULL, 2, gg, a),
                  op(b, TL_OP_mul, TL_F32, NULL, 2, h, d));
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, rest, s));
    store_all(b, reduce(b, TL_OP_sum, op(b, TL_OP_mul, TL_F32, NULL, 2, g, h), 1));
    store_all(b, reduce(b, TL_OP_sum, g, 1));
    b->tolerance = 1e-5;
}

// Channel statistics, and running ones that are changed in place.
static void add_batch_stats(cases *c, int64_t images, int64_t pixels, int64_t channels)
{
    static tl_affine_attr mean, keep = {0.9, 0}, add = {0.1, 0};
    mean = (tl_affine_attr){1.0 / (double)(images * pixels), 0};
    build *b = cases_add(c, "batch statistics", 3, (const int64_t[]){images, pixels, channels});
    int x = load_all(b, TL_F32, 7), old = load_all(b, TL_F32, 4);
    int m = op(b, TL_OP_affine, TL_F32, &mean, 1, reduce(b, TL_OP_sum, x, 3));
    int q = op(b, TL_OP_affine, TL_F32, &mean, 1,
               reduce(b, TL_OP_sum, op(b, TL_OP_square, TL_F32, NULL, 1, x), 3));
    store_all(b, op(b, TL_OP_sub, TL_F32, NULL, 2, q, op(b, TL_OP_square, TL_F32, NULL, 1, m)));
    int running = op(b, TL_OP_add, TL_F32, NULL, 2, op(b, TL_OP_affine, TL_F32, &keep, 1, old),
                     op(b, TL_OP_affine, TL_F32, &add, 1, m));
    store_to(b, b->terms[old].from.buffer, running, (const int64_t[]){0, 0, 1}, 0);
}

// What depends on the channel alone is computed once a task, not once a pixel.
static void add_batch_norm(cases *c, int64_t pixels, int64_t channels, bool sums)
{
    static const tl_affine_attr epsilon = {1, 3};
    build *b = cases_add(c, "batch norm", 2, (const int64_t[]){pixels, channels});
    int x = load_all(b, TL_F32, 3), m = load_all(b, TL_F32, 2), v = load_all(b, TL_F32, 2);
    int s = op(b, TL_OP_rsqrt, TL_F32, NULL, 1, op(b, TL_OP_affine, TL_F32, &epsilon, 1, v));
    int y = op(b, TL_OP_mul, TL_F32, NULL, 2, op(b, TL_OP_sub, TL_F32, NULL, 2, x, m), s);
    y = op(b, TL_OP_add, TL_F32, NULL, 2, y, op(b, TL_OP_tanh, TL_F32, NULL, 1, s));
    store_all(b, op(b, TL_OP_relu, TL_F32, NULL, 1, y));
    if (!sums) return;
    int total = reduce(b, TL_OP_sum, y, 1);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, op(b, TL_OP_exp, TL_F32, NULL, 1, s), total));
}

static void test_stages(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    add_batch_norm(&c, 500, 24, false);
    add_batch_norm(&c, 500, 24, true);
    add_batch_norm(&c, 40, 9000, true);
    add_batch_norm(&c, 20, 30000, false); // too long for row buffers
    add_softmax(&c, TL_F32, 37, 10);
    add_softmax(&c, TL_F32, 5, 4096);
    add_softmax(&c, TL_BF16, 7, 777);
    add_softmax(&c, TL_F32, 2, 40000); // too long for a row buffer
    add_layer_norm(&c, 50, 768);
    add_layer_norm_grad(&c, 300, 96);
    add_layer_norm_grad(&c, 3, 1500);
    add_batch_stats(&c, 4, 49, 32);
    add_batch_stats(&c, 8, 400, 3);

    build *b = cases_add(&c, "in place, needed by two stages", 2, (const int64_t[]){9, 600});
    int x = load_all(b, TL_F32, 3);
    int y = op(b, TL_OP_exp, TL_F32, NULL, 1, x), s = reduce(b, TL_OP_sum, y, 2);
    store_to(b, 0, op(b, TL_OP_neg, TL_F32, NULL, 1, x), (const int64_t[]){600, 1}, 0);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, x, s));
    store_all(b, s);

    for (int i = 0; i < 2; i++) { // sums of what is changed, in one piece and in several
        const int64_t size = i ? 200000 : 700;
        b = cases_add(&c, "in place, and its sum", 1, &size);
        x = load_all(b, TL_F32, 1);
        store_to(b, 0, op(b, TL_OP_exp, TL_F32, NULL, 1, x), (const int64_t[]){1}, 0);
        store_all(b, reduce(b, TL_OP_sum, x, 1));
    }

    b = cases_add(&c, "mean of row losses", 2, (const int64_t[]){64, 10});
    x = load_all(b, TL_F32, 3);
    int l = op(b, TL_OP_log, TL_F32, NULL, 1,
               reduce(b, TL_OP_sum, op(b, TL_OP_exp, TL_F32, NULL, 1, x), 2));
    store_all(b, l);
    store_all(b, reduce(b, TL_OP_sum, l, 1));

    b = cases_add(&c, "softmax of column sums", 2, (const int64_t[]){40, 300});
    x = load_all(b, TL_F32, 3);
    s = reduce(b, TL_OP_sum, x, 1);
    int e = op(b, TL_OP_exp, TL_F32, NULL, 1,
               op(b, TL_OP_sub, TL_F32, NULL, 2, s, reduce(b, TL_OP_max, s, 2)));
    store_all(b, op(b, TL_OP_div, TL_F32, NULL, 2, e, reduce(b, TL_OP_sum, e, 2)));
    b->tolerance = 1e-4;

    b = cases_add(&c, "softmax over the middle axis", 3, (const int64_t[]){3, 20, 7});
    x = load_all(b, TL_F32, 7);
    e = op(b, TL_OP_exp, TL_F32, NULL, 1,
           op(b, TL_OP_sub, TL_F32, NULL, 2, x, reduce(b, TL_OP_max, x, 2)));
    store_all(b, op(b, TL_OP_div, TL_F32, NULL, 2, e, reduce(b, TL_OP_sum, e, 2)));

    b = cases_add(&c, "global pool and its maximum", 3, (const int64_t[]){30, 49, 20});
    x = load_all(b, TL_F32, 7);
    s = reduce(b, TL_OP_sum, x, 2);
    store_all(b, s);
    store_all(b, reduce(b, TL_OP_max, s, 4));
    store_all(b, reduce(b, TL_OP_sum, x, 6));
    cases_check(&c);
    cases_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accesses),
        cmocka_unit_test(test_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
