#include <tilth/io/tensorflow/tensorbundle.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "io/checkpoint/list.h"
#include "io/tensorflow/protobuf.h"
#include "io/inner/tensorbundle.h"

char *tli_tb_shard_path(tl_arena *arena, const char *prefix, int64_t shard, int64_t count)
{
    return tl_arena_printf(arena, "%s.data-%05" PRId64 "-of-%05" PRId64, prefix, shard, count);
}

/* --- the index -------------------------------------------------------------------------------- */

/* Versions as TensorFlow writes them: who wrote, and who may read. */
static tl_status check_version(const tl_tensorbundle *b, tli_pb_field message)
{
    tli_pb in = {message.data, message.data + message.size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f))
        if (f.number == 2 && f.wire == TLI_PB_VARINT && f.bits > TLI_TB_VERSION)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "'%s' needs a reader of version %" PRIu64
                           " of the format; this one is %d",
                           b->index_path, f.bits, TLI_TB_VERSION);
    if (in.damaged)
        return TL_FAIL(TL_EINVAL, "'%s': the version in its header is damaged", b->index_path);
    return TL_OK;
}

static tl_status read_header(tl_tensorbundle *b, tli_bytes value)
{
    tli_pb in = {value.data, value.data + value.size, false};
    tli_pb_field f;
    uint64_t shards = 0;
    while (tli_pb_next(&in, &f)) {
        if (f.number == 1 && f.wire == TLI_PB_VARINT) shards = f.bits;
        if (f.number == 2 && f.wire == TLI_PB_VARINT && f.bits)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "'%s' was written by a big-endian machine, which cannot be read here",
                           b->index_path);
        if (f.number == 3 && f.wire == TLI_PB_BYTES) TL_TRY(check_version(b, f));
    }
    if (in.damaged)
        return TL_FAIL(TL_EINVAL, "'%s': its header is no protocol buffer", b->index_path);
    if (shards < 1 || shards > INT32_MAX)
        return TL_FAIL(TL_EINVAL, "'%s': its header names %" PRIu64 " data files, not 1 or more",
                       b->index_path, shards);
    b->shard_count = (int64_t)shards;
    b->has_header = true;
    return TL_OK;
}

static tl_status read_part(tl_tensorbundle *b, tli_bytes key, tli_bytes value)
{
    // The name of the whole stands behind the first byte, for messages.
    int length = (int)strnlen(key.data + 1, key.size - 1);
    tli_tb_entry e = {.key = {tl_arena_copy(b->arena, key.data, key.size), key.size}};
    e.shown.name = tl_arena_printf(b->arena, "%.*s (a piece)", length, key.data + 1);
    if (!e.key.data || !e.shown.name) return TL_ENOMEM;
    TL_TRY(tli_tb_parse_entry(b, &e, value));
    return TL_VEC_PUSH(&b->parts, e) ? TL_OK : TL_ENOMEM;
}

static tl_status read_entry(tli_bytes key, tli_bytes value, void *payload)
{
    tl_tensorbundle *b = payload;
    if (key.size == 0) return read_header(b, value);
    if (!b->has_header)
        return TL_FAIL(TL_EINVAL, "'%s' is no index of a TensorBundle: it has no header",
                       b->index_path);
    if (key.data[0] == '\0') return read_part(b, key, value);
    if (memchr(key.data, '\0', key.size))
        return TL_FAIL(TL_EINVAL, "'%s': the name of an entry has a zero byte in it ('%.*s...')",
                       b->index_path, (int)strnlen(key.data, key.size), key.data);
    tli_tb_entry e = {.shown = {.name = tl_arena_strndup(b->arena, key.data, key.size)}};
    if (!e.shown.name) return TL_ENOMEM;
    TL_TRY(tli_tb_parse_entry(b, &e, value));
    return TL_VEC_PUSH(&b->entries, e) ? TL_OK : TL_ENOMEM;
}

static tl_status parse_index(tl_tensorbundle *b)
{
    TL_TRY(tli_table_read(b->index_path, b->index, b->index_size, read_entry, b));
    if (!b->has_header)
        return TL_FAIL(TL_EINVAL, "'%s' is no index of a TensorBundle: it has no header",
                       b->index_path);
    for (int64_t i = 0; i < b->entries.count; i++) {
        tli_tb_entry *e = &b->entries.items[i];
        if (e->shown.pieces) TL_TRY(tli_tb_find_pieces(b, e));
        TL_TRY(tl_map_set(&b->by_name, e->shown.name, e));
    }
    return TL_OK;
}

