/* Ten steps of SGD on four small models, against PyTorch's (tests/golden/models.py): in float64 one
 * run from the same weights; in float32 each step from PyTorch's weights of that step. Both eagerly
 * and as a compiled function. runs: fake device */
#include "test.h"

#include <tilth/base/file.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cpu/jit.h>
#include <tilth/graph/function.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/loss.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/graph/program.h>

enum { STEPS = 10, MOST_PARAMS = 32 };
#define RATE 0.1

/* --- the file --------------------------------------------------------------------------------- */

typedef struct entry {
    char name[96];
    uint32_t kind; /* 0 float32, 1 float64, 2 int64 */
    tl_shape shape;
    const char *values;
} entry;

static tl_file_mapping file;
static entry entries[1024];
static int64_t entry_count;

static int read_golden(void **state)
{
    (void)state;
    static const size_t sizes[] = {4, 8, 8};
    assert_ok(tl_file_map(&file, TEST_DATA "/golden/models.bin"));
    for (const char *p = file.data, *end = file.data + file.size; p < end;) {
        entry *e = &entries[entry_count++];
        uint32_t length, rank;
        memcpy(&length, p, 4);
        memcpy(e->name, p + 4, length);
        memcpy(&e->kind, p + 4 + length, 4);
        memcpy(&rank, p + 8 + length, 4);
        p += 12 + length;
        e->shape.rank = (int)rank;
        memcpy(e->shape.dims, p, rank * 8);
        e->values = p + rank * 8;
        p = e->values + (size_t)tl_shape_count(&e->shape) * sizes[e->kind];
    }
    return 0;
}

static int forget_golden(void **state)
{
    (void)state;
    tl_file_unmap(&file);
    return 0;
}

