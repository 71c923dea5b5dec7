/* Private to io: Snappy, as blocks of tables are compressed with it. Only read. */
#ifndef TLI_IO_SNAPPY_H
#define TLI_IO_SNAPPY_H

#include <tilth/base/status.h>

/* The bytes that a stream holds; to be freed with tl_free, NULL after a failure. Memory is asked
 * for only as far as the stream could fill it. Messages say what is wrong at which byte. */
TL_NODISCARD tl_status tli_snappy_unpack(char **out, size_t *out_size, const void *data,
                                         size_t size);

#endif
