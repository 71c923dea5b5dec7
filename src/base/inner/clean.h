/* Text from outside, before people see it: what a terminal would obey is shown as a number instead.
 *
 * That are the control characters: below U+0020, U+007F, and U+0080 to U+009F, as UTF-8 (C2 9B) or
 * as a byte of its own that is no UTF-8 (9B). "\x1b" stands for a byte, "\u009b" for a character.
 * Names of classes, tensors and files, settings, log lines: all may come from a stranger's file.
 * Applied where text is printed, so that nobody has to think of it; files for programs have escapes
 * of their own.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BASE_CLEAN_H
#define TILTH_SRC_BASE_CLEAN_H

#include <stdio.h>

#include <tilth/base/str.h>

/* How much of the text is clean, from its beginning. Behind its last byte there must be another, a
 * NUL or any character. Tab and newline are clean. */
size_t tli_clean_length(const char *text, size_t length);
/* Adds the text as people may see it; tab and newline stay. */
void tli_add_clean(tl_str *out, const char *text, size_t length);
/* The same for a name or a value, which must stay in its line: tab and newline are shown as
 * well. */
void tli_add_clean_word(tl_str *out, const char *text);
/* The text itself when it is clean, else a copy; NULL, with the error set, without memory. */
const char *tli_clean_word(tl_arena *arena, const char *text);
/* Prints it so, without memory of its own. */
void tli_print_clean(FILE *to, const char *text, size_t length);
/* For where there is no memory: every control character becomes '?'. */
void tli_clean_in_place(char *text, size_t length);

#endif
