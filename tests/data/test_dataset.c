/* Plain datasets: what comes in which order, short batches, what is refused. Where a restored one
 * goes on is in test_dataset_resume.c. runs: fake device */
#include "data/dataset_lab.h"

#include <stdlib.h>

static bool is_permutation(const int64_t *items)
{
    bool seen[EXAMPLES] = {false};
    for (int i = 0; i < EXAMPLES; i++) seen[items[i]] = true;
    for (int i = 0; i < EXAMPLES; i++)
        if (!seen[i]) return false;
    return true;
}

/* --- arrays ----------------------------------------------------------------------------------- */

static void arrays_come_in_order(void **state)
{
    (void)state;
    tl_dataset *d = ARRAYS(0);
    stream s, again;
    int64_t length;
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 3);
    assert_int_equal(s.sizes[2], 3);
    for (int i = 0; i < EXAMPLES; i++) assert_int_equal(s.ids[i], i);
    read_stream(&again, d, 64); // it has ended, and stays so
    assert_int_equal(again.batches, 0);
    assert_ok(tl_dataset_rewind(d));
    read_stream(&again, d, 64);
    assert_memory_equal(&again, &s, sizeof s);
    assert_ok(tl_dataset_length(d, &length));
    assert_int_equal(length, 3);
    tl_dataset_free(&d);
    assert_null(d);
}

static void the_remainder_may_be_dropped(void **state)
{
    (void)state;
    tl_dataset *d = ARRAYS(.drop_remainder = true);
    stream s;
    int64_t length;
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 2);
    assert_int_equal(s.count, 8);
    assert_ok(tl_dataset_length(d, &length));
    assert_int_equal(length, 2);
    tl_dataset_free(&d);
}

static void orders_depend_on_seed_and_pass_alone(void **state)
{
    (void)state;
    tl_dataset *a = ARRAYS(.shuffle = true, .seed = 5),
               *b = ARRAYS(.shuffle = true, .seed = 5, .batch_size = 3);
    tl_dataset *other = ARRAYS(.shuffle = true, .seed = 6);
    stream first, second, same, different;
    read_stream(&first, a, 64);
    read_stream(&same, b, 64);
    read_stream(&different, other, 64);
    assert_true(is_permutation(first.ids) && is_permutation(different.ids));
    assert_memory_equal(first.ids, same.ids, sizeof first.ids); // whatever the size of batches
    assert_memory_not_equal(first.ids, different.ids, sizeof first.ids);
    assert_ok(tl_dataset_rewind(a));
    assert_ok(tl_dataset_rewind(a)); // nothing was read: still the same pass
    assert_ok(tl_dataset_rewind(b));
    read_stream(&second, a, 64);
    read_stream(&same, b, 64);
    assert_true(is_permutation(second.ids));
    assert_memory_not_equal(first.ids, second.ids, sizeof first.ids);
    assert_memory_equal(second.ids, same.ids, sizeof first.ids);
    tl_dataset_free(&a);
    tl_dataset_free(&b);
    tl_dataset_free(&other);
}

static void repeated_batches_are_full(void **state)
{
    (void)state;
    tl_dataset *d = ARRAYS(.repeat = true, .shuffle = true, .seed = 3),
               *once = ARRAYS(.shuffle = true, .seed = 3);
    stream s, pass;
    int64_t length;
    read_stream(&s, d, 11); // four passes of 11 examples
    for (int i = 0; i < 11; i++) assert_int_equal(s.sizes[i], BATCH);
    for (int i = 0; i < 4; i++) {
        read_stream(&pass, once, 64);
        assert_memory_equal(s.ids + i * EXAMPLES, pass.ids, EXAMPLES * sizeof *pass.ids);
        assert_ok(tl_dataset_rewind(once));
    }
    assert_ok(tl_dataset_length(d, &length));
    assert_int_equal(length, -1);
    tl_dataset_free(&d);
    tl_dataset_free(&once);
    d = ARRAYS(.repeat = true, .drop_remainder = true);
    read_stream(&s, d, 5);
    static const int64_t starts[] = {0, 4, 0, 4, 0};
    for (int i = 0; i < 5; i++) assert_int_equal(s.ids[i * BATCH], starts[i]);
    tl_dataset_free(&d);
    d = ARRAYS(.repeat = true, .batch_size = 25); // more than a pass
    read_stream(&s, d, 2);
    for (int i = 0; i < 50; i++) assert_int_equal(s.ids[i], i % EXAMPLES);
    tl_dataset_free(&d);
}

