/* Random programs of 5 to 60 ops, with gradients: captured, optimised and replayed, against the
 * same ops run one by one on the reference backend. TILTH_GRAPHS is how many are interpreted,
 * TILTH_COMPILED_GRAPHS how many of them are compiled as well (the soak asks for more), and
 * TILTH_GRAPH_SEED where they begin; a failure names its seed. With TILTH_DEVICE=shim they are made
 * of the kernels of a GPU (cuda/shim.h). runs: fake device */
#include "test.h"
#include "cuda/shim.h"
#include "engine.h"

#include <stdlib.h>
#include <tilth/base/alloc.h>
#include <tilth/base/rng.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/graph/function.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/norm.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/graph/graph.h>
#include <tilth/sys/graph/program.h>

enum {
    LEAVES = 4,
    MOST_TENSORS = 80,
    MOST_ELEMENTS = 4096,
    USUAL_GRAPHS = SANITIZED ? 250 : 1000,
    USUAL_COMPILED = 8
};

/* One program: what it does follows from its seed alone, so that it can be run twice. */
typedef struct recipe {
    uint64_t seed;
    tl_dtype dtype;
    tl_shape leaves[LEAVES];
    tl_tensor *state; /* changed in place */
} recipe;

typedef struct cook {
    tl_ctx *c;
    tl_rng rng;
    tl_tensor *pool[MOST_TENSORS];
    int64_t count;
} cook;

static int64_t below(cook *k, int64_t n)
{
    return tl_rng_below(&k->rng, n);
}

static tl_tensor *any(cook *k)
{
    return k->pool[below(k, k->count)];
}

// Rather the last ones: chains are what gets fused.
static tl_tensor *recent(cook *k)
{
    int64_t window = k->count < 4 ? k->count : 4;
    return below(k, 3) ? k->pool[k->count - 1 - below(k, window)] : any(k);
}

/* --- ops, each of values that stay near 1 ----------------------------------------------------- */

static tl_tensor *gelu_exact(tl_ctx *c, tl_tensor *x)
{
    return tl_gelu(c, x, false);
}

static tl_tensor *gelu_tanh(tl_ctx *c, tl_tensor *x)
{
    return tl_gelu(c, x, true);
}

static tl_tensor *some_leaky_relu(tl_ctx *c, tl_tensor *x)
{
    return tl_leaky_relu(c, x, 0.1);
}

static tl_tensor *some_elu(tl_ctx *c, tl_tensor *x)
{
    return tl_elu(c, x, 0.5);
}

static tl_tensor *some_affine(tl_ctx *c, tl_tensor *x)
{
    return tl_affine(c, x, 0.5, -0.25);
}

typedef struct smooth_op {
    tl_op op;
    tl_tensor *(*call)(tl_ctx *c, tl_tensor *x);
} smooth_op;

// Every row of one input that has a gradient, and those with numbers.
static const smooth_op smooth_ops[] = {
#define ROW_UNARY(op) {TL_OP_##op, tl_##op},
#define ROW_BINARY(op)
#define ROW_TEST(op)
#define ROW_COMPARE(op)
#define ROW_LOGIC(op)
#define ROW_NOT(op)
#define ROW_NUMBER(op) {TL_OP_##op, some_##op},
#define ROW_NUMBERS(op)
#define ROW_EITHER(op) {TL_OP_##op, op##_exact}, {TL_OP_##op, op##_tanh},
#define ROW_SLOPE(op)
#define ROW_SLOPE_EITHER(op)
#define ROW_WHERE(op)
#define ROW_CAST(op)
#define TL_ELEMENTWISE(op, form, kinds, attr, cost, flags, help, meaning, gradient) ROW_##form(op)
#include <tilth/core/elementwise.def>
    {TL_OP_affine, some_affine},
};

