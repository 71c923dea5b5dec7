/* The registry with all that ships with the library.
 *
 *     tl_registry *r;
 *     TL_TRY(tl_registry_new_builtin(&r));
 *     TL_TRY(tl_registry_add(r, &my_module));        // and what is yours
 *     ...
 *     tl_registry_free(&r);
 *
 * Thread word: one thread at a time while modules are added, immutable afterwards. */
#ifndef TILTH_BUILTIN_BUILTIN_H
#define TILTH_BUILTIN_BUILTIN_H

#include <tilth/desc/registry.h>

TL_BEGIN

/* *out is NULL after a failure. */
TL_API TL_NODISCARD tl_status tl_registry_new_builtin(tl_registry **out);

TL_END

#endif
