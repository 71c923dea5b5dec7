/* The checking backend, with kernels that are wrong on purpose.
 * needs: threads; runs: fake device */
#include "test.h"
#include "engine.h"

#include <pthread.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/check/check.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "core/inner/element.h"
#include "core/inner/storage.h"

/* --- toy ops: any kernel, on any tensors ------------------------------------------------------ */

static tl_kernel_fn *the_kernel; /* what the next call runs */

static tl_status run_the_kernel(const tl_run *run, const tl_node *call)
{
    return the_kernel(run, call);
}

static const tl_kernel toy_rows[] = {
    {TL_OP_exp, TL_DTYPE_COUNT, run_the_kernel, TL_KERNEL_STRIDED}};
static const tl_kernels toy_kernels = {toy_rows, TL_COUNT(toy_rows)};
static const tl_kernels *const toy_tables[] = {&toy_kernels, NULL};
static const tl_backend_class toy_backend = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "toy",
            .help = "does what the test says"},
    .fallback = &tl_backend_reference,
    .tables = toy_tables,
};

typedef struct fixture {
    tl_check *check;
    tl_engine *engine;
    tl_ctx *c;
} fixture;

static void fixture_make(fixture *f, const tl_backend_class *inner, const tl_check_options *options)
{
    assert_ok(tl_check_new(&f->check, inner, options));
    assert_ok(tl_engine_new(
        &f->engine, &(tl_engine_args){.backend = tl_check_backend(f->check), .threads = 2}));
    assert_ok(tl_ctx_new(&f->c, f->engine));
}

/* On the device that the environment asks for. */
static void fixture_open(fixture *f, const tl_backend_class *inner, const tl_check_options *options)
{
    assert_ok(test_backend(&inner, inner));
    fixture_make(f, inner, options);
}

static void fixture_close(fixture *f)
{
    tl_ctx_free(&f->c);
    tl_engine_free(&f->engine);
    tl_check_free(&f->check);
}

static int setup(void **state)
{
    static fixture f;
    fixture_open(&f, &toy_backend, NULL);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture_close(*state);
    return 0;
}

static tl_status call_toy(fixture *f, tl_kernel_fn *kernel, uint32_t writes, int inputs,
                          tl_tensor *const *in, int outputs, tl_tensor *const *out)
{
    tl_op_class op = {.op = TL_OP_exp, .name = "toy", .by = -1, .writes = writes};
    tl_node call = {
        .op = &op, .in = in, .out = out, .inputs = inputs, .outputs = outputs, .path = "net"};
    the_kernel = kernel;
    tl_draws draws = {0};
    return tl_engine_run(f->engine, &draws, &call);
}

static tl_tensor *counting(tl_ctx *c, tl_dtype dtype, tl_shape shape)
{
    double values[256];
    for (int i = 0; i < 256; i++) values[i] = i;
    return tl_from_doubles(c, dtype, shape, values);
}

static tl_tensor *blank(fixture *f, tl_dtype dtype, tl_shape shape)
{
    tl_tensor *t = tl_ctx_header(f->c);
    t->dtype = dtype;
    t->shape = shape;
    t->contiguous = true;
    tl_shape_strides(t->strides, &shape);
    assert_true(tl_ctx_storage(f->c, t));
    return t;
}

static int byte_at(const tl_tensor *t, size_t index)
{
    unsigned char bytes[512];
    assert_true(index < tl_tensor_bytes(t) && tl_tensor_bytes(t) <= sizeof bytes);
    assert_ok(tl_tensor_get(t, bytes, tl_tensor_bytes(t)));
    return bytes[index];
}

/* For kernels. */
static char *bytes_of(const tl_tensor *t)
{
    return tl_kernel_data(t);
}

/* --- kernels ---------------------------------------------------------------------------------- */

static tl_status zeros(const tl_run *run, const tl_node *n)
{
    (void)run;
    for (int i = 0; i < n->outputs; i++) memset(bytes_of(n->out[i]), 0, tl_tensor_bytes(n->out[i]));
    return TL_OK;
}

// Both patterns, each meant where it stands.
static tl_status both_patterns(const tl_run *run, const tl_node *n)
{
    (void)run;
    for (int i = 0; i < n->outputs; i++) {
        size_t bytes = tl_tensor_bytes(n->out[i]);
        memset(bytes_of(n->out[i]), 0xa5, bytes / 2);
        memset(bytes_of(n->out[i]) + bytes / 2, 0x5a, bytes - bytes / 2);
    }
    return TL_OK;
}