// What it is given where it would not stay near 1, or has no value.
static tl_tensor *tamed(tl_ctx *c, tl_op op, tl_tensor *x)
{
    switch (op) {
    case TL_OP_exp: return tl_clip(c, x, -3, 1);
    case TL_OP_expm1: return tl_clip(c, x, -2, 0.5);
    case TL_OP_square: return tl_clip(c, x, -1, 1);
    case TL_OP_log1p: return tl_square(c, x);
    case TL_OP_log:
    case TL_OP_reciprocal: return tl_shift(c, tl_square(c, x), 1);
    case TL_OP_sqrt: return tl_shift(c, tl_square(c, x), 0.5);
    case TL_OP_rsqrt: return tl_shift(c, tl_abs(c, x), 0.5);
    default: return x;
    }
}

static tl_tensor *smooth(cook *k, tl_tensor *x)
{
    const smooth_op *o;
    do o = &smooth_ops[below(k, TL_COUNT(smooth_ops))];
    while (tl_op_class_of(o->op)->flags & TL_OP_CONSTANT); // they jump
    return o->call(k->c, tamed(k->c, o->op, x));
}

// The second one in a shape that broadcasts to that of the first, or with it.
static tl_tensor *fitted(cook *k, const tl_tensor *like, tl_tensor *x)
{
    if (tl_shape_equal(&x->shape, &like->shape)) return x;
    tl_shape flat = TL_SHAPE(tl_tensor_count(x)), out;
    if (tl_shape_broadcast(&out, &x->shape, &like->shape) == TL_OK
        && tl_shape_count(&out) <= MOST_ELEMENTS)
        return x;
    tl_error_clear();
    x = tl_reshape(k->c, x, flat);
    int64_t last = like->shape.rank ? like->shape.dims[like->shape.rank - 1] : 1;
    if (tl_tensor_count(x) < last) return tl_mean(k->c, x, TL_ALL, false);
    return tl_slice(k->c, x, 0, 0, last, 1);
}

// Conditions on leaves: what is computed may differ in the last bit, and fall on the other side.
static tl_tensor *chosen(cook *k, tl_tensor *a, tl_tensor *b)
{
    tl_tensor *x = fitted(k, a, k->pool[0]);
    tl_shape out;
    if (!tl_shape_equal(&b->shape, &a->shape) || !x
        || tl_shape_broadcast(&out, &x->shape, &a->shape) != TL_OK
        || !tl_shape_equal(&out, &a->shape))
        return tl_maximum(k->c, a, b);
    return tl_where(k->c, tl_less(k->c, x, tl_number(k->c, a->dtype, 0.1)), a, b);
}

static tl_tensor *binary(cook *k, tl_tensor *a, tl_tensor *b)
{
    tl_ctx *c = k->c;
    b = fitted(k, a, b);
    switch (below(k, 7)) {
    case 0: return tl_scale(c, tl_add(c, a, b), 0.5);
    case 1: return tl_scale(c, tl_sub(c, a, b), 0.5);
    case 2: return tl_mul(c, a, tl_tanh(c, b));
    case 3: return tl_div(c, a, tl_shift(c, tl_square(c, b), 1));
    case 4: return tl_minimum(c, a, b);
    case 5: return tl_maximum(c, a, b);
    default: return chosen(k, a, b);
    }
}

static tl_axes some_axes(cook *k, const tl_tensor *x, int64_t *room)
{
    int64_t count = 0;
    for (int i = 0; i < x->shape.rank; i++)
        if (below(k, 2)) room[count++] = i;
    return count ? (tl_axes){room, count} : TL_ALL;
}

static tl_tensor *reduced(cook *k, tl_tensor *x)
{
    int64_t room[TL_MAX_RANK];
    tl_axes axes = some_axes(k, x, room);
    bool keep = below(k, 2);
    switch (below(k, 7)) {
    case 0: return tl_tanh(k->c, tl_sum(k->c, x, axes, keep));
    case 1: return tl_max(k->c, x, axes, keep);
    case 2: return tl_min(k->c, x, axes, keep);
    case 3: return tl_variance(k->c, x, axes, 0, keep);
    case 4: return tl_logsumexp(k->c, x, axes, keep);
    // A row, taken from each of its elements: norms and softmax by hand.
    case 5: return tl_sub(k->c, x, tl_mean(k->c, x, axes, true));
    default: return tl_mean(k->c, x, axes, keep);
    }
}

