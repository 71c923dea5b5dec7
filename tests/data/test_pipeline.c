/* Pipelines, stage by stage. needs: threads */
#include "data/pipeline_lab.h"

#include <signal.h>

/* --- order ------------------------------------------------------------------------------------ */

static void records_come_in_order(void **state)
{
    (void)state;
    ASSERT_IDS(PIPELINE(numbers(9), .seed = 0), 0, 1, 2, 3, 4, 5, 6, 7, 8);
    ASSERT_IDS(PIPELINE(numbers(9), .drop_remainder = true), 0, 1, 2, 3, 4, 5, 6, 7);
    ASSERT_IDS(PIPELINE(PARTS(2, 0, 3), .seed = 0), 0, 1, 200, 201, 202);
    tl_dataset *d = PIPELINE(numbers(0), .seed = 0);
    assert_int_equal(take(d, NULL), -1);
    assert_int_equal(take(d, NULL), -1);
    tl_dataset_free(&d);
}

// The example of tf.data's documentation: five inputs of six, two at a time, four of each.
static void parts_take_turns_as_in_tf_data(void **state)
{
    (void)state;
    ASSERT_IDS(PIPELINE(PARTS(6, 6, 6, 6, 6), .cycle_length = 2, .block_length = 4), 0, 1, 2, 3,
               100, 101, 102, 103, 4, 5, 104, 105, 200, 201, 202, 203, 300, 301, 302, 303, 204, 205,
               304, 305, 400, 401, 402, 403, 404, 405);
    ASSERT_IDS(PIPELINE(PARTS(2, 1, 3), .cycle_length = 8), 0, 100, 200, 1, 201, 202);
    ASSERT_IDS(PIPELINE(PARTS(0, 2, 0, 2), .cycle_length = 2), 100, 101, 300, 301);
    ASSERT_IDS(PIPELINE(PARTS(9, 4, 8, 1), .cycle_length = 3, .block_length = 2), 0, 1, 100, 101,
               200, 201, 2, 3, 102, 103, 202, 203, 4, 5, 204, 205, 6, 7, 300, 206, 207, 8);
}

static void sources_follow_each_other(void **state)
{
    (void)state;
    int64_t from = 50;
    tl_source *two[] = {numbers(3), numbers_from(&from, 2)};
    ASSERT_IDS(PIPELINE(NULL, .sources = two, .source_count = 2), 0, 1, 2, 50, 51);
    assert_null(two[0]);
    assert_null(two[1]);
}

static stream one, other;

static void shuffled_passes_hold_each_record_once(void **state)
{
    (void)state;
    static const int64_t buffers[] = {1, 2, 7, 30, 100, 1000, TL_SHUFFLE_ALL};
    for (int64_t i = 0; i < TL_COUNT(buffers); i++) {
        tl_dataset *d = PIPELINE(numbers(100), .shuffle = buffers[i], .seed = 3);
        read_stream(&one, d, MOST);
        read_stream(&other, d, MOST);
        assert_int_equal(other.count, 0); // it ends, and ends again
        assert_ok(tl_dataset_rewind(d));
        read_stream(&other, d, MOST);
        bool same = memcmp(one.ids, other.ids, sizeof one.ids) == 0;
        assert_int_equal(same, buffers[i] == 1);
        // No further back than the buffer reaches.
        for (int64_t k = 0; buffers[i] > 0 && k < 100; k++)
            assert_true(one.ids[k] < k + buffers[i]);
        assert_each_once(one.ids, one.count, 100);
        assert_each_once(other.ids, other.count, 100);
        tl_dataset_free(&d);
    }
}

// Where the first record comes out: about evenly, over many seeds.
static void shuffles_are_fair(void **state)
{
    (void)state;
    static const int64_t buffers[] = {4, TL_SHUFFLE_ALL};
    for (int b = 0; b < 2; b++) {
        int64_t at[4] = {0};
        for (uint64_t seed = 0; seed < 800; seed++) {
            tl_dataset *d = PIPELINE(numbers(b ? 4 : 5), .shuffle = buffers[b], .seed = seed,
                                     .prefetch = -1, .threads = 1);
            read_stream(&one, d, MOST);
            at[one.ids[0]]++;
            tl_dataset_free(&d);
        }
        for (int i = 0; i < 4; i++) assert_true(at[i] > 150 && at[i] < 250);
    }
}

