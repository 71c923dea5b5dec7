/* What file.c shares with the other files that call the operating system. */
#ifndef TILTH_SRC_BASE_FILE_IO_H
#define TILTH_SRC_BASE_FILE_IO_H

#include <tilth/base/status.h>

#include <stddef.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* writev only reads, but its struct does not say so. */
static inline struct iovec tli_piece(const void *data, size_t size)
{
    return (struct iovec){(void *)(uintptr_t)data, size};
}

/* Writes all of the pieces, going on after signals and short writes, in one system call where the
 * system takes them in one. The pieces are consumed. 0, or the errno. */
int tli_write_all(int fd, struct iovec *pieces, int count);

/* Makes the failure "cannot VERB 'PATH': reason" from an errno; the code follows from the errno. */
#define TLI_FAIL_SYSTEM(error, verb, path)                                                         \
    tli_fail_system(__FILE__, __LINE__, (error), (verb), (path))
tl_status tli_fail_system(const char *file, int line, int error, const char *verb,
                          const char *path);

/* For names that nobody can guess. */
uint64_t tli_random_bits(void);

/* Opens a regular file for reading; anything else is refused at once, a pipe is not waited for. */
TL_NODISCARD tl_status tli_file_open(int *fd, struct stat *info, const char *path);

#endif
