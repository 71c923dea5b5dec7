/* A plug-in as it should be: a kind of its own, and two classes of it. */
#include <tilth/desc/registry.h>

typedef struct toy_class {
    tl_class cls;
    int (*play)(int);
} toy_class;

static int twice(int x)
{
    return 2 * x;
}

static const tl_method methods[] = {TL_METHOD(toy_class, play, true), {NULL, 0, false}};
static const tl_kind toys = {
    .name = "toy",
    .plural = "toys",
    .class_size = sizeof(toy_class),
    .methods = methods,
};

static const toy_class ball = {
    .cls = TL_CLASS(toy_class, "ball", NULL, int, NULL, .help = "rolls"),
    .play = twice,
};
static const toy_class red_ball = {
    .cls = TL_CLASS(toy_class, "red/ball", &ball.cls, int, NULL, .help = "red")};

static const tl_entry entries[] = {{&toys, &ball.cls}, {&toys, &red_ball.cls}};
TL_EXPORT extern const tl_module tl_module_main;
const tl_module tl_module_main = {TL_MODULE_HEAD("toys"), entries, TL_COUNT(entries)};
