#include "fake/fake_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>

/* Of addresses; pages come when they are touched. ThreadSanitizer has a shadow for each, which it
 * maps at once. */
#ifdef __SANITIZE_THREAD__
static const size_t room = (size_t)1 << 30;
#else
static const size_t room = (size_t)64 << 30;
#endif

/* --- memory ----------------------------------------------------------------------------------- */

static pthread_mutex_t lock; /* of all that follows; whoever runs work holds it */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int64_t pending, fail_at, waits, ran, delay_ns, host_bytes, host_peak;

static void make_lock(void)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

void fake_enter(void)
{
    pthread_once(&once, make_lock);
    pthread_mutex_lock(&lock);
}

void fake_leave(void)
{
    pthread_mutex_unlock(&lock);
}

static bool is_ours(const fake *d, const void *address)
{
    const char *at = address;
    return at >= d->shown && at < d->shown + room;
}

/* Where kernels see an address that was handed out. */
void *fake_real_address(const fake *d, const void *shown)
{
    return is_ours(d, shown) ? d->real + ((const char *)shown - d->shown) : (void *)shown;
}

static int64_t fake_count(void)
{
    return 1;
}

static tl_status fake_open(tl_device **out, const char *which)
{
    (void)which; // there is one
    const char *seed = getenv("TILTH_FAKE_SEED");
    fake *d = tl_alloc_zero(sizeof *d);
    if (!d) return TL_FAIL_NOMEM(sizeof *d);
    d->base.cls = &fake_device;
    snprintf(d->base.name, sizeof d->base.name, "fake:0");
    tl_rng_init(&d->order, seed ? strtoull(seed, NULL, 10) : 1);
    int fd = memfd_create("fake device", MFD_CLOEXEC);
    bool made = fd >= 0 && ftruncate(fd, (off_t)room) == 0;
    d->shown = made ? mmap(NULL, room, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
    d->real = made ? mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)
                   : MAP_FAILED;
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
    fake_enter();
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
    fake_leave();
    tl_free(asked);
    return at;
}

static void run_all(fake *d);

static void fake_free(tl_device *device, void *memory, size_t bytes)
{
    fake *d = (fake *)device;
    bytes = (bytes + 255) / 256 * 256;
    fake_enter();
    run_all(d);
    memset(fake_real_address(d, memory), 0xdb, bytes); // whoever still reads it shall notice
    block *b = malloc(sizeof *b);                      // no failure of this one reaches anybody
    if (b) {                                           // else these addresses are not used again
        *b = (block){d->free, memory, bytes};
        d->free = b;
    }
    fake_leave();
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
    fake_enter();
    *b = (block){d->host, at, bytes};
    d->host = b;
    host_bytes += (int64_t)bytes;
    if (host_peak < host_bytes) host_peak = host_bytes;
    fake_leave();
    return at;
}

static void fake_free_host(tl_device *device, void *memory, size_t bytes)
{
    fake *d = (fake *)device;
    (void)bytes;
    fake_enter();
    run_all(d);
    for (block **b = &d->host; *b; b = &(*b)->next) {
        if ((*b)->at != memory) continue;
        block *gone = *b;
        *b = gone->next;
        host_bytes -= (int64_t)gone->bytes;
        tl_free(gone);
        break;
    }
    fake_leave();
    tl_free(memory);
}

static tl_status fake_memory(tl_device *device, tl_device_memory *out)
{
    const fake *d = (const fake *)device;
    *out = (tl_device_memory){.free = (int64_t)(room - d->used), .total = (int64_t)room};
    return TL_OK;
}

/* --- queues ----------------------------------------------------------------------------------- */

int64_t fake_waits(void)
{
    fake_enter();
    int64_t count = waits;
    fake_leave();
    return count;
}

int64_t fake_ran(void)
{
    fake_enter();
    int64_t count = ran;
    fake_leave();
    return count;
}

void fake_set_delay(int64_t ns)
{
    fake_enter();
    delay_ns = ns;
    fake_leave();
}

