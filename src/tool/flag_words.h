/* Private to tool: flags as the words that give them.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_FLAG_WORDS_H
#define TILTH_SRC_TOOL_FLAG_WORDS_H

#include "tool/experiment.h"

/* Words of a command line, in an arena. */
typedef struct tli_word_list {
    const char **items;
    int64_t count, capacity;
} tli_word_list;
/* Flags of a described struct that are not at their defaults, as "--name=value"; but for one of
 * that name, which may be NULL. */
TL_NODISCARD tl_status tli_flag_words(tli_word_list *out, tl_arena *arena, const tl_desc *desc,
                                      const void *value, const char *but);
/* The flags of a training, of its experiment and of the program itself, and its plug-ins; but for
 * --model_dir. */
TL_NODISCARD tl_status tli_train_words(tli_word_list *out, const tli_run *run,
                                       const tl_train_flags *flags, const tl_parse_options *parse);

#endif
