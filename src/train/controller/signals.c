#include "train/controller/signals.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tli_signal;

static const int watched[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
enum { WATCHED = sizeof watched / sizeof *watched };
static struct sigaction before[WATCHED];
static int users;
static const char *volatile answered;

/* write is all that may be called from here. */
static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void note(int number)
{
    int error = errno;
    if (tli_signal) _exit(128 + number);
    tli_signal = number;
    if (answered) {
        say("\n");
        say(tli_signal_name(number));
        say(": ");
        say(answered);
        say("; a second signal ends it at once\n");
    }
    errno = error;
}

void tli_signals_begin(const char *answer)
{
    if (users++) return;
    struct sigaction action;
    answered = answer;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    tli_signal = 0;
    for (int i = 0; i < WATCHED; i++) {
        sigaction(watched[i], NULL, &before[i]);
        bool wanted = watched[i] != SIGHUP || before[i].sa_handler != SIG_IGN;
        if (wanted) sigaction(watched[i], &action, NULL);
    }
}

void tli_signals_end(void)
{
    if (--users) return;
    for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &before[i], NULL);
}

int tli_signal_at(int place)
{
    return watched[place];
}

const char *tli_signal_name(int number)
{
    switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    case SIGHUP: return "SIGHUP";
    default: return "a signal";
    }
}
