#include "train/signals.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t tli_signal;

static const int watched[] = {SIGTERM, SIGINT, SIGUSR1};
enum { WATCHED = sizeof watched / sizeof *watched };
static struct sigaction before[WATCHED];
static int users;

static void note(int number)
{
    if (tli_signal) _exit(128 + number);
    tli_signal = number;
}

void tli_signals_begin(void)
{
    if (users++) return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    tli_signal = 0;
    for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &action, &before[i]);
}

void tli_signals_end(void)
{
    if (--users) return;
    for (int i = 0; i < WATCHED; i++) sigaction(watched[i], &before[i], NULL);
}

const char *tli_signal_name(int number)
{
    switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    default: return "a signal";
    }
}
