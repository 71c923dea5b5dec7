/* Private to zoo: examples of detection as records hold them, and as fields of samples.
 *
 * Thread word: free-threaded once opened. */
#ifndef TILTH_SRC_ZOO_DETECTION_EXAMPLE_H
#define TILTH_SRC_ZOO_DETECTION_EXAMPLE_H

#include <tilth/data/sample.h>
#include <tilth/zoo/detection_inputs.h>

#define TLI_DETECTION_IMAGE "image"     /* uint8: encoded, or [height, width, 3] */
#define TLI_DETECTION_BOXES "boxes"     /* float32 [n, 4]: shares of height and width */
#define TLI_DETECTION_CLASSES "classes" /* int32 [n] */
#define TLI_DETECTION_INFO "image_info"
#define TLI_TRUTH_BOXES "groundtruth/boxes"
#define TLI_TRUTH_CLASSES "groundtruth/classes"
#define TLI_TRUTH_AREAS "groundtruth/areas"         /* float32 [n], or of none: [0] */
#define TLI_TRUTH_CROWDS "groundtruth/is_crowds"    /* int32 [n], or of none: [0] */
#define TLI_TRUTH_SOURCE_ID "groundtruth/source_id" /* int64 */
#define TLI_TRUTH_COUNT "groundtruth/num_detections"
#define TLI_TRUTH_HEIGHT "groundtruth/height"
#define TLI_TRUTH_WIDTH "groundtruth/width"
#define TLI_TRUTH_MASKS "groundtruth/masks" /* uint8 [n, height, width]: 0 or 1 */

/* So many that all fields fit into a sample. */
enum { TLI_DETECTION_ATTRIBUTES = 12 };

typedef struct tli_class_name {
    const char *name;
    size_t length;
    int32_t number;
} tli_class_name;

typedef struct tli_detection_decoder {
    bool regenerate_source_id, named; /* classes are texts */
    bool truth, masks;                /* what only evaluations need is read too */
    bool filenames;                   /* TLI_IMAGE_FILENAME is read too */
    bool keep_pixels;                 /* pictures are decoded here, for a cache */
    tl_opt_double mask_threshold;
    const tli_class_name *classes; /* sorted by name */
    int64_t class_count;
    int64_t attribute_count;
    const char *attributes[TLI_DETECTION_ATTRIBUTES]; /* "image/object/attribute/NAME" */
    const char *fields[TLI_DETECTION_ATTRIBUTES];     /* "attribute/NAME" */
    int64_t sizes[TLI_DETECTION_ATTRIBUTES];
} tli_detection_decoder;

/* As the configuration says; `sizes` are those of attributes, or none. */
TL_NODISCARD tl_status tli_detection_decoder_open(tli_detection_decoder *out,
                                                  const tl_oneof *config, tl_ints sizes,
                                                  tl_arena *arena);
/* A tl_sample_fn whose `self` is a tli_detection_decoder: a record becomes the fields above that
 * have a type beside them. */
TL_NODISCARD tl_status tli_detection_decode(void *self, tl_sample *s);

#endif
