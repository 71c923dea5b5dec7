/* What an experiment still lacks before it can be run, all of it at once.
 *
 *     tl_lacks lacks = {.arena = arena};
 *     TL_TRY(tl_experiment_lacks(&lacks, config, registry, "train_and_eval"));
 *     for (int64_t i = 0; i < lacks.count; i++)
 *         printf("%s: %s\n", lacks.items[i].key, lacks.items[i].what);
 *
 * Names and defaults of experiments are those of Model Garden, where much is left to who uses them.
 * A task tells its own by its method `lacks`.
 *
 * Ownership: the arena's. Thread word: one thread at a time. */
#ifndef TILTH_TRAIN_LACKS_H
#define TILTH_TRAIN_LACKS_H

#include <tilth/train/experiment.h>

TL_BEGIN

typedef struct tl_lack {
    const char *key; /* task.model.num_classes */
    /* it is; NULL: it lacks nothing, but the example needs it beside the others */
    const char *what;
    const char *value; /* of an example that works */
} tl_lack;
typedef struct tl_lacks {
    tl_lack *items;
    int64_t count; /* of all, those of examples included */
    /* of the task, or NULL: another way; a sentence that lives as long as the program */
    const char *hint;
    tl_arena *arena;
    int64_t capacity;
} tl_lacks;

/* Texts are copied. A value that is NULL is TL_ENOMEM: it could not be made. */
TL_API TL_NODISCARD tl_status tl_lacks_add(tl_lacks *l, const char *key, const char *what,
                                           const char *value);
/* Without what examples alone need. */
TL_API int64_t tl_lacks_count(const tl_lacks *l);

/* Adds those of a run in a mode: the task's, then the trainer's. */
TL_API TL_NODISCARD tl_status tl_experiment_lacks(tl_lacks *into, tl_config *config,
                                                  const tl_registry *registry, const char *mode);

TL_END

#endif
