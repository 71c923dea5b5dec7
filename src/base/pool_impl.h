/* What the tests of the pool reach for.
 * Thread word: free-threaded. */
#ifndef TILTH_BASE_POOL_IMPL_H
#define TILTH_BASE_POOL_IMPL_H

#include <tilth/base/status.h>

/* CPUs that the affinity mask of this process allows, at least 1. */
int tli_cpus_affinity(void);

/* CPUs that the quotas of this process's cgroup and all above it allow, rounded up; 0 when they do
 * not limit it. Files are looked up as `root`/proc/self/cgroup and so on; root is "" for the
 * machine itself. Knows cgroups of version 2, of version 1, and both side by side. */
int tli_cpus_cgroup(const char *root);

/* The smaller one of the two, for this machine. */
int tli_cpus_available(void);

/* Fault injection: the `nth` thread that this thread starts from now on (1 is the next one) cannot
 * be started. An nth of 0 turns it off. */
void tli_pool_fail_thread(int nth);

#endif
