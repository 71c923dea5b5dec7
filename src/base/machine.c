#include <tilth/base/machine.h>

#include <math.h>
#include <unistd.h>

#include "base/cgroup.h"

static double bytes_of(const char *directory, bool v2)
{
    long long numbers[2] = {0};
    if (tli_cgroup_numbers(directory, v2 ? "/memory.max" : "/memory.limit_in_bytes", numbers) < 1)
        return 0;
    return numbers[0] > 0 ? (double)numbers[0] : 0;
}

double tli_memory_cgroup(const char *root)
{
    return tli_cgroup_limit(root, "memory", bytes_of);
}

double tl_machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    double built_in = pages > 0 && size > 0 ? (double)pages * (double)size : HUGE_VAL;
    double limit = tli_memory_cgroup("");
    return limit > 0 && limit < built_in ? limit : built_in;
}
