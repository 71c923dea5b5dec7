/* What decoders have in common, and the one that does nothing. */
#include <tilth/zoo/decoder.h>

const tl_kind tl_kind_decoder = {
    .name = "decoder",
    .plural = "decoders",
    .help = "what makes maps of a backbone ready for heads",
    .class_size = sizeof(tl_decoder_class),
    .config_required = true,
    .names_are_keys = true,
};

static const tl_field identity_fields[] = {TL_F_END};
static const tl_desc identity_desc = {
    .name = "identity",
    .help = "the maps of the backbone",
    .size = sizeof(tl_identity_config),
    .fields = identity_fields,
};
const tl_decoder_class tl_decoder_identity = {
    .cls = {.class_size = sizeof(tl_decoder_class),
            .name = "identity",
            .help = "the maps of the backbone",
            .config = &identity_desc},
};

tl_status tl_decoder_find(const tl_decoder_class **cls, const void **config, tl_arena *arena,
                          const tl_registry *registry, const tl_oneof *choice)
{
    const tl_class *found = &tl_decoder_identity.cls;
    void *made = choice->value;
    if (choice->type) TL_TRY(tl_registry_find(&found, registry, &tl_kind_decoder, choice->type));
    if (!made) TL_TRY(tl_desc_new(&made, arena, found->config));
    *cls = (const tl_decoder_class *)found;
    *config = made;
    return TL_OK;
}

tl_status tl_decoder_make(tl_layer **out, tl_scope *s, const tl_oneof *choice,
                          const tl_decoder_parts *parts)
{
    const tl_decoder_class *cls;
    const void *config;
    *out = NULL;
    TL_TRY(tl_decoder_find(&cls, &config, tl_scope_arena(s), tl_scope_registry(s), choice));
    if (cls->check) TL_TRY(cls->check(config, parts));
    if (!cls->make) return TL_OK;
    *out = cls->make(s, "decoder", config, parts);
    if (!*out) return tl_scope_status(s) == TL_OK ? TL_ENOMEM : tl_scope_status(s);
    tl_scope_item(s, "decoder", *out);
    return TL_OK;
}
