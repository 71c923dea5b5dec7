/* Private to tool: texts in pictures.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_SVG_H
#define TILTH_SRC_TOOL_SVG_H

#include <tilth/base/str.h>

/* How many letters a text has; a byte that is no UTF-8 counts as one. */
int64_t tli_svg_letters(const char *text);
/* A text of XML, with at most so many letters (0: all); one that is longer is cut, and ends in an
 * ellipsis. What is no UTF-8 is replaced, for a reader would refuse the whole picture. */
void tli_svg_text(tl_str *out, const char *text, int64_t most);

#endif
