/* Makes folders of pictures for tests/soak/images.sh.
 *
 *     images photos FOLDER [COUNT [SEED]]            boats, houses and trees, some broken or turned
 *     images clothes IMAGES LABELS FOLDER [COUNT]    an idx pair as PNG and JPEG, 28 to 200 pixels
 *
 * Photos differ in what is drawn alone: sizes, colours, places, grounds and light are drawn from
 * the same numbers for all classes. How well the mean colour of a picture tells its class is
 * printed: not much better than guessing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/tilth.h>

enum { CLASSES = 3, BROKEN = 4 /* kinds of them */, MOST_POINTS = 16 };
static const char *const class_names[CLASSES] = {"boat", "house", "tree"};

typedef struct color {
    double c[3];
} color;
typedef struct point {
    double x, y;
} point;
typedef struct canvas {
    int64_t width, height;
    float *pixels; /* 3 for each, 0 to 255 */
    tl_rng rng;
} canvas;
/* Where an object stands: points of it are given from -1 to 1, y downwards. */
typedef struct stand {
    double x, y, size, turn;
    bool mirror;
} stand;

static double between(tl_rng *rng, double low, double high)
{
    return low + (high - low) * tl_rng_uniform_f64(rng);
}

static color any_color(tl_rng *rng)
{
    return (color){{between(rng, 10, 245), between(rng, 10, 245), between(rng, 10, 245)}};
}

static double distance(color a, color b)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += (a.c[i] - b.c[i]) * (a.c[i] - b.c[i]);
    return sqrt(sum);
}

static color color_unlike(tl_rng *rng, color other)
{
    color c = any_color(rng);
    for (int i = 0; i < 20 && distance(c, other) < 110; i++) c = any_color(rng);
    return c;
}

static float *at(const canvas *c, int64_t x, int64_t y)
{
    return c->pixels + (y * c->width + x) * 3;
}

static color color_at(const canvas *c, double x, double y)
{
    int64_t i = (int64_t)fmin(fmax(x, 0), (double)c->width - 1),
            k = (int64_t)fmin(fmax(y, 0), (double)c->height - 1);
    const float *p = at(c, i, k);
    return (color){{p[0], p[1], p[2]}};
}

/* --- shapes ----------------------------------------------------------------------------------- */

static point placed(const stand *s, double x, double y)
{
    double u = (s->mirror ? -x : x) * s->size, v = y * s->size;
    return (point){s->x + u * cos(s->turn) - v * sin(s->turn),
                   s->y + u * sin(s->turn) + v * cos(s->turn)};
}

static bool is_inside(const point *p, int count, double x, double y)
{
    bool inside = false;
    for (int i = 0, k = count - 1; i < count; k = i++)
        if ((p[i].y > y) != (p[k].y > y)
            && x < (p[k].x - p[i].x) * (y - p[i].y) / (p[k].y - p[i].y) + p[i].x)
            inside = !inside;
    return inside;
}

/* A polygon, a little brighter to one side. */
static void fill(canvas *c, const point *p, int count, color ink)
{
    double top = p[0].y, bottom = top, left = p[0].x, right = left,
           lean = between(&c->rng, -0.2, 0.2);
    for (int i = 1; i < count; i++) {
        top = fmin(top, p[i].y), bottom = fmax(bottom, p[i].y);
        left = fmin(left, p[i].x), right = fmax(right, p[i].x);
    }
    for (int64_t y = (int64_t)fmax(top, 0); y < c->height && (double)y <= bottom; y++)
        for (int64_t x = (int64_t)fmax(left, 0); x < c->width && (double)x <= right; x++) {
            if (!is_inside(p, count, (double)x + 0.5, (double)y + 0.5)) continue;
            double light = 1 + lean * (((double)x - left) / (right - left + 1) - 0.5) * 2;
            for (int k = 0; k < 3; k++) at(c, x, y)[k] = (float)(ink.c[k] * light);
        }
}

static void fill_at(canvas *c, const stand *s, const point *shape, int count, color ink)
{
    point p[MOST_POINTS];
    for (int i = 0; i < count; i++) p[i] = placed(s, shape[i].x, shape[i].y);
    fill(c, p, count, ink);
}

