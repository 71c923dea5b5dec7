/* Bytes as text of 64 characters (RFC 4648), for files within files.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BASE_BASE64_H
#define TLI_BASE_BASE64_H

#include <tilth/base/str.h>

void tli_base64_add(tl_str *out, const void *data, size_t size);

#endif
