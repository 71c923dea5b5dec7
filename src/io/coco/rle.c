#include <tilth/io/coco/rle.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/integer.h>

#include "io/coco/rle.h"

void tl_rle_deinit(tl_rle *mask)
{
    tl_free(mask->counts);
    *mask = (tl_rle)TL_RLE_INIT;
}

tl_status tli_rle_check_size(int64_t height, int64_t width)
{
    bool good = height >= 1 && width >= 1 && height <= TL_RLE_LONGEST && width <= TL_RLE_LONGEST
                && height * width <= INT32_MAX;
    if (good) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "a mask of %" PRId64 " x %" PRId64 " pixels: sides are from 1 to %d, and the "
                   "mask has at most %d pixels",
                   height, width, TL_RLE_LONGEST, INT32_MAX);
}

/* --- runs, while they are made ---------------------------------------------------------------- */

bool tli_runs_flip(tli_runs *r, int64_t place)
{
    uint32_t length = (uint32_t)(place - r->last);
    r->last = place;
    return TL_VEC_PUSH(r, length);
}

tl_status tli_runs_end(tl_rle *out, tli_runs *r, int64_t height, int64_t width)
{
    if ((r->last < height * width || !r->count) && !tli_runs_flip(r, height * width))
        return TL_ENOMEM;
    *out = (tl_rle){height, width, r->items, r->count};
    *r = (tli_runs){0};
    return TL_OK;
}

/* --- makers ----------------------------------------------------------------------------------- */

tl_status tl_rle_from_window(tl_rle *out, const uint8_t *pixels, int64_t window_height,
                             int64_t window_width, int64_t top, int64_t left, int64_t height,
                             int64_t width)
{
    tli_runs runs = {0};
    *out = (tl_rle)TL_RLE_INIT;
    TL_TRY(tli_rle_check_size(height, width));
    if (top < 0 || left < 0 || window_height < 0 || window_width < 0 || window_height > height - top
        || window_width > width - left)
        return TL_FAIL(TL_EINVAL,
                       "a window of %" PRId64 " x %" PRId64 " pixels at %" PRId64 ", %" PRId64
                       " does not lie inside a mask of %" PRId64 " x %" PRId64,
                       window_height, window_width, top, left, height, width);
    bool inside = false, good = true;
    for (int64_t x = 0; good && x < window_width; x++) {
        int64_t begin = (left + x) * height + top;
        for (int64_t y = 0; good && y < window_height; y++) {
            if ((pixels[y * window_width + x] != 0) == inside) continue;
            inside = !inside;
            good = tli_runs_flip(&runs, begin + y);
        }
        // Below the window, and above it in the next column, there are zeros.
        if (good && inside && window_height < height) {
            inside = false;
            good = tli_runs_flip(&runs, begin + window_height);
        }
    }
    // The last column of the window ends, the mask goes on.
    if (good && inside && left + window_width < width)
        good = tli_runs_flip(&runs, (left + window_width) * height);
    tl_status st = good ? tli_runs_end(out, &runs, height, width) : TL_ENOMEM;
    TL_VEC_FREE(&runs);
    return st;
}

tl_status tl_rle_from_pixels(tl_rle *out, const uint8_t *pixels, int64_t height, int64_t width)
{
    return tl_rle_from_window(out, pixels, height, width, 0, 0, height, width);
}

/* Lengths as they are read, until all pixels are spoken for. */
typedef struct reading {
    uint32_t *counts;
    int64_t count, room, pixels, left;
} reading;

static tl_status read_count(reading *r, int64_t length)
{
    if (length < 0 || length > r->left)
        return TL_FAIL(TL_EINVAL,
                       "run %" PRId64 " of the mask has the length %" PRId64 ", but %" PRId64
                       " of %" PRId64 " pixels are left",
                       r->count, length, r->left, r->pixels);
    TL_ASSERT(r->count < r->room);
    r->counts[r->count++] = (uint32_t)length;
    r->left -= length;
    return TL_OK;
}

static tl_status begin_reading(reading *r, size_t room, int64_t height, int64_t width)
{
    TL_TRY(tli_rle_check_size(height, width));
    *r = (reading){.room = (int64_t)room, .pixels = height * width, .left = height * width};
    if (room > SIZE_MAX / sizeof *r->counts) return TL_FAIL_NOMEM(room);
    r->counts = tl_alloc(room * sizeof *r->counts);
    return r->counts ? TL_OK : TL_FAIL_NOMEM(room * sizeof *r->counts);
}

static tl_status end_reading(tl_rle *out, reading *r, tl_status st, int64_t height, int64_t width)
{
    if (st == TL_OK && r->left)
        st = TL_FAIL(TL_EINVAL,
                     "the runs of the mask hold %" PRId64 " pixels, but %" PRId64 " x %" PRId64
                     " has %" PRId64,
                     r->pixels - r->left, height, width, r->pixels);
    if (st != TL_OK) tl_free(r->counts);
    else *out = (tl_rle){height, width, r->counts, r->count};
    return st;
}

tl_status tl_rle_from_counts(tl_rle *out, const int64_t *counts, int64_t count, int64_t height,
                             int64_t width)
{
    reading r;
    tl_status st = TL_OK;
    *out = (tl_rle)TL_RLE_INIT;
    TL_TRY(begin_reading(&r, (size_t)count, height, width));
    for (int64_t i = 0; st == TL_OK && i < count; i++) st = read_count(&r, counts[i]);
    return end_reading(out, &r, st, height, width);
}

