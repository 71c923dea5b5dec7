/* A GPU: its context, its memory, and queues that are streams.
 *
 * Thread word: free-threaded, as devices are; a queue that lists work has one thread at a time. */
#ifndef TILTH_CUDA_DEVICE_H
#define TILTH_CUDA_DEVICE_H

#include <pthread.h>

#include <tilth/base/map.h>
#include <tilth/core/ctx.h>
#include <tilth/sys/cuda/cuda.h>

#include "base/inner/thread.h"
#include "cuda/api.h"
#include "cuda/choices.h"
#include "cuda/code.h"

enum { TLI_CUDA_MODEL = 96 };
typedef struct tli_cuda {
    tl_device base;
    const tli_cuda_api *api;
    CUdevice device;
    CUcontext context;
    char model[TLI_CUDA_MODEL]; /* "NVIDIA H200" */
    int major, minor;           /* compute capability */
    int processors;
    int room;              /* bytes that a group of threads can share at most */
    int64_t cache;         /* bytes of the second level */
    bool served;           /* by MPS: kernels of other processes run beside ours */
    tli_cuda_codes *codes; /* of kernels */
    tli_choices choices;   /* among plans of libraries and forms of kernels */
    struct {
        pthread_mutex_t lock;
        pthread_t thread;
        bool asked, under_way;
        tli_leaving leaving;
    } handles;            /* of libraries, while they are made (handles.c) */
    pthread_mutex_t lock; /* of what follows */
    struct {
        CUmodule *items;
        int64_t count, capacity;
    } modules;                 /* of kernels that belong to no nest */
    tl_map kernels;            /* by what they are: CUfunction */
    tl_map paths;              /* of calls whose indices may name nothing: their numbers, from 1 */
    tl_map singles;            /* nests of one call: nest_ops.c */
    tl_map turned;             /* memory for filters that lie otherwise (lanes.h) */
    tl_map tables;             /* of numbers that kernels read, by themselves: addresses */
    cublasLtHandle_t products; /* NULL: not yet */
    tl_map plans;              /* of products: tli_cuda_plan */
    /* One call puts in its work at a time, as kernels of a call hand on what is in scratch. Guards
     * what follows, and what queues have for calls; taken before the other one. */
    pthread_mutex_t calls;
    cudnnHandle_t dnn; /* NULL: not yet */
    tl_map dnn_plans;  /* of convolutions and attention: tli_dnn_known */
} tli_cuda;
typedef struct tli_cuda_plan tli_cuda_plan;
typedef struct tli_cuda_lanes tli_cuda_lanes;

/* Work has tickets; an event stands behind each of the last so many. Whoever waits for older work
 * waits for the oldest of them. */
enum { TLI_CUDA_MARKS = 64, TLI_CUDA_AFTERS = 8 };
typedef struct tli_cuda_moment {
    tl_queue *queue;
    uint64_t ticket;
} tli_cuda_moment;
/* Memory that calls of a lane use one after the other; it grows as they need it. */
typedef struct tli_cuda_room {
    CUdeviceptr at; /* 0: not yet */
    size_t bytes;
    bool listed; /* lists of work have its address */
} tli_cuda_room;
/* What calls of a lane use (lanes.h). */
typedef struct tli_cuda_lane {
    CUstream stream;
    tli_cuda_room workspace, scratch;
} tli_cuda_lane;
typedef struct tli_cuda_queue tli_cuda_queue;
struct tli_cuda_queue {
    tl_queue base;
    CUstream stream;
    struct {
        bool joined;
        uint64_t alone; /* ticket of the last kernel that went without a promise; 0: none */
        tli_cuda_queue *next;
    } meets; /* what meetings.c knows, under its lock */
    /* For calls, one at a time (`calls` of the device): */
    tli_cuda_room workspace; /* of products, which have operands in the other one */
    tli_cuda_room scratch;   /* of everything else */
    struct {
        CUdeviceptr *items;
        int64_t count, capacity;
    } outgrown;              /* rooms that lists of work have the address of */
    CUdeviceptr meeting;     /* where groups of a kernel tell each other something, or 0 */
    CUdeviceptr step;        /* what draws depend on, or 0 */
    tl_draws draws;          /* what is there, or on its way */
    struct tli_fault *fault; /* memory of the host that kernels write, or NULL */
    pthread_mutex_t lock;    /* of all that follows */
    CUevent marks[TLI_CUDA_MARKS];
    uint64_t good; /* all work up to it has run and has not failed */
    bool failed;
    tl_error error;
    tl_map *asked;    /* for code, by its keys: nothing is put in; NULL: it is put in */
    bool listing;     /* what is put in is kept in a list */
    pthread_t lister; /* the thread that does so */
    tli_cuda_moment afters[TLI_CUDA_AFTERS]; /* that were asked for meanwhile */
    int after_count;
    /* Of the list that is made; NULL: none is */
    struct tli_whole *whole; /* knows its pieces */
    struct tli_cuda_lanes *lanes;
    tli_cuda_lane side; /* the lane that is not in use */
    CUstream early;     /* what needs nothing of the list; NULL: not yet */
};

static inline tli_cuda *tli_cuda_of(tl_device *d)
{
    return (tli_cuda *)d; // which it begins with
}
/* Its kernels can begin before what they wait for has ended. */
static inline bool tli_cuda_is_early(const tli_cuda *d)
{
    return d->major >= 9;
}
static inline tli_cuda_queue *tli_cuda_queue_of(tl_queue *q)
{
    return (tli_cuda_queue *)q;
}

