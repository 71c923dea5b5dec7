#include <tilth/train/writers/progress.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <tilth/base/clock.h>
#include <tilth/train/controller/controller.h>

#include "base/inner/clean.h"
#include "core/inner/storage.h"
#include "train/trainer/trainer.h"

enum { USUAL_WIDTH = 80, LEAST_BAR = 10, MOST_BAR = 40 };

static const double BETWEEN_DRAWS_S = 0.1, WINDOW_S = 5; /* of the speed that is told */

/* A number of the training. Where steps are under way it is asked for at one drawing, and shown at
 * a later one, when it has come: nobody waits for it. */
typedef struct number {
    tl_tensor *asked; /* at the host; NULL: none was */
    bool coming, known;
    double value;
} number;

typedef struct progress {
    tl_hook base;
    tl_progress_args args;
    bool terminal; /* whose width may change at any time */
    bool drawn;    /* a bar stands on the last line */
    int64_t drawn_ns;
    /* The stretch by which the speed is told: evaluations interrupt it, and the first step, in
     * which programs are compiled, is none of it. */
    bool first;
    int64_t from_step, from_ns;
    double steps_per_second; /* 0: not known yet */
    int width;               /* of the bar; it only becomes smaller, so that it stands still */
    number loss, metric;
    int64_t eval_ns;
} progress;

static tl_status start(tl_hook *h, const void *config)
{
    progress *p = (progress *)h;
    p->args = *(const tl_progress_args *)config;
    if (p->args.width < 1) p->args.width = USUAL_WIDTH;
    p->width = MOST_BAR;
    p->terminal = isatty(fileno(p->args.to));
    if (!p->args.metric) return TL_OK;
    p->args.metric = tl_arena_strdup(h->arena, p->args.metric);
    return p->args.metric ? TL_OK : TL_ENOMEM;
}

/* Asked before each drawing, as somebody may pull at the window: a line that is wider than that
 * could not be drawn over. */
static void ask_width(progress *p)
{
    struct winsize size;
    if (!p->terminal || ioctl(fileno(p->args.to), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return;
    if (size.ws_col == p->args.width) return;
    p->args.width = size.ws_col;
    p->width = MOST_BAR;
}

/* --- numbers ---------------------------------------------------------------------------------- */

void tl_progress_time(tl_str *out, double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9) seconds = 0;
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        tl_str_addf(out, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s % 3600 / 60), (int)(s % 60));
    else tl_str_addf(out, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

void tl_progress_count(tl_str *out, double count)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", count > 0 && count < 1e15 ? count : 0);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) tl_str_addc(out, ',');
        tl_str_addc(out, digits[i]);
    }
}

static void take(number *n, const tl_tensor *t)
{
    double value;
    if (tl_tensor_item(t, &value) != TL_OK) tl_error_clear();
    else if ((n->known = isfinite(value) != 0)) n->value = value;
}

static void ask(number *n, const tl_tensor *t)
{
    if (n->asked && (n->asked->dtype != t->dtype || !tl_shape_equal(&n->asked->shape, &t->shape)))
        tl_tensor_free(&n->asked);
    tl_status st =
        n->asked ? TL_OK
                 : tl_tensor_new_at(&n->asked, tl_tensor_engine(t), TL_AT_HOST, t->dtype, t->shape);
    if (st == TL_OK) st = tl_tensor_copy(n->asked, t);
    n->coming = st == TL_OK;
    if (st != TL_OK) tl_error_clear();
}

/* The mean of the loop so far, or as it was when it was asked for. */
static void look_at(number *n, tl_metric *m, tl_trainer *t)
{
    if (n->coming && !tli_storage_is_there(n->asked->storage)) return;
    if (n->coming) take(n, n->asked);
    n->coming = false;
    tl_mark mark = tl_ctx_begin(t->ctx);
    bool taping = tl_ctx_set_taping(t->ctx, false);
    const tl_tensor *result = tl_metric_result(m, t->ctx);
    if (result && tl_tensor_count(result) == 1) {
        if (t->parts->flight.flies) ask(n, result);
        else take(n, result);
    }
    tl_ctx_set_taping(t->ctx, taping);
    tl_ctx_end(t->ctx, mark);
}

/* Tensors end with their engine, which may do so before the hook. */
static void forget(number *n)
{
    tl_tensor_free(&n->asked);
    *n = (number){0};
}

static tl_metric *shown_metric(const progress *p, const tl_trainer *t)
{
    if (!t->train_metrics || !tl_metrics_count(t->train_metrics)) return NULL;
    tl_metric *m = tl_metrics_find(t->train_metrics, p->args.metric ? p->args.metric : "accuracy");
    return m || p->args.metric ? m : tl_metrics_at(t->train_metrics, 0);
}

