/* What must run before what. Thread word: one thread at a time. */
#ifndef TLI_GRAPH_ORDER_H
#define TLI_GRAPH_ORDER_H

#include "graph/graph.h"

typedef struct tli_order {
    tl_node **nodes; /* by index */
    int64_t count;
    /* Those that must run before node i: deps[first[i]] .. deps[first[i + 1] - 1]. They made its
     * inputs, or read or wrote memory that it writes, or wrote memory that it reads; of a
     * collective, the one before it. */
    int64_t *first;
    struct {
        int64_t *items;
        int64_t count, capacity;
    } deps;
} tli_order;

/* Numbers the nodes. Arrays but deps lie in the scratch of the pass. */
TL_NODISCARD tl_status tli_order_make(tli_order *out, tl_graph *g);
void tli_order_free(tli_order *o);

#endif
