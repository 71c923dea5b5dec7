/* Devices, further: what is left of a failure, queues of copies, memory that several queues use,
 * and what a class may have beside copies and fills; on the fake device. */
#include "core/values.h"

#include <stdlib.h>
#include <tilth/base/alloc.h>
#include <tilth/check/check.h>
#include <tilth/core/ctx.h>
#include <tilth/graph/function.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/update.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/graph/program.h>

#include "core/inner/engine.h"
#include "core/inner/tensor.h"
#include "fake/fake_device.h"

typedef struct fixture {
    tl_engine *engine;
    tl_ctx *c;
} fixture;

static void open_on(fixture *f, const tl_backend_class *backend)
{
    assert_ok(tl_engine_new(&f->engine, &(tl_engine_args){.backend = backend, .threads = 1}));
    assert_ok(tl_ctx_new(&f->c, f->engine));
}

static void close_all(fixture *f)
{
    tl_ctx_free(&f->c);
    tl_engine_free(&f->engine);
}

static int setup(void **state)
{
    static fixture f;
    open_on(&f, &fake_backend);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    close_all(*state);
    fake_fail_at(0);
    assert_int_equal(fake_pending(), 0);
    return 0;
}

static tl_tensor *numbers(fixture *f, int64_t count)
{
    double values[64];
    for (int i = 0; i < 64; i++) values[i] = i;
    tl_tensor *t = tl_from_doubles(f->c, TL_F32, TL_SHAPE(count), values);
    assert_non_null(t);
    return t;
}

static tl_tensor *fails_later(fixture *f, tl_tensor *x)
{
    const int64_t beyond[] = {7};
    return tl_gather(f->c, x, tl_from(f->c, TL_I64, TL_SHAPE(1), beyond), 0);
}

/* --- what a failure leaves -------------------------------------------------------------------- */

static void what_was_not_computed_is_not_read(void **state)
{
    fixture *f = *state;
    tl_lease l;
    double value;
    tl_tensor *x = numbers(f, 3), *before = tl_add(f->c, x, x), *wrong = fails_later(f, x),
              *behind = tl_mul(f->c, x, x);
    assert_fails(tl_engine_wait(f->engine), TL_EINVAL, "gather: index 7");
    assert_ok(tl_engine_wait(f->engine)); // forgotten, but not by what it has left
    VALUES(before, 0, 2, 4);
    assert_fails(tl_lease_read(&l, wrong), TL_EINVAL, "not computed: gather: index 7");
    assert_fails(tl_lease_read(&l, behind), TL_EINVAL, "not computed: gather: index 7");
    assert_fails(tl_lease_write(&l, behind), TL_EINVAL, "not computed: gather: index 7");
    assert_fails(tl_tensor_item(wrong, &value), TL_EINVAL, "not computed");
    assert_fails(tl_tensor_copy(x, behind), TL_EINVAL, "not computed: gather: index 7");
    assert_null(tl_add(f->c, x, behind)); // nor does anything become of it
    assert_fails(tl_ctx_status(f->c), TL_EINVAL, "add: input 1: not computed: gather: index 7");
    tl_ctx_clear(f->c);
    VALUES(tl_add(f->c, x, x), 0, 2, 4);
    assert_ok(tl_lease_discard(&l, behind)); // what is written anew is there
    for (int i = 0; i < 3; i++) ((float *)l.data)[i] = (float)i;
    assert_ok(tl_lease_end(&l));
    VALUES(tl_add(f->c, behind, x), 0, 2, 4);
}

static void an_assignment_makes_it_good(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, 3), *sum = tl_zeros(f->c, TL_F32, TL_SHAPE(3));
    (void)fails_later(f, x);
    tl_assign_add(f->c, sum, x);
    assert_fails(tl_engine_wait(f->engine), TL_EINVAL, "index 7");
    tl_assign_add(f->c, sum, x);
    assert_fails(tl_ctx_status(f->c), TL_EINVAL, "input 0: not computed");
    tl_ctx_clear(f->c);
    tl_assign(f->c, sum, x);
    VALUES(sum, 0, 1, 2);
}

