/* Private to desc: the walk that checks a filled struct and all inside it. */
#ifndef TILTH_SRC_DESC_CHECK_H
#define TILTH_SRC_DESC_CHECK_H

#include "desc/config/apply.h"

/* Adds to `diags` what the structs' checks and restrictions object to and, with `features`, the
 * changed fields whose feature is not there; logs a notice for changed fields that nothing reads.
 * `sources` (or NULL) tells where a value was written. */
void tli_check(tli_diags *diags, const tl_desc *desc, const void *value, const tli_sources *sources,
               bool features);

#endif