static void order_depends_on_seed_and_pass_alone(void **state)
{
    (void)state;
    tl_dataset *a = PIPELINE(PARTS(9, 4, 8, 30), .cycle_length = 3, .shuffle = 8,
                             .shuffle_parts = true, .seed = 5, .repeat = true);
    tl_dataset *b = PIPELINE(PARTS(9, 4, 8, 30), .cycle_length = 3, .shuffle = 8,
                             .shuffle_parts = true, .seed = 5);
    read_stream(&one, a, 39); // 156 records: three passes of 51, and 3 more
    for (int64_t pass = 0; pass < 3; pass++) {
        read_stream(&other, b, MOST);
        assert_int_equal(other.count, 51);
        assert_memory_equal(one.ids + 51 * pass, other.ids, 51 * sizeof *one.ids);
        assert_ok(tl_dataset_rewind(b));
    }
    tl_dataset_free(&b);
    b = PIPELINE(PARTS(9, 4, 8, 30), .cycle_length = 3, .shuffle = 8, .shuffle_parts = true,
                 .seed = 6);
    read_stream(&other, b, MOST);
    assert_memory_not_equal(one.ids, other.ids, 51 * sizeof *one.ids);
    tl_dataset_free(&a);
    tl_dataset_free(&b);
}

static void parts_are_shuffled_each_pass(void **state)
{
    (void)state;
    tl_dataset *d = PIPELINE(PARTS(1, 1, 1, 1, 1, 1, 1, 1), .shuffle_parts = true, .repeat = true,
                             .batch_size = 8, .seed = 1);
    read_stream(&one, d, 2);
    assert_memory_not_equal(one.ids, one.ids + 8, 8 * sizeof *one.ids);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 8; i++) one.ids[8 * pass + i] /= 100;
        assert_each_once(one.ids + (ptrdiff_t)8 * pass, 8, 8);
    }
    tl_dataset_free(&d);
}

/* --- readers ---------------------------------------------------------------------------------- */

static void readers_share_every_record_out(void **state)
{
    (void)state;
    static const int64_t shuffles[] = {0, 5, TL_SHUFFLE_ALL};
    for (int64_t readers = 1; readers <= 7; readers++)
        for (int s = 0; s < 3; s++)
            for (int64_t pass = 0; pass < 2; pass++) {
                int64_t count = 0;
                for (int64_t reader = 0; reader < readers; reader++) {
                    tl_dataset *d =
                        PIPELINE(PARTS(7, 3, 9, 4), .pipelines = readers, .pipeline = reader,
                                 .cycle_length = 2, .shuffle = shuffles[s], .shuffle_parts = s > 0,
                                 .seed = 4);
                    if (pass) {
                        take(d, other.ids);
                        assert_ok(tl_dataset_rewind(d));
                    }
                    read_stream(&other, d, MOST);
                    for (int64_t i = 0; i < other.count; i++) { // numbered through
                        static const int64_t before[] = {0, 7, 10, 19};
                        int64_t id = other.ids[i];
                        one.ids[count++] = before[id / 100] + id % 100;
                    }
                    tl_dataset_free(&d);
                }
                assert_each_once(one.ids, count, 23);
            }
}

static void parts_are_shared_out_when_there_are_enough(void **state)
{
    (void)state;
    ASSERT_IDS(PIPELINE(PARTS(2, 2, 2), .pipelines = 2, .pipeline = 0), 0, 1, 200, 201);
    ASSERT_IDS(PIPELINE(PARTS(2, 2, 2), .pipelines = 2, .pipeline = 1), 100, 101);
    ASSERT_IDS(PIPELINE(PARTS(3, 2), .pipelines = 3, .pipeline = 1), 1, 101);
}

/* --- mixing ----------------------------------------------------------------------------------- */

static void mixtures_follow_their_weights(void **state)
{
    (void)state;
    int64_t from = 1000;
    tl_source *two[] = {numbers(10), numbers_from(&from, 1000)};
    tl_dataset *d = PIPELINE(NULL, .sources = two, .source_count = 2, .weights = (double[]){3, 1},
                             .repeat = true, .seed = 2);
    read_stream(&one, d, 1000);
    int64_t first = 0, second = 0;
    for (int64_t i = 0; i < 4000; i++) {
        if (one.ids[i] < 10) assert_int_equal(one.ids[i], first++ % 10); // over and over
        else assert_int_equal(one.ids[i], 1000 + second++);
    }
    assert_true(first > 2880 && first < 3120);
    tl_dataset_free(&d);
}

