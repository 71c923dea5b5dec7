/* Private to text: sorted pieces as a tree of their bytes, laid into one array so that a step is
 * one load.
 *
 * The children of a node lie in one block of 256 units, the child of byte c in unit `base ^ c`. A
 * unit remembers its byte; no two nodes have the same base, so the byte tells whose child it is.
 * Block 0 stays empty: it is where nodes without children look.
 *
 *     for (uint32_t base = root; i < size; i++) {
 *         tli_trie_unit u = t->units[base ^ bytes[i]];
 *         if (tli_trie_byte(u) != bytes[i]) break;
 *         if (u.id >= 0) ... a piece ends behind byte i ...
 *         base = tli_trie_base(u);
 *     }
 *
 * Thread word: immutable once it is built. */
#ifndef TLI_TEXT_TRIE_H
#define TLI_TEXT_TRIE_H

#include "text/vocabulary.h"

typedef struct tli_trie_unit {
    uint32_t link; /* base << 9 | byte; the byte of a free unit is 256 */
    int32_t id;    /* of the piece that ends here; -1: none */
} tli_trie_unit;

typedef struct tli_trie {
    tli_trie_unit *units;
    struct tli_trie_block *blocks;
    int64_t block_count, block_capacity, first_open;
} tli_trie;

static inline uint32_t tli_trie_byte(tli_trie_unit u)
{
    return u.link & 0x1ff;
}

static inline uint32_t tli_trie_base(tli_trie_unit u)
{
    return u.link >> 9;
}

/* Adds a tree of pieces without their first `skip` bytes, in which they are alike; they are sorted,
 * and what remains of one is not empty. `root` is the base it begins with. A zeroed trie is an
 * empty one. */
TL_NODISCARD tl_status tli_trie_add(tli_trie *t, uint32_t *root, const tli_piece *pieces,
                                    int64_t count, size_t skip);
/* Frees what only building needs. */
void tli_trie_finish(tli_trie *t);
void tli_trie_deinit(tli_trie *t);

#endif
