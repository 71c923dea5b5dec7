/* Private to train: what the lanes of a step bring, added up by the tree of core/lanes.h.
 *
 * A process takes its lanes one after the other through the same program. What that adds to lies in
 * tensors that stay where they are (`live`): sums of gradients and weights, of metrics, how far
 * running statistics were moved. Behind each lane its numbers are put on a stack, whose upper two
 * are added as often as the tree says; behind the last one `live` holds the uppermost of what the
 * tree lists for this process, and the stack the others.
 *
 * What several processes have is added up behind that (lanes_join.c): large sums part by part,
 * where it can be while the last batch is still computed (lanes_exchange.c).
 *
 * Where a batch's program has collectives, lanes go side by side (lanes_beside.c): each stops where
 * it needs the others, and has memory for `live` of its own, which is brought in place where the
 * lane goes on. In the end their numbers are put on the stack in the same order.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_LANES_H
#define TLI_TRAIN_LANES_H

#include <tilth/core/strands.h>
#include <tilth/graph/function.h>
#include <tilth/nn/optimizer.h>
#include <tilth/sys/graph/early.h>
#include <tilth/train/strategy.h>

#include "train/peers.h"
#include "train/trainer/guard.h"

typedef struct tli_lane_sum {
    tl_tensor *live; /* borrowed */
    /* borrowed: where each lane starts, and what counts is how far it went; NULL: 0 */
    tl_tensor *start;
    /* a batch adds to it once: of two lanes, the second may add to what the first has left */
    bool once;
    /* what is added first takes its place: it need not be cleared */
    bool begins;
    /* small, where the host computes: it is added at once, as calls of a program would take longer
     * than what they do */
    bool here;
    tl_tensor *stack[TL_LANE_BLOCKS]; /* NULL: has not been needed */
    tl_tensor **own; /* of lanes side by side, but for the last; NULL: it has not been needed */
} tli_lane_sum;

/* What is done with a sum behind a lane, at once and in this order. */
typedef struct tli_lane_act {
    const tli_lane_sum *sum;
    size_t bytes;
    int64_t count;  /* elements */
    int64_t place;  /* in the stack, where the sum goes */
    int64_t merges; /* how many are added to it, from there upwards */
    bool copies, clears, exchanges;
} tli_lane_act;

/* What is done behind a lane: as a program, then at once. */
typedef struct tli_lane_end {
    struct tli_lanes *lanes;
    int64_t height; /* of the stack before it */
    int64_t merges; /* how often the upper two are added */
    bool push;      /* another lane follows */
    bool apart;     /* what travels in parts is left as it is (lanes_exchange.c) */
    bool may_stay;  /* the next one may add to what this one has left */
    bool stays;     /* it does, where that may be */
    bool stayed;    /* this one has done so */
    bool here;      /* no program is needed */
    tl_function *program;
    struct {
        tli_lane_act *items;
        int64_t count, capacity;
    } acts;
} tli_lane_end;

/* A part of a large sum, which travels by itself. */
typedef struct tli_bucket {
    int64_t sum;       /* among those of the lanes */
    int64_t from, end; /* elements */
    int64_t number;    /* of the first parameter in it, in the model; -1: no gradients */
    tl_comm_work work;
    const void *partials[TL_LANE_BLOCKS];
    int64_t *cuts; /* where each process needs its part alone */
    bool done;     /* of those that were begun */
    int64_t begun_ns;
    int64_t before_ns, added_ns, waited_ns; /* of all steps; see tli_exchange_report */
} tli_bucket;

typedef struct tli_exchange {
    struct {
        tli_bucket *items;
        int64_t count, capacity;
    } buckets; /* in the order in which all processes begin them */
    bool made;
    tl_early_part *parts; /* those of gradients, which a program may tell of */
    int64_t early;        /* how many */
    tl_early asked;
    int64_t there, begun, done; /* of a step */
    int64_t top, merges;        /* of the stack, where gradients are left apart behind a lane */
    tl_lease *leases;           /* of sums that lie on a device */
    int64_t steps, small_ns;    /* what was measured */
} tli_exchange;

enum {
    TLI_MOST_TOLD = 64,
    TLI_MOST_BESIDE = 64 /* lanes of a process that go side by side: each has a thread */
};

typedef struct tli_lanes {
    tl_lanes of;
    int64_t rank;
    tl_lane_run run;         /* the lanes of this process */
    tli_peers *peers;        /* borrowed: those that carry the others; NULL: nobody */
    const tli_guard *guard;  /* borrowed */
    tl_optimizer *optimizer; /* borrowed; NULL: nothing is trained */
    tl_engine *engine;       /* borrowed */
    tl_function_args args;   /* of programs; no engine: eager */
    struct {
        tli_lane_sum *items;
        int64_t count, capacity;
    } sums;
    int64_t sums_of_optimizer; /* among them, at the end */
    const tl_tensor *weights;  /* the first of those that each batch adds to; NULL: not yet known */
    uint64_t weights_before;   /* the version of it, before a batch */
    int64_t height;            /* of the stack */
    bool stayed;               /* the last lane has left its sums where the next one adds */
    bool adds_once;            /* each batch, as far as was seen */
    bool clips;                /* the optimizer does, each lane by itself */
    bool joined;               /* once: what comes before may have to be compiled */
    size_t dropped;            /* bytes of sums that others have, from a join to the next step */
    struct {
        tli_lane_end **items;
        int64_t count, capacity;
    } ends;
    tli_lane_end **last; /* of each lane of the run, what was done behind it; NULL: nothing yet */
    tl_function *begin, *clip, *settle;
    tli_exchange exchange;
    tl_strands *strands; /* in which lanes of training meet; NULL: there is one, or nothing is
                          * trained */
    tli_lane_sum fresh;  /* what the optimizer begins sums by; it has memory as they have */
    int64_t here;        /* of lanes side by side: whose memory is in place */
    tl_ctx **beside;     /* contexts of all lanes of the run but the first */
    bool asked, meet;    /* of steps that are not captured: whether lanes meet in them */
    /* sums of numbers that steps tell, float64; NULL: nothing is told */
    tl_tensor *told;
    int64_t told_count;              /* how many there were, at most */
    tl_tensor *means[TLI_MOST_TOLD]; /* where the host computes: of the last step; NULL: not yet */
} tli_lanes;

