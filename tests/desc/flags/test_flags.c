/* Flags by absl's rules: every form of writing, files, mistakes, help. */
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/desc/flags.h>
#include <tilth/desc/help.h>

enum color { RED, GREEN, BLUE };
static const char *const color_names[] = {"red", "green", "blue", NULL};

typedef struct sample {
    int64_t steps;
    double rate;
    const char *name, *note;
    bool fast, safe;
    unsigned color;
    tl_strings file;
    tl_ints size;
    tl_opt_int seed;
    tl_opt_bool eager;
    const tl_value *shape;
} sample;
static const tl_field sample_fields[] = {
    TL_F(sample, steps, .i = 10, TL_RANGE(0, 1000), .help = "how many steps"),
    TL_F(sample, rate, .d = 0.5, TL_AT_LEAST(0), .help = "learning rate"),
    TL_F(sample, name, .s = "x", .pattern = "^[a-z ,=.-]*$", .help = "what it is called"),
    TL_F(sample, note, .flags = TL_FIELD_NULLABLE, .help = "free text"),
    TL_F(sample, fast, .help = "hurry"),
    TL_F(sample, safe, .b = true, .help = "be careful"),
    TL_F(sample, color, .i = GREEN, .names = color_names, .help = "colour of the bar"),
    TL_F(sample, file, .help = "files to read"),
    TL_F(sample, size, TL_DEFAULT_LIST(int64_t, 28, 28), .help = "height and width"),
    TL_F(sample, seed, .help = "null draws one"),
    TL_F(sample, eager, .help = "null decides by itself"),
    TL_F(sample, shape, .accept = TL_ACCEPT_LIST | TL_ACCEPT_NUMBER, .flags = TL_FIELD_NULLABLE,
         .help = "a number or a list"),
    TL_F_END,
};
static const tl_desc sample_desc = {
    .name = "sample",
    .help = "a sample",
    .size = sizeof(sample),
    .fields = sample_fields,
};

typedef struct needed {
    const char *experiment, *model_dir;
} needed;
static const tl_field needed_fields[] = {
    TL_F(needed, experiment, .flags = TL_FIELD_REQUIRED | TL_FIELD_NULLABLE, .help = "which one"),
    TL_F(needed, model_dir, .flags = TL_FIELD_REQUIRED | TL_FIELD_NULLABLE, .help = "where to"),
    TL_F_END,
};
static const tl_desc needed_desc = {
    .name = "needed",
    .help = "n",
    .size = sizeof(needed),
    .fields = needed_fields,
};

/* The flags of a test, and what came out. */
static tl_flags *flags;
static sample given;
static tl_strings rest;

static int begin(void **state)
{
    (void)state;
    if (tl_flags_new(&flags, "program", "[flags] FILE...") != TL_OK) return -1;
    return tl_flags_define(flags, "Sample", &sample_desc, &given) == TL_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    tl_flags_free(&flags);
    return 0;
}

static tl_status parse_list(const char *const *words)
{
    char *argv[64] = {"program"};
    int argc = 1;
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    return tl_flags_parse(&rest, flags, argc, argv);
}
#define parse(...) parse_list((const char *const[]){__VA_ARGS__, NULL})

static const char *write_file(const char *name, const char *text)
{
    assert_ok(tl_file_write_atomic(name, text, strlen(text)));
    return name;
}

/* --- forms ------------------------------------------------------------------------------------ */

static void test_defaults(void **state)
{
    (void)state;
    assert_ok(tl_flags_parse(&rest, flags, 1, (char *[]){"program"}));
    assert_int_equal(given.steps, 10);
    assert_string_equal(given.name, "x");
    assert_null(given.note);
    assert_true(given.safe);
    assert_int_equal(given.color, GREEN);
    assert_int_equal(given.size.count, 2);
    assert_false(given.seed.set);
    assert_false(tl_flags_given(flags, "steps"));
    assert_int_equal(rest.count, 0);
}

