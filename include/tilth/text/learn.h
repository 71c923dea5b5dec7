/* Vocabularies that are learned from texts, for WordPiece.
 *
 *     tl_wordpiece_learner *learner;
 *     tl_str vocab = TL_STR_INIT;
 *     TL_TRY(tl_wordpiece_learner_new(&learner, &(tl_wordpiece_learn_args){.size = 8000}));
 *     TL_TRY_DONE(st, tl_wordpiece_learner_add(learner, "unwanted running", 16));
 *     TL_TRY_DONE(st, tl_wordpiece_learner_finish(learner, &vocab)); // what vocab.txt holds
 *     TL_TRY_DONE(st, tl_file_write_atomic("vocab.txt", tl_str_text(&vocab), vocab.length));
 * done:
 *     tl_str_deinit(&vocab);
 *     tl_wordpiece_learner_free(&learner);
 *
 * Words are counted as the rules of a tokenizer clean, lower and split them. The vocabulary begins
 * with [PAD], [UNK], [CLS], [SEP] and [MASK], then has the characters of the words, each as a
 * beginning and as "##" and the character. Then the two neighbours that stand beside each other
 * most often become one piece, again and again, until there are enough pieces or no two neighbours
 * meet often enough. Frequent words become whole pieces that way, and rare ones are made of parts.
 *
 * The same texts in the same order give the same vocabulary. Memory and time are bounded: of more
 * than half a million different words the rarest are forgotten, and pieces are learned from the
 * 262,144 most frequent ones.
 *
 * Ownership: the caller's. Thread word: one thread at a time. */
#ifndef TILTH_TEXT_LEARN_H
#define TILTH_TEXT_LEARN_H

#include <tilth/base/str.h>
#include <tilth/text/tokenizer.h>

TL_BEGIN

typedef struct tl_wordpiece_learn_args {
    int64_t size;             /* (optional: 8000) pieces, at most */
    int64_t least;            /* (optional: 2) how often neighbours meet that become a piece */
    tl_wordpiece_rules rules; /* TL_WORDPIECE_HF */
    bool cased;               /* texts are not lowered */
} tl_wordpiece_learn_args;

typedef struct tl_wordpiece_learner tl_wordpiece_learner;
/* NULL is the default. A size without room for the special pieces, a beginning and a character that
 * goes on is TL_EINVAL. */
TL_API TL_NODISCARD tl_status tl_wordpiece_learner_new(tl_wordpiece_learner **out,
                                                       const tl_wordpiece_learn_args *args);
/* NULL is fine. */
TL_API void tl_wordpiece_learner_free(tl_wordpiece_learner **learner);
/* Counts the words of a text. Bytes that are no UTF-8 are treated as the rules treat them. */
TL_API TL_NODISCARD tl_status tl_wordpiece_learner_add(tl_wordpiece_learner *l, const char *text,
                                                       size_t size);
/* Different words so far. */
TL_API int64_t tl_wordpiece_learner_words(const tl_wordpiece_learner *l);
/* Appends the pieces, one a line. No word at all is TL_EINVAL. More may be added, and this be
 * called again. */
TL_API TL_NODISCARD tl_status tl_wordpiece_learner_finish(tl_wordpiece_learner *l, tl_str *vocab);

TL_END

#endif
