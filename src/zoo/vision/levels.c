#include "zoo/vision/levels.h"

#include <string.h>

#include <tilth/io/image/image.h>
#include <tilth/train/run/initialize.h>

const char *tli_level_name(int64_t level)
{
    static const char *const names[TLI_LEVELS] = {"0", "1", "2", "3", "4",  "5",
                                                  "6", "7", "8", "9", "10", "11"};
    return names[level];
}

const char *tli_level_text(tl_scope *s, const char *what, int64_t level)
{
    const char *text = tl_arena_printf(tl_scope_arena(s), "%s_%lld", what, (long long)level);
    return text ? text : tl_scope_fail(s, what);
}

tl_status tli_levels_check(tl_levels levels, const char *key)
{
    if (levels.min >= 0 && levels.min <= levels.max && levels.max < TLI_LEVELS) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s.min_level and max_level are %lld and %lld: levels rise, from 0 to %d", key,
                   (long long)levels.min, (long long)levels.max, TLI_LEVELS - 1);
}

tl_tensor *tli_level_get(tl_ctx *c, const tl_tensors *maps, int64_t level)
{
    return tl_tensors_get(c, maps, tli_level_name(level));
}

tl_status tli_decoder_parts(tl_decoder_parts *out, tl_arena *arena, const tl_registry *registry,
                            const tl_oneof *backbone, tl_levels model,
                            const tl_backbone_parts *parts)
{
    const tl_backbone_class *cls;
    const void *config;
    TL_TRY(tl_backbone_find(&cls, &config, arena, registry, backbone, "model.backbone"));
    if (!cls->levels)
        return TL_FAIL(TL_EINVAL, "model.backbone: '%s' has no levels to stand on", backbone->type);
    *out = (tl_decoder_parts){.parts = *parts,
                              .model = model,
                              .backbone = cls->levels(config),
                              .backbone_config = config};
    if (out->backbone.min > out->backbone.max)
        return TL_FAIL(TL_EINVAL,
                       "model.backbone: '%s' has no levels to stand on as it is set; that of vit "
                       "needs output_2d_feature_maps",
                       backbone->type);
    if (TL_CLASS_HAS(tl_backbone_class, cls, channels)) out->channels = cls->channels;
    return TL_OK;
}

tl_status tli_pyramid_make(tli_pyramid *out, tl_scope *s, const tl_oneof *backbone,
                           const tl_oneof *decoder, tl_levels model, const tl_backbone_parts *parts)
{
    tl_decoder_parts with;
    TL_TRY(
        tli_decoder_parts(&with, tl_scope_arena(s), tl_scope_registry(s), backbone, model, parts));
    TL_TRY(tl_backbone_make(&out->backbone, s, backbone, parts));
    return tl_decoder_make(&out->decoder, s, decoder, &with);
}

void tli_pyramid_call(const tli_pyramid *p, tl_ctx *c, tl_tensor *image, tl_tensors *maps,
                      tl_tensors *decoded)
{
    tl_tensors in = {0};
    tl_tensors_put(c, &in, "image", image);
    tl_call_all(c, p->backbone, &in, maps);
    if (tl_ctx_failed(c)) return;
    if (p->decoder) tl_call_all(c, p->decoder, maps, decoded);
    for (int64_t i = 0; i < maps->count && !p->decoder; i++)
        tl_tensors_put(c, decoded, maps->items[i].name, maps->items[i].tensor);
}

const tl_oneof *tli_l2_choose(tli_l2 *out, double l2_weight_decay)
{
    out->l2 = (tl_l2_regularizer){TL_SET(l2_weight_decay / 2)};
    out->choice = (tl_oneof){.type = "l2", .value = &out->l2};
    return l2_weight_decay > 0 ? &out->choice : NULL;
}

/* --- names in Model Garden -------------------------------------------------------------------- */

