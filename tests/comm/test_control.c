/* The control channel: its messages, and how the end of one rank becomes that of all. */
#include "test.h"

#include <stdlib.h>
#include <sys/socket.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "comm/control.h"
#include "ranks.h"

#define MS INT64_C(1000000)
#define HOUR (3600 * 1000 * MS)

/* --- messages --------------------------------------------------------------------------------- */

static void messages_are_read_as_they_were_written(void **state)
{
    (void)state;
    const tli_control_message all[] = {
        {.type = TLI_CONTROL_HELLO,
         .version = 1,
         .rank = 3,
         .size = 8,
         .process = 77,
         .text = "host-b"},
        {.type = TLI_CONTROL_BEAT,
         .doing = TL_WORLD_COMPILES,
         .kind = TL_COMM_ALL_REDUCE,
         .step = INT64_C(1) << 40,
         .calls = 12,
         .text = "a nest"},
        {.type = TLI_CONTROL_FAIL, .text = "no memory"},
        {.type = TLI_CONTROL_BYE},
        {.type = TLI_CONTROL_END, .text = "rank 3 was lost"},
    };
    uint8_t bytes[5 * (TLI_CONTROL_TEXT + 64)];
    size_t size = 0, at = 0, used;
    for (int64_t i = 0; i < TL_COUNT(all); i++) size += tli_control_write(bytes + size, &all[i]);
    for (int64_t i = 0; i < TL_COUNT(all); i++, at += used) {
        tli_control_message m;
        for (size_t part = 0; part < 10; part++) { // it is not there yet
            assert_ok(tli_control_read(&m, &used, bytes + at, part < 4 ? part : 5));
            assert_int_equal(used, 0);
        }
        assert_ok(tli_control_read(&m, &used, bytes + at, size - at));
        assert_int_equal(m.type, all[i].type);
        assert_string_equal(m.text, all[i].text);
        assert_true(m.rank == all[i].rank && m.size == all[i].size && m.doing == all[i].doing
                    && m.step == all[i].step && m.calls == all[i].calls
                    && m.process == all[i].process && m.kind == all[i].kind);
    }
    assert_int_equal(at, size);
}

static void what_is_no_message_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[40];
        const char *why;
    } rows[] = {
        {{0, 0, 0, 0}, "its length"},
        {{1, 0, 1, 0}, "its length"},
        {{4, 0, 0, 0, 9, 0, 0, 0}, "its type"},
        {{8, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, "too short"},
        {{28, 0, 0, 0, 2, 0, 0, 0, 99}, "what it does"},
    };
    tli_control_message m;
    size_t used;
    for (int64_t i = 0; i < TL_COUNT(rows); i++)
        assert_fails(tli_control_read(&m, &used, rows[i].bytes, sizeof rows[i].bytes), TL_EDATA,
                     rows[i].why);
    uint8_t big[TLI_CONTROL_MOST] = {0, 8, 0, 0, TLI_CONTROL_END};
    assert_fails(tli_control_read(&m, &used, big, sizeof big), TL_EDATA, "too long");
    uint8_t rude[] = {6, 0, 0, 0, TLI_CONTROL_END, 0, 0, 0, 27, 'x'};
    assert_ok(tli_control_read(&m, &used, rude, sizeof rude));
    assert_string_equal(m.text, "?x");
}

/* --- ranks ------------------------------------------------------------------------------------ */

enum { RANKS = 3 };

/* What rank 2 does to the others, and what those are told. */
typedef struct fate {
    void (*deed)(tli_control *control);
    const char *told, *told_too;
    tl_status how; /* how the others leave */
    int pairs[RANKS][2];
    bool chief;       /* the chief does it instead */
    bool silent;      /* the chief hangs before it has said anything */
    const char *says; /* the chief hangs, and this file gets what it says */
    /* After which others are lost, or hang; 0: never, for a busy machine lets anybody wait. */
    int64_t lost, hangs;
} fate;

static void die(tli_control *control)
{
    tli_control_tell(control, TL_WORLD_COMPUTES, 812, "encoder/layer_2: matmul");
    tl_sleep_ns(60 * MS); // a beat or two
    raise(SIGKILL);
}

static void stop(tli_control *control)
{
    tli_control_tell(control, TL_WORLD_WRITES, 7, "ckpt-7");
    tl_sleep_ns(60 * MS);
    raise(SIGSTOP);
}

static void stop_at_work(tli_control *control)
{
    tli_control_tell(control, TL_WORLD_COMPUTES, 812, "encoder/layer_2: matmul");
    tl_sleep_ns(60 * MS);
    raise(SIGSTOP);
}

static void hang(tli_control *control)
{
    tli_control_tell(control, TL_WORLD_COMPUTES, 812, "encoder/layer_2: matmul");
    for (;;) tl_sleep_ns(1000 * MS);
}

static void fail_alone(tli_control *control)
{
    tl_status st = TL_FAIL(TL_EIO, "the disk is full");
    tli_control_free(&control, st);
    _exit(1);
}

/* What it says goes to a file. */
static void hang_aloud(tli_control *control, const char *path)
{
    if (!freopen(path, "w", stderr)) _exit(3);
    hang(control);
}

