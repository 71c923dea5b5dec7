/* What is told, carried from process to process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "train/peers.h"

/* --- to all ----------------------------------------------------------------------------------- */

/* A line for each number: "=VALUE NAME"; logs within logs stand between ">NAME" and "<". */
static tl_status add_numbers(tl_str *out, const tl_logs *l)
{
    for (int64_t i = 0; i < tl_logs_count(l); i++) {
        tl_logs_entry e;
        double value;
        tl_logs_at(&e, l, i);
        if (e.kind == TL_LOGS_LOGS) {
            tl_str_addf(out, ">%s\n", e.name);
            TL_TRY(add_numbers(out, e.logs));
            tl_str_add(out, "<\n");
        } else if (e.kind == TL_LOGS_NUMBER) {
            TL_TRY(tl_logs_entry_number(&value, &e));
            tl_str_addf(out, "=%a %s\n", value, e.name);
        }
    }
    return tl_str_status(out);
}

/* Up to the "<" that ends these; `text` is changed. */
static tl_status take_numbers(tl_logs *l, char **text)
{
    for (char *line; *(line = *text) != '\0';) {
        char *end = line + strcspn(line, "\n");
        *text = *end ? end + 1 : end;
        *end = '\0';
        if (*line == '<') return TL_OK;
        if (*line == '>') {
            tl_logs *inner;
            TL_TRY(tl_logs_sub(&inner, l, line + 1));
            TL_TRY(take_numbers(inner, text));
            continue;
        }
        char *name;
        const double value = strtod(line + 1, &name);
        TL_TRY(tl_logs_put(l, name + 1, value));
    }
    return TL_OK;
}

tl_status tli_peers_share_logs(tli_peers *p, tl_logs *logs)
{
    tl_str text = TL_STR_INIT;
    if (!p) return TL_OK;
    tl_status st = p->rank == 0 ? add_numbers(&text, logs) : TL_OK;
    if (st == TL_OK) st = tli_peers_share(p, &text);
    if (st == TL_OK && p->rank > 0) {
        char *copy = tl_strdup(tl_str_text(&text)), *at = copy;
        st = copy ? take_numbers(logs, &at) : TL_FAIL_NOMEM(text.length + 1);
        tl_free(copy);
    }
    tl_str_deinit(&text);
    return st;
}

/* --- to the chief ----------------------------------------------------------------------------- */

/* What stands before each entry; then its name, then its elements or its text. */
typedef struct entry_head {
    int64_t name_bytes, bytes, bins;
    int32_t kind, dtype; /* dtype -1: it has no tensor */
    double number;
    tl_shape shape;
} entry_head;

static tl_status pack_entry(const tl_logs_entry *e, void *payload)
{
    tl_str *out = payload;
    const tl_tensor *t = e->tensor;
    entry_head head = {.name_bytes = (int64_t)strlen(e->name),
                       .kind = (int32_t)e->kind,
                       .dtype = t ? (int32_t)t->dtype : -1,
                       .number = e->number,
                       .bins = e->bins};
    if (t) head.shape = t->shape;
    head.bytes = t ? (int64_t)tl_tensor_bytes(t) : e->text ? (int64_t)strlen(e->text) : 0;
    tl_str_addn(out, (const char *)&head, sizeof head);
    tl_str_add(out, e->name);
    if (!t) {
        if (e->text) tl_str_add(out, e->text);
        return tl_str_status(out);
    }
    const size_t at = out->length;
    tl_str_pad(out, '\0', head.bytes);
    TL_TRY(tl_str_status(out));
    return head.bytes ? tl_tensor_get(t, out->data + at, (size_t)head.bytes) : TL_OK;
}

tl_status tli_peers_pack_logs(tl_str *out, const tl_logs *logs)
{
    const size_t at = out->length;
    uint64_t bytes = 0;
    tl_str_addn(out, (const char *)&bytes, sizeof bytes);
    TL_TRY(tl_logs_walk(logs, pack_entry, out));
    TL_TRY(tl_str_status(out));
    bytes = out->length - at - sizeof bytes;
    memcpy(out->data + at, &bytes, sizeof bytes);
    return TL_OK;
}

