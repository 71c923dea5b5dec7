/* Lanes that meet: what they get has the same bits on any number of ranks, and what goes wrong in
 * one of them ends all. needs: threads */
#include "test.h"

#include <tilth/core/strands.h>

#include "comm/ranks.h"

enum {
    MOST = 7,
    COUNT = 42
}; /* lanes, and numbers of each: a multiple of up to 3 and of 6 and 7 */

/* --- results ---------------------------------------------------------------------------------- */

typedef struct results {
    float gathered[MOST * COUNT], sum[COUNT], part[COUNT];
} results;

static float number(int64_t lane, int64_t i)
{
    return (float)((lane * 37 + i * 101) % 97) / 7.0f - 5.3f;
}

/* Lanes [first, first + 2^order) of the tree, for one element. */
static bool tree(float *out, int64_t lanes, int64_t first, int order, int64_t i)
{
    float right;
    if (first >= lanes) return false;
    *out = number(first, i);
    if (!order) return true;
    tree(out, lanes, first, order - 1, i);
    if (tree(&right, lanes, first + (INT64_C(1) << (order - 1)), order - 1, i)) *out += right;
    return true;
}

/* What a lane must have in the end. */
static bool is_right(const results *r, int64_t lane, int64_t lanes)
{
    const int64_t part = COUNT / lanes;
    for (int64_t i = 0; i < lanes * COUNT; i++)
        if (r->gathered[i] != number(i / COUNT, i % COUNT)) return false;
    for (int64_t i = 0; i < COUNT; i++) {
        float sum;
        tree(&sum, lanes, 0, 3, i);
        if (r->sum[i] != sum) return false;
        if (i / part == lane && COUNT % lanes == 0 && r->part[i % part] != sum) return false;
    }
    return true;
}

typedef struct crowd {
    results of[MOST];
    int64_t turns, last;
} crowd;

static tl_status compute(void *self, tl_strand *s)
{
    const int64_t lane = tl_strand_lane(s), lanes = tl_strand_lanes(s);
    results *r = &((crowd *)self)->of[lane];
    float own[COUNT];
    for (int64_t i = 0; i < COUNT; i++) own[i] = number(lane, i);
    for (int again = 0; again < 3; again++) {
        tl_strand_call call = {TL_COMM_ALL_GATHER, TL_F32, COUNT, own, r->gathered};
        TL_TRY(tl_strand_meet(s, &call));
        call = (tl_strand_call){TL_COMM_ALL_REDUCE, TL_F32, COUNT, own, r->sum};
        TL_TRY(tl_strand_meet(s, &call));
        call = (tl_strand_call){TL_COMM_REDUCE_SCATTER, TL_F32, COUNT, own, r->part};
        if (COUNT % lanes == 0) TL_TRY(tl_strand_meet(s, &call));
    }
    return TL_OK;
}

static tl_status take_turn(void *self, int64_t lane)
{
    crowd *all = self;
    all->turns += all->last != lane + 1;
    all->last = lane + 1;
    return TL_OK;
}

static int meet(const tl_comm_args *args, void *payload)
{
    const int64_t lanes = *(const int64_t *)payload;
    tl_comm *comm;
    tl_strands *s;
    static _Thread_local crowd all;
    all = (crowd){.turns = 0};
    RANK_CHECK(tl_comm_open(&comm, &tl_comm_shm, args) == TL_OK);
    const tl_strands_args how = {.of = {lanes, args->size},
                                 .rank = args->rank,
                                 .group = comm->world,
                                 .turn = take_turn,
                                 .self = &all};
    RANK_CHECK(tl_strands_new(&s, &how) == TL_OK);
    const tl_lane_run run = tl_strands_lanes(s);
    for (int again = 0; again < 2; again++) RANK_CHECK(tl_strands_run(s, compute, &all) == TL_OK);
    for (int64_t lane = run.first; lane < run.first + run.count; lane++)
        RANK_CHECK(is_right(&all.of[lane], lane, lanes));
    RANK_CHECK(run.count == 1 ? all.turns == 0 : all.turns >= 2 * 7 * run.count - 2);
    tl_strands_free(&s);
    tl_comm_close(&comm);
    return 0;
}

static void results_know_no_ranks(void **state)
{
    (void)state;
    for (int64_t lanes = 1; lanes <= MOST; lanes++)
        for (int ranks = 1; ranks <= (lanes < 4 ? lanes : 4); ranks++)
            assert_int_equal(ranks_threads(ranks, meet, &lanes), 0);
}

