/* Private to text: lines of a stranger's file.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TEXT_LINES_H
#define TLI_TEXT_LINES_H

#include <tilth/base/str.h>

/* Leaves out bytes that are no UTF-8, as Python does when it is told to ignore them. Line and size
 * are changed when there are some; `room` holds it then. */
TL_NODISCARD tl_status tli_line_clean(tl_str *room, const char **line, size_t *size);
/* Whether nothing is left when Python strips it: all is white space. The text is UTF-8. */
bool tli_line_is_blank(const char *line, size_t size);

#endif