static void test_equals_blank_and_dashes(void **state)
{
    (void)state;
    assert_ok(parse("--steps=7", "--rate", "1e-3", "-name=a b", "-note", "--fast"));
    assert_int_equal(given.steps, 7);
    assert_true(given.rate == 1e-3);
    assert_string_equal(given.name, "a b");
    assert_string_equal(given.note, "--fast"); // the next word is the value, whatever it looks like
    assert_false(given.fast);
    assert_true(tl_flags_given(flags, "steps"));
    assert_false(tl_flags_given(flags, "fast"));
    assert_false(tl_flags_given(flags, "nonsense"));
}

static void test_value_may_hold_equals_and_be_empty(void **state)
{
    (void)state;
    assert_ok(parse("--name=a=b,c=d", "--note="));
    assert_string_equal(given.name, "a=b,c=d");
    assert_string_equal(given.note, "");
}

static void test_strings_stay_text(void **state)
{
    (void)state;
    assert_ok(parse("--note=null"));
    assert_string_equal(given.note, "null");
}

static void test_bools(void **state)
{
    (void)state;
    assert_ok(parse("--fast", "--nosafe", "false"));
    assert_true(given.fast);
    assert_false(given.safe);
    assert_int_equal(rest.count, 1); // a bool takes no value behind a blank
    assert_string_equal(rest.items[0], "false");
    assert_true(tl_flags_given(flags, "safe"));
}

static void test_bool_words(void **state)
{
    static const struct {
        const char *word;
        bool value;
    } cases[] = {{"--fast=true", true},   {"--fast=T", true},  {"--fast=YES", true},
                 {"--fast=1", true},      {"--fast=y", true},  {"--fast=on", true},
                 {"--safe=false", false}, {"--safe=F", false}, {"--safe=No", false},
                 {"--safe=0", false},     {"--safe=n", false}};
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        assert_ok(parse(cases[i].word));
        assert_int_equal(cases[i].word[2] == 'f' ? given.fast : given.safe, cases[i].value);
        end(state);
        assert_int_equal(begin(state), 0);
    }
}

static void test_optionals(void **state)
{
    (void)state;
    assert_ok(parse("--seed=5", "--noeager"));
    assert_true(given.seed.set && given.seed.value == 5);
    assert_true(given.eager.set && !given.eager.value);
}

static void test_optionals_can_be_null_again(void **state)
{
    (void)state;
    assert_ok(parse("--seed=5", "--seed=null", "--eager", "--eager=null"));
    assert_false(given.seed.set);
    assert_false(given.eager.set);
}

static void test_integers(void **state)
{
    (void)state;
    assert_ok(parse("--steps=0x1F", "--seed=-12"));
    assert_int_equal(given.steps, 31);
    assert_int_equal(given.seed.value, -12);
}

static void test_leading_zeros_are_not_octal(void **state)
{
    (void)state;
    assert_ok(parse("--steps=010", "--seed=-0019", "--rate=012"));
    assert_int_equal(given.steps, 10);
    assert_true(given.rate == 12);
    assert_int_equal(given.seed.value, -19);
}

static void test_lists_append_and_replace_the_default(void **state)
{
    (void)state;
    assert_ok(parse("--size=1", "--file=a,b", "--size", "2", "--file=", "--size=3"));
    assert_int_equal(given.size.count, 3);
    assert_int_equal(given.size.items[2], 3);
    assert_int_equal(given.file.count, 2);
    assert_string_equal(given.file.items[0], "a,b"); // each time one item, commas and all
    assert_string_equal(given.file.items[1], "");
}

static void test_enums_and_values(void **state)
{
    (void)state;
    assert_ok(parse("--color=blue", "--shape=[1, 2]"));
    assert_int_equal(given.color, BLUE);
    assert_int_equal(given.shape->kind, TL_VALUE_LIST);
    assert_int_equal(given.shape->count, 2);
}

static void test_last_one_wins(void **state)
{
    (void)state;
    assert_ok(parse("--steps=1", "--fast", "--steps=2", "--nofast"));
    assert_int_equal(given.steps, 2);
    assert_false(given.fast);
}

