#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/file.h>

#include "base/inner/file_io.h"
#include "base/mapping_guard.h"

static tl_status map_bytes(tl_file_mapping *out, int fd, const struct stat *info, const char *path)
{
    size_t size = (size_t)info->st_size;
    tli_mapping_guard *guard;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return TLI_FAIL_SYSTEM(errno, "map", path);
    tl_status st = tli_mapping_guard_begin(&guard, data, size);
    if (st == TL_OK)
        *out = (tl_file_mapping){data, size, (uint64_t)info->st_dev, (uint64_t)info->st_ino, guard};
    else munmap(data, size);
    return st;
}

tl_status tl_file_map(tl_file_mapping *out, const char *path)
{
    int fd;
    struct stat info;
    tl_status st = TL_OK;
    *out = (tl_file_mapping)TL_FILE_MAPPING_INIT;
    TL_TRY(tli_file_open(&fd, &info, path));
    if (info.st_size == 0) out->data = ""; // the system does not map nothing
    else st = map_bytes(out, fd, &info, path);
    close(fd);
    return st;
}

void tl_file_unmap(tl_file_mapping *mapping)
{
    tli_mapping_guard_end(mapping->guard);
    if (mapping->size) munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (tl_file_mapping)TL_FILE_MAPPING_INIT;
}

static tl_status fail_cut(const char *path, const char *how)
{
    return TL_FAIL(
        TL_EIO,
        "'%s' became shorter while it was in use%s; files must not change while they are read",
        path, how);
}

tl_status tl_file_mapping_check(const tl_file_mapping *mapping, const char *path)
{
    struct stat info;
    char how[80];
    if (tli_mapping_guard_cut(mapping->guard)) return fail_cut(path, "");
    // Up to the end of its last page a file reads as zeros without anybody noticing.
    if (!mapping->size || stat(path, &info) != 0 || (uint64_t)info.st_dev != mapping->device
        || (uint64_t)info.st_ino != mapping->inode || (size_t)info.st_size >= mapping->size)
        return TL_OK;
    snprintf(how, sizeof how, ": it has %lld bytes and had %zu", (long long)info.st_size,
             mapping->size);
    return fail_cut(path, how);
}
