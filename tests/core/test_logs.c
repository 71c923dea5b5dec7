/* runs: fake device */
#include "core/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/core/logs.h>

typedef struct fixture {
    tl_engine *engine;
    tl_logs *l;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f.engine = open_engine();
    assert_ok(tl_logs_new(&f.l));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_logs_free(&f->l);
    close_engine(&f->engine);
    return 0;
}

static void assert_text(const tl_logs *l, const char *want)
{
    tl_str text = TL_STR_INIT;
    assert_ok(tl_logs_text(&text, l));
    assert_string_equal(tl_str_text(&text), want);
    tl_str_deinit(&text);
}

static void names_keep_their_order(void **state)
{
    fixture *f = *state;
    tl_logs *validation;
    assert_text(f->l, "");
    assert_ok(tl_logs_put(f->l, "loss", 0.31271234));
    assert_ok(tl_logs_put(f->l, "steps", 100));
    assert_ok(tl_logs_sub(&validation, f->l, "validation"));
    assert_ok(tl_logs_put(f->l, "learning_rate", 1e-5));
    assert_ok(tl_logs_put(validation, "accuracy", 0.93));
    assert_ok(tl_logs_put(f->l, "nan", NAN));
    assert_ok(tl_logs_put(f->l, "large", -1e20));
    assert_ok(tl_logs_put(f->l, "zero", -0.0));
    assert_ok(tl_logs_put_text(f->l, "note", "warm"));
    assert_ok(tl_logs_put(f->l, "loss", 0.25)); // keeps its place
    assert_text(f->l, "loss: 0.25, steps: 100, validation: {accuracy: 0.93}, learning_rate: 1e-05, "
                      "nan: nan, large: -1e+20, zero: 0, note: 'warm'");
    assert_int_equal(tl_logs_count(f->l), 8);
    tl_logs_entry e;
    tl_logs_at(&e, f->l, 2);
    assert_string_equal(e.name, "validation");
    assert_int_equal(e.kind, TL_LOGS_LOGS);
    assert_ptr_equal(e.logs, validation);
    tl_logs_clear(f->l);
    assert_int_equal(tl_logs_count(f->l), 0);
    assert_ok(tl_logs_put(f->l, "a", 1));
    assert_text(f->l, "a: 1");
}

static void tensors_are_read_when_asked_for(void **state)
{
    fixture *f = *state;
    double value = 1.5;
    tl_tensor *t = tensor_of(f->engine, TL_BF16, TL_SHAPE(1, 1), &value);
    assert_ok(tl_logs_put_tensor(f->l, "loss", t));
    value = 2.5; // computed after it was logged
    assert_ok(tl_tensor_set_doubles(t, &value, 1));
    assert_ok(tl_logs_number(&value, f->l, "loss"));
    assert_near(value, 2.5, 0);
    // Nobody reads it before: not even a lease for writing stands in the way of carrying it around.
    tl_lease lease;
    tl_logs *other;
    assert_ok(tl_lease_write(&lease, t));
    assert_ok(tl_logs_new(&other));
    assert_ok(tl_logs_merge(other, f->l));
    assert_fails(tl_logs_number(&value, other, "loss"), TL_ESTATE,
                 "loss: bfloat16[1, 1] cannot be leased");
    assert_near(tl_logs_number_or(other, "loss", -1), -1, 0);
    assert_ok(tl_lease_end(&lease));
    tl_tensor_free(&t);
    assert_near(tl_logs_number_or(other, "loss", -1), 2.5, 0);
    tl_logs_free(&other);
    tl_logs_free(&other);

    t = tensor_of(f->engine, TL_F32, TL_SHAPE(2), NULL);
    assert_fails(tl_logs_put_tensor(f->l, "x", t), TL_EINVAL,
                 "x: float32[2] is no number; log its mean");
    tl_tensor_free(&t);
    tl_tensor captured = {.dtype = TL_F32, .shape = TL_SCALAR};
    assert_fails(tl_logs_put_tensor(f->l, "x", &captured), TL_ESTATE,
                 "x: float32[] has no elements");
}

