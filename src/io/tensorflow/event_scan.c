#include "io/inner/event_scan.h"

#include <string.h>

#include "io/tensorflow/event_impl.h"

enum { PROTO_INT32 = 3, PROTO_INT64 = 9 };
enum { TENSOR_INTS = 7, TENSOR_INT64S = 10, TENSOR_BOOLS = 11 };

/* One number in the bytes of a tensor. */
static bool number_of_bytes(double *out, int dtype, const tli_pb_field *f)
{
    if (dtype == TLI_PROTO_FLOAT && f->size == sizeof(float)) *out = tli_get_float(f->data);
    else if (dtype == TLI_PROTO_DOUBLE && f->size == sizeof(double)) *out = tli_get_double(f->data);
    else if (dtype == PROTO_INT32 && f->size == 4) *out = (int32_t)tli_get_u32(f->data);
    else if (dtype == PROTO_INT64 && f->size == 8) *out = (double)(int64_t)tli_get_u64(f->data);
    else return false;
    return true;
}

bool tli_tensor_number(double *out, const tli_pb_field *tensor)
{
    tli_pb in = {tensor->data, tensor->data + tensor->size, false};
    tli_pb_field f;
    int dtype = 0;
    bool found = false;
    while (tli_pb_next(&in, &f)) {
        bool bytes = f.wire == TLI_PB_BYTES;
        tli_pb varints = {f.data, f.data ? f.data + f.size : NULL, false};
        switch (f.number) {
        case TLI_TENSOR_DTYPE:
            if (f.wire == TLI_PB_VARINT) dtype = (int)f.bits;
            break;
        case TLI_TENSOR_CONTENT: found |= bytes && number_of_bytes(out, dtype, &f); break;
        case TLI_TENSOR_FLOATS:
            if (f.wire == TLI_PB_FIXED32) {
                uint32_t bits = (uint32_t)f.bits;
                *out = tli_get_float(&bits);
                found = true;
            } else {
                found |= bytes && number_of_bytes(out, TLI_PROTO_FLOAT, &f);
            }
            break;
        case TLI_TENSOR_DOUBLES:
            if (f.wire == TLI_PB_FIXED64) {
                *out = tli_get_double(&f.bits);
                found = true;
            } else {
                found |= bytes && number_of_bytes(out, TLI_PROTO_DOUBLE, &f);
            }
            break;
        case TENSOR_INTS:
        case TENSOR_INT64S:
        case TENSOR_BOOLS:
            if (bytes
                && (!tli_get_varint(&varints.at, varints.end, &f.bits)
                    || varints.at != varints.end))
                break;
            *out = (double)(int64_t)f.bits;
            found = true;
            break;
        default: break;
        }
    }
    return found;
}

static void read_plugin(tli_scan_value *v, const tli_pb_field *metadata)
{
    tli_pb in = {metadata->data, metadata->data + metadata->size, false};
    tli_pb_field f, p;
    while (tli_pb_next(&in, &f)) {
        if (f.number != TLI_METADATA_PLUGIN || f.wire != TLI_PB_BYTES) continue;
        tli_pb plugin = {f.data, f.data + f.size, false};
        while (tli_pb_next(&plugin, &p))
            if (p.number == 1 && p.wire == TLI_PB_BYTES)
                v->plugin = p.data, v->plugin_size = p.size;
    }
}

static void name_plugin(tli_scan_value *v, const char *name)
{
    v->plugin = name;
    v->plugin_size = strlen(name);
}

static void read_value(tli_scan_value *v, const tli_pb_field *value)
{
    tli_pb in = {value->data, value->data + value->size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f)) {
        bool bytes = f.wire == TLI_PB_BYTES;
        if (f.number == TLI_VALUE_TAG && bytes) {
            v->tag = f.data;
            v->tag_size = f.size;
        } else if (f.number == TLI_VALUE_SIMPLE && f.wire == TLI_PB_FIXED32) {
            uint32_t bits = (uint32_t)f.bits;
            v->number = tli_get_float(&bits);
            v->is_number = true;
            name_plugin(v, "scalars");
        } else if (f.number == TLI_VALUE_IMAGE && bytes) {
            name_plugin(v, "images");
        } else if (f.number == TLI_VALUE_HISTOGRAM && bytes) {
            name_plugin(v, "histograms");
        } else if (f.number == TLI_VALUE_TENSOR && bytes) {
            v->is_number |= tli_tensor_number(&v->number, &f);
        } else if (f.number == TLI_VALUE_METADATA && bytes) {
            read_plugin(v, &f);
        }
    }
}