/* --- failures --------------------------------------------------------------------------------- */

static tl_status gather(tl_strand *s, int64_t count)
{
    static float in[MOST][COUNT], out[MOST][MOST * COUNT];
    const int64_t lane = tl_strand_lane(s);
    return tl_strand_meet(
        s, &(tl_strand_call){TL_COMM_ALL_GATHER, TL_F32, count, in[lane], out[lane]});
}

static tl_status fail_in_one(void *self, tl_strand *s)
{
    (void)self;
    TL_TRY(gather(s, 4));
    if (tl_strand_lane(s) == 1) return TL_FAIL(TL_EIO, "lane 1 has lost its way");
    return gather(s, 4);
}

static tl_status end_early(void *self, tl_strand *s)
{
    if (tl_strand_lane(s) == *(int64_t *)self) return TL_OK;
    return gather(s, 4);
}

static tl_status bring_less(void *self, tl_strand *s)
{
    (void)self;
    return gather(s, tl_strand_lane(s) == 2 ? 3 : 4);
}

static tl_status only_gather(void *self, tl_strand *s)
{
    (void)self;
    return gather(s, 4);
}

static tl_status refuse_turn(void *self, int64_t lane)
{
    (void)self;
    return lane == 2 ? TL_FAIL(TL_ENOMEM, "no place for lane 2") : TL_OK;
}

static void one_failure_ends_all(void **state)
{
    (void)state;
    tl_strands *s, *refusing;
    int64_t who = 0;
    assert_ok(tl_strands_new(&s, &(tl_strands_args){.of = {3, 1}}));
    assert_fails(tl_strands_run(s, fail_in_one, NULL), TL_EIO, "lane 1 has lost its way");
    assert_fails(tl_strands_run(s, end_early, &who), TL_EINVAL, "and lane 0 has ended");
    who = 1;
    assert_fails(tl_strands_run(s, end_early, &who), TL_EINVAL, "and lane 1 has ended");
    assert_fails(tl_strands_run(s, bring_less, NULL), TL_EINVAL,
                 "lane 0 calls all_gather of 4 float32, and lane 2 all_gather of 3 float32");
    assert_fails(gather(tl_strands_at(s, 0), 4), TL_ESTATE, "go one after the other");
    assert_ok(tl_strands_run(s, only_gather, NULL)); // none of it stays
    tl_strands_free(&s);
    assert_ok(tl_strands_new(&refusing, &(tl_strands_args){.of = {3, 1}, .turn = refuse_turn}));
    assert_fails(tl_strands_run(refusing, only_gather, NULL), TL_ENOMEM, "no place for lane 2");
    tl_strands_free(&refusing);
    assert_fails(tl_strands_new(&s, &(tl_strands_args){.of = {0, 1}}), TL_EINVAL, "lanes");
}

static int compare(const tl_comm_args *args, void *payload)
{
    tl_comm *comm;
    tl_strands *s;
    (void)payload;
    RANK_CHECK(tl_comm_open(&comm, &tl_comm_shm, args) == TL_OK);
    const tl_strands_args how = {
        .of = {args->size, args->size}, .rank = args->rank, .group = comm->world};
    RANK_CHECK(tl_strands_new(&s, &how) == TL_OK);
    tl_strand *own = tl_strands_at(s, args->rank);
    RANK_CHECK(tl_strand_compare(own, "lists", "a\nb\n") == TL_OK);
    RANK_CHECK(tl_strand_compare(own, "lists", args->rank == 1 ? "a\nc\n" : "a\nb\n") == TL_EINVAL);
    RANK_CHECK(strstr(tl_error_message(), "lists differ: on rank 0 'b', on rank 1 'c'"));
    RANK_CHECK(tl_strand_compare(own, "lists", args->rank == 2 ? "a\n" : "a\nb\n") == TL_EINVAL);
    RANK_CHECK(strstr(tl_error_message(), "on rank 0 'b', on rank 2 'nothing more'"));
    tl_strands_free(&s);
    tl_comm_close(&comm);
    return 0;
}

static void texts_that_differ_are_shown(void **state)
{
    (void)state;
    assert_int_equal(ranks_threads(3, compare, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_know_no_ranks),
        cmocka_unit_test(one_failure_ends_all),
        cmocka_unit_test(texts_that_differ_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
