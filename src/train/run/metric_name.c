#include "train/run/metric_name.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { DEEPEST = 64 };

static void add_names(tl_str *out, const tl_logs *logs, const char *prefix, int depth)
{
    for (int64_t i = 0; i < tl_logs_count(logs) && depth < DEEPEST; i++) {
        tl_logs_entry e;
        tl_logs_at(&e, logs, i);
        if (e.kind == TL_LOGS_NUMBER) {
            tl_str_addf(out, "%s%s%s", out->length ? ", " : "", prefix, e.name);
        } else if (e.kind == TL_LOGS_LOGS) {
            tl_str path = TL_STR_INIT;
            tl_str_addf(&path, "%s%s|", prefix, e.name);
            add_names(out, e.logs, tl_str_text(&path), depth + 1);
            tl_str_deinit(&path);
        }
    }
}

static tl_status fail_missing(const tl_logs *logs, const char *metric)
{
    tl_str names = TL_STR_INIT;
    add_names(&names, logs, "", 0);
    tl_status st = TL_FAIL(TL_ENOTFOUND, "there is no metric '%s'; there is %s", metric,
                           names.length ? tl_str_text(&names) : "none at all");
    tl_str_deinit(&names);
    return st;
}

tl_status tli_metric_get(double *out, const tl_logs *logs, const char *metric)
{
    const tl_logs *at = logs;
    tl_logs_entry e = {0};
    tl_str name = TL_STR_INIT;
    tl_status st = TL_OK;
    for (const char *from = metric;;) {
        size_t length = strcspn(from, "|");
        tl_str_cut(&name, 0);
        tl_str_addn(&name, from, length);
        TL_TRY_DONE(st, tl_str_status(&name));
        if (!tl_logs_find(&e, at, tl_str_text(&name))) {
            st = fail_missing(logs, metric);
            goto done;
        }
        if (!from[length]) break;
        if (e.kind != TL_LOGS_LOGS) {
            st = fail_missing(logs, metric);
            goto done;
        }
        at = e.logs;
        from += length + 1;
    }
    if (e.kind == TL_LOGS_LOGS) {
        (void)!fail_missing(logs, metric);
        st = tl_error_note(TL_EINVAL, "'%s' names several metrics, not one", metric);
    } else {
        st = tl_logs_entry_number(out, &e);
    }
done:
    tl_str_deinit(&name);
    return st;
}

bool tli_metric_is_better(tl_metric_comp comp, double value, double than)
{
    if (!isfinite(value)) return false;
    return comp == TL_METRIC_LOWER ? value < than : value > than;
}

double tli_metric_worst(tl_metric_comp comp)
{
    return comp == TL_METRIC_LOWER ? DBL_MAX : -DBL_MAX;
}
