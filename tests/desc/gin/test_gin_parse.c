/* gin's text: tokens, literals, statements, files. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/file.h>

#include "desc/gin_setup.h"

/* What `x = TEXT` is read as. */
static const tl_value *read_value(tl_gin *gin, const char *text)
{
    tl_str binding = TL_STR_INIT;
    tl_str_addf(&binding, "x = %s", text);
    assert_ok(tl_gin_parse(gin, tl_str_text(&binding), "t.gin"));
    tl_str_deinit(&binding);
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "x"));
    return v;
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text, *value;
    } rows[] = {
        {"0", "0"},           {"00", "0"},
        {"-0", "0"},          {"12", "12"},
        {"-12", "-12"},       {"- 12", "-12"},
        {"0x1F", "31"},       {"0X_ff", "255"},
        {"0o17", "15"},       {"0b1_01", "5"},
        {"1_000", "1000"},    {"0xffffffffffffffff", "18446744073709551615"},
        {"-0x10", "-16"},     {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"1.", "1.0"},        {".5", "0.5"},
        {"1e3", "1000.0"},    {"1E-7", "1e-07"},
        {"1_0.2_5", "10.25"}, {"-0.0", "-0.0"},
        {"1e999", ".inf"},    {"-1e999", "-.inf"},
        {"1e+16", "1e+16"},   {"0.1", "0.1"},
        {"True", "True"},     {"False", "False"},
        {"None", "None"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tl_value *v = read_value(gin_of(state), rows[i].text);
        assert_int_equal(v->kind, TL_VALUE_SCALAR);
        assert_false(v->quoted);
        assert_string_equal(v->text, rows[i].value);
    }
}

static void test_bad_numbers(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"x = 012", "t.gin:1:5: '012' is not a number: it starts with a 0"},
        {"x = 1__0", "'_' may stand between two digits only"},
        {"x = 1_", "'_' may stand between two digits only"},
        {"x = 1_e5", "'_' may stand between two digits only"},
        {"x = 1e_5", "'_' may stand between two digits only"},
        {"x = 0x", "a digit after its prefix is wrong or missing"},
        {"x = 0x0x1", "a digit after its prefix is wrong or missing"},
        {"x = 0b102", "a digit after its prefix is wrong or missing"},
        {"x = 0o8", "a digit after its prefix is wrong or missing"},
        {"x = 0x10000000000000000", "more than 64 bits"},
        {"x = 1e", "neither an integer nor a float"},
        {"x = 1.5.2", "neither an integer nor a float"},
        {"x = 1abc", "neither an integer nor a float"},
        {"x = 1j", "complex numbers"},
        {"x = --1", "t.gin:1:6: expected a number after '-', found '-'"},
        {"x = -True", "expected a number after '-', found 'True'"},
        {"x = +1", "t.gin:1:5: expected a value, found '+'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_syntax(gin_of(state), rows[i].text, rows[i].message);
    char digits[5000] = "x = ";
    memset(digits + 4, '7', 4400);
    assert_syntax(gin_of(state), digits, "more than 4300 digits");
}

