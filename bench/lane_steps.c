#include "lane_steps.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/ops/loss.h>
#include <tilth/tilth.h>

#include "models.h"

enum { LINE = 128, MOST_RANKS = 8 };
#define SAMPLE_S 0.1
#define SLOW_S 1

/* --- a training ------------------------------------------------------------------------------- */

static tl_tensor *losses(tl_task *t, tl_ctx *c, const tl_tensors *labels, const tl_tensors *outputs,
                         tl_tensor *aux)
{
    (void)t, (void)aux;
    return tl_sparse_cross_entropy(c, labels->items[0].tensor, outputs->items[0].tensor);
}

static const tl_task_class task_class = {
    .cls = TL_CLASS(tl_task_class, "bench_steps", &tl_base_task.cls, tl_task, NULL),
    .build_losses = losses,
};

typedef struct work {
    const lane_steps *how;
    tl_world *world;
    const step_model *model; /* the last that was asked for */
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_trainer *trainer;
    tl_logs *logs;
} work;

static void drop(work *w)
{
    tl_trainer_free(&w->trainer);
    tl_logs_free(&w->logs);
    tl_task_free(&w->task);
    tl_strategy_free(&w->strategy);
    tl_config_free(&w->config);
    tl_registry_free(&w->registry);
}

static tl_status configure(work *w)
{
    char changes[512];
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    options.experiment = "mock";
    snprintf(changes, sizeof changes,
             "tilth: {lanes: %d, gradient_accumulation: %d, zero: %d}\n"
             "task: {train_data: {global_batch_size: %d}}\n"
             "trainer:\n"
             "  optimizer_config:\n"
             "    optimizer: {type: adamw, adamw: {weight_decay_rate: 0.01, gradient_clip_norm: "
             "0}}\n"
             "    learning_rate: {type: constant, constant: {learning_rate: 0.001}}\n",
             w->how->lanes, w->how->accumulation, w->how->zero,
             w->how->lanes * w->how->accumulation);
    TL_TRY(tl_registry_new_builtin(&w->registry));
    TL_TRY(tl_experiment_begin(&w->config, w->registry, &options));
    TL_TRY(tl_config_yaml(w->config, changes, "bench"));
    return tl_experiment_finish(w->config, w->registry, options.experiment);
}

/* One of so many parts of a batch, which is of two rows at least, so that two can share it. */
static tl_shape part_of(tl_shape whole, int64_t batch, int64_t parts)
{
    const int64_t all = batch > 2 ? batch : 2, rows = all > parts ? all / parts : 1;
    whole.dims[0] = whole.dims[0] / batch * rows;
    return whole;
}

static void fill(void *data, const tl_tensor *t, int64_t below)
{
    tl_rng rng;
    tl_rng_init(&rng, 1);
    for (int64_t i = 0; i < tl_tensor_count(t); i++)
        if (t->dtype == TL_F32) ((float *)data)[i] = (float)tl_rng_u32(&rng) * 0x1p-30f - 2;
        else ((int64_t *)data)[i] = tl_rng_below(&rng, below);
}

static tl_status make_tensor(tl_tensor **out, tl_engine *e, tl_dtype dtype, tl_shape shape,
                             int64_t below)
{
    tl_lease lease;
    TL_TRY(tl_tensor_new(out, e, dtype, shape));
    TL_TRY(tl_lease_discard(&lease, *out));
    fill(lease.data, *out, below);
    return tl_lease_end(&lease);
}

/* One batch, over and over. */
static tl_status make_data(tl_dataset **out, tl_engine *e, const step_model *m, tl_shape input,
                           tl_shape labels)
{
    tl_tensor *x = NULL, *y = NULL;
    *out = NULL;
    tl_status st = make_tensor(&x, e, m->ids ? TL_I64 : TL_F32, input, m->classes);
    if (st == TL_OK) st = make_tensor(&y, e, TL_I64, labels, m->classes);
    tl_named fields[] = {{"x", x}, {"y", y}};
    const tl_tensors batch = {.items = fields, .count = TL_COUNT(fields)};
    if (st == TL_OK) st = tl_dataset_from_batches(out, &batch, 1, true);
    tl_tensor_free(&x);
    tl_tensor_free(&y);
    return st;
}

