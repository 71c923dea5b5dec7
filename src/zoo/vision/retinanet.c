/* The model RetinaNet, and what its outputs come to. */
#include <tilth/ops/elementwise.h>
#include <tilth/zoo/retinanet.h>

#include "zoo/vision/levels.h"
#include "zoo/vision/retinanet.h"
#include "zoo/vision/retinanet_head.h"

/* --- what is configured ----------------------------------------------------------------------- */

static const char *const attribute_types[] = {"regression", "classification", NULL};
#define ATTRIBUTE_F(member, ...) TL_F(tl_attribute_head, member, __VA_ARGS__)
static const tl_field attribute_fields[] = {
    ATTRIBUTE_F(name, .s = "", .help = "of the attribute, also in data"),
    ATTRIBUTE_F(type, .names = attribute_types, .help = "regression or classification"),
    ATTRIBUTE_F(size, .i = 1, TL_AT_LEAST(1), .help = "numbers, or classes"),
    ATTRIBUTE_F(prediction_tower_name, .s = "",
                .help = "attributes with the same one share convolutions"),
    ATTRIBUTE_F(num_convs, TL_AT_LEAST(0), .help = "convolutions; null: as the other heads"),
    ATTRIBUTE_F(num_filters, TL_AT_LEAST(0), .help = "of each; null: as the other heads"),
    TL_F_END,
};
const tl_desc tl_attribute_head_desc = {
    .name = "attribute_head",
    .help = "something else that is told of each box",
    .size = sizeof(tl_attribute_head),
    .fields = attribute_fields,
};

#define HEAD_F(member, ...) TL_F(tl_retinanet_head, member, __VA_ARGS__)
static const tl_field head_fields[] = {
    HEAD_F(num_convs, .i = 4, TL_RANGE(0, 64), .help = "convolutions before what is predicted"),
    HEAD_F(num_filters, .i = 256, TL_AT_LEAST(1), .help = "of each"),
    HEAD_F(use_separable_conv, .help = "depthwise and pointwise convolutions"),
    HEAD_F(attribute_heads, .desc = &tl_attribute_head_desc,
           .help = "what else is told of each box"),
    HEAD_F(share_classification_heads,
           .help = "attributes that are classes look at what classes look at"),
    HEAD_F(share_level_convs, .b = true, .help = "one set of kernels for all levels"),
    TL_F_END,
};
const tl_desc tl_retinanet_head_desc = {
    .name = "retinanet_head",
    .help = "what is said of each anchor",
    .size = sizeof(tl_retinanet_head),
    .fields = head_fields,
};

static void init_model(void *value)
{
    ((tl_retinanet_config *)value)->norm_activation.use_sync_bn = true;
}

#define MODEL_F(member, ...) TL_F(tl_retinanet_config, member, __VA_ARGS__)
static const tl_field model_fields[] = {
    MODEL_F(num_classes, TL_AT_LEAST(0), .help = "classes, with the background, which is 0"),
    MODEL_F(input_size, TL_AT_LEAST(1), .help = "height, width, channels"),
    MODEL_F(min_level, .i = 3, TL_RANGE(0, TLI_LEVELS - 1), .help = "the finest map of anchors"),
    MODEL_F(max_level, .i = 7, TL_RANGE(0, TLI_LEVELS - 1), .help = "the coarsest"),
    TL_F_STRUCT(tl_retinanet_config, anchor, &tl_anchor_config_desc,
                .help = "boxes around each place"),
    MODEL_F(backbone, .kind = &tl_kind_backbone, .help = "what turns images into features"),
    MODEL_F(decoder, .kind = &tl_kind_decoder, .help = "what makes them ready for the heads"),
    TL_F_STRUCT(tl_retinanet_config, head, &tl_retinanet_head_desc,
                .help = "what is said of each anchor"),
    TL_F_STRUCT(tl_retinanet_config, detection_generator, &tl_multilevel_generator_config_desc,
                .help = "which boxes are told in the end"),
    TL_F_STRUCT(tl_retinanet_config, norm_activation, &tl_norm_activation_desc,
                .help = "batch norm, and the function behind each layer"),
    TL_F_END,
};
const tl_desc tl_retinanet_config_desc = {
    .name = "retinanet_model",
    .help = "a backbone, a pyramid and heads for boxes",
    .size = sizeof(tl_retinanet_config),
    .fields = model_fields,
    .init = init_model,
};

