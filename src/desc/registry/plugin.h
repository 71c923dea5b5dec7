/* Private to desc: shared objects that bring a module. */
#ifndef TILTH_SRC_DESC_PLUGIN_H
#define TILTH_SRC_DESC_PLUGIN_H

#include <tilth/desc/registry.h>

/* Opens the file after checking whose it is, and finds its `tl_module_main`. */
tl_status tli_plugin_open(void **handle, const tl_module **module, const char *path);
void tli_plugin_close(void *handle);

#endif
