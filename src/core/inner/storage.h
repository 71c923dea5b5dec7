/* Storage of tensors, counted, from a pool of its engine: memory of the engine's device, or memory of the
 * host that the device reaches.
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
#include <tilth/sys/core/device.h>

enum {
    TLI_SIZE_CLASSES = 256,
    TLI_GUARD = 64,      /* bytes before the storage, and at least as many behind it */
    TLI_UNWRITTEN = 0x7ffd /* two bytes, again and again: a quiet NaN in every float type */
};

typedef struct tli_memory tli_memory;
struct tl_storage {
    atomic_int refs;
    atomic_int leases; /* readers; -1 while leased for writing */
    atomic_uint_least64_t version; /* another one after each write in place */
    atomic_uint_least64_t ticket;  /* of the last work in the engine's queue that writes it */
    tli_memory *memory;
    void *data; /* an address of the device, which only its kernels may look at */
    int size_class;
    size_t bytes, capacity; /* asked for, and there */
    struct tl_storage *next; /* in the list of free ones */
};
typedef struct tl_storage tl_storage;

/* Free storage waits in lists by size; a list holds storages whose capacity is that of the class. */
struct tli_memory {
    pthread_mutex_t lock;
    tl_storage *free[TLI_SIZE_CLASSES];
    tl_memory_stats stats;
    tl_engine *engine;
    tl_device *device;
    tl_queue *queue;  /* whose work uses it */
    bool on_host;     /* the host may look at it */
    bool guarded;
};

typedef struct tli_memory_args {
    tl_engine *engine;
    tl_device *device;
    tl_queue *queue;
    bool host;    /* memory of the host that the device reaches */
    bool guarded; /* where the host may look at it */
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
/* Work that was put into the engine's queue just now writes it. */
void tli_storage_written(tl_storage *s);
/* The host is to look at it: waits until what writes it has run. */
TL_NODISCARD tl_status tli_storage_wait(const tl_storage *s);
/* False when a guard zone was written; `*at` is the first such byte, counted from the storage's first.
 * Always true for memory that is not guarded. */
bool tli_storage_intact(const tl_storage *s, int64_t *at);

#endif
