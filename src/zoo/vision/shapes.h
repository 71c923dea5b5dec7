/* Private to zoo: pictures that are made up, for trying out detection and segmentation: one to six
 * shapes on textured noise, of which all is known exactly.
 *
 *     tli_shapes picture;
 *     tli_shapes_make(&picture, TLI_SHAPES_TRAIN, index);
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
    TLI_SHAPES_KINDS = 5
};
/* Seeds of the pictures that are trained with, and of those that are evaluated. */
enum { TLI_SHAPES_TRAIN = 1, TLI_SHAPES_VALIDATION = 2 };

typedef struct tli_shapes {
    int64_t count;
    /* 1 circle, 2 square, 3 triangle, 4 cross, 5 ring; 0 is the background */
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
extern const char *const tli_shape_names[TLI_SHAPES_KINDS + 1];

void tli_shapes_make(tli_shapes *out, uint64_t seed, int64_t index);

#endif
