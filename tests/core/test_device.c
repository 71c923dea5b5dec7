/* Devices: queues and tickets, leases of what lies elsewhere, fallbacks that compute on the host;
 * on the fake device, whose memory the host cannot touch. */
#include "core/values.h"

#include <stdlib.h>
#include <tilth/core/ctx.h>
#include <tilth/core/state.h>
#include <tilth/graph/function.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/update.h>
#include <tilth/ops/view.h>
#include <tilth/sys/cpu/cpu.h>

#include "core/inner/engine.h"
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

static int setup(void **state)
{
    static fixture f;
    open_on(&f, &fake_backend);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tl_ctx_free(&f->c);
    tl_engine_free(&f->engine);
    assert_int_equal(fake_pending(), 0);
    return 0;
}

static tl_tensor *numbers(fixture *f, tl_shape shape)
{
    double values[64];
    for (int i = 0; i < 64; i++) values[i] = i;
    tl_tensor *t = tl_from_doubles(f->c, TL_F32, shape, values);
    assert_non_null(t);
    return t;
}

/* --- queues ----------------------------------------------------------------------------------- */

static void work_waits_until_somebody_looks(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, TL_SHAPE(3)), *y = tl_add(f->c, x, x);
    assert_int_equal(fake_pending(), 1);
    VALUES(y, 0, 2, 4);
    assert_int_equal(fake_pending(), 0);
    (void)tl_add(f->c, y, y);
    assert_ok(tl_engine_wait(f->engine));
    assert_int_equal(fake_pending(), 0);
}

static void a_lease_waits_for_what_it_shows_only(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, TL_SHAPE(3)), *early = tl_add(f->c, x, x), *late = tl_mul(f->c, x, x);
    uint64_t ticket = early->storage->ticket;
    assert_true(late->storage->ticket > ticket);
    assert_ok(tli_storage_wait(early->storage));
    assert_int_equal(fake_pending(), 1); // the later one
    VALUES(late, 0, 1, 4);
}

static void queues_wait_for_each_other_by_tickets(void **state)
{
    fixture *f = *state;
    const tl_device_class *d = f->engine->device->cls;
    tl_queue *other;
    char *bytes = d->alloc_host(f->engine->device, 8), *there = d->alloc(f->engine->device, 8);
    assert_ok(d->queue_new(&other, f->engine->device));
    memset(bytes, 1, 8);
    for (int round = 0; round < 20; round++) { // whatever order is drawn
        assert_ok(d->fill(f->engine->queue, there, (uint16_t)(0x0202 + round), 8));
        assert_ok(d->after(other, f->engine->queue, tl_queue_ticket(f->engine->queue)));
        assert_ok(d->copy(other, bytes, there, 8));
        assert_false(d->done(other, tl_queue_ticket(other)));
        assert_ok(tl_queue_wait(other, tl_queue_ticket(other)));
        assert_true(d->done(other, tl_queue_ticket(other)));
        assert_int_equal(bytes[0], 2 + round);
    }
    char own[8];
    assert_fails(d->copy(other, own, there, 8), TL_EINTERNAL, "memory from alloc_host");
    d->queue_free(&other);
    d->free(f->engine->device, there, 8);
    d->free_host(f->engine->device, bytes, 8);
}

static void a_failure_shows_where_somebody_waits(void **state)
{
    fixture *f = *state;
    const int64_t beyond[] = {7};
    tl_tensor *x = numbers(f, TL_SHAPE(3)), *i = tl_from(f->c, TL_I64, TL_SHAPE(1), beyond);
    tl_tensor *y = tl_gather(f->c, x, i, 0);
    double value;
    assert_ok(tl_ctx_status(f->c)); // nothing has run
    assert_fails(tl_tensor_get_doubles(y, &value, 1), TL_EINVAL, "gather: index 7");
    // until it was told
    assert_fails(tl_tensor_item(tl_sum(f->c, x, TL_AXES(0), false), &value), TL_EINVAL,
                 "gather: index 7");
    assert_fails(tl_engine_wait(f->engine), TL_EINVAL, "gather: index 7");
    assert_ok(tl_engine_wait(f->engine));
    assert_ok(tl_tensor_item(tl_sum(f->c, x, TL_AXES(0), false), &value));
    assert_near(value, 3, 0);
}

/* --- leases ----------------------------------------------------------------------------------- */

