#include "cpu/ref/ref.h"

#include <math.h>

#include "cpu/ref/meaning.h"

/* Every normalisation brings the items of a row together: a row has a mean and a deviation. The
 * input is seen as [outer, inner, groups, width]; a row is one of outer x groups. */
typedef struct rows {
    int64_t count, items;
    int64_t inner, groups, width;
    bool centered;
} rows;

static rows rows_of(const tl_node *n, const tl_tensor *x)
{
    const tl_norm_attr *a = n->attr;
    const int64_t *d = x->shape.dims;
    int rank = x->shape.rank;
    rows r = {.inner = 1, .groups = 1, .width = 1, .centered = true};
    int64_t outer = 1;
    switch (n->op->op) {
    case TL_OP_group_normalize:
    case TL_OP_group_normalize_grad:
        outer = d[0];
        for (int i = 1; i < rank - 1; i++) r.inner *= d[i];
        r.groups = a->groups;
        r.width = d[rank - 1] / a->groups;
        break;
    case TL_OP_batch_normalize:
    case TL_OP_batch_normalize_grad:
    case TL_OP_batch_norm_stats:
        for (int i = 0; i < rank - 1; i++) r.inner *= d[i];
        r.groups = d[rank - 1];
        break;
    default:
        for (int i = 0; i < rank - a->axes; i++) outer *= d[i];
        for (int i = rank - (int)a->axes; i < rank; i++) r.width *= d[i];
        r.centered = n->op->op != TL_OP_rms_normalize && n->op->op != TL_OP_rms_normalize_grad;
        break;
    }
    r.count = outer * r.groups;
    r.items = r.inner * r.width;
    TL_ASSERT(r.count * r.items == tl_tensor_count(x)); // every element belongs to one row
    return r;
}

// Where item i of row `row` lies, and its place in gamma and beta.
static int64_t item_at(const rows *r, int64_t row, int64_t i)
{
    int64_t outer = row / r->groups, group = row % r->groups;
    return ((outer * r->inner + i / r->width) * r->groups + group) * r->width + i % r->width;
}

static int64_t param_at(const rows *r, int64_t row, int64_t i)
{
    return row % r->groups * r->width + i % r->width;
}

static double mean_of(const rows *r, const tl_tensor *x, int64_t row)
{
    double sum = 0;
    for (int64_t i = 0; i < r->items; i++) sum += tli_ref_get(x, item_at(r, row, i));
    return sum / (double)r->items;
}

static double variance_of(const rows *r, const tl_tensor *x, int64_t row, double mean)
{
    double sum = 0;
    for (int64_t i = 0; i < r->items; i++) {
        double d = tli_ref_get(x, item_at(r, row, i)) - mean;
        sum += d * d;
    }
    return sum / (double)r->items;
}

/* --- forward --------------------------------------------------------------------------------- */

static tl_status normalize_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const tl_tensor *gamma = a->scaled ? n->in[1] : NULL,
                    *beta = a->shifted ? n->in[1 + a->scaled] : NULL,
                    *added = a->added ? n->in[n->inputs - 1] : NULL;
    rows r = rows_of(n, x);
    (void)run;
    for (int64_t row = 0; row < r.count; row++) {
        double mean = r.centered ? mean_of(&r, x, row) : 0,
               variance = variance_of(&r, x, row, mean);
        double rstd = 1 / sqrt(variance + a->epsilon);
        for (int64_t i = 0; i < r.items; i++) {
            int64_t at = item_at(&r, row, i), p = param_at(&r, row, i);
            double unit = (tli_ref_get(x, at) - mean) * rstd;
            const double z =
                (gamma ? unit * tli_ref_get(gamma, p) : unit) + (beta ? tli_ref_get(beta, p) : 0);
            const double sum = added ? z + tli_ref_get(added, at) : z;
            tli_ref_set(y, at, meaning_of_activation(a->activation, sum));
        }
        tli_ref_set(n->out[n->outputs - 1], row, rstd);
        if (r.centered) tli_ref_set(n->out[1], row, mean);
        if (n->outputs == 4) tli_ref_set(n->out[2], row, variance);
    }
    return TL_OK;
}

static tl_status batch_norm_stats_kernel(const tl_run *run, const tl_node *n)
{
    rows r = rows_of(n, n->in[0]);
    (void)run;
    for (int64_t row = 0; row < r.count; row++) {
        double mean = mean_of(&r, n->in[0], row);
        tli_ref_set(n->out[0], row, mean);
        tli_ref_set(n->out[1], row, variance_of(&r, n->in[0], row, mean));
    }
    return TL_OK;
}

/* --- gradients ------------------------------------------------------------------------------- */

typedef struct grad_call {
    const tl_tensor *gy, *x, *mean, *rstd, *gamma;
    const tl_tensor *beta; /* for the activation alone */
    tl_activation activation;
    rows r;
} grad_call;

static grad_call grad_call_of(const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    grad_call g = {
        .gy = n->in[0], .x = n->in[1], .activation = a->activation, .r = rows_of(n, n->in[1])};
    int at = 2;
    if (g.r.centered) g.mean = n->in[at++];
    g.rstd = n->in[at++];
    if (a->scaled) g.gamma = n->in[at++];
    if (a->activation && a->shifted) g.beta = n->in[at];
    return g;
}

static double unit_at(const grad_call *g, int64_t row, int64_t at)
{
    return (tli_ref_get(g->x, at) - (g->mean ? tli_ref_get(g->mean, row) : 0))
           * tli_ref_get(g->rstd, row);
}

