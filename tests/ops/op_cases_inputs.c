#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tilth/base/rng.h>
#include <tilth/ops/create.h>

#include "core/inner/half.h"
#include "core/inner/storage.h"
#include "core/inner/tensor.h"
#include "op_cases_impl.h"

/* --- memory ----------------------------------------------------------------------------------- */

struct oc_block {
    oc_block *before;
    _Alignas(max_align_t) char data[];
};

void *oc_take(oc_memory *m, size_t bytes)
{
    oc_block *b = calloc(1, sizeof *b + bytes);
    if (!b) {
        fprintf(stderr, "op cases: out of memory\n");
        exit(2);
    }
    b->before = m->last;
    m->last = b;
    return b->data;
}

double *oc_doubles(oc_memory *m, int64_t count)
{
    return oc_take(m, (size_t)count * sizeof(double));
}

void oc_give_back(oc_memory *m)
{
    while (m->last) {
        oc_block *b = m->last;
        m->last = b->before;
        free(b);
    }
}

/* --- words ------------------------------------------------------------------------------------ */

static bool parse_shape(tl_shape *out, const char *text)
{
    *out = TL_SCALAR;
    if (strcmp(text, "-") == 0) return true;
    for (const char *p = text;; p++) {
        char *end;
        if (!isdigit((unsigned char)*p) || out->rank == TL_MAX_RANK) return false;
        out->dims[out->rank++] = strtoll(p, &end, 10);
        if (!*end) return true;
        if (*end != 'x') return false;
        p = end;
    }
}

static bool parse_type(oc_input *in, const char *word)
{
    static const struct {
        const char *word;
        tl_dtype dtype;
    } types[] = {{"f32", TL_F32}, {"bf16", TL_BF16}, {"f16", TL_F16}, {"f64", TL_F64},
                 {"i8", TL_I8},   {"i16", TL_I16},   {"i32", TL_I32}, {"i64", TL_I64},
                 {"u8", TL_U8},   {"bool", TL_BOOL}};
    for (size_t i = 0; i < TL_COUNT(types); i++) {
        if (strcmp(word, types[i].word) != 0) continue;
        in->dtype = types[i].dtype;
        in->is_float = tl_dtype_is_float(in->dtype);
        return true;
    }
    return false;
}

static bool parse_numbers(oc_input *in, const char *word)
{
    char rest;
    if (sscanf(word, "in(%lf,%lf)%c", &in->low, &in->high, &rest) == 2) {
        in->values = OC_IN;
        return in->low < in->high;
    }
    bool wide = strncmp(word, "int64<", 6) == 0;
    if (!wide && strncmp(word, "int<", 4) != 0) return false;
    if (sscanf(strchr(word, '<') + 1, "%lf%c", &in->high, &rest) != 1 || !(in->high >= 1))
        return false;
    in->values = OC_BELOW;
    // A fixed type may stand before: "i8:int<5".
    if (in->dtype == TL_DTYPE_COUNT) in->dtype = wide ? TL_I64 : TL_I32;
    in->is_float = tl_dtype_is_float(in->dtype);
    return true;
}

static bool parse_word(oc_input *in, const char *word)
{
    static const struct {
        const char *word;
        oc_values values;
    } plain[] = {{"positive", OC_POSITIVE}, {"unit", OC_UNIT}, {"distinct", OC_DISTINCT}};
    for (size_t i = 0; i < TL_COUNT(plain); i++) {
        if (strcmp(word, plain[i].word) != 0) continue;
        in->values = plain[i].values;
        return true;
    }
    if (strcmp(word, "const") == 0) return in->is_const = true;
    if (strcmp(word, "T") == 0 || strcmp(word, "S") == 0 || strcmp(word, "B") == 0
        || strcmp(word, "O") == 0) {
        in->layout = word[0];
        return true;
    }
    return parse_type(in, word) || parse_numbers(in, word);
}

bool oc_input_parse(oc_input *in, const char *text, char error[256])
{
    char copy[256], *at = copy;
    *in = (oc_input){.dtype = TL_DTYPE_COUNT, .is_float = true};
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) {
        snprintf(error, 256, "the input is longer than %d characters", (int)sizeof copy - 1);
        return false;
    }
    const char *shape = strsep(&at, ":");
    if (!parse_shape(&in->shape, shape)) {
        snprintf(error, 256, "'%.100s' is no shape; write 2x3, or - for a scalar", shape);
        return false;
    }
    while (at) {
        const char *word = strsep(&at, ":");
        if (word[0] == '=') {
            in->values = OC_LISTED;
            in->listed = text + (word + 1 - copy);
        } else if (!parse_word(in, word)) {
            snprintf(error, 256, "'%.100s' is no word of an input; op_cases.h lists them", word);
            return false;
        }
    }
    in->count = tl_shape_count(&in->shape);
    if (in->layout && in->shape.rank == 0) in->layout = 0; // a scalar has no axes
    return true;
}

/* --- values ----------------------------------------------------------------------------------- */

static double round_to_bf16(double x)
{
    return tli_from_bf16(tli_to_bf16((float)x));
}

static void stream_of(tl_rng *out, const char *row, const char *purpose, int position)
{
    tl_rng_init(out, 20);
    tl_rng_split(out, out, row);
    tl_rng_split(out, out, purpose);
    tl_rng_fold(out, out, (uint64_t)position);
}

static double normal(tl_rng *rng)
{
    double x = round_to_bf16(tl_rng_normal_f64(rng));
    return fabs(x) < 0x1p-5 ? copysign(0x1p-5 + fabs(x), x) : x;
}

void oc_weights(double *out, int64_t count, const char *row, const char *purpose, int position)
{
    tl_rng rng;
    stream_of(&rng, row, purpose, position);
    for (int64_t i = 0; i < count; i++) out[i] = round_to_bf16(normal(&rng));
}