/* What notes the pieces of the list that is made (whole.h); NULL: none is. */
static inline struct tli_whole *tli_cuda_listed(tl_queue *q)
{
    return tli_cuda_queue_of(q)->whole;
}

/* Whether what is put in is only looked at (tli_cuda_foresee). Addresses that a queue gives stand
 * for others then. */
static inline bool tli_cuda_foresees(tl_queue *q)
{
    return tli_cuda_queue_of(q)->asked != NULL;
}
/* Whether code is asked for the first time there; whoever asks holds the lock. */
bool tli_cuda_asks(tl_queue *q, const char *key);

static inline void *tli_cuda_somewhere(void)
{
    return (void *)(uintptr_t)(1 << 20); // as aligned as memory of the driver's
}

/* The calling thread's calls are about this GPU from now on. */
tl_status tli_cuda_enter(const tli_cuda *d);
/* A kernel of this name, compiled from the text; it lives as long as the device. Whoever calls it
 * holds the lock. */
tl_status tli_cuda_load(tli_cuda *d, CUfunction *out, const char *text, const char *name);
/* Puts a kernel whose text begins with GROUP_BEGIN (nest/kernel.h) into the queue: it waits for
 * what stands before it by itself, and is on its way meanwhile. `shared`: bytes that the threads
 * of a block share beside what the text declares. `promise`: the driver sees to it that all blocks
 * run at a time, as some wait for others. */
tl_status tli_cuda_launch(tl_queue *q, CUfunction kernel, int64_t blocks, int threads,
                          size_t shared, void **parameters, bool promise);
/* The same with the promise where it is needed (meetings.c), and a ticket. `proven`: it has run
 * with one, so that as many blocks fit. */
tl_status tli_cuda_launch_meeting(tl_queue *q, CUfunction kernel, int64_t blocks, int threads,
                                  size_t shared, void **parameters, bool proven);
/* Promised kernels of the queue are going to meet. */
tl_status tli_cuda_may_meet(tl_queue *q);
/* All that the queue had to do is done, or the GPU lost. */
void tli_cuda_meets_no_more(tl_queue *q);
/* It may have so many bytes of a group's memory beside those that its text declares. */
tl_status tli_cuda_give_shared(const tli_cuda *d, CUfunction kernel, size_t bytes);
/* What a kernel has said of an index, as a failure; then it is forgotten (work.c). */
tl_status tli_cuda_fault_told(tli_cuda_queue *q);
/* Gives back what work.c keeps. */
void tli_cuda_work_deinit(tli_cuda *d);
void tli_cuda_singles_deinit(tli_cuda *d);
void tli_cuda_queue_work_deinit(tli_cuda_queue *q);
/* The room of the run's queue has so many bytes, and goes into a list that is made. */
tl_status tli_cuda_make_room(const tl_run *run, tli_cuda_room *room, size_t bytes);
/* It has none, until it is made again. */
tl_status tli_cuda_drop_room(tli_cuda_queue *q, tli_cuda_room *room);
/* As tli_cuda_scratch (kernels.h), and nothing but the device. */
tl_status tli_cuda_queue_scratch(const tl_run *run, void **out, size_t bytes);
/* Handles of libraries are made beside what follows, unless somebody has asked for them already. */
void tli_cuda_handles_begin(tli_cuda *d);
/* Whoever needs one calls it before he looks whether it is there. */
void tli_cuda_handles_join(tli_cuda *d);
/* Gives back what products.c keeps, and dnn_plans.c. */
void tli_cuda_products_deinit(tli_cuda *d);
/* Algorithms of products are looked up again, as choices have changed. */
void tli_cuda_products_forget(tli_cuda *d);
void tli_dnn_plans_deinit(tli_cuda *d);

/* Methods of the class that are about queues (queue.c). */
tl_status tli_cuda_queue_new(tl_queue **out, tl_device *device);
void tli_cuda_queue_free(tl_queue **queue);
tl_status tli_cuda_copy(tl_queue *q, void *to, const void *from, size_t bytes);
tl_status tli_cuda_fill(tl_queue *q, void *to, uint16_t pattern, size_t bytes);
uint64_t tli_cuda_issue(tl_queue *q);
tl_status tli_cuda_after(tl_queue *q, tl_queue *other, uint64_t ticket);
bool tli_cuda_done(tl_queue *q, uint64_t ticket);
tl_status tli_cuda_wait(tl_queue *q, uint64_t ticket);
tl_status tli_cuda_clear(tl_queue *q, uint64_t *from, uint64_t *to);

/* And those about clocks and lists of work (list.c). */
tl_status tli_cuda_event_new(tl_event **out, tl_device *d);
void tli_cuda_event_free(tl_event **e);
tl_status tli_cuda_record(tl_event *e, tl_queue *q);
tl_status tli_cuda_elapsed(const tl_event *from, const tl_event *to, int64_t *ns);
tl_status tli_cuda_list_build(tl_device_program **out, tl_queue *q, tl_status (*put)(void *self),
                              void *self);
tl_status tli_cuda_list_run(tl_device_program *p, tl_queue *q);
void tli_cuda_list_free(tl_device_program **p);
tl_status tli_cuda_set_draws(tl_queue *q, const tl_draws *draws);
tl_status tli_cuda_foresee(tl_device *d, void (*put)(void *self, tl_queue *q), void *self);

#endif
