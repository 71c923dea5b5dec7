/* gin's bindings: names, macros, constants, types; and all that is wrong with them, at once. */
#include "desc/gin_setup.h"
#include "desc/sample.h"

/* Reads the text, which is well formed; finalising it must fail with this in the message. */
static void assert_wrong(const char *text, tl_status code, const char *message)
{
    void *state;
    setup(&state);
    tl_gin *gin = gin_of(&state);
    assert_ok(tl_gin_parse(gin, text, "t.gin"));
    assert_fails(tl_gin_finalize(gin), code, message);
    assert_false(tl_gin_locked(gin));
    teardown(&state);
}

static void test_wrong_names(void **state)
{
    (void)state;
    assert_wrong(
        "x = 1\na/EncoderScafold.hidden = 1", TL_ENOTFOUND,
        "t.gin:2:1: a/EncoderScafold.hidden: there is no configurable 'EncoderScafold', did you "
        "mean 'EncoderScaffold'?");
    assert_wrong("EncoderScafold:\n  hidden = 1", TL_ENOTFOUND,
                 "t.gin:2:3: EncoderScafold.hidden: there is no");
    assert_wrong("EncoderScaffold.hiden = 1", TL_ENOTFOUND,
                 "'nlp.networks.EncoderScaffold' has no parameter 'hiden', did you mean 'hidden'?");
    assert_wrong("TalkingHeadsAttention.size = 1", TL_ENOTFOUND,
                 "has no parameter 'size'; it has dropout, num_heads");
    assert_wrong("Zero.size = 1", TL_ENOTFOUND, "'toys.Zero' has no parameter 'size'; it has none");
    assert_wrong("strict.secret = 1", TL_EINVAL,
                 "the parameter 'secret' of 'toys.strict' cannot be bound");
    assert_wrong("Attention.num_heads = 1", TL_EINVAL,
                 "'Attention' is ambiguous: it could be nlp.layers.Attention, vision.Attention");
    assert_wrong("layers.Attention.heads = 1", TL_ENOTFOUND,
                 "'nlp.layers.Attention' has no parameter 'heads'");
    assert_wrong("x = [1, @a/Transformer()]", TL_ENOTFOUND,
                 "t.gin:1:9: x: there is no configurable '@Transformer()'");
    assert_wrong("EncoderScaffold.init = @Attention", TL_EINVAL,
                 "t.gin:1:24: EncoderScaffold.init: "
                 "'Attention' is ambiguous");
    assert_wrong("EncoderScaffold.init = @Zera\nEncoderScaffold.init = @Zero", TL_ENOTFOUND,
                 "'@Zera'");
    // Part of a name is no end of a name.
    assert_wrong("Scaffold.hidden = 1", TL_ENOTFOUND, "there is no configurable 'Scaffold'");
    assert_wrong("gin.macro.value = 1", TL_EINVAL, "a macro needs a name");
    assert_wrong("x = 1\ny = @x/gin.macro", TL_EINVAL, "write '%x'");
    assert_wrong("y = @gin.macro()", TL_EINVAL, "write '%name'");
}

