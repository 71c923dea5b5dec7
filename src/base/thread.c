#include "base/inner/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/status.h>

void tli_thread_mask(sigset_t *out)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigfillset(out);
    for (int64_t i = 0; i < TL_COUNT(own); i++) sigdelset(out, own[i]);
}

/* --- the end of the process ------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t asked = PTHREAD_ONCE_INIT;
static tli_leaving *leaving;

/* Whoever frees what has threads meanwhile waits until they are gone. */
static void stop_all(void)
{
    pthread_mutex_lock(&lock);
    for (tli_leaving *l = leaving; l; l = l->next)
        if (l->process == getpid()) l->stop(l->self);
    pthread_mutex_unlock(&lock);
}

/* What was asked for last is called first: libraries that are open by now are closed behind it. */
void tli_thread_leave_first(void)
{
    (void)!atexit(stop_all);
}

void tli_thread_leave(tli_leaving *l, void (*stop)(void *self), void *self)
{
    pthread_once(&asked, tli_thread_leave_first);
    *l = (tli_leaving){stop, self, getpid(), NULL};
    pthread_mutex_lock(&lock);
    l->next = leaving;
    leaving = l;
    pthread_mutex_unlock(&lock);
}

void tli_thread_stay(tli_leaving *l)
{
    pthread_mutex_lock(&lock);
    for (tli_leaving **at = &leaving; *at; at = &(*at)->next) {
        if (*at != l) continue;
        *at = l->next;
        break;
    }
    pthread_mutex_unlock(&lock);
}