static void mixtures_end_with_a_source_or_with_all(void **state)
{
    (void)state;
    int64_t from = 1000;
    for (int all = 0; all < 2; all++) {
        tl_source *three[] = {numbers(5), numbers_from(&from, 50), numbers(9)};
        tl_dataset *d = PIPELINE(NULL, .sources = three, .source_count = 3, .until_all = all,
                                 .weights = (double[]){1, 1, 0}, .seed = 2);
        read_stream(&one, d, MOST);
        if (all) assert_int_equal(one.count, 55); // a weight of 0 is never drawn
        else assert_true(one.count >= 5 && one.count < 40);
        assert_int_equal(take(d, other.ids), -1);
        tl_dataset_free(&d);
    }
}

/* --- maps and filters ------------------------------------------------------------------------- */

typedef struct augment {
    _Atomic int64_t calls;
} augment;

static tl_status add_noise(void *self, tl_sample *s)
{
    augment *a = self;
    tl_rng rng;
    if (a) a->calls++;
    tl_sample_rng(s, &rng);
    float *x = tl_sample_add(s, "x", TL_F32, TL_SHAPE(3));
    if (!x) return TL_ENOMEM;
    for (int i = 0; i < 3; i++) x[i] = tl_rng_uniform_f32(&rng);
    return TL_OK;
}

static tl_status thirds_only(void *self, const tl_sample *s, bool *keep)
{
    (void)self;
    int64_t id;
    TL_TRY(tl_sample_int(s, "id", &id));
    *keep = id % 3 == 0;
    return TL_OK;
}

static void filters_leave_samples_out(void **state)
{
    (void)state;
    ASSERT_IDS(PIPELINE(numbers(20), .filter = thirds_only), 0, 3, 6, 9, 12, 15, 18);
    tl_dataset *d = PIPELINE(numbers(20), .filter = thirds_only, .repeat = true);
    read_stream(&one, d, 4);
    static const int64_t wanted[] = {0, 3, 6, 9, 12, 15, 18, 0, 3, 6, 9, 12, 15, 18, 0, 3};
    assert_memory_equal(one.ids, wanted, sizeof wanted);
    tl_dataset_free(&d);
}

static tl_status leave_out_all_but_thirds(void *self, tl_sample *s)
{
    int64_t id;
    (void)self;
    TL_TRY(tl_sample_int(s, "id", &id));
    if (id % 3) tl_sample_leave_out(s);
    return TL_OK;
}

static void maps_leave_samples_out_too(void **state)
{
    (void)state;
    const tl_sample_map maps[] = {{leave_out_all_but_thirds, NULL}, {add_noise, NULL}};
    tl_tensors out = {0};
    int64_t batches;
    bool more;
    ASSERT_IDS(PIPELINE(numbers(20), .maps = maps, .map_count = 1, .leaves_out = true), 0, 3, 6, 9,
               12, 15, 18);
    ASSERT_IDS(PIPELINE(numbers(10), .decode = maps[0], .cache = true, .leaves_out = true), 0, 3, 6,
               9);
    augment a = {0};
    tl_sample_map counted[] = {maps[0], {add_noise, &a}};
    tl_dataset *d = PIPELINE(numbers(20), .maps = counted, .map_count = 2, .leaves_out = true);
    assert_fails(tl_dataset_length(d, &batches), TL_EUNSUPPORTED, "a filter decides");
    tl_dataset_free(&d);
    ASSERT_IDS(PIPELINE(numbers(9), .maps = counted, .map_count = 2, .leaves_out = true), 0, 3, 6);
    assert_int_equal(a.calls, 3); // nothing runs on what was left out
    d = PIPELINE(numbers(20), .maps = maps, .map_count = 1);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "its leaves_out is false");
    tl_dataset_free(&d);
}

static tl_status none(void *self, const tl_sample *s, bool *keep)
{
    (void)self, (void)s;
    *keep = false;
    return TL_OK;
}

static void what_would_never_end_is_an_error(void **state)
{
    (void)state;
    tl_tensors out = {0};
    bool more;
    tl_dataset *d = PIPELINE(numbers(20), .filter = none, .repeat = true);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "filter let none");
    tl_dataset_free(&d);
    d = PIPELINE(numbers(20), .filter = none);
    assert_int_equal(take(d, NULL), -1);
    tl_dataset_free(&d);
    d = PIPELINE(numbers(0), .repeat = true);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "has no records");
    tl_dataset_free(&d);
    d = PIPELINE(numbers(2), .repeat = true, .pipelines = 3, .pipeline = 2);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "reader 2 of 3 has no records");
    tl_dataset_free(&d);
}