tl_status tli_name_pyramid(tl_original_names *into, const tli_pyramid_names *args)
{
    const tl_backbone_parts parts = {args->norm_activation, NULL};
    const tl_backbone_class *backbone;
    const tl_decoder_class *decoder;
    const void *backbone_config, *decoder_config;
    tl_decoder_parts with;
    TL_TRY(tli_decoder_parts(&with, args->arena, args->registry, args->backbone, args->levels,
                             &parts));
    TL_TRY(tl_backbone_find(&backbone, &backbone_config, args->arena, args->registry,
                            args->backbone, "model.backbone"));
    TL_TRY(tl_decoder_find(&decoder, &decoder_config, args->arena, args->registry, args->decoder));
    if (!backbone->original_names)
        return TL_FAIL(TL_EUNSUPPORTED, "Model Garden has no backbone '%s'", args->backbone->type);
    if (decoder->make && !decoder->original_names)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "model.decoder: checkpoints of Model Garden with '%s' are not read or "
                       "written",
                       args->decoder->type);
    TL_TRY(backbone->original_names(backbone_config, into));
    return decoder->make ? decoder->original_names(decoder_config, &with, into) : TL_OK;
}

/* --- pictures of evaluations ------------------------------------------------------------------ */

tl_status tli_three_floats(const float **out, tl_arena *arena, tl_doubles given)
{
    *out = NULL;
    if (given.count < 3) return TL_OK;
    float *made = tl_arena_array(arena, 3, sizeof *made);
    if (!made) return TL_ENOMEM;
    for (int i = 0; i < 3; i++) made[i] = (float)given.items[i];
    *out = made;
    return TL_OK;
}

/* --- data ------------------------------------------------------------------------------------- */

void tli_init_training(void *data)
{
    ((tl_data_config *)data)->is_training.value = true;
}

void tli_init_validation(void *data)
{
    ((tl_data_config *)data)->is_training.value = false;
}

/* --- predictions ------------------------------------------------------------------------------ */

tl_status tli_query_data(const tl_data_config **out, const tl_task *t)
{
    const tl_task_config *c = t->config;
    *out = c->validation_data ? c->validation_data : c->train_data;
    if (*out && c->model.value) return TL_OK;
    return TL_FAIL(TL_EINVAL, "the run has neither train_data nor validation_data, which say how "
                              "pictures are made ready");
}

tl_status tli_query_size(int64_t size[2], const tl_query *q)
{
    tl_image_head head = {.height = q->shape.dims[0], .width = q->shape.dims[1]};
    if (!q->shape.rank) TL_TRY(tl_image_look(&head, q->data, q->size));
    if (!q->shape.rank && !q->of_data) tl_image_upright(&head);
    size[0] = head.height;
    size[1] = head.width;
    return TL_OK;
}

/* --- beginning with other weights ------------------------------------------------------------- */

static bool is_name(const tl_value *v, const char *name)
{
    return v->kind == TL_VALUE_SCALAR && strcmp(v->text, name) == 0;
}

/* Whether it is among them; as in the original a string may name two. */
static bool has_module(const tl_value *v, const char *name)
{
    if (!v) return false;
    if (v->kind == TL_VALUE_SCALAR) return strstr(v->text, name) != NULL;
    for (int64_t i = 0; i < v->count; i++)
        if (is_name(v->items[i], name)) return true;
    return false;
}

static bool is_module(const tl_value *v)
{
    return is_name(v, "all") || is_name(v, "backbone") || is_name(v, "decoder");
}

tl_status tli_modules_check(const tl_value *modules)
{
    tl_str found = TL_STR_INIT;
    const tl_value *wrong = NULL;
    if (modules->kind == TL_VALUE_SCALAR && !is_module(modules)
        && !is_name(modules, "backbone,decoder") && !is_name(modules, "backbone, decoder"))
        wrong = modules;
    for (int64_t i = 0; modules->kind == TL_VALUE_LIST && i < modules->count; i++)
        if (!is_module(modules->items[i])) wrong = modules->items[i];
    if (!wrong) return TL_OK;
    tl_value_name(&found, wrong);
    tl_status st = TL_FAIL(TL_EINVAL,
                           "init_checkpoint_modules: expected all, backbone, decoder, or a list of "
                           "them, found %s",
                           tl_str_text(&found));
    tl_str_deinit(&found);
    return st;
}

tl_status tli_modules_initialize(tl_task *t, tl_model *m, const tl_value *modules)
{
    static const char *const names[] = {"backbone", "decoder"};
    const char *from = t->config->init_checkpoint, *parts[TL_COUNT(names)];
    int64_t count = 0;
    if (!from || !*from) return TL_OK;
    for (int i = 0; i < TL_COUNT(names) && !has_module(modules, "all"); i++)
        if (has_module(modules, names[i])) parts[count++] = names[i];
    return tl_task_initialize_from(t, m, from, (tl_strings){parts, count});
}
