/* Several processes of one machine, through shared memory.
 *
 * Training steps of the models of bench step, two processes of one thread: against PyTorch's
 * DistributedDataParallel over gloo (bench/peers/distributed_steps.py), and against one process of
 * two threads with the same batch, where the ratio is the efficiency. Four lanes of one process
 * against as many batches that are accumulated. TILTH_BENCH_CPU=1 takes times of processors
 * (lane_steps.h).
 *
 * Sums, against MPI_Allreduce (bench/peers/distributed_mpi.c, where an MPI is installed) and gloo
 * (bench/peers/distributed.py). Names are those of the peers' cases: how many ranks, how many bytes
 * of float32. */
#include "bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/comm/shm.h>

#include "lane_steps.h"
#include "models.h"

enum { MOST_RANKS = 8 };

/* --- sums ------------------------------------------------------------------------------------- */

typedef struct work {
    tl_comm *comm;
    float *block;
    int64_t count;
} work;

static tl_status reduce(const work *w)
{
    return tl_comm_all_reduce(w->comm->world,
                              &(tl_comm_sum){.dtype = TL_F32,
                                             .count = w->count,
                                             .lanes = w->comm->size,
                                             .partials = (const void *const[]){w->block},
                                             .out = w->block});
}

static void reduce_ours(void *payload)
{
    if (reduce(payload) != TL_OK) abort();
}

static tl_status open_work(work *out, int32_t rank, int32_t size, const int *files, size_t bytes)
{
    *out = (work){.count = (int64_t)(bytes / sizeof(float))};
    TL_TRY(tl_comm_open(&out->comm, &tl_comm_shm,
                        &(tl_comm_args){.rank = rank, .size = size, .files = files}));
    out->block = tl_comm_alloc(out->comm, bytes);
    return out->block ? TL_OK : TL_ENOMEM;
}

/* A peer of ours: sums with rank 0 as often as it does, until that one leaves. */
static void follow(int32_t rank, int32_t size, const int *files, size_t bytes)
{
    work w;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tl_status st = open_work(&w, rank, size, files, bytes);
    while (st == TL_OK) st = reduce(&w);
    _exit(st != TL_EPEER);
}

typedef struct peer {
    bench_peer *program;
    const char *name;
} peer;

static tl_status row(bench *b, int32_t size, size_t bytes, peer against)
{
    int files[1 + MOST_RANKS];
    pid_t pids[MOST_RANKS] = {0};
    char name[64];
    work w;
    snprintf(name, sizeof name, "%d ranks %zu bytes", (int)size, bytes);
    if (!bench_wants(b, name)) return TL_OK;
    TL_TRY(tl_comm_files_new(files, size));
    fflush(NULL);
    for (int32_t r = 1; r < size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) follow(r, size, files, bytes);
    }
    tl_status st = open_work(&w, 0, size, files, bytes);
    if (st == TL_OK)
        st = bench_run(b, &(bench_case){.name = name,
                                        .unit = "us",
                                        .ours = reduce_ours,
                                        .program = against.program,
                                        .peer_name = against.name,
                                        .payload = &w,
                                        .rounds = 11});
    tl_comm_close(&w.comm);
    tl_comm_files_close(files, size);
    for (int32_t r = 1; r < size; r++)
        if (pids[r] > 0) waitpid(pids[r], NULL, 0);
    return st;
}

