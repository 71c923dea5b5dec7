#include "text/wordpiece.h"

#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>

static const char *const rule_names[] = {
    [TL_WORDPIECE_HF] = "hf",
    [TL_WORDPIECE_MODEL_GARDEN] = "model_garden",
    [TL_WORDPIECE_TF_TEXT] = "tf_text",
    [TL_WORDPIECE_BERT] = "bert",
};

tl_status tl_wordpiece_rules_find(tl_wordpiece_rules *out, const char *name)
{
    for (int i = 0; i < TL_COUNT(rule_names); i++) {
        *out = (tl_wordpiece_rules)i;
        if (strcmp(rule_names[i], name) == 0) return TL_OK;
    }
    *out = TL_WORDPIECE_HF;
    return TL_FAIL(TL_ENOTFOUND, "'%.80s' is not one of hf, model_garden, tf_text, bert", name);
}

const char *tl_wordpiece_rules_name(tl_wordpiece_rules rules)
{
    return (int)rules >= 0 && (int)rules < TL_COUNT(rule_names) ? rule_names[rules] : "none";
}

/* --- making ----------------------------------------------------------------------------------- */

static void deinit(tl_tokenizer *t)
{
    tli_wordpiece *w = (tli_wordpiece *)t;
    tl_free(w->prefix);
    tl_free(w->wholes);
    TL_VEC_FREE(&w->specials);
    tli_trie_deinit(&w->trie);
    tli_chars_deinit(&w->chars);
}

static const tli_tokenizer_class wordpiece_class = {tli_wordpiece_tokenize, deinit};

/* What vocab.txt does not say. */
static tl_status set_rules(tli_wordpiece *w, const tl_wordpiece_args *args)
{
    static const struct {
        tli_unicode library;
        int64_t most;
    } known[] = {
        [TL_WORDPIECE_HF] = {TLI_UNICODE_TOKENIZERS, 100},
        [TL_WORDPIECE_MODEL_GARDEN] = {TLI_UNICODE_PYTHON, 400},
        [TL_WORDPIECE_TF_TEXT] = {TLI_UNICODE_TF_TEXT, 100},
        [TL_WORDPIECE_BERT] = {TLI_UNICODE_PYTHON, 200},
    };
    if ((int)args->rules < 0 || (int)args->rules >= TL_COUNT(known))
        return TL_FAIL(TL_EINVAL, "rules of WordPiece: %d is none of them", (int)args->rules);
    w->rules = args->rules;
    w->most = known[args->rules].most;
    w->counts_bytes = args->rules == TL_WORDPIECE_TF_TEXT;
    w->chars.rules = (tli_char_rules){.library = known[args->rules].library,
                                      .clean = true,
                                      .ideographs = true,
                                      .strip = !args->cased,
                                      .lower = !args->cased};
    w->prefix = tl_strdup("##");
    return w->prefix ? TL_OK : TL_FAIL_NOMEM(3);
}

tl_status tli_wordpiece_add_special(tli_wordpiece *w, const tli_piece *piece)
{
    if (!piece->size) return TL_OK;
    if (w->specials.count == TLI_MOST_SPECIALS)
        return TL_FAIL(TL_ELIMIT, "'%s': more than %d added tokens", w->base.name,
                       TLI_MOST_SPECIALS);
    tli_special special = {piece->text, piece->size, piece->id};
    uint8_t first = (uint8_t)piece->text[0];
    w->special_first = !w->specials.count || w->special_first == first ? first : -1;
    w->special_begins[first] = true;
    return TL_VEC_PUSH(&w->specials, special) ? TL_OK : TL_ENOMEM;
}

