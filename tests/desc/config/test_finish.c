/* Finishing a configuration: checks over several fields, restrictions, features that are not there;
 * afterwards it is const. */
#include "desc/sample_config.h"

#include <tilth/base/log.h>

/* --- restrictions ----------------------------------------------------------------------------- */

/* Of the sample's defaults, with these changes. */
static tl_status restricted(const char *changes, const char *restriction)
{
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &sample_desc));
    assert_ok(tl_config_override(c, changes, "t"));
    assert_ok(tl_config_restrict(c, restriction));
    tl_error_clear();
    tl_status st = tl_config_finish(c);
    tl_config_free(&c);
    return st;
}

static void holds(const char *changes, const char *restriction)
{
    if (restricted(changes, restriction) != TL_OK) fail_msg("%s: %s", changes, tl_error_message());
}

static void fails(const char *changes, const char *restriction)
{
    tl_status st = restricted(changes, restriction);
    char expected[128];
    snprintf(expected, sizeof expected, "the restriction '%s' does not hold", restriction);
    if (st != TL_EINVAL || strcmp(tl_error_message(), expected) != 0)
        fail_msg("%s with %s: %s: %s", restriction, changes, tl_status_name(st),
                 tl_error_message());
}

static void test_operators(void **state)
{
    (void)state;
    static const struct {
        const char *operator;
        bool less, same, more;
    } rows[] = {
        {"==", false, true, false}, {"!=", true, false, true}, {"<=", true, true, false},
        {"<", true, false, false},  {">=", false, true, true}, {">", false, false, true},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        char spaced[32], tight[32], turned[32];
        snprintf(spaced, sizeof spaced, "count %s 42", rows[i].operator);
        snprintf(tight, sizeof tight, "count%s42.0", rows[i].operator);
        snprintf(turned, sizeof turned, "maybe_rate %s rate", rows[i].operator);
        (rows[i].less ? holds : fails)("count=41", spaced);
        (rows[i].same ? holds : fails)("count=42", spaced);
        (rows[i].more ? holds : fails)("count=43", spaced);
        (rows[i].less ? holds : fails)("count=41", tight);
        (rows[i].same ? holds : fails)("", tight);
        (rows[i].more ? holds : fails)("count=43", tight);
        (rows[i].less ? holds : fails)("maybe_rate=0.05", turned);
        (rows[i].same ? holds : fails)("maybe_rate=0.1", turned);
        (rows[i].more ? holds : fails)("maybe_rate=0.2", turned);
    }
}

static void test_operands(void **state)
{
    (void)state;
    holds("count=-5", "count == -5");
    holds("rate=1e-3", "rate == 1e-3");
    holds("rate=0.5", "rate<0.75");
    holds("", "-1 < count");
    holds("flag=true", "flag == 1");
    holds("flag=false", "flag != 1");
    holds("maybe_flag=false", "maybe_flag != None");
    fails("", "maybe_flag != None");
    holds("", "maybe_flag == None");
    holds("", "maybe_count != None");
    fails("", "note != None");
    holds("note=''", "note != None");
    fails("", "target != None");
    holds("target.x=1", "target != None");
    fails("corner=null", "corner != None");
    holds("", "corner != None");
    fails("model=null", "model != None");
    fails("", "optimizer.type != None");
    holds("optimizer.type=sgd", "optimizer.type != None");
    holds("optimizer.type=sgd", "optimizer.sgd.momentum < 1");
    holds("optimizer.type=adam", "optimizer.adam.center.y > 1.25");
    fails("", "extra != None");
    holds("extra.a=5", "extra.a == 5");
    holds("extra.a=yes", "extra.a == 1");
    holds("color=red", "color != None");
    fails("color=null", "color != None"); // that name is null
    fails("", "maybe_counts != None");
    holds("maybe_counts=[]", "maybe_counts != None");
    holds("", "counts != None");
    holds("", "counts[2] == 3");
    holds("name=x,note=x", "name == note");
    holds("name=x,note=y", "name != note");
    holds("name=5", "name != 5"); // a string is no number
    holds("", "origin.x < origin.y");
    holds("rate=.nan", "rate != rate");
}

