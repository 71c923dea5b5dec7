/* The encoder that a configuration chooses, and what gin's build_encoder makes of the choice. */
#include <string.h>
#include <tilth/base/alloc.h>

#include "zoo/language/build_encoder.h"
#include "zoo/language/encoder.h"

/* --- the configurable ------------------------------------------------------------------------- */

typedef tli_encoder_choice choice;
static const tl_field fields[] = {
    TL_F(choice, embedding_layer, .kind = &tl_kind_layer,
         .help = "looks words up; a table when null"),
    TL_F(choice, encoder_cls, .kind = &tl_kind_layer,
         .help = "EncoderScaffold; null: the encoder of the configuration"),
    TL_F(choice, bypass_config, .help = "encoder_cls is made with what gin says alone"),
    TL_F_END,
};
static const tl_desc choice_desc = {
    .name = "build_encoder",
    .help = "what a model's encoder is made of",
    .size = sizeof(choice),
    .fields = fields,
};

// References live as long as gin.
static tl_status call(void **out, tl_gin *gin, const void *args)
{
    (void)gin;
    choice *made = tl_alloc(sizeof *made);
    if (!made) return TL_FAIL_NOMEM(sizeof *made);
    *made = *(const choice *)args;
    *out = made;
    return TL_OK;
}

static void free_choice(void *object)
{
    tl_free(object);
}

const tl_configurable_class tli_build_encoder = {
    .cls = TL_CONFIGURABLE("encoders.build_encoder", &choice_desc,
                           .help = "makes the encoder of a model"),
    .call = call,
    .free = free_choice,
};

tl_status tli_encoder_ask(tli_encoder_choice *out, tl_gin *gin)
{
    tl_gin_call *begun;
    void *made = NULL;
    *out = (choice){.embedding_layer.scope = "", .encoder_cls.scope = ""};
    if (!gin) return TL_OK;
    TL_TRY(tl_gin_call_begin(&begun, gin, "encoders.build_encoder"));
    tl_gin_call_own(begun);
    TL_TRY(tl_gin_call_run(&made, &begun));
    *out = *(choice *)made;
    tl_free(made);
    return TL_OK;
}

bool tli_encoder_is_scaffold(const tli_encoder_choice *c)
{
    return c->encoder_cls.target == &tl_layer_encoder_scaffold.cls;
}

/* --- EncoderScaffold from the fields of a branch ---------------------------------------------- */

/* A number, or a switch, of the chosen branch by its name; 0 when it has none of that name. */
static double number_of(const tl_oneof *o, const tl_desc *desc, const char *name)
{
    const tl_field *f = tl_desc_field(desc, name);
    if (!f || f->arity != TL_ONE) return 0;
    const void *member = tl_field_at(f, o->value);
    if (f->type == TL_TYPE_BOOL) return *(const bool *)member;
    if (f->type == TL_TYPE_INT) return (double)*(const int64_t *)member;
    return f->type == TL_TYPE_DOUBLE ? *(const double *)member : 0;
}

static tl_status need(const tl_oneof *o, const tl_desc *desc, const char *name, int64_t *out)
{
    *out = (int64_t)number_of(o, desc, name);
    if (*out > 0) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "EncoderScaffold takes its sizes from the encoder's section, and '%s' has no "
                   "'%s'; choose type bert",
                   o->type, name);
}

/* What the section says; gin may choose the rest. */
static tl_status scaffold_of(tl_encoder_scaffold_config *out, const tl_oneof *o,
                             const tl_desc *desc, tl_arena *arena)
{
    tl_scaffold_embedding *embedding = tl_arena_alloc(arena, sizeof *embedding);
    tl_scaffold_hidden *hidden = tl_arena_alloc(arena, sizeof *hidden);
    if (!embedding || !hidden) return TL_ENOMEM;
    *out = (tl_encoder_scaffold_config){.embedding_cfg = embedding, .hidden_cfg = hidden};
    TL_TRY(need(o, desc, "vocab_size", &embedding->vocab_size));
    TL_TRY(need(o, desc, "type_vocab_size", &embedding->type_vocab_size));
    TL_TRY(need(o, desc, "hidden_size", &embedding->hidden_size));
    TL_TRY(need(o, desc, "max_position_embeddings", &embedding->max_seq_length));
    TL_TRY(need(o, desc, "num_attention_heads", &hidden->num_attention_heads));
    TL_TRY(need(o, desc, "intermediate_size", &hidden->intermediate_size));
    TL_TRY(need(o, desc, "num_layers", &out->num_hidden_instances));
    const tl_field *f = tl_desc_field(desc, "hidden_activation");
    hidden->intermediate_activation = f ? *(const char **)tl_field_at(f, o->value) : "gelu";
    embedding->dropout_rate = hidden->dropout_rate = number_of(o, desc, "dropout_rate");
    hidden->attention_dropout_rate = number_of(o, desc, "attention_dropout_rate");
    tl_oneof first = tli_truncated_normal(arena, number_of(o, desc, "initializer_range"));
    if (!first.type) return TL_ENOMEM;
    embedding->initializer = hidden->kernel_initializer = out->pooler_layer_initializer = first;
    out->pooled_output_dim = embedding->hidden_size;
    out->return_all_layer_outputs = number_of(o, desc, "return_all_encoder_outputs") != 0;
    return TL_OK;
}

