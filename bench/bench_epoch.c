/* Whole epochs of the experiment fashion_mnist/cnn, with its input pipeline, and the time from the
 * start of a process to its first finished step.
 *
 * The peers train the same network on the same files in batches of the same size: PyTorch in the
 * fastest of its ways (bench/peers/epoch.py) and Keras with tf.data (bench/peers/epoch_tf.py).
 * Epochs are those of a process that is warm. The start is that of the program, from its call to
 * its end, after a step and a checkpoint; of a peer it is the time until the first step is done. */
#include "bench.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/pool.h>

#include "training.h"

enum { BATCH = 128, STEPS = 60000 / BATCH };

/* --- epochs ----------------------------------------------------------------------------------- */

static tl_status make(training *t, const char *precision)
{
    const tl_parse_options options = {
        .experiment = "fashion_mnist/cnn",
        .strict_override = true,
        .params_override = "tilth.seed=1,task.train_data.global_batch_size=128",
    };
    tl_dtype dtype;
    TL_TRY(tl_mixed_precision_policy(&dtype, precision));
    TL_TRY(tl_registry_new_builtin(&t->registry));
    TL_TRY(tl_experiment_parse(&t->config, t->registry, &options));
    const tl_experiment_config *e = tl_config_value(t->config);
    TL_TRY(tl_get_distribution_strategy(
        &t->strategy,
        &(tl_strategy_args){.registry = t->registry, .distribution_strategy = "one_device"}));
    TL_TRY(tl_get_task(&t->task, &(tl_task_args){.registry = t->registry,
                                                 .config = &e->task,
                                                 .engine = tl_strategy_engine(t->strategy),
                                                 .dtype = dtype,
                                                 .seed = 1}));
    TL_TRY(tl_logs_new(&t->logs));
    return tl_create_trainer(&t->trainer, e, t->task, t->strategy, true, false, NULL, NULL, 1);
}

static tl_status run_epochs(bench *b, const char *precision, const bench_case *cases, int64_t count)
{
    training t = {.steps = STEPS};
    tl_status st = TL_OK;
    bool wanted = false;
    for (int64_t i = 0; i < count; i++) wanted = wanted || bench_wants(b, cases[i].name);
    if (wanted) st = make(&t, precision);
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        bench_case c = cases[i];
        c.unit = "s";
        c.ours = training_run;
        c.payload = &t;
        c.rounds = 3;
        st = bench_run(b, &c);
    }
    training_deinit(&t);
    return st;
}

/* --- the start -------------------------------------------------------------------------------- */

typedef struct start {
    const char *program;
    char folder[BENCH_FOLDER];
    int runs;
} start;

/* Times of a program that does not do its work would mean nothing. */
__attribute__((format(printf, 2, 3))) static _Noreturn void stop_at(const char *program,
                                                                    const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%s ", program);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

static void run_first_step(void *payload)
{
    start *s = payload;
    char folder[BENCH_FOLDER + 32];
    snprintf(folder, sizeof folder, "--model_dir=%s/%d", s->folder, s->runs++);
    const char *const arguments[] = {s->program,
                                     "train",
                                     "--experiment=fashion_mnist/cnn",
                                     "--mode=train",
                                     folder,
                                     "--verbosity=-1",
                                     "trainer.train_steps=1",
                                     "trainer.steps_per_loop=1",
                                     "trainer.summary_interval=1",
                                     "trainer.checkpoint_interval=1",
                                     NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int status = -1;
    int error = posix_spawnp(&child, s->program, &quiet, NULL, (char *const *)arguments, environ);
    if (error)
        stop_at(s->program, "cannot be started: %s; build it, or say where it is by TILTH",
                strerror(error));
    if (waitpid(child, &status, 0) != child) stop_at(s->program, "is not there to be waited for");
    if (WIFSIGNALED(status)) stop_at(s->program, "ended by signal %d", WTERMSIG(status));
    if (status != 0) stop_at(s->program, "ended with status %d", WEXITSTATUS(status));
    posix_spawn_file_actions_destroy(&quiet);
}

static tl_status run_starts(bench *b, const bench_case *cases, int64_t count)
{
    start s = {.program = getenv("TILTH") ? getenv("TILTH") : "build/tilth"};
    tl_status st = bench_folder_make(s.folder);
    for (int64_t i = 0; st == TL_OK && i < count; i++) {
        bench_case c = cases[i];
        c.unit = "ms";
        c.ours = run_first_step;
        c.payload = &s;
        c.rounds = 7;
        st = bench_run(b, &c);
    }
    bench_folder_remove(s.folder);
    return st;
}

int main(int argc, char **argv)
{
    bench b;
    bench_peer torch = BENCH_PEER_INIT, keras = BENCH_PEER_INIT;
    char threads[16];
    tl_status st;
    tl_log_set_level(TL_LEVEL_WARNING);
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    snprintf(threads, sizeof threads, "%d", tl_pool_default_threads());
    const char *const with_torch[] = {".venv-torch/bin/python", "bench/peers/epoch.py", threads,
                                      NULL};
    const char *const with_keras[] = {".venv-tf/bin/python", "bench/peers/epoch_tf.py", threads,
                                      NULL};
    TL_TRY_DONE(st, bench_peer_start(&torch, with_torch));
    TL_TRY_DONE(st, bench_peer_start(&keras, with_keras));
    const bench_case starts[] = {
        {.name = "first step", .program = &torch, .peer_name = "PyTorch, eager"},
        {.name = "first step, beside Keras", .program = &keras, .peer_name = "Keras"},
    };
    const bench_case epochs[] = {
        {.name = "epoch f32", .program = &torch, .peer_name = "best of PyTorch"},
        {.name = "epoch f32, beside Keras", .program = &keras, .peer_name = "Keras, tf.data"},
    };
    const bench_case half[] = {
        {.name = "epoch mixed_bfloat16", .program = &torch, .peer_name = "best of PyTorch"}};
    TL_TRY_DONE(st, run_starts(&b, starts, TL_COUNT(starts)));
    TL_TRY_DONE(st, run_epochs(&b, "float32", epochs, TL_COUNT(epochs)));
    st = run_epochs(&b, "mixed_bfloat16", half, TL_COUNT(half));
done:
    bench_peer_stop(&torch);
    bench_peer_stop(&keras);
    return bench_end(&b, st);
}