int64_t fake_host_peak(bool reset)
{
    fake_enter();
    if (reset) host_peak = host_bytes;
    int64_t bytes = host_peak;
    fake_leave();
    return bytes;
}

int64_t fake_pending(void)
{
    fake_enter();
    int64_t count = pending;
    fake_leave();
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

void fake_task_free(task *t)
{
    while (t->launched) {
        launch *l = t->launched;
        t->launched = l->next;
        tl_free(l);
    }
    tl_arena_free(&t->arena);
    if (t->own) free(t);
    else tl_free(t);
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
    fake_enter();
    fail_at = work;
    fake_leave();
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
    ran++;
    if (delay_ns) nanosleep(&(struct timespec){.tv_nsec = delay_ns}, NULL);
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
    fake_task_free(t);
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
    fake_enter();
    q->next = d->queues;
    d->queues = q;
    fake_leave();
    *out = &q->base;
    return TL_OK;
}

static void fake_queue_free(tl_queue **queue)
{
    fake_queue *q = (fake_queue *)*queue;
    fake *d = (fake *)q->base.device;
    fake_enter();
    run_all(d);
    for (fake_queue **at = &d->queues; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
    fake_leave();
    tl_free(q);
    *queue = NULL;
}

void fake_put(tl_queue *queue, task *t)
{
    fake_queue *q = (fake_queue *)queue;
    fake_enter();
    if (q->recorded) {
        if (q->recorded->last) q->recorded->last->next = t;
        else q->recorded->first = t;
        q->recorded->last = t;
        fake_leave();
        return;
    }
    memcpy(t->before, q->before, sizeof t->before);
    t->before_count = q->before_count;
    q->before_count = 0;
    if (q->last) q->last->next = t;
    else q->first = t;
    q->last = t;
    pending++;
    __atomic_fetch_add(&q->base.issued, 1, __ATOMIC_RELEASE);
    fake_leave();
}

static bool is_reachable(const fake *d, const void *address, size_t bytes)
{
    if (is_ours(d, address)) return true;
    for (const block *b = d->host; b; b = b->next)
        if ((const char *)address >= b->at && (const char *)address + bytes <= b->at + b->bytes)
            return true;
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
    fake_enter();
    bool reachable = is_reachable(d, to, bytes) && is_reachable(d, from, bytes);
    fake_leave();
    if (!reachable)
        return TL_FAIL(TL_EINTERNAL,
                       "a copy goes between memory of the device and memory from alloc_host");
    task *t = copy_task();
    t->run = run_copy;
    t->to = fake_real_address(d, to);
    t->from = fake_real_address(d, from);
    t->bytes = bytes;
    fake_put(q, t);
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
    t->to = fake_real_address(d, to);
    t->pattern = pattern;
    t->bytes = bytes;
    fake_put(q, t);
    return TL_OK;
}

static tl_status fake_after(tl_queue *queue, tl_queue *other, uint64_t ticket)
{
    fake_queue *q = (fake_queue *)queue;
    int i = 0;
    fake_enter();
    while (i < q->before_count && q->before[i].queue != (fake_queue *)other) i++;
    TL_ASSERT(i < MOST_BEFORE);
    if (i == q->before_count) q->before[q->before_count++] = (moment){(fake_queue *)other, 0};
    if (q->before[i].ticket < ticket) q->before[i].ticket = ticket;
    fake_leave();
    return TL_OK;
}

static bool fake_done(tl_queue *q, uint64_t ticket)
{
    fake_enter();
    bool done = ((fake_queue *)q)->ran >= ticket;
    fake_leave();
    return done;
}

static tl_status fake_wait(tl_queue *queue, uint64_t ticket)
{
    fake_queue *q = (fake_queue *)queue;
    tl_status st = TL_OK;
    fake_enter();
    if (q->recorded) {
        fake_leave();
        return TL_FAIL(TL_EUNSUPPORTED,
                       "what is put into a list has not run, and cannot be waited for");
    }
    waits += q->ran < ticket;
    while (q->ran < ticket && run_one((fake *)queue->device)) continue;
    if (q->ran < ticket) st = TL_FAIL(TL_EINTERNAL, "a queue waits for itself");
    if (q->failed && ticket >= q->failed) {
        tl_error_restore(&q->error);
        st = tl_error_code();
    }
    fake_leave();
    return st;
}

static tl_status fake_clear(tl_queue *queue, uint64_t *from, uint64_t *to)
{
    fake_queue *q = (fake_queue *)queue;
    fake_enter();
    tl_status st = fake_wait(queue, q->base.issued);
    if (st != TL_OK) {
        *from = q->failed;
        *to = q->base.issued;
        q->failed = 0;
    }
    fake_leave();
    return st;
}

/* --- work by the device's own means ----------------------------------------------------------- */

tl_status fake_launch(tl_queue *queue, tl_status (*run)(void *self), void *self)
{
    fake_queue *q = (fake_queue *)queue;
    launch *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    *l = (launch){.run = run, .self = self};
    fake_enter();
    launch **end = &q->launched;
    while (*end) end = &(*end)->next;
    *end = l;
    fake_leave();
    return TL_OK;
}

void *fake_address(const tl_queue *q, const void *shown)
{
    return fake_real_address((const fake *)q->device, shown);
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
    fake_enter();
    t->run = run_launched;
    t->launched = q->launched;
    q->launched = NULL;
    fake_put(queue, t);
    uint64_t ticket = q->base.issued;
    fake_leave();
    return ticket;
}

/* --- events ----------------------------------------------------------------------------------- */

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
    fake_put(q, t);
    return TL_OK;
}

static tl_status fake_elapsed(const tl_event *from, const tl_event *to, int64_t *ns)
{
    fake_enter();
    bool came = from->came && to->came;
    *ns = to->ns - from->ns;
    fake_leave();
    return came ? TL_OK : TL_FAIL(TL_ESTATE, "the event has not come; wait for it first");
}

/* --- programs --------------------------------------------------------------------------------- */

static void fake_program_free(tl_device_program **program)
{
    tl_device_program *p = *program;
    if (!p) return;
    fake_enter();
    run_all((fake *)p->queue->device);
    fake_leave();
    while (p->first) {
        task *t = p->first;
        p->first = t->next;
        fake_task_free(t);
    }
    tl_free(p);
    *program = NULL;
}

static tl_status fake_program_build(tl_device_program **out, tl_queue *queue,
                                    tl_status (*put_all)(void *), void *self)
{
    fake_queue *q = (fake_queue *)queue;
    tl_device_program *p = tl_alloc_zero(sizeof *p);
    *out = NULL;
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->queue = queue;
    fake_enter(); // nobody else's work may get into it
    q->recorded = p;
    tl_status st = put_all(self);
    q->recorded = NULL;
    fake_leave();
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
    fake_put(q, t);
    return TL_OK;
}

/* --- choices ---------------------------------------------------------------------------------- */

/* TILTH_FAKE_CHOICES says what it has chosen; of what it is to choose it speaks. */
static tl_status fake_choices(tl_device *device, tl_str *out)
{
    const char *text = getenv("TILTH_FAKE_CHOICES");
    (void)device;
    if (text) tl_str_add(out, text);
    return tl_str_status(out);
}

static tl_status fake_choose(tl_device *device, const char *text)
{
    TL_LOG_WARNING("%s: it was chosen: %s", device->name, text);
    return TL_OK;
}

const tl_device_class fake_device = {
    .cls = {.class_size = sizeof(tl_device_class),
            .name = "fake",
            .help = "the host, as if it were elsewhere"},
    .alignment = 256,
    .block = 64 << 10,
    .open = fake_open,
    .close = fake_close,
    .alloc = fake_alloc,
    .free = fake_free,
    .alloc_host = fake_alloc_host,
    .free_host = fake_free_host,
    .memory = fake_memory,
    .choices = fake_choices,
    .choose = fake_choose,
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
    .count = fake_count,
};
