#include "shapes.h"

#include <stdio.h>

/* --- training --------------------------------------------------------------------------------- */

static tl_status configure(tl_config **out, const tl_registry *registry, const char *experiment,
                           const char *changes, int steps)
{
    char words[256];
    tl_parse_options options = TL_PARSE_OPTIONS_INIT;
    options.experiment = experiment;
    snprintf(words, sizeof words,
             "trainer:\n"
             "  train_steps: %d\n"
             "  optimizer_config:\n"
             "    learning_rate: {cosine: {decay_steps: %d}}\n"
             "    warmup: {linear: {warmup_steps: %d}}\n",
             steps, steps, steps / 8);
    TL_TRY(tl_experiment_begin(out, registry, &options));
    TL_TRY(tl_config_yaml(*out, changes, "example"));
    TL_TRY(tl_config_yaml(*out, words, "example"));
    return tl_experiment_finish(*out, registry, experiment);
}

tl_status shapes_train(tl_registry *registry, const char *experiment, const char *changes,
                       int steps, const char *folder)
{
    tl_config *config = NULL;
    const tl_train_flags flags = {.mode = "train", .model_dir = folder};
    const tl_run_args run = {.experiment = experiment}; // the folder remembers what it is
    tl_status st = configure(&config, registry, experiment, changes, steps);
    if (st == TL_OK)
        st = tl_launch(NULL,
                       &(tl_launch_args){
                           .registry = registry, .config = config, .flags = &flags, .run = &run});
    tl_config_free(&config);
    return st;
}

/* --- a picture -------------------------------------------------------------------------------- */

void shapes_paint(uint8_t *pixels)
{
    tl_rng rng;
    tl_rng_init(&rng, 7);
    for (int y = 0; y < SHAPES_HEIGHT; y++)
        for (int x = 0; x < SHAPES_WIDTH; x++)
            for (int k = 0; k < 3; k++) {
                bool circle = (y - 52) * (y - 52) + (x - 40) * (x - 40) < 26 * 26;
                bool square = y >= 20 && y < 60 && x >= 80 && x < 120;
                int noise = (int)tl_rng_below(&rng, 50);
                *pixels++ = (uint8_t)(circle ? 230 - 90 * k : square ? 40 + 90 * k : 70 + noise);
            }
}

tl_status shapes_ask(tl_predictor **p, tl_predictions **answers, tl_registry *registry,
                     const char *folder, const uint8_t *pixels)
{
    const tl_query query = {.data = pixels,
                            .size = SHAPES_HEIGHT * SHAPES_WIDTH * 3,
                            .shape = TL_SHAPE(SHAPES_HEIGHT, SHAPES_WIDTH, 3)};
    TL_TRY(tl_predictor_open(p, registry, folder, NULL));
    TL_TRY(tl_predictor_run(answers, *p, &query, 1));
    if ((*answers)->items[0].status == TL_OK) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s", (*answers)->items[0].message);
}

tl_status shapes_write(const char *folder, const char *name, int64_t channels,
                       const uint8_t *pixels)
{
    char path[512];
    tl_str png = TL_STR_INIT;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    tl_status st = tl_png_encode(
        &png, &(tl_png_image){SHAPES_WIDTH, SHAPES_HEIGHT, channels, (uint8_t *)(uintptr_t)pixels});
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&png), png.length);
    if (st == TL_OK) printf("%s shows it\n", path);
    tl_str_deinit(&png);
    return st;
}