static tl_tensor *thrice(cook *k, tl_tensor *x)
{
    tl_shape s = {.rank = x->shape.rank + 1, .dims = {3}};
    if (3 * tl_tensor_count(x) > MOST_ELEMENTS || s.rank > 5) return x;
    memcpy(s.dims + 1, x->shape.dims, (size_t)x->shape.rank * sizeof *s.dims);
    return tl_broadcast_to(k->c, x, s);
}

// Draws are statements of their own: arguments are evaluated in any order, and a seed must mean one
// program everywhere.
static tl_tensor *sliced(cook *k, tl_tensor *x)
{
    int64_t step = below(k, 2) ? 2 : -1, axis = below(k, x->shape.rank);
    return tl_slice(k->c, x, axis, TL_OPEN, TL_OPEN, step);
}

static tl_tensor *reshaped(cook *k, tl_tensor *x)
{
    tl_ctx *c = k->c;
    int rank = x->shape.rank;
    int64_t perm[TL_MAX_RANK];
    switch (below(k, 8)) {
    case 0: tl_rng_permutation(&k->rng, perm, rank); return tl_transpose(c, x, perm, rank);
    case 1: return tl_reshape(c, x, TL_SHAPE(-1));
    case 2: return rank < 5 ? tl_expand_dims(c, x, below(k, rank + 1)) : x;
    case 3: return rank ? sliced(k, x) : x;
    case 4: return tl_contiguous(c, x);
    case 5:
        return 2 * tl_tensor_count(x) <= MOST_ELEMENTS && rank
                   ? tl_concat(c, (tl_tensor *[]){x, tl_neg(c, x)}, 2, below(k, rank))
                   : x;
    case 6: return thrice(k, x);
    default: return rank ? tl_squeeze(c, x, TL_ALL) : x;
    }
}

// Product, bias and activation as separate ops: what becomes one call.
static tl_tensor *dense(cook *k, tl_tensor *x, int64_t n)
{
    tl_ctx *c = k->c;
    int64_t units = 1 + below(k, 5);
    tl_tensor *w = tl_full(c, x->dtype, TL_SHAPE(n, units), 1.0 / (double)n);
    tl_tensor *y = tl_matmul(c, x, w), *bias = tl_full(c, x->dtype, TL_SHAPE(units), 0.25);
    if (below(k, 4)) y = below(k, 2) ? tl_add(c, y, bias) : tl_add(c, bias, y);
    return below(k, 4) ? smooth(k, y) : y;
}

static tl_tensor *heavy(cook *k, tl_tensor *x)
{
    tl_ctx *c = k->c;
    int rank = x->shape.rank;
    if (!rank) return smooth(k, x);
    int64_t n = x->shape.dims[rank - 1];
    switch (below(k, 8)) {
    case 0: return tl_softmax(c, x, -1);
    case 1: return tl_layer_normalize(c, x, NULL, NULL, 1, 0.1);
    case 2:
        return n <= 64 ? tl_scale(c, tl_matmul(c, x, tl_full(c, x->dtype, TL_SHAPE(n, 3), 1)),
                                  1.0 / (double)n)
                       : x;
    case 3: return tl_dropout(c, x, 0.3);
    case 4: return tl_log_softmax(c, x, 0);
    case 5:
    case 6: return n <= 64 ? dense(k, x, n) : x;
    default: return tl_scale(c, tl_cumsum(c, x, -1, false, false), 1.0 / (double)n);
    }
}

static tl_tensor *both(cook *k)
{
    tl_tensor *b = any(k), *a = recent(k);
    return binary(k, a, b);
}

static tl_tensor *next_op(cook *k)
{
    switch (below(k, 10)) {
    case 0:
    case 1:
    case 2: return smooth(k, recent(k));
    case 3:
    case 4:
    case 5: return both(k);
    case 6:
    case 7: return reduced(k, recent(k));
    case 8: return reshaped(k, recent(k));
    default: return heavy(k, recent(k));
    }
}

