/* Collectives: how the processes of one run move and add numbers together.
 *
 *     tl_comm *comm;
 *     TL_TRY(tl_comm_open(&comm, &tl_comm_none, NULL));     // or what a launcher has prepared
 *     float *block = tl_comm_alloc(comm, bytes);            // memory that peers reach
 *     ...
 *     TL_TRY(tl_comm_all_reduce(comm->world, &(tl_comm_sum){.dtype = TL_F32,
 *                                                           .count = count,
 *                                                           .lanes = comm->size,
 *                                                           .partials = (const void *[]){block},
 *                                                           .out = block}));
 *     tl_comm_close(&comm);
 *
 * A transport (a tl_comm_class) carries bytes and adds nothing. Sums are made above it, once for
 * all: pieces go to owners, owners add them in the order of lanes (lanes.h), results are gathered.
 * So a sum has the same bits over threads, shared memory and MPI, on any number of ranks. Where
 * ranks are on several machines it may go in two levels (tl_comm_set_machines), with those bits.
 *
 * Every rank of a group makes the same calls on it in the same order. Where they differ, the call
 * fails on all of them and names both. A call that fails on its way, and tl_comm_abort on any rank
 * and from any thread, end the world: every call that waits, and every later one, is TL_EPEER with
 * that message.
 *
 * Ownership: tl_comm_close frees groups and memory with it. Thread word: one thread at a time, but
 * for tl_comm_abort, which is free-threaded. */
#ifndef TILTH_CORE_COMM_H
#define TILTH_CORE_COMM_H

#include <tilth/base/pool.h>
#include <tilth/core/lanes.h>
#include <tilth/desc/class.h>

TL_BEGIN

typedef struct tl_comm_class tl_comm_class;
typedef struct tl_comm tl_comm;
typedef struct tl_comm_group tl_comm_group;
typedef struct tl_comm_work tl_comm_work;

enum { TL_COMM_RANKS = 1024, TL_COMM_GROUPS = 32, TL_COMM_UNDER_WAY = 8 };

/* --- the world and its groups ----------------------------------------------------------------- */

/* How a transport meets its peers: what a launcher has prepared. Members are taken over only when
 * the call succeeds. */
typedef struct tl_comm_args {
    int32_t rank, size;
    tl_pool *threads; /* (optional: the calling thread) add large sums; not a member's to free */
    /* shm between processes: 1 + size descriptors, of the common page and of each rank's memory */
    const int *files;
    /* shm between threads of this process: their meeting place */
    struct tl_comm_place *place;
} tl_comm_args;

struct tl_comm_group {
    tl_comm *comm;
    int32_t rank, size;             /* of this process in it */
    const int32_t *ranks;           /* [size] in the world, ascending */
    int32_t number;                 /* groups count from 0, the world */
    int64_t calls;                  /* of all ranks, how many began */
    int32_t under_way;              /* begun and not waited for */
    struct tli_comm_levels *levels; /* of large sums of all ranks, or NULL; the world's */
    void *inner;                    /* the transport's */
    tl_comm_group *next;
};

struct tl_comm {
    const tl_comm_class *cls;
    int32_t rank, size;
    tl_comm_group *world;
    tl_pool *threads;
    int32_t groups; /* made so far, also those without us */
    void *inner;    /* the transport's */
    /* kept of sums that are done, where the transport cannot look into peers */
    struct {
        void *data;
        size_t bytes;
    } rooms[TL_COMM_UNDER_WAY];
    int64_t own_bytes, common_bytes; /* of memory that was handed out */
    int64_t calls; /* of all groups, how many were waited for; read by other threads */
    int32_t in;    /* the kind that is waited for, or TL_COMM_KINDS; likewise */
};

/* `args` NULL is a world of one. */
TL_API TL_NODISCARD tl_status tl_comm_open(tl_comm **out, const tl_comm_class *cls,
                                           const tl_comm_args *args);
/* NULL is fine. Peers that still wait are told. */
TL_API void tl_comm_close(tl_comm **comm);
/* A group of some ranks, ascending. All ranks of the world call it with the same list; those that
 * are not in it get NULL. It lives as long as the world. */
TL_API TL_NODISCARD tl_status tl_comm_split(tl_comm_group **out, tl_comm *comm,
                                            const int32_t *ranks, int32_t count);
/* Large sums of so many lanes over all ranks go in two levels from now on: those of a machine add
 * their pieces of what it brings, machines add these, and each hands the sums on to its ranks, so
 * that between machines only as much travels as if each were one rank. `machines` [size] numbers
 * those of the ranks; all ranks call it with the same. That is exact where lanes of a machine are
 * one subtree of the sum, and all have as many ranks, which are neighbours: else `*why` says what
 * is otherwise, sums stay as they are, and it is no failure. One machine is none either. */
