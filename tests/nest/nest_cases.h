/* Nests for tests: made in few lines, computed in the plainest way, and run in all the others.
 *
 *     cases c;
 *     cases_init(&c);
 *     build *b = cases_add(&c, "gelu", 2, (const int64_t[]){5, 7});
 *     int x = load(b, TL_F32, (const int64_t[]){7, 1}, 0);
 *     store(b, op(b, TL_OP_gelu, TL_F32, &attr, 1, x), (const int64_t[]){7, 1}, 0);
 *     cases_check(&c);      // interpreted (1, 2, 7 threads) == compiled, and all near naive
 *     cases_deinit(&c);
 *
 * The plainest way: each term has an array over all points of the nest, in double or int64, and is
 * rounded to its type as the nest says. */
#ifndef TILTH_TESTS_NEST_CASES_H
#define TILTH_TESTS_NEST_CASES_H

#include "test.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/nest/gpu.h>
#include <tilth/sys/nest/interpret.h>
#include <tilth/sys/nest/print_c.h>
#include <unistd.h>

#include "core/inner/attr_numbers.h"
#include "core/inner/element.h"
#include "core/inner/half.h"
#include "cpu/ref/meaning.h"

enum { MOST_TERMS = 48, MOST_BUFFERS = 24, MOST_STORES = 12 };

typedef struct buffer {
    tl_dtype dtype;
    int64_t count;
    char *data; /* as the nest finds it */
    bool stored;
} buffer;

typedef struct build {
    char name[64];
    tl_nest nest;
    tl_term terms[MOST_TERMS];
    tl_nest_store stores[MOST_STORES];
    buffer buffers[MOST_BUFFERS];
    double tolerance; /* of results beside naive ones, relative to `scale` below */
    tl_nest_plan *plan;
    tl_gpu_walk *gpu; /* NULL: it cannot be walked there */
    uint64_t seed;
    double low, high; /* of numbers in buffers */
} build;

typedef struct cases {
    tl_arena *arena;
    build **all;
    int count, room;
} cases;

/* --- making ----------------------------------------------------------------------------------- */

static inline void cases_init(cases *c)
{
    memset(c, 0, sizeof *c);
    assert_ok(tl_arena_new(&c->arena));
}

static inline build *cases_add(cases *c, const char *name, int rank, const int64_t *dims)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 16;
        c->all = realloc(c->all, (size_t)c->room * sizeof *c->all);
        assert_non_null(c->all);
    }
    build *b = calloc(1, sizeof *b);
    assert_non_null(b);
    c->all[c->count++] = b;
    snprintf(b->name, sizeof b->name, "%s", name);
    b->nest.rank = rank;
    for (int i = 0; i < rank; i++) b->nest.dims[i] = dims[i];
    b->nest.terms = b->terms;
    b->nest.stores = b->stores;
    b->tolerance = 2e-6;
    b->seed = (uint64_t)c->count;
    b->low = -2;
    b->high = 2;
    return b;
}

static inline void cases_deinit(cases *c)
{
    for (int i = 0; i < c->count; i++) {
        for (int k = 0; k < MOST_BUFFERS; k++) free(c->all[i]->buffers[k].data);
        free(c->all[i]);
    }
    free(c->all);
    tl_arena_free(&c->arena);
}

static inline tl_access access_of(const build *b, int number, tl_dtype dtype,
                                  const int64_t *strides, int64_t offset)
{
    tl_access a = {.buffer = number, .dtype = dtype, .offset = offset};
    for (int i = 0; i < b->nest.rank; i++) a.strides[i] = strides[i];
    return a;
}

static inline int64_t access_end(const build *b, const tl_access *a)
{
    int64_t end = a->offset + 1;
    for (int i = 0; i < b->nest.rank; i++)
        if (a->strides[i] > 0 && b->nest.dims[i] > 0) end += a->strides[i] * (b->nest.dims[i] - 1);
    return end;
}

static inline int new_buffer(build *b, tl_dtype dtype)
{
    assert_true(b->nest.buffer_count < MOST_BUFFERS);
    b->buffers[b->nest.buffer_count].dtype = dtype;
    return b->nest.buffer_count++;
}

static inline tl_term *new_term(build *b, tl_term_kind kind, tl_dtype dtype)
{
    assert_true(b->nest.term_count < MOST_TERMS);
    tl_term *t = &b->terms[b->nest.term_count++];
    t->kind = kind;
    t->dtype = dtype;
    return t;
}

