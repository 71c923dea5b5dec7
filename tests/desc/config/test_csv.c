/* Override strings: Model Garden's CSV form, told apart from YAML text and file names. */
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "desc/arena.h"
#include "desc/sample.h"

static const tl_value *yaml(const char *text)
{
    const tl_value *v = NULL;
    assert_ok(tl_yaml_parse(&v, arena, text, strlen(text), "t"));
    return v;
}

/* The text is the CSV form of this map. */
static void reads_as(const char *csv, const char *expected)
{
    const tl_value *v = NULL;
    assert_ok(tl_csv_parse(&v, arena, csv, "--params_override"));
    if (tl_value_equal(v, yaml(expected))) return;
    tl_str text = TL_STR_INIT;
    assert_ok(tl_yaml_write_value(&text, v));
    fail_msg("%s\n    is\n%s\n    not %s", csv, tl_str_text(&text), expected);
}

static void refuse(const char *csv, tl_status code, const char *message)
{
    const tl_value *v = NULL;
    tl_error_clear();
    tl_status st = tl_csv_parse(&v, arena, csv, "--params_override");
    if (st != code || !strstr(tl_error_message(), message))
        fail_msg("%s\n    gave %s: %s\n    not %s: %s", csv, tl_status_name(st),
                 st == TL_OK ? "" : tl_error_message(), tl_status_name(code), message);
}

/* --- the form --------------------------------------------------------------------------------- */

/* The vectors of Model Garden's own tests, one by one. */
static void test_vectors(void **state)
{
    (void)state;
    reads_as("a=1,b=2,c=3", "{a: 1, b: 2, c: 3}");
    reads_as("a = 1, b = 2", "{a: 1, b: 2}");
    reads_as("a.aa.aaa.aaaaa.a=1,a.a=2", "{a: {aa: {aaa: {aaaaa: {a: 1}}}, a: 2}}");
    reads_as("a.b[2]=3,a.b[0]=1,a.b[1]=2", "{a: {b: [1, 2, 3]}}");
    refuse("a.b[2]=3,a.b[0]=1", TL_EINVAL, "'a.b[1]' is not given"); // missing index
    refuse("a=[[1,2],[3]]", TL_EINVAL, "a flat list");               // nested lists
    reads_as("b.b2=-1.e-3, d.d1.d2=+0.001, e=1e+3, a=-1.5E-3",
             "{b: {b2: -1.0e-3}, d: {d1: {d2: 1.0e-3}}, e: 1000.0, a: -1.5e-3}");
    reads_as("e=gs://test", "{e: 'gs://test'}");
    reads_as("d='hi, world'", "{d: 'hi, world'}"); // keeps the comma
}

static void test_values(void **state)
{
    (void)state;
    reads_as("", "{}");
    reads_as("   ", "{}");
    reads_as("a=1,", "{a: 1}");
    reads_as("a=1 , b=2 ", "{a: 1, b: 2}");
    reads_as("a=", "{a: null}");
    reads_as("a=,b=2", "{a: null, b: 2}");
    reads_as("a=null,b=~,c=None", "{a: ~, b: ~, c: ~}");
    reads_as("a=true,b=off", "{a: true, b: false}");
    reads_as("a=x y z", "{a: x y z}");
    reads_as("a=b=c", "{a: b=c}");
    reads_as("a=x:y", "{a: 'x:y'}");
    reads_as("a=/x/y*.tfrecord", "{a: '/x/y*.tfrecord'}");
    reads_as("a=b]", "{a: 'b]'}");
    reads_as("a={b: 1}", "{a: {b: 1}}"); // as YAML
    reads_as("a={b: [1, 2], c: '}, x'},d=2", "{a: {b: [1, 2], c: '}, x'}, d: 2}");
    reads_as("a=it's", "{a: \"it's\"}");
    reads_as("a=#x", "{a: '#x'}");
    reads_as("a_1.B2=x", "{a_1: {B2: x}}");
    reads_as("a.0=x,a._b=y", "{a: {'0': x, _b: y}}"); // keys of free-form maps
    reads_as("a='1',b=\"true\",c=''", "{a: '1', b: 'true', c: ''}");
    reads_as("a='x \"y\"',b=\"it's\"", "{a: 'x \"y\"', b: \"it's\"}");
    // What is in quotes is YAML's string: its escapes, its doubled quotes.
    reads_as("a='it''s',b=\"x\\ny\",c=\"q\\\"r\"", "{a: \"it's\", b: \"x\\ny\", c: 'q\"r'}");
    reads_as("a=0x10,b=1_000", "{a: 16, b: 1000}");
    // The last one wins, so that `$BASE,a=2` changes what the base gave.
    reads_as("a=1,a=2", "{a: 2}");
    reads_as("a.b=1,c=2,a.b=3", "{a: {b: 3}, c: 2}");
    reads_as("a[0]=1,a[0]=2", "{a: [2]}");
    reads_as("a=\xc3\xa9", "{a: \xc3\xa9}");
}