static void test_strings(void **state)
{
    static const struct {
        const char *text, *value;
    } rows[] = {
        {"''", ""},
        {"\"it's\"", "it's"},
        {"'a' \"b\"  'c'", "abc"},
        {"('a'\n  'b')", "ab"},
        {"'''a\n'b''c'''", "a\n'b''c"},
        {"\"\"\"\"a\"\"\"", "\"a"},
        {"r'\\n\\''", "\\n\\'"},
        {"'\\n\\t\\\\\\'\\\"\\a\\b\\f\\v\\r'", "\n\t\\'\"\a\b\f\v\r"},
        {"'\\x41\\101\\7'", "AA\a"},
        {"'\\u00e9\\U0001F600'", "\xc3\xa9\xf0\x9f\x98\x80"},
        {"'\xc3\xa9'", "\xc3\xa9"},
        {"'\\q\\\xc3\xa9'", "\\q\\\xc3\xa9"},
        {"'a\\\nb'", "ab"},
        {"'''a\r\nb\\\r\nc'''", "a\nbc"},
        {"u'a'", "a"},
        {"R'a'", "a"},
        {"'#'  # comment", "#"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tl_value *v = read_value(gin_of(state), rows[i].text);
        assert_true(v->quoted);
        assert_string_equal(v->text, rows[i].value);
    }
}

static void test_bad_strings(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"x = 'a", "t.gin:1:5: the string that starts here is never closed"},
        {"x = 'a\nb'", "t.gin:1:5: the string that starts here is never closed"},
        {"x = '''a\nb''", "never closed"},
        {"x = 'a\\", "never closed"},
        {"x = b'a'", "bytes (b'...') cannot be bound"},
        {"x = Rb'a'", "bytes (b'...') cannot be bound"},
        {"x = f'a'", "f'...' strings cannot be bound"},
        {"x = '\\N{BULLET}'", "characters by name"},
        {"x = '\\x4'", "needs 2 hexadecimal digits"},
        {"x = '\\u12g4'", "needs 4 hexadecimal digits"},
        {"x = '\\U00110000'", "no character"},
        {"x = '\\ud800'", "no character"},
        {"x = '\\x00'", "NUL"},
        {"x = 'a\\0b'", "NUL"},
        {"x = '\xff'", "t.gin:1:6: byte 0xff is not UTF-8"},
        {"x = '\xc0\x80'", "not UTF-8"},
        {"x = '\\\x8e\x8e'", "t.gin:1:7: byte 0x8e is not UTF-8"},
        {"x = '\xed\xa0\x80'", "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_syntax(gin_of(state), rows[i].text, rows[i].message);
}

static void test_containers(void **state)
{
    tl_gin *gin = gin_of(state);
    const tl_value *v = read_value(gin, "[1, 'a', (), (2,), (3), [\n4, # four\n],]");
    assert_int_equal(v->kind, TL_VALUE_LIST);
    assert_false(v->tuple);
    assert_int_equal(v->count, 6);
    assert_true(v->items[2]->tuple);
    assert_int_equal(v->items[2]->count, 0);
    assert_true(v->items[3]->tuple);
    assert_int_equal(v->items[3]->count, 1);
    assert_int_equal(v->items[4]->kind, TL_VALUE_SCALAR);
    assert_string_equal(v->items[5]->items[0]->text, "4");
    assert_int_equal(v->items[5]->items[0]->place.line, 2);

    v = read_value(gin, "{'a': 1, 2: {}, None: [], 'a': 3, 1: 'one', True: 'yes', 1.0: 'float'}");
    assert_int_equal(v->kind, TL_VALUE_MAP);
    // As in Python: 1, True and 1.0 are one key, and the last value wins.
    assert_int_equal(v->count, 4);
    assert_string_equal(v->pairs[0].key, "a");
    assert_true(v->pairs[0].key_quoted);
    assert_string_equal(v->pairs[0].value->text, "3");
    assert_string_equal(v->pairs[3].key, "1");
    assert_string_equal(v->pairs[3].value->text, "float");

    v = read_value(gin, "[@Zero, @a/b.c/toys.Zero(), %a/y]\na/y = 1");
    assert_int_equal(v->items[0]->kind, TL_VALUE_REFERENCE);
    assert_string_equal(v->items[0]->text, "Zero");
    assert_false(v->items[0]->called);
    assert_string_equal(v->items[1]->text, "a/b.c/toys.Zero");
    assert_true(v->items[1]->called);
    assert_int_equal(v->items[2]->kind, TL_VALUE_MACRO);
    assert_string_equal(v->items[2]->text, "a/y");
}

static void test_bad_syntax(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"show.value", "t.gin:1:11: expected '=' or ':', found the end of the line"},
        {"show.value = ", "t.gin:1:14: expected a value, found the end of the line"},
        {"show.value = x",
         "t.gin:1:14: expected a value, found the name x; strings stand in quotes ('x')"},
        {"a.b = 1 2", "t.gin:1:9: expected the end of the line, found '2'"},
        {"a.b = [1 2]", "t.gin:1:10: expected ',' or ']', found '2'"},
        {"a.b = (1 2)", "expected ',' or ')', found '2'"},
        {"a.b = {1: 2 3}", "expected ',' or '}', found '3'"},
        {"a.b = {1}", "t.gin:1:9: expected ':' after the key of a dict, found '}'"},
        {"a.b = {[]: 1}", "t.gin:1:8: a key of a dict must be a string"},
        {"a.b = [,]", "expected a value, found ','"},
        {"a.b = [1,\n (2", "t.gin:2:2: the bracket that opens here is never closed"},
        {"a.b = 1]", "expected the end of the line, found ']'"},
        {"a .b = 1", "t.gin:1:3: there can be no blanks around the '.'"},
        {"a. b = 1", "there can be no blanks around the '.'"},
        {"a\\\n.b = 1", "there can be no blanks around the '.'"},
        {"a//b.c = 1", "expected a name after '.' or '/', found '/'"},
        {"a.b/c.d = 1", "t.gin:1:1: the scope 'a.b' has a dot in it"},
        {"/a.b = 1", "t.gin:1:1: expected a name, found '/'"},
        {"1 = 2", "expected a name, found '1'"},
        {"a.b = @", "expected a name, found the end of the line"},
        {"a.b = @c(1)",
         "t.gin:1:10: expected ')' (a reference takes no arguments; bind them instead)"},
        {"a.b = %5", "expected a name, found '5'"},
        {"a.b = 1 \\ \n", "t.gin:1:9: '\\' joins two lines"},
        {"a.b = 1 \\", "'\\' joins two lines"},
        {"a.b = \xc3\xa9", "t.gin:1:7: a character that is not ASCII"},
        {"a.b = \x01", "control character"},
        {"a:", "expected indented lines `param = value` after ':', found the end of the text"},
        {"a:\nb = 1", "t.gin:2:1: expected indented lines"},
        {"a: b = 1", "expected the end of the line after ':', found 'b'"},
        {"a:\n  b: 1", "t.gin:2:4: expected '=' after the name of a parameter, found ':'"},
        {"a:\n  b.c = 1", "expected '=' after the name of a parameter, found '.'"},
        {"a:\n  b = 1 2", "expected the end of the line, found '2'"},
        {"a:\n  b = 1\n    c = 2", "t.gin:3:5: expected a name, found a line that is indented"},
        {"a:\n    b = 1\n  c = 2", "t.gin:3:3: this line is indented less"},
        {"import", "expected a name, found the end of the line"},
        {"import a/b", "'a/b' is not a module"},
        {"import a b", "expected the end of the line, found 'b'"},
        {"from a b", "t.gin:1:8: expected 'import', found 'b'"},
        {"from a import", "expected a name"},
        {"import a as", "expected a name"},
        {"include 5", "expected the path of a file, in quotes, found '5'"},
        {"include 'a' in 5", "expected a name, found '5'"},
        {"include 'a' in b.c", "t.gin:1:16: 'b.c' is not a scope"},
        {"include 'a' 'b' c", "expected the end of the line, found 'c'"},
        {"x = 1; y = 2", "expected the end of the line, found ';'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_syntax(gin_of(state), rows[i].text, rows[i].message);
}

static void test_columns_count_characters(void **state)
{
    assert_syntax(gin_of(state), "x = ['\xc3\xa9\xf0\x9f\x98\x80' 5]",
                  "t.gin:1:11: expected ',' or ']'");
    assert_syntax(gin_of(state), "\n\tx = '\xc3\xa9'\r\n  y = $", "t.gin:3:");
}

static void test_blocks(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "\xef\xbb\xbf# a byte order mark and a comment\n"
               "    show.value = 1   # indentation means nothing here\n"
               "  # nor here\n"
               "    show.other = \\\n"
               "  2\r\n"
               "\n"
               "TalkingHeadsAttention: # blocks\n"
               "\n"
               "  # with comments\n"
               "\tnum_heads = 3\n"
               "\n"
               "\tdropout = (  # brackets\n"
               "0.5)\n"
               "a/b/Zero = 5\n"
               "a/b/GatedFeedforward:\n"
               "  dropout = 0.25"); // without a newline at the end
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "show.other"));
    assert_string_equal(v->text, "2");
    assert_int_equal(v->place.line, 5);
    assert_int_equal(v->place.column, 3);
    assert_ok(tl_gin_query(&v, gin, "TalkingHeadsAttention.dropout"));
    assert_string_equal(v->text, "0.5");
    assert_ok(tl_gin_query(&v, gin, "a/b/GatedFeedforward.dropout"));
    assert_ok(tl_gin_query(&v, gin, "%a/b/Zero"));
    assert_string_equal(v->text, "5");
}

