/* Storage of tensors, counted, from a pool of its engine: memory of the engine's device, or memory
 * of the host that the device reaches.
 *
 * Guarded memory (for checking) lies between guard zones, and holds a pattern wherever nobody has
 * written since it was handed out.
 *
 * Thread word: free-threaded. */
#ifndef TLI_CORE_STORAGE_H
#define TLI_CORE_STORAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <tilth/core/engine.h>
#include <tilth/core/tensor.h>
#include <tilth/sys/core/device.h>

enum {
    TLI_SIZE_CLASSES = 256,
    TLI_GUARD = 64,        /* bytes before the storage, and at least as many behind it */
    TLI_UNWRITTEN = 0x7ffd /* two bytes, again and again: a quiet NaN in every float type */
};

typedef struct tli_memory tli_memory;
typedef struct tli_slab tli_slab;
typedef struct tli_losses tli_losses; /* core/inner/losses.h */
struct tl_storage {
    atomic_int refs;
    atomic_int leases;             /* readers; -1 while leased for writing */
    atomic_uint_least64_t version; /* another one after each write in place */
    /* Tickets. In the engine's queue, of the last work that writes it, and of the last that touches
     * its memory, whosesoever that was; in the queues of copies to the device and to the host, of
     * the last one that uses it. */
    atomic_uint_least64_t ticket, used;
    atomic_uint_least64_t arriving, leaving;
    tli_memory *memory;
    tli_slab *slab;          /* that it was cut from; NULL: it is a block of the device's own */
    void *data;              /* an address of the device, which only its kernels may look at */
    int size_class;          /* -1: the memory is somebody else's */
    size_t bytes, capacity;  /* asked for, and there */
    struct tl_storage *next; /* in the list of free ones */
};
typedef struct tl_storage tl_storage;

/* tl_kernel_data for code of the library: small steps ask many times. */
static inline void *tli_data(const tl_tensor *t)
{
    TL_ASSERT(t->storage && t->offset >= 0
              && t->offset * (int64_t)tl_dtype_size(t->dtype) <= (int64_t)t->storage->bytes);
    return (char *)t->storage->data + t->offset * (int64_t)tl_dtype_size(t->dtype);
}

/* Free storage waits in lists by size; a list holds storages whose capacity is that of the class,
 * or less where they are large. */
struct tli_memory {
    pthread_mutex_t lock;
    tl_storage *free[TLI_SIZE_CLASSES];
    tl_memory_stats stats;
    int64_t resident; /* of what is used, what takes memory (resident.h) */
    tl_engine *engine;
    tl_device *device;
    tl_queue *queue;    /* whose work uses it */
    tl_queue *in, *out; /* of copies between the host and the device */
    tli_losses *losses; /* what of that work was left undone; NULL on the host */
    bool on_host;       /* the host may look at it */
    bool guarded;
    tli_slab *slabs; /* that small storages are cut from, the one in use first */
};

typedef struct tli_memory_args {
    tl_engine *engine;
    tl_device *device;
    tl_queue *queue, *in, *out;
    tli_losses *losses;
    bool host; /* memory of the host that the device reaches */
    bool guarded;
} tli_memory_args;
void tli_memory_init(tli_memory *m, const tli_memory_args *args);
void tli_memory_deinit(tli_memory *m);
void tli_memory_trim(tli_memory *m);

TL_NODISCARD tl_status tli_storage_new(tl_storage **out, tli_memory *m, size_t bytes);
/* Whether there is no other holder than the one who asks. */
static inline bool tli_storage_is_single(const tl_storage *s)
{
    return atomic_load_explicit(&s->refs, memory_order_acquire) == 1;
}
static inline void tli_storage_retain(tl_storage *s)
{
    // What nobody holds is gone.
    TL_ASSERT(atomic_load_explicit(&s->refs, memory_order_relaxed) > 0);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}
/* NULL is fine. */
void tli_storage_release(tl_storage *s);
/* Elements were written in place: who keeps something computed from them sees another version. */
static inline void tli_storage_touch(tl_storage *s)
{
    atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed);
}
static inline uint64_t tli_storage_version(const tl_storage *s)
{
    return atomic_load_explicit(&s->version, memory_order_relaxed);
}
/* Work that was put into the engine's queue just now writes it, or reads it. */
void tli_storage_written(tl_storage *s);
void tli_storage_used(tl_storage *s);
/* Notes a ticket unless a later one stands there. */
static inline void tli_ticket_raise(atomic_uint_least64_t *at, uint64_t ticket)
{
    uint64_t seen = atomic_load_explicit(at, memory_order_relaxed);
    while (seen < ticket
           && !atomic_compare_exchange_weak_explicit(at, &seen, ticket, memory_order_release,
                                                     memory_order_relaxed))
        continue;
}
/* The host is to look at it: waits until what writes it has run. */
TL_NODISCARD tl_status tli_storage_wait(const tl_storage *s);
/* Whether it has: then nobody waits. */
bool tli_storage_is_there(const tl_storage *s);
/* The host is to write it, where it lies at the host: waits until nobody uses it. */
TL_NODISCARD tl_status tli_storage_wait_to_write(const tl_storage *s);
/* Whether what was to write it last has not run, as work before it failed, and that failure was
 * told meanwhile. What writes it anew makes it good. */
bool tli_storage_is_lost(const tl_storage *s);
/* What it holds is as it should be, though work that was to write it was left undone. */
void tli_storage_accept(tl_storage *s);
/* Exchanges the memory of two, which nobody looks at meanwhile: where the host computes, and both
 * are of one size. What was captured with either sees what it holds then. */
bool tli_storage_can_exchange(const tl_storage *a, const tl_storage *b);
void tli_storage_exchange(tl_storage *a, tl_storage *b);
/* Its elements lie in `memory` from now on, which is somebody else's, has room for them, and
 * outlives it; what it had goes back to the pool, and is copied there before if it is `brought`.
 * Where the host computes, and nobody has done so before. */
bool tli_storage_can_move(const tl_storage *s);
TL_NODISCARD tl_status tli_storage_move(tl_storage *s, void *memory, bool brought);
/* The same as a failure: that of the work before it. */
TL_NODISCARD tl_status tli_storage_check(const tl_storage *s);
/* Whether no guard zone was written, waiting for what may do it; else `*at` is the first such byte,
 * counted from the storage's first. Always so for memory that is not guarded. */
TL_NODISCARD tl_status tli_storage_intact(const tl_storage *s, bool *intact, int64_t *at);

/* --- guards (guards.c) ------------------------------------------------------------------------ */

/* Bytes of a guard zone: 0 where memory is not guarded. */
size_t tli_guard_size(const tli_memory *m);
/* Elements hold the pattern of what nobody has written. */
TL_NODISCARD tl_status tli_guard_elements(tl_storage *s);
/* The zones around them are whole. */
TL_NODISCARD tl_status tli_guard_zones(tl_storage *s);

#endif