static int live(const tl_comm_args *args, void *payload)
{
    const fate *f = payload;
    int fds[RANKS] = {-1, -1, -1};
    tl_comm *c;
    tli_control *control;
    RANK_CHECK(tl_comm_open(&c, &tl_comm_shm, args) == TL_OK);
    for (int r = 1; r < RANKS; r++) {
        // Who has more than its own ends does not see that others are closed.
        if (args->rank == 0) fds[r] = f->pairs[r][0];
        else close(f->pairs[r][0]);
        if (args->rank == r) fds[0] = f->pairs[r][1];
        else close(f->pairs[r][1]);
    }
    while (f->silent && args->rank == 0) tl_sleep_ns(1000 * MS);
    RANK_CHECK(
        tli_control_new(&control, &(tli_control_args){.comm = c,
                                                      .fds = fds,
                                                      .peer_timeout_ns = f->hangs ? f->hangs : HOUR,
                                                      .beat_ns = 20 * MS,
                                                      .lost_ns = f->lost ? f->lost : HOUR,
                                                      .grace_ns = 300 * MS})
        == TL_OK);
    if (!f->silent) RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    if (f->deed && args->rank == (f->chief ? 0 : 2)) f->deed(control);
    if (f->says && args->rank == 0) hang_aloud(control, f->says);
    tl_status st = tl_comm_barrier(c->world);
    RANK_CHECK(st == f->how);
    if (f->told) RANK_CHECK(strstr(tl_error_message(), f->told));
    if (f->told_too) RANK_CHECK(strstr(tl_error_message(), f->told_too));
    tli_control_free(&control, st);
    tl_comm_close(&c);
    return 0;
}

static void run_fate(fate f, int *statuses)
{
    int files[1 + RANKS];
    pid_t pids[RANKS];
    for (int r = 1; r < RANKS; r++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, f.pairs[r]), 0);
    assert_int_equal(ranks_start(pids, RANKS, files, live, &f), 0);
    tl_comm_files_close(files, RANKS);
    for (int r = 1; r < RANKS; r++) close(f.pairs[r][0]), close(f.pairs[r][1]);
    if (f.deed == stop || f.deed == stop_at_work) { // the others end; this one does when it goes on
        int status;
        assert_int_equal(waitpid(pids[2], &status, WUNTRACED), pids[2]);
        assert_true(WIFSTOPPED(status));
        const int failed = ranks_reap(pids, 2, statuses);
        kill(pids[2], SIGKILL);
        waitpid(pids[2], &statuses[2], 0);
        assert_int_equal(failed, 0);
        return;
    }
    if (f.silent) {
        assert_int_equal(ranks_reap(pids + 1, RANKS - 1, statuses + 1), 0);
        kill(pids[0], SIGKILL);
        waitpid(pids[0], &statuses[0], 0);
        return;
    }
    (void)ranks_reap(pids, RANKS, statuses);
}

static void fates_of_one_are_those_of_all(void **state)
{
    (void)state;
    int s[RANKS];
    run_fate((fate){.how = TL_OK}, s);
    assert_true(s[0] == 0 && s[1] == 0 && s[2] == 0);
    run_fate((fate){.deed = die,
                    .how = TL_EPEER,
                    .told = "rank 2 (host ",
                    .told_too = ") was lost while computing encoder/layer_2: matmul of step 812"},
             s);
    assert_true(s[0] == 0 && s[1] == 0 && WIFSIGNALED(s[2]));
    run_fate((fate){.deed = stop,
                    .how = TL_EPEER,
                    .lost = 1500 * MS,
                    .told = "rank 2 (host ",
                    .told_too = " s, last while writing ckpt-7 of step 7"},
             s);
    run_fate((fate){.deed = stop_at_work, // it hangs before it counts as lost
                    .how = TL_EPEER,
                    .hangs = 1500 * MS,
                    .told = ") has not been heard of for ",
                    .told_too =
                        " s, last while computing encoder/layer_2: matmul of step 812; ranks 0-1 "
                        "wait in barrier 1"},
             s);
    run_fate((fate){.deed = hang,
                    .how = TL_EPEER,
                    .hangs = 1500 * MS,
                    .told = "has been computing encoder/layer_2: matmul of step 812 for ",
                    .told_too = "; ranks 0-1 wait in barrier 1"},
             s);
    // It does not come back by itself, and is made to leave.
    assert_true(s[0] == 0 && s[1] == 0 && WIFEXITED(s[2]) && WEXITSTATUS(s[2]) == 4);
    run_fate((fate){.deed = fail_alone, .how = TL_EPEER, .told_too = "failed: the disk is full"},
             s);
    assert_true(s[0] == 0 && s[1] == 0 && WIFEXITED(s[2]) && WEXITSTATUS(s[2]) == 1);
    run_fate((fate){.deed = die, .chief = true, .how = TL_EPEER, .told = "rank 0"}, s);
    assert_true(WIFSIGNALED(s[0]) && s[1] == 0 && s[2] == 0);
    run_fate((fate){.silent = true,
                    .how = TL_EPEER,
                    .lost = 1500 * MS,
                    .told = "rank 0 (host ", // by which who speaks in its place knows it
                    .told_too = ") has not been heard of for "},
             s);
    assert_true(s[1] == 0 && s[2] == 0);
}

/* Nobody else would say why the run has ended. */
static void a_chief_that_is_stuck_speaks_before_it_leaves(void **state)
{
    (void)state;
    int s[RANKS];
    char path[TEMPORARY_PATH], *said;
    close(mkstemp(temporary(path, "tilth-control")));
    run_fate((fate){.deed = fail_alone, .says = path, .how = TL_EPEER}, s);
    assert_true(WIFEXITED(s[0]) && WEXITSTATUS(s[0]) == 4 && s[1] == 0);
    assert_ok(tl_file_read(&said, NULL, path, 4096));
    assert_non_null(strstr(said, "rank 2 (host "));
    assert_non_null(strstr(said, "failed: the disk is full"));
    tl_free(said);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_read_as_they_were_written),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(fates_of_one_are_those_of_all),
        cmocka_unit_test(a_chief_that_is_stuck_speaks_before_it_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