static void box(canvas *c, const stand *s, double left, double top, double right, double bottom,
                color ink)
{
    const point p[] = {{left, top}, {right, top}, {right, bottom}, {left, bottom}};
    fill_at(c, s, p, 4, ink);
}

static void blob(canvas *c, const stand *s, double x, double y, double width, double height,
                 color ink)
{
    point p[MOST_POINTS];
    for (int i = 0; i < MOST_POINTS; i++) {
        double a = 2 * 3.14159265358979 * i / MOST_POINTS;
        p[i] = (point){x + width * cos(a), y + height * sin(a)};
    }
    fill_at(c, s, p, MOST_POINTS, ink);
}

/* --- what is shown ---------------------------------------------------------------------------- */

static void draw_boat(canvas *c, const stand *s, color ink)
{
    tl_rng *r = &c->rng;
    double deck = between(r, 0.35, 0.55), keel = between(r, 0.45, 0.75);
    const point hull[] = {{-1, deck}, {1, deck}, {keel, 0.9}, {-keel, 0.9}};
    double mast = between(r, -0.25, 0.25), top = between(r, -1, -0.75);
    const point main_sail[] = {{mast + 0.07, top + 0.05},
                               {mast + 0.07, deck - 0.1},
                               {mast + between(r, 0.5, 0.85), deck - 0.1}};
    const point jib[] = {{mast - 0.07, top + 0.25},
                         {mast - 0.07, deck - 0.1},
                         {mast - between(r, 0.4, 0.7), deck - 0.1}};
    color sail = color_unlike(r, ink);
    fill_at(c, s, hull, 4, ink);
    box(c, s, mast - 0.04, top, mast + 0.04, deck, any_color(r));
    fill_at(c, s, main_sail, 3, sail);
    if (tl_rng_below(r, 3)) fill_at(c, s, jib, 3, sail);
}

static void draw_house(canvas *c, const stand *s, color ink)
{
    tl_rng *r = &c->rng;
    double eaves = between(r, -0.35, 0), wide = between(r, 0.65, 0.9),
           ridge = between(r, -0.3, 0.3);
    const point roof[] = {
        {-wide - 0.1, eaves}, {ridge, between(r, -1, -0.75)}, {wide + 0.1, eaves}};
    color glass = color_unlike(r, ink), door = color_unlike(r, ink);
    box(c, s, -wide, eaves, wide, 0.95, ink);
    fill_at(c, s, roof, 3, color_unlike(r, ink));
    double x = between(r, -wide + 0.05, wide - 0.35);
    box(c, s, x, between(r, 0.35, 0.5), x + between(r, 0.22, 0.3), 0.95, door);
    int64_t windows = 2 + tl_rng_below(r, 3);
    for (int64_t i = 0; i < windows; i++) {
        double left = -wide + 0.1 + (2 * wide - 0.2) * (double)i / (double)windows;
        box(c, s, left, eaves + 0.12, left + between(r, 0.16, 0.24), eaves + 0.38, glass);
    }
}

static void draw_tree(canvas *c, const stand *s, color ink)
{
    tl_rng *r = &c->rng;
    double half = between(r, 0.07, 0.14), crown = between(r, -0.45, -0.2);
    box(c, s, -half, crown, half, 0.95, color_unlike(r, ink));
    int64_t leaves = 6 + tl_rng_below(r, 5);
    for (int64_t i = 0; i < leaves; i++) {
        color shade = ink;
        for (int k = 0; k < 3; k++) shade.c[k] *= between(r, 0.8, 1.15);
        blob(c, s, between(r, -0.45, 0.45), crown + between(r, -0.3, 0.35), between(r, 0.28, 0.5),
             between(r, 0.22, 0.4), shade);
    }
}

/* Smooth noise: heights of a coarse grid, and what lies between them. */
static void roughen(canvas *c, double strength, double cells)
{
    enum { SIDE = 24 };
    double grid[SIDE + 1][SIDE + 1];
    for (int i = 0; i <= SIDE; i++)
        for (int k = 0; k <= SIDE; k++) grid[i][k] = between(&c->rng, -strength, strength);
    for (int64_t y = 0; y < c->height; y++)
        for (int64_t x = 0; x < c->width; x++) {
            double v = fmin((double)y / (double)c->height * cells, SIDE - 0.001);
            double u = fmin((double)x / (double)c->width * cells, SIDE - 0.001);
            int i = (int)v, k = (int)u;
            double a = grid[i][k] + (grid[i][k + 1] - grid[i][k]) * (u - k);
            double b = grid[i + 1][k] + (grid[i + 1][k + 1] - grid[i + 1][k]) * (u - k);
            for (int n = 0; n < 3; n++) at(c, x, y)[n] += (float)(a + (b - a) * (v - i));
        }
}

