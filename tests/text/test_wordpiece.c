/* WordPiece: the words of each rule, pieces beside a plain search, vocabularies as people have
 * them, several threads. needs: threads */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <pthread.h>

#include <tilth/base/rng.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>
#include <tilth/text/tokenizer.h>

static const tl_wordpiece_rules hf = TL_WORDPIECE_HF, garden = TL_WORDPIECE_MODEL_GARDEN,
                                tf_text = TL_WORDPIECE_TF_TEXT, bert = TL_WORDPIECE_BERT;

/* The pieces of a text, with spaces between them; another call replaces them. */
static const char *pieces_of(const tl_tokenizer *t, const char *text, size_t size)
{
    static char found[65536];
    tl_ids ids = {0};
    size_t length = 0;
    assert_ok(tl_tokenize(t, &ids, text, size));
    found[0] = '\0';
    for (int64_t i = 0; i < ids.count; i++)
        length += (size_t)snprintf(found + length, sizeof found - length, "%s%s", i ? " " : "",
                                   tl_tokenizer_piece(t, ids.items[i]));
    tl_ids_deinit(&ids);
    return found;
}

static tl_tokenizer *open_text(tl_wordpiece_rules rules, bool cased, const char *vocab)
{
    tl_tokenizer *t;
    assert_ok(tl_wordpiece_from_memory(&t, "vocab.txt", vocab, strlen(vocab),
                                       &(tl_wordpiece_args){.rules = rules, .cased = cased}));
    return t;
}

#define SPECIALS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

/* --- words ------------------------------------------------------------------------------------ */

/* Words that are in no rule's way; ids are of the words that the vectors name. */
static const char words[] =
    SPECIALS "unwanted\n,\nrunning\nah\n\u535a\n\u63a8\nzz\nhelloworld\nHello\nWorld\nHelloWorld\n"
             "stra\u00dfe\nStra\u00dfe\nstrasse\nistanbul\n\u0130stanbul\nx\nyz\ny\nz\nX\n"
             "\u3053\u3093\u306b\u3061\u306f\n\u4e16\n\u754c\ndon\n'\nt\n\ufb01\nfi\nx\u2028y\n["
             "\nmask\n]\nMASK\n"
             "foobar\nfoo\nbar\n\u03bf\u03b4\u03bf\u03c2\n\u03bf\u03b4\u03bf\u03c3\n"
             "\u03bf\u03b4\u03cc\u03c2\n$\n^\n+\n\u20ac\n<\n`\nfoo\u00adbar\na\n";

typedef struct vector {
    const char *text;
    size_t size;
    const char *hf, *garden, *tf_text; /* bert gives what Model Garden gives; NULL: the same */
} vector;
#define TEXT(literal) literal, sizeof literal - 1

static void check_vectors(const vector *v, int64_t count, bool cased)
{
    const tl_wordpiece_rules all[] = {hf, garden, bert, tf_text};
    for (int r = 0; r < TL_COUNT(all); r++) {
        tl_tokenizer *t = open_text(all[r], cased, words);
        for (int64_t i = 0; i < count; i++) {
            const char *want = v[i].hf;
            if ((all[r] == garden || all[r] == bert) && v[i].garden) want = v[i].garden;
            if (all[r] == tf_text && v[i].tf_text) want = v[i].tf_text;
            const char *found = pieces_of(t, v[i].text, v[i].size);
            if (strcmp(found, want) != 0)
                fail_msg("rules %d, '%s': '%s', not '%s'", (int)all[r], v[i].text, found, want);
        }
        tl_tokenizer_free(&t);
    }
}

