#include "fake/fake_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/rng.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/nest/methods.h>

#include "core/inner/ctx.h"
#include "core/inner/engine.h"

enum { PAGE = 4096, MOST_BACKENDS = 32, MOST_TABLES = 64 };
static const size_t room = (size_t)64 << 30; /* of addresses; pages come when they are touched */

/* --- memory ----------------------------------------------------------------------------------- */

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

static pthread_mutex_t lock; /* of all that follows; whoever runs work holds it */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int64_t pending, fail_at, waits, host_bytes, host_peak;

static void make_lock(void)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static void enter(void)
{
    pthread_once(&once, make_lock);
    pthread_mutex_lock(&lock);
}

static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

static bool is_ours(const fake *d, const void *address)
{
    const char *at = address;
    return at >= d->shown && at < d->shown + room;
}

/* Where kernels see an address that was handed out. */
static void *real_address(const fake *d, const void *shown)
{
    return is_ours(d, shown) ? d->real + ((const char *)shown - d->shown) : (void *)shown;
}

static tl_status fake_open(tl_device **out, const char *which)
{
    if (which && strcmp(which, "0") != 0) return TL_FAIL(TL_EINVAL, "there is no device '%s'", which);
    const char *seed = getenv("TILTH_FAKE_SEED");
    fake *d = tl_alloc_zero(sizeof *d);
    if (!d) return TL_FAIL_NOMEM(sizeof *d);
    d->base.cls = &fake_device;
    snprintf(d->base.name, sizeof d->base.name, "fake:0");
    tl_rng_init(&d->order, seed ? strtoull(seed, NULL, 10) : 1);
    int fd = memfd_create("fake device", MFD_CLOEXEC);
    bool made = fd >= 0 && ftruncate(fd, (off_t)room) == 0;
    d->shown = made ? mmap(NULL, room, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
    d->real = made ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (d->shown != MAP_FAILED && d->real != MAP_FAILED) {
        *out = &d->base;
        return TL_OK;
    }
    if (d->shown != MAP_FAILED) munmap(d->shown, room);
    if (d->real != MAP_FAILED) munmap(d->real, room);
    tl_free(d);
    return TL_FAIL(TL_ENOMEM, "no room for a fake device");
}

static void fake_close(tl_device **device)
{
    fake *d = (fake *)*device;
    while (d->free) {
        block *b = d->free;
        d->free = b->next;
        free(b);
    }
    TL_ASSERT(!d->host && !d->queues);
    munmap(d->shown, room);
    munmap(d->real, room);
    tl_free(d);
    *device = NULL;
}

static void *fake_alloc(tl_device *device, size_t bytes)
{
    fake *d = (fake *)device;
    void *at = NULL;
    bytes = (bytes + 255) / 256 * 256;
    enter();
    for (block **b = &d->free; *b && !at; b = &(*b)->next) {
        if ((*b)->bytes != bytes) continue;
        block *taken = *b;
        at = taken->at;
        *b = taken->next;
        free(taken);
        break;
    }
    void *asked = tl_alloc(1); // so that tests can let it fail
    if (!asked) {
        at = NULL; // the addresses are lost, as there are many
    } else if (!at && bytes <= room - d->used) {
        at = d->shown + d->used;
        d->used += bytes;
    }
    leave();
    tl_free(asked);
    return at;
}

static void run_all(fake *d);

static void fake_free(tl_device *device, void *memory, size_t bytes)
{
    fake *d = (fake *)device;
    bytes = (bytes + 255) / 256 * 256;
    enter();
    run_all(d);
    memset(real_address(d, memory), 0xdb, bytes); // whoever still reads it shall notice
    block *b = malloc(sizeof *b); // no failure of this one reaches anybody
    if (b) { // else these addresses are not used again
        *b = (block){d->free, memory, bytes};
        d->free = b;
    }
    leave();
}

static void *fake_alloc_host(tl_device *device, size_t bytes)
{
    fake *d = (fake *)device;
    block *b = tl_alloc(sizeof *b);
    char *at = b ? tl_alloc_aligned(256, bytes ? bytes : 1) : NULL;
    if (!at) {
        tl_free(b);
        return NULL;
    }
    enter();
    *b = (block){d->host, at, bytes};
    d->host = b;
    host_bytes += (int64_t)bytes;
    if (host_peak < host_bytes) host_peak = host_bytes;
    leave();
    return at;
}

static void fake_free_host(tl_device *device, void *memory, size_t bytes)
{
    fake *d = (fake *)device;
    (void)bytes;
    enter();
    run_all(d);
    for (block **b = &d->host; *b; b = &(*b)->next) {
        if ((*b)->at != memory) continue;
        block *gone = *b;
        *b = gone->next;
        host_bytes -= (int64_t)gone->bytes;
        tl_free(gone);
        break;
    }
    leave();
    tl_free(memory);
}

static void fake_memory(tl_device *device, tl_device_memory *out)
{
    const fake *d = (const fake *)device;
    *out = (tl_device_memory){.free = (int64_t)(room - d->used), .total = (int64_t)room};
}

/* --- queues ----------------------------------------------------------------------------------- */

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
    launch *launched; /* that no ticket counts yet */
    tl_device_program *recorded; /* takes what is put in; NULL: it runs */
};

