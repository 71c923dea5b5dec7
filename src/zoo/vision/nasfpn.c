/* NAS-FPN: Ghiasi et al. 2019, as Model Garden computes it with 256 filters. */
#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/levels.h"

enum { LOWEST = 3, HIGHEST = 7, INPUTS = HIGHEST - LOWEST + 1 };

/* The cell that the search has found. Inputs count the five levels, then the nodes. */
typedef struct node {
    int level;
    bool attention; /* else a sum */
    int inputs[2];
    bool output;
} node;
static const node nodes[] = {
    {4, true, {1, 3}, false}, {4, false, {1, 5}, false}, {3, false, {0, 6}, true},
    {4, false, {6, 7}, true}, {5, true, {7, 8}, true},   {7, true, {6, 9}, true},
    {6, true, {9, 10}, true},
};
enum { NODES = TL_COUNT(nodes), FEATURES = INPUTS + NODES };

static const tl_field nasfpn_fields[] = {
    TL_F(tl_nasfpn_config, num_filters, .i = 256, TL_AT_LEAST(1), .help = "of each level"),
    TL_F(tl_nasfpn_config, num_repeats, .i = 5, TL_RANGE(1, 64), .help = "of the cell"),
    TL_F(tl_nasfpn_config, use_separable_conv, .help = "depthwise and pointwise convolutions"),
    TL_F_END,
};
static const tl_desc nasfpn_desc = {
    .name = "nasfpn",
    .help = "the feature pyramid that a search has found",
    .size = sizeof(tl_nasfpn_config),
    .fields = nasfpn_fields,
};

typedef struct given {
    const tl_nasfpn_config *config;
    tl_decoder_parts with;
} given;

/* --- a convolution and its norm, which a map with the right channels passes by ---------------- */

typedef struct unit_config {
    const given *given;
    int64_t kernel;
} unit_config;
typedef struct unit {
    tl_layer base;
    tl_layer *conv, *norm;
} unit;

static tl_status unit_build(tl_layer *l, tl_scope *s, const void *config)
{
    unit *u = (unit *)l;
    const unit_config *c = config;
    const tl_nasfpn_config *k = c->given->config;
    const tl_backbone_parts *parts = &c->given->with.parts;
    static const tl_variance_scaling first = {
        .scale = {true, 2}, .mode = TL_FAN_OUT, .distribution = TL_UNTRUNCATED_NORMAL};
    tli_conv_config conv = {
        .filters = k->num_filters,
        .kernel = c->kernel,
        .separable = k->use_separable_conv,
        .kernel_initializer = {.type = "variance_scaling", .value = (void *)(uintptr_t)&first},
        .penalty = tli_penalty(parts)};
    u->conv = tli_conv(s, "conv", &conv);
    u->norm = tli_norm(s, "norm", parts, false);
    return tl_scope_status(s);
}

static tl_tensor *unit_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    unit *u = (unit *)l;
    return tl_call(c, u->norm, tl_call(c, u->conv, x));
}

static const tl_layer_class unit_class = {
    .cls = TL_CLASS(tl_layer_class, "conv_norm", NULL, unit, NULL),
    .build = unit_build,
    .forward = unit_forward,
};

static tl_layer *make_unit(tl_scope *s, const char *name, const given *g, int64_t kernel)
{
    unit_config c = {g, kernel};
    const unit_config *kept = tl_arena_copy(tl_scope_arena(s), &c, sizeof c);
    if (!name || !kept) return tl_scope_fail(s, name ? name : "nasfpn");
    return tl_scope_layer(s, name, &unit_class, kept);
}

/* --- the pyramid ------------------------------------------------------------------------------ */

typedef struct nasfpn {
    tl_layer base;
    const given *given;
    tl_layer *project[INPUTS];
    tl_layer **units; /* [num_repeats][NODES] */
} nasfpn;

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    nasfpn *f = (nasfpn *)l;
    const given *g = f->given = config;
    const int64_t repeats = g->config->num_repeats;
    tl_arena *arena = tl_scope_arena(s);
    f->units = tl_arena_array(arena, repeats * NODES, sizeof(tl_layer *));
    if (!f->units) return TL_ENOMEM;
    for (int i = 0; i < INPUTS; i++) {
        if (LOWEST + i > g->with.backbone.max) break;
        f->project[i] = make_unit(s, tli_level_text(s, "project", LOWEST + i), g, 1);
    }
    for (int64_t i = 0; i < repeats * NODES; i++) {
        const char *name = tl_arena_printf(arena, "cell_%lld_node_%lld", (long long)(i / NODES + 1),
                                           (long long)(i % NODES + 1));
        f->units[i] = make_unit(s, name, g, 3);
    }
    return tl_scope_status(s);
}

