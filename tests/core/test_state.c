/* runs: fake device */
#include "core/lab.h"

#include <stdlib.h>
#include <tilth/base/alloc.h>
#include <tilth/core/state.h>

typedef struct fixture {
    tl_engine *engine;
    tl_state *s;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f.engine = open_engine();
    assert_ok(tl_state_new(&f.s));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_state_free(&f->s);
    close_engine(&f->engine);
    return 0;
}

static tl_tensor *filled(const fixture *f, tl_dtype dtype, tl_shape shape, double first)
{
    double values[64];
    for (int i = 0; i < 64; i++) values[i] = first + i;
    return tensor_of(f->engine, dtype, shape, values);
}

// Puts a tensor and forgets the header.
static void put(const fixture *f, tl_state *s, const char *path, tl_dtype dtype, tl_shape shape,
                double first)
{
    tl_tensor *t = filled(f, dtype, shape, first);
    assert_ok(tl_state_put(s, path, t));
    tl_tensor_free(&t);
}

static double element(const tl_state *s, const char *path, int64_t i)
{
    tl_state_entry e;
    double values[64];
    assert_ok(tl_state_get(&e, s, path, TL_STATE_TENSOR));
    assert_ok(tl_tensor_get_doubles(e.tensor, values, tl_tensor_count(e.tensor)));
    return values[i];
}

static void assert_text(const tl_state *s, const char *want)
{
    tl_str text = TL_STR_INIT;
    assert_ok(tl_state_text(&text, s));
    assert_string_equal(tl_str_text(&text), want);
    tl_str_deinit(&text);
}

/* --- putting and finding ---------------------------------------------------------------------- */

static void entries_stay_in_order(void **state)
{
    fixture *f = *state;
    int64_t step = 12;
    bool done = false;
    put(f, f->s, "model/dense/kernel", TL_F32, TL_SHAPE(3, 4), 0);
    assert_ok(tl_state_bind_int(f->s, "global_step", &step));
    put(f, f->s, "model/dense/bias", TL_F32, TL_SHAPE(4), 0);
    assert_ok(tl_state_put_text(f->s, "note", "short"));
    assert_ok(tl_state_bind_bool(f->s, "trainer/done", &done));
    assert_ok(tl_state_put_double(f->s, "trainer/best", 0.5));
    put(f, f->s, "model/a", TL_BF16, TL_SCALAR, 0);
    assert_ok(tl_state_put_words(f->s, "rng", (const uint64_t[]){1, 2, 3}, 3));
    step = 13;
    done = true;
    assert_text(f->s, "model/dense/kernel  float32[3, 4]\n"
                      "model/dense/bias    float32[4]\n"
                      "model/a             bfloat16[]\n"
                      "global_step         int 13\n"
                      "note                text 'short'\n"
                      "trainer/done        bool true\n"
                      "trainer/best        double 0.5\n"
                      "rng                 3 words\n");
    int64_t entries, bytes;
    assert_ok(tl_state_size(f->s, &entries, &bytes));
    assert_int_equal(entries, 8);
    assert_int_equal(bytes, 48 + 16 + 2);
}

static void names_are_taken_once(void **state)
{
    fixture *f = *state;
    int64_t n = 0;
    tl_tensor *t = filled(f, TL_F32, TL_SHAPE(2), 0);
    assert_ok(tl_state_put(f->s, "model/kernel", t));
    assert_fails(tl_state_put(f->s, "model/kernel", t), TL_EEXISTS,
                 "'model/kernel' cannot be added: 'model/kernel' is there already (float32[2])");
    assert_fails(tl_state_bind_int(f->s, "model", &n), TL_EEXISTS,
                 "'model' is there already (1 below it)");
    assert_fails(tl_state_bind_int(f->s, "model/kernel/m/v", &n), TL_EEXISTS,
                 "'model/kernel' is there already and has nothing below it (float32[2])");
    assert_ok(tl_state_put_int(f->s, "model/kernels", 1)); // only begins alike
    tl_tensor_free(&t);
}

static void bad_paths_are_refused(void **state)
{
    fixture *f = *state;
    const char *bad[] = {"", "/", "/a", "a/", "a//b", "a/b/"};
    for (int i = 0; i < TL_COUNT(bad); i++) {
        assert_fails(tl_state_put_int(f->s, bad[i], 1), TL_EINVAL, "is no path");
        tl_state_entry e;
        assert_false(tl_state_find(&e, f->s, bad[i]));
        assert_false(tl_state_remove(f->s, bad[i]));
        assert_fails(tl_state_get(&e, f->s, bad[i], TL_STATE_INT), TL_EINVAL, "is no path");
        tl_state *sub;
        assert_fails(tl_state_sub(&sub, f->s, bad[i]), TL_EINVAL, "is no path");
        assert_fails(tl_state_mount(f->s, bad[i], f->s), TL_EINVAL, "is no path");
    }
    assert_text(f->s, "");
    char longest[300], deepest[300];
    memset(longest, 'x', sizeof longest);
    longest[256] = '\0';
    assert_fails(tl_state_put_int(f->s, longest, 1), TL_ELIMIT, "has 256 bytes; at most 255");
    longest[255] = '\0';
    assert_ok(tl_state_put_int(f->s, longest, 1));
    for (int i = 0; i < 65; i++) memcpy(deepest + 2 * i, "d/", 3);
    deepest[129] = '\0';
    assert_fails(tl_state_put_int(f->s, deepest, 1), TL_ELIMIT, "more than 64 names");
    deepest[127] = '\0';
    assert_ok(tl_state_put_int(f->s, deepest, 1));
    assert_ok(tl_state_put_int(f->s, "µ with spaces", 1));
}

