/* needs: threads */
#include "test.h"

#include <pthread.h>
#include <tilth/base/alloc.h>
#include <tilth/core/ctx.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>

#include "core/inner/storage.h"

/* --- backends --------------------------------------------------------------------------------- */

#define FILL(name, number)                                                                         \
    static tl_status name(const tl_run *run, const tl_node *n)                                     \
    {                                                                                              \
        (void)run;                                                                                 \
        float *y = tl_kernel_data(n->out[0]);                                                      \
        for (int64_t i = 0, count = tl_tensor_count(n->out[0]); i < count; i++) y[i] = number;     \
        return TL_OK;                                                                              \
    }
FILL(one, 1)
FILL(two, 2)
FILL(three, 3)

static const tl_kernel low_rows[] = {{TL_OP_exp, TL_F32, one, 0}, {TL_OP_add, TL_F32, one, 0}};
static const tl_kernels low_kernels = {low_rows, TL_COUNT(low_rows)};
static const tl_kernels *const low_tables[] = {&low_kernels, NULL};
static const tl_backend_class low = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "low", .help = "ones"},
    .tables = low_tables,
};

static const tl_kernel early_rows[] = {{TL_OP_exp, TL_F32, two, 0}, {TL_OP_exp, TL_F32, three, 0}};
static const tl_kernel late_rows[] = {{TL_OP_mul, TL_F32, two, 0}};
static const tl_kernels early_kernels = {early_rows, TL_COUNT(early_rows)};
static const tl_kernels late_kernels = {late_rows, TL_COUNT(late_rows)};
static const tl_kernels *const high_tables[] = {&early_kernels, &late_kernels, NULL};

static int64_t watched;

static tl_status watch(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    watched++;
    if (call->op->op == TL_OP_mul) return TL_FAIL(TL_EUNSUPPORTED, "not on Sundays");
    return kernel(run, call);
}

static const tl_backend_class high = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "high", .help = "twos and threes"},
    .fallback = &low,
    .tables = high_tables,
    .around = watch,
};

static tl_status no_machine(void)
{
    return TL_FAIL(TL_EUNSUPPORTED, "this machine has no toaster");
}

static const tl_backend_class elsewhere = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "toaster",
            .help = "for other machines"},
    .supported = no_machine,
};

static tl_engine *open_engine(const tl_backend_class *backend, int threads)
{
    tl_engine *e;
    assert_ok(tl_engine_new(&e, &(tl_engine_args){.backend = backend, .threads = threads}));
    return e;
}

static double first_of(tl_tensor *t)
{
    double values[16];
    assert_non_null(t);
    assert_ok(tl_tensor_get_doubles(t, values, tl_tensor_count(t)));
    return values[0];
}

static tl_tensor *zeros_in(tl_ctx *c, tl_dtype dtype)
{
    const double nothing[2] = {0, 0};
    return tl_from_doubles(c, dtype, TL_SHAPE(2), nothing);
}

static void kernels_come_from_the_best_table(void **state)
{
    (void)state;
    tl_engine *e = open_engine(&high, 1);
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, e));
    tl_tensor *x = zeros_in(c, TL_F32), *whole = zeros_in(c, TL_F64);
    assert_ptr_equal(tl_engine_backend(e), &high);
    watched = 0;
    assert_near(first_of(tl_exp(c, x)), 3, 0);    // later rows win
    assert_near(first_of(tl_add(c, x, x)), 1, 0); // from the fallback
    assert_int_equal(watched, 2);
    assert_null(tl_mul(c, x, x));
    assert_fails(tl_ctx_status(c), TL_EUNSUPPORTED, "mul: not on Sundays");
    tl_ctx_clear(c);
    assert_null(tl_exp(c, whole));
    assert_fails(tl_ctx_status(c), TL_EUNSUPPORTED,
                 "exp: there is no exp of float64 on the backend 'high'");
    tl_ctx_free(&c);
    tl_engine_free(&e);
    tl_engine_free(&e);
}

static void a_backend_may_not_run_here(void **state)
{
    (void)state;
    tl_engine *e = NULL;
    assert_fails(tl_engine_new(&e, &(tl_engine_args){.backend = &elsewhere}), TL_EUNSUPPORTED,
                 "backend 'toaster': this machine has no toaster");
    assert_null(e);
    assert_ok(tl_class_verify(&tl_kind_backend, &high.cls));
}

