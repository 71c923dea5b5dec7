/* Private to train: signals that ask a run to end.
 *
 * The first one is noted, the second ends the process at once.
 *
 * Thread word: one run at a time in a process. */
#ifndef TLI_TRAIN_SIGNALS_H
#define TLI_TRAIN_SIGNALS_H

#include <signal.h>

/* The signal that came, 0: none. */
extern volatile sig_atomic_t tli_signal;

/* From now on SIGTERM, SIGINT and SIGUSR1 are noted, until as many calls of tli_signals_end. */
void tli_signals_begin(void);
void tli_signals_end(void);
/* "SIGTERM". */
const char *tli_signal_name(int number);

#endif
