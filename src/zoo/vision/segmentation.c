/* The model of semantic segmentation: a backbone, a decoder and a head. */
#include <stdio.h>
#include <string.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/view.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/levels.h"
#include "zoo/vision/segmentation.h"

/* --- what is configured ----------------------------------------------------------------------- */

static const char *const fusion_names[] = {
    "null",           "deeplabv3plus",       "deeplabv3plus_sum_to_merge",
    "pyramid_fusion", "panoptic_fpn_fusion", NULL};

static tl_status check_head(const void *value)
{
    const tl_segmentation_head *k = value;
    if (k->feature_fusion != TL_FUSION_PANOPTIC) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "feature_fusion: panoptic_fpn_fusion is not there yet");
}

#define HEAD_F(member, ...) TL_F(tl_segmentation_head, member, __VA_ARGS__)
static const tl_field head_fields[] = {
    HEAD_F(level, .i = 3, TL_RANGE(0, TLI_LEVELS - 1), .help = "that is looked at"),
    HEAD_F(num_convs, .i = 2, TL_RANGE(0, 64), .help = "convolutions before the classes"),
    HEAD_F(num_filters, .i = 256, TL_AT_LEAST(1), .help = "of each"),
    HEAD_F(use_depthwise_convolution, .help = "depthwise ones, with a pointwise one behind each"),
    HEAD_F(prediction_kernel_size, .i = 1, TL_AT_LEAST(1), .help = "of the last convolution"),
    HEAD_F(upsample_factor, .i = 1, TL_AT_LEAST(1), .help = "of the map before it"),
    HEAD_F(feature_fusion, .names = fusion_names,
           .help = "with what: deeplabv3plus, deeplabv3plus_sum_to_merge, pyramid_fusion or null"),
    HEAD_F(decoder_min_level, TL_AT_LEAST(0), .flags = TL_FIELD_LATER,
           .help = "of panoptic_fpn_fusion"),
    HEAD_F(decoder_max_level, TL_AT_LEAST(0), .flags = TL_FIELD_LATER,
           .help = "of panoptic_fpn_fusion"),
    HEAD_F(low_level, .s = "2", .accept = TL_ACCEPT_NUMBER | TL_ACCEPT_STRING,
           .help = "of the backbone, for deeplabv3plus: a level, or 2/depthwise"),
    HEAD_F(low_level_num_filters, .i = 48, TL_AT_LEAST(1), .help = "that it is brought to"),
    HEAD_F(logit_activation, .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER,
           .help = "behind the classes"),
    TL_F_END,
};
const tl_desc tl_segmentation_head_desc = {
    .name = "segmentation_head",
    .help = "what gives each pixel a class",
    .size = sizeof(tl_segmentation_head),
    .fields = head_fields,
    .check = check_head,
};

static void init_model(void *value)
{
    ((tl_segmentation_config *)value)->norm_activation.use_sync_bn = true;
}

static tl_status check_model(const void *value)
{
    const tl_segmentation_config *m = value;
    if (!m->input_size->count || m->input_size->count == 3) return TL_OK;
    return TL_FAIL(TL_EINVAL, "input_size: expected [height, width, channels], found %lld numbers",
                   (long long)m->input_size->count);
}

#define MODEL_F(member, ...) TL_F(tl_segmentation_config, member, __VA_ARGS__)
static const tl_field model_fields[] = {
    MODEL_F(num_classes, TL_AT_LEAST(0), .help = "number of classes"),
    MODEL_F(input_size, .s = "[]", .accept = TL_ACCEPT_LIST,
            .help = "height, width and channels; null: as the data are"),
    MODEL_F(min_level, .i = 3, TL_RANGE(0, TLI_LEVELS - 1), .help = "the finest map of a pyramid"),
    MODEL_F(max_level, .i = 6, TL_RANGE(0, TLI_LEVELS - 1), .help = "the coarsest"),
    TL_F_STRUCT(tl_segmentation_config, head, &tl_segmentation_head_desc,
                .help = "what gives each pixel a class"),
    MODEL_F(backbone, .kind = &tl_kind_backbone, .help = "what turns images into features"),
    MODEL_F(decoder, .kind = &tl_kind_decoder, .help = "what makes them ready for the head"),
    MODEL_F(mask_scoring_head, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER,
            .help = "what says how good masks are"),
    TL_F_STRUCT(tl_segmentation_config, norm_activation, &tl_norm_activation_desc,
                .help = "batch norm, and the function behind each layer"),
    TL_F_END,
};
const tl_desc tl_segmentation_config_desc = {
    .name = "segmentation_model",
    .help = "a backbone, a decoder and a head for classes of pixels",
    .size = sizeof(tl_segmentation_config),
    .fields = model_fields,
    .init = init_model,
    .check = check_model,
};

