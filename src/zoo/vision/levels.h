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

/* A backbone, and a decoder upon it: parts of their model, by these names. */
typedef struct tli_pyramid {
    tl_layer *backbone, *decoder; /* no decoder: the identity */
} tli_pyramid;
TL_NODISCARD tl_status tli_pyramid_make(tli_pyramid *out, tl_scope *s, const tl_oneof *backbone,
                                        const tl_oneof *decoder, tl_levels model,
                                        const tl_backbone_parts *parts);
/* The maps of the backbone, and those of the decoder. */
void tli_pyramid_call(const tli_pyramid *p, tl_ctx *c, tl_tensor *image, tl_tensors *maps,
                      tl_tensors *decoded);

/* What the squares of all kernels cost: half of l2_weight_decay. */
typedef struct tli_l2 {
    tl_l2_regularizer l2;
    tl_oneof choice;
} tli_l2;
/* NULL: nothing. It points to `out`. */
const tl_oneof *tli_l2_choose(tli_l2 *out, double l2_weight_decay);

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