static void test_positional_between_flags(void **state)
{
    (void)state;
    assert_ok(parse("a", "--fast", "b", "-", "--", "--steps=3", "--"));
    assert_int_equal(rest.count, 5);
    assert_string_equal(rest.items[1], "b");
    assert_string_equal(rest.items[2], "-");
    assert_string_equal(rest.items[3], "--steps=3");
    assert_string_equal(rest.items[4], "--");
    assert_int_equal(given.steps, 10);
}

static void test_alias(void **state)
{
    (void)state;
    assert_ok(tl_flags_alias(flags, "s", "steps"));
    assert_fails(tl_flags_alias(flags, "s", "rate"), TL_EEXISTS, "-s");
    assert_fails(tl_flags_alias(flags, "h", "rate"), TL_EEXISTS, "built in");
    assert_fails(tl_flags_alias(flags, "q", "quick"), TL_ENOTFOUND, "--quick");
    assert_ok(parse("-s", "4"));
    assert_int_equal(given.steps, 4);
    assert_true(tl_flags_given(flags, "s"));
}

static void test_dotted_flags(void **state)
{
    (void)state;
    assert_ok(parse("--trainer.train_steps=5", "x=1", "--task.name", "a b", "-runtime.x=[1, 2]",
                    "--a.b=", "--c.d", "-5"));
    int64_t count;
    const tl_flag_word *words = tl_flags_words(flags, &count);
    assert_int_equal(count, 6);
    assert_string_equal(words[0].text, "trainer.train_steps=5");
    assert_string_equal(words[0].flag, "--trainer.train_steps");
    assert_string_equal(words[1].text, "x=1");
    assert_null(words[1].flag);
    assert_string_equal(words[2].text, "task.name=a b");
    assert_string_equal(words[3].text, "runtime.x=[1, 2]");
    assert_string_equal(words[4].text, "a.b=");
    assert_string_equal(words[5].text, "c.d=-5");
    assert_int_equal(rest.count, 1); // dotted flags are no positional arguments
}

static void test_parse_is_once(void **state)
{
    (void)state;
    assert_ok(parse("a"));
    assert_fails(parse("a"), TL_ESTATE, "once");
}

static void test_no_arguments_at_all(void **state)
{
    (void)state;
    assert_ok(tl_flags_parse(&rest, flags, 0, (char *[]){NULL}));
}

/* --- mistakes --------------------------------------------------------------------------------- */

static void test_unknown_flags_together(void **state)
{
    (void)state;
    tl_status st = parse("--stesp=3", "--fst", "--zzzz", "--stesp");
    assert_int_equal(st, TL_ENOTFOUND);
    const char *message = tl_error_message();
    assert_non_null(strstr(message, "--stesp: unknown flag, did you mean --steps?"));
    assert_non_null(strstr(message, "--fst: unknown flag, did you mean --fast?"));
    assert_non_null(strstr(message, "--zzzz: unknown flag"));
    assert_null(strstr(message, "--zzzz: unknown flag,"));
}

static void test_beginning_of_a_name_is_suggested(void **state)
{
    (void)state;
    assert_fails(parse("--col=red"), TL_ENOTFOUND, "did you mean --color?");
}

static void test_unknown_no_form(void **state)
{
    (void)state;
    assert_fails(parse("--nosteps"), TL_ENOTFOUND, "--nosteps: unknown flag");
}

static void test_no_form_takes_no_value(void **state)
{
    (void)state;
    assert_fails(parse("--nofast=true"), TL_EINVAL, "--nofast: takes no value");
}

static void test_missing_value(void **state)
{
    (void)state;
    assert_fails(parse("--fast", "--steps"), TL_EINVAL, "--steps: a value is missing");
}

static void test_dotted_without_value(void **state)
{
    (void)state;
    assert_fails(parse("--a.b", "--fast"), TL_EINVAL, "--a.b: a value is missing");
    assert_true(given.fast);
}

