/* Words of the command line, as Hydra has them: a.b=1, +a.b=1, ++a.b=1, ~a.b. */
#include "desc/sample_config.h"

static void word(const char *text)
{
    tl_status st = tl_config_word(config, text, "command line");
    if (st != TL_OK) fail_msg("%s\n    failed: %s", text, tl_error_message());
}

static void refuse(const char *text, tl_status code, const char *message)
{
    tl_error_clear();
    tl_status st = tl_config_word(config, text, "command line");
    if (st != code || !strstr(tl_error_message(), message))
        fail_msg("%s\n    gave %s: %s\n    not %s: %s", text, tl_status_name(st),
                 st == TL_OK ? "" : tl_error_message(), tl_status_name(code), message);
    if (strncmp(tl_error_message(), "command line", 12) != 0)
        fail_msg("%s does not begin with its source", tl_error_message());
}

/* --- setting ---------------------------------------------------------------------------------- */

static void test_set(void **state)
{
    (void)state;
    word("flag=no");
    assert_false(now()->flag);
    word("count=0x10");
    assert_int_equal(now()->count, 16);
    word("rate=1e-4");
    assert_true(now()->rate == 1e-4);
    word("name=some text, with = and [brackets]");
    assert_string_equal(now()->name, "some text, with = and [brackets]");
    word("name='quoted'");
    assert_string_equal(now()->name, "quoted");
    word("name=*.tfrecord"); // no alias
    assert_string_equal(now()->name, "*.tfrecord");
    word("name=&x !y %z @w #v: u");
    assert_string_equal(now()->name, "&x !y %z @w #v: u");
    word("name=");
    assert_string_equal(now()->name, "");
    word("color=off");
    assert_int_equal(now()->color, TINT_OFF);
    word("color=null");
    assert_int_equal(now()->color, TINT_NONE);
    word("counts=[4, 5]");
    assert_int_equal(now()->counts.count, 2);
    word("counts=[]");
    assert_int_equal(now()->counts.count, 0);
    word("origin.x=3");
    assert_true(now()->origin.x == 3);
    word("origin={y: 4, label: z}");
    assert_true(now()->origin.x == 3 && now()->origin.y == 4);
    word("note=x");
    assert_string_equal(now()->note, "x");
    word("note=null");
    assert_null(now()->note);
    word("maybe_count=null");
    assert_false(now()->maybe_count.set);
    word("model.units=5");
    assert_int_equal(((layer *)now()->model.value)->units, 5);
}

static void test_set_creates_what_is_on_the_way(void **state)
{
    (void)state;
    assert_null(now()->target);
    word("target.x=2");
    assert_true(now()->target->x == 2 && now()->target->y == 1.5);
    word("optimizer.type=adam");
    word("optimizer.adam.center.label=deep");
    word("optimizer.sgd.momentum=0.25"); // not chosen, but kept
    assert_string_equal(((adam *)now()->optimizer.value)->center.label, "deep");
    word("optimizer.type=sgd");
    assert_true(((sgd *)now()->optimizer.value)->momentum == 0.25);
}

static void test_indexes(void **state)
{
    (void)state;
    word("counts[1]=20");
    assert_int_equal(now()->counts.items[1], 20);
    assert_int_equal(now()->counts.items[0], 1);
    // The table's own default is not touched.
    sample fresh;
    assert_ok(tl_desc_defaults(tl_config_arena(config), &sample_desc, &fresh));
    assert_int_equal(fresh.counts.items[1], 2);
    word("names[0]=x y");
    assert_string_equal(now()->names.items[0], "x y");
    word("flags[1]=true");
    assert_true(now()->flags.items[1]);
    word("colors[0]=green");
    assert_int_equal(now()->colors.items[0], TINT_GREEN);
    word("layers=[{name: a, kernel: [1, 2]}, {name: b}]");
    word("layers[1].units=99");
    word("layers[0].kernel[1]=7");
    word("layers[0].origin.x=5");
    word("layers[1]={name: c}");
    const layer *layers = now()->layers.items;
    assert_int_equal(layers[1].units, 99);
    assert_string_equal(layers[1].name, "c");
    assert_int_equal(layers[0].kernel.items[1], 7);
    assert_true(layers[0].origin->x == 5);
    assert_string_equal(tl_config_source(config, "layers[0].kernel[1]"), "command line");
    refuse("counts[3]=1", TL_EINVAL, "counts: index [3] is outside the list, which has 3 items");
    refuse("rates[0]=1", TL_EINVAL, "rates: index [0] is outside the list, which has 0 items");
    refuse("counts[-1]=1", TL_EINVAL, "expected an index");
    refuse("counts[99999999999999999999]=1", TL_EINVAL, "is outside the list");
    refuse("count[0]=1", TL_EINVAL, "count: not a list");
    refuse("counts.x=1", TL_EINVAL, "counts: expected a list of int");
    refuse("counts[0].x=1", TL_EINVAL, "expected an integer");
    refuse("layers.name=1", TL_EINVAL, "layers: expected a list of struct");
}

