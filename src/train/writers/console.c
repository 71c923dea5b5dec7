#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/train/writers/writer.h>

#include "core/inner/number.h"

enum { LOSS_WINDOW = 200, TIME_WINDOW = 1000, DATA_TIME_WINDOW = 20 };

typedef tl_console_writer_instance console;

static tl_status console_init(tl_event_writer *w, const void *args)
{
    if (args) ((console *)w)->args = *(const tl_console_writer_args *)args;
    return TL_OK;
}

/* --- fields ----------------------------------------------------------------------------------- */

static void add_gap(tl_str *line)
{
    if (line->length) tl_str_add(line, "  ");
}

// "name: 1.23 unit", the number by a format that takes digits and a number.
static void add_number(tl_str *line, const char *name, const char *format, int digits, double value,
                       const char *unit)
{
    char text[64];
    tli_number_text(text, sizeof text, format, digits, value);
    add_gap(line);
    tl_str_addf(line, "%s: %s%s", name, text, unit);
}

// As Python shows a time delta: "0:04:05", "1 day, 2:03:04".
static void add_eta(tl_str *line, double seconds)
{
    if (!isfinite(seconds) || seconds > 1e15) return;
    int64_t s = seconds > 0 ? (int64_t)seconds : 0, days = s / 86400;
    add_gap(line);
    tl_str_add(line, "eta: ");
    if (days) tl_str_addf(line, "%" PRId64 " day%s, ", days, days == 1 ? "" : "s");
    tl_str_addf(line, "%d:%02d:%02d", (int)(s % 86400 / 3600), (int)(s % 3600 / 60), (int)(s % 60));
}

static tl_status time_left(tl_str *line, console *c, tl_event_storage *s, const tl_history *time)
{
    int64_t iteration = tl_event_storage_iteration(s), left = c->args.max_iteration - iteration - 1;
    if (c->args.max_iteration <= 0) return TL_OK;
    if (time) {
        double seconds = tl_history_median(time, TIME_WINDOW) * (double)left;
        add_eta(line, seconds);
        return tl_event_storage_put_plain(s, "eta_seconds", seconds);
    }
    // Until the timer has something to say: by what has passed since the last line.
    int64_t now = tl_clock_ns();
    if (c->wrote && iteration > c->last_iteration)
        add_eta(line, (double)(now - c->last_ns) * 1e-9 * (double)left
                          / (double)(iteration - c->last_iteration));
    c->wrote = true;
    c->last_iteration = iteration;
    c->last_ns = now;
    return TL_OK;
}

// Scalars with this in their names, in the order in which they came.
static tl_status add_named(tl_str *line, tl_event_storage *s, const char *part, int64_t window)
{
    for (int64_t i = 0; i < tl_event_storage_count(s); i++) {
        tl_event_latest latest;
        const tl_history *h;
        TL_TRY(tl_event_storage_at(&latest, s, i));
        if (latest.iteration < 0 || !strstr(latest.name, part)) continue;
        TL_TRY(tl_event_storage_history(&h, s, latest.name));
        add_number(line, latest.name, "%.*g", 4, tl_history_median(h, window), "");
    }
    return TL_OK;
}

/* What is shown when it is there, as it was last. */
static const struct extra {
    const char *name, *shown, *format;
    int digits;
    double scale;
    const char *unit;
} extras[] = {
    {"grad_norm", "grad_norm", "%.*g", 4, 1, ""},
    {"examples_per_second", "examples/s", "%.*f", 1, 1, ""},
    {"tokens_per_second", "tokens/s", "%.*f", 0, 1, ""},
    {"memory_bytes", "max_mem", "%.*f", 0, 1.0 / (1 << 20), "M"},
    {"data_wait", "data_wait", "%.*f", 1, 100, "%"},
    {"mfu", "mfu", "%.*f", 1, 100, "%"},
};

static tl_status add_extras(tl_str *line, tl_event_storage *s)
{
    for (int64_t i = 0; i < TL_COUNT(extras); i++) {
        const struct extra *e = &extras[i];
        const tl_history *h;
        TL_TRY(tl_event_storage_history(&h, s, e->name));
        if (h)
            add_number(line, e->shown, e->format, e->digits, tl_history_latest(h) * e->scale,
                       e->unit);
    }
    return add_named(line, s, "[metric]", TL_EVENT_WINDOW);
}

static void add_position(tl_str *line, const console *c, const tl_event_storage *s)
{
    add_gap(line);
    tl_str_addf(line, "iteration: %" PRId64, tl_event_storage_iteration(s));
    if (c->args.max_iteration > 0) tl_str_addf(line, "/%" PRId64, c->args.max_iteration);
    tl_str_addf(line, "  consumed_samples: %" PRId64, tl_event_storage_samples(s));
}

static tl_status make_line(tl_str *line, console *c, tl_event_storage *s)
{
    const tl_history *time, *data_time, *lr;
    TL_TRY(tl_event_storage_history(&time, s, "time"));
    TL_TRY(time_left(line, c, s, time));
    add_position(line, c, s);
    TL_TRY(add_named(line, s, "loss", LOSS_WINDOW));
    if (time) add_number(line, "time", "%.*f", 4, tl_history_global_average(time), " s/iter");
    TL_TRY(tl_event_storage_history(&data_time, s, "data_time"));
    if (data_time)
        add_number(line, "data_time", "%.*f", 4, tl_history_average(data_time, DATA_TIME_WINDOW),
                   " s/iter");
    if (time && c->args.batch_size > 0)
        add_number(line, "total_throughput", "%.*f", 2,
                   (double)c->args.batch_size / tl_history_global_average(time), " samples/s");
    TL_TRY(tl_event_storage_history(&lr, s, "lr"));
    if (lr) add_number(line, "lr", "%.*e", 2, tl_history_latest(lr), "");
    else tl_str_add(line, "  lr: N/A");
    TL_TRY(add_extras(line, s));
    return tl_str_status(line);
}

static tl_status console_write(tl_event_writer *w, tl_event_storage *s)
{
    console *c = (console *)w;
    if (c->args.max_iteration > 0 && tl_event_storage_iteration(s) == c->args.max_iteration)
        return TL_OK;
    tl_str line = TL_STR_INIT;
    tl_status st = make_line(&line, c, s);
    if (st == TL_OK) {
        if (c->args.say) c->args.say(tl_str_text(&line), c->args.payload);
        else TL_LOG_INFO("%s", tl_str_text(&line));
    }
    tl_str_deinit(&line);
    return st;
}

const tl_event_writer_class tl_console_writer = {
    .cls = TL_CLASS(tl_event_writer_class, "console", NULL, console, NULL,
                    .help = "one line for people, now and then"),
    .init = console_init,
    .write = console_write,
};
