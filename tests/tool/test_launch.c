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

/* One process is a rank as well, and numbers of somebody else's mean nothing to it. */
static void ranks_have_their_own_numbers(void **state)
{
    (void)state;
    assert_int_equal(shell("tilth launch --check -n 1"), 0);
    has("1 processes, by tilth launch");
    assert_int_equal(shell("tilth launch -n 1 launch -n 2 devices"), 2);
    has("this is rank 0 of 1 already, by tilth launch");
    assert_int_equal(shell("tilth launch -n 1 train --experiment=vision/local --mode=train "
                           "--model_dir=x tilth.processes=2"),
                     2);
    has("tilth.processes is 2, and there is 1: by tilth launch");
    assert_int_equal(shell("export TILTH_LOCAL_SIZE=1 TILTH_FILES=1,2 TILTH_CONTROL=9\n"
                           "tilth launch --check -n 2"),
                     0);
    has("2 processes, by tilth launch");
    assert_int_equal(shell("TILTH_RANK=0 TILTH_SIZE=2 TILTH_FILES=0,1,2 TILTH_CONTROL=-1,1 "
                           "tilth launch --check"),
                     2);
    has("TILTH_FILES: expected 3 open descriptors");
}

/* It is made to be pasted. */
static void hosts_are_quoted(void **state)
{
    (void)state;
    assert_int_equal(shell("export MASTER_ADDR='a;id' RANK=0 WORLD_SIZE=2 MASTER_PORT=1\n"
                           "tilth launch --check"),
                     2);
    has("let mpirun start them: mpirun -H 'a;id:1,OTHER_HOST:1' --bind-to none ");
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
    // but not with fewer than that
    assert_int_equal(
        shell(KILLED("--restarts=2 --min=2 --check -n 2 --seconds=60", "2", "2", "KILL")), 4);
    has("1 of 2 are left, and --min is 2");
    assert_null(strstr(said, "starting"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(commands_run_on_all, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(mistakes_are_told, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(ranks_have_their_own_numbers, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(hosts_are_quoted, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(check_shows_and_measures, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(a_lost_rank_ends_all, shell_open, shell_close),
        cmocka_unit_test_setup_teardown(what_was_lost_is_started_again, shell_open, shell_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
