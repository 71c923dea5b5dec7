/* SHA-256 of bytes, for records that carry it as a name of their image.
 *
 *     char text[TLI_SHA256_TEXT];
 *     tli_sha256_text(text, file.data, file.size);                 // 64 digits and small letters
 *
 * Thread word: free-threaded. */
#ifndef TLI_BASE_SHA256_H
#define TLI_BASE_SHA256_H

#include <tilth/base/status.h>

enum { TLI_SHA256_BYTES = 32, TLI_SHA256_TEXT = 65 };

void tli_sha256(uint8_t out[TLI_SHA256_BYTES], const void *data, size_t size);
/* In hexadecimal, with a NUL behind it. */
void tli_sha256_text(char out[TLI_SHA256_TEXT], const void *data, size_t size);

enum { TLI_HMAC_MOST = 256 };
/* HMAC-SHA-256 (RFC 2104) of at most TLI_HMAC_MOST bytes, by a key of at most 64. */
void tli_hmac_sha256(uint8_t out[TLI_SHA256_BYTES], const void *key, size_t key_size,
                     const void *data, size_t size);

#endif
