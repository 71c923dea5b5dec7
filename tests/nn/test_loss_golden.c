/* Losses against Keras (tests/golden/metrics.py): values, reductions with weights and gradients, in
 * float32 and float64, eagerly and in a compiled function. */
#include "nn/golden_file.h"

#include <tilth/graph/function.h>
#include <tilth/nn/losses.h>
#include <tilth/ops/gradient.h>

static tl_engine *engine;
static tl_registry *registry;
static int64_t case_count;

typedef struct holder {
    tl_oneof loss;
} holder;
static const tl_field holder_fields[] = {
    TL_F(holder, loss, .kind = &tl_kind_loss, .help = "which one"),
    TL_F_END,
};
static const tl_desc holder_desc = {
    .name = "holder",
    .help = "a loss",
    .size = sizeof(holder),
    .fields = holder_fields,
};

static int open_all(void **state)
{
    (void)state;
    golden_begin(TEST_DATA "/golden/losses.bin", &registry, &tl_losses_module, &engine);
    case_count = (int64_t)golden_number(golden_peek("count"), 0);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    golden_end(&registry, &engine);
    return 0;
}

static void check(const tl_loss *l, const tl_tensor *found, int64_t number, const char *what,
                  double most)
{
    const golden *wanted = golden_peek("%02d/%s", (int)number, what);
    double values[512];
    char spec[TL_TENSOR_TEXT], shape[TL_SHAPE_TEXT];
    assert_non_null(wanted);
    assert_non_null(found);
    if (!tl_shape_equal(&found->shape, &wanted->shape))
        fail_msg("case %d, %s: %s is %s, not %s", (int)number, l->name, what,
                 tl_tensor_spec(spec, found), tl_shape_text(shape, &wanted->shape));
    assert_ok(tl_tensor_get_doubles(found, values, tl_tensor_count(found)));
    for (int64_t i = 0; i < tl_tensor_count(found); i++) {
        double right = golden_number(wanted, i);
        if (!(fabs(values[i] - right) <= most * fmax(1, fabs(right))))
            fail_msg("case %d, %s: element %d of %s is %.12g and should be %.12g", (int)number,
                     l->name, (int)i, what, values[i], right);
    }
}

static tl_status step(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_loss *l = self;
    tl_tensor *y = tl_tensors_get(c, in, "y"), *p = tl_tensors_get(c, in, "p"), *gradient;
    tl_tensor *w = tl_tensors_get(c, in, "w");
    bool before = tl_ctx_set_taping(c, true);
    TL_TRY(tl_watch(p));
    tl_tensor *values = tl_loss_values(l, c, y, p);
    tl_tensor *one = tl_loss_reduce(c, values, w, TL_REDUCTION_SUM_OVER_BATCH_SIZE);
    TL_TRY(tl_ctx_status(c));
    TL_TRY(tl_gradient(c, one, &p, 1, &gradient));
    tl_ctx_set_taping(c, before);
    tl_tensors_put(c, out, "values", values);
    tl_tensors_put(c, out, "gradient", gradient);
    for (int r = 0; r <= TL_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT; r++) {
        l->reduction = (tl_reduction)r;
        tl_tensors_put(c, out, tl_reduction_names[r], tl_loss_call(l, c, y, p, w));
    }
    return tl_ctx_status(c);
}

static void check_case(int64_t number, tl_dtype dtype, bool compiled)
{
    static const char *const wanted[] = {"values", "gradient", "sum_over_batch_size",
                                         "sum",    "none",     "mean_with_sample_weight"};
    tl_config *config;
    tl_ctx *c;
    tl_loss *l;
    tl_function *f = NULL;
    tl_tensors in = {0}, out = {0};
    const holder *h =
        golden_config(&config, registry, &holder_desc, golden_peek("%02d/config", (int)number));
    assert_ok(tl_loss_new_of(&l, &h->loss, registry, NULL));
    assert_ok(tl_ctx_new(&c, engine));
    tl_tensors_put(c, &in, "y", golden_tensor(c, golden_peek("%02d/y", (int)number), dtype));
    tl_tensors_put(c, &in, "p", golden_tensor(c, golden_peek("%02d/p", (int)number), dtype));
    tl_tensors_put(c, &in, "w", golden_tensor(c, golden_peek("%02d/w", (int)number), dtype));
    if (compiled)
        assert_ok(
            tl_function_new(&f, &(tl_function_args){.engine = engine, .body = step, .self = l}));
    assert_ok(compiled ? tl_function_call(f, c, &in, &out) : step(l, c, &in, &out));
    for (int i = 0; i < (int)TL_COUNT(wanted); i++)
        check(l, tl_tensors_peek(&out, wanted[i]), number, wanted[i],
              dtype == TL_F64 ? 1e-9 : 2e-5);
    tl_function_free(&f);
    tl_ctx_free(&c);
    tl_loss_free(&l);
    tl_config_free(&config);
}

static void losses_agree_in_float64(void **state)
{
    (void)state;
    for (int64_t i = 0; i < case_count; i++) check_case(i, TL_F64, false);
}

static void losses_agree_in_float32(void **state)
{
    (void)state;
    for (int64_t i = 0; i < case_count; i++) check_case(i, TL_F32, false);
}

static void losses_agree_when_captured(void **state)
{
    (void)state;
    for (int64_t i = 0; i < case_count; i++) check_case(i, TL_F32, true);
}

// Every class that ships is in some case.
static void every_loss_has_a_case(void **state)
{
    (void)state;
    for (int64_t k = 0; k < tl_registry_count(registry, &tl_kind_loss); k++) {
        const char *name = tl_registry_at(registry, &tl_kind_loss, k)->name;
        char text[96];
        bool found = false;
        snprintf(text, sizeof text, "{\"loss\": {\"type\": \"%s\",", name);
        for (int64_t i = 0; i < case_count; i++) {
            const golden *g = golden_peek("%02d/config", (int)i);
            found |= strncmp(g->values, text, strlen(text)) == 0;
        }
        if (!found) fail_msg("losses.bin has no case of '%s'", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_agree_in_float64),
        cmocka_unit_test(losses_agree_in_float32),
        cmocka_unit_test(losses_agree_when_captured),
        cmocka_unit_test(every_loss_has_a_case),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
