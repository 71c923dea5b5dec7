/* Encoders, between the files of zoo/language. Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_ENCODER_H
#define TLI_ZOO_LANGUAGE_ENCODER_H

#include <tilth/zoo/language.h>

/* Every encoder that Model Garden has, X(name). */
#define TLI_ENCODERS(X)                                                                            \
    X(bert)                                                                                        \
    X(bert_v2)                                                                                     \
    X(albert)                                                                                      \
    X(any)                                                                                         \
    X(bigbird)                                                                                     \
    X(funnel)                                                                                      \
    X(kernel)                                                                                      \
    X(mobilebert)                                                                                  \
    X(reuse)                                                                                       \
    X(xlnet)                                                                                       \
    X(query_bert)                                                                                  \
    X(fnet)                                                                                        \
    X(sparse_mixer)
#define TLI_ENCODER_EXTERN(id) extern const tl_encoder_class tl_encoder_##id;
TLI_ENCODERS(TLI_ENCODER_EXTERN)
#undef TLI_ENCODER_EXTERN

tl_layer *tli_make_bert(tl_scope *s, const char *name, const void *config,
                        const tl_encoder_parts *parts);
tl_layer *tli_make_albert(tl_scope *s, const char *name, const void *config,
                          const tl_encoder_parts *parts);
TL_NODISCARD tl_status tli_bert_names(const void *config, tl_original_names *into);
TL_NODISCARD tl_status tli_albert_names(const void *config, tl_original_names *into);

/* How many words the encoder that is chosen looks up, as its section says; 0 where that is not
 * known, for gin may choose another table. The arena keeps what is asked for it. */
TL_NODISCARD tl_status tli_encoder_words(int64_t *out, const tl_oneof *encoder,
                                         const tl_registry *registry, tl_arena *arena);

/* Truncated normal numbers of this deviation; in the arena. */
tl_oneof tli_truncated_normal(tl_arena *arena, double stddev);

#endif
