#include "tool/worst.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/io/image/png.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>
#include <tilth/train/strategy.h>

#include "base/inner/base64.h"
#include "io/inner/json_text.h"

enum { MOST = 24, LONGEST_SIDE = 128, LONGEST_TEXT = 4000 };

typedef struct mistake {
    int64_t index; /* among all examples of the evaluation */
    double label, answer;
    double badness; /* the probability of the wrong class, or the magnitude of the error */
    char *shown;    /* its JSON, or NULL */
} mistake;

typedef struct finding {
    const tl_finished *f;
    tl_ctx *ctx;
    bool classes;
    int64_t seen, wrong, count;
    mistake worst[MOST]; /* the worst first */
} finding;

bool tli_worst_can(const tl_finished *f)
{
    tl_answer_form form;
    tl_task_answer_form(f->task, &form);
    return !form.several && !form.objects && !form.pixels && tl_task_takes_queries(f->task)
           && f->trainer->validation_dataset;
}

/* --- batches ---------------------------------------------------------------------------------- */

typedef tl_status batch_fn(finding *g, const tl_batch *b, int64_t first, int64_t *count);

/* All batches from the first one on; `fn` says how many examples were in each. */
static tl_status each_batch(finding *g, int64_t steps, batch_fn *fn)
{
    tl_dataset *data = g->f->trainer->validation_dataset;
    int64_t first = 0, count;
    bool more = true;
    TL_TRY(tl_dataset_rewind(data));
    for (int64_t i = 0; steps < 0 || i < steps; i++, first += count) {
        tl_mark mark = tl_ctx_begin(g->ctx);
        tl_batch b = {.ctx = g->ctx};
        tl_status st = tl_dataset_next(data, g->ctx, &b.tensors, &more);
        count = 0;
        if (st == TL_OK && more) st = fn(g, &b, first, &count);
        tl_ctx_end(g->ctx, mark);
        if (st != TL_OK) return st;
        if (!more) break;
    }
    return TL_OK;
}

static tl_status read_doubles(double **out, tl_arena *arena, const tl_tensor *t)
{
    int64_t count = tl_tensor_count(t);
    *out = tl_arena_array(arena, count + 1, sizeof **out);
    return *out ? tl_tensor_get_doubles(t, *out, count) : TL_ENOMEM;
}

/* --- finding ---------------------------------------------------------------------------------- */

/* Of those that are as bad, the first stay. */
static void keep(finding *g, const mistake *m)
{
    int64_t at = g->count;
    while (at > 0 && m->badness > g->worst[at - 1].badness) at--;
    if (at == MOST) return;
    if (g->count < MOST) g->count++;
    memmove(&g->worst[at + 1], &g->worst[at], (size_t)(g->count - at - 1) * sizeof *m);
    g->worst[at] = *m;
}

/* Labels in the terms of answers: the number of a class, or what the model would have had to say,
 * on its way through the same function. */
static tl_tensor *true_answers(const finding *g, tl_tensor *label, const tl_tensors *outputs)
{
    tl_ctx *c = g->ctx;
    tl_tensors as = {0};
    tl_tensor *raw = outputs->items[0].tensor;
    if (g->classes)
        return label->shape.rank == 2 && label->shape.dims[1] > 1
                   ? tl_argmax(c, label, -1, false)
                   : tl_reshape(c, label, TL_SHAPE(-1));
    label = tl_reshape(c, tl_cast(c, label, TL_F32), raw->shape);
    if (!label) return NULL;
    tl_tensors_put(c, &as, outputs->items[0].name, label);
    return tl_task_build_answers(g->f->task, c, &as);
}

static tl_status judge(finding *g, const tl_tensor *answers, const tl_tensor *truth,
                       const tl_tensor *weight, int64_t first)
{
    tl_arena *arena;
    double *y, *o, *w = NULL;
    int64_t rows = answers->shape.dims[0], width = tl_tensor_count(answers) / (rows ? rows : 1);
    tl_status st;
    TL_TRY(tl_arena_new(&arena));
    TL_TRY_DONE(st, read_doubles(&o, arena, answers));
    TL_TRY_DONE(st, read_doubles(&y, arena, truth));
    if (weight) TL_TRY_DONE(st, read_doubles(&w, arena, weight));
    for (int64_t i = 0; i < rows; i++) {
        const double *row = o + i * width;
        mistake m = {.index = first + i, .label = y[i], .answer = row[0]};
        if (w && w[i] == 0) continue; // fills up the batch
        g->seen++;
        m.badness = fabs(m.answer - m.label);
        for (int64_t k = 0; k < width && g->classes; k++)
            if (!k || row[k] > m.badness) m.badness = row[k], m.answer = (double)k;
        if (g->classes && m.answer == m.label) continue;
        g->wrong += g->classes;
        if (isfinite(m.badness)) keep(g, &m);
    }
done:
    tl_arena_free(&arena);
    return st;
}

static tl_status find_in_batch(finding *g, const tl_batch *b, int64_t first, int64_t *count)
{
    tl_ctx *c = g->ctx;
    tl_batch_parts parts = {0};
    tl_tensors outputs = {0};
    tl_task_split_batch(g->f->task, b, &parts);
    if (!parts.labels.count || !parts.features.count)
        return TL_FAIL(TL_EINVAL, "the validation data has no labels to compare answers with");
    tl_call_all(c, g->f->trainer->model, &parts.features, &outputs);
    TL_TRY(tl_ctx_status(c));
    tl_tensor *answers = tl_task_build_answers(g->f->task, c, &outputs);
    tl_tensor *truth = answers ? true_answers(g, parts.labels.items[0].tensor, &outputs) : NULL;
    TL_TRY(tl_ctx_status(c));
    *count = answers->shape.dims[0];
    if (tl_tensor_count(truth) < *count || (!g->classes && tl_tensor_count(answers) != *count))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the task '%s' has several answers to an example, which "
                       "are not shown as mistakes",
                       g->f->task->name);
    return judge(g, answers, truth, parts.weight, first);
}