/* --- a program -------------------------------------------------------------------------------- */

static tl_tensor *mean_of_all(cook *k)
{
    tl_tensor *sum = NULL;
    for (int64_t i = k->count > 4 ? k->count - 4 : 0; i < k->count; i++) {
        tl_tensor *mean = tl_mean(k->c, k->pool[i], TL_ALL, false);
        sum = sum ? tl_add(k->c, sum, mean) : mean;
    }
    return sum;
}

static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    const recipe *r = self;
    cook k = {.c = c};
    tl_rng_init(&k.rng, r->seed);
    tl_ctx_set_taping(c, true);
    for (int64_t i = 0; i < in->count; i++) {
        k.pool[k.count++] = in->items[i].tensor;
        TL_TRY(tl_watch(in->items[i].tensor));
    }
    for (int64_t ops = 5 + below(&k, 56); ops > 0 && k.count < MOST_TENSORS; ops--) {
        tl_tensor *t = next_op(&k);
        TL_TRY(tl_ctx_status(c));
        if (tl_tensor_count(t)) k.pool[k.count++] = t;
    }
    tl_tensor *loss = mean_of_all(&k), *grads[LEAVES];
    if (below(&k, 3)) {
        TL_TRY(tl_gradient(c, loss, k.pool, LEAVES, grads));
        tl_tensors_put(c, out, "gradient", grads[below(&k, LEAVES)]);
        tl_tensor *mean = tl_mean(c, grads[1], TL_ALL, false);
        tl_tensors_put(c, out, "gradients", tl_add(c, tl_reshape(c, grads[0], TL_SHAPE(-1)), mean));
    }
    tl_ctx_set_taping(c, false);
    tl_update_ema(c, r->state, tl_reshape(c, loss, TL_SHAPE(1)), 0.5);
    for (int i = 0; i < 3; i++) tl_tensors_put(c, out, names[i], any(&k));
    tl_tensors_put(c, out, "state", tl_scale(c, r->state, 3));
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

static void choose(recipe *r, uint64_t seed)
{
    static const int64_t dims[] = {1, 2, 3, 5, 7, 8, 16, 17, 33};
    tl_rng rng;
    tl_rng_init(&rng, seed * 977 + 5);
    r->seed = seed;
    r->dtype = tl_rng_below(&rng, 3) ? TL_F32 : TL_F64;
    for (int i = 0; i < LEAVES; i++) {
        tl_shape *s = &r->leaves[i];
        if (i && tl_rng_below(&rng, 2)) {
            *s = r->leaves[0];
            continue;
        }
        do {
            *s = (tl_shape){.rank = (int)tl_rng_below(&rng, 4)};
            for (int d = 0; d < s->rank; d++) s->dims[d] = dims[tl_rng_below(&rng, TL_COUNT(dims))];
        } while (tl_shape_count(s) > MOST_ELEMENTS / 4);
    }
}

static void fill(tl_ctx *c, const recipe *r, tl_tensors *in)
{
    static const char *const names[LEAVES] = {"w", "x", "y", "z"};
    tl_rng rng;
    tl_rng_init(&rng, r->seed + 1);
    for (int i = 0; i < LEAVES; i++) {
        double values[MOST_ELEMENTS];
        for (int64_t k = 0; k < tl_shape_count(&r->leaves[i]); k++)
            values[k] = (float)(tl_rng_uniform_f64(&rng) * 4 - 2);
        tl_tensors_put(c, in, names[i], tl_from_doubles(c, r->dtype, r->leaves[i], values));
    }
}

typedef struct side {
    tl_engine *engine;
    tl_ctx *c;
    tl_mark mark;
} side;

