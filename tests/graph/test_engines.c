/* Programs and the engine that they are made for: what its backend does with loop nests is its own
 * affair, and nobody else runs them. */
#include "test.h"
#include "engine.h"

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/graph/function.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/sys/graph/program.h>

enum { ROWS = 24, COLUMNS = 40 };

typedef struct place {
    tl_engine *engine;
    tl_ctx *c;
    tl_mark mark;
} place;

static place open_place(const tl_backend_class *backend, tl_engine *beside)
{
    place p;
    assert_ok(tl_engine_new(&p.engine,
                            &(tl_engine_args){.backend = backend, .beside = beside, .threads = 2}));
    assert_ok(tl_ctx_new(&p.c, p.engine));
    p.mark = tl_ctx_begin(p.c);
    return p;
}

static void close_place(place *p)
{
    tl_ctx_end(p->c, p->mark);
    tl_ctx_free(&p->c);
    tl_engine_free(&p->engine);
}

static const tl_backend_class *cpu(void)
{
    const tl_backend_class *b;
    assert_ok(tl_cpu_backend(&b));
    return b;
}

static const tl_backend_class *fake(void)
{
    const tl_backend_class *b;
    assert_ok(fake_backend_of(&b, cpu()));
    return b;
}

static const tl_backend_class *without_interpreter(void)
{
    const tl_backend_class *b;
    assert_ok(fake_backend_without_interpreter(&b));
    return b;
}

/* A chain along rows and a sum over them: two stages, and scratch. */
static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    (void)self;
    tl_tensor *x = tl_tensors_get(c, in, "x");
    tl_tensor *y = tl_tanh(c, tl_mul(c, tl_exp(c, tl_neg(c, tl_square(c, x))), x));
    tl_tensors_put(c, out, "y", tl_sub(c, y, tl_max(c, y, TL_AXES(1), true)));
    tl_tensors_put(c, out, "sums", tl_sum(c, tl_sigmoid(c, y), TL_AXES(0), false));
    return tl_ctx_status(c);
}

static tl_tensors input(tl_ctx *c)
{
    float numbers[ROWS * COLUMNS];
    tl_tensors in = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) numbers[i] = (float)(i * 37 % 101) / 50.0f - 1;
    tl_tensors_put(c, &in, "x", tl_from(c, TL_F32, TL_SHAPE(ROWS, COLUMNS), numbers));
    assert_ok(tl_ctx_status(c));
    return in;
}

typedef struct result {
    float y[ROWS * COLUMNS], sums[COLUMNS];
} result;

static result read_result(tl_ctx *c, const tl_tensors *out)
{
    result r;
    assert_ok(tl_tensor_get(tl_tensors_get(c, out, "y"), r.y, sizeof r.y));
    assert_ok(tl_tensor_get(tl_tensors_get(c, out, "sums"), r.sums, sizeof r.sums));
    return r;
}

static tl_function *function(const place *p, bool interpret)
{
    tl_function *f;
    assert_ok(tl_function_new(
        &f, &(tl_function_args){
                .engine = p->engine, .name = "body", .body = body, .interpret = interpret}));
    return f;
}

static result call(tl_function *f, const place *p, tl_program_stats *stats)
{
    tl_tensors in = input(p->c), out = {0};
    assert_ok(tl_function_call(f, p->c, &in, &out));
    tl_program_measure(tl_function_program(f), stats);
    return read_result(p->c, &out);
}

static tl_program *program(const place *p)
{
    tl_graph *g;
    tl_program *made;
    tl_spec x = {"x", TL_F32, TL_SHAPE(ROWS, COLUMNS)};
    assert_ok(tl_graph_capture(
        &g, &(tl_capture){.engine = p->engine, .body = body, .inputs = &x, .input_count = 1}));
    assert_ok(tl_graph_optimize(g, NULL));
    assert_ok(tl_program_new(&made, &g, &(tl_program_args){.name = "body"}));
    return made;
}

/* What the reference says: the CPU, interpreted. */
static result wanted(void)
{
    place p = open_place(cpu(), NULL);
    tl_program_stats stats;
    tl_function *f = function(&p, true);
    result r = call(f, &p, &stats);
    assert_true(stats.nests > 0);
    assert_int_equal(stats.compiled, 0);
    tl_function_free(&f);
    close_place(&p);
    return r;
}

static void skip_without_compiler(void)
{
    place p = open_place(cpu(), NULL);
    const tl_nest_methods *nests = tl_engine_nests(p.engine);
    tl_nest_compiler *compiler;
    tl_status st = nests->open(&compiler, p.engine);
    nests->close(&compiler);
    close_place(&p);
    if (st != TL_EUNSUPPORTED) return;
    print_message("skipped: %s\n", tl_error_message());
    skip();
}

/* --- nests ------------------------------------------------------------------------------------ */

