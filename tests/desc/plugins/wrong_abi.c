/* A plug-in from another age; what is behind its head may mean anything. */
#include <tilth/desc/registry.h>

TL_EXPORT extern const tl_module tl_module_main;
const tl_module tl_module_main = {TL_ABI + 40, sizeof(tl_module), (const char *)1,
                                  (const tl_entry *)2, 3};
