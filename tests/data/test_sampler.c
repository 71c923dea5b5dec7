/* Samplers: which records each rank reads, alone and through pipelines. needs: threads */
#include "data/pipeline_lab.h"

#include <tilth/desc/config.h>
#include <tilth/desc/yaml.h>

static tl_sampler cyclic(int64_t records, int64_t batch, int64_t ranks, int64_t rank)
{
    return (tl_sampler){.cls = &tl_cyclic_sampler,
                        .records = records,
                        .batch_size = batch,
                        .ranks = ranks,
                        .rank = rank};
}

static tl_sampler single(int64_t records, int64_t batch, int64_t ranks, int64_t rank)
{
    return (tl_sampler){.cls = &tl_single_round_sampler,
                        .records = records,
                        .batch_size = batch,
                        .ranks = ranks,
                        .rank = rank};
}

enum { ROOM = 128 };

// What a pass reads from a position on.
static void assert_order(tl_sampler s, tl_sampler_place at, const int64_t *wanted, int64_t count)
{
    int64_t order[ROOM];
    assert_ok(tl_sampler_check(&s));
    assert_int_equal(tl_sampler_share(&s) - at.offset, count);
    assert_ok(tl_sampler_order(&s, at.epoch, order));
    for (int64_t i = 0; i < count; i++) assert_int_equal(order[at.offset + i], wanted[i]);
}
#define ASSERT_ORDER(s, epoch, offset, ...)                                                        \
    assert_order(s, (tl_sampler_place){epoch, offset}, (const int64_t[]){__VA_ARGS__},             \
                 TL_COUNT(((const int64_t[]){__VA_ARGS__})))

/* --- cyclic ----------------------------------------------------------------------------------- */

