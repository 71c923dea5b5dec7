/* Vocabularies that are learned: by the rule, told apart from a slow way to do the same; whole for
 * what is frequent; the same whenever it is done. */
#include "test.h"

#include <stdlib.h>

#include <tilth/base/rng.h>
#include <tilth/text/learn.h>

static const char *learn_text(const char *text, size_t size, const tl_wordpiece_learn_args *args)
{
    static tl_str out;
    tl_wordpiece_learner *l;
    tl_str_deinit(&out);
    assert_ok(tl_wordpiece_learner_new(&l, args));
    assert_ok(tl_wordpiece_learner_add(l, text, size));
    assert_ok(tl_wordpiece_learner_finish(l, &out));
    tl_wordpiece_learner_free(&l);
    return tl_str_text(&out);
}
#define learns(text, expected, ...)                                                                \
    assert_string_equal(learn_text(text, strlen(text), &(tl_wordpiece_learn_args){__VA_ARGS__}),   \
                        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" expected)

static void frequent_words_become_pieces(void **state)
{
    (void)state;
    // "ab" five times, "abc" twice: a ##b first, then ab ##c; "x" has no neighbour
    learns("ab ab ab abc x Abc", "##b\n##c\na\nx\nab\nabc\n", .size = 100);
    // texts that are not lowered have another letter
    learns("ab Ab", "##b\nA\na\n", .size = 100, .cased = true);
    // punctuation is a word, accents go
    learns("é! é!", "!\ne\n", .size = 100);
    // no more than asked for, and neighbours that meet once are left alone
    learns("ab ab abc abc abc", "##b\n##c\na\nab\n", .size = 9);
    learns("ab cd", "##b\n##d\na\nc\n", .size = 100);
    learns("ab cd", "##b\n##d\na\nc\nab\ncd\n", .size = 100, .least = 1);
    // special pieces in the text are no words
    learns("[CLS] ab [MASK] ab", "##b\na\nab\n", .size = 100);
}

/* A letter that there is no room for takes its words with it. */
static void rare_letters_go_first(void **state)
{
    (void)state;
    learns("aa aa aa ab ac", "##a\na\n", .size = 7);
}

/* --- the same, slowly ------------------------------------------------------------------------- */

enum { MOST_PIECES = 400, MOST_LENGTH = 12, WORDS = 60 };

typedef struct slow {
    char pieces[MOST_PIECES][2 * MOST_LENGTH + 4];
    int count;
    int words[WORDS][MOST_LENGTH], lengths[WORDS], times[WORDS];
} slow;

static int piece_of(slow *s, const char *text)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->pieces[i], text) == 0) return i;
    assert_true(s->count < MOST_PIECES);
    strcpy(s->pieces[s->count], text);
    return s->count++;
}

/* Counts every pair anew, and takes the best of them. */
static bool merge_best(slow *s, int least)
{
    static int64_t counts[MOST_PIECES][MOST_PIECES];
    int left = -1, right = -1;
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i + 1 < s->lengths[w]; i++)
            counts[s->words[w][i]][s->words[w][i + 1]] += s->times[w];
    for (int a = 0; a < s->count; a++)
        for (int b = 0; b < s->count; b++)
            if (counts[a][b] >= least && (left < 0 || counts[a][b] > counts[left][right]))
                left = a, right = b;
    if (left < 0) return false;
    char text[2 * MOST_LENGTH + 4];
    snprintf(text, sizeof text, "%s%s", s->pieces[left], s->pieces[right] + 2);
    int joined = piece_of(s, text);
    for (int w = 0; w < WORDS; w++) {
        int kept = 0;
        for (int i = 0; i < s->lengths[w]; i++) {
            bool both =
                i + 1 < s->lengths[w] && s->words[w][i] == left && s->words[w][i + 1] == right;
            s->words[w][kept++] = both ? joined : s->words[w][i];
            i += both;
        }
        s->lengths[w] = kept;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void as_a_slow_learner(uint64_t seed, int letters, int size)
{
    static slow s;
    char words[WORDS][MOST_LENGTH + 1];
    tl_str text = TL_STR_INIT, expected = TL_STR_INIT;
    tl_rng rng;
    tl_rng_init(&rng, seed);
    s = (slow){0};
    for (int w = 0; w < WORDS; w++) {
        int length = 1 + (int)(tl_rng_u64(&rng) % (MOST_LENGTH - 1));
        s.lengths[w] = length;
        s.times[w] = 1 + (int)(tl_rng_u64(&rng) % 7);
        for (int i = 0; i < length; i++)
            words[w][i] = (char)('a' + tl_rng_u64(&rng) % (uint64_t)letters);
        words[w][length] = '\0';
        for (int k = 0; k < s.times[w]; k++) tl_str_addf(&text, "%s ", words[w]);
        for (int i = 0; i < length; i++) {
            char piece[4];
            snprintf(piece, sizeof piece, i ? "##%c" : "%c", words[w][i]);
            (void)piece_of(&s, piece);
        }
    }
    qsort(s.pieces, (size_t)s.count, sizeof s.pieces[0], by_text);
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i < s.lengths[w]; i++) {
            char piece[4];
            snprintf(piece, sizeof piece, i ? "##%c" : "%c", words[w][i]);
            s.words[w][i] = piece_of(&s, piece);
        }
    while (s.count < size - 5 && merge_best(&s, 2)) continue;
    tl_str_add(&expected, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int i = 0; i < s.count; i++) tl_str_addf(&expected, "%s\n", s.pieces[i]);
    assert_string_equal(
        learn_text(tl_str_text(&text), text.length, &(tl_wordpiece_learn_args){.size = size}),
        tl_str_text(&expected));
    tl_str_deinit(&text);
    tl_str_deinit(&expected);
}

