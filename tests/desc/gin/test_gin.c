/* gin's calls: what configurables get, scopes, singletons, `_target_`, and what is written out. */
#include <tilth/base/alloc.h>
#include <tilth/desc/yaml.h>

#include "desc/gin_setup.h"

/* The configuration that Model Garden's requirements ask for: attention and feed-forward layers of
 * an encoder are replaced in text alone. */
static void test_talking_gated_encoder(void **state)
{
    tl_gin *gin = gin_of(state);
    assert_ok(tl_gin_parse_file(gin, TEST_DATA "/data/talking_gated_encoder.gin"));
    assert_ok(tl_gin_finalize(gin));
    toy *encoder = call_toy(gin, "build_encoder");
    assert_string_equal(encoder->name, "EncoderScaffold");
    assert_int_equal(encoder->count, 2);
    for (int i = 0; i < 2; i++) {
        toy *layer = encoder->children[i];
        assert_string_equal(layer->name, "TransformerScaffold");
        assert_int_equal(layer->count, 2);
        assert_string_equal(layer->children[0]->name, "TalkingHeadsAttention");
        assert_int_equal(layer->children[0]->number, 12);
        assert_string_equal(layer->children[1]->name, "GatedFeedforward");
        assert_int_equal(layer->children[1]->number, true);
    }
    assert_ptr_not_equal(encoder->children[0], encoder->children[1]);
    assert_int_equal(toys_made, 7);
    const char *text = operative(state);
    assert_contains(text, "# Parameters for build_encoder:\n");
    assert_contains(text, "build_encoder.encoder_cls = @EncoderScaffold\n");
    assert_contains(text, "TransformerScaffold.feedforward_cls = @GatedFeedforward\n");
}

static void test_precedence(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "EncoderScaffold.hidden = 1\nEncoderScaffold.activation = 'relu'\n");
    tl_gin_call *call;
    void *object;
    assert_ok(tl_gin_call_begin(&call, gin, "EncoderScaffold"));
    encoder_args *args = tl_gin_call_args(call);
    assert_int_equal(args->hidden, 768);
    args->hidden = 2;
    tl_gin_call_give(call, "hidden");
    args->dropout = 0.75; // not said to be given, and not bound: it stays
    assert_ok(tl_gin_call_run(&object, &call));
    assert_null(call);
    toy *t = object;
    assert_int_equal(t->number, 2);
    assert_string_equal(t->text, "relu");
    const char *text = operative(state);
    assert_lacks(text, "EncoderScaffold.hidden ");
    assert_contains(text, "EncoderScaffold.activation = 'relu'\n");
    // Used once without being given, it is told.
    (void)call_toy(gin, "EncoderScaffold");
    assert_contains(operative(state), "EncoderScaffold.hidden = 1\n");
}

static void test_required(void **state)
{
    tl_gin *gin = gin_of(state);
    void *object;
    assert_fails(tl_gin_call_name(&object, gin, "a/strict"), TL_EINVAL,
                 "a/toys.strict: required parameters have no value; bind a/strict.size in gin");
    assert_null(object);
    tl_gin_call *call;
    assert_ok(tl_gin_call_begin(&call, gin, "strict"));
    tl_gin_call_require(call, "words");
    tl_gin_call_require(call, "mode");
    assert_fails(tl_gin_call_run(&object, &call), TL_EINVAL,
                 "bind strict.mode, strict.size, strict.words");
    assert_null(call);

    assert_ok(tl_gin_call_begin(&call, gin, "strict"));
    ((strict_args *)tl_gin_call_args(call))->size = 4;
    tl_gin_call_give(call, "size");
    assert_ok(tl_gin_call_run(&object, &call));
    assert_int_equal(((toy *)object)->number, 4);

    parse(gin, "strict.size = %gin.REQUIRED\nstrict.mode = 'fast'\n");
    assert_fails(tl_gin_call_name(&object, gin, "strict"), TL_EINVAL, "bind strict.size in gin");
    parse(gin, "strict.size = 5\n");
    assert_ok(tl_gin_call_begin(&call, gin, "strict"));
    tl_gin_call_require(call, "mode");
    assert_ok(tl_gin_call_run(&object, &call));
    assert_string_equal(((toy *)object)->text, "fast");
    assert_contains(operative(state), "strict.mode = 'fast'\n");
    assert_lacks(operative(state), "secret");
}