static void test_depth(void **state)
{
    tl_gin *gin = gin_of(state);
    char text[300] = "show.value = ";
    size_t start = strlen(text);
    memset(text + start, '[', 64);
    memset(text + start + 64, ']', 64);
    assert_ok(tl_gin_parse(gin, text, "t.gin"));
    memset(text + start, '[', 65);
    memset(text + start + 65, ']', 65);
    assert_fails(tl_gin_parse(gin, text, "t.gin"), TL_ELIMIT,
                 "t.gin:1:78: brackets are nested more than 64 deep");
    tl_str blocks = TL_STR_INIT;
    for (int i = 0; i < 70; i++) {
        tl_str_pad(&blocks, ' ', i);
        tl_str_add(&blocks, "x = 1\n");
    }
    assert_fails(tl_gin_parse(gin, tl_str_text(&blocks), "t.gin"), TL_ELIMIT,
                 "levels of indentation");
    tl_str_deinit(&blocks);
}

/* --- files ------------------------------------------------------------------------------------ */

typedef struct folder {
    char path[64];
} folder;

static void folder_new(folder *f)
{
    strcpy(f->path, "gin_test_XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

static const char *put(const folder *f, tl_arena *arena, const char *name, const char *text)
{
    const char *path = tl_path_join(arena, f->path, name);
    assert_ok(tl_mkdirs(tl_path_dirname(arena, path)));
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
    return path;
}

static void folder_free(const folder *f)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", f->path);
    assert_int_equal(system(command), 0);
}

static void test_includes(void **state)
{
    fixture *x = *state;
    folder f;
    folder_new(&f);
    const char *main_file =
        put(&f, x->arena, "main.gin", "show.value = 1\ninclude 'first.gin'\nshow.other = 'main'\n");
    put(&f, x->arena, "sub/first.gin",
        "show.value = 2\nshow.other = 'first'\ninclude 'second.gin'\n");
    put(&f, x->arena, "second.gin", "EncoderScaffold.hidden = 3\n");
    assert_fails(
        tl_gin_parse_file(x->gin, main_file), TL_ENOTFOUND,
        "main.gin:2:1: there is no gin file 'first.gin' (looked in the working directory)");
    assert_ok(tl_gin_add_path(x->gin, f.path));
    assert_ok(tl_gin_add_path(x->gin, tl_path_join(x->arena, f.path, "sub")));
    assert_ok(tl_gin_parse_file(x->gin, "main.gin"));
    const tl_value *v;
    assert_ok(tl_gin_query(&v, x->gin, "show.value"));
    assert_string_equal(v->text, "2");
    assert_ok(tl_gin_query(&v, x->gin, "show.other"));
    assert_string_equal(v->text, "main");
    assert_ok(tl_gin_query(&v, x->gin, "EncoderScaffold.hidden"));
    put(&f, x->arena, "second.gin", "x = 1\nx = [\n");
    assert_fails(tl_gin_parse_file(x->gin, main_file), TL_EINVAL, "second.gin:2:5: the bracket");
    assert_non_null(strstr(tl_error_message(), "(included from"));
    assert_non_null(strstr(tl_error_message(), "first.gin:3:1)"));
    assert_non_null(strstr(tl_error_message(), "main.gin:2:1)"));
    assert_fails(tl_gin_parse_file(x->gin, f.path), TL_ENOTFOUND, "there is no gin file");
    assert_fails(tl_gin_parse_file(x->gin, "/nowhere/a.gin"), TL_ENOTFOUND, "'/nowhere/a.gin'");
    folder_free(&f);
}

static void test_cyclic_includes(void **state)
{
    fixture *x = *state;
    folder f;
    folder_new(&f);
    assert_ok(tl_gin_add_path(x->gin, f.path));
    const char *a = put(&f, x->arena, "a.gin", "include 'b.gin'\n");
    put(&f, x->arena, "b.gin", "\ninclude 'sub/../c.gin'\n");
    put(&f, x->arena, "c.gin", "include './b.gin'\n");
    put(&f, x->arena, "sub/d.gin", "");
    assert_fails(tl_gin_parse_file(x->gin, a), TL_EINVAL, "c.gin:1:1: the file includes itself: ");
    assert_null(strstr(tl_error_message(), "a.gin ->"));
    assert_non_null(strstr(tl_error_message(), "b.gin -> "));
    assert_non_null(strstr(tl_error_message(), "c.gin -> "));
    // A file may be included twice, as long as it does not include itself.
    put(&f, x->arena, "b.gin", "include 'd.gin'\ninclude 'd.gin'\n");
    put(&f, x->arena, "d.gin", "x = 1\n");
    assert_ok(tl_gin_parse_file(x->gin, a));
    folder_free(&f);
}

static void test_include_limits(void **state)
{
    fixture *x = *state;
    folder f;
    folder_new(&f);
    assert_ok(tl_gin_add_path(x->gin, f.path));
    for (int i = 0; i < 40; i++) {
        char name[16], text[64];
        snprintf(name, sizeof name, "%d.gin", i);
        snprintf(text, sizeof text, "include '%d.gin'\n", i + 1);
        put(&f, x->arena, name, i < 39 ? text : "");
    }
    assert_ok(tl_gin_parse_file(x->gin, "7.gin"));
    assert_fails(tl_gin_parse_file(x->gin, "6.gin"), TL_ELIMIT, "included more than 32 deep");
    // Two includes in each of many files would be billions.
    for (int i = 0; i < 20; i++) {
        char name[16], text[64];
        snprintf(name, sizeof name, "%d.gin", i);
        snprintf(text, sizeof text, "include '%d.gin'\ninclude '%d.gin'\n", i + 1, i + 1);
        put(&f, x->arena, name, i < 19 ? text : "");
    }
    assert_fails(tl_gin_parse_file(x->gin, "0.gin"), TL_ELIMIT, "more than 1024 gin files");

    size_t size = TL_GIN_MAX_BYTES + 1;
    char *large = test_malloc(size + 1);
    memset(large, '#', size);
    large[size] = '\0';
    assert_fails(tl_gin_parse(x->gin, large, "large"), TL_ELIMIT,
                 "large: gin text of 16777217 bytes");
    large[size - 1] = '\0';
    for (int i = 0; i < 3; i++) assert_ok(tl_gin_parse(x->gin, large, "large"));
    assert_fails(tl_gin_parse(x->gin, large, "large"), TL_ELIMIT,
                 "bytes of gin text have been read");
    test_free(large);
    folder_free(&f);
}

static void test_include_in_scope(void **state)
{
    fixture *x = *state;
    folder f;
    folder_new(&f);
    assert_ok(tl_gin_add_path(x->gin, f.path));
    put(&f, x->arena, "f.gin",
        "EncoderScaffold.hidden = %size\n"
        "EncoderScaffold.layers = %outside\n"
        "EncoderScaffold.hidden_cls = @b/TransformerScaffold\n"
        "b/TransformerScaffold.inner = %size\n"
        "TransformerScaffold:\n  inner = 1\n"
        "size = 5\n");
    parse(x->gin, "size = 3\noutside = 1\nEncoderScaffold.hidden = %size\n"
                  "include 'f.gin' in teacher/deep\n");
    assert_ok(tl_gin_finalize(x->gin));
    toy *plain = call_toy(x->gin, "EncoderScaffold");
    assert_int_equal(plain->number, 3);
    assert_int_equal(plain->count, 0);
    toy *scoped = call_toy(x->gin, "teacher/deep/EncoderScaffold");
    assert_int_equal(scoped->number, 5);
    assert_int_equal(scoped->count, 1);
    assert_int_equal(scoped->children[0]->number, 5);
    const char *text = operative(state);
    assert_contains(text, "teacher/deep/EncoderScaffold.hidden = %teacher/deep/size\n");
    assert_contains(
        text, "teacher/deep/EncoderScaffold.hidden_cls = @teacher/deep/b/TransformerScaffold");
    assert_contains(text, "teacher/deep/EncoderScaffold.layers = %outside\n");
    assert_contains(text, "\nteacher/deep/size = 5\n");
    // What is written has no includes and means the same.
    tl_gin *again;
    assert_ok(tl_gin_new(&again, x->registry));
    tl_gin_set_payload(again, x->arena);
    assert_ok(tl_gin_parse(again, text, "operative.gin"));
    assert_ok(tl_gin_finalize(again));
    void *object;
    assert_ok(tl_gin_call_name(&object, again, "EncoderScaffold"));
    assert_ok(tl_gin_call_name(&object, again, "teacher/deep/EncoderScaffold"));
    tl_str out = TL_STR_INIT;
    assert_ok(tl_gin_operative(&out, again));
    assert_string_equal(tl_str_text(&out), text);
    tl_str_deinit(&out);
    tl_gin_free(&again);
    folder_free(&f);
}

/* --- imports ---------------------------------------------------------------------------------- */

static void test_imports(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "import toys\nimport a.toys as t # one\nfrom my.project import toys\nfrom b import "
               "toys as u");
    assert_fails(tl_gin_parse(gin, "\nimport a.nothing", "t.gin"), TL_ENOTFOUND,
                 "t.gin:2:1: no module 'a.nothing' is registered; load it with "
                 "--plugin=libtilth-nothing.so");
    assert_fails(tl_gin_parse(gin, "from __gin__ import dynamic_registration", "t.gin"),
                 TL_EUNSUPPORTED, "t.gin:1:1: gin's 'dynamic_registration' is not available");
    folder f;
    folder_new(&f);
    assert_int_equal(setenv("TILTH_PLUGIN_PATH", "/nowhere", 1), 0);
    assert_ok(tl_gin_allow_plugins(gin, NULL));
    assert_fails(tl_gin_parse(gin, "import a.nothing", "t.gin"), TL_ENOTFOUND,
                 "no folder of the plug-in path '/nowhere' has libtilth-nothing.so");
    // What is found there is loaded, and this is no shared object.
    fixture *x = *state;
    put(&f, x->arena, "libtilth-nothing.so", "not a shared object");
    char path[128];
    snprintf(path, sizeof path, "/nowhere::%s", f.path);
    assert_ok(tl_gin_allow_plugins(gin, path));
    tl_status st = tl_gin_parse(gin, "import a.nothing", "t.gin");
    assert_int_not_equal(st, TL_OK);
    assert_contains(tl_error_message(), "t.gin:1:1: import of 'a.nothing': ");
    assert_contains(tl_error_message(), "libtilth-nothing.so");
    folder_free(&f);
    // Skipping skips unknown imports too.
    tl_gin_skip_unknown(gin, true);
    assert_ok(tl_gin_parse(gin, "import a.b.unknown", "t.gin"));
    assert_string_equal(config_str(state), "import a.toys as t\nfrom b import toys as u\n"
                                           "from my.project import toys\nimport toys as toys2\n");
}