/* `args` are those of functions, but for name, body and self; NULL: everything runs eagerly.
 * Nothing is made for a single lane. Where something is trained, numbers can be told. */
TL_NODISCARD tl_status tli_lanes_init(tli_lanes *l, const tl_strategy *s, const tli_guard *guard,
                                      tl_optimizer *optimizer, tl_engine *engine,
                                      const tl_function_args *args);
void tli_lanes_deinit(tli_lanes *l);
bool tli_lanes_several(const tli_lanes *l);
/* Whether the host computes, and may look at sums. */
bool tli_lanes_on_host(const tli_lanes *l);
/* Programs are captured again. */
void tli_lanes_reset(tli_lanes *l);
/* What is on the stack does not count any more: a step was left. */
void tli_lanes_forget(tli_lanes *l);
/* As tli_guard_accept. */
void tli_lanes_accept(const tli_lanes *l);

/* Before the first lane of a step; behind each, in the order of the run, `batches` of which were
 * added; and behind the last one: `live` then holds the sums of all lanes of the run. `beside`: the
 * next lane has computed already. */
TL_NODISCARD tl_status tli_lanes_begin(tli_lanes *l, tl_ctx *c);
TL_NODISCARD tl_status tli_lanes_end_lane(tli_lanes *l, tl_ctx *c, int64_t lane, int64_t batches,
                                          bool beside);
/* Lanes side by side, from the second on: a context for each, and memory that begins as `live` does
 * in a lane. */
TL_NODISCARD tl_status tli_lanes_part(tli_lanes *l, tl_ctx *c);
/* What the lane with that place in the run has computed is in place, for tli_lanes_end_lane. */
void tli_lanes_bring(tli_lanes *l, int64_t index);
void tli_lanes_drop_own(tli_lanes *l, tli_lane_sum *s);
/* A strands' `turn`. */
TL_NODISCARD tl_status tli_lanes_turn(void *lanes, int64_t lane);
/* The sums of the optimizer that there are now. */
TL_NODISCARD tl_status tli_lanes_collect(tli_lanes *l);
/* For who watches this process: what it does until the join. */
void tli_lanes_tell_step(const tli_lanes *l, int64_t step, const char *what);
/* In lanes_join.c. What processes wish (peers.h) comes with it. */
TL_NODISCARD tl_status tli_lanes_join(tli_lanes *l);

/* --- what travels in parts (lanes_exchange.c) ------------------------------------------------- */

static inline bool tli_lane_sum_is_small(const tli_lane_sum *s)
{
    return tl_tensor_bytes(s->live) < TLI_LARGE_SUM;
}
/* Whether its blocks are added part by part behind the last lane, and not by a program. */
bool tli_lane_sum_is_apart(const tli_lanes *l, const tli_lane_sum *s);
/* Before end_lane of the last one. */
void tli_exchange_note_last(tli_lanes *l, int64_t lane);
/* What the program of the last batch of the last lane is asked for; NULL: parts begin behind it. */
const tl_early *tli_exchange_early(tli_lanes *l);
/* It has run. */
void tli_exchange_ran(tli_lanes *l);
/* All that has not begun begins, and all is waited for. */
TL_NODISCARD tl_status tli_exchange_end(tli_lanes *l);
/* A step was left, and a new one begins. */
void tli_exchange_forget(tli_lanes *l);
/* Other sums than before. */
void tli_exchange_drop(tli_lanes *l);
/* Begins to measure; and how long steps since then have waited, for people. Nothing where there is
 * one process. */
void tli_exchange_measure(tli_lanes *l);
void tli_exchange_report(const tli_lanes *l, tl_str *out);

/* A step that trains nothing: `batch` for each lane of the run, until one sets *more, true when
 * called, to false; then what they have added to what the guard keeps is added to it. *more is
 * false when none of the lanes had a batch. With one lane it is a call. */
typedef tl_status tli_lane_fn(void *self, int64_t lane, bool *more);
TL_NODISCARD tl_status tli_lanes_each(tli_lanes *l, tl_ctx *c, tli_lane_fn *batch, void *self,
                                      bool *more);

/* In the program of a batch, and only calling ops: adds the numbers among what it tells. */
void tli_lanes_tell(tli_lanes *l, tl_ctx *c, const tl_tensors *told);
/* The same behind it, where the host computes: there gradients that it added need not begin any
 * more; and before it. */
void tli_lanes_begin_batch_here(tli_lanes *l);
void tli_lanes_end_batch_here(tli_lanes *l, const tl_tensors *told);
/* In the program that applies: their means over all batches of the step, in the order and with the
 * types of the numbers among `told`. */
void tli_lanes_means(tli_lanes *l, tl_ctx *c, const tl_tensors *told, int64_t batches,
                     tl_tensors *out);
/* Puts these in the place of the numbers. */
void tli_lanes_put_means(tl_tensors *told, const tl_tensors *means);
/* Both behind it, where the host computes; room for them is made before it, as nothing may fail
 * once weights have moved. */
TL_NODISCARD tl_status tli_lanes_make_means(tli_lanes *l, const tl_tensors *told);
void tli_lanes_put_means_here(tli_lanes *l, tl_tensors *told, int64_t batches);

#endif