// The same, but for the last element of the last output.
static tl_status both_patterns_but_one(const tl_run *run, const tl_node *n)
{
    const tl_tensor *last = n->out[n->outputs - 1];
    size_t one = tl_dtype_size(last->dtype), at = tl_tensor_bytes(last) - one;
    char before[8];
    memcpy(before, bytes_of(last) + at, one);
    TL_TRY(both_patterns(run, n));
    memcpy(bytes_of(last) + at, before, one);
    return TL_OK;
}

static tl_status all_but_the_last(const tl_run *run, const tl_node *n)
{
    (void)run;
    size_t bytes = tl_tensor_bytes(n->out[0]), one = tl_dtype_size(n->out[0]->dtype);
    memset(bytes_of(n->out[0]), 0, bytes - one);
    return TL_OK;
}

// A number that looks like the pattern, and is meant.
static tl_status the_pattern_itself(const tl_run *run, const tl_node *n)
{
    (void)run;
    memset(bytes_of(n->out[0]), 0xa5, tl_tensor_bytes(n->out[0]));
    return TL_OK;
}

static tl_status one_beyond(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    bytes_of(n->out[0])[tl_tensor_bytes(n->out[0])] = 0;
    return TL_OK;
}

static tl_status far_beyond(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    bytes_of(n->out[0])[n->out[0]->storage->capacity + TLI_GUARD - 1] = 0;
    return TL_OK;
}

static tl_status one_before(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    bytes_of(n->out[0])[-1] = 0;
    return TL_OK;
}

static tl_status beyond_the_input(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    bytes_of(n->in[0])[tl_tensor_bytes(n->in[0])] = 0;
    return TL_OK;
}

static tl_status changes_its_input(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    bytes_of(n->in[0])[tl_tensor_bytes(n->in[0]) - 1] ^= 1;
    return TL_OK;
}

static tl_status two_in_a_bool(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    bytes_of(n->out[0])[1] = 2;
    return TL_OK;
}

static tl_status fails(const tl_run *run, const tl_node *n)
{
    (void)run, (void)n;
    return TL_FAIL(TL_EUNSUPPORTED, "not today");
}

static double strange; /* what the next kernel puts at its last element */

static tl_status strange_at_the_end(const tl_run *run, const tl_node *n)
{
    TL_TRY(zeros(run, n));
    const tl_tensor *t = n->outputs ? n->out[0] : n->in[0];
    tli_element_set(t->dtype, bytes_of(t), tl_tensor_count(t) - 1, strange);
    return TL_OK;
}

/* --- outputs ---------------------------------------------------------------------------------- */

static void unwritten_outputs_are_found_in_every_type(void **state)
{
    fixture *f = *state;
    for (int d = 0; d < TL_DTYPE_COUNT; d++) {
        tl_mark m = tl_ctx_begin(f->c);
        tl_tensor *y = blank(f, (tl_dtype)d, TL_SHAPE(2, 3)),
                  *whole = blank(f, (tl_dtype)d, TL_SHAPE(5));
        char want[160];
        snprintf(want, sizeof want, "left output 0, %s[2, 3], unwritten at element [1, 2]",
                 tl_dtype_name((tl_dtype)d));
        assert_fails(call_toy(f, all_but_the_last, 0, 0, NULL, 1, &y), TL_EINTERNAL, want);
        assert_ok(call_toy(f, zeros, 0, 0, NULL, 1, &whole));
        tl_ctx_end(f->c, m);
    }
}

static void a_number_like_the_pattern_is_no_mistake(void **state)
{
    fixture *f = *state;
    const tl_dtype types[] = {TL_I8, TL_U8, TL_I16, TL_I32, TL_I64};
    for (int i = 0; i < TL_COUNT(types); i++) {
        tl_tensor *y = blank(f, types[i], TL_SHAPE(3));
        assert_ok(call_toy(f, the_pattern_itself, 0, 0, NULL, 1, &y));
        assert_int_equal(byte_at(y, 0), 0xa5);
    }
}

static void both_patterns_at_once_are_no_mistake(void **state)
{
    fixture *f = *state;
    const tl_dtype types[] = {TL_I8, TL_U8, TL_I16, TL_I32, TL_I64};
    for (int i = 0; i < TL_COUNT(types); i++) {
        tl_tensor *y[] = {blank(f, types[i], TL_SHAPE(3, 5)), blank(f, TL_U8, TL_SHAPE(11))};
        assert_ok(call_toy(f, both_patterns, 0, 0, NULL, 2, y));
        assert_int_equal(byte_at(y[0], 0), 0xa5);
        assert_int_equal(byte_at(y[1], 10), 0x5a);
        assert_fails(call_toy(f, both_patterns_but_one, 0, 0, NULL, 2, y), TL_EINTERNAL,
                     "left output 1, uint8[11], unwritten at element [10]");
        assert_fails(call_toy(f, both_patterns_but_one, 0, 0, NULL, 1, y), TL_EINTERNAL,
                     "unwritten at element [2, 4]");
    }
}

