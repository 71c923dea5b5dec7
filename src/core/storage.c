#include "core/inner/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/status.h>

#include "core/inner/losses.h"
#include "core/inner/resident.h"

// Sizes are rounded up to four steps a power of two, from 64 bytes on: at most a quarter is wasted,
// and few lists serve all.
static int class_of(size_t bytes, size_t *capacity)
{
    size_t units = bytes ? (bytes + 63) / 64 : 1;
    if (units <= 4) {
        *capacity = units * 64;
        return (int)units - 1;
    }
    int log = 63 - __builtin_clzll(units - 1);
    size_t step = (size_t)1 << (log - 2), quarters = (units + step - 1) / step; // 5 to 8
    *capacity = quarters * step * 64;
    TL_ASSERT(quarters >= 5 && quarters <= 8 && *capacity >= bytes);
    return 4 + (log - 2) * 4 + (int)quarters - 5;
}

/* Large ones of a device are whole blocks instead: what is there is taken, and a workspace may be
 * most of it. The host gives pages to what is written alone. */
static int size_class(const tli_memory *m, size_t bytes, size_t *capacity)
{
    enum { LARGE = 8 }; // blocks
    const size_t block = m->device->cls->host ? 0 : m->device->cls->block;
    const int class_ = class_of(bytes, capacity);
    if (block && bytes >= LARGE * block) *capacity = (bytes + block - 1) / block * block;
    return class_;
}

void tli_memory_init(tli_memory *m, const tli_memory_args *args)
{
    pthread_mutex_init(&m->lock, NULL);
    m->engine = args->engine;
    m->device = args->device;
    m->queue = args->queue;
    m->in = args->in;
    m->out = args->out;
    m->losses = args->losses;
    m->on_host = args->host || args->device->cls->host;
    m->guarded = args->guarded;
}

static bool is_staging(const tli_memory *m)
{
    return m->on_host && !m->device->cls->host;
}

/* --- blocks of the device --------------------------------------------------------------------- */

/* A block that small storages are cut from, one behind the other. */
struct tli_slab {
    tli_slab *next;
    char *at;
    size_t bytes, used;
    int64_t parts, idle; /* cut from it; and those of them that nobody has, as a trim counts them */
};

static char *allocate_elements(const tli_memory *m, size_t bytes)
{
    return is_staging(m) ? m->device->cls->alloc_host(m->device, bytes)
                         : m->device->cls->alloc(m->device, bytes);
}

static void free_elements(const tli_memory *m, void *data, size_t bytes)
{
    if (is_staging(m)) m->device->cls->free_host(m->device, data, bytes);
    else m->device->cls->free(m->device, data, bytes);
}

static size_t whole_size(const tli_memory *m, size_t capacity)
{
    return capacity + 2 * tli_guard_size(m);
}

// Of a slab, what a small storage takes; 0 where it is a block of its own.
static size_t part_size(const tli_memory *m, size_t bytes)
{
    enum { SMALL = 8 }; // so many at least come from a slab
    const tl_device_class *d = m->device->cls;
    size_t part = (bytes + d->alignment - 1) / d->alignment * d->alignment;
    return !m->on_host && part <= d->block / SMALL ? part : 0;
}

static bool cut(tli_memory *m, tl_storage *s, size_t part)
{
    pthread_mutex_lock(&m->lock);
    tli_slab *slab = m->slabs;
    const bool fits = slab && part <= slab->bytes - slab->used;
    if (fits) {
        s->slab = slab;
        s->data = slab->at + slab->used;
        slab->used += part;
        slab->parts++;
    }
    pthread_mutex_unlock(&m->lock);
    return fits;
}

static bool add_slab(tli_memory *m)
{
    size_t bytes = m->device->cls->block;
    tli_slab *slab = tl_alloc_zero(sizeof *slab);
    char *at = slab ? allocate_elements(m, bytes) : NULL;
    if (!at) {
        tl_free(slab);
        return false;
    }
    slab->at = at;
    slab->bytes = bytes;
    pthread_mutex_lock(&m->lock);
    slab->next = m->slabs;
    m->slabs = slab;
    pthread_mutex_unlock(&m->lock);
    return true;
}

static bool find_elements(tli_memory *m, tl_storage *s, size_t bytes)
{
    size_t part = part_size(m, bytes);
    if (!part) return (s->data = allocate_elements(m, bytes)) != NULL;
    while (!cut(m, s, part)) // somebody else may have used up the new one
        if (!add_slab(m)) return false;
    return true;
}

