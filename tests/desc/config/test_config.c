/* Configurations: sources and their order, types and messages, where values came from, checks. */
#include "desc/sample_config.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>

static void yaml(const char *text)
{
    tl_status st = tl_config_yaml(config, text, "a.yaml");
    if (st != TL_OK) fail_msg("%s\n    failed: %s", text, tl_error_message());
}

/* The whole message, word for word. The configuration is replaced by a fresh one. */
static void refuse(const char *text, tl_status code, const char *message)
{
    tl_error_clear();
    tl_status st = tl_config_yaml(config, text, "a.yaml");
    if (st != code || strcmp(tl_error_message(), message) != 0)
        fail_msg("%s\n    gave %s: %s\n    not %s: %s", text, tl_status_name(st),
                 st == TL_OK ? "" : tl_error_message(), tl_status_name(code), message);
    const tl_desc *desc = tl_config_desc(config);
    tl_config_free(&config);
    assert_ok(tl_config_new(&config, NULL, desc));
}

static void source_is(const char *path, const char *expected)
{
    const char *source = tl_config_source(config, path);
    if (strcmp(source, expected) != 0) fail_msg("%s comes from %s, not %s", path, source, expected);
}

static void test_what_an_experiment_says_is_not_given(void **state)
{
    (void)state;
    assert_ok(tl_config_yaml(config, "layers: [{units: 1}]", "experiment 'x'"));
    assert_false(tl_config_is_given(config, "layers"));
    assert_false(tl_config_is_given(config, "optimizer"));
    yaml("layers: [{units: 2}]");
    assert_true(tl_config_is_given(config, "layers"));
}

/* --- the vectors of Model Garden's Config ----------------------------------------------------- */

/* Vector: override {h: [{a: 3, b: ..}]} on a list of two gives a list of one, of the same type. */
static void test_vector_list_replaced(void **state)
{
    (void)state;
    yaml("layers: [{name: a, units: 1}, {name: b, units: 2}]");
    yaml("layers: [{units: 3}]");
    assert_int_equal(now()->layers.count, 1);
    const layer *l = now()->layers.items;
    assert_int_equal(l->units, 3);
    assert_string_equal(l->name, "dense"); // built anew from its defaults
}

/* Vector: override y: [.., ..] on two elements keeps what each of them was. */
static void test_vector_elements_kept(void **state)
{
    (void)state;
    yaml("layers: [{name: a, units: 1}, {name: b, units: 2, kernel: [5]}]");
    yaml("layers: [{units: 10}, {name: c}]");
    const layer *l = now()->layers.items;
    assert_string_equal(l[0].name, "a");
    assert_int_equal(l[0].units, 10);
    assert_string_equal(l[1].name, "c");
    assert_int_equal(l[1].units, 2);
    assert_int_equal(l[1].kernel.items[0], 5);
}

/* Vector: override by [] empties. */
static void test_vector_emptied(void **state)
{
    (void)state;
    yaml("layers: [{}, {}]\n");
    yaml("{layers: [], counts: [], names: []}");
    assert_int_equal(now()->layers.count, 0);
    assert_int_equal(now()->counts.count, 0);
    assert_int_equal(now()->names.count, 0);
}

/* Vector: override {optional_e: {a: 2}} on None gives {a: 2, b: "text"}. */
static void test_vector_optional_made(void **state)
{
    (void)state;
    assert_null(now()->target);
    yaml("target: {x: 2}");
    assert_true(now()->target->x == 2);
    assert_string_equal(now()->target->label, "here");
}

/* Vector: a strict override with an unknown key is an error; and, unlike there, also inside what
 * was null and inside lists whose length changes. */
