/* A plug-in that needs something that nobody has. */
#include <tilth/desc/registry.h>

extern const tl_kind kind_that_does_not_exist;
static const tl_class lost = TL_CLASS(tl_class, "lost", NULL, int, NULL, .help = "h");
static const tl_entry entries[] = {{&kind_that_does_not_exist, &lost}};
TL_EXPORT extern const tl_module tl_module_main;
const tl_module tl_module_main = {TL_MODULE_HEAD("undefined"), entries, TL_COUNT(entries)};
