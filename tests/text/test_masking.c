/* Masking of one sequence: how many pieces, which, and what stands in their place. The order of
 * draws is compared with the original's in test_pretraining.c. */
#include "text/text_lab.h"

#include <tilth/text/masking.h>

static tl_tokenizer *tokenizer;

static int open_all(void **state)
{
    if (make_folder(state) != 0) return -1;
    tokenizer = open_vocab(GOLDEN "toy_vocab.txt", false);
    return 0;
}

static int close_all(void **state)
{
    tl_tokenizer_free(&tokenizer);
    return remove_folder(state);
}

static tl_masker *masker_of(const tl_masking_config *config)
{
    tl_masker *m;
    assert_ok(tl_masker_new(&m, tokenizer, config));
    return m;
}

static int32_t id_of(const char *piece)
{
    int64_t id = tl_tokenizer_find(tokenizer, piece);
    assert_true(id >= 0);
    return (int32_t)id;
}

/* [CLS] the cats ran home [SEP] the bird sang loudly ... [SEP]: `count` pieces. */
static void fill(int32_t *ids, int64_t count)
{
    static const char *const words[] = {"the", "cat", "##s", "ran", "home", "bird", "loud", "##ly"};
    for (int64_t i = 0; i < count; i++) ids[i] = id_of(words[i % 8]);
    ids[0] = id_of("[CLS]");
    ids[count / 2] = ids[count - 1] = id_of("[SEP]");
}

static void counts_are_rounded_to_even(void **state)
{
    (void)state;
    static const int64_t lengths[] = {3, 8, 10, 17, 23, 30, 50, 500};
    static const int64_t expected[] = {1, 1, 2, 3, 3, 4, 8, 20};
    tl_masker *m = masker_of(NULL);
    tl_masked masked = TL_MASKED_INIT;
    tl_rng rng;
    int32_t ids[500];
    tl_rng_init(&rng, 1);
    for (int i = 0; i < 8; i++) {
        fill(ids, lengths[i]);
        if (lengths[i] == 3) ids[1] = id_of("the");
        assert_ok(tl_mask(m, &masked, ids, lengths[i], (tl_bits){tl_rng_bits, &rng}));
        if (lengths[i] != 3) assert_int_equal(masked.count, expected[i]);
    }
    tl_masked_deinit(&masked);
    tl_masker_free(&m);
}

/* Positions ascend, labels are what stood there, nothing else has changed. */
static void check_masked(const tl_masked *masked, const int32_t *before, const int32_t *after,
                         int64_t count)
{
    int64_t next = 0;
    for (int64_t i = 0; i < count; i++) {
        if (next < masked->count && masked->positions[next] == i) {
            assert_int_equal(masked->labels[next++], before[i]);
            assert_true(before[i] != id_of("[CLS]") && before[i] != id_of("[SEP]"));
        } else {
            assert_int_equal(after[i], before[i]);
        }
    }
    assert_int_equal(next, masked->count);
}

static void shares_are_80_10_10(void **state)
{
    (void)state;
    enum { LENGTH = 64, TIMES = 4000 };
    tl_masker *m = masker_of(NULL);
    tl_masked masked = TL_MASKED_INIT;
    int32_t before[LENGTH], after[LENGTH];
    int64_t became_mask = 0, stayed = 0, all = 0, at[LENGTH] = {0};
    tl_rng rng;
    tl_rng_init(&rng, 2);
    fill(before, LENGTH);
    for (int i = 0; i < TIMES; i++) {
        memcpy(after, before, sizeof after);
        assert_ok(tl_mask(m, &masked, after, LENGTH, (tl_bits){tl_rng_bits, &rng}));
        check_masked(&masked, before, after, LENGTH);
        for (int64_t k = 0; k < masked.count; k++) {
            int32_t p = masked.positions[k];
            became_mask += after[p] == id_of("[MASK]");
            stayed += after[p] == before[p];
            at[p]++;
        }
        all += masked.count;
    }
    assert_int_equal(all, TIMES * 10); // of 64 * 0.15 = 9.6
    double n = (double)all, sigma = sqrt(0.8 * 0.2 * n);
    // a random piece is [MASK], or the same again, once in 20
    assert_near((double)became_mask, n * (0.8 + 0.1 / 20), 5 * sigma);
    assert_near((double)stayed, n * (0.1 + 0.1 / 20), 5 * sigma);
    for (int i = 0; i < LENGTH; i++) {
        bool special = i == 0 || i == LENGTH / 2 || i == LENGTH - 1;
        double share = special ? 0 : TIMES * 10.0 / 61;
        assert_near((double)at[i], share, 6 * sqrt(share));
    }
    tl_masked_deinit(&masked);
    tl_masker_free(&m);
}