static const entry *find(const char *format, ...)
{
    char name[160];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (int64_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    fail_msg("models.bin has no '%s': run tests/golden/models.py", name);
    return NULL;
}

static double number(const entry *e, int64_t i)
{
    float f;
    double d;
    int64_t n;
    memcpy(&f, e->values + (e->kind == 0 ? i * 4 : 0), 4);
    memcpy(&d, e->values + (e->kind == 0 ? 0 : i * 8), 8);
    memcpy(&n, e->values + (e->kind == 0 ? 0 : i * 8), 8);
    return e->kind == 0 ? f : e->kind == 1 ? d : (double)n;
}

static tl_tensor *batch(tl_ctx *c, const entry *e, tl_dtype dtype)
{
    double values[4096];
    for (int64_t i = 0; i < tl_shape_count(&e->shape); i++) values[i] = number(e, i);
    return tl_from_doubles(c, e->kind == 2 ? TL_I64 : dtype, e->shape, values);
}

/* --- the models ------------------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *part[10];
} net;

static tl_status mlp_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->part[0] = tl_dense(s, "up", .units = 16, .activation = TL_ACT_RELU);
    n->part[1] = tl_dense(s, "middle", .units = 16, .activation = TL_ACT_SILU);
    n->part[2] = tl_dense(s, "head", .units = 4);
    return tl_scope_status(s);
}

static tl_tensor *mlp_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    for (int i = 0; i < 3; i++) x = tl_call(c, n->part[i], x);
    return x;
}

static tl_status cnn_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->part[0] = tl_conv2d(s, "conv_1", .filters = 4, .kernel = 3, .padding = TL_SAME,
                           .activation = TL_ACT_RELU);
    n->part[1] = tl_conv2d(s, "conv_2", .filters = 8, .kernel = 3, .padding = TL_SAME,
                           .activation = TL_ACT_RELU);
    n->part[2] = tl_dense(s, "hidden", .units = 16, .activation = TL_ACT_RELU);
    n->part[3] = tl_dense(s, "head", .units = 4);
    return tl_scope_status(s);
}

static tl_tensor *cnn_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    x = tl_max_pool2d(c, tl_call(c, n->part[0], x), .size = {2});
    x = tl_max_pool2d(c, tl_call(c, n->part[1], x), .size = {2});
    x = tl_reshape(c, x, TL_SHAPE(8, 32));
    return tl_call(c, n->part[3], tl_call(c, n->part[2], x));
}

static tl_status resnet_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->part[0] = tl_conv2d(s, "conv_1", .filters = 8, .kernel = 3, .stride = 2,
                           .padding = TL_EXPLICIT, .pad = 1, .without_bias = true);
    n->part[1] =
        tl_conv2d(s, "conv_2", .filters = 8, .kernel = 3, .padding = TL_SAME, .without_bias = true);
    n->part[2] =
        tl_conv2d(s, "project", .filters = 8, .kernel = 1, .stride = 2, .without_bias = true);
    n->part[3] = tl_batch_norm(s, "norm_1", .epsilon = TL_SET(1e-5));
    n->part[4] = tl_batch_norm(s, "norm_2", .epsilon = TL_SET(1e-5));
    n->part[5] = tl_batch_norm(s, "norm_3", .epsilon = TL_SET(1e-5));
    n->part[6] = tl_dense(s, "head", .units = 4);
    return tl_scope_status(s);
}

static tl_tensor *resnet_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    tl_tensor *y = tl_relu(c, tl_call(c, n->part[3], tl_call(c, n->part[0], x)));
    y = tl_add(c, tl_call(c, n->part[4], tl_call(c, n->part[1], y)),
               tl_call(c, n->part[5], tl_call(c, n->part[2], x)));
    return tl_call(c, n->part[6], tl_mean(c, tl_relu(c, y), TL_AXES(1, 2), false));
}

static tl_status transformer_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->part[0] = tl_embedding(s, "tokens", .entries = 11, .size = 16);
    n->part[1] = tl_embedding(s, "places", .entries = 6, .size = 16);
    n->part[2] = tl_layer_norm(s, "norm_1", .epsilon = TL_SET(1e-5));
    n->part[3] = tl_attention(s, "attention", .heads = 2, .causal = true);
    n->part[4] = tl_layer_norm(s, "norm_2", .epsilon = TL_SET(1e-5));
    n->part[5] = tl_dense(s, "up", .units = 32, .activation = TL_ACT_GELU_TANH);
    n->part[6] = tl_dense(s, "down", .units = 16);
    n->part[7] = tl_layer_norm(s, "norm", .epsilon = TL_SET(1e-5));
    return tl_scope_status(s);
}

static tl_tensor *transformer_forward(tl_model *m, tl_ctx *c, tl_tensor *ids)
{
    net *n = (net *)m;
    tl_tensor *places = tl_arange(c, TL_I64, 0, 6, 1);
    tl_tensor *x = tl_add(c, tl_call(c, n->part[0], ids), tl_call(c, n->part[1], places));
    x = tl_add(c, x, tl_call(c, n->part[3], tl_call(c, n->part[2], x)));
    x = tl_add(c, x, tl_call(c, n->part[6], tl_call(c, n->part[5], tl_call(c, n->part[4], x))));
    x = tl_embedding_scores(c, n->part[0], tl_call(c, n->part[7], x));
    return tl_reshape(c, x, TL_SHAPE(18, 11));
}

#define MODEL(id)                                                                                  \
    static const tl_layer_class id##_class = {.cls = {.class_size = sizeof(tl_layer_class),        \
                                                      .name = #id,                                 \
                                                      .help = "a golden model",                    \
                                                      .size = sizeof(net)},                        \
                                              .build = id##_build,                                 \
                                              .forward = id##_forward};
MODEL(mlp)
MODEL(cnn)
MODEL(resnet)
MODEL(transformer)

/* --- steps ------------------------------------------------------------------------------------ */

static void load(tl_model *m, const char *format, const char *name, int step)
{
    char before[64];
    snprintf(before, sizeof before, format, name, step);
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        if (p->state) continue;
        const entry *e = find("%s/%s", before, p->path);
        assert_true(tl_shape_equal(&e->shape, &p->tensor->shape));
        double values[4096];
        for (int64_t k = 0; k < tl_tensor_count(p->tensor); k++) values[k] = number(e, k);
        assert_ok(tl_tensor_set_doubles(p->tensor, values, tl_tensor_count(p->tensor)));
    }
}

// One step: the loss, and the parameters moved against their gradients, in place.
static tl_status sgd_step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_model *m = self;
    tl_tensor *by[MOST_PARAMS], *grads[MOST_PARAMS];
    int64_t count = 0;
    bool taping = tl_ctx_set_taping(c, true);
    tl_tensor *scores = tl_call(c, m, tl_tensors_get(c, in, "x"));
    tl_tensor *each = tl_sparse_cross_entropy(c, tl_tensors_get(c, in, "y"), scores);
    tl_tensor *loss = tl_mean(c, each, TL_ALL, false);
    TL_TRY(tl_ctx_status(c));
    for (int64_t i = 0; i < tl_model_param_count(m); i++)
        if (tl_model_param(m, i)->trainable) by[count++] = tl_model_param(m, i)->tensor;
    TL_TRY(tl_gradient(c, loss, by, count, grads));
    tl_ctx_set_taping(c, taping);
    for (int64_t i = 0; i < count; i++)
        tl_update_ema(c, by[i], tl_sub(c, by[i], tl_scale(c, grads[i], RATE)), 0);
    tl_tensors_put(c, out, "loss", loss);
    return tl_ctx_status(c);
}

