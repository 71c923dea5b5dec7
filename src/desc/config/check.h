/* Private to desc: the walk that checks a filled struct and all inside it. */
#ifndef TILTH_SRC_DESC_CHECK_H
#define TILTH_SRC_DESC_CHECK_H

#include "desc/config/apply.h"

/* Adds to `diags` what the structs' checks and restrictions object to, and the changed fields whose
 * feature is not there; with `notices` logs one for changed fields that nothing reads. `sources`
 * (or NULL) tells where a value was written. */
void tli_check(tli_diags *diags, const tl_desc *desc, const void *value, const tli_sources *sources,
               bool notices);
/* Adds that the feature of a row is not there, if `value` differs there from its default. */
void tli_check_feature(tli_diags *diags, const tl_desc *desc, const tl_field *f, const void *value,
                       tl_place place, const char *path);

#endif
