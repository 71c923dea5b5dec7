/* A plug-in that lacks a required method. */
#include <tilth/desc/registry.h>

typedef struct toy_class {
    tl_class cls;
    int (*play)(int);
} toy_class;
static const tl_method methods[] = {TL_METHOD(toy_class, play, true), {NULL, 0, false}};
static const tl_kind toys = {
    .name = "toy",
    .plural = "toys",
    .class_size = sizeof(toy_class),
    .methods = methods,
};
static const toy_class broken = {
    .cls = TL_CLASS(toy_class, "broken", NULL, int, NULL, .help = "h"),
};
static const tl_entry entries[] = {{&toys, &broken.cls}};
TL_EXPORT extern const tl_module tl_module_main;
const tl_module tl_module_main = {TL_MODULE_HEAD("incomplete"), entries, TL_COUNT(entries)};
