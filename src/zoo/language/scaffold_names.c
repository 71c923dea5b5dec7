/* Which objects the layers of an EncoderScaffold are in checkpoints of Model Garden. Which layers
 * there are follows from what gin binds of each part, so each part is configured here as it is when
 * the model is made. */
#include <stdio.h>
#include <tilth/nn/transformer.h>

#include "zoo/language/names.h"

typedef struct looking {
    tl_original_names *into;
    tl_gin *gin;
} looking;

/* The configuration of what a reference makes at a path of the model, in the current scope. */
static tl_status settle_here(const void **out, looking *l, const tl_class *cls, const char *path)
{
    void *config;
    TL_TRY(tl_desc_new(&config, l->into->arena, cls->config));
    TL_TRY(tl_gin_fill(l->gin, path, cls, config, NULL, l->into->arena));
    *out = config;
    return TL_OK;
}

static bool has_scope(const tl_ref *ref)
{
    return ref->scope && *ref->scope;
}

static tl_status settle(const void **out, looking *l, const tl_ref *ref, const char *path)
{
    const tl_oneof *made = ref->object;
    *out = made ? made->value : NULL;
    if (*out) return TL_OK;
    if (has_scope(ref)) TL_TRY(tl_gin_scope_begin(l->gin, ref->scope));
    tl_status st = settle_here(out, l, ref->target, path);
    if (has_scope(ref)) tl_gin_scope_end(l->gin);
    return st;
}

static tl_status unknown(const tl_class *cls)
{
    return TL_FAIL(TL_EUNSUPPORTED,
                   "the names of '%s' in checkpoints of Model Garden are not known", cls->name);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static tl_status add_gated(looking *l, const tl_ref *ref, const char *ours, const char *theirs)
{
    const void *config;
    char path[96];
    snprintf(path, sizeof path, "%s/feedforward", ours);
    TL_TRY(settle(&config, l, ref, path));
    const tl_gated_feedforward_config *k = config;
    const struct {
        const char *ours, *theirs;
        bool there;
    } parts[] = {{"intermediate", "_intermediate_dense", true},
                 {"gate", "_gate_dense", k->use_gate.value},
                 {"output", "_output_dense", true},
                 {"output_layer_norm", "_output_layer_norm", k->apply_output_layer_norm.value}};
    for (int64_t b = 0; b < k->num_blocks; b++)
        for (int64_t i = 0; i < TL_COUNT(parts); i++) {
            if (!parts[i].there) continue;
            char *a =
                tl_arena_printf(l->into->arena, "%s/%s_%lld", path, parts[i].ours, (long long)b);
            char *o = tl_arena_printf(l->into->arena, "%s/_feedforward_block/%s/%lld", theirs,
                                      parts[i].theirs, (long long)b);
            if (!a || !o) return TL_ENOMEM;
            TL_TRY(tl_original_names_add(l->into, a, o));
        }
    return TL_OK;
}

/* What follows the attention. With a norm before it the block has that norm itself. */
static tl_status add_feedforward(looking *l, const tl_transformer_scaffold_config *k,
                                 const char *ours, const char *theirs)
{
    static const tli_name_pair norm = {"output_layer_norm", "_output_layer_norm"};
    if (!k->feedforward_cls.target) return tli_add_dense_names(l->into, ours, theirs);
    if (k->feedforward_cls.target != &tl_layer_gated_feedforward.cls)
        return unknown(k->feedforward_cls.target);
    TL_TRY(add_gated(l, &k->feedforward_cls, ours, theirs));
    return k->norm_first ? tli_add_names(l->into, ours, theirs, &norm, 1) : TL_OK;
}

static tl_status add_scaffold(looking *l, const tl_ref *ref, const char *ours, const char *theirs)
{
    static const tli_name_pair mixing = {"self_attention", "_attention_layer"};
    const void *config;
    TL_TRY(settle(&config, l, ref, ours));
    const tl_transformer_scaffold_config *k = config;
    const tl_class *attention = k->attention_cls.target;
    if (attention && attention != &tl_layer_multi_head_attention.cls
        && attention != &tl_layer_talking_heads_attention.cls)
        return unknown(attention);
    TL_TRY(tli_add_attention_names(l->into, ours, theirs));
    if (attention == &tl_layer_talking_heads_attention.cls)
        TL_TRY(tli_add_names(l->into, ours, theirs, &mixing, 1));
    return add_feedforward(l, k, ours, theirs);
}

static tl_status add_hidden(looking *l, const tl_ref *ref, int64_t layer)
{
    char ours[64], theirs[64];
    snprintf(ours, sizeof ours, "encoder/layer_%lld", (long long)layer);
    snprintf(theirs, sizeof theirs, "encoder/_hidden_layers/%lld", (long long)layer);
    if (ref->target == &tl_layer_transformer_scaffold.cls)
        return add_scaffold(l, ref, ours, theirs);
    if (ref->target && ref->target != &tl_layer_transformer_encoder_block.cls)
        return unknown(ref->target);
    TL_TRY(tli_add_attention_names(l->into, ours, theirs));
    return tli_add_dense_names(l->into, ours, theirs);
}

/* --- encoders --------------------------------------------------------------------------------- */

static tl_status add_hiddens(looking *l, const tl_ref *ref, int64_t layers)
{
    char theirs[64];
    for (int64_t i = 0; i < layers; i++) {
        if (i == 0 || !ref->object) {
            TL_TRY(add_hidden(l, ref, i));
            continue;
        }
        // One that was made serves all.
        snprintf(theirs, sizeof theirs, "encoder/_hidden_layers/%lld", (long long)i);
        TL_TRY(tl_original_names_same(l->into, theirs, "encoder/_hidden_layers/0"));
    }
    return TL_OK;
}

static tl_status add_encoder(looking *l, const tl_encoder_scaffold_config *k, int64_t layers)
{
    if (k->embedding_cls.target) return unknown(k->embedding_cls.target);
    TL_TRY(tli_add_table_names(l->into));
    TL_TRY(add_hiddens(l, &k->hidden_cls, layers ? layers : k->num_hidden_instances));
    if (k->layer_norm_before_pooling)
        TL_TRY(tl_original_names_add(l->into, "encoder/final_layer_norm",
                                     "encoder/_output_layer_norm"));
    return tl_original_names_add(l->into, "encoder/cls_transform", "encoder/_pooler_layer");
}

tl_status tli_scaffold_names(tl_original_names *into, tl_gin *gin, const tl_ref *encoder,
                             int64_t layers)
{
    looking l = {.into = into, .gin = gin};
    const void *config;
    TL_TRY(settle(&config, &l, encoder, "encoder"));
    // Its layers are made in its scope.
    if (has_scope(encoder)) TL_TRY(tl_gin_scope_begin(gin, encoder->scope));
    tl_status st = add_encoder(&l, config, layers);
    if (has_scope(encoder)) tl_gin_scope_end(gin);
    return st;
}
