/* Every op with every type it takes, in nests. takes: long */
#include "nest/nest_cases.h"

static void add_op_case(cases *c, tl_op what, tl_dtype dtype, const void *attr)
{
    const tl_op_class *cls = tl_op_class_of(what);
    char name[64];
    int in[3];
    snprintf(name, sizeof name, "%s of %s", cls->name, tl_dtype_name(dtype));
    build *b = cases_add(c, name, 1, (const int64_t[]){601});
    for (int i = 0; i < cls->inputs_min; i++)
        in[i] = load_all(b, what == TL_OP_where && i == 0 ? TL_BOOL : dtype, 1);
    const bool truth = tl_op_class_of(what)->flags & TL_OP_TRUTH;
    store_all(b, op(b, what, truth ? TL_BOOL : dtype, attr, cls->inputs_min, in[0], in[1], in[2]));
}

// Numbers that are special to some op stand at the beginning of each buffer.
static void put_specials(cases *c)
{
    static const double special[] = {
        0.0,  -0.0, INFINITY, -INFINITY, NAN, 1, -1,  88.5, -88.5, 1e-9, 1e30,  -1e30, 0.5,
        -0.5, 1.5,  2.5,      3,         -3,  6, 100, -100, 1000,  20.5, -20.5, 1e-40, 1e-30};
    enum { COUNT = sizeof special / sizeof special[0] };
    for (int i = 0; i < c->count; i++) {
        build *b = c->all[i];
        fill_buffers(b);
        // An infinite gradient would show where a slope that is as good as 0 becomes one.
        const char *name = tl_op_class_of(b->terms[b->nest.term_count - 1].op)->name;
        const bool slope = strstr(name, "_grad") != NULL;
        for (int k = 0; k < b->nest.buffer_count; k++) {
            if (b->buffers[k].stored || !tl_dtype_is_float(b->buffers[k].dtype)) continue;
            for (int m = 0; m < COUNT; m++) { // each number meets another one of the second input
                const double x = special[(m + 5 * k) % COUNT];
                const bool fine = !slope || k > 0 || isfinite(x);
                tli_element_set(b->buffers[k].dtype, b->buffers[k].data, m, fine ? x : 2);
            }
        }
    }
}

static void test_ops(void **state)
{
    (void)state;
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64, TL_I8,
                                     TL_I16, TL_I32,  TL_I64, TL_U8,  TL_BOOL};
    cases c;
    cases_init(&c);
    for (int o = 0; o < TL_OP_COUNT; o++) {
        const tl_op what = (tl_op)o;
        if (what == TL_OP_cast || !is_elementwise(what)) continue;
        for (int t = 0; t < TL_COUNT(types); t++) {
            const bool truth = tl_op_class_of(what)->flags & TL_OP_TRUTH;
            if (!tl_nest_has_op(what, truth ? TL_BOOL : types[t], types[t])) continue;
            for (int v = 0; v < variants_of(what); v++)
                add_op_case(&c, what, types[t], attr_for(what, v));
        }
    }
    put_specials(&c);
    for (int i = 0; i < c.count; i++) c.all[i]->tolerance = 1e-6;
    assert_true(c.count > 200);
    cases_check(&c);
    cases_deinit(&c);
}

static void test_casts(void **state)
{
    (void)state;
    static tl_cast_attr to[TL_DTYPE_COUNT];
    cases c;
    cases_init(&c);
    for (int from = 0; from < TL_DTYPE_COUNT; from++)
        for (int t = 0; t < TL_DTYPE_COUNT; t++) {
            char name[64];
            snprintf(name, sizeof name, "%s to %s", tl_dtype_names[from], tl_dtype_names[t]);
            build *b = cases_add(&c, name, 1, (const int64_t[]){300});
            to[t].dtype = (tl_dtype)t;
            b->tolerance = 0;
            b->low = from == TL_I64 || from == TL_F64   ? -1e18
                     : from == TL_I32 || from == TL_F32 ? -7e8
                                                        : -300;
            b->high = -b->low;
            store_all(b, op(b, TL_OP_cast, (tl_dtype)t, &to[t], 1, load_all(b, (tl_dtype)from, 1)));
        }
    put_specials(&c);
    // Halfway between two floats, and a little beside.
    for (int i = 0; i < c.count; i++) {
        buffer *m = &c.all[i]->buffers[0];
        for (int k = 0; k < 40; k++) {
            const int64_t whole =
                ((INT64_C(1) << 40) + (INT64_C(1) << 16) * (2 * k + 1) + (k % 3 - 1)) >> (k % 5);
            if (m->dtype == TL_I64) ((int64_t *)m->data)[100 + k] = k % 2 ? whole : -whole;
            if (m->dtype == TL_F64) ((double *)m->data)[100 + k] = (double)whole;
            if (m->dtype == TL_I32) ((int32_t *)m->data)[100 + k] = (int32_t)(whole >> 10);
        }
    }
    cases_check(&c);
    cases_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_casts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
