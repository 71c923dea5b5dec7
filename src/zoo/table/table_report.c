/* What an evaluation of a table tells: which classes are taken for others, how large errors are,
 * and the worst rows. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/vec.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>

#include "zoo/table/table_zoo.h"

enum { MOST_WORST = 5, MOST_MISTAKES = 5 };

#define PLACES "report/place"
#define LABELS "report/label"
#define ANSWERS "report/answer"
#define SHARES "report/share"
#define WEIGHTS "report/weight"

typedef struct bad_row {
    int64_t place;
    double label, answer;
    double badness; /* the probability of a wrong class, or the magnitude of an error */
} bad_row;
typedef struct report {
    double *counts; /* [label, answer], of classes */
    struct {
        double *items;
        int64_t count, capacity;
    } errors;                  /* magnitudes, of numbers */
    bad_row worst[MOST_WORST]; /* the worst one first */
    int64_t worst_count;
} report;

/* --- in the step ------------------------------------------------------------------------------ */

tl_status tli_table_report_step(tl_step *s, tl_tensor *labels, tl_tensor *outputs, bool classes)
{
    tl_ctx *c = s->ctx;
    tl_tensor *weight = tl_step_parts(s)->weight, *place = tl_batch_peek(s->batch, "place");
    if (!place) return tl_ctx_status(c);
    outputs = tl_cast(c, outputs, TL_F32);
    tl_step_log(s, PLACES, tl_cast(c, place, TL_I64));
    tl_step_log(s, LABELS, tl_cast(c, labels, TL_F64));
    tl_step_log(s, ANSWERS,
                tl_cast(c, classes ? tl_argmax(c, outputs, -1, false) : outputs, TL_F64));
    if (classes) tl_step_log(s, SHARES, tl_max(c, tl_softmax(c, outputs, -1), TL_AXES(-1), false));
    if (weight) tl_step_log(s, WEIGHTS, tl_cast(c, weight, TL_F32));
    return tl_ctx_status(c);
}

/* --- batch after batch ------------------------------------------------------------------------ */

/* Keeps the worst ones; of those that are as bad, the first. */
static void keep_worst(report *r, const bad_row *row)
{
    int64_t at = r->worst_count;
    while (at > 0 && row->badness > r->worst[at - 1].badness) at--;
    if (at == MOST_WORST) return;
    if (r->worst_count < MOST_WORST) r->worst_count++;
    memmove(&r->worst[at + 1], &r->worst[at], (size_t)(r->worst_count - at - 1) * sizeof *row);
    r->worst[at] = *row;
}

static tl_status keep_row(report *r, const tl_table_schema *s, int64_t place, double label,
                          double answer, float share)
{
    if (s->kind == TL_TABLE_CLASSIFICATION) {
        r->counts[(int64_t)label * s->class_names.count + (int64_t)answer]++;
        if (label != answer) keep_worst(r, &(bad_row){place, label, answer, share});
        return TL_OK;
    }
    double error = fabs(answer - label) * s->target_stddev;
    keep_worst(r, &(bad_row){place, label * s->target_stddev + s->target_mean,
                             answer * s->target_stddev + s->target_mean, error});
    return TL_VEC_PUSH(&r->errors, error) ? TL_OK : TL_ENOMEM;
}

static tl_status read_entry(tl_lease *out, const tl_logs *step, const char *name)
{
    tl_logs_entry e;
    *out = (tl_lease){0};
    return tl_logs_find(&e, step, name) ? tl_lease_read(out, e.tensor) : TL_OK;
}

static tl_status keep_rows(report *r, const tl_table_schema *s, const tl_logs *step, int64_t count)
{
    static const char *const names[] = {PLACES, LABELS, ANSWERS, SHARES, WEIGHTS};
    tl_lease leases[TL_COUNT(names)] = {{0}};
    tl_status st = TL_OK;
    for (int i = 0; i < TL_COUNT(names) && st == TL_OK; i++)
        st = read_entry(&leases[i], step, names[i]);
    const int64_t *places = leases[0].data;
    const double *labels = leases[1].data, *answers = leases[2].data;
    const float *shares = leases[3].data, *weights = leases[4].data;
    for (int64_t i = 0; i < count && st == TL_OK; i++)
        if (!weights || weights[i] != 0)
            st = keep_row(r, s, places[i], labels[i], answers[i], shares ? shares[i] : 0);
    for (int i = 0; i < TL_COUNT(names); i++) tl_lease_drop(&leases[i]);
    return st;
}