static void rules_split_words(void **state)
{
    (void)state;
    static const vector lower[] = {
        {TEXT("UNwant\u00e9d,running"), "unwanted , running", NULL, NULL},
        {TEXT("ah\u535a\u63a8zz"), "ah \u535a \u63a8 zz", NULL, NULL},
        {TEXT("\u00a0Hello\u200bWorld\0"), "helloworld", NULL, NULL},
        {TEXT("Stra\u00dfe \u0130stanbul"), "stra\u00dfe istanbul", NULL, "strasse istanbul"},
        {TEXT("x\u2028y"), "x y", NULL, "x\u2028y"},
        {TEXT("y\xc2\x85"
              "z"),
         "yz", NULL, "y z"},
        {TEXT("\u3053\u3093\u306b\u3061\u306f\u4e16\u754c"),
         "\u3053\u3093\u306b\u3061\u306f \u4e16 \u754c", NULL, NULL},
        {TEXT("don't"), "don ' t", NULL, NULL},
        {TEXT("\ufb01"), "\ufb01", NULL, "fi"},
        {TEXT("x[MASK]y"), "x [MASK] y", "x [ mask ] y", "x [ mask ] y"},
        {TEXT("foo\u00adbar"), "foobar", NULL, NULL},
        {TEXT("$^`+<x\u20ac"), "$ ^ ` + < [UNK]", NULL, NULL},
        // tokenizers lowers letter by letter, Python looks around a capital sigma
        {TEXT("\u039f\u0394\u039f\u03a3"), "\u03bf\u03b4\u03bf\u03c3", "\u03bf\u03b4\u03bf\u03c2",
         "\u03bf\u03b4\u03bf\u03c3"},
        {TEXT("\u039f\u0394\u039f\u03a3'"), "\u03bf\u03b4\u03bf\u03c3 '",
         "\u03bf\u03b4\u03bf\u03c2 '", "\u03bf\u03b4\u03bf\u03c3 '"},
        {TEXT("\u039f\u0394\u039f\u03a3'x"), "\u03bf\u03b4\u03bf\u03c3 ' x", NULL, NULL},
        {TEXT(""), "", NULL, NULL},
        {TEXT(" \t\r\n "), "", NULL, NULL},
        {TEXT("\u0301"), "", NULL, NULL},
    };
    static const vector cased[] = {
        {TEXT("Hello\u200bWorld"), "HelloWorld", NULL, "Hello World"},
        {TEXT("foo\u00adbar"), "foobar", NULL, "foo bar"},
        {TEXT("Stra\u00dfe \u0130stanbul"), "Stra\u00dfe \u0130stanbul", NULL, NULL},
        {TEXT("\u03bf\u03b4\u03cc\u03c2"), "\u03bf\u03b4\u03cc\u03c2", NULL, NULL},
        {TEXT("x\u00a0y"), "x y", NULL, "[UNK]"},
        {TEXT("[MASK]"), "[MASK]", "[ MASK ]", "[ MASK ]"},
        {TEXT("x\x0by\x7f"), "[UNK]", NULL, "x y"},
    };
    check_vectors(lower, TL_COUNT(lower), false);
    check_vectors(cased, TL_COUNT(cased), true);
}

static void bytes_that_are_no_utf8(void **state)
{
    (void)state;
    static const char text[] = "x\xff y foo\xe4\xb8. yz", halves[] = "X \xe4\xb8\u00ad\x96";
    const size_t size = sizeof text - 1;
    tl_ids ids = {0};
    tl_tokenizer *t = open_text(hf, false, words);
    assert_ok(tl_tokenize(t, &ids, "x", 1));
    assert_fails(tl_tokenize(t, &ids, text, size), TL_EDATA,
                 "byte 2 of the text (0xff) is no UTF-8");
    assert_int_equal(ids.count, 1); // as it was
    assert_fails(tl_tokenize(t, &ids, "x [MASK] \xf0\x9f", 11), TL_EDATA, "byte 10 of the text");
    tl_tokenizer_free(&t);
    for (int i = 0; i < 2; i++) {
        t = open_text(i ? bert : garden, false, words);
        assert_string_equal(pieces_of(t, text, size), "x y foo [UNK] yz");
        tl_tokenizer_free(&t);
    }
    t = open_text(tf_text, true, words);
    assert_string_equal(pieces_of(t, text, size), "[UNK] y [UNK] [UNK] yz");
    assert_string_equal(pieces_of(t, halves, sizeof halves - 1), "X [UNK] [UNK]");
    tl_tokenizer_free(&t);
    // folding leaves the soft hyphen out, and the halves of U+4E16 meet
    t = open_text(tf_text, false, words);
    assert_string_equal(pieces_of(t, text, size), "[UNK] y [UNK] [UNK] yz");
    assert_string_equal(pieces_of(t, halves, sizeof halves - 1), "x \u4e16");
    tl_tokenizer_free(&t);
    tl_ids_deinit(&ids);
}

