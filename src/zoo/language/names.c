/* Which objects the layers are in checkpoints of Model Garden. Its first encoder numbers its layers
 * and names them as well; its second has the names alone; ALBERT's has the numbers alone. */
#include "zoo/language/names.h"

#include <stdio.h>

#include "zoo/language/build_encoder.h"
#include "zoo/language/encoder.h"

tl_status tli_add_names(tl_original_names *into, const char *ours, const char *theirs,
                        const tli_name_pair *pairs, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char *a = tl_arena_printf(into->arena, "%s/%s", ours, pairs[i].ours);
        char *b = tl_arena_printf(into->arena, "%s/%s", theirs, pairs[i].theirs);
        if (!a || !b) return TL_ENOMEM;
        TL_TRY(tl_original_names_add(into, a, b));
    }
    return TL_OK;
}

tl_status tli_add_table_names(tl_original_names *into)
{
    static const tli_name_pair tables[] = {{"word_embeddings", "_embedding_layer"},
                                           {"position_embedding", "_position_embedding_layer"},
                                           {"type_embeddings", "_type_embedding_layer"},
                                           {"embeddings_layer_norm", "_embedding_norm_layer"}};
    return tli_add_names(into, "encoder", "encoder", tables, TL_COUNT(tables));
}

tl_status tli_add_attention_names(tl_original_names *into, const char *ours, const char *theirs)
{
    static const tli_name_pair attention[] = {
        {"self_attention/query", "_attention_layer/_query_dense"},
        {"self_attention/key", "_attention_layer/_key_dense"},
        {"self_attention/value", "_attention_layer/_value_dense"},
        {"self_attention/attention_output", "_attention_layer/_output_dense"},
        {"self_attention_layer_norm", "_attention_layer_norm"}};
    return tli_add_names(into, ours, theirs, attention, TL_COUNT(attention));
}

tl_status tli_add_dense_names(tl_original_names *into, const char *ours, const char *theirs)
{
    static const tli_name_pair dense[] = {{"intermediate", "_intermediate_dense"},
                                          {"output", "_output_dense"},
                                          {"output_layer_norm", "_output_layer_norm"}};
    return tli_add_names(into, ours, theirs, dense, TL_COUNT(dense));
}

/* --- encoders --------------------------------------------------------------------------------- */

static tl_status add_block(tl_original_names *into, const char *ours, const char *theirs)
{
    TL_TRY(tli_add_attention_names(into, ours, theirs));
    return tli_add_dense_names(into, ours, theirs);
}

tl_status tli_bert_names(const void *config, tl_original_names *into)
{
    const tl_bert_config *k = config;
    TL_TRY(tli_add_table_names(into));
    if (k->embedding_size.set && k->embedding_size.value != k->hidden_size)
        TL_TRY(tl_original_names_add(into, "encoder/embedding_projection",
                                     "encoder/_embedding_projection"));
    for (int64_t i = 0; i < k->num_layers; i++) {
        char ours[64], theirs[64];
        snprintf(ours, sizeof ours, "encoder/layer_%lld", (long long)i);
        snprintf(theirs, sizeof theirs, "encoder/_transformer_layers/%lld", (long long)i);
        TL_TRY(add_block(into, ours, theirs));
    }
    return tl_original_names_add(into, "encoder/pooler_transform", "encoder/_pooler_layer");
}

tl_status tli_albert_names(const void *config, tl_original_names *into)
{
    const tl_albert_config *k = config;
    static const char *const first[] = {"word_embeddings", "position_embedding", "type_embeddings",
                                        "embeddings_layer_norm"};
    char ours[64], theirs[64];
    int number = 0;
    for (; number < TL_COUNT(first); number++) {
        snprintf(ours, sizeof ours, "encoder/%s", first[number]);
        snprintf(theirs, sizeof theirs, "encoder/layer_with_weights-%d", number);
        TL_TRY(tl_original_names_add(into, ours, theirs));
    }
    if (k->embedding_width != k->hidden_size) {
        snprintf(theirs, sizeof theirs, "encoder/layer_with_weights-%d", number++);
        TL_TRY(tl_original_names_add(into, "encoder/embedding_projection", theirs));
    }
    snprintf(theirs, sizeof theirs, "encoder/layer_with_weights-%d", number++);
    TL_TRY(add_block(into, "encoder/transformer", theirs));
    snprintf(theirs, sizeof theirs, "encoder/layer_with_weights-%d", number);
    return tl_original_names_add(into, "encoder/pooler_transform", theirs);
}

static int64_t layers_of(const tl_desc *desc, const void *config)
{
    const tl_field *f = tl_desc_field(desc, "num_layers");
    return f && f->type == TL_TYPE_INT ? *(const int64_t *)tl_field_at(f, config) : 0;
}