static void a_cycle_on_one_rank(void **state)
{
    (void)state;
    tl_sampler s = cyclic(10, 2, 1, 0);
    ASSERT_ORDER(s, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    ASSERT_ORDER(s, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    assert_int_equal(tl_sampler_batches(&s), 5); // and not 10
    assert_int_equal(tl_sampler_lack(&s), 0);
}

// Of ten records 8 and 9 are never read.
static void a_cycle_on_two_ranks(void **state)
{
    (void)state;
    ASSERT_ORDER(cyclic(10, 2, 2, 0), 0, 0, 0, 1, 2, 3);
    ASSERT_ORDER(cyclic(10, 2, 2, 1), 0, 0, 4, 5, 6, 7);
    tl_sampler s = cyclic(10, 2, 2, 0);
    assert_int_equal(tl_sampler_batches(&s), 2);
}

// The original counts what all ranks have consumed against what one of them has, and skips half an
// epoch.
static void consumed_samples_are_those_of_all_ranks(void **state)
{
    (void)state;
    static const struct {
        int64_t ranks, consumed;
        tl_sampler_place wanted;
    } rows[] = {{2, 0, {0, 0}}, {2, 4, {0, 2}},  {2, 8, {1, 0}}, {2, 12, {1, 2}},
                {1, 4, {0, 4}}, {1, 10, {1, 0}}, {1, 36, {3, 6}}};
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_sampler s = cyclic(10, 2, rows[i].ranks, 0);
        tl_sampler_place at;
        assert_ok(tl_sampler_seek(&at, &s, rows[i].consumed));
        assert_int_equal(at.epoch, rows[i].wanted.epoch);
        assert_int_equal(at.offset, rows[i].wanted.offset);
        assert_int_equal(tl_sampler_consumed(&s, at), rows[i].consumed);
    }
    ASSERT_ORDER(cyclic(10, 2, 2, 0), 0, 2, 2, 3);
    ASSERT_ORDER(cyclic(10, 2, 2, 1), 0, 2, 6, 7);
}

// Every epoch another permutation, which is that of seed + epoch and the same on every rank.
static void shuffled_cycles_follow_from_seed_and_epoch(void **state)
{
    (void)state;
    int64_t first[ROOM], second[ROOM], moved[ROOM];
    tl_sampler s = cyclic(100, 5, 2, 0), other = cyclic(100, 5, 2, 1);
    s.shuffle = other.shuffle = true;
    s.seed = other.seed = 7;
    assert_ok(tl_sampler_order(&s, 3, first));
    assert_ok(tl_sampler_order(&other, 3, second));
    for (int64_t i = 0; i < 50; i++) assert_int_equal(second[i], first[i] + 50);
    assert_ok(tl_sampler_order(&s, 4, second));
    assert_memory_not_equal(first, second, 50 * sizeof *first);
    s.seed = 8;
    assert_ok(tl_sampler_order(&s, 3, moved));
    assert_memory_equal(moved, second, 50 * sizeof *first);
    assert_each_once(first, 50, 50);
}

/* --- a single round --------------------------------------------------------------------------- */

static void a_single_round_on_four_ranks(void **state)
{
    (void)state;
    ASSERT_ORDER(single(10, 2, 4, 0), 0, 0, 0, 1, 2);
    ASSERT_ORDER(single(10, 2, 4, 1), 0, 0, 3, 4, 5);
    ASSERT_ORDER(single(10, 2, 4, 2), 0, 0, 6, 7, 0);
    ASSERT_ORDER(single(10, 2, 4, 3), 0, 0, 8, 9, 0);
    for (int64_t rank = 0; rank < 4; rank++) {
        tl_sampler s = single(10, 2, 4, rank);
        assert_int_equal(tl_sampler_fill(&s), rank >= 2);
        assert_int_equal(tl_sampler_share(&s) - tl_sampler_fill(&s), rank < 2 ? 3 : 2);
        assert_int_equal(tl_sampler_lack(&s), 2);
        assert_int_equal(tl_sampler_batches(&s), 2); // 10 / (2 * 4), rounded up
        s.drop_last = true;
        assert_int_equal(tl_sampler_batches(&s), 1); // and down
        assert_int_equal(tl_sampler_lack(&s), 0);
    }
}

// All records of a rank take part in the order, also those that are then left out: the first ones
// of it are read.
static void what_is_dropped_is_drawn_too(void **state)
{
    (void)state;
    for (int64_t rank = 0; rank < 2; rank++) {
        int64_t all[ROOM], some[ROOM], beyond = 0;
        tl_sampler s = single(59, 8, 2, rank); // 30 and 29, of which 24 are read
        s.shuffle = true;
        for (s.seed = 0; s.seed < 4; s.seed++) {
            s.drop_last = false;
            assert_ok(tl_sampler_order(&s, 0, all));
            s.drop_last = true;
            assert_ok(tl_sampler_check(&s));
            assert_int_equal(tl_sampler_share(&s), 24);
            assert_ok(tl_sampler_order(&s, 0, some));
            assert_memory_equal(some, all, 24 * sizeof *all);
            for (int64_t i = 0; i < 24; i++) beyond += some[i] >= 30 * rank + 24;
        }
        assert_true(beyond > 0);
    }
    // Less than a batch: nothing is read.
    tl_sampler s = single(5, 4, 2, 0);
    int64_t none[1];
    s.shuffle = s.drop_last = true;
    assert_int_equal(tl_sampler_share(&s), 0);
    assert_ok(tl_sampler_order(&s, 0, none));
}

/* --- any of them ------------------------------------------------------------------------------ */

// How often each record is read in a pass, by all ranks together, and by whom it is read first.
static void count_reads(tl_sampler s, int64_t epoch, int64_t *reads)
{
    memset(reads, 0, ROOM * sizeof *reads);
    for (s.rank = 0; s.rank < s.ranks; s.rank++) {
        int64_t order[ROOM], share = tl_sampler_share(&s);
        assert_true(share <= ROOM);
        assert_ok(tl_sampler_order(&s, epoch, order));
        for (int64_t i = 0; i < share - tl_sampler_fill(&s); i++) {
            assert_in_range(order[i], 0, s.records - 1);
            reads[order[i]]++;
        }
        for (int64_t i = share - tl_sampler_fill(&s); i < share; i++) assert_int_equal(order[i], 0);
    }
}

static void check_cyclic(tl_sampler s)
{
    int64_t reads[ROOM], whole = s.batch_size * s.ranks, used = s.records / whole * whole;
    if (!used) {
        assert_fails(tl_sampler_check(&s), TL_EINVAL, "too few");
        return;
    }
    assert_ok(tl_sampler_check(&s));
    assert_int_equal(tl_sampler_share(&s) % s.batch_size, 0); // no batch is of two epochs
    assert_int_equal(tl_sampler_batches(&s), s.records / whole);
    assert_int_equal(tl_sampler_lack(&s), 0);
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        count_reads(s, epoch, reads);
        for (int64_t i = 0; i < s.records; i++) assert_int_equal(reads[i], i < used);
    }
    for (int64_t batch = 0; batch < 3 * s.records / whole; batch++) {
        tl_sampler_place at;
        assert_ok(tl_sampler_seek(&at, &s, batch * whole));
        assert_int_equal(at.epoch, batch / (s.records / whole));
        assert_int_equal(at.offset, batch % (s.records / whole) * s.batch_size);
        assert_int_equal(tl_sampler_consumed(&s, at), batch * whole);
    }
}

