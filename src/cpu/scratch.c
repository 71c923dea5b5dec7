#include "cpu/scratch.h"

#include <pthread.h>
#include <sys/mman.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>

/* Sizes are rounded up, so that small steps cost nothing. Large pieces are asked to be backed by
 * huge pages: kernels walk through them in ways that would miss the TLB. */
enum { ALIGNMENT = 64, STEP = 1 << 16, HUGE_PAGE = 2 << 20 };
_Static_assert(STEP % ALIGNMENT == 0 && HUGE_PAGE % STEP == 0,
               "pieces are whole lines, and whole huge pages");

typedef struct piece {
    void *memory;
    size_t bytes, asked; /* that are there; that the last caller wanted */
} piece;

static _Thread_local struct {
    piece pieces[TLI_SCRATCH_SLOTS];
    bool registered; /* the key's destructor knows of this thread */
} own;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made; /* without it, memory of a thread that ends is lost, and nothing else */

void tli_scratch_free(void)
{
    for (int i = 0; i < TLI_SCRATCH_SLOTS; i++) {
        tl_free(own.pieces[i].memory);
        own.pieces[i] = (piece){0};
    }
}

static void end_thread(void *unused)
{
    (void)unused;
    tli_scratch_free();
    own.registered = false; // another destructor may still compute something
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, end_thread) == 0;
}

/* Destructors of keys do not run for the thread that ends the process. */
__attribute__((destructor)) static void end_process(void)
{
    tli_scratch_free();
}

tl_status tli_scratch(void **out, tli_scratch_slot slot, size_t bytes)
{
    TL_ASSERT((int)slot >= 0 && slot < TLI_SCRATCH_SLOTS);
    piece *p = &own.pieces[slot];
    if (p->bytes < bytes) {
        if (!own.registered) {
            pthread_once(&once, make_key);
            own.registered = key_made && pthread_setspecific(key, &own) == 0;
        }
        tl_free(p->memory);
        *p = (piece){0};
        const bool large = bytes >= HUGE_PAGE / 2;
        const size_t unit = large ? HUGE_PAGE : STEP;
        const size_t rounded = bytes > SIZE_MAX - unit ? bytes : tl_round_up_size(bytes, unit);
        p->memory = tl_alloc_aligned(large ? HUGE_PAGE : ALIGNMENT, rounded);
        if (!p->memory) {
            *out = NULL;
            return TL_FAIL_NOMEM(rounded);
        }
#ifdef MADV_HUGEPAGE
        if (large) (void)madvise(p->memory, rounded, MADV_HUGEPAGE); // a wish; no is an answer
#endif
        p->bytes = rounded;
    }
    TL_ASSERT(p->bytes >= bytes && (uintptr_t)p->memory % ALIGNMENT == 0);
    p->asked = bytes;
    *out = p->memory;
    return TL_OK;
}

bool tli_scratch_holds(const void *memory, size_t bytes)
{
    for (int i = 0; i < TLI_SCRATCH_SLOTS; i++) {
        const char *begin = own.pieces[i].memory, *at = memory;
        if (begin && at >= begin && at + bytes <= begin + own.pieces[i].asked) return true;
    }
    return false;
}