static void test_wrong_values_name_the_flag(void **state)
{
    static const struct {
        const char *word, *message;
    } cases[] = {
        {"--steps=many", "--steps: expected an integer, found the string \"many\""},
        {"--steps=", "--steps: "},
        {"--steps=1.5", "--steps: expected an integer"},
        {"--steps=99999999999999999999", "--steps: expected an integer"},
        {"--steps=1001", "--steps: must be between 0 and 1000, found 1001"},
        {"--rate=-0.1", "--rate: must be at least 0"},
        {"--rate=fast", "--rate: expected a number"},
        {"--fast=maybe", "--fast: expected true or false"},
        {"--color=pink", "--color: expected red, green or blue"},
        {"--name=UPPER", "--name: 'UPPER' does not match"},
        {"--size=a", "--size"},
        {"--shape={a: 1}", "--shape:1:1: expected"},
        {"--shape=[1", "--shape"},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        assert_fails(parse(cases[i].word), TL_EINVAL, cases[i].message);
        end(state);
        assert_int_equal(begin(state), 0);
    }
}

static void test_all_that_is_wrong_together(void **state)
{
    (void)state;
    tl_status st = parse("--steps=x", "--rate=y", "--wat", "--steps=5");
    assert_int_equal(st, TL_EINVAL);
    assert_non_null(strstr(tl_error_message(), "--steps: "));
    assert_non_null(strstr(tl_error_message(), "--rate: "));
    assert_non_null(strstr(tl_error_message(), "--wat: "));
}

static void test_undefok(void **state)
{
    (void)state;
    assert_ok(parse("--wat=1", "--nowatt", "--undefok=wat,watt", "--steps=2"));
    assert_int_equal(given.steps, 2);
}

static void test_undefok_is_for_its_names_alone(void **state)
{
    (void)state;
    assert_fails(parse("--undefok", "wat", "--what"), TL_ENOTFOUND, "--what");
}

static void test_required_together(void **state)
{
    (void)state;
    needed n;
    assert_ok(tl_flags_define(flags, "Needed", &needed_desc, &n));
    tl_status st = parse("--fast");
    assert_int_equal(st, TL_EINVAL);
    assert_non_null(strstr(tl_error_message(), "the flag --experiment is required (which one)"));
    assert_non_null(strstr(tl_error_message(), "the flag --model_dir is required"));
}

static void test_misspelt_required_is_told_once(void **state)
{
    (void)state;
    needed n;
    assert_ok(tl_flags_define(flags, "Needed", &needed_desc, &n));
    assert_fails(parse("--experimnet=a", "--model_dir=b"), TL_ENOTFOUND,
                 "did you mean --experiment");
    assert_null(strstr(tl_error_message(), "required"));
}

static void test_odd_bytes(void **state)
{
    (void)state;
    assert_fails(parse("--\xff\xfe\x1b[31m=1"), TL_ENOTFOUND, "\\x1b[31m: unknown flag");
    assert_null(strchr(tl_error_message(), '\x1b'));
    end(state);
    assert_int_equal(begin(state), 0);
    assert_ok(parse("--note=\xff\xfe\x01", "\x80"));
    assert_string_equal(given.note, "\xff\xfe\x01");
    assert_string_equal(rest.items[0], "\x80");
    end(state);
    assert_int_equal(begin(state), 0);
    assert_fails(parse("--=5", "---", "--no"), TL_ENOTFOUND, "--: unknown flag");
}