static void copies_outlive_their_arrays(void **state)
{
    (void)state;
    int64_t *mine = malloc(3 * sizeof *mine);
    for (int i = 0; i < 3; i++) mine[i] = 7 + i;
    tl_array array = {"id", TL_I64, TL_SHAPE(3), mine};
    tl_dataset *d;
    assert_ok(tl_dataset_from_arrays(
        &d, &(tl_arrays_args){.arrays = &array, .count = 1, .batch_size = 3, .copy = true}));
    free(mine);
    int64_t got[3];
    assert_int_equal(take(d, got), 3);
    assert_int_equal(got[2], 9);
    tl_dataset_free(&d);
}

static void batches_are_described(void **state)
{
    (void)state;
    tl_dataset *d = ARRAYS(0);
    const tl_spec *specs;
    int64_t count;
    assert_ok(tl_dataset_describe(d, &specs, &count));
    assert_int_equal(count, 2);
    assert_string_equal(specs[0].name, "image");
    assert_int_equal(specs[0].dtype, TL_F32);
    assert_true(has_shape(&specs[0], TL_SHAPE(BATCH, 2, 3)));
    assert_string_equal(specs[1].name, "id");
    assert_true(has_shape(&specs[1], TL_SHAPE(BATCH)));
    tl_dataset_free(&d);
}

static void bad_arrays_are_refused(void **state)
{
    (void)state;
    tl_array arrays[] = {{"id", TL_I64, TL_SHAPE(3), ids}, {"x", TL_F32, TL_SHAPE(3, 2), images}};
    tl_arrays_args args = {.arrays = arrays, .count = 2, .batch_size = 2};
    tl_dataset *d;
    args.batch_size = 0;
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL, "batch_size is 0");
    assert_null(d);
    args.batch_size = 2;
    args.count = 0;
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL, "no arrays");
    args.count = 2;
    arrays[1].shape = TL_SHAPE(4, 2);
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL,
                 "'x' is [4, 2], but 'id' has 3 examples");
    arrays[1].shape = TL_SCALAR;
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL, "'x' is a scalar");
    arrays[1].shape = TL_SHAPE(3, 2);
    arrays[1].name = "id";
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EEXISTS, "two arrays 'id'");
    arrays[1].name = "";
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL, "array 1 has no name");
    arrays[1].name = "x";
    arrays[1].data = NULL;
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL, "'x' has no data");
    arrays[1].data = images;
    args.repeat = args.drop_remainder = true;
    args.batch_size = 5;
    assert_fails(tl_dataset_from_arrays(&d, &args), TL_EINVAL, "3 examples make no batch of 5");
}

static void no_examples_are_no_batches(void **state)
{
    (void)state;
    tl_array empty = {"id", TL_I64, TL_SHAPE(0), NULL};
    tl_dataset *d;
    int64_t none[1];
    assert_ok(tl_dataset_from_arrays(
        &d, &(tl_arrays_args){.arrays = &empty, .count = 1, .batch_size = 2, .shuffle = true}));
    assert_int_equal(take(d, none), -1);
    tl_dataset_free(&d);
}

/* --- functions and batches -------------------------------------------------------------------- */