typedef struct drawing {
    tl_structs layers;
} drawing;
static point drawn_at = {1, 2, "table"};
static layer drawn[] = {{.name = "one", .units = 1, .origin = &drawn_at}, {.name = "two"}};
static const tl_field drawing_fields[] = {
    TL_F(drawing, layers, .desc = &layer_desc, .items = drawn, .count = 2, .help = "h"),
    TL_F_END,
};
static const tl_desc drawing_desc = {
    .name = "drawing",
    .size = sizeof(drawing),
    .fields = drawing_fields,
};

/* A default that is a list of structs belongs to the table, with all that it points at. */
static void test_tables_are_not_touched(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &drawing_desc));
    assert_ok(tl_config_word(c, "layers[0].units=50", "w"));
    assert_ok(tl_config_word(c, "layers[0].origin.x=50", "w"));
    assert_ok(tl_config_word(c, "layers[1].origin.x=60", "w"));
    const layer *layers = ((const drawing *)tl_config_value(c))->layers.items;
    assert_int_equal(layers[0].units, 50);
    assert_true(layers[0].origin->x == 50);
    assert_string_equal(layers[0].origin->label, "table");
    tl_config_free(&c);
    assert_int_equal(drawn[0].units, 1);
    assert_true(drawn_at.x == 1);
    assert_null(drawn[1].origin);
    // Nor by a map that is merged into it.
    assert_ok(tl_config_new(&c, NULL, &drawing_desc));
    assert_ok(tl_config_yaml(c, "layers: [{units: 7, origin: {y: 7}}, {}]", "y"));
    layers = ((const drawing *)tl_config_value(c))->layers.items;
    assert_true(layers[0].origin->x == 1 && layers[0].origin->y == 7);
    tl_config_free(&c);
    assert_true(drawn_at.y == 2);
}

/* --- adding and deleting ---------------------------------------------------------------------- */

static void test_add(void **state)
{
    (void)state;
    refuse("+count=1", TL_EEXISTS, "count: is set already; write count=... to change it");
    refuse("+maybe_count=1", TL_EEXISTS, "maybe_count: is set already");
    refuse("+origin.x=1", TL_EEXISTS, "origin.x: is set already");
    refuse("+counts=[1]", TL_EEXISTS, "counts: is set already");
    refuse("+counts[0]=1", TL_EEXISTS, "counts[0]: is set already");
    word("+maybe_flag=true");
    assert_true(now()->maybe_flag.set && now()->maybe_flag.value);
    word("+note=x");
    word("+target.x=3");
    assert_true(now()->target->x == 3);
    word("+rates=[1]");
    word("+optimizer.type=sgd");
    refuse("+optimizer.type=adam", TL_EEXISTS, "optimizer.type: is set already");
    refuse("+unheard_of=1", TL_ENOTFOUND, "unheard_of: unknown key");
    word("+extra.a.b=1");
    word("+extra.a.c=2");
    refuse("+extra.a.b=3", TL_EEXISTS, "extra.a.b: is set already");
    assert_string_equal(tl_value_get(tl_value_get(now()->extra, "a"), "c")->text, "2");
}

static void test_add_or_set(void **state)
{
    (void)state;
    word("++count=1");
    assert_int_equal(now()->count, 1);
    word("++maybe_flag=false");
    assert_true(now()->maybe_flag.set);
    word("++extra.a=1");
    word("++extra.a=2");
    word("++extra.b=3");
    assert_string_equal(tl_value_get(now()->extra, "a")->text, "2");
    refuse("++unheard_of=1", TL_ENOTFOUND, "unheard_of: unknown key");
}

static void test_free_form_keys(void **state)
{
    (void)state;
    word("extra={a: {b: 1}, l: [1, 2]}");
    word("extra.a.b=2");
    assert_string_equal(tl_value_get(tl_value_get(now()->extra, "a"), "b")->text, "2");
    refuse("extra.a.c=3", TL_ENOTFOUND,
           "extra.a.c: there is no such key; write +extra.a.c=... to add it");
    refuse("extra.l[0]=3", TL_EUNSUPPORTED, "items of a free-form list cannot be set one by one");
    word("extra=5");
    assert_int_equal(tl_value_scalar(now()->extra), TL_SCALAR_INT);
}

