/* Configurations of layers, and of parts that are made one by one: metrics, losses, evaluators.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_NN_CONFIGURED_H
#define TLI_NN_CONFIGURED_H

#include <tilth/desc/registry.h>

#include "desc/inner/ranges.h"

/* A completed copy of a literal (NULL: the defaults) in the arena, its ranges and checks run. A
 * class that describes no configuration gets the pointer itself. */
TL_NODISCARD tl_status tli_configure(const void **out, tl_arena *arena, const tl_class *cls,
                                     const void *config);
/* The class that a one-of names. */
TL_NODISCARD tl_status tli_find_class(const tl_class **out, const tl_registry *registry,
                                      const tl_kind *kind, const tl_oneof *choice);

#endif
