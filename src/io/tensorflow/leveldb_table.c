#include "io/tensorflow/leveldb_table.h"

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>

#include "io/tensorflow/protobuf.h"
#include "io/tensorflow/snappy.h"

typedef struct handle {
    size_t at, size; /* of a block, without what stands behind it */
} handle;

typedef struct table {
    const char *name, *data;
    size_t size;
    tli_table_fn *fn;
    void *payload;
    tl_str key;     /* of the entry before, in all of the table */
    bool any;       /* there was one */
    size_t expects; /* where the next block begins */
    size_t room;    /* bytes of keys that may still come */
} table;

int tli_bytes_compare(tli_bytes a, tli_bytes b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    if (order) return order;
    return a.size < b.size ? -1 : a.size > b.size;
}

/* Numbers could be written longer than they need be, which nobody does: a byte is wrong then. */
static bool read_shortest(const char **at, const char *end, size_t *out)
{
    const char *begin = *at;
    uint64_t value;
    if (!tli_get_varint(at, end, &value) || value > SIZE_MAX / 4) return false;
    *out = (size_t)value;
    return *at == begin + 1 || (*at)[-1] != 0;
}

static bool read_handle(const char **at, const char *end, handle *out)
{
    return read_shortest(at, end, &out->at) && read_shortest(at, end, &out->size);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* The bytes of a block, and who frees them when they were compressed. */
typedef struct block {
    const char *data, *end; /* of the entries */
    const char *restarts;
    uint32_t restart_count;
    size_t at; /* in the file */
    char *owned;
} block;

static tl_status fail_block(const table *t, const block *b, const char *what)
{
    return TL_FAIL(TL_EINVAL, "'%s' is damaged: the block at byte %zu %s", t->name, b->at, what);
}

// Without compression that is the place in the file.
static tl_status fail_entry(const table *t, const block *b, const char *at, const char *what)
{
    return TL_FAIL(TL_EINVAL, "'%s' is damaged: byte %zu of the block at byte %zu: %s", t->name,
                   (size_t)(at - b->data), b->at, what);
}

static tl_status check_trailer(const table *t, const block *b, size_t size)
{
    const char *data = t->data + b->at;
    uint32_t stored = tli_get_u32(data + size + 1),
             found = tl_crc32c_mask(tl_crc32c(0, data, size + 1));
    if (stored == found) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' is damaged: the checksum of the %zu bytes of the block at byte %zu is "
                   "%08x and should be %08x",
                   t->name, size, b->at, (unsigned)found, (unsigned)stored);
}

static tl_status find_restarts(const table *t, block *b, size_t size)
{
    if (size < 8) return fail_block(t, b, "is too short for a block, which has 8 bytes at least");
    b->restart_count = tli_get_u32(b->data + size - 4);
    if (b->restart_count == 0 || b->restart_count > (size - 4) / 4)
        return fail_block(t, b, "has more restarts than there is room for, or none");
    b->restarts = b->data + size - 4 - 4 * (size_t)b->restart_count;
    b->end = b->restarts;
    return TL_OK;
}

/* Opens the block where the last one ended. `owned` is the caller's, also after a failure. */
static tl_status open_block(table *t, handle h, block *out)
{
    *out = (block){.at = h.at};
    size_t room = t->size - TLI_TABLE_FOOTER;
    if (h.at > room || h.size > room - h.at || room - h.at - h.size < TLI_TABLE_TRAILER)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is damaged or cut short: a block of %zu bytes at byte %zu does not "
                       "fit into its %zu bytes",
                       t->name, h.size, h.at, t->size);
    if (h.at != t->expects)
        return TL_FAIL(TL_EINVAL, "'%s' is damaged: a block begins at byte %zu and should at %zu",
                       t->name, h.at, t->expects);
    t->expects = h.at + h.size + TLI_TABLE_TRAILER;
    TL_TRY(check_trailer(t, out, h.size));
    size_t size = h.size;
    int packing = (uint8_t)t->data[h.at + h.size];
    out->data = t->data + h.at;
    if (packing == TLI_TABLE_SNAPPY) {
        TL_TRY_NOTE(tli_snappy_unpack(&out->owned, &size, out->data, size),
                    "'%s': the block at byte %zu", t->name, h.at);
        out->data = out->owned;
    } else if (packing != TLI_TABLE_PLAIN) {
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s': the block at byte %zu is compressed in way %d; 0 (not at all) and 1 "
                       "(Snappy) are known",
                       t->name, h.at, packing);
    }
    return find_restarts(t, out, size);
}