static void test_vector_unknown_keys(void **state)
{
    (void)state;
    refuse(
        "unheard_of: 1", TL_ENOTFOUND,
        "a.yaml:1:1: unheard_of: unknown key (known: color, colors, corner, count, counts, extra, "
        "flag, flags, layers, maybe_count, maybe_counts, maybe_flag, ...)");
    refuse("target: {z: 1}", TL_ENOTFOUND,
           "a.yaml:1:10: target.z: unknown key (known: label, x, y)");
    refuse("layers: [{unist: 1}]", TL_ENOTFOUND,
           "a.yaml:1:11: layers[0].unist: unknown key, did you mean 'units'?");
    refuse("optimizer: {sgd: {momentun: 1}}", TL_ENOTFOUND,
           "a.yaml:1:19: optimizer.sgd.momentun: unknown key, did you mean 'momentum'?");
    refuse("model: {nmae: 1}", TL_ENOTFOUND,
           "a.yaml:1:9: model.nmae: unknown key, did you mean 'name'?");
}

/* Vector: nested sequences are an error. */
static void test_vector_nested_lists(void **state)
{
    (void)state;
    refuse("counts: [[1, 2], [3]]", TL_EINVAL,
           "a.yaml:1:10: counts[0]: expected an integer, found a list of 2\n"
           "a.yaml:1:18: counts[1]: expected an integer, found a list of 1");
    refuse("layers: [[{}]]", TL_EINVAL,
           "a.yaml:1:10: layers[0]: expected a map of keys, found a list of 1");
}

/* --- scalars typed by their fields ------------------------------------------------------------ */

static void test_scalars(void **state)
{
    (void)state;
    yaml("{flag: off, count: 1e3, rate: 1e-4, name: 1e-4, maybe_rate: 1.0e6, counts: [0x10, 1_000, "
         "010]}");
    assert_false(now()->flag);
    assert_int_equal(now()->count, 1000);
    assert_true(now()->rate == 1e-4);
    assert_string_equal(now()->name, "1e-4"); // a string keeps its text
    assert_true(now()->maybe_rate.value == 1e6);
    assert_int_equal(now()->counts.items[0], 16);
    assert_int_equal(now()->counts.items[1], 1000);
    assert_int_equal(now()->counts.items[2], 8);
    yaml("{rate: 5, rates: [1, .inf, -inf, nan], names: [1, true, 0x10, null_, '', 2001-01-01]}");
    assert_true(now()->rate == 5);
    assert_true(isnan(now()->rates.items[3]) && now()->rates.items[2] < 0);
    assert_string_equal(now()->names.items[1], "true");
    assert_string_equal(now()->names.items[2], "0x10");
    assert_string_equal(now()->names.items[5], "2001-01-01");
    yaml("{counts: !!python/tuple [1, 2], origin: {x: 1.5e1}}");
    assert_int_equal(now()->counts.count, 2);
    yaml("name: |\n  two\n  lines\n");
    assert_string_equal(now()->name, "two\nlines\n");
}

static void test_nulls(void **state)
{
    (void)state;
    yaml(
        "{note: x, maybe_flag: true, maybe_count: 5, target: {x: 1}, extra: 5, maybe_counts: [1]}");
    assert_string_equal(now()->note, "x");
    assert_int_equal(now()->maybe_counts.count, 1);
    yaml("{note: null, maybe_flag: ~, maybe_count: None, target: null, corner: Null, extra: null, "
         "model: null, color: null, maybe_counts: null}");
    assert_null(now()->note);
    assert_false(now()->maybe_flag.set);
    assert_false(now()->maybe_count.set);
    assert_null(now()->target);
    assert_null(now()->corner);
    assert_null(now()->extra);
    assert_null(now()->model.value);
    assert_int_equal(now()->color, TINT_NONE);
    assert_null(now()->maybe_counts.items);
    yaml("{note: 'null', model: {}, maybe_counts: []}");
    assert_string_equal(now()->note, "null");
    assert_int_equal(((layer *)now()->model.value)->units, 8);
    assert_non_null(now()->maybe_counts.items); // empty is not null
    // A key without anything behind it.
    yaml("note:\ncorner:\nname:\norigin:\nmaybe_count:\n");
    assert_null(now()->note);
    assert_string_equal(now()->name, "");
    assert_string_equal(now()->origin.label, "origin");
    refuse("flag: null", TL_EINVAL, "a.yaml:1:7: flag: cannot be null");
    refuse(
        "name: None", TL_EINVAL,
        "a.yaml:1:7: name: cannot be null (write '' for an empty string, or the word in quotes)");
    refuse("counts: null", TL_EINVAL,
           "a.yaml:1:9: counts: cannot be null (write [] for an empty list)");
    refuse("names: [a, null]", TL_EINVAL,
           "a.yaml:1:12: names[1]: cannot be null (write '' for an empty "
           "string, or the word in quotes)");
    refuse("origin: null", TL_EINVAL, "a.yaml:1:9: origin: cannot be null");
    refuse("setting: null", TL_EINVAL, "a.yaml:1:10: setting: cannot be null");
    refuse("flag:", TL_EINVAL, "a.yaml:1:6: flag: expected true or false, found null");
    refuse("count: ", TL_EINVAL, "a.yaml:1:7: count: expected an integer, found null");
}