static void test_scopes(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "EncoderScaffold.hidden = 1\na/EncoderScaffold.hidden = 2\n"
               "a/b/EncoderScaffold.hidden = 3\na/EncoderScaffold.activation = 'a'\n");
    assert_string_equal(tl_gin_scope(gin), "");
    assert_int_equal(call_toy(gin, "EncoderScaffold")->number, 1);
    assert_ok(tl_gin_scope_begin(gin, "a"));
    assert_int_equal(call_toy(gin, "EncoderScaffold")->number, 2);
    assert_ok(tl_gin_scope_begin(gin, "b/c"));
    assert_string_equal(tl_gin_scope(gin), "a/b/c");
    toy *t = call_toy(gin, "EncoderScaffold");
    assert_int_equal(t->number, 3);
    assert_string_equal(t->text, "a");
    // Scopes in a name stand in place of the current ones.
    assert_int_equal(call_toy(gin, "b/EncoderScaffold")->number, 1);
    assert_ok(tl_gin_scope_begin(gin, NULL));
    assert_string_equal(tl_gin_scope(gin), "");
    assert_int_equal(call_toy(gin, "EncoderScaffold")->number, 1);
    tl_gin_scope_end(gin);
    tl_gin_scope_end(gin);
    assert_string_equal(tl_gin_scope(gin), "a");
    tl_gin_scope_end(gin);
    assert_fails(tl_gin_scope_begin(gin, "a//b"), TL_EINVAL, "'a//b' is not a scope");
    assert_fails(tl_gin_scope_begin(gin, "a b"), TL_EINVAL, "'a b' is not a scope");
    char longest[1100];
    memset(longest, 'x', sizeof longest);
    longest[1099] = '\0';
    assert_fails(tl_gin_scope_begin(gin, longest), TL_ELIMIT, "longer than 1000");
    assert_string_equal(tl_gin_scope(gin), "");
    const char *text = operative(state);
    assert_contains(text, "a/b/c/EncoderScaffold.hidden = 3\n");
    assert_contains(text, "# Parameters for b/EncoderScaffold:\n");
}

static void test_references(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "EncoderScaffold.hidden_cls = @big/TransformerScaffold\n"
               "EncoderScaffold.init = @Zero()\n"
               "TransformerScaffold.attention_cls = @nlp.layers.Attention\n"
               "nlp.layers.Attention.num_heads = 1\n"
               "big/nlp.layers.Attention.num_heads = 16\n"
               "s/nlp.layers.Attention.num_heads = 2\n"
               "big/TransformerScaffold.inner = 9\n");
    toy *t = call_toy(gin, "s/EncoderScaffold");
    assert_int_equal(t->count, 3);
    // The layer runs in the scope of its reference, and what it calls does so too.
    assert_int_equal(t->children[0]->number, 9);
    assert_int_equal(t->children[0]->children[0]->number, 16);
    assert_string_equal(t->children[2]->name, "Zero");
    assert_int_equal(t->children[2]->serial, 0); // an argument comes before the consumer
    assert_contains(operative(state), "# Parameters for s/Zero:\n");
    // Without scopes of its own, a handle runs in the scope where it is called.
    assert_int_equal(call_toy(gin, "s/TransformerScaffold")->children[0]->number, 2);
    // `@name()` is called anew for each consumer.
    toy *again = call_toy(gin, "s/EncoderScaffold");
    assert_ptr_not_equal(again->children[2], t->children[2]);
}