/* --- entries ---------------------------------------------------------------------------------- */

/* Entries one after the other. */
typedef struct cursor {
    const block *b;
    const char *at;
    uint32_t restart; /* the next */
    tl_str *key;
    tli_bytes value;
} cursor;

static tl_status begin_restart(const table *t, cursor *c, const char *entry, uint64_t shared)
{
    const block *b = c->b;
    size_t place = (size_t)(entry - b->data);
    if (c->restart == b->restart_count || tli_get_u32(b->restarts + 4 * c->restart) != place)
        return TL_OK;
    if (shared)
        return fail_entry(t, b, entry, "a key at a restart shares bytes with the one before");
    c->restart++;
    return TL_OK;
}

/* A key can be as long as all bytes before it with one byte of its own. */
static tl_status check_key(table *t, const block *b, size_t size)
{
    if (size > TLI_TABLE_KEY)
        return TL_FAIL(TL_ELIMIT,
                       "'%s': a key in the block at byte %zu has %zu bytes; %d are accepted",
                       t->name, b->at, size, TLI_TABLE_KEY);
    if (size > t->room)
        return TL_FAIL(TL_ELIMIT,
                       "'%s': its keys have more bytes together than are accepted in a table of "
                       "%zu bytes",
                       t->name, t->size);
    t->room -= size;
    return TL_OK;
}

static tl_status next_entry(table *t, cursor *c)
{
    const block *b = c->b;
    const char *entry = c->at;
    uint64_t shared, unshared, size;
    if (!tli_get_varint(&c->at, b->end, &shared) || !tli_get_varint(&c->at, b->end, &unshared)
        || !tli_get_varint(&c->at, b->end, &size) || unshared > (uint64_t)(b->end - c->at)
        || size > (uint64_t)(b->end - c->at) - unshared)
        return fail_entry(t, b, entry, "an entry does not fit into the block");
    if (shared > c->key->length)
        return fail_entry(t, b, entry, "a key shares more bytes than the one before has");
    TL_TRY(begin_restart(t, c, entry, shared));
    TL_TRY(check_key(t, b, (size_t)(shared + unshared)));
    tl_str_cut(c->key, (size_t)shared);
    tl_str_addn(c->key, c->at, (size_t)unshared);
    TL_TRY(tl_str_status(c->key));
    c->value = (tli_bytes){c->at + unshared, (size_t)size};
    c->at += unshared + size;
    return TL_OK;
}

// An empty block has one restart, which is no entry's.
static tl_status check_restarts(const table *t, const cursor *c)
{
    const block *b = c->b;
    bool empty = b->end == b->data && b->restart_count == 1 && tli_get_u32(b->restarts) == 0;
    if (empty || c->restart == b->restart_count) return TL_OK;
    return fail_block(t, b, "has a restart where no entry begins");
}

static tli_bytes bytes_of(const tl_str *s)
{
    return (tli_bytes){s->data, s->length};
}

static tl_status read_entries(table *t, const block *b)
{
    tl_str key = TL_STR_INIT;
    cursor c = {.b = b, .at = b->data, .key = &key};
    tl_status st = TL_OK;
    while (c.at < b->end) {
        const char *entry = c.at;
        TL_TRY_DONE(st, next_entry(t, &c));
        if (t->any && tli_bytes_compare(bytes_of(&t->key), bytes_of(&key)) >= 0) {
            st = fail_entry(t, b, entry, "a key is not greater than the one before");
            goto done;
        }
        tl_str_cut(&t->key, 0);
        tl_str_addn(&t->key, key.data, key.length);
        TL_TRY_DONE(st, tl_str_status(&t->key));
        t->any = true;
        TL_TRY_DONE(st, t->fn(bytes_of(&key), c.value, t->payload));
    }
    st = check_restarts(t, &c);
done:
    tl_str_deinit(&key);
    return st;
}