static void what_is_not_there_is_suggested(void **state)
{
    fixture *f = *state;
    tl_state_entry e;
    put(f, f->s, "model/dense/kernel", TL_F32, TL_SHAPE(2), 0);
    assert_ok(tl_state_put_int(f->s, "global_step", 1));
    assert_fails(tl_state_get(&e, f->s, "model/dense/kernal", TL_STATE_TENSOR), TL_ENOTFOUND,
                 "there is no 'model/dense/kernal'; did you mean 'kernel'?");
    assert_fails(tl_state_get(&e, f->s, "model/dens/kernel", TL_STATE_TENSOR), TL_ENOTFOUND,
                 "there is no 'model/dens' (of 'model/dens/kernel'); did you mean 'dense'?");
    assert_fails(tl_state_get(&e, f->s, "globalstep", TL_STATE_INT), TL_ENOTFOUND,
                 "there is no 'globalstep'; did you mean 'global_step'?");
    assert_fails(tl_state_get(&e, f->s, "global_step/x", TL_STATE_INT), TL_ENOTFOUND,
                 "'global_step' is of the kind int and has nothing below it");
    assert_fails(tl_state_get(&e, f->s, "global_step", TL_STATE_DOUBLE), TL_EINVAL,
                 "'global_step' is of the kind int, not double");
    assert_fails(tl_state_get(&e, f->s, "zebra", TL_STATE_INT), TL_ENOTFOUND,
                 "there is no 'zebra'");
    assert_null(strstr(tl_error_message(), "did you mean"));
}

static void tensors_are_shared(void **state)
{
    fixture *f = *state;
    tl_tensor *t = filled(f, TL_F32, TL_SHAPE(2), 5);
    assert_ok(tl_state_put(f->s, "w", t));
    assert_ok(tl_tensor_set_doubles(t, (const double[]){7, 8}, 2)); // the state sees it
    tl_tensor_free(&t);                                             // and keeps it
    assert_near(element(f->s, "w", 1), 8, 0);
    tl_tensor captured = {.dtype = TL_F32, .shape = TL_SHAPE(2)};
    assert_fails(tl_state_put(f->s, "c", &captured), TL_ESTATE, "c: float32[2] has no elements");
}

static void scalars_are_read_and_written(void **state)
{
    fixture *f = *state;
    int64_t i = 1;
    double d = 2;
    bool b = false;
    uint64_t words[2] = {3, 4};
    tl_str text = TL_STR_INIT;
    tl_state_entry e;
    assert_ok(tl_state_bind_int(f->s, "i", &i));
    assert_ok(tl_state_bind_double(f->s, "d", &d));
    assert_ok(tl_state_bind_bool(f->s, "b", &b));
    assert_ok(tl_state_bind_words(f->s, "w", words, 2));
    assert_ok(tl_state_bind_text(f->s, "t", &text));
    assert_ok(tl_state_get(&e, f->s, "t", TL_STATE_TEXT));
    assert_string_equal(e.text, "");
    assert_ok(tl_state_set(f->s, "i", &(tl_state_entry){.kind = TL_STATE_INT, .i = INT64_MIN}));
    assert_ok(tl_state_set(f->s, "d", &(tl_state_entry){.kind = TL_STATE_DOUBLE, .d = -0.5}));
    assert_ok(tl_state_set(f->s, "b", &(tl_state_entry){.kind = TL_STATE_BOOL, .b = true}));
    assert_ok(tl_state_set(f->s, "w",
                           &(tl_state_entry){.kind = TL_STATE_WORDS,
                                             .count = 2,
                                             .words = (const uint64_t[]){UINT64_MAX, 0}}));
    assert_ok(tl_state_set(f->s, "t", &(tl_state_entry){.kind = TL_STATE_TEXT, .text = "abc"}));
    assert_true(i == INT64_MIN && d == -0.5 && b && words[0] == UINT64_MAX && words[1] == 0);
    assert_string_equal(tl_str_text(&text), "abc");
    assert_ok(tl_state_set(
        f->s, "t", &(tl_state_entry){.kind = TL_STATE_TEXT, .text = tl_str_text(&text) + 1}));
    assert_string_equal(tl_str_text(&text), "bc"); // from its own bytes
    assert_fails(tl_state_set(f->s, "i", &(tl_state_entry){.kind = TL_STATE_BOOL}), TL_EINVAL,
                 "'i': it is of the kind int, not bool");
    assert_fails(tl_state_set(f->s, "w", &(tl_state_entry){.kind = TL_STATE_WORDS, .count = 3}),
                 TL_EINVAL, "'w': it has 2 words, not 3");
    assert_fails(tl_state_set(f->s, "x", &e), TL_ENOTFOUND, "there is no 'x'");
    put(f, f->s, "tensor", TL_F32, TL_SCALAR, 0);
    assert_fails(tl_state_set(f->s, "tensor", &(tl_state_entry){.kind = TL_STATE_TENSOR}),
                 TL_EINVAL, "write its elements");
    tl_str_deinit(&text);
}

