/* Models of language in checkpoints of Model Garden, and what of them is not trained. Thread word:
 * one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_NAMES_H
#define TLI_ZOO_LANGUAGE_NAMES_H

#include <tilth/desc/gin.h>
#include <tilth/zoo/language.h>

/* The names below "encoder" of the encoder that is chosen. */
TL_NODISCARD tl_status tli_encoder_names(const tl_task *t, const tl_oneof *encoder,
                                         tl_original_names *into);
TL_NODISCARD tl_status tli_pretrainer_names(const tl_task *t, const tl_pretrainer_config *k,
                                            tl_original_names *into);
/* Those of an EncoderScaffold that gin makes of the reference. `layers`: how many it has, where the
 * configuration says; 0: as gin says. */
TL_NODISCARD tl_status tli_scaffold_names(tl_original_names *into, tl_gin *gin,
                                          const tl_ref *encoder, int64_t layers);
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

/* --- parts of tables -------------------------------------------------------------------------- */

typedef struct tli_name_pair {
    const char *ours, *theirs;
} tli_name_pair;
/* Both sides behind a prefix. */
TL_NODISCARD tl_status tli_add_names(tl_original_names *into, const char *ours, const char *theirs,
                                     const tli_name_pair *pairs, int64_t count);
/* Of a block: the attention with its norm; and what follows it where it is two dense layers. */
TL_NODISCARD tl_status tli_add_attention_names(tl_original_names *into, const char *ours,
                                               const char *theirs);
TL_NODISCARD tl_status tli_add_dense_names(tl_original_names *into, const char *ours,
                                           const char *theirs);
/* Of an encoder: words, places and types. */
TL_NODISCARD tl_status tli_add_table_names(tl_original_names *into);

#endif