static void test_params(void **state)
{
    tl_gin *gin = gin_of(state);
    assert_fails(tl_gin_parse_param(gin, "show.value 5"), TL_EINVAL,
                 "--gin_params 'show.value 5': expected '=' or ':', found '5'");
    assert_fails(tl_gin_parse_param(gin, "x = 1\ny"), TL_EINVAL, "--gin_params:2:2: expected");
    const char *files[] = {"nowhere.gin"};
    assert_fails(tl_gin_parse_files_and_params(gin, (tl_strings){files, 1}, (tl_strings){0}, true),
                 TL_ENOTFOUND, "there is no gin file 'nowhere.gin'");
    const char *params[] = {"EncoderScaffold.hidden = 1", "EncoderScaffold.hidden = 2",
                            "Nope.x = 1"};
    assert_ok(tl_gin_parse_files_and_params(gin, (tl_strings){0}, (tl_strings){params, 2}, false));
    assert_false(tl_gin_locked(gin));
    assert_fails(tl_gin_parse_files_and_params(gin, (tl_strings){0}, (tl_strings){params, 3}, true),
                 TL_ENOTFOUND,
                 "--gin_params 'Nope.x = 1': Nope.x: there is no configurable 'Nope'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_numbers),
        CASE(test_bad_numbers),
        CASE(test_strings),
        CASE(test_bad_strings),
        CASE(test_containers),
        CASE(test_bad_syntax),
        CASE(test_columns_count_characters),
        CASE(test_blocks),
        CASE(test_depth),
        CASE(test_includes),
        CASE(test_cyclic_includes),
        CASE(test_include_limits),
        CASE(test_include_in_scope),
        CASE(test_imports),
        CASE(test_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