static void words_are_masked_whole(void **state)
{
    (void)state;
    enum { LENGTH = 40 };
    tl_masker *m = masker_of(&(tl_masking_config){.do_whole_word_mask = true});
    tl_masked masked = TL_MASKED_INIT;
    int32_t before[LENGTH], after[LENGTH];
    int64_t pairs = 0;
    tl_rng rng;
    tl_rng_init(&rng, 3);
    fill(before, LENGTH);
    for (int i = 0; i < 500; i++) {
        bool taken[LENGTH + 1] = {false};
        memcpy(after, before, sizeof after);
        assert_ok(tl_mask(m, &masked, after, LENGTH, (tl_bits){tl_rng_bits, &rng}));
        check_masked(&masked, before, after, LENGTH);
        assert_true(masked.count >= 5 && masked.count <= 6);
        for (int64_t k = 0; k < masked.count; k++) taken[masked.positions[k]] = true;
        for (int k = 1; k < LENGTH; k++) {
            const char *piece = tl_tokenizer_piece(tokenizer, before[k]);
            bool special = before[k - 1] == id_of("[SEP]") || before[k - 1] == id_of("[CLS]");
            if (strncmp(piece, "##", 2) != 0 || special) continue;
            assert_int_equal(taken[k], taken[k - 1]);
            pairs += taken[k];
        }
    }
    assert_true(pairs > 100);
    tl_masked_deinit(&masked);
    tl_masker_free(&m);
}

/* Runs of up to three words: some positions are in runs that single words would hardly give, and
 * no run crosses a [SEP]; the number of pieces is never exceeded. */
static void runs_of_words_are_masked(void **state)
{
    (void)state;
    enum { LENGTH = 60 };
    const tl_masking_config single = {.do_whole_word_mask = true},
                            runs = {.do_whole_word_mask = true, .max_ngram_size = 3};
    int64_t neighbours[2] = {0, 0};
    int32_t before[LENGTH], after[LENGTH];
    fill(before, LENGTH);
    for (int kind = 0; kind < 2; kind++) {
        tl_masker *m = masker_of(kind ? &runs : &single);
        tl_masked masked = TL_MASKED_INIT;
        tl_rng rng;
        tl_rng_init(&rng, 4);
        for (int i = 0; i < 500; i++) {
            memcpy(after, before, sizeof after);
            assert_ok(tl_mask(m, &masked, after, LENGTH, (tl_bits){tl_rng_bits, &rng}));
            check_masked(&masked, before, after, LENGTH);
            assert_true(masked.count <= 9);
            for (int64_t k = 1; k < masked.count; k++)
                neighbours[kind] += masked.positions[k] == masked.positions[k - 1] + 1;
        }
        tl_masked_deinit(&masked);
        tl_masker_free(&m);
    }
    assert_true(neighbours[1] > neighbours[0] + neighbours[0] / 2);
}

static void nothing_to_mask_is_fine(void **state)
{
    (void)state;
    tl_masker *m = masker_of(NULL);
    tl_masked masked = TL_MASKED_INIT;
    tl_rng rng;
    int32_t ids[] = {id_of("[CLS]"), id_of("[SEP]"), id_of("[SEP]")};
    tl_rng_init(&rng, 5);
    assert_ok(tl_mask(m, &masked, ids, 3, (tl_bits){tl_rng_bits, &rng}));
    assert_int_equal(masked.count, 0);
    assert_ok(tl_mask(m, &masked, NULL, 0, (tl_bits){tl_rng_bits, &rng}));
    assert_int_equal(masked.count, 0);
    tl_masked_deinit(&masked);
    tl_masker_free(&m);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    tl_masker *m = masker_of(NULL);
    tl_masked masked = TL_MASKED_INIT;
    tl_rng rng;
    int32_t ids[] = {2, 5, 20, 3};
    tl_rng_init(&rng, 6);
    tl_bits bits = {tl_rng_bits, &rng};
    assert_fails(tl_mask(m, &masked, ids, 4, bits), TL_EINVAL,
                 "piece 2 of the sequence has the id 20; the vocabulary has 20");
    ids[2] = -1;
    assert_fails(tl_mask(m, &masked, ids, 4, bits), TL_EINVAL, "has the id -1");
    tl_masked_deinit(&masked);
    tl_masker_free(&m);
    const tl_masking_config bad = {.max_ngram_size = 65, .do_whole_word_mask = true};
    assert_fails(tl_masker_new(&m, tokenizer, &bad), TL_EINVAL, "max_ngram_size");
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_rounded_to_even), cmocka_unit_test(shares_are_80_10_10),
        cmocka_unit_test(words_are_masked_whole),     cmocka_unit_test(runs_of_words_are_masked),
        cmocka_unit_test(nothing_to_mask_is_fine),    cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