static void leases_bring_and_take(void **state)
{
    fixture *f = *state;
    tl_tensor *x = numbers(f, TL_SHAPE(2, 3)), *turned = tl_swap_axes(f->c, x, 0, 1);
    tl_lease l;
    assert_ok(tl_lease_read(&l, turned));
    const float wanted[] = {0, 3, 1, 4, 2, 5};
    assert_memory_equal(l.data, wanted, sizeof wanted);
    assert_ok(tl_lease_end(&l));
    assert_ok(tl_lease_write(&l, turned)); // the others keep what they hold
    ((float *)l.data)[1] = 30;
    assert_ok(tl_lease_end(&l));
    VALUES(x, 0, 1, 2, 30, 4, 5);
    assert_ok(tl_lease_write(&l, x));
    ((float *)l.data)[0] = 9;
    tl_lease_drop(&l); // nobody wants it after all
    VALUES(x, 0, 1, 2, 30, 4, 5);
    assert_ok(tl_lease_discard(&l, x));
    for (int i = 0; i < 6; i++) ((float *)l.data)[i] = (float)(10 * i);
    assert_ok(tl_lease_end(&l));
    VALUES(tl_slice(f->c, x, 1, 1, 3, 1), 10, 20, 40, 50);
}

static void copies_stay_on_the_device(void **state)
{
    fixture *f = *state;
    tl_tensor *a, *b, *x = numbers(f, TL_SHAPE(4));
    assert_ok(tl_engine_wait(f->engine));
    assert_ok(tl_tensor_new(&a, f->engine, TL_F32, TL_SHAPE(4)));
    assert_ok(tl_tensor_new(&b, f->engine, TL_F32, TL_SHAPE(4)));
    assert_ok(tl_tensor_copy(a, x));
    assert_ok(tl_tensor_clear(b));
    assert_ok(tl_tensor_swap(a, b));
    assert_true(fake_pending() >= 5); // none of it needed the host
    VALUES(a, 0, 0, 0, 0);
    VALUES(b, 0, 1, 2, 3);
    assert_fails(tl_tensor_copy(a, numbers(f, TL_SHAPE(2))), TL_EINVAL, "the shapes differ");
    tl_tensor *low, *high; // parts of one storage
    assert_ok(tl_tensor_part(&low, b, 0, TL_SHAPE(2)));
    assert_ok(tl_tensor_part(&high, b, 2, TL_SHAPE(2)));
    assert_ok(tl_tensor_copy(low, high));
    VALUES(b, 2, 3, 2, 3);
    tl_tensor_free(&low);
    tl_tensor_free(&high);
    tl_tensor_free(&a);
    tl_tensor_free(&b);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void tensors_of_another_device_are_named(void **state)
{
    fixture *f = *state, host;
    open_on(&host, &tl_backend_cpu);
    tl_tensor *here = numbers(f, TL_SHAPE(3)), *there = numbers(&host, TL_SHAPE(3));
    assert_null(tl_add(f->c, here, there));
    assert_fails(tl_ctx_status(f->c), TL_EINVAL,
                 "add: input 1, float32[3], lies on the device 'host' and is computed with on "
                 "'fake:0'; copy it there first");
    tl_ctx_clear(f->c);
    assert_null(tl_add(host.c, there, here));
    assert_fails(tl_ctx_status(host.c), TL_EINVAL, "lies on the device 'fake:0'");
    tl_ctx_clear(host.c);
    assert_ok(tl_tensor_copy(here, there)); // over the host
    tl_ctx_free(&host.c);
    tl_engine_free(&host.engine);
}

static const tl_backend_class bare = {
    .cls = {.class_size = sizeof(tl_backend_class), .name = "bare", .help = "has no kernels"},
    .fallback = &tl_backend_reference,
    .device = &fake_device,
};

static void kernels_of_the_host_are_staged(void **state)
{
    (void)state;
    fixture f;
    open_on(&f, &bare);
    tl_tensor *x = numbers(&f, TL_SHAPE(2, 3)), *turned = tl_swap_axes(f.c, x, 0, 1);
    VALUES(tl_add(f.c, turned, turned), 0, 6, 2, 8, 4, 10);
    VALUES(tl_matmul(f.c, x, turned), 5, 14, 14, 50);
    tl_tensor *sum = tl_zeros(f.c, TL_F32, TL_SHAPE(2, 3));
    tl_assign_add(f.c, sum, x); // written in place
    VALUES(sum, 0, 1, 2, 3, 4, 5);
    tl_kernel k;
    tl_tensor *in[] = {x, x}, *out[] = {sum};
    tl_node call = {.op = &tl_op_add, .in = in, .out = out, .inputs = 2, .outputs = 1, .path = ""};
    assert_ok(tl_engine_kernel(f.engine, &call, &k));
    assert_true(k.flags & TL_KERNEL_STAGED);
    tl_ctx_free(&f.c);
    tl_engine_free(&f.engine);
}

static const tl_backend_class chosen = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "chosen",
            .help = "falls back on what the machine has"},
    .fallback = &tl_backend_cpu,
    .device = &fake_device,
};

