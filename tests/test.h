/* What every test includes: cmocka, in the order it wants, and checks that show what they found. */
#ifndef TILTH_TESTS_TEST_H
#define TILTH_TESTS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tilth/base/status.h>

#include "sanitized.h"
#include "temporary.h"

/* The call succeeds; when it does not, its message is shown. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        tl_status assert_ok_status_ = (call);                                                      \
        if (assert_ok_status_ != TL_OK)                                                            \
            fail_msg("%s\n    failed (%s): %s", #call, tl_status_name(assert_ok_status_),          \
                     tl_error_message());                                                          \
    } while (0)

/* The call fails with this code, and its message contains this text. */
#define assert_fails(call, code, text)                                                             \
    do {                                                                                           \
        tl_error_clear();                                                                          \
        tl_status assert_fails_status_ = (call);                                                   \
        if (assert_fails_status_ != (code))                                                        \
            fail_msg("%s\n    gave '%s', not '%s' (message: %s)", #call,                           \
                     tl_status_name(assert_fails_status_), tl_status_name(code),                   \
                     tl_error_message());                                                          \
        if (!strstr(tl_error_message(), (text)))                                                   \
            fail_msg("%s\n    message: %s\n    lacks:   %s", #call, tl_error_message(), (text));   \
    } while (0)

/* The numbers differ by no more than `most`. */
#define assert_near(a, b, most)                                                                    \
    do {                                                                                           \
        double assert_near_a_ = (a), assert_near_b_ = (b), assert_near_most_ = (most);             \
        if (!(fabs(assert_near_a_ - assert_near_b_) <= assert_near_most_))                         \
            fail_msg("%s = %.17g\n    and %s = %.17g\n    differ by more than %g", #a,             \
                     assert_near_a_, #b, assert_near_b_, assert_near_most_);                       \
    } while (0)

#endif
