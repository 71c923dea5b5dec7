#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

/* --- peers that are programs ------------------------------------------------------------------ */

static void close_pipe(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

tl_status bench_peer_start(bench_peer *out, const char *const *argv)
{
    *out = (bench_peer)BENCH_PEER_INIT;
    return getenv("TILTH_BENCH_ALONE") ? TL_OK : bench_program_start(out, argv);
}

tl_status bench_program_start(bench_peer *out, const char *const *argv)
{
    *out = (bench_peer)BENCH_PEER_INIT;
    signal(SIGPIPE, SIG_IGN); // a peer that ended is found out by writing to it
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0)
        return TL_FAIL(TL_EIO, "no pipe for the peer %s: %s", argv[0], strerror(errno));
    if (pipe2(from, O_CLOEXEC) != 0) {
        close_pipe(&to[0]);
        close_pipe(&to[1]);
        return TL_FAIL(TL_EIO, "no pipe for the peer %s: %s", argv[0], strerror(errno));
    }
    pid_t process = fork();
    if (process == 0) {
        dup2(to[0], STDIN_FILENO); // all other pipes close by themselves, those of other peers too
        dup2(from[1], STDOUT_FILENO);
        execvp(argv[0], (char *const *)argv);
        fprintf(stderr, "the peer %s cannot be started: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    close_pipe(&to[0]);
    close_pipe(&from[1]);
    *out = (bench_peer){process, to[1], from[0]};
    if (process > 0) return TL_OK;
    out->process = 0;
    bench_peer_stop(out);
    return TL_FAIL(TL_ELIMIT, "no process for the peer %s: %s", argv[0], strerror(errno));
}

/* One line of an answer, its newline cut off. */
static tl_status read_line(bench_peer *peer, char *line, size_t size)
{
    enum { PATIENCE_MS = 600000 };
    for (size_t length = 0;;) {
        struct pollfd ready = {.fd = peer->from, .events = POLLIN};
        int polled = poll(&ready, 1, PATIENCE_MS);
        if (polled < 0 && errno == EINTR) continue;
        if (polled == 0) return TL_FAIL(TL_EIO, "the peer does not answer");
        if (polled < 0 || read(peer->from, line + length, 1) != 1)
            return TL_FAIL(TL_EIO, "the peer has ended");
        if (line[length] == '\n') {
            line[length] = '\0';
            return TL_OK;
        }
        if (length + 1 < size) length++;
    }
}

tl_status bench_peer_ask(bench_peer *peer, const char *name, double *seconds)
{
    *seconds = 0;
    if (peer->to < 0) return TL_FAIL(TL_ESTATE, "the peer was not started");
    if (dprintf(peer->to, "%s\n", name) < 0) return TL_FAIL(TL_EIO, "the peer has ended");
    char line[256], *end;
    TL_TRY(read_line(peer, line, sizeof line));
    double answer = strtod(line, &end);
    if (end == line || *end || !(answer > 0))
        return TL_FAIL(TL_ENOTFOUND, "the peer says: %s", line);
    *seconds = answer;
    return TL_OK;
}

void bench_peer_stop(bench_peer *peer)
{
    close_pipe(&peer->to); // the end of its input ends it
    close_pipe(&peer->from);
    if (peer->process > 0) waitpid(peer->process, NULL, 0);
    peer->process = 0;
}

/* --- samples ---------------------------------------------------------------------------------- */

static const struct unit {
    const char *name;
    bool rate;
    double per; /* units in a second, or in an item a second */
} units[] = {
    {"s", false, 1},         {"ms", false, 1e3},       {"us", false, 1e6},   {"ns", false, 1e9},
    {"/s", true, 1},         {"M/s", true, 1e-6},      {"MB/s", true, 1e-6}, {"GB/s", true, 1e-9},
    {"GFLOP/s", true, 1e-9}, {"TFLOP/s", true, 1e-12},
};

static const struct unit *find_unit(const char *name)
{
    for (int64_t i = 0; i < TL_COUNT(units); i++)
        if (strcmp(units[i].name, name) == 0) return &units[i];
    return NULL;
}

static double seconds_of(bench_fn *fn, bench_fn *wait, void *payload, int64_t calls)
{
    int64_t start = tl_clock_ns();
    for (int64_t i = 0; i < calls; i++) fn(payload);
    if (wait) wait(payload);
    return (double)(tl_clock_ns() - start) * 1e-9;
}

/* How many calls fill a sample. The doubling warms caches and threads as well. */
static int64_t calibrate(bench_fn *fn, bench_fn *wait, void *payload, double sample_s)
{
    for (int64_t calls = 1;; calls *= 2) {
        double seconds = seconds_of(fn, wait, payload, calls);
        if (seconds >= sample_s) return calls;
        if (seconds > sample_s / 8) return (int64_t)((double)calls * sample_s / seconds) + 1;
    }
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The functions of a case: ours, the peer's, the limit's. */
enum { OURS, PEER, LIMIT, PARTS };

typedef struct part {
    bench_fn *fn, *wait;
    bench_peer *program;
    int64_t calls;
    double *seconds; /* of a call, one a round */
} part;

/* A peer that does not answer is left out of the row. */
static tl_status sample(const bench_case *c, part *p, int round)
{
    if (p->program) {
        tl_status st = bench_peer_ask(p->program, c->name, &p->seconds[round]);
        if (st == TL_OK || p->program == c->own_program) return st;
        printf("%s: %s\n", c->name, tl_error_message());
        p->program = NULL;
    }
    if (!p->fn) return TL_OK;
    if (c->rest_s > 0) tl_sleep_ns((int64_t)(c->rest_s * 1e9));
    if (c->rest_s > 0 || c->warm) // wakes the own threads
        (void)seconds_of(p->fn, p->wait, c->payload, p->calls / 16 + 1);
    p->seconds[round] = seconds_of(p->fn, p->wait, c->payload, p->calls) / (double)p->calls;
    return TL_OK;
}

static double median(double *values, int count, double *spread)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    double middle = values[count / 2];
    if (spread) *spread = (values[count * 3 / 4] - values[count / 4]) / middle;
    return middle;
}

static double in_unit(const struct unit *u, const bench_case *c, double seconds)
{
    return u->rate ? c->amount / seconds * u->per : seconds * u->per;
}

/* --- rows ------------------------------------------------------------------------------------- */

static double ratio_of(const bench_row *r)
{
    return r->rate ? r->ours / r->peer : r->peer / r->ours;
}

static double limit_share_of(const bench_row *r)
{
    return r->rate ? r->ours / r->limit : r->limit / r->ours;
}

static void print_row(const bench_row *r)
{
    printf("%-36s %10.4g %-8s +-%3.0f%%", r->name, r->ours, r->unit, 50 * r->spread);
    if (r->peer > 0) printf("  %-22s %10.4g  x%.2f", r->peer_name, r->peer, ratio_of(r));
    if (r->limit > 0) printf("  %3.0f%% of the limit %.4g", 100 * limit_share_of(r), r->limit);
    printf("\n");
    fflush(stdout);
}

static void add_text(tl_str *s, const char *text)
{
    tl_str_addc(s, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') tl_str_addc(s, '\\');
        if ((unsigned char)*text < ' ') tl_str_addf(s, "\\u%04x", (unsigned)*text);
        else tl_str_addc(s, *text);
    }
    tl_str_addc(s, '"');
}

static void add_number(tl_str *s, const char *key, double value, bool present)
{
    char text[32];
    tl_double_text(text, value);
    tl_str_addf(s, ", \"%s\": %s", key, present ? text : "null");
}

static tl_status write_rows(const bench *b)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "[");
    for (int64_t i = 0; i < b->rows.count; i++) {
        const bench_row *r = &b->rows.items[i];
        bool peer = r->peer > 0, limit = r->limit > 0;
        tl_str_add(&s, i ? ",\n {\"case\": " : "\n {\"case\": ");
        add_text(&s, r->name);
        tl_str_add(&s, ", \"unit\": ");
        add_text(&s, r->unit);
        add_number(&s, "ours", r->ours, true);
        add_number(&s, "peer", r->peer, peer);
        tl_str_add(&s, ", \"peer_name\": ");
        if (*r->peer_name) add_text(&s, r->peer_name);
        else tl_str_add(&s, "null");
        add_number(&s, "ratio", peer ? ratio_of(r) : 0, peer);
        add_number(&s, "limit_share", limit ? limit_share_of(r) : 0, limit);
        tl_str_add(&s, "}");
    }
    tl_str_add(&s, "\n]\n");
    tl_status status;
    TL_TRY_DONE(status, tl_str_status(&s));
    FILE *f = fopen(b->path, "w");
    if (!f || fwrite(s.data, 1, s.length, f) != s.length)
        status = TL_FAIL(TL_EIO, "%s cannot be written: %s", b->path, strerror(errno));
    if (f && fclose(f) != 0 && status == TL_OK)
        status = TL_FAIL(TL_EIO, "%s cannot be written: %s", b->path, strerror(errno));
done:
    tl_str_deinit(&s);
    return status;
}

