/* Private to train: logs as Python prints a dictionary, which is what Model Garden's log lines
 * hold.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TRAIN_PRETTY_H
#define TLI_TRAIN_PRETTY_H

#include <tilth/base/str.h>
#include <tilth/core/logs.h>

/* "{'accuracy': 0.93, 'training_loss': 0.21}", keys sorted; what does not fit into 80 columns is
 * put on lines of its own, four spaces in. Reads the numbers. */
TL_NODISCARD tl_status tli_logs_pretty(tl_str *out, const tl_logs *logs);

#endif
