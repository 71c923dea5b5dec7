/* idx files: all types, plain and compressed; heads that lie; bytes that lack or are too many. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <tilth/io/idx.h>

static void arrays_come_back(void **state)
{
    (void)state;
    static const tl_dtype types[] = {TL_U8, TL_I8, TL_I16, TL_I32, TL_F32, TL_F64};
    uint8_t bytes[2 * 3 * 8];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + 1);
    for (int i = 0; i < TL_COUNT(types); i++)
        for (int gzip = 0; gzip < 2; gzip++) {
            const char *path = in_folder(gzip ? "array.gz" : "array");
            tl_shape shape = TL_SHAPE(2, 3);
            tl_idx x;
            assert_ok(tl_idx_write(path, types[i], &shape, bytes));
            assert_ok(tl_idx_open(&x, path));
            assert_int_equal(x.dtype, types[i]);
            assert_true(tl_shape_equal(&x.shape, &shape));
            assert_int_equal(x.packed, gzip);
            assert_int_equal(x.item_size, 3 * tl_dtype_size(types[i]));
            assert_memory_equal(x.data, bytes, 6 * tl_dtype_size(types[i]));
            assert_ptr_equal(tl_idx_item(&x, 1), (const char *)x.data + x.item_size);
            assert_int_equal((uintptr_t)x.data % (tl_dtype_size(types[i]) > 1 ? 8 : 1), 0);
            tl_idx_close(&x);
            tl_idx_close(&x);
        }
}

static void known_bytes_are_read(void **state)
{
    (void)state;
    static const uint8_t file[] = {0, 0, 0x0b, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 0xff, 0xfe};
    tl_idx x;
    assert_ok(tl_idx_from_memory(&x, "f", file, sizeof file));
    const int16_t *v = x.data;
    assert_true(v[0] == 258 && v[1] == -2);
    tl_idx_close(&x);
    static const uint8_t empty[] = {0, 0, 8, 1, 0, 0, 0, 0};
    assert_ok(tl_idx_from_memory(&x, "f", empty, sizeof empty));
    assert_int_equal(x.shape.dims[0], 0);
    tl_idx_close(&x);
}

static void what_is_no_idx_file_is_refused(void **state)
{
    (void)state;
    tl_idx x;
    uint8_t file[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7};
    assert_fails(tl_idx_from_memory(&x, "f", "", 0), TL_EINVAL, "'f' is no idx file");
    assert_fails(tl_idx_from_memory(&x, "f", "\0\0\x0a\1", 4), TL_EINVAL, "'f' is no idx file");
    assert_fails(tl_idx_from_memory(&x, "f", "\0\1\x08\1", 4), TL_EINVAL, "'f' is no idx file");
    assert_fails(tl_idx_from_memory(&x, "f", "\0\0\x08\0", 4), TL_EINVAL,
                 "'f' has 0 dimensions; 1 to 8");
    assert_fails(tl_idx_from_memory(&x, "f", "\0\0\x08\x09", 4), TL_EINVAL, "'f' has 9 dimensions");
    assert_fails(tl_idx_from_memory(&x, "f", file, 11), TL_EINVAL,
                 "'f' ends at byte 11, within its head of 2");
    for (size_t size = 12; size < 18; size++)
        assert_fails(tl_idx_from_memory(&x, "f", file, size), TL_EINVAL,
                     "after its head: it was cut short");
    assert_ok(tl_idx_from_memory(&x, "f", file, 18));
    tl_idx_close(&x);
    assert_fails(tl_idx_from_memory(&x, "f", file, 19), TL_EINVAL,
                 "'f' is damaged: [2, 3] of uint8 do not fit the 7 bytes after its head");
    memset(file + 4, 0xff, 8);
    assert_int_equal(tl_idx_from_memory(&x, "f", file, 19), TL_ELIMIT);
    assert_fails(tl_idx_open(&x, in_folder("nowhere")), TL_ENOTFOUND, "nowhere");
    tl_shape shape = TL_SHAPE(1), scalar = TL_SCALAR, large = TL_SHAPE(0, (int64_t)1 << 33);
    assert_fails(tl_idx_write(in_folder("x"), TL_BF16, &shape, file), TL_EUNSUPPORTED,
                 "cannot hold bfloat16");
    assert_fails(tl_idx_write(in_folder("x"), TL_U8, &scalar, file), TL_EINVAL,
                 "at least one dimension");
    assert_fails(tl_idx_write(in_folder("x"), TL_U8, &large, file), TL_ELIMIT, "does not fit");
    assert_false(tl_file_exists(in_folder("x")));
}

static tl_status everything(void)
{
    static const float numbers[] = {1, 2};
    tl_idx x = {0};
    tl_shape two = TL_SHAPE(2);
    TL_TRY(tl_idx_write(in_folder("e.gz"), TL_F32, &two, numbers));
    tl_status st = tl_idx_open(&x, in_folder("e.gz"));
    tl_idx_close(&x);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_survives_failures(everything, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_come_back),
        cmocka_unit_test(known_bytes_are_read),
        cmocka_unit_test(what_is_no_idx_file_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
