/* The memory plan: where in one workspace each tensor of a graph lies, and when.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_GRAPH_PLAN_H
#define TLI_GRAPH_PLAN_H

#include "graph/graph.h"

/* Memory for one tensor, or for several that lie in one (see `inside`). */
typedef struct tli_room {
    tl_tensor *tensor; /* whose elements it holds: no view; NULL for scratch */
    int64_t bytes, offset;
    int64_t first, last; /* calls during which it is needed */
    int64_t inside;      /* index of the room that it is a part of, else -1 */
    int64_t at;          /* where in that one, in bytes */
    bool holds;          /* others are parts of it */
} tli_room;

typedef struct tli_plan {
    const tl_graph *graph;
    struct {
        tli_room *items;
        int64_t count, capacity;
    } rooms;
    int32_t *room_of;    /* number of the room of each value, plus one */
    int32_t *scratch_of; /* the same of the scratch memory of each call */
    int64_t alignment;   /* of rooms: that of the device's memory */
    int64_t apart;       /* bytes up to which no two have anything in common */
    int64_t bytes;       /* of the workspace */
    int64_t unplanned;   /* of all rooms together */
} tli_plan;

/* Numbers the nodes. `scratch` has bytes of scratch memory for each node, or is NULL. */
TL_NODISCARD tl_status tli_plan_make(tli_plan *out, tl_graph *g, const int64_t *scratch);
void tli_plan_free(tli_plan *p);
/* The room of what a call makes; NULL for outputs of the graph, inputs and tensors from outside. */
const tli_room *tli_plan_room(const tli_plan *p, const tl_tensor *root);
/* Gives each room that is no part of another an offset: the largest first, each at the lowest gap
 * (place.c). */
TL_NODISCARD tl_status tli_plan_place(tli_plan *p, int64_t calls);
/* Where the scratch memory of a node begins. */
int64_t tli_plan_scratch(const tli_plan *p, const tl_node *n);
/* Whether input i of a pack was computed at its place in the pack already. */
bool tli_plan_is_packed(const tli_plan *p, const tl_node *pack, int i);

#endif