static void an_op_that_writes_inputs_runs_once(void **state)
{
    fixture *f = *state;
    tl_tensor *x = counting(f->c, TL_F32, TL_SHAPE(3)), *y = blank(f, TL_F32, TL_SHAPE(2));
    tl_tensor *small = blank(f, TL_U8, TL_SHAPE(2)), *wide = blank(f, TL_I64, TL_SHAPE(2));
    assert_fails(call_toy(f, all_but_the_last, 1, 1, &x, 1, &y), TL_EINTERNAL,
                 "unwritten at element [1]");
    assert_ok(call_toy(f, the_pattern_itself, 1, 1, &x, 1, &small)); // cannot be told apart
    assert_fails(call_toy(f, the_pattern_itself, 1, 1, &x, 1, &wide), TL_EINTERNAL,
                 "unwritten at element [0]");
}

static void bools_are_0_or_1(void **state)
{
    fixture *f = *state;
    tl_tensor *y = blank(f, TL_BOOL, TL_SHAPE(2, 2));
    assert_fails(call_toy(f, two_in_a_bool, 0, 0, NULL, 1, &y), TL_EINTERNAL,
                 "set output 0, bool[2, 2], to 2 at element [0, 1]");
}

static void outputs_lie_alone(void **state)
{
    fixture *f = *state;
    tl_tensor *x = counting(f->c, TL_F32, TL_SHAPE(6)), *part = NULL,
              *y = blank(f, TL_F32, TL_SHAPE(6));
    assert_fails(call_toy(f, zeros, 0, 1, &x, 1, &x), TL_EINTERNAL,
                 "output 0, float32[6], lies over input 0");
    assert_ok(tl_tensor_part(&part, y, 2, TL_SHAPE(2)));
    assert_fails(call_toy(f, zeros, 0, 1, &x, 2, (tl_tensor *[]){y, part}), TL_EINTERNAL,
                 "output 1, float32[2], lies over output 0, float32[6], so that");
    tl_tensor_free(&part);
    // Neighbours in one storage are fine, and so are tensors without elements.
    tl_tensor *left, *right, *none;
    assert_ok(tl_tensor_part(&left, y, 0, TL_SHAPE(3)));
    assert_ok(tl_tensor_part(&right, y, 3, TL_SHAPE(3)));
    assert_ok(tl_tensor_part(&none, y, 1, TL_SHAPE(0)));
    assert_ok(call_toy(f, zeros, 0, 1, &x, 3, (tl_tensor *[]){left, right, none}));
    tl_tensor_free(&left);
    tl_tensor_free(&right);
    tl_tensor_free(&none);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void writes_outside_are_found(void **state)
{
    fixture *f = *state;
    const int64_t sizes[] = {0, 1, 16, 17, 100, 1000};
    for (int i = 0; i < TL_COUNT(sizes); i++) {
        tl_tensor *x = counting(f->c, TL_F32, TL_SHAPE(3)), *y[4];
        for (int k = 0; k < 4; k++) y[k] = blank(f, TL_F32, TL_SHAPE(sizes[i]));
        char want[120];
        snprintf(want, sizeof want,
                 "wrote outside of output 0, float32[%d], at byte %d of a storage of %d bytes",
                 (int)sizes[i], (int)sizes[i] * 4, (int)sizes[i] * 4);
        assert_fails(call_toy(f, one_beyond, 0, 0, NULL, 1, &y[0]), TL_EINTERNAL, want);
        assert_fails(call_toy(f, far_beyond, 0, 0, NULL, 1, &y[1]), TL_EINTERNAL,
                     "the kernel wrote outside of output");
        assert_fails(call_toy(f, one_before, 0, 0, NULL, 1, &y[2]), TL_EINTERNAL, "at byte -1");
        assert_fails(call_toy(f, beyond_the_input, 0, 1, &x, 1, &y[3]), TL_EINTERNAL,
                     "the kernel wrote outside of input 0, float32[3], at byte 12");
        assert_fails(call_toy(f, zeros, 0, 1, &x, 1, &y[3]), TL_EINTERNAL,
                     "somebody wrote earlier outside of input 0");
    }
}

static void stale_and_outlying_tensors_are_refused(void **state)
{
    fixture *f = *state;
    tl_tensor *x, *y = blank(f, TL_F32, TL_SHAPE(2));
    assert_ok(tl_tensor_new(&x, f->engine, TL_F32, TL_SHAPE(2)));
    assert_ok(tl_tensor_set_doubles(x, (const double[]){1, 2}, 2));
    tl_tensor stale = *x, *p = &stale, outlying = *y, none = *y;
    tl_tensor_free(&x);
    assert_fails(call_toy(f, zeros, 0, 1, &p, 1, &y), TL_ESTATE, "input 0, float32[2], is stale");
    p = &outlying;
    outlying.offset = 1;
    assert_fails(call_toy(f, zeros, 0, 1, &p, 1, &y), TL_ESTATE,
                 "takes bytes 4 to 12 of a storage of 8 bytes");
    outlying.offset = 0;
    outlying.strides[0] = -1;
    outlying.contiguous = false;
    assert_fails(call_toy(f, zeros, 0, 1, &p, 1, &y), TL_ESTATE, "takes bytes -4 to 4");
    p = &none;
    none.storage = NULL;
    assert_fails(call_toy(f, zeros, 0, 1, &p, 1, &y), TL_ESTATE, "has no elements");
}

static void leased_tensors_are_not_written(void **state)
{
    fixture *f = *state;
    tl_tensor *x = counting(f->c, TL_F32, TL_SHAPE(2)), *y = blank(f, TL_F32, TL_SHAPE(2));
    tl_lease l;
    assert_ok(tl_lease_read(&l, y));
    assert_fails(call_toy(f, zeros, 0, 1, &x, 1, &y), TL_ESTATE,
                 "output 0, float32[2], is written while it is leased");
    assert_ok(tl_lease_end(&l));
    assert_ok(tl_lease_read(&l, x));
    assert_ok(call_toy(f, zeros, 0, 1, &x, 1, &y)); // reading is fine
    assert_fails(call_toy(f, zeros, 1, 1, &x, 1, &y), TL_ESTATE,
                 "input 0, float32[2], is written while it is leased");
    assert_ok(tl_lease_end(&l));
    assert_ok(call_toy(f, zeros, 1, 1, &x, 1, &y));
}

/* --- inputs ----------------------------------------------------------------------------------- */

static void changed_inputs_are_found(void **state)
{
    fixture *f = *state;
    tl_tensor *x = counting(f->c, TL_I32, TL_SHAPE(4)), *y = blank(f, TL_F32, TL_SHAPE(1));
    assert_fails(call_toy(f, changes_its_input, 0, 1, &x, 1, &y), TL_EINTERNAL,
                 "changed input 0, int32[4], which the op does not list");
    assert_ok(call_toy(f, changes_its_input, 1, 1, &x, 1, &y));
    // What lies over an input that is written may change with it.
    tl_tensor *same;
    assert_ok(tl_tensor_keep(&same, x));
    assert_ok(call_toy(f, changes_its_input, 2, 2, (tl_tensor *[]){x, same}, 1, &y));
    tl_tensor_free(&same);
}

static void large_inputs_are_compared_in_pieces(void **state)
{
    fixture few;
    (void)state;
    tl_check_options options = {.finite = TL_CHECK_OFF, .inputs = true, .input_bytes = 10000};
    fixture_open(&few, &toy_backend, &options);
    tl_tensor *x = tl_zeros(few.c, TL_U8, TL_SHAPE(100001)), *y = blank(&few, TL_F32, TL_SHAPE(1));
    assert_fails(call_toy(&few, changes_its_input, 0, 1, &x, 1, &y), TL_EINTERNAL,
                 "changed input 0"); // the last byte
    assert_ok(call_toy(&few, zeros, 0, 1, &x, 1, &y));
    fixture_close(&few);
    options.input_bytes = 0; // the first piece and the last one, even so
    fixture_open(&few, &toy_backend, &options);
    x = tl_zeros(few.c, TL_U8, TL_SHAPE(3));
    y = blank(&few, TL_F32, TL_SHAPE(1));
    assert_fails(call_toy(&few, changes_its_input, 0, 1, &x, 1, &y), TL_EINTERNAL,
                 "changed input 0");
    fixture_close(&few);
}

static void many_inputs_are_looked_at_alike(void **state)
{
    fixture *f = *state;
    tl_tensor *in[20], *y = blank(f, TL_F32, TL_SHAPE(1));
    for (int i = 0; i < 20; i++) in[i] = counting(f->c, TL_F32, TL_SHAPE(2));
    assert_ok(call_toy(f, zeros, 0, 20, in, 1, &y));
    in[19] = blank(f, TL_F32, TL_SHAPE(2));
    assert_fails(call_toy(f, zeros, 0, 20, in, 1, &y), TL_ESTATE,
                 "input 19, float32[2], is read before");
    tl_alloc_fail_at(1, 1);
    assert_fails(call_toy(f, zeros, 0, 20, in, 1, &y), TL_ENOMEM, "out of memory");
    tl_alloc_fail_at(0, 0);
}

static void unwritten_inputs_are_found(void **state)
{
    fixture *f = *state;
    const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64, TL_I32, TL_I64};
    double ones[6] = {1, 1, 1, 1, 1, 1};
    for (int i = 0; i < TL_COUNT(types); i++) {
        tl_tensor *x, *part, *y = blank(f, TL_F32, TL_SHAPE(1));
        assert_ok(tl_tensor_new(&x, f->engine, types[i], TL_SHAPE(2, 3)));
        assert_fails(call_toy(f, zeros, 0, 1, &x, 1, &y), TL_ESTATE,
                     "nobody has set element [0, 0]");
        assert_ok(tl_tensor_part(&part, x, 0, TL_SHAPE(4)));
        assert_ok(tl_tensor_set_doubles(part, ones, 4));
        tl_tensor_free(&part);
        assert_fails(call_toy(f, zeros, 0, 1, &x, 1, &y), TL_ESTATE,
                     "nobody has set element [1, 1]");
        // In a transposed view the element has another place.
        tl_tensor *t = tl_transpose(f->c, x, (const int64_t[]){1, 0}, 2);
        assert_non_null(t);
        assert_fails(call_toy(f, zeros, 0, 1, &t, 1, &y), TL_ESTATE,
                     "nobody has set element [1, 1]");
        tl_ctx_drop(f->c, t);
        assert_ok(tl_tensor_set_doubles(x, ones, 6));
        assert_ok(call_toy(f, zeros, 0, 1, &x, 1, &y));
        tl_tensor_free(&x);
    }
}