static void check_single(tl_sampler s)
{
    int64_t reads[ROOM], whole = s.batch_size * s.ranks, seen = 0;
    assert_ok(tl_sampler_check(&s));
    int64_t batches = s.drop_last ? s.records / whole : (s.records + whole - 1) / whole;
    assert_int_equal(tl_sampler_batches(&s), batches);
    assert_int_equal(tl_sampler_lack(&s),
                     s.drop_last ? 0 : (s.ranks - s.records % s.ranks) % s.ranks);
    count_reads(s, 0, reads);
    for (int64_t i = 0; i < s.records; i++) {
        assert_in_range(reads[i], s.drop_last ? 0 : 1, 1);
        seen += reads[i];
    }
    assert_int_equal(seen, s.drop_last ? batches * whole : s.records);
}

static void shares_cover_the_data(void **state)
{
    (void)state;
    for (int64_t records = 0; records <= 40; records++)
        for (int64_t batch = 1; batch <= 5; batch++)
            for (int64_t ranks = 1; ranks <= 5; ranks++)
                for (int shuffle = 0; shuffle < 2; shuffle++) {
                    tl_sampler s = cyclic(records, batch, ranks, 0);
                    s.shuffle = shuffle;
                    s.seed = (uint64_t)records;
                    check_cyclic(s);
                    s.cls = &tl_single_round_sampler;
                    check_single(s);
                    s.drop_last = true;
                    check_single(s);
                }
}

static void samplers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    tl_sampler s = cyclic(10, 2, 2, 0);
    tl_sampler_place at;
    assert_fails(tl_sampler_seek(&at, &s, 3), TL_EINVAL, "no number of whole batches");
    assert_fails(tl_sampler_seek(&at, &s, 6), TL_EINVAL,
                 "2 ranks read 2 records each at a time, 4 together");
    assert_fails(tl_sampler_seek(&at, &s, -4), TL_EINVAL, "at least 0");
    s.cls = &tl_single_round_sampler;
    assert_ok(tl_sampler_seek(&at, &s, 4));
    assert_fails(tl_sampler_seek(&at, &s, 12), TL_EINVAL, "makes one pass");
    s.rank = 2;
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "rank is 2 of 2");
    s = cyclic(10, 0, 1, 0);
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "batch_size is 0");
    s = cyclic(10, INT64_MAX / 2, 4, 0);
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "64 bits");
    s = cyclic(10, 2, 1, 0);
    s.drop_last = true;
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "drop_last: CyclicSampler has no such setting");
    s = cyclic(-1, 2, 1, 0);
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "records is -1");
    s.cls = NULL;
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "class");
    s = cyclic(10, 20, 1, 0);
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "a batch of 20 on each of 1 rank");
    assert_null(strstr(tl_error_message(), "1 ranks"));
    s = cyclic(10, 2, 1, 0);
    assert_fails(tl_sampler_seek(&at, &s, 3), TL_EINVAL, "1 rank reads 2 records each at a time");
}

static int64_t share_of_self(const tl_sampler *s)
{
    return ((const int64_t *)s->self)[0];
}

static int64_t fill_of_self(const tl_sampler *s)
{
    return ((const int64_t *)s->self)[1];
}

static tl_status any_order(const tl_sampler *s, int64_t epoch, int64_t *out)
{
    (void)s, (void)epoch, (void)out;
    return TL_OK;
}

