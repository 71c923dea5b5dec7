#include "base/inner/code.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inner/file_io.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U // younger than some systems' headers
#endif

enum { CODE_PATH = 512 };

/* The loader believes that one path is one file, but a descriptor's number is given again after it
 * was closed. So no path is used twice: slashes with and without a dot count the calls. */
static void print_path(char out[CODE_PATH], int fd, const char *name)
{
    static uint64_t counter;
    int length = snprintf(out, CODE_PATH, "/proc/self/fd");
    for (uint64_t n = __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED); n; n >>= 1)
        length += snprintf(out + length, (size_t)(CODE_PATH - length), n & 1 ? "/." : "/");
    snprintf(out + length, (size_t)(CODE_PATH - length), "/%d%s%s", fd, name ? "/" : "",
             name ? name : "");
}

/* Whether the path leads to the file. */
static tl_status check_path(const char *path, int fd)
{
    struct stat wanted, found;
    if (fstat(fd, &wanted) != 0) return TLI_FAIL_SYSTEM(errno, "look at", path);
    if (stat(path, &found) != 0)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "it can only be loaded through /proc/self/fd, which is not there (mount /proc)");
    if (found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino) return TL_OK;
    return TL_FAIL(TL_EINVAL, "it was replaced while it was loaded");
}

tl_status tli_code_open(void **handle, int fd, int folder, const char *name)
{
    char path[CODE_PATH];
    print_path(path, name ? folder : fd, name);
    TL_TRY(check_path(path, fd));
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*handle) return TL_OK;
    const char *text = dlerror();
    size_t length = strlen(path);
    bool named = text && strncmp(text, path, length) == 0 && text[length] == ':';
    return TL_FAIL(TL_EINVAL, "%s", !text ? "cannot be loaded" : named ? text + length + 2 : text);
}

/* --- memory ----------------------------------------------------------------------------------- */

static int new_memory_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("tilth", flags | MFD_EXEC);
    return fd >= 0 || errno != EINVAL ? fd : memfd_create("tilth", flags);
}

/* 0, or the errno. */
static int copy_all(int to, int from)
{
    char block[32 << 10];
    for (;;) {
        ssize_t got = read(from, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? errno : 0;
        struct iovec piece = tli_piece(block, (size_t)got);
        int error = tli_write_all(to, &piece, 1);
        if (error) return error;
    }
}

tl_status tli_code_copy(int *out, int from)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    *out = new_memory_file();
    if (*out < 0)
        return TL_FAIL(TL_EUNSUPPORTED, "no file can be made in memory: %s", strerror(errno));
    int error = copy_all(*out, from);
    if (!error && fcntl(*out, F_ADD_SEALS, seals) != 0) error = errno;
    if (!error) return TL_OK;
    close(*out);
    *out = -1;
    return TLI_FAIL_SYSTEM(error, "copy", "code into memory");
}
