/* Batches of sequences. Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_DATA_H
#define TLI_ZOO_LANGUAGE_DATA_H

#include <tilth/data/pipeline.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/text/tokenizer.h>
#include <tilth/zoo/language.h>

typedef struct tli_language_inputs {
    const tl_input_context *input;
    const char *section; /* "task.train_data" */
    bool trains;
    tl_arena *arena; /* lives as long as the dataset */
    /* What the model has room for, and the keys that say so; 0: it is not known. The arena's. */
    int64_t words, classes;
    const char *words_key, *classes_key;
} tli_language_inputs;

/* Asks the encoder that the configuration chooses how many words it has. */
TL_NODISCARD tl_status tli_ask_words(tli_language_inputs *out, const tl_oneof *encoder,
                                     const tl_registry *registry);
/* Whether the model has room for the pieces of a vocabulary, which `key` names. */
TL_NODISCARD tl_status tli_check_pieces(const tl_tokenizer *t, const char *key,
                                        const tli_language_inputs *args);
/* Whether labels are what the model gives: classes are whole numbers. */
TL_NODISCARD tl_status tli_check_label_type(const char *type, const tli_language_inputs *args);

TL_NODISCARD tl_status tli_pretrain_inputs(tl_dataset **out, const tl_pretrain_data_config *data,
                                           const tli_language_inputs *args);
TL_NODISCARD tl_status tli_pretrain_dynamic_inputs(tl_dataset **out,
                                                   const tl_pretrain_dynamic_data_config *data,
                                                   const tli_language_inputs *args);
TL_NODISCARD tl_status tli_pretrain_text_inputs(tl_dataset **out,
                                                const tl_pretrain_text_data_config *data,
                                                const tli_language_inputs *args);
TL_NODISCARD tl_status tli_sentence_inputs(tl_dataset **out, const tl_sentence_data_config *data,
                                           const tli_language_inputs *args);

/* The vocabulary that the section names; the caller's. */
TL_NODISCARD tl_status tli_sentence_tokenizer(tl_tokenizer **out,
                                              const tl_sentence_text_data_config *data,
                                              const char *section);
/* `tokenizer` must outlive the dataset. */
TL_NODISCARD tl_status tli_sentence_text_inputs(tl_dataset **out,
                                                const tl_sentence_text_data_config *data,
                                                const tl_tokenizer *tokenizer,
                                                const tli_language_inputs *args);
/* [CLS] a [SEP] b [SEP] of texts, and zeros up to `length`: words, mask and types. */
TL_NODISCARD tl_status tli_sentence_pack_texts(const tl_tokenizer *t, int64_t length,
                                               const tl_bytes *texts, int64_t count,
                                               int32_t *const inputs[3]);
/* Lengths of texts are cut until they fit into `room`. */
void tli_round_robin(int64_t *lengths, int64_t count, int64_t room);
/* Batches of what the configuration names, as `a` decodes and maps it. */
TL_NODISCARD tl_status tli_read_records(tl_dataset **out, tl_pipeline_args *a,
                                        const tl_data_config *d, const tli_language_inputs *args);

#endif
