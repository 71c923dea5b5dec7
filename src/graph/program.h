/* What a program is made of. Thread word: one thread at a time. */
#ifndef TLI_GRAPH_PROGRAM_H
#define TLI_GRAPH_PROGRAM_H

#include <tilth/sys/graph/program.h>

#include <tilth/sys/nest/methods.h>

#include "graph/graph.h"

typedef struct tli_bound_view {
    tl_tensor *header;
    int64_t offset; /* from the first element of its root */
} tli_bound_view;

/* Headers whose memory is another one in each run. */
typedef struct tli_binding {
    tl_tensor *root;
    tli_bound_view *views;
    int64_t count;
} tli_binding;

/* A weight that the program does not write, laid out as the kernel of one call reads it. */
typedef struct tli_packed {
    const tl_tensor *weight;
    tl_tensor *panels; /* NULL: not made yet, or not worth it */
    bool asked, valid;
    uint64_t version; /* of the weight's storage that the panels show, when they are valid */
} tli_packed;

/* One call: a kernel of the backend, or a nest. */
typedef struct tli_step {
    const tl_node *node;
    tl_kernel kernel;   /* `fn` is NULL for nests */
    tli_packed *packed; /* NULL: none */
    const tl_nest_walk *nest;
    const tl_nest_code *code; /* of a nest; NULL: interpreted */
    tl_tensor *scratch;       /* of a nest; NULL: it needs none */
    int64_t since;            /* of a pack: the call from which on its memory is its own */
    int64_t begin_ns, end_ns, total_ns, runs; /* when timed */
} tli_step;

/* What the device has put together of all steps, for inputs and outputs at these places. */
typedef struct tli_list {
    const void **places;     /* of inputs, then of outputs; NULL: nothing */
    tl_device_program *made; /* NULL: the places were met once */
} tli_list;
enum { TLI_MOST_LISTS = 4 };

/* What a run has bound, for when others of the same program were in between. */
typedef struct tli_lent {
    tl_storage *storage;
    int64_t offset;
} tli_lent;
typedef struct tli_lane {
    tl_program *program;
    int64_t index;  /* among the lanes of this process */
    tli_lent *lent; /* inputs, then outputs */
} tli_lane;

struct tl_program {
    const char *name;
    tl_graph *graph;
    const tl_nest_methods *methods; /* of its engine; NULL: it has no nests */
    bool must_compile;              /* it has nests that nobody can interpret */
    tl_tensor *workspace;
    int64_t workspace_bytes, unplanned_bytes;
    tli_binding *inputs, *outputs; /* as those of the graph */
    const tl_nest_walk **nests;    /* by index of their node */
    tli_step *steps;
    int64_t step_count;
    tli_step *refreshes; /* as the copies of the graph */
    tl_tensor **written; /* memory from outside that a run writes, once each */
    int64_t written_count;
    struct {
        tli_list items[TLI_MOST_LISTS];
        int64_t next;
        int64_t kept;    /* runs in a row of which small results alone were elsewhere than lists' */
        tl_tensor **own; /* by output: where lists leave it; NULL: where the caller has it */
        bool asked, refused;
        bool draws; /* by random ops: lists are told for which step */
    } lists;
    bool foreseen; /* by the device, before the first run */
    bool timing;
    double compile_s;
    struct tli_early *early; /* NULL: nobody has asked yet */
    struct tli_need *need;   /* likewise */
    int64_t packed_bytes;
    int64_t collectives; /* calls of a run */
    bool compared;       /* with those of other processes */
    int64_t under_way;   /* runs that have stopped at one, or go on */
    struct {
        tl_tensor **items; /* workspaces of lanes; that of the first is the program's own */
        int64_t count;
        int64_t here;       /* whose memory is the program's now */
        int64_t resumed_ns; /* when a lane behind the first went on last, where runs are timed */
    } lanes;
};

/* --- lists of the device (device_program.c) --------------------------------------------------- */

