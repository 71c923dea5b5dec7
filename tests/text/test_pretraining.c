/* Examples of masked pieces and next sentences, against what Model Garden made of the same texts
 * (tests/golden/pretraining_data.py), on any number of threads; and what is refused.
 * needs: threads */
#include "io/alloc_failures.h"
#include "text/text_lab.h"

#include <tilth/base/map.h>
#include <tilth/text/pretraining.h>

#include "text/documents.h"

/* --- the original's --------------------------------------------------------------------------- */

typedef struct golden {
    const char *name;
    const char *vocab, *texts[2]; // NULL: made here
    tl_pretraining_config config;
    bool cased, v2_names;
    int64_t outputs;
    int64_t examples;   // as the original counted them
    double next_random; // what its generator gave next
} golden;

#define TOY .vocab = GOLDEN "toy_vocab.txt", .texts = {GOLDEN "toy.txt"}
#define ODD                                                                                        \
    .vocab = GOLDEN "odd_vocab.txt", .texts = {GOLDEN "odd_first.txt", GOLDEN "odd_second.txt"}

static const golden goldens[] = {
    {"toy",
     TOY,
     {{.max_predictions_per_seq = 3}, 16, .dupe_factor = 2},
     .examples = 6,
     .next_random = 0.6576843149666971},
    {"toy_words",
     TOY,
     {{.max_predictions_per_seq = 3, .do_whole_word_mask = true}, 16, .dupe_factor = 2},
     .examples = 8,
     .next_random = 0.2651294875559076},
    {"toy_ngrams",
     TOY,
     {{TL_SET(0.4), 7, .do_whole_word_mask = true, .max_ngram_size = 3}, 24, .dupe_factor = 5}},
    {"odd",
     ODD,
     {{TL_SET(0.5), 8, .max_ngram_size = 1}, 21, TL_SET(7), 4, TL_SET(0.5)},
     .v2_names = true},
    {"odd_words",
     ODD,
     {{.max_predictions_per_seq = 1, .do_whole_word_mask = true},
      5,
      TL_SET(INT64_C(1) << 40),
      2,
      TL_SET(1.0)}},
    {"cased", .vocab = GOLDEN "odd_vocab.txt",
     .texts = {GOLDEN "odd_second.txt", GOLDEN "odd_first.txt"},
     .config = {{TL_SET(1.0), 40, .max_ngram_size = 1}, 33, TL_SET(0), 1, TL_SET(0)},
     .cased = true},
    {"alone", .vocab = GOLDEN "toy_vocab.txt",
     .config = {.max_seq_length = 8, .random_seed = TL_SET(-3), .dupe_factor = 3}},
    {"wide",
     .config = {.base = {.masked_lm_prob = TL_SET(0.3)}, .max_seq_length = 32, .dupe_factor = 1}},
    {"three", TOY, {.max_seq_length = 12, .dupe_factor = 2}, .outputs = 3},
};

static const char *wide_vocab(void)
{
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int i = 0; i < 70000; i++) tl_str_addf(&s, "w%d\n", i);
    put_bytes(in_folder("wide_vocab.txt"), s.data, s.length);
    tl_str_deinit(&s);
    return in_folder("wide_vocab.txt");
}

static void add_wide(tl_documents *d)
{
    tl_str s = TL_STR_INIT;
    for (int i = 0; i < 40; i++) {
        for (int k = 0; i % 5 && k < 9; k++)
            tl_str_addf(&s, "%sw%d", k ? " " : "", (i * 977 + k * 7919) % 70000);
        tl_str_addc(&s, '\n');
    }
    assert_ok(tl_documents_add_text(d, s.data, s.length));
    tl_str_deinit(&s);
}

static void add_texts(tl_documents *d, const golden *g)
{
    static const char alone[] = "the cat sat\non the mat\na dog ran";
    if (!g->vocab) add_wide(d);
    else if (!g->texts[0]) assert_ok(tl_documents_add_text(d, alone, sizeof alone - 1));
    for (int i = 0; i < 2 && g->texts[i]; i++) assert_ok(tl_documents_add_file(d, g->texts[i]));
}