int64_t fake_waits(void)
{
    enter();
    int64_t count = waits;
    leave();
    return count;
}

int64_t fake_host_peak(bool reset)
{
    enter();
    if (reset) host_peak = host_bytes;
    int64_t bytes = host_peak;
    leave();
    return bytes;
}

int64_t fake_pending(void)
{
    enter();
    int64_t count = pending;
    leave();
    return count;
}

/* The queue of a real device has room for copies, whatever else lacks. */
static task *copy_task(void)
{
    task *t = calloc(1, sizeof *t);
    if (!t) abort();
    t->own = true;
    return t;
}

static void task_free(task *t)
{
    while (t->launched) {
        launch *l = t->launched;
        t->launched = l->next;
        tl_free(l);
    }
    tl_arena_free(&t->arena);
    if (t->own)
        free(t);
    else
        tl_free(t);
}

static bool can_run(const fake_queue *q)
{
    const task *t = q->first;
    for (int i = 0; t && i < t->before_count; i++)
        if (t->before[i].queue->ran < t->before[i].ticket) return false;
    return t != NULL;
}

void fake_fail_at(int64_t work)
{
    enter();
    fail_at = work;
    leave();
}

static bool fails_now(void)
{
    if (!fail_at || --fail_at) return false;
    (void)TL_FAIL(TL_EIO, "the fake device fails, as it was told");
    return true;
}

static void run_first(fake_queue *q)
{
    task *t = q->first;
    q->first = t->next;
    if (!q->first) q->last = NULL;
    q->ran++;
    if (!q->failed) {
        tl_error before;
        tl_error_save(&before);
        if (fails_now() || t->run(t) != TL_OK) {
            q->failed = q->ran;
            tl_error_save(&q->error);
        }
        tl_error_restore(&before);
    }
    pending--;
    task_free(t);
}

/* One piece of work of a queue that is drawn; false when none can run. */
static bool run_one(fake *d)
{
    int count = 0;
    for (fake_queue *q = d->queues; q; q = q->next) count += can_run(q);
    if (!count) return false;
    int drawn = (int)(tl_rng_u64(&d->order) % (uint64_t)count);
    for (fake_queue *q = d->queues; q; q = q->next)
        if (can_run(q) && drawn-- == 0) {
            run_first(q);
            return true;
        }
    return false;
}

static void run_all(fake *d)
{
    while (run_one(d)) continue;
}

static tl_status fake_queue_new(tl_queue **out, tl_device *device)
{
    fake *d = (fake *)device;
    fake_queue *q = tl_alloc_zero(sizeof *q);
    if (!q) return TL_FAIL_NOMEM(sizeof *q);
    q->base.device = device;
    enter();
    q->next = d->queues;
    d->queues = q;
    leave();
    *out = &q->base;
    return TL_OK;
}

