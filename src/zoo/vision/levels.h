/* Private to vision: levels of feature maps and their names, and what models that stand on them
 * have in common. */
#ifndef TILTH_SRC_ZOO_VISION_LEVELS_H
#define TILTH_SRC_ZOO_VISION_LEVELS_H

#include <tilth/train/task.h>
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

/* What a decoder of a model with these levels stands on. */
TL_NODISCARD tl_status tli_decoder_parts(tl_decoder_parts *out, tl_arena *arena,
                                         const tl_registry *registry, const tl_oneof *backbone,
                                         tl_levels model, const tl_backbone_parts *parts);

/* --- names in Model Garden -------------------------------------------------------------------- */

/* Those of a backbone and a decoder. */
typedef struct tli_pyramid_names {
    const tl_oneof *backbone, *decoder;
    tl_levels levels; /* of the model */
    const tl_norm_activation *norm_activation;
    tl_arena *arena;
    const tl_registry *registry;
} tli_pyramid_names;
TL_NODISCARD tl_status tli_name_pyramid(tl_original_names *into, const tli_pyramid_names *args);

/* --- pictures of evaluations ------------------------------------------------------------------ */

enum { TLI_MOST_PICTURES = 20 };
/* Mean or deviation of bytes as floats, in the arena; none: NULL, ImageNet's. */
TL_NODISCARD tl_status tli_three_floats(const float **out, tl_arena *arena, tl_doubles given);

/* --- predictions ------------------------------------------------------------------------------ */

/* What says how pictures are made ready: as evaluations see them, else as training does. */
TL_NODISCARD tl_status tli_query_data(const tl_data_config **out, const tl_task *t);
/* Height and width of a query's picture, as it is seen. */
TL_NODISCARD tl_status tli_query_size(int64_t size[2], const tl_query *q);

/* --- beginning with other weights ------------------------------------------------------------- */

/* The rows of init_checkpoint_modules: a name or a list of them. */
#define TLI_MODULES_HELP "what init_checkpoint gives: all, backbone, decoder, or a list of them"
TL_NODISCARD tl_status tli_modules_check(const tl_value *modules);
/* Begins with what config.init_checkpoint has of them; nothing where that is not set. */
TL_NODISCARD tl_status tli_modules_initialize(tl_task *t, tl_model *m, const tl_value *modules);

#endif