static void functions_make_batches(void **state)
{
    (void)state;
    int64_t batches = 3, count;
    const tl_spec *specs, spec = {"id", TL_I64, TL_SHAPE(2)};
    tl_dataset *d;
    stream s, again;
    assert_ok(tl_dataset_from_function(&d, &(tl_dataset_function){.fill = fill, .self = &batches}));
    read_stream(&s, d, 64);
    assert_int_equal(s.count, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(s.ids[i], i);
    read_stream(&again, d, 64); // it has ended, and stays so
    assert_int_equal(again.batches, 0);
    assert_ok(tl_dataset_rewind(d));
    read_stream(&again, d, 64);
    assert_memory_equal(&again, &s, sizeof s);
    assert_fails(tl_dataset_describe(d, &specs, &count), TL_EUNSUPPORTED, "without 'specs'");
    assert_fails(tl_dataset_length(d, &count), TL_EUNSUPPORTED, "without 'length'");
    tl_dataset_free(&d);
    assert_ok(tl_dataset_from_function(
        &d, &(tl_dataset_function){
                .fill = fill, .self = &batches, .specs = &spec, .spec_count = 1, .length = 3}));
    assert_ok(tl_dataset_describe(d, &specs, &count));
    assert_int_equal(count, 1);
    assert_true(specs != &spec && specs->name != spec.name);
    assert_string_equal(specs->name, "id");
    assert_ok(tl_dataset_length(d, &count));
    assert_int_equal(count, 3);
    tl_dataset_free(&d);
}

static void failures_of_functions_do_not_move(void **state)
{
    (void)state;
    int64_t batches = 200, index;
    tl_dataset *d;
    tl_state *position;
    tl_tensors out = {0};
    bool more;
    assert_ok(tl_dataset_from_function(&d, &(tl_dataset_function){.fill = fill, .self = &batches}));
    assert_ok(tl_state_new(&position));
    assert_ok(tl_dataset_state(d, position));
    assert_ok(tl_state_set(position, "index", &(tl_state_entry){.kind = TL_STATE_INT, .i = 99}));
    for (int i = 0; i < 2; i++)
        assert_fails(tl_dataset_next(d, c, &out, &more), TL_EIO, "batch 99: there is no such file");
    assert_ok(tl_state_set(position, "index", &(tl_state_entry){.kind = TL_STATE_INT, .i = -1}));
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "batch -1");
    assert_ok(tl_state_set(position, "index", &(tl_state_entry){.kind = TL_STATE_INT, .i = 98}));
    int64_t got[2];
    assert_int_equal(take(d, got), 2);
    assert_int_equal(got[0], 196);
    tl_state_entry entry;
    assert_ok(tl_state_get(&entry, position, "index", TL_STATE_INT));
    index = entry.i;
    assert_int_equal(index, 99);
    tl_state_free(&position);
    tl_dataset_free(&d);
}

static void batches_are_shown_not_copied(void **state)
{
    (void)state;
    tl_mark mark = tl_ctx_begin(c);
    tl_tensors batch = {0};
    tl_tensor *t = tl_arange(c, TL_I64, 0, 4, 1);
    const tl_storage *storage = t->storage;
    tl_dataset *d;
    bool more;
    tl_tensors_put(c, &batch, "id", t);
    assert_ok(tl_dataset_from_batches(&d, &batch, 1, true));
    tl_ctx_end(c, mark); // the dataset keeps the elements
    for (int i = 0; i < 3; i++) {
        tl_tensors out = {0};
        assert_ok(tl_dataset_next(d, c, &out, &more));
        assert_true(more && tl_tensors_peek(&out, "id")->storage == storage);
    }
    int64_t got[4];
    assert_int_equal(take(d, got), 4);
    assert_int_equal(got[3], 3);
    tl_dataset_free(&d);
    d = three_batches(false);
    stream s;
    const tl_spec *specs;
    int64_t count;
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 3);
    assert_int_equal(s.ids[5], 12);
    assert_ok(tl_dataset_describe(d, &specs, &count));
    assert_true(count == 1 && has_shape(specs, TL_SHAPE(1)));
    assert_ok(tl_dataset_length(d, &count));
    assert_int_equal(count, 3);
    tl_dataset_free(&d);
    assert_fails(tl_dataset_from_batches(&d, NULL, 0, true), TL_EINVAL, "no batches");
    tl_tensors turned = {0};
    tl_tensors_put(c, &turned, "x", tl_swap_axes(c, tl_zeros(c, TL_F32, TL_SHAPE(2, 3)), 0, 1));
    assert_fails(tl_dataset_from_batches(&d, &turned, 1, false), TL_EINVAL, "'x' of batch 0");
    assert_null(d);
}

