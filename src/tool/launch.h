/* Private to tool: `tilth launch`, a command on several processes of this machine.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_LAUNCH_H
#define TILTH_SRC_TOOL_LAUNCH_H

#include "tool/tool.h"

/* Ranks as processes: started, heard, ended. */
typedef struct tli_ranks_args {
    const tli_tool *tool;
    tl_strings words; /* the command */
    int32_t size;
    tl_arena *arena;
} tli_ranks_args;
typedef struct tli_ranks_end {
    int code;     /* the exit code that speaks for all */
    int32_t lost; /* ranks that something ended from outside */
    int signal;   /* that we were sent, and have handed on; 0: none */
} tli_ranks_end;
/* Runs them until all have ended. */
TL_NODISCARD tl_status tli_ranks_run(tli_ranks_end *out, const tli_ranks_args *args);

/* What one rank of `launch --check` does: tells what it is, measures, and goes on for so long; the
 * chief prints. */
TL_NODISCARD tl_status tli_launch_check(tli_run *run, double seconds);

#endif
