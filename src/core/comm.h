/* Private to core: sums over ranks, which are made above the transports. */
#ifndef TILTH_SRC_CORE_COMM_H
#define TILTH_SRC_CORE_COMM_H

#include <tilth/core/comm.h>

TL_NODISCARD tl_status tli_comm_sum_check(const tl_comm_group *g, const tl_comm_call *call);
/* For transports that look into each other's memory: the whole sum, once it was begun. */
TL_NODISCARD tl_status tli_comm_sum_look(tl_comm_work *w);
/* For those that only carry bytes. */
TL_NODISCARD tl_status tli_comm_sum_begin(tl_comm_work *w);
TL_NODISCARD tl_status tli_comm_sum_end(tl_comm_work *w);

/* --- in two levels (comm_levels.c) ------------------------------------------------------------ */

/* Whether this call does; then these are its beginning and end. */
bool tli_comm_in_levels(const tl_comm_group *g, const tl_comm_call *call);
TL_NODISCARD tl_status tli_comm_levels_begin(tl_comm_work *w);
TL_NODISCARD tl_status tli_comm_levels_end(tl_comm_work *w);

#endif