/* A number at the begin of a text: how many characters it has; 0 when it is none. */
static size_t read_number(int64_t *out, const char *text, size_t length)
{
    enum { MOST = 7 }; // 35 bits: a length, or the difference of two, has 32 with its sign
    int64_t value = 0;
    for (size_t i = 0; i < length && i < MOST; i++) {
        int64_t c = (unsigned char)text[i] - 48;
        if (c < 0 || c > 63) return 0;
        value |= (c & 31) << (5 * i);
        if (c & 32) continue;
        if (c & 16) value -= INT64_C(1) << (5 * (i + 1));
        *out = value;
        return i + 1;
    }
    return 0;
}

tl_status tl_rle_from_text(tl_rle *out, const char *text, size_t length, int64_t height,
                           int64_t width)
{
    reading r;
    tl_status st = TL_OK;
    *out = (tl_rle)TL_RLE_INIT;
    TL_TRY(begin_reading(&r, length, height, width));
    for (size_t at = 0; st == TL_OK && at < length;) {
        int64_t value = 0;
        size_t size = read_number(&value, text + at, length - at);
        if (!size) {
            st = TL_FAIL(TL_EINVAL, "the text of the mask is damaged at character %zu of %zu",
                         at + 1, length);
            break;
        }
        if (r.count > 2) value += r.counts[r.count - 2];
        st = read_count(&r, value);
        at += size;
    }
    return end_reading(out, &r, st, height, width);
}

/* --- what a mask says ------------------------------------------------------------------------- */

tl_status tl_rle_to_text(tl_str *out, const tl_rle *mask)
{
    for (int64_t i = 0; i < mask->count; i++) {
        int64_t value = mask->counts[i];
        if (i > 2) value -= mask->counts[i - 2];
        for (bool more = true; more;) {
            int64_t c = value & 31;
            value = (value - c) / 32;
            more = c & 16 ? value != -1 : value != 0;
            tl_str_addc(out, (char)((more ? c | 32 : c) + 48));
        }
    }
    return tl_str_status(out);
}

void tl_rle_to_pixels(uint8_t *pixels, const tl_rle *mask)
{
    int64_t at = 0;
    memset(pixels, 0, (size_t)(mask->height * mask->width));
    for (int64_t i = 0; i < mask->count; at += mask->counts[i++]) {
        if (i % 2 == 0) continue;
        int64_t x = at / mask->height, y = at % mask->height;
        for (int64_t left = mask->counts[i]; left > 0; left--) {
            pixels[y * mask->width + x] = 1;
            if (++y < mask->height) continue;
            y = 0;
            x++;
        }
    }
}

int64_t tl_rle_area(const tl_rle *mask)
{
    int64_t area = 0;
    for (int64_t i = 1; i < mask->count; i += 2) area += mask->counts[i];
    return area;
}

void tl_rle_box(double box[4], const tl_rle *mask)
{
    int64_t left = mask->width, right = -1, top = mask->height, bottom = -1, at = 0;
    for (int64_t i = 0; i + 1 < mask->count; i += 2) {
        int64_t first = at + mask->counts[i], last = first + mask->counts[i + 1] - 1;
        at = last + 1;
        if (last < first) continue;
        int64_t x0 = first / mask->height, x1 = last / mask->height;
        left = tl_min_i64(left, x0);
        right = tl_max_i64(right, x1);
        top = tl_min_i64(top, x0 < x1 ? 0 : first % mask->height);
        bottom = tl_max_i64(bottom, x0 < x1 ? mask->height - 1 : last % mask->height);
    }
    bool any = right >= left;
    box[0] = any ? (double)left : 0;
    box[1] = any ? (double)top : 0;
    box[2] = any ? (double)(right - left + 1) : 0;
    box[3] = any ? (double)(bottom - top + 1) : 0;
}

int64_t tl_rle_common(const tl_rle *a, const tl_rle *b)
{
    int64_t common = 0, i = 1, j = 1;
    if (a->count < 2 || b->count < 2) return 0;
    int64_t a_begin = a->counts[0], a_end = a_begin + a->counts[1];
    int64_t b_begin = b->counts[0], b_end = b_begin + b->counts[1];
    for (;;) {
        int64_t begin = tl_max_i64(a_begin, b_begin), end = tl_min_i64(a_end, b_end);
        if (begin < end) common += end - begin;
        // The run that ends first gives way to the next one of its mask.
        if (a_end <= b_end) {
            if ((i += 2) >= a->count) return common;
            a_begin = a_end + a->counts[i - 1];
            a_end = a_begin + a->counts[i];
        } else {
            if ((j += 2) >= b->count) return common;
            b_begin = b_end + b->counts[j - 1];
            b_end = b_begin + b->counts[j];
        }
    }
}

double tl_rle_iou(const tl_rle *detection, const tl_rle *truth, bool crowd)
{
    if (detection->height != truth->height || detection->width != truth->width) return -1;
    int64_t common = tl_rle_common(detection, truth), area = tl_rle_area(detection);
    if (!common) return 0;
    return (double)common / (double)(crowd ? area : area + tl_rle_area(truth) - common);
}