static void what_was_before_a_failure_is_read(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, 3), *before = tl_add(f->c, x, x), *wrong = fails_later(f, x);
    double value;
    assert_fails(tl_tensor_item(wrong, &value), TL_EINVAL, "gather: index 7");
    VALUES(before, 0, 2, 4);
    assert_fails(tl_engine_wait(f->engine), TL_EINVAL, "gather: index 7");
}

static void many_failures_are_told_apart(void **state)
{
    fixture *f = *state;
    tl_lease l;
    tl_tensor *x = numbers(f, 3), *early = tl_add(f->c, x, x), *lost[40], *good = NULL;
    for (int i = 0; i < 40; i++) {
        lost[i] = fails_later(f, x);
        assert_fails(tl_engine_wait(f->engine), TL_EINVAL, "index 7");
        good = tl_mul(f->c, x, x);
        VALUES(good, 0, 1, 4);
    }
    for (int i = 0; i < 40; i++)
        assert_fails(tl_lease_read(&l, lost[i]), TL_EINVAL, "not computed: gather");
    VALUES(early, 0, 2, 4);
    VALUES(good, 0, 1, 4);
}

static void recovering_keeps_the_message(void **state)
{
    fixture *f = *state;
    double value;
    tl_tensor *x = numbers(f, 3), *wrong = fails_later(f, x);
    tl_status st = tl_tensor_item(wrong, &value);
    assert_int_equal(tl_engine_recover(f->engine, st), TL_EINVAL);
    assert_non_null(strstr(tl_error_message(), "gather: index 7"));
    assert_ok(tl_engine_wait(f->engine));
    VALUES(tl_add(f->c, x, x), 0, 2, 4);
    assert_ok(tl_engine_recover(f->engine, TL_OK));
}

static tl_status doubled(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensors_put(c, out, "y", tl_mul(c, tl_tensors_peek(in, "x"), self));
    return tl_ctx_status(c);
}

static void programs_take_nothing_that_was_not_computed(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, 3), *weight;
    tl_function *fn;
    assert_ok(tl_tensor_new(&weight, f->engine, TL_F32, TL_SHAPE(3)));
    assert_ok(tl_tensor_set_doubles(weight, (const double[]){1, 2, 3}, 3));
    assert_ok(tl_function_new(&fn, &(tl_function_args){.engine = f->engine,
                                                       .name = "doubled",
                                                       .body = doubled,
                                                       .self = weight,
                                                       .interpret = true}));
    tl_tensors in = {0}, out = {0}, wrong = {0}, none = {0};
    tl_tensors_put(f->c, &in, "x", x);
    assert_ok(tl_function_call(fn, f->c, &in, &out));
    VALUES(tl_tensors_peek(&out, "y"), 0, 2, 6);
    (void)fails_later(f, x);
    tl_tensors_put(f->c, &wrong, "x", tl_add(f->c, x, x));
    tl_assign_add(f->c, weight, x);
    assert_fails(tl_engine_wait(f->engine), TL_EINVAL, "index 7");
    // the weight
    assert_fails(tl_function_call(fn, f->c, &in, &none), TL_EINVAL,
                 "not computed: gather: index 7");
    assert_ok(tl_tensor_set_doubles(weight, (const double[]){1, 2, 3}, 3));
    assert_fails(tl_function_call(fn, f->c, &wrong, &none), TL_EINVAL,
                 "input 'x': not computed: gather: index 7");
    tl_tensors again = {0};
    assert_ok(tl_function_call(fn, f->c, &in, &again));
    VALUES(tl_tensors_peek(&again, "y"), 0, 2, 6);
    tl_function_free(&fn);
    tl_tensor_free(&weight);
}

/* --- queues of copies ------------------------------------------------------------------------- */

