#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

#include "io/inner/event_scan.h"
#include "io/tensorflow/event_impl.h"

struct tl_event_reader {
    char *path;
    tl_file_mapping file;
    const char *at;
    tl_arena *arena; /* what the last event points to */
    tl_arena_mark mark;
    tl_map plugins; /* tag to the name of its plug-in, which only its first event has; owned */
    bool cut;
};

tl_status tl_event_reader_open(tl_event_reader **out, const char *path)
{
    *out = NULL;
    tl_event_reader *r = tl_alloc_zero(sizeof *r);
    if (!r) return TL_FAIL_NOMEM(sizeof *r);
    tl_status st = TL_OK;
    r->path = tl_strdup(path);
    if (!r->path) {
        st = TL_FAIL_NOMEM(strlen(path) + 1);
        goto done;
    }
    TL_TRY_DONE(st, tl_arena_new(&r->arena));
    r->mark = tl_arena_begin(r->arena);
    TL_TRY_DONE(st, tl_file_map(&r->file, path));
    r->at = r->file.data;
    *out = r;
    r = NULL;
done:
    tl_event_reader_close(&r);
    return st;
}

void tl_event_reader_close(tl_event_reader **reader)
{
    tl_event_reader *r = *reader;
    if (!r) return;
    for (int64_t i = 0; i < tl_map_count(&r->plugins); i++) tl_free(tl_map_at(&r->plugins, i));
    tl_map_deinit(&r->plugins);
    tl_file_unmap(&r->file);
    tl_arena_free(&r->arena);
    tl_free(r->path);
    tl_free(r);
    *reader = NULL;
}

void tli_event_reader_seek(tl_event_reader *r, uint64_t offset)
{
    r->at = r->file.data + (offset < r->file.size ? offset : r->file.size);
}

bool tl_event_reader_cut(const tl_event_reader *r)
{
    return r->cut;
}

/* --- messages --------------------------------------------------------------------------------- */

static tl_status fail_damaged(const tl_event_reader *r)
{
    return TL_FAIL(TL_EINVAL, "'%s' is damaged: what comes after byte %zu is no event", r->path,
                   (size_t)(r->at - r->file.data));
}

static const char *text_of(tl_arena *arena, const tli_pb_field *f)
{
    return tl_arena_strndup(arena, f->data, f->size);
}

// Strings may hold NULs, as images do.
static tl_status bytes_of(tl_event_bytes *out, tl_arena *arena, const tli_pb_field *f)
{
    char *copy = tl_arena_alloc(arena, f->size + 1);
    if (!copy) return TL_ENOMEM;
    if (f->size) memcpy(copy, f->data, f->size);
    *out = (tl_event_bytes){copy, f->size};
    return TL_OK;
}

static int64_t count_fields(const tli_pb_field *message, int number)
{
    int64_t count = 0;
    tli_pb in = {message->data, message->data + message->size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f)) count += f.number == number && f.wire == TLI_PB_BYTES;
    return count;
}

static tl_status read_rows(tl_event_value *v, tl_arena *arena, const tli_pb_field *f)
{
    int64_t count = (int64_t)(f->size / sizeof(double));
    double *rows = tl_arena_array(arena, count, sizeof *rows);
    if (!rows) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) rows[i] = tli_get_double(f->data + 8 * i);
    v->rows = rows;
    v->row_count = count / 3;
    return TL_OK;
}

static tl_status read_tensor(tl_event_value *v, tl_arena *arena, const tli_pb_field *tensor)
{
    tli_pb in = {tensor->data, tensor->data + tensor->size, false};
    tli_pb_field f;
    int dtype = 0;
    tl_event_bytes *strings =
        tl_arena_array(arena, count_fields(tensor, TLI_TENSOR_STRINGS), sizeof *strings);
    if (!strings) return TL_ENOMEM;
    v->strings = strings;
    v->string_count = 0; // a value may say twice what its tensor is: the last one counts
    tli_tensor_number(&v->number, tensor);
    while (tli_pb_next(&in, &f)) {
        if (f.number == TLI_TENSOR_DTYPE && f.wire == TLI_PB_VARINT) dtype = (int)f.bits;
        if (f.wire != TLI_PB_BYTES) continue;
        if (f.number == TLI_TENSOR_DOUBLES
            || (f.number == TLI_TENSOR_CONTENT && dtype == TLI_PROTO_DOUBLE))
            TL_TRY(read_rows(v, arena, &f));
        else if (f.number == TLI_TENSOR_STRINGS)
            TL_TRY(bytes_of(&strings[v->string_count++], arena, &f));
    }
    return TL_OK;
}

