#include "zoo/language/pieces.h"

#include <jansson.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/data/image_folder.h>

#define CONFIG_FILE "tokenizer_config.json"
#define RULES_KEY "tilth_rules"
enum { LARGEST_CONFIG = 1 << 20, LARGEST_VOCABULARY = 16 << 20 /* of a note */ };

static const char *const names[] = {"tokenizer.json", "vocab.txt"};

void tli_pieces_deinit(tli_pieces *p)
{
    tl_tokenizer_free(&p->tokenizer);
}

/* --- what lies beside a vocabulary ------------------------------------------------------------ */

static tl_status read_config(tli_pieces_how *how, const char *path, const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    tl_status st = TL_OK;
    if (!json) return TL_FAIL(TL_EDATA, "%s:%d: no JSON: %s", path, error.line, error.text);
    const json_t *lower = json_object_get(json, "do_lower_case"),
                 *rules = json_object_get(json, RULES_KEY);
    if (json_is_boolean(lower) && !how->lower.set)
        how->lower = (tl_opt_bool){true, json_is_true(lower)};
    if (json_is_string(rules)) {
        st = tl_wordpiece_rules_find(&how->rules, json_string_value(rules));
        if (st != TL_OK) st = tl_error_note(st, "%s: " RULES_KEY, path);
    }
    json_decref(json);
    return st;
}

static tl_status write_config(const char **out, tl_arena *arena, const tl_tokenizer *t,
                              tl_wordpiece_rules rules)
{
    *out =
        tl_arena_printf(arena,
                        "{\n  \"tokenizer_class\": \"BertTokenizer\",\n  \"do_lower_case\": "
                        "%s,\n  \"" RULES_KEY "\": \"%s\"\n}\n",
                        tl_tokenizer_lowers(t) ? "true" : "false", tl_wordpiece_rules_name(rules));
    return *out ? TL_OK : TL_ENOMEM;
}

/* --- reading ---------------------------------------------------------------------------------- */

static tl_status keep_text(const char **out, tl_arena *arena, const char *path, size_t limit)
{
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, limit));
    *out = tl_arena_strndup(arena, text, size);
    tl_free(text);
    return *out ? TL_OK : TL_ENOMEM;
}

/* `config`: what lies beside it, or NULL. */
static tl_status open_file(tli_pieces *out, tl_arena *arena, const char *path, const char *config,
                           const tli_pieces_how *how)
{
    tli_pieces_how as = *how;
    tli_pieces p = {0};
    size_t length = strlen(path);
    bool json = length > 5 && strcmp(path + length - 5, ".json") == 0;
    if (config && tl_file_exists(config)) {
        TL_TRY(keep_text(&p.config, arena, config, LARGEST_CONFIG));
        TL_TRY(read_config(&as, config, p.config));
    }
    p.file = names[json ? 0 : 1];
    TL_TRY(keep_text(&p.text, arena, path, LARGEST_VOCABULARY));
    if (json) as.rules = TL_WORDPIECE_HF;
    TL_TRY(tl_wordpiece_from_memory(
        &p.tokenizer, path, p.text, strlen(p.text),
        &(tl_wordpiece_args){.rules = as.rules, .cased = as.lower.set && !as.lower.value}));
    tl_status st = p.config ? TL_OK : write_config(&p.config, arena, p.tokenizer, as.rules);
    if (st != TL_OK) tli_pieces_deinit(&p);
    else *out = p;
    return st;
}

tl_status tli_pieces_find(tli_pieces *out, tl_arena *arena, const char *folder,
                          const tli_pieces_how *how)
{
    const char *config = tl_path_join(arena, folder, CONFIG_FILE);
    if (!config) return TL_ENOMEM;
    for (int i = how->rules == TL_WORDPIECE_HF ? 0 : 1; i < TL_COUNT(names); i++) {
        const char *path = tl_path_join(arena, folder, names[i]);
        if (!path) return TL_ENOMEM;
        if (tl_file_exists(path)) return open_file(out, arena, path, config, how);
    }
    return TL_OK;
}

tl_status tli_pieces_open(tli_pieces *out, tl_arena *arena, const char *path,
                          const tli_pieces_how *how)
{
    if (!tl_dir_exists(path)) return open_file(out, arena, path, NULL, how);
    TL_TRY(tli_pieces_find(out, arena, path, how));
    return out->tokenizer ? TL_OK
                          : TL_FAIL(TL_ENOTFOUND,
                                    "the folder '%s' has no vocab.txt and no tokenizer.json", path);
}

tl_status tli_pieces_of_weights(tli_pieces *out, tl_arena *arena, const char *weights,
                                const tli_pieces_how *how)
{
    if (!weights || !*weights) return TL_OK;
    const char *folder = tl_dir_exists(weights) ? weights : tl_path_dirname(arena, weights);
    if (!folder) return TL_ENOMEM;
    return tli_pieces_find(out, arena, folder, how);
}

tl_status tli_pieces_beside(tli_pieces *out, tl_arena *arena, const char *records,
                            const tli_pieces_how *how)
{
    const char *config = tl_record_companion(arena, records, CONFIG_FILE);
    if (!config) return TL_ENOMEM;
    for (int i = 0; i < TL_COUNT(names); i++) {
        const char *path = tl_record_companion(arena, records, names[i]);
        if (!path) return TL_ENOMEM;
        if (tl_file_exists(path)) return open_file(out, arena, path, config, how);
    }
    return TL_OK;
}

tl_status tli_pieces_take(tli_pieces *out, tl_arena *arena, const char *text,
                          const tli_pieces_how *how)
{
    tli_pieces p = {.file = names[1], .text = tl_arena_strdup(arena, text)};
    if (!p.text) return TL_ENOMEM;
    TL_TRY(tl_wordpiece_from_memory(
        &p.tokenizer, "the vocabulary that was learned", p.text, strlen(p.text),
        &(tl_wordpiece_args){.rules = how->rules, .cased = how->lower.set && !how->lower.value}));
    tl_status st = write_config(&p.config, arena, p.tokenizer, how->rules);
    if (st != TL_OK) tli_pieces_deinit(&p);
    else *out = p;
    return st;
}

tl_status tli_pieces_notes(const tli_pieces *p, tl_notes *into)
{
    if (!p->tokenizer) return TL_OK;
    TL_TRY(tl_notes_put(into, "vocabulary", p->file, p->text));
    return tl_notes_put(into, "tokenizer", CONFIG_FILE, p->config);
}