static void draw_ground(canvas *c)
{
    tl_rng *r = &c->rng;
    color above = any_color(r), below = any_color(r), land = any_color(r);
    double horizon = between(r, 0.35, 0.85) * (double)c->height;
    for (int64_t y = 0; y < c->height; y++)
        for (int64_t x = 0; x < c->width; x++)
            for (int k = 0; k < 3; k++) {
                double t = (double)y / horizon;
                at(c, x, y)[k] =
                    (float)(t < 1 ? above.c[k] + (below.c[k] - above.c[k]) * t : land.c[k]);
            }
    roughen(c, between(r, 5, 35), between(r, 4, 23));
}

/* Things that mean nothing. */
static void draw_others(canvas *c, int64_t count)
{
    tl_rng *r = &c->rng;
    for (int64_t i = 0; i < count; i++) {
        double side = (double)(c->width < c->height ? c->width : c->height);
        stand s = {between(r, 0, (double)c->width), between(r, 0, (double)c->height),
                   between(r, 0.04, 0.14) * side, between(r, 0, 6.28), false};
        if (tl_rng_below(r, 2)) blob(c, &s, 0, 0, 1, between(r, 0.3, 1), any_color(r));
        else box(c, &s, -1, -between(r, 0.2, 1), 1, between(r, 0.2, 1), any_color(r));
    }
}

static void finish(canvas *c)
{
    tl_rng *r = &c->rng;
    double noise = between(r, 2, 12), light = between(r, 0.75, 1.2);
    for (int64_t i = 0; i < c->width * c->height * 3; i++)
        c->pixels[i] = (float)(c->pixels[i] * light) + (float)noise * tl_rng_normal_f32(r);
}

static void draw(canvas *c, int class_id)
{
    tl_rng *r = &c->rng;
    double side = (double)(c->width < c->height ? c->width : c->height),
           size = between(r, 0.28, 0.46) * side;
    stand s = {between(r, size, (double)c->width - size),
               between(r, size, (double)c->height - size), size, between(r, -0.25, 0.25),
               tl_rng_below(r, 2) == 1};
    draw_ground(c);
    draw_others(c, 1 + tl_rng_below(r, 5));
    color ink = color_unlike(r, color_at(c, s.x, s.y));
    if (class_id == 0) draw_boat(c, &s, ink);
    else if (class_id == 1) draw_house(c, &s, ink);
    else draw_tree(c, &s, ink);
    finish(c);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Bytes of a picture as a camera stores them that was held in one of eight ways: shown by
 * `orientation` it is upright again. */
static tl_status store(tl_image *out, const canvas *c, int orientation, int64_t channels)
{
    bool swap = orientation >= 5;
    TL_TRY(tl_image_resize_memory(out, swap ? c->width : c->height, swap ? c->height : c->width,
                                  channels));
    for (int64_t y = 0; y < out->height; y++)
        for (int64_t x = 0; x < out->width; x++) {
            int64_t u = swap ? y : x, v = swap ? x : y;
            if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7)
                u = c->width - 1 - u;
            if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8)
                v = c->height - 1 - v;
            const float *p = at(c, u, v);
            uint8_t *to = out->pixels + (y * out->width + x) * channels;
            float grey = 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
            for (int64_t k = 0; k < channels; k++)
                to[k] = (uint8_t)lrintf(fminf(fmaxf(channels == 1 ? grey : p[k], 0), 255));
        }
    return TL_OK;
}

/* The EXIF segment behind the first two bytes of a JPEG. */
static void add_orientation(tl_str *out, const tl_str *jpeg, int orientation)
{
    const char exif[] = {'\xff', '\xe1', 0, 34, 'E', 'x', 'i', 'f', 0, 0,
                         'M',    'M',    0, 42, 0,   0,   0,   8,   0, 1,
                         1,      18,     0, 3,  0,   0,   0,   1,   0, (char)orientation,
                         0,      0,      0, 0,  0,   0};
    tl_str_addn(out, jpeg->data, 2);
    tl_str_addn(out, exif, sizeof exif);
    tl_str_addn(out, jpeg->data + 2, jpeg->length - 2);
}