/* --- around others ---------------------------------------------------------------------------- */

static void taking_ends_early(void **state)
{
    (void)state;
    tl_dataset *d, *inner = ARRAYS(.repeat = true);
    stream s;
    int64_t length;
    assert_ok(tl_dataset_take(&d, &inner, 2));
    assert_null(inner);
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 2);
    assert_ok(tl_dataset_length(d, &length));
    assert_int_equal(length, 2);
    assert_ok(tl_dataset_rewind(d));
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 2);
    assert_int_equal(s.ids[0], 0); // a fresh pass of what is inside, too
    tl_dataset_free(&d);
    inner = ARRAYS(0);
    assert_ok(tl_dataset_take(&d, &inner, 7));
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 3);
    assert_ok(tl_dataset_length(d, &length));
    assert_int_equal(length, 3);
    tl_dataset_free(&d);
    inner = ARRAYS(0);
    assert_fails(tl_dataset_take(&d, &inner, -1), TL_EINVAL, "-1 batches");
    assert_null(inner);
}

static void check_padded(tl_dataset *d, const float *given)
{
    bool more = true;
    int64_t seen = 0;
    while (more) {
        tl_batch b = {.ctx = c};
        int64_t got[BATCH];
        float pixels[BATCH][2][3], w[BATCH];
        tl_mark mark = tl_ctx_begin(c);
        assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
        if (more) {
            assert_int_equal(tl_batch_size(&b), BATCH);
            assert_ok(tl_tensor_get(tl_batch_get(&b, "id"), got, sizeof got));
            assert_ok(tl_tensor_get(tl_batch_get(&b, "image"), pixels, sizeof pixels));
            assert_ok(tl_tensor_get(tl_batch_weight(&b), w, sizeof w));
            for (int i = 0; i < BATCH; i++) {
                bool real = seen + i < EXAMPLES;
                assert_int_equal(got[i], real ? seen + i : seen);
                assert_memory_equal(pixels[i], images[got[i]], sizeof pixels[i]);
                assert_near(w[i], !real ? 0 : given ? given[got[i]] : 1, 0);
            }
            seen += BATCH;
        }
        tl_ctx_end(c, mark);
    }
    assert_int_equal(seen, 12);
}

static void short_batches_are_filled_up(void **state)
{
    (void)state;
    tl_dataset *d, *inner = ARRAYS(0);
    const tl_spec *specs;
    int64_t count;
    assert_ok(tl_dataset_pad(&d, &inner, BATCH));
    assert_null(inner);
    check_padded(d, NULL);
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_dataset_describe(d, &specs, &count));
        assert_int_equal(count, 3);
        assert_string_equal(specs[2].name, "weight");
        assert_true(specs[2].dtype == TL_F32 && has_shape(&specs[2], TL_SHAPE(BATCH)));
    }
    tl_dataset_free(&d);
    tl_array with[] = {fields[0], {"weight", TL_F32, TL_SHAPE(EXAMPLES), weights}, fields[1]};
    assert_ok(tl_dataset_from_arrays(
        &inner, &(tl_arrays_args){.arrays = with, .count = 3, .batch_size = BATCH}));
    assert_ok(tl_dataset_pad(&d, &inner, BATCH));
    check_padded(d, weights);
    assert_ok(tl_dataset_describe(d, &specs, &count));
    assert_int_equal(count, 3);
    tl_dataset_free(&d);
}

