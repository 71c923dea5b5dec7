/* What is told, carried from process to process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "train/peers.h"

/* A line for each number: "=VALUE NAME"; logs within logs stand between ">NAME" and "<". */
static tl_status add_numbers(tl_str *out, const tl_logs *l)
{
    for (int64_t i = 0; i < tl_logs_count(l); i++) {
        tl_logs_entry e;
        double value;
        tl_logs_at(&e, l, i);
        if (e.kind == TL_LOGS_LOGS) {
            tl_str_addf(out, ">%s\n", e.name);
            TL_TRY(add_numbers(out, e.logs));
            tl_str_add(out, "<\n");
        } else if (e.kind == TL_LOGS_NUMBER) {
            TL_TRY(tl_logs_entry_number(&value, &e));
            tl_str_addf(out, "=%a %s\n", value, e.name);
        }
    }
    return tl_str_status(out);
}

/* Up to the "<" that ends these; `text` is changed. */
static tl_status take_numbers(tl_logs *l, char **text)
{
    for (char *line; *(line = *text) != '\0';) {
        char *end = line + strcspn(line, "\n");
        *text = *end ? end + 1 : end;
        *end = '\0';
        if (*line == '<') return TL_OK;
        if (*line == '>') {
            tl_logs *inner;
            TL_TRY(tl_logs_sub(&inner, l, line + 1));
            TL_TRY(take_numbers(inner, text));
            continue;
        }
        char *name;
        const double value = strtod(line + 1, &name);
        TL_TRY(tl_logs_put(l, name + 1, value));
    }
    return TL_OK;
}

tl_status tli_peers_share_logs(tli_peers *p, tl_logs *logs)
{
    tl_str text = TL_STR_INIT;
    if (!p) return TL_OK;
    tl_status st = p->rank == 0 ? add_numbers(&text, logs) : TL_OK;
    if (st == TL_OK) st = tli_peers_share(p, &text);
    if (st == TL_OK && p->rank > 0) {
        char *copy = tl_strdup(tl_str_text(&text)), *at = copy;
        st = copy ? take_numbers(logs, &at) : TL_FAIL_NOMEM(text.length + 1);
        tl_free(copy);
    }
    tl_str_deinit(&text);
    return st;
}
