#include <tilth/train/writers/storage.h>

#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>

enum { FIRST_CAPACITY = 64, FEW = 1024, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

typedef struct tl_history_item item;

void tl_history_init(tl_history *h, int64_t most)
{
    *h = (tl_history){.most = most > 0 ? most : TL_HISTORY_LENGTH};
}

void tl_history_deinit(tl_history *h)
{
    tl_free(h->items);
    *h = (tl_history){.most = h->most};
}

// Only while nothing was dropped, so the oldest is at the front.
static tl_status grow(tl_history *h)
{
    int64_t wider = h->capacity ? h->capacity * 2 : FIRST_CAPACITY;
    if (wider > h->most) wider = h->most;
    item *items = tl_realloc(h->items, (size_t)wider * sizeof *items);
    if (!items) return TL_FAIL_NOMEM((size_t)wider * sizeof *items);
    h->items = items;
    h->capacity = wider;
    return TL_OK;
}

tl_status tl_history_put(tl_history *h, double value, int64_t iteration)
{
    if (h->count == h->capacity && h->capacity < h->most) TL_TRY(grow(h));
    h->seen++;
    h->average += (value - h->average) / (double)h->seen;
    int64_t place = h->first + h->count;
    h->items[place < h->capacity ? place : place - h->capacity] = (item){value, iteration};
    if (h->count < h->capacity) h->count++;
    else h->first = h->first + 1 == h->capacity ? 0 : h->first + 1;
    return TL_OK;
}

static const item *at(const tl_history *h, int64_t index)
{
    TL_ASSERT(index >= 0 && index < h->count);
    int64_t place = h->first + index;
    return &h->items[place < h->capacity ? place : place - h->capacity];
}

int64_t tl_history_count(const tl_history *h)
{
    return h->count;
}

double tl_history_value(const tl_history *h, int64_t index)
{
    return at(h, index)->value;
}

int64_t tl_history_iteration(const tl_history *h, int64_t index)
{
    return at(h, index)->iteration;
}

double tl_history_latest(const tl_history *h)
{
    return h->count ? at(h, h->count - 1)->value : NAN;
}

double tl_history_global_average(const tl_history *h)
{
    return h->seen ? h->average : NAN;
}

// How many values a window has that reaches back from the newest.
static int64_t window_count(const tl_history *h, int64_t window)
{
    return window < h->count ? (window > 0 ? window : 0) : h->count;
}

double tl_history_average(const tl_history *h, int64_t window)
{
    int64_t n = window_count(h, window);
    double sum = 0;
    for (int64_t i = h->count - n; i < h->count; i++) sum += at(h, i)->value;
    return n ? sum / (double)n : NAN;
}

void tl_history_rewind(tl_history *h, int64_t keep_to)
{
    while (h->count && at(h, h->count - 1)->iteration > keep_to) {
        double value = tl_history_latest(h);
        h->count--;
        h->seen--;
        h->average = h->seen ? h->average - (value - h->average) / (double)h->seen : 0;
    }
    if (!h->count) h->first = 0;
    if (isfinite(h->average)) return;
    // One that was not finite has spoiled the average, and leaves with what is kept.
    h->average = 0;
    for (int64_t i = 0; i < h->count; i++)
        h->average += (at(h, i)->value - h->average) / (double)(i + 1);
    h->seen = h->count;
}

/* --- median ----------------------------------------------------------------------------------- */

// Numbers as integers that are ordered as they are.
static uint64_t key_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static double value_of(uint64_t key)
{
    uint64_t bits = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The value that has `rank` smaller ones before it among the last n, digit by digit from the top:
// it needs no memory, and so many passes for any values.
static double ranked(const tl_history *h, int64_t n, int64_t rank)
{
    uint64_t known = 0, mask = 0;
    for (int shift = 64 - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        int64_t counts[DIGITS] = {0};
        for (int64_t i = h->count - n; i < h->count; i++) {
            uint64_t key = key_of(at(h, i)->value);
            if ((key & mask) == known) counts[key >> shift & (DIGITS - 1)]++;
        }
        uint64_t digit = 0;
        while (rank >= counts[digit]) rank -= counts[digit++];
        known |= digit << shift;
        mask |= (uint64_t)(DIGITS - 1) << shift;
    }
    return value_of(known);
}

// The same for windows that fit on the stack, by parting around one of the values until the rank is
// alone: the usual case, and some ten times quicker. Smaller values end up before `rank`.
static double select_rank(double *values, int64_t n, int64_t rank)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        double a = values[low], b = values[low + (high - low) / 2], c = values[high];
        double pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (pivot < values[j]) j--;
            if (i > j) break;
            double kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
        if (rank <= j) high = j;
        else if (rank >= i) low = i;
        else break; // between the parts all are the pivot
    }
    return values[rank];
}

// False, and nothing else, when one of them is NaN.
static bool copy_window(double *out, const tl_history *h, int64_t n)
{
    bool good = true;
    int64_t i = 0;
    do { // there is at least one
        out[i] = at(h, h->count - n + i)->value;
        good &= out[i] == out[i];
    } while (++i < n);
    return good;
}

static double median_of_few(const tl_history *h, int64_t n)
{
    double values[FEW];
    if (!copy_window(values, h, n)) return NAN;
    double upper = select_rank(values, n, n / 2);
    if (n % 2) return upper;
    double lower = values[0];
    for (int64_t i = 1; i < n / 2; i++) lower = values[i] > lower ? values[i] : lower;
    return (lower + upper) / 2;
}

double tl_history_median(const tl_history *h, int64_t window)
{
    int64_t n = window_count(h, window);
    if (n <= 0) return NAN;
    if (n <= FEW) return median_of_few(h, n);
    for (int64_t i = h->count - n; i < h->count; i++)
        if (isnan(at(h, i)->value)) return NAN;
    double upper = ranked(h, n, n / 2);
    return n % 2 ? upper : (ranked(h, n, n / 2 - 1) + upper) / 2;
}
