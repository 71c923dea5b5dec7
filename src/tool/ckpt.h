/* Private to the command `ckpt`: a checkpoint, or any safetensors file, as rows.
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_CKPT_H
#define TILTH_SRC_TOOL_CKPT_H

#include <tilth/base/map.h>
#include <tilth/io/checkpoint.h>

#include "tool/tool.h"

typedef struct tli_ckpt_row {
    const char *path;
    const char *text;                  /* "float32[3, 4]", "int 12" */
    const char *same_as;               /* NULL: it has elements of its own */
    const tl_safetensors_entry *entry; /* its bytes, whatever it is */
} tli_ckpt_row;

typedef struct tli_ckpt {
    const char *file; /* its path */
    tl_checkpoint *c;
    tli_ckpt_row *rows;
    int64_t count;
    tl_map by_path; /* to tli_ckpt_row */
} tli_ckpt;

/* `word` is a file, a file without its suffix, or a folder with a state file. Rows live in the
 * arena; deinit is due also after a failure. */
TL_NODISCARD tl_status tli_ckpt_open(tli_ckpt *out, tl_arena *arena, const char *word);
void tli_ckpt_deinit(tli_ckpt *k);

/* Bytes that a terminal would obey are shown as numbers. */
void tli_ckpt_add_clean(tl_str *out, const char *text);

/* What differs between two, a line each; `*different` says how many do. Numbers that are apart by
 * no more than the tolerance are equal. */
TL_NODISCARD tl_status tli_ckpt_diff(tl_str *out, int64_t *different, const tli_ckpt *a,
                                     const tli_ckpt *b, double tolerance);

#endif
