/* Whether clusters of calls may become one: not when a call outside must run between them.
 *
 * Calls, and clusters of them, are kept in an order in which they could run one after another, each
 * as a whole. So what runs between two clusters lies between them in that order, and is all that
 * has to be looked at; when they become one, what stood between them moves before or behind.
 *
 * In deep models the forward and the backward call of a layer are far apart, and all layers lie
 * between them. For these the trunk answers: the longest chain of calls that no cluster takes. Each
 * call knows the first link of the trunk that needs it and the last one that it needs.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_GRAPH_DETOUR_H
#define TLI_GRAPH_DETOUR_H

#include "graph/order.h"

/* A cluster is named by a call in it. All arrays are by the index of calls and lie in the scratch
 * of the pass. */
typedef struct tli_detours {
    int64_t count;
    /* as those of the order, of calls that made the elements instead of views of them */
    int32_t *first_dep, *deps;
    int32_t *cluster; /* of a call; itself: it is alone */
    int32_t *next;    /* call of the same cluster, in a ring */
    /* of clusters in the order; the cluster at a place, -1: none any more */
    int32_t *place, *at;
    int32_t *needed_by, *needs; /* of clusters: links of the trunk */
    int64_t *seen, epoch;       /* by the search that runs, or ran last */
    int32_t *stack, *aside;     /* for the search, and for changing the order */
} tli_detours;

TL_NODISCARD tl_status tli_detours_make(tli_detours *d, tl_graph *g, const tli_order *o);
/* Whether something outside would have to run between members of the two. */
bool tli_has_detour(tli_detours *d, int64_t a, int64_t b);
/* Makes `a` part of `b`, right after it was asked whether there is a detour and there is none. */
void tli_detours_join(tli_detours *d, int64_t a, int64_t b);

#endif
