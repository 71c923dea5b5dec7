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

size_t tli_reserve_drop(void *memory, size_t from, size_t to)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory;
    const uintptr_t first = (at + from + page - 1) / page * page, end = (at + to) / page * page;
    if (first >= end) return 0;
    char *begin = (char *)memory + (first - at);
    return madvise(begin, end - first, MADV_DONTNEED) == 0 ? end - first : 0;
}

void tli_reserve_free(void *memory, size_t bytes)
{
    if (memory) munmap(memory, bytes ? bytes : 1);
}