TL_API TL_NODISCARD tl_status tl_comm_set_machines(tl_comm *comm, const int32_t *machines,
                                                   int64_t lanes, const char **why);
/* Zeroed memory that peers and network cards reach without a copy, on a page's boundary; lives as
 * long as the world. Any other memory works as well, with a copy more. NULL (with the error set)
 * when there is none. */
TL_API void *tl_comm_alloc(tl_comm *comm, size_t bytes);
/* Some of it is not needed until it is written again: its memory goes back, as far as it has whole
 * pages, and it may read as zeros. No peer looks at it now. Other memory is left alone. How many
 * bytes went back. */
TL_API size_t tl_comm_release(tl_comm *comm, void *data, size_t bytes);
/* The same zeroed memory for all ranks, which call it together: what one writes the others see once
 * both have made a call of all. It lives until tl_comm_unshare, or as long as the world.
 * TL_EUNSUPPORTED where ranks have no memory in common: over MPI. */
TL_API TL_NODISCARD tl_status tl_comm_share(tl_comm *comm, void **out, size_t bytes);
/* All of it that was handed out so far goes back. All ranks call it together, when none of them
 * looks at it any more. */
TL_API TL_NODISCARD tl_status tl_comm_unshare(tl_comm *comm);
/* Whether they have. */
TL_API bool tl_comm_shares(const tl_comm *comm);
/* Bytes of memory that this rank was given for itself, and of memory that all have. */
TL_API void tl_comm_memory(const tl_comm *comm, int64_t *own, int64_t *common);
/* Ends the world. The first reason stays. */
TL_API void tl_comm_abort(tl_comm *comm, const char *why);

/* --- calls ------------------------------------------------------------------------------------ */

/* Some bytes. */
typedef struct tl_part {
    void *data; /* may be NULL when there are none */
    size_t bytes;
} tl_part;

typedef enum tl_comm_kind {
    TL_COMM_BARRIER,    /* nothing moves */
    TL_COMM_ALL_TO_ALL, /* send[size] to each rank, recv[size] of each */
    TL_COMM_ALL_GATHER, /* send[0] to all, recv[size] of each; recv[rank] may be send[0] */
    TL_COMM_BROADCAST,  /* recv[0] of the peer to all */
    TL_COMM_SEND,       /* send[0] to the peer */
    TL_COMM_RECV,       /* recv[0] of the peer */
    TL_COMM_ALL_REDUCE,
    TL_COMM_REDUCE_SCATTER,
    TL_COMM_KINDS
} tl_comm_kind;
/* "all_gather"; never NULL. */
TL_API const char *tl_comm_kind_name(tl_comm_kind kind);

/* What all lanes bring, added in their order. */
typedef struct tl_comm_sum {
    tl_dtype dtype;
    int64_t count; /* elements of the whole sum */
    int64_t lanes; /* of all ranks of the group */
    /* one for each block that tl_lanes_blocks lists for this rank; they are left as they are, but
     * for one that is `out` */
    const void *const *partials;
    /* all_reduce: the sum. reduce_scatter: this rank's piece of it, elsewhere than the partials, or
     * that piece of one of them. */
    void *out;
    /* (optional: as even as possible) [size + 1]: rank r has elements cuts[r] .. cuts[r + 1] - 1 of
     * a reduce_scatter; the first is 0, the last is `count` */
    const int64_t *cuts;
} tl_comm_sum;
/* Where the piece of a rank begins, when `cuts` says nothing: on a cache line, and the last piece
 * may be shorter, or empty. tl_comm_cut(.., size, size) is `count`. */
TL_API int64_t tl_comm_cut(int64_t count, tl_dtype dtype, int32_t rank, int32_t size);

typedef struct tl_comm_call {
    tl_comm_kind kind;
    const tl_part *send, *recv;
    int32_t peer;    /* a rank of the group */
    tl_comm_sum sum; /* of all_reduce and reduce_scatter */
} tl_comm_call;

/* A call under way. What the call names must stay, and be left alone, until it was waited for. */
struct tl_comm_work {
    tl_comm_group *group;
    tl_comm_call call;
    int64_t number; /* calls of the group in front of it */
    bool begun;
    bool added;     /* of a sum: this rank has added its piece */
    bool in_levels; /* a sum that goes over machines */
    void *sum;      /* what a sum is put together in */
    void *inner[4]; /* the transport's */
};
/* Begins a call. Several may be under way, up to TL_COMM_UNDER_WAY of a group. */
TL_API TL_NODISCARD tl_status tl_comm_begin(tl_comm_work *w, tl_comm_group *g,
                                            const tl_comm_call *call);