static tl_status read_data_block(table *t, handle h)
{
    block b;
    tl_status st = open_block(t, h, &b);
    if (st == TL_OK) st = read_entries(t, &b);
    tl_free(b.owned);
    return st;
}

// Kept for filters, which TensorFlow does not write and nobody needs to read.
static tl_status skip_meta_block(table *t, handle h)
{
    block b;
    tl_status st = open_block(t, h, &b);
    tl_free(b.owned);
    return st;
}

/* --- the whole -------------------------------------------------------------------------------- */

// The keys of the index lie between the blocks.
static tl_status read_index(table *t, const block *b)
{
    tl_str key = TL_STR_INIT;
    cursor c = {.b = b, .at = b->data, .key = &key};
    tl_status st = TL_OK;
    while (c.at < b->end) {
        const char *entry = c.at;
        handle h;
        TL_TRY_DONE(st, next_entry(t, &c));
        const char *at = c.value.data, *end = at + c.value.size;
        if (!read_handle(&at, end, &h) || at != end) {
            st = fail_entry(t, b, entry, "it does not say where a block lies");
            goto done;
        }
        TL_TRY_DONE(st, read_data_block(t, h));
        if (tli_bytes_compare(bytes_of(&t->key), bytes_of(&key)) > 0) {
            st = fail_entry(t, b, entry, "a key of the index is less than those of its block");
            goto done;
        }
        // What comes next is greater than the index says, too.
        tl_str_cut(&t->key, 0);
        tl_str_addn(&t->key, key.data, key.length);
        TL_TRY_DONE(st, tl_str_status(&t->key));
    }
    st = check_restarts(t, &c);
done:
    tl_str_deinit(&key);
    return st;
}

static tl_status read_footer(const table *t, handle *meta, handle *index)
{
    const char *footer = t->data + t->size - TLI_TABLE_FOOTER, *at = footer,
               *end = footer + TLI_TABLE_FOOTER - 8;
    if (tli_get_u64(end) != TLI_TABLE_MAGIC)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is no table, or cut short: its last 8 bytes are %016llx and should be "
                       "%016llx",
                       t->name, (unsigned long long)tli_get_u64(end),
                       (unsigned long long)TLI_TABLE_MAGIC);
    bool good = read_handle(&at, end, meta) && read_handle(&at, end, index);
    while (good && at < end) good = *at++ == 0;
    if (good) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s' is damaged: the %d bytes at its end do not name two blocks",
                   t->name, TLI_TABLE_FOOTER);
}

static tl_status read_table(table *t)
{
    handle meta, index;
    block b = {0};
    tl_status st;
    TL_TRY(read_footer(t, &meta, &index));
    t->expects = index.at;
    TL_TRY_DONE(st, open_block(t, index, &b));
    if (t->expects != t->size - TLI_TABLE_FOOTER) {
        st = fail_block(t, &b, "should be the last, and more bytes follow it");
        goto done;
    }
    t->expects = 0;
    TL_TRY_DONE(st, read_index(t, &b));
    TL_TRY_DONE(st, skip_meta_block(t, meta));
    if (t->expects != index.at) st = fail_block(t, &b, "does not follow the one before it");
done:
    tl_free(b.owned);
    return st;
}

tl_status tli_table_read(const char *name, const char *data, size_t size, tli_table_fn *fn,
                         void *payload)
{
    // Writers let keys begin anew every 16 entries or so, which bounds what they share; Snappy adds
    // to it.
    enum { SHARING = 64, SMALL = 1 << 20 };
    table t = {name, data, size, fn, payload, TL_STR_INIT, false, 0, SMALL + SHARING * size};
    if (size < TLI_TABLE_FOOTER)
        return TL_FAIL(TL_EINVAL,
                       "'%s' is no table, or cut short: it has %zu bytes, and its end "
                       "alone has %d",
                       name, size, TLI_TABLE_FOOTER);
    tl_status st = read_table(&t);
    tl_str_deinit(&t.key);
    return st;
}