// The same bytes on any number of threads, ahead or not.
static void threads_change_nothing(void **state)
{
    (void)state;
    static const int threads[] = {1, 0, 2, 7};
    static const int64_t ahead[] = {-1, 0, 1, 5};
    tl_str first = TL_STR_INIT;
    for (int t = 0; t < 4; t++)
        for (int a = 0; a < 4; a++) {
            tl_str here = TL_STR_INIT;
            tl_dataset *d = PIPELINE(PARTS(40, 10, 60), .cycle_length = 2, .shuffle = 16, .seed = 8,
                                     .maps = (tl_sample_map[]){{add_noise, NULL}}, .map_count = 1,
                                     .filter = thirds_only, .repeat = true, .threads = threads[t],
                                     .prefetch = ahead[a]);
            assert_int_equal(read_many(&here, d, 60), 60);
            if (t + a == 0) {
                first = here;
            } else {
                assert_same(&first, &here);
                tl_str_deinit(&here);
            }
            tl_dataset_free(&d);
        }
    tl_str_deinit(&first);
}

// Maps draw anew for each pass and each reader; two maps of one sample draw differently.
static tl_status more_noise(void *self, tl_sample *s)
{
    TL_TRY(tl_sample_rename(s, "x", "y"));
    return add_noise(self, s);
}

static void draws_are_the_samples_own(void **state)
{
    (void)state;
    static const tl_sample_map maps[] = {{add_noise, NULL}, {more_noise, NULL}};
    float drawn[4][2][3];
    for (int64_t i = 0; i < 4; i++) { // two passes of two readers
        tl_dataset *d = PIPELINE(numbers(8), .maps = maps, .map_count = 2, .pipelines = 2,
                                 .pipeline = i % 2, .repeat = true, .batch_size = 1, .seed = 3);
        for (int64_t k = 0; k <= i / 2 * 4; k++) {
            tl_batch b = {.ctx = c};
            bool more;
            assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
            assert_ok(tl_tensor_get(tl_batch_get(&b, "x"), drawn[i][0], sizeof drawn[i][0]));
            assert_ok(tl_tensor_get(tl_batch_get(&b, "y"), drawn[i][1], sizeof drawn[i][1]));
        }
        tl_dataset_free(&d);
    }
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(drawn[i / 2][i % 2], drawn[k / 2][k % 2], sizeof drawn[0][0]);
}

static void rewinding_draws_anew(void **state)
{
    (void)state;
    tl_str first = TL_STR_INIT, again = TL_STR_INIT;
    tl_dataset *d =
        PIPELINE(numbers(4), .maps = (tl_sample_map[]){{add_noise, NULL}}, .map_count = 1);
    assert_int_equal(read_many(&first, d, 9), 1);
    assert_ok(tl_dataset_rewind(d));
    assert_int_equal(read_many(&again, d, 9), 1);
    assert_int_equal(first.length, again.length);
    assert_memory_not_equal(first.data, again.data, first.length);
    tl_dataset_free(&d);
    tl_str_deinit(&first);
    tl_str_deinit(&again);
}

static tl_status count_decodes(void *self, tl_sample *s)
{
    (void)s;
    ((augment *)self)->calls++;
    return TL_OK;
}

static void a_cache_keeps_what_was_decoded_and_not_what_was_drawn(void **state)
{
    (void)state;
    tl_str plain = TL_STR_INIT, cached = TL_STR_INIT;
    augment decoded = {0}, drawn = {0};
    for (int cache = 0; cache < 2; cache++) {
        decoded.calls = drawn.calls = 0;
        tl_dataset *d = PIPELINE(numbers(20), .decode = {count_decodes, &decoded}, .cache = cache,
                                 .maps = (tl_sample_map[]){{add_noise, &drawn}}, .map_count = 1,
                                 .shuffle = 7, .repeat = true, .prefetch = -1, .threads = 3);
        assert_int_equal(read_many(cache ? &cached : &plain, d, 20), 20);
        assert_int_equal(decoded.calls, cache ? 20 : 80);
        assert_int_equal(drawn.calls, 80);
        tl_dataset_free(&d);
    }
    assert_same(&plain, &cached);
    tl_str_deinit(&plain);
    tl_str_deinit(&cached);
}

/* --- batches ---------------------------------------------------------------------------------- */

static tl_status ramp(void *self, tl_sample *s)
{
    int64_t id, step = *(const int64_t *)self;
    TL_TRY(tl_sample_int(s, "id", &id));
    int64_t n = id * step % 7;
    int32_t *x = tl_sample_add(s, "x", TL_I32, TL_SHAPE(n, 2));
    float *mask = tl_sample_add(s, "mask", TL_F32, TL_SHAPE(n));
    if (!x || !mask) return TL_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        x[2 * i] = x[2 * i + 1] = (int32_t)(10 * id + i);
        mask[i] = 1;
    }
    return TL_OK;
}

