/* Who this process is among those of its run, as whoever started it says in the environment.
 *
 *     tl_who who;
 *     TL_TRY(tl_who_find(&who, NULL));
 *     if (who.size > 1) TL_LOG_INFO("rank %d of %d, by %s", who.rank, who.size, who.source);
 *
 * The first that applies: `tilth launch` (TILTH_RANK, TILTH_SIZE), mpirun (OMPI_COMM_WORLD_*,
 * PMIX_RANK with PMIX_SIZE, PMI_*), torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT), a step of Slurm's with several tasks, TF_CONFIG (a cluster of workers,
 * the first of them possibly called chief), worker_hosts and task_index of a configuration, when
 * they were told (tl_who_tell); else it is alone. Of these, two that speak of several
 * processes must agree, but for Slurm, whose step may be that of mpirun's own helpers.
 *
 * Ownership: plain data. Thread word: as free-threaded as the environment. */
#ifndef TILTH_COMM_WHO_H
#define TILTH_COMM_WHO_H

#include <tilth/base/status.h>

TL_BEGIN

typedef enum tl_who_source {
    TL_WHO_ALONE,
    TL_WHO_TILTH,
    TL_WHO_MPI,
    TL_WHO_TORCHRUN,
    TL_WHO_SLURM,
    TL_WHO_TF_CONFIG,
    TL_WHO_WORKER_HOSTS
} tl_who_source;

enum { TL_WHO_KEY = 160, TL_WHO_HOSTS = 2048 };

typedef struct tl_who {
    tl_who_source from;
    const char *source; /* "torchrun (RANK, WORLD_SIZE)"; static */
    const char
        *mpi; /* whose mpirun it was, "openmpi" or "mpich"; NULL: that is not known. Static */
    int32_t rank, size;
    int32_t local_rank, local_size; /* of those on this machine */
    /* what only this run has, for its processes to find each other; "" when it has nothing */
    char key[TL_WHO_KEY];
    /* "host:ranks,..." as mpirun -H takes them, when they are not all on this machine; else "".
     * Those that have no room are counted at its end */
    char hosts[TL_WHO_HOSTS];
} tl_who;

/* Looks variables up; NULL: they are not set. */
typedef const char *tl_who_get(const char *name, void *payload);
typedef struct tl_who_environment {
    tl_who_get *get;
    void *payload;
} tl_who_environment;

/* `environment` NULL: that of the process. Numbers that are none, ranks outside, and sources that
 * disagree are TL_EINVAL with the variables and their values. */
TL_API TL_NODISCARD tl_status tl_who_find(tl_who *out, const tl_who_environment *environment);

/* The cluster that a configuration names: "host:port,host:port", and which of them this process is.
 * It holds for this process until another one is told; NULL or "": none. One worker alone needs no
 * index. TL_EINVAL names what is wrong as the keys `worker_hosts` and `task_index`. */
TL_API TL_NODISCARD tl_status tl_who_tell(const char *worker_hosts, int64_t task_index);

TL_END

#endif
