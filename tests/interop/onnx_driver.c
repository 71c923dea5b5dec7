/* The other side of check_onnx.py: small functions of ops, each as NAME.onnx and NAME.safetensors
 * with inputs and what they become.
 *
 *     onnx_driver FOLDER    prints the names */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/sys/cpu/cpu.h>
#include <tilth/tilth.h>

enum { EXAMPLES = 5, MOST_WEIGHTS = 16 };

static tl_engine *engine;
static tl_tensor *weights[MOST_WEIGHTS];
static int used; /* weights of the call that runs */
static tl_rng rng;

static void must(tl_status status)
{
    if (status == TL_OK) return;
    fprintf(stderr, "onnx_driver: %s\n", tl_error_message());
    exit(1);
}

static tl_tensor *random_tensor(tl_dtype dtype, tl_shape shape)
{
    tl_tensor *t;
    must(tl_tensor_new(&t, engine, dtype, shape));
    int64_t count = tl_tensor_count(t);
    double *values = malloc((size_t)count * sizeof *values);
    if (!values) exit(1);
    for (int64_t i = 0; i < count; i++)
        values[i] = dtype == TL_I32    ? (double)tl_rng_below(&rng, 7)
                    : dtype == TL_BOOL ? (double)(tl_rng_below(&rng, 5) < 3)
                                       : tl_rng_uniform_f64(&rng) * 4 - 2;
    must(tl_tensor_set_doubles(t, values, count));
    free(values);
    return t;
}

/* The next one: the same whenever the function is called. */
static tl_tensor *weight_of(tl_dtype dtype, tl_shape shape)
{
    if (!weights[used]) weights[used] = random_tensor(dtype, shape);
    return weights[used++];
}

static tl_tensor *weight(tl_shape shape)
{
    return weight_of(TL_F32, shape);
}

/* --- cases ------------------------------------------------------------------------------------ */

#define CASE(name)                                                                                 \
    static void name(tl_ctx *c, tl_tensor *x, tl_tensor *ids, tl_tensor *mask, tl_tensors *out)
#define GIVE(name, value) tl_tensors_put(c, out, name, (value))
#define UNUSED (void)ids, (void)mask

CASE(activations)
{
    UNUSED;
    for (int a = TL_ACT_NONE + 1; a < TL_ACT_COUNT; a++)
        GIVE(tl_activation_names[a], tl_activate(c, x, (tl_activation)a));
    GIVE("leaky_relu_", tl_leaky_relu(c, x, 0.3));
    GIVE("elu_", tl_elu(c, x, 0.7));
}

CASE(functions)
{
    UNUSED;
    tl_tensor *positive = tl_shift(c, tl_abs(c, x), 0.5);
    GIVE("square", tl_square(c, x));
    GIVE("rsqrt", tl_rsqrt(c, positive));
    GIVE("log", tl_log(c, positive));
    GIVE("log1p", tl_log1p(c, positive));
    GIVE("expm1", tl_expm1(c, x));
    GIVE("erf", tl_erf(c, x));
    GIVE("round", tl_round(c, tl_scale(c, x, 3)));
    GIVE("affine", tl_affine(c, x, 1.5, -2));
    GIVE("clip", tl_clip(c, x, -0.5, 1));
    GIVE("pow", tl_pow(c, positive, weight(TL_SHAPE(6))));
    GIVE("minimum", tl_minimum(c, x, weight(TL_SHAPE(6))));
    GIVE("where", tl_where(c, tl_less(c, x, weight(TL_SHAPE(1))), x, tl_neg(c, x)));
    GIVE("reciprocal", tl_reciprocal(c, positive));
    GIVE("truth", tl_cast(c, tl_logical_not(c, tl_isfinite(c, x)), TL_F32));
}

CASE(reductions)
{
    UNUSED;
    GIVE("sum", tl_sum(c, x, TL_AXES(1), false));
    GIVE("mean", tl_mean(c, x, TL_AXES(-1), true));
    GIVE("max", tl_max(c, x, TL_AXES(1, 2), false));
    GIVE("min", tl_min(c, x, TL_AXES(2), false));
    GIVE("logsumexp", tl_logsumexp(c, x, TL_AXES(-1), false));
    GIVE("variance", tl_variance(c, x, TL_AXES(1), false, 0));
    GIVE("argmax", tl_cast(c, tl_argmax(c, x, -1, false), TL_F32));
    GIVE("softmax", tl_softmax(c, x, 1));
    GIVE("log_softmax", tl_log_softmax(c, x, -1));
}

