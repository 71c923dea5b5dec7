/* Private to base: limits of the cgroups that this process is in. Knows cgroups of version 2, of
 * version 1, and both side by side.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_BASE_CGROUP_H
#define TILTH_BASE_CGROUP_H

#include <stdbool.h>

/* What the files of one cgroup, in its folder, say; 0: no limit. */
typedef double tli_cgroup_read(const char *directory, bool v2);

/* The smallest limit from this process's cgroup up; 0: none. Files are looked up as
 * `root`/proc/self/cgroup and so on; root is "" for the machine itself. */
double tli_cgroup_limit(const char *root, const char *controller, tli_cgroup_read *read);
/* The number or the pair of numbers in a file; how many were there. "max" is none. */
int tli_cgroup_numbers(const char *directory, const char *file, long long out[2]);

/* Bytes that the cgroups allow; 0: as many as there are. */
double tli_memory_cgroup(const char *root);

#endif
