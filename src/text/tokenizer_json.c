#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include <tilth/base/alloc.h>

#include "text/wordpiece.h"

/* The file while it is read; places in messages are dotted keys. */
typedef struct reader {
    tli_wordpiece *w;
    const char *name;
    const json_t *root;
} reader;

static tl_status refuse(const reader *r, const char *key, const json_t *found, const char *wanted)
{
    const char *type = json_string_value(found);
    if (!type) type = json_string_value(json_object_get(found, "type"));
    if (type)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': %s is '%.80s', but only %s is understood", r->name,
                       key, type, wanted);
    return TL_FAIL(TL_EINVAL, "'%s': %s must be %s", r->name, key, wanted);
}

/* `key` of an object, which is `place` in messages; without it, `out` stays as it is. */
static tl_status read_bool(const reader *r, bool *out, const json_t *object, const char *place,
                           const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!v) return TL_OK;
    if (!json_is_boolean(v))
        return TL_FAIL(TL_EINVAL, "'%s': %s.%s must be true or false", r->name, place, key);
    *out = json_is_true(v);
    return TL_OK;
}

static tl_status read_normalizer(reader *r)
{
    tli_char_rules *rules = &r->w->chars.rules;
    const json_t *n = json_object_get(r->root, "normalizer");
    const char *type = json_string_value(json_object_get(n, "type"));
    *rules = (tli_char_rules){.library = TLI_UNICODE_TOKENIZERS};
    if (!n || json_is_null(n)) return TL_OK; // text stays as it is
    if (!type || strcmp(type, "BertNormalizer") != 0)
        return refuse(r, "normalizer", n, "BertNormalizer");
    rules->clean = rules->ideographs = rules->lower = true;
    TL_TRY(read_bool(r, &rules->clean, n, "normalizer", "clean_text"));
    TL_TRY(read_bool(r, &rules->ideographs, n, "normalizer", "handle_chinese_chars"));
    TL_TRY(read_bool(r, &rules->lower, n, "normalizer", "lowercase"));
    rules->strip = rules->lower;
    if (json_is_null(json_object_get(n, "strip_accents"))) return TL_OK;
    return read_bool(r, &rules->strip, n, "normalizer", "strip_accents");
}

static tl_status read_pre_tokenizer(const reader *r)
{
    const json_t *p = json_object_get(r->root, "pre_tokenizer");
    const char *type = json_string_value(json_object_get(p, "type"));
    if (type && strcmp(type, "BertPreTokenizer") == 0) return TL_OK;
    return refuse(r, "pre_tokenizer", p, "BertPreTokenizer");
}

/* A copy of a text, or of the default where the model has none. */
static tl_status read_text(const reader *r, char **out, const json_t *model, const char *key,
                           const char *otherwise)
{
    const json_t *v = json_object_get(model, key);
    if (v && !json_is_string(v))
        return TL_FAIL(TL_EINVAL, "'%s': model.%s must be a text", r->name, key);
    tl_free(*out);
    *out = tl_strdup(v ? json_string_value(v) : otherwise);
    return *out ? TL_OK : TL_FAIL_NOMEM(1);
}

static tl_status read_vocabulary(const reader *r, json_t *vocab)
{
    tli_vocabulary *v = &r->w->base.vocabulary;
    const char *piece;
    json_t *id;
    if (!json_is_object(vocab))
        return TL_FAIL(TL_EINVAL, "'%s': model.vocab must be an object of pieces and numbers",
                       r->name);
    json_object_foreach(vocab, piece, id)
    {
        if (!json_is_integer(id))
            return TL_FAIL(TL_EINVAL, "'%s': model.vocab: the number of '%.80s' is no integer",
                           r->name, piece);
        TL_TRY_NOTE(tli_vocabulary_add(v, json_integer_value(id), piece, strlen(piece)),
                    "'%s': model.vocab", r->name);
    }
    return TL_OK;
}

