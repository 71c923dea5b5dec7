/* runs: fake device */
#include "core/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/core/attrs.h>
#include <tilth/core/ctx.h>
#include <tilth/core/tensors.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f.engine = open_engine();
    assert_ok(tl_ctx_new(&f.c, f.engine));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_ctx_free(&f->c);
    tl_ctx_free(&f->c);
    close_engine(&f->engine);
    return 0;
}

static int64_t used(const fixture *f)
{
    return memory_used(f->engine);
}

/* --- scopes ----------------------------------------------------------------------------------- */

static void a_scope_ends_with_all_it_made(void **state)
{
    fixture *f = *state;
    tl_tensor *outside = tl_ones(f->c, TL_F32, TL_SHAPE(100)), *kept;
    int64_t before = used(f);
    assert_true(before >= 400);
    tl_mark outer = tl_ctx_begin(f->c);
    tl_tensor *a = tl_add(f->c, outside, outside);
    int64_t with_a = used(f);
    tl_mark inner = tl_ctx_begin(f->c);
    tl_tensor *b = tl_add(f->c, a, a);
    assert_ptr_equal(tl_ctx_newest(f->c), b);
    assert_ok(tl_tensor_keep(&kept, b));
    tl_ctx_end(f->c, inner);
    assert_ptr_equal(tl_ctx_newest(f->c), a);
    assert_true(used(f) > with_a); // what is kept stays
    double values[100];
    assert_ok(tl_tensor_get_doubles(kept, values, 100));
    assert_near(values[99], 4, 0);
    tl_tensor_free(&kept);
    assert_int_equal(used(f), with_a);
    tl_ctx_end(f->c, outer);
    assert_int_equal(used(f), before);
    assert_ptr_equal(tl_ctx_newest(f->c), outside);
}

static void records_end_with_their_scope(void **state)
{
    fixture *f = *state;
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(2));
    tl_ctx_set_capturing(f->c, true);
    assert_null(tl_ctx_first_node(f->c));
    tl_mark first = tl_ctx_begin(f->c);
    tl_add(f->c, x, x);
    tl_ctx_end(f->c, first);
    assert_null(tl_ctx_first_node(f->c));
    assert_null(tl_ctx_last_node(f->c));
    tl_tensor *y = tl_exp(f->c, x);
    const tl_node *exp_node = tl_ctx_first_node(f->c);
    assert_ptr_equal(y->node, exp_node);
    assert_ptr_equal(exp_node->out[0], y);
    tl_mark second = tl_ctx_begin(f->c);
    tl_add(f->c, y, y);
    assert_int_equal(tl_ctx_last_node(f->c)->index, 1);
    assert_ptr_equal(tl_ctx_last_node(f->c)->before, exp_node);
    tl_ctx_end(f->c, second);
    assert_ptr_equal(tl_ctx_last_node(f->c), exp_node);
    assert_null(exp_node->after);
}

static void recorded_calls_are_copies(void **state)
{
    fixture *f = *state;
    int64_t axes[2] = {0, 1};
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(2, 3, 4));
    tl_ctx_set_capturing(f->c, true);
    tl_ctx_enter(f->c, "net");
    tl_tensor *y = tl_sum(f->c, x, (tl_axes){axes, 2}, true);
    tl_ctx_leave(f->c);
    axes[0] = axes[1] = 99; // the caller's list is its own again
    const tl_node *n = tl_ctx_last_node(f->c);
    assert_non_null(y);
    assert_ptr_equal(n->op, &tl_op_sum);
    const tl_reduce_attr *attr = n->attr;
    assert_int_equal(attr->axes.count, 2);
    assert_true(attr->axes.items[0] == 0 && attr->axes.items[1] == 1 && attr->keep_dims);
    assert_string_equal(n->path, "net");
    assert_ptr_equal(n->in[0], x);
    assert_null(y->storage);
}

static void dropped_tensors_have_no_elements(void **state)
{
    fixture *f = *state;
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(100));
    int64_t before = used(f);
    tl_ctx_drop(f->c, x);
    assert_int_equal(used(f), before - 448); // 400 bytes, rounded up
    tl_ctx_drop(f->c, x);
    assert_null(tl_exp(f->c, x));
    assert_fails(tl_ctx_status(f->c), TL_ESTATE, "exp: input 0, float32[100], has no elements");
}

