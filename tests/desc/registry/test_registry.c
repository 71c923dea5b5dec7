/* Classes and the registry: inheritance of methods, what registration verifies, names and folders,
 * modules that enter as a whole or not at all. */
#include "test.h"

#include <tilth/base/alloc.h>

#include "desc/sample.h"

/* --- a kind of class -------------------------------------------------------------------------- */

typedef struct greeter_class {
    tl_class cls;
    int (*greet)(int);  /* required */
    int (*wave)(int);   /* optional */
    int (*newest)(int); /* added to the table later */
    bool loud;          /* no method, but inherited like one */
} greeter_class;
typedef struct greeter {
    int mood;
} greeter;
typedef struct big_greeter {
    greeter base;
    int more[4];
} big_greeter;

static const tl_method greeter_methods[] = {TL_METHOD(greeter_class, greet, true),
                                            TL_METHOD(greeter_class, wave, false),
                                            TL_METHOD(greeter_class, newest, false),
                                            {NULL, 0, false}};
static const tl_kind greeters = {
    .name = "greeter",
    .plural = "greeters",
    .help = "say hello",
    .class_size = sizeof(greeter_class),
    .methods = greeter_methods,
};
static const tl_kind things = {.name = "thing", .plural = "things", .class_size = sizeof(tl_class)};

static int one(int x)
{
    return x + 1;
}

static int two(int x)
{
    return x + 2;
}

#define GREETER(label, ...)                                                                        \
    TL_INIT(.cls = TL_CLASS(greeter_class, label, NULL, greeter, NULL, .help = "h"), .greet = one, \
            __VA_ARGS__)

static const greeter_class hello = GREETER("hello", .wave = one);
static const greeter_class hi = {
    .cls = TL_CLASS(greeter_class, "hi", &hello.cls, big_greeter, NULL, .help = "h"),
    .wave = two,
    .loud = true,
};
static const greeter_class ho = {
    .cls = TL_CLASS(greeter_class, "ho", &hi.cls, big_greeter, NULL, .help = "h"),
    .newest = two,
};

#define MODULE(id, label, ...)                                                                     \
    static const tl_entry id##_entries[] = {__VA_ARGS__};                                          \
    static const tl_module id = {TL_MODULE_HEAD(label), id##_entries, TL_COUNT(id##_entries)}

static tl_registry *registry;

static int begin(void **state)
{
    (void)state;
    return tl_registry_new(&registry) != TL_OK;
}

static int end(void **state)
{
    (void)state;
    tl_registry_free(&registry);
    return registry != NULL;
}

/* --- classes ---------------------------------------------------------------------------------- */

static void test_methods_are_inherited(void **state)
{
    (void)state;
    const greeter_class *c = TL_CLASS_METHOD(greeter_class, &ho.cls, greet);
    assert_ptr_equal(c, &hello);
    assert_int_equal(c->greet(1), 2);
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, &ho.cls, wave), &hi); // the nearest
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, &hi.cls, wave), &hi);
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, &hello.cls, wave), &hello);
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, &ho.cls, newest), &ho);
    assert_null(TL_CLASS_METHOD(greeter_class, &hi.cls, newest));
    assert_null(TL_CLASS_METHOD(greeter_class, (const tl_class *)NULL, wave));
    // a flag, in a table of its type
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, &ho, loud), &hi);
    assert_null(TL_CLASS_METHOD(greeter_class, &hello, loud));
    assert_true(TL_CLASS_HAS(greeter_class, &hi, loud) && !TL_CLASS_HAS(greeter_class, &ho, loud));
    assert_int_equal(TL_CLASS_METHOD_OR(greeter_class, &hello, newest, ho)(1), 3);
    assert_int_equal(TL_CLASS_METHOD_OR(greeter_class, &hello, wave, ho)(1), 2);
    assert_true(tl_class_is(&ho.cls, &hello.cls));
    assert_true(tl_class_is(&ho.cls, &ho.cls));
    assert_false(tl_class_is(&hello.cls, &ho.cls));
    assert_false(tl_class_is(NULL, &ho.cls));
}

/* A plug-in that was compiled when the table had fewer methods. */
typedef struct old_greeter_class {
    tl_class cls;
    int (*greet)(int);
} old_greeter_class;