CASE(views)
{
    UNUSED;
    int64_t examples = x ? x->shape.dims[0] : 0;
    static const int64_t perm[] = {0, 2, 1};
    GIVE("joined", tl_reshape(c, tl_reshape(c, x, TL_SHAPE(-1, 3)), TL_SHAPE(-1, 4, 6)));
    GIVE("heads", tl_reshape(c, x, TL_SHAPE(examples, 4, 2, 3)));
    GIVE("flat", tl_reshape(c, x, TL_SHAPE(-1, 24)));
    GIVE("turned", tl_transpose(c, x, perm, 3));
    GIVE("part", tl_slice(c, x, 1, 1, 3, 1));
    GIVE("back", tl_flip(c, x, TL_AXES(2)));
    GIVE("one", tl_take(c, x, 1, 0));
    GIVE("beside", tl_concat(c, (tl_tensor *[]){x, x}, 2, -1));
    tl_tensor *first = tl_broadcast_to(c, weight(TL_SHAPE(1, 1, 6)), TL_SHAPE(examples, 1, 6));
    GIVE("before", tl_concat(c, (tl_tensor *[]){first, x}, 2, 1));
    GIVE("padded", tl_pad(c, x, .before = {0, 1, 0}, .after = {0, 0, 2}, .value = 3));
    GIVE("zeros", tl_add(c, x, tl_full(c, TL_F32, TL_SHAPE(examples, 4, 6), 0.5)));
}

CASE(products)
{
    UNUSED;
    GIVE("dense", tl_linear(c, x, weight(TL_SHAPE(6, 3)), weight(TL_SHAPE(3)), TL_ACT_GELU));
    GIVE("plain", tl_linear(c, x, weight(TL_SHAPE(6, 3)), NULL, TL_ACT_NONE));
    GIVE("square", tl_matmul_with(c, x, x, false, true));
    GIVE("turned", tl_matmul_with(c, x, weight(TL_SHAPE(4, 2)), true, false));
    tl_tensor *flat = tl_reshape(c, x, TL_SHAPE(-1, 24));
    GIVE("head", tl_linear(c, flat, weight(TL_SHAPE(24, 3)), weight(TL_SHAPE(3)), TL_ACT_RELU6));
}

CASE(norms)
{
    UNUSED;
    GIVE("layer", tl_layer_normalize(c, x, weight(TL_SHAPE(6)), weight(TL_SHAPE(6)), 1, 1e-6));
    GIVE("layer_plain", tl_layer_normalize(c, x, NULL, NULL, 2, 1e-3));
    GIVE("rms", tl_rms_normalize(c, x, weight(TL_SHAPE(6)), 1, 1e-6));
    tl_tensor *mean = weight(TL_SHAPE(6)), *variance = tl_square(c, weight(TL_SHAPE(6)));
    GIVE("batch", tl_batch_norm_apply(c, x, mean, variance, weight(TL_SHAPE(6)), NULL, 1e-3));
    tl_tensor *row = tl_take(c, x, 1, 2);
    GIVE("row", tl_batch_norm_apply(c, row, mean, variance, NULL, weight(TL_SHAPE(6)), 1e-3));
    GIVE("l2", tl_l2_normalize(c, x, TL_AXES(-1), 1e-9));
}

CASE(images)
{
    UNUSED;
    tl_tensor *y =
        tl_convolve2d(c, x, weight(TL_SHAPE(3, 3, 4, 8)), .stride = {2}, .padding = TL_SAME);
    y = tl_add(c, y, weight(TL_SHAPE(8)));
    GIVE("same", y);
    tl_tensor *deep = tl_convolve2d(c, y, weight(TL_SHAPE(3, 3, 1, 8)), .groups = 8,
                                    .padding = TL_SAME, .dilation = {2});
    GIVE("grouped", deep);
    GIVE("depthwise", tl_convolve2d_depthwise(c, x, weight(TL_SHAPE(3, 3, 4, 2)), .stride = {2},
                                              .padding = TL_SAME));
    GIVE("pads", tl_convolve2d(c, x, weight(TL_SHAPE(3, 2, 4, 3)), .stride = {2, 1},
                               .padding = TL_EXPLICIT, .pads = {1, 0, 1, 1}));
    GIVE("max", tl_max_pool2d(c, x, .size = {3}, .stride = {2}, .padding = TL_SAME));
    GIVE("mean", tl_avg_pool2d(c, x, .size = {3}, .stride = {2}, .padding = TL_SAME));
    GIVE("gate", tl_mul(c, deep, tl_sigmoid(c, tl_mean(c, deep, TL_AXES(1, 2), true))));
    GIVE("rows", tl_mean(c, deep, TL_AXES(1), false));
    GIVE("group", tl_group_normalize(c, deep, weight(TL_SHAPE(8)), weight(TL_SHAPE(8)), 4, 1e-3));
    GIVE("larger", tl_resize(c, deep, 9, 11, .method = TL_BILINEAR));
    GIVE("corners", tl_resize(c, y, 9, 11, .method = TL_BILINEAR, .align_corners = true));
    GIVE("nearest", tl_resize(c, y, 7, 9, .method = TL_NEAREST));
    GIVE("beside", tl_concat(c, (tl_tensor *[]){y, deep}, 2, 3));
    GIVE("around", tl_pad(c, y, .before = {0, 1, 0, 0}, .after = {0, 2, 1, 0}));
    GIVE("flat", tl_reshape(c, deep, TL_SHAPE(-1, 4 * 5 * 8)));
}

