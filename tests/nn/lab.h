/* What tests of models share: an engine, a context, and a model whose two halves are functions of
 * the test. */
#ifndef TILTH_TESTS_NN_LAB_H
#define TILTH_TESTS_NN_LAB_H

#include "test.h"

#include <stdlib.h>

#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/ops/activation.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/index.h>
#include <tilth/ops/norm.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/random.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "engine.h"

static tl_engine *engine;
static tl_ctx *c;

static inline int open_lab(void **state)
{
    (void)state;
    assert_ok(test_engine_new(&engine, &tl_backend_reference, 1));
    assert_ok(tl_ctx_new(&c, engine));
    return 0;
}

static inline int close_lab(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    tl_engine_free(&engine);
    return 0;
}

/* A context as new for each test. */
static inline int fresh(void **state)
{
    (void)state;
    tl_ctx_free(&c);
    assert_ok(tl_ctx_new(&c, engine));
    return 0;
}

#define LAB_TEST(f) cmocka_unit_test_setup(f, fresh)

/* --- a model of the test's own ---------------------------------------------------------------- */

typedef struct probe {
    tl_model base;
    tl_layer *part[4];
    tl_tensor *param;
} probe;
typedef struct recipe {
    void (*build)(probe *p, tl_scope *s);
    tl_tensor *(*forward)(probe *p, tl_ctx *ctx,
                          tl_tensor *x); /* NULL: parts one after the other */
} recipe;

static inline tl_status probe_build(tl_model *m, tl_scope *s, const void *config)
{
    ((const recipe *)config)->build((probe *)m, s);
    return tl_scope_status(s);
}

static inline tl_tensor *probe_forward(tl_model *m, tl_ctx *ctx, tl_tensor *x)
{
    probe *p = (probe *)m;
    const recipe *r = m->config;
    if (r->forward) return r->forward(p, ctx, x);
    for (int i = 0; i < 4 && p->part[i]; i++) x = tl_call(ctx, p->part[i], x);
    return x;
}

static const tl_layer_class probe_class = {
    .cls = TL_CLASS(tl_layer_class, "probe", NULL, probe, NULL),
    .build = probe_build,
    .forward = probe_forward,
};

static inline tl_status try_class(tl_model **out, const tl_layer_class *cls, const void *config,
                                  tl_dtype compute, tl_dtype dtype, tl_shape shape)
{
    tl_spec input = {"x", dtype, shape};
    return tl_model_new(out, &(tl_model_args){.engine = engine,
                                              .cls = cls,
                                              .config = config,
                                              .inputs = &input,
                                              .input_count = 1,
                                              .seed = 7,
                                              .dtype = compute});
}

static inline tl_status try_model(tl_model **out, const recipe *r, tl_shape shape)
{
    return try_class(out, &probe_class, r, TL_F32, TL_F32, shape);
}

static inline tl_model *make_model(const recipe *r, tl_dtype compute, tl_dtype dtype,
                                   tl_shape shape)
{
    tl_model *m = NULL;
    assert_ok(try_class(&m, &probe_class, r, compute, dtype, shape));
    return m;
}

/* --- values ----------------------------------------------------------------------------------- */

/* Numbers between -2 and 2 that follow no pattern, none of them near 0. */
static inline tl_tensor *numbers(tl_dtype dtype, tl_shape shape)
{
    double values[4096];
    int64_t count = tl_shape_count(&shape);
    assert_true(count <= 4096);
    for (int64_t i = 0; i < count; i++) {
        values[i] = 2 * sin(1.7 * (double)i + 0.3 * (double)(i * i % 7));
        if (fabs(values[i]) < 0.05) values[i] = 0.5;
    }
    return tl_from_doubles(c, dtype, shape, values);
}

static inline double at(const tl_tensor *t, int64_t i)
{
    double values[4096];
    assert_non_null(t);
    assert_true(i < tl_tensor_count(t));
    assert_ok(tl_tensor_get_doubles(t, values, tl_tensor_count(t)));
    return values[i];
}

static inline double apart(const tl_tensor *a, const tl_tensor *b)
{
    double left[4096], right[4096], most = 0;
    assert_ok(tl_ctx_status(c));
    assert_non_null(a);
    assert_non_null(b);
    if (!tl_shape_equal(&a->shape, &b->shape)) {
        char p[TL_TENSOR_TEXT], q[TL_TENSOR_TEXT];
        fail_msg("%s and %s", tl_tensor_spec(p, a), tl_tensor_spec(q, b));
    }
    int64_t n = tl_tensor_count(a);
    assert_true(n <= 4096);
    assert_ok(tl_tensor_get_doubles(a, left, n));
    assert_ok(tl_tensor_get_doubles(b, right, n));
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(left[i] - right[i]) <= HUGE_VAL)) return HUGE_VAL;
        most = fmax(most, fabs(left[i] - right[i]));
    }
    return most;
}
/* The shape is this one. */
#define assert_shape(shape_, ...)                                                                  \
    do {                                                                                           \
        tl_shape found_ = (shape_), wanted_ = TL_SHAPE(__VA_ARGS__);                               \
        char text_[TL_SHAPE_TEXT];                                                                 \
        if (!tl_shape_equal(&found_, &wanted_))                                                    \
            fail_msg("%s is %s, not [%s]", #shape_, tl_shape_text(text_, &found_), #__VA_ARGS__);  \
    } while (0)
#define assert_same(a, b, most) assert_near(apart((a), (b)), 0, most)

static inline tl_tensor *param(const tl_model *m, const char *path)
{
    const tl_param *p = tl_model_find(m, path);
    if (!p) fail_msg("there is no parameter '%s'", path);
    return p->tensor;
}

/* Every parameter gets numbers, so that biases and gains are not zeros and ones. */
static inline void scramble(tl_model *m)
{
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        tl_tensor *t = tl_model_param(m, i)->tensor;
        double values[4096];
        assert_true(tl_tensor_count(t) <= 4096);
        for (int64_t k = 0; k < tl_tensor_count(t); k++)
            values[k] = tl_model_param(m, i)->state ? 0.5 + 0.1 * (double)k
                                                    : cos(0.9 * (double)(k + 3 * i));
        assert_ok(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    }
}

#endif
