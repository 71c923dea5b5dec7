#include "cpu/jit_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/str.h>

#include "base/inner/isa.h"

extern char **environ;

/* --- flags ------------------------------------------------------------------------------------ */

/* Without the C library on the command line the linker has nothing to read but our object, which is
 * a good part of the time that a small unit takes; what the code calls (memcpy, fmaf) is in the
 * process already. Calls inside a unit go to the unit itself, whatever else has such a name. The
 * GNU dialect has no trigraphs: what a comment says cannot become code. */
static const char *const common_flags[] = {
    // clang-format off
    "-std=gnu17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
    "-fno-semantic-interposition", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-pipe", "-w", NULL
    // clang-format on
};

/* What the CPU can do, as src/cpu sees it. SVE stays off: code of a fixed width gives the same bits
 * on every machine. On AArch64 plain C gains nothing from what comes after the baseline. */
static const char *const *flags_of(tli_isa isa)
{
#if defined(__aarch64__)
    static const char *const flags[] = {"-march=armv8-a", NULL};
    (void)isa;
    return flags;
#elif defined(__x86_64__)
    static const char *const generic[] = {"-march=x86-64", NULL};
    static const char *const avx2[] = {"-march=x86-64", "-mavx2", "-mfma", "-mf16c", NULL};
    static const char *const avx512[] = {
        // clang-format off
        "-march=x86-64", "-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq",
        "-mavx512vl", "-mprefer-vector-width=512", NULL
        // clang-format on
    };
    return isa >= TLI_avx512 ? avx512 : isa == TLI_avx2 ? avx2 : generic;
#else
    static const char *const none[] = {NULL};
    (void)isa;
    return none;
#endif
}

static const char *target_name(void)
{
#if defined(__aarch64__)
    return "aarch64";
#elif defined(__x86_64__)
    return "x86_64";
#else
    return "other";
#endif
}

static void gather_flags(tli_jit_compiler *c, tli_isa isa)
{
    int count = 0;
    const char *const *lists[] = {common_flags, flags_of(isa)};
    for (int l = 0; l < 2; l++)
        for (const char *const *flag = lists[l]; *flag; flag++) c->flags[count++] = *flag;
    TL_ASSERT(count < TLI_JIT_FLAGS);
    c->flags[count] = NULL;
}

/* --- finding it ------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode)
           && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* A relative path would mean another file once the program changes its folder. */
static void add_absolute(tl_str *out, const char *path)
{
    char *here = *path == '/' ? NULL : getcwd(NULL, 0);
    if (here) tl_str_addf(out, "%s/", here);
    free(here);
    tl_str_add(out, path);
}