tl_status tli_encoder_names(const tl_task *t, const tl_oneof *encoder, tl_original_names *into)
{
    const tl_class *cls;
    tli_encoder_choice choice;
    void *config = encoder->value;
    if (!encoder->type) return TL_FAIL(TL_EINVAL, "task.model has no encoder");
    TL_TRY(tl_registry_find(&cls, t->registry, &tl_kind_encoder, encoder->type));
    if (!config) TL_TRY(tl_desc_new(&config, t->arena, cls->config));
    TL_TRY(tli_encoder_ask(&choice, t->gin));
    if (tli_encoder_is_scaffold(&choice)) {
        const bool whole = choice.bypass_config || choice.encoder_cls.object;
        const int64_t layers = whole ? 0 : layers_of(cls->config, config);
        return tli_scaffold_names(into, t->gin, &choice.encoder_cls, layers);
    }
    if (choice.encoder_cls.target)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the names of '%s' in checkpoints of Model Garden are not known",
                       choice.encoder_cls.target->name);
    const tl_encoder_class *with = TL_CLASS_METHOD(tl_encoder_class, cls, original_names);
    if (with) return with->original_names(config, into);
    return TL_FAIL(TL_EUNSUPPORTED,
                   "the names of the encoder '%s' in checkpoints of Model Garden are not known",
                   encoder->type);
}

/* --- models ----------------------------------------------------------------------------------- */

tl_status tli_pretrainer_head_names(const tl_pretrainer_config *k, tl_original_names *into)
{
    static const tli_name_pair words[] = {{"dense", "dense"}, {"layer_norm", "layer_norm"}};
    const tl_cls_head_config *heads = k->cls_heads.items;
    TL_TRY(tli_add_names(into, "masked_lm", "masked_lm", words, TL_COUNT(words)));
    TL_TRY(tl_original_names_add(into, "masked_lm", "masked_lm"));
    TL_TRY(tl_original_names_same(into, "model/encoder_network", "encoder"));
    TL_TRY(tl_original_names_same(into, "model/masked_lm", "masked_lm"));
    for (int64_t i = 0; i < k->cls_heads.count; i++) {
        static const tli_name_pair parts[] = {{"logits", "out_proj"}, {"pooler_dense", "dense"}};
        const char *name = heads[i].name && *heads[i].name ? heads[i].name : "cls";
        char theirs[64];
        snprintf(theirs, sizeof theirs, "model/classification_heads/%lld", (long long)i);
        TL_TRY(tli_add_names(into, name, theirs, parts, heads[i].inner_dim > 0 ? 2 : 1));
        if (heads[i].inner_dim <= 0) continue;
        char *item = tl_arena_printf(into->arena, "%s.pooler_dense", name);
        char *object = tl_arena_printf(into->arena, "%s/dense", theirs);
        if (!item || !object) return TL_ENOMEM;
        TL_TRY(tl_original_names_same(into, item, object));
    }
    return TL_OK;
}

tl_status tli_pretrainer_names(const tl_task *t, const tl_pretrainer_config *k,
                               tl_original_names *into)
{
    TL_TRY(tli_encoder_names(t, &k->encoder, into));
    return tli_pretrainer_head_names(k, into);
}

tl_status tli_sentence_head_names(const tl_sentence_model_config *k, tl_original_names *into)
{
    TL_TRY(tl_original_names_same(into, "model/layer_with_weights-0", "encoder"));
    TL_TRY(tl_original_names_add(into, "sentence_prediction/logits",
                                 "model/layer_with_weights-1/out_proj"));
    if (k->use_encoder_pooler) return TL_OK;
    TL_TRY(tl_original_names_add(into, "sentence_prediction/pooler_dense",
                                 "model/layer_with_weights-1/dense"));
    return tl_original_names_same(into, "sentence_prediction.pooler_dense",
                                  "model/layer_with_weights-1/dense");
}

tl_status tli_sentence_names(const tl_task *t, const tl_sentence_model_config *k,
                             tl_original_names *into)
{
    TL_TRY(tli_encoder_names(t, &k->encoder, into));
    return tli_sentence_head_names(k, into);
}

/* --- what is not trained ---------------------------------------------------------------------- */

tl_status tli_freeze_pooler(tl_model *m)
{
    static const char *const names[] = {"encoder/pooler_transform", "encoder/cls_transform"};
    char path[64];
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/kernel", names[i]);
        if (tl_model_find(m, path)) TL_TRY(tl_model_set_trainable(m, names[i], false));
    }
    return TL_OK;
}