static void test_wrong_types(void **state)
{
    (void)state;
    assert_wrong(
        "EncoderScaffold.hidden = 'wide'", TL_EINVAL,
        "t.gin:1:26: EncoderScaffold.hidden: expected an integer, found the string \"wide\"");
    assert_wrong("EncoderScaffold.hidden = '5'", TL_EINVAL, "expected an integer");
    assert_wrong("EncoderScaffold.hidden = True", TL_EINVAL, "expected an integer");
    assert_wrong("EncoderScaffold.hidden = 1.5", TL_EINVAL, "expected an integer");
    assert_wrong("EncoderScaffold.hidden = None", TL_EINVAL, "cannot be null");
    assert_wrong("EncoderScaffold.hidden = @Zero()", TL_EINVAL,
                 "expected an integer, found the reference @Zero()");
    assert_wrong("a/EncoderScaffold.dropout = 1.5", TL_EINVAL,
                 "a/EncoderScaffold.dropout: must be between 0.0 and 1.0, found 1.5");
    assert_wrong("EncoderScaffold.activation = 5", TL_EINVAL,
                 "expected a string, found the integer 5 (write it in quotes)");
    assert_wrong("EncoderScaffold.sizes = 5", TL_EINVAL, "list of int");
    assert_wrong("EncoderScaffold.sizes = [1, 'b', 3]", TL_EINVAL,
                 "EncoderScaffold.sizes[1]: expected an integer");
    assert_wrong("EncoderScaffold.hidden_cls = 'TransformerScaffold'", TL_EINVAL,
                 "expected a reference");
    assert_wrong("strict.mode = 'medium'", TL_EINVAL, "fast or slow");
    assert_wrong("strict.words = ['a', 5]", TL_EINVAL,
                 "strict.words[1]: expected a string, found the integer 5");
    assert_wrong("show.value = @Zero", TL_EINVAL, "found the reference @Zero");
    // Through a macro, the place is that of the value.
    assert_wrong("EncoderScaffold.hidden = %x\nx = 'wide'", TL_EINVAL,
                 "t.gin:2:5: EncoderScaffold.hidden: expected an integer");
    // What is overridden does no harm.
    void *other;
    setup(&other);
    parse(gin_of(&other), "EncoderScaffold.hidden = 'wide'\nEncoderScaffold.hidden = 5");
    assert_ok(tl_gin_finalize(gin_of(&other)));
    teardown(&other);
}

static void test_everything_at_once(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "Nope.x = 1\n"
               "EncoderScaffold.hidden = 'wide'\n"
               "EncoderScaffold.width = 5\n"
               "EncoderScaffold.layers = %undefined\n"
               "strict.secret = 1\n"
               "strict.size = %gin.REQUIRED\n"
               "EncoderScaffold.init = @Nothing()\n"
               "a = %b\nb = %a\n");
    for (int i = 0; i < 2; i++) { // asking again tells the same
        assert_fails(tl_gin_finalize(gin), TL_ENOTFOUND,
                     "t.gin:1:1: Nope.x: there is no configurable 'Nope'");
        assert_contains(tl_error_message(),
                        "t.gin:2:26: EncoderScaffold.hidden: expected an integer");
        assert_contains(tl_error_message(), "t.gin:3:1: EncoderScaffold.width: ");
        assert_contains(tl_error_message(),
                        "t.gin:4:26: EncoderScaffold.layers: the macro '%undefined' is not");
        assert_contains(tl_error_message(), "t.gin:5:1: strict.secret: ");
        assert_contains(tl_error_message(), "t.gin:6:1: strict.size: it is set to %gin.REQUIRED");
        assert_contains(tl_error_message(),
                        "t.gin:7:24: EncoderScaffold.init: there is no configurable");
        assert_contains(tl_error_message(), "the macro is defined by itself: %a -> %b -> %a");
        int lines = 1;
        for (const char *p = tl_error_message(); *p; p++) lines += *p == '\n';
        assert_int_equal(lines, 8);
    }
    // Calls find it too.
    void *object;
    assert_fails(tl_gin_call_name(&object, gin, "Zero"), TL_ENOTFOUND,
                 "there is no configurable 'Nope'");
}

static void test_macros(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "EncoderScaffold.hidden = %size\nEncoderScaffold.sizes = [%size, %deep/size, 1]\n"
               "size = 1\nsize = %deep/size\ndeep/size = 7\n"
               "TransformerScaffold.inner = @other/macro()\nother/gin.macro.value = 8\n");
    assert_ok(tl_gin_finalize(gin));
    assert_int_equal(call_toy(gin, "EncoderScaffold")->number, 7);
    assert_int_equal(call_toy(gin, "TransformerScaffold")->number, 8);
    const char *text = operative(state);
    assert_contains(text, "# Macros:\n# ====");
    assert_contains(text, "\nother = 8\nsize = %deep/size\ndeep/size = 7\n");
    assert_contains(text, "EncoderScaffold.sizes = [%size, %deep/size, 1]\n");
    assert_contains(text, "TransformerScaffold.inner = %other\n");
}

