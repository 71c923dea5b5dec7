/* Models of language in checkpoints of Model Garden, and what of them is not trained. Thread word:
 * one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_NAMES_H
#define TLI_ZOO_LANGUAGE_NAMES_H

#include <tilth/zoo/language.h>

/* The names below "encoder" of the encoder that is chosen. */
TL_NODISCARD tl_status tli_encoder_names(const tl_task *t, const tl_oneof *encoder,
                                         tl_original_names *into);
TL_NODISCARD tl_status tli_pretrainer_names(const tl_task *t, const tl_pretrainer_config *k,
                                            tl_original_names *into);
/* What stands on the encoder alone. */
TL_NODISCARD tl_status tli_pretrainer_head_names(const tl_pretrainer_config *k,
                                                 tl_original_names *into);
TL_NODISCARD tl_status tli_sentence_head_names(const tl_sentence_model_config *k,
                                               tl_original_names *into);
TL_NODISCARD tl_status tli_sentence_names(const tl_task *t, const tl_sentence_model_config *k,
                                          tl_original_names *into);
/* Freezes the layer of the encoder that pools, where it has one: for models that do not look at
 * pooled_output. */
TL_NODISCARD tl_status tli_freeze_pooler(tl_model *m);

#endif