static tl_status make(work *w, const step_model *m)
{
    const int64_t batch = m->input.dims[0], parts = w->how->lanes * w->how->accumulation;
    const tl_spec input = {"x", m->ids ? TL_I64 : TL_F32, part_of(m->input, batch, parts)};
    tl_model *model = NULL;
    tl_dataset *data = NULL;
    drop(w);
    TL_TRY(configure(w));
    const tl_experiment_config *e = tl_config_value(w->config);
    TL_TRY(
        tl_get_distribution_strategy(&w->strategy, &(tl_strategy_args){.registry = w->registry,
                                                                       .threads = w->how->threads,
                                                                       .lanes = w->how->lanes,
                                                                       .world = w->world}));
    tl_engine *engine = tl_strategy_engine(w->strategy);
    TL_TRY(tl_task_new(
        &w->task, &task_class,
        &(tl_task_args){.registry = w->registry, .config = &e->task, .engine = engine, .seed = 1}));
    TL_TRY(tl_logs_new(&w->logs));
    TL_TRY(make_data(&data, engine, m, input.shape, part_of(m->labels, batch, parts)));
    tl_status st = tl_model_new(&model, &(tl_model_args){.engine = engine,
                                                         .cls = m->cls,
                                                         .config = m->config,
                                                         .inputs = &input,
                                                         .input_count = 1,
                                                         .seed = 1});
    if (st != TL_OK) {
        tl_dataset_free(&data);
        return st;
    }
    return tl_trainer_new(&w->trainer, &(tl_trainer_args){.config = e,
                                                          .strategy = w->strategy,
                                                          .task = w->task,
                                                          .model = model,
                                                          .train_dataset = data,
                                                          .train = true,
                                                          .seed = 1});
}

/* --- times ------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    const bool cpu = getenv("TILTH_BENCH_CPU") != NULL;
    clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of so many steps: of the first process, or of the processors of all. */
static tl_status take_steps(work *w, int64_t count, double *seconds)
{
    tl_comm *comm = tl_world_comm(w->world);
    TL_TRY(tl_comm_barrier(comm->world));
    const double begin = now();
    TL_TRY(tl_trainer_train(w->trainer, count, w->logs));
    double own = now() - begin, all = 0;
    TL_TRY(tl_comm_all_reduce(comm->world, &(tl_comm_sum){.dtype = TL_F64,
                                                          .count = 1,
                                                          .lanes = comm->size,
                                                          .partials = (const void *const[]){&own},
                                                          .out = &all}));
    const bool cpu = getenv("TILTH_BENCH_CPU") != NULL;
    *seconds = all / comm->size / (cpu ? w->how->threads : 1);
    return TL_OK;
}

static const step_model *find(const char *line)
{
    if (strcmp(line, large_mlp.name) == 0) return &large_mlp;
    for (int64_t i = 0; i < step_model_count; i++)
        if (strncmp(line, step_models[i].name, strlen(step_models[i].name)) == 0)
            return &step_models[i];
    return NULL;
}

/* Captured, compiled, and once with all sums in place; fast ones once more. */
static tl_status warm(work *w)
{
    double seconds;
    TL_TRY(take_steps(w, 1, &seconds));
    TL_TRY(take_steps(w, 1, &seconds)); // the same in all processes
    return seconds < SLOW_S ? take_steps(w, 1, &seconds) : TL_OK;
}

static tl_status measure(work *w, const step_model *m, double *seconds)
{
    tl_comm *comm = tl_world_comm(w->world);
    if (m != w->model) {
        TL_TRY(make(w, m));
        TL_TRY(warm(w));
        w->model = m;
    }
    TL_TRY(take_steps(w, 1, seconds));
    uint64_t count = *seconds < SAMPLE_S ? (uint64_t)(SAMPLE_S / (*seconds + 1e-7)) + 1 : 1;
    TL_TRY(tl_comm_broadcast(comm->world, &count, sizeof count, 0));
    if (count == 1) return TL_OK;
    TL_TRY(take_steps(w, (int64_t)count, seconds));
    *seconds /= (double)count;
    return TL_OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Megabytes: private pages, and of those that several processes have, a share. */
static double resident_mb(void)
{
    char line[LINE];
    double kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "Pss:", 4) == 0) kb = strtod(line + 4, NULL);
    if (f) fclose(f);
    return kb / 1024;
}