static void test_wrong_types(void **state)
{
    (void)state;
    refuse("flag: 1", TL_EINVAL, "a.yaml:1:7: flag: expected true or false, found the integer 1");
    refuse("flag: maybe", TL_EINVAL,
           "a.yaml:1:7: flag: expected true or false, found the string \"maybe\"");
    refuse("flag: 'true'", TL_EINVAL,
           "a.yaml:1:7: flag: expected true or false, found the string \"true\" (write it without "
           "quotes)");
    refuse("count: 1.5", TL_EINVAL, "a.yaml:1:8: count: expected an integer, found the number 1.5");
    refuse(
        "count: \"5\"", TL_EINVAL,
        "a.yaml:1:8: count: expected an integer, found the string \"5\" (write it without quotes)");
    refuse("count: yes", TL_EINVAL, "a.yaml:1:8: count: expected an integer, found the bool yes");
    refuse("count: 9223372036854775808", TL_EINVAL,
           "a.yaml:1:8: count: expected an integer that fits 64 bits, written with all its digits, "
           "found the number 9223372036854775808");
    refuse("rate: [1]", TL_EINVAL, "a.yaml:1:7: rate: expected a number, found a list of 1");
    refuse("name: {a: 1, b: 2}", TL_EINVAL,
           "a.yaml:1:7: name: expected a string, found a map of 2");
    refuse("color: blue", TL_EINVAL,
           "a.yaml:1:8: color: expected red, green, off or null, found the string \"blue\"");
    refuse("colors: [red, blue]", TL_EINVAL,
           "a.yaml:1:15: colors[1]: expected red, green, off or null, found the string \"blue\"");
    refuse("counts: 5", TL_EINVAL,
           "a.yaml:1:9: counts: expected a list of int, found the integer 5");
    refuse("origin: 5", TL_EINVAL,
           "a.yaml:1:9: origin: expected a map of keys, found the integer 5");
    refuse("target: [1]", TL_EINVAL,
           "a.yaml:1:9: target: expected a map of keys, found a list of 1");
    refuse("optimizer: sgd", TL_EINVAL,
           "a.yaml:1:12: optimizer: expected a map with 'type' and that "
           "type's own fields, found the string \"sgd\"");
    refuse("optimizer: {type: [sgd]}", TL_EINVAL,
           "a.yaml:1:19: optimizer.type: expected the name of a type, or null, found a list of 1");
    refuse("optimizer: {zero: {a: 1}}", TL_EINVAL,
           "a.yaml:1:19: optimizer.zero: expected an empty map (this type has no fields), found a "
           "map of 1");
    refuse("optimizer: {zero: 5}", TL_EINVAL,
           "a.yaml:1:19: optimizer.zero: expected an empty map (this type has no fields), found "
           "the integer 5");
    refuse("setting: true", TL_EINVAL,
           "a.yaml:1:10: setting: expected number or list, found the bool true");
    refuse("[1, 2]", TL_EINVAL, "a.yaml:1:1: expected a map of keys, found a list of 2");
    refuse("words", TL_EINVAL, "a.yaml:1:1: expected a map of keys, found the string \"words\"");
}

/* --- restrictions of one field ---------------------------------------------------------------- */

