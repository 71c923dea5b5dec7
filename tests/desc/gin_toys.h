/* Configurables to try gin with: tests, the fuzz target and the interoperability driver share them.
 * check_gin.py has the same ones in Python; both lists must agree. */
#ifndef TILTH_TESTS_GIN_TOYS_H
#define TILTH_TESTS_GIN_TOYS_H

#include <tilth/desc/gin.h>

#include <math.h>
#include <string.h>

/* What all of them make. It lives in the arena that is gin's payload. */
typedef struct toy {
    const char *name;
    int serial; /* toys made before it */
    int64_t number;
    double real;
    const char *text;
    struct toy *children[8];
    int count;
} toy;

static int toys_made;

static inline tl_status toy_new(toy **out, tl_gin *gin, const char *name)
{
    *out = tl_arena_alloc(tl_gin_payload(gin), sizeof **out);
    if (!*out) return TL_ENOMEM;
    (*out)->name = name;
    (*out)->text = "";
    (*out)->serial = toys_made++;
    return TL_OK;
}

static inline void toy_add(toy *parent, void *child)
{
    if (child && parent->count < 8) parent->children[parent->count++] = child;
}

/* Adds what a reference was called for, or what calling it now gives. */
static inline tl_status toy_add_ref(toy *parent, tl_gin *gin, const tl_ref *ref)
{
    void *child = ref->object;
    if (!ref->target) return TL_OK;
    if (!child) TL_TRY(tl_gin_call_ref(&child, gin, ref));
    toy_add(parent, child);
    return TL_OK;
}

/* --- the encoder of Model Garden, in miniature ------------------------------------------------ */

typedef struct build_encoder_args {
    tl_ref encoder_cls;
} build_encoder_args;
static const tl_field build_encoder_fields[] = {
    TL_F(build_encoder_args, encoder_cls, .help = "what to build"),
    TL_F_END,
};
static const tl_desc build_encoder_desc = {
    .name = "build_encoder",
    .help = "arguments",
    .size = sizeof(build_encoder_args),
    .fields = build_encoder_fields,
};
static inline tl_status build_encoder_call(void **out, tl_gin *gin, const void *args)
{
    const build_encoder_args *a = args;
    if (!a->encoder_cls.target) return TL_FAIL(TL_EINVAL, "there is no encoder to build");
    return tl_gin_call_ref(out, gin, &a->encoder_cls);
}
static const tl_configurable_class build_encoder = {
    .cls =
        TL_CONFIGURABLE("encoders.build_encoder", &build_encoder_desc, .help = "builds an encoder"),
    .call = build_encoder_call,
};

typedef struct encoder_args {
    int64_t layers, hidden;
    double dropout;
    const char *activation, *name;
    tl_ints sizes;
    tl_opt_int seed;
    tl_ref hidden_cls, init;
} encoder_args;
static const tl_field encoder_fields[] = {
    TL_F(encoder_args, layers, .i = 2, TL_RANGE(0, 8), .help = "how many"),
    TL_F(encoder_args, hidden, .i = 768, .help = "units"),
    TL_F(encoder_args, dropout, .d = 0.1, TL_RANGE(0, 1), .help = "share of units dropped"),
    TL_F(encoder_args, activation, .s = "gelu", .help = "of the hidden layers"),
    TL_F(encoder_args, name, .flags = TL_FIELD_NULLABLE, .help = "of the layer"),
    TL_F(encoder_args, sizes, TL_DEFAULT_LIST(int64_t, 128, 128), .help = "of the pictures"),
    TL_F(encoder_args, seed, .help = "null draws one"),
    TL_F(encoder_args, hidden_cls, .help = "called once for each layer"),
    TL_F(encoder_args, init, .help = "what fills the weights"),
    TL_F_END,
};
static const tl_desc encoder_desc = {
    .name = "EncoderScaffold",
    .help = "arguments",
    .size = sizeof(encoder_args),
    .fields = encoder_fields,
};
static inline tl_status encoder_call(void **out, tl_gin *gin, const void *args)
{
    const encoder_args *a = args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "EncoderScaffold"));
    t->number = a->hidden;
    t->real = a->dropout;
    t->text = tl_arena_strdup(tl_gin_payload(gin), a->activation);
    for (int64_t i = 0; i < a->layers; i++) TL_TRY(toy_add_ref(t, gin, &a->hidden_cls));
    TL_TRY(toy_add_ref(t, gin, &a->init));
    *out = t;
    return TL_OK;
}
static const tl_configurable_class encoder_scaffold = {
    .cls = TL_CONFIGURABLE("nlp.networks.EncoderScaffold", &encoder_desc, .help = "an encoder"),
    .call = encoder_call,
};