static tl_status mean(const work *w, double *value)
{
    const tl_comm *comm = tl_world_comm(w->world);
    double own = *value;
    TL_TRY(tl_comm_all_reduce(comm->world, &(tl_comm_sum){.dtype = TL_F64,
                                                          .count = 1,
                                                          .lanes = comm->size,
                                                          .partials = (const void *const[]){&own},
                                                          .out = value}));
    *value /= comm->size;
    return TL_OK;
}

static double planned_mb(const work *w, int64_t level)
{
    double sum = 0;
    for (int r = 0; r < w->how->lanes; r++) {
        tl_training_memory m;
        tl_trainer_plan_memory(
            w->trainer,
            &(tl_optimizer_sharing){
                .rank = r, .ranks = w->how->lanes, .level = level, .common = true},
            &m);
        sum += m.total;
    }
    return sum / w->how->lanes / 1048576;
}

/* What is loaded once is there when the smallest model was trained. */
static tl_status tell_memory(work *w, const step_model *m)
{
    enum { STEPS = 3 };
    TL_TRY(make(w, &step_models[0]));
    TL_TRY(tl_trainer_train(w->trainer, STEPS, w->logs));
    drop(w);
    malloc_trim(0);
    TL_TRY(tl_comm_barrier(tl_world_comm(w->world)->world));
    const double before = resident_mb();
    TL_TRY(make(w, m));
    TL_TRY(tl_trainer_train(w->trainer, STEPS, w->logs));
    malloc_trim(0);
    double counted = tl_trainer_memory(w->trainer) / 1048576;
    TL_TRY(tl_comm_barrier(tl_world_comm(w->world)->world));
    double taken = resident_mb() - before;
    TL_TRY(mean(w, &taken));
    TL_TRY(mean(w, &counted));
    if (tl_world_comm(w->world)->rank) return TL_OK;
    printf("%.3f %.3f", taken, counted);
    for (int level = 0; w->how->ranks == 1 && level < 4; level++)
        printf(" %.3f", planned_mb(w, level));
    printf("\n");
    return TL_OK;
}

/* --- processes -------------------------------------------------------------------------------- */

/* As torchrun would have started it: processes find each other by the port. */
static void become(int rank, int size, int port)
{
    static const char *const names[] = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                        "MASTER_PORT"};
    const int values[] = {rank, rank, size, size, port};
    char text[16];
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        snprintf(text, sizeof text, "%d", values[i]);
        setenv(names[i], text, 1);
    }
    setenv("MASTER_ADDR", "127.0.0.1", 1);
}

/* Rank 0 reads what the others hear of; an empty line is the end. */
static tl_status serve(work *w)
{
    tl_comm *comm = tl_world_comm(w->world);
    char line[LINE];
    for (;;) {
        memset(line, 0, sizeof line);
        if (comm->rank == 0 && !fgets(line, sizeof line, stdin)) *line = '\0';
        line[strcspn(line, "\n")] = '\0';
        TL_TRY(tl_comm_broadcast(comm->world, line, sizeof line, 0));
        if (!*line) return TL_OK;
        const step_model *m = find(line);
        double seconds = 0;
        if (m && w->how->memory) {
            TL_TRY(tell_memory(w, m));
            fflush(stdout);
            continue;
        }
        if (m) TL_TRY(measure(w, m, &seconds));
        if (comm->rank == 0) printf(m ? "%.9f\n" : "no such case\n", seconds);
        fflush(stdout);
    }
}

static int run_rank(const lane_steps *how)
{
    work w = {.how = how};
    tl_log_set_level(TL_LEVEL_WARNING);
    tl_status st = tl_world_open(&w.world, &(tl_world_args){.peer_timeout_s = 1e6});
    if (st == TL_OK) st = serve(&w);
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    drop(&w);
    tl_world_close(&w.world, st);
    return st != TL_OK;
}

int lane_steps_answer(const lane_steps *how)
{
    const int port = 20000 + (int)(getpid() % 20000);
    pid_t pids[MOST_RANKS] = {0};
    fflush(NULL);
    for (int r = 1; r < how->ranks && r < MOST_RANKS; r++) {
        pids[r] = fork();
        if (pids[r] != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        become(r, how->ranks, port);
        _exit(run_rank(how));
    }
    if (how->ranks > 1) become(0, how->ranks, port);
    const int code = run_rank(how);
    for (int r = 1; r < how->ranks && r < MOST_RANKS; r++)
        if (pids[r] > 0) waitpid(pids[r], NULL, 0);
    return code;
}
