/* JSON, written: texts, numbers, and objects and lists of them.
 *
 *     tli_json j = {.out = &text};
 *     tli_json_begin(&j, NULL, '{');
 *     tli_json_text(&j, "event", "train");
 *     tli_json_number(&j, "loss", 0.25);
 *     tli_json_end(&j, '}');                      // {"event": "train", "loss": 0.25}
 *
 * Members of an object have a key; elements of a list, and what is outermost, have none (NULL).
 * Whether there was memory for it all, the string says (tl_str_status).
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_JSON_TEXT_H
#define TLI_IO_JSON_TEXT_H

#include "base/inner/json_escape.h"

/* As tli_json_add_text, but what is no UTF-8 is TL_EINVAL. */
TL_NODISCARD tl_status tli_json_add_string(tl_str *out, const char *text);
/* As Python writes a float; null for what is not finite, since JSON has no such numbers. */
void tli_json_add_number(tl_str *out, double value);

typedef struct tli_json {
    tl_str *out;
    /* 0: all in one line; else blanks before what is one deeper, as Python's json lays it out */
    int indent;
    bool ascii; /* keys and texts: as in tli_json_add_text */
    int depth;
    bool begun; /* something is in this object or list */
} tli_json;

/* `bracket` is '{' or '[', and '}' or ']'. */
void tli_json_begin(tli_json *j, const char *key, char bracket);
void tli_json_end(tli_json *j, char bracket);
void tli_json_text(tli_json *j, const char *key, const char *text);
void tli_json_number(tli_json *j, const char *key, double value);
void tli_json_int(tli_json *j, const char *key, int64_t value);
void tli_json_bool(tli_json *j, const char *key, bool value);
/* A value that is JSON already. */
void tli_json_raw(tli_json *j, const char *key, const char *json);
/* An element of a list that is written in one line, whatever the layout of the list. */
tli_json tli_json_row(tli_json *list);

#endif