static void a_lease_leaves_later_work_alone(void **state)
{
    (void)state;
    int spared = 0;
    for (int seed = 1; seed <= 16; seed++) {
        fixture f;
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("TILTH_FAKE_SEED", text, 1);
        open_on(&f, &fake_backend);
        tl_tensor *x = numbers(&f, 3), *early = tl_add(f.c, x, x), *late = early;
        for (int i = 0; i < 8; i++) late = tl_add(f.c, late, x);
        VALUES(early, 0, 2, 4);
        spared += fake_pending() > 0;
        VALUES(late, 0, 10, 20);
        close_all(&f);
    }
    unsetenv("TILTH_FAKE_SEED");
    assert_true(spared > 0);
}

/* Elements of eight tensors, as they should be and as they are, while leases, ops and copies follow
 * each other. */
static void walk(fixture *f, tl_rng *r)
{
    enum { TENSORS = 8, COUNT = 5 };
    tl_tensor *t[TENSORS];
    double wanted[TENSORS][COUNT];
    for (int i = 0; i < TENSORS; i++) {
        assert_ok(tl_tensor_new(&t[i], f->engine, TL_F32, TL_SHAPE(COUNT)));
        for (int k = 0; k < COUNT; k++) wanted[i][k] = i * k;
        assert_ok(tl_tensor_set_doubles(t[i], wanted[i], COUNT));
    }
    for (int step = 0; step < 60; step++) {
        int a = (int)(tl_rng_u64(r) % TENSORS), b = (a + 1) % TENSORS;
        switch (tl_rng_u64(r) % 5) {
        case 0:
            tl_assign_add(f->c, t[a], t[b]);
            for (int k = 0; k < COUNT; k++) wanted[a][k] += wanted[b][k];
            break;
        case 1: {
            tl_lease l;
            assert_ok(tl_lease_write(&l, t[a]));
            ((float *)l.data)[step % COUNT] = (float)step;
            assert_ok(tl_lease_end(&l));
            wanted[a][step % COUNT] = step;
            break;
        }
        case 2:
            assert_ok(tl_tensor_copy(t[a], t[b]));
            memcpy(wanted[a], wanted[b], sizeof wanted[a]);
            break;
        case 3: { // its memory is another's at once
            tl_tensor_free(&t[a]);
            assert_ok(tl_tensor_new(&t[a], f->engine, TL_F32, TL_SHAPE(COUNT)));
            assert_ok(tl_tensor_set_doubles(t[a], wanted[b], COUNT));
            memcpy(wanted[a], wanted[b], sizeof wanted[a]);
            break;
        }
        default: assert_values(t[a], wanted[a], COUNT);
        }
    }
    for (int i = 0; i < TENSORS; i++) {
        assert_values(t[i], wanted[i], COUNT);
        tl_tensor_free(&t[i]);
    }
}

static void any_order_of_queues_gives_the_same(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 24; seed++) {
        fixture f;
        tl_rng r;
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("TILTH_FAKE_SEED", text, 1);
        open_on(&f, &fake_backend);
        tl_rng_init(&r, (uint64_t)seed);
        walk(&f, &r);
        close_all(&f);
    }
    unsetenv("TILTH_FAKE_SEED");
}

static void memory_waits_for_copies_in_other_queues(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, 3), *y = tl_add(f->c, x, x);
    tli_image first, second;
    assert_ok(tli_image_begin(&first, y, true));
    void *staging = first.tensor.storage->data, *elements = y->storage->data;
    tli_image_close(&first); // its copy has not run
    assert_ok(tli_image_begin(&second, x, false));
    assert_true(second.tensor.storage->data != staging);
    tl_ctx_drop(f->c, y);
    assert_true(tl_add(f->c, x, x)->storage->data != elements);
    tli_image_close(&second);
    assert_ok(tl_queue_wait(f->engine->out, tl_queue_ticket(f->engine->out)));
    assert_ok(tli_image_begin(&first, x, false));
    tli_image_close(&first);
}

/* --- kernels of the host ---------------------------------------------------------------------- */

static const tl_backend_class bare = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "bare", .help = "has no kernels"},
    .fallback = &tl_backend_reference,
    .device = &fake_device,
};

