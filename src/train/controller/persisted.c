#include <tilth/train/controller/actions.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "io/inner/json_lines.h"
#include "train/run/metric_name.h"

/* --- a number that outlives the process ------------------------------------------------------- */

enum { LONGEST_FILE = 1 << 16 };

// A file that is not there, or empty, leaves *value and *found alone.
static tl_status read_number(double *value, bool *found, const char *path)
{
    char *text;
    size_t size;
    if (!tl_file_exists(path)) return TL_OK;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_FILE));
    tl_status st = TL_OK;
    json_error_t error;
    json_t *json =
        size ? json_loadb(text, size, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error) : NULL;
    if (json_is_real(json)) {
        *value = json_real_value(json);
        *found = true;
    } else if (size) {
        st = TL_FAIL(TL_EINVAL,
                     "%s: a number was expected and %s found; remove the file to begin anew", path,
                     json ? "something else is" : "no JSON is");
    }
    json_decref(json);
    tl_free(text);
    return st;
}

static tl_status write_number(const char *path, double value)
{
    char text[40];
    tl_double_text(text, value);
    return tl_file_write_atomic(path, text, strlen(text));
}

static tl_status begin(tl_persisted_value *v, const char *path)
{
    bool found = false;
    if (!path) return TL_OK;
    v->path = tl_strdup(path);
    if (!v->path) return TL_FAIL_NOMEM(strlen(path) + 1);
    TL_TRY(read_number(&v->value, &found, path));
    if (found || !v->write) return TL_OK;
    TL_TRY(tli_make_folder_of(path));
    return tl_persisted_value_set(v, v->value);
}

tl_status tl_persisted_value_init(tl_persisted_value *v, double initial, const char *path,
                                  bool write)
{
    *v = (tl_persisted_value){.value = initial, .write = write};
    tl_status st = begin(v, path);
    if (st != TL_OK) tl_persisted_value_deinit(v);
    return st;
}

void tl_persisted_value_deinit(tl_persisted_value *v)
{
    tl_free(v->path);
    v->path = NULL;
}

tl_status tl_persisted_value_set(tl_persisted_value *v, double value)
{
    if (!isfinite(value))
        return TL_FAIL(TL_EINVAL, "%g is not finite, and JSON has no such numbers%s%s", value,
                       v->path ? ": " : "", v->path ? v->path : "");
    if (v->path && v->write) TL_TRY(write_number(v->path, value));
    v->value = value;
    return TL_OK;
}

/* --- the best so far -------------------------------------------------------------------------- */

struct tl_new_best_metric {
    tl_new_best_metric_args given;
    char *metric;
    tl_persisted_value best;
};

tl_status tl_new_best_metric_new(tl_new_best_metric **out, const tl_new_best_metric_args *args)
{
    tl_status st;
    *out = NULL;
    if (!args->metric == !args->value)
        return TL_FAIL(TL_EINVAL,
                       "the best metric needs a name or a function: exactly one of them");
    tl_new_best_metric *m = tl_alloc_zero(sizeof *m);
    if (!m) return TL_FAIL_NOMEM(sizeof *m);
    m->given = *args;
    if (args->metric && !(m->metric = tl_strdup(args->metric))) {
        st = TL_FAIL_NOMEM(strlen(args->metric) + 1);
        goto done;
    }
    TL_TRY_DONE(st, tl_persisted_value_init(&m->best, tli_metric_worst(args->comp), args->path,
                                            !args->read_only));
    *out = m;
    m = NULL;
done:
    tl_new_best_metric_free(&m);
    return st;
}

void tl_new_best_metric_free(tl_new_best_metric **m)
{
    if (!*m) return;
    tl_persisted_value_deinit(&(*m)->best);
    tl_free((*m)->metric);
    tl_free(*m);
    *m = NULL;
}

static tl_status look(double *value, bool *better, const tl_new_best_metric *m, const tl_logs *logs)
{
    *better = false;
    TL_TRY(m->metric ? tli_metric_get(value, logs, m->metric)
                     : m->given.value(value, logs, m->given.payload));
    *better = tli_metric_is_better(m->given.comp, *value, m->best.value);
    return TL_OK;
}

tl_status tl_new_best_metric_test(bool *better, tl_new_best_metric *m, const tl_logs *logs)
{
    double value;
    return look(&value, better, m, logs);
}

tl_status tl_new_best_metric_commit(bool *better, tl_new_best_metric *m, const tl_logs *logs)
{
    double value;
    TL_TRY(look(&value, better, m, logs));
    return *better ? tl_persisted_value_set(&m->best, value) : TL_OK;
}

double tl_new_best_metric_best(const tl_new_best_metric *m)
{
    return m->best.value;
}

tl_status tl_new_best_metric_condition(bool *holds, tl_controller *c, const tl_logs *logs,
                                       void *payload)
{
    (void)c;
    return tl_new_best_metric_commit(holds, payload, logs);
}
