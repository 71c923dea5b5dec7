/* Tests under a sanitizer, where everything takes several times as long. */
#ifndef TILTH_TESTS_SANITIZED_H
#define TILTH_TESTS_SANITIZED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Tests that repeat repeat less. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#else
#define THREAD_SANITIZED 0
#endif

/* Before a function of a test that computes what is expected, for long: it is not checked
 * itself. */
#if SANITIZED && !defined(__clang__)
#define NOT_SANITIZED                                                                              \
    __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined, optimize("O2")))
#else
#define NOT_SANITIZED
#endif

/* Whether a soak run asks for every case: tests/soak/cases.sh, tests/soak/sanitizers.sh. */
static inline bool test_takes_all(void)
{
    return getenv("TILTH_ALL_CASES") != NULL;
}

/* Of cases that differ in a type, an instruction set, a number of threads or a size alone, one of
 * `of` is tried under a sanitizer, others for other numbers; the plain run has all of them, and so
 * has tests/soak/sanitizers.sh. */
static inline bool test_takes(int64_t number, int64_t of)
{
    return !SANITIZED || number % of == 0 || test_takes_all();
}

/* What the plain run has shown already, and no sanitizer sees more of: numbers that a slow
 * reference computes, code of a compiler that does not instrument it. */
static inline bool test_takes_unseen(void)
{
    return !SANITIZED || test_takes_all();
}

/* From allocation `nth`, which is made to fail, to the next one that is: in the address sanitizer's
 * build arenas ask for every object, and there are thousands. */
static inline int64_t test_failure_step(int64_t nth)
{
    return test_takes_unseen() || nth < 100 ? 1 : 4;
}

#endif