static void write_golden(const golden *g, int threads)
{
    static const char *const names[] = {"", "1", "2"};
    const char *paths[3];
    int64_t outputs = g->outputs ? g->outputs : 1, count = 0;
    tl_tokenizer *t = open_vocab(g->vocab ? g->vocab : wide_vocab(), g->cased);
    tl_pool *pool;
    tl_documents *d;
    tl_pretraining *p;
    assert_ok(tl_pool_new(&pool, threads));
    assert_ok(tl_documents_new(&d, t, pool));
    add_texts(d, g);
    assert_ok(tl_pretraining_new(&p, d, &g->config));
    if (g->examples) assert_int_equal(tl_pretraining_count(p), g->examples);
    if (g->next_random) assert_true(tli_pretraining_next_random(p) == g->next_random);
    for (int64_t i = 0; i < outputs; i++) paths[i] = in_folder(names[i][0] ? names[i] : "0");
    assert_ok(tl_pretraining_write(
        p, paths, outputs, &(tl_pretraining_files){.gzip = threads == 1, .v2_names = g->v2_names}));
    for (int64_t i = 0; i < outputs; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, "%s%s%s.tfrecord.gz", GOLDEN, g->name, names[i]);
        count += same_records(expected, paths[i]);
    }
    assert_int_equal(count, tl_pretraining_count(p));
    tl_pretraining_free(&p);
    tl_documents_free(&d);
    tl_pool_free(&pool);
    tl_tokenizer_free(&t);
}

static void examples_are_the_originals(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(goldens); i++) {
        write_golden(&goldens[i], 1);
        write_golden(&goldens[i], 3);
    }
}

/* "abcdefgh" and "123" in six places: what Python's Random(3) leaves of them. */
static void pairs_are_cut_as_in_the_original(void **state)
{
    (void)state;
    tli_python_random generator;
    tli_piece_range a = {0, 8}, b = {0, 3};
    tli_python_random_seed(&generator, 3);
    tli_truncate_pair(&a, &b, 6, (tl_bits){tli_python_random_bits, &generator});
    char text[16];
    snprintf(text, sizeof text, "%.*s,%.*s", (int)a.count, &"abcdefgh"[a.at], (int)b.count,
             &"123"[b.at]);
    assert_string_equal(text, "cde,123");
}

/* --- many parts ------------------------------------------------------------------------------- */

/* Pieces of all examples, one number. */
static uint64_t digest(const tl_pretraining *p)
{
    tl_pretraining_example e = TL_PRETRAINING_EXAMPLE_INIT;
    uint64_t hash = TL_HASH_SEED;
    for (int64_t i = 0; i < tl_pretraining_count(p); i++) {
        assert_ok(tl_pretraining_get(p, i, &e));
        hash = tl_hash_bytes(hash, e.ids, (size_t)e.count * sizeof *e.ids);
        hash = tl_hash_bytes(hash, e.positions, (size_t)e.masked * sizeof *e.positions);
        hash = tl_hash_bytes(hash, e.labels, (size_t)e.masked * sizeof *e.labels);
        hash = tl_hash_bytes(hash, &e.first, sizeof e.first);
        hash = tl_hash_bytes(hash, &e.is_random, sizeof e.is_random);
    }
    tl_pretraining_example_deinit(&e);
    return hash;
}

/* A text that is longer than what one thread takes at a time gives the same as the same lines one
 * by one. */