/* Grouped heads, masks, looking back, a query that may look at nothing. */
CASE(attention)
{
    tl_tensor *table = weight(TL_SHAPE(7, 6));
    x = tl_add(c, x, tl_lookup(c, table, ids));
    int64_t examples = x ? x->shape.dims[0] : 0;
    tl_tensor *q = tl_reshape(c, x, TL_SHAPE(examples, 4, 2, 3));
    tl_tensor *k = tl_reshape(c, tl_linear(c, x, weight(TL_SHAPE(6, 3)), NULL, TL_ACT_NONE),
                              TL_SHAPE(examples, 4, 1, 3));
    GIVE("chosen", tl_one_hot(c, ids, 5, TL_F32));
    GIVE("plain", tl_attend(c, q, q, q));
    GIVE("grouped", tl_attend(c, q, k, k, .scale = 0.7));
    GIVE("masked", tl_attend(c, q, k, k, .mask = mask));
    GIVE("causal", tl_attend(c, q, q, q, .mask = mask, .causal = true));
    GIVE("biased", tl_attend(c, q, q, q, .bias = weight(TL_SHAPE(2, 4, 4))));
}

/* Weights of half precision, and an answer that is computed in it. */
CASE(half)
{
    UNUSED;
    tl_tensor *low = tl_cast(c, x, TL_BF16);
    GIVE("dense",
         tl_cast(c, tl_linear(c, low, weight_of(TL_BF16, TL_SHAPE(6, 3)), NULL, TL_ACT_NONE),
                 TL_F32));
}

typedef void case_fn(tl_ctx *c, tl_tensor *x, tl_tensor *ids, tl_tensor *mask, tl_tensors *out);
static const struct {
    const char *name;
    case_fn *fn;
    bool image;
} cases[] = {{"activations", activations, false},
             {"functions", functions, false},
             {"reductions", reductions, false},
             {"views", views, false},
             {"products", products, false},
             {"norms", norms, false},
             {"images", images, true},
             {"attention", attention, false},
             {"half", half, false}};

/* --- files ------------------------------------------------------------------------------------ */

static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    used = 0;
    (*(case_fn **)self)(c, in->items[0].tensor, in->items[1].tensor, in->items[2].tensor, out);
    return tl_ctx_status(c);
}

static void save(const char *path, const tl_tensors *in, const tl_tensors *out)
{
    tl_state *s;
    char name[64];
    must(tl_state_new(&s));
    for (int64_t i = 0; i < in->count; i++)
        must(tl_state_put(s, in->items[i].name, in->items[i].tensor));
    for (int64_t i = 0; i < out->count; i++) {
        snprintf(name, sizeof name, "out/%s", out->items[i].name);
        must(tl_state_put(s, name, out->items[i].tensor));
    }
    must(tl_safetensors_write(path, s, NULL, 0));
    tl_state_free(&s);
}

static void write_case(const char *folder, int64_t i)
{
    const tl_spec specs[] = {
        {"x", TL_F32, cases[i].image ? TL_SHAPE(EXAMPLES, 8, 9, 4) : TL_SHAPE(EXAMPLES, 4, 6)},
        {"ids", TL_I32, TL_SHAPE(EXAMPLES, 4)},
        {"mask", TL_BOOL, TL_SHAPE(EXAMPLES, 4)}};
    char path[512];
    tl_tensors in = {0}, out = {0};
    tl_tensor *given[TL_COUNT(specs)];
    tl_ctx *c;
    case_fn *fn = cases[i].fn;
    must(tl_ctx_new(&c, engine));
    for (int64_t k = 0; k < TL_COUNT(specs); k++) {
        given[k] = random_tensor(specs[k].dtype, specs[k].shape);
        tl_tensors_put(c, &in, specs[k].name, given[k]);
    }
    must(body(&fn, c, &in, &out));
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, cases[i].name);
    save(path, &in, &out);
    snprintf(path, sizeof path, "%s/%s.onnx", folder, cases[i].name);
    must(tl_onnx_write(path, &(tl_onnx_args){.engine = engine,
                                             .body = body,
                                             .self = &fn,
                                             .inputs = specs,
                                             .input_count = TL_COUNT(specs)}));
    tl_ctx_free(&c);
    for (int64_t k = 0; k < TL_COUNT(specs); k++) tl_tensor_free(&given[k]);
    for (int k = 0; k < MOST_WEIGHTS; k++) tl_tensor_free(&weights[k]);
    printf("%s\n", cases[i].name);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    tl_rng_init(&rng, 1);
    must(tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1}));
    for (int64_t i = 0; i < TL_COUNT(cases); i++) write_case(argv[1], i);
    tl_engine_free(&engine);
    return 0;
}