static void threads_are_as_many_as_asked(void **state)
{
    (void)state;
    tl_engine *e = open_engine(&low, 3);
    assert_int_equal(tl_pool_threads(tl_engine_threads(e)), 3);
    tl_engine_free(&e);
    e = open_engine(&low, 0);
    assert_int_equal(tl_pool_threads(tl_engine_threads(e)), tl_pool_default_threads());
    tl_engine_free(&e);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t failures = 0;
    for (int64_t nth = 1;; nth++) {
        tl_engine *e = NULL;
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_engine_new(&e, &(tl_engine_args){.backend = &low, .threads = 2});
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) {
            tl_engine_free(&e);
            break;
        }
        assert_int_equal(st, TL_ENOMEM);
        assert_null(e);
        failures++;
    }
    assert_true(failures >= 2);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_memory_stats stats_of(const tl_engine *e)
{
    tl_memory_stats s;
    tl_engine_memory(e, &s);
    return s;
}

static tl_tensor *bytes(tl_engine *e, int64_t count)
{
    tl_tensor *t;
    assert_ok(tl_tensor_new(&t, e, TL_U8, TL_SHAPE(count)));
    return t;
}

static void memory_is_counted_and_kept(void **state)
{
    (void)state;
    tl_engine *e = open_engine(&low, 1);
    tl_memory_stats s = stats_of(e);
    assert_true(s.used == 0 && s.peak == 0 && s.cached == 0 && s.allocations == 0);
    tl_tensor *a = bytes(e, 64), *b = bytes(e, 128), *none = bytes(e, 0);
    s = stats_of(e);
    assert_true(s.used == 256 && s.peak == 256 && s.cached == 0 && s.allocations == 3);
    tl_tensor_free(&b);
    tl_tensor_free(&none);
    s = stats_of(e);
    assert_true(s.used == 64 && s.peak == 256 && s.cached == 192 && s.allocations == 3);
    b = bytes(e, 100); // of the same size class: from what was kept
    s = stats_of(e);
    assert_true(s.used == 192 && s.cached == 64 && s.allocations == 3);
    tl_engine_reset_peak(e);
    assert_int_equal(stats_of(e).peak, 192);
    tl_tensor_free(&a);
    tl_engine_trim(e);
    s = stats_of(e);
    assert_true(s.used == 128 && s.peak == 192 && s.cached == 0);
    tl_tensor_free(&b);
    tl_engine_free(&e);
}

static void sizes_waste_little(void **state)
{
    (void)state;
    tl_engine *e = open_engine(&low, 1);
    size_t before = 0;
    for (int64_t n = 0; n < 70000; n += n < 2000 ? 1 : 61) {
        tl_tensor *t = bytes(e, n), *again;
        size_t capacity = t->storage->capacity;
        assert_true(capacity >= (size_t)n && capacity >= before);
        assert_true(capacity % 64 == 0 && (double)capacity <= (double)n * 1.25 + 64);
        int class_ = t->storage->size_class;
        tl_tensor_free(&t);
        again = bytes(e, (int64_t)capacity); // the largest of the class
        assert_int_equal(again->storage->size_class, class_);
        assert_int_equal(again->storage->capacity, capacity);
        tl_tensor_free(&again);
        before = capacity;
    }
    tl_engine_free(&e);
}

static void what_cannot_be_had_leaves_no_trace(void **state)
{
    (void)state;
    tl_engine *e = open_engine(&low, 1);
    tl_tensor *a = bytes(e, 64), *t = NULL;
    const int64_t sizes[] = {INT64_C(1) << 50, INT64_C(1) << 59, INT64_MAX / 8};
    for (int i = 0; i < TL_COUNT(sizes); i++)
        assert_fails(tl_tensor_new(&t, e, TL_U8, TL_SHAPE(sizes[i])), TL_ENOMEM,
                     "bytes, and those that are alive hold 64");
    tl_memory_stats s = stats_of(e);
    assert_true(s.used == 64 && s.peak == 64);
    tl_tensor_free(&a);
    tl_engine_free(&e);
}

static void kept_memory_helps_out(void **state)
{
    (void)state;
    tl_engine *e = open_engine(&low, 1);
    tl_tensor *t = bytes(e, 1000);
    tl_tensor_free(&t);
    assert_true(stats_of(e).cached > 0);
    tl_alloc_fail_at(2, 1); // behind the header: the system has no more
    tl_status st = tl_tensor_new(&t, e, TL_U8, TL_SHAPE(5000));
    tl_alloc_fail_at(0, 0);
    assert_ok(st); // until what is kept was given back
    assert_int_equal(stats_of(e).cached, 0);
    tl_tensor_free(&t);
    tl_engine_free(&e);
}

