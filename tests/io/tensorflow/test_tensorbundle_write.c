/* TensorBundles that are written: they are read back, have the same bytes whatever the order, and
 * hold states. */
#include "io/bundles.h"

#include "io/alloc_failures.h"

/* --- writing ---------------------------------------------------------------------------------- */

static tl_tensorbundle_writer *writer(void)
{
    tl_tensorbundle_writer *w;
    assert_ok(tl_tensorbundle_writer_new(&w));
    return w;
}

/* Some objects, in one order or the other. */
static void write_objects(const char *prefix, bool turned)
{
    tl_tensorbundle_writer *w = writer();
    tl_tensor *kernel = tensor_of(engine, TL_F32, TL_SHAPE(2, 1), (const double[]){1, 2}),
              *m = tensor_of(engine, TL_F32, TL_SHAPE(2, 1), (const double[]){3, 4}),
              *bias = tensor_of(engine, TL_BF16, TL_SHAPE(0), NULL);
    for (int i = 0; i < 7; i++) switch (turned ? 6 - i : i) {
        case 0: assert_ok(tl_tensorbundle_writer_put_int(w, "save_counter", 1)); break;
        case 1: assert_ok(tl_tensorbundle_writer_put(w, "model/dense/kernel", kernel)); break;
        case 2: assert_ok(tl_tensorbundle_writer_put(w, "model/dense/bias", bias)); break;
        case 3:
            assert_ok(
                tl_tensorbundle_writer_put_slot(w, "model/dense/kernel", "optimizer", "m", m));
            break;
        case 4:
            assert_ok(
                tl_tensorbundle_writer_put_slot(w, "model/dense/bias", "optimizer", "m", bias));
            break;
        case 5: assert_ok(tl_tensorbundle_writer_put_text(w, "model/c..d", "a\0b", 3)); break;
        default: assert_ok(tl_tensorbundle_writer_put_named(w, "plain", m)); break;
        }
    assert_ok(tl_tensorbundle_writer_put_same(w, "model/tied/kernel", "model/dense/kernel"));
    assert_ok(tl_tensorbundle_writer_write(w, prefix));
    tl_tensor_free(&kernel);
    tl_tensor_free(&m);
    tl_tensor_free(&bias);
    tl_tensorbundle_writer_free(&w);
    assert_null(w);
}

static void test_writing(void **state)
{
    (void)state;
    tl_object_graph g;
    write_objects(in_folder("a"), false);
    tl_tensorbundle *b = bundle(in_folder("a"));
    assert_ok(tl_tensorbundle_verify(b));
    assert_int_equal(tl_tensorbundle_count(b), 8);
    HAS_VALUES(b, "model/dense/kernel" VALUE, 1, 2);
    HAS_VALUES(b, "model/dense/kernel/.OPTIMIZER_SLOT/optimizer/m" VALUE, 3, 4);
    HAS_VALUES(b, "plain", 3, 4);
    HAS_VALUES(b, "save_counter" VALUE, 1);
    has_spec(b, "model/dense/bias" VALUE, "bfloat16[0]");
    has_spec(b, "model/c..d" VALUE, "string[]");
    assert_ok(tl_object_graph_init(&g, b));
    const tl_bundle_object *kernel = tl_object_graph_find(&g, "model/tied/kernel"),
                           *optimizer = tl_object_graph_find(&g, "optimizer");
    assert_non_null(kernel);
    assert_ptr_equal(kernel, tl_object_graph_find(&g, "model/dense/kernel"));
    assert_non_null(tl_object_graph_find(&g, "model/c..d"));
    assert_int_equal(optimizer->slot_count, 2);
    assert_string_equal(g.nodes[optimizer->slots[1].node].path,
                        "model/dense/kernel/.OPTIMIZER_SLOT/optimizer/m");
    tl_object_graph_deinit(&g);
    tl_tensorbundle_free(&b);
    // Another order gives the same bytes.
    write_objects(in_folder("b"), true);
    for (int i = 0; i < 2; i++) {
        size_t size, other_size;
        char name[64], other[64];
        snprintf(name, sizeof name, "a%s", bundle_files[i]);
        snprintf(other, sizeof other, "b%s", bundle_files[i]);
        char *one = bytes_of(in_folder(name), &size),
             *two = bytes_of(in_folder(other), &other_size);
        assert_int_equal(size, other_size);
        assert_memory_equal(one, two, size);
        tl_free(one);
        tl_free(two);
    }
}

