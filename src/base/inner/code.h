/* Loading shared objects through descriptors, so that what was looked at is what is loaded,
 * whatever has its name by then.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BASE_CODE_H
#define TILTH_SRC_BASE_CODE_H

#include <tilth/base/status.h>

/* Opens the object, which is the file `fd`, for its caller alone and with all that it needs bound.
 * The loader goes through /proc: without it the status is TL_EUNSUPPORTED, and nothing was run.
 * What the loader refuses is TL_EINVAL, in its words. `fd` may be closed then.
 *
 * With a `name` it is loaded under that name from `folder`, and libraries that it looks for beside
 * itself ($ORIGIN) are found there; the folder must stay open as long as the object is loaded. */
TL_NODISCARD tl_status tli_code_open(void **handle, int fd, int folder, const char *name);

/* A file in memory, which nobody can change once it is made, with what is left to read of
 * `from`. */
TL_NODISCARD tl_status tli_code_copy(int *out, int from);

#endif