/* --- several threads -------------------------------------------------------------------------- */

typedef struct job {
    tl_engine *engine;
    const tl_tensor *shared;
    int number;
    double result;
    bool failed;
} job;

static void *compute(void *payload)
{
    job *j = payload;
    tl_ctx *c;
    j->failed = true;
    if (tl_ctx_new(&c, j->engine) != TL_OK) return NULL;
    for (int i = 0; i < 50; i++) {
        tl_mark m = tl_ctx_begin(c);
        tl_ctx_enter(c, "net");
        tl_tensor *own;
        if (tl_tensor_keep(&own, j->shared) != TL_OK) return NULL;
        tl_tensor *x = tl_mul(c, own, tl_number(c, TL_F32, j->number));
        tl_tensor *y =
            tl_sum(c, tl_add(c, x, tl_ones(c, TL_F32, TL_SHAPE(10 + i, 16))), TL_ALL, false);
        bool ok = y && tl_tensor_item(y, &j->result) == TL_OK;
        if (i % 10 == 3) { // errors of one context are its own
            ok &= tl_add(c, y, NULL) == NULL && tl_ctx_status(c) == TL_EINVAL;
        }
        tl_ctx_leave(c);
        tl_tensor_free(&own);
        tl_ctx_end(c, m);
        if (!ok) {
            tl_ctx_free(&c);
            return NULL;
        }
    }
    tl_ctx_free(&c);
    j->failed = false;
    return NULL;
}

static void contexts_run_side_by_side(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    tl_engine *e = open_engine(&tl_backend_reference, 2);
    tl_tensor *shared;
    double numbers[16];
    for (int i = 0; i < 16; i++) numbers[i] = i;
    assert_ok(tl_tensor_new(&shared, e, TL_F32, TL_SHAPE(16)));
    assert_ok(tl_tensor_set_doubles(shared, numbers, 16));
    job jobs[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.engine = e, .shared = shared, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(jobs[i].failed);
        assert_near(jobs[i].result, 59 * (120.0 * i + 16), 0);
    }
    tl_tensor_free(&shared);
    assert_int_equal(stats_of(e).used, 0);
    tl_engine_free(&e);
}

static void *lease_often(void *payload)
{
    job *j = payload;
    for (int i = 0; i < 2000; i++) {
        tl_lease l;
        if (tl_lease_read(&l, j->shared) != TL_OK) continue;
        j->result += ((const float *)l.data)[0];
        assert_ok(tl_lease_end(&l));
    }
    return NULL;
}

// Readers and a writer never meet: the writer's two elements are always equal to a reader.
static void leases_hold_between_threads(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    tl_engine *e = open_engine(&low, 1);
    tl_tensor *t, *headers[THREADS];
    job jobs[THREADS];
    pthread_t threads[THREADS];
    assert_ok(tl_tensor_new(&t, e, TL_F32, TL_SHAPE(2)));
    assert_ok(tl_tensor_set_doubles(t, (const double[]){0, 0}, 2));
    for (int i = 0; i < THREADS; i++) {
        assert_ok(tl_tensor_keep(&headers[i], t));
        jobs[i] = (job){.shared = headers[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, lease_often, &jobs[i]), 0);
    }
    for (int i = 0; i < 2000; i++) {
        tl_lease l;
        if (tl_lease_write(&l, t) != TL_OK) continue;
        ((float *)l.data)[0] = 0; // a race, for ThreadSanitizer, if the lease did not hold
        assert_ok(tl_lease_end(&l));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        tl_tensor_free(&headers[i]);
    }
    tl_lease l;
    assert_ok(tl_lease_write(&l, t)); // all were ended
    assert_ok(tl_lease_end(&l));
    tl_tensor_free(&t);
    tl_engine_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_come_from_the_best_table),
        cmocka_unit_test(a_backend_may_not_run_here),
        cmocka_unit_test(threads_are_as_many_as_asked),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(memory_is_counted_and_kept),
        cmocka_unit_test(sizes_waste_little),
        cmocka_unit_test(what_cannot_be_had_leaves_no_trace),
        cmocka_unit_test(kept_memory_helps_out),
        cmocka_unit_test(contexts_run_side_by_side),
        cmocka_unit_test(leases_hold_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