/* Keeps what it was bound to. */
typedef struct keeper_args {
    tl_ref made;
} keeper_args;
static tl_ref kept;
static tl_status keeper_call(void **out, tl_gin *gin, const void *args)
{
    kept = ((const keeper_args *)args)->made;
    return zero_call(out, gin, NULL);
}
static const tl_field keeper_fields[] = {
    TL_F(keeper_args, made, .help = "kept"),
    TL_F_END,
};
static const tl_desc keeper_desc = {
    .name = "keeper",
    .help = "arguments",
    .size = sizeof(keeper_args),
    .fields = keeper_fields,
};
static const tl_configurable_class keeper = {
    .cls = TL_CONFIGURABLE("toys.keeper", &keeper_desc, .help = "keeps its argument"),
    .call = keeper_call,
};

static int freed;
static int *last_freed;
static tl_status counted_call(void **out, tl_gin *gin, const void *args)
{
    (void)gin;
    (void)args;
    *out = tl_alloc_zero(sizeof(int));
    return *out ? TL_OK : TL_FAIL_NOMEM(sizeof(int));
}
static void counted_free(void *object)
{
    freed++;
    last_freed = object;
    tl_free(object);
}
static const tl_configurable_class counted = {
    .cls = TL_CONFIGURABLE("toys.counted", NULL, .help = "is freed by gin"),
    .call = counted_call,
    .free = counted_free,
};
/* Inherits everything but its name. */
static const tl_configurable_class derived = {
    .cls = TL_CONFIGURABLE("toys.derived", NULL, .base = &counted.cls, .help = "as its base"),
};
static tl_status failing_call(void **out, tl_gin *gin, const void *args)
{
    (void)out;
    (void)args;
    TL_TRY(tl_gin_scope_begin(gin, "left/open"));
    return TL_FAIL(TL_EIO, "the disk is full");
}
static const tl_configurable_class failing = {
    .cls = TL_CONFIGURABLE("toys.failing", NULL, .help = "fails"),
    .call = failing_call,
};
/* Has something to say about two parameters at once. */
typedef struct span_args {
    int64_t low, high, later;
} span_args;
static tl_status span_check(const void *value)
{
    const span_args *a = value;
    return a->low <= a->high ? TL_OK : TL_FAIL(TL_EINVAL, "low is above high");
}
static const tl_field span_fields[] = {
    TL_F(span_args, low, .i = 1, .help = "first"),
    TL_F(span_args, high, .i = 5, .help = "last"),
    TL_F(span_args, later, .flags = TL_FIELD_LATER, .help = "write low instead"),
    TL_F_END,
};
static const tl_desc span_desc = {
    .name = "span",
    .help = "arguments",
    .size = sizeof(span_args),
    .fields = span_fields,
    .check = span_check,
};
static tl_status span_call(void **out, tl_gin *gin, const void *args)
{
    (void)args;
    return zero_call(out, gin, NULL);
}
static const tl_configurable_class span = {
    .cls = TL_CONFIGURABLE("toys.span", &span_desc, .help = "checks its arguments"),
    .call = span_call,
};
static const tl_entry more_entries[] = {
    {&tl_kind_configurable, &span.cls},    {&tl_kind_configurable, &keeper.cls},
    {&tl_kind_configurable, &counted.cls}, {&tl_kind_configurable, &derived.cls},
    {&tl_kind_configurable, &failing.cls},
};
static const tl_module more_module = {TL_MODULE_HEAD("more"), more_entries, TL_COUNT(more_entries)};

static int setup_more(void **state)
{
    setup(state);
    assert_ok(tl_registry_add(((fixture *)*state)->registry, &more_module));
    freed = 0;
    return 0;
}

