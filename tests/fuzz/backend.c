/* The reference backend without its way with loop nests, which fuzzers do not link. */
#include <tilth/sys/cpu/cpu.h>

#include "cpu/ref/ref.h"

const tl_backend_class tl_backend_reference = {
    .cls = {.class_size = sizeof(tl_backend_class),
            .name = "reference",
            .help = "plain loops that say what each op means"},
    .tables = tli_reference_tables,
};
