/* Private to board: answers that were made a moment ago. Ten people who look at the same page ask
 * the same when there is news of it; the first one has it made.
 *
 *     tli_kept *c = tli_kept_new();
 *     if (!tli_kept_find(c, key, version, &body)) {
 *         ... make it ...
 *         tli_kept_keep(c, key, version, &body);
 *     }
 *     tli_kept_free(&c);
 *
 * An answer is used again while nothing has changed, and for two seconds: files that are not
 * followed may have changed then. What is kept is bounded, in number and in bytes.
 *
 * Thread word: free-threaded. */
#ifndef TLI_BOARD_KEPT_H
#define TLI_BOARD_KEPT_H

#include <tilth/base/str.h>

typedef struct tli_kept tli_kept;

/* NULL when there is no memory: nothing is kept then. All take NULL. */
tli_kept *tli_kept_new(void);
void tli_kept_free(tli_kept **c);
/* Adds the answer to `out`, when there is one. */
bool tli_kept_find(tli_kept *c, const char *key, uint64_t version, tl_str *out);
void tli_kept_keep(tli_kept *c, const char *key, uint64_t version, const tl_str *answer);

#endif
