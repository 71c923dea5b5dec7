/* Checkpoints in several files: which entry goes where, the files, and the index that makes a
 * checkpoint of them. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/vec.h>

#include "io/inner/checkpoint.h"
#include "io/inner/json_text.h"

enum { PIECE_TAIL = sizeof ".00001-of-00002" TL_CHECKPOINT_SUFFIX - 1 };

tl_status tli_checkpoint_divide(tli_checkpoint_division *out, tl_arena *arena,
                                const tli_st_draft *d, int64_t files)
{
    *out = (tli_checkpoint_division){files, NULL, d->items.count};
    out->items = tl_arena_array(arena, d->items.count + 1, sizeof *out->items);
    if (!out->items) return TL_ENOMEM;
    // an entry lies where its middle would, were the bytes cut into equal parts
    for (int64_t i = 0; i < d->items.count; i++) {
        const tli_st_item *item = &d->items.items[i];
        double middle = (double)item->begin + (double)item->bytes / 2;
        int64_t file = d->bytes ? (int64_t)(middle / (double)d->bytes * (double)files) : 0;
        out->items[i] = (tli_checkpoint_share){.item = i, .file = file < files ? file : files - 1};
    }
    return TL_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

static bool is_number(const char *text)
{
    for (int i = 0; i < 5; i++)
        if (!isdigit((unsigned char)text[i])) return false;
    return true;
}

bool tli_checkpoint_is_piece(const char *name, size_t *stem)
{
    const size_t length = strlen(name);
    if (length <= PIECE_TAIL) return false;
    const char *tail = name + length - PIECE_TAIL;
    *stem = length - PIECE_TAIL;
    return tail[0] == '.' && is_number(tail + 1) && memcmp(tail + 6, "-of-", 4) == 0
           && is_number(tail + 10) && strcmp(tail + 15, TL_CHECKPOINT_SUFFIX) == 0;
}

/* The name of a file of an index, or its path. */
static const char *file_name(tl_arena *arena, const char *index, int64_t file, int64_t files)
{
    const int stem = (int)(strlen(index) - strlen(TL_SAFETENSORS_INDEX));
    return tl_arena_printf(arena, "%.*s.%05" PRId64 "-of-%05" PRId64 TL_CHECKPOINT_SUFFIX, stem,
                           index, file + 1, files);
}

/* --- files ------------------------------------------------------------------------------------ */

static size_t element_size(const tli_st_item *item)
{
    return (size_t)tli_st_types[item->type].bits / 8;
}

/* What a share of an item is in its file. */
static tl_status add_share(tli_st_draft *to, const tli_st_item *item, const void *data,
                           const tli_checkpoint_share *share)
{
    tli_st_item part = *item;
    if (data) part.data = (const char *)data + item->begin, part.tensor = NULL;
    if (share->count) {
        const size_t size = element_size(item);
        part.name = tli_st_piece_name(to->arena, item->name, share->start, share->count);
        if (!part.name) return TL_ENOMEM;
        part.shape = tl_shape_of(1, &share->count);
        part.bytes = (size_t)share->count * size;
        part.skip = (size_t)share->start * size;
        if (!part.tensor) part.data = (const char *)part.data + part.skip;
    }
    if (share->data) part.data = share->data, part.tensor = NULL, part.skip = 0;
    return TL_VEC_PUSH(&to->items, part) ? TL_OK : TL_ENOMEM;
}

typedef struct writing {
    tl_file_writer *w;
    tli_checkpoint_written *so_far;
} writing;

static tl_status write_some(const void *data, size_t bytes, void *payload)
{
    writing *w = payload;
    w->so_far->crc = tl_crc32c(w->so_far->crc, data, bytes);
    w->so_far->bytes += (int64_t)bytes;
    return tl_file_writer_write(w->w, data, bytes);
}

tl_status tli_checkpoint_write_file(tli_checkpoint_written *out, const char *index,
                                    const tli_st_draft *d, const void *data,
                                    const tli_checkpoint_division *by, int64_t file)
{
    tli_st_draft part;
    writing w = {NULL, out};
    tl_status st;
    *out = (tli_checkpoint_written){0};
    TL_TRY_DONE(st, tli_st_draft_init(&part));
    for (int64_t i = 0; i < by->count; i++)
        if (by->items[i].file == file)
            TL_TRY_DONE(st,
                        add_share(&part, &d->items.items[by->items[i].item], data, &by->items[i]));
    TL_TRY_DONE(st, tli_st_draft_finish(&part, NULL, 0));
    const char *path = file_name(part.arena, index, file, by->files);
    TL_TRY_DONE(st, path ? tl_file_writer_begin(&w.w, path) : TL_ENOMEM);
    TL_TRY_DONE(st, write_some(part.header.data, part.header.length, &w));
    TL_TRY_DONE(st, tli_st_draft_data(&part, write_some, &w));
    st = tl_file_writer_commit(&w.w);
done:
    tl_file_writer_abort(&w.w);
    tli_st_draft_deinit(&part);
    return st;
}

/* --- the index -------------------------------------------------------------------------------- */

