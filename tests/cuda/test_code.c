/* Code of GPUs is kept on the disk, and taken from there only as it was put. */
#include "cpu/jit_test.h"

#include "cuda/api.h"
#include "cuda/code.h"

static const char *const text = "extern \"C\" __global__ void twice(float *x) { *x *= 2; }";

static void need_compiler(void)
{
    const tli_cuda_api *api;
    if (tli_cuda_compiler(&api) != TL_OK) skip();
}

/* The file of the only entry; false when there is none. */
static bool find_file(char path[512], const char *name)
{
    DIR *dir = opendir(".cache/tilth");
    bool found = false;
    assert_non_null(dir);
    for (struct dirent *file; (file = readdir(dir));) {
        if (file->d_name[0] == '.') continue;
        assert_false(found);
        snprintf(path, 512, ".cache/tilth/%s/%s", file->d_name, name);
        found = access(path, F_OK) == 0;
    }
    closedir(dir);
    return found;
}

static size_t make(char **code)
{
    tli_cuda_codes *codes;
    size_t bytes;
    assert_ok(tli_cuda_codes_open(&codes, 9, 0));
    assert_ok(tli_cuda_code(code, &bytes, codes, text));
    tli_cuda_codes_close(&codes);
    return bytes;
}

static void write_byte(const char *path, off_t at, char byte)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_kept(void **state)
{
    char path[512], *first, *second;
    struct stat before, after;
    (void)state;
    need_compiler();
    const size_t bytes = make(&first);
    assert_true(find_file(path, "k.cu"));
    assert_true(find_file(path, "k.cubin"));
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(make(&second), bytes);
    assert_memory_equal(first, second, bytes);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); // nothing was put there again
    tl_free(first);
    tl_free(second);
}

static void test_damaged(void **state)
{
    char path[512], *first, *second;
    (void)state;
    need_compiler();
    const size_t bytes = make(&first);
    assert_true(find_file(path, "k.cubin"));
    write_byte(path, (off_t)bytes / 2, (char)(first[bytes / 2] ^ 1));
    assert_int_equal(make(&second), bytes);
    assert_memory_equal(first, second, bytes);
    tl_free(second);
    // and it was put in order
    assert_true(find_file(path, "k.cubin"));
    assert_int_equal(make(&second), bytes);
    assert_memory_equal(first, second, bytes);
    tl_free(first);
    tl_free(second);
}

static void test_refused(void **state)
{
    char *code;
    size_t bytes;
    tli_cuda_codes *codes;
    (void)state;
    need_compiler();
    assert_ok(tli_cuda_codes_open(&codes, 9, 0));
    assert_fails(tli_cuda_code(&code, &bytes, codes, "no C"), TL_EINTERNAL, "does not take");
    assert_null(code);
    tli_cuda_codes_close(&codes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(test_damaged, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(test_refused, enter_folder, leave_folder),
    };
    keep_path();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