static void memory_that_comes_back_is_unwritten_again(void **state)
{
    fixture *f = *state;
    tl_tensor *x, *y = blank(f, TL_F32, TL_SHAPE(1));
    for (int i = 0; i < 3; i++) {
        assert_ok(tl_tensor_new(&x, f->engine, TL_F32, TL_SHAPE(2)));
        assert_fails(call_toy(f, zeros, 0, 1, &x, 1, &y), TL_ESTATE,
                     "is read before it was written");
        assert_ok(tl_tensor_set_doubles(x, (const double[]){1, 2}, 2));
        assert_ok(call_toy(f, zeros, 0, 1, &x, 1, &y));
        const uint16_t *late = tl_kernel_data(x); // whoever keeps such a pointer reads NaN
        tl_tensor_free(&x);
        bool seen = tl_engine_device(f->engine)->cls->host;
        for (int k = 0; seen && k < 4; k++) assert_int_equal(late[k], TLI_UNWRITTEN);
    }
}

/* --- NaN and infinity ------------------------------------------------------------------------- */

static void the_first_strange_number_is_named(void **state)
{
    fixture *f = *state;
    const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64};
    const double values[] = {NAN, INFINITY, -INFINITY};
    const char *names[] = {"is nan", "is inf", "is -inf"};
    for (int i = 0; i < TL_COUNT(types); i++) {
        for (int v = 0; v < 3; v++) {
            tl_tensor *x = counting(f->c, TL_F32, TL_SHAPE(3)),
                      *y = blank(f, types[i], TL_SHAPE(2, 2));
            strange = values[v];
            char want[160];
            snprintf(want, sizeof want,
                     "%s[2, 2], %s at element [1, 1], and all inputs were finite: "
                     "float32[3] from 0 to 2",
                     tl_dtype_name(types[i]), names[v]);
            assert_fails(call_toy(f, strange_at_the_end, 0, 1, &x, 1, &y), TL_EINVAL, want);
        }
    }
    assert_int_equal(tl_check_count(f->check), 12);
    assert_non_null(strstr(tl_check_first(f->check), "net: toy: output 0, float32[2, 2], is"));
    tl_check_reset(f->check);
    assert_string_equal(tl_check_first(f->check), "");
}