static void staged_calls_wait_once_for_all_inputs(void **state)
{
    (void)state;
    fixture f;
    open_on(&f, &bare);
    tl_tensor *x = numbers(&f, 3), *y = tl_add(f.c, x, x);
    int64_t before = fake_waits();
    tl_tensor *z = tl_where(f.c, tl_less(f.c, x, y), x, y);
    assert_true(fake_waits() - before <= 4); // two calls: inputs, outputs
    VALUES(z, 0, 1, 2);
    close_all(&f);
}

static void staged_calls_are_checked(void **state)
{
    (void)state;
    fixture f;
    tl_check *check;
    assert_ok(tl_check_new(&check, &bare, NULL));
    open_on(&f, tl_check_backend(check));
    tl_tensor *x = numbers(&f, 3);
    VALUES(tl_add(f.c, x, x), 0, 2, 4);
    assert_null(tl_log(f.c, x));
    assert_fails(tl_ctx_status(f.c), TL_EINVAL,
                 "log: output 0, float32[3], is -inf at element [0]");
    tl_ctx_clear(f.c);
    assert_int_equal(tl_check_count(check), 1);
    close_all(&f);
    tl_check_free(&check);
}

static void an_input_may_be_what_is_written(void **state)
{
    (void)state;
    fixture f;
    open_on(&f, &bare);
    tl_tensor *x = numbers(&f, 3), *low, *high;
    tl_assign_add(f.c, x, x);
    VALUES(x, 0, 2, 4);
    assert_ok(tl_tensor_part(&low, x, 0, TL_SHAPE(2)));
    assert_ok(tl_tensor_part(&high, x, 1, TL_SHAPE(2)));
    tl_assign_add(f.c, low, high); // over each other, and not the same
    assert_fails(tl_ctx_status(f.c), TL_EUNSUPPORTED,
                 "input 1 lies over input 0, which is written");
    tl_ctx_clear(f.c);
    tl_tensor_free(&low);
    tl_tensor_free(&high);
    close_all(&f);
}

static void engines_of_one_device_are_told_apart(void **state)
{
    fixture *f = *state, other;
    open_on(&other, &fake_backend);
    tl_tensor *x = numbers(f, 3), *y = numbers(&other, 3);
    assert_null(tl_add(f->c, x, y));
    assert_fails(tl_ctx_status(f->c), TL_EINVAL,
                 "input 1, float32[3], is of another engine of 'fake:0'");
    tl_ctx_clear(f->c);
    assert_ok(tl_tensor_copy(x, y));
    close_all(&other);
}

/* --- further means of a class ----------------------------------------------------------------- */

static tl_status add_one(void *self)
{
    ++*(float *)self;
    return TL_OK;
}

/* As a kernel of a real device: launched, and then counted. */
static tl_status exp_later(const tl_run *run, const tl_node *call)
{
    const size_t bytes = tl_tensor_bytes(call->out[0]);
    TL_TRY(run->queue->device->cls->copy(run->queue, tl_kernel_data(call->out[0]),
                                         tl_kernel_data(call->in[0]), bytes));
    TL_TRY(
        fake_launch(run->queue, add_one, fake_address(run->queue, tl_kernel_data(call->out[0]))));
    uint64_t ticket = run->queue->device->cls->issue(run->queue);
    assert_int_equal(ticket, tl_queue_ticket(run->queue));
    return TL_OK;
}
static const tl_kernel late_rows[] = {{TL_OP_exp, TL_F32, exp_later, 0}};
static const tl_kernels late_kernels = {late_rows, TL_COUNT(late_rows)};
static const tl_kernels *const late_tables[] = {&late_kernels, NULL};
static const tl_backend_class late = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "late", .help = "launches by itself"},
    .fallback = &tl_backend_reference,
    .tables = late_tables,
    .device = &fake_device,
};

static void kernels_count_what_they_launch(void **state)
{
    (void)state;
    fixture f;
    open_on(&f, &late);
    tl_tensor *y = tl_exp(f.c, numbers(&f, 3));
    assert_true(fake_pending() > 0);
    VALUES(y, 1, 1, 2);
    close_all(&f);
}

