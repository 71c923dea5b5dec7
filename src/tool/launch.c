#include "tool/launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/comm/shm.h>
#include <tilth/comm/who.h>

typedef struct launch_flags {
    int64_t n, restarts, min;
    bool check;
    double seconds;
} launch_flags;
static const tl_field launch_fields[] = {
    TL_F(launch_flags, n, TL_AT_LEAST(0),
         .help = "how many processes; `--check` takes 2 where nothing is said"),
    TL_F(launch_flags, restarts, TL_AT_LEAST(0),
         .help = "how often to start all again when one is lost"),
    TL_F(launch_flags, min, TL_AT_LEAST(0),
         .help = "start again without those that were lost, but not with fewer than this; 0: with "
                 "as many as at first"),
    TL_F(launch_flags, check,
         .help = "no command: show the processes, where they run, and how fast they exchange"),
    TL_F(launch_flags, seconds, TL_AT_LEAST(0),
         .help = "of --check: go on exchanging for so long, and see that every sum is right"),
    TL_F_END,
};
static const tl_desc launch_flags_desc = {
    .name = "launch",
    .help = "flags of `launch`",
    .size = sizeof(launch_flags),
    .fields = launch_fields,
};

static tl_status run_ranks(tli_run *run, const launch_flags *f, tl_strings words, int32_t size)
{
    tli_ranks_end end;
    for (int64_t again = 0;; again++) {
        TL_TRY(tli_ranks_run(
            &end, &(tli_ranks_args){
                      .tool = run->tool, .words = words, .size = size, .arena = run->arena}));
        if (end.code != TL_EXIT_PEER || end.signal || again == f->restarts) break;
        char text[128];
        if (f->min && size - end.lost < f->min) {
            snprintf(text, sizeof text,
                     "%" PRId32 " of %" PRId32 " are left, and --min is %" PRId64, size - end.lost,
                     size, f->min);
            tli_complain(run->tool, "launch", text);
            break;
        }
        if (f->min) size -= end.lost;
        snprintf(text, sizeof text, "starting %" PRId32 " again (%" PRId64 " of %" PRId64 ")", size,
                 again + 1, f->restarts);
        tli_complain(run->tool, "launch", text);
    }
    run->code = end.code;
    return TL_OK;
}

static tl_status run_launch(tli_run *run)
{
    const launch_flags *f = run->given[0];
    char seconds[48];
    const char *const check[] = {"launch", "--check", seconds};
    tl_strings words = run->words;
    int64_t size = f->n ? f->n : 2;
    tl_who who;
    snprintf(seconds, sizeof seconds, "--seconds=%.6f", f->seconds);
    TL_TRY(tl_who_find(&who, NULL));
    const bool started = who.size > 1 || who.from == TL_WHO_TILTH; // one of one, too
    if (f->check && started) return tli_launch_check(run, f->seconds);
    if (started)
        return TL_FAIL(TL_EINVAL, "this is rank %" PRId32 " of %" PRId32 " already, by %s",
                       who.rank, who.size, who.source);
    if (f->check && words.count)
        return TL_FAIL(TL_EINVAL, "--check takes no command, found '%.80s'", words.items[0]);
    if (!f->check && !words.count)
        return TL_FAIL(TL_EINVAL, "no command: `%s launch -n 2 devices`", run->tool->program);
    if (!f->check && !f->n) return TL_FAIL(TL_EINVAL, "how many processes? say -n 2");
    if (size > TL_COMM_SHM_RANKS || f->min > size)
        return TL_FAIL(TL_EINVAL, "%s: at most %d", f->min > size ? "--min" : "-n",
                       f->min > size ? (int)size : (int)TL_COMM_SHM_RANKS);
    if (!f->check && size > 1) TL_TRY(tli_refuse_several(words.items[0], (int32_t)size));
    return run_ranks(run, f, f->check ? (tl_strings){check, 3} : words, (int32_t)size);
}

const tli_command tli_command_launch = {
    .name = "launch",
    .brief = "a command on several processes of this machine",
    .usage = "-n N [--restarts=K [--min=M]] COMMAND...\n   or: launch --check [-n N] "
             "[--seconds=S]\n\nStarts N "
             "processes of the same command, which find each other in shared memory. Rank 0 writes "
             "as usual, lines of the others have their number before them. Signals reach all. When "
             "one is lost, all end, with code 4.",
    .flags = {{"Flags", &launch_flags_desc}},
    .run = run_launch,
};