typedef struct transformer_args {
    tl_ref attention_cls, feedforward_cls;
    int64_t inner;
} transformer_args;
static const tl_field transformer_fields[] = {
    TL_F(transformer_args, attention_cls, .help = "attention"),
    TL_F(transformer_args, feedforward_cls, .help = "what follows it"),
    TL_F(transformer_args, inner, .i = 3072, .help = "units between"),
    TL_F_END,
};
static const tl_desc transformer_desc = {
    .name = "TransformerScaffold",
    .help = "arguments",
    .size = sizeof(transformer_args),
    .fields = transformer_fields,
};
static inline tl_status transformer_call(void **out, tl_gin *gin, const void *args)
{
    const transformer_args *a = args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "TransformerScaffold"));
    t->number = a->inner;
    TL_TRY(toy_add_ref(t, gin, &a->attention_cls));
    TL_TRY(toy_add_ref(t, gin, &a->feedforward_cls));
    *out = t;
    return TL_OK;
}
static const tl_configurable_class transformer_scaffold = {
    .cls = TL_CONFIGURABLE("nlp.layers.TransformerScaffold", &transformer_desc, .help = "a layer"),
    .call = transformer_call,
};

typedef struct attention_args {
    int64_t num_heads;
    double dropout;
} attention_args;
static const tl_field attention_fields[] = {
    TL_F(attention_args, num_heads, .i = 12, TL_AT_LEAST(1), .help = "heads"),
    TL_F(attention_args, dropout, .d = 0.0, .help = "share of weights dropped"),
    TL_F_END,
};
static const tl_desc attention_desc = {
    .name = "attention",
    .help = "arguments",
    .size = sizeof(attention_args),
    .fields = attention_fields,
};
static inline tl_status attention_call(void **out, tl_gin *gin, const void *args)
{
    const attention_args *a = args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "TalkingHeadsAttention"));
    t->number = a->num_heads;
    t->real = a->dropout;
    *out = t;
    return TL_OK;
}
static const tl_configurable_class talking_heads = {
    .cls =
        TL_CONFIGURABLE("nlp.layers.TalkingHeadsAttention", &attention_desc, .help = "attention"),
    .call = attention_call,
};
/* Two of one last name, so that it is ambiguous. */
static const tl_configurable_class attention_a = {
    .cls = TL_CONFIGURABLE("nlp.layers.Attention", &attention_desc, .help = "attention"),
    .call = attention_call,
};
static const tl_configurable_class attention_b = {
    .cls = TL_CONFIGURABLE("vision.Attention", &attention_desc, .help = "attention"),
    .call = attention_call,
};

typedef struct gated_args {
    double dropout;
    bool apply_output_layer_norm;
} gated_args;
static const tl_field gated_fields[] = {
    TL_F(gated_args, dropout, .d = 0.0, .help = "share of units dropped"),
    TL_F(gated_args, apply_output_layer_norm, .b = true, .help = "normalise at the end"),
    TL_F_END,
};
static const tl_desc gated_desc = {
    .name = "GatedFeedforward",
    .help = "arguments",
    .size = sizeof(gated_args),
    .fields = gated_fields,
};
static inline tl_status gated_call(void **out, tl_gin *gin, const void *args)
{
    const gated_args *a = args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "GatedFeedforward"));
    t->number = a->apply_output_layer_norm;
    t->real = a->dropout;
    *out = t;
    return TL_OK;
}
static const tl_configurable_class gated_feedforward = {
    .cls = TL_CONFIGURABLE("nlp.layers.GatedFeedforward", &gated_desc, .help = "a gate"),
    .call = gated_call,
};

/* --- what tries one thing each ---------------------------------------------------------------- */

