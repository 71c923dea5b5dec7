/* Two values as data, compared field by field: what differs is told by its path. */
#ifndef TILTH_TESTS_SAME_DATA_H
#define TILTH_TESTS_SAME_DATA_H

#include "test.h"

#include <tilth/base/str.h>
#include <tilth/desc/value.h>

static inline bool same_scalar(const tl_value *a, const tl_value *b)
{
    tl_scalar s = tl_value_scalar(a), t = tl_value_scalar(b);
    bool numbers = (s == TL_SCALAR_INT || s == TL_SCALAR_DOUBLE)
                   && (t == TL_SCALAR_INT || t == TL_SCALAR_DOUBLE);
    double x, y;
    // 1 equals 1.0: in Python, float fields may hold whole numbers.
    if (numbers && tl_value_double(a, &x) && tl_value_double(b, &y)) return x == y;
    return tl_value_equal(a, b);
}

/* A line for each place where they differ. Tuples are lists, the order of keys does not count. */
static inline void tell_differences(tl_str *out, const char *path, const tl_value *found,
                                    const tl_value *expected)
{
    char below[512];
    if (!found || !expected || found->kind != expected->kind) {
        if (found != expected)
            tl_str_addf(out, "%s: %s\n", path,
                        !found      ? "is missing"
                        : !expected ? "is too much"
                                    : "is of another kind");
        return;
    }
    if (found->kind == TL_VALUE_SCALAR) {
        if (!same_scalar(found, expected))
            tl_str_addf(out, "%s: is '%s', not '%s'\n", path, found->text, expected->text);
        return;
    }
    if (found->kind == TL_VALUE_LIST) {
        for (int64_t i = 0; i < found->count || i < expected->count; i++) {
            snprintf(below, sizeof below, "%s[%lld]", path, (long long)i);
            tell_differences(out, below, i < found->count ? found->items[i] : NULL,
                             i < expected->count ? expected->items[i] : NULL);
        }
        return;
    }
    for (int64_t i = 0; i < expected->count; i++) {
        const char *key = expected->pairs[i].key;
        snprintf(below, sizeof below, "%s.%s", path, key);
        tell_differences(out, below, tl_value_get(found, key), expected->pairs[i].value);
    }
    for (int64_t i = 0; i < found->count; i++)
        if (!tl_value_get(expected, found->pairs[i].key))
            tl_str_addf(out, "%s.%s: is too much\n", path, found->pairs[i].key);
}

/* Fails with all the differences when there are some; `what` names the two. */
static inline void assert_same_data(const char *what, const tl_value *found,
                                    const tl_value *expected)
{
    tl_str said = TL_STR_INIT;
    tell_differences(&said, what, found, expected);
    assert_ok(tl_str_status(&said));
    if (said.length) fail_msg("%s", tl_str_text(&said));
    tl_str_deinit(&said);
}

#endif
