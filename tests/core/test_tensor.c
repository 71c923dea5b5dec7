/* runs: fake device */
#include "core/lab.h"

#include <locale.h>
#include <stdlib.h>
#include <tilth/base/alloc.h>
#include <tilth/sys/core/backend.h>
#include <tilth/core/tensor.h>

static tl_engine *engine;

static int setup(void **state)
{
    (void)state;
    engine = open_engine();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_engine(&engine);
    return 0;
}

static tl_tensor *counting(tl_dtype dtype, tl_shape shape)
{
    tl_tensor *t;
    assert_ok(tl_tensor_new(&t, engine, dtype, shape));
    int64_t count = tl_tensor_count(t);
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = (double)i;
    assert_ok(tl_tensor_set_doubles(t, values, count));
    free(values);
    return t;
}

/* A view of a matrix with its axes exchanged. */
static tl_tensor *transposed(const tl_tensor *t)
{
    tl_tensor *v;
    assert_ok(tl_tensor_keep(&v, t));
    v->shape = TL_SHAPE(t->shape.dims[1], t->shape.dims[0]);
    v->strides[0] = t->strides[1];
    v->strides[1] = t->strides[0];
    v->contiguous = false;
    return v;
}

/* --- making ----------------------------------------------------------------------------------- */

static void tensors_are_made_and_freed(void **state)
{
    (void)state;
    char spec[TL_TENSOR_TEXT];
    for (int d = 0; d < TL_DTYPE_COUNT; d++) {
        tl_tensor *t = counting((tl_dtype)d, TL_SHAPE(2, 3));
        assert_int_equal(tl_tensor_count(t), 6);
        assert_int_equal(tl_tensor_bytes(t), 6 * tl_dtype_size((tl_dtype)d));
        assert_ptr_equal(tl_tensor_engine(t), engine);
        assert_true(t->contiguous && t->strides[0] == 3 && t->strides[1] == 1);
        assert_int_equal((uintptr_t)tl_kernel_data(t) % 64, 0);
        tl_tensor_free(&t);
        assert_null(t);
        tl_tensor_free(&t);
    }
    tl_tensor *t = counting(TL_BF16, TL_SCALAR);
    assert_string_equal(tl_tensor_spec(spec, t), "bfloat16[]");
    tl_tensor_free(&t);
    t = counting(TL_F32, TL_SHAPE(0, 3));
    assert_int_equal(tl_tensor_bytes(t), 0);
    tl_tensor_free(&t);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    tl_tensor *t = NULL;
    assert_fails(tl_tensor_new(&t, engine, TL_F32, TL_SHAPE(-2)), TL_EINVAL,
                 "tensor: shape [-2] has a negative");
    assert_fails(tl_tensor_new(&t, engine, TL_F32, TL_SHAPE(INT64_MAX, 2)), TL_ELIMIT,
                 "too many elements");
    assert_fails(tl_tensor_new(&t, engine, TL_F64, TL_SHAPE(INT64_MAX / 8)), TL_ENOMEM,
                 "out of memory: a tensor needs");
    assert_fails(tl_tensor_new(&t, engine, TL_U8, TL_SHAPE(INT64_C(1) << 59)), TL_ENOMEM,
                 "out of memory");
    assert_null(t);
}

static void kept_tensors_share_elements(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_F32, TL_SHAPE(2, 3)), *kept, *part, *inner;
    assert_ok(tl_tensor_keep(&kept, t));
    assert_ok(tl_tensor_part(&part, t, 2, TL_SHAPE(2, 2)));
    assert_ok(tl_tensor_part(&inner, part, 1, TL_SHAPE(3)));
    tl_tensor_free(&t);
    double values[6] = {0};
    assert_ok(tl_tensor_set_doubles(inner, (const double[]){30, 40, 50}, 3));
    tl_tensor_free(&inner);
    assert_ok(tl_tensor_get_doubles(part, values, 4));
    assert_true(values[0] == 2 && values[1] == 30 && values[3] == 50);
    assert_ok(tl_tensor_get_doubles(kept, values, 6));
    assert_true(values[2] == 2 && values[3] == 30 && values[5] == 50);
    tl_tensor_free(&part);
    tl_tensor_free(&kept);
}