static void classes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    tl_sampler_class cls = {
        .name = "Odd", .share = share_of_self, .order = any_order, .fill = fill_of_self};
    int64_t numbers_of[2] = {3, 3};
    tl_sampler s = {.cls = &cls, .records = 10, .batch_size = 2, .self = numbers_of};
    assert_ok(tl_sampler_check(&s));
    numbers_of[1] = 4;
    assert_fails(tl_sampler_check(&s), TL_EINVAL,
                 "Odd: 'fill' gives 4; it must be from 0 to what 'share' gives, 3");
    numbers_of[1] = -1;
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "'fill' gives -1");
    numbers_of[0] = -3;
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "'share' gives -3");
    cls.name = NULL;
    assert_fails(tl_sampler_check(&s), TL_EINVAL, "'name'");
}

/* --- through pipelines ------------------------------------------------------------------------ */

static stream one;

static void pipelines_take_the_order_of_a_sampler(void **state)
{
    (void)state;
    const tl_sampler plain = {.cls = &tl_cyclic_sampler},
                     mixed = {.cls = &tl_cyclic_sampler, .shuffle = true};
    tl_dataset *d = PIPELINE(numbers(10), .sampler = &plain, .batch_size = 2);
    read_stream(&one, d, 7);
    for (int64_t i = 0; i < 14; i++) assert_int_equal(one.ids[i], i % 10);
    int64_t batches;
    assert_ok(tl_dataset_length(d, &batches));
    assert_int_equal(batches, -1); // it never ends
    tl_dataset_free(&d);
    for (int64_t rank = 0; rank < 2; rank++) {
        d = PIPELINE(PARTS(4, 3, 3), .sampler = &plain, .batch_size = 2, .pipelines = 2,
                     .pipeline = rank);
        static const int64_t wanted[2][4] = {{0, 1, 2, 3}, {100, 101, 102, 200}};
        read_stream(&one, d, 4);
        for (int64_t i = 0; i < 8; i++) assert_int_equal(one.ids[i], wanted[rank][i % 4]);
        tl_dataset_free(&d);
        tl_sampler s = cyclic(50, 3, 2, rank);
        s.shuffle = true;
        s.seed = 9;
        d = PIPELINE(numbers(50), .sampler = &mixed, .batch_size = 3, .pipelines = 2,
                     .pipeline = rank, .seed = 9);
        read_stream(&one, d, 24); // three epochs
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int64_t order[ROOM];
            assert_ok(tl_sampler_order(&s, epoch, order));
            assert_memory_equal(order, one.ids + epoch * 24, 24 * sizeof *order);
        }
        tl_dataset_free(&d);
    }
}

// Draws of a sample's own: a map that only positions can tell apart.
static tl_status augment(void *self, tl_sample *s)
{
    (void)self;
    tl_rng rng;
    tl_sample_rng(s, &rng);
    float *gain = tl_sample_add(s, "gain", TL_F32, TL_SCALAR);
    if (!gain) return TL_ENOMEM;
    *gain = tl_rng_uniform_f32(&rng);
    return TL_OK;
}

static tl_dataset *sampled(int64_t consumed, int threads)
{
    static const tl_sampler mixed = {.cls = &tl_cyclic_sampler, .shuffle = true};
    static const tl_sample_map maps[] = {{augment, NULL}};
    return PIPELINE(numbers(50), .sampler = &mixed, .batch_size = 3, .pipelines = 2, .pipeline = 1,
                    .seed = 9, .consumed_samples = consumed, .maps = maps, .map_count = 1,
                    .threads = threads);
}

// From a state, and from the number of samples: the very next batch, with the very same draws.
static void pipelines_go_on_from_any_batch(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 20; at++) {
        tl_str wanted = TL_STR_INIT, skipped = TL_STR_INIT, from_state = TL_STR_INIT,
               from_number = TL_STR_INIT;
        tl_str told = TL_STR_INIT;
        tl_dataset *a = sampled(0, 1), *b = sampled(0, 2), *n = sampled(at * 3 * 2, 2);
        read_many(&skipped, a, at);
        carry_over(a, b);
        assert_ok(tl_dataset_tell(a, &told));
        char end[48];
        snprintf(end, sizeof end, "consumed_samples %" PRId64, at * 3 * 2);
        assert_non_null(strstr(tl_str_text(&told), end));
        read_many(&wanted, a, 12);
        read_many(&from_state, b, 12);
        read_many(&from_number, n, 12);
        assert_same(&wanted, &from_state);
        assert_same(&wanted, &from_number);
        tl_dataset_free(&a);
        tl_dataset_free(&b);
        tl_dataset_free(&n);
        tl_str *all[] = {&wanted, &skipped, &from_state, &from_number, &told};
        for (int64_t i = 0; i < TL_COUNT(all); i++) tl_str_deinit(all[i]);
    }
}