static void strange_inputs_excuse_strange_outputs(void **state)
{
    fixture *f = *state;
    tl_tensor *x = tl_full(f->c, TL_F32, TL_SHAPE(2), INFINITY); // asked for: fine
    assert_non_null(x);
    tl_tensor *y = blank(f, TL_F32, TL_SHAPE(2)), *whole = counting(f->c, TL_I32, TL_SHAPE(2));
    strange = NAN;
    assert_ok(call_toy(f, strange_at_the_end, 0, 1, &x, 1, &y));
    assert_ok(call_toy(f, strange_at_the_end, 0, 1, &whole, 1, &y)); // no float among the inputs
    strange = 7;
    x = counting(f->c, TL_F32, TL_SHAPE(2));
    assert_ok(call_toy(f, strange_at_the_end, 0, 1, &x, 1, &y));
    assert_int_equal(tl_check_count(f->check), 0);
}

static void inputs_that_are_written_are_watched_too(void **state)
{
    fixture *f = *state;
    tl_tensor *x = counting(f->c, TL_F32, TL_SHAPE(3));
    strange = INFINITY;
    tl_op_class op = {.op = TL_OP_exp, .name = "update", .by = 0, .writes = 1};
    tl_node call = {.op = &op, .in = &x, .inputs = 1};
    the_kernel = strange_at_the_end;
    tl_draws draws = {0};
    assert_fails(tl_engine_run(f->engine, &draws, &call), TL_EINVAL,
                 "input 0, float32[3], is inf at element [2]");
    assert_non_null(strstr(tl_check_first(f->check), "update: input 0"));
}

