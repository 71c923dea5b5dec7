/* How processes and layers are laid out. */
#include "test.h"

#include <tilth/comm/layout.h>

static void sizes_follow_from_the_processes(void **state)
{
    (void)state;
    static const struct {
        int64_t world, tensor, pipeline;
        tl_layout wanted;
    } rows[] = {
        {1, 1, 1, {1, 1, 1, 1}},   {8, 1, 1, {8, 1, 1, 8}}, {8, 2, 2, {8, 2, 2, 2}},
        {8, 4, 2, {8, 4, 2, 1}},   {6, 3, 1, {6, 3, 1, 2}}, {12, 2, 3, {12, 2, 3, 2}},
        {1, 8, 4, {1, 1, 1, 1}}, // one process does everything
        {4, 8, 4, {4, 4, 1, 1}}, // as many as there are
        {8, 2, 100, {8, 2, 4, 1}},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_layout l;
        assert_ok(tl_layout_resolve(&l, rows[i].world, rows[i].tensor, rows[i].pipeline));
        assert_memory_equal(&l, &rows[i].wanted, sizeof l);
    }
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    tl_layout l;
    assert_fails(tl_layout_resolve(&l, 8, 3, 1), TL_EINVAL,
                 "tensor_parallel_size: 3 does not divide the 8");
    assert_fails(tl_layout_resolve(&l, 8, 2, 3), TL_EINVAL,
                 "pipeline_parallel_size: 3 stages of 2");
    assert_fails(tl_layout_resolve(&l, 0, 1, 1), TL_EINVAL, "processes is 0");
    assert_fails(tl_layout_resolve(&l, 4, 0, 1), TL_EINVAL, "tensor_parallel_size is 0");
    assert_fails(tl_layout_resolve(&l, 4, 1, -1), TL_EINVAL, "pipeline_parallel_size is -1");
    assert_int_equal(l.world, 0);
}

/* Of 12 ranks in 3 stages: [stage][data][tensor], the last one fastest. */
static void ranks_have_places(void **state)
{
    (void)state;
    tl_layout l;
    assert_ok(tl_layout_resolve(&l, 12, 2, 3));
    static const tl_layout_place wanted[] = {
        {0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1},
        {1, 1, 0}, {1, 1, 1}, {2, 0, 0}, {2, 0, 1}, {2, 1, 0}, {2, 1, 1},
    };
    for (int64_t rank = 0; rank < 12; rank++) {
        tl_layout_place at = tl_layout_at(&l, rank);
        assert_memory_equal(&at, &wanted[rank], sizeof at);
    }
}

/* Whatever divides: every place is one rank's, stages are in a row, data ranks are LiBai's. */
static void every_place_is_one_rank(void **state)
{
    (void)state;
    int64_t seen = 0;
    for (int64_t world = 1; world <= 24; world++)
        for (int64_t tensor = 1; tensor <= world; tensor++)
            for (int64_t pipeline = 1; tensor * pipeline <= world; pipeline++) {
                tl_layout l;
                bool fits = world % tensor == 0 && world % (tensor * pipeline) == 0;
                tl_status st = tl_layout_resolve(&l, world, tensor, pipeline);
                assert_int_equal(st, fits ? TL_OK : TL_EINVAL);
                for (int64_t rank = 0; fits && rank < world; rank++, seen++) {
                    tl_layout_place at = tl_layout_at(&l, rank);
                    assert_int_equal(at.stage, rank / (world / pipeline));
                    assert_int_equal(at.data_rank, rank / tensor % l.data);
                    assert_int_equal(at.tensor_rank, rank % tensor);
                    assert_int_equal(tl_layout_rank(&l, at), rank);
                }
            }
    assert_true(seen > 1000);
}

/* --- layers ----------------------------------------------------------------------------------- */

static void layers_are_given_to_stages(void **state)
{
    (void)state;
    static const struct {
        int64_t layers, stages, counts[8];
    } rows[] = {
        {24, 4, {6, 7, 7, 4}}, {8, 4, {2, 2, 3, 1}},
        {12, 4, {3, 4, 4, 1}}, {16, 4, {4, 5, 5, 2}},
        {10, 4, {2, 2, 3, 3}}, {7, 2, {3, 4}},
        {6, 4, {1, 1, 2, 2}},  {24, 8, {3, 3, 3, 3, 3, 4, 4, 1}},
        {5, 1, {5}},           {4, 4, {1, 1, 1, 1}},
        {9, 3, {3, 3, 3}},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        int64_t stage[24], counts[8] = {0};
        assert_ok(tl_layout_stages(stage, rows[i].layers, rows[i].stages));
        for (int64_t k = 0; k < rows[i].layers; k++) {
            counts[stage[k]]++;
            assert_true(k == 0 || stage[k] >= stage[k - 1]);
        }
        assert_memory_equal(counts, rows[i].counts, sizeof counts);
        assert_int_equal(tl_layout_stage(stage, 0, rows[i].stages), 0);
        assert_int_equal(tl_layout_stage(stage, -1, rows[i].stages), rows[i].stages - 1);
    }
}

static void every_stage_has_a_layer(void **state)
{
    (void)state;
    for (int64_t stages = 1; stages <= 16; stages++)
        for (int64_t layers = stages; layers <= 100; layers++) {
            int64_t stage[100];
            assert_ok(tl_layout_stages(stage, layers, stages));
            assert_ok(tl_layout_check_stages(stage, layers, layers, stages));
            assert_int_equal(stage[0], 0);
            assert_int_equal(stage[layers - 1], stages - 1);
            for (int64_t k = 1; k < layers; k++) assert_in_range(stage[k] - stage[k - 1], 0, 1);
        }
}

static void wrong_stages_are_refused(void **state)
{
    (void)state;
    int64_t stage[4] = {0, 0, 1, 1};
    assert_fails(tl_layout_stages(stage, 3, 4), TL_EINVAL, "pipeline_num_layers: 3 layers");
    assert_ok(tl_layout_check_stages(stage, 4, 4, 2));
    assert_fails(tl_layout_check_stages(stage, 4, 5, 2), TL_EINVAL, "has 4 numbers");
    stage[3] = 2; // less than the processes there may be, but no stage
    assert_fails(tl_layout_check_stages(stage, 4, 4, 2), TL_EINVAL,
                 "layer 3 is given to stage 2; stages are 0 to 1");
    stage[3] = -1;
    assert_fails(tl_layout_check_stages(stage, 4, 4, 2), TL_EINVAL, "stage -1");
    assert_fails(tl_layout_check_stages(stage, 1, 1, 2), TL_EINVAL, "at least one each");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_from_the_processes),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(ranks_have_places),
        cmocka_unit_test(every_place_is_one_rank),
        cmocka_unit_test(layers_are_given_to_stages),
        cmocka_unit_test(every_stage_has_a_layer),
        cmocka_unit_test(wrong_stages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