// To begin anew before anything was read changes nothing, also where an earlier run has come far.
static void rewinding_keeps_where_it_began(void **state)
{
    (void)state;
    for (int rewinds = 0; rewinds < 3; rewinds++) {
        tl_str wanted = TL_STR_INIT, got = TL_STR_INIT;
        tl_dataset *a = sampled(18, 1), *b = sampled(18, 1);
        for (int i = 0; i < rewinds; i++) assert_ok(tl_dataset_rewind(b));
        read_many(&wanted, a, 12);
        read_many(&got, b, 12);
        assert_same(&wanted, &got);
        assert_ok(tl_dataset_rewind(b)); // from now on passes begin at their beginning
        assert_ok(tl_dataset_rewind(b));
        tl_str told = TL_STR_INIT;
        assert_ok(tl_dataset_tell(b, &told));
        assert_non_null(strstr(tl_str_text(&told), "record 0,"));
        tl_dataset_free(&a);
        tl_dataset_free(&b);
        tl_str *all[] = {&wanted, &got, &told};
        for (int64_t i = 0; i < TL_COUNT(all); i++) tl_str_deinit(all[i]);
    }
}

// A position of another sampler means something else.
static void positions_belong_to_their_sampler(void **state)
{
    (void)state;
    const tl_sampler mixed = {.cls = &tl_cyclic_sampler, .shuffle = true},
                     plain = {.cls = &tl_cyclic_sampler};
    tl_dataset *a = PIPELINE(numbers(50), .sampler = &mixed),
               *b = PIPELINE(numbers(50), .sampler = &plain);
    int64_t ids[4];
    take(a, ids);
    carry_over(a, b);
    tl_tensors batch = {0};
    bool more;
    assert_fails(tl_dataset_next(b, c, &batch, &more), TL_EINVAL, "sampler");
    tl_dataset_free(&a);
    tl_dataset_free(&b);
}

// The weights of the next batch, as many as it has examples; -1: the pass is over, -2: there are
// none.
static int64_t take_weights(tl_dataset *d, int64_t *ids, float *out)
{
    tl_batch b = {.ctx = c};
    bool more;
    tl_mark mark = tl_ctx_begin(c);
    assert_ok(tl_dataset_next(d, c, &b.tensors, &more));
    int64_t n = more ? tl_batch_size(&b) : -1;
    if (n > 0) assert_ok(tl_tensor_get(tl_batch_get(&b, "id"), ids, (size_t)n * sizeof *ids));
    if (n > 0 && tl_batch_weight(&b))
        assert_ok(tl_tensor_get(tl_batch_weight(&b), out, (size_t)n * sizeof *out));
    else if (n > 0) n = -2;
    tl_ctx_end(c, mark);
    return n;
}

/* What ranks that are one short read again does not count: the weights of all ranks are the
 * records. */
static void what_fills_up_weighs_nothing(void **state)
{
    (void)state;
    const tl_sampler s = {.cls = &tl_single_round_sampler};
    double all = 0;
    for (int64_t rank = 0; rank < 4; rank++) {
        tl_dataset *d =
            PIPELINE(numbers(10), .sampler = &s, .batch_size = 2, .pipelines = 4, .pipeline = rank);
        int64_t ids[2], batches;
        float weights[2];
        assert_ok(tl_dataset_length(d, &batches));
        assert_int_equal(batches, 2);
        for (int pass = 0; pass < 2; pass++) {
            assert_int_equal(take_weights(d, ids, weights), 2);
            assert_true(weights[0] == 1 && weights[1] == 1);
            assert_int_equal(take_weights(d, ids, weights), 1);
            assert_true(weights[0] == (rank < 2 ? 1 : 0));
            assert_int_equal(ids[0], rank == 0 ? 2 : rank == 1 ? 5 : 0);
            assert_int_equal(take_weights(d, ids, weights), -1);
            assert_ok(tl_dataset_rewind(d));
            all += 2 + weights[0];
        }
        tl_dataset_free(&d);
    }
    assert_near(all, 2 * 10, 0);
    // Where nothing is short nothing is weighed.
    tl_dataset *d = PIPELINE(numbers(8), .sampler = &s, .batch_size = 2, .pipelines = 4);
    int64_t ids[2];
    float weights[2];
    assert_int_equal(take_weights(d, ids, weights), -2);
    tl_dataset_free(&d);
}