static void paths_find_nested_and_plain_names(void **state)
{
    fixture *f = *state;
    tl_logs *a, *b, *slashed;
    double number;
    tl_logs_entry e;
    assert_ok(tl_logs_sub(&a, f->l, "a"));
    assert_ok(tl_logs_sub(&b, a, "b"));
    assert_ok(tl_logs_put(b, "c", 1));
    assert_ok(tl_logs_put(f->l, "train/loss", 2)); // one name
    assert_ok(tl_logs_sub(&slashed, f->l, "x/y"));
    assert_ok(tl_logs_put(slashed, "z/w", 3));
    assert_near(tl_logs_number_or(f->l, "a/b/c", 0), 1, 0);
    assert_near(tl_logs_number_or(f->l, "train/loss", 0), 2, 0);
    assert_near(tl_logs_number_or(f->l, "x/y/z/w", 0), 3, 0);
    assert_near(tl_logs_number_or(f->l, "a/b", 7), 7, 0);
    assert_near(tl_logs_number_or(f->l, "x/y/z", 7), 7, 0);
    assert_true(tl_logs_find(&e, f->l, "x/y/z/w"));
    assert_string_equal(e.name, "z/w");
    assert_false(tl_logs_find(&e, f->l, "train"));
    assert_false(tl_logs_find(&e, f->l, ""));
    assert_fails(tl_logs_number(&number, f->l, "lost"), TL_ENOTFOUND,
                 "the logs have no 'lost'; they have a/b/c, train/loss, x/y/z/w");
    assert_fails(tl_logs_number(&number, f->l, "a/b"), TL_EINVAL, "'b' is no number but logs");
    assert_fails(tl_logs_put(f->l, "", 1), TL_EINVAL, "a name must not be empty");
    assert_fails(tl_logs_sub(&a, f->l, "train/loss"), TL_EEXISTS,
                 "'train/loss' is a number already");
    assert_true(tl_logs_remove(f->l, "a/b/c"));
    assert_false(tl_logs_remove(f->l, "a/b/c"));
    assert_true(tl_logs_remove(f->l, "x/y/z/w"));
    assert_text(f->l, "a: {b: {}}, train/loss: 2, x/y: {}");
    assert_true(tl_logs_remove(f->l, "a"));
    assert_text(f->l, "train/loss: 2, x/y: {}");
    tl_logs_clear(f->l);
    assert_fails(tl_logs_number(&number, f->l, "lost"), TL_ENOTFOUND, "they have nothing");
}

static void logs_are_merged(void **state)
{
    fixture *f = *state;
    tl_logs *other, *in, *sub;
    double one = 4;
    tl_tensor *t = tensor_of(f->engine, TL_F32, TL_SCALAR, &one);
    assert_ok(tl_logs_new(&other));
    assert_ok(tl_logs_put(f->l, "loss", 1));
    assert_ok(tl_logs_sub(&sub, f->l, "validation"));
    assert_ok(tl_logs_put(sub, "loss", 2));
    assert_ok(tl_logs_put(f->l, "was_number", 3));
    assert_ok(tl_logs_sub(&sub, f->l, "was_logs"));
    assert_ok(tl_logs_put(sub, "x", 3));

    assert_ok(tl_logs_put_tensor(other, "loss", t));
    assert_ok(tl_logs_sub(&in, other, "validation"));
    assert_ok(tl_logs_put(in, "accuracy", 5));
    assert_ok(tl_logs_sub(&in, other, "was_number"));
    assert_ok(tl_logs_put(in, "y", 6));
    assert_ok(tl_logs_put(other, "was_logs", 7));
    assert_ok(tl_logs_put_text(other, "text", "t"));
    assert_ok(tl_logs_put_histogram(other, "spread", t, 3));

    assert_ok(tl_logs_merge(f->l, other));
    assert_ok(tl_logs_merge(f->l, f->l));
    tl_logs_free(&other);
    tl_tensor_free(&t);
    assert_text(f->l, "loss: 4, validation: {loss: 2, accuracy: 5}, was_number: {y: 6}, was_logs: "
                      "7, text: 't', spread: histogram of float32[]");
}

static tl_status join_names(const tl_logs_entry *e, void *payload)
{
    tl_str_addf(payload, "%s=%s ", e->name, tl_logs_kind_name(e->kind));
    return strcmp(e->name, "stop") == 0 ? TL_FAIL(TL_ELIMIT, "stopped") : TL_OK;
}

