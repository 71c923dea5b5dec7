/* Private to train: signals that ask a run to end.
 *
 * The first one is noted, and answered at once on standard error, since the step that is being
 * finished may take long; the second ends the process.
 *
 * Thread word: one run at a time in a process. */
#ifndef TLI_TRAIN_SIGNALS_H
#define TLI_TRAIN_SIGNALS_H

#include <signal.h>

/* The signal that came, 0: none. */
extern volatile sig_atomic_t tli_signal;

/* From now on SIGTERM, SIGINT, SIGUSR1 and SIGHUP are noted, until as many calls of
 * tli_signals_end. A SIGHUP that is ignored (nohup) stays so. `answer` is what the first one is
 * answered, such as "this step is finished and saved", NULL for nothing; that of the outermost call
 * counts. */
void tli_signals_begin(const char *answer);
void tli_signals_end(void);
/* "SIGTERM". */
const char *tli_signal_name(int number);
/* One of the four, by its place. */
int tli_signal_at(int place);

#endif
