#include "desc/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Loading runs code, so a file must be one that only the user or root can have written. */
static tl_status check_owner(const struct stat *st, const char *whose)
{
    bool sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX; // there everybody keeps his own
    if (st->st_mode & S_IWOTH && !sticky)
        return TL_FAIL(TL_EINVAL, "refused, because everybody may write to %s (chmod o-w)", whose);
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return TL_FAIL(TL_EINVAL, "refused, because %s belongs to user %u, neither you nor root",
                       whose, (unsigned)st->st_uid);
    return TL_OK;
}

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

static tl_status check_file(struct stat *out, int file)
{
    if (fstat(file, out) != 0) return TL_FAIL(TL_EIO, "%s", strerror(errno));
    if (!S_ISREG(out->st_mode)) return TL_FAIL(TL_EINVAL, "not a file");
    TL_TRY(check_owner(out, "it"));
    return check_whole(file, out->st_size);
}

/* Where others may put files they could put another one in this one's place. */
static tl_status check_folder(char *path)
{
    struct stat st;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    int result = stat(*path ? path : "/", &st);
    *slash = '/';
    if (result != 0) return TL_FAIL(TL_EIO, "%s", strerror(errno));
    return check_owner(&st, "its folder");
}

/* By path and not by descriptor: libraries beside it are found from there ($ORIGIN). */
static tl_status load(void **handle, char *path, const struct stat *checked)
{
    struct stat now;
    TL_TRY(check_folder(path));
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*handle) {
        const char *text = dlerror();
        size_t length = strlen(path);
        bool named = text && strncmp(text, path, length) == 0 && text[length] == ':';
        return TL_FAIL(TL_EINVAL, "%s", !text ? "cannot be loaded" : named ? text + length + 2 : text);
    }
    if (stat(path, &now) == 0 && now.st_dev == checked->st_dev && now.st_ino == checked->st_ino)
        return TL_OK;
    dlclose(*handle);
    return TL_FAIL(TL_EINVAL, "it was replaced while it was loaded");
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
    struct stat checked;
    char *real = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe is refused, not waited for
    if (file < 0)
        return TL_FAIL(errno == ENOENT ? TL_ENOTFOUND : TL_EIO, "%s", strerror(errno));
    tl_status st = check_file(&checked, file);
    if (st == TL_OK && !(real = realpath(path, NULL))) st = TL_FAIL(TL_EIO, "%s", strerror(errno));
    if (st == TL_OK) st = load(handle, real, &checked);
    free(real);
    close(file);
    TL_TRY(st);
    st = find_module(module, *handle);
    if (st != TL_OK) dlclose(*handle);
    return st;
}

void tli_plugin_close(void *handle)
{
    dlclose(handle);
}
