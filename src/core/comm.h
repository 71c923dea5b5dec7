/* Private to core: sums over ranks, which are made above the transports. */
#ifndef TILTH_SRC_CORE_COMM_H
#define TILTH_SRC_CORE_COMM_H

#include <tilth/core/comm.h>

TL_NODISCARD tl_status tli_comm_sum_check(const tl_comm_group *g, const tl_comm_call *call);
/* Adding this rank's piece, once the sum was begun, and what is left behind that. For transports
 * that look into each other's memory: */
TL_NODISCARD tl_status tli_comm_sum_look(tl_comm_work *w);
TL_NODISCARD tl_status tli_comm_sum_part(tl_comm_work *w);
/* For those that only carry bytes; a failure clears up. */
TL_NODISCARD tl_status tli_comm_sum_begin(tl_comm_work *w);
TL_NODISCARD tl_status tli_comm_sum_add(tl_comm_work *w);
TL_NODISCARD tl_status tli_comm_sum_end(tl_comm_work *w);
/* Whether the next of the two would not wait. */
bool tli_comm_sum_ready(tl_comm_work *w);

/* --- in two levels (comm_levels.c) ------------------------------------------------------------ */

/* Whether this call does; then these are its beginning and end. */
bool tli_comm_in_levels(const tl_comm_group *g, const tl_comm_call *call);
TL_NODISCARD tl_status tli_comm_levels_begin(tl_comm_work *w);
TL_NODISCARD tl_status tli_comm_levels_end(tl_comm_work *w);

#endif
