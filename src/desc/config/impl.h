/* Private to desc: what a configuration holds, for the files that change it. */
#ifndef TILTH_SRC_DESC_CONFIG_IMPL_H
#define TILTH_SRC_DESC_CONFIG_IMPL_H

#include <tilth/desc/config.h>

#include "desc/config/apply.h"

struct tl_config {
    tl_arena *arena;
    const tl_registry *registry;
    const tl_desc *desc;
    void *value;
    void *base; /* a copy of what readers of the YAML start from; NULL: the defaults */
    bool strict, finished;
    tli_sources sources;
    struct {
        const char **items;
        int64_t count, capacity;
    } restrictions;
};

/* Fails once the configuration is finished. */
tl_status tli_config_open(const tl_config *c);
/* How values go into this configuration. The caller deinits `path`. */
tli_apply tli_config_apply(tl_config *c, tli_diags *diags);

#endif