static void random_streams_are_words(void **state)
{
    fixture *f = *state;
    tl_rng rng, twin;
    tl_rng_init(&rng, 7);
    assert_ok(tl_state_bind_rng(f->s, "rng", &rng));
    tl_rng_u32(&rng);
    tl_state_entry e;
    assert_ok(tl_state_get(&e, f->s, "rng", TL_STATE_WORDS));
    assert_int_equal(e.count, TL_RNG_WORDS);
    uint64_t words[TL_RNG_WORDS];
    memcpy(words, e.words, sizeof words);
    twin = rng;
    uint64_t next = tl_rng_u64(&rng);
    e.words = words;
    assert_ok(tl_state_set(f->s, "rng", &e));
    assert_int_equal(tl_rng_position(&rng), tl_rng_position(&twin));
    assert_true(tl_rng_u64(&rng) == next);
    words[1] ^= 1;
    assert_fails(tl_state_set(f->s, "rng", &e), TL_EINVAL, "'rng'");
}

static void entries_can_be_removed(void **state)
{
    fixture *f = *state;
    tl_state_entry e;
    put(f, f->s, "a/b/c", TL_F32, TL_SHAPE(2), 0);
    assert_ok(tl_state_put_text(f->s, "a/b/d", "text"));
    assert_ok(tl_state_put_words(f->s, "a/w", (const uint64_t[]){1}, 1));
    assert_false(tl_state_remove(f->s, "a/x"));
    assert_false(tl_state_remove(f->s, "a/w/y"));
    assert_true(tl_state_remove(f->s, "a/b/c"));
    assert_false(tl_state_find(&e, f->s, "a/b/c"));
    assert_true(tl_state_remove(f->s, "a/b"));
    assert_true(tl_state_remove(f->s, "a/w"));
    assert_false(tl_state_find(&e, f->s, "a/b/d"));
    assert_ok(tl_state_put_int(f->s, "a/b", 1));
}

/* --- states in states ------------------------------------------------------------------------- */

static void parts_are_handed_out(void **state)
{
    fixture *f = *state;
    tl_state *model, *again, *dense;
    assert_ok(tl_state_sub(&model, f->s, "model"));
    assert_ok(tl_state_sub(&dense, model, "encoder/dense"));
    put(f, dense, "kernel", TL_F32, TL_SHAPE(2), 0);
    assert_ok(tl_state_sub(&again, f->s, "model/encoder"));
    assert_ok(tl_state_sub(&again, again, "dense"));
    assert_ptr_equal(again, dense);
    assert_text(f->s, "model/encoder/dense/kernel  float32[2]\n");
    assert_text(model, "encoder/dense/kernel  float32[2]\n");
    assert_fails(tl_state_sub(&again, model, "encoder/dense/kernel"), TL_EEXISTS,
                 "is there already");
}

static void mounted_states_are_seen_and_not_owned(void **state)
{
    fixture *f = *state;
    tl_state *model, *encoder, *root;
    assert_ok(tl_state_new(&model));
    assert_ok(tl_state_new(&root));
    put(f, model, "encoder/kernel", TL_F32, TL_SHAPE(2), 0);
    assert_ok(tl_state_sub(&encoder, model, "encoder"));
    assert_ok(tl_state_mount(root, "model", model));
    assert_ok(tl_state_mount(root, "items/encoder", encoder)); // the same under a second name
    put(f, encoder, "bias", TL_F32, TL_SHAPE(1), 0);           // later
    assert_ok(tl_state_put_int(root, "model/calls", 3));       // through the mount
    assert_text(root, "model/encoder/kernel  float32[2]\n"
                      "model/encoder/bias    float32[1]\n"
                      "model/calls           int 3\n"
                      "items/encoder/kernel  float32[2], the same as model/encoder/kernel\n"
                      "items/encoder/bias    float32[1], the same as model/encoder/bias\n");
    int64_t entries, bytes;
    assert_ok(tl_state_size(root, &entries, &bytes));
    assert_int_equal(entries, 5);
    assert_int_equal(bytes, 12);
    assert_fails(tl_state_mount(root, "model", f->s), TL_EEXISTS,
                 "'model' is there already (2 below it)");
    assert_fails(tl_state_mount(encoder, "self", model), TL_EINVAL, "a state cannot hold itself");
    assert_fails(tl_state_mount(model, "self", model), TL_EINVAL, "a state cannot hold itself");
    assert_fails(tl_state_mount(model, "encoder/deep/self", root), TL_EINVAL,
                 "a state cannot hold itself");
    assert_true(tl_state_remove(root, "model"));
    tl_state_free(&root);
    assert_near(element(model, "encoder/kernel", 1), 1, 0);
    tl_state_free(&model);
    tl_state_free(&model);
}