static void fallbacks_are_chosen_too(void **state)
{
    (void)state;
    fixture f;
    open_on(&f, &chosen);
    tl_tensor *x = numbers(&f, TL_SHAPE(3));
    VALUES(tl_add(f.c, x, x), 0, 2, 4);
    tl_ctx_free(&f.c);
    tl_engine_free(&f.engine);
}

static const tl_backend_class elsewhere = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "elsewhere",
            .help = "falls back on another device"},
    .fallback = &bare,
};

static void other_fallbacks_are_refused(void **state)
{
    (void)state;
    tl_engine *e;
    assert_fails(tl_engine_new(&e, &(tl_engine_args){.backend = &elsewhere}), TL_EINVAL,
                 "the backend 'elsewhere' is for the device 'host', and falls back on 'bare', "
                 "which is for 'fake'");
    assert_null(e);
}

/* --- engines by name -------------------------------------------------------------------------- */

static void engines_are_opened_by_name(void **state)
{
    (void)state;
    tl_registry *r;
    tl_engine *e;
    assert_ok(tl_registry_new(&r));
    assert_ok(tl_registry_add(r, &tl_cpu_module));
    assert_ok(tl_registry_add(r, &fake_module));
    assert_ok(tl_engine_open(&e, r, "cpu", 1));
    assert_true(tl_engine_device(e) == tl_host());
    tl_engine_free(&e);
    assert_ok(tl_engine_open(&e, r, "fake:0", 1));
    assert_ptr_equal(tl_engine_device(e)->cls, &fake_device);
    tl_engine_free(&e);
    assert_fails(tl_engine_open(&e, r, "fake:3", 1), TL_EINVAL,
                 "device 'fake': there is no device '3' (there are: fake:0)");
    assert_fails(tl_engine_open(&e, r, "fake:00", 1), TL_EINVAL, "(there are: fake:0)");
    assert_fails(tl_engine_open(&e, r, "fake:", 1), TL_EINVAL, "(there are: fake:0)");
    assert_null(e);
    assert_fails(tl_engine_open(&e, r, "gpu", 1), TL_ENOTFOUND, "'gpu'");
    assert_null(e);
    assert_fails(tl_engine_open(&e, r, "cpu:1", 1), TL_EINVAL, "there is one host");
    const char *before = getenv("TILTH_DEVICE");
    char kept[64];
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    setenv("TILTH_DEVICE", "toaster", 1);
    assert_fails(tl_engine_open(&e, r, NULL, 1), TL_ENOTFOUND,
                 "TILTH_DEVICE: there is no backend 'toaster'");
    assert_non_null(strstr(tl_error_message(), "; devices are: cpu, fake:0"));
    setenv("TILTH_DEVICE", "fake:3", 1);
    assert_fails(tl_engine_open(&e, r, NULL, 1), TL_EINVAL,
                 "TILTH_DEVICE: device 'fake': there is no device '3' (there are: fake:0)");
    setenv("TILTH_DEVICE", "fake", 1);
    assert_ok(tl_engine_open(&e, r, NULL, 1));
    assert_ptr_equal(tl_engine_device(e)->cls, &fake_device);
    tl_engine_free(&e);
    if (*kept) setenv("TILTH_DEVICE", kept, 1);
    else unsetenv("TILTH_DEVICE");
    tl_registry_free(&r);
}

int main(void)
{
    unsetenv("TILTH_DEVICE_SYNC"); // what waits is what is tested
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(work_waits_until_somebody_looks),
        T(a_lease_waits_for_what_it_shows_only),
        T(queues_wait_for_each_other_by_tickets),
        T(a_failure_shows_where_somebody_waits),
        T(leases_bring_and_take),
        T(copies_stay_on_the_device),
        T(tensors_of_another_device_are_named),
        cmocka_unit_test(kernels_of_the_host_are_staged),
        cmocka_unit_test(fallbacks_are_chosen_too),
        cmocka_unit_test(other_fallbacks_are_refused),
        cmocka_unit_test(engines_are_opened_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
