/* What detect.c and segment.c share: training on made-up shapes, and a picture to ask about. */
#ifndef TILTH_EXAMPLES_SHAPES_H
#define TILTH_EXAMPLES_SHAPES_H

#include <tilth/tilth.h>

enum { SHAPES_HEIGHT = 96, SHAPES_WIDTH = 128 };

/* Trains an experiment with these changes in a folder, for so many steps. */
TL_NODISCARD tl_status shapes_train(tl_registry *registry, const char *experiment,
                                    const char *changes, int steps, const char *folder);

/* A circle and a square on noise: RGB, SHAPES_HEIGHT x SHAPES_WIDTH. */
void shapes_paint(uint8_t *pixels);
/* Asks the trained model about it. Both are to be freed, also after a failure. */
TL_NODISCARD tl_status shapes_ask(tl_predictor **p, tl_predictions **answers, tl_registry *registry,
                                  const char *folder, const uint8_t *pixels);
/* Writes such a picture, of 3 channels or 1, as a PNG file into the folder, and says so. */
TL_NODISCARD tl_status shapes_write(const char *folder, const char *name, int64_t channels,
                                    const uint8_t *pixels);

#endif