static void test_older_tables(void **state)
{
    (void)state;
    // What lies behind the small table must not be taken for a method.
    static const struct {
        old_greeter_class old;
        int (*not_a_method)(int);
        int (*nor_this)(int);
    } memory = {
        {.cls = TL_CLASS(old_greeter_class, "old", NULL, greeter, NULL, .help = "h"), .greet = one},
        two,
        two,
    };
    const tl_class *old = &memory.old.cls;
    assert_ok(tl_class_verify(&greeters, old));
    assert_null(TL_CLASS_METHOD(greeter_class, old, wave));
    assert_null(TL_CLASS_METHOD(greeter_class, old, newest));
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, old, greet), &memory);
    // On a base of today it inherits even the methods it has never heard of.
    const old_greeter_class derived = {
        .cls = TL_CLASS(old_greeter_class, "derived", &hello.cls, greeter, NULL, .help = "h")};
    assert_ptr_equal(TL_CLASS_METHOD(greeter_class, &derived.cls, wave), &hello);
    // One that is larger than ours was made for a Tilth that is newer.
    greeter_class newer = GREETER("newer", .wave = one);
    newer.cls.class_size += sizeof(void *);
    assert_fails(tl_class_verify(&greeters, &newer.cls), TL_EUNSUPPORTED,
                 "it was compiled against a newer Tilth");
}

static void test_what_a_class_must_have(void **state)
{
    (void)state;
    greeter_class c = {.cls = TL_CLASS(greeter_class, "bare", NULL, greeter, NULL, .help = "h"),
                       .wave = one};
    assert_fails(tl_class_verify(&greeters, &c.cls), TL_EINVAL,
                 "greeter class 'bare': it lacks the required method 'greet'");
    c.cls.base = &hello.cls; // inherited is as good
    assert_ok(tl_class_verify(&greeters, &c.cls));
    c.cls.class_size = 8;
    assert_fails(tl_class_verify(&greeters, &c.cls), TL_EINVAL, "the class_size of 'bare' is 8");
    c.cls.class_size = 0;
    assert_fails(tl_class_verify(&greeters, &c.cls), TL_EINVAL, "the class_size of 'bare' is 0");
    c = (greeter_class)GREETER("loop", .wave = one);
    c.cls.base = &c.cls;
    assert_fails(tl_class_verify(&greeters, &c.cls), TL_EINVAL, "its base chain does not end");
    c = (greeter_class){.cls =
                            TL_CLASS(greeter_class, "small", &hi.cls, greeter, NULL, .help = "h")};
    assert_fails(
        tl_class_verify(&greeters, &c.cls), TL_EINVAL,
        "its instances have 4 bytes, fewer than the 20 of its base 'hi': let their struct begin");
}

/* --- configs of classes ----------------------------------------------------------------------- */

typedef struct base_config {
    int64_t a;
} base_config;
typedef struct derived_config {
    base_config base;
    int64_t b;
} derived_config;
static const tl_field base_fields[] = {TL_F(base_config, a, .help = "h"), TL_F_END};
static const tl_desc base_desc = {
    .name = "base",
    .size = sizeof(base_config),
    .fields = base_fields,
};
static const tl_field derived_fields[] = {TL_F(derived_config, b, .help = "h"), TL_F_END};
static const tl_desc derived_desc = {
    .name = "derived",
    .size = sizeof(derived_config),
    .fields = derived_fields,
    .base = &base_desc,
};
static const tl_field bad_fields[] = {TL_F(base_config, a, .i = 1), TL_F_END};
static const tl_desc bad_desc = {.name = "bad", .size = sizeof(base_config), .fields = bad_fields};

static const tl_kind tasks = {
    .name = "task",
    .plural = "tasks",
    .class_size = sizeof(tl_class),
    .config_base = &base_desc,
    .config_required = true,
    .by_config = true,
};

static const tl_class base_task =
    TL_CLASS(tl_class, "base_task", NULL, greeter, &base_desc, .help = "h");
static const tl_class derived_task =
    TL_CLASS(tl_class, "derived_task", &base_task, greeter, &derived_desc, .help = "h");
static const tl_class other_task =
    TL_CLASS(tl_class, "other_task", NULL, greeter, &base_desc, .help = "h");
static const tl_class no_config = TL_CLASS(tl_class, "no_config", NULL, greeter, NULL, .help = "h");
static const tl_class wrong_config =
    TL_CLASS(tl_class, "wrong_config", NULL, greeter, &point_desc, .help = "h");
static const tl_class bad_config =
    TL_CLASS(tl_class, "bad_config", NULL, greeter, &bad_desc, .help = "h");

MODULE(task_module, "tasks", {&tasks, &base_task});
MODULE(derived_module, "more tasks", {&tasks, &derived_task});
MODULE(second_module, "second", {&tasks, &other_task});