/* --- the program ------------------------------------------------------------------------------ */

tl_status bench_begin(bench *b, int argc, char **argv)
{
    *b = (bench){0};
    if (argc < 2 || argc > 3)
        return TL_FAIL(TL_EINVAL, "usage: %s rows.json [text in the names of cases]", argv[0]);
    b->path = argv[1];
    b->filter = argc > 2 ? argv[2] : "";
    return TL_OK;
}

bool bench_wants(const bench *b, const char *name)
{
    return strstr(name, b->filter) != NULL;
}

static bool is_late(const bench_case *c, int64_t begin_ns)
{
    return c->most_s > 0 && (double)(tl_clock_ns() - begin_ns) * 1e-9 > c->most_s;
}

tl_status bench_run(bench *b, const bench_case *c)
{
    enum { ROUNDS = 31, LEAST = 3 };
    if (!bench_wants(b, c->name)) return TL_OK;
    const struct unit *u = find_unit(c->unit);
    if (!u) return TL_FAIL(TL_EINVAL, "%s: the unit '%s' is not known", c->name, c->unit);
    int rounds = c->rounds > 0 ? c->rounds : ROUNDS;
    double sample_s = c->sample_s > 0 ? c->sample_s : 0.002;
    double *seconds = tl_alloc_zero((size_t)rounds * PARTS * sizeof *seconds);
    if (!seconds) return TL_FAIL_NOMEM((size_t)rounds * PARTS * sizeof *seconds);
    part parts[PARTS] = {
        {.fn = c->own_program ? NULL : c->ours, .wait = c->wait, .program = c->own_program},
        {.fn = c->program ? NULL : c->peer, .program = c->program},
        {.fn = c->limit_fn},
    };
    for (int i = 0; i < PARTS; i++) {
        parts[i].seconds = seconds + i * rounds;
        if (parts[i].fn)
            parts[i].calls = calibrate(parts[i].fn, parts[i].wait, c->payload, sample_s);
    }
    int64_t begin_ns = 0;
    int done = 0;
    tl_status st = TL_OK;
    for (; st == TL_OK && done < rounds && !(done >= LEAST && is_late(c, begin_ns)); done++) {
        if (done == 1) begin_ns = tl_clock_ns(); // in the first, programs make ready what they need
        if (c->anew) c->anew(c->payload);
        for (int i = 0; i < PARTS && st == TL_OK; i++)
            st = sample(c, &parts[done % 2 ? PARTS - 1 - i : i], done);
    }
    if (st != TL_OK) {
        tl_free(seconds);
        return tl_error_note(st, "%s", c->name);
    }

    bench_row row = {.rate = u->rate, .limit = c->limit};
    snprintf(row.name, sizeof row.name, "%s", c->name);
    snprintf(row.unit, sizeof row.unit, "%s", c->unit);
    snprintf(row.peer_name, sizeof row.peer_name, "%s", c->peer_name ? c->peer_name : "");
    row.ours = in_unit(u, c, median(parts[OURS].seconds, done, &row.spread));
    if (parts[PEER].fn || parts[PEER].program)
        row.peer = in_unit(u, c, median(parts[PEER].seconds, done, NULL));
    if (parts[LIMIT].fn) row.limit = in_unit(u, c, median(parts[LIMIT].seconds, done, NULL));
    print_row(&row);
    tl_free(seconds);
    return TL_VEC_PUSH(&b->rows, row) ? TL_OK : TL_ENOMEM;
}