// A grid without 0 and without pairs x, -x, as wide as its steps fit into bfloat16; many elements
// take the bfloat16 numbers from 1/4 on, one after the other.
static double distinct(int64_t i, int64_t n)
{
    if (n <= 120) {
        double step = 1;
        while ((double)n * step > 8 && step > 0x1p-4) step /= 2;
        return ((double)(i - n / 2) + 0.25) * step;
    }
    uint16_t from = tli_to_bf16(0.25f);
    double magnitude = tli_from_bf16((uint16_t)(from + i / 2));
    return i % 2 ? -magnitude : magnitude;
}

static void fill_distinct(oc_input *in, oc_memory *memory, tl_rng *rng)
{
    int64_t *order = oc_take(memory, (size_t)in->count * sizeof *order);
    tl_rng_permutation(rng, order, in->count);
    for (int64_t i = 0; i < in->count; i++)
        in->v[i] = in->is_float ? distinct(order[i], in->count) : (double)order[i];
}

static void fill_listed(oc_input *in)
{
    const char *at = in->listed;
    for (int64_t i = 0; i < in->count; i++) {
        char *end;
        while (*at == ' ' || *at == ',') at++;
        if (!*at || *at == ':') at = in->listed;
        in->v[i] = strtod(at, &end);
        at = end > at ? end : at + 1;
    }
}

static double uniform(const oc_input *in, tl_rng *rng)
{
    double x = in->low + (in->high - in->low) * tl_rng_uniform_f64(rng);
    if (!in->is_float) return floor(x);
    x = round_to_bf16(x);
    return x < in->low ? in->low : x > in->high ? in->high : x;
}

static double small_integer(tl_dtype dtype, tl_rng *rng)
{
    double x = (double)tl_rng_below(rng, 19);
    return dtype == TL_U8 ? x : dtype == TL_BOOL ? fmod(x, 2) : x - 9;
}

static double one_value(const oc_input *in, tl_rng *rng)
{
    switch (in->values) {
    case OC_POSITIVE: return round_to_bf16(fabs(normal(rng)) + 0.25);
    case OC_UNIT: return round_to_bf16(0.05 + 0.9 * tl_rng_uniform_f64(rng));
    case OC_IN: return uniform(in, rng);
    case OC_BELOW: return (double)tl_rng_below(rng, (int64_t)in->high);
    default: return in->is_float ? round_to_bf16(normal(rng)) : small_integer(in->dtype, rng);
    }
}

// With stride 0 along axis 0 there is only the first slice.
static void repeat_first_slice(oc_input *in)
{
    int64_t slice = in->shape.dims[0] ? in->count / in->shape.dims[0] : 0;
    for (int64_t i = slice; i < in->count; i++) in->v[i] = in->v[i - slice];
}

void oc_input_fill(oc_input *in, oc_memory *memory, const char *row, int position)
{
    tl_rng rng;
    stream_of(&rng, row, "input", position);
    in->v = oc_doubles(memory, in->count);
    if (in->values == OC_DISTINCT) fill_distinct(in, memory, &rng);
    else if (in->values == OC_LISTED) fill_listed(in);
    else
        for (int64_t i = 0; i < in->count; i++) in->v[i] = one_value(in, &rng);
    if (in->layout == 'B') repeat_first_slice(in);
}

/* --- tensors ---------------------------------------------------------------------------------- */

enum { LEAD = 3 }; /* elements before the first one of a view */

static int64_t view_strides(int64_t strides[TL_MAX_RANK], const oc_input *in)
{
    const tl_shape *s = &in->shape;
    int64_t step = 1;
    if (in->layout == 'T') {
        for (int d = 0; d < s->rank; d++) {
            strides[d] = step;
            step *= s->dims[d];
        }
        return step;
    }
    if (in->layout == 'S') step = 2;
    for (int d = s->rank - 1; d >= 0; d--) {
        bool repeated = in->layout == 'B' && d == 0;
        strides[d] = repeated ? 0 : step;
        if (!repeated) step *= s->dims[d];
    }
    return step;
}

static void scatter(double *to, const tl_shape *s, const int64_t *strides, const double *from)
{
    for (int64_t i = 0, n = tl_shape_count(s); i < n; i++) {
        int64_t at = 0, rest = i;
        for (int d = s->rank - 1; d >= 0; d--) {
            at += rest % s->dims[d] * strides[d];
            rest /= s->dims[d];
        }
        to[at] = from[i];
    }
}

tl_tensor *oc_input_tensor(tl_ctx *c, const oc_input *in, tl_dtype dtype, const double *elements,
                           bool plain)
{
    if (in->dtype != TL_DTYPE_COUNT) dtype = in->dtype;
    if (!elements) elements = in->v;
    if (plain || !in->layout) return tl_from_doubles(c, dtype, in->shape, elements);
    int64_t strides[TL_MAX_RANK] = {0};
    int64_t span = view_strides(strides, in) + LEAD;
    double *all = malloc((size_t)span * sizeof *all);
    if (!all) return NULL;
    for (int64_t i = 0; i < span; i++) all[i] = in->is_float ? NAN : 77;
    scatter(all + LEAD, &in->shape, strides, elements);
    tl_tensor *base = tl_from_doubles(c, dtype, TL_SHAPE(span), all);
    free(all);
    tl_tensor *view = base ? tl_ctx_header(c) : NULL;
    if (!view) return NULL;
    view->dtype = dtype;
    view->shape = in->shape;
    view->offset = LEAD;
    view->storage = base->storage;
    tli_storage_retain(view->storage);
    memcpy(view->strides, strides, sizeof view->strides);
    view->contiguous = tli_tensor_is_row_major(view);
    return view;
}
