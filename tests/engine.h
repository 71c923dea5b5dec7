/* The engine of a test. With TILTH_CHECK=1 in the environment its backend is the checking one
 * around what the test asked for; with TILTH_DEVICE=fake it is on the fake device, with
 * TILTH_DEVICE=cuda on a GPU, unless the test asks for a backend of the CPU:
 *
 *     TILTH_CHECK=1 ctest -R nn_
 *     TILTH_DEVICE=fake ctest -R nn_
 *     TILTH_DEVICE=cuda ctest -R nn_
 *
 * NaN and infinity are left alone there, since some tests make them. */
#ifndef TILTH_TESTS_ENGINE_H
#define TILTH_TESTS_ENGINE_H

#include <stdlib.h>
#include <string.h>

#include <tilth/base/vec.h>
#include <tilth/check/check.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cuda/cuda.h>

#include "fake/fake_device.h"

/* Checking backends outlive the engines of a test. */
static struct {
    tl_check **items;
    int64_t count, capacity;
} test_checks;

static inline void test_checks_free(void)
{
    for (int64_t i = 0; i < test_checks.count; i++) tl_check_free(&test_checks.items[i]);
    TL_VEC_FREE(&test_checks);
}

static inline bool test_is_checked(void)
{
    const char *wanted = getenv("TILTH_CHECK");
    return wanted && *wanted && strcmp(wanted, "0") != 0;
}

static tl_registry *test_backends;
static inline void test_registry_free(void)
{
    tl_registry_free(&test_backends);
}

/* Knows the backends, and nothing else. */
static inline const tl_registry *test_registry(void)
{
    if (test_backends) return test_backends;
    if (tl_registry_new(&test_backends) != TL_OK
        || tl_registry_add(test_backends, &tl_cpu_module) != TL_OK
        || tl_registry_add(test_backends, &tl_cuda_module) != TL_OK
        || tl_registry_add(test_backends, &fake_module) != TL_OK)
        abort();
    atexit(test_registry_free);
    return test_backends;
}

static inline bool test_wants_gpu(void)
{
    const char *device = getenv("TILTH_DEVICE");
    return device && strncmp(device, "cuda", 4) == 0;
}

/* The backend on the device that the environment asks for; NULL: the best one. */
static inline tl_status test_backend(const tl_backend_class **out, const tl_backend_class *backend)
{
    if (!backend && test_wants_gpu()) {
        *out = &tl_backend_cuda;
        return TL_OK;
    }
    if (!backend) TL_TRY(tl_cpu_backend(&backend));
    *out = backend;
    return fake_wanted() ? fake_backend_of(out, backend) : TL_OK;
}

/* `backend` NULL: the best one. */
static inline tl_status test_engine_new(tl_engine **out, const tl_backend_class *backend,
                                        int threads)
{
    const bool checks = backend && strncmp(backend->cls.name, "check(", 6) == 0;
    if (!checks) TL_TRY(test_backend(&backend, backend)); // else it is as the test has made it
    if (!checks && test_is_checked()) {
        const tl_check_options options = {
            .outputs = true,
            .inputs = true,
            .unwritten = true,
            .memory = true,
            .input_bytes = 1 << 20,
        };
        tl_check *check = NULL;
        TL_TRY(tl_check_new(&check, backend, &options));
        if (!TL_VEC_PUSH(&test_checks, check)) {
            tl_check_free(&check);
            return TL_ENOMEM;
        }
        if (test_checks.count == 1) atexit(test_checks_free); // engines are gone by then
        backend = tl_check_backend(check);
    }
    return tl_engine_new(out, &(tl_engine_args){.backend = backend, .threads = threads});
}

#endif
