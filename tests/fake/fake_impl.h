/* What the fake device is made of: memory and queues (fake_device.c), and kernels (fake_backend.c).
 *
 * Thread word: whoever looks inside holds the lock. */
#ifndef TILTH_TESTS_FAKE_IMPL_H
#define TILTH_TESTS_FAKE_IMPL_H

#include <tilth/base/arena.h>
#include <tilth/base/rng.h>
#include <tilth/sys/nest/methods.h>

#include "core/inner/engine.h"
#include "fake/fake_device.h"

typedef struct block {
    struct block *next;
    char *at;
    size_t bytes;
} block;

typedef struct fake_queue fake_queue;
typedef struct fake {
    tl_device base;
    char *shown, *real; /* the same bytes: what is handed out, and what kernels see */
    size_t used;
    block *free, *host; /* given back; and memory of the host that copies may reach */
    fake_queue *queues;
    tl_rng order;
} fake;

/* A queue that has come to a ticket: what work begins after. */
enum { MOST_BEFORE = 4 };
typedef struct moment {
    fake_queue *queue;
    uint64_t ticket;
} moment;

/* What a kernel has put somewhere by the device's own means. */
typedef struct launch {
    struct launch *next;
    tl_status (*run)(void *self);
    void *self;
} launch;

struct tl_event {
    bool came;
    int64_t ns;
};

typedef struct task {
    struct task *next;
    bool own; /* from malloc */
    moment before[MOST_BEFORE];
    int before_count;
    tl_status (*run)(struct task *t);
    /* copies and fills */
    void *to;
    const void *from;
    size_t bytes;
    uint16_t pattern;
    /* kernels */
    tl_arena *arena;
    tl_run with;
    tl_node *call;
    tl_kernel_fn *kernel;
    /* nests */
    const tl_nest_walk *walk;
    const tl_nest_code *code;
    tl_tensor *scratch;
    /* others */
    launch *launched;
    tl_event *event;
    tl_device_program *program;
} task;

struct tl_device_program {
    tl_queue *queue;
    task *first, *last;
};

struct fake_queue {
    tl_queue base;
    fake_queue *next;
    task *first, *last;
    uint64_t ran;
    uint64_t failed; /* the ticket of what has failed; 0: nothing has */
    tl_error error;
    moment before[MOST_BEFORE]; /* of what is put in next */
    int before_count;
    launch *launched;            /* that no ticket counts yet */
    tl_device_program *recorded; /* takes what is put in; NULL: it runs */
};

/* Whoever runs work holds the lock. */
void fake_enter(void);
void fake_leave(void);
/* Where kernels see an address that was handed out. */
void *fake_real_address(const fake *d, const void *shown);
/* The queue has the task now. */
void fake_put(tl_queue *q, task *t);
void fake_task_free(task *t);

#endif
