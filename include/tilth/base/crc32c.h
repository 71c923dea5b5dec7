/* CRC-32C (Castagnoli), the checksum of record files, event files and checkpoints.
 *
 *     uint32_t crc = tl_crc32c(0, header, header_size);
 *     crc = tl_crc32c(crc, body, body_size);                // of header and body together
 *     uint32_t stored = tl_crc32c_mask(crc);                // as TFRecord files store it
 *
 * Uses the CPU's instruction where there is one, and tables where there is none; the result is the
 * same. Large buffers may be cut and summed by several threads, and put together with
 * tl_crc32c_combine.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_BASE_CRC32C_H
#define TILTH_BASE_CRC32C_H

#include <tilth/base/api.h>

TL_BEGIN

/* The checksum of all bytes so far: `crc` is that of the bytes before `data`, 0 when there are
 * none. */
TL_API uint32_t tl_crc32c(uint32_t crc, const void *data, size_t n);

/* The checksum of A followed by B, from theirs and the length of B. */
TL_API uint32_t tl_crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t length_b);

/* A checksum that is stored among the bytes it covers would weaken itself, so file formats store it
 * rotated and shifted by a constant. */
TL_API uint32_t tl_crc32c_mask(uint32_t crc);
TL_API uint32_t tl_crc32c_unmask(uint32_t masked);

TL_END

#endif