/* --- data files ------------------------------------------------------------------------------- */

/* Only files that are there take room, whatever number an index gives them. */
static tl_status need_shard(const tl_file_mapping **out, tl_tensorbundle *b, int64_t number)
{
    tli_tb_shard shard = {number, TL_FILE_MAPPING_INIT};
    for (int64_t i = b->shards.count - 1; i >= 0; i--) {
        *out = &b->shards.items[i].file;
        if (b->shards.items[i].number == number) return TL_OK;
    }
    const char *path = tli_tb_shard_path(b->arena, b->prefix, number, b->shard_count);
    if (!path) return TL_ENOMEM;
    TL_TRY(tl_file_map(&shard.file, path));
    if (!TL_VEC_PUSH(&b->shards, shard)) {
        tl_file_unmap(&shard.file);
        return TL_ENOMEM;
    }
    *out = &b->shards.items[b->shards.count - 1].file;
    return TL_OK;
}

static tl_status find_data(tl_tensorbundle *b, tli_tb_entry *e)
{
    const tl_file_mapping *m = NULL;
    TL_TRY_NOTE(need_shard(&m, b, e->shard), "'%s': entry '%s'", b->index_path, e->shown.name);
    if (e->offset > m->size || e->shown.bytes > m->size - e->offset) {
        const char *path = tli_tb_shard_path(b->arena, b->prefix, e->shard, b->shard_count);
        if (!path) return TL_ENOMEM;
        return TL_FAIL(TL_EINVAL,
                       "'%s' is cut short, or belongs to another index: entry '%s' should have "
                       "%zu bytes at byte %" PRIu64 ", and the file has %zu",
                       path, e->shown.name, e->shown.bytes, e->offset, m->size);
    }
    e->data = m->data + e->offset;
    return TL_OK;
}