static void test_configs_of_classes(void **state)
{
    (void)state;
    assert_ok(tl_class_verify(&tasks, &base_task));
    assert_ok(tl_class_verify(&tasks, &derived_task));
    assert_fails(tl_class_verify(&tasks, &no_config), TL_EINVAL,
                 "task class 'no_config': it lacks a config description");
    assert_fails(tl_class_verify(&tasks, &wrong_config), TL_EINVAL,
                 "its config 'point' does not derive from 'base'");
    assert_fails(tl_class_verify(&tasks, &bad_config), TL_EINVAL,
                 "task class 'bad_config': field 'a' of 'bad': it has no help");
    assert_ok(tl_class_verify(&things, &no_config)); // where none is wanted
    assert_ok(tl_class_verify(&things, &wrong_config));
}

/* From the config to the task, by exactly that description. */
static void test_find_by_config(void **state)
{
    (void)state;
    const tl_class *c;
    assert_fails(tl_registry_find_by_config(&c, registry, &tasks, &base_desc), TL_ENOTFOUND,
                 "no task is registered for the config 'base'");
    assert_ok(tl_registry_add(registry, &task_module));
    assert_ok(tl_registry_find_by_config(&c, registry, &tasks, &base_desc));
    assert_ptr_equal(c, &base_task);
    // A config that derives from it needs a task of its own.
    assert_fails(tl_registry_find_by_config(&c, registry, &tasks, &derived_desc), TL_ENOTFOUND,
                 "no task is registered for the config 'derived'");
    assert_null(c);
    assert_ok(tl_registry_add(registry, &derived_module));
    assert_ok(tl_registry_find_by_config(&c, registry, &tasks, &derived_desc));
    assert_ptr_equal(c, &derived_task);
    assert_fails(tl_registry_add(registry, &second_module), TL_EEXISTS,
                 "the config 'base' belongs to the task 'base_task' of module 'tasks' and again to "
                 "'other_task' of module 'second'");
    assert_null(tl_registry_peek(registry, &tasks, "other_task"));
}

/* --- names ------------------------------------------------------------------------------------ */

static tl_class named(const char *name)
{
    return (tl_class)TL_CLASS(tl_class, name, NULL, greeter, NULL, .help = "h");
}

/* Modules that live as long as the test. */
enum { MOST = 64 };
static tl_class classes[MOST];
static tl_entry entries[MOST];
static tl_module modules[MOST];
static int made;

static const tl_module *module_with(const char *module_name, const char *class_name)
{
    assert_true(made < MOST);
    int i = made++;
    classes[i] = named(class_name);
    entries[i] = (tl_entry){&things, &classes[i]};
    modules[i] = (tl_module){TL_MODULE_HEAD(module_name), &entries[i], 1};
    return &modules[i];
}

static void add(const char *module_name, const char *class_name)
{
    assert_ok(tl_registry_add(registry, module_with(module_name, class_name)));
}

static void refuse(const char *module_name, const char *class_name, tl_status code,
                   const char *message)
{
    int64_t before = tl_registry_count(registry, &things);
    assert_fails(tl_registry_add(registry, module_with(module_name, class_name)), code, message);
    assert_int_equal(tl_registry_count(registry, &things), before);
    assert_false(tl_registry_has_module(registry, module_name));
}

/* Vectors: "functions/func_0" then "functions/func_0/sub" is an error; so is looking up
 * "non-exist". */
static void test_vectors(void **state)
{
    (void)state;
    made = 0;
    const tl_class *c;
    add("one", "functions/func_0");
    assert_ok(tl_registry_find(&c, registry, &things, "functions/func_0"));
    assert_string_equal(c->name, "functions/func_0");
    refuse("two", "functions/func_0/sub", TL_EEXISTS,
           "module 'two': the thing 'functions/func_0/sub' of module 'two' would make a folder of "
           "'functions/func_0' of module 'one'");
    assert_fails(tl_registry_find(&c, registry, &things, "non-exist"), TL_ENOTFOUND,
                 "there is no thing 'non-exist' (there are: functions/func_0; modules of your own "
                 "are loaded with --plugin)");
    assert_null(c);
    // Class keys beside strings: kinds that are found by their config, see test_find_by_config.
    add("three", "functions/func_1");
    assert_ok(tl_registry_find(&c, registry, &things, "functions/func_1"));
}

