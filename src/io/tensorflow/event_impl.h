/* What the writer, the reader and the rewinder of event files share: frames, fields, folders.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_EVENT_IMPL_H
#define TLI_IO_EVENT_IMPL_H

#include <tilth/base/map.h>
#include <tilth/io/tensorflow/event_file.h>

#include "io/tensorflow/protobuf.h"

/* By what we know our own files, in their first event. */
#define TLI_EVENT_WRITER "tilth"
#define TLI_HPARAMS_EXPERIMENT "_hparams_/experiment"
#define TLI_HPARAMS_START "_hparams_/session_start_info"
#define TLI_HPARAMS_END "_hparams_/session_end_info"

enum { TLI_FRAME_HEAD = 12, TLI_FRAME_TAIL = 4 };

/* Fields of the messages, by their numbers. */
enum {
    TLI_EVENT_WALL = 1,
    TLI_EVENT_STEP = 2,
    TLI_EVENT_VERSION = 3,
    TLI_EVENT_SUMMARY = 5,
    TLI_EVENT_SESSION = 7,
    TLI_EVENT_SOURCE = 10
};
enum {
    TLI_VALUE_TAG = 1,
    TLI_VALUE_SIMPLE = 2,
    TLI_VALUE_IMAGE = 4,     /* of the old style, as PyTorch's writer has them */
    TLI_VALUE_HISTOGRAM = 5, /* the same */
    TLI_VALUE_TENSOR = 8,
    TLI_VALUE_METADATA = 9
};
enum { TLI_METADATA_PLUGIN = 1, TLI_METADATA_CLASS = 4 };
enum {
    TLI_TENSOR_DTYPE = 1,
    TLI_TENSOR_SHAPE = 2,
    TLI_TENSOR_CONTENT = 4,
    TLI_TENSOR_FLOATS = 5,
    TLI_TENSOR_DOUBLES = 6,
    TLI_TENSOR_STRINGS = 8
};
enum { TLI_PROTO_FLOAT = 1, TLI_PROTO_DOUBLE = 2, TLI_PROTO_STRING = 7 };
enum { TLI_SESSION_START = 1 };

/* One record of a file. */
typedef enum tli_frame_kind {
    TLI_FRAME,
    TLI_FRAME_END,
    TLI_FRAME_CUT,
    TLI_FRAME_DAMAGED
} tli_frame_kind;
typedef struct tli_frame {
    const char *start; /* of the frame; it ends where the next one starts */
    const char *data;
    size_t size;
} tli_frame;
/* The frame at *at, which moves behind it. `check`: the checksum of the data too. */
tli_frame_kind tli_frame_next(tli_frame *out, const char **at, const char *end, bool check);

/* The data of a bytes field with this text? */
bool tli_field_is(const tli_pb_field *f, const char *text);

/* The number of a tensor that has one; the last field that has one counts. */
bool tli_tensor_number(double *out, const tli_pb_field *tensor);

/* Rewinds; tags that our files in the folder itself have at step `keep_to` are put into `there`,
 * which may be NULL. */
tl_status tli_event_rewind(const char *folder, int64_t keep_to, bool deep, tl_map *there);
/* The time in the name of the newest event file in the folder; 0 when there is none. */
tl_status tli_event_newest(int64_t *out, const char *folder);

#endif
