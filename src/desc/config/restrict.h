/* Private to desc: restrictions between fields, written as text. */
#ifndef TILTH_SRC_DESC_RESTRICT_H
#define TILTH_SRC_DESC_RESTRICT_H

#include <tilth/desc/desc.h>

/* Fails unless "LEFT OP RIGHT" holds. OP is ==, !=, <=, <, >= or >; an operand is a number, None,
 * or a dotted path from `value`. */
tl_status tli_restrict(const char *text, const tl_desc *desc, const void *value);

#endif