/* As a shell looks for it, except that the current folder is never searched. */
static bool find_program(tl_str *out, const char *name)
{
    if (strchr(name, '/')) {
        add_absolute(out, name);
        return is_program(tl_str_text(out));
    }
    const char *at = secure_getenv("PATH");
    if (!at) at = "/usr/local/bin:/usr/bin:/bin";
    while (*at) {
        size_t length = strcspn(at, ":");
        tl_str_cut(out, 0);
        tl_str_addn(out, at, length);
        tl_str_addf(out, "/%s", name);
        if (*at == '/' && is_program(tl_str_text(out))) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static const char *non_empty(const char *text)
{
    return text && *text ? text : NULL;
}

static tl_status find_compiler(tl_str *out, const char *wanted)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *from_env = non_empty(secure_getenv("TILTH_CC"));
    const char *one = wanted ? wanted : from_env;
    bool found = false;
    for (int i = 0; i < (one ? 1 : 3) && !found; i++) {
        tl_str_cut(out, 0);
        found = find_program(out, one ? one : usual[i]);
    }
    TL_TRY(tl_str_status(out)); // a path that was not stored was not looked at
    if (found) return TL_OK;
    if (!one)
        return TL_FAIL(TL_EUNSUPPORTED, "no C compiler: neither cc nor gcc nor clang is in PATH; "
                                        "install one, or name one with TILTH_CC");
    return TL_FAIL(TL_EUNSUPPORTED,
                   "no C compiler: %s'%s' is no program that can be run%s; give the path of one, "
                   "without options",
                   wanted ? "" : "TILTH_CC: ", one, strchr(one, '/') ? "" : " from PATH");
}

/* A compiler that was replaced under its name has another size or time. Asking it for its version
 * would take longer than loading a whole program from the cache. */
static tl_status write_identity(tl_str *out, const tli_jit_compiler *c)
{
    struct stat info = {0};
    char *real = realpath(c->path, NULL);
    (void)!stat(c->path, &info);
    tl_str_addf(out, "tilth object 1\ncompiler %s\nprogram %s, %lld bytes, of %lld.%09ld\n",
                c->path, real ? real : "", (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                (long)info.st_mtim.tv_nsec);
    tl_str_addf(out, "target %s\nflags %s\n", target_name(), c->flags_text);
    free(real);
    TL_TRY(tl_str_status(out));
    if (out->length <= TLI_CODE_IDENTITY) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "the path of the C compiler '%.80s...' is too long", c->path);
}

/* Hands the text over to a plain pointer. */
static tl_status take(char **out, tl_str *text)
{
    TL_TRY(tl_str_status(text));
    *out = tl_strdup(tl_str_text(text));
    if (!*out) return TL_FAIL_NOMEM(text->length + 1);
    tl_str_cut(text, 0);
    return TL_OK;
}

tl_status tli_jit_compiler_init(tli_jit_compiler *c, const char *wanted)
{
    tl_status st;
    tli_isa isa;
    tl_str text = TL_STR_INIT;
    *c = (tli_jit_compiler){0};
    TL_TRY(tli_isa_choose(&isa));
    gather_flags(c, isa);
    TL_TRY_DONE(st, find_compiler(&text, wanted));
    TL_TRY_DONE(st, take(&c->path, &text));
    for (int i = 0; c->flags[i]; i++) tl_str_addf(&text, "%s%s", i ? " " : "", c->flags[i]);
    TL_TRY_DONE(st, take(&c->flags_text, &text));
    TL_TRY_DONE(st, write_identity(&text, c));
    st = take(&c->identity, &text);
done:
    tl_str_deinit(&text);
    if (st != TL_OK) tli_jit_compiler_deinit(c);
    return st;
}

void tli_jit_compiler_deinit(tli_jit_compiler *c)
{
    tl_free(c->path);
    tl_free(c->flags_text);
    tl_free(c->identity);
    *c = (tli_jit_compiler){0};
}

/* --- running it ------------------------------------------------------------------------------- */

/* One compilation: what the process gets, and what the message needs. */
typedef struct compilation {
    const tli_jit_compiler *compiler;
    const char *unit, *folder;
    tl_str source, object, output, temp; /* paths; the last one "TMPDIR=..." */
    const char **argv, **env;
    int outcome; /* as waitpid gives it */
} compilation;

/* Variables that are set anew, or that make a compiler do other things than it was told. */
static bool is_unwanted(const char *variable)
{
    static const char *const names[] = {
        // clang-format off
        "TMPDIR", "LC_ALL", "LANGUAGE", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES",
        "CCC_OVERRIDE_OPTIONS"
        // clang-format on
    };
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        size_t length = strlen(names[i]);
        if (strncmp(variable, names[i], length) == 0 && variable[length] == '=') return true;
    }
    return false;
}

/* The program's own, with intermediate files beside the result and messages in English. A program
 * that runs with the rights of another user than the one who set the variables takes none of them:
 * some tell a compiler which programs to run. */
static tl_status fill_env(compilation *job)
{
    size_t count = 0, kept = 0;
    while (environ && environ[count] && !getauxval(AT_SECURE)) count++;
    job->env = tl_alloc((count + 3) * sizeof *job->env);
    if (!job->env) return TL_FAIL_NOMEM((count + 3) * sizeof *job->env);
    for (size_t i = 0; i < count; i++)
        if (!is_unwanted(environ[i])) job->env[kept++] = environ[i];
    job->env[kept++] = "LC_ALL=C";
    job->env[kept++] = tl_str_text(&job->temp);
    job->env[kept] = NULL;
    TL_ASSERT(kept <= count + 2);
    return TL_OK;
}

static tl_status fill_argv(compilation *job)
{
    size_t room = (TLI_JIT_FLAGS + 8) * sizeof *job->argv;
    int count = 0;
    job->argv = tl_alloc(room);
    if (!job->argv) return TL_FAIL_NOMEM(room);
    job->argv[count++] = job->compiler->path;
    for (const char *const *flag = job->compiler->flags; *flag; flag++) job->argv[count++] = *flag;
    job->argv[count++] = "-o";
    job->argv[count++] = tl_str_text(&job->object);
    job->argv[count++] = tl_str_text(&job->source);
    job->argv[count] = NULL;
    TL_ASSERT(count < TLI_JIT_FLAGS + 8);
    return TL_OK;
}

static tl_status prepare(compilation *job)
{
    tl_str_addf(&job->source, "%s/k.c", job->folder);
    tl_str_addf(&job->object, "%s/k.so", job->folder);
    tl_str_addf(&job->output, "%s/k.err", job->folder);
    tl_str_addf(&job->temp, "TMPDIR=%s", job->folder);
    TL_TRY(tl_str_status(&job->source));
    TL_TRY(tl_str_status(&job->object));
    TL_TRY(tl_str_status(&job->output));
    TL_TRY(tl_str_status(&job->temp));
    TL_TRY(fill_env(job));
    return fill_argv(job);
}

static void release(compilation *job)
{
    tl_str_deinit(&job->source);
    tl_str_deinit(&job->object);
    tl_str_deinit(&job->output);
    tl_str_deinit(&job->temp);
    tl_free(job->argv);
    tl_free(job->env);
}

