/* Feature pyramids: Lin et al. 2017, as Model Garden computes them. */
#include <stdio.h>

#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>
#include <tilth/ops/view.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/levels.h"

static const char *const fusion_names[] = {"sum", "concat", NULL};
static const tl_field fpn_fields[] = {
    TL_F(tl_fpn_config, num_filters, .i = 256, TL_AT_LEAST(1), .help = "of each level"),
    TL_F(tl_fpn_config, fusion_type, .names = fusion_names,
         .help = "how a level and the coarser one become one: sum or concat"),
    TL_F(tl_fpn_config, use_separable_conv, .help = "depthwise and pointwise convolutions"),
    TL_F(tl_fpn_config, use_keras_layer, .help = "makes no difference here"),
    TL_F_END,
};
static const tl_desc fpn_desc = {
    .name = "fpn",
    .help = "a feature pyramid",
    .size = sizeof(tl_fpn_config),
    .fields = fpn_fields,
};

typedef struct given {
    const tl_fpn_config *config;
    tl_decoder_parts with;
    int64_t top; /* the highest level that comes from the backbone */
} given;
typedef struct fpn {
    tl_layer base;
    const given *given;
    /* by level: of the backbone's levels, those above, and all */
    tl_layer *lateral[TLI_LEVELS], *post_hoc[TLI_LEVELS], *coarser[TLI_LEVELS], *norm[TLI_LEVELS];
} fpn;

static int64_t top_of(const tl_decoder_parts *with)
{
    return with->backbone.max < with->model.max ? with->backbone.max : with->model.max;
}

/* Keras gives a separable convolution neither the initializer nor the penalty that it is told for
 * kernels. */
static tl_layer *make_conv(tl_scope *s, const given *g, const char *what, int64_t level,
                           int64_t kernel, int64_t stride)
{
    const bool separable = g->config->use_separable_conv;
    const char *name = tli_level_text(s, what, level);
    tli_conv_config conv = {.filters = g->config->num_filters,
                            .kernel = kernel,
                            .stride = stride,
                            .separable = separable};
    if (!name) return NULL;
    if (!separable) {
        conv.kernel_initializer = (tl_oneof)TL_INITIALIZER("variance_scaling");
        conv.penalty = tli_penalty(&g->with.parts);
    }
    return tli_conv(s, name, &conv);
}

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    fpn *f = (fpn *)l;
    const given *g = f->given = config;
    const tl_levels levels = g->with.model;
    for (int64_t i = levels.min; i <= levels.max; i++) {
        const char *norm = tli_level_text(s, "norm", i);
        if (i <= g->top) {
            f->lateral[i] = make_conv(s, g, "lateral", i, 1, 1);
            f->post_hoc[i] = make_conv(s, g, "post_hoc", i, 3, 1);
        } else {
            f->coarser[i] = make_conv(s, g, "coarser", i, 3, 2);
        }
        if (norm) f->norm[i] = tli_norm(s, norm, &g->with.parts, false);
    }
    return tl_scope_status(s);
}

/* A coarse map, as large as the next finer one, and what that one has of its own. */
static tl_tensor *fuse(tl_ctx *c, const given *g, tl_tensor *coarse, tl_tensor *own)
{
    if (!coarse || !own) return NULL;
    coarse = tl_resize(c, coarse, 2 * coarse->shape.dims[1], 2 * coarse->shape.dims[2],
                       .method = TL_NEAREST);
    if (g->config->fusion_type == TL_FPN_SUM) return tl_add(c, coarse, own);
    return tl_concat(c, (tl_tensor *[]){coarse, own}, 2, -1);
}