static void test_restrictions_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tl_status code;
        const char *message;
    } cases[] = {
        {"count", TL_EINVAL, "restriction 'count': expected one of == != <= < >= >"},
        {"count = 5", TL_EINVAL, "expected one of == != <= < >= >"},
        {"", TL_EINVAL, "expected one of == != <= < >= >"},
        {"count == 1 == 2", TL_EINVAL, "expected two operands, as in 'a.b == 3'"},
        {"1 < count < 2", TL_EINVAL, "expected two operands"},
        {"== 5", TL_EINVAL, "expected two operands"},
        {"count <", TL_EINVAL, "expected two operands"},
        {"cuont == 5", TL_ENOTFOUND,
         "restriction 'cuont == 5': cuont: unknown key, did you mean 'count'?"},
        {"origin.z == 5", TL_ENOTFOUND, "origin.z: unknown key"},
        {"target.x == 5", TL_ENOTFOUND, "target: null, so it has no 'x'"},
        {"optimizer.sgd.momentum == 5", TL_ENOTFOUND, "optimizer: its type is null"},
        {"count == 5x", TL_EINVAL, "'5x' is not a number"},
        {"count.x == 5", TL_EINVAL, "count: a single value"},
        {"counts[3] == 5", TL_EINVAL, "index [3] is outside the list"},
        {"name < 5", TL_EINVAL, "only numbers can be compared with <"},
        {"note >= 5", TL_EINVAL, "only numbers can be compared with >="},
        {"name == 'x'", TL_EINVAL, "expected a name"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_status st = restricted("", cases[i].text);
        if (st != cases[i].code || !strstr(tl_error_message(), cases[i].message))
            fail_msg("'%s': %s: %s", cases[i].text, tl_status_name(st), tl_error_message());
    }
}

/* --- everything that finishing looks at ------------------------------------------------------- */

typedef struct window {
    int64_t low, high;
    double later;
    const char *unread;
} window;
typedef struct house {
    window front;
    tl_structs windows;
    tl_oneof optimizer;
    int64_t limit;
    tl_ints later_list;
} house;

static tl_status window_check(const void *value)
{
    const window *w = value;
    return w->low <= w->high ? TL_OK : TL_FAIL(TL_EINVAL, "low is above high");
}

static const tl_field window_fields[] = {
    TL_F(window, low, .help = "h"),
    TL_F(window, high, .i = 10, .help = "h"),
    TL_F(window, later, .d = 0.5, .flags = TL_FIELD_LATER, .help = "what it will do"),
    TL_F(window, unread, .s = "x", .flags = TL_FIELD_UNREAD, .help = "h"),
    TL_F_END,
};
static const char *const window_restrictions[] = {"low >= 0", NULL};
static const tl_desc window_desc = {
    .name = "window",
    .size = sizeof(window),
    .fields = window_fields,
    .check = window_check,
    .restrictions = window_restrictions,
};
static const tl_field house_fields[] = {
    TL_F_STRUCT(house, front, &window_desc, .help = "h"),
    TL_F(house, windows, .desc = &window_desc, .help = "h"),
    TL_F(house, optimizer, .branches = optimizer_branches, .help = "h"),
    TL_F(house, limit, .i = 5, .help = "h"),
    TL_F(house, later_list, .flags = TL_FIELD_LATER, .help = "a list to come"),
    TL_F_END,
};
static const char *const house_restrictions[] = {"front.high <= limit", "optimizer.type != None",
                                                 NULL};
static const tl_desc house_desc = {
    .name = "house",
    .size = sizeof(house),
    .fields = house_fields,
    .restrictions = house_restrictions,
};

static void test_finish_reports_all(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(tl_desc_verify(&house_desc));
    assert_ok(tl_config_new(&c, NULL, &house_desc));
    assert_ok(tl_config_yaml(
        c, "front: {low: 20}\nwindows:\n- {low: -1}\n- {later: 0.25}\nlater_list: [1]", "a.yaml"));
    assert_ok(tl_config_restrict(c, "limit > 100"));
    tl_error_clear();
    assert_int_equal(tl_config_finish(c), TL_EINVAL);
    assert_string_equal(
        tl_error_message(),
        "front: low is above high\n"
        "windows[0]: the restriction 'low >= 0' does not hold\n"
        "a.yaml:4:11: windows[1].later: not available yet; leave it at its default, 0.5 (what it "
        "will do)\n"
        "a.yaml:5:13: later_list: not available yet; leave it at its default, [] (a list to come)\n"
        "the restriction 'front.high <= limit' does not hold\n"
        "the restriction 'optimizer.type != None' does not hold\n"
        "the restriction 'limit > 100' does not hold");
    tl_config_free(&c);
}