static void parts_lie_inside(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_F32, TL_SHAPE(2, 3)), *p = NULL, *view = transposed(t);
    assert_fails(tl_tensor_part(&p, t, 4, TL_SHAPE(3)), TL_EINVAL,
                 "float32[3] does not fit into float32[2, 3] at element 4");
    assert_fails(tl_tensor_part(&p, t, -1, TL_SHAPE(1)), TL_EINVAL, "does not fit");
    assert_fails(tl_tensor_part(&p, t, 7, TL_SHAPE(0)), TL_EINVAL, "does not fit");
    assert_fails(tl_tensor_part(&p, t, INT64_MAX, TL_SHAPE(1)), TL_EINVAL, "does not fit");
    assert_fails(tl_tensor_part(&p, t, INT64_MIN, TL_SHAPE(1)), TL_EINVAL, "does not fit");
    assert_fails(tl_tensor_part(&p, t, 0, TL_SHAPE(-1)), TL_EINVAL, "part of a tensor: shape [-1]");
    assert_fails(tl_tensor_part(&p, view, 0, TL_SHAPE(2)), TL_EINVAL, "is not row-major");
    assert_null(p);
    assert_ok(tl_tensor_part(&p, t, 6, TL_SHAPE(0)));
    tl_tensor_free(&p);
    tl_tensor_free(&view);
    tl_tensor_free(&t);
}

static void headers_move_between_blocks(void **state)
{
    (void)state;
    tl_tensor *a = counting(TL_F32, TL_SHAPE(6)), *b = counting(TL_F32, TL_SHAPE(2, 4)),
              *i = counting(TL_I32, TL_SHAPE(8));
    tl_tensor t = {.dtype = TL_F32, .shape = TL_SHAPE(2, 2)},
              none = {.dtype = TL_F32, .shape = TL_SHAPE(4)};
    double values[4];
    assert_ok(tl_tensor_place(&t, a, 2));
    assert_ok(tl_tensor_get_doubles(&t, values, 4));
    assert_true(values[0] == 2 && values[3] == 5);
    assert_ok(tl_tensor_place(&t, b, 4));
    tl_tensor_free(&b); // the header holds it now
    assert_ok(tl_tensor_get_doubles(&t, values, 4));
    assert_true(values[0] == 4 && values[3] == 7 && t.strides[0] == 2 && t.contiguous);
    assert_fails(tl_tensor_place(&t, a, 3), TL_EINVAL,
                 "float32[2, 2] does not fit into float32[6] at element 3");
    assert_fails(tl_tensor_place(&t, i, 0), TL_EINVAL, "float32[2, 2] does not fit into int32[8]");
    assert_fails(tl_tensor_place(&t, &none, 0), TL_ESTATE, "has no elements");
    assert_ok(tl_tensor_get_doubles(&t, values, 4)); // as before
    assert_near(values[0], 4, 0);
    assert_ok(tl_tensor_place(&t, NULL, 0));
    assert_null(t.storage);
    tl_tensor_free(&a);
    tl_tensor_free(&i);
}

static void described_tensors_have_no_elements(void **state)
{
    (void)state;
    tl_tensor t = {.dtype = TL_F32, .shape = TL_SHAPE(2), .contiguous = true}, *kept;
    float values[2] = {0};
    double doubles[2] = {0};
    tl_lease l;
    assert_null(tl_tensor_engine(&t));
    assert_fails(tl_tensor_keep(&kept, &t), TL_ESTATE, "float32[2] has no elements");
    assert_fails(tl_tensor_set(&t, values, sizeof values), TL_ESTATE, "has no elements");
    assert_fails(tl_tensor_get(&t, values, sizeof values), TL_ESTATE, "has no elements");
    assert_fails(tl_tensor_set_doubles(&t, doubles, 2), TL_ESTATE, "has no elements");
    assert_fails(tl_tensor_get_doubles(&t, doubles, 2), TL_ESTATE, "has no elements");
    assert_fails(tl_lease_read(&l, &t), TL_ESTATE, "has no elements");
    assert_fails(tl_lease_write(&l, &t), TL_ESTATE, "has no elements");
    assert_ok(tl_lease_end(&l));
}

