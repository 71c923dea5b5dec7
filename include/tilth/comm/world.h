/* The world of a run: all processes that take part in it, joined.
 *
 *     tl_world *world;
 *     TL_TRY(tl_world_open(&world, &(tl_world_args){.threads = pool}));
 *     tl_comm_group *all = tl_world_comm(world)->world;     // rank and size, collectives
 *     tl_world_tell(world, TL_WORLD_COMPUTES, step, "encoder/layer_2: matmul");
 *     ...
 *     tl_world_close(&world, st);
 *
 * Who started the process says who it is (who.h). Processes of one machine meet in shared memory:
 * `tilth launch` hands it over; others find each other by the port or the job that they have in
 * common, at a socket in a folder that only their user can enter. Processes on several machines
 * need MPI (libtilth_mpi.so beside the library, or where TILTH_MPI says); TILTH_COMM=mpi takes it
 * on one machine, too.
 *
 * Each rank is watched by the chief, rank 0: one that dies or fails ends the run for all within 2
 * seconds, one that is not heard of within 20, one that hangs while others wait for it within
 * `peer_timeout_s`, and five times that while it compiles, reads or writes. Calls of the others
 * fail with TL_EPEER and a message that names the rank, its host and what it was doing; who does
 * not come back from its work within 5 more seconds is ended, with code 4. Over MPI it is mpirun
 * that ends all when one dies; there connections are made to the chief's address (TILTH_ADDRESS, or
 * that of its machine), and only with those who know the run's token.
 *
 * Ownership: the caller's. Thread word: one thread at a time, but for tl_world_tell, which is
 * free-threaded. */
#ifndef TILTH_COMM_WORLD_H
#define TILTH_COMM_WORLD_H

#include <tilth/comm/who.h>
#include <tilth/core/comm.h>

TL_BEGIN

typedef struct tl_world tl_world;

typedef struct tl_world_args {
    tl_pool *threads;      /* (optional: the calling thread) add large sums */
    double peer_timeout_s; /* (optional: 120) */
    double join_timeout_s; /* (optional: 60) how long processes may begin apart */
    const char *comm;      /* (optional: what TILTH_COMM says, else auto) auto, shm or mpi */
} tl_world_args;
/* `args` NULL: all defaults. A world of one needs no launcher. */
TL_API TL_NODISCARD tl_status tl_world_open(tl_world **out, const tl_world_args *args);
/* `how` the run went; NULL is fine. Where it failed, peers are told this thread's message. */
TL_API void tl_world_close(tl_world **world, tl_status how);
/* Whether a failure of this process has been told to the chief, which says it for all. Free-
 * threaded. */
TL_API bool tl_world_told(void);
TL_API tl_comm *tl_world_comm(const tl_world *world);
TL_API const tl_who *tl_world_who(const tl_world *world);
/* Which machine each rank is on, as the first rank that is there; all ranks call it. A machine is
 * known by its name, or by what TILTH_MACHINE says. `out` has room for all ranks. */
TL_API TL_NODISCARD tl_status tl_world_machines(const tl_world *world, int32_t *out);

/* What a rank does between calls. */
typedef enum tl_world_doing {
    TL_WORLD_COMPUTES,
    TL_WORLD_COMPILES,
    TL_WORLD_READS,
    TL_WORLD_WRITES,
    TL_WORLD_WAITS, /* set by calls themselves */
    TL_WORLD_DOINGS
} tl_world_doing;
/* `what` is copied, and cut where it is long. */
TL_API void tl_world_tell(tl_world *world, tl_world_doing doing, int64_t step, const char *what);

TL_END

#endif
