/* What the tests of gin share: a fresh gin over the toys, and questions in one line. */
#ifndef TILTH_TESTS_GIN_SETUP_H
#define TILTH_TESTS_GIN_SETUP_H

#include "test.h"

#include "gin_toys.h"

typedef struct fixture {
    tl_registry *registry;
    tl_gin *gin;
    tl_arena *arena;
} fixture;

static inline int setup(void **state)
{
    fixture *f = *state = test_calloc(1, sizeof *f);
    toys_made = 0;
    assert_ok(tl_registry_new(&f->registry));
    assert_ok(tl_registry_add(f->registry, &toy_module));
    assert_ok(tl_gin_new(&f->gin, f->registry));
    assert_ok(tl_arena_new(&f->arena));
    tl_gin_set_payload(f->gin, f->arena);
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    tl_gin_free(&f->gin);
    tl_arena_free(&f->arena);
    tl_registry_free(&f->registry);
    test_free(f);
    return 0;
}

static inline tl_gin *gin_of(void **state)
{
    return ((fixture *)*state)->gin;
}

/* Reads the text; it must be fine. */
#define parse(gin, text) assert_ok(tl_gin_parse((gin), (text), "t.gin"))

/* The text is refused while it is read, with this in the message. */
#define assert_syntax(gin, text, message)                                                          \
    assert_fails(tl_gin_parse((gin), (text), "t.gin"), TL_EINVAL, (message))

static inline toy *call_toy(tl_gin *gin, const char *name)
{
    void *object;
    assert_ok(tl_gin_call_name(&object, gin, name));
    return object;
}

/* The operative configuration; freed with the arena. */
static inline const char *operative(void **state)
{
    fixture *f = *state;
    tl_str out = TL_STR_INIT;
    assert_ok(tl_gin_operative(&out, f->gin));
    char *copy = tl_str_copy(&out, f->arena);
    tl_str_deinit(&out);
    assert_non_null(copy);
    return copy;
}

static inline const char *config_str(void **state)
{
    fixture *f = *state;
    tl_str out = TL_STR_INIT;
    assert_ok(tl_gin_config_str(&out, f->gin));
    char *copy = tl_str_copy(&out, f->arena);
    tl_str_deinit(&out);
    assert_non_null(copy);
    return copy;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part))) fail_msg("lacks: %s\nin:\n%s", (part), (text));               \
    } while (0)
#define assert_lacks(text, part)                                                                   \
    do {                                                                                           \
        if (strstr((text), (part))) fail_msg("has: %s\nin:\n%s", (part), (text));                  \
    } while (0)

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