static tl_storage *storage_allocate(tli_memory *m, int class_, size_t capacity)
{
    tl_storage *s = tl_alloc_zero(sizeof *s);
    if (!s || !find_elements(m, s, whole_size(m, capacity))) {
        tl_free(s);
        return NULL;
    }
    s->memory = m;
    s->data = (char *)s->data + tli_guard_size(m);
    s->size_class = class_;
    s->capacity = capacity;
    return s;
}

/* What a trim takes out of the pool. */
typedef struct rest {
    tl_storage *storages;
    tli_slab *slabs;
} rest;

static bool may_go(const tl_storage *s)
{
    return !s->slab || s->slab->idle == s->slab->parts;
}

static void count_idle(tli_memory *m)
{
    for (tli_slab *slab = m->slabs; slab; slab = slab->next) slab->idle = 0;
    for (int i = 0; i < TLI_SIZE_CLASSES; i++)
        for (tl_storage *s = m->free[i]; s; s = s->next)
            if (s->slab) s->slab->idle++;
}

// Slabs go when nobody has a part of them; till then their parts stay.
static void take_rest(tli_memory *m, rest *out)
{
    count_idle(m);
    for (int i = 0; i < TLI_SIZE_CLASSES; i++) {
        for (tl_storage **at = &m->free[i]; *at;) {
            tl_storage *s = *at;
            if (!may_go(s)) {
                at = &s->next;
                continue;
            }
            *at = s->next;
            m->stats.cached -= (int64_t)s->capacity;
            s->next = out->storages;
            out->storages = s;
        }
    }
    for (tli_slab **at = &m->slabs; *at;) {
        tli_slab *slab = *at;
        if (slab->idle != slab->parts) {
            at = &slab->next;
            continue;
        }
        *at = slab->next;
        slab->next = out->slabs;
        out->slabs = slab;
    }
}

// The device may wait for its work meanwhile: others allocate.
void tli_memory_trim(tli_memory *m)
{
    rest gone = {0};
    pthread_mutex_lock(&m->lock);
    take_rest(m, &gone);
    pthread_mutex_unlock(&m->lock);
    while (gone.storages) {
        tl_storage *s = gone.storages;
        gone.storages = s->next;
        if (!s->slab)
            free_elements(m, (char *)s->data - tli_guard_size(m), whole_size(m, s->capacity));
        tl_free(s);
    }
    while (gone.slabs) {
        tli_slab *slab = gone.slabs;
        gone.slabs = slab->next;
        free_elements(m, slab->at, slab->bytes);
        tl_free(slab);
    }
}

void tli_memory_deinit(tli_memory *m)
{
    tli_memory_trim(m);
    TL_ASSERT(m->stats.used == 0 && "tensors must be freed before their engine");
    pthread_mutex_destroy(&m->lock);
}

/* --- pages ------------------------------------------------------------------------------------ */

static pthread_once_t pages_known = PTHREAD_ONCE_INIT;
static bool has_huge_pages;

static void look_for_huge_pages(void)
{
    char text[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f && !fgets(text, sizeof text, f)) *text = '\0';
    if (f) fclose(f);
    has_huge_pages = *text && !strstr(text, "[never]");
}

size_t tli_resident(size_t bytes, size_t capacity)
{
    if (capacity < TLI_HUGE_FROM) return bytes;
    pthread_once(&pages_known, look_for_huge_pages);
    const size_t whole = (bytes + TLI_HUGE_PAGE - 1) / TLI_HUGE_PAGE * TLI_HUGE_PAGE;
    if (!has_huge_pages || whole > capacity / TLI_HUGE_PAGE * TLI_HUGE_PAGE) return bytes;
    return whole;
}

size_t tli_tensor_resident(const tl_tensor *t)
{
    const tl_storage *s = t->storage;
    return s->size_class < 0 ? s->bytes : tli_resident(s->bytes, s->capacity);
}

/* --- storages --------------------------------------------------------------------------------- */

static void count_used(tli_memory *m, tl_storage *s, size_t bytes)
{
    s->bytes = bytes;
    m->resident += (int64_t)tli_resident(bytes, s->capacity);
    m->stats.used += (int64_t)s->capacity;
    if (m->stats.peak < m->stats.used) m->stats.peak = m->stats.used;
}

