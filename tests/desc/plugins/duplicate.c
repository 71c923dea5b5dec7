/* A plug-in whose second entry has the name of its first. */
#include <tilth/desc/registry.h>

static const tl_kind games = {.name = "game", .plural = "games", .class_size = sizeof(tl_class)};
static const tl_class chess = TL_CLASS(tl_class, "chess", NULL, int, NULL, .help = "h");
static const tl_class also_chess = TL_CLASS(tl_class, "chess", NULL, int, NULL, .help = "h");
static const tl_entry entries[] = {{&games, &chess}, {&games, &also_chess}};
TL_EXPORT extern const tl_module tl_module_main;
const tl_module tl_module_main = {TL_MODULE_HEAD("duplicate"), entries, TL_COUNT(entries)};
