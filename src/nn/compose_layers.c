#include <tilth/ops/elementwise.h>

#include "nn/fields.h"

static const tl_field choice_fields[] = {
    TL_F(tl_layer_choice, name, .s = "", .help = "in the list; empty: its type and place, dense_0"),
    TL_F(tl_layer_choice, layer, .kind = &tl_kind_layer, .help = "which one"),
    TL_F_END,
};
static const tl_desc choice_desc = {.name = "layer_choice", .help = "one layer of a list",
                                    .size = sizeof(tl_layer_choice), .fields = choice_fields};

static tl_status build_list(tl_scope *s, tl_structs layers)
{
    const tl_layer_choice *list = layers.items;
    char name[128];
    for (int64_t i = 0; i < layers.count; i++) {
        snprintf(name, sizeof name, "%s_%lld", list[i].layer.type ? list[i].layer.type : "layer", (long long)i);
        bool named = list[i].name && *list[i].name;
        tl_scope_layer_of(s, named ? list[i].name : name, &list[i].layer);
    }
    return tl_scope_status(s);
}

/* --- sequential ------------------------------------------------------------------------------------ */

static tl_status sequential_build(tl_layer *l, tl_scope *s, const void *config)
{
    (void)l;
    return build_list(s, ((const tl_sequential_config *)config)->layers);
}

static tl_tensor *sequential_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    for (tl_layer *child = l->first; child; child = child->next) x = tl_call(c, child, x);
    return x;
}

static const tl_field sequential_fields[] = {
    TL_F(tl_sequential_config, layers, .desc = &choice_desc, .help = "one after the other"),
    TL_F_END,
};
TLI_LAYER_CLASS(sequential, tl_layer, "layers one after the other", .build = sequential_build,
                .forward = sequential_forward)

/* --- residual -------------------------------------------------------------------------------------- */

typedef struct residual {
    tl_layer base;
    tl_layer *shortcut; /* the last child; NULL: x itself */
} residual;

static tl_status residual_build(tl_layer *l, tl_scope *s, const void *config)
{
    const tl_residual_config *k = config;
    TL_TRY(build_list(s, k->layers));
    if (k->shortcut.type) ((residual *)l)->shortcut = tl_scope_layer_of(s, "shortcut", &k->shortcut);
    return tl_scope_status(s);
}

static tl_tensor *residual_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    residual *r = (residual *)l;
    tl_tensor *y = x;
    for (tl_layer *child = l->first; child; child = child->next)
        if (child != r->shortcut) y = tl_call(c, child, y);
    return tl_add(c, r->shortcut ? tl_call(c, r->shortcut, x) : x, y);
}

static const tl_field residual_fields[] = {
    TL_F(tl_residual_config, layers, .desc = &choice_desc, .help = "what is added to x"),
    TL_F(tl_residual_config, shortcut, .kind = &tl_kind_layer, .help = "what x goes through; x itself when null"),
    TL_F_END,
};
TLI_LAYER_CLASS(residual, residual, "x plus what layers make of it", .build = residual_build,
                .forward = residual_forward)
