#include "zoo/vision/image_mistakes.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/softmax.h>

enum {
    MOST_CLASSES = 2048, /* whose matrix is kept */
    MOST_COLUMNS = 12,   /* of the table; above, the most frequent mistakes are told */
    MOST_PAIRS = 10,
    LONGEST_NAME = 14 /* of a class, in the table */
};

#define LABELS "mistakes/label"
#define ANSWERS "mistakes/answer"
#define SHARES "mistakes/probability"
#define WEIGHTS "mistakes/weight"
#define NAMES "mistakes/name"

typedef struct mistake {
    int64_t label, answer;
    float share; /* probability of the answer */
    char *name;  /* or NULL */
} mistake;
typedef struct mistakes {
    int64_t classes, most;
    int64_t seen, wrong;
    int64_t *matrix; /* rows are labels; NULL: too many classes */
    int64_t count;
    mistake items[]; /* the worst first, room for `most` */
} mistakes;

/* --- in the step ------------------------------------------------------------------------------ */

tl_status tli_mistakes_step(tl_step *s, tl_tensor *labels, tl_tensor *logits)
{
    tl_ctx *c = s->ctx;
    tl_tensor *weight = tl_step_parts(s)->weight, *name = tl_batch_peek(s->batch, TL_BATCH_NAME);
    if (labels && logits && labels->shape.rank == logits->shape.rank)
        labels = tl_argmax(c, labels, -1, false);
    tl_tensor *shares = tl_softmax(c, tl_cast(c, logits, TL_F32), -1);
    tl_step_log(s, LABELS, tl_cast(c, labels, TL_I64));
    tl_step_log(s, ANSWERS, tl_cast(c, tl_argmax(c, logits, -1, false), TL_I64));
    tl_step_log(s, SHARES, tl_max(c, shares, TL_AXES(-1), false));
    if (weight) tl_step_log(s, WEIGHTS, tl_cast(c, weight, TL_F32));
    if (name) tl_step_log(s, NAMES, name);
    return tl_ctx_status(c);
}

/* --- between steps ---------------------------------------------------------------------------- */

static tl_status make(mistakes **out, int64_t classes, int64_t most)
{
    size_t bytes = sizeof(mistakes) + (size_t)most * sizeof(mistake);
    size_t cells = classes <= MOST_CLASSES ? (size_t)(classes * classes) * sizeof(int64_t) : 0;
    mistakes *m = tl_alloc_zero(bytes);
    int64_t *matrix = cells ? tl_alloc_zero(cells) : NULL;
    *out = m;
    if (!m || (cells && !matrix)) {
        tl_free(m);
        tl_free(matrix);
        *out = NULL;
        return TL_FAIL_NOMEM(bytes + cells);
    }
    m->classes = classes;
    m->most = most;
    m->matrix = matrix;
    return TL_OK;
}

/* Into its place among the worst, unless it is better than all of them. Of equals the first ones
 * stay. */
static tl_status insert(mistakes *m, mistake one, const char *name, int64_t length)
{
    int64_t at = m->count;
    while (at > 0 && m->items[at - 1].share < one.share) at--;
    if (at >= m->most) return TL_OK;
    if (name) {
        length = (int64_t)strnlen(name, (size_t)length);
        one.name = tl_alloc((size_t)length + 1);
        if (!one.name) return TL_FAIL_NOMEM((size_t)length + 1);
        memcpy(one.name, name, (size_t)length);
        one.name[length] = '\0';
    }
    if (m->count == m->most) tl_free(m->items[--m->count].name);
    memmove(m->items + at + 1, m->items + at, (size_t)(m->count - at) * sizeof *m->items);
    m->items[at] = one;
    m->count++;
    return TL_OK;
}

typedef struct told {
    tl_logs_entry labels, answers, shares, weights, names;
    bool weighted, named;
} told;

static tl_status take(mistakes *m, const told *t)
{
    tl_lease labels = {0}, answers = {0}, shares = {0}, weights = {0}, names = {0};
    int64_t length = t->named ? t->names.tensor->shape.dims[1] : 0;
    tl_status st;
    TL_TRY_DONE(st, tl_lease_read(&labels, t->labels.tensor));
    TL_TRY_DONE(st, tl_lease_read(&answers, t->answers.tensor));
    TL_TRY_DONE(st, tl_lease_read(&shares, t->shares.tensor));
    if (t->weighted) TL_TRY_DONE(st, tl_lease_read(&weights, t->weights.tensor));
    if (t->named) TL_TRY_DONE(st, tl_lease_read(&names, t->names.tensor));
    const int64_t *y = labels.data, *o = answers.data;
    const float *p = shares.data, *w = weights.data;
    for (int64_t i = 0; i < t->labels.tensor->shape.dims[0]; i++) {
        if (w && w[i] == 0) continue;
        m->seen++;
        m->wrong += y[i] != o[i];
        bool known = y[i] >= 0 && y[i] < m->classes && o[i] >= 0 && o[i] < m->classes;
        if (known && m->matrix) m->matrix[y[i] * m->classes + o[i]]++;
        const char *name = t->named ? (const char *)names.data + i * length : NULL;
        if (y[i] != o[i])
            TL_TRY_DONE(st, insert(m, (mistake){y[i], o[i], p[i], NULL}, name, length));
    }
done:
    tl_lease_drop(&labels);
    tl_lease_drop(&answers);
    tl_lease_drop(&shares);
    tl_lease_drop(&weights);
    tl_lease_drop(&names);
    return st;
}