static void test_bad_macros(void **state)
{
    (void)state;
    assert_wrong("batch_size = 1\nshow.value = {'k': [%bach_size]}", TL_ENOTFOUND,
                 "t.gin:2:21: show.value: the macro '%bach_size' is not defined, did you mean "
                 "'batch_size'?");
    assert_wrong("show.value = @x/macro()", TL_ENOTFOUND, "the macro '%x' is not defined");
    assert_wrong("x = %x", TL_EINVAL, "t.gin:1:5: x: the macro is defined by itself: %x -> %x");
    assert_wrong("a = 1\nb = [%a, {'k': %c}]\nc = (%d,)\nd = %b\nshow.value = %b", TL_EINVAL,
                 "%b -> %c -> %d -> %b");
    assert_wrong("x = %gin.REQUIRED\nEncoderScaffold.hidden = %x", TL_EINVAL,
                 "t.gin:1:1: x: it is set to %gin.REQUIRED, and nothing overrides it");
    assert_wrong("show.value = [%REQUIRED]", TL_EINVAL,
                 "%gin.REQUIRED stands where a value is needed");

    tl_str text = TL_STR_INIT;
    tl_str_add(&text, "m0 = 1\n");
    for (int i = 1; i < 300; i++) tl_str_addf(&text, "m%d = %%m%d\n", i, i - 1);
    // The order of the definitions does not matter, the length of the chain does.
    tl_str_add(&text, "show.value = %m299\n");
    assert_wrong(tl_str_text(&text), TL_ELIMIT, "nested more than 256 deep");
    tl_str_deinit(&text);

    tl_str_add(&text, "m0 = [1, 2]\n");
    for (int i = 1; i < 60; i++) tl_str_addf(&text, "m%d = [%%m%d, %%m%d]\n", i, i - 1, i - 1);
    assert_wrong(tl_str_text(&text), TL_ELIMIT, "macros expand to more than 1048576 values in all");
    tl_str_deinit(&text);
}

static void test_constants(void **state)
{
    tl_gin *gin = gin_of(state);
    fixture *f = *state;
    const tl_value *five = tl_value_new_scalar(f->arena, (tl_place){0}, "5", false);
    assert_ok(tl_gin_constant(gin, "my.module.FIVE", five));
    assert_fails(tl_gin_constant(gin, "module.FIVE", five), TL_EEXISTS,
                 "could not be distinguished from 'my.module.FIVE'");
    assert_fails(tl_gin_constant(gin, "a/b", five), TL_EINVAL,
                 "'a/b' is not a name for a constant");
    assert_ok(tl_gin_constant(gin, "other.FIVE", five));
    static const char *const modes[] = {"fast", "slow", NULL};
    assert_ok(tl_gin_constants(gin, "toys.Mode", modes));
    parse(gin,
          "FIVE = 6\nstrict.size = %module.FIVE\nstrict.mode = %fast\nshow.value = [%Mode.slow]");
    assert_ok(tl_gin_finalize(gin));
    toy *t = call_toy(gin, "strict");
    assert_int_equal(t->number, 5);
    assert_string_equal(t->text, "fast");
    (void)call_toy(gin, "show");
    const char *text = operative(state);
    assert_contains(text, "strict.size = %my.module.FIVE\n");
    assert_contains(text, "strict.mode = %toys.Mode.fast\n");
    assert_contains(text, "show.value = [%toys.Mode.slow]\n");
    assert_lacks(text, "# Macros");
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "Mode.fast"));
    assert_string_equal(v->text, "fast");
    tl_gin_unlock(gin);
    parse(gin, "strict.size = %FIVE");
    assert_fails(tl_gin_finalize(gin), TL_EINVAL, "'%FIVE' is ambiguous");
}