/* --- the model -------------------------------------------------------------------------------- */

typedef struct model_config {
    const tl_retinanet_config *model;
    tl_backbone_parts parts;
    tli_l2 l2;
} model_config;
typedef struct retinanet {
    tl_model base;
    tli_pyramid pyramid;
    tl_levels levels;
    bool shared; /* one head looks at all levels */
    tl_layer *head;
} retinanet;

tl_anchor_grid tl_retinanet_grid(const tl_retinanet_config *config)
{
    const int64_t step = (int64_t)1 << config->max_level;
    const int64_t *size = config->input_size.items;
    return (tl_anchor_grid){config->min_level, config->max_level,
                            (size[0] + step - 1) / step * step, (size[1] + step - 1) / step * step};
}

static tli_retinanet_head head_args(const tl_retinanet_config *m, const tl_backbone_parts *parts)
{
    return (tli_retinanet_head){.config = &m->head,
                                .parts = *parts,
                                .levels = {m->min_level, m->max_level},
                                .num_classes = m->num_classes,
                                .anchors = tl_anchors_per_place(&m->anchor)};
}

static tl_status build(tl_model *l, tl_scope *s, const void *config)
{
    retinanet *n = (retinanet *)l;
    const model_config *c = config;
    const tl_retinanet_config *m = c->model;
    tli_retinanet_head *head = tl_arena_alloc(tl_scope_arena(s), sizeof *head);
    if (!head) return TL_ENOMEM;
    *head = head_args(m, &c->parts);
    TL_TRY(tli_pyramid_make(&n->pyramid, s, &m->backbone, &m->decoder,
                            (tl_levels){m->min_level, m->max_level}, &c->parts));
    n->levels = head->levels;
    n->shared = m->head.share_level_convs;
    n->head = tli_retinanet_head_make(s, head);
    return tl_scope_status(s);
}

static bool check_maps(const retinanet *n, tl_ctx *c, const tl_tensors *maps)
{
    int64_t first = 0;
    for (int64_t i = n->levels.min; i <= n->levels.max; i++) {
        const tl_tensor *map = tl_tensors_peek(maps, tli_level_name(i));
        const int64_t channels = map ? map->shape.dims[map->shape.rank - 1] : 0;
        if (i == n->levels.min) first = channels;
        if (map && (channels == first || !n->shared)) continue;
        if (!map)
            (void)TL_FAIL(TL_EINVAL,
                          "model.decoder gives no level %lld, and model.max_level is %lld",
                          (long long)i, (long long)n->levels.max);
        else
            (void)TL_FAIL(TL_EINVAL,
                          "model.decoder gives %lld channels at level %lld and %lld at level %lld, "
                          "and one head looks at all: choose fpn, or set "
                          "model.head.share_level_convs to false",
                          (long long)first, (long long)n->levels.min, (long long)channels,
                          (long long)i);
        (void)tl_ctx_fail(c);
        return false;
    }
    return true;
}

static void forward(tl_model *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    retinanet *n = (retinanet *)l;
    tl_tensors maps = {0}, decoded = {0};
    tli_pyramid_call(&n->pyramid, c, in->items[0].tensor, &maps, &decoded);
    if (!tl_ctx_failed(c) && check_maps(n, c, &decoded)) tl_call_all(c, n->head, &decoded, out);
}

static const tl_layer_class retinanet_class = {
    .cls = TL_CLASS(tl_layer_class, "retinanet", NULL, retinanet, NULL),
    .build = build,
    .forward_all = forward,
};

static tl_status check_model(const tl_retinanet_config *m)
{
    if (m->num_classes < 2)
        return TL_FAIL(TL_EINVAL,
                       "model.num_classes is %lld: set it to the number of classes, and one for "
                       "the background",
                       (long long)m->num_classes);
    if (m->input_size.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "model.input_size has %lld numbers: set it to [height, width, channels]",
                       (long long)m->input_size.count);
    if (m->input_size.items[2] != 3)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "model.input_size: pictures of %lld channels are not read; "
                       "the third number is 3",
                       (long long)m->input_size.items[2]);
    if (m->anchor.aspect_ratios.count < 1)
        return TL_FAIL(TL_EINVAL, "model.anchor.aspect_ratios: there are none");
    return tli_levels_check((tl_levels){m->min_level, m->max_level}, "model");
}