static void test_names_and_folders(void **state)
{
    (void)state;
    made = 0;
    add("one", "bert/pretraining");
    add("two", "bert/squad");
    add("three", "bert-like"); // sorts between "bert" and "bert/"
    add("four", "albert");
    refuse("five", "bert", TL_EEXISTS,
           "the thing 'bert' of module 'five' is a folder already, because of "
           "'bert/pretraining' of module 'one'");
    refuse("six", "bert/squad", TL_EEXISTS,
           "the thing 'bert/squad' is registered by module 'two' and again by module 'six'");
    refuse("seven", "albert/x/y", TL_EEXISTS, "would make a folder of 'albert' of module 'four'");
    refuse("eight", "", TL_EINVAL, "an entry has no name");
    refuse("nine", "/x", TL_EINVAL, "'/x' is not a name");
    refuse("ten", "x/", TL_EINVAL, "'x/' is not a name");
    refuse("eleven", "x//y", TL_EINVAL, "'x//y' is not a name");
    const tl_class *c;
    // A folder is no entry, and the message tells what is in it.
    assert_fails(tl_registry_find(&c, registry, &things, "bert"), TL_ENOTFOUND,
                 "'bert' is a folder of things, choose one of them: bert/pretraining, bert/squad");
    assert_fails(tl_registry_find(&c, registry, &things, "ber"), TL_ENOTFOUND,
                 "there is no thing 'ber'");
    assert_fails(tl_registry_find(&c, registry, &things, "bert/"), TL_ENOTFOUND,
                 "there is no thing 'bert/'");
    assert_fails(tl_registry_find(&c, registry, &things, ""), TL_ENOTFOUND, "there is no thing ''");
    assert_fails(tl_registry_find(&c, registry, &things, "bert/squda"), TL_ENOTFOUND,
                 "there is no thing 'bert/squda', did you mean 'bert/squad'? (there are: albert, "
                 "bert-like, bert/pretraining, bert/squad; ");
    assert_fails(tl_registry_find(&c, registry, &things, "albret"), TL_ENOTFOUND,
                 "did you mean 'albert'?");
    // Another kind is another world.
    assert_fails(tl_registry_find(&c, registry, &greeters, "albert"), TL_ENOTFOUND,
                 "there is no greeter 'albert' (there are none; ");
    static const char *const sorted[] = {"albert", "bert-like", "bert/pretraining", "bert/squad"};
    assert_int_equal(tl_registry_count(registry, &things), TL_COUNT(sorted));
    for (int64_t i = 0; i < TL_COUNT(sorted); i++)
        assert_string_equal(tl_registry_at(registry, &things, i)->name, sorted[i]);
    assert_string_equal(tl_registry_origin(registry, &things, "bert/squad"), "two");
    assert_null(tl_registry_origin(registry, &things, "bert"));
    assert_null(tl_registry_peek(registry, &things, "bert"));
}

static void test_large_folders(void **state)
{
    (void)state;
    made = 0;
    static char names[30][32], module_names[30][16];
    for (int i = 0; i < 30; i++) {
        snprintf(names[i], sizeof names[i], "zoo/animal_%02d", (i * 7) % 30);
        snprintf(module_names[i], sizeof module_names[i], "m%d", i);
        add(module_names[i], names[i]);
    }
    const tl_class *c;
    assert_fails(tl_registry_find(&c, registry, &things, "zoo"), TL_ENOTFOUND,
                 "zoo/animal_00, zoo/animal_01, ");
    assert_non_null(strstr(tl_error_message(), "zoo/animal_09, ..."));
    assert_fails(tl_registry_find(&c, registry, &things, "farm"), TL_ENOTFOUND,
                 "there is no thing 'farm' (the command `list things` shows what there is; ");
    for (int i = 0; i < 30; i++) assert_ok(tl_registry_find(&c, registry, &things, names[i]));
}

/* --- modules ---------------------------------------------------------------------------------- */

static const tl_class alpha = TL_CLASS(tl_class, "alpha", NULL, greeter, NULL, .help = "h");
static const tl_class beta = TL_CLASS(tl_class, "beta", NULL, greeter, NULL, .help = "h");
static const greeter_class rude = {
    .cls = TL_CLASS(greeter_class, "rude", NULL, greeter, NULL, .help = "h")};

MODULE(good, "good", {&things, &alpha}, {&greeters, &hello.cls}, {&things, &beta});
MODULE(bad, "bad", {&things, &beta}, {&greeters, &hi.cls}, {&tasks, &base_task},
       {&greeters, &rude.cls});
