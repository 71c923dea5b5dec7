/* Who uses what, and who writes which memory: a graph knows it at any time, whatever passes do.
 *
 * Tensors of a graph are values, numbered by their ids; calls have numbers too. What is known about
 * both lies in arrays by number. A value has the list of inputs that it is (uses), in the order in
 * which they came. Several values may show the same elements: views, and tensors from outside that
 * share storage. Each memory has one table of the calls that change it, in the order of the list.
 *
 * Changes go through graph.h (tli_replace, tli_set_input, tli_remove, tli_move, ...), which keep
 * all of this true; tl_graph_verify compares it with what it says about the list.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_GRAPH_USES_H
#define TLI_GRAPH_USES_H

#include <tilth/base/vec.h>
#include <tilth/sys/graph/graph.h>

#include "base/inner/pointer_map.h"

/* An input of a call, in the list of uses of its value. */
typedef struct tli_use {
    int32_t call, input;
    int32_t before, after; /* -1: none */
} tli_use;

typedef struct tli_call {
    tl_node *node; /* NULL: it is gone */
    int64_t order; /* grows along the list, with gaps */
    int32_t uses;  /* number of the use that its input 0 is; the others follow */
    bool changed;  /* since the graph was verified */
} tli_call;

typedef struct tli_graph_value {
    tl_tensor *tensor;          /* NULL: not of the graph */
    int32_t first, last, count; /* uses */
    int32_t outputs;            /* of the graph that are this one */
    int32_t maker;              /* the value whose elements it shows: itself when it is no view */
    int32_t before, after;      /* in the ring of values that show these */
    int32_t memory;             /* of makers: the first value of their memory */
    int32_t changes;            /* of that one: its table; -1: nobody changes it */
} tli_graph_value;

/* A call that changes memory: it writes an input, or puts its result over what was there
 * (reuse.c). */
typedef struct tli_change {
    int32_t call;
    bool reuses;
} tli_change;
typedef struct tli_changes {
    tli_change *items; /* in the order of the list */
    int64_t count, capacity;
    int64_t writes; /* those that write an input */
} tli_changes;

typedef struct tli_uses {
    struct {
        tli_use *items;
        int64_t count, capacity;
    } uses;
    struct {
        tli_call *items;
        int64_t count, capacity;
    } calls;
    struct {
        tli_graph_value *items;
        int64_t count, capacity;
    } values;
    struct {
        tli_changes *items;
        int64_t count, capacity;
    } changes;
    struct {
        int32_t *items;
        int64_t count, capacity;
    } changed;                /* calls, since the graph was verified */
    bool all_changed;         /* all of them: they are not listed */
    tli_pointer_map storages; /* of tensors from outside, to their memory */
} tli_uses;

/* From the list of calls, whatever was known before. */
TL_NODISCARD tl_status tli_uses_make(tl_graph *g);
void tli_uses_free(tli_uses *u);
/* Whether all is as the list says. */
TL_NODISCARD tl_status tli_uses_verify(const tl_graph *g);
/* What tl_graph_verify says about the calls of the list, whatever is known about uses. */
TL_NODISCARD tl_status tli_verify_calls(tl_graph *g);
/* The same of calls that were changed since. */
TL_NODISCARD tl_status tli_verify_changed(tl_graph *g);

/* --- numbers ---------------------------------------------------------------------------------- */

/* Of a tensor of the graph; ids of new ones are tli_value_count and more. */
int64_t tli_value_id(const tl_graph *g, const tl_tensor *t);
/* One more than the largest id: how long an array beside the tensors must be. */
int64_t tli_value_count(const tl_graph *g);
/* Of the memory in which the elements of `t` lie: the id of some value. */
int64_t tli_memory_id(const tl_graph *g, const tl_tensor *t);

/* --- reading ---------------------------------------------------------------------------------- */

/* Inputs of calls that are `t`, in no order. The body must not change them. */
#define TLI_EACH_USE(g, t, u)                                                                      \
    for (const tli_use *u = tli_first_use(g, t); u; u = tli_next_use(g, u))
const tli_use *tli_first_use(const tl_graph *g, const tl_tensor *t);
const tli_use *tli_next_use(const tl_graph *g, const tli_use *u);
tl_node *tli_user(const tl_graph *g, const tli_use *u);
/* How many there are, outputs of the graph counted too. */
int64_t tli_use_count(const tl_graph *g, const tl_tensor *t);
/* The first and the last call that use it, or NULL. */
tl_node *tli_first_user(const tl_graph *g, const tl_tensor *t);
/* Of the elements of `t`, whoever shows them. */
tl_node *tli_last_reader(const tl_graph *g, const tl_tensor *t);
/* Whether a call behind `n`, or `n` itself when `or_itself`, uses the elements of `t`. */
bool tli_is_read_after(const tl_graph *g, const tl_tensor *t, const tl_node *n, bool or_itself);

/* All values that show the elements of `t`, itself among them. */
#define TLI_EACH_SHOWN(g, t, v)                                                                    \
    for (const tli_graph_value *v = tli_first_shown(g, t), *end_ = v; v;                           \
         v = tli_next_shown(g, v, end_))
const tli_graph_value *tli_first_shown(const tl_graph *g, const tl_tensor *t);
const tli_graph_value *tli_next_shown(const tl_graph *g, const tli_graph_value *v,
                                      const tli_graph_value *first);

/* Whether `a` comes before `b` in the list; NULL is behind all. */
bool tli_is_before(const tl_graph *g, const tl_node *a, const tl_node *b);
/* The calls that change the memory of `t`; NULL when nobody does. */
const tli_changes *tli_changes_of(const tl_graph *g, const tl_tensor *t);
tl_node *tli_changer(const tl_graph *g, const tli_change *c);
/* Whether a call behind `from` and before `to`, which are not counted, changes the memory of
 * `t`. */
bool tli_is_changed_between(const tl_graph *g, const tl_tensor *t, const tl_node *from,
                            const tl_node *to);

/* --- may it run elsewhere? -------------------------------------------------------------------- */

/* Whether `n` would read the same elements if it ran right before `place` (NULL: behind all). */
bool tli_reads_the_same(const tl_graph *g, const tl_node *n, const tl_node *place);
/* Whether `n` may run there instead: it reads the same, what it reads is made by then, and nobody
 * in between needs what it makes, or sees memory that it writes. */
bool tli_may_move(const tl_graph *g, const tl_node *n, const tl_node *place);

#endif
