/* Pipelines that are restored go on with the very next batch, whatever they do. needs: threads */
#include "data/pipeline_lab.h"

#include <tilth/io/checkpoint/checkpoint.h>

static const char *paths[5], *more_paths[2];

static int open_files_lab(void **state)
{
    open_lab(state);
    assert_ok(tl_arena_new(&arena));
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "a-%05d-of-00005", i);
        paths[i] = strdup(write_file(name, 100 * i, 20 + 7 * i, i == 2));
    }
    more_paths[0] = strdup(write_file("b-0", 1000, 13, false));
    more_paths[1] = strdup(write_file("b-1", 1100, 31, true));
    tl_arena_free(&arena);
    return 0;
}

static int close_files_lab(void **state)
{
    for (int i = 0; i < 5; i++) free((void *)(uintptr_t)paths[i]);
    for (int i = 0; i < 2; i++) free((void *)(uintptr_t)more_paths[i]);
    return close_lab(state);
}

/* --- what it does to a sample ----------------------------------------------------------------- */

static tl_status augment(void *self, tl_sample *s)
{
    (void)self;
    tl_rng rng;
    float *x = tl_sample_write(s, "x");
    if (!x) return TL_ENOMEM;
    tl_sample_rng(s, &rng);
    for (int64_t i = 0; i < tl_shape_count(&tl_sample_peek(s, "x")->shape); i++)
        x[i] += tl_rng_uniform_f32(&rng);
    return TL_OK;
}

static tl_status crop(void *self, tl_sample *s)
{
    const tl_sample_field *x = tl_sample_peek(s, "x");
    tl_rng rng;
    (void)self;
    tl_sample_rng(s, &rng);
    int64_t length = 1 + tl_rng_below(&rng, x->shape.dims[0]);
    return tl_sample_show(s, "x", TL_F32, TL_SHAPE(length), x->data);
}

// Random too: what is left out depends on what was drawn.
static tl_status most_of_them(void *self, const tl_sample *s, bool *keep)
{
    (void)self;
    const float *x = tl_sample_peek(s, "x")->data;
    *keep = x[0] - (float)(int64_t)x[0] > 0.3f;
    return TL_OK;
}

/* --- what it is made of ----------------------------------------------------------------------- */

static const tl_sample_map maps[] = {{augment, NULL}, {crop, NULL}};
static int64_t ahead;
static int threads;
static uint64_t seed = 17;

typedef tl_dataset *maker(void);

static tl_pipeline_args usual(void)
{
    return (tl_pipeline_args){.decode = {tl_example_decode, take_features(2)},
                              .maps = maps,
                              .map_count = 2,
                              .padded = true,
                              .batch_size = 4,
                              .seed = seed,
                              .threads = threads,
                              .prefetch = ahead,
                              .cycle_length = 3,
                              .block_length = 2};
}

static tl_dataset *of_files(tl_pipeline_args args)
{
    tl_dataset *d = NULL;
    tl_source *s = open_files(paths, 5);
    args.sources = &s;
    args.source_count = 1;
    assert_ok(tl_pipeline_new(&d, &args));
    return d;
}

static tl_dataset *plain(void)
{
    return of_files(usual());
}

static tl_dataset *shuffled(void)
{
    tl_pipeline_args args = usual();
    args.shuffle = 30;
    args.shuffle_parts = args.repeat = true;
    return of_files(args);
}

static tl_dataset *filtered(void)
{
    tl_pipeline_args args = usual();
    args.shuffle = 30;
    args.shuffle_parts = args.repeat = args.cache = true;
    args.filter = most_of_them;
    return of_files(args);
}

// A decode and a map that leave samples out themselves.
static tl_status decode_most(void *self, tl_sample *s)
{
    int64_t id;
    TL_TRY(tl_example_decode(self, s));
    TL_TRY(tl_sample_int(s, "id", &id));
    if (id % 5 == 2) tl_sample_leave_out(s);
    return TL_OK;
}

static tl_status map_most(void *self, tl_sample *s)
{
    bool keep = true;
    TL_TRY(augment(self, s));
    TL_TRY(most_of_them(self, s, &keep));
    if (!keep) tl_sample_leave_out(s);
    return TL_OK;
}

