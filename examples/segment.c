/* A class for each pixel, with a backbone of one's own: it is registered from C, chosen by its name
 * like those that ship, trained on made-up shapes, and asked about a picture.
 *
 *     $ example_segment run 100
 *     ...
 *     background 0.69, circle 0.31, ring 0.00
 *     run/drawn.png shows it
 *     run/labels.png shows it
 *
 * The second word is how many steps it trains. labels.png has the number of a class at each
 * pixel. */
#include <stdio.h>
#include <stdlib.h>

#include "shapes.h"

/* --- a backbone: one convolution for each level ----------------------------------------------- */

typedef struct stairs_config {
    tl_ints filters; /* of each step; each halves the sides of its map */
} stairs_config;
static const tl_field stairs_fields[] = {
    TL_F(stairs_config, filters, TL_DEFAULT_LIST(int64_t, 16, 32, 48), TL_AT_LEAST(1),
         .help = "of each step"),
    TL_F_END,
};
static const tl_desc stairs_desc = {
    .name = "stairs",
    .help = "one convolution for each level",
    .size = sizeof(stairs_config),
    .fields = stairs_fields,
};

/* What the layer is made of: its own settings, and those of the model around it. */
typedef struct stairs_args {
    const stairs_config *config;
    tl_backbone_parts parts;
} stairs_args;

static tl_status stairs_build(tl_layer *l, tl_scope *s, const void *config)
{
    const stairs_args *a = config;
    const tl_oneof *penalty = a->parts.kernel_regularizer;
    (void)l;
    for (int64_t i = 0; i < a->config->filters.count; i++) {
        const char *name = tl_arena_printf(tl_scope_arena(s), "conv_%lld", (long long)i + 1);
        if (!name) return TL_ENOMEM;
        (void)tl_conv2d(s, name, .filters = a->config->filters.items[i], .kernel = 3, .stride = 2,
                        .padding = TL_SAME, .activation = a->parts.norm_activation->activation,
                        .kernel_regularizer = penalty ? *penalty : (tl_oneof){0});
    }
    return tl_scope_status(s);
}

/* "features" is what a classifier would look at; then come the maps, by their levels. */
static void stairs_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensors maps = {0};
    tl_tensor *x = in->items[0].tensor;
    int64_t level = 1;
    for (tl_layer *conv = l->first; conv; conv = conv->next, level++) {
        const char *name = tl_arena_printf(tl_ctx_arena(c), "%lld", (long long)level);
        x = name ? tl_call(c, conv, x) : tl_ctx_fail(c);
        tl_tensors_put(c, &maps, name, x);
    }
    tl_tensors_put(c, out, "features", x);
    for (int64_t i = 0; i < maps.count; i++)
        tl_tensors_put(c, out, maps.items[i].name, maps.items[i].tensor);
}

static const tl_layer_class stairs_layer = {
    .cls = TL_CLASS(tl_layer_class, "stairs", NULL, tl_layer, NULL),
    .build = stairs_build,
    .forward_all = stairs_forward,
};

static tl_layer *stairs_make(tl_scope *s, const char *name, const void *config,
                             const tl_backbone_parts *parts)
{
    stairs_args *a = tl_arena_alloc(tl_scope_arena(s), sizeof *a);
    if (!a) return NULL;
    *a = (stairs_args){config, *parts};
    return tl_scope_layer(s, name, &stairs_layer, a);
}

static tl_levels stairs_levels(const void *config)
{
    return (tl_levels){1, ((const stairs_config *)config)->filters.count};
}

static const tl_backbone_class stairs = {
    .cls = {.class_size = sizeof(tl_backbone_class),
            .name = "stairs",
            .help = "one convolution for each level",
            .config = &stairs_desc},
    .make = stairs_make,
    .levels = stairs_levels,
};
static const tl_entry entries[] = {{&tl_kind_backbone, &stairs.cls}};
static const tl_module module = {TL_MODULE_HEAD("stairs"), entries, TL_COUNT(entries)};

/* --- a model upon it -------------------------------------------------------------------------- */

static const char changes[] =
    "task:\n"
    "  model:\n"
    "    input_size: [48, 48, 3]\n"
    "    min_level: 1\n"
    "    max_level: 3\n"
    "    backbone: {type: stairs}\n"
    "    decoder: {fpn: {num_filters: 24}}\n"
    "    head: {level: 1, num_convs: 1, num_filters: 24}\n"
    "  losses: {class_weights: [0.2, 1, 1, 1, 1, 1]}\n" // most pixels are background
    "  train_data: {output_size: [48, 48], global_batch_size: 8}\n"
    "  validation_data: {output_size: [48, 48]}\n"
    "trainer: {optimizer_config: {learning_rate: {cosine: {initial_learning_rate: 0.01}}}}\n"
    "tilth: {jit: false}\n";

static void tell(const tl_prediction *a)
{
    for (int64_t i = 0; i < a->top_count; i++)
        printf("%s%s %.2f", i ? ", " : "", a->top[i].name, a->top[i].probability);
    printf("\n");
}

int main(int argc, char **argv)
{
    static uint8_t pixels[SHAPES_HEIGHT * SHAPES_WIDTH * 3];
    const tl_pixels picture = tl_pixels_new(TL_U8, SHAPES_HEIGHT, SHAPES_WIDTH, 3, pixels);
    const char *folder = argc > 1 ? argv[1] : "run";
    const int steps = argc > 2 ? atoi(argv[2]) : 1000;
    tl_registry *registry = NULL;
    tl_predictor *p = NULL;
    tl_predictions *answers = NULL;
    tl_status st;
    shapes_paint(pixels);
    TL_TRY_DONE(st, tl_registry_new_builtin(&registry));
    TL_TRY_DONE(st, tl_registry_add(registry, &module));
    TL_TRY_DONE(st, shapes_train(registry, "segmentation/local", changes, steps, folder));
    TL_TRY_DONE(st, shapes_ask(&p, &answers, registry, folder, pixels));
    const tl_prediction *found = &answers->items[0];
    tell(found);
    tl_draw_classes(&picture, found->pixels, 0, TL_DRAW_ALPHA); // the background stays as it is
    TL_TRY_DONE(st, shapes_write(folder, "drawn.png", 3, pixels));
    st = shapes_write(folder, "labels.png", 1, found->pixels);
done:
    if (st != TL_OK) fprintf(stderr, "%s: %s\n", argv[0], tl_error_message());
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
    tl_registry_free(&registry);
    return tl_exit_code(st);
}
