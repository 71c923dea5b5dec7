/* The fake device as a plug-in, for the program:
 *
 *     TILTH_DEVICE=fake tilth train --plugin=tests/libfake_plugin.so --experiment=mock ... */
#include "fake/fake_device.h"

static const tl_entry entries[] = {
    {&tl_kind_device, &fake_device.cls},
    {&tl_kind_backend, &fake_backend.cls},
};

const tl_module tl_module_main = {TL_MODULE_HEAD("fake"), entries, TL_COUNT(entries)};