// Copies in other queues may still be on their way in memory that was given back; and the host does
// not stand in the queue of kernels, as whoever takes memory of the device does.
static bool is_ready(const tl_storage *s)
{
    const tli_memory *m = s->memory;
    const tl_device_class *d = m->device->cls;
    return d->host
           || (d->done(m->in, atomic_load_explicit(&s->arriving, memory_order_acquire))
               && d->done(m->out, atomic_load_explicit(&s->leaving, memory_order_acquire))
               && (!m->on_host
                   || d->done(m->queue, atomic_load_explicit(&s->used, memory_order_acquire))));
}

// The first of this capacity, else the next larger one: those of a class differ where they are
// large.
static tl_storage **find_free(tli_memory *m, int class_, size_t capacity)
{
    tl_storage **best = NULL;
    for (tl_storage **at = &m->free[class_]; *at; at = &(*at)->next) {
        const size_t has = (*at)->capacity;
        if (has < capacity || (best && has >= (*best)->capacity) || !is_ready(*at)) continue;
        best = at;
        if (has == capacity) break;
    }
    return best;
}

static tl_storage *take_free(tli_memory *m, int class_, size_t capacity, size_t bytes)
{
    pthread_mutex_lock(&m->lock);
    tl_storage **at = find_free(m, class_, capacity), *s = at ? *at : NULL;
    // Nobody's.
    TL_ASSERT(!s || (s->size_class == class_ && s->memory == m && atomic_load(&s->refs) == 0));
    if (s) {
        *at = s->next;
        m->stats.cached -= (int64_t)s->capacity;
        count_used(m, s, bytes);
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

static tl_storage *ask_system(tli_memory *m, int class_, size_t capacity, size_t bytes)
{
    tl_storage *s = storage_allocate(m, class_, capacity);
    if (!s) {
        tli_memory_trim(m); // what is kept in other sizes may be what lacks
        s = storage_allocate(m, class_, capacity);
    }
    pthread_mutex_lock(&m->lock);
    m->stats.allocations++;
    if (s) count_used(m, s, bytes);
    pthread_mutex_unlock(&m->lock);
    return s;
}

// "; 'cuda:0' has 12 of 34 bytes free", as far as it is known.
static tl_status add_room(char *out, size_t size, const tli_memory *m)
{
    tl_device_memory room = {0};
    *out = '\0';
    TL_TRY(m->device->cls->memory(m->device, &room));
    if (room.free && !is_staging(m))
        snprintf(out, size, "; '%s' has %" PRId64 " of %" PRId64 " bytes free", m->device->name,
                 room.free, room.total);
    else if (room.total && !is_staging(m))
        snprintf(out, size, "; '%s' has %" PRId64 " in all", m->device->name, room.total);
    return TL_OK;
}

static tl_status fail_nomem(tli_memory *m, size_t bytes)
{
    tl_memory_stats stats;
    char room[128];
    pthread_mutex_lock(&m->lock);
    stats = m->stats;
    pthread_mutex_unlock(&m->lock);
    TL_TRY(add_room(room, sizeof room, m));
    return TL_FAIL(
        TL_ENOMEM,
        "out of memory: a tensor needs %zu bytes%s, and those that are alive hold %" PRId64 "%s",
        bytes, is_staging(m) ? " of the host that the device reaches" : "", stats.used, room);
}

tl_status tli_storage_new(tl_storage **out, tli_memory *m, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 4) return fail_nomem(m, bytes);
    size_t capacity;
    int class_ = size_class(m, bytes, &capacity);
    tl_storage *s = take_free(m, class_, capacity, bytes);
    if (!s && !(s = ask_system(m, class_, capacity, bytes))) return fail_nomem(m, bytes);
    TL_ASSERT(s->capacity >= capacity && bytes <= capacity && atomic_load(&s->leases) == 0);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&s->ticket, 0, memory_order_relaxed);
    tl_status st = m->guarded ? tli_guard_elements(s) : TL_OK;
    if (st == TL_OK && m->guarded) st = tli_guard_zones(s);
    if (st != TL_OK) {
        tli_storage_release(s);
        return st;
    }
    *out = s;
    return TL_OK;
}

void tli_storage_written(tl_storage *s)
{
    const tl_queue *q = s->memory->queue;
    if (q->device->cls->host) return;
    tli_ticket_raise(&s->ticket, tl_queue_ticket(q));
    tli_ticket_raise(&s->used, tl_queue_ticket(q));
}