static tl_status read_metadata(tl_event_value *v, tl_arena *arena, const tli_pb_field *metadata)
{
    tli_pb in = {metadata->data, metadata->data + metadata->size, false};
    tli_pb_field f, p;
    while (tli_pb_next(&in, &f)) {
        if (f.number != TLI_METADATA_PLUGIN || f.wire != TLI_PB_BYTES) continue;
        tli_pb plugin = {f.data, f.data + f.size, false};
        while (tli_pb_next(&plugin, &p)) {
            if (p.wire != TLI_PB_BYTES) continue;
            if (p.number == 1 && !(v->plugin = text_of(arena, &p))) return TL_ENOMEM;
            if (p.number == 2) TL_TRY(bytes_of(&v->content, arena, &p));
        }
    }
    return TL_OK;
}

// Tells the reader what a tag is, or takes from it what it knows.
static tl_status settle_plugin(tl_event_reader *r, tl_event_value *v)
{
    const char *known = tl_map_get(&r->plugins, v->tag);
    if (!*v->plugin && known) v->plugin = known;
    if (!*v->plugin || known) return TL_OK;
    char *copy = tl_strdup(v->plugin);
    if (!copy) return TL_FAIL_NOMEM(strlen(v->plugin) + 1);
    tl_status st = tl_map_set(&r->plugins, v->tag, copy);
    if (st != TL_OK) tl_free(copy);
    return st;
}

/* --- the old style ---------------------------------------------------------------------------- */

/* An image: height, width, kind, file. */
static tl_status read_image(tl_event_value *v, tl_arena *arena, const tli_pb_field *image)
{
    tli_pb in = {image->data, image->data + image->size, false};
    tli_pb_field f;
    uint64_t sides[2] = {0};
    tl_event_bytes *strings = tl_arena_array(arena, 3, sizeof *strings);
    if (!strings) return TL_ENOMEM;
    strings[2] = (tl_event_bytes){"", 0};
    while (tli_pb_next(&in, &f)) {
        if ((f.number == 1 || f.number == 2) && f.wire == TLI_PB_VARINT)
            sides[f.number - 1] = f.bits;
        if (f.number == 4 && f.wire == TLI_PB_BYTES) TL_TRY(bytes_of(&strings[2], arena, &f));
    }
    for (int i = 0; i < 2; i++) {
        const char *text = tl_arena_printf(arena, "%" PRIu64, sides[1 - i]);
        if (!text) return TL_ENOMEM;
        strings[i] = (tl_event_bytes){text, strlen(text)};
    }
    v->strings = strings;
    v->string_count = 3;
    v->plugin = "images";
    return TL_OK;
}

/* Packed doubles of one field of a message. */
static tl_event_bytes packed(const tli_pb_field *message, int number)
{
    tli_pb in = {message->data, message->data + message->size, false};
    tli_pb_field f;
    tl_event_bytes found = {"", 0};
    while (tli_pb_next(&in, &f))
        if (f.number == number && f.wire == TLI_PB_BYTES) found = (tl_event_bytes){f.data, f.size};
    return found;
}

/* A histogram: right edges and counts. The first bucket begins where the values do. */
static tl_status read_histogram(tl_event_value *v, tl_arena *arena, const tli_pb_field *h)
{
    enum { LEAST = 1, EDGES = 6, COUNTS = 7 };
    tl_event_bytes edges = packed(h, EDGES), counts = packed(h, COUNTS);
    int64_t count =
        (int64_t)((edges.size < counts.size ? edges.size : counts.size) / sizeof(double));
    double *rows = tl_arena_array(arena, 3 * count, sizeof *rows), left = 0;
    tli_pb in = {h->data, h->data + h->size, false};
    tli_pb_field f;
    if (!rows) return TL_ENOMEM;
    while (tli_pb_next(&in, &f))
        if (f.number == LEAST && f.wire == TLI_PB_FIXED64) memcpy(&left, &f.bits, sizeof left);
    for (int64_t i = 0; i < count; i++) {
        double right = tli_get_double(edges.data + 8 * i);
        rows[3 * i] = i || left < right ? left : right;
        rows[3 * i + 1] = left = right;
        rows[3 * i + 2] = tli_get_double(counts.data + 8 * i);
    }
    v->rows = rows;
    v->row_count = count;
    v->plugin = "histograms";
    return TL_OK;
}