static inline int load_from(build *b, int number, tl_dtype dtype, const int64_t *strides,
                            int64_t offset)
{
    tl_term *t = new_term(b, TL_TERM_LOAD, dtype);
    t->from = access_of(b, number, dtype, strides, offset);
    const int64_t end = access_end(b, &t->from);
    if (end > b->buffers[number].count) b->buffers[number].count = end;
    return (int)(t - b->terms);
}

static inline int load(build *b, tl_dtype dtype, const int64_t *strides, int64_t offset)
{
    return load_from(b, new_buffer(b, dtype), dtype, strides, offset);
}

static inline int number(build *b, tl_dtype dtype, double value)
{
    tl_term *t = new_term(b, TL_TERM_NUMBER, dtype);
    t->number = value;
    return (int)(t - b->terms);
}

static inline int index_term(build *b, tl_dtype dtype, int axis, int64_t scale, int64_t shift)
{
    tl_term *t = new_term(b, TL_TERM_INDEX, dtype);
    t->axis = axis;
    t->scale = scale;
    t->shift = shift;
    return (int)(t - b->terms);
}

static inline int op(build *b, tl_op what, tl_dtype dtype, const void *attr, int inputs, ...)
{
    tl_term *t = new_term(b, TL_TERM_OP, dtype);
    va_list args;
    t->op = what;
    t->attr = attr;
    t->inputs = inputs;
    va_start(args, inputs);
    for (int i = 0; i < inputs; i++) t->in[i] = va_arg(args, int);
    va_end(args);
    return (int)(t - b->terms);
}

static inline int reduce(build *b, tl_op what, int in, uint32_t axes)
{
    tl_term *t = new_term(b, TL_TERM_REDUCE, b->terms[in].dtype);
    if (what == TL_OP_any || what == TL_OP_all) t->dtype = TL_BOOL;
    t->op = what;
    t->inputs = 1;
    t->in[0] = in;
    t->axes = axes;
    return (int)(t - b->terms);
}

static inline int store_to(build *b, int number, int term, const int64_t *strides, int64_t offset)
{
    assert_true(b->nest.store_count < MOST_STORES);
    tl_nest_store *s = &b->stores[b->nest.store_count++];
    s->term = term;
    s->to = access_of(b, number, b->terms[term].dtype, strides, offset);
    const int64_t end = access_end(b, &s->to);
    if (end > b->buffers[number].count) b->buffers[number].count = end;
    b->buffers[number].stored = true;
    return number;
}

static inline int store(build *b, int term, const int64_t *strides, int64_t offset)
{
    return store_to(b, new_buffer(b, b->terms[term].dtype), term, strides, offset);
}

/* A store of all a term varies over, row-major. */
static inline int store_all(build *b, int term)
{
    uint32_t varies[MOST_TERMS];
    int64_t strides[TL_MAX_RANK] = {0}, step = 1;
    tl_nest_variance(&b->nest, varies);
    for (int i = b->nest.rank - 1; i >= 0; i--)
        if (varies[term] >> i & 1) {
            strides[i] = step;
            step *= b->nest.dims[i] ? b->nest.dims[i] : 1;
        }
    return store(b, term, strides, 0);
}

/* Row-major strides of all axes in `axes`, 0 along others. */
static inline int load_all(build *b, tl_dtype dtype, uint32_t axes)
{
    int64_t strides[TL_MAX_RANK] = {0}, step = 1;
    for (int i = b->nest.rank - 1; i >= 0; i--)
        if (axes >> i & 1) {
            strides[i] = step;
            step *= b->nest.dims[i] ? b->nest.dims[i] : 1;
        }
    return load(b, dtype, strides, 0);
}

/* --- every row -------------------------------------------------------------------------------- */

static inline bool is_elementwise(tl_op what)
{
    return tl_op_class_of(what)->flags & TL_OP_ELEMENTWISE;
}

/* Attributes to try an elementwise op with, by those that its row names. */
static inline const void *attr_for(tl_op what, int variant)
{
    static const tl_affine_attr affine = {.scale = 3, .shift = -2};
    static const tl_clip_attr clip = {.low = -1, .high = 2};
    static const tl_alpha_attr alpha = {.alpha = 0.3};
    static const tl_gelu_attr gelu[] = {{.approximate = false}, {.approximate = true}};
    static const tl_cast_attr cast = {.dtype = TL_F32};
    static const void *const none = NULL;
    const void *found = NULL;
    switch (what) {
#define ATTR_none none
#define ATTR_affine &affine
#define ATTR_clip &clip
#define ATTR_alpha &alpha
#define ATTR_gelu &gelu[variant]
#define ATTR_cast &cast
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    case TL_OP_##op:                                                                               \
        found = ATTR_##attr;                                                                       \
        break;
#include <tilth/core/elementwise.def>
    default: break;
    }
    return found;
}

