/* Files that are only in memory: no system is asked for them, and reading beyond their last byte is
 * noticed, which it is not in a mapped file up to the end of its page. */
#ifndef TILTH_TESTS_FUZZ_MEMORY_FILES_H
#define TILTH_TESTS_FUZZ_MEMORY_FILES_H

#include <stddef.h>

enum { MEMORY_FILES = 2 };

/* From here on a copy of the bytes is what is read under this name, which the caller keeps; the
 * slot's last file is gone. */
void memory_file(int slot, const char *path, const void *data, size_t size);

#endif