static tl_status rows(bench *b, int32_t size, const char *program)
{
    static const size_t bytes[] = {8, 1024, 16384, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    char count[8];
    snprintf(count, sizeof count, "%d", (int)size);
    const char *const mpi[] = {"mpirun",
                               "--oversubscribe",
                               "--allow-run-as-root",
                               "--bind-to",
                               "none",
                               "-n",
                               count,
                               program,
                               NULL};
    const char *const torch[] = {".venv-torch/bin/python", "bench/peers/distributed.py", count,
                                 NULL};
    // One after the other: what waits may burn the processors.
    for (int which = 0; which < 2; which++) {
        bench_peer p = BENCH_PEER_INIT;
        tl_status st = bench_peer_start(&p, which ? torch : mpi);
        for (int64_t i = 0; i < TL_COUNT(bytes) && st == TL_OK; i++)
            st = row(b, size, bytes[i], (peer){&p, which ? "gloo" : "MPI_Allreduce"});
        bench_peer_stop(&p);
        TL_TRY(st);
    }
    return TL_OK;
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Two programs side by side, on each model. */
typedef struct pair {
    const char *what, *peer_name;
    lane_steps ours, theirs; /* no ranks: the script */
    bool anew;               /* new processes for each round: some percent are looked for */
} pair;
#define STEPS(r, l, a, t) TL_INIT(.ranks = (r), .lanes = (l), .accumulation = (a), .threads = (t))
static const pair pairs[] = {
    {"2 ranks", "PyTorch DDP", STEPS(2, 2, 1, 1), {0}, false},
    {"2 ranks", "1 rank, 2 threads", STEPS(2, 2, 1, 1), STEPS(1, 1, 1, 2), false},
    {"4 lanes", "accumulation 4", STEPS(1, 4, 1, 1), STEPS(1, 1, 4, 1), true},
};

typedef struct running {
    const char *self;
    const pair *of;
    bench_peer ours, theirs;
} running;

static tl_status start_steps(bench_peer *out, const char *self, const lane_steps *s)
{
    char numbers[4][16];
    const int values[] = {s->ranks, s->lanes, s->accumulation, s->threads};
    for (int i = 0; i < 4; i++) snprintf(numbers[i], sizeof numbers[i], "%d", values[i]);
    const char *const own[] = {self,       "--steps",  numbers[0], numbers[1],
                               numbers[2], numbers[3], NULL};
    static const char *const script[] = {".venv-torch/bin/python",
                                         "bench/peers/distributed_steps.py", "2", NULL};
    return s->ranks ? bench_program_start(out, own) : bench_peer_start(out, script);
}

static void stop(running *r)
{
    bench_peer_stop(&r->ours);
    bench_peer_stop(&r->theirs);
}

static tl_status start(running *r)
{
    stop(r);
    TL_TRY(start_steps(&r->ours, r->self, &r->of->ours));
    return start_steps(&r->theirs, r->self, &r->of->theirs);
}

/* A program that did not start does not answer, which is told. */
static void start_again(void *payload)
{
    if (start(payload) == TL_OK) return;
    printf("%s\n", tl_error_message());
    tl_error_clear();
}

static tl_status step_rows(bench *b, const char *self, const pair *p)
{
    running r = {self, p, BENCH_PEER_INIT, BENCH_PEER_INIT};
    tl_status st = p->anew ? TL_OK : start(&r);
    for (int64_t i = 0; i < step_model_count && st == TL_OK; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %s", step_models[i].name, p->what);
        if (!bench_wants(b, name)) continue;
        st = bench_run(b, &(bench_case){.name = name,
                                        .unit = "ms",
                                        .own_program = &r.ours,
                                        .program = &r.theirs,
                                        .peer_name = p->peer_name,
                                        .payload = &r,
                                        .anew = p->anew ? start_again : NULL,
                                        .rounds = p->anew ? 15 : 9,
                                        .most_s = 40});
    }
    stop(&r);
    return st;
}

/* --- the program ------------------------------------------------------------------------------ */

static int answer_steps(char **numbers)
{
    return lane_steps_answer(&(lane_steps){.ranks = atoi(numbers[0]),
                                           .lanes = atoi(numbers[1]),
                                           .accumulation = atoi(numbers[2]),
                                           .threads = atoi(numbers[3])});
}

int main(int argc, char **argv)
{
    bench b;
    char program[512];
    if (argc == 6 && strcmp(argv[1], "--steps") == 0) return answer_steps(argv + 2);
    snprintf(program, sizeof program, "%s_mpi", argc > 0 ? argv[0] : "");
    setenv("HWLOC_COMPONENTS", "-gl", 0); // or mpirun asks every display for its card
    tl_status st = bench_begin(&b, argc, argv);
    for (int64_t i = 0; i < TL_COUNT(pairs) && st == TL_OK; i++)
        st = step_rows(&b, argv[0], &pairs[i]);
    for (int32_t size = 2; size <= MOST_RANKS && st == TL_OK; size *= 2)
        st = rows(&b, size, program);
    return bench_end(&b, st);
}
