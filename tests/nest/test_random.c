/* Nests made by chance; TILTH_NEST_SEED begins elsewhere. takes: long */
#include "nest/nest_cases.h"

static const tl_gelu_attr exact = {.approximate = false};

static int pick(tl_rng *rng, int count)
{
    return (int)tl_rng_below(rng, count);
}

static int random_load(build *b, tl_rng *rng, tl_dtype dtype)
{
    int64_t strides[TL_MAX_RANK] = {0}, step = 1, offset = 0;
    int order[TL_MAX_RANK];
    for (int i = 0; i < b->nest.rank; i++) {
        const int other = pick(rng, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    const bool usual = pick(rng, 3) > 0;
    for (int i = b->nest.rank - 1; i >= 0; i--) {
        const int axis = usual ? i : order[i];
        if (pick(rng, 4) == 0) continue; // repeated along it
        const bool back = !usual && pick(rng, 3) == 0;
        strides[axis] = back ? -step : step;
        if (back && b->nest.dims[axis] > 0) offset += step * (b->nest.dims[axis] - 1);
        step *= b->nest.dims[axis] ? b->nest.dims[axis] : 1;
    }
    return load(b, dtype, strides, offset);
}

static int random_term(build *b, tl_rng *rng, tl_dtype dtype, const uint32_t *sets)
{
    static const tl_op unary[] = {TL_OP_neg,  TL_OP_abs,     TL_OP_relu, TL_OP_tanh,
                                  TL_OP_gelu, TL_OP_sigmoid, TL_OP_silu, TL_OP_affine};
    static const tl_op binary[] = {TL_OP_add, TL_OP_sub, TL_OP_mul, TL_OP_maximum, TL_OP_minimum};
    static const tl_op sums[] = {TL_OP_sum, TL_OP_max, TL_OP_min, TL_OP_sum};
    static const tl_affine_attr affine = {0.5, 0.25};
    const int count = (int)b->nest.term_count, what = pick(rng, 10);
    const int x = pick(rng, count), y = pick(rng, count);
    if (what < 4) {
        const tl_op o = unary[pick(rng, TL_COUNT(unary))];
        return op(b, o, dtype, o == TL_OP_affine ? (const void *)&affine : (const void *)&exact, 1,
                  x);
    }
    if (what < 7) return op(b, binary[pick(rng, TL_COUNT(binary))], dtype, NULL, 2, x, y);
    const uint32_t axes = sets[pick(rng, 2)];
    if (!axes) return op(b, TL_OP_neg, dtype, NULL, 1, x);
    // Means, so that numbers stay small.
    return reduce(b, sums[pick(rng, TL_COUNT(sums))], x, axes);
}

// Over the first input, if the term varies as it does.
static void store_in_place(build *b, int term)
{
    uint32_t varies[MOST_TERMS];
    tl_nest_variance(&b->nest, varies);
    if (varies[term] == varies[0]) store_to(b, 0, term, b->terms[0].from.strides, 0);
}

static bool random_case(cases *c, uint64_t seed)
{
    static const tl_dtype types[] = {TL_F32, TL_F32, TL_F32, TL_BF16, TL_F16};
    static const int64_t sizes[] = {1, 2, 3, 5, 7, 13, 16, 31, 64};
    tl_rng rng;
    tl_rng_init(&rng, seed);
    int64_t dims[TL_MAX_RANK];
    const int rank = 1 + pick(&rng, 4);
    for (int i = 0; i < rank; i++) dims[i] = sizes[pick(&rng, rank > 3 ? 6 : TL_COUNT(sizes))];
    if (rank < 3 && pick(&rng, 4) == 0) dims[rank - 1] = 1000 + pick(&rng, 9000);
    char name[64];
    snprintf(name, sizeof name, "random %d", (int)seed);
    build *b = cases_add(c, name, rank, dims);
    const tl_dtype dtype = types[pick(&rng, TL_COUNT(types))];
    const uint32_t all = (UINT32_C(1) << rank) - 1;
    const uint32_t sets[2] = {(uint32_t)pick(&rng, (int)all + 1),
                              pick(&rng, 2) ? UINT32_C(1) << (rank - 1) : 0};
    const int loads = 1 + pick(&rng, 3), terms = 2 + pick(&rng, 10);
    load_all(b, dtype, all);
    for (int i = 1; i < loads; i++) random_load(b, &rng, dtype);
    for (int i = 0; i < terms; i++) random_term(b, &rng, dtype, sets);
    const int count = (int)b->nest.term_count;
    for (int i = 0; i < 3; i++) store_all(b, i == 0 ? count - 1 : pick(&rng, count));
    if (pick(&rng, 3) == 0) store_in_place(b, pick(&rng, count));
    b->tolerance = dtype == TL_F32 ? 2e-5 : 0.2;
    const tl_status st = tl_nest_plan_new(&b->plan, c->arena, &b->nest);
    if (st == TL_OK) return true;
    assert_int_equal(st, TL_EUNSUPPORTED);
    c->count--; // there are enough others
    for (int i = 0; i < MOST_BUFFERS; i++) free(b->buffers[i].data);
    free(b);
    return false;
}

static void test_random(void **state)
{
    (void)state;
    const int wanted = getenv("TILTH_ALL_CASES") ? 200 : SANITIZED ? 50 : 120;
    const char *given = getenv("TILTH_NEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    int refused = 0;
    cases c;
    cases_init(&c);
    while (c.count < wanted) refused += !random_case(&c, seed++);
    assert_true(refused < 3 * wanted);
    cases_check(&c);
    cases_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