static void long_words_are_unknown(void **state)
{
    (void)state;
    static const struct {
        tl_wordpiece_rules rules;
        int most;
    } limits[] = {{TL_WORDPIECE_HF, 100},
                  {TL_WORDPIECE_MODEL_GARDEN, 400},
                  {TL_WORDPIECE_BERT, 200},
                  {TL_WORDPIECE_TF_TEXT, 100}};
    for (int r = 0; r < TL_COUNT(limits); r++)
        for (int wide = 0; wide < 2; wide++) {
            const char *letter = wide ? "\u0434" : "d";
            // tensorflow-text counts bytes
            int most = limits[r].rules == tf_text && wide ? 50 : limits[r].most;
            tl_tokenizer *t =
                open_text(limits[r].rules, false, SPECIALS "d\n##d\n\u0434\n##\u0434\n");
            for (int more = 0; more < 2; more++) {
                tl_str text = TL_STR_INIT;
                tl_ids ids = {0};
                for (int i = 0; i < most + more; i++) tl_str_add(&text, letter);
                assert_ok(tl_tokenize(t, &ids, text.data, text.length));
                assert_int_equal(ids.count, more ? 1 : most);
                assert_int_equal(ids.items[0], more ? 1 : tl_tokenizer_find(t, letter));
                tl_ids_deinit(&ids);
                tl_str_deinit(&text);
            }
            tl_tokenizer_free(&t);
        }
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void words_become_the_longest_pieces(void **state)
{
    (void)state;
    tl_tokenizer *t = open_text(hf, false,
                                SPECIALS "want\n##want\n##ed\nun\nrunn\n##ing\n##s\n"
                                         "internationali\n##zation\nunaffable\n");
    assert_string_equal(pieces_of(t, "unwanted running wants", 22),
                        "un ##want ##ed runn ##ing want ##s");
    assert_string_equal(pieces_of(t, "unwantedX", 9), "[UNK]");
    assert_string_equal(pieces_of(t, "internationalization unaffables", 31),
                        "internationali ##zation unaffable ##s");
    assert_string_equal(pieces_of(t, "ed ing", 6), "[UNK] [UNK]");
    assert_int_equal(tl_tokenizer_count(t), 15);
    assert_int_equal(tl_tokenizer_find(t, "##ed"), 7);
    assert_int_equal(tl_tokenizer_find(t, "ed"), -1);
    assert_string_equal(tl_tokenizer_piece(t, 5), "want");
    assert_null(tl_tokenizer_piece(t, -1));
    assert_null(tl_tokenizer_piece(t, 15));
    int32_t id;
    assert_ok(tl_tokenizer_need(t, "[CLS]", &id));
    assert_int_equal(id, 2);
    assert_fails(tl_tokenizer_need(t, "[BOS]", &id), TL_ENOTFOUND,
                 "'vocab.txt' has no piece '[BOS]'");
    tl_tokenizer_free(&t);
    tl_tokenizer_free(&t);
}

/* As the papers have it: try all that is left, then one letter less, and so on. */
static void cut_plainly(const tl_tokenizer *t, tl_ids *out, const char *word, size_t size)
{
    int64_t before = out->count;
    char piece[64];
    for (size_t at = 0, end; at < size; at = end) {
        int64_t id = -1;
        for (end = size; end > at; end--) {
            snprintf(piece, sizeof piece, "%s%.*s", at ? "##" : "", (int)(end - at), word + at);
            if ((id = tl_tokenizer_find(t, piece)) >= 0) break;
        }
        if (id < 0) {
            out->count = before;
            assert_true(TL_VEC_PUSH(out, 1));
            return;
        }
        assert_true(TL_VEC_PUSH(out, (int32_t)id));
    }
}

static void pieces_beside_a_plain_search(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (test_takes_unseen() ? 12 : 3); seed++) {
        tl_str vocab = TL_STR_INIT;
        tl_rng rng;
        tl_rng_init(&rng, seed);
        // Few letters make many beginnings alike, many letters fill blocks of the trie.
        int letters = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 6 : 26;
        tl_str_add(&vocab, SPECIALS);
        for (int i = 0; i < 3000; i++) {
            if (tl_rng_below(&rng, 2)) tl_str_add(&vocab, "##");
            for (int64_t k = tl_rng_below(&rng, i % 50 ? 5 : 22) + 1; k > 0; k--)
                tl_str_addc(&vocab, (char)('a' + tl_rng_below(&rng, letters)));
            tl_str_addc(&vocab, '\n');
        }
        assert_ok(tl_str_status(&vocab));
        tl_tokenizer *t = open_text(garden, false, tl_str_text(&vocab));
        for (int i = 0; i < 2000; i++) {
            char word[40];
            size_t size = (size_t)tl_rng_below(&rng, 36) + 1;
            tl_ids ids = {0}, want = {0};
            for (size_t k = 0; k < size; k++) word[k] = (char)('a' + tl_rng_below(&rng, letters));
            assert_ok(tl_tokenize(t, &ids, word, size));
            cut_plainly(t, &want, word, size);
            assert_int_equal(ids.count, want.count);
            assert_memory_equal(ids.items, want.items, (size_t)want.count * sizeof *want.items);
            tl_ids_deinit(&ids);
            tl_ids_deinit(&want);
        }
        tl_tokenizer_free(&t);
        tl_str_deinit(&vocab);
    }
}