static tl_dataset *leaving_out(void)
{
    static const tl_sample_map most[] = {{map_most, NULL}, {crop, NULL}};
    tl_pipeline_args args = usual();
    args.decode.fn = decode_most;
    args.maps = most;
    args.shuffle = 30;
    args.shuffle_parts = args.repeat = args.cache = args.leaves_out = true;
    return of_files(args);
}

static tl_dataset *second_reader(void)
{
    tl_pipeline_args args = usual();
    args.shuffle = 9;
    args.repeat = true;
    args.pipelines = 7;
    args.pipeline = 3;
    return of_files(args);
}

static tl_dataset *bucketed(void)
{
    static const int64_t ends[] = {3, 6}, sizes[] = {3, 5, 2};
    tl_pipeline_args args = usual();
    args.shuffle = 30;
    args.shuffle_parts = true;
    args.filter = most_of_them;
    args.bucket_by = "x";
    args.bucket_ends = ends;
    args.bucket_sizes = sizes;
    args.bucket_count = 2;
    return of_files(args);
}

// Everything at once.
static tl_dataset *mixed_with(bool repeat, bool until_all)
{
    static const double weights[] = {2, 1};
    tl_pipeline_args args = usual();
    tl_source *both[] = {open_files(paths, 5), open_files(more_paths, 2)};
    tl_dataset *d = NULL;
    args.sources = both;
    args.source_count = 2;
    args.weights = weights;
    args.shuffle = 12;
    args.shuffle_parts = args.cache = true;
    args.repeat = repeat;
    args.until_all = until_all;
    args.filter = most_of_them;
    assert_ok(tl_pipeline_new(&d, &args));
    return d;
}
static tl_dataset *mixed(void)
{
    return mixed_with(true, false);
}
static tl_dataset *mixed_to_the_end(void)
{
    return mixed_with(false, true);
}

static tl_dataset *whole(void)
{
    tl_pipeline_args args = usual();
    tl_dataset *d = NULL;
    tl_source *s = PARTS(13, 0, 30);
    args.sources = &s;
    args.source_count = 1;
    args.decode.fn = NULL;
    args.map_count = 0;
    args.shuffle = TL_SHUFFLE_ALL;
    args.repeat = true;
    assert_ok(tl_pipeline_new(&d, &args));
    return d;
}

static maker *const makers[] = {plain,    shuffled, filtered,         leaving_out, second_reader,
                                bucketed, mixed,    mixed_to_the_end, whole};

/* --- resuming --------------------------------------------------------------------------------- */

static uint64_t random_below(uint64_t n)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x % n;
}

// Reads on from a position that was saved after `at` batches, in a pipeline that stands elsewhere.
static void compare_after(tl_dataset *from, tl_dataset *to)
{
    tl_str straight = TL_STR_INIT, resumed = TL_STR_INIT;
    carry_over(from, to);
    int64_t n = read_many(&straight, from, 12), m = read_many(&resumed, to, 12);
    assert_int_equal(n, m);
    assert_same(&straight, &resumed);
    tl_str_deinit(&straight);
    tl_str_deinit(&resumed);
}

static void resuming_gives_the_very_next_batch(void **state)
{
    (void)state;
    const int64_t tries = test_takes_unseen() ? 100 : 12;
    for (int64_t m = 0; m < TL_COUNT(makers); m++) {
        tl_dataset *second = makers[m]();
        for (int64_t try = 0; try < tries; try++) {
            tl_str unused = TL_STR_INIT;
            ahead = (int64_t)random_below(4) - 1;
            threads = 1 + (int)random_below(3);
            tl_dataset *first = makers[m]();
            (void)read_many(&unused, first, (int64_t)random_below(120));
            compare_after(first, second);
            if (try % 10 == 0) { // in a later pass, too
                assert_ok(tl_dataset_rewind(first));
                (void)read_many(&unused, first, (int64_t)random_below(20));
                compare_after(first, second);
            }
            tl_dataset_free(&first);
            tl_str_deinit(&unused);
        }
        tl_dataset_free(&second);
    }
}

