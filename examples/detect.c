/* A detector, trained and asked from C: learns to find circles, squares, triangles, crosses and
 * rings, looks at a picture of its own, tells what it sees, and draws boxes around it.
 *
 *     $ example_detect run 60
 *     ...
 *     square 0.44 from 19, 80 to 61, 121
 *     run/drawn.png shows it
 *
 * The second word is how many steps it trains; more of them, and a larger model, make a good one of
 * it (`tilth train --experiment=detection/local`). */
#include <stdio.h>
#include <stdlib.h>

#include "shapes.h"

/* Smaller than the experiment has it: a few seconds are enough. */
static const char changes[] =
    "task:\n"
    "  model:\n"
    "    input_size: [64, 64, 3]\n"
    "    backbone: {resnet: {depth_multiplier: 0.25}}\n"
    "    decoder: {fpn: {num_filters: 24}}\n"
    "    head: {num_convs: 1, num_filters: 24}\n"
    "  train_data: {global_batch_size: 8}\n"
    "trainer: {optimizer_config: {learning_rate: {cosine: {initial_learning_rate: 0.005}}}}\n"
    "tilth: {jit: false}\n";

/* The best three, however sure it is of them; the best one is drawn last, above the others. */
static void tell_and_draw(const tl_prediction *found, tl_strings names, const tl_pixels *picture)
{
    enum { MOST = 3 };
    const int64_t places = found->count / TL_OBJECT_NUMBERS;
    for (int64_t i = places < MOST ? places : MOST; i-- > 0;) {
        const float *v = found->values + i * TL_OBJECT_NUMBERS;
        const int64_t class_number = (int64_t)v[TL_OBJECT_CLASS]; // 0 is the background
        double box[4];
        if (!(v[TL_OBJECT_SCORE] > 0) || class_number < 1 || class_number > names.count) continue;
        for (int k = 0; k < 4; k++) box[k] = (double)v[TL_OBJECT_BOX + k];
        printf("%s %.2f from %.0f, %.0f to %.0f, %.0f\n", names.items[class_number - 1],
               (double)v[TL_OBJECT_SCORE], box[0], box[1], box[2], box[3]);
        tl_draw_box(picture, box, tl_draw_color(class_number), names.items[class_number - 1]);
    }
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
    TL_TRY_DONE(st, shapes_train(registry, "detection/local", changes, steps, folder));
    TL_TRY_DONE(st, shapes_ask(&p, &answers, registry, folder, pixels));
    tell_and_draw(&answers->items[0], tl_predictor_form(p).names, &picture);
    st = shapes_write(folder, "drawn.png", 3, pixels);
done:
    if (st != TL_OK) fprintf(stderr, "%s: %s\n", argv[0], tl_error_message());
    tl_predictions_free(&answers);
    tl_predictor_free(&p);
    tl_registry_free(&registry);
    return tl_exit_code(st);
}
