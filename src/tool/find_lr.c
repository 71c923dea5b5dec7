#include <inttypes.h>
#include <math.h>

#include <tilth/base/vec.h>
#include <tilth/train/run/find_rate.h>

#include "io/inner/json_text.h"
#include "tool/experiment.h"
#include "tool/flag_words.h"
#include "tool/plot.h"

typedef struct find_lr_flags {
    double min, max, smoothing, divergence;
    int64_t steps, height;
    const char *svg;
    bool json;
    tl_strings gin_file, gin_params;
} find_lr_flags;
static const tl_field find_lr_fields[] = {
    TL_F(find_lr_flags, min, .d = 1e-8, .help = "learning rate of the first step, above 0"),
    TL_F(find_lr_flags, max, .d = 1, .help = "learning rate of the last step"),
    TL_F(find_lr_flags, steps, .i = 100, TL_RANGE(2, 1000000),
         .help = "steps from one to the other; each multiplies the rate by the same factor"),
    TL_F(find_lr_flags, smoothing, .d = 0.98, TL_RANGE(0, 1),
         .help = "how much less each older loss counts in the smoothed one; 0: not at all"),
    TL_F(find_lr_flags, divergence, .d = 4, TL_AT_LEAST(0),
         .help = "the search ends when the smoothed loss is so many times its least; 0: only when "
                 "it is not finite"),
    TL_F(find_lr_flags, svg, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file to draw the curve into, instead of the terminal"),
    TL_F(find_lr_flags, json, .help = "one JSON object: the suggestion, and all points"),
    TL_F(find_lr_flags, height, .i = 18, TL_RANGE(4, 200),
         .help = "rows of the drawing in the terminal"),
    TL_F(find_lr_flags, gin_file, .flags = TL_FIELD_PATH, .help = "file with gin bindings"),
    TL_F(find_lr_flags, gin_params, .help = "a gin binding, such as 'Dense.units = 256'"),
    TL_F_END,
};
static const tl_desc find_lr_flags_desc = {
    .name = "find_lr",
    .help = "flags of `find_lr`",
    .size = sizeof(find_lr_flags),
    .fields = find_lr_fields,
};

enum { SEARCH, EXPERIMENT }; /* structs of flags, by their place in the command's table */

/* --- what is told ----------------------------------------------------------------------------- */

static tl_status tell_json(tli_run *run, const tl_rate_search *found)
{
    const tl_parse_options *parse = run->given[EXPERIMENT];
    tli_json j = {.out = &run->text};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "experiment", parse->experiment);
    tli_json_number(&j, "suggestion",
                    found->suggested < 0 ? NAN : found->points[found->suggested].rate);
    tli_json_bool(&j, "diverged", found->diverged);
    tli_json_begin(&j, "points", '[');
    for (int64_t i = 0; i < found->count; i++) {
        tli_json_begin(&j, NULL, '{');
        tli_json_number(&j, "learning_rate", found->points[i].rate);
        tli_json_number(&j, "loss", found->points[i].loss);
        tli_json_number(&j, "smoothed_loss", found->points[i].smoothed);
        tli_json_end(&j, '}');
    }
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    return tl_str_status(&run->text);
}

static tl_status draw(tli_run *run, const tl_rate_search *found)
{
    const find_lr_flags *given = run->given[SEARCH];
    tli_curve curve = {.name = "smoothed loss", .count = found->count};
    curve.items = tl_arena_array(run->arena, found->count, sizeof *curve.items);
    if (!curve.items) return TL_ENOMEM;
    for (int64_t i = 0; i < found->count; i++) {
        const tl_rate_point *p = &found->points[i];
        curve.items[i] =
            (tli_point){(int64_t)lround(log10(p->rate) * TLI_AXIS_POWER), p->smoothed, i};
    }
    tli_figure f = {.title = "smoothed loss by learning rate",
                    .series = &(tli_series){curve.name, &curve, 0, 0},
                    .count = 1,
                    .x_name = "learning rate",
                    .x_powers = true};
    if (!given->svg) {
        tli_strokes strokes = tli_strokes_of(run);
        if (strokes == TLI_STROKES_COLOURS) run->form = TLI_FORM_STYLED;
        return tli_figure_text(&run->text, run->arena, &f, run->tool->width, (int)given->height,
                               strokes);
    }
    tl_str text = TL_STR_INIT;
    tli_figure_svg(&text, &f);
    tl_status st = tli_write_file(given->svg, &text);
    if (st == TL_OK) tl_str_addf(&run->text, "%s: the curve\n", given->svg);
    tl_str_deinit(&text);
    return st;
}

static void tell_text(tl_str *out, const tl_rate_search *found, const find_lr_flags *given)
{
    tl_str_addf(out, "%" PRId64 " of %" PRId64 " steps", found->count, given->steps);
    if (found->count)
        tl_str_addf(out, ", learning rates from %.3g to %.3g", found->points[0].rate,
                    found->points[found->count - 1].rate);
    tl_str_add(out, found->diverged ? ": the next one diverged\n" : "\n");
    if (found->suggested < 0) {
        tl_str_add(out, "no suggestion: the loss does not fall anywhere; try other rates (--min, "
                        "--max), or more --steps\n");
        return;
    }
    const tl_rate_point *p = &found->points[found->suggested];
    tl_str_addf(out, "suggestion: %.3g, where the smoothed loss (%.4g) falls most steeply\n",
                p->rate, p->smoothed);
}