static void fake_queue_free(tl_queue **queue)
{
    fake_queue *q = (fake_queue *)*queue;
    fake *d = (fake *)q->base.device;
    enter();
    run_all(d);
    for (fake_queue **at = &d->queues; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
    leave();
    tl_free(q);
    *queue = NULL;
}

static void put(tl_queue *queue, task *t)
{
    fake_queue *q = (fake_queue *)queue;
    enter();
    if (q->recorded) {
        if (q->recorded->last)
            q->recorded->last->next = t;
        else
            q->recorded->first = t;
        q->recorded->last = t;
        leave();
        return;
    }
    memcpy(t->before, q->before, sizeof t->before);
    t->before_count = q->before_count;
    q->before_count = 0;
    if (q->last)
        q->last->next = t;
    else
        q->first = t;
    q->last = t;
    pending++;
    __atomic_fetch_add(&q->base.issued, 1, __ATOMIC_RELEASE);
    leave();
}

static bool is_reachable(const fake *d, const void *address, size_t bytes)
{
    if (is_ours(d, address)) return true;
    for (const block *b = d->host; b; b = b->next)
        if ((const char *)address >= b->at && (const char *)address + bytes <= b->at + b->bytes) return true;
    return false;
}

static tl_status run_copy(task *t)
{
    memmove(t->to, t->from, t->bytes);
    return TL_OK;
}

static tl_status fake_copy(tl_queue *q, void *to, const void *from, size_t bytes)
{
    fake *d = (fake *)q->device;
    enter();
    bool reachable = is_reachable(d, to, bytes) && is_reachable(d, from, bytes);
    leave();
    if (!reachable)
        return TL_FAIL(TL_EINTERNAL, "a copy goes between memory of the device and memory from alloc_host");
    task *t = copy_task();
    t->run = run_copy;
    t->to = real_address(d, to);
    t->from = real_address(d, from);
    t->bytes = bytes;
    put(q, t);
    return TL_OK;
}

static tl_status run_fill(task *t)
{
    return tl_device_host.fill(NULL, t->to, t->pattern, t->bytes);
}

static tl_status fake_fill(tl_queue *q, void *to, uint16_t pattern, size_t bytes)
{
    const fake *d = (const fake *)q->device;
    task *t = copy_task();
    t->run = run_fill;
    t->to = real_address(d, to);
    t->pattern = pattern;
    t->bytes = bytes;
    put(q, t);
    return TL_OK;
}

static tl_status fake_after(tl_queue *queue, tl_queue *other, uint64_t ticket)
{
    fake_queue *q = (fake_queue *)queue;
    int i = 0;
    enter();
    while (i < q->before_count && q->before[i].queue != (fake_queue *)other) i++;
    TL_ASSERT(i < MOST_BEFORE);
    if (i == q->before_count) q->before[q->before_count++] = (moment){(fake_queue *)other, 0};
    if (q->before[i].ticket < ticket) q->before[i].ticket = ticket;
    leave();
    return TL_OK;
}

static bool fake_done(tl_queue *q, uint64_t ticket)
{
    enter();
    bool done = ((fake_queue *)q)->ran >= ticket;
    leave();
    return done;
}

static tl_status fake_wait(tl_queue *queue, uint64_t ticket)
{
    fake_queue *q = (fake_queue *)queue;
    tl_status st = TL_OK;
    enter();
    if (q->recorded) {
        leave();
        return TL_FAIL(TL_EUNSUPPORTED, "what is put into a list has not run, and cannot be waited for");
    }
    waits += q->ran < ticket;
    while (q->ran < ticket && run_one((fake *)queue->device)) continue;
    if (q->ran < ticket) st = TL_FAIL(TL_EINTERNAL, "a queue waits for itself");
    if (q->failed && ticket >= q->failed) {
        tl_error_restore(&q->error);
        st = tl_error_code();
    }
    leave();
    return st;
}

static tl_status fake_clear(tl_queue *queue, uint64_t *from, uint64_t *to)
{
    fake_queue *q = (fake_queue *)queue;
    enter();
    tl_status st = fake_wait(queue, q->base.issued);
    if (st != TL_OK) {
        *from = q->failed;
        *to = q->base.issued;
        q->failed = 0;
    }
    leave();
    return st;
}

/* --- work by the device's own means ------------------------------------------------------------ */

tl_status fake_launch(tl_queue *queue, tl_status (*run)(void *self), void *self)
{
    fake_queue *q = (fake_queue *)queue;
    launch *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    *l = (launch){.run = run, .self = self};
    enter();
    launch **end = &q->launched;
    while (*end) end = &(*end)->next;
    *end = l;
    leave();
    return TL_OK;
}

void *fake_address(const tl_queue *q, const void *shown)
{
    return real_address((const fake *)q->device, shown);
}

static tl_status run_launched(task *t)
{
    for (launch *l = t->launched; l; l = l->next) TL_TRY(l->run(l->self));
    return TL_OK;
}

static uint64_t fake_issue(tl_queue *queue)
{
    fake_queue *q = (fake_queue *)queue;
    task *t = copy_task();
    enter();
    t->run = run_launched;
    t->launched = q->launched;
    q->launched = NULL;
    put(queue, t);
    uint64_t ticket = q->base.issued;
    leave();
    return ticket;
}

/* --- events ------------------------------------------------------------------------------------ */

static tl_status fake_event_new(tl_event **out, tl_device *d)
{
    (void)d;
    *out = tl_alloc_zero(sizeof **out);
    return *out ? TL_OK : TL_FAIL_NOMEM(sizeof **out);
}

static void fake_event_free(tl_event **e)
{
    tl_free(*e);
    *e = NULL;
}

static tl_status run_record(task *t)
{
    t->event->came = true;
    t->event->ns = tl_clock_ns();
    return TL_OK;
}

static tl_status fake_record(tl_event *e, tl_queue *q)
{
    task *t = tl_alloc_zero(sizeof *t);
    if (!t) return TL_FAIL_NOMEM(sizeof *t);
    e->came = false;
    t->run = run_record;
    t->event = e;
    put(q, t);
    return TL_OK;
}

static tl_status fake_elapsed(const tl_event *from, const tl_event *to, int64_t *ns)
{
    enter();
    bool came = from->came && to->came;
    *ns = to->ns - from->ns;
    leave();
    return came ? TL_OK : TL_FAIL(TL_ESTATE, "the event has not come; wait for it first");
}

/* --- programs ---------------------------------------------------------------------------------- */

static void fake_program_free(tl_device_program **program)
{
    tl_device_program *p = *program;
    if (!p) return;
    enter();
    run_all((fake *)p->queue->device);
    leave();
    while (p->first) {
        task *t = p->first;
        p->first = t->next;
        task_free(t);
    }
    tl_free(p);
    *program = NULL;
}

static tl_status fake_program_build(tl_device_program **out, tl_queue *queue, tl_status (*put_all)(void *), void *self)
{
    fake_queue *q = (fake_queue *)queue;
    tl_device_program *p = tl_alloc_zero(sizeof *p);
    *out = NULL;
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->queue = queue;
    enter(); // nobody else's work may get into it
    q->recorded = p;
    tl_status st = put_all(self);
    q->recorded = NULL;
    leave();
    if (st != TL_OK) fake_program_free(&p);
    *out = p;
    return st;
}

static tl_status run_program(task *t)
{
    for (task *one = t->program->first; one; one = one->next) TL_TRY(one->run(one));
    return TL_OK;
}

static tl_status fake_program_run(tl_device_program *p, tl_queue *q)
{
    task *t = tl_alloc_zero(sizeof *t);
    if (!t) return TL_FAIL_NOMEM(sizeof *t);
    t->run = run_program;
    t->program = p;
    put(q, t);
    return TL_OK;
}

const tl_device_class fake_device = {
    .cls = {.class_size = sizeof(tl_device_class), .name = "fake", .help = "the host, as if it were elsewhere"},
    .alignment = 256,
    .block = 64 << 10,
    .open = fake_open,
    .close = fake_close,
    .alloc = fake_alloc,
    .free = fake_free,
    .alloc_host = fake_alloc_host,
    .free_host = fake_free_host,
    .memory = fake_memory,
    .queue_new = fake_queue_new,
    .queue_free = fake_queue_free,
    .copy = fake_copy,
    .fill = fake_fill,
    .issue = fake_issue,
    .after = fake_after,
    .done = fake_done,
    .wait = fake_wait,
    .clear = fake_clear,
    .event_new = fake_event_new,
    .event_free = fake_event_free,
    .record = fake_record,
    .elapsed = fake_elapsed,
    .program_build = fake_program_build,
    .program_run = fake_program_run,
    .program_free = fake_program_free,
};

/* --- kernels ---------------------------------------------------------------------------------- */

/* A header that kernels can use: the same elements at the addresses that they see. */
static tl_tensor *real_tensor(tl_arena *arena, const fake *d, const tl_tensor *t)
{
    tl_tensor *copy = tl_arena_copy(arena, t, sizeof *t);
    tl_storage *storage = copy ? tl_arena_alloc(arena, sizeof *storage) : NULL;
    if (!storage) return NULL;
    storage->memory = t->storage->memory;
    storage->bytes = t->storage->bytes;
    storage->capacity = t->storage->capacity;
    storage->data = real_address(d, t->storage->data);
    atomic_init(&storage->refs, 1);
    copy->storage = storage;
    return copy;
}

static tl_node *real_call(tl_arena *arena, const fake *d, const tl_node *call)
{
    tl_node *n = tl_arena_copy(arena, call, sizeof *call);
    tl_tensor **slots = tl_arena_array(arena, call->inputs + call->outputs, sizeof *slots);
    if (!n || !slots) return NULL;
    for (int i = 0; i < call->inputs; i++)
        if (!(slots[i] = real_tensor(arena, d, call->in[i]))) return NULL;
    for (int i = 0; i < call->outputs; i++)
        if (!(slots[call->inputs + i] = real_tensor(arena, d, call->out[i]))) return NULL;
    n->in = slots;
    n->out = slots + call->inputs;
    n->path = tl_arena_strdup(arena, call->path ? call->path : "");
    // What a nest is made of belongs to its program, which waits before it goes.
    if (call->op->attr && !(n->attr = tli_attr_copy(arena, call->op->attr, call->attr))) return NULL;
    return n->path ? n : NULL;
}

static tl_status run_kernel(task *t)
{
    tl_status st = t->kernel(&t->with, t->call);
    if (st == TL_OK) return TL_OK;
    return tl_error_note(st, "%s%s%s", t->call->path, *t->call->path ? ": " : "", t->call->op->name);
}

/* A task for the call, its tensors at the addresses that kernels see. */
static tl_status task_of(task **out, const tl_run *run, const tl_node *call)
{
    const fake *d = (const fake *)run->queue->device;
    task *t = tl_alloc_zero(sizeof *t);
    tl_status st = t ? tl_arena_new(&t->arena) : TL_FAIL_NOMEM(sizeof *t);
    if (st == TL_OK && !(t->call = real_call(t->arena, d, call))) st = TL_ENOMEM;
    if (st != TL_OK) {
        if (t) task_free(t);
        return st;
    }
    t->with = *run;
    *out = t;
    return TL_OK;
}

static tl_status around(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    task *t;
    if (run->queue->device->cls->host) return kernel(run, call); // with images of tensors
    TL_TRY(task_of(&t, run, call));
    if (run->packed && !(t->with.packed = real_tensor(t->arena, (const fake *)run->queue->device, run->packed))) {
        task_free(t);
        return TL_ENOMEM;
    }
    t->run = run_kernel;
    t->kernel = kernel;
    put(run->queue, t);
    return TL_OK;
}

/* --- nests ------------------------------------------------------------------------------------ */

/* Plans, compilers and code are the CPU's in wrappings of this device's own: whoever takes them for
 * the CPU's, or hands the CPU's to this device, does not get far. */
typedef struct fake_walk {
    tl_nest_walk base;
    const tl_nest_walk *inner;
} fake_walk;

typedef struct fake_compiler {
    tl_nest_compiler *inner;
    tl_arena *code;
} fake_compiler;

typedef struct fake_code {
    const tl_nest_code *inner;
} fake_code;

static const tl_nest_methods *inner_nests(void)
{
    return tl_backend_reference.nests; // all backends of the CPU have the same
}

static const tl_nest_walk *inner_walk(const tl_nest_walk *walk)
{
    return ((const fake_walk *)walk)->inner;
}

static tl_status plan_nest(const tl_nest_walk **out, tl_arena *arena, const tl_nest *nest)
{
    const tl_nest_walk *inner;
    *out = NULL;
    TL_TRY(inner_nests()->plan(&inner, arena, nest));
    fake_walk *w = tl_arena_alloc(arena, sizeof *w);
    if (!w) return TL_ENOMEM;
    *w = (fake_walk){*inner, inner};
    *out = &w->base;
    return TL_OK;
}

static bool as_good(const tl_nest_walk *both, const tl_nest_walk *a, const tl_nest_walk *b)
{
    return inner_nests()->as_good(inner_walk(both), inner_walk(a), inner_walk(b));
}

static void close_compiler(tl_nest_compiler **compiler)
{
    fake_compiler *c = (fake_compiler *)*compiler;
    if (!c) return;
    inner_nests()->close(&c->inner);
    tl_arena_free(&c->code);
    tl_free(c);
    *compiler = NULL;
}

static tl_status open_compiler(tl_nest_compiler **out, tl_engine *engine)
{
    fake_compiler *c = tl_alloc_zero(sizeof *c);
    *out = (tl_nest_compiler *)c;
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    tl_status st = tl_arena_new(&c->code);
    if (st == TL_OK) st = inner_nests()->open(&c->inner, engine);
    if (st != TL_OK) close_compiler(out);
    return st;
}

static tl_status compile_nests(tl_nest_compiler *compiler, const char *program,
                               const tl_nest_walk *const *walks, int64_t count,
                               const tl_nest_code **out, double *seconds)
{
    fake_compiler *c = (fake_compiler *)compiler;
    fake_code *code = tl_arena_array(c->code, count, sizeof *code);
    const tl_nest_walk **inner = tl_arena_array(c->code, count, sizeof *inner);
    const tl_nest_code **made = tl_arena_array(c->code, count, sizeof *made);
    if (!code || !inner || !made) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) inner[i] = inner_walk(walks[i]);
    TL_TRY(inner_nests()->compile(c->inner, program, inner, count, made, seconds));
    for (int64_t i = 0; i < count; i++) {
        code[i].inner = made[i];
        out[i] = (const tl_nest_code *)&code[i];
    }
    return TL_OK;
}