// Weights of tokens, say: [examples, length].
static void weights_may_have_more_axes(void **state)
{
    (void)state;
    static const float tokens[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    tl_array array = {"weight", TL_F32, TL_SHAPE(3, 2), tokens};
    tl_dataset *d, *inner;
    const tl_spec *specs;
    int64_t count;
    bool more;
    tl_tensors out = {0};
    float got[5][2];
    assert_ok(tl_dataset_from_arrays(
        &inner, &(tl_arrays_args){.arrays = &array, .count = 1, .batch_size = 5}));
    assert_ok(tl_dataset_pad(&d, &inner, 5));
    assert_ok(tl_dataset_describe(d, &specs, &count));
    assert_true(count == 1 && has_shape(specs, TL_SHAPE(5, 2)));
    assert_ok(tl_dataset_next(d, c, &out, &more));
    assert_true(more && out.count == 1);
    assert_ok(tl_tensor_get(tl_tensors_peek(&out, "weight"), got, sizeof got));
    assert_memory_equal(got, tokens, sizeof tokens);
    for (int i = 6; i < 10; i++) assert_near(got[i / 2][i % 2], 0, 0);
    tl_dataset_free(&d);
}

static void what_cannot_be_filled_up_is_named(void **state)
{
    (void)state;
    tl_dataset *d, *inner = ARRAYS(0);
    tl_tensors out = {0}, scalar = {0};
    bool more;
    assert_ok(tl_dataset_pad(&d, &inner, 3));
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "'image' is float32[4, 2, 3]");
    tl_ctx_clear(c);
    tl_dataset_free(&d);
    tl_tensors_put(c, &scalar, "x", tl_number(c, TL_F32, 1));
    assert_ok(tl_dataset_from_batches(&inner, &scalar, 1, false));
    assert_ok(tl_dataset_pad(&d, &inner, 3));
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "'x' is float32[]");
    tl_ctx_clear(c);
    tl_dataset_free(&d);
    tl_tensors weighted = {0};
    tl_tensors_put(c, &weighted, "weight", tl_ones(c, TL_F64, TL_SHAPE(2)));
    assert_ok(tl_dataset_from_batches(&inner, &weighted, 1, false));
    assert_ok(tl_dataset_pad(&d, &inner, 3));
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "'weight' is float64[2]");
    tl_ctx_clear(c);
    tl_dataset_free(&d);
    inner = ARRAYS(0);
    assert_fails(tl_dataset_pad(&d, &inner, 0), TL_EINVAL, "batch_size is 0");
    assert_null(inner);
}

/* --- a class of the test's own ---------------------------------------------------------------- */

typedef struct counting_config {
    int64_t end;
} counting_config;
static const tl_field counting_fields[] = {
    TL_F(counting_config, end, .i = 2, .help = "batches of a pass"),
    TL_F_END,
};
static const tl_desc counting_desc = {
    .name = "counting",
    .help = "of the test",
    .size = sizeof(counting_config),
    .fields = counting_fields,
};
typedef struct counting {
    tl_dataset base;
    int64_t next, end;
} counting;

static tl_status counting_build(tl_dataset *d)
{
    ((counting *)d)->end = ((const counting_config *)d->config)->end;
    return ((counting *)d)->end < 0 ? TL_FAIL(TL_EINVAL, "end is below 0") : TL_OK;
}

static tl_status counting_next(tl_dataset *d, tl_ctx *ctx, tl_tensors *out, bool *more)
{
    counting *k = (counting *)d;
    *more = k->next < k->end;
    if (*more) tl_tensors_put(ctx, out, "id", tl_full(ctx, TL_I64, TL_SHAPE(1), (double)k->next++));
    return TL_OK;
}