static void test_huge_command_line(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    char **argv = calloc(COUNT + 1, sizeof *argv);
    char *longest = malloc(COUNT + 16);
    assert_true(argv && longest);
    memset(longest, 'a', COUNT + 15);
    memcpy(longest, "--note=", 7);
    longest[COUNT + 15] = '\0';
    argv[0] = "program";
    argv[1] = longest;
    for (int i = 2; i < COUNT; i++) argv[i] = i % 2 ? "--file=x" : "word";
    assert_ok(tl_flags_parse(&rest, flags, COUNT, argv));
    assert_int_equal(given.file.count, (COUNT - 2) / 2);
    assert_int_equal(rest.count, (COUNT - 2) / 2);
    assert_int_equal(strlen(given.note), COUNT + 8);
    end(state);
    assert_int_equal(begin(state), 0);
    for (int i = 1; i < COUNT; i++) argv[i] = "--unknown";
    assert_fails(tl_flags_parse(&rest, flags, COUNT, argv), TL_ENOTFOUND, "more");
    end(state);
    assert_int_equal(begin(state), 0);
    memset(longest, 'a', COUNT); // a name of a hundred thousand letters
    memcpy(longest, "--", 2);
    argv[1] = longest;
    assert_fails(tl_flags_parse(&rest, flags, 2, argv), TL_ENOTFOUND, "aaa...: unknown flag");
    free(longest);
    free(argv);
}

/* --- defining --------------------------------------------------------------------------------- */

typedef struct other {
    int64_t steps;
} other;
static const tl_field other_fields[] = {
    TL_F(other, steps, .i = 11, .help = "how many steps"),
    TL_F_END,
};
static const tl_desc other_desc = {
    .name = "other",
    .help = "o",
    .size = sizeof(other),
    .fields = other_fields,
};
static const tl_field same_fields[] = {
    TL_F(other, steps, .i = 10, TL_RANGE(0, 1000), .help = "how many steps"),
    TL_F_END,
};
static const tl_desc same_desc = {
    .name = "same",
    .help = "s",
    .size = sizeof(other),
    .fields = same_fields,
};

static void test_two_definitions_differ(void **state)
{
    (void)state;
    other o;
    assert_fails(tl_flags_define(flags, "Other", &other_desc, &o), TL_EEXISTS,
                 "--steps is defined twice: by 'Sample' and by 'Other'");
}

static void test_two_definitions_alike(void **state)
{
    (void)state;
    other o;
    assert_ok(tl_flags_define(flags, "Same", &same_desc, &o));
    assert_ok(parse("--steps=12"));
    assert_int_equal(given.steps, 12);
    assert_int_equal(o.steps, 12);
    tl_str text = TL_STR_INIT;
    assert_ok(tl_flags_help(&text, flags, 100));
    const char *first = strstr(tl_str_text(&text), "--steps=N");
    assert_non_null(first);
    assert_null(strstr(first + 1, "--steps=N")); // told once
    tl_str_deinit(&text);
}

typedef struct nested {
    other inner;
} nested;
static const tl_field nested_fields[] = {
    TL_F_STRUCT(nested, inner, &other_desc, .help = "a section"),
    TL_F_END,
};
static const tl_desc nested_desc = {
    .name = "nested",
    .help = "n",
    .size = sizeof(nested),
    .fields = nested_fields,
};
typedef struct one_word {
    const char *word;
} one_word;
static const tl_field reserved_fields[] = {
    TL_F_AS(one_word, word, "flagfile", .help = "taken"),
    TL_F_END,
};
static const tl_desc reserved_desc = {
    .name = "reserved",
    .help = "r",
    .size = sizeof(one_word),
    .fields = reserved_fields,
};
static const tl_field odd_fields[] = {TL_F_AS(one_word, word, "a.b", .help = "dotted"), TL_F_END};
static const tl_desc odd_desc = {
    .name = "odd",
    .help = "o",
    .size = sizeof(one_word),
    .fields = odd_fields,
};

static void test_what_cannot_be_a_flag(void **state)
{
    (void)state;
    nested n;
    one_word w;
    assert_fails(tl_flags_define(flags, "Nested", &nested_desc, &n), TL_EINVAL, "'inner'");
    assert_fails(tl_flags_define(flags, "Reserved", &reserved_desc, &w), TL_EEXISTS, "--flagfile");
    assert_fails(tl_flags_define(flags, "Odd", &odd_desc, &w), TL_EINVAL, "'a.b'");
}

