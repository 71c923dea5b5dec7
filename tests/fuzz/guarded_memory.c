/* Memory for the fuzzers that are built without the address sanitizer (TILTH_FUZZ_GUARDED), and are
 * several times as fast: the input ends at a page that nobody may read, and so does one allocation
 * in GUARD_ONE_IN, whose page is closed when it is freed; all others have bytes behind them that
 * must still be there when they are freed, move whenever they grow, and are overwritten when they
 * are freed. The library is not instrumented: the fuzzer changes the inputs of its corpus, which
 * the one with the address sanitizer has found, and all of them (-keep_seed=1). */
#include "fuzz.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guarded_memory.h"

void *__libc_malloc(size_t size);
void __libc_free(void *p);

enum {
    GUARD_ONE_IN = 509,
    SLOTS = 256,
    PAGE = 4096,
    TAIL = 8,          /* bytes behind an allocation that must not change */
    FILLED = 128,      /* bytes at most that are overwritten */
    FRESH = 0xa5,      /* what nobody has written yet */
    GONE = 0xdd,       /* what was freed */
    IN_USE = 0x1234567 /* an allocation's mark */
};

typedef struct head {
    size_t size;
    uint32_t mark, offset; /* of the user's bytes from where the block begins */
} head;
_Static_assert(sizeof(head) == 16, "keeps the alignment of malloc");

static const unsigned char tail[TAIL] = {0xfe, 0xed, 0xfa, 0xce, 0xca, 0xfe, 0xbe, 0xef};

static _Noreturn void damaged(const char *what)
{
    // No formatting: that could allocate.
    (void)!write(2, what, strlen(what));
    abort();
}

/* --- pages with a closed one behind each ------------------------------------------------------ */

static struct guards {
    char *pages; /* slot i: page 2 i, and a closed one behind it */
    size_t sizes[SLOTS];
    uint16_t queue[SLOTS]; /* of free slots, the one freed longest ago first */
    uint32_t first, count;
    atomic_flag busy;
} guards = {.busy = ATOMIC_FLAG_INIT};

static bool open_guards(void)
{
    void *p = mmap(NULL, (size_t)SLOTS * 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    for (unsigned i = 0; i < SLOTS; i++) guards.queue[i] = (uint16_t)i;
    guards.count = SLOTS;
    guards.pages = p;
    return true;
}

static bool is_guarded(const void *p)
{
    return guards.pages && (const char *)p >= guards.pages
           && (const char *)p < guards.pages + (size_t)SLOTS * 2 * PAGE;
}

static size_t slot_of(const void *p)
{
    return (size_t)((const char *)p - guards.pages) / (2 * PAGE);
}

/* An object's alignment divides its size, so it can end where the page does; NULL: as others. */
static void *guarded_take(size_t size, size_t alignment)
{
    if (!size || size > PAGE || alignment > 16 || atomic_flag_test_and_set(&guards.busy))
        return NULL;
    void *p = NULL;
    if ((guards.pages || open_guards()) && guards.count) {
        size_t slot = guards.queue[guards.first];
        char *page = guards.pages + slot * 2 * PAGE;
        if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0) {
            guards.first = (guards.first + 1) % SLOTS;
            guards.count--;
            guards.sizes[slot] = size;
            p = page + PAGE - size;
            memset(p, FRESH, size);
        }
    }
    atomic_flag_clear(&guards.busy);
    return p;
}

static void guarded_free(void *p)
{
    size_t slot = slot_of(p);
    char *page = guards.pages + slot * 2 * PAGE;
    while (atomic_flag_test_and_set(&guards.busy)) {}
    if (!guards.sizes[slot] || (char *)p != page + PAGE - guards.sizes[slot])
        damaged("guarded memory: freed twice, or not where it begins\n");
    guards.sizes[slot] = 0;
    if (mprotect(page, PAGE, PROT_NONE) != 0) damaged("guarded memory: a page cannot be closed\n");
    guards.queue[(guards.first + guards.count++) % SLOTS] = (uint16_t)slot;
    atomic_flag_clear(&guards.busy);
}