static void test_what_cannot_be_written(void **state)
{
    (void)state;
    tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(1), NULL);
    static const char *const paths[] = {
        "", "/a", "a/", "a//b", "a/.ATTRIBUTES/b", ".OPTIMIZER_SLOT/x", "a\xff"};
    for (int64_t i = 0; i < TL_COUNT(paths); i++) {
        tl_tensorbundle_writer *w = writer();
        assert_fails(tl_tensorbundle_writer_put(w, paths[i], t), TL_EINVAL,
                     "is no path of an object");
        assert_fails(tl_tensorbundle_writer_write(w, in_folder("x")), TL_ESTATE, "an earlier put");
        tl_tensorbundle_writer_free(&w);
    }
    tl_tensorbundle_writer *w = writer();
    assert_ok(tl_tensorbundle_writer_put(w, "a", t));
    assert_fails(tl_tensorbundle_writer_put(w, "a", t), TL_EEXISTS, "'a' has a value already");
    assert_fails(tl_tensorbundle_writer_put_same(w, "b", "c"), TL_ENOTFOUND, "no object 'c'");
    assert_fails(tl_tensorbundle_writer_put_same(w, "a", "a"), TL_EEXISTS, "an object 'a' already");
    assert_fails(tl_tensorbundle_writer_put_named(w, "a" VALUE, t), TL_EEXISTS, "has an entry 'a/");
    assert_fails(tl_tensorbundle_writer_put_named(w, TL_TENSORBUNDLE_GRAPH, t), TL_EINVAL,
                 "the bundle's own");
    assert_ok(tl_tensorbundle_writer_put_slot(w, "a", "o", "m", t));
    assert_fails(tl_tensorbundle_writer_put_slot(w, "a", "o", "m", t), TL_EEXISTS,
                 "'o' has a slot 'm' for 'a' already");
    assert_fails(tl_tensorbundle_writer_put_slot(w, "a", "o", "m/n", t), TL_EINVAL, "m/n");
    assert_fails(tl_tensorbundle_writer_put_bytes(w, "b", "string", 0, NULL, "", 0),
                 TL_EUNSUPPORTED, "type 'string'");
    assert_fails(tl_tensorbundle_writer_put_bytes(w, "b", "uint32", 1, (const int64_t[]){2}, "", 7),
                 TL_EINVAL, "have 8 bytes, and 7 are given");
    tl_tensorbundle_writer_free(&w);
    char longest[4096 - sizeof VALUE + 2] = ""; // with VALUE as long as a name may be
    memset(longest, 'a', sizeof longest - 1);
    w = writer();
    assert_ok(tl_tensorbundle_writer_put(w, longest, t));
    assert_ok(tl_tensorbundle_writer_write(w, in_folder("x")));
    assert_false(is_refused());
    assert_fails(tl_tensorbundle_writer_put_slot(w, longest, "o", "m", t), TL_ELIMIT,
                 "4096 are accepted");
    tl_tensorbundle_writer_free(&w);
    assert_int_equal(remove(in_folder("x" INDEX)), 0);
    w = writer();
    assert_ok(tl_tensorbundle_writer_put_slot(w, "a", "o", "m", t));
    assert_fails(tl_tensorbundle_writer_write(w, in_folder("x")), TL_EINVAL,
                 "slot 'm' for 'a', which is no variable");
    assert_false(tl_file_exists(in_folder("x" INDEX)));
    assert_ok(tl_tensorbundle_writer_put(w, "a", t));
    assert_fails(tl_tensorbundle_writer_write(w, in_folder("no/x")), TL_ENOTFOUND, "no/x");
    assert_ok(tl_tensorbundle_writer_write(w, in_folder("x")));
    assert_false(is_refused());
    tl_tensorbundle_writer_free(&w);
    tl_tensor_free(&t);
}

/* --- over what is there ----------------------------------------------------------------------- */

static tl_tensorbundle_writer *other;

static tl_status write_other(void)
{
    return tl_tensorbundle_writer_write(other, in_folder("x"));
}

static void is_first(void)
{
    tl_tensorbundle *b = bundle(in_folder("x"));
    assert_ok(tl_tensorbundle_verify(b));
    HAS_VALUES(b, "a" VALUE, 1);
    tl_tensorbundle_free(&b);
}

