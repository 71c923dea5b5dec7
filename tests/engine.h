/* The engine of a test. With TILTH_CHECK=1 in the environment its backend is the checking one
 * around what the test asked for:
 *
 *     TILTH_CHECK=1 ctest -R nn_
 *
 * NaN and infinity are left alone there, since some tests make them. */
#ifndef TILTH_TESTS_ENGINE_H
#define TILTH_TESTS_ENGINE_H

#include <stdlib.h>

#include <tilth/check/check.h>
#include <tilth/sys/cpu/cpu.h>

enum { TEST_CHECKS_MOST = 16 };
static tl_check *test_checks[TEST_CHECKS_MOST];

static inline void test_checks_free(void)
{
    for (int i = 0; i < TEST_CHECKS_MOST; i++) tl_check_free(&test_checks[i]);
}

/* `backend` NULL: the best one. */
static inline tl_status test_engine_new(tl_engine **out, const tl_backend_class *backend,
                                        int threads)
{
    static int made;
    const char *wanted = getenv("TILTH_CHECK");
    if (!backend) TL_TRY(tl_cpu_backend(&backend));
    if (wanted && *wanted && strcmp(wanted, "0") != 0) {
        const tl_check_options options = {.outputs = true, .inputs = true, .unwritten = true,
                                          .memory = true, .input_bytes = 1 << 20};
        if (made == TEST_CHECKS_MOST)
            return TL_FAIL(TL_ELIMIT, "a test makes at most %d engines", TEST_CHECKS_MOST);
        TL_TRY(tl_check_new(&test_checks[made], backend, &options));
        if (made == 0) atexit(test_checks_free); // engines are gone by then
        backend = tl_check_backend(test_checks[made++]);
    }
    return tl_engine_new(out, &(tl_engine_args){.backend = backend, .threads = threads});
}

#endif
