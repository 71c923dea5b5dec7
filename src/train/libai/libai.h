/* Private to train: checks of LiBai's configuration that need more than a table.
 *
 * Thread word: immutable. */
#ifndef TLI_TRAIN_LIBAI_H
#define TLI_TRAIN_LIBAI_H

#include <tilth/desc/python.h>
#include <tilth/train/libai/libai.h>

TL_NODISCARD tl_status tli_libai_check_scheduler(const void *value);
TL_NODISCARD tl_status tli_libai_check_optim(const void *value);
TL_NODISCARD tl_status tli_libai_check_params(const void *value);

/* tl_libai_resolve_dist without a look at pipeline_num_layers, which nobody asks for while stages
 * are refused; of several processes one tells what changes. */
TL_NODISCARD tl_status tli_libai_resolve_dist(tl_libai_train_config *train, int64_t world,
                                              bool tell);

/* tl_param_groups_of in two halves: what is said of each parameter, and those of like settings
 * together. */
typedef struct tli_param_settings {
    const char *const *paths;
    int64_t count;
    tl_group_config *settings;
    bool *touched; /* something is said of it */
} tli_param_settings;
TL_NODISCARD tl_status tli_param_settings_of(tli_param_settings *s, tl_arena *arena,
                                             const tl_group_config *rules, int64_t rule_count);
TL_NODISCARD tl_status tli_param_groups_gather(tl_param_groups *out, tl_arena *arena,
                                               const tli_param_settings *s);

/* What stands behind the last dot. */
const char *tli_last_part(const char *dotted);

/* --- sections `model` and `dataloader`, from a file or a word --------------------------------- */

/* `map` with all keys but these two; NULL when there is no memory. */
const tl_value *tli_libai_without(tl_arena *arena, const tl_value *map, const char *one,
                                  const char *two);
/* What `train` or `test` of dataloader is in the section `task`: the key there, and its value. */
TL_NODISCARD tl_status tli_libai_read_loader(const char **key, const tl_value **value,
                                             tl_arena *arena, const char *name,
                                             const tl_value *given);
/* Adds the test loaders behind the first to `tests`; each with the keys of the task's data. A list
 * of one, and what is no list, adds nothing. */
TL_NODISCARD tl_status tli_libai_more_tests(tl_config *c, const tl_value *loaders);
/* What a loader's results are called: by the class of its dataset. */
const char *tli_libai_test_name(const tl_value *loader);
/* Applies a whole file's map, sections `model` and `dataloader` included. */
TL_NODISCARD tl_status tli_libai_apply(tl_config *c, const tl_value *map);
/* The tree with what a word says: `a.b[0].c=1`, `a.0=1`, `~a.b`. Keys that are not there are made,
 * and maps are merged. */
TL_NODISCARD tl_status tli_libai_word_into(const tl_value **tree, tl_arena *arena,
                                           const tl_word *word);
/* Fails when `dataloader` is no map. */
TL_NODISCARD tl_status tli_libai_check_loaders(const tl_value *loaders);

/* --- files that ship -------------------------------------------------------------------------- */

extern const tl_python_options tli_libai_shipped;

#endif
