/* What a plan consists of. Made by plan.c, walked alike by interpret.c and print_c.c.
 *
 * A task of the first phase is a block of points of the kept axes, a piece of the row and a piece
 * of the reduced points:
 *
 *     for k in block of kept points
 *         for r in piece of reduced points
 *             the stages of `main`, each along the piece of the row
 *         (when `joined`) the stages of `last`
 *
 * Deferred reductions, those over reduced axes, have one sum for each point of kept axes and piece.
 * A wide one has a row of sums, which lies in scratch; a narrow one, one number. Sums are made in
 * blocks of TLI_FOLD reduced points, which are added to the piece's total. Unless the plan is
 * `joined`, the second phase adds up the totals of pieces (TLI_FOLD at a time as well) and runs
 * `last`.
 *
 * Thread word: immutable once made. */
#ifndef TLI_NEST_SCHEDULE_H
#define TLI_NEST_SCHEDULE_H

#include <tilth/sys/nest/plan.h>

#include "nest/kind.h"

enum {
    /* Elements that the interpreter and reductions along rows take at a time: a term's is 2 or
     * 4 KiB, so that those of a few terms stay in the first-level cache, and calling a function for
     * each costs little */
    TLI_TILE = 512,
    /* As in scalar.h: one vector of AVX-512, or four of NEON that do not wait for each other */
    TLI_LANES = 16,
    /* As in scalar.h: a lane adds up 256 numbers before they join the row's sum */
    TLI_BLOCK = 4096,
    /* Reduced points, or pieces, of a sum in its own type before it joins the total: rounding
     * grows with 32 and their number by 32, not with all of them */
    TLI_FOLD = 32
};
_Static_assert(TLI_BLOCK % TLI_TILE == 0 && TLI_TILE % TLI_LANES == 0,
               "a block of lanes ends with a tile");

typedef struct tli_list {
    int *at;
    int count;
} tli_list;

/* One walk along a row, and what is done before it. Lists are of numbers of terms, unless said. */
typedef struct tli_stage {
    tli_list points;       /* terms that do not vary along the row */
    tli_list point_sums;   /* of reductions: deferred ones of such terms */
    tli_list point_stores; /* of stores */
    tli_list rows;         /* terms computed for each element of the row */
    tli_list kept;         /* those of `rows` that are also written to a row buffer */
    tli_list fetched;      /* terms read from row buffers */
    tli_list row_stores;   /* of stores */
    tli_list reduces;      /* REDUCE terms along the row: later stages have their values */
    tli_list row_sums;     /* of reductions: deferred ones */
    bool walks;            /* whether there is a row loop at all */
} tli_stage;

typedef struct tli_section {
    tli_stage once; /* main: at the start of a task, what is the same at all of its points */
    tli_stage *stages;
    int stage_count;
    bool reduces;       /* along rows, which can therefore not be cut */
    int64_t *buffer_at; /* for each term: byte offset of its row buffer, -1: none */
    int64_t buffer_bytes;
    double cost; /* of an element of the row, beside an addition */
} tli_section;

/* A deferred reduction. */
typedef struct tli_reduction {
    int term;
    bool in_row; /* also over the row */
    bool wide;   /* its result varies along the row */
    tli_kind kind;
    size_t total_at, block_at; /* wide: in scratch. Narrow and not joined: total_at */
} tli_reduction;

typedef struct tli_term_info {
    uint32_t varies;
    bool row;               /* varies along the row */
    bool late;              /* made of the result of a deferred reduction, or one itself */
    int deferred;           /* its number among the reductions, -1: none */
    tli_kind kind, in_kind; /* of the value; of the input by which the function is chosen */
    bool exact;             /* an op that gives what its type can hold, without rounding */
    tli_value params[2];
    tli_value number; /* NUMBER */
} tli_term_info;

struct tli_schedule {
    tl_nest nest; /* with the axes of the plan: kept, then reduced, then the row */
    int kept, reduced;
    int64_t kept_points, reduced_points, row;
    tli_term_info *terms;
    uint32_t *guards; /* for each store: the axes along which it is only done at index 0 */
    tli_reduction *reductions;
    int reduction_count;
    tli_section main, last;
    bool has_last, joined;
    int64_t kept_block, row_piece, row_pieces, reduced_piece, reduced_pieces;
    int64_t last_block, last_piece, last_pieces; /* of kept points, of the row, how many */
};

/* What a kind of machine wants of a schedule. */
typedef struct tli_schedule_rules {
    /* Whether a row is so long that its reductions are better deferred, so that it can be cut. */
    bool (*is_long)(const tli_schedule *s);
    /* What is the same at all points may be computed at the start of a task, and kept. */
    bool once;
} tli_schedule_rules;

/* The nest is copied into the walk, its work counted. */
TL_NODISCARD tl_status tli_walk_init(tl_nest_walk *walk, tl_arena *arena, const tl_nest *nest);
/* The schedule with the best row that works: axes and stages, nothing is cut yet. When none does,
 * what was wrong with the first. */
TL_NODISCARD tl_status tli_schedule_choose(tli_schedule **out, tl_arena *arena,
                                           const tl_nest *nest, const tli_schedule_rules *rules);

/* The axes of `nest` in the order of a plan whose row is `row` (-1: there is none); fills in nest,
 * kept, reduced and the numbers of points. */
TL_NODISCARD tl_status tli_schedule_axes(tli_schedule *s, tl_arena *arena, const tl_nest *nest,
                                         int row);
/* Fills in terms, reductions, sections and guards. `cut_rows`: reductions along the row are
 * deferred, so that it can be cut. `once`: as in the rules. */
TL_NODISCARD tl_status tli_schedule_stages(tli_schedule *s, tl_arena *arena, bool cut_rows,
                                           bool once);
/* Whether cut_rows is possible, once the axes are there. */
TL_NODISCARD tl_status tli_schedule_can_cut(bool *out, const tli_schedule *s, tl_arena *arena);

#endif