/* --- showing ---------------------------------------------------------------------------------- */

/* Small enough for a list: every n-th pixel. */
static void add_picture(tli_json *j, const tl_example_view *v, tl_arena *arena)
{
    int64_t longest = v->height > v->width ? v->height : v->width;
    int64_t step = (longest + LONGEST_SIDE - 1) / LONGEST_SIDE, at = 0;
    tl_png_image image = {.height = (v->height + step - 1) / step,
                          .width = (v->width + step - 1) / step,
                          .channels = v->channels};
    tl_str png = TL_STR_INIT, url = TL_STR_INIT;
    image.pixels = tl_arena_alloc(arena, (size_t)(image.height * image.width * image.channels));
    if (!image.pixels) return;
    for (int64_t y = 0; y < v->height; y += step)
        for (int64_t x = 0; x < v->width; x += step)
            for (int64_t k = 0; k < v->channels; k++)
                image.pixels[at++] = v->pixels[(y * v->width + x) * v->channels + k];
    if (tl_png_encode(&png, &image) == TL_OK) {
        tl_str_add(&url, "data:image/png;base64,");
        tli_base64_add(&url, tl_str_text(&png), png.length);
        tli_json_text(j, "image", tl_str_text(&url));
    }
    tl_str_deinit(&png);
    tl_str_deinit(&url);
}

static tl_status add_example(tli_json *j, const finding *g, const mistake *m,
                             const tl_example_view *v)
{
    tli_json_begin(j, NULL, '{');
    if (g->classes) {
        const char *label = tl_finished_class(g->f, (int64_t)m->label),
                   *answer = tl_finished_class(g->f, (int64_t)m->answer);
        if (!label || !answer) return TL_ENOMEM;
        tli_json_text(j, "label", label);
        tli_json_text(j, "answer", answer);
        tli_json_number(j, "probability", m->badness);
    } else {
        tli_json_number(j, "label", m->label);
        tli_json_number(j, "answer", m->answer);
    }
    tli_json_int(j, "index", m->index);
    if (v->name && *v->name) tli_json_text(j, "name", v->name);
    if (v->text) {
        const char *cut = tl_arena_strndup(v->arena, v->text, strnlen(v->text, LONGEST_TEXT));
        if (!cut) return TL_ENOMEM;
        tli_json_text(j, "text", cut);
    }
    if (v->pixels) add_picture(j, v, v->arena);
    if (v->columns.count) tli_json_begin(j, "row", '{');
    for (int64_t i = 0; i < v->columns.count; i++)
        tli_json_text(j, v->columns.items[i], v->cells.items[i]);
    if (v->columns.count) tli_json_end(j, '}');
    tli_json_end(j, '}');
    return TL_OK;
}

static tl_status show_one(finding *g, mistake *m, const tl_batch *b, int64_t row)
{
    tl_str text = TL_STR_INIT;
    tli_json j = {.out = &text};
    tl_example_view view = {0};
    TL_TRY(tl_arena_new(&view.arena));
    tl_status st = tl_task_show_example(g->f->task, b, row, &view);
    if (st == TL_OK) st = add_example(&j, g, m, &view);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK && !(m->shown = tl_strdup(tl_str_text(&text)))) st = TL_FAIL_NOMEM(text.length);
    tl_arena_free(&view.arena);
    tl_str_deinit(&text);
    return st;
}

static tl_status show_in_batch(finding *g, const tl_batch *b, int64_t first, int64_t *count)
{
    tl_batch_parts parts = {0};
    tl_task_split_batch(g->f->task, b, &parts);
    TL_TRY(tl_ctx_status(g->ctx));
    *count = parts.features.items[0].tensor->shape.dims[0];
    for (int64_t i = 0; i < g->count; i++) {
        int64_t row = g->worst[i].index - first;
        if (row >= 0 && row < *count) TL_TRY(show_one(g, &g->worst[i], b, row));
    }
    return TL_OK;
}

static void tell(tl_str *out, const finding *g)
{
    tli_json j = {.out = out};
    tli_json_begin(&j, NULL, '{');
    tli_json_int(&j, "step", g->f->trainer->global_step);
    tli_json_int(&j, "seen", g->seen);
    if (g->classes) tli_json_int(&j, "wrong", g->wrong);
    tli_json_begin(&j, "examples", '[');
    for (int64_t i = 0; i < g->count; i++)
        if (g->worst[i].shown) tli_json_raw(&j, NULL, g->worst[i].shown);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

tl_status tli_worst_find(tl_str *out, const tl_finished *f, int64_t steps)
{
    finding g = {.f = f};
    tl_answer_form form;
    tl_task_answer_form(f->task, &form);
    g.classes = form.classes;
    TL_TRY(tl_ctx_new(&g.ctx, tl_strategy_engine(f->strategy)));
    tl_status st = each_batch(&g, steps, find_in_batch);
    if (st == TL_OK && g.count) st = each_batch(&g, steps, show_in_batch);
    if (st == TL_OK) tell(out, &g);
    if (st == TL_OK) st = tl_str_status(out);
    for (int64_t i = 0; i < g.count; i++) tl_free(g.worst[i].shown);
    tl_ctx_free(&g.ctx);
    return st;
}
