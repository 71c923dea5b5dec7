#include "zoo/inner/shapes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/status.h>
#include <tilth/base/rng.h>

enum { SIDE = TLI_SHAPES_SIDE, PIXELS = TLI_SHAPES_PIXELS };

const char *const tli_shape_names[] = {"background", "circle", "square", "triangle",
                                       "cross",      "ring",   "star",   "crescent",
                                       "half",       "arrow",  "corner"};

/* A shape before it is drawn. Only sums, products and quotients are taken of random numbers, which
 * are the same everywhere; sines are not. */
typedef struct plan {
    int32_t class;
    double y, x, radius;
    double cosine, sine;
    uint8_t color[3];
} plan;

static double between(tl_rng *rng, double low, double high)
{
    return low + (high - low) * tl_rng_uniform_f64(rng);
}

/* --- where a shape is ------------------------------------------------------------------------- */

static bool in_triangle(double u, double v)
{
    const double half_root_3 = 0.86602540378443865;
    return v >= -0.5 && half_root_3 * u + 0.5 * v <= 0.5 && -half_root_3 * u + 0.5 * v <= 0.5;
}

static bool in_cross(double u, double v)
{
    const double arm = 0.3;
    return (fabs(u) <= arm && fabs(v) <= 1) || (fabs(v) <= arm && fabs(u) <= 1);
}

/* Five lines bound a pentagon, and beyond one of them alone lies a point of the star. */
static bool in_star(double u, double v)
{
    static const double normals[5][2] = {{0, -1},
                                         {0.95105651629515357, -0.30901699437494742},
                                         {0.58778525229247313, 0.80901699437494742},
                                         {-0.58778525229247313, 0.80901699437494742},
                                         {-0.95105651629515357, -0.30901699437494742}};
    const double inner = 0.30901699437494742;
    int beyond = 0;
    for (int i = 0; i < 5; i++) beyond += normals[i][0] * u + normals[i][1] * v > inner;
    return beyond <= 1;
}

static bool in_crescent(double u, double v)
{
    const double off = u - 0.5;
    return u * u + v * v <= 1 && off * off + v * v >= 0.64;
}

static bool in_arrow(double u, double v)
{
    return (fabs(u) <= 0.25 && v >= -1 && v <= 0) || (v >= 0 && fabs(u) <= 0.8 * (1 - v));
}

static bool in_corner(double u, double v)
{
    return fabs(u) <= 0.8 && fabs(v) <= 0.8 && (u <= -0.3 || v <= -0.3);
}

/* Of a shape of radius 1 around 0, upright. */
static bool is_inside(int32_t class, double u, double v)
{
    double squared = u * u + v * v;
    switch (class) {
    case 1: return squared <= 1;
    case 2: return fabs(u) <= 0.8 && fabs(v) <= 0.8;
    case 3: return in_triangle(u, v);
    case 4: return in_cross(u, v);
    case 5: return squared <= 1 && squared >= 0.3;
    case 6: return in_star(u, v);
    case 7: return in_crescent(u, v);
    case 8: return squared <= 1 && v >= 0;
    case 9: return in_arrow(u, v);
    default: return in_corner(u, v);
    }
}

/* The first and the last pixel that a shape can reach. */
static int reach(double at, double radius, int direction)
{
    const double farthest = 1.2; // corners of a square are the farthest
    int pixel = (int)floor(at + direction * farthest * radius);
    return pixel < 0 ? 0 : pixel >= SIDE ? SIDE - 1 : pixel;
}

/* Pixels whose centres are inside; how many there are. */
static int64_t draw_mask(uint8_t *mask, const plan *p)
{
    int64_t count = 0;
    int bottom = reach(p->y, p->radius, 1), right = reach(p->x, p->radius, 1);
    memset(mask, 0, PIXELS);
    for (int y = reach(p->y, p->radius, -1); y <= bottom; y++)
        for (int x = reach(p->x, p->radius, -1); x <= right; x++) {
            double dx = (x + 0.5 - p->x) / p->radius, dy = (y + 0.5 - p->y) / p->radius;
            double u = p->cosine * dx + p->sine * dy, v = p->cosine * dy - p->sine * dx;
            bool inside = is_inside(p->class, u, v);
            mask[y * SIDE + x] = inside;
            count += inside;
        }
    return count;
}

static void find_box(float box[4], const uint8_t *mask)
{
    int low_y = SIDE, low_x = SIDE, high_y = 0, high_x = 0;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            if (!mask[y * SIDE + x]) continue;
            if (y < low_y) low_y = y;
            if (x < low_x) low_x = x;
            if (y >= high_y) high_y = y + 1;
            if (x >= high_x) high_x = x + 1;
        }
    box[0] = (float)low_y;
    box[1] = (float)low_x;
    box[2] = (float)high_y;
    box[3] = (float)high_x;
}

/* --- one shape after the other ---------------------------------------------------------------- */