MODULE(twice, "twice", {&things, &alpha}, {&things, &beta}, {&things, &alpha});
MODULE(same_name, "good", {&things, &beta});
MODULE(holes, "holes", {&things, &alpha}, {&things, NULL});
MODULE(kindless, "kindless", {NULL, &alpha});

static void test_all_or_nothing(void **state)
{
    (void)state;
    const tl_class *c;
    assert_fails(tl_registry_add(registry, &bad), TL_EINVAL,
                 "module 'bad': greeter class 'rude': it lacks the required method 'greet'");
    assert_int_equal(tl_registry_count(registry, &things), 0);
    assert_int_equal(tl_registry_count(registry, &greeters), 0);
    assert_int_equal(tl_registry_count(registry, &tasks), 0);
    assert_int_equal(tl_registry_kind_count(registry), 0); // nor kinds without entries
    assert_false(tl_registry_has_module(registry, "bad"));
    assert_fails(tl_registry_add(registry, &twice), TL_EEXISTS,
                 "the thing 'alpha' is registered by module 'twice' and again by module 'twice'");
    assert_int_equal(tl_registry_count(registry, &things), 0);
    assert_ok(tl_registry_add(registry, &good));
    assert_int_equal(tl_registry_count(registry, &things), 2);
    assert_int_equal(tl_registry_kind_count(registry), 2);
    assert_fails(tl_registry_add(registry, &bad), TL_EEXISTS,
                 "'beta' is registered by module 'good'");
    assert_int_equal(tl_registry_count(registry, &greeters), 1); // what was there before stays
    assert_int_equal(tl_registry_kind_count(registry), 2);
    assert_ok(tl_registry_find(&c, registry, &things, "beta"));
    assert_ptr_equal(c, &beta);
    assert_true(tl_registry_has_module(registry, "good"));
    assert_false(tl_registry_has_module(registry, "bad"));
}

static void test_the_same_again(void **state)
{
    (void)state;
    assert_ok(tl_registry_add(registry, &good));
    assert_ok(tl_registry_add(registry, &good)); // does nothing
    assert_int_equal(tl_registry_count(registry, &things), 2);
    assert_fails(tl_registry_add(registry, &same_name), TL_EEXISTS,
                 "another module 'good' is already registered");
}

static void test_heads(void **state)
{
    (void)state;
    tl_module m = good;
    m.abi = TL_ABI + 1;
    assert_fails(tl_registry_add(registry, &m), TL_EUNSUPPORTED, "the module was built for ABI 3");
    m = good;
    m.size = 4;
    assert_fails(tl_registry_add(registry, &m), TL_EINVAL, "no proper head");
    m = good;
    m.name = NULL;
    assert_fails(tl_registry_add(registry, &m), TL_EINVAL, "no proper head");
    assert_fails(tl_registry_add(registry, &holes), TL_EINVAL,
                 "module 'holes': entry 1 has no class");
    assert_fails(tl_registry_add(registry, &kindless), TL_EINVAL,
                 "module 'kindless': entry 0 has no kind");
    m = good;
    m.size += 8; // one that knows more than we do is fine
    assert_ok(tl_registry_add(registry, &m));
}

static void test_kinds(void **state)
{
    (void)state;
    const tl_kind *k;
    assert_ok(tl_registry_add(registry, &good));
    assert_ptr_equal(tl_registry_kind_at(registry, 0), &things); // as they came
    assert_ptr_equal(tl_registry_kind_at(registry, 1), &greeters);
    assert_ok(tl_registry_find_kind(&k, registry, "greeter"));
    assert_ptr_equal(k, &greeters);
    assert_ok(tl_registry_find_kind(&k, registry, "things"));
    assert_ptr_equal(k, &things);
    assert_fails(tl_registry_find_kind(&k, registry, "greetrs"), TL_ENOTFOUND,
                 "did you mean 'greeters'?");
    assert_fails(tl_registry_find_kind(&k, registry, "zebras"), TL_ENOTFOUND,
                 "there is no kind 'zebras' (there are: things, greeters)");
    assert_null(k);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_registry_add(registry, &good);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_int_equal(tl_registry_count(registry, &things), 0);
        assert_int_equal(tl_registry_kind_count(registry), 0);
        assert_false(tl_registry_has_module(registry, "good"));
    }
    assert_int_equal(tl_registry_count(registry, &things), 2);
    tl_registry *none;
    tl_alloc_fail_at(1, 1);
    assert_fails(tl_registry_new(&none), TL_ENOMEM, "out of memory");
    assert_null(none);
    tl_registry_free(&none);
}