static void test_lists(void **state)
{
    (void)state;
    reads_as("a=[]", "{a: []}");
    reads_as("a=[ ]", "{a: []}");
    reads_as("a=[1]", "{a: [1]}");
    reads_as("a=[1,2,3],b=4", "{a: [1, 2, 3], b: 4}");
    reads_as("a=[ 1 , 2 ]", "{a: [1, 2]}");
    reads_as("a=[1,2,]", "{a: [1, 2]}");
    reads_as("a=['x, y',\"z]\",w]", "{a: ['x, y', 'z]', w]}");
    reads_as("a=[x y, true, null, 1e-3]", "{a: [x y, true, null, 1.0e-3]}");
    reads_as("a=[{x: 1, y: 2},3]", "{a: [{x: 1, y: 2}, 3]}");
    reads_as("a=[\"x\\\", y\", 'it''s']", "{a: ['x\", y', \"it's\"]}");
    reads_as("a={k: it's}", "{a: {k: \"it's\"}}");
    reads_as("a[0]=1", "{a: [1]}");
    reads_as("a[0]='x',a[1]=[1,2]", "{a: [x, [1, 2]]}");
    refuse("a=[1,2", TL_EINVAL, "--params_override: expected ',' or ']'");
    refuse("a=[1", TL_EINVAL, "--params_override: expected ',' or ']'");
    refuse("a=[", TL_EINVAL, "expected");
    refuse("a=[1]x", TL_EINVAL, "expected ',' between overrides at 'x'");
    refuse("a=x[0]", TL_EINVAL, "a flat list, or quotes");
    refuse("a=['x'y]", TL_EINVAL, "expected ',' or ']' at 'y]'");
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *csv;
        tl_status code;
        const char *message;
    } cases[] = {
        {"a", TL_EINVAL, "--params_override: expected '=' behind a name at ''"},
        {"a b=1", TL_EINVAL, "expected '=' behind a name at 'b=1'"},
        {"=1", TL_EINVAL, "expected a name at '=1'"},
        {"1a=1", TL_EINVAL, "expected a name at '1a=1'"},
        {"a.=1", TL_EINVAL, "expected a name at '=1'"},
        {".a=1", TL_EINVAL, "expected a name at '.a=1'"},
        {"a..b=1", TL_EINVAL, "expected a name at '.b=1'"},
        {"a-b=1", TL_EINVAL, "expected '=' behind a name at '-b=1'"},
        {",a=1", TL_EINVAL, "expected a name at ',a=1'"},
        {"a=1,,b=2", TL_EINVAL, "expected a name at ',b=2'"},
        {"a='x", TL_EINVAL, "expected a closing quote"},
        {"a='x'y", TL_EINVAL, "expected ',' between overrides at 'y'"},
        {"a={b: 1", TL_EINVAL, "expected a closing '}' at '{b: 1'"},
        {"a={b: }}", TL_EINVAL, "expected ',' between overrides at '}'"},
        {"a.c={b: [}", TL_EINVAL, "--params_override: a.c: its value:1:"},
        {"a[x]=1", TL_EINVAL, "expected an index such as [0] at 'x]=1'"},
        {"a[]=1", TL_EINVAL, "expected an index"},
        {"a[-1]=1", TL_EINVAL, "expected an index"},
        {"a[1=1", TL_EINVAL, "expected an index"},
        {"a[4096]=1", TL_EINVAL, "expected an index from [0] to [4095]"},
        {"a[99999999999999999999999]=1", TL_EINVAL, "expected an index from [0] to [4095]"},
        {"a[0][1]=1", TL_EINVAL, "expected '='"},
        {"a[0].b=1", TL_EINVAL, "expected '='"},
        {"a=1,a.b=2", TL_EINVAL, "'a' is given both as a whole and in parts"},
        {"a=[1],a[0]=2", TL_EINVAL, "'a' is given both as a whole and in parts"},
        {"a.b=1,a[0]=2", TL_EINVAL, "'a' is given both as a whole and in parts"},
        {"a: 1", TL_EINVAL, "expected '='"},
        {"{a: 1}", TL_EINVAL, "expected a name at '{a: 1}'"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++)
        refuse(cases[i].csv, cases[i].code, cases[i].message);
}