static void test_failed_overwrite(void **state)
{
    (void)state;
    tl_tensorbundle_writer *first = writer();
    assert_ok(tl_tensorbundle_writer_put_int(first, "a", 1));
    assert_ok(tl_tensorbundle_writer_write(first, in_folder("x")));
    other = writer();
    assert_ok(tl_tensorbundle_writer_put_int(other, "a", 2));
    assert_ok(tl_tensorbundle_writer_put_text(other, "b", "text", 4));
    tl_status st = TL_ENOMEM;
    int64_t failed = 0;
    for (int64_t nth = 1; st != TL_OK; nth++) {
        tl_alloc_fail_at(nth, 1);
        st = write_other();
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        is_first(); // to its last byte
        failed++;
    }
    assert_true(failed > 5);
    assert_int_equal(each_file(NULL), 2);
    // The index cannot be put in place at all: new data does not stay without one.
    assert_int_equal(remove(in_folder("x" INDEX)), 0);
    assert_int_equal(remove(in_folder("x" DATA)), 0);
    assert_ok(tl_mkdirs(in_folder("x" INDEX)));
    assert_int_not_equal(write_other(), TL_OK);
    assert_non_null(strstr(tl_error_message(), "x" INDEX));
    assert_false(tl_file_exists(in_folder("x" DATA)));
    tl_tensorbundle_writer_free(&first);
    tl_tensorbundle_writer_free(&other);
}

/* --- states ----------------------------------------------------------------------------------- */

static void test_states(void **state)
{
    (void)state;
    tl_state *s, *read;
    tl_str left_out = TL_STR_INIT;
    tl_tensor *t = tensor_of(engine, TL_F32, TL_SHAPE(2), (const double[]){1, 2}),
              *m = tensor_of(engine, TL_F16, TL_SHAPE(2), (const double[]){3, 4});
    assert_ok(tl_state_new(&s));
    assert_ok(tl_state_put(s, "optimizer/.OPTIMIZER_SLOT/m/model/kernel", m));
    assert_ok(tl_state_put(s, "model/kernel", t));
    assert_ok(tl_state_put(s, "model/tied", t));
    assert_ok(tl_state_put_int(s, "step", -5));
    assert_ok(tl_state_put_double(s, "rate", 0.1));
    assert_ok(tl_state_put_bool(s, "warm", true));
    assert_ok(tl_state_put_text(s, "note", "abc"));
    assert_ok(tl_state_put_words(s, "words", (const uint64_t[]){1, UINT64_MAX}, 2));
    tl_tensorbundle_writer *w = writer();
    assert_ok(tl_tensorbundle_writer_put_state(w, s, NULL));
    assert_ok(tl_tensorbundle_writer_write(w, in_folder("x")));
    tl_tensorbundle_writer_free(&w);
    tl_tensorbundle *b = bundle(in_folder("x"));
    HAS_VALUES(b, "model/kernel/.OPTIMIZER_SLOT/optimizer/m" VALUE, 3, 4);
    assert_null(tl_tensorbundle_find(b, "model/tied" VALUE)); // one object with the kernel
    HAS_VALUES(b, "step" VALUE, -5);
    HAS_VALUES(b, "rate" VALUE, 0.1);
    HAS_VALUES(b, "warm" VALUE, 1);
    assert_ok(tl_tensorbundle_load(&read, b, engine, NULL, &left_out));
    assert_string_equal(tl_str_text(&left_out), "");
    tl_state_entry e;
    assert_ok(tl_state_get(&e, read, "optimizer/.OPTIMIZER_SLOT/m/model/kernel", TL_STATE_TENSOR));
    assert_int_equal(e.tensor->dtype, TL_F16);
    assert_ok(tl_state_get(&e, read, "note", TL_STATE_TEXT));
    assert_string_equal(e.text, "abc");
    assert_ok(tl_state_get(&e, read, "words", TL_STATE_WORDS));
    assert_true(e.count == 2 && e.words[1] == UINT64_MAX);
    assert_ok(tl_state_get(&e, read, "step", TL_STATE_TENSOR)); // a number is a tensor there
    assert_int_equal(e.tensor->dtype, TL_I64);
    tl_state_free(&read);
    tl_tensorbundle_free(&b);
    tl_state_free(&s);
    tl_tensor_free(&t);
    tl_tensor_free(&m);
    b = bundle(GOLDEN "types");
    assert_ok(tl_tensorbundle_load(&read, b, NULL, NULL, &left_out));
    assert_non_null(strstr(tl_str_text(&left_out), "types/complex64" VALUE ": complex64[2, 3]\n"));
    assert_non_null(strstr(tl_str_text(&left_out), "types/texts" VALUE ": string[2, 2]\n"));
    assert_true(tl_state_find(&e, read, "types/float32"));
    assert_false(tl_state_find(&e, read, "types/complex64"));
    tl_state_free(&read);
    tl_tensorbundle_free(&b);
    tl_str_deinit(&left_out);
}

