#include <tilth/comm/world.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/comm/shm.h>

#include "comm/control.h"

#define SECOND INT64_C(1000000000)

/* Whether peers have heard of a failure of this process; atomic. */
static int told;

struct tl_world {
    tl_who who;
    tl_comm *comm;
    tli_control *control;  /* NULL: alone, or over MPI where ranks could not meet */
    tl_registry *registry; /* of MPI's plug-in */
};

/* --- what `tilth launch` hands over ----------------------------------------------------------- */

/* "5,6,-1": so many descriptors, each open; they are not for programs that we start. */
static tl_status take_list(int *out, int32_t count, const char *name)
{
    const char *at = getenv(name);
    for (int32_t i = 0; i < count; i++) {
        char *end = NULL;
        long value = at ? strtol(at, &end, 10) : -2;
        bool last = i + 1 == count;
        if (!at || end == at || *end != (last ? '\0' : ',') || value < -1 || value > 1 << 20
            || (value >= 0 && value <= STDERR_FILENO) // which are others' already
            || (value >= 0 && fcntl((int)value, F_SETFD, FD_CLOEXEC) < 0))
            return TL_FAIL(TL_EINVAL,
                           "%s: expected %" PRId32 " open descriptors, found '%.80s'; `tilth "
                           "launch` sets it, for the program that it starts",
                           name, count, getenv(name) ? getenv(name) : "nothing");
        out[i] = (int)value;
        at = end + 1;
    }
    return TL_OK;
}

static tl_status take_launched(int *files, int *fds, const tl_who *who)
{
    if (who->size > TL_COMM_SHM_RANKS)
        return TL_FAIL(TL_EINVAL, "TILTH_SIZE: at most %d", TL_COMM_SHM_RANKS);
    TL_TRY(take_list(files, 1 + who->size, "TILTH_FILES"));
    return take_list(fds, who->rank == 0 ? who->size : 1, "TILTH_CONTROL");
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void add_quoted(tl_str *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=,:+@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        tl_str_add(out, word);
        return;
    }
    tl_str_addc(out, '\'');
    for (; *word; word++) tl_str_addf(out, *word == '\'' ? "'\\''" : "%c", *word);
    tl_str_addc(out, '\'');
}

/* The command of this process, without what says which of a cluster it is. */
static void add_command(tl_str *out)
{
    static const char *const left_out[] = {"runtime.worker_hosts=", "runtime.task_index="};
    char *words;
    size_t size = 0;
    bool first = true;
    if (tl_file_read(&words, &size, "/proc/self/cmdline", 1 << 16) != TL_OK) words = NULL;
    for (const char *at = words; at && at < words + size; at += strlen(at) + 1) {
        const char *key = at + strspn(at, "-");
        bool cluster = false;
        for (int64_t i = 0; i < TL_COUNT(left_out); i++)
            cluster |= strncmp(key, left_out[i], strlen(left_out[i])) == 0;
        if (cluster) continue;
        if (!first) tl_str_addc(out, ' ');
        add_quoted(out, at);
        first = false;
    }
    if (first) tl_str_add(out, "tilth ...");
    tl_free(words);
}

/* Where MASTER_ADDR alone says that the others are elsewhere, a mistake is as likely. */
static void add_doubts(tl_str *out, const tl_who *who)
{
    const char *first = getenv("MASTER_ADDR"), *here = getenv("LOCAL_WORLD_SIZE");
    if (who->from != TL_WHO_TORCHRUN || !first || !*first || (here && *here)) return;
    tl_str_addf(out,
                "\n  (MASTER_ADDR is '%.80s', which is no name or address of this machine. If all "
                "processes are on it, set it to localhost)",
                first);
}

static tl_status refuse_hosts(const tl_who *who)
{
    const bool named = who->from == TL_WHO_WORKER_HOSTS;
    tl_str command = TL_STR_INIT;
    if (who->from == TL_WHO_MPI || who->from == TL_WHO_SLURM)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%" PRId32 " processes%s (%s) need MPI, and this Tilth has "
                       "no libtilth_mpi.so: install lib%s-dev and build Tilth again",
                       who->size, *who->hosts ? " on several machines" : "", who->source,
                       who->mpi ? who->mpi : "openmpi");
    tl_str_add(&command, "mpirun -H ");
    add_quoted(&command, who->hosts);
    tl_str_add(&command, " --bind-to none ");
    add_command(&command);
    add_doubts(&command, who);
    tl_status st = TL_FAIL(TL_EUNSUPPORTED,
                           "%s %s %" PRId32
                           " processes on several machines, which need MPI; %s and let mpirun "
                           "start them: %s",
                           who->source, named ? "name" : "starts", who->size,
                           named ? "leave them out" : "unset its variables", tl_str_text(&command));
    tl_str_deinit(&command);
    return st;
}

