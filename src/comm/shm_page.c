#include "comm/shm.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/clock.h>

enum { MAGIC = 0x746c6331, VERSION = 1, YIELDS_NS = 50000 };

/* --- where things are ------------------------------------------------------------------------- */

static size_t up_to(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t face_bytes(int32_t size)
{
    size_t parts = size > TL_LANE_BLOCKS + 1 ? (size_t)size : TL_LANE_BLOCKS + 1;
    return up_to(sizeof(tli_shm_face) + parts * sizeof(tli_shm_where), TLI_SHM_LINE);
}

static size_t slots_at(void)
{
    return up_to(sizeof(tli_shm_head), TLI_SHM_LINE);
}

static size_t pairs_at(void)
{
    return slots_at() + sizeof(tli_shm_slot) * TL_COMM_GROUPS * TLI_SHM_SLOTS;
}

static size_t faces_at(int32_t size)
{
    return pairs_at() + sizeof(tli_shm_pair) * (size_t)size * (size_t)size;
}

static size_t calls(int32_t size)
{
    return (size_t)TL_COMM_GROUPS * TLI_SHM_SLOTS * (size_t)size;
}

static size_t mails_at(int32_t size)
{
    return up_to(faces_at(size) + face_bytes(size) * calls(size), TLI_SHM_PAGE);
}

/* Most of it is never touched, and takes no memory. */
size_t tli_shm_page_bytes(int32_t size)
{
    return mails_at(size) + (size_t)TLI_SHM_MAIL * calls(size);
}

void tli_shm_page_init(tli_shm_head *head, int32_t size)
{
    head->magic = MAGIC;
    head->version = VERSION;
    head->size = size;
}

static size_t slot_index(int32_t group, int64_t number)
{
    return (size_t)group * TLI_SHM_SLOTS + (size_t)(number % TLI_SHM_SLOTS);
}

tli_shm_slot *tli_shm_slot_of(const tli_shm *s, int32_t group, int64_t number)
{
    tli_shm_slot *slots = (void *)((char *)s->head + slots_at());
    return &slots[slot_index(group, number)];
}

tli_shm_pair *tli_shm_pair_of(const tli_shm *s, int32_t from, int32_t to)
{
    tli_shm_pair *pairs = (void *)((char *)s->head + pairs_at());
    return &pairs[(size_t)from * (size_t)s->head->size + (size_t)to];
}

tli_shm_face *tli_shm_face_of(const tli_shm *s, int32_t group, int64_t number, int32_t rank)
{
    size_t index = slot_index(group, number) * (size_t)s->head->size + (size_t)rank;
    return (void *)((char *)s->head + faces_at(s->head->size) + index * face_bytes(s->head->size));
}

char *tli_shm_mail_of(const tli_shm *s, int32_t group, int64_t number, int32_t rank)
{
    size_t index = slot_index(group, number) * (size_t)s->head->size + (size_t)rank;
    return (char *)s->head + mails_at(s->head->size) + index * TLI_SHM_MAIL;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void sleep_until_changed(tli_shm_count *c, uint32_t seen)
{
    // Who ends the world wakes all that it sees; one that was about to sleep looks again soon.
    const struct timespec most = {.tv_nsec = 50 * 1000 * 1000};
    syscall(SYS_futex, &c->value, FUTEX_WAIT, seen, &most, NULL, 0);
}

static void wake_all(tli_shm_count *c)
{
    if (!atomic_load(&c->sleepers)) return;
    syscall(SYS_futex, &c->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool reached(const tli_shm_count *c, uint32_t value, uint32_t *seen)
{
    *seen = atomic_load(&c->value);
    return (int32_t)(*seen - value) >= 0;
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

tl_status tli_shm_check(const tli_shm *s)
{
    if (atomic_load(&s->head->ended) != 2) return TL_OK;
    return TL_FAIL(TL_EPEER, "%.*s", TLI_SHM_WHY, s->head->why);
}

bool tli_shm_is_over(const tli_shm *s, const tli_shm_count *c, uint32_t value)
{
    uint32_t seen;
    return reached(c, value, &seen) || atomic_load(&s->head->ended) == 2;
}

tl_status tli_shm_wait(const tli_shm *s, tli_shm_count *c, uint32_t value)
{
    uint32_t seen;
    for (int i = 0; i < s->looks; i++) {
        if (reached(c, value, &seen)) return TL_OK;
        relax();
    }
    // The one that is waited for may stand behind us, on this processor. Where others do, who
    // sleeps is sooner back than who lets them pass.
    for (int64_t end = tl_clock_ns() + YIELDS_NS;;) {
        if (reached(c, value, &seen)) return TL_OK;
        if (tl_clock_ns() > end) break;
        sched_yield();
    }
    tl_status st = TL_OK;
    atomic_fetch_add(&c->sleepers, 1);
    while (!reached(c, value, &seen)) {
        if ((st = tli_shm_check(s)) != TL_OK) break;
        sleep_until_changed(c, seen);
    }
    atomic_fetch_sub(&c->sleepers, 1);
    return st;
}

void tli_shm_add(tli_shm_count *c, uint32_t value)
{
    if (atomic_fetch_add(&c->value, 1) + 1 == value) wake_all(c);
}

void tli_shm_end(const tli_shm *s, const char *why)
{
    int running = 0;
    if (!atomic_compare_exchange_strong(&s->head->ended, &running, 1)) return;
    snprintf(s->head->why, sizeof s->head->why, "%s", why);
    atomic_store(&s->head->ended, 2);
    for (int32_t g = 0; g < TL_COMM_GROUPS; g++)
        for (int64_t i = 0; i < TLI_SHM_SLOTS; i++) {
            wake_all(&tli_shm_slot_of(s, g, i)->arrived);
            wake_all(&tli_shm_slot_of(s, g, i)->parted);
        }
    for (int32_t from = 0; from < s->head->size; from++)
        for (int32_t to = 0; to < s->head->size; to++) {
            wake_all(&tli_shm_pair_of(s, from, to)->sent);
            wake_all(&tli_shm_pair_of(s, from, to)->taken);
        }
}
