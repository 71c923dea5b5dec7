/* Thousands of random configurations: written as YAML and read they are equal, and so are their
 * hashes and copies; the parts that fit into Model Garden's CSV form go through that as well. */
#include "test.h"

#include <tilth/base/map.h>

#include "desc/sample.h"

static int config_count(void)
{
    return test_takes_all() ? 10000 : SANITIZED ? 1000 : 4000;
}

static tl_arena *arena;
static uint64_t seed;

static uint32_t random_bits(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 32);
}

static int below(int n)
{
    return (int)(random_bits() % (uint32_t)n);
}

static bool coin(void)
{
    return below(2);
}

/* --- random members --------------------------------------------------------------------------- */

static double random_double(void)
{
    // clang-format off
    static const double odd[] = {
        0.0, -0.0, 1.0, -1.0, 0.1, 1e22, 1e23, 1e-7, 1e16, 1e15, 123456789.0, 5e-324, -5e-324,
        2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308, 9007199254740993.0,
        0.30000000000000004, 1e100, 1e-300, INFINITY, -INFINITY, NAN, 100.0, 1e5, 0.0001, 0.00001,
        5.684341886080802e-14, 4.9e-320, 3.0000000000000004,
    };
    // clang-format on
    if (below(8)) return odd[below((int)TL_COUNT(odd))]; // long ones take long to write
    uint64_t bits = (uint64_t)random_bits() << 32 | random_bits();
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t random_int(void)
{
    static const int64_t odd[] = {0, 1,  -1,      INT64_MAX, INT64_MIN,
                                  8, 10, 1000000, -42,       INT64_C(1) << 53};
    if (coin()) return odd[below((int)TL_COUNT(odd))];
    return (int64_t)((uint64_t)random_bits() << 32 | random_bits()) >> below(64);
}

static const char *random_string(void)
{
    // clang-format off
    static const char *const words[] = {
        "", "a", "word", "two words", "1", "1.0", "1e5", "0x10", "true", "no", "null", "~", "None",
        "2001-01-01", "10:30", "<<", "=", "-", "- a", "? b", ": c", "a: b", "a #b", "#", "'", "\"",
        "it's", "\\", "\n", "a\nb", "a\n", "\na", " a", "a ", "\t", "a\tb", "[", "]", "{}", ",",
        "&a", "*a", "!a", "|", ">", "%", "@", "`", "\x01", "\x7f", "\r", "\xc2\x85", "\xc2\xa0",
        "\xc3\xa9", "\xe2\x80\xa8", "\xef\xbb\xbf", "\xe4\xb8\x96", "\xf0\x9f\x98\x80", "gs://b/c",
        "*.tfrecord", "---", "...", ".", "..", "+", ".inf", "nan", "key=value", "a, b", "08", "0o7",
        "1_000", "y", "n", "off", "words and more words and more words ",
    };
    // clang-format on
    if (coin()) return words[below((int)TL_COUNT(words))];
    tl_str s = TL_STR_INIT;
    for (int n = below(12); n > 0; n--) tl_str_add(&s, words[below((int)TL_COUNT(words))]);
    const char *copy = tl_str_copy(&s, arena);
    tl_str_deinit(&s);
    assert_non_null(copy);
    return copy;
}

static void *new_items(int64_t *count, size_t size)
{
    *count = below(8) ? below(4) : below(40);
    void *items = tl_arena_array(arena, *count, size);
    assert_non_null(items);
    return items;
}

static tl_ints random_ints(void)
{
    tl_ints list;
    int64_t *items = new_items(&list.count, sizeof *items);
    for (int64_t i = 0; i < list.count; i++) items[i] = random_int();
    list.items = items;
    return list;
}

static void fill_point(point *p)
{
    *p = (point){random_double(), random_double(), random_string()};
}

static point *random_point(void)
{
    if (coin()) return NULL;
    point *p = tl_arena_alloc(arena, sizeof *p);
    assert_non_null(p);
    fill_point(p);
    return p;
}

static void fill_layer(layer *l)
{
    *l = (layer){random_string(), random_int(), random_ints(), random_point(), coin()};
}

static void fill_lists(sample *s)
{
    bool *flags = new_items(&s->flags.count, sizeof *flags);
    for (int64_t i = 0; i < s->flags.count; i++) flags[i] = coin();
    double *rates = new_items(&s->rates.count, sizeof *rates);
    for (int64_t i = 0; i < s->rates.count; i++) rates[i] = random_double();
    const char **names = new_items(&s->names.count, sizeof *names);
    for (int64_t i = 0; i < s->names.count; i++) names[i] = random_string();
    int *colors = new_items(&s->colors.count, sizeof *colors);
    for (int64_t i = 0; i < s->colors.count; i++) colors[i] = below(4);
    layer *layers = new_items(&s->layers.count, sizeof *layers);
    for (int64_t i = 0; i < s->layers.count; i++) fill_layer(&layers[i]);
    s->flags.items = flags;
    s->rates.items = rates;
    s->names.items = names;
    s->colors.items = colors;
    s->layers.items = layers;
    s->counts = random_ints();
    s->maybe_counts = coin() ? random_ints() : (tl_ints){NULL, 0};
}

static void fill_optimizer(tl_oneof *o)
{
    static const char *const types[] = {NULL, "sgd", "adam", "zero"};
    const tl_field *f = tl_desc_field(&sample_desc, "optimizer");
    void *value;
    for (int turn = below(3); turn >= 0; turn--) { // the last one is chosen, the others touched
        const char *type = types[below(4)];
        assert_ok(tl_oneof_select(&value, o, f, type, arena, NULL));
        if (value && o->desc == &sgd_desc) *(sgd *)value = (sgd){random_double(), coin()};
        if (value && o->desc == &adam_desc) {
            adam *a = value;
            a->beta = random_double();
            a->clip = (tl_opt_double){coin(), random_double()};
            fill_point(&a->center);
        }
    }
}

/* --- random values ---------------------------------------------------------------------------- */

static const tl_value *random_number(void)
{
    char text[40];
    if (coin()) {
        snprintf(text, sizeof text, coin() ? "%lld" : "0x%llx",
                 (long long)(random_int() & INT64_MAX));
    } else {
        double d = random_double();
        tl_double_text(text, d);
        if (isnan(d) || isinf(d))
            snprintf(text, sizeof text, "%s", isnan(d) ? ".nan" : d < 0 ? "-.inf" : ".inf");
    }
    return tl_value_new_scalar(arena, (tl_place){0}, text, false);
}

static const tl_value *random_scalar(void)
{
    static const char *const plain[] = {"null", "~",          "true", "No",
                                        "word", "2001-01-01", "1e-4", "None"};
    if (coin()) return random_number();
    if (coin()) return tl_value_new_scalar(arena, (tl_place){0}, random_string(), true);
    return tl_value_new_scalar(arena, (tl_place){0}, plain[below((int)TL_COUNT(plain))], false);
}

static const tl_value *random_value(int depth)
{
    int kind = depth > 0 ? below(4) : 3;
    if (kind >= 2) return random_scalar();
    int64_t count = below(5), kept = 0;
    const tl_value *items[5];
    tl_value_pair pairs[5];
    for (int64_t i = 0; i < count; i++) items[i] = random_value(depth - 1);
    if (kind == 0) return tl_value_new_list(arena, (tl_place){0}, items, count);
    for (int64_t i = 0; i < count; i++) {
        const char *key = random_string();
        bool taken = false;
        for (int64_t j = 0; j < kept; j++) taken |= strcmp(pairs[j].key, key) == 0;
        if (!taken)
            pairs[kept++] = (tl_value_pair){.key = key, .key_quoted = true, .value = items[i]};
    }
    return tl_value_new_map(arena, (tl_place){0}, pairs, kept);
}

static void fill_values(sample *s)
{
    s->extra = coin() ? random_value(4) : NULL;
    if (s->extra && tl_value_is_null(s->extra)) s->extra = NULL; // the member says null in one way
    do s->setting = coin() ? random_number() : random_value(3);
    while (s->setting->kind == TL_VALUE_MAP
           || (s->setting->kind == TL_VALUE_SCALAR && tl_value_scalar(s->setting) != TL_SCALAR_INT
               && tl_value_scalar(s->setting) != TL_SCALAR_DOUBLE));
    s->model = (tl_object){&layer_desc, NULL};
    if (coin()) {
        s->model.value = tl_arena_alloc(arena, sizeof(layer));
        assert_non_null(s->model.value);
        fill_layer(s->model.value);
    }
}

static void fill(sample *s)
{
    s->flag = coin();
    s->count = random_int();
    s->rate = random_double();
    s->name = random_string();
    s->note = coin() ? random_string() : NULL;
    s->color = (tint)below(4);
    s->maybe_flag = (tl_opt_bool){coin(), coin()};
    s->maybe_count = (tl_opt_int){coin(), random_int()};
    s->maybe_rate = (tl_opt_double){coin(), random_double()};
    fill_point(&s->origin);
    s->target = random_point();
    s->corner = random_point();
    fill_lists(s);
    fill_optimizer(&s->optimizer);
    fill_values(s);
}

/* --- the ways it goes ------------------------------------------------------------------------- */

/* Equal also in the sign of zero, which equality does not look at. */
static void check_rate(double a, double b)
{
    if (!isnan(a)) assert_memory_equal(&a, &b, sizeof a);
}

static void check_yaml(const sample *s, const tl_str *text)
{
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &sample_desc));
    tl_status st = tl_config_yaml(c, tl_str_text(text), "t");
    if (st != TL_OK) fail_msg("%s\n%s", tl_error_message(), tl_str_text(text));
    const sample *read = tl_config_value(c);
    if (!tl_desc_equal(&sample_desc, s, read))
        fail_msg("another is read from\n%s", tl_str_text(text));
    assert_true(tl_desc_hash(1, &sample_desc, s) == tl_desc_hash(1, &sample_desc, read));
    check_rate(s->rate, read->rate);
    check_rate(s->origin.x, read->origin.x);
    // And written again, it is the same text.
    tl_str again = TL_STR_INIT;
    assert_ok(tl_config_write(&again, c, false));
    assert_string_equal(tl_str_text(&again), tl_str_text(text));
    tl_str_deinit(&again);
    tl_config_free(&c);
}

