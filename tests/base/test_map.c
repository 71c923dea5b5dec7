/* The ordered hash map, against a plain list that does the same slowly; and the hash. */
#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>

static void test_empty(void **state)
{
    (void)state;
    tl_map map = TL_MAP_INIT;
    assert_int_equal(tl_map_count(&map), 0);
    assert_null(tl_map_get(&map, "x"));
    assert_false(tl_map_has(&map, "x"));
    assert_false(tl_map_remove(&map, "x"));
    tl_map_deinit(&map);
    tl_map_deinit(&map);
}

static void test_set_and_get(void **state)
{
    (void)state;
    tl_map map = TL_MAP_INIT;
    int a, b, c;
    char key[] = "one";
    assert_ok(tl_map_set(&map, key, &a));
    key[0] = 'x'; // keys are copied
    assert_ptr_equal(tl_map_get(&map, "one"), &a);
    assert_null(tl_map_get(&map, "xne"));
    assert_ok(tl_map_set(&map, "", &b)); // a key like any other
    assert_ok(tl_map_set(&map, "null", NULL));
    assert_null(tl_map_get(&map, "null"));
    assert_true(tl_map_has(&map, "null"));
    assert_false(tl_map_has(&map, "absent"));
    assert_ok(tl_map_set(&map, "one", &c)); // replaced in place
    assert_int_equal(tl_map_count(&map), 3);
    assert_string_equal(tl_map_key(&map, 0), "one");
    assert_ptr_equal(tl_map_at(&map, 0), &c);
    assert_string_equal(tl_map_key(&map, 1), "");
    assert_ptr_equal(tl_map_at(&map, 1), &b);
    tl_map_deinit(&map);
    assert_int_equal(tl_map_count(&map), 0);
    assert_ok(tl_map_set(&map, "again", &a));
    assert_ptr_equal(tl_map_get(&map, "again"), &a);
    tl_map_deinit(&map);
}

/* --- against a model -------------------------------------------------------------------------- */

enum { MODEL = 512 };

typedef struct model {
    int keys[MODEL];
    intptr_t values[MODEL];
    int count;
} model;

static int model_find(const model *m, int key)
{
    for (int i = 0; i < m->count; i++)
        if (m->keys[i] == key) return i;
    return -1;
}

static void model_set(model *m, int key, intptr_t value)
{
    int i = model_find(m, key);
    if (i < 0) m->keys[i = m->count++] = key;
    m->values[i] = value;
}

static bool model_remove(model *m, int key)
{
    int i = model_find(m, key);
    if (i < 0) return false;
    m->count--;
    for (; i < m->count; i++) m->keys[i] = m->keys[i + 1], m->values[i] = m->values[i + 1];
    return true;
}

static void compare(const tl_map *map, const model *m)
{
    char key[16];
    assert_int_equal(tl_map_count(map), m->count);
    for (int i = 0; i < m->count; i++) {
        snprintf(key, sizeof key, "k%d", m->keys[i]);
        assert_string_equal(tl_map_key(map, i), key);
        assert_int_equal((intptr_t)tl_map_at(map, i), m->values[i]);
        assert_int_equal((intptr_t)tl_map_get(map, key), m->values[i]);
    }
}

static void test_against_a_model(void **state)
{
    (void)state;
    tl_map map = TL_MAP_INIT;
    static model m;
    uint32_t random = 12345;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        int key = (int)(random >> 8) % 400, what = (int)(random >> 20) % 8;
        char text[16];
        snprintf(text, sizeof text, "k%d", key);
        if (what < 5) {
            assert_ok(tl_map_set(&map, text, (void *)(intptr_t)i));
            model_set(&m, key, i);
        } else {
            assert_int_equal(tl_map_remove(&map, text), model_remove(&m, key));
            assert_false(tl_map_has(&map, text));
        }
        if (i % 500 == 0) compare(&map, &m);
    }
    compare(&map, &m);
    tl_map_deinit(&map);
}

static void test_many(void **state)
{
    (void)state;
    tl_map map = TL_MAP_INIT;
    char key[32];
    for (intptr_t i = 1; i <= 100000; i++) {
        snprintf(key, sizeof key, "key number %d", (int)i);
        assert_ok(tl_map_set(&map, key, (void *)i));
    }
    assert_int_equal(tl_map_count(&map), 100000);
    for (intptr_t i = 1; i <= 100000; i++) {
        snprintf(key, sizeof key, "key number %d", (int)i);
        assert_int_equal((intptr_t)tl_map_get(&map, key), i);
    }
    tl_map_deinit(&map);
}

/* --- failures and the hash -------------------------------------------------------------------- */

/* Whatever allocation fails, the map is as it was and can go on. */
static void test_no_memory(void **state)
{
    (void)state;
    tl_map map = TL_MAP_INIT;
    char key[16];
    for (intptr_t i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "k%d", (int)i);
        for (int nth = 1;; nth++) {
            tl_alloc_fail_at(nth, 1);
            tl_status st = tl_map_set(&map, key, (void *)i);
            tl_alloc_fail_at(0, 0);
            if (st == TL_OK) break;
            assert_int_equal(st, TL_ENOMEM);
            assert_int_equal(tl_error_code(), TL_ENOMEM);
            assert_int_equal(tl_map_count(&map), i);
            assert_false(tl_map_has(&map, key));
            for (intptr_t j = 0; j < i; j++) assert_int_equal((intptr_t)tl_map_at(&map, j), j);
        }
    }
    tl_map_deinit(&map);
}

static void test_hash(void **state)
{
    (void)state;
    // The published values of FNV-1a, 64 bits.
    assert_true(TL_HASH_SEED == UINT64_C(0xcbf29ce484222325));
    assert_true(tl_hash_bytes(TL_HASH_SEED, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(tl_hash_bytes(TL_HASH_SEED, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(tl_hash_bytes(TL_HASH_SEED, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_true(tl_hash_bytes(TL_HASH_SEED, "\xff", 1) == UINT64_C(0xaf64724c8602eb6e));
    // It goes on where it stopped.
    uint64_t half = tl_hash_bytes(TL_HASH_SEED, "foo", 3);
    assert_true(tl_hash_bytes(half, "bar", 3) == UINT64_C(0x85944171f73967e8));
    // Strings keep their borders.
    uint64_t ab_c = tl_hash_string(tl_hash_string(TL_HASH_SEED, "ab"), "c");
    uint64_t a_bc = tl_hash_string(tl_hash_string(TL_HASH_SEED, "a"), "bc");
    assert_true(ab_c != a_bc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),           cmocka_unit_test(test_set_and_get),
        cmocka_unit_test(test_against_a_model), cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