static tl_status read_value(tl_event_reader *r, tl_event_value *v, const tli_pb_field *value)
{
    tli_pb in = {value->data, value->data + value->size, false};
    tli_pb_field f;
    *v = (tl_event_value){.tag = "", .plugin = "", .content = {"", 0}};
    while (tli_pb_next(&in, &f)) {
        bool bytes = f.wire == TLI_PB_BYTES;
        if (f.number == TLI_VALUE_TAG && bytes) {
            v->tag = text_of(r->arena, &f);
            if (!v->tag) return TL_ENOMEM;
        } else if (f.number == TLI_VALUE_SIMPLE && f.wire == TLI_PB_FIXED32) {
            uint32_t bits = (uint32_t)f.bits;
            v->number = tli_get_float(&bits);
            v->plugin = "scalars";
        } else if (f.number == TLI_VALUE_IMAGE && bytes) {
            TL_TRY(read_image(v, r->arena, &f));
        } else if (f.number == TLI_VALUE_HISTOGRAM && bytes) {
            TL_TRY(read_histogram(v, r->arena, &f));
        } else if (f.number == TLI_VALUE_TENSOR && bytes) {
            TL_TRY(read_tensor(v, r->arena, &f));
        } else if (f.number == TLI_VALUE_METADATA && bytes) {
            TL_TRY(read_metadata(v, r->arena, &f));
        }
    }
    return settle_plugin(r, v);
}

/* `room` has one place for each value of the event. */
static tl_status read_summary(tl_event_reader *r, tl_event *out, tl_event_value *room,
                              const tli_pb_field *summary)
{
    tli_pb in = {summary->data, summary->data + summary->size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f))
        if (f.number == 1 && f.wire == TLI_PB_BYTES) TL_TRY(read_value(r, &room[out->count++], &f));
    return in.damaged ? fail_damaged(r) : TL_OK;
}

static tl_status read_part(tl_event_reader *r, tl_event *out, const tli_pb_field *f)
{
    tli_pb in = {f->data, f->data + f->size, false};
    tli_pb_field inner;
    if (f->number == TLI_EVENT_VERSION) {
        out->file_version = text_of(r->arena, f);
        return out->file_version ? TL_OK : TL_ENOMEM;
    }
    while (tli_pb_next(&in, &inner)) {
        if (inner.number != 1) continue;
        if (f->number == TLI_EVENT_SESSION && inner.wire == TLI_PB_VARINT)
            out->session = (int)inner.bits;
        if (f->number == TLI_EVENT_SOURCE && inner.wire == TLI_PB_BYTES
            && !(out->writer = text_of(r->arena, &inner)))
            return TL_ENOMEM;
    }
    return TL_OK;
}

static int64_t count_values(const tli_frame *frame)
{
    tli_pb in = {frame->data, frame->data + frame->size, false};
    tli_pb_field f;
    int64_t count = 0;
    while (tli_pb_next(&in, &f))
        if (f.number == TLI_EVENT_SUMMARY && f.wire == TLI_PB_BYTES) count += count_fields(&f, 1);
    return count;
}

/* A message that stands twice in another is one with the values of both: so protocol buffers have
 * it, and so does the walk (event_scan.c). */
static tl_status read_event(tl_event_reader *r, tl_event *out, const tli_frame *frame)
{
    tli_pb in = {frame->data, frame->data + frame->size, false};
    tli_pb_field f;
    tl_event_value *values = tl_arena_array(r->arena, count_values(frame), sizeof *values);
    if (!values) return TL_ENOMEM;
    *out = (tl_event){.file_version = "", .writer = "", .values = values};
    while (tli_pb_next(&in, &f)) {
        if (f.number == TLI_EVENT_WALL && f.wire == TLI_PB_FIXED64)
            memcpy(&out->wall_time, &f.bits, sizeof out->wall_time);
        else if (f.number == TLI_EVENT_STEP && f.wire == TLI_PB_VARINT) out->step = (int64_t)f.bits;
        else if (f.wire != TLI_PB_BYTES) continue;
        else if (f.number == TLI_EVENT_SUMMARY) TL_TRY(read_summary(r, out, values, &f));
        else TL_TRY(read_part(r, out, &f));
    }
    return in.damaged ? fail_damaged(r) : TL_OK;
}

tl_status tl_event_reader_next(tl_event_reader *r, tl_event *out, bool *more)
{
    tli_frame frame;
    *more = false;
    *out = (tl_event){.file_version = "", .writer = ""};
    tl_arena_end(r->arena, r->mark);
    r->mark = tl_arena_begin(r->arena);
    switch (tli_frame_next(&frame, &r->at, r->file.data + r->file.size, true)) {
    case TLI_FRAME: break;
    case TLI_FRAME_END: return TL_OK;
    case TLI_FRAME_CUT: r->cut = true; return TL_OK;
    case TLI_FRAME_DAMAGED: return fail_damaged(r);
    }
    // Values are counted and then read: from our own memory, for the file may change in between.
    frame.data = tl_arena_copy(r->arena, frame.data, frame.size);
    if (!frame.data) return TL_ENOMEM;
    *more = true;
    return read_event(r, out, &frame);
}