/* --- the head --------------------------------------------------------------------------------- */

typedef struct head_args {
    const tl_segmentation_head *config;
    tl_backbone_parts parts;
    int64_t num_classes;
} head_args;
typedef struct head {
    tl_layer base;
    const head_args *args;
    tl_layer *low;    /* brings the finer map to its channels */
    tl_layer **convs; /* each with its norm */
    int64_t count;
    tl_layer *classifier;
} head;

static bool fuses_low(const tl_segmentation_head *k)
{
    return k->feature_fusion == TL_FUSION_DEEPLABV3PLUS
           || k->feature_fusion == TL_FUSION_SUM_TO_MERGE;
}

/* Depthwise kernels have a penalty here, other than in backbones. */
typedef struct depthwise {
    tl_layer base;
    const head_args *args;
    tl_layer *conv, *norm;
} depthwise;

static tl_oneof first_values(void)
{
    static const tl_normal_initializer normal = {.stddev = {true, 0.01}};
    return (tl_oneof){.type = "random_normal", .value = (void *)(uintptr_t)&normal};
}

static tl_status depthwise_build(tl_layer *l, tl_scope *s, const void *config)
{
    depthwise *d = (depthwise *)l;
    d->args = config;
    d->conv = tl_depthwise_conv2d(s, "conv", .kernel = 3, .padding = TL_SAME, .without_bias = true,
                                  .kernel_initializer = first_values(),
                                  .kernel_regularizer = tli_penalty(&d->args->parts));
    d->norm = tli_norm(s, "norm", &d->args->parts, false);
    return tl_scope_status(s);
}

static tl_tensor *depthwise_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    depthwise *d = (depthwise *)l;
    x = tl_call(c, d->norm, tl_call(c, d->conv, x));
    return tl_activate(c, x, d->args->parts.norm_activation->activation);
}

static const tl_layer_class depthwise_class = {
    .cls = TL_CLASS(tl_layer_class, "depthwise_norm", NULL, depthwise, NULL),
    .build = depthwise_build,
    .forward = depthwise_forward,
};

static tl_layer *make_conv(tl_scope *s, const head_args *a, const char *name, int64_t filters,
                           int64_t kernel)
{
    return tli_conv_norm(
        s, name,
        &(tli_conv_norm_config){.parts = a->parts,
                                .filters = filters,
                                .kernel = kernel,
                                .kernel_initializer = first_values(),
                                .activation = a->parts.norm_activation->activation});
}

static tl_status head_build(tl_layer *l, tl_scope *s, const void *config)
{
    head *h = (head *)l;
    const head_args *a = h->args = config;
    const tl_segmentation_head *k = a->config;
    const int64_t each = k->use_depthwise_convolution ? 2 : 1;
    h->convs = tl_arena_array(tl_scope_arena(s), k->num_convs * each, sizeof(tl_layer *));
    if (!h->convs) return TL_ENOMEM;
    if (fuses_low(k)) h->low = make_conv(s, a, "low", k->low_level_num_filters, 1);
    for (int64_t i = 0; i < k->num_convs; i++) {
        const char *wide = tli_level_text(s, "depthwise", i), *name = tli_level_text(s, "conv", i);
        if (!wide || !name) return TL_ENOMEM;
        if (each == 2) h->convs[h->count++] = tl_scope_layer(s, wide, &depthwise_class, a);
        h->convs[h->count++] = make_conv(s, a, name, k->num_filters, each == 2 ? 1 : 3);
    }
    h->classifier =
        tl_conv2d(s, "classifier", .filters = a->num_classes, .kernel = k->prediction_kernel_size,
                  .padding = TL_SAME, .kernel_initializer = first_values(),
                  .kernel_regularizer = tli_penalty(&a->parts));
    return tl_scope_status(s);
}