static void forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    fpn *f = (fpn *)l;
    const given *g = f->given;
    const tl_levels levels = g->with.model;
    tl_tensor *maps[TLI_LEVELS] = {NULL}, *above = NULL;
    for (int64_t i = g->top; i >= levels.min; i--) {
        tl_tensor *own = tl_call(c, f->lateral[i], tli_level_get(c, in, i));
        above = i == g->top ? own : fuse(c, g, above, own);
        maps[i] = tl_call(c, f->post_hoc[i], above);
    }
    for (int64_t i = g->top + 1; i <= levels.max; i++) {
        tl_tensor *x = maps[i - 1];
        if (i > g->top + 1) x = tl_activate(c, x, g->with.parts.norm_activation->activation);
        maps[i] = tl_call(c, f->coarser[i], x);
    }
    for (int64_t i = levels.min; i <= levels.max; i++)
        tl_tensors_put(c, out, tli_level_name(i), tl_call(c, f->norm[i], maps[i]));
}

static const tl_layer_class fpn_class = {
    .cls = TL_CLASS(tl_layer_class, "fpn", NULL, fpn, NULL),
    .build = build,
    .forward_all = forward,
};

static tl_layer *make(tl_scope *s, const char *name, const void *config,
                      const tl_decoder_parts *parts)
{
    given g = {config, *parts, top_of(parts)};
    const given *kept = tl_arena_copy(tl_scope_arena(s), &g, sizeof g);
    return kept ? tl_scope_layer(s, name, &fpn_class, kept) : tl_scope_fail(s, name);
}

static tl_status check(const void *config, const tl_decoder_parts *parts)
{
    (void)config;
    if (parts->backbone.min <= parts->model.min && parts->model.min <= parts->backbone.max)
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "model.min_level is %lld, and the backbone has levels %lld to %lld: a pyramid "
                   "stands on one of them",
                   (long long)parts->model.min, (long long)parts->backbone.min,
                   (long long)parts->backbone.max);
}

/* --- names in Model Garden -------------------------------------------------------------------- */

/* Keras counts layers by how far they are from the outputs, the farthest first; of equal ones that
 * which the lower level leads to is first, and there the later one. A norm is an output: 0. */
typedef struct placed {
    const char *what;
    int64_t level, distance;
} placed;

enum { MOST_PLACED = 4 * TLI_LEVELS };

static void place(placed *list, int *count, const char *what, int64_t level, int64_t distance)
{
    int at = (*count)++;
    for (; at > 0 && list[at - 1].distance < distance; at--) list[at] = list[at - 1];
    list[at] = (placed){what, level, distance};
}

/* In the order in which equal ones come. */
static int place_all(placed *list, tl_levels levels, int64_t top)
{
    int count = 0;
    // Of activations, additions and enlarged maps there are some in between.
    const int64_t coarser = levels.max - top;
    const int64_t post_top = coarser > 0 ? 2 * coarser : 1;
    const int64_t way_down = 2 + 2 * (top - levels.min);
    for (int64_t i = levels.min; i <= levels.max; i++) {
        place(list, &count, "norm", i, 0);
        if (i < top) place(list, &count, "post_hoc", i, 1);
        if (i == top) place(list, &count, "post_hoc", i, post_top);
        if (i > top) place(list, &count, "coarser", i, 2 * (levels.max - i) + 1);
        if (i > levels.min) continue;
        // the way from the lowest level goes through all laterals
        place(list, &count, "lateral", top, way_down > post_top + 1 ? way_down : post_top + 1);
        for (int64_t k = top - 1; k >= levels.min; k--)
            place(list, &count, "lateral", k, 3 + 2 * (k - levels.min));
    }
    return count;
}

static tl_status original_names(const void *config, const tl_decoder_parts *parts,
                                tl_original_names *into)
{
    placed list[MOST_PLACED];
    const int count = place_all(list, parts->model, top_of(parts));
    (void)config;
    for (int i = 0; i < count; i++) {
        char ours[64], theirs[64];
        snprintf(ours, sizeof ours, "decoder/%s_%lld", list[i].what, (long long)list[i].level);
        snprintf(theirs, sizeof theirs, "decoder/layer_with_weights-%d", i);
        TL_TRY(tl_original_names_add(into, ours, theirs));
    }
    return TL_OK;
}

const tl_decoder_class tl_decoder_fpn = {
    .cls = {.class_size = sizeof(tl_decoder_class),
            .name = "fpn",
            .help = "a feature pyramid",
            .config = &fpn_desc},
    .make = make,
    .check = check,
    .original_names = original_names,
};
