#include "zoo/vision/retinanet_head.h"

#include <stdio.h>
#include <string.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/levels.h"

/* Convolutions with their norms, and what predicts from them. Kernels are those of all levels, or
 * each level has its own; norms are always of a level. */
typedef struct tower {
    const char *net, *predictor; /* "classnet", "scores" */
    int64_t convs, filters;      /* of the convolutions */
    int64_t outputs;             /* channels of what is predicted */
    bool likely_nothing;         /* begins with a probability of 0.01 for everything */
    bool shared;                 /* by all levels */
    tl_layer **conv[TLI_LEVELS], **norm[TLI_LEVELS], *predict[TLI_LEVELS];
} tower;

typedef struct attribute {
    const tl_attribute_head *config;
    tower tower;
    int64_t tower_of; /* whose convolutions it looks at; -1: those of the classes */
} attribute;

typedef struct head {
    tl_layer base;
    const tli_retinanet_head *args;
    tower classes, boxes;
    attribute *attributes;
} head;

/* --- towers ----------------------------------------------------------------------------------- */

/* Without a level the name has none. */
static const char *part_name(tl_arena *arena, const char *net, const char *part, int64_t level,
                             int64_t i)
{
    return level < 0 ? tl_arena_printf(arena, "%s_%s_%lld", net, part, (long long)i)
                     : tl_arena_printf(arena, "%s_%s_%lld_%lld", net, part, (long long)level,
                                       (long long)i);
}

static tl_oneof normal(const tl_normal_initializer *numbers)
{
    return (tl_oneof){.type = "random_normal", .value = (void *)(uintptr_t)numbers};
}

/* Keras gives a separable convolution neither the initializer nor the penalty that it is told for
 * kernels. */
static tl_layer *make_conv(tl_scope *s, const tli_retinanet_head *a, const char *name,
                           int64_t filters)
{
    static const tl_normal_initializer small = {.stddev = {true, 0.01}};
    tli_conv_config conv = {
        .filters = filters, .kernel = 3, .separable = a->config->use_separable_conv};
    if (!name) return tl_scope_fail(s, "head");
    if (!conv.separable) {
        conv.kernel_initializer = normal(&small);
        conv.penalty = tli_penalty(&a->parts);
    }
    return tli_conv(s, name, &conv);
}

static tl_layer *make_predictor(tl_scope *s, const tli_retinanet_head *a, const tower *t,
                                int64_t level)
{
    static const tl_normal_initializer small = {.stddev = {true, 0.03}},
                                       tiny = {.stddev = {true, 1e-5}};
    static const tl_constant_initializer nothing = {.value = -4.59511985013459}; // -ln 99
    const bool separable = a->config->use_separable_conv;
    const char *name = level < 0 ? t->predictor : tli_level_text(s, t->predictor, level);
    tli_conv_config conv = {.filters = t->outputs,
                            .kernel = 3,
                            .separable = separable,
                            .kernel_initializer = normal(separable ? &small : &tiny),
                            .penalty = tli_penalty(&a->parts)};
    if (!name) return NULL;
    if (t->likely_nothing)
        conv.bias_initializer =
            (tl_oneof){.type = "constant", .value = (void *)(uintptr_t)&nothing};
    return tli_conv(s, name, &conv);
}

static tl_status make_convs(tl_scope *s, const tli_retinanet_head *a, tower *t, int64_t level)
{
    tl_arena *arena = tl_scope_arena(s);
    const int64_t first = a->levels.min;
    t->conv[level] = t->shared && level > first
                         ? t->conv[first]
                         : tl_arena_array(arena, t->convs, sizeof(tl_layer *));
    t->norm[level] = tl_arena_array(arena, t->convs, sizeof(tl_layer *));
    if (!t->conv[level] || !t->norm[level]) return TL_ENOMEM;
    for (int64_t i = 0; i < t->convs; i++) {
        const char *norm = part_name(arena, t->net, "norm", level, i);
        if (!t->shared || level == first)
            t->conv[level][i] = make_conv(
                s, a, part_name(arena, t->net, "conv", t->shared ? -1 : level, i), t->filters);
        if (!norm) return TL_ENOMEM;
        t->norm[level][i] = tli_norm(s, norm, &a->parts, false);
    }
    return tl_scope_status(s);
}

static tl_status make_tower(tl_scope *s, const tli_retinanet_head *a, tower *t, bool with_convs)
{
    for (int64_t i = a->levels.min; i <= a->levels.max; i++) {
        if (with_convs) TL_TRY(make_convs(s, a, t, i));
        t->predict[i] = t->shared && i > a->levels.min
                            ? t->predict[a->levels.min]
                            : make_predictor(s, a, t, t->shared ? -1 : i);
    }
    return tl_scope_status(s);
}

static tl_tensor *climb(tl_ctx *c, const tli_retinanet_head *a, const tower *t, int64_t level,
                        tl_tensor *x)
{
    const tl_activation activation = a->parts.norm_activation->activation;
    for (int64_t i = 0; i < t->convs; i++) {
        x = tl_call(c, t->norm[level][i], tl_call(c, t->conv[level][i], x));
        x = tl_activate(c, x, activation);
    }
    return x;
}