static tl_layer *make_scaffold(tl_scope *s, const char *name, const tl_oneof *o,
                               const tl_desc *desc, const tl_ref *cls)
{
    tl_encoder_scaffold_config given;
    if (scaffold_of(&given, o, desc, tl_scope_arena(s)) != TL_OK) return tl_scope_fail(s, name);
    static const char *const names[] = {
        "pooled_output_dim", "pooler_layer_initializer", "embedding_cfg", "num_hidden_instances",
        "hidden_cfg",        "return_all_layer_outputs", "dict_outputs",  NULL};
    tl_gin *gin = tl_gin_current();
    const bool scoped = gin && *cls->scope;
    if (scoped && tl_gin_scope_begin(gin, cls->scope) != TL_OK) return tl_scope_fail(s, name);
    tl_layer *l = tl_gin_note_made(gin, &tl_layer_encoder_scaffold.cls, names) == TL_OK
                      ? tl_scope_layer(s, name, &tl_layer_encoder_scaffold, &given)
                      : tl_scope_fail(s, name);
    if (scoped) tl_gin_scope_end(gin);
    return l;
}

/* Whether gin gives the scaffold that make_scaffold makes another embedding than the section's. */
static tl_status has_own_embedding(bool *out, const tl_oneof *o, const tl_desc *desc,
                                   const tl_ref *cls, tl_arena *arena)
{
    tl_encoder_scaffold_config given;
    void *made;
    tl_gin *gin = tl_gin_current();
    TL_TRY(scaffold_of(&given, o, desc, arena));
    TL_TRY(tl_desc_new(&made, arena, tl_layer_encoder_scaffold.cls.config));
    if (*cls->scope) TL_TRY(tl_gin_scope_begin(gin, cls->scope));
    tl_status st = tl_gin_fill(gin, "encoder", &tl_layer_encoder_scaffold.cls, made, &given, arena);
    if (*cls->scope) tl_gin_scope_end(gin);
    *out = ((const tl_encoder_scaffold_config *)made)->embedding_cls.target != NULL;
    return st;
}

/* --- building --------------------------------------------------------------------------------- */

static tl_layer *make_of_branch(tl_scope *s, const char *name, const tl_oneof *o,
                                const tl_encoder_class *cls, const choice *c)
{
    const tl_encoder_class *with = TL_CLASS_METHOD(tl_encoder_class, cls, make);
    if (with) return with->make(s, name, o->value, &(tl_encoder_parts){c->embedding_layer});
    if (cls == &tl_encoder_any)
        (void)TL_FAIL(TL_EINVAL,
                      "the encoder 'any' is what gin makes: bind build_encoder.encoder_cls and "
                      "build_encoder.bypass_config = True");
    else
        (void)TL_FAIL(TL_EUNSUPPORTED,
                      "model.encoder.type: '%s' cannot be built yet; bert, bert_v2, albert and any "
                      "can",
                      o->type);
    return tl_scope_fail(s, name);
}

tl_layer *tl_build_encoder(tl_scope *s, const char *name, const tl_oneof *encoder)
{
    choice c;
    const tl_class *cls;
    tl_oneof o = *encoder;
    if (tl_scope_status(s) != TL_OK) return NULL;
    if (!o.type) {
        (void)TL_FAIL(TL_EINVAL, "the model has no encoder: set model.encoder.type");
        return tl_scope_fail(s, name);
    }
    if (tli_encoder_ask(&c, tl_gin_current()) != TL_OK
        || tl_registry_find(&cls, tl_scope_registry(s), &tl_kind_encoder, o.type) != TL_OK
        || (!o.value && tl_desc_new(&o.value, tl_scope_arena(s), cls->config) != TL_OK))
        return tl_scope_fail(s, name);
    const bool scaffold = tli_encoder_is_scaffold(&c);
    if (c.bypass_config && c.encoder_cls.target)
        return tl_scope_layer_ref(s, name, &c.encoder_cls, NULL);
    if (c.bypass_config || (c.encoder_cls.target && !scaffold)) {
        (void)TL_FAIL(
            TL_EINVAL,
            c.bypass_config
                ? "build_encoder.bypass_config is True and there is no encoder_cls to make"
                : "build_encoder.encoder_cls is @%s: it is EncoderScaffold, or is made "
                  "with bypass_config = True",
            c.encoder_cls.target ? c.encoder_cls.target->name : "");
        return tl_scope_fail(s, name);
    }
    if (scaffold && !c.encoder_cls.object)
        return make_scaffold(s, name, &o, cls->config, &c.encoder_cls);
    if (scaffold) return tl_scope_layer_ref(s, name, &c.encoder_cls, NULL);
    return make_of_branch(s, name, &o, (const tl_encoder_class *)cls, &c);
}

tl_status tli_encoder_words(int64_t *out, const tl_oneof *encoder, const tl_registry *registry,
                            tl_arena *arena)
{
    choice c;
    *out = 0;
    if (!encoder->type || !encoder->value) return TL_OK;
    const tl_class *cls = tl_registry_peek(registry, &tl_kind_encoder, encoder->type);
    if (!cls) return TL_OK;
    TL_TRY(tli_encoder_ask(&c, tl_gin_current()));
    bool own = c.bypass_config || c.encoder_cls.object != NULL;
    if (!own && tli_encoder_is_scaffold(&c))
        TL_TRY(has_own_embedding(&own, encoder, cls->config, &c.encoder_cls, arena));
    else own |= c.encoder_cls.target || c.embedding_layer.target;
    if (!own) *out = (int64_t)number_of(encoder, cls->config, "vocab_size");
    return TL_OK;
}

/* --- the table of words ----------------------------------------------------------------------- */

tl_tensor *tl_encoder_table(const tl_layer *encoder)
{
    for (const tl_layer *l = encoder->first; l; l = l->next) {
        const bool words = strcmp(l->name, "word_embeddings") == 0;
        tl_tensor *table = words ? tl_layer_param(l, "embeddings") : tl_encoder_table(l);
        if (table) return table;
    }
    return NULL;
}