/* How many formulas its attributes choose among. */
static inline int variants_of(tl_op what)
{
    switch (what) {
// clang-format off
#define TL_EITHER(op, form, formula)                                                               \
    case TL_OP_##op: return 2;
// clang-format on
#include <tilth/core/elementwise.def>
    default: return 1;
    }
}

/* --- naive ------------------------------------------------------------------------------------ */

typedef struct number_pair { /* one value: floats in d, others in l */
    double d;
    int64_t l;
} value;

static inline value round_value(tl_dtype dtype, value v)
{
    char element[8];
    if (tl_dtype_is_float(dtype)) {
        tli_element_set(dtype, element, 0, v.d);
        v.d = tli_element_get(dtype, element, 0);
    } else if (dtype == TL_BOOL) {
        v.l = v.l != 0;
    } else {
        const int bits = 8 * (int)tl_dtype_size(dtype);
        v.l =
            dtype == TL_U8 ? (uint8_t)v.l : (int64_t)((uint64_t)v.l << (64 - bits)) >> (64 - bits);
    }
    return v;
}

static inline value get_value(tl_dtype dtype, const void *data, int64_t i)
{
    value v = {0, 0};
    if (tl_dtype_is_float(dtype)) v.d = tli_element_get(dtype, data, i);
    else
        v.l =
            dtype == TL_I64 ? ((const int64_t *)data)[i] : (int64_t)tli_element_get(dtype, data, i);
    return v;
}

/* What the op's row says of doubles. */
static inline double naive_float(const tl_term *t, double a, double b)
{
    static tli_meaning *const meanings[] = {
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient)                \
    [TL_OP_##op] = meaning_of_##op,
#include <tilth/core/elementwise.def>
    };
    double numbers[TLI_ATTR_NUMBERS];
    tli_attr_numbers(numbers, tl_op_class_of(t->op)->attr, t->attr);
    return meanings[t->op](a, b, numbers[0], numbers[1]);
}

static inline int64_t naive_int(const tl_term *t, int64_t a, int64_t b)
{
    const tl_affine_attr *two = t->attr;
    switch (t->op) {
    case TL_OP_add: return (int64_t)((uint64_t)a + (uint64_t)b);
    case TL_OP_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
    case TL_OP_mul: return (int64_t)((uint64_t)a * (uint64_t)b);
    case TL_OP_pow: {
        if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
        uint64_t p = 1;
        for (int64_t i = 0; i < b; i++) p *= (uint64_t)a;
        return (int64_t)p;
    }
    case TL_OP_minimum: return a < b ? a : b;
    case TL_OP_maximum: return a > b ? a : b;
    case TL_OP_floor_divide: {
        if (b == 0) return 0;
        if (b == -1) return (int64_t)(0 - (uint64_t)a);
        return a / b - (a % b != 0 && (a < 0) != (b < 0));
    }
    case TL_OP_mod: return b == 0 || b == -1 ? 0 : ((a % b) + b) % b;
    case TL_OP_affine:
        return (int64_t)((uint64_t)a * (uint64_t)(int64_t)two->scale
                         + (uint64_t)(int64_t)two->shift);
    case TL_OP_clip:
        return (double)a < two->scale   ? (int64_t)two->scale
               : (double)a > two->shift ? (int64_t)two->shift
                                        : a;
    case TL_OP_neg: return (int64_t)(0 - (uint64_t)a);
    case TL_OP_abs: return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case TL_OP_sign: return (a > 0) - (a < 0);
    case TL_OP_square: return (int64_t)((uint64_t)a * (uint64_t)a);
    case TL_OP_equal: return a == b;
    case TL_OP_not_equal: return a != b;
    case TL_OP_less: return a < b;
    case TL_OP_less_equal: return a <= b;
    case TL_OP_logical_and: return a && b;
    case TL_OP_logical_or: return a || b;
    case TL_OP_logical_xor: return (a != 0) != (b != 0);
    case TL_OP_logical_not: return !a;
    default: fail_msg("no naive %s of integers", tl_op_class_of(t->op)->name); return 0;
    }
}