/* --- open one-ofs ----------------------------------------------------------------------------- */

typedef struct open_choice {
    tl_oneof task;
} open_choice;

static void test_open_oneofs(void **state)
{
    (void)state;
    static const tl_field fields[] = {
        TL_F(open_choice, task, .kind = &tasks, .help = "h"),
        TL_F_END,
    };
    static const tl_desc desc = {.name = "open", .size = sizeof(open_choice), .fields = fields};
    assert_ok(tl_desc_verify(&desc));
    assert_ok(tl_registry_add(registry, &task_module));
    assert_ok(tl_registry_add(registry, &derived_module));
    tl_config *c;
    assert_ok(tl_config_new(&c, registry, &desc));
    assert_ok(tl_config_yaml(c, "task: {type: derived_task, derived_task: {a: 1, b: 2}}", "t"));
    const tl_oneof *o = &((const open_choice *)tl_config_value(c))->task;
    assert_string_equal(o->type, "derived_task");
    assert_int_equal(((derived_config *)o->value)->b, 2);
    assert_fails(tl_config_override(c, "task.type=base_tsak", "t"), TL_ENOTFOUND,
                 "task.type: unknown type 'base_tsak', did you mean 'base_task'? (known: "
                 "base_task, derived_task)");
    tl_str text = TL_STR_INIT;
    tl_field_type_text(&text, &fields[0]);
    assert_string_equal(tl_str_text(&text), "one of the tasks");
    tl_str_deinit(&text);
    tl_config_free(&c);
    assert_ok(tl_config_new(&c, NULL, &desc)); // nobody to ask
    assert_fails(tl_config_override(c, "task.type=base_task", "t"), TL_ENOTFOUND, "(known: none)");
    tl_config_free(&c);
}

/* Names of what a one-of chooses stand in YAML as keys and in overrides as parts of paths. */
static void test_names_that_are_keys(void **state)
{
    (void)state;
    static const tl_kind rules = {
        .name = "rule",
        .plural = "rules",
        .class_size = sizeof(tl_class),
        .names_are_keys = true,
    };
    static const char *const names[] = {"a.b", "a/b", "a b", "a=b", "a[0]"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        const tl_class cls = {.class_size = sizeof cls, .name = names[i]};
        const tl_entry entry = {&rules, &cls};
        const tl_module module = {TL_MODULE_HEAD("m"), &entry, 1};
        assert_fails(tl_registry_add(registry, &module), TL_EINVAL, "is chosen by a key");
    }
    static const tl_class fine = {.class_size = sizeof fine, .name = "power_2-x"};
    static const tl_entry entry = {&rules, &fine};
    static const tl_module module = {TL_MODULE_HEAD("m"), &entry, 1};
    assert_ok(tl_registry_add(registry, &module));
}

/* A kind has one address: a second one of its name is another copy of the library. */
static void test_two_libraries(void **state)
{
    (void)state;
    static const tl_kind other = {
        .name = "thing",
        .plural = "things",
        .class_size = sizeof(tl_class),
    };
    static const tl_class a = {.class_size = sizeof a, .name = "a"},
                          b = {.class_size = sizeof b, .name = "b"};
    static const tl_entry ours = {&things, &a}, theirs = {&other, &b};
    static const tl_module first = {TL_MODULE_HEAD("first"), &ours, 1};
    static const tl_module second = {TL_MODULE_HEAD("second"), &theirs, 1};
    assert_ok(tl_registry_add(registry, &first));
    assert_fails(tl_registry_add(registry, &second), TL_EEXISTS, "a libtilth of its own");
    assert_null(tl_registry_peek(registry, &other, "b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_are_inherited),
        cmocka_unit_test(test_older_tables),
        cmocka_unit_test(test_what_a_class_must_have),
        cmocka_unit_test(test_configs_of_classes),
        cmocka_unit_test_setup_teardown(test_find_by_config, begin, end),
        cmocka_unit_test_setup_teardown(test_vectors, begin, end),
        cmocka_unit_test_setup_teardown(test_names_and_folders, begin, end),
        cmocka_unit_test_setup_teardown(test_large_folders, begin, end),
        cmocka_unit_test_setup_teardown(test_all_or_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_the_same_again, begin, end),
        cmocka_unit_test_setup_teardown(test_heads, begin, end),
        cmocka_unit_test_setup_teardown(test_kinds, begin, end),
        cmocka_unit_test_setup_teardown(test_names_that_are_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_two_libraries, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_open_oneofs, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
