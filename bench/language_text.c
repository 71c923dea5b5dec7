/* Text that becomes the numbers of WordPiece, on one thread.
 *
 * The English text is that of this repository's documentation and headers, the other one the first
 * lines of tests/golden/tokenizers_lines.txt, in many scripts. The vocabulary is made of the words
 * that occur often; the others are cut into pieces, one word in six as it is with BERT's own. The
 * peer is Hugging Face's tokenizers (bench/peers/language.py), on one thread too, on the same bytes
 * and with the same vocabulary. A call tokenizes all lines of the text. */
#include "language.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>
#include <tilth/text/tokenizer.h>

enum {
    PATH = BENCH_FOLDER + 64,
    ENGLISH_BYTES = 1 << 20,
    SCRIPT_LINES = 32,
    OFTEN = 12,
    PIECES = 2000
};

/* --- the files -------------------------------------------------------------------------------- */

typedef struct word {
    const char *text;
    int64_t count;
} word;
typedef struct words {
    word *items;
    int64_t count, capacity;
} words;

static tl_status add_file(tl_str *out, const char *path)
{
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, 1 << 24));
    tl_str_addn(out, text, size);
    tl_free(text);
    return tl_str_status(out);
}

static tl_status read_english(tl_str *out)
{
    static const char *const patterns[] = {"README.md", "docs/*.md", "docs/requirements/*.md",
                                           "include/tilth/*/*.h", "include/tilth/*/*/*.h"};
    tl_arena *arena;
    tl_status st = TL_OK;
    TL_TRY(tl_arena_new(&arena));
    for (int i = 0; st == TL_OK && i < TL_COUNT(patterns); i++) {
        tl_path_list files;
        st = tl_glob(&files, arena, patterns[i]);
        for (int64_t k = 0; st == TL_OK && k < files.count; k++) st = add_file(out, files.items[k]);
    }
    size_t all = out->length;
    while (st == TL_OK && all && out->length + all <= ENGLISH_BYTES) {
        char *copy = tl_strdup(out->data);
        if (!copy) st = TL_FAIL_NOMEM(all);
        else tl_str_addn(out, copy, all);
        tl_free(copy);
    }
    tl_arena_free(&arena);
    if (st == TL_OK && !all) st = TL_FAIL(TL_ENOTFOUND, "run it in the folder of the repository");
    return st == TL_OK ? tl_str_status(out) : st;
}

/* The first lines, many times. */
static tl_status read_scripts(tl_str *out)
{
    tl_str all = TL_STR_INIT;
    tl_status st = add_file(&all, "tests/golden/tokenizers_lines.txt");
    const char *end = st == TL_OK ? all.data : NULL;
    for (int i = 0; end && i < SCRIPT_LINES; i++) {
        end = memchr(end, '\n', (size_t)(all.data + all.length - end));
        if (end) end++;
    }
    while (end && out->length < ENGLISH_BYTES && !out->failed)
        tl_str_addn(out, all.data, (size_t)(end - all.data));
    tl_str_deinit(&all);
    return st == TL_OK ? tl_str_status(out) : st;
}

static int by_count(const void *a, const void *b)
{
    const word *p = a, *q = b;
    if (p->count != q->count) return p->count < q->count ? 1 : -1;
    return strcmp(p->text, q->text);
}

/* Counts in the map's values. */
static tl_status count_one(tl_map *counts, const char *text)
{
    uintptr_t count = (uintptr_t)tl_map_get(counts, text);
    return tl_map_set(counts, text, (void *)(count + 1));
}

static tl_status count_words(tl_map *whole, tl_map *parts, const char *text)
{
    char lower[32], part[40];
    for (const char *p = text; *p;) {
        size_t length = 0;
        while (isalnum((unsigned char)p[length])) length++;
        if (length && length < sizeof lower) {
            for (size_t i = 0; i < length; i++) lower[i] = (char)tolower((unsigned char)p[i]);
            lower[length] = '\0';
            TL_TRY(count_one(whole, lower));
            for (size_t cut = 2; cut + 1 < length; cut++) {
                snprintf(part, sizeof part, "##%s", lower + cut);
                TL_TRY(count_one(parts, part));
                snprintf(part, sizeof part, "%.*s", (int)cut, lower);
                TL_TRY(count_one(parts, part));
            }
        }
        p += length ? length : 1;
    }
    return TL_OK;
}

