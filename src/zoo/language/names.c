#include "zoo/language/names.h"

#include <stdio.h>

tl_status tli_encoder_names(const tl_task *t, const tl_oneof *encoder, tl_original_names *into)
{
    const tl_class *cls;
    void *config = encoder->value;
    if (!encoder->type) return TL_FAIL(TL_EINVAL, "task.model has no encoder");
    TL_TRY(tl_registry_find(&cls, t->registry, &tl_kind_encoder, encoder->type));
    const tl_encoder_class *with = TL_CLASS_METHOD(tl_encoder_class, cls, original_names);
    if (!with)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the names of the encoder '%s' in checkpoints of Model Garden are not known",
                       encoder->type);
    if (!config) TL_TRY(tl_desc_new(&config, t->arena, cls->config));
    return with->original_names(config, into);
}

tl_status tli_pretrainer_names(const tl_task *t, const tl_pretrainer_config *k,
                               tl_original_names *into)
{
    const tl_cls_head_config *heads = k->cls_heads.items;
    TL_TRY(tli_encoder_names(t, &k->encoder, into));
    TL_TRY(tl_original_names_add(into, "masked_lm/dense", "masked_lm/dense"));
    TL_TRY(tl_original_names_add(into, "masked_lm/layer_norm", "masked_lm/layer_norm"));
    TL_TRY(tl_original_names_add(into, "masked_lm", "masked_lm"));
    for (int64_t i = 0; i < k->cls_heads.count; i++) {
        const char *name = heads[i].name && *heads[i].name ? heads[i].name : "cls";
        char *out =
            tl_arena_printf(into->arena, "model/classification_heads/%lld/out_proj", (long long)i);
        char *pooler =
            tl_arena_printf(into->arena, "model/classification_heads/%lld/dense", (long long)i);
        char *ours = tl_arena_printf(into->arena, "%s/logits", name);
        char *ours_pooler = tl_arena_printf(into->arena, "%s/pooler_dense", name);
        if (!out || !pooler || !ours || !ours_pooler) return TL_ENOMEM;
        TL_TRY(tl_original_names_add(into, ours, out));
        if (heads[i].inner_dim > 0) TL_TRY(tl_original_names_add(into, ours_pooler, pooler));
    }
    return TL_OK;
}

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
