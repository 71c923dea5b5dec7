/* What tests of TensorBundles share: an engine and a folder for each test, bundles that TensorFlow
 * wrote (tests/golden/tensorbundle.py), and looks into bundles. */
#ifndef TILTH_TESTS_IO_BUNDLES_H
#define TILTH_TESTS_IO_BUNDLES_H

#include "io/folder.h"

#include <tilth/io/tensorflow/tensorbundle.h>

#define GOLDEN TEST_DATA "/golden/tensorbundle/"
#define INDEX TL_TENSORBUNDLE_SUFFIX
#define DATA ".data-00000-of-00001"
#define VALUE TL_TENSORBUNDLE_VALUE

static tl_engine *engine;

static inline int setup(void **state)
{
    engine = open_engine();
    return make_folder(state);
}

static inline int teardown(void **state)
{
    close_engine(&engine);
    return remove_folder(state);
}

static inline tl_tensorbundle *bundle(const char *prefix)
{
    tl_tensorbundle *b;
    assert_ok(tl_tensorbundle_open(&b, prefix));
    return b;
}

static inline const tl_tensorbundle_entry *entry(const tl_tensorbundle *b, const char *name)
{
    const tl_tensorbundle_entry *e = tl_tensorbundle_find(b, name);
    if (!e) fail_msg("there is no entry '%s'", name);
    return e;
}

static inline void has_spec(const tl_tensorbundle *b, const char *name, const char *spec)
{
    tl_str text = TL_STR_INIT;
    tl_tensorbundle_spec(&text, entry(b, name));
    assert_string_equal(tl_str_text(&text), spec);
    tl_str_deinit(&text);
}

static inline void has_values(const tl_tensorbundle *b, const char *name, const double *values,
                              int64_t count)
{
    const tl_tensorbundle_entry *e = entry(b, name);
    double found[8];
    assert_true(e->readable && count <= 8);
    tl_tensor *t = tensor_of(engine, e->dtype, tl_shape_of(e->rank, e->dims), NULL);
    assert_ok(tl_tensorbundle_get(t, b, name));
    assert_ok(tl_tensor_get_doubles(t, found, count));
    for (int64_t i = 0; i < count; i++) assert_true(found[i] == values[i]);
    tl_tensor_free(&t);
}
#define HAS_VALUES(b, name, ...)                                                                   \
    has_values(b, name, (const double[]){__VA_ARGS__},                                             \
               (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* Behind a prefix. */
static const char *const bundle_files[] = {INDEX, DATA};

/* Opens and verifies; a failure names one of the files and is no defect of ours. */
static inline bool is_refused(void)
{
    tl_tensorbundle *b;
    tl_status st = tl_tensorbundle_open(&b, in_folder("x"));
    if (st == TL_OK) {
        st = tl_tensorbundle_verify(b);
        tl_tensorbundle_free(&b);
    }
    if (st == TL_OK) return false;
    if (st == TL_EINTERNAL || !strstr(tl_error_message(), in_folder("x")))
        fail_msg("%s: %s", tl_status_name(st), tl_error_message());
    return true;
}

#endif
