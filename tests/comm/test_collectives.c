/* Every collective over threads, over shared memory, and alone, bit for bit that of a plain
 * reference, for 1 to 8 ranks. needs: threads */
#include "test.h"

#include "collectives.h"

static const int sizes[] = {1, 2, 3, 4, 5, 7, 8};

static void threads_give_the_reference(void **state)
{
    (void)state;
    collectives how = {.cls = &tl_comm_shm};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++)
        assert_int_equal(ranks_threads(sizes[i], check_collectives, &how), 0);
}

static void processes_give_the_reference(void **state)
{
    (void)state;
    if (THREAD_SANITIZED) skip(); // forks
    collectives how = {.cls = &tl_comm_shm};
    for (int64_t i = 0; i < TL_COUNT(sizes); i++)
        assert_int_equal(ranks_fork(sizes[i], check_collectives, &how), 0);
}

static void ordinary_memory_gives_the_reference(void **state)
{
    (void)state;
    if (THREAD_SANITIZED) skip();
    collectives how = {.cls = &tl_comm_shm, .ordinary = true};
    for (int64_t i = 0; i < TL_COUNT(sizes); i += 2)
        assert_int_equal(ranks_fork(sizes[i], check_collectives, &how), 0);
}

static void one_rank_needs_no_transport(void **state)
{
    (void)state;
    collectives how = {.cls = &tl_comm_none};
    assert_int_equal(check_collectives(&(tl_comm_args){.size = 1}, &how), 0);
}

/* --- lanes ------------------------------------------------------------------------------------ */

static void lanes_are_dealt_evenly(void **state)
{
    (void)state;
    const tl_lanes l = {8, 3};
    tl_lane_block b[TL_LANE_BLOCKS];
    assert_int_equal(tl_lanes_blocks(&l, 0, b), 2);
    assert_true(b[0].first == 0 && b[0].order == 1 && b[1].first == 2 && b[1].order == 0);
    assert_int_equal(tl_lanes_blocks(&l, 1, b), 2);
    assert_true(b[0].first == 3 && b[0].order == 0 && b[1].first == 4 && b[1].order == 1);
    assert_int_equal(tl_lanes_blocks(&l, 2, b), 1);
    assert_true(b[0].first == 6 && b[0].order == 1);
    for (int64_t lanes = 1; lanes <= 40; lanes++)
        for (int64_t ranks = 1; ranks <= lanes; ranks++) {
            const tl_lanes any = {lanes, ranks};
            int64_t next = 0, height = 0;
            assert_ok(tl_lanes_check(&any));
            for (int64_t r = 0; r < ranks; r++) {
                tl_lane_run run = tl_lanes_of(&any, r);
                int64_t own = 0, count = tl_lanes_blocks(&any, r, b);
                assert_int_equal(run.first, next);
                assert_true(run.count == lanes / ranks || run.count == lanes / ranks + 1);
                next += run.count;
                for (int64_t i = 0; i < run.count; i++)
                    own += 1 - tl_lanes_merges(&any, r, run.first + i);
                assert_int_equal(own, count);
                for (int64_t i = 0; i < count; i++) height += 1 - tl_lanes_joins(&any, b[i]);
            }
            assert_int_equal(next, lanes);
            assert_int_equal(height, 1);
        }
    assert_fails(tl_lanes_check(&(tl_lanes){4, 5}), TL_EINVAL, "5 processes are too many for 4");
    assert_fails(tl_lanes_check(&(tl_lanes){0, 1}), TL_EINVAL, "lanes: expected 1 to");
}

/* --- what goes wrong -------------------------------------------------------------------------- */

/* Rank 1 makes another call than the others. */
static int differ(const tl_comm_args *args, void *payload)
{
    (void)payload;
    tl_comm *c;
    float x = 1, y;
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    const tl_comm_sum sum = {.dtype = TL_F32,
                             .count = 1,
                             .lanes = args->size,
                             .partials = (const void *const[]){&x},
                             .out = &y};
    tl_status st = args->rank == 1 ? tl_comm_barrier(c->world) : tl_comm_all_reduce(c->world, &sum);
    RANK_CHECK(st == TL_EPEER);
    RANK_CHECK(strstr(tl_error_message(), "rank 0 all_reduce of 1 float32 of 3 lanes, rank 1 "
                                          "barrier (call 1"));
    RANK_CHECK(tl_comm_barrier(c->world) == TL_EPEER); // it stays so
    tl_comm_close(&c);
    return 0;
}

/* Rank 2 sends less than rank 0 expects. */
static int send_too_little(const tl_comm_args *args, void *payload)
{
    (void)payload;
    tl_comm *c;
    char data[64] = {0};
    tl_part recv[3], send = {data, args->rank == 2 ? 3 : 4};
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    for (int i = 0; i < 3; i++) recv[i] = (tl_part){data + 8 * (i + 1), 4};
    tl_status st = tl_comm_all_gather(c->world, &send, recv);
    RANK_CHECK(st == TL_EPEER && strstr(tl_error_message(), "rank 2 sends 3 bytes, rank "));
    tl_comm_close(&c);
    return 0;
}

static void *abort_soon(void *payload)
{
    tl_sleep_ns(20000000);
    tl_comm_abort(payload, "the moon is full");
    return NULL;
}

