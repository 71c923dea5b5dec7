/* Private to vision: levels of feature maps and their names. */
#ifndef TILTH_SRC_ZOO_VISION_LEVELS_H
#define TILTH_SRC_ZOO_VISION_LEVELS_H

#include <tilth/zoo/decoder.h>

/* A map of level 11 is 2048 times smaller than its image. */
enum { TLI_LEVELS = 12 };

/* "3" for 3. */
const char *tli_level_name(int64_t level);
/* "lateral_3"; NULL, with the scope failed, when memory is short. */
const char *tli_level_text(tl_scope *s, const char *what, int64_t level);
/* Whether levels are some, in order and below TLI_LEVELS. `key` stands in messages: "model". */
TL_NODISCARD tl_status tli_levels_check(tl_levels levels, const char *key);
/* The map of a level; the context fails, naming those that are there, when it is not among them. */
tl_tensor *tli_level_get(tl_ctx *c, const tl_tensors *maps, int64_t level);

/* layer_with_weights-K below "decoder", for the next K: a layer of ours. */
TL_NODISCARD tl_status tli_name_next(tl_original_names *into, int64_t *counted, const char *ours);
/* The same for a convolution of tli_conv. */
TL_NODISCARD tl_status tli_name_conv(tl_original_names *into, const char *ours, const char *theirs,
                                     bool separable);

#endif
