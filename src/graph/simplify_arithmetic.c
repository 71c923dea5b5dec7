/* Arithmetic that can be left out, or done cheaper, bit for bit. What is not here is not exact: x +
 * 0 makes 0.0 of -0.0, and so do scales by 1, which add 0, and sums of one float, which begin at 0;
 * powers are computed by logarithms whatever the exponent is. */
#include <math.h>
#include <tilth/core/attrs.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

#include "graph/simplify.h"

// `x` where the call's result was: the same type and shape, without gaps, which views of it could
// not see over, and memory that nobody changes.
static tl_tensor *instead(const tl_graph *g, const tl_node *n, tl_tensor *x)
{
    const tl_tensor *y = n->out[0];
    if (x->dtype != y->dtype || !tl_shape_equal(&x->shape, &y->shape) || !x->contiguous)
        return NULL;
    return tli_is_output(g, y) || tli_is_written(g, y) || tli_is_written(g, x) ? NULL : x;
}

// As it was made: nobody writes it.
static bool was_made_by(const tl_graph *g, const tl_tensor *t, tl_op op)
{
    return t->node && t->node->op->op == op && !tli_is_written(g, t);
}

/* --- numbers that change nothing -------------------------------------------------------------- */

static bool is_zero(double number, tl_dtype dtype, bool negative)
{
    return number == 0 && (!tl_dtype_is_float(dtype) || !signbit(number) == !negative);
}

// Whether input `i` of a call may be this number without changing the other one.
static bool is_neutral(const tl_node *n, int i, double number)
{
    tl_dtype dtype = n->in[i]->dtype;
    switch (n->op->op) {
    case TL_OP_mul: return number == 1;
    case TL_OP_div: return i == 1 && number == 1;
    case TL_OP_floor_divide: return i == 1 && number == 1 && !tl_dtype_is_float(dtype);
    case TL_OP_add: return is_zero(number, dtype, true);
    case TL_OP_sub: return i == 1 && is_zero(number, dtype, false);
    case TL_OP_logical_and: return dtype == TL_BOOL && number != 0;
    case TL_OP_logical_or:
    case TL_OP_logical_xor: return dtype == TL_BOOL && number == 0;
    default: return false;
    }
}

static tl_tensor *drop_neutral(tl_graph *g, tl_node *n)
{
    double number;
    if (!tli_is_elementwise(n) || n->inputs != 2) return NULL;
    for (int i = 0; i < 2; i++) {
        if (!tli_is_number(g, n->in[i], &number) || !is_neutral(n, i, number)) continue;
        tl_tensor *x = instead(g, n, n->in[1 - i]);
        if (x) return x;
    }
    return NULL;
}

static tl_tensor *drop_affine(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_affine) return NULL;
    const tl_affine_attr *a = n->attr;
    return a->scale == 1 && is_zero(a->shift, n->in[0]->dtype, true) ? instead(g, n, n->in[0])
                                                                     : NULL;
}

// A product is cheaper than a quotient; by powers of 2 they are rounded alike.
static tl_tensor *multiply(tl_graph *g, tl_node *n)
{
    double number;
    int exponent;
    if (n->op->op != TL_OP_div || !tli_is_number(g, n->in[1], &number)) return NULL;
    if (fabs(frexp(number, &exponent)) != 0.5 || exponent < -8 || exponent > 10)
        return NULL; // fits float16
    tl_tensor *inverse = tl_full(g->ctx, n->in[1]->dtype, n->in[1]->shape, 1 / number);
    return inverse ? tl_mul(g->ctx, n->in[0], inverse) : NULL;
}

/* --- functions of themselves ------------------------------------------------------------------ */

// f(f(x)) is x.
static tl_tensor *drop_twice(tl_graph *g, tl_node *n)
{
    if (!(n->op->flags & TL_OP_INVOLUTION) || !was_made_by(g, n->in[0], n->op->op)) return NULL;
    return instead(g, n, n->in[0]->node->in[0]); // of another type when it was no truth value
}