static void test_lock(void **state)
{
    tl_gin *gin = gin_of(state);
    fixture *f = *state;
    parse(gin, "show.value = 1\n");
    assert_ok(tl_gin_finalize(gin));
    assert_true(tl_gin_locked(gin));
    assert_fails(tl_gin_finalize(gin), TL_ESTATE, "finalised already");
    assert_fails(tl_gin_parse(gin, "# fine\nshow.value = 2", "t.gin"), TL_ESTATE, "t.gin:2:1: ");
    assert_contains(tl_error_message(),
                    "'show.value' cannot be bound: the configuration is finalised");
    const tl_value *two = tl_value_new_scalar(f->arena, (tl_place){0}, "2", false);
    assert_fails(tl_gin_bind(gin, "a/show.value", two), TL_ESTATE,
                 "'a/show.value' cannot be bound");
    tl_gin_unlock(gin);
    assert_ok(tl_gin_bind(gin, "a/show.value", two));
    assert_ok(tl_gin_bind(gin, "macro", two));
    assert_fails(tl_gin_bind(gin, "a//b", two), TL_EINVAL, "'a//b' is not the key of a binding");
    assert_ok(tl_gin_finalize(gin));
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "a/show.value"));
    assert_string_equal(v->text, "2");
    assert_ok(tl_gin_query(&v, gin, "macro"));
}

static void test_skip_unknown(void **state)
{
    tl_gin *gin = gin_of(state);
    tl_gin_skip_unknown(gin, true);
    parse(gin, "Nope.x = @AlsoNot\nNope:\n  y = 2\nEncoderScaffold.hidden = 3\n");
    tl_gin_skip_unknown(gin, false);
    assert_ok(tl_gin_finalize(gin));
    assert_int_equal(call_toy(gin, "EncoderScaffold")->number, 3);
    assert_lacks(config_str(state), "Nope");
    // What is known is never skipped, and what is bound must exist.
    tl_gin_unlock(gin);
    tl_gin_skip_unknown(gin, true);
    parse(gin, "EncoderScaffold.nope = 1\nEncoderScaffold.init = @Nope\nAttention.num_heads = 1\n");
    assert_fails(tl_gin_finalize(gin), TL_ENOTFOUND, "has no parameter 'nope'");
    assert_contains(tl_error_message(), "there is no configurable '@Nope'");
    assert_contains(tl_error_message(), "'Attention' is ambiguous");
}

static void test_skip_names(void **state)
{
    tl_gin *gin = gin_of(state);
    const char *names[] = {"Nope", "my.Nope"};
    assert_ok(tl_gin_skip_names(gin, (tl_strings){names, 2}));
    parse(gin, "Nope.x = 1\na/my.Nope.x = 1\n");
    assert_ok(tl_gin_finalize(gin));
    tl_gin_unlock(gin);
    parse(gin, "Nape.x = 1\n");
    assert_fails(tl_gin_finalize(gin), TL_ENOTFOUND, "there is no configurable 'Nape'");
}

static void test_query(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin,
          "EncoderScaffold.hidden = %x\na/networks.EncoderScaffold.hidden = 2\nx = 1\ns/y = 2\n");
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "nlp.networks.EncoderScaffold.hidden"));
    assert_int_equal(v->kind, TL_VALUE_MACRO);
    assert_ok(tl_gin_query(&v, gin, "a/EncoderScaffold.hidden"));
    assert_string_equal(v->text, "2");
    assert_ok(tl_gin_query(&v, gin, "%x"));
    assert_ok(tl_gin_query(&v, gin, "s/y"));
    assert_ok(tl_gin_query(&v, gin, "s/y/gin.macro.value"));
    assert_fails(tl_gin_query(&v, gin, "b/EncoderScaffold.hidden"), TL_ENOTFOUND,
                 "nothing is bound to");
    assert_fails(tl_gin_query(&v, gin, "EncoderScafold.hidden"), TL_ENOTFOUND, "did you mean");
    assert_fails(tl_gin_query(&v, gin, "Attention.num_heads"), TL_EINVAL, "ambiguous");
    assert_fails(tl_gin_query(&v, gin, "y"), TL_ENOTFOUND, "nothing is bound to 'y'");
    assert_fails(tl_gin_query(&v, gin, "a b"), TL_EINVAL, "not the key");
}