static void add_metric(tl_str *line, const char *name, number *n, tl_metric *m, tl_trainer *t)
{
    if (!m) return;
    look_at(n, m, t);
    if (n->known) tl_str_addf(line, "  %s %.4f", name, n->value);
}

/* --- the bar ---------------------------------------------------------------------------------- */

/* Names of metrics may be those of classes, which come from the data. */
static void print_line(const progress *p, const tl_str *line)
{
    tli_print_clean(p->args.to, tl_str_text(line), line->length);
    fputc('\n', p->args.to);
}

static void wipe(progress *p)
{
    if (p->drawn) fputs("\r\033[K", p->args.to);
    p->drawn = false;
}

static void add_bar(tl_str *line, const progress *p, double share, int width)
{
    const char *full = p->args.plain ? "=" : "━", *rest = p->args.plain ? " " : "─";
    int done = (int)(share * width);
    if (p->args.plain) tl_str_addc(line, '[');
    for (int i = 0; i < width; i++) tl_str_add(line, i < done ? full : rest);
    if (p->args.plain) tl_str_addc(line, ']');
}

/* Characters, of which all that are shown here are one column wide. */
static int columns(const tl_str *text)
{
    int count = 0;
    for (const char *c = tl_str_text(text); *c; c++) count += (*c & 0xC0) != 0x80;
    return count;
}

/* What stands behind the bar: loss, a metric, speed, how long it will take. What no longer fits
 * into `room` columns is left out, and but for the metric, whose name may be long, all that would
 * follow it. */
static void add_numbers(tl_str *line, progress *p, tl_trainer *t, int64_t last, int room)
{
    enum { LOSS, METRIC, SPEED, REST, FIELDS };
    tl_metric *m = shown_metric(p, t);
    double speed = p->steps_per_second;
    for (int field = LOSS; field < FIELDS; field++) {
        size_t length = line->length;
        if (field == LOSS) add_metric(line, "loss", &p->loss, t->train_loss, t);
        if (field == METRIC && m) add_metric(line, m->name, &p->metric, m, t);
        if (field == SPEED && speed > 0) {
            tl_str_add(line, "  ");
            tl_progress_count(line,
                              speed * (double)(p->args.batch_size > 0 ? p->args.batch_size : 1));
            tl_str_add(line, p->args.batch_size > 0 ? " examples/s" : " steps/s");
        }
        if (field == REST && speed > 0) {
            tl_str_add(line, "  ETA ");
            tl_progress_time(line, (double)(last - t->global_step) / speed);
        }
        if (columns(line) <= room) continue;
        tl_str_cut(line, length);
        if (field != METRIC) return;
    }
}

static void draw(progress *p)
{
    tl_trainer *t = tl_controller_trainer(p->base.controller);
    int64_t last = tl_controller_last_step(p->base.controller);
    tl_str numbers = TL_STR_INIT, line = TL_STR_INIT;
    if (last < 1) return;
    ask_width(p);
    int digits = snprintf(NULL, 0, "%" PRId64, last);
    tl_str_addf(&line, "%*" PRId64 "/%" PRId64 " ", digits, t->global_step, last);
    if ((int)line.length >= p->args.width) tl_str_cut(&line, (size_t)p->args.width - 1);
    // In the last column the cursor would stand in the next line.
    add_numbers(&numbers, p, t, last, p->args.width - (int)line.length - 1);
    int room = p->args.width - (int)line.length - columns(&numbers) - 3;
    if (p->steps_per_second > 0 && room < p->width) p->width = room;
    if (p->width >= LEAST_BAR && room >= p->width)
        add_bar(&line, p, (double)t->global_step / (double)last, p->width);
    tl_str_add(&line, tl_str_text(&numbers));
    if (tl_str_status(&line) == TL_OK && tl_str_status(&numbers) == TL_OK) {
        wipe(p);
        tli_print_clean(p->args.to, tl_str_text(&line), line.length);
        fflush(p->args.to);
        p->drawn = true;
    } else {
        tl_error_clear(); // a bar is not worth a failure
    }
    tl_str_deinit(&line);
    tl_str_deinit(&numbers);
}

/* Steps that the device has been given and not computed yet are no speed. */
static int64_t steps_over(const progress *p)
{
    const tl_trainer *t = tl_controller_trainer(p->base.controller);
    return t ? tli_flight_over(t) : tl_controller_step(p->base.controller);
}

static void begin_stretch(progress *p)
{
    p->from_step = steps_over(p);
    p->from_ns = tl_clock_ns();
}

