/* Plans: what is cut into how many tasks, what does not fit one sweep, and what is printed. */
#include "nest/nest_cases.h"

static tl_nest_plan *plan_of(cases *c, build *b)
{
    assert_ok(tl_nest_plan_new(&b->plan, c->arena, &b->nest));
    return b->plan;
}

static void test_tasks(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    build *b = cases_add(&c, "small", 2, (const int64_t[]){100, 100});
    store_all(b, op(b, TL_OP_neg, TL_F32, NULL, 1, load_all(b, TL_F32, 3)));
    tl_nest_plan *p = plan_of(&c, b);
    assert_int_equal(p->phase_count, 1);
    assert_int_equal(p->phases[0].tasks, 1);
    assert_int_equal(p->walk.scratch_bytes, 0);
    assert_near(p->walk.flops, 10000, 0);
    assert_near(p->walk.bytes, 80000, 0);

    b = cases_add(&c, "large", 2, (const int64_t[]){1000, 1000});
    store_all(b, op(b, TL_OP_neg, TL_F32, NULL, 1, load_all(b, TL_F32, 3)));
    p = plan_of(&c, b);
    assert_true(p->phases[0].tasks > 8 && p->phases[0].tasks < 200);

    b = cases_add(&c, "columns", 2, (const int64_t[]){100000, 10});
    store_all(b, reduce(b, TL_OP_sum, load_all(b, TL_F32, 3), 1));
    p = plan_of(&c, b);
    assert_int_equal(p->phase_count, 2);
    assert_true(p->phases[0].tasks > 8);
    assert_true(p->walk.scratch_bytes > 0 && p->walk.scratch_bytes < 100000);

    b = cases_add(&c, "empty", 1, (const int64_t[]){0});
    store_all(b, op(b, TL_OP_neg, TL_F32, NULL, 1, load_all(b, TL_F32, 1)));
    p = plan_of(&c, b);
    assert_int_equal(p->phases[0].tasks, 1); // the row has no elements
    cases_deinit(&c);
}

static void assert_refused(cases *c, build *b, const char *text)
{
    tl_nest_plan *p;
    assert_fails(tl_nest_plan_new(&p, c->arena, &b->nest), TL_EUNSUPPORTED, text);
    assert_null(p);
}

static void test_refused(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    build *b = cases_add(&c, "three sets of axes", 3, (const int64_t[]){4, 5, 6});
    int x = load_all(b, TL_F32, 7);
    for (int i = 0; i < 3; i++) store_all(b, reduce(b, TL_OP_sum, x, UINT32_C(1) << i));
    assert_refused(&c, b, "other axes than another reduction");

    b = cases_add(&c, "a column sum that its columns want", 3, (const int64_t[]){4, 5, 6});
    x = load_all(b, TL_F32, 7);
    int s = reduce(b, TL_OP_sum, x, 5), y = op(b, TL_OP_sub, TL_F32, NULL, 2, x, s);
    store_all(b, y);
    assert_refused(&c, b, "is needed together with its result");

    b = cases_add(&c, "a sum of sums", 3, (const int64_t[]){4, 5, 6});
    x = load_all(b, TL_F32, 7);
    s = reduce(b, TL_OP_sum, x, 5);
    y = reduce(b, TL_OP_sum, op(b, TL_OP_mul, TL_F32, NULL, 2, load_all(b, TL_F32, 7), s), 5);
    store_all(b, y);
    assert_refused(&c, b, "of the result of another one");

    b = cases_add(&c, "one number for all, changed", 2, (const int64_t[]){400, 500});
    x = load_all(b, TL_F32, 3);
    y = load_all(b, TL_F32, 1);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, x, load_all(b, TL_F32, 2)));
    s = load_all(b, TL_F32, 0);
    store_to(b, b->terms[s].from.buffer, op(b, TL_OP_neg, TL_F32, NULL, 1, s),
             (const int64_t[]){0, 0}, 0);
    store_all(b, op(b, TL_OP_mul, TL_F32, NULL, 2, y, s));
    assert_refused(&c, b, "which is loaded again at other points");

    static const tl_clip_attr beyond = {200, 300};
    b = cases_add(&c, "clip", 1, (const int64_t[]){4});
    store_all(b, op(b, TL_OP_clip, TL_I8, &beyond, 1, load_all(b, TL_I8, 1)));
    assert_refused(&c, b, "t1: clip of int8 between 200 and 300");
    cases_deinit(&c);
}

static void test_memory(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    build *b = cases_add(&c, "softmax", 2, (const int64_t[]){8, 600});
    int x = load_all(b, TL_F32, 3);
    int e = op(b, TL_OP_exp, TL_F32, NULL, 1,
               op(b, TL_OP_sub, TL_F32, NULL, 2, x, reduce(b, TL_OP_max, x, 2)));
    store_all(b, op(b, TL_OP_div, TL_F32, NULL, 2, e, reduce(b, TL_OP_sum, e, 2)));
    fill_buffers(b);
    for (int64_t nth = 1;; nth++) {
        tl_arena *arena = NULL;
        tl_nest_plan *p;
        assert_ok(tl_arena_new(&arena));
        tl_alloc_fail_at(nth, 1);
        const tl_status st = tl_nest_plan_new(&p, arena, &b->nest);
        tl_alloc_fail_at(0, 0);
        tl_arena_free(&arena);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_true(nth < 2000);
    }
    plan_of(&c, b);
    char *out[MOST_BUFFERS];
    copy_buffers(b, out);
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_nest_run(b->plan, NULL, (void *const *)out, NULL, NULL), TL_ENOMEM,
                 "out of memory");
    tl_alloc_fail_at(0, 0);
    free_buffers(b, out);
    for (int64_t nth = 1;; nth++) {
        tl_str text = TL_STR_INIT;
        tl_alloc_fail_at(nth, 1);
        tl_nest_print_c(&text, b->plan, "f");
        tl_alloc_fail_at(0, 0);
        const bool failed = tl_str_status(&text) != TL_OK;
        tl_str_deinit(&text);
        if (!failed) break;
        assert_true(nth < 2000);
    }
    cases_deinit(&c);
}

// What a term's note says must not end the comment it stands in.
static void test_notes(void **state)
{
    (void)state;
    cases c;
    cases_init(&c);
    build *b = cases_add(&c, "notes", 1, (const int64_t[]){40});
    int x = load_all(b, TL_F32, 1), y = op(b, TL_OP_neg, TL_F32, NULL, 1, x);
    b->terms[x].note = "a */ int bad( /* \\";
    b->terms[y].note = "two\nlines \\\n#error";
    int z = op(b, TL_OP_neg, TL_F32, NULL, 1, y);
    b->terms[z].note = "a?\?/"; // a backslash before the line end, as a trigraph
    store_all(b, z);
    cases_check(&c);
    cases_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
