#include "tool/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/vec.h>

#include "base/inner/clean.h"

typedef struct plot_flags {
    tl_strings metric;
    const char *svg;
    int64_t height;
} plot_flags;
static const tl_field plot_fields[] = {
    TL_F(plot_flags, metric,
         .help = "a metric to draw; may be repeated. The default is the losses of training and of "
                 "evaluations"),
    TL_F(plot_flags, svg, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "file to draw into, instead of the terminal"),
    TL_F(plot_flags, height, .i = 18, TL_RANGE(4, 200),
         .help = "rows of the drawing in the terminal"),
    TL_F_END,
};
static const tl_desc plot_flags_desc = {
    .name = "plot",
    .help = "flags of `plot`",
    .size = sizeof(plot_flags),
    .fields = plot_fields,
};

enum { MOST_SERIES = 1000 };

typedef struct plot {
    tli_run *run;
    const tli_past_runs *runs;
    struct {
        const char **items;
        int64_t count, capacity;
    } metrics;
    struct {
        tli_series *items;
        int64_t count, capacity;
    } series;
} plot;

/* --- what is drawn ---------------------------------------------------------------------------- */

static tl_status add_metric(plot *p, const char *name)
{
    for (int64_t i = 0; i < p->metrics.count; i++)
        if (strcmp(p->metrics.items[i], name) == 0) return TL_OK;
    return TL_VEC_PUSH(&p->metrics, name) ? TL_OK : TL_ENOMEM;
}

static tl_status choose_metrics(plot *p, tl_strings asked)
{
    static const char *const losses[] = {"train/training_loss", "train/total_loss",
                                         "validation_loss"};
    const char *name;
    for (int64_t i = 0; i < asked.count; i++) {
        TL_TRY_NOTE(tli_past_runs_find(&name, p->runs, asked.items[i]), "--metric");
        TL_TRY(add_metric(p, name));
    }
    for (int k = 0; k < TL_COUNT(losses) && !asked.count; k++)
        for (int64_t i = 0; i < p->runs->count; i++)
            if (tli_past_run_curve(&p->runs->items[i], losses[k])) TL_TRY(add_metric(p, losses[k]));
    name = tli_past_runs_metric(p->runs);
    if (p->metrics.count || !name) return TL_OK;
    return add_metric(p, name);
}

static tl_status add_series(plot *p, const tli_past_run *r, int64_t m)
{
    const char *metric = p->metrics.items[m];
    const tli_curve *c = tli_past_run_curve(r, metric);
    bool drawn = tli_curve_summary(c, TL_METRIC_LOWER).known;
    if (!drawn) return TL_OK;
    const char *label = p->runs->count == 1 ? metric
                        : p->metrics.count == 1
                            ? r->name
                            : tl_arena_printf(p->run->arena, "%s: %s", r->name, metric);
    if (!label) return TL_ENOMEM;
    if (p->series.count >= MOST_SERIES)
        return TL_FAIL(TL_ELIMIT, "more than %d curves: name fewer runs", MOST_SERIES);
    bool both = p->runs->count > 1 && p->metrics.count > 1;
    tli_series series = {label, c, both ? r - p->runs->items : p->series.count, both ? m : 0};
    return TL_VEC_PUSH(&p->series, series) ? TL_OK : TL_ENOMEM;
}

static tl_status choose_series(plot *p)
{
    for (int64_t i = 0; i < p->runs->count; i++)
        for (int64_t m = 0; m < p->metrics.count; m++) TL_TRY(add_series(p, &p->runs->items[i], m));
    if (p->series.count) return TL_OK;
    TL_TRY(tli_past_runs_problems(p->runs)); // says more
    return TL_FAIL(TL_ENOTFOUND, "there is nothing to draw: the runs have no finite values yet");
}

/* --- where ------------------------------------------------------------------------------------ */

tli_strokes tli_strokes_of(const tli_run *run)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    bool colours =
        isatty(fileno(run->tool->out)) && term && strcmp(term, "dumb") != 0 && !(none && *none);
    if (!tli_speaks_utf8()) return TLI_STROKES_ASCII;
    return colours ? TLI_STROKES_COLOURS : TLI_STROKES_UNICODE;
}

