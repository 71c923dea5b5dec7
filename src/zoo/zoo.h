/* Private to zoo and builtin: the modules that ship. */
#ifndef TILTH_SRC_ZOO_ZOO_H
#define TILTH_SRC_ZOO_ZOO_H

#include <tilth/desc/registry.h>

extern const tl_module tli_mock_module;

#endif
