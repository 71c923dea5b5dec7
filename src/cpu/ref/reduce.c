#include "cpu/ref/number.h"

// Element o of a result is made of the elements at kept.at + gone.at of the input.
typedef struct split {
    const tl_tensor *x, *y;
    tli_cursor kept, gone;
    int64_t results, together;
} split;

static split split_axes(const tl_node *n, tl_ints axes)
{
    split s = {.x = n->in[0],
               .y = n->out[0],
               .kept = tli_cursor_over(n->in[0], axes, false),
               .gone = tli_cursor_over(n->in[0], axes, true)};
    s.results = tl_shape_count(&s.kept.shape);
    s.together = tl_shape_count(&s.gone.shape);
    TL_ASSERT(s.results * s.together == tl_tensor_count(s.x) && s.results == tl_tensor_count(s.y));
    return s;
}

// The next of the elements that come together; they start again after the last.
static tli_number next(split *s)
{
    tli_number value = tli_number_get(s->x, s->kept.at + s->gone.at);
    tli_cursor_next(&s->gone);
    return value;
}

static double next_float(split *s)
{
    double value = tli_ref_get(s->x, s->kept.at + s->gone.at);
    tli_cursor_next(&s->gone);
    return value;
}

#define EACH_RESULT(s, o) for (int64_t o = 0; o < (s).results; o++, tli_cursor_next(&(s).kept))
#define EACH_OF(s, i) for (int64_t i = 0; i < (s).together; i++)

static tl_ints axes_of(const tl_node *n)
{
    return ((const tl_reduce_attr *)n->attr)->axes;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static tl_status sum_kernel(const tl_run *run, const tl_node *n)
{
    split s = split_axes(n, axes_of(n));
    (void)run;
    EACH_RESULT(s, o) {
        tli_number sum = tli_number_of(s.x, 0);
        EACH_OF(s, i) sum = tli_number_add(s.x, sum, next(&s));
        tli_number_set(s.y, o, sum);
    }
    return TL_OK;
}

static tl_status prod_kernel(const tl_run *run, const tl_node *n)
{
    split s = split_axes(n, axes_of(n));
    (void)run;
    EACH_RESULT(s, o) {
        tli_number product = tli_number_of(s.x, 1);
        EACH_OF(s, i) product = tli_number_mul(s.x, product, next(&s));
        tli_number_set(s.y, o, product);
    }
    return TL_OK;
}

static tl_status mean_kernel(const tl_run *run, const tl_node *n)
{
    split s = split_axes(n, axes_of(n));
    (void)run;
    EACH_RESULT(s, o) {
        double sum = 0;
        EACH_OF(s, i) sum += next_float(&s);
        tli_ref_set(s.y, o, sum / (double)s.together);
    }
    return TL_OK;
}

static tl_status variance_kernel(const tl_run *run, const tl_node *n)
{
    const tl_variance_attr *a = n->attr;
    split s = split_axes(n, a->axes);
    double divisor = (double)(s.together > a->correction ? s.together - a->correction : 0);
    (void)run;
    EACH_RESULT(s, o) {
        double sum = 0, squares = 0;
        EACH_OF(s, i) sum += next_float(&s);
        double mean = sum / (double)s.together;
        EACH_OF(s, i) {
            double distance = next_float(&s) - mean;
            squares += distance * distance;
        }
        tli_ref_set(s.y, o, squares / divisor);
    }
    return TL_OK;
}

static tl_status extreme(const tl_node *n, bool largest)
{
    split s = split_axes(n, axes_of(n));
    EACH_RESULT(s, o) {
        tli_number best = tli_number_of(s.x, 0);
        EACH_OF(s, i) {
            tli_number value = next(&s);
            if (i == 0 || tli_number_beats(s.x, value, best, largest)) best = value;
        }
        tli_number_set(s.y, o, best);
    }
    return TL_OK;
}

static tl_status max_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return extreme(n, true);
}

static tl_status min_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return extreme(n, false);
}

static tl_status logsumexp_kernel(const tl_run *run, const tl_node *n)
{
    split s = split_axes(n, axes_of(n));
    (void)run;
    EACH_RESULT(s, o) {
        double most = -INFINITY, sum = 0;
        EACH_OF(s, i) {
            double value = next_float(&s);
            if (isnan(value) || value > most) most = value;
        }
        // Infinite differences would be NaN; then the largest says it all.
        EACH_OF(s, i) sum += exp(next_float(&s) - most);
        tli_ref_set(s.y, o, isfinite(most) ? most + log(sum) : most);
    }
    return TL_OK;
}

/* --- truth ------------------------------------------------------------------------------------ */

// Whether any element is true (or, given false, false).
static tl_status find_truth(const tl_node *n, bool wanted)
{
    split s = split_axes(n, axes_of(n));
    EACH_RESULT(s, o) {
        bool found = false;
        EACH_OF(s, i) found |= (next_float(&s) != 0) == wanted;
        tli_ref_set_int(s.y, o, found == wanted);
    }
    return TL_OK;
}

static tl_status any_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return find_truth(n, true);
}

static tl_status all_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return find_truth(n, false);
}

/* --- along one axis --------------------------------------------------------------------------- */

static tl_status find_extreme(const tl_node *n, bool largest)
{
    const tl_arg_attr *a = n->attr;
    split s = split_axes(n, (tl_ints){&a->axis, 1});
    EACH_RESULT(s, o) {
        tli_number best = tli_number_of(s.x, 0);
        int64_t where = 0;
        EACH_OF(s, i) {
            tli_number value = next(&s);
            if (i && !tli_number_beats(s.x, value, best, largest)) continue;
            best = value;
            where = i;
        }
        tli_ref_set_int(s.y, o, where);
    }
    return TL_OK;
}

static tl_status argmax_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return find_extreme(n, true);
}

static tl_status argmin_kernel(const tl_run *run, const tl_node *n)
{
    (void)run;
    return find_extreme(n, false);
}

static tl_status cumsum_kernel(const tl_run *run, const tl_node *n)
{
    const tl_cumsum_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    tl_ints axis = {&a->axis, 1};
    tli_cursor from = tli_cursor_over(x, axis, false), to = tli_cursor_over(y, axis, false);
    int64_t length = x->shape.dims[a->axis];
    (void)run;
    for (int64_t o = 0, lines = tl_shape_count(&from.shape); o < lines; o++) {
        tli_number sum = tli_number_of(x, 0);
        for (int64_t i = 0; i < length; i++) {
            int64_t place = a->reverse ? length - 1 - i : i;
            tli_number value = tli_number_get(x, from.at + place * x->strides[a->axis]);
            tli_number with = tli_number_add(x, sum, value);
            tli_number_set(y, to.at + place * y->strides[a->axis], a->exclusive ? sum : with);
            sum = with;
        }
        tli_cursor_next(&from);
        tli_cursor_next(&to);
    }
    return TL_OK;
}

#define ROW(name) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, name##_kernel, TL_KERNEL_STRIDED)
static const tl_kernel rows[] = {
    ROW(sum),       ROW(prod), ROW(mean), ROW(variance), ROW(max),    ROW(min),
    ROW(logsumexp), ROW(any),  ROW(all),  ROW(argmax),   ROW(argmin), ROW(cumsum),
};
const tl_kernels tli_ref_reduce = {rows, TL_COUNT(rows)};