// Batches of what is left in buckets take nothing from the streams: only what waits tells them
// apart.
static void a_position_among_the_last_batches_is_noticed(void **state)
{
    (void)state;
    for (ahead = -1; ahead < 2; ahead++) {
        tl_dataset *counted = bucketed();
        tl_str all = TL_STR_INIT;
        int64_t batches = read_many(&all, counted, MOST);
        tl_dataset_free(&counted);
        for (int64_t back = 1; back < 4; back++) {
            tl_dataset *d = bucketed();
            tl_str straight = TL_STR_INIT, again = TL_STR_INIT, unused = TL_STR_INIT;
            tl_state *position, *saved;
            assert_int_equal(read_many(&unused, d, batches - back), batches - back);
            assert_ok(tl_state_new(&position));
            assert_ok(tl_dataset_state(d, position));
            assert_ok(tl_state_clone(&saved, position));
            assert_int_equal(read_many(&straight, d, MOST), back);
            assert_ok(tl_state_copy(position, saved, NULL, NULL));
            assert_int_equal(read_many(&again, d, MOST), back);
            assert_same(&straight, &again);
            tl_state_free(&position);
            tl_state_free(&saved);
            tl_str_deinit(&straight);
            tl_str_deinit(&again);
            tl_str_deinit(&unused);
            tl_dataset_free(&d);
        }
        tl_str_deinit(&all);
    }
}

static bool is_something_at(const tl_state *position, const char *name)
{
    tl_state_entry e;
    uint64_t any = 0;
    assert_true(tl_state_find(&e, position, name));
    for (int64_t i = 0; i < e.count; i++) any |= e.words[i];
    return any != 0;
}

// A word of a saved position becomes another one; what is restored from it must be refused, and do
// no harm, also when no batch was taken in between: then all heads are where they were.
static void refuse_word(tl_dataset *d, const char *name, int64_t word, uint64_t value,
                        int64_t between)
{
    tl_state *position, *saved;
    tl_state_entry e;
    uint64_t words[512];
    tl_tensors out = {0};
    tl_str unused = TL_STR_INIT;
    bool more;
    assert_ok(tl_state_new(&position));
    assert_ok(tl_dataset_state(d, position));
    do assert_int_equal(read_many(&unused, d, 3), 3);
    while (!is_something_at(position, "waiting_counts")
           || !is_something_at(position, "stream_0/open"));
    assert_ok(tl_state_clone(&saved, position));
    assert_int_equal(read_many(&unused, d, between), between);
    assert_true(tl_state_find(&e, saved, name));
    assert_true(word < e.count && e.count <= TL_COUNT(words));
    memcpy(words, e.words, (size_t)e.count * sizeof *words);
    words[word] = value;
    e.words = words;
    assert_ok(tl_state_set(saved, name, &e));
    assert_ok(tl_state_copy(position, saved, NULL, NULL));
    tl_mark mark = tl_ctx_begin(c);
    assert_fails(tl_dataset_next(d, c, &out, &more), TL_EINVAL, "makes no sense here");
    tl_ctx_end(c, mark);
    tl_state_free(&position);
    tl_state_free(&saved);
    tl_str_deinit(&unused);
}

static tl_dataset *bucketed_in_cache(bool drawn)
{
    static const int64_t ends[] = {3, 6}, sizes[] = {3, 5, 2};
    tl_pipeline_args args = usual();
    args.bucket_by = "x";
    args.bucket_ends = ends;
    args.bucket_sizes = sizes;
    args.bucket_count = 2;
    args.cache = true;
    args.shuffle = drawn ? 30 : 0;
    return of_files(args);
}

static void numbers_that_no_record_has_are_refused(void **state)
{
    (void)state;
    const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 59, (UINT64_C(1) << 60) - 31,
                             UINT64_MAX / 2};
    ahead = -1;
    threads = 1;
    for (int64_t i = 0; i < TL_COUNT(huge); i++)
        for (int what = 0; what < 2; what++) {
            // The number of the first that waits, and of the next one of the first open part.
            tl_dataset *d = bucketed_in_cache(i % 2);
            refuse_word(d, what ? "stream_0/open" : "waiting", what ? 1 : 2, huge[i],
                        i < 2 ? 2 : 0);
            tl_dataset_free(&d);
        }
}

