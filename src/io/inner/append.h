/* A file that only grows, by whole records: what a process that is killed, or a disk that is full,
 * can cut is at most the last one.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_APPEND_H
#define TLI_IO_APPEND_H

#include <tilth/base/str.h>

typedef struct tli_append tli_append;

/* `fresh`: the file must not be there yet (TL_EEXISTS). `lock`: others see with
 * tli_append_is_locked that it is in use. A link in its place is not followed: see tli_open_own in
 * base/inner/folder.h. */
tl_status tli_append_open(tli_append **out, const char *path, bool fresh, bool lock);
/* Frees it whatever happens; NULL is fine. */
tl_status tli_append_close(tli_append **a);
const char *tli_append_path(const tli_append *a);

/* Adds a record, which may wait in memory. */
tl_status tli_append_record(tli_append *a, const void *data, size_t size);
/* Hands what waits to the system. After a failure the file ends with a whole record, and what waits
 * is tried again the next time; of more than 8 MiB the oldest records are dropped, with a
 * warning. */
tl_status tli_append_flush(tli_append *a);
/* The same and to the disk; `rarely`: unless that was done less than a second ago. */
tl_status tli_append_sync(tli_append *a, bool rarely);

/* True when a living process has the file open with a lock. */
bool tli_append_is_locked(const char *path);

#endif