/* --- attributes ------------------------------------------------------------------------------- */

static tl_status check_attribute(const tl_attribute_head *heads, int64_t i, bool share)
{
    const char *name = heads[i].name;
    if (!*name || strchr(name, '/'))
        return TL_FAIL(TL_EINVAL,
                       "model.head.attribute_heads[%lld].name: '%s': an attribute has a name, "
                       "without '/'",
                       (long long)i, name);
    if (*heads[i].prediction_tower_name && share)
        return TL_FAIL(TL_EINVAL,
                       "model.head.attribute_heads[%lld].prediction_tower_name: it and "
                       "share_classification_heads exclude each other",
                       (long long)i);
    for (int64_t k = 0; k < i; k++)
        if (strcmp(heads[k].name, name) == 0)
            return TL_FAIL(TL_EINVAL,
                           "model.head.attribute_heads[%lld].name: another one is called '%s'",
                           (long long)i, name);
    return TL_OK;
}

/* The first one of a shared tower has the convolutions. */
static int64_t tower_of(const tl_attribute_head *heads, int64_t i, bool share)
{
    if (share && heads[i].type == TL_ATTRIBUTE_CLASSIFICATION) return -1;
    for (int64_t k = 0; *heads[i].prediction_tower_name && k < i; k++)
        if (strcmp(heads[k].prediction_tower_name, heads[i].prediction_tower_name) == 0) return k;
    return i;
}

static attribute describe_attribute(const tli_retinanet_head *a, int64_t i, tl_arena *arena)
{
    const tl_retinanet_head *k = a->config;
    const tl_attribute_head *heads = k->attribute_heads.items, *h = &heads[i];
    return (attribute){
        .config = h,
        .tower = {.net = h->name,
                  .predictor = tl_arena_printf(arena, "%s_attributes", h->name),
                  .convs =
                      h->num_convs.set && h->num_convs.value ? h->num_convs.value : k->num_convs,
                  .filters = h->num_filters.set && h->num_filters.value ? h->num_filters.value
                                                                        : k->num_filters,
                  .outputs = a->anchors * h->size,
                  .likely_nothing = h->type == TL_ATTRIBUTE_CLASSIFICATION,
                  .shared = true},
        .tower_of = tower_of(heads, i, k->share_classification_heads)};
}

static tl_status make_attributes(head *h, tl_scope *s, const tli_retinanet_head *a)
{
    const int64_t count = a->config->attribute_heads.count;
    tl_arena *arena = tl_scope_arena(s);
    h->attributes = tl_arena_array(arena, count, sizeof *h->attributes);
    if (!h->attributes) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        TL_TRY(check_attribute(a->config->attribute_heads.items, i,
                               a->config->share_classification_heads));
        attribute *t = &h->attributes[i];
        *t = describe_attribute(a, i, arena);
        if (!t->tower.predictor) return TL_ENOMEM;
        TL_TRY(make_tower(s, a, &t->tower, t->tower_of == i));
    }
    return TL_OK;
}

/* --- the layer -------------------------------------------------------------------------------- */

static tower describe_classes(const tli_retinanet_head *a)
{
    const tl_retinanet_head *k = a->config;
    return (tower){.net = "classnet",
                   .predictor = "scores",
                   .convs = k->num_convs,
                   .filters = k->num_filters,
                   .outputs = a->anchors * a->num_classes,
                   .likely_nothing = true,
                   .shared = k->share_level_convs};
}

static tower describe_boxes(const tli_retinanet_head *a)
{
    const tl_retinanet_head *k = a->config;
    return (tower){.net = "boxnet",
                   .predictor = "boxes",
                   .convs = k->num_convs,
                   .filters = k->num_filters,
                   .outputs = a->anchors * 4,
                   .shared = k->share_level_convs};
}

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    head *h = (head *)l;
    const tli_retinanet_head *a = h->args = config;
    h->classes = describe_classes(a);
    h->boxes = describe_boxes(a);
    TL_TRY(make_tower(s, a, &h->classes, true));
    TL_TRY(make_tower(s, a, &h->boxes, true));
    return make_attributes(h, s, a);
}

const char *tli_output_name(tl_arena *arena, const char *what, const char *of, int64_t level)
{
    return of ? tl_arena_printf(arena, "%s/%s/%lld", what, of, (long long)level)
              : tl_arena_printf(arena, "%s/%lld", what, (long long)level);
}

static void give(tl_ctx *c, tl_tensors *out, const char *what, const char *of, int64_t level,
                 tl_tensor *t)
{
    const char *name = tli_output_name(tl_ctx_arena(c), what, of, level);
    if (name) tl_tensors_put(c, out, name, t);
    else tl_ctx_fail(c);
}

