/* What tasks of language still lack. Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_LACKS_H
#define TLI_ZOO_LANGUAGE_LACKS_H

#include <tilth/train/run/lacks.h>

/* What Model Garden's experiment says where a vocabulary is to be named. */
#define TLI_NO_VOCABULARY "TODO for users"

/* tl_task_class.lacks of masked_lm and of sentence_prediction, one for each kind of data. */
TL_NODISCARD tl_status tli_pretrain_lacks(const tl_task_config *config, bool trains, bool evaluates,
                                          tl_lacks *into);
TL_NODISCARD tl_status tli_pretrain_dynamic_lacks(const tl_task_config *config, bool trains,
                                                  bool evaluates, tl_lacks *into);
TL_NODISCARD tl_status tli_pretrain_text_lacks(const tl_task_config *config, bool trains,
                                               bool evaluates, tl_lacks *into);
TL_NODISCARD tl_status tli_sentence_lacks(const tl_task_config *config, bool trains, bool evaluates,
                                          tl_lacks *into);
TL_NODISCARD tl_status tli_sentence_text_lacks(const tl_task_config *config, bool trains,
                                               bool evaluates, tl_lacks *into);

#endif