/* Runs all steps: as one piece of work where the device can, else by `put`, which puts them into
 * the queue one by one. */
TL_NODISCARD tl_status tli_lists_run(tl_program *p, const tl_run *run, tl_status (*put)(void *self),
                                     void *self);
/* Where a run leaves output `i`, of which the caller has `t`; then, behind the run, whatever lies
 * elsewhere is copied to the caller's. */
tl_storage *tli_lists_place(const tl_program *p, int64_t i, const tl_tensor *t);
TL_NODISCARD tl_status tli_lists_hand_out(const tl_program *p, tl_ctx *c, const tl_tensors *out);
/* Before a run: the device sees what the first one will need. */
void tli_lists_foresee(tl_program *p, const tl_run *run);
/* What was put together is forgotten. */
void tli_lists_free(tl_program *p);

/* --- clocks (clocks.c) ------------------------------------------------------------------------ */

typedef struct tli_clocks {
    tl_program *program;
    tl_queue *queue;
    tl_event **events; /* before the first step and behind each; NULL: the host's clock */
} tli_clocks;
/* Close is due also after a failure. */
TL_NODISCARD tl_status tli_clocks_open(tli_clocks *c, tl_program *p, tl_queue *q);
/* Around a step. */
void tli_clocks_start(tli_clocks *c, int64_t step);
TL_NODISCARD tl_status tli_clocks_stop(tli_clocks *c, int64_t step);
/* Notes the times when `st`, which it gives back, is TL_OK. */
TL_NODISCARD tl_status tli_clocks_close(tli_clocks *c, tl_status st);

/* --- parts before the end (early.c) ----------------------------------------------------------- */

typedef struct tli_early tli_early;
/* Whether a run that begins has parts to tell of. */
bool tli_early_begin(tl_program *p);
/* Whether a step of it is not run, as its parts were. */
bool tli_early_leaves_out(const tl_program *p, int64_t step);
/* What is due behind a step. */
TL_NODISCARD tl_status tli_early_behind(tl_program *p, const tl_run *run, int64_t step);

/* --- what has to be brought (need.c) ---------------------------------------------------------- */

typedef struct tli_need tli_need;
/* Whether a run that begins has something brought to it; then around each call, which are the
 * refreshes of copies and behind them the steps. Weights are not kept packed then. */
bool tli_need_begin(tl_program *p);
bool tli_need_is_set(const tl_program *p);
TL_NODISCARD tl_status tli_need_before(tl_program *p, int64_t call);
void tli_need_behind(tl_program *p, int64_t call);
void tli_need_free(tl_program *p);
/* Whether a copy need not be refreshed (program.c). */
bool tli_copy_shows_weights(const tl_program *p, int64_t copy);

/* --- lanes that stop at collectives (lanes.c) ------------------------------------------------- */

/* Binds a header to memory of this run. */
void tli_program_lend(const tli_binding *b, tl_storage *storage, int64_t offset);
/* The calls of a new program are those of other processes. */
TL_NODISCARD tl_status tli_program_compare(tl_program *p, tl_strand *strand);
/* Before a lane's run, which has memory of its own then; and when inputs and outputs are bound. */
TL_NODISCARD tl_status tli_lane_begin(tli_lane *lane, tl_program *p, tl_ctx *c);
void tli_lane_note(tli_lane *lane);
/* What it has bound and computed is in place again: a tl_run's `resume`. */
void tli_lane_resume(void *lane);
void tli_program_lanes_free(tl_program *p);

/* --- packed weights (packed_weights.c) -------------------------------------------------------- */

/* Finds the calls that read a weight which stays the same. After the steps are made. */
TL_NODISCARD tl_status tli_packed_find(tl_program *p);
/* Gives the call its packed weight in `run`, made anew when the weight was written since. */
TL_NODISCARD tl_status tli_packed_prepare(tl_program *p, const tli_step *s, tl_run *run);
void tli_packed_free(tl_program *p);

#endif