static void test_handles_can_be_kept(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "keeper.made = @deep/scope/TalkingHeadsAttention\n"
               "deep/scope/TalkingHeadsAttention.num_heads = 3\n");
    (void)call_toy(gin, "keeper");
    assert_ptr_equal(kept.target, &talking_heads.cls);
    assert_string_equal(kept.scope, "deep/scope");
    assert_null(kept.object);
    for (int i = 0; i < 3; i++) {
        void *object;
        assert_ok(tl_gin_call_ref(&object, gin, &kept));
        assert_int_equal(((toy *)object)->number, 3);
    }
    // With arguments of the caller's.
    tl_gin_call *call;
    void *object;
    assert_ok(tl_gin_call_begin_ref(&call, gin, &kept));
    ((attention_args *)tl_gin_call_args(call))->num_heads = 8;
    tl_gin_call_give(call, "num_heads");
    assert_ok(tl_gin_call_run(&object, &call));
    assert_int_equal(((toy *)object)->number, 8);

    parse(gin, "keeper.made = @Zero()");
    (void)call_toy(gin, "keeper");
    assert_non_null(kept.object);
    assert_fails(tl_gin_call_ref(&object, gin, &kept), TL_EINVAL,
                 "'toys.Zero' was called when it was bound");
    parse(gin, "keeper.made = None");
    (void)call_toy(gin, "keeper");
    assert_null(kept.target);
    assert_fails(tl_gin_call_ref(&object, gin, &kept), TL_EINVAL, "the reference is None");
}

static void test_ownership(void **state)
{
    fixture *f = *state;
    parse(f->gin, "keeper.made = @counted()\nshared/keeper.made = @shared/gin.singleton()\n"
                  "shared/gin.singleton.constructor = @derived\n");
    void *object, *argument;
    assert_ok(tl_gin_call_name(&object, f->gin, "keeper"));
    argument = kept.object;
    assert_ok(tl_gin_call_name(&object, f->gin, "keeper"));
    assert_ptr_not_equal(kept.object, argument);
    assert_ok(tl_gin_call_name(&object, f->gin, "shared/keeper"));
    void *single = kept.object;
    assert_ok(tl_gin_call_name(&object, f->gin, "shared/keeper"));
    assert_ptr_equal(kept.object, single);
    assert_ok(tl_gin_call_name(&object, f->gin, "shared/gin.singleton"));
    assert_ptr_equal(object, single);
    assert_ok(tl_gin_call_name(&object, f->gin, "counted")); // this one is ours
    assert_int_equal(freed, 0);
    tl_gin_free(&f->gin);
    assert_int_equal(freed, 3);
    assert_ptr_equal(last_freed, argument);
    counted_free(object);
}

static void test_singletons(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin,
          "show.value = [@one/singleton(), @one/gin.singleton(), @two/singleton()]\n"
          "one/singleton.constructor = @TalkingHeadsAttention\n"
          "two/singleton.constructor = @other/TalkingHeadsAttention\n"
          "one/TalkingHeadsAttention.num_heads = 1\nother/TalkingHeadsAttention.num_heads = 2\n");
    assert_ok(tl_gin_finalize(gin));
    toy *t = call_toy(gin, "show");
    assert_ptr_equal(t->children[0], t->children[1]);
    assert_int_equal(t->children[0]->number, 1);
    assert_int_equal(t->children[2]->number, 2);
    assert_ptr_equal(call_toy(gin, "show")->children[0], t->children[0]);
    const char *text = operative(state);
    assert_contains(text, "# Parameters for one/singleton:\n");
    assert_contains(text, "one/singleton.constructor = @TalkingHeadsAttention\n");
    tl_gin_unlock(gin);
    parse(gin, "show.other = [@none/gin.singleton()]\ntwo/singleton.constructor = @Zero()\n");
    assert_fails(tl_gin_finalize(gin), TL_ENOTFOUND, "write '@Zero' without '()'");
    assert_contains(tl_error_message(), "the singleton 'none' has no constructor; bind "
                                        "none/gin.singleton.constructor = @name");
}

