/* Shared memory: the transport between processes, or threads, of one machine.
 *
 *     int files[1 + 4];
 *     TL_TRY(tl_comm_files_new(files, 4));                  // before fork, or handed over a socket
 *     ...
 *     TL_TRY(tl_comm_open(&comm, &tl_comm_shm,
 *                         &(tl_comm_args){.rank = rank, .size = 4, .files = files}));
 *
 * Memory of tl_comm_alloc lies in files without names, which are gone with the processes. Peers
 * look into it, so that a sum is read where it was computed and written where it is wanted. Who
 * waits looks for some microseconds and then sleeps.
 *
 * Threads of one process, for tests, meet at a place instead, and reach all memory.
 *
 * Ownership: the caller's. Thread word: free-threaded. */
#ifndef TILTH_COMM_SHM_H
#define TILTH_COMM_SHM_H

#include <tilth/core/comm.h>
#include <tilth/desc/registry.h>

TL_BEGIN

enum { TL_COMM_SHM_RANKS = 128 };

TL_API extern const tl_comm_class tl_comm_shm;

/* Files for `size` ranks: [1 + size] descriptors, closed by exec. tl_comm_open keeps copies of its
 * own. */
TL_API TL_NODISCARD tl_status tl_comm_files_new(int *files, int32_t size);
TL_API void tl_comm_files_close(int *files, int32_t size);

/* Where `size` threads meet. Freed when all have closed. */
typedef struct tl_comm_place tl_comm_place;
TL_API TL_NODISCARD tl_status tl_comm_place_new(tl_comm_place **out, int32_t size);
TL_API void tl_comm_place_free(tl_comm_place **place);

/* The transports that ship, as a module: none, shm. */
TL_API extern const tl_module tl_comm_module;

TL_END

#endif
