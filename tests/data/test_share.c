/* Batches that several processes share out: each takes what one reader would have had in its place,
 * and all stand at one position. needs: threads */
#include "data/pipeline_lab.h"

/* --- datasets --------------------------------------------------------------------------------- */

static int64_t records, ahead;
static int threads;

static tl_status draw(void *self, tl_sample *s)
{
    (void)self;
    tl_rng rng;
    float *x = tl_sample_add(s, "x", TL_F32, TL_SCALAR);
    if (!x) return TL_ENOMEM;
    tl_sample_rng(s, &rng);
    *x = tl_rng_uniform_f32(&rng);
    return TL_OK;
}

static tl_status some(void *self, const tl_sample *s, bool *keep)
{
    (void)self;
    *keep = *(const float *)tl_sample_peek(s, "x")->data > 0.3f;
    return TL_OK;
}

/* A number of the batch's own, as mixup draws it. */
static tl_status mark_batch(void *self, tl_ctx *ctx, const tl_rng *draws, tl_tensors *batch)
{
    (void)self;
    tl_rng rng = *draws;
    const float value = tl_rng_uniform_f32(&rng);
    tl_tensor *t = tl_ctx_tensor(ctx, TL_AT_HOST, TL_F32, TL_SHAPE(1));
    if (!t) return tl_ctx_status(ctx);
    TL_TRY(tl_tensor_set(t, &value, sizeof value));
    tl_tensors_put(ctx, batch, "mark", t);
    return tl_ctx_status(ctx);
}

static const tl_sample_map maps[] = {{draw, NULL}};

static tl_pipeline_args usual(void)
{
    return (tl_pipeline_args){.maps = maps,
                              .map_count = 1,
                              .batch_size = 3,
                              .seed = 5,
                              .postprocess = mark_batch,
                              .threads = threads,
                              .prefetch = ahead};
}

typedef tl_dataset *maker(void);

static tl_dataset *plain(void)
{
    return make(numbers(records), usual());
}

static tl_dataset *without_rest(void)
{
    tl_pipeline_args args = usual();
    args.drop_remainder = true;
    return make(numbers(records), args);
}

static tl_dataset *endless(void)
{
    tl_pipeline_args args = usual();
    args.repeat = true;
    args.shuffle = 11;
    return make(PARTS(9, 0, 14, 5), args);
}

/* What is in a batch depends on its samples: all are made, and those of others dropped. */
static tl_dataset *filtered(void)
{
    tl_pipeline_args args = usual();
    args.filter = some;
    return make(numbers(records), args);
}

static tl_dataset *arrays(void)
{
    static int64_t ids[64];
    for (int64_t i = 0; i < 64; i++) ids[i] = i;
    tl_array array = {"id", TL_I64, TL_SHAPE(records < 64 ? records : 64), ids};
    tl_dataset *d;
    assert_ok(tl_dataset_from_arrays(&d, &(tl_arrays_args){.arrays = &array,
                                                           .count = 1,
                                                           .batch_size = 3,
                                                           .shuffle = true,
                                                           .seed = 2,
                                                           .copy = true}));
    return d;
}

static maker *const makers[] = {plain, without_rest, endless, filtered, arrays};

/* --- sharing ---------------------------------------------------------------------------------- */

enum { ROW = 6 };
static const tl_batch_share shares[] = {{ROW, 0, 2}, {ROW, 2, 1}, {ROW, 3, 3}};

static tl_dataset *share_of(maker *m, tl_batch_share share)
{
    tl_dataset *all = m(), *d;
    assert_ok(tl_dataset_share(&d, &all, share));
    assert_null(all);
    return d;
}

/* A row of the one reader, and the same of those who share it. How many batches there were. */
static int64_t compare_row(tl_dataset *whole, tl_dataset *const *parts)
{
    int64_t there = 0;
    for (int64_t i = 0; i < TL_COUNT(shares); i++)
        for (int64_t k = 0; k < shares[i].count; k++) {
            tl_str a = TL_STR_INIT, b = TL_STR_INIT;
            bool more = read_bytes(&a, whole), also = read_bytes(&b, parts[i]);
            // where a row has begun, batches that lack are empty
            there += more;
            assert_int_equal(also, there > 0);
            assert_same(&a, &b);
            tl_str_deinit(&a);
            tl_str_deinit(&b);
        }
    return there;
}

