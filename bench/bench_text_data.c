/* Data for pre-training made of text: documents are read and cut into pieces, examples are made and
 * written, a whole file a sample.
 *
 * The text is made up when the program starts: words of syllables, some frequent and most rare, in
 * sentences of some 14 words. The peer is Model Garden's create_pretraining_data
 * (bench/peers/text_data_tf.py), on the same files with the same arguments; its records are the
 * same. It has one thread. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/rng.h>
#include <tilth/text/pretraining.h>

enum { DOCUMENTS = 300, WORDS = 20000, PIECES = 4000, DUPES = 2, PATH = BENCH_FOLDER + 64 };

typedef struct work {
    char folder[BENCH_FOLDER];
    tl_tokenizer *tokenizer;
    tl_pool *pool;
    tl_pretraining_config config;
    int64_t examples;
} work;

/* --- text ------------------------------------------------------------------------------------- */

static void add_syllable(tl_str *out, tl_rng *rng)
{
    tl_str_addc(out, "bcdfghklmnprstvwz"[tl_rng_below(rng, 17)]);
    tl_str_addc(out, "aeiou"[tl_rng_below(rng, 5)]);
}

/* Word `number` has the same syllables wherever it stands. */
static void add_word(tl_str *out, int64_t number)
{
    tl_rng rng;
    tl_rng_init(&rng, (uint64_t)number);
    int64_t syllables = 1 + tl_rng_below(&rng, 3);
    for (int64_t i = 0; i < syllables; i++) add_syllable(out, &rng);
}

static tl_status write_vocabulary(const work *w)
{
    tl_str s = TL_STR_INIT;
    char path[PATH];
    tl_str_add(&s, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n");
    for (char c = 'a'; c <= 'z'; c++) tl_str_addf(&s, "%c\n##%c\n", c, c);
    for (int64_t i = 0; i < WORDS; i++) {
        add_word(&s, i);
        tl_str_addc(&s, '\n');
    }
    for (int64_t i = 0; i < PIECES; i++) {
        tl_str_add(&s, "##");
        add_word(&s, WORDS + i);
        tl_str_addc(&s, '\n');
    }
    snprintf(path, sizeof path, "%s/vocab.txt", w->folder);
    tl_status st = tl_str_status(&s);
    if (st == TL_OK) st = tl_file_write_atomic(path, s.data, s.length);
    tl_str_deinit(&s);
    return st;
}

static void add_sentence(tl_str *out, tl_rng *rng)
{
    int64_t words = 4 + tl_rng_below(rng, 21);
    for (int64_t i = 0; i < words; i++) {
        double rare = tl_rng_uniform_f64(rng);
        if (i) tl_str_addc(out, ' ');
        add_word(out, (int64_t)(WORDS * rare * rare * rare * rare));
        if (tl_rng_below(rng, 8) == 0) add_word(out, WORDS + tl_rng_below(rng, PIECES));
    }
    tl_str_add(out, ".\n");
}

static tl_status write_text(const work *w)
{
    tl_str s = TL_STR_INIT;
    tl_rng rng;
    char path[PATH];
    tl_rng_init(&rng, 1);
    for (int i = 0; i < DOCUMENTS; i++) {
        int64_t sentences = 1 + tl_rng_below(&rng, 60);
        for (int64_t k = 0; k < sentences; k++) add_sentence(&s, &rng);
        tl_str_addc(&s, '\n');
    }
    snprintf(path, sizeof path, "%s/text.txt", w->folder);
    tl_status st = tl_str_status(&s);
    if (st == TL_OK) st = tl_file_write_atomic(path, s.data, s.length);
    tl_str_deinit(&s);
    return st;
}

/* --- a sample --------------------------------------------------------------------------------- */

static tl_status make(work *w)
{
    char from[PATH], to[PATH];
    const char *const outputs[] = {to};
    tl_documents *documents;
    tl_pretraining *examples = NULL;
    tl_status st;
    snprintf(from, sizeof from, "%s/text.txt", w->folder);
    snprintf(to, sizeof to, "%s/ours", w->folder);
    TL_TRY(tl_documents_new(&documents, w->tokenizer, w->pool));
    TL_TRY_DONE(st, tl_documents_add_file(documents, from));
    TL_TRY_DONE(st, tl_pretraining_new(&examples, documents, &w->config));
    w->examples = tl_pretraining_count(examples);
    st = tl_pretraining_write(examples, outputs, 1, NULL);
done:
    tl_pretraining_free(&examples);
    tl_documents_free(&documents);
    return st;
}

static void make_ours(void *payload)
{
    if (make(payload) != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
}

/* --- cases ------------------------------------------------------------------------------------ */

static tl_status run_cases(bench *b, work *w, bench_peer *original)
{
    static const struct {
        const char *name;
        int threads;
        bool whole_words;
    } cases[] = {
        {"examples of masked pieces", 0, false},
        {"examples of masked words", 0, true},
        {"examples of masked pieces, 1 thread", 1, false},
    };
    for (int64_t i = 0; i < TL_COUNT(cases); i++) {
        if (!bench_wants(b, cases[i].name)) continue;
        w->config = (tl_pretraining_config){.base.do_whole_word_mask = cases[i].whole_words,
                                            .dupe_factor = DUPES};
        tl_pool_free(&w->pool);
        TL_TRY(tl_pool_new(&w->pool, cases[i].threads));
        TL_TRY(make(w));
        TL_TRY(bench_run(b, &(bench_case){.name = cases[i].name,
                                          .unit = "/s",
                                          .amount = (double)w->examples,
                                          .ours = make_ours,
                                          .payload = w,
                                          .program = original,
                                          .peer_name = "create_pretraining_data",
                                          .rounds = 5}));
    }
    return TL_OK;
}

static tl_status begin(work *w)
{
    char path[PATH];
    TL_TRY(bench_folder_make(w->folder));
    TL_TRY(write_vocabulary(w));
    TL_TRY(write_text(w));
    snprintf(path, sizeof path, "%s/vocab.txt", w->folder);
    return tl_wordpiece_new(
        &w->tokenizer, &(tl_wordpiece_args){.vocab = path, .rules = TL_WORDPIECE_MODEL_GARDEN});
}

int main(int argc, char **argv)
{
    bench b;
    work w = {0};
    bench_peer original = BENCH_PEER_INIT;
    tl_status st;
    TL_TRY_DONE(st, bench_begin(&b, argc, argv));
    TL_TRY_DONE(st, begin(&w));
    const char *const peer[] = {".venv-tf/bin/python", "bench/peers/text_data_tf.py", w.folder,
                                NULL};
    TL_TRY_DONE(st, bench_peer_start(&original, peer));
    st = run_cases(&b, &w, &original);
done:
    bench_peer_stop(&original);
    tl_pool_free(&w.pool);
    tl_tokenizer_free(&w.tokenizer);
    bench_folder_remove(w.folder);
    return bench_end(&b, st);
}