/* --- parameters of every type ----------------------------------------------------------------- */

typedef struct holder {
    tl_ref maker;
    int64_t size;
} holder;
static const tl_field holder_fields[] = {
    TL_F(holder, maker, .help = "a reference inside a struct"),
    TL_F(holder, size, .i = 2, .help = "an integer"),
    TL_F_END,
};
static const tl_desc holder_desc = {
    .name = "holder",
    .help = "a struct with a reference",
    .size = sizeof(holder),
    .fields = holder_fields,
};
typedef struct every_args {
    sample base;
    holder held;
    tl_ref favourite;
    tl_ints sizes; /* may be null */
} every_args;
static void every_init(void *value)
{
    ((every_args *)value)->favourite.target = &attention_b.cls;
}
static const tl_field every_fields[] = {
    TL_F_STRUCT(every_args, held, &holder_desc, .help = "held"),
    TL_F(every_args, favourite, .help = "a reference that is not None by default"),
    TL_F(every_args, sizes, .flags = TL_FIELD_NULLABLE, .help = "integers or null"),
    TL_F_END,
};
static const tl_desc every_desc = {
    .name = "every",
    .help = "arguments",
    .size = sizeof(every_args),
    .fields = every_fields,
    .base = &sample_desc,
    .init = every_init,
};
static every_args seen;
static toy *seen_child;
static tl_status every_call(void **out, tl_gin *gin, const void *args)
{
    TL_TRY(tl_desc_copy(tl_gin_payload(gin), &every_desc, &seen, args));
    toy *t;
    TL_TRY(toy_new(&t, gin, "every"));
    TL_TRY(toy_add_ref(t, gin, &seen.held.maker));
    seen_child = t->children[0];
    *out = t;
    return TL_OK;
}
static const tl_configurable_class every = {
    .cls = TL_CONFIGURABLE("toys.every", &every_desc, .help = "has parameters of every type"),
    .call = every_call,
};
static const tl_entry every_entries[] = {{&tl_kind_configurable, &every.cls}};
static const tl_module every_module = {TL_MODULE_HEAD("every"), every_entries, 1};

static void test_every_type(void **state)
{
    fixture *f = *state;
    assert_ok(tl_registry_add(f->registry, &every_module));
    (void)call_toy(f->gin, "every");
    every_args first = seen;
    const char *text = operative(state);
    assert_contains(text, "every.color = 'green'\n");
    assert_contains(text, "every.colors = ['red', 'off']\n");
    assert_contains(text, "every.corner = {'label': 'here', 'x': 0.0, 'y': 1.5}\n");
    assert_contains(text, "every.favourite = @vision.Attention\n");
    assert_contains(text, "every.flags = [True, False]\n");
    assert_contains(text, "every.held = {'maker': None, 'size': 2}\n");
    assert_contains(text, "every.maybe_count = 7\n");
    assert_contains(text, "every.maybe_rate = None\n");
    assert_contains(text, "every.optimizer = None\n");
    assert_contains(text, "every.sizes = None\n");
    assert_contains(text, "every.target = None\n");
    // All of it can be read back, and means the same.
    parse(f->gin, text);
    assert_ok(tl_gin_finalize(f->gin));
    (void)call_toy(f->gin, "every");
    assert_true(tl_desc_equal(&every_desc, &first, &seen));
    assert_string_equal(operative(state), text);
}

