#include <tilth/ops/elementwise.h>

#include "nn/fields.h"

static const tl_field choice_fields[] = {
    TL_F(tl_layer_choice, name, .s = "", .help = "in the list; empty: its type and place, dense_0"),
    TL_F(tl_layer_choice, layer, .kind = &tl_kind_layer, .help = "which one"),
    TL_F_END,
};
const tl_desc tli_layer_choice_desc = {
    .name = "layer_choice",
    .help = "one layer of a list",
    .size = sizeof(tl_layer_choice),
    .fields = choice_fields,
};

static const char *name_of(tl_arena *arena, const tl_layer_choice *choice, int64_t place)
{
    const tl_oneof *layer = &choice->layer;
    if (choice->name && *choice->name) return choice->name;
    // Registered layers' configurations derive from tl_layer_config, so that is what a value begins
    // with.
    const char *own = layer->value ? ((const tl_layer_config *)layer->value)->name : NULL;
    if (own && *own) return own;
    return tl_arena_printf(arena, "%s_%lld", layer->type ? layer->type : "layer", (long long)place);
}

static tl_status build_list(tl_scope *s, tl_structs layers)
{
    const tl_layer_choice *list = layers.items;
    for (int64_t i = 0; i < layers.count; i++) {
        const char *name = name_of(tl_scope_arena(s), &list[i], i);
        if (!name) return TL_ENOMEM;
        (void)tl_scope_layer_of(s, name, &list[i].layer);
    }
    return tl_scope_status(s);
}

/* --- sequential ------------------------------------------------------------------------------- */

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
    TL_F(tl_sequential_config, layers, .desc = &tli_layer_choice_desc,
         .help = "one after the other"),
    TL_F_END,
};
TLI_LAYER_CLASS(sequential, tl_layer, "layers one after the other", .build = sequential_build,
                .forward = sequential_forward)

/* --- residual --------------------------------------------------------------------------------- */

typedef struct residual {
    tl_layer base;
    tl_layer *shortcut; /* the last child; NULL: x itself */
} residual;

static tl_status residual_build(tl_layer *l, tl_scope *s, const void *config)
{
    const tl_residual_config *k = config;
    TL_TRY(build_list(s, k->layers));
    if (k->shortcut.type)
        ((residual *)l)->shortcut = tl_scope_layer_of(s, "shortcut", &k->shortcut);
    return tl_scope_status(s);
}

static tl_tensor *residual_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    residual *r = (residual *)l;
    tl_tensor *y = x;
    for (tl_layer *child = l->first; child; child = child->next)
        if (child != r->shortcut) y = tl_call(c, child, y);
    if (r->shortcut) x = tl_call(c, r->shortcut, x);
    if (x && y && !tl_shape_equal(&x->shape, &y->shape)) {
        char left[TL_SHAPE_TEXT], right[TL_SHAPE_TEXT];
        (void)TL_FAIL(TL_EINVAL, "the layers make %s, which cannot be added to %s; %s",
                      tl_shape_text(right, &y->shape), tl_shape_text(left, &x->shape),
                      r->shortcut ? "the shortcut must make the same shape"
                                  : "a shortcut is missing");
        return tl_ctx_fail(c);
    }
    return tl_add(c, x, y);
}

static const tl_field residual_fields[] = {
    TL_F(tl_residual_config, layers, .desc = &tli_layer_choice_desc, .help = "what is added to x"),
    TL_F(tl_residual_config, shortcut, .kind = &tl_kind_layer,
         .help = "what x goes through; x itself when null"),
    TL_F_END,
};
TLI_LAYER_CLASS(residual, residual, "x plus what layers make of it", .build = residual_build,
                .forward = residual_forward)