static void nests_run_in_the_way_of_each_backend(void **state)
{
    (void)state;
    skip_without_compiler();
    const tl_backend_class *all[] = {cpu(), fake()};
    result want = wanted();
    for (size_t i = 0; i < TL_COUNT(all); i++) {
        place p = open_place(all[i], NULL);
        tl_program_stats stats;
        tl_function *f = function(&p, false);
        for (int k = 0; k < 3; k++) { // interpreted, then compiled
            result got = call(f, &p, &stats);
            assert_int_equal(stats.compiled, k ? stats.nests : 0);
            assert_memory_equal(&got, &want, sizeof got);
        }
        tl_function_free(&f);
        close_place(&p);
    }
    assert_ptr_not_equal(fake()->nests, cpu()->nests);
    assert_true(fake()->nests->run != tl_backend_reference.nests->run);
}

static void without_an_interpreter_the_first_call_is_compiled(void **state)
{
    (void)state;
    skip_without_compiler();
    result want = wanted();
    place p = open_place(without_interpreter(), NULL);
    tl_program_stats stats;
    tl_function *f = function(&p, false);
    result got = call(f, &p, &stats);
    assert_true(stats.nests > 0 && stats.compiled == stats.nests);
    assert_memory_equal(&got, &want, sizeof got);
    tl_function_free(&f);
    f = function(&p, true); // where nothing may be compiled there are no nests
    got = call(f, &p, &stats);
    assert_int_equal(stats.nests, 0);
    assert_memory_equal(got.y, want.y, sizeof got.y);
    tl_function_free(&f);
    close_place(&p);
}

static void a_program_that_must_be_compiled_says_so(void **state)
{
    (void)state;
    skip_without_compiler();
    result want = wanted();
    place p = open_place(without_interpreter(), NULL);
    const tl_nest_methods *nests = tl_engine_nests(p.engine);
    tl_program *made = program(&p);
    tl_tensors in = input(p.c), out = {0};
    assert_fails(
        tl_program_run(made, p.c, &in, &out), TL_ESTATE,
        "body: the backend 'fake' runs loop nests compiled only; call tl_program_compile first");
    tl_nest_compiler *compiler;
    assert_ok(nests->open(&compiler, p.engine));
    assert_ok(tl_program_compile(made, compiler));
    assert_ok(tl_program_run(made, p.c, &in, &out));
    result got = read_result(p.c, &out);
    assert_memory_equal(&got, &want, sizeof got);
    tl_program_free(&made);
    nests->close(&compiler);
    close_place(&p);
}

static tl_status no_compiler(tl_nest_compiler **out, tl_engine *engine)
{
    (void)engine;
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED, "nothing compiles here");
}

static void without_a_compiler_only_an_interpreter_goes_on(void **state)
{
    (void)state;
    result want = wanted();
    const tl_backend_class *all[] = {fake(), without_interpreter()};
    for (int i = 0; i < 2; i++) {
        tl_nest_methods nests = *all[i]->nests;
        tl_backend_class backend = *all[i];
        nests.open = no_compiler;
        backend.nests = &nests;
        place p = open_place(&backend, NULL);
        tl_program_stats stats;
        tl_function *f = function(&p, false);
        if (i == 0) {
            (void)call(f, &p, &stats);
            result got = call(f, &p, &stats);
            assert_int_equal(stats.compiled, 0);
            assert_memory_equal(&got, &want, sizeof got);
        } else {
            tl_tensors in = input(p.c), out = {0};
            assert_fails(tl_function_call(f, p.c, &in, &out), TL_EUNSUPPORTED,
                         "nothing compiles here");
        }
        tl_function_free(&f);
        close_place(&p);
    }
}

static void the_backend_says_how_much_is_one_nest(void **state)
{
    (void)state;
    result want = wanted();
    tl_nest_methods nests = *fake()->nests;
    tl_backend_class backend = *fake();
    nests.limits.members = 2;
    backend.nests = &nests;
    place many = open_place(&backend, NULL), few = open_place(fake(), NULL);
    tl_program_stats a, b;
    tl_function *f = function(&many, true), *g = function(&few, true);
    result got = call(f, &many, &a);
    (void)call(g, &few, &b);
    assert_true(a.nests > b.nests);
    assert_memory_equal(got.y, want.y, sizeof got.y);
    tl_function_free(&f);
    tl_function_free(&g);
    close_place(&many);
    close_place(&few);
}

/* --- whose they are --------------------------------------------------------------------------- */

