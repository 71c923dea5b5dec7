/* The vocabulary of a run: what its texts are cut with, and what its folder keeps of that, so that
 * it can be evaluated, resumed and asked wherever it lies.
 *
 * vocab.txt (or tokenizer.json) is kept as it was; tokenizer_config.json, which Hugging Face reads
 * too, says whether text is lowered and, in words of ours, whose rules cut it.
 *
 * Thread word: immutable once it is there. */
#ifndef TLI_ZOO_LANGUAGE_PIECES_H
#define TLI_ZOO_LANGUAGE_PIECES_H

#include <tilth/text/tokenizer.h>
#include <tilth/train/run/notes.h>

typedef struct tli_pieces {
    tl_tokenizer *tokenizer; /* NULL: there is none yet */
    const char *file;        /* "vocab.txt" or "tokenizer.json" */
    const char *text;        /* what stands in it; in the arena, as the next one */
    const char *config;      /* tokenizer_config.json */
} tli_pieces;
void tli_pieces_deinit(tli_pieces *p);

/* How a vocabulary is used where nothing beside it says so. */
typedef struct tli_pieces_how {
    tl_wordpiece_rules rules;
    tl_opt_bool lower; /* not set: true; set, it goes before what lies beside the vocabulary */
} tli_pieces_how;

/* The one of a folder, or of a file and what lies beside it. A folder without one leaves `out` as
 * it was. */
TL_NODISCARD tl_status tli_pieces_find(tli_pieces *out, tl_arena *arena, const char *folder,
                                       const tli_pieces_how *how);
/* vocab_file: a file, or a folder that must have one. */
TL_NODISCARD tl_status tli_pieces_open(tli_pieces *out, tl_arena *arena, const char *path,
                                       const tli_pieces_how *how);
/* The one beside weights to begin with, a folder or a file in one; NULL and "" have none. */
TL_NODISCARD tl_status tli_pieces_of_weights(tli_pieces *out, tl_arena *arena, const char *weights,
                                             const tli_pieces_how *how);
/* The one beside a file of records (tl_record_companion). */
TL_NODISCARD tl_status tli_pieces_beside(tli_pieces *out, tl_arena *arena, const char *records,
                                         const tli_pieces_how *how);
/* One that was learned: the text of a vocab.txt. */
TL_NODISCARD tl_status tli_pieces_take(tli_pieces *out, tl_arena *arena, const char *text,
                                       const tli_pieces_how *how);
/* Files for the folder of a run; nothing where there is no vocabulary. */
TL_NODISCARD tl_status tli_pieces_notes(const tli_pieces *p, tl_notes *into);

#endif
