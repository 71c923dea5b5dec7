/* Private to train: a command that is told of events, one after the other, beside the training.
 *
 * Nothing of it can fail or hold up who tells: events wait in a queue, from which a thread takes
 * them. A command that fails, hangs or cannot be started is warned of once. Thread word: one thread
 * at a time. */
#ifndef TLI_TRAIN_NOTIFY_H
#define TLI_TRAIN_NOTIFY_H

#include <tilth/base/str.h>

typedef struct tli_notify tli_notify;

/* `command` is run by /bin/sh -c for each event. Both texts are copied. */
TL_NODISCARD tl_status tli_notify_new(tli_notify **out, const char *command, const char *model_dir);
/* The text is its standard input, the event's name and the folder are TILTH_EVENT and
 * TILTH_MODEL_DIR. What it writes goes to standard error. */
void tli_notify_send(tli_notify *n, const char *event, const char *text, size_t length);
/* Waits for what was sent, no longer than tli_notify_limit_ms. NULL is fine. */
void tli_notify_free(tli_notify **n);

/* Milliseconds that a command may take, and that the end waits for all that is left; tests set
 * it. */
extern int64_t tli_notify_limit_ms;

#endif
