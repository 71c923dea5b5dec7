/* Configuration: what stands between the command line and the first step.
 *
 * The peer is the same work in Python: PyYAML reading the same files and OmegaConf merging them,
 * and a Python that has imported nothing but those two (bench/peers/config.py). */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/tilth.h>

static const char *const files[] = {
    "bench/config/full.yaml",
    "bench/config/optimizer.yaml",
    "bench/config/data.yaml",
};

typedef struct work {
    tl_registry *registry;
    const tl_desc *desc;
    const void *value; /* of a parsed experiment */
    const char *program;
} work;

static void parse_experiment(void *payload)
{
    const work *w = payload;
    const tl_parse_options options = {
        .experiment = "mock",
        .config_file = {files, TL_COUNT(files)},
        .params_override = "trainer.train_steps=100",
        .strict_override = true,
    };
    tl_config *config;
    if (tl_experiment_parse(&config, w->registry, &options) != TL_OK) abort();
    tl_config_free(&config);
}

static void write_yaml(void *payload)
{
    const work *w = payload;
    tl_str text = TL_STR_INIT;
    if (tl_yaml_write(&text, w->desc, w->value) != TL_OK) abort();
    tl_str_deinit(&text);
}

/* `tilth list` as a process, from its start to its end. */
static void run_list(void *payload)
{
    const work *w = payload;
    char *const arguments[] = {(char *)(uintptr_t)w->program, "list", NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int status = -1;
    if (posix_spawn(&child, w->program, &quiet, NULL, arguments, environ) != 0) abort();
    if (waitpid(child, &status, 0) != child || status != 0) abort();
    posix_spawn_file_actions_destroy(&quiet);
}

static tl_status run_cases(bench *b, work *w, bench_peer *peer)
{
    bench_case c = {.unit = "us", .payload = w, .program = peer, .peer_name = "PyYAML + OmegaConf"};
    c.name = "parse experiment, 3 files and overrides";
    c.ours = parse_experiment;
    TL_TRY(bench_run(b, &c));
    c.name = "write params.yaml";
    c.ours = write_yaml;
    TL_TRY(bench_run(b, &c));
    c.name = "tilth list, whole process";
    c.unit = "ms";
    c.ours = run_list;
    c.sample_s = 0.05;
    c.rounds = 11;
    c.peer_name = "python -c 'import omegaconf'";
    return bench_run(b, &c);
}

int main(int argc, char **argv)
{
    bench b;
    work w = {.program = getenv("TILTH") ? getenv("TILTH") : "build/tilth"};
    bench_peer peer = BENCH_PEER_INIT;
    tl_config *config = NULL;
    const tl_parse_options options = {
        .experiment = "mock",
        .config_file = {files, TL_COUNT(files)},
        .strict_override = true,
    };
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, tl_registry_new_builtin(&w.registry));
    TL_TRY_DONE(st, tl_experiment_parse(&config, w.registry, &options));
    w.desc = tl_config_desc(config);
    w.value = tl_config_value(config);
    const char *const command[] = {
        ".venv/bin/python", "bench/peers/config.py", files[0], files[1], files[2], NULL};
    TL_TRY_DONE(st, bench_peer_start(&peer, command));
    st = run_cases(&b, &w, &peer);
done:
    bench_peer_stop(&peer);
    tl_config_free(&config);
    tl_registry_free(&w.registry);
    return bench_end(&b, st);
}
