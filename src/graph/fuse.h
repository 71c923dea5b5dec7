/* Clusters of calls that become one loop nest. Thread word: one thread at a time. */
#ifndef TLI_GRAPH_FUSE_H
#define TLI_GRAPH_FUSE_H

#include "graph/graph.h"

/* Which axis of the iteration space each dim of a tensor walks along; -1 for dims of 1. */
typedef struct tli_walk {
    int axis[TL_MAX_RANK];
} tli_walk;

typedef struct tli_cluster {
    tl_shape space;
    struct {
        tl_node **items;
        int64_t count, capacity;
    } members; /* in order */
} tli_cluster;

/* Whether a call can be part of a nest, and over which space it iterates on its own. */
bool tli_is_nestable(const tl_node *n, tl_shape *space);
/* How the members of a cluster walk along its axes; `walks` is filled in for their outputs, by
 * index of the member. False when they cannot be one nest. */
bool tli_cluster_walks(const tli_cluster *c, tli_walk *walks);
/* The nest of a cluster as a new node, not in the list yet; its outputs are those tensors of
 * members that others need, as `is_needed` says. TL_EUNSUPPORTED when they do not walk alike. */
TL_NODISCARD tl_status tli_cluster_node(tl_node **out, tl_graph *g, const tli_cluster *c,
                                        bool (*is_needed)(const tl_tensor *t, const void *payload),
                                        const void *payload);

#endif
