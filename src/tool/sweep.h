/* Private to tool: `tilth sweep`, many runs of one experiment.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_SWEEP_H
#define TILTH_SRC_TOOL_SWEEP_H

#include "tool/runs.h"

#define TLI_SWEEP_FILE "sweep.json"

typedef struct tli_sweep_flags {
    tl_strings grid, random;
    int64_t runs, jobs, seed;
    tl_strings metric;
} tli_sweep_flags;
extern const tl_desc tli_sweep_flags_desc;

typedef struct tli_sweep_run {
    const char *name; /* of its folder */
    tl_strings words; /* what it sets */
} tli_sweep_run;
typedef struct tli_sweep {
    tli_sweep_run *items;
    int64_t count;
} tli_sweep;

/* The runs that the flags ask for: each point of the grid, and of each as many as are drawn. The
 * same flags give the same runs. All in the arena. */
TL_NODISCARD tl_status tli_sweep_plan(tli_sweep *out, tl_arena *arena,
                                      const tli_sweep_flags *flags);
/* Takes names and values of the runs from FOLDER/sweep.json. When there is none, `out` stays as it
 * is, and is written there. `arguments` are what the command said; TL_EEXISTS when the file is of
 * another command. */
TL_NODISCARD tl_status tli_sweep_keep(tli_sweep *out, tl_arena *arena, const char *folder,
                                      tl_strings arguments);
/* A word of the command as it stands in that file; NULL when it does not. A command for
 * notifications is nothing that makes a sweep another one, and may hold a secret: it is left out
 * wherever it is given. */
TL_NODISCARD tl_status tli_sweep_public(const char **out, tl_arena *arena, const char *word);

#endif