static tl_status find_all_data(tl_tensorbundle *b)
{
    for (int64_t i = 0; i < b->entries.count; i++)
        if (!b->entries.items[i].shown.pieces) TL_TRY(find_data(b, &b->entries.items[i]));
    for (int64_t i = 0; i < b->parts.count; i++) TL_TRY(find_data(b, &b->parts.items[i]));
    return TL_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static tl_status make(tl_tensorbundle **out, const char *prefix)
{
    tl_tensorbundle *b = *out = tl_alloc_zero(sizeof *b);
    if (!b) return TL_FAIL_NOMEM(sizeof *b);
    if (!(b->prefix = tl_strdup(prefix))) return TL_FAIL_NOMEM(strlen(prefix) + 1);
    TL_TRY(tl_arena_new(&b->arena));
    b->index_path = tl_arena_printf(b->arena, "%s%s", prefix, TL_TENSORBUNDLE_SUFFIX);
    return b->index_path ? TL_OK : TL_ENOMEM;
}

tl_status tl_tensorbundle_open(tl_tensorbundle **out, const char *prefix)
{
    enum { LONGEST = 1 << 30 };
    tl_tensorbundle *b;
    tl_status st = make(&b, prefix);
    if (st == TL_OK) st = tl_file_read(&b->index, &b->index_size, b->index_path, LONGEST);
    if (st == TL_OK) st = parse_index(b);
    if (st == TL_OK) st = find_all_data(b);
    if (st != TL_OK) tl_tensorbundle_free(&b);
    *out = b;
    return st;
}

tl_status tli_tensorbundle_list(tl_tensorbundle **out, const char *prefix, char *index, size_t size)
{
    tl_tensorbundle *b;
    tl_status st = make(&b, prefix);
    if (!b) {
        tl_free(index);
        *out = NULL;
        return st;
    }
    b->index = index;
    b->index_size = size;
    if (st == TL_OK) st = parse_index(b);
    if (st != TL_OK) tl_tensorbundle_free(&b);
    *out = b;
    return st;
}

void tl_tensorbundle_free(tl_tensorbundle **bundle)
{
    tl_tensorbundle *b = *bundle;
    if (!b) return;
    for (int64_t i = 0; i < b->shards.count; i++) tl_file_unmap(&b->shards.items[i].file);
    tl_free(b->index);
    TL_VEC_FREE(&b->shards);
    TL_VEC_FREE(&b->entries);
    TL_VEC_FREE(&b->parts);
    tl_map_deinit(&b->by_name);
    tl_arena_free(&b->arena);
    tl_free(b->prefix);
    tl_free(b);
    *bundle = NULL;
}

/* --- looking ---------------------------------------------------------------------------------- */

const char *tl_tensorbundle_prefix(const tl_tensorbundle *b)
{
    return b->prefix;
}

int64_t tl_tensorbundle_shards(const tl_tensorbundle *b)
{
    return b->shard_count;
}

int64_t tl_tensorbundle_count(const tl_tensorbundle *b)
{
    return b->entries.count;
}

const tl_tensorbundle_entry *tl_tensorbundle_at(const tl_tensorbundle *b, int64_t index)
{
    TL_ASSERT(index >= 0 && index < b->entries.count);
    return &b->entries.items[index].shown;
}

const tl_tensorbundle_entry *tl_tensorbundle_find(const tl_tensorbundle *b, const char *name)
{
    const tli_tb_entry *e = tl_map_get(&b->by_name, name);
    return e ? &e->shown : NULL;
}

void tl_tensorbundle_spec(tl_str *out, const tl_tensorbundle_entry *e)
{
    tl_str_addf(out, "%s[", e->type);
    for (int i = 0; i < e->rank; i++) tl_str_addf(out, "%s%" PRId64, i ? ", " : "", e->dims[i]);
    tl_str_addc(out, ']');
}

/* --- finding ---------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

size_t tli_tb_stem(const char *path)
{
    static const char digits[] = "0123456789";
    if (ends_with(path, TL_TENSORBUNDLE_SUFFIX))
        return strlen(path) - strlen(TL_TENSORBUNDLE_SUFFIX);
    const char *name = tl_path_basename(path), *data = NULL;
    for (const char *p = name; (p = strstr(p, ".data-")); p++) data = p;
    if (!data || data == name) return 0;
    const char *p = data + strlen(".data-");
    p += strspn(p, digits);
    if (strncmp(p, "-of-", 4) != 0) return 0;
    p += 4 + strspn(p + 4, digits);
    return *p ? 0 : (size_t)(data - path);
}

static tl_status has_index(bool *out, tl_arena *arena, const char *prefix)
{
    tl_file_info info;
    const char *path = tl_arena_printf(arena, "%s%s", prefix, TL_TENSORBUNDLE_SUFFIX);
    if (!path) return TL_ENOMEM;
    TL_TRY(tl_file_stat(&info, path));
    *out = info.exists && !info.is_dir;
    return TL_OK;
}

static tl_status latest_of(const char **prefix, tl_arena *arena, const char *directory)
{
    tli_checkpoint_list list;
    bool there = false, elsewhere;
    const char *path = NULL;
    TL_TRY(tli_checkpoint_list_read(&list, directory, 0));
    tl_status st =
        list.latest ? tli_checkpoint_list_prefix(&path, &elsewhere, arena, directory, list.latest)
                    : TL_OK;
    if (st == TL_OK && path) st = has_index(&there, arena, path);
    if (st == TL_OK && !there)
        st =
            TL_FAIL(TL_ENOTFOUND, "the state file in '%s' names no TensorBundle that is there (%s)",
                    directory, list.latest ? list.latest : "none at all");
    if (st == TL_OK) *prefix = path;
    tli_checkpoint_list_deinit(&list);
    return st;
}

tl_status tl_tensorbundle_resolve(const char **prefix, tl_arena *arena, const char *path)
{
    bool there;
    size_t stem = tli_tb_stem(path);
    *prefix = NULL;
    if (tl_dir_exists(path)) return latest_of(prefix, arena, path);
    const char *found = stem ? tl_arena_strndup(arena, path, stem) : tl_arena_strdup(arena, path);
    if (!found) return TL_ENOMEM;
    TL_TRY(has_index(&there, arena, found));
    if (!there)
        return TL_FAIL(TL_ENOTFOUND, "there is no TensorBundle '%s': '%s%s' does not exist", path,
                       found, TL_TENSORBUNDLE_SUFFIX);
    *prefix = found;
    return TL_OK;
}
