/* Private to nn/coco: detections and objects by category and image, and what was matched. */
#ifndef TLI_NN_COCO_H
#define TLI_NN_COCO_H

#include <tilth/nn/coco.h>

enum {
    TLI_COCO_THRESHOLDS = 10, /* of overlap: 0.5, 0.55, ... 0.95 */
    TLI_COCO_AREAS = 4,       /* all, small, medium, large */
    TLI_COCO_BITS = TLI_COCO_AREAS * TLI_COCO_THRESHOLDS,
};
_Static_assert(TLI_COCO_BITS <= 64, "a bit for each area and threshold");

/* A detection. Bit area * TLI_COCO_THRESHOLDS + threshold says how it fared there. */
typedef struct tli_coco_found {
    const tl_coco_object *object;
    double score;
    int32_t rank; /* among those of its image and category, the best is 0 */
    uint64_t matched, ignored;
} tli_coco_found;

/* What one category has in one image. */
typedef struct tli_coco_cell {
    tli_coco_found *found; /* best first, and no more than the largest limit */
    int64_t found_count;
    const tl_coco_object *const *truths;
    int64_t truth_count;
} tli_coco_cell;

/* One category: its cells follow each other, and so do their detections. */
typedef struct tli_coco_class {
    tli_coco_cell *cells;
    int64_t cell_count;
    int64_t truths, crowds;
} tli_coco_class;

/* Threshold i, computed as NumPy's linspace does. */
double tli_coco_threshold(int i);
/* In which areas an object does not count. */
bool tli_coco_outside(double area, int range);

/* Scratch of tli_coco_match, for cells of up to so many truths. */
typedef struct tli_coco_scratch tli_coco_scratch;
TL_NODISCARD tl_status tli_coco_scratch_new(tli_coco_scratch **out, int64_t truths);
void tli_coco_scratch_free(tli_coco_scratch **s);
/* Fills `matched` and `ignored` of the cell's detections. */
void tli_coco_match(tli_coco_cell *cell, tli_coco_scratch *s, bool masks);

/* Precisions of one category at one area and threshold: of as many recalls as were reached, or
 * where there are fewer objects than recalls, after each object that was found. */
typedef struct tli_coco_curve {
    double *precision;
    int64_t count;
} tli_coco_curve;

/* What one category has got. */
typedef struct tli_coco_numbers {
    int64_t objects[TLI_COCO_AREAS]; /* 0: nothing is known of this area */
    tli_coco_curve curves[TLI_COCO_AREAS][TLI_COCO_THRESHOLDS];
    double recall[TLI_COCO_AREAS][TLI_COCO_THRESHOLDS];
    double recall_of_few[2][TLI_COCO_THRESHOLDS]; /* at the smaller two limits, of all areas */
    double *memory;                               /* of the curves */
} tli_coco_numbers;
TL_NODISCARD tl_status tli_coco_accumulate(tli_coco_numbers *out, const tli_coco_class *category,
                                           const int64_t max_detections[3]);
void tli_coco_numbers_deinit(tli_coco_numbers *n);
/* The twelve numbers of some categories together. */
TL_NODISCARD tl_status tli_coco_summarize(double stats[TL_COCO_STATS],
                                          const tli_coco_numbers *numbers, int64_t count);

#endif