#ifndef TL_ARENA_DEBUG // there the header itself is gone, and AddressSanitizer says so
static void tensors_of_an_ended_scope_are_refused(void **state)
{
    fixture *f = *state;
    tl_mark m = tl_ctx_begin(f->c);
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(3));
    tl_ctx_end(f->c, m);
    double value;
    assert_fails(tl_tensor_get_doubles(x, &value, 3), TL_ESTATE, "has no elements");
}
#endif

/* --- errors ----------------------------------------------------------------------------------- */

static void the_first_error_sticks(void **state)
{
    fixture *f = *state;
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(3)), *bad = tl_ones(f->c, TL_F32, TL_SHAPE(4));
    assert_ok(tl_ctx_status(f->c));
    assert_false(tl_ctx_failed(f->c));
    tl_tensor *y = tl_add(f->c, x, bad);
    assert_null(y);
    assert_true(tl_ctx_failed(f->c));
    assert_null(tl_exp(f->c, y));
    assert_null(tl_exp(f->c, x)); // a context that failed computes nothing
    (void)TL_FAIL(TL_EIO, "something else");
    assert_null(tl_ctx_fail(f->c));
    assert_fails(tl_ctx_status(f->c), TL_EINVAL, "add: shapes [3] and [4] do not broadcast");
    assert_fails(tl_ctx_status(f->c), TL_EINVAL, "add: shapes [3] and [4] do not broadcast");
    tl_ctx_clear(f->c);
    assert_ok(tl_ctx_status(f->c));
    assert_non_null(tl_exp(f->c, x));
    (void)TL_FAIL(TL_EIO, "my own");
    tl_ctx_enter(f->c, "a");
    tl_ctx_enter(f->c, "b");
    assert_null(tl_ctx_fail(f->c));
    tl_ctx_leave(f->c);
    assert_fails(tl_ctx_status(f->c), TL_EIO, "a/b: my own");
}

static void a_scope_ends_with_its_error(void **state)
{
    fixture *f = *state;
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(3));
    tl_mark m = tl_ctx_begin(f->c);
    assert_null(tl_add(f->c, x, tl_ones(f->c, TL_F32, TL_SHAPE(4))));
    tl_ctx_end(f->c, m);
    assert_ok(tl_ctx_status(f->c));
    assert_non_null(tl_add(f->c, x, x));
}

static void null_inputs_give_null(void **state)
{
    fixture *f = *state;
    assert_null(tl_exp(f->c, NULL));
    assert_fails(tl_ctx_status(f->c), TL_EINVAL, "exp: input 0 is NULL");
}

static void modes_are_put_back(void **state)
{
    fixture *f = *state;
    bool (*const set[])(tl_ctx *, bool) = {tl_ctx_set_taping, tl_ctx_set_capturing,
                                           tl_ctx_set_training};
    bool (*const get[])(const tl_ctx *) = {tl_ctx_taping, tl_ctx_capturing, tl_ctx_training};
    for (int i = 0; i < 3; i++) {
        assert_false(get[i](f->c));
        assert_false(set[i](f->c, true));
        assert_true(get[i](f->c));
        assert_true(set[i](f->c, false));
        assert_false(get[i](f->c));
    }
    assert_ptr_equal(tl_ctx_engine(f->c), f->engine);
}

/* --- modules ---------------------------------------------------------------------------------- */

static void modules_have_a_path(void **state)
{
    fixture *f = *state;
    assert_string_equal(tl_ctx_path(f->c), "");
    tl_ctx_leave(f->c); // one too many does no harm
    tl_ctx_enter(f->c, "encoder");
    tl_ctx_enter(f->c, "layer_0");
    assert_string_equal(tl_ctx_path(f->c), "encoder/layer_0");
    tl_ctx_leave(f->c);
    tl_ctx_enter(f->c, "layer_1");
    assert_string_equal(tl_ctx_path(f->c), "encoder/layer_1");
    tl_ctx_leave(f->c);
    tl_ctx_leave(f->c);
    assert_string_equal(tl_ctx_path(f->c), "");
}

static void a_scope_leaves_its_modules(void **state)
{
    fixture *f = *state;
    tl_ctx_enter(f->c, "net");
    tl_mark m = tl_ctx_begin(f->c);
    tl_ctx_enter(f->c, "a");
    tl_ctx_enter(f->c, "b"); // and then something failed
    tl_ctx_end(f->c, m);
    assert_string_equal(tl_ctx_path(f->c), "net");
    m = tl_ctx_begin(f->c);
    tl_ctx_leave(f->c);
    tl_ctx_end(f->c, m); // what was left stays left
    assert_string_equal(tl_ctx_path(f->c), "");
}