static void events_tell_the_time_between_them(void **state)
{
    fixture *f = *state;
    const tl_device_class *d = f->engine->device->cls;
    tl_event *from, *to;
    int64_t ns = -1;
    assert_ok(d->event_new(&from, f->engine->device));
    assert_ok(d->event_new(&to, f->engine->device));
    assert_ok(d->record(from, f->engine->queue));
    tl_tensor *x = numbers(f, 3);
    (void)tl_add(f->c, x, x);
    assert_ok(d->record(to, f->engine->queue));
    assert_fails(d->elapsed(from, to, &ns), TL_ESTATE, "has not come");
    assert_ok(tl_engine_wait(f->engine));
    assert_ok(d->elapsed(from, to, &ns));
    assert_true(ns >= 0);
    d->event_free(&from);
    d->event_free(&to);
}

static tl_status products(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = tl_tensors_peek(in, "x");
    (void)self;
    tl_tensors_put(c, out, "y", tl_matmul(c, tl_matmul(c, tl_matmul(c, x, x), x), x));
    return tl_ctx_status(c);
}

static void calls_are_timed_by_the_device(void **state)
{
    fixture *f = *state;
    tl_function *fn;
    tl_tensors in = {0}, out = {0}, again = {0};
    tl_str text = TL_STR_INIT;
    assert_ok(tl_function_new(
        &fn, &(tl_function_args){
                 .engine = f->engine, .name = "products", .body = products, .interpret = true}));
    tl_tensors_put(f->c, &in, "x", tl_full(f->c, TL_F32, TL_SHAPE(2, 2), 1));
    assert_ok(tl_function_call(fn, f->c, &in, &out));
    tl_program_set_timing(tl_function_program(fn), true);
    int64_t before = fake_waits();
    assert_ok(tl_function_call(fn, f->c, &in, &again));
    assert_true(fake_waits() - before <= 2); // before the first, and behind the last
    assert_ok(tl_program_trace(tl_function_program(fn), &text));
    assert_non_null(strstr(tl_str_text(&text), "matmul"));
    VALUES(tl_tensors_peek(&again, "y"), 8, 8, 8, 8);
    tl_str_deinit(&text);
    tl_function_free(&fn);
}

static tl_status adds_and_tells(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = tl_tensors_peek(in, "x");
    tl_tensors_put(c, out, "y", tl_matmul(c, tl_matmul(c, x, x), x));
    tl_assign_add(c, self, x);
    return tl_ctx_status(c);
}

static void a_program_is_one_piece_of_work(void **state)
{
    fixture *f = *state;
    tl_function *fn;
    tl_tensor *sum, *x[2];
    assert_ok(tl_tensor_new(&sum, f->engine, TL_F32, TL_SHAPE(2, 2)));
    assert_ok(tl_tensor_clear(sum));
    for (int i = 0; i < 2; i++) {
        assert_ok(tl_tensor_new(&x[i], f->engine, TL_F32, TL_SHAPE(2, 2)));
        assert_ok(tl_tensor_set_doubles(x[i], (const double[]){i + 1, i + 1, i + 1, i + 1}, 4));
    }
    assert_ok(tl_function_new(&fn, &(tl_function_args){.engine = f->engine,
                                                       .name = "adds",
                                                       .body = adds_and_tells,
                                                       .self = sum,
                                                       .interpret = true}));
    double wanted = 0;
    for (int run = 0; run < 12; run++) {
        const int which = run >= 4 && run % 3 == 0; // another place now and then
        tl_mark mark = tl_ctx_begin(f->c);
        tl_tensors in = {0}, out = {0};
        tl_tensors_put(f->c, &in, "x", x[which]);
        assert_ok(tl_engine_wait(f->engine));
        assert_ok(tl_function_call(fn, f->c, &in, &out));
        if (run == 3) assert_int_equal(fake_pending(), 1);
        double y = 4 * pow(which + 1, 3);
        VALUES(tl_tensors_peek(&out, "y"), y, y, y, y);
        wanted += which + 1;
        VALUES(sum, wanted, wanted, wanted, wanted);
        tl_ctx_end(f->c, mark);
    }
    tl_function_free(&fn);
    tl_tensor_free(&sum);
    for (int i = 0; i < 2; i++) tl_tensor_free(&x[i]);
}