static tl_status put_tensor(tl_logs *into, const entry_head *h, const char *name, const char *data,
                            tl_engine *engine)
{
    tl_tensor *t;
    TL_TRY(tl_tensor_new_at(&t, engine, TL_AT_HOST, (tl_dtype)h->dtype, h->shape));
    tl_status st = h->bytes ? tl_tensor_set(t, data, (size_t)h->bytes) : TL_OK;
    if (st == TL_OK && h->kind == TL_LOGS_IMAGE) st = tl_logs_put_image(into, name, t);
    else if (st == TL_OK && h->kind == TL_LOGS_HISTOGRAM)
        st = tl_logs_put_histogram(into, name, t, h->bins);
    else if (st == TL_OK) st = tl_logs_put_any(into, name, t);
    tl_tensor_free(&t);
    return st;
}

static tl_status unpack_entry(tl_logs *into, const char **at, tl_arena *arena, tl_engine *engine)
{
    entry_head h;
    memcpy(&h, *at, sizeof h);
    *at += sizeof h;
    const char *name = tl_arena_printf(arena, "%.*s", (int)h.name_bytes, *at);
    const char *data = *at + h.name_bytes;
    *at = data + h.bytes;
    if (!name) return TL_ENOMEM;
    if (h.dtype >= 0) return put_tensor(into, &h, name, data, engine);
    if (h.kind == TL_LOGS_NUMBER) return tl_logs_put(into, name, h.number);
    const char *text = tl_arena_printf(arena, "%.*s", (int)h.bytes, data);
    return text ? tl_logs_put_text(into, name, text) : TL_ENOMEM;
}

static tl_status unpack_logs(const char *at, const char *end, tl_engine *engine, tli_logs_fn *take,
                             void *self)
{
    tl_logs *logs;
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_logs_new(&logs);
    while (st == TL_OK && at < end) st = unpack_entry(logs, &at, arena, engine);
    if (st == TL_OK) st = take(self, logs);
    tl_logs_free(&logs);
    tl_arena_free(&arena);
    return st;
}

static tl_status take_packed(const char *at, size_t bytes, tl_engine *engine, tli_logs_fn *take,
                             void *self)
{
    for (const char *end = at + bytes; at < end;) {
        uint64_t length;
        memcpy(&length, at, sizeof length);
        at += sizeof length;
        TL_TRY(unpack_logs(at, at + length, engine, take, self));
        at += length;
    }
    return TL_OK;
}

/* Of all ranks, to all. */
static tl_status gather_sizes(const tli_peers *p, uint64_t *all, uint64_t own)
{
    tl_part *parts = tl_alloc((size_t)p->size * sizeof *parts);
    if (!parts) return TL_FAIL_NOMEM((size_t)p->size * sizeof *parts);
    for (int32_t r = 0; r < p->size; r++) parts[r] = (tl_part){&all[r], sizeof all[r]};
    tl_status st = tl_comm_all_gather(p->all, &(tl_part){&own, sizeof own}, parts);
    tl_free(parts);
    return st;
}

static tl_status take_from(tli_peers *p, int32_t rank, uint64_t bytes, tl_engine *engine,
                           tli_logs_fn *take, void *self)
{
    char *room = tl_alloc(bytes);
    if (!room) return TL_FAIL_NOMEM(bytes);
    tl_status st = tl_comm_recv(p->all, room, bytes, rank);
    if (st == TL_OK) st = take_packed(room, bytes, engine, take, self);
    tl_free(room);
    return st;
}

tl_status tli_peers_bring_logs(tli_peers *p, tl_str *packed, tl_engine *engine, tli_logs_fn *take,
                               void *self)
{
    uint64_t *sizes = tl_alloc((size_t)p->size * sizeof *sizes);
    if (!sizes) return TL_FAIL_NOMEM((size_t)p->size * sizeof *sizes);
    tl_status st = gather_sizes(p, sizes, packed->length);
    if (st == TL_OK && p->rank > 0 && packed->length)
        st = tl_comm_send(p->all, packed->data, packed->length, 0);
    for (int32_t r = 1; st == TL_OK && p->rank == 0 && r < p->size; r++)
        if (sizes[r]) st = take_from(p, r, sizes[r], engine, take, self);
    tl_str_cut(packed, 0);
    tl_free(sizes);
    return st;
}