tl_status tli_mistakes_keep(void **state, const tl_logs *step, int64_t num_classes, int64_t most)
{
    told t;
    mistakes *m = *state;
    if (!tl_logs_find(&t.labels, step, LABELS) || !tl_logs_find(&t.answers, step, ANSWERS)
        || !tl_logs_find(&t.shares, step, SHARES))
        return TL_OK;
    t.weighted = tl_logs_find(&t.weights, step, WEIGHTS);
    t.named = tl_logs_find(&t.names, step, NAMES) && t.names.tensor->shape.rank == 2;
    if (!m) {
        TL_TRY(make(&m, num_classes, most));
        *state = m;
    }
    return take(m, &t);
}

void tli_mistakes_free(void *state)
{
    mistakes *m = state;
    if (!m) return;
    for (int64_t i = 0; i < m->count; i++) tl_free(m->items[i].name);
    tl_free(m->matrix);
    tl_free(m);
}

/* --- texts ------------------------------------------------------------------------------------ */

/* The name of a class, or its number in `room`. */
static const char *name_of(char room[32], tl_strings names, int64_t class_id)
{
    if (class_id >= 0 && class_id < names.count) return names.items[class_id];
    snprintf(room, 32, "%lld", (long long)class_id);
    return room;
}

/* Characters that a terminal shows, each as wide as the others. */
static int columns(const char *text)
{
    int count = 0;
    for (; *text; text++) count += (*text & 0xC0) != 0x80;
    return count;
}

/* In so many columns: cut, or filled up on the right or on the left. */
static void add_cell(tl_str *out, const char *text, int width, bool right)
{
    int have = columns(text), fill = have < width ? width - have : 0;
    if (right) tl_str_addf(out, "%*s", fill, "");
    for (int shown = 0; *text; text++) {
        shown += (*text & 0xC0) != 0x80;
        if (shown > width) break;
        tl_str_addc(out, *text);
    }
    if (!right) tl_str_addf(out, "%*s", fill, "");
}

static int width_of(const mistakes *m, tl_strings names)
{
    char room[32];
    int width = 6;
    for (int64_t i = 0; i < m->classes; i++) {
        int n = columns(name_of(room, names, i));
        if (n > width) width = n < LONGEST_NAME ? n : LONGEST_NAME;
    }
    return width;
}

static void add_table(tl_str *out, const mistakes *m, tl_strings names)
{
    char room[32], number[32];
    int width = width_of(m, names);
    tl_str_addf(out, "\n  %*s", width, "");
    for (int64_t i = 0; i <= m->classes; i++) {
        tl_str_add(out, "  ");
        add_cell(out, i < m->classes ? name_of(room, names, i) : "right",
                 i < m->classes ? width : 6, true);
    }
    for (int64_t i = 0; i < m->classes; i++) {
        const int64_t *row = m->matrix + i * m->classes;
        int64_t all = 0;
        tl_str_add(out, "\n  ");
        add_cell(out, name_of(room, names, i), width, false);
        for (int64_t k = 0; k < m->classes; k++) {
            snprintf(number, sizeof number, "%lld", (long long)row[k]);
            tl_str_add(out, "  ");
            add_cell(out, row[k] ? number : ".", width, true);
            all += row[k];
        }
        if (all) tl_str_addf(out, "  %6.4f", (double)row[i] / (double)all);
    }
}

typedef struct pair {
    int64_t label, answer, count;
} pair;

static void add_pairs(tl_str *out, const mistakes *m, tl_strings names)
{
    pair best[MOST_PAIRS + 1] = {{0, 0, 0}};
    char a[32], b[32];
    int64_t count = 0;
    for (int64_t i = 0; i < m->classes * m->classes; i++) {
        pair one = {i / m->classes, i % m->classes, m->matrix[i]};
        if (one.label == one.answer || !one.count) continue;
        int64_t at = count;
        for (; at > 0 && best[at - 1].count < one.count; at--) best[at] = best[at - 1];
        best[at] = one;
        if (count < MOST_PAIRS) count++;
    }
    for (int64_t i = 0; i < count; i++)
        tl_str_addf(out, "\n  %6lld  %s taken for %s", (long long)best[i].count,
                    name_of(a, names, best[i].label), name_of(b, names, best[i].answer));
}

static void add_worst(tl_str *out, const mistakes *m, tl_strings names)
{
    char a[32], b[32];
    tl_str_add(out, "worst mistakes, by how sure the model was:");
    for (int64_t i = 0; i < m->count; i++) {
        const mistake *one = &m->items[i];
        tl_str_addf(out, "\n  %.4f  %s taken for %s", (double)one->share,
                    name_of(a, names, one->label), name_of(b, names, one->answer));
        if (one->name && *one->name) tl_str_addf(out, ": %s", one->name);
    }
}

tl_status tli_mistakes_tell(const void *state, tl_strings names, tl_logs *into)
{
    const mistakes *m = state;
    tl_str text = TL_STR_INIT;
    bool table = m->matrix && m->classes <= MOST_COLUMNS, pairs = m->matrix && !table && m->wrong;
    tl_str_addf(&text, "%lld of %lld images have a wrong answer%s", (long long)m->wrong,
                (long long)m->seen,
                table   ? "; rows: true class, columns: predicted class"
                : pairs ? ", most often:"
                        : "");
    if (table) add_table(&text, m, names);
    if (pairs) add_pairs(&text, m, names);
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tl_logs_put_text(into, "confusion_table", tl_str_text(&text));
    tl_str_cut(&text, 0);
    add_worst(&text, m, names);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK && m->count) st = tl_logs_put_text(into, "worst_mistakes", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}