// Without memory a module cannot be noted; leaving it must not leave the one around it.
static void modules_survive_lack_of_memory(void **state)
{
    fixture *f = *state;
    static const char name[] =
        "a name that is long enough to make the text of the path grow once more: 0123456789";
    int failures = 0;
    for (int round = 0; round < 40; round++) {
        tl_ctx_enter(f->c, "outer");
        char before[4096];
        snprintf(before, sizeof before, "%s", tl_ctx_path(f->c));
        tl_alloc_fail_at(1, 1);
        tl_ctx_enter(f->c, name);
        tl_alloc_fail_at(0, 0);
        if (tl_ctx_failed(f->c)) {
            failures++;
            assert_fails(tl_ctx_status(f->c), TL_ENOMEM, "out of memory");
            tl_ctx_clear(f->c);
            assert_string_equal(tl_ctx_path(f->c), before);
            tl_ctx_enter(f->c, "inside"); // has no right path either
            assert_fails(tl_ctx_status(f->c), TL_ENOMEM, "the module around 'inside'");
            tl_ctx_clear(f->c);
            tl_ctx_leave(f->c);
        }
        tl_ctx_leave(f->c);
        assert_string_equal(tl_ctx_path(f->c), before);
    }
    assert_true(failures > 0);
    for (int round = 0; round < 40; round++) tl_ctx_leave(f->c);
    assert_string_equal(tl_ctx_path(f->c), "");
}

/* --- random numbers --------------------------------------------------------------------------- */

// The keys of two calls in a, one in a/b, one outside, in the order that `order` says.
static void draw_four(tl_ctx *c, const char *order, int64_t keys[4])
{
    int calls_in_a = 0;
    tl_ctx_set_draws(c, (tl_draws){.seed = 1});
    for (; *order; order++) {
        if (*order != 'o') tl_ctx_enter(c, "a");
        if (*order == 'b') tl_ctx_enter(c, "b");
        int64_t key = tl_ctx_draw_key(c);
        if (*order == 'a') keys[calls_in_a++] = key;
        if (*order == 'b') keys[2] = key;
        if (*order == 'o') keys[3] = key;
        while (*tl_ctx_path(c)) tl_ctx_leave(c);
    }
}

static void keys_depend_on_module_and_ordinal_alone(void **state)
{
    fixture *f = *state;
    int64_t want[4], got[4];
    const char *orders[] = {"aabo", "abao", "oaba", "boaa", "baao"};
    draw_four(f->c, orders[0], want);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_true(want[i] != want[k]);
    for (int i = 1; i < TL_COUNT(orders); i++) {
        draw_four(f->c, orders[i], got);
        assert_memory_equal(got, want, sizeof want);
    }
    tl_ctx *other; // and not on the context
    assert_ok(tl_ctx_new(&other, f->engine));
    draw_four(other, orders[3], got);
    assert_memory_equal(got, want, sizeof want);
    tl_ctx_free(&other);
}

static void keys_do_not_repeat(void **state)
{
    fixture *f = *state;
    enum { MODULES = 30, CALLS = 20 };
    int64_t keys[MODULES * CALLS];
    for (int m = 0; m < MODULES; m++) {
        char name[32];
        snprintf(name, sizeof name, "layer_%d", m);
        tl_ctx_enter(f->c, name);
        for (int i = 0; i < CALLS; i++) keys[m * CALLS + i] = tl_ctx_draw_key(f->c);
        tl_ctx_leave(f->c);
    }
    for (int i = 0; i < MODULES * CALLS; i++)
        for (int k = 0; k < i; k++) assert_true(keys[i] != keys[k]);
}

static void streams_depend_on_all_there_is(void **state)
{
    fixture *f = *state;
    const tl_draws base = {.seed = 1, .step = 2, .microbatch = 3, .replica = 4};
    tl_draws draws[5] = {base, base, base, base, base};
    draws[1].seed++;
    draws[2].step++;
    draws[3].microbatch++;
    draws[4].replica++;
    uint64_t first[6];
    tl_rng rng;
    for (int i = 0; i < 5; i++) {
        tl_draw_stream(&rng, &draws[i], 77);
        first[i] = tl_rng_u64(&rng);
    }
    tl_draw_stream(&rng, &base, 78);
    first[5] = tl_rng_u64(&rng);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) assert_true(first[i] != first[k]);
    tl_draw_stream(&rng, &base, 77);
    assert_true(tl_rng_u64(&rng) == first[0]);
    // Step and microbatch do not stand for each other.
    tl_draws swapped = base;
    swapped.step = base.microbatch;
    swapped.microbatch = base.step;
    tl_draw_stream(&rng, &swapped, 77);
    assert_true(tl_rng_u64(&rng) != first[0]);
    tl_ctx_set_draws(f->c, base);
    assert_int_equal(tl_ctx_draws(f->c).microbatch, 3);
}