static void test_delete(void **state)
{
    (void)state;
    word("~maybe_count");
    assert_false(now()->maybe_count.set);
    word("~corner");
    assert_null(now()->corner);
    word("~counts");
    assert_int_equal(now()->counts.count, 0);
    word("note=x");
    word("~note");
    assert_null(now()->note);
    word("optimizer.type=sgd");
    word("~optimizer");
    assert_null(now()->optimizer.type);
    word("optimizer.type=sgd");
    word("~optimizer.type");
    assert_null(now()->optimizer.type);
    word("~model");
    assert_null(now()->model.value);
    word("extra={a: {b: 1, c: 2}, d: 3, l: [1]}");
    word("~extra.a.b");
    word("~extra.d");
    assert_null(tl_value_get(now()->extra, "d"));
    assert_null(tl_value_get(tl_value_get(now()->extra, "a"), "b"));
    assert_non_null(tl_value_get(tl_value_get(now()->extra, "a"), "c"));
    refuse("~extra.l[0]", TL_EUNSUPPORTED, "items of a list cannot be deleted");
    word("~extra");
    assert_null(now()->extra);
    refuse("~count", TL_EINVAL, "count: cannot be deleted, because it is not optional");
    refuse("~origin", TL_EINVAL, "origin: cannot be deleted");
    refuse("~origin.x", TL_EINVAL, "origin.x: cannot be deleted");
    refuse("~setting", TL_EINVAL, "setting: cannot be deleted");
    refuse("~extra.q", TL_ENOTFOUND, "extra.q: not there");
    refuse("~cuont", TL_ENOTFOUND, "cuont: unknown key, did you mean 'count'?");
    refuse("~corner.x", TL_ENOTFOUND, "corner: null");
    refuse("~note=1", TL_EINVAL, "a deletion has no value");
}

/* A value that was deleted came from the word. */
static void test_deleting_is_remembered(void **state)
{
    (void)state;
    assert_ok(tl_config_yaml(config,
                             "{maybe_count: 1, counts: [1], corner: {x: 1}, note: n, optimizer: "
                             "{type: sgd}, extra: {a: 1, b: 2}}",
                             "a.yaml"));
    word("~maybe_count");
    word("~counts");
    word("~corner");
    word("~note");
    word("~optimizer");
    word("~extra.a");
    assert_string_equal(tl_config_source(config, "maybe_count"), "command line");
    assert_string_equal(tl_config_source(config, "counts"), "command line");
    assert_string_equal(tl_config_source(config, "corner"), "command line");
    assert_string_equal(tl_config_source(config, "note"), "command line");
    assert_string_equal(tl_config_source(config, "optimizer.type"), "command line");
    assert_string_equal(tl_config_source(config, "extra"), "command line");
}

/* --- mistakes --------------------------------------------------------------------------------- */

static void test_mistakes(void **state)
{
    (void)state;
    refuse("", TL_EINVAL, "expected key=value");
    refuse("count", TL_EINVAL, "'count': expected key=value");
    refuse("=1", TL_EINVAL, "expected a name");
    refuse("+", TL_EINVAL, "expected key=value");
    refuse("~", TL_EINVAL, "expected a name");
    refuse("+++count=1", TL_EINVAL, "expected a name at '+count'");
    refuse("a..b=1", TL_EINVAL, "expected a name at '.b'");
    refuse(".count=1", TL_EINVAL, "expected a name");
    refuse("count.=1", TL_EINVAL, "expected a name");
    refuse("[0]=1", TL_EINVAL, "expected a name");
    refuse("count =1", TL_EINVAL, "expected '.' or '[' at ' '");
    refuse("counts[0=1", TL_EINVAL, "expected an index such as [0] at '[0'");
    refuse("counts[0]x=1", TL_EINVAL, "expected '.' or '['");
    refuse("count=x", TL_EINVAL,
           "command line: count: expected an integer, found the string \"x\"");
    refuse("cuont=1", TL_ENOTFOUND, "command line: cuont: unknown key, did you mean 'count'?");
    refuse("origin.lable=1", TL_ENOTFOUND, "origin.lable: unknown key, did you mean 'label'?");
    refuse("counts=[1", TL_EINVAL, "command line: counts: its value:2:1: not YAML");
    refuse("counts=[1,x]", TL_EINVAL, "command line: counts[1]: expected an integer");
    refuse("count=5 # five", TL_EINVAL, "expected an integer");
    refuse("count.x=5", TL_EINVAL, "count: expected an integer, found a map of 1");
    refuse("optimizer.type=adma", TL_ENOTFOUND,
           "optimizer.type: unknown type 'adma', did you mean 'adam'?");
    tl_str deep = TL_STR_INIT;
    for (int i = 0; i < 70; i++) tl_str_add(&deep, "a.");
    tl_str_add(&deep, "a=1");
    refuse(tl_str_text(&deep), TL_ELIMIT, "more than 64 levels");
    tl_str_deinit(&deep);
}