static void count_restore(void *self)
{
    ++*(int64_t *)self;
}

/* Who watches a part is told when something of it was written, and only then. */
static void watchers_are_told_of_restores(void **state)
{
    fixture *f = *state;
    int64_t all = 0, data = 0, model = 0, position = 4;
    tl_state *part, *mounted, *saved;
    assert_ok(tl_state_new(&mounted));
    assert_ok(tl_state_sub(&part, f->s, "data"));
    assert_ok(tl_state_mount(f->s, "model", mounted));
    assert_ok(tl_state_bind_int(part, "deep/position", &position));
    put(f, mounted, "kernel", TL_F32, TL_SHAPE(2), 1);
    assert_ok(tl_state_on_restore(f->s, count_restore, &all));
    assert_ok(tl_state_on_restore(part, count_restore, &data));
    assert_ok(tl_state_on_restore(mounted, count_restore, &model));
    assert_ok(tl_state_clone(&saved, f->s));
    assert_true(all == 0 && data == 0 && model == 0); // reading is none
    // The same values again are a restore all the same.
    assert_ok(tl_state_copy(f->s, saved, NULL, NULL));
    assert_true(all == 1 && data == 1 && model == 1);
    // A part of it.
    assert_true(tl_state_remove(saved, "model"));
    assert_ok(tl_state_copy(f->s, saved, &(tl_state_copy_args){.partial = true}, NULL));
    assert_true(all == 2 && data == 2 && model == 1);
    assert_ok(
        tl_state_set(f->s, "data/deep/position", &(tl_state_entry){.kind = TL_STATE_INT, .i = 7}));
    assert_true(position == 7 && all == 3 && data == 3 && model == 1);
    // One that does not fit writes nothing.
    assert_fails(tl_state_copy(f->s, saved, NULL, NULL), TL_EINVAL, "do not fit");
    assert_true(all == 3 && data == 3 && model == 1);
    tl_state_clear(part);
    assert_ok(tl_state_bind_int(part, "deep/position", &position));
    assert_ok(tl_state_copy(f->s, saved, &(tl_state_copy_args){.partial = true}, NULL));
    assert_true(position == 4 && all == 4 && data == 3); // it is gone with what the state held
    tl_state_free(&saved);
    tl_state_remove(f->s, "model");
    tl_state_free(&mounted);
}

static void states_nest_so_deep_and_no_deeper(void **state)
{
    (void)state;
    enum { COUNT = 70 };
    tl_state *chain[COUNT];
    for (int i = 0; i < COUNT; i++) assert_ok(tl_state_new(&chain[i]));
    assert_ok(tl_state_put_int(chain[COUNT - 1], "x", 1));
    for (int i = 0; i + 1 < COUNT; i++) assert_ok(tl_state_mount(chain[i], "in", chain[i + 1]));
    int64_t entries, bytes;
    assert_fails(tl_state_size(chain[0], &entries, &bytes), TL_ELIMIT, "nested more than 64 deep");
    assert_ok(tl_state_size(chain[COUNT - 60], &entries, &bytes));
    for (int i = 0; i < COUNT; i++) tl_state_free(&chain[i]);
}

static tl_status stop_at_second(const tl_state_entry *e, void *payload)
{
    int *calls = payload;
    (void)e;
    return ++*calls == 2 ? TL_FAIL(TL_ELIMIT, "enough") : TL_OK;
}

static void a_walk_can_be_ended(void **state)
{
    fixture *f = *state;
    int calls = 0;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        assert_ok(tl_state_put_int(f->s, name, i));
    }
    assert_fails(tl_state_walk(f->s, stop_at_second, &calls), TL_ELIMIT, "enough");
    assert_int_equal(calls, 2);
}

