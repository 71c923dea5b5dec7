/* gin's build_encoder. Thread word: immutable. */
#ifndef TLI_ZOO_LANGUAGE_BUILD_ENCODER_H
#define TLI_ZOO_LANGUAGE_BUILD_ENCODER_H

#include <tilth/desc/gin.h>

extern const tl_configurable_class tli_build_encoder;

#endif