static void test_references_in_values(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "show.value = [@Zero, {'k': (@TalkingHeadsAttention(), %m, %m)}]\n"
               "m = @GatedFeedforward()\nm/GatedFeedforward.dropout = 0.5\n");
    toy *t = call_toy(gin, "show");
    assert_int_equal(t->count, 4);
    assert_string_equal(t->children[0]->name, "Zero");
    assert_int_equal(t->children[0]->serial, 4); // called by show itself, after all arguments
    assert_string_equal(t->children[1]->name, "TalkingHeadsAttention");
    assert_ptr_not_equal(t->children[2], t->children[3]);
    assert_true(t->children[2]->real == 0.5); // what a macro calls runs in the macro's scope
    tl_ref ref;
    const tl_value *v;
    assert_ok(tl_gin_query(&v, gin, "show.value"));
    assert_fails(tl_gin_value_ref(&ref, gin, v), TL_EINVAL,
                 "t.gin:1:14: expected a reference, found a list");
    assert_fails(tl_gin_value_ref(&ref, gin, v->items[0]), TL_ESTATE,
                 "no configurable is being called");
}

static void test_failures_name_the_call(void **state)
{
    tl_gin *gin = gin_of(state);
    void *object = gin;
    parse(gin, "build_encoder.encoder_cls = @a/EncoderScaffold\n"
               "a/EncoderScaffold.init = @failing()\n");
    assert_fails(
        tl_gin_call_name(&object, gin, "build_encoder"), TL_EIO,
        "encoders.build_encoder: a/nlp.networks.EncoderScaffold: argument init (t.gin:2:1): "
        "a/toys.failing: the disk is full");
    assert_null(object);
    assert_string_equal(tl_gin_scope(gin), ""); // also after a body that left one open
    assert_fails(tl_gin_call_name(&object, gin, "build_encodr"), TL_ENOTFOUND,
                 "there is no configurable 'build_encodr', did you mean 'build_encoder'?");
    assert_fails(tl_gin_call_name(&object, gin, "Attention"), TL_EINVAL, "ambiguous");
    assert_fails(tl_gin_call_name(&object, gin, "a b"), TL_EINVAL,
                 "'a b' is not the name of a configurable");
    assert_fails(tl_gin_call_name(&object, gin, "x/gin.macro"), TL_EINVAL, "bind x/macro.value");
    tl_gin_call *call;
    assert_ok(tl_gin_call_begin(&call, gin, "EncoderScaffold"));
    tl_gin_call_give(call, "hiden");
    assert_fails(
        tl_gin_call_run(&object, &call), TL_ENOTFOUND,
        "nlp.networks.EncoderScaffold: there is no parameter 'hiden', did you mean 'hidden'?");
    assert_ok(tl_gin_call_begin(&call, gin, "EncoderScaffold"));
    tl_gin_call_free(&call);
    assert_null(call);
}

static void test_arguments_are_checked(void **state)
{
    tl_gin *gin = gin_of(state);
    void *object;
    (void)call_toy(gin, "span");
    parse(gin, "span.low = 9\nspan.high = 20\n");
    (void)call_toy(gin, "span");
    tl_gin_call *call;
    assert_ok(tl_gin_call_begin(&call, gin, "span"));
    ((span_args *)tl_gin_call_args(call))->high = 3;
    tl_gin_call_give(call, "high");
    assert_fails(tl_gin_call_run(&object, &call), TL_EINVAL, "toys.span: low is above high");
    parse(gin, "span.later = 1\n");
    assert_fails(tl_gin_call_name(&object, gin, "span"), TL_EUNSUPPORTED,
                 "toys.span: later: not available yet");
}