/* tokenizers finds the pieces that models give a meaning to before it does anything else. */
static tl_status add_specials(tli_wordpiece *w)
{
    static const char *const names[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    for (int i = 0; i < TL_COUNT(names) && w->rules == TL_WORDPIECE_HF; i++) {
        const tli_piece *p = tli_vocabulary_find(&w->base.vocabulary, names[i], strlen(names[i]));
        if (p) TL_TRY(tli_wordpiece_add_special(w, p));
    }
    return TL_OK;
}

/* The words that are pieces, and all pieces as trees. */
static tl_status build(tli_wordpiece *w)
{
    const tli_vocabulary *v = &w->base.vocabulary;
    const tli_piece *pieces = v->sorted;
    int64_t count = v->sorted_count, from, to;
    if (count && !pieces[0].size) pieces++, count--; // of empty lines
    TL_TRY_NOTE(tli_trie_add(&w->trie, &w->begin, pieces, count, 0), "'%s'", w->base.name);
    tli_vocabulary_range(v, w->prefix, &from, &to);
    TL_TRY_NOTE(tli_trie_add(&w->trie, &w->go_on, v->sorted + from, to - from, strlen(w->prefix)),
                "'%s'", w->base.name);
    tli_trie_finish(&w->trie);
    for (w->whole_bits = 4; (int64_t)1 << w->whole_bits < 2 * count;) w->whole_bits++;
    size_t places = (size_t)1 << w->whole_bits;
    w->wholes = tl_alloc(places * sizeof *w->wholes);
    if (!w->wholes) return TL_FAIL_NOMEM(places * sizeof *w->wholes);
    for (size_t i = 0; i < places; i++) w->wholes[i] = (tli_whole){.id = -1};
    for (int64_t i = 0; i < count; i++) {
        const tli_piece *p = &pieces[i];
        if (p->size > TLI_WHOLE_BYTES) continue;
        uint64_t low = tli_load_bytes(p->text, p->size),
                 high = p->size > 8 ? tli_load_bytes(p->text + 8, p->size - 8) : 0;
        tli_whole *whole = tli_wordpiece_whole(w, low, high, p->size);
        if (whole) *whole = (tli_whole){{low, high}, p->id, p->size};
    }
    return TL_OK;
}

static void look_at_ascii(tli_wordpiece *w)
{
    w->quick = w->most >= TLI_WHOLE_BYTES;
    for (int i = 0; i < 128; i++) {
        tli_char c = tli_chars_get(&w->chars, (uint32_t)i);
        char text = (char)tli_char_code(c);
        const tli_piece *p = tli_vocabulary_find(&w->base.vocabulary, &text, 1);
        w->ascii[i].kind = (uint8_t)tli_char_kind(c);
        w->ascii[i].letter = (uint8_t)text;
        w->ascii[i].id = p && w->most > 0 ? p->id : w->unknown;
        w->ends[i] = tli_char_kind(c) == TLI_CHAR_SPACE || tli_char_kind(c) == TLI_CHAR_ALONE;
    }
}

static bool is_json(const char *name)
{
    size_t size = strlen(name);
    return size >= 5 && strcmp(name + size - 5, ".json") == 0;
}

static tl_status fill(tli_wordpiece *w, const char *data, size_t size,
                      const tl_wordpiece_args *args)
{
    char *unknown = NULL;
    const char *name = w->base.name;
    tl_status st;
    TL_TRY(set_rules(w, args));
    if (is_json(name)) {
        if (args->rules != TL_WORDPIECE_HF)
            return TL_FAIL(TL_EINVAL,
                           "'%s' holds Hugging Face's rules: give a vocab.txt for the rules %s",
                           name, rule_names[args->rules]);
        TL_TRY_DONE(st, tli_tokenizer_json_read(w, &unknown, data, size));
    } else {
        TL_TRY_DONE(
            st, tli_vocabulary_read(&w->base.vocabulary, name, data, size, w->chars.rules.library));
        TL_TRY_DONE(st, add_specials(w));
    }
    w->base.lowers = w->chars.rules.lower;
    TL_TRY_DONE(st, tl_tokenizer_need(&w->base, unknown ? unknown : "[UNK]", &w->unknown));
    st = build(w);
    if (st == TL_OK) look_at_ascii(w);
done:
    tl_free(unknown);
    return st;
}

tl_status tl_wordpiece_from_memory(tl_tokenizer **out, const char *name, const char *data,
                                   size_t size, const tl_wordpiece_args *args)
{
    TL_TRY(tli_tokenizer_alloc(out, &wordpiece_class, sizeof(tli_wordpiece), name));
    tl_status st = fill((tli_wordpiece *)*out, data, size, args);
    if (st != TL_OK) tl_tokenizer_free(out);
    return st;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Which file of a folder is meant. */
static tl_status choose(const char **path, tl_arena *arena, const tl_wordpiece_args *args)
{
    static const char *const names[] = {"tokenizer.json", "vocab.txt"};
    *path = args->vocab;
    if (!tl_dir_exists(args->vocab)) return TL_OK;
    for (int i = args->rules == TL_WORDPIECE_HF ? 0 : 1; i < TL_COUNT(names); i++) {
        *path = tl_path_join(arena, args->vocab, names[i]);
        if (!*path) return TL_ENOMEM;
        if (tl_file_exists(*path)) return TL_OK;
    }
    return TL_FAIL(TL_ENOTFOUND, "the folder '%s' has no %svocab.txt", args->vocab,
                   args->rules == TL_WORDPIECE_HF ? "tokenizer.json and no " : "");
}

tl_status tl_wordpiece_new(tl_tokenizer **out, const tl_wordpiece_args *args)
{
    tl_arena *arena = NULL;
    const char *path;
    char *data = NULL;
    size_t size;
    tl_status st;
    *out = NULL;
    if (!args->vocab || !*args->vocab)
        return TL_FAIL(TL_EINVAL, "a vocabulary is missing: give a vocab.txt or a tokenizer.json");
    TL_TRY(tl_arena_new(&arena));
    TL_TRY_DONE(st, choose(&path, arena, args));
    TL_TRY_DONE(st, tl_file_read(&data, &size, path, TLI_MOST_VOCABULARY_BYTES));
    st = tl_wordpiece_from_memory(out, path, data, size, args);
done:
    tl_free(data);
    tl_arena_free(&arena);
    return st;
}
