/* Datasets that are restored go on with the very next batch; those that run out of memory lose
 * none. */
#include "data/carry_over.h"
#include "data/dataset_lab.h"

#include <tilth/base/alloc.h>

/* --- resuming --------------------------------------------------------------------------------- */

typedef tl_dataset *maker(void);

static tl_dataset *plain(void)
{
    return ARRAYS(0);
}
static tl_dataset *shuffled(void)
{
    return ARRAYS(.shuffle = true, .seed = 8);
}
static tl_dataset *endless(void)
{
    return ARRAYS(.shuffle = true, .repeat = true, .seed = 9);
}
static tl_dataset *dropping(void)
{
    return ARRAYS(.shuffle = true, .repeat = true, .drop_remainder = true, .seed = 10);
}
static tl_dataset *function(void)
{
    static int64_t batches = 9;
    tl_dataset *d;
    assert_ok(tl_dataset_from_function(&d, &(tl_dataset_function){.fill = fill, .self = &batches}));
    return d;
}
static tl_dataset *repeated_batches(void)
{
    return three_batches(true);
}
static tl_dataset *taken(void)
{
    tl_dataset *d, *inner = endless();
    assert_ok(tl_dataset_take(&d, &inner, 8));
    return d;
}
static tl_dataset *padded(void)
{
    tl_dataset *d, *inner = shuffled();
    assert_ok(tl_dataset_pad(&d, &inner, BATCH));
    return d;
}

static void resuming_gives_the_very_next_batch(void **state)
{
    (void)state;
    static maker *const makers[] = {plain,    shuffled,         endless, dropping,
                                    function, repeated_batches, taken,   padded};
    for (int64_t m = 0; m < TL_COUNT(makers); m++) {
        for (int64_t at = 0; at < 10; at++) {
            tl_dataset *whole = makers[m](), *second = makers[m]();
            stream s, rest;
            read_stream(&s, whole, at);
            read_stream(&s, second, 2); // elsewhere
            carry_over(whole, second);
            read_stream(&s, whole, 12);
            read_stream(&rest, second, 12);
            assert_memory_equal(&s, &rest, sizeof s);
            // Once more from where both are now, in a later pass.
            assert_ok(tl_dataset_rewind(whole));
            read_stream(&s, whole, 1);
            carry_over(whole, second);
            read_stream(&s, whole, 12);
            read_stream(&rest, second, 12);
            assert_memory_equal(&s, &rest, sizeof s);
            tl_dataset_free(&whole);
            tl_dataset_free(&second);
        }
    }
}

static void a_restored_order_needs_no_equal_seed(void **state)
{
    (void)state;
    tl_dataset *a = ARRAYS(.shuffle = true, .seed = 1), *b = ARRAYS(.shuffle = true, .seed = 2);
    stream s, rest;
    read_stream(&s, a, 1);
    read_stream(&rest, b, 1); // its own order is there already
    carry_over(a, b);
    read_stream(&s, a, 64);
    read_stream(&rest, b, 64);
    assert_memory_equal(&s, &rest, sizeof s);
    tl_dataset_free(&a);
    tl_dataset_free(&b);
}

static void positions_of_other_data_are_refused(void **state)
{
    (void)state;
    tl_dataset *d = ARRAYS(0), *batches = three_batches(false);
    tl_state *position;
    tl_tensors out = {0};
    bool more;
    assert_ok(tl_state_new(&position));
    assert_ok(tl_dataset_state(d, position));
    assert_ok(tl_state_set(position, "position", &(tl_state_entry){.kind = TL_STATE_INT, .i = 12}));
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL,
                 "example 12 of pass 0, but there are 11");
    assert_ok(tl_state_set(position, "position", &(tl_state_entry){.kind = TL_STATE_INT, .i = -1}));
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "example -1");
    tl_state_free(&position);
    assert_ok(tl_state_new(&position));
    assert_ok(tl_dataset_state(batches, position));
    assert_ok(tl_state_set(position, "index", &(tl_state_entry){.kind = TL_STATE_INT, .i = 4}));
    assert_fails(tl_dataset_next(batches, c, &out, &more), TL_EINVAL, "batch 4, but there are 3");
    tl_state_free(&position);
    tl_dataset_free(&d);
    tl_dataset_free(&batches);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status use_arrays(tl_dataset **d, tl_tensors *out)
{
    tl_dataset *inner = NULL;
    tl_state *kept = NULL;
    tl_tensors last = {0};
    const tl_spec *specs;
    int64_t count;
    bool more;
    tl_status st;
    TL_TRY_DONE(st, tl_dataset_from_arrays(&inner, &(tl_arrays_args){.arrays = fields,
                                                                     .count = 2,
                                                                     .batch_size = 7,
                                                                     .shuffle = true,
                                                                     .copy = true}));
    TL_TRY_DONE(st, tl_dataset_pad(d, &inner, 7));
    TL_TRY_DONE(st, tl_dataset_describe(*d, &specs, &count));
    TL_TRY_DONE(st, tl_dataset_next(*d, c, out, &more));
    TL_TRY_DONE(st, tl_dataset_next(*d, c, &last, &more));
    TL_TRY_DONE(st, tl_state_new(&kept));
    TL_TRY_DONE(st, tl_dataset_state(*d, kept));
done:
    tl_state_free(&kept);
    tl_dataset_free(&inner);
    return st;
}

