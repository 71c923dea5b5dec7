/* Private to the command `export`. What it writes is described in docs/export.md.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_EXPORT_H
#define TILTH_SRC_TOOL_EXPORT_H

#include <tilth/train/run/finished.h>

#include "tool/tool.h"

enum { TLI_EXPORT_VERSION = 1 };

/* model.json: where the weights come from, what goes in and out, and every layer with its
 * configuration. */
TL_NODISCARD tl_status tli_export_model(tl_str *out, const tl_finished *f);

/* Writes the weights in a form of others ("hf"), and what lies beside them, into a folder. `from`
 * is that of the run. */
TL_NODISCARD tl_status tli_export_theirs(tli_run *run, const tl_finished *f, const char *from,
                                         const char *folder, const char *format);

/* Writes model.onnx into a folder. */
TL_NODISCARD tl_status tli_export_onnx(tli_run *run, const tl_finished *f, const char *folder);

#endif