/* --- all others ------------------------------------------------------------------------------- */

/* Large ones come from memory that is kept, not from the system each time. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 26);
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
}

/* What undefined behaviour ends with on AArch64 is no signal that libFuzzer sees. */
static void trapped(int number)
{
    (void)number;
    damaged("undefined behaviour\n");
}

__attribute__((constructor)) static void begin(void)
{
    keep_memory();
    signal(SIGTRAP, trapped);
}

static void *take(size_t size, size_t alignment)
{
    static _Thread_local unsigned turn;
    if (turn++ % GUARD_ONE_IN == 0) {
        void *p = guarded_take(size, alignment);
        if (p) return p;
    }
    if (size > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    size_t room = alignment > 16 ? alignment : 0;
    char *block = __libc_malloc(size + room + sizeof(head) + TAIL);
    if (!block) return NULL;
    char *p = block + sizeof(head);
    if (room) p = (char *)(((uintptr_t)p + alignment - 1) & ~(uintptr_t)(alignment - 1));
    ((head *)(void *)p)[-1] = (head){size, IN_USE, (uint32_t)(p - block)};
    memset(p, FRESH, size < FILLED ? size : FILLED);
    memcpy(p + size, tail, TAIL);
    return p;
}

static size_t size_of(const void *p)
{
    if (is_guarded(p)) return guards.sizes[slot_of(p)];
    const head *h = (const head *)p - 1;
    if (h->mark != IN_USE) damaged("guarded memory: freed twice, or never taken\n");
    if (memcmp((const char *)p + h->size, tail, TAIL) != 0)
        damaged("guarded memory: written behind its end\n");
    return h->size;
}

void free(void *p)
{
    if (!p) return;
    if (is_guarded(p)) {
        guarded_free(p);
        return;
    }
    size_t size = size_of(p);
    head *h = (head *)p - 1;
    h->mark = 0;
    memset(p, GONE, size < FILLED ? size : FILLED);
    __libc_free((char *)p - h->offset);
}

void *malloc(size_t size)
{
    return take(size, 1);
}

void *calloc(size_t count, size_t size)
{
    size_t all;
    void *p = __builtin_mul_overflow(count, size, &all) ? NULL : take(all, 1);
    return p ? memset(p, 0, all) : NULL;
}

void *realloc(void *old, size_t size)
{
    void *p = take(size, 1);
    if (!p || !old) return p;
    size_t had = size_of(old);
    memcpy(p, old, had < size ? had : size);
    free(old);
    return p;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return take(size, alignment);
}

void *memalign(size_t alignment, size_t size)
{
    return take(size, alignment);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *p = take(size, alignment);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *p)
{
    return p ? size_of(p) : 0;
}

/* --- the input -------------------------------------------------------------------------------- */

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST = 1 << 20 };
    static uint8_t *room;
    if (!room) {
        void *p =
            mmap(NULL, MOST + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(p != MAP_FAILED && mprotect((char *)p + MOST, PAGE, PROT_NONE) == 0, "no memory");
        room = p;
    }
    must(size <= MOST, "an input that is too large");
    uint8_t *at = room + MOST - size;
    if (size) memcpy(at, data, size);
    return __real_LLVMFuzzerTestOneInput(at, size);
}

/* --- what comparisons see --------------------------------------------------------------------- */

#define NOTHING(name)                                                                              \
    void __wrap___sanitizer_weak_hook_##name(void);                                                \
    void __wrap___sanitizer_weak_hook_##name(void)                                                 \
    {                                                                                              \
    }
NOTHING(memcmp)
NOTHING(strncmp)
NOTHING(strcmp)
NOTHING(strncasecmp)
NOTHING(strcasecmp)
NOTHING(strstr)
NOTHING(strcasestr)
NOTHING(memmem)