static tl_status read_model(reader *r, char **unknown)
{
    tli_wordpiece *w = r->w;
    const json_t *model = json_object_get(r->root, "model");
    const json_t *type = json_object_get(model, "type"),
                 *most = json_object_get(model, "max_input_chars_per_word");
    // Files of old versions do not name the type.
    bool old = !type && json_object_get(model, "continuing_subword_prefix");
    if (!old && (!json_is_string(type) || strcmp(json_string_value(type), "WordPiece") != 0))
        return refuse(r, "model", model, "WordPiece");
    TL_TRY(read_text(r, unknown, model, "unk_token", "[UNK]"));
    TL_TRY(read_text(r, &w->prefix, model, "continuing_subword_prefix", "##"));
    if (most) {
        w->most = json_integer_value(most);
        if (!json_is_integer(most) || w->most < 0 || w->most > TLI_MOST_WORD_CHARS)
            return TL_FAIL(TL_EINVAL,
                           "'%s': model.max_input_chars_per_word must be a number from 0 to %d",
                           r->name, TLI_MOST_WORD_CHARS);
    }
    return read_vocabulary(r, json_object_get(model, "vocab"));
}

/* Pieces that are found in the text as it is. What is around them does not matter: space is left
 * out anyway (lstrip, rstrip). */
static tl_status read_added(const reader *r, const json_t *added, tl_str *texts)
{
    const char *text = json_string_value(json_object_get(added, "content"));
    const json_t *id = json_object_get(added, "id");
    bool single = false, normalized = false;
    if (!text || !json_is_integer(id))
        return TL_FAIL(TL_EINVAL, "'%s': added_tokens: an entry has no content or no id", r->name);
    TL_TRY(read_bool(r, &single, added, "added_tokens", "single_word"));
    TL_TRY(read_bool(r, &normalized, added, "added_tokens", "normalized"));
    if (single || normalized)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s': added_tokens: '%.80s' is %s, which is not understood", r->name, text,
                       single ? "looked for as a word (single_word)"
                              : "looked for in normalized text (normalized)");
    tli_vocabulary *v = &r->w->base.vocabulary;
    const char *known = tli_vocabulary_piece(v, json_integer_value(id));
    if (!known || strcmp(known, text) != 0)
        TL_TRY_NOTE(tli_vocabulary_add(v, json_integer_value(id), text, strlen(text)),
                    "'%s': added_tokens", r->name);
    tl_str_addn(texts, text, strlen(text) + 1);
    return tl_str_status(texts);
}

static tl_status read_all(reader *r, char **unknown, tl_str *texts)
{
    const json_t *added = json_object_get(r->root, "added_tokens");
    size_t i;
    json_t *one;
    if (!json_is_object(r->root))
        return TL_FAIL(TL_EINVAL, "'%s' is no tokenizer.json: it must be an object", r->name);
    TL_TRY(read_model(r, unknown));
    TL_TRY(read_normalizer(r));
    TL_TRY(read_pre_tokenizer(r));
    if (added && !json_is_array(added))
        return TL_FAIL(TL_EINVAL, "'%s': added_tokens must be a list", r->name);
    json_array_foreach(added, i, one) TL_TRY(read_added(r, one, texts));
    TL_TRY(tli_vocabulary_finish(&r->w->base.vocabulary));
    for (const char *t = tl_str_text(texts); t < tl_str_text(texts) + texts->length;
         t += strlen(t) + 1)
        TL_TRY(tli_wordpiece_add_special(
            r->w, tli_vocabulary_find(&r->w->base.vocabulary, t, strlen(t))));
    return TL_OK;
}

tl_status tli_tokenizer_json_read(tli_wordpiece *w, char **unknown, const char *data, size_t size)
{
    const char *name = w->base.name;
    tl_str texts = TL_STR_INIT; // of special pieces, each with its NUL
    json_error_t error;
    json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        // Where the parser finds no memory it often says nothing at all.
        if (!error.text[0] || json_error_code(&error) == json_error_out_of_memory)
            return TL_FAIL_NOMEM(size);
        return TL_FAIL(TL_EINVAL, "'%s', line %d: %s", name, error.line, error.text);
    }
    reader r = {w, name, root};
    tl_status st = read_all(&r, unknown, &texts);
    tl_str_deinit(&texts);
    json_decref(root);
    return st;
}