// Files whose records must be walked are jumped about in all the same.
static void files_are_sampled(void **state)
{
    (void)state;
    const char *paths[] = {write_file("sampled-a", 0, 7, false),
                           write_file("sampled-b", 7, 6, true)};
    const tl_sampler s = {.cls = &tl_cyclic_sampler, .shuffle = true};
    tl_dataset *d =
        PIPELINE(open_files(paths, 2), .sampler = &s, .batch_size = 4,
                 .decode = {tl_example_decode, take_features(1)}, .seed = 2, .cache = true);
    tl_sampler same = cyclic(13, 4, 1, 0);
    same.shuffle = true;
    same.seed = 2;
    read_stream(&one, d, 6);
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        int64_t order[ROOM];
        assert_ok(tl_sampler_order(&same, epoch, order));
        assert_memory_equal(order, one.ids + epoch * 12, 12 * sizeof *order);
    }
    tl_dataset_free(&d);
}

// One of one's own: backwards.
static int64_t backwards_share(const tl_sampler *s)
{
    return s->records;
}

static tl_status backwards_order(const tl_sampler *s, int64_t epoch, int64_t *out)
{
    const int64_t *wrong = s->self;
    for (int64_t i = 0; i < s->records; i++) out[i] = s->records - 1 - i;
    if (wrong && *wrong == epoch) out[1] = s->records;
    return TL_OK;
}
static const tl_sampler_class backwards = {
    .name = "Backwards",
    .share = backwards_share,
    .order = backwards_order,
};

static void samplers_of_ones_own(void **state)
{
    (void)state;
    int64_t wrong = 1;
    const tl_sampler s = {.cls = &backwards, .self = &wrong};
    tl_dataset *d = PIPELINE(numbers(5), .sampler = &s, .batch_size = 2);
    read_stream(&one, d, MOST);
    for (int64_t i = 0; i < 5; i++) assert_int_equal(one.ids[i], 4 - i);
    assert_int_equal(one.batches, 3);
    assert_ok(tl_dataset_rewind(d));
    tl_tensors batch = {0};
    bool more;
    assert_fails(tl_dataset_next(d, c, &batch, &more), TL_EINVAL,
                 "sampler Backwards: record 1 of epoch 1 is number 5");
    tl_dataset_free(&d);
}

static void assert_refused(tl_pipeline_args args, const char *text)
{
    static const tl_sampler s = {.cls = &tl_cyclic_sampler};
    tl_source *sources[] = {numbers(10), numbers(10)};
    tl_dataset *d;
    args.sources = sources;
    args.source_count = 2;
    if (!args.batch_size) args.batch_size = 2;
    if (!args.sampler) args.sampler = &s;
    assert_fails(tl_pipeline_new(&d, &args), TL_EINVAL, text);
    assert_null(d);
    assert_null(sources[0]);
}

static void pipelines_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const double weights[] = {1, 2};
    static const tl_sampler none = {0};
    assert_refused((tl_pipeline_args){.weights = weights},
                   "weights cannot be given beside a sampler");
    assert_refused((tl_pipeline_args){.shuffle = 10}, "shuffle cannot be given");
    assert_refused((tl_pipeline_args){.shuffle_parts = true}, "shuffle_parts cannot");
    assert_refused((tl_pipeline_args){.cycle_length = 2}, "cycle_length");
    assert_refused((tl_pipeline_args){.repeat = true}, "repeat");
    assert_refused((tl_pipeline_args){.drop_remainder = true}, "drop_remainder");
    assert_refused((tl_pipeline_args){.batch_size = 11, .pipelines = 2},
                   "sampler: CyclicSampler: there are 20");
    assert_refused((tl_pipeline_args){.consumed_samples = 3}, "no number of whole batches");
    assert_refused((tl_pipeline_args){.sampler = &none}, "class");
    tl_source *source = numbers(10);
    tl_dataset *d;
    assert_fails(tl_pipeline_new(&d, &(tl_pipeline_args){.sources = &source,
                                                         .source_count = 1,
                                                         .batch_size = 2,
                                                         .consumed_samples = 4}),
                 TL_EINVAL, "there is no sampler");
}

