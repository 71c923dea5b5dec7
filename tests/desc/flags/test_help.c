/* Texts for people: wrapping, columns, fields of every type, parts, kinds. */
#include <fcntl.h>
#include <unistd.h>

#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/desc/help.h>

static tl_str text;

static int end(void **state)
{
    (void)state;
    tl_str_deinit(&text);
    return 0;
}

static void is(const char *expected)
{
    assert_ok(tl_str_status(&text));
    assert_string_equal(tl_str_text(&text), expected);
    tl_str_cut(&text, 0);
}

/* --- layout ----------------------------------------------------------------------------------- */

static void test_wrap(void **state)
{
    (void)state;
    tl_help_wrap(&text, "one two three four", 0, 9);
    is("one two\nthree\nfour\n");
    tl_help_wrap(&text, "one two three four", 2, 9);
    is("one two\n  three\n  four\n");
    tl_str_add(&text, "12345 "); // what stands on the line already counts
    tl_help_wrap(&text, "one two", 6, 12);
    is("12345 one\n      two\n");
    tl_help_wrap(&text, "extraordinarily long", 0, 5); // a word is never cut
    is("extraordinarily\nlong\n");
    tl_help_wrap(&text, "a\n\n  kept   as it is here\nb", 0, 8);
    is("a\n\n  kept   as it is here\nb\n");
    tl_help_wrap(&text, "", 4, 20);
    is("\n");
    tl_help_wrap(&text, "a  b   c", 0, 20);
    is("a b c\n");
    tl_help_wrap(&text, "\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc", 0, 7); // by letters
    is("\xc3\xa4\xc3\xb6\xc3\xbc \xc3\xa4\xc3\xb6\xc3\xbc\n");
}

static void test_row(void **state)
{
    (void)state;
    tl_help_row(&text, 2, "ab", 8, "one two three", 16);
    is("  ab    one two\n        three\n");
    tl_help_row(&text, 2, "abcde", 8, "one", 16); // two blanks at least lie between
    is("  abcde\n        one\n");
    tl_help_row(&text, 2, "abcd", 8, "one", 16);
    is("  abcd  one\n");
    tl_help_row(&text, 2, "abcd", 8, "", 16);
    is("  abcd\n");
}

static void test_width(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_WRONLY);
    assert_int_equal(tl_help_width(fd), 100);
    close(fd);
    assert_int_equal(tl_help_width(-1), 100);
}

static void test_range(void **state)
{
    (void)state;
    tl_help_range(&text, &(tl_field){.type = TL_TYPE_INT, TL_RANGE(1, 1e6)});
    is("from 1 to 1000000");
    tl_help_range(&text, &(tl_field){.type = TL_TYPE_DOUBLE, TL_RANGE(0, 0.5)});
    is("from 0 to 0.5");
    tl_help_range(&text, &(tl_field){.type = TL_TYPE_DOUBLE, TL_AT_LEAST(1e-5)});
    is("at least 1e-05");
    tl_help_range(&text, &(tl_field){.type = TL_TYPE_INT, TL_RANGE(-HUGE_VAL, 3)});
    is("at most 3");
    tl_help_range(&text, &(tl_field){.type = TL_TYPE_INT});
    is("");
}

/* --- fields ----------------------------------------------------------------------------------- */

typedef struct sgd {
    double momentum;
} sgd;
static const tl_field sgd_fields[] = {
    TL_F(sgd, momentum, .d = 0.9, TL_RANGE(0, 1), .help = "share that is kept"),
    TL_F_END,
};
static const tl_desc sgd_desc = {
    .name = "sgd",
    .help = "descent",
    .size = sizeof(sgd),
    .fields = sgd_fields,
};
typedef struct adam {
    double beta;
} adam;
static const tl_field adam_fields[] = {TL_F(adam, beta, .d = 0.99, .help = "decay"), TL_F_END};
static const tl_desc adam_desc = {
    .name = "adam",
    .help = "adaptive",
    .size = sizeof(adam),
    .fields = adam_fields,
};

static const tl_branch branches[] = {{"sgd", &sgd_desc}, {"none", NULL}, {NULL, NULL}};
static const tl_kind optimizer_kind = {
    .name = "optimizer",
    .plural = "optimizers",
    .help = "update rules",
    .class_size = sizeof(tl_class),
};
static const char *const color_names[] = {"red", "green", NULL};