typedef struct listed {
    fixture *f;
    tl_tensor *sum, *x;
} listed;

static tl_status put_list(void *self)
{
    listed *l = self;
    tl_assign_add(l->f->c, l->sum, l->x);
    tl_assign_add(l->f->c, l->sum, l->x);
    return tl_ctx_status(l->f->c);
}

static tl_status put_nothing(void *self)
{
    (void)self;
    return TL_FAIL(TL_EINVAL, "no list today");
}

static void programs_of_a_device_run_many_times(void **state)
{
    fixture *f = *state;
    const tl_device_class *d = f->engine->device->cls;
    tl_device_program *p;
    listed l = {f, tl_zeros(f->c, TL_F32, TL_SHAPE(3)), numbers(f, 3)};
    VALUES(l.sum, 0, 0, 0);
    assert_fails(d->program_build(&p, f->engine->queue, put_nothing, NULL), TL_EINVAL,
                 "no list today");
    assert_null(p);
    assert_ok(d->program_build(&p, f->engine->queue, put_list, &l));
    assert_int_equal(fake_pending(), 0); // nothing of it is to run
    for (int i = 0; i < 3; i++) {
        assert_ok(d->program_run(p, f->engine->queue));
        tli_storage_written(l.sum->storage);
    }
    assert_int_equal(fake_pending(), 3);
    VALUES(l.sum, 0, 6, 12);
    assert_ok(d->program_run(p, f->engine->queue));
    tli_storage_written(l.sum->storage);
    d->program_free(&p); // after it has run
    assert_null(p);
    VALUES(l.sum, 0, 8, 16);
}