static void only_the_same_elements_are_aliases(void **state)
{
    fixture *f = *state;
    tl_tensor *t = filled(f, TL_F32, TL_SHAPE(2, 2), 0), *flat, *part, *transposed;
    assert_ok(tl_tensor_part(&flat, t, 0, TL_SHAPE(4)));
    assert_ok(tl_tensor_part(&part, t, 2, TL_SHAPE(2)));
    assert_ok(tl_tensor_keep(&transposed, t));
    transposed->strides[0] = 1;
    transposed->strides[1] = 2;
    transposed->contiguous = false;
    assert_ok(tl_state_put(f->s, "t", t));
    assert_ok(tl_state_put(f->s, "flat", flat));
    assert_ok(tl_state_put(f->s, "part", part));
    assert_ok(tl_state_put(f->s, "transposed", transposed));
    assert_ok(tl_state_put(f->s, "tied", t));
    assert_text(f->s, "t           float32[2, 2]\n"
                      "flat        float32[4]\n"
                      "part        float32[2]\n"
                      "transposed  float32[2, 2]\n"
                      "tied        float32[2, 2], the same as t\n");
    tl_tensor_free(&t);
    tl_tensor_free(&flat);
    tl_tensor_free(&part);
    tl_tensor_free(&transposed);
}

/* --- two states ------------------------------------------------------------------------------- */

static void assert_report(const tl_state_report *r, const char *want)
{
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, r, 0);
    assert_string_equal(tl_str_text(&text), want);
    tl_str_deinit(&text);
}

static void differences_are_reported(void **state)
{
    fixture *f = *state;
    tl_state *there;
    tl_state_report r;
    assert_ok(tl_state_new(&there));
    put(f, f->s, "model/kernel", TL_F32, TL_SHAPE(3, 4), 0);
    put(f, f->s, "model/bias", TL_F32, TL_SHAPE(4), 0);
    put(f, f->s, "model/head/kernel", TL_F32, TL_SHAPE(4, 10), 0);
    assert_ok(tl_state_put_int(f->s, "step", 3));
    assert_ok(tl_state_put_int(f->s, "rate", 3));
    assert_ok(tl_state_put_words(f->s, "w", (const uint64_t[]){1, 2}, 2));
    assert_ok(tl_state_put_int(f->s, "leaf", 1));
    assert_ok(tl_state_put_int(f->s, "tree/x", 1));

    put(f, there, "model/kernel", TL_F32, TL_SHAPE(3, 4), 9);
    put(f, there, "model/bias", TL_F32, TL_SHAPE(5), 9);
    put(f, there, "model/old/kernel", TL_F16, TL_SHAPE(2), 9);
    assert_ok(tl_state_put_int(there, "step", 4));
    assert_ok(tl_state_put_double(there, "rate", 0.1));
    assert_ok(tl_state_put_words(there, "w", (const uint64_t[]){1}, 1));
    assert_ok(tl_state_put_int(there, "leaf/x", 1));
    assert_ok(tl_state_put_int(there, "tree", 1));

    assert_ok(tl_state_compare(&r, f->s, there, NULL));
    assert_false(tl_state_report_clean(&r));
    assert_report(&r, "2 matched, 2 missing, 3 unexpected, 4 different\n"
                      "  missing (wanted, and not there):\n"
                      "    model/head/kernel  float32[4, 10]\n"
                      "    tree/x             int 1\n"
                      "  unexpected (there, and not wanted):\n"
                      "    model/old/kernel  float16[2]\n"
                      "    leaf/x            int 1\n"
                      "    tree              int 1\n"
                      "  different:\n"
                      "    model/bias  float32[4] wanted, float32[5] found\n"
                      "    rate        int 3 wanted, double 0.1 found\n"
                      "    w           2 words wanted, 1 words found\n"
                      "    leaf        int 1 wanted, 1 below it found");
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, &r, 1);
    assert_non_null(strstr(tl_str_text(&text),
                           "    model/bias  float32[4] wanted, float32[5] found\n    and 3 more"));
    tl_str_deinit(&text);
    tl_state_report_deinit(&r);

    // Nothing is copied when they do not fit ...
    assert_fails(tl_state_copy(f->s, there, NULL, NULL), TL_EINVAL,
                 "the states do not fit: 2 matched, 2 missing");
    assert_near(element(f->s, "model/kernel", 0), 0, 0);
    // ... unless a part will do.
    assert_ok(tl_state_copy(f->s, there, &(tl_state_copy_args){.partial = true}, &r));
    assert_int_equal(r.matched, 2);
    tl_state_report_deinit(&r);
    tl_state_entry e;
    assert_ok(tl_state_get(&e, f->s, "step", TL_STATE_INT));
    assert_int_equal(e.i, 4);
    assert_near(element(f->s, "model/kernel", 1), 10, 0);
    assert_near(element(f->s, "model/bias", 1), 1, 0);
    tl_state_free(&there);
}