static void begin(side *s, recipe *r, tl_tensors *in)
{
    s->mark = tl_ctx_begin(s->c);
    tl_ctx_set_training(s->c, true);
    tl_ctx_set_draws(s->c, (tl_draws){.seed = r->seed});
    fill(s->c, r, in);
    r->state = tl_full(s->c, r->dtype, TL_SHAPE(1), 1);
}

/* What the same ops give one by one on the engine that is tested: where a sum of differences of
 * equal numbers is all that is left, one rounding of a kernel is far from the reference, and no
 * fault of the graph. */
static void run_eagerly(side inner, const recipe *r, tl_dtype dtype, const char *name, double *out,
                        int64_t count)
{
    recipe same = *r;
    same.dtype = dtype;
    tl_tensors in = {0}, all = {0};
    begin(&inner, &same, &in);
    assert_ok(body(&same, inner.c, &in, &all));
    assert_ok(tl_tensor_get_doubles(tl_tensors_get(inner.c, &all, name), out, count));
    tl_ctx_end(inner.c, inner.mark);
}

static bool near(double a, double b, double most)
{
    return fabs(a - b) <= most * (1 + fabs(b));
}

/* Elements of a program that may be as far from the reference as the same operations are without a
 * graph. */
enum { MOST_SECOND_OPINIONS = 8 };

static void compare(const side *best, const recipe *r, const char *name, const tl_tensor *is,
                    const tl_tensor *should, int *opinions)
{
    static double a[4 * MOST_ELEMENTS], b[4 * MOST_ELEMENTS], eager[4 * MOST_ELEMENTS],
        exact[4 * MOST_ELEMENTS];
    int64_t count = tl_tensor_count(should);
    double most = r->dtype == TL_F64 ? 1e-10 : 2e-4;
    bool have_eager = false;
    assert_true(count <= (int64_t)TL_COUNT(a));
    assert_true(tl_shape_equal(&is->shape, &should->shape));
    assert_ok(tl_tensor_get_doubles(is, a, count));
    assert_ok(tl_tensor_get_doubles(should, b, count));
    for (int64_t i = 0; i < count; i++) {
        if (near(a[i], b[i], most)) continue;
        if (!have_eager) {
            run_eagerly(*best, r, r->dtype, name, eager, count);
            run_eagerly(*best, r, TL_F64, name, exact, count);
        }
        have_eager = true;
        // Where roundings grow, the reference is as far from the truth.
        bool excused =
            near(a[i], eager[i], most / 10) || fabs(a[i] - exact[i]) <= 2 * fabs(b[i] - exact[i]);
        excused = excused && ++*opinions <= MOST_SECOND_OPINIONS;
        if (!excused || !near(a[i], b[i], 50 * most))
            fail_msg("seed %llu: element %lld of '%s' is %.9g and should be %.9g (eagerly %.9g, in "
                     "doubles "
                     "%.9g)",
                     (unsigned long long)r->seed, (long long)i, name, a[i], b[i], eager[i],
                     exact[i]);
    }
}

enum { MOST_PASSES = 16 };

// Every third program is optimised less: passes must not need each other, but for the one that
// kernels need.
static void choose_passes(const char *skip[MOST_PASSES], uint64_t seed)
{
    tl_rng rng;
    int count = 0;
    tl_rng_init(&rng, seed * 31 + 7);
    for (const tl_pass *pass = tl_graph_passes; pass->name && seed % 3 == 0; pass++)
        if (strcmp(pass->name, "straighten") != 0 && tl_rng_below(&rng, 3) == 0
            && count < MOST_PASSES - 1)
            skip[count++] = pass->name;
    skip[count] = NULL;
}

/* With TILTH_GRAPH_TEXT in the environment: what is run, for whoever looks for a fault. */
static void show(tl_function *f)
{
    tl_str text = TL_STR_INIT;
    tl_graph_text(tl_program_graph(tl_function_program(f)), &text);
    fputs(tl_str_text(&text), stdout);
    tl_str_deinit(&text);
}