typedef struct limited {
    int64_t whole, most;
    double share, positive;
    const char *word;
    tl_ints list;
    tl_strings words;
    tl_opt_int maybe;
} limited;
static const tl_field limited_fields[] = {
    TL_F(limited, whole, .i = 1, TL_RANGE(1, 1e6), .help = "h"),
    TL_F(limited, most, .ranged = true, .min = -HUGE_VAL, .max = 5, .help = "h"),
    TL_F(limited, share, TL_RANGE(0, 1), .help = "h"),
    TL_F(limited, positive, TL_AT_LEAST(0), .help = "h"),
    TL_F(limited, word, .s = "a1", .pattern = "^[a-z]+[0-9]$", .help = "h"),
    TL_F(limited, list, TL_RANGE(0, 9), .help = "h"),
    TL_F(limited, words, .pattern = "x", .help = "h"),
    TL_F(limited, maybe, TL_RANGE(1, 3), .help = "h"),
    TL_F_END,
};
static const tl_desc limited_desc = {
    .name = "limited",
    .size = sizeof(limited),
    .fields = limited_fields,
};

static void test_ranges_and_patterns(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&limited_desc));
    tl_config_free(&config);
    assert_ok(tl_config_new(&config, NULL, &limited_desc));
    yaml("{whole: 1, share: 0, word: abc9, list: [0, 9], words: [axb], maybe: 3}");
    yaml("{whole: 1000000, share: 1, positive: .inf, most: -9223372036854775808, maybe: null}");
    refuse("whole: 0", TL_EINVAL, "a.yaml:1:8: whole: must be between 1 and 1000000, found 0");
    refuse("whole: 1000001", TL_EINVAL,
           "a.yaml:1:8: whole: must be between 1 and 1000000, found 1000001");
    refuse("most: 6", TL_EINVAL, "a.yaml:1:7: most: must be at most 5, found 6");
    refuse("share: 1.5", TL_EINVAL, "a.yaml:1:8: share: must be between 0.0 and 1.0, found 1.5");
    refuse("share: nan", TL_EINVAL, "a.yaml:1:8: share: must be between 0.0 and 1.0, found nan");
    refuse("positive: -1e-3", TL_EINVAL,
           "a.yaml:1:11: positive: must be at least 0.0, found -1e-3");
    refuse("list: [1, 10, -1]", TL_EINVAL,
           "a.yaml:1:11: list[1]: must be between 0 and 9, found 10\n"
           "a.yaml:1:15: list[2]: must be between 0 and 9, found -1");
    refuse("maybe: 4", TL_EINVAL, "a.yaml:1:8: maybe: must be between 1 and 3, found 4");
    refuse("word: 1a", TL_EINVAL,
           "a.yaml:1:7: word: '1a' does not match the pattern ^[a-z]+[0-9]$");
    refuse("words: [x, y]", TL_EINVAL, "a.yaml:1:12: words[1]: 'y' does not match the pattern x");
}

/* --- all that is wrong, together -------------------------------------------------------------- */

static void test_all_errors_together(void **state)
{
    (void)state;
    refuse("flag: 1\n"
           "cuont: 5\n"
           "origin:\n"
           "  x: left\n"
           "  lable: z\n"
           "layers:\n"
           "- {units: many}\n"
           "- {kernel: [1, x]}\n"
           "optimizer:\n"
           "  type: adma\n"
           "  sgdd: {}\n"
           "  sgd: {nesterov: 3}\n"
           "rate: 0.5\n",
           TL_EINVAL,
           "a.yaml:1:7: flag: expected true or false, found the integer 1\n"
           "a.yaml:2:1: cuont: unknown key, did you mean 'count'?\n"
           "a.yaml:4:6: origin.x: expected a number, found the string \"left\"\n"
           "a.yaml:5:3: origin.lable: unknown key, did you mean 'label'?\n"
           "a.yaml:7:11: layers[0].units: expected an integer, found the string \"many\"\n"
           "a.yaml:8:16: layers[1].kernel[1]: expected an integer, found the string \"x\"\n"
           "a.yaml:10:9: optimizer.type: unknown type 'adma', did you mean 'adam'? (known: sgd, "
           "adam, zero)\n"
           "a.yaml:11:3: optimizer.sgdd: unknown key, did you mean 'sgd'?\n"
           "a.yaml:12:19: optimizer.sgd.nesterov: expected true or false, found the integer 3");
}

