/* What threads of the library have in common.
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BASE_THREAD_H
#define TILTH_SRC_BASE_THREAD_H

#include <signal.h>
#include <sys/types.h>

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

/* Threads that are in a library while the process ends: exit() would take it from under them. It
 * calls `stop` first, which waits for them, unless that was taken back. A child that was forked
 * stops nothing: the threads are its parent's.
 *
 *     tli_thread_leave(&l, stop, self);
 *     ... pthread_create ...
 *     tli_thread_stay(&l); // stopped by us; also where it was not asked for
 *
 * exit() closes first what was opened last: whoever opens a library that such threads may be in
 * says so when it is open, once, by tli_thread_leave_first. `stop` may be called again. */
typedef struct tli_leaving tli_leaving;
struct tli_leaving {
    void (*stop)(void *self);
    void *self;
    pid_t process;
    tli_leaving *next;
};
void tli_thread_leave(tli_leaving *l, void (*stop)(void *self), void *self);
void tli_thread_stay(tli_leaving *l);
void tli_thread_leave_first(void);

#endif
