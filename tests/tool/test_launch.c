/* `tilth launch`: processes of one command, what they write, and how they end.
 * needs: no sanitizer */
#include "shell_lab.h"

#define PROGRAM "'" TILTH_PROGRAM "'"
/* Starts it, sends the child of that number a signal once all are there, and gives its code. */
#define KILLED(arguments, ranks, which, number)                                                    \
    PROGRAM " launch " arguments " & p=$!\n"                                                       \
            "while c=$(cat /proc/$p/task/$p/children) && set -- $c && [ $# -lt " ranks             \
            " ]; do sleep 0.01; done; sleep 0.3\nkill -" number " \"$" which "\"; wait $p"

static void commands_run_on_all(void **state)
{
    (void)state;
    assert_int_equal(shell("tilth launch -n 3 devices"), 0);
    has("[1] cpu ");
    has("[2] cpu ");
    assert_int_equal(shell("tilth launch -n 2 list no_such_kind"), 2);
    has("tilth list: ");
    assert_null(strstr(said, "[1]")); // what is wrong for all is said once
}

static void mistakes_are_told(void **state)
{
    (void)state;
    assert_int_equal(shell("tilth launch devices"), 2);
    has("how many processes? say -n 2");
    assert_int_equal(shell("tilth launch -n 2"), 2);
    has("no command");
    assert_int_equal(shell("tilth launch -n 1000 devices"), 2);
    has("-n: at most 128");
    assert_int_equal(shell("tilth launch -n 2 find_lr --experiment=mock"), 2);
    has("2 processes cannot do `find_lr` together yet");
    assert_int_equal(shell("RANK=1 WORLD_SIZE=2 tilth sweep --experiment=mock"), 2);
    has("torchrun (RANK, WORLD_SIZE): 2 processes cannot do `sweep` together yet");
    assert_int_equal(shell("tilth launch -n 2 launch -n 2 devices"), 2);
    has("of 2 already, by tilth launch");
}

static void check_shows_and_measures(void **state)
{
    (void)state;
    assert_int_equal(shell("tilth launch --check -n 3 --seconds=0.1"), 0);
    has("3 processes, by tilth launch (TILTH_RANK, TILTH_SIZE), over shm");
    has("\n2     ");
    has("us from 0      GB/s  computes with");
    has("16777216 ");
    has("all of them right");
    assert_null(strstr(said, "[1]"));
    // what would make a run slow
    assert_int_equal(shell("TILTH_NUM_THREADS=1000 tilth launch --check"), 0);
    has("2000 threads share the ");
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
        assert_int_equal(shell("taskset -pc 0 $$ >taskset.txt; tilth launch --check"), 0);
        has("rank 0 may use one of the ");
    }
}

static void a_lost_rank_ends_all(void **state)
{
    (void)state;
    assert_int_equal(shell(KILLED("--check -n 3 --seconds=60", "3", "3", "KILL")), 4);
    has("rank 2 (process ");
    has("was ended by signal 9");
    has("tilth launch: rank 2 (host ");
    has(" was lost while ");
    assert_null(strstr(said, "[1]"));
    // the chief
    assert_int_equal(shell(KILLED("--check -n 3 --seconds=60", "3", "1", "KILL")), 4);
    has("rank 0 (process ");
    // A signal for us is one for all.
    assert_int_equal(shell(KILLED("--check -n 2 --seconds=60", "2", "p", "TERM")), 128 + 15);
}

static void what_was_lost_is_started_again(void **state)
{
    (void)state;
    assert_int_equal(
        shell(KILLED("--restarts=2 --min=2 --check -n 3 --seconds=1", "3", "2", "KILL")), 0);
    has("rank 1 (process ");
    has("starting 2 again (1 of 2)");
    has("2 processes, by tilth launch");
    has("all of them right");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commands_run_on_all, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(mistakes_are_told, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(check_shows_and_measures, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(a_lost_rank_ends_all, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(what_was_lost_is_started_again, shell_open, shell_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
