/* Marks and small macros that every public header needs: visibility, linkage, attributes, version.
 * Thread word: immutable. */
#ifndef TILTH_BASE_API_H
#define TILTH_BASE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tilth/base/cxx.h>

#ifdef __cplusplus
#define TL_BEGIN extern "C" {
#define TL_END }
#else
#define TL_BEGIN
#define TL_END
#endif

/* TL_API marks what libtilth exports; everything else is hidden. */
#define TL_API __attribute__((visibility("default")))
/* TL_EXPORT marks what a plug-in exports: `TL_EXPORT extern const tl_module tl_module_main;` */
#define TL_EXPORT __attribute__((visibility("default")))

#define TL_NODISCARD __attribute__((warn_unused_result))
#define TL_PRINTF(text, first) __attribute__((format(printf, text, first)))

#define TL_COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

#define TL_VERSION_MAJOR 0
#define TL_VERSION_MINOR 1
#define TL_VERSION_PATCH 0
#define TL_VERSION "0.1.0"

/* Number that a plug-in and the library must share. Methods added at the end of a kind's table do
 * not change it (see class.h); any change to a struct that both sides lay out does: heads, rows,
 * descriptions, modules, and configurations that a plug-in may embed. */
#define TL_ABI 2

#endif
