/* What tests of layers by name share: a registry of what ships, and a struct that chooses a layer.
 */
#ifndef TILTH_TESTS_NN_CHOICE_H
#define TILTH_TESTS_NN_CHOICE_H

#include "nn/lab.h"

#include <tilth/desc/config.h>

typedef struct holder {
    tl_oneof layer;
} holder;
static const tl_field holder_fields[] = {
    TL_F(holder, layer, .kind = &tl_kind_layer, .help = "which one"),
    TL_F_END,
};
static const tl_desc holder_desc = {
    .name = "holder",
    .help = "a layer",
    .size = sizeof(holder),
    .fields = holder_fields,
};

static tl_registry *registry;

static inline int open_registry(void **state)
{
    assert_ok(tl_registry_new(&registry));
    assert_ok(tl_registry_add(registry, &tl_initializers_module));
    assert_ok(tl_registry_add(registry, &tl_regularizers_module));
    assert_ok(tl_registry_add(registry, &tl_layers_module));
    return open_lab(state);
}

static inline int close_registry(void **state)
{
    close_lab(state);
    tl_registry_free(&registry);
    return 0;
}

static inline tl_status read_config(tl_config **out, const char *yaml)
{
    TL_TRY(tl_config_new(out, registry, &holder_desc));
    tl_status st = tl_config_yaml(*out, yaml, "test");
    if (st == TL_OK) st = tl_config_finish(*out);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

#endif