static tl_status encode(tl_str *out, const tl_image *image, bool png, int orientation, int quality)
{
    tl_png_image as_png = {image->width, image->height, image->channels, image->pixels};
    if (png) return tl_png_encode(out, &as_png);
    tl_str jpeg = TL_STR_INIT;
    tl_status st = tl_jpeg_encode(&jpeg, image, &(tl_jpeg_encode_args){.quality = quality});
    if (st == TL_OK && orientation > 1) add_orientation(out, &jpeg, orientation);
    else if (st == TL_OK) tl_str_addn(out, jpeg.data, jpeg.length);
    tl_str_deinit(&jpeg);
    return st == TL_OK ? tl_str_status(out) : st;
}

static tl_status write_in(const char *folder, const char *class_name, const char *name,
                          const void *data, size_t size)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    const char *in = tl_path_join(arena, folder, class_name),
               *path = in ? tl_path_join(arena, in, name) : NULL;
    tl_status st = path ? tl_mkdirs(in) : TL_ENOMEM;
    if (st == TL_OK) st = tl_file_write_atomic(path, data, size);
    tl_arena_free(&arena);
    return st;
}

/* A JPEG that is cut, an empty file, a text, a GIF. */
static tl_status write_broken(const char *folder, int kind, const tl_str *jpeg)
{
    const char *in = class_names[kind % CLASSES];
    if (kind == 0) return write_in(folder, in, "cut.jpg", jpeg->data, jpeg->length / 2);
    if (kind == 1) return write_in(folder, in, "empty.png", "", 0);
    if (kind == 2) return write_in(folder, in, "text.jpg", "this is no picture\n", 19);
    return write_in(folder, in, "moving.gif", "GIF89a\1\0\1\0\0\0\0;", 14);
}

/* --- photos ----------------------------------------------------------------------------------- */

typedef struct photo {
    color mean;
    int class_id;
} photo;

static color mean_of(const canvas *c)
{
    color sum = {{0, 0, 0}};
    int64_t count = c->width * c->height;
    for (int64_t i = 0; i < count * 3; i++)
        sum.c[i % 3] += fmin(fmax((double)c->pixels[i], 0), 255) / (double)count;
    return sum;
}

static tl_status make_photo(photo *out, const char *folder, int64_t index, uint64_t seed)
{
    static const int held[] = {1, 1, 1, 1, 1, 1, 3, 6, 8, 2};
    canvas c = {0};
    tl_image image = TL_IMAGE_INIT;
    tl_str file = TL_STR_INIT;
    char name[40];
    tl_rng_init(&c.rng, seed * 1000003 + (uint64_t)index);
    double shorter = exp(between(&c.rng, log(80), log(900))), ratio = between(&c.rng, 1, 1.34);
    bool upright = tl_rng_below(&c.rng, 2) == 1, png = tl_rng_below(&c.rng, 5) == 0;
    int orientation = png ? 1 : held[tl_rng_below(&c.rng, TL_COUNT(held))];
    int quality = (int)between(&c.rng, 60, 96);
    int64_t channels = tl_rng_below(&c.rng, 12) ? 3 : 1;
    c.width = (int64_t)(upright ? shorter : shorter * ratio);
    c.height = (int64_t)(upright ? shorter * ratio : shorter);
    c.pixels = tl_alloc((size_t)(c.width * c.height * 3) * sizeof *c.pixels);
    if (!c.pixels) return TL_FAIL_NOMEM(1);
    out->class_id = (int)(index % CLASSES);
    draw(&c, out->class_id);
    out->mean = mean_of(&c);
    snprintf(name, sizeof name, "IMG_%04lld%s", (long long)index,
             png         ? ".png"
             : index % 7 ? ".jpg"
                         : ".JPEG");
    tl_status st = store(&image, &c, orientation, channels);
    if (st == TL_OK) st = encode(&file, &image, png, orientation, quality);
    if (st == TL_OK)
        st = write_in(folder, class_names[out->class_id], name, file.data, file.length);
    for (int i = 0; i < BROKEN && index == 1 && st == TL_OK; i++)
        st = write_broken(folder, i, &file);
    tl_str_deinit(&file);
    tl_image_deinit(&image);
    tl_free(c.pixels);
    return st;
}