static tl_status run_nest(task *t)
{
    return inner_nests()->run(&t->with, t->call, t->walk, t->code, t->scratch);
}

static tl_status put_nest(const tl_run *run, const tl_node *call, const tl_nest_walk *walk,
                          const tl_nest_code *code, const tl_tensor *scratch)
{
    task *t;
    TL_TRY(task_of(&t, run, call));
    t->run = run_nest;
    t->walk = inner_walk(walk);
    t->code = code ? ((const fake_code *)code)->inner : NULL;
    if (scratch && !(t->scratch = real_tensor(t->arena, (const fake *)run->queue->device, scratch))) {
        task_free(t);
        return TL_ENOMEM;
    }
    put(run->queue, t);
    return TL_OK;
}

static tl_status put_compiled(const tl_run *run, const tl_node *call, const tl_nest_walk *walk,
                              const tl_nest_code *code, const tl_tensor *scratch)
{
    if (!code)
        return TL_FAIL(TL_EINTERNAL,
                       "a nest comes without code to a device that cannot interpret it");
    return put_nest(run, call, walk, code, scratch);
}

static void fill_nests(tl_nest_methods *m)
{
    *m = (tl_nest_methods){.limits = inner_nests()->limits,
                           .plan = plan_nest,
                           .as_good = as_good,
                           .open = open_compiler,
                           .close = close_compiler,
                           .compile = compile_nests,
                           .run = put_nest};
}

