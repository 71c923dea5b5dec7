/* Of several ways the quickest is found, with few runs. */
#include "test.h"

#include "cuda/race.h"

/* Ways that take so long, the first of them when nothing is warm; negative: it fails. */
typedef struct track {
    float ms[TLI_RACE_MOST];
    float cold; /* more in the first run */
    int count, runs, each[TLI_RACE_MOST];
} track;

static tl_status run_way(void *self, int way, float *ms)
{
    track *t = self;
    t->runs++;
    if (t->ms[way] < 0) return TL_FAIL(TL_EUNSUPPORTED, "way %d cannot be run", way);
    *ms = t->ms[way] + (t->each[way]++ ? 0 : t->cold);
    return TL_OK;
}

static int best_of(track *t, int rounds)
{
    t->runs = 0;
    memset(t->each, 0, sizeof t->each);
    return tli_race_run(
        &(tli_race){.count = t->count, .rounds = rounds, .time = run_way, .self = t});
}

static void the_quickest_is_found(void **state)
{
    (void)state;
    track t = {.ms = {5, 3, 4, 2, 9, 2.5f}, .count = 6};
    assert_int_equal(best_of(&t, 3), 3);
    track single = {.ms = {5}, .count = 1};
    assert_int_equal(best_of(&single, 3), 0);
    assert_int_equal(single.runs, 1);
    // near each other: the rounds tell, and not the first runs
    track near = {.ms = {1.02f, 1.01f, 1, 1.03f}, .cold = 0.1f, .count = 4};
    assert_int_equal(best_of(&near, 3), 2);
    assert_int_equal(near.each[0], 4);
}

static void what_is_far_behind_is_run_once(void **state)
{
    (void)state;
    track t = {.ms = {2, 1, 2, 1.3f}, .count = 4};
    assert_int_equal(best_of(&t, 3), 1);
    assert_int_equal(t.runs, 4); // one is left
    track three = {.ms = {1, 1.2f, 1.01f, 3}, .count = 4};
    assert_int_equal(best_of(&three, 3), 0);
    assert_int_equal(three.each[0], 4);
    assert_int_equal(three.each[1], 2); // behind after a round
    assert_int_equal(three.each[3], 1);
}

static void it_ends_when_nothing_gets_better(void **state)
{
    (void)state;
    track t = {.count = TLI_RACE_MOST};
    for (int i = 0; i < t.count; i++) t.ms[i] = 4 + (float)i;
    t.ms[2] = 1;
    t.ms[20] = 0.5f;
    assert_int_equal(best_of(&t, 3), 2);
    assert_int_equal(t.runs, 3 + 6);
    t.ms[8] = 0.7f; // the last that is looked at
    assert_int_equal(best_of(&t, 3), 8);
}

static void what_fails_is_out(void **state)
{
    (void)state;
    track t = {.ms = {-1, -1, -1, -1, -1, -1, -1, 3, -1, 2}, .count = 10};
    assert_int_equal(best_of(&t, 3), 9);
    track none = {.ms = {-1, -1, -1}, .count = 3};
    assert_int_equal(best_of(&none, 3), 0);
    assert_string_equal(tl_error_message(), "no error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quickest_is_found),
        cmocka_unit_test(what_is_far_behind_is_run_once),
        cmocka_unit_test(it_ends_when_nothing_gets_better),
        cmocka_unit_test(what_fails_is_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