static tl_status use_datasets(void)
{
    tl_dataset *arrays = NULL, *d = NULL, *inner = NULL;
    tl_tensors out = {0}, last = {0};
    const tl_spec spec = {"id", TL_I64, TL_SHAPE(2)};
    int64_t batches = 2;
    bool more;
    tl_mark mark = tl_ctx_begin(c);
    tl_status st;
    TL_TRY_DONE(st, use_arrays(&arrays, &out));
    TL_TRY_DONE(st, tl_dataset_from_batches(&d, &out, 1, true));
    TL_TRY_DONE(st, tl_dataset_next(d, c, &last, &more));
    tl_dataset_free(&d);
    last = (tl_tensors){0};
    TL_TRY_DONE(st, tl_dataset_from_function(&inner, &(tl_dataset_function){.fill = fill,
                                                                            .self = &batches,
                                                                            .specs = &spec,
                                                                            .spec_count = 1}));
    TL_TRY_DONE(st, tl_dataset_take(&d, &inner, 1));
    TL_TRY_DONE(st, tl_dataset_next(d, c, &last, &more));
done:
    tl_dataset_free(&inner);
    tl_dataset_free(&d);
    tl_dataset_free(&arrays);
    tl_ctx_end(c, mark);
    return st;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    assert_ok(use_datasets());
    for (int64_t nth = 1;; nth++) {
        assert_true(nth < 100000);
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 2); // the second one too, since memory of tensors is asked for again
        int64_t before = tl_alloc_calls();
        tl_status st = use_datasets();
        bool reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        if (st != (reached ? TL_ENOMEM : TL_OK))
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        if (!reached) break;
    }
}

// A batch that could not be made comes again, also the first of a pass.
static void a_failed_batch_is_not_lost(void **state)
{
    (void)state;
    static maker *const makers[] = {endless, dropping};
    for (int64_t m = 0; m < TL_COUNT(makers); m++) {
        tl_dataset *d = makers[m](), *same = makers[m]();
        stream s, t;
        read_stream(&s, d, 2);
        read_stream(&t, same, 2);
        for (int64_t nth = 1; nth < 4; nth++) {
            tl_tensors out = {0};
            bool more;
            tl_mark mark = tl_ctx_begin(c);
            tl_engine_trim(engine);
            tl_alloc_fail_at(nth, 2);
            tl_status st = tl_dataset_next(d, c, &out, &more);
            tl_alloc_fail_at(0, 0);
            tl_ctx_end(c, mark);
            assert_int_equal(st, TL_ENOMEM);
        }
        tl_dataset *third = makers[m]();
        carry_over(d, third); // the position is as it was, too
        read_stream(&s, third, 3);
        read_stream(&t, same, 3);
        assert_memory_equal(&s, &t, sizeof s);
        read_stream(&t, d, 3);
        assert_memory_equal(&s, &t, sizeof s);
        tl_dataset_free(&d);
        tl_dataset_free(&same);
        tl_dataset_free(&third);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(resuming_gives_the_very_next_batch),
        LAB_TEST(a_restored_order_needs_no_equal_seed),
        LAB_TEST(positions_of_other_data_are_refused),
        LAB_TEST(memory_may_run_out_anywhere),
        LAB_TEST(a_failed_batch_is_not_lost),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