static void values_are_compared_bit_for_bit(void **state)
{
    fixture *f = *state;
    tl_state *copy;
    tl_state_report r;
    const tl_state_compare_args values = {.values = true};
    double d = NAN;
    put(f, f->s, "w", TL_BF16, TL_SHAPE(2, 3), 0);
    assert_ok(tl_state_bind_double(f->s, "d", &d));
    assert_ok(tl_state_put_int(f->s, "i", 1));
    assert_ok(tl_state_put_bool(f->s, "b", true));
    assert_ok(tl_state_put_text(f->s, "t", "x"));
    assert_ok(tl_state_put_words(f->s, "ws", (const uint64_t[]){1, 2}, 2));
    assert_ok(tl_state_put_words(f->s, "none", NULL, 0));
    put(f, f->s, "empty", TL_F32, TL_SHAPE(0, 3), 0);
    assert_ok(tl_state_clone(&copy, f->s));
    assert_ok(tl_state_compare(&r, f->s, copy, &values));
    assert_report(&r, "8 matched, 0 missing, 0 unexpected, 0 different");
    assert_true(tl_state_report_clean(&r));
    tl_state_report_deinit(&r);

    tl_state_entry e;
    assert_ok(tl_state_get(&e, copy, "w", TL_STATE_TENSOR));
    assert_ok(tl_tensor_set_doubles(e.tensor, (const double[]){0, 1, 2, 3, -4, 5}, 6));
    assert_ok(tl_state_set(copy, "i", &(tl_state_entry){.kind = TL_STATE_INT, .i = 2}));
    assert_ok(tl_state_set(copy, "t", &(tl_state_entry){.kind = TL_STATE_TEXT, .text = "y"}));
    d = 0.0;
    assert_ok(tl_state_set(copy, "d", &(tl_state_entry){.kind = TL_STATE_DOUBLE, .d = -0.0}));
    assert_ok(tl_state_compare(&r, f->s, copy, &values));
    assert_report(&r, "4 matched, 0 missing, 0 unexpected, 4 different\n"
                      "  different:\n"
                      "    w  bfloat16[2, 3] with 4.0 at element 4 wanted, bfloat16[2, 3] with "
                      "-4.0 at element 4 found\n"
                      "    d  double 0.0 wanted, double -0.0 found\n"
                      "    i  int 1 wanted, int 2 found\n"
                      "    t  text 'x' wanted, text 'y' found");
    tl_state_report_deinit(&r);
    assert_ok(tl_state_compare(&r, f->s, copy, NULL));
    assert_true(tl_state_report_clean(&r));
    tl_state_report_deinit(&r);
    assert_ok(tl_state_copy(f->s, copy, NULL, NULL));
    assert_ok(tl_state_compare(&r, f->s, copy, &values));
    assert_true(tl_state_report_clean(&r));
    tl_state_report_deinit(&r);
    tl_state_free(&copy);
}

static void tied_parameters_are_stored_once(void **state)
{
    fixture *f = *state;
    tl_state *file, *clone;
    tl_state_report r;
    tl_tensor *tied = filled(f, TL_F32, TL_SHAPE(2), 0);
    assert_ok(tl_state_put(f->s, "embedding", tied));
    assert_ok(tl_state_put(f->s, "head", tied));
    tl_tensor_free(&tied);
    const char *const one_of[] = {"embedding", "head"}; // whichever name a file has
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_state_new(&file));
        put(f, file, one_of[i], TL_F32, TL_SHAPE(2), 5 + i);
        assert_ok(tl_state_copy(f->s, file, NULL, &r));
        assert_report(&r, "2 matched, 0 missing, 0 unexpected, 0 different");
        tl_state_report_deinit(&r);
        assert_near(element(f->s, "embedding", 0), 5 + i, 0);
        tl_state_free(&file);
    }
    assert_ok(tl_state_new(&file)); // both, and different: the first one counts
    put(f, file, "embedding", TL_F32, TL_SHAPE(2), 20);
    put(f, file, "head", TL_F32, TL_SHAPE(2), 30);
    assert_ok(tl_state_copy(f->s, file, NULL, NULL));
    assert_near(element(f->s, "head", 0), 20, 0);
    tl_state_free(&file);
    assert_ok(tl_state_new(&file));
    assert_fails(tl_state_copy(f->s, file, NULL, NULL), TL_EINVAL, "0 matched, 2 missing");
    tl_state_free(&file);
    // A clone has the tensor once, too; and a name that only the clone has is not unexpected.
    assert_ok(tl_state_clone(&clone, f->s));
    assert_text(clone, "embedding  float32[2]\nhead       float32[2], the same as embedding\n");
    assert_true(tl_state_remove(f->s, "head"));
    assert_ok(tl_state_copy(f->s, clone, NULL, NULL));
    tl_state_free(&clone);
}