/* A fine map of the backbone beside the coarse one of the decoder, or added to it. */
static tl_tensor *fuse_low(const head *h, tl_ctx *c, const tl_tensors *backbone, tl_tensor *x)
{
    const tl_segmentation_head *k = h->args->config;
    tl_tensor *low = tl_tensors_get(c, backbone, k->low_level->text);
    if (!x || !low) return NULL;
    low = tl_call(c, h->low, low);
    if (!low) return NULL;
    x = tl_resize(c, x, low->shape.dims[1], low->shape.dims[2], .method = TL_BILINEAR);
    if (k->feature_fusion == TL_FUSION_SUM_TO_MERGE) return tl_add(c, x, low);
    return tl_concat(c, (tl_tensor *[]){x, low}, 2, -1);
}

/* All levels at the size of one. */
static tl_tensor *fuse_pyramid(tl_ctx *c, const tl_tensors *maps, int64_t level)
{
    tl_tensor *at = tli_level_get(c, maps, level), *sum = NULL;
    for (int64_t i = 0; at && i < TLI_LEVELS; i++) {
        tl_tensor *x = tl_tensors_peek(maps, tli_level_name(i));
        if (!x) continue;
        if (i != level)
            x = tl_resize(c, x, at->shape.dims[1], at->shape.dims[2], .method = TL_BILINEAR);
        sum = sum ? tl_add(c, sum, x) : x;
    }
    return sum;
}

/* `maps` are the decoder's, `backbone` those below it. */
static tl_tensor *head_call(const head *h, tl_ctx *c, const tl_tensors *backbone,
                            const tl_tensors *maps)
{
    const tl_segmentation_head *k = h->args->config;
    tl_tensor *x = k->feature_fusion == TL_FUSION_PYRAMID ? fuse_pyramid(c, maps, k->level)
                                                          : tli_level_get(c, maps, k->level);
    if (h->low) x = fuse_low(h, c, backbone, x);
    for (int64_t i = 0; i < h->count; i++) x = tl_call(c, h->convs[i], x);
    if (x && k->upsample_factor > 1)
        x = tl_resize(c, x, x->shape.dims[1] * k->upsample_factor,
                      x->shape.dims[2] * k->upsample_factor, .method = TL_NEAREST);
    return tl_call(c, h->classifier, x);
}

/* By tl_call_all: maps of the decoder by level, those of the backbone with "backbone/" before. */
static void head_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensors backbone = {0};
    for (int64_t i = 0; i < in->count; i++) {
        const char *name = in->items[i].name;
        if (strncmp(name, "backbone/", 9) == 0)
            tl_tensors_put(c, &backbone, name + 9, in->items[i].tensor);
    }
    tl_tensors_put(c, out, "logits", head_call((const head *)l, c, &backbone, in));
}

static const tl_layer_class head_class = {
    .cls = TL_CLASS(tl_layer_class, "segmentation_head", NULL, head, NULL),
    .build = head_build,
    .forward_all = head_forward,
};

/* --- the model -------------------------------------------------------------------------------- */

typedef struct model_config {
    const tl_segmentation_config *model;
    tli_l2 l2;
    head_args head;
} model_config;
typedef struct segmenter {
    tl_model base;
    tli_pyramid pyramid;
    tl_layer *head;
} segmenter;

static tl_status build(tl_model *l, tl_scope *s, const void *config)
{
    segmenter *n = (segmenter *)l;
    const model_config *c = config;
    const tl_segmentation_config *m = c->model;
    TL_TRY(tli_pyramid_make(&n->pyramid, s, &m->backbone, &m->decoder,
                            (tl_levels){m->min_level, m->max_level}, &c->head.parts));
    n->head = tl_scope_layer(s, "head", &head_class, &c->head);
    if (n->head) tl_scope_item(s, "head", n->head);
    return tl_scope_status(s);
}