static void keys_survive_lack_of_memory(void **state)
{
    fixture *f = *state;
    tl_alloc_fail_at(1, 1);
    tl_ctx_draw_key(f->c);
    tl_alloc_fail_at(0, 0);
    assert_fails(tl_ctx_status(f->c), TL_ENOMEM, "out of memory");
}

/* --- named tensors ---------------------------------------------------------------------------- */

static void tensors_have_names(void **state)
{
    fixture *f = *state;
    tl_tensors list = {0};
    tl_tensor *x = tl_ones(f->c, TL_F32, TL_SHAPE(1)), *y = tl_ones(f->c, TL_F32, TL_SHAPE(2));
    char names[20][16];
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        tl_tensors_put(f->c, &list, names[i], x);
    }
    tl_tensors_put(f->c, &list, "t7", y);
    assert_int_equal(list.count, 20);
    assert_ptr_equal(tl_tensors_get(f->c, &list, "t7"), y);
    assert_ptr_equal(tl_tensors_peek(&list, "t19"), x);
    assert_null(tl_tensors_peek(&list, "t20"));
    assert_ok(tl_ctx_status(f->c));
    assert_null(tl_tensors_get(f->c, &list, "mask"));
    assert_fails(tl_ctx_status(f->c), TL_ENOTFOUND,
                 "there is no tensor 'mask'; there are 't0', 't1'");
    tl_ctx_clear(f->c);
    assert_null(tl_tensors_get(f->c, &(tl_tensors){0}, "mask"));
    assert_fails(tl_ctx_status(f->c), TL_ENOTFOUND, "there is no tensor 'mask'");
}

/* --- no memory -------------------------------------------------------------------------------- */

static tl_status everything(tl_ctx *c)
{
    tl_mark m = tl_ctx_begin(c);
    tl_tensors list = {0};
    tl_ctx_set_draws(c, (tl_draws){.seed = 1});
    tl_ctx_set_capturing(c, true);
    tl_ctx_enter(c, "net");
    tl_tensor *x = tl_ones(c, TL_F32, TL_SHAPE(2, 3));
    tl_tensor *y = tl_sum(c, tl_add(c, x, x), TL_AXES(1), false);
    tl_ctx_draw_key(c);
    tl_tensors_put(c, &list, "y", y);
    tl_ctx_set_capturing(c, false);
    tl_tensor *z = tl_exp(c, tl_ones(c, TL_F32, TL_SHAPE(1000)));
    (void)z;
    tl_ctx_leave(c);
    tl_status st = tl_ctx_status(c);
    tl_ctx_set_capturing(c, false);
    tl_ctx_end(c, m);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    int64_t failures = 0;
    for (int64_t nth = 1;; nth++) {
        tl_ctx *c = NULL;
        int64_t calls = tl_alloc_calls();
        tl_engine_trim(f->engine);
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_ctx_new(&c, f->engine);
        if (st == TL_OK) st = everything(c);
        tl_alloc_fail_at(0, 0);
        bool done = tl_alloc_calls() - calls < nth;
        if (c) assert_string_equal(tl_ctx_path(c), "");
        if (c && st != TL_OK) assert_ok(everything(c)); // it recovers
        tl_ctx_free(&c);
        assert_int_equal(used(f), 0);
        if (st != TL_OK) {
            assert_int_equal(st, TL_ENOMEM);
            failures++;
        }
        if (done) break;
    }
    assert_true(failures > 3);
}

#define T(name) LAB_TEST(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_scope_ends_with_all_it_made),
        T(records_end_with_their_scope),
        T(recorded_calls_are_copies),
        T(dropped_tensors_have_no_elements),
#ifndef TL_ARENA_DEBUG
        T(tensors_of_an_ended_scope_are_refused),
#endif
        T(the_first_error_sticks),
        T(a_scope_ends_with_its_error),
        T(null_inputs_give_null),
        T(modes_are_put_back),
        T(modules_have_a_path),
        T(a_scope_leaves_its_modules),
        T(modules_survive_lack_of_memory),
        T(keys_depend_on_module_and_ordinal_alone),
        T(keys_do_not_repeat),
        T(streams_depend_on_all_there_is),
        T(keys_survive_lack_of_memory),
        T(tensors_have_names),
        T(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