// Row `r` of a field whose rows have `wide` items, of which the first `n` are the sample's.
static void check_row(tl_tensors *batch, int64_t r, int64_t id, int64_t n, int64_t wide)
{
    int32_t x[1024];
    float mask[512];
    const tl_tensor *tx = tl_tensors_get(c, batch, "x"), *tm = tl_tensors_get(c, batch, "mask");
    assert_true(tx->shape.rank == 3 && tx->shape.dims[1] == wide && tx->shape.dims[2] == 2);
    assert_true(tm->shape.rank == 2 && tm->shape.dims[1] == wide);
    assert_ok(tl_tensor_get(tx, x, tl_tensor_bytes(tx)));
    assert_ok(tl_tensor_get(tm, mask, tl_tensor_bytes(tm)));
    for (int64_t i = 0; i < wide; i++) {
        int64_t want = i < n ? 10 * id + i : -1;
        assert_int_equal(x[(r * wide + i) * 2], want);
        assert_int_equal(x[(r * wide + i) * 2 + 1], want);
        assert_true(mask[r * wide + i] == (i < n ? 1 : 0));
    }
}

static void short_samples_are_filled_up(void **state)
{
    (void)state;
    static int64_t step = 3;
    static const tl_pad_value pads[] = {{"x", -1}};
    tl_dataset *d = PIPELINE(numbers(10), .maps = (tl_sample_map[]){{ramp, &step}}, .map_count = 1,
                             .padded = true, .pads = pads, .pad_count = 1);
    static const int64_t wide[] = {6, 5, 6}; // 0 3 6 2, 5 1 4 0, 3 6
    for (int64_t b = 0; b < 3; b++) {
        tl_tensors batch = {0};
        bool more;
        assert_ok(tl_dataset_next(d, c, &batch, &more));
        assert_true(more);
        for (int64_t r = 0; r < (b < 2 ? 4 : 2); r++) {
            int64_t id = 4 * b + r;
            check_row(&batch, r, id, id * 3 % 7, wide[b]);
        }
    }
    const tl_spec *specs;
    int64_t count;
    assert_fails(tl_dataset_describe(d, &specs, &count), TL_EUNSUPPORTED, "padded");
    tl_dataset_free(&d);
}

static void samples_unlike_the_others_are_refused(void **state)
{
    (void)state;
    static int64_t step = 3;
    tl_tensors out = {0};
    bool more;
    tl_dataset *d = PIPELINE(numbers(10), .maps = (tl_sample_map[]){{ramp, &step}}, .map_count = 1);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL,
                 "field 'x' is int32[3, 2] in record 1 of 'function', but int32[0, 2]");
    tl_dataset_free(&d);
    static const tl_pad_value pads[] = {{"x", 0.5}};
    d = PIPELINE(numbers(10), .maps = (tl_sample_map[]){{ramp, &step}}, .map_count = 1,
                 .padded = true, .pads = pads, .pad_count = 1);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "cannot be filled up with 0.5");
    tl_dataset_free(&d);
    static const tl_pad_value unknown[] = {{"y", 0}};
    d = PIPELINE(numbers(10), .maps = (tl_sample_map[]){{ramp, &step}}, .map_count = 1,
                 .padded = true, .pads = unknown, .pad_count = 1);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_ENOTFOUND, "pads: there is no field 'y'");
    tl_dataset_free(&d);
}

/* Leaves `x` out of record 2, and adds `more` to records from 3 on. */
static tl_status unlike(void *self, tl_sample *s)
{
    const int64_t left_out = *(const int64_t *)self;
    int64_t id;
    TL_TRY(tl_sample_int(s, "id", &id));
    if (id != left_out && !tl_sample_add(s, "x", TL_I32, TL_SHAPE(2))) return TL_ENOMEM;
    if (id < 3) return TL_OK;
    return tl_sample_add(s, "more", TL_I32, TL_SHAPE(1)) ? TL_OK : TL_ENOMEM;
}