static tl_status counting_rewind(tl_dataset *d)
{
    ((counting *)d)->next = 0;
    return TL_OK;
}

static tl_status counting_state(tl_dataset *d, tl_state *into)
{
    return tl_state_bind_int(into, "next", &((counting *)d)->next);
}

static const tl_dataset_class counting_class = {
    .cls = TL_CLASS(tl_dataset_class, "counting", NULL, counting, &counting_desc,
                    .help = "of the test"),
    .build = counting_build,
    .next = counting_next,
    .rewind = counting_rewind,
    .state = counting_state,
};

static void own_classes_are_datasets(void **state)
{
    (void)state;
    static const tl_dataset_class lame = {
        .cls = TL_CLASS(tl_dataset_class, "lame", NULL, counting, NULL, .help = "of the test"),
        .next = counting_next,
        .rewind = counting_rewind,
    };
    tl_dataset *d;
    const tl_spec *specs;
    int64_t count;
    stream s;
    assert_ok(tl_dataset_new(&d, &counting_class, &(counting_config){.end = 3}));
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 3);
    assert_fails(tl_dataset_describe(d, &specs, &count), TL_EUNSUPPORTED, "'counting'");
    assert_fails(tl_dataset_length(d, &count), TL_EUNSUPPORTED, "'counting'");
    tl_dataset_free(&d);
    assert_ok(tl_dataset_new(&d, &counting_class, NULL));
    read_stream(&s, d, 64);
    assert_int_equal(s.batches, 2);
    tl_dataset_free(&d);
    assert_fails(tl_dataset_new(&d, &counting_class, &(counting_config){.end = -3}), TL_EINVAL,
                 "dataset 'counting': end is below 0");
    assert_fails(tl_dataset_new(&d, &lame, NULL), TL_EINVAL, "state");
    assert_null(d);
}

static void batches_name_what_is_missing(void **state)
{
    (void)state;
    tl_batch b = {.ctx = c};
    assert_int_equal(tl_batch_size(&b), 0);
    assert_null(tl_batch_weight(&b));
    tl_tensors_put(c, &b.tensors, "image", tl_zeros(c, TL_F32, TL_SHAPE(3, 2)));
    assert_int_equal(tl_batch_size(&b), 3);
    assert_null(tl_batch_peek(&b, "label"));
    assert_null(tl_batch_get(&b, "label"));
    assert_fails(tl_ctx_status(c), TL_ENOTFOUND, "there is no tensor 'label'; there are 'image'");
    bool more;
    tl_dataset *d = ARRAYS(0); // a context that failed gets no batch
    assert_fails(tl_dataset_next(d, c, &b.tensors, &more), TL_ENOTFOUND, "'label'");
    tl_ctx_clear(c);
    int64_t got[BATCH];
    assert_int_equal(take(d, got), BATCH);
    assert_int_equal(got[0], 0);
    tl_dataset_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(arrays_come_in_order),
        LAB_TEST(the_remainder_may_be_dropped),
        LAB_TEST(orders_depend_on_seed_and_pass_alone),
        LAB_TEST(repeated_batches_are_full),
        LAB_TEST(copies_outlive_their_arrays),
        LAB_TEST(batches_are_described),
        LAB_TEST(bad_arrays_are_refused),
        LAB_TEST(no_examples_are_no_batches),
        LAB_TEST(functions_make_batches),
        LAB_TEST(failures_of_functions_do_not_move),
        LAB_TEST(batches_are_shown_not_copied),
        LAB_TEST(taking_ends_early),
        LAB_TEST(short_batches_are_filled_up),
        LAB_TEST(weights_may_have_more_axes),
        LAB_TEST(what_cannot_be_filled_up_is_named),
        LAB_TEST(own_classes_are_datasets),
        LAB_TEST(batches_name_what_is_missing),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