enum {
    ANYTHING = TL_ACCEPT_BOOL | TL_ACCEPT_NUMBER | TL_ACCEPT_STRING | TL_ACCEPT_LIST | TL_ACCEPT_MAP
};
typedef struct show_args {
    const tl_value *value, *other;
} show_args;
static const tl_field show_fields[] = {
    TL_F(show_args, value, .flags = TL_FIELD_NULLABLE, .accept = ANYTHING, .help = "anything"),
    TL_F(show_args, other, .flags = TL_FIELD_NULLABLE, .accept = ANYTHING, .help = "anything"),
    TL_F_END,
};
static const tl_desc show_desc = {
    .name = "show",
    .help = "arguments",
    .size = sizeof(show_args),
    .fields = show_fields,
};
/* Adds the objects of all references in a value. */
static inline tl_status show_references(toy *t, tl_gin *gin, const tl_value *v)
{
    if (!v) return TL_OK;
    if (v->kind == TL_VALUE_REFERENCE) {
        tl_ref ref;
        TL_TRY(tl_gin_value_ref(&ref, gin, v));
        return toy_add_ref(t, gin, &ref);
    }
    for (int64_t i = 0; i < v->count; i++)
        TL_TRY(show_references(t, gin, v->kind == TL_VALUE_LIST ? v->items[i] : v->pairs[i].value));
    return TL_OK;
}
static inline tl_status show_call(void **out, tl_gin *gin, const void *args)
{
    const show_args *a = args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "show"));
    TL_TRY(show_references(t, gin, a->value));
    TL_TRY(show_references(t, gin, a->other));
    t->number = a->value ? a->value->count : -1;
    *out = t;
    return TL_OK;
}
static const tl_configurable_class show = {
    .cls = TL_CONFIGURABLE("toys.show", &show_desc, .help = "takes anything"),
    .call = show_call,
};

static inline tl_status zero_call(void **out, tl_gin *gin, const void *args)
{
    (void)args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "Zero"));
    *out = t;
    return TL_OK;
}
static const tl_configurable_class zero = {
    .cls = TL_CONFIGURABLE("toys.Zero", NULL, .help = "has no parameters"),
    .call = zero_call,
};
static const tl_configurable_class lower_zero = {
    .cls = TL_CONFIGURABLE("toys.zero", NULL, .help = "differs from Zero by its case alone"),
    .call = zero_call,
};

typedef enum toy_mode { TOY_FAST, TOY_SLOW } toy_mode;
static const char *const toy_mode_names[] = {"fast", "slow", NULL};
typedef struct strict_args {
    int64_t size;   /* required */
    int64_t secret; /* denied */
    double low, high, tiny, large;
    toy_mode mode;
    tl_strings words;
} strict_args;
static const tl_field strict_fields[] = {
    TL_F(strict_args, size, .flags = TL_FIELD_REQUIRED, .help = "must be bound"),
    TL_F(strict_args, secret, .i = 7, .flags = TL_FIELD_DENIED, .help = "cannot be bound"),
    TL_F(strict_args, low, .d = -HUGE_VAL, .help = "no literal can say its default"),
    TL_F(strict_args, high, .d = HUGE_VAL, .help = "no literal can say its default"),
    TL_F(strict_args, tiny, .d = 5e-324, .help = "small"),
    TL_F(strict_args, large, .d = 1e22, .help = "large"),
    TL_F(strict_args, mode, .i = TOY_SLOW, .names = toy_mode_names, .help = "fast or slow"),
    TL_F(strict_args, words, TL_DEFAULT_LIST(char *, "it's", "a \"word\""), .help = "words"),
    TL_F_END,
};
static const tl_desc strict_desc = {
    .name = "strict",
    .help = "arguments",
    .size = sizeof(strict_args),
    .fields = strict_fields,
};
static inline tl_status strict_call(void **out, tl_gin *gin, const void *args)
{
    const strict_args *a = args;
    toy *t;
    TL_TRY(toy_new(&t, gin, "strict"));
    t->number = a->size;
    t->real = a->high;
    t->text = toy_mode_names[a->mode];
    *out = t;
    return TL_OK;
}
static const tl_configurable_class strict = {
    .cls =
        TL_CONFIGURABLE("toys.strict", &strict_desc, .help = "is particular about its arguments"),
    .call = strict_call,
};

static const tl_entry toy_entries[] = {
    {&tl_kind_configurable, &build_encoder.cls},
    {&tl_kind_configurable, &encoder_scaffold.cls},
    {&tl_kind_configurable, &transformer_scaffold.cls},
    {&tl_kind_configurable, &talking_heads.cls},
    {&tl_kind_configurable, &attention_a.cls},
    {&tl_kind_configurable, &attention_b.cls},
    {&tl_kind_configurable, &gated_feedforward.cls},
    {&tl_kind_configurable, &show.cls},
    {&tl_kind_configurable, &zero.cls},
    {&tl_kind_configurable, &lower_zero.cls},
    {&tl_kind_configurable, &strict.cls},
};
static const tl_module toy_module = {TL_MODULE_HEAD("toys"), toy_entries, TL_COUNT(toy_entries)};

#endif