static int warnings;

static void count_warning(const tl_log_record *record, void *payload)
{
    (void)payload;
    if (strstr(record->text, "unread")) warnings++;
}

static void test_unread_fields(void **state)
{
    (void)state;
    tl_log_sink sink = {TL_LEVEL_WARNING, count_warning, NULL, NULL};
    int64_t handle;
    assert_ok(tl_log_sink_add(&handle, &sink));
    static const struct {
        const char *changes, *source;
        int warnings;
    } cases[] = {{"limit=20", "t", 0},
                 {"limit=20,front.unread=x", "t", 0},
                 {"limit=20,front.unread=y", "t", 1},
                 {"limit=20,front.unread=y", "experiment 'e'", 0}};
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        tl_config *c;
        warnings = 0;
        assert_ok(tl_config_new(&c, NULL, &house_desc));
        assert_ok(tl_config_override(c, "optimizer.type=sgd", "t"));
        assert_ok(tl_config_override(c, cases[i].changes, cases[i].source));
        assert_ok(tl_config_finish(c));
        assert_int_equal(warnings, cases[i].warnings);
        tl_config_free(&c);
    }
    assert_true(tl_log_sink_remove(handle));
}

/* A field whose feature is not there may be written, as long as it says what is the case. */
static void test_later_fields_at_their_default(void **state)
{
    (void)state;
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &house_desc));
    assert_ok(tl_config_yaml(
        c, "{front: {later: 5e-1}, later_list: [], limit: 20, optimizer: {type: sgd}}", "t"));
    assert_ok(tl_config_finish(c));
    tl_config_free(&c);
}

/* --- const afterwards ------------------------------------------------------------------------- */

static void test_const_after_finishing(void **state)
{
    (void)state;
    const char *finished = "the configuration is finished";
    const tl_value *v;
    sample *s = tl_config_edit(config);
    assert_non_null(s);
    s->count = 99; // in C, until then
    assert_ok(tl_config_finish(config));
    assert_null(tl_config_edit(config));
    assert_int_equal(((const sample *)tl_config_value(config))->count, 99);
    assert_ok(tl_yaml_parse(&v, tl_config_arena(config), "count: 1", 8, "t"));
    assert_fails(tl_config_apply(config, v), TL_ESTATE, finished);
    assert_fails(tl_config_yaml(config, "count: 1", "t"), TL_ESTATE, finished);
    assert_fails(tl_config_read(config, "x.yaml"), TL_ESTATE, finished);
    assert_fails(tl_config_override(config, "count=1", "t"), TL_ESTATE, finished);
    assert_fails(tl_config_override(config, "", "t"), TL_ESTATE, finished);
    assert_fails(tl_config_word(config, "count=1", "t"), TL_ESTATE, finished);
    assert_fails(tl_config_word(config, "~note", "t"), TL_ESTATE, finished);
    assert_fails(tl_config_restrict(config, "count > 1"), TL_ESTATE, finished);
    assert_fails(tl_config_finish(config), TL_ESTATE, finished);
    assert_int_equal(((const sample *)tl_config_value(config))->count, 99);
    // It can still be written and asked.
    tl_str text = TL_STR_INIT;
    assert_ok(tl_config_write(&text, config, true));
    assert_string_equal(tl_config_source(config, "count"), "default");
    tl_str_deinit(&text);
}

static void test_failed_finish_leaves_it_open(void **state)
{
    (void)state;
    assert_ok(tl_config_restrict(config, "count > 100"));
    assert_fails(tl_config_finish(config), TL_EINVAL, "count > 100");
    assert_non_null(tl_config_edit(config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_restrictions_that_are_none),
        cmocka_unit_test(test_finish_reports_all),
        cmocka_unit_test(test_unread_fields),
        cmocka_unit_test(test_later_fields_at_their_default),
        cmocka_unit_test_setup_teardown(test_const_after_finishing, begin, end),
        cmocka_unit_test_setup_teardown(test_failed_finish_leaves_it_open, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
