/* What kernels that draw share, on any device. Thread word: free-threaded. */
#ifndef TLI_CPU_RANDOM_H
#define TLI_CPU_RANDOM_H

#include <tilth/core/dtype.h>

/* The largest number of a float type that is below `high`. */
double tli_ref_largest_below(tl_dtype dtype, double high);

#endif