/* The angle is drawn by the tangent of its half. */
static void draw_plan(plan *p, const tli_shapes_args *args, tl_rng *rng)
{
    p->class = args->kinds[tl_rng_below(rng, args->kind_count)];
    p->radius = between(rng, 8, 20);
    p->y = between(rng, p->radius / 2, SIDE - p->radius / 2);
    p->x = between(rng, p->radius / 2, SIDE - p->radius / 2);
    double t = between(rng, -1, 1);
    p->cosine = (1 - t * t) / (1 + t * t);
    p->sine = 2 * t / (1 + t * t);
    for (int k = 0; k < 3; k++) p->color[k] = (uint8_t)tl_rng_below(rng, 256);
}

/* Whether half of each shape can still be seen with the new one on top. */
static bool leaves_others(const tli_shapes *s)
{
    const uint8_t *top = s->masks[s->count];
    for (int64_t i = 0; i < s->count; i++) {
        int64_t seen = 0;
        for (int k = 0; k < PIXELS; k++) {
            bool hidden = top[k] != 0;
            for (int64_t j = i + 1; j < s->count; j++) hidden |= s->masks[j][k] != 0;
            seen += s->masks[i][k] && !hidden;
        }
        if (2 * seen < s->areas[i]) return false;
    }
    return true;
}

/* The first always fits, so that there is one at least. */
static void add_shape(tli_shapes *s, plan *p, const tli_shapes_args *args, tl_rng *rng)
{
    enum { ATTEMPTS = 10 };
    for (int i = 0; i < ATTEMPTS; i++) {
        draw_plan(p, args, rng);
        s->areas[s->count] = draw_mask(s->masks[s->count], p);
        if (!leaves_others(s)) continue;
        s->classes[s->count] = p->class;
        find_box(s->boxes[s->count], s->masks[s->count]);
        s->count++;
        return;
    }
}

/* --- colours ---------------------------------------------------------------------------------- */

static uint8_t noisy(double value, uint32_t *noise, int reach)
{
    *noise = *noise * 1664525 + 1013904223;
    double v = value + (double)(*noise >> 24) / 255 * (2 * reach) - reach;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Clouds: colours at the corners of a grid, and between them what lies between. */
static void draw_background(uint8_t *pixels, tl_rng *rng)
{
    enum { CELLS = 6, CELL = SIDE / CELLS };
    double corners[CELLS + 1][CELLS + 1][3];
    for (int i = 0; i <= CELLS; i++)
        for (int j = 0; j <= CELLS; j++)
            for (int k = 0; k < 3; k++) corners[i][j][k] = between(rng, 60, 196);
    uint32_t noise = tl_rng_u32(rng);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int k = 0; k < 3; k++) {
                int i = y / CELL, j = x / CELL;
                double down = (double)(y % CELL) / CELL, right = (double)(x % CELL) / CELL;
                double above = corners[i][j][k] * (1 - right) + corners[i][j + 1][k] * right;
                double below =
                    corners[i + 1][j][k] * (1 - right) + corners[i + 1][j + 1][k] * right;
                pixels[(y * SIDE + x) * 3 + k] =
                    noisy(above * (1 - down) + below * down, &noise, 30);
            }
}

/* So far away from grey that it is seen. */
static void strengthen(uint8_t color[3])
{
    int strongest = 0;
    for (int k = 1; k < 3; k++)
        if (abs(color[k] - 128) > abs(color[strongest] - 128)) strongest = k;
    color[strongest] = color[strongest] < 128 ? 0 : 255;
}

static void paint(tli_shapes *s, plan *plans, tl_rng *rng)
{
    uint32_t noise = tl_rng_u32(rng);
    for (int64_t i = 0; i < s->count; i++) {
        strengthen(plans[i].color);
        for (int p = 0; p < PIXELS; p++) {
            if (!s->masks[i][p]) continue;
            s->labels[p] = (uint8_t)s->classes[i];
            for (int k = 0; k < 3; k++) s->pixels[p * 3 + k] = noisy(plans[i].color[k], &noise, 12);
        }
    }
}

void tli_shapes_make_of(tli_shapes *out, const tli_shapes_args *args, int64_t index)
{
    tl_rng rng;
    plan plans[TLI_SHAPES_MOST];
    TL_ASSERT(args->kind_count >= 1 && args->most >= 1 && args->most <= TLI_SHAPES_MOST);
    tl_rng_init(&rng, args->seed);
    tl_rng_fold(&rng, &rng, (uint64_t)index);
    out->count = 0;
    memset(out->labels, 0, sizeof out->labels);
    draw_background(out->pixels, &rng);
    int64_t wanted = 1 + tl_rng_below(&rng, args->most);
    for (int64_t i = 0; i < wanted; i++) add_shape(out, &plans[out->count], args, &rng);
    paint(out, plans, &rng);
}

void tli_shapes_make(tli_shapes *out, uint64_t seed, int64_t index)
{
    const tli_shapes_args args = {.seed = seed,
                                  .most = TLI_SHAPES_MOST,
                                  .kinds = {1, 2, 3, 4, 5},
                                  .kind_count = TLI_SHAPES_KINDS};
    tli_shapes_make_of(out, &args, index);
}
