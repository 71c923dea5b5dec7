#include "io/tensorflow/leveldb_table.h"

#include <string.h>

#include <tilth/base/crc32c.h>
#include <tilth/base/vec.h>

#include "io/tensorflow/protobuf.h"

/* --- blocks ----------------------------------------------------------------------------------- */

static void block_deinit(tli_table_block *b)
{
    tl_str_deinit(&b->bytes);
    tl_str_deinit(&b->last);
    TL_VEC_FREE(&b->restarts);
}

static size_t shared_bytes(const tl_str *last, tli_bytes key)
{
    size_t most = last->length < key.size ? last->length : key.size, n = 0;
    while (n < most && last->data[n] == key.data[n]) n++;
    return n;
}

static tl_status block_add(tli_table_block *b, tli_bytes key, tli_bytes value)
{
    size_t shared = 0;
    if (b->count == 0 || b->since == b->interval) {
        if (!TL_VEC_PUSH(&b->restarts, (uint32_t)b->bytes.length)) return TL_ENOMEM;
        b->since = 0;
    } else {
        shared = shared_bytes(&b->last, key);
    }
    tli_put_varint(&b->bytes, shared);
    tli_put_varint(&b->bytes, key.size - shared);
    tli_put_varint(&b->bytes, value.size);
    tl_str_addn(&b->bytes, key.data + shared, key.size - shared);
    tl_str_addn(&b->bytes, value.data, value.size);
    tl_str_cut(&b->last, 0);
    tl_str_addn(&b->last, key.data, key.size);
    b->since++;
    b->count++;
    TL_TRY(tl_str_status(&b->last));
    return tl_str_status(&b->bytes);
}

static size_t block_size(const tli_table_block *b)
{
    return b->bytes.length + 4 * (size_t)b->restarts.count + 4;
}

// Writes the block and empties it. An empty one has a restart all the same.
static tl_status block_write(tl_str *out, tli_table_block *b, size_t *at, size_t *size)
{
    *at = out->length;
    tl_str_addn(out, b->bytes.data, b->bytes.length);
    for (int64_t i = 0; i < b->restarts.count; i++) tli_put_u32(out, b->restarts.items[i]);
    if (!b->restarts.count) tli_put_u32(out, 0);
    tli_put_u32(out, b->restarts.count ? (uint32_t)b->restarts.count : 1);
    *size = out->length - *at;
    tl_str_addc(out, TLI_TABLE_PLAIN);
    TL_TRY(tl_str_status(out));
    tli_put_u32(out, tl_crc32c_mask(tl_crc32c(0, out->data + *at, *size + 1)));
    tl_str_cut(&b->bytes, 0);
    tl_str_cut(&b->last, 0);
    b->restarts.count = 0;
    b->count = 0;
    b->since = 0;
    return tl_str_status(out);
}

/* --- tables ----------------------------------------------------------------------------------- */

// The shortest key from `last` on that is less than `key`, made of `last`.
static void cut_between(tl_str *last, tli_bytes key)
{
    size_t n = shared_bytes(last, key);
    if (n == last->length || n == key.size) return;
    uint8_t *byte = (uint8_t *)last->data + n;
    if (*byte == 0xff || *byte + 1 >= (uint8_t)key.data[n]) return;
    ++*byte;
    tl_str_cut(last, n + 1);
}

// The shortest key that is greater than `last`.
static void cut_behind(tl_str *last)
{
    for (size_t i = 0; i < last->length; i++) {
        uint8_t *byte = (uint8_t *)last->data + i;
        if (*byte == 0xff) continue;
        ++*byte;
        tl_str_cut(last, i + 1);
        return;
    }
}

static tl_status name_block(tli_table_writer *w, const tl_str *key)
{
    tl_str place = TL_STR_INIT;
    tli_put_varint(&place, w->block_at);
    tli_put_varint(&place, w->block_size);
    tl_status st = tl_str_status(&place);
    if (st == TL_OK) {
        w->index.interval = 1;
        st = block_add(&w->index, (tli_bytes){key->data, key->length},
                       (tli_bytes){place.data, place.length});
    }
    w->pending = false;
    tl_str_deinit(&place);
    return st;
}

tl_status tli_table_add(tli_table_writer *w, tli_bytes key, tli_bytes value)
{
    tl_str *last = &w->last;
    TL_ASSERT(!w->any || tli_bytes_compare((tli_bytes){last->data, last->length}, key) < 0);
    if (w->pending) {
        cut_between(last, key);
        TL_TRY(name_block(w, last));
    }
    w->data.interval = TLI_TABLE_RESTART;
    TL_TRY(block_add(&w->data, key, value));
    tl_str_cut(last, 0);
    tl_str_addn(last, key.data, key.size);
    TL_TRY(tl_str_status(last));
    w->any = true;
    if (block_size(&w->data) < TLI_TABLE_BLOCK) return TL_OK;
    w->pending = true;
    return block_write(w->out, &w->data, &w->block_at, &w->block_size);
}

tl_status tli_table_finish(tli_table_writer *w)
{
    tli_table_block none = {0};
    size_t meta_at, meta_size, at, size;
    if (w->data.count) {
        TL_TRY(block_write(w->out, &w->data, &w->block_at, &w->block_size));
        w->pending = true;
    }
    TL_TRY(block_write(w->out, &none, &meta_at, &meta_size));
    if (w->pending) {
        cut_behind(&w->last);
        TL_TRY(name_block(w, &w->last));
    }
    TL_TRY(block_write(w->out, &w->index, &at, &size));
    size_t footer = w->out->length;
    tli_put_varint(w->out, meta_at);
    tli_put_varint(w->out, meta_size);
    tli_put_varint(w->out, at);
    tli_put_varint(w->out, size);
    TL_TRY(tl_str_status(w->out));
    tl_str_pad(w->out, 0, (int64_t)(TLI_TABLE_FOOTER - 8 - (w->out->length - footer)));
    tli_put_u64(w->out, TLI_TABLE_MAGIC);
    return tl_str_status(w->out);
}

void tli_table_writer_deinit(tli_table_writer *w)
{
    block_deinit(&w->data);
    block_deinit(&w->index);
    tl_str_deinit(&w->last);
}