// Of many that differ, whoever finds it: rows are compared by several threads.
static void the_first_sample_that_differs_is_told(void **state)
{
    (void)state;
    static int64_t left_out[] = {2, -1};
    static const char *const told[] = {"record 2 of 'function' has no field 'x', as record 0",
                                       "record 3 of 'function'"};
    for (int i = 0; i < 2; i++) {
        tl_tensors out = {0};
        bool more;
        tl_dataset *d = PIPELINE(numbers(300), .maps = (tl_sample_map[]){{unlike, &left_out[i]}},
                                 .map_count = 1, .batch_size = 300, .threads = 7);
        assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, told[i]);
        tl_dataset_free(&d);
    }
}

static void buckets_gather_samples_of_like_length(void **state)
{
    (void)state;
    static int64_t step = 1; // lengths 0 1 2 3 4 5 6 0 1 2 ...
    static const int64_t ends[] = {2, 5}, sizes[] = {3, 2, 2};
    static const int64_t wanted[][4] = {
        {2, 3, -1}, {5, 6, -1},   {0, 1, 7, -1},
        {4, 9, -1}, {10, 11, -1}, {12, 13, -1}, // then what is left, shortest first
        {8, -1}};
    for (int to_end = 0; to_end < 2; to_end++) {
        tl_dataset *d = PIPELINE(
            numbers(14), .maps = (tl_sample_map[]){{ramp, &step}}, .map_count = 1, .bucket_by = "x",
            .bucket_ends = ends, .bucket_count = 2, .bucket_sizes = sizes,
            .pads = (tl_pad_value[]){{"x", -1}}, .pad_count = 1, .pad_to_end = to_end);
        if (to_end) {
            tl_tensors batch = {0};
            bool more;
            assert_ok(tl_dataset_next(d, c, &batch, &more));
            check_row(&batch, 0, 2, 2, 4);
            check_row(&batch, 1, 3, 3, 4);
            batch = (tl_tensors){0};
            assert_fails(tl_dataset_next(d, c, &batch, &more), TL_EINVAL,
                         "record 5 of 'function' has length 5");
        } else {
            for (int64_t b = 0; b < TL_COUNT(wanted); b++) {
                int64_t n = take(d, one.ids), k = 0;
                for (; wanted[b][k] >= 0; k++) assert_int_equal(one.ids[k], wanted[b][k]);
                assert_int_equal(n, k);
            }
            assert_int_equal(take(d, one.ids), -1);
        }
        tl_dataset_free(&d);
    }
}

static tl_status negate(void *self, tl_ctx *ctx, const tl_rng *draws, tl_tensors *batch)
{
    tl_rng rng = *draws;
    *(uint64_t *)self = tl_rng_u64(&rng);
    tl_tensor *id = tl_tensors_get(ctx, batch, "id");
    tl_lease l;
    TL_TRY(tl_lease_write(&l, id));
    for (int64_t i = 0; i < tl_tensor_count(id); i++) ((int64_t *)l.data)[i] *= -1;
    assert_ok(tl_lease_end(&l));
    return TL_OK;
}

static void batches_can_be_changed(void **state)
{
    (void)state;
    uint64_t drawn = 0, before = 0;
    tl_dataset *d = PIPELINE(numbers(8), .postprocess = negate, .postprocess_self = &drawn);
    assert_int_equal(take(d, one.ids), 4);
    assert_int_equal(one.ids[3], -3);
    before = drawn;
    assert_int_equal(take(d, one.ids), 4);
    assert_true(drawn != before);
    tl_dataset_free(&d);
}

static tl_status gather_draw(void *self, tl_ctx *ctx, const tl_rng *draws, tl_tensors *batch)
{
    stream *all = self;
    tl_rng rng = *draws;
    (void)ctx, (void)batch;
    all->ids[all->count++] = (int64_t)tl_rng_u64(&rng);
    return TL_OK;
}

// Also of those that come at the end of a pass, one bucket after the other.
static void every_batch_has_draws_of_its_own(void **state)
{
    (void)state;
    static stream drawn;
    static const int64_t ends[] = {2, 3, 4, 5, 6}, sizes[] = {50, 50, 50, 50, 50, 50};
    memset(&drawn, 0, sizeof drawn);
    const char *path = write_file("draws", 0, 30, false);
    tl_source *s = open_files(&path, 1);
    tl_dataset *d = make(s, (tl_pipeline_args){.decode = {tl_example_decode, take_features(2)},
                                               .bucket_by = "x",
                                               .bucket_ends = ends,
                                               .bucket_sizes = sizes,
                                               .bucket_count = 5,
                                               .postprocess = gather_draw,
                                               .postprocess_self = &drawn});
    while (take(d, one.ids) >= 0) {}
    tl_dataset_free(&d);
    assert_int_equal(drawn.count, 6);
    for (int64_t i = 0; i < drawn.count; i++)
        for (int64_t k = 0; k < i; k++) assert_true(drawn.ids[i] != drawn.ids[k]);
}

