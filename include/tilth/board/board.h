/* The page of runs: curves, pictures, settings and files of all runs below some folders, in a
 * browser.
 *
 *     tl_board *board;
 *     const char *folders[] = {"runs"};
 *     TL_TRY(tl_board_start(&board, &(tl_board_args){.folders = {folders, 1}}));
 *     puts(tl_board_url(board));                                    // "http://127.0.0.1:6006/"
 *     ...
 *     tl_board_stop(&board);
 *
 *     TL_TRY(tl_board_report(&text, (tl_strings){folders, 1}));      // one file of HTML
 *
 * Two threads of its own serve it: one reads files as they grow, one answers requests. Nothing is
 * written, and no file outside of the folders is read; links in them are not followed. It listens
 * on the loopback address unless another one is given, which needs a token. Requests that name
 * another host (DNS rebinding) are refused.
 *
 * Ownership: the caller's; texts are copied. Thread word: one thread at a time. */
#ifndef TILTH_BOARD_BOARD_H
#define TILTH_BOARD_BOARD_H

#include <tilth/base/str.h>
#include <tilth/desc/desc.h>

TL_BEGIN

typedef struct tl_board tl_board;

typedef struct tl_board_args {
    tl_strings folders;
    int64_t port;           /* 0: 6006, or the next ten that are free */
    const char *address;    /* (optional: 127.0.0.1) of this machine: IPv4, or IPv6 */
    const char *token;      /* required with another address: at least 16 characters */
    bool patient;           /* folders need not be there yet */
    bool behind;            /* its threads run when nothing else of the machine wants to */
    int64_t silent_seconds; /* (optional: 10) until a client that has not asked is closed */
    int64_t most_points;    /* (optional: 2^23) kept in memory; beyond that curves are thinned */
} tl_board_args;

/* A build without libmicrohttpd is TL_EUNSUPPORTED, a port that is taken TL_EEXISTS. */
TL_API TL_NODISCARD tl_status tl_board_start(tl_board **out, const tl_board_args *args);
/* Where it is, with the token. */
TL_API const char *tl_board_url(const tl_board *b);
/* NULL is fine. */
TL_API void tl_board_stop(tl_board **b);

/* A report of the runs below the folders, as one page that needs no other file: added to `out`. */
TL_API TL_NODISCARD tl_status tl_board_report(tl_str *out, tl_strings folders);

TL_END

#endif