/* A map at another level: larger ones are pooled, smaller ones repeated. */
static tl_tensor *resample(tl_ctx *c, tl_tensor *x, int64_t from, int64_t to)
{
    if (!x || from == to) return x;
    if (from < to) {
        const int64_t step = (int64_t)1 << (to - from);
        return tl_max_pool2d(c, x, .size = {step, step}, .stride = {step, step},
                             .padding = TL_SAME);
    }
    const int64_t scale = (int64_t)1 << (from - to);
    return tl_resize(c, x, scale * x->shape.dims[1], scale * x->shape.dims[2],
                     .method = TL_NEAREST);
}

/* What is largest anywhere in `a` says how much of `b` counts. */
static tl_tensor *attend(tl_ctx *c, tl_tensor *a, tl_tensor *b)
{
    return tl_add(c, a, tl_mul(c, b, tl_sigmoid(c, tl_global_max_pool(c, a, true))));
}

typedef struct features {
    tl_tensor *maps[FEATURES];
    int levels[FEATURES];
    int uses[FEATURES];
    int count;
} features;

static tl_tensor *combine(tl_ctx *c, features *f, const node *n)
{
    const int i = n->inputs[0], k = n->inputs[1];
    tl_tensor *a = resample(c, f->maps[i], f->levels[i], n->level);
    tl_tensor *b = resample(c, f->maps[k], f->levels[k], n->level);
    f->uses[i]++;
    f->uses[k]++;
    tl_tensor *y = !n->attention                  ? tl_add(c, a, b)
                   : f->levels[i] >= f->levels[k] ? attend(c, a, b)
                                                  : attend(c, b, a);
    // what nobody has used yet is not lost
    for (int j = 0; n->output && j < f->count; j++) {
        if (f->uses[j] || f->levels[j] != n->level) continue;
        f->uses[j]++;
        y = tl_add(c, y, f->maps[j]);
    }
    return y;
}

static void run_cell(tl_ctx *c, const nasfpn *n, tl_layer *const *units, features *f)
{
    const tl_activation activation = n->given->with.parts.norm_activation->activation;
    for (int i = 0; i < NODES; i++) {
        tl_tensor *y = tl_activate(c, combine(c, f, &nodes[i]), activation);
        f->maps[f->count] = tl_call(c, units[i], y);
        f->levels[f->count] = nodes[i].level;
        f->uses[f->count++] = 0;
    }
}

/* The outputs of a cell are the inputs of the next. */
static features outputs_of(const features *f)
{
    features next = {.count = INPUTS};
    for (int i = f->count - INPUTS; i < f->count; i++) {
        const int at = f->levels[i] - LOWEST;
        next.maps[at] = f->maps[i];
        next.levels[at] = f->levels[i];
    }
    return next;
}

static void forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    nasfpn *n = (nasfpn *)l;
    features f = {.count = INPUTS};
    for (int i = 0; i < INPUTS; i++) {
        tl_tensor *x = n->project[i] ? tli_level_get(c, in, LOWEST + i)
                                     : resample(c, f.maps[i - 1], LOWEST + i - 1, LOWEST + i);
        if (n->project[i] && x && x->shape.dims[3] != n->given->config->num_filters)
            x = tl_call(c, n->project[i], x);
        f.maps[i] = x;
        f.levels[i] = LOWEST + i;
    }
    for (int64_t i = 0; i < n->given->config->num_repeats; i++) {
        run_cell(c, n, n->units + i * NODES, &f);
        f = outputs_of(&f);
    }
    for (int i = 0; i < INPUTS; i++) tl_tensors_put(c, out, tli_level_name(LOWEST + i), f.maps[i]);
}

static const tl_layer_class nasfpn_class = {
    .cls = TL_CLASS(tl_layer_class, "nasfpn", NULL, nasfpn, NULL),
    .build = build,
    .forward_all = forward,
};

static tl_layer *make(tl_scope *s, const char *name, const void *config,
                      const tl_decoder_parts *parts)
{
    given g = {config, *parts};
    const given *kept = tl_arena_copy(tl_scope_arena(s), &g, sizeof g);
    return kept ? tl_scope_layer(s, name, &nasfpn_class, kept) : tl_scope_fail(s, name);
}

static tl_status check(const void *config, const tl_decoder_parts *parts)
{
    (void)config;
    if (parts->model.min != LOWEST || parts->model.max != HIGHEST)
        return TL_FAIL(TL_EINVAL,
                       "model.decoder: nasfpn is of levels 3 to 7, and model.min_level and "
                       "max_level are %lld and %lld",
                       (long long)parts->model.min, (long long)parts->model.max);
    if (parts->backbone.min <= LOWEST && parts->backbone.max >= LOWEST) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "model.decoder: nasfpn needs level 3 of the backbone, which has %lld to %lld",
                   (long long)parts->backbone.min, (long long)parts->backbone.max);
}

const tl_decoder_class tl_decoder_nasfpn = {
    .cls = {.class_size = sizeof(tl_decoder_class),
            .name = "nasfpn",
            .help = "the feature pyramid that a search has found",
            .config = &nasfpn_desc},
    .make = make,
    .check = check,
};