/* The words that occur `least` times, at most `most` of them. */
static tl_status add_often(tl_str *out, const tl_map *counts, int64_t least, int64_t most)
{
    words all = {0};
    for (int64_t i = 0; i < tl_map_count(counts); i++) {
        word w = {tl_map_key(counts, i), (int64_t)(uintptr_t)tl_map_at(counts, i)};
        if (w.count >= least && !TL_VEC_PUSH(&all, w)) return TL_ENOMEM;
    }
    qsort(all.items, (size_t)all.count, sizeof *all.items, by_count);
    for (int64_t i = 0; i < all.count && i < most; i++) tl_str_addf(out, "%s\n", all.items[i].text);
    TL_VEC_FREE(&all);
    return tl_str_status(out);
}

static tl_status make_vocabulary(tl_str *out, const char *text)
{
    tl_map whole = TL_MAP_INIT, parts = TL_MAP_INIT;
    tl_status st;
    tl_str_add(out, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (char c = '!'; c <= '~'; c++) tl_str_addf(out, "%c\n##%c\n", c, c);
    TL_TRY_DONE(st, count_words(&whole, &parts, text));
    TL_TRY_DONE(st, add_often(out, &whole, OFTEN, INT64_MAX));
    st = add_often(out, &parts, OFTEN, PIECES);
done:
    tl_map_deinit(&whole);
    tl_map_deinit(&parts);
    return st;
}

/* --- the cases -------------------------------------------------------------------------------- */

typedef struct work {
    tl_tokenizer *tokenizer;
    tl_str text;
    tl_ids ids;
} work;

static void tokenize_lines(void *payload)
{
    work *w = payload;
    const char *end = w->text.data + w->text.length;
    w->ids.count = 0;
    for (const char *p = w->text.data; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline) newline = end;
        if (tl_tokenize(w->tokenizer, &w->ids, p, (size_t)(newline - p)) != TL_OK) abort();
        p = newline + 1;
    }
    BENCH_KEEP(w->ids.count);
}

static tl_status run_case(bench *b, work *w, bench_peer *peer, const char *folder, const char *name,
                          bool cased, tl_status (*read)(tl_str *out))
{
    char path[PATH];
    tl_status st;
    if (!bench_wants(b, name)) return TL_OK;
    TL_TRY_DONE(st, read(&w->text));
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    TL_TRY_DONE(st, tl_file_write_atomic(path, w->text.data, w->text.length));
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    TL_TRY_DONE(
        st, tl_wordpiece_new(&w->tokenizer, &(tl_wordpiece_args){.vocab = path, .cased = cased}));
    st = bench_run(b, &(bench_case){.name = name,
                                    .unit = "MB/s",
                                    .amount = (double)w->text.length,
                                    .ours = tokenize_lines,
                                    .payload = w,
                                    .program = peer,
                                    .peer_name = "tokenizers, 1 thread",
                                    .sample_s = 0.1,
                                    .rounds = 5});
done:
    tl_tokenizer_free(&w->tokenizer);
    tl_ids_deinit(&w->ids);
    tl_str_deinit(&w->text);
    return st;
}

static tl_status write_vocabulary(const char *folder)
{
    tl_str text = TL_STR_INIT, vocab = TL_STR_INIT;
    char path[PATH];
    tl_status st;
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    TL_TRY_DONE(st, read_english(&text));
    TL_TRY_DONE(st, make_vocabulary(&vocab, tl_str_text(&text)));
    st = tl_file_write_atomic(path, vocab.data, vocab.length);
done:
    tl_str_deinit(&text);
    tl_str_deinit(&vocab);
    return st;
}

/* --- all of them ------------------------------------------------------------------------------ */

tl_status language_text_rows(bench *b, const char *folder)
{
    static const struct {
        const char *name;
        bool cased;
        tl_status (*read)(tl_str *out);
    } cases[] = {
        {"wordpiece", false, read_english},
        {"wordpiece, cased", true, read_english},
        {"wordpiece, many scripts", false, read_scripts},
    };
    const char *const python[] = {".venv/bin/python", "bench/peers/language.py", folder, NULL};
    bench_peer peer = BENCH_PEER_INIT;
    bool wanted = false;
    for (int64_t i = 0; i < TL_COUNT(cases); i++) wanted = wanted || bench_wants(b, cases[i].name);
    if (!wanted) return TL_OK;
    TL_TRY(write_vocabulary(folder));
    tl_status st = bench_peer_start(&peer, python);
    for (int64_t i = 0; st == TL_OK && i < TL_COUNT(cases); i++) {
        work w = {0};
        st = run_case(b, &w, &peer, folder, cases[i].name, cases[i].cased, cases[i].read);
    }
    bench_peer_stop(&peer);
    return st;
}