/* --- vocabularies ----------------------------------------------------------------------------- */

static void lines_are_numbers(void **state)
{
    (void)state;
    // Returns, blank lines, a piece twice, no newline at the end.
    tl_tokenizer *t = open_text(bert, false, "[UNK]\r\n\r\n  a  \r\nb\n\na\nc\u3000");
    assert_int_equal(tl_tokenizer_count(t), 7);
    assert_int_equal(tl_tokenizer_find(t, "a"), 5);
    assert_int_equal(tl_tokenizer_find(t, "b"), 3);
    assert_int_equal(tl_tokenizer_find(t, "c"), 6);
    assert_string_equal(tl_tokenizer_piece(t, 2), "a");
    assert_string_equal(tl_tokenizer_piece(t, 1), "");
    assert_string_equal(pieces_of(t, "a b c", 5), "a b c");
    tl_tokenizer_free(&t);
    t = open_text(hf, false, "[UNK]\n  a  \nb\r\n");
    assert_int_equal(tl_tokenizer_find(t, "  a"), 1);
    assert_int_equal(tl_tokenizer_find(t, "b"), 2);
    tl_tokenizer_free(&t);
    t = open_text(tf_text, false, "[UNK]\n  a  \nb\r\n");
    assert_int_equal(tl_tokenizer_find(t, "  a  "), 1);
    assert_int_equal(tl_tokenizer_find(t, "b"), 2);
    tl_tokenizer_free(&t);
}

static tl_status try_text(const char *text, size_t size, int rules)
{
    tl_tokenizer *t;
    tl_status st = tl_wordpiece_from_memory(
        &t, "v.txt", text, size, &(tl_wordpiece_args){.rules = (tl_wordpiece_rules)rules});
    if (st != TL_OK) assert_null(t);
    tl_tokenizer_free(&t);
    return st;
}

static void what_is_no_vocabulary_is_refused(void **state)
{
    (void)state;
    tl_tokenizer *t;
    tl_wordpiece_rules rules;
    assert_fails(try_text("", 0, 0), TL_ENOTFOUND, "'v.txt' has no piece '[UNK]'");
    assert_fails(try_text("a\nb\n", 4, 0), TL_ENOTFOUND, "is it the vocabulary of this model?");
    assert_fails(try_text("[UNK]\na\nb\xc3\n", 11, 0), TL_EINVAL,
                 "'v.txt', line 3: byte 2 (0xc3) is no UTF-8");
    assert_fails(try_text("[UNK]\na\0b\n", 10, 3), TL_EINVAL, "'v.txt', line 2: a byte of zero");
    assert_fails(try_text("[UNK]\n", 6, 7), TL_EINVAL, "7 is none of them");
    assert_fails(tl_wordpiece_new(&t, &(tl_wordpiece_args){0}), TL_EINVAL,
                 "a vocabulary is missing");
    assert_fails(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = in_folder("none.txt")}),
                 TL_ENOTFOUND, "none.txt");
    assert_fails(tl_wordpiece_rules_find(&rules, "bart"), TL_ENOTFOUND,
                 "'bart' is not one of hf, model_garden, tf_text, bert");
    // More lines than ids.
    size_t size = ((size_t)1 << 22) + 1;
    char *lines = malloc(size);
    memset(lines, '\n', size);
    assert_fails(try_text(lines, size, 0), TL_ELIMIT,
                 "'v.txt', line 4194305: piece number 4194304: numbers are from 0 to 4194303");
    free(lines);
}