void tli_storage_used(tl_storage *s)
{
    const tl_queue *q = s->memory->queue;
    if (!q->device->cls->host) tli_ticket_raise(&s->used, tl_queue_ticket(q));
}

static uint64_t ticket_of(const tl_storage *s)
{
    return atomic_load_explicit(&s->ticket, memory_order_acquire);
}

tl_status tli_storage_wait(const tl_storage *s)
{
    TL_TRY(tl_queue_wait(s->memory->queue, ticket_of(s)));
    return tli_storage_check(s);
}

bool tli_storage_is_there(const tl_storage *s)
{
    const tl_device_class *d = s->memory->device->cls;
    return d->host || d->done(s->memory->queue, ticket_of(s));
}

tl_status tli_storage_wait_to_write(const tl_storage *s)
{
    const tli_memory *m = s->memory;
    if (m->device->cls->host) return TL_OK;
    TL_TRY(tl_queue_wait(m->in, atomic_load_explicit(&s->arriving, memory_order_acquire)));
    TL_TRY(tl_queue_wait(m->out, atomic_load_explicit(&s->leaving, memory_order_acquire)));
    return tl_queue_wait(m->queue, atomic_load_explicit(&s->used, memory_order_acquire));
}

/* Where there is nothing, nothing can be missing: calls that make nothing put no work into the
 * queue, and the ticket is that of the work before them. */
static bool is_lost(const tl_storage *s, tl_error *why)
{
    return s->bytes && s->memory->losses && tli_losses_find(s->memory->losses, ticket_of(s), why);
}

bool tli_storage_is_lost(const tl_storage *s)
{
    return is_lost(s, NULL);
}

void tli_storage_accept(tl_storage *s)
{
    atomic_store_explicit(&s->ticket, 0, memory_order_release);
}

bool tli_storage_can_exchange(const tl_storage *a, const tl_storage *b)
{
    return a->memory == b->memory && a->memory->device->cls->host && a->bytes == b->bytes;
}

void tli_storage_exchange(tl_storage *a, tl_storage *b)
{
    TL_ASSERT(tli_storage_can_exchange(a, b));
    TL_ASSERT(atomic_load(&a->leases) == 0 && atomic_load(&b->leases) == 0);
    const tl_storage was = {
        .data = a->data, .slab = a->slab, .size_class = a->size_class, .capacity = a->capacity};
    a->data = b->data;
    a->slab = b->slab;
    a->size_class = b->size_class;
    a->capacity = b->capacity;
    b->data = was.data;
    b->slab = was.slab;
    b->size_class = was.size_class;
    b->capacity = was.capacity;
    tli_storage_touch(a);
    tli_storage_touch(b);
}

bool tli_storage_can_move(const tl_storage *s)
{
    return s->memory->device->cls->host && !s->memory->guarded && s->size_class >= 0;
}

tl_status tli_storage_move(tl_storage *s, void *memory, bool brought)
{
    TL_ASSERT(tli_storage_can_move(s));
    tl_storage *other = tl_alloc_zero(sizeof *other);
    if (!other) return TL_FAIL_NOMEM(sizeof *other);
    other->memory = s->memory;
    other->data = memory;
    other->bytes = s->bytes;
    other->size_class = -1;
    atomic_store_explicit(&other->refs, 1, memory_order_relaxed);
    if (brought) memcpy(memory, s->data, s->bytes);
    tli_storage_exchange(s, other);
    tli_storage_release(other);
    return TL_OK;
}

tl_status tli_storage_check(const tl_storage *s)
{
    tl_error why;
    if (!is_lost(s, &why)) return TL_OK;
    tl_error_restore(&why);
    return tl_error_note(why.code, "not computed");
}

void tli_storage_release(tl_storage *s)
{
    TL_ASSERT(!s || atomic_load(&s->refs) > 0);
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    tli_memory *m = s->memory;
    if (s->size_class < 0) {
        tl_free(s);
        return;
    }
    if (m->guarded) (void)!tli_guard_elements(s); // whoever still reads it shall notice
    pthread_mutex_lock(&m->lock);
    m->stats.used -= (int64_t)s->capacity;
    m->resident -= (int64_t)tli_resident(s->bytes, s->capacity);
    m->stats.cached += (int64_t)s->capacity;
    TL_ASSERT(m->stats.used >= 0 && atomic_load(&s->leases) == 0); // a lease holds its storage
    s->next = m->free[s->size_class];
    m->free[s->size_class] = s;
    pthread_mutex_unlock(&m->lock);
}