// The gradient of an item before the activation, which saw a number of x's type.
static double gy_at(const grad_call *g, int64_t row, int64_t i)
{
    const int64_t at = item_at(&g->r, row, i), p = param_at(&g->r, row, i);
    const double gy = tli_ref_get(g->gy, at);
    if (g->activation == TL_ACT_NONE) return gy;
    const double unit = unit_at(g, row, at);
    const double z = (g->gamma ? unit * tli_ref_get(g->gamma, p) : unit)
                     + (g->beta ? tli_ref_get(g->beta, p) : 0);
    double room;
    tli_element_set(g->x->dtype, &room, 0, z);
    const double rounded = tli_element_get(g->x->dtype, &room, 0);
    return rounded > 0 && (g->activation == TL_ACT_RELU || rounded < 6) ? gy : 0;
}

// The same before gamma multiplied it.
static double gunit_at(const grad_call *g, int64_t row, int64_t i)
{
    const double gy = gy_at(g, row, i);
    return g->gamma ? gy * tli_ref_get(g->gamma, param_at(&g->r, row, i)) : gy;
}

static void input_grad(const grad_call *g, const tl_tensor *gx)
{
    const rows *r = &g->r;
    for (int64_t row = 0; row < r->count; row++) {
        double sum = 0, along = 0;
        for (int64_t i = 0; i < r->items; i++) {
            sum += gunit_at(g, row, i);
            along += gunit_at(g, row, i) * unit_at(g, row, item_at(r, row, i));
        }
        sum = r->centered ? sum / (double)r->items : 0;
        along /= (double)r->items;
        for (int64_t i = 0; i < r->items; i++) {
            int64_t at = item_at(r, row, i);
            double rest = gunit_at(g, row, i) - sum - unit_at(g, row, at) * along;
            tli_ref_set(gx, at, tli_ref_get(g->rstd, row) * rest);
        }
    }
}

// Of gamma or beta: parameter p of all rows of its group.
static void param_grad(const grad_call *g, const tl_tensor *out, bool of_gamma)
{
    const rows *r = &g->r;
    for (int64_t p = 0; p < r->groups * r->width; p++) {
        double sum = 0;
        for (int64_t row = p / r->width; row < r->count; row += r->groups) {
            for (int64_t i = p % r->width; i < r->items; i += r->width) {
                int64_t at = item_at(r, row, i);
                sum += gy_at(g, row, i) * (of_gamma ? unit_at(g, row, at) : 1);
            }
        }
        tli_ref_set(out, p, sum);
    }
}

static tl_status normalize_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    grad_call g = grad_call_of(n);
    (void)run;
    input_grad(&g, n->out[0]);
    if (a->scaled) param_grad(&g, n->out[1], true);
    if (a->shifted) param_grad(&g, n->out[2], false);
    return TL_OK;
}

/* --- given statistics ------------------------------------------------------------------------ */

static tl_status batch_norm_apply_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    const tl_tensor *x = n->in[0], *y = n->out[0];
    const tl_tensor *gamma = a->scaled ? n->in[3] : NULL,
                    *beta = a->shifted ? n->in[3 + a->scaled] : NULL;
    int64_t channels = x->shape.dims[x->shape.rank - 1];
    (void)run;
    for (int64_t i = 0, count = tl_tensor_count(x); i < count; i++) {
        int64_t k = i % channels;
        double rstd = 1 / sqrt(tli_ref_get(n->in[2], k) + a->epsilon);
        double unit = (tli_ref_get(x, i) - tli_ref_get(n->in[1], k)) * rstd;
        tli_ref_set(y, i,
                    (gamma ? unit * tli_ref_get(gamma, k) : unit)
                        + (beta ? tli_ref_get(beta, k) : 0));
    }
    return TL_OK;
}

static tl_status batch_norm_apply_grad_kernel(const tl_run *run, const tl_node *n)
{
    const tl_norm_attr *a = n->attr;
    const tl_tensor *gy = n->in[0], *x = n->in[1];
    int64_t channels = x->shape.dims[x->shape.rank - 1], count = tl_tensor_count(x);
    (void)run;
    for (int64_t k = 0; k < channels; k++) {
        double mean = tli_ref_get(n->in[2], k), inside = tli_ref_get(n->in[3], k) + a->epsilon;
        double rstd = 1 / sqrt(inside), gamma = a->scaled ? tli_ref_get(n->in[4], k) : 1;
        double sum = 0, along = 0;
        for (int64_t i = k; i < count; i += channels) {
            double g = tli_ref_get(gy, i);
            sum += g;
            along += g * (tli_ref_get(x, i) - mean);
            tli_ref_set(n->out[0], i, g * gamma * rstd);
        }
        tli_ref_set(n->out[1], k, -sum * gamma * rstd);
        tli_ref_set(n->out[2], k, -0.5 * along * gamma * rstd / inside);
        if (a->scaled) tli_ref_set(n->out[3], k, along * rstd);
        if (a->shifted) tli_ref_set(n->out[4], k, sum);
    }
    return TL_OK;
}

#define ROW(name, kernel) TL_INIT(TL_OP_##name, TL_DTYPE_COUNT, kernel##_kernel, 0)
static const tl_kernel table[] = {
    ROW(layer_normalize, normalize),
    ROW(layer_normalize_grad, normalize_grad),
    ROW(rms_normalize, normalize),
    ROW(rms_normalize_grad, normalize_grad),
    ROW(group_normalize, normalize),
    ROW(group_normalize_grad, normalize_grad),
    ROW(batch_normalize, normalize),
    ROW(batch_normalize_grad, normalize_grad),
    ROW(batch_norm_stats, batch_norm_stats),
    ROW(batch_norm_apply, batch_norm_apply),
    ROW(batch_norm_apply_grad, batch_norm_apply_grad),
};
const tl_kernels tli_ref_norm = {table, TL_COUNT(table)};
