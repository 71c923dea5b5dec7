/* Private to zoo and tool: pictures that are made up, for trying out detection, segmentation and
 * classification: one to six shapes on textured noise, of which all is known exactly.
 *
 *     tli_shapes picture;
 *     tli_shapes_make(&picture, TLI_SHAPES_TRAIN, index);
 *     tli_shapes_make_of(&picture, &(tli_shapes_args){.seed = 7, .most = 1, .kinds = {6, 7},
 *                                                     .kind_count = 2}, index);
 *
 * A picture is a function of seed and index, with the same bytes on every machine. Shapes may lie
 * over each other, the later one on top, and reach beyond the edge of the picture; of each at least
 * half of what is inside the picture can be seen.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_ZOO_SHAPES_H
#define TILTH_SRC_ZOO_SHAPES_H

#include <stdint.h>

enum {
    TLI_SHAPES_SIDE = 96,
    TLI_SHAPES_PIXELS = TLI_SHAPES_SIDE * TLI_SHAPES_SIDE,
    TLI_SHAPES_MOST = 6,
    TLI_SHAPES_KINDS = 5, /* of detection/local and segmentation/local: the first ones */
    TLI_SHAPES_ALL_KINDS = 10
};
/* Seeds of the pictures that are trained with, and of those that are evaluated. */
enum { TLI_SHAPES_TRAIN = 1, TLI_SHAPES_VALIDATION = 2 };

typedef struct tli_shapes {
    int64_t count;
    /* 1 circle, 2 square, 3 triangle, 4 cross, 5 ring, 6 star, 7 crescent, 8 half, 9 arrow, 10
     * corner; 0 is the background */
    int32_t classes[TLI_SHAPES_MOST];
    /* ymin, xmin, ymax, xmax in pixels: around the whole shape as far as it is inside the picture,
     * whatever lies over it */
    float boxes[TLI_SHAPES_MOST][4];
    int64_t areas[TLI_SHAPES_MOST]; /* pixels of the masks */
    /* 1 where the shape is, seen or not; the boxes are those of the masks */
    uint8_t masks[TLI_SHAPES_MOST][TLI_SHAPES_PIXELS];
    uint8_t labels[TLI_SHAPES_PIXELS]; /* the class of what is seen */
    uint8_t pixels[TLI_SHAPES_PIXELS * 3];
} tli_shapes;

/* "circle" and so on, by class. */
extern const char *const tli_shape_names[TLI_SHAPES_ALL_KINDS + 1];

/* One to six shapes of the first five kinds. */
void tli_shapes_make(tli_shapes *out, uint64_t seed, int64_t index);

typedef struct tli_shapes_args {
    uint64_t seed;
    int64_t most;                        /* shapes in a picture: 1 to TLI_SHAPES_MOST */
    int32_t kinds[TLI_SHAPES_ALL_KINDS]; /* that are drawn, one as often as the other */
    int64_t kind_count;                  /* 1 at least */
} tli_shapes_args;
/* One to `most` shapes of these kinds. */
void tli_shapes_make_of(tli_shapes *out, const tli_shapes_args *args, int64_t index);

#endif
