#include "text/trie.h"

#include <string.h>

#include <tilth/base/vec.h>

enum {
    BLOCK = 256,
    FREE = 256,
    MOST_BLOCKS = 1 << 15, /* a base has 23 bits */
    /* Blocks in which a place is looked for, and how often one may disappoint: what they leave free
     * is a few percent, and nobody can make building slow. */
    OPEN_BLOCKS = 8,
    PATIENCE = 32,
};

/* What only building needs. */
typedef struct tli_trie_block {
    uint64_t taken[BLOCK / 64], based[BLOCK / 64]; /* units, and bases that nodes have */
    int disappointed;
} tli_trie_block;

static bool get(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << i % 64;
}

static tl_status add_block(tli_trie *t)
{
    if (t->block_count == MOST_BLOCKS)
        return TL_FAIL(TL_ELIMIT, "the pieces have more than %d different beginnings",
                       MOST_BLOCKS * BLOCK);
    int64_t count = t->block_count, wanted = count ? count * 2 : 4;
    if (count == t->block_capacity) {
        size_t bytes = (size_t)wanted * BLOCK * sizeof *t->units;
        tli_trie_unit *units = tl_realloc(t->units, bytes);
        if (!units) return TL_FAIL_NOMEM(bytes);
        t->units = units;
        bytes = (size_t)wanted * sizeof *t->blocks;
        tli_trie_block *blocks = tl_realloc(t->blocks, bytes);
        if (!blocks) return TL_FAIL_NOMEM(bytes);
        t->blocks = blocks;
        t->block_capacity = wanted;
    }
    for (int64_t i = count * BLOCK; i < (count + 1) * BLOCK; i++)
        t->units[i] = (tli_trie_unit){FREE, -1};
    t->blocks[count] = (tli_trie_block){0};
    t->block_count++;
    return TL_OK;
}

/* Whether the block has a base under which all bytes are free. */
static bool fits(const tli_trie_block *b, uint32_t *base, const uint8_t *bytes, int count)
{
    for (int w = 0; w < BLOCK / 64; w++)
        for (uint64_t left = ~b->taken[w]; left; left &= left - 1) {
            uint32_t first = (uint32_t)(w * 64 + __builtin_ctzll(left)) ^ bytes[0];
            int i = get(b->based, first) ? 0 : 1;
            if (!i) continue;
            while (i < count && !get(b->taken, first ^ bytes[i])) i++;
            *base = first;
            if (i == count) return true;
        }
    return false;
}

/* Takes the units of a node's children. */
static tl_status place(tli_trie *t, uint32_t *base, const uint8_t *bytes, int count)
{
    if (!t->block_count) TL_TRY(add_block(t)); // 0, which stays empty
    if (t->first_open < 1) t->first_open = 1;
    int64_t at = t->first_open;
    for (; at < t->block_count; at++) {
        if (fits(&t->blocks[at], base, bytes, count)) break;
        t->blocks[at].disappointed++;
    }
    if (at == t->block_count) {
        TL_TRY(add_block(t));
        *base = bytes[0]; // the first child gets the first unit
    }
    tli_trie_block *b = &t->blocks[at];
    set(b->based, *base);
    for (int i = 0; i < count; i++) set(b->taken, *base ^ bytes[i]);
    *base += (uint32_t)at * BLOCK;
    while (t->first_open < t->block_count
           && (t->blocks[t->first_open].disappointed > PATIENCE
               || t->block_count - t->first_open > OPEN_BLOCKS))
        t->first_open++;
    return TL_OK;
}

/* Pieces that are alike up to `depth`, below the unit `node`; -1: below the root. */
typedef struct branch {
    int64_t node, from, to;
    size_t depth;
} branch;

typedef struct branches {
    branch *items;
    int64_t count, capacity;
} branches;

/* Lays out the children of one node, and notes them for later. */
static tl_status grow(tli_trie *t, uint32_t *root, branches *todo, const tli_piece *pieces,
                      branch b)
{
    uint8_t bytes[BLOCK];
    int64_t from[BLOCK + 1];
    int count = 0;
    uint32_t base = 0;
    for (int64_t i = b.from; i < b.to; i++) {
        uint8_t c = (uint8_t)pieces[i].text[b.depth];
        if (count && bytes[count - 1] == c) continue;
        bytes[count] = c;
        from[count++] = i;
    }
    from[count] = b.to;
    TL_TRY(place(t, &base, bytes, count));
    if (b.node < 0) *root = base;
    else t->units[b.node].link = base << 9 | tli_trie_byte(t->units[b.node]);
    for (int i = 0; i < count; i++) {
        tli_trie_unit *u = &t->units[base ^ bytes[i]];
        branch next = {u - t->units, from[i], from[i + 1], b.depth + 1};
        *u = (tli_trie_unit){bytes[i], -1};
        if (pieces[next.from].size == next.depth) u->id = pieces[next.from++].id;
        if (next.from < next.to && !TL_VEC_PUSH(todo, next)) return TL_ENOMEM;
    }
    return TL_OK;
}

tl_status tli_trie_add(tli_trie *t, uint32_t *root, const tli_piece *pieces, int64_t count,
                       size_t skip)
{
    branches todo = {0};
    tl_status st = TL_OK;
    *root = 0;
    if (!t->block_count) st = add_block(t);
    if (st == TL_OK && count && !TL_VEC_PUSH(&todo, (branch){-1, 0, count, skip})) st = TL_ENOMEM;
    while (st == TL_OK && todo.count) {
        branch next = todo.items[--todo.count];
        st = grow(t, root, &todo, pieces, next);
    }
    TL_VEC_FREE(&todo);
    return st;
}

void tli_trie_finish(tli_trie *t)
{
    tl_free(t->blocks);
    t->blocks = NULL;
}

void tli_trie_deinit(tli_trie *t)
{
    tl_free(t->units);
    tl_free(t->blocks);
    *t = (tli_trie){0};
}