static void random_words_are_merged_by_the_rule(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        as_a_slow_learner(seed, 2, 60);
        as_a_slow_learner(seed, 4, 150);
        as_a_slow_learner(seed, 20, 400);
    }
}

/* --- what comes of it ------------------------------------------------------------------------- */

static void a_tokenizer_takes_it(void **state)
{
    (void)state;
    const char *text = "the cat sat on the mat. the hat of the cat is fat! über Straße 東京";
    const char *vocab = learn_text(text, strlen(text), &(tl_wordpiece_learn_args){.least = 1});
    tl_tokenizer *t;
    tl_ids ids = {0};
    assert_ok(
        tl_wordpiece_from_memory(&t, "vocab.txt", vocab, strlen(vocab), &(tl_wordpiece_args){0}));
    assert_ok(tl_tokenize(t, &ids, text, strlen(text)));
    // every word is a piece, and an ideograph is a word
    assert_int_equal(ids.count, 19);
    for (int64_t i = 0; i < ids.count; i++)
        assert_int_not_equal(ids.items[i], tl_tokenizer_find(t, "[UNK]"));
    ids.count = 0;
    assert_ok(tl_tokenize(t, &ids, "chat", 4)); // of letters that are known
    assert_true(ids.count >= 2);
    assert_int_equal(tl_tokenizer_find(t, "[PAD]"), 0);
    tl_ids_deinit(&ids);
    tl_tokenizer_free(&t);
}

static void it_refuses(void **state)
{
    (void)state;
    tl_wordpiece_learner *l;
    tl_str out = TL_STR_INIT;
    assert_fails(tl_wordpiece_learner_new(&l, &(tl_wordpiece_learn_args){.size = 6}), TL_EINVAL,
                 "7 to");
    assert_ok(tl_wordpiece_learner_new(&l, NULL));
    assert_ok(tl_wordpiece_learner_add(l, " \n", 2));
    assert_fails(tl_wordpiece_learner_finish(l, &out), TL_EINVAL, "no word");
    assert_fails(tl_wordpiece_learner_add(l, "a\xff", 2), TL_EDATA, "byte 2");
    assert_ok(tl_wordpiece_learner_add(l, "ok", 2));
    assert_int_equal(tl_wordpiece_learner_words(l), 1);
    tl_str_deinit(&out);
    tl_wordpiece_learner_free(&l);
}

/* So many different words that those that came once are forgotten, and the frequent one stays. */
static void memory_is_bounded(void **state)
{
    (void)state;
    tl_wordpiece_learner *l;
    char word[32];
    assert_ok(tl_wordpiece_learner_new(&l, NULL));
    for (int i = 0; i < (1 << 19) + 1000; i++) {
        int n = snprintf(word, sizeof word, "w%d often", i);
        assert_ok(tl_wordpiece_learner_add(l, word, (size_t)n));
    }
    assert_true(tl_wordpiece_learner_words(l) < 4000);
    tl_wordpiece_learner_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequent_words_become_pieces),
        cmocka_unit_test(rare_letters_go_first),
        cmocka_unit_test(random_words_are_merged_by_the_rule),
        cmocka_unit_test(a_tokenizer_takes_it),
        cmocka_unit_test(it_refuses),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
