/* Configurations that are written in Python (LiBai's and detectron2's config.py), read without
 * Python: no code is run.
 *
 *     from libai.config import LazyCall, get_config
 *     from .common.models.graph import graph
 *     train = get_config("common/train.py").train
 *     train.train_micro_batch_size = 2 * 8
 *     model = LazyCall(VisionTransformer)(img_size=224, depth=12)
 *
 *     const tl_value *map;
 *     TL_TRY(tl_python_read(&map, arena, "configs/vit.py", NULL));
 *     const tl_value *depth = tl_value_get(tl_value_get(map, "model"), "depth");
 *
 * What is understood: assignments to names, attributes and items (`=`, and `+=` and its like for
 * numbers and strings), `del`, imports, `x.update(...)`, dict, list, tuple, strings, numbers, None,
 * True, False, arithmetic, dict(), list(), tuple(), int(), float(), LazyCall, get_config,
 * DictConfig, OmegaConf.create and deepcopy. All else (blocks, functions, comparisons, f-strings,
 * ...) is TL_EUNSUPPORTED, with its file and line.
 *
 * Values behave as Python's do: names share a dict, OmegaConf's configurations hold copies, an
 * imported dict is a configuration. What is imported from a library is known by its dotted name
 * alone. A call of it, and LazyCall of it, is a map with that name as `_target_`; arguments without
 * names are a list under `_args_`.
 *
 * The result is a map of what LiBai takes from such a file: all names that are bound to a dict or a
 * configuration, but for those that begin with '_'.
 *
 * `from .a.b import c` reads a/b.py beside the file, `from ..a import c` one folder above; each
 * import reads the file anew, so that changes do not leak. Nothing is read outside of the root: the
 * working directory, or for a file that is not below it, the folder of the file.
 *
 * Values live in the arena and are never changed. Thread word: one thread at a time for each
 * arena. */
#ifndef TILTH_DESC_PYTHON_H
#define TILTH_DESC_PYTHON_H

#include <tilth/desc/value.h>

TL_BEGIN

/* what is accepted at most */
enum {
    TL_PYTHON_MAX_BYTES = 1 << 20,  /* of one file, and of one string */
    TL_PYTHON_MAX_TOTAL = 16 << 20, /* of all files together */
    TL_PYTHON_MAX_FILES = 256,      /* read in all */
    TL_PYTHON_MAX_IMPORTS = 32,     /* inside each other */
    TL_PYTHON_MAX_DEPTH = 64,       /* values inside each other, and signs before a number */
    TL_PYTHON_MAX_NODES = 1 << 20,  /* values that are made, looked at or copied in all */
    TL_PYTHON_MAX_LOOKS = 1 << 26   /* names that are looked at in all */
};

/* A file that get_config finds, and imports from "common" where the configuration has no folder of
 * that name. */
typedef struct tl_python_file {
    const char *path; /* "common/train.py" */
    const char *text;
} tl_python_file;

typedef struct tl_python_options {
    const tl_python_file *shipped;
    int64_t shipped_count;
    const char *root; /* (optional) nothing outside of this folder is read */
} tl_python_options;

/* `options` may be NULL. */
TL_API TL_NODISCARD tl_status tl_python_read(const tl_value **out, tl_arena *arena,
                                             const char *path, const tl_python_options *options);
/* The same from a text, whose relative imports find shipped files alone. `source` names it in
 * messages. */
TL_API TL_NODISCARD tl_status tl_python_parse(const tl_value **out, tl_arena *arena,
                                              const char *text, size_t length, const char *source,
                                              const tl_python_options *options);

TL_END

#endif