static void test_very_many_errors(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "counts: [");
    for (int i = 0; i < 100; i++) tl_str_add(&text, "x, ");
    tl_str_add(&text, "]\n");
    tl_error_clear();
    assert_int_equal(tl_config_yaml(config, tl_str_text(&text), "a.yaml"), TL_EINVAL);
    assert_non_null(strstr(tl_error_message(), "counts[19]"));
    assert_null(strstr(tl_error_message(), "counts[20]"));
    const char *last = strrchr(tl_error_message(), '\n');
    assert_string_equal(last, "\n... and 80 more");
    // Long ones do not push the number out.
    tl_str_cut(&text, 0);
    for (int i = 0; i < 40; i++) {
        tl_str_addf(&text, "k%d", i);
        tl_str_pad(&text, 'k', 400);
        tl_str_add(&text, ": 1\n");
    }
    assert_int_equal(tl_config_yaml(config, tl_str_text(&text), "a.yaml"), TL_ENOTFOUND);
    assert_true(strlen(tl_error_message()) < TL_ERROR_TEXT);
    assert_non_null(strstr(tl_error_message(), " more"));
    tl_str_deinit(&text);
}

/* --- order and precedence --------------------------------------------------------------------- */

static void test_later_sources_win(void **state)
{
    (void)state;
    yaml("{count: 1, rate: 1, name: file, counts: [1, 1], origin: {x: 1, label: file}}");
    assert_ok(tl_config_yaml(config, "{count: 2, rate: 2, origin: {x: 2}}", "b.yaml"));
    assert_ok(tl_config_override(config, "count=3,counts=[3]", "--params_override"));
    assert_ok(tl_config_word(config, "counts[0]=4", "command line"));
    assert_int_equal(now()->count, 3);
    assert_true(now()->rate == 2);
    assert_string_equal(now()->name, "file");
    assert_true(now()->origin.x == 2); // merged, not replaced
    assert_string_equal(now()->origin.label, "file");
    assert_int_equal(now()->counts.count, 1);
    assert_int_equal(now()->counts.items[0], 4);
    assert_int_equal(now()->colors.count, 2); // nobody touched it
    source_is("count", "--params_override");
    source_is("rate", "b.yaml:1:18");
    source_is("name", "a.yaml:1:27");
    source_is("origin.x", "b.yaml:1:33");
    source_is("origin.label", "a.yaml:1:71");
    source_is("origin.y", "default");
    source_is("counts[0]", "command line");
    source_is("colors", "default");
}

/* One source may say things in any order. */
static void test_order_inside_a_source(void **state)
{
    (void)state;
    yaml("optimizer: {adam: {beta: 0.5}, type: adam}");
    assert_true(((adam *)now()->optimizer.value)->beta == 0.5);
    yaml("optimizer: {type: sgd}");
    yaml("optimizer: {type: adam}"); // what was set is still there
    assert_true(((adam *)now()->optimizer.value)->beta == 0.5);
    yaml("optimizer: {sgd: {momentum: 0.1}}"); // does not choose
    assert_string_equal(now()->optimizer.type, "adam");
    yaml("optimizer: {type: null}");
    assert_null(now()->optimizer.type);
    yaml("optimizer: {type: zero, zero: {}}");
    assert_string_equal(now()->optimizer.type, "zero");
    yaml("optimizer: {type: zero, zero: null}");
}

static void test_free_form_values(void **state)
{
    (void)state;
    yaml("extra: {a: 1, b: {c: 2, d: [1]}}");
    assert_ok(tl_config_yaml(config, "extra: {b: {c: 3, e: 4}, f: 5}", "b.yaml"));
    const tl_value *b = tl_value_get(now()->extra, "b");
    assert_string_equal(tl_value_get(now()->extra, "a")->text, "1");
    assert_string_equal(tl_value_get(b, "c")->text, "3");
    assert_string_equal(tl_value_get(b, "e")->text, "4");
    assert_int_equal(tl_value_get(b, "d")->count, 1);
    assert_int_equal(now()->extra->count, 3);
    assert_int_equal(now()->extra->weight,
                     1 + (1 + 1) + (1 + 1 + (1 + 1) + (1 + 2) + (1 + 1)) + (1 + 1));
    // Each part knows where it was written.
    source_is("extra.a", "a.yaml:1:12");
    source_is("extra.b.c", "b.yaml:1:16");
    source_is("extra.b.d", "a.yaml:1:28");
    source_is("extra.b.d[0]", "a.yaml:1:29");
    yaml("extra: [1]"); // another kind replaces
    assert_int_equal(now()->extra->kind, TL_VALUE_LIST);
    yaml("extra: word");
    assert_string_equal(now()->extra->text, "word");
    source_is("extra", "a.yaml:1:8");
    source_is("setting", "default");
    source_is("setting[0]", "default");
}