/* --- elements --------------------------------------------------------------------------------- */

static void elements_go_in_and_out(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_I16, TL_SHAPE(2, 2));
    int16_t values[4] = {-1, 2, -3, 4}, back[4];
    double item;
    assert_ok(tl_tensor_set(t, values, sizeof values));
    assert_ok(tl_tensor_get(t, back, sizeof back));
    assert_memory_equal(values, back, sizeof back);
    assert_fails(tl_tensor_set(t, values, 6), TL_EINVAL, "int16[2, 2] has 8 bytes, not 6");
    assert_fails(tl_tensor_get(t, back, 9), TL_EINVAL, "has 8 bytes, not 9");
    double doubles[5];
    assert_fails(tl_tensor_get_doubles(t, doubles, 5), TL_EINVAL,
                 "int16[2, 2] has 4 elements, not 5");
    assert_fails(tl_tensor_set_doubles(t, doubles, 3), TL_EINVAL, "has 4 elements, not 3");
    assert_fails(tl_tensor_item(t, &item), TL_EINVAL,
                 "has 4 elements; only a tensor with one has an item");
    tl_tensor_free(&t);
    t = counting(TL_F32, TL_SHAPE(1, 1));
    assert_ok(tl_tensor_item(t, &item));
    assert_near(item, 0, 0);
    tl_tensor_free(&t);
    t = counting(TL_F32, TL_SHAPE(0));
    assert_ok(tl_tensor_set(t, NULL, 0));
    assert_ok(tl_tensor_get(t, NULL, 0));
    assert_fails(tl_tensor_item(t, &item), TL_EINVAL, "has 0 elements");
    tl_tensor_free(&t);
}

static void views_are_read_and_written_in_row_major_order(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_I32, TL_SHAPE(2, 3)), *v = transposed(t);
    int32_t got[6];
    const int32_t want[6] = {0, 3, 1, 4, 2, 5}, more[6] = {10, 11, 12, 13, 14, 15};
    assert_ok(tl_tensor_get(v, got, sizeof got));
    assert_memory_equal(got, want, sizeof want);
    assert_ok(tl_tensor_set(v, more, sizeof more));
    assert_ok(tl_tensor_get(t, got, sizeof got));
    const int32_t written[6] = {10, 12, 14, 11, 13, 15};
    assert_memory_equal(got, written, sizeof written);
    tl_lease l;
    assert_ok(tl_lease_write(&l, v));
    assert_true(l.copied && ((int32_t *)l.data)[1] == 11);
    ((int32_t *)l.data)[1] = 99;
    assert_ok(tl_lease_end(&l));
    assert_ok(tl_tensor_get(t, got, sizeof got));
    assert_int_equal(got[3], 99);
    tl_tensor_free(&v);
    tl_tensor_free(&t);
}

/* --- leases ----------------------------------------------------------------------------------- */

static void leases_exclude_each_other(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_F32, TL_SHAPE(2, 2)), *same;
    tl_lease a, b, c;
    float values[4];
    assert_ok(tl_tensor_keep(&same, t)); // another header, the same storage
    assert_ok(tl_lease_read(&a, t));
    assert_ok(tl_lease_read(&b, same));
    assert_memory_equal(a.data, b.data, sizeof values);
    assert_fails(tl_lease_write(&c, t), TL_ESTATE,
                 "float32[2, 2] cannot be leased for writing: it is leased for reading");
    assert_null(c.tensor);
    assert_ok(tl_lease_end(&c)); // of one that was not had
    assert_fails(tl_tensor_set(same, values, sizeof values), TL_ESTATE, "leased for reading");
    assert_ok(tl_tensor_get(same, values, sizeof values));
    assert_ok(tl_lease_end(&a));
    assert_ok(tl_lease_end(&a));
    assert_fails(tl_lease_write(&c, t), TL_ESTATE, "leased for reading");
    assert_ok(tl_lease_end(&b));
    assert_ok(tl_lease_write(&c, same));
    assert_fails(tl_lease_read(&a, t), TL_ESTATE,
                 "cannot be leased for reading: it is leased for writing");
    assert_fails(tl_lease_write(&b, t), TL_ESTATE,
                 "cannot be leased for writing: it is leased for writing");
    assert_fails(tl_tensor_get(t, values, sizeof values), TL_ESTATE, "leased for writing");
    assert_ok(tl_lease_end(&c));
    assert_ok(tl_lease_write(&a, t));
    assert_ok(tl_lease_end(&a));
    tl_tensor_free(&same);
    tl_tensor_free(&t);
}

