/* The experiment `images` with weights of others: model and images as these weights know them. */
#include <inttypes.h>
#include <string.h>

#include "zoo/inner/zoo.h"
#include "zoo/vision/foreign.h"

enum { USUAL_SIDE = 224 };

/* "[123.675,116.28,103.53]" */
static tl_status choose_colours(tl_config *config, const char *name, const double values[3])
{
    static const char *const sections[] = {"train_data", "validation_data"};
    const tl_experiment_config *e = tl_config_value(config);
    const tl_task_config *task = e->task.value;
    char key[64];
    for (int i = 0; i < (task->validation_data ? 2 : 1); i++) {
        snprintf(key, sizeof key, "task.%s.%s", sections[i], name);
        TL_TRY(tli_choose(config, key, "[%.7g,%.7g,%.7g]", values[0], values[1], values[2]));
    }
    return TL_OK;
}

/* "KEY=VALUE KEY=VALUE ...", each unless somebody has said another thing. */
static tl_status choose_words(tl_config *config, tl_str *words, tl_arena *arena)
{
    char *rest = NULL, *text = tl_str_copy(words, arena);
    if (!text) return TL_ENOMEM;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        TL_ASSERT(value);
        *value++ = 0;
        TL_TRY(tli_choose(config, word, "%s", value));
    }
    return TL_OK;
}

/* All in which these weights differ from the backbone as it usually is. */
static tl_status choose_backbone(tl_config *config, const tli_vision_model *m, tl_arena *arena)
{
    tl_str words = TL_STR_INIT;
    void *usual;
    TL_TRY(tli_choose(config, "task.model.backbone.type", "%s", m->family->backbone->cls.name));
    TL_TRY(tl_desc_new(&usual, arena, m->family->backbone->cls.config));
    m->family->compare(&words, &words, m, usual);
    tl_status st = tl_str_status(&words);
    if (st == TL_OK) st = choose_words(config, &words, arena);
    tl_str_deinit(&words);
    return st;
}

/* What files do not say must have been said. */
static tl_status check_unknown(tl_config *config, const tli_vision_model *m, const char *path)
{
    const char *lacks = m->family->unknown ? m->family->unknown(m) : NULL;
    char key[96];
    if (!lacks) return TL_OK;
    snprintf(key, sizeof key, "task.model.backbone.%s.%s", m->family->backbone->cls.name, lacks);
    if (tl_config_is_given(config, key)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s' does not say what %s is: set it", path, key);
}

/* Those that the model has, where the backbone does not have its own. */
static tl_status choose_norms(tl_config *config, const tli_vision_model *m)
{
    if (m->family->own_norms) return TL_OK;
    TL_TRY(tli_choose(config, "task.model.norm_activation.norm_epsilon", "%.17g", m->epsilon));
    if (m->family->own_activation) return TL_OK;
    return tli_choose(config, "task.model.norm_activation.activation", "%s",
                      tl_activation_names[m->activation]);
}

tl_status tli_vision_choose(tl_config *config, const char *path)
{
    tli_foreign_files files;
    tli_vision_model m;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tli_vision_open(&files, &m, arena, path);
    tli_foreign_close(&files);
    int64_t side = m.side ? m.side : USUAL_SIDE;
    if (st == TL_OK) st = choose_backbone(config, &m, arena);
    if (st == TL_OK) st = check_unknown(config, &m, path);
    if (st == TL_OK) st = choose_norms(config, &m);
    if (st == TL_OK)
        st = tli_choose(config, "task.model.input_size", "[%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                        side, side, m.channels);
    if (st == TL_OK && m.channels == 3) st = choose_colours(config, "mean", m.mean);
    if (st == TL_OK && m.channels == 3) st = choose_colours(config, "stddev", m.stddev);
    tl_arena_free(&arena);
    return st == TL_OK ? TL_OK : tl_error_note(st, "task.init_checkpoint");
}