static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    const char *paths[] = {write_file("scarce-a", 0, 7, false),
                           write_file("scarce-b", 7, 6, false)};
    const tl_sampler s = {.cls = &tl_single_round_sampler, .shuffle = true};
    int64_t failed = 0;
    for (bool through = false; !through;) {
        tl_dataset *d = NULL;
        tl_source *source = open_files(paths, 2);
        int64_t before = tl_alloc_calls();
        tl_alloc_fail_at(failed + 1, 1);
        tl_status st =
            tl_pipeline_new(&d, &(tl_pipeline_args){.sources = &source,
                                                    .source_count = 1,
                                                    .sampler = &s,
                                                    .batch_size = 2,
                                                    .pipelines = 2,
                                                    .pipeline = 1,
                                                    .decode = {tl_example_decode, take_features(1)},
                                                    .prefetch = -1,
                                                    .threads = 1});
        tl_alloc_fail_at(0, 0);
        through = tl_alloc_calls() - before <= failed;
        if (!through) assert_int_equal(st, TL_ENOMEM);
        else assert_ok(st);
        assert_int_equal(d != NULL, through);
        assert_null(source);
        tl_dataset_free(&d);
        failed++;
    }
    assert_true(failed > 10);
}

/* --- from a configuration --------------------------------------------------------------------- */

static void free_config(void *config)
{
    tl_config *it = config;
    tl_config_free(&it);
}

static const tl_data_config *configure(const char *text)
{
    tl_config *config;
    assert_ok(tl_config_new(&config, NULL, &tl_data_config_desc));
    assert_ok(tl_arena_defer(arena, free_config, config));
    assert_ok(tl_config_yaml(config, text, "data.yaml"));
    assert_ok(tl_config_finish(config));
    return tl_config_value(config);
}

static tl_dataset *from_config(const char *rest)
{
    tl_pipeline_args args = {.decode = {tl_example_decode, take_features(1)}};
    tl_dataset *d = NULL;
    const char *text =
        tl_arena_printf(arena, "{input_path: '%s/few', global_batch_size: 2, %s}", home, rest);
    assert_ok(tl_pipeline_args_read(&args, arena, configure(text),
                                    &(tl_pipeline_reader){.pipelines = 2, .pipeline = 1}));
    assert_ok(tl_pipeline_new(&d, &args));
    return d;
}

static void configurations_choose_a_sampler(void **state)
{
    (void)state;
    write_file("few", 0, 10, false);
    tl_dataset *d =
        from_config("is_training: true, sampler: {_target_: libai.data.samplers.CyclicSampler}");
    read_stream(&one, d, 3);
    for (int64_t i = 0; i < 6; i++) assert_int_equal(one.ids[i], 4 + i % 4);
    tl_dataset_free(&d);
    d = from_config("is_training: true, sampler: {_target_: CyclicSampler, consumed_samples: 4}");
    read_stream(&one, d, 2);
    static const int64_t later[] = {6, 7, 4, 5};
    assert_memory_equal(one.ids, later, sizeof later);
    tl_dataset_free(&d);
    d = from_config(
        "is_training: true, seed: 5, sampler: {_target_: CyclicSampler, shuffle: true}");
    tl_sampler s = cyclic(10, 2, 2, 1);
    s.shuffle = true;
    s.seed = 5;
    int64_t order[ROOM];
    assert_ok(tl_sampler_order(&s, 0, order));
    read_stream(&one, d, 2);
    assert_memory_equal(one.ids, order, 4 * sizeof *order);
    tl_dataset_free(&d);
    d = from_config("sampler: {_target_: SingleRoundSampler}");
    read_stream(&one, d, MOST);
    assert_int_equal(one.batches, 3);
    for (int64_t i = 0; i < 5; i++) assert_int_equal(one.ids[i], 5 + i);
    tl_dataset_free(&d);
    d = from_config("sampler: {_target_: SingleRoundSampler, drop_last: true}");
    read_stream(&one, d, MOST);
    assert_int_equal(one.batches, 2);
    tl_dataset_free(&d);
}

