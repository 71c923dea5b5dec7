/* Metrics against Keras and scikit-learn (tests/golden/metrics.py, metrics_keras.py): three batches
 * each, with and without weights, in float32 and float64, eagerly and as a function, interpreted
 * and compiled; the latter two give the same bits. runs: fake device */
#include "nn/golden_file.h"

#include <tilth/graph/function.h>
#include <tilth/nn/metrics.h>

static tl_engine *engine;
static tl_registry *registry;
static int64_t case_count, batch_count;

typedef struct holder {
    tl_oneof metric;
} holder;
static const tl_field holder_fields[] = {
    TL_F(holder, metric, .kind = &tl_kind_metric, .help = "which one"),
    TL_F_END,
};
static const tl_desc holder_desc = {
    .name = "holder",
    .help = "a metric",
    .size = sizeof(holder),
    .fields = holder_fields,
};

static const char *const files[] = {TEST_DATA "/golden/metrics.bin",
                                    TEST_DATA "/golden/metrics_keras.bin"};

static void open_file(const char *path)
{
    golden_close();
    golden_open(path);
    case_count = (int64_t)golden_number(golden_peek("count"), 0);
    batch_count = (int64_t)golden_number(golden_peek("batches"), 0);
}

static int open_all(void **state)
{
    (void)state;
    golden_begin(files[0], &registry, &tl_metrics_module, &engine);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    golden_end(&registry, &engine);
    return 0;
}

static tl_status step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *y = tl_tensors_peek(in, "y"), *p = tl_tensors_get(c, in, "p");
    if (y) tl_metric_update(self, c, y, p, tl_tensors_peek(in, "w"));
    else tl_metric_update_value(self, c, p, tl_tensors_peek(in, "w"));
    tl_tensors_put(c, out, "result", tl_metric_result(self, c));
    return tl_ctx_status(c);
}

typedef struct outcome {
    double values[32];
    int64_t count;
} outcome;

// All batches of a case; the result after the last.
static void run_case(outcome *out, tl_metric *m, int64_t number, tl_dtype dtype, tl_function *f)
{
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, engine));
    for (int64_t b = 0; b < batch_count; b++) {
        static const char *const names[] = {"y", "p", "w"};
        tl_tensors in = {0}, results = {0};
        tl_mark mark = tl_ctx_begin(c);
        for (int i = 0; i < 3; i++) {
            const golden *g = golden_peek("%02d/%d/%s", (int)number, (int)b, names[i]);
            if (g) tl_tensors_put(c, &in, names[i], golden_tensor(c, g, dtype));
        }
        assert_ok(f ? tl_function_call(f, c, &in, &results) : step(m, c, &in, &results));
        const tl_tensor *r = tl_tensors_peek(&results, "result");
        out->count = tl_tensor_count(r);
        assert_true(out->count <= 32 && r->dtype == TL_F64);
        assert_ok(tl_tensor_get_doubles(r, out->values, out->count));
        tl_ctx_end(c, mark);
    }
    tl_ctx_free(&c);
}

// A function is captured once for each shape of batches.
static int64_t shapes_of(int64_t number)
{
    int64_t shapes = 0;
    for (int64_t b = 0; b < batch_count; b++) {
        const golden *g = golden_peek("%02d/%d/p", (int)number, (int)b);
        bool seen = false;
        for (int64_t k = 0; k < b && !seen; k++)
            seen = tl_shape_equal(&golden_peek("%02d/%d/p", (int)number, (int)k)->shape, &g->shape);
        shapes += !seen;
    }
    return shapes;
}

// From the beginning, as a function.
static void run_function(outcome *out, tl_metric *m, int64_t number, tl_dtype dtype, bool interpret)
{
    tl_ctx *c;
    tl_function *f;
    tl_function_stats stats;
    assert_ok(tl_ctx_new(&c, engine));
    assert_ok(tl_metric_reset(m, c));
    tl_ctx_free(&c);
    assert_ok(tl_function_new(
        &f,
        &(tl_function_args){.engine = engine, .body = step, .self = m, .interpret = interpret}));
    run_case(out, m, number, dtype, f);
    tl_function_measure(f, &stats);
    assert_int_equal(stats.captures, shapes_of(number));
    tl_function_free(&f);
}

static void check_near(const tl_metric *m, int64_t number, const outcome *found, double most)
{
    const golden *wanted = golden_peek("%02d/result", (int)number);
    assert_int_equal(found->count, tl_shape_count(&wanted->shape));
    for (int64_t i = 0; i < found->count; i++) {
        double right = golden_number(wanted, i);
        if (!(fabs(found->values[i] - right) <= most * fmax(1, fabs(right))))
            fail_msg("case %d, %s: element %d is %.12g and should be %.12g", (int)number, m->name,
                     (int)i, found->values[i], right);
    }
}

static void check_case(int64_t number, tl_dtype dtype)
{
    double most = golden_number(golden_peek("%02d/tolerance", (int)number), 0);
    tl_config *config;
    tl_metric *m;
    const holder *h =
        golden_config(&config, registry, &holder_desc, golden_peek("%02d/config", (int)number));
    outcome eager, interpreted, compiled;
    if (dtype == TL_F32) most = fmax(most, 2e-6);
    assert_ok(tl_metric_new_of(&m, engine, &h->metric, registry, NULL));
    run_case(&eager, m, number, dtype, NULL);
    check_near(m, number, &eager, most);
    run_function(&interpreted, m, number, dtype, true);
    check_near(m, number, &interpreted, most);
    if (dtype == TL_F32) { // compiling takes its time
        run_function(&compiled, m, number, dtype, false);
        check_near(m, number, &compiled, most);
        // a GPU has no interpreter: there ops run one by one, with sums in the order of each alone
        if (!test_wants_gpu()
            && memcmp(interpreted.values, compiled.values, (size_t)eager.count * sizeof(double))
                   != 0)
            fail_msg("case %d, %s: %.17g interpreted and %.17g compiled", (int)number, m->name,
                     interpreted.values[0], compiled.values[0]);
    }
    tl_metric_free(&m);
    tl_config_free(&config);
}

static void check_all(tl_dtype dtype)
{
    for (int k = 0; k < TL_COUNT(files); k++) {
        open_file(files[k]);
        assert_true(case_count > 50);
        for (int64_t i = 0; i < case_count; i++) check_case(i, dtype);
    }
}

static void metrics_agree_in_float64(void **state)
{
    (void)state;
    check_all(TL_F64);
}

static void metrics_agree_in_float32(void **state)
{
    (void)state;
    check_all(TL_F32);
}

static bool has_case(const char *name)
{
    char text[96];
    bool found = false;
    snprintf(text, sizeof text, "{\"metric\": {\"type\": \"%s\",", name);
    for (int64_t i = 0; i < case_count; i++) {
        const golden *g = golden_peek("%02d/config", (int)i);
        found |= strncmp(g->values, text, strlen(text)) == 0;
    }
    return found;
}

// Every class that ships is in some case.
static void every_metric_has_a_case(void **state)
{
    (void)state;
    for (int64_t k = 0; k < tl_registry_count(registry, &tl_kind_metric); k++) {
        const char *name = tl_registry_at(registry, &tl_kind_metric, k)->name;
        bool found = false;
        for (int i = 0; i < TL_COUNT(files) && !found; i++) {
            open_file(files[i]);
            found = has_case(name);
        }
        if (!found) fail_msg("no golden file has a case of '%s'", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_agree_in_float64),
        cmocka_unit_test(metrics_agree_in_float32),
        cmocka_unit_test(every_metric_has_a_case),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