static void a_call_that_is_waited_for_fails_itself(void **state)
{
    (void)state;
    fixture f;
    setenv("TILTH_DEVICE_SYNC", "1", 1);
    open_on(&f, &fake_backend);
    unsetenv("TILTH_DEVICE_SYNC");
    tl_tensor *x = numbers(&f, 3);
    assert_non_null(tl_add(f.c, x, x));
    assert_int_equal(fake_pending(), 0);
    assert_null(fails_later(&f, x));
    assert_fails(tl_ctx_status(f.c), TL_EINVAL, "gather: index 7");
    tl_ctx_clear(f.c);
    VALUES(tl_add(f.c, x, x), 0, 2, 4);
    assert_ok(tl_engine_wait(f.engine));
    close_all(&f);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void small_tensors_share_blocks(void **state)
{
    fixture *f = *state;
    tl_tensor *t[3];
    tl_memory_stats stats;
    for (int i = 0; i < 3; i++) assert_ok(tl_tensor_new(&t[i], f->engine, TL_F32, TL_SHAPE(100)));
    assert_int_equal((char *)t[1]->storage->data - (char *)t[0]->storage->data, 512);
    assert_int_equal((uintptr_t)t[2]->storage->data % fake_device.alignment, 0);
    assert_ok(tl_tensor_set_doubles(t[2], (double[100]){5}, 100));
    tl_tensor_free(&t[0]);
    tl_tensor_free(&t[1]);
    tl_engine_trim(f->engine);
    tl_engine_memory(f->engine, &stats);
    assert_true(stats.cached > 0); // of a block that is in use
    double values[100];
    assert_ok(tl_tensor_get_doubles(t[2], values, 100));
    assert_near(values[0], 5, 0);
    tl_tensor_free(&t[2]);
    tl_engine_trim(f->engine);
    tl_engine_memory(f->engine, &stats);
    assert_int_equal(stats.cached, 0);
}

static int64_t used_by(const tl_engine *engine)
{
    tl_memory_stats stats;
    tl_engine_memory(engine, &stats);
    return stats.used;
}

static void large_tensors_are_whole_blocks(void **state)
{
    fixture *f = *state;
    const int64_t block = (int64_t)fake_device.block, before = used_by(f->engine);
    tl_tensor *t[2], *again;
    for (int i = 0; i < 2; i++) // 17 and 18 blocks
        assert_ok(tl_tensor_new(&t[i], f->engine, TL_U8, TL_SHAPE((17 + i) * block - 5)));
    assert_int_equal(used_by(f->engine) - before, 35 * block);
    void *const data[] = {t[0]->storage->data, t[1]->storage->data};
    for (int i = 0; i < 2; i++) tl_tensor_free(&t[i]);
    for (int i = 0; i < 2; i++) { // not the last one that was given back, but the one that fits
        assert_ok(tl_tensor_new(&again, f->engine, TL_U8, TL_SHAPE((17 + i) * block - 70)));
        assert_ptr_equal(again->storage->data, data[i]);
        tl_tensor_free(&again);
    }
    assert_ok(tl_tensor_new(&again, f->engine, TL_U8, TL_SHAPE(17 * block + 1)));
    assert_ptr_equal(again->storage->data, data[1]);
    tl_tensor_free(&again);
    assert_ok(tl_tensor_new(&again, f->engine, TL_U8, TL_SHAPE(18 * block + 1)));
    assert_true(again->storage->data != data[0] && again->storage->data != data[1]);
    tl_tensor_free(&again);
}

static tl_engine *nosy_engine;
static int nosy_frees;
static void nosy_free(tl_device *d, void *memory, size_t bytes)
{
    assert_int_equal(pthread_mutex_trylock(&nosy_engine->memory.lock), 0);
    pthread_mutex_unlock(&nosy_engine->memory.lock);
    nosy_frees++;
    fake_device.free(d, memory, bytes);
}

static void others_allocate_while_a_device_frees(void **state)
{
    fixture *f = *state;
    tl_device_class nosy = fake_device;
    tl_tensor *t;
    nosy.free = nosy_free;
    nosy_engine = f->engine;
    assert_ok(tl_tensor_new(&t, f->engine, TL_F32, TL_SHAPE(100000)));
    tl_tensor_free(&t);
    f->engine->device->cls = &nosy;
    tl_engine_trim(f->engine);
    f->engine->device->cls = &fake_device;
    assert_true(nosy_frees > 0);
}

static void who_lacks_memory_is_told_where(void **state)
{
    fixture *f = *state;
    tl_tensor *t;
    assert_fails(tl_tensor_new(&t, f->engine, TL_F32, TL_SHAPE((int64_t)1 << 35)), TL_ENOMEM,
                 "a tensor needs 137438953472 bytes");
    assert_non_null(strstr(tl_error_message(), "'fake:0' has "));
    assert_non_null(strstr(tl_error_message(), " of 68719476736 bytes free"));
}

static void swaps_need_little_memory(void **state)
{
    fixture *f = *state;
    enum { COUNT = (3 << 20) + 5 };
    tl_tensor *a, *b;
    tl_memory_stats before, after;
    assert_ok(tl_tensor_new(&a, f->engine, TL_U8, TL_SHAPE(COUNT)));
    assert_ok(tl_tensor_new(&b, f->engine, TL_U8, TL_SHAPE(COUNT)));
    unsigned char *bytes = malloc(COUNT);
    memset(bytes, 3, COUNT);
    bytes[COUNT - 1] = 9;
    assert_ok(tl_tensor_set(a, bytes, COUNT));
    assert_ok(tl_tensor_clear(b));
    tl_engine_reset_peak(f->engine);
    tl_engine_memory(f->engine, &before);
    assert_ok(tl_tensor_swap(a, b));
    tl_engine_memory(f->engine, &after);
    assert_true(after.peak - before.used <= 1 << 20);
    unsigned char *found = malloc(COUNT);
    assert_ok(tl_tensor_get(b, found, COUNT));
    assert_memory_equal(found, bytes, COUNT);
    assert_ok(tl_tensor_get(a, found, COUNT));
    memset(bytes, 0, COUNT);
    assert_memory_equal(found, bytes, COUNT);
    free(bytes);
    free(found);
    tl_tensor_free(&a);
    tl_tensor_free(&b);
}

/* --- guards ----------------------------------------------------------------------------------- */

static tl_status exp_too_far(const tl_run *run, const tl_node *call)
{
    (void)run;
    float *out = tl_kernel_data(call->out[0]);
    const float *in = tl_kernel_data(call->in[0]);
    for (int64_t i = 0; i < tl_tensor_count(call->in[0]); i++) out[i] = in[i];
    out[tl_tensor_count(call->in[0])] = 1;
    return TL_OK;
}
static const tl_kernel far_rows[] = {{TL_OP_exp, TL_F32, exp_too_far, 0}};
static const tl_kernels far_kernels = {far_rows, TL_COUNT(far_rows)};
static const tl_kernels *const far_tables[] = {&far_kernels, NULL};
static const tl_backend_class far = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "far",
            .help = "writes one element too many"},
    .fallback = &tl_backend_reference,
    .tables = far_tables,
};

