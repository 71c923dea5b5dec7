/* The ways to compute CRC-32C, of which crc32c.c uses the fastest and the tests compare all.
 * Thread word: immutable. */
#ifndef TILTH_BASE_CRC32C_IMPL_H
#define TILTH_BASE_CRC32C_IMPL_H

#include <tilth/base/api.h>

typedef uint32_t tli_crc32c_fn(uint32_t crc, const void *data, size_t n);

typedef struct tli_crc32c_impl {
    const char *name;
    tli_crc32c_fn *extend;
} tli_crc32c_impl;

/* Those that this CPU can run, slowest first. */
enum { TLI_CRC32C_IMPLS = 2 };
int tli_crc32c_impls(tli_crc32c_impl out[TLI_CRC32C_IMPLS]);

#endif