/* Names of somebody's own. */
static tl_status only_kernels(const char **path, tl_arena *arena, const char *name, void *payload)
{
    ++*(int *)payload;
    *path = strstr(name, "/kernel" VALUE) ? tl_arena_printf(arena, "mine/kernel") : NULL;
    return TL_OK;
}

static tl_status renamed(const char **object, tl_arena *arena, const char *path, void *payload)
{
    ++*(int *)payload;
    *object = strcmp(path, "drop") == 0 ? NULL : tl_arena_printf(arena, "theirs/%s", path);
    return TL_OK;
}

static void test_names(void **state)
{
    (void)state;
    int calls = 0;
    const tl_tensorbundle_names names = {only_kernels, renamed, &calls};
    tl_tensorbundle *b = bundle(GOLDEN "objects");
    tl_state *s;
    tl_state_entry e;
    int64_t entries, bytes;
    assert_ok(tl_tensorbundle_load(&s, b, engine, &names, NULL));
    assert_ok(tl_state_size(s, &entries, &bytes));
    assert_int_equal(entries, 1);
    assert_true(tl_state_find(&e, s, "mine/kernel"));
    assert_int_equal(calls, tl_tensorbundle_count(b) - 1); // all but the graph
    tl_tensorbundle_free(&b);
    assert_ok(tl_state_put_int(s, "drop", 1));
    tl_tensorbundle_writer *w = writer();
    assert_ok(tl_tensorbundle_writer_put_state(w, s, &names));
    assert_ok(tl_tensorbundle_writer_write(w, in_folder("x")));
    tl_tensorbundle_writer_free(&w);
    b = bundle(in_folder("x"));
    assert_int_equal(tl_tensorbundle_count(b), 2);
    has_spec(b, "theirs/mine/kernel" VALUE, "float32[2, 2]");
    tl_tensorbundle_free(&b);
    tl_state_free(&s);
}

/* --- memory that runs out --------------------------------------------------------------------- */

static tl_status everything(void)
{
    tl_tensorbundle *b = NULL;
    tl_tensorbundle_writer *w = NULL;
    tl_state *s = NULL;
    tl_object_graph g = {0};
    tl_str left_out = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_tensorbundle_open(&b, GOLDEN "packed"));
    TL_TRY_DONE(st, tl_object_graph_init(&g, b));
    TL_TRY_DONE(st, tl_tensorbundle_load(&s, b, engine, NULL, &left_out));
    TL_TRY_DONE(st, tl_tensorbundle_writer_new(&w));
    TL_TRY_DONE(st, tl_tensorbundle_writer_put_state(w, s, NULL));
    TL_TRY_DONE(st, tl_tensorbundle_writer_put_same(w, "same", "model"));
    TL_TRY_DONE(st, tl_tensorbundle_writer_write(w, in_folder("x")));
    tl_tensorbundle_free(&b);
    st = tl_tensorbundle_open(&b, GOLDEN "grid");
done:
    tl_str_deinit(&left_out);
    tl_object_graph_deinit(&g);
    tl_tensorbundle_writer_free(&w);
    tl_state_free(&s);
    tl_tensorbundle_free(&b);
    return st;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    assert_ok(everything());
    int64_t used = memory_used(engine);
    assert_survives_failures(everything, 100);
    assert_int_equal(memory_used(engine), used);
    assert_int_equal(each_file(NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_writing),          LAB_TEST(test_what_cannot_be_written),
        LAB_TEST(test_states),           LAB_TEST(test_names),
        LAB_TEST(test_failed_overwrite), LAB_TEST(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