static void guards_stand_on_a_device_too(void **state)
{
    (void)state;
    fixture f;
    tl_check *check;
    const tl_backend_class *there;
    tl_tensor *t;
    assert_ok(fake_backend_of(&there, &far));
    assert_ok(tl_check_new(&check, there, NULL));
    open_on(&f, tl_check_backend(check));
    tl_tensor *x = numbers(&f, 16);
    assert_int_equal((uintptr_t)x->storage->data % fake_device.alignment, 0);
    assert_non_null(tl_add(f.c, x, x));
    assert_null(tl_exp(f.c, x));
    assert_fails(tl_ctx_status(f.c), TL_EINTERNAL,
                 "exp: the kernel wrote outside of output 0, float32[16], at byte 64 of a storage "
                 "of 64 bytes");
    tl_ctx_clear(f.c);
    assert_ok(tl_tensor_new(&t, f.engine, TL_F32, TL_SHAPE(3)));
    assert_null(tl_add(f.c, t, t));
    assert_fails(tl_ctx_status(f.c), TL_ESTATE,
                 "is read before it was written: nobody has set element [0]");
    tl_ctx_clear(f.c);
    tl_tensor_free(&t);
    close_all(&f);
    tl_check_free(&check);
}

int main(void)
{
    unsetenv("TILTH_DEVICE_SYNC"); // what waits is what is tested
    unsetenv("TILTH_FAKE_SEED");
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_was_not_computed_is_not_read),
        T(an_assignment_makes_it_good),
        T(what_was_before_a_failure_is_read),
        T(many_failures_are_told_apart),
        T(recovering_keeps_the_message),
        T(programs_take_nothing_that_was_not_computed),
        cmocka_unit_test(a_lease_leaves_later_work_alone),
        cmocka_unit_test(any_order_of_queues_gives_the_same),
        T(memory_waits_for_copies_in_other_queues),
        cmocka_unit_test(staged_calls_wait_once_for_all_inputs),
        cmocka_unit_test(staged_calls_are_checked),
        cmocka_unit_test(an_input_may_be_what_is_written),
        T(engines_of_one_device_are_told_apart),
        cmocka_unit_test(kernels_count_what_they_launch),
        T(events_tell_the_time_between_them),
        T(calls_are_timed_by_the_device),
        T(programs_of_a_device_run_many_times),
        T(a_program_is_one_piece_of_work),
        cmocka_unit_test(a_call_that_is_waited_for_fails_itself),
        T(small_tensors_share_blocks),
        T(large_tensors_are_whole_blocks),
        T(others_allocate_while_a_device_frees),
        T(who_lacks_memory_is_told_where),
        T(swaps_need_little_memory),
        cmocka_unit_test(guards_stand_on_a_device_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