static void a_lease_holds_the_storage(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_F32, TL_SHAPE(4)), *next;
    tl_lease l;
    assert_ok(tl_lease_read(&l, t));
    tl_tensor_free(&t); // too early, and without harm: the elements stay until the lease ends
    assert_ok(tl_tensor_new(&next, engine, TL_F32, TL_SHAPE(4)));
    assert_ptr_not_equal(tl_kernel_data(next), l.data);
    assert_near(((const float *)l.data)[3], 3, 0);
    assert_ok(tl_lease_end(&l));
    tl_tensor_free(&next);
    for (int i = 0; i < 2; i++) { // and the storage is nobody's lease afterwards
        t = counting(TL_F32, TL_SHAPE(4));
        tl_tensor_free(&t);
    }
}

static void one_element_many_times_is_not_written(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_F32, TL_SHAPE(1, 3)), *wide;
    double values[6] = {0};
    tl_lease l;
    assert_ok(tl_tensor_keep(&wide, t));
    wide->shape = TL_SHAPE(2, 3);
    wide->strides[0] = 0;
    wide->contiguous = false;
    assert_ok(tl_tensor_get_doubles(wide, values, 6));
    assert_near(values[5], 2, 0);
    assert_fails(tl_lease_write(&l, wide), TL_EINVAL,
                 "float32[2, 3] cannot be written: it shows one element many times");
    assert_fails(tl_tensor_set_doubles(wide, values, 6), TL_EINVAL, "many times");
    tl_tensor_free(&wide);
    tl_tensor_free(&t);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_F32, TL_SHAPE(2, 3)), *v = transposed(t), *other = NULL;
    tl_lease l;
    double values[6];
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_lease_read(&l, v), TL_ENOMEM, "out of memory");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_lease_write(&l, v), TL_ENOMEM, "out of memory");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_tensor_get_doubles(v, values, 6), TL_ENOMEM, "out of memory");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_tensor_keep(&other, t), TL_ENOMEM, "out of memory");
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_tensor_part(&other, t, 0, TL_SHAPE(1)), TL_ENOMEM, "out of memory");
    // Where small ones are cut from blocks, memory of one that is in use is there.
    const int64_t most = tl_engine_device(engine)->cls->block ? 1 : 3;
    for (int64_t nth = 1; nth <= most; nth++) {
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 100);
        assert_fails(tl_tensor_new(&other, engine, TL_F32, TL_SHAPE(7)), TL_ENOMEM,
                     "out of memory");
    }
    tl_alloc_fail_at(0, 0);
    assert_null(other);
    assert_ok(tl_lease_write(&l, v)); // nothing stayed leased
    assert_ok(tl_lease_end(&l));
    tl_tensor_free(&v);
    tl_tensor_free(&t);
}

/* --- text ------------------------------------------------------------------------------------- */

static void assert_text(tl_tensor *t, const char *want)
{
    tl_str text = TL_STR_INIT;
    tl_tensor_text(&text, t);
    if (strcmp(tl_str_text(&text), want) != 0)
        fail_msg("got\n%s\n    and not\n%s", tl_str_text(&text), want);
    tl_str_deinit(&text);
}

