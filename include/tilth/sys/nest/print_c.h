/* Prints plans as C: what is compiled, and what is read by whoever wants to know what runs.
 *
 *     tl_str c = TL_STR_INIT;
 *     tl_nest_print_c_head(&c);                     // once a file
 *     tl_nest_print_c(&c, plan, "step_0");          // tl_nest_fn step_0
 *     TL_TRY_DONE(st, tl_str_status(&c));
 *
 * The text needs no headers. To give the bits of the interpreter it is compiled without contraction
 * or other liberties: -std=gnu17 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_NEST_PRINT_C_H
#define TILTH_NEST_PRINT_C_H

#include <tilth/sys/nest/plan.h>

TL_BEGIN

/* The functions that all kernels are made of. */
TL_API void tl_nest_print_c_head(tl_str *out);
/* One function, visible under this name. */
TL_API void tl_nest_print_c(tl_str *out, const tl_nest_plan *plan, const char *name);

TL_END

#endif
