/* A tree of values as rows, dotted key and text, by key.
 *
 *     tli_settings s = {0};
 *     TL_TRY(tli_settings_add(&s, tree, arena));
 *     const char *steps = tli_settings_find(&s, "trainer.train_steps");   // NULL: there is none
 *     TL_VEC_FREE(&s);
 *
 * Thread word: one thread at a time. */
#ifndef TLI_DESC_FLATTEN_H
#define TLI_DESC_FLATTEN_H

#include <tilth/desc/value.h>

typedef struct tli_setting {
    const char *key, *value;
} tli_setting;
typedef struct tli_settings {
    tli_setting *items;
    int64_t count, capacity;
} tli_settings;

/* Adds a row for each value that is no map, and for empty maps; lists are in one line. All texts
 * are the arena's, the list is the caller's to free. */
TL_NODISCARD tl_status tli_settings_add(tli_settings *s, const tl_value *v, tl_arena *arena);
const char *tli_settings_find(const tli_settings *s, const char *key);

#endif
