/* Runs a plan without compiling it: over tiles of rows that stay in the first cache, one function
 * for each op. It has the bits of the compiled plan; it is there where there is no compiler, for
 * nests that run once, and to test the printed C against.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_NEST_INTERPRET_H
#define TILTH_NEST_INTERPRET_H

#include <tilth/sys/nest/plan.h>

TL_BEGIN

/* As tl_nest_run; fails when there is no memory for tiles. */
TL_API TL_NODISCARD tl_status tl_nest_interpret(const tl_nest_plan *plan, void *const *buffers,
                                                void *scratch, tl_pool *pool);

TL_END

#endif