static inline value naive_cast(tl_dtype from, tl_dtype to, value v)
{
    value out = {0, 0};
    if (tl_dtype_is_float(to)) {
        out.d = tl_dtype_is_float(from) ? v.d : (double)v.l;
    } else if (to == TL_BOOL) {
        out.l = tl_dtype_is_float(from) ? v.d != 0 : v.l != 0;
    } else if (!tl_dtype_is_float(from)) {
        out.l = v.l;
    } else {
        const int bits = 8 * (int)tl_dtype_size(to);
        const double high = ldexp(1, to == TL_U8 ? 8 : bits - 1), low = to == TL_U8 ? 0 : -high;
        out.l = v.d != v.d    ? 0
                : v.d <= low  ? (to == TL_U8 ? 0 : (int64_t)(~UINT64_C(0) << (bits - 1)))
                : v.d >= high ? (int64_t)(high == 0x1p63 ? INT64_MAX : (int64_t)high - 1)
                              : (int64_t)v.d;
    }
    return out;
}

static inline value naive_op(const build *b, const tl_term *t, const value *in)
{
    const tl_dtype from = b->terms[t->in[t->op == TL_OP_where]].dtype;
    const bool floats = tl_dtype_is_float(from);
    value out = {0, 0};
    if (t->op == TL_OP_where) return in[0].l ? in[1] : in[2];
    if (t->op == TL_OP_cast) return naive_cast(from, t->dtype, in[0]);
    if (floats && tl_op_class_of(t->op)->flags & TL_OP_TRUTH)
        out.l = naive_float(t, in[0].d, in[1].d) != 0;
    else if (floats) out.d = naive_float(t, in[0].d, in[1].d);
    else out.l = naive_int(t, in[0].l, in[1].l);
    return out;
}

static inline value naive_join(tl_op what, bool floats, value a, value x)
{
    switch (what) {
    case TL_OP_sum: a.d += x.d, a.l = (int64_t)((uint64_t)a.l + (uint64_t)x.l); break;
    case TL_OP_prod: a.d *= x.d, a.l = (int64_t)((uint64_t)a.l * (uint64_t)x.l); break;
    case TL_OP_max: a.d = a.d != a.d || a.d > x.d ? a.d : x.d, a.l = a.l > x.l ? a.l : x.l; break;
    case TL_OP_min: a.d = a.d != a.d || a.d < x.d ? a.d : x.d, a.l = a.l < x.l ? a.l : x.l; break;
    case TL_OP_any: a.l |= floats ? x.d != 0 : x.l != 0; break;
    default: a.l &= floats ? x.d != 0 : x.l != 0; break;
    }
    return a;
}

static inline value naive_start(tl_op what)
{
    switch (what) {
    case TL_OP_sum:
    case TL_OP_any: return (value){0, 0};
    case TL_OP_max: return (value){-INFINITY, INT64_MIN};
    case TL_OP_min: return (value){INFINITY, INT64_MAX};
    default: return (value){1, 1};
    }
}

static inline void index_of(const tl_nest *n, int64_t point, int64_t *index)
{
    for (int i = n->rank - 1; i >= 0; i--) {
        index[i] = point % n->dims[i];
        point /= n->dims[i];
    }
}

static inline int64_t point_of(const tl_nest *n, const int64_t *index)
{
    int64_t point = 0;
    for (int i = 0; i < n->rank; i++) point = point * n->dims[i] + index[i];
    return point;
}

static inline int64_t at_access(const tl_nest *n, const tl_access *a, const int64_t *index)
{
    int64_t at = a->offset;
    for (int i = 0; i < n->rank; i++) at += index[i] * a->strides[i];
    return at;
}

/* A space where no axis is empty: points of an empty reduction are not walked, others are needed.
 */
typedef struct naive {
    value *values[MOST_TERMS];
    double *scale[MOST_TERMS]; /* how large the numbers were that came together in each value */
    tl_nest space;
    int64_t points;
} naive;

static inline double size_of_value(value v)
{
    return fabs(v.d);
}