static void check_graph(side *reference, side *best, uint64_t seed, bool compiled)
{
    recipe r;
    choose(&r, seed);
    tl_tensors in = {0}, want = {0}, again = {0};
    begin(reference, &r, &in);
    if (body(&r, reference->c, &in, &want) != TL_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, tl_error_message());
    begin(best, &r, &again);
    tl_function *f;
    const char *skip[MOST_PASSES];
    choose_passes(skip, seed);
    tl_optimize how = {.skip = skip, .recompute = (tl_recompute)(seed % 5 % 3), .verify = true};
    assert_ok(tl_function_new(&f, &(tl_function_args){.engine = best->engine,
                                                      .body = body,
                                                      .self = &r,
                                                      .interpret = !compiled,
                                                      .optimize = &how}));
    for (int call = 0; call < 2; call++) {
        tl_tensors got = {0};
        int opinions = 0;
        tl_lease lease;
        assert_ok(tl_lease_write(&lease, r.state));
        if (r.dtype == TL_F64) *(double *)lease.data = 1;
        else *(float *)lease.data = 1;
        assert_ok(tl_lease_end(&lease));
        if (tl_function_call(f, best->c, &again, &got) != TL_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, tl_error_message());
        if (getenv("TILTH_GRAPH_TEXT") && call == 0) show(f);
        for (int64_t i = 0; i < want.count; i++)
            compare(best, &r, want.items[i].name, got.items[i].tensor, want.items[i].tensor,
                    &opinions);
    }
    tl_function_free(&f);
    tl_ctx_end(best->c, best->mark);
    tl_ctx_end(reference->c, reference->mark);
}

static const tl_backend_class *reference_backend(void)
{
    int64_t count;
    const tl_backend_class *const *all = tl_cpu_backends(&count);
    for (int64_t i = 0; i < count; i++)
        if (strcmp(all[i]->cls.name, "reference") == 0) return all[i];
    fail_msg("there is no reference backend");
    return NULL;
}

static int64_t setting(const char *name, int64_t usual)
{
    const char *text = getenv(name);
    return text ? atoll(text) : usual;
}

// A product of doubles, its activation and the maximum of that: its gradient asks which elements
// are equal to it.
static const uint64_t wrong_once[] = {6001736};

// Numbers that are all equal less their mean: zero, or what rounding leaves, by the order of the
// sum; and whether that is above zero chooses a slope. Any answer is as good.
static const uint64_t on_an_edge[] = {2003993};

static bool is_on_an_edge(uint64_t seed)
{
    for (int64_t i = 0; i < TL_COUNT(on_an_edge); i++)
        if (on_an_edge[i] == seed) return true;
    return false;
}

static void random_graphs_are_as_eager(void **state)
{
    (void)state;
    int64_t count = setting("TILTH_GRAPHS", USUAL_GRAPHS);
    int64_t compiled = setting("TILTH_COMPILED_GRAPHS", USUAL_COMPILED);
    uint64_t first = (uint64_t)setting("TILTH_GRAPH_SEED", 1);
    side reference = {0}, best = {0};
    assert_ok(tl_engine_new(&reference.engine,
                            &(tl_engine_args){.backend = reference_backend(), .threads = 1}));
    assert_ok(test_engine_new(&best.engine, shim_wanted() ? shim_backend() : NULL, 2));
    assert_ok(tl_ctx_new(&reference.c, reference.engine));
    assert_ok(tl_ctx_new(&best.c, best.engine));
    for (int64_t i = 0; i < TL_COUNT(wrong_once); i++)
        check_graph(&reference, &best, wrong_once[i], false);
    for (int64_t i = 0; i < count; i++)
        if (!is_on_an_edge(first + (uint64_t)i))
            check_graph(&reference, &best, first + (uint64_t)i, i < compiled);
    print_message("%lld programs, %lld of them compiled\n", (long long)count, (long long)compiled);
    tl_ctx_free(&reference.c);
    tl_ctx_free(&best.c);
    tl_engine_free(&reference.engine);
    tl_engine_free(&best.engine);
    assert_true(!shim_wanted() || !compiled || shim_nests_compiled > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_are_as_eager)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