/* What else could be drawn. */
static void add_others(plot *p)
{
    tl_str names = TL_STR_INIT;
    struct {
        const char **items;
        int64_t count, capacity;
    } seen = {0};
    for (int64_t i = 0; i < p->runs->count; i++)
        for (int64_t k = 0; k < p->runs->items[i].curves.count; k++) {
            const char *name = p->runs->items[i].curves.items[k].name;
            bool known = false;
            for (int64_t s = 0; s < seen.count && !known; s++)
                known = strcmp(seen.items[s], name) == 0;
            for (int64_t s = 0; s < p->metrics.count && !known; s++)
                known = strcmp(p->metrics.items[s], name) == 0;
            if (known || !TL_VEC_PUSH(&seen, name)) continue;
            if (names.length) tl_str_add(&names, ", ");
            tli_add_clean_word(&names, name);
        }
    if (names.length) {
        tl_str_add(&p->run->text, "\nother metrics: ");
        tl_help_wrap(&p->run->text, tl_str_text(&names), 2, p->run->tool->width);
    }
    TL_VEC_FREE(&seen);
    tl_str_deinit(&names);
}

static tl_status draw_svg(plot *p, tli_figure *f, const char *path)
{
    tl_str text = TL_STR_INIT;
    tli_figure_svg(&text, f);
    tl_status st = tli_write_file(path, &text);
    if (st == TL_OK)
        tl_str_addf(&p->run->text, "%s: %" PRId64 " curve%s\n", path, f->count,
                    f->count == 1 ? "" : "s");
    tl_str_deinit(&text);
    return st;
}

/* The drawing has colours of its own, so that names in it are cleaned here. */
static tl_status draw_text(plot *p, tli_figure *f, const plot_flags *given)
{
    tli_strokes strokes = tli_strokes_of(p->run);
    if (strokes == TLI_STROKES_COLOURS) p->run->form = TLI_FORM_STYLED;
    for (int64_t i = 0; i < p->series.count; i++)
        if (!(p->series.items[i].label = tli_clean_word(p->run->arena, p->series.items[i].label)))
            return TL_ENOMEM;
    if (!(f->title = tli_clean_word(p->run->arena, f->title))) return TL_ENOMEM;
    TL_TRY(tli_figure_text(&p->run->text, p->run->arena, f, p->run->tool->width, (int)given->height,
                           strokes));
    if (!given->metric.count) add_others(p);
    return TL_OK;
}

static tl_status draw(plot *p, const plot_flags *given)
{
    TL_TRY(choose_metrics(p, given->metric));
    TL_TRY(choose_series(p));
    tli_figure f = {.series = p->series.items,
                    .count = p->series.count,
                    .title = p->metrics.count == 1 && p->runs->count > 1 ? p->metrics.items[0]
                             : p->runs->count == 1                       ? p->runs->items[0].name
                                                                         : ""};
    TL_TRY(given->svg ? draw_svg(p, &f, given->svg) : draw_text(p, &f, given));
    TL_TRY(tli_tell_now(p->run));
    return tli_past_runs_problems(p->runs);
}

static tl_status run_plot(tli_run *run)
{
    const plot_flags *given = run->given[0];
    tli_past_runs runs;
    if (!run->words.count)
        return TL_FAIL(TL_EINVAL, "no run is named: give the folders of some runs");
    if (given->svg && !*given->svg)
        return TL_FAIL(TL_EINVAL, "--svg: the name of a file is missing");
    tl_status st = tli_past_runs_read(&runs, run->arena, run->words);
    plot p = {.run = run, .runs = &runs};
    if (st == TL_OK) st = draw(&p, given);
    TL_VEC_FREE(&p.metrics);
    TL_VEC_FREE(&p.series);
    tli_past_runs_free(&runs);
    return st;
}

const tli_command tli_command_plot = {
    .name = "plot",
    .brief = "curves of runs, in the terminal or as SVG",
    .usage = "RUN... [--metric=NAME] [--svg=FILE] [flags]\n\n"
             "Draws the metrics of runs of `train` or `train_net` over their steps. Each RUN is "
             "the folder of one. In a terminal with UTF-8 curves are coloured dots, elsewhere "
             "characters. A run that cannot be read is reported, and the others are still drawn; "
             "the command then ends with 1.",
    .flags = {{"Drawing", &plot_flags_desc}},
    .run = run_plot,
};
