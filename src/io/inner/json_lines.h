/* Files that hold a JSON object a line, and are read in haste: which lines stay when a run goes
 * back.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_JSON_LINES_H
#define TLI_IO_JSON_LINES_H

#include <tilth/base/str.h>

/* Where the value of a key of the outermost object begins; NULL when there is none. It also looks
 * through lines with bare NaN in them, which are no JSON, and others write. */
const char *tli_json_line_find(const char *line, const char *end, const char *key);
/* The number behind that key. False when there is none. */
bool tli_json_line_int(int64_t *out, const char *line, const char *end, const char *key);
/* Whether the text behind that key is this one, which has nothing in it that is escaped. */
bool tli_json_line_is(const char *line, const char *end, const char *key, const char *text);

/* Keeps the lines that `keep` wants, and takes out a last one that a killed process left half. The
 * file is replaced in one step, and left alone when nothing changes. It need not be there. */
typedef bool tli_json_line_fn(const char *line, const char *end, void *payload);
TL_NODISCARD tl_status tli_json_lines_mend(const char *path, tli_json_line_fn *keep, void *payload);
/* The folder of a file, made when it is not there. */
TL_NODISCARD tl_status tli_make_folder_of(const char *path);

#endif
