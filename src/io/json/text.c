#include "io/inner/json_text.h"

#include <inttypes.h>
#include <math.h>

#include "base/inner/utf8.h"

/* --- values ----------------------------------------------------------------------------------- */

tl_status tli_json_add_string(tl_str *out, const char *text)
{
    for (const char *p = text; *p;) {
        int length = tli_utf8_length(p);
        if (!length)
            return TL_FAIL(TL_EINVAL,
                           "'%s' is not UTF-8 (byte %zu), which names and notes of files must be",
                           text, (size_t)(p - text));
        p += length;
    }
    tli_json_add_text(out, text, false);
    return tl_str_status(out);
}

void tli_json_add_number(tl_str *out, double value)
{
    char text[40];
    tl_double_text(text, value);
    tl_str_add(out, isfinite(value) ? text : "null");
}

/* --- objects and lists ------------------------------------------------------------------------ */

static void new_line(tli_json *j)
{
    tl_str_addc(j->out, '\n');
    tl_str_pad(j->out, ' ', (int64_t)j->indent * j->depth);
}

/* What stands before a value. */
static void prepare(tli_json *j, const char *key)
{
    if (j->begun) tl_str_add(j->out, j->indent ? "," : ", ");
    if (j->indent && j->depth) new_line(j);
    j->begun = true;
    if (!key) return;
    tli_json_add_text(j->out, key, j->ascii);
    tl_str_add(j->out, ": ");
}

void tli_json_begin(tli_json *j, const char *key, char bracket)
{
    prepare(j, key);
    tl_str_addc(j->out, bracket);
    j->depth++;
    j->begun = false;
}

void tli_json_end(tli_json *j, char bracket)
{
    j->depth--;
    if (j->indent && j->begun) new_line(j);
    tl_str_addc(j->out, bracket);
    j->begun = true;
}

void tli_json_text(tli_json *j, const char *key, const char *text)
{
    prepare(j, key);
    tli_json_add_text(j->out, text, j->ascii);
}

void tli_json_number(tli_json *j, const char *key, double value)
{
    prepare(j, key);
    tli_json_add_number(j->out, value);
}

void tli_json_int(tli_json *j, const char *key, int64_t value)
{
    prepare(j, key);
    tl_str_addf(j->out, "%" PRId64, value);
}

void tli_json_raw(tli_json *j, const char *key, const char *json)
{
    prepare(j, key);
    tl_str_add(j->out, json);
}

tli_json tli_json_row(tli_json *list)
{
    prepare(list, NULL);
    return (tli_json){.out = list->out, .ascii = list->ascii};
}

void tli_json_bool(tli_json *j, const char *key, bool value)
{
    prepare(j, key);
    tl_str_add(j->out, value ? "true" : "false");
}
