/* Batches of sequences. Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_DATA_H
#define TLI_ZOO_LANGUAGE_DATA_H

#include <tilth/data/pipeline.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/text/tokenizer.h>
#include <tilth/zoo/language.h>

/* How many words the model has room for, and the key that says so; 0: it is not known. */
typedef struct tli_words {
    int64_t count;
    const char *key;
} tli_words;

typedef struct tli_language_inputs {
    const tl_input_context *input;
    const char *section; /* "task.train_data" */
    bool trains;
    tl_arena *arena; /* lives as long as the dataset */
    tli_words words;
    int64_t classes; /* as words */
    const char *classes_key;
} tli_language_inputs;

/* Asks the encoder that the configuration chooses. */
TL_NODISCARD tl_status tli_ask_words(tli_words *out, const tl_oneof *encoder,
                                     const tl_registry *registry, tl_arena *arena);
/* Whether the model has room for all pieces of a vocabulary, which `key` names. */
TL_NODISCARD tl_status tli_check_pieces(const tl_tokenizer *t, const char *key,
                                        const tli_language_inputs *args);
/* Whether it has room for those that texts became. */
TL_NODISCARD tl_status tli_check_words(const tl_tokenizer *t, const int32_t *ids, int64_t count,
                                       const tli_words *room);
/* Whether labels are what the model gives: classes are whole numbers. */
TL_NODISCARD tl_status tli_check_label_type(const char *type, const tli_language_inputs *args);

/* Numbers of a feature count from 0 and end before a limit. */
typedef struct tli_limit {
    const char *feature, *field;
    int64_t below; /* 0: none; negative: the places of the sequence */
    const char *what;
} tli_limit;
TL_NODISCARD tl_status tli_class_limit(tli_limit *out, const char *feature, const char *field,
                                       const tli_language_inputs *args);
TL_NODISCARD tl_status tli_check_limit(const tl_sample *s, const tli_limit *l);

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