static inline void naive_reduce(const build *b, naive *v, int number, int64_t point)
{
    const tl_term *t = &b->terms[number];
    const bool floats = tl_dtype_is_float(b->terms[t->in[0]].dtype);
    int64_t index[TL_MAX_RANK], sizes[TL_MAX_RANK], count = 1;
    index_of(&v->space, point, index);
    for (int i = 0; i < b->nest.rank; i++)
        if (t->axes >> i & 1) index[i] = 0;
    const int64_t same = point_of(&v->space, index);
    if (same != point) { // it was computed there
        v->values[number][point] = v->values[number][same];
        v->scale[number][point] = v->scale[number][same];
        return;
    }
    for (int i = 0; i < b->nest.rank; i++) {
        sizes[i] = t->axes >> i & 1 ? b->nest.dims[i] : 1;
        count *= sizes[i];
    }
    value all = naive_start(t->op);
    double scale = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = k;
        for (int i = b->nest.rank - 1; i >= 0; i--)
            if (t->axes >> i & 1) {
                index[i] = rest % sizes[i];
                rest /= sizes[i];
            }
        const int64_t at = point_of(&v->space, index);
        all = naive_join(t->op, floats, all, v->values[t->in[0]][at]);
        const double s = v->scale[t->in[0]][at];
        scale = t->op == TL_OP_sum    ? scale + s
                : t->op == TL_OP_prod ? fabs(all.d) * 8
                                      : fmax(scale, s);
    }
    v->values[number][point] = round_value(t->dtype, all);
    v->scale[number][point] = fmax(scale, fabs(all.d));
}

static inline void naive_term(const build *b, naive *v, int number, int64_t point)
{
    const tl_term *t = &b->terms[number];
    int64_t index[TL_MAX_RANK];
    value *out = &v->values[number][point], in[3] = {{0, 0}, {0, 0}, {0, 0}};
    index_of(&v->space, point, index);
    double scale = 0;
    if (t->kind == TL_TERM_LOAD) {
        bool inside = true;
        for (int i = 0; i < b->nest.rank; i++)
            inside &= b->nest.dims[i] > 0 || t->from.strides[i] == 0;
        if (inside)
            *out = get_value(t->dtype, b->buffers[t->from.buffer].data,
                             at_access(&b->nest, &t->from, index));
    } else if (t->kind == TL_TERM_NUMBER) {
        int64_t element;
        tli_element_set(t->dtype, &element, 0, t->number);
        *out = get_value(t->dtype, &element, 0);
    } else if (t->kind == TL_TERM_INDEX) {
        *out = naive_cast(TL_I64, t->dtype, (value){0, t->shift + t->scale * index[t->axis]});
    } else if (t->kind == TL_TERM_OP) {
        for (int i = 0; i < t->inputs; i++) {
            in[i] = v->values[t->in[i]][point];
            scale = fmax(scale, v->scale[t->in[i]][point]);
        }
        *out = naive_op(b, t, in);
        // A small difference of large numbers is as inexact as these.
        if (t->op == TL_OP_mul || t->op == TL_OP_square)
            scale = v->scale[t->in[0]][point] * v->scale[t->in[t->inputs - 1]][point];
        if (t->op == TL_OP_div)
            scale = v->scale[t->in[0]][point] * v->scale[t->in[1]][point] / (in[1].d * in[1].d);
    }
    *out = round_value(t->dtype, *out);
    v->scale[number][point] = fmax(scale, size_of_value(*out));
}