static void assert_shown(tl_dtype dtype, tl_shape shape, const double *values, const char *want)
{
    tl_tensor *t;
    assert_ok(tl_tensor_new(&t, engine, dtype, shape));
    assert_ok(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    assert_text(t, want);
    tl_tensor_free(&t);
}

static void small_tensors_have_a_text(void **state)
{
    (void)state;
    const double nothing = 0, quarter = 3.25, strange[] = {NAN, -INFINITY, INFINITY, 1, 2, 3};
    const double mixed[] = {0.1, -2.5, 3, 1000.123, 5, 6}, small[] = {1e-10, 1, 2, 3},
                 tiny[] = {0, -1.25e-7};
    const double ints[] = {1, -20, 300, 4, 5, 6}, bools[] = {0, 1},
                 cube[] = {1, 2, 3, 4, 5, 6, 7, 8.5};
    const double large[] = {1e20, 1}, whole[] = {12345678, 0.5}, nans[] = {NAN, NAN},
                 huge[] = {1e300, -1e-300, 0};
    assert_shown(TL_F32, TL_SCALAR, &quarter, "float32[] 3.25");
    assert_shown(TL_I8, TL_SCALAR, &quarter, "int8[] 3");
    assert_shown(TL_F32, TL_SHAPE(0), &nothing, "float32[0] []");
    assert_shown(TL_F32, TL_SHAPE(2, 0, 3), &nothing, "float32[2, 0, 3] []");
    assert_shown(TL_F32, TL_SHAPE(4), cube, "float32[4] [1., 2., 3., 4.]");
    assert_shown(TL_F32, TL_SHAPE(2, 3), mixed,
                 "float32[2, 3]\n"
                 "[[   0.100,   -2.500,    3.000],\n"
                 " [1000.123,    5.000,    6.000]]");
    assert_shown(TL_F32, TL_SHAPE(2, 3), strange,
                 "float32[2, 3]\n"
                 "[[ nan, -inf,  inf],\n"
                 " [  1.,   2.,   3.]]");
    assert_shown(TL_F16, TL_SHAPE(2), nans, "float16[2] [nan, nan]");
    assert_shown(TL_F32, TL_SHAPE(2, 2), small,
                 "float32[2, 2]\n[[1e-10, 1e+00],\n [2e+00, 3e+00]]");
    assert_shown(TL_F64, TL_SHAPE(2), tiny, "float64[2] [ 0.00e+00, -1.25e-07]");
    assert_shown(TL_F32, TL_SHAPE(2), large, "float32[2] [1e+20, 1e+00]");
    assert_shown(TL_F64, TL_SHAPE(3), huge, "float64[3] [ 1e+300, -1e-300,   0e+00]");
    assert_shown(TL_F64, TL_SHAPE(2), whole, "float64[2] [1.2346e+07, 5.0000e-01]");
    assert_shown(TL_I32, TL_SHAPE(2, 3), ints, "int32[2, 3]\n[[  1, -20, 300],\n [  4,   5,   6]]");
    assert_shown(TL_BOOL, TL_SHAPE(2), bools, "bool[2] [false,  true]");
    assert_shown(TL_F32, TL_SHAPE(2, 2, 2), cube,
                 "float32[2, 2, 2]\n"
                 "[[[1.0, 2.0],\n"
                 "  [3.0, 4.0]],\n"
                 "\n"
                 " [[5.0, 6.0],\n"
                 "  [7.0, 8.5]]]");
    int64_t last = INT64_MAX;
    tl_tensor *t = counting(TL_I64, TL_SHAPE(1));
    assert_ok(tl_tensor_set(t, &last, sizeof last));
    assert_text(t, "int64[1] [9223372036854775807]"); // all digits
    tl_tensor_free(&t);
}

static void long_rows_are_broken_and_large_tensors_cut(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_U8, TL_SHAPE(20));
    assert_text(t, "uint8[20]\n"
                   "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
                   " 18, 19]");
    tl_tensor_free(&t);
    t = counting(TL_I32, TL_SHAPE(1001));
    assert_text(t, "int32[1001] [   0,    1,    2, ...,  998,  999, 1000]");
    tl_tensor_free(&t);
    t = counting(TL_F32, TL_SHAPE(1001)); // what is not shown has no say in how the rest is
    tl_tensor *hidden;
    assert_ok(tl_tensor_part(&hidden, t, 500, TL_SHAPE(1)));
    assert_ok(tl_tensor_set_doubles(hidden, (const double[]){-1.23456e20}, 1));
    tl_tensor_free(&hidden);
    assert_text(t, "float32[1001] [   0.,    1.,    2., ...,  998.,  999., 1000.]");
    tl_tensor_free(&t);
    t = counting(TL_F32, TL_SHAPE(100, 20));
    assert_text(t, "float32[100, 20]\n"
                   "[[   0.,    1.,    2., ...,   17.,   18.,   19.],\n"
                   " [  20.,   21.,   22., ...,   37.,   38.,   39.],\n"
                   " [  40.,   41.,   42., ...,   57.,   58.,   59.],\n"
                   " ...,\n"
                   " [1940., 1941., 1942., ..., 1957., 1958., 1959.],\n"
                   " [1960., 1961., 1962., ..., 1977., 1978., 1979.],\n"
                   " [1980., 1981., 1982., ..., 1997., 1998., 1999.]]");
    tl_tensor_free(&t);
    t = counting(TL_I32, TL_SHAPE(2, 501, 1));
    assert_text(t, "int32[2, 501, 1]\n"
                   "[[[   0],\n  [   1],\n  [   2],\n  ...,\n  [ 498],\n  [ 499],\n  [ 500]],\n"
                   "\n"
                   " [[ 501],\n  [ 502],\n  [ 503],\n  ...,\n  [ 999],\n  [1000],\n  [1001]]]");
    tl_tensor_free(&t);
}