typedef struct config {
    int64_t steps;
    tl_strings files;
    const char *note;
    unsigned color;
    sgd inner, *maybe;
    tl_object model;
    tl_oneof closed, open;
    bool later;
} config;
static const tl_field config_fields[] = {
    TL_F(config, steps, .i = 5, TL_AT_LEAST(0), .help = "how many"),
    TL_F(config, files, .help = "inputs"),
    TL_F(config, note, .flags = TL_FIELD_NULLABLE, .help = "free text"),
    TL_F(config, color, .names = color_names, .help = "of the bar"),
    TL_F_STRUCT(config, inner, &sgd_desc, .help = "a part"),
    TL_F_OPTIONAL(config, maybe, &sgd_desc, .help = "a part or nothing"),
    TL_F(config, model, .desc = &adam_desc, .flags = TL_FIELD_NULLABLE, .help = "depends"),
    TL_F(config, closed, .branches = branches, .help = "one of two"),
    TL_F(config, open, .kind = &optimizer_kind, .help = "one of many"),
    TL_F(config, later, .flags = TL_FIELD_LATER, .help = "some day"),
    TL_F_END,
};
static const tl_desc config_desc = {
    .name = "config",
    .help = "all of it",
    .size = sizeof(config),
    .fields = config_fields,
};

static const tl_class adam_class = {
    .class_size = sizeof(tl_class),
    .name = "adam",
    .help = "adaptive moments",
    .config = &adam_desc,
};
static const tl_class lamb_class = {.class_size = sizeof(tl_class), .name = "lamb"};
static const tl_entry entries[] = {{&optimizer_kind, &lamb_class}, {&optimizer_kind, &adam_class}};
static const tl_module module = {TL_MODULE_HEAD("test"), entries, TL_COUNT(entries)};

static tl_registry *registry;
static tl_help_options options;

static int begin_registry(void **state)
{
    (void)state;
    if (tl_registry_new(&registry) != TL_OK) return -1;
    if (tl_registry_add(registry, &module) != TL_OK) return -1;
    options = (tl_help_options){.registry = registry, .width = 60};
    return 0;
}

static int end_registry(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    return 0;
}

static void test_fields(void **state)
{
    (void)state;
    assert_ok(tl_help_config(&text, &config_desc, NULL, "", &options));
    is("closed.type: one of sgd, none, default null\n"
       "    one of two\n"
       "color: red | green, default red\n"
       "    of the bar\n"
       "files: list of string, default []\n"
       "    inputs\n"
       "inner: section\n"
       "    a part\n"
       "inner.momentum: float, default 0.9\n"
       "    share that is kept (from 0 to 1)\n"
       "later: bool, default false\n"
       "    some day [not available yet: only the default is\n"
       "    accepted]\n"
       "maybe: section or null, default null\n"
       "    a part or nothing\n"
       "model: section or null, default null\n"
       "    depends\n"
       "note: string or null, default null\n"
       "    free text\n"
       "open.type: one of adam, lamb, default null\n"
       "    one of many\n"
       "steps: int, default 5\n"
       "    how many (at least 0)\n");
}

static void test_values_are_the_defaults_told(void **state)
{
    (void)state;
    sgd part = {.momentum = 0.25};
    const char *files[] = {"a", "b: c",
                           "many, many words that would not fit into one line of YAML"};
    config c = {.steps = 7,
                .files = {files, 3},
                .note = "two\nlines  and blanks",
                .maybe = &part,
                .closed = {.type = "sgd", .value = &part, .desc = &sgd_desc}};
    assert_ok(tl_help_config(&text, &config_desc, &c, NULL, &options));
    const char *t = tl_str_text(&text);
    assert_non_null(strstr(t, "steps: int, default 7\n"));
    assert_non_null(strstr(t, "maybe.momentum: float, default 0.25\n"));
    assert_non_null(strstr(t, "closed.type: one of sgd, none, default sgd\n"));
    assert_non_null(strstr(t, "closed.sgd.momentum: float, default 0.25\n"));
    // A value stays on its entry, however the YAML writer would break it.
    options.width = 1000;
    tl_str_cut(&text, 0);
    assert_ok(tl_help_config(&text, &config_desc, &c, "files", &options));
    assert_non_null(strstr(tl_str_text(&text), "default [a, 'b: c', "));
    options.width = 60;
}