// Through a file, as training does it.
static void positions_live_in_checkpoints(void **state)
{
    (void)state;
    tl_dataset *first = mixed(), *second = mixed();
    tl_state *a, *b;
    tl_str straight = TL_STR_INIT, resumed = TL_STR_INIT, unused = TL_STR_INIT;
    (void)read_many(&unused, first, 33);
    assert_ok(tl_state_new(&a));
    assert_ok(tl_state_new(&b));
    assert_ok(tl_dataset_state(first, a));
    assert_ok(tl_dataset_state(second, b));
    assert_ok(tl_checkpoint_save(in_home("ckpt"), a, NULL));
    (void)read_many(&straight, first, 50);
    (void)read_many(&unused, second, 5);
    assert_ok(tl_checkpoint_restore(b, in_home("ckpt"), NULL, NULL));
    (void)read_many(&resumed, second, 50);
    assert_same(&straight, &resumed);
    // And back again, with the one that had run on.
    assert_ok(tl_checkpoint_restore(a, in_home("ckpt"), NULL, NULL));
    tl_str_cut(&resumed, 0);
    (void)read_many(&resumed, first, 50);
    assert_same(&straight, &resumed);
    tl_state_free(&a);
    tl_state_free(&b);
    tl_str_deinit(&straight);
    tl_str_deinit(&resumed);
    tl_str_deinit(&unused);
    tl_dataset_free(&first);
    tl_dataset_free(&second);
}

static void a_restored_order_needs_no_equal_seed(void **state)
{
    (void)state;
    for (int64_t m = 0; m < TL_COUNT(makers); m++) {
        tl_str unused = TL_STR_INIT;
        tl_dataset *first = makers[m]();
        seed = 18;
        tl_dataset *second = makers[m]();
        seed = 17;
        (void)read_many(&unused, first, 7);
        (void)read_many(&unused, second, 3);
        compare_after(first, second);
        tl_str_deinit(&unused);
        tl_dataset_free(&first);
        tl_dataset_free(&second);
    }
}

