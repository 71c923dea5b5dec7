/* Private to io: gzip and zlib streams in memory. */
#ifndef TLI_IO_INFLATE_H
#define TLI_IO_INFLATE_H

#include <tilth/base/str.h>

/* Do the bytes begin as a gzip stream does? As one of gzip or zlib? */
bool tli_is_gzip(const void *data, size_t size);
bool tli_is_packed(const void *data, size_t size);

/* How many bytes so many packed ones may become, when nobody says more; whether TILTH_UNPACK_LIMIT
 * says it. */
size_t tli_unpack_limit(size_t packed);
bool tli_unpack_told(void);

/* All members of a stream, one after the other, at most `limit` bytes; 0: in proportion to the
 * size, or what TILTH_UNPACK_LIMIT says. `name` begins messages. The result is the caller's, to be
 * freed with tl_free; NULL after a failure. */
tl_status tli_inflate(char **out, size_t *out_size, const char *name, const void *data, size_t size,
                      size_t limit);

/* Appends the bytes as a whole gzip file, without name and time: equal bytes give equal files. */
tl_status tli_gzip(tl_str *out, const void *data, size_t size, int level);

/* A gzip file in pieces: what is ready is appended to a string that the caller empties. */
typedef struct tli_gzip_stream tli_gzip_stream;
tl_status tli_gzip_begin(tli_gzip_stream **out, int level);
tl_status tli_gzip_add(tli_gzip_stream *s, tl_str *to, const void *data, size_t size, bool last);
void tli_gzip_end(tli_gzip_stream **s);

#endif