/* --- where values came from ------------------------------------------------------------------- */

static void test_sources(void **state)
{
    (void)state;
    yaml("count: 1\nlayers:\n- {units: 1}\n- {kernel: [5, 6]}\n"
         "optimizer:\n  type: adam\n  adam: {beta: 0.5}\ntarget: {x: 1}\nnote: null\n");
    source_is("count", "a.yaml:1:8");
    source_is("layers", "a.yaml:3:1");
    source_is("layers[0].units", "a.yaml:3:11");
    source_is("layers[1].kernel", "a.yaml:4:12");
    source_is("layers[1].kernel[1]", "a.yaml:4:16");
    source_is("optimizer.type", "a.yaml:6:9");
    source_is("optimizer.adam.beta", "a.yaml:7:16");
    source_is("optimizer.adam.clip", "default");
    source_is("target.x", "a.yaml:8:13");
    source_is("target.y", "default");
    source_is("note", "a.yaml:9:7");
    source_is("no.such.path", "default");
    source_is("", "default");
    // A list that is replaced speaks for its items.
    assert_ok(tl_config_override(config, "counts=[1,2,3]", "--params_override"));
    source_is("counts", "--params_override");
    source_is("counts[2]", "--params_override");
    yaml("layers: [{}]");
    source_is("layers[0].units", "a.yaml:1:9");
    // What was null in between began anew.
    assert_ok(tl_config_word(config, "~target", "command line"));
    source_is("target", "command line");
    assert_ok(tl_config_word(config, "target.y=2", "command line"));
    assert_true(now()->target->x == 0);
    source_is("target.x", "default");
    source_is("target.y", "command line");
}

static void test_sources_outlive_their_text(void **state)
{
    (void)state;
    char text[] = "count: 5", source[] = "temporary";
    tl_arena *arena;
    const tl_value *v;
    assert_ok(tl_config_yaml(config, text, source));
    assert_ok(tl_arena_new(&arena));
    assert_ok(tl_yaml_parse(&v, arena, "{name: n, extra: {a: b}, names: [x]}", 36, source));
    assert_ok(tl_config_apply(config, v));
    tl_arena_free(&arena);
    memset(text, 'x', sizeof text - 1);
    memset(source, 'x', sizeof source - 1);
    source_is("count", "temporary:1:8");
    source_is("name", "temporary:1:8");
    source_is("extra.a", "temporary:1:22");
    assert_string_equal(now()->name, "n");
    assert_string_equal(now()->extra->pairs[0].key, "a");
    assert_string_equal(now()->extra->pairs[0].place.source, "temporary");
    assert_string_equal(now()->names.items[0], "x");
    yaml("extra: {c: d}"); // merged with what is there
    assert_int_equal(now()->extra->count, 2);
    yaml("extra: {}"); // but what is emptied stays empty when it is read again
    assert_int_equal(now()->extra->count, 0);
}