static void check_copy(const sample *s)
{
    tl_arena *other;
    assert_ok(tl_arena_new(&other));
    sample copy;
    assert_ok(tl_desc_copy(other, &sample_desc, &copy, s));
    assert_true(tl_desc_equal(&sample_desc, s, &copy));
    assert_true(tl_desc_hash(2, &sample_desc, s) == tl_desc_hash(2, &sample_desc, &copy));
    tl_arena_free(&other);
}

/* What may stand between single quotes, where YAML folds lines and allows no control characters. */
static bool fits_csv(const char *text)
{
    if (!text || strchr(text, '\'')) return false;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || (unsigned char)*p == 0xc2
            || (unsigned char)*p == 0xe2)
            return false;
    return true;
}

static void check_csv(const sample *s)
{
    tl_str csv = TL_STR_INIT;
    char number[32];
    tl_str_addf(&csv, "flag=%s,count=%lld", s->flag ? "true" : "false", (long long)s->count);
    tl_double_text(number, s->rate);
    tl_str_addf(&csv, ", rate = %s,origin.x=", number);
    tl_double_text(number, s->origin.x);
    tl_str_add(&csv, number);
    if (fits_csv(s->name)) tl_str_addf(&csv, ",name='%s'", s->name);
    tl_str_add(&csv, ",counts=[");
    for (int64_t i = 0; i < s->counts.count; i++)
        tl_str_addf(&csv, "%s%lld", i ? "," : "", (long long)s->counts.items[i]);
    tl_str_add(&csv, "],names=[");
    int64_t names = 0;
    for (int64_t i = 0; i < s->names.count; i++)
        if (fits_csv(s->names.items[i]))
            tl_str_addf(&csv, "%s'%s'", names++ ? ", " : "", s->names.items[i]);
    tl_str_add(&csv, "]");
    if (s->optimizer.type) tl_str_addf(&csv, ",optimizer.type=%s", s->optimizer.type);
    assert_ok(tl_str_status(&csv));

    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &sample_desc));
    tl_status st = tl_config_override(c, tl_str_text(&csv), "t");
    if (st != TL_OK) fail_msg("%s\n%s", tl_error_message(), tl_str_text(&csv));
    const sample *read = tl_config_value(c);
    assert_int_equal(read->flag, s->flag);
    assert_int_equal(read->count, s->count);
    check_rate(s->rate, read->rate);
    check_rate(s->origin.x, read->origin.x);
    if (fits_csv(s->name)) assert_string_equal(read->name, s->name);
    assert_int_equal(read->counts.count, s->counts.count);
    for (int64_t i = 0; i < s->counts.count; i++)
        assert_int_equal(read->counts.items[i], s->counts.items[i]);
    assert_int_equal(read->names.count, names);
    for (int64_t i = 0, j = 0; i < s->names.count; i++)
        if (fits_csv(s->names.items[i]))
            assert_string_equal(read->names.items[j++], s->names.items[i]);
    tl_config_free(&c);
    tl_str_deinit(&csv);
}

