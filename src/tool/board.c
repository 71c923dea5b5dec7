#include <signal.h>

#include <tilth/board/board.h>

#include "tool/tool.h"

/* --- the page of runs ------------------------------------------------------------------------- */

typedef struct board_flags {
    int64_t port, memory;
    const char *address, *token;
} board_flags;
static const tl_field board_fields[] = {
    TL_F(board_flags, port, .i = 0, TL_RANGE(0, 65535),
         .help = "port to listen on; 0: 6006, or the next free one"),
    TL_F(board_flags, address, .flags = TL_FIELD_NULLABLE,
         .help = "address of this machine to listen on, for others to look at; needs --token. The "
                 "default is 127.0.0.1: this machine alone"),
    TL_F(board_flags, token, .flags = TL_FIELD_NULLABLE,
         .help = "secret that who looks must know, at least 16 characters"),
    TL_F(board_flags, memory, .i = 100, TL_RANGE(1, 1 << 20),
         .help = "megabytes for the points of all curves; beyond that curves are thinned, and keep "
                 "their extremes"),
    TL_F_END,
};
static const tl_desc board_flags_desc = {
    .name = "board",
    .help = "flags of `board`",
    .size = sizeof(board_flags),
    .fields = board_fields,
};

enum { POINT_BYTES = 12 };

static tl_status serve(tli_run *run, const board_flags *given, const sigset_t *ends)
{
    tl_board *board;
    int caught;
    TL_TRY(tl_board_start(&board,
                          &(tl_board_args){.folders = run->words,
                                           .port = given->port,
                                           .address = given->address,
                                           .token = given->token,
                                           .most_points = given->memory * 1000000 / POINT_BYTES}));
    tl_str_addf(&run->text, "%s (Ctrl-C ends it)\n", tl_board_url(board));
    tl_status st = tli_tell_now(run);
    if (st == TL_OK) sigwait(ends, &caught);
    tl_board_stop(&board);
    return st;
}

static tl_status run_board(tli_run *run)
{
    sigset_t ends, before;
    if (!run->words.count)
        return TL_FAIL(TL_EINVAL, "no folder is named: give the folder of a run, or one with runs");
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    tl_status st = serve(run, run->given[0], &ends);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

const tli_command tli_command_board = {
    .name = "board",
    .brief = "shows runs in a browser: curves, pictures, settings, as they train",
    .usage = "FOLDER... [flags]\n\n"
             "Serves a page for all runs below the folders, ours and Model Garden's, until it is "
             "ended by a signal. Runs that come, grow or go are followed. Nothing is written, and "
             "nothing outside of the folders is read; links in them are not followed.",
    .flags = {{"Page", &board_flags_desc}},
    .run = run_board,
};

/* --- a page to keep --------------------------------------------------------------------------- */

typedef struct report_flags {
    const char *out;
} report_flags;
static const tl_field report_fields[] = {
    TL_F(report_flags, out, .s = "report.html", .flags = TL_FIELD_PATH, .help = "file to write"),
    TL_F_END,
};
static const tl_desc report_flags_desc = {
    .name = "report",
    .help = "flags of `report`",
    .size = sizeof(report_flags),
    .fields = report_fields,
};

static tl_status run_report(tli_run *run)
{
    const report_flags *given = run->given[0];
    tl_str page = TL_STR_INIT;
    if (!run->words.count)
        return TL_FAIL(TL_EINVAL, "no run is named: give the folders of some runs");
    if (!*given->out) return TL_FAIL(TL_EINVAL, "--out: the name of a file is missing");
    tl_status st = tl_board_report(&page, run->words);
    if (st == TL_OK) st = tli_write_file(given->out, &page);
    if (st == TL_OK)
        tl_str_addf(&run->text, "wrote %s, %.1f MB\n", given->out, (double)page.length * 1e-6);
    tl_str_deinit(&page);
    return st;
}

const tli_command tli_command_report = {
    .name = "report",
    .brief = "writes the page of runs as one file, for mail and archives",
    .usage = "RUN... [-o FILE]\n\n"
             "The page of `board` with all that it shows in one file of HTML, which needs neither "
             "the runs nor a network.",
    .flags = {{"Report", &report_flags_desc}},
    .alias = {"o", "out"},
    .run = run_report,
};
