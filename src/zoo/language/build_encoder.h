/* gin's build_encoder. Thread word: immutable. */
#ifndef TLI_ZOO_LANGUAGE_BUILD_ENCODER_H
#define TLI_ZOO_LANGUAGE_BUILD_ENCODER_H

#include <tilth/desc/gin.h>

extern const tl_configurable_class tli_build_encoder;

/* What gin, which may be NULL, binds of EncoderScaffold's parts where a model is made. */
typedef struct tli_scaffold_choice {
    bool scaffold;       /* build_encoder makes an EncoderScaffold */
    bool talking, gated; /* by TalkingHeadsAttention and GatedFeedforward */
    int64_t gated_blocks;
} tli_scaffold_choice;
TL_NODISCARD tl_status tli_scaffold_ask(tli_scaffold_choice *out, tl_gin *gin);

#endif
