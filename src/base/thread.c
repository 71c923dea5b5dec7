#include "base/inner/thread.h"

#include <tilth/base/status.h>

void tli_thread_mask(sigset_t *out)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigfillset(out);
    for (int64_t i = 0; i < TL_COUNT(own); i++) sigdelset(out, own[i]);
}