static void floats_are_converted_when_asked(void **state)
{
    fixture *f = *state;
    tl_state *from;
    const tl_state_copy_args cast = {.cast = true};
    assert_ok(tl_state_new(&from));
    put(f, f->s, "w", TL_F32, TL_SHAPE(3), 0);
    put(f, from, "w", TL_F64, TL_SHAPE(3), 0.1);
    assert_fails(tl_state_copy(f->s, from, NULL, NULL), TL_EINVAL,
                 "w  float32[3] wanted, float64[3] found");
    assert_ok(tl_state_copy(f->s, from, &cast, NULL));
    assert_near(element(f->s, "w", 2), (float)2.1, 0);
    tl_state_report r;
    assert_ok(
        tl_state_compare(&r, f->s, from, &(tl_state_compare_args){.cast = true, .values = true}));
    assert_true(tl_state_report_clean(&r));
    tl_state_report_deinit(&r);
    assert_true(tl_state_remove(from, "w"));
    put(f, from, "w", TL_I32, TL_SHAPE(3), 0);
    assert_fails(tl_state_copy(f->s, from, &cast, NULL), TL_EINVAL, "int32[3] found");
    tl_state_free(&from);
}

static void described_tensors_only_compare(void **state)
{
    fixture *f = *state;
    tl_state *file;
    tl_state_report r;
    assert_ok(tl_state_new(&file));
    put(f, f->s, "w", TL_F32, TL_SHAPE(3), 0);
    assert_ok(tl_state_describe(file, "w", TL_F32, TL_SHAPE(3)));
    assert_ok(tl_state_compare(&r, f->s, file, NULL));
    assert_true(tl_state_report_clean(&r));
    tl_state_report_deinit(&r);
    assert_fails(tl_state_copy(f->s, file, NULL, NULL), TL_ESTATE,
                 "w: a tensor that is only described");
    assert_fails(tl_state_compare(&r, f->s, file, &(tl_state_compare_args){.values = true}),
                 TL_ESTATE, "w: ");
    assert_int_equal(r.count, 0);
    assert_fails(tl_state_describe(file, "x", TL_F32, TL_SHAPE(-1)), TL_EINVAL, "x: shape [-1]");
    tl_state *clone;
    assert_ok(tl_state_clone(&clone, file));
    assert_text(clone, "w  float32[3]\n");
    tl_state_free(&clone);
    tl_state_free(&file);
}

static void a_bad_value_leaves_all_as_it_was(void **state)
{
    fixture *f = *state;
    tl_state *from;
    int64_t step = 1;
    tl_rng rng;
    tl_rng_init(&rng, 1);
    assert_ok(tl_state_new(&from));
    assert_ok(tl_state_bind_int(f->s, "step", &step));
    assert_ok(tl_state_bind_rng(f->s, "rng", &rng));
    assert_ok(tl_state_put_int(from, "step", 2));
    assert_ok(tl_state_put_words(from, "rng", (const uint64_t[]){1, 2, 3, 4}, 4));
    assert_fails(tl_state_copy(f->s, from, NULL, NULL), TL_EINVAL, "rng: ");
    assert_int_equal(step, 1);
    tl_state_free(&from);
}

static void views_are_copied_through_their_strides(void **state)
{
    fixture *f = *state;
    tl_state *from;
    tl_tensor *t = filled(f, TL_F32, TL_SHAPE(2, 3), 0), *view;
    assert_ok(tl_tensor_keep(&view, t));
    view->shape = TL_SHAPE(3, 2);
    view->strides[0] = 1;
    view->strides[1] = 3;
    view->contiguous = false;
    assert_ok(tl_state_new(&from));
    assert_ok(tl_state_put(f->s, "w", view));
    put(f, from, "w", TL_F32, TL_SHAPE(3, 2), 100);
    assert_ok(tl_state_copy(f->s, from, NULL, NULL));
    double values[6];
    assert_ok(tl_tensor_get_doubles(t, values, 6));
    const double want[6] = {100, 102, 104, 101, 103, 105};
    assert_memory_equal(values, want, sizeof want);
    assert_ok(tl_state_copy(f->s, f->s, NULL, NULL)); // onto itself
    tl_lease l;
    assert_ok(tl_lease_read(&l, t));
    assert_fails(tl_state_copy(f->s, from, NULL, NULL), TL_ESTATE,
                 "w: float32[3, 2] cannot be leased for writing");
    assert_ok(tl_lease_end(&l));
    tl_tensor_free(&t);
    tl_tensor_free(&view);
    tl_state_free(&from);
}

/* --- no memory -------------------------------------------------------------------------------- */