// f(f(x)) is f(x).
static tl_tensor *drop_again(tl_graph *g, tl_node *n)
{
    if (!(n->op->flags & TL_OP_IDEMPOTENT) || !was_made_by(g, n->in[0], n->op->op)) return NULL;
    return instead(g, n, n->in[0]);
}

/* --- choices that are none -------------------------------------------------------------------- */

static tl_tensor *drop_choice(tl_graph *g, tl_node *n)
{
    double number;
    switch (n->op->op) {
    case TL_OP_maximum:
    case TL_OP_minimum: return n->in[0] == n->in[1] ? instead(g, n, n->in[0]) : NULL;
    case TL_OP_logical_and:
    case TL_OP_logical_or: return n->in[0] == n->in[1] ? instead(g, n, n->in[0]) : NULL;
    case TL_OP_where:
        if (n->in[1] == n->in[2]) return instead(g, n, n->in[1]);
        return tli_is_number(g, n->in[0], &number) ? instead(g, n, n->in[number != 0 ? 1 : 2])
                                                   : NULL;
    default: return NULL;
    }
}

// Over axes of 1. Sums of floats begin at 0.0 and are left.
static tl_tensor *drop_reduction(tl_graph *g, tl_node *n)
{
    tl_tensor *x = n->in[0], *y = n->out[0];
    switch (n->op->op) {
    case TL_OP_sum:
        if (tl_dtype_is_float(x->dtype)) return NULL;
        break;
    case TL_OP_prod:
    case TL_OP_max:
    case TL_OP_min:
    case TL_OP_any:
    case TL_OP_all: break;
    default: return NULL;
    }
    if (x->dtype != y->dtype || tl_tensor_count(x) != tl_tensor_count(y) || !x->contiguous
        || tli_is_output(g, y) || tli_is_written(g, y) || tli_is_written(g, x))
        return NULL;
    return tl_reshape(g->ctx, x, y->shape);
}

/* --- types ------------------------------------------------------------------------------------ */

// Digits of the numbers of a type, and the power of 2 that bounds them.
typedef struct range {
    int digits, exponent;
} range;

static range range_of(tl_dtype t)
{
    switch (t) {
    case TL_BOOL: return (range){1, 1};
    case TL_U8: return (range){8, 8};
    case TL_I8: return (range){7, 7};
    case TL_I16: return (range){15, 15};
    case TL_I32: return (range){31, 31};
    case TL_I64: return (range){63, 63};
    case TL_F16: return (range){11, 15};
    case TL_BF16: return (range){8, 127};
    case TL_F32: return (range){24, 127};
    case TL_F64: return (range){53, 1023};
    default: return (range){0, 0};
    }
}

// Whether all numbers of the type `inner` are numbers of `outer`.
static bool holds(tl_dtype outer, tl_dtype inner)
{
    range a = range_of(outer), b = range_of(inner);
    TL_ASSERT(a.digits && b.digits); // every type has a row
    if (outer == TL_BOOL || outer == TL_U8)
        return inner == outer || (inner == TL_BOOL && outer == TL_U8);
    if (tl_dtype_is_float(inner) && !tl_dtype_is_float(outer)) return false;
    return b.digits && a.digits >= b.digits && a.exponent >= b.exponent;
}

// A cast of what was widened is a cast of what was there before.
static tl_tensor *join_casts(tl_graph *g, tl_node *n)
{
    if (n->op->op != TL_OP_cast || !was_made_by(g, n->in[0], TL_OP_cast)) return NULL;
    tl_tensor *x = n->in[0]->node->in[0];
    if (!holds(n->in[0]->dtype, x->dtype)) return NULL;
    if (x->dtype == n->out[0]->dtype) return instead(g, n, x);
    if (tli_is_output(g, n->out[0]) || tli_is_written(g, n->out[0]) || tli_is_written(g, x))
        return NULL;
    return tl_cast(g->ctx, x, n->out[0]->dtype);
}

tli_rule *const tli_arithmetic_rules[] = {drop_neutral, drop_affine, drop_twice,
                                          drop_again,   drop_choice, drop_reduction,
                                          join_casts,   multiply,    NULL};