static tl_status tell(tli_run *run, const tl_rate_search *found)
{
    const find_lr_flags *given = run->given[SEARCH];
    if (given->json && !given->svg) return tell_json(run, found);
    if (found->count) TL_TRY(draw(run, found));
    if (given->json) {
        tl_str_cut(&run->text, 0);
        return tell_json(run, found);
    }
    tell_text(&run->text, found, given);
    return tl_str_status(&run->text);
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status find(tli_run *run, const tl_experiment_config *given)
{
    const find_lr_flags *f = run->given[SEARCH];
    const tl_experiment_config *params;
    tl_strategy *strategy = NULL;
    tl_task *task = NULL;
    tl_trainer *trainer = NULL;
    tl_rate_search found = {0};
    uint64_t seed = tl_experiment_seed(given);
    tl_status st;
    TL_TRY_DONE(st, tl_find_rate_config(&params, run->arena, given));
    TL_TRY_DONE(st, tl_experiment_open(&strategy, &task, run->registry, params, NULL, seed));
    TL_TRY_DONE(st,
                tl_create_trainer(&trainer, params, task, strategy, true, false, NULL, NULL, seed));
    TL_TRY_DONE(st, tl_find_rate(&found, trainer,
                                 &(tl_find_rate_args){
                                     .least = f->min,
                                     .greatest = f->max,
                                     .steps = f->steps,
                                     .smoothing = f->smoothing > 0 ? f->smoothing : -1,
                                     .divergence = f->divergence > 0 ? f->divergence : -1,
                                 }));
    st = tell(run, &found);
done:
    tl_rate_search_deinit(&found);
    tl_trainer_free(&trainer);
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    return st;
}

// What no description says of its numbers; checked before anything is built.
static tl_status check(const find_lr_flags *f)
{
    if (!(f->min > 0)) return TL_FAIL(TL_EINVAL, "--min=%g: it must be above 0", f->min);
    if (!(f->max > f->min && f->max < INFINITY))
        return TL_FAIL(TL_EINVAL, "--max=%g: it must be above --min, %g", f->max, f->min);
    if (f->smoothing >= 1)
        return TL_FAIL(TL_EINVAL, "--smoothing=%g: it must be below 1", f->smoothing);
    if (f->divergence > 0 && f->divergence <= 1)
        return TL_FAIL(TL_EINVAL, "--divergence=%g: it must be above 1, or 0", f->divergence);
    if (f->svg && !*f->svg) return TL_FAIL(TL_EINVAL, "--svg: the name of a file is missing");
    return TL_OK;
}

/* As `train` tells it, with the words of this command. */
static tl_status check_lacks(tli_run *run, tl_config *config)
{
    const find_lr_flags *f = run->given[SEARCH];
    const tl_train_flags flags = {.mode = "train", .enable_async_checkpointing = true};
    tli_word_list own = {0};
    tl_status st = tli_flag_words(&own, run->arena, &find_lr_flags_desc, f, NULL);
    if (st == TL_OK)
        st = tli_check_lacks(run, config,
                             &(tli_lacking_args){.command = "find_lr",
                                                 .parse = run->given[EXPERIMENT],
                                                 .flags = &flags,
                                                 .more = {own.items, own.count},
                                                 .task_alone = true});
    TL_VEC_FREE(&own);
    return st;
}

static tl_status run_find_lr(tli_run *run)
{
    const find_lr_flags *f = run->given[SEARCH];
    tl_config *config;
    tl_gin *gin;
    TL_TRY(check(f));
    TL_TRY(tli_experiment_with_gin(&config, &gin, run, run->given[EXPERIMENT], NULL, f->gin_file,
                                   f->gin_params));
    tl_status st = check_lacks(run, config);
    if (st == TL_OK) st = find(run, tl_config_value(config));
    tli_experiment_close(&config, &gin);
    return st;
}

static tl_status more_help(tli_run *run)
{
    return tli_experiment_help(run, run->given[EXPERIMENT]);
}

const tli_command tli_command_find_lr = {
    .name = "find_lr",
    .brief = "searches for a learning rate: trains while it rises",
    .usage = "--experiment=NAME [--min=RATE] [--max=RATE] [--steps=N] [--json] [--svg=FILE] "
             "[flags] [WORD...]\n\n"
             "Trains an experiment for some steps, from its start, while the learning rate rises "
             "from --min to --max by the same factor each step, until the loss diverges. Draws the "
             "loss by the rate, and suggests the rate where the smoothed loss falls most steeply. "
             "The experiment's own schedule and warm-up do not count. Nothing is saved but the "
             "file of --svg. Words change the configuration:\n" TLI_WORDS_HELP,
    .flags = {{"Search", &find_lr_flags_desc}, {"Experiment", &tl_parse_options_desc}},
    .takes_overrides = true,
    .run = run_find_lr,
    .more_help = more_help,
};