/* Of what is whole. */
static tl_status add_weight_map(tl_str *out, tl_arena *arena, const char *index,
                                const tli_st_draft *d, const tli_checkpoint_division *by)
{
    bool begun = false;
    tl_str_add(out, "\n\"weight_map\":{");
    for (int64_t i = 0; i < by->count; i++) {
        if (by->items[i].count) continue;
        tl_str_add(out, begun ? ",\n" : "\n");
        begun = true;
        TL_TRY(tli_json_add_string(out, d->items.items[by->items[i].item].name));
        tl_str_addc(out, ':');
        const char *name = file_name(arena, index, by->items[i].file, by->files);
        TL_TRY(name ? tli_json_add_string(out, name) : TL_ENOMEM);
    }
    tl_str_add(out, "},");
    return TL_OK;
}

static tl_status add_piece(tl_str *out, tl_arena *arena, const char *index, const tli_st_item *item,
                           const tli_checkpoint_share *share, int64_t files)
{
    const char *name = file_name(arena, index, share->file, files);
    tl_str_add(out, "{\"file\":");
    TL_TRY(name ? tli_json_add_string(out, name) : TL_ENOMEM);
    tl_str_addf(out, ",\"start\":%" PRId64 ",\"shape\":[%" PRId64 "],\"global_shape\":[",
                share->start, share->count);
    for (int i = 0; i < item->shape.rank; i++)
        tl_str_addf(out, "%s%" PRId64, i ? "," : "", item->shape.dims[i]);
    tl_str_add(out, "]}");
    return TL_OK;
}

/* Of what is divided, by item. */
static tl_status add_pieces(tl_str *out, tl_arena *arena, const char *index, const tli_st_draft *d,
                            const tli_checkpoint_division *by)
{
    bool begun = false;
    int64_t *next = tl_arena_array(arena, by->count + 1, sizeof *next); // of the same item, plus 1
    int64_t *first = tl_arena_array(arena, d->items.count + 1, sizeof *first);
    if (!next || !first) return TL_ENOMEM;
    for (int64_t i = by->count - 1; i >= 0; i--) {
        if (!by->items[i].count) continue;
        next[i] = first[by->items[i].item];
        first[by->items[i].item] = i + 1;
    }
    tl_str_add(out, "\n\"pieces\":{");
    for (int64_t k = 0; k < d->items.count; k++) {
        const tli_st_item *item = &d->items.items[k];
        if (!first[k]) continue;
        tl_str_add(out, begun ? ",\n" : "\n");
        begun = true;
        TL_TRY(tli_json_add_string(out, item->name));
        for (int64_t i = first[k]; i; i = next[i - 1]) {
            tl_str_add(out, i == first[k] ? ":[" : ",\n  ");
            TL_TRY(add_piece(out, arena, index, item, &by->items[i - 1], by->files));
        }
        tl_str_addc(out, ']');
    }
    tl_str_add(out, "}}\n");
    return TL_OK;
}

static tl_status add_files(tl_str *out, tl_arena *arena, const char *index, int64_t files,
                           const tli_checkpoint_written *written)
{
    tl_str_add(out, "\n\"files\":{");
    for (int64_t i = 0; i < files; i++) {
        const char *name = file_name(arena, index, i, files);
        tl_str_add(out, i ? ",\n" : "\n");
        TL_TRY(name ? tli_json_add_string(out, name) : TL_ENOMEM);
        tl_str_addf(out, ":{\"bytes\":%" PRId64 ",\"crc32c\":\"%08" PRIx32 "\"}", written[i].bytes,
                    written[i].crc);
    }
    tl_str_add(out, "},");
    return TL_OK;
}

tl_status tli_checkpoint_write_index(const char *index, const tli_st_draft *d,
                                     const tli_checkpoint_division *by,
                                     const tli_checkpoint_written *written)
{
    const char *name = tl_path_basename(index);
    tl_str text = TL_STR_INIT;
    tl_arena *arena = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    tli_checkpoint_index_begin(&text, d);
    TL_TRY_DONE(st, add_weight_map(&text, arena, name, d, by));
    TL_TRY_DONE(st, add_files(&text, arena, name, by->files, written));
    TL_TRY_DONE(st, add_pieces(&text, arena, name, d, by));
    TL_TRY_DONE(st, tl_str_status(&text));
    tli_checkpoint_index_end(&text);
    st = tl_file_write_atomic(index, text.data, text.length);
done:
    tl_arena_free(&arena);
    tl_str_deinit(&text);
    return st;
}

tl_status tli_checkpoint_write_divided(const char *index, const tli_st_draft *d, const void *data,
                                       const tli_checkpoint_division *by)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tli_checkpoint_written *written = tl_arena_array(arena, by->files, sizeof *written);
    tl_status st = written ? tl_file_remove(index) : TL_ENOMEM;
    if (st == TL_ENOTFOUND) tl_error_clear();
    if (st == TL_ENOTFOUND) st = TL_OK;
    for (int64_t i = 0; i < by->files && st == TL_OK; i++)
        st = tli_checkpoint_write_file(&written[i], index, d, data, by, i);
    if (st == TL_OK) st = tli_checkpoint_write_index(index, d, by, written);
    tl_arena_free(&arena);
    return st;
}
