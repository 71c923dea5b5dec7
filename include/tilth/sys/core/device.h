/* Devices: where tensors lie and where kernels run. The host is one of them.
 *
 * A device has memory, whose addresses the host may only look at where the class says so, and
 * queues: what is put into a queue runs in order, some time later. A kernel of a backend for the
 * device puts its work into `run->queue` and returns. The host waits in one place, behind the
 * ticket of what it wants to see:
 *
 *     TL_TRY(q->device->cls->copy(q, host, device, bytes));     // put into the queue
 *     TL_TRY(tl_queue_wait(q, tl_queue_ticket(q)));             // now the bytes are there
 *
 * A ticket is the number of a piece of work in its queue. Who waits for it, on the host or in
 * another queue, waits for all that stands before it too: a ticket is what other systems call an
 * event.
 *
 * Work that fails makes its queue fail: it runs nothing more, and whoever waits for that work or
 * for later work is told. The failure stays until the class's `clear`, which says what was left
 * undone.
 *
 * docs/devices.md shows how a device is added.
 *
 * Ownership: who opens closes; queues before their device. Thread word: free-threaded. */
#ifndef TILTH_CORE_DEVICE_H
#define TILTH_CORE_DEVICE_H

#include <tilth/desc/class.h>

struct tl_draws; /* core/ctx.h */

TL_BEGIN

typedef struct tl_node tl_node; /* sys/core/op.h */
typedef struct tl_device_class tl_device_class;
typedef struct tl_event tl_event;                   /* the class's own */
typedef struct tl_device_program tl_device_program; /* the class's own */

/* What every device, and every queue, begins with. */
enum { TL_DEVICE_NAME = 32 };
typedef struct tl_device {
    const tl_device_class *cls;
    char name[TL_DEVICE_NAME]; /* as people write it, "cuda:1"; the class's `open` sets it */
} tl_device;
typedef struct tl_queue {
    tl_device *device;
    uint64_t issued; /* pieces of work so far; only the device's methods change it, atomically */
} tl_queue;

/* Memory of a device, in bytes; 0 where it is not known. */
typedef struct tl_device_memory {
    int64_t free, total;
} tl_device_memory;

struct tl_device_class {
    tl_class cls;
    /* Its memory is the host's, and its work is done when the call returns: nobody needs to
     * wait. */
    bool host;
    size_t alignment; /* of its memory: a power of two */
    /* (optional: any) Its memory is had in blocks of so many bytes: small tensors are cut from
     * them. */
    size_t block;
    /* (optional: 0) Where the tensors of a program need no more bytes, each has memory of its own:
     * then none waits for whoever had it before, and more of the program can run side by side. */
    size_t apart;
    /* (optional: none) Whether a call of a list runs beside those that follow it, until one needs
     * its memory: programs leave that alone for a while. */
    bool (*beside)(const tl_node *call);

    /* `which` is what stands behind the colon of "name:which", NULL where there is no colon. */
    tl_status (*open)(tl_device **out, const char *which);
    void (*close)(tl_device **device);

    /* NULL when there is not so much. What is given back may still be used by work in the queues:
     * then `free` waits for it. */
    void *(*alloc)(tl_device *d, size_t bytes);
    void (*free)(tl_device *d, void *memory, size_t bytes);
    /* Memory of the host that the device reads and writes by itself. */
    void *(*alloc_host)(tl_device *d, size_t bytes);
    void (*free_host)(tl_device *d, void *memory, size_t bytes);
    /* Fails when the device is lost, which may be why it gave none. */
    tl_status (*memory)(tl_device *d, tl_device_memory *out);

    tl_status (*queue_new)(tl_queue **out, tl_device *d);
    /* Waits for its work. */
    void (*queue_free)(tl_queue **q);
    /* Bytes between memory of the device and memory from alloc_host, in any combination. */
    tl_status (*copy)(tl_queue *q, void *to, const void *from, size_t bytes);
    /* The two bytes of `pattern`, again and again. */
    tl_status (*fill)(tl_queue *q, void *to, uint16_t pattern, size_t bytes);
    /* Counts a piece of work that a kernel has put into the queue by the device's own means, and
     * gives its ticket. `copy`, `fill` and `program_run` count theirs themselves. */
    uint64_t (*issue)(tl_queue *q);
    /* What is put into `q` from now on begins after the work of `other` up to `ticket`. */
    tl_status (*after)(tl_queue *q, tl_queue *other, uint64_t ticket);
    /* Whether all work up to `ticket` has run. */
    bool (*done)(tl_queue *q, uint64_t ticket);
    /* Waits until it has; a failure of work up to `ticket` comes out here. */
    tl_status (*wait)(tl_queue *q, uint64_t ticket);
    /* Waits for all work, tells its failure and forgets it: the work with the tickets `from` to
     * `to` is not done and will not be. TL_OK: there was no failure. */
    tl_status (*clear)(tl_queue *q, uint64_t *from, uint64_t *to);

    /* (optional, together: the host's clock around waits) The device's clock. An event has the time
     * at which all work before it in the queue had run; both must have come when the time between
     * them is asked for. */
    tl_status (*event_new)(tl_event **out, tl_device *d);
    void (*event_free)(tl_event **e);
    tl_status (*record)(tl_event *e, tl_queue *q);
    tl_status (*elapsed)(const tl_event *from, const tl_event *to, int64_t *ns);

    /* (optional, together: none) A list of work that is made once and run many times. `build` calls
     * `put`, and keeps what that puts into the queue instead of running it, with its addresses; a
     * wait then is TL_EUNSUPPORTED. `run` puts all of it into the queue as one piece of work.
     * `free` waits for it. */
    tl_status (*program_build)(tl_device_program **out, tl_queue *q, tl_status (*put)(void *self),
                               void *self);
    tl_status (*program_run)(tl_device_program *p, tl_queue *q);
    void (*program_free)(tl_device_program **p);
    /* (optional: none) Before calls run for the first time, so that what they need is made ready
     * side by side: `put` puts them into a queue `q` in which nothing runs, with the addresses that
     * they will have; what fails there is of no account. */
    tl_status (*foresee)(tl_device *d, void (*put)(void *self, tl_queue *q), void *self);
    /* (optional: programs with random ops are no lists) Kernels of the lists that are run behind it
     * draw for this step: its kernels must take their draws from there. */
    tl_status (*set_draws)(tl_queue *q, const struct tl_draws *draws);

    /* (optional, together: nothing was chosen) Which of several ways to compute the same thing was
     * taken, as lines of text: the bits of results depend on it, so a run that goes on takes the
     * same. `choices` adds it, nothing where there was no choice; `choose` takes such a text, and
     * warns of one that was made elsewhere and cannot be followed here. */
    tl_status (*choices)(tl_device *d, struct tl_str *out);
    tl_status (*choose)(tl_device *d, const char *text);

    /* (optional: `open` judges `which`) How many there are: `which` is a number below it then, and
     * whoever asks for another one is told those. */
    int64_t (*count)(void);
};

/* The kind under which devices are registered. */
TL_API extern const tl_kind tl_kind_device;
/* The processors of this machine and its memory. There is one, always open. */
TL_API extern const tl_device_class tl_device_host;
TL_API tl_device *tl_host(void);

static inline uint64_t tl_queue_ticket(const tl_queue *q)
{
    return __atomic_load_n(&q->issued, __ATOMIC_ACQUIRE);
}
static inline TL_NODISCARD tl_status tl_queue_wait(tl_queue *q, uint64_t ticket)
{
    return q->device->cls->host ? TL_OK : q->device->cls->wait(q, ticket);
}

TL_END

#endif