static void test_recursion(void **state)
{
    tl_gin *gin = gin_of(state);
    void *object;
    parse(gin, "EncoderScaffold.init = @EncoderScaffold()\n");
    assert_fails(tl_gin_call_name(&object, gin, "EncoderScaffold"), TL_EINVAL,
                 "the configurable is an argument of itself: nlp.networks.EncoderScaffold -> "
                 "nlp.networks.EncoderScaffold");
    parse(gin, "EncoderScaffold.init = @a/show()\na/show.value = [@TransformerScaffold()]\n"
               "TransformerScaffold.attention_cls = @a/EncoderScaffold()\n");
    assert_fails(
        tl_gin_call_name(&object, gin, "EncoderScaffold"), TL_EINVAL,
        "a/toys.show -> a/nlp.layers.TransformerScaffold -> a/nlp.networks.EncoderScaffold -> "
        "a/toys.show");
    // Through a singleton.
    parse(gin, "EncoderScaffold.init = @s/gin.singleton()\n"
               "s/gin.singleton.constructor = @EncoderScaffold\n");
    assert_fails(tl_gin_call_name(&object, gin, "EncoderScaffold"), TL_EINVAL,
                 "is an argument of itself");
    // A body that calls itself for ever.
    parse(gin, "EncoderScaffold.init = None\nEncoderScaffold.hidden_cls = @EncoderScaffold\n");
    assert_fails(tl_gin_call_name(&object, gin, "EncoderScaffold"), TL_ELIMIT,
                 "nested more than 256 deep");
    assert_contains(tl_error_message(), "nlp.networks.EncoderScaffold: ...: ");
    // One that stops is fine: in another scope it has no layers.
    parse(gin,
          "EncoderScaffold.hidden_cls = @last/EncoderScaffold\nlast/EncoderScaffold.layers = 0\n");
    assert_int_equal(call_toy(gin, "EncoderScaffold")->count, 2);
    assert_string_equal(tl_gin_scope(gin), "");
}

static void test_too_many_calls(void **state)
{
    tl_gin *gin = gin_of(state);
    tl_str text = TL_STR_INIT;
    for (int i = 0; i < 30; i++)
        tl_str_addf(&text, "s%d/show.value = [@s%d/show(), @s%d/show()]\n", i, i + 1, i + 1);
    parse(gin, tl_str_text(&text));
    tl_str_deinit(&text);
    void *object;
    assert_fails(tl_gin_call_name(&object, gin, "s0/show"), TL_ELIMIT,
                 "more than 65536 arguments '@name()' are called for one call");
    assert_ok(tl_gin_call_name(&object, gin, "s20/show"));
}

/* --- _target_ --------------------------------------------------------------------------------- */

static const tl_value *yaml(void **state, const char *text)
{
    const tl_value *v;
    assert_ok(tl_yaml_parse(&v, ((fixture *)*state)->arena, text, strlen(text), "c.yaml"));
    return v;
}

static void test_instantiate(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "EncoderScaffold.hidden = 5\nEncoderScaffold.dropout = 0.5\n"
               "TalkingHeadsAttention.num_heads = 6\n");
    void *object;
    assert_ok(tl_instantiate(&object, gin,
                             yaml(state, "_target_: EncoderScaffold\n"
                                         "hidden: 9\n"
                                         "activation: relu\n"
                                         "sizes: [1, 2]\n"
                                         "init:\n"
                                         "  _target_: a/nlp.layers.TransformerScaffold\n"
                                         "  attention_cls: {_target_: TalkingHeadsAttention}\n")));
    toy *t = object;
    assert_int_equal(t->number, 9);
    assert_string_equal(t->text, "relu");
    assert_true(t->real == 0.5);
    assert_string_equal(t->children[0]->name, "TransformerScaffold");
    assert_int_equal(t->children[0]->children[0]->number, 6);
    assert_int_equal(t->children[0]->children[0]->serial, 0);
    const char *text = operative(state);
    assert_lacks(text, "EncoderScaffold.hidden ");
    assert_contains(text, "EncoderScaffold.dropout = 0.5\n");
    assert_contains(text, "# Parameters for a/TransformerScaffold:\n");
}

