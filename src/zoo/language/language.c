/* Experiments of language. */
#include "zoo/language/build_encoder.h"
#include "zoo/language/encoder.h"

static const tl_entry entries[] = {
#define ENCODER_ENTRY(id) {&tl_kind_encoder, &tl_encoder_##id.cls},
    TLI_ENCODERS(ENCODER_ENTRY)
#undef ENCODER_ENTRY
        {&tl_kind_layer, &tl_layer_encoder_scaffold.cls},
    {&tl_kind_configurable, &tli_build_encoder.cls},
};
const tl_module tl_language_module = {TL_MODULE_HEAD("language"), entries, TL_COUNT(entries)};