static void positions_of_other_data_are_refused(void **state)
{
    (void)state;
    tl_dataset *a = shuffled(), *b = NULL;
    tl_state *position, *saved, *other;
    tl_tensors out = {0};
    bool more;
    tl_pipeline_args args = usual();
    args.shuffle = 30;
    args.shuffle_parts = args.repeat = true;
    tl_source *s = open_files(paths, 4);
    args.sources = &s;
    args.source_count = 1;
    assert_ok(tl_pipeline_new(&b, &args));
    assert_ok(tl_state_new(&position));
    assert_ok(tl_state_new(&other));
    assert_ok(tl_dataset_state(a, position));
    assert_ok(tl_dataset_state(b, other));
    assert_ok(tl_state_clone(&saved, position));
    assert_ok(tl_state_copy(other, saved, NULL, NULL));
    assert_fails(tl_dataset_next(b, c, &out, &more), TL_EINVAL, "other data");
    // Numbers that fit nowhere.
    tl_state_entry head;
    assert_true(tl_state_find(&head, position, "stream_0/head"));
    for (int64_t i = 0; i < head.count; i++) {
        uint64_t words[16], good[16];
        assert_true(tl_state_find(&head, position, "stream_0/head"));
        memcpy(good, head.words, (size_t)head.count * sizeof *good);
        memcpy(words, good, sizeof good);
        words[i] = UINT64_MAX;
        head.words = words;
        assert_ok(tl_state_set(position, "stream_0/head", &head));
        assert_fails(tl_dataset_next(a, c, &out, &more), TL_EINVAL, "makes no sense here");
        head.words = good;
        assert_ok(tl_state_set(position, "stream_0/head", &head));
    }
    assert_ok(tl_dataset_next(a, c, &out, &more));
    tl_state_free(&position);
    tl_state_free(&saved);
    tl_state_free(&other);
    tl_dataset_free(&a);
    tl_dataset_free(&b);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status use_pipeline(tl_str *out)
{
    static const double weights[] = {2, 1};
    static const int64_t ends[] = {3}, sizes[] = {3, 4};
    tl_pipeline_args args = usual();
    tl_source *both[] = {NULL, NULL};
    tl_dataset *d = NULL;
    tl_state *position = NULL;
    tl_status st;
    args.sources = both;
    args.source_count = 2;
    args.weights = weights;
    args.shuffle = 12;
    args.shuffle_parts = args.cache = true;
    args.bucket_by = "x";
    args.bucket_ends = ends;
    args.bucket_sizes = sizes;
    args.bucket_count = 1;
    args.prefetch = -1;
    args.threads = 1;
    tl_mark mark = tl_ctx_begin(c);
    TL_TRY_DONE(st, tl_source_tfrecords(&both[0], paths, 5, NULL));
    TL_TRY_DONE(st, tl_source_tfrecords(&both[1], more_paths, 2, NULL));
    TL_TRY_DONE(st, tl_pipeline_new(&d, &args));
    TL_TRY_DONE(st, tl_state_new(&position));
    TL_TRY_DONE(st, tl_dataset_state(d, position));
    for (int i = 0; i < 4; i++) {
        tl_tensors batch = {0};
        bool more;
        TL_TRY_DONE(st, tl_dataset_next(d, c, &batch, &more));
        tl_str_addf(out, "%d", (int)batch.items[0].tensor->shape.dims[0]);
    }
    TL_TRY_DONE(st, tl_dataset_rewind(d));
done:
    tl_state_free(&position);
    tl_dataset_free(&d);
    for (int i = 0; i < 2; i++) tl_source_free(&both[i]);
    tl_ctx_end(c, mark);
    return st;
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    tl_str out = TL_STR_INIT;
    tl_str_pad(&out, ' ', 64);
    assert_ok(use_pipeline(&out));
    for (int64_t nth = 1;; nth++) {
        assert_true(nth < 100000);
        tl_engine_trim(engine);
        tl_str_cut(&out, 0);
        tl_alloc_fail_at(nth, 2); // the second one too, since memory of tensors is asked for again
        int64_t before = tl_alloc_calls();
        tl_status st = use_pipeline(&out);
        bool reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        // Room for the next sample, where it is missing, is made by another one: that is no
        // failure.
        if (st != TL_OK && !(reached && st == TL_ENOMEM))
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        if (!reached) break;
    }
    tl_str_deinit(&out);
}

// A batch that could not be made comes again. One that was made and could not be brought to a
// device does not: the training ends then, and goes on from its checkpoint.
static void a_failed_batch_is_not_lost(void **state)
{
    (void)state;
    if (fake_wanted()) skip();
    ahead = -1;
    threads = 1;
    tl_dataset *d = mixed(), *same = mixed();
    tl_str one = TL_STR_INIT, other = TL_STR_INIT;
    for (int64_t nth = 1; nth < 40; nth++) {
        tl_tensors out = {0};
        bool more;
        tl_mark mark = tl_ctx_begin(c);
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 1000000);
        tl_status st = tl_dataset_next(d, c, &out, &more);
        tl_alloc_fail_at(0, 0);
        tl_ctx_end(c, mark);
        if (st == TL_OK) (void)read_many(&other, same, 1);
        else assert_int_equal(st, TL_ENOMEM);
        tl_str_cut(&one, 0);
        tl_str_cut(&other, 0);
        assert_int_equal(read_many(&one, d, 2), read_many(&other, same, 2));
        assert_same(&one, &other);
    }
    tl_str_deinit(&one);
    tl_str_deinit(&other);
    tl_dataset_free(&d);
    tl_dataset_free(&same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(resuming_gives_the_very_next_batch),
        LAB_TEST(a_position_among_the_last_batches_is_noticed),
        LAB_TEST(numbers_that_no_record_has_are_refused),
        LAB_TEST(positions_live_in_checkpoints),
        LAB_TEST(a_restored_order_needs_no_equal_seed),
        LAB_TEST(positions_of_other_data_are_refused),
        LAB_TEST(memory_may_run_out_anywhere),
        LAB_TEST(a_failed_batch_is_not_lost),
    };
    return cmocka_run_group_tests(tests, open_files_lab, close_files_lab);
}
