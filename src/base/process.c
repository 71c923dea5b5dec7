#include "base/inner/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

static bool names_same(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length) == 0 && b[length] == '=';
}

/* Ours, with those variables instead; NULL: no memory. Its texts are borrowed. */
static const char **environment_with(const char *const *variables)
{
    size_t count = 0, more = 0, kept = 0;
    while (environ[count]) count++;
    while (variables[more]) more++;
    const char **all = tl_alloc((count + more + 1) * sizeof *all);
    for (size_t i = 0; all && i < count; i++) {
        size_t k = 0;
        while (k < more && !names_same(variables[k], environ[i])) k++;
        if (k == more) all[kept++] = environ[i];
    }
    for (size_t k = 0; all && k <= more; k++) all[kept++] = variables[k]; // and the NULL
    return all;
}

static int set_streams(posix_spawn_file_actions_t *actions, const tli_process_args *args)
{
    int error =
        args->input < 0
            ? posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
            : posix_spawn_file_actions_adddup2(actions, args->input, STDIN_FILENO);
    if (error) return error;
    if (args->output < 0)
        return posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    error = posix_spawn_file_actions_adddup2(actions, args->output, STDOUT_FILENO);
    return error ? error : posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
}

static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, every;
    struct sigaction hangup;
    sigemptyset(&none);
    sigfillset(&every);
    // as by nohup
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
        sigdelset(&every, SIGHUP);
    int error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK
                                                         | POSIX_SPAWN_SETSIGDEF);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    if (!error) error = posix_spawnattr_setsigmask(attributes, &none);
    return error ? error : posix_spawnattr_setsigdefault(attributes, &every);
}

int tli_process_start(pid_t *out, const tli_process_args *args)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const char **environment = environment_with(args->variables);
    int error = environment ? posix_spawn_file_actions_init(&actions) : ENOMEM;
    if (error) goto done;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_streams(&actions, args);
        if (!error) error = set_signals(&attributes);
        if (!error)
            error = posix_spawn(out, args->program, &actions, &attributes,
                                (char *const *)(uintptr_t)args->argv,
                                (char *const *)(uintptr_t)environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
done:
    tl_free(environment);
    return error;
}
