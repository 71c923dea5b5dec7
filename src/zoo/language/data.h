/* Batches of sequences. Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_DATA_H
#define TLI_ZOO_LANGUAGE_DATA_H

#include <tilth/zoo/language.h>

typedef struct tli_language_inputs {
    const tl_input_context *input;
    const char *section; /* "task.train_data" */
    bool trains;
    tl_arena *arena; /* lives as long as the dataset */
} tli_language_inputs;

TL_NODISCARD tl_status tli_pretrain_inputs(tl_dataset **out, const tl_pretrain_data_config *data,
                                           const tli_language_inputs *args);
TL_NODISCARD tl_status tli_pretrain_dynamic_inputs(tl_dataset **out,
                                                   const tl_pretrain_dynamic_data_config *data,
                                                   const tli_language_inputs *args);
TL_NODISCARD tl_status tli_sentence_inputs(tl_dataset **out, const tl_sentence_data_config *data,
                                           const tli_language_inputs *args);

#endif