/* What must be given has no default, until somebody gives it. */
static void test_required(void **state)
{
    (void)state;
    typedef struct demand {
        int64_t size, count;
        double rate;
        const char *name;
    } demand;
    static const tl_field fields[] = {
        TL_F(demand, size, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED, .help = "of it"),
        TL_F(demand, count, TL_AT_LEAST(0), .help = "of them"),
        TL_F(demand, rate, TL_RANGE(1, 2), .flags = TL_FIELD_REQUIRED, .help = "of change"),
        TL_F(demand, name, .flags = TL_FIELD_REQUIRED, .help = "of it"),
        TL_F_END,
    };
    static const tl_desc desc = {
        .name = "demand",
        .help = "demanding",
        .size = sizeof(demand),
        .fields = fields,
    };
    assert_ok(tl_desc_verify(&desc));
    assert_ok(tl_help_config(&text, &desc, NULL, "", &options));
    is("count: int, default 0\n    of them (at least 0)\n"
       "name: string, required\n    of it\n"
       "rate: float, required\n    of change (from 1 to 2)\n"
       "size: int, required\n    of it (at least 1)\n");
    demand d = {.size = 3, .rate = 1.5, .name = "x"};
    assert_ok(tl_help_config(&text, &desc, &d, "", &options));
    is("count: int, default 0\n    of them (at least 0)\n"
       "name: string, default x\n    of it\n"
       "rate: float, default 1.5\n    of change (from 1 to 2)\n"
       "size: int, default 3\n    of it (at least 1)\n");
    assert_ok(tl_desc_check(&desc, &d));
    d.size = 0, d.rate = 0;
    assert_fails(tl_desc_check(&desc, &d), TL_EINVAL, "size: it has no default and must be given");
    assert_non_null(strstr(tl_error_message(), "rate: it has no default and must be given"));
}

static void test_names_only(void **state)
{
    (void)state;
    options.names_only = true;
    assert_ok(tl_help_config(&text, &config_desc, NULL, "", &options));
    is("closed.type\ncolor\nfiles\ninner.momentum\nlater\nmaybe\nmodel\nnote\nopen.type\nsteps\n");
    options.names_only = false;
}

static void test_parts(void **state)
{
    (void)state;
    assert_ok(tl_help_config(&text, &config_desc, NULL, "steps", &options));
    is("steps: int, default 5\n    how many (at least 0)\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "inner.momentum", &options));
    is("inner.momentum: float, default 0.9\n    share that is kept (from 0 to 1)\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "maybe", &options));
    is("maybe: section or null, default null\n    a part or nothing\n"
       "maybe.momentum: float, default 0.9\n    share that is kept (from 0 to 1)\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "model.beta", &options));
    is("model.beta: float, default 0.99\n    decay\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "open.adam", &options));
    is("open.adam.beta: float, default 0.99\n    decay\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "closed.sgd.momentum", &options));
    is("closed.sgd.momentum: float, default 0.9\n    share that is kept (from 0 to 1)\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "open.type", &options));
    is("open.type: one of adam, lamb, default null\n    one of many\n");
    assert_ok(tl_help_config(&text, &config_desc, NULL, "open", &options));
    is("open.type: one of adam, lamb, default null\n    one of many\n");
}

static void test_parts_that_are_not_there(void **state)
{
    (void)state;
    static const struct {
        const char *path, *message;
    } cases[] = {
        {"stpes", "there is no key 'stpes', did you mean 'steps'?"},
        {"inner.momentun", "there is no key 'momentun' in 'inner', did you mean 'momentum'?"},
        {"steps.x", "'steps' has no keys, so 'x' is not in it"},
        {"files.x.y", "'files' has no keys, so 'x.y' is not in it"},
        {"open.adma", "there is no key 'adma' in 'open', did you mean 'adam'?"},
        {"open.lamb", "'open.lamb' has no fields"},
        {"closed.none", "'closed.none' has no fields"},
        {"closed.type.x", "there is no key 'type' in 'closed'"},
        {".", "there is no key ''"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++)
        assert_fails(tl_help_config(&text, &config_desc, NULL, cases[i].path, &options),
                     TL_ENOTFOUND, cases[i].message);
}

static void test_kinds(void **state)
{
    (void)state;
    assert_ok(tl_help_kind(&text, registry, &optimizer_kind, &options));
    is("  adam  adaptive moments\n  lamb\n");
    options.names_only = true;
    assert_ok(tl_help_kind(&text, registry, &optimizer_kind, &options));
    is("adam\nlamb\n");
    options.names_only = false;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    tl_str whole = TL_STR_INIT;
    int64_t before = tl_alloc_calls();
    assert_ok(tl_help_config(&whole, &config_desc, NULL, "", &options));
    int64_t calls = tl_alloc_calls() - before, failed = 0;
    for (int64_t i = 1; i <= calls; i++) {
        tl_alloc_fail_at(i, 1);
        tl_status st = tl_help_config(&text, &config_desc, NULL, "", &options);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) assert_string_equal(tl_str_text(&text), tl_str_text(&whole));
        else assert_int_equal(st, TL_ENOMEM);
        failed += st == TL_ENOMEM;
        tl_str_deinit(&text);
    }
    assert_true(failed > calls / 2);
    tl_str_deinit(&whole);
}

#define t(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(test_wrap),     t(test_row),
        t(test_width),    t(test_range),
        t(test_fields),   t(test_values_are_the_defaults_told),
        t(test_required), t(test_names_only),
        t(test_parts),    t(test_parts_that_are_not_there),
        t(test_kinds),    t(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, begin_registry, end_registry);
}