tl_status tli_table_report_keep(void **state, const tli_table_report_of *of, const tl_logs *step)
{
    const tl_table_schema *s = of->schema;
    size_t classes = (size_t)s->class_names.count, bytes = (classes * classes + 1) * sizeof(double);
    tl_logs_entry places;
    report *r = *state;
    if (!tl_logs_find(&places, step, PLACES)) return TL_OK;
    if (!r) {
        *state = r = tl_alloc_zero(sizeof *r);
        if (!r) return TL_FAIL_NOMEM(sizeof *r);
        r->counts = tl_alloc_zero(bytes);
        if (!r->counts) return TL_FAIL_NOMEM(bytes);
    }
    return keep_rows(r, s, step, tl_tensor_count(places.tensor));
}

/* --- at the end ------------------------------------------------------------------------------- */

static void add_place(tl_str *out, const tli_table_report_of *of, int64_t place)
{
    int64_t file = place >> TL_TABLE_LINE_BITS,
            line = place & (((int64_t)1 << TL_TABLE_LINE_BITS) - 1);
    tl_str_addf(out, "  %s:%" PRId64 ": ", file < of->files.count ? of->files.items[file] : "row",
                line);
}

/* The mean of the shares of right answers of the classes that occur. */
static double balanced_accuracy(const double *counts, int64_t classes)
{
    double sum = 0, occurring = 0;
    for (int64_t i = 0; i < classes; i++) {
        double all = 0;
        for (int64_t k = 0; k < classes; k++) all += counts[i * classes + k];
        if (all > 0) sum += counts[i * classes + i] / all;
        occurring += all > 0;
    }
    return occurring > 0 ? sum / occurring : 0;
}

static void tell_mistakes(tl_str *out, report *r, const tli_table_report_of *of)
{
    int64_t classes = of->schema->class_names.count;
    const char *const *names = of->schema->class_names.items;
    for (int64_t told = 0; told < MOST_MISTAKES; told++) {
        int64_t most = -1;
        for (int64_t i = 0; i < classes * classes; i++)
            if (i / classes != i % classes && r->counts[i] > 0
                && (most < 0 || r->counts[i] > r->counts[most]))
                most = i;
        if (most < 0) break;
        tl_str_addf(out, "%s  %.0f of class '%s' taken for '%s'\n",
                    told ? "" : "mistakes, most frequent first:\n", r->counts[most],
                    names[most / classes], names[most % classes]);
        r->counts[most] = 0;
    }
    for (int64_t i = 0; i < r->worst_count; i++) {
        const bad_row *w = &r->worst[i];
        if (!i) tl_str_add(out, "mistakes it was surest of:\n");
        add_place(out, of, w->place);
        tl_str_addf(out, "'%s' taken for '%s' (%.3f)\n", names[(int64_t)w->label],
                    names[(int64_t)w->answer], w->badness);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void tell_errors(tl_str *out, report *r, const tli_table_report_of *of)
{
    static const int shares[] = {50, 90, 99};
    int64_t count = r->errors.count;
    if (!count) return;
    qsort(r->errors.items, (size_t)count, sizeof *r->errors.items, compare_doubles);
    tl_str_addf(out, "errors of '%s':", of->schema->target);
    for (int i = 0; i < TL_COUNT(shares); i++)
        tl_str_addf(out, " %d %% within %.4g,", shares[i],
                    r->errors.items[(count - 1) * shares[i] / 100]);
    tl_str_addf(out, " the largest %.4g\nworst rows:\n", r->errors.items[count - 1]);
    for (int64_t i = 0; i < r->worst_count; i++) {
        add_place(out, of, r->worst[i].place);
        tl_str_addf(out, "%s %.6g, predicted %.6g\n", of->schema->target, r->worst[i].label,
                    r->worst[i].answer);
    }
}

tl_status tli_table_report_tell(void *state, const tli_table_report_of *of, tl_logs *into)
{
    report *r = state;
    tl_str text = TL_STR_INIT;
    bool classes = of->schema->kind == TL_TABLE_CLASSIFICATION;
    tl_status st = TL_OK;
    if (classes)
        st = tl_logs_put(into, "balanced_accuracy",
                         balanced_accuracy(r->counts, of->schema->class_names.count));
    if (classes) tell_mistakes(&text, r, of);
    else tell_errors(&text, r, of);
    if (text.length) tl_str_cut(&text, text.length - 1); // the last line needs no end
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK && text.length) st = tl_logs_put_text(into, "report", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

void tli_table_report_free(void *state)
{
    report *r = state;
    if (!r) return;
    TL_VEC_FREE(&r->errors);
    tl_free(r->counts);
    tl_free(r);
}
