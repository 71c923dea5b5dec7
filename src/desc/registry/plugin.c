#include "desc/registry/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/file.h>

#include "base/inner/code.h"
#include "base/inner/trust.h"

/* The loader maps what the headers promise; where the file ends earlier, the process would die. */
static tl_status check_whole(int file, off_t size)
{
    Elf64_Ehdr head;
    if (pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head
        || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return TL_FAIL(TL_EINVAL, "it is no shared object");
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
        return TL_OK; // the loader refuses it with better words
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        off_t at = (off_t)head.e_phoff + i * (off_t)sizeof part;
        bool there = pread(file, &part, sizeof part, at) == (ssize_t)sizeof part;
        if (!there || part.p_offset > (Elf64_Off)size
            || part.p_filesz > (Elf64_Off)size - part.p_offset)
            return TL_FAIL(TL_EINVAL, "the file is cut short");
    }
    return TL_OK;
}

/* Loading runs code, so nobody but the user and root may have written it, or put it there. */
static tl_status open_checked(tli_trusted *out, const char *path)
{
    struct stat info;
    tl_status st = tli_trust_file(out, path);
    if (st == TL_EUNSUPPORTED) return TL_FAIL(TL_EINVAL, "refused, because %s", tl_error_message());
    TL_TRY(st);
    if (fstat(out->fd, &info) != 0) return TL_FAIL(TL_EIO, "%s", strerror(errno));
    return check_whole(out->fd, info.st_size);
}

/* Folders of plug-ins stay open for good: $ORIGIN is their descriptor, and a number that was given
 * to another file would make it mean that one. -1 when there are too many. */
static int keep_folder(int *folder)
{
    enum { MOST = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        dev_t device;
        ino_t inode;
        int fd;
    } kept[MOST];
    static int count;
    struct stat info;
    int fd = -1;
    if (fstat(*folder, &info) != 0) return -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && fd < 0; i++)
        if (kept[i].device == info.st_dev && kept[i].inode == info.st_ino) fd = kept[i].fd;
    if (fd < 0 && count < MOST) {
        fd = *folder;
        *folder = -1;
        kept[count].device = info.st_dev;
        kept[count].inode = info.st_ino;
        kept[count++].fd = fd;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

/* From its folder, so that libraries beside it are found; but not where others may put such
 * libraries. */
static tl_status load(void **handle, tli_trusted *file)
{
    int folder = file->shared ? -1 : keep_folder(&file->folder);
    const char *name = folder < 0 ? NULL : tl_path_basename(tl_str_text(&file->path));
    return tli_code_open(handle, file->fd, folder, name);
}

static tl_status find_module(const tl_module **module, void *handle)
{
    *module = dlsym(handle, "tl_module_main");
    if (!*module)
        return TL_FAIL(TL_EINVAL, "it exports no module (define `const tl_module tl_module_main`)");
    return TL_OK;
}

tl_status tli_plugin_open(void **handle, const tl_module **module, const char *path)
{
    tli_trusted file;
    tl_status st = open_checked(&file, path);
    if (st == TL_OK) st = load(handle, &file);
    tli_trusted_deinit(&file);
    TL_TRY(st);
    st = find_module(module, *handle);
    if (st != TL_OK) dlclose(*handle);
    return st;
}

void tli_plugin_close(void *handle)
{
    dlclose(handle);
}