int bench_end(bench *b, tl_status status)
{
    if (status == TL_OK) status = write_rows(b);
    if (status != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    TL_VEC_FREE(&b->rows);
    return status == TL_OK ? 0 : 1;
}

tl_status bench_folder_make(char out[BENCH_FOLDER])
{
    const char *below = getenv("TMPDIR");
    if (!below || !*below) below = "/tmp";
    int length = snprintf(out, BENCH_FOLDER, "%s/tilth-bench-XXXXXX", below);
    if (length < BENCH_FOLDER && mkdtemp(out)) return TL_OK;
    *out = '\0';
    return TL_FAIL(TL_EIO, "no folder can be made below '%s': set TMPDIR to one that takes files",
                   below);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s, (void)type, (void)where;
    return remove(path);
}

void bench_folder_remove(const char *folder)
{
    if (*folder && nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "%s is left behind\n", folder);
}

double bench_cycles_per_ns(void)
{
    enum { ADDITIONS = 1000000, LONG_NS = 300000000 }; // long enough for a clock to speed up
    double best = 0;
    for (int64_t begin = tl_clock_ns(); tl_clock_ns() - begin < LONG_NS;) {
        int64_t x = 1, start = tl_clock_ns();
        for (int i = 0; i < ADDITIONS; i++) {
            x += 3; // waits for the one before it: one cycle
            __asm__ volatile("" : "+r"(x));
        }
        double rate = ADDITIONS / (double)(tl_clock_ns() - start);
        if (rate > best) best = rate; // whatever disturbs makes it slower
    }
    return best;
}