// Eagerly where there is no function.
static double take_step(tl_engine *engine, tl_function *f, tl_model *m, const char *name,
                        tl_dtype dtype)
{
    tl_tensors in = {0}, out = {0};
    tl_ctx *c;
    double loss;
    assert_ok(tl_ctx_new(&c, engine));
    tl_ctx_set_training(c, true);
    tl_tensors_put(c, &in, "x", batch(c, find("%s/x", name), dtype));
    tl_tensors_put(c, &in, "y", batch(c, find("%s/y", name), dtype));
    assert_ok(f ? tl_function_call(f, c, &in, &out) : sgd_step(m, c, &in, &out));
    assert_ok(tl_tensor_item(tl_tensors_peek(&out, "loss"), &loss));
    tl_ctx_free(&c);
    return loss;
}

static double distance(tl_model *m, const char *name, int step)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        if (p->state) continue;
        const entry *e = find("%s/f32 %d/%s", name, step, p->path);
        double w[4096];
        assert_ok(tl_tensor_get_doubles(p->tensor, w, tl_tensor_count(p->tensor)));
        for (int64_t k = 0; k < tl_tensor_count(p->tensor); k++) {
            apart += (w[k] - number(e, k)) * (w[k] - number(e, k));
            size += number(e, k) * number(e, k);
        }
    }
    return sqrt(apart / size);
}

// One program for all steps; compiled, where there is a compiler.
static void check_function(const tl_function *f)
{
    tl_function_stats calls;
    tl_program_stats stats;
    tl_jit *jit;
    tl_function_measure(f, &calls);
    tl_program_measure(tl_function_program(f), &stats);
    assert_int_equal(calls.captures, 1);
    assert_true(stats.nests > 0);
    if (tl_jit_new(&jit, NULL) != TL_OK) return;
    assert_int_equal(stats.compiled, stats.nests);
    tl_jit_free(&jit);
}

static void check_type(tl_engine *engine, const tl_layer_class *cls, tl_dtype dtype, bool compiled)
{
    const char *name = cls->cls.name;
    bool wide = dtype == TL_F64;
    const entry *x = find("%s/x", name),
                *losses = find(wide ? "%s/f64 losses" : "%s/f32 losses", name);
    tl_spec input = {"x", x->kind == 2 ? TL_I64 : dtype, x->shape};
    tl_model *m;
    tl_function *f = NULL;
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = engine,
                                                .cls = cls,
                                                .inputs = &input,
                                                .input_count = 1,
                                                .seed = 1,
                                                .dtype = dtype}));
    if (compiled)
        assert_ok(tl_function_new(
            &f, &(tl_function_args){.engine = engine, .name = name, .body = sgd_step, .self = m}));
    if (wide) load(m, "%s/f64", name, 0);
    for (int step = 0; step < STEPS; step++) {
        if (!wide) load(m, "%s/f32 %d", name, step);
        double wanted = number(losses, step), loss = take_step(engine, f, m, name, dtype);
        assert_near(loss, wanted, (wide ? 1e-8 : 1e-5) * wanted);
        if (!wide) assert_near(distance(m, name, step + 1), 0, 1e-5);
    }
    if (f) check_function(f);
    tl_function_free(&f);
    tl_model_free(&m);
}

static void run_model(const tl_backend_class *backend, const tl_layer_class *cls)
{
    tl_engine *engine;
    assert_ok(tl_engine_new(&engine, &(tl_engine_args){.backend = backend, .threads = 2}));
    for (int compiled = 0; compiled < 2; compiled++) {
        check_type(engine, cls, TL_F32, compiled);
        check_type(engine, cls, TL_F64, compiled);
    }
    tl_engine_free(&engine);
}

static void on_every_backend(const tl_layer_class *cls)
{
    int64_t count;
    const tl_backend_class *const *backends = tl_cpu_backends(&count);
    for (int64_t i = 0; i < count; i++)
        if (!backends[i]->supported || backends[i]->supported() == TL_OK)
            run_model(backends[i], cls);
}

#define TEST(id)                                                                                   \
    static void id##_follows_pytorch(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        on_every_backend(&id##_class);                                                             \
    }
TEST(mlp)
TEST(cnn)
TEST(resnet)
TEST(transformer)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_follows_pytorch),
        cmocka_unit_test(cnn_follows_pytorch),
        cmocka_unit_test(resnet_follows_pytorch),
        cmocka_unit_test(transformer_follows_pytorch),
    };
    return cmocka_run_group_tests(tests, read_golden, forget_golden);
}