/* Fills `out` (a copy of the buffers) as the nest says; `scales` are those of what is stored. */
static inline void run_naive(const build *b, char **out, double **scales)
{
    naive v = {.space = b->nest, .points = 1};
    for (int i = 0; i < b->nest.rank; i++) {
        if (v.space.dims[i] == 0) v.space.dims[i] = 1;
        v.points *= v.space.dims[i];
    }
    for (int t = 0; t < b->nest.term_count; t++) {
        v.values[t] = calloc((size_t)v.points, sizeof(value));
        v.scale[t] = calloc((size_t)v.points, sizeof(double));
        for (int64_t i = 0; i < v.points; i++) {
            if (b->terms[t].kind == TL_TERM_REDUCE) naive_reduce(b, &v, t, i);
            else naive_term(b, &v, t, i);
        }
    }
    uint32_t varies[MOST_TERMS];
    tl_nest_variance(&b->nest, varies);
    for (int s = 0; s < b->nest.store_count; s++) {
        const tl_nest_store *st = &b->stores[s];
        bool empty = false;
        for (int i = 0; i < b->nest.rank; i++)
            empty |= b->nest.dims[i] == 0 && varies[st->term] >> i & 1;
        for (int64_t i = 0; !empty && i < v.points; i++) {
            int64_t index[TL_MAX_RANK];
            index_of(&v.space, i, index);
            const int64_t at = at_access(&b->nest, &st->to, index);
            const value x = v.values[st->term][i];
            if (tl_dtype_is_float(st->to.dtype))
                tli_element_set(st->to.dtype, out[st->to.buffer], at, x.d);
            else if (st->to.dtype == TL_I64) ((int64_t *)out[st->to.buffer])[at] = x.l;
            else tli_element_set(st->to.dtype, out[st->to.buffer], at, (double)x.l);
            scales[st->to.buffer][at] = v.scale[st->term][i];
        }
    }
    for (int t = 0; t < b->nest.term_count; t++) {
        free(v.values[t]);
        free(v.scale[t]);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static inline void fill_buffers(build *b)
{
    tl_rng rng;
    tl_rng_init(&rng, b->seed);
    for (int i = 0; i < b->nest.buffer_count; i++) {
        buffer *m = &b->buffers[i];
        if (m->data) continue;
        m->data = malloc((size_t)(m->count + 1) * tl_dtype_size(m->dtype));
        assert_non_null(m->data);
        for (int64_t k = 0; k < m->count; k++) {
            double x = b->low + (b->high - b->low) * tl_rng_uniform_f64(&rng);
            if (!tl_dtype_is_float(m->dtype)) x = floor(x * 3);
            if (m->dtype == TL_U8) x = fabs(x);
            if (m->dtype == TL_BOOL) x = x > 0;
            tli_element_set(m->dtype, m->data, k, x);
        }
    }
}

/* Copies of all buffers, on which something runs; guard bytes stand behind each. */
enum { GUARD = 64 };
static inline void copy_buffers(const build *b, char **out)
{
    for (int i = 0; i < b->nest.buffer_count; i++) {
        const size_t bytes = (size_t)b->buffers[i].count * tl_dtype_size(b->buffers[i].dtype);
        out[i] = malloc(bytes + GUARD);
        assert_non_null(out[i]);
        memcpy(out[i], b->buffers[i].data, bytes);
        memset(out[i] + bytes, 0x5a, GUARD);
    }
}

static inline void free_buffers(const build *b, char **out)
{
    for (int i = 0; i < b->nest.buffer_count; i++) free(out[i]);
}

static inline void check_guards(const build *b, char **out, const char *how)
{
    for (int i = 0; i < b->nest.buffer_count; i++) {
        const size_t bytes = (size_t)b->buffers[i].count * tl_dtype_size(b->buffers[i].dtype);
        for (int k = 0; k < GUARD; k++)
            if (out[i][bytes + (size_t)k] != 0x5a)
                fail_msg("%s, %s: wrote behind buffer %d", b->name, how, i);
        if (!b->buffers[i].stored && memcmp(out[i], b->buffers[i].data, bytes) != 0)
            fail_msg("%s, %s: changed buffer %d", b->name, how, i);
    }
}

static inline void show_nest(const build *b)
{
    tl_str text = TL_STR_INIT;
    tl_nest_text(&b->nest, &text);
    print_error("%s\n%s", b->name, tl_str_text(&text));
    tl_str_deinit(&text);
}

/* The same bits, except those of NaNs. */
static inline void check_same(const build *b, char **a, char **c, const char *how)
{
    for (int i = 0; i < b->nest.buffer_count; i++) {
        const tl_dtype dtype = b->buffers[i].dtype;
        const size_t size = tl_dtype_size(dtype);
        for (int64_t k = 0; k < b->buffers[i].count; k++) {
            const char *x = a[i] + (size_t)k * size, *y = c[i] + (size_t)k * size;
            if (memcmp(x, y, size) == 0) continue;
            if (tl_dtype_is_float(dtype) && isnan(tli_element_get(dtype, x, 0))
                && isnan(tli_element_get(dtype, y, 0)))
                continue;
            show_nest(b);
            fail_msg("%s, %s: buffer %d, element %" PRId64 ": %.9g and %.9g differ", b->name, how,
                     i, k, tli_element_get(dtype, x, 0), tli_element_get(dtype, y, 0));
        }
    }
}

static inline double type_step(tl_dtype dtype)
{
    return dtype == TL_BF16 ? 0x1p-7 : dtype == TL_F16 ? 0x1p-10 : dtype == TL_F64 ? 1e-14 : 0;
}

/* Floats that lie near what the naive way gives; others that are the same. */
static inline void check_near(const build *b, char **got, char **wanted, double **scales)
{
    for (int i = 0; i < b->nest.buffer_count; i++) {
        const tl_dtype dtype = b->buffers[i].dtype;
        for (int64_t k = 0; b->buffers[i].stored && k < b->buffers[i].count; k++) {
            const double x = tli_element_get(dtype, got[i], k),
                         y = tli_element_get(dtype, wanted[i], k);
            const double unit = fmax(b->tolerance, type_step(dtype));
            if (x == y || (isnan(x) && isnan(y))) continue;
            if (tl_dtype_is_float(dtype) && fabs(x - y) <= unit * (scales[i][k] + 1e-30)) continue;
            show_nest(b);
            fail_msg("%s: buffer %d, element %" PRId64
                     ": %.9g is not near %.9g (numbers of size %g)",
                     b->name, i, k, x, y, scales[i][k]);
        }
    }
}

static inline void run_plan(const build *b, tl_nest_fn *compiled, char **out, tl_pool *pool)
{
    char *scratch =
        aligned_alloc(TL_NEST_ALIGNMENT, b->plan->walk.scratch_bytes + TL_NEST_ALIGNMENT
                                             - b->plan->walk.scratch_bytes % TL_NEST_ALIGNMENT);
    assert_non_null(scratch);
    memset(scratch, 0xff, b->plan->walk.scratch_bytes);
    copy_buffers(b, out);
    assert_ok(tl_nest_run(b->plan, compiled, (void *const *)out, scratch, pool));
    free(scratch);
}

static inline void check_numbers(const build *b, char **got)
{
    char *wanted[MOST_BUFFERS];
    double *scales[MOST_BUFFERS];
    copy_buffers(b, wanted);
    for (int i = 0; i < b->nest.buffer_count; i++)
        scales[i] = calloc((size_t)b->buffers[i].count + 1, sizeof(double));
    run_naive(b, wanted, scales);
    check_near(b, got, wanted, scales);
    for (int i = 0; i < b->nest.buffer_count; i++) free(scales[i]);
    free_buffers(b, wanted);
}

static inline void check_interpreted(build *b)
{
    char *first[MOST_BUFFERS], *other[MOST_BUFFERS];
    run_plan(b, NULL, first, NULL);
    check_guards(b, first, "interpreted");
    if (test_takes_unseen()) check_numbers(b, first);
    for (int i = 0; i < 2; i++) {
        tl_pool *pool;
        assert_ok(tl_pool_new(&pool, i ? 7 : 2));
        run_plan(b, NULL, other, pool);
        check_same(b, first, other, "on several threads");
        free_buffers(b, other);
        tl_pool_free(&pool);
    }
    free_buffers(b, first);
}

static inline bool have_program(const char *name)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    return system(command) == 0;
}

#if defined(__AVX2__)
#define TARGET_FLAGS "-mavx2 -mfma"
#elif defined(__x86_64__)
#define TARGET_FLAGS                                                                               \
    (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2") ? "-mavx2 -mfma" : "")
#else
#define TARGET_FLAGS ""
#endif

/* Compilers take long: one gets the cases of even numbers, the other those of odd ones, and in a
 * soak run both get all. */
static inline bool is_compiled(int number, int compiler)
{
    return number % 2 == compiler || test_takes_all();
}

/* A file of C as a loaded library; NULL when there is no such compiler. */
static inline void *compile_text(const tl_str *text, const char *compiler, const char *level)
{
    char folder[TEMPORARY_PATH], path[128], library[128], command[640];
    if (!have_program(compiler)) return NULL;
    assert_non_null(mkdtemp(temporary(folder, "tilth-nest")));
    snprintf(path, sizeof path, "%s/k.c", folder);
    snprintf(library, sizeof library, "%s/k.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(tl_str_text(text), file);
    fclose(file);
    snprintf(command, sizeof command,
             "%s -std=gnu17 %s -Wall -Wextra -Wno-unused-variable -Werror -ffp-contract=off "
             "-fno-math-errno "
             "-fno-trapping-math %s -fPIC -shared -o %s %s -lm",
             compiler, level, TARGET_FLAGS, library, path);
    if (system(command) != 0) fail_msg("%s", command);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail_msg("%s", dlerror());
    if (!getenv("TILTH_KEEP")) {
        unlink(path);
        unlink(library);
        rmdir(folder);
    }
    return handle;
}

/* One file, with functions named as cases are numbered, k0, k1 ... */
static inline void *compile_cases(const cases *c, int number, const char *compiler)
{
    tl_str text = TL_STR_INIT;
    tl_nest_print_c_head(&text);
    for (int i = 0; i < c->count; i++) {
        char name[32];
        if (!is_compiled(i, number)) continue;
        snprintf(name, sizeof name, "k%d", i);
        tl_nest_print_c(&text, c->all[i]->plan, name);
    }
    assert_ok(tl_str_status(&text));
    void *handle = compile_text(&text, compiler, "-O3");
    tl_str_deinit(&text);
    return handle;
}

static inline tl_nest_fn *case_function(void *handle, int number)
{
    char name[32];
    tl_nest_fn *fn;
    snprintf(name, sizeof name, "k%d", number);
    void *symbol = dlsym(handle, name);
    assert_non_null(symbol);
    memcpy(&fn, &symbol, sizeof fn);
    return fn;
}

static inline void check_compiled(const cases *c, int number)
{
    static const char *const compilers[] = {"gcc", "clang"};
    const char *compiler = compilers[number];
    void *handle = compile_cases(c, number, compiler);
    if (!handle) return;
    tl_pool *pool;
    assert_ok(tl_pool_new(&pool, 3));
    for (int i = 0; i < c->count; i++) {
        char *interpreted[MOST_BUFFERS], *compiled[MOST_BUFFERS];
        if (!is_compiled(i, number)) continue;
        tl_nest_fn *fn = case_function(handle, i);
        run_plan(c->all[i], NULL, interpreted, NULL);
        run_plan(c->all[i], fn, compiled, pool);
        check_guards(c->all[i], compiled, compiler);
        check_same(c->all[i], interpreted, compiled, compiler);
        free_buffers(c->all[i], interpreted);
        free_buffers(c->all[i], compiled);
    }
    tl_pool_free(&pool);
    dlclose(handle);
}

/* --- as on a GPU ------------------------------------------------------------------------------ */

/* The text of its kernels, as plain C. */
static inline void *compile_kernels(cases *c)
{
    tl_str text = TL_STR_INIT;
    tl_gpu_print_head(&text);
    for (int i = 0; i < c->count; i++) {
        char name[32];
        const tl_status st = tl_gpu_walk_new(&c->all[i]->gpu, c->arena, &c->all[i]->nest);
        if (st == TL_EUNSUPPORTED) continue;
        assert_ok(st);
        snprintf(name, sizeof name, "k%d", i);
        tl_gpu_print(&text, c->all[i]->gpu, name, true);
    }
    assert_ok(tl_str_status(&text));
    void *handle = compile_text(&text, "gcc", "-O1");
    tl_str_deinit(&text);
    return handle;
}

static inline bool has_sums(const tl_nest *n)
{
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_REDUCE) return true;
    return false;
}

/* Groups in any order: here from the last one to the first. */
static inline void run_kernels(const build *b, tl_nest_fn *fn, char **out)
{
    char *scratch = aligned_alloc(TL_NEST_ALIGNMENT, b->gpu->walk.scratch_bytes + TL_NEST_ALIGNMENT);
    assert_non_null(scratch);
    memset(scratch, 0xff, b->gpu->walk.scratch_bytes);
    copy_buffers(b, out);
    for (int phase = 0; phase < b->gpu->phase_count; phase++)
        for (int64_t g = b->gpu->phases[phase].groups - 1; g >= 0; g--)
            fn((void *const *)out, scratch, phase, g, g + 1);
    free(scratch);
}

/* Without sums the bits are those of the host; with them numbers are near the naive ones. */
static inline void check_kernels(cases *c)
{
    void *handle = compile_kernels(c);
    if (!handle) return;
    for (int i = 0; i < c->count; i++) {
        build *b = c->all[i];
        char *host[MOST_BUFFERS], *gpu[MOST_BUFFERS];
        if (!b->gpu) continue;
        run_kernels(b, case_function(handle, i), gpu);
        check_guards(b, gpu, "as on a GPU");
        if (has_sums(&b->nest)) {
            check_numbers(b, gpu);
        } else {
            run_plan(b, NULL, host, NULL);
            check_same(b, host, gpu, "as on a GPU");
            free_buffers(b, host);
        }
        free_buffers(b, gpu);
    }
    dlclose(handle);
}

static inline void cases_check(cases *c)
{
    for (int i = 0; i < c->count; i++) {
        build *b = c->all[i];
        fill_buffers(b);
        const tl_status st = tl_nest_plan_new(&b->plan, c->arena, &b->nest);
        if (st != TL_OK) show_nest(b);
        assert_ok(st);
        check_interpreted(b);
    }
    for (int i = 0; i < 2 && test_takes_unseen(); i++) check_compiled(c, i);
    if (test_takes_unseen()) check_kernels(c);
}

#endif