static void test_bad_instantiate(void **state)
{
    tl_gin *gin = gin_of(state);
    void *object;
    static const struct {
        const char *text;
        tl_status code;
        const char *message;
    } rows[] = {
        {"a: 1", TL_EINVAL, "c.yaml:1:1: expected a map with the key '_target_'"},
        {"[1]", TL_EINVAL, "expected a map with the key '_target_'"},
        {"_target_: [a]", TL_EINVAL, "'_target_' must be the name of a configurable"},
        {"_target_: null", TL_EINVAL, "'_target_' must be the name of a configurable"},
        {"_target_: Encoder Scaffold", TL_EINVAL,
         "c.yaml:1:11: 'Encoder Scaffold' is not the name"},
        {"_target_: EncoderScafold", TL_ENOTFOUND, "did you mean 'EncoderScaffold'?"},
        {"_target_: Zero\n_args_: [1]", TL_EUNSUPPORTED,
         "c.yaml:2:1: _args_: arguments have names here"},
        {"_target_: Zero\n_partial_: true", TL_EUNSUPPORTED,
         "_partial_: this key is not supported"},
        {"_target_: strict\nsecret: 1", TL_EINVAL, "bind strict.size"},
        {"_target_: EncoderScaffold\ninit:\n  _target_: Nope", TL_ENOTFOUND,
         "c.yaml:3:13: there is no"},
        {"_target_: EncoderScaffold\ninit: {a: 1}", TL_EINVAL, "init: expected a reference"},
        {"_target_: EncoderScaffold\ninit: {_target_: [1]}", TL_EINVAL, "must be the name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_fails(tl_instantiate(&object, gin, yaml(state, rows[i].text)), rows[i].code,
                     rows[i].message);
        assert_null(object);
    }
    assert_fails(tl_instantiate(&object, gin,
                                yaml(state, "_target_: EncoderScaffold\nhidden: x\nhiden: 1\n"
                                            "dropout: 3\n")),
                 TL_EINVAL, "c.yaml:2:9: hidden: expected an integer");
    assert_contains(tl_error_message(),
                    "c.yaml:3:1: hiden: 'nlp.networks.EncoderScaffold' has no parameter of "
                    "this name, did you mean 'hidden'?");
    assert_contains(tl_error_message(), "dropout: must be between");
}

/* --- out -------------------------------------------------------------------------------------- */

static void test_layout(void **state)
{
    tl_gin *gin = gin_of(state);
    parse(gin, "import toys\n"
               "b = 1\nA = 'x'\n"
               "show.value = ['a long list of words', 'that does not fit', 'into one line of "
               "eighty', 1e-5]\n"
               "show.other = {'z': (1,), 'a': None, 3: %b, 'text': 'it is longer than the rest of "
               "the line, "
               "so that it is broken between words'}\n"
               "s/show.value = %A\n");
    assert_ok(tl_gin_finalize(gin));
    (void)call_toy(gin, "show");
    (void)call_toy(gin, "s/show");
    (void)call_toy(gin, "Zero");
    assert_string_equal(
        operative(state),
        "import toys\n"
        "\n"
        "# Macros:\n"
        "# ==============================================================================\n"
        "A = 'x'\n"
        "b = 1\n"
        "\n"
        "# Parameters for show:\n"
        "# ==============================================================================\n"
        "show.other = \\\n"
        "    {3: %b,\n"
        "     'a': None,\n"
        "     'text': 'it is longer than the rest of the line, so that it is broken '\n"
        "             'between words',\n"
        "     'z': (1,)}\n"
        "show.value = \\\n"
        "    ['a long list of words',\n"
        "     'that does not fit',\n"
        "     'into one line of eighty',\n"
        "     1e-05]\n"
        "\n"
        "# Parameters for s/show:\n"
        "# ==============================================================================\n"
        "s/show.other = \\\n"
        "    {3: %b,\n"
        "     'a': None,\n"
        "     'text': 'it is longer than the rest of the line, so that it is broken '\n"
        "             'between words',\n"
        "     'z': (1,)}\n"
        "s/show.value = %A\n"
        "\n"
        "# Parameters for Zero:\n"
        "# ==============================================================================\n"
        "# None.\n");
}

static void test_nothing(void **state)
{
    assert_string_equal(operative(state), "");
    assert_string_equal(config_str(state), "");
}

/* --- without memory --------------------------------------------------------------------------- */