static tl_status after_step(tl_hook *h)
{
    progress *p = (progress *)h;
    int64_t now = tl_clock_ns(), step = steps_over(p);
    if (p->first) begin_stretch(p);
    p->first = false;
    double seconds = (double)(now - p->from_ns) * 1e-9;
    if ((double)(now - p->drawn_ns) * 1e-9 < BETWEEN_DRAWS_S) return TL_OK;
    p->drawn_ns = now;
    if (seconds > 0 && step > p->from_step)
        p->steps_per_second = (double)(step - p->from_step) / seconds;
    if (seconds > WINDOW_S) begin_stretch(p);
    draw(p);
    return TL_OK;
}

/* --- the rest --------------------------------------------------------------------------------- */

static tl_status before_train(tl_hook *h)
{
    progress *p = (progress *)h;
    tl_trainer *t = tl_controller_trainer(h->controller);
    tl_str table = TL_STR_INIT;
    p->first = true;
    if (!t->model) return TL_OK;
    ask_width(p);
    tl_model_summary_fit(t->model, p->args.width, &table);
    if (tl_str_status(&table) == TL_OK) print_line(p, &table);
    tl_str_deinit(&table);
    if (t->global_step > 0) fprintf(p->args.to, "going on at step %" PRId64 "\n", t->global_step);
    fflush(p->args.to);
    return TL_OK;
}

static tl_status before_eval(tl_hook *h)
{
    progress *p = (progress *)h;
    p->eval_ns = tl_clock_ns();
    wipe(p);
    ask_width(p);
    char line[64];
    snprintf(line, sizeof line, "step %" PRId64 ": evaluating", tl_controller_step(h->controller));
    fprintf(p->args.to, "%.*s", p->args.width - 1, line);
    fflush(p->args.to);
    p->drawn = true;
    return TL_OK;
}

static bool is_told(const tl_logs_entry *e)
{
    return e->kind == TL_LOGS_NUMBER && strcmp(e->name, "steps_per_second") != 0
           && strncmp(e->name, "best_", 5) != 0;
}

/* Adds a word to the line, or to the next one when it does not fit. */
static void add_word(tl_str *line, int *column, int width, const char *word)
{
    enum { INDENT = 2 };
    int length = 0;
    for (const char *c = word; *c; c++) length += (*c & 0xC0) != 0x80;
    if (*column && *column + INDENT + length > width) {
        tl_str_addc(line, '\n');
        *column = 0;
    }
    bool first = !line->length;
    tl_str_addf(line, "%s%s", first ? "" : "  ", word);
    *column += length + (first ? 0 : INDENT);
}

static tl_status tell_evaluation(progress *p, tl_logs *logs, tl_str *line)
{
    tl_str word = TL_STR_INIT;
    tl_logs_entry e;
    double value;
    int column = 0;
    tl_str_addf(&word, "step %" PRId64 ":", tl_controller_step(p->base.controller));
    add_word(line, &column, p->args.width, tl_str_text(&word));
    for (int64_t i = 0; i < tl_logs_count(logs); i++) {
        tl_logs_at(&e, logs, i);
        if (!is_told(&e)) continue;
        tl_status st = tl_logs_entry_number(&value, &e);
        if (st != TL_OK) {
            tl_str_deinit(&word);
            return st;
        }
        tl_str_cut(&word, 0);
        tl_str_addf(&word, "%s %.4f", e.name, value);
        add_word(line, &column, p->args.width, tl_str_text(&word));
    }
    tl_str_cut(&word, 0);
    tl_str_addf(&word, "(%.1f s)", (double)(tl_clock_ns() - p->eval_ns) * 1e-9);
    add_word(line, &column, p->args.width, tl_str_text(&word));
    tl_status st = tl_str_status(&word);
    tl_str_deinit(&word);
    return st == TL_OK ? tl_str_status(line) : st;
}

static tl_status after_eval(tl_hook *h, tl_logs *logs)
{
    progress *p = (progress *)h;
    tl_str line = TL_STR_INIT;
    wipe(p);
    ask_width(p);
    tl_status st = tell_evaluation(p, logs, &line);
    if (st == TL_OK) print_line(p, &line);
    fflush(p->args.to);
    tl_str_deinit(&line);
    begin_stretch(p);
    return st;
}

/* The last loop's numbers stay to be read. */
static tl_status after_train(tl_hook *h)
{
    progress *p = (progress *)h;
    wipe(p);
    fflush(p->args.to);
    forget(&p->loss);
    forget(&p->metric);
    return TL_OK;
}

static const tl_hook_class progress_class = {
    .cls = TL_CLASS(tl_hook_class, "progress", NULL, progress, NULL),
    .start = start,
    .before_train = before_train,
    .after_train = after_train,
    .after_step = after_step,
    .in_flight = true,
    .before_eval = before_eval,
    .after_eval = after_eval,
    .files = TL_HOOK_FILES, // a stream; of several processes one has it
};

tl_status tl_progress_hook_new(tl_hook **out, const tl_progress_args *args)
{
    return tl_hook_new(out, &progress_class, &(tl_hook_args){.config = args});
}
