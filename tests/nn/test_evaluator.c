/* Evaluators: metrics that run on the host. */
#include "nn/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>
#include <tilth/nn/evaluator.h>

// The median of all errors: no sum of tensors gives it.
typedef struct median {
    tl_evaluator base;
    struct {
        double *items;
        int64_t count, capacity;
    } errors;
    int resets;
} median;
static int disposed;

static tl_status median_build(tl_evaluator *e)
{
    return strcmp(e->name, "bad") == 0 ? TL_FAIL(TL_EINVAL, "it was told to fail") : TL_OK;
}

static tl_status median_update(tl_evaluator *e, const tl_tensors *groundtruths,
                               const tl_tensors *predictions)
{
    median *m = (median *)e;
    double y[16], p[16];
    const tl_tensor *truth = tl_tensors_peek(groundtruths, "y"),
                    *found = tl_tensors_peek(predictions, "p");
    if (!truth || !found) return TL_FAIL(TL_ENOTFOUND, "there must be 'y' and 'p'");
    TL_TRY(tl_tensor_get_doubles(truth, y, tl_tensor_count(truth)));
    TL_TRY(tl_tensor_get_doubles(found, p, tl_tensor_count(found)));
    for (int64_t i = 0; i < tl_tensor_count(truth); i++)
        if (!TL_VEC_PUSH(&m->errors, fabs(y[i] - p[i]))) return TL_ENOMEM;
    return TL_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tl_status median_result(tl_evaluator *e, tl_logs *into)
{
    median *m = (median *)e;
    if (!m->errors.count) return TL_FAIL(TL_ESTATE, "nothing came");
    qsort(m->errors.items, (size_t)m->errors.count, sizeof(double), compare);
    return tl_logs_put(into, e->name, m->errors.items[m->errors.count / 2]);
}

static void median_reset(tl_evaluator *e)
{
    ((median *)e)->errors.count = 0;
    ((median *)e)->resets++;
}

static void median_dispose(tl_evaluator *e)
{
    TL_VEC_FREE(&((median *)e)->errors);
    disposed++;
}

static const tl_evaluator_class median_class = {
    .cls = TL_CLASS(tl_evaluator_class, "median", NULL, median, NULL, .help = "of the test"),
    .build = median_build,
    .update = median_update,
    .result = median_result,
    .reset = median_reset,
    .dispose = median_dispose,
};

static tl_status give(tl_evaluator *e, const double *y, const double *p)
{
    tl_tensors truth = {0}, found = {0};
    tl_tensors_put(c, &truth, "y", tl_from_doubles(c, TL_F32, TL_SHAPE(3), y));
    tl_tensors_put(c, &found, "p", tl_from_doubles(c, TL_F32, TL_SHAPE(3), p));
    TL_TRY(tl_ctx_status(c));
    return tl_evaluator_update(e, &truth, &found);
}

static void results_are_told_and_forgotten(void **state)
{
    (void)state;
    tl_evaluator *e;
    tl_logs *logs;
    disposed = 0;
    assert_ok(tl_logs_new(&logs));
    assert_ok(tl_evaluator_new(&e, &median_class, NULL, "middle"));
    assert_ok(give(e, (double[]){1, 2, 3}, (double[]){1, 2, 9}));
    assert_ok(give(e, (double[]){1, 2, 3}, (double[]){2, 3, 9}));
    assert_ok(tl_evaluator_tell(e, logs));
    assert_near(tl_logs_number_or(logs, "middle", NAN), 1, 0);
    assert_int_equal(((median *)e)->errors.count, 0);
    assert_int_equal(((median *)e)->resets, 1);
    assert_fails(tl_evaluator_tell(e, logs), TL_ESTATE, "evaluator 'middle': nothing came");
    assert_int_equal(((median *)e)->resets, 2);
    assert_fails(tl_evaluator_update(e, &(tl_tensors){0}, &(tl_tensors){0}), TL_ENOTFOUND,
                 "evaluator 'middle': there must be");
    tl_evaluator_free(&e);
    assert_null(e);
    assert_int_equal(disposed, 1);
    tl_logs_free(&logs);
}

static void bad_classes_are_refused(void **state)
{
    (void)state;
    static const tl_evaluator_class lame = {
        .cls = TL_CLASS(tl_evaluator_class, "lame", NULL, median, NULL, .help = "of the test"),
        .update = median_update,
        .result = median_result,
    };
    tl_evaluator *e;
    disposed = 0;
    assert_fails(tl_evaluator_new(&e, &lame, NULL, NULL), TL_EINVAL, "reset");
    assert_fails(tl_evaluator_new(&e, &median_class, NULL, "bad"), TL_EINVAL,
                 "evaluator 'bad': it was told");
    assert_null(e);
    assert_int_equal(disposed, 1);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    for (int64_t nth = 1;; nth++) {
        tl_evaluator *e = NULL;
        tl_logs *logs = NULL;
        tl_mark mark = tl_ctx_begin(c);
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 2);
        int64_t before = tl_alloc_calls();
        tl_status st = tl_logs_new(&logs);
        if (st == TL_OK) st = tl_evaluator_new(&e, &median_class, NULL, NULL);
        if (st == TL_OK) st = give(e, (double[]){1, 2, 3}, (double[]){1, 2, 9});
        if (st == TL_OK) st = tl_evaluator_tell(e, logs);
        bool reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        tl_evaluator_free(&e);
        tl_logs_free(&logs);
        tl_ctx_end(c, mark);
        assert_int_equal(st, reached ? TL_ENOMEM : TL_OK);
        if (!reached) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(results_are_told_and_forgotten),
        LAB_TEST(bad_classes_are_refused),
        LAB_TEST(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
