/* Strands: the lanes of a process where they have to meet, in the middle of what they compute.
 *
 *     tl_strands *s;
 *     TL_TRY(tl_strands_new(&s, &(tl_strands_args){.of = {.lanes = 4, .ranks = 1}}));
 *     TL_TRY(tl_strands_run(s, my_lane, NULL));             // my_lane once for each of four
 *     tl_strands_free(&s);
 *
 * Lanes (lanes.h) that need nothing of each other are calls, one after the other. Those that do are
 * strands of calls: one of them goes on until it needs the others, then the next one does, and
 * where the last one has come as far, what they bring is put together, over all lanes of all ranks
 * in the order of lanes. So the result does not depend on how many ranks carry them. A context that
 * has a strand (tl_ctx_set_strand) calls collectives (ops/comm.h), and so do programs that run in
 * it.
 *
 * Each strand but the first has a thread, so that it may stop anywhere; one runs at a time, and
 * what is shared needs no locks. A rank with one lane has no threads, and need not call
 * tl_strands_run.
 *
 * Ownership: the caller's; the group and what `turn` is told stay the caller's. Thread word: one
 * thread at a time. */
#ifndef TILTH_CORE_STRANDS_H
#define TILTH_CORE_STRANDS_H

#include <tilth/core/comm.h>

TL_BEGIN

typedef struct tl_strands tl_strands;
typedef struct tl_strand tl_strand; /* of one lane */

typedef struct tl_strands_args {
    tl_lanes of;
    int64_t rank;
    tl_comm_group *group; /* (optional: of.ranks is 1) all ranks, which make the same calls */
    /* (optional) A strand of several begins, or goes on, and others were at work before: memory
     * that each has for itself is brought in place. */
    tl_status (*turn)(void *self, int64_t lane);
    void *self;
} tl_strands_args;

TL_API TL_NODISCARD tl_status tl_strands_new(tl_strands **out, const tl_strands_args *args);
/* NULL is fine. */
TL_API void tl_strands_free(tl_strands **s);
TL_API tl_lane_run tl_strands_lanes(const tl_strands *s);
/* Of a lane of this rank. */
TL_API tl_strand *tl_strands_at(tl_strands *s, int64_t lane);

/* Calls `body` for each lane of this rank, one at a time: in the order of lanes until they meet,
 * and again from there. When one fails, the others do where they would meet; its failure is
 * given. */
typedef tl_status tl_strand_fn(void *self, tl_strand *strand);
TL_API TL_NODISCARD tl_status tl_strands_run(tl_strands *s, tl_strand_fn *body, void *self);

/* --- of one strand ---------------------------------------------------------------------------- */

TL_API int64_t tl_strand_lane(const tl_strand *s);
/* Of all ranks. */
TL_API int64_t tl_strand_lanes(const tl_strand *s);
/* Whether others of this rank are on their way. */
TL_API bool tl_strand_alternates(const tl_strand *s);
TL_API tl_strands *tl_strand_all(const tl_strand *s);

/* What all lanes do together, with as many elements of one type each:
 *   TL_COMM_ALL_GATHER      out[lanes * count]: what each brings, in the order of lanes
 *   TL_COMM_ALL_REDUCE      out[count]: the sum, by the tree
 *   TL_COMM_REDUCE_SCATTER  out[count / lanes]: the lane's own part of that sum */
typedef struct tl_strand_call {
    tl_comm_kind kind;
    tl_dtype dtype;
    int64_t count; /* that a lane brings */
    const void *in;
    void *out; /* elsewhere than `in` */
} tl_strand_call;
TL_API TL_NODISCARD tl_status tl_strand_meet(tl_strand *s, const tl_strand_call *call);
/* Texts that must be the same on all ranks; if one differs, all fail, and the message has both. A
 * call of all ranks; `what` says what they are. */
TL_API TL_NODISCARD tl_status tl_strand_compare(tl_strand *s, const char *what, const char *text);

TL_END

#endif
