#include <math.h>
#include <string.h>

#include "tool/tool.h"

enum { USUAL_NAME = 24 };

typedef struct numbers {
    tl_str *out;
    int indent, decimals;
    const char *but;
    int name; /* columns of the longest one */
} numbers;

/* Columns, one for each character of UTF-8. */
static int columns(const char *text)
{
    int count = 0;
    for (; *text; text++) count += (*text & 0xC0) != 0x80;
    return count;
}

static bool is_shown(const numbers *n, const tl_logs_entry *e)
{
    return e->kind == TL_LOGS_NUMBER && (!n->but || strcmp(e->name, n->but) != 0);
}

static tl_status measure(const tl_logs_entry *e, void *payload)
{
    numbers *n = payload;
    int length = columns(e->name);
    if (is_shown(n, e) && length > n->name) n->name = length;
    return TL_OK;
}

static tl_status add(const tl_logs_entry *e, void *payload)
{
    const numbers *n = payload;
    double value;
    if (!is_shown(n, e)) return TL_OK;
    TL_TRY(tl_logs_entry_number(&value, e));
    tl_str_addf(n->out, "%*s%s", n->indent, "", e->name);
    tl_str_pad(n->out, ' ', n->name - columns(e->name) + 1);
    // Digits that no double has would only make the row long.
    if (fabs(value) < 1e12) tl_str_addf(n->out, "%.*f\n", n->decimals, value);
    else tl_str_addf(n->out, "%g\n", value);
    return TL_OK;
}

tl_status tli_add_numbers(tl_str *out, const tl_logs *logs, int indent, int decimals,
                          const char *but)
{
    numbers n = {
        .out = out, .indent = indent, .decimals = decimals, .but = but, .name = USUAL_NAME};
    TL_TRY(tl_logs_walk(logs, measure, &n));
    TL_TRY(tl_logs_walk(logs, add, &n));
    return tl_str_status(out);
}
