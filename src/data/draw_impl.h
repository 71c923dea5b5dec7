/* Private to data: the font of drawings. */
#ifndef TILTH_SRC_DATA_DRAW_IMPL_H
#define TILTH_SRC_DATA_DRAW_IMPL_H

#include <tilth/data/draw.h>

enum { TLI_FONT_WIDTH = 5, TLI_FONT_HEIGHT = 9, TLI_FONT_LETTERS = 96 };

/* The dots of a character; a box for one that the font does not have. */
uint64_t tli_font_letter(int c);

#endif