static void forward(tl_model *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    segmenter *n = (segmenter *)l;
    tl_tensors maps = {0}, all = {0};
    tli_pyramid_call(&n->pyramid, c, in->items[0].tensor, &maps, &all);
    for (int64_t i = 0; i < maps.count; i++) {
        const char *name = tl_arena_printf(tl_ctx_arena(c), "backbone/%s", maps.items[i].name);
        if (!name) tl_ctx_fail(c);
        else tl_tensors_put(c, &all, name, maps.items[i].tensor);
    }
    if (!tl_ctx_failed(c)) tl_call_all(c, n->head, &all, out);
}

static const tl_layer_class segmenter_class = {
    .cls = TL_CLASS(tl_layer_class, "segmentation", NULL, segmenter, NULL),
    .build = build,
    .forward_all = forward,
};

tl_status tl_segmentation_new(tl_model **out, const tl_segmentation_args *args)
{
    const tl_segmentation_config *m = args->config;
    const int64_t batch = args->batch_size > 0 ? args->batch_size : 1, *size = args->size;
    *out = NULL;
    if (m->num_classes < 1)
        return TL_FAIL(TL_EINVAL, "model.num_classes is %lld: set it to the number of classes",
                       (long long)m->num_classes);
    TL_TRY(tli_levels_check((tl_levels){m->min_level, m->max_level}, "model"));
    const tl_spec image = {"image", TL_F32, TL_SHAPE(batch, size[0], size[1], size[2])};
    model_config *c = tl_arena_alloc(args->arena, sizeof *c);
    if (!c) return TL_ENOMEM;
    c->model = m;
    c->head = (head_args){&m->head,
                          {&m->norm_activation, tli_l2_choose(&c->l2, args->l2_weight_decay)},
                          m->num_classes};
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &segmenter_class,
                                              .config = c,
                                              .inputs = &image,
                                              .input_count = 1,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}

/* --- names in Model Garden -------------------------------------------------------------------- */

/* A convolution and its norm. */
static tl_status name_pair(tl_original_names *into, const char *ours, const char *conv,
                           const char *norm)
{
    char path[96];
    snprintf(path, sizeof path, "head/%s/conv", ours);
    TL_TRY(tl_original_names_add(into, path, conv));
    snprintf(path, sizeof path, "head/%s/norm", ours);
    return tl_original_names_add(into, path, norm);
}

tl_status tli_segmentation_names(const tl_segmentation_config *m, tl_arena *arena,
                                 const tl_registry *registry, tl_original_names *into)
{
    const tl_segmentation_head *k = &m->head;
    const int64_t each = k->use_depthwise_convolution ? 2 : 1;
    TL_TRY(tli_name_pyramid(into, &(tli_pyramid_names){.backbone = &m->backbone,
                                                       .decoder = &m->decoder,
                                                       .levels = {m->min_level, m->max_level},
                                                       .norm_activation = &m->norm_activation,
                                                       .arena = arena,
                                                       .registry = registry}));
    if (fuses_low(k)) TL_TRY(name_pair(into, "low", "head/_dlv3p_conv", "head/_dlv3p_norm"));
    for (int64_t i = 0; i < k->num_convs * each; i++) {
        char ours[64], conv[96], norm[64];
        const bool wide = each == 2 && i % 2 == 0;
        snprintf(ours, sizeof ours, "%s_%lld", wide ? "depthwise" : "conv", (long long)(i / each));
        snprintf(conv, sizeof conv, "head/_convs/%lld", (long long)i);
        snprintf(norm, sizeof norm, "head/_norms/%lld", (long long)i);
        TL_TRY(name_pair(into, ours, conv, norm));
        snprintf(conv, sizeof conv, "head/%s/conv/kernel", ours);
        if (wide) TL_TRY(tl_original_names_rename(into, conv, "depthwise_kernel"));
    }
    return tl_original_names_add(into, "head/classifier", "head/_classifier");
}