static void test_random_configs(void **state)
{
    (void)state;
    for (int i = 0, count = config_count(); i < count; i++) {
        seed = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15); // each one can be repeated alone
        assert_ok(tl_arena_new(&arena));
        sample s = {0};
        fill(&s);
        tl_str text = TL_STR_INIT;
        assert_ok(tl_yaml_write(&text, &sample_desc, &s));
        check_yaml(&s, &text);
        check_copy(&s);
        check_csv(&s);
        tl_str_deinit(&text);
        tl_arena_free(&arena);
    }
}

/* With the sources as comments it reads the same. */
static void test_explained_configs(void **state)
{
    (void)state;
    for (int i = 0, count = config_count() / 20; i < count; i++) {
        seed = (uint64_t)i * 77 + 5;
        assert_ok(tl_arena_new(&arena));
        sample s = {0};
        fill(&s);
        tl_str text = TL_STR_INIT, explained = TL_STR_INIT;
        tl_config *c;
        assert_ok(tl_yaml_write(&text, &sample_desc, &s));
        assert_ok(tl_config_new(&c, NULL, &sample_desc));
        assert_ok(tl_config_yaml(c, tl_str_text(&text), "somewhere.yaml"));
        assert_ok(tl_config_write(&explained, c, true));
        tl_config_free(&c);
        assert_ok(tl_config_new(&c, NULL, &sample_desc));
        tl_status st = tl_config_yaml(c, tl_str_text(&explained), "t");
        if (st != TL_OK) fail_msg("%s\n%s", tl_error_message(), tl_str_text(&explained));
        if (!tl_desc_equal(&sample_desc, &s, tl_config_value(c)))
            fail_msg("%s", tl_str_text(&explained));
        assert_null(strstr(tl_str_text(&explained), "# default")); // every value was in the text
        tl_config_free(&c);
        tl_str_deinit(&text);
        tl_str_deinit(&explained);
        tl_arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_configs),
        cmocka_unit_test(test_explained_configs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