static tl_status check_pair(const void *value)
{
    const sample *s = value;
    return s->fast && s->safe ? TL_FAIL(TL_EINVAL, "--fast and --safe exclude each other") : TL_OK;
}

/* It takes no word that follows. */
static void test_a_number_may_stand_alone(void **state)
{
    typedef struct served {
        int64_t port;
    } served;
    static const tl_field rows[] = {
        TL_F(served, port, .i = -1, TL_RANGE(-1, 9), .flags = TL_FIELD_BARE, .help = "where"),
        TL_F_END,
    };
    static const tl_desc desc = {
        .name = "served", .help = "s", .size = sizeof(served), .fields = rows};
    served page;
    (void)state;
    assert_ok(tl_flags_define(flags, "served", &desc, &page));
    assert_int_equal(page.port, -1);
    assert_ok(parse("--port", "word"));
    assert_int_equal(page.port, 0);
    assert_int_equal(rest.count, 1);
}

static void test_check_of_the_struct(void **state)
{
    (void)state;
    end(state);
    static const tl_desc checked = {
        .name = "sample",
        .help = "c",
        .size = sizeof(sample),
        .fields = sample_fields,
        .check = check_pair,
    };
    assert_ok(tl_flags_new(&flags, "program", ""));
    assert_ok(tl_flags_define(flags, "Checked", &checked, &given));
    assert_fails(parse("--fast"), TL_EINVAL, "exclude each other");
}

/* --- flag files ------------------------------------------------------------------------------- */

static void test_flagfile(void **state)
{
    (void)state;
    const char *inner = write_file("inner.flags", "--size=2\n--color=red\n");
    write_file("outer.flags", "# a comment\n"
                              "  --steps=3  \r\n"
                              "// another\n\n"
                              "--size=1\n"
                              "--flagfile=inner.flags\n"
                              "--size\n"
                              "3\n"
                              "word\n"
                              "--trainer.x=1");
    assert_ok(parse("--size=0", "--steps=2", "--flagfile=outer.flags", "--size=4", "--color=blue"));
    assert_int_equal(given.steps, 3); // where it stands, so it is later than --steps=2
    assert_int_equal(given.color, BLUE);
    assert_int_equal(given.size.count, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(given.size.items[i], i);
    assert_int_equal(rest.count, 1);
    int64_t count;
    const tl_flag_word *words = tl_flags_words(flags, &count);
    assert_int_equal(count, 2);
    assert_string_equal(words[1].flag, "outer.flags:10: --trainer.x");
    unlink(inner);
    unlink("outer.flags");
}

static void test_flagfile_twice_in_a_row_is_no_cycle(void **state)
{
    (void)state;
    write_file("size.flags", "--size=1\n");
    assert_ok(parse("--flagfile", "size.flags", "--flagfile=size.flags", "--flagfile="));
    assert_int_equal(given.size.count, 2);
    unlink("size.flags");
}

static void test_flagfile_mistakes(void **state)
{
    (void)state;
    write_file("bad.flags",
               "\n--steps=x\n--stesp=1\n--steps 5\n--flagfile=missing.flags\n--rate\n");
    tl_status st = parse("--flagfile=bad.flags", "0.5");
    assert_int_equal(st, TL_EINVAL);
    const char *message = tl_error_message();
    assert_non_null(strstr(message, "bad.flags:2: --steps: expected an integer"));
    assert_non_null(strstr(message, "bad.flags:3: --stesp: unknown flag, did you mean --steps?"));
    assert_non_null(strstr(message, "bad.flags:4: --steps 5: a flag and its value on one line"));
    assert_non_null(strstr(message, "bad.flags:5: --flagfile: "));
    assert_non_null(strstr(message, "missing.flags"));
    assert_non_null(strstr(message, "bad.flags:6: --rate: a value is missing"));
    unlink("bad.flags");
}

static void test_flagfile_cycle(void **state)
{
    (void)state;
    write_file("a.flags", "--flagfile=b.flags\n");
    write_file("b.flags", "--flagfile=a.flags\n");
    assert_fails(parse("--flagfile=a.flags"), TL_EINVAL, "a.flags > b.flags > a.flags");
    unlink("a.flags");
    unlink("b.flags");
}

static void test_flagfile_limits(void **state)
{
    // The same file under ever longer names evades the comparison of names, not the limit.
    for (int i = 0; i < 20; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "deep%d.flags", i);
        snprintf(text, sizeof text, "--flagfile=deep%d.flags\n--size=1\n", i + 1);
        write_file(name, text);
    }
    assert_fails(parse("--flagfile=deep0.flags"), TL_ELIMIT, "more than 16 flag files inside");
    end(state);
    assert_int_equal(begin(state), 0);
    // Each names the next one twice: two to the power of the depth.
    for (int i = 0; i < 15; i++) {
        char name[32], text[96];
        snprintf(name, sizeof name, "deep%d.flags", i);
        snprintf(text, sizeof text, "--flagfile=deep%d.flags\n--flagfile=deep%d.flags\n", i + 1,
                 i + 1);
        write_file(name, text);
    }
    write_file("deep15.flags", "--size=1\n");
    assert_fails(parse("--flagfile=deep0.flags"), TL_ELIMIT, "more than 256 times");
    end(state);
    assert_int_equal(begin(state), 0);
    assert_ok(tl_file_write_atomic("nul.flags", "--fast\0\n", 8));
    assert_fails(parse("--flagfile=nul.flags"), TL_EINVAL, "not a text file");
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "deep%d.flags", i);
        unlink(name);
    }
    unlink("nul.flags");
}

