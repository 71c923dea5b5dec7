/* Golden files of metrics and losses: rows of {name, type, shape, values}, found by name. */
#ifndef TILTH_TESTS_NN_GOLDEN_FILE_H
#define TILTH_TESTS_NN_GOLDEN_FILE_H

#include "test.h"

#include <tilth/base/file.h>
#include <tilth/desc/config.h>
#include <tilth/ops/create.h>

#include "engine.h"

typedef struct golden {
    char name[96];
    uint32_t kind; /* 0 float32, 1 float64, 2 int64, 3 text */
    tl_shape shape;
    const char *values;
} golden;

enum { GOLDEN_MOST = 2048 };
static tl_file_mapping golden_file;
static golden goldens[GOLDEN_MOST];
static int64_t golden_count;

static inline void golden_open(const char *path)
{
    static const size_t sizes[] = {4, 8, 8, 1};
    assert_ok(tl_file_map(&golden_file, path));
    golden_count = 0;
    for (const char *p = golden_file.data, *end = p + golden_file.size; p < end;) {
        assert_true(golden_count < GOLDEN_MOST);
        golden *g = &goldens[golden_count++];
        uint32_t length, rank;
        memset(g, 0, sizeof *g);
        memcpy(&length, p, 4);
        assert_true(length < sizeof g->name);
        memcpy(g->name, p + 4, length);
        memcpy(&g->kind, p + 4 + length, 4);
        memcpy(&rank, p + 8 + length, 4);
        p += 12 + length;
        g->shape.rank = (int)rank;
        memcpy(g->shape.dims, p, rank * 8);
        g->values = p + rank * 8;
        p = g->values + (size_t)tl_shape_count(&g->shape) * sizes[g->kind];
    }
}

static inline void golden_close(void)
{
    tl_file_unmap(&golden_file);
}

/* The file, with what tests compare by it: a registry with a module, and an engine. */
static inline void golden_begin(const char *path, tl_registry **registry, const tl_module *module,
                                tl_engine **engine)
{
    golden_open(path);
    assert_ok(tl_registry_new(registry));
    assert_ok(tl_registry_add(*registry, module));
    assert_ok(test_engine_new(engine, NULL, 2));
}

static inline void golden_end(tl_registry **registry, tl_engine **engine)
{
    tl_engine_free(engine);
    tl_registry_free(registry);
    golden_close();
}

/* NULL when there is none. */
static inline const golden *golden_peek(const char *format, ...)
{
    char name[160];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (int64_t i = 0; i < golden_count; i++)
        if (strcmp(goldens[i].name, name) == 0) return &goldens[i];
    return NULL;
}

static inline double golden_number(const golden *g, int64_t i)
{
    double d;
    float f;
    int64_t n;
    assert_non_null(g);
    assert_true(i < tl_shape_count(&g->shape) && g->kind <= 2);
    memcpy(&f, g->values + i * 4, 4);
    if (g->kind == 0) return f;
    memcpy(&d, g->values + i * 8, 8);
    memcpy(&n, g->values + i * 8, 8);
    return g->kind == 1 ? d : (double)n;
}

/* Floats in the type `dtype`, integers as int64; NULL for what is not there. */
static inline tl_tensor *golden_tensor(tl_ctx *c, const golden *g, tl_dtype dtype)
{
    double values[512];
    if (!g) return NULL;
    int64_t count = tl_shape_count(&g->shape);
    assert_true(count <= 512);
    for (int64_t i = 0; i < count; i++) values[i] = golden_number(g, i);
    return tl_from_doubles(c, g->kind == 2 ? TL_I64 : dtype, g->shape, values);
}

/* The configuration that a text of the file gives a struct; the config is the caller's. */
static inline const void *golden_config(tl_config **out, const tl_registry *registry,
                                        const tl_desc *desc, const golden *g)
{
    char text[512];
    assert_non_null(g);
    snprintf(text, sizeof text, "%.*s", (int)tl_shape_count(&g->shape), g->values);
    assert_ok(tl_config_new(out, registry, desc));
    assert_ok(tl_config_yaml(*out, text, g->name));
    assert_ok(tl_config_finish(*out));
    return tl_config_value(*out);
}

#endif
