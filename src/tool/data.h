/* Private to tool: `tilth data`. */
#ifndef TILTH_SRC_TOOL_DATA_H
#define TILTH_SRC_TOOL_DATA_H

#include <tilth/data/image_folder.h>
#include <tilth/io/idx.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

typedef enum tli_data_encoding { TLI_DATA_PNG, TLI_DATA_JPEG, TLI_DATA_RAW } tli_data_encoding;

typedef struct tli_data_flags {
    int64_t examples;
    const char *out;
    int64_t shards;
    bool gzip;
    bool overwrite;
    bool shuffle;
    int64_t seed;
    tli_data_encoding encoding;
    const char *classes;
    bool skip_bad;
    bool json;
    bool masks;
    const char *pictures;
    const char *split;
    int64_t count;
    const char *kinds;
    bool folders;
} tli_data_flags;

/* What a word of the command line names. */
typedef enum tli_data_kind { TLI_DATA_FOLDER, TLI_DATA_TFRECORD, TLI_DATA_IDX } tli_data_kind;
typedef struct tli_data_input {
    const char *path;
    tli_data_kind kind;
    tl_image_folder folder; /* one of the three */
    tl_tfrecord_file *records;
    tl_idx array;
} tli_data_input;
/* `how` a folder is listed; its path is left out. */
tl_status tli_data_open(tli_data_input *out, tl_arena *arena, const char *path,
                        const tl_image_folder_args *how);
void tli_data_close(tli_data_input *in);

/* The name of --split is a part of paths. */
tl_status tli_data_check_split(const char *split);

/* "12.5 MiB". */
void tli_data_add_size(tl_str *out, double bytes);

/* What should be told of a folder, a line each. */
void tli_data_add_notes(tl_str *out, const tl_image_folder *f);
/* {"class": 0, "name": "daisy", "count": 12}; without a name when it is NULL. */
void tli_data_json_class(tli_json *j, int64_t number, const char *name, int64_t count);
tl_status tli_data_show_records(tli_run *run, const tl_tfrecord_file *f,
                                const tli_data_flags *given);

/* Writes a picture of a record's image into the folder of --pictures, with what the record says of
 * it drawn upon it, and tells its path. Nothing when it has no image that can be decoded. */
tl_status tli_data_picture(tl_str *out, const tl_tfrecord *r, const char *records,
                           const tli_data_flags *given);

/* Verbs; `flags` are tli_data_flags. */
tl_status tli_data_show(tli_run *run, const void *flags);
tl_status tli_data_convert(tli_run *run, const void *flags);
tl_status tli_data_coco(tli_run *run, const void *flags);
tl_status tli_data_voc(tli_run *run, const void *flags);
tl_status tli_data_cityscapes(tli_run *run, const void *flags);
tl_status tli_data_annotations(tli_run *run, const void *flags);
tl_status tli_data_shapes(tli_run *run, const void *flags);

#endif
