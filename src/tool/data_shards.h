/* Private to tool: the files that `tilth data` writes records to, which appear together at the end.
 *
 *     tli_shards s = {.run = run, .given = given};
 *     TL_TRY(tli_shards_check(&s));                      // may they be written?
 *     TL_TRY_DONE(st, tli_shards_begin(&s));
 *     ... TL_TRY_DONE(st, tli_shards_write(&s, example.data, example.length)) ...
 *     st = tli_shards_commit(&s);
 * done:
 *     tli_shards_abort(&s);                              // does nothing after a commit
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_DATA_SHARDS_H
#define TILTH_SRC_TOOL_DATA_SHARDS_H

#include "tool/data.h"

typedef struct tli_shards {
    tli_run *run;
    const tli_data_flags *given;
    const char *ending;    /* (optional: "") of all names */
    const char *companion; /* (optional) another file that is written beside them */
    int64_t written;
    const char **paths;
    tl_tfrecord_writer **writers;
    tl_path_list others; /* files of an earlier run that no new one replaces */
} tli_shards;

/* A pattern of tl_glob that matches this path alone. */
void tli_add_plain_pattern(tl_str *out, const char *path);
/* Refuses a command without --out. */
TL_NODISCARD tl_status tli_shards_need_out(const tli_run *run, const tli_data_flags *given);
/* Names the files. Refuses what would replace files without --overwrite. */
TL_NODISCARD tl_status tli_shards_check(tli_shards *s);
TL_NODISCARD tl_status tli_shards_begin(tli_shards *s);
/* Records are dealt out to the files like cards. */
TL_NODISCARD tl_status tli_shards_write(tli_shards *s, const void *data, size_t size);
/* Puts all files in place, removes the others, and tells. */
TL_NODISCARD tl_status tli_shards_commit(tli_shards *s);
void tli_shards_abort(tli_shards *s);

#endif