/* Plug-ins lie beside the library: one for each MPI, or the one that there is. */
static tl_status find_plugin(char out[4096], const tl_who *who)
{
    Dl_info info;
    const char *given = secure_getenv("TILTH_MPI"); // it names code
    if (given && *given) {
        snprintf(out, 4096, "%s", given);
        if (access(out, F_OK) == 0) return TL_OK;
        return TL_FAIL(TL_ENOTFOUND, "TILTH_MPI: '%.200s': %s", given, strerror(errno));
    }
    if (!dladdr((void *)(uintptr_t)tl_world_open, &info) || !info.dli_fname)
        return TL_FAIL(TL_EUNSUPPORTED, "libtilth_mpi.so: where the library lies is not known");
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash ? (int)(slash + 1 - info.dli_fname) : 0;
    snprintf(out, 4096, "%.*slibtilth_%s.so", folder, info.dli_fname, who->mpi ? who->mpi : "mpi");
    if (who->mpi && access(out, F_OK) < 0)
        snprintf(out, 4096, "%.*slibtilth_mpi.so", folder, info.dli_fname);
    return TL_OK;
}

static tl_status open_control(tl_world *w, const tl_world_args *args, const int *fds)
{
    const double peer = args->peer_timeout_s > 0 ? args->peer_timeout_s : 120;
    tl_status st = tli_control_new(
        &w->control,
        &(tli_control_args){.comm = w->comm, .fds = fds, .peer_timeout_ns = (int64_t)(peer * 1e9)});
    // The peers see that a connection ends, and that nobody said goodbye.
    for (int32_t i = 0; st != TL_OK && i < (w->who.rank == 0 ? w->who.size : 1); i++)
        if (fds[i] >= 0) close(fds[i]);
    return st;
}

/* Ranks of MPI have no connections yet. */
static tl_status watch_over_network(tl_world *w, const tl_world_args *args)
{
    const int64_t while_here = 10 * SECOND; // all are: MPI has brought them together
    int *fds = tl_alloc((size_t)w->who.size * sizeof *fds);
    bool met = false;
    if (!fds) return TL_FAIL_NOMEM((size_t)w->who.size * sizeof *fds);
    tl_status st = tli_control_meet(fds, &met, w->comm, !*w->who.hosts, while_here);
    if (st == TL_OK && met) st = open_control(w, args, fds);
    tl_free(fds);
    return st;
}

static tl_status open_mpi(tl_world *w, const tl_world_args *args)
{
    char path[4096];
    const tl_class *cls;
    uint8_t token[TLI_MEET_TOKEN];
    bool given;
    TL_TRY(tli_meet_token(token, &given)); // a mistake in it is told before all are brought up
    TL_TRY(find_plugin(path, &w->who));
    if (access(path, F_OK) < 0) return refuse_hosts(&w->who);
    TL_TRY(tl_registry_new(&w->registry));
    TL_TRY(tl_registry_load(w->registry, path));
    TL_TRY(tl_registry_find(&cls, w->registry, &tl_kind_comm, "mpi"));
    TL_TRY(tl_comm_open(
        &w->comm, (const tl_comm_class *)cls,
        &(tl_comm_args){.rank = w->who.rank, .size = w->who.size, .threads = args->threads}));
    return watch_over_network(w, args);
}

static tl_status open_shared(tl_world *w, const tl_world_args *args)
{
    int files[1 + TL_COMM_SHM_RANKS], fds[TL_COMM_SHM_RANKS];
    const double join = args->join_timeout_s > 0 ? args->join_timeout_s : 60;
    if (w->who.from == TL_WHO_TILTH) TL_TRY(take_launched(files, fds, &w->who));
    else TL_TRY(tli_join(files, fds, &w->who, (int64_t)(join * 1e9)));
    tl_status st = tl_comm_open(
        &w->comm, &tl_comm_shm,
        &(tl_comm_args){
            .rank = w->who.rank, .size = w->who.size, .threads = args->threads, .files = files});
    tl_comm_files_close(files, w->who.size);
    if (st == TL_OK) return open_control(w, args, fds);
    for (int32_t i = 0; i < (w->who.rank == 0 ? w->who.size : 1); i++)
        if (fds[i] >= 0) close(fds[i]);
    return st;
}

