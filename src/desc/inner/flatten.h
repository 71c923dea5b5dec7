/* A tree of values as rows: dotted key and text.
 *
 * Thread word: one thread at a time for each arena. */
#ifndef TLI_DESC_FLATTEN_H
#define TLI_DESC_FLATTEN_H

#include <tilth/desc/value.h>

/* Called for each value that is no map, and for empty maps, with its dotted path; lists are in one
 * line. Both texts are the arena's. */
typedef tl_status tli_flat_fn(const char *key, const char *value, void *payload);
TL_NODISCARD tl_status tli_value_flatten(const tl_value *v, tl_arena *arena, tli_flat_fn *fn,
                                         void *payload);

#endif