static void a_program_runs_on_its_own_engine_only(void **state)
{
    (void)state;
    place own = open_place(cpu(), NULL), other = open_place(cpu(), NULL),
          beside = open_place(cpu(), own.engine), elsewhere = open_place(fake(), NULL);
    tl_program *made = program(&own);
    tl_tensors out = {0}, a = input(other.c), b = input(beside.c), c = input(elsewhere.c),
               in = input(own.c);
    assert_fails(tl_program_run(made, other.c, &a, &out), TL_EINVAL,
                 "body: it was made for another engine");
    assert_fails(tl_program_run(made, beside.c, &b, &out), TL_EINVAL, "beside it");
    assert_fails(tl_program_run(made, elsewhere.c, &c, &out), TL_EINVAL,
                 "it was made for the device 'host' and is run by a context on 'fake:0'");
    assert_fails(
        tl_program_run(made, own.c, &c, &out), TL_EINVAL,
        "input 'x', float32[24, 40], lies on the device 'fake:0' and is computed with on 'host'");
    assert_ok(tl_program_run(made, own.c, &in, &out)); // nothing of it is left
    result got = read_result(own.c, &out), want = wanted();
    assert_memory_equal(&got, &want, sizeof got);
    tl_program_free(&made);
    close_place(&elsewhere);
    close_place(&beside);
    close_place(&other);
    close_place(&own);
}

static tl_status add_outside(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensors_put(c, out, "y", tl_add(c, tl_tensors_get(c, in, "x"), self));
    return tl_ctx_status(c);
}

static void tensors_from_outside_lie_on_its_device(void **state)
{
    (void)state;
    place host = open_place(cpu(), NULL), device = open_place(fake(), NULL);
    place *from[] = {&device, &host};
    tl_engine *engines[] = {host.engine, device.engine};
    static const char *const wanted_text[] = {
        "add: a tensor from outside, float32[24, 40], lies on the device 'fake:0' and is computed "
        "with on 'host'",
        "add: a tensor from outside, float32[24, 40], lies on the device 'host' and is computed "
        "with on 'fake:0'",
    };
    for (int i = 0; i < 2; i++) {
        tl_graph *g;
        tl_program *made;
        tl_tensors in = input(from[i]->c);
        tl_spec x = {"x", TL_F32, TL_SHAPE(ROWS, COLUMNS)};
        tl_status st =
            tl_graph_capture(&g, &(tl_capture){.engine = engines[i],
                                               .body = add_outside,
                                               .self = tl_tensors_get(from[i]->c, &in, "x"),
                                               .inputs = &x,
                                               .input_count = 1});
        assert_ok(st);
        assert_fails(tl_program_new(&made, &g, &(tl_program_args){0}), TL_EINVAL, wanted_text[i]);
        assert_null(made);
    }
    close_place(&device);
    close_place(&host);
}

/* The checking backend packs no weights; what it stands around does. */
static tl_status multiply(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensors_put(c, out, "y", tl_matmul(c, tl_tensors_get(c, in, "x"), self));
    return tl_ctx_status(c);
}

static void product(const tl_backend_class *backend, float out[ROWS * ROWS], int64_t *packed)
{
    place p = open_place(backend, NULL);
    tl_tensors in = input(p.c), got = {0};
    tl_tensor *w = tl_full(p.c, TL_F32, TL_SHAPE(COLUMNS, ROWS), 0.5);
    tl_function *f;
    tl_program_stats stats;
    assert_ok(tl_function_new(
        &f,
        &(tl_function_args){.engine = p.engine, .body = multiply, .self = w, .interpret = true}));
    for (int i = 0; i < 2; i++) assert_ok(tl_function_call(f, p.c, &in, &got));
    tl_program_measure(tl_function_program(f), &stats);
    *packed = stats.packed;
    assert_ok(tl_tensor_get(tl_tensors_get(p.c, &got, "y"), out, sizeof(float[ROWS * ROWS])));
    tl_function_free(&f);
    close_place(&p);
}

static void weights_are_packed_by_the_engine_of_the_graph(void **state)
{
    (void)state;
    static float plain[ROWS * ROWS], checked[ROWS * ROWS];
    int64_t packed, none;
    tl_check *check;
    assert_ok(tl_check_new(&check, cpu(),
                           &(tl_check_options){.outputs = true, .inputs = true, .memory = true}));
    product(cpu(), plain, &packed);
    product(tl_check_backend(check), checked, &none);
    assert_int_equal(none, 0);
    assert_memory_equal(plain, checked, sizeof plain);
    tl_check_free(&check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nests_run_in_the_way_of_each_backend),
        cmocka_unit_test(without_an_interpreter_the_first_call_is_compiled),
        cmocka_unit_test(a_program_that_must_be_compiled_says_so),
        cmocka_unit_test(without_a_compiler_only_an_interpreter_goes_on),
        cmocka_unit_test(the_backend_says_how_much_is_one_nest),
        cmocka_unit_test(a_program_runs_on_its_own_engine_only),
        cmocka_unit_test(tensors_from_outside_lie_on_its_device),
        cmocka_unit_test(weights_are_packed_by_the_engine_of_the_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