tl_status tl_retinanet_new(tl_model **out, const tl_retinanet_args *args)
{
    *out = NULL;
    TL_TRY(check_model(args->config));
    const tl_anchor_grid grid = tl_retinanet_grid(args->config);
    const int64_t batch = args->batch_size > 0 ? args->batch_size : 1;
    const tl_spec image = {"image", TL_F32, TL_SHAPE(batch, grid.height, grid.width, 3)};
    model_config *c = tl_arena_alloc(args->arena, sizeof *c);
    if (!c) return TL_ENOMEM;
    c->model = args->config;
    c->parts = (tl_backbone_parts){&args->config->norm_activation,
                                   tli_l2_choose(&c->l2, args->l2_weight_decay)};
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &retinanet_class,
                                              .config = c,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}

/* --- outputs ---------------------------------------------------------------------------------- */

void tli_retinanet_maps(tl_ctx *c, const tl_retinanet_config *m, const tl_tensors *outputs,
                        const char *what, const char *attribute, tl_tensor **maps)
{
    for (int64_t i = m->min_level; i <= m->max_level; i++) {
        const char *name = tli_output_name(tl_ctx_arena(c), what, attribute, i);
        tl_tensor *t = name ? tl_tensors_get(c, outputs, name) : NULL;
        maps[i - m->min_level] = t && t->dtype != TL_F64 ? tl_cast(c, t, TL_F32) : t;
    }
}

tl_detections tl_retinanet_detect(tl_ctx *c, const tl_retinanet_config *config,
                                  const tl_tensors *outputs, tl_tensor *image_shape,
                                  tl_tensor **attributes)
{
    const int levels = (int)(config->max_level - config->min_level + 1);
    const int count = attributes ? (int)config->head.attribute_heads.count : 0;
    const tl_attribute_head *heads = config->head.attribute_heads.items;
    const tl_anchor_grid grid = tl_retinanet_grid(config);
    tl_tensor *boxes[TLI_LEVELS], *scores[TLI_LEVELS];
    tl_tensor **maps = tl_arena_array(tl_ctx_arena(c), count * levels, sizeof *maps);
    if (count && !maps) tl_ctx_fail(c);
    tli_retinanet_maps(c, config, outputs, "box_outputs", NULL, boxes);
    tli_retinanet_maps(c, config, outputs, "cls_outputs", NULL, scores);
    for (int i = 0; maps && i < count; i++)
        tli_retinanet_maps(c, config, outputs, "attribute_outputs", heads[i].name,
                           maps + i * levels);
    tl_tensor *anchors = tl_anchors(c, &config->anchor, &grid);
    if (tl_ctx_failed(c)) return (tl_detections){0};
    return tl_detect(c, &config->detection_generator,
                     &(tl_detect_args){.boxes = boxes,
                                       .scores = scores,
                                       .levels = levels,
                                       .anchors = anchors,
                                       .image_shape = image_shape,
                                       .attributes = maps,
                                       .detection_attributes = attributes,
                                       .attribute_count = count});
}

/* --- names in Model Garden -------------------------------------------------------------------- */

tl_status tli_retinanet_names(const tl_retinanet_config *m, tl_arena *arena,
                              const tl_registry *registry, tl_original_names *into)
{
    const tl_backbone_parts parts = {&m->norm_activation, NULL};
    TL_TRY(check_model(m));
    TL_TRY(tli_name_pyramid(into, &(tli_pyramid_names){.backbone = &m->backbone,
                                                       .decoder = &m->decoder,
                                                       .levels = {m->min_level, m->max_level},
                                                       .norm_activation = &m->norm_activation,
                                                       .arena = arena,
                                                       .registry = registry}));
    const tli_retinanet_head head = head_args(m, &parts);
    return tli_retinanet_head_names(&head, into);
}