static void a_walk_sees_all_leaves(void **state)
{
    fixture *f = *state;
    tl_str names = TL_STR_INIT;
    tl_logs *sub;
    const double white[3] = {1, 1, 1};
    tl_tensor *image = tensor_of(f->engine, TL_F32, TL_SHAPE(1, 1, 3), white);
    assert_ok(tl_logs_put(f->l, "n", 1));
    assert_ok(tl_logs_sub(&sub, f->l, "in"));
    assert_ok(tl_logs_put_image(sub, "image", image));
    assert_ok(
        tl_logs_put_text(sub, "text", "a text that is longer than the console wants to see of it"));
    assert_ok(tl_logs_put_histogram(f->l, "h", image, 0));
    assert_ok(tl_logs_walk(f->l, join_names, &names));
    assert_string_equal(tl_str_text(&names), "n=number in/image=image in/text=text h=histogram ");
    assert_text(f->l, "n: 1, in: {image: image float32[1, 1, 3], text: 'a text that is longer than "
                      "the console w...'}, h: histogram of float32[1, 1, 3]");
    assert_ok(tl_logs_put(f->l, "stop", 1));
    assert_ok(tl_logs_put(f->l, "never", 1));
    tl_str_cut(&names, 0);
    assert_fails(tl_logs_walk(f->l, join_names, &names), TL_ELIMIT, "stopped");
    assert_null(strstr(tl_str_text(&names), "never"));
    tl_str_deinit(&names);
    tl_tensor_free(&image);
}

static void images_have_their_shape(void **state)
{
    fixture *f = *state;
    const struct {
        tl_dtype dtype;
        tl_shape shape;
        bool good;
    } cases[] = {
        {TL_U8, TL_SHAPE(4, 5, 3), true},      {TL_F32, TL_SHAPE(4, 5, 1), true},
        {TL_BF16, TL_SHAPE(2, 2, 4), true},    {TL_U8, TL_SHAPE(4, 5, 2), false},
        {TL_I32, TL_SHAPE(4, 5, 3), false},    {TL_F32, TL_SHAPE(4, 5), false},
        {TL_F32, TL_SHAPE(1, 4, 5, 3), false}, {TL_BOOL, TL_SHAPE(4, 5, 1), false},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        tl_tensor *t = tensor_of(f->engine, cases[i].dtype, cases[i].shape, NULL);
        if (cases[i].good) assert_ok(tl_logs_put_image(f->l, "image", t));
        else
            assert_fails(tl_logs_put_image(f->l, "image", t), TL_EINVAL,
                         "is no image; it must be [height, width");
        tl_tensor_free(&t);
    }
}

static void histograms_count_what_is_there(void **state)
{
    fixture *f = *state;
    tl_arena *arena;
    tl_histogram h;
    tl_logs_entry e;
    const double values[10] = {0, 1, 2, 3, 4, 4, 4, NAN, INFINITY, -INFINITY};
    tl_tensor *t = tensor_of(f->engine, TL_F64, TL_SHAPE(2, 5), values);
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_logs_put_histogram(f->l, "h", t, 4));
    assert_true(tl_logs_find(&e, f->l, "h"));
    assert_ok(tl_logs_entry_histogram(&h, arena, &e));
    assert_int_equal(h.count, 7);
    assert_int_equal(h.strange, 3);
    assert_near(h.min, 0, 0);
    assert_near(h.max, 4, 0);
    assert_near(h.sum, 18, 0);
    assert_near(h.sum_squares, 62, 0);
    assert_int_equal(h.bins, 4);
    const double edges[5] = {0, 1, 2, 3, 4};
    const int64_t counts[4] = {1, 1, 1, 4}; // the last bin has its upper edge
    assert_memory_equal(h.edges, edges, sizeof edges);
    assert_memory_equal(h.counts, counts, sizeof counts);
    tl_tensor_free(&t);

    const double same[3] = {-300, -300, -300};
    t = tensor_of(f->engine, TL_I32, TL_SHAPE(3), same);
    assert_ok(tl_logs_put_histogram(f->l, "h", t, 0));
    assert_true(tl_logs_find(&e, f->l, "h"));
    assert_ok(tl_logs_entry_histogram(&h, arena, &e));
    assert_int_equal(h.bins, 30);
    assert_near(h.edges[0], -450, 0);
    assert_near(h.edges[30], -150, 0);
    assert_int_equal(h.counts[15], 3);
    tl_tensor_free(&t);

    const double extremes[2] = {-1.7e308, 1.7e308}; // their difference is infinite
    t = tensor_of(f->engine, TL_F64, TL_SHAPE(2), extremes);
    assert_ok(tl_logs_put_histogram(f->l, "h", t, 2));
    assert_true(tl_logs_find(&e, f->l, "h"));
    assert_ok(tl_logs_entry_histogram(&h, arena, &e));
    assert_near(h.edges[1], 0, 0);
    assert_true(h.counts[0] == 1 && h.counts[1] == 1);
    tl_tensor_free(&t);

    t = tensor_of(f->engine, TL_F32, TL_SHAPE(0), NULL);
    assert_ok(tl_logs_put_histogram(f->l, "h", t, 2));
    assert_true(tl_logs_find(&e, f->l, "h"));
    assert_ok(tl_logs_entry_histogram(&h, arena, &e));
    assert_true(h.count == 0 && h.min == 0 && h.max == 0 && h.counts[0] == 0);
    assert_fails(tl_logs_put_histogram(f->l, "h", t, -1), TL_EINVAL, "h: a histogram has 1 to");
    tl_tensor_free(&t);
    assert_ok(tl_logs_put(f->l, "n", 1));
    assert_true(tl_logs_find(&e, f->l, "n"));
    assert_fails(tl_logs_entry_histogram(&h, arena, &e), TL_EINVAL,
                 "'n' is no histogram but number");
    tl_arena_free(&arena);
}

