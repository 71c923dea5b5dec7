/* What threads of the library have in common.
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BASE_THREAD_H
#define TILTH_SRC_BASE_THREAD_H

#include <signal.h>

/* The signals that a thread of ours blocks, as it inherits them from who starts it:
 *
 *     sigset_t mask, before;
 *     tli_thread_mask(&mask);
 *     pthread_sigmask(SIG_SETMASK, &mask, &before);
 *     ... pthread_create ...
 *     pthread_sigmask(SIG_SETMASK, &before, NULL);
 *
 * All, for signals are for the program's own threads, but those that a thread brings upon itself:
 * handlers and crash reports must see them. */
void tli_thread_mask(sigset_t *out);

#endif