static uint64_t drawn_in[3];

static tl_status draw_into(void *self, tl_sample *s)
{
    tl_rng rng;
    tl_sample_rng(s, &rng);
    *(uint64_t *)self = tl_rng_u64(&rng);
    return TL_OK;
}

static tl_status draw_in_filter(void *self, const tl_sample *s, bool *keep)
{
    (void)keep;
    return draw_into(self, (tl_sample *)(uintptr_t)s);
}

static void decode_maps_and_filter_draw_apart(void **state)
{
    (void)state;
    tl_dataset *d = PIPELINE(numbers(1), .decode = {draw_into, &drawn_in[0]},
                             .filter = draw_in_filter, .filter_self = &drawn_in[2], .map_count = 1,
                             .maps = (tl_sample_map[]){{draw_into, &drawn_in[1]}}, .prefetch = -1);
    assert_int_equal(take(d, one.ids), 1);
    assert_true(drawn_in[0] != drawn_in[1] && drawn_in[1] != drawn_in[2]
                && drawn_in[0] != drawn_in[2]);
    tl_dataset_free(&d);
}

/* --- the thread that runs ahead --------------------------------------------------------------- */

static tl_status look_at_mask(void *self, tl_sample *s)
{
    (void)s;
    pthread_sigmask(SIG_SETMASK, NULL, self);
    return TL_OK;
}

// What a thread brings upon itself must reach handlers; all else is the program's.
static void batches_are_made_with_few_signals(void **state)
{
    (void)state;
    sigset_t mask;
    sigemptyset(&mask);
    tl_dataset *d = PIPELINE(numbers(4), .maps = (tl_sample_map[]){{look_at_mask, &mask}},
                             .map_count = 1, .threads = 1);
    assert_int_equal(take(d, one.ids), 4);
    tl_dataset_free(&d);
    assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM));
    assert_false(sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGBUS)
                 || sigismember(&mask, SIGFPE) || sigismember(&mask, SIGABRT)
                 || sigismember(&mask, SIGPROF));
}

/* --- what it says of itself ------------------------------------------------------------------- */

static void batches_are_described_before_they_come(void **state)
{
    (void)state;
    const tl_spec *specs;
    int64_t count;
    tl_dataset *d = PIPELINE(numbers(10), .maps = (tl_sample_map[]){{add_noise, NULL}},
                             .map_count = 1, .filter = thirds_only);
    assert_int_equal(take(d, one.ids), 4); // 0 3 6 9
    assert_ok(tl_dataset_rewind(d));
    assert_ok(tl_dataset_describe(d, &specs, &count));
    assert_int_equal(count, 2);
    assert_string_equal(specs[1].name, "x");
    assert_true(specs[1].dtype == TL_F32 && specs[1].shape.rank == 2 && specs[1].shape.dims[0] == 4
                && specs[1].shape.dims[1] == 3);
    assert_int_equal(take(d, one.ids), 4); // nothing was lost
    assert_int_equal(one.ids[0], 0);
    tl_dataset_free(&d);
}

static void lengths_are_known_where_they_can_be(void **state)
{
    (void)state;
    int64_t n;
    tl_dataset *d = PIPELINE(numbers(10), .seed = 0);
    assert_ok(tl_dataset_length(d, &n));
    assert_int_equal(n, 3);
    tl_dataset_free(&d);
    d = PIPELINE(numbers(10), .drop_remainder = true, .pipelines = 2, .pipeline = 1);
    assert_ok(tl_dataset_length(d, &n));
    assert_int_equal(n, 1);
    tl_dataset_free(&d);
    d = PIPELINE(PARTS(5, 9, 7), .pipelines = 2, .pipeline = 0);
    assert_ok(tl_dataset_length(d, &n));
    assert_int_equal(n, 3);
    tl_dataset_free(&d);
    d = PIPELINE(numbers(10), .repeat = true);
    assert_ok(tl_dataset_length(d, &n));
    assert_int_equal(n, -1);
    tl_dataset_free(&d);
    d = PIPELINE(numbers(10), .filter = thirds_only);
    assert_fails(tl_dataset_length(d, &n), TL_EUNSUPPORTED, "filter");
    tl_dataset_free(&d);
}