static void assert_config_fails(const char *text, const char *message)
{
    tl_config *config;
    assert_ok(tl_config_new(&config, NULL, &tl_data_config_desc));
    tl_status st = tl_config_yaml(config, text, "data.yaml");
    if (st == TL_OK) st = tl_config_finish(config);
    if (st != TL_EINVAL || !strstr(tl_error_message(), message))
        fail_msg("%s gave: %s", text, tl_error_message());
    tl_config_free(&config);
}

static void configurations_that_cannot_be_are_refused(void **state)
{
    (void)state;
    assert_config_fails("sampler: {shuffle: true}", "sampler._target_: expected CyclicSampler");
    assert_config_fails("sampler: {_target_: CyclicSample}", "did you mean 'CyclicSampler'?");
    assert_config_fails("sampler: {_target_: CyclicSampler, drop_last: true}",
                        "sampler.drop_last: CyclicSampler has");
    assert_config_fails("sampler: {_target_: CyclicSampler, consumed_samples: -2}",
                        "consumed_samples");
    tl_pipeline_args args = {0};
    assert_fails(
        tl_pipeline_args_read(
            &args, arena,
            configure("{input_path: x, global_batch_size: 2, sampler: {_target_: CyclicSampler}}"),
            NULL),
        TL_EINVAL, "use SingleRoundSampler");
    assert_fails(
        tl_pipeline_args_read(&args, arena,
                              configure("{input_path: x, global_batch_size: 2, is_training: true, "
                                        "sampler: {_target_: SingleRoundSampler}}"),
                              NULL),
        TL_EINVAL,
        "sampler: SingleRoundSampler makes one pass, and training would end with it; use Cyclic");
    assert_fails(
        tl_pipeline_args_read(&args, arena,
                              configure("{input_path: x, global_batch_size: 2, sampler: {_target_: "
                                        "SingleRoundSampler, consumed_samples: 2}}"),
                              NULL),
        TL_EINVAL, "sampler.consumed_samples: it is 2, but evaluations begin at the first example");
}

// Model Garden's files stay Model Garden's.
static void no_sampler_is_not_written(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        tl_str text = TL_STR_INIT;
        const tl_data_config *config = configure(
            with ? "{sampler: {_target_: SingleRoundSampler, shuffle: true}}" : "{seed: 1}");
        assert_ok(tl_yaml_write(&text, &tl_data_config_desc, config));
        assert_int_equal(strstr(tl_str_text(&text), "sampler") != NULL, with);
        assert_int_equal(strstr(tl_str_text(&text), "_target_: SingleRoundSampler") != NULL, with);
        tl_str_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cycle_on_one_rank),
        cmocka_unit_test(a_cycle_on_two_ranks),
        cmocka_unit_test(consumed_samples_are_those_of_all_ranks),
        cmocka_unit_test(shuffled_cycles_follow_from_seed_and_epoch),
        cmocka_unit_test(a_single_round_on_four_ranks),
        cmocka_unit_test(what_is_dropped_is_drawn_too),
        cmocka_unit_test(shares_cover_the_data),
        cmocka_unit_test(samplers_that_cannot_be_are_refused),
        cmocka_unit_test(classes_that_make_no_sense_are_refused),
        LAB_TEST(pipelines_take_the_order_of_a_sampler),
        LAB_TEST(pipelines_go_on_from_any_batch),
        LAB_TEST(rewinding_keeps_where_it_began),
        LAB_TEST(positions_belong_to_their_sampler),
        LAB_TEST(what_fills_up_weighs_nothing),
        LAB_TEST(files_are_sampled),
        LAB_TEST(samplers_of_ones_own),
        LAB_TEST(pipelines_that_cannot_be_are_refused),
        LAB_TEST(without_memory_nothing_is_lost),
        LAB_TEST(configurations_choose_a_sampler),
        LAB_TEST(configurations_that_cannot_be_are_refused),
        LAB_TEST(no_sampler_is_not_written),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