static void views_and_leases_have_a_text(void **state)
{
    (void)state;
    tl_tensor *t = counting(TL_I32, TL_SHAPE(2, 3)), *v = transposed(t), described = *t;
    tl_lease l;
    assert_text(v, "int32[3, 2]\n[[0, 3],\n [1, 4],\n [2, 5]]");
    described.storage = NULL;
    assert_text(&described, "int32[2, 3] (without elements)");
    assert_ok(tl_lease_write(&l, t));
    assert_text(t, "int32[2, 3] (leased for writing)");
    assert_ok(tl_lease_end(&l));
    tl_str text = TL_STR_INIT;
    tl_str_pad(&text, ' ', 200); // room enough
    tl_str_cut(&text, 0);
    tl_alloc_fail_at(1, 1);
    tl_tensor_text(&text, v);
    tl_alloc_fail_at(0, 0);
    assert_string_equal(tl_str_text(&text), "int32[3, 2] (no memory to show it)");
    tl_str_deinit(&text);
    tl_tensor_free(&v);
    tl_tensor_free(&t);
}

static void the_point_is_a_point_in_every_language(void **state)
{
    (void)state;
    const double half = 0.5;
    const char *before = setlocale(LC_NUMERIC, NULL),
               *tries[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    char saved[64];
    snprintf(saved, sizeof saved, "%s", before);
    for (int i = 0; i < TL_COUNT(tries); i++)
        if (setlocale(LC_NUMERIC, tries[i])) break;
    assert_shown(TL_F32, TL_SCALAR, &half, "float32[] 0.5");
    setlocale(LC_NUMERIC, saved);
}

static void tensors_are_printed(void **state)
{
    (void)state;
    char *buffer = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&buffer, &length);
    tl_tensor *t = counting(TL_I32, TL_SHAPE(2));
    tl_tensor_print(t, to);
    fclose(to);
    assert_string_equal(buffer, "int32[2] [0, 1]\n");
    free(buffer);
    tl_tensor_free(&t);
}

#define T(name) LAB_TEST(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(tensors_are_made_and_freed),
        T(bad_shapes_are_refused),
        T(kept_tensors_share_elements),
        T(parts_lie_inside),
        T(headers_move_between_blocks),
        T(described_tensors_have_no_elements),
        T(elements_go_in_and_out),
        T(views_are_read_and_written_in_row_major_order),
        T(leases_exclude_each_other),
        T(a_lease_holds_the_storage),
        T(one_element_many_times_is_not_written),
        T(allocations_may_fail),
        T(small_tensors_have_a_text),
        T(long_rows_are_broken_and_large_tensors_cut),
        T(views_and_leases_have_a_text),
        T(the_point_is_a_point_in_every_language),
        T(tensors_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