/* Returns when what was to be received is here and what was sent may be changed. Works of a group
 * are waited for in the order in which they began. */
TL_API TL_NODISCARD tl_status tl_comm_wait(tl_comm_work *w);
/* Takes a sum as far as it goes without waiting, for who computes something else meanwhile: when
 * all have brought their numbers, this rank adds its piece. `*done`: nothing is left to wait for,
 * and that counts as waiting for it. Works of a group are taken on in any order. Other calls, and
 * transports that cannot tell, go on when they are waited for. */
TL_API TL_NODISCARD tl_status tl_comm_advance(tl_comm_work *w, bool *done);

/* Both at once. */
TL_API TL_NODISCARD tl_status tl_comm_call_now(tl_comm_group *g, const tl_comm_call *call);
TL_API TL_NODISCARD tl_status tl_comm_barrier(tl_comm_group *g);
TL_API TL_NODISCARD tl_status tl_comm_all_to_all(tl_comm_group *g, const tl_part *send,
                                                 const tl_part *recv);
TL_API TL_NODISCARD tl_status tl_comm_all_gather(tl_comm_group *g, const tl_part *send,
                                                 const tl_part *recv);
TL_API TL_NODISCARD tl_status tl_comm_broadcast(tl_comm_group *g, void *data, size_t bytes,
                                                int32_t from);
TL_API TL_NODISCARD tl_status tl_comm_send(tl_comm_group *g, const void *data, size_t bytes,
                                           int32_t to);
TL_API TL_NODISCARD tl_status tl_comm_recv(tl_comm_group *g, void *data, size_t bytes,
                                           int32_t from);
TL_API TL_NODISCARD tl_status tl_comm_all_reduce(tl_comm_group *g, const tl_comm_sum *sum);
TL_API TL_NODISCARD tl_status tl_comm_reduce_scatter(tl_comm_group *g, const tl_comm_sum *sum);

/* --- transports ------------------------------------------------------------------------------- */

/* Where a peer's numbers of a sum lie while all look into each other's memory. */
typedef struct tl_comm_face {
    const void *partials[TL_LANE_BLOCKS];
    void *out;
} tl_comm_face;

/* A call of a kind below TL_COMM_ALL_REDUCE is what `begin` begins and `wait` ends. */
struct tl_comm_class {
    tl_class cls;
    tl_status (*open)(tl_comm *c, const tl_comm_args *args);
    void (*close)(tl_comm *c);
    /* (optional) Called by all ranks of the world, with the group filled in, also for groups
     * without us (rank -1). */
    tl_status (*split)(tl_comm_group *g);
    tl_status (*begin)(tl_comm_work *w);
    tl_status (*wait)(tl_comm_work *w);
    /* (optional: none) For transports whose ranks look into each other's memory, all three or none.
     * A sum is begun by `begin` too. `meet` waits until all have begun it, and `face` says where a
     * rank's numbers lie, until `part`, which returns when all are done. `small`: all add all, out
     * of copies, and nobody waits for the others at the end. Where there is a `leave`, it comes
     * before `part`, and tells the others that this rank is done. */
    tl_status (*meet)(tl_comm_work *w, bool *small);
    void (*face)(tl_comm_work *w, int32_t rank, tl_comm_face *out);
    tl_status (*part)(tl_comm_work *w);
    void *(*alloc)(tl_comm *c, size_t bytes);
    /* (optional: it stays) How many bytes went back, in whole pages. */
    size_t (*release)(tl_comm *c, void *data, size_t bytes);
    /* (optional: ranks have no memory in common) More than 0 bytes. */
    tl_status (*share)(tl_comm *c, void **out, size_t bytes);
    /* (optional: it stays) Called when all ranks have come to it. */
    void (*unshare)(tl_comm *c);
    void (*abort)(tl_comm *c, const char *why);
    /* (optional: nobody knows) Whether `wait`, or that of `meet` and `part` which comes next, would
     * return at once. */
    bool (*ready)(tl_comm_work *w);
    /* (optional: `part` does it) See `meet`. */
    tl_status (*leave)(tl_comm_work *w);
};

/* The kind under which transports are registered. */
TL_API extern const tl_kind tl_kind_comm;
/* One rank alone. */
TL_API extern const tl_comm_class tl_comm_none;

TL_END

#endif