static void call_attributes(const head *h, tl_ctx *c, int64_t level, tl_tensor *x,
                            tl_tensor *of_classes, tl_tensors *out)
{
    const tli_retinanet_head *a = h->args;
    const int64_t count = a->config->attribute_heads.count;
    tl_tensor **seen = tl_arena_array(tl_ctx_arena(c), count, sizeof *seen);
    if (!seen) {
        tl_ctx_fail(c);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const attribute *t = &h->attributes[i];
        seen[i] = t->tower_of < 0   ? of_classes
                  : t->tower_of < i ? seen[t->tower_of]
                                    : climb(c, a, &t->tower, level, x);
        give(c, out, "attribute_outputs", t->config->name, level,
             tl_call(c, t->tower.predict[level], seen[i]));
    }
}

static void forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const head *h = (const head *)l;
    const tli_retinanet_head *a = h->args;
    for (int64_t i = a->levels.min; i <= a->levels.max; i++) {
        tl_tensor *x = tli_level_get(c, in, i);
        tl_tensor *of_classes = climb(c, a, &h->classes, i, x);
        give(c, out, "cls_outputs", NULL, i, tl_call(c, h->classes.predict[i], of_classes));
        tl_tensor *of_boxes = climb(c, a, &h->boxes, i, x);
        give(c, out, "box_outputs", NULL, i, tl_call(c, h->boxes.predict[i], of_boxes));
        if (a->config->attribute_heads.count) call_attributes(h, c, i, x, of_classes, out);
    }
}

static const tl_layer_class head_class = {
    .cls = TL_CLASS(tl_layer_class, "retinanet_head", NULL, head, NULL),
    .build = build,
    .forward_all = forward,
};

tl_layer *tli_retinanet_head_make(tl_scope *s, const tli_retinanet_head *args)
{
    tl_layer *made = tl_scope_layer(s, "head", &head_class, args);
    if (made) tl_scope_item(s, "head", made);
    return made;
}

/* --- names in Model Garden -------------------------------------------------------------------- */

/* What the attributes of the object are called: "_cls_convs", "_cls_norms", "_classifier". */
typedef struct object {
    const char *convs, *norms, *predictor;
} object;

static tl_status name_tower(const tli_retinanet_head *a, const tower *t, object o, bool with_convs,
                            tl_original_names *into)
{
    tl_arena *arena = into->arena;
    for (int64_t level = a->levels.min; level <= a->levels.max; level++) {
        const long long at = (long long)(level - a->levels.min);
        const bool own = !t->shared || at == 0;
        for (int64_t i = 0; with_convs && i < t->convs; i++) {
            const char *conv = part_name(arena, t->net, "conv", t->shared ? -1 : level, i);
            const char *norm = part_name(arena, t->net, "norm", level, i);
            char ours[160], theirs[160];
            if (!conv || !norm) return TL_ENOMEM;
            snprintf(ours, sizeof ours, "head/%s", conv);
            if (t->shared) snprintf(theirs, sizeof theirs, "head/%s/%lld", o.convs, (long long)i);
            else snprintf(theirs, sizeof theirs, "head/%s/%lld/%lld", o.convs, at, (long long)i);
            if (own) TL_TRY(tl_original_names_add(into, ours, theirs));
            snprintf(ours, sizeof ours, "head/%s", norm);
            snprintf(theirs, sizeof theirs, "head/%s/%lld/%lld", o.norms, at, (long long)i);
            TL_TRY(tl_original_names_add(into, ours, theirs));
        }
        if (!own) continue;
        char ours[160], theirs[160];
        if (t->shared) {
            snprintf(ours, sizeof ours, "head/%s", t->predictor);
            snprintf(theirs, sizeof theirs, "head/%s", o.predictor);
        } else {
            snprintf(ours, sizeof ours, "head/%s_%lld", t->predictor, (long long)level);
            snprintf(theirs, sizeof theirs, "head/%s/%lld", o.predictor, at);
        }
        TL_TRY(tl_original_names_add(into, ours, theirs));
    }
    return TL_OK;
}

tl_status tli_retinanet_head_names(const tli_retinanet_head *args, tl_original_names *into)
{
    const tower classes = describe_classes(args), boxes = describe_boxes(args);
    TL_TRY(name_tower(args, &classes, (object){"_cls_convs", "_cls_norms", "_classifier"}, true,
                      into));
    TL_TRY(name_tower(args, &boxes, (object){"_box_convs", "_box_norms", "_box_regressor"}, true,
                      into));
    for (int64_t i = 0; i < args->config->attribute_heads.count; i++) {
        const attribute t = describe_attribute(args, i, into->arena);
        const char *name = t.config->name;
        const object o = {tl_arena_printf(into->arena, "_att_convs/%s", name),
                          tl_arena_printf(into->arena, "_att_norms/%s", name),
                          tl_arena_printf(into->arena, "_att_predictors/%s", name)};
        if (!o.convs || !o.norms || !o.predictor || !t.tower.predictor) return TL_ENOMEM;
        TL_TRY(name_tower(args, &t.tower, o, t.tower_of == i, into));
    }
    return TL_OK;
}