static void test_bombs(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < 10000; i++) tl_str_add(&text, "a.");
    tl_str_add(&text, "a=1");
    refuse(tl_str_text(&text), TL_EINVAL, "fewer levels of names");
    tl_str_cut(&text, 0);
    tl_str_add(&text, "a=[");
    for (int i = 0; i < 5000; i++) tl_str_add(&text, "1,");
    tl_str_add(&text, "]");
    refuse(tl_str_text(&text), TL_EINVAL, "a list of at most 4096");
    // Many short lists take no more memory than what is written.
    tl_str_cut(&text, 0);
    for (int i = 0; i < 20000; i++) tl_str_addf(&text, "a%d=[1],", i);
    const tl_value *v = NULL;
    size_t before = tl_arena_bytes(arena);
    assert_ok(tl_csv_parse(&v, arena, tl_str_text(&text), "t"));
    assert_int_equal(v->count, 20000);
    assert_true(tl_arena_bytes(arena) - before < 40 << 20);
    tl_str_deinit(&text);
}

/* --- which form it is ------------------------------------------------------------------------- */

static const sample * override(tl_config **c, const char *text)
{
    assert_ok(tl_config_new(c, NULL, &sample_desc));
    assert_ok(tl_config_override(*c, text, "--params_override"));
    return tl_config_value(*c);
}

static void test_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "count=5,origin.label='x, y'",
        "  count=5, origin.label = \"x, y\"\n",
        "{count: 5, origin: {label: 'x, y'}}",
        "{\"count\": 5, \"origin\": {\"label\": \"x, y\"}}",
        "count: 5\norigin:\n  label: x, y\n",
        "count: 5\norigin: {label: 'x, y'}",
        "{count: 5, origin: {label: \"x, y\"}, name: sample}",
    };
    for (int64_t i = 0; i < TL_COUNT(forms); i++) {
        tl_config *c;
        const sample *s = override(&c, forms[i]);
        assert_int_equal(s->count, 5);
        assert_string_equal(s->origin.label, "x, y");
        assert_true(s->origin.y == 1.5);
        tl_config_free(&c);
    }
}

/* As Python's json.dumps writes what lies beyond 16 bits. */
static void test_json_escapes(void **state)
{
    (void)state;
    tl_config *c;
    const sample *s = override(&c, "{\"name\": \"\\ud83d\\ude00 \\\\ud83d \\u00e9\"}");
    assert_string_equal(s->name, "\xf0\x9f\x98\x80 \\ud83d \xc3\xa9");
    tl_config_free(&c);
}