/* Each line says where its value came from; and it is still the same YAML. */
static void test_explain(void **state)
{
    (void)state;
    yaml("count: 5\n"
         "name: 'a text that is long enough to be folded over two lines: it has many more\n  than "
         "the eighty letters of one'\n"
         "counts: [1000001, 1000002, 1000003, 1000004, 1000005, 1000006, 1000007, 1000008, "
         "1000009, 1000010]\n"
         "note: \"two\\nlines\"\nextra: {b: 1, a: {c: [1]}}\noptimizer: {type: zero}\n"
         "layers: [{name: a}, {name: b}, {name: c}]\ntarget: {x: 1}\n");
    tl_str plain = TL_STR_INIT, text = TL_STR_INIT;
    assert_ok(tl_config_write(&plain, config, false));
    assert_ok(tl_config_write(&text, config, true));
    tl_config *again;
    assert_ok(tl_config_new(&again, NULL, &sample_desc));
    assert_ok(tl_config_yaml(again, tl_str_text(&text), "again"));
    assert_true(tl_desc_equal(&sample_desc, now(), tl_config_value(again)));
    static const char *const lines[] = {
        "\ncount: 5                                                  # a.yaml:1:8\n",
        "\nrate: 0.1                                                 # default\n",
        "\n  the eighty letters of one'                              # a.yaml:2:7\n",
        "  1000010]                                                # a.yaml:4:9\n",
        "\n  lines'                                                  # a.yaml:5:7\n",
        "\n    c: [1]                                                # a.yaml:6:22\n",
        "\n  b: 1                                                    # a.yaml:6:12\n",
        "\n  type: zero                                              # a.yaml:7:19\n",
        "\ntarget:\n",
        "\n  x: 1.0                                                  # a.yaml:9:13\n",
        "\n  y: 1.5                                                  # default\n",
    };
    for (int64_t i = 0; i < TL_COUNT(lines); i++)
        if (!strstr(tl_str_text(&text), lines[i]))
            fail_msg("no '%s' in\n%s", lines[i], tl_str_text(&text));
    // Without the comments it is what is written otherwise.
    tl_str bare = TL_STR_INIT;
    for (const char *line = tl_str_text(&text); *line;) {
        const char *stop = strchr(line, '\n'), *comment = strstr(line, "  # ");
        const char *last = comment && comment < stop ? comment : stop;
        while (last > line && last[-1] == ' ') last--;
        tl_str_addn(&bare, line, (size_t)(last - line));
        tl_str_addc(&bare, '\n');
        line = stop + 1;
    }
    assert_string_equal(tl_str_text(&bare), tl_str_text(&plain));
    tl_str_deinit(&bare);
    tl_str_deinit(&plain);
    tl_str_deinit(&text);
    tl_config_free(&again);
}

/* Texts that look like other lines, ends of keys and comments. */
static void test_explain_is_not_fooled(void **state)
{
    (void)state;
    static const char *const names[] = {
        "words words words words words words words words words words words words words words:\\n"
        "names: words words words words words words words words words words words words words",
        "ends with a colon:",
        "# no comment",
        "a  # b",
        "\\nnames: x",
        "'",
        "\\\"",
        "x: y",
        "",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: "
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb: ccccccccccccccccccccccccccccccccccccccccccc",
    };
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        tl_str in = TL_STR_INIT, text = TL_STR_INIT;
        tl_str_addf(&in, "name: \"%s\"\nextra: {\"%s\": \"%s\"}\nnames: [\"%s\"]\n", names[i],
                    names[i], names[i], names[i]);
        yaml(tl_str_text(&in));
        assert_ok(tl_config_write(&text, config, true));
        tl_config *again;
        assert_ok(tl_config_new(&again, NULL, &sample_desc));
        assert_ok(tl_config_yaml(again, tl_str_text(&text), "again"));
        if (!tl_desc_equal(&sample_desc, now(), tl_config_value(again)))
            fail_msg("another\n%s", tl_str_text(&text));
        static const char *const places[] = {"# a.yaml:1:7\n", "# a.yaml:2:8\n", "# a.yaml:3:8\n"};
        for (int j = 0; j < 3; j++)
            if (!strstr(tl_str_text(&text), places[j]))
                fail_msg("no %s in\n%s", places[j], tl_str_text(&text));
        tl_config_free(&again);
        tl_str_deinit(&in);
        tl_str_deinit(&text);
    }
}

/* --- not strict ------------------------------------------------------------------------------- */

static int warnings;
static char last_warning[256];

static void count_warning(const tl_log_record *record, void *payload)
{
    (void)payload;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", record->text);
}