/* What it prints goes to a file: a pipe would have to be read until the last process that holds it
 * ends, and compiler caches leave servers behind. Its input is the source, which it does not read
 * there, and not /dev/null: some jails have no devices. */
static int set_files(posix_spawn_file_actions_t *files, const compilation *job)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    int error = posix_spawn_file_actions_addopen(files, 0, tl_str_text(&job->source), O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(files, 1, tl_str_text(&job->output), flags, 0600);
    return error ? error : posix_spawn_file_actions_adddup2(files, 1, 2);
}

/* It may be started from a thread that blocks all signals. In a group of its own the terminal's
 * interrupt does not reach it: that is the program's to answer, when it has finished its step. */
static int set_signals(posix_spawnattr_t *attributes)
{
    static const int usual[] = {SIGCHLD, SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (int64_t i = 0; i < TL_COUNT(usual); i++) sigaddset(&defaults, usual[i]);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &defaults);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    return error ? error : posix_spawnattr_setflags(attributes, flags);
}

static int spawn(pid_t *pid, const compilation *job)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_files(&files, job);
        if (!error) error = set_signals(&attributes);
        // Neither array is written to; the types only lack the word.
        if (!error)
            error = posix_spawn(pid, job->compiler->path, &files, &attributes,
                                (char *const *)(uintptr_t)job->argv,
                                (char *const *)(uintptr_t)job->env);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static tl_status run(compilation *job)
{
    pid_t pid, ended;
    char reason[128];
    int error = spawn(&pid, job);
    if (error)
        return TL_FAIL(TL_EUNSUPPORTED, "cannot start the C compiler '%s': %s", job->compiler->path,
                       strerror_r(error, reason, sizeof reason));
    do ended = waitpid(pid, &job->outcome, 0);
    while (ended < 0 && errno == EINTR);
    // A program that ignores SIGCHLD never learns how it went: then the object has to speak.
    if (ended < 0) job->outcome = 0;
    return TL_OK;
}

/* The line that says most: the first error that is not the driver's word that another failed. */
static const char *telling_line(const char *text, size_t *length)
{
    static const char *const drivers[] = {"collect2:", "clang: error: linker"};
    const char *first = NULL;
    for (const char *line = text; *line; line += strspn(line, "\n")) {
        size_t size = strcspn(line, "\n");
        bool driver = false;
        for (int i = 0; i < 2; i++)
            driver = driver || strncmp(line, drivers[i], strlen(drivers[i])) == 0;
        if (size && !driver && memmem(line, size, "error:", 6)) {
            *length = size;
            return line;
        }
        if (size && !first) first = line;
        line += size;
    }
    *length = first ? strcspn(first, "\n") : 0;
    return first;
}

/* The folder is gone when somebody reads the message, so lines speak of "k.c" alone. */
static void add_without_folder(tl_str *out, const char *line, size_t length, const char *folder)
{
    enum { MOST = 400 };
    size_t skipped = strlen(folder) + 1;
    if (length > MOST + skipped) length = MOST + skipped;
    TL_ASSERT(skipped > 1 && line);
    for (size_t i = 0; i < length; i++) {
        bool here = length - i > skipped && strncmp(line + i, folder, skipped - 1) == 0
                    && line[i + skipped - 1] == '/';
        if (here) i += skipped - 1;
        else tl_str_addc(out, line[i]);
    }
}

static tl_status explain(const compilation *job)
{
    char text[16 << 10];
    size_t length = 0;
    tl_str why = TL_STR_INIT;
    int fd = open(tl_str_text(&job->output), O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *line = telling_line(text, &length);
    if (line) add_without_folder(&why, line, length, job->folder);
    if (!line && WIFSIGNALED(job->outcome))
        tl_str_addf(&why, "it was ended by signal %d", WTERMSIG(job->outcome));
    else if (!line)
        tl_str_addf(&why, "it left with status %d and said nothing", WEXITSTATUS(job->outcome));
    tl_status st = TL_FAIL(
        TL_EUNSUPPORTED, "'%s' cannot be compiled with '%s': %s (TILTH_CC names another compiler)",
        job->unit, job->compiler->path, tl_str_text(&why));
    tl_str_deinit(&why);
    return st;
}

tl_status tli_jit_compile(const tli_jit_compiler *c, const char *unit, const char *folder)
{
    struct stat info;
    compilation job = {.compiler = c, .unit = unit, .folder = folder};
    tl_status st = prepare(&job);
    if (st == TL_OK) st = run(&job);
    if (st == TL_OK) {
        bool made = stat(tl_str_text(&job.object), &info) == 0 && S_ISREG(info.st_mode);
        if (job.outcome != 0 || !made || info.st_size == 0) st = explain(&job);
        (void)unlink(tl_str_text(&job.output));
    }
    release(&job);
    return st;
}