static void logs_nest_so_deep_and_no_deeper(void **state)
{
    fixture *f = *state;
    tl_logs *l = f->l;
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < 70; i++) assert_ok(tl_logs_sub(&l, l, "in"));
    assert_ok(tl_logs_put(l, "x", 1));
    assert_fails(tl_logs_text(&text, f->l), TL_ELIMIT, "nested more than 64 deep");
    assert_fails(tl_logs_walk(f->l, join_names, &text), TL_ELIMIT, "nested more than 64 deep");
    tl_str_deinit(&text);
}

static tl_status everything(void *payload)
{
    fixture *f = payload;
    tl_logs *l = NULL, *other = NULL, *sub;
    tl_str text = TL_STR_INIT;
    tl_arena *arena = NULL;
    tl_tensor *t = NULL;
    tl_histogram h;
    tl_logs_entry e;
    tl_status st;
    TL_TRY_DONE(st, tl_logs_new(&l));
    TL_TRY_DONE(st, tl_logs_new(&other));
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_tensor_new(&t, f->engine, TL_F32, TL_SHAPE(1)));
    TL_TRY_DONE(st, tl_tensor_set_doubles(t, (const double[]){1}, 1));
    TL_TRY_DONE(st, tl_logs_put(l, "n", 1));
    TL_TRY_DONE(st, tl_logs_put_tensor(l, "t", t));
    TL_TRY_DONE(st, tl_logs_put_text(l, "x", "text"));
    TL_TRY_DONE(st, tl_logs_put_histogram(l, "h", t, 2));
    TL_TRY_DONE(st, tl_logs_sub(&sub, l, "sub"));
    TL_TRY_DONE(st, tl_logs_put(sub, "n", 1));
    TL_TRY_DONE(st, tl_logs_merge(other, l));
    TL_TRY_DONE(st, tl_logs_text(&text, other));
    TL_TRY_DONE(st, tl_logs_walk(other, join_names, &text));
    TL_TRY_DONE(st, tl_logs_find(&e, l, "h") ? TL_OK : TL_FAIL(TL_EINTERNAL, "lost"));
    st = tl_logs_entry_histogram(&h, arena, &e);
done:
    tl_str_deinit(&text);
    tl_arena_free(&arena);
    tl_tensor_free(&t);
    tl_logs_free(&l);
    tl_logs_free(&other);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    fail_each_allocation(everything, f, f->engine, 20);
}

#define T(name) LAB_TEST(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(names_keep_their_order),
        T(tensors_are_read_when_asked_for),
        T(paths_find_nested_and_plain_names),
        T(logs_are_merged),
        T(a_walk_sees_all_leaves),
        T(images_have_their_shape),
        T(histograms_count_what_is_there),
        T(logs_nest_so_deep_and_no_deeper),
        T(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