static bool read_summary(const tli_pb_field *summary, const tli_scan_value *head,
                         const tli_scan_calls *calls, void *payload)
{
    tli_pb in = {summary->data, summary->data + summary->size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f)) {
        if (f.number != 1 || f.wire != TLI_PB_BYTES) continue;
        tli_scan_value v = *head;
        read_value(&v, &f);
        if (!calls->value(&v, payload)) return false;
    }
    return true;
}

/* What a session log says, where it says something. */
static void read_session(bool *start, const tli_pb_field *session)
{
    tli_pb in = {session->data, session->data + session->size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f))
        if (f.number == 1 && f.wire == TLI_PB_VARINT) *start = (int)f.bits == TLI_SESSION_START;
}

/* Time and step stand before the summary in all files that we know, and need not. */
static bool read_event(const tli_frame *frame, size_t at, const tli_scan_calls *calls,
                       void *payload)
{
    tli_pb in = {frame->data, frame->data + frame->size, false};
    tli_scan_value head = {.at = at, .tag = "", .plugin = ""};
    tli_pb_field f, summary = {0};
    int summaries = 0;
    bool start = false;
    while (tli_pb_next(&in, &f)) {
        if (f.number == TLI_EVENT_WALL && f.wire == TLI_PB_FIXED64)
            head.wall_time = tli_get_double(&f.bits);
        else if (f.number == TLI_EVENT_STEP && f.wire == TLI_PB_VARINT) head.step = (int64_t)f.bits;
        else if (f.wire != TLI_PB_BYTES) continue;
        else if (f.number == TLI_EVENT_SUMMARY) summary = f, summaries++;
        else if (f.number == TLI_EVENT_SESSION) read_session(&start, &f);
    }
    if (in.damaged) return true; // its checksum fits: somebody else's message, which is passed over
    if (start && !calls->start(head.step, payload)) return false;
    if (summaries == 1) return read_summary(&summary, &head, calls, payload);
    in = (tli_pb){frame->data, frame->data + frame->size, false};
    while (summaries && tli_pb_next(&in, &f))
        if (f.number == TLI_EVENT_SUMMARY && f.wire == TLI_PB_BYTES
            && !read_summary(&f, &head, calls, payload))
            return false;
    return true;
}

tli_scan_end tli_event_scan(size_t *used, const char *bytes, size_t size,
                            const tli_scan_calls *calls, void *payload)
{
    const char *at = bytes, *end = bytes + size;
    tli_frame frame;
    tli_frame_kind kind;
    bool more = true;
    *used = 0;
    while (more && (kind = tli_frame_next(&frame, &at, end, true)) == TLI_FRAME) {
        more = read_event(&frame, (size_t)(frame.start - bytes), calls, payload);
        *used = (size_t)(at - bytes);
    }
    if (!more || kind == TLI_FRAME_END) return TLI_SCAN_ALL;
    return kind == TLI_FRAME_CUT ? TLI_SCAN_CUT : TLI_SCAN_DAMAGED;
}

uint64_t tli_event_record_size(const char *bytes, size_t size)
{
    tli_frame frame;
    uint64_t all;
    if (size < TLI_FRAME_HEAD) return 0;
    // The head alone is a record that is cut, or zeros.
    if (tli_frame_next(&frame, &bytes, bytes + TLI_FRAME_HEAD, false) != TLI_FRAME_CUT) return 0;
    bool over = __builtin_add_overflow(tli_get_u64(bytes), TLI_FRAME_HEAD + TLI_FRAME_TAIL, &all);
    return over ? UINT64_MAX : all;
}