/* How often the class of the nearest other mean colour is the right one. */
static double told_by_color(const photo *photos, int64_t count)
{
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t nearest = -1;
        for (int64_t k = 0; k < count; k++)
            if (k != i
                && (nearest < 0
                    || distance(photos[i].mean, photos[k].mean)
                           < distance(photos[i].mean, photos[nearest].mean)))
                nearest = k;
        right += nearest >= 0 && photos[nearest].class_id == photos[i].class_id;
    }
    return (double)right / (double)count;
}

static tl_status make_photos(const char *folder, int64_t count, uint64_t seed)
{
    photo *photos = tl_alloc((size_t)count * sizeof *photos);
    tl_status st = photos ? TL_OK : TL_FAIL_NOMEM(1);
    for (int64_t i = 0; i < count && st == TL_OK; i++) st = make_photo(&photos[i], folder, i, seed);
    if (st == TL_OK)
        printf("%lld photos of %d classes; their mean colours tell %.2f of them\n",
               (long long)count, CLASSES, told_by_color(photos, count));
    tl_free(photos);
    return st;
}

/* --- clothes ---------------------------------------------------------------------------------- */

static tl_status make_garment(const char *folder, const uint8_t *pixels, int64_t side, int label,
                              int64_t index)
{
    char class_name[16], name[32];
    tl_image image = TL_IMAGE_INIT;
    tl_str file = TL_STR_INIT;
    tl_rng rng;
    tl_rng_init(&rng, (uint64_t)index);
    int64_t size = 28 + tl_rng_below(&rng, 173);
    bool png = tl_rng_below(&rng, 2) == 1;
    tl_pixels from = tl_pixels_new(TL_U8, side, side, 1, (void *)(uintptr_t)pixels);
    tl_status st = tl_image_resize_memory(&image, size, size, 1);
    tl_pixels to = tl_pixels_of(&image);
    if (st == TL_OK)
        st = tl_pixels_resize(&to, &from, &(tl_pixels_resize_args){.method = TL_PIXELS_BILINEAR},
                              NULL);
    if (st == TL_OK) st = encode(&file, &image, png, 1, (int)between(&rng, 60, 96));
    snprintf(class_name, sizeof class_name, "kind %d", label);
    snprintf(name, sizeof name, "%05lld%s", (long long)index, png ? ".png" : ".jpg");
    if (st == TL_OK) st = write_in(folder, class_name, name, file.data, file.length);
    tl_str_deinit(&file);
    tl_image_deinit(&image);
    return st;
}

static tl_status make_clothes(const char *images_path, const char *labels_path, const char *folder,
                              int64_t most)
{
    tl_idx images, labels;
    TL_TRY(tl_idx_open(&images, images_path));
    tl_status st = tl_idx_open(&labels, labels_path);
    int64_t count = images.shape.dims[0];
    if (most > 0 && most < count) count = most;
    for (int64_t i = 0; i < count && st == TL_OK; i++)
        st = make_garment(folder, tl_idx_item(&images, i), images.shape.dims[1],
                          *(const uint8_t *)tl_idx_item(&labels, i), i);
    if (st == TL_OK) printf("%lld pictures of clothes\n", (long long)count);
    tl_idx_close(&images);
    if (st == TL_OK) tl_idx_close(&labels);
    return st;
}

int main(int argc, char **argv)
{
    tl_status st;
    if (argc > 2 && strcmp(argv[1], "photos") == 0)
        st = make_photos(argv[2], argc > 3 ? atoll(argv[3]) : 600,
                         argc > 4 ? strtoull(argv[4], NULL, 10) : 1);
    else if (argc > 4 && strcmp(argv[1], "clothes") == 0)
        st = make_clothes(argv[2], argv[3], argv[4], argc > 5 ? atoll(argv[5]) : 0);
    else
        st = TL_FAIL(
            TL_EINVAL,
            "usage: images photos FOLDER [COUNT [SEED]], or clothes IMAGES LABELS FOLDER [COUNT]");
    if (st == TL_OK) return 0;
    fprintf(stderr, "images: %s\n", tl_error_message());
    return 1;
}