static tl_status open_world(tl_world *w, const tl_world_args *args)
{
    TL_TRY(tl_who_find(&w->who, NULL));
    if (w->who.size == 1)
        return tl_comm_open(&w->comm, &tl_comm_none,
                            &(tl_comm_args){.size = 1, .threads = args->threads});
    const bool can = w->who.from == TL_WHO_MPI || w->who.from == TL_WHO_SLURM;
    const bool said = args->comm && strcmp(args->comm, "auto") != 0;
    const char *wanted = said ? args->comm : getenv("TILTH_COMM");
    const bool mpi = wanted && strcmp(wanted, "mpi") == 0, shm = wanted && !strcmp(wanted, "shm");
    if (wanted && *wanted && !mpi && !shm && strcmp(wanted, "auto") != 0)
        return TL_FAIL(TL_EINVAL, "%s: expected auto, shm or mpi, found '%.40s'",
                       said ? "tilth.comm" : "TILTH_COMM", wanted);
    if (shm && *w->who.hosts)
        return TL_FAIL(TL_EINVAL,
                       "%s is shm, and %" PRId32 " processes on several machines (%s) have no "
                       "memory in common: they need MPI",
                       said ? "tilth.comm" : "TILTH_COMM", w->who.size, w->who.source);
    // MPICH's mpirun names no job by which processes of one machine could find each other
    const bool nameless = w->who.from == TL_WHO_MPI && !*w->who.key && !shm;
    if (can && (mpi || nameless || *w->who.hosts)) return open_mpi(w, args);
    if (*w->who.hosts) return refuse_hosts(&w->who);
    if (mpi)
        return TL_FAIL(TL_EINVAL, "%s is mpi, and %s is not of MPI: start it with mpirun",
                       said ? "tilth.comm" : "TILTH_COMM", w->who.source);
    if (w->who.from != TL_WHO_TILTH && !*w->who.key)
        return TL_FAIL(TL_EINVAL,
                       "%s names no port and no job by which %" PRId32
                       " processes could find each other; start them with `tilth launch -n %" PRId32
                       " ...`",
                       w->who.source, w->who.size, w->who.size);
    return open_shared(w, args);
}

tl_status tl_world_open(tl_world **out, const tl_world_args *args)
{
    static const tl_world_args defaults = {0};
    *out = NULL;
    tl_world *w = tl_alloc_zero(sizeof *w);
    if (!w) return TL_FAIL_NOMEM(sizeof *w);
    tl_status st = open_world(w, args ? args : &defaults);
    if (st != TL_OK) {
        tl_comm_close(&w->comm);
        tl_registry_free(&w->registry);
        tl_free(w);
        return st;
    }
    *out = w;
    return TL_OK;
}

void tl_world_close(tl_world **world, tl_status how)
{
    tl_world *w = *world;
    if (!w) return;
    if (w->who.size > 1 && how != TL_OK && how != TL_EPEER) {
        char why[1024];
        snprintf(why, sizeof why, "rank %" PRId32 " failed: %s", w->who.rank, tl_error_message());
        tl_comm_abort(w->comm, why); // before they see that we have left
    }
    const bool speaks = w->control && w->who.rank > 0 && how != TL_OK; // to the chief
    if (speaks) __atomic_store_n(&told, 1, __ATOMIC_RELEASE);
    tli_control_free(&w->control, how);
    // mpirun ends all when the first leaves with a failure: the chief has something to say
    if (speaks && w->registry) tl_sleep_ns(SECOND);
    tl_comm_close(&w->comm);
    tl_registry_free(&w->registry);
    tl_free(w);
    *world = NULL;
}

bool tl_world_told(void)
{
    return __atomic_load_n(&told, __ATOMIC_ACQUIRE);
}

tl_comm *tl_world_comm(const tl_world *world)
{
    return world->comm;
}

const tl_who *tl_world_who(const tl_world *world)
{
    return &world->who;
}

void tl_world_tell(tl_world *world, tl_world_doing doing, int64_t step, const char *what)
{
    if (world->control) tli_control_tell(world->control, doing, step, what);
}

/* --- machines --------------------------------------------------------------------------------- */

tl_status tl_world_machines(const tl_world *world, int32_t *out)
{
    enum { NAME = 256 };
    const tl_comm *c = world->comm;
    const char *said = getenv("TILTH_MACHINE");
    char(*names)[NAME] = tl_alloc_zero((size_t)c->size * sizeof *names);
    tl_part *parts = tl_alloc((size_t)c->size * sizeof *parts);
    tl_status st = names && parts ? TL_OK : TL_FAIL_NOMEM((size_t)c->size * NAME);
    if (st == TL_OK) {
        for (int32_t r = 0; r < c->size; r++) parts[r] = (tl_part){names[r], NAME};
        if (said && *said) snprintf(names[c->rank], NAME, "%s", said);
        else gethostname(names[c->rank], NAME - 1);
        st = tl_comm_all_gather(c->world, &parts[c->rank], parts);
    }
    for (int32_t r = 0; st == TL_OK && r < c->size; r++) {
        int32_t first = 0;
        while (strncmp(names[first], names[r], NAME) != 0) first++;
        out[r] = first;
    }
    tl_free(names);
    tl_free(parts);
    return st;
}
