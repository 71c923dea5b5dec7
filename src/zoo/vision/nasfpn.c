/* NAS-FPN: Ghiasi et al. 2019, as Model Garden computes it with 256 filters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/pool.h>

#include "zoo/vision/conv_norm.h"
#include "zoo/vision/levels.h"

enum { LOWEST = 3, HIGHEST = 7, INPUTS = HIGHEST - LOWEST + 1, MOST_CELLS = 64 };

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
    TL_F(tl_nasfpn_config, num_repeats, .i = 5, TL_RANGE(1, MOST_CELLS), .help = "of the cell"),
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

/* --- names in Model Garden -------------------------------------------------------------------- */

/* Keras counts layers by how far they are from the outputs, the farthest first, and of equal ones
 * that first which a walk from the outputs back to the inputs meets first. Steps are Keras' layers:
 * pooling is one, an enlarged map five (its shape, a part of that, and three that use it). Of an
 * activation there are up to five too, which does not change the order: each node has one. */
enum { STEPS_ENLARGED = 5, THEIR_FILTERS = 256, MOST_TAKEN = 2 + FEATURES };

/* A map of the pyramid, and what it was made of, in the order of the walk. */
typedef struct placed {
    int level;
    int taken[MOST_TAKEN], steps[MOST_TAKEN], count; /* steps: from its own layer to theirs */
    bool weighs;                                     /* a convolution and its norm */
    int distance;                                    /* of the norm, or of the pooling, ... */
    int order;                                       /* in the walk; 0: not met yet */
    char path[48];
} placed;
typedef struct placing {
    placed maps[INPUTS + MOST_CELLS * NODES];
    int count, met;
} placing;

static int resample_steps(int from, int to)
{
    return from == to ? 0 : from < to ? 1 : STEPS_ENLARGED;
}

static void take(const placing *p, placed *to, int from, int steps)
{
    to->taken[to->count] = from;
    to->steps[to->count++] = steps + resample_steps(p->maps[from].level, to->level);
}

/* The next map of a cell: `maps` are those that the cell has so far, by their places in `p`, and
 * `uses` how often it has used each. */
static void place_node(placing *p, const node *n, const int *maps, int *uses, int count)
{
    placed *to = &p->maps[p->count];
    const int a = maps[n->inputs[0]], b = maps[n->inputs[1]];
    int extra[FEATURES], extras = 0;
    to->level = n->level;
    to->weighs = true;
    uses[n->inputs[0]]++;
    uses[n->inputs[1]]++;
    for (int i = 0; n->output && i < count; i++)
        if (!uses[i] && p->maps[maps[i]].level == n->level) extra[extras++] = i;
    // From the norm: the convolution, the activation, an addition for each extra, then the sum.
    const int sum = 3 + extras;
    const bool first = !n->attention || p->maps[a].level >= p->maps[b].level;
    take(p, to, first ? a : b, sum + (n->attention ? 4 : 1)); // its maximum, sigmoid, product
    take(p, to, first ? b : a, sum + (n->attention ? 2 : 1));
    for (int i = 0; i < extras; i++) {
        take(p, to, maps[extra[i]], sum - i);
        uses[extra[i]]++;
    }
    p->count++;
}

/* The maps that a pyramid begins with. Those of the backbone that have its channels already are no
 * layers. */
static void place_inputs(placing *p, const tl_decoder_parts *parts)
{
    for (int i = 0; i < INPUTS; i++) {
        placed *to = &p->maps[p->count++];
        to->level = LOWEST + i;
        if (to->level > parts->backbone.max) {
            take(p, to, i - 1, 0); // the pooling is its own layer
            continue;
        }
        to->weighs = parts->channels(parts->backbone_config, to->level) != THEIR_FILTERS;
        snprintf(to->path, sizeof to->path, "decoder/project_%d", to->level);
    }
}

static void place_cells(placing *p, int64_t repeats, int outputs[INPUTS])
{
    for (int i = 0; i < INPUTS; i++) outputs[i] = i;
    for (int64_t cell = 1; cell <= repeats; cell++) {
        int maps[FEATURES], uses[FEATURES] = {0};
        memcpy(maps, outputs, INPUTS * sizeof *maps);
        for (int i = 0; i < NODES; i++) {
            maps[INPUTS + i] = p->count;
            snprintf(p->maps[p->count].path, sizeof p->maps->path, "decoder/cell_%lld_node_%d",
                     (long long)cell, i + 1);
            place_node(p, &nodes[i], maps, uses, INPUTS + i);
        }
        for (int i = NODES; i < FEATURES; i++) outputs[p->maps[maps[i]].level - LOWEST] = maps[i];
    }
}

static void walk(placing *p, int at)
{
    placed *m = &p->maps[at];
    if (m->order) return;
    m->order = ++p->met;
    for (int i = 0; i < m->count; i++) walk(p, m->taken[i]);
}

/* Later maps are made of earlier ones. */
static void measure(placing *p)
{
    for (int at = p->count - 1; at >= 0; at--) {
        const placed *m = &p->maps[at];
        for (int i = 0; i < m->count; i++) {
            placed *from = &p->maps[m->taken[i]];
            const int distance = m->distance + m->steps[i];
            if (distance > from->distance) from->distance = distance;
        }
    }
}

/* A convolution is one farther than its norm. */
typedef struct counted {
    const placed *map;
    const char *part;
    int distance;
} counted;

static int compare_counted(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    if (x->distance != y->distance) return x->distance > y->distance ? -1 : 1;
    return x->map->order < y->map->order ? -1 : 1;
}

static tl_status name_all(const placing *p, tl_original_names *into)
{
    counted list[2 * TL_COUNT(p->maps)];
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        const placed *m = &p->maps[i];
        if (!m->weighs) continue;
        list[count++] = (counted){m, "conv", m->distance + 1};
        list[count++] = (counted){m, "norm", m->distance};
    }
    qsort(list, (size_t)count, sizeof *list, compare_counted);
    for (int i = 0; i < count; i++) {
        char ours[64], theirs[64];
        snprintf(ours, sizeof ours, "%s/%s", list[i].map->path, list[i].part);
        snprintf(theirs, sizeof theirs, "decoder/layer_with_weights-%d", i);
        TL_TRY(tl_original_names_add(into, ours, theirs));
    }
    return TL_OK;
}

static tl_status original_names(const void *config, const tl_decoder_parts *parts,
                                tl_original_names *into)
{
    const tl_nasfpn_config *c = config;
    int outputs[INPUTS];
    TL_TRY(check(config, parts));
    if (c->num_filters != THEIR_FILTERS)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "model.decoder.nasfpn.num_filters is %lld: Model Garden's pyramid has more "
                       "layers then; checkpoints go both ways with %d",
                       (long long)c->num_filters, THEIR_FILTERS);
    if (!parts->channels)
        return TL_FAIL(TL_EUNSUPPORTED, "model.decoder: how Model Garden counts the layers of "
                                        "nasfpn on this backbone is not known");
    placing *p = tl_arena_alloc(into->arena, sizeof *p);
    if (!p) return TL_ENOMEM;
    place_inputs(p, parts);
    place_cells(p, c->num_repeats, outputs);
    for (int i = 0; i < INPUTS; i++) walk(p, outputs[i]);
    measure(p);
    return name_all(p, into);
}

const tl_decoder_class tl_decoder_nasfpn = {
    .cls = {.class_size = sizeof(tl_decoder_class),
            .name = "nasfpn",
            .help = "the feature pyramid that a search has found",
            .config = &nasfpn_desc},
    .make = make,
    .check = check,
    .original_names = original_names,
};