/* Of an update whose gradient has two floats of half precision and, from byte 64 on, two floats. */
static tl_status update_by_runs(fixture *f, float half, float whole)
{
    tl_tensor *in[] = {counting(f->c, TL_F32, TL_SHAPE(4)), blank(f, TL_U8, TL_SHAPE(72))};
    const int64_t numbers[] = {0, 0, TL_BF16, 2, 64, TL_F32};
    const tl_update_attr attr = {.runs = {numbers, TL_COUNT(numbers)}};
    tl_op_class op = {
        .op = TL_OP_exp, .name = "update", .by = 0, .writes = 1, .flags = TL_OP_UPDATE};
    const tl_node call = {.op = &op, .attr = &attr, .in = in, .inputs = 2};
    const tl_draws draws = {0};
    uint8_t bytes[72] = {0};
    tl_lease lease = {0};
    tli_element_set(TL_BF16, bytes, 1, half);
    tli_element_set(TL_F32, bytes, 17, whole);
    TL_TRY(tl_lease_discard(&lease, in[1]));
    memcpy(lease.data, bytes, sizeof bytes);
    TL_TRY(tl_lease_end(&lease));
    the_kernel = strange_at_the_end;
    return tl_engine_run(f->engine, &draws, &call);
}

static void gradients_of_several_types_are_looked_into(void **state)
{
    fixture *f = *state;
    strange = NAN;
    assert_fails(update_by_runs(f, 1, 2), TL_EINVAL, "input 0, float32[4], is ");
    assert_int_equal(tl_check_count(f->check), 1);
    assert_ok(update_by_runs(f, INFINITY, 2)); // who gives NaN may get it
    assert_ok(update_by_runs(f, 1, NAN));
    assert_int_equal(tl_check_count(f->check), 1);
}

static tl_log_record last_record;
static int64_t records;

static void remember(const tl_log_record *record, void *payload)
{
    last_record = *record;
    snprintf(payload, 256, "%s", record->text);
    records++;
}

static void it_can_only_warn(void **state)
{
    (void)state;
    fixture f;
    tl_check_options options = {.finite = TL_CHECK_WARN};
    static char text[256];
    int64_t handle;
    fixture_open(&f, &toy_backend, &options);
    assert_ok(tl_log_sink_add(&handle, &(tl_log_sink){TL_LEVEL_WARNING, remember, NULL, text}));
    tl_log_sink_remove(TL_LOG_STDERR);
    tl_tensor *x = counting(f.c, TL_F32, TL_SHAPE(2)), *y = blank(&f, TL_F32, TL_SHAPE(2));
    strange = NAN;
    for (int i = 0; i < 3; i++) assert_ok(call_toy(&f, strange_at_the_end, 0, 1, &x, 1, &y));
    assert_int_equal(records, 1);
    assert_int_equal(tl_check_count(f.check), 3);
    assert_non_null(strstr(text, "net: toy: output 0, float32[2], is "));
    tl_check_reset(f.check);
    assert_ok(call_toy(&f, strange_at_the_end, 0, 1, &x, 1, &y));
    assert_int_equal(records, 2);
    tl_log_sink_remove(handle);
    fixture_close(&f);
}

static void a_failing_kernel_keeps_its_words(void **state)
{
    fixture *f = *state;
    tl_tensor *y = blank(f, TL_F32, TL_SHAPE(2));
    assert_fails(call_toy(f, fails, 0, 0, NULL, 1, &y), TL_EUNSUPPORTED, "not today");
}

/* --- options, backends ------------------------------------------------------------------------ */

static void everything_can_be_switched_off(void **state)
{
    (void)state;
    fixture f;
    tl_check_options none = {.finite = TL_CHECK_OFF};
    fixture_open(&f, &toy_backend, &none);
    tl_tensor *x = counting(f.c, TL_F32, TL_SHAPE(2)), *fresh = blank(&f, TL_F32, TL_SHAPE(2));
    tl_tensor *y = blank(&f, TL_F32, TL_SHAPE(2)), *b = blank(&f, TL_BOOL, TL_SHAPE(4));
    strange = NAN;
    assert_ok(call_toy(&f, all_but_the_last, 0, 1, &fresh, 1, &y));
    assert_ok(call_toy(&f, changes_its_input, 0, 1, &x, 1, &y));
    assert_ok(call_toy(&f, two_in_a_bool, 0, 1, &x, 1, &b));
    assert_ok(call_toy(&f, strange_at_the_end, 0, 1, &x, 1, &y));
    assert_ok(call_toy(&f, zeros, 0, 1, &x, 1, &x));
    assert_ok(call_toy(&f, one_beyond, 0, 1, &x, 1, &y)); // the rest of its size class
    fixture_close(&f);
}

