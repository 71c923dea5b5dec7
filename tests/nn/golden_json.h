/* Golden files that are JSON: batches of tensors by name, and what was told of them. */
#ifndef TILTH_TESTS_NN_GOLDEN_JSON_H
#define TILTH_TESTS_NN_GOLDEN_JSON_H

#include "nn/lab.h"

#include <jansson.h>

#include <tilth/base/file.h>

static json_t *golden;

/* The lab, with the file beside it. */
static inline int golden_json_open(void **state, const char *path)
{
    char *text;
    assert_ok(tl_file_read(&text, NULL, path, 1 << 20));
    golden = json_loads(text, 0, NULL);
    tl_free(text);
    assert_non_null(golden);
    return open_lab(state);
}

static inline int golden_json_close(void **state)
{
    json_decref(golden);
    return close_lab(state);
}

/* Nested lists of numbers, one after the other. */
static inline int64_t flatten(double *to, int64_t count, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_array(v)) count = flatten(to, count, v);
        else to[count++] = json_number_value(v);
    }
    return count;
}

/* The same as a tensor of the lab's context. */
static inline void put_list(tl_tensors *into, const char *name, const json_t *list, tl_dtype dtype)
{
    static double numbers[4096];
    tl_shape shape = {0};
    for (const json_t *v = list; json_is_array(v); v = json_array_get(v, 0))
        shape.dims[shape.rank++] = (int64_t)json_array_size(v);
    flatten(numbers, 0, list);
    tl_tensors_put(c, into, name, tl_from_doubles(c, dtype, shape, numbers));
}

#endif
