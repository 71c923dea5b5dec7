/* Private to zoo: LiBai's configurations of image classification, in the words of Model Garden's
 * task.
 *
 * Thread word: immutable. */
#ifndef TILTH_SRC_ZOO_VISION_LIBAI_H
#define TILTH_SRC_ZOO_VISION_LIBAI_H

#include <tilth/train/libai/libai.h>

extern const tl_libai_model_class tli_libai_vision_transformer;

/* --- arguments -------------------------------------------------------------------------------- */

/* A failure with its place before it. */
TL_NODISCARD tl_status tli_libai_at(tl_status failed, const tl_value *at);
/* What stands behind the last dot of `_target_`; "" when there is none. */
const char *tli_libai_class(const tl_value *v);
/* Fails when the map has a key that is not in the list, which ends with NULL; `_target_` may be
 * there. */
TL_NODISCARD tl_status tli_libai_known(const tl_value *map, const char *const *keys);
/* Numbers by name; `otherwise` when there is none. */
TL_NODISCARD tl_status tli_libai_int(int64_t *out, const tl_value *map, const char *key,
                                     int64_t otherwise);
TL_NODISCARD tl_status tli_libai_double(double *out, const tl_value *map, const char *key,
                                        double otherwise);
/* NULL when it is absent or None. */
const tl_value *tli_libai_value(const tl_value *map, const char *key);

/* --- data ------------------------------------------------------------------------------------- */

/* Adds the data of a loader as a YAML map in one line. `size` is that of the model's images. */
TL_NODISCARD tl_status tli_libai_images(tl_str *yaml, const tl_value *loader, bool training,
                                        int64_t size);

#endif