static void options_are_described(void **state)
{
    (void)state;
    tl_arena *arena;
    tl_check_options o;
    tl_check *check = NULL;
    assert_ok(tl_desc_verify(&tl_check_options_desc));
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_desc_defaults(arena, &tl_check_options_desc, &o));
    assert_int_equal(o.finite, TL_CHECK_FAIL);
    assert_true(o.outputs && o.inputs && o.unwritten && o.memory);
    o.input_bytes = -1;
    assert_fails(tl_check_new(&check, &toy_backend, &o), TL_EINVAL, "input_bytes");
    assert_null(check);
    tl_arena_free(&arena);
    for (int64_t nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_check_new(&check, &toy_backend, NULL);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_null(check);
    }
    tl_check_free(&check);
    tl_check_free(&check);
}

static int64_t around_calls;

static tl_status counted(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    around_calls++;
    return kernel(run, call);
}

static void the_inner_backend_keeps_its_own_hook(void **state)
{
    (void)state;
    fixture f;
    tl_backend_class inner = toy_backend;
    inner.around = counted;
    fixture_make(&f, &inner, NULL);
    assert_string_equal(tl_engine_backend(f.engine)->cls.name, "check(toy)");
    tl_tensor *y = blank(&f, TL_F32, TL_SHAPE(2));
    around_calls = 0;
    assert_ok(call_toy(&f, zeros, 0, 0, NULL, 1, &y));
    assert_int_equal(around_calls, 1);
    fixture_close(&f);
}

/* Around each other they would call themselves without end. */
static void nobody_is_checked_twice(void **state)
{
    fixture *f = *state, twice;
    fixture_make(&twice, tl_check_backend(f->check), NULL);
    assert_string_equal(tl_engine_backend(twice.engine)->cls.name,
                        tl_engine_backend(f->engine)->cls.name);
    tl_tensor *y = blank(&twice, TL_F32, TL_SHAPE(2));
    assert_ok(call_toy(&twice, zeros, 0, 0, NULL, 1, &y));
    assert_fails(call_toy(&twice, all_but_the_last, 0, 0, NULL, 1, &y), TL_EINTERNAL,
                 "unwritten at element [1]");
    fixture_close(&twice);
    // as the engines of tests are, with TILTH_CHECK=1
    tl_engine *engine;
    const char *before = getenv("TILTH_CHECK");
    char kept[8];
    snprintf(kept, sizeof kept, "%s", before ? before : "0");
    setenv("TILTH_CHECK", "1", 1);
    assert_ok(test_engine_new(&engine, tl_check_backend(f->check), 1));
    setenv("TILTH_CHECK", kept, 1);
    assert_ptr_equal(tl_engine_backend(engine), tl_check_backend(f->check));
    tl_engine_free(&engine);
}

static void tensors_of_other_engines_are_welcome(void **state)
{
    fixture *f = *state;
    tl_engine *plain;
    tl_tensor *x, *y = blank(f, TL_F32, TL_SHAPE(2));
    const tl_backend_class *backend;
    assert_ok(test_backend(&backend, NULL));
    assert_ok(tl_engine_new(
        &plain, &(tl_engine_args){.backend = backend, .beside = f->engine, .threads = 1}));
    assert_ok(tl_tensor_new(&x, plain, TL_F32, TL_SHAPE(2)));
    assert_ok(tl_tensor_set_doubles(x, (const double[]){1, 2}, 2));
    assert_ok(call_toy(f, zeros, 0, 1, &x, 1, &y));
    assert_fails(call_toy(f, changes_its_input, 0, 1, &x, 1, &y), TL_EINTERNAL, "changed input 0");
    tl_tensor_free(&x);
    tl_engine_free(&plain);
}

/* --- whole programs --------------------------------------------------------------------------- */

// Sum of exp(x^T b) and its gradient by x, into out[0..12].
static void small_program(tl_ctx *c, double out[13])
{
    tl_mark m = tl_ctx_begin(c);
    tl_tensor *x = tl_mul(c, counting(c, TL_F32, TL_SHAPE(3, 4)), tl_number(c, TL_F32, 0.01)), *g;
    tl_tensor *b = counting(c, TL_F32, TL_SHAPE(3));
    assert_non_null(x);
    assert_ok(tl_watch(x));
    bool before = tl_ctx_set_taping(c, true);
    tl_ctx_enter(c, "net");
    tl_tensor *y = tl_sum(
        c, tl_exp(c, tl_mul(c, tl_transpose(c, x, (const int64_t[]){1, 0}, 2), b)), TL_ALL, false);
    tl_ctx_leave(c);
    assert_ok(tl_gradient(c, y, &x, 1, &g));
    tl_ctx_set_taping(c, before);
    assert_ok(tl_tensor_item(y, out));
    assert_ok(tl_tensor_get_doubles(g, out + 1, 12));
    tl_ctx_end(c, m);
}

