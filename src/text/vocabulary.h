/* Private to text: the pieces of a vocabulary by number and by text.
 *
 *     tli_vocabulary v = {0};
 *     TL_TRY_DONE(st, tli_vocabulary_add(&v, 0, "[PAD]", 5));
 *     ...
 *     TL_TRY_DONE(st, tli_vocabulary_finish(&v));
 *
 * Thread word: immutable once it is finished. */
#ifndef TLI_TEXT_VOCABULARY_H
#define TLI_TEXT_VOCABULARY_H

#include <tilth/base/str.h>

#include "text/unicode.h"

/* The largest vocabularies have less than a million pieces, and their files less than 50 MB. */
#define TLI_MOST_PIECES ((int64_t)1 << 22)
#define TLI_MOST_VOCABULARY_BYTES ((size_t)256 << 20)

typedef struct tli_piece {
    const char *text; /* ends with NUL, and has none before that */
    uint32_t size;
    int32_t id;
} tli_piece;

typedef struct tli_vocabulary {
    tl_str text;     /* all pieces, one behind the other */
    int64_t *places; /* of the piece of each number in it; -1: there is none */
    int64_t count, capacity;
    tli_piece *sorted; /* by bytes; of those with the same text the one that was added last */
    int64_t sorted_count;
} tli_vocabulary;

/* Numbers may come in any order; a number that has a piece already is TL_EEXISTS. */
TL_NODISCARD tl_status tli_vocabulary_add(tli_vocabulary *v, int64_t id, const char *piece,
                                          size_t size);
TL_NODISCARD tl_status tli_vocabulary_finish(tli_vocabulary *v);
void tli_vocabulary_deinit(tli_vocabulary *v);

/* NULL: there is none. */
const char *tli_vocabulary_piece(const tli_vocabulary *v, int64_t id);
const tli_piece *tli_vocabulary_find(const tli_vocabulary *v, const char *piece, size_t size);
/* The pieces that begin with `prefix` and have more: where they are in `sorted`. */
void tli_vocabulary_range(const tli_vocabulary *v, const char *prefix, int64_t *from, int64_t *to);

/* vocab.txt: a piece a line, without the space around it that the library takes away when it reads
 * such files. `name` stands in messages. */
TL_NODISCARD tl_status tli_vocabulary_read(tli_vocabulary *out, const char *name, const char *data,
                                           size_t size, tli_unicode library);

#endif