/* Rank 0 never comes; another thread of rank 1 ends the waiting of all. */
static int abandon(const tl_comm_args *args, void *payload)
{
    (void)payload;
    tl_comm *c;
    pthread_t thread;
    tl_status st;
    char data[4];
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    if (args->rank == 0) {
        while ((st = tl_comm_send(c->world, "abc", 4, 1)) == TL_OK) {}
    } else {
        if (args->rank == 1) RANK_CHECK(pthread_create(&thread, NULL, abort_soon, c) == 0);
        if (args->rank == 2) st = tl_comm_recv(c->world, data, 4, 0);
        else st = tl_comm_barrier(c->world);
        if (args->rank == 1) pthread_join(thread, NULL);
    }
    RANK_CHECK(st == TL_EPEER && strstr(tl_error_message(), "the moon is full"));
    tl_comm_close(&c);
    return 0;
}

/* Rank 1 goes without a word. */
static int leave(const tl_comm_args *args, void *payload)
{
    (void)payload;
    tl_comm *c;
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    if (args->rank != 1) {
        RANK_CHECK(tl_comm_barrier(c->world) == TL_EPEER);
        RANK_CHECK(strstr(tl_error_message(), "has left the run"));
    }
    tl_comm_close(&c);
    return 0;
}

/* What each writes all see, also after rank 0's memory has grown. */
static int write_in_common(const tl_comm_args *args, void *payload)
{
    enum { COUNT = 30000 };
    tl_comm *c;
    int32_t *common[3];
    void *more;
    (void)payload;
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    for (int i = 0; i < 3; i++) {
        RANK_CHECK(tl_comm_share(c, &more, COUNT * sizeof(int32_t) / (i == 1 ? 3000 : 1)) == TL_OK);
        common[i] = more;
        RANK_CHECK((more = tl_comm_alloc(c, 100000)));
        RANK_CHECK(tl_comm_broadcast(c->world, more, 100000, 0) == TL_OK);
    }
    for (int32_t i = args->rank; i < COUNT; i += args->size) common[2][i] = i + 1;
    common[1][args->rank] = args->rank;
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    for (int32_t i = 0; i < COUNT; i++) RANK_CHECK(common[2][i] == i + 1 && !common[0][i]);
    for (int32_t r = 0; r < args->size; r++) RANK_CHECK(common[1][r] == r);
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    tl_comm_close(&c);
    return 0;
}

static void memory_in_common_is_the_same(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        assert_int_equal(ranks_threads(ranks, write_in_common, NULL), 0);
        if (!THREAD_SANITIZED) assert_int_equal(ranks_fork(ranks, write_in_common, NULL), 0);
    }
}

static void failures_are_those_of_all(void **state)
{
    (void)state;
    static ranks_fn *const cases[] = {differ, send_too_little, abandon, leave};
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        assert_int_equal(ranks_threads(i == 2 ? 4 : 3, cases[i], NULL), 0);
        if (!THREAD_SANITIZED) assert_int_equal(ranks_fork(i == 2 ? 4 : 3, cases[i], NULL), 0);
    }
}

static void arguments_are_checked(void **state)
{
    (void)state;
    tl_comm *c;
    tl_comm_group *g;
    int files[3] = {0, 0, 0};
    float x = 0;
    assert_fails(tl_comm_open(&c, &tl_comm_shm, &(tl_comm_args){.rank = 2, .size = 2}), TL_EINVAL,
                 "rank 2 of 2");
    assert_fails(tl_comm_open(&c, &tl_comm_shm, &(tl_comm_args){.size = 2}), TL_EINVAL,
                 "`tilth launch` prepares");
    assert_fails(tl_comm_open(&c, &tl_comm_shm, &(tl_comm_args){.size = 2, .files = files}),
                 TL_EINVAL, "descriptor 0 is no memory");
    assert_fails(tl_comm_open(&c, &tl_comm_none, &(tl_comm_args){.size = 2}), TL_EINVAL,
                 "for one process");
    assert_ok(tl_comm_open(&c, &tl_comm_none, NULL));
    assert_fails(tl_comm_split(&g, c, (const int32_t[]){0, 0}, 2), TL_EINVAL, "ascending");
    assert_fails(tl_comm_split(&g, c, (const int32_t[]){0}, 0), TL_EINVAL, "at least one");
    assert_fails(tl_comm_send(c->world, &x, 4, 0), TL_EINVAL, "this process");
    assert_fails(tl_comm_broadcast(c->world, &x, 4, 1), TL_EINVAL, "none of the group");
    void *memory;
    assert_fails(tl_comm_share(c, &memory, 4), TL_EUNSUPPORTED, "no memory in common");
    tl_comm_sum sum = {
        .dtype = TL_BOOL, .count = 1, .lanes = 1, .partials = (const void *const[]){&x}};
    assert_fails(tl_comm_all_reduce(c->world, &sum), TL_EINVAL, "bool cannot");
    sum.dtype = TL_F32;
    sum.lanes = 0;
    assert_fails(tl_comm_all_reduce(c->world, &sum), TL_EINVAL, "lanes");
    sum.lanes = 1;
    sum.cuts = (const int64_t[]){0, 2};
    assert_fails(tl_comm_reduce_scatter(c->world, &sum), TL_EINVAL, "do not cover");
    tl_comm_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_dealt_evenly),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(one_rank_needs_no_transport),
        cmocka_unit_test(threads_give_the_reference),
        cmocka_unit_test(processes_give_the_reference),
        cmocka_unit_test(ordinary_memory_gives_the_reference),
        cmocka_unit_test(memory_in_common_is_the_same),
        cmocka_unit_test(failures_are_those_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
