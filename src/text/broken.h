/* Private to text: texts that are no UTF-8, as tensorflow-text lowers them. */
#ifndef TLI_TEXT_BROKEN_H
#define TLI_TEXT_BROKEN_H

#include <tilth/base/str.h>

/* The text folded, decomposed, and without accents. TensorFlow does this in three steps and keeps
 * bytes that are no characters; where a step leaves out what stood between two halves of a
 * character, the next one finds a whole one. */
TL_NODISCARD tl_status tli_broken_lower(tl_str *out, const char *text, size_t size);

#endif
