/* Sources from inside. Thread word: free-threaded. */
#ifndef TLI_DATA_SOURCE_IMPL_H
#define TLI_DATA_SOURCE_IMPL_H

#include <tilth/data/source.h>

/* -1: records must be walked. */
TL_NODISCARD tl_status tli_source_length(tl_source *s, int64_t part, int64_t *records);
/* For messages. */
const char *tli_source_part_name(const tl_source *s, int64_t part);

#endif