static tl_status whole_story(tl_str *out)
{
    tl_registry *registry = NULL;
    tl_gin *gin = NULL;
    tl_arena *arena = NULL;
    void *object;
    tl_status st;
    TL_TRY_DONE(st, tl_registry_new(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &toy_module));
    TL_TRY_DONE(st, tl_registry_add(registry, &more_module));
    TL_TRY_DONE(st, tl_gin_new(&gin, registry));
    TL_TRY_DONE(st, tl_arena_new(&arena));
    tl_gin_set_payload(gin, arena);
    TL_TRY_DONE(st, tl_gin_constant(gin, "a.ONE", &(tl_value){.text = "1", .weight = 1}));
    TL_TRY_DONE(st, tl_gin_parse(gin,
                                 "import toys\n"
                                 "x = [1, %y, {'k': 'a' 'b'}]\ny = %ONE\n"
                                 "a/show.value = [%x, @Zero, @s/Zero(), @counted()]\n"
                                 "keeper.made = @k/gin.singleton()\n"
                                 "k/gin.singleton.constructor = @derived\n"
                                 "EncoderScaffold:\n  hidden_cls = @a/show\n  hidden = %ONE\n"
                                 "  sizes = [1, 2]\n  activation = 'relu'\n",
                                 "t.gin"));
    TL_TRY_DONE(st, tl_gin_parse_param(gin, "EncoderScaffold.hidden = 0x10"));
    TL_TRY_DONE(st, tl_gin_finalize(gin));
    TL_TRY_DONE(st, tl_gin_scope_begin(gin, "outer"));
    TL_TRY_DONE(st, tl_gin_call_name(&object, gin, "EncoderScaffold"));
    tl_gin_scope_end(gin);
    TL_TRY_DONE(st, tl_gin_call_name(&object, gin, "keeper"));
    const tl_value *map;
    const char text[] = "{_target_: EncoderScaffold, init: {_target_: Zero}}";
    TL_TRY_DONE(st, tl_yaml_parse(&map, arena, text, strlen(text), "c.yaml"));
    TL_TRY_DONE(st, tl_instantiate(&object, gin, map));
    TL_TRY_DONE(st, tl_gin_operative(out, gin));
    TL_TRY_DONE(st, tl_gin_config_str(out, gin));
done:
    tl_gin_free(&gin);
    tl_arena_free(&arena);
    tl_registry_free(&registry);
    return st;
}

static void test_without_memory(void **state)
{
    (void)state;
    tl_str wanted = TL_STR_INIT;
    int64_t before = tl_alloc_calls();
    assert_ok(whole_story(&wanted));
    int64_t calls = tl_alloc_calls() - before;
    assert_true(calls > 100);
    for (int64_t nth = 1; nth <= calls; nth++) {
        tl_str out = TL_STR_INIT;
        tl_alloc_fail_at(nth, 1);
        tl_status st = whole_story(&out);
        tl_alloc_fail_at(0, 0);
        // A suggestion or the like may be left out; nothing else may go wrong unseen.
        if (st == TL_OK) assert_string_equal(tl_str_text(&out), tl_str_text(&wanted));
        else if (st != TL_ENOMEM)
            fail_msg("allocation %lld: '%s': %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        tl_str_deinit(&out);
    }
    tl_str_deinit(&wanted);
}

#define CASE_MORE(name) cmocka_unit_test_setup_teardown(name, setup_more, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_talking_gated_encoder),
        CASE(test_precedence),
        CASE(test_required),
        CASE(test_scopes),
        CASE(test_references),
        CASE_MORE(test_handles_can_be_kept),
        CASE_MORE(test_ownership),
        CASE(test_singletons),
        CASE(test_references_in_values),
        CASE_MORE(test_failures_name_the_call),
        CASE_MORE(test_arguments_are_checked),
        CASE(test_recursion),
        CASE(test_too_many_calls),
        CASE(test_instantiate),
        CASE(test_bad_instantiate),
        CASE(test_layout),
        CASE(test_nothing),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
