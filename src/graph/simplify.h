/* Rules of the pass "simplify". Thread word: one thread at a time. */
#ifndef TLI_GRAPH_SIMPLIFY_H
#define TLI_GRAPH_SIMPLIFY_H

#include "graph/graph.h"

/* Each gives what takes the place of the call's only output, or NULL when it does not apply. Calls
 * that it makes are put before the call. All results keep their bits, those of -0.0, infinities and
 * NaN included. */
typedef tl_tensor *tli_rule(tl_graph *g, tl_node *n);

/* Both end with NULL. */
extern tli_rule *const tli_arithmetic_rules[];
extern tli_rule *const tli_view_rules[];

#endif
