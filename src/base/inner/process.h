/* Programs that are started beside us.
 *
 * Thread word: free-threaded, as far as the environment is. */
#ifndef TILTH_SRC_BASE_PROCESS_H
#define TILTH_SRC_BASE_PROCESS_H

#include <sys/types.h>

typedef struct tli_process_args {
    const char *program;
    const char *const *argv;      /* ends with NULL */
    const char *const *variables; /* "NAME=value", for the environment; ends with NULL */
    int input;                    /* its standard input; negative: nothing is in it */
    /* where all that it writes goes; negative: to our standard error */
    int output;
} tli_process_args;

/* In a group of its own: signals of a terminal are for us, and it can be ended with all that it has
 * started. It handles signals as a new program does; a SIGHUP that is ignored stays so. 0, or an
 * errno. */
int tli_process_start(pid_t *out, const tli_process_args *args);

#endif