static void right_programs_pass_with_the_same_bits(void **state)
{
    (void)state;
    int64_t count;
    const tl_backend_class *const *backends = tl_cpu_backends(&count);
    for (int64_t i = 0; i < count; i++) {
        if (backends[i]->supported && backends[i]->supported() != TL_OK) continue;
        double want[13], got[13];
        tl_engine *plain;
        tl_ctx *c;
        assert_ok(tl_engine_new(&plain, &(tl_engine_args){.backend = backends[i], .threads = 2}));
        assert_ok(tl_ctx_new(&c, plain));
        small_program(c, want);
        tl_ctx_free(&c);
        tl_engine_free(&plain);
        fixture f;
        fixture_open(&f, backends[i], NULL);
        small_program(f.c, got);
        small_program(f.c, got);
        assert_memory_equal(got, want, sizeof want);
        fixture_close(&f);
    }
}

static void mistakes_are_told_with_module_and_op(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, &tl_backend_reference, NULL);
    double large = 1000;
    tl_ctx_enter(f.c, "encoder");
    tl_tensor *x = tl_from_doubles(f.c, TL_F32, TL_SHAPE(1), &large);
    tl_tensor *y = tl_sum(f.c, tl_exp(f.c, x), TL_ALL, false);
    tl_ctx_leave(f.c);
    assert_null(y);
    assert_fails(
        tl_ctx_status(f.c), TL_EINVAL,
        "encoder: exp: output 0, float32[1], is inf at element [0], and all inputs were finite: "
        "float32[1] from 1000 to 1000");
    tl_ctx_clear(f.c);
    tl_tensor *fresh;
    assert_ok(tl_tensor_new(&fresh, f.engine, TL_F32, TL_SHAPE(2)));
    assert_null(tl_add(f.c, x, fresh));
    assert_fails(tl_ctx_status(f.c), TL_ESTATE,
                 "add: input 1, float32[2], is read before it was written");
    tl_tensor_free(&fresh);
    fixture_close(&f);
}

static void *run_programs(void *payload)
{
    tl_ctx *c;
    double *out = payload;
    if (tl_ctx_new(&c, ((tl_engine **)payload)[13]) != TL_OK) return payload;
    for (int i = 0; i < 20; i++) small_program(c, out);
    tl_ctx_free(&c);
    return NULL;
}

static void contexts_of_several_threads_share_it(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    fixture f;
    struct {
        double out[13];
        tl_engine *engine;
    } jobs[THREADS];
    pthread_t threads[THREADS];
    fixture_open(&f, &tl_backend_reference, NULL);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].engine = f.engine;
        assert_int_equal(pthread_create(&threads[i], NULL, run_programs, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        assert_memory_equal(jobs[i].out, jobs[0].out, sizeof jobs[0].out);
    }
    fixture_close(&f);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(unwritten_outputs_are_found_in_every_type),
        T(a_number_like_the_pattern_is_no_mistake),
        T(both_patterns_at_once_are_no_mistake),
        T(an_op_that_writes_inputs_runs_once),
        T(bools_are_0_or_1),
        T(outputs_lie_alone),
        T(writes_outside_are_found),
        T(stale_and_outlying_tensors_are_refused),
        T(leased_tensors_are_not_written),
        T(changed_inputs_are_found),
        cmocka_unit_test(large_inputs_are_compared_in_pieces),
        T(many_inputs_are_looked_at_alike),
        T(unwritten_inputs_are_found),
        T(memory_that_comes_back_is_unwritten_again),
        T(the_first_strange_number_is_named),
        T(strange_inputs_excuse_strange_outputs),
        T(inputs_that_are_written_are_watched_too),
        T(gradients_of_several_types_are_looked_into),
        cmocka_unit_test(it_can_only_warn),
        T(a_failing_kernel_keeps_its_words),
        cmocka_unit_test(everything_can_be_switched_off),
        cmocka_unit_test(options_are_described),
        cmocka_unit_test(the_inner_backend_keeps_its_own_hook),
        T(nobody_is_checked_twice),
        T(tensors_of_other_engines_are_welcome),
        cmocka_unit_test(right_programs_pass_with_the_same_bits),
        cmocka_unit_test(mistakes_are_told_with_module_and_op),
        cmocka_unit_test(contexts_of_several_threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
