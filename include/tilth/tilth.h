/* All public headers at once, from the lowest layer up. One noun, one header: those who want less
 * include what they use.
 *
 * Thread word: see each header. */
#ifndef TILTH_TILTH_H
#define TILTH_TILTH_H

#include <tilth/base/alloc.h>
#include <tilth/base/api.h>
#include <tilth/base/arena.h>
#include <tilth/base/clock.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>
#include <tilth/base/rng.h>
#include <tilth/base/status.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

#include <tilth/desc/class.h>
#include <tilth/desc/config.h>
#include <tilth/desc/desc.h>
#include <tilth/desc/flags.h>
#include <tilth/desc/gin.h>
#include <tilth/desc/help.h>
#include <tilth/desc/logging_flags.h>
#include <tilth/desc/registry.h>
#include <tilth/desc/value.h>
#include <tilth/desc/yaml.h>

#include <tilth/nn/optimization.h>

#include <tilth/data/config.h>

#include <tilth/train/experiment.h>

#include <tilth/builtin/builtin.h>

#include <tilth/tool/main.h>

#endif
