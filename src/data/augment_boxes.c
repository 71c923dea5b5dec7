/* Boxes around objects, moved as their image is. */
#include <math.h>

#include <tilth/data/augment.h>

/* A whole number of pixels; what lies far outside is cut off anyway. */
static int32_t whole(float at)
{
    const float farthest = 1e8f;
    return (int32_t)fminf(fmaxf(at, -farthest), farthest);
}

static float cut(float share)
{
    return fminf(fmaxf(share, 0), 1);
}

static void put(float box[4], float low_y, float low_x, float high_y, float high_x)
{
    box[0] = cut(low_y);
    box[1] = cut(low_x);
    box[2] = cut(high_y);
    box[3] = cut(high_x);
}

/* The corners of a box, which become whole pixels after they have moved; around them the new
 * box. */
typedef struct corners {
    float y[4], x[4];
} corners;

static corners corners_of(int32_t low_y, int32_t low_x, int32_t high_y, int32_t high_x)
{
    float a = (float)low_y, b = (float)high_y, c = (float)low_x, d = (float)high_x;
    return (corners){{a, a, b, b}, {c, d, c, d}};
}

static void span(float *low, float *high, const float at[4])
{
    *low = *high = (float)whole(at[0]);
    for (int k = 1; k < 4; k++) {
        float v = (float)whole(at[k]);
        *low = fminf(*low, v);
        *high = fmaxf(*high, v);
    }
}

void tl_image_boxes_rotate(tl_image_boxes boxes, int64_t height, int64_t width, double degrees)
{
    const double pi = 3.141592653589793;
    float angle = (float)(degrees * (pi / 180)), cosine = cosf(angle), sine = sinf(angle);
    float h = (float)height, w = (float)width, low_y, low_x, high_y, high_x;
    for (int64_t i = 0; i < boxes.count; i++) {
        float *box = boxes.items[i];
        // Around the middle, with y upwards.
        corners from = corners_of(-whole(h * (box[0] - 0.5f)), whole(w * (box[1] - 0.5f)),
                                  -whole(h * (box[2] - 0.5f)), whole(w * (box[3] - 0.5f)));
        corners to;
        for (int k = 0; k < 4; k++) {
            to.y[k] = cosine * from.y[k] + sine * from.x[k];
            to.x[k] = -sine * from.y[k] + cosine * from.x[k];
        }
        span(&low_y, &high_y, to.y);
        span(&low_x, &high_x, to.x);
        put(box, -(high_y / h - 0.5f), low_x / w + 0.5f, -(low_y / h - 0.5f), high_x / w + 0.5f);
    }
}

void tl_image_boxes_shear(tl_image_boxes boxes, int64_t height, int64_t width, double level,
                          bool horizontal)
{
    float by = (float)level, h = (float)height, w = (float)width, low_y, low_x, high_y, high_x;
    for (int64_t i = 0; i < boxes.count; i++) {
        float *box = boxes.items[i];
        corners at =
            corners_of(whole(h * box[0]), whole(w * box[1]), whole(h * box[2]), whole(w * box[3]));
        for (int k = 0; k < 4; k++) {
            if (horizontal) at.x[k] -= by * at.y[k];
            else at.y[k] -= by * at.x[k];
        }
        span(&low_y, &high_y, at.y);
        span(&low_x, &high_x, at.x);
        put(box, low_y / h, low_x / w, high_y / h, high_x / w);
    }
}

void tl_image_boxes_translate(tl_image_boxes boxes, int64_t height, int64_t width, double pixels,
                              bool horizontal)
{
    float h = (float)height, w = (float)width, by = (float)whole((float)pixels);
    float down = horizontal ? 0 : by, right = horizontal ? by : 0;
    for (int64_t i = 0; i < boxes.count; i++) {
        float *box = boxes.items[i];
        put(box, ((float)whole(h * box[0]) - down) / h, ((float)whole(w * box[1]) - right) / w,
            ((float)whole(h * box[2]) - down) / h, ((float)whole(w * box[3]) - right) / w);
    }
}

/* The share of a box that lies in a part of the image. */
static float share_inside(const float box[4], const float part[4])
{
    float height = fminf(box[2], part[2]) - fmaxf(box[0], part[0]);
    float width = fminf(box[3], part[3]) - fmaxf(box[1], part[1]);
    float area = (box[2] - box[0]) * (box[3] - box[1]);
    return area > 0 ? fmaxf(height, 0) * fmaxf(width, 0) / area : 0;
}

void tl_image_boxes_crop(tl_image_boxes boxes, int64_t height, int64_t width, tl_window window,
                         double least)
{
    float h = (float)height, w = (float)width;
    float top = (float)window.y, left = (float)window.x, new_h = (float)window.height,
          new_w = (float)window.width;
    const float part[4] = {top / h, left / w, (top + new_h) / h, (left + new_w) / w};
    for (int64_t i = 0; i < boxes.count; i++) {
        float *box = boxes.items[i];
        if (share_inside(box, part) < (float)least) put(box, 0, 0, 0, 0);
        else
            put(box, (box[0] * h - top) / new_h, (box[1] * w - left) / new_w,
                (box[2] * h - top) / new_h, (box[3] * w - left) / new_w);
    }
}
