/* The one place that puts texts into JSON.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_BASE_JSON_ESCAPE_H
#define TLI_BASE_JSON_ESCAPE_H

#include <tilth/base/str.h>

/* A text in quotes, with U+FFFD for what is no UTF-8; null for NULL. `ascii`: other characters as
 * \uXXXX. */
void tli_json_add_text(tl_str *out, const char *text, bool ascii);

#endif
