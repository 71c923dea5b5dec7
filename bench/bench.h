/* Measurements side by side: ours and a peer's in turn, their medians, a table and JSON rows.
 *
 *     int main(int argc, char **argv)
 *     {
 *         bench b;
 *         tl_status st = bench_begin(&b, argc, argv);
 *         if (st == TL_OK)
 *             st = bench_run(&b, &(bench_case){.name = "crc32c 1 MiB", .unit = "GB/s",
 *                                              .amount = 1 << 20, .ours = sum_ours, .payload =
 * data, .peer = sum_zlib, .peer_name = "zlib crc32"}); return bench_end(&b, st);
 *     }
 *
 * `bench_x rows.json [text]` writes the rows to the file and the table to the standard output; with
 * a text, only cases whose names contain it are run.
 *
 * A sample is one function called as often as it takes to fill the sample's time; a round is one
 * sample of each function of a case, the order turned around from round to round, so that whatever
 * else the machine does meets all of them alike. A row shows medians over the rounds.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_BENCH_H
#define TILTH_BENCH_H

#include <stdio.h>
#include <sys/types.h>

#include <tilth/base/status.h>

/* --- peers that are programs ------------------------------------------------------------------ */

/* A program that measures by itself, such as a Python script: it reads the name of a case from each
 * line of its standard input, runs one sample of it, and answers with one line, the seconds that
 * one call took. A case that it does not have is answered with any line that is not a number, which
 * is shown to the user.
 *
 *     for line in sys.stdin:
 *         print(seconds_of(line.strip()), flush=True)
 *
 * A program that cannot be started, or ends early, leaves its rows without a peer; with
 * TILTH_BENCH_ALONE=1 in the environment none is started. */
typedef struct bench_peer {
    pid_t process;
    int to, from; /* pipes */
} bench_peer;
#define BENCH_PEER_INIT TL_INIT(0, -1, -1)

/* `argv` ends with NULL; its first word is looked up in PATH. */
tl_status bench_peer_start(bench_peer *out, const char *const *argv);
/* The same for a program of ours, which is always started. */
tl_status bench_program_start(bench_peer *out, const char *const *argv);
tl_status bench_peer_ask(bench_peer *peer, const char *name, double *seconds);
/* One that was not started is fine. */
void bench_peer_stop(bench_peer *peer);

/* --- cases ------------------------------------------------------------------------------------ */

typedef void bench_fn(void *payload);

typedef struct bench_case {
    const char *name;
    const char
        *unit; /* time of a call: "ns", "us", "ms", "s"; amount by time: "GB/s", "GFLOP/s", "/s" */
    double amount; /* bytes, operations or items of one call; for rates only */
    bench_fn *ours;
    bench_peer *own_program; /* (optional, in place of `ours`) a program of ours, asked by `name` */
    bench_fn *wait;        /* (optional) for calls of ours that return before they are done: behind
                              * those of a sample, and a part of it */
    bench_fn *peer;        /* (optional) */
    bench_peer *program;   /* (optional, in place of `peer`) asked by `name` */
    const char *peer_name; /* shown, also when the peer is absent */
    bench_fn *limit_fn;    /* (optional) a call that does what the machine cannot do without */
    double limit; /* (optional, in place of `limit_fn`) what the machine allows, in `unit` */
    void *payload;
    bench_fn *anew; /* (optional) before each round, such as to start programs again: how the memory
                     * of a process lies is settled once for it, and worth some percent */
    double
        rest_s; /* (optional) idle time before a sample, for threads of the others to go to sleep */
    bool warm;  /* calls go before each sample of ours; where time has passed, always */
    double sample_s; /* (optional, 0.002) */
    int rounds;      /* (optional, 31) */
    double most_s;   /* (optional) of slow cases: so long behind the first of them no round begins,
                      * but for the first three */
} bench_case;

typedef struct bench_row {
    char name[64], peer_name[64], unit[16];
    double ours, peer, limit; /* in the unit; 0 where there is none */
    double spread;            /* of ours: distance of the quartiles, as a share of the median */
    bool rate;
} bench_row;

typedef struct bench {
    const char *path, *filter;
    struct {
        bench_row *items;
        int64_t count, capacity;
    } rows;
} bench;

tl_status bench_begin(bench *b, int argc, char **argv);
/* Whether the filter lets a case of this name through, for setup that is costly. */
bool bench_wants(const bench *b, const char *name);
tl_status bench_run(bench *b, const bench_case *c);
/* Writes the rows, tells a failure, and returns the program's exit status. */
int bench_end(bench *b, tl_status status);

enum { BENCH_FOLDER = 256 };

/* A new folder for files, below TMPDIR or /tmp; "" after a failure. */
tl_status bench_folder_make(char out[BENCH_FOLDER]);
/* With all that is in it; "" is fine. */
void bench_folder_remove(const char *folder);

/* Cycles of this CPU in a nanosecond, timed with a chain of additions. */
double bench_cycles_per_ns(void);

/* Keeps the compiler from leaving out what makes this value. */
#define BENCH_KEEP(value) __asm__ volatile("" : : "g"(value) : "memory")

#endif