static void test_not_strict(void **state)
{
    (void)state;
    tl_log_sink sink = {TL_LEVEL_WARNING, count_warning, NULL, NULL};
    int64_t handle;
    assert_ok(tl_log_sink_add(&handle, &sink));
    warnings = 0;
    tl_config_set_strict(config, false);
    yaml("{unheard_of: 1, origin: {z: 2, x: 5}, layers: [{q: 1, units: 2}], optimizer: {rmsprop: "
         "{}}, count: 6}");
    assert_int_equal(warnings, 4); // one each
    assert_non_null(strstr(last_warning, "a.yaml:1:79: optimizer.rmsprop: unknown key is skipped"));
    assert_int_equal(now()->count, 6);
    assert_true(now()->origin.x == 5);
    assert_int_equal(((layer *)now()->layers.items)[0].units, 2);
    // Wrong values, and types of a one-of that do not exist, are wrong nevertheless.
    assert_fails(tl_config_yaml(config, "count: x", "a.yaml"), TL_EINVAL, "expected an integer");
    assert_fails(tl_config_yaml(config, "optimizer: {type: x}", "a.yaml"), TL_ENOTFOUND,
                 "unknown type 'x'");
    tl_config_set_strict(config, true);
    assert_fails(tl_config_yaml(config, "unheard_of: 1", "a.yaml"), TL_ENOTFOUND, "unknown key");
    assert_true(tl_log_sink_remove(handle));
}

/* --- files ------------------------------------------------------------------------------------ */

static void test_read(void **state)
{
    (void)state;
    char path[TEMPORARY_PATH], place[160];
    int file = mkstemp(temporary(path, "tilth_config"));
    assert_true(file >= 0);
    close(file);
    assert_ok(tl_file_write_atomic(path, "# params\ncount: 9\n", 18));
    assert_ok(tl_config_read(config, path));
    assert_int_equal(now()->count, 9);
    snprintf(place, sizeof place, "%s:2:8", path);
    source_is("count", place);
    assert_ok(tl_file_write_atomic(path, "", 0));
    assert_ok(tl_config_read(config, path)); // an empty file changes nothing
    assert_ok(tl_file_write_atomic(path, "cuont: 9\n", 9));
    snprintf(place, sizeof place, "%s:1:1: cuont: unknown key", path);
    assert_fails(tl_config_read(config, path), TL_ENOTFOUND, place);
    assert_ok(tl_file_remove(path));
    assert_fails(tl_config_read(config, path), TL_ENOTFOUND, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_vector_list_replaced, begin, end),
        cmocka_unit_test_setup_teardown(test_what_an_experiment_says_is_not_given, begin, end),
        cmocka_unit_test_setup_teardown(test_vector_elements_kept, begin, end),
        cmocka_unit_test_setup_teardown(test_vector_emptied, begin, end),
        cmocka_unit_test_setup_teardown(test_vector_optional_made, begin, end),
        cmocka_unit_test_setup_teardown(test_vector_unknown_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_vector_nested_lists, begin, end),
        cmocka_unit_test_setup_teardown(test_scalars, begin, end),
        cmocka_unit_test_setup_teardown(test_nulls, begin, end),
        cmocka_unit_test_setup_teardown(test_wrong_types, begin, end),
        cmocka_unit_test_setup_teardown(test_ranges_and_patterns, begin, end),
        cmocka_unit_test_setup_teardown(test_all_errors_together, begin, end),
        cmocka_unit_test_setup_teardown(test_very_many_errors, begin, end),
        cmocka_unit_test_setup_teardown(test_later_sources_win, begin, end),
        cmocka_unit_test_setup_teardown(test_order_inside_a_source, begin, end),
        cmocka_unit_test_setup_teardown(test_free_form_values, begin, end),
        cmocka_unit_test_setup_teardown(test_sources, begin, end),
        cmocka_unit_test_setup_teardown(test_sources_outlive_their_text, begin, end),
        cmocka_unit_test_setup_teardown(test_explain, begin, end),
        cmocka_unit_test_setup_teardown(test_explain_is_not_fooled, begin, end),
        cmocka_unit_test_setup_teardown(test_not_strict, begin, end),
        cmocka_unit_test_setup_teardown(test_read, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