static tl_status everything(void *payload)
{
    fixture *f = payload;
    tl_state *s = NULL, *copy = NULL, *sub;
    tl_state_report r = {0};
    tl_str text = TL_STR_INIT;
    tl_tensor *t = NULL;
    tl_rng rng;
    int64_t restores = 0;
    tl_status st;
    tl_rng_init(&rng, 1);
    TL_TRY_DONE(st, tl_state_new(&s));
    TL_TRY_DONE(st, tl_tensor_new(&t, f->engine, TL_F32, TL_SHAPE(2)));
    TL_TRY_DONE(st, tl_tensor_set_doubles(t, (const double[]){1, 2}, 2));
    TL_TRY_DONE(st, tl_state_put(s, "a/b/c", t));
    TL_TRY_DONE(st, tl_state_put(s, "a/tied", t));
    TL_TRY_DONE(st, tl_state_put_text(s, "a/text", "text"));
    TL_TRY_DONE(st, tl_state_put_words(s, "a/words", (const uint64_t[]){1}, 1));
    TL_TRY_DONE(st, tl_state_bind_rng(s, "rng", &rng));
    TL_TRY_DONE(st, tl_state_describe(s, "d/e", TL_F32, TL_SHAPE(2)));
    TL_TRY_DONE(st, tl_state_sub(&sub, s, "x/y"));
    TL_TRY_DONE(st, tl_state_on_restore(s, count_restore, &restores));
    TL_TRY_DONE(st, tl_state_clone(&copy, s));
    TL_TRY_DONE(st, tl_state_compare(&r, s, copy, NULL));
    TL_TRY_DONE(st, tl_state_text(&text, s));
    tl_state_remove(s, "d");
    st = tl_state_copy(s, copy, &(tl_state_copy_args){.partial = true}, NULL);
done:
    tl_state_report_deinit(&r);
    tl_str_deinit(&text);
    tl_tensor_free(&t);
    tl_state_free(&s);
    tl_state_free(&copy);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    fixture *f = *state;
    fail_each_allocation(everything, f, f->engine, 40);
}

static void a_path_is_made_whole_or_not_at_all(void **state)
{
    fixture *f = *state;
    for (int64_t nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_state_put_int(f->s, "a/b/c/d", 1);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        tl_state_entry e;
        assert_false(tl_state_find(&e, f->s, "a"));
    }
}

/* A copy that casts leases both sides, which takes memory where the device is another one. */
static void a_copy_has_its_memory_before_it_writes(void **state)
{
    enum { SIZES = 3, MOST = 7000 };
    static const int64_t sizes[SIZES] = {7, 700, MOST};
    static const char *const paths[SIZES] = {"small", "larger", "largest"};
    static double ones[MOST], twos[MOST], found[MOST];
    fixture *f = *state;
    tl_state *from;
    tl_tensor *to[SIZES];
    for (int i = 0; i < MOST; i++) ones[i] = 1, twos[i] = 2;
    assert_ok(tl_state_new(&from));
    for (int i = 0; i < SIZES; i++) {
        tl_tensor *t = tensor_of(f->engine, TL_F64, TL_SHAPE(sizes[i]), twos);
        to[i] = tensor_of(f->engine, TL_F32, TL_SHAPE(sizes[i]), ones);
        assert_ok(tl_state_put(from, paths[i], t));
        assert_ok(tl_state_put(f->s, paths[i], to[i]));
        tl_tensor_free(&t);
    }
    tl_status st = TL_ENOMEM;
    for (int64_t nth = 1; st != TL_OK; nth++) {
        tl_engine_trim(f->engine);
        tl_alloc_fail_at(nth, 3); // a pool that finds none looks twice
        st = tl_state_copy(f->s, from, &(tl_state_copy_args){.cast = true}, NULL);
        tl_alloc_fail_at(0, 0);
        if (st != TL_OK) assert_int_equal(st, TL_ENOMEM);
        for (int i = 0; i < SIZES; i++) {
            assert_ok(tl_tensor_get_doubles(to[i], found, sizes[i]));
            if (found[0] != (st == TL_OK ? 2 : 1))
                fail_msg("'%s' was%s written", paths[i], st == TL_OK ? " not" : "");
        }
    }
    for (int i = 0; i < SIZES; i++) tl_tensor_free(&to[i]);
    tl_state_free(&from);
}

#define T(name) LAB_TEST(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(entries_stay_in_order),
        T(names_are_taken_once),
        T(bad_paths_are_refused),
        T(what_is_not_there_is_suggested),
        T(tensors_are_shared),
        T(scalars_are_read_and_written),
        T(random_streams_are_words),
        T(entries_can_be_removed),
        T(parts_are_handed_out),
        T(mounted_states_are_seen_and_not_owned),
        T(watchers_are_told_of_restores),
        T(states_nest_so_deep_and_no_deeper),
        T(a_walk_can_be_ended),
        T(only_the_same_elements_are_aliases),
        T(differences_are_reported),
        T(values_are_compared_bit_for_bit),
        T(tied_parameters_are_stored_once),
        T(floats_are_converted_when_asked),
        T(described_tensors_only_compare),
        T(a_bad_value_leaves_all_as_it_was),
        T(views_are_copied_through_their_strides),
        T(every_allocation_may_fail),
        T(a_path_is_made_whole_or_not_at_all),
        T(a_copy_has_its_memory_before_it_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