static void refuse_as(tl_status code, tl_pipeline_args args, const char *text)
{
    tl_dataset *d;
    tl_source *s = numbers(4);
    if (!args.sources) {
        args.sources = &s;
        args.source_count = 1;
    }
    assert_fails(tl_pipeline_new(&d, &args), code, text);
    assert_null(d);
    if (args.sources == &s) assert_null(s);
    tl_source_free(&s);
}

static void refuse(tl_pipeline_args args, const char *text)
{
    refuse_as(TL_EINVAL, args, text);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    refuse((tl_pipeline_args){0}, "batch_size is 0");
    refuse((tl_pipeline_args){.batch_size = 1, .pipelines = 2, .pipeline = 2}, "pipeline is 2");
    refuse((tl_pipeline_args){.batch_size = 1, .cycle_length = -1}, "cycle_length is -1");
    refuse((tl_pipeline_args){.batch_size = 1, .shuffle = -2}, "shuffle is -2");
    refuse((tl_pipeline_args){.batch_size = 1, .threads = -1}, "threads is -1");
    refuse((tl_pipeline_args){.batch_size = 1, .weights = (double[]){-1}}, "weight 0 is -1");
    refuse((tl_pipeline_args){.batch_size = 1, .weights = (double[]){0}}, "all weights are 0");
    refuse((tl_pipeline_args){.bucket_by = "x"}, "bucket_count is 0");
    refuse((tl_pipeline_args){.bucket_by = "x",
                              .bucket_count = 2,
                              .bucket_ends = (int64_t[]){5, 5},
                              .bucket_sizes = (int64_t[]){1, 1, 1}},
           "bucket end 1 is 5");
    refuse((tl_pipeline_args){.batch_size = 1,
                              .map_count = 1,
                              .maps = (tl_sample_map[]){{NULL, NULL}}},
           "map 0 has no function");
    refuse_as(TL_ELIMIT, (tl_pipeline_args){.batch_size = 1, .prefetch = INT64_MAX / 2},
              "prefetch (prefetch_buffer_size) is ");
    refuse_as(TL_ELIMIT,
              (tl_pipeline_args){.bucket_by = "x",
                                 .bucket_count = 1,
                                 .bucket_ends = (int64_t[]){5},
                                 .bucket_sizes = (int64_t[]){INT64_MAX, INT64_MAX}},
              "bucket_sizes");
    const char *path = write_file("large", 0, 3, false);
    tl_source *files = open_files(&path, 1);
    refuse_as(TL_ELIMIT,
              (tl_pipeline_args){
                  .sources = &files, .source_count = 1, .batch_size = 1, .shuffle = INT64_MAX},
              "shuffle (shuffle_buffer_size) is 9223372036854775807");
    tl_source *empty[1] = {NULL};
    refuse((tl_pipeline_args){.batch_size = 1, .sources = empty, .source_count = 1},
           "source 0 is NULL");
    refuse((tl_pipeline_args){.batch_size = 1, .sources = empty}, "there are no sources");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(records_come_in_order),
        LAB_TEST(parts_take_turns_as_in_tf_data),
        LAB_TEST(sources_follow_each_other),
        LAB_TEST(shuffled_passes_hold_each_record_once),
        LAB_TEST(shuffles_are_fair),
        LAB_TEST(order_depends_on_seed_and_pass_alone),
        LAB_TEST(parts_are_shuffled_each_pass),
        LAB_TEST(readers_share_every_record_out),
        LAB_TEST(parts_are_shared_out_when_there_are_enough),
        LAB_TEST(mixtures_follow_their_weights),
        LAB_TEST(mixtures_end_with_a_source_or_with_all),
        LAB_TEST(filters_leave_samples_out),
        LAB_TEST(maps_leave_samples_out_too),
        LAB_TEST(what_would_never_end_is_an_error),
        LAB_TEST(threads_change_nothing),
        LAB_TEST(draws_are_the_samples_own),
        LAB_TEST(rewinding_draws_anew),
        LAB_TEST(a_cache_keeps_what_was_decoded_and_not_what_was_drawn),
        LAB_TEST(short_samples_are_filled_up),
        LAB_TEST(samples_unlike_the_others_are_refused),
        LAB_TEST(the_first_sample_that_differs_is_told),
        LAB_TEST(buckets_gather_samples_of_like_length),
        LAB_TEST(batches_can_be_changed),
        LAB_TEST(every_batch_has_draws_of_its_own),
        LAB_TEST(decode_maps_and_filter_draw_apart),
        LAB_TEST(batches_are_made_with_few_signals),
        LAB_TEST(batches_are_described_before_they_come),
        LAB_TEST(lengths_are_known_where_they_can_be),
        LAB_TEST(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