static void check_share(maker *m)
{
    tl_dataset *whole = m(), *parts[TL_COUNT(shares)];
    for (int64_t i = 0; i < TL_COUNT(shares); i++) parts[i] = share_of(m, shares[i]);
    int64_t rows = 0;
    while (rows < 9 && compare_row(whole, parts)) {
        // the position is one: whoever stands elsewhere goes on from it
        if (++rows == 2) {
            for (int64_t i = 0; i < TL_COUNT(shares); i++) {
                tl_dataset *other = share_of(m, shares[i]);
                carry_over(parts[(i + 1) % TL_COUNT(shares)], other);
                tl_dataset_free(&parts[i]);
                parts[i] = other;
            }
            tl_dataset *other = m();
            carry_over(parts[0], other);
            tl_dataset_free(&whole);
            whole = other;
        }
    }
    // a fresh pass
    assert_ok(tl_dataset_rewind(whole));
    for (int64_t i = 0; i < TL_COUNT(shares); i++) assert_ok(tl_dataset_rewind(parts[i]));
    (void)compare_row(whole, parts);
    for (int64_t i = 0; i < TL_COUNT(shares); i++) tl_dataset_free(&parts[i]);
    tl_dataset_free(&whole);
}

static void shares_are_those_of_one_reader(void **state)
{
    (void)state;
    for (int64_t m = 0; m < TL_COUNT(makers); m++)
        for (ahead = -1; ahead < 3; ahead += 3)
            for (records = 17; records < 40; records += 2) {
                threads = 1 + (int)(records % 3);
                check_share(makers[m]);
            }
}

/* Only one's own samples are prepared. */
static int64_t prepared;
static tl_status count_samples(void *self, tl_sample *s)
{
    (void)self;
    (void)s;
    prepared++;
    return TL_OK;
}

static void others_are_not_prepared(void **state)
{
    static const tl_sample_map counting[] = {{count_samples, NULL}};
    (void)state;
    tl_dataset *all = make(numbers(60), (tl_pipeline_args){.maps = counting,
                                                           .map_count = 1,
                                                           .batch_size = 3,
                                                           .threads = 1,
                                                           .prefetch = -1}),
               *d;
    tl_str unused = TL_STR_INIT;
    assert_ok(tl_dataset_share(&d, &all, (tl_batch_share){5, 1, 2}));
    prepared = 0;
    assert_int_equal(read_many(&unused, d, MOST), 8);
    assert_int_equal(prepared, 24);
    tl_str_deinit(&unused);
    tl_dataset_free(&d);
}

/* A map that fails is asked again, in the middle of a row. */
static int64_t fails_at;
static tl_status fail_once(void *self, tl_sample *s)
{
    int64_t id;
    (void)self;
    TL_TRY(tl_sample_int(s, "id", &id));
    if (id != fails_at) return TL_OK;
    fails_at = -1;
    return TL_FAIL(TL_EDATA, "this time");
}

static void a_failure_keeps_the_place(void **state)
{
    static const tl_sample_map failing[] = {{fail_once, NULL}};
    (void)state;
    tl_dataset *all = make(numbers(60), (tl_pipeline_args){.maps = failing,
                                                           .map_count = 1,
                                                           .batch_size = 3,
                                                           .threads = 1,
                                                           .prefetch = -1}),
               *d;
    int64_t ids[3];
    tl_tensors batch = {0};
    bool more;
    assert_ok(tl_dataset_share(&d, &all, (tl_batch_share){5, 1, 2}));
    fails_at = 22; // of the second own batch of the second row, which are 18 19 20 and 21 22 23
    for (int64_t wanted = 3; wanted <= 18; wanted += wanted == 6 ? 12 : 3) {
        assert_int_equal(take(d, ids), 3);
        assert_int_equal(ids[0], wanted);
    }
    tl_mark mark = tl_ctx_begin(c);
    assert_fails(tl_dataset_next(d, c, &batch, &more), TL_EDATA, "this time");
    tl_ctx_end(c, mark);
    assert_int_equal(take(d, ids), 3);
    assert_int_equal(ids[0], 21);
    assert_int_equal(take(d, ids), 3);
    assert_int_equal(ids[0], 33);
    tl_dataset_free(&d);
}

static void shares_are_checked(void **state)
{
    static const tl_batch_share wrong[] = {{0, 0, 0}, {2, 0, 0}, {2, -1, 1}, {2, 1, 2}, {2, 2, 1}};
    (void)state;
    records = 20;
    for (int64_t i = 0; i < TL_COUNT(wrong); i++) {
        tl_dataset *all = plain(), *d;
        assert_fails(tl_dataset_share(&d, &all, wrong[i]), TL_EINVAL, "cannot be taken");
        assert_null(d);
        assert_null(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(shares_are_those_of_one_reader),
        LAB_TEST(others_are_not_prepared),
        LAB_TEST(a_failure_keeps_the_place),
        LAB_TEST(shares_are_checked),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
