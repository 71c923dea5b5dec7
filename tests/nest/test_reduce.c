/* needs: threads; takes: long
 * Reductions of nests: over all sets of axes, of all types. */
#include "nest/nest_cases.h"

// `sets` has one bit for each set of axes.
static void add_reductions(cases *c, int rank, const int64_t *dims, tl_dtype dtype, uint32_t sets)
{
    static const tl_op ops[] = {TL_OP_sum, TL_OP_prod, TL_OP_max, TL_OP_min, TL_OP_any, TL_OP_all};
    for (uint32_t axes = 1; axes < UINT32_C(1) << rank; axes++) {
        char name[64];
        if (!(sets >> axes & 1)) continue;
        snprintf(name, sizeof name, "reductions of %s over 0x%x", tl_dtype_name(dtype),
                 (unsigned)axes);
        build *b = cases_add(c, name, rank, dims);
        int x = load_all(b, dtype, (UINT32_C(1) << rank) - 1);
        bool empty = false;
        for (int i = 0; i < rank; i++) empty |= axes >> i & 1 && dims[i] == 0;
        if (dtype != TL_BOOL) x = op(b, TL_OP_neg, dtype, NULL, 1, x);
        if (dtype != TL_BOOL) store_all(b, x);
        for (int i = 0; i < TL_COUNT(ops); i++) {
            if (dtype == TL_BOOL && ops[i] != TL_OP_any && ops[i] != TL_OP_all) continue;
            if (empty && (ops[i] == TL_OP_max || ops[i] == TL_OP_min)) continue;
            store_all(b, reduce(b, ops[i], x, axes));
        }
        b->low = -1.2;
        b->high = 1.2;
        b->tolerance = 1e-5; // products
    }
}

static void test_reductions(void **state)
{
    (void)state;
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64, TL_I8,
                                     TL_I16, TL_I32,  TL_I64, TL_U8,  TL_BOOL};
    cases c;
    cases_init(&c);
    const uint32_t all = UINT32_MAX, outer_row_both = 1u << 1 | 1u << 4 | 1u << 5;
    for (int t = 0; t < TL_COUNT(types); t++)
        add_reductions(&c, 3, (const int64_t[]){3, 5, 37}, types[t],
                       types[t] == TL_F32 ? all : outer_row_both);
    add_reductions(&c, 4, (const int64_t[]){2, 3, 1, 5}, TL_F32, all);
    add_reductions(&c, 2, (const int64_t[]){1, 1}, TL_F32, all);
    add_reductions(&c, 2, (const int64_t[]){1, 1}, TL_BF16, all);
    add_reductions(&c, 2, (const int64_t[]){0, 5}, TL_F32, all);
    add_reductions(&c, 2, (const int64_t[]){5, 0}, TL_I32, all);
    add_reductions(&c, 2, (const int64_t[]){0, 0}, TL_F32, all);
    cases_check(&c);
    cases_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
