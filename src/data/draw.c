#include <math.h>

#include <tilth/base/integer.h>

#include "base/inner/utf8.h"
#include "data/draw_impl.h"

enum {
    THICKNESS = 4,
    GAP = 1,
    MARGIN = 2
}; /* of frames; between letters and around text, in dots */

/* --- rectangles ------------------------------------------------------------------------------- */

static void put(const tl_pixels *p, int64_t y, int64_t x, tl_color color)
{
    uint8_t *at = (uint8_t *)p->data + y * p->stride + x * 3;
    at[0] = color.red;
    at[1] = color.green;
    at[2] = color.blue;
}

// Pixels from top and left on, before bottom and right, as far as there are some.
static void fill(const tl_pixels *p, int64_t top, int64_t left, int64_t bottom, int64_t right,
                 tl_color color)
{
    top = tl_max_i64(top, 0);
    left = tl_max_i64(left, 0);
    bottom = tl_min_i64(bottom, p->height);
    right = tl_min_i64(right, p->width);
    for (int64_t y = top; y < bottom; y++)
        for (int64_t x = left; x < right; x++) put(p, y, x, color);
}

// The nearest edge between pixels; what is far outside, or no number, comes near.
static int64_t edge_at(double x, int64_t side)
{
    if (!(x > -THICKNESS)) return -THICKNESS;
    return x > (double)(side + THICKNESS) ? side + THICKNESS : (int64_t)floor(x + 0.5);
}

/* --- text ------------------------------------------------------------------------------------- */

// The next character, and where the one behind it stands; bytes that are none count one by one.
static int next_letter(const char **text)
{
    int length = tli_utf8_length(*text), c = length == 1 ? **text : -1;
    *text += length ? length : 1;
    return c;
}

void tl_draw_text_size(int64_t *height, int64_t *width, const char *text, int64_t scale)
{
    int64_t letters = 0;
    while (*text) {
        next_letter(&text);
        letters++;
    }
    *height = TLI_FONT_HEIGHT * scale;
    *width = letters ? (letters * (TLI_FONT_WIDTH + GAP) - GAP) * scale : 0;
}

static void draw_letter(const tl_pixels *p, int64_t y, int64_t x, uint64_t dots, tl_color color,
                        int64_t scale)
{
    enum { DOTS = TLI_FONT_WIDTH * TLI_FONT_HEIGHT };
    for (int i = 0; i < DOTS; i++) {
        int64_t top = y + i / TLI_FONT_WIDTH * scale, left = x + i % TLI_FONT_WIDTH * scale;
        if (dots >> (DOTS - 1 - i) & 1) fill(p, top, left, top + scale, left + scale, color);
    }
}

void tl_draw_text(const tl_pixels *p, int64_t y, int64_t x, const char *text, tl_color color,
                  int64_t scale)
{
    while (*text && x < p->width) {
        draw_letter(p, y, x, tli_font_letter(next_letter(&text)), color, scale);
        x += (TLI_FONT_WIDTH + GAP) * scale;
    }
}

// Black on bright colours, white on dark ones.
static tl_color ink_on(tl_color c)
{
    bool bright = 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue > 128;
    return bright ? (tl_color){0, 0, 0} : (tl_color){255, 255, 255};
}

/* Large enough to be read in large pictures, which are looked at as a whole. */
static int64_t scale_for(const tl_pixels *p)
{
    enum { SIDE = 400 };
    return 1 + tl_min_i64(p->height, p->width) / SIDE;
}

// Above the frame, or inside of it where there is no room; within the picture, if that is large.
static void draw_label(const tl_pixels *p, int64_t top, int64_t left, const char *text,
                       tl_color color)
{
    int64_t scale = scale_for(p), margin = MARGIN * scale, height, width;
    tl_draw_text_size(&height, &width, text, scale);
    height += 2 * margin;
    width += 2 * margin;
    int64_t y = top - height >= 0 ? top - height : tl_max_i64(top, 0);
    int64_t x = tl_max_i64(tl_min_i64(left, p->width - width), 0);
    y = tl_max_i64(tl_min_i64(y, p->height - height), 0);
    fill(p, y, x, y + height, x + width, color);
    // Few letters go below the line: a dot less above makes the others stand in the middle.
    tl_draw_text(p, y + margin + scale / 2, x + margin, text, ink_on(color), scale);
}

void tl_draw_box(const tl_pixels *p, const double box[4], tl_color color, const char *text)
{
    enum { HALF = THICKNESS / 2 };
    TL_ASSERT(p->dtype == TL_U8 && p->channels == 3);
    int64_t top = edge_at(box[0], p->height), left = edge_at(box[1], p->width);
    int64_t bottom = edge_at(box[2], p->height), right = edge_at(box[3], p->width);
    fill(p, top - HALF, left - HALF, top + HALF, right + HALF, color);
    fill(p, bottom - HALF, left - HALF, bottom + HALF, right + HALF, color);
    fill(p, top - HALF, left - HALF, bottom + HALF, left + HALF, color);
    fill(p, top - HALF, right - HALF, bottom + HALF, right + HALF, color);
    if (text && *text) draw_label(p, top - HALF, left - HALF, text, color);
}

/* --- areas ------------------------------------------------------------------------------------ */

static uint8_t blend(uint8_t under, uint8_t over, double alpha)
{
    return (uint8_t)(under * (1 - alpha) + over * alpha + 0.5);
}

static void blend_pixel(const tl_pixels *p, int64_t y, int64_t x, tl_color color, double alpha)
{
    uint8_t *at = (uint8_t *)p->data + y * p->stride + x * 3;
    put(p, y, x,
        (tl_color){blend(at[0], color.red, alpha), blend(at[1], color.green, alpha),
                   blend(at[2], color.blue, alpha)});
}

void tl_draw_mask(const tl_pixels *p, const uint8_t *mask, tl_color color, double alpha)
{
    TL_ASSERT(p->dtype == TL_U8 && p->channels == 3);
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++)
            if (mask[y * p->width + x]) blend_pixel(p, y, x, color, alpha);
}

void tl_draw_classes(const tl_pixels *p, const uint8_t *classes, int64_t ignored, double alpha)
{
    TL_ASSERT(p->dtype == TL_U8 && p->channels == 3);
    for (int64_t y = 0; y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++) {
            uint8_t class_number = classes[y * p->width + x];
            if (class_number != ignored) blend_pixel(p, y, x, tl_draw_color(class_number), alpha);
        }
}