/* --- backends --------------------------------------------------------------------------------- */

typedef struct made {
    tl_backend_class backend; /* first: an engine's backend is what was made */
    const tl_backend_class *inner;
    const tl_kernels *tables[MOST_TABLES];
    tl_nest_methods nests;
} made;
static made all[MOST_BACKENDS];
static int made_count;

/* Tables of the whole chain, the last fallback's first: all of them are kernels of this device. */
static int gather_tables(made *m, const tl_backend_class *inner)
{
    int count = inner->fallback ? gather_tables(m, inner->fallback) : 0;
    for (const tl_kernels *const *t = inner->tables; t && *t; t++) {
        TL_ASSERT(count < MOST_TABLES - 1);
        m->tables[count++] = *t;
    }
    return count;
}

static tl_status run_pack(task *t)
{
    size_t bytes;
    return ((const made *)t->with.engine->backend)->inner->pack(&t->with, t->call, t->scratch, &bytes);
}

static tl_status put_pack(const tl_run *run, const tl_node *call, const tl_tensor *to, size_t *bytes)
{
    task *t;
    if (!to) return ((const made *)run->engine->backend)->inner->pack(run, call, NULL, bytes);
    TL_TRY(task_of(&t, run, call));
    t->run = run_pack;
    if (!(t->scratch = real_tensor(t->arena, (const fake *)run->queue->device, to))) {
        task_free(t);
        return TL_ENOMEM;
    }
    put(run->queue, t);
    return TL_OK;
}

