#include "base/inner/reserve.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

tl_status tli_reserve(void **out, size_t bytes)
{
    *out = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*out != MAP_FAILED) return TL_OK;
    *out = NULL;
    return TL_FAIL(TL_ENOMEM, "%zu bytes of addresses: mmap: %s", bytes, strerror(errno));
}

void tli_reserve_drop(void *memory, size_t from, size_t to)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = (from + page - 1) / page * page, end = to / page * page;
    if (first < end) (void)!madvise((char *)memory + first, end - first, MADV_DONTNEED);
}

void tli_reserve_free(void *memory, size_t bytes)
{
    if (memory) munmap(memory, bytes ? bytes : 1);
}
