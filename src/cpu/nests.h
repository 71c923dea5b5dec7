/* The CPU's way with loop nests. Thread word: immutable. */
#ifndef TLI_CPU_NESTS_H
#define TLI_CPU_NESTS_H

#include <tilth/sys/nest/methods.h>

extern const tl_nest_methods tli_cpu_nests;

#endif
