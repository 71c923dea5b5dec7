#include "desc/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Loading runs code, so the file must be one that only the user or root can have written. */
static tl_status check_owner(int file)
{
    struct stat st;
    if (fstat(file, &st) != 0) return TL_FAIL(TL_EIO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return TL_FAIL(TL_EINVAL, "not a file");
    if (st.st_mode & S_IWOTH)
        return TL_FAIL(TL_EINVAL, "refused, because everybody may write to it (chmod o-w)");
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return TL_FAIL(TL_EINVAL, "refused, because it belongs to user %u, neither you nor root",
                       (unsigned)st.st_uid);
    return TL_OK;
}

static tl_status find_module(const tl_module **module, void *handle)
{
    *module = dlsym(handle, "tl_module_main");
    if (!*module)
        return TL_FAIL(TL_EINVAL, "it exports no module (declare it as "
                                  "`TL_EXPORT const tl_module tl_module_main`)");
    return TL_OK;
}

enum { LINK_ROOM = 128 };

/* A path to an open file. The loader takes a name that it has seen for the file it saw then, but
 * numbers of descriptors come again; so each call spells the path in a way of its own. */
static void spell_link(char link[LINK_ROOM], int file)
{
    static atomic_uint calls;
    int length = snprintf(link, LINK_ROOM, "/proc/self/fd/");
    for (unsigned number = atomic_fetch_add(&calls, 1); number; number >>= 1)
        length += snprintf(link + length, (size_t)(LINK_ROOM - length), number & 1 ? "./" : "/");
    snprintf(link + length, (size_t)(LINK_ROOM - length), "%d", file);
}

/* dlerror names the descriptor; the caller names the file. */
static const char *reason(const char *link)
{
    const char *text = dlerror();
    if (!text) return "cannot be loaded";
    size_t length = strlen(link);
    return strncmp(text, link, length) == 0 && text[length] == ':' ? text + length + 2 : text;
}

tl_status tli_plugin_open(void **handle, const tl_module **module, const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe is refused, not waited for
    if (file < 0)
        return TL_FAIL(errno == ENOENT ? TL_ENOTFOUND : TL_EIO, "%s", strerror(errno));
    tl_status st = check_owner(file);
    if (st == TL_OK) {
        // By descriptor: what is loaded is what was checked, whatever happens to the path meanwhile.
        char link[LINK_ROOM];
        spell_link(link, file);
        *handle = dlopen(link, RTLD_NOW | RTLD_LOCAL);
        if (!*handle) st = TL_FAIL(TL_EINVAL, "%s", reason(link));
    }
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
