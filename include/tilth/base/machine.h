/* What the machine has for this process.
 *
 *     if (bytes > tl_machine_memory()) return TL_FAIL(TL_EINVAL, "...");
 *
 * Thread word: free-threaded. */
#ifndef TILTH_BASE_MACHINE_H
#define TILTH_BASE_MACHINE_H

#include <tilth/base/api.h>

TL_BEGIN

/* Bytes of memory that this process can have at most: all that is built in, or less when its cgroup
 * has a limit; whoever else uses some of it does not count. HUGE_VAL when nobody knows. */
TL_API double tl_machine_memory(void);

TL_END

#endif