static void test_not_strict(void **state)
{
    (void)state;
    tl_config_set_strict(config, false);
    word("unheard_of=1");
    word("origin.lable=x");
    refuse("count=x", TL_EINVAL, "expected an integer"); // a wrong value is wrong nevertheless
    assert_string_equal(now()->origin.label, "origin");
}

/* Values as Hydra writes them. */
static void test_hydra_values(void **state)
{
    (void)state;
    word("origin={x:2,y:3.5}");
    assert_true(now()->origin.x == 2 && now()->origin.y == 3.5);
    word("origin={label:'a: b, c',x:4}");
    assert_string_equal(now()->origin.label, "a: b, c");
    word("name='it\\'s'");
    assert_string_equal(now()->name, "it's");
    word("name='it''s too'");
    assert_string_equal(now()->name, "it's too");
    word("name=\"a\\tb \\\"c\\\"\"");
    assert_string_equal(now()->name, "a\tb \"c\"");
    word("name='a\\\\'");
    assert_string_equal(now()->name, "a\\");
    word("name=  plain text  ");
    assert_string_equal(now()->name, "plain text");
    word("name='{a:1}'");
    assert_string_equal(now()->name, "{a:1}");
    refuse("name='open", TL_EINVAL, "name: the quote at ''open' is not closed");
    refuse("origin={x:", TL_EINVAL, "origin: its value:");
}

static void test_all_that_is_wrong_with_words(void **state)
{
    (void)state;
    static const tl_word words[] = {
        {"count=x", "--count"},
        {"flag=no", "command line"},
        {"nonsense", "command line"},
        {"cuont=1", "run.flags:3: --cuont"},
    };
    tl_error_clear();
    assert_int_equal(tl_config_words(config, words, TL_COUNT(words)), TL_EINVAL);
    assert_string_equal(tl_error_message(),
                        "--count: count: expected an integer, found the string \"x\"\n"
                        "command line: 'nonsense': expected key=value\n"
                        "run.flags:3: --cuont: cuont: unknown key, did you mean 'count'?");
}

/* An item that was set later is where the list came from, in part. */
static void test_items_are_sources(void **state)
{
    (void)state;
    assert_ok(tl_config_yaml(config, "counts: [1, 2]", "a.yaml"));
    assert_string_equal(tl_config_source(config, "counts"), "a.yaml:1:9");
    word("counts[1]=5");
    assert_string_equal(tl_config_source(config, "counts"), "command line");
    assert_string_equal(tl_config_source(config, "counts[0]"), "a.yaml:1:10");
    assert_ok(tl_config_yaml(config, "counts: [1, 2]", "b.yaml"));
    assert_string_equal(tl_config_source(config, "counts"), "b.yaml:1:9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set, begin, end),
        cmocka_unit_test_setup_teardown(test_set_creates_what_is_on_the_way, begin, end),
        cmocka_unit_test_setup_teardown(test_indexes, begin, end),
        cmocka_unit_test(test_tables_are_not_touched),
        cmocka_unit_test_setup_teardown(test_add, begin, end),
        cmocka_unit_test_setup_teardown(test_add_or_set, begin, end),
        cmocka_unit_test_setup_teardown(test_free_form_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_delete, begin, end),
        cmocka_unit_test_setup_teardown(test_deleting_is_remembered, begin, end),
        cmocka_unit_test_setup_teardown(test_hydra_values, begin, end),
        cmocka_unit_test_setup_teardown(test_all_that_is_wrong_with_words, begin, end),
        cmocka_unit_test_setup_teardown(test_items_are_sources, begin, end),
        cmocka_unit_test_setup_teardown(test_mistakes, begin, end),
        cmocka_unit_test_setup_teardown(test_not_strict, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