/* --- help ------------------------------------------------------------------------------------- */

static void test_help_is_asked_for(void **state)
{
    static const char *const words[] = {"-h", "--help",      "-help",
                                        "-?", "--helpshort", "--help=true"};
    for (int64_t i = 0; i < TL_COUNT(words); i++) {
        needed n;
        assert_ok(tl_flags_define(flags, "Needed", &needed_desc, &n));
        assert_ok(parse("--bogus", words[i], "--steps=x")); // nothing else matters then
        assert_int_equal(tl_flags_help_asked(flags), TL_HELP_SHORT);
        end(state);
        assert_int_equal(begin(state), 0);
    }
    assert_ok(parse("--helpfull", "--help"));
    assert_int_equal(tl_flags_help_asked(flags), TL_HELP_FULL);
    end(state);
    assert_int_equal(begin(state), 0);
    assert_ok(parse("--help=false", "--", "--help"));
    assert_int_equal(tl_flags_help_asked(flags), TL_HELP_NONE);
}

static void test_help_text(void **state)
{
    (void)state;
    needed n;
    assert_ok(tl_flags_define(flags, "Needed", &needed_desc, &n));
    assert_ok(tl_flags_alias(flags, "s", "steps"));
    tl_str text = TL_STR_INIT;
    assert_ok(tl_flags_help(&text, flags, 80));
    const char *t = tl_str_text(&text);
    static const char *const lines[] = {
        "Usage: program [flags] FILE...\n",
        "\nSample:\n",
        ("  --color=NAME                colour of the bar (one of red, green, blue;\n"
         "                              default: green)\n"),
        "  --[no]fast                  hurry\n",
        "  --[no]safe                  be careful (default: true)\n",
        "  --file=TEXT ...             files to read (may be repeated)\n",
        "  -s, --steps=N               how many steps (from 0 to 1000; default: 10)\n",
        "  --rate=X                    learning rate (at least 0; default: 0.5)\n",
        "\nNeeded:\n",
        "  --experiment=TEXT           which one (required)\n",
        "  --flagfile=PATH             read flags from a file, one a line\n",
    };
    for (int64_t i = 0; i < TL_COUNT(lines); i++)
        if (!strstr(t, lines[i])) fail_msg("the help lacks:\n%s\nit is:\n%s", lines[i], t);
    tl_str_deinit(&text);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* `text` gets the help; what was parsed is checked here. */
static tl_status everything(tl_str *text)
{
    tl_flags *f = NULL;
    sample s;
    needed n;
    tl_strings words;
    char *argv[] = {"program",
                    "--steps=5",
                    "--size=1",
                    "--size=2",
                    "--note=abc",
                    "--fsat=1",
                    "x=1",
                    "--a.b=2",
                    "--shape",
                    "[1, 2, 3]",
                    "--undefok=fsat",
                    "--nofast",
                    "--flagfile=oom.flags",
                    "--experiment=e",
                    "--model_dir=d",
                    "--seed=3"};
    tl_status st = tl_flags_new(&f, "program", "usage");
    if (st == TL_OK) st = tl_flags_define(f, "Sample", &sample_desc, &s);
    if (st == TL_OK) st = tl_flags_define(f, "Needed", &needed_desc, &n);
    if (st == TL_OK) st = tl_flags_alias(f, "s", "steps");
    if (st == TL_OK) st = tl_flags_parse(&words, f, TL_COUNT(argv), argv);
    if (st == TL_OK) st = tl_flags_help(text, f, 80);
    if (st == TL_OK && (s.steps != 5 || s.size.count != 2 || words.count != 1)) st = TL_EINTERNAL;
    tl_flags_free(&f);
    return st;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    write_file("oom.flags", "--rate=0.25\n--color=red\n");
    tl_str whole = TL_STR_INIT;
    int64_t before = tl_alloc_calls();
    assert_ok(everything(&whole));
    int64_t calls = tl_alloc_calls() - before, failed = 0;
    for (int64_t i = 1; i <= calls; i++) {
        tl_str text = TL_STR_INIT;
        tl_alloc_fail_at(i, 1);
        tl_status st = everything(&text);
        tl_alloc_fail_at(0, 0);
        // Some memory serves messages alone; without it the result must still be whole.
        if (st == TL_OK) assert_string_equal(tl_str_text(&text), tl_str_text(&whole));
        else assert_int_equal(st, TL_ENOMEM);
        failed += st == TL_ENOMEM;
        tl_str_deinit(&text);
    }
    assert_true(failed > calls / 2);
    tl_str_deinit(&whole);
    unlink("oom.flags");
}

#define t(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(test_defaults),
        t(test_equals_blank_and_dashes),
        t(test_value_may_hold_equals_and_be_empty),
        t(test_strings_stay_text),
        t(test_bools),
        t(test_bool_words),
        t(test_optionals),
        t(test_optionals_can_be_null_again),
        t(test_integers),
        t(test_leading_zeros_are_not_octal),
        t(test_lists_append_and_replace_the_default),
        t(test_enums_and_values),
        t(test_last_one_wins),
        t(test_positional_between_flags),
        t(test_alias),
        t(test_dotted_flags),
        t(test_parse_is_once),
        t(test_no_arguments_at_all),
        t(test_unknown_flags_together),
        t(test_beginning_of_a_name_is_suggested),
        t(test_unknown_no_form),
        t(test_no_form_takes_no_value),
        t(test_missing_value),
        t(test_dotted_without_value),
        t(test_wrong_values_name_the_flag),
        t(test_all_that_is_wrong_together),
        t(test_undefok),
        t(test_undefok_is_for_its_names_alone),
        t(test_required_together),
        t(test_misspelt_required_is_told_once),
        t(test_odd_bytes),
        t(test_huge_command_line),
        t(test_two_definitions_differ),
        t(test_two_definitions_alike),
        t(test_what_cannot_be_a_flag),
        t(test_a_number_may_stand_alone),
        t(test_check_of_the_struct),
        t(test_flagfile),
        t(test_flagfile_twice_in_a_row_is_no_cycle),
        t(test_flagfile_mistakes),
        t(test_flagfile_cycle),
        t(test_flagfile_limits),
        t(test_help_is_asked_for),
        t(test_help_text),
        t(test_every_allocation_may_fail),
    };
    // Files of this program alone, whatever runs beside it.
    char folder[] = "flags-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("..") == 0 && rmdir(folder) == 0 ? failures : failures + 1;
}