static void test_structs_from_dicts(void **state)
{
    fixture *f = *state;
    assert_ok(tl_registry_add(f->registry, &every_module));
    parse(f->gin, "every.origin = {'x': 3}\n"
                  "every.target = {'label': %name}\n"
                  "every.layers = [{'units': 1}, {'name': 'conv', 'kernel': (5, 5)}]\n"
                  "every.optimizer = {'type': 'adam', 'adam': {'beta': 0.5, 'center': {'y': 2}}}\n"
                  "every.held = {'maker': @s/TalkingHeadsAttention()}\n"
                  "every.color = None\nevery.sizes = [1]\nevery.favourite = None\n"
                  "s/TalkingHeadsAttention.num_heads = 3\n"
                  "name = 'there'\n");
    assert_ok(tl_gin_finalize(f->gin));
    (void)call_toy(f->gin, "every");
    assert_true(seen.base.origin.x == 3 && seen.base.origin.y == 1.5);
    assert_string_equal(seen.base.origin.label, "origin");
    assert_string_equal(seen.base.target->label, "there");
    assert_int_equal(seen.base.layers.count, 2);
    assert_int_equal(((layer *)seen.base.layers.items)[1].kernel.items[0], 5);
    assert_string_equal(seen.base.optimizer.type, "adam");
    assert_true(((adam *)seen.base.optimizer.value)->center.y == 2);
    assert_int_equal(seen.base.color, TINT_NONE);
    assert_int_equal(seen.sizes.count, 1);
    assert_null(seen.favourite.target);
    assert_ptr_equal(seen.held.maker.target, &talking_heads.cls);
    assert_string_equal(seen.held.maker.scope, "s");
    assert_int_equal(seen_child->number, 3);
    assert_contains(operative(state), "every.held = {'maker': @s/TalkingHeadsAttention()}\n");

    tl_gin_unlock(f->gin);
    parse(f->gin, "every.origin = {'z': 3}\nevery.layers = [{'units': 'x'}]\n"
                  "every.optimizer = {'type': 'adan'}\nevery.held = {'maker': 5}\n"
                  "every.flags = [True, 1]\nevery.extra = @Zero\n");
    assert_fails(tl_gin_finalize(f->gin), TL_ENOTFOUND, "every.origin.z: unknown key");
    assert_contains(tl_error_message(), "every.layers[0].units: expected an integer");
    assert_contains(tl_error_message(), "every.optimizer.type: ");
    assert_contains(tl_error_message(), "did you mean 'adam'?");
    assert_contains(tl_error_message(), "every.held.maker: expected a reference");
    assert_contains(tl_error_message(), "every.flags[1]: expected true or false");
    assert_contains(tl_error_message(), "every.extra: expected ");
}

static void test_long_names(void **state)
{
    tl_gin *gin = gin_of(state);
    char text[2100];
    memset(text, 'a', sizeof text);
    strcpy(text + 1000, " = 1\n");
    parse(gin, text);
    memset(text, 'a', sizeof text);
    strcpy(text + 1001, " = 1\n");
    assert_fails(tl_gin_parse(gin, text, "t.gin"), TL_ELIMIT, "is longer than 1000 characters");
    memset(text, 'a', sizeof text);
    memcpy(text, "x = @", 5);
    strcpy(text + 1010, "/Zero\n");
    parse(gin, text);
    assert_fails(tl_gin_finalize(gin), TL_ELIMIT, "is longer than 1000 characters");
}

static void test_show_sources(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "TalkingHeadsAttention.num_heads = %x\nx = 3\n");
    assert_ok(tl_gin_parse_param(gin, "TalkingHeadsAttention.dropout = 0.5"));
    tl_gin_show_sources(gin, true);
    (void)call_toy(gin, "TalkingHeadsAttention");
    (void)call_toy(gin, "a/GatedFeedforward");
    const char *text = operative(state);
    assert_contains(text, "# Set in t.gin:2:1:\nx = 3\n");
    assert_contains(text, "# Set in t.gin:1:1:\nTalkingHeadsAttention.num_heads = %x\n");
    assert_contains(text, "# Set in --gin_params 'TalkingHeadsAttention.dropout = 0.5':\n");
    assert_contains(text, "# Set in the defaults:\na/GatedFeedforward.dropout = 0.0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_names),
        cmocka_unit_test(test_wrong_types),
        CASE(test_everything_at_once),
        CASE(test_macros),
        cmocka_unit_test(test_bad_macros),
        CASE(test_constants),
        CASE(test_lock),
        CASE(test_skip_unknown),
        CASE(test_skip_names),
        CASE(test_query),
        CASE(test_every_type),
        CASE(test_structs_from_dicts),
        CASE(test_long_names),
        CASE(test_show_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
