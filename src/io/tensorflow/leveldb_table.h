/* Tables of LevelDB's form: sorted keys and values in blocks with checksums, as the index of a
 * TensorBundle is one.
 *
 *     TL_TRY(tli_table_read(path, data, size, see_entry, payload));      // calls it for each entry
 *
 *     tli_table_writer w = {.out = &bytes};
 *     TL_TRY_DONE(st, tli_table_add(&w, key, value));    // tli_bytes, in the order of keys
 *     st = tli_table_finish(&w);
 * done:
 *     tli_table_writer_deinit(&w);
 *
 * A block is a row of entries {shared, unshared, value size: varints; the rest of the key; the
 * value}, where a key begins with the first `shared` bytes of the one before it; then the places of
 * the entries that share nothing (restarts: fixed32 each) and their number. Behind each block stand
 * a byte that says how it is compressed and a masked CRC-32C of both. The last block but one is
 * empty (it is kept for filters), the last says where the others lie, and 48 bytes at the end where
 * those two do.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_IO_LEVELDB_TABLE_H
#define TLI_IO_LEVELDB_TABLE_H

#include <tilth/base/str.h>

enum {
    TLI_TABLE_TRAILER = 5, /* behind a block */
    TLI_TABLE_FOOTER = 48,
    TLI_TABLE_RESTART = 16,      /* entries from one restart to the next */
    TLI_TABLE_BLOCK = 256 << 10, /* bytes from which on a block is full, as TensorFlow has it */
    TLI_TABLE_KEY = 4 << 10,     /* bytes of the longest key that is read */
    TLI_TABLE_PLAIN = 0,         /* how a block is compressed */
    TLI_TABLE_SNAPPY = 1,
};
#define TLI_TABLE_MAGIC UINT64_C(0xdb4775248b80fb57)

typedef struct tli_bytes {
    const char *data;
    size_t size;
} tli_bytes;
/* As memcmp, then the shorter first. */
int tli_bytes_compare(tli_bytes a, tli_bytes b);

/* Key and value live until the function returns. A failure ends the reading and is handed on. */
typedef tl_status tli_table_fn(tli_bytes key, tli_bytes value, void *payload);
/* Every byte of the table is checked; failures name `name` and the place. Long keys, and more bytes
 * of keys than a table of that size has reason for, are TL_ELIMIT: keys that share most of their
 * bytes could need far more memory than the table has bytes. */
TL_NODISCARD tl_status tli_table_read(const char *name, const char *data, size_t size,
                                      tli_table_fn *fn, void *payload);

/* A block that is being written. */
typedef struct tli_table_block {
    tl_str bytes, last; /* last: the key before, in this block */
    struct {
        uint32_t *items;
        int64_t count, capacity;
    } restarts;
    int since, interval; /* entries since the last restart, and how many there may be */
    int64_t count;
} tli_table_block;
typedef struct tli_table_writer {
    tl_str *out; /* the table, once it is finished */
    tli_table_block data, index;
    tl_str last;  /* the key before */
    bool any;     /* there was one */
    bool pending; /* a block was written; the index names it when the key behind it is known */
    size_t block_at, block_size;
} tli_table_writer;

/* Keys must ascend. */
TL_NODISCARD tl_status tli_table_add(tli_table_writer *w, tli_bytes key, tli_bytes value);
TL_NODISCARD tl_status tli_table_finish(tli_table_writer *w);
void tli_table_writer_deinit(tli_table_writer *w);

#endif