static void files_and_folders(void **state)
{
    (void)state;
    tl_tokenizer *t;
    assert_fails(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = folder}), TL_ENOTFOUND,
                 "has no tokenizer.json and no vocab.txt");
    assert_fails(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = folder, .rules = bert}),
                 TL_ENOTFOUND, "has no vocab.txt");
    assert_ok(tl_file_write_atomic(in_folder("vocab.txt"), words, strlen(words)));
    assert_ok(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = folder, .rules = bert}));
    assert_string_equal(pieces_of(t, "Don't", 5), "don ' t");
    tl_tokenizer_free(&t);
    assert_ok(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = in_folder("vocab.txt")}));
    tl_tokenizer_free(&t);
    assert_ok(tl_file_remove(in_folder("vocab.txt")));
}

/* Deseret, which has lower case, and an ideograph: their planes are not the first one. */
static void letters_of_other_planes(void **state)
{
    (void)state;
    static const char text[] = "\U00010400\U00010400 x\U00020000\U00010428";
    const tl_wordpiece_rules all[] = {hf, garden, tf_text, bert};
    for (int i = 0; i < TL_COUNT(all); i++) {
        tl_tokenizer *t =
            open_text(all[i], false, SPECIALS "\U00010428\n##\U00010428\nx\n\U00020000\n");
        for (int k = 0; k < 2; k++) // as they are found, and as they are remembered
            assert_string_equal(pieces_of(t, text, sizeof text - 1),
                                "\U00010428 ##\U00010428 x \U00020000 \U00010428");
        tl_tokenizer_free(&t);
    }
}

/* --- around it -------------------------------------------------------------------------------- */

typedef struct beside {
    pthread_t thread;
    const tl_tokenizer *t;
    const char *text;
    size_t size;
    tl_ids ids;
} beside;

static void *tokenize_beside(void *payload)
{
    beside *b = payload;
    return (void *)(uintptr_t)tl_tokenize(b->t, &b->ids, b->text, b->size);
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    char *text;
    size_t size;
    assert_ok(tl_file_read(&text, &size, TEST_DATA "/golden/tokenizers_lines.txt", 1 << 20));
    tl_tokenizer *t = open_text(garden, false, words);
    beside threads[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (beside){.t = t, .text = text, .size = size};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, tokenize_beside, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *status;
        assert_int_equal(pthread_join(threads[i].thread, &status), 0);
        assert_int_equal((uintptr_t)status, TL_OK);
        assert_int_equal(threads[i].ids.count, threads[0].ids.count);
        assert_memory_equal(threads[i].ids.items, threads[0].ids.items,
                            (size_t)threads[0].ids.count * sizeof(int32_t));
    }
    for (int i = 0; i < THREADS; i++) tl_ids_deinit(&threads[i].ids);
    tl_tokenizer_free(&t);
    tl_free(text);
}

static tl_status everything(void)
{
    tl_tokenizer *t;
    tl_ids ids = {0};
    TL_TRY(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = in_folder("all.txt")}));
    tl_status st = tl_tokenize(t, &ids, "don't \u0130\u535a \U00010400", 16);
    if (st == TL_OK) assert_int_equal(ids.count, 6);
    tl_ids_deinit(&ids);
    tl_tokenizer_free(&t);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_ok(tl_file_write_atomic(in_folder("all.txt"), words, strlen(words)));
    assert_survives_failures(everything, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_split_words),
        cmocka_unit_test(bytes_that_are_no_utf8),
        cmocka_unit_test(long_words_are_unknown),
        cmocka_unit_test(words_become_the_longest_pieces),
        cmocka_unit_test(pieces_beside_a_plain_search),
        cmocka_unit_test(lines_are_numbers),
        cmocka_unit_test(what_is_no_vocabulary_is_refused),
        cmocka_unit_test(files_and_folders),
        cmocka_unit_test(letters_of_other_planes),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
