/* gin's build_encoder. Thread word: immutable. */
#ifndef TLI_ZOO_LANGUAGE_BUILD_ENCODER_H
#define TLI_ZOO_LANGUAGE_BUILD_ENCODER_H

#include <tilth/desc/gin.h>

extern const tl_configurable_class tli_build_encoder;

/* What build_encoder is given by gin, which may be NULL: nothing then. */
typedef struct tli_encoder_choice {
    tl_ref embedding_layer, encoder_cls;
    bool bypass_config;
} tli_encoder_choice;
TL_NODISCARD tl_status tli_encoder_ask(tli_encoder_choice *out, tl_gin *gin);
/* Whether the choice is an EncoderScaffold, whatever the configuration's encoder is. */
bool tli_encoder_is_scaffold(const tli_encoder_choice *c);

#endif
