/* Private to the command `ckpt`: a checkpoint, any safetensors file, or a TensorBundle, as rows.
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_CKPT_H
#define TILTH_SRC_TOOL_CKPT_H

#include <tilth/base/map.h>
#include <tilth/io/checkpoint/checkpoint.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

typedef struct tli_ckpt_row {
    const char *path;
    const char *text;                  /* "float32[3, 4]", "int 12" */
    const char *same_as;               /* NULL: it has elements of its own */
    const tl_safetensors_entry *entry; /* its bytes, whatever it is; no data: they are in pieces */
    bool tensor;                       /* no scalar */
    const char *kind, *value;          /* of a scalar: "int", and what it is as JSON */
} tli_ckpt_row;

typedef struct tli_ckpt {
    const char *file;   /* its path; the prefix of a bundle */
    tl_checkpoint *c;   /* NULL: a bundle */
    tl_tensorbundle *b; /* NULL: no bundle */
    tli_ckpt_row *rows;
    int64_t count;
    tl_map by_path; /* to tli_ckpt_row */
} tli_ckpt;

/* Opens what tl_checkpoint_locate gave. Rows live in the arena; deinit is due also after a failure.
 * `alike`: as both kinds have it in common, without object graphs and aliases, numbers as tensors,
 * entries of a bundle under the paths that they get in a checkpoint. */
TL_NODISCARD tl_status tli_ckpt_open(tli_ckpt *out, tl_arena *arena, const char *file, bool bundle,
                                     bool alike);
void tli_ckpt_deinit(tli_ckpt *k);

/* Adds a row; there is room. `value`, unless NULL, is shown instead of type and shape. */
TL_NODISCARD tl_status tli_ckpt_add_row(tli_ckpt *k, tl_arena *arena, const char *path,
                                        const tl_state_entry *value, const tl_safetensors_entry *e);
/* The rows of k->b. */
TL_NODISCARD tl_status tli_ckpt_add_bundle(tli_ckpt *k, tl_arena *arena, bool alike);

/* The finite elements of a tensor that can be read; 0 of them: the rest is 0 too. */
typedef struct tli_ckpt_stats {
    double least, mean, greatest;
    int64_t finite, strange;
} tli_ckpt_stats;
tli_ckpt_stats tli_ckpt_measure(const tl_safetensors_entry *e);
/* What `show` tells of it, as a JSON object. */
void tli_ckpt_add_json(tli_json *j, const tli_ckpt *k, bool stats);
/* A scalar as JSON. */
void tli_ckpt_json_value(tl_str *out, const tl_state_entry *e);

/* What differs between two, a line each; `*different` says how many do. Numbers that are apart by
 * no more than the tolerance are equal. */
TL_NODISCARD tl_status tli_ckpt_diff(tl_str *out, int64_t *different, const tli_ckpt *a,
                                     const tli_ckpt *b, double tolerance);

typedef struct tli_ckpt_conversion {
    const char *experiment; /* NULL: as the folder says */
    const char *format;     /* of others; NULL: as the name says */
    bool overwrite;
} tli_ckpt_conversion;
/* Turns a checkpoint into a bundle, or back, weights of others into either of them, or a checkpoint
 * of a run into weights for others; what was done, and left out, is appended to the run's text. */
TL_NODISCARD tl_status tli_ckpt_convert(tli_run *run, const char *from, const char *to,
                                        const tli_ckpt_conversion *how);

#endif