static void test_empty_changes_nothing(void **state)
{
    (void)state;
    static const char *const empty[] = {"", "   ", "\n", "{}"};
    for (int64_t i = 0; i < TL_COUNT(empty); i++) {
        tl_config *c;
        void *fresh;
        const sample *s = override(&c, empty[i]);
        assert_ok(tl_desc_new(&fresh, arena, &sample_desc));
        assert_true(tl_desc_equal(&sample_desc, s, fresh));
        tl_config_free(&c);
    }
}

static void test_file_names(void **state)
{
    (void)state;
    char folder[TEMPORARY_PATH], path[128];
    assert_non_null(mkdtemp(temporary(folder, "tilth_csv")));
    static const char *const names[] = {"over.yaml", "lr=0.1.yaml", "a b.yaml", "no_ending"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_ok(tl_file_write_atomic(path, "count: 5\n", 9));
        tl_config *c;
        assert_int_equal(override(&c, path)->count, 5);
        char place[160];
        snprintf(place, sizeof place, "%s:1:8", path);
        assert_string_equal(tl_config_source(c, "count"), place);
        tl_config_free(&c);
        assert_ok(tl_file_remove(path));
    }
    rmdir(folder);
}

static void refuse_override(const char *text, tl_status code, const char *message)
{
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &sample_desc));
    assert_fails(tl_config_override(c, text, "--params_override"), code, message);
    tl_config_free(&c);
}

/* Text that ends where more was to come, and nothing readable behind it. */
static void test_cut_text(void **state)
{
    (void)state;
    const char *whole = "layers[0].name='x, y',names=[\"a\",b],extra={a: [1]},counts[0]=1";
    for (size_t length = 0; length <= strlen(whole); length++) {
        char *text = tl_alloc(length + 1);
        assert_non_null(text);
        memcpy(text, whole, length);
        text[length] = '\0';
        tl_config *c;
        assert_ok(tl_config_new(&c, NULL, &sample_desc));
        tl_status st = tl_config_override(c, text, "t"); // must only not read beyond its end
        assert_int_not_equal(st, TL_EINTERNAL);
        tl_config_free(&c);
        tl_free(text);
    }
    refuse_override("1a[1,", TL_ENOTFOUND, "'1a[1,' is neither");
}

/* The message is about the form that was meant. */
static void test_messages(void **state)
{
    (void)state;
    refuse_override("nowhere.yaml", TL_ENOTFOUND, "--params_override: 'nowhere.yaml' is neither");
    refuse_override("count", TL_ENOTFOUND, "'count' is neither");
    refuse_override("[1, 2]", TL_ENOTFOUND, "'[1, 2]' is neither");
    refuse_override("count=5,rate", TL_EINVAL, "--params_override: expected '=' behind a name");
    // A quote that was lost does not make YAML of it.
    refuse_override("name='a: b", TL_EINVAL, "--params_override: expected a closing quote");
    refuse_override("{count: 5", TL_EINVAL, "--params_override:2:1: not YAML");
    refuse_override("count: 5\nrate: [", TL_EINVAL, "--params_override:3:1: not YAML");
    refuse_override("count=x", TL_EINVAL,
                    "--params_override: count: expected an integer, found the string \"x\"");
    refuse_override("cuont=5", TL_ENOTFOUND,
                    "--params_override: cuont: unknown key, did you mean 'count'?");
    refuse_override("{origin: {lable: x}}", TL_ENOTFOUND,
                    "--params_override:1:11: origin.lable: unknown key, did you mean 'label'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_vectors, begin, end),
        cmocka_unit_test_setup_teardown(test_values, begin, end),
        cmocka_unit_test_setup_teardown(test_lists, begin, end),
        cmocka_unit_test_setup_teardown(test_mistakes, begin, end),
        cmocka_unit_test_setup_teardown(test_bombs, begin, end),
        cmocka_unit_test_setup_teardown(test_forms, begin, end),
        cmocka_unit_test_setup_teardown(test_json_escapes, begin, end),
        cmocka_unit_test_setup_teardown(test_empty_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_file_names, begin, end),
        cmocka_unit_test_setup_teardown(test_cut_text, begin, end),
        cmocka_unit_test_setup_teardown(test_messages, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