static void parts_do_not_show(void **state)
{
    (void)state;
    static const char *const lines[] = {"the cat sat on the mat\n", "a dog ran\n", "\n",
                                        "the birds sang loudly\n", "the dogs ran home\n"};
    tl_tokenizer *t = open_vocab(GOLDEN "toy_vocab.txt", false);
    tl_documents *whole, *pieces;
    tl_pretraining *a, *b;
    tl_pool *pool;
    tl_str text = TL_STR_INIT;
    tl_pretraining_config config = {.dupe_factor = 1};
    assert_ok(tl_pool_new(&pool, 4));
    assert_ok(tl_documents_new(&whole, t, pool));
    assert_ok(tl_documents_new(&pieces, t, NULL));
    for (int i = 0; i < 40000; i++) {
        const char *line = lines[(i * 7 + i / 11) % 5];
        tl_str_add(&text, line);
        assert_ok(tl_documents_add_text(pieces, line, strlen(line)));
    }
    assert_true(text.length > 2 << 18);
    assert_ok(tl_documents_add_text(whole, text.data, text.length));
    tl_documents_size x = tl_documents_measure(whole), y = tl_documents_measure(pieces);
    assert_int_equal(x.documents, y.documents);
    assert_int_equal(x.sentences, y.sentences);
    assert_int_equal(x.pieces, y.pieces);
    assert_ok(tl_pretraining_new(&a, whole, &config));
    assert_ok(tl_pretraining_new(&b, pieces, &config));
    assert_int_equal(tl_pretraining_count(a), tl_pretraining_count(b));
    assert_true(digest(a) == digest(b));
    tl_pretraining_free(&a);
    tl_pretraining_free(&b);
    tl_documents_free(&whole);
    tl_documents_free(&pieces);
    tl_pool_free(&pool);
    tl_tokenizer_free(&t);
    tl_str_deinit(&text);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        tl_pretraining_config config;
        const char *message;
    } bad[] = {
        {{.max_seq_length = 4}, "max_seq_length"},
        {{.dupe_factor = -1}, "dupe_factor"},
        {{.short_seq_prob = TL_SET(1.5)}, "short_seq_prob"},
        {{.base = {.masked_lm_prob = TL_SET(-0.5)}}, "masked_lm_prob"},
        {{.base = {.max_predictions_per_seq = -2}}, "max_predictions_per_seq"},
        {{.base = {.max_ngram_size = 2}}, "need do_whole_word_mask"},
    };
    tl_tokenizer *t = open_vocab(GOLDEN "toy_vocab.txt", false);
    tl_documents *d;
    tl_pretraining *p;
    assert_ok(tl_documents_new(&d, t, NULL));
    assert_fails(tl_pretraining_new(&p, d, NULL), TL_EINVAL, "there is no text");
    assert_null(p);
    assert_ok(tl_documents_add_text(d, "\n \n\t\n", 5));
    assert_fails(tl_pretraining_new(&p, d, NULL), TL_EINVAL, "there is no text");
    assert_fails(tl_documents_add_file(d, in_folder("nowhere")), TL_ENOTFOUND, "nowhere");
    assert_ok(tl_documents_add_text(d, "the cat", 7));
    for (int64_t i = 0; i < TL_COUNT(bad); i++)
        assert_fails(tl_pretraining_new(&p, d, &bad[i].config), TL_EINVAL, bad[i].message);
    assert_ok(tl_pretraining_new(&p, d, NULL));
    assert_int_equal(tl_pretraining_count(p), 10);
    tl_pretraining_example e = TL_PRETRAINING_EXAMPLE_INIT;
    assert_fails(tl_pretraining_get(p, 10, &e), TL_EINVAL, "there is no example 10");
    assert_fails(tl_pretraining_get(p, -1, &e), TL_EINVAL, "there is no example -1");
    // nothing is left of files that cannot be written
    const char *const to[] = {in_folder("one"), in_folder("none/two")};
    int before = each_file(NULL);
    assert_fails(tl_pretraining_write(p, to, 2, NULL), TL_ENOTFOUND, "none");
    assert_int_equal(each_file(NULL), before);
    assert_fails(tl_pretraining_write(p, to, 0, NULL), TL_EINVAL, "no file");
    tl_pretraining_free(&p);
    tl_documents_free(&d);
    tl_tokenizer_free(&t);
    put_bytes(in_folder("vocab"), "[UNK]\n[CLS]\n[SEP]\nthe\n", 22);
    t = open_vocab(in_folder("vocab"), false);
    assert_ok(tl_documents_new(&d, t, NULL));
    assert_ok(tl_documents_add_text(d, "the", 3));
    assert_fails(tl_pretraining_new(&p, d, NULL), TL_ENOTFOUND, "[MASK]");
    tl_documents_free(&d);
    tl_tokenizer_free(&t);
}

static tl_tokenizer *kept;

static tl_status write_once(void)
{
    static const char text[] = "the cat sat\non the mat\n\na dog ran\n";
    const char *const to[] = {in_folder("one"), in_folder("two")};
    const tl_pretraining_config config = {.base = {.do_whole_word_mask = true, .max_ngram_size = 2},
                                          .dupe_factor = 2};
    tl_documents *d = NULL;
    tl_pretraining *p = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_documents_new(&d, kept, NULL));
    TL_TRY_DONE(st, tl_documents_add_text(d, text, sizeof text - 1));
    TL_TRY_DONE(st, tl_pretraining_new(&p, d, &config));
    st = tl_pretraining_write(p, to, 2, NULL);
done:
    tl_pretraining_free(&p);
    tl_documents_free(&d);
    return st;
}

static void memory_may_lack(void **state)
{
    (void)state;
    kept = open_vocab(GOLDEN "toy_vocab.txt", false);
    assert_survives_failures(write_once, 20);
    tl_tokenizer_free(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_the_originals),
        cmocka_unit_test(pairs_are_cut_as_in_the_original),
        cmocka_unit_test(parts_do_not_show),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