tl_status fake_backend_of(const tl_backend_class **out, const tl_backend_class *inner)
{
    if (inner->choose) TL_TRY(inner->choose(&inner));
    enter();
    made *found = NULL;
    for (int i = 0; i < made_count && !found; i++)
        if (all[i].inner == inner) found = &all[i];
    if (!found && made_count < MOST_BACKENDS) {
        found = &all[made_count++];
        found->inner = inner;
        (void)gather_tables(found, inner);
        fill_nests(&found->nests);
        found->backend = (tl_backend_class){
            .cls = {.class_size = sizeof(tl_backend_class), .name = "fake", .help = "the CPU's kernels, elsewhere"},
            .tables = found->tables,
            .device = &fake_device,
            .supported = inner->supported,
            .around = around,
            .pack = inner->pack ? put_pack : NULL,
            .limits = inner->limits,
            .nests = &found->nests,
        };
    }
    leave();
    *out = found ? &found->backend : NULL;
    return found ? TL_OK : TL_FAIL(TL_ELIMIT, "a test makes at most %d backends", MOST_BACKENDS);
}

tl_status fake_backend_without_interpreter(const tl_backend_class **out)
{
    static tl_backend_class backend;
    static tl_nest_methods nests;
    const tl_backend_class *usual;
    TL_TRY(fake_backend_of(&usual, &tl_backend_cpu));
    enter();
    fill_nests(&nests);
    nests.compile_first = true;
    nests.run = put_compiled;
    backend = *usual;
    backend.nests = &nests;
    leave();
    *out = &backend;
    return TL_OK;
}

static tl_status choose_fake(const tl_backend_class **out)
{
    return fake_backend_of(out, &tl_backend_cpu);
}

const tl_backend_class fake_backend = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "fake", .help = "the CPU's kernels, elsewhere"},
    .choose = choose_fake,
};

static const tl_entry entries[] = {
    {&tl_kind_device, &fake_device.cls},
    {&tl_kind_backend, &fake_backend.cls},
};
const tl_module fake_module = {TL_MODULE_HEAD("fake"), entries, TL_COUNT(entries)};

bool fake_wanted(void)
{
    const char *device = getenv("TILTH_DEVICE");
    return device && strcmp(device, "fake") == 0;
}
